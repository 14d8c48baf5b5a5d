"""Replication through pgweir with the programs of PostgreSQL and its own subscriptions, against a server of wal_level=logical."""
import contextlib
import os
import re
import signal
import subprocess

import psycopg2
import psycopg2.extras
import pytest

from support import messages as m
from support.pooled_postgres import MODES
from support.live import SOON, ask, ended_with, pid_of
from support.ports import free_port
from support.postgres import SECRETS, Postgres, tool
from support.until import DEADLINE, until


@pytest.fixture(scope="module")
def wal(worker_directory):
    """A server that may be replicated, by role app; role rival may not."""
    path = os.path.join(worker_directory, "wal")
    os.mkdir(path)
    server = Postgres(path, wal_level="logical")
    server.execute("ALTER ROLE app REPLICATION")
    server.execute("CREATE TABLE notes (text text)", database="p0")
    server.execute("GRANT ALL ON notes TO app", database="p0")
    yield server
    server.stop()


@pytest.fixture(params=MODES)
def weir(request, scene, wal):      # pylint: disable=redefined-outer-name
    return replicated(scene, wal, pool_mode=request.param)


def replicated(scene, server, **settings):
    """The programs name a database "replication", which the server does not have: "*" serves it."""
    settings.setdefault("auth_type", "scram-sha-256")
    return scene.weir({"*": server}, **settings)


def environment(weir, user="app"):
    return dict(os.environ, PGHOST=weir.host, PGPORT=str(weir.port), PGUSER=user, PGPASSWORD=SECRETS[user])


def run(weir, program, *arguments, **options):
    done = subprocess.run([tool(program), *arguments], env=environment(weir, **options), text=True, capture_output=True,
                          timeout=3 * DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done


class Stream:
    """A program that streams until it is told to end."""

    def __init__(self, weir, program, *arguments):
        self.process = subprocess.Popen([tool(program), *arguments], env=environment(weir), text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, number=signal.SIGINT):
        """Returns the exit status, and the output to stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=DEADLINE)


def streaming(server, name, count=1):
    """Waits until this number of walsenders stream to a program of this name."""
    sql = "SELECT count(*) FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
    until(lambda: server.execute(sql, (name,)) == [(count,)], "%d streams to %s" % (count, name))


def ended(server):
    until(lambda: server.execute("SELECT count(*) FROM pg_stat_replication") == [(0,)], "no walsender is left")


def kinds(weir, what):
    return sorted(row["replication"] for row in weir.show(what) if row["database"] not in ("pgbouncer", "pgweir"))

def count_of_copy(data, directory):
    """Starts the copy as a server of its own: how many notes it has."""
    port = free_port()
    with open(os.path.join(directory, "copy.log"), "wb") as log:
        with subprocess.Popen([tool("postgres"), "-D", data, "-p", str(port), "-k", directory], stdout=log,
                              stderr=log) as server:
            try:
                return until(lambda: count_notes(port), "the copy answers", deadline=3 * DEADLINE)
            finally:
                server.send_signal(signal.SIGQUIT)


def count_notes(port):
    try:
        connection = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="p0")
    except psycopg2.OperationalError:
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM notes")
        (count,) = cursor.fetchone()
    connection.close()
    return count


@pytest.mark.parametrize("mode, method", [("session", "stream"), ("transaction", "fetch"), ("statement", "stream")])
def test_pg_basebackup(scene, wal, mode, method):
    """Trap 40: with the log streamed over a connection of its own, or fetched at the end."""
    weir = replicated(scene, wal, pool_mode=mode)
    wal.execute("TRUNCATE notes; INSERT INTO notes SELECT repeat('x', 1000) FROM generate_series(1, 5000)", database="p0")
    copy = weir.path("copy")
    run(weir, "pg_basebackup", "--pgdata", copy, "--wal-method", method, "--checkpoint", "fast", "--no-sync")
    run(weir, "pg_verifybackup", copy)
    assert count_of_copy(copy, weir.directory) == 5000
    weir.wait_log(r"login attempt: db=replication user=app tls=no replication=yes")


# --- streams

def segments(store):
    return [name for name in os.listdir(store) if re.fullmatch("[0-9A-F]{24}", name)]


def write(wal):
    """A commit, which is over when the receiver with --synchronous has it on disk."""
    wal.execute("INSERT INTO notes VALUES ('written')", database="p0")
    ((there,),) = wal.execute("SELECT pg_current_wal_insert_lsn()")
    until(lambda: wal.execute("SELECT flush_lsn >= %s FROM pg_stat_replication", (there,)) == [(True,)],
          "it is flushed over there")


def test_pg_receivewal(weir, wal):
    store = weir.path("store")
    os.mkdir(store)
    run(weir, "pg_receivewal", "--slot", "receiver", "--create-slot", "--if-not-exists")
    with Stream(weir, "pg_receivewal", "--directory", store, "--slot", "receiver", "--synchronous") as stream:
        streaming(wal, "pg_receivewal")
        assert kinds(weir, "CLIENTS") == kinds(weir, "SERVERS") == ["physical"]
        assert [row["state"] for row in weir.show("SERVERS")] == ["active"]
        for count in range(1, 4):
            write(wal)
            wal.execute("SELECT pg_switch_wal()")
            until(lambda count=count: len(segments(store)) >= count, "segment %d is there" % count)
        assert stream.end()[0] == 0
    ended(wal)
    until(lambda: kinds(weir, "SERVERS") == [], "the server ends with its client")
    weir.wait_log(r"S-0x.* closing because: replication client was closed")
    run(weir, "pg_receivewal", "--slot", "receiver", "--drop-slot")


def test_pg_recvlogical(weir, wal):
    common = ("--dbname", "p0", "--slot", "logical")
    run(weir, "pg_recvlogical", *common, "--create-slot", "--plugin", "test_decoding")
    weir.wait_log(r"login attempt: db=p0 user=app tls=no replication=database")
    with Stream(weir, "pg_recvlogical", *common, "--start", "--file", "-") as stream:
        streaming(wal, "pg_recvlogical")
        assert kinds(weir, "CLIENTS") == kinds(weir, "SERVERS") == ["logical"]
        wal.execute("INSERT INTO notes VALUES ('one'), ('two')", database="p0")
        lines = (line for line in stream.process.stdout if "INSERT" in line)
        assert [next(lines).split("'")[1] for _ in range(2)] == ["one", "two"]
        assert stream.end()[0] == 0
    ended(wal)
    run(weir, "pg_recvlogical", *common, "--drop-slot")


def test_subscription(scene, wal):
    """The subscriber asks for parameters that are not tracked (extra_float_digits), and copies the table first."""
    weir = replicated(scene, wal, pool_mode="transaction")
    wal.execute("TRUNCATE notes; INSERT INTO notes VALUES ('before')", database="p0")
    wal.execute("CREATE PUBLICATION paper FOR TABLE notes", database="p0")
    wal.execute("CREATE TABLE notes (text text)", database="p1")
    wal.execute("SELECT pg_create_logical_replication_slot('reader', 'pgoutput')", database="p0")
    wal.execute("CREATE SUBSCRIPTION reader CONNECTION '%s' PUBLICATION paper WITH (create_slot = false)" % weir.dsn(),
                database="p1")
    try:
        read = "SELECT text FROM notes ORDER BY text"
        until(lambda: wal.execute(read, database="p1") == [("before",)], "the table is copied")
        wal.execute("INSERT INTO notes VALUES ('later')", database="p0")
        until(lambda: wal.execute(read, database="p1") == [("before",), ("later",)], "changes follow")
    finally:
        wal.execute("ALTER SUBSCRIPTION reader DISABLE", database="p1")
        ended(wal)
        wal.execute("ALTER SUBSCRIPTION reader SET (slot_name = NONE)", database="p1")
        wal.execute("DROP SUBSCRIPTION reader", database="p1")
        wal.execute("SELECT pg_drop_replication_slot('reader')")
        wal.execute("DROP PUBLICATION paper", database="p0")
        wal.execute("DROP TABLE notes", database="p1")


def logical(weir, database="p0"):
    """A connection of psycopg2's."""
    return psycopg2.connect(weir.dsn(database=database), connection_factory=psycopg2.extras.LogicalReplicationConnection)


def test_commands_and_sql_on_one_connection(weir):
    """All of them go to the same walsender, whatever pool_mode says, and its session is the client's own."""
    client = weir.client(replication="database")
    assert client.query("IDENTIFY_SYSTEM").tags == ["IDENTIFY_SYSTEM"]
    pid = pid_of(client)
    assert client.query("SET search_path = 'pg_catalog'").tags == ["SET"]
    other = weir.client()
    assert pid_of(other) != pid
    assert client.query("SHOW search_path").value == "pg_catalog"
    assert pid_of(client) == pid
    result = client.query("BEGIN; SELECT 1/0")
    assert result.error == "division by zero" and result.status == "E"
    assert client.query("ROLLBACK").tags == ["ROLLBACK"]
    client.quit()
    until(lambda: kinds(weir, "SERVERS") == ["none"], "its server goes with it, that of the other stays")
    weir.wait_log(r"S-0x.* closing because: replication client was closed")


def test_start_parameters_go_to_its_server(scene, wal):
    weir = replicated(scene, wal, pool_mode="transaction")
    client = weir.client(replication="on", application_name="copier", options="-c extra_float_digits=3 -c work_mem=65MB",
                         enable_seqscan="off", DateStyle="German")
    assert client.parameters["application_name"] == "copier" and client.parameters["DateStyle"] == "German, DMY"
    for name, value in (("extra_float_digits", "3"), ("work_mem", "65MB"), ("enable_seqscan", "off"), ("DateStyle", "German, DMY")):
        assert client.query("SHOW " + name).value == value
    # a parameter for replication is refused for other clients, and no other client gets it
    assert weir.connect().refused(user="app", password=SECRETS["app"], database="p0", log_connections="1")["M"] == (
        "unsupported startup parameter: log_connections")
    assert weir.client().query("SHOW enable_seqscan").value == "on"


def test_a_stream_is_cancelled(scene, wal):
    weir = replicated(scene, wal, pool_mode="statement")
    with contextlib.closing(logical(weir)) as connection, connection.cursor() as cursor:
        cursor.create_replication_slot("cancelled", output_plugin="test_decoding")
        cursor.start_replication("cancelled", decode=True)
        streaming(wal, "")
        connection.cancel()
        with pytest.raises(psycopg2.errors.QueryCanceled):      # pylint: disable=no-member
            cursor.consume_stream(lambda message: None)
    # the server process may still release the slot
    until(lambda: wal.execute("SELECT active FROM pg_replication_slots WHERE slot_name = 'cancelled'") == [(False,)], "the slot is free")
    with contextlib.closing(logical(weir)) as connection, connection.cursor() as cursor:
        cursor.drop_replication_slot("cancelled")


def test_client_ends_its_stream_within_a_transaction(weir, wal):
    """The walsender waits with a large transaction for a client that does not read. It answers
    CopyDone at once, and sends the rest of the transaction after its own CopyDone."""
    client = weir.client(replication="database")
    client.query("CREATE_REPLICATION_SLOT ending LOGICAL test_decoding")
    client.send(m.query("START_REPLICATION SLOT ending LOGICAL 0/0"))
    client.expect("W")
    wal.execute("INSERT INTO notes SELECT repeat('x', 1000) FROM generate_series(1, 50000)",
                database="p0")
    waits = "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'walsender'"
    until(lambda: wal.execute(waits)
          == [("WalSenderWriteData",)], "the walsender waits for its client")
    client.send(m.copy_done())
    types = "".join(got.type for got in client.read_until("Z"))
    before, _, after = types.partition("c")
    assert set(before) == {"d"} and after.lstrip("d") == "CCZ" and len(before + after) >= 50000
    assert len(after) > len("CCZ")
    assert client.query("IDENTIFY_SYSTEM").tags == ["IDENTIFY_SYSTEM"]
    client.query("DROP_REPLICATION_SLOT ending")


# --- permissions and limits

def test_role_without_replication_gets_the_error_of_the_server(scene, wal):
    weir = replicated(scene, wal, pool_mode="transaction")
    for kind in ("database", "true"):
        words = weir.connect().refused(user="rival", password=SECRETS["rival"], database="p0", replication=kind)
        assert words["M"] in ("must be superuser or replication role to start walsender",
                              "permission denied to start WAL sender")
    # nothing is wrong with the server: neither this user nor others hear of it
    assert weir.client(user="rival").query("SELECT 1").value == "1"
    assert weir.client().query("SELECT 1").value == "1"


def test_invalid_value(scene, wal):
    weir = replicated(scene, wal)
    refused = weir.connect().refused(user="app", database="p0", replication="perhaps")
    assert (refused["M"], refused["C"]) == ("invalid value for startup parameter: replication", "22023")
    for no in ("false", "off", "0", "n"):
        client = weir.client(replication=no)
        assert client.query("SELECT 1").value == "1"
    assert set(kinds(weir, "CLIENTS")) == {"none"}


def test_replication_counts_in_pool_size(scene, wal):
    weir = replicated(scene, wal, pool_mode="transaction", default_pool_size=2, auth_type="trust")
    others = [weir.client() for _ in range(2)]
    for other in others:
        other.send(m.query("BEGIN"))
        other.result()
    stream = weir.connect()
    stream.send(m.startup(user="app", database="p0", replication="database"))
    weir.wait_pool("p0", cl_waiting=1, sv_active=2)
    others[0].query("COMMIT")
    stream.finish_login("app")
    assert kinds(weir, "SERVERS") == ["logical", "none"]
    weir.wait_pool("p0", cl_waiting=0, sv_active=2)
    ask(others[0])
    weir.wait_pool("p0", cl_waiting=1)
    stream.quit()
    assert others[0].result().rows
    others[1].query("COMMIT")


def test_trap_53_a_replication_login_evicts_one(scene, wal):
    """In a full pool of idle servers, the first was closed, then the next, ..."""
    weir = replicated(scene, wal, pool_mode="transaction", default_pool_size=4)
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        client.query("BEGIN")
    for client in clients:
        client.query("COMMIT")
    before = set(wal.backends("p0"))
    client = weir.client(replication="database")
    assert client.query("IDENTIFY_SYSTEM").tags == ["IDENTIFY_SYSTEM"]
    weir.wait_pool("p0", sv_idle=3, sv_active=1)
    until(lambda: len(before - set(wal.backends("p0"))) == 1, "one of them has ended")


@pytest.mark.parametrize("kind", ["true", "database"])
def test_trap_40_auth_query(scene, wal, kind):
    """The look-up of the user went to the server as a replication command, because it was made in the client's name."""
    wal.execute("CREATE ROLE copier LOGIN REPLICATION PASSWORD 'copier-secret'")
    try:
        weir = replicated(scene, wal, pool_mode="transaction", auth_user="postgres", auth_dbname="p1")
        client = weir.connect()
        client.login(user="copier", password="copier-secret", database="p0", replication=kind)
        assert client.query("IDENTIFY_SYSTEM").rows
        shown = {(row["user"], row["database"]): row["replication"] for row in weir.show("SERVERS")}
        assert shown == {("postgres", "p1"): "none", ("copier", "p0"): "physical" if kind == "true" else "logical"}
        if kind == "true":
            done = subprocess.run([tool("pg_basebackup"), "--pgdata", weir.path("copy"), "--checkpoint", "fast", "--no-sync"],
                                  env=dict(environment(weir), PGUSER="copier", PGPASSWORD="copier-secret"), text=True,
                                  capture_output=True, timeout=3 * DEADLINE, check=False)
            assert done.returncode == 0, done.stderr
        client.quit()
        until(lambda: kinds(weir, "SERVERS") == ["none"], "the copier's servers are gone")
    finally:
        wal.execute("DROP ROLE copier")


# --- ends

def test_client_disconnects_in_its_stream(weir, wal):
    for number in range(3):
        store = weir.path("store%d" % number)
        os.mkdir(store)
        with Stream(weir, "pg_receivewal", "--directory", store, "--no-sync") as stream:
            streaming(wal, "pg_receivewal")
            stream.end(signal.SIGKILL)
        ended(wal)
    until(lambda: kinds(weir, "SERVERS") == kinds(weir, "CLIENTS") == [], "nothing is left of it")


def test_server_disconnects_in_the_stream(weir, wal):
    store = weir.path("store")
    os.mkdir(store)
    with Stream(weir, "pg_receivewal", "--directory", store, "--no-loop", "--no-sync") as stream:
        streaming(wal, "pg_receivewal")
        wal.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        status, said = stream.process.wait(DEADLINE), stream.end()[1]
    assert status == 1 and "terminating connection due to administrator command" in said
    until(lambda: kinds(weir, "SERVERS") == kinds(weir, "CLIENTS") == [], "nothing is left of it")


def test_timeouts_do_not_end_a_stream(scene, wal):
    weir = replicated(scene, wal, pool_mode="session")
    store = weir.path("store")
    os.mkdir(store)
    with Stream(weir, "pg_receivewal", "--directory", store, "--no-loop", "--no-sync") as stream:
        streaming(wal, "pg_receivewal")
        # only now: on a busy machine the program pauses for longer between its first commands
        for limit in ("query_timeout", "server_lifetime", "server_idle_timeout", "idle_transaction_timeout", "transaction_timeout",
                      "client_idle_timeout"):
            weir.admin("SET %s = '%s'" % (limit, SOON))
        for _ in range(2):
            # a client that began later is ended
            client = weir.client()
            ask(client, "SELECT pg_sleep(3600)")
            ended_with(client, "query timeout")
        assert kinds(weir, "CLIENTS") == ["physical"]
        assert stream.end()[0] == 0
    ended(wal)


def test_pause_waits_for_a_stream_and_kill_ends_it(scene, wal):
    weir = replicated(scene, wal, pool_mode="transaction")
    store = weir.path("store")
    os.mkdir(store)
    with Stream(weir, "pg_receivewal", "--directory", store, "--no-loop", "--no-sync") as stream:
        streaming(wal, "pg_receivewal")
        console = weir.connect()
        console.login(user="admin", password=weir.users["admin"], database="pgbouncer")
        console.send(m.query("PAUSE"))
        weir.wait_log("PAUSE command issued")
        weir.barrier()
        assert not console.has_input() and kinds(weir, "CLIENTS") == ["physical"]
        weir.admin("KILL")
        assert "admin forced disconnect" in stream.process.communicate(timeout=DEADLINE)[1]
        assert console.result().tags == ["PAUSE"]
    ended(wal)


def test_shutdown_waits_for_a_stream(weir, wal):
    store = weir.path("store")
    os.mkdir(store)
    with Stream(weir, "pg_receivewal", "--directory", store, "--synchronous") as stream:
        streaming(wal, "pg_receivewal")
        weir.signal(signal.SIGTERM)
        weir.wait_log("got SIGTERM")
        write(wal)
        assert stream.end()[0] == 0
    assert weir.wait_exit() == 0
