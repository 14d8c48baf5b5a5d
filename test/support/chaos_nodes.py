"""
The bank (bank.py) on three servers, while their roles change: clients write by one name, read by others, and compare the answers of standbys with a model.

A commit is acknowledged when a standby has it, too, and the standby that has received most takes over: no acknowledged transfer is lost. The journal
only grows. A stale read shows fewer rows than the model:

- Follower: the bank has acknowledged more before the read (read_your_writes = database)
- Rereader: its own last read has shown more (read_your_writes = session)
- Author: its own transfer is missing (reads = transaction or auto)
"""
import threading

import psycopg

from . import bank as b
from . import bank_clients as t
from .addresses import KINDS as ADDRESSES
from .bank import Bank
from .chaos import Chaos
from .client_errors import TERMINATED
from .live import NEVER
from .until import until

KINDS = ("switch", "crash", "hang", "freeze", "delay")
LOST = (TERMINATED, "HOST_ROLE", "HOST_LOST", "TRANSACTION_LOST", "OUTCOME_UNKNOWN", "SERVER_CRASHED")
POOL_SIZE = 8
THINKS = 0.3                    # seconds in which a standby has got a transfer: a read before goes to the primary, and the next one must not see less

# pgweir takes pg_is_in_recovery() itself to the primary
FUNCTION = "CREATE FUNCTION is_standby() RETURNS bool STABLE LANGUAGE plpgsql AS 'BEGIN RETURN pg_is_in_recovery(); END'"
JOURNAL = "SELECT count(*), count(*) FILTER (WHERE number = %s), is_standby() FROM journal"
RECEIVED = "SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint"


class Reader(t.BankClient):
    """stale: reads that were older than the model. from_standbys: reads that a standby has answered. last_rows: rows of the last read of this connection."""
    database = "p0"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stale = self.from_standbys = self.last_rows = 0

    def work(self, connection):
        raise NotImplementedError

    def visit(self):
        with psycopg.connect(**dict(self.place, dbname=self.database), autocommit=True) as connection:
            self.last_rows = 0
            while self.stays():
                self.work(connection)

    def read(self, connection, number=0):
        """The number of rows, and the number of rows of this transfer."""
        rows, own, is_standby = connection.execute(JOURNAL, (number,)).fetchone()
        self.from_standbys += is_standby
        return rows, own


class Follower(Reader):
    database = "p0_all"

    def work(self, connection):
        least = self.bank.entered
        self.stale += self.read(connection)[0] < least


class Rereader(Reader):
    database = "p0_own"

    def work(self, connection):
        rows, _ = self.read(connection)
        self.stale += rows < self.last_rows
        self.last_rows = rows


class Author(Reader):
    database = "p0_reads"       # the primary serves no share of its reads: a standby has to cover each read of the primary

    def work(self, connection):
        transfer = self.bank.transfer(self.name, self.draw)
        with connection.transaction():
            for statement in transfer.statements():
                b.own_rows(connection.execute(statement).fetchall(), transfer.tag)
            self.bank.commits(transfer)
        self.bank.committed(transfer)
        for _ in range(self.draw.randint(1, 3)):
            self.bank.over.wait(self.draw.choice((0, THINKS)))
            is_single = self.bank.is_auto and self.draw.random() < 0.5
            if not is_single:
                connection.execute("BEGIN READ ONLY")
            self.stale += self.read(connection, transfer.number)[1] != 1
            if not is_single:
                connection.execute("COMMIT")


WRITERS = [t.Plain] * 2 + [t.Prepared, t.Pipelined, t.Asynchronous, t.Porter] + [t.Witness] * 2
READERS = [Follower] * 2 + [Rereader] * 2 + [Author] * 2


class NodesBank(Bank):
    """entered: at most the number of acknowledged transfers. is_auto: single statements may be executed by a standby."""

    def __init__(self, server, is_auto):
        self.entered = 0
        self.is_auto = is_auto
        self._lock = threading.Lock()
        super().__init__(server)
        server.execute(FUNCTION, database="p0")

    def committed(self, transfer):
        super().committed(transfer)
        with self._lock:
            self.entered += transfer.source is not None


class Current:
    """The server that is the primary now."""

    def __init__(self, nodes):
        self._nodes = nodes

    def execute(self, *arguments, **more):
        return self._nodes.primary.execute(*arguments, **more)


class Roles:
    """One method for each kind. In the end there are a primary and two standbys."""

    def __init__(self, nodes, addresses, bank, draw, fails):
        self.nodes, self.addresses, self.bank, self.draw, self.fails = nodes, addresses, bank, draw, fails

    def _more(self):
        self.bank.wait_for_more(fails=self.fails)

    def _promote(self):
        self.nodes.promote(max(self.nodes.standbys, key=lambda node: node.value(RECEIVED)))

    def _go_on(self):
        self.addresses.moves()
        self._more()

    def _rejoin(self, node):
        self.nodes.rejoin(node)
        self.addresses.moves()

    def switch(self):
        """The addresses follow before or after the old primary is back."""
        old = self.nodes.primary
        self.nodes.stop(old)
        self._promote()
        if self.draw.random() < 0.5:
            self._go_on()
        self._rejoin(old)

    def crash(self):
        old = self.nodes.primary
        self.nodes.kill9(old)
        self._promote()
        self._go_on()
        self._rejoin(old)

    def hang(self):
        """SIGSTOP of the primary, and SIGCONT when there is another one."""
        old = self.nodes.primary
        self.nodes.pause(old)
        self._promote()
        self._go_on()
        self.nodes.resume(old)
        self._more()
        self._rejoin(old)

    def freeze(self):
        """A standby that replays nothing for a time."""
        standby = self.draw.choice(self.nodes.standbys)
        self.nodes.freeze_replay(standby)
        self._more()
        self.nodes.thaw_replay(standby)

    def delay(self):
        """A standby that replays late."""
        standby = self.draw.choice(self.nodes.standbys)
        self.nodes.apply_delay(standby, self.draw.choice((20, 100, 300)))
        self._more()
        self.nodes.apply_delay(standby, 0)


class NodesChaos(Chaos):
    """
    - is_fresh: False for read_your_writes = off, with which reads are stale
    - reads: the setting, transaction or auto
    - by: how pgweir finds the servers (addresses.py)
    """

    def __init__(self, scene, seed, kinds=KINDS, is_fresh=True, reads="transaction", by="listed"):
        self.is_fresh, self.reads, self.by = is_fresh, reads, ADDRESSES[by]
        super().__init__(scene, None, seed, kinds)

    def _open(self, scene, authority, settings):
        self.nodes = scene.nodes(one_port=self.by.one_port, synchronous_standby_names="ANY 1 (n1, n2, n3)")
        addresses = self.by(scene, self.nodes, self.draw)
        self.server = Current(self.nodes)
        levels = ("session", "database") if self.is_fresh else ("off", "off")
        self.bank = NodesBank(self.server, self.reads == "auto")
        allowed = dict(read_functions="is_standby") if self.bank.is_auto else {}
        transfers = dict(reads=self.reads, read_your_writes=levels[0], **allowed)
        target = addresses.target
        readers = dict(target_session_attrs="prefer-standby", load_balance_hosts="round-robin")
        self.weir = scene.weir(
            {"p0": target("p0", target_session_attrs="primary", **transfers),
             "p0_reads": target("p0", target_session_attrs="primary", reads_on_primary="off", **transfers),
             "p0_own": target("p0", read_your_writes=levels[0], **readers), "p0_all": target("p0", read_your_writes=levels[1], **readers)},
            pool_mode="transaction", default_pool_size=POOL_SIZE, max_client_conn=200, server_login_retry=0, query_wait_timeout=NEVER,
            # a role that may see the WAL receiver: otherwise a standby is read again minutes after a change of roles (hosts.md, Standbys)
            host_check_period=0.1, host_check_user="postgres", **addresses.settings, **settings)
        self.troubles = Roles(self.nodes, addresses, self.bank, self.draw, self._is_stuck)

    def _allowed(self):
        return LOST

    def _ranks(self):
        return WRITERS + READERS, ("disable",)

    def _round(self):
        self._hand(self.draw.choice(self.kinds))

    def stale(self):
        """{name of a kind of reader: (reads of standbys, stale reads)}"""
        found = {}
        for bank_client in self.crew:
            if isinstance(bank_client, Reader):
                reads, stale = found.get(type(bank_client).__name__, (0, 0))
                found[type(bank_client).__name__] = (reads + bank_client.from_standbys, stale + bank_client.stale)
        return found

    def audit(self):
        until(lambda: not [client for client in self.weir.show("CLIENTS") if client["database"].startswith("p0")], "all clients are gone")
        return self.figures(*self.bank.audit()) + "; " + ", ".join("%s: %d of standbys, %d stale" % (name, *counts) for name, counts in self.stale().items())
