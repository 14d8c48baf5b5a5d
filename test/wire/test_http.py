"""
The HTTP endpoint: metrics, health checks, rows of SHOW as JSON, commands, rights, limits, RELOAD and online restart.
"""
import base64
import contextlib
import email.utils
import http.client
import json
import os
import re
import select
import socket
import ssl
import subprocess
import threading
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from support import messages as m
from support.live import ended_with
from support.pgweir import private
from support.ports import free_port
from support.roles import Roles
from support.scram import make_secret, secret_text
from support.takeover import Replaced
from support.until import DEADLINE, until

MARK = {"X-Pgweir": "1"}
SPARES = 8                      # connections beyond http_max_connections, for health checks


def with_http(scene, databases, **settings):
    """pgweir with an HTTP port, in transaction mode."""
    settings = {"http_listen_port": free_port(), "pool_mode": "transaction", **settings}
    weir = scene.weir(databases, **settings)
    return weir, Http(settings["http_listen_port"])


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()
        self.text = self.body.decode()

    def json(self):
        assert self.status == 200, (self.status, self.text)
        return json.loads(self.text)


class Http:
    """Requests to a port of 127.0.0.1, or to a Unix socket."""

    def __init__(self, port=None, path=None, host="127.0.0.1"):
        self.port, self.path, self.host = port, path, host
        self.tls = None             # a context

    def ask(self, target, method="GET", user=None, password=None, **headers):
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            fields["Authorization"] = "Basic " + base64.b64encode(("%s:%s" % (user, password or user + "-secret")).encode()).decode()
        if self.path:
            connection = UnixConnection(self.path)
        elif self.tls:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=DEADLINE, context=self.tls)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE)
        with contextlib.closing(connection):
            connection.request(method, target, headers=fields)
            return Answer(connection.getresponse())

    def post(self, target, **more):
        return self.ask(target, "POST", **{**MARK, **more})

    def connect(self):
        sock = socket.create_connection((self.host, self.port), timeout=DEADLINE)
        return self.tls.wrap_socket(sock, server_hostname=self.host) if self.tls else sock

    def say(self, data):
        """Sends bytes and returns all that comes until the end of the connection."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_all(sock)


def read_all(sock):
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while True:
            more = sock.recv(65536)
            if not more:
                break
            got += more
    return got


def samples(text, parse=prometheus):
    """{(name, labels as a sorted tuple): value}"""
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in parse(text) for sample in family.samples}


# --- metrics

# The names of prometheus-community/pgbouncer_exporter, on which dashboards and alerts rely.
POOLS = ["client_active_connections", "client_waiting_connections", "client_active_cancel_connections", "client_waiting_cancel_connections",
         "server_active_connections", "server_idle_connections", "server_used_connections", "server_testing_connections",
         "server_login_connections", "server_active_cancel_connections", "server_being_canceled_connections", "client_maxwait_seconds"]
STATS = ["queries_pooled_total", "queries_duration_seconds_total", "received_bytes_total", "sent_bytes_total", "client_wait_seconds_total",
         "server_in_transaction_seconds_total", "sql_transactions_pooled_total", "server_assignments_total"]
DATABASES = ["pool_size", "reserve_pool_size", "current_connections", "max_connections", "paused", "disabled"]
SINGLE = ["up", "databases", "users", "pools", "free_clients", "used_clients", "login_clients", "free_servers", "used_servers",
          "in_flight_dns_queries", "cached_dns_names", "cached_dns_zones", "config_max_client_connections", "config_max_user_connections"]


def test_metrics_have_the_names_of_the_exporter(scene):
    fake = scene.mini()
    weir, web = with_http(scene, fake, max_client_conn=77, server_idle_timeout=0)
    client = weir.client()
    for n in range(5):
        client.query("query %d" % n)
    answer = web.ask("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = samples(answer.text)
    pool = (("database", "p0"), ("user", "app"))
    for name in POOLS:
        assert ("pgbouncer_pools_" + name, pool) in found
    for name in STATS:
        assert ("pgbouncer_stats_" + name, (("database", "p0"),)) in found
    entry = (("database", "p0"), ("force_user", ""), ("host", "127.0.0.1"), ("name", "p0"), ("pool_mode", ""), ("port", str(fake.port)))
    for name in DATABASES:
        assert ("pgbouncer_databases_" + name, entry) in found
    for name in SINGLE:
        assert ("pgbouncer_" + name, ()) in found
    assert any(name == "pgbouncer_version_info" for name, _ in found)
    assert found["pgbouncer_stats_queries_pooled_total", (("database", "p0"),)] == 5
    assert found["pgbouncer_pools_client_active_connections", pool] == 1
    assert found["pgbouncer_pools_server_idle_connections", pool] == 1
    assert found["pgbouncer_config_max_client_connections", ()] == 77
    assert found["pgbouncer_up", ()] == 1
    assert found["pgweir_queries_total", ()] == 5


def test_metrics_equal_show(scene):
    """Each column of SHOW POOLS and STATS_TOTALS that is measured, under some name, with the same value in base units."""
    weir, web = with_http(scene, scene.mini(), show_extra_columns=1, server_idle_timeout=0)
    client = weir.client()
    client.query("once")
    found = samples(web.ask("/metrics").text)
    (row,) = [row for row in weir.show("STATS_TOTALS") if row["database"] == "p0"]
    for column, name in (("bytes_received", "received_bytes_total"), ("bytes_sent", "sent_bytes_total"),
                         ("xact_count", "sql_transactions_pooled_total"),
                         ("server_assignment_count", "server_assignments_total")):
        assert found["pgbouncer_stats_" + name, (("database", "p0"),)] == int(row[column]) > 0
    assert found["pgbouncer_stats_queries_duration_seconds_total", (("database", "p0"),)] == pytest.approx(int(row["query_time"]) / 1e6)
    (row,) = [row for row in weir.show("POOLS") if row["database"] == "p0"]
    assert found["pgweir_pools_pool_size", (("database", "p0"), ("user", "app"))] == row["pool_size"] == 20
    assert found["pgweir_memory_used_objects", (("name", "server_cache"),)] == 1


def test_metrics_tell_how_long_a_client_waits(scene):
    """A fraction of a second, although SHOW has seconds and microseconds in two columns."""
    weir, web = with_http(scene, scene.mini(), default_pool_size=1)
    weir.client().query("BEGIN")
    weir.client().send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=1)
    pool = (("database", "p0"), ("user", "app"))
    until(lambda: 0 < samples(web.ask("/metrics").text)["pgbouncer_pools_client_maxwait_seconds", pool] < 1, "a fraction of a second")


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1"])
def test_metrics_are_accepted_by_promtool(scene, accept):
    weir, web = with_http(scene, {"p0": scene.mini(), '"o""d\\d"': "host=127.0.0.1 port=1"})
    weir.client().query("once")
    answer = web.ask("/metrics", Accept=accept)
    if accept:
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.text.endswith("# EOF\n")
        found = samples(answer.text, openmetrics)
    else:
        found = samples(answer.text)
        done = subprocess.run(["promtool", "check", "metrics"], input=answer.text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert any(dict(labels).get("name") == 'o"d\\d' for _, labels in found)


def test_metrics_of_pools_beyond_the_limit_are_summed(scene):
    fake = scene.mini()
    weir, web = with_http(scene, {"p%d" % n: "host=127.0.0.1 port=%d" % fake.port for n in range(5)}, metrics_max_pools=2)
    for n in range(5):
        client = weir.client(database="p%d" % n)
        for _ in range(n + 1):
            client.query("query")
    found = samples(web.ask("/metrics").text)
    counts = {dict(labels)["database"]: value for (name, labels), value in found.items() if name == "pgbouncer_stats_queries_pooled_total"}
    assert counts == {"p0": 1, "p1": 2, "other": 3 + 4 + 5}
    clients = {labels: value for (name, labels), value in found.items() if name == "pgbouncer_pools_client_active_connections"}
    assert clients[("database", "other"), ("user", "")] == 3
    assert len(clients) == 3


def test_metrics_of_hosts_with_roles(scene):
    """Pools of one user at several hosts differ by the label host, and a role is a label of a series with the value 1."""
    port = free_port()
    stage = Roles(scene, http_listen_port=port)
    writer, readers = stage.weir.client(), stage.readers(8)
    for client in [writer] + readers:
        assert client.query("BEGIN").status == "T"
    for number in range(3):
        stage.wait_host(number, state="up")
    answer = Http(port).ask("/metrics")
    lines = [line.partition(" ")[0] for line in answer.text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
    found = samples(answer.text)
    name = "pgbouncer_pools_client_active_connections"
    assert found[name, (("database", "p0"), ("host", stage.keys[0]), ("user", "app"))] == 1
    assert (name, (("database", "p0"), ("user", "app"))) in found
    assert sum(found[name, (("database", "reads"), ("host", key), ("user", "app"))] for key in stage.keys[1:]) == 8
    roles = {labels for metric, labels in found if metric == "pgweir_hosts_role"}
    assert roles == {(("host", key), ("role", "standby" if number else "primary")) for number, key in enumerate(stage.keys)}
    assert found["pgweir_hosts_lag_seconds", (("host", stage.keys[1]),)] < 10
    assert found["pgweir_hosts_state", (("host", stage.keys[0]), ("state", "up"))] == 1
    assert 0 <= found["pgweir_hosts_check_age_seconds", (("host", stage.keys[0]),)] < DEADLINE
    done = subprocess.run(["promtool", "check", "metrics"], input=answer.text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_database_with_roles_is_ready_while_a_host_answers(scene):
    """Also without a primary, where its clients wait, and before a host was asked."""
    port = free_port()
    stage = Roles(scene, http_listen_port=port)
    web = Http(port)
    assert web.ask("/readyz?db=p0").status == 200
    stage.weir.client()
    stage.fakes[0].become("standby")
    stage.wait_host(0, role="standby")
    assert web.ask("/readyz?db=p0").status == 200
    for fake in stage.fakes:
        fake.stop_listening()
        fake.drop_all()
    until(lambda: web.ask("/readyz?db=p0").status == 503, "no host answers")
    text = web.ask("/readyz?db=p0").text
    assert "no primary" in text and stage.keys[2] + ": unknown (connect failed (Connection refused))" in text
    assert web.ask("/readyz").status == 200


def test_reasons_of_ended_connections_are_counted(scene):
    weir, web = with_http(scene, scene.mini())
    name = "pgweir_ended_connections_total"

    def count():
        return sum(value for (metric, labels), value in samples(web.ask("/metrics").text).items()
                   if metric == name and dict(labels)["fault"] == "client")
    before = count()
    weir.client().quit()
    until(lambda: count() == before + 1, "the end is counted")


# --- JSON

def test_every_show_is_json(scene):
    """The same rows and columns as on the console, with all extra columns; numbers are numbers."""
    weir, web = with_http(scene, scene.mini(), show_extra_columns=1)
    weir.client().query("once")
    console = weir.console()
    names = web.ask("/api/").json()
    assert "pools" in names and "fds" not in names
    # without its own console
    names.remove("active_sockets")
    for name in names:
        rows = web.ask("/api/" + name).json()
        with console.cursor() as cursor:
            cursor.execute("SHOW " + name.upper())
            expected = cursor.fetchall()
            columns = [column.name for column in cursor.description]
            numbers = [column.name for column in cursor.description if column.type_code in (20, 23, 1700)]
        assert len(rows) == len(expected), name
        for row in rows:
            assert list(row) == columns, name
            assert all(row[column] is None or isinstance(row[column], int) for column in numbers), name
    (pool,) = [row for row in web.ask("/api/pools").json() if row["database"] == "p0"]
    assert (pool["cl_active"], pool["pool_mode"], pool["held_by"]) == (1, "transaction", None)
    # several at once are an object
    both = web.ask("/api/version,State").json()
    assert list(both) == ["version", "State"] and both["version"][0]["version"].startswith("PgBouncer")
    too_many = ",".join(["state"] * 13)
    assert [web.ask("/api/" + items).status for items in ("help", "nothing", "pools,", too_many)] == [404, 404, 200, 404]


def test_chosen_columns_and_connections(scene):
    """?pools= chooses columns; ?most= the first connections of a pool, waiting clients first."""
    weir, web = with_http(scene, {"p0": scene.mini(), "p1": "host=127.0.0.1 port=1"}, default_pool_size=1, server_idle_timeout=0)
    idle, busy, late, later = (weir.client() for _ in range(4))
    busy.query("BEGIN")
    late.send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=1)
    later.send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=2)
    both = web.ask("/api/pools,state?pools=user,database,nothing&db=p0").json()
    assert both["pools"] == [{"database": "p0", "user": "app"}] and list(both["state"][0]) == ["key", "value"]
    assert list(web.ask("/api/pools?pools=nothing&db=p0").json()[0])[:2] == ["database", "user"]
    of = "?db=p0&user=app&clients=id,state&servers=state,link"

    def states(name, most):
        return [row["state"] for row in web.ask("/api/%s%s&most=%s" % (name, of, most)).json()]
    assert states("clients", 100) == ["waiting", "waiting", "active", "idle"]
    assert [states("clients", 2), states("clients", 0), states("servers", 1)] == [["waiting", "waiting"], [], ["active"]]
    rows = web.ask("/api/clients%s&most=2" % of).json()
    assert rows[0]["id"] < rows[1]["id"] and list(rows[0]) == ["state", "id"]
    # without a valid limit: by id
    assert [states("clients", most) for most in ("", "x", -1)] == [["idle", "active", "waiting", "waiting"]] * 3
    assert len(web.ask("/api/sockets%s&most=9" % of).json()) == 5
    assert web.ask("/api/clients?db=p0&user=nobody&most=5").json() == []
    busy.query("COMMIT")


def test_strange_texts_in_json(scene):
    name = 'quote " back \\ umlaut ä'
    weir, web = with_http(scene, {'"%s"' % name.replace('"', '""'): "host=127.0.0.1 port=1", "bytes": "host=127.0.0.1 port=1 dbname='\x01\t'"})
    rows = {row["name"]: row for row in web.ask("/api/databases").json()}
    assert name in rows
    assert rows["bytes"]["database"] == "\\x01\\x09"


def test_many_rows_come_in_parts(scene):
    fake = scene.mini()
    weir, web = with_http(scene, {"*": "host=127.0.0.1 port=%d" % fake.port}, max_client_conn=1000)
    clients = [weir.client(database="db%03d" % n) for n in range(450)]
    rows = web.ask("/api/pools").json()
    assert [row["database"] for row in rows] == ["db%03d" % n for n in range(450)]
    assert len([row for row in web.ask("/api/clients").json() if row["database"] != "pgbouncer"]) == len(clients)
    assert len([labels for name, labels in samples(web.ask("/metrics").text) if name == "pgweir_pools_pool_size"]) == 450


def test_secrets_are_never_shown(scene):
    weir, web = with_http(scene, scene.mini())
    weir.client().query("once")
    assert web.ask("/api/fds").status == 403
    rows = web.ask("/api/fds", user="admin").json()
    assert {row["password"] for row in rows} == {None}


def test_history(scene):
    weir, web = with_http(scene, scene.mini())
    client = weir.client()
    for n in range(3):
        client.query("query %d" % n)
    rows = until(lambda: (lambda got: got if len(got) > 2 and got[-1][got[0].index("queries")] >= 3 else None)(web.ask("/api/history").json()), "a sample with queries")
    assert rows[0][0] == "time"
    values = dict(zip(rows[0], rows[-1]))
    assert (values["clients"], values["waiting"], values["logins"] >= 1) == (1, 0, True)
    assert [row[0] for row in rows[1:]] == sorted({row[0] for row in rows[1:]})
    later = web.ask("/api/history?since=%d" % rows[-1][0]).json()
    assert all(row[0] > rows[-1][0] for row in later[1:])
    # a second without queries has no latency, the second before had one
    found = [dict(zip(rows[0], row)) for row in web.ask("/api/history").json()[1:]]
    assert [each["query_p50"] is None for each in found[1:]] == [now["queries"] == before["queries"] for before, now in zip(found, found[1:])]
    assert all(each["query_p50"] <= each["query_p99"] for each in found if each["query_p50"] is not None)


def test_history_of_a_pool(scene):
    """Queries, clients and latencies of one pool. A request begins the history of a pool beyond the limit."""
    fake = scene.mini()
    weir, web = with_http(scene, {"*": "host=127.0.0.1 port=%d" % fake.port}, max_client_conn=100)
    clients = [weir.client(database="db%02d" % n) for n in range(40)]
    for client in clients:
        client.query("query")
    clients[39].query("another")
    clients[0].quit()

    def last(name):
        columns, *rows = web.ask("/api/history?db=%s&user=app" % name).json()
        return dict(zip(columns, rows[-1])) if rows else {}

    def sample_of(name, column, value):
        """The first sample in which the column has this value: the clients may come and go over several seconds."""
        def look():
            sample = last(name)
            return sample if sample.get(column) == value else None
        return until(look, "a sample")
    first, late = sample_of("db00", "closes", 1), sample_of("db39", "queries", 2)
    assert [first[name] for name in ("queries", "transactions", "logins", "closes", "clients")] == [1, 1, 1, 1, 0]
    assert [late[name] for name in ("queries", "transactions", "logins", "closes", "clients", "idle")] == [2, 2, 1, 0, 1, 1]
    assert late["query_p50"] <= late["query_p99"]
    assert [len(web.ask("/api/history?db=%s&user=%s" % names).json()) for names in (("nowhere", "app"), ("db00", "x"), ("pgbouncer", "pgbouncer"))] == [1] * 3
    # in several parts
    assert all(len(row) == len(first) for row in web.ask("/api/history,state?db=db00&user=app").json()["history"])


# --- health

def test_health_checks(scene):
    weir, web = with_http(scene, {"p0": scene.mini(), "p1": "host=127.0.0.1 port=1"}, http_auth="basic")
    assert (web.ask("/healthz").status, web.ask("/healthz").text) == (200, "ok\n")
    assert (web.ask("/readyz").status, web.ask("/readyz").text) == (200, "ready\n")
    # the name of a database is for readers
    assert web.ask("/readyz?db=p0").status == 401

    def ready(database):
        answer = web.ask("/readyz?db=" + database, user="stats")
        return answer.status, answer.text.strip()
    assert ready("p0") == (200, "ready")
    assert ready("nowhere") == (503, "no such database")
    weir.admin("PAUSE p0")
    assert ready("p0") == (503, "the database is paused")
    assert web.ask("/readyz").status == 200
    weir.admin("RESUME p0")
    weir.admin("DISABLE p0")
    assert ready("p0") == (503, "the database is disabled")
    weir.admin("ENABLE p0")
    weir.admin("DRAIN HOST 127.0.0.1 OVER 1000 SECONDS")
    assert ready("p0") == (503, "the database is drained") and web.ask("/readyz").status == 200
    weir.admin("DRAIN")
    assert (web.ask("/readyz").status, web.ask("/readyz").text) == (503, "drained\n")
    found = samples(web.ask("/metrics", user="stats").text)
    assert (found["pgweir_drains_clients", (("name", "127.0.0.1"), ("target", "host"))], found["pgweir_drains_ended_total", (("name", ""), ("target", "all"))]) == (0, 0)
    weir.admin("DRAIN STOP")
    weir.admin("PAUSE")
    assert web.ask("/readyz").text == "paused\n"
    weir.admin("RESUME")
    refused = weir.connect()
    refused.send(m.startup(user="app", database="p1"))
    until(lambda: ready("p1")[0] == 503, "no server of p1")
    assert ready("p1")[1].startswith("no server connection: ")


def test_a_shutdown_that_waits_is_not_ready(scene):
    weir, web = with_http(scene, scene.mini())
    client = weir.client()
    client.query("once")
    weir.admin("SHUTDOWN WAIT_FOR_CLIENTS")
    assert (web.ask("/readyz").status, web.ask("/readyz").text) == (503, "shutting down\n")
    assert web.ask("/healthz").status == 200
    client.quit()
    assert weir.wait_exit() == 0


# --- rights

def test_old_secret_of_a_user(scene):
    for name in ("new", "old"):
        with private(scene.directory + "/" + name) as f:
            f.write(name)
    weir, web = with_http(scene, scene.mini(), http_auth="basic", login_failure_delay=0,
                          sections={"users": {"admin": "password_file={0}/new old_password_file={0}/old".format(scene.directory)}})
    assert [web.ask("/api/you", user="admin", password=password).status for password in ("new", "old", "older")] == [200, 200, 401]
    weir.users["admin"] = "new"


def test_rights(scene):
    weir, web = with_http(scene, scene.mini(), http_auth="basic")
    for target in ("/", "/metrics", "/api/pools"):
        answer = web.ask(target)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith('Basic realm="pgweir"')
        assert web.ask(target, user="stats").status == web.ask(target, user="admin").status == 200
        assert web.ask(target, user="admin", password="wrong").status == 401
        assert web.ask(target, user="nobody").status == 401
        # the right password of a user in no list
        assert web.ask(target, user="app").status == 403
    weir.wait_log(r"WARNING HTTP: 127.0.0.1:\d+ user admin: password authentication failed", times=3)
    assert web.ask("/api/you", user="stats").json()["admin"] is False
    assert web.ask("/api/you", user="admin").json()["admin"] is True
    assert web.ask("/metrics", Authorization="Bearer abc").status == 400
    assert web.ask("/metrics", Authorization="Basic !!!").status == 400
    weir.admin("SET http_auth = 'off'")
    assert web.ask("/metrics").status == 200
    assert web.post("/api/pause").status == 401


def test_readers_on_this_machine_need_no_password(scene):
    """A page of another site does: its DNS server may resolve its name to this machine."""
    weir, web = with_http(scene, scene.mini())
    assert web.ask("/metrics").status == 200
    hosts = {"localhost:1": 200, "127.0.0.1": 200, "[::1]:80": 200, "evil.example": 401, "127.0.0.1.evil.example": 401}
    assert {host: web.ask("/metrics", Host=host).status for host in hosts} == hosts
    assert web.ask("/metrics", Host="evil.example", user="stats").status == 200
    assert web.ask("/login").status == web.ask("/login", user="stats").status == 401
    answer = web.ask("/login", user="admin")
    assert (answer.status, answer.headers["Location"]) == (303, "./")


def test_other_machines_need_a_password(scene):
    """Another address of this machine stands for them."""
    addresses = [line.split()[3].split("/")[0] for line in subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=False)
                 .stdout.splitlines()]
    others = [address for address in addresses if not address.startswith("127.")]
    if not others:
        pytest.skip("this machine has only loopback")
    weir, web = with_http(scene, scene.mini(), http_listen_addr="*")
    other = Http(web.port, host=others[0])
    assert web.ask("/metrics").status == 200
    assert other.ask("/metrics").status == 401
    assert other.ask("/metrics", user="stats").status == 200
    assert other.ask("/readyz").status == 200


def test_scram_secrets(scene):
    """The first check derives the key in another process, later ones compare."""
    weir, web = with_http(scene, scene.mini(), http_auth="basic", login_failure_delay=0.5)
    weir.users["stats"] = secret_text(make_secret("stats-secret"))
    weir.write_users()
    weir.admin("RELOAD")
    assert [web.ask("/metrics", user="stats").status for _ in range(3)] == [200] * 3
    assert web.ask("/metrics", user="stats", password="wrong").status == 401
    assert web.ask("/metrics", user="stats").status == 200


def test_wrong_passwords_cost_the_same_for_all_users(scene):
    """Two derivations, with as many iterations together, whatever secret the user has, and whether it exists."""
    secrets = {"few": secret_text(make_secret("right", iterations=1)), "many": secret_text(make_secret("right", iterations=60000)),
               "too-many": secret_text(make_secret("right", iterations=1000001)), "md5": "md5" + 32 * "0", "clear": "right", "empty": ""}
    weir, web = with_http(scene, scene.mini(), http_auth="basic", login_failure_delay=0, max_auth_processes=1)
    weir.users.update(secrets)
    weir.write_users()
    weir.admin("RELOAD")

    def cost(user, password="wrong"):
        rows = lambda: [row for row in weir.show("VERIFIERS") if row["answers"]]    # pylint: disable=unnecessary-lambda-assignment
        before = sum(row["answers"] for row in rows())
        assert web.ask("/metrics", user=user, password=password).status in (401, 403)
        return sum(row["answers"] for row in rows()) - before
    # in neither list of readers
    assert [cost(user, "right") for user in ("few", "many", "clear")] == [1, 1, 0]
    assert [cost(user, "right") for user in ("few", "many", "clear")] == [0, 0, 0]
    assert {user: cost(user) for user in (*secrets, "nobody", "nobody", "app")} == {user: 2 for user in (*secrets, "nobody", "app")}


def test_unix_socket(scene, directory):
    """The user of the process has all rights there."""
    path = os.path.join(directory, "http.sock")
    weir = scene.weir(scene.mini(), http_unix_socket=path, unix_socket_mode="0700")
    web = Http(path=path)
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert web.ask("/api/you").json()["admin"] is True
    assert web.post("/api/pause?db=p0").status == 200
    weir.admin("SET http_unix_socket = ''")
    assert not os.path.exists(path)
    weir.wait_log(r"HTTP: not listening on unix:.* any more")


# --- commands

def test_commands(scene):
    fake = scene.mini()
    weir, web = with_http(scene, fake, server_idle_timeout=0)
    client = weir.client()
    client.query("once")
    admin = {"user": "admin"}
    assert web.post("/api/pause?db=p0", **admin).text == "PAUSE\n"
    weir.wait_pool("p0", sv_idle=0)
    client.send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=1)
    assert web.post("/api/pause?db=p0", **admin).status == 409
    assert web.post("/api/resume?db=p0", **admin).status == 200
    assert client.result().value == "later"
    assert web.post("/api/resume?db=p0", **admin).status == 409
    assert web.post("/api/reconnect?db=p0", **admin).status == 200
    weir.wait_pool("p0", sv_idle=0)
    assert web.post("/api/pause", **admin).status == 200
    assert weir.show("STATE")[1]["value"] == "yes"
    assert web.post("/api/resume", **admin).status == 200
    assert [web.post("/api/pause?db=" + name, **admin).status for name in ("nowhere", "pgbouncer", "%zz", "")] == [404] * 4
    weir.wait_log(r"LOG PAUSE 'p0' command issued \(HTTP: 127.0.0.1:\d+ user admin\)")
    weir.wait_log(r"LOG RECONNECT 'p0' command issued \(HTTP: ")


def test_warnings(scene):
    """The last warnings of the log, for stats_users and administrators."""
    weir, web = with_http(scene, scene.mini(), stats_users="stats", http_auth="basic", login_failure_delay=0)
    assert web.ask("/api/warnings").status == 401
    for n in range(70):
        weir.connect().refused(user="app", database='no"where%d' % n)
    found = web.ask("/api/warnings", user="stats").json()
    assert len(found) == 64
    assert found[0]["level"] == "WARNING" and 'where69' in found[0]["text"]
    assert 'where6' in found[63]["text"]
    assert web.ask("/api/warnings,state", user="admin").json()["warnings"][0]["time"] > "2020"


def test_kill_client(scene):
    """The list of a pool's clients, and the end of one of them, idle or in a transaction."""
    target = "host=127.0.0.1 port=%d" % scene.mini().port
    weir, web = with_http(scene, {"p0": target, "p1": target}, stats_users="stats")
    idle, busy, other = weir.client(), weir.client(), weir.client(database="p1")
    busy.query("BEGIN")
    rows = web.ask("/api/clients,pools?db=p0&user=app").json()
    assert [row["database"] for row in rows["clients"]] == ["p0", "p0"] and len(rows["pools"]) == 1
    assert web.ask("/api/clients?db=p0&user=nobody").json() == []
    assert len(web.ask("/api/servers?db=p0").json()) == 1
    assert len([row for row in web.ask("/api/clients").json() if row["database"] != "pgbouncer"]) == 3
    for row, client in zip(rows["clients"], [idle, busy]):
        assert web.post("/api/kill_client?id=%d" % row["id"], user="stats").status == 403
        assert web.ask("/api/kill_client?id=%d" % row["id"], "POST", user="admin").status == 403
        assert web.post("/api/kill_client?id=%d" % row["id"], user="admin").text == "KILL_CLIENT\n"
        ended_with(client, "admin forced disconnect")
    weir.wait_pool("p0", cl_active=0, sv_active=0)
    assert [web.post("/api/kill_client" + text, user="admin").status for text in ("", "?id=0", "?id=x", "?id=999999")] == [404] * 4
    other.query("still here")
    weir.wait_log(r"LOG KILL_CLIENT '\d+' command issued \(HTTP: 127.0.0.1:\d+ user admin\)")


def test_set(scene):
    """Size and mode of a database, until the next RELOAD."""
    weir, web = with_http(scene, {"p0": scene.mini(), '"my.db"': "host=127.0.0.1 port=1", "*": "host=127.0.0.1 port=1"}, stats_users="stats",
                          sections={"users": {"boss": "pool_size=5"}})
    client = weir.client()
    client.query("once")
    size = "/api/set?db=p0&key=pool_size&value=7"
    assert web.post(size, user="stats").status == 403
    assert web.ask(size, "POST", user="admin").status == 403
    answer = web.post(size, user="admin")
    assert answer.status == 200
    assert answer.text.splitlines() == ['"pool_size" in [users] has precedence, as for user "boss"',
                                        '"p0.pool_size" is "7" until the next RELOAD or restart, which read the configuration file']
    assert web.post("/api/set?db=p0&key=pool_mode&value=session", user="admin").status == 200
    assert web.post("/api/set?db=my.db&key=min_pool_size&value=0", user="admin").status == 200

    def shown():
        (pool,) = web.ask("/api/pools?db=p0").json()
        return pool["pool_size"], pool["pool_mode"]
    assert shown() == (7, "session")
    for query, text in (("db=p0&key=pool_size&value=x", 'database "p0": "pool_size" is "x", but must be a whole number'),
                        ("db=p0&key=host&value=x", '"host" of a database is changed in the file'), ("db=p0&key=pool_size", "needed: db, key and value"),
                        ("db=p0&key=x.pool_size&value=1", "needed: db, key and value"), ("key=pool_size&value=1", "needed: db, key and value"),
                        ("db=other&key=pool_size&value=1", '"other" has no entry in [databases]: "*" applies')):
        answer = web.post("/api/set?" + query, user="admin")
        assert (answer.status, text in answer.text) == (400, True), answer.text
    weir.wait_log(r"LOG SET p0.pool_size=7 command issued \(HTTP: 127.0.0.1:\d+ user admin\)")
    # SET of another setting keeps the value, RELOAD does not
    weir.admin("SET verbose = 0")
    assert shown() == (7, "session")
    weir.admin("RELOAD")
    assert shown() == (20, "transaction")
    assert client.query("still").value == "still"


def test_commands_need_an_administrator_and_the_page(scene):
    weir, web = with_http(scene, scene.mini())
    assert web.post("/api/pause").status == 401
    assert web.post("/api/pause", user="stats").status == 403
    assert web.ask("/api/pause", user="admin").status == 405
    # a page of another site can send neither the header nor this Origin
    assert web.ask("/api/pause", "POST", user="admin").status == 403
    assert web.post("/api/pause", user="admin", Origin="http://evil.example").status == 403
    assert web.post("/api/pause", user="admin", Origin="http://127.0.0.1:%d" % web.port).status == 200
    assert web.ask("/metrics", "POST", user="admin").status == 405
    assert web.ask("/metrics", "DELETE", user="admin").status == 501


# --- the protocol

@pytest.mark.parametrize("request_, status", [
    (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400), (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4097\r\n\r\n", 413),
    (b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET /" + b"a" * 600 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    (b"GET / HTTP/1.Z\r\nHost: a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nA\x01: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9000, 431), (b"\r\n" * 5000, 431), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 400),
], ids=range(20))
def test_bad_requests(scene, request_, status):
    weir, web = with_http(scene, scene.mini())
    answer = web.say(request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"Connection: close" in answer
    assert web.ask("/healthz").status == 200


def test_requests_on_one_connection(scene):
    """Pipelined, in pieces, HEAD, a body that is ignored, HTTP/1.0, and a client that closes its side."""
    weir, web = with_http(scene, scene.mini())
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    got = web.say(one * 3 + b"GET /healthz HTTP/1.1\nHost: localhost\nConnection: close\n\n")
    assert got.count(b"HTTP/1.1 200 OK") == got.count(b"\r\n\r\nok\n") == 4
    with web.connect() as sock:
        for at in range(len(one)):
            sock.sendall(one[at:at + 1])
        assert b"ok\n" in sock.recv(65536)
        sock.sendall(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = sock.recv(65536)
        assert head.endswith(b"\r\n\r\n") and b"200 OK" in head
        sock.sendall(b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello" + one)
        sock.shutdown(socket.SHUT_WR)
        got = read_all(sock)
        assert b"405" in got and got.endswith(b"ok\n")
    got = web.say(b"GET /api/state HTTP/1.0\r\n\r\n")
    assert b"Connection: close" in got and b"chunked" not in got
    assert json.loads(got.partition(b"\r\n\r\n")[2])[0]["key"] == "active"
    got = web.say(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert b"chunked" not in got and got.endswith(b"\n")
    assert samples(got.partition(b"\r\n\r\n")[2].decode())


def test_page(scene):
    weir, web = with_http(scene, scene.mini())
    answer = web.ask("/")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert email.utils.parsedate_to_datetime(answer.headers["Date"])
    assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]
    # it refers to no other address
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", answer.text)
    assert web.ask("/other").status == 404


# --- TLS

def https(authority, port, certificate=None, protocols=("h2", "http/1.1")):
    context = ssl.create_default_context(cafile=authority.cert("ca"))
    context.set_alpn_protocols(protocols)
    if certificate:
        context.load_cert_chain(authority.cert(certificate), authority.key(certificate))
    web = Http(port)
    web.tls = context
    return web


def with_tls(scene, authority, **settings):
    return with_http(scene, scene.mini(), http_tls=1, client_tls_cert_file=authority.cert("server"),
                     client_tls_key_file=authority.key("server"), **settings)


def test_tls(scene, authority):
    """The port speaks TLS only; the Unix socket does not."""
    path = os.path.join(scene.directory, "http.sock")
    weir, web = with_tls(scene, authority, http_unix_socket=path)
    secure = https(authority, web.port)
    assert secure.ask("/healthz").text == "ok\n"
    assert samples(secure.ask("/metrics").text)["pgbouncer_up", ()] == 1
    assert secure.ask("/metrics", Connection="close").headers["Connection"] == "close"
    assert Http(path=path).ask("/healthz").status == 200
    assert web.say(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").find(b"HTTP/1.1 200") == -1
    # the protocol of PostgreSQL is another
    with pytest.raises(ssl.SSLError):
        https(authority, web.port, protocols=("postgresql",)).ask("/healthz")
    with secure.connect() as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /readyz HTTP/1.0\r\n\r\n")
        got = read_all(sock)
        assert b"ok\n" in got and got.endswith(b"ready\n")


def test_client_certificates(scene, authority):
    """The common name of a verified certificate is the user."""
    for name in ("admin", "stats", "app"):
        authority.issue("http-" + name, name)
    authority.issue("http-forged", "admin", by="other")
    weir, web = with_tls(scene, authority, http_auth="basic", client_tls_ca_file=authority.cert("ca"))
    assert https(authority, web.port, "http-admin").ask("/api/you").json()["admin"] is True
    assert https(authority, web.port, "http-stats").ask("/api/you").json()["user"] == "stats"
    assert https(authority, web.port, "http-stats").ask("/metrics", user="admin").status == 200
    assert https(authority, web.port, "http-app").ask("/metrics").status == 401
    assert https(authority, web.port).ask("/metrics").status == 401
    with pytest.raises((ssl.SSLError, OSError)):
        https(authority, web.port, "http-forged").ask("/metrics")


def test_reload_of_a_certificate(scene, authority):
    weir, web = with_tls(scene, authority)
    authority.issue("renewed", "localhost", names="IP:127.0.0.1")

    def serial():
        with https(authority, web.port).connect() as sock:
            return sock.getpeercert()["serialNumber"]
    before = serial()
    weir.settings.update(client_tls_cert_file=authority.cert("renewed"), client_tls_key_file=authority.key("renewed"))
    weir.write_ini()
    weir.admin("RELOAD")
    assert serial() != before
    # files that do not fit together change nothing
    weir.settings["client_tls_key_file"] = authority.key("server")
    weir.write_ini()
    with pytest.raises(Exception, match="RELOAD"):
        weir.admin("RELOAD")
    assert https(authority, web.port).ask("/healthz").status == 200
    weir.admin("SET http_tls = 0")
    assert web.ask("/healthz").status == 200


# --- limits

def test_slow_clients_are_closed(scene):
    """Clients that do not send, send slowly, or do not read."""
    weir, web = with_http(scene, scene.mini(), http_timeout=1)
    with web.connect() as silent, web.connect() as slow, web.connect() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)

        def drip():
            with contextlib.suppress(OSError):
                slow.sendall(b"x")
                return False
            return True
        until(drip, "a client that sends a byte now and then is closed")
        assert read_all(silent) == b""
        until(lambda: weir.descriptors() and not connections(weir, web), "the client that does not read is closed, too")
    assert web.ask("/healthz").status == 200


def connections(weir, web):
    """Number of established connections to the HTTP port, on the side of pgweir."""
    with open("/proc/%d/net/tcp" % weir.pid, encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    inodes = {os.readlink("/proc/%d/fd/%s" % (weir.pid, fd)) for fd in os.listdir("/proc/%d/fd" % weir.pid)
              if os.path.exists("/proc/%d/fd/%s" % (weir.pid, fd))}
    return sum(1 for row in rows if int(row[1].split(":")[1], 16) == web.port and row[3] == "01" and "socket:[%s]" % row[9] in inodes)


def test_connections_are_bounded(scene):
    """More connections displace connections without a request, and a request is served."""
    weir, web = with_http(scene, scene.mini(), http_max_connections=4)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(web.connect())
        assert web.ask("/healthz").status == 200
        assert connections(weir, web) <= 4 + SPARES
        weir.admin("SET http_max_connections = 1")
        until(lambda: connections(weir, web) <= 1, "the new limit")
        assert web.ask("/healthz").status == 200


def guess(web, stack, path="/metrics", source=""):
    """Sends a wrong password from this address."""
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", web.port), DEADLINE, source and (source, 0)))
    login = base64.b64encode(b"stats:wrong")
    sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nAuthorization: Basic %s\r\n\r\n" % (path.encode(), login))
    return sock


def refused(weir):
    return weir.log().count("password authentication failed")


def test_wrong_passwords_do_not_block_health_checks(scene):
    """All places are held by delayed refusals, of the probe's own address, too; a health check compares no password."""
    weir, web = with_http(scene, scene.mini(), http_auth="basic", http_max_connections=4, login_failure_delay=60, http_timeout=1000)
    with contextlib.ExitStack() as stack:
        guesses = [guess(web, stack) for _ in range(4)]
        until(lambda: connections(weir, web) == 4, "all places are taken")
        for _ in range(3):
            assert web.ask("/healthz").text == "ok\n"
            assert web.ask("/readyz").text == "ready\n"
            assert web.ask("/healthz", user="stats", password="wrong").text == "ok\n"
            assert web.ask("/readyz?db=p0").status == 401
        # more guesses wait, and leave room for health checks
        guesses += [guess(web, stack) for _ in range(4 * SPARES)]
        assert web.ask("/healthz").text == "ok\n"
        assert connections(weir, web) <= 4 + SPARES and refused(weir) == 0
        for sock in guesses[:4]:
            sock.settimeout(0)
            with pytest.raises(BlockingIOError):
                sock.recv(1)


def test_a_refusal_makes_room_for_another_address(scene):
    """The address with most connections has fewer places in favour of another one; its own requests displace nothing."""
    weir, web = with_http(scene, scene.mini(), http_auth="basic", http_max_connections=4, login_failure_delay=60, http_timeout=1000)
    with contextlib.ExitStack() as stack:
        guesses = [guess(web, stack, source="127.0.0.2") for _ in range(4)]
        until(lambda: connections(weir, web) == 4, "all places are taken")
        assert web.ask("/metrics", user="stats").status == 200
        (closed,) = select.select(guesses, [], [], DEADLINE)[0]
        assert read_all(closed) == b""


def test_a_request_on_a_spare_connection_waits_for_a_place(scene):
    weir, web = with_http(scene, scene.mini(), http_auth="basic", http_max_connections=1, login_failure_delay=0.5, http_timeout=1000)
    with contextlib.ExitStack() as stack:
        one = guess(web, stack)
        until(lambda: connections(weir, web) == 1, "the place is taken")
        assert web.ask("/metrics", user="stats").status == 200
        assert refused(weir) == 1
        assert one.recv(100).startswith(b"HTTP/1.1 401 ")


def test_descriptors_run_out(scene):
    weir, web = with_http(scene, scene.mini(), http_max_connections=1000, http_timeout=1, nofile=100, allow="file descriptors|accept")
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(web.connect())
        weir.wait_log("cannot accept connections on 127.0.0.1:%d" % web.port)
        client = weir.client()
        assert client.query("still").value == "still"


# --- life

def test_reload_changes_the_address(scene):
    weir, web = with_http(scene, scene.mini())
    with web.connect() as held:
        second = free_port()
        weir.admin("SET http_listen_port = %d" % second)
        other = Http(second)
        assert other.ask("/healthz").status == 200
        with pytest.raises(ConnectionRefusedError):
            web.ask("/healthz")
        # an open connection goes on
        held.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"ok\n" in held.recv(65536)
    weir.wait_log("HTTP: not listening on 127.0.0.1:%d any more" % web.port)
    weir.wait_log("HTTP: listening on 127.0.0.1:%d" % second)
    # a port that is in use changes nothing
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        weir.settings["http_listen_port"] = taken.getsockname()[1]
        weir.write_ini()
        with pytest.raises(Exception, match="RELOAD"):
            weir.admin("RELOAD")
        weir.wait_log("HTTP: cannot listen on 127.0.0.1:%d: Address already in use" % taken.getsockname()[1])
    assert other.ask("/healthz").status == 200
    weir.settings["http_listen_port"] = 0
    weir.write_ini()
    weir.admin("RELOAD")
    with pytest.raises(ConnectionRefusedError):
        other.ask("/healthz")
    weir.settings["http_listen_port"] = second
    weir.write_ini()
    weir.admin("RELOAD")
    assert other.ask("/healthz").status == 200


def test_reload_covers_the_address(scene):
    """From one address to all addresses with the same port, and back."""
    weir, web = with_http(scene, scene.mini())
    for address in ("*", "127.0.0.1", "0.0.0.0"):
        weir.admin("SET http_listen_addr = '%s'" % address)
        assert web.ask("/healthz").status == 200
        with socket.socket() as other, pytest.raises(OSError):
            other.bind(("127.0.0.1", web.port))
    weir.wait_log(r"HTTP: listening on 0.0.0.0:%d" % web.port, times=2)


def test_a_port_in_use_prevents_the_start(scene):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        weir = scene.weir(scene.mini(), http_listen_port=port, wait=False, allow="not started")
        weir.expected_status = 1
        assert weir.wait_exit() == 1
        assert "HTTP: cannot listen on 127.0.0.1:%d" % port in weir.log()


def test_online_restart(scene):
    """The new process listens as soon as the old process has closed its sockets."""
    directory = scene.directory
    settings = {"http_listen_port": free_port(), "http_unix_socket": os.path.join(directory, "http.sock")}
    weir = scene.weir(scene.mini(), kind=Replaced, pool_mode="transaction", **settings)
    web, local = Http(settings["http_listen_port"]), Http(path=settings["http_unix_socket"])
    client = weir.client()
    client.query("once")
    with web.connect() as idle:
        old = weir.replace()
        assert read_all(idle) == b""

    def answers(http):
        with contextlib.suppress(OSError):
            return samples(http.ask("/metrics").text).get(("process_start_time_seconds", ()))
        return None
    until(lambda: "HTTP: listening" in weir.log_of(weir.process), "the new process listens")
    started = until(lambda: answers(web), "the new process answers")
    assert answers(local) == started
    assert old.wait(DEADLINE) == 0
    # it has not removed the file of the new process
    assert answers(local) == started
    assert client.query("still").value == "still"


# --- load

@contextlib.contextmanager
def flood(web, request_, connections_=12):
    """Clients that send this request again and again, and read. Yields the number of bytes that they have read."""
    over, got = threading.Event(), [0]

    def work():
        while not over.is_set():
            with contextlib.suppress(OSError), web.connect() as sock:
                sock.settimeout(0.2)
                while not over.is_set():
                    with contextlib.suppress(socket.timeout):
                        sock.sendall(request_ * 20)
                        more = sock.recv(1 << 20)
                        got[0] += len(more)
                        if not more:
                            break
    threads = [threading.Thread(target=work) for _ in range(connections_)]
    for thread in threads:
        thread.start()
    try:
        yield got
    finally:
        over.set()
        for thread in threads:
            thread.join()


def cpu_seconds(weir):
    with open("/proc/%d/stat" % weir.pid, encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


FLOODS = {"metrics": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "health": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "malformed": b"x\r\n\r\n", "bytes": b"G"}


@pytest.mark.parametrize("request_", FLOODS.values(), ids=FLOODS)
def test_a_flood_costs_queries_little(scene, request_):
    """HTTP uses its share of the processor, whatever the requests are; queries and another HTTP client are answered meanwhile."""
    fake = scene.mini()
    weir, web = with_http(scene, {"*": "host=127.0.0.1 port=%d" % fake.port}, max_client_conn=400, busy_poll="off")
    clients = [weir.client(database="db%03d" % n) for n in range(200)]
    with flood(web, request_):
        until(lambda: connections(weir, web) > 5, "they are connected")
        before, began = cpu_seconds(weir), time.monotonic()
        # the flood is the only work
        until(lambda: time.monotonic() - began > 1.5, "1.5 seconds")
        share = (cpu_seconds(weir) - before) / (time.monotonic() - began)
        for n, client in enumerate(clients):
            assert client.query("query %d" % n).value == "query %d" % n
        assert web.ask("/healthz").status == 200
    # 5 % for the work, and what the kernel takes for the events
    assert share < 0.3, share
