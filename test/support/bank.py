"""
A bank whose books must be correct, whatever happens to the servers, the pooler and the clients.

Every transfer has its own number, drawn here and written into the journal by the transaction that moves the money. The bank records the client's
knowledge of each transfer, so that the audit can check: an acknowledged commit is present, none is present twice, a transfer that cannot have been
committed is absent, and the balances match the journal. The tables have no constraint against a second row: the audit is to find duplicates, not
prevent them.

Every row that is read carries the tag of its reader: see `own_rows`.
"""
import itertools
import threading
from collections import Counter, defaultdict

from .until import DEADLINE, until

ACCOUNTS = 20

TABLES = """
DROP TABLE IF EXISTS accounts, journal, parcels;
CREATE TABLE accounts AS SELECT n::int AS id, 0::bigint AS balance FROM generate_series(1, %d) n;
ALTER TABLE accounts ADD PRIMARY KEY (id);
CREATE TABLE journal (number bigint, bank_client text, source int, target int, amount bigint);
CREATE TABLE parcels (number bigint, bank_client text, piece int);
ALTER TABLE accounts OWNER TO app;
ALTER TABLE journal OWNER TO app;
ALTER TABLE parcels OWNER TO app
""" % ACCOUNTS

# The statements, with the parameters in order, each used once. The tag of the reader is the last parameter.
MOVE = "UPDATE accounts SET balance = balance + $1::bigint WHERE id = $2::int RETURNING $3::text, id"
ENTER = ("INSERT INTO journal (source, target, amount, number, bank_client) VALUES ($1::int, $2::int, $3::bigint, $4::bigint, $5::text) "
         "RETURNING bank_client, number")
TOTAL = "SELECT $1::text, sum(balance)::bigint FROM accounts"
ROWS = "SELECT $2::text, n FROM generate_series(1, $1::int) n"
WIDE_ROWS = "SELECT $2::text, n, repeat('w', 1000) FROM generate_series(1, $1::int) n"
NAP = "SELECT $2::text, pg_sleep($1::float8)"


def with_percents(sql):
    """The same statement for a driver that writes parameters as %s. They have to be in their order there."""
    for number in range(1, 6):
        sql = sql.replace("$%d" % number, "%%(p%d)s" % number)
    return sql


def by_name(*arguments):
    return {"p%d" % number: value for number, value in enumerate(arguments, 1)}


def with_literals(sql, *arguments):
    """The same statement with its parameters in the text."""
    for number, value in enumerate(arguments, 1):
        sql = sql.replace("$%d" % number, "'%s'" % value)
    return sql


def own_rows(rows, tag):
    """Checks that each row begins with the tag of its reader, and returns the rows."""
    rows = list(rows)
    for row in rows:
        assert row[0] == tag, "%s has read a row of %s: %r" % (tag, row[0], row[:3])
    return rows


NEVER, PERHAPS, SURELY = "never", "perhaps", "surely"


class Transfer:
    """
    A transfer that was begun. fate: whether the transfer is committed, as far as its client knows. amount: of money, or the pieces of a parcel (which
    has no accounts).
    """
    __slots__ = ("number", "tag", "source", "target", "amount", "fate")

    def __init__(self, number, bank_client, source, target, amount):
        self.number = number
        self.tag = "%s/%d" % (bank_client, number)
        self.source, self.target, self.amount = source, target, amount
        self.fate = NEVER

    def moves(self):
        """The parameters of the two MOVEs. Accounts are taken in one order by all, so there is no deadlock."""
        both = [(-self.amount, self.source, self.tag), (self.amount, self.target, self.tag)]
        return sorted(both, key=lambda move: move[1])

    def entry(self):
        """The parameters of ENTER."""
        return self.source, self.target, self.amount, self.number, self.tag

    def statements(self):
        return [with_literals(MOVE, *move) for move in self.moves()] + [with_literals(ENTER, *self.entry())]

    def pieces(self):
        """The lines of a COPY into parcels."""
        return ["%d\t%s\t%d\n" % (self.number, self.tag, piece) for piece in range(self.amount)]


class Bank:
    """`over`: set when all clients must end. `done`: number of acknowledged transfers."""

    def __init__(self, server, database="p0"):
        self.over = threading.Event()
        self.done = 0
        self._server, self._database = server, database
        self._numbers = itertools.count(1)
        self._transfers, self._parcels = [], []
        server.execute(TABLES, database=database)

    def close(self):
        self._server.execute("DROP TABLE accounts, journal, parcels", database=self._database)

    def transfer(self, bank_client, draw):
        """A new one between two accounts."""
        source, target = draw.sample(range(1, ACCOUNTS + 1), 2)
        made = Transfer(next(self._numbers), bank_client, source, target, draw.randint(1, 1000))
        self._transfers.append(made)
        return made

    def parcel(self, bank_client, draw):
        made = Transfer(next(self._numbers), bank_client, None, None, draw.randint(1, 3000))
        self._parcels.append(made)
        return made

    @staticmethod
    def commits(transfer):
        """From here on, the commit may reach the server."""
        transfer.fate = PERHAPS

    def committed(self, transfer):
        """The server has said so."""
        transfer.fate = SURELY
        self.done += 1

    def wait_for_more(self, count=25, fails=lambda: False):
        """fails: tells that waiting is useless."""
        goal = self.done + count
        until(lambda: self.done >= goal or fails(), "transfers are made", deadline=6 * DEADLINE)

    # --- the audit

    def _rows(self, sql):
        return self._server.execute(sql, database=self._database)

    def audit(self):
        """Asks the server itself. Returns (transfers begun, acknowledged, in doubt, in doubt and there); fails where a book is wrong."""
        entries = defaultdict(list)
        for number, *entry in self._rows("SELECT number, source, target, amount, bank_client FROM journal"):
            entries[number].append(tuple(entry))
        pieces = Counter(dict(self._rows("SELECT number, count(DISTINCT piece) FROM parcels GROUP BY number")))
        copies = Counter(dict(self._rows("SELECT number, count(*) FROM parcels GROUP BY number")))
        faults = list(itertools.chain(self._wrong_entries(entries), self._wrong_parcels(pieces, copies), self._wrong_balances(entries)))
        assert not faults, "%d faults in the books:\n%s" % (len(faults), "\n".join(faults[:20]))
        known = self._transfers + self._parcels
        doubtful = [each for each in known if each.fate == PERHAPS]
        there = sum(each.number in entries or each.number in copies for each in doubtful)
        return len(known), sum(each.fate == SURELY for each in known), len(doubtful), there

    def _wrong_entries(self, entries):
        known = {each.number for each in self._transfers}
        for each in self._transfers:
            found = entries.get(each.number, [])
            if len(found) not in {NEVER: (0,), PERHAPS: (0, 1), SURELY: (1,)}[each.fate]:
                yield "%s was %s committed, and is there %d times" % (each.tag, each.fate, len(found))
            elif found and found[0] != (each.source, each.target, each.amount, each.tag):
                yield "%s is there as %r" % (each.tag, found[0])
        for number in entries:
            if number not in known:
                yield "the journal has number %d, which nobody drew" % number

    def _wrong_parcels(self, pieces, copies):
        for each in self._parcels:
            right = {NEVER: (0,), PERHAPS: (0, each.amount), SURELY: (each.amount,)}[each.fate]
            if pieces[each.number] not in right or copies[each.number] != pieces[each.number]:
                yield "of %s, %d pieces, %s delivered, there are %d (%d rows)" % (
                    each.tag, each.amount, each.fate, pieces[each.number], copies[each.number])

    def _wrong_balances(self, entries):
        expected = Counter()
        for found in entries.values():
            for source, target, amount, _ in found:
                expected[source] -= amount
                expected[target] += amount
        balances = dict(self._rows("SELECT id, balance FROM accounts"))
        for account, balance in sorted(balances.items()):
            if balance != expected[account]:
                yield "account %d has %d, and %d by the journal" % (account, balance, expected[account])
        if len(balances) != ACCOUNTS or sum(balances.values()) != 0:
            yield "there are %d accounts with %d in all" % (len(balances), sum(balances.values()))
