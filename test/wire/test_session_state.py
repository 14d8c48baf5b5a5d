"""session_state = full, where the server answers late, wrongly or not at all; see also live/test_session_state.py."""
import pytest

from support import messages as m
from support.scenes import transactions
from support.takeover import Replaced
from support.until import until

CANCELED = m.error("canceling statement due to user request", "57014") + m.ready()
TIMEOUT_ROW = m.data_row("0", "0", "1") + m.command_complete("SELECT 1")


def answer(*pairs):
    """A server's answer to the query for set parameters."""
    return TIMEOUT_ROW + b"".join(m.data_row(name, value) for name, value in pairs) + m.command_complete("SELECT %d" % len(pairs)) + m.ready()


class Stage:
    """A client that has said SET, and its server, which has been asked."""

    def __init__(self, scene, text="SET app.a = 1", asks=True, startup=None, **settings):
        self.fake = scene.fake()
        self.weir = transactions(scene, self.fake, session_state="full", server_login_retry=0, **settings)
        self.client = self.weir.client(**startup or {})
        self.client.send(m.query(text))
        self.server = self.fake.accept()
        if startup:
            self.server.expect("Q")
            self.server.complete("SELECT 1")
        self.server.expect_query(text)
        self.server.complete("SET")
        # the client is told at once; its next query waits
        assert self.client.result().tags == ["SET"]
        self.asked = self.question() if asks else None

    def question(self):
        text = m.read_cstrings(self.server.expect("Q").body)[0]
        assert "pg_settings" in text
        return text

    def query_of(self, client, text, before=None):
        """Sends a query of a client before which the server must set parameters. Returns the pooler's query."""
        client.send(m.query(text))
        asked = m.read_cstrings(self.server.expect("Q").body)[0]
        if asked != text:
            self.server.complete("SELECT 1")
            self.server.expect_query(text)
        self.server.answer(text)
        assert client.result().value == text
        return asked if asked != text else None


@pytest.mark.parametrize("byte_by_byte", [False, True])
def test_the_answer(scene, byte_by_byte):
    stage = Stage(scene)
    assert "current_setting('app.a',true)" in stage.asked
    (stage.server.dribble if byte_by_byte else stage.server.send)(answer(("app.a", "it's"), ("work_mem", "512")))
    other = stage.weir.client()
    assert stage.query_of(other, "other") == "SELECT pg_catalog.set_config('app.a',NULL,false),pg_catalog.set_config('work_mem',NULL,false)"
    asked = stage.query_of(stage.client, "mine")
    assert "set_config('app.a',E'it''s',false)" in asked and "set_config('work_mem',E'512',false)" in asked


def test_cancel_request_hits_the_poolers_query(scene):
    """The query is repeated, but a limited number of times."""
    stage = Stage(scene)
    for _ in range(2):
        stage.server.send(CANCELED)
        assert stage.question() == stage.asked
    stage.server.send(answer(("app.a", "1")))
    assert stage.query_of(stage.client, "mine") is None


def test_poolers_query_fails(scene):
    stage = Stage(scene)
    for _ in range(2):
        stage.server.send(CANCELED)
        stage.question()
    stage.server.send(CANCELED)
    assert [m.read_error(message.body)["M"] for message in stage.client.drain()] == ["settings of the session cannot be read"]
    stage.server.expect("X")


def test_the_server_ends(scene):
    stage = Stage(scene)
    stage.server.close()
    assert [message.type for message in stage.client.drain()] == ["E"]


@pytest.mark.parametrize("reset", ["DISCARD ALL", ""])
def test_client_disconnects_during_the_query(scene, reset):
    """The server continues without the client, and is reset or closed before another client gets it."""
    stage = Stage(scene, server_reset_query=reset)
    stage.client.close()
    until(lambda: not [row for row in stage.weir.show("CLIENTS") if row["database"] == "p0"], "the client has gone")
    other = stage.weir.client()
    other.send(m.query("other"))
    stage.server.send(answer(("app.a", "1")))
    if reset:
        stage.server.expect_query(reset)
        stage.server.complete(reset)
        server = stage.server
    else:
        stage.server.expect("X")
        server = stage.fake.accept()
    server.expect_query("other")
    server.answer("other")
    assert other.result().value == "other"


def test_the_next_query_waits(scene):
    stage = Stage(scene)
    stage.client.send(m.query("mine"))
    other = stage.weir.client()
    other.send(m.query("other"))
    stage.server.send(answer(("app.a", "1")))
    stage.server.expect_query("mine")
    stage.server.answer("mine")
    assert stage.client.result().value == "mine"
    # nothing has been set since
    assert "set_config('app.a',NULL,false)" in m.read_cstrings(stage.server.expect("Q").body)[0]


def many(prefix, count):
    return [("%s%d" % (prefix, number), "x") for number in range(count)]


@pytest.mark.parametrize("startup, rows", [
    ({}, [("app.a", "x" * 70000)]), ({}, many("app.p", 201)), ({}, [("x" * 201, "1")]), ({}, [("a'b", "x")]), ({}, [("", "x")]),
    ({}, [("app.p%d" % number, "x" * 1000) for number in range(70)]),
    # start-up parameters that have been RESET count as well
    (dict(many("a", 101)), many("b", 100))])
def test_too_many_parameters(scene, startup, rows):
    """
    The client keeps its server, which is reset afterwards. The same holds for an invalid parameter name, which would become SQL on other servers.
    """
    stage = Stage(scene, startup=startup)
    stage.server.send(answer(*rows))
    stage.weir.wait_log("keeps its server connection until it leaves: it has set more than can be kept")
    other = stage.weir.client()
    other.send(m.query("other"))
    assert stage.query_of(stage.client, "mine") is None
    stage.client.quit()
    stage.server.expect_query("DISCARD ALL")
    stage.server.complete("DISCARD ALL")
    stage.server.expect_query("other")


def test_role_is_not_handled_as_a_parameter(scene):
    """A server that reports this is not believed: another server might be told to take that role."""
    stage = Stage(scene)
    stage.server.send(answer(("role", "postgres"), ("session_authorization", "postgres"), ("app.a", "1")))
    asked = stage.query_of(stage.weir.client(), "other")
    assert "app.a" in asked and "postgres" not in asked and "role" not in asked


@pytest.mark.parametrize("row", [m.data_row("app.a"), m.data_row("app.a", None), m.message("D", b"\0\2\0\0"), m.data_row("a\0b", "x"),
                                 m.message("D", b"\0\2\0\0\0\1a\x7f\xff\xff\xff")])
def test_malformed_rows(scene, row):
    stage = Stage(scene)
    stage.server.send(TIMEOUT_ROW + row + m.command_complete("SELECT 1") + m.ready())
    assert stage.query_of(stage.client, "mine") is None


def test_set_local(scene):
    """Nothing is left of it after the transaction, and the server is not asked."""
    stage = Stage(scene, "SET LOCAL app.a = 1", asks=False)
    assert stage.query_of(stage.client, "mine") is None
    # another SET may have the tag: Stage expects the question
    Stage(scene, "SET LOCAL app.a = 1; SET app.b = 1")


def test_too_many_names(scene):
    stage = Stage(scene, ";".join("SET app.a%d = 1" % number for number in range(101)), asks=False)
    stage.weir.wait_log("keeps its server connection until it leaves: it has named too many parameters")
    assert stage.query_of(stage.client, "mine") is None


def test_a_text_too_long_to_be_searched(scene):
    """The end of a text that does not fit the read buffer may set any parameter."""
    stage = Stage(scene, "SELECT '%s'; SET app.a = 1" % ("x" * 500000), asks=False)
    stage.weir.wait_log("keeps its server connection until it leaves: its query is too long to be searched for the names of parameters")
    assert stage.query_of(stage.client, "mine") is None


@pytest.mark.parametrize("message", [m.query("SELECT set_config('app.a', '1', false)"), m.parse("SELECT set_config('app.a', '1', false)") + m.sync()])
def test_text_arrives_byte_by_byte(scene, message):
    """The query is sent to the server when it is complete, so that its names are known. Until then the client has no server."""
    fake = scene.fake()
    weir = transactions(scene, fake, session_state="full")
    client = weir.client()
    client.dribble(message)
    server = fake.accept()
    assert server.expect(chr(message[0]))
    if message[:1] == b"Q":
        server.answer("1")
    else:
        server.expect("S")
        server.send(m.parse_complete() + m.ready())
    client.result()
    assert "current_setting('app.a',true)" in m.read_cstrings(server.expect("Q").body)[0]


def test_a_function_that_is_called_by_its_number(scene):
    fake = scene.fake()
    weir = transactions(scene, fake, session_state="full")
    client = weir.client()
    client.send(m.message("F", b"\0\0\x08\x1e\0\0\0\0\0\0"))
    server = fake.accept()
    server.expect("F")
    server.send(m.message("V", b"\xff\xff\xff\xff") + m.ready())
    assert "pg_settings" in m.read_cstrings(server.expect("Q").body)[0]


def test_online_restart_during_the_poolers_query(scene):
    """The partial answer is lost with the old process: the new one repeats the query."""
    stage = Stage(scene, kind=Replaced)
    stage.server.send(TIMEOUT_ROW + m.data_row("app.a", "1"))
    stage.client.send(m.query("mine"))
    stage.weir.replace()
    stage.server.send(m.data_row("app.b", "2") + m.command_complete("SELECT 2") + m.ready())
    assert stage.question() == stage.asked
    stage.server.send(answer(("app.a", "1")))
    stage.server.expect_query("mine")
    stage.server.answer("mine")
    assert stage.client.result().value == "mine"
    assert "set_config('app.a',NULL,false)" in stage.query_of(stage.weir.client(), "other")


# --- clients that have a server before they are welcomed


@pytest.mark.parametrize("kind", ["database", "true"])
def test_a_client_of_replication(scene, kind):
    fake = scene.fake()
    client = transactions(scene, fake, session_state="full").client(replication=kind)
    server = fake.accept()
    client.send(m.query("IDENTIFY_SYSTEM"))
    server.expect_query("IDENTIFY_SYSTEM")
    server.answer("x")
    assert client.result().value == "x"


@pytest.mark.parametrize("sends_ahead", [False, True])
def test_a_login_with_a_server_where_the_mode_has_changed_meanwhile(scene, sends_ahead):
    """The client's server is shared from then on, and pgweir queries its parameters, even if the client's query came with its start-up packet."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session", session_link="login", session_state="full", default_pool_size=1)
    first = weir.client()
    fake.accept()
    second = weir.connect()
    second.send(m.startup(user="app", database="p0"), m.query("SET app.a = 1") if sends_ahead else b"")
    weir.wait_pool("p0", cl_waiting=1)
    weir.admin("SET pool_mode = 'transaction'")
    first.quit()
    server = fake.accept()
    server.expect_functions()
    server.expect_functions()
    second.finish_login()
    if not sends_ahead:
        weir.wait_pool("p0", sv_idle=1, sv_active=0)
        second.send(m.query("SET app.a = 1"))
    server.expect_query("SET app.a = 1")
    server.complete("SET")
    assert second.result().tags == ["SET"]
    server.expect("Q")
    server.send(answer(("app.a", "1")))
    weir.wait_pool("p0", sv_idle=1, sv_active=0)


# --- functions of the database

ROLE = m.data_row("61:6e6f6e65") + m.command_complete("SELECT 1")      # of user a, none set
TENANT = [("n", "20000", "use_tenant", ""), ("s", "20000", "SELECT set_config('app.tenant', $1, false)", "")]


class Functions:
    """A pool whose server is asked for functions, and answers as the scene says."""

    def __init__(self, scene, **settings):
        self.fake = scene.fake()
        self.fake.shows_functions = True
        self.weir = transactions(scene, self.fake, session_state="full", **settings)
        self.client = self.weir.client()
        self.client.send(m.query("first"))
        self.server = self.fake.accept()

    def learn(self, *rows, mark="mark"):
        """Both rounds."""
        self.server.expect_functions((mark,))
        self.server.expect_functions((mark,), *rows)

    def answers(self, text, client=None, asks=False):
        client = client or self.client
        self.server.expect_query(text)
        self.server.answer("1")
        assert client.result().value == "1"
        if asks:
            asked = m.read_cstrings(self.server.expect("Q").body)[0]
            self.server.send(ROLE * 2, answer(("app.tenant", "7")))
            return asked
        return None

    def query(self, text, asks=False, client=None):
        (client or self.client).send(m.query(text))
        return self.answers(text, client, asks)


def test_functions_are_read_before_the_first_query(scene):
    stage = Functions(scene)
    stage.learn(*TENANT)
    stage.answers("first")
    stage.weir.wait_log("p0/app: functions of the database that change the session: 1")
    assert "current_setting('app.tenant',true)" in stage.query("SELECT use_tenant('7')", asks=True)
    stage.query("SELECT another('7')")


def test_function_that_calls_another(scene):
    stage = Functions(scene)
    stage.learn(TENANT[0], ("n", "20001", "outer1", ""), TENANT[1], ("s", "20001", "SELECT use_tenant('7')", ""))
    stage.answers("first")
    assert "current_setting('app.tenant',true)" in stage.query("SELECT outer1()", asks=True)


def test_functions_that_cannot_be_read(scene):
    """The client continues, and the error is logged; the next client does not repeat the query at once."""
    stage = Functions(scene)
    assert "pg_proc" in m.read_cstrings(stage.server.expect("Q").body)[0]
    stage.server.send(m.error("permission denied for table pg_proc", "42501"), m.ready())
    stage.answers("first")
    stage.weir.wait_log("asking for the functions of the database failed: ERROR permission denied for table pg_proc")
    stage.query("second")


def test_server_ends_while_functions_are_read(scene):
    stage = Functions(scene)
    stage.server.expect("Q")
    stage.server.send(m.error("the administrator", "57P01", "FATAL"))
    stage.server.close()
    assert [m.read_error(message.body)["M"] for message in stage.client.drain()] == ["the administrator"]
    other = stage.weir.client()
    other.send(m.query("second"))
    stage.server = stage.fake.accept()
    stage.learn(*TENANT)
    stage.answers("second", other)


def test_client_disconnects_while_functions_are_read(scene):
    """The server stays, and the next client asks."""
    stage = Functions(scene)
    stage.server.expect("Q")
    stage.client.close()
    until(lambda: not [row for row in stage.weir.show("CLIENTS") if row["database"] == "p0"], "the client has gone")
    stage.server.send(m.data_row(*TENANT[0]), m.command_complete("SELECT 1"), m.ready())
    other = stage.weir.client()
    other.send(m.query("second"))
    if stage.weir.pool("p0")["sv_login"]:
        stage.server = stage.fake.accept()
    stage.learn(*TENANT)
    stage.answers("second", other)


@pytest.mark.parametrize("tag", ["CREATE FUNCTION", "DROP FUNCTION", "ALTER FUNCTION", "CREATE EXTENSION", "CREATE TRIGGER"])
def test_a_command_that_changes_functions(scene, tag):
    """The next client waits until they are known; where the catalogue is the same, nothing has changed."""
    stage = Functions(scene)
    stage.learn(*TENANT)
    stage.answers("first")
    stage.client.send(m.query("define"))
    stage.server.expect_query("define")
    stage.server.complete(tag)
    assert stage.client.result().tags == [tag]
    if tag.startswith("CREATE"):
        # it may be a temporary one
        stage.server.expect("Q")
        stage.server.send(answer())
    stage.client.send(m.query("next"))
    stage.server.expect_functions(("mark",))
    stage.answers("next")
    stage.query("SELECT use_tenant('7')", asks=True)


def test_online_restart_while_functions_are_read(scene):
    stage = Functions(scene, kind=Replaced)
    stage.server.expect("Q")
    stage.weir.replace()
    stage.server.send(m.data_row(*TENANT[0]), m.command_complete("SELECT 1"), m.ready())
    # the functions read by the old process are not known
    stage.learn(*TENANT)
    stage.answers("first")
    stage.client.send(m.query("SELECT use_tenant('7')"))
    assert "current_setting('app.tenant',true)" in stage.answers("SELECT use_tenant('7')", asks=True)


def test_false_answers_about_functions(scene):
    """Rows that make no sense, and sources without end."""
    stage = Functions(scene)
    rows = [("",), ("a",), ("a", "b"), ("n", "1", "a" * 64, "x"), ("n", "x" * 60000, "", ""), ("n", "2", "huge", ""), ("n", "3", "many", ""), ("e", "1", "2", "w"),
            ("e", "3", "3", "f"), ("s", "2", "y" * 70000, ""), ("s", "3", "SET " * 10000, ""), ("s", "4", "", ""), ("h", "", "", "z"), ("z", "", "", "")]
    stage.learn(*rows)
    stage.answers("first")
    stage.query("second")


def lost_account(fake, weir):
    """Returns a client that has set a parameter and has sent a request into a COPY, of which its server may have read any part."""
    client, text = weir.client(), "SET app.a = 1; COPY t FROM STDIN"
    client.send(m.query(text))
    server = fake.accept()
    server.expect_query(text)
    server.send(m.command_complete("SET"), m.copy_in_response())
    client.expect_all("CG")
    client.send(m.query("SELECT 7"))
    server.expect_query("SELECT 7")
    server.send(m.error("unexpected message"), m.ready())
    client.expect("E")
    return client


def test_a_request_within_a_copy_of_a_client_that_has_set_something(scene):
    """The server cannot be queried: the client keeps it, and that counts as a pin."""
    fake = scene.fake()
    weir = transactions(scene, fake, session_state="full", pool_size=2, max_pinned=1)
    first = lost_account(fake, weir)
    first.expect("Z")
    until(lambda: [row["pins"] for row in weir.show("PINS")] == ["parameters"], "it is pinned")
    lost_account(fake, weir).drain()
    until(lambda: "closing because: too many server connections are pinned (max_pinned): parameters" in weir.log(), "the other one has ended")
