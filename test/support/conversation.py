"""
Random conversations with a server, for scenes that compare the answers through pgweir with the server's own.

A conversation is drawn from a seed and consists of parts; a part is one exchange that leaves the connection idle (a query, a pipeline, a transaction,
a COPY ...), written as steps:

- bytes: are sent
- ("until", "CE"): read up to the first message of one of these types
- ("ready", 2): read up to the second ReadyForQuery from here
- ("row", "text"): read up to the ReadyForQuery after a row with this text

Every statement carries the number of its part, and so does every row, tag or error text that answers it. A dialect defines how a statement is
written: MINI for the fake server of mini.py, SQL for a real server.
"""
import random

from . import messages as m


class MINI:
    tables = ()

    @staticmethod
    def value(text):
        return "echo " + text

    @staticmethod
    def fail(text):
        return "fail " + text

    @staticmethod
    def bad_syntax(text):
        return "badparse " + text

    @staticmethod
    def series(text, count):
        return "series %d %s" % (count, text)

    @staticmethod
    def copy_in(_):
        return "copyin"

    @staticmethod
    def copy_out(_, count):
        return "copyout %d" % count

    good_line, bad_line = b"good\n", b"bad\n"


class SQL:
    tables = ("CREATE UNLOGGED TABLE sink (v int)",)

    @staticmethod
    def value(text):
        return "SELECT '%s'" % text

    @staticmethod
    def fail(text):
        """Fails when it is executed, not before."""
        return "SELECT (CASE WHEN random() < 2 THEN '%s' END)::int" % text

    @staticmethod
    def bad_syntax(text):
        return "SELEKT '%s'" % text

    @staticmethod
    def series(text, count):
        return "SELECT '%s ' || n FROM generate_series(1, %d) n" % (text, count)

    @staticmethod
    def copy_in(text):
        return "COPY sink FROM STDIN /* %s */" % text

    @staticmethod
    def copy_out(text, count):
        return "COPY (SELECT '%s ' || n FROM generate_series(1, %d) n) TO STDOUT" % (text, count)

    good_line, bad_line = b"1\n", b"bad\n"


class Conversation:
    """parts: list of (name, steps)."""

    def __init__(self, seed, dialect, count, transactions=True):
        self.random = random.Random(seed)
        self.dialect = dialect
        self.label = "c%s" % seed
        self._last = 0
        shapes = self.shapes(transactions)
        self.parts = []
        for _ in range(count):
            shape = self.random.choice(shapes)
            self.parts.append((shape.__name__, shape()))
        self.parts.append(("last", [m.query(self._value()), ("ready", 1)]))

    def shapes(self, transactions):
        """Returns the kinds of parts."""
        shapes = [self.simple, self.several, self.failing, self.empty, self.extended, self.extended_failing,
                  self.pipeline, self.pipeline_of_syncs, self.flushed, self.portal, self.copy_in, self.copy_out,
                  self.copy_in_extended, self.copy_in_with_sync, self.bare_sync, self.leftovers, self.named]
        if transactions:
            shapes += [self.transaction, self.transaction, self.failed_transaction, self.portal_in_transaction]
        return shapes

    # --- words

    def _text(self):
        self._last += 1
        return "%s-%d" % (self.label, self._last)

    def _value(self):
        padding = self.random.choice(("", "", "", "x" * self.random.randrange(9000)))
        return self.dialect.value(self._text() + padding)

    def _lines(self, bad=False):
        lines = [m.copy_data(self.dialect.good_line) for _ in range(self.random.randrange(1, 40))]
        if bad:
            lines.insert(self.random.randrange(len(lines)), m.copy_data(self.dialect.bad_line))
        return b"".join(lines)

    def _run(self, sql=None, **options):
        """Mostly with all four messages, sometimes without a Describe."""
        sql = sql or self._value()
        if self.random.random() < 0.3:
            return m.parse(sql) + m.bind() + m.execute()
        return m.run(sql, **options)

    # --- shapes

    def simple(self):
        return [m.query(self._value()), ("ready", 1)]

    def several(self):
        return [m.query(";".join(self._value() for _ in range(3))), ("ready", 1)]

    def failing(self):
        sql = self.random.choice((self.dialect.fail, self.dialect.bad_syntax))(self._text())
        return [m.query(sql), m.query(self._value()), ("ready", 2)]

    def empty(self):
        return [m.query(""), m.query(" ;"), ("ready", 2)]

    def extended(self):
        return [self._run() + m.sync(), ("ready", 1)]

    def extended_failing(self):
        fails = self.dialect.fail(self._text())
        bad = m.parse(self.dialect.bad_syntax(self._text())) if self.random.random() < 0.5 else m.run(fails)
        return [self._run() + bad + self._run() + m.flush() + m.query(self._value()) + m.sync(), ("ready", 1)]

    def pipeline(self):
        return [b"".join(self._run() for _ in range(self.random.randrange(2, 30))) + m.sync(), ("ready", 1)]

    def pipeline_of_syncs(self):
        batches, count = b"", self.random.randrange(2, 30)
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.2:
                batches += m.run(self.dialect.fail(self._text())) + self._run() + m.sync()
            elif kind < 0.4:
                batches += m.query(self._value())
            elif kind < 0.5:
                batches += m.sync()
            else:
                batches += self._run() + m.sync()
        return [batches, ("ready", count)]

    def flushed(self):
        """Flush in place of Sync: the server must not go before the Sync comes."""
        steps = [m.parse(self._value()) + m.flush(), ("until", "1E"), m.bind() + m.flush(), ("until", "2E"),
                 m.execute() + m.flush(), ("until", "CE")]
        if self.random.random() < 0.5:
            steps += [m.run(self.dialect.fail(self._text())) + m.flush(), ("until", "E"), self._run()]
        return steps + [m.sync(), ("ready", 1)]

    def portal(self):
        rows = self.random.randrange(1, 40)
        steps = [m.parse(self.dialect.series(self._text(), rows)) + m.bind()]
        for _ in range(rows // 7 + 1):
            steps += [m.execute(rows=7) + m.flush(), ("until", "sCE")]
        return steps + [m.sync(), ("ready", 1)]

    def copy_in(self):
        ends = {"good": self._lines() + m.copy_done(), "bad": self._lines(bad=True) + m.copy_done(),
                "given up": self._lines() + m.copy_fail("enough")}
        end = ends[self.random.choice(sorted(ends))]
        query = m.query(self.dialect.copy_in(self._text()))
        if self.random.random() < 0.5:
            return [query + end + m.query(self._value()), ("ready", 2)]
        return [query, ("until", "GE"), end, ("ready", 1)]

    def copy_in_extended(self):
        start = m.parse(self.dialect.copy_in(self._text())) + m.bind() + m.execute()
        bad = self.random.random() < 0.3
        return [start + m.flush(), ("until", "GE"), self._lines(bad), m.copy_done() + m.sync(), ("ready", 1)]

    def copy_in_with_sync(self):
        """The Sync after Execute is read during the COPY, and ignored."""
        start = m.parse(self.dialect.copy_in(self._text())) + m.bind() + m.execute()
        return [start + m.sync() + self._lines() + m.copy_done() + m.sync(), ("ready", 1)]

    def copy_out(self):
        return [m.query(self.dialect.copy_out(self._text(), self.random.randrange(60))), ("ready", 1)]

    def bare_sync(self):
        return [m.sync() + m.flush() + m.sync(), ("ready", 2)]

    def leftovers(self):
        """COPY messages outside of a COPY are ignored."""
        return [m.copy_data(b"nobody's") + m.copy_done() + m.query(self._value()) + m.copy_fail("late"), ("ready", 1)]

    def named(self):
        name = self._text()
        portal = "p" + name
        return [m.parse(self._value(), name) + m.describe("S", name) + m.bind(name, portal) + m.describe("P", portal) +
                m.execute(portal) + m.close("P", portal) + m.close("S", name) + m.close("S", "nobody") + m.sync(),
                ("ready", 1)]

    def transaction(self):
        steps = [m.query("BEGIN"), ("ready", 1)]
        for _ in range(self.random.randrange(4)):
            steps += self.random.choice((self.simple, self.several, self.extended, self.pipeline, self.flushed,
                                         self.copy_out, self.portal, self.bare_sync, self.named))()
        end = self.random.choice(("COMMIT", "ROLLBACK"))
        return steps + [m.run(end) + m.sync() if self.random.random() < 0.5 else m.query(end), ("ready", 1)]

    def failed_transaction(self):
        steps = [m.run("BEGIN") + m.sync(), ("ready", 1)]
        steps += [m.query(self.dialect.fail(self._text())), ("ready", 1)]
        steps += self.random.choice((self.simple, self.extended, self.several))()
        return steps + [m.query(self.random.choice(("COMMIT", "ROLLBACK"))), ("ready", 1)]

    def portal_in_transaction(self):
        name = self._text()
        return [m.query("BEGIN"), ("ready", 1),
                m.parse(self.dialect.series(name, 20)) + m.bind(portal=name) + m.execute(name, 6) + m.sync(), ("ready", 1),
                m.execute(name, 6) + m.sync(), ("ready", 1), m.execute(name) + m.sync(), ("ready", 1),
                m.query("COMMIT"), ("ready", 1)]


def hold(client, steps, send=None):
    """Plays the steps of one part; everything that was read: (type, body)."""
    heard = []
    for step in steps:
        if isinstance(step, bytes):
            (send or client.send)(step)
        elif step[0] == "until":
            while not heard or heard[-1][0] not in step[1]:
                heard.append(_next(client))
        elif step[0] == "row":
            while not heard or heard[-1][0] != "D" or step[1].encode() not in heard[-1][1]:
                heard.append(_next(client))
            while heard[-1][0] != "Z":
                heard.append(_next(client))
        else:
            left = step[1]
            while left:
                heard.append(_next(client))
                left -= heard[-1][0] == "Z"
    return [one for one in heard if one[0] not in "SN"]


def _next(client):
    got = client.read()
    if got.type != "E":
        return got.type, got.body
    fields = m.read_error(got.body)
    return "E", (fields.get("S"), fields.get("C"), fields.get("M"))
