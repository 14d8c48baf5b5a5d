"""
PostgreSQL servers under Patroni with etcd, all of Debian, whatever $PGWEIR_PGBIN says: Patroni chooses the primary. They need ten seconds to start;
servers without Patroni need one second (nodes.py).

The roles, secrets and databases are the same as in nodes.py. Patroni's time to live is 6 s and its loop 1 s, the least that version 3.0 accepts.

    patroni = scene.patroni()
    patroni.switchover(candidate=patroni.standbys[0])
    patroni.kill_postgres(patroni.leader())
    patroni.wait_leader()
    patroni.heal()                              # all three run again
"""
import glob
import http.client
import json
import os
import shutil
import signal
import time
import urllib.error
import urllib.request

from .nodes import CONF, Cluster, Node, children, is_gone, launch, make_hba, role_statements, send
from .ports import free_port, listens
from .until import DEADLINE, until

LONG = 3 * DEADLINE
SCOPE = "shop"


def bin_directory():
    """Debian's newest PostgreSQL: Patroni of Debian does not know newer versions."""
    return max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2]))


def settings_of(text):
    """{name: value} of the lines of a postgresql.conf."""
    return dict((part.strip().strip("'") for part in line.split("=", 1)) for line in text.strip().splitlines())


class Member(Node):
    """A server and its Patroni."""

    def __init__(self, name, directory, room):
        super().__init__(name, directory, room, "127.0.0.1", free_port())
        self.api_port = free_port()
        self.patroni = None
        self.yaml_path = os.path.join(directory, name + ".yml")
        self.patroni_log_path = os.path.join(directory, name + ".patroni.log")

    @property
    def url(self):
        return "http://%s:%d" % (self.host, self.api_port)

    def ask(self, path, body=None, timeout=2.0):
        """Status and text of an answer of Patroni's interface; (0, reason) without one."""
        request = urllib.request.Request(self.url + path, data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except (OSError, http.client.HTTPException) as fault:
            return 0, str(fault)

    def has(self, path):
        """Whether Patroni confirms this: /primary, /replica, /read-only ..."""
        return self.ask(path)[0] == 200

    def last_seen(self):
        """Unix time at which Patroni has had an answer of etcd; 0 if it does not say."""
        status, text = self.ask("/patroni")
        return json.loads(text).get("dcs_last_seen", 0) if status == 200 else 0


class PatroniNodes(Cluster):
    """
    - directory, shared: see Cluster
    - count: of the servers
    - settings: further lines of postgresql.conf, of all servers
    """

    def __init__(self, directory, shared, count=3, **settings):
        super().__init__(directory, shared)
        self._etcd, self._etcd_since = None, 0
        self._etcd_port, self._etcd_peer_port = free_port(), free_port()
        self._take([Member("n%d" % number, self.directory, self.room) for number in range(1, count + 1)])
        parameters = {**settings_of(CONF), **settings}
        try:
            self.start_etcd()
            for node in self.nodes:
                self._write_yaml(node, parameters)
            self.restart_patroni(*self.nodes)
            self._fill(self.wait_leader())
            self.heal()
        except BaseException:
            self.take_down()
            raise

    def _write_yaml(self, node, parameters):
        """Writes JSON, which is YAML, too."""
        document = {
            "scope": SCOPE, "name": node.name,
            "restapi": {"listen": "127.0.0.1:%d" % node.api_port, "connect_address": "127.0.0.1:%d" % node.api_port},
            "etcd3": {"host": "127.0.0.1:%d" % self._etcd_port},
            "bootstrap": {
                # master_start_timeout 0: another server takes over at once, the failed one is not started again first
                "dcs": {"ttl": 6, "loop_wait": 1, "retry_timeout": 2, "maximum_lag_on_failover": 1048576, "master_start_timeout": 0,
                        "postgresql": {"use_pg_rewind": True, "parameters": parameters}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, {"wal-segsize": "1"}, "no-sync"]},
            "postgresql": {
                "listen": "127.0.0.1:%d" % node.port, "connect_address": "127.0.0.1:%d" % node.port, "data_dir": node.data,
                "bin_dir": bin_directory(), "pgpass": os.path.join(self.directory, node.name + ".pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "pg_hba": [line for line in make_hba().splitlines() if line]},
            "watchdog": {"mode": "off"},
        }
        with open(node.yaml_path, "w", encoding="utf-8") as f:
            json.dump(document, f)
        os.chmod(node.yaml_path, 0o600)

    @staticmethod
    def _fill(node):
        for statement in role_statements():
            if not statement.startswith("SET"):
                node.execute(statement)

    @property
    def urls(self):
        """All interfaces, for a list in a setting."""
        return ",".join(node.url for node in self.nodes)

    # --- life

    def start_etcd(self):
        address, peers = ("http://127.0.0.1:%d" % port for port in (self._etcd_port, self._etcd_peer_port))
        self._etcd = launch(["etcd", "--name", "e1", "--data-dir", os.path.join(self.room, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
                             "--listen-client-urls", address, "--advertise-client-urls", address, "--listen-peer-urls", peers,
                             "--initial-advertise-peer-urls", peers, "--initial-cluster", "e1=" + peers],
                            os.path.join(self.directory, "etcd.log"), "TERM")
        until(lambda: listens(self._etcd_port), "etcd listens, see " + self.directory)
        self._etcd_since = time.time()

    def stop_etcd(self):
        """SIGKILL; its data stay."""
        self._end(self._etcd)
        self._etcd = None

    @staticmethod
    def _end(process):
        if process:
            process.kill()
            process.wait(DEADLINE)

    def restart_patroni(self, *nodes):
        """Starts Patroni of these servers, after kill_patroni() or at first."""
        for node in nodes:
            assert node.patroni is None, "%s has a Patroni" % node
            node.patroni = launch(["/usr/bin/python3", "/usr/bin/patroni", node.yaml_path], node.patroni_log_path, "TERM")

    def kill_patroni(self, node):
        """SIGKILL of Patroni, not of its server."""
        if node.patroni:
            programs = [pid for pid in children(node.patroni.pid) if pid != node.pid]       # pg_rewind, pg_basebackup
            self._end(node.patroni)
            node.patroni = None
            send(signal.SIGKILL, *programs)

    def kill_postgres(self, node):
        """SIGKILL of the server, with all of its processes. Patroni lets another one take over."""
        self.kill9(node)

    def kill_machine(self, node):
        """SIGKILL of both at once: the others notice it when the lock expires."""
        self.kill_patroni(node)
        self.kill9(node)

    def heal(self):
        """Starts everything that does not run, and waits until there is a leader from which all others stream."""
        if self._etcd is None:
            self.start_etcd()
        for node in self.nodes:
            self.resume(node)
            if node.patroni and is_gone(node.patroni.pid):
                node.patroni = None
            if not node.patroni:
                self.restart_patroni(node)
        until(self._is_healthy, "Patroni has healed its servers, see " + self.directory, deadline=2 * LONG)

    def _is_healthy(self):
        # without etcd, Patroni still says for seconds that its servers are well
        if not all(node.has("/read-only") and node.last_seen() > self._etcd_since for node in self.nodes):
            return False
        leaders = [node for node in self.nodes if node.has("/primary")]
        return len(leaders) == 1 and self.role(leaders[0]) == "primary" and all(
            node is leaders[0] or self.is_streaming(node, leaders[0]) for node in self.nodes)

    def take_down(self):
        for node in self.nodes:
            self.kill_patroni(node)
        for node in self.nodes:
            self.kill9(node)
        self.stop_etcd()
        shutil.rmtree(self.room, ignore_errors=True)

    # --- roles

    def leader(self):
        """The server with Patroni's lock; None at a moment without one."""
        return next((node for node in self.nodes if node.has("/leader")), None)

    def wait_leader(self, former=None):
        """Waits until a server other than `former` has the lock and accepts writes."""
        def found():
            node = self.leader()
            return node if node and node is not former and self.role(node) == "primary" else None
        return until(found, "a leader", deadline=LONG)

    @property
    def primary(self):
        return self.wait_leader()

    @property
    def standbys(self):
        leader = self.primary
        return [node for node in self.nodes if node is not leader and node.is_alive()]

    def switchover(self, leader=None, candidate=None):
        """Returns when Patroni says that it is done."""
        leader = leader or self.primary
        candidate = candidate or next(node for node in self.nodes if node is not leader)
        status, text = candidate.ask("/switchover", {"leader": leader.name, "candidate": candidate.name}, timeout=LONG)
        assert status == 200, (status, text)
