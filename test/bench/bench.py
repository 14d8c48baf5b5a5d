#!/usr/bin/env python3
"""
Measures pgweir beside PgBouncer and beside the limit: a program that forwards the same bytes and looks at none.

    bench.py --build DIR --room DIR [--quick] [--turns N] [--seconds N] [--tables goals,fairness,growth] [--rows WORD,...]

Usually run by bench.sh, which builds what it needs. A timed row runs in turns: in each turn the limit, pgweir and
PgBouncer are measured one after the other, and a ratio is taken within the turn, so a machine whose speed drifts does
not matter. What is printed is the median of the turns, and of the ratios also the quartiles. A dash stands where
something cannot be measured or is not there.
"""
import argparse
import dataclasses
import os
import resource
import shutil
import signal
import statistics
import sys
import time
import typing

import counts
from stage import SCRAM_SECRET, LoadFailed, Stage, memory_kib

LIMIT, WEIR, BOUNCER = "limit", "pgweir", "PgBouncer"
DASH = "-"


@dataclasses.dataclass
class Timed:
    """A row that is measured in turns; its goal is a ratio: of pgweir's figure and that of `over`."""
    title: str
    load: list
    figure: str                     # of those that loadpg prints
    over: str
    goal: float
    at_least: bool = False
    limit_load: typing.Optional[list] = None
    place: str = "plain"


@dataclasses.dataclass
class Counted:
    """A row whose figures are counted, and whose goal is a figure. measure(bench, name) gives one, or None."""
    title: str
    unit: str
    goal: float
    measure: typing.Callable


UNITS = {"cpu_us": "CPU us per query", "cpu_s_gb": "CPU s per GB", "mb_s": "MB/s", "p99_us": "p99 us"}
ROWS_200, ROWS_WIDE = "ROWS 20000 200", "ROWS 20 500000"

GOALS = [
    Timed("simple, 1 client", ["-c", "1"], "cpu_us", LIMIT, 1.06),
    Timed("simple, 16 clients", ["-c", "16"], "cpu_us", LIMIT, 1.06),
    Timed("simple, 200 clients on 20 servers (limit: 16 clients)", ["-c", "200"], "cpu_us", LIMIT, 1.30,
          limit_load=["-c", "16"]),
    Timed("extended, 16 clients", ["-c", "16", "-M", "extended"], "cpu_us", LIMIT, 1.08),
    Timed("named prepared statements, 16 clients", ["-c", "16", "-M", "prepared"], "cpu_us", LIMIT, 1.12),
    Timed("BEGIN, query, COMMIT, 16 clients", ["-c", "16", "-M", "txn"], "cpu_us", LIMIT, 1.05),
    Timed("pipeline of 10, 8 clients", ["-c", "8", "-M", "extended", "-D", "10"], "cpu_us", LIMIT, 1.15),
    Timed("20,000 rows of 200 bytes, 2 clients", ["-c", "2", "-q", ROWS_200], "cpu_s_gb", LIMIT, 1.3),
    Timed("rows of 500,000 bytes, 2 clients", ["-c", "2", "-q", ROWS_WIDE], "cpu_s_gb", LIMIT, 1.2),
    Timed("connect, query, leave: trust, 16 clients", ["-c", "16", "-C"], "cpu_us", BOUNCER, 0.65),
    Timed("connect, query, leave: SCRAM, TLS by ticket, 16 clients", ["-c", "16", "-C", "-s", "-r"], "cpu_us", BOUNCER,
          0.65, place="login"),
    Timed("TLS on both sides: simple, 16 clients", ["-c", "16", "-s"], "cpu_us", BOUNCER, 0.8, place="tls"),
    Timed("TLS on both sides: 20,000 rows of 200 bytes, 2 clients", ["-c", "2", "-s", "-q", ROWS_200], "mb_s", BOUNCER,
          2.0, at_least=True, place="tls"),
    Timed("the same, CPU time", ["-c", "2", "-s", "-q", ROWS_200], "cpu_s_gb", BOUNCER, 0.5, place="tls"),
    Counted("instructions of its own, simple", "per query", 1200, lambda b, n: b.instructions(n, "simple")),
    Counted("instructions of its own, extended", "per query", 1800, lambda b, n: b.instructions(n, "extended")),
    Counted("instructions of its own, prepared", "per query", 2200, lambda b, n: b.instructions(n, "prepared")),
    Counted("system calls, one client", "per query", 6, lambda b, n: b.system_calls(n)),
    Counted("memory per idle client", "KiB", 0.8, lambda b, n: b.memory_idle(n)),
    Counted("memory per idle client, TLS", "KiB", 12, lambda b, n: b.memory_idle(n, tls=True)),
    Counted("memory per known user", "KiB", 0.5, lambda b, n: b.memory_user(n)),
    Counted("memory per pool", "KiB", 2, lambda b, n: b.memory_pool(n)),
]


def number(value):
    """Three digits that count; more where the whole part has them."""
    if value is None:
        return DASH
    for limit, form in ((100, "%.0f"), (10, "%.1f"), (1, "%.2f")):
        if abs(value) >= limit:
            return form % value
    return "%.3f" % value


def median(values):
    return statistics.median(values) if values else None


def quartiles(values):
    if len(values) < 2:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return " (%.2f..%.2f)" % (low, high)


def ratio(values):
    return "%.2f%s" % (median(values), quartiles(values)) if values else DASH


class Printer:
    """A table in Markdown, each row as soon as it is known."""

    def __init__(self, title, *columns):
        print("\n%s\n" % title)
        self.row(*columns)
        self.row(*["---"] * len(columns))
        self.notes = []

    @staticmethod
    def row(*cells):
        print("| %s |" % " | ".join(cells), flush=True)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def end(self):
        if self.notes:
            print("\n" + "\n".join("- " + each for each in self.notes), flush=True)


class Bench:
    """Keeps the poolers of each place, and what was counted once for several rows."""

    PLACES = {
        "plain": {},
        "login": {"auth_type": "scram-sha-256", "client_tls_sslmode": "require"},
        "tls": {"client_tls_sslmode": "require", "server_tls_sslmode": "require"},
    }

    def __init__(self, stage, options):
        self.stage = stage
        self.options = options
        self._poolers = {}
        self._instructions = {}
        self.table = None

    def settings(self, place):
        chosen = dict(self.PLACES[place])
        if "client_tls_sslmode" in chosen:
            chosen["client_tls_cert_file"] = self.stage.authority.cert("server")
            chosen["client_tls_key_file"] = self.stage.authority.key("server")
        return chosen

    def start(self, name, place="plain", **more):
        settings = {**self.settings(place), **more.pop("settings", {})}
        return self.stage.pooler(name, settings, server=self.stage.null_tls if place == "tls" else None, **more)

    def side(self, name, place):
        if name == LIMIT:
            return self.stage.limit
        if (name, place) not in self._poolers:
            self._poolers[name, place] = self.start(name, place)
        return self._poolers[name, place]

    def timing(self, seconds=None):
        seconds = seconds or self.options.seconds
        return ["-T", str(seconds), "-w", str(min(0.3, seconds / 3))]

    def figure(self, target, load, figure, seconds=None):
        """One measurement; None, with a note under the table, where the pooler cannot do this."""
        try:
            return self.stage.load(target, load + self.timing(seconds)).get(figure)
        except LoadFailed as failure:
            self.table.note("%s, `%s`: %s" % (getattr(target, "name", LIMIT), " ".join(load), failure))
            return None

    def turns(self, sides, turns=None):
        """{name: figures}: in each turn, every side once; measure() of a side that failed is not called again."""
        found = {name: [] for name in sides}
        failed = set()
        order = list(sides)
        for _ in range(turns or self.options.turns):
            for name in order:
                value = None if name in failed else sides[name]()
                if value is None:
                    failed.add(name)
                found[name].append(value)
            order = order[1:] + order[:1]
        return {name: [] if name in failed else values for name, values in found.items()}

    # ---- what is counted ----

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
        self.table.note("%s: %s" % (name, ", ".join("%.2f %s" % (calls[c], c) for c in sorted(calls))))
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
            pooler = self.start(name, users=self.users(count))
            self.stage.load(pooler, ["-c", "1", "-n", "10"])
            sizes.append(memory_kib(pooler.pid))
            self.stage.stop(pooler)
        return (sizes[1] - sizes[0]) / 10000

    def memory_pool(self, name):
        """Each user of a thousand comes once and leaves a pool behind; there are never more than ten servers."""
        pooler = self.start(name, users=self.users(1101), settings={"max_db_connections": 10})
        come_once = ["-c", "1", "-C", "-U", "bench#", "-T", "60"]
        self.stage.load(pooler, [*come_once, "-m", "100", "-n", "100"])
        before = memory_kib(pooler.pid)
        self.stage.load(pooler, [*come_once, "-m", "1100", "-n", "1100"])
        after = memory_kib(pooler.pid)
        self.stage.stop(pooler)
        return (after - before) / 1000

    @staticmethod
    def users(count):
        return {"bench": SCRAM_SECRET, **{"bench%d" % i: SCRAM_SECRET for i in range(count - 1)}}

    # ---- rows ----

    def timed(self, row):
        loads = {WEIR: row.load, BOUNCER: row.load}
        if row.place == "plain" and "-C" not in row.load:
            loads = {LIMIT: row.limit_load or row.load, **loads}
        found = self.turns({name: lambda n=name: self.figure(self.side(n, row.place), loads[n], row.figure) for name in loads})

        def ratios(of):
            return [a / b for a, b in zip(found[of], found.get(row.over, []))]

        middle = median(ratios(WEIR))
        met = DASH
        if middle is not None:
            met = "yes" if (middle >= row.goal if row.at_least else middle <= row.goal) else "no"
        self.table.row(row.title, UNITS[row.figure], number(median(found.get(LIMIT, []))), number(median(found[WEIR])),
                       number(median(found[BOUNCER])), ratio(ratios(WEIR)),
                       DASH if row.over == BOUNCER else ratio(ratios(BOUNCER)),
                       "%s%.2f" % (">= " if row.at_least else "", row.goal), met)

    def counted(self, row):
        weir, bouncer = row.measure(self, WEIR), row.measure(self, BOUNCER)
        met = DASH if weir is None else "yes" if weir <= row.goal else "no"
        self.table.row(row.title, row.unit, DASH, number(weir), number(bouncer), DASH, DASH, number(row.goal), met)

    def goals(self):
        self.table = Printer("Goals", "work", "figure", LIMIT, WEIR, BOUNCER, "pgweir's ratio (quartiles)",
                             "PgBouncer's ratio (quartiles)", "goal", "met")
        for row in GOALS:
            if not self.options.rows or any(word in row.title for word in self.options.rows):
                (self.timed if isinstance(row, Timed) else self.counted)(row)
        self.table.end()

    def fairness(self):
        self.table = Printer("Fairness", "work", "figure", LIMIT, WEIR, BOUNCER)
        seconds = self.options.seconds * 3
        load = ["-c", "1000"]
        self.plain_row("1,000 clients on 20 servers: slowest over fastest", "ratio", [WEIR, BOUNCER], load, "fair", seconds)
        load = ["-c", "16"]
        self.plain_row("16 clients alone", "p99 us", [LIMIT, WEIR, BOUNCER], load, "p99_us", seconds)
        load = ["-c", "16", "-b", "1"]
        self.plain_row("16 clients beside one that reads 10 GB", "p99 us", [LIMIT, WEIR, BOUNCER], load, "p99_us", seconds)
        self.plain_row("the one that reads meanwhile", "MB/s", [LIMIT, WEIR, BOUNCER], load, "stream_mb_s", seconds)
        self.table.end()

    def plain_row(self, title, unit, sides, load, figure, seconds=None, servers=None):
        servers = servers or {name: self.side(name, "plain") for name in sides}
        found = self.turns({name: lambda n=name: self.figure(servers[n], load, figure, seconds) for name in sides},
                           max(3, self.options.turns // 3))
        cells = [number(median(found.get(name, []))) for name in (LIMIT, WEIR, BOUNCER)]
        self.table.row(title, unit, *cells)

    def growth(self):
        self.table = Printer("Growth", "work", "figure", LIMIT, WEIR, BOUNCER)
        all_sides = [LIMIT, WEIR, BOUNCER]
        for clients in (1, 4, 16, 64, 250, 1000):
            self.plain_row("%d clients, 20 servers" % clients, UNITS["cpu_us"], all_sides, ["-c", str(clients)], "cpu_us")
        for count in (1, 5, 20, 50, 100, 200):
            self.growth_row("200 clients, %d servers" % count, ["-c", "200"], settings={"default_pool_size": count})
        for count in (1, 10, 100, 500):
            names = ["bench%d" % i for i in range(count)]
            self.growth_row("500 clients, %d databases" % count, ["-c", "500", "-d", "bench#", "-m", str(count)],
                            databases=names)
        for width in (8, 100, 1000, 10000, 100000, 1000000):
            rows = max(4, min(20000, 4000000 // width))
            self.plain_row("%d rows of %d bytes" % (rows, width), UNITS["cpu_s_gb"], all_sides,
                           ["-c", "2", "-q", "ROWS %d %d" % (rows, width)], "cpu_s_gb")
        self.table.end()

    def growth_row(self, title, load, **config):
        servers = {name: self.start(name, **{k: dict(v) if isinstance(v, dict) else v for k, v in config.items()})
                   for name in (WEIR, BOUNCER)}
        self.plain_row(title, UNITS["cpu_us"], list(servers), load, "cpu_us", servers=servers)
        for server in servers.values():
            self.stage.stop(server)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--room", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns; the table of goals alone")
    parser.add_argument("--turns", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--tables")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=[], help="goals whose title has one of these")
    options = parser.parse_args()
    options.turns = options.turns or (3 if options.quick else 9)
    options.seconds = options.seconds or (0.25 if options.quick else 1.0)
    options.tables = (options.tables or ("goals" if options.quick else "goals,fairness,growth")).split(",")
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("bench.py: two CPUs are needed, one for the pooler and one for the rest")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    bouncer = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if not bouncer:
        raise SystemExit("bench.py: there is no pgbouncer")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begin = time.monotonic()
    print("%d turns of %g seconds" % (options.turns, options.seconds), flush=True)
    with Stage(options.build, bouncer, options.room) as stage:
        bench = Bench(stage, options)
        for table in options.tables:
            getattr(bench, table)()
    print("\nTook %.0f seconds" % (time.monotonic() - begin))


if __name__ == "__main__":
    sys.exit(main())
