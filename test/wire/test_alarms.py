"""
Each failure has one WARNING in the log, a row of SHOW ALARMS, a metric, an alert rule, and a line of the page and of `pgweir top`, and one line
when it is over, however often it is met. The servers are played; live/test_alarms.py has the failures of real servers.
"""
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from support import messages as m
from support.live import NEVER, SOON
from support.nameserver import NXDOMAIN, write_resolv_conf
from support.ports import free_port
from support.roles import Roles
from support.until import DEADLINE, until
from support.wire import LoginRefused

TOP = pathlib.Path(__file__).resolve().parents[2]
TABLE = re.findall(r'^ALARM\(\w+, "(\w+)", (\w+), (\w+), \d+, ((?:"[^"]*"\s*)+),\s*((?:"[^"]*"\s*)+)\)',
                   (TOP / "include/tbl/alarm.tbl").read_text(), re.M)
ROWS = {name: (level.lower(), log) for name, level, log, _, _ in TABLE}


class Alarms:
    """The signs of alarms at a pgweir with an HTTP port."""

    def __init__(self, scene, target, **settings):
        self.port = free_port()
        self.weir = scene.weir(target, **{"pool_mode": "transaction", "http_listen_port": self.port, **settings})

    def page(self, path):
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.port, path), timeout=DEADLINE) as answer:
            return answer.read().decode()

    def row(self, alarm, subject, active=1):
        return next((row for row in self.weir.show("ALARMS") if (row["alarm"], row["subject"], row["active"]) == (alarm, subject, active)), None)

    def lines(self, pattern):
        return re.findall(pattern, self.weir.log(), re.M)

    def metric(self, alarm, subject):
        level, _ = ROWS[alarm]
        found = re.search(r'^pgweir_alarm\{alarm="%s",subject="%s",level="%s"\} (\d)$' % (alarm, re.escape(subject), level), self.page("/metrics"), re.M)
        return found and int(found.group(1))

    def begins(self, alarm, subject, text="."):
        """Every sign of the alarm; returns its row."""
        level, log = ROWS[alarm]
        name = re.escape((alarm + " " + subject).strip())
        row = until(lambda: self.row(alarm, subject), "the alarm %s of %r in %r" % (alarm, subject, self.weir.show("ALARMS")))
        assert row["level"] == level and row["ended"] is None and row["action"] and re.search(text, row["text"]), row
        if log == "LINES":
            assert len(self.lines(r" WARNING alarm %s: " % name)) == len(self.lines(r" LOG alarm %s is over after " % name)) + 1
            assert row["action"] in self.lines(r" WARNING alarm %s: (.*)$" % name)[-1]
        assert self.metric(alarm, subject) == 1
        assert any((row["alarm"], row["subject"]) == (alarm, subject) for row in json.loads(self.page("/api/alarms")))
        screen = subprocess.run([self.weir.command()[0], "top", "--once", self.weir.dsn(user="admin", database="pgweir")], capture_output=True,
                                text=True, timeout=DEADLINE, check=True).stdout
        assert re.search(r"^alarm %s ?%s: " % (alarm, re.escape(subject)), screen, re.M), screen
        return row

    def ends(self, alarm, subject):
        """The alarm is over, and says so once."""
        name = re.escape((alarm + " " + subject).strip())
        row = until(lambda: self.row(alarm, subject, active=0), "the alarm %s is over" % alarm)
        assert row["ended"]
        if ROWS[alarm][1] == "LINES":
            assert len(self.lines(r" LOG alarm %s is over after \d+ s$" % name)) == len(self.lines(r" WARNING alarm %s: " % name))
        assert self.metric(alarm, subject) == 0


def key(fake):
    return "%s:%d" % (fake.host, fake.port)


def waiting(alarms, **where):
    """A client that waits for a server."""
    client = alarms.weir.connect()
    client.send(m.startup(user=where.get("user", "app"), database="p0"))
    return client


def state_of(alarms):
    (row,) = alarms.weir.show("HOSTS")
    return row


# --- the table

def test_each_alarm_has_a_rule_and_a_remedy():
    """An alert rule, and a row of doc/operating.md."""
    assert len(TABLE) == len(re.findall(r"^ALARM\(", (TOP / "include/tbl/alarm.tbl").read_text(), re.M))
    rules = (TOP / "etc/prometheus-rules.yml").read_text()
    guide = (TOP / "doc/operating.md").read_text()
    for name, level, _, _, _ in TABLE:
        rule = re.search(r'- alert: (Pgweir\w+)\n +expr: pgweir_alarm\{alarm="%s"\} == 1\n(?: +for: \w+\n)? +labels: \{ severity: (\w+) \}' % name, rules)
        assert rule, name
        assert rule.group(2) == level.lower(), name
        assert "| `%s`" % name in guide, name


# --- a host

def test_server_that_is_down(scene):
    fake = scene.mini()
    alarms = Alarms(scene, fake, server_login_retry=SOON)
    fake.stop_listening()
    client = waiting(alarms)
    row = alarms.begins("host_unreachable", key(fake), "connect failed.*refused.*attempts without success: ")
    until(lambda: int(re.search(r"success: (\d+)", alarms.row("host_unreachable", key(fake))["text"]).group(1)) > 3, "more attempts")
    assert len(alarms.lines(r"closing because: connect failed")) == 1
    assert alarms.row("host_unreachable", key(fake))["since"] == row["since"]
    assert state_of(alarms)["state"] == "down" and state_of(alarms)["errors"] > 3
    fake.listen()
    client.read_until("Z")
    alarms.ends("host_unreachable", key(fake))
    assert state_of(alarms)["state"] == "up"


def refuses(*fields):
    """A login that ends with this error."""
    def login(session):
        session.send(m.error(*fields, severity="FATAL"))
        session.close()
    return login


@pytest.mark.parametrize("error, alarm, state", [
    (("sorry, too many clients already", "53300"), "host_full", "full"),
    (("the database system is starting up", "57P03"), "host_starting", "starting")])
def test_server_that_takes_no_login(scene, error, alarm, state):
    fake = scene.mini(login=refuses(*error))
    alarms = Alarms(scene, fake, server_login_retry=SOON)
    client = waiting(alarms)
    alarms.begins(alarm, key(fake), error[0])
    assert state_of(alarms)["state"] == state
    until(lambda: len(fake.started) > 3, "it is tried again")
    assert len(alarms.lines(r"closing because: " + error[0])) == 1
    assert len(alarms.lines(r"new connection to server")) == 1
    fake.login = None
    client.read_until("Z")
    alarms.ends(alarm, key(fake))


def test_server_that_does_not_answer(scene):
    """First a connection takes long, then it fails."""
    fake = scene.mini()
    alarms = Alarms(scene, fake, server_login_retry=0, server_connect_timeout=5)
    fake.listen_without_answer()
    waiting(alarms)
    alarms.begins("host_slow", key(fake), "a server connection is being opened for [34]")
    alarms.begins("host_unreachable", key(fake), "Connection timed out")
    alarms.ends("host_slow", key(fake))
    assert state_of(alarms)["state"] == "down"


def test_name_without_an_address(scene):
    nameserver = scene.nameserver()
    nameserver.set("db.test", rcode=NXDOMAIN)
    fake = scene.mini()
    conf = write_resolv_conf(scene.directory, nameserver)
    alarms = Alarms(scene, "host=db.test port=%d" % fake.port, resolv_conf=conf, server_login_retry=SOON, dns_nxdomain_ttl=0)
    waiting(alarms)
    alarms.begins("host_name", "db.test:%d" % fake.port, "DNS lookup failed")
    assert state_of(alarms)["state"] == "no address" and state_of(alarms)["errors"] > 0
    nameserver.set("db.test", a=["127.0.0.1"])
    alarms.ends("host_name", "db.test:%d" % fake.port)


def test_certificate_of_a_server_that_is_refused(scene, authority):
    fake = scene.mini(tls=authority.server_context())
    alarms = Alarms(scene, fake, server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("other"), server_login_retry=SOON)
    waiting(alarms)
    alarms.begins("host_tls", key(fake), "certificate verify failed")
    assert state_of(alarms)["state"] == "no TLS"
    alarms.weir.admin("SET server_tls_ca_file = '%s'" % authority.cert("ca"))
    alarms.ends("host_tls", key(fake))


def test_secret_that_a_server_refuses(scene):
    fake = scene.mini(login=refuses('password authentication failed for user "app"', "28P01"))
    alarms = Alarms(scene, fake, server_login_retry=SOON)
    assert logs_in(alarms.weir) is None
    alarms.begins("login_refused", "p0/app", 'password authentication failed for user "app"')
    assert state_of(alarms)["state"] == "up"
    fake.login = None
    until(lambda: logs_in(alarms.weir), "a login succeeds")
    alarms.ends("login_refused", "p0/app")


def logs_in(weir):
    with contextlib.suppress(LoginRefused):
        return weir.client()
    return None


# --- limits

def test_limit_of_clients(scene):
    alarms = Alarms(scene, scene.mini(), max_client_conn=3)
    clients = [alarms.weir.client() for _ in range(3)]
    assert alarms.weir.connect().refused(user="app", database="p0")["M"] == "no more connections allowed (max_client_conn)"
    alarms.begins("max_client_conn", "", r"clients refused since the start: 1")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        alarms.page("/readyz")
    for client in clients:
        client.quit()
    alarms.ends("max_client_conn", "")


def test_limit_of_clients_of_a_database(scene):
    alarms = Alarms(scene, scene.mini(), max_db_client_connections=1)
    alarms.weir.client()
    alarms.weir.connect().refused(user="app", database="p0")
    alarms.begins("clients_refused", "MAX_DB_CLIENTS", "max_db_client_connections")


@pytest.mark.parametrize("holding, text", [
    ("BEGIN", "idle in transaction for "), ("wait", "its query runs for "), ("LISTEN a", None)])
def test_pool_that_is_used_up(scene, holding, text):
    """The alarm names the holder and its activity."""
    fake = scene.mini()
    alarms = Alarms(scene, fake, default_pool_size=1, server_login_retry=0)
    if text is None:
        alarms.weir.admin("SET pool_mode = 'session'")
        text = "idle in its session for "
    holder = alarms.weir.client(application_name="batch")
    if holding == "wait":
        holder.send(m.query(holding))
    else:
        holder.query(holding)
    other = alarms.weir.client() if text.startswith("its query") or text.startswith("idle in tr") else waiting(alarms)
    other.send(m.query("one"))
    port = holder.sock.getsockname()[1]
    alarms.begins("pool_used_up", "p0/app", r"clients that wait: 1, the first for .* \(batch at 127.0.0.1:%d, backend process %d\): %s" % (
        port, fake.started[-1].pid, text))
    holder.close()
    other.read_until("Z")
    alarms.ends("pool_used_up", "p0/app")


# --- configuration and certificates

def test_reload_that_is_refused(scene):
    alarms = Alarms(scene, scene.mini())
    alarms.weir.settings["pool_mode"] = "sideways"
    alarms.weir.write_ini()
    with pytest.raises(Exception, match="RELOAD failed"):
        alarms.weir.admin("RELOAD")
    alarms.begins("reload_refused", "", r"pgweir.ini:\d+: .*sideways")
    alarms.weir.settings["pool_mode"] = "transaction"
    alarms.weir.write_ini()
    alarms.weir.admin("RELOAD")
    alarms.ends("reload_refused", "")


@pytest.mark.parametrize("left, alarm, text", [(20, "certificate_expires", "it expires at "), (-1, "certificate_expired", "it has expired at ")])
def test_own_certificate_that_expires(scene, authority, left, alarm, text):
    """A RELOAD with a renewed one ends it."""
    authority.issue_aged(alarm, "localhost", 340, left)
    alarms = Alarms(scene, scene.mini(), client_tls_sslmode="allow", client_tls_cert_file=authority.cert(alarm), client_tls_key_file=authority.key(alarm))
    alarms.begins(alarm, authority.cert(alarm), text)
    said = r'certificate "%s" (?:expires|has expired) at .* \(TLS with clients\)' % re.escape(authority.cert(alarm))
    assert len(alarms.lines("WARNING .*" + said)) == 1
    checked = subprocess.run([alarms.weir.command()[0], "--check", alarms.weir.ini_path], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert re.search(said, checked.stdout + checked.stderr), checked
    authority.issue_aged(alarm, "localhost", 1, 300)
    alarms.weir.admin("RELOAD")
    alarms.ends(alarm, authority.cert(alarm))


# --- the log, and passwords

def test_log_that_cannot_be_written(scene):
    """The disk of the log is full: syslog, stderr and the page know it."""
    alarms = Alarms(scene, scene.mini())
    alarms.weir.admin("SET logfile = '/dev/full'")
    alarms.weir.client()
    row = until(lambda: alarms.row("log_lost", ""), "the alarm")
    assert row["level"] == "warning" and int(re.fullmatch(r"lines that could not be written: (\d+)", row["text"]).group(1)) > 0
    assert alarms.metric("log_lost", "") == 1
    assert " WARNING alarm log_lost: lines that could not be written: " in alarms.weir.stderr()
    alarms.weir.admin("SET logfile = '%s'" % alarms.weir.log_path)
    alarms.weir.client()
    until(lambda: alarms.row("log_lost", "", active=0), "the alarm is over")
    alarms.weir.wait_log(" LOG alarm log_lost is over after ")


def test_loop_with_a_wrong_password(scene):
    alarms = Alarms(scene, scene.mini(), auth_type="scram-sha-256", login_failure_delay=0.2)
    for _ in range(6):
        assert alarms.weir.connect().refused(user="app", database="p0", password="wrong")["C"] == "28P01"
    alarms.begins("failed_logins", "127.0.0.1", "have failed: [56]")


# --- roles

def test_no_primary_and_two(scene):
    stage = Roles(scene, kind=None, http_listen_port=free_port())
    alarms = Alarms.__new__(Alarms)
    alarms.weir, alarms.port = stage.weir, stage.weir.settings["http_listen_port"]
    stage.weir.client().query("one")
    stage.fakes[1].become("primary", 1)
    alarms.begins("second_primary", stage.keys[1])
    assert stage.host(1)["state"] == "second primary"
    stage.fakes[0].become("standby", 1)
    stage.fakes[1].become("standby", 1)
    alarms.ends("second_primary", stage.keys[1])
    alarms.begins("no_primary", "p0")
    stage.fakes[0].become("primary", 2)
    alarms.ends("no_primary", "p0")


def test_former_primary_that_comes_back(scene):
    stage = Roles(scene, http_listen_port=free_port())
    alarms = Alarms.__new__(Alarms)
    alarms.weir, alarms.port = stage.weir, stage.weir.settings["http_listen_port"]
    stage.weir.client().query("one")
    stage.fakes[1].become("primary", 3)
    stage.fakes[0].become("standby", 3)
    stage.wait_host(1, role="primary")
    stage.fakes[1].stop_listening()
    stage.fakes[1].drop_all()
    stage.fakes[0].become("primary", 1)
    alarms.begins("former_primary", stage.keys[0], "with timeline 1, but the last primary had timeline 3")
    alarms.begins("host_unreachable", stage.keys[1], "connect failed")
    alarms.begins("no_primary", "p0", "primary of the past")
    stage.fakes[1].listen()
    stage.fakes[0].become("standby", 3)
    for alarm, subject in (("former_primary", stage.keys[0]), ("host_unreachable", stage.keys[1]), ("no_primary", "p0")):
        alarms.ends(alarm, subject)
