#!/usr/bin/env python3
"""
Effects of a failover on clients, by the way in which they are connected.

failover.py --pgweir PROGRAM --pgbouncer PROGRAM --room DIR [--way LIST] [--event LIST] [--turns N] [--clients N] [--detail] [--quick]

Usually run by failover.sh, which builds the programs and describes the table. Run it as an ordinary user, with PYTHONPATH naming the directory test/.
"""
import argparse
import collections
import os
import signal
import statistics
import sys
import threading
import time

import psycopg2

from bench import machine
from failover_clients import KINDS, Crowd, Figures
from turns import Printer
from ways import DATABASE, SECRET, USER, Chain, Direct, HaProxy, Pgweir, Unavailable

from support.nodes import Nodes
from support.patroni import PatroniNodes
from support.postgres import tool
from support.until import until

CALM = 0.5                      # seconds of load before the event
STARTING = 5.0                  # seconds in which all clients must have begun
TABLE = "CREATE TABLE counters (worker int PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 10)"
POLL = 0.01                     # seconds between two questions for the role of a server

WAYS = {
    "direct": ("direct, libpq", lambda bench, cluster, path: Direct(path, cluster)),
    "pgbouncer": ("PgBouncer, HAProxy", lambda bench, cluster, path: Chain(path, cluster, bench.options.pgbouncer)),
    "haproxy": ("HAProxy", lambda bench, cluster, path: HaProxy(path, cluster)),
    "pgweir": ("pgweir, hosts", lambda bench, cluster, path: Pgweir(
        path, bench.options.pgweir, cluster.target(DATABASE, target_session_attrs="primary"))),
    "pgweir-patroni": ("pgweir, patroni", lambda bench, cluster, path: Pgweir(
        path, bench.options.pgweir, "dbname=%s target_session_attrs=primary patroni=%s" % (DATABASE, cluster.urls))),
}


class Event:
    """title, and the seconds of load after the event: longer than any way should need."""

    def __init__(self, title, seconds, cause, is_patroni=True):
        self.title, self.seconds, self.cause, self.is_patroni = title, seconds, cause, is_patroni


def stop_and_promote(nodes):
    """An administrator with a script."""
    candidate = nodes.standbys[0]
    nodes.stop(nodes.primary)
    nodes.promote(candidate)


EVENTS = {
    "switchover": Event("switchover by Patroni", 7, lambda patroni: patroni.switchover()),
    "postgres": Event("kill -9 PostgreSQL", 8, lambda patroni: patroni.kill_postgres(patroni.primary)),
    "machine": Event("kill -9 PostgreSQL and Patroni", 12, lambda patroni: patroni.kill_machine(patroni.primary)),
    "promote": Event("stop, pg_promote", 6, stop_and_promote, is_patroni=False),
}


class Watch:
    """Asks each server directly whether it is the primary."""

    def __init__(self, cluster):
        self._times = collections.deque()
        self._stopped = False
        self._threads = [threading.Thread(target=self._run, args=(node,)) for node in cluster.nodes]
        for thread in self._threads:
            thread.start()

    def _run(self, node):
        connection = None
        while not self._stopped:
            try:
                if connection is None:
                    connection = node.connect(connect_timeout=2)
                    connection.autocommit = True
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_is_in_recovery()")
                    if not cursor.fetchone()[0]:
                        self._times.append(time.time())
            except psycopg2.Error:
                if connection:
                    connection.close()
                connection = None
            time.sleep(POLL)
        if connection:
            connection.close()

    def without_primary(self, begin):
        """The longest time without a primary after `begin`, in seconds."""
        self._stopped = True
        for thread in self._threads:
            thread.join()
        times = sorted(self._times)
        return max((after - before for before, after in zip(times, times[1:]) if after > begin), default=0)


class Cell:
    """The results of the turns of one way in one event."""

    def __init__(self, turns):
        self.own = statistics.median(own for own, _ in turns)
        self.outside = sum(figures.errors for _, kinds in turns for kind, figures in kinds.items() if not kind.in_transaction)
        self.inside = sum(figures.errors for _, kinds in turns for kind, figures in kinds.items() if kind.in_transaction)
        self.pause = statistics.median(max(figures.pause for figures in kinds.values()) for _, kinds in turns)
        self.excess = statistics.median(max(figures.pause for figures in kinds.values()) - own for own, kinds in turns)
        self.is_over = all(figures.is_over for _, kinds in turns for figures in kinds.values())
        self.lost = sum(figures.lost for _, kinds in turns for figures in kinds.values())
        self.doubled = sum(figures.doubled for _, kinds in turns for figures in kinds.values())

    def __str__(self):
        more = "" if self.is_over else ">"
        return "%d + %d / %s%.0f / %.0f / %s%+.0f / %d" % (
            self.outside, self.inside, more, self.pause * 1000, self.own * 1000, more, self.excess * 1000, self.lost + self.doubled)


class Bench:
    def __init__(self, options):
        self.options = options
        self._count = 0
        self._clusters = {}
        self._table = None
        self._details = []

    def path(self, name):
        self._count += 1
        return os.path.join(self.options.room, "%s.%d" % (name, self._count))

    def _cluster(self, event):
        if event.is_patroni not in self._clusters:
            directory = self.path("cluster")
            os.mkdir(directory)
            kind = PatroniNodes if event.is_patroni else Nodes
            cluster = kind(directory, self.options.room, max_connections="100")
            self._clusters[event.is_patroni] = cluster
            cluster.primary.execute(TABLE, database=DATABASE, user=USER)
        return self._clusters[event.is_patroni]

    def stop(self):
        for cluster in self._clusters.values():
            cluster.take_down()

    # --- one event

    def _turn(self, event, make):
        """The time without a primary, and {kind: figures}."""
        cluster = self._cluster(event)
        self._mend(event, cluster)
        workers = len(KINDS) * self.options.clients
        cluster.primary.execute("TRUNCATE counters", database=DATABASE)
        cluster.primary.execute("INSERT INTO counters SELECT i, 0 FROM generate_series(1, %s) i", (workers,), database=DATABASE)
        cluster.wait_replayed()
        way = make(self, cluster, self.path("way"))
        try:
            directory = self.path("load")
            os.mkdir(directory)
            end = time.time() + STARTING + CALM + event.seconds
            watch = Watch(cluster)
            crowd = Crowd(tool("pgbench"), way.conninfo(), directory, self.options.clients, end)
            begin = 0
            try:
                self._wait_for_all(cluster)
                time.sleep(CALM)
                begin = time.time()
                event.cause(cluster)
            finally:
                records = crowd.join()
                own = watch.without_primary(begin)
            numbers = dict(cluster.primary.execute("SELECT worker, n FROM counters", database=DATABASE))
            return own, {kind: Figures.of(records[kind.name], numbers, begin, end) for kind in KINDS}
        finally:
            way.stop()

    @staticmethod
    def _wait_for_all(cluster):
        late = "SELECT count(*) FROM counters WHERE n = 0"
        until(lambda: cluster.primary.value(late, database=DATABASE) == 0, "all clients have begun", deadline=STARTING)

    @staticmethod
    def _mend(event, cluster):
        """All servers run again, before the next event."""
        if event.is_patroni:
            cluster.heal()
            return
        for node in cluster.nodes:
            if node is not cluster.primary and not node.is_alive():
                cluster.rejoin(node)

    def _cell(self, way, event):
        title, make = WAYS[way]
        turns = [self._turn(event, make) for _ in range(self.options.turns)]
        for kind in KINDS:
            figures = [kinds[kind] for _, kinds in turns]
            reasons = sum((each.reasons for each in figures), collections.Counter())
            pauses = [[each.pause for each in figures], [each.held for each in figures if each.held is not None]]
            self._details.append((title, event.title, kind.name, str(sum(each.errors for each in figures)),
                                  *("%.0f" % (1000 * statistics.median(each)) if each else "-" for each in pauses),
                                  str(sum(each.lost for each in figures)), str(sum(each.doubled for each in figures)),
                                  "; ".join("%d x %s" % (n, text) for text, n in reasons.most_common(2))))
        return str(Cell(turns))

    # --- the tables

    def play(self):
        events = [EVENTS[name] for name in self.options.event]
        table = Printer("Errors outside + within transactions / longest pause of a client, ms / the servers' own time without a primary, ms / the "
                        "difference / acknowledged writes that were lost or executed twice", "way", *(event.title for event in events))
        for way in self.options.way:
            cells = []
            for event in events:
                if way == "pgweir-patroni" and not event.is_patroni:
                    cells.append("-")
                    continue
                try:
                    cells.append(self._cell(way, event))
                except Unavailable as why:
                    table.note("%s: skipped, %s" % (WAYS[way][0], why))
                    cells.append("skipped")
                except AssertionError as why:
                    table.note("%s, %s: %s" % (WAYS[way][0], event.title, why))
                    cells.append("failed")
            table.row(WAYS[way][0], *cells)
        table.end()
        if self.options.detail:
            self._print_details()

    def _print_details(self):
        detail = Printer("By kind of client", "way", "event", "clients", "errors", "pause, ms", "of those without an error", "lost", "twice",
                         "errors in words")
        for row in self._details:
            detail.row(*row)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pgweir", required=True)
    parser.add_argument("--pgbouncer", required=True)
    parser.add_argument("--room", required=True, help="an empty directory")
    parser.add_argument("--way", default=",".join(WAYS), help="of " + ", ".join(WAYS))
    parser.add_argument("--event", help="of " + ", ".join(EVENTS))
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8, help="of each kind")
    parser.add_argument("--detail", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.way = options.way.split(",")
    options.event = (options.event or ("switchover,promote" if options.quick else ",".join(EVENTS))).split(",")
    for given, known in ((options.way, WAYS), (options.event, EVENTS)):
        if not set(given) <= set(known):
            parser.error("known are " + ", ".join(known))
    return options


def main():
    options = read_options()
    os.environ["PGPASSWORD"] = SECRET
    print(machine())
    # so that everything is taken down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(options)
    try:
        bench.play()
    finally:
        bench.stop()


if __name__ == "__main__":
    main()
