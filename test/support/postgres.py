"""
A private PostgreSQL: initdb in a directory of the test, a free port and a Unix socket there, with all costly durability features turned off.

Roles, named by their authentication method over TCP (pg_hba.conf decides by name):

- postgres: superuser, trust
- app, rival: scram-sha-256
- md5user: md5
- clear: password (in clear)
- trusted: trust
- sslonly: scram-sha-256, only over TLS

The databases p0 to p3 belong to app.

The server is the newest that Debian's packages have installed, or the one with its programs in $PGWEIR_PGBIN: this allows the same tests with another
version of PostgreSQL.
"""
import glob
import os
import re
import shutil
import signal
import subprocess

import psycopg2

from .ports import free_port
from .until import DEADLINE, until

SECRETS = {"app": "app-secret", "rival": "rival-secret", "md5user": "md5-secret", "clear": "clear-secret",
           "trusted": "trusted-secret", "sslonly": "ssl-secret"}
DATABASES = ("p0", "p1", "p2", "p3")

CONF = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{directory}'
max_connections = 100
shared_buffers = 16MB
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
max_wal_size = 256MB
log_line_prefix = '%m [%p] %u@%d '
log_connections = on
log_disconnections = on
client_connection_check_interval = 100
timezone = 'UTC'
log_timezone = 'UTC'
"""

HBA = """
local   all  postgres  trust
local   all  all       scram-sha-256
host    all  postgres,trusted  127.0.0.1/32  trust
hostssl all  sslonly   127.0.0.1/32  scram-sha-256
host    all  sslonly   127.0.0.1/32  reject
host    all  md5user   127.0.0.1/32  md5
host    all  clear     127.0.0.1/32  password
host    all  all       127.0.0.1/32  scram-sha-256
host    replication all 127.0.0.1/32 scram-sha-256
"""


def bin_directory():
    """Where the server's programs are."""
    if os.environ.get("PGWEIR_PGBIN"):
        return os.environ["PGWEIR_PGBIN"]
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if found:
        newest = max(found, key=lambda path: int(path.split("/")[-3]))
        return os.path.dirname(newest)
    initdb = shutil.which("initdb")
    assert initdb, "no PostgreSQL server is installed (initdb not found)"
    return os.path.dirname(os.path.realpath(initdb))


def tool(name):
    return os.path.join(bin_directory(), name)


def major_version():
    """Returns the major version of the server and its tools, for example 15."""
    said = subprocess.run([tool("postgres"), "--version"], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"\d+", said).group())


class Postgres:
    def __init__(self, directory, authority=None, **settings):
        self.directory = str(directory)
        self.data = os.path.join(self.directory, "data")
        self.log_path = os.path.join(self.directory, "postgres.log")
        self.port = free_port()
        self.host = "127.0.0.1"
        self.process = None
        self._init(authority, settings)
        self.start()
        try:
            self._fill()
        except BaseException:
            self.stop()
            raise

    def _init(self, authority, settings):
        subprocess.run([tool("initdb"), "--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8",
                        "--locale=C", "--pgdata", self.data], check=True, stdout=subprocess.DEVNULL)
        lines = CONF.format(port=self.port, directory=self.directory)
        if authority:
            lines += "ssl = on\nssl_ca_file = '%s'\nssl_cert_file = '%s'\nssl_key_file = '%s'\n" % (
                authority.cert("ca"), authority.cert("server"), authority.key("server"))
        lines += "".join("%s = '%s'\n" % setting for setting in settings.items())
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write(lines)
        self.write_hba(HBA if authority else HBA.replace("hostssl", "host   "))

    def write_hba(self, text):
        with open(os.path.join(self.data, "pg_hba.conf"), "w", encoding="utf-8") as f:
            f.write(text)

    def _fill(self):
        with self.connect() as connection, connection.cursor() as cursor:
            for role, secret in SECRETS.items():
                kind = "md5" if role == "md5user" else "scram-sha-256"
                cursor.execute("SET password_encryption = '%s'" % kind)
                cursor.execute("CREATE ROLE %s LOGIN PASSWORD '%s'" % (role, secret))
        connection.close()
        for database in DATABASES:
            self.execute("CREATE DATABASE %s OWNER app" % database)

    # --- its life

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([tool("postgres"), "-D", self.data], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        until(self._answers, "PostgreSQL comes up, see " + self.log_path, deadline=3 * DEADLINE)

    def _answers(self):
        assert self.process.poll() is None, "PostgreSQL did not start: " + self.log()[-2000:]
        try:
            self.connect().close()
        except psycopg2.OperationalError:
            return False
        return True

    def stop(self, number=signal.SIGQUIT):
        """SIGQUIT: at once, nothing here is worth saving. SIGINT: in good order, clients are told."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(3 * DEADLINE)

    def restart(self, number=signal.SIGINT):
        self.stop(number)
        self.start()

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    # --- asked directly, not through a pooler

    def connect(self, user="postgres", database="postgres", **more):
        return psycopg2.connect(host=self.host, port=self.port, user=user, dbname=database,
                                password=SECRETS.get(user), **more)

    def execute(self, sql, arguments=None, database="postgres"):
        """Runs one statement as superuser; its rows, if it has any."""
        connection = self.connect(database=database)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, arguments)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def target(self, database, **more):
        """A connect string for pgweir's [databases]."""
        parts = dict(host=self.host, port=self.port, dbname=database, **more)
        return " ".join("%s=%s" % item for item in parts.items())

    def backends(self, database):
        """Process ids of the server's connections to a database, oldest first."""
        return [pid for (pid,) in self.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s ORDER BY backend_start", (database,))]
