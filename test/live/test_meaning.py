"""The meaning of a text depends on search_path, role and tables of the session: statements are shared only if these are equal."""
import psycopg
import pytest
from psycopg import pq

from support.pooled_postgres import PooledPostgres


@pytest.fixture(params=["off", "full"])
def pooled(request, scene, postgres, authority):
    return PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=1, session_state=request.param)


@pytest.fixture
def tenants(postgres):
    """Two schemas with tables of the same name, with a column of different types."""
    postgres.execute("DROP SCHEMA IF EXISTS tn1, tn2 CASCADE; CREATE SCHEMA tn1; CREATE SCHEMA tn2; GRANT ALL ON SCHEMA tn1, tn2 TO app; "
                     "CREATE TABLE tn1.tnt (v timestamp); CREATE TABLE tn2.tnt (v date); GRANT ALL ON tn1.tnt, tn2.tnt TO app", database="p0")
    yield
    postgres.execute("DROP SCHEMA tn1, tn2 CASCADE", database="p0")


INSERT = b"INSERT INTO tnt VALUES ($1)"
MOMENT = b"2024-01-02 03:04:05"
WAYS = {
    "local": "SET LOCAL search_path TO {}",
    "local with a comment": "/* tenant */ SET LOCAL search_path = {}",
    "local with a comment, in mixed case": "-- tenant\nsEt LOCAL search_path = {}",
    "two statements": "SELECT 1; SET search_path TO {}",
    "set_config": "SELECT set_config('search_path', '{}', true)",
    "set_config of any name": "SELECT set_config(lower('SEARCH_PATH'), '{}', true)",
    "DO": "DO $$ BEGIN SET LOCAL search_path TO {}; END $$",
}


def run(connection, result):
    assert result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK), result.error_message
    return result


def insert(connection, way, tenant, extended):
    pgconn = connection.pgconn
    text = way.format(tenant).encode()
    run(connection, pgconn.exec_(b"BEGIN"))
    if extended and b"; SET" not in text:
        run(connection, pgconn.exec_params(text, None))
    else:
        run(connection, pgconn.exec_(text))
    run(connection, pgconn.prepare(b"s" + tenant.encode(), INSERT))
    run(connection, pgconn.exec_prepared(b"s" + tenant.encode(), [MOMENT]))
    run(connection, pgconn.exec_(b"COMMIT"))


@pytest.mark.parametrize("extended", [False, True], ids=["query", "extended"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_same_text_of_two_tenants(pooled, postgres, tenants, way, extended):
    with psycopg.connect(autocommit=True, **pooled.parameters) as one, psycopg.connect(autocommit=True, **pooled.parameters) as two:
        insert(two, way, "tn2", extended)
        insert(one, way, "tn1", extended)
    assert postgres.execute("SELECT v::text FROM tn1.tnt", database="p0") == [("2024-01-02 03:04:05",)]
    assert postgres.execute("SELECT v::text FROM tn2.tnt", database="p0") == [("2024-01-02",)]


CALL = "SELECT set_config('search_path', '{}', true)"
TRANSACTIONS = ["BEGIN; " + CALL, "SELECT 1; BEGIN; " + CALL, "/* tenant */ BEGIN; " + CALL, "-- tenant\nBEGIN; " + CALL, " \n BEGIN; " + CALL,
                "; START TRANSACTION; " + CALL, "COMMIT; BEGIN; " + CALL, "BEGIN; SELECT U&\"set\\005fconfig\"('search_path', '{}', true)"]


def insert_and_commit(connection, tenant):
    run(connection, connection.pgconn.prepare(tenant.encode(), INSERT))
    run(connection, connection.pgconn.exec_prepared(tenant.encode(), [MOMENT]))
    run(connection, connection.pgconn.exec_(b"COMMIT"))


@pytest.mark.parametrize("text", TRANSACTIONS)
def test_transaction_that_begins_in_the_same_text(pooled, postgres, tenants, text):
    with psycopg.connect(autocommit=True, **pooled.parameters) as connection:
        pgconn = connection.pgconn
        for tenant in ("tn2", "tn1"):
            run(connection, pgconn.exec_(text.format(tenant).encode()))
            insert_and_commit(connection, tenant)
    assert postgres.execute("SELECT v::text FROM tn1.tnt", database="p0") == [("2024-01-02 03:04:05",)]


def test_statement_that_was_prepared_before_the_transaction(pooled, postgres, tenants):
    with psycopg.connect(autocommit=True, **pooled.parameters) as connection:
        pgconn = connection.pgconn
        run(connection, pgconn.prepare(b"begin", b"BEGIN"))
        for tenant in ("tn2", "tn1"):
            run(connection, pgconn.prepare(b"", CALL.format(tenant).encode()))
            run(connection, pgconn.exec_prepared(b"begin", []))
            run(connection, pgconn.exec_prepared(b"", []))
            insert_and_commit(connection, tenant)
    assert postgres.execute("SELECT v::text FROM tn1.tnt", database="p0") == [("2024-01-02 03:04:05",)]


def test_one_client_in_one_transaction(pooled, postgres, tenants):
    with psycopg.connect(autocommit=True, **pooled.parameters) as connection:
        pgconn = connection.pgconn
        run(connection, pgconn.exec_(b"BEGIN"))
        for tenant in (b"tn2", b"tn1"):
            run(connection, pgconn.exec_(b"SET LOCAL search_path TO " + tenant))
            run(connection, pgconn.prepare(tenant, INSERT))
            run(connection, pgconn.exec_prepared(tenant, [MOMENT]))
        run(connection, pgconn.exec_(b"COMMIT"))
    assert postgres.execute("SELECT v::text FROM tn1.tnt", database="p0") == [("2024-01-02 03:04:05",)]


def test_earlier_statement_changes_the_meaning(pooled, postgres, tenants):
    """A statement prepared under the client's own search_path has that meaning again after the transaction."""
    with psycopg.connect(autocommit=True, **pooled.parameters) as connection, psycopg.connect(autocommit=True, **pooled.parameters) as other:
        for client, name in ((connection, b"a"), (other, b"b")):
            run(client, client.pgconn.prepare(name, b"SELECT current_schema()::text"))
        assert run(connection, connection.pgconn.exec_prepared(b"a", [])).get_value(0, 0) == b"public"
        run(connection, connection.pgconn.exec_(b"BEGIN; SET LOCAL search_path TO tn1"))
        assert run(connection, connection.pgconn.exec_prepared(b"a", [])).get_value(0, 0) == b"tn1"
        run(connection, connection.pgconn.exec_(b"COMMIT"))
        for client, name in ((connection, b"a"), (other, b"b")):
            assert run(client, client.pgconn.exec_prepared(name, [])).get_value(0, 0) == b"public"


HARMLESS = ["SET LOCAL app.tenant = '7'", "SELECT set_config('request.jwt.claims', '{}', true)", "SET LOCAL statement_timeout = 1000",
            "SET LOCAL work_mem = '1MB'", "SELECT set_config('app.a', '7', true), set_config('app.b', '7', true)"]


@pytest.mark.parametrize("extended", [False, True], ids=["query", "extended"])
@pytest.mark.parametrize("text", HARMLESS)
def test_commands_that_change_no_meaning(pooled, text, extended):
    """The server gets one Parse for all clients."""
    connections = [psycopg.connect(autocommit=True, **pooled.parameters) for _ in range(3)]
    for n, connection in enumerate(connections):
        pgconn = connection.pgconn
        run(connection, pgconn.exec_(b"BEGIN"))
        run(connection, pgconn.exec_params(text.encode(), None) if extended else pgconn.exec_(text.encode()))
        run(connection, pgconn.prepare(b"s%d" % n, b"SELECT 'shared'"))
        run(connection, pgconn.exec_prepared(b"s%d" % n, []))
        run(connection, pgconn.exec_(b"COMMIT"))
    row = next(row for row in pooled.weir.show("STATS") if row["database"] == "p0")
    assert (row["total_client_parse_count"], row["total_server_parse_count"]) == (3, 1)
    for connection in connections:
        connection.close()
