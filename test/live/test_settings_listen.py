"""Where pgweir listens, and the options of the sockets that come of it."""
import grp
import os
import re
import signal
import socket
import stat
import subprocess

import pytest

from support import messages as m
from support.live import pid_of
from support.pgweir import binary
from support.until import DEADLINE, until
from support.wire import Client


def served(host, port):
    client = Client(port, host)
    client.login(user="app", database="p0")
    pid = pid_of(client)
    client.quit()
    return bool(pid)


def can_bind(host):
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def has_ipv6():
    return can_bind("::1")


NOBODYS = "192.0.2.3"           # RFC 5737

needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on loopback")
needs_absence = pytest.mark.skipif(can_bind(NOBODYS), reason="net.ipv4.ip_nonlocal_bind: any address is here")


# --- addresses

def test_several_addresses(scene, postgres):
    weir = scene.weir({"p0": postgres}, listen_addr="127.0.0.1, 127.0.0.2,127.0.0.3")
    for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
        weir.wait_log("listening on %s:%d" % (host, weir.port))
        assert served(host, weir.port)
    with pytest.raises(ConnectionRefusedError):
        served("127.0.0.4", weir.port)


def test_addresses_by_name(scene, postgres):
    """All addresses that the system's resolver returns for a name; 127.2 is also a name to it. Duplicates are opened once."""
    weir = scene.weir({"p0": postgres}, listen_addr="localhost, 127.2, 127.0.0.1, 127.0.0.2", so_reuseport=1)
    of_localhost = {info[4][0] for info in socket.getaddrinfo("localhost", None)}
    for host in of_localhost | {"127.0.0.1", "127.0.0.2"}:
        if has_ipv6() or ":" not in host:
            assert served(host, weir.port)
    for host in ("127.0.0.1", "127.0.0.2"):
        assert weir.log().count("listening on %s:%d" % (host, weir.port)) == 1


def test_a_name_without_an_address(scene, postgres):
    weir = scene.weir({"p0": postgres}, unix_socket_dir="", allow="not started")
    weir.settings["listen_addr"] = "127.0.0.2, a..b"
    weir.write_ini()
    status, said = start_in_vain(weir)
    assert status == 1 and re.search(r"ERROR cannot listen on a\.\.b: \w+", said)


@needs_absence
def test_address_of_another_machine(scene, postgres):
    """A floating one, which another machine has at the moment."""
    weir = scene.weir({"p0": postgres}, listen_addr=NOBODYS + ", 127.0.0.1")
    weir.wait_log("WARNING cannot listen on %s:%d: Cannot assign requested address" % (NOBODYS, weir.port))
    assert served("127.0.0.1", weir.port)
    assert re.findall(r"listening on (?!unix)(.*):%d$" % weir.port, weir.log(), re.MULTILINE) == ["127.0.0.1"]


@needs_absence
def test_only_addresses_of_other_machines(scene, postgres):
    weir = scene.weir({"p0": postgres}, allow="not started")
    for value in NOBODYS, "192.0.515":
        weir.settings["listen_addr"] = value
        weir.write_ini()
        status, said = start_in_vain(weir)
        assert status == 1 and "ERROR cannot listen on %s:%d: Cannot assign" % (NOBODYS, weir.port) in said


@needs_ipv6
def test_ipv6(scene, postgres):
    weir = scene.weir({"p0": postgres}, listen_addr="127.0.0.1,::1")
    assert served("::1", weir.port) and served("127.0.0.1", weir.port)
    client = Client(weir.port, "::1")
    client.login(user="app", database="p0")
    (row,) = [row for row in weir.show("CLIENTS") if row["database"] == "p0"]
    assert row["addr"] == "::1"
    client.quit()


def test_all_addresses(scene, postgres):
    weir = scene.weir({"p0": postgres}, listen_addr="*")
    assert served("127.0.0.1", weir.port) and served("127.0.0.9", weir.port)
    assert not has_ipv6() or served("::1", weir.port)


@pytest.mark.parametrize("listen_addr", ["*, 127.0.0.1", "127.0.0.1, localhost, *", "127.0.0.2,0.0.0.0"])
def test_all_addresses_and_some_of_them(scene, postgres, listen_addr):
    weir = scene.weir({"p0": postgres}, listen_addr=listen_addr)
    assert served("127.0.0.1", weir.port) and served("127.0.0.2", weir.port)
    assert "listening on 0.0.0.0:" in weir.log() and "listening on 127." not in weir.log()


def test_unix_socket_alone(scene, postgres):
    weir = scene.weir({"p0": postgres}, listen_addr="")
    weir.host = weir.directory
    assert served(weir.directory, weir.port)
    with pytest.raises(ConnectionRefusedError):
        served("127.0.0.1", weir.port)


def test_no_unix_socket(scene, postgres):
    weir = scene.weir({"p0": postgres}, unix_socket_dir="")
    assert served("127.0.0.1", weir.port)
    assert not [name for name in os.listdir(weir.directory) if name.startswith(".s.")]


def start_in_vain(weir):
    """Starts a second process with the same file. Returns its status and output."""
    done = subprocess.run([binary(), weir.ini_path], capture_output=True, text=True, timeout=DEADLINE, check=False)
    return done.returncode, done.stderr


def test_address_in_use(scene, postgres):
    weir = scene.weir({"p0": postgres}, unix_socket_dir="", allow="not started")
    status, said = start_in_vain(weir)
    assert status == 1 and said.count("cannot listen on 127.0.0.1") == 1
    assert served("127.0.0.1", weir.port)


def test_unix_socket_in_use(scene, postgres):
    weir = scene.weir({"p0": postgres}, listen_addr="", allow="not started")
    weir.host = weir.directory
    status, said = start_in_vain(weir)
    assert status == 1 and "socket is in use" in said
    assert served(weir.directory, weir.port)


def test_stale_unix_socket(scene, postgres):
    weir = scene.weir({"p0": postgres})
    path = weir.path(".s.PGSQL.%d" % weir.port)
    weir.stop()
    assert not os.path.exists(path)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    weir.start(wait=False)
    until(lambda: weir.log().count("process up") == 2, "it comes up again")
    assert served(weir.directory, weir.port)


def test_so_reuseport(scene, postgres):
    first = scene.weir({"p0": postgres}, so_reuseport=1, unix_socket_dir="")
    second = scene.weir({"p0": postgres}, so_reuseport=1, unix_socket_dir="", listen_port=first.port)
    second.port = first.port
    for _ in range(64):
        assert served("127.0.0.1", first.port)
    for weir in (first, second):
        assert "login attempt" in weir.log()


# --- Unix sockets

@pytest.mark.parametrize("mode", ["0777", "0700", "0660"])
def test_unix_socket_mode(scene, postgres, mode):
    old = os.umask(0o077)
    try:
        weir = scene.weir({"p0": postgres}, unix_socket_mode=mode)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(weir.path(".s.PGSQL.%d" % weir.port)).st_mode) == int(mode, 8)


def test_unix_socket_group(scene, postgres):
    group = grp.getgrgid(os.getgroups()[-1] if os.getgroups() else os.getgid())
    weir = scene.weir({"p0": postgres}, unix_socket_group=group.gr_name)
    assert os.stat(weir.path(".s.PGSQL.%d" % weir.port)).st_gid == group.gr_gid


def test_abstract_unix_socket(scene, postgres):
    name = "@pgweir-test-%d" % os.getpid()
    weir = scene.weir({"p0": postgres}, unix_socket_dir=name)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0%s/.s.PGSQL.%d" % (name[1:], weir.port))
        sock.settimeout(DEADLINE)
        sock.sendall(m.startup(user="app", database="p0"))
        assert sock.recv(1) == b"R"
    assert not [entry for entry in os.listdir(weir.directory) if entry.startswith(".s.")]


def test_unix_socket_peers_in_the_log(scene, postgres):
    weir = scene.weir({"p0": postgres})
    weir.client(unix=True)
    weir.wait_log(r"C-0x\w+: p0/app@unix\(%d\):%d login attempt" % (os.getpid(), weir.port))


# --- the queue

def is_stopped(weir):
    with open("/proc/%d/stat" % weir.pid, encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0] == "T"


def test_listen_backlog(scene, postgres):
    """While pgweir is stopped, this many connections are queued, and one more is not."""
    weir = scene.weir({"p0": postgres}, listen_backlog=3, verbose=1)      # a connection without a byte is logged at this level
    path = weir.path(".s.PGSQL.%d" % weir.port)
    waiting = []
    weir.signal(signal.SIGSTOP)
    until(lambda: is_stopped(weir), "it is stopped")
    try:
        with pytest.raises(BlockingIOError):
            for _ in range(64):
                sock = socket.socket(socket.AF_UNIX)
                waiting.append(sock)
                sock.setblocking(False)
                sock.connect(path)
        assert len(waiting) == 3 + 2
    finally:
        weir.signal(signal.SIGCONT)
        for sock in waiting:
            sock.close()
    weir.wait_log("C-.*closing because:", times=4)
    assert served(weir.directory, weir.port)


# --- TCP options, as the kernel shows them

def timer_of(local_port, peer_port):
    """(kind, hundredths of a second left) of the timer of a connection. Kinds: 0 none, 1 retransmission, 2 keepalive."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            fields = line.split()
            ports = tuple(int(address.rpartition(":")[2], 16) for address in fields[1:3])
            if ports == (local_port, peer_port) and fields[3] == "01":
                kind, _, left = fields[5].partition(":")
                return int(kind, 16), int(left, 16)
    return None


def not_retransmitting(local_port, peer_port):
    timer = timer_of(local_port, peer_port)
    return timer if timer and timer[0] != 1 else None


@pytest.mark.parametrize("settings, least, most", [
    ({"tcp_keepalive": 1, "tcp_keepidle": 100}, 9000, 10000),
    ({"tcp_keepalive": 1, "tcp_keepidle": 1000}, 99000, 100000)])
def test_keepalive_of_clients_and_servers(scene, postgres, settings, least, most):
    weir = scene.weir({"p0": postgres}, **settings)
    client = weir.client()
    pid_of(client)
    (row,) = weir.show("SERVERS")
    for ports in ((weir.port, client.sock.getsockname()[1]), (row["local_port"], row["port"])):
        kind, left = until(lambda: not_retransmitting(*ports), "what was sent is acknowledged")
        assert kind == 2 and least <= left <= most


def test_no_keepalive(scene, postgres):
    weir = scene.weir({"p0": postgres}, tcp_keepalive=0)
    client = weir.client()
    pid_of(client)
    kind, _ = until(lambda: not_retransmitting(weir.port, client.sock.getsockname()[1]), "all is acknowledged")
    assert kind == 0


@pytest.mark.parametrize("deferred", [0, 1])
def test_tcp_defer_accept(scene, postgres, deferred):
    """A connection that says nothing is not even accepted, and takes no descriptor."""
    weir = scene.weir({"p0": postgres}, tcp_defer_accept=deferred)
    console = weir.show("VERSION")
    assert console
    before = weir.descriptors()
    silent = weir.connect()
    talks = weir.connect()
    talks.login(user="app", database="p0")
    (row,) = [row for row in weir.show("LISTS") if row["list"] == "login_clients"]
    assert int(row["items"]) == (0 if deferred else 1)
    assert weir.descriptors() > before
    silent.login(user="app", database="p0")
    assert pid_of(silent)


@pytest.mark.parametrize("size", [0, 8192])
def test_buffer_and_timeout_options_do_no_harm(scene, postgres, size):
    weir = scene.weir({"p0": postgres}, tcp_socket_buffer=size, tcp_user_timeout=10000, tcp_keepcnt=5, tcp_keepintvl=7)
    client = weir.client()
    text = "x" * 3000000
    assert client.query("SELECT '%s'" % text).value == text


def test_buffer_settings_change_no_answer(scene, postgres):
    weir = scene.weir({"p0": postgres}, pkt_buf=256, sbuf_loopcnt=1, pool_mode="transaction")
    client = weir.client()
    for size in (1, 200, 230, 255, 256, 257, 1000, 100000, 5000000):
        text = "x" * size
        assert client.query("SELECT '%s'" % text).value == text
    assert len(client.query("SELECT generate_series(1, 100000)").rows) == 100000


def test_max_packet_size(scene, postgres):
    weir = scene.weir({"p0": postgres}, max_packet_size=100000)
    client = weir.client()
    assert client.query("SELECT '%s'" % ("x" * 90000)).value
    client.send(m.query("SELECT '%s'" % ("x" * 100000)))
    words = client.drain()[-1]
    assert words.type == "E" and m.read_error(words.body)["C"] == "08P01"
    assert weir.client().query("SELECT repeat('x', 200000)").value


# --- names

def test_server_by_name(scene, postgres):
    weir = scene.weir({"p0": "host=localhost port=%d" % postgres.port})
    assert pid_of(weir.client())
    hosts = [row for row in weir.show("DNS_HOSTS") if row["hostname"] == "localhost"]
    assert hosts and re.search(r"127\.0\.0\.1", hosts[0]["addrs"])
