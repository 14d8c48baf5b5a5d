#!/usr/bin/env python3
"""
Many clients, and clients that are a burden; their effect on other clients, and the memory afterwards.

load.py --build DIR --room DIR --psql PROGRAM --postgres PORT [CASE...]

Usually run by load.sh, which builds the programs and describes the cases. Fails if something is lost or kept: a client that could not log in, an
error, memory above its bound, or memory that is not freed. Durations are only printed.
"""
import argparse
import contextlib
import os
import resource
import subprocess
import sys
import threading
import time

import attacks
from bench import machine, prepare
from stage import LOAD_CPU, SCRAM_SECRET, LoadFailed, Stage, memory_kib, pinned

from support import messages
from support.ports import free_port
from support.until import until
from support.wire import Client

COMPANY = ["-c", "16", "-T", "5", "-w", "0.5"]      # clients that work beside a burden
BUDGET = ["-c", "200", "-d", "budget#", "-m", "50", "-w", "1"]
STREAM = "ROWS 1000000 1000"                        # a gigabyte, of which a burden reads little
COPIED = 10 * 1000 ** 3
LINE = 8000
PIECE = b"y" * (LINE - 1) + b"\n"
PATIENCE = 180.0

# Bounds, in KiB. doc/performance.md says where they come from.
IDLE_KIB = 1                # a client that has nothing to do
BUSY_KIB = 3                # a client with a query that runs or waits
FULL_KIB = 132              # a client that does not read its data: one buffer, and its struct
SLACK_KIB = 4096            # memory of the process itself: the loop's buffer, servers, growing tables
PAGE_KIB = 4096             # an open page: parts of its answers, and histories that have just begun
PAGE_MS = 200               # processor time of a minute for an open page
PAGE_SECONDS_FIRST = 10     # the browser starts, and asks for the whole history
KEPT_KIB = 3584             # memory that may remain after all clients have disconnected: pages that the allocator cannot return


class Weir:
    """A pooler on the stage, with its console over its Unix socket."""

    def __init__(self, stage, port=None, others=(), users=None, **settings):
        self.directory = stage.path("socket%s" % settings.get("peer_id", ""))
        os.makedirs(self.directory, exist_ok=True)
        self.server = stage.pooler("pgweir", port=port, others=others, users=users, settings={
            "unix_socket_dir": self.directory, "listen_backlog": 4096, "max_client_conn": 19500,
            "log_pooler_errors": 0, **settings})
        path = os.path.join(self.directory, ".s.PGSQL.%d" % self.server.port)
        until(lambda: os.path.exists(path), "the console can be reached")
        self._console = Client(self.server.port, self.directory)
        self._console.login(user="pgbouncer", database="pgbouncer")
        self.before = 0

    def lists(self):
        rows = self._console.query("SHOW LISTS").rows
        return {name.decode(): int(count) for name, count in rows}

    def figures(self):
        """The pool of the burdens and their company: {column: text}."""
        answer = self._console.query("SHOW POOLS")
        rows = [dict(zip(column_names(answer), [value.decode() for value in row if value is not None])) for row in answer.rows]
        return next((row for row in rows if row["database"] == "bench"), {"sv_active": "0", "cl_waiting": "0"})

    def counts(self, what, column):
        """A column of a SHOW: {first column: number}."""
        answer = self._console.query("SHOW " + what)
        at = column_names(answer).index(column)
        return {row[0].decode(): int(row[at]) for row in answer.rows}

    def begin(self):
        """Records the memory of the process as the reference."""
        self.before = memory_kib(self.server.pid)
        with open("/proc/%d/clear_refs" % self.server.pid, "w", encoding="ascii") as f:
            f.write("5")
        self._file_backed = self.peak_of_all() - self.before

    def peak_of_all(self):
        with open("/proc/%d/status" % self.server.pid, encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))

    def peak(self):
        """The most since begin(), in KiB, without code and libraries."""
        return self.peak_of_all() - self._file_backed

    def rest(self):
        """Waits until all clients have disconnected. Returns the memory of the process."""
        until(lambda: self.lists()["used_clients"] == 1, "all clients have left", deadline=PATIENCE)
        until(lambda: self.figures()["sv_active"] == "0", "all servers are free", deadline=PATIENCE)
        # memory is given back by the clock, ten times a second
        with contextlib.suppress(AssertionError):
            until(lambda: memory_kib(self.server.pid) - self.before <= KEPT_KIB, deadline=2.0)
        return memory_kib(self.server.pid)

    def close(self):
        self._console.close()


def is_connected(port):
    """Whether a client has a connection to this port."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(row.split()[1].endswith(":%04X" % port) and row.split()[3] == "01" for row in f.readlines()[1:])


def column_names(answer):
    """Returns the names of a RowDescription: each is a name, then 18 bytes of description."""
    (body,) = [message.body for message in answer.messages if message.type == "T"]
    names, at = [], 2
    while at < len(body):
        end = body.index(b"\0", at)
        names.append(body[at:end].decode())
        at = end + 19
    return names


class Load:
    def __init__(self, stage, options):
        self.stage = stage
        self.options = options
        self.failed = 0

    def check(self, title, holds, what):
        if not holds:
            self.failed += 1
            print("FAILED: %s: %s" % (title, what), flush=True)

    def row(self, title, weir, bound, alone=None, beside=None, more=""):
        """bound: KiB that the process may use at most, in addition to the reference."""
        peak, after = weir.peak(), weir.rest()
        cells = ["%.1f" % (kib / 1024) for kib in (weir.before, peak, weir.before + bound, after)]
        cells += ["-" if p99 is None else "%.0f" % p99 for p99 in (alone, beside)]
        print("| %s | %s | %s |" % (title, " | ".join(cells), more), flush=True)
        self.check(title, peak - weir.before <= bound, "takes %d KiB more, of %d" % (peak - weir.before, bound))
        self.check(title, after - weir.before <= KEPT_KIB, "keeps %d KiB" % (after - weir.before))

    def p99(self, weir):
        # the startup phase of a burden is over when these clients get answers
        self.stage.load(weir.server, ["-c", "16", "-n", "1000", "-T", "100"])
        found = self.stage.load(weir.server, COMPANY)
        self.check("the others", found["tps"] > 0, "they have got no answer")
        return found["p99_us"]

    @contextlib.contextmanager
    def pooler(self, **how):
        weir = Weir(self.stage, **how)
        try:
            yield weir
        finally:
            weir.close()
            self.stage.stop(weir.server)

    # ---- crowds

    def crowd(self):
        """19,000 clients on one process, 1,000 of them at work."""
        with self.pooler() as weir:
            alone = self.p99(weir)
            weir.begin()
            found = self.stage.load(weir.server, ["-i", "18000", "-L", "200", "-c", "1000", "-T", "5"])
            self.row("19,000 clients, 1,000 of them at work", weir, 18000 * IDLE_KIB + 1000 * BUSY_KIB + SLACK_KIB, alone, found["p99_us"],
                     "%.0f queries a second; %.1f s to log 18,000 in" % (found["tps"], found["idle_login_s"]))

    def crowds(self):
        """50,000 clients on one port of three processes, 1,000 of them at work."""
        port = free_port()
        with contextlib.ExitStack() as stack:
            weirs = [stack.enter_context(self.pooler(port=port, so_reuseport=1, peer_id=number)) for number in (1, 2, 3)]
            for weir in weirs:
                weir.begin()
            loads = [self.stage.start_load(weirs[0].server, ["-a", "127.0.0.%d" % number, "-g", "-i", "16334", "-L", "200", "-c", "333", "-T", "5"])
                     for number in (2, 3, 4)]
            for load in loads:
                self.check("50,000 clients", load.stdout.readline() == "ready\n", "not all could log in")
            counts = [weir.lists()["used_clients"] - 1 for weir in weirs]
            for load in loads:
                load.stdin.write("go\n")
                load.stdin.flush()
            found = [self.stage.finish_load(load) for load in loads]
            self.check("50,000 clients", sum(counts) == 3 * 16334, "%d of them are there" % sum(counts))
            for weir, count in zip(weirs, counts):
                self.row("%d of 50,000 clients on three processes" % count, weir, count * IDLE_KIB + 1000 * BUSY_KIB + SLACK_KIB, None,
                         max(each["p99_us"] for each in found), "all three: %.0f queries a second" % sum(each["tps"] for each in found))

    def storm(self):
        """20,000 logins with SCRAM, 500 at a time, each with a query."""
        with self.pooler(auth_type="scram-sha-256") as weir:
            alone = self.p99(weir)
            weir.begin()
            storm = self.stage.start_load(weir.server, ["-C", "-c", "500", "-n", "20000", "-T", "200"])
            beside = self.p99(weir)
            found = self.stage.finish_load(storm)
            self.row("20,000 logins with SCRAM, 500 at a time", weir, 500 * BUSY_KIB + SLACK_KIB, alone, beside,
                     "%.0f a second" % found["tps"])

    # ---- burdens

    def burden(self, title, count, arguments, waits, bound, pool):
        """count clients of a kind; waits(figures): they are all at it."""
        with self.pooler(default_pool_size=pool) as weir:
            alone = self.p99(weir)
            weir.begin()
            burden = self.stage.start_load(weir.server, [*arguments, "-c", "0", "-w", "0", "-T", "600"])
            try:
                until(lambda: waits(weir) or burden.poll() is not None, title, deadline=PATIENCE)
                self.check(title, burden.poll() is None, "they have lost their connections")
                beside = self.p99(weir)
                self.check(title, burden.poll() is None and waits(weir), "some of the %d have lost their connections" % count)
            finally:
                burden.kill()
                burden.communicate()
            self.row(title, weir, bound, alone, beside)

    def slow(self):
        self.burden("1,000 clients that read 40 KB a second each of a gigabyte", 1000, ["-S", "1000", "-B", STREAM],
                    lambda weir: int(weir.figures()["sv_active"]) >= 1000, 1000 * FULL_KIB + SLACK_KIB, 1020)

    def silent(self):
        self.burden("100 clients that never read, of a gigabyte each", 100, ["-N", "100", "-B", STREAM],
                    lambda weir: int(weir.figures()["sv_active"]) >= 100, 100 * FULL_KIB + SLACK_KIB, 120)

    def dribble(self):
        """An incomplete message gets no server."""
        self.burden("1,000 clients that send one byte a second", 1000, ["-y", "1000", "-B", "SELECT %s" % ("'long' || " * 20 + "'text'")],
                    lambda weir: weir.lists()["used_clients"] >= 1001, 1000 * BUSY_KIB + SLACK_KIB, 20)

    # ---- the page

    def page(self):
        """An open page with 1,000 pools, 10,000 clients, three queues and an opened pool: processor time for its requests."""
        port, names = free_port(), ["db%d" % number for number in range(1000)]
        others = ["%s = host=127.0.0.1 port=%d%s" % (name, self.stage.null.port, " pool_size=1" * (name in names[:3])) for name in names]
        with self.pooler(others=others, http_listen_port=port) as weir, contextlib.ExitStack() as stack:
            self.stage.load(weir.server, ["-d", "db#", "-m", "1000", "-c", "1000", "-n", "5000", "-T", "60"])
            crowd = self.stage.start_load(weir.server, ["-d", "db#", "-m", "1000", "-i", "10000", "-L", "200", "-c", "0", "-g", "-T", "1"])
            stack.callback(crowd.kill)
            self.check("the page", crowd.stdout.readline() == "ready\n", "not all could log in")
            for name in names[:3]:
                for text in ("BEGIN", "SELECT 1"):
                    client = stack.enter_context(contextlib.closing(Client(weir.server.port)))
                    client.login(user="bench", database=name)
                    client.send(messages.query(text))
            before = self._milliseconds(weir, 30)
            weir.begin()
            browser = subprocess.Popen(pinned(LOAD_CPU, [                               # pylint: disable=consider-using-with
                "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
                "--user-data-dir=" + self.stage.path("browser"), "http://127.0.0.1:%d/#db=db7&user=bench" % port]),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(browser.kill)
            time.sleep(PAGE_SECONDS_FIRST)
            beside = self._milliseconds(weir, 60)
            self.check("the page", is_connected(port), "the browser does not ask")
            browser.terminate()
            browser.wait()
            alone = (before + self._milliseconds(weir, 30)) / 2
            print("| an open page, 1,000 pools, 10,000 clients | %.1f | %.1f | %.1f | | | | %.0f ms of processor time a minute, %.0f without it |" % (
                weir.before / 1024, weir.peak() / 1024, (weir.before + PAGE_KIB) / 1024, beside, alone), flush=True)
            self.check("the page", beside - alone <= PAGE_MS, "costs %.0f ms of a minute, of %d" % (beside - alone, PAGE_MS))
            self.check("the page", weir.peak() - weir.before <= PAGE_KIB, "takes %d KiB more" % (weir.peak() - weir.before))

    @staticmethod
    def _milliseconds(weir, seconds):
        """Processor time of the process in a minute, measured for some seconds."""
        def spent():
            with open("/proc/%d/schedstat" % weir.server.pid, encoding="ascii") as f:
                return int(f.read().split()[0]) / 1e6
        before, begin = spent(), time.monotonic()
        time.sleep(seconds)
        return (spent() - before) * 60 / (time.monotonic() - begin)

    # ---- attacks

    def attack(self, kind):
        """The effect on other clients; fails beyond the bound, or if another client is refused."""
        title = attacks.KINDS[kind][0]
        attacker, direct = attacks.Attacker(kind), attacks.Attacker(kind) if kind in attacks.LOGGED_IN else None
        port, path = free_port(), self.stage.path(kind + ".pid.takeover")
        try:
            attacker.start(port, path)
            if direct:
                direct.start(self.options.postgres, path)
            settings, others = attacks.settings_of(kind, self.stage, attacker.server_port, self._postgres())
            with self.pooler(port=port, others=others, users={
                    "bench": SCRAM_SECRET, "asker": "asker", "attacker": "attacking" if kind == "salts" else attacks.WRONG}, **settings) as weir:
                found, connections = attacks.compare(self.stage, weir.server, attacker, direct)
        finally:
            attacker.stop()
            if direct:
                direct.stop()
        for who, (alone, beside) in found.items():
            most = attacks.bound(kind, who, alone)
            print("| %s | %s | %.1f | %.1f | %.1f | %.0f connections |" % (title, who, alone, beside, most, connections), flush=True)
            self.check(title, beside <= most, "the p99 of %s is %.1f ms, of %.1f" % (who, beside, most))

    # ---- COPY

    def _postgres(self):
        return "host=127.0.0.1 port=%d dbname=postgres user=postgres password=%s" % (
            self.options.postgres, os.environ["PGWEIR_LOAD_PASSWORD"])

    def copy(self):
        """Between psql and a real PostgreSQL, in both directions; the company is at work on nullpg."""
        target = "copied = %s pool_size=2" % self._postgres()
        with self.pooler(others=[target]) as weir:
            alone = self.p99(weir)
            self._psql(weir, "CREATE TABLE sink (line text); CREATE SEQUENCE lines CACHE 10000")
            for title, work in (("10 GB by COPY to a client", self._copy_out), ("10 GB by COPY from a client", self._copy_in)):
                weir.begin()
                others = []
                company = threading.Thread(target=lambda: others.append(self.p99(weir)))    # pylint: disable=cell-var-from-loop
                company.start()
                begin = time.monotonic()
                work(weir, title)
                seconds = time.monotonic() - begin
                company.join()
                self.row(title, weir, SLACK_KIB, alone, others[0], "%.0f MB a second, of which PostgreSQL and psql take their part" % (
                    COPIED / 1e6 / seconds))

    def _command(self, weir, sql):
        place = "host=127.0.0.1 port=%d user=bench dbname=copied" % weir.server.port
        return pinned(LOAD_CPU, [self.options.psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, place])

    def _psql(self, weir, sql):
        return subprocess.run(self._command(weir, sql), check=True, capture_output=True, text=True).stdout.strip()

    def _copy_out(self, weir, title):
        sql = "COPY (SELECT repeat('x', %d) FROM generate_series(1, %d)) TO STDOUT" % (LINE - 1, COPIED // LINE)
        received = 0
        with subprocess.Popen(self._command(weir, sql), stdout=subprocess.PIPE) as psql:
            while piece := os.read(psql.stdout.fileno(), 1 << 20):
                received += len(piece)
        self.check(title, psql.returncode == 0 and received == COPIED, "%d bytes came, status %s" % (received, psql.returncode))

    def _copy_in(self, weir, title):
        """The lines are counted as they arrive, and kept nowhere."""
        with subprocess.Popen(self._command(weir, "COPY sink FROM STDIN WHERE nextval('lines') < 0"), stdin=subprocess.PIPE) as psql:
            block = PIECE * 128
            for _ in range(COPIED // len(block)):
                psql.stdin.write(block)
            psql.stdin.write(PIECE * (COPIED % len(block) // LINE))
        arrived = int(self._psql(weir, "SELECT nextval('lines') - 1"))
        # each session takes numbers in tens of thousands
        expected = -(-COPIED // LINE // 10000) * 10000
        self.check(title, psql.returncode == 0 and arrived in (COPIED // LINE, expected), "%d lines came, status %s" % (arrived, psql.returncode))


    # ---- a budget for one PostgreSQL

    def budget(self):
        """50 databases whose clients always wait, with 20 servers of a real PostgreSQL, beside the same without a limit."""
        for title, limit in (("20 servers for 50 databases", 20), ("200 servers for 50 databases", 0)):
            others = ["budget%d = %s pool_size=4" % (number, self._postgres()) for number in range(50)]
            with self.pooler(others=others, max_host_connections=limit, pool_mode="transaction") as weir:
                self.stage.load(weir.server, BUDGET + ["-T", "5"])
                before, evicted = weir.counts("STATS_TOTALS", "query_count"), weir.counts("REASONS_ALL", "count")["EVICTED"]
                found = self.stage.load(weir.server, BUDGET + ["-T", "30"])
                after = weir.counts("STATS_TOTALS", "query_count")
                answered = [after[name] - before[name] for name in after if name.startswith("budget")]
                evicted = weir.counts("REASONS_ALL", "count")["EVICTED"] - evicted
                print("| %s | slowest over fastest: %.2f; %.0f queries a second; %.0f new servers a second; p99 %.0f ms |" % (
                    title, min(answered) / max(answered), found["tps"], evicted / 31, found["p99_us"] / 1000), flush=True)
                self.check(title, len(answered) == 50 and 2 * min(answered) >= max(answered), "the slowest got %d answers, the fastest %d" % (
                    min(answered), max(answered)))


CASES = ("crowd", "crowds", "storm", "slow", "silent", "dribble", "copy", "page", "budget")
ATTACKS = tuple(attacks.KINDS)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="where pgweir and `make bench-programs` were built")
    parser.add_argument("--room", required=True, help="an empty directory")
    parser.add_argument("--psql", required=True, help="the program")
    parser.add_argument("--postgres", required=True, type=int, help="port of a real one, with the password in $PGWEIR_LOAD_PASSWORD")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of " + ", ".join(CASES + ATTACKS))
    options = parser.parse_args()
    options.cases = options.cases or CASES + ATTACKS
    if not set(options.cases) <= set(CASES + ATTACKS):
        parser.error("a case is one of " + ", ".join(CASES + ATTACKS))
    return options


def table(load, cases, columns):
    """Plays the cases, with a row for each."""
    if cases:
        print("\n| %s |\n" % " | ".join(columns) + "| --- " * len(columns) + "|", flush=True)
    for name in cases:
        try:
            if name in ATTACKS:
                load.attack(name)
            else:
                getattr(load, name)()
        except (AssertionError, LoadFailed, subprocess.CalledProcessError) as fault:
            load.check(name, False, fault)


def main():
    options = read_options()
    prepare()
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors < 20000:
        raise SystemExit("20,000 open files have to be allowed, not %d: ulimit -Hn" % descriptors)
    print(machine() + "\n")
    with Stage(options.build, options.room, {"pgweir": os.path.join(options.build, "pgweir")}) as stage:
        load = Load(stage, options)
        table(load, [name for name in options.cases if name in CASES],
              ["case", "before, MB", "at the most", "bound", "afterwards", "p99 of 16 others alone, us", "beside it", ""])
        table(load, [name for name in options.cases if name in ATTACKS],
              ["attack", "who", "p99 without it, ms", "with it", "bound", "attackers, in each turn"])
    print("\n%d cases, %d failed" % (len(options.cases), load.failed))
    return 1 if load.failed else 0


if __name__ == "__main__":
    sys.exit(main())
