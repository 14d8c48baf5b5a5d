"""Bugs found in a line-by-line review of the session room: queues, buffers and orders of events that the trap scenes do not cover."""
import queue

import pytest

from support import messages as m
from support.pgweir import ANY_METHOD
from support.scenes import transactions
from support.threads import run_in_threads
from support.until import DEADLINE


def test_rivals_with_different_parameters_take_turns(scene):
    """A server that is set up for one client is not given back before that client's request has gone."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    rivals = [weir.client(TimeZone=zone) for zone in ("Asia/Tokyo", "Europe/Paris", "Africa/Cairo")]
    for turn in range(5):
        for number, rival in enumerate(rivals):
            rival.send(m.query("rival %d turn %d" % (number, turn)))
        for number, rival in enumerate(rivals):
            assert rival.result().value == "rival %d turn %d" % (number, turn)
    setting = [text for _, text in fake.queries if "set_config" in text]
    assert len(setting) <= 15


@pytest.mark.parametrize("size", [1000, 65531, 65600, 200000])
def test_query_directly_after_the_startup_packet(scene, size):
    """More than is kept of a client that waits for its welcome: it is read on afterwards."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="session", default_pool_size=1)
    client = weir.connect()
    text = "x" * size
    client.send(m.startup(user="app", database="p0"), m.query(text), m.query("last"))
    client.finish_login("app")
    assert client.result().value == text
    assert client.result().value == "last"


def test_welcome_of_a_server_that_reports_tracked_parameters_only(scene):
    """There is nothing that is passed on as it came."""
    fake = scene.mini()
    reported = {"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC", "standard_conforming_strings": "on",
                "application_name": ""}

    def login(session):
        session.parameters = dict(reported)
        session.welcome()

    fake.login = login
    client = scene.weir(fake, pool_mode="session").client()
    assert client.parameters == reported
    assert client.query("asked").value == "asked"


def test_syncs_without_a_reader(scene):
    """Answers that pgweir gives by itself do not pile up for a client that does not fetch them."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    greedy = weir.client(unix=True)
    greedy.sock.setblocking(False)
    flood, sent, stalled = m.sync() * 10000, 0, 0
    while sent < 10000000 and stalled < 20:
        try:
            sent += greedy.sock.send(flood[sent % 5:])
            stalled = 0
        except BlockingIOError:
            stalled += 1
            weir.barrier()
    greedy.sock.settimeout(DEADLINE)
    assert sent < 10000000, "it is read on and on"
    # the message that was cut is made whole, and then every Sync has its answer
    cut = -sent % 5
    run_in_threads(lambda: greedy.send(m.sync()[5 - cut:], m.query("last")),
                 lambda: [greedy.expect("Z") for _ in range((sent + cut) // 5)])
    assert greedy.result().value == "last"


def test_cancel_of_a_request_whose_parameters_are_refused(scene):
    """The server does not wait for ever for a cancel request that has nothing to cancel any more."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    plain = weir.client()
    plain.query("opens the server")
    odd = weir.client(TimeZone="Asia/Tokyo")
    fake.slow_set = True
    fake.refused_values = {"Asia/Tokyo"}
    odd.send(m.query("odd"))
    fake.until(lambda: any("Asia/Tokyo" in text for _, text in fake.queries), "the SET runs")
    weir.cancel(odd)
    weir.barrier()
    fake.release()
    assert odd.drain()[-1].type == "E"
    assert plain.query("plain").value == "plain"
    assert weir.pool("p0")["sv_being_canceled"] == 0


def test_server_ends_while_it_sets_parameters(scene):
    """The client gets the server's FATAL unchanged, and nothing after it."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    odd = weir.client(TimeZone="Asia/Tokyo")
    odd.send(m.query("odd"))
    server = fake.accept()
    assert "Asia/Tokyo" in m.read_cstrings(server.expect("Q").body)[0]
    server.send(m.notice("of nobody"), m.error("terminating connection due to administrator command", "57P01", "FATAL"))
    server.close()
    got = odd.drain()
    assert [message.type for message in got] == ["E"]
    assert m.read_error(got[0].body)["C"] == "57P01"


def test_gssenc_is_requested_once(scene):
    weir = transactions(scene, scene.mini())
    client = weir.connect()
    client.send(m.GSSENC_REQUEST)
    assert client.read_bytes(1) == b"N"
    client.send(m.GSSENC_REQUEST)
    assert client.expect("E")
    client.expect_closed()


@pytest.mark.parametrize("play", ["parameters", "passwords"])
def test_server_whose_login_never_ends(scene, play):
    """A client that does not read can fill neither memory nor the connection with answers."""
    fake = scene.fake()

    def login(session):
        if play == "parameters":
            for number in range(200):
                session.send(m.parameter_status("parameter_%d" % number, "x" * 1000))
        else:
            session.send(m.authentication(3) * 3)
        session.drain()

    fake.login = login
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d password=secret" % fake.port}, server_login_retry=0,
                      server_require_auth=ANY_METHOD)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.drain()[-1].type == "E"
    weir.wait_log("too many parameters" if play == "parameters" else "asked for the password twice")


@pytest.mark.parametrize("code, rest", [(0, b"\0"), (0, bytes(4)), (3, b"\0"), (3, bytes(100)), (5, b""), (5, b"abc"), (5, b"salty")],
                         ids=lambda value: len(value) if isinstance(value, bytes) else value)
def test_authentication_request_of_a_wrong_length(scene, code, rest):
    """No password is sent in answer to a malformed request."""
    fake, came = scene.fake(), queue.Queue()

    def login(session):
        session.send(m.authentication(code, rest))
        came.put([got.type for got in session.drain()])

    fake.login = login
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d password=secret" % fake.port}, server_login_retry=0)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.drain()[-1].type == "E"
    weir.wait_log("authentication request of a wrong length")
    assert "p" not in came.get(timeout=DEADLINE)
