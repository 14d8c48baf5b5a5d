"""A statement that is parsed on another server, where its types have changed: the client gets the error of a direct connection."""
import struct

import psycopg
import pytest
from psycopg import pq

from support import messages as m
from support.pooled_postgres import PooledPostgres

CHANGES = [("int", "real"), ("real", "int"), ("date", "timestamp"), ("int", "bigint"), ("text", "bytea"), ("varchar(5)", "varchar(9)")]


@pytest.fixture(params=["off", "full"])
def pooled(request, scene, postgres, authority):
    return PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=2, session_state=request.param)


def code(result):
    return result.error_field(pq.DiagnosticField.SQLSTATE), result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)


@pytest.mark.parametrize("through", [True, False], ids=["through pgweir", "directly"])
@pytest.mark.parametrize("old, new", CHANGES)
def test_another_result(pooled, postgres, old, new, through):
    postgres.execute(f"DROP TABLE IF EXISTS mz; CREATE TABLE mz (v {old}); ALTER TABLE mz OWNER TO app", database="p0")
    one, other = (psycopg.connect(autocommit=True, **pooled.parameters) for _ in range(2))
    pgconn = one.pgconn
    pgconn.prepare(b"s1", b"SELECT v FROM mz")
    assert pgconn.describe_prepared(b"s1").ftype(0) > 0
    other.execute("BEGIN", prepare=False)
    other.execute("SELECT 1", prepare=False)
    change = f"ALTER TABLE mz ALTER v TYPE {new} USING v::text::{new}"
    if through:
        with psycopg.connect(autocommit=True, **pooled.parameters) as third:
            third.execute(change)
    else:
        postgres.execute(change, database="p0")
    # either server: one has parsed the statement before, one parses it now
    for _ in range(2):
        assert code(pgconn.exec_prepared(b"s1", [], result_format=1)) == (b"0A000", b"cached plan must not change result type")
        other.execute("COMMIT" if _ == 0 else "SELECT 1", prepare=False)
        one.execute("BEGIN" if _ == 0 else "ROLLBACK", prepare=False)
    pgconn.prepare(b"s2", b"SELECT v FROM mz")
    assert pgconn.exec_prepared(b"s2", []).status == pq.ExecStatus.TUPLES_OK
    one.close()
    other.close()


def test_the_server_that_has_it_not(pooled, postgres):
    """The first server is busy: the statement goes to one that has to parse it."""
    postgres.execute("DROP TABLE IF EXISTS mz; CREATE TABLE mz (v int); INSERT INTO mz VALUES (7); ALTER TABLE mz OWNER TO app", database="p0")
    one, other = (psycopg.connect(autocommit=True, **pooled.parameters) for _ in range(2))
    pgconn = one.pgconn
    pgconn.prepare(b"s1", b"SELECT v FROM mz")
    pgconn.describe_prepared(b"s1")
    postgres.execute("ALTER TABLE mz ALTER v TYPE real", database="p0")
    other.execute("BEGIN", prepare=False)
    result = pgconn.exec_prepared(b"s1", [], result_format=1)
    assert code(result) == (b"0A000", b"cached plan must not change result type")
    pgconn.prepare(b"s2", b"SELECT v FROM mz")
    assert struct.unpack("!f", pgconn.exec_prepared(b"s2", [], result_format=1).get_value(0, 0)) == (7.0,)
    other.close()
    one.close()


@pytest.mark.parametrize("through", [True, False], ids=["through pgweir", "directly"])
def test_a_client_that_describes_its_first_portal_only(pooled, postgres, through):
    """As pgjdbc: it keeps the types for later executions."""
    postgres.execute("DROP TABLE IF EXISTS mz; CREATE TABLE mz (v int); INSERT INTO mz VALUES (7); ALTER TABLE mz OWNER TO app", database="p0")
    client, other = pooled.weir.client(), pooled.weir.client()
    client.send(m.parse("SELECT v FROM mz", "s1") + m.bind("s1") + m.describe("P") + m.execute() + m.sync())
    assert client.result().types == "12TDCZ"
    if through:
        other.query("ALTER TABLE mz ALTER v TYPE real")
    else:
        postgres.execute("ALTER TABLE mz ALTER v TYPE real", database="p0")
    other.query("BEGIN")
    for text in ("COMMIT", "SELECT 1"):
        client.send(m.bind("s1") + m.execute() + m.sync())
        assert [error["C"] for error in client.result().errors] == ["0A000"]
        other.query(text)
    client.quit()
    other.quit()


def test_the_same_types(pooled, postgres):
    """An ALTER of something else costs no error."""
    postgres.execute("DROP TABLE IF EXISTS mz; CREATE TABLE mz (v int); ALTER TABLE mz OWNER TO app", database="p0")
    one, other = (psycopg.connect(autocommit=True, **pooled.parameters) for _ in range(2))
    one.pgconn.prepare(b"s1", b"SELECT v FROM mz WHERE v = $1")
    one.pgconn.describe_prepared(b"s1")
    other.execute("ALTER TABLE mz ADD w int", prepare=False)
    other.execute("BEGIN", prepare=False)
    assert one.pgconn.exec_prepared(b"s1", [b"1"]).status == pq.ExecStatus.TUPLES_OK
    other.close()
    one.close()


def test_a_name_that_is_given_to_another_text(scene, postgres):
    """In one pipeline: the answer to Describe is about the text before."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=2, server_tls_sslmode="disable")
    client, busy = weir.client(), weir.client()
    client.send(m.parse("SELECT 1", "s1") + m.sync())
    client.result()
    client.send(m.describe("S", "s1") + m.close("S", "s1") + m.parse("SELECT 'a'::text, 2", "s1") + m.sync())
    assert not client.result().errors
    client.send(m.parse("SELECT 'a'::text, 2", "s2") + m.describe("S", "s2") + m.sync())
    client.result()
    for text in ("BEGIN", "COMMIT"):
        busy.query(text)
        client.send(m.bind("s1") + m.execute() + m.sync())
        assert client.result().rows == [[b"a", b"2"]]


# --- types that the client has not asked for

CHANGED = [("E", "0A000")]
INSERT = "INSERT INTO mz VALUES ($1) RETURNING v::text"


@pytest.fixture
def weir(scene, postgres):
    postgres.execute("DROP TABLE IF EXISTS mz; CREATE TABLE mz (v date); INSERT INTO mz VALUES ('2024-01-02'); ALTER TABLE mz OWNER TO app", database="p0")
    return scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=2, server_tls_sslmode="disable")


def answers(client, *parts):
    client.send(*parts)
    return [("E", m.read_error(part.body)["C"]) if part.type == "E" else part.type for part in client.read_until("Z") if part.type not in "ZN"]


def alter(weir):
    """Through the first server; then the first server is busy. Returns the client that uses it."""
    busy = weir.client()
    assert not busy.query("ALTER TABLE mz ALTER v TYPE timestamp").errors
    busy.query("BEGIN")
    return busy


@pytest.mark.parametrize("name", ["s1", ""], ids=["named", "unnamed"])
@pytest.mark.parametrize("text, values", [("SELECT v FROM mz", ()), (INSERT, (b"2024-01-02 03:04:05",))], ids=["result", "parameter"])
@pytest.mark.parametrize("described", [False, True], ids=["", "described"])
def test_statement_that_is_parsed_again(weir, name, text, values, described):
    """A value was stored, or a row read, with types that a direct connection would not have."""
    client = weir.client()
    answers(client, m.parse(text, name), m.describe("S", name) if described else b"", m.sync())
    busy = alter(weir)
    for _ in range(2):
        assert answers(client, m.bind(name, "", values), m.execute(), m.sync()) == CHANGED
    assert answers(client, m.close("S", name), m.parse(text, name), m.bind(name, "", values), m.execute(), m.sync()) == ["3", "1", "2", "D", "C"]
    busy.query("COMMIT")


def test_unnamed_statement_with_the_types_of_before(weir):
    client, busy = weir.client(), weir.client()
    answers(client, m.parse("SELECT v FROM mz"), m.describe("S"), m.sync())
    busy.query("CREATE VIEW mz_view AS SELECT 1; DROP VIEW mz_view; BEGIN")
    assert answers(client, m.bind(), m.execute(), m.sync()) == ["2", "D", "C"]


BIND_AGAIN = (m.bind(), m.execute(), m.sync())


def move(weir, *holders):
    """The holders end their transactions, then another one takes the server that is used next."""
    for holder in holders:
        holder.query("COMMIT")
    other = weir.client()
    other.query("BEGIN")
    return other


@pytest.mark.parametrize("text", ["SET statement_timeout = '1min'", "SET \"App.Q\" = 'x'", "DISCARD ALL", "CALL doing()", "RESET ALL"])
@pytest.mark.parametrize("altered", [False, True], ids=["", "altered"])
@pytest.mark.parametrize("result", [0, 1], ids=["text", "binary"])
def test_unnamed_command_is_bound_again_on_another_server(weir, postgres, text, altered, result):
    """The command itself may change the meaning of texts, but has no types that could change."""
    postgres.execute("CREATE OR REPLACE PROCEDURE doing() LANGUAGE sql AS 'SELECT 1'", database="p0")
    client = weir.client()
    assert answers(client, m.parse(text), *BIND_AGAIN) == ["1", "2", "C"]
    if altered:
        assert not weir.client().query("CREATE VIEW mz_view AS SELECT 1; DROP VIEW mz_view").errors
    move(weir)
    again = m.message("B", m.cstring("") * 2 + struct.pack("!HHHH", 0, 0, 1, result))
    assert answers(client, again, m.execute(), m.sync()) == ["2", "C"]


@pytest.mark.parametrize("text", ["SELECT v FROM mz", "CALL counting(1)"])
def test_unnamed_statement_is_bound_again_after_set_search_path(scene, postgres, text):
    for sql in ("DROP SCHEMA IF EXISTS mz_path CASCADE", "CREATE SCHEMA mz_path", "DROP TABLE IF EXISTS mz",
                "CREATE TABLE mz AS SELECT date '2024-01-02' AS v",
                "CREATE TABLE mz_path.mz AS SELECT date '2025-06-07' AS v",
                "GRANT ALL ON SCHEMA mz_path TO app", "GRANT ALL ON mz, mz_path.mz TO app",
                "CREATE OR REPLACE PROCEDURE public.counting(INOUT a int) LANGUAGE plpgsql AS 'BEGIN a := a + 1; END'"):
        postgres.execute(sql, database="p0")
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=2,
                      server_tls_sslmode="disable", session_state="full")
    client = weir.client()
    assert answers(client, m.parse("SET search_path = mz_path, public", "path"), m.parse(text), *BIND_AGAIN) == ["1", "1", "2", "D", "C"]
    # PostgreSQL 18 reports the new search_path
    assert answers(client, m.bind("path"), m.execute(), m.sync())[:2] == ["2", "C"]
    move(weir)
    client.send(*BIND_AGAIN)
    rows = [part.body[6:] for part in client.read_until("Z") if part.type == "D"]
    assert rows == [b"2025-06-07" if "mz" in text else b"2"]


def test_unnamed_statement_of_a_client_that_binds_again_is_compared_after_ddl(weir):
    """pgweir asks for the types of each text after the first that was bound again on another server."""
    client = weir.client()
    assert answers(client, m.parse("SELECT 1"), *BIND_AGAIN) == ["1", "2", "D", "C"]
    holder = move(weir)
    assert answers(client, *BIND_AGAIN) == ["2", "D", "C"]
    holder.query("COMMIT")
    assert answers(client, m.parse("SELECT v FROM mz"), *BIND_AGAIN) == ["1", "2", "D", "C"]
    assert not weir.client().query("CREATE VIEW mz_view AS SELECT 1; DROP VIEW mz_view").errors
    holder = move(weir)
    assert answers(client, *BIND_AGAIN) == ["2", "D", "C"]
    holder.query("COMMIT")
    alter(weir)
    assert answers(client, *BIND_AGAIN) == CHANGED


def test_binary_values_wait_for_the_types_after_set_search_path(weir):
    """A binary date would be read as another value if the table of the new search_path has another type."""
    client = weir.client()
    assert answers(client, m.parse("SET search_path = public", "path"), m.parse("SELECT v FROM mz"), *BIND_AGAIN) == ["1", "1", "2", "D", "C"]
    # PostgreSQL 18 reports the new search_path
    assert answers(client, m.bind("path"), m.execute(), m.sync())[:2] == ["2", "C"]
    move(weir)
    again = m.message("B", m.cstring("") * 2 + struct.pack("!HHHH", 0, 0, 1, 1))
    assert answers(client, again, m.execute(), m.sync()) == CHANGED


def test_unnamed_statement_on_a_new_server(scene, postgres):
    """connect_query is DDL on each new server, and changes the meaning of no text."""
    target = postgres.target("p0", user="postgres", connect_query="'CREATE TEMP TABLE begun (); DROP TABLE begun'")
    weir = scene.weir({"p0": target}, pool_mode="transaction", default_pool_size=2, server_tls_sslmode="disable")
    client, busy = weir.client(), weir.client()
    answers(client, m.parse("SELECT 1"), m.sync())
    busy.query("BEGIN")
    assert answers(client, m.bind(), m.execute(), m.sync()) == ["2", "D", "C"]


@pytest.mark.parametrize("in_query", [True, False], ids=["query", "extended"])
def test_execute_by_sql(weir, in_query):
    client = weir.client()
    answers(client, m.parse(INSERT, "s1"), m.sync())
    busy = alter(weir)
    text = "EXECUTE s1('2024-01-02 03:04:05')"
    assert CHANGED[0] in answers(client, *([m.query(text)] if in_query else [m.run(text), m.sync()]))
    answers(client, m.close("S", "s1"), m.parse(INSERT, "s1"), m.sync())
    assert client.query(text).rows == [[b"2024-01-02 03:04:05"]]
    busy.query("COMMIT")


def test_skipped_parse_keeps_the_types(weir):
    client = weir.client()
    answers(client, m.parse(INSERT, "s1"), m.sync())
    assert answers(client, m.parse("SELEKT"), m.close("S", "s1"), m.parse("SELECT 1", "s1"), m.sync()) == [("E", "42601")]
    alter(weir)
    assert answers(client, m.bind("s1", "", (b"2024-01-02 03:04:05",)), m.execute(), m.sync()) == CHANGED


def test_statement_behind_a_set_of_its_batch(weir):
    """The statement was parsed again and again, because each Parse came after the SET."""
    client, busy = weir.client(), weir.client()
    answers(client, m.parse("SELECT 'x'::text", "s1"), m.describe("S", "s1"), m.sync())
    busy.query("BEGIN")
    got = answers(client, m.run("BEGIN"), m.run("SET LOCAL search_path = pg_catalog"), m.flush(), m.bind("s1"), m.execute(), m.sync())
    # PostgreSQL 18 reports search_path
    assert [each for each in got if each != "S"][-3:] == ["2", "D", "C"]
    client.query("COMMIT")


@pytest.mark.parametrize("use", ["Bind", "EXECUTE"])
def test_after_a_skipped_parse_of_the_same_statement(scene, postgres, use):
    """The statement was to be evicted and parsed again in a batch that fails before: its types are compared nevertheless."""
    postgres.execute("DROP TABLE IF EXISTS mz; CREATE TABLE mz (v int); INSERT INTO mz VALUES (7); ALTER TABLE mz OWNER TO app", database="p0")
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, max_prepared_statements=2, session_state="off")
    client = weir.client()
    execution = m.bind("s") + m.execute()
    client.send(m.parse("SELECT v FROM mz", "s") + m.describe("S", "s") + m.sync())
    client.result()
    postgres.execute("ALTER TABLE mz ALTER v TYPE real", database="p0")
    weir.admin("RECONNECT")
    client.send(execution + m.sync())
    assert client.result().errors[0]["C"] == "0A000"
    client.send(m.parse("SELECT v FROM nowhere", "a") + m.parse("SELECT 1", "b") + execution + m.sync())
    assert client.result().errors[0]["C"] == "42P01"
    client.send(execution + m.sync() if use == "Bind" else m.query("EXECUTE s"))
    assert [error["C"] for error in client.result().errors] == ["0A000"]
