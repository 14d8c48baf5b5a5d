"""Peers that keep TLS busy with records that hold no data."""
import contextlib
import ssl
import subprocess

import pytest

from support import messages as m
from support.live import last_words
from support.ports import free_port
from support.rekey import Rekeying, change_keys
from support.scenes import transactions
from support.until import DEADLINE

ABUSE = "too many TLS messages without data"


def test_unauthenticated_client_with_endless_key_updates(scene, authority):
    weir = transactions(scene, scene.mini(), client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                        client_tls_key_file=authority.key("server"))
    client = weir.client()
    change_keys(weir)
    weir.wait_log("closing because: client TLS: " + ABUSE)
    assert client.query("still here").value == "still here"


def test_server_with_endless_key_updates(scene, authority):
    """The server reads the start-up packet and never answers."""
    port = free_port()
    # one connection, so that it ends with it
    server = Rekeying(b"SSL_do_handshake", "s_server", "-accept", "127.0.0.1:%d" % port, "-naccept", "1", "-alpn", "postgresql",
                      "-tls1_3", "-cert", authority.cert("server"), "-key", authority.key("server"))
    try:
        assert server.wait_word(b"ACCEPT")
        weir = transactions(scene, "host=127.0.0.1 port=%d" % port, server_tls_sslmode="require",
                            server_tls_sslnegotiation="direct", server_down="fail")
        client = weir.connect()
        client.send(m.startup(user="app", database="p0"))
        assert server.wait_word(b"CIPHER")
        server.change_keys()
        assert last_words(client)["M"] == "server TLS: " + ABUSE
    finally:
        server.end()


def test_client_cannot_choose_a_slow_key_exchange(scene, authority):
    """The largest group that OpenSSL has takes more than 100 ms of the event loop, for one hello."""
    settings = {"client_tls_sslmode": "allow", "client_tls_cert_file": authority.cert("server"), "client_tls_key_file": authority.key("server")}
    weir = transactions(scene, scene.mini(), **settings)
    chosen = transactions(scene, scene.mini(), **settings, client_tls_ecdhcurve="ffdhe3072")

    def agree(of, groups):
        command = ["openssl", "s_client", "-starttls", "postgres", "-connect", "127.0.0.1:%d" % of.port, "-tls1_3", "-brief", "-groups", groups]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE, check=False).stderr
        return "Protocol version: TLSv1.3" in said

    for slow in ("ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"):
        assert not agree(weir, slow)
    for fine in ("ffdhe2048", "X25519", "ffdhe8192:X25519"):
        assert agree(weir, fine)
    assert agree(chosen, "ffdhe3072")


def hears_of(scene, authority, *options):
    """The error that a client receives when the server of its database performs a TLS handshake of its own kind."""
    authority.issue("rsa", "localhost", rsa=True)
    port = free_port()
    server = Rekeying(b"", "s_server", "-accept", "127.0.0.1:%d" % port, "-alpn", "postgresql", "-cert", authority.cert("rsa"),
                      "-key", authority.key("rsa"), *options)
    try:
        assert server.wait_word(b"ACCEPT")
        weir = transactions(scene, "host=127.0.0.1 port=%d" % port, server_tls_sslmode="require", server_tls_sslnegotiation="direct",
                            server_down="fail")
        client = weir.connect()
        client.send(m.startup(user="app", database="p0"))
        return last_words(client)["M"]
    finally:
        server.end()


@pytest.mark.parametrize("group", ["ffdhe3072", "ffdhe8192"])
def test_server_cannot_choose_a_slow_key_exchange(scene, authority, group):
    """The largest group takes half a second, in which clients of other databases wait."""
    assert "alert handshake failure" in hears_of(scene, authority, "-tls1_3", "-groups", group)


def test_server_cannot_use_a_slow_group(scene, authority):
    """With TLS 1.2 the group is the server's."""
    group = authority.path("group.pem")
    subprocess.run(["openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe4096", "-out", group], check=True)
    assert hears_of(scene, authority, "-tls1_2", "-cipher", "DHE-RSA-AES256-GCM-SHA384", "-dhparam", group) == \
        "server TLS: refused: the Diffie-Hellman group has more than 3072 bits"


def test_large_key_does_not_select_a_slow_group(scene, authority):
    """OpenSSL takes a group as strong as the key of the certificate, which takes longer than the key itself."""
    authority.issue("large", "localhost", key="rsa 4096")
    weir = transactions(scene, scene.mini(), client_tls_sslmode="allow", client_tls_cert_file=authority.cert("large"),
                        client_tls_key_file=authority.key("large"))
    command = ["openssl", "s_client", "-starttls", "postgres", "-connect", "127.0.0.1:%d" % weir.port, "-tls1_2",
               "-cipher", "DHE-RSA-AES256-GCM-SHA384"]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE, check=False).stdout
    assert "Server Temp Key: DH, 3072 bits" in said


def shows_more(authority, name, make):
    """A context with a chain that ends with a certificate that is expensive to read."""
    authority.issue("slow", "slow", key="own curve")
    chain = authority.path(name + ".chain")
    with open(chain, "w", encoding="ascii") as f:
        for part in (name, "slow"):
            with open(authority.cert(part), encoding="ascii") as certificate:
                f.write(certificate.read())
    context = make()
    context.load_cert_chain(chain, authority.key(name))
    return context


REFUSED = "refused: the key of a certificate has parameters that are not a name"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_certificates_that_are_slow_to_read(scene, authority, version):
    """OpenSSL takes half a second for one, where its curve is chosen for that, and reads them all before it verifies the first."""
    weir = transactions(scene, scene.mini(), client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                        client_tls_key_file=authority.key("server"), client_tls_ca_file=authority.cert("ca"))
    context = shows_more(authority, "client", authority.client_context)
    context.minimum_version = context.maximum_version = version
    client = weir.connect()
    with contextlib.suppress(OSError):
        client.start_tls(context)
        client.send(m.startup(user="app", database="p0"))
        assert not client.sock.recv(1)
    weir.wait_log("closing because: TLS handshake failed: " + REFUSED)
    client = weir.connect()
    client.start_tls(authority.client_context("client"))
    client.login(user="app", database="p0")
    assert client.query("shown").value == "shown"


def test_certificates_of_a_server_that_are_slow_to_read(scene, authority):
    weir = transactions(scene, scene.mini(tls=shows_more(authority, "server", authority.server_context)), server_tls_sslmode="require",
                        server_down="fail")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert last_words(client)["M"] == "server TLS: " + REFUSED
