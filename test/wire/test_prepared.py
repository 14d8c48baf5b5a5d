"""
Prepared statements of the protocol in transaction mode, where the client's server changes: names, settings, messages as bytes. test_prepared_traps.py
and test_prepared_order.py cover bugs of other poolers.

Almost every exchange is run twice, with pgweir and directly with a server (support/prepared.py), which supplies the expected answers. The tests
assert only the messages to the server of pgweir.
"""
import pytest

from support import messages as m
from support.prepared import C1, C2, LONG_TEXT, MODES, ONE, P1, P2, TWO, Stage, let_go, occupy, use
from support.until import until
from support.wire import Closed

# --- the life of a statement

@pytest.mark.parametrize("mode", MODES)
def test_statement_belongs_to_its_client(scene, mode):
    stage = Stage(scene, 2, mode)
    both = stage.both()
    assert both.ask(P1, m.sync()).types == "1Z"
    assert both.ask(use("s1"), m.sync()).value == ONE
    # the only server is taken away, under the eyes of both
    stage.fake.drop_all()
    stage.weir.barrier()
    assert stage.weir.client().query("opens another").value == "opens another"
    both.double.send(m.describe("S", "s1"), use("s1"), m.sync())
    both.client.send(m.describe("S", "s1"), use("s1"), m.sync())
    assert both.heard().types == "tT2DCZ"
    first, second = stage.fake.started
    assert stage.kinds(first.pid) == "PDB" and stage.kinds(second.pid) == "PDDB"
    assert set(stage.check_names().values()) == {(ONE, ())}


@pytest.mark.parametrize("mode", MODES)
def test_known_text_is_parsed_once_for_all_clients(scene, mode):
    stage = Stage(scene, 1, mode)
    clients = [stage.both() for _ in range(5)]
    for n, both in enumerate(clients):
        assert both.ask(m.parse(ONE, "mine %d" % n), m.describe("S", "mine %d" % n), m.sync()).types == "1tTZ"
    for n, both in enumerate(clients):
        assert both.ask(use("mine %d" % n), m.sync()).types == "2DCZ"
    assert stage.parsed() == [ONE] and stage.kinds() == "PD" + "D" * 5 + "B" * 5
    stage.check_names()


def test_two_names_for_one_text(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(m.parse(ONE, "a"), m.parse(ONE, "b"), use("a"), use("b"), m.close("S", "a"), use("b"), m.sync())
    assert both.ask(use("b"), m.sync()).value == ONE
    assert both.ask(use("a"), m.sync()).types == "EZ"
    assert stage.parsed() == [ONE]


def test_one_name_for_two_texts_of_two_clients(scene):
    stage = Stage(scene)
    one, two = stage.both(), stage.both()
    one.ask(m.parse(ONE, "s"), m.sync())
    two.ask(m.parse(TWO, "s"), m.sync())
    for _ in range(3):
        assert one.ask(use("s"), m.sync()).value == ONE
        assert two.ask(use("s"), m.sync()).value == TWO
    assert sorted(stage.parsed()) == [ONE, TWO]
    stage.check_names()


def test_closed_name_may_be_reused(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(m.parse(ONE, "s"), use("s"), m.close("S", "s"), m.parse(TWO, "s"), use("s"), m.sync())
    assert both.ask(use("s"), m.sync()).value == TWO
    both.ask(m.close("S", "s"), m.sync())
    both.ask(m.parse(ONE, "s"), m.sync())
    assert both.ask(use("s"), m.sync()).value == ONE


@pytest.mark.parametrize("name", ["PGWEIR_1", "PGWEIR_2", "n" * 62, "a b", "\u00e4\u20ac", '"', "%s%n", "1", " "])
def test_unusual_names(scene, name):
    stage = Stage(scene)
    other, both = stage.both(), stage.both()
    other.ask(P1, m.sync())
    other.ask(P2, m.sync())
    # no client but its owner has the name, even if the server has it
    both.ask(m.bind(name), m.execute(), m.sync())
    both.ask(m.describe("S", name), m.sync())
    both.ask(m.close("S", name), m.sync())
    both.ask(m.parse("echo mine", name), m.describe("S", name), use(name), m.sync())
    assert both.ask(use(name), m.sync()).value == "echo mine"
    assert other.ask(use("s1"), m.sync()).value == ONE and other.ask(use("s2"), m.sync()).value == TWO
    both.ask(m.parse(ONE, name), m.sync())


NAMING = {
    "portal": lambda size: m.bind("s1", "p" * size), "bind": lambda size: m.bind("k" * size), "describe": lambda size: m.describe("S", "k" * size),
    "parse": lambda size: m.parse(ONE, "k" * size), "close": lambda size: m.close("S", "k" * size),
    "no end": lambda size: m.message("B", b"\0" + b"k" * size), "no end of describe": lambda size: m.message("D", b"S" + b"k" * size)}


@pytest.mark.parametrize("size", [4000, 5000])
@pytest.mark.parametrize("message", NAMING)
def test_long_name_is_refused_at_any_split(scene, message, size):
    """The name in a message of a client with a server is mostly read at once."""
    stage = Stage(scene)
    data, heard = NAMING[message](size), set()
    for cut in (len(data), 4200, 3900):
        client = stage.client()
        client.send(P1, m.sync(), m.query("BEGIN"))
        client.expect_all("1ZCZ")
        client.send(data[:cut])
        stage.weir.barrier()
        if not client.has_input():
            client.send(data[cut:], m.sync())
        until(client.has_input, "it is answered")
        answer = client.read()
        heard.add(m.read_error(answer.body)["M"] if answer.type == "E" else answer.type)
        client.close()
    (words,) = heard
    assert ("is too long" in words) == (size > 4096)


@pytest.mark.parametrize("message", [*NAMING.values(), lambda size: m.parse("x" * 200000, "k" * size)], ids=[*NAMING, "long text"])
@pytest.mark.parametrize("before", [m.query("idle"), m.query("BEGIN")], ids=["idle", "in a transaction"])
def test_long_name_is_an_error_in_sequence(scene, before, message):
    """Earlier answers are sent, later messages are skipped up to the Sync, and the client and its statements are kept."""
    stage = Stage(scene)
    client = stage.client()
    client.send(P1, m.sync(), before)
    client.result()
    status = client.result().status
    client.send(use("s1"), message(5000), use("s1"), P2, m.sync(), m.query("ROLLBACK"), P2, use("s1"), use("s2"), m.sync())
    refused = client.result()
    assert (refused.types, refused.status) == ("2DCEZ", {"I": "I", "T": "E"}[status])
    error = refused.errors[0]
    assert (error["S"], error["C"], error["M"]) == ("ERROR", "42622", "name of a prepared statement or portal is too long")
    assert client.result().tags == ["ROLLBACK"]
    assert client.result().types == "12DC2DCZ"
    stage.check_names()


def test_name_that_exists(scene):
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    for text in (ONE, TWO):
        result = both.ask(m.parse(text, "s1"), use("s1"), m.sync())
        assert result.types == "EZ" and result.errors[0]["C"] == "42P05"
    # a text that is wrong is told first
    assert both.ask(m.parse("badparse", "s1"), m.sync()).errors[0]["C"] == "42601"
    assert both.ask(use("s1"), m.sync()).value == ONE
    assert [result.types for result in both.ask_all(3, P2, m.sync(), P2, use("s1"), m.sync(), use("s2"), m.sync())] == \
        ["1Z", "EZ", "2DCZ"]


def test_name_that_does_not_exist(scene):
    stage = Stage(scene)
    both = stage.both()
    for asked in (m.bind("no"), m.describe("S", "no"), m.bind(""), m.describe("S", "")):
        result = both.ask(asked, m.execute(), m.sync())
        assert result.types == "EZ" and result.errors[0]["C"] == "26000"
    assert both.ask(P1, use("s1"), m.bind("no"), use("s1"), m.sync()).types == "12DCEZ"


@pytest.mark.parametrize("wrong", [m.bind("no"), m.describe("S", "no"), P1, m.close("S") + m.bind(""), m.parse("badparse", "x")],
                         ids=["bind", "describe", "parse", "bind unnamed", "bad parse"])
@pytest.mark.parametrize("place", ["block", "implicit", "same batch"])
def test_errors_of_names_end_the_transaction(scene, wrong, place):
    """An error that only pgweir knows of has to be one to the server as well."""
    stage = Stage(scene)
    both = stage.both()
    both.ask(P1, m.sync())
    if place == "block":
        both.ask(m.query("BEGIN"))
        both.ask(m.query("insert lost"))
        assert both.ask(wrong, m.sync()).status == "E"
        assert both.ask(m.query("insert refused")).errors[0]["C"] == "25P02"
        assert both.ask(m.query("COMMIT")).tags == ["ROLLBACK"]
    elif place == "implicit":
        assert both.ask(m.run("insert lost"), wrong, m.run("insert skipped"), m.sync()).errors
    else:
        both.ask(m.run("BEGIN"), m.run("insert lost"), wrong, m.sync())
        assert both.ask(use("s1"), m.sync()).status == "E"
        both.ask(m.run("ROLLBACK"), m.sync())
    both.ask(m.run("insert kept"), m.sync())
    assert stage.fake.kept == stage.truth.kept == ["kept"]
    assert both.ask(use("s1"), m.sync()).value == ONE


def test_statements_allowed_in_an_aborted_transaction(scene):
    """PostgreSQL refuses everything except the end of the transaction, and detects this when it parses."""
    stage = Stage(scene)
    both, other = stage.both(), stage.both()
    for text in ("echo known", "ROLLBACK"):
        other.ask(m.parse(text, text), m.sync())
    both.ask(P1, m.parse("ROLLBACK", "end"), m.sync())
    both.ask(m.query("BEGIN"))
    both.ask(m.query("fail"))
    assert both.ask(use("s1"), m.sync()).errors[0]["C"] == "25P02"
    assert both.ask(m.describe("S", "s1"), m.sync()).errors[0]["C"] == "25P02"
    assert both.ask(m.parse("echo known", "k"), m.sync()).errors[0]["C"] == "25P02"
    assert both.ask(m.parse("echo new", "n"), m.sync()).errors[0]["C"] == "25P02"
    assert both.ask(m.parse("badparse", "n"), m.sync()).errors[0]["C"] == "42601"
    assert both.ask(m.parse("ROLLBACK", "again"), m.sync()).types == "1Z"
    assert both.ask(m.parse("ROLLBACK", "again"), m.sync()).errors[0]["C"] == "42P05"
    assert both.ask(m.bind("nobody"), m.sync()).errors[0]["C"] == "26000"
    assert both.ask(m.close("S", "s1"), m.close("S", "nobody"), m.sync()).types == "33Z"
    assert both.ask(use("end"), m.sync()).status == "I"
    for name in ("k", "n", "s1"):
        assert both.ask(m.bind(name), m.sync()).errors[0]["C"] == "26000"
    assert both.ask(use("again"), m.sync()).tags == ["ROLLBACK"]
    assert both.ask(m.parse("echo known", "k"), use("k"), m.sync()).value == "echo known"


def test_rollback_on_a_server_that_lacks_the_statement(scene):
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(m.parse("ROLLBACK", "end"), m.sync())
    others = occupy(stage)
    both.ask(m.query("BEGIN"))
    both.ask(m.query("fail"))
    assert both.ask(use("end"), m.sync()).status == "I"
    let_go(others)


# --- settings

def test_zero_disables_prepared_statement_support(scene):
    stage = Stage(scene, max_prepared_statements=0)
    both = stage.both()
    both.ask(P1, m.describe("S", "s1"), use("s1"), C1, m.sync())
    both.ask(P2, m.sync())
    assert both.ask(use("s2"), m.sync()).value == TWO
    assert [entry[2] for entry in stage.log()] == ["s1"] * 4 + ["s2"] * 2
    assert stage.columns() == [0]


def test_session_mode_does_not_change_names(scene):
    stage = Stage(scene, pool_mode="session")
    both = stage.both()
    both.ask(P1, m.describe("S", "s1"), use("s1"), m.sync())
    both.ask(m.parse(ONE, "PGWEIR_1"), m.bind("no"), m.sync())
    both.ask(m.parse(ONE, "s1"), m.sync())
    both.ask(C1, C2, m.sync())
    assert {entry[2] for entry in stage.log()} == {"s1", "PGWEIR_1", "no", "s2"}


def test_pool_mode_of_database_or_user_applies(scene):
    fake = scene.mini()
    target = "host=127.0.0.1 port=%d dbname=p0" % fake.port
    weir = scene.weir({"p0": target, "p1": target + " pool_mode=session"}, pool_mode="transaction",
                      sections={"users": {"rival": "pool_mode=session"}})
    for client, named in ((weir.client(), False), (weir.client(database="p1"), True), (weir.client("rival"), True)):
        before = len(fake.statements)
        client.send(m.parse(ONE, "mine"), m.sync())
        client.expect_all("1Z")
        assert (fake.statements[before][2] == "mine") == named


@pytest.mark.parametrize("how", ["SET", "RELOAD"])
def test_the_limit_may_be_changed(scene, how):
    stage = Stage(scene, max_prepared_statements=5)
    both = stage.both()

    def limit(count):
        if how == "SET":
            stage.weir.admin("SET max_prepared_statements = %d" % count)
        else:
            stage.weir.settings["max_prepared_statements"] = count
            stage.weir.write_ini()
            stage.weir.admin("RELOAD")

    for n in range(8):
        both.ask(m.parse("echo %d" % n, str(n)), use(str(n)), m.sync())
    assert stage.server_holds() == 5
    limit(2)
    for n in range(8):
        assert both.ask(use(str(n)), m.sync()).value == "echo %d" % n
    assert stage.server_holds() <= 2
    limit(200)
    for n in range(8):
        assert both.ask(use(str(n)), m.sync()).value == "echo %d" % n
    assert stage.server_holds() == 8
    stage.check_names()


@pytest.mark.parametrize("how", ["SET", "RELOAD"])
def test_disabled_while_clients_have_statements(scene, how):
    """A client with statements continues to use them or gets an error; there are no wrong rows, and no client hangs."""
    stage = Stage(scene)
    one, two = stage.client(), stage.client()
    one.send(P1, m.sync())
    one.expect_all("1Z")
    two.send(m.parse(TWO, "s1"), m.sync())
    two.expect_all("1Z")
    for count in (0, 10, 0, 10):
        if how == "SET":
            stage.weir.admin("SET max_prepared_statements = %d" % count)
        else:
            stage.weir.settings["max_prepared_statements"] = count
            stage.weir.write_ini()
            stage.weir.admin("RELOAD")
        for client, text in ((one, ONE), (two, TWO)):
            client.send(use("s1"), m.sync())
            result = client.result()
            assert result.rows == [[text.encode()]] or result.errors[0]["C"] == "26000", (count, result.messages)
    # a new client finds it as it is set now
    both = stage.both()
    both.ask(P1, m.sync())
    assert both.ask(use("s1"), m.sync()).value == ONE


def test_columns_of_show(scene):
    stage = Stage(scene, 2)
    one, two = stage.both(), stage.both()
    one.ask(P1, P2, m.parse(ONE, "s3"), m.sync())
    two.ask(P1, m.sync())
    assert stage.columns("CLIENTS") == [1, 3] and stage.columns("SERVERS") == [2]
    one.ask(C1, m.sync())
    assert stage.columns("CLIENTS") == [1, 2]
    others = occupy(stage)
    two.ask(use("s1"), m.sync())
    assert stage.columns("SERVERS") == [1, 2]
    let_go(others)
    two.ask(m.query("DEALLOCATE ALL"))
    assert stage.columns("CLIENTS")[0] == 0
    two.quit()
    until(lambda: stage.columns("CLIENTS") == [0, 2], "it is gone")


# --- messages as bytes

@pytest.mark.parametrize("size", [4000, 4090, 4096, 8192, 65500, 65531, 65536, LONG_TEXT, 1000000, 8000000])
def test_long_text(scene, size):
    stage = Stage(scene, 2)
    both, rival = stage.both(), stage.both()
    text = "echo " + "x" * size
    assert both.ask(m.parse(text, "long"), m.describe("S", "long"), m.sync()).types == "1tTZ"
    others = occupy(stage)
    assert both.ask(use("long"), m.sync()).value == text
    assert rival.ask(m.parse(text, "its"), use("its"), m.parse(text + "y", "other"), use("other"), m.sync()).types == "12DC12DCZ"
    let_go(others)
    assert sum(one == text for one in stage.parsed()) == 2
    stage.check_names()


@pytest.mark.parametrize("size", [5000, 65000, LONG_TEXT, 1000000])
def test_long_text_without_a_name(scene, size):
    """A statement of any length works within its batch; there is a limit for keeping it for another server."""
    stage = Stage(scene, 2)
    both, rival = stage.both(), stage.both()
    text = "echo " + "x" * size
    both.ask(m.run(text), m.bind(), m.execute(), m.sync())
    both.ask(m.parse(text), m.sync())
    rival.ask(m.run("echo rival"), m.sync())
    others = occupy(stage)
    both.client.send(m.bind(), m.execute(), m.sync())
    result = both.client.result()
    if result.errors:
        assert result.errors[0]["C"] == "26000" and size > 65500
    else:
        assert result.value == text
    let_go(others)
    assert rival.ask(m.bind(), m.execute(), m.sync()).value == "echo rival"


@pytest.mark.parametrize("cut", [0, 5, 7])
def test_long_values_are_not_collected(scene, cut):
    """Only the names of a Bind are read, for any length, and wherever it is split."""
    stage = Stage(scene)
    client = stage.client()
    client.send(P1, use("s1", values=(b"warm",)), m.sync())
    client.expect_all("12DCZ")
    before = stage.weir.memory()
    value = b"v" * 50000000
    long_bind = m.bind("s1", "", (value,))
    if cut:
        client.send(long_bind[:cut])
        stage.weir.barrier()
    client.send(long_bind[cut:], m.execute(), m.sync())
    (row,) = client.result().rows
    assert row == [b"echo one," + value]
    assert stage.weir.memory() - before < 16384


@pytest.mark.parametrize("size", [4070, 4096, 65500, 65536, LONG_TEXT, 300000])
def test_long_values_on_a_server_that_lacks_the_statement(scene, size):
    stage = Stage(scene, 2)
    both = stage.both()
    both.ask(P1, m.sync())
    for _ in occupy(stage):
        for around in (-9, -5, -1, 0, 1, 5):
            value = b"v" * (size + around)
            assert both.ask(m.bind("s1", "portal", (value, None)), m.execute("portal"), m.sync()).types == "2DCZ"


def conversation():
    """Some of everything, with six ReadyForQuery."""
    return b"".join((
        P1, m.parse(TWO, "s2", (25, 23)), m.describe("S", "s2"), use("s1"), m.sync(),
        m.parse(ONE), m.bind("", "p", (b"value", None)), m.describe("P", "p"), m.execute("p"), m.close("P", "p"), m.sync(),
        use("s2", "p2"), C1, P1, use("s1"), C2, m.close("S", "nobody"), m.sync(),
        P1, use("s1"), m.sync(),
        use("s2"), m.sync(),
        m.flush(), m.query("echo the end"), C1))


@pytest.mark.parametrize("cache", [1, 2, 200])
@pytest.mark.parametrize("bytewise", [False, True], ids=["cut", "bytewise"])
def test_cut_at_every_byte(scene, cache, bytewise):
    stage = Stage(scene, byte_by_byte=bytewise, max_prepared_statements=cache)
    both = stage.both()
    data = conversation()
    for cut in range(1, len(data)) if not bytewise else (None,):
        if bytewise:
            both.double.send(data)
            both.client.dribble(data)
        else:
            both.double.send(data)
            both.client.send(data[:cut])
            stage.weir.barrier()
            both.client.send(data[cut:])
        kinds = [both.heard().types for _ in range(6)]
        assert kinds[0] == "11tT2DCZ" and kinds[4] == "EZ" and kinds[5] == "TDCZ", (cut, kinds)
        both.ask(m.sync())
    stage.check_names()


@pytest.mark.parametrize("first", [P1 + use("s1"), use("s0"), m.describe("S", "s0"), m.close("S", "s0") + use("s9")])
def test_two_clients_cut_inside_their_messages(scene, first):
    """A partial message of one client does not delay the messages of another."""
    stage = Stage(scene)
    one, two = stage.both(), stage.both()
    for both in (one, two):
        both.ask(m.parse("echo nought", "s0"), m.parse("echo nine", "s9"), m.sync())
    for cut in range(1, len(first)):
        one.double.send(first, m.sync())
        one.client.send(first[:cut])
        stage.weir.barrier()
        one.client.send(first[cut:], m.sync())
        two.ask(m.parse(TWO, "s2"), use("s0"), m.close("S", "s2"), m.sync())
        one.heard()
        one.ask(m.close("S", "s1"), m.close("S", "s0"), m.parse("echo nought", "s0"), m.sync())


@pytest.mark.parametrize("body", [
    b"", b"abc", b"abc\0", b"abc\0echo", b"abc\0echo x\0", b"abc\0echo x\0\0", b"abc\0echo x\0\0\1", b"abc\0echo x\0\0\1\0\0",
    b"\0", b"\0echo", b"\0echo\0\0\1", b"abc\0echo x\0\xff\xff"])
def test_malformed_parse(scene, body):
    """Nothing of it may reach another client's statements; the server may be asked for its opinion."""
    stage = Stage(scene)
    client, other = stage.client(), stage.both()
    other.ask(P1, m.sync())
    client.send(m.message("P", body), m.sync())
    try:
        result = client.result()
        assert result.types == "EZ" and result.errors[0]["C"] == "08P01"
    except Closed:
        pass
    other.ask(use("s1"), m.parse("echo after", "after"), use("after"), m.sync())


@pytest.mark.parametrize("kind, body", [
    ("B", b""), ("B", b"p"), ("B", b"p\0"), ("B", b"p\0s1"), ("D", b""), ("D", b"S"), ("D", b"Ss1"), ("D", b"Xs1\0"), ("C", b""),
    ("C", b"S"), ("C", b"Ss1"), ("C", b"Xs1\0"), ("D", b"S" + b"x" * 100000), ("C", b"S" + b"x" * 100000),
    ("B", b"p" * 100000), ("B", b"p\0" + b"s" * 100000)])
def test_unterminated_names(scene, kind, body):
    stage = Stage(scene)
    client, other = stage.client(), stage.both()
    for one in (client, other):
        one.send(P1, m.sync())
    client.expect_all("1Z")
    other.heard()
    client.send(m.message(kind, body), m.sync())
    try:
        result = client.result()
        assert result.types == "EZ" and result.errors[0]["C"] == ("08P01" if len(body) < 4096 else "42622")
    except Closed:
        assert len(body) < 4096
    other.ask(use("s1"), m.parse("echo after", "after"), use("after"), m.sync())
