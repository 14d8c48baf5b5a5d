"""TLS to servers that begins without an SSLRequest, and ALPN."""
import ssl

import pytest

from support import messages as m
from support.scenes import transactions

CANCELLED = "canceling statement due to user request"
REQUIRE = {"server_tls_sslmode": "require"}
DIRECT = dict(REQUIRE, server_tls_sslnegotiation="direct")


def context(authority, *protocols):
    made = authority.server_context()
    if protocols:
        made.set_alpn_protocols(protocols)
    return made


@pytest.fixture
def fake(scene, authority):
    return scene.mini(tls=context(authority, "postgresql"))


def names_of(session):
    """The application protocol of a server's connection, and whether it began without an SSLRequest."""
    return session.sock.selected_alpn_protocol(), session.direct


def test_direct(scene, fake):
    weir = transactions(scene, fake, **DIRECT)
    assert weir.client().query("works").value == "works"
    (session,) = fake.started
    assert names_of(session) == ("postgresql", True)
    (row,) = weir.show("SERVERS")
    assert row["tls"] == "%s/%s" % (session.sock.version(), session.sock.cipher()[0])


def test_alpn_is_named_by_an_ssl_request_too(scene, fake):
    transactions(scene, fake, **REQUIRE).client().query("works")
    assert names_of(fake.started[0]) == ("postgresql", False)


def test_server_that_knows_no_alpn(scene, authority):
    """A server before PostgreSQL 17 is accepted if and only if an SSLRequest came first."""
    fake = scene.mini(tls=context(authority))
    weir = transactions(scene, fake, server_login_retry=0, server_down="fail", **REQUIRE)
    assert weir.client().query("works").value == "works"
    weir.admin("SET server_tls_sslnegotiation = 'direct'")
    words = weir.connect().refused(user="rival", database="p0")["M"]
    assert words == "server TLS: server does not confirm the application protocol (ALPN)"


def test_server_name_is_verified(scene, authority):
    authority.issue("elsewhere", "elsewhere.test", names="DNS:elsewhere.test")
    tls = authority.server_context("elsewhere")
    tls.set_alpn_protocols(["postgresql"])
    weir = transactions(scene, scene.mini(tls=tls), server_down="fail", server_tls_sslmode="verify-full",
                        server_tls_sslnegotiation="direct", server_tls_ca_file=authority.cert("ca"))
    words = weir.connect().refused(user="app", database="p0")["M"]
    assert words.startswith("server TLS: ") and "mismatch" in words


def test_server_that_wants_an_ssl_request(scene):
    """The server reads the ClientHello as a packet with an impossible length."""
    weir = transactions(scene, scene.mini(), server_down="fail", **DIRECT)
    words = weir.connect().refused(user="app", database="p0")["M"]
    assert words.startswith("server TLS: ")


def test_database_has_its_own_sslnegotiation(scene, fake):
    weir = scene.weir({"one": "host=127.0.0.1 port=%d sslnegotiation=direct" % fake.port, "two": fake}, **REQUIRE)
    for database in ("one", "two"):
        weir.client(database=database).query("something")
    assert [session.direct for session in fake.started] == [True, False]


@pytest.mark.parametrize("change", ["setting", "key"])
def test_changed_sslnegotiation_reconnects(scene, fake, change):
    weir = transactions(scene, fake, **REQUIRE)
    client = weir.client()
    client.query("before")
    if change == "setting":
        weir.admin("SET server_tls_sslnegotiation = 'direct'")
    else:
        weir.databases["p0"] = "host=127.0.0.1 port=%d dbname=p0 sslnegotiation=direct" % fake.port
        weir.write_ini()
        weir.admin("RELOAD")
    assert client.query("after").value == "after"
    assert [session.direct for session in fake.started] == [False, True]


def test_unix_sockets_stay_without_tls(scene, postgres):
    weir = scene.weir({"p0": "host=%s port=%d" % (postgres.directory, postgres.port)}, **DIRECT)
    assert weir.client().query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").value == "f"


@pytest.mark.parametrize("way", [DIRECT, REQUIRE])
@pytest.mark.parametrize("version", ["3.0", "3.2"])
def test_cancel_uses_the_negotiation_of_its_target(scene, fake, authority, way, version):
    went = []
    weir = transactions(scene, fake, server_max_protocol_version=version, **way)
    client = weir.client()
    client.send(m.query("wait"))
    fake.until(lambda: fake.queries, "the query runs")
    # a later setting does not apply to this connection's cancel request
    other = {DIRECT["server_tls_sslnegotiation"]: "postgres"}.get(way.get("server_tls_sslnegotiation"), "direct")
    weir.admin("SET server_tls_sslnegotiation = '%s'" % other)
    fake.on_cancel = lambda pid, key, connection: (went.append((connection.tls, connection.direct, key)),
                                                   fake.deliver_cancel(pid, key), connection.close())
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED
    assert went == [(True, way is DIRECT, fake.started[0].key)]


@pytest.mark.parametrize("way", [DIRECT, REQUIRE])
def test_client_gone_cancels_over_tls(scene, fake, authority, way):
    """pgweir's own cancel request, to the TLS server of a client that has left."""
    went = []
    weir = transactions(scene, fake, client_gone="cancel", client_gone_timeout=3600, **way)
    fake.on_cancel = lambda pid, key, connection: (went.append((connection.tls, connection.direct, pid, key)),
                                                   fake.deliver_cancel(pid, key), connection.close())
    client = weir.client()
    client.send(m.query("wait"))
    fake.until(lambda: fake.queries, "the query runs")
    client.close()
    assert weir.client().query("next").value == "next"
    assert went == [(True, way is DIRECT, fake.started[0].pid, fake.started[0].key)] and len(fake.started) == 1


def test_cancel_is_not_downgraded_to_cleartext(scene, authority):
    """With sslmode prefer a server may refuse TLS, but not for a cancel request to a TLS connection: the cancel key is a secret."""
    fake = scene.mini(tls=context(authority))
    weir = transactions(scene, fake, server_tls_sslmode="prefer", server_idle_timeout=3600)
    client = weir.client()
    client.send(m.query("wait"))
    fake.until(lambda: fake.queries, "the query runs")
    assert fake.started[0].tls
    fake.tls = None
    weir.cancel(client).expect_closed()
    weir.barrier()
    assert fake.cancels.empty()
    fake.release()
    client.result()


@pytest.mark.parametrize("sslmode", ["disable", "allow", "prefer"])
def test_weak_modes_are_refused_with_direct_tls(scene, sslmode):
    weir = transactions(scene, scene.mini(), server_tls_sslmode=sslmode, wait=False,
                        server_tls_sslnegotiation="direct", allow=r".")
    weir.expected_status = 1
    assert weir.wait_exit() == 1
    assert '"server_tls_sslnegotiation" direct needs "server_tls_sslmode" require' in weir.log() + weir.stderr()


def test_failed_handshakes_leave_nothing(scene, authority):
    """A server that breaks off in the middle, in each of several places."""
    fake = scene.mini(tls=Broken())
    weir = transactions(scene, fake, server_login_retry=0, server_down="fail", **DIRECT)
    for cut in range(4):
        fake.tls.cut = cut
        words = weir.connect().refused(user="app", database="p0")["M"]
        assert words.startswith("server TLS: "), words
    fake.tls = context(authority, "postgresql")
    assert weir.client().query("works").value == "works"


class Broken:
    """In place of an SSLContext: answers a hello with something, and is gone."""
    answers = (b"", b"\x16\x03\x03\x00\x02\x02", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"E\0\0\0\x08Mno\0")
    cut = 0

    def wrap_socket(self, sock, **_):
        sock.recv(65536)
        sock.sendall(self.answers[self.cut])
        raise ssl.SSLError("broken off")
