"""session_state = full: settings of a client follow it from server to server, and reach no other client."""
import struct
import subprocess

import pytest

from support import messages as m
from support.live import ended_with, last_words, pid_of
from support.pgweir import binary
from support.takeover import Replaced
from support.until import until

SHOWN = "SELECT current_setting('work_mem') || '|' || coalesce(current_setting('app.tenant', true), '')"


def full(scene, postgres, kind=None, **settings):
    """pgweir with clients that take turns on a single server connection."""
    return scene.weir({"p0": postgres}, **{"pool_mode": "transaction", "default_pool_size": 1, "session_state": "full",
                                           **({"kind": kind} if kind else {}), **settings})


def shown(client):
    return client.query(SHOWN).value


@pytest.mark.parametrize("texts, expected", [
    (["SET work_mem = '5MB'"], "5MB|"),
    (["SET SESSION Work_Mem TO '5MB'; SET app.tenant = 'a b'"], "5MB|a b"),
    (["BEGIN; SET work_mem = '5MB'; COMMIT"], "5MB|"),
    (["BEGIN", "SET work_mem = '5MB'", "SET app.tenant = 'x'", "COMMIT"], "5MB|x"),
    (["BEGIN", "SET work_mem = '5MB'", "ROLLBACK"], "4MB|"),
    (["BEGIN", "SET work_mem = '5MB'", "SAVEPOINT a", "SET work_mem = '6MB'", "ROLLBACK TO a", "COMMIT"], "5MB|"),
    (["SET work_mem = '5MB'", "BEGIN", "SET LOCAL work_mem = '6MB'", "COMMIT"], "5MB|"),
    (["SET work_mem = '5MB'", "RESET work_mem"], "4MB|"),
    (["SET work_mem = '5MB'", "SET app.tenant = 'x'", "RESET ALL"], "4MB|"),
    (["SET work_mem = '5MB'", "DISCARD ALL"], "4MB|"),
    (["SET work_mem = '5MB'", "SET work_mem TO DEFAULT"], "4MB|"),
    (["SELECT set_config('work_mem', '5MB', false), set_config('app.tenant', 'it''s', false)"], "5MB|it's"),
    (["SELECT pg_catalog.\"set_config\"('app.tenant', 'x', false)"], "4MB|x"),
    (["DO $$ BEGIN PERFORM set_config('app.tenant', 'x', false); SET work_mem = '5MB'; END $$"], "5MB|x"),
    (["SET \"app\".tenant = 'x'"], "4MB|x"),
    (["SET statement_timeout = '1ms'", "SET work_mem = '5MB'"], "5MB|"),
    (["SET work_mem = '5MB'; SELECT 1/0"], "4MB|"),
])
def test_settings_follow_their_client(scene, postgres, texts, expected):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    for text in texts:
        mine.query(text)
        if "ms'" in text:
            mine.query("SET statement_timeout = 0")
    if not texts[0].startswith("BEGIN") or texts[-1] in ("COMMIT", "ROLLBACK") or "COMMIT" in texts[0]:
        for _ in range(2):
            assert shown(other) == "4MB|"
            assert shown(mine) == expected


def test_parameters_of_two_clients(scene, postgres):
    weir = full(scene, postgres)
    clients = [weir.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.query("SET app.tenant = 't%d'" % number)
        client.query("SET statement_timeout = '%ds'" % (number + 1))
        client.query("SET work_mem = '%dMB'" % (number + 10))
    for _ in range(3):
        for number, client in enumerate(clients):
            assert shown(client) == "%dMB|t%d" % (number + 10, number)
            assert client.query("SHOW statement_timeout").value == ("%ds" % (number + 1))


def test_reset_restores_the_initial_values(scene, postgres):
    weir = full(scene, postgres)
    mine, other = weir.client(options="-c work_mem=7MB -c app.tenant=mine", DateStyle="German"), weir.client()
    for text in ("SET work_mem = '5MB'; SET app.tenant = 'x'; SET DateStyle = 'SQL'", "RESET ALL"):
        mine.query(text)
        assert shown(other) == "4MB|"
    assert shown(mine) == "7MB|mine"
    assert mine.query("SHOW DateStyle").value.startswith("German")


@pytest.mark.parametrize("end", ["terminate", "close"])
@pytest.mark.parametrize("reset", ["DISCARD ALL", ""])
def test_client_sets_and_disconnects(scene, postgres, end, reset):
    """Nothing is kept of it, and the next client has a clean session."""
    weir = full(scene, postgres, server_reset_query=reset)
    mine = weir.client()
    mine.send(m.query("SET work_mem = '5MB'") + (m.terminate() if end == "terminate" else b""))
    mine.close()
    for _ in range(3):
        client = weir.client()
        assert shown(client) == "4MB|"
        client.close()


def test_a_prepared_statement_that_sets(scene, postgres):
    weir = full(scene, postgres, max_prepared_statements=10)
    mine, other = weir.client(), weir.client()
    mine.send(m.parse("SELECT set_config('app.tenant', $1, false)", "s") + m.sync())
    mine.result()
    for value in ("a", "b"):
        mine.send(m.bind("s", "", [value.encode()]) + m.execute() + m.sync())
        assert mine.result().value == value
        assert shown(other) == "4MB|"
        assert shown(mine) == "4MB|" + value


def test_sql_prepare(scene, postgres):
    """EXECUTE has the tag of the statement, and not the text of it."""
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("PREPARE p(text) AS SELECT set_config('app.tenant', $1, false)")
    mine.query("EXECUTE p('x'); DEALLOCATE p")
    assert shown(other) == "4MB|" and shown(mine) == "4MB|x"


def value_of(client, name):
    return client.query("SELECT coalesce(current_setting('%s', true), '')" % name).value


@pytest.mark.parametrize("name", ["session.tenant", "local.tenant"])
def test_names_that_begin_like_keywords_of_set(scene, postgres, name):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("SET %s = 'x'" % name)
    for _ in range(2):
        assert value_of(other, name) == "" and value_of(mine, name) == "x"


@pytest.mark.parametrize("text, name", [
    ("SET app.a$b = 'x'", "app.a$b"), ("SET app.gr\u00f6\u00dfe = 'x'", "app.gr\u00f6\u00dfe"), ("SELECT set_config('app.a$b', 'x', false)", "app.a$b"),
    ("SET app.%s = 'x'" % (64 * "n"), "app." + 63 * "n"), ("SET U&\"app.tenant\" = 'x'", "app.tenant"),
    ("SELECT U&\"s\\0065t_config\"('app.tenant', 'x', false)", "app.tenant"), ("SELECT set_config('app.tenant', $$x, true)$$, false)", "app.tenant")])
def test_names_that_cannot_be_queried(scene, postgres, text, name):
    """PostgreSQL accepts the names. Other clients do not get the values."""
    weir = full(scene, postgres, default_pool_size=2, server_round_robin=1)
    mine, other = weir.client(), weir.client()
    mine.query(text)
    for _ in range(3):
        assert value_of(other, name) == "" and value_of(mine, name) != ""
    mine.send(m.terminate())
    assert [value_of(weir.client(), name) for _ in range(3)] == 3 * [""]


PROCEDURE = "CREATE OR REPLACE PROCEDURE call_tenant(name text) LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('app.tenant', name, false); END $$"
FUNCTION_SET_CONFIG = m.message("F", struct.pack("!IHHH", 2078, 1, 0, 3) +
                                b"".join(struct.pack("!i", len(value)) + value for value in (b"app.tenant", b"x", b"f")) + struct.pack("!H", 0))


@pytest.mark.parametrize("connect_query", [None, "SET TimeZone = 'UTC'"])
@pytest.mark.parametrize("message", [m.query("CALL call_tenant('x')"), m.query("DO $$ BEGIN EXECUTE 'SE' || 'T app.tenant = x'; END $$"), FUNCTION_SET_CONFIG])
def test_code_that_sets_by_a_computed_name(scene, postgres, message, connect_query):
    """The value follows its client where a text has the name, and reaches no other client in any case."""
    postgres.execute(PROCEDURE, database="p0")
    of_database = " connect_query='%s'" % connect_query.replace("'", "''") if connect_query else ""
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d dbname=p0%s" % (postgres.port, of_database)}, pool_mode="transaction", default_pool_size=1,
                      session_state="full", server_login_retry=0)
    mine, other = weir.client(), weir.client()
    mine.query("SET work_mem = '5MB'")
    mine.send(message)
    mine.read_until("Z")
    assert connect_query or shown(mine) == "5MB|x"
    for _ in range(2):
        assert shown(other) == "4MB|"
        assert shown(mine).startswith("5MB|")
    mine.send(message)
    mine.read_until("Z")
    mine.send(m.terminate())
    assert shown(other) == "4MB|" and shown(weir.client()) == "4MB|"


@pytest.mark.parametrize("texts", [["RESET ALL"], ["RESET work_mem"], ["DISCARD ALL"], ["BEGIN; RESET work_mem; COMMIT"], ["CREATE TEMP TABLE mine (a int)"]])
def test_client_cannot_undo_connect_query_for_others(scene, postgres, texts):
    target = "host=127.0.0.1 port=%d dbname=p0 connect_query='SET work_mem = 3000'" % postgres.port
    weir = scene.weir({"p0": target}, pool_mode="transaction", default_pool_size=1, session_state="full", server_login_retry=0)
    mine = weir.client()
    assert shown(mine) == "3000kB|"
    for text in texts:
        mine.query(text)
    mine.send(m.terminate())
    mine.expect_closed()
    other = weir.client()
    for _ in range(2):
        assert shown(other) == "3000kB|"


def test_code_that_sets_by_a_name_in_a_comment(scene, postgres):
    postgres.execute(PROCEDURE, database="p0")
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("CALL call_tenant('x') -- SET app.tenant")
    for _ in range(2):
        assert shown(other) == "4MB|" and shown(mine) == "4MB|x"


def test_code_and_an_online_restart(scene, postgres):
    """The process that takes over knows that there may be something."""
    postgres.execute(PROCEDURE, database="p0")
    weir = full(scene, postgres, Replaced, server_tls_sslmode="disable")
    mine, other = weir.client(), weir.client()
    mine.query("CALL call_tenant('x')")
    pid = pid_of(mine)
    weir.replace()
    assert shown(other) == "4MB|" and pid_of(other) == pid


@pytest.mark.parametrize("text", ["SELECT set_config($1, 'x', false)", "SELECT set_config('app.' || $1, 'x', false)"])
def test_unknown_name_pins_the_server(scene, postgres, text):
    weir = full(scene, postgres, default_pool_size=2)
    mine, other = weir.client(), weir.client()
    mine.send(m.parse(text) + m.bind("", "", [b"tenant" if "||" in text else b"app.tenant"]) + m.execute() + m.sync())
    assert mine.result().value == "x"
    weir.wait_log("keeps its server connection until it leaves: it sets a parameter whose name is not in the query")
    pid = pid_of(mine)
    assert shown(other) == "4MB|" and pid_of(other) != pid
    assert shown(mine) == "4MB|x" and pid_of(mine) == pid
    mine.close()
    until(lambda: all(row["state"] == "idle" for row in weir.show("SERVERS")), "the server is released")
    clients = [weir.client() for _ in range(2)]
    assert {shown(client) for client in clients} == {"4MB|"}


def test_set_config_local_causes_no_query(scene, postgres, heard):
    weir = full(scene, postgres)
    client = weir.client()
    client.query("SELECT set_config('app.tenant', 'x', true)")
    client.query("SELECT 1")
    assert not [text for text in heard() if "FROM pg_catalog.pg_settings" in text]


def test_pipeline_causes_one_query(scene, postgres, heard):
    weir = full(scene, postgres)
    client = weir.client()
    client.send(b"".join(m.query("SET work_mem = '%dMB'" % size) for size in range(5, 10)))
    for _ in range(5):
        assert client.result().tags == ["SET"]
    assert shown(client) == "9MB|"
    assert len([text for text in heard() if "FROM pg_catalog.pg_settings" in text]) == 1


def test_reset_in_a_pipeline(scene, postgres):
    """The rest of the pipeline begins with the client's start-up values."""
    weir = full(scene, postgres)
    client = weir.client(options="-c work_mem=7MB")
    client.send(m.query("RESET work_mem") + m.query("SHOW work_mem"))
    assert client.result().tags == ["RESET"]
    client.result()
    assert client.query("SHOW work_mem").value == "7MB"


def test_session_state_off(scene, postgres):
    weir = full(scene, postgres, session_state="off")
    mine, other = weir.client(), weir.client()
    mine.query("SET work_mem = '5MB'")
    assert other.query("SHOW work_mem").value == "5MB"


@pytest.mark.parametrize("level", ["database", "user", "reload"])
def test_where_it_is_set(scene, postgres, level):
    target = postgres.target("p0", session_state="full") if level == "database" else postgres.target("p0")
    weir = scene.weir({"p0": target}, pool_mode="transaction", default_pool_size=1, show_extra_columns=1,
                      **({"sections": {"users": {"app": "session_state=full"}}} if level == "user" else {}))
    if level == "reload":
        weir.admin("SET session_state = 'full'")
    mine, other = weir.client(), weir.client()
    mine.query("SET work_mem = '5MB'")
    assert shown(other) == "4MB|" and shown(mine) == "5MB|"
    assert [row["session_state"] for row in weir.show("POOLS") if row["database"] == "p0"] == ["full"]


def test_online_restart(scene, postgres):
    weir = full(scene, postgres, Replaced)
    mine, other = weir.client(), weir.client()
    mine.query("SET app.tenant = 'x'; SET work_mem = '5MB'")
    mine.query("BEGIN")
    mine.query("SET app.other = 'y'")
    weir.replace()
    mine.query("COMMIT")
    assert shown(other) == "4MB|"
    assert shown(mine) == "5MB|x" and mine.query("SHOW app.other").value == "y"
    mine.query("RESET ALL")
    assert shown(mine) == "4MB|"


def test_idle_session_timeout(scene, postgres):
    """The timeout would end the server while it has no client, so the server is closed."""
    weir = full(scene, postgres, Replaced)
    mine, other = weir.client(), weir.client()
    mine.query("SET idle_session_timeout = '1h'")
    weir.replace()
    pid = pid_of(mine)
    assert mine.query("SHOW idle_session_timeout").value == "1h"
    assert other.query("SHOW idle_session_timeout").value == "0"
    assert pid_of(other) != pid


def test_statements_are_shared_by_clients_with_other_tenants(scene, postgres):
    """The meaning of a text does not hang on a parameter with a dot. Others may decide it."""
    weir = full(scene, postgres, max_prepared_statements=10)
    clients = [weir.client(options="-c app.tenant=%d" % number) for number in range(3)] + [weir.client(DateStyle="German")]
    for client in clients:
        client.send(m.run("SELECT current_setting('app.tenant', true)", name="s") + m.sync())
        client.result()
    assert clients[1].query("SELECT count(*) FROM pg_prepared_statements").value == "2"


WHO = "SELECT session_user || ' ' || current_user || ' ' || current_setting('work_mem')"


@pytest.mark.parametrize("texts, expected", [
    (["SET ROLE app"], "postgres app 4MB"),
    (["SET SESSION AUTHORIZATION app"], "app app 4MB"),
    (["BEGIN", "SET ROLE app", "SET work_mem = '5MB'", "COMMIT"], "postgres app 5MB"),
    (["BEGIN", "SET ROLE app", "ROLLBACK"], "postgres postgres 4MB"),
    (["BEGIN", "SET LOCAL ROLE app", "COMMIT"], "postgres postgres 4MB"),
    (["SET ROLE app", "SET work_mem = '5MB'"], "postgres app 5MB"),
    (["SET ROLE app", "RESET ROLE"], "postgres postgres 4MB"),
    (["SET ROLE app", "RESET ALL"], "postgres app 4MB"),
    (["SET ROLE app", "DISCARD ALL"], "postgres postgres 4MB"),
    (["SET SESSION AUTHORIZATION app", "SET SESSION AUTHORIZATION DEFAULT"], "postgres postgres 4MB"),
    (["DO $$ BEGIN PERFORM set_config('role', 'app', false); END $$"], "postgres app 4MB"),
    (["SELECT set_config('role', 'app', false)"], "postgres app 4MB"),
    (["SET deadlock_timeout = '7s'", "SET ROLE app"], "postgres app 4MB"),
])
@pytest.mark.parametrize("connect_query", ["", "SET ROLE rival"])
def test_a_role_stays_with_its_client(scene, postgres, texts, expected, connect_query):
    begins = "postgres %s 4MB" % ("rival" if connect_query else "postgres")
    if connect_query:
        if "RESET ROLE" in texts or "DISCARD ALL" in texts or "ROLLBACK" in texts or "SET LOCAL ROLE app" in texts:
            expected = begins
        if "SET deadlock_timeout" in texts[0]:
            pytest.skip("a superuser's")
    weir = full(scene, postgres.target("p0", user="postgres", **({"connect_query": "'%s'" % connect_query} if connect_query else {})))
    mine, other = weir.client(), weir.client()
    for text in texts:
        assert not mine.query(text).errors
    for _ in range(2):
        assert other.query(WHO).value == begins
        assert mine.query(WHO).value == expected
    assert "keeps its server connection" not in weir.log()
    assert not weir.show("PINS")


def test_roles_of_two_clients(scene, postgres):
    weir = full(scene, postgres.target("p0", user="postgres"))
    clients = [weir.client() for _ in range(3)]
    for client, role in zip(clients, ("app", "rival", "none")):
        client.query("SET ROLE " + role)
        client.query("SET work_mem = '%dMB'" % (5 + len(role)))
    for _ in range(3):
        for client, role in zip(clients, ("app", "rival", "postgres")):
            assert client.query(WHO).value == "postgres %s %dMB" % (role, 5 + len(role) - 4 * (role == "postgres"))


def test_dropped_role(scene, postgres):
    """The client never works under another role."""
    postgres.execute("CREATE ROLE passing")
    weir = full(scene, postgres.target("p0", user="postgres"))
    mine, other = weir.client(), weir.client()
    mine.query("SET ROLE passing")
    assert other.query(WHO).value == "postgres postgres 4MB"
    postgres.execute("DROP ROLE passing")
    mine.send(m.query(WHO))
    ended_with(mine, 'role "passing" does not exist', "22023")
    assert other.query(WHO).value == "postgres postgres 4MB"


def test_a_role_in_an_online_restart(scene, postgres):
    weir = full(scene, postgres.target("p0", user="postgres"), Replaced, server_tls_sslmode="disable")
    mine, other = weir.client(), weir.client()
    mine.query("SET ROLE app")
    weir.replace()
    assert other.query(WHO).value == "postgres postgres 4MB"
    assert mine.query(WHO).value == "postgres app 4MB"
    mine.query("BEGIN; RESET ROLE")
    weir.replace()
    mine.query("COMMIT")
    assert mine.query(WHO).value == "postgres postgres 4MB"


def test_statements_are_not_shared_by_roles(scene, postgres):
    """The same text may be about another schema."""
    weir = full(scene, postgres.target("p0", user="postgres"), max_prepared_statements=10)
    mine, other = weir.client(), weir.client()
    mine.query("SET ROLE app")
    for client, role in ((mine, "app"), (other, "postgres")):
        client.send(m.run("SELECT current_user", name="s") + m.sync())
        assert client.result().value == role
    assert other.query("SELECT count(*) FROM pg_prepared_statements").value == "2"


@pytest.mark.parametrize("text", [
    "SELECT $$it's$$; SELECT set_config('app.tenant', 'x', false)",
    "SELECT $$it's$$; SET app.tenant = 'x'",
    "SELECT $a$--$a$, set_config('app.tenant', 'x', false)",
    "SELECT $$/*$$, set_config('app.tenant', 'x', false)",
    "SELECT $$\"$$, set_config('app.tenant', 'x', false)",
])
def test_quoted_names_are_recognised(scene, postgres, text):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    assert not mine.query(text).errors
    assert shown(other) == "4MB|" and shown(mine) == "4MB|x"


# --- functions that set

@pytest.fixture
def tenants(postgres):
    """Functions of p0 that change the session of their caller."""
    postgres.execute("""
        CREATE FUNCTION use_tenant(t text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.tenant', t, false) $$;
        CREATE FUNCTION "Enter"(t text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM use_tenant(t); END $$;
        CREATE FUNCTION more_memory() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET work_mem = '5MB'; END $$;
        CREATE FUNCTION dynamic(t text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('SET app.tenant = %L', t); END $$;
        CREATE FUNCTION hold_lock() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(77); END $$;
        CREATE FUNCTION scratch() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE scratch_table (a int); END $$;
        CREATE FUNCTION hear() RETURNS void LANGUAGE plpgsql AS $$ BEGIN LISTEN hear; END $$;
        CREATE FUNCTION local_tenant(t text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.tenant', t, true) $$;
        CREATE FUNCTION renamed(t text) RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT set_config('app.tenant', t, false); END;
        CREATE FUNCTION of_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('app.tenant', NEW.t, false); RETURN NEW; END $$;
        CREATE TABLE noted (t text);
        CREATE TRIGGER noted BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION of_trigger();
        GRANT ALL ON noted TO app""", database="p0")
    yield
    postgres.execute("DROP TABLE noted; DROP FUNCTION use_tenant, \"Enter\", more_memory, dynamic, hold_lock, scratch, hear, local_tenant, renamed, "
                     "of_trigger", database="p0")


@pytest.mark.parametrize("text, expected", [
    ("SELECT use_tenant('7')", "4MB|7"), ("SELECT \"Enter\"('7')", "4MB|7"), ("SELECT more_memory()", "5MB|"), ("SELECT dynamic('7')", "4MB|7"),
    ("SELECT renamed('7')", "4MB|7"), ("INSERT INTO noted VALUES ('7')", "4MB|7"), ("SELECT local_tenant('7')", "4MB|"),
])
def test_a_function_that_sets(scene, postgres, tenants, text, expected):
    """The text of the client has no word of it."""
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query(text)
    for _ in range(2):
        assert shown(other) == "4MB|"
        assert shown(mine) == expected


LOCKS = "pg_try_advisory_lock(78)"
DEFINITIONS = {
    "a view": ("CREATE VIEW locks AS SELECT %s AS l" % LOCKS, "TABLE locks"),
    "a view over a view": ("CREATE VIEW lock AS SELECT %s AS l; CREATE VIEW locks AS SELECT l FROM lock" % LOCKS, "TABLE locks"),
    "a rule": ("CREATE RULE locks AS ON UPDATE TO locked DO ALSO SELECT " + LOCKS, "UPDATE locked SET a = 2"),
    "the condition of a rule": ("CREATE RULE locks AS ON UPDATE TO locked WHERE %s DO ALSO SELECT 1" % LOCKS, "UPDATE locked SET a = 2"),
    "a default": ("ALTER TABLE locked ADD b bool DEFAULT " + LOCKS, "INSERT INTO locked VALUES (2)"),
    "the default of a view's column": ("CREATE VIEW seen AS SELECT a, c FROM locked; ALTER VIEW seen ALTER c SET DEFAULT " + LOCKS,
                                       "INSERT INTO seen VALUES (2)"),
    "the default of a domain": ("CREATE DOMAIN locks AS bool DEFAULT %s; ALTER TABLE locked ADD b locks" % LOCKS, "INSERT INTO locked VALUES (2)"),
    "a table's constraint": ("ALTER TABLE locked ADD CHECK (%s IS NOT NULL) NOT VALID" % LOCKS, "UPDATE locked SET a = 2"),
    "a domain's constraint": ("CREATE DOMAIN locks AS int CHECK (%s IS NOT NULL)" % LOCKS, "SELECT 1::locks"),
    "a policy": ("CREATE POLICY locks ON locked USING (%s IS NOT NULL); ALTER TABLE locked ENABLE ROW LEVEL SECURITY" % LOCKS, "TABLE locked"),
    "a policy's check": ("CREATE POLICY locks ON locked USING (true) WITH CHECK (%s IS NOT NULL); ALTER TABLE locked ENABLE ROW LEVEL SECURITY" % LOCKS,
                         "UPDATE locked SET a = 2"),
    "the condition of a trigger": ("CREATE TRIGGER locks BEFORE UPDATE ON locked FOR EACH ROW WHEN (%s) "
                                   "EXECUTE FUNCTION suppress_redundant_updates_trigger()" % LOCKS, "UPDATE locked SET a = 2"),
    "an argument's default": ("CREATE FUNCTION locks(l bool DEFAULT %s) RETURNS bool LANGUAGE sql AS 'SELECT l'" % LOCKS, "SELECT locks()"),
    "a parsed function": ("CREATE FUNCTION locks() RETURNS bool LANGUAGE sql BEGIN ATOMIC SELECT %s; END" % LOCKS, "SELECT locks()"),
    "an operator": ("CREATE OPERATOR ### (FUNCTION = pg_try_advisory_lock, RIGHTARG = bigint)", "SELECT ### 78::bigint"),
}


@pytest.mark.parametrize("what", list(DEFINITIONS))
def test_a_definition_that_calls_a_built_in_function(scene, postgres, what):
    """The client takes a lock of its session; the text has no word of it."""
    definition, text = DEFINITIONS[what]
    postgres.execute("CREATE SCHEMA definitions; SET search_path = definitions, public; CREATE TABLE locked (a int, c bool); INSERT INTO locked VALUES (1); "
                     "%s; GRANT ALL ON SCHEMA definitions TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA definitions TO PUBLIC"
                     % definition, database="p0")
    try:
        weir = full(scene, postgres)
        mine = weir.client(options="-c search_path=definitions,public")
        other = weir.client()
        assert not mine.query(text).errors
        mine.send(m.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 78"))
        assert mine.result().value == "1"
        mine.close()
        assert other.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 78").value == "0"
    finally:
        postgres.execute("DROP SCHEMA definitions CASCADE", database="p0")


def test_a_prepared_call_of_a_function_that_sets(scene, postgres, tenants):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.send(m.parse("SELECT use_tenant($1)", "s"), m.sync())
    mine.result()
    for tenant in (b"7", b"8"):
        assert shown(other) == "4MB|"
        mine.send(m.bind("s", values=(tenant,)), m.execute(), m.sync())
        assert mine.result().value == tenant.decode()
        assert shown(other) == "4MB|"
        assert shown(mine) == "4MB|" + tenant.decode()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_prepared_call_of_a_function_that_is_replaced(scene, postgres, restarts):
    """The function sets nothing when the statement is prepared."""
    weir = full(scene, postgres, Replaced)
    mine, other = weir.client(), weir.client()
    define = "CREATE OR REPLACE FUNCTION replaced() RETURNS text LANGUAGE sql AS $$ SELECT %s $$"
    try:
        assert not other.query(define % "'1'::text").errors
        mine.send(m.parse("SELECT replaced()", "s"), m.sync())
        mine.result()
        for count in range(2):
            assert shown(other) == "4MB|"
            mine.send(m.bind("s"), m.execute(), m.sync())
            assert mine.result().value == "1"
            if restarts and not count:
                weir.replace()
        assert not other.query(define % "set_config('app.tenant', 'theirs', false)").errors
        mine.send(m.bind("s"), m.execute(), m.sync())
        assert mine.result().value == "theirs"
        assert shown(other) == "4MB|"
    finally:
        other.query("DROP FUNCTION replaced")


@pytest.mark.parametrize("message", ["Query", "Parse", "Bind"])
def test_a_function_that_is_replaced_during_a_transaction(scene, postgres, message):
    """The client has its server already. The server notices the new function when the text locks a table."""
    text = "SELECT late() FROM pg_class LIMIT 1"
    messages = {"Query": m.query(text), "Parse": m.parse(text, "t") + m.bind("t") + m.execute() + m.sync(), "Bind": m.bind("s") + m.execute() + m.sync()}
    weir = full(scene, postgres, default_pool_size=2)
    mine, other, third = (weir.client() for _ in range(3))
    define = "CREATE OR REPLACE FUNCTION late() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN %s; END $$"
    try:
        assert not other.query(define % "'1'::text").errors
        assert not other.query("SELECT late()").errors
        mine.send(m.parse(text, "s"), m.parse("COMMIT", "commit"), m.sync())
        mine.result()
        mine.query("BEGIN")
        assert not other.query(define % "set_config('app.tenant', 'theirs', false)").errors
        mine.send(messages[message])
        assert mine.result().value == "theirs"
        mine.send(m.bind("commit"), m.execute(), m.sync())
        mine.result()
        # the two servers
        for client in (other, third):
            client.query("BEGIN")
        assert [shown(client) for client in (other, third)] == ["4MB|"] * 2
        for client in (other, third):
            client.query("COMMIT")
    finally:
        other.query("DROP FUNCTION late")


@pytest.mark.parametrize("text, pin", [
    ("SELECT hold_lock()", "advisory lock"), ("SELECT scratch()", "temporary objects"),
])
def test_a_function_that_pins(scene, postgres, tenants, text, pin):
    weir = full(scene, postgres, default_pool_size=2)
    client = weir.client()
    client.query(text)
    until(lambda: [row["pins"] for row in weir.show("PINS")] == [pin], "the client is pinned")


def test_a_function_that_listens(scene, postgres, tenants):
    weir = full(scene, postgres, default_pool_size=2)
    client, other = weir.client(), weir.client()
    client.query("SELECT hear()")
    until(lambda: [row for row in weir.show("SERVERS") if row["state"] == "listening"], "there is a listener")
    other.query("NOTIFY hear, 'x'")
    assert client.expect("A").body[4:] == b"hear\0x\0"


def test_a_function_that_is_made_through_pgweir(scene, postgres, heard):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    assert shown(mine) == "4MB|"
    try:
        mine.query("CREATE FUNCTION enter_late(t text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.tenant', t, false) $$")
        mine.query("SELECT enter_late('7')")
        assert shown(other) == "4MB|"
        assert shown(mine) == "4MB|7"
        mine.query("BEGIN; DROP FUNCTION enter_late; CREATE FUNCTION enter_late(t text) RETURNS text LANGUAGE sql AS $$ SELECT t $$; COMMIT")
        # which waits for the question about the commands above
        assert shown(mine) == "4MB|7"
        asked = len([text for text in heard() if "FROM pg_catalog.pg_settings" in text])
        mine.query("SELECT enter_late('8')")
        assert shown(mine) == "4MB|7"
        assert len([text for text in heard() if "FROM pg_catalog.pg_settings" in text]) == asked
    finally:
        other.query("DROP FUNCTION enter_late")


def test_functions_in_a_session_of_another_encoding(scene, postgres, tenants):
    """Sources that it has no characters for, under a search_path with operators and functions of others."""
    postgres.execute("""CREATE FUNCTION größe(t text) RETURNS text LANGUAGE sql AS $$ /* größer als € */ SELECT set_config('app.tenant', t, false) $$;
                        CREATE SCHEMA odd; CREATE FUNCTION odd.concat(VARIADIC "any") RETURNS text LANGUAGE internal AS 'textcat';
                        CREATE FUNCTION odd.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 = 1';
                        CREATE OPERATOR odd.~* (LEFTARG = text, RIGHTARG = text, FUNCTION = odd.no); GRANT USAGE ON SCHEMA odd TO app""", database="p0")
    try:
        weir = full(scene, postgres)
        mine, other = weir.client(client_encoding="SQL_ASCII", options="-c search_path=odd,pg_catalog,public"), weir.client()
        mine.query("SELECT use_tenant('7')")
        assert other.query("SELECT current_setting('app.tenant', true)").value in (None, "")
        assert mine.query("SELECT current_setting('app.tenant', true)").value == "7"
        assert "cannot be read" not in weir.log() and "failed: ERROR" not in weir.log()
    finally:
        postgres.execute("DROP SCHEMA odd CASCADE; DROP FUNCTION größe", database="p0")


def test_temporary_functions_of_another_role(scene, postgres):
    """Any role may create a temporary function of any name, which no other role can call: texts of other roles do not count as calls."""
    weir = full(scene, postgres, default_pool_size=3)
    rival, before = weir.client(user="rival"), weir.client()
    assert not rival.query("""CREATE FUNCTION pg_temp."select"(text) RETURNS text LANGUAGE sql AS $$ SELECT set_config($1, '', false) $$;
                              CREATE TEMP TABLE noted (a int); CREATE FUNCTION pg_temp.noted() RETURNS trigger LANGUAGE plpgsql AS
                              $$ BEGIN EXECUTE 'SELECT set_config($1, $2, false)' USING 'a.b', 'c'; RETURN NULL; END $$;
                              CREATE TRIGGER noted AFTER INSERT ON noted EXECUTE FUNCTION pg_temp.noted()""").errors
    own = weir.client()
    try:
        # after this the functions are read again
        assert not before.query("CREATE FUNCTION read_again() RETURNS int LANGUAGE sql AS 'SELECT 1'").errors
        for client in (before, own):
            assert not client.query("SELECT 1 AS insert").errors
        assert [row["user"] for row in weir.show("PINS")] == ["rival"]
        # nor do functions of the role itself, whose session is pinned, and reset before another client gets it
        assert not own.query("CREATE FUNCTION pg_temp.own(text) RETURNS text LANGUAGE sql AS $$ SELECT set_config($1, 'x', false) $$").errors
        assert not own.query("SELECT pg_temp.own('app.' || 'own'); DROP FUNCTION pg_temp.own").errors
        assert before.query("SELECT 1").value == "1"
        assert [row["user"] for row in weir.show("PINS")] == ["rival", "app"]
    finally:
        before.query("DROP FUNCTION read_again")


def test_a_large_temporary_function_of_another_role(scene, postgres):
    """The function is not searched: the server would need a second for each 600 KB."""
    weir = full(scene, postgres)
    assert not weir.client(user="rival").query("""DO $$ BEGIN EXECUTE 'CREATE FUNCTION pg_temp.large() RETURNS int LANGUAGE plpgsql AS ' ||
                                                  quote_literal('BEGIN /*' || repeat(' set x', 6000000) || '*/ RETURN 1; END'); END $$""").errors
    assert not weir.client().query("SELECT 1").errors


def test_a_function_that_is_too_long_to_be_searched(scene, postgres):
    """The function counts as a function with any effect."""
    weir = full(scene, postgres, default_pool_size=2)
    mine = weir.client()
    try:
        assert not mine.query("""DO $$ BEGIN EXECUTE 'CREATE FUNCTION too_long() RETURNS int LANGUAGE plpgsql AS ' ||
                                 quote_literal('BEGIN /*' || repeat(' ', 600000) || '*/ RETURN 1; END'); END $$""").errors
        other = weir.client()
        assert not other.query("CREATE FUNCTION short() RETURNS int LANGUAGE sql AS 'SELECT 1'; DROP FUNCTION short").errors
        assert not other.query("SELECT too_long()").errors
        until(lambda: ["parameters" in row["pins"] for row in weir.show("PINS")] == [True], "the client is pinned")
    finally:
        mine.query("DROP FUNCTION too_long")


# --- initial values of a client

BEGUN_WITH = [("search_path", {"options": "-c search_path=pg_catalog"}, "pg_catalog", "public"),
              ("default_transaction_read_only", {"options": "-c default_transaction_read_only=on"}, "on", "off"),
              ("client_encoding", {"client_encoding": "LATIN1"}, "LATIN1", "UTF8"),
              ("DateStyle", {"DateStyle": "German"}, "German, DMY", "SQL, DMY"),
              ("app.tenant", {"options": "-c app.tenant=mine"}, "mine", "other"),
              ("statement_timeout", {"options": "-c statement_timeout=71s"}, "71s", "62s")]


@pytest.mark.parametrize("pin", ["SET app.a$b = 'x'", "SELECT setseed(0.5)"])
@pytest.mark.parametrize("name, startup, first, value", BEGUN_WITH)
def test_reset_of_a_pinned_client(scene, postgres, name, startup, first, value, pin):
    """RESET restores the client's initial value, and keeps values that the client has set."""
    weir = full(scene, postgres)
    client = weir.client(**startup)
    client.query(pin)
    client.query("SET work_mem = '5MB'; SET %s = '%s'" % (name, value))
    assert client.query("SHOW " + name).value == value
    for text in ("SET %s TO DEFAULT", "RESET %s", "BEGIN; SET %s TO DEFAULT; COMMIT", "RESET ALL", "DISCARD ALL"):
        if text.startswith(("SET", "BEGIN")) and name in ("app.tenant", "statement_timeout"):
            continue
        client.query("SET work_mem = '5MB'; SET %s = '%s'" % (name, value))
        client.query(text % name if "%" in text else text)
        assert client.query("SHOW " + name).value == first
        assert client.query("SHOW work_mem").value == ("4MB" if "ALL" in text else "5MB")
    assert [row["pins"] for row in weir.show("PINS")]


@pytest.mark.parametrize("way", ["query", "unnamed", "named"])
@pytest.mark.parametrize("name, startup, first, value", BEGUN_WITH)
def test_set_config_with_null(scene, postgres, name, startup, first, value, way):
    """It resets the parameter, and returns the client's initial value."""
    weir = full(scene, postgres)
    client, other = weir.client(**startup), weir.client()
    text = "SELECT set_config('%s', NULL, false), 1" % name
    for turn, begin in enumerate(("SELECT 1", "BEGIN", "SELECT 1")):
        other.query("SET %s = '%s'" % (name, value))
        client.query("SET %s = '%s'" % (name, value))
        client.query(begin)
        client.send(m.query(text) if way == "query" else m.run(text, name="" if way == "unnamed" else "s%d" % turn) + m.sync())
        assert client.result().rows[0][0].decode() == first
        assert client.query("SHOW " + name).value == first
        client.query("COMMIT")
        assert client.query("SHOW " + name).value == first
    assert other.query("SHOW " + name).value == value


def test_set_config_with_null_in_other_texts(scene, postgres):
    weir = full(scene, postgres)
    client = weir.client(options="-c app.tenant=it's\\\\a -c app.other=x")
    assert client.query("SELECT set_config('app.tenant', NULL::text, true), set_config('APP.other', null, false)").rows[0][0] == b"it's\\a"
    assert client.query("SELECT set_config('app.none', NULL, false)").value == ""
    assert client.query("SELECT 'set_config(''app.tenant'', NULL, false)'").value == "set_config('app.tenant', NULL, false)"
    assert client.query("SELECT $$set_config('app.tenant', NULL, false)$$").value == "set_config('app.tenant', NULL, false)"


@pytest.mark.parametrize("reset", ["RESET DateStyle", "RESET ALL", "DISCARD ALL", "BEGIN; RESET ALL; COMMIT"])
@pytest.mark.parametrize("before", ["SELECT 1", "SET DateStyle = 'SQL'", "SET DateStyle = 'ISO, MDY'", "SET app.a$b = 'x'; SET DateStyle = 'SQL'"])
def test_client_is_told_its_value_after_a_reset(scene, postgres, before, reset):
    """Programs read dates by the DateStyle that they have been told."""
    weir = full(scene, postgres)
    weir.client().query("SELECT 1")         # the server begins without the value
    client = weir.client(DateStyle="German")
    told = client.query(before).messages + client.query(reset).messages + client.query("SELECT 1").messages
    assert client.query("SELECT date '1999-02-03'").value == "03.02.1999"
    assert [m.read_parameter(message.body) for message in told if message.type == "S"][-1] == ("DateStyle", "German, DMY")


@pytest.mark.parametrize("name, startup, value", [
    ("IntervalStyle", {"options": "-c intervalstyle=postgres_verbose"}, "postgres"), ("DateStyle", {"DateStyle": "German"}, "ISO, MDY"),
    ("search_path", {"options": "-c search_path=pg_catalog"}, '"$user", public'), ("statement_timeout", {"options": "-c statement_timeout=71s"}, "0")])
def test_default_value_of_the_server(scene, postgres, name, startup, value):
    """The client has set it, and not RESET it."""
    weir = full(scene, postgres, default_pool_size=2, server_round_robin=1)
    mine, other = weir.client(**startup), weir.client()
    began = mine.query("SHOW " + name).value
    mine.query("SELECT set_config('%s', '%s', false)" % (name, value))
    for text in ("SET enable_seqscan = off", "BEGIN; SET work_mem = '5MB'; COMMIT", "SET enable_seqscan = on"):
        for _ in range(3):
            assert [other.query("SHOW " + name).value for _ in range(2)] == 2 * [value]         # so that the client's next server is another server
            assert mine.query("SHOW " + name).value == value
        mine.query(text)
    mine.query("RESET " + name)
    for _ in range(3):
        assert mine.query("SHOW " + name).value == began
        other.query("SELECT 1")


@pytest.mark.parametrize("size", [1, 2])
def test_a_parameter_that_a_used_server_refuses(scene, postgres, size):
    """temp_buffers cannot change after the session has used temporary tables: the server is replaced."""
    weir = full(scene, postgres, default_pool_size=size, server_round_robin=1)
    mine, other = weir.client(), weir.client()
    assert not mine.query("SET temp_buffers = '2MB'").errors
    for _ in range(size):
        assert not other.query("CREATE TEMP TABLE used AS SELECT 1 AS a; SELECT * FROM used; DROP TABLE used").errors
    for _ in range(3):
        assert mine.query("SHOW temp_buffers").value == "2MB"
        assert other.query("SHOW temp_buffers").value == "8MB"


def test_a_parameter_that_each_server_refuses(scene, postgres):
    """The client gets the server's words after a new server has refused the parameter too."""
    weir = full(scene, postgres)
    other = weir.client()
    other.query("SELECT 1")
    mine = weir.client(options="-c temp_buffers=nonsense")
    mine.send(m.query("SELECT 1"))
    assert "temp_buffers" in last_words(mine)["M"]
    assert other.query("SELECT 1").value == "1"


def test_default_value(scene, postgres):
    """A client has a session state of its own without any setting, and the check of the configuration says so."""
    weir = full(scene, postgres, session_state=None)
    mine, other = weir.client(), weir.client()
    mine.query("SET work_mem = '5MB'; SET app.tenant = 'x'")
    assert shown(other) == "4MB|" and shown(mine) == "5MB|x"
    words = "session_state is full: clients of transaction and statement mode have a session state of their own"
    for settings, is_said in (({"session_state": "full"}, True), ({"session_state": "off"}, False), ({"session_state": "full", "pool_mode": "session"}, False)):
        weir.settings.update(settings)
        weir.write_ini()
        done = subprocess.run([binary(), "--check", weir.ini_path], capture_output=True, text=True, check=False)
        assert (words in done.stdout) == is_said
