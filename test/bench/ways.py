"""
Programs between clients and several PostgreSQL servers: pgweir, PgBouncer, HAProxy, Pgpool-II. Each is configured for one cluster (support/nodes.py,
support/patroni.py), listens on a port of 127.0.0.1, and accepts the role app with its secret.
"""
import os
import signal
import subprocess

from support.nodes import launch
from support.patroni import PatroniNodes
from support.ports import free_port, listens
from support.postgres import SECRETS
from support.until import DEADLINE, until

USER, DATABASE = "app", "p0"
SECRET = SECRETS[USER]
POOL = 20


class Unavailable(Exception):
    """This way cannot be measured; the text says why."""


class Program:
    """A program with a directory of its own for configuration and log."""
    title = ""

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(directory)
        self.port = free_port()
        self.log_path = self.path("log")
        self._process = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        return self.path(name)

    def run(self, command, death="TERM", port=None):
        self._process = launch(command, self.log_path, death)
        until(lambda: self._is_up(port or self.port), "%s listens, see %s" % (command[0], self.log_path))

    def _is_up(self, port):
        if self._process.poll() is not None:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                raise Unavailable("%s did not start: %s" % (self.title, " ".join(f.read().split("\n")[-4:])))
        return listens(port)

    def stop(self, number=signal.SIGTERM):
        if self._process:
            self._process.send_signal(number)
            try:
                self._process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def conninfo(self):
        """For libpq: where clients connect."""
        return "host=127.0.0.1 port=%d dbname=%s user=%s" % (self.port, DATABASE, USER)


class Direct(Program):
    title = "direct, libpq with several hosts"

    def __init__(self, directory, cluster):
        super().__init__(directory)
        self._conninfo = cluster.target(DATABASE, user=USER, target_session_attrs="read-write")

    def conninfo(self):
        return self._conninfo


# The checks are twice as fast as in Patroni's template, and one success suffices instead of two.
HAPROXY = """
global
    maxconn 1000
defaults
    mode tcp
    retries 2
    timeout client 30m
    timeout server 30m
    timeout connect 4s
    timeout check 1s
listen primary
    bind 127.0.0.1:{port}
    {check}
    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""

# Without Patroni: a login as postgres, and the question for the role, byte by byte. The answer of a primary is f.
QUESTION = b"SELECT pg_is_in_recovery()\0"
TCP_CHECK = "\n    ".join([
    "option tcp-check", "tcp-check connect",
    "tcp-check send-binary " + (b"\0\0\0\x29\0\3\0\0user\0postgres\0database\0postgres\0\0").hex(),
    "tcp-check send-binary " + (b"Q" + (4 + len(QUESTION)).to_bytes(4, "big") + QUESTION).hex(),
    "tcp-check expect binary " + (b"D\0\0\0\x0b\0\1\0\0\0\1f").hex()])
HTTP_CHECK = "option httpchk OPTIONS /primary\n    http-check expect status 200"


class HaProxy(Program):
    title = "HAProxy"

    def __init__(self, directory, cluster):
        super().__init__(directory)
        patroni = isinstance(cluster, PatroniNodes)
        servers = ["    server %s %s:%d check%s" % (node.name, node.host, node.port, " port %d" % node.api_port if patroni else "")
                   for node in cluster.nodes]
        config = self.write("cfg", HAPROXY.format(port=self.port, check=HTTP_CHECK if patroni else TCP_CHECK, servers="\n".join(servers)))
        self.run(["/usr/sbin/haproxy", "-db", "-f", config])


class Pooler(Program):
    """pgweir or PgBouncer."""
    more = {}

    def __init__(self, directory, program, target, **settings):
        super().__init__(directory)
        self._pooler = program
        users = self.write("users", '"%s" "%s"\n' % (USER, SECRET))
        lines = ["[databases]", "%s = %s" % (DATABASE, target), "[pgbouncer]"]
        lines += ["%s = %s" % item for item in {
            "listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "scram-sha-256", "auth_file": users,
            "logfile": self.path("pooler.log"), "pidfile": self.path("pid"), "pool_mode": "transaction", "default_pool_size": POOL,
            "max_client_conn": 500, "admin_users": USER, "log_connections": 0, "log_disconnections": 0, **settings}.items()]
        self.config = self.write("ini", "\n".join(lines) + "\n")


class PgBouncer(Pooler):
    title = "PgBouncer"

    def __init__(self, directory, program, target, **settings):
        # by default it waits for 15 s after a failed connection
        super().__init__(directory, program, target, server_login_retry=1, **settings)
        self.run([program, "-q", self.config])


class Pgweir(Pooler):
    title = "pgweir"

    def __init__(self, directory, program, target, **settings):
        super().__init__(directory, program, target, **settings)
        checked = subprocess.run([program, "--check", self.config], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if checked.returncode:
            raise Unavailable("this pgweir does not know a setting: " + checked.stdout.strip().split("\n")[0].replace(self.directory + "/", ""))
        self.run([program, "-q", self.config])


class Chain(Program):
    """Clients connect to a pooler that connects to HAProxy."""

    def __init__(self, directory, cluster, program):
        super().__init__(directory)
        self._proxy = HaProxy(self.path("haproxy"), cluster)
        try:
            self._front = PgBouncer(self.path("pgbouncer"), program, "host=127.0.0.1 port=%d dbname=%s" % (self._proxy.port, DATABASE))
        except BaseException:
            self._proxy.stop()
            raise

    def conninfo(self):
        return self._front.conninfo()

    def stop(self, number=signal.SIGTERM):
        self._front.stop(signal.SIGQUIT)
        self._proxy.stop()
