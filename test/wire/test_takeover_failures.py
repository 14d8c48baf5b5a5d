"""
Online restarts that fail: whatever goes wrong, and wherever, one process is left that serves all clients.

The new process is played by the test where it has to fail at a certain step, and so is the old one.
"""
import fcntl
import os
import random
import select
import signal
import socket
import struct
import termios

import pytest

from support import messages as m
from support.crowd import Crowd
from support.live import last_words
from support.takeover import END, GO, HELLO, PIDFILE, READY, REFUSAL, TAKE, VERSION, Channel, Replaced, hello, listen_at, text
from support.threads import run_in_threads
from support.until import DEADLINE, until

REFUSED = r"WARNING process \d+ cannot take over"


@pytest.fixture
def weir(scene):
    return scene.weir(scene.mini(), kind=Replaced, pool_mode="transaction", default_pool_size=2, query_wait_notify=0,
                      allow="cannot take over|not started")


class People:
    """An idle client and a client in a transaction; and a check that the old process serves them, and a new client too."""

    def __init__(self, weir):
        self.weir = weir
        self.pid = weir.pid
        self.idle, self.busy = weir.client(), weir.client()
        assert self.idle.query("hello").value == "hello"
        assert self.busy.query("BEGIN").status == "T"

    def are_served(self):
        assert self.weir.is_alive() and self.weir.pid == self.pid
        assert self.idle.query("idle").value == "idle"
        assert self.busy.query("busy").value == "busy"
        with self.weir.client() as newcomer:
            assert newcomer.query("new").value == "new"


@pytest.fixture
def people(weir):
    return People(weir)


# --- the new process fails


def test_a_successor_that_ends_at_any_step(weir, people):
    def greeted(channel):
        channel.greet()

    def asked(channel):
        channel.greet()
        channel.send(TAKE)

    def asked_and_looked(channel):
        asked(channel)
        channel.read()

    def almost_all(channel):
        asked(channel)
        for _ in range(9):
            channel.read()

    def all_of_it(channel):
        channel.greet()
        assert channel.take()[-1].kind == END

    for number, step in enumerate((lambda channel: None, greeted, asked, asked_and_looked, almost_all, all_of_it)):
        with weir.connect_channel() as channel:
            step(channel)
        weir.wait_log(r"process \d+ has not taken over", times=number + 1)
        people.are_served()
    # and a takeover without failure succeeds
    weir.replace()
    people.pid = weir.pid
    people.are_served()


def test_successor_hangs(weir, people):
    """The successor has everything and hangs: pgweir gives it up after some seconds, and tells it so in case it wakes."""
    with weir.ask() as channel:
        assert channel.take()[-1].kind == END
        weir.wait_log("has not taken over: the other process does not answer")
        assert channel.read().kind == REFUSAL
        assert channel.is_closed()
        people.are_served()


def test_successor_sends_invalid_records(weir, people):
    for say in (lambda channel: channel.send("?"), lambda channel: channel.send(READY, b"\1"), lambda channel: channel.sock.send(b"x" * 99)):
        with weir.ask() as channel:
            say(channel)
            assert channel.is_closed()
        people.are_served()
    for answer in (lambda channel: channel.send(READY, b"\2"), lambda channel: channel.send(GO), lambda channel: channel.send("x", b"y" * 70000)):
        with weir.ask() as channel:
            channel.take()
            answer(channel)
            assert channel.read().kind == REFUSAL
        people.are_served()


def test_descriptors_are_closed(weir, people):
    """Descriptors opened in a failed takeover are closed."""
    with weir.ask() as channel:
        channel.take()
    people.are_served()
    before = weir.descriptors()
    for _ in range(20):
        with weir.ask() as channel:
            records = channel.take()
            assert [record for record in records if record.fd is not None]
    people.are_served()
    until(lambda: weir.descriptors() <= before, "descriptors are closed")


def test_stopped_anywhere_and_killed(weir, people):
    """
    Real successors under load, stopped at some point by SIGSTOP: either the old process has handed over, and the new one serves when it continues, or
    the old process gives up, and the new one can be killed.
    """
    crowd = Crowd(weir, 4)

    def outcome(new):
        said = weir.log_of(weir.process)
        return "process %d has taken over" % new.pid in said or "process %d has not taken over" % new.pid in said

    def administrate():
        try:
            for _ in range(3):
                crowd.wait_for_more()
                new = weir.launch()
                weir.wait_log("process %d is about to take over" % new.pid)
                new.send_signal(signal.SIGSTOP)
                until(lambda: outcome(new), "the old process decides")      # pylint: disable=cell-var-from-loop
                if "process %d has taken over" % new.pid not in weir.log_of(weir.process):
                    new.kill()
                    assert new.wait(DEADLINE) == -signal.SIGKILL
                    continue
                new.send_signal(signal.SIGCONT)
                weir.predecessors.append(weir.process)
                weir.process = new
                people.pid = new.pid
        finally:
            crowd.over.set()

    run_in_threads(administrate, *crowd.works)
    people.are_served()


# --- refused


def test_another_version_of_the_hand_over(weir, people):
    with weir.connect_channel() as channel:
        record = channel.read()
        assert record.kind == HELLO and record.body.startswith(text("pgweir"))
        channel.send(HELLO, hello(version=999, program="42.0"))
        refusal = channel.read()
        assert refusal.kind == REFUSAL
        assert refusal.text == "pgweir 42.0 hands over in version 999, pgweir 0.1.0 in version %d" % VERSION
        assert channel.is_closed()
    weir.wait_log(REFUSED + ": pgweir 42.0 hands over in version 999")
    with weir.connect_channel() as channel:
        channel.read()
        channel.send(HELLO, hello(name="pgpouncer"))
        assert channel.read().text == "the other process is no pgweir"
    people.are_served()


def test_one_at_a_time(weir, people):
    with weir.ask() as first:
        with weir.connect_channel() as second:
            assert second.is_closed()
        weir.wait_log(r"online restart: connections refused: 1, the last one of process \d+, while process \d+ takes over$")
        assert first.take()[-1].kind == END
    people.are_served()


@pytest.mark.parametrize("command, reason", [
    ("PAUSE", "it is paused or suspended: RESUME it first"), ("SUSPEND", "it is paused or suspended: RESUME it first"),
    ("PAUSE p0", "a database of it is paused: RESUME it first")])
def test_not_while_paused(weir, command, reason):
    client = weir.client()
    assert weir.admin(command)
    assert "cannot take over from process %d: %s" % (weir.pid, reason) in weir.fails()
    weir.wait_log(REFUSED + ": " + reason)
    assert weir.admin("RESUME" + command[len("PAUSE"):] if command != "SUSPEND" else "RESUME")
    weir.replace()
    assert client.query("there").value == "there"


def test_not_while_shutting_down(weir):
    client = weir.client()
    weir.admin("SET log_stats = 0")
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM")
    with weir.connect_channel() as channel:
        channel.greet()
        channel.send(TAKE)
        assert channel.read().text == "it is shutting down"
    assert client.query("served").value == "served"
    client.quit()
    assert weir.wait_exit() == 0


def test_shutdown_during_a_takeover_request(scene):
    """The request waits for a login that does not end; then it is too late."""
    weir = scene.weir(scene.mini(), kind=Replaced, auth_type="scram-sha-256", allow="cannot take over|not started")
    asked = weir.connect()
    asked.send(m.startup(user="app", database="p0"))
    asked.expect("R")
    holder = weir.client()
    with weir.one_turn():
        new = weir.launch()
        until(lambda: open("/proc/net/unix", encoding="ascii").read().count(weir.address()) > 1, "it asks")
        weir.signal(signal.SIGTERM)
    assert new.wait(DEADLINE) in (0, 1)
    if new.returncode == 1:
        holder.quit()
        asked.close()
        assert weir.wait_exit() == 0


# --- the new process cannot use the records, or lacks resources


def test_invalid_configuration(weir, people):
    weir.settings["pool_mode"] = "nonsense"
    weir.write_ini()
    assert "pool_mode" in weir.fails() + weir.stderr()
    people.are_served()


def test_address_in_use(weir, people):
    with socket.socket(socket.AF_INET) as other:
        other.bind(("127.0.0.2", weir.port))
        other.listen()
        weir.settings["listen_addr"] = "127.0.0.1, 127.0.0.2"
        weir.write_ini()
        assert "cannot listen on 127.0.0.2" in weir.fails()
    people.are_served()
    assert os.path.exists(weir.path(".s.PGSQL.%d" % weir.port))
    # nor has it left anything of its own
    weir.settings["listen_addr"] = "127.0.0.1"
    weir.settings["unix_socket_dir"] = weir.path("elsewhere")
    weir.write_ini()
    assert "cannot listen on" in weir.fails()
    people.are_served()


def test_too_few_descriptors(scene):
    """A record that cannot be received completely is refused."""
    mini = scene.mini()
    weir = scene.weir(mini, kind=Replaced, allow="cannot take over|not started|open files", max_client_conn=100,
                      pool_mode="transaction")
    clients = [weir.client() for _ in range(60)]
    weir._nofile = 40       # pylint: disable=protected-access
    said = weir.fails()
    weir._nofile = None     # pylint: disable=protected-access
    assert "too many open files" in said, said
    for client in clients[:5]:
        assert client.query("there").value == "there"
    weir.replace()
    for client in clients:
        assert client.query("there").value == "there"


def test_no_process_to_take_over_from(scene):
    """Then it is an ordinary start."""
    weir = scene.weir(scene.mini(), kind=Replaced, arguments=["-R"])
    assert "no running process was found" in weir.log()
    assert weir.client().query("there").value == "there"


def test_pidfile_of_a_killed_process(scene):
    weir = scene.weir(scene.mini(), kind=Replaced)
    weir.process.kill()
    weir.process.wait(DEADLINE)
    weir.process = weir.launch()
    weir.wait_log(r"\[%d\] LOG process up" % weir.process.pid)
    assert weir.client().query("there").value == "there"


def test_no_socket_to_find_the_process(scene):
    weir = scene.weir(scene.mini(), kind=Replaced, pidfile="", unix_socket_dir="", allow="cannot take over|not started")
    assert "neither pidfile nor unix_socket_dir is set" in weir.fails()


# --- the old process is played


class PlayedOld:
    """Listens at the socket of a process with this pidfile, and sends the records of the test."""

    def __init__(self, weir, killed=False, earlier=False):
        """
        - killed: in place of a process that has left its connections open, or whose connections belong to this one
        - earlier: at the socket of a process of an earlier version
        """
        self.weir = weir
        if killed:
            weir.process.kill()
            weir.process.wait(DEADLINE)
        else:
            weir.stop()
        with open(weir.settings["pidfile"], "w", encoding="ascii"):
            pass
        self.listener = listen_at(weir.address_of_earlier_version() if earlier else weir.address())
        self.new = weir.launch()

    def accept(self, greeting=None):
        sock, _ = self.listener.accept()
        sock.settimeout(DEADLINE)
        channel = Channel(sock)
        channel.send(HELLO, greeting or hello())
        return channel

    def ended(self):
        self.listener.close()
        assert self.new.wait(DEADLINE) == 1
        return self.weir.log_of(self.new)


def test_an_old_process_of_another_version(weir):
    old = PlayedOld(weir)
    with old.accept(hello(version=VERSION + 1, program="0.9")) as channel:
        channel.read()
        words = "cannot take over: pgweir 0.9 hands over in version %d, pgweir 0.1.0 in version %d" % (VERSION + 1, VERSION)
        assert words in old.ended()


@pytest.mark.parametrize("kind, body, with_descriptor", [
    ("W", b"", False), ("W", b"\0" * 40, False), ("L", b"\0", False), ("L", b"\0", True), ("L", b"\7", True), ("T", b"\0" * 20, False),
    ("D", text("p0"), False), ("P", text("p0"), False), ("P", text("p0") + text("app"), False), ("S", b"\1" * 50, True),
    ("C", b"\0" * 60, True), ("C", b"\0" * 60, False), ("Z", struct.pack("!IIII", 0, 0, 0, 0), False), ("E", b"x", True),
    ("?", b"", False), ("G", b"", False), ("N", b"more", False), ("R", b"", False), ("R", text("not today"), False),
])
def test_unusable_records_are_refused(weir, kind, body, with_descriptor):
    """The first record that the old process sends."""
    old = PlayedOld(weir)
    with old.accept() as channel, open(os.devnull, encoding="ascii") as null:
        assert channel.read().kind == HELLO and channel.read().kind == TAKE
        channel.send(kind, body, null.fileno() if with_descriptor else None)
        assert channel.is_closed()
    assert "not started" in old.ended()


def test_old_process_ends_during_the_hand_over(weir):
    old = PlayedOld(weir)
    with old.accept() as channel:
        channel.read(), channel.read()
        channel.sock.sendall(b"W\0\0\0\0\0\1\0half")
    assert "ended in the middle of a record" in old.ended()


def capture(weir):
    """Everything that the running process would give, with descriptors of our own."""
    with weir.ask() as channel:
        return [(record.kind, record.body, os.dup(record.fd) if record.fd is not None else None) for record in channel.take()]


def is_on_its_way(fd):
    """Returns whether data written to this socket has not arrived at the other end."""
    return struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))[0] > 0


def close_all(records):
    for _, _, fd in records:
        if fd is not None:
            os.close(fd)


def play_up_to_ready(address, records, listening, then):
    """In a child process: acts as the old process until the other one is ready, and then does this."""
    listener = listen_at(address)
    os.write(listening, b"x")
    sock, _ = listener.accept()
    channel = Channel(sock)
    channel.send(HELLO, hello())
    channel.read(), channel.read()
    for record in records:
        channel.send(*record)
    assert channel.read().kind == READY
    then(sock)


@pytest.mark.parametrize("dies", [True, False], ids=["it dies", "it lives"])
def test_old_process_ends_between_ready_and_go(weir, people, dies):
    """Dead: the new process continues. Alive: the old process may have resumed, so the new one must not."""
    records = capture(weir)
    people.are_served()
    records = capture(weir) if not dies else records
    weir.process.kill()
    weir.process.wait(DEADLINE)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            play_up_to_ready(weir.address(), records, there, (lambda sock: None) if dies else (lambda sock: (sock.close(), signal.pause())))
        finally:
            os._exit(0)         # pylint: disable=protected-access
    try:
        os.read(here, 1)
        new = weir.launch()
        if dies:
            weir.wait_log("has died during the handover: going on in its place")
            weir.process = new
            people.pid = new.pid
            people.are_served()
        else:
            assert new.wait(DEADLINE) == 1
            assert "cannot take over from process %d" % child in weir.log_of(new)
            weir.expected_status = -signal.SIGKILL
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        close_all(records)
        os.close(here)
        os.close(there)


def ended_in_the_turn_of_the_hand_over(scene):
    """False: the kernel has told of the client that leaves in another turn than of the handover, or the client was given away."""
    weir = scene.weir(scene.mini(), kind=Replaced, pool_mode="transaction", default_pool_size=2)
    leaver, victim = weir.client(), weir.client()
    assert leaver.query("BEGIN").status == "T"
    weir.admin("RECONNECT p0")
    assert victim.query("BEGIN").status == "T"
    number = next(row["id"] for row in weir.show("CLIENTS") if row["port"] == victim.sock.getsockname()[1])
    console = weir.client("admin", "pgbouncer")
    console.send(m.query("WAIT_CLOSE p0; KILL_CLIENT %d" % number))
    weir.barrier()
    with weir.ask() as channel:
        with weir.one_turn():
            leaver.close()
            channel.send(TAKE)
            # meanwhile a tick comes due
            assert not select.select([channel.sock], [], [], 0.3)[0]
        records = [channel.read()]
        while records[-1].kind != END:
            records.append(channel.read())
        if any(record.kind == "S" for record in records):
            return False
        channel.ready()
        assert channel.read().kind == GO
    assert m.read_error(victim.expect("E").body)["C"] == "08P01"
    assert weir.wait_exit() == 0
    return True


def test_client_ends_in_the_turn_of_the_hand_over(scene):
    """A command of the console that has waited ends it, when all else of that turn has been dealt with. It is not given away."""
    # about one try in three comes to nothing, more under load
    assert any(ended_in_the_turn_of_the_hand_over(scene) for _ in range(20))


def test_no_error_is_sent_within_a_message(scene):
    """A client's database is removed within a row: pgweir sends neither the rest of the row nor an error after the part."""
    fake = scene.fake()
    weir = scene.weir({"p0": fake, "p1": fake}, kind=Replaced, pool_mode="transaction", tcp_socket_buffer=4096, allow="no place")
    told, slow = weir.client(database="p1"), weir.client(database="p1", receive_buffer=4096)
    weir.admin("SET tcp_socket_buffer = 0")
    weir.admin("RECONNECT p1")
    fake.accept()
    slow.send(m.query("a long row"))
    server = fake.accept()
    server.expect_query("a long row")
    with weir.one_turn():
        server.answer("x" * 40000)
    weir.wait_pool("p1", sv_idle=1)
    assert any(row["send_remain"] for row in weir.show("SOCKETS"))
    del weir.databases["p1"]
    weir.write_ini()
    records = capture(weir)
    old = PlayedOld(weir, killed=True)

    def has_all_that_was_sent():
        while select.select([slow.sock], [], [], 0)[0]:
            slow.sock.recv(65536)
        return not any(is_on_its_way(fd) for kind, _, fd in records if kind == "C")

    until(has_all_that_was_sent, "there is room for more")
    with old.accept() as channel:
        channel.read(), channel.read()
        for record in records:
            channel.send(*record)
        assert channel.read().kind == READY
        close_all(records)
        old.listener.close()
        channel.send(GO)
        weir.process = old.new
        assert last_words(told)["M"] == "database removed"
        assert b"database removed" not in slow.drain_bytes()


def test_an_old_process_of_an_earlier_version(weir, people):
    """The earlier version listens on an abstract socket, and passes the descriptor of the pidfile, which is locked."""
    records = capture(weir)
    people.are_served()
    old = PlayedOld(weir, killed=True, earlier=True)
    with open(weir.settings["pidfile"], "r+", encoding="ascii") as pidfile:
        fcntl.flock(pidfile, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pidfile.write("%d\n" % os.getpid())
        pidfile.flush()
        # or the lock of the process that was killed would last
        close_all(record for record in records if record[0] == PIDFILE)
        records = [record if record[0] != PIDFILE else (PIDFILE, b"", os.dup(pidfile.fileno())) for record in records]
        with old.accept() as channel:
            channel.read(), channel.read()
            for record in records:
                channel.send(*record)
            assert channel.read().kind == READY
            close_all(records)
            old.listener.close()
            channel.send(GO)
            weir.wait_log("took over from process %d" % os.getpid())
    weir.process = old.new
    people.pid = weir.pid
    people.are_served()
    with open(weir.settings["pidfile"], encoding="ascii") as pidfile:
        assert pidfile.read() == "%d\n" % weir.pid
    # the lock is the new one now
    os.unlink(weir.settings["pidfile"])
    with open(weir.settings["pidfile"] + ".lock", encoding="ascii") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    people.pid = weir.replace() and weir.pid
    people.are_served()


def test_random_bytes(weir):
    """Records of a real handover, with a byte changed here and there: refused, or harmless."""
    people = People(weir)
    records = capture(weir)
    people.are_served()
    dice = random.Random(7)
    for _ in range(12):
        old = PlayedOld(weir)
        with old.accept() as channel:
            channel.read(), channel.read()
            spoilt = dice.randrange(len(records))
            try:
                for number, (kind, body, fd) in enumerate(records):
                    if number == spoilt and body:
                        place = dice.randrange(len(body))
                        body = body[:place] + bytes((dice.randrange(256),)) + body[place + 1:]
                    elif number == spoilt:
                        kind = "?"
                    channel.send(kind, body, fd)
                if channel.read().kind == READY:
                    channel.send(REFUSAL, text("no"))
            except (EOFError, OSError):
                pass
        assert "not started" in old.ended()
    close_all(records)
