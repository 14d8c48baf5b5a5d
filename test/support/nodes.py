"""
Several real PostgreSQL servers: a primary and its standbys, without a program that promotes one of them (support/patroni.py has Patroni).

The roles and secrets are the same as in support/postgres.py, the databases are p0 and p1. Each server has a port of its own on 127.0.0.1, or, with
one_port=True, an address of its own (127.0.0.2, 127.0.0.3, ...) and the same port. All data directories are copies of one, so three servers start in
a second. Data are in memory if the machine has enough (scene.nodes()).

    nodes = scene.nodes()
    nodes.primary.execute("CREATE TABLE t (i int)", database="p0")
    nodes.wait_replayed()
    nodes.kill9(nodes.primary)
    nodes.promote(nodes.standbys[0])            # the other standby follows it
    nodes.rejoin(nodes.nodes[0])                # a standby of the new primary

A commit is on disk of the primary before it is acknowledged, and on the standbys a little later: use synchronous_standby_names where this matters.
"""
import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile

import psycopg2

from .ports import free_port
from .postgres import DATABASES, HBA, SECRETS, tool
from .until import DEADLINE, until

CONF = """
unix_socket_directories = ''
max_connections = 50
shared_buffers = 16MB
dynamic_shared_memory_type = mmap
fsync = off
autovacuum = off
max_wal_size = 256MB
wal_keep_size = 64MB
wal_log_hints = on
wal_receiver_timeout = 5s
wal_receiver_status_interval = 100ms
wal_retrieve_retry_interval = 100ms
hot_standby_feedback = on
log_line_prefix = '%m [%p] %u@%d '
log_connections = on
log_disconnections = on
timezone = 'UTC'
log_timezone = 'UTC'
"""

STOP = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# The servers end with this process (PR_SET_PDEATHSIG). The kernel means the thread that has started them: this thread lives as long as the process.
_launcher = concurrent.futures.ThreadPoolExecutor(1)


def launch(command, log_path, death="QUIT"):
    """Starts a program that ends with this process, even if this process is killed."""
    def run():
        with open(log_path, "ab") as log:
            # pylint: disable-next=consider-using-with
            return subprocess.Popen(["setpriv", "--pdeathsig", death] + command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return _launcher.submit(run).result()


def run_tool(name, *arguments):
    done = subprocess.run([tool(name), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, "%s: %s" % (name, done.stdout)
    return done.stdout


# --- processes, by their ids

def _stat(pid):
    """State and parent of a process; ("", 0) if there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
            state, parent = f.read().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return state, int(parent)


def is_gone(pid):
    return _stat(pid)[0] in ("", "Z", "X")


def children(pid):
    return [child for child in map(int, filter(str.isdigit, os.listdir("/proc"))) if _stat(child)[1] == pid]


def send(number, *pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(*pids):
    send(signal.SIGSTOP, *pids)
    until(lambda: all(_stat(pid)[0] in ("T", "", "Z", "X") for pid in pids), "processes %s are stopped" % (pids,))


# --- one server

class Node:
    """data, log_path: directories of many files and of logs may be on different file systems."""

    def __init__(self, name, directory, room, host, port):
        self.name = name
        self.data = os.path.join(room, name)
        self.log_path = os.path.join(directory, name + ".log")
        self.host = host
        self.port = port
        self.process = None             # of Nodes; Patroni's servers are not our children

    def __repr__(self):
        return "%s (port %d)" % (self.name, self.port)

    @property
    def pid(self):
        """The postmaster; None if it does not run."""
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as f:
                pid = int(f.readline())
            # the file may be left from a killed one
            return pid if os.path.samefile("/proc/%d/cwd" % pid, self.data) else None
        except (OSError, ValueError):
            return None

    def is_alive(self):
        return self.pid is not None

    def process_titled(self, pattern):
        """The process of this server with a title that matches, for example "startup "."""
        for pid in children(self.pid):
            with contextlib.suppress(OSError), open("/proc/%d/cmdline" % pid, encoding="utf-8", errors="replace") as f:
                if re.match(r"postgres: (\S+: )?" + pattern, f.read()):
                    return pid
        raise AssertionError("%s has no process %s" % (self, pattern))

    def connect(self, user="postgres", database="postgres", **more):
        return psycopg2.connect(host=self.host, port=self.port, user=user, dbname=database, password=SECRETS.get(user), **more)

    def execute(self, sql, arguments=None, database="postgres", user="postgres"):
        """Runs one statement, and returns its rows if it has any."""
        connection = self.connect(user, database, connect_timeout=int(DEADLINE))
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, arguments)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def value(self, sql, arguments=None, database="postgres"):
        return self.execute(sql, arguments, database)[0][0]

    def answers(self):
        """Whether a client can log in."""
        try:
            self.connect(connect_timeout=2).close()
        except psycopg2.OperationalError:
            return False
        return True

    def is_in_recovery(self):
        return self.value("SELECT pg_is_in_recovery()")

    def replayed(self):
        """The position up to which a standby has replayed, in bytes."""
        return int(self.value("SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')"))

    def flushed(self):
        """The position up to which a primary has written and flushed, in bytes."""
        return int(self.value("SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')"))

    def set(self, name, value):
        """ALTER SYSTEM SET, in force for new sessions when this returns."""
        self.execute("ALTER SYSTEM SET %s = %%s" % name, (str(value),))
        before = self.value("SELECT pg_conf_load_time()")
        self.execute("SELECT pg_reload_conf()")
        until(lambda: self.value("SELECT pg_conf_load_time()") > before, "%s has reloaded" % self)

    def target(self, database, **more):
        """A connect string for pgweir's [databases]: this server only."""
        return _target(dict(host=self.host, port=self.port, dbname=database, **more))

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()


def _target(parts):
    return " ".join("%s=%s" % item for item in parts.items())


# --- several of them

class Cluster:
    """
    The common part of Nodes and PatroniNodes (patroni.py). `nodes` lists all servers.

    - directory: an empty one, for logs
    - shared: a directory for the data, best in memory; other clusters may use it at the same time
    """

    def __init__(self, directory, shared):
        self.directory = str(directory)
        self.room = tempfile.mkdtemp(dir=shared)
        self.nodes = []
        self.hosts_of_one_port = False

    def _take(self, nodes):
        self.nodes = nodes
        self.hosts_of_one_port = len({node.port for node in nodes}) == 1

    def target(self, database, **more):
        """A connect string for pgweir's [databases], or for libpq: all servers."""
        ports = self.nodes[:1] if self.hosts_of_one_port else self.nodes
        return _target(dict(host=",".join(node.host for node in self.nodes), port=",".join(str(node.port) for node in ports),
                            dbname=database, **more))

    @staticmethod
    def role(node):
        """"primary" or "standby", as the server says; None if it cannot be reached."""
        try:
            return "standby" if node.is_in_recovery() else "primary"
        except psycopg2.OperationalError:
            return None

    def roles(self):
        """{name: role}. A paused server must not be asked: it does not answer."""
        return {node.name: self.role(node) for node in self.nodes}

    # --- processes of a server

    def kill9(self, node):
        """SIGKILL of the postmaster and all of its children, at one moment: the machine loses its power."""
        pid = node.pid
        if pid is None:
            return
        with open(os.path.join(node.data, "postmaster.pid"), encoding="ascii") as f:
            shared_memory = [line.split()[1] for line in f.read().splitlines()[6:7]]
        # the postmaster must not start new ones, and must not see that one is gone
        freeze(pid)
        family = [*children(pid), pid]
        send(signal.SIGKILL, *family)
        self._reap(node)
        until(lambda: all(map(is_gone, family)), "%s is dead" % node)
        for identifier in shared_memory:        # which the postmaster has no time to remove
            subprocess.run(["ipcrm", "-m", identifier], stderr=subprocess.DEVNULL, check=False)

    @staticmethod
    def _reap(node):
        if node.process:
            node.process.kill()
            node.process.wait(DEADLINE)
            node.process = None

    def pause(self, node):
        """SIGSTOP of the postmaster and all of its children: connections are accepted by the kernel, and nothing is answered."""
        freeze(node.pid)
        freeze(*children(node.pid))

    def resume(self, node):
        """The end of pause() and freeze_replay()."""
        if node.is_alive():
            send(signal.SIGCONT, *children(node.pid), node.pid)

    def freeze_replay(self, node):
        """SIGSTOP of the start-up process: the standby receives, replays nothing, and answers queries."""
        freeze(node.process_titled("startup "))

    def thaw_replay(self, node):
        send(signal.SIGCONT, node.process_titled("startup "))

    # --- replication

    def apply_delay(self, node, milliseconds):
        """The standby replays commits this much later (recovery_min_apply_delay). 0: at once."""
        node.set("recovery_min_apply_delay", "%dms" % milliseconds)

    def replayed(self, node):
        return node.replayed()

    def wait_replayed(self, *standbys):
        """Waits until these standbys, or all, have replayed everything that the primary has flushed."""
        position = self.primary.flushed()
        for node in standbys or self.standbys:
            until(lambda node=node: node.replayed() >= position, "%s has replayed %d" % (node, position), deadline=3 * DEADLINE)

    @staticmethod
    def is_streaming(node, upstream):
        with contextlib.suppress(psycopg2.OperationalError):
            return bool(upstream.execute("SELECT 1 FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'", (node.name,)))
        return False


class Nodes(Cluster):
    """
    - directory, shared: see Cluster; the result of initdb stays in `shared`
    - standbys: how many
    - one_port: addresses differ, the port does not
    - settings: further lines of postgresql.conf, of all servers
    """

    def __init__(self, directory, shared, standbys=2, one_port=False, **settings):
        super().__init__(directory, shared)
        port = free_port()
        self._take([Node("n%d" % number, self.directory, self.room, "127.0.0.%d" % (number + 1 if one_port else 1),
                         port if one_port else free_port()) for number in range(1, standbys + 2)])
        self.primary = self.nodes[0]        # the server that was promoted last
        self._lay_out(_template(str(shared)), settings)
        try:
            self.start(*self.nodes)
            for node in self.nodes[1:]:
                self.wait_streaming(node)
        except BaseException:
            self.take_down()
            raise

    def _lay_out(self, template, settings):
        """A copy of a server that was shut down is a standby of each other copy."""
        for node in self.nodes:
            shutil.copytree(template, node.data)
            with open(os.path.join(node.data, "postgresql.conf"), "a", encoding="utf-8") as f:
                f.writelines("%s = '%s'\n" % setting for setting in settings.items())
            if node is not self.primary:
                self._make_standby(node)

    def _make_standby(self, node):
        with open(os.path.join(node.data, "postgresql.auto.conf"), "w", encoding="utf-8") as f:
            f.write("primary_conninfo = '%s'\n" % self._conninfo(self.primary))
        with open(os.path.join(node.data, "standby.signal"), "w", encoding="ascii"):
            pass

    @staticmethod
    def _conninfo(upstream):
        return "host=%s port=%d user=postgres" % (upstream.host, upstream.port)

    @property
    def standbys(self):
        """The servers that run, without the primary."""
        return [node for node in self.nodes if node is not self.primary and node.is_alive()]

    # --- life of a server

    def start(self, *nodes):
        """Returns when they accept connections."""
        for node in nodes:
            # not in the files, which pg_rewind takes from another server
            own = {"listen_addresses": node.host, "port": node.port, "cluster_name": node.name}
            node.process = launch([tool("postgres"), "-D", node.data, *("--%s=%s" % item for item in own.items())], node.log_path)
        for node in nodes:
            until(lambda node=node: self._is_up(node), "%s comes up, see %s" % (node, node.log_path), deadline=3 * DEADLINE)

    @staticmethod
    def _is_up(node):
        assert node.process.poll() is None, "%s did not start: %s" % (node, node.log()[-2000:])
        return node.answers()

    def stop(self, node, mode="fast"):
        """A shutdown: smart, fast or immediate. fast: clients get 57P01, standbys receive everything."""
        if node.process:
            node.process.send_signal(STOP[mode])
            node.process.wait(3 * DEADLINE)
            node.process = None

    def take_down(self):
        for node in self.nodes:
            self.kill9(node)
            self._reap(node)
        shutil.rmtree(self.room, ignore_errors=True)

    # --- roles

    def promote(self, node, follow=True):
        """pg_promote(). The old primary is left as it is, running or not; other standbys follow the new primary, unless follow=False."""
        assert node.value("SELECT pg_promote(true, 60)"), "%s was not promoted" % node
        old, self.primary = self.primary, node
        if follow:
            for standby in self.standbys:
                if standby is not old:
                    self.follow(standby)

    def follow(self, node):
        """A running standby takes its WAL from the primary, which has the standby's history."""
        node.set("primary_conninfo", self._conninfo(self.primary))
        self.wait_streaming(node)

    def switchover(self, node):
        """Planned: the primary shuts down, the standby is promoted, and the old primary returns as its standby."""
        old = self.primary
        self.stop(old)
        self.promote(node)
        self.rejoin(old)

    def rejoin(self, node, fresh=False):
        """Makes a server a standby of the primary, by pg_rewind or with a new pg_basebackup, whatever it was, running or not."""
        self.resume(node)
        self.stop(node)
        if fresh:
            shutil.rmtree(node.data)
            run_tool("pg_basebackup", "-D", node.data, "-d", self._conninfo(self.primary), "--checkpoint=fast", "--no-sync")
        else:
            # pg_rewind reads the timeline from the control file, where a checkpoint writes it
            self.primary.execute("CHECKPOINT")
            run_tool("pg_rewind", "-D", node.data, "--source-server=%s dbname=postgres" % self._conninfo(self.primary), "--no-sync")
        self._make_standby(node)
        self.start(node)
        self.wait_streaming(node)

    def restart_as_primary(self, node):
        """Without a promotion: the server keeps its timeline. The old primary is left as it is."""
        self.stop(node)
        os.unlink(os.path.join(node.data, "standby.signal"))
        self.start(node)
        self.primary = node

    def start_alone(self, node):
        """As a server in recovery that receives from no other."""
        self.stop(node)
        self._make_standby(node)
        with open(os.path.join(node.data, "postgresql.auto.conf"), "w", encoding="utf-8") as f:
            f.write("primary_conninfo = ''\n")
        self.start(node)

    def wait_streaming(self, node):
        until(lambda: self.is_streaming(node, self.primary), "%s streams from %s" % (node, self.primary), deadline=3 * DEADLINE)


def make_hba():
    """The lines of support/postgres.py for any address of loopback, without TLS, and replication for postgres."""
    lines = HBA.replace("hostssl", "host   ").replace("127.0.0.1/32", "127.0.0.0/8")
    return "host replication postgres 127.0.0.0/8 trust\nlocal replication postgres trust\n" + lines


def role_statements():
    """Each a line: the roles of support/postgres.py, and two of the databases, because each has 300 files to be copied."""
    for role, secret in SECRETS.items():
        yield "SET password_encryption = '%s'" % ("md5" if role == "md5user" else "scram-sha-256")
        yield "CREATE ROLE %s LOGIN PASSWORD '%s'" % (role, secret)
    for database in DATABASES[:2]:
        yield "CREATE DATABASE %s OWNER app" % database


def _template(shared):
    """The data directory that all servers are copies of."""
    data = os.path.join(shared, "template")
    if os.path.exists(data):
        return data
    run_tool("initdb", "--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--wal-segsize=1", "--pgdata", data)
    with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as f:
        f.write(CONF)
    with open(os.path.join(data, "pg_hba.conf"), "w", encoding="utf-8") as f:
        f.write(make_hba())
    done = subprocess.run([tool("postgres"), "--single", "-D", data, "postgres"], input="\n".join(role_statements()) + "\n",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and "ERROR" not in done.stdout, done.stdout
    return data
