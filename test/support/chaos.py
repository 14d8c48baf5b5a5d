"""
A bank (bank.py) at work through pgweir while everything around it is killed, restarted, reloaded, paused and replaced; and the audit afterwards.

Each kind of trouble lists the errors that clients may get because of it. Most kinds must not be noticed at all: with `--kinds
reload,pause,suspend,reconnect,replace,vanish` a single error is a failure.

The seed determines the kinds of events but not their time: troubles wait for transfers, never for a time.
"""
import contextlib
import os
import random
import signal
import threading
import time
import traceback

from . import bank_clients as t
from .bank import Bank
from .client_errors import SERVER_AWAY, TERMINATED, ClientErrors
from .live import NEVER
from .takeover import Replaced
from .truth import at_rest
from .until import DEADLINE, until

POOL_SIZE = 5
HANGS = 60.0                    # a client without progress for this many seconds is considered stuck

CREW = [t.Plain] * 3 + [t.Prepared] * 3 + [t.Pipelined] * 2 + [t.Asynchronous] * 3 + [t.Porter, t.Visitor] + [t.Witness] * 2

# Settings that a RELOAD may change at any time, with valid values.
CHANGES = {
    "default_pool_size": (2, 4, 5, 5, 6), "min_pool_size": (0, 3, 5), "reserve_pool_size": (0, 2), "reserve_pool_timeout": (0, 0.01, 5),
    "max_db_connections": (0, 4), "max_prepared_statements": (5, 50, 200), "server_lifetime": (0, 0.5, 3600),
    "server_idle_timeout": (0, 0.1, 600), "server_check_delay": (0, 30), "server_check_query": ("", "SELECT 1", "<empty>"),
    "server_round_robin": (0, 1), "server_fast_close": (0, 1), "server_reset_query_always": (0, 1), "sbuf_loopcnt": (0, 1, 5),
    "application_name_add_host": (0, 1), "track_extra_parameters": ("", "IntervalStyle", "search_path, IntervalStyle"),
    "server_tls_sslmode": ("disable", "disable", "prefer", "require"), "server_max_protocol_version": ("3.0", "3.2"),
    "tcp_keepalive": (0, 1), "log_connections": (0, 1), "stats_period": (1, 60), "verbose": (0, 0, 1),
}


class Troubles:
    """One method for each kind. A method leaves everything as it found it, but for settings and lost connections."""

    def __init__(self, server, weir, draw):
        self.server, self.weir, self.draw = server, weir, draw

    # --- done to the server

    def _backends(self):
        return self.server.backends("p0")

    def terminate(self):
        """pg_terminate_backend of one, or of all."""
        pids = self._backends()
        for pid in pids if self.draw.random() < 0.2 else self.draw.sample(pids, min(1, len(pids))):
            self.server.execute("SELECT pg_terminate_backend(%s)", (pid,))

    def kill9(self):
        """SIGKILL of a backend: PostgreSQL ends all the others and recovers."""
        pids = self._backends()
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.draw.choice(pids), signal.SIGKILL)
            until(self._is_back, "the server has recovered", deadline=3 * DEADLINE)

    def _is_back(self):
        try:
            self.server.connect().close()
        except t.GONE:
            return False
        return True

    def fast(self):
        self.server.restart(signal.SIGINT)

    def immediate(self):
        self.server.restart(signal.SIGQUIT)

    # --- done on the console

    def reload(self):
        for name in self.draw.sample(sorted(CHANGES), 4):
            self.weir.settings[name] = self.draw.choice(CHANGES[name])
        if self.draw.random() < 0.3:
            name = "extra%d" % self.draw.randrange(5)
            if self.weir.databases.pop(name, None) is None:
                self.weir.databases[name] = self.server.target("p1")
        if self.draw.random() < 0.3:
            # the same server by another name: all connections are replaced
            self.weir.databases["p0"] = self.server.target("p0", connect_query="'SELECT %d'" % self.draw.randrange(5))
        self.weir.write_ini()
        if self.draw.random() < 0.5:
            self.weir.signal(signal.SIGHUP)
        else:
            self.weir.admin("RELOAD")

    def pause(self):
        name = self.draw.choice(("", " p0"))
        self.weir.admin("PAUSE" + name)
        self.weir.show("POOLS")
        self.weir.admin("RESUME" + name)

    def suspend(self):
        self.weir.admin("SUSPEND")
        self.weir.admin("RESUME")

    def reconnect(self):
        self.weir.admin(self.draw.choice(("RECONNECT", "RECONNECT p0")))
        if self.draw.random() < 0.5:
            self.weir.admin("WAIT_CLOSE p0")

    def kill(self):
        self.weir.admin("KILL p0")
        self.weir.admin("RESUME p0")

    def kill_client(self):
        clients = [row for row in self.weir.show("CLIENTS") if row["database"] == "p0"]
        if clients:
            with contextlib.suppress(t.psycopg2.Error):         # it may have left meanwhile
                self.weir.admin("KILL_CLIENT %s" % self.draw.choice(clients)["ptr"])

    def look(self):
        """Reads the SHOW tables, as a monitoring program does."""
        for what in ("CLIENTS", "SERVERS", "POOLS", "STATS", "SOCKETS", "FDS", "MEM", "LISTS", "REASONS", "DATABASES", "USERS", "CONFIG"):
            self.weir.show(what)

    # --- done to the process

    def replace(self):
        """An online restart."""
        self.weir.replace()


AWAY = (*SERVER_AWAY, TERMINATED, "SERVER_CRASHED", "CONNECT_FAILED", "SERVER_TLS", "LOGIN_FAILING")
KILLED = ("ADMIN_KILL",)

# kind: the errors that clients may get because of it. Kinds without a method of Troubles add to the crew instead.
SERVER = {"terminate": (TERMINATED, "SERVER_CRASHED"), "kill9": AWAY, "fast": AWAY, "immediate": AWAY}
CONSOLE = {"reload": (), "pause": (), "suspend": (), "reconnect": (), "kill": KILLED, "kill_client": KILLED, "look": ()}
PROCESS = {"replace": ()}
CLIENTS = {"vanish": (), "cancel": ()}
KINDS = {**SERVER, **CONSOLE, **PROCESS, **CLIENTS}


class Chaos:
    """
    scene, authority    of conftest.py
    seed                of all that is drawn
    kinds               names of KINDS
    settings            of pgweir
    """

    def __init__(self, scene, authority, seed, kinds=tuple(KINDS), **settings):
        self.kinds = kinds
        self.draw = random.Random("chaos %s" % seed)
        self.faults = []
        self.happened = dict.fromkeys(kinds, 0)
        self.crew = []
        self._threads = []
        self.client_errors = ClientErrors(*self._allowed())
        self._open(scene, authority, settings)

    def _open(self, scene, authority, settings):
        """Starts the servers, pgweir and the bank."""
        # acknowledged commits must survive the processes, but not a crash of the machine
        self.server = scene.postgres(authority=authority, synchronous_commit="on")
        self.weir = scene.weir({"p0": self.server}, kind=Replaced, pool_mode="transaction", default_pool_size=POOL_SIZE,
                               auth_type="scram-sha-256", max_client_conn=200, server_login_retry=0.1, max_prepared_statements=50,
                               server_tls_sslmode="disable", client_tls_sslmode="allow", query_wait_timeout=NEVER,
                               client_tls_cert_file=authority.cert("server"), client_tls_key_file=authority.key("server"), **settings)
        self.bank = Bank(self.server)
        self.troubles = Troubles(self.server, self.weir, self.draw)

    def _allowed(self):
        """Errors that clients may get."""
        return [words for kind in self.kinds for words in KINDS[kind]]

    # --- the crew

    def _ranks(self):
        """The clients, and values of sslmode."""
        ranks = list(CREW)
        if "cancel" in self.kinds:
            ranks += [t.Canceller, t.Canceller, t.Impatient]
        if "vanish" in self.kinds:
            ranks += [t.CancellingVandal if "cancel" in self.kinds else t.Vandal] * 2
        # those under TLS stay with the old process when a new one takes over
        return ranks, ("disable", "disable", "disable", "require")

    def _hire(self):
        ranks, sslmodes = self._ranks()
        self.crew = t.bank_clients(ranks, self.bank, self.weir, self.client_errors, self.draw, sslmodes)
        self._threads = [threading.Thread(target=self._guard, args=(bank_client,), name=bank_client.name, daemon=True) for bank_client in self.crew]

    def _guard(self, bank_client):
        try:
            bank_client.run()
        except BaseException:       # pylint: disable=broad-except
            self.faults.append("%s: %s" % (bank_client, traceback.format_exc()))
            self.bank.over.set()

    def _has_failed(self):
        return bool(self.faults or self.client_errors.undocumented)

    # --- troubles

    def _shake(self, kind):
        self.happened[kind] += 1
        getattr(self.troubles, kind)()

    def _round(self):
        """One trouble, or one of the server's together with another."""
        hands = [[kind for kind in self.kinds if kind in hand] for hand in (SERVER, {**CONSOLE, **PROCESS})]
        hands = [[self.draw.choice(hand)] for hand in hands if hand]
        if len(hands) > 1 and self.draw.random() < 0.6:
            hands = [self.draw.choice(hands)]
        threads = [threading.Thread(target=self._hand, args=hand, daemon=True) for hand in hands]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _hand(self, kind):
        try:
            self._shake(kind)
        except Exception:           # pylint: disable=broad-except
            self.faults.append("%s: %s" % (kind, traceback.format_exc()))

    def _is_stuck(self):
        """No client may be without progress for long, even if all others proceed."""
        now = time.monotonic()
        for bank_client in self.crew:
            turns, since = getattr(bank_client, "seen", (-1, now))
            bank_client.seen = (bank_client.turns, since if bank_client.turns == turns else now)
            if now - bank_client.seen[1] > HANGS and not self.bank.over.is_set():
                self.faults.append("%s hangs in its piece of work %d" % (bank_client, bank_client.turns))
        return self._has_failed()

    # --- the whole

    def play(self, rounds):
        """rounds: for each of its items there is a round of troubles. Then all clients end."""
        self._hire()
        for thread in self._threads:
            thread.start()
        try:
            for _ in rounds:
                self._round()
                self.bank.wait_for_more(fails=self._is_stuck)
                if self._has_failed():
                    break
        finally:
            self.bank.over.set()
            for thread in self._threads:
                thread.join(3 * DEADLINE)
                if thread.is_alive():
                    self.faults.append("%s does not come home" % thread.name)
        assert not self.faults, "\n".join(self.faults)
        assert not self.client_errors.undocumented, dict(self.client_errors.undocumented)

    def audit(self):
        """Checks the books, and pgweir's figures after all clients have disconnected. Returns a line of figures."""
        at_rest(self.weir, POOL_SIZE + 2)
        for predecessor in self.weir.predecessors:
            assert predecessor.wait(DEADLINE) == 0
        self._is_consistent()
        return self.figures(*self.bank.audit())

    def figures(self, begun, committed, doubtful, there):
        """A line of the results of the audit."""
        troubles = " ".join("%s=%d" % item for item in self.happened.items() if item[1])
        told = sum(self.client_errors.counts.values())
        return ("%d transfers begun, %d acknowledged and there once, %d in doubt (%d there), %d errors of %d texts; %s"
                % (begun, committed, doubtful, there, told, len(self.client_errors.counts), troubles or "no troubles"))

    def _is_consistent(self):
        """Checks that SHOW, the kernel and PostgreSQL report the same connections."""
        weir = self.weir
        until(lambda: sorted(row["remote_pid"] for row in weir.show("SERVERS") if row["database"] == "p0") == sorted(self.server.backends("p0")),
              "SHOW SERVERS has the backends of the server")
        # the answers of one round that agree are enough: a server that ends between two SHOWs is in one of them only
        rounds = []
        with contextlib.suppress(AssertionError):
            until(lambda: rounds.append(self._disagreements()) or not rounds[-1])
        assert not rounds[-1], "SHOW disagrees with itself: %r" % rounds[-1]

    def _disagreements(self):
        """Counts of the same things from different tables, where they differ. The only client is the console that asks, which FDS lacks."""
        weir = self.weir
        lists = {row["list"]: row["items"] for row in weir.show("LISTS")}
        memory = {row["name"]: row for row in weir.show("MEM")}
        pools, tasks = weir.show("POOLS"), [row["task"] for row in weir.show("FDS")]
        states = {prefix: sum(value for row in pools for name, value in row.items() if name.startswith(prefix)) for prefix in ("cl_", "sv_")}
        servers, clients = len(weir.show("SERVERS")), len(weir.show("CLIENTS"))
        counts = {
            "clients": (1, clients, lists["used_clients"], memory["client_cache"]["used"], states["cl_"], 1 + tasks.count("client")),
            "servers": (servers, lists["used_servers"], memory["server_cache"]["used"], states["sv_"], tasks.count("server")),
        }
        return {what: each for what, each in counts.items() if len(set(each)) > 1}
