"""
Clients that write numbers through pgweir while servers fail, and an audit of the tables after the run.

Each number is drawn once. An acknowledged number must be there once. A number in doubt (its fate is PERHAPS) may be there once. All other numbers must
be absent.

    writers = Writers(weir, 4)
    writers.wait_for_more()
    ...
    writers.stop()
    writers.audit(nodes.primary)
"""
import contextlib
import itertools
import os
import re
import signal
import subprocess
import threading
import traceback

import psycopg

from . import messages as m
from .bank import NEVER, PERHAPS, SURELY
from .postgres import SECRETS, tool
from .until import DEADLINE, until

TABLE = "CREATE TABLE numbers (number int, writer int); GRANT ALL ON numbers TO PUBLIC"
INSERT = "INSERT INTO numbers VALUES (%s, %s)"
LONG = 3 * DEADLINE


def numbers_at(node):
    """All rows, sorted, as this server has them."""
    return [number for (number,) in node.execute("SELECT number FROM numbers ORDER BY 1", database="p0")]


class Writers:
    """
    `count` clients in autocommit, and `blocks` clients that write three numbers in each transaction. A client whose connection ends connects again.

    fates: {number: NEVER, PERHAPS or SURELY}
    outside, inside: SQLSTATEs of the errors that clients got outside of transactions and inside
    """

    def __init__(self, weir, count, blocks=0):
        self.fates = {}
        self.outside, self.inside = [], []
        self._weir = weir
        self._numbers = itertools.count(1)
        self._over = threading.Event()
        self._done = 0
        self._faults = []
        lives = [self._single] * count + [self._block] * blocks
        self._threads = [threading.Thread(target=self._run, args=(life, writer), daemon=True) for writer, life in enumerate(lives)]
        for thread in self._threads:
            thread.start()

    def _run(self, life, writer):
        try:
            while not self._over.is_set():
                life(writer)
        except Exception:           # pylint: disable=broad-except
            self._faults.append(traceback.format_exc())
            self._over.set()

    def _draw(self):
        number = next(self._numbers)
        self.fates[number] = NEVER
        return number

    def _single(self, writer):
        """One statement after the other over one psycopg connection."""
        with psycopg.connect(self._weir.dsn(), autocommit=True) as connection:
            while not self._over.is_set():
                number = self._draw()
                self.fates[number] = PERHAPS
                try:
                    connection.execute(INSERT, (number, writer))
                except psycopg.OperationalError as why:
                    self.outside.append(why.sqlstate or str(why))
                    return
                self.fates[number] = SURELY
                self._done += 1

    def _block(self, writer):
        """
        Transactions of three statements. Without a driver: libpq and psycopg do not report the error that ended a connection between two statements.
        """
        with self._weir.client() as client:
            while not self._over.is_set():
                numbers = [self._draw() for _ in range(3)]
                if not self._ask(client, "BEGIN", self.outside):
                    return
                if not all(self._ask(client, INSERT % (number, writer), self.inside) for number in numbers):
                    return
                self.fates.update(dict.fromkeys(numbers, PERHAPS))
                if not self._ask(client, "COMMIT", self.inside):
                    if self.inside[-1] != "08007":
                        self.fates.update(dict.fromkeys(numbers, NEVER))
                    return
                self.fates.update(dict.fromkeys(numbers, SURELY))
                self._done += 1

    @staticmethod
    def _ask(client, sql, errors):
        """False: the connection has ended with an error, which is added to these."""
        with contextlib.suppress(OSError):      # the last message can still be read
            client.send(m.query(sql))
        while True:
            message = client.read()
            if message.type == "E":
                fields = m.read_error(message.body)
                assert fields["S"] == "FATAL", fields
                errors.append(fields["C"])
                return False
            if message.type == "Z":
                return True

    def acknowledged(self):
        return {number for number, fate in list(self.fates.items()) if fate == SURELY}

    def wait_for_more(self, count=50):
        goal = self._done + count
        until(lambda: self._done >= goal or self._faults, "numbers are written", deadline=LONG)
        assert not self._faults, self._faults[0]

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join(LONG)
            assert not thread.is_alive(), "a writer hangs"
        assert not self._faults, self._faults[0]

    def audit(self, node):
        """Compares the fates with the rows of the primary, which returns the number of rows."""
        there = numbers_at(node)
        assert len(set(there)) == len(there), "written twice"
        there = set(there)
        lost = self.acknowledged() - there
        assert not lost, "acknowledged and lost: %s" % sorted(lost)
        uncalled = there & {number for number, fate in self.fates.items() if fate == NEVER}
        assert not uncalled, "reported as rolled back, and there: %s" % sorted(uncalled)
        return len(there)


class Pgbench:
    """One pgbench with a script until stop(). A script that is one statement has no transaction around it."""

    def __init__(self, weir, directory, script, mode="simple", clients=4, variables=None):
        path = os.path.join(str(directory), "%s.sql" % mode)
        with open(path, "w", encoding="ascii") as f:
            f.write(script)
        defined = [argument for item in (variables or {}).items() for argument in ("-D", "%s=%s" % item)]
        environment = dict(os.environ, PGHOST=weir.host, PGPORT=str(weir.port), PGUSER="app", PGPASSWORD=SECRETS["app"], PGSSLMODE="disable", PGDATABASE="p0")
        # its clock ends the run: SIGALRM ends it earlier
        self._process = subprocess.Popen([tool("pgbench"), "-n", "-c", str(clients), "-T", "3600", "-M", mode, *defined, "-f", path], env=environment,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def is_running(self):
        return self._process.poll() is None

    def stop(self):
        """The number of transactions; fails if there was an error."""
        self._process.send_signal(signal.SIGALRM)
        said, complained = self._process.communicate(timeout=LONG)
        assert self._process.returncode == 0 and "error" not in complained.lower(), complained
        return int(re.search(r"^number of transactions actually processed: (\d+)", said, re.MULTILINE).group(1))

    def kill(self):
        self._process.kill()
        self._process.communicate()
