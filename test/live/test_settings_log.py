"""Settings of the log."""
import re
import socket
import struct

import pytest

from support.live import SOON, pid_of
from support.until import until


def lines(weir, pattern):
    return re.findall(pattern, weir.log(), re.M)


@pytest.mark.parametrize("on", [0, 1])
def test_log_connections(scene, postgres, on):
    weir = scene.weir({"p0": postgres}, log_connections=on)
    pid_of(weir.client())
    weir.connect().refused(user="app", database="nowhere")
    assert len(lines(weir, r" login attempt: db=p0 user=app tls=no replication=\w+$")) == on
    assert len(lines(weir, r" new connection to server \(from 127\.0\.0\.1:\d+\)$")) == on
    assert len(lines(weir, r" login failed: db=nowhere user=app$")) == on


@pytest.mark.parametrize("on", [0, 1])
def test_log_disconnections(scene, postgres, on):
    weir = scene.weir({"p0": postgres}, log_disconnections=on, server_idle_timeout=SOON)
    client = weir.client()
    pid_of(client)
    client.quit()
    until(lambda: not weir.show("SERVERS"), "the server connection has gone")
    assert len(lines(weir, r" C-\S+ p0/app@127\.0\.0\.1:\d+ closing because: client close request \(age=\d+s\)$")) == on
    assert len(lines(weir, r" S-\S+ p0/app@127\.0\.0\.1:\d+ closing because: server idle timeout \(age=\d+s\)$")) == on


@pytest.mark.parametrize("on", [0, 1])
def test_log_pooler_errors(scene, postgres, on):
    weir = scene.weir({"p0": postgres}, log_pooler_errors=on)
    weir.connect().refused(user="app", database="nowhere")
    assert len(lines(weir, r" WARNING .*pooler error: no such database: nowhere$")) == on


def test_log_stats(scene, postgres):
    weir = scene.weir({"p0": postgres}, log_stats=1, stats_period=1)
    pid_of(weir.client())
    weir.wait_log(r" LOG stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server parses/s, \d+ binds/s, "
                  r"\d+ client logins/s, in \d+ B/s, out \d+ B/s, xact \d+ us, query \d+ us, wait \d+ us$", times=2)
    weir.admin("SET log_stats = 0")
    before = len(lines(weir, " LOG stats: "))
    client = weir.client()
    weir.admin("SET client_idle_timeout = 1.3")
    client.drain()
    assert len(lines(weir, " LOG stats: ")) == before


def test_no_log_stats(scene, postgres):
    weir = scene.weir({"p0": postgres}, log_stats=0, stats_period=1, client_idle_timeout=1.3)
    weir.client().drain()
    assert not lines(weir, " LOG stats: ")


def test_stats_period_fills_the_averages(scene, postgres):
    weir = scene.weir({"p0": postgres}, stats_period=1, pool_mode="transaction")
    client = weir.client()

    def average():
        client.query("SELECT 1")
        (row,) = [row for row in weir.show("STATS") if row["database"] == "p0"]
        return int(row["avg_query_count"])

    until(average, "an average over a full period")


def test_verbose_at_run_time(scene, postgres):
    rules = scene.directory + "/hba.conf"
    with open(rules, "w", encoding="ascii") as f:
        f.write("host all all 127.0.0.1/32 trust\n")
    weir = scene.weir({"p0": postgres}, verbose=0, auth_type="hba", auth_hba_file=rules)
    weir.client()
    assert not lines(weir, r"\] (?:DEBUG|NOISE) ")
    weir.admin("SET verbose = 2")
    weir.client()
    assert lines(weir, r"\] NOISE .* matched .*hba\.conf:1 \(trust\)$")


def test_logfile_at_run_time(scene, postgres):
    weir = scene.weir({"p0": postgres})
    weir.admin("SET logfile = '%s'" % weir.path("other.log"))
    weir.client()
    with open(weir.path("other.log"), encoding="utf-8") as f:
        assert "login attempt" in f.read()
    assert not lines(weir, "db=p0")


def test_a_logfile_that_cannot_be_opened(scene, postgres):
    weir = scene.weir({"p0": postgres})
    try:
        weir.admin("SET logfile = '/nowhere/at/all.log'")
    except Exception as why:        # pylint: disable=broad-except
        assert "SET failed" in str(why)
    assert pid_of(weir.client())
    assert lines(weir, "login attempt: db=p0")


def test_no_password_is_ever_logged(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", password="'app-secret'")}, auth_type="plain", verbose=3)
    pid_of(weir.client())
    weir.connect().refused(user="app", database="p0", password="almost-app-secret")
    weir.admin("RELOAD")
    assert "secret" not in weir.log() + weir.stderr()


def test_hostile_name_is_logged_on_one_line(scene, postgres):
    weir = scene.weir({"p0": postgres})
    weir.connect().refused(user="app", database="no\n2026-01-01 00:00:00.000 UTC [1] LOG forged")
    assert not lines(weir, "^2026-01-01 00:00:00.000")
    assert lines(weir, r'no such database: "no\\x0a2026-01-01 [^"]* forged"$')


def test_health_checks_are_silent(scene, postgres):
    """A connection that is closed, or reset, without a byte has no line; SHOW REASONS counts it."""
    weir = scene.weir({"p0": postgres}, tcp_defer_accept=0)

    def closed():
        (row,) = [row for row in weir.show("REASONS ALL") if row["reason"] == "CLIENT_EOF"]
        return row["count"]
    before = closed()
    for linger in 0, 1:
        with socket.create_connection((weir.host, weir.port)) as check:
            check.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", linger, 0))
    until(lambda: closed() == before + 2, "both have been seen")
    assert not lines(weir, "unexpected eof")
    with socket.create_connection((weir.host, weir.port)) as client:
        client.sendall(b"\0")
    weir.wait_log("closing because: client unexpected eof")
