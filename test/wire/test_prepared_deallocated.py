"""
DEALLOCATE ALL and DISCARD ALL in a pipeline: a later name has its meaning after the command is answered. Each conversation is compared with that of a
server without a pooler. The server of pgweir has room for one statement, the last: only pgweir knows the others, and prepares them again.
"""
import pytest

from support import messages as m
from support.prepared import FAIL, FORGET, ONE, P1, P2, TWO, Stage, use
from support.takeover import Replaced

USES = {"bind": use("s1"), "describe": m.describe("S", "s1"), "close": m.close("S", "s1") + use("s1"), "parse": P1 + use("s1")}
# in other letters, and not at the beginning
TEXTS = FORGET + ("DEALLOCATE ALL; echo x", "echo x; DEALLOCATE ALL", "Discard All")


def both_of(scene, *behind):
    stage = Stage(scene, max_prepared_statements=1)
    both = stage.both()
    both.ask(P1, P2, *behind, m.sync())
    return stage, both


@pytest.mark.parametrize("what", USES)
@pytest.mark.parametrize("text", TEXTS)
def test_names_after_a_query(scene, text, what):
    stage, both = both_of(scene)
    both.ask_all(2, m.query(text), USES[what], m.sync())
    both.ask(use("s1"), use("s2"), m.sync())
    stage.check_names()


@pytest.mark.parametrize("what", USES)
@pytest.mark.parametrize("way", ["unnamed", "named", "in batches"])
@pytest.mark.parametrize("text", FORGET)
def test_names_after_an_execute(scene, text, way, what):
    """Within its batch, too, where the client's Sync is not here yet."""
    stage, both = both_of(scene, m.parse(text, "all"))
    run = {"unnamed": m.run(text), "named": use("all"), "in batches": m.parse(text) + m.sync() + m.bind() + m.execute() + m.sync()}[way]
    both.ask_all(3 if way == "in batches" else 1, run, USES[what], use("s2"), m.sync())
    both.ask(use("s2"), m.sync())
    both.ask_all(2, P1, m.sync(), use("s1"), m.sync())
    stage.check_names()


def test_incomplete_text(scene):
    """If a part of a Query was forwarded before the rest arrived, its meaning is unknown."""
    stage, both = both_of(scene)
    query = m.query("echo x; " + " " * 60000 + "DEALLOCATE ALL")
    both.send(query[:100])
    stage.weir.barrier()
    both.send(query[100:], use("s1"), m.sync())
    both.heard()
    assert both.heard().errors[0]["C"] == "26000"


@pytest.mark.parametrize("skipped", [False, True])
def test_unnamed_statement_in_a_later_batch(scene, skipped):
    """The text of the unnamed statement is kept, also if its replacement is skipped."""
    _, both = both_of(scene)
    both.ask(m.parse("DEALLOCATE ALL"), m.sync())
    if skipped:
        both.ask(m.bind("missing"), m.parse(ONE), m.sync())
        both.send(m.bind("missing"), m.parse(TWO), m.sync())
        both.heard()
    results = both.ask_all(2, m.bind() + m.execute(), m.sync(), use("s1"), m.sync())
    assert results[1].errors[0]["C"] == "26000"
    # and a statement that has taken its place forgets nothing
    both.ask(P1, P2, m.parse(ONE), m.sync())
    assert not both.ask_all(2, m.bind() + m.execute(), m.sync(), use("s1"), m.sync())[1].errors


def test_a_portal_that_is_executed_later(scene):
    _, both = both_of(scene, m.parse("DEALLOCATE ALL", "all"))
    both.ask(m.query("BEGIN"))
    both.ask(m.bind("all", "p"), m.sync())
    both.ask(use("s2"), m.sync())
    result = both.ask(m.execute("p"), use("s1"), m.sync())
    assert result.errors[0]["C"] == "26000"


def test_failed_command_forgets_nothing(scene):
    _, both = both_of(scene)
    both.ask(m.query("BEGIN"))
    assert not both.ask_all(2, m.query("ROLLBACK; fail; DEALLOCATE ALL"), use("s1"), m.sync())[1].errors
    both.ask_all(2, FAIL, m.run("DEALLOCATE ALL"), use("s1"), m.sync(), use("s1"), m.sync())


@pytest.mark.parametrize("forget", FORGET)
def test_during_an_online_restart(scene, forget):
    """The new process takes over a pipeline that the old process has forwarded in part."""
    fake = scene.mini()
    weir = scene.weir(fake, kind=Replaced, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(P1, m.sync())
    client.expect_all("1Z")
    weir.admin("RECONNECT")
    client.send(m.query("wait; " + forget))
    fake.until(lambda: any(sql == "wait" for _, sql in fake.queries), "the query waits")
    weir.replace()
    client.send(use("s1"), m.sync())
    weir.barrier()
    fake.release()
    assert not client.result().errors
    assert client.result().errors[0]["C"] == "26000"


def test_other_queries_cause_no_wait(scene):
    """Other queries do not cause a wait: many drivers send a BEGIN before a Bind. A query of a finished transaction causes no wait either."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(P1, m.sync())
    server = fake.accept()
    server.expect_all("PDS")
    server.send(m.parsed(), m.ready())
    client.expect_all("1Z")
    for _ in range(2):
        client.send(m.query("BEGIN"), use("s1"), m.sync(), m.query("COMMIT"), m.describe("S", "s1"), m.sync())
        server.expect_all("QBESQDS")
        server.send(m.command_complete("BEGIN"), m.ready("T"), m.bind_complete(), m.command_complete("SELECT 0"), m.ready("T"),
                    m.command_complete("COMMIT"), m.ready(), m.parameter_description(), m.no_data(), m.ready())
        client.expect_all("CZ2CZCZtnZ")
        client.send(m.query("DISCARD TEMP"), use("s1"), m.sync())
        server.expect("Q")
        server.expect("H")
        weir.barrier()
        assert not server.has_input()
        server.send(m.command_complete("DISCARD TEMP"), m.ready())
        server.expect_all("BES")
        server.send(m.bind_complete(), m.command_complete("SELECT 0"), m.ready())
        client.expect_all("CZ2CZ")
