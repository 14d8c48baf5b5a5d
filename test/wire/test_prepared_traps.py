"""
Traps 24 and 27 to 33: one text for one name, the change of servers, the statement without a name, changed tables, reset
queries, bounds. As in test_prepared.py most of it is compared with a server that is asked directly.
"""
import pytest

from support import messages as m
from support.prepared import C1, FAIL, FORGET, MODES, ONE, P1, P2, SHARED, TWO, Stage, check_names, let_go, occupy, use
from support.rounds import rounds
from support.takeover import Replaced
from support.until import until

# --- trap 24: one name at the server is one text

# texts that are equal to the hash functions of that name, 32 bits wide
COLLISIONS = {
    "crc32": ("echo 374326 816611670", "echo 382748 1169815132"),
    "djb2": ("echo 208012 2085877964", "echo 251721 572021369"),
    "fnv1a": ("echo 3394 2608553122", "echo 369347 4290294739"),
    "jenkins": ("echo 69203 3461685859", "echo 340381 113607309"),
    "murmur3": ("echo 201337 467269289", "echo 302701 2172522077"),
}


@pytest.mark.parametrize("hash_name", sorted(COLLISIONS))
def test_trap_24_texts_with_the_same_hash(scene, hash_name):
    """Texts were told apart by a hash of 32 bits."""
    stage = Stage(scene)
    both = stage.both()
    pair = COLLISIONS[hash_name]
    both.ask(*(m.parse(text, "s%d" % n) for n, text in enumerate(pair)), m.sync())
    for n, text in enumerate(pair):
        assert both.ask(use("s%d" % n), m.sync()).value == text
    assert sorted(stage.parsed()) == sorted(pair)
    stage.check_names()


def test_trap_24_similar_texts(scene):
    stage = Stage(scene)
    both, other = stage.both(), stage.both()
    texts = ["echo", "echo ", "echo  ", "Echo ", "echo a", "echo a ", " echo a", "echo " + "a" * 5000, "echo " + "a" * 4999 + "b"]
    for n, text in enumerate(texts):
        both.ask(m.parse(text, "s%d" % n), m.sync())
        other.ask(m.parse(text, "s%d" % (len(texts) - n)), m.sync())
    for n, text in enumerate(texts):
        assert both.ask(use("s%d" % n), m.sync()).value == text.strip() or text.strip() != text
    meaning = stage.check_names()
    assert sorted(text for text, _ in meaning.values()) == sorted(texts)


def test_trap_24_types_distinguish_statements(scene):
    stage = Stage(scene)
    both = stage.both()
    kinds = [(), (23,), (25,), (23, 25), (25, 23), (0,), (0, 0), (23, 0)]
    for n, types in enumerate(kinds):
        both.ask(m.parse(ONE, "s%d" % n, types), m.sync())
    for n, types in enumerate(kinds):
        both.ask(m.describe("S", "s%d" % n), use("s%d" % n), m.sync())
    assert sorted(types for _, types in stage.check_names().values()) == sorted(kinds)
    stage.fake.drop_all()
    stage.weir.barrier()
    for n, types in enumerate(kinds):
        both.ask(m.describe("S", "s%d" % n), use("s%d" % n), m.sync())
    stage.check_names()


def test_trap_24_a_number_is_never_used_again(scene):
    """When all statements were forgotten, the numbering restarted while servers had the old ones."""
    stage = Stage(scene, 2, max_prepared_statements=3)
    for turn in rounds(10):
        clients = [stage.both() for _ in range(3)]
        for n, both in enumerate(clients):
            for k in range(4):
                text = "echo %d of %d in turn %d" % (k, n, turn)
                both.ask(m.parse(text, "s%d" % k), m.sync())
                assert both.ask(use("s%d" % k), m.sync()).value == text
        if turn % 3 == 1:
            clients[0].ask(m.query("DISCARD ALL"))
        if turn % 3 == 2:
            stage.weir.admin("RECONNECT")
        for both in clients:
            both.quit()
        until(lambda: not stage.columns(), "they are gone")
    stage.check_names()


def test_statements_after_an_execute_are_shared(scene):
    """
    Messages before a Parse in its batch may have changed a parameter, so other clients must not share the statement: each client makes its own, once.
    But statements after BEGIN in every batch are not parsed again and again.
    """
    stage = Stage(scene, 2)
    clients = [stage.both() for _ in range(4)]
    begin, commit = m.run("BEGIN"), m.run("COMMIT") + m.sync()
    for both in clients:
        both.ask(begin, P1, use("s1"), commit)
    for _ in range(5):
        for both in clients:
            assert both.ask(begin, use("s1"), commit).rows[0] == [ONE.encode()]
            other = stage.client()
            other.query("BEGIN")
            assert both.ask(begin, use("s1"), commit).rows[0] == [ONE.encode()]
            other.query("COMMIT")
            other.quit()
    # each client's own statement, and a shared one for each server
    assert len(stage.fake.started) == 2
    assert stage.parsed().count(ONE) <= len(clients) + 2
    stage.check_names()


def test_trap_24_many_texts(scene):
    stage = Stage(scene, max_prepared_statements=50)
    both = stage.both()
    count = 1500
    for start in range(0, count, 100):
        both.ask(*(m.parse("echo %d" % n, str(n)) for n in range(start, start + 100)), m.sync())
    for start in range(0, count, 100):
        result = both.ask(*(use(str(n)) for n in range(start, start + 100)), m.sync())
        assert [row for (row,) in result.rows] == [b"echo %d" % n for n in range(start, start + 100)]
    stage.check_bound(50)
    stage.check_names()


# --- trap 27: every message that names a statement finds it

@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asked", [
    m.describe("S", "s1"), m.bind("s1"), use("s1"), m.bind("s1") + m.describe("P") + m.execute(),
    m.describe("S", "s1") + m.describe("S", "s2") + use("s1") + use("s2"),
], ids=["D", "B", "BE", "BDE", "DDBEBE"])
def test_trap_27_first_message_at_another_server(scene, mode, asked):
    """Describe was not preceded by the Parse after the server had changed."""
    stage = Stage(scene, 3, mode)
    both = stage.both()
    both.ask(P1, P2, m.sync())
    both.ask(asked, m.sync())
    for _ in range(2):
        # a client in the middle of a batch keeps the server that is known
        other = stage.client()
        other.send(m.parse("echo keeps it"), m.flush())
        other.expect("1")
        both.ask(asked, m.sync())
        both.ask(asked, m.sync())
    assert len(stage.fake.started) == 3
    for session in stage.fake.started:
        assert stage.parsed(session.pid).count(ONE) == 1
    stage.check_names()


@pytest.mark.parametrize("asked, last", [(m.describe("S", "s1"), "T"), (m.bind("s1"), "2"), (use("s1"), "C")])
def test_trap_27_with_flush(scene, asked, last):
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(P1, m.sync())
    others = occupy(stage)
    both.send(asked, m.flush())
    both.heard(last)
    both.send(asked, m.flush())
    both.heard(last)
    both.ask(m.sync())
    let_go(others)


def test_trap_27_answer_to_an_inserted_parse_reaches_no_client(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=2)
    client, other = weir.client(), weir.client()
    client.send(m.parse(ONE, "s1", (25,)), m.sync())
    server = fake.accept()
    first = server.expect("P")
    server.expect_all("DS")
    server.send(m.parse_complete(), m.parameter_description(25), m.row_description("v"), m.ready())
    client.expect_all("1Z")
    other.send(m.query("BEGIN"))
    server.expect_query("BEGIN")
    client.send(m.describe("S", "s1"), m.flush())
    second = fake.accept()
    again = second.expect("P")
    assert m.read_parse(again.body)[1:] == m.read_parse(first.body)[1:]
    assert m.read_cstrings(second.expect("D").body) == ["S" + m.read_parse(again.body)[0]]
    second.expect("H")
    second.send(m.parse_complete())
    weir.barrier()
    assert not client.has_input()
    second.send(m.parameter_description(25), m.row_description("v"))
    # its types are compared before the client's message is sent
    assert m.read_cstrings(second.expect("D").body) == ["S" + m.read_parse(again.body)[0]]
    second.expect("H")
    assert not client.has_input()
    second.send(m.parameter_description(25), m.row_description("v"))
    client.expect_all("tT")
    client.send(m.bind("s1", "", (b"v",)), m.execute(), m.sync())
    second.expect_all("BES")
    second.send(m.bind_complete(), m.data_row("x"), m.command_complete("SELECT 1"), m.ready())
    client.expect_all("2DCZ")


def test_trap_27_server_ends_before_the_inserted_parse(scene):
    """The server that had the statement is gone, whether pgweir has noticed or not."""
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    for _ in rounds(20):
        assert both.ask(use("s1"), m.describe("S", "s1"), m.sync()).types == "2DCtTZ"
        stage.fake.drop_all()
        stage.weir.barrier()
    stage.check_names()


def test_trap_27_server_ends_on_the_inserted_parse(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_login_retry=0)
    client, rival = weir.client(), weir.client()
    client.send(P1, m.sync())
    server = fake.accept()
    server.expect_all("PDS")
    server.send(m.parsed(), m.ready())
    client.expect_all("1Z")
    server.close()
    rival.send(m.parse(ONE, "mine"), m.sync())
    server = fake.accept()
    server.expect_all("PDS")
    server.close()
    words = [m.read_error(got.body) for got in rival.drain() if got.type == "E"]
    assert len(words) == 1
    client.send(use("s1"), m.sync())
    server = fake.accept()
    server.expect_all("PDH")
    server.send(m.parsed())
    server.expect_all("BES")
    server.send(m.bind_complete(), m.data_row("x"), m.command_complete("SELECT 1"), m.ready())
    client.expect_all("2DCZ")


# --- trap 28: Close and Describe of this and that

def test_trap_28_close_of_an_unknown_name(scene):
    stage = Stage(scene)
    both = stage.both()
    assert both.ask(m.close("S", "nosuch"), m.sync()).types == "3Z"
    assert both.ask(m.close("P", "nosuch"), m.sync()).types == "3Z"
    assert both.ask(m.close("S", ""), m.close("P", ""), m.sync()).types == "33Z"
    assert both.ask(P1, C1, C1, C1, m.sync()).types == "1333Z"
    assert both.ask(m.run("x"), m.close("S", "nosuch"), m.run("y"), m.close("S", "nosuch"), m.sync()).types == "12TDC312TDC3Z"
    assert both.ask(FAIL, m.close("S", "nosuch"), m.sync()).types == "12TEZ"
    assert not [name for _, _, name in stage.log("C") if SHARED.fullmatch(name)]


def test_trap_28_describe_of_portal_and_statement_in_one_batch(scene):
    """A portal's name was taken for a statement's."""
    stage = Stage(scene)
    both = stage.both()
    # portals and statements have the same names, with other meanings
    both.ask(m.parse("insert x", "a"), m.parse("echo b", "b", (23,)), m.sync())
    result = both.ask(m.bind("a", "b"), m.bind("b", "a"), m.describe("P", "a"), m.describe("S", "a"), m.describe("P", "b"),
                      m.describe("S", "b"), m.close("P", "b"), m.describe("S", "b"), m.execute("a"), m.close("S", "a"),
                      m.describe("P", "a"), m.sync())
    assert result.types == "22TtnntT3tTDC3TZ"
    assert both.ask(m.describe("P", "s1"), m.sync()).errors[0]["C"] == "34000"
    assert both.ask(m.bind("b", "PGWEIR_1"), m.describe("P", "PGWEIR_1"), m.close("P", "PGWEIR_1"), m.sync()).types == "2T3Z"


def test_trap_28_close_and_parse_again_in_one_write(scene):
    stage = Stage(scene)
    both = stage.both()
    for text in (ONE, TWO, ONE, ONE):
        both.ask_all(3, C1, m.parse(text, "s1"), m.sync(), use("s1"), m.sync(), C1, m.parse(text, "s1"), use("s1"), m.sync())
    assert set(stage.parsed()) == {ONE, TWO}
    stage.check_names()


def test_trap_28_close_that_was_skipped(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    both.ask(FAIL, C1, m.sync())
    assert both.ask(use("s1"), m.sync()).value == ONE
    both.ask_all(3, FAIL, C1, m.sync(), use("s1"), m.sync(), P1, m.sync())
    assert both.ask(C1, FAIL, m.sync()).types == "312TEZ"
    assert both.ask(use("s1"), m.sync()).types == "EZ"


# --- trap 29: the statement without a name

@pytest.mark.parametrize("size", [1, 2])
def test_trap_29_flush_between_parse_and_bind(scene, size):
    """The unnamed statement was lost between Parse and Bind."""
    stage = Stage(scene, size)
    both, rivals = stage.both(), [stage.client() for _ in range(3)]
    for _ in range(3):
        both.send(m.parse(ONE), m.flush())
        both.heard("1")
        for n, rival in enumerate(rivals):
            rival.send(m.run("rival %d" % n), m.sync())
        stage.weir.barrier()
        both.send(m.describe("S"), m.flush())
        both.heard("T")
        stage.weir.barrier()
        both.ask(m.bind(), m.execute(), m.sync())
        for n, rival in enumerate(rivals):
            assert rival.result().value == "rival %d" % n


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 2])
def test_trap_29_sync_between_parse_and_bind(scene, mode, size):
    """Other clients have prepared unnamed statements of their own, on whichever server it is."""
    stage = Stage(scene, size, mode)
    both, rivals = stage.both(), [stage.both() for _ in range(2)]
    for turn in range(4):
        both.ask(m.parse("echo turn %d" % turn), m.sync())
        for n, rival in enumerate(rivals):
            assert rival.ask(m.run("rival %d" % n), m.sync()).value == "rival %d" % n
        assert both.ask(m.describe("S"), m.sync()).types == "tTZ"
        # clients keep the other servers by a Parse, because not every mode permits transactions
        others = [stage.client() for _ in range(size - 1)]
        for other in others:
            other.send(m.parse("echo keeps it"), m.flush())
            other.expect("1")
        for _ in range(2):
            assert both.ask(m.bind(), m.execute(), m.sync()).value == "echo turn %d" % turn
        for n, rival in enumerate(rivals):
            assert rival.ask(m.bind(), m.execute(), m.sync()).value == "rival %d" % n
        for other in others:
            other.send(m.sync())
            other.expect("Z")


def test_trap_29_unnamed_statement_belongs_to_one_client(scene):
    stage = Stage(scene)
    one, two = stage.both(), stage.both()
    one.ask(m.run("echo secret"), m.sync())
    for asked in (m.bind() + m.execute(), m.describe("S")):
        result = two.ask(asked, m.sync())
        assert result.errors[0]["M"] == "unnamed prepared statement does not exist"
    two.ask(m.close("S"), m.sync())
    assert one.ask(m.bind(), m.execute(), m.sync()).value == "echo secret"


@pytest.mark.parametrize("writes", ["one", "two"])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("skipped", [
    m.parse(TWO), m.bind(), m.describe("S"), m.parse(TWO) + m.bind() + m.execute(), m.close("S")], ids=["P", "B", "D", "PBE", "C"])
def test_trap_29_skipped_parse_does_not_expose_another_clients(scene, writes, own, skipped):
    """A Parse that an error skips, from the client or inserted, has not replaced another client's unnamed statement."""
    stage = Stage(scene)
    both, rival = stage.both(), stage.both()
    if own:
        both.ask(m.parse(ONE), m.sync())
    rival.ask(m.run("echo secret"), m.sync())
    first, second = (m.bind("nobody"), skipped, m.sync()), (m.describe("S"), m.bind(), m.execute(), m.sync())
    if writes == "one":
        both.ask_all(2, *first, *second)
    else:
        both.ask(*first)
        both.ask(*second)


NOT_TEXT = b"\xff"              # no UTF-8: the message is refused before it has ended the unnamed statement
USE = m.bind() + m.execute() + m.sync()


@pytest.mark.parametrize("writes", ["one", "two"])
@pytest.mark.parametrize("behind", [b"", P1, m.parse(ONE) + m.close("S")], ids=["", "P", "PC"])
@pytest.mark.parametrize("fails, count", [
    (m.parse(NOT_TEXT) + m.sync(), 1), (m.query(NOT_TEXT), 1), (m.query(NOT_TEXT) + m.sync(), 2),
    (m.query(NOT_TEXT) + m.parse(NOT_TEXT) + m.sync(), 2)], ids=["PS", "Q", "QS", "QPS"])
def test_trap_29_failed_parse_does_not_expose_another_clients(scene, writes, behind, fails, count):
    """A Parse or Query may have failed before it ended another client's unnamed statement."""
    stage = Stage(scene)
    both, rival = stage.both(), stage.both()
    rival.ask(m.run("echo secret"), m.sync())
    if writes == "one":
        heard = both.ask_all(count + 2, behind, fails, USE, m.describe("S"), m.sync())[count:]
    else:
        both.ask_all(count, behind, fails)
        heard = [both.ask(USE), both.ask(m.describe("S"), m.sync())]
    for one in heard:
        assert one.errors[0]["M"] == "unnamed prepared statement does not exist"
    assert rival.ask(USE).value == "echo secret"


@pytest.mark.parametrize("writes", ["one", "two"])
def test_trap_29_failed_parse_may_keep_the_own_statement(scene, writes):
    """Only the server that has the statement knows, and is asked."""
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(m.parse(ONE), m.sync())
    if writes == "one":
        heard = both.ask_all(2, m.parse(NOT_TEXT), m.sync(), USE)[1]
    else:
        both.ask(m.parse(NOT_TEXT), m.sync())
        heard = both.ask(USE)
    assert heard.value == ONE
    # on another server the statement is gone: a Parse might have ended it
    others = occupy(stage)
    both.client.send(USE)
    assert both.client.result().errors[0]["C"] == "26000"
    let_go(others)


def test_trap_29_a_query_while_nothing_is_answered(scene):
    """An unnamed statement ended by a Query does not come back because a later Parse is skipped."""
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask_all(3, m.parse(ONE), m.sync(), m.query("echo x"), m.bind("nobody"), m.parse(TWO), m.sync())
    others = occupy(stage)
    assert both.ask(m.bind(), m.execute(), m.sync()).errors[0]["C"] == "26000"
    let_go(others)


def test_trap_29_messages_that_end_the_unnamed_statement(scene):
    stage = Stage(scene)
    both = stage.both()
    for destroys in (m.query("echo x"), m.query(""), m.query("fail"), m.parse("badparse") + m.sync(), m.close("S") + m.sync()):
        both.ask(m.parse(ONE), m.sync())
        both.ask(destroys)
        assert both.ask(m.bind(), m.execute(), m.sync()).errors[0]["C"] == "26000"
        both.ask_all(3, m.parse(ONE), m.sync(), destroys, m.bind(), m.execute(), m.sync())
    for keeps in (P1, use("s1"), C1, m.bind("nobody"), FAIL[:0], m.bind("nobody") + m.parse(TWO), m.bind("nobody") + m.close("S"),
                  m.bind("nobody") + m.query("echo x")):
        both.ask(m.parse(ONE), m.sync())
        both.ask(keeps, m.sync())
        assert both.ask(m.bind(), m.execute(), m.sync()).value == ONE
        both.ask_all(3, m.parse(ONE), m.sync(), keeps, m.sync(), m.bind(), m.execute(), m.sync())
    both.ask(m.parse(ONE), m.sync())
    both.ask(m.parse("DEALLOCATE ALL", "all"), use("all"), m.sync())
    assert both.ask(m.bind(), m.execute(), m.sync()).value == ONE


def test_trap_29_query_on_another_server_ends_the_unnamed_statement(scene):
    """The first server still had the statement, and executed it."""
    stage = Stage(scene, 2)
    both, other = stage.both(), stage.both()
    both.ask(m.parse(ONE), m.sync())
    # without a Query, which would end the statement on the first server, too
    other.ask(m.parse("BEGIN", "begin"), use("begin"), m.sync())
    both.ask(m.query("echo x"))
    other.ask(m.parse("COMMIT", "commit"), use("commit"), m.sync())
    assert both.ask(m.bind(), m.execute(), m.sync()).errors[0]["C"] == "26000"


def test_trap_29_skipped_parse_does_not_make_later_settings_doubtful(scene):
    """A Parse that an error skipped counted as a text that may change the meaning of others, at each later SET."""
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(P1, m.parse("SET work_mem = 1", "set"), m.sync())
    assert both.ask(m.bind("nobody"), P1, m.sync()).errors[0]["C"] == "26000"
    both.ask(use("set"), m.parse(ONE), m.sync())
    others = occupy(stage)
    assert both.ask(m.bind(), m.execute(), m.sync()).value == ONE
    let_go(others)


def test_trap_29_through_a_transaction(scene):
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(m.parse(ONE, "", (25,)), m.sync())
    others = occupy(stage)
    both.ask(m.parse("BEGIN", "begin"), use("begin"), m.sync())
    assert both.ask(m.describe("S"), m.bind(), m.execute(), m.sync()).types == "tT2DCZ"
    assert both.ask(m.bind("", "p"), m.parse(TWO), m.execute("p"), m.bind(), m.execute(), m.sync()).types == "21DC2DCZ"
    both.ask(m.parse("COMMIT", "commit"), use("commit"), m.sync())
    let_go(others)
    assert both.ask(m.bind(), m.execute(), m.sync()).value == TWO


def test_trap_29_the_server_is_gone(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(m.parse(ONE), m.sync())
    for _ in range(3):
        stage.fake.drop_all()
        stage.weir.barrier()
        assert both.ask(m.bind(), m.execute(), m.sync()).value == ONE


# --- trap 30: BEGIN that is prepared

@pytest.mark.parametrize("named", [True, False])
def test_trap_30_prepared_begin_with_describe(scene, named):
    """A BEGIN that was put off lost its Describe, or shifted the replies."""
    stage = Stage(scene, 2)
    both = stage.both()
    names = ("b", "i", "c") if named else ("", "", "")
    for turn in range(3):
        tags = []
        for name, text in zip(names, ("BEGIN", "insert %d" % turn, "COMMIT")):
            both.ask(m.close("S", name), m.parse(text, name), m.describe("S", name), m.sync())
            if text == "BEGIN":
                others = occupy(stage)
            result = both.ask(m.bind(name), m.describe("P"), m.execute(), m.sync())
            assert result.types == "2nCZ"
            tags += result.tags
        assert tags == ["BEGIN", "INSERT 0 1", "COMMIT"]
        let_go(others)
    assert stage.fake.kept == stage.truth.kept == ["0", "1", "2"]


def test_trap_30_begin_insert_and_commit_in_one_write(scene):
    stage = Stage(scene, 2)
    both, rival = stage.both(), stage.both()
    both.ask(m.parse("BEGIN", "b"), m.parse("insert x", "i"), m.parse("COMMIT", "c"), m.parse("ROLLBACK", "r"), m.sync())
    rival.ask(P1, m.sync())
    for end in "crc":
        others = occupy(stage)
        both.send(m.describe("S", "b"), use("b"), m.describe("S", "i"), use("i"), m.sync(), use("i"), m.sync(), use(end),
                  m.sync())
        rival.send(use("s1"), m.sync())
        assert both.heard().tags == ["BEGIN", "INSERT 0 1"]
        assert both.heard().status == "T" and both.heard().status == "I"
        assert rival.heard().value == ONE
        let_go(others)
    assert stage.fake.kept == stage.truth.kept == ["x"] * 4


def test_trap_30_rivals_between_the_statements_of_a_transaction(scene):
    stage = Stage(scene, 1)
    both, rival = stage.both(), stage.both()
    both.ask(m.parse("BEGIN", "b"), m.parse("COMMIT", "c"), P1, m.sync())
    rival.ask(P1, m.sync())
    both.ask(use("b"), m.sync())
    rival.send(use("s1"), m.sync())
    stage.weir.barrier()
    both.ask(m.describe("S", "s1"), m.sync())
    both.ask(m.bind("nobody"), m.sync())
    both.ask(P1, m.sync())
    assert not rival.client.has_input()
    assert both.ask(use("c"), m.sync()).tags == ["ROLLBACK"]
    assert rival.heard().value == ONE


# --- trap 31: the result type changes

@pytest.mark.parametrize("cache", [1, 200])
@pytest.mark.parametrize("asked", [use("s"), m.describe("S", "s")], ids=["bind", "describe"])
def test_trap_31_same_error_as_directly_until_prepared_again(scene, cache, asked):
    """A statement shared by all clients went on failing, also for clients that had never seen the old type."""
    stage = Stage(scene, max_prepared_statements=cache)
    one, two, three = stage.both(), stage.both(), stage.both()
    stage.shape("t", "old")
    for both in (one, two):
        both.ask(m.parse("shape t", "s"), m.sync())
        both.ask(use("s"), m.sync())
    stage.shape("t", "new")
    # a client that was told the old type gets the error about the change, also the second time
    for both in (one, two, one):
        both.client.send(asked, m.sync())
        result = both.client.result()
        assert result.types in ("EZ", "tEZ") and result.status == "I"
        # drivers check the routine before they retry
        assert result.errors[0]["C"] == "0A000" and result.errors[0]["R"] == "RevalidateCachedQuery"
        # in a small cache it may have gone meanwhile
        stage.both().ask(P1, use("s1"), m.sync())
    # a client that comes later gets no error
    assert three.ask(m.parse("shape t", "s"), m.describe("S", "s"), use("s"), m.sync()).value == "new of t"
    for both in (one, two):
        both.ask(m.close("S", "s"), m.parse("shape t", "s"), m.describe("S", "s"), use("s"), m.sync())
        assert both.ask(use("s"), m.sync()).value == "new of t"
    stage.check_names()


def test_trap_31_prepared_again_under_another_name(scene):
    """As some drivers do, which close the old statement later, or never."""
    stage = Stage(scene)
    both = stage.both()
    stage.shape("t", "old")
    both.ask(m.parse("shape t", "s"), use("s"), m.sync())
    for turn in range(3):
        stage.shape("t", "new %d" % turn)
        both.ask(use("s" if turn == 0 else "s%d" % (turn - 1)), m.sync())
        assert both.ask(m.parse("shape t", "s%d" % turn), use("s%d" % turn), m.sync()).value == "new %d of t" % turn
    both.ask(m.close("S", "s"), m.close("S", "s0"), use("s2"), m.sync())
    both.ask(use("s1"), m.sync())


@pytest.mark.parametrize("forget", FORGET)
def test_trap_31_forgotten_and_prepared_again(scene, forget):
    stage = Stage(scene)
    both = stage.both()
    stage.shape("t", "old")
    both.ask(m.parse("shape t", "s"), use("s"), m.sync())
    stage.shape("t", "new")
    assert both.ask(use("s"), m.sync()).errors
    both.ask(m.query(forget))
    assert both.ask(use("s"), m.sync()).errors[0]["C"] == "26000"
    assert both.ask(m.parse("shape t", "s"), use("s"), m.sync()).value == "new of t"


def test_trap_31_in_a_transaction(scene):
    stage = Stage(scene)
    both = stage.both()
    stage.shape("t", "old")
    both.ask(m.parse("shape t", "s"), P1, m.sync())
    stage.shape("t", "new")
    both.ask(m.query("BEGIN"))
    result = both.ask(use("s1"), use("s"), use("s1"), m.sync())
    assert result.types == "2DCEZ" and result.errors[0]["C"] == "0A000" and result.status == "E"
    both.ask(m.close("S", "s"), m.sync())
    assert both.ask(m.parse("shape t", "s"), m.sync()).errors[0]["C"] == "25P02"
    both.ask(m.query("ROLLBACK"))
    both.ask(m.query("BEGIN"))
    result = both.ask(m.parse("shape t", "s"), use("s"), use("s1"), m.sync())
    assert result.rows == [[b"new of t"], [ONE.encode()]]
    both.ask(m.query("COMMIT"))


def test_trap_31_in_one_database_of_two(scene):
    """The same text in two databases: a change to a table of one database does not affect clients of the other."""
    fakes = [scene.mini(), scene.mini()]
    weir = scene.weir(dict(zip(("p0", "p1"), fakes)), pool_mode="transaction", default_pool_size=2)
    one, two = clients = [weir.client(database=name) for name in ("p0", "p1")]
    busy = weir.client(database="p1")

    def asked(client, *messages):
        client.send(*messages, m.sync())
        return client.result()

    def changed_for(client):
        assert asked(client, use("s")).errors[0]["C"] == "0A000"
        assert asked(client, m.close("S", "s"), m.parse("shape t", "s"), use("s")).value == "new of t"

    for fake, client in zip(fakes, clients):
        fake.shapes["t"] = "old"
        assert asked(client, m.parse("shape t", "s"), use("s")).value == "old of t"
    fakes[0].shapes["t"] = "new"
    changed_for(one)
    # on a server that has the statement, and on one that has not
    assert asked(two, use("s")).value == "old of t"
    busy.query("BEGIN")
    assert asked(two, use("s")).value == "old of t"
    busy.query("COMMIT")
    assert asked(two, use("s")).value == "old of t"
    fakes[1].shapes["t"] = "new"
    changed_for(two)
    for client in clients:
        assert asked(client, use("s")).value == "new of t"
    for fake in fakes:
        check_names(fake)


def test_trap_31_in_two_databases_of_three(scene):
    """The statement counted as changed in all databases when it had changed in two."""
    fakes = [scene.mini() for _ in range(3)]
    weir = scene.weir(dict(zip(("p0", "p1", "p2"), fakes)), pool_mode="transaction", default_pool_size=2)
    clients = [weir.client(database=name) for name in ("p0", "p1", "p2")]
    for fake, client in zip(fakes, clients):
        fake.shapes["t"] = "old"
        client.send(m.parse("shape t", "s"), use("s"), m.sync())
        assert client.result().value == "old of t"
    for fake, client in zip(fakes[:2], clients):
        fake.shapes["t"] = "new"
        client.send(use("s"), m.sync())
        assert client.result().errors[0]["C"] == "0A000"
    weir.client(database="p2").query("BEGIN")
    # on a server that does not have it
    clients[2].send(use("s"), m.sync())
    assert clients[2].result().value == "old of t"


def parsed_anew(weir, fake, name):
    """Whether a server of this database receives the Parse of a text that it has prepared before."""
    before = len(fake.statements)
    client = weir.client(database=name)
    client.send(m.parse(ONE, "s"), m.sync())
    assert client.result().types == "1Z"
    client.quit()
    return any(entry[0] == "P" for entry in fake.statements[before:])


def test_altered_table_in_one_database_of_two(scene):
    """Clients of the other database continue to share their statements; another entry for the same database is the same database."""
    one, two = scene.mini(), scene.mini()
    entry = "host=127.0.0.1 port=%d dbname=%s"
    weir = scene.weir({"p0": entry % (one.port, "p0"), "alias": entry % (one.port, "p0"), "p1": entry % (two.port, "p0")},
                      pool_mode="transaction", default_pool_size=1)
    places = (("p0", one), ("alias", one), ("p1", two))
    assert [parsed_anew(weir, fake, name) for name, fake in places] == [True, True, True]
    assert [parsed_anew(weir, fake, name) for name, fake in places] == [False, False, False]
    weir.client(database="p0").query("ALTER TABLE t")
    assert [parsed_anew(weir, fake, name) for name, fake in places] == [True, True, False]
    assert [parsed_anew(weir, fake, name) for name, fake in places] == [False, False, False]


@pytest.mark.parametrize("tag, changes", [
    ("ALTER TYPE", True), ("DROP TABLE", True), ("DROP FUNCTION", True), ("DROP MATERIALIZED VIEW", True), ("CREATE VIEW", True),
    ("CREATE FUNCTION", True), ("CREATE TABLE", False), ("CREATE INDEX", False), ("INSERT 0 100", False),
])
def test_commands_that_change_the_meaning_of_a_text(scene, tag, changes):
    """A table that is created may be a temporary one, in each transaction: it does not end the sharing."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    assert [parsed_anew(weir, fake, "p0") for _ in range(2)] == [True, False]
    weir.client().query("define " + tag)
    assert [parsed_anew(weir, fake, "p0") for _ in range(2)] == [changes, False]


def test_change_applies_again_at_the_end_of_its_transaction(scene):
    """Statements that other clients prepare between the command and the COMMIT have the old meaning: PostgreSQL locks no function."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=2)
    owner = weir.client()
    owner.query("BEGIN")
    owner.query("define DROP FUNCTION")
    assert [parsed_anew(weir, fake, "p0") for _ in range(2)] == [True, False]
    owner.query("COMMIT")
    occupied = weir.client()
    occupied.query("BEGIN")
    assert [parsed_anew(weir, fake, "p0") for _ in range(2)] == [True, False]
    owner.query("BEGIN")
    owner.query("COMMIT")
    assert not parsed_anew(weir, fake, "p0")


def test_change_applies_after_an_online_restart(scene):
    """The command was in the old process, and its COMMIT comes in the new one."""
    fake = scene.mini()
    weir = scene.weir(fake, kind=Replaced, pool_mode="transaction", default_pool_size=2)
    owner = weir.client()
    owner.query("BEGIN")
    owner.query("define DROP FUNCTION")
    assert [parsed_anew(weir, fake, "p0") for _ in range(2)] == [True, False]
    weir.replace()
    assert not parsed_anew(weir, fake, "p0")
    owner.query("COMMIT")
    # the server that it had, which has nothing yet
    weir.client().query("BEGIN")
    assert [parsed_anew(weir, fake, "p0") for _ in range(2)] == [True, False]


def test_trap_31_every_server_has_its_own(scene):
    """The change is met on one server; the others have the old statement still."""
    stage = Stage(scene, 3)
    both = stage.both()
    stage.shape("t", "old")
    both.ask(m.parse("shape t", "s"), m.sync())

    def on_every_server():
        others = []
        for n in range(3):
            yield both.ask(use("s"), m.sync())
            if n < 2:
                others += occupy(stage)
        let_go(others)
        for other in others:
            other.quit()

    assert [result.value for result in on_every_server()] == ["old of t"] * 3
    stage.shape("t", "new")
    assert [result.errors[0]["C"] for result in on_every_server()] == ["0A000"] * 3
    both.ask(m.close("S", "s"), m.parse("shape t", "s"), m.sync())
    assert [result.value for result in on_every_server()] == ["new of t"] * 3
    stage.check_names()


@pytest.mark.parametrize("cache", [1, 200])
def test_trap_31_several_in_flight_when_the_table_changes(scene, cache):
    """All messages are sent before the error is known: each fails, or has been prepared again, and never returns wrong rows."""
    stage = Stage(scene, max_prepared_statements=cache)
    client, rival = stage.client(), stage.both()
    rival.ask(P1, m.sync())
    stage.shape("t", "old")
    client.send(m.parse("shape t", "s"), use("s"), m.sync())
    assert client.result().value == "old of t"
    stage.shape("t", "new")
    client.send(*[use("s") + m.sync()] * 3, m.parse("shape t", "again"), m.sync(), use("s"), m.sync(), use("again"), m.sync(),
                m.close("S", "s"), m.parse("shape t", "s"), use("s"), m.sync())
    results = [client.result() for _ in range(7)]
    assert results[0].errors[0]["C"] == "0A000" and results[3].types == "1Z"
    for result in results:
        assert result.errors[0]["C"] == "0A000" if result.errors else result.rows in ([], [[b"new of t"]])
    assert rival.ask(use("s1"), m.sync()).value == ONE
    client.send(m.close("S", "s"), m.parse("shape t", "s"), use("s"), m.sync())
    assert client.result().value == "new of t"
    stage.check_names()


def test_trap_31_other_errors_keep_the_statement(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(m.parse("fail x", "f"), m.sync())
    for _ in range(3):
        assert both.ask(use("f"), m.sync()).types == "2EZ"
    assert stage.kinds() == "PDBBB"


# --- trap 32: reset queries

@pytest.mark.parametrize("forget", FORGET)
def test_trap_32_reset_after_every_transaction(scene, forget):
    """The reset query removed statements that the pooler believed to exist."""
    stage = Stage(scene, server_reset_query=forget, server_reset_query_always=1)
    one, two = stage.both(), stage.both()
    one.ask(P1, m.sync())
    two.ask(P1, P2, m.sync())
    for _ in range(3):
        assert one.ask(use("s1"), m.sync()).value == ONE
        assert two.ask(use("s2"), m.describe("S", "s1"), m.sync()).types == "2DCtTZ"
    # the reset query does not concern the client's own statements
    assert stage.columns("CLIENTS") == [1, 2]
    until(lambda: stage.columns("SERVERS") == [0])  # the last reset query is answered without the client
    stage.check_names()


def test_trap_32_no_reset_while_a_sync_is_pending(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_reset_query="DISCARD ALL",
                      server_reset_query_always=1)
    client, rival = weir.client(), weir.client()
    client.send(P1, m.sync(), m.bind("s1"), m.sync())
    server = fake.accept()
    shared = m.read_parse(server.expect("P").body)[0]
    server.expect_all("DS")
    rival.send(m.parse(ONE, "mine"), m.sync())
    server.send(m.parsed(), m.ready())
    client.expect_all("1Z")
    assert m.read_cstrings(server.expect("B").body)[1] == shared
    server.expect("S")
    weir.barrier()
    assert not server.has_input()
    server.send(m.bind_complete(), m.ready())
    client.expect_all("2Z")
    server.expect_query("DISCARD ALL")
    weir.barrier()
    assert not server.has_input()
    server.complete("DISCARD ALL")
    # the server has nothing any more
    assert m.read_parse(server.expect("P").body)[1] == ONE
    server.expect_all("DS")
    server.send(m.parsed(), m.ready())
    rival.expect_all("1Z")


def test_trap_32_reset_against_kept_statements(scene):
    """In session mode DISCARD ALL runs when a client has gone; in another pool of the same server nothing changes."""
    fake = scene.mini()
    target = "host=127.0.0.1 port=%d dbname=p0" % fake.port
    weir = scene.weir({"p0": target, "p1": target + " pool_mode=session"}, pool_mode="transaction", default_pool_size=1)
    keeper = weir.client()
    keeper.send(P1, m.sync())
    keeper.expect_all("1Z")
    for turn in range(3):
        guest = weir.client(database="p1")
        guest.send(m.parse("echo %d" % turn, "s1"), use("s1"), m.sync())
        assert guest.result().value == "echo %d" % turn
        guest.quit()
        keeper.send(use("s1"), m.sync())
        assert keeper.result().value == ONE
    assert [entry[3] for entry in fake.statements if entry[0] == "P"].count(ONE) == 1


@pytest.mark.parametrize("command", ["RECONNECT", "PAUSE"])
def test_trap_32_servers_replaced_from_the_console(scene, command):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, P2, m.parse(TWO), m.sync())
    for _ in range(3):
        stage.weir.admin(command)
        if command == "PAUSE":
            stage.weir.admin("RESUME")
        assert both.ask(use("s1"), use("s2"), m.describe("S", "s1"), m.sync()).types == "2DC2DCtTZ"
        assert both.ask(m.bind(), m.execute(), m.sync()).value == TWO
    stage.check_names()


# --- trap 33: bounds

@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("cache", [1, 3, 20])
def test_trap_33_statements_per_server_are_limited(scene, size, cache):
    """The size of the cache was a limit that could be raced past."""
    stage = Stage(scene, size, max_prepared_statements=cache)
    clients = [stage.both() for _ in range(5)]
    for turn in range(3):
        for n, both in enumerate(clients):
            both.send(*(m.parse("echo %d.%d.%d" % (turn, n, k), "%d.%d" % (turn, k)) for k in range(8)),
                      *(use("%d.%d" % (turn, k)) for k in range(8)), m.sync())
        for both in clients:
            assert both.heard().types == "1" * 8 + "2DC" * 8 + "Z"
    # a batch may create more; statements of the next batch replace them
    for session in stage.fake.started:
        assert session.most_statements <= max(cache + 1, 8)
    for _ in range(size):
        stage.check_bound(cache)
        occupy(stage)
    stage.check_names()


def test_trap_33_memory_is_freed(scene):
    """Ten thousand texts by fifty clients, closed one by one, forgotten at once, or gone with their client."""
    stage = Stage(scene, 2, max_prepared_statements=20)
    padding = "x" * 2000

    def crowd(turn):
        clients = [stage.client() for _ in range(10)]
        for n, client in enumerate(clients):
            names = ["%d %d %d" % (turn, n, k) for k in range(200)]
            client.send(*(m.parse("echo %s %s" % (name, padding), name) for name in names), m.sync())
            assert client.result().types == "1" * 200 + "Z"
            if n % 3 == 0:
                client.send(*(m.close("S", name) for name in names), m.sync())
                assert client.result().types == "3" * 200 + "Z"
            elif n % 3 == 1:
                assert client.query("DEALLOCATE ALL").tags == ["DEALLOCATE ALL"]
        assert sum(stage.columns()) == 200 * sum(n % 3 == 2 for n in range(10))
        for client in clients:
            client.quit()
        until(lambda: not stage.columns(), "all are gone")

    for turn in range(5):
        crowd(turn)
        # the statements of the two servers, and nothing else
        (row,) = [row for row in stage.weir.show("MEM") if row["name"] == "prepared_statement_cache"]
        assert row["size"] * row["used"] <= sum(stage.columns("SERVERS")) * 2400
    assert sum(stage.columns("SERVERS")) <= 400
    stage.check_bound(20)
    stage.check_names()


@pytest.mark.parametrize("asked", [m.bind, lambda name: m.describe("S", name)], ids=["bind", "describe"])
def test_trap_33_short_messages_that_refer_to_long_texts(scene, asked):
    """A few kilobytes of them were made hundreds of megabytes in memory: the texts that the server had given up for each other."""
    stage = Stage(scene, max_prepared_statements=1, measured=True)
    client = stage.client()
    for name in "ab":
        client.send(m.parse("echo " + name * 100000, name), m.sync())
        client.expect_all("1Z")
    before = stage.weir.peak_memory()
    client.send((asked("a") + asked("b")) * 500, m.sync())
    kinds = "".join(message.type for message in client.read_until("Z"))
    assert kinds in ("2" * 1000 + "Z", "tT" * 1000 + "Z")
    assert stage.weir.peak_memory() - before < 10000
    assert client.query("alive").value == "alive"
    stage.check_names()


def test_trap_33_one_client_with_very_many(scene):
    stage = Stage(scene, max_prepared_statements=2)
    both = stage.both()
    count = 5000
    for start in range(0, count, 500):
        both.ask(*(m.parse("echo %d" % n, str(n)) for n in range(start, start + 500)), m.sync())
    assert stage.columns("CLIENTS") == [count]
    for n in (0, 1, 2499, 4998, 4999):
        assert both.ask(use(str(n)), m.sync()).value == "echo %d" % n
    both.ask(*(m.close("S", str(n)) for n in range(count)), m.sync())
    assert stage.columns("CLIENTS") == [0]
