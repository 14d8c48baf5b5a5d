#!/usr/bin/env python3
"""
Measures pgweir beside PgBouncer and beside the limit: a program that forwards the same bytes without reading them.

bench.py --build DIR --room DIR [--quick] [--turns N] [--seconds N] [--tables goals,session_state,fairness,growth] [--rows WORD,...]

Usually run by bench.sh, which builds the programs. doc/performance.md explains the tables. A dash means that a value cannot be measured, or does not
exist.
"""
import argparse
import dataclasses
import os
import resource
import shutil
import signal
import sys
import time
import typing

import counts
from stage import SCRAM_SECRET, Stage, memory_kib
from turns import DASH, Printer, Timed, compare, number

LIMIT, WEIR, BOUNCER = "limit", "pgweir", "PgBouncer"
SIDES = (LIMIT, WEIR, BOUNCER)

ROWS_200, ROWS_WIDE = "ROWS 20000 200", "ROWS 20 500000"
TIMED = [
    Timed("simple, 1 client", ["-c", "1"], "cpu_us", LIMIT, goal=1.06),
    Timed("simple, 16 clients", ["-c", "16"], "cpu_us", LIMIT, goal=1.06),
    Timed("simple, 200 clients on 20 servers, over the limit's 16", ["-c", "200"], "cpu_us", LIMIT, ["-c", "16"], goal=1.30),
    Timed("extended, 16 clients", ["-c", "16", "-M", "extended"], "cpu_us", LIMIT, goal=1.08),
    Timed("named prepared statements, 16 clients", ["-c", "16", "-M", "prepared"], "cpu_us", LIMIT, goal=1.12),
    Timed("BEGIN, query, COMMIT, 16 clients", ["-c", "16", "-M", "txn"], "cpu_us", LIMIT, goal=1.05),
    Timed("BEGIN, SET LOCAL app.tenant, prepared statement, COMMIT, 16 clients", ["-c", "16", "-M", "local"], "cpu_us", LIMIT, goal=1.12),
    Timed("pipeline of 10, 8 clients", ["-c", "8", "-M", "extended", "-D", "10"], "cpu_us", LIMIT, goal=1.15),
    Timed("20,000 rows of 200 bytes, 2 clients", ["-c", "2", "-q", ROWS_200], "cpu_s_gb", LIMIT, goal=1.3),
    Timed("rows of 500,000 bytes, 2 clients", ["-c", "2", "-q", ROWS_WIDE], "cpu_s_gb", LIMIT, goal=1.2),
    Timed("connect, query, leave: trust, 16 clients", ["-c", "16", "-C"], "cpu_us", BOUNCER, goal=0.65),
    Timed("connect, query, leave: SCRAM, TLS by ticket, 16 clients", ["-c", "16", "-C", "-s", "-r"], "cpu_us", BOUNCER,
          goal=0.65, place="login"),
    Timed("TLS on both sides: simple, 16 clients", ["-c", "16", "-s"], "cpu_us", BOUNCER, goal=0.8, place="tls"),
    Timed("TLS on both sides: 20,000 rows of 200 bytes, 2 clients", ["-c", "2", "-s", "-q", ROWS_200], "mb_s", BOUNCER,
          goal=2.0, at_least=True, place="tls"),
    Timed("the same, CPU time", ["-c", "2", "-s", "-q", ROWS_200], "cpu_s_gb", BOUNCER, goal=0.5, place="tls"),
]


@dataclasses.dataclass
class Counted:
    """A row with counted figures and a figure as its goal. measure(bench, name) gives one, or None."""
    title: str
    unit: str
    goal: float
    measure: typing.Callable


COUNTED = [
    Counted("instructions of its own, simple", "per query", 1200, lambda b, n: b.instructions(n, "simple")),
    Counted("instructions of its own, extended", "per query", 1800, lambda b, n: b.instructions(n, "extended")),
    Counted("instructions of its own, prepared", "per query", 2200, lambda b, n: b.instructions(n, "prepared")),
    Counted("system calls, one client", "per query", 6, lambda b, n: b.system_calls(n)),
    Counted("memory per idle client", "KiB", 0.8, lambda b, n: b.memory_idle(n)),
    Counted("memory per idle client, TLS", "KiB", 12, lambda b, n: b.memory_idle(n, tls=True)),
    Counted("memory per known user", "KiB", 0.5, lambda b, n: b.memory_user(n)),
    Counted("memory per pool", "KiB", 2, lambda b, n: b.memory_pool(n)),
]

STREAMED = ["-c", "16", "-b", "1"]
FAIRNESS = [
    Timed("1,000 clients on 20 servers: slowest over fastest", ["-c", "1000"], "fair"),
    Timed("16 clients alone", ["-c", "16"], "p99_us", LIMIT),
    Timed("16 clients beside one that reads 10 GB", STREAMED, "p99_us", LIMIT),
    Timed("what that one gets", STREAMED, "stream_mb_s", LIMIT),
    Timed("TLS on both sides: 16 clients alone", ["-c", "16", "-s"], "p99_us", place="tls"),
    Timed("TLS on both sides: 16 clients beside one that reads 10 GB", [*STREAMED, "-s"], "p99_us", place="tls"),
]
PLAIN_16 = ["-c", "16"]

TABLES = ("goals", "session_state", "fairness", "growth")
OFF, FULL = "off", "full"
SESSION_STATE = [Timed(title + ", 16 clients", ["-c", "16", "-M", mode], "cpu_us", OFF, goal=1.03) for title, mode in (
    ("simple", "simple"), ("extended", "extended"), ("named prepared statements", "prepared"), ("BEGIN, query, COMMIT", "txn"))]


def users(count):
    return {"bench": SCRAM_SECRET, **{"bench%d" % i: SCRAM_SECRET for i in range(count - 1)}}


class Bench:
    """Holds the poolers of each place, and counts that several rows share."""

    PLACES = {
        "plain": {},
        "login": {"auth_type": "scram-sha-256", "client_tls_sslmode": "require"},
        "tls": {"client_tls_sslmode": "require", "server_tls_sslmode": "require"},
    }

    def __init__(self, stage, options):
        self.stage = stage
        self.options = options
        self.table = None
        self._poolers = {}
        self._instructions = {}

    def start(self, name, place="plain", settings=None, **more):
        chosen = {**self.PLACES[place], **(settings or {})}
        if "client_tls_sslmode" in chosen:
            chosen["client_tls_cert_file"] = self.stage.authority.cert("server")
            chosen["client_tls_key_file"] = self.stage.authority.key("server")
        server = self.stage.null_tls if place == "tls" else self.stage.null
        return self.stage.pooler(name, chosen, server=server, **more)

    def side(self, name, place):
        if name == LIMIT:
            return self.stage.limit
        if (name, place) not in self._poolers:
            self._poolers[name, place] = self.start(name, place)
        return self._poolers[name, place]

    def compare(self, row, servers=None, turns=None, seconds=None):
        names = SIDES if row.over == LIMIT else (WEIR, BOUNCER)
        servers = servers or {name: self.side(name, row.place) for name in names}
        return compare(self.stage, self.table, row, servers, turns or self.options.turns, seconds or self.options.seconds)

    # ---- counts ----

    def instructions(self, name, mode):
        if name not in self._instructions:
            self._instructions[name] = counts.instructions(self.stage, name)
        own_and_all = self._instructions[name].get(mode)
        if not own_and_all:
            return None
        self.table.note("with its libraries, %s executes %.0f instructions (%s)" % (name, own_and_all[1], mode))
        return own_and_all[0]

    def system_calls(self, name):
        calls = counts.system_calls(self.stage, name)
        self.table.note("%s: %s" % (name, ", ".join("%.2f %s" % (calls[call], call) for call in sorted(calls))))
        return round(sum(calls.values()), 2)

    def memory_idle(self, name, tls=False):
        pooler = self.start(name, "login" if tls else "plain", settings={"auth_type": "trust"})
        more = ["-s"] if tls else []
        self.stage.load(pooler, ["-c", "16", "-n", "1000", *more])
        found = self.stage.load(pooler, ["-c", "0", "-i", "10000", *more])["idle_kib"]
        self.stage.stop(pooler)
        return found

    def memory_user(self, name):
        sizes = []
        for count in (1, 10001):
            pooler = self.start(name, users=users(count))
            self.stage.load(pooler, ["-c", "1", "-n", "10"])
            sizes.append(memory_kib(pooler.pid))
            self.stage.stop(pooler)
        return (sizes[1] - sizes[0]) / 10000

    def memory_pool(self, name):
        """Each of a thousand users connects once and leaves a pool behind; there are at most ten servers."""
        pooler = self.start(name, users=users(1101), settings={"max_db_connections": 10})
        come_once = ["-c", "1", "-C", "-U", "bench#", "-T", "60"]
        self.stage.load(pooler, [*come_once, "-m", "100", "-n", "100"])
        before = memory_kib(pooler.pid)
        self.stage.load(pooler, [*come_once, "-m", "1100", "-n", "1100"])
        after = memory_kib(pooler.pid)
        self.stage.stop(pooler)
        return (after - before) / 1000

    # ---- tables ----

    def is_wanted(self, row):
        return not self.options.rows or any(word in row.title for word in self.options.rows)

    def goals(self):
        self.table = Printer("Goals", "work", "figure", *SIDES, "pgweir's ratio", "PgBouncer's ratio", "goal", "met")
        for row in filter(self.is_wanted, TIMED):
            result = self.compare(row)
            goal = "%s%.2f" % (">= " if row.at_least else "", row.goal)
            self.table.row(row.title, row.unit, *result.cells(SIDES), *result.ratio_cells((WEIR, BOUNCER)), goal,
                           result.verdict(WEIR))
        for row in filter(self.is_wanted, COUNTED):
            weir, bouncer = row.measure(self, WEIR), row.measure(self, BOUNCER)
            met = DASH if weir is None else "yes" if weir <= row.goal else "no"
            self.table.row(row.title, row.unit, DASH, number(weir), number(bouncer), DASH, DASH, number(row.goal), met)
        self.table.end()

    def print_row(self, row, **how):
        result = self.compare(row, **how)
        self.table.row(row.title, row.unit, *result.cells(SIDES), *result.ratio_cells((WEIR, BOUNCER)))

    def fairness(self):
        self.table = Printer("Fairness", "work", "figure", *SIDES, "pgweir's ratio", "PgBouncer's ratio")
        for row in filter(self.is_wanted, FAIRNESS):
            self.print_row(row, seconds=3 * self.options.seconds)
        self.table.end()

    def session_state(self):
        self.table = Printer("session_state = full over off, work without session state", "work", "figure", OFF, FULL, "ratio", "goal", "met")
        servers = {OFF: self.start(WEIR), FULL: self.start(WEIR, settings={"session_state": "full"})}
        for row in filter(self.is_wanted, SESSION_STATE):
            result = self.compare(row, servers=servers)
            self.table.row(row.title, row.unit, *result.cells(servers), *result.ratio_cells([FULL]), "%.2f" % row.goal, result.verdict(FULL))
        self.table.end()

    def growth(self):
        self.table = Printer("Growth", "work", "figure", *SIDES, "pgweir's ratio", "PgBouncer's ratio")
        turns = max(3, self.options.turns // 3)
        for clients in (1, 4, 16, 64, 250, 1000):
            self.print_row(Timed("clients: %d, on 20 servers" % clients, ["-c", str(clients)], "cpu_us", LIMIT, PLAIN_16),
                           turns=turns)
        for count in (1, 5, 20, 50, 100, 200):
            row = Timed("servers: %d, for 200 clients" % count, ["-c", "200"], "cpu_us", LIMIT, PLAIN_16)
            self.grown(row, turns, settings={"default_pool_size": count})
        for count in (1, 10, 100, 500):
            load = ["-c", "500", "-d", "bench#", "-m", str(count)]
            row = Timed("databases: %d, for 500 clients" % count, load, "cpu_us", LIMIT, PLAIN_16)
            self.grown(row, turns, databases=["bench%d" % i for i in range(count)])
        for width in (8, 100, 1000, 10000, 100000, 1000000):
            rows = max(4, min(20000, 4000000 // width))
            load = ["-c", "2", "-q", "ROWS %d %d" % (rows, width)]
            self.print_row(Timed("bytes in a row: %d, 2 clients" % width, load, "cpu_s_gb", LIMIT), turns=turns)
        self.table.end()

    def grown(self, row, turns, **config):
        poolers = {name: self.start(name, **config) for name in (WEIR, BOUNCER)}
        self.print_row(row, servers={LIMIT: self.stage.limit, **poolers}, turns=turns)
        for pooler in poolers.values():
            self.stage.stop(pooler)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="where pgweir and `make bench-programs` were built")
    parser.add_argument("--room", required=True, help="an empty directory")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns; the table of goals alone")
    parser.add_argument("--turns", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--tables", type=lambda text: text.split(","), help="of: " + ",".join(TABLES))
    parser.add_argument("--rows", type=lambda text: text.split(","), help="those whose title has one of these words")
    options = parser.parse_args()
    options.turns = options.turns or (3 if options.quick else 9)
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    options.tables = options.tables or (["goals"] if options.quick else list(TABLES))
    if not set(options.tables) <= set(TABLES):
        parser.error("the tables are " + ", ".join(TABLES))
    return options


def machine():
    """Where this was measured, and whether it had anything else to do."""
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
    return "%s, %d CPUs, Linux %s, load average before it began %.1f" % (model, os.cpu_count(), os.uname().release,
                                                                      os.getloadavg()[0])


def prepare():
    """Checks the requirements of every measurement."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two CPUs are needed, one for the pooler and one for the rest")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def main():
    options = read_options()
    prepare()
    bouncer = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if not bouncer:
        raise SystemExit("there is no pgbouncer to compare with")
    begin = time.monotonic()
    print("%d turns of %g seconds; %s" % (options.turns, options.seconds, machine()), flush=True)
    with Stage(options.build, options.room, {WEIR: os.path.join(options.build, "pgweir"), BOUNCER: bouncer}) as stage:
        bench = Bench(stage, options)
        for table in options.tables:
            getattr(bench, table)()
    print("\nTook %.0f seconds" % (time.monotonic() - begin))


if __name__ == "__main__":
    main()
