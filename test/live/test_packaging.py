"""
Migration of Debian's stock PgBouncer: its ini, user list, unit and exporter as packaged, in a root directory of the test; only the binary is
replaced. All checks run with PgBouncer first, then with pgweir.

The package's files are in test/run.sh's directory, $PGWEIR_STOCK, or in their installed places.
"""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess

import psycopg2
import pytest

from support.exporter import debian_exporter
from support.pgweir import binary
from support.ports import free_port
from support.until import DEADLINE, until

ROOTED = re.compile(r"(?<![\w./-])/(?=(?:etc|var|usr|lib)/)")
MIGRATING = pathlib.Path(__file__).resolve().parents[2] / "doc" / "migrating.md"


def stock(name):
    """A file of the package pgbouncer."""
    for top in (os.environ.get("PGWEIR_STOCK"), "/"):
        for place in (name, "usr/" + name):
            if top and os.path.exists(os.path.join(top, place)):
                return os.path.join(top, place)
    raise AssertionError("Debian's package pgbouncer is not here: test/run.sh unpacks it")


def drop_in():
    """The text that doc/migrating.md tells administrators to write."""
    (found,) = re.findall(r"^    \[Service\]\n(?:    .*\n)+", MIGRATING.read_text(encoding="utf-8"), re.M)
    return re.sub(r"^    ", "", found, flags=re.M)


class Root:
    """A root directory with the package and an administrator's entries."""

    def __init__(self, directory, postgres, auth_type):
        self.top = directory
        self.port = free_port()
        for name in ("etc/pgbouncer", "var/run/postgresql", "var/log/postgresql", "usr/sbin"):
            os.makedirs(self.path(name))
        os.symlink(stock("usr/sbin/pgbouncer"), self.path("usr/sbin/pgbouncer"))
        os.symlink(binary(), self.path("usr/sbin/pgweir"))
        with open(stock("etc/pgbouncer/pgbouncer.ini"), encoding="utf-8") as f:
            ini = self.rooted(f.read())
        entered = {
            r"^\[databases\]$": "[databases]\nshop = host=127.0.0.1 port=%d dbname=p0" % postgres.port,
            r"^listen_port = 6432$": "listen_port = %d" % self.port,
            r"^listen_addr = localhost$": "listen_addr = 127.0.0.1",
            r"^auth_type = md5$": "auth_type = " + auth_type,
            r"^;admin_users = .*$": "admin_users = admin",
            r"^;auth_hba_file =.*$": "auth_hba_file = " + self.path("etc/pgbouncer/pg_hba.conf"),
        }
        for pattern, text in entered.items():
            ini, times = re.subn(pattern, lambda _, text=text: text, ini, count=1, flags=re.M)
            assert times == 1, "the stock file has no line like " + pattern
        self.write("etc/pgbouncer/pgbouncer.ini", ini)
        self.write("etc/pgbouncer/userlist.txt", '"app" "app-secret"\n"admin" "admin-secret"\n')
        self.write("etc/pgbouncer/pg_hba.conf", "local all pgbouncer peer\nhost shop app 127.0.0.1/32 scram-sha-256\n"
                   "host all admin 127.0.0.1/32 md5\n")

    def path(self, name):
        return os.path.join(self.top, name)

    def rooted(self, text):
        return ROOTED.sub(lambda _: self.top + "/", text)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def add(self, name, text):
        with open(self.path(name), "a", encoding="utf-8") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()


class Service:
    """The actions of systemd for the unit and its drop-in: start, wait for READY, reload, stop."""

    def __init__(self, root, drop):
        self.root = root
        self.unit = {}
        with open(stock("lib/systemd/system/pgbouncer.service"), encoding="utf-8") as f:
            self._merge(f.read())
        self._merge(drop)
        assert self.unit["Type"] == ["notify"]
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(root.path("notify"))
        self.notices.settimeout(DEADLINE)
        environment = dict(
            os.environ, NOTIFY_SOCKET=root.path("notify"), TZ="UTC",
            ASAN_OPTIONS="exitcode=99:log_path=" + root.path("sanitizer"),
            UBSAN_OPTIONS="halt_on_error=1:log_path=" + root.path("sanitizer"))
        with open(root.path("journal"), "ab") as journal:
            self.process = subprocess.Popen(self._command("ExecStart"), stdin=subprocess.DEVNULL, stdout=journal,
                                            stderr=journal, env=environment)
        self.wait_ready()

    def _merge(self, text):
        """A key without a value clears its earlier values."""
        for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
            self.unit[key] = self.unit.get(key, []) + [value] if value else []

    def _command(self, key):
        (command,) = self.unit[key]
        return shlex.split(self.root.rooted(command))

    def wait_ready(self):
        until(lambda: b"READY=1" in self.notices.recv(4096), "the service is ready: " + self.root.read("journal"))

    def reload(self):
        (command,) = self.unit["ExecReload"]
        subprocess.run(shlex.split(command.replace("$MAINPID", str(self.process.pid))), check=True)

    def stop(self):
        (name,) = self.unit["KillSignal"]
        self.process.send_signal(getattr(signal, name))
        try:
            return self.process.wait(DEADLINE)
        finally:
            self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notices.close()
        if os.path.exists(self.root.path("notify")):
            os.unlink(self.root.path("notify"))


def connect(root, database, user, password, host="127.0.0.1"):
    connection = psycopg2.connect(host=host, port=root.port, dbname=database, user=user, password=password)
    connection.autocommit = True
    return connection


def refused(root, *login):
    with pytest.raises(psycopg2.OperationalError) as fault:
        connect(root, *login)
    return re.sub(r'.*(?=FATAL)', "", str(fault.value).strip())


def asked(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def day(root, service):
    """Runs typical operations of the service. Returns the results."""
    seen = {}
    shop = connect(root, "shop", "app", "app-secret")
    seen["query"] = asked(shop, "SELECT current_user::text, current_database()::text, 1 + 1")
    seen["wrong password"] = refused(root, "shop", "app", "wrong")
    console = connect(root, "pgbouncer", "admin", "admin-secret")
    seen["databases"] = sorted(row[0] for row in asked(console, "SHOW DATABASES"))
    seen["pools"] = sorted(row[:2] for row in asked(console, "SHOW POOLS"))
    seen["exporter"] = sorted(debian_exporter(root.path("var/run/postgresql"), root.port, "PoolsCollector"))
    ini = root.read("etc/pgbouncer/pgbouncer.ini")
    root.write("etc/pgbouncer/pgbouncer.ini", ini.replace("\nshop = ", "\nannexe = dbname=p1 host=127.0.0.1\nshop = "))
    service.reload()
    until(lambda: "annexe" in [row[0] for row in asked(console, "SHOW DATABASES")], "the reload is in force")
    root.write("etc/pgbouncer/pgbouncer.ini", ini)
    assert int(root.read("var/run/postgresql/pgbouncer.pid")) == service.process.pid
    shop.close()
    console.close()
    return seen


@pytest.mark.parametrize("auth_type", ["md5", "hba"])
def test_debian_package_with_the_binary_swapped(directory, postgres, auth_type):
    root = Root(directory, postgres, auth_type)
    seen = []
    for drop in ("", drop_in()):
        service = Service(root, drop)
        try:
            seen.append(day(root, service))
            status = service.stop()
        finally:
            service.close()
        assert not os.path.exists(root.path("var/run/postgresql/pgbouncer.pid"))
        assert not os.path.exists(root.path("var/run/postgresql/.s.PGSQL.%d" % root.port))
    before, after = seen
    assert after == before
    assert status == 0, root.read("journal")
    assert not [name for name in os.listdir(root.top) if name.startswith("sanitizer")]
    log = root.read("var/log/postgresql/pgbouncer.log")
    assert "process up: PgBouncer" in log and "process up: pgweir" in log
    assert len(re.findall(r" login attempt: db=shop user=app ", log)) == 4


def test_check_before_the_move(directory, postgres):
    """pgweir --check has nothing to say against the stock configuration."""
    root = Root(directory, postgres, "md5")
    done = subprocess.run([binary(), "--check", root.path("etc/pgbouncer/pgbouncer.ini")], capture_output=True, text=True,
                          check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()
