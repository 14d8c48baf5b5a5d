"""TLS between pgweir and PostgreSQL: sslmodes, names, certificates, negotiation, and changes by a RELOAD."""
import re
import shutil

import psycopg2
import pytest

from support import messages as m
from support.live import NEVER, ask_long, pid_of
from support.postgres import HBA


def tls_of(client):
    """(ssl, version, cipher) as the server sees this connection."""
    result = client.query("SELECT ssl, version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    return tuple(column and column.decode() for column in result.rows[0])


@pytest.mark.parametrize("sslmode, encrypted", [
    ("disable", "f"), ("allow", "t"), ("prefer", "t"), ("require", "t"), ("verify-ca", "t"), ("verify-full", "t")])
def test_sslmode_with_a_server_that_has_tls(scene, postgres, authority, sslmode, encrypted):
    weir = scene.weir({"p0": postgres}, server_tls_sslmode=sslmode, server_tls_ca_file=authority.cert("ca"))
    client = weir.client()
    assert tls_of(client)[0] == encrypted
    (row,) = weir.show("SERVERS")
    assert bool(row["tls"]) == (encrypted == "t")


def test_default_is_prefer(scene, postgres):
    assert tls_of(scene.weir({"p0": postgres}).client())[0] == "t"


@pytest.mark.parametrize("sslmode", ["disable", "allow", "prefer"])
def test_server_without_tls_is_accepted_up_to_prefer(scene, sslmode):
    weir = scene.weir(scene.mini(), server_tls_sslmode=sslmode)
    assert weir.client().query("fine").value == "fine"


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_server_without_tls_is_refused_from_require_on(scene, authority, sslmode):
    weir = scene.weir(scene.mini(), server_tls_sslmode=sslmode, server_tls_ca_file=authority.cert("ca"), server_down="fail")
    fields = weir.connect().refused(user="app", database="p0")
    assert fields["M"] == "server TLS: server does not support SSL, but SSL was required"


def test_no_tls_over_a_unix_socket(scene, postgres):
    weir = scene.weir({"p0": "host=%s port=%d" % (postgres.directory, postgres.port)}, server_tls_sslmode="require")
    assert tls_of(weir.client())[0] == "f"


def test_require_checks_nothing(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, server_tls_sslmode="require", server_tls_ca_file=authority.cert("other"))
    assert tls_of(weir.client())[0] == "t"


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
def test_certificate_of_another_authority(scene, postgres, authority, sslmode):
    weir = scene.weir({"p0": postgres}, server_tls_sslmode=sslmode, server_tls_ca_file=authority.cert("other"), server_down="fail")
    words = weir.connect().refused(user="app", database="p0")["M"]
    assert words.startswith("server TLS: ") and "certificate verify failed" in words


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
@pytest.mark.parametrize("trusted, what", [("ca", "t"), ("other", None)])
def test_authorities_of_the_system(scene, postgres, authority, monkeypatch, sslmode, trusted, what):
    """Without server_tls_ca_file; OpenSSL lets itself be told where the system's are."""
    monkeypatch.setenv("SSL_CERT_FILE", authority.cert(trusted))
    monkeypatch.setenv("SSL_CERT_DIR", scene.directory)
    weir = scene.weir({"p0": postgres}, server_tls_sslmode=sslmode, server_down="fail")
    weir.wait_log("WARNING .*\"server_tls_ca_file\" is not set")
    if what:
        assert tls_of(weir.client())[0] == what
    else:
        assert "certificate verify failed" in weir.connect().refused(user="app", database="p0")["M"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_verify_full_by_address_and_by_name(scene, postgres, authority, host):
    weir = scene.weir({"p0": "host=%s port=%d" % (host, postgres.port)}, server_tls_sslmode="verify-full",
                      server_tls_ca_file=authority.cert("ca"))
    assert tls_of(weir.client())[0] == "t"


@pytest.mark.parametrize("names, host, works", [
    ("DNS:localhost", "localhost", True), ("DNS:localhost", "127.0.0.1", False),
    ("IP:127.0.0.1", "127.0.0.1", True), ("IP:127.0.0.1", "localhost", False),
    ("DNS:elsewhere.example", "localhost", False), ("DNS:127.0.0.1", "127.0.0.1", False)])
def test_verify_full_compares_names(scene, authority, names, host, works):
    name = "n" + "".join(letter for letter in names if letter.isalnum())
    authority.issue(name, "pgweir test", names=names)
    fake = scene.mini(tls=authority.server_context(name))
    weir = scene.weir({"p0": "host=%s port=%d" % (host, fake.port)}, server_tls_sslmode="verify-full", server_down="fail",
                      server_tls_ca_file=authority.cert("ca"))
    if works:
        assert weir.client().query("fine").value == "fine"
    else:
        words = weir.connect().refused(user="app", database="p0")["M"]
        assert words.startswith("server TLS: ") and "mismatch" in words
    weir.admin("SET server_tls_sslmode = 'verify-ca'")
    weir.admin("SET server_login_retry = 0")
    assert weir.client().query("fine").value == "fine"


@pytest.mark.parametrize("sslmode", ["allow", "prefer", "require", "verify-ca", "verify-full"])
@pytest.mark.parametrize("host, sent", [("localhost", "localhost"), ("127.0.0.1", None)])
def test_name_is_sent_in_every_mode(scene, authority, sslmode, host, sent):
    context, seen = authority.server_context(), []
    context.sni_callback = lambda sock, name, _: seen.append(name)
    fake = scene.mini(tls=context)
    weir = scene.weir({"p0": "host=%s port=%d" % (host, fake.port)}, server_tls_sslmode=sslmode,
                      server_tls_ca_file=authority.cert("ca"))
    weir.client()
    assert seen == [sent]


def test_own_certificate(scene, authority):
    server = scene.postgres(authority=authority)
    server.write_hba("hostssl all app 127.0.0.1/32 cert\n" + HBA)
    server.execute("SELECT pg_reload_conf()")
    weir = scene.weir({"p0": server}, server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("ca"),
                      server_tls_cert_file=authority.cert("client"), server_tls_key_file=authority.key("client"))
    client = weir.client()
    assert client.query("SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()").value == "/CN=app"


@pytest.mark.parametrize("settings, version, cipher", [
    ({"server_tls_protocols": "tlsv1.2"}, "TLSv1.2", None), ({"server_tls_protocols": "tlsv1.3"}, "TLSv1.3", None),
    ({"server_tls_protocols": "tlsv1.2", "server_tls_ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"}, "TLSv1.2",
     "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ({"server_tls13_ciphers": "TLS_CHACHA20_POLY1305_SHA256"}, "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256")])
def test_protocols_and_ciphers(scene, postgres, settings, version, cipher):
    weir = scene.weir({"p0": postgres}, server_tls_sslmode="require", **settings)
    client = weir.client()
    seen = tls_of(client)
    assert seen[:2] == ("t", version) and cipher in (None, seen[2])
    (row,) = weir.show("SERVERS")
    assert row["tls"] == "%s/%s" % seen[1:]


def test_suites_of_tls_1_3_by_set(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_tls_sslmode="require")
    client = weir.client()
    assert tls_of(client)[2] != "TLS_CHACHA20_POLY1305_SHA256"
    with pytest.raises(psycopg2.Error, match="TLS 1.3 ciphers"):
        weir.admin("SET server_tls13_ciphers = 'TLS_NO_SUCH_SUITE'")
    weir.admin("SET server_tls13_ciphers = 'TLS_CHACHA20_POLY1305_SHA256'")
    assert tls_of(client)[2] == "TLS_CHACHA20_POLY1305_SHA256"


def test_session_is_resumed(scene, authority):
    fake = scene.mini(tls=authority.server_context())
    weir = scene.weir(fake, pool_mode="transaction", server_tls_sslmode="require")
    for _ in range(4):
        weir.client().query("BEGIN")
    resumed = [session.sock.session_reused for session in fake.started]
    assert len(resumed) == 4 and not resumed[0] and any(resumed[1:]), resumed


def test_cancel_goes_over_tls_too(scene, postgres):
    weir = scene.weir({"p0": postgres}, server_tls_sslmode="require")
    client = weir.client()
    ask_long(client)
    with weir.cancel(client):
        assert client.result().errors[0]["C"] == "57014"


# --- values of one database

def place(postgres, database="p0", more=""):
    return "host=127.0.0.1 port=%d dbname=%s %s" % (postgres.port, database, more)


def test_each_database_has_its_sslmode(scene, postgres, authority):
    weir = scene.weir({"p0": place(postgres), "p1": place(postgres, "p1", "sslmode=require"), "p2": place(postgres, "p2", "sslmode=disable"),
                       "p3": place(postgres, "p3", "sslmode=verify-full sslrootcert=" + authority.cert("ca")),
                       "*": place(postgres, "p0", "sslmode=require")},
                      server_tls_sslmode="disable", show_extra_columns=1)
    assert [tls_of(weir.client(database=name))[0] for name in ("p0", "p1", "p2", "p3", "star")] == ["f", "t", "f", "t", "t"]
    modes = {row["name"]: row["sslmode"] for row in weir.show("DATABASES")}
    assert modes["p0"] is None and (modes["p1"], modes["p3"], modes["star"]) == ("require", "verify-full", "require")


def test_verification_of_one_database(scene, postgres, authority):
    weir = scene.weir({"p0": place(postgres), "p1": place(postgres, "p1", "sslrootcert=" + authority.cert("other")),
                       "p2": place(postgres, "p2", "sslmode=require sslrootcert=" + authority.cert("other"))},
                      server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("ca"), server_down="fail")
    assert tls_of(weir.client())[0] == tls_of(weir.client(database="p2"))[0] == "t"
    assert "certificate verify failed" in weir.connect().refused(user="app", database="p1")["M"]


def test_name_in_the_certificate_is_checked_for_one_database(scene, authority):
    authority.issue("elsewhere", "pgweir test", names="DNS:elsewhere.example")
    fake = scene.mini(tls=authority.server_context("elsewhere"))
    weir = scene.weir({"p0": place(fake), "p1": place(fake, "p1", "sslmode=verify-full")}, server_tls_sslmode="verify-ca",
                      server_tls_ca_file=authority.cert("ca"), server_down="fail")
    assert weir.client().query("fine").value == "fine"
    assert "mismatch" in weir.connect().refused(user="app", database="p1")["M"]


@pytest.mark.parametrize("sslmode", ["require", "verify-full"])
def test_server_without_tls_is_refused_for_one_database(scene, authority, sslmode):
    fake = scene.mini()
    weir = scene.weir({"p0": place(fake), "p1": place(fake, "p1", "sslmode=%s sslrootcert=%s" % (sslmode, authority.cert("ca")))},
                      server_tls_sslmode="disable", server_down="fail")
    assert weir.client().query("fine").value == "fine"
    assert "does not support SSL, but SSL was required" in weir.connect().refused(user="app", database="p1")["M"]


def test_certificate_for_one_database(scene, authority):
    server = scene.postgres(authority=authority)
    server.write_hba("hostssl p1 app 127.0.0.1/32 cert\n" + HBA)
    server.execute("SELECT pg_reload_conf()")
    own = "sslcert=%s sslkey=%s" % (authority.cert("client"), authority.key("client"))
    weir = scene.weir({"p0": place(server), "p1": place(server, "p1", own)}, server_tls_sslmode="require")
    sql = "SELECT coalesce(client_dn, 'none') FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    assert [weir.client(database=name).query(sql).value for name in ("p0", "p1")] == ["none", "/CN=app"]


def test_cancel_uses_the_context_of_its_database(scene, postgres, authority):
    weir = scene.weir({"p0": place(postgres, "p0", "sslmode=verify-full sslrootcert=" + authority.cert("ca"))}, server_tls_sslmode="disable")
    client = weir.client()
    ask_long(client)
    with weir.cancel(client):
        assert client.result().errors[0]["C"] == "57014"
    connections = re.findall("SSL established", weir.log())
    assert len(connections) == 2, weir.log()


def test_changed_file_of_one_database(scene, postgres, authority):
    path = scene.directory + "/ca"
    shutil.copy(authority.cert("ca"), path)
    weir = scene.weir({"p0": place(postgres), "p1": place(postgres, "p1", "sslmode=verify-ca sslrootcert=" + path)}, pool_mode="transaction",
                      server_tls_sslmode="require", server_idle_timeout=NEVER, show_extra_columns=1)
    clients = [weir.client(database=name) for name in ("p0", "p1")]
    pids = [pid_of(client) for client in clients]
    weir.admin("RELOAD")
    assert [pid_of(client) for client in clients] == pids
    with open(path, "ab") as f, open(authority.cert("other"), "rb") as more:
        f.write(more.read())
    weir.admin("RELOAD")
    assert pid_of(clients[0]) == pids[0] and pid_of(clients[1]) != pids[1]
    # a file that cannot be used changes nothing, and the problem has the line
    with open(path, "w", encoding="ascii") as f:
        f.write("no PEM")
    with pytest.raises(psycopg2.Error, match=r"failed to load CA.*servers of database \"p1\".*"):
        weir.admin("RELOAD")
    weir.wait_log(r"ERROR .*failed to load CA: .*servers of database \"p1\"\) \(.*pgweir.ini:3\)")
    assert [pid_of(client) for client in clients][0] == pids[0]


def test_reload_changes_the_sslmode_of_one_database(scene, postgres):
    weir = scene.weir({"p0": place(postgres), "p1": place(postgres, "p1", "sslmode=disable")}, pool_mode="transaction",
                      server_tls_sslmode="disable")
    clients = [weir.client(database=name) for name in ("p0", "p1")]
    pids = [pid_of(client) for client in clients]
    weir.databases["p1"] = place(postgres, "p1", "sslmode=require")
    weir.write_ini()
    weir.admin("RELOAD")
    assert [tls_of(client)[0] for client in clients] == ["f", "t"]
    assert pid_of(clients[0]) == pids[0] and pid_of(clients[1]) != pids[1]
    weir.admin("SET server_tls_sslmode = 'require'")
    weir.databases["p1"] = place(postgres, "p1", "sslmode=disable")
    assert [tls_of(client)[0] for client in clients] == ["t", "t"]
    weir.settings["server_tls_sslmode"] = "require"
    weir.write_ini()
    weir.admin("RELOAD")
    assert [tls_of(client)[0] for client in clients] == ["t", "f"]


# --- RELOAD

def test_changed_mode_reconnects(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_tls_sslmode="disable")
    client = weir.client()
    pid = pid_of(client)
    weir.admin("SET server_tls_sslmode = 'require'")
    assert tls_of(client)[0] == "t" and pid_of(client) != pid
    weir.wait_log("closing because: obsolete connection")


def test_unchanged_files_do_not_reconnect(scene, postgres, authority):
    """Trap 81: a RELOAD recycled every TLS connection to the servers."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_tls_sslmode="verify-ca",
                      server_tls_ca_file=authority.cert("ca"), server_idle_timeout=NEVER)
    client = weir.client()
    pid = pid_of(client)
    weir.admin("RELOAD")
    assert pid_of(client) == pid


def test_changed_file_reconnects(scene, postgres, authority):
    path = scene.directory + "/ca"
    shutil.copy(authority.cert("other"), path)
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_tls_sslmode="verify-ca", server_down="fail",
                      server_tls_ca_file=path, server_login_retry=0)
    assert "verify failed" in weir.connect().refused(user="app", database="p0")["M"]
    shutil.copy(authority.cert("ca"), path)
    weir.admin("RELOAD")
    client = weir.client()
    pid = pid_of(client)
    with open(path, "ab") as f, open(authority.cert("other"), "rb") as more:
        f.write(more.read())
    weir.admin("RELOAD")
    assert pid_of(client) != pid


# --- revoked certificates

def test_revoked_certificate_of_a_server(scene, postgres, authority):
    none, server = authority.revoke("none"), authority.revoke("server", "server")
    path = scene.directory + "/crl"
    shutil.copy(none, path)
    weir = scene.weir({"p0": place(postgres), "p1": place(postgres, "p1", "sslcrl=" + server),
                       "p2": place(postgres, "p2", "sslmode=require sslcrl=" + server)}, pool_mode="transaction",
                      server_tls_sslmode="verify-ca", server_tls_ca_file=authority.cert("ca"), server_tls_crl_file=path, server_down="fail")
    client = weir.client()
    pid = pid_of(client)
    assert tls_of(weir.client(database="p2"))[0] == "t"
    assert "revoked" in weir.connect().refused(user="app", database="p1")["M"]
    weir.admin("RELOAD")
    assert pid_of(client) == pid
    shutil.copy(server, path)
    weir.admin("RELOAD")
    client.send(m.query("SELECT 1"))
    weir.wait_log("p0/app@.*closing because: server TLS: certificate verify failed: certificate revoked")
    shutil.copy(none, path)
    weir.admin("RELOAD")
    assert client.result().value == "1"
