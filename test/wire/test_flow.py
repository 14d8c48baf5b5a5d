"""Traps 48 to 52, 59 and 60: bytes that wait for an event that never comes, queues, handovers, descriptors."""
import random
import ssl
import threading

import pytest

from support import messages as m
from support.rounds import rounds, size
from support.scenes import transactions
from support.threads import run_in_threads
from support.until import until
from support.wire import Closed, LoginRefused


def tls_settings(authority):
    return {"client_tls_sslmode": "require", "client_tls_cert_file": authority.cert("server"),
            "client_tls_key_file": authority.key("server"), "server_tls_sslmode": "require"}


def tls_client(weir, authority, **options):
    client = weir.connect(**options)
    client.start_tls(authority.client_context())
    client.login(user="app", database="p0")
    return client


EDGES = sorted({base + around for base in (2048, 4096, 8192, 16384, 20480, 32768, 65536, 131072)
                for around in (-30, -6, -5, -4, -1, 0, 1)})


def test_trap_48_answers_that_end_at_the_edge_of_a_buffer(scene):
    """Bytes that were read already, while the loop waits for the socket."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    for size in EDGES:
        client.send(m.query("rows 1 %d" % size), m.query("next"))
        assert len(client.result().rows[0][0]) == size
        assert client.result().value == "next"


def test_trap_48_answers_that_end_at_the_edge_of_a_buffer_over_tls(scene, authority):
    weir = transactions(scene, scene.mini(tls=authority.server_context()), **tls_settings(authority))
    client = tls_client(weir, authority)
    for size in EDGES:
        client.send(m.query("rows 1 %d" % size), m.query("x" * size))
        assert len(client.result().rows[0][0]) == size
        assert client.result().value == "x" * size


def test_trap_48_large_parameter_in_the_welcome(scene, authority):
    """A TLS record that ends past the end of the buffer, followed by nothing."""
    fake = scene.mini(tls=authority.server_context())
    weir = transactions(scene, fake, pool_size=1, **tls_settings(authority))
    draw = random.Random(48)
    sizes = iter(sorted(draw.sample(range(1900, 2100), size(20, full=200))))

    def login(session):
        session.parameters["search_path"] = "x" * next(sizes)
        session.welcome()

    fake.login = login
    for turn in rounds(20, full=200):
        client = tls_client(weir, authority)
        assert client.query("turn %d" % turn).value == "turn %d" % turn
        client.quit()
        fake.drop_all()
        weir.barrier()


def test_trap_49_neither_direction_waits_for_the_other(scene):
    """Client and server write without reading: when one direction stopped, the other stopped too."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client = weir.client(receive_buffer=4096)
    client.send(m.query("copy"))
    server = fake.accept()
    server.expect_query("copy")
    server.send(m.copy_in_response())
    client.expect("G")
    chunk, note = m.copy_data(b"x" * 65531), m.notice("y" * 65000)

    def client_writes():
        for _ in range(160):
            client.send(chunk)
        client.send(m.copy_done())

    def server_writes():
        for _ in range(160):
            server.send(note)

    # the server reads nothing until the client has read all that the server wrote
    def client_reads():
        client.expect_all("N" * 160)

    writer = threading.Thread(target=client_writes)
    writer.start()
    run_in_threads(server_writes, client_reads)
    server.expect_all("d" * 160 + "c")
    writer.join()
    server.complete("COPY 160")
    assert client.result().types == "CZ"


def test_trap_49_client_does_not_wait_for_the_server(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    client = weir.client(receive_buffer=4096)
    client.send(m.query("copy"))
    server = fake.accept()
    server.expect_query("copy")
    server.send(m.copy_in_response())
    client.expect("G")
    note = m.notice("y" * 65000)
    writer = threading.Thread(target=lambda: [server.send(note) for _ in range(160)])
    writer.start()
    run_in_threads(lambda: [client.send(m.copy_data(b"x" * 65531)) for _ in range(160)],
                 lambda: server.expect_all("d" * 160))
    client.expect_all("N" * 160)
    writer.join()
    client.send(m.copy_done())
    server.expect("c")
    server.complete("COPY 160")
    assert client.result().types == "CZ"


@pytest.mark.parametrize("tls", [False, True])
def test_trap_49_ten_megabytes_out_and_in(scene, authority, tls):
    fake = scene.mini(tls=authority.server_context() if tls else None)
    weir = transactions(scene, fake, **(tls_settings(authority) if tls else {}))
    client = tls_client(weir, authority) if tls else weir.client(receive_buffer=8192)
    texts = [chr(97 + n % 26) * 65000 for n in range(160)]
    if tls:
        # one TLS object must not be used by two threads: four answers are always on their way
        results = []
        client.send(*[m.query(text) for text in texts[:4]])
        for ahead in texts[4:] + [None] * 4:
            results.append(client.result().value)
            if ahead:
                client.send(m.query(ahead))
    else:
        results = []
        run_in_threads(lambda: [client.send(m.query(text)) for text in texts],
                     lambda: [results.append(client.result().value) for _ in texts])
    assert results == texts


@pytest.mark.parametrize("count", [2, 10, 100])
def test_trap_50_first_in_first_out(scene, count):
    """Lost wake-up between "no server" and "wait"; a new client took the server that became free."""
    fake = scene.fake()
    weir = transactions(scene, fake, max_client_conn=200)
    holder = weir.client()
    holder.send(m.query("holder"))
    server = fake.accept()
    server.expect_query("holder")
    waiting = [weir.client() for _ in range(count)]
    for n, client in enumerate(waiting):
        client.send(m.query(str(n)))
        weir.barrier()
    assert weir.pool("p0")["cl_waiting"] == count
    server.answer("x")
    holder.send(m.query("holder again"))
    for n, client in enumerate(waiting):
        server.expect_query(str(n))
        server.answer(n)
        assert client.result().value == str(n)
    server.expect_query("holder again")
    server.answer("x")
    assert holder.result().value == "x" and holder.result().value == "x"


def test_trap_50_no_client_starves(scene):
    weir = transactions(scene, scene.mini(), 2, max_client_conn=300)
    clients = [weir.client() for _ in range(100)]
    for turn in range(5):
        for n, client in enumerate(clients):
            client.send(m.query("%d %d" % (n, turn)))
        for n, client in enumerate(clients):
            assert client.result().value == "%d %d" % (n, turn)


def test_trap_51_capacity_survives_releases_and_failures(scene):
    """Capacity was lost when an endpoint failed while it was handed over."""
    fake = scene.mini()
    weir = transactions(scene, fake, 3, server_login_retry=0)
    for turn in rounds(10):
        clients = [weir.connect() for _ in range(6)]
        for client in clients:
            client.login(user="app", database="p0")
            client.send(m.query("BEGIN"))
        weir.barrier()
        for n, client in enumerate(clients):
            (client.close, client.abort)[n % 2]()
        if turn % 3 == 0:
            fake.stop_listening()
            fake.drop_all()
            one = weir.connect()
            one.send(m.startup(user="app", database="p0"), m.query("x"))
            weir.barrier()
            one.close()
            fake.listen()
        until(lambda: not [c for c in weir.show("CLIENTS") if c["database"] == "p0"], "all are gone")
    holders = [weir.client() for _ in range(3)]
    for holder in holders:
        assert holder.query("BEGIN").status == "T"
    row = weir.pool("p0")
    assert (row["sv_active"], row["sv_idle"], row["sv_login"]) == (3, 0, 0)
    for holder in holders:
        assert holder.query("COMMIT").status == "I"


def test_trap_52_reset_with_output_pending(scene):
    """Sending to a closed peer was tried again forever."""
    weir = transactions(scene, scene.mini(), 2)
    for _ in rounds(5):
        client = weir.connect(receive_buffer=4096)
        client.login(user="app", database="p0")
        client.send(m.query("rows 50 1000000"))
        client.expect("T")
        client.abort()
        weir.wait_asleep()
    assert weir.client().query("next").value == "next"
    weir.wait_asleep()


def test_trap_52_server_gone_with_output_pending(scene):
    fake = scene.fake()
    weir = transactions(scene, fake, 2)
    for _ in rounds(5):
        client = weir.connect()
        client.login(user="app", database="p0")
        writer = threading.Thread(target=flood, args=(client,))
        writer.start()
        server = fake.accept()
        server.read_bytes(1000)
        server.abort()
        writer.join()
        client.close()
        weir.wait_asleep()


def flood(client):
    try:
        client.send(m.query("x" * 20000000))
    except OSError:
        pass


def test_trap_59_descriptors_run_out(scene):
    """accept() failed in a busy loop, or the database was blamed."""
    fake = scene.mini()
    weir = transactions(scene, fake, 2, nofile=64, max_client_conn=1000, listen_backlog=1024,
                        allow="descriptor|RLIMIT|file limit")
    settled = [weir.client() for _ in range(5)]
    settled[0].query("opens a server")
    crowd = [weir.connect() for _ in range(1000)]
    weir.wait_asleep()
    for n, client in enumerate(settled):
        assert client.query("still here %d" % n).value == "still here %d" % n
    weir.wait_asleep()
    for client in crowd:
        client.close()
    late = weir.client()
    assert late.query("room again").value == "room again"
    weir.wait_asleep()


STEPS = {
    "nothing": lambda s: None,
    "error": lambda s: s.send(m.error("no thanks", "53300", "FATAL")),
    "question": lambda s: (s.send(m.authentication(5, b"salt")), s.read()),
    "unknown method": lambda s: s.send(m.authentication(99)),
    "gss": lambda s: s.send(m.authentication(7)),
    "bad mechanism": lambda s: s.send(m.authentication(10, b"SCRAM-SHA-1\0\0")),
    "no mechanism": lambda s: s.send(m.authentication(10, b"\0")),
    "ok": lambda s: s.send(m.authentication_ok()),
    "parameter": lambda s: s.send(m.authentication_ok(), m.parameter_status("server_version", "15.6")),
    "key": lambda s: s.send(m.authentication_ok(), m.backend_key_data(1, b"1234")),
    "half a message": lambda s: s.send(m.authentication_ok(), m.ready()[:3]),
    "row": lambda s: s.send(m.authentication_ok(), m.data_row("what?")),
    "ready at once": lambda s: s.send(m.ready()),
    "strange status": lambda s: s.send(m.authentication_ok(), m.ready("?")),
    "error in place of ready": lambda s: s.send(m.authentication_ok(), m.error("not you", "28000", "FATAL")),
}


@pytest.mark.parametrize("step", sorted(STEPS))
def test_trap_60_login_at_the_server_fails_at_each_step(scene, step):
    """A failed connection was closed twice, or another connection with the same descriptor was closed."""
    fake = scene.mini()
    weir = transactions(scene, fake, 2, server_login_retry=0)
    good = weir.client(database="p0")
    good.query("BEGIN")

    def login(session):
        STEPS[step](session)
        session.close()
        raise Closed("as the scene wants it")

    fake.login = login
    for _ in rounds(3):
        bad = weir.connect()
        bad.login(user="app", database="p0")
        bad.send(m.query("x"))
        weir.barrier()
        bad.close()
    until(lambda: weir.pool("p0")["sv_login"] == 0, "no login is left over")
    fake.login = None
    assert good.query("COMMIT").status == "I"
    assert weir.client().query("next").value == "next"


def test_trap_60_connection_refused(scene):
    fake = scene.mini()
    fake.stop_listening()
    weir = transactions(scene, fake, 2, server_login_retry=0.1, query_wait_timeout=0.5)
    client = weir.connect()
    try:
        client.login(user="app", database="p0")
    except (LoginRefused, Closed) as refusal:
        assert isinstance(refusal, LoginRefused), "cut off without a word"
    fake.listen()
    until(lambda: works(weir), "the next login works")


def works(weir):
    client = weir.connect()
    try:
        client.login(user="app", database="p0")
        return client.query("up again").value == "up again"
    except LoginRefused:
        return False


@pytest.mark.parametrize("answer", [b"S", b"SSSS", b"E", b"\0", b"", b"Nonsense"])
def test_trap_60_answers_to_an_ssl_request(scene, answer):
    fake = scene.mini()
    sane, bad = fake._greet, [True]       # pylint: disable=protected-access

    def greet(session):
        if not bad[0]:
            sane(session)
            return
        session.read_bytes(8)
        session.send(answer)
        session.shut_writing()
        session.drain()
        raise Closed("as the scene wants it")

    fake._greet = greet       # pylint: disable=protected-access
    weir = transactions(scene, fake, 2, server_login_retry=0, query_wait_timeout=0.5, server_tls_sslmode="require")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    (error,) = [got for got in client.drain() if got.type == "E"]
    assert m.read_error(error.body)["M"]
    bad[0] = False
    weir.settings["server_tls_sslmode"] = "disable"
    weir.write_ini()
    weir.admin("RELOAD")
    assert weir.client().query("works").value == "works"


def test_trap_60_server_with_an_untrusted_certificate(scene, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue("stranger", "localhost", names="IP:127.0.0.1", by="other")
    context.load_cert_chain(authority.cert("stranger"), authority.key("stranger"))
    fake = scene.mini(tls=context)
    weir = transactions(scene, fake, 2, server_login_retry=0, query_wait_timeout=0.5, server_tls_sslmode="verify-full",
                        server_tls_ca_file=authority.cert("ca"))
    assert weir.connect().refused(user="app", database="p0")["M"]
    weir.barrier()
    assert not fake.started
