"""Requests after a COPY that fails before data is read: the client leaves the server, and gets all its answers."""
import pytest

from support import messages as m
from support.live import pid_of
from support.postgres import major_version
from support.scenes import transactions

WORDS = "request sent into a COPY that is not over"


@pytest.fixture
def client(scene, postgres):
    """The server checks occasionally whether its client is still connected. A COPY into the view v fails immediately."""
    postgres.execute("DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS arrived; CREATE TABLE arrived (what text);"
                     "CREATE VIEW v AS SELECT 1 AS n; GRANT ALL ON v, arrived TO PUBLIC", database="p0")
    check = {"connect_query": "'SET client_connection_check_interval = 10'"} if major_version() >= 14 else {}
    weir = transactions(scene, {"p0": postgres.target("p0", **check)})
    client = weir.client()
    client.weir, client.left = weir, pid_of(client)
    yield client
    client.close()
    postgres.execute("DROP VIEW v; DROP TABLE arrived", database="p0")


def extended(sql):
    return m.parse(sql) + m.bind() + m.execute() + m.sync()


def send(client, *requests):
    """All in one write, so that the server's account is lost while they are under way."""
    client.send(extended("COPY v FROM STDIN") + b"".join(requests))
    assert client.result().types == "12GEZ"


def test_a_statement_is_not_ended(client):
    """The statement was ended, because the server's client connection had been closed. Nothing was inserted, and the client waited forever."""
    send(client, extended("WITH i AS (INSERT INTO arrived VALUES ('here') RETURNING what) SELECT what, pg_sleep(0.3)::text FROM i"))
    result = client.result()
    assert (result.types, result.rows) == ("12DCZ", [[b"here", b""]])
    assert client.query("SELECT what FROM arrived").value == "here"
    assert pid_of(client) != client.left


def test_a_statement_is_cancelled(client):
    send(client, m.query("DO $$ BEGIN RAISE NOTICE 'runs'; PERFORM pg_sleep(3600); END $$"))
    client.expect("N")
    client.weir.cancel(client).expect_closed()
    assert client.result().errors[0]["C"] == "57014"
    assert pid_of(client) != client.left


def test_a_batch_that_fails(client):
    send(client, extended("SELECT 1/0"), extended("SELECT 2"))
    assert client.result().errors[0]["C"] == "22012"
    assert client.result().value == "2"
    assert pid_of(client) != client.left


@pytest.fixture
def held_up(client, postgres):
    """held_up(client, request): the server is left before it comes to this."""
    lock = postgres.connect(database="p0")
    lock.autocommit = True
    lock.cursor().execute("SELECT pg_advisory_lock(7)")

    def send_behind(request):
        send(client, m.query("SELECT pg_advisory_lock_shared(7)::text"), request)
        client.weir.barrier()
        lock.cursor().execute("SELECT pg_advisory_unlock_all()")
        assert client.result().types == "TDCZ"

    yield send_behind
    lock.close()


@pytest.mark.parametrize("sql, status", [("BEGIN", "T"), ("BEGIN; SELECT 1/0", "E")])
def test_a_transaction_is_ended(client, held_up, sql, status):
    """Whatever state it is in, the server is asked for its last word, and nothing of that is told the client."""
    held_up(m.query(sql))
    assert client.result().status == status
    (message,) = client.drain()
    assert m.read_error(message.body)["M"] == WORDS


def test_another_copy(client, held_up):
    """The new COPY would swallow later messages of the client: the server refuses the pooler's query."""
    held_up(m.query("COPY arrived FROM STDIN"))
    first, *middle, last = client.drain()
    assert first.type == "G" and {message.type for message in middle} <= {"E", "Z"} and last.type == "E"
