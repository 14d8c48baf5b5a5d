"""
An administrator that does everything at once, under load: commands in random order, signals, a configuration that
changes, servers and clients that come and go. No client receives a wrong answer, and when it is over everything
works.
"""
import os
import random
import signal
import threading

import psycopg2
import pytest

from support import messages as m
from support.rounds import rounds
from support.threads import run_in_threads
from support.until import until
from support.wire import Closed, LoginRefused

SHOWS = ("POOLS", "CLIENTS", "SERVERS", "SOCKETS", "ACTIVE_SOCKETS", "STATS", "STATS_TOTALS", "STATS_AVERAGES", "TOTALS",
         "DATABASES", "USERS", "LISTS", "CONFIG", "FDS", "MEM", "DNS_HOSTS", "DNS_ZONES", "STATE", "VERSION", "HELP")
SETTINGS = {
    "default_pool_size": (1, 2, 5), "server_lifetime": (0, 3600), "server_idle_timeout": (0.1, 600), "pkt_buf": (2048, 4096),
    "query_wait_timeout": (30, 120), "server_round_robin": (0, 1), "server_fast_close": (0, 1), "sbuf_loopcnt": (1, 5, 0),
    "max_db_connections": (0, 2), "reserve_pool_size": (0, 1), "server_check_delay": (0, 30), "verbose": (0, 1),
    "pool_mode": ("transaction", "session", "statement"), "min_pool_size": (0, 1), "max_user_connections": (0, 3),
    "log_connections": (0, 1), "no_such_setting": (1,), "max_packet_size": (2147483647, 1000000),
}


class Guest:
    """Connects, sends queries, checks answers, disconnects. The connection may be refused or ended, but never gets a wrong answer."""

    def __init__(self, weir, name, over):
        self.weir, self.name, self.over = weir, name, over
        self.draw = random.Random(name)
        self.answered = 0

    def run(self):
        while not self.over.is_set():
            client = self.weir.connect()
            try:
                client.login(user=self.draw.choice(("app", "rival")), database=self.draw.choice(("p0", "p1")))
                for turn in range(self.draw.randrange(1, 20)):
                    self.ask(client, "%s %d" % (self.name, turn))
            except (Closed, LoginRefused, OSError):
                pass
            self.draw.choice((client.close, client.abort))()

    def ask(self, client, text):
        client.send(self.draw.choice((m.query(text), m.run(text) + m.sync(), m.query("BEGIN;%s;COMMIT" % text))))
        result = client.result()
        if result.errors:
            raise Closed(result.error)
        assert result.rows == [[text.encode()]], (text, result.rows)
        self.answered += 1


_writing = threading.Lock()


def write_ini(weir, text=None):
    """As a careful administrator does it: no process ever reads half of the file."""
    with _writing:
        path = weir.ini_path
        weir.ini_path = path + ".new"
        weir.write_ini(text)
        weir.ini_path = path
        os.replace(path + ".new", path)


def command(draw, weir):
    """Runs one command. A command that would wait for a client is interrupted by closing its connection."""
    database = draw.choice(("", " p0", " p1", " nosuch"))
    kind = draw.randrange(14)
    if kind < 4:
        return "SHOW " + draw.choice(SHOWS)
    if kind == 4:
        return "PAUSE" + database
    if kind < 7:
        return "RESUME" + database
    if kind == 7:
        return draw.choice(("KILL", "RECONNECT", "RECONNECT", "DISABLE", "ENABLE", "WAIT_CLOSE")) + (database or " p0")
    if kind == 8:
        name = draw.choice(sorted(SETTINGS))
        return "SET %s = '%s'" % (name, draw.choice(SETTINGS[name]))
    if kind == 9:
        weir.settings["default_pool_size"] = draw.choice((1, 2, 3))
        weir.settings["pool_mode"] = draw.choice(("transaction", "session"))
        write_ini(weir)
        return "RELOAD"
    if kind == 10:
        write_ini(weir, "[databases]\n[pgbouncer]\nnonsense = 1\n")
        return "RELOAD"
    if kind == 11:
        return "SUSPEND"
    if kind == 12:
        return "KILL_CLIENT %d" % draw.randrange(2 ** 20)
    return draw.choice(("nonsense", "", ";", "SHOW", "SET", "SHOW NOSUCH", "KILL_CLIENT", "PAUSE a b c", "SELECT 1", "RESUME;"))


class Administrator:
    def __init__(self, weir, seed, count):
        self.weir, self.count = weir, count
        self.draw = random.Random(seed)

    def run(self):
        console = None
        for _ in range(self.count):
            console = console or self.weir.connect()
            try:
                if not console.pid:
                    console.login(user="admin", database="pgbouncer")
                text = command(self.draw, self.weir)
                console.send(m.query(text))
                if text.startswith(("PAUSE", "SUSPEND", "WAIT_CLOSE", "KILL")) or self.draw.random() < 0.05:
                    # does not wait, sometimes not even for the command to be read
                    self.draw.choice((console.close, console.abort, lambda: None))()
                    console = None
                else:
                    console.result()
            except (Closed, LoginRefused, OSError):
                console = None


def settle(weir):
    """Back to a sane state, by the means an administrator has."""
    weir.settings.update(default_pool_size=2, pool_mode="transaction")
    write_ini(weir)
    for database in ("p0", "p1"):
        for word in ("ENABLE", "RESUME"):
            try:
                weir.admin("%s %s" % (word, database))
            except psycopg2.Error:
                pass
    try:
        weir.admin("RESUME")
    except psycopg2.Error:
        pass
    weir.admin("RELOAD")


@pytest.mark.parametrize("seed", range(3))
def test_commands_in_random_order_under_load(scene, seed):
    fakes = [scene.mini(), scene.mini()]
    weir = scene.weir({"p0": fakes[0], "p1": fakes[1]}, pool_mode="transaction", default_pool_size=2, server_login_retry=0,
                      suspend_timeout=0.2, query_wait_notify=0, query_wait_timeout=0.5, max_client_conn=5000, allow="nonsense|unknown")
    over = threading.Event()
    guests = [Guest(weir, "guest %d.%d" % (seed, n), over) for n in range(8)]
    threads = [threading.Thread(target=guest.run) for guest in guests]
    for thread in threads:
        thread.start()
    draw = random.Random(seed)

    def troubles():
        for _ in rounds(60):
            for fake in fakes:
                if draw.random() < 0.3:
                    fake.drop_all()
            if draw.random() < 0.5:
                weir.signal(draw.choice((signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)))
            weir.connect().close()

    try:
        run_in_threads(troubles, *(Administrator(weir, "%d.%d" % (seed, n), len(rounds(300))).run for n in range(3)))
    finally:
        over.set()
        settle(weir)
        for thread in threads:
            thread.join()
    assert sum(guest.answered for guest in guests) > 0
    until(lambda: not [c for c in weir.show("CLIENTS") if c["database"] in ("p0", "p1")], "all guests are gone")
    for database in ("p0", "p1"):
        for user in ("app", "rival"):
            assert weir.client(user=user, database=database).query("all is well").value == "all is well"
    weir.wait_asleep()


def test_storm_of_signals(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=2)
    client = weir.client()
    draw = random.Random(1)
    for turn in rounds(300):
        weir.signal(draw.choice((signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)))
        if turn % 30 == 0:
            weir.signal(signal.SIGUSR2)
            client.send(m.query("turn %d" % turn))
            weir.barrier()
            weir.signal(signal.SIGUSR2)
    weir.barrier()
    weir.signal(signal.SIGUSR2)
    for turn in rounds(300):
        if turn % 30 == 0:
            assert client.result().value == "turn %d" % turn
    weir.wait_asleep()
