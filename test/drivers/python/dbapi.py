"""The checks for the DB-API; psycopg2, psycopg 3 and pg8000 add their own."""
import datetime
import decimal
import threading
import uuid

from check import (DATABASE, LARGE, ROUNDS, RUNNING, SESSION, SLEEP, TERMINATE, USER, WORKERS, Skip, expect, in_threads,
                   run, wait_for)

VALUES = (
    ("int8", 2 ** 53 + 1), ("float8", -1.5), ("text", "häßlich, it's ☃"), ("bool", True), ("text", None),
    ("numeric", decimal.Decimal("123.450")), ("date", datetime.date(2026, 11, 21)), ("int4[]", [1, 2, -3]),
    ("timestamptz", datetime.datetime(2026, 11, 21, 2, 1, 23, 820000, tzinfo=datetime.timezone.utc)),
    ("bytea", bytes(range(256))), ("uuid", uuid.UUID("0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5")),
)


class Checks:
    """A driver has to have connect(); the rest it has by the DB-API, or a method here is replaced."""

    def connect(self, autocommit=True):
        raise NotImplementedError

    def cancel_from_outside(self, connection):
        raise Skip("no request to cancel")

    def copy_in(self, connection, lines):
        raise Skip("no COPY")

    def copy_out(self, connection):
        raise Skip("no COPY")

    def batch(self):
        """Many rows by one call."""
        connection = self.connect(autocommit=False)
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO drive VALUES (%s, %s)", [(n, "batch %d" % n) for n in range(10000, 10200)])
        assert self.ask(connection, "SELECT count(*) FROM drive WHERE starts_with(t, 'batch')", ()) == (200,)
        connection.rollback()
        connection.close()

    def listen(self):
        raise Skip("no notifications")

    def more(self):
        """Further checks of this driver only."""
        return []

    # --- helpers of the checks

    @staticmethod
    def ask(connection, sql, values=()):
        cursor = connection.cursor()
        cursor.execute(sql, values)
        row = cursor.fetchone()
        cursor.close()
        return tuple(row)

    @staticmethod
    def do(connection, sql, values=()):
        cursor = connection.cursor()
        cursor.execute(sql, values)
        cursor.close()

    def swap(self, rival):
        """Another client takes the server that was released last: the next transaction gets another server."""
        self.do(rival, "BEGIN")
        self.ask(rival, "SELECT 1")

    # --- the checks

    def open(self):
        connection = self.connect()
        assert self.ask(connection, "SELECT current_user::text, current_database()::text") == (USER, DATABASE)
        connection.close()

    def types(self):
        connection = self.connect()
        columns = ", ".join("%s::" + kind for kind, _ in VALUES)
        row = self.ask(connection, "SELECT " + columns, tuple(value for _, value in VALUES))
        for (kind, value), got in zip(VALUES, row):
            got = bytes(got) if kind == "bytea" else got
            assert got == value, "%s: %r came back as %r" % (kind, value, got)
        connection.close()

    def transaction(self):
        connection = self.connect(autocommit=False)
        insert = "INSERT INTO drive VALUES (%s, 'transaction')"
        count = "SELECT count(*) FROM drive WHERE t = 'transaction'"
        self.do(connection, insert, (1,))
        connection.rollback()
        assert self.ask(connection, count) == (0,)
        connection.commit()
        self.do(connection, insert, (2,))
        self.do(connection, "SAVEPOINT here")
        self.do(connection, insert, (3,))
        self.do(connection, "ROLLBACK TO here")
        connection.commit()
        assert self.ask(connection, count) == (1,)
        connection.rollback()
        connection.close()

    def error(self):
        connection = self.connect()
        insert = "INSERT INTO drive VALUES (%s, 'error')"
        self.do(connection, insert, (4,))
        expect("23505", lambda: self.do(connection, insert, (4,)))
        expect("42601", lambda: self.do(connection, "SELEC 1"))
        assert self.ask(connection, "SELECT 1") == (1,)
        connection.close()
        connection = self.connect(autocommit=False)
        expect("22012", lambda: self.ask(connection, "SELECT 1 / %s::int", (0,)))
        expect("25P02", lambda: self.ask(connection, "SELECT 1"))
        connection.rollback()
        assert self.ask(connection, "SELECT 1") == (1,)
        connection.rollback()
        connection.close()

    def copy(self):
        connection = self.connect(autocommit=False)
        lines = ["%d\tcopy %d\n" % (n, n) for n in range(20000, 30000)]
        self.copy_in(connection, lines)
        assert self.copy_out(connection) == "".join(lines)
        connection.rollback()
        expect("23505", lambda: self.copy_in(connection, lines[:1] * 2))
        connection.rollback()
        assert self.ask(connection, "SELECT 1") == (1,)
        connection.rollback()
        connection.close()

    def cancel(self):
        connection, watcher = self.connect(), self.connect()

        def cancel_it():
            wait_for(lambda: self.ask(watcher, RUNNING) == (1,))
            self.cancel_from_outside(connection)

        try:
            self.cancel_from_outside(connection)        # while nothing runs it does nothing
            canceller = threading.Thread(target=cancel_it)
            canceller.start()
            expect("57014", lambda: self.ask(connection, SLEEP))
            canceller.join()
            assert self.ask(connection, "SELECT 1") == (1,)
        finally:
            connection.close()
            watcher.close()

    def large(self):
        connection = self.connect()
        text = "x" * LARGE
        assert self.ask(connection, "SELECT %s::text, length(%s::text)", (text, text)) == (text, LARGE)
        connection.close()

    def reconnect(self):
        """The server ends; psycopg2 and pg8000 only tell of the end of the connection, whatever server they are connected to."""
        connection = self.connect()
        expect(None, lambda: self.ask(connection, TERMINATE))
        connection.close()
        connection = self.connect()
        assert self.ask(connection, "SELECT 1") == (1,)
        connection.close()

    def prepared(self):
        """The same statements again and again, on other servers each time."""
        connection, rival = self.connect(), self.connect()
        for turn in range(7):
            for n in range(10):
                assert self.ask(connection, "SELECT %%s::int + %d" % n, (turn,)) == (turn + n,)
            self.swap(rival)
            assert self.ask(connection, "SELECT %s::int + 0", (turn,)) == (turn,)
            self.do(rival, "ROLLBACK")
        connection.close()
        rival.close()

    def temporary(self):
        """Objects of a session: in transaction mode they remain at the server."""
        connection, rival = self.connect(), self.connect()
        try:
            self.do(connection, "CREATE TEMPORARY TABLE mine (n int)")
            self.swap(rival)
            assert self.ask(connection, "SELECT count(*) FROM mine") == (0,)
        finally:
            rival.close()
            self.do(connection, "DISCARD TEMP")
            connection.close()

    def workers(self):
        def work(number):
            connection = self.connect(autocommit=False)
            for turn in range(ROUNDS):
                key = 100000 + number * ROUNDS + turn
                self.do(connection, "INSERT INTO drive VALUES (%s, 'workers')", (key,))
                assert self.ask(connection, "SELECT t FROM drive WHERE n = %s", (key,)) == ("workers",)
                connection.commit()
            connection.close()

        in_threads(WORKERS, work)
        connection = self.connect()
        assert self.ask(connection, "SELECT count(*) FROM drive WHERE t = 'workers'") == (WORKERS * ROUNDS,)
        connection.close()

    def run(self):
        checks = [self.open, self.types, self.transaction, self.error, self.batch, self.copy, self.cancel, self.large,
                  self.prepared, self.temporary, self.reconnect, self.workers]
        run(checks + ([self.listen] if SESSION else []) + self.more())
