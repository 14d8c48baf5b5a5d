"""psql and pgbench, in every pool mode that supports them, over TCP, TLS and Unix sockets."""
import re

import pytest

from support.pooled_postgres import MODES, TRANSPORTS, PooledPostgres
from support.postgres import major_version


def psql(pooled, *commands, check=True):
    arguments = [word for command in commands for word in ("-c", command)]
    result = pooled.run("psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", *arguments, check=check)
    return result.stdout.splitlines() if check else result.stderr


def test_queries_and_errors(pooled):
    assert psql(pooled, "SELECT 6 * 7", "SELECT 'two'; SELECT 'three'") == ["42", "two", "three"]
    assert "division by zero" in psql(pooled, "SELECT 1/0", check=False)
    assert "syntax error" in psql(pooled, "SELEKT", check=False)
    assert psql(pooled, "SELECT count(*) FROM generate_series(1, 100000)") == ["100000"]


def test_description_of_a_table(pooled):
    """One backslash command runs a dozen catalogue queries."""
    assert any("relname" in line for line in psql(pooled, r"\d pg_class"))


def test_large_result(pooled):
    lines = psql(pooled, "SELECT n, repeat('x', 100) FROM generate_series(1, 50000) n")
    assert len(lines) == 50000 and lines[-1].startswith("50000|xxx")


def test_rows_in_portions(pooled):
    """FETCH_COUNT uses a cursor, which takes a transaction; from psql 17 on it takes the rows in portions as they come."""
    result = pooled.run("psql", "-X", "-A", "-t", "-q", check=False,
                       stdin="\\set FETCH_COUNT 10\nSELECT generate_series(1, 1005);\n")
    if pooled.may_have_transactions or major_version() >= 17:
        assert result.stdout.split() == [str(n) for n in range(1, 1006)]
    else:
        assert "transaction blocks not allowed in statement pooling mode" in result.stderr


@pytest.fixture
def chatty(postgres):
    """Role app is told everything, from its login on."""
    postgres.execute("ALTER ROLE app SET client_min_messages = 'debug5'")
    yield
    postgres.execute("ALTER ROLE app RESET client_min_messages")


def test_trap_38_server_with_many_notices(chatty, pooled):
    """The server's notices come in the login, in every answer and after it."""
    for number in range(20):
        result = pooled.run("psql", "-X", "-A", "-t", "-q", "-c", "SELECT %d" % number)
        assert result.stdout.split() == [str(number)] and "DEBUG:" in result.stderr
    # a server that had been taken for a broken one would have been replaced
    assert len(pooled.weir.show("SERVERS")) == 1


def test_transactions(pooled):
    result = pooled.run("psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1",
                       stdin="BEGIN;\nSELECT 1;\nROLLBACK;\nBEGIN;\nSELECT 2;\nCOMMIT;\n", check=False)
    if pooled.may_have_transactions:
        assert (result.stdout.split(), result.returncode) == (["1", "2"], 0)
    else:
        assert "transaction blocks not allowed in statement pooling mode" in result.stderr
        assert psql(pooled, "SELECT 3") == ["3"]


def test_copy_both_ways(pooled, postgres):
    table = "copied_%s_%s" % (pooled.mode, pooled.transport)
    postgres.execute("CREATE TABLE %s (n int PRIMARY KEY, t text); ALTER TABLE %s OWNER TO app" % (table, table),
                     database="p0")
    try:
        rows = "".join("%d\trow %d\n" % (n, n) for n in range(20000))
        pooled.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "\\copy %s FROM pstdin" % table, stdin=rows)
        out = pooled.run("psql", "-X", "-q", "-c", "\\copy (SELECT * FROM %s ORDER BY n) TO pstdout" % table)
        assert out.stdout == rows
        failed = pooled.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "\\copy %s FROM pstdin" % table,
                           stdin=rows, check=False)
        assert failed.returncode != 0 and "duplicate key" in failed.stderr
        assert psql(pooled, "SELECT count(*) FROM " + table) == ["20000"]
        pooled.weir.stop()
    finally:
        postgres.execute("DROP TABLE " + table, database="p0")


def pgbench(pooled, *arguments):
    result = pooled.run("pgbench", "-n", *arguments, check=False)
    assert result.returncode == 0, result.stderr
    processed = re.search(r"number of transactions actually processed: (\d+)(?:/\d+)?\n", result.stdout)
    assert re.search(r"number of failed transactions: 0 ", result.stdout) or "failed" not in result.stdout
    return int(processed.group(1))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode, protocol", [
    ("session", "simple"), ("session", "extended"), ("session", "prepared"), ("transaction", "simple"),
    ("transaction", "extended"), ("statement", "simple"), ("statement", "extended")])
def test_pgbench(scene, postgres, authority, bench, mode, protocol, transport):
    """TPC-B, whose sums must agree; in statement mode only single statements."""
    pooled = PooledPostgres(scene, postgres, authority, mode, transport, database=bench)
    clients, count = (4, 25) if mode == "session" else (8, 15)
    work = ["-S"] if mode == "statement" else []
    assert pgbench(pooled, "-M", protocol, "-c", str(clients), "-j", "1", "-t", str(count), *work) == clients * count
    if mode != "statement":
        money = [postgres.execute("SELECT sum(%s) FROM %s" % (column, table), database=bench) for column, table in
                 (("abalance", "pgbench_accounts"), ("tbalance", "pgbench_tellers"), ("bbalance", "pgbench_branches"))]
        assert money[0] == money[1] == money[2]


@pytest.mark.parametrize("mode", MODES)
def test_pgbench_with_a_connection_for_each_transaction(scene, postgres, authority, bench, mode):
    pooled = PooledPostgres(scene, postgres, authority, mode, "tcp", database=bench)
    assert pgbench(pooled, "-C", "-S", "-c", "4", "-j", "1", "-t", "25") == 100
