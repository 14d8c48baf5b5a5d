"""
pgweir under an instrument, for figures that do not depend on the speed of the machine.

- Traced: strace, the system calls between two moments
- Counted: callgrind, the executed instructions of user space
- Weighed: massif, the bytes of heap at a moment

The binary is $PGWEIR_FAST: optimised and without sanitizers, whose work would be measured as well. Its clock does not advance.
"""
import os
import re
import signal
import subprocess
from collections import Counter

from .pgweir import Pgweir
from .until import until

HERE = os.path.dirname(os.path.abspath(__file__))
CLOCKS = os.path.join(os.path.dirname(HERE), "guard")
UNDER_VALGRIND = 120.0      # a deadline for operations that take fifty times as long


def fast_binary():
    return os.path.abspath(os.environ["PGWEIR_FAST"])


class Profiled(Pgweir):
    """Logging of clients is off, because a log line would be most of the cost of a login."""

    def __init__(self, directory, databases=None, **settings):
        defaults = {"pool_mode": "transaction", "default_pool_size": 20, "max_client_conn": 5000,
                    "log_connections": 0, "log_disconnections": 0, "log_pooler_errors": 0}
        super().__init__(directory, databases, **{**defaults, **settings})

    clock = "still_clock.c"

    def instrument(self):
        """The tool and its options, up to the command that it runs."""
        raise NotImplementedError

    def command(self):
        clock = self.path("clock.so")
        if not os.path.exists(clock):
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", clock, os.path.join(CLOCKS, self.clock)], check=True)
        return self.instrument() + [fast_binary(), self.ini_path]

    def preload(self):
        return ["env", "LD_PRELOAD=" + self.path("clock.so")]


class Traced(Profiled):
    """strace runs beside it (-D), so that the process of the test is pgweir itself."""

    def instrument(self):
        return ["strace", "-D", "-s", "64", "-o", self.path("trace")] + self.preload()

    def trace(self):
        return self._read("trace").splitlines()

    def between(self, first, last):
        """The lines from the arrival of a client's message with the text `first` up to that with `last`."""
        lines = self.trace()
        begin, end = (next(n for n, line in enumerate(lines) if line.startswith("recv") and text in line)
                      for text in (first, last))
        return lines[begin:end]

    def calls(self, first, last):
        """Counter of the system calls between them. A wait that ended without an event was not for the sake of any query."""
        made = Counter()
        for line in self.between(first, last):
            call = re.match(r"(\w+)\(.*\)\s+= (-?\w+)(?: (\w+))?", line)
            if not call:
                assert line.startswith("---"), line
            elif call.group(1) != "epoll_wait" or (call.group(2) != "0" and call.group(3) != "EINTR"):
                made[call.group(1)] += 1
        return made

    def hold(self):
        """Stops pgweir, so that everything sent from now on is available at once when it resumes."""
        stops = self._stops()
        self.signal(signal.SIGSTOP)
        until(lambda: self._stops() > stops, "pgweir is stopped")

    def _stops(self):
        return sum("stopped by SIGSTOP" in line for line in self.trace())

    def go_on(self):
        self.signal(signal.SIGCONT)


class Counted(Profiled):
    def instrument(self):
        return self.preload() + ["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                                 "--callgrind-out-file=" + self.path("callgrind")]

    def executed(self):
        """Counter of the instructions executed, by the file that they belong to. The process has ended."""
        count, where, is_callee = Counter(), None, False
        with open(self.path("callgrind"), encoding="utf-8") as f:
            for line in f:
                if line.startswith("ob="):
                    where = os.path.basename(line[3:].strip())
                elif line.startswith("calls="):
                    is_callee = True        # the next line is the cost of the called function
                elif re.match(r"\d", line):
                    if not is_callee:
                        count[where] += int(line.split()[1])
                    is_callee = False
        return count


class CountedWhenStill(Counted):
    """The clock advances until stop_clock(), and counting begins then."""
    clock = "stopping_clock.c"

    def preload(self):
        with open(self.path("clock-runs"), "w", encoding="ascii"):
            pass
        return super().preload() + ["CLOCK_RUNS=" + self.path("clock-runs")]

    def instrument(self):
        return super().instrument() + ["--vgdb-prefix=" + self.path("vgdb")]

    def stop_clock(self):
        os.remove(self.path("clock-runs"))
        self.barrier()
        subprocess.run(["vgdb", "--vgdb-prefix=" + self.path("vgdb"), "--pid=%d" % self.pid, "zero"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=UNDER_VALGRIND)


class Weighed(Profiled):
    """A block counts with the size that malloc uses."""

    def instrument(self):
        return self.preload() + ["valgrind", "-q", "--tool=massif", "--heap-admin=8", "--alignment=16",
                                 "--vgdb-prefix=" + self.path("vgdb"), "--massif-out-file=" + self.path("massif")]

    def heap(self):
        """Bytes of the heap in use, when everything that was sent has been dealt with."""
        self.barrier()
        snapshot = self.path("snapshot")
        subprocess.run(["vgdb", "--vgdb-prefix=" + self.path("vgdb"), "--pid=%d" % self.pid, "snapshot", snapshot],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=UNDER_VALGRIND)
        with open(snapshot, encoding="ascii") as f:
            return sum(int(size) for size in re.findall(r"^mem_heap(?:_extra)?_B=(\d+)$", f.read(), re.MULTILINE))
