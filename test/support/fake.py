"""
A fake PostgreSQL server that the scene controls.

A FakePostgres listens on its own port. A thread accepts, answers SSLRequest and GSSENCRequest, and plays the login. The scene reads the results:

- fake.accept(): the next logged-in connection, as a Session to send to and expect from
- fake.cancels: queue of cancel requests: (pid, key)

`login` replaces the login by a function of the scene, which gets the Session after its start-up packet. `serve` gives every connection a thread that
answers by itself (see mini.py), for scenes about the handling of answers in pgweir.
"""
import base64
import os
import queue
import socket
import struct
import threading

from . import messages as m
from . import scram
from .until import DEADLINE, until
from .wire import Closed, Peer

REPORTED = {
    "server_version": "15.6", "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY",
    "TimeZone": "UTC", "IntervalStyle": "postgres", "standard_conforming_strings": "on", "integer_datetimes": "on",
    "application_name": "", "is_superuser": "off", "session_authorization": "app",
    "default_transaction_read_only": "off", "in_hot_standby": "off",
}


# pgweir's first query to a server of a pool with session_state = full (src/sql/state_functions.c)
FUNCTIONS = b"SELECT pg_catalog.set_config('statement_timeout','0',true),pg_catalog.set_config('search_path','pg_catalog,pg_temp',true);"
NO_FUNCTIONS = m.command_complete("SELECT") + m.ready()


class Session(Peer):
    """The server's end of a connection."""

    def __init__(self, sock, pid, fake):
        super().__init__(sock)
        self.fake = fake
        self.pid = pid
        self.key = os.urandom(4)
        self.startup = {}
        self.protocol = None            # the version that it was asked for
        self.parameters = {**REPORTED, "in_hot_standby": fake.in_hot_standby}
        self.cancelled = False
        self.tls = False
        self.direct = False             # ... and there was no SSLRequest
        self.mechanism = self.gs2 = self.binding = None     # of SASL: the chosen mechanism, and the client's channel binding data

    def read(self):
        """The question for functions is answered on the way: there are none. Not where the scene wants to see it."""
        got = super().read()
        if got.type == "Q" and got.body.startswith(FUNCTIONS) and not self.fake.shows_functions:
            self.send(NO_FUNCTIONS)
            return self.read()
        return got

    def expect_functions(self, *rows):
        """The next message is that question, or the second one; its rows are the answer. Its text."""
        got = super().read()
        assert got.type == "Q" and got.body.startswith(FUNCTIONS), got
        self.send(*(m.data_row(*row) for row in rows), NO_FUNCTIONS)
        return m.read_cstrings(got.body)[0]

    # --- the login, step by step

    def read_startup(self):
        """Reads up to the packet that is not a request for encryption: (code, rest of the packet)."""
        if self.fake.tls and self.sock.recv(1, socket.MSG_PEEK) == b"\x16":
            self.start_tls()
            self.direct = True
        while True:
            (length,) = struct.unpack("!I", self.read_bytes(4))
            if not 8 <= length <= 10000:
                raise Closed("a packet of an impossible length")
            body = self.read_bytes(length - 4)
            (code,) = struct.unpack_from("!I", body)
            if body == m.GSSENC_REQUEST[4:]:
                self.send(b"N")
            elif body != m.SSL_REQUEST[4:]:
                return code, body[4:]
            elif self.fake.tls:
                self.send(b"S")
                self.start_tls()
            else:
                self.send(b"N")

    def start_tls(self):
        self.sock = self.fake.tls.wrap_socket(self.sock, server_side=True)
        self.tls = True

    def agree(self, asked):
        """Sets the protocol version: the requested version, or the newest that the server knows."""
        self.protocol = asked
        known = m.PROTOCOL_3_0 + self.fake.minor
        if asked > known:
            self.send(m.negotiate_protocol_version(known))
        if min(asked, known) >= m.PROTOCOL_3_2:
            self.key = os.urandom(32)

    def take_parameters(self, body):
        self.startup = m.read_pairs(body)
        known = {name.lower(): name for name in self.parameters}
        for name, value in self.startup.items():
            if name.lower() in known:
                self.parameters[known[name.lower()]] = value

    def welcome(self, key=True):
        """Everything from AuthenticationOk to ReadyForQuery."""
        reported = b"".join(m.parameter_status(name, value) for name, value in self.parameters.items())
        keys = m.backend_key_data(self.pid, self.key) if key else b""
        self.send(m.authentication_ok(), reported, keys, m.ready())

    def ask_cleartext(self, password):
        self.send(m.authentication(3))
        return self._judge(self.expect("p").body == m.cstring(password))

    def ask_md5(self, password):
        salt = os.urandom(4)
        self.send(m.authentication(5, salt))
        right = scram.md5_password(self.startup["user"], password, salt)
        return self._judge(self.expect("p").body == m.cstring(right))

    def ask_scram(self, password, own_nonce=None, mechanisms=("SCRAM-SHA-256",), secret=None):
        secret = secret or scram.make_secret(password)
        self.send(m.authentication(10, b"".join(m.cstring(name) for name in mechanisms) + b"\0"))
        initial = self.expect("p").body
        mechanism, _, rest = initial.partition(b"\0")
        self.mechanism = mechanism.decode()
        assert self.mechanism in mechanisms, mechanism
        flag, identity, bare = rest[4:].decode().split(",", 2)
        self.gs2 = "%s,%s," % (flag, identity)
        first = scram.server_first(scram.attributes(bare)["r"], secret, own_nonce)
        self.send(m.authentication(11, first.encode()))
        answer = self.expect("p").body.decode()
        self.binding = base64.b64decode(scram.attributes(answer)["c"])
        final = scram.server_final(secret, bare, first, answer)
        if final:
            self.send(m.authentication(12, final.encode()))
        return self._judge(final)

    def _judge(self, right):
        if not right:
            user = self.startup["user"]
            self.send(m.error('password authentication failed for user "%s"' % user, "28P01", "FATAL"))
            raise Closed("wrong password")

    # --- after the login

    def answer(self, *values, status="I", tag=None):
        """Rows of a result, its tag, and ReadyForQuery."""
        self.send(m.rows(*values, tag=tag), m.ready(status))

    def complete(self, tag, status="I"):
        """A result without rows."""
        self.send(m.command_complete(tag), m.ready(status))

    def expect_query(self, sql=None):
        """Expects a simple query and returns its text. Queries that set parameters are answered on the way."""
        text = m.read_cstrings(self.expect("Q").body)[0]
        while text.startswith("SELECT pg_catalog.set_config"):
            self.answer("set")
            text = m.read_cstrings(self.expect("Q").body)[0]
        assert sql is None or text == sql, "want query %r, got %r" % (sql, text)
        return text


class FakePostgres:
    def __init__(self, port, login=None, serve=None, tls=None, password=None, method="trust", minor=2,
                 host="127.0.0.1"):
        self.port = port
        self.host = host
        self.login = login
        self.serve = serve
        self.tls = tls
        self.password = password
        self.method = method
        self.minor = minor              # newest minor version of the protocol that it knows
        self.in_hot_standby = "off"     # as it is reported at the login
        self.cancels = queue.Queue()
        self.on_cancel = None           # called with (pid, key, connection) in place of the usual delivery
        self.started = []               # every Session whose start-up packet was read
        self.released = False           # nothing needs to be waited for any more
        self.shows_functions = False    # scenes answer the question for functions themselves
        self.faults = []                # exceptions in our threads
        self._logged_in = queue.Queue()
        self._lock = threading.Lock()
        self._news = threading.Condition()
        self._last_pid = 1000
        self._connections = []
        self._threads = []
        self._listener = None
        self._filler = None
        self.listen()

    # --- coming and going

    def _bind(self, backlog):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self.host, self.port))
        self._listener.listen(backlog)

    def listen(self):
        self._bind(512)
        self._spawn(self._accept, self._listener)

    def stop_listening(self):
        """New connections are refused from now on."""
        # shutdown() wakes the thread in accept(), which close() alone would not
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def listen_without_answer(self):
        """New connections are neither accepted nor refused from now on: the kernel drops their packets."""
        self.stop_listening()
        self._bind(0)
        self._filler = socket.create_connection((self.host, self.port))
        until(self._is_full, "the queue of new connections is full")

    def _is_full(self):
        """The listening socket's queue (rx_queue of /proc/net/tcp) has the one connection that fits."""
        with open("/proc/net/tcp", encoding="ascii") as f:
            rows = [line.split() for line in f]
        return any(row[3] == "0A" and row[1].endswith(":%04X" % self.port) and int(row[4].split(":")[1], 16) for row in rows[1:])

    def drop_all(self):
        """Every connection ends at once, as when the machine goes."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def release(self):
        """Lets answers that take time complete."""
        self.released = True
        self.happened()

    def stop(self):
        self.release()
        try:
            self.stop_listening()
        except OSError:
            pass
        self.drop_all()
        if self._filler:
            self._filler.close()
        for thread in self._threads:
            thread.join(DEADLINE)
        for session in self.started:
            session.close()
        assert not self.faults, self.faults

    def accept(self):
        """The next connection that has completed its login."""
        try:
            return self._logged_in.get(timeout=DEADLINE)
        except queue.Empty:
            raise AssertionError("no server connection was opened; faults: %r" % self.faults) from None

    def next_cancel(self):
        """The next cancel request that arrived: (pid, key)."""
        try:
            return self.cancels.get(timeout=DEADLINE)
        except queue.Empty:
            raise AssertionError("no cancel request came") from None

    def until(self, predicate, what):
        """Waits for a fact of this server: the predicate is asked again whenever something has happened()."""
        with self._news:
            assert self._news.wait_for(predicate, DEADLINE), "waited in vain: " + what

    def happened(self):
        with self._news:
            self._news.notify_all()

    def session_of(self, pid):
        return next((session for session in self.started if session.pid == pid), None)

    # --- threads

    def _spawn(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._last_pid += 1
                session = Session(sock, self._last_pid, self)
                self._connections.append(session)
            self._spawn(self._host, session)

    def _host(self, session):
        try:
            self._greet(session)
        except (Closed, OSError):
            session.close()
        except Exception as fault:      # pylint: disable=broad-except
            self.faults.append(fault)
            session.close()

    def _greet(self, session):
        code, body = session.read_startup()
        if code == 80877102:
            self._cancel(session, struct.unpack_from("!I", body)[0], body[4:])
            return
        session.agree(code)
        session.take_parameters(body)
        self.started.append(session)
        if self.login:
            self.login(session)
        else:
            if self.method != "trust":
                getattr(session, "ask_" + self.method)(self.password)
            session.welcome()
        self._logged_in.put(session)
        if self.serve:
            # it may be idle for as long as it likes; the end of the scene wakes it
            session.sock.settimeout(None)
            self.serve(session)

    def _cancel(self, connection, pid, key):
        if self.on_cancel:
            self.on_cancel(pid, key, connection)
        else:
            self.deliver_cancel(pid, key)
            connection.close()
        self.cancels.put((pid, key))
        self.happened()

    def deliver_cancel(self, pid, key):
        """Handles a cancel request as PostgreSQL does: signals the process if the key is right."""
        session = self.session_of(pid)
        if session and session.key == key:
            session.cancelled = True
            self.happened()
