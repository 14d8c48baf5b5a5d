"""
Clients of failover.py: pgbench in several modes, and a loop with psycopg. Each client is a worker with a row of its own in the table `counters`. It
increments the number in that row, so that acknowledged increments can be compared with the number afterwards.

A client with an error connects again after 0.1 s, as soon as a connection is possible: one of the waiting clients tries every 20 ms. Statements with
an error are counted, failed attempts to connect are not: they are a part of the pause.
"""
import collections
import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
import time
import typing

import psycopg2

THINK = 0.04                    # seconds between transactions of a client
AFTER_ERROR = 0.1               # until a client connects again
PROBE = 0.02                    # between attempts to connect
PATIENCE = 150                  # for a program that has not ended in time

STATEMENTS = ("UPDATE counters SET n = n + 1 WHERE worker = :worker", "SELECT n FROM counters WHERE worker = :worker")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A group of clients. mode: of pgbench; empty: the loop with psycopg. text: a script without writes."""
    name: str
    mode: str = ""
    in_transaction: bool = False
    text: str = ""

    @property
    def script(self):
        if self.text:
            return self.text
        statements = ("BEGIN", *STATEMENTS, "COMMIT") if self.in_transaction else STATEMENTS
        return "\\sleep %d ms\n" % (THINK * 1000) + "".join(line + ";\n" for line in statements)


KINDS = (Kind("simple", "simple"), Kind("extended", "extended"), Kind("prepared", "prepared"), Kind("psycopg"), Kind("BEGIN..COMMIT", "simple", True))


@dataclasses.dataclass
class Record:
    """The answers and errors of a worker."""
    worker: int
    times: list                 # of transactions that were acknowledged, Unix time
    acknowledged: int = 0
    unknown: int = 0            # increments with an error: done or not
    errors: int = 0
    reasons: dict = dataclasses.field(default_factory=dict)

    def fail(self, reason, update):
        self.errors += 1
        if update:
            self.unknown += 1
        else:
            self.acknowledged += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


class Gate:
    """Clients wait here until a connection is possible. All of them together connect every 20 ms: more would be a load of its own."""

    def __init__(self, conninfo, end):
        self._conninfo, self._end = conninfo, end
        self._lock = threading.Lock()
        self._opened = 0

    def wait(self):
        time.sleep(AFTER_ERROR)
        since = time.monotonic()
        with self._lock:
            while self._opened < since and time.time() < self._end:
                try:
                    psycopg2.connect(self._conninfo, connect_timeout=2).close()
                    self._opened = time.monotonic()
                except psycopg2.OperationalError:
                    time.sleep(PROBE)


class PgbenchWorker:
    """One client of pgbench, started again whenever its connection is lost: pgbench itself gives up such a client."""

    def __init__(self, kind, worker, pgbench, conninfo, directory, end, gate):
        self._kind, self._command, self._end = kind, [pgbench, "-n", "-M", kind.mode, "--max-tries=1", "-c", "1", "-D", "worker=%d" % worker], end
        self._conninfo, self._directory, self._gate = conninfo, directory, gate
        self._prefix = os.path.join(directory, "worker%d" % worker)
        self.record = Record(worker, [])
        self._script = self._prefix + ".sql"
        with open(self._script, "w", encoding="ascii") as f:
            f.write(kind.script)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self):
        self._thread.join()
        for name in sorted(os.listdir(self._directory)):
            if name.startswith(os.path.basename(self._prefix) + ".log."):
                with open(os.path.join(self._directory, name), encoding="ascii") as f:
                    for line in f:
                        parts = line.split()
                        self.record.times.append(int(parts[4]) + int(parts[5]) / 1e6)
        self.record.times.sort()
        self.record.acknowledged += len(self.record.times)
        return self.record

    def _run(self):
        while (left := self._end - time.time()) > 0:
            command = self._command + ["-T", str(max(1, round(left))), "-f", self._script, "-l", "--log-prefix=%s.log" % self._prefix, self._conninfo]
            process = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                                     timeout=PATIENCE)
            if process.returncode:
                self._note(process.stderr)
                self._gate.wait()

    def _note(self, text):
        found = re.search(r"aborted in command (\d+)", text)
        if not found:
            return              # it could not connect
        # the first command is \\sleep
        number = int(found.group(1))
        self.record.fail(reason_of(text), self._kind.in_transaction or number <= 1)


def reason_of(text):
    found = re.search(r"(?:FATAL|ERROR|PANIC): +(.*)", text)
    if found:
        return found.group(1).strip()
    return "connection lost" if re.search("closed|terminat|died|reset|broken|lost", text, re.I) else text.strip().split("\n")[0][:100]


# --- the loop with psycopg, in a process of its own

def run_psycopg(arguments):
    """The program: prints the records of its workers as JSON. Arguments: first worker, number of workers, Unix time of the end, conninfo."""
    first, count, end, conninfo = int(arguments[0]), int(arguments[1]), float(arguments[2]), arguments[3]
    records = [Record(worker, []) for worker in range(first, first + count)]
    gate = Gate(conninfo, end)
    threads = [threading.Thread(target=_loop, args=(record, conninfo, end, gate)) for record in records]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump([dataclasses.asdict(record) for record in records], sys.stdout)


def _loop(record, conninfo, end, gate):
    import psycopg              # pylint: disable=import-outside-toplevel
    update, select = (text.replace(":worker", str(record.worker)) for text in STATEMENTS)
    connection = None
    while time.time() < end:
        if connection is None:
            try:
                connection = psycopg.connect(conninfo, autocommit=True)
            except psycopg.Error:
                gate.wait()
                continue
        time.sleep(THINK)
        is_updated = False
        try:
            connection.execute(update)
            is_updated = True
            connection.execute(select).fetchall()
            record.acknowledged += 1
            record.times.append(time.time())
        except psycopg.Error as fault:
            record.fail(reason_of("FATAL: " + str(fault).split("\n", maxsplit=1)[0] if fault.sqlstate else str(fault)), not is_updated)
            connection.close()
            connection = None
            gate.wait()
    if connection:
        connection.close()


class PsycopgGroup:
    def __init__(self, first, count, conninfo, end):
        # pylint: disable-next=consider-using-with
        self._process = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(first), str(count), str(end), conninfo],
                                         stdout=subprocess.PIPE, text=True)

    def join(self):
        output, _ = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0, "the loop with psycopg failed"
        return [Record(**fields) for fields in json.loads(output)]


# --- all groups

class Crowd:
    """All kinds at once, from now until `end`. count: workers of each kind."""

    def __init__(self, pgbench, conninfo, directory, count, end):
        self._groups = []
        gate = Gate(conninfo, end)
        for number, kind in enumerate(KINDS):
            first = number * count + 1
            if kind.mode:
                self._groups.append([PgbenchWorker(kind, worker, pgbench, conninfo, directory, end, gate) for worker in range(first, first + count)])
            else:
                self._groups.append(PsycopgGroup(first, count, conninfo, end))

    def join(self):
        """{kind: records}, at the end."""
        return {kind.name: group.join() if isinstance(group, PsycopgGroup) else [worker.join() for worker in group]
                for kind, group in zip(KINDS, self._groups)}


@dataclasses.dataclass
class Figures:
    """Figures of the workers of a kind in one event."""
    errors: int
    pause: float                # seconds
    held: typing.Optional[float]        # the same, of workers without an error; None if there are none
    lost: int
    doubled: int
    reasons: collections.Counter
    is_over: bool = True        # False: a client was still waiting at the end

    @classmethod
    def of(cls, records, numbers, begin, end):
        """numbers: {worker: the number in the table}. begin, end: Unix time of the event, and of the end of the load."""
        gaps, last, held = [], [], []
        for record in records:
            times = [time for time in record.times if time <= end]
            own = [after - before - THINK for before, after in zip([begin] + times, times) if after > begin]
            last.append(end - (times[-1] if times else begin) - THINK)
            gaps += own
            held += [] if record.errors else [*own, last[-1]]
        return cls(errors=sum(record.errors for record in records), pause=max(gaps + last + [0]), held=max(held, default=None),
                   lost=sum(max(0, record.acknowledged - numbers[record.worker]) for record in records),
                   doubled=sum(max(0, numbers[record.worker] - record.acknowledged - record.unknown) for record in records),
                   reasons=sum((collections.Counter(record.reasons) for record in records), collections.Counter()),
                   is_over=max(last) < max(gaps + [1]))


if __name__ == "__main__":
    run_psycopg(sys.argv[1:])
