"""Drivers and prepared statements in transaction mode: the server changes with every transaction, and no client notices."""
import asyncio
import threading

import asyncpg
import pg8000.dbapi
import pg8000.native
import psycopg
import pytest
from psycopg import pq

from support import messages as m
from support.pooled_postgres import PooledPostgres
from support.prepared import SHARED
from support.rounds import IS_FULL, rounds
from support.scenes import transactions
from support.takeover import Replaced
from support.threads import run_in_threads
from support.until import until

# the servers of the pool, and the statements that each of them keeps
POOLS = [(size, cache) for size in (1, 2, 3) for cache in (1, 200)] if IS_FULL else [(1, 200), (2, 1), (3, 200)]


@pytest.fixture(params=POOLS, ids="{0[0]} servers keep {0[1]}".format)
def pool(request, scene, postgres, authority):
    """pgweir with this many servers, which keep this many statements."""
    size, cache = request.param
    return PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=size, max_prepared_statements=cache)


@pytest.fixture
def single(scene, postgres, authority):
    return PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=1)


@pytest.fixture
def numbers(postgres):
    """A table of the numbers from 1 to 100."""
    postgres.execute("DROP TABLE IF EXISTS numbers; CREATE TABLE numbers AS SELECT n::int, n::text AS t FROM "
                     "generate_series(1, 100) n; ALTER TABLE numbers OWNER TO app", database="p0")
    yield "numbers"
    postgres.execute("DROP TABLE IF EXISTS numbers", database="p0")


def connect3(pooled, threshold=0, **options):
    connection = psycopg.connect(prepare_threshold=threshold, **{"autocommit": True, **pooled.parameters, **options})
    return connection


def asyncpg_parameters(pooled):
    given = pooled.parameters
    return dict(host=given["host"], port=given["port"], user=given["user"], password=given["password"],
                database=given["dbname"], ssl=False)


def connect8000(pooled, module=pg8000.native):
    given = pooled.parameters
    make = module.Connection if module is pg8000.native else module.connect
    return make(given["user"], host=given["host"], port=given["port"], database=given["dbname"], password=given["password"])


def end_all_servers(pooled, postgres):
    """PostgreSQL ends its side of every idle connection, and pgweir has noticed."""
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'p0' AND usename = 'app'")
    until(lambda: not pooled.weir.show("SERVERS"), "no server is left")


def held(postgres_or_weir_connection):
    """Names of the statements on the server that answers."""
    return [name for (name,) in
            postgres_or_weir_connection.execute("SELECT name FROM pg_prepared_statements", prepare=False).fetchall()]


class Reconnecting:
    """Until the block ends, all servers are replaced after every few queries."""

    def __init__(self, pooled):
        self._weir = pooled.weir
        self._database = pooled.database
        self._over = threading.Event()
        self._fault = None
        self._thread = threading.Thread(target=self._run)

    def _queries(self):
        return sum(row["total_query_count"] for row in self._weir.show("STATS") if row["database"] == self._database)

    def _run(self):
        try:
            while not self._over.is_set():
                seen = self._queries()
                until(lambda: self._over.is_set() or self._queries() >= seen + 20, "more queries")
                self._weir.admin("RECONNECT")
        except Exception as fault:      # pylint: disable=broad-except
            self._fault = fault

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        if self._fault:
            raise self._fault


# --- psycopg

def questions(person, count):
    """Queries and their results: some that all clients send, some of this client only."""
    for n in range(count):
        yield "SELECT %s::int + 1", (n,), n + 1
        yield "SELECT %s::text || 'common'", ("v%d" % n,), "v%dcommon" % n
        yield "SELECT %%s::int * %d" % (n % 7), (person,), person * (n % 7)
        yield "SELECT '%d of %d' || %%s::text" % (n % 5, person), ("!",), "%d of %d!" % (n % 5, person)
        # without a cast the type of the parameter is the driver's: the same text, other types
        yield "SELECT pg_typeof(%s)::text", (1 if n % 2 else 1.5,), "smallint" if n % 2 else "double precision"


def ask_all(pooled, person, threshold, count=20):
    with connect3(pooled, threshold) as connection:
        for sql, values, answer in questions(person, count):
            assert connection.execute(sql, values).fetchone() == (answer,), (sql, values)


@pytest.mark.parametrize("threshold", [0, 1])
def test_psycopg(pool, threshold):
    run_in_threads(*(lambda person=person: ask_all(pool, person, threshold) for person in range(4)))


def test_psycopg_while_servers_are_replaced(pool):
    """Every server goes when it is released next."""
    with Reconnecting(pool):
        run_in_threads(*(lambda person=person: ask_all(pool, person, 0) for person in range(4)))


def test_psycopg_with_servers_that_live_shortly(scene, postgres, authority):
    pooled = PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=2, server_lifetime=0.01)
    run_in_threads(*(lambda person=person: ask_all(pooled, person, 0, 60) for person in range(3)))
    pooled.weir.wait_log("new connection to server", 5)


def test_psycopg_after_the_servers_were_killed(pool, postgres):
    with connect3(pool) as connection:
        for n in range(10):
            assert connection.execute("SELECT %s::int", (n,)).fetchone() == (n,)
            assert connection.execute("SELECT %s::text", (str(n),)).fetchone() == (str(n),)
            end_all_servers(pool, postgres)


def test_psycopg_transactions(pool, numbers):
    def work(person):
        with connect3(pool, autocommit=False) as connection:
            for n in range(10):
                with connection.transaction():
                    connection.execute("INSERT INTO %s VALUES (%%s, %%s)" % numbers, (1000 + person, "row %d" % n))
                    with pytest.raises(psycopg.errors.DivisionByZero):
                        with connection.transaction():
                            connection.execute("INSERT INTO %s VALUES (%%s, %%s)" % numbers, (1000 + person, "lost"))
                            connection.execute("SELECT 1 / %s::int", (0,))
                    assert connection.execute("SELECT count(*) FROM %s WHERE n = %%s" % numbers, (1000 + person,)).fetchone() == (
                        n + 1,)

    run_in_threads(*(lambda person=person: work(person) for person in range(3)))


def test_psycopg_forgets_old_statements(pool):
    """prepared_max: the driver closes its least recently used statement."""
    with connect3(pool) as connection:
        connection.prepared_max = 3
        for n in range(60):
            assert connection.execute("SELECT %s::int + %d" % ("%s", n % 6), (n,)).fetchone() == (n + n % 6,)


def test_psycopg_pipeline(pool, numbers):
    def work(person):
        with connect3(pool) as connection:
            for turn in range(3):
                with connection.pipeline() as pipeline:
                    results = [connection.execute(sql, values) for sql, values, _ in questions(person, 6)]
                    pipeline.sync()
                    results += [connection.execute(sql, values) for sql, values, _ in questions(person, 6)]
                    for result, (_, _, answer) in zip(results, list(questions(person, 6)) * 2):
                        assert result.fetchone() == (answer,), turn

    run_in_threads(*(lambda person=person: work(person) for person in range(3)))


@pytest.mark.parametrize("place", range(6))
def test_psycopg_pipeline_with_an_error(pool, numbers, place):
    with connect3(pool) as connection:
        for _ in range(3):
            with pytest.raises(psycopg.errors.DivisionByZero):
                with connection.pipeline():
                    for n in range(6):
                        if n == place:
                            connection.execute("SELECT 1 / %s::int", (0,))
                        connection.execute("SELECT %%s::int + %d" % n, (n,))
            for n in range(6):
                assert connection.execute("SELECT %%s::int + %d" % n, (n,)).fetchone() == (2 * n,)


def test_psycopg_executemany(pool, numbers):
    with connect3(pool) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO %s VALUES (%%s, %%s)" % numbers, [(2000 + n, "many") for n in range(500)])
        cursor.executemany("SELECT %s::int", [(n,) for n in range(200)], returning=True)
        got = []
        while True:
            got += cursor.fetchall()
            if not cursor.nextset():
                break
        assert got == [(n,) for n in range(200)]
        assert cursor.execute("SELECT count(*) FROM %s WHERE n >= 2000" % numbers).fetchone() == (500,)


@pytest.mark.parametrize("forget", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_psycopg_forgets_everything(pool, forget):
    """psycopg recognises these commands and prepares again; pgweir must do the same."""
    with connect3(pool) as one, connect3(pool) as two:
        for n in range(10):
            assert one.execute("SELECT %s::int", (n,)).fetchone() == (n,)
            assert two.execute("SELECT %s::int", (n,)).fetchone() == (n,)
            assert two.execute("SELECT %s::text", ("x",)).fetchone() == ("x",)
            one.execute(forget)


def test_psycopg_server_cursor(pool, numbers):
    with connect3(pool, autocommit=False) as connection:
        for _ in range(3):
            with connection.cursor("named") as cursor:
                cursor.execute("SELECT n FROM %s ORDER BY n" % numbers)
                assert [n for (n,) in cursor] == list(range(1, 101))
            connection.commit()


def test_changed_table_is_reported_once(single, numbers):
    """The client that has the old statement is told as it would be directly; preparing it again helps, for all."""
    with connect3(single) as one, connect3(single) as two, connect3(single, None) as owner:
        for connection in (one, two):
            assert connection.execute("SELECT * FROM numbers WHERE n = %s::int", (1,)).fetchone() == (1, "1")
        owner.execute("ALTER TABLE numbers ADD COLUMN more int DEFAULT 5")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
            one.execute("SELECT * FROM numbers WHERE n = %s::int", (1,))
        with connect3(single) as third:
            assert third.execute("SELECT * FROM numbers WHERE n = %s::int", (1,)).fetchone() == (1, "1", 5)
        for connection in (one, two):
            connection.execute("DEALLOCATE ALL")
            assert connection.execute("SELECT * FROM numbers WHERE n = %s::int", (1,)).fetchone() == (1, "1", 5)


KEEP = "INSERT INTO numbers (n, t) VALUES ($1, $2)"


def keep(client, number, text=b"kept", *first):
    client.send(*first, m.bind("keep", values=(number, text)), m.execute(), m.sync())
    return client.result()


def test_parameters_of_an_altered_table(scene, postgres, numbers):
    """No error shows that a shared statement has the old parameter types: a client that prepares it again gets the current types."""
    weir = transactions(scene, {"p0": postgres})
    old, owner = weir.client(), weir.client()
    assert keep(old, b"101", b"kept", m.parse(KEEP, "keep")).tags == ["INSERT 0 1"]
    assert owner.query("ALTER TABLE %s ALTER n TYPE bigint, ALTER t TYPE bytea USING t::bytea" % numbers).tags == ["ALTER TABLE"]
    for _ in range(2):
        new = weir.client()
        assert keep(new, b"3000000000", b"\\xff", m.parse(KEEP, "keep")).tags == ["INSERT 0 1"]
        assert new.query("SELECT t FROM %s WHERE n = 3000000000 LIMIT 1" % numbers).value == "\\xff"
    # this client's statement keeps its types, as on a dedicated connection
    assert keep(old, b"3000000000").errors[0]["C"] == "22003"


def test_parameters_of_a_recreated_table(scene, postgres, numbers):
    """As migrations do that copy a table. A text calls the function by its argument types."""
    weir = transactions(scene, {"p0": postgres})
    assert keep(weir.client(), b"101", b"kept", m.parse(KEEP, "keep")).tags == ["INSERT 0 1"]
    owner = weir.client()
    owner.query("BEGIN; DROP TABLE numbers")
    owner.query("CREATE TABLE numbers (n bigint, t bytea)")
    assert owner.query("COMMIT").status == "I"
    for _ in range(2):
        assert keep(weir.client(), b"3000000000", b"\\xff", m.parse(KEEP, "keep")).tags == ["INSERT 0 1"]


def test_recreated_function(scene, postgres, numbers):
    """The text has its $1 from the function's argument."""
    def ask():
        client = weir.client()
        client.send(m.parse("SELECT grown($1)", "s"), m.bind("s", values=(b"3000000000",)), m.execute(), m.sync())
        return client.result()

    weir = transactions(scene, {"p0": postgres})
    owner = weir.client()
    try:
        owner.query("CREATE FUNCTION grown(int) RETURNS int LANGUAGE sql AS 'SELECT $1'")
        assert ask().errors[0]["C"] == "22003"
        owner.query("DROP FUNCTION grown(int)")
        owner.query("CREATE FUNCTION grown(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1'")
        assert ask().value == "3000000000"
    finally:
        owner.query("DROP FUNCTION IF EXISTS grown(int); DROP FUNCTION IF EXISTS grown(bigint)")


def test_type_recreated_in_a_function(scene, postgres):
    """
    No command tag reports the change. A client that prepares its text again after the error gets a current statement, not the stale one forever.
    """
    def ask(client):
        client.send(m.parse("SELECT $1::mood", "s"), m.bind("s", values=(b"glad",)), m.execute(), m.close("S", "s"), m.sync())
        return client.result()

    weir = transactions(scene, {"p0": postgres}, 1)
    owner = weir.client()
    try:
        owner.query("CREATE TYPE mood AS ENUM ('glad')")
        assert ask(weir.client()).value == "glad"
        assert owner.query("DO 'BEGIN DROP TYPE mood; CREATE TYPE mood AS ENUM (''glad''); END'").tags == ["DO"]
        new = weir.client()
        assert ask(new).errors[0]["C"] == "XX000"
        new.send(m.close("S", "s"), m.sync())
        new.result()
        assert ask(new).value == "glad"
        assert ask(weir.client()).value == "glad"
    finally:
        owner.query("DROP TYPE mood")


def test_statements_per_server_are_limited(scene, postgres, authority):
    pooled = PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=1, max_prepared_statements=7)
    with connect3(pooled) as connection:
        for n in range(50):
            connection.execute("SELECT %%s::int + %d" % n, (n,))
        names = held(connection)
        assert len(names) == 7 and all(SHARED.fullmatch(name) for name in names)


# --- libpq

def pq_connect(pooled):
    text = " ".join("%s=%s" % item for item in pooled.parameters.items())
    connection = pq.PGconn.connect(text.encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    return connection


def code(result):
    return result.error_field(pq.DiagnosticField.SQLSTATE)


def test_libpq(pool):
    connections = [pq_connect(pool) for _ in range(3)]
    for n, connection in enumerate(connections):
        assert connection.prepare(b"mine", b"SELECT $1::int + %d" % n).status == pq.ExecStatus.COMMAND_OK
        assert code(connection.prepare(b"mine", b"SELECT 1")) == b"42P05"
        assert code(connection.exec_prepared(b"nobody's", [])) == b"26000"
        assert code(connection.describe_prepared(b"nobody's")) == b"26000"
    for turn in range(5):
        for n, connection in enumerate(connections):
            described = connection.describe_prepared(b"mine")
            assert (described.nparams, described.param_type(0), described.ftype(0)) == (1, 23, 23)
            assert connection.exec_prepared(b"mine", [b"%d" % turn]).get_value(0, 0) == b"%d" % (turn + n)
    for connection in connections:
        connection.finish()


def test_libpq_unnamed_statement(pool):
    """PQprepare with an empty name, PQexecPrepared in another transaction."""
    connections = [pq_connect(pool) for _ in range(3)]
    for turn in range(3):
        for n, connection in enumerate(connections):
            connection.prepare(b"", b"SELECT $1::text || ' of %d in %d'" % (n, turn))
        for n, connection in enumerate(connections):
            for _ in range(2):
                assert connection.exec_prepared(b"", [b"x"]).get_value(0, 0) == b"x of %d in %d" % (n, turn)
            assert connection.describe_prepared(b"").param_type(0) == 25
    connections[0].exec_(b"SELECT 1")
    assert code(connections[0].exec_prepared(b"", [b"x"])) == b"26000"
    for connection in connections:
        connection.finish()


def test_libpq_pipeline(pool):
    """Prepare, fail, prepare again: everything sent before anything is read."""
    connection = pq_connect(pool)
    for turn in rounds(5):
        connection.enter_pipeline_mode()
        connection.send_prepare(b"a", b"SELECT 'a %d'" % turn)
        connection.send_query_prepared(b"a", None)
        connection.send_query_params(b"SELECT 1/0", None)
        connection.send_prepare(b"b", b"SELECT 'b'")
        connection.pipeline_sync()
        connection.send_query_prepared(b"a", None)
        connection.send_query_prepared(b"b", None)
        connection.pipeline_sync()
        connection.send_prepare(b"b", b"SELECT 'b %d'" % turn)
        connection.send_describe_prepared(b"b")
        connection.send_query_prepared(b"b", None)
        connection.send_query_params(b"DEALLOCATE ALL", None)
        connection.pipeline_sync()
        got = []
        while got.count("sync") < 3:
            result = connection.get_result()
            if result is None:
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                got.append("sync")
            elif result.status == pq.ExecStatus.PIPELINE_ABORTED:
                got.append("skipped")
            elif result.status == pq.ExecStatus.FATAL_ERROR:
                got.append(code(result).decode())
            elif result.status == pq.ExecStatus.TUPLES_OK:
                got.append(result.get_value(0, 0).decode())
            else:
                got.append("ok")
        connection.exit_pipeline_mode()
        assert got == ["ok", "a %d" % turn, "22012", "skipped", "sync", "a %d" % turn, "26000", "sync",
                       "ok", "ok", "b %d" % turn, "ok", "sync"]
    connection.finish()


# --- asyncpg

def test_asyncpg(pool, numbers):
    async def work(person):
        connection = await asyncpg.connect(**asyncpg_parameters(pool))
        for n in range(20):
            assert await connection.fetchval("SELECT $1::int + 1", n) == n + 1
            assert await connection.fetchval("SELECT $1::text || %d" % (n % 5), "v") == "v%d" % (n % 5)
            assert await connection.fetchval("SELECT '%d' || $1::text" % person, "v") == "%dv" % person
        statement = await connection.prepare("SELECT t FROM numbers WHERE n = $1")
        for n in range(1, 20):
            assert await statement.fetchval(n) == str(n)
        await connection.executemany("INSERT INTO numbers VALUES ($1, $2)", [(3000 + person, str(n)) for n in range(50)])
        async with connection.transaction():
            assert await connection.fetchval("SELECT count(*) FROM numbers WHERE n = $1", 3000 + person) == 50
            rows = [row["n"] async for row in connection.cursor("SELECT n FROM numbers WHERE n <= 100 ORDER BY n", prefetch=10)]
            assert rows == list(range(1, 101))
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with connection.transaction():
                await connection.execute("INSERT INTO numbers VALUES ($1, 'lost')", 3000 + person)
                await connection.fetchval("SELECT 1 / $1::int", 0)
        assert await connection.fetchval("SELECT count(*) FROM numbers WHERE n = $1", 3000 + person) == 50
        await connection.close()

    async def crowd():
        await asyncio.gather(*(work(person) for person in range(4)))

    asyncio.run(crowd())


def test_asyncpg_pool_with_a_small_cache(pool):
    """More texts than the driver keeps: it closes statements, and opens others under new names."""
    async def crowd():
        async with asyncpg.create_pool(min_size=2, max_size=4, statement_cache_size=3, **asyncpg_parameters(pool)) as own:
            async def ask(n):
                async with own.acquire() as connection:
                    return await connection.fetchval("SELECT $1::int + %d" % (n % 10), n)
            assert await asyncio.gather(*(ask(n) for n in range(200))) == [n + n % 10 for n in range(200)]

    asyncio.run(crowd())


def test_asyncpg_retries_after_a_table_change(pool, numbers, postgres):
    """The driver drops its statements and prepares again, without an error for its user."""
    async def work():
        connections = [await asyncpg.connect(**asyncpg_parameters(pool)) for _ in range(3)]
        for turn in range(3):
            for connection in connections:
                row = await connection.fetchrow("SELECT * FROM numbers WHERE n = $1", 1)
                assert len(row) == 2 + turn, (turn, row)
            postgres.execute("ALTER TABLE numbers ADD COLUMN more%d int" % turn, database="p0")
        for connection in connections:
            await connection.close()

    asyncio.run(work())


def test_asyncpg_reads_custom_types(pool, postgres):
    """Types that the driver has to ask for, with long prepared queries of its own."""
    postgres.execute("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'glad')", database="p0")

    async def work():
        connections = [await asyncpg.connect(**asyncpg_parameters(pool)) for _ in range(3)]
        for connection in connections:
            assert await connection.fetchval("SELECT ARRAY[$1::mood, 'sad']", "glad") == ["glad", "sad"]
            assert await connection.fetchval("SELECT ROW(1, $1::mood)", "glad") == (1, "glad")
            await connection.reset()
            assert await connection.fetchval("SELECT $1::mood", "sad") == "sad"
        for connection in connections:
            await connection.close()

    asyncio.run(work())
    postgres.execute("DROP TYPE mood", database="p0")


# --- pg8000

def test_pg8000(pool, numbers):
    def work(person):
        connection = connect8000(pool)
        for n in range(20):
            assert connection.run("SELECT cast(:v AS int) + 1", v=n) == [[n + 1]]
            assert connection.run("SELECT '%d' || cast(:v AS text)" % person, v="v") == [["%dv" % person]]
        statement = connection.prepare("SELECT t FROM numbers WHERE n = :n")
        for n in range(1, 20):
            assert statement.run(n=n) == [[str(n)]]
        statement.close()
        connection.run("BEGIN")
        connection.run("INSERT INTO numbers VALUES (:n, 'x')", n=4000 + person)
        with pytest.raises(pg8000.native.DatabaseError):
            connection.run("SELECT 1 / cast(:v AS int)", v=0)
        connection.run("ROLLBACK")
        assert connection.run("SELECT count(*) FROM numbers WHERE n = :n", n=4000 + person) == [[0]]
        connection.close()

    run_in_threads(*(lambda person=person: work(person) for person in range(3)))


def test_pg8000_dbapi(pool, numbers):
    connection = connect8000(pool, pg8000.dbapi)
    cursor = connection.cursor()
    for n in range(20):
        cursor.execute("INSERT INTO numbers VALUES (%s, %s)", (5000, "row %d" % n))
        connection.commit()
    cursor.executemany("INSERT INTO numbers VALUES (%s, %s)", [(5000, "many")] * 20)
    connection.commit()
    cursor.execute("SELECT count(*) FROM numbers WHERE n = %s", (5000,))
    assert cursor.fetchone() == [40]
    connection.close()


# --- pgbench: each client in a thread of its own, because it waits for the answer to a Parse while others hold the servers

@pytest.mark.parametrize("script", ["select-only", "simple-update", "tpcb-like"])
@pytest.mark.parametrize("size", (1, 2, 3))
def test_pgbench(scene, postgres, authority, bench, size, script):
    pooled = PooledPostgres(scene, postgres, authority, "transaction", "tcp", database=bench, default_pool_size=size,
                  max_prepared_statements=3 if size == 2 else 200)
    done = pooled.run("pgbench", "-M", "prepared", "-n", "-b", script, "-c", "6", "-j", "6", "-t", "100")
    assert "600/600" in done.stdout and "aborted" not in done.stderr, done.stdout + done.stderr


def test_pgbench_pipelines(scene, postgres, authority, bench, directory):
    path = directory + "/script.sql"
    with open(path, "w", encoding="ascii") as f:
        f.write("\\set a random(1, 1000)\n\\startpipeline\nBEGIN;\nSELECT abalance FROM pgbench_accounts WHERE aid = :a;\n"
                "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :a;\nCOMMIT;\nSELECT 1;\n\\endpipeline\n"
                "SELECT :a;\n")
    pooled = PooledPostgres(scene, postgres, authority, "transaction", "tcp", database=bench, default_pool_size=2,
                  max_prepared_statements=2)
    done = pooled.run("pgbench", "-M", "prepared", "-n", "-f", path, "-c", "4", "-j", "4", "-t", "100")
    assert "400/400" in done.stdout and "aborted" not in done.stderr, done.stdout + done.stderr


def test_pgbench_while_servers_are_replaced(scene, postgres, authority, bench):
    pooled = PooledPostgres(scene, postgres, authority, "transaction", "tcp", database=bench, default_pool_size=2)
    with Reconnecting(pooled):
        done = pooled.run("pgbench", "-M", "prepared", "-n", "-S", "-c", "4", "-j", "4", "-t", "300")
    assert "1200/1200" in done.stdout and "aborted" not in done.stderr, done.stdout + done.stderr


# --- statements prepared by SQL

def test_sql_and_protocol_statements_are_separate(single):
    """PREPARE remains on its server; a protocol-level statement of the same name is another statement."""
    one, two = pq_connect(single), pq_connect(single)
    assert one.exec_(b"PREPARE foo AS SELECT 'of one'").status == pq.ExecStatus.COMMAND_OK
    assert two.prepare(b"foo", b"SELECT 'of two'").status == pq.ExecStatus.COMMAND_OK
    assert two.exec_prepared(b"foo", []).get_value(0, 0) == b"of two"
    assert one.exec_(b"EXECUTE foo").get_value(0, 0) == b"of one"
    for connection in (one, two):
        connection.finish()


def test_name_error_aborts_the_transaction(single, numbers):
    """An error that only pgweir detects must end the transaction at the server."""
    connection = pq_connect(single)
    connection.prepare(b"there", b"SELECT 1")
    for wrong in (lambda: connection.exec_prepared(b"nobody's", []), lambda: connection.prepare(b"there", b"SELECT 2"),
                  lambda: connection.describe_prepared(b"nobody's")):
        connection.exec_(b"BEGIN")
        connection.exec_(b"INSERT INTO numbers VALUES (6000, 'lost')")
        assert wrong().status == pq.ExecStatus.FATAL_ERROR
        assert connection.transaction_status == pq.TransactionStatus.INERROR
        assert code(connection.exec_(b"SELECT 1")) == b"25P02"
        assert connection.exec_(b"COMMIT").command_status == b"ROLLBACK"
    assert connection.exec_(b"SELECT count(*) FROM numbers WHERE n = 6000").get_value(0, 0) == b"0"
    assert connection.exec_prepared(b"there", []).get_value(0, 0) == b"1"
    connection.finish()


def test_literals_keep_their_meaning(single):
    """A text is read under the settings of the session that prepares it."""
    first, second = (psycopg.connect(autocommit=True, prepare_threshold=0, **single.parameters) for _ in range(2))
    first.execute("SET DateStyle = 'ISO, MDY'")
    second.execute("SET DateStyle = 'ISO, DMY'")
    for _ in range(3):
        assert str(first.execute("SELECT DATE '01/02/2020'").fetchone()[0]) == "2020-01-02"
        assert str(second.execute("SELECT DATE '01/02/2020'").fetchone()[0]) == "2020-02-01"
    for connection in (first, second):
        connection.close()


# a parameter, two values of it, and a text that means another thing under each
MEANINGS = [
    ("DateStyle", "ISO, DMY", "ISO, MDY", "SELECT extract(month FROM '01/02/2003'::date)"),
    ("TimeZone", "Asia/Tokyo", "America/Lima", "SELECT extract(epoch FROM '2003-02-01 00:00'::timestamptz)"),
    ("standard_conforming_strings", "on", "off", "SELECT length('a\\\\b')"),
    ("client_encoding", "UTF8", "LATIN1", "SELECT length('\u00e4')")]


def asked(client, *messages):
    client.send(b"".join(messages) + m.sync())
    return client.result()


@pytest.mark.parametrize("parameter, old, new, text", MEANINGS, ids=[row[0] for row in MEANINGS])
def test_text_parsed_under_other_parameters_is_not_shared(scene, postgres, parameter, old, new, text):
    """A client changes a parameter, and its server must parse a statement prepared before: no other client may use that statement."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=2)
    one, two, busy = (weir.client() for _ in range(3))
    use, means = m.bind("s1") + m.execute(), {}
    for value in (old, new):
        busy.query("SET %s = '%s'" % (parameter, value))
        means[value] = asked(busy, m.run(text)).value
    assert means[old] != means[new]
    for client in (one, two):
        client.query("SET %s = '%s'" % (parameter, old))
    assert asked(one, m.parse(text, "s1"), use).value == means[old]
    one.query("SET %s = '%s'" % (parameter, new))
    busy.query("BEGIN")
    assert asked(one, use).value == means[new]
    assert asked(two, m.parse(text, "s1"), use).value == means[old]
    assert asked(one, use).value == means[new]
    assert asked(one, m.describe("S", "s1"), m.parse(text, "s2"), m.bind("s2"), m.execute()).value == means[new]
    assert asked(two, m.close("S", "s1"), m.parse(text, "s1"), use).value == means[old]
    busy.query("COMMIT")


DATE = "SELECT extract(month FROM '01/02/2003'::date)"
SET_MDY = m.run("SET DateStyle = 'ISO, MDY'")
USE = m.bind("s1") + m.execute()


def dmy_clients(scene, postgres, count, size):
    weir = scene.weir({"p0": postgres}, kind=Replaced, pool_mode="transaction", default_pool_size=size, server_tls_sslmode="disable")
    clients = [weir.client() for _ in range(count)]
    for client in clients:
        client.query("SET DateStyle = 'ISO, DMY'")
    return clients


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("way", ["query", "batches", "batch", "batch and flush", "half of it undone", "undone"])
def test_meaning_of_a_text_after_a_parameter_change(scene, postgres, way, known):
    """A Parse that the server reads under parameters that it has not reported yet: SET is in front of it."""
    one, two, three, busy = dmy_clients(scene, postgres, 4, 2)
    parse, answers, month = m.parse(DATE, "s1"), 1, "1"
    busy.query("BEGIN")
    if known:
        assert asked(two, parse, USE).value == "2"
    if way == "query":
        one.send(m.query("SET DateStyle = 'ISO, MDY'") + parse + USE + m.sync())
        answers = 2
    elif way == "batches":
        one.send(SET_MDY + m.sync() + parse + USE + m.sync())
        answers = 2
    elif way == "batch":
        one.send(SET_MDY + parse + USE + m.sync())
    elif way == "batch and flush":
        one.send(SET_MDY + m.flush())
        one.read_until("C")
        one.send(parse + m.flush())
        one.read_until("1")
        one.send(USE + m.sync())
    elif way == "half of it undone":
        one.send(SET_MDY + parse + USE + m.run("SET DateStyle = 'ISO, DMY'") + m.sync())
    else:
        one.send(SET_MDY + parse + USE + m.bind("nobody") + m.sync())
    heard = [one.result() for _ in range(answers)]
    assert heard[-1].rows[0] == [b"1"]
    if "undone" in way:
        month = None        # it was read as something that is over: how a connection of its own would go on is not defined
    assert asked(two, m.close("S", "s1"), parse, USE).value == "2"
    assert asked(three, parse, USE).value == "2"
    assert month is None or asked(one, USE).value == month
    # on the other server as well
    busy.query("COMMIT")
    two.query("BEGIN")
    assert month is None or asked(one, USE).value == month
    assert asked(three, USE).value == "2"
    two.query("COMMIT")


@pytest.mark.parametrize("way", ["batch", "batches", "batch and flush", "undone", "taken back", "flush and taken back", "local",
                                 "flush and local", "flush, online restart and local"])
def test_meaning_of_a_text_on_another_server_after_a_parameter_change(scene, postgres, way):
    """The same, if pgweir parses the client's earlier statement for a server that lacks it."""
    one, two, busy = dmy_clients(scene, postgres, 3, 2)
    answers = 1
    assert asked(one, m.parse(DATE, "s1"), USE).value == "2"
    busy.query("BEGIN")
    if way == "batch":
        one.send(SET_MDY + USE + m.sync())
    elif way == "batches":
        one.send(SET_MDY + m.sync() + USE + m.sync())
        answers = 2
    elif way == "undone":
        one.send(SET_MDY + USE + m.bind("nobody") + m.sync())
    else:
        # the server does not report values that end with the batch
        begin, end = SET_MDY, b""
        if "taken back" in way:
            end = m.run("SET DateStyle = 'ISO, DMY'")
        elif "local" in way:
            begin, end = m.run("BEGIN") + m.run("SET LOCAL DateStyle = 'ISO, MDY'"), m.run("COMMIT")
        one.send(begin)
        if "flush" in way:
            one.send(m.flush())
            for _ in range(begin.count(b"SET") + begin.count(b"BEGIN")):
                one.read_until("C")
        if "restart" in way:
            scene.weirs[-1].replace()
        one.send(USE + end + m.sync())
    heard = [one.result() for _ in range(answers)]
    assert heard[-1].rows[0] == [b"1"]
    for _ in range(2):
        assert asked(two, m.parse(DATE, "s1"), USE, m.close("S", "s1")).value == "2"
        # Between batches pgweir waits for the report and parses with the present values; else the server now has the statement as it was prepared.
        assert asked(one, USE).value == ("1" if way == "batches" else "2")
    busy.query("COMMIT")
    for client in (one, two, busy):
        client.quit()


def test_sql_prepared_statement_is_not_visible_to_others(scene, postgres):
    """A server keeps statements of SQL's PREPARE for its next client; the protocol finds them in the same transaction only."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    one, two = weir.client(), weir.client()
    one.query("PREPARE secret AS SELECT 'secret of one'")
    for asked in (m.bind("secret") + m.execute(), m.describe("S", "secret")):
        two.send(asked, m.sync())
        (error,) = two.result().errors
        assert error["C"] == "26000" and error["M"] == 'prepared statement "secret" does not exist'
    two.send(m.close("S", "secret"), m.sync())
    assert two.result().types == "3Z"
    two.query("BEGIN")
    two.query("PREPARE own AS SELECT 'of my own'")
    two.send(m.bind("own"), m.execute(), m.sync())
    assert two.result().value == "of my own"
    two.send(m.close("S", "own"), m.sync())
    assert two.result().types == "3Z"
    assert two.query("EXECUTE own").errors[0]["C"] == "26000"
    two.query("ROLLBACK")
    assert one.query("EXECUTE secret").value == "secret of one"


@pytest.mark.parametrize("fails, count", [
    (m.parse(b"\xff") + m.sync(), 1), (m.parse("SELECT 1", "s1") + m.query(b"\xff"), 1),
    (m.query(b"\xff") + m.parse(b"\xff") + m.sync(), 2), (m.message("C", b"S\0 and more") + m.sync(), 1),
    (m.message("P", b"\0SELECT 1\0") + m.sync(), 1)], ids=["parse", "query", "both", "close", "half a parse"])
@pytest.mark.parametrize("writes", ["one", "two"])
def test_failed_parse_does_not_expose_another_clients_statement(scene, postgres, writes, fails, count):
    """Text that is not in the client's encoding, or a message of the wrong shape, is refused before anything has been ended."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    one, two = (weir.client(client_encoding="UTF8") for _ in range(2))
    one.send(m.run("SELECT 'secret of one'"), m.sync())
    assert one.result().value == "secret of one"
    use = m.bind() + m.execute() + m.sync()
    two.send(fails, use if writes == "one" else b"")
    codes = [error["C"] for _ in range(count) for error in two.result().errors]
    assert len(codes) == count and set(codes) <= {"22021", "08P01"}, codes
    if writes == "two":
        two.send(use)
    (error,) = two.result().errors
    assert error["C"] == "26000" and error["M"] == "unnamed prepared statement does not exist"


@pytest.mark.parametrize("message", [m.bind("", "p" * 9000), m.bind("", "p" * 300000), m.bind("k" * 5000), m.describe("S", "k" * 5000),
                                     m.parse("SELECT 'mine'", "k" * 5000), m.close("S", "k" * 5000)],
                         ids=["portal", "long portal", "statement", "describe", "parse", "close"])
@pytest.mark.parametrize("cut", [None, 4200], ids=["whole", "cut"])
def test_long_names_do_not_expose_another_clients_statement(scene, postgres, message, cut):
    """The server would truncate the names to 63 bytes, and use an existing statement."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    one, two = (weir.client() for _ in range(2))
    one.send(m.run("SELECT 'secret of one'"), m.parse("SELECT 'secret of one'", "k" * 63), m.sync())
    assert one.result().value == "secret of one"
    two.send(message[:cut])
    weir.barrier()
    two.send(message[len(message[:cut]):], m.execute("p" * 63), m.sync())
    (error,) = two.result().errors
    assert (error["C"], error["M"]) == ("42622", "name of a prepared statement or portal is too long")
    one.send(m.bind("k" * 63), m.execute(), m.sync())
    assert one.result().value == "secret of one"


def make_a_copy_that_is_refused(postgres):
    """COPY refuses FROM STDIN asks for data, and fails when no session has the lock 4711 any more, before it reads any."""
    postgres.execute("""DROP TABLE IF EXISTS refuses; CREATE TABLE refuses (n int); ALTER TABLE refuses OWNER TO app;
        CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RAISE EXCEPTION 'refused'; END $$;
        CREATE TRIGGER refuses BEFORE INSERT ON refuses FOR EACH STATEMENT EXECUTE FUNCTION refuse()""", database="p0")


@pytest.mark.parametrize("use", [m.bind() + m.execute(), m.describe("S")], ids=["bind", "describe"])
def test_failed_copy_does_not_expose_another_clients_unnamed_statement(scene, postgres, use):
    """Messages sent into the COPY are then executed as if there had been no COPY."""
    make_a_copy_that_is_refused(postgres)
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, allow="lost|crashed")
    one, two = (weir.client() for _ in range(2))

    def into_the_copy(name, *parts):
        """Messages after the failure of the COPY. On its server they are the second batch that a Sync ends."""
        with postgres.connect(database="p0") as holder, holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(4711)")
            one.send(m.run("SELECT 'secret of one'"), m.sync())
            assert one.result().value == "secret of one"
            two.send(m.parse("COPY refuses FROM STDIN", name), m.bind(name), m.execute(), m.sync())
            two.expect_all("12G")
            two.send(*parts, m.sync())
            weir.barrier()
            cursor.execute("SELECT pg_advisory_unlock(4711)")
        two.expect("E")
        two.expect("Z")
        return two.result()

    # a Parse in the same batch defines the statement; on another server, in a batch of the same number, it does not
    assert into_the_copy("first", m.parse("SELECT 'own'"), use).errors == []
    (error,) = into_the_copy("second", use).errors
    assert error["C"] == "26000"


@pytest.mark.parametrize("name", ["shared", "made by SQL"])
@pytest.mark.parametrize("use", [lambda name: m.bind(name) + m.execute(), lambda name: m.describe("S", name)], ids=["bind", "describe"])
def test_failed_copy_does_not_expose_another_clients_statement(scene, postgres, use, name):
    """The same for named statements: the pooler's, and statements that another client has prepared by SQL."""
    make_a_copy_that_is_refused(postgres)
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, allow="lost|crashed")
    one, two = (weir.client() for _ in range(2))
    one.send(m.parse("SELECT 'secret of one'", "mine"), m.sync())
    one.expect_all("1Z")
    if name == "shared":
        name = one.query("SELECT name FROM pg_prepared_statements").value
        assert SHARED.fullmatch(name)
    one.query("PREPARE \"made by SQL\" AS SELECT 'secret of one'")

    def into_the_copy(*parts):
        with postgres.connect(database="p0") as holder, holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(4711)")
            two.send(m.parse("COPY refuses FROM STDIN"), m.bind(), m.execute(), m.sync())
            two.expect_all("12G")
            two.send(*parts, m.sync())
            weir.barrier()
            cursor.execute("SELECT pg_advisory_unlock(4711)")
        two.expect("E")
        two.expect("Z")
        return two.result()

    (error,) = into_the_copy(use(name)).errors
    assert error["C"] == "26000"
    # the client's own statement is used if its Parse comes first
    assert into_the_copy(m.parse("SELECT 'own'", "s1"), use("s1")).errors == []
    (error,) = into_the_copy(m.parse("SELECT 'own'", "s1"), use(name)).errors
    assert error["C"] == "26000"


def test_long_names_are_truncated_as_by_the_server(scene, postgres):
    """Names with the same first 63 bytes are one name, to PostgreSQL and so to pgweir."""
    seen = []
    for mode in ("session", "transaction"):
        client = scene.weir(postgres, pool_mode=mode).client()

        def told(*messages):
            """The types of the answers, and the codes of the errors; the value of a row."""
            client.send(b"".join(messages) + m.sync())
            return [m.read_error(got.body)["C"] if got.type == "E" else got.body[6:].decode() if got.type == "D" else got.type
                    for got in client.read_until("Z")]      # noqa: B023
        one, same, other = "n" * 64 + "one", "n" * 63, "n" * 62
        seen.append([
            told(m.parse("SELECT 'one'", one)), told(m.parse("SELECT 'same'", same)), told(m.parse("SELECT 'other'", other)),
            told(m.bind(same), m.execute()), told(m.bind(other), m.execute()), told(m.close("S", same)),
            told(m.bind(one), m.execute()), told(m.parse("SELECT 'again'", one), m.bind(same), m.execute())])
    assert seen[0] == seen[1]
    assert seen[0][:2] == [["1", "Z"], ["42P05", "Z"]] and "again" in seen[0][-1][2]


@pytest.mark.parametrize("text, again", [("SELECT $1::int + 1", False), ("SELECT $1::int + length('x')", True)], ids=["plain", "literal"])
def test_only_texts_with_a_variable_meaning_are_parsed_again(scene, postgres, text, again):
    """After any SET, which may have been rolled back since."""
    one, busy = dmy_clients(scene, postgres, 2, 2)
    one.send(m.parse(text, "s1") + m.sync())
    one.expect_all("1Z")
    busy.query("BEGIN")
    parsed = set()
    for _ in range(3):
        one.send(m.run("BEGIN") + m.run("SET LOCAL statement_timeout = 100000") + m.bind("s1", values=(b"1",)) + m.execute() +
                 m.run("COMMIT") + m.sync())
        assert one.result().rows == [[b"2"]]
        parsed.add(one.query("SELECT max(prepare_time) FROM pg_prepared_statements WHERE from_sql = false").value)
    assert len(parsed) == (3 if again else 1)
    busy.query("COMMIT")


@pytest.mark.parametrize("back", ["local", "rollback", "reset", "online restart", "local behind ALTER TABLE"])
def test_meaning_of_a_text_is_restored(scene, postgres, back):
    """A change that ends with its transaction, or is rolled back, does not affect texts that were parsed meanwhile."""
    weir = scene.weir({"p0": postgres}, kind=Replaced, pool_mode="transaction", default_pool_size=2,
                      server_tls_sslmode="disable")
    one, busy = (weir.client() for _ in range(2))
    one.query("SET DateStyle = 'ISO, DMY'")
    assert asked(one, m.parse(DATE, "s1"), USE).value == "2"
    if "ALTER" in back:
        postgres.execute("DROP TABLE IF EXISTS altered; CREATE TABLE altered (); ALTER TABLE altered OWNER TO app", database="p0")
        assert one.query("ALTER TABLE altered ADD COLUMN n int").tags == ["ALTER TABLE"]
    busy.query("BEGIN")
    one.query("BEGIN")
    one.query("SET %s DateStyle = 'ISO, MDY'" % ("" if back in ("rollback", "reset") else "LOCAL"))
    assert asked(one, USE).value == "1"
    if back == "online restart":
        weir.replace()
    one.query("ROLLBACK" if back == "rollback" else "COMMIT")
    if back == "reset":
        assert asked(one, USE).value == "1"
        one.query("SET DateStyle = 'ISO, DMY'")
    for _ in range(2):
        assert asked(one, USE).value == "2"
    busy.query("COMMIT")
