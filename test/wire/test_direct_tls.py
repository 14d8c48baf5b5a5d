"""TLS that begins with the first byte of a connection, without an SSLRequest; and ALPN, with and without one."""
import ssl

import pytest

from support import messages as m
from support.scenes import transactions
from support.wire import Closed, LoginRefused

CANCELLED = "canceling statement due to user request"


@pytest.fixture
def settings(authority):
    return {"client_tls_sslmode": "require", "client_tls_cert_file": authority.cert("server"),
            "client_tls_key_file": authority.key("server")}


@pytest.fixture
def weir(scene, settings):
    return transactions(scene, scene.mini(), 2, max_client_conn=1000, **settings)


def context(authority, *protocols):
    made = authority.client_context()
    if protocols:
        made.set_alpn_protocols(protocols)
    return made


def direct(weir, tls, **options):
    client = weir.connect(**options)
    client.sock = tls.wrap_socket(client.sock, server_hostname="localhost")
    return client


class Hello:
    """The first record of a handshake, and all that follows, cut as the scene likes."""

    def __init__(self, client, tls):
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._client = client
        self._step()
        self.record = self._out.read()

    def _step(self):
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def finish(self, *behind):
        """Completes the handshake, with `behind` in clear text in the same write as the last message."""
        while not self._step():
            self._client.send(self._out.read())
            self._in.write(self._client.sock.recv(65536))
        for part in behind:
            self._tls.write(part)
        self._client.send(self._out.read())

    def read(self, size):
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                data = self._client.sock.recv(65536)
                assert data, "the end"
                self._in.write(data)


# --- it works

@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_direct_tls(scene, authority, settings, version):
    weir = transactions(scene, scene.mini(), 2, **settings)
    tls = context(authority, "postgresql")
    tls.minimum_version = tls.maximum_version = ssl.TLSVersion[version]
    client = direct(weir, tls)
    assert client.sock.selected_alpn_protocol() == "postgresql"
    client.login(user="app", database="p0")
    assert client.query("works").value == "works"
    (row,) = [row for row in weir.show("CLIENTS") if row["database"] == "p0"]
    assert row["tls"] == "%s/%s" % (client.sock.version(), client.sock.cipher()[0])
    weir.wait_log(r"login attempt: db=p0 user=app tls=%s/%s replication=no sslnegotiation=direct$" %
                  (client.sock.version(), client.sock.cipher()[0]))


def test_protocol_3_2_over_direct_tls(weir, authority):
    client = direct(weir, context(authority, "postgresql"))
    client.login(user="app", database="p0", protocol=m.PROTOCOL_3_2)
    assert len(client.key) == 24
    weir.wait_log(r"replication=no protocol=3\.2 sslnegotiation=direct$")


@pytest.mark.parametrize("protocols", [("postgresql",), ("h2", "postgresql", "http/1.1")])
def test_alpn_of_several(weir, authority, protocols):
    client = direct(weir, context(authority, *protocols))
    assert client.sock.selected_alpn_protocol() == "postgresql"
    client.login(user="app", database="p0")
    asked = weir.connect()
    asked.start_tls(context(authority, *protocols))
    assert asked.sock.selected_alpn_protocol() == "postgresql"
    asked.login(user="app", database="p0")


def test_ssl_request_without_alpn_is_accepted(weir, authority):
    client = weir.connect()
    client.start_tls(context(authority))
    assert client.sock.selected_alpn_protocol() is None
    client.login(user="app", database="p0")


@pytest.mark.parametrize("step", [1, 2, 7, 100])
def test_hello_in_pieces(weir, authority, step):
    client = weir.connect()
    hello = Hello(client, context(authority, "postgresql"))
    for at in range(0, len(hello.record), step):
        client.send(hello.record[at:at + step])
        if at < 20:
            weir.barrier()
    hello.finish(m.startup(user="app", database="p0"))
    assert hello.read(1) == b"R"


@pytest.mark.parametrize("step", [1, 13])
def test_hello_of_many_kilobytes_and_records(weir, authority, step):
    """Longer than pgweir's read buffer before login."""
    client = weir.connect()
    names = ["n%d-%s" % (n, "x" * 200) for n in range(60)]
    hello = Hello(client, context(authority, *names, "postgresql"))
    assert len(hello.record) > 12000
    fragments = hello.record[5:]
    record = b"".join(hello.record[:3] + len(part).to_bytes(2, "big") + part for part in
                      (fragments[at:at + 900] for at in range(0, len(fragments), 900)))
    for at in range(0, len(record), 1000 * step):
        client.send(record[at:at + 1000 * step])
    hello.finish(m.startup(user="app", database="p0"))
    assert hello.read(1) == b"R"


def test_startup_packet_with_the_last_flight(weir, authority):
    """In one write: the last of the handshake, the start-up packet and a query."""
    client = weir.connect()
    hello = Hello(client, context(authority, "postgresql"))
    client.send(hello.record)
    hello.finish(m.startup(user="app", database="p0"), m.query("at once"))
    got = b""
    while b"at once" not in got:
        got += hello.read(65536)


def test_session_is_resumed(weir, authority):
    tls = context(authority, "postgresql")
    first = direct(weir, tls)
    first.login(user="app", database="p0")
    second = weir.connect()
    second.sock = tls.wrap_socket(second.sock, server_hostname="localhost", session=first.sock.session)
    assert second.sock.session_reused and second.sock.selected_alpn_protocol() == "postgresql"
    second.login(user="app", database="p0")


def test_cancel_over_direct_tls(scene, authority, settings):
    fake = scene.mini()
    weir = transactions(scene, fake, **settings)
    client = direct(weir, context(authority, "postgresql"))
    client.login(user="app", database="p0", protocol=m.PROTOCOL_3_2)
    for way in ("direct", "asked", "clear"):
        before = len(fake.queries)
        client.send(m.query("wait"))
        fake.until(lambda: len(fake.queries) > before, "the query runs")      # pylint: disable=cell-var-from-loop
        request = weir.connect()
        if way == "direct":
            request.sock = context(authority, "postgresql").wrap_socket(request.sock, server_hostname="localhost")
        elif way == "asked":
            request.start_tls(context(authority))
        request.send(m.cancel_request(client.pid, client.key))
        request.expect_closed()
        assert client.result().error == CANCELLED


# --- it is refused

def alert(client):
    """The alert that a handshake ended with, as its number: nothing but alerts may come."""
    data = client.drain_bytes()
    assert data[:1] == b"\x15" and len(data) == 7 and data[5] == 2, data
    return data[6]


def test_no_alpn_gets_its_alert(weir, authority):
    client = weir.connect()
    client.send(Hello(client, context(authority)).record)
    assert alert(client) == 120
    weir.wait_log("closing because: TLS handshake failed: no application protocol")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        direct(weir, context(authority))


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", ["h2", "postgres", "postgresql2", "Postgresql"])
def test_another_alpn_gets_its_alert(weir, authority, name, asked):
    client = weir.connect()
    if asked:
        client.send(m.SSL_REQUEST)
        assert client.read_bytes(1) == b"S"
    client.send(Hello(client, context(authority, name)).record)
    assert alert(client) == 120
    weir.wait_log("closing because: TLS handshake failed: no application protocol")


@pytest.mark.parametrize("unix", [False, True])
def test_direct_tls_is_refused_without_tls(scene, authority, settings, unix):
    """As PostgreSQL does it: without a word, which would not be understood."""
    weir = transactions(scene, scene.mini(), **settings if unix else {})
    client = weir.connect(unix=unix)
    client.send(Hello(client, context(authority, "postgresql")).record)
    assert client.drain_bytes() == b""
    weir.wait_log("closing because: TLS handshake failed: direct TLS, which is not offered here")
    assert weir.client(unix=unix).query("unharmed").value == "unharmed"


@pytest.mark.parametrize("request_", [m.SSL_REQUEST, m.GSSENC_REQUEST])
def test_hello_after_a_declined_ssl_request(scene, authority, request_, settings):
    weir = transactions(scene, scene.mini(), **dict(settings, client_tls_sslmode="disable"))
    client = weir.connect()
    client.send(request_)
    assert client.read_bytes(1) == b"N"
    client.send(Hello(client, context(authority, "postgresql")).record)
    (error,) = client.drain()
    assert m.read_error(error.body)["M"].startswith("bad packet header: '160301")


def test_hello_after_a_gssenc_request(weir, authority):
    """Only the first byte of the connection selects direct TLS; TLS is still available with an SSLRequest."""
    client = weir.connect()
    client.send(m.GSSENC_REQUEST)
    assert client.read_bytes(1) == b"N"
    client.send(Hello(client, context(authority, "postgresql")).record)
    (error,) = client.drain()
    assert m.read_error(error.body)["M"].startswith("bad packet header: '160301")
    other = weir.connect()
    other.send(m.GSSENC_REQUEST)
    assert other.read_bytes(1) == b"N"
    other.start_tls(context(authority, "postgresql"))
    other.login(user="app", database="p0")


@pytest.mark.parametrize("packet", [m.SSL_REQUEST, m.startup(user="app", database="p0"), b"\x16", bytes(3000)])
def test_cleartext_after_the_hello(weir, authority, packet):
    """Cleartext is not accepted as the client's data (CVE-2021-3935 had such a gap after SSLRequest)."""
    client = weir.connect()
    client.send(Hello(client, context(authority, "postgresql")).record, packet)
    client.shut_writing()
    data = client.drain_bytes()
    assert b"SFATAL" not in data and not data.startswith(b"R")
    weir.wait_log("closing because: TLS handshake failed")
    assert direct(weir, context(authority, "postgresql")).login(user="app", database="p0")


@pytest.mark.parametrize("tail", [b"", b"\x03", b"\x03\x01\xff\xff", b"\x03\x01\x00\x05hello", b"\x03\x01\x00\x00",
                                  b"\x00" * 9000])
def test_invalid_data_that_begins_like_tls(weir, authority, tail):
    client = weir.connect()
    client.send(b"\x16" + tail)
    client.shut_writing()
    data = client.drain_bytes()
    assert data == b"" or data[:1] == b"\x15"
    weir.wait_log("closing because: TLS handshake failed")
    assert direct(weir, context(authority, "postgresql")).login(user="app", database="p0")


def test_ssl_request_inside_direct_tls(weir, authority):
    client = direct(weir, context(authority, "postgresql"))
    client.send(m.SSL_REQUEST)
    (error,) = client.drain()
    assert m.read_error(error.body)["M"] == "unexpected packet type during login: SSLRequest"


def test_gssenc_request_inside_direct_tls(weir, authority):
    client = direct(weir, context(authority, "postgresql"))
    client.send(m.GSSENC_REQUEST)
    assert client.read_bytes(1) == b"N"
    client.login(user="app", database="p0")


def test_hello_inside_direct_tls(weir, authority):
    client = direct(weir, context(authority, "postgresql"))
    client.send(Hello(client, context(authority, "postgresql")).record)
    (error,) = client.drain()
    assert m.read_error(error.body)["M"].startswith("bad packet header: '160301")


def test_hello_that_is_never_finished(scene, authority, settings):
    weir = transactions(scene, scene.mini(), client_login_timeout=0.3, **settings)
    client = weir.connect()
    client.send(Hello(client, context(authority, "postgresql")).record[:50])
    client.expect_closed()
    weir.wait_log("closing because: client_login_timeout")


def test_client_that_leaves_at_every_byte_of_its_hello(weir, authority):
    record = Hello(None, context(authority, "postgresql")).record
    for cut in range(1, len(record) + 1, 5):
        client = weir.connect()
        client.send(record[:cut])
        client.close() if cut % 2 else client.abort()
    assert direct(weir, context(authority, "postgresql")).login(user="app", database="p0")


def test_client_certificate_is_required_with_direct_tls(scene, authority, settings):
    weir = transactions(scene, scene.mini(), **dict(settings, client_tls_sslmode="verify-full",
                                                    client_tls_ca_file=authority.cert("ca")), auth_type="cert")
    shown = authority.client_context("client")
    shown.set_alpn_protocols(["postgresql"])
    client = direct(weir, shown)
    client.login(user="app", database="p0")
    assert client.query("known").value == "known"
    with pytest.raises((ssl.SSLError, Closed, ConnectionError, LoginRefused)):
        direct(weir, context(authority, "postgresql")).login(user="app", database="p0")
    weir.wait_log("TLS handshake failed: peer did not return a certificate")
