#!/usr/bin/env python3
"""
Reads on several servers: throughput, and the share of each server when a standby goes and returns.

balance.py --pgweir PROGRAM --room DIR [--table LIST] [--turns N] [--seconds N] [--clients N]

Usually run by balance.sh, which builds pgweir and describes the tables. Run it as an ordinary user, with PYTHONPATH naming the directory test/.
"""
import argparse
import collections
import os
import signal
import statistics
import subprocess
import sys
import time

from bench import machine
from failover_clients import Gate, Kind, PgbenchWorker
from turns import Printer
from ways import DATABASE, SECRET, USER, Direct, Pgpool, Pgweir, Unavailable, weighted_target

from support.nodes import Nodes
from support.postgres import tool
from support.until import until

# A server answers one of these at a time, and needs five milliseconds for it.
SERVED = """CREATE FUNCTION served(wanted int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1);
    PERFORM pg_sleep(0.005);
    RETURN (SELECT abalance FROM pgbench_accounts WHERE aid = wanted);
END $$"""
SCRIPT = "\\set aid random(1, 100000)\nSELECT served(:aid);\n"
PLAIN = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"       # pgbench -S

WARM_UP = 5                     # queries of each client
RETURN = 12                     # seconds until a server that has returned should have its share
WEIGHTS = (1, 3)
READS = {"target_session_attrs": "primary", "reads": "transaction"}


class Counts:
    """Executed queries of the clients on each server, by pg_stat_statements."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._before = self._read()

    def _read(self):
        counted = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query ~ '^SELECT (served|abalance)'"
        return [node.value(counted, database=DATABASE) if node.is_alive() else None for node in self._cluster.nodes]

    def take(self):
        """How many since the last time; of a server that was away at one of both times, 0."""
        before, self._before = self._before, self._read()
        return [after - earlier if None not in (after, earlier) else 0 for earlier, after in zip(before, self._before)]


def shares(counts):
    return " / ".join("%.0f %%" % (100 * count / max(1, sum(counts))) for count in counts)


class Bench:
    def __init__(self, options):
        self.options = options
        self._count = 0

    def path(self, name):
        self._count += 1
        return os.path.join(self.options.room, "%s.%d" % (name, self._count))

    def directory(self, name):
        path = self.path(name)
        os.mkdir(path)
        return path

    def _cluster(self, standbys):
        cluster = Nodes(self.directory("cluster"), self.options.room, standbys=standbys, max_connections="150",
                        shared_preload_libraries="pg_stat_statements")
        primary = cluster.primary
        subprocess.run([tool("pgbench"), "-i", "-q", "-s", "1", self._conninfo(primary)], check=True, capture_output=True)
        primary.execute(SERVED, database=DATABASE, user=USER)
        primary.execute("CREATE EXTENSION pg_stat_statements", database=DATABASE)
        # the role is a reader in all of its sessions
        primary.execute("ALTER ROLE %s SET default_transaction_read_only = on" % USER)
        cluster.wait_replayed()
        return cluster

    @staticmethod
    def _conninfo(node):
        return "host=%s port=%d dbname=%s user=%s" % (node.host, node.port, DATABASE, USER)

    # --- throughput

    def throughput(self):
        cluster = self._cluster(2)
        program = self.options.pgweir
        ways = {
            "one server, direct": lambda path: _Single(path, cluster),
            "one server, pgweir": lambda path: Pgweir(path, program, cluster.primary.target(DATABASE)),
            "three servers, pgweir, reads = transaction": lambda path: Pgweir(path, program, weighted_target(cluster, (1, 1, 1), **READS)),
            "three servers, Pgpool-II": lambda path: Pgpool(path, cluster, (1, 1, 1)),
        }
        try:
            found = {title: [] for title in ways}
            table = Printer("Throughput of reads", "way", "queries a second", "over one server, direct", "primary / standby / standby")
            skipped = set()
            for _ in range(self.options.turns):
                for title, make in ways.items():
                    try:
                        found[title].append(self._speed(cluster, make))
                    except Unavailable as why:
                        skipped.add(title)
                        table.note("%s: skipped, %s" % (title, why))
            first = [speed for speed, _ in found["one server, direct"]]
            for title, turns in found.items():
                if title in skipped:
                    table.row(title, "skipped", "", "")
                    continue
                speeds = [speed for speed, _ in turns]
                table.row(title, "%.0f" % statistics.median(speeds), "%.2f" % statistics.median(a / b for a, b in zip(speeds, first)),
                          shares([sum(column) for column in zip(*(counts for _, counts in turns))]))
            table.end()
        finally:
            cluster.take_down()

    def _speed(self, cluster, make):
        """Queries a second, and the counts of the servers. Begins when every client has had answers."""
        way = make(self.path("way"))
        script = self.path("script")
        with open(script, "w", encoding="ascii") as f:
            f.write(SCRIPT)
        counts = Counts(cluster)
        clients = self.options.clients
        try:
            with subprocess.Popen([tool("pgbench"), "-n", "-c", str(clients), "-T", "600", "-f", script, way.conninfo()], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                try:
                    answered = 0
                    while answered < WARM_UP * clients and process.poll() is None:
                        time.sleep(0.1)
                        answered += sum(counts.take())
                    found = self._phase(counts, self.options.seconds)
                    assert process.poll() is None, process.stderr.read()
                    return sum(found) / self.options.seconds, found
                finally:
                    process.kill()
        finally:
            way.stop()

    # --- a standby goes and returns

    def standby(self):
        cluster = self._cluster(1)
        ways = {
            "pgweir, reads = transaction": lambda path: Pgweir(path, self.options.pgweir, weighted_target(cluster, WEIGHTS, **READS)),
            "Pgpool-II": lambda path: Pgpool(path, cluster, WEIGHTS),
        }
        try:
            table = Printer("pgbench -S on a primary of weight 1 and a standby of weight 3: shares of primary / standby", "way", "before",
                            "standby stopped", "%d s after its return" % RETURN, "errors", "queries a second in each")
            for title, make in ways.items():
                try:
                    table.row(title, *self._go_and_return(table, title, cluster, make))
                except Unavailable as why:
                    table.note("%s: skipped, %s" % (title, why))
                    table.row(title, "skipped", "", "", "", "")
            table.end()
        finally:
            cluster.take_down()

    def _go_and_return(self, table, title, cluster, make):
        primary, standby = cluster.nodes
        seconds = self.options.seconds
        way = make(self.path("way"))
        try:
            end = time.time() + 3 * seconds + RETURN + 6
            directory, gate = self.directory("load"), Gate(way.conninfo(), end)
            workers = [PgbenchWorker(Kind("S", "simple", text=PLAIN), number, tool("pgbench"), way.conninfo(), directory, end, gate)
                       for number in range(8)]
            counts = Counts(cluster)
            until(lambda: sum(counts.take()), "the clients have begun")
            phases = [self._phase(counts, seconds)]
            cluster.stop(standby)
            phases.append(self._phase(counts, seconds))
            cluster.start(standby)
            cluster.wait_streaming(standby)
            time.sleep(RETURN)
            phases.append(self._phase(counts, seconds))
            records = [worker.join() for worker in workers]
            reasons = sum((collections.Counter(record.reasons) for record in records), collections.Counter())
            for text, number in reasons.most_common(2):
                table.note("%s: %d x %s" % (title, number, text))
            return [*map(shares, phases), str(sum(record.errors for record in records)), " / ".join("%.0f" % (sum(p) / seconds) for p in phases)]
        finally:
            way.stop()
            if not standby.is_alive():
                cluster.start(standby)
                cluster.wait_streaming(standby)
            assert cluster.primary is primary

    @staticmethod
    def _phase(counts, seconds):
        counts.take()
        time.sleep(seconds)
        return counts.take()


class _Single(Direct):
    """Only the primary."""

    def __init__(self, path, cluster):
        super().__init__(path, cluster)
        self.port = cluster.primary.port

    def conninfo(self):
        return super(Direct, self).conninfo()


TABLES = ("throughput", "standby")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pgweir", required=True)
    parser.add_argument("--room", required=True, help="an empty directory")
    parser.add_argument("--table", default=",".join(TABLES), help="of " + ", ".join(TABLES))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=48)
    options = parser.parse_args()
    options.table = options.table.split(",")
    if not set(options.table) <= set(TABLES):
        parser.error("a table is one of " + ", ".join(TABLES))
    return options


def main():
    options = read_options()
    os.environ["PGPASSWORD"] = SECRET
    print(machine())
    # so that everything is taken down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(options)
    for name in options.table:
        getattr(bench, name)()


if __name__ == "__main__":
    main()
