"""
pgweir without memory: the n-th allocation fails, and a number of allocations after it, for every n of a play.

A preloaded library (guard/failing_malloc.c) shares a file with the test; all allocations of the process go through the library, including those of
other libraries. Clang links a sanitizer's malloc into the binary, which cannot be replaced: these tests need gcc's binary, or a binary without
sanitizers.

Usually every n is too much: a play is given `most` of them, evenly spread over all, with a different start each time. At full size (see rounds.py)
every n is played. $PGWEIR_NTH is a single n to play, as a failure reports.
"""
import contextlib
import itertools
import mmap
import os
import random
import re
import ssl
import struct
import subprocess

from . import messages as m
from .pgweir import Pgweir
from .rounds import IS_FULL
from .wire import Closed

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard", "failing_malloc.c")
FRAMES = 24
LAYOUT = "=QQQQQQ%dQ" % FRAMES
FOREVER = 1 << 60


class FailingMalloc(Pgweir):
    """A Pgweir. at_start: (first, last) of the allocations that fail from its very beginning."""

    def __init__(self, directory, databases=None, at_start=None, **settings):
        self._control = None
        self._at_start = at_start
        super().__init__(directory, databases, **settings)

    def command(self):
        library = self.path("memory.so")
        if not os.path.exists(library):
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-shared-libgcc",
                            "-lgcc_s"], check=True)
        with open(self.path("memory"), "w+b") as f:
            f.truncate(struct.calcsize(LAYOUT))
            self._control = mmap.mmap(f.fileno(), struct.calcsize(LAYOUT))
        if self._at_start:
            self._write(*self._at_start)
        # a sanitizer wants to be loaded first, but works as well after the library
        sanitizer = "verify_asan_link_order=0:detect_leaks=1:exitcode=99:log_path=" + self.path("sanitizer")
        return ["env", "LD_PRELOAD=" + library, "FAILING_MALLOC=" + self.path("memory"),
                "ASAN_OPTIONS=" + sanitizer, *self._leak_suppressions()] + super().command()

    def _leak_suppressions(self):
        """When OpenSSL 3.0 runs out of memory during its initialisation, it leaks the memory allocated so far."""
        if not self._at_start:
            return []
        with open(self.path("suppressions"), "w", encoding="ascii") as f:
            f.write("leak:libcrypto.so\nleak:libssl.so\n")
        return ["LSAN_OPTIONS=print_suppressions=0:suppressions=" + self.path("suppressions")]

    def crashed_in_openssl_setup(self):
        """
        Returns whether pgweir has crashed inside OpenSSL's initialisation, and removes the report. OpenSSL 3.0 uses the lock of a random generator
        that it could not allocate: the caller cannot detect that in advance, and no client is connected yet.
        """
        fallen = False
        for name in [name for name in os.listdir(self.directory) if name.startswith("sanitizer")]:
            frames = re.findall(r"^\s+#\d+ .*$", self._read(name), re.M)
            theirs = list(itertools.takewhile(lambda frame: "/src/" not in frame, frames))
            if "SEGV" in self._read(name) and any("libcrypto.so" in frame for frame in theirs):
                os.unlink(self.path(name))
                fallen = True
        return fallen

    def _write(self, first, last):
        struct.pack_into("=QQQQQ", self._control, 8, first, last, 0, 0, 0)
        struct.pack_into("=Q", self._control, 0, 1)

    @contextlib.contextmanager
    def denied(self, first, last):
        """Within it the allocations with these numbers fail."""
        self._write(first, last)
        try:
            yield
        finally:
            struct.pack_into("=Q", self._control, 0, 0)

    @property
    def asked(self):
        """How many allocations there were."""
        return struct.unpack_from("=Q", self._control, 24)[0]

    @property
    def failed(self):
        return struct.unpack_from("=Q", self._control, 32)[0]

    def where(self):
        """The call stack of the first allocation that failed, as far as it is known: the innermost last. The process must still run."""
        count, *frames = struct.unpack_from("=Q%dQ" % FRAMES, self._control, 40)
        with open("/proc/%d/maps" % self.pid, encoding="ascii") as f:
            maps = [line.split() for line in f]
        names = []
        for address in frames[:count]:
            for span, _, offset, *_, path in (line for line in maps if len(line) == 6):
                begin, end = (int(edge, 16) for edge in span.split("-"))
                if begin <= address < end:
                    names.append((path, address - begin + int(offset, 16)))
        own = [hex(at - 1) for path, at in names if path.endswith("/pgweir")]
        if not own:
            return [os.path.basename(path) for path, _ in reversed(names)]
        told = subprocess.run(["addr2line", "-fs", "-e", next(path for path, _ in names if path.endswith("/pgweir"))] + own,
                              capture_output=True, text=True, check=True).stdout.split()
        return ["%s (%s)" % pair for pair in zip(told[0::2], told[1::2])][::-1]


# --- messages to a client

CLOSED = m.Message(".", b"")
_SECRET = "KRS"         # of these the bytes differ each time
_QUEUED = b"client being queued"        # whether a client has to wait may differ each time


def hear(client, *requests, until_type="Z"):
    """Sends, and reads up to a message of this type or the end of the connection."""
    heard = []
    try:
        if requests:
            client.send(*requests)
        while not heard or heard[-1].type != until_type:
            heard.append(client.read())
    except (Closed, OSError, ssl.SSLError):
        heard.append(CLOSED)
    return heard


def _comparable(messages, types_only):
    return [one.type if types_only or one.type in _SECRET else one for one in messages if _QUEUED not in one.body]


def is_complete_or_refused(got, want, types_only=False):
    """
    Returns whether `got` equals `want`, or is its beginning followed by the end of the connection or by an error. Other messages, and silent
    omissions, are wrong.
    """
    got, want = _comparable(got, types_only), _comparable(want, types_only)
    same = next((at for at, pair in enumerate(zip(got, want)) if pair[0] != pair[1]), min(len(got), len(want)))
    rest = "".join(one if isinstance(one, str) else one.type for one in got[same:])
    return got == want or rest in (".", "E.", "EZ", "E")


def numbers(total, most):
    """Returns the numbers n that are played, out of `total`."""
    alone = os.environ.get("PGWEIR_NTH")
    if alone:
        return [int(alone)]
    if IS_FULL or total <= most:
        return range(1, total + 1)
    step = -(-total // most)
    return range(random.randrange(step) + 1, total + 1, step)


def fail_allocations(weir, prepare, play, check, most=12, drought=FOREVER, types_only=False):
    """
    - prepare(): is played with sufficient memory before each turn
    - play(x): gets the result of prepare(); returns the messages to clients, a list of lists
    - check(): fails unless all clients are served again
    - drought: number of successive failures. A client may wait for a server connection until allocations succeed again, so a play that opens a server
      connection needs a finite number.

    Returns the number of allocations of a play.
    """
    prepared = prepare()
    with weir.denied(0, 0):
        want = play(prepared)
        weir.wait_asleep()
    total = weir.asked
    check()
    for length in (1, drought):
        for n in numbers(total, most):
            prepared = prepare()
            with weir.denied(n, n + length - 1):
                got = play(prepared)
                assert weir.is_alive(), (n, total, weir.stderr()[-3000:])
                weir.wait_asleep()
            if not weir.failed:
                continue
            scene = "memory denied from %d of %d%s by %s" % (n, total, " on" if length > 1 else "", " > ".join(weir.where()))
            assert len(got) == len(want), scene
            for one, other in zip(got, want):
                assert is_complete_or_refused(one, other, types_only), (scene, one, other)
            try:
                check()
            except (AssertionError, Closed, OSError) as fault:
                raise AssertionError("%s, and then: %s" % (scene, fault)) from fault
    return total
