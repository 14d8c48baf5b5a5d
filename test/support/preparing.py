"""
Random conversations with prepared statements: a few names, a few texts that all clients share and some of their own, and any order of Parse, Bind,
Describe, Execute, Close, Flush and errors. Most sequences are meaningful only by chance, on purpose: the meaning of a name when a message is answered
depends on all earlier messages.

Unlike in conversation.py, the parts depend on each other: a statement outlives the part in which it was parsed, but not the connection.
"""
from . import messages as m
from .conversation import MINI, Conversation

NAMES = ("a", "b", "c", "d", "PGWEIR_1")
FORGET = ("DEALLOCATE ALL", "DISCARD ALL")


class Preparing(Conversation):
    """small: without texts that fill a buffer."""

    def __init__(self, seed, dialect, count, transactions=True, small=False):
        self.small = small
        super().__init__(seed, dialect, count, transactions)

    def shapes(self, transactions):
        shapes = [self.batch, self.batch, self.batches, self.batches, self.flushed_batch, self.query_within_a_batch, self.unnamed,
                  self.unnamed, self.forget, self.tour, self.simple, self.extended_failing, self.copy_in_extended,
                  self.bare_sync]
        if transactions:
            shapes += [self.transaction, self.transaction, self.transaction_at_once, self.portal_of_a_statement]
        return shapes

    # --- words

    def _name(self):
        return self.random.choice(NAMES)

    def _value(self):
        return self.dialect.value(self._text()) if self.small else super()._value()

    def _sql(self):
        """Mostly a text that others prepare as well."""
        kind = self.random.random()
        if kind < 0.6:
            return self.dialect.value("common %d" % self.random.randrange(6))
        if kind < 0.65 and not self.small:
            return self.dialect.value(self._text() + "x" * self.random.choice((4096, 8000, 65530, 70000, 200000)))
        if kind < 0.75:
            return self.dialect.fail(self._text())
        if kind < 0.8:
            return self.dialect.bad_syntax(self._text())
        return self.dialect.value(self._text())

    def _types(self):
        """Only the played server lets parameters go unused."""
        return self.random.choice(((), (), (25,), (23, 25))) if self.dialect is MINI else ()

    def _message(self):
        """One step of a pipeline."""
        name, kind = self._name(), self.random.randrange(19)
        if kind < 5:
            return m.parse(self._sql(), name, self._types())
        if kind < 9:
            return m.bind(name) + (m.describe("P") if self.random.random() < 0.4 else b"") + m.execute()
        if kind < 10:
            return m.bind(name)
        if kind < 12:
            return m.describe("S", name)
        if kind < 14:
            return m.close("S", name)
        if kind < 15:
            return self.random.choice((m.flush(), m.close("P"), m.close("S", "nobody"), m.describe("P"), m.execute()))
        if kind < 16:
            return self._run()
        if kind < 18:
            return m.parse(self._sql()) + self.random.choice((m.describe("S"), m.bind(), m.bind() + m.execute()))
        wrong = (m.run(self.dialect.fail(self._text())), m.parse(self.dialect.bad_syntax(self._text()), name), m.bind("nobody"))
        return self.random.choice(wrong)

    def _messages(self):
        return b"".join(self._message() for _ in range(self.random.choice((1, 1, 2, 3, 5, 8, 13))))

    # --- shapes

    def batch(self):
        return [self._messages() + m.sync(), ("ready", 1)]

    def batches(self):
        """All sent before anything of it is known."""
        data, count = b"", self.random.randrange(2, 8)
        for _ in range(count):
            data += m.query(self._value()) if self.random.random() < 0.15 else self._messages() + m.sync()
        return [data, ("ready", count)]

    def flushed_batch(self):
        steps = []
        for _ in range(self.random.randrange(1, 5)):
            steps += self.random.choice((
                [m.parse(self._sql(), self._name()) + m.flush(), ("until", "1E")],
                [m.describe("S", self._name()) + m.flush(), ("until", "TnE")],
                [m.close("S", self._name()) + m.flush(), ("until", "3E")],
                [m.bind(self._name()) + m.execute() + m.flush(), ("until", "CE")],
                [m.bind(self._name()) + m.flush(), ("until", "2E"), m.execute() + m.flush(), ("until", "CE")]))
        return steps + [self._messages() + m.sync(), ("ready", 1)]

    def query_within_a_batch(self):
        """A simple query in the middle of a batch is skipped after an error, or it is answered and ends the batch."""
        marker = self._text() + "!"
        data = self._messages() + m.query(self._value()) + self._messages() + m.sync()
        return [data + m.query(self.dialect.value(marker)), ("row", marker)]

    def unnamed(self):
        """
        The unnamed statement lasts until the next one or a simple query, whichever server is assigned, unless the statement is too long to be kept.
        """
        sql = self._sql()
        steps = [m.parse(sql if len(sql) < 60000 else self._value()) + m.sync(), ("ready", 1)]
        for _ in range(self.random.randrange(1, 4)):
            name = self._name()
            steps += self.random.choice((
                [m.bind() + m.execute() + m.sync(), ("ready", 1)],
                [m.describe("S") + m.bind() + m.describe("P") + m.execute() + m.sync(), ("ready", 1)],
                [m.bind("nobody") + m.bind() + m.sync() + m.describe("S") + m.sync(), ("ready", 2)],
                [m.close("S", name) + m.parse(self._sql(), name) + m.bind() + m.execute() + m.sync(), ("ready", 1)],
                [m.bind(name) + m.execute() + m.sync() + m.bind() + m.execute() + m.sync(), ("ready", 2)]))
        if self.random.random() < 0.5:
            gone = m.close("S") + m.sync() if self.random.random() < 0.5 else m.query(self._value())
            steps += [gone + m.bind() + m.execute() + m.sync(), ("ready", 2)]
        return steps

    def forget(self):
        """Later messages in the same write may use only statements that they prepare: which other statements remain is unknown before the answer."""
        word = self.random.choice(FORGET)
        forget = m.query(word) if self.random.random() < 0.5 else m.run(word) + (m.sync() if self.random.random() < 0.5 else b"")
        behind = b""
        for name in self.random.sample(NAMES, self.random.randrange(4)):
            behind += m.parse(self._sql(), name) + (m.bind(name) + m.execute() if self.random.random() < 0.7 else b"")
        count = 1 + (forget[:1] == b"Q" or forget.endswith(m.sync()))
        return [self._messages() + m.sync() + forget + behind + m.sync(), ("ready", 1 + count)]

    def tour(self):
        """Every name is used, in some order."""
        names = list(NAMES)
        self.random.shuffle(names)
        if self.random.random() < 0.5:
            return [b"".join(m.bind(name) + m.execute() + m.sync() for name in names), ("ready", len(names))]
        steps = []
        for name in names:
            steps += [m.close("S", name) + m.parse(self._sql(), name) + m.bind(name) + m.execute() + m.sync(), ("ready", 1)]
        return steps

    def copy_in_extended(self):
        """A later Bind must not find the COPY statement: a simple query destroys it."""
        return super().copy_in_extended() + self.simple()

    # a transaction's last statement may have failed, or be missing: the next query clears this up

    def _begin(self):
        return self.random.choice((m.query("BEGIN"), m.run("BEGIN") + m.sync(),
                                   m.close("S", "begin") + m.parse("BEGIN", "begin") + m.bind("begin") + m.execute() + m.sync()))

    def _end(self):
        word = self.random.choice(("COMMIT", "ROLLBACK"))
        return self.random.choice((m.query(word), m.run(word) + m.sync(), m.bind(word) + m.execute() + m.sync(),
                                   m.parse(word, word) + m.sync(), m.describe("S", word) + m.bind(word) + m.execute() + m.sync()))

    def transaction(self):
        steps = [self._begin(), ("ready", 1)]
        for _ in range(self.random.randrange(1, 5)):
            steps += self.random.choice((self.batch, self.batches, self.flushed_batch, self.simple, self.unnamed))()
        return steps + [self._end(), ("ready", 1), m.query("ROLLBACK"), ("ready", 1)]

    def transaction_at_once(self):
        middle = [self._messages() + m.sync() for _ in range(self.random.randrange(1, 4))]
        return [self._begin() + b"".join(middle) + self._end() + m.query("ROLLBACK"), ("ready", len(middle) + 3)]

    def portal_of_a_statement(self):
        name = self._name()
        return [m.query("BEGIN"), ("ready", 1),
                m.close("S", name) + m.parse(self.dialect.series(self._text(), 20), name) + m.sync(), ("ready", 1),
                m.bind(name, "portal") + m.execute("portal", 6) + m.sync(), ("ready", 1),
                self._messages() + m.sync(), ("ready", 1), m.execute("portal", 6) + m.sync(), ("ready", 1),
                m.close("S", name) + m.execute("portal") + m.sync(), ("ready", 1), m.query("COMMIT"), ("ready", 1)]
