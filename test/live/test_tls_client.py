"""TLS between clients and pgweir: required and allowed TLS, verification, negotiation, and changes by a RELOAD."""
import shutil
import socket
import ssl

import psycopg2
import pytest

from support import messages as m
from support.live import ended_with, pid_of
from support.wire import Closed


def settings(authority, sslmode="require", name="server", **more):
    return dict({"client_tls_sslmode": sslmode, "client_tls_cert_file": authority.cert(name),
                 "client_tls_key_file": authority.key(name), "client_tls_ca_file": authority.cert("ca")}, **more)


def tls_client(weir, context, user="app", **login):
    client = weir.connect()
    client.start_tls(context)
    client.login(user=user, database="p0", password=weir.users.get(user), **login)
    return client


def libpq(weir, **options):
    return psycopg2.connect(host="127.0.0.1", port=weir.port, user="app", dbname="p0", password="app-secret", **options)


# --- sslmode

def test_disable(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority, "disable"))
    libpq(weir, sslmode="prefer").close()
    with pytest.raises(psycopg2.OperationalError, match="does not support SSL"):
        libpq(weir, sslmode="require")


@pytest.mark.parametrize("sslmode", ["allow", "prefer"])
def test_allow_and_prefer_accept_both(scene, postgres, authority, sslmode):
    weir = scene.weir({"p0": postgres}, **settings(authority, sslmode))
    libpq(weir, sslmode="disable").close()
    libpq(weir, sslmode="require").close()
    libpq(weir, sslmode="verify-full", sslrootcert=authority.cert("ca")).close()
    with pytest.raises(psycopg2.OperationalError, match="verify failed"):
        libpq(weir, sslmode="verify-ca", sslrootcert=authority.cert("other"))


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_plain_text_is_refused_from_require_on(scene, postgres, authority, sslmode):
    weir = scene.weir({"p0": postgres}, **settings(authority, sslmode))
    fields = weir.connect().refused(user="app", database="p0")
    assert (fields["M"], fields["C"]) == ("SSL required", "28000")
    weir.wait_log("closing because: SSL required")
    assert pid_of(weir.client(unix=True))


def test_require_needs_no_certificate(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority, "require"))
    assert pid_of(tls_client(weir, authority.client_context()))


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
def test_verify_requires_a_certificate_of_the_right_authority(scene, postgres, authority, sslmode):
    """Trap 73."""
    authority.issue("foreign", "app", by="other")
    weir = scene.weir({"p0": postgres}, **settings(authority, sslmode))
    assert pid_of(tls_client(weir, authority.client_context("client")))
    for name in (None, "foreign"):
        with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
            tls_client(weir, authority.client_context(name))
    weir.wait_log("TLS handshake failed", times=2)
    assert pid_of(tls_client(weir, authority.client_context("client")))


def test_certificate_is_not_needed_but_checked_when_shown(scene, postgres, authority):
    authority.issue("foreign", "app", by="other")
    weir = scene.weir({"p0": postgres}, **settings(authority, "require"))
    with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
        tls_client(weir, authority.client_context("foreign"))


# --- auth_type cert

def test_cert(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, auth_type="cert", **settings(authority, "verify-full"))
    assert tls_client(weir, authority.client_context("client")).query("SELECT current_user").value == "app"
    client = weir.connect()
    client.start_tls(authority.client_context("client"))
    client.send(m.startup(user="rival", database="p0"))
    ended_with(client, "certificate authentication failed", "28000")


def test_cert_of_an_unlisted_user(scene, postgres, authority):
    authority.issue("stranger", "stranger")
    weir = scene.weir({"p0": postgres}, auth_type="cert", **settings(authority, "verify-full"))
    client = weir.connect()
    client.start_tls(authority.client_context("stranger"))
    client.send(m.startup(user="stranger", database="p0"))
    ended_with(client, "certificate authentication failed", "28000")


def test_cert_over_a_unix_socket_admits_no_client(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, auth_type="cert", **settings(authority, "verify-full"))
    assert weir.connect(unix=True).refused(user="app", database="p0")["M"] == "certificate authentication failed"


# --- negotiation

@pytest.mark.parametrize("protocols, least, most, agreed", [
    ("secure", "TLSv1_2", "TLSv1_3", "TLSv1.3"), ("tlsv1.2", "TLSv1_2", "TLSv1_3", "TLSv1.2"),
    ("tlsv1.3", "TLSv1_2", "TLSv1_3", "TLSv1.3"), ("tlsv1.2,tlsv1.3", "TLSv1_2", "TLSv1_2", "TLSv1.2"),
    ("tlsv1.2", "TLSv1_3", "TLSv1_3", None), ("tlsv1.3", "TLSv1_2", "TLSv1_2", None)])
def test_protocols(scene, postgres, authority, protocols, least, most, agreed):
    weir = scene.weir({"p0": postgres}, **settings(authority, client_tls_protocols=protocols))
    context = authority.client_context()
    context.minimum_version, context.maximum_version = ssl.TLSVersion[least], ssl.TLSVersion[most]
    if agreed:
        client = tls_client(weir, context)
        assert client.sock.version() == agreed
        (row,) = [row for row in weir.show("CLIENTS") if row["database"] == "p0"]
        assert row["tls"] == "%s/%s" % (agreed, client.sock.cipher()[0])
        weir.wait_log("login attempt: db=p0 user=app tls=%s/%s " % (agreed, client.sock.cipher()[0]))
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            tls_client(weir, context)
        weir.wait_log("TLS handshake failed")


def test_ciphers_of_tls_1_2(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(
        authority, client_tls_protocols="tlsv1.2", client_tls_ciphers="ECDHE-ECDSA-CHACHA20-POLY1305"))
    assert tls_client(weir, authority.client_context()).sock.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
    context = authority.client_context()
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        tls_client(weir, context)


def test_suites_of_tls_1_3(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority, client_tls13_ciphers="TLS_CHACHA20_POLY1305_SHA256"))
    assert tls_client(weir, authority.client_context()).sock.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"


def test_suites_of_tls_1_3_by_set(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority))
    with pytest.raises(psycopg2.Error, match="TLS 1.3 ciphers"):
        weir.admin("SET client_tls13_ciphers = 'TLS_NO_SUCH_SUITE'")
    assert [row["value"] for row in weir.show("CONFIG") if row["key"] == "client_tls13_ciphers"] == [""]
    weir.admin("SET client_tls13_ciphers = 'TLS_CHACHA20_POLY1305_SHA256'")
    assert tls_client(weir, authority.client_context()).sock.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"


@pytest.mark.parametrize("curve, offered, works", [
    ("auto", "prime256v1", True), ("secp384r1", "secp384r1", True), ("secp384r1", "prime256v1", False)])
def test_curve(scene, postgres, authority, curve, offered, works):
    weir = scene.weir({"p0": postgres}, **settings(authority, client_tls_ecdhcurve=curve))
    context = authority.client_context()
    context.set_ecdh_curve(offered)
    if works:
        assert pid_of(tls_client(weir, context))
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            tls_client(weir, context)


@pytest.mark.parametrize("parameters, works", [("auto", True), ("none", False)])
def test_dheparams(scene, postgres, authority, parameters, works):
    authority.issue("rsa", "localhost", names="DNS:localhost", rsa=True)
    weir = scene.weir({"p0": postgres}, **settings(authority, name="rsa", client_tls_protocols="tlsv1.2",
                                                   client_tls_dheparams=parameters))
    context = authority.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("DHE-RSA-AES256-GCM-SHA384")
    if works:
        assert tls_client(weir, context).sock.cipher()[0] == "DHE-RSA-AES256-GCM-SHA384"
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            tls_client(weir, context)


def resumed(weir, context):
    """Returns whether a second connection resumes the session of the first."""
    first = tls_client(weir, context)
    first.query("SELECT 1")
    second = weir.connect()
    second.send(m.SSL_REQUEST)
    assert second.read_bytes(1) == b"S"
    second.sock = context.wrap_socket(second.sock, server_hostname="localhost", session=first.sock.session)
    second.login(user="app", database="p0")
    assert pid_of(second)
    return second.sock.session_reused


def test_session_is_resumed_by_ticket(scene, postgres, authority):
    assert resumed(scene.weir({"p0": postgres}, **settings(authority)), authority.client_context())


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("sslmode, more", [("require", {}), ("verify-full", {"auth_type": "cert"})])
def test_ticket_does_not_replace_a_certificate(scene, postgres, authority, version, sslmode, more):
    """A ticket would admit its owner after the certificate has expired."""
    context = authority.client_context("client")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    assert not resumed(scene.weir({"p0": postgres}, **settings(authority, sslmode, **more)), context)


# --- the order of things

def test_cleartext_after_an_ssl_request(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority))
    client = weir.connect()
    client.send(m.SSL_REQUEST, m.startup(user="app", database="p0"))
    ended_with(client, "received unencrypted data after SSL request")


def test_tls_is_not_offered_on_unix_sockets(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority))
    client = weir.connect(unix=True)
    client.send(m.SSL_REQUEST)
    assert client.read_bytes(1) == b"N"
    client.login(user="app", database="p0")


def test_second_ssl_request_inside_tls(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority))
    client = weir.connect()
    client.start_tls(authority.client_context())
    client.send(m.SSL_REQUEST)
    (error,) = client.drain()
    assert error.type == "E"


def test_client_that_never_finishes_the_handshake(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, client_login_timeout=0.3, **settings(authority))
    client = weir.connect()
    client.send(m.SSL_REQUEST)
    assert client.read_bytes(1) == b"S"
    client.send(b"\x16\x03\x01")
    client.expect_closed()
    weir.admin("SET client_login_timeout = 60")
    assert pid_of(tls_client(weir, authority.client_context()))


def test_invalid_handshake(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority))
    for junk in (b"GET / HTTP/1.0\r\n\r\n", bytes(2000), m.startup(user="app", database="p0")):
        client = weir.connect()
        client.send(m.SSL_REQUEST)
        assert client.read_bytes(1) == b"S"
        client.send(junk)
        client.sock.shutdown(socket.SHUT_WR)
        try:
            while client.sock.recv(4096):
                pass
        except ConnectionError:
            pass
    weir.wait_log("TLS handshake failed", times=3)
    assert pid_of(tls_client(weir, authority.client_context()))


@pytest.mark.parametrize("size", [1, 100, 16383, 16384, 16385, 100000, 3000000])
def test_results_and_queries_of_every_size(scene, postgres, authority, size):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", **settings(authority))
    client = tls_client(weir, authority.client_context())
    text = "x" * size
    assert client.query("SELECT '%s'" % text).value == text


# --- RELOAD

def serial(weir, authority):
    client = weir.connect()
    client.start_tls(authority.client_context())
    number = client.sock.getpeercert()["serialNumber"]
    client.close()
    return number


def test_reload_reads_changed_files(scene, postgres, authority):
    mine = {name: "%s/%s" % (scene.directory, name) for name in ("crt", "key")}

    def install(name):
        shutil.copy(authority.cert(name), mine["crt"])
        shutil.copy(authority.key(name), mine["key"])

    authority.issue("renewed", "localhost", names="DNS:localhost,IP:127.0.0.1")
    install("server")
    weir = scene.weir({"p0": postgres}, client_tls_sslmode="require", client_tls_cert_file=mine["crt"],
                      client_tls_key_file=mine["key"])
    old = serial(weir, authority)
    stays = tls_client(weir, authority.client_context())
    assert serial(weir, authority) == old
    install("renewed")
    assert weir.admin("RELOAD") == "RELOAD"
    assert serial(weir, authority) != old
    assert pid_of(stays)


def test_reload_of_a_broken_file_changes_nothing(scene, postgres, authority):
    path = "%s/crt" % scene.directory
    shutil.copy(authority.cert("server"), path)
    weir = scene.weir({"p0": postgres}, client_tls_sslmode="require", client_tls_cert_file=path,
                      client_tls_key_file=authority.key("server"), allow="RELOAD")
    with open(path, "w", encoding="ascii") as f:
        f.write("no certificate")
    with pytest.raises(psycopg2.Error, match="RELOAD failed"):
        weir.admin("RELOAD")
    assert pid_of(tls_client(weir, authority.client_context()))


def test_reload_turns_tls_on_and_off(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, **settings(authority, "disable"))
    plain = weir.client()
    weir.admin("SET client_tls_sslmode = 'require'")
    assert pid_of(plain)
    assert pid_of(tls_client(weir, authority.client_context()))
    assert weir.connect().refused(user="app", database="p0")["M"] == "SSL required"


# --- revoked certificates

def test_revoked_certificate(scene, postgres, authority):
    authority.issue("revoked", "app")
    path = scene.directory + "/crl"
    shutil.copy(authority.revoke("none"), path)
    weir = scene.weir({"p0": postgres}, allow="RELOAD", **settings(authority, client_tls_crl_file=path))
    revoked = tls_client(weir, authority.client_context("revoked"))
    shutil.copy(authority.revoke("one", "revoked"), path)
    weir.admin("RELOAD")
    with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
        tls_client(weir, authority.client_context("revoked"))
    weir.wait_log("TLS handshake failed: .*revoked")
    assert pid_of(tls_client(weir, authority.client_context("client")))
    assert pid_of(revoked)              # connected before
    # a list of another authority says nothing about this one
    shutil.copy(authority.revoke("foreign", by="other"), path)
    weir.admin("RELOAD")
    with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
        tls_client(weir, authority.client_context("client"))
    weir.wait_log("TLS handshake failed: .*unable to get certificate CRL")
    weir.admin("SET client_tls_crl_file = ''")
    assert pid_of(tls_client(weir, authority.client_context("revoked")))
    with open(path, "w", encoding="ascii") as f:
        f.write("no list")
    with pytest.raises(psycopg2.Error, match="RELOAD failed"):
        weir.admin("RELOAD")
    weir.wait_log("ERROR TLS setup failed: failed to load CRL: ")
