"""
Played servers with roles: each answers pgweir's question for its role by itself, and the scene plays the rest.

    first, second = hosts = pair(scene)
    weir = primaries(scene, hosts)
    client, server = asked(first.fake, weir)
    first.becomes("standby")
"""
import base64
import contextlib
import http.server
import itertools
import json
import socket
import threading

from . import messages as m
from .until import DEADLINE
from .wire import Closed

SHUTTING_DOWN = m.error("the database system is shutting down", "57P03", "FATAL")
TERMINATED = m.error("terminating connection due to administrator command", "57P01", "FATAL")
READ_ONLY = m.error("cannot execute INSERT in a read-only transaction", "25006")
IN_RECOVERY = m.error("cannot set transaction read-write mode during recovery", "0A000")
SILENCE = b""            # a refusal without a word
STARTS = itertools.count(1000000)
WATCHER = "watch"       # the user of pgweir's watchers


class Host:
    """
    role: "primary" or "standby". A host that is not `open` refuses logins, as in a shutdown. has_wal: False for a service without WAL functions.
    """

    def __init__(self, scene, role, timeline=1):
        self.role = role
        self.timeline = timeline
        self.system = 7000000000000000001
        self.open = True
        self.refusal = None             # the answer to logins of clients, but not of watchers
        self.refusal_of_all = None      # the answer to all logins
        self.has_wal = True
        self.position = "0/3000000"     # inserted, or replayed; None: NULL
        self.read_only = "off"
        self.started_at = str(next(STARTS))     # the postmaster
        self.receiver = "77"            # process id of the WAL receiver of a standby; None: it receives nothing
        self.asked = 0
        self.questions = set()          # their texts
        self.refused = 0                # questions that were answered with an error
        self.reported = {}              # further parameters of sessions
        self.watchers = []
        self._hangs = False
        self._talks = threading.Event()
        self._talks.set()
        self.fake = scene.fake(login=self._login)

    @property
    def port(self):
        return self.fake.port

    def accept(self):
        return self.fake.accept()

    def becomes(self, role, timeline=None):
        self.role = role
        self.timeline = timeline or self.timeline

    def falls_silent(self, hangs=False):
        """Questions for its role get no answer until it talks(). hangs: logins of watchers neither."""
        self._hangs = hangs
        self._talks.clear()

    def talks(self):
        self._hangs = False
        self._talks.set()

    def ends_watchers(self):
        """As a shutdown does."""
        for session in self.watchers:
            with contextlib.suppress(OSError):
                session.sock.shutdown(socket.SHUT_RDWR)

    def goes(self):
        """Shuts down: connections of clients have ended, or end by themselves."""
        self.open = False
        self.ends_watchers()

    def _login(self, session):
        if self._hangs and session.startup["user"] == WATCHER:
            self._talks.wait()
        if not self.open:
            session.send(SHUTTING_DOWN)
            raise Closed("shutting down")
        if self.refusal_of_all:
            session.send(self.refusal_of_all)
            raise Closed("refused")
        if self.refusal is not None and session.startup["user"] != WATCHER:
            session.send(self.refusal)
            if self.refusal == SILENCE:
                session.read()
            raise Closed("refused")
        session.parameters["in_hot_standby"] = "off" if self.role == "primary" else "on"
        session.parameters.update(self.reported)
        session.welcome()
        if not self._is_watcher(session):
            self._identify(session)
            return
        self.watchers.append(session)
        session.sock.settimeout(None)
        while True:
            self._answer(session)

    def _is_watcher(self, session):
        """After a failed login pgweir tries another user: its first message tells."""
        if session.startup["user"] == WATCHER:
            return True
        session.sock.settimeout(None)
        return self._peek(session)[5:].startswith(b"select pg_catalog.")

    @staticmethod
    def _peek(session):
        session.sock.settimeout(None)
        beginning = session.sock.recv(80, socket.MSG_PEEK)
        session.sock.settimeout(DEADLINE)
        return beginning

    def _identify(self, session):
        """A session of a pool at a host is asked first which server it is connected to."""
        if self._peek(session)[5:].startswith(b"select (extract(epoch from pg_catalog.pg_postmaster_start_time())"):
            session.read()
            session.send(m.row_description("a"), m.data_row(self.started_at), m.command_complete("SELECT 1"), m.ready())

    def _answer(self, session):
        got = session.read()
        if got.type == "X":
            raise Closed("terminated")
        assert b"pg_is_in_recovery" in got.body, got
        # what it says is true at the time of the question
        is_primary, timeline, read_only, position = self.role == "primary", self.timeline, self.read_only, self.position
        self.asked += 1
        self.questions.add(m.read_cstrings(got.body)[0])
        self.fake.happened()
        self._talks.wait()
        if not self.has_wal and b"_lsn()" in got.body:
            self.refused += 1
            session.send(m.error("function pg_current_wal_insert_lsn() does not exist", "42883"), m.ready())
            return
        row = ("f", position, "%08X0000000000000003" % timeline) if is_primary else ("t", position, str(timeline))
        receiver = None if is_primary else self.receiver
        row = (*row, read_only, str(self.system), receiver, self.started_at) if self.has_wal else (row[0], None, None, read_only, None, None, None)
        session.send(m.row_description("a", "b", "c", "d", "e", "f", "g"), m.data_row(*row), m.command_complete("SELECT 1"), m.ready())


class Cluster:
    """
    Patroni's interface: /cluster names the hosts, and `leader`, which has the lock.

    more: {host: further values of its member}
    context: of TLS, with which the URL has https. credentials: "user:password", which each question must have
    """

    def __init__(self, scene, hosts, context=None, credentials=None):
        self.hosts, self.leader, self.more = hosts, hosts[0], {}
        self.strangers = []             # ports of further members
        self.answered = 0
        self.authorizations = set()
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):           # pylint: disable=invalid-name
                cluster.authorizations.add(self.headers.get("Authorization"))
                if credentials and self.headers.get("Authorization") != "Basic " + base64.b64encode(credentials.encode()).decode():
                    self.send_error(401)
                    return
                body = json.dumps({"members": cluster.members()}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                cluster.answered += 1

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None     # a refused certificate
        self._scheme = "https" if context else "http"
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        scene.servers.append(self)

    @property
    def url(self):
        return "%s://127.0.0.1:%d" % (self._scheme, self._server.server_port)

    def members(self):
        return [{"name": "n%d" % number, "role": "leader" if host is self.leader else "replica", "state": "running", "host": "127.0.0.1", "port": host.port,
                 **self.more.get(host, {})} for number, host in enumerate(self.hosts)] + [
                     {"name": "s%d" % port, "role": "replica", "state": "running", "host": "127.0.0.1", "port": port} for port in self.strangers]

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def pair(scene):
    """A primary and a standby."""
    return Host(scene, "primary"), Host(scene, "standby")


def target(hosts, **more):
    parts = dict(host=",".join("127.0.0.1" for _ in hosts), port=",".join(str(host.port) for host in hosts), **more)
    return " ".join("%s=%s" % part for part in parts.items())


def primaries(scene, hosts, attrs="primary", more=None, **settings):
    """pgweir, whose clients ask for this role."""
    settings.setdefault("server_login_retry", 0)
    settings.setdefault("host_check_user", WATCHER)
    settings.setdefault("pool_mode", "transaction")
    return scene.weir({"p0": target(hosts, target_session_attrs=attrs, **(more or {}))}, log_disconnections=1, default_pool_size=settings.pop("pool_size", 1), **settings)
