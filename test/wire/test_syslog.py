"""
The daemon of syslog hangs, ends and comes back. syslog(3) waits for a daemon that hangs, and all clients waited with it. Here
lines are lost and counted, and pgweir reports the loss.
"""
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from support.pgweir import binary
from support.syslog import LOG_WARNING, Daemon, Listened
from support.takeover import Replaced
from support.until import DEADLINE, until

LOSS = r"lines of the log that could not be written: (\d+)"


class Queued(Listened):
    """The daemon's queue is short, as those of journald and rsyslog."""

    kind = socket.SOCK_DGRAM


class Heir(Listened, Replaced):
    """Listened, and replaced while it runs."""


def start(scene, kind=Queued, **settings):
    weir = scene.weir(scene.mini(), kind=kind, pool_mode="transaction", syslog=1, log_stats=0, **settings)
    weir.barrier()
    return weir


def places():
    """The maximum length of a datagram queue. (A stream has 212992 bytes, of which a short line uses 768.)"""
    with open("/proc/sys/net/unix/max_dgram_qlen", encoding="ascii") as f:
        return int(f.read())


def chatter(weir, count):
    """At least two lines each."""
    for n in range(count):
        client = weir.client(application_name="visitor %d" % n)
        assert client.query(str(n)).value == str(n)
        client.quit()
    weir.barrier()


def said(weir, pattern):
    """The lines in syslog that match."""
    return [text for text in weir.syslog.texts() if re.search(pattern, text)]


@pytest.mark.parametrize("kind", [Queued, Listened])
def test_hanging_daemon_delays_nothing(scene, kind):
    """Queries go on. As soon as the daemon reads again it receives the number of lost lines, and every line from there on."""
    weir = start(scene, kind)
    chatter(weir, count=places() if kind is Queued else 500)
    heard = len(weir.syslog.texts())
    logged = len(weir.log().splitlines())
    assert heard < logged
    weir.client(application_name="afterwards")
    weir.barrier()
    (loss,) = said(weir, LOSS)
    assert weir.syslog.texts()[heard] == loss and weir.syslog.lines()[heard][1] == LOG_WARNING
    assert "login attempt: db=p0" in weir.syslog.texts()[heard + 1]
    # the file, which has all, is the witness of the number
    assert int(re.search(LOSS, loss)[1]) == logged - heard


def test_daemon_stops_and_restarts(scene):
    weir = start(scene)
    weir.syslog.gone()
    chatter(weir, count=10)
    weir.syslog = Daemon(weir.path("syslog"), weir.kind)

    def told():
        # it is looked for when there is something to say
        chatter(weir, count=1)
        return said(weir, LOSS)
    until(told, "the loss is told")
    weir.client(application_name="x")
    weir.barrier()
    assert "login attempt" in weir.syslog.texts()[-1]


def test_restarted_daemon_gets_every_line(scene):
    weir = start(scene)
    for n in range(3):
        weir.syslog.lines()
        weir.syslog.gone()
        weir.syslog = Daemon(weir.path("syslog"), weir.kind)
        weir.client(application_name="visitor")
        weir.barrier()
        assert len(said(weir, "login attempt: db=p0")) == 1, n
        assert not said(weir, LOSS)


def test_reload_changes_facility_and_name_and_keeps_loss_counts(scene):
    weir = start(scene)
    chatter(weir, count=places())
    weir.settings.update(syslog_facility="local3", syslog_ident="later")
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    weir.wait_log("RELOAD: the configuration of .* is in force")
    heard = len(weir.syslog.lines())
    weir.client()
    weir.barrier()
    facility, priority, ident, pid, text = weir.syslog.lines()[heard]
    assert (facility, priority, ident, pid) == (19, LOG_WARNING, "later", weir.pid) and re.fullmatch(LOSS, text)


def test_new_background_process_logs_its_own_pid(scene):
    weir = start(scene, Heir, syslog_ident="weir")
    old, before = weir.process, weir.settings["pidfile"]
    weir.client(application_name="visitor")
    subprocess.run(weir.with_syslog_socket([binary(), "-R", "-d", weir.ini_path]), check=True, timeout=DEADLINE, cwd=weir.directory,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(before, encoding="ascii") as pidfile:
        pid = int(pidfile.read())
    try:
        assert old.wait(DEADLINE) == 0 and pid != old.pid
        weir.client(application_name="visitor").quit()
        until(lambda: "closing because" in weir.syslog.texts()[-1], "it says so")
    finally:
        os.kill(pid, signal.SIGQUIT)
    until(lambda: not os.path.exists(before), "it ends")
    speakers = [line[3] for line in weir.syslog.lines()]
    assert {old.pid, pid} == set(speakers)
    assert [line[3] for line in weir.syslog.lines() if "login attempt: db=p0" in line[4]] == [old.pid, pid]


def test_lines_equal_those_of_syslog_3(scene):
    """The same line, written by the C library for another program: strace makes its connect succeed, and records the data sent."""
    weir = start(scene, Listened, syslog_facility="local3", syslog_ident="weir of shop")
    weir.connect().refused(user="app", database="nowhere")
    (text,) = said(weir, "pooler error: no such database: nowhere")
    trace = os.path.join(scene.directory, "trace")
    program = ("import syslog, sys; syslog.openlog('weir of shop', syslog.LOG_PID, syslog.LOG_LOCAL3); "
               "syslog.syslog(syslog.LOG_WARNING, sys.argv[1])")
    subprocess.run(["strace", "-f", "-s", "1000", "-o", trace, "-e", "trace=connect,sendto", "-e", "inject=connect:retval=0",
                    sys.executable, "-c", program, text], check=True, env=dict(os.environ, TZ="UTC"))
    with open(trace, encoding="utf-8") as f:
        theirs = re.search(r'sendto\(\d+, "((?:[^"\\]|\\.)*)"', f.read())[1].replace('\\"', '"')
    (ours,) = [line for line in weir.syslog.raw if text in line]

    def timeless(line):
        return re.sub(r"\[\d+\]", "[PID]", re.sub(r">[A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d ", ">TIME ", line))
    assert timeless(ours) == timeless(theirs) != ours
