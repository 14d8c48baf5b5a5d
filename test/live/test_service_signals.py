"""Signals, once and a second time; readiness for systemd, and sockets from it."""
import os
import signal
import socket
import subprocess
import sys

import pytest

from support import messages as m
from support.live import ask, hold, let_go, pid_of
from support.pgweir import binary
from support.ports import free_port
from support.until import DEADLINE, until
from support.wire import Client, Closed


def refuses(weir):
    """New connections over TCP are refused."""
    try:
        weir.connect()
    except ConnectionRefusedError:
        return True
    except ConnectionError:
        # still in the queue of the listening socket when that was closed
        return False
    return False


def test_hup_reloads(scene, postgres):
    weir = scene.weir({"p0": postgres})
    weir.databases["fresh"] = postgres.target("p1")
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    weir.wait_log("got SIGHUP")
    weir.wait_log("RELOAD: the configuration of .* is in force")
    assert weir.client(database="fresh").query("SELECT current_database()").value == "p1"


def test_hup_with_a_broken_file_changes_nothing(scene, postgres):
    weir = scene.weir({"p0": postgres})
    weir.settings["default_pool_size"] = "many"
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    weir.wait_log(r"ERROR .*pgweir\.ini:\d+: .*many")
    weir.wait_log("ERROR RELOAD Failed, see logs for more details")
    assert pid_of(weir.client())


def test_reload_reads_the_file_that_conffile_names(scene, postgres):
    weir = scene.weir({"p0": postgres})
    first, weir.ini_path = weir.ini_path, weir.path("other.ini")
    weir.databases["fresh"] = postgres.target("p1")
    weir.write_ini()
    weir.admin("SET conffile = '%s'" % weir.ini_path)
    for _ in range(2):
        assert weir.admin("RELOAD") == "RELOAD"
        assert weir.client(database="fresh").query("SELECT current_database()").value == "p1"
    weir.admin("SET conffile = '%s'" % first)
    weir.admin("RELOAD")
    assert weir.connect().refused(user="app", database="fresh")["M"] == "no such database: fresh"


def test_quit_ends_at_once(scene, postgres):
    weir = scene.weir({"p0": postgres})
    client = weir.client()
    hold(client)
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    assert m.read_error(client.drain()[0].body)["M"] in ("pooler is shutting down", "server shutting down")


def test_term_waits_for_clients(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client, other = weir.client(), weir.client()
    hold(client)
    weir.signal(signal.SIGTERM)
    until(lambda: refuses(weir), "nobody new is let in")
    let_go(client)
    assert pid_of(client) and pid_of(other)
    assert weir.is_alive()
    client.quit()
    assert pid_of(other)
    other.quit()
    assert weir.wait_exit() == 0


def test_int_waits_for_servers(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client, idle = weir.client(), weir.client()
    hold(client)
    weir.signal(signal.SIGINT)
    until(lambda: refuses(weir), "nobody new is let in")
    assert client.query("SELECT 1").value == "1"
    assert weir.is_alive()
    let_go(client)
    assert weir.wait_exit() == 0
    assert client.drain()[-1].type == "E" and idle.drain()[-1].type == "E"


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_second_signal_ends_at_once(scene, postgres, first, second):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client = weir.client()
    hold(client)
    weir.signal(first)
    until(lambda: refuses(weir), "it is shutting down")
    assert client.query("SELECT 1").value == "1"
    weir.signal(second)
    assert weir.wait_exit() == 0


def test_console_over_the_unix_socket_during_a_shutdown(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client = weir.client()
    hold(client)
    weir.signal(signal.SIGTERM)
    until(lambda: refuses(weir), "it is shutting down")
    console = weir.client("admin", "pgbouncer", unix=True)
    assert console.query("SHOW CLIENTS").rows
    fields = weir.connect(unix=True).refused(user="app", database="p0")
    assert (fields["M"], fields["C"]) == ("pooler is shutting down", "57P01")
    let_go(client)
    client.quit()
    assert weir.wait_exit() == 0


def test_usr1_pauses_and_usr2_resumes(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client = weir.client()
    pid = pid_of(client)
    weir.signal(signal.SIGUSR1)
    weir.wait_log("closing because: pause mode")
    ask(client)
    weir.wait_pool("p0", cl_waiting=1)
    weir.signal(signal.SIGUSR1)
    weir.wait_log("got SIGUSR1", times=2)
    weir.signal(signal.SIGUSR2)
    assert int(client.result().value) != pid
    weir.signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2", times=2)
    assert pid_of(client)


def test_usr2_is_ignored_while_shutting_down(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client, waiting = weir.client(), weir.client()
    hold(client)
    weir.signal(signal.SIGINT)
    until(lambda: refuses(weir), "it is shutting down")
    weir.signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2")
    ask(waiting)
    assert m.read_error(waiting.drain()[0].body)["M"] == "server shutting down"
    let_go(client)
    assert weir.wait_exit() == 0


def test_each_signal_is_logged_with_its_action(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client = weir.client()
    hold(client)
    # ignored: both kill a process by default
    weir.signal(signal.SIGPIPE)
    weir.signal(signal.SIGXFSZ)
    counts = {}

    def signals(number, line):
        counts[line] = counts.get(line, 0) + 1
        weir.signal(number)
        weir.wait_log("got " + line, times=counts[line])

    signals(signal.SIGHUP, "SIGHUP, re-reading config")
    signals(signal.SIGUSR2, "SIGUSR2, but not paused/suspended")
    signals(signal.SIGUSR1, "SIGUSR1, pausing all activity")
    signals(signal.SIGUSR1, "SIGUSR1, but already paused/suspended")
    signals(signal.SIGUSR2, "SIGUSR2, continuing from PAUSE")
    assert weir.admin("SUSPEND") == "SUSPEND"
    signals(signal.SIGUSR1, "SIGUSR1, but already paused/suspended")
    signals(signal.SIGUSR2, "SIGUSR2, continuing from SUSPEND")
    signals(signal.SIGTERM, "SIGTERM, shutting down, waiting for all clients disconnect")
    signals(signal.SIGHUP, "SIGHUP, re-reading config")
    signals(signal.SIGUSR2, "SIGUSR2 while shutting down, ignoring")
    signals(signal.SIGUSR1, "SIGUSR1, pausing all activity")
    signals(signal.SIGUSR1, "SIGUSR1, but already paused/suspended")
    signals(signal.SIGUSR2, "SIGUSR2 while shutting down, ignoring")
    signals(signal.SIGTERM, "SIGTERM while shutting down, fast exit")
    assert weir.wait_exit() == 0


@pytest.mark.parametrize("first, line", [
    (signal.SIGINT, "SIGINT, shutting down, waiting for all servers connections to be released"),
    (signal.SIGTERM, "SIGTERM, shutting down, waiting for all clients disconnect")])
@pytest.mark.parametrize("paused", [False, True])
def test_a_shutdown_from_a_pause_is_logged(scene, postgres, first, line, paused):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client = weir.client()
    hold(client)
    if paused:
        weir.signal(signal.SIGUSR1)
        weir.wait_log("got SIGUSR1, pausing all activity")
    weir.signal(first)
    weir.wait_log("got " + line)
    second, name = (signal.SIGQUIT, "SIGQUIT, fast exit") if paused else (signal.SIGINT, "SIGINT while shutting down, fast exit")
    weir.signal(second)
    weir.wait_log("got " + name)
    assert weir.wait_exit() == 0


# --- systemd

# LISTEN_PID has to be the number of the process that becomes pgweir.
LAUNCHER = """
import os, sys
# first out of the way of the descriptors that they become
sockets = [os.dup2(int(number), 100 + int(number)) for number in sys.argv[1].split(",")]
for place, number in enumerate(sockets, 3):
    os.dup2(number, place)
    os.close(number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sockets)))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Unit:
    """Started as systemd starts a service: with sockets from descriptor 3 on, and a place to report to."""

    def __init__(self, directory, postgres, sockets):
        self.directory = directory
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(directory + "/notify")
        self.notices.settimeout(DEADLINE)
        self.ini = directory + "/a.ini"
        with open(self.ini, "w", encoding="utf-8") as f:
            f.write("[databases]\np0 = %s user=trusted\n[pgbouncer]\nauth_type = any\nunix_socket_dir = %s\n"
                    "listen_addr = 127.0.0.1\nlisten_port = %d\nadmin_users = app\n"
                    % (postgres.target("p0"), directory, free_port()))
        numbers = [str(sock.fileno()) for sock in sockets]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, ",".join(numbers), binary(), "-q", self.ini], stdin=subprocess.DEVNULL,
            env=dict(os.environ, NOTIFY_SOCKET=directory + "/notify"), pass_fds=[sock.fileno() for sock in sockets])

    def heard(self):
        return self.notices.recv(4096).decode()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        assert self.process.wait(DEADLINE) == 0
        self.notices.close()


def listener(family, address):
    sock = socket.socket(family)
    sock.bind(address)
    sock.listen(16)
    return sock


def test_sockets_and_readiness_for_systemd(directory, postgres):
    tcp, local = listener(socket.AF_INET, ("127.0.0.1", 0)), listener(socket.AF_UNIX, directory + "/.s.PGSQL.5000")
    unit = Unit(directory, postgres, [tcp, local])
    try:
        assert "READY=1" in unit.heard()
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT), "its options are those of our own sockets"
        for host, port in (("127.0.0.1", tcp.getsockname()[1]), (directory, 5000)):
            client = Client(port, host)
            client.login(user="app", database="p0")
            assert client.query("SELECT 1").value == "1"
            client.quit()
        assert not [name for name in os.listdir(directory) if name.startswith(".s.PGSQL") and name != ".s.PGSQL.5000"]
        unit.process.send_signal(signal.SIGHUP)
        reloading = unit.heard()
        assert "RELOADING=1" in reloading and "MONOTONIC_USEC=" in reloading
        assert "READY=1" in unit.heard()
        unit.process.send_signal(signal.SIGTERM)
        assert "STOPPING=1" in unit.heard()
    finally:
        unit.stop()
        tcp.close()
        local.close()


def test_connections_made_before_the_start_are_served(directory, postgres):
    tcp = listener(socket.AF_INET, ("127.0.0.1", 0))
    early = Client(tcp.getsockname()[1])
    early.send(m.startup(user="app", database="p0"))
    unit = Unit(directory, postgres, [tcp])
    try:
        early.finish_login("app")
        assert pid_of(early)
        early.quit()
    except Closed as why:
        raise AssertionError("the early connection was lost") from why
    finally:
        unit.stop()
        tcp.close()
