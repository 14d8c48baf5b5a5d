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


PGPOOL = """
backend_clustering_mode = 'streaming_replication'
listen_addresses = '127.0.0.1'
port = {port}
pcp_port = {pcp_port}
socket_dir = '{directory}'
pcp_socket_dir = '{directory}'
pid_file_name = '{directory}/pid'
logdir = '{directory}'
enable_pool_hba = on
pool_passwd = '{directory}/passwd'
num_init_children = 64
max_pool = 1
load_balance_mode = on
statement_level_load_balance = on
read_only_function_list = 'served'
sr_check_user = 'postgres'
sr_check_period = 1
health_check_user = 'postgres'
health_check_period = 1
health_check_timeout = 5
health_check_max_retries = 0
auto_failback = on
auto_failback_interval = 1
"""


class Pgpool(Program):
    """Pgpool-II in its mode for streaming replication. It chooses a server for each statement, which is its best balance."""
    title = "Pgpool-II"

    def __init__(self, directory, cluster, weights):
        super().__init__(directory)
        text = PGPOOL.format(port=self.port, pcp_port=free_port(), directory=directory)
        for number, (node, weight) in enumerate(zip(cluster.nodes, weights)):
            # auto_failback looks for the name in pg_stat_replication
            text += "".join("backend_%s%d = '%s'\n" % (name, number, value) for name, value in {
                "hostname": node.host, "port": node.port, "weight": weight, "flag": "ALLOW_TO_FAILOVER", "application_name": node.name}.items())
        self.write("passwd", "%s:TEXT%s\n" % (USER, SECRET))
        self.run(["/usr/sbin/pgpool", "-n", "-f", self.write("conf", text), "-a", self.write("hba", "host all all 127.0.0.1/32 scram-sha-256\n"),
                  "-k", self.write("key", "")], death="INT")

    def stop(self, number=signal.SIGINT):
        super().stop(number)


def weighted_target(cluster, weights, **more):
    """A connect string of pgweir: the hosts with their weights."""
    hosts = ",".join("%s*%d" % pair for pair in zip((node.host for node in cluster.nodes), weights))
    return cluster.target(DATABASE, **more).replace("host=" + ",".join(node.host for node in cluster.nodes), "host=" + hosts)
