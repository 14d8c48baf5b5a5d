"""
Played servers with roles: each answers pgweir's question for its role by itself, and the scene plays the rest.

    first, second = hosts = pair(scene)
    weir = primaries(scene, hosts)
    client, server = asked(first.fake, weir)
    first.becomes("standby")
"""
import contextlib
import socket
import threading

from . import messages as m
from .until import DEADLINE
from .wire import Closed

SHUTTING_DOWN = m.error("the database system is shutting down", "57P03", "FATAL")
TERMINATED = m.error("terminating connection due to administrator command", "57P01", "FATAL")
READ_ONLY = m.error("cannot execute INSERT in a read-only transaction", "25006")
IN_RECOVERY = m.error("cannot set transaction read-write mode during recovery", "0A000")
WATCHER = "watch"       # the user of pgweir's watchers


class Host:
    """role: "primary" or "standby". A host that is not `open` refuses logins, as in a shutdown."""

    def __init__(self, scene, role, timeline=1):
        self.role = role
        self.timeline = timeline
        self.system = 7000000000000000001
        self.open = True
        self.refusal = None             # the answer to logins of clients, but not of watchers
        self.position = "0/3000000"     # inserted, or replayed
        self.read_only = "off"
        self.asked = 0
        self.reported = {}              # further parameters of sessions
        self.watchers = []
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

    def falls_silent(self):
        """Questions for its role get no answer until it talks()."""
        self._talks.clear()

    def talks(self):
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
        if not self.open:
            session.send(SHUTTING_DOWN)
            raise Closed("shutting down")
        if self.refusal and session.startup["user"] != WATCHER:
            session.send(self.refusal)
            raise Closed("refused")
        session.parameters["in_hot_standby"] = "off" if self.role == "primary" else "on"
        session.parameters.update(self.reported)
        session.welcome()
        if not self._is_watcher(session):
            return
        self.watchers.append(session)
        session.sock.settimeout(None)
        while True:
            self._answer(session)

    @staticmethod
    def _is_watcher(session):
        """After a failed login pgweir tries another user: its first message tells."""
        if session.startup["user"] == WATCHER:
            return True
        session.sock.settimeout(None)
        beginning = session.sock.recv(30, socket.MSG_PEEK)
        session.sock.settimeout(DEADLINE)
        return beginning[5:].startswith(b"select pg_catalog.")

    def _answer(self, session):
        got = session.read()
        if got.type == "X":
            raise Closed("terminated")
        assert b"pg_is_in_recovery" in got.body, got
        # what it says is true at the time of the question
        is_primary, timeline, read_only = self.role == "primary", self.timeline, self.read_only
        self.asked += 1
        self.fake.happened()
        self._talks.wait()
        row = ("f", self.position, "%08X0000000000000003" % timeline) if is_primary else ("t", self.position, str(timeline))
        session.send(m.row_description("a", "b", "c", "d", "e"), m.data_row(*row, read_only, str(self.system)), m.command_complete("SELECT 1"), m.ready())


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
