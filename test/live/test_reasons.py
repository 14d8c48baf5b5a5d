"""
Every close reason, provoked; alerts match these texts at the client and in the log.

A provocation is a function under @reason(text): it gets a Stage and causes the end. If the client gets an error, it returns the client (whose
remaining messages are then read) or the fields of the error. The log must have `closing because: text` in every case. The last test compares the list
with the table of reasons.
"""
import re
import signal

import pytest

from support import messages as m
from support import scram
from support.close_reasons import close_reasons
from support.failover import TERMINATED, pair, primaries
from support.live import NEVER, SOON, ask, ask_long, hold, last_words, let_go, pid_of
from support.nameserver import write_resolv_conf
from support.ports import free_port, full_listener
from support.rekey import change_keys
from support.scenes import asked
from support.until import until

REASONS = {}

# Rows that only out of memory or a later version can cause; LDAP and PAM are in test_auth_ldap.py and test_auth_pam.py, online restarts in
# test_takeover.py, roles in test_roles.py, pools in test_settings_databases.py, session_state in wire/test_session_state.py and test_pins.py,
# hosts with roles in wire/test_host_operators.py and live/test_service.py, reads in wire/test_read_auto.py
# and wire/test_host_recalls.py.
ELSEWHERE = {
    "LDAP_FAILED", "PAM_FAILED", "AUTH_QUEUE", "LOGIN_REJECTED", "UNIX_LOGIN_REJECTED", "NO_AUTH_METHOD", "POOL_IDLE",
    "NO_MEMORY", "MAX_LOGIN_CLIENTS", "PROXY_HEADER", "PROXY_SENDER", "CANCEL_LOST", "ROLE_UNKNOWN", "PARAMS_UNKNOWN",
    "STATE_UNKNOWN", "STATE_STAYS", "PINNED_STANDBY", "MAX_PINNED", "PINNED_IDLE", "QUERY_WAIT_PINNED", "LISTENER_LOST", "NOTIFICATIONS",
    "HOST_ROLE", "HOST_CLOSED", "OTHER_SERVER", "READ_FAILED", "READ_RECALLED", "WATCH_FAILED", "WATCH_OVER",
}


def reason(row, text=None, sqlstate="08P01"):
    """text: of the row with its detail filled in, where it has one."""
    def keep(provoke):
        REASONS[row] = (provoke, text, sqlstate)
        return provoke
    return keep


class Stage:
    def __init__(self, scene, postgres, authority):
        self.scene = scene
        self.postgres = postgres
        self.authority = authority
        self.weir = None

    def open(self, databases=None, **settings):
        settings.setdefault("pool_mode", "transaction")
        self.weir = self.scene.weir(databases or {"p0": self.postgres}, **settings)
        return self.weir

    def open_with_tls(self, **settings):
        return self.open(client_tls_sslmode="require", client_tls_cert_file=self.authority.cert("server"),
                         client_tls_key_file=self.authority.key("server"), **settings)

    def send(self, *packets):
        client = self.weir.connect()
        client.send(*packets)
        return client

    def start(self, user="app", database="p0", **parameters):
        return self.send(m.startup(user=user, database=database, **parameters))


def rows():
    """(name, text) of each row of the table."""
    return [(row.name, row.format) for row in close_reasons()]


# --- limits

@reason("MAX_CLIENT_CONN", sqlstate="53300")
def _max_client_conn(stage):
    stage.open(max_client_conn=1)
    stage.weir.client()
    return stage.start()


@reason("MAX_CLIENT_CONN_PER_IP", sqlstate="53300")
def _max_client_conn_per_ip(stage):
    stage.open(max_client_conn_per_ip=1)
    stage.weir.client()
    return stage.start()


@reason("MAX_DB_CLIENTS", sqlstate="53300")
def _max_db_clients(stage):
    stage.open(max_db_client_connections=1)
    stage.weir.client()
    return stage.start()


@reason("MAX_USER_CLIENTS", sqlstate="53300")
def _max_user_clients(stage):
    stage.open(max_user_client_connections=1)
    stage.weir.client()
    return stage.start()


# --- login

@reason("NO_DATABASE", "no such database: nowhere", "3D000")
def _no_database(stage):
    stage.open()
    return stage.start(database="nowhere")


@reason("DATABASE_DISABLED", 'database "p0" is disabled', "57P03")
def _disabled(stage):
    stage.open().admin("DISABLE p0")
    return stage.start()


@reason("DRAINED", 'no new connections: an administrator has drained database "p0" (DRAIN)', "57P03")
def _drained(stage):
    stage.open().admin("DRAIN p0")
    return stage.start()


@reason("PASSWORD_FAILED", sqlstate="28P01")
def _password(stage):
    return stage.open(auth_type="md5").connect().refused(user="app", database="p0", password="wrong")


@reason("SASL_FAILED", sqlstate="28P01")
def _sasl(stage):
    return stage.open(auth_type="scram-sha-256").connect().refused(user="app", database="p0", password="wrong")


@reason("PASSWORD_NO_USER", sqlstate="28P01")
def _password_no_user(stage):
    """Each name that no user has is asked for MD5 or SCRAM, always the same; the words do not tell."""
    weir = stage.open(auth_type="md5")
    return [weir.connect().refused(user="nobody%d" % i, database="p0", password="wrong") for i in range(10)][-1]


@reason("PASSWORD_SECRET", sqlstate="28P01")
def _password_secret(stage):
    return stage.open(auth_type="plain", users={"bare": ""}).connect().refused(user="bare", database="p0", password="wrong")


@reason("SASL_NO_USER", sqlstate="28P01")
def _sasl_no_user(stage):
    return stage.open(auth_type="scram-sha-256").connect().refused(user="nobody", database="p0", password="wrong")


@reason("SASL_SECRET", sqlstate="28P01")
def _sasl_secret(stage):
    weir = stage.open(auth_type="scram-sha-256", users={"old": "md5" + "a" * 32})
    return weir.connect().refused(user="old", database="p0", password="wrong")


@reason("NO_USER", sqlstate="28000")
def _no_user(stage):
    stage.open(auth_user="postgres")
    return stage.start(user="nobody")


@reason("TRUST_FAILED", sqlstate="28000")
def _trust(stage):
    stage.open()
    return stage.start(user="nobody")


@reason("CERT_FAILED", sqlstate="28000")
def _cert(stage):
    stage.open(auth_type="cert", client_tls_sslmode="verify-full", client_tls_cert_file=stage.authority.cert("server"),
               client_tls_key_file=stage.authority.key("server"), client_tls_ca_file=stage.authority.cert("ca"))
    client = stage.weir.connect()
    client.start_tls(stage.authority.client_context("client"))
    client.send(m.startup(user="rival", database="p0"))
    return client


@reason("SSL_REQUIRED", sqlstate="28000")
def _ssl_required(stage):
    stage.open_with_tls()
    return stage.start()


@reason("CONFIG_ERROR", sqlstate="28000")
def _config_error(stage):
    stage.open(auth_type="any")
    return stage.start()


@reason("AUTH_QUERY", sqlstate="57P03")
def _auth_query(stage):
    stage.open("port=%d" % free_port(), auth_user="app", server_down="fail")
    return stage.start(user="nobody")


@reason("AUTH_DATABASE_DISABLED", 'authentication database "p1" is disabled', "57P03")
def _auth_database_disabled(stage):
    stage.open({"p0": stage.postgres, "p1": stage.postgres}, auth_type="md5", auth_user="postgres", auth_dbname="p1").admin("DISABLE p1")
    return stage.start(user="nobody")


@reason("NOT_ALLOWED", sqlstate="28000")
def _not_allowed(stage):
    stage.open()
    return stage.start(database="pgbouncer")


@reason("NO_USERNAME", sqlstate="28000")
def _no_username(stage):
    stage.open()
    return stage.send(m.startup(database="p0"))


@reason("LOGIN_TIMEOUT")
def _login_timeout(stage):
    stage.open(client_login_timeout=SOON)
    return stage.send(m.startup(user="app")[:6])


@reason("LOGIN_TIMEOUT_SERVER")
def _login_timeout_server(stage):
    stage.open({"p0": stage.scene.fake(login=lambda session: session.read())}, client_login_timeout=SOON,
               server_connect_timeout=NEVER)
    return stage.start()


# --- start-up

@reason("STARTUP_PARAMETER", "unsupported startup parameter: role")
def _startup_parameter(stage):
    stage.open()
    return stage.start(role="boss")


@reason("STARTUP_OPTION", "unsupported startup parameter in options: role")
def _startup_option(stage):
    stage.open()
    return stage.start(options="-c role=boss")


@reason("STARTUP_OPTIONS_FORM")
def _startup_options(stage):
    stage.open()
    return stage.start(options="-B 100")


@reason("STARTUP_VALUE", "invalid value for startup parameter: user", "22023")
def _startup_value(stage):
    stage.open()
    return stage.start(user="u" * 5000)


@reason("PROTOCOL_2")
def _protocol_2(stage):
    stage.open()
    return stage.send(m.startup(2 << 16, user="app"))


@reason("PROTOCOL_UNKNOWN", "unsupported protocol version 4.1")
def _protocol_4(stage):
    stage.open()
    return stage.send(m.startup((4 << 16) + 1, user="app"))


@reason("CLEAR_AFTER_SSL")
def _clear_after_ssl(stage):
    stage.open_with_tls()
    return stage.send(m.SSL_REQUEST, m.startup(user="app"))


@reason("BAD_HEADER", "bad packet header: '47455420'")
def _bad_header(stage):
    stage.open()
    return stage.send(b"GET ")


@reason("TERMINATE_FIRST")
def _terminate_first(stage):
    stage.open()
    assert not stage.send(m.terminate()).drain()


@reason("BAD_STARTUP")
def _bad_startup(stage):
    stage.open()
    return stage.send(m.startup_raw(b"\0\3\0\0user\0app"))


@reason("BAD_LOGIN_PACKET", "unexpected packet type during login: 0x51")
def _bad_login_packet(stage):
    stage.open(auth_type="md5")
    client = stage.start()
    client.expect("R")
    client.send(m.query("SELECT 1"))
    return client


@reason("TLS_HANDSHAKE", r"TLS handshake failed: .+")
def _tls_handshake(stage):
    stage.open_with_tls()
    client = stage.send(m.SSL_REQUEST)
    assert client.read_bytes(1) == b"S"
    client.send(b"no handshake at all")


@reason("PREPARED_MEMORY")
def _prepared_memory(stage):
    client = stage.open(pool_mode="transaction", max_prepared_memory=1000).client()
    client.send(m.parse("SELECT '%s'" % ("x" * 1000), "s"), m.sync())
    return client


@reason("CLIENT_TLS", "client TLS: too many TLS messages without data")
def _client_tls(stage):
    stage.open_with_tls()
    change_keys(stage.weir)


# --- server trouble

@reason("SERVER_SAID", 'database "nowhere" does not exist', sqlstate="3D000")
def _server_said(stage):
    stage.open({"p0": stage.postgres.target("nowhere")})
    return stage.start()


def _look_up(stage, database):
    """A client that is not authenticated; its user was looked up."""
    client = stage.send(m.startup(user="nobody at all", database=database))
    client.expect("R")
    return client


@reason("LOOKUP_OVER")
def _errand_over(stage):
    stage.open({"*": stage.postgres}, auth_type="md5", auth_user="postgres")
    _look_up(stage, "p1")


@reason("INTERNAL_SERVERS")
def _internal_servers(stage):
    stage.open({"p0": stage.postgres, "p1": stage.postgres}, auth_type="md5", auth_user="postgres", max_auth_query_connections=1)
    _look_up(stage, "p0")
    _look_up(stage, "p1")


@reason("LOGIN_FAILING",
        'server login has been failing, cached error: database "nowhere" does not exist (server_login_retry)')
def _login_failing(stage):
    stage.open({"p0": stage.postgres.target("nowhere")}, server_login_retry=NEVER, server_down="fail")
    last_words(stage.start())
    return stage.start()


@reason("DNS_FAILED", "server DNS lookup failed (Domain name not found)")
def _dns_failed(stage):
    resolv_conf = write_resolv_conf(stage.scene.directory, stage.scene.nameserver())
    stage.open({"p0": "host=pgweir.invalid"}, resolv_conf=resolv_conf, server_down="fail")
    return stage.start()


@reason("CONNECT_FAILED", "connect failed (Connection refused)")
def _connect_failed(stage):
    stage.open({"p0": "host=127.0.0.1 port=%d" % free_port()}, server_down="fail")
    return stage.start()


@reason("CONNECT_TIMED_OUT", "connect failed (Connection timed out)")
def _connect_timed_out(stage):
    with full_listener() as port:
        stage.open({"p0": "host=127.0.0.1 port=%d" % port}, server_connect_timeout=SOON, server_down="fail")
        return stage.weir.connect().refused(user="app", database="p0")


@reason("CONNECT_TIMEOUT")
def _connect_timeout(stage):
    stage.open({"p0": stage.scene.fake(login=lambda session: session.read())}, server_connect_timeout=SOON, server_down="fail")
    return stage.start()


@reason("SERVER_CRASHED")
def _server_crashed(stage):
    fake = stage.scene.fake()
    client = stage.open({"p0": fake}).client()
    ask(client)
    server = fake.accept()
    server.expect("Q")
    server.close()
    return client


@reason("SERVER_BROKEN")
def _server_broken(stage):
    fake = stage.scene.fake()
    client = stage.open({"p0": fake}).client()
    ask(client)
    server = fake.accept()
    server.expect("Q")
    server.send(m.parse_complete())
    return client


@reason("SERVER_LOGIN_BROKEN", "invalid server login exchange: ReadyForQuery out of order")
def _server_login_broken(stage):
    stage.open({"p0": stage.scene.fake(login=lambda session: session.send(m.ready()))})
    return stage.start()


@reason("SERVER_TLS", "server TLS: server does not support SSL, but SSL was required")
def _server_tls(stage):
    stage.open({"p0": stage.scene.mini()}, server_tls_sslmode="require", server_down="fail")
    return stage.start()


@reason("SERVER_SECRET")
def _server_secret(stage):
    stage.open(users={"app": "md5" + "a" * 32})
    return stage.start()


@reason("SERVER_SECRET_OLD", 'password authentication failed for user "app"', "28P01")
def _server_secret_old(stage):
    secret = scram.secret_text(scram.make_secret("app-secret"))
    stage.open(users={"app": secret}, auth_type="scram-sha-256")
    return stage.weir.connect().refused(user="app", database="p0", password="app-secret")


@reason("AUTHREQ_FAILED")
def _authreq_failed(stage):
    last_words(_server_secret(stage))


@reason("SERVER_AUTH", "authentication method of the server is not allowed: server does not ask for a password, but "
        'server_require_auth is "md5"')
def _server_auth(stage):
    stage.open({"p0": stage.scene.mini()}, server_require_auth="md5")
    return stage.start()


@reason("SERVER_PARAMETER", "invalid server parameter", "22023")
def _server_parameter(stage):
    stage.open()
    stage.weir.client()
    client = stage.weir.client(TimeZone="Mars/Olympus")
    ask(client)
    return client


@reason("SERVER_SHUTTING_DOWN")
def _server_shutting_down(stage):
    stage.open(default_pool_size=1)
    holder, waiting = stage.weir.client(), stage.weir.client()
    hold(holder)
    ask(waiting)
    stage.weir.wait_pool("p0", cl_waiting=1)
    stage.weir.signal(signal.SIGINT)
    fields = last_words(waiting)
    let_go(holder)
    stage.weir.wait_exit()
    return fields


@reason("POOLER_SHUTTING_DOWN")
def _pooler_shutting_down(stage):
    client = stage.open().client()
    stage.weir.signal(signal.SIGQUIT)
    fields = last_words(client)
    stage.weir.wait_exit()
    return fields


# --- timeouts

@reason("QUERY_WAIT_TIMEOUT")
def _query_wait_timeout(stage):
    stage.open(default_pool_size=1, query_wait_timeout=SOON)
    hold(stage.weir.client())
    client = stage.weir.client()
    ask(client)
    return client


@reason("QUERY_TIMEOUT_WAITING")
def _query_timeout_waiting(stage):
    stage.open(default_pool_size=1, query_timeout=SOON)
    hold(stage.weir.client())
    client = stage.weir.client()
    ask(client)
    return client


@reason("QUERY_TIMEOUT")
def _query_timeout(stage):
    client = stage.open(query_timeout=SOON).client()
    ask(client, "SELECT pg_sleep(3600)")
    return client


@reason("IDLE_TRANSACTION")
def _idle_transaction(stage):
    client = stage.open(idle_transaction_timeout=SOON).client()
    hold(client)
    return client


@reason("TRANSACTION_TIMEOUT")
def _transaction(stage):
    client = stage.open(transaction_timeout=SOON).client()
    hold(client)
    return client


@reason("CLIENT_IDLE")
def _client_idle(stage):
    return stage.open(client_idle_timeout=SOON).client()


def cancel_in_vain(stage, times, **settings):
    """Requests for a query, which its server accepts and never ends."""
    fake = stage.scene.fake()
    fake.on_cancel = lambda pid, key, connection: None
    stage.open({"p0": fake}, default_pool_size=1, server_connect_timeout=NEVER, **settings)
    client = stage.weir.client()
    ask(client)
    server = fake.accept()
    server.expect("Q")
    for _ in range(times):
        stage.weir.cancel(client)


@reason("CANCEL_WAIT_TIMEOUT")
def _cancel_wait_timeout(stage):
    """Connections for cancel requests are limited to twice the size of the pool; these never get done."""
    cancel_in_vain(stage, 3, cancel_wait_timeout=SOON)


@reason("CANCEL_CROWD")
def _cancel_crowd(stage):
    cancel_in_vain(stage, 17)


@reason("SUSPEND_TIMEOUT")
def _suspend_timeout(stage):
    stage.open(suspend_timeout=SOON)
    client = stage.weir.client(receive_buffer=4096)
    ask(client, "SELECT repeat('x', 100000000)")
    until(lambda: any(row["send_avail"] for row in stage.weir.show("SOCKETS") if row["database"] == "p0"),
          "the result is stuck")
    stage.weir.admin("SUSPEND")
    stage.weir.admin("RESUME")


# --- rules

@reason("STATEMENT_MODE")
def _statement_mode(stage):
    client = stage.open(pool_mode="statement").client()
    ask(client, "BEGIN")
    return client


@reason("PQEXEC")
def _pqexec(stage):
    client = stage.open(disable_pqexec=1).client()
    ask(client)
    return client


def reload_with(stage, target):
    stage.weir.databases = {"p1": stage.postgres}
    if target:
        stage.weir.databases["p0"] = target
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")


@reason("DATABASE_REMOVED")
def _database_removed(stage):
    client = stage.open().client()
    reload_with(stage, None)
    return client


@reason("DATABASE_CHANGED")
def _database_changed(stage):
    client = stage.open().client()
    hold(client)
    reload_with(stage, stage.postgres.target("p0", user="rival"))
    return client


@reason("ADMIN_KILL")
def _admin_kill(stage):
    client = stage.open().client()
    (number,) = [row["id"] for row in stage.weir.show("CLIENTS") if row["database"] == "p0"]
    stage.weir.admin("KILL_CLIENT %d" % number)
    return client


@reason("TERMINATED", sqlstate="57P01")
def _terminated(stage):
    client, other = stage.open().client(), stage.weir.client()
    other.query("SELECT pg_terminate_backend(%d)" % client.pid)
    return client


@reason("DRAIN", sqlstate="57P01")
def _drain(stage):
    client = stage.open().client()
    stage.weir.admin("DRAIN")
    return client


@reason("BAD_PACKET")
def _bad_packet(stage):
    client = stage.open().client()
    client.send(m.message("~", b"what is this"))
    return client


# --- the client leaves

@reason("CLIENT_CLOSE")
def _client_close(stage):
    stage.open().client().quit()


@reason("CLIENT_EOF")
def _client_eof(stage):
    stage.open().client().close()


@reason("CLIENT_NOT_READY")
def _client_not_ready(stage):
    client = stage.open(client_gone="close").client()
    hold(client)
    client.quit()


@reason("CLIENT_IN_QUERY")
def _client_in_query(stage):
    client = stage.open(client_gone="close").client()
    client.send(m.query("SELECT 1"), m.query("SELECT pg_sleep(3600)"))
    client.read_until("Z")
    client.close()


@reason("CLIENT_GONE")
def _client_gone(stage):
    client = stage.open(client_gone="finish", client_gone_timeout=0.1).client()
    client.send(m.query("SELECT pg_sleep(2)"))
    stage.weir.barrier()
    client.close()


@reason("CANCEL_DONE")
def _cancel_done(stage):
    client = stage.open().client()
    ask_long(client)
    stage.weir.cancel(client)
    assert client.result().errors[0]["C"] == "57014"


def cancel_unsent(stage, close, **settings):
    """A request for which no connection comes about."""
    fake = stage.scene.mini()
    client = stage.open({"p0": fake}, **settings).client()
    ask(client, "wait")
    fake.until(lambda: len(fake.queries) > 0, "the query runs")
    close(fake)
    stage.weir.cancel(client).expect_closed()


@reason("CANCEL_FAILED")
def _cancel_failed(stage):
    cancel_unsent(stage, lambda fake: fake.stop_listening())


@reason("CANCEL_GIVEN_UP")
def _cancel_given_up(stage):
    cancel_unsent(stage, lambda fake: fake.listen_without_answer(), cancel_wait_timeout=SOON, server_connect_timeout=NEVER)


@reason("CANCEL_UNKNOWN")
def _cancel_unknown(stage):
    stage.open()
    stage.send(m.cancel_request(4711, b"1234"))


@reason("CANCEL_IDLE")
def _cancel_idle(stage):
    stage.open()
    stage.weir.cancel(stage.weir.client())


# --- servers end

@reason("SERVER_LIFETIME")
def _server_lifetime(stage):
    pid_of(stage.open(server_lifetime=SOON).client())


@reason("SERVER_IDLE")
def _server_idle(stage):
    pid_of(stage.open(server_idle_timeout=SOON).client())


@reason("EVICTED")
def _evicted(stage):
    stage.open(max_db_connections=1)
    pid_of(stage.weir.client())
    pid_of(stage.weir.client("rival"))


@reason("HOSTS_FULL")
def _hosts_full(stage):
    """The first host refuses connections, and the budget of the second is used up."""
    port = stage.postgres.port
    stage.open({"p0": "host=127.0.0.2,127.0.0.1 port=%d" % port, "p1": "host=127.0.0.1 port=%d dbname=p0" % port}, max_host_connections=1)
    hold(stage.weir.client(database="p1"))
    stage.start()


@reason("REPLACED")
def _replaced(stage):
    stage.open(pool_mode="session", default_pool_size=1)
    client = stage.weir.client(TimeZone="Asia/Tokyo")
    pid_of(client)
    client.quit()
    assert pid_of(stage.weir.client(TimeZone="Europe/Paris"))


@reason("OBSOLETE")
def _obsolete(stage):
    pid_of(stage.open(server_tls_sslmode="disable").client())
    stage.weir.admin("SET server_tls_sslmode = 'require'")


@reason("CONNECT_STRING")
def _connect_string(stage):
    pid_of(stage.open().client())
    reload_with(stage, stage.postgres.target("p2"))


@reason("IDLE_DIRTY", "SV_IDLE server got dirty")
def _idle_dirty(stage):
    fake = stage.scene.fake()
    stage.open({"p0": fake}).client()
    fake.accept().send(m.data_row("whose is this?"))


# --- hosts with roles: played servers

def open_pair(stage, text="BEGIN", **settings):
    """A client and its server, which has answered this text."""
    first, second = pair(stage.scene)
    stage.weir = primaries(stage.scene, (first, second), **settings)
    client, server = asked(first.fake, stage.weir, text)
    server.complete(text, "T" if text == "BEGIN" else "I")
    client.result()
    return first, second, client, server


@reason("TRANSACTION_LOST", sqlstate="57P01")
def _transaction_lost(stage):
    first, _, client, server = open_pair(stage)
    first.goes()
    server.close()
    return client


@reason("OUTCOME_UNKNOWN", sqlstate="08007")
def _outcome_unknown(stage):
    first, _, client, server = open_pair(stage)
    client.send(m.query("COMMIT"))
    server.expect_query("COMMIT")
    first.goes()
    server.close()
    return client


@reason("HOST_LOST", sqlstate="57P01")
def _host_lost(stage):
    first, _, client, server = open_pair(stage, "SELECT 1", pool_mode="session")
    first.goes()
    server.close()
    return client


@reason("HOST_ROLE", sqlstate="57P01")
def _host_role(stage):
    first, second, client, _ = open_pair(stage, "SELECT 1", pool_mode="session")
    first.becomes("standby")
    second.becomes("primary", 2)
    return client


@reason("WATCH_OVER")
def _watch_over(stage):
    """A backend is terminated: pgweir asks for the role on a new connection."""
    _, _, client, server = open_pair(stage, "SELECT 1")
    client.send(m.query("SELECT 2"))
    server.expect_query("SELECT 2")
    server.send(TERMINATED)


@reason("WATCH_FAILED", "the role of the host cannot be read: .+")
def _watch_failed(stage):
    first, second = pair(stage.scene)
    first.timeline = -1
    stage.weir = primaries(stage.scene, (first, second))
    stage.start()


@reason("TOO_MANY_SERVERS")
def _too_many_servers(stage):
    stage.open()
    clients = [stage.weir.client() for _ in range(2)]
    for client in clients:
        hold(client)
    for client in clients:
        let_go(client)
    stage.weir.admin("SET default_pool_size = 1")


@reason("PAUSE_MODE")
def _pause_mode(stage):
    pid_of(stage.open().client())
    stage.weir.admin("PAUSE")
    stage.weir.admin("RESUME")


@reason("CLOSE_NEEDED")
def _close_needed(stage):
    client = stage.open().client()
    hold(client)
    stage.weir.admin("RECONNECT")
    let_go(client)


@reason("STATEMENTS_UNKNOWN")
def _statements_unknown(stage):
    client = stage.open().client()
    client.send(m.parse("SELECT 1", "s"), m.bind("s"), m.execute(), m.sync())
    client.result()
    client.query("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
    client.send(m.bind("s"), m.execute(), m.sync())
    (error,) = client.result().errors
    assert error["C"] == "26000" and error["M"] == 'prepared statement "s" does not exist'
    client.send(m.bind("s"), m.execute(), m.sync())
    assert client.result().value == "1"


@reason("ACCOUNT_LOST")
def _account_lost(stage):
    stage.postgres.execute("CREATE TABLE IF NOT EXISTS account (n int); GRANT ALL ON account TO PUBLIC", database="p0")
    client = stage.open(default_pool_size=1).client()
    client.send(m.parse("COPY account FROM STDIN"), m.bind(), m.execute(), m.copy_data(b"bad\n"), m.sync(), m.query("SELECT 7"))
    client.read_until("Z")
    assert stage.weir.client().query("SELECT 1").value == "1"
    client.send(m.query("SELECT 8"))
    while client.result().rows != [[b"8"]]:
        pass


@reason("RESET_FAILED")
def _reset_failed(stage):
    client = stage.open(pool_mode="session", server_reset_query="SELECT 1/0").client()
    pid_of(client)
    client.quit()


@reason("TEST_FAILED")
def _test_failed(stage):
    client = stage.open(server_check_delay=NEVER).client()
    stage.weir.admin("SET server_check_query = 'SELECT 1/(pg_backend_pid() - %d)'" % pid_of(client))
    stage.weir.admin("SET server_check_delay = 0")
    stage.weir.wait_pool("p0", sv_used=1)
    pid_of(client)


@reason("CANCEL_SENT")
def _cancel_sent(stage):
    _cancel_done(stage)


@reason("REPLICATION_OVER")
def _replication_over(stage):
    stage.open({"p0": stage.scene.mini()}).client(replication="true").quit()


@pytest.mark.every_row
@pytest.mark.parametrize("row, plain", [row for row in rows() if row[0] not in ELSEWHERE], ids=lambda text: text[:30])
def test_reason(scene, postgres, authority, row, plain):
    provoke, text, sqlstate = REASONS[row]
    plain = plain.replace('\\"', '"')
    stage = Stage(scene, postgres, authority)
    told = provoke(stage)
    if told is not None:
        fields = told if isinstance(told, dict) else last_words(told)
        assert (fields["S"], fields["M"], fields["C"]) == ("FATAL", text or plain, sqlstate)
    pattern = text if text and text.endswith(".+") else re.escape(text or plain)
    stage.weir.wait_log(r" closing because: %s \(age=\d+s\)$" % pattern)


def test_every_row_of_the_table_has_its_test():
    table = {row for row, _ in rows()}
    assert table == set(REASONS) | ELSEWHERE
    assert len(table) > 60
