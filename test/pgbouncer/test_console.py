"""Commands of the console: answers, and the lines that the log has of them."""
import pytest

from support import messages as m
from support.live import SOON
from support.log_words import logs_event
from support.pgbouncer import words
from support.ports import full_listener

# (command, its error or None, the line of the log or None); KILL without a database and the lines of SET and KILL_CLIENT exist in pgweir only
COMMANDS = [
    ("RELOAD", None, "RELOAD command issued"),
    ("PAUSE", None, "PAUSE command issued"),
    ("PAUSE", "already suspended/paused", None),
    ("PAUSE p0", "already suspended/paused", None),
    ("SUSPEND", "already suspended/paused", None),
    ("RESUME", None, "RESUME command issued"),
    ("RESUME", "pooler is not paused/suspended", "RESUME command issued"),
    ("PAUSE p0", None, "PAUSE 'p0' command issued"),
    ("SUSPEND", "cannot suspend with paused databases", None),
    ("RESUME p0", None, "RESUME 'p0' command issued"),
    ("RESUME p0", "database p0 is not paused", "RESUME 'p0' command issued"),
    ("SUSPEND", None, "SUSPEND command issued"),
    ("PAUSE", "already suspended/paused", None),
    ("RESUME", None, "RESUME command issued"),
    ("DISABLE p0", None, "DISABLE 'p0' command issued"),
    ("ENABLE p0", None, "ENABLE 'p0' command issued"),
    ("DISABLE", "a database is required", None),
    ("ENABLE", "a database is required", None),
    ("RECONNECT", None, "RECONNECT command issued"),
    ("RECONNECT p0", None, "RECONNECT 'p0' command issued"),
    ("WAIT_CLOSE", None, "WAIT_CLOSE command issued"),
    ("WAIT_CLOSE p0", None, "WAIT_CLOSE 'p0' command issued"),
    ("KILL p0", None, "KILL 'p0' command issued"),
    ("RESUME p0", None, "RESUME 'p0' command issued"),
    ("KILL_CLIENT 77", "client not found", None),
    ("KILL_CLIENT x", "invalid client pointer supplied", None),
    ("SET nosuch = 1", "SET failed", None),
    ("FOO", "invalid command 'FOO', use SHOW HELP;", None),
    ("RELOAD p0", "invalid command 'RELOAD p0', use SHOW HELP;", None),
    ("SHUTDOWN x", "invalid command 'SHUTDOWN x', use SHOW HELP;", None),
    ("SHOW nosuch", "invalid command 'SHOW nosuch', use SHOW HELP;", None),
    ("PAUSE nodb", "no such database: nodb", "PAUSE 'nodb' command issued"),
    ("DISABLE nodb", "no such database: nodb", "DISABLE 'nodb' command issued"),
    ("KILL pgbouncer", "cannot kill admin db: pgbouncer", "KILL 'pgbouncer' command issued"),
    ("SHOW VERSION", None, None),
]


def test_commands_and_their_lines(pooler, scene):
    weir = pooler(scene.mini())
    console = weir.client("admin", "pgbouncer")
    expected = []
    for command, error, line in COMMANDS:
        answer = console.query(command)
        assert [fields["M"] for fields in answer.errors] == ([error] if error else []), command
        assert answer.tags == ([] if error else [command.partition(" ")[0]])
        expected += [("LOG", line)] if line else []
        expected += [("ERROR", error), ("WARNING", "C: pgbouncer/admin@127.0.0.1 pooler error: " + error)] if error else []
    lines = [(level, text.partition(" (C: ")[0]) for level, text in words(weir.log(), "command issued|pooler error")]
    lines = [line for line in lines if line[1] != "SET nosuch=*** command issued"]
    assert lines == [line for line in expected if line[0] != "ERROR"]
    errors = words(weir.log(), "^(?!unknown)")
    assert [line for line in errors if line[0] == "ERROR"] == [line for line in expected if line[0] == "ERROR"]
    logs_event(weir, "commands of the console")


def test_stats_users(pooler, scene):
    weir = pooler(scene.mini())
    console = weir.client("stats", "pgbouncer")
    for command in "RELOAD", "SHOW FDS", "SET query_timeout = 1", "KILL_CLIENT 1":
        assert console.query(command).error == "admin access needed"
    logs_event(weir, "command that is not for stats_users")


def test_a_login_of_the_daemons_own_user(pooler, scene):
    weir = pooler(scene.mini(), auth_type="scram-sha-256")
    weir.client("pgbouncer", "pgbouncer", unix=True)
    weir.client("admin", "pgbouncer", unix=True)
    # PgBouncer writes it before the login attempt, when it does not know the database
    logs_event(weir, "console over the Unix socket")
    assert len(words(weir.log(), "access from")) == 1


def test_fast_close_after_reconnect(pooler, scene):
    weir = pooler(scene.mini(), pool_mode="session", server_fast_close=1)
    client = weir.client()
    client.query("x")
    weir.admin("RECONNECT p0")
    assert m.read_error(client.drain()[-1].body)["M"] == "database configuration changed"
    logs_event(weir, "RECONNECT with server_fast_close")


def test_reconnect(pooler, scene):
    """Idle servers, and servers of linked clients."""
    weir = pooler(scene.mini(), pool_mode="transaction")
    client = weir.client()
    client.query("x")
    weir.admin("RECONNECT")
    # PgBouncer closes it a moment later
    weir.wait_log("S-.*closing because")
    client.query("BEGIN")
    weir.admin("RECONNECT")
    client.query("COMMIT")
    logs_event(weir, "RECONNECT")


def test_removed_databases(pooler, scene):
    """By RELOAD, and one of * by autodb_idle_timeout."""
    mini = scene.mini()
    weir = pooler({"p0": mini, "p1": mini, "*": mini}, server_idle_timeout=SOON, autodb_idle_timeout=SOON)
    weir.client(database="auto").quit()
    weir.wait_log("dropping database")
    client = weir.client()
    client.query("x")
    del weir.databases["p0"]
    weir.write_ini()
    weir.admin("RELOAD")
    logs_event(weir, "databases that go")


@pytest.mark.parametrize("limit, text", [
    ("max_db_client_connections", "client connections exceeded (max_db_client_connections)"),
    ("max_user_client_connections", "client connections exceeded (max_user_client_connections)")])
def test_client_limits_on_the_console(pooler, scene, limit, text):
    """The limits apply to all users except administrators."""
    weir = pooler(scene.mini(), **{limit: 1})
    first = weir.client("stats", "pgbouncer")
    assert weir.connect().refused(user="stats", database="pgbouncer")["M"] == text
    for _ in range(2):
        assert weir.client("admin", "pgbouncer").query("SHOW VERSION").tags == ["SHOW"]
    assert first.query("SHOW VERSION").tags == ["SHOW"]


def test_pool_row_of_the_console(pooler, scene):
    weir = pooler(scene.mini(), max_db_client_connections=7)
    (row,) = [row for row in weir.show("DATABASES") if row["name"] == "pgbouncer"]
    # PgBouncer 1.24 has the sum of both in this column
    assert row["max_client_connections"] == 7


def test_the_console_as_auth_dbname_of_a_database(pooler, scene):
    mini = scene.mini()
    weir = pooler({"p0": "host=127.0.0.1 port=%d auth_dbname=pgbouncer" % mini.port}, auth_type="scram-sha-256", auth_user="app")
    assert weir.client().query("x").value == "x"
    assert weir.admin("RELOAD") == "RELOAD"
    assert weir.connect().refused(user="nemo", database="p0")["M"] == "bouncer config error"
    text = "cannot use the reserved \"pgbouncer\" database as an auth_dbname"
    assert [(level, line.partition(" ")[2].partition(" ")[2]) for level, line in words(weir.log(), "reserved")] == [("ERROR", text)]


def test_a_user_of_the_console_that_is_not_listed(pooler, scene):
    """Without auth_dbname there is no database to look the user up in. Clients of pgweir cannot tell unknown users from known ones."""
    weir = pooler(scene.mini(), auth_type="plain", auth_user="app")
    said = weir.connect().refused(user="nemo", database="pgbouncer", password="x")["M"]
    assert said == ("password authentication failed" if pooler.is_ours else "bouncer config error")
    weir.wait_log(r'ERROR C-\S+ \S+ cannot use the reserved "pgbouncer" database as an auth_dbname')


def test_the_console_as_auth_dbname(pooler, scene):
    """Of all databases: no start."""
    with pytest.raises(AssertionError) as failure:
        pooler(scene.mini(), auth_user="app", auth_dbname="pgbouncer")
    assert 'cannot use the reserved "pgbouncer" database as an auth_dbname' in str(failure.value)


def test_a_server_that_does_not_accept_in_time(pooler, scene):
    with full_listener() as port:
        weir = pooler({"p0": "host=127.0.0.1 port=%d" % port}, server_connect_timeout=1, server_login_retry=0)
        weir.connect().send(m.startup(user="app", database="p0"))
        weir.wait_log(r"LOG S-\S+ p0/app@\S+ closing because: connect failed")


def test_any_pkt_buf(pooler, scene):
    weir = pooler(scene.mini(), pkt_buf=200, pool_mode="transaction")
    text = "x" * 1000
    assert weir.client().query(text).value == text
