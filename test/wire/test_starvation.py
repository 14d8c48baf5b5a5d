"""
A resource of the pooler runs out: descriptors, space for the log, a reader of the log, a reliable clock. Connected clients do not notice; pgweir
reports failures; when the resource is available again, operation is normal. test_memory_runs_out.py covers memory.
"""
import os
import re
import resource
import signal
import struct
import subprocess

from support import messages as m
from support.live import NEVER
from support.pgweir import Pgweir, is_listening
from support.until import until

GUARD = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard")


def start(scene, target, **settings):
    settings = {"pool_mode": "transaction", "server_login_retry": 0, "server_idle_timeout": NEVER, **settings}
    return scene.weir(target, **settings)


def limited(weir, kind, least=None):
    """Sets a limit of the running process (None: the maximum). Returns the previous limit."""
    _, hard = resource.prlimit(weir.pid, kind)
    return resource.prlimit(weir.pid, kind, (hard if least is None else least, hard))


def served(weir, client, text):
    return client.query(text).value == text


# --- descriptors

class Counted(Pgweir):
    """strace beside it. A sanitizer can't look for leaks under another's eyes."""

    def command(self):
        return ["strace", "-D", "-o", self.path("trace"), "env", "ASAN_OPTIONS=detect_leaks=0:exitcode=99:log_path=" +
                self.path("sanitizer")] + super().command()

    def calls(self):
        return self._read("trace").count("\n")


def test_no_descriptor_for_a_new_client(scene):
    """A client that connects when no descriptor is left waits in the kernel; pgweir retries now and then, and does not spin."""
    weir = start(scene, scene.mini(), kind=Counted, log_stats=1, stats_period=1, allow="cannot accept")
    client = weir.client()
    assert served(weir, client, "before")
    limited(weir, resource.RLIMIT_NOFILE, weir.descriptors())
    late = weir.connect()
    late.send(m.startup(user="app", database="p0"))
    weir.wait_log("cannot accept connections")
    lines = len(re.findall(" stats: ", weir.log()))
    weir.wait_log(" stats: ", lines + 1)
    before = weir.calls()
    weir.wait_log(" stats: ", lines + 3)
    # ten ticks a second, a line of the log, and a look or two
    assert weir.calls() - before < 250
    assert served(weir, client, "meanwhile")
    assert not late.has_input()
    limited(weir, resource.RLIMIT_NOFILE)
    late.finish_login()
    assert served(weir, late, "after")


def test_no_descriptor_for_a_server(scene):
    """The client is told, or waits; the database is not blamed for good."""
    weir = start(scene, scene.mini(), default_pool_size=2, query_wait_timeout=NEVER)
    first, second = weir.client(), weir.client()
    assert first.query("BEGIN").status == "T"
    weir.show("VERSION")
    limited(weir, resource.RLIMIT_NOFILE, weir.descriptors())
    second.send(m.query("needs a second server"))
    weir.wait_pool("p0", cl_waiting=1)
    assert served(weir, first, "meanwhile")
    weir.barrier()
    limited(weir, resource.RLIMIT_NOFILE)
    assert second.result().value == "needs a second server"
    assert first.query("COMMIT").status == "I"


def test_no_descriptor_for_a_reload(scene):
    """Nothing is changed, and the log continues in the old file, with a line about the failure."""
    weir = start(scene, scene.mini(), allow="RELOAD|cannot|log file")
    client = weir.client()
    assert served(weir, client, "before")
    weir.show("VERSION")
    weir.settings["server_lifetime"] = 1234
    weir.write_ini()
    limited(weir, resource.RLIMIT_NOFILE, weir.descriptors())
    weir.signal(signal.SIGHUP)
    weir.wait_log(r"config file loading failed \(nothing was changed\)")
    assert "Too many open files" in weir.log()
    weir.wait_log("log file: Too many open files; going on with the old one")
    assert served(weir, client, "meanwhile")
    assert "1234" not in [row["value"] for row in weir.show("CONFIG")]
    limited(weir, resource.RLIMIT_NOFILE)
    weir.signal(signal.SIGHUP)
    weir.wait_log("RELOAD: the configuration of .* is in force")
    assert "1234" in [row["value"] for row in weir.show("CONFIG")]


# --- the log

def test_log_on_a_full_disk(scene):
    """From the start: pgweir serves clients, and only stderr has messages."""
    weir = start(scene, scene.mini(), logfile="/dev/full", wait=False)
    until(lambda: "process up" in weir.stderr(), "it is up")
    for n in range(20):
        client = weir.client()
        assert served(weir, client, str(n))
        client.quit()


def test_log_at_its_size_limit(scene):
    """As when the disk is full: lines are lost, and counted when there is room again. A limit for files ended the process."""
    weir = start(scene, scene.mini())
    client = weir.client()
    size = os.path.getsize(weir.log_path)
    limited(weir, resource.RLIMIT_FSIZE, size + 30)
    for n in range(10):
        weir.client(application_name="visitor").quit()
        assert served(weir, client, str(n))
    weir.barrier()
    assert os.path.getsize(weir.log_path) <= size + 30
    limited(weir, resource.RLIMIT_FSIZE)
    weir.client()
    weir.wait_log(r"^\S+ \S+ \S+ \[\d+\] WARNING lines of the log that could not be written: \d+$")
    weir.wait_log(r"^\S+ \S+ \S+ \[\d+\] LOG C-\w+: p0/app@\S+ login attempt: ")
    # every line but the one at which it began is whole
    bad = [line for line in weir.log().splitlines() if not re.match(r"\d{4}-\d\d-\d\d \S+ UTC \[\d+\] [A-Z]+ ", line)]
    assert len(bad) == 1, bad


def chatter(weir, count=400):
    """More lines than a pipe holds."""
    for n in range(count):
        with weir.connect() as client:
            client.login(user="app", database="p0", application_name="x" * 200)
            assert served(weir, client, str(n))
            client.quit()


def test_log_in_an_unread_pipe(scene):
    """The start and log messages do not wait for a reader."""
    path = os.path.join(scene.directory, "pipe")
    os.mkfifo(path)
    weir = start(scene, scene.mini(), logfile=path, verbose=2, wait=False)
    until(lambda: is_listening(weir.port), "it is up")
    chatter(weir)
    with open(path, "rb", buffering=0) as pipe:
        os.set_blocking(pipe.fileno(), False)

        def drained():
            data = pipe.read(1 << 20)
            while data:
                read.append(data)
                data = pipe.read(1 << 20)
            return b"".join(read)
        read = []
        assert drained().count(b"\n") > 100
        weir.client()
        until(lambda: b"WARNING lines of the log that could not be written: " in drained(), "the loss is told")
        until(lambda: b"login attempt" in drained().rpartition(b"could not be written")[2], "and the next line is there")


class Unread(Pgweir):
    """The stderr of this pgweir is a pipe that is never read."""

    def command(self):
        os.mkfifo(self.path("pipe"))
        return ["sh", "-c", 'exec "$@" 2<>"$0"', self.path("pipe")] + super().command()


def test_stderr_is_an_unread_pipe(scene):
    weir = start(scene, scene.mini(), kind=Unread, verbose=2)
    chatter(weir)
    # the file has them all
    assert len(re.findall("login attempt: db=p0", weir.log())) == 400
    assert "could not be written" not in weir.log()


# --- the clock

class OtherTime(Pgweir):
    """set_ahead() sets its wall clock."""

    def command(self):
        library = self.path("clock.so")
        if not os.path.exists(library):
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library,
                            os.path.join(GUARD, "other_clock.c")], check=True)
        self.set_ahead(0)
        sanitizer = "verify_asan_link_order=0:detect_leaks=1:exitcode=99:log_path=" + self.path("sanitizer")
        return ["env", "LD_PRELOAD=" + library, "OTHER_CLOCK=" + self.path("ahead"), "ASAN_OPTIONS=" + sanitizer] + super().command()

    def set_ahead(self, seconds):
        # in place: it is mapped
        descriptor = os.open(self.path("ahead"), os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, struct.pack("=q", seconds), 0)
        os.close(descriptor)


def test_clock_that_jumps_both_ways(scene):
    """Time limits neither run out early nor fail to run out; only times in output for readers follow the clock."""
    day = 86400
    fake = scene.mini()
    weir = start(scene, fake, kind=OtherTime, default_pool_size=1, query_timeout=3600, client_idle_timeout=3600,
                 idle_transaction_timeout=3600, server_lifetime=3600, server_idle_timeout=3600, client_login_timeout=3600,
                 server_connect_timeout=3600, autodb_idle_timeout=3600, log_stats=1, stats_period=1)
    client, idle = weir.client(), weir.client("rival")
    assert served(weir, client, "before") and served(weir, idle, "before")
    assert client.query("BEGIN").status == "T"
    for ahead in (day, -day, 20 * 365 * day, 0):
        weir.set_ahead(ahead)
        lines = len(re.findall(" stats: ", weir.log()))
        weir.wait_log(" stats: ", lines + 2)
        assert served(weir, client, "ahead by %d" % ahead)
        assert served(weir, idle, "ahead by %d" % ahead)
        assert weir.client().status == "I"
    assert client.query("COMMIT").status == "I"
    assert len(fake.started) == 2
    assert "timeout" not in re.sub("login attempt.*|query_timeout.*", "", weir.log())


def test_timeouts_while_the_clock_goes_back(scene):
    """The limit of a waiting client ends in time: it does not wait for the clock to come back to where it was."""
    weir = start(scene, scene.mini(), kind=OtherTime, default_pool_size=1, query_wait_timeout=0.2)
    holder, waiting = weir.client(), weir.client()
    assert holder.query("BEGIN").status == "T"
    waiting.send(m.query("in vain"))
    weir.set_ahead(-86400)
    assert "query_wait_timeout" in m.read_error(waiting.expect("E").body)["M"]
