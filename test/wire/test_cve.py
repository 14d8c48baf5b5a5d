"""
CVEs of similar poolers, played against pgweir: one test for each, named by its number, with every length around the limit, both versions of the
protocol, with and without TLS. Tests that need a real PostgreSQL are in live/test_cve.py.

doc/security.md refers to these tests by name.
"""
import struct
from contextlib import ExitStack

import psycopg2
import pytest

from support import lookups
from support import messages as m
from support import scram
from support.pgweir import ANY_METHOD
from support.until import until
from support.wire import Closed, LoginRefused

NAME_MOST = 1024        # the longest name that is looked up at all
STARTUP_MOST = 10000    # the largest start-up packet, as with PostgreSQL
PASSWORD_MOST = 65530   # the largest body of a password message that PostgreSQL accepts
SCRAM_MOST = 2048       # the longest message of a SCRAM exchange


class Way:
    """How pgweir is reached: in clear or over TLS, by a version of the protocol."""

    def __init__(self, weir, context, protocol):
        self._weir = weir
        self._context = context
        self._protocol = protocol

    def connect(self):
        client = self._weir.connect()
        if self._context:
            client.start_tls(self._context)
        return client

    def startup_pairs(self, pairs):
        return m.startup_pairs(pairs, self._protocol)

    def startup(self, **parameters):
        return self.startup_pairs(list(parameters.items()))

    def come(self, user="app", database="p0", **parameters):
        """A client that has sent its user name."""
        client = self.connect()
        client.send(self.startup(user=user, database=database, **parameters))
        return client

    def asked(self, user="app"):
        """Returns a client that got an authentication request, and the body of the request."""
        client = self.come(user)
        got = client.read()
        while got.type != "R":
            got = client.read()
        return client, got.body

    def client(self, user="app", database="p0"):
        client = self.connect()
        client.login(password=self._weir.users.get(user), protocol=self._protocol, user=user, database=database)
        return client


class Stage:
    """pgweir, and all four ways to it."""

    def __init__(self, scene, authority, target, **settings):
        self.weir = scene.weir(target, **dict(dict(
            pool_mode="transaction", default_pool_size=2, server_login_retry=0, client_tls_sslmode="allow",
            client_tls_key_file=authority.key("server"), client_tls_cert_file=authority.cert("server")), **settings))
        self.ways = [Way(self.weir, context, protocol) for context in (None, authority.client_context())
                     for protocol in (m.PROTOCOL_3_0, m.PROTOCOL_3_2)]
        self.plain = self.ways[0]

    def unharmed(self):
        """No other client has noticed anything."""
        for way in self.ways:
            assert way.client().query("unharmed").value == "unharmed"


def last_error(client):
    """Returns the error message before the connection ends, or None."""
    errors = [m.read_error(got.body) for got in client.drain() if got.type == "E"]
    assert len(errors) <= 1, errors
    return errors[0]["M"] if errors else None


# --- CVE-2012-4575: a long name of a database ended the process


def lengths_of_names():
    around = {bound + step for bound in (63, 64, 127, 128, 255, 256, NAME_MOST) for step in (-1, 0, 1)}
    return sorted(around | {1, 4096, STARTUP_MOST - 40})


@pytest.mark.parametrize("target", ["p0", "*"])
def test_cve_2012_4575_long_names(scene, authority, target):
    """As database or user, known from the fallback or not at all: answered or refused, and nothing else."""
    stage = Stage(scene, authority, {target: scene.mini()})
    for way in stage.ways:
        for length in lengths_of_names():
            name = "n" * length
            too_long = "invalid value for startup parameter: %s"
            client = way.come(user=name)
            words = last_error(client)
            assert words == (too_long % "user" if length > NAME_MOST else '"trust" authentication failed'), length
            client = way.come(database=name)
            if target == "*" and length <= NAME_MOST:
                client.finish_login()
                client.close()
                continue
            words = last_error(client)
            assert words == too_long % "database" or length <= NAME_MOST and "no such database: n" in words, length
    assert stage.weir.client(database="p0").query("unharmed").value == "unharmed"


def test_cve_2012_4575_packets_around_the_limit(scene, authority):
    """One byte below, on and above the longest start-up packet: the length is judged before the rest is waited for."""
    stage = Stage(scene, authority, scene.mini())
    for way in stage.ways:
        room = STARTUP_MOST - len(way.startup(user="app", database=""))
        for more in (-1, 0, 1, 2):
            client = way.connect()
            packet = way.startup(user="app", database="n" * (room + more))
            assert len(packet) == STARTUP_MOST + more
            if more > 0:
                client.send(packet[:8])
                assert last_error(client).startswith("bad packet header: '%08x" % len(packet))
            else:
                client.send(packet)
                assert last_error(client) == "invalid value for startup parameter: database"
    stage.unharmed()


# --- CVE-2015-6817: with auth_user set, an unknown user was logged in as auth_user


@pytest.mark.parametrize("auth_type", ["trust", "plain", "md5", "scram-sha-256"])
def test_cve_2015_6817_unknown_user(scene, authority, auth_type):
    """An unknown user cannot log in: without a password, with the password of another user or of auth_user, or with a name similar to auth_user's."""
    asked = []

    def serve(session):
        while session.read().type != "X":
            batch = session.expect_all(lookups.BATCH[1:])
            asked.append(batch[6].body[10:-2].decode())
            session.send(lookups.found("known", "secret") if asked[-1] == "known" else lookups.nobody())

    fake = scene.fake(serve=serve)
    stage = Stage(scene, authority, fake, auth_type=auth_type, auth_user="asker", default_pool_size=1,
                  users={"asker": "asker-secret"})
    strangers = ["nobody", "asker ", "Asker", "asker\t", "aske", "askerr", "%s", "*"]
    # with auth_type md5, unknown users get the same request as known users
    if auth_type == "md5":
        with pytest.raises(LoginRefused):
            stage.plain.connect().login(password="wrong", user="known", database="p0")
        del asked[:]
    for way in stage.ways:
        for user in strangers:
            for password in ("", "asker-secret", "app-secret"):
                with pytest.raises(LoginRefused, match="authentication failed|no such user"):
                    way.connect().login(password=password, user=user, database="p0")
    assert asked == [user for _ in stage.ways for user in strangers for _ in range(3)]
    # one connection for all that, and no client has ever been assigned to it
    assert [session.startup["user"] for session in fake.started] == ["asker"]
    assert all(row["database"] == "pgbouncer" for row in stage.weir.show("CLIENTS"))


# --- CVE-2021-3935: bytes that an attacker in the middle put in clear around the TLS handshake were taken as the peer's own


INJECTED = {"query": m.query("injected"), "startup": m.startup(user="app", database="p0"), "password": m.password("x"),
            "startup 3.2": m.startup(m.PROTOCOL_3_2, user="app", database="p0"), "gss": m.GSSENC_REQUEST, "ssl": m.SSL_REQUEST,
            "cancel": m.cancel_request(1, b"1234"), "handshake": b"\x16\x03\x01\0\5\1\0\0\1\0", "byte": b"\0"}


@pytest.mark.parametrize("auth_type", ["trust", "cert"])
def test_cve_2021_3935_after_an_ssl_request(scene, authority, auth_type):
    """In the same write, each of them and parts of each: none of it has an effect."""
    fake = scene.mini()
    mode = {"client_tls_sslmode": "verify-full", "client_tls_ca_file": authority.cert("ca")} if auth_type == "cert" else {}
    stage = Stage(scene, authority, fake, auth_type=auth_type, **mode)
    for name, words in INJECTED.items():
        for size in sorted({1, len(words) // 2, len(words) - 1, len(words)} - {0}):
            client = stage.weir.connect()
            client.send(m.SSL_REQUEST, words[:size])
            assert last_error(client) == "received unencrypted data after SSL request", (name, size)
    assert not fake.started


def test_cve_2021_3935_in_place_of_the_handshake(scene, authority):
    """After the S, the next bytes must be TLS, and these are not."""
    fake = scene.mini()
    stage = Stage(scene, authority, fake)
    for words in INJECTED.values():
        client = stage.weir.connect()
        client.send(m.SSL_REQUEST)
        assert client.read_bytes(1) == b"S"
        client.send(words)
        client.shut_writing()
        client.drain_bytes()
    stage.weir.wait_log("closing because: TLS handshake failed: ", times=len(INJECTED))
    assert not fake.started


@pytest.mark.parametrize("sslmode", ["prefer", "require", "verify-ca"])
def test_cve_2021_3935_after_the_answer_of_a_server(scene, authority, sslmode):
    """The other direction, after the S of a server: pgweir does not log in, and forwards none of these bytes to a client."""
    fake = scene.mini(tls=authority.server_context())
    sane = fake._greet        # pylint: disable=protected-access
    stage = Stage(scene, authority, fake, server_tls_sslmode=sslmode, server_tls_ca_file=authority.cert("ca"),
                  query_wait_timeout=0.5)
    for words in m.authentication_ok() + m.ready(), m.error("injected", "28000", "FATAL"), b"\0" * 5:
        def greet(session, words=words):
            assert session.read_bytes(8) == m.SSL_REQUEST
            session.send(b"S" + words)
            session.drain_bytes()
            raise Closed("as the scene wants it")

        fake._greet = greet       # pylint: disable=protected-access
        for way in stage.ways:
            told = last_error(way.come())
            assert told and "injected" not in told, told
        until(lambda: stage.weir.pool("p0")["sv_login"] == 0, "the login has failed")
    assert not fake.started
    fake._greet = sane        # pylint: disable=protected-access
    stage.unharmed()


# --- CVE-2025-12819: the client's search_path was in force while auth_query ran (with a real PostgreSQL: live/test_cve.py)


ASKS = [{"search_path": "evil"}, {"options": "-c search_path=evil"}, {"options": "--search-path=evil"}, {"SEARCH_PATH": "evil"}]


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_cve_2025_12819_search_path(scene, authority, mode):
    """The connection for auth_query is opened without the client's parameters, and is reset before the query."""
    fake = scene.fake()
    stage = Stage(scene, authority, fake, auth_type="plain", auth_user="asker", pool_mode=mode, default_pool_size=1,
                  track_extra_parameters="search_path", server_reset_query="")
    server = None
    for way in stage.ways:
        for asks in ASKS:
            client = way.come("bob", **asks)
            server = server or fake.accept()
            batch = server.expect_all(lookups.BATCH)
            first, second = m.read_parse(batch[0].body)[1], m.read_parse(batch[3].body)[1]
            assert "pg_catalog.set_config('role', 'none', true)" in first
            assert "evil" not in first + second
            assert "pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', " in second and "'pg_temp'), true)" in second
            server.send(lookups.nobody())
            client.expect("R")
            client.send(m.password("x"))
            assert last_error(client) == "password authentication failed"
    (session,) = fake.started
    assert session.startup["user"] == "asker"
    assert not {name for name in session.startup if name.lower() in ("search_path", "options")}, session.startup


# --- CVE-2026-6664: a length inside of a SASL packet ran over


def sasl_packet(stated, data):
    return m.message("p", m.cstring("SCRAM-SHA-256") + struct.pack("!I", stated % 2 ** 32) + data)


def test_cve_2026_6664_lengths_in_a_sasl_packet(scene, authority):
    """Every length except the true length is refused, whether the packet is longer or shorter, and whether the user exists or not."""
    stage = Stage(scene, authority, scene.mini(), auth_type="scram-sha-256")
    first = b"n,,n=,r=" + scram.nonce().encode()
    wrong = {0, 1, len(first) - 1, len(first) + 1, 2 ** 16 - 1, 2 ** 16}
    wrong |= {2 ** 31 + step for step in (-15, -14, -5, -4, -1, 0, 1, 4, 14)}
    wrong |= {2 ** 32 - step for step in (1, 2, 4, 5, 14, 18, len(first), len(first) + 1)}
    for way in stage.ways:
        for user in ("app", "nobody"):
            for stated in sorted(wrong):
                client, _ = way.asked(user)
                client.send(sasl_packet(stated, first))
                assert last_error(client) == "SASL authentication failed", stated
            client, _ = way.asked(user)
            client.send(sasl_packet(len(first), first))
            assert client.expect("R").body[:4] == struct.pack("!I", 11)
    stage.unharmed()


@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_cve_2026_6664_lengths_of_the_packet_itself(scene, authority, auth_type):
    """Impossible lengths are refused before another byte is waited for; the largest possible message is accepted as a whole."""
    stage = Stage(scene, authority, scene.mini(), auth_type=auth_type)
    for way in stage.ways:
        for length in [0, 1, 2, 3, PASSWORD_MOST + 6, 2 ** 16, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 4, 2 ** 32 - 1]:
            client, _ = way.asked()
            client.send(b"p" + struct.pack("!I", length))
            told = last_error(client)
            assert told == ("password authentication failed" if length > PASSWORD_MOST else "bad packet header: '70%08x'" % length)
        for length in PASSWORD_MOST - 1, PASSWORD_MOST, PASSWORD_MOST + 1:
            client, _ = way.asked()
            client.send(m.message("p", b"x" * (length - 1) + b"\0"))
            assert last_error(client).endswith("authentication failed")
    stage.unharmed()


# --- CVE-2026-6665: a long nonce of a server ran over the end of a buffer


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("newest", ["3.0", "3.2"])
def test_cve_2026_6665_nonce_of_a_server(scene, authority, newest, tls):
    """Taken while the whole message is within the limit, to the byte; refused from there on, however long."""
    nonce = [""]
    fake = scene.mini(tls=authority.server_context() if tls else None)
    told = []

    def login(session):
        session.ask_scram("app-secret", own_nonce=nonce[0])
        told.append(len(nonce[0]))
        session.welcome()

    fake.login = login
    stage = Stage(scene, authority, fake, query_wait_timeout=1, default_pool_size=1,
                  server_tls_sslmode="require" if tls else "disable", server_max_protocol_version=newest)
    # besides both nonces: "r=", 24 characters of pgweir's own, ",s=" with 24 characters, ",i=4096"
    most = SCRAM_MOST - len("r=") - 24 - len(",s=") - 24 - len(",i=4096")
    for size in [1, 24, 63, 64, 127, 128, 255, 256, 1023, 1024, most - 1, most, most + 1, most + 2, 4096, 10000, 60000]:
        nonce[0] = "x" * size
        client = stage.plain.come()
        client.send(m.query("fine"))
        if size <= most:
            client.finish_login()
            assert client.result().value == "fine"
            assert told.pop() == size
        else:
            assert last_error(client), size
        client.close()
        stage.weir.admin("RECONNECT")
        until(lambda: not stage.weir.show("SERVERS"), "no server is left")
    assert not told
    nonce[0] = "short"
    stage.unharmed()


# --- CVE-2026-6666: an error of the server without SQLSTATE met a null pointer


WITHOUT = {"nothing": {}, "no SQLSTATE": {"S": "FATAL", "V": "FATAL", "M": "text"}, "empty SQLSTATE": {"C": "", "M": "text"},
           "only a severity": {"S": "FATAL"}, "no severity": {"C": "57P01", "M": "text"}, "no text": {"S": "FATAL", "C": "28000"},
           "others": {"D": "detail", "H": "hint"}}
IN_PIECES = {"no end": b"SFATAL\0Mtext\0", "no NUL": b"SFATAL\0Mtext", "a code alone": b"C", "empty": b""}
ERRORS = {name: m.message("E", m.fields(**codes)) for name, codes in WITHOUT.items()}
ERRORS.update((name, m.message("E", body)) for name, body in IN_PIECES.items())


@pytest.mark.parametrize("when", ["at once", "asked for a password", "in SASL", "let in"])
def test_cve_2026_6666_error_in_a_server_login(scene, authority, when):
    before = {"at once": b"", "asked for a password": m.authentication(3), "let in": m.authentication_ok(),
              "in SASL": m.authentication(10, m.cstring("SCRAM-SHA-256") + b"\0")}[when]
    fake = scene.mini()
    stage = Stage(scene, authority, fake, query_wait_timeout=0.5, server_require_auth=ANY_METHOD)
    for name, error in ERRORS.items():
        def login(session, error=error):
            session.send(before, error)
            session.shut_writing()
            session.drain()
            raise Closed("as the scene wants it")

        fake.login = login
        for way in stage.ways:
            assert last_error(way.come()), name
        until(lambda: stage.weir.pool("p0")["sv_login"] == 0, "the login has failed")
    fake.login = None
    stage.unharmed()


@pytest.mark.parametrize("where", ["query", "reset", "test", "parameters", "idle", "look-up"])
def test_cve_2026_6666_error_of_a_busy_server(scene, authority, where):
    """In answer to a client, to the pooler's own queries, and out of the blue; each error in a pool of its own."""
    fakes = [scene.fake() for _ in ERRORS]
    settings = {"reset": {"pool_mode": "session"}, "test": {"server_check_delay": 0, "server_check_query": "check"},
                "look-up": {"auth_type": "plain", "auth_user": "asker", "default_pool_size": 1}}.get(where, {})
    stage = Stage(scene, authority, {"p%d" % number: fake for number, fake in enumerate(fakes)}, **settings)

    def gone(server):
        server.shut_writing()
        until(lambda: (database, server.pid) not in [(row["database"], row["remote_pid"]) for row in stage.weir.show("SERVERS")],
              "the server is gone")

    for number, (name, error) in enumerate(ERRORS.items()):
        fake = fakes[number]
        database = "p%d" % number
        if where == "look-up":
            client = stage.plain.come("bob", database)
            server = fake.accept()
            assert lookups.asked_for(server)[0] == "bob"
            server.send(lookups.failed(error))
            assert last_error(client) == "bouncer config error", name
            gone(server)
            continue
        client = stage.plain.come(database=database)
        client.send(m.query("x"))
        server = fake.accept()
        client.finish_login()
        text = server.expect_query()
        # a server that has answered in this turn is not tested
        while where == "test" and text == "x":
            server.answer("x")
            assert client.result().value == "x"
            client.send(m.query("x"))
            text = server.expect_query()
        assert text == ("check" if where == "test" else "x")
        if where in ("test", "query"):
            server.send(error, m.ready())
        else:
            server.answer("x")
            assert client.result().value == "x"
        if where == "query":
            assert "E" in [got.type for got in client.read_until("Z")], name
        elif where == "idle":
            server.send(error)
        elif where == "reset":
            client.quit()
        elif where == "parameters":
            other = stage.plain.come(database=database, application_name="other")
            other.finish_login()
            other.send(m.query("y"))
            client.close()
            client = other
        if where in ("reset", "parameters"):
            server.expect("Q")
            server.send(error, m.ready())
        gone(server)
        client.close()


# --- CVE-2026-6667: KILL_CLIENT without being an administrator


KILLS = ["KILL_CLIENT {id}", "kill_client {id}", "  Kill_Client\t{id} ;", "SHOW VERSION; KILL_CLIENT {id}",
         "/* SHOW */ KILL_CLIENT {id}", "KILL_CLIENT '{id}'", "KILL_CLIENT {id}; SHOW VERSION"]
COMMANDS = ["PAUSE", "RESUME", "SUSPEND", "DISABLE p0", "ENABLE p0", "RECONNECT", "KILL", "KILL p0", "WAIT_CLOSE", "RELOAD",
            "SET admin_users = 'stats'", "SHUTDOWN", "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_SERVERS", "SHOW FDS"]


@pytest.mark.parametrize("role", ["stats", "any"])
def test_cve_2026_6667_kill_client(scene, authority, role):
    """
    Trap 72: a user with read access to the console cannot change anything, with any spelling or either protocol. Nor can a user with auth_type any.
    """
    more = {"auth_type": "any"} if role == "any" else {}
    stage = Stage(scene, authority, "host=127.0.0.1 port=%d user=app" % scene.mini().port, **more)
    victim = stage.plain.client()
    (number,) = [row["id"] for row in stage.weir.show("CLIENTS") if row["database"] == "p0"]
    for way in stage.ways:
        for database in ("pgbouncer", "pgweir"):
            console = way.client("stats" if role == "stats" else "anybody", database)
            for command in KILLS + COMMANDS:
                text = command.format(id=number)
                for packet in m.query(text), m.run(text) + m.sync():
                    console.send(packet)
                    result = console.result()
                    assert result.errors and not [tag for tag in result.tags if tag != "SHOW"], text
                    assert command not in COMMANDS or result.error == "admin access needed", text
            console.quit()
    assert victim.query("alive").value == "alive"
    assert stage.weir.admin("KILL_CLIENT %d" % number) == "KILL_CLIENT"
    assert last_error(victim) == "admin forced disconnect"


@pytest.mark.parametrize("auth_type", ["trust", "scram-sha-256"])
def test_cve_2026_6667_console_requires_authentication(scene, authority, auth_type):
    """Trap 72: an ordinary user is refused, as are the name of an administrator without a password, and the Unix user of the process over TCP."""
    stage = Stage(scene, authority, scene.mini(), auth_type=auth_type)
    for way in stage.ways:
        for user in ("app", "pgbouncer", "pgweir", "Admin", "admin,stats", "admin ", "stat"):
            for database in ("pgbouncer", "pgweir"):
                with pytest.raises(LoginRefused, match="not allowed|authentication failed"):
                    way.connect().login(user=user, database=database, password=stage.weir.users.get(user, ""))


# --- PgBouncer 1.5.5 (CVE-2015-4054): a password before the start-up packet met a null pointer


FIRST = {"password": m.password("x"), "SASL": m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=x"), "query": m.query("x"),
         "sync": m.sync(), "flush": m.flush(), "terminate": m.terminate(), "batch": m.run("x") + m.sync(),
         "close": m.close(), "copy": m.copy_data(b"x") + m.copy_done(), "call": m.function_call(1, b"x"), "zeros": b"\0" * 64}


@pytest.mark.parametrize("auth_type", ["trust", "plain", "md5", "scram-sha-256", "pam"])
def test_1_5_5_messages_out_of_order(scene, authority, auth_type):
    """Before the start-up packet, after a declined encryption request, and messages other than the expected answer."""
    stage = Stage(scene, authority, scene.mini(), auth_type=auth_type)
    for way in stage.ways:
        for name, words in FIRST.items():
            client = way.connect()
            client.send(words)
            told = last_error(client)
            assert name == "terminate" and told is None or told.startswith("bad packet header: '"), name
            client = way.connect()
            client.send(m.GSSENC_REQUEST)
            assert client.read_bytes(1) == b"N"
            client.send(words)
            told = last_error(client)
            assert name == "terminate" and told is None or told.startswith("bad packet header: '"), name
            if auth_type == "trust" or words[:1] == b"p":
                continue
            client, _ = way.asked()
            client.send(words)
            told = last_error(client)
            assert name == "terminate" and told is None or told.startswith(("unexpected packet type", "bad packet header")), name
        if auth_type != "trust":
            for words in way.startup(user="app", database="p0"), m.SSL_REQUEST, m.cancel_request(1, b"1234"):
                client, _ = way.asked()
                client.send(words)
                assert last_error(client).startswith(("unexpected packet type", "bad packet header"))
    if auth_type != "pam":
        stage.unharmed()


# --- CVE-2026-6668: the buffer for a packet of a huge stated length grew without end, before the login, too


HUGE = sorted({2 ** 30, 2 ** 32 - 5, 2 ** 32 - 4} | {2 ** bits + step for bits in (31, 32) for step in (-2, -1, 0, 1)} - {2 ** 32, 2 ** 32 + 1})


@pytest.mark.parametrize("side", ["startup", "password", "client"])
def test_cve_2026_6668_stated_lengths(scene, authority, side):
    """A header with a huge length, and the first bytes of a body: refused, or read without a buffer for the whole; others are served."""
    stage = Stage(scene, authority, scene.mini(), auth_type="plain" if side == "password" else "trust")
    with ExitStack() as stack:
        for way in stage.ways:
            for length in HUGE:
                client = {"startup": way.connect, "password": lambda: way.asked()[0], "client": way.client}[side]()   # pylint: disable=cell-var-from-loop
                stack.callback(client.close)
                client.send({"startup": b"", "password": b"p", "client": b"P"}[side] + struct.pack("!I", length) + b"x" * 5000)
                if side == "client" and length < 2 ** 31:
                    continue
                assert last_error(client).startswith("bad packet header") or side == "password", length
            assert stage.weir.show("VERSION")
    stage.unharmed()


def test_cve_2026_6668_stated_lengths_of_a_server(scene, authority):
    """The client gets what has come, and the server is closed after its last byte."""
    fake = scene.fake()
    stage = Stage(scene, authority, fake, default_pool_size=1)
    for way in stage.ways:
        for length in HUGE:
            client = way.come()
            client.send(m.query("x"))
            server = fake.accept()
            client.finish_login()
            server.expect_query()
            server.send(b"D" + struct.pack("!I", length) + b"x" * 5000)
            if length < 2 ** 31:
                client.read_bytes(5)
                server.close()
            client.drain()
            client.close()
            until(lambda: not stage.weir.show("SERVERS"), "the server is closed")


# --- CVE-2026-107348: the same with a limit above 2^31


def test_cve_2026_107348_limits_of_packets(scene, authority):
    """No such limit can be set, and the largest one refuses longer packets by their header."""
    stage = Stage(scene, authority, scene.mini(), max_packet_size=2 ** 31 - 1)
    for limit in 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 1, 2 ** 32, 2 ** 63, 2 ** 64 + 64:
        with pytest.raises(psycopg2.Error, match="max_packet_size"):
            stage.weir.admin("SET max_packet_size = %d" % limit)
    for way in stage.ways:
        for length in 2 ** 31, 2 ** 31 + 1, 2 ** 31 + 2, 2 ** 32 - 1:
            client = way.client()
            client.send(b"Q" + struct.pack("!I", length))
            assert last_error(client).startswith("bad packet header: '51%08x" % length)
    stage.unharmed()


# --- CVE-2026-6669: a server asked for any number of iterations


def test_cve_2026_6669_iterations_of_a_server(scene, authority):
    """More than a million, or no number: the login fails before a key is derived."""
    asked = [""]
    fake = scene.mini()

    def login(session):
        session.send(m.authentication(10, b"SCRAM-SHA-256\0\0"))
        first = session.expect("p").body.partition(b"\0")[2][4:].decode()
        nonce = scram.attributes(first)["r"] + scram.nonce()
        session.send(m.authentication(11, ("r=%s,s=%s,i=%s" % (nonce, scram.b64(b"0123456789abcdef"), asked[0])).encode()))
        session.expect_closed()

    fake.login = login
    stage = Stage(scene, authority, fake, query_wait_timeout=1, server_login_retry=0)
    for asked[0] in ["1000001", "2147483647", "2147483648", "4294967295", "4294967296", "4294971392", "9" * 40, "0", "-1", "-4096", "",
                     "+4096", " 4096", "4096x", "0x10", "1e3"]:
        client = stage.plain.come()
        assert last_error(client), asked[0]
        assert stage.weir.show("VERSION")
    assert not sum(row["answers"] or 0 for row in stage.weir.show("VERIFIERS"))


# --- CVE-2026-19888: the last message of a client's SCRAM exchange had no nonce


def test_cve_2026_19888_attributes_of_the_last_message(scene, authority):
    """Each attribute is missing, empty, doubled or out of its place, for users that exist or not."""
    stage = Stage(scene, authority, scene.mini(), auth_type="scram-sha-256")
    for way in stage.ways:
        for user in "app", "nobody":
            own = scram.nonce()
            bare = "n=,r=" + own
            for final in ["c={c},p={p}", "c={c}", "p={p}", "r={r},p={p}", "r={r}", "", ",", "c={c},r=,p={p}", "c={c},r,p={p}",
                          "c={c},p={p},r={r}", "r={r},c={c},p={p}", "c={c},r={r}", "c={c},r={r},p=", "c={c},r={r},p", "c={c},r={r},",
                          "c={c},,p={p}", "c=,p={p}", "c={c},x=1,p={p}", "c={c},r={r},r={r},p={p}", "c={c},R={r},p={p}",
                          "c={c},r={own},p={p}", "\0", "c={c}\0,r={r},p={p}"]:
                client, _ = way.asked(user)
                client.send(m.sasl_initial("SCRAM-SHA-256", b"n,," + bare.encode()))
                first = client.expect("R").body[4:].decode()
                whole, _ = scram.client_final(stage.weir.users["app"], bare, first)
                said = scram.attributes(whole)
                client.send(m.message("p", final.format(own=own, **said).encode()))
                assert last_error(client) == "SASL authentication failed", final
    stage.unharmed()


# --- CVE-2026-107349: an option without a name in the start-up packet


@pytest.mark.parametrize("ignored", ["", "extra_float_digits", "options"])
def test_cve_2026_107349_options_without_a_name(scene, authority, ignored):
    """Each client gets an answer: a login or a refusal."""
    stage = Stage(scene, authority, scene.mini(), ignore_startup_parameters=ignored)
    for way in stage.ways:
        for options in ["-c=", "-c =", "-c =x", "--=", "--=x", "--", "-c", "-c ", "-", "=", " = ", "-c= -c=", "-c=\\", "\\", "-c\\ =",
                        "-c a= -c=", "-c =a -c extra_float_digits=1", "-c=-c=-c="]:
            client = way.come(options=options)
            try:
                client.finish_login()
                assert client.query("inside").value == "inside", options
                client.close()
            except LoginRefused as refused:
                assert refused.fields["M"], options
    stage.unharmed()


# --- CVE-2026-107350: a second start-up packet during the SCRAM exchange changed the user


@pytest.mark.parametrize("database", ["nowhere", "p0"])
@pytest.mark.parametrize("victim", ["admin", "app", "nobody"])
def test_cve_2026_107350_second_startup_packet(scene, authority, victim, database):
    """Before the first and before the last message of the exchange, alone or in one write with it: the connection ends, without a login."""
    fake = scene.mini()
    stage = Stage(scene, authority, fake, auth_type="scram-sha-256")
    for way in stage.ways:
        for target in "p0", "pgbouncer", "nowhere":
            second = way.startup(user=victim, database=target)
            for when in "first", "last":
                for is_alone in True, False:
                    client = way.come(user="stats", database=database)
                    client.expect("R")
                    bare = "n=,r=" + scram.nonce()
                    message = m.sasl_initial("SCRAM-SHA-256", b"n,," + bare.encode())
                    if when == "last":
                        client.send(message)
                        first = client.expect("R").body[4:].decode()
                        final, _ = scram.client_final(stage.weir.users["stats"], bare, first)
                        message = m.message("p", final.encode())
                    client.send(second + (b"" if is_alone else message))
                    got = client.drain()
                    assert not [packet for packet in got if packet.type == "R"]
                    (error,) = [m.read_error(packet.body)["M"] for packet in got if packet.type == "E"]
                    assert error.startswith(("unexpected packet type", "bad packet header")), error
    assert not [session for session in fake.started if session.startup["user"] == victim]
    stage.unharmed()
