"""Monitoring programs from their packages, with pgweir: the results equal those with PgBouncer 1.25."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.parse
import urllib.request

import pytest

from support.exporter import debian_exporter
from support.live import ask, hold, let_go
from support.ports import free_port
from support.postgres import major_version, tool
from support.until import DEADLINE, until

QUERIES = 20
ETC = pathlib.Path(__file__).resolve().parents[2] / "etc"
RULES = ETC / "prometheus-rules.yml"


@contextlib.contextmanager
def running(command, **options):
    """Runs a program until the block ends."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE)


def program(name):
    path = shutil.which(name)
    assert path, "%s is not installed: test/run.sh does that" % name
    return path


def busy(weir):
    """Work for which the tools have to find the figures."""
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        for _ in range(QUERIES):
            client.query("SELECT 1")
    return clients


def page(url):
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
            return answer.read().decode()
    except urllib.error.URLError:
        return None


def figures(text):
    """{metric{labels}: value} of a page of Prometheus."""
    return {name: float(value) for name, value in re.findall(r"^([^#\s].*) (\S+)$", text, re.M)}


# --- Prometheus

class Prometheus:
    """A real Prometheus with etc/prometheus-rules.yml, which scrapes and evaluates once a second."""

    def __init__(self, weir, port):
        self.port = free_port()
        with open(weir.path("prometheus.yml"), "w", encoding="utf-8") as f:
            f.write("global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [%s]\nscrape_configs:\n  - job_name: pgweir\n"
                    "    static_configs: [{ targets: ['127.0.0.1:%d'] }]\n"
                    "    basic_auth: { username: stats, password: stats-secret }\n" % (RULES, port))
        self.command = [program("prometheus"), "--config.file=" + weir.path("prometheus.yml"), "--storage.tsdb.path=" + weir.path("tsdb"),
                        "--web.listen-address=127.0.0.1:%d" % self.port]

    def _api(self, path):
        text = page("http://127.0.0.1:%d/api/v1/%s" % (self.port, path))
        return json.loads(text)["data"] if text else None

    def rows(self, query):
        found = self._api("query?query=" + urllib.parse.quote(query))
        return found["result"] if found else []

    def value(self, query):
        rows = self.rows(query)
        return float(rows[0]["value"][1]) if rows else None

    def rules(self):
        return [rule for group in self._api("rules")["groups"] for rule in group["rules"]]


def dashboard():
    """The queries of etc/grafana.json by panel, for all processes and databases."""
    variables = {"$job": ".*", "$instance": ".*", "$database": ".*", "$__rate_interval": "1m"}
    return [(panel["title"], re.sub(r"\$\w+", lambda name: variables[name.group()], target["expr"]))
            for panel in json.loads((ETC / "grafana.json").read_text(encoding="utf-8"))["panels"] for target in panel["targets"]]


def test_prometheus_dashboard_and_alerts(scene, postgres):
    """Each query of the dashboard has an answer under load, and Prometheus evaluates each alert. A client that waits is pending."""
    metrics = free_port()
    weir = scene.weir({"p0": postgres.target("p0", pool_size=3)}, pool_mode="transaction", http_listen_port=metrics, http_auth="basic")
    clients = busy(weir)
    prometheus = Prometheus(weir, metrics)
    with running(prometheus.command):
        until(lambda: prometheus.value("up") == 1, "Prometheus has scraped")
        assert prometheus.value('sum by (database) (pgbouncer_stats_queries_pooled_total{database="p0"})') == len(clients) * QUERIES
        assert prometheus.value('pgbouncer_pools_client_active_connections{database="p0",user="app"}') == len(clients)
        for client in clients:
            hold(client)
        weir.client().quit()
        waiting = weir.client()
        ask(waiting)
        until(lambda: [rule["state"] for rule in prometheus.rules() if rule["name"] == "PgweirPoolFull"] == ["pending"], "the alert is pending")
        until(lambda: not [title for title, query in dashboard() if not prometheus.rows(query)], "each panel has data")
        assert {rule["health"] for rule in prometheus.rules()} == {"ok"}
        let_go(clients[0])
        assert waiting.result().value


def test_metrics_of_dashboard_and_alerts_exist(scene, postgres):
    metrics = free_port()
    weir = scene.weir({"p0": postgres.target("p0")}, http_listen_port=metrics)
    busy(weir)
    text = page("http://127.0.0.1:%d/metrics" % metrics)
    # of alarms there are only those that have been raised
    exist = set(re.findall(r"^(\w+)[ {]", text, re.M)) | {"up", "ALERTS", "pgweir_alarm"}
    reasons = set(re.findall(r'reason="(\w+)"', text))
    expressions = [query for _, query in dashboard()] + re.findall(r"expr: ((?:.|\n)*?)\n        (?:for|labels):", RULES.read_text(encoding="utf-8"))
    assert len(expressions) > 14
    for expression in expressions:
        named = set(re.findall(r"\b(?:pgweir_|pgbouncer_|process_|up\b|ALERTS)\w*", re.sub(r'"[^"]*"', "", expression)))
        assert named and named <= exist, expression
        for alternatives in re.findall(r'reason=~"([^"]*)"', expression):
            assert set(alternatives.split("|")) <= reasons, expression


def test_alerts():
    """Nothing fires for a healthy pooler; each alert fires for its fault, and says what to do."""
    subprocess.run([program("promtool"), "check", "rules", RULES], check=True, capture_output=True, timeout=DEADLINE)
    done = subprocess.run([program("promtool"), "test", "rules", ETC.parent / "test" / "support" / "alerts.yml"], capture_output=True,
                          text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = re.split(r"- alert: ", RULES.read_text(encoding="utf-8"))[1:]
    assert len(alerts) == len(re.findall(r"alertname=\"(\w+)\"", (ETC.parent / "test" / "support" / "alerts.yml").read_text(encoding="utf-8")))
    assert not [alert for alert in alerts if "summary: " not in alert or "action: " not in alert]


# --- exporters

def test_prometheus_exporter_of_pypi(scene, postgres):
    """The newest prometheus-pgbouncer-exporter there is: every figure it knows, and right ones."""
    weir = scene.weir({"p0": postgres.target("p0", pool_size=7)}, pool_mode="transaction", max_client_conn=123)
    clients = busy(weir)
    port = free_port()
    with open(weir.path("exporter.yml"), "w", encoding="ascii") as f:
        f.write("exporter_host: 127.0.0.1\nexporter_port: %d\npgbouncers:\n"
                "  - dsn: postgresql://stats:stats-secret@127.0.0.1:%d/pgbouncer\n" % (port, weir.port))
    start = "from prometheus_pgbouncer_exporter.cli import main; main()"
    with running([sys.executable, "-c", start, "--config", weir.path("exporter.yml")]):
        found = figures(until(lambda: page("http://127.0.0.1:%d/metrics" % port), "the exporter answers"))
    assert found["pgbouncer_up"] == 1
    assert found['pgbouncer_stats_queries_total{database="p0"}'] == len(clients) * QUERIES
    assert found['pgbouncer_stats_transactions_total{database="p0"}'] == len(clients) * QUERIES
    assert found['pgbouncer_stats_queries_duration_microseconds_total{database="p0"}'] > 0
    assert found['pgbouncer_stats_received_bytes_total{database="p0"}'] > 0
    assert found['pgbouncer_stats_sent_bytes_total{database="p0"}'] > 0
    assert found['pgbouncer_pools_client_active_connections{database="p0",user="app"}'] == 3
    assert found['pgbouncer_pools_client_waiting_connections{database="p0",user="app"}'] == 0
    assert found['pgbouncer_pools_server_idle_connections{database="p0",user="app"}'] == 1
    assert found['pgbouncer_databases_database_pool_size{backend_database="p0",database="p0"}'] == 7
    assert found["pgbouncer_config_max_client_conn"] == 123


def test_prometheus_exporter_of_debian(scene, postgres):
    """
    Debian 12's package logs in over the Unix socket as the daemon's own user, without a password, and reads LISTS and
    POOLS. It is older than PgBouncer 1.8: from STATS it wants total_requests, which neither has any more.
    """
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", admin_users=None, stats_users=None)
    busy(weir)
    assert "pgbouncer_active_clients p0 3" in debian_exporter(weir.directory, weir.port, "PoolsCollector")
    assert "pgbouncer_used_servers - 1" in debian_exporter(weir.directory, weir.port, "ListsCollector")
    assert debian_exporter(weir.directory, weir.port, "StatsCollector")[-1] == "KeyError: 'total_requests'"


# --- pgBadger

def test_pgbadger(scene, postgres):
    """
    The report counts connections per database, user and host, and errors. (Debian 12's pgBadger does not parse the statistics line of PgBouncer since
    1.24.)
    """
    weir = scene.weir({"p0": postgres}, stats_period=1)
    for client in busy(weir):
        client.quit()
    weir.connect().refused(user="app", database="nowhere")
    weir.wait_log("stats: ")
    weir.wait_log("closing because: client close request", times=3)
    done = subprocess.run([program("pgbadger"), "-q", "-x", "json", "-o", weir.path("report.json"), weir.log_path],
                          capture_output=True, text=True, timeout=3 * DEADLINE, check=False, cwd=weir.directory)
    assert done.returncode == 0, done.stderr
    with open(weir.path("report.json"), encoding="utf-8") as f:
        report = json.load(f)
    connections = report["pgb_connection_info"]
    assert connections["database_user"]["p0"] == {"app": 3}
    assert connections["host"] == {"127.0.0.1": 4}
    errors = report["pgb_error_info"]
    assert [error["count"] for text, error in errors.items() if "no such database: nowhere" in text] == [1]


# --- programs with a screen

class Screen:
    """A program on its own terminal, with its output and typed input."""

    def __init__(self, command, environment):
        self.said = ""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
            os.execve(command[0], command, dict(environment, TERM="xterm"))
        os.set_blocking(self._terminal, False)

    def _read(self):
        try:
            self.said += os.read(self._terminal, 65536).decode("utf-8", "replace")
        except (BlockingIOError, OSError):
            pass
        return self.said

    def wait(self, pattern):
        """Reads until the pattern appears; earlier output is discarded."""
        found = until(lambda: re.search(pattern, self._read()), "%s in %r" % (pattern, self.said))
        self.said = self.said[found.end():]
        return found

    def type(self, text):
        os.write(self._terminal, text.encode())

    def _is_over(self):
        self._read()
        pid, self._status = os.waitpid(self._pid, os.WNOHANG)
        return pid

    def end(self):
        until(self._is_over, "the program ends")
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(self._status)


def libpq(weir, database, user):
    return dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(weir.port), PGUSER=user, PGDATABASE=database,
                PGPASSWORD=weir.users[user], PGSSLMODE="disable", PAGER="cat", PSQL_HISTORY="/dev/null", HOME="/nonexistent")


def test_psql_on_the_console(scene, postgres):
    r"""Its catalogue queries are refused, and psql continues: \d, \conninfo, \l, and tab completion."""
    weir = scene.weir({"p0": postgres})
    psql = Screen([tool("psql"), "-X"], libpq(weir, "pgbouncer", "admin"))
    psql.wait("pgbouncer=#")
    for asks in ("\\d", "\\l", "\\du"):
        psql.type(asks + "\n")
        psql.wait("ERROR")
        psql.wait("pgbouncer=#")
    psql.type("\\conninfo\n")
    psql.wait("admin")
    psql.wait("pgbouncer=#")
    psql.type("SHOW \t\t")              # psql asks for names of parameters
    psql.type("\025SELECT * FROM p\t\t")        # and of tables
    psql.type("\025SHOW VERSION;\n")
    psql.wait(r"PgBouncer 1\.\d+\.\d+")
    psql.type("\\q\n")
    assert psql.end() == 0
    assert weir.show("VERSION")


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_pg_activity(scene, postgres, mode):
    """A live page of PostgreSQL's activity, through the pooler."""
    weir = scene.weir({"p0": postgres}, pool_mode=mode, default_pool_size=3)
    if major_version() > 16:
        pytest.skip("Debian 12's pg_activity knows PostgreSQL up to 16")
    watch = Screen([program("pg_activity"), "-h", "127.0.0.1", "-p", str(weir.port), "-U", "app", "-d", "p0"],
                   libpq(weir, "p0", "app"))
    watch.wait("RUNNING QUERIES")
    watch.type("q")
    assert watch.end() == 0
    assert weir.pool("p0")["sv_idle"] >= 1


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_pg_top(scene, postgres, mode):
    """One screen of the processes, written as a list."""
    weir = scene.weir({"p0": postgres}, pool_mode=mode, default_pool_size=3)
    done = subprocess.run([program("pg_top"), "-b", "-h", "127.0.0.1", "-p", str(weir.port), "-U", "app", "-d", "p0"],
                          env=libpq(weir, "p0", "app"), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=3 * DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"postgres: app p0 127\.0\.0\.1", done.stdout), done.stdout
