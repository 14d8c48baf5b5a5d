"""
The real binary, started with a configuration of the test and checked when the test ends.

The binary is $PGWEIR. Its exit is part of every test: the exit status must be 0, without a sanitizer report, a failed assertion, or a FATAL line in
the log that the test did not announce.
"""
import contextlib
import os
import re
import signal
import socket
import subprocess

import psycopg2
import psycopg2.extras

from . import messages as m
from .ports import free_port
from .until import DEADLINE, until
from .wire import Client

# for server_require_auth: servers may ask for a password in clear text over TCP without TLS, too, or for none
ANY_METHOD = "password,md5,scram-sha-256,none"

USERS = {"app": "app-secret", "rival": "rival-secret", "admin": "admin-secret", "stats": "stats-secret"}


def binary():
    path = os.environ.get("PGWEIR")
    assert path, "the environment variable PGWEIR must name the binary to test"
    return os.path.abspath(path)


def quoted(text):
    return '"%s"' % text.replace('"', '""')


def private(path):
    """Opens a file that only its owner may read, truncated in place."""
    return open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))


class Pgweir:
    """
    - directory: a new directory for configuration, user list, log and Unix socket
    - databases: {name: connect string, or an object with a port (a FakePostgres, a Postgres)}
    - users: {name: secret} of the user list, in addition to USERS
    - sections: {"users": {name: "key=value ..."}, "peers": ...}: further sections of the file
    - ini: the whole file instead; {port} and {dir} are replaced
    - allow: regular expression for expected FATAL or WARNING lines
    - arguments: of the command line, before the file
    - nofile: limit for open descriptors
    - measured: memory() will be called: the sanitizer keeps little freed memory
    - settings: all other arguments go into the main section
    """

    def __init__(self, directory, databases=None, users=None, sections=None, ini=None, allow=None, arguments=(),
                 nofile=None, measured=False, wait=True, **settings):
        self.directory = str(directory)
        self.port = free_port()
        self.host = "127.0.0.1"
        self.allow = allow
        self.expected_status = 0
        self.process = None
        self._clients = []
        self._consoles = []
        self._arguments = list(arguments)
        self._nofile = nofile
        self._measured = measured
        self.ini_path = self.path("pgweir.ini")
        self.log_path = self.path("pgweir.log")
        self.users = dict(USERS, **(users or {}))
        self.write_users()
        self.databases = dict(databases or {})
        self.sections = dict(sections or {})
        self.settings = {
            "listen_addr": self.host, "listen_port": self.port, "unix_socket_dir": self.directory,
            "auth_type": "trust", "auth_file": self.path("userlist.txt"), "logfile": self.log_path,
            "admin_users": "admin", "stats_users": "stats",
            # tests fail at logins more often than ordinary clients do
            "login_failure_delay": 0,
            # PgBouncer's behaviour; tests of session state set full
            "session_state": "off",
            # and look into /proc
            "core_dumps": 1,
        }
        self.settings.update(settings)
        self.write_ini(ini.replace("{port}", str(self.port)).replace("{dir}", self.directory) if ini else None)
        self.start(wait)

    def path(self, name):
        return os.path.join(self.directory, name)

    # --- its files

    def write_users(self):
        with private(self.path("userlist.txt")) as f:
            f.writelines("%s %s\n" % (quoted(name), quoted(secret)) for name, secret in self.users.items())

    def write_ini(self, text=None):
        """Writes the configuration from databases, settings and sections, or as given."""
        if text is None:
            lines = ["[databases]"]
            lines += ["%s = %s" % (name, self._target(name, to)) for name, to in self.databases.items()]
            for section, entries in self.sections.items():
                lines += ["[%s]" % section] + ["%s = %s" % entry for entry in entries.items()]
            lines += ["[pgbouncer]"]
            lines += ["%s = %s" % (name, value) for name, value in self.settings.items() if value is not None]
            text = "\n".join(lines) + "\n"
        with private(self.ini_path) as f:
            f.write(text)

    @staticmethod
    def _target(name, to):
        if isinstance(to, str):
            return to
        return "host=127.0.0.1 port=%d%s" % (to.port, "" if name == "*" else " dbname=" + name)

    # --- its life

    def command(self):
        """The binary and its command line."""
        return [binary()] + self._arguments + [self.ini_path]

    def start(self, wait=True):
        environment = dict(
            os.environ, TZ="UTC",
            ASAN_OPTIONS="detect_leaks=1:exitcode=99:log_path=" + self.path("sanitizer") +
            (":quarantine_size_mb=1" if self._measured else ""),
            UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:log_path=" + self.path("sanitizer"))
        command = self.command()
        if self._nofile:
            command = ["prlimit", "--nofile=%d:%d" % (self._nofile, self._nofile)] + command
        with open(self.path("stderr"), "ab") as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
                                            env=environment, cwd=self.directory)
        if wait:
            until(self._is_up, "pgweir comes up: " + " ".join(command))

    def _is_up(self):
        if self.process.poll() is not None:
            raise AssertionError("pgweir ended with status %d: %s" % (self.process.returncode, self.stderr()))
        return "process up" in self.log()

    @property
    def pid(self):
        return self.process.pid

    def is_alive(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self):
        """Returns the exit status."""
        return self.process.wait(DEADLINE)

    def stop(self):
        """Ends it, if it has not ended already, and checks its exit status, log and reports."""
        if self.is_alive():
            self.signal(signal.SIGQUIT)
        try:
            status = self.wait_exit()
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "none: had to be killed (%s)" % self.process.wait()
        for console in self._consoles:
            console.close()
        for client in self._clients:
            client.close()
        self.check(status)

    def check(self, status):
        reports = [self._read(name) for name in sorted(os.listdir(self.directory)) if name.startswith("sanitizer")]
        reports += re.findall(r".*runtime error:.*", self.stderr())
        assert not reports, "\n".join(reports)
        bad = [line for line in self.log().splitlines() if re.search(r'^\d\S+ \S+ \S+ \[\d+\] FATAL |"level":"FATAL"|ASSERT|assertion', line)
               and not (self.allow and re.search(self.allow, line))]
        assert not bad, bad
        assert status == self.expected_status, "exit status %s: %s" % (status, self.stderr()[-2000:])

    # --- output

    def _read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def log(self):
        return self._read("pgweir.log")

    def stderr(self):
        return self._read("stderr")

    def wait_log(self, pattern, times=1):
        """Waits until this many lines of the log match; ^ and $ are the ends of a line."""
        return until(lambda: len(re.findall(pattern, self.log(), re.MULTILINE)) >= times, "log line %r" % pattern)

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def memory(self):
        """Resident memory in KiB."""
        return self._memory("VmRSS")

    def peak_memory(self):
        """The most that it ever had."""
        return self._memory("VmHWM")

    def _memory(self, what):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as f:
            return int(re.search(what + r":\s+(\d+)", f.read()).group(1))

    def _process_state(self):
        with open("/proc/%d/stat" % self.pid, encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]

    def wait_asleep(self):
        """Waits until pgweir has nothing to do. A process that is busy without end never gets there."""
        until(lambda: self._process_state() == "S", "pgweir waits for events")

    @contextlib.contextmanager
    def one_turn(self):
        """Stops pgweir within the block, so that all events within it arrive together, in one turn of its loop."""
        self.signal(signal.SIGSTOP)
        until(lambda: self._process_state() == "T", "pgweir stands still")
        yield
        self.signal(signal.SIGCONT)

    # --- the console

    def console(self, user="admin", database="pgbouncer", **more):
        """A psycopg2 connection to the console; it only uses the simple protocol."""
        connection = psycopg2.connect(host=self.host, port=self.port, user=user, dbname=database,
                                      password=self.users.get(user), **more)
        connection.autocommit = True
        self._consoles.append(connection)
        return connection

    def _own_console(self):
        if not self._consoles or self._consoles[0].closed:
            self._consoles.insert(0, self.console())
            del self._consoles[-1]
        return self._consoles[0]

    def admin(self, command):
        """Runs a command on the console; returns its tag."""
        with self._own_console().cursor() as cursor:
            cursor.execute(command)
            return cursor.statusmessage

    def rows(self, command):
        """The rows of a command as a list of dicts."""
        with self._own_console().cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute(command)
            return [dict(row) for row in cursor.fetchall()]

    def show(self, what):
        return self.rows("SHOW " + what)

    def pool(self, database, user="app"):
        """The row of SHOW POOLS; zeros everywhere if there is none yet."""
        for row in self.show("POOLS"):
            if (row["database"], row["user"]) == (database, user):
                return row
        return dict.fromkeys(self.show("POOLS")[0], 0)

    def wait_pool(self, database, user="app", **wanted):
        """Waits until the columns of the pool have these values, as cl_waiting=3."""
        return until(lambda: wanted.items() <= self.pool(database, user).items(), "pool with %r" % wanted)

    def barrier(self):
        """Returns when everything that had reached its sockets before the call has been dealt with."""
        self.show("VERSION")
        self.show("VERSION")

    # --- clients

    def connect(self, unix=False, **options):
        """A scripted client that has sent nothing yet."""
        client = Client(self.port, self.directory if unix else self.host, **options)
        self._clients.append(client)
        return client

    def connect_from(self, address, to=None):
        """The same, from another address of loopback (listen_addr must be * or name the target address)."""
        client = Client(self.port, to or self.host, source=address)
        self._clients.append(client)
        return client

    def client(self, user="app", database="p0", password=None, unix=False, protocol=None, receive_buffer=None,
               **parameters):
        """A scripted client that is logged in."""
        client = self.connect(unix, receive_buffer=receive_buffer)
        if protocol:
            parameters["protocol"] = protocol
        client.login(password=password or self.users.get(user), user=user, database=database, **parameters)
        return client

    def cancel(self, client):
        """Sends a cancel request for this client's query. Returns the open connection of the request."""
        request = self.connect()
        request.send(m.cancel_request(client.pid, client.key))
        return request

    def dsn(self, user="app", database="p0", **more):
        parts = dict(host=self.host, port=self.port, user=user, dbname=database, password=self.users.get(user), **more)
        return " ".join("%s=%s" % (key, value) for key, value in parts.items() if value is not None)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
