"""
Traps 22, 23, 25, 26: prepared statements in pipelines. Some facts are known when a message is sent, others only when it is answered; a message
skipped by an error has no effect, and a message before the error has.
"""
import itertools

import pytest

from support import messages as m
from support.prepared import C1, C2, FAIL, FORGET, ONE, P1, P2, TWO, Stage, let_go, occupy, use
from support.scenes import transactions

# --- trap 22: answers of pgweir itself among those of the server

@pytest.mark.parametrize("cache", [1, 2, 200])
def test_trap_22_parse_and_close_in_all_orders(scene, cache):
    """An answer of the pooler got stuck after a message that the server skipped."""
    stage = Stage(scene, max_prepared_statements=cache)
    other = stage.both()
    other.ask(m.parse("echo other", "s1"), m.sync())
    for order in itertools.permutations((P1, P2, C1, C2)):
        both = stage.both()
        both.ask(*order, m.sync())
        for name in ("s1", "s2"):
            both.ask(use(name), m.sync())
        assert other.ask(use("s1"), m.sync()).value == "echo other"
        both.ask(*order, m.sync())
        both.ask(use("s1"), use("s2"), m.sync())
        both.ask(use("s2"), use("s1"), m.sync())
        both.quit()
    stage.check_bound(cache)
    stage.check_names()


@pytest.mark.parametrize("cache", [1, 200])
@pytest.mark.parametrize("wrong", [FAIL, m.bind("nobody"), m.parse("badparse", "bad")], ids=["fail", "bind", "parse"])
def test_trap_22_an_error_at_every_position(scene, cache, wrong):
    """Messages after an error are neither answered nor executed."""
    stage = Stage(scene, max_prepared_statements=cache)
    other = stage.both()
    other.ask(m.parse("echo other", "s1"), m.sync())
    for order in itertools.permutations((P1, P2, C1, C2)):
        both = stage.both()
        for place in range(5):
            both.ask(*order[:place], wrong, *order[place:], m.sync())
            both.ask(use("s1"), m.sync())
            both.ask(use("s2"), m.sync())
        assert other.ask(use("s1"), m.sync()).value == "echo other"
        both.quit()
    stage.check_bound(cache)
    stage.check_names()


@pytest.mark.parametrize("cache", [1, 2, 200])
def test_trap_22_all_in_one_write(scene, cache):
    """No failure is known yet when the next message arrives."""
    stage = Stage(scene, max_prepared_statements=cache)
    for order in itertools.permutations((P1, P2, C1, FAIL)):
        both = stage.both()
        both.ask_all(6, *order, m.sync(), use("s1"), m.sync(), use("s2"), m.sync(), P1, P2, m.sync(), use("s2"), use("s1"),
                     m.sync(), use("s1"), m.sync())
        both.quit()
    stage.check_names()


def test_trap_22_known_statements_wait_for_their_turn(scene):
    """pgweir's own answers come when all before them have come."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    first, client = weir.client(), weir.client()
    first.send(P1, m.sync())
    server = fake.accept()
    shared = m.read_parse(server.expect("P").body)[0]
    server.expect_all("DS")
    server.send(m.parsed(), m.ready())
    first.expect_all("1Z")
    client.send(m.parse("x"), m.describe("S"), m.parse(ONE, "mine"), m.bind("mine"), m.close("S", "mine"), m.parse(ONE, "mine"),
                m.sync())
    server.expect_all("PD")
    assert m.read_cstrings(server.expect("B").body)[1] == shared
    server.expect("S")
    weir.barrier()
    assert not client.has_input()
    server.send(m.parse_complete(), m.parameter_description())
    client.expect_all("1t")
    weir.barrier()
    assert not client.has_input()
    server.send(m.no_data())
    client.expect("n")
    server.send(m.bind_complete())
    client.expect_all("12")
    server.send(m.ready())
    client.expect_all("31Z")


def test_trap_22_known_statements_are_not_answered_after_an_error(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    first, client = weir.client(), weir.client()
    first.send(P1, m.sync())
    server = fake.accept()
    server.expect_all("PDS")
    server.send(m.parsed(), m.ready())
    first.expect_all("1Z")
    client.send(m.parse("x"), m.describe("S"), m.parse(ONE, "mine"), m.close("S", "mine"), m.parse(ONE, "mine"), m.sync(),
                m.bind("mine"), m.sync())
    server.expect_all("PDS")
    server.send(m.parse_complete(), m.error("no"), m.ready())
    client.expect_all("1EZ")
    # the server must detect the error, so that it rolls earlier work back
    asked = m.read_cstrings(server.expect("B").body)[1]
    server.expect("S")
    server.send(m.error('prepared statement "%s" does not exist' % asked, "26000"), m.ready())
    result = client.result()
    assert result.types == "EZ" and result.error == 'prepared statement "mine" does not exist'


def test_trap_22_parse_of_a_known_text_and_flush(scene):
    """Nothing is on its way that the answer could come with."""
    stage = Stage(scene)
    stage.both().ask(P1, m.sync())
    both = stage.both()
    for _ in range(3):
        both.send(P1, m.flush())
        assert both.heard("1").types == "1"
        both.send(C1, m.flush())
        assert both.heard("3").types == "3"
        both.send(m.close("S", "nobody"), m.flush())
        assert both.heard("3").types == "3"
        both.send(P1, use("s1"), m.flush())
        assert both.heard("C").types == "12DC"
        both.send(C1, m.flush())
        assert both.heard("3").types == "3"
        assert both.ask(m.sync()).types == "Z"
    assert stage.parsed() == [ONE]


def test_trap_22_flush_after_an_error(scene):
    stage = Stage(scene, max_prepared_statements=1)
    stage.both().ask(P1, m.sync())
    both = stage.both()
    both.send(FAIL, m.flush())
    both.heard("E")
    both.send(P1, m.flush(), C1, m.flush(), P2, use("s1"), m.flush())
    stage.weir.barrier()
    assert not both.client.has_input()
    assert both.ask(m.sync()).types == "Z"
    assert both.ask(use("s1"), m.sync()).types == "EZ"
    assert both.ask(P1, P2, use("s1"), use("s2"), m.sync()).types == "112DC2DCZ"


@pytest.mark.parametrize("cache", [1, 2])
def test_trap_22_eviction_that_the_server_skips(scene, cache):
    """Close of the least recently used statement, after an error: the server still has it."""
    stage = Stage(scene, max_prepared_statements=cache)
    both = stage.both()
    names = [str(n) for n in range(cache + 1)]
    for name in names[:-1]:
        both.ask(m.parse("echo " + name, name), m.sync())
    for turn in range(4):
        both.ask(FAIL, m.parse("echo " + names[-1], names[-1]), use(names[-1]), m.sync())
        for name in names[:-1]:
            assert both.ask(use(name), m.sync()).value == "echo " + name, turn
    both.ask(m.parse("echo " + names[-1], names[-1]), m.sync())
    for turn in range(4):
        for name in reversed(names):
            both.ask(FAIL, use(name), m.sync())
            assert both.ask(use(name), m.sync()).value == "echo " + name, turn
        # evictions that are all skipped, and later ones that are not
        both.ask_all(3, FAIL, *map(use, names), m.sync(), *map(use, names), m.sync(), *map(use, reversed(names)), m.sync())
    stage.check_bound(cache)
    stage.check_names()


# --- trap 23: DEALLOCATE ALL and DISCARD ALL

@pytest.mark.parametrize("forget", FORGET)
def test_trap_23_later_names_are_kept(scene, forget):
    """Its completion removed names that were parsed later in the same pipeline."""
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    assert both.ask(m.run(forget), m.parse(TWO, "x"), m.sync()).types == "12nC1Z"
    assert both.ask(use("x"), m.sync()).value == TWO
    assert both.ask(use("s1"), m.sync()).errors[0]["C"] == "26000"
    both.ask(P1, use("s1"), m.sync())


@pytest.mark.parametrize("forget", FORGET)
def test_trap_23_the_same_name_before_and_after_it(scene, forget):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    both.ask(use("s1"), m.run(forget), m.parse(TWO, "s1"), use("s1"), m.sync())
    assert both.ask(use("s1"), m.sync()).value == TWO
    both.ask(m.run(forget), m.parse(TWO, "s1"), use("s1"), m.sync())
    assert both.ask(use("s1"), m.sync()).value == TWO
    # all of it before anything is answered
    both.ask_all(4, m.run(forget), m.sync(), P1, m.sync(), use("s1"), m.sync(), use("s1"), m.sync())
    both.ask_all(4, m.query(forget), P1, m.sync(), m.query(forget), use("s1"), m.sync())
    both.ask_all(3, m.query(forget), use("s1"), P1, m.sync(), use("s1"), m.sync())


@pytest.mark.parametrize("forget", FORGET + ("DEALLOCATE ALL; echo x", "echo x; DEALLOCATE ALL", "deallocate all"))
def test_trap_23_as_a_simple_query(scene, forget):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, P2, m.sync())
    both.ask(m.query(forget))
    for name in ("s1", "s2"):
        assert both.ask(use(name), m.sync()).errors[0]["C"] == "26000"
        assert both.ask(m.describe("S", name), m.sync()).errors[0]["C"] == "26000"
    both.ask(P1, use("s1"), m.sync())
    assert stage.columns() == [1]


@pytest.mark.parametrize("forget", FORGET)
def test_trap_23_only_the_clients_own_statements_are_forgotten(scene, forget):
    """The server also forgets the statements of other clients: they are prepared again."""
    stage = Stage(scene, 2)
    one, two, third = stage.both(), stage.both(), stage.both()
    for both in (one, two, third):
        both.ask(P1, P2, m.sync())
    one.ask(m.query(forget))
    assert one.ask(use("s1"), m.sync()).types == "EZ"
    for both in (two, third):
        assert both.ask(use("s1"), m.describe("S", "s2"), m.sync()).types == "2DCtTZ"
    others = occupy(stage)
    one.ask(m.query(forget))
    assert two.ask(use("s2"), m.sync()).value == TWO
    let_go(others)
    assert third.ask(use("s2"), m.sync()).value == TWO
    assert one.ask(P1, use("s1"), m.sync()).types == "12DCZ"
    stage.check_names()


@pytest.mark.parametrize("forget", FORGET)
def test_trap_23_on_a_server_without_statements(scene, forget):
    """The client's statements are forgotten also if its current server has nothing to forget."""
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    stage.weir.admin("RECONNECT")
    both.ask(m.query(forget))
    assert len(stage.fake.started) == 2
    assert both.ask(P1, m.sync()).types == "1Z"
    assert both.ask(use("s1"), m.sync()).value == ONE


def test_trap_23_failed_command_forgets_nothing(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    both.ask(m.query("BEGIN"))
    both.ask(m.query("DISCARD ALL"))
    both.ask(m.query("DEALLOCATE ALL"))
    both.ask(m.query("ROLLBACK"))
    assert both.ask(use("s1"), m.sync()).value == ONE
    both.ask(FAIL, m.run("DEALLOCATE ALL"), m.sync())
    assert both.ask(use("s1"), m.sync()).value == ONE
    both.ask_all(2, FAIL, m.run("DEALLOCATE ALL"), m.sync(), use("s1"), m.sync())
    # and a command that a rollback reverts has happened all the same
    both.ask(m.query("BEGIN; DEALLOCATE ALL; fail"))
    both.ask(m.query("ROLLBACK"))
    assert both.ask(use("s1"), m.sync()).types == "EZ"


def test_trap_23_in_a_statement_with_a_name(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.parse("DEALLOCATE ALL", "all"), m.sync())
    both.ask(use("all"), P2, m.sync())
    assert both.ask(use("s2"), m.sync()).value == TWO
    assert both.ask(use("s1"), m.sync()).types == "EZ"
    assert both.ask(use("all"), m.sync()).types == "EZ"


def test_trap_23_similar_rows_and_tags_have_no_effect(scene):
    """Only a CommandComplete of just these words."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(P1, m.sync())
    server = fake.accept()
    shared = m.read_parse(server.expect("P").body)[0]
    server.expect_all("DS")
    server.send(m.parsed(), m.ready())
    client.expect_all("1Z")
    for said in (m.rows("DEALLOCATE ALL", "DISCARD ALL"), m.command_complete("DEALLOCATE"), m.command_complete("DISCARD PLANS"),
                 m.command_complete("DISCARD TEMP"), m.command_complete("DEALLOCATE ALLE"), m.notice("DISCARD ALL")):
        client.send(m.query("x"))
        server.expect_query("x")
        server.send(said, m.command_complete("X"), m.ready())
        assert not client.result().errors
        client.send(m.bind("s1"), m.sync())
        assert m.read_cstrings(server.expect("B").body)[1] == shared
        server.expect("S")
        server.send(m.bind_complete(), m.ready())
        client.expect_all("2Z")


# --- trap 25: the least recently used statement is evicted, but not while it is needed

@pytest.mark.parametrize("ends", ["sync", "flush"])
def test_trap_25_eviction_after_the_bind_that_needs_it(scene, ends):
    """Parse A, Bind A, Parse C evicts A: Bind and Execute of A are still on their way."""
    stage = Stage(scene, max_prepared_statements=1)
    for _ in range(3):
        both = stage.both()
        if ends == "sync":
            both.ask(m.parse(ONE, "a"), m.bind("a"), m.parse(TWO, "c"), m.execute(), m.sync())
        else:
            both.send(m.parse(ONE, "a"), m.bind("a"), m.parse(TWO, "c"), m.flush())
            assert both.heard("1").types == "1" and both.heard("1").types == "21"
            both.send(m.execute(), m.flush())
            assert both.heard("C").types == "DC"
            both.ask(m.sync())
        assert both.ask(use("a"), m.sync()).value == ONE
        assert both.ask(use("c"), m.sync()).value == TWO
        both.quit()
    stage.check_bound(1)


@pytest.mark.parametrize("cache", [1, 2, 3])
def test_trap_25_more_in_a_pipeline_than_the_server_may_have(scene, cache):
    stage = Stage(scene, max_prepared_statements=cache)
    both, other = stage.both(), stage.both()
    names = ["a", "b", "c", "d", "e"]
    other.ask(m.parse("echo other", "other"), m.sync())
    both.ask(*(m.parse("echo " + name, name) for name in names), m.sync())
    for order in itertools.permutations(names, 3):
        result = both.ask(*(use(name) for name in order + order), m.sync())
        assert [row for (row,) in result.rows] == [b"echo " + name.encode() for name in order + order]
        stage.check_bound(cache)
    both.ask(*(m.bind(name, name) for name in names), *(m.describe("S", name) for name in names),
             *(m.execute(name) for name in names), m.sync())
    assert other.ask(use("other"), m.sync()).value == "echo other"
    stage.check_bound(cache)
    stage.check_names()


def test_trap_25_least_recently_used_statement_is_evicted(scene):
    stage = Stage(scene, max_prepared_statements=3)
    both = stage.both()
    for name in "abc":
        both.ask(m.parse("echo " + name, name), m.sync())
    both.ask(use("a"), m.sync())
    both.ask(m.describe("S", "b"), m.sync())
    before = len(stage.log("P"))
    both.ask(m.parse("echo d", "d"), m.sync())
    closed = [entry[2] for entry in stage.log("C")]
    assert closed == [stage.name_of("echo c")]
    both.ask(use("a"), use("b"), use("d"), m.sync())
    assert len(stage.log("P")) == before + 1
    both.ask(use("c"), m.sync())
    assert [entry[2] for entry in stage.log("C")][1:] == [stage.name_of("echo a")]


def test_trap_25_a_client_that_closes_does_not_close_it_at_the_server(scene):
    stage = Stage(scene)
    both, other = stage.both(), stage.both()
    both.ask(P1, use("s1"), C1, m.sync())
    assert stage.kinds() == "PDB"
    other.ask(P1, m.sync())
    both.ask(P1, use("s1"), m.sync())
    both.quit()
    assert other.ask(use("s1"), m.sync()).value == ONE
    assert stage.kinds() == "PDBBB"


def test_trap_25_answers_to_evictions_reach_no_client(scene):
    """Byte by byte from the server, two clients in turn on it."""
    stage = Stage(scene, byte_by_byte=True, max_prepared_statements=1)
    one, two = stage.both(), stage.both()
    one.ask(P1, P2, m.sync())
    two.ask(m.parse("echo three", "s1"), m.sync())
    for _ in range(3):
        one.send(use("s1"), use("s2"), m.sync())
        two.send(use("s1"), m.describe("S", "s1"), m.sync())
        assert one.heard().types == "2DC2DCZ" and two.heard().types == "2DCtTZ"


def test_trap_25_a_portal_outlives_its_statement(scene):
    stage = Stage(scene, max_prepared_statements=1)
    both = stage.both()
    both.ask(m.parse("series 20", "a"), m.sync())
    both.ask(m.query("BEGIN"))
    both.ask(m.bind("a", "p"), m.execute("p", 5), m.sync())
    both.ask(P1, use("s1"), P2, use("s2"), m.sync())
    both.ask(m.execute("p", 5), m.sync())
    both.ask(m.close("S", "a"), m.execute("p", 5), m.sync())
    assert both.ask(m.execute("p"), m.sync()).types == "DDDDDCZ"
    both.ask(m.query("COMMIT"))


# --- trap 26: the server has a statement when it says so

def test_trap_26_a_text_that_failed_is_not_known(scene):
    """Marked as prepared before the server had confirmed it; others then used it."""
    stage = Stage(scene)
    one, two = stage.both(), stage.both()
    for both in (one, two, one):
        result = both.ask(m.parse("badparse x", "s"), m.sync())
        assert result.errors[0]["C"] == "42601"
        assert both.ask(use("s"), m.sync()).errors[0]["C"] == "26000"
    assert stage.columns("CLIENTS") == [0, 0] and stage.columns("SERVERS") == [0]
    # the name is free
    assert one.ask(m.parse(ONE, "s"), use("s"), m.sync()).types == "12DCZ"


def test_trap_26_a_text_that_failed_may_succeed_later(scene):
    stage = Stage(scene)
    one, two = stage.both(), stage.both()
    assert one.ask(m.parse("shape t", "s"), m.sync()).errors[0]["C"] == "42P01"
    stage.shape("t", "v")
    assert two.ask(m.parse("shape t", "s"), use("s"), m.sync()).value == "v of t"
    assert one.ask(use("s"), m.sync()).types == "EZ"
    assert one.ask(m.parse("shape t", "s"), use("s"), m.sync()).value == "v of t"


def test_trap_26_a_text_that_succeeded_may_fail_elsewhere(scene):
    """The Parse that pgweir puts in front fails: the client receives this error in place of its own message's answer."""
    stage = Stage(scene, 2)
    client = stage.client()
    stage.shape("t", "v")
    client.send(m.parse("shape t", "s"), m.sync())
    client.expect_all("1Z")
    others = occupy(stage)
    del stage.fake.shapes["t"]
    for asked in (use("s"), m.describe("S", "s"), m.bind("s")):
        client.send(asked, m.run("skipped"), m.sync())
        result = client.result()
        assert result.types == "EZ" and result.errors[0]["C"] == "42P01", result.messages
    assert not [text for _, text in stage.fake.queries if text == "skipped"]
    # the client's statement is still there, and works as soon as it can
    stage.fake.shapes["t"] = "v"
    client.send(use("s"), m.sync())
    assert client.result().value == "v of t"
    let_go(others)
    stage.check_names()


def test_trap_26_failed_text_in_a_transaction(scene):
    stage = Stage(scene, 2)
    client = stage.client()
    stage.shape("t", "v")
    client.send(m.parse("shape t", "s"), m.sync())
    client.expect_all("1Z")
    others = occupy(stage)
    del stage.fake.shapes["t"]
    client.query("BEGIN")
    client.query("insert lost")
    client.send(use("s"), m.sync())
    assert client.result().status == "E"
    assert client.query("COMMIT").tags == ["ROLLBACK"]
    client.send(m.run("insert lost"), use("s"), m.sync())
    assert client.result().types == "12nCEZ"
    let_go(others)
    assert not stage.fake.kept


@pytest.mark.parametrize("leave", ["quit", "close", "abort"])
@pytest.mark.parametrize("sent", [P1, P1 + m.flush(), P1 + m.bind("s1"), P1[:-1], P1[:7]])
def test_trap_26_client_disconnects_before_its_sync(scene, leave, sent):
    stage = Stage(scene)
    for _ in range(3):
        client = stage.weir.connect()
        client.login(user="app", database="p0")
        client.send(sent)
        stage.weir.barrier()
        getattr(client, leave)()
        both = stage.both()
        assert both.ask(P1, use("s1"), m.sync()).types == "12DCZ"
        both.quit()
    stage.check_names()


def test_trap_26_a_parse_that_was_skipped_has_not_happened(scene):
    stage = Stage(scene)
    one, two = stage.both(), stage.both()
    one.ask(FAIL, P1, use("s1"), m.sync())
    assert one.ask(use("s1"), m.sync()).errors[0]["C"] == "26000"
    assert two.ask(P1, m.sync()).types == "1Z"
    assert two.ask(use("s1"), m.sync()).value == ONE
    assert one.ask(P1, m.sync()).types == "1Z"
    assert stage.parsed() == [ONE]
    assert one.ask(use("s1"), m.sync()).value == ONE


def test_trap_26_a_parse_before_an_error_has_happened(scene):
    """Prepared statements are not part of a transaction."""
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(P1, FAIL, P2, m.sync())
    assert both.ask(use("s1"), m.sync()).value == ONE
    assert both.ask(use("s2"), m.sync()).types == "EZ"
    both.ask(m.query("BEGIN"))
    both.ask(P2, m.sync())
    both.ask(m.query("ROLLBACK"))
    others = occupy(stage)
    assert both.ask(use("s2"), m.sync()).value == TWO
    let_go(others)


def test_trap_26_not_confirmed_when_the_next_one_asks(scene):
    """A second pipeline, sent before any answer to the first, depends on its outcome."""
    stage = Stage(scene)
    batches = (FAIL + P1, P1, P1 + FAIL, C1, FAIL + C1, C1 + P1, C1 + FAIL + P1)
    for first, second in itertools.product(batches, repeat=2):
        both = stage.both()
        both.ask_all(4, first, m.sync(), second, m.sync(), P1, use("s1"), m.sync(), use("s1"), m.sync())
        both.ask_all(3, first, m.sync(), use("s1"), m.sync(), second, m.describe("S", "s1"), m.sync())
        both.quit()
    stage.check_names()


@pytest.mark.parametrize("block", ["BEGIN", "BEGIN; fail"])
def test_trap_26_not_confirmed_within_a_transaction(scene, block):
    """Whether the transaction is aborted is not known either."""
    stage = Stage(scene)
    stage.both().ask(P1, P2, m.parse("ROLLBACK", "end"), m.sync())
    for first in (P2 + use("s2"), FAIL, m.bind("nobody")):
        both = stage.both()
        both.ask_all(7, m.query(block), first, m.sync(), P1, m.sync(), use("s1"), m.sync(), m.parse("ROLLBACK", "end"), m.sync(),
                     use("end"), m.sync(), use("s1"), m.sync())
        both.quit()


def test_trap_22_rows_directly_after_an_answer_of_the_pooler(scene):
    """pgweir answers the Parse of a known statement; the next message of the server is not the answer to it."""
    fake = scene.fake()
    weir = transactions(scene, fake, max_prepared_statements=10)
    client = weir.client()
    client.send(m.parse("one", "s1"), m.sync())
    server = fake.accept()
    server.expect_all("PDS")
    server.send(m.parsed(), m.ready("T"))
    client.expect_all("1Z")
    for number in range(3):
        client.send(m.bind("s1", portal="p"), m.parse("one", "t%d" % number), m.execute("p"), m.sync())
        server.expect_all("BES")
        server.send(m.bind_complete())
        # its answer is due when all that has come is passed on
        client.expect_all("21")
        server.send(m.data_row("x"), m.message("s"), m.ready("T"))
        client.expect_all("DsZ")
