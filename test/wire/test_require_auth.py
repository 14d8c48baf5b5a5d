"""
server_require_auth, and require_auth of a database: the authentication methods that a server may request from pgweir.

The servers of these scenes act as a machine between pgweir and the real server could: they request any method.
"""
import socket
import threading

import pytest

from support import messages as m
from support.ldap import FakeLdap, bind_answer
from support.live import last_words
from support.pgweir import ANY_METHOD
from support.ports import free_port
from support.scenes import transactions
from support.until import until
from support.wire import Closed

REFUSED = "authentication method of the server is not allowed: "
ASKS = {"cleartext": "server asks for the password in clear text", "md5": "server asks for an MD5 hash of the password",
        "scram": "server asks for SASL", "trust": "server does not ask for a password"}
WORDS = {"cleartext": "password", "md5": "md5", "scram": "scram-sha-256", "trust": "none"}
# The kernel connects it to 127.0.0.1; to pgweir it is an address like any other, and not one of the loopback interface.
ELSEWHERE = "host=0.0.0.0 port=%d"
OVER_TCP = ASKS["cleartext"] + " over a connection without TLS, and %s does not name \"password\""


def words_of(weir, **login):
    """Returns the error message of a client when no server login succeeds."""
    return weir.connect().refused(**(login or {"user": "app", "database": "p0"}))["M"]


class Between:
    """A machine in place of the server: it requests the password in clear text, and records it."""

    def __init__(self, path=None, tls=None):
        self.tls = tls
        self._got = b""
        self.connections = self._ended = 0
        self.listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self.listener.bind(path or ("", 0))
        self.listener.listen(16)
        self.port = None if path else self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self._ask(connection)
            self._ended += 1

    def _ask(self, connection):
        begins = connection.recv(8)
        if begins == m.SSL_REQUEST:
            connection.sendall(b"S" if self.tls else b"N")
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            begins = b""
        connection.sendall(m.authentication(3))
        self._got += begins
        while True:
            some = connection.recv(4096)
            if not some:
                return
            self._got += some
            if b"app-secret" in some:
                return

    @property
    def got(self):
        """All that its connections have sent, when they have ended."""
        until(lambda: self.connections > 0 and self._ended == self.connections, "the machine's connections have ended")
        return self._got

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@pytest.fixture
def between(directory):
    """between(...) plays one more machine in a server's place."""
    machines = []

    def play(unix=False, tls=None):
        port = free_port()
        machines.append(Between("%s/.s.PGSQL.%d" % (directory, port) if unix else None, tls))
        machines[-1].port = machines[-1].port or port
        return machines[-1]
    yield play
    for each in machines:
        each.stop()


# --- without a list

@pytest.mark.parametrize("sslmode", ["disable", "allow", "prefer"])
def test_no_password_in_clear_text_without_tls(scene, between, sslmode):
    """With prefer, the machine in between answers the SSLRequest with N: TLS is stripped."""
    machine = between()
    weir = transactions(scene, ELSEWHERE % machine.port, server_tls_sslmode=sslmode)
    assert words_of(weir) == REFUSED + OVER_TCP % "server_require_auth"
    weir.wait_log("closing because: " + REFUSED)
    assert machine.connections == 1 and b"app-secret" not in machine.got


@pytest.mark.parametrize("entry", ["", " user=app password=app-secret"])
def test_password_of_an_entry_or_of_the_list(scene, between, entry):
    machine = between()
    weir = transactions(scene, ELSEWHERE % machine.port + entry)
    assert words_of(weir) == REFUSED + OVER_TCP % "server_require_auth"
    assert b"app-secret" not in machine.got


def test_password_of_auth_user(scene, between):
    """A client that has proven nothing makes pgweir log in as auth_user."""
    machine = between()
    weir = transactions(scene, ELSEWHERE % machine.port, auth_type="scram-sha-256", auth_user="app")
    fields = weir.connect().refused(user="stranger", database="p0", password="x")
    assert fields["M"] == "auth_query failed"
    weir.wait_log(REFUSED)
    assert machine.connections == 1 and b"app-secret" not in machine.got


def test_password_verified_by_ldap(scene, between):
    port = free_port()
    ldap = FakeLdap(port, lambda _, number: bind_answer(number), "127.0.0.1")
    try:
        machine = between()
        weir = transactions(scene, ELSEWHERE % machine.port, auth_type="ldap",
                            auth_ldap_options="ldapserver=127.0.0.1 ldapport=%d ldapprefix=cn=" % port)
        assert words_of(weir, user="app", database="p0", password="app-secret") == REFUSED + OVER_TCP % "server_require_auth"
        assert b"app-secret" not in machine.got
    finally:
        ldap.stop()


def test_password_is_sent_over_tls_and_unix_sockets(scene, between, directory, authority):
    over_tls, over_unix = between(tls=authority.server_context()), between(unix=True)
    targets = {"tls": ELSEWHERE % over_tls.port, "unix": "host=%s port=%d" % (directory, over_unix.port)}
    weir = scene.weir(targets, pool_mode="transaction", server_tls_sslmode="prefer", server_down="fail")
    for database in ("tls", "unix"):
        words_of(weir, user="app", database=database)
    assert b"app-secret\0" in over_tls.got and b"app-secret\0" in over_unix.got


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "localhost"])
def test_password_is_sent_over_loopback(scene, between, host):
    """No other machine can be between pgweir and a server there."""
    machine = between()
    weir = transactions(scene, "host=%s port=%d" % (host, machine.port), server_tls_sslmode="disable", server_down="fail")
    words_of(weir)
    assert b"app-secret\0" in machine.got


@pytest.mark.parametrize("method", ["md5", "scram", "trust"])
def test_other_methods_need_no_tls(scene, method):
    weir = transactions(scene, scene.mini(method=method, password="app-secret"))
    assert weir.client().query("in").value == "in"


# --- with a list

@pytest.mark.parametrize("method", ASKS)
@pytest.mark.parametrize("by_database", [False, True])
def test_a_list_allows_what_it_names(scene, method, by_database):
    fake = scene.mini(method=method, password="app-secret")
    for listed, word in WORDS.items():
        target = ELSEWHERE % fake.port
        if by_database:
            weir = transactions(scene, target + " require_auth=" + word, server_require_auth="!" + word)
        else:
            weir = transactions(scene, target, server_require_auth=word)
        if listed == method or (listed, method) == ("cleartext", "trust"):
            assert weir.client().query("in").value == "in"
        else:
            called = 'require_auth of database "p0"' if by_database else "server_require_auth"
            assert words_of(weir) == '%s%s, but %s is "%s"' % (REFUSED, ASKS[method], called, word)


@pytest.mark.parametrize("method", ASKS)
def test_a_list_forbids_what_it_names(scene, method):
    fake = scene.mini(method=method, password="app-secret")
    for listed, word in WORDS.items():
        weir = transactions(scene, ELSEWHERE % fake.port, server_require_auth="!" + word)
        if listed == method:
            assert words_of(weir) == '%s%s, but server_require_auth is "!%s"' % (REFUSED, ASKS[method], word)
        elif method == "cleartext":
            # it is not forbidden, but not allowed by name either
            assert words_of(weir) == REFUSED + OVER_TCP % "server_require_auth"
        else:
            assert weir.client().query("in").value == "in"


def test_every_method_by_name(scene):
    for method in ASKS:
        fake = scene.mini(method=method, password="app-secret")
        weir = transactions(scene, ELSEWHERE % fake.port, server_require_auth=ANY_METHOD)
        assert weir.client().query("in").value == "in"


def test_a_list_forbids_the_password_over_tls_too(scene, between, authority):
    machine = between(tls=authority.server_context())
    weir = transactions(scene, ELSEWHERE % machine.port, server_tls_sslmode="require",
                        server_require_auth="scram-sha-256")
    assert words_of(weir) == '%s%s, but server_require_auth is "scram-sha-256"' % (REFUSED, ASKS["cleartext"])
    assert b"app-secret" not in machine.got


def test_server_that_omits_scram_is_refused(scene):
    """none in the list does not let a server in that has begun SCRAM and not proven itself."""
    fake = scene.mini()

    def login(session):
        session.send(m.authentication(10, b"SCRAM-SHA-256\0\0"))
        session.expect("p")
        session.send(m.authentication_ok())
        raise Closed("the end of the play")

    fake.login = login
    weir = transactions(scene, fake, server_require_auth="scram-sha-256,none")
    assert words_of(weir) == "invalid server login exchange: server ended SCRAM before its proof"


# --- a change

@pytest.mark.parametrize("change", ["setting", "key"])
def test_a_stricter_list_reconnects(scene, change):
    """A connection to a server that did not have to prove itself is not kept under a list that demands it."""
    fake = scene.mini()
    weir = transactions(scene, fake, server_login_retry=3600)
    client = weir.client()
    client.query("before")
    if change == "setting":
        weir.admin("SET server_require_auth = 'scram-sha-256'")
    else:
        weir.databases["p0"] = "host=127.0.0.1 port=%d dbname=p0 require_auth=scram-sha-256" % fake.port
        weir.write_ini()
        weir.admin("RELOAD")
    fake.method, fake.password = "scram", "app-secret"
    assert client.query("after").value == "after"
    assert [session.mechanism for session in fake.started] == [None, "SCRAM-SHA-256"]


def test_extended_list_ends_the_refusal(scene):
    fake = scene.mini(method="cleartext", password="app-secret")
    weir = transactions(scene, ELSEWHERE % fake.port, server_login_retry=0)
    assert words_of(weir) == REFUSED + OVER_TCP % "server_require_auth"
    weir.admin("SET server_require_auth = 'password'")
    assert weir.client().query("in").value == "in"
    (row,) = [row for row in weir.show("CONFIG") if row["key"] == "server_require_auth"]
    assert (row["value"], row["default"], row["changeable"]) == ("password", None, "yes")
    weir.admin("SET server_require_auth = ''")
    client = weir.client()
    client.send(m.query("out"))
    assert last_words(client)["M"] == REFUSED + OVER_TCP % "server_require_auth"
