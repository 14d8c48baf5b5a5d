"""The current protocol with real programs: libpq 18, and the installed PostgreSQL."""
import asyncio
import threading

import asyncpg
import pg8000.native
import psycopg
import pytest

from support import messages as m
from support.live import ask_long, pid_of
from support.postgres import SECRETS, major_version
from support.threads import run_in_threads


def test_this_libpq_is_new_enough():
    assert psycopg.pq.version() >= 180000, "psycopg's libpq must be that of PostgreSQL 18"


def tls_settings(authority, name="server", **more):
    return dict({"client_tls_sslmode": "allow", "client_tls_cert_file": authority.cert(name),
                 "client_tls_key_file": authority.key(name), "client_tls_ca_file": authority.cert("ca")}, **more)


def connect(weir, user="app", database="p0", **options):
    options.setdefault("host", "localhost" if options.get("sslmode") == "verify-full" else weir.host)
    return psycopg.connect(port=weir.port, user=user, dbname=database, password=weir.users.get(user), autocommit=True,
                           **options)


# --- versions

@pytest.mark.parametrize("versions, minor", [
    ({}, 0), ({"max_protocol_version": "3.0"}, 0), ({"max_protocol_version": "3.2"}, 2),
    ({"max_protocol_version": "latest"}, 2), ({"min_protocol_version": "3.2", "max_protocol_version": "latest"}, 2)])
def test_libpq_gets_the_requested_version(scene, postgres, versions, minor):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    with connect(weir, **versions) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.pgconn.full_protocol_version == 30000 + minor


@pytest.mark.parametrize("version", ["3.0", "3.2"])
@pytest.mark.parametrize("server_version", ["3.0", "latest"])
@pytest.mark.parametrize("negotiation", [None, "postgres", "direct"])
def test_cancel_by_libpq(scene, postgres, authority, version, server_version, negotiation):
    """libpq 17 and later cancel over TLS where the connection has it."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_max_protocol_version=server_version,
                      server_tls_sslmode="require", **tls_settings(authority))
    tls = {"sslmode": "disable"} if negotiation is None else {"sslmode": "require", "sslnegotiation": negotiation}
    with connect(weir, max_protocol_version=version, **tls) as connection:
        said = threading.Event()
        connection.add_notice_handler(lambda _: said.set())

        def run():
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("DO $$ BEGIN RAISE NOTICE 'runs'; PERFORM pg_sleep(3600); END $$")

        def cancel():
            assert said.wait(20)
            connection.cancel_safe(timeout=20)

        run_in_threads(run, cancel)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_key_of_the_server(scene, postgres):
    """PostgreSQL 18 sends longer keys to clients that request 3.2; earlier versions negotiate 3.0."""
    weir = scene.weir({"p0": postgres}, server_max_protocol_version="latest", show_extra_columns=1)
    client = weir.client()
    newer = int(client.parameters["server_version"].split(".")[0]) >= 18
    pid_of(client)
    assert [row["protocol"] for row in weir.show("SERVERS")] == ["3.2" if newer else "3.0"]
    ask_long(client)
    with weir.cancel(client):
        assert client.result().errors[0]["C"] == "57014"


# --- direct TLS from clients

@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
@pytest.mark.parametrize("version", ["3.0", "3.2"])
def test_libpq_over_tls(scene, postgres, authority, negotiation, version):
    weir = scene.weir({"p0": postgres}, **tls_settings(authority))
    with connect(weir, sslmode="verify-full", sslrootcert=authority.cert("ca"), sslnegotiation=negotiation,
                 max_protocol_version=version) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        (row,) = [row for row in weir.show("CLIENTS") if row["database"] == "p0"]
        assert row["tls"].startswith("TLSv1.3/")
    weir.wait_log(r"login attempt: db=p0 user=app tls=TLSv1\.3/\S+ replication=no%s%s$" % (
        r" protocol=3\.2" if version == "3.2" else "", " sslnegotiation=direct" if negotiation == "direct" else ""))


def test_direct_tls_with_a_certificate(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, auth_type="cert", **tls_settings(authority, client_tls_sslmode="verify-full"))
    with connect(weir, sslmode="verify-full", sslrootcert=authority.cert("ca"), sslnegotiation="direct",
                 sslcert=authority.cert("client"), sslkey=authority.key("client")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("app",)


def test_direct_tls_is_not_available(scene, postgres):
    weir = scene.weir({"p0": postgres})
    with pytest.raises(psycopg.OperationalError):
        connect(weir, sslmode="require", sslnegotiation="direct")
    weir.wait_log("TLS handshake failed: direct TLS, which is not offered here")


def test_large_results_over_direct_tls(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", **tls_settings(authority))
    with connect(weir, sslmode="require", sslnegotiation="direct") as connection:
        for size in (1, 16384, 100000, 5000000):
            assert connection.execute("SELECT repeat('x', %s)", (size,)).fetchone() == ("x" * size,)
            assert connection.execute("SELECT length(%s)", ("y" * size,)).fetchone() == (size,)


# --- direct TLS to servers

def test_direct_tls_to_the_server(scene, postgres, authority):
    """PostgreSQL knows it from 17 on; one before takes the hello for a bad packet."""
    weir = scene.weir({"p0": postgres}, server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("ca"),
                      server_tls_sslnegotiation="direct", server_max_protocol_version="latest", server_down="fail")
    if major_version() < 17:
        assert weir.connect().refused(user="app", database="p0")["M"].startswith("server TLS: ")
        return
    client = weir.client()
    assert client.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").value == "t"
    ask_long(client)
    with weir.cancel(client):
        assert client.result().errors[0]["C"] == "57014"


def test_pgweir_as_server_of_pgweir(scene, postgres, authority):
    """Each connection method that one pgweir offers works with the other."""
    behind = scene.weir({"p0": postgres}, **tls_settings(authority, client_tls_sslmode="require"))
    front = scene.weir({"p0": behind}, pool_mode="transaction", server_tls_sslmode="verify-full",
                       server_tls_ca_file=authority.cert("ca"), server_tls_sslnegotiation="direct",
                       server_max_protocol_version="latest", show_extra_columns=1)
    client = front.client(protocol=m.PROTOCOL_3_2)
    assert pid_of(client)
    (row,) = front.show("SERVERS")
    assert row["protocol"] == "3.2" and row["tls"]
    ask_long(client)
    with front.cancel(client):
        assert client.result().errors[0]["C"] == "57014"


# --- channel binding

@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
@pytest.mark.parametrize("binding", ["disable", "prefer", "require"])
@pytest.mark.parametrize("signed_by", ["sha256", "sha384"])
def test_libpq_binds_to_pgweir(scene, postgres, authority, negotiation, binding, signed_by):
    authority.issue(signed_by, "localhost", names="DNS:localhost,IP:127.0.0.1", digest=signed_by)
    weir = scene.weir({"p0": postgres}, auth_type="scram-sha-256", **tls_settings(authority, signed_by))
    with connect(weir, sslmode="verify-full", sslrootcert=authority.cert("ca"), sslnegotiation=negotiation,
                 channel_binding=binding) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_libpq_requires_an_unavailable_binding(scene, postgres, authority):
    weir = scene.weir({"p0": postgres}, auth_type="scram-sha-256", **tls_settings(authority))
    with pytest.raises(psycopg.OperationalError, match="channel binding"):
        connect(weir, sslmode="disable", channel_binding="require")
    weir.admin("SET client_channel_binding = 'disable'")
    with pytest.raises(psycopg.OperationalError, match="did not offer an authentication method that supports channel binding"):
        connect(weir, sslmode="require", channel_binding="require")
    connect(weir, sslmode="require", channel_binding="prefer").close()


def test_channel_binding_of_other_drivers(scene, postgres, authority):
    """pg8000 has its own implementation and uses the offered binding; asyncpg's implementation has no channel binding."""
    weir = scene.weir({"p0": postgres}, auth_type="scram-sha-256", **tls_settings(authority))
    connection = pg8000.native.Connection("app", host=weir.host, port=weir.port, database="p0", password="app-secret",
                                          ssl_context=authority.client_context(verify=False))
    assert connection.run("SELECT 1") == [[1]]
    connection.close()

    async def ask():
        opened = await asyncpg.connect(host=weir.host, port=weir.port, user="app", password="app-secret", database="p0",
                                       ssl=authority.client_context(verify=False))
        try:
            return await opened.fetchval("SELECT 1")
        finally:
            await opened.close()

    assert asyncio.run(ask()) == 1


@pytest.mark.parametrize("mode", ["disable", "prefer", "require"])
def test_pgweir_binds_to_the_server(scene, postgres, authority, mode):
    weir = scene.weir({"p0": postgres}, server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("ca"),
                      server_channel_binding=mode)
    assert pid_of(weir.client())


@pytest.mark.parametrize("mode, role, words", [
    ("require", "md5user", "the server asks for the password without"), ("require", "clear", "asks for the password without"),
    ("require", "trusted", "the server lets us in without"), ("prefer", "md5user", None), ("prefer", "clear", None),
    ("prefer", "trusted", None)])
def test_server_with_another_method(scene, postgres, mode, role, words):
    weir = scene.weir({"p0": postgres}, users=SECRETS, server_tls_sslmode="require", server_channel_binding=mode)
    if words:
        assert words in weir.connect().refused(user=role, database="p0")["M"]
    else:
        assert pid_of(weir.client(user=role))


def test_keys_of_a_bound_login_are_valid_at_the_server(scene, postgres, authority):
    """Bound to separate connections on both sides; no password is stored."""
    (secret,), = postgres.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")
    weir = scene.weir({"p0": postgres}, auth_type="scram-sha-256", users={"app": secret}, server_tls_sslmode="require",
                      server_channel_binding="require", **tls_settings(authority))
    with psycopg.connect(host="localhost", port=weir.port, user="app", dbname="p0", password="app-secret",
                         sslmode="verify-full", sslrootcert=authority.cert("ca"), channel_binding="require") as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("app",)


def test_channel_binding_between_two_pgweirs(scene, postgres, authority):
    behind = scene.weir({"p0": postgres}, auth_type="scram-sha-256", **tls_settings(authority, client_tls_sslmode="require"))
    front = scene.weir({"p0": behind}, server_tls_sslmode="require", server_channel_binding="require",
                       server_tls_sslnegotiation="direct")
    assert pid_of(front.client())


@pytest.mark.parametrize("setting, value, reconnects", [
    ("server_max_protocol_version", "3.2", True), ("server_channel_binding", "disable", True),
    ("server_tls_protocols", "tlsv1.2", False)])
def test_changes_over_unix_sockets(scene, postgres, setting, value, reconnects):
    """TLS settings do not affect Unix sockets."""
    weir = scene.weir({"p0": "host=%s port=%d" % (postgres.directory, postgres.port)}, pool_mode="transaction")
    client = weir.client()
    pid = pid_of(client)
    weir.admin("SET %s = '%s'" % (setting, value))
    assert (pid_of(client) != pid) == reconnects
