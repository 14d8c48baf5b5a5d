"""
The programs of a measurement: which runs where, started and ended.

Load generator and PostgreSQL share one CPU, the pooler has the other one for itself, so that its CPU time is not
spent in waiting for a cache that another process emptied. Everything is ended by its process id, whatever happens.
"""
import os
import signal
import socket
import subprocess
import time

from support.certs import Authority
from support.ports import free_port
from support.scram import make_secret, secret_text

LOAD_CPU, POOLER_CPU = 0, 1
PASSWORD = "bench-secret"
SCRAM_SECRET = secret_text(make_secret(PASSWORD))
START_SECONDS = 60              # valgrind takes its time
LOAD_SECONDS = 240


class LoadFailed(Exception):
    """loadpg ended with an error: its first line says which."""


def pinned(cpu, command):
    """The command on this CPU; it ends with this program, even if that is killed."""
    return ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(cpu)] + command


def memory_kib(pid):
    """The private memory of this process: its heap."""
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as f:
        for line in f:
            if line.startswith("Anonymous:"):
                return int(line.split()[1])
    raise LookupError("no Anonymous: line for process %d" % pid)


class Server:
    """A program that listens on a port of loopback."""

    def __init__(self, name, command, port, log, file_of_pid=None):
        self.name = name
        self.port = port
        self.log = log
        self._file_of_pid = file_of_pid
        with open(log, "ab") as out:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self):
        """The pooler's own process ID, if a tracer is its parent; 0: not known yet."""
        if not self._file_of_pid:
            return self.process.pid
        try:
            with open(self._file_of_pid, encoding="ascii") as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def _wait(self):
        end = time.monotonic() + START_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0 and self.pid:
                    return
            try:
                self.process.wait(0.02)
            except subprocess.TimeoutExpired:
                if time.monotonic() < end:
                    continue
            with open(self.log, encoding="utf-8", errors="replace") as f:
                raise SystemExit("a program did not start:\n" + "".join(f.readlines()[-20:]))

    def stop(self):
        """Ends it with SIGTERM, at once where that is not enough."""
        if self.process.poll() is not None:
            return
        try:
            os.kill(self.pid or self.process.pid, signal.SIGTERM)
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Stage:
    """
    build       where the programs of test/bench were built
    room        an empty directory for configurations, logs and certificates
    poolers     {name: path of the binary}
    """

    def __init__(self, build, room, poolers):
        self.build = build
        self.room = room
        self.pooler_paths = poolers
        self.authority = Authority(room)
        self._running = []
        self._count = 0
        self.null = self._bench_server("nullpg", LOAD_CPU)
        self.null_tls = self._bench_server("nullpg", LOAD_CPU, self.authority.cert("server"), self.authority.key("server"))
        self.limit = self._bench_server("blind", POOLER_CPU, str(self.null.port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self._running):
            server.stop()

    def _keep(self, server):
        self._running.append(server)
        return server

    def stop(self, server):
        server.stop()
        self._running.remove(server)

    def path(self, name):
        return os.path.join(self.room, name)

    def _program(self, name):
        return os.path.join(self.build, "test", "bench", name)

    def _bench_server(self, name, cpu, *arguments):
        port = free_port()
        command = pinned(cpu, [self._program(name), str(port), *arguments])
        return self._keep(Server("limit" if name == "blind" else name, command, port, self.path(name + ".log")))

    def pooler(self, name, settings=None, users=None, databases=None, under=(), server=None, port=None, others=()):
        """
        Starts a pooler. All that are started with the same arguments have one and the same configuration.

        settings    {setting: value}, over those below
        users       {name: secret} of the user list
        databases   names, all of them on the server
        under       the command of a tracer to start it with
        port        to listen on; a free one if it is not said
        others      lines of further databases
        """
        self._count += 1
        base = self.path("%s.%d" % (name, self._count))
        port = port or free_port()
        target = server or self.null
        lines = ["[databases]", *others]
        lines += ["%s = host=127.0.0.1 port=%d" % (each, target.port) for each in databases or ["bench"]]
        lines.append("[pgbouncer]")
        lines += ["%s = %s" % each for each in {
            "listen_addr": "127.0.0.1", "listen_port": port, "listen_backlog": 1024, "unix_socket_dir": "",
            "auth_type": "trust", "auth_file": base + ".users", "logfile": base + ".log", "pidfile": base + ".pid",
            "log_connections": 0, "log_disconnections": 0, "pool_mode": "transaction", "default_pool_size": 20,
            "max_client_conn": 12000, "server_tls_sslmode": "disable", "max_prepared_statements": 200,
            # or only root may look at its memory
            "core_dumps": 1,
            # time that is polled would count as time for queries
            "busy_poll": 0,
            # as PgBouncer
            "session_state": "off",
            **(settings or {}),
        }.items() if not (name == "PgBouncer" and each[0] in self._unknown_to_pgbouncer())]
        with open(base + ".users", "w", encoding="ascii") as f:
            f.writelines('"%s" "%s"\n' % each for each in (users or {"bench": SCRAM_SECRET}).items())
        with open(base + ".ini", "w", encoding="ascii") as f:
            f.write("\n".join(lines) + "\n")
        command = pinned(POOLER_CPU, [*under, self.pooler_paths[name], "-q", base + ".ini"])
        return self._keep(Server(name, command, port, base + ".out", base + ".pid" if under else None))

    @staticmethod
    def _unknown_to_pgbouncer():
        """Debian's version stops at a setting that it does not know, so it cannot track prepared statements."""
        return {"max_prepared_statements", "core_dumps", "busy_poll", "session_state"}

    def start_load(self, target, arguments):
        """loadpg at work, with pipes."""
        command = [self._program("loadpg"), "-p", str(target.port), "-P", str(target.pid)]
        return subprocess.Popen(pinned(LOAD_CPU, command + arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**os.environ, "PGPASSWORD": PASSWORD})

    @staticmethod
    def finish_load(process):
        """Returns the results of the load program at its end: {name: figure}."""
        try:
            out, err = process.communicate(timeout=LOAD_SECONDS)
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            raise LoadFailed((err.strip() or out.strip()).split("\n")[0])
        return {name: float(value) for name, value in (pair.split("=") for pair in out.split())}

    def load(self, target, arguments):
        """One run of loadpg: {name: figure}."""
        return self.finish_load(self.start_load(target, arguments))
