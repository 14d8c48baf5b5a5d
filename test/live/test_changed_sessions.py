"""Commands that change what a new session begins with, or that need a database without sessions: idle server connections are replaced or closed."""
import psycopg2
import pytest

from support import messages as m


@pytest.fixture(params=["off", "full"])
def weir(scene, postgres, request):
    """Names p2 and doomed of one server, with a pool of two."""
    postgres.execute("CREATE DATABASE doomed")
    yield scene.weir({name: postgres.target(name, user="postgres") for name in ("p2", "doomed", "renamed")}, pool_mode="transaction",
                     session_state=request.param, default_pool_size=2)
    for name in ("doomed", "renamed"):
        postgres.execute("DROP DATABASE IF EXISTS %s WITH (FORCE)" % name)


def connect(weir, database):
    connection = psycopg2.connect(host="127.0.0.1", port=weir.port, user="app", dbname=database)
    connection.autocommit = True
    return connection


def value(connection, sql):
    cursor = connection.cursor()
    cursor.execute(sql)
    return cursor.fetchone()[0]


@pytest.mark.parametrize("command", ["ALTER DATABASE p2 SET work_mem = '77MB'", "ALTER ROLE postgres SET work_mem = '77MB'",
                                     "ALTER ROLE postgres IN DATABASE p2 SET work_mem = '77MB'"])
def test_new_defaults_reach_the_next_transaction(weir, postgres, command):
    client = connect(weir, "p2")
    try:
        assert value(client, "SHOW work_mem") == "4MB"
        client.cursor().execute(command)
        assert value(connect(weir, "p2"), "SHOW work_mem") == "77MB"
    finally:
        postgres.execute(command.replace("SET work_mem = '77MB'", "RESET work_mem"))


def test_a_loop_of_changes_opens_a_server_a_second(weir):
    """Each change would replace the servers of the host: they are replaced once, and again with the next second's tick."""
    client = connect(weir, "p2")
    pids = set()
    for n in range(50):
        client.cursor().execute("ALTER ROLE app SET work_mem = '%dMB'" % (n + 1))
        pids.add(value(client, "SELECT pg_backend_pid()"))
    client.cursor().execute("ALTER ROLE app RESET work_mem")
    assert len(pids) < 10


@pytest.mark.parametrize("text", ["DROP DATABASE doomed", "drop database if exists \"doomed\";", " /* now */ DROP DATABASE doomed",
                                  "ALTER DATABASE doomed RENAME TO renamed"])
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_database_with_idle_servers_is_dropped(weir, text, protocol):
    clients = [connect(weir, "doomed") for _ in range(2)]
    for client in clients:
        assert value(client, "SELECT 1") == 1
    other = weir.client(database="p2")
    if protocol == "simple":
        result = other.query(text)
    else:
        other.send(m.run(text) + m.sync())
        result = other.result()
    assert not result.errors
    with pytest.raises(psycopg2.Error):
        value(clients[0], "SELECT 1")
    assert other.query("SELECT 1").value == "1"
