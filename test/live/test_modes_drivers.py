"""psycopg2, psycopg 3 and the pipelines of libpq, in every pool mode that supports them."""
import psycopg
import psycopg2
import pytest

from support.live import LONG
from support.until import DEADLINE, until


def connect2(pooled):
    connection = psycopg2.connect(**pooled.parameters)
    connection.autocommit = not pooled.may_have_transactions
    return connection


def connect3(pooled, **options):
    """Statements prepared by name need the session."""
    if not pooled.may_have_sessions:
        options["prepare_threshold"] = None
    return psycopg.connect(autocommit=not pooled.may_have_transactions, **pooled.parameters, **options)


@pytest.fixture
def table(pooled, postgres):
    """An empty table with a key for this mode and transport."""
    name = "t_%s_%s" % (pooled.mode, pooled.transport)
    postgres.execute("CREATE TABLE %s (n int PRIMARY KEY, t text); ALTER TABLE %s OWNER TO app" % (name, name),
                     database="p0")
    yield name
    pooled.weir.stop()
    postgres.execute("DROP TABLE " + name, database="p0")


# --- psycopg2

def test_psycopg2(pooled, table):
    connection = connect2(pooled)
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::int + 1, %s", (41, "it's"))
        assert cursor.fetchone() == (42, "it's")
        cursor.executemany("INSERT INTO %s VALUES (%%s, %%s)" % table, [(n, "row") for n in range(50)])
        with pytest.raises(psycopg2.errors.UniqueViolation):
            cursor.execute("INSERT INTO %s VALUES (1, '')" % table)
        connection.rollback()
        cursor.execute("SELECT count(*) FROM " + table)
        assert cursor.fetchone() == (0 if pooled.may_have_transactions else 50,)
    connection.close()


def test_psycopg2_cursor_at_the_server(transaction_front):
    connection = connect2(transaction_front)
    with connection.cursor(name="portions") as cursor:
        cursor.itersize = 10
        cursor.execute("SELECT generate_series(1, 1000)")
        assert [n for (n,) in cursor] == list(range(1, 1001))
    connection.commit()
    connection.close()


def test_psycopg2_listens_in_a_session(session_front):
    hears, speaks = connect2(session_front), connect2(session_front)
    for connection in (hears, speaks):
        connection.autocommit = True
    hears.cursor().execute("LISTEN weir")
    speaks.cursor().execute("NOTIFY weir, 'high water'")
    until(lambda: hears.poll() or hears.notifies, "the notification")
    assert hears.notifies[0].payload == "high water"
    hears.close()
    speaks.close()


# --- psycopg 3

def test_psycopg3_knows_its_own_notifications(session_front):
    hears, speaks = connect3(session_front), connect3(session_front)
    for connection in (hears, speaks):
        connection.autocommit = True
    hears.execute("LISTEN weir")
    hears.execute("NOTIFY weir, 'own'")
    speaks.execute("SELECT pg_notify('weir', 'other')")
    told = {note.payload: note.pid for note in hears.notifies(timeout=DEADLINE, stop_after=2)}
    assert told["own"] == hears.info.backend_pid
    # half of the other client's cancel key
    assert told["other"] not in (hears.info.backend_pid, speaks.info.backend_pid)
    hears.close()
    speaks.close()


def test_psycopg3(pooled, table):
    with connect3(pooled) as connection:
        for n in range(12):
            connection.execute("INSERT INTO %s VALUES (%%s, %%s)" % table, (n, "row %d" % n))
        counted = connection.execute("SELECT count(*), max(t) FROM %s WHERE n < %%s" % table, (10,), binary=True)
        assert counted.fetchone() == (10, "row 9")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO %s VALUES (1, '')" % table)
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_psycopg3_transactions(pooled, table):
    with connect3(pooled) as connection:
        if not pooled.may_have_transactions:
            with pytest.raises(psycopg.Error):
                connection.execute("BEGIN")
            pooled.weir.wait_log("closing because: transaction blocks not allowed in statement pooling mode")
            return
        with connection.transaction():
            connection.execute("INSERT INTO %s VALUES (1, 'kept')" % table)
            with pytest.raises(psycopg.errors.DivisionByZero):
                with connection.transaction():
                    connection.execute("INSERT INTO %s VALUES (2, 'lost')" % table)
                    connection.execute("SELECT 1/0")
        assert connection.execute("SELECT t FROM " + table).fetchall() == [("kept",)]


def test_psycopg3_prepared_statements_in_a_session(session_front):
    with connect3(session_front, prepare_threshold=0) as connection:
        for n in range(200):
            assert connection.execute("SELECT %s + %d" % ("%s::int", n % 50), (1,)).fetchone() == (1 + n % 50,)


def test_psycopg3_pipeline(pooled, table):
    with connect3(pooled) as connection:
        with connection.pipeline(), connection.cursor() as cursor:
            for n in range(100):
                cursor.execute("INSERT INTO %s VALUES (%%s, %%s)" % table, (n, str(n)))
            results = [connection.execute("SELECT %s::int", (n,)) for n in range(100)]
        assert [result.fetchone() for result in results] == [(n,) for n in range(100)]
        assert connection.execute("SELECT count(*), sum(n) FROM " + table).fetchone() == (100, 4950)


def test_psycopg3_pipeline_with_syncs_and_an_error(pooled, table):
    with connect3(pooled) as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            with connection.pipeline() as pipeline:
                connection.execute("INSERT INTO %s VALUES (1, 'first')" % table)
                pipeline.sync()
                connection.execute("INSERT INTO %s VALUES (1, 'second')" % table)
                connection.execute("INSERT INTO %s VALUES (2, 'skipped')" % table)
                pipeline.sync()
        connection.rollback()
        rows = connection.execute("SELECT n, t FROM " + table).fetchall()
        assert rows == ([] if pooled.may_have_transactions else [(1, "first")])


def test_psycopg3_deep_pipeline(pooled):
    """More requests on their way than any buffer holds, each with an answer of 10 kB."""
    with connect3(pooled) as connection:
        with connection.pipeline():
            results = [connection.execute("SELECT %s::int, repeat('x', 10000)", (n,)) for n in range(2000)]
            assert [result.fetchone()[0] for result in results] == list(range(2000))


def test_copy_in_and_out(pooled, table):
    lines = ["%d\t%s\n" % (n, "x" * (n % 300)) for n in range(20000)]
    with connect3(pooled) as connection:
        with connection.cursor().copy("COPY %s FROM STDIN" % table) as copy:
            for line in lines:
                copy.write(line)
        with connection.cursor().copy("COPY (SELECT * FROM %s ORDER BY n) TO STDOUT" % table) as copy:
            got = b"".join(bytes(block) for block in copy)
        connection.commit()
    assert got.decode() == "".join(lines)


def test_copy_that_fails_at_the_server(pooled, table):
    with connect3(pooled) as connection:
        connection.execute("INSERT INTO %s VALUES (5, 'there')" % table)
        connection.commit()
        with pytest.raises(psycopg.errors.UniqueViolation):
            with connection.cursor().copy("COPY %s FROM STDIN" % table) as copy:
                for n in range(20000):
                    copy.write("%d\t%s\n" % (n, "x" * 100))
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM " + table).fetchone() == (1,)


def test_copy_that_the_client_gives_up(pooled, table):
    with connect3(pooled) as connection:
        with pytest.raises(KeyError):
            with connection.cursor().copy("COPY %s FROM STDIN" % table) as copy:
                copy.write("1\tone\n")
                raise KeyError("changed my mind")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM " + table).fetchone() == (0,)


def test_copy_out_that_the_client_leaves(pooled):
    """The server is in the middle of it: it cannot be lent to another client."""
    connection = connect3(pooled)
    with connection.cursor().copy("COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT") as copy:
        assert copy.read()
        connection.pgconn.finish()
    with connect3(pooled) as other:
        assert other.execute("SELECT 42").fetchone() == (42,)


def test_cancel(pooled):
    with connect3(pooled) as connection:
        notices, raw = [], connection.pgconn
        connection.add_notice_handler(notices.append)
        raw.send_query(LONG.encode())
        until(lambda: (raw.consume_input(), raw.is_busy(), notices)[2], "the query runs")
        connection.cancel()
        result = connection.pgconn.get_result()
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57014"
        assert connection.pgconn.get_result() is None
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_binary_values(pooled):
    data = bytes(range(256)) * 5000
    with connect3(pooled) as connection:
        assert connection.execute("SELECT %b::bytea", (data,), binary=True).fetchone() == (data,)
