"""Replication connections, both ends played: a server of their own, streams in both directions, and every end of them."""
import functools
import select
import struct

import pytest

from support import messages as m
from support.live import ended_with
from support.scenes import asked, linked, transactions
from support.threads import run_in_threads
from support.until import until
from support.wire import Closed

START = "START_REPLICATION SLOT s PHYSICAL 0/0 TIMELINE 1"


def replicate(fake, weir, kind="database", **parameters):
    """A replication client, and the server that was opened for it."""
    client = weir.client(replication=kind, **parameters)
    return client, fake.accept()


def started(client, server):
    """The stream is on."""
    client.send(m.query(START))
    assert server.expect_query() == START
    server.send(m.copy_both_response())
    client.expect("W")


def wal(size=100, start=0):
    return m.copy_data(b"w" + struct.pack("!QQQ", start, start + size, 7) + b"\xd1" * size)


def keepalive(wants_answer=True):
    return m.copy_data(b"k" + struct.pack("!QQB", 1234, 7, wants_answer))


def status(position=0):
    return m.copy_data(b"r" + struct.pack("!QQQQB", position, position, 0, 7, 0))


NEXT_TIMELINE = m.row_description("next_tli", "next_tli_startpos") + m.data_row("2", "0/5000") + m.command_complete("SELECT 1")
END = m.command_complete("START_REPLICATION") + m.ready()
STREAM = (m.copy_both_response() + wal(3) + keepalive() + m.notice("a word") + wal(70, 3) + wal(0) +
          m.parameter_status("application_name", "elsewhere") + keepalive(False) + m.copy_done())
ANSWERS = status() + m.copy_data(b"h" + struct.pack("!QII", 7, 3, 0)) + status(2 ** 63) + m.copy_done()


# --- a server of its own

@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
@pytest.mark.parametrize("kind, word", [("database", "database"), ("true", "yes")])
def test_dedicated_server(scene, mode, kind, word):
    fake = scene.fake()
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d dbname=real" % fake.port}, pool_mode=mode)
    other, pooled = linked(fake, weir)
    client, server = replicate(fake, weir, kind, application_name="mirror", options="-c foo.bar=a\\ b", DateStyle="German")
    wanted = {"user": "app", "replication": word, "application_name": "mirror", "DateStyle": "German",
              "options": "-c foo.bar=a\\ b"}
    if kind == "database":
        wanted["database"] = "real"
    assert server.startup == wanted
    assert "replication" not in pooled.startup
    for _ in range(3):
        client.send(m.query("IDENTIFY_SYSTEM"))
        assert server.expect_query() == "IDENTIFY_SYSTEM"
        server.answer("me")
        assert client.result().value == "me"
        other.send(m.query("other"))
        assert pooled.expect_query() == "other"
        pooled.answer("other's")
        assert other.result().value == "other's"
    client.quit()
    server.expect("X")
    server.expect_closed()
    weir.wait_log("S-0x%x: .* closing because: replication client was closed" % 4)
    weir.wait_pool("p0", cl_active=1, sv_active=int(mode == "session"))


def test_welcome_is_what_its_server_reports(scene):
    """The parameters of its own server, not of other servers of the pool; and the client's values do not reach others."""
    fake = scene.fake()

    def login(session):
        session.parameters["in_hot_standby"] = "on" if "replication" in session.startup else "off"
        session.parameters["TimeZone"] = "Mars" if "replication" in session.startup else "UTC"
        session.welcome()

    fake.login = login
    weir = transactions(scene, fake, pool_size=5)
    replicate(fake, weir)
    linked(fake, weir)
    client, _ = replicate(fake, weir)
    assert (client.parameters["in_hot_standby"], client.parameters["TimeZone"]) == ("on", "Mars")
    plain = weir.client()
    assert (plain.parameters["in_hot_standby"], plain.parameters["TimeZone"]) == ("off", "UTC")


def test_no_client_gets_the_server_of_another(scene):
    """The start-up packets of both clients are equal except for options, and their servers come up in reverse order."""
    fake = scene.fake()
    first = []

    def login(session):
        if session.startup.get("options") == "-c a.b=1":
            first.append(session)
            fake.happened()
            fake.until(lambda: fake.released or second_is_in, "the other one is in")
        session.welcome()

    second_is_in = []
    fake.login = login
    weir = scene.weir(fake, pool_mode="session")
    linked(fake, weir)
    one, two = weir.connect(), weir.connect()
    one.send(m.startup(user="app", database="p0", replication="database", options="-c a.b=1"))
    fake.until(lambda: first, "the first one's server has begun")
    two.login(user="app", database="p0", replication="database", options="-c a.b=2")
    second = fake.accept()
    assert second.startup["options"] == "-c a.b=2"
    two.send(m.query("two"))
    assert second.expect_query() == "two"
    second_is_in.append(True)
    fake.happened()
    one.finish_login()
    one.send(m.query("one"))
    assert fake.accept().expect_query() == "one"


def test_early_input_waits_for_the_welcome(scene):
    """Input after the start-up packet is neither lost nor answered early."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0", replication="database"), m.query("IDENTIFY_SYSTEM"))
    server = fake.accept()
    assert server.expect_query() == "IDENTIFY_SYSTEM"
    client.finish_login()
    server.answer("me")
    assert client.result().value == "me"


def test_console_has_no_replication(scene):
    weir = transactions(scene, scene.mini())
    client = weir.client("admin", "pgbouncer", replication="database")
    assert client.query("SHOW VERSION").rows
    assert {row["replication"] for row in weir.show("CLIENTS")} == {"none"}


@pytest.mark.parametrize("kind, queries", [("database", ["SET x = 1"]), ("on", [])])
def test_connect_query(scene, kind, queries):
    """A physical walsender knows no SQL."""
    fake = scene.mini()
    weir = transactions(scene, {"p0": "host=127.0.0.1 port=%d connect_query='SET x = 1'" % fake.port})
    client = weir.client(replication=kind)
    assert client.query("IDENTIFY_SYSTEM").value == "IDENTIFY_SYSTEM"
    assert [sql for _, sql in fake.queries] == queries + ["IDENTIFY_SYSTEM"]


@pytest.mark.parametrize("value, name", [
    ("t", "physical"), ("TRUE", "physical"), ("yes", "physical"), ("1", "physical"), ("on", "physical"), ("ON", "physical"),
    ("database", "logical"), ("f", "none"), ("no", "none"), ("of", "none"), ("0", "none"), ("False", "none"),
    ("o", None), ("", None), ("Database", None), ("truely", None), ("2", None)])
def test_values(scene, value, name):
    """As PostgreSQL reads them."""
    weir = transactions(scene, scene.mini())
    if name:
        weir.client(replication=value).query("x")
        assert [row["replication"] for row in weir.show("CLIENTS")][0] == name
    else:
        error = weir.connect().refused(user="app", database="p0", replication=value)
        assert (error["M"], error["C"]) == ("invalid value for startup parameter: replication", "22023")


def test_parameters_are_limited(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    some = {"a.p%d" % n: str(n) for n in range(32)}
    _, server = replicate(fake, weir, **some)
    assert some.items() <= server.startup.items()
    refused = weir.connect().refused(user="app", database="p0", replication="database", last="x", **some)
    assert refused["M"].startswith("unsupported startup parameter: ")


# --- streams

def test_server_cut_at_every_byte(scene):
    """The server ends the stream at the end of its timeline; the client follows."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    for cut in range(1, len(STREAM)):
        client.send(m.query(START))
        server.expect_query()
        server.send(STREAM[:cut])
        weir.barrier()
        server.send(STREAM[cut:])
        assert client.read_bytes(len(STREAM)) == STREAM
        client.send(ANSWERS)
        assert server.read_bytes(len(ANSWERS)) == ANSWERS
        server.send(NEXT_TIMELINE + END)
        assert client.read_bytes(len(NEXT_TIMELINE + END)) == NEXT_TIMELINE + END


def test_client_cut_at_every_byte(scene):
    """The client ends the stream, and data in transit precedes the server's end."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir, "true")
    for cut in range(1, len(ANSWERS)):
        started(client, server)
        client.send(ANSWERS[:cut])
        weir.barrier()
        client.send(ANSWERS[cut:])
        assert server.read_bytes(len(ANSWERS)) == ANSWERS
        last = wal() + keepalive() + m.copy_done() + END
        server.send(last)
        assert client.read_bytes(len(last)) == last


def test_data_of_a_transaction_follows_the_copy_done_of_the_server(scene):
    """A walsender answers CopyDone while it decodes a transaction, then sends the rest of it."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    last = m.copy_done() + wal() + wal(5, 100) + keepalive() + END
    for cut in range(0, len(last), 7):
        started(client, server)
        server.send(wal())
        client.expect("d")
        client.send(ANSWERS)
        assert server.read_bytes(len(ANSWERS)) == ANSWERS
        server.send(last[:cut])
        weir.barrier()
        server.send(last[cut:])
        assert client.read_bytes(len(last)) == last
    client.send(m.query("next"))
    assert server.expect_query() == "next"


def test_error_in_the_stream(scene):
    """Data that the client still sends into the stream is dropped, and does not affect the next command."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    for _ in range(3):
        started(client, server)
        server.send(wal(), m.error("requested WAL segment has been removed", "58P01"), m.ready())
        assert [got.type for got in client.read_until("Z")] == ["d", "E", "Z"]
        client.send(status(), m.copy_done(), m.query("next"))
        assert server.expect_query() == "next"
        server.answer("next")
        assert client.result().value == "next"


def test_base_backup(scene):
    """Several results, then the files as a COPY, then another result: one command, one ReadyForQuery."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir, "true")
    whole = (m.rows("0/2000028") + m.row_description("spcoid") + m.command_complete("SELECT 0") + m.copy_out_response(0) +
             m.copy_data(b"nbase.tar\0\0") + m.copy_data(b"d" + b"x" * 30000) * 50 + m.copy_done() + m.rows("0/2000138") +
             m.command_complete("BASE_BACKUP") + m.ready())
    client.send(m.query("BASE_BACKUP"))
    server.expect_query()
    server.send(whole)
    assert client.read_bytes(len(whole)) == whole
    client.send(m.query("next"))
    assert server.expect_query() == "next"


def test_slow_reader_uses_no_memory(scene):
    """A stream is relayed, not collected, and stops while the client does not read."""
    fake = scene.fake()
    weir = transactions(scene, fake, measured=True)
    client, server = replicate(fake, weir, "true", receive_buffer=4096)
    client.send(m.query("BASE_BACKUP"))
    server.expect_query()
    server.send(m.copy_out_response(0))
    client.expect("H")
    before = weir.memory()
    data, sent = m.copy_data(b"x" * (1 << 20)) * 64, 0
    server.sock.setblocking(False)
    while True:
        try:
            sent += server.sock.send(data[sent:sent + 65536])
        except BlockingIOError:
            weir.wait_asleep()
            if not select.select([], [server.sock], [], 0)[1]:
                break
    assert sent < len(data)
    assert weir.memory() - before < 4096
    assert client.read_bytes(sent) == data[:sent]


def test_both_directions_at_once(scene):
    """Client and server do not wait for each other."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    started(client, server)
    down, up = wal(200000) * 20, status() * 50000
    got = {}

    def read(peer, size, name):
        got[name] = peer.read_bytes(size)

    run_in_threads(functools.partial(server.send, down), functools.partial(client.send, up),
                 functools.partial(read, client, len(down), "down"), functools.partial(read, server, len(up), "up"))
    assert got == {"down": down, "up": up}


def test_cancel(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    started(client, server)
    weir.cancel(client).expect_closed()
    assert fake.next_cancel() == (server.pid, server.key)
    server.send(m.error("canceling statement due to user request", "57014"), m.ready())
    assert client.result().types == "EZ"


# --- the ends

def test_terminate_in_the_stream(scene):
    """The walsender receives it too."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    started(client, server)
    client.send(status(), m.terminate())
    assert server.read_bytes(len(status())) == status()
    server.expect("X")
    server.expect_closed()


@pytest.mark.parametrize("half", [1, 4, 5, 20])
def test_client_disconnects_within_a_message(scene, half):
    """No other message is inserted into the client's partial message."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    started(client, server)
    client.send(status()[:half])
    weir.barrier()
    client.close()
    data = server.drain_bytes()
    assert data == status()[:half if half >= 5 else 0] + (b"" if half >= 5 else m.terminate())
    weir.wait_pool("p0", cl_active=0, sv_active=0)


def test_server_disconnects_in_the_stream(scene):
    fake = scene.fake()
    weir = transactions(scene, fake, pool_size=4)
    for words, told in (((), "E"), ((m.error("terminating connection", "57P01", "FATAL"),), "E"), ((wal()[:40],), "")):
        client, server = replicate(fake, weir)
        started(client, server)
        server.send(wal(), *words)
        server.close()
        client.expect("d")
        if words and not told:
            assert client.drain_bytes() == words[0]
            continue
        (last,) = client.drain()
        assert m.read_error(last.body)["M"] == ("terminating connection" if words else "server conn crashed?")
    weir.wait_pool("p0", cl_active=0, sv_active=0)


def test_message_that_no_walsender_sends_ends_the_server(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    started(client, server)
    server.send(m.parse_complete())
    assert m.read_error(client.expect("E").body)["M"] == "server sent an answer that nothing asked for"
    client.expect_closed()
    server.drain_bytes()


@pytest.mark.parametrize("answer", range(6))
def test_trap_40_reset_with_a_query_in_flight(scene, answer):
    """The client's end met the server's answer: a buffer was used after it was freed."""
    fake = scene.fake()
    weir = transactions(scene, fake, pool_size=20)
    words = m.rows("systemid") + m.ready()
    for _ in range(20):
        client, server = replicate(fake, weir, "true")
        client.send(m.query("IDENTIFY_SYSTEM"))
        server.expect_query()
        with weir.one_turn():
            server.send(words[:len(words) * answer // 5])
            client.abort()
        server.drain_bytes()
    weir.wait_pool("p0", cl_active=0, sv_active=0)
    assert weir.is_alive()


def test_trap_40_stream_is_reset_by_both(scene):
    fake = scene.fake()
    weir = transactions(scene, fake, pool_size=20)
    for order in range(10):
        client, server = replicate(fake, weir)
        started(client, server)
        with weir.one_turn():
            server.send(wal(100000))
            client.send(status() * 100)
            for peer in (client, server) if order % 2 else (server, client):
                peer.abort()
    weir.wait_pool("p0", cl_active=0, sv_active=0)


# --- logins that take time, or fail

def slow_logins(fake):
    """Servers for replication are let in when the scene says so."""
    waiting, said = [], []

    def login(session):
        if "replication" in session.startup:
            waiting.append(session)
            fake.happened()
            fake.until(lambda: said or fake.released, "the scene lets it in")
        session.welcome()

    fake.login = login
    return waiting, said


def test_client_disconnects_before_its_server_is_ready(scene):
    """No other client can use its server."""
    fake = scene.fake()
    waiting, said = slow_logins(fake)
    weir = transactions(scene, fake, pool_size=2)
    linked(fake, weir)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0", replication="database"))
    fake.until(lambda: waiting, "its server logs in")
    client.close()
    weir.wait_pool("p0", cl_waiting=0)
    said.append(True)
    fake.happened()
    server = fake.accept()
    server.expect("X")
    server.expect_closed()
    weir.wait_pool("p0", sv_idle=1, sv_active=0, sv_login=0)


def test_queued_client_gets_no_notice(scene):
    """A client expects no notice before the welcome. Other clients in the queue get it as always."""
    fake = scene.fake()
    waiting, _ = slow_logins(fake)
    weir = transactions(scene, fake, pool_size=2, query_wait_notify=0.1)
    asked(fake, weir)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0", replication="database"))
    fake.until(lambda: waiting, "its server logs in")
    other = weir.client()
    other.send(m.query("queued"))
    other.expect("N")
    weir.barrier()
    assert not client.has_input()


def test_login_takes_too_long(scene):
    fake = scene.fake()
    slow_logins(fake)
    weir = transactions(scene, fake, client_login_timeout=0.2)
    refused = weir.connect().refused(user="app", database="p0", replication="true")
    assert refused["M"] == "client_login_timeout (server down)"


def test_queue_has_its_timeout(scene):
    fake = scene.fake()
    weir = transactions(scene, fake, query_wait_timeout=0.2)
    asked(fake, weir)
    refused = weir.connect().refused(user="app", database="p0", replication="true")
    assert refused["M"] == "query_wait_timeout"


def test_paused(scene):
    """PAUSE holds it as it holds a query."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    weir.admin("PAUSE")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0", replication="true"))
    weir.wait_pool("p0", cl_waiting=1)
    assert not fake.started
    weir.admin("RESUME")
    client.finish_login()
    assert fake.accept().startup["replication"] == "yes"


def test_server_refuses_the_replication_login_only(scene):
    """An error of this login does not affect other logins: the next client in the queue is served."""
    fake = scene.fake()

    def login(session):
        if "replication" in session.startup:
            session.send(m.error("no pg_hba.conf entry for replication connection", "28000", "FATAL"))
            raise Closed("refused")
        session.welcome()

    fake.login = login
    weir = transactions(scene, fake)
    for _ in range(3):
        refused = weir.connect().refused(user="app", database="p0", replication="true")
        assert refused["M"] == "no pg_hba.conf entry for replication connection"
    linked(fake, weir)
    assert weir.pool("p0")["sv_idle"] == 1


def test_unavailable_server_is_unavailable_for_all(scene):
    fake = scene.fake()
    weir = transactions(scene, fake, server_login_retry=3600, server_down="fail")
    fake.stop_listening()
    why = "connect failed (Connection refused)"
    assert weir.connect().refused(user="app", database="p0", replication="true")["M"] == why
    # a client that waits in the queue keeps the pool in search of the server
    weir.admin("SET server_down = wait")
    waiting = weir.connect()
    waiting.send(m.startup(user="app", database="p0"))
    weir.wait_pool("p0", cl_waiting=1)
    fake.listen()
    until(lambda: weir.pool("p0")["sv_idle"], "it is found again")
    replicate(fake, weir, "true")


def test_drain_ends_a_stream_with_the_time(scene):
    """A stream has no transactions; between two commands the client ends as every client."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = replicate(fake, weir)
    started(client, server)
    weir.admin("DRAIN p0 OVER 1000000 SECONDS")
    server.send(wal())
    client.expect("d")
    weir.admin("DRAIN p0")
    ended_with(client, "terminating connection due to administrator command (DRAIN)", "57P01")
    server.expect("X")
    server.expect_closed()
