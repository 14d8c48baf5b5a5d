"""
Online restart: a new process replaces the running one, and neither clients nor servers notice.

Each scene brings a connection into some state, has pgweir replaced, and continues. weir.replace() waits until both processes have reported the
handover.
"""
import os
import re
import signal
import socket
import ssl
import subprocess

import pytest

from support import messages as m
from support.crowd import Crowd
from support.live import last_words
from support.nameserver import write_resolv_conf
from support.pgweir import binary
from support.prepared import HEAD, SHARED
from support.rounds import rounds
from support.takeover import Replaced
from support.threads import run_in_threads
from support.until import DEADLINE, until
from support.wire import LoginRefused

CANCELLED = "canceling statement due to user request"


def replaced(scene, target, **settings):
    return scene.weir(target, kind=Replaced, **{"pool_mode": "transaction", "default_pool_size": 1, **settings})


@pytest.fixture
def fake(scene):
    """A server that the scene plays."""
    return scene.fake()


@pytest.fixture
def weir(scene, fake):
    return replaced(scene, fake)


def gone(process):
    assert process.wait(DEADLINE) == 0


def linked(weir, fake, sql="begin"):
    """A client in a transaction, and its server."""
    client = weir.client()
    client.send(m.query(sql))
    server = fake.accept()
    server.expect_query(sql)
    server.complete("BEGIN", "T")
    assert client.result().status == "T"
    return client, server


# --- clients and servers


def test_idle_clients_continue(scene):
    mini = scene.mini()
    weir = replaced(scene, mini)
    client = weir.client(application_name="worker")
    assert client.query("before").value == "before"
    rows = weir.show("CLIENTS")
    gone(weir.replace())
    # the console's connection went along, too
    assert weir.counts() == (2, 1, 2, 0)
    after = weir.show("CLIENTS")
    kept = ("id", "ptr", "addr", "port", "connect_time", "application_name", "database", "user", "state")
    assert [[row[name] for name in kept] for row in after if row["application_name"] == "worker"] == \
        [[row[name] for name in kept] for row in rows if row["application_name"] == "worker"]
    assert client.query("after").value == "after"
    assert len(mini.started) == 1
    with weir.client() as newcomer:
        assert newcomer.query("new").value == "new"


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_transaction_keeps_its_server(scene, fake, mode):
    weir = replaced(scene, fake, pool_mode=mode)
    client, server = linked(weir, fake)
    weir.replace()
    client.send(m.query("insert"))
    server.expect_query("insert")
    server.complete("INSERT 0 1", "T")
    assert client.result().tags == ["INSERT 0 1"]
    client.send(m.query("commit"))
    server.expect_query("commit")
    server.complete("COMMIT")
    assert client.result().status == "I"
    assert weir.pool("p0")["sv_active"] == (1 if mode == "session" else 0)


def test_query_in_progress_is_answered(weir, fake):
    client = weir.client()
    client.send(m.query("long"))
    server = fake.accept()
    server.expect_query("long")
    gone(weir.replace())
    server.answer("done")
    assert client.result().value == "done"


def test_pipelines_and_copies_in_progress(weir, fake):
    """The ledger of pending answers is handed over."""
    client = weir.client()
    client.send(*(m.run("q%d" % n) + m.sync() for n in range(20)))
    server = fake.accept()
    for n in range(20):
        server.read_until("S")
        if n == 7:
            weir.replace()
        server.send(m.parse_complete(), m.bind_complete(), m.rows("a%d" % n), m.ready())
    for n in range(20):
        assert client.result().value == "a%d" % n
    client.send(m.query("copy"))
    server.expect_query("copy")
    server.send(m.copy_in_response())
    client.expect("G")
    weir.replace()
    client.send(m.copy_data(b"x\n"), m.copy_done())
    server.read_until("c")
    server.complete("COPY 1")
    assert client.result().tags == ["COPY 1"]
    with weir.client() as other:
        other.send(m.query("mine"))
        server.expect_query("mine")
        server.answer("yours")
        assert other.result().value == "yours"


def test_partial_messages(weir, fake):
    """Trap 83: cut in the header and in the body, on both sides."""
    client, server = linked(weir, fake)
    for cut in (1, 4, 7, 9):
        question, answer = m.query("question %d" % cut), m.data_row(b"answer %d" % cut)
        client.send(question[:cut])
        weir.barrier()
        weir.replace()
        client.send(question[cut:])
        server.expect_query("question %d" % cut)
        server.send(m.row_description("c"), answer[:cut])
        client.expect("T")
        weir.barrier()
        weir.replace()
        server.send(answer[cut:], m.command_complete("SELECT 1"), m.ready("T"))
        assert client.result().rows == [[b"answer %d" % cut]]


def test_unsent_bytes_are_handed_over(scene):
    """Trap 83: clients that do not read: output that pgweir holds for them is handed over, and nothing is lost or duplicated."""
    weir = replaced(scene, scene.mini(), default_pool_size=3)
    clients = [weir.client(receive_buffer=4096) for _ in range(3)]
    for client in clients:
        client.send(m.query("rows 60 200000"))
    until(lambda: all(row["send_remain"] > 0 or row["state"] == "active" for row in weir.show("SOCKETS")
                      if row["database"] == "p0" and row["type"] == "C"), "they are stuck")
    for _ in range(3):
        weir.replace()
        for client in clients:
            client.expect("T" if client.buffer == b"" and not hasattr(client, "begun") else "D")
            client.begun = True
    for client in clients:
        rows = [message for message in client.read_until("Z") if message.type == "D"]
        assert len(rows) == 58
        assert client.query("after").value == "after"


def test_waiting_clients_keep_their_place_in_the_queue(weir, fake):
    client, server = linked(weir, fake)
    waiting = []
    for n in range(3):
        waiting.append(weir.client())
        waiting[-1].send(m.query("w%d" % n))
        weir.wait_pool("p0", cl_waiting=n + 1)
    weir.replace()
    assert weir.pool("p0")["cl_waiting"] == 3
    client.send(m.query("commit"))
    server.expect_query("commit")
    server.complete("COMMIT")
    assert client.result().status == "I"
    for n, one in enumerate(waiting):
        server.expect_query("w%d" % n)
        server.answer(str(n))
        assert one.result().value == str(n)


def test_parameters_are_handed_over(scene):
    """Trap 83: each client keeps its values on any server, and no server gets a value that it already has."""
    mini = scene.mini()
    weir = replaced(scene, mini)
    one, two = weir.client(DateStyle="German"), weir.client(application_name="second")
    assert one.query("SET TimeZone = 'Asia/Tokyo'").tags == ["SET"]
    assert two.query("hello").value == "hello"
    weir.replace()
    for _ in range(3):
        assert one.query("one").value == "one"
        assert mini.started[0].parameters["TimeZone"] == "Asia/Tokyo"
        assert mini.started[0].parameters["DateStyle"].startswith("German")
        assert two.query("two").value == "two"
        assert mini.started[0].parameters["TimeZone"] == "UTC"
        assert mini.started[0].parameters["application_name"] == "second"
    before = len(mini.queries)
    assert two.query("again").value == "again"
    assert len(mini.queries) == before + 1


def test_during_every_query_of_the_pooler(scene, fake):
    """The queries to a new server, and those for a client with values that need its encoding."""
    weir = replaced(scene, "host=127.0.0.1 port=%d connect_query='SET search_path TO shop'" % fake.port, server_reset_query="RESET IT",
                    server_reset_query_always=1)
    latin = weir.client(client_encoding="LATIN1", application_name="caf\xe9")
    latin.send(m.query("first"))
    server = fake.accept()
    asked = []

    def next_question():
        """Returns the next query; pgweir is replaced before the answer."""
        text = server.expect("Q").body[:-1].decode("latin-1")
        asked.append(text)
        weir.replace()
        return text

    def grants(*names):
        """Whether these, and no others, are set; that is done, and reported."""
        text = next_question()
        assert [name for name in ("client_encoding", "application_name") if name in text] == list(names), text
        values = {"client_encoding": "LATIN1", "application_name": "caf\xe9".encode("utf-8").decode("latin-1")}
        server.send(m.rows("set"), *[m.parameter_status(name, values[name]) for name in names], m.ready())

    assert next_question() == "SET search_path TO shop"
    server.complete("SET")
    assert "current_setting('search_path')" in next_question()
    server.send(m.row_description("role", "path") + m.data_row("61:6e6f6e65", b"shop".hex()) + m.command_complete("SELECT 1"), m.ready())
    grants("client_encoding")
    grants("application_name")
    assert next_question() == "first"
    server.answer("1st")
    assert latin.result().value == "1st"
    assert next_question() == "RESET IT"
    server.complete("RESET")
    latin.send(m.query("second"))
    assert b"shop".hex() in next_question()
    server.answer("shop")
    assert next_question() == "second"
    server.answer("2nd")
    assert latin.result().value == "2nd"
    assert len(asked) == 8


def test_replication_connections_are_handed_over(weir, fake):
    """One of them is linked to a server of its own, in COPY both ways."""
    client = weir.connect()
    client.send(m.startup(user="app", database="p0", replication="database"))
    try:
        client.finish_login("app")
    except LoginRefused as refusal:
        pytest.skip("replication connections are not there yet: %s" % refusal)
    client.send(m.query("START_REPLICATION"))
    server = fake.accept()
    server.expect_query("START_REPLICATION")
    server.send(m.message("W", b"\0\0\0"))
    client.expect("W")
    weir.replace()
    server.send(m.message("d", b"from the server"))
    assert client.expect("d").body == b"from the server"
    client.send(m.copy_data(b"from the client"))
    assert server.expect("d").body == b"from the client"


# --- prepared statements


def prepare(client, name, sql):
    client.send(m.parse(sql, name), m.sync())
    client.expect("1")
    client.expect("Z")


def use(client, name):
    client.send(m.bind(name), m.execute(), m.sync())
    return client.result().value


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_prepared_statements_are_handed_over(scene, mode):
    mini = scene.mini()
    weir = replaced(scene, mini, pool_mode=mode, default_pool_size=3)
    clients = [weir.client() for _ in range(3)]
    for n, client in enumerate(clients):
        prepare(client, "mine", "own %d" % n)
        prepare(client, "shared", "common")
        prepare(client, "", "unnamed %d" % n)
    for _ in range(3):
        weir.replace()
        for n, client in enumerate(clients):
            assert use(client, "mine") == "own %d" % n
            assert use(client, "shared") == "common"
            assert use(client, "") == "unnamed %d" % n
    if mode == "transaction":
        assert sum(row["prepared_statements"] for row in weir.show("CLIENTS") if row["database"] == "p0") == 6
        clients[0].send(m.close("S", "mine"), m.sync())
        clients[0].expect_all("3Z")
        weir.replace()
        clients[0].send(m.bind("mine"), m.execute(), m.sync())
        assert "mine" in clients[0].result().error
        # a new text gets a name that no server has seen
        prepare(clients[0], "mine", "another text")
        assert use(clients[0], "mine") == "another text"


def answered(batch):
    """A server's answers to the messages of a batch: an Execute returns the statement's text."""
    texts, bound = {}, None
    for got in batch:
        if got.type == "P":
            name, text = m.read_cstrings(got.body)[:2]
            texts[name] = text
            yield m.parse_complete()
        elif got.type == "D":
            yield m.parameter_description() + m.no_data()
        elif got.type == "B":
            bound = texts[m.read_cstrings(got.body)[1]]
            yield m.bind_complete()
        elif got.type == "E":
            yield m.data_row(bound.encode()) + m.command_complete("SELECT 1")
        elif got.type == "C":
            yield m.close_complete()


def test_prepared_statements_in_flight(weir, fake):
    """Nothing of the batch has been answered: names in doubt, promises and all."""
    client, server = linked(weir, fake)
    client.send(m.parse("one", "a"), m.bind("a"), m.execute(), m.close("S", "a"), m.parse("two", "a"), m.parse("one", "b"),
                m.bind("a"), m.execute(), m.bind("b"), m.execute(), m.sync())
    answers = list(answered(server.read_until("S")))
    weir.replace()
    server.send(*answers[:5])
    weir.barrier()
    weir.replace()
    server.send(*answers[5:], m.ready("T"))
    got = client.result()
    assert [row for (row,) in got.rows] == [b"one", b"two", b"one"]
    assert got.types == "12DC" + "3" + "1" + "1" + "2DC" + "2DC" + "Z"
    client.send(m.bind("b"), m.execute(), m.sync())
    assert SHARED.fullmatch(m.read_cstrings(server.expect("B").body)[1])


def test_doubtful_statements_that_fail(weir, fake):
    client, server = linked(weir, fake)
    client.send(m.parse("wrong", "a"), m.parse("right", "b"), m.sync())
    server.read_until("S")
    weir.replace()
    server.send(m.error("no such thing"), m.ready("E"))
    assert client.result().error == "no such thing"
    client.send(m.query("rollback"))
    server.expect_query("rollback")
    server.complete("ROLLBACK")
    client.result()
    # neither name is known: the server itself must report the error
    client.send(m.bind("b"), m.execute(), m.sync())
    assert re.fullmatch(HEAD + "0", m.read_cstrings(server.expect("B").body)[1])


def test_unnamed_statement_that_a_copy_may_have_ignored(weir, fake):
    """Messages after its Parse in the batch refer to it, not to a statement of another client: or the server skips both."""
    client, server = linked(weir, fake)
    client.send(m.query("copy t from stdin"))
    server.expect_query("copy t from stdin")
    server.send(m.copy_in_response())
    client.expect("G")
    client.send(m.parse("own"))
    server.expect("P")
    weir.barrier()
    weir.replace()
    client.send(m.bind(), m.execute(), m.sync())
    assert m.read_cstrings(server.expect("B").body)[1] == ""
    # in a batch without the Parse, the unnamed statement might belong to another client
    client.send(m.bind(), m.execute(), m.sync())
    server.read_until("S")
    assert m.read_cstrings(server.expect("B").body)[1] != ""


# --- cancel requests


def wait_on(mini, client):
    """The client's query runs until it is cancelled."""
    before = len(mini.queries)
    client.send(m.query("wait"))
    mini.until(lambda: len(mini.queries) > before, "the query runs")


def test_old_keys_cancel(scene):
    mini = scene.mini()
    weir = replaced(scene, mini)
    client = weir.client()
    wait_on(mini, client)
    gone(weir.replace())
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED
    weir.replace()
    wait_on(mini, client)
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED


def test_cancel_request_in_progress_comes_first(weir, fake):
    """The server that it aims at is handed over once the request has arrived."""
    held = []
    fake.on_cancel = lambda pid, key, connection: held.append((pid, key, connection))
    client = weir.client()
    client.send(m.query("long"))
    server = fake.accept()
    server.expect_query("long")
    request = weir.cancel(client)
    fake.until(lambda: held, "the request is at the server")
    new = weir.launch()
    weir.wait_log("process %d is about to take over" % new.pid)
    held[0][2].close()
    request.expect_closed()
    weir.wait_log("took over from process %d" % weir.pid)
    weir.predecessors.append(weir.process)
    weir.process = new
    server.send(m.error(CANCELLED, "57014"), m.ready())
    assert client.result().error == CANCELLED


# --- connections that cannot be transferred


@pytest.fixture
def tls_weir(scene, authority):
    mini = scene.mini()
    weir = replaced(scene, mini, client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                    client_tls_key_file=authority.key("server"), default_pool_size=4)
    weir.mini = mini
    return weir


def tls_client(weir, authority):
    client = weir.connect()
    client.start_tls(ssl.create_default_context(cafile=authority.cert("ca")))
    client.login(user="app", database="p0")
    return client


def test_tls_clients_remain_in_the_old_process(tls_weir, authority):
    """Two generations of them, each in its own process; cancel requests find both."""
    weir = tls_weir
    clients = []
    for _ in range(2):
        clients.append(tls_client(weir, authority))
        assert clients[-1].query("BEGIN").status == "T"
        weir.replace()
        assert weir.counts()[3] == 1
    for turn in range(2):
        for client in clients:
            assert client.query("turn %d" % turn).value == "turn %d" % turn
    clear = weir.client()
    assert clear.query("clear").value == "clear"
    for client in clients:
        wait_on(weir.mini, client)
    for client in clients:
        weir.cancel(client).expect_closed()
        assert client.result().error == CANCELLED
    for client, predecessor in zip(clients, weir.predecessors):
        assert predecessor.poll() is None
        client.query("ROLLBACK")
        client.quit()
        gone(predecessor)
    weir.wait_log("a process that was replaced has ended", times=2)
    assert clear.query("still").value == "still"


def test_cancel_request_over_tls_reaches_a_predecessor(tls_weir, authority):
    weir = tls_weir
    client = tls_client(weir, authority)
    weir.replace()
    wait_on(weir.mini, client)
    request = weir.connect()
    request.start_tls(ssl.create_default_context(cafile=authority.cert("ca")))
    request.send(m.cancel_request(client.pid, client.key))
    assert client.result().error == CANCELLED


def test_stopped_predecessor_loses_requests_but_not_its_channel(tls_weir, authority):
    """A client that fills the channel, even before login, does not prevent later cancel requests."""
    weir = tls_weir
    client = tls_client(weir, authority)
    predecessor = weir.replace()
    wait_on(weir.mini, client)
    requests = []
    predecessor.send_signal(signal.SIGSTOP)
    try:
        while "a cancel request does not reach a process that was replaced: the other process does not read" not in weir.log():
            requests.append(weir.connect())
            requests[-1].send(m.cancel_request(client.pid, b"\0\0\0\0"))
            weir.barrier()
        # a lost request is closed
        requests[-1].expect_closed()
        assert not any(request.has_input() for request in requests[:-1])
        (lost,) = [row for row in weir.show("REASONS") if "cancel request that a replaced process did not take" in row.values()]
        assert 1 in lost.values()
    finally:
        predecessor.send_signal(signal.SIGCONT)
    # there is room again
    requests[0].expect_closed()
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED
    for request in requests[1:-1]:
        request.expect_closed()
    client.query("ROLLBACK")
    client.quit()
    gone(predecessor)
    weir.wait_log("a process that was replaced has ended")


def test_wrong_key_is_refused_by_all_processes(tls_weir, authority):
    weir = tls_weir
    client = tls_client(weir, authority)
    weir.replace()
    request = weir.connect()
    request.send(m.cancel_request(client.pid, b"\0\0\0\0"))
    request.expect_closed()
    assert client.query("well").value == "well"


def test_silent_connections_move_and_logins_end_in_the_old_process(scene):
    """Silent, half a start-up packet, an SSLRequest answered; and a client with a pending authentication request."""
    weir = replaced(scene, scene.mini(), auth_type="scram-sha-256")
    silent, half, denied, asked = (weir.connect() for _ in range(4))
    packet = m.startup(user="app", database="p0")
    half.send(packet[:11])
    denied.send(m.SSL_REQUEST)
    assert denied.read_bytes(1) == b"N"
    asked.send(packet)
    question = asked.expect("R")
    # to be read again in finish_login
    asked.buffer[:0] = m.message("R", question.body)
    weir.barrier()
    old = weir.replace()
    for client in (silent, denied):
        client.send(packet)
    half.send(packet[11:])
    for client in (silent, half, denied, asked):
        client.finish_login("app", "app-secret")
        assert client.query("in").value == "in"
    assert weir.counts()[3] == 1 and old.poll() is None
    asked.quit()
    gone(old)


def test_idle_console_is_handed_over(scene):
    weir = replaced(scene, scene.mini())
    resting, preparing = weir.client("admin", "pgbouncer"), weir.client("admin", "pgbouncer")
    preparing.send(m.parse("SHOW VERSION", "v"), m.sync())
    preparing.expect_all("1Z")
    old = weir.replace()
    assert resting.query("SHOW VERSION").tags == ["SHOW"]
    # statements prepared in a console session remain there; and the session does not delay the handover
    gone(old)
    preparing.drain()


def test_client_limits_include_a_handed_over_console(scene):
    weir = replaced(scene, scene.mini(), max_user_client_connections=1)
    console = weir.client("stats", "pgbouncer")
    weir.replace()
    assert console.query("SHOW VERSION").tags == ["SHOW"]
    assert weir.connect().refused(user="stats", database="pgbouncer")["M"] == \
        "client connections exceeded (max_user_client_connections)"
    console.quit()
    until(lambda: len([row for row in weir.show("CLIENTS") if row["user"] == "stats"]) == 0, "the first has left")
    assert weir.client("stats", "pgbouncer").query("SHOW VERSION").tags == ["SHOW"]


def test_inconsistent_tls_files_are_not_taken_over(scene, authority):
    """The new process reads the file, and the pair that it names."""
    weir = replaced(scene, scene.mini(), client_tls_sslmode="allow", client_tls_key_file=authority.key("server"),
                    client_tls_cert_file=authority.cert("server"))
    weir.admin("SET client_tls_key_file = '%s'" % authority.key("client"))
    weir.replace()
    client = weir.connect()
    client.start_tls(authority.client_context())
    client.login(user="app", database="p0")
    assert client.query("x").value == "x"


# --- sockets and files


def test_sockets_and_files(scene):
    weir = replaced(scene, scene.mini())
    path = weir.path(".s.PGSQL.%d" % weir.port)
    inode = os.stat(path).st_ino
    with weir.client(unix=True) as client:
        for _ in range(3):
            gone(weir.replace())
            with open(weir.settings["pidfile"], encoding="ascii") as pidfile:
                assert int(pidfile.read()) == weir.pid
            assert client.query("unix").value == "unix"
            assert os.stat(path).st_ino == inode
    weir.stop()
    assert not os.path.exists(path) and not os.path.exists(weir.settings["pidfile"])


def test_without_a_pidfile(scene):
    """Then the Unix socket leads to the running process."""
    weir = replaced(scene, scene.mini(), pidfile="")
    client = weir.client()
    gone(weir.replace())
    gone(weir.replace())
    assert client.query("there").value == "there"


def test_listening_sockets_of_host_names(scene, fake):
    """The sockets are the same, whatever their names."""
    weir = replaced(scene, fake, listen_addr="127.1, 127.2")
    assert weir.log().count(" listening on 127.0.0.") == 2
    weir.settings["listen_addr"] = "127.0.0.1, 127.2"
    weir.write_ini()
    gone(weir.replace())
    assert "not listening on" not in weir.log()
    client = weir.client()
    client.send(m.query("hello"))
    server = fake.accept()
    server.expect_query("hello")
    server.answer("hello")
    assert client.result().value == "hello"


def test_sockets_of_another_configuration(scene):
    """Configured sockets are taken over or created, the others closed."""
    mini = scene.mini()
    weir = replaced(scene, mini)
    client = weir.client()
    weir.settings["unix_socket_dir"] = ""
    weir.settings["listen_addr"] = "127.0.0.1,::1"
    weir.write_ini()
    weir.replace()
    assert client.query("there").value == "there"
    assert not os.path.exists(weir.path(".s.PGSQL.%d" % weir.port))
    weir.settings["unix_socket_dir"] = weir.directory
    weir.settings["unix_socket_mode"] = "0700"
    weir.write_ini()
    weir.replace()
    assert os.stat(weir.path(".s.PGSQL.%d" % weir.port)).st_mode & 0o777 == 0o700
    assert client.query("there").value == "there"


def test_new_connections_wait_in_the_kernel(scene):
    """The new process accepts the connections that are not accepted yet."""
    weir = replaced(scene, scene.mini(), tcp_defer_accept=0)
    holder = weir.client()
    with weir.one_turn():
        new = weir.launch()
        until(lambda: weir.is_alive(), "")
        knocking = [weir.connect() for _ in range(20)]
        for client in knocking:
            client.send(m.startup(user="app", database="p0"))
    weir.wait_log("process %d has taken over" % new.pid)
    weir.predecessors.append(weir.process)
    weir.process = new
    for client in knocking:
        client.finish_login("app")
        assert client.query("in").value == "in"
    assert holder.query("well").value == "well"


def test_in_the_background(scene):
    """-R -d: the command returns when the new process serves."""
    weir = replaced(scene, scene.mini())
    client = weir.client()
    old = weir.process
    subprocess.run([binary(), "-R", "-d", weir.ini_path], check=True, timeout=DEADLINE, cwd=weir.directory, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, ASAN_OPTIONS="log_path=" + weir.path("sanitizer")))
    with open(weir.settings["pidfile"], encoding="ascii") as pidfile:
        pid = int(pidfile.read())
    try:
        gone(old)
        assert pid != old.pid
        assert client.query("there").value == "there"
    finally:
        os.kill(pid, signal.SIGQUIT)
    client.drain()
    until(lambda: not os.path.exists(weir.settings["pidfile"]), "it ends")


def test_systemd_is_told_the_main_process(scene, directory, monkeypatch):
    """The new process was not started by systemd, and still tells it what happens."""
    if "systemd: yes" not in subprocess.run([binary(), "-V"], check=True, capture_output=True, text=True).stdout:
        pytest.skip("built without libsystemd")
    path = os.path.join(directory, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(DEADLINE)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        weir = replaced(scene, scene.mini())
        assert systemd.recv(1000) == b"READY=1"
        monkeypatch.delenv("NOTIFY_SOCKET")
        gone(weir.replace())
        assert {systemd.recv(1000) for _ in range(2)} == {b"MAINPID=%d" % weir.pid, b"READY=1"}
        weir.admin("RELOAD")
        assert systemd.recv(1000).startswith(b"RELOADING=1")


# --- statistics, limits, ages


def test_figures_and_ages_continue(scene):
    mini = scene.mini()
    weir = replaced(scene, mini)
    client = weir.client()
    for n in range(5):
        client.query("q%d" % n)
    before = weir.show("STATS_TOTALS")
    (server,) = weir.show("SERVERS")
    weir.replace()
    client.query("one more")
    rows = {row["database"]: row for row in weir.show("STATS_TOTALS")}
    for row in before:
        if row["database"] == "p0":
            assert rows["p0"]["query_count"] == row["query_count"] + 1
            assert rows["p0"]["client_login_count"] == row["client_login_count"]
            assert rows["p0"]["server_assignment_count"] == row["server_assignment_count"] + 1
    (after,) = weir.show("SERVERS")
    for name in ("id", "connect_time", "remote_pid", "addr", "port", "local_port"):
        assert after[name] == server[name]


def test_disabled_database_remains_disabled(scene):
    weir = replaced(scene, scene.mini())
    weir.admin("DISABLE p0")
    weir.replace()
    assert 'is disabled' in weir.connect().refused(user="app", database="p0")["M"]
    weir.admin("ENABLE p0")
    weir.client().quit()


def test_invented_database_is_not_registered(scene):
    """The client has proven nothing, and waits for the answer to its look-up."""
    fake = scene.fake(serve=lambda session: session.drain())
    weir = replaced(scene, {"*": fake}, auth_type="md5", auth_user="asker", auth_query="SELECT 1", users={"asker": "secret"})
    client = weir.connect()
    client.send(m.startup(user="anybody", database="invented"))
    fake.accept()
    weir.replace()
    weir.barrier()
    assert "registered new auto-database" not in weir.log()


# --- another configuration


def test_removed_database(scene):
    """As in a RELOAD: its clients are told, and its servers closed."""
    mini = scene.mini()
    weir = scene.weir({"p0": mini, "p1": mini}, kind=Replaced, pool_mode="transaction", allow="no place")
    stays, goes, works = weir.client(), weir.client(database="p1"), weir.client(database="p1")
    for client in (stays, goes, works):
        assert client.query("hello").value == "hello"
    works.query("BEGIN")
    del weir.databases["p1"]
    weir.write_ini()
    gone(weir.replace())
    for client in (goes, works):
        (words,) = [m.read_error(message.body) for message in client.drain() if message.type == "E"]
        assert words["M"] == "database removed"
    assert stays.query("still").value == "still"
    weir.wait_log("this configuration has no place for them")


def test_database_with_another_address(scene):
    """Its servers are retired: idle ones at once, others when they are released."""
    mini, other = scene.mini(), scene.mini()
    weir = replaced(scene, mini, default_pool_size=2)
    idle, works = weir.client(), weir.client()
    works.query("BEGIN")
    assert idle.query("old").value == "old"
    weir.databases["p0"] = other
    weir.write_ini()
    weir.replace()
    assert works.query("in it").value == "in it"
    assert works.query("COMMIT").status == "I"
    assert idle.query("new").value == "new"
    assert works.query("new").value == "new"
    assert [text for _, text in other.queries].count("new") == 2
    weir.wait_log("database configuration changed|connect string changed")


@pytest.mark.parametrize("before, after", [("boss", None), (None, "boss"), ("boss", "chief")])
def test_a_database_that_forces_another_user(scene, before, after):
    """As in a RELOAD: clients that now belong to another pool get an error. No client continues as a user that is no longer forced."""
    mini = scene.mini()
    forced = {user: "host=127.0.0.1 port=%d dbname=p0%s" % (mini.port, " user=" + user if user else "") for user in (before, after)}
    weir = replaced(scene, {"p0": forced[before], "p1": mini}, users={"boss": "boss-secret", "chief": "chief-secret"}, allow="no place")
    works, waits, idle, boss, other = (weir.client(user) for user in ("app", "app", "app", "boss", "rival"))
    for client in (idle, boss):
        assert client.query("hello").value == "hello"
    works.query("BEGIN")
    waits.send(m.query("never"))
    weir.wait_pool("p0", before or "app", cl_waiting=1)
    stays = weir.client(database="p1")
    weir.databases["p0"] = forced[after]
    weir.write_ini()
    weir.replace()
    for client in (works, waits, idle, other):
        assert last_words(client)["M"] == "database configuration changed"
    # the client that had this pool and still has it
    if "chief" != after:
        assert boss.query("as before").value == "as before"
    assert stays.query("still").value == "still"
    assert weir.client().query("new").value == "new"
    assert mini.started[-1].startup["user"] == (after or "app")


def test_name_changes_address_afterwards(scene):
    """The new process has never looked the name up, and knows all the same that its connections lead where it does not any more."""
    old, new = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set("db.example.test", a=["127.0.0.2"], ttl=3600)
    weir = replaced(scene, {"p0": "host=db.example.test port=%d" % old.port}, dns_max_ttl=3600,
                    resolv_conf=write_resolv_conf(scene.directory, names))
    client = weir.client()
    assert client.query("there").value == "there" and old.queries
    names.set("db.example.test", a=["127.0.0.3"], ttl=3600)
    weir.replace()
    weir.wait_log('addresses of "db.example.test" have changed, 1 server connections are obsolete')
    assert client.query("moved").value == "moved"
    assert [text for _, text in new.queries] == ["moved"]


def test_lower_limits(scene):
    """Connected clients stay; the pool shrinks as servers come back."""
    mini = scene.mini()
    weir = replaced(scene, mini, default_pool_size=4)
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        client.query("BEGIN")
    weir.settings["default_pool_size"] = 1
    weir.settings["max_client_conn"] = 2
    weir.write_ini()
    weir.replace()
    for client in clients:
        assert client.query("COMMIT").status == "I"
    weir.wait_pool("p0", sv_idle=1, sv_active=0)
    for client in clients:
        assert client.query("served").value == "served"
    assert "max_client_conn" in weir.connect().refused(user="app", database="p0")["M"]


def test_other_tracked_parameters(scene):
    mini = scene.mini()
    weir = replaced(scene, mini)
    client = weir.client(IntervalStyle="iso_8601")
    assert client.query("one").value == "one"
    weir.settings["track_extra_parameters"] = ""
    weir.write_ini()
    weir.replace()
    assert client.query("two").value == "two"
    weir.settings["track_extra_parameters"] = "IntervalStyle, default_transaction_read_only"
    weir.write_ini()
    weir.replace()
    assert client.query("three").value == "three"
    with weir.client(IntervalStyle="iso_8601") as other:
        assert other.query("four").value == "four"


def test_parameters_no_longer_tracked_are_not_left_to_others(scene):
    """A session in which a client has set such a parameter is closed; the next client gets a session without it."""
    mini = scene.mini()
    weir = replaced(scene, mini, track_extra_parameters="IntervalStyle")
    client = weir.client(IntervalStyle="iso_8601")
    assert client.query("one").value == "one"
    weir.settings["track_extra_parameters"] = ""
    weir.write_ini()
    weir.replace()
    weir.wait_log("obsolete connection")
    with weir.client() as other:
        assert other.query("two").value == "two"
    assert len(mini.started) == 2


@pytest.mark.parametrize("settings", [
    {"server_tls_sslmode": "require"}, {"server_channel_binding": "require"}, {"server_max_protocol_version": "3.0"},
    {"server_require_auth": "md5"},
], ids=lambda settings: " ".join(settings))
def test_servers_with_other_settings_are_retired(scene, settings):
    """As RELOAD has it: idle ones at once, others when they are released."""
    mini = scene.mini()
    weir = replaced(scene, mini, default_pool_size=2, server_tls_sslmode="prefer", server_max_protocol_version="3.2")
    idle, works = weir.client(), weir.client()
    works.query("BEGIN")
    assert idle.query("before").value == "before"
    weir.settings.update(settings)
    weir.write_ini()
    weir.replace()
    weir.wait_pool("p0", sv_idle=0, sv_active=1)
    assert works.query("in it").value == "in it"
    assert works.query("COMMIT").status == "I"
    weir.wait_pool("p0", sv_idle=0, sv_active=0)
    assert [text for _, text in mini.queries] == ["BEGIN", "before", "in it", "COMMIT"]


def test_the_same_settings_keep_the_servers(scene):
    mini = scene.mini()
    weir = replaced(scene, mini, server_tls_sslmode="allow", track_extra_parameters="search_path", server_channel_binding="disable",
                    server_require_auth="none")
    client = weir.client()
    for text in ("one", "two"):
        assert client.query(text).value == text
        weir.replace()
    assert len(mini.started) == 1


def test_settings_for_tls_that_is_off_keep_the_servers(scene):
    """As RELOAD has it."""
    mini = scene.mini()
    weir = replaced(scene, mini, server_tls_sslmode="disable")
    client = weir.client()
    assert client.query("one").value == "one"
    weir.settings["server_tls_ciphers"] = "HIGH"
    weir.write_ini()
    weir.replace()
    assert client.query("two").value == "two"
    assert len(mini.started) == 1


# --- under load


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_again_and_again_under_load(scene, mode):
    """Trap 83: in the middle of packets, pipelines, results and COPY, with clients that connect and leave."""
    weir = replaced(scene, scene.mini(), pool_mode=mode, default_pool_size=4 if mode == "transaction" else 30)
    crowd = Crowd(weir, 12)

    def come_and_go():
        while not crowd.over.is_set():
            with weir.client() as client:
                assert client.query("briefly").value == "briefly"

    def administrate():
        try:
            for _ in rounds(10):
                crowd.wait_for_more()
                weir.replace()
        finally:
            crowd.over.set()

    run_in_threads(administrate, come_and_go, *crowd.works)
    for predecessor in weir.predecessors:
        gone(predecessor)
