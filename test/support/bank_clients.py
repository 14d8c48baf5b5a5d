"""
The clients that work with the bank (bank.py) through pgweir, each in its own thread until the bank closes. They connect, work, disconnect
occasionally, and reconnect after a lost connection; client_errors.py judges the errors that they get.

- Plain, Prepared, Pipelined, Asynchronous: move money, with psycopg2, psycopg, psycopg in pipeline mode, asyncpg
- Porter: sends parcels by COPY, and reads large results and COPY in the other direction
- Witness: moves money without a driver, and gets the reason of a lost connection in one message
- Visitor: sends one query over each connection
- Canceller, Impatient: have their queries cancelled at any time, even long after completion
- Vandal: begins the same work and disconnects at some byte
"""
import asyncio
import contextlib
import logging
import random
import threading

import asyncpg
import psycopg
import psycopg2

from . import bank as b
from . import messages as m
from .client_errors import CANCELED
from .postgres import SECRETS
from .wire import Client, Closed, LoginRefused

GONE = (psycopg2.Error, psycopg.Error, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, Closed, LoginRefused)
logging.getLogger("psycopg").setLevel(logging.CRITICAL)        # psycopg logs the errors that it also raises
LEAVES = 0.05                   # probability that a client disconnects and reconnects after a piece of work


class BankClient:
    """
    - place: where to connect: dict(host, port, user, password, dbname, sslmode)
    - draw: its own random.Random
    - turns: number of pieces of work begun; a client that hangs makes no progress
    """
    told = ()                   # errors that this kind may get, in addition to the common ones

    def __init__(self, name, bank, place, client_errors, draw):
        self.name = name
        self.bank, self.place, self.client_errors, self.draw = bank, place, client_errors, draw
        self.turns = 0

    def __str__(self):
        return self.name

    def run(self):
        while not self.bank.over.is_set():
            try:
                self.visit()
            except GONE as why:
                self.client_errors.note(self.name, why, *self.told)
                # or all of them would do nothing but fail
                self.bank.over.wait(0.02)

    def stays(self):
        """Whether one more piece of work follows over this connection."""
        self.turns += 1
        return not self.bank.over.is_set() and self.draw.random() > LEAVES

    def tag(self):
        return "%s.%d" % (self.name, self.turns)

    def visit(self):
        raise NotImplementedError


class Plain(BankClient):
    """Simple queries: one by one, some in one message with BEGIN and COMMIT, some in one message without."""

    def visit(self):
        with contextlib.closing(psycopg2.connect(**self.place)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                while self.stays():
                    self.draw.choice((self.step_by_step, self.at_once, self.give_up, self.look))(cursor)

    def _ask(self, cursor, sql, tag):
        cursor.execute(sql)
        b.own_rows(cursor.fetchall(), tag)

    def step_by_step(self, cursor):
        transfer = self.bank.transfer(self.name, self.draw)
        cursor.execute("BEGIN")
        for sql in transfer.statements():
            self._ask(cursor, sql, transfer.tag)
        self.bank.commits(transfer)
        cursor.execute("COMMIT")
        assert cursor.statusmessage == "COMMIT"
        self.bank.committed(transfer)

    def at_once(self, cursor):
        transfer = self.bank.transfer(self.name, self.draw)
        begin, end = self.draw.choice((("", ""), ("BEGIN;", ";COMMIT")))
        self.bank.commits(transfer)
        cursor.execute(begin + ";".join(transfer.statements()) + end)
        self.bank.committed(transfer)

    def give_up(self, cursor):
        transfer = self.bank.transfer(self.name, self.draw)
        cursor.execute("BEGIN")
        for sql in transfer.statements()[:self.draw.randint(1, 3)]:
            self._ask(cursor, sql, transfer.tag)
        cursor.execute("ROLLBACK")

    def look(self, cursor):
        cursor.execute(b.with_literals(b.TOTAL, self.tag()))
        assert cursor.fetchall() == [(self.tag(), 0)]
        count = self.draw.randint(0, 50)
        cursor.execute(b.with_literals(b.ROWS, count, self.tag()))
        assert [n for _, n in b.own_rows(cursor.fetchall(), self.tag())] == list(range(1, count + 1))


class Prepared(BankClient):
    """psycopg with named prepared statements, which move from server to server."""
    MOVE, ENTER, TOTAL, ROWS = map(b.with_percents, (b.MOVE, b.ENTER, b.TOTAL, b.ROWS))

    def visit(self):
        with psycopg.connect(**self.place, prepare_threshold=self.draw.choice((0, 0, 2, None)), autocommit=True) as connection:
            while self.stays():
                self.work(connection)

    def work(self, connection):
        transfer = self.bank.transfer(self.name, self.draw)
        with connection.transaction():
            for move in transfer.moves():
                b.own_rows(connection.execute(self.MOVE, b.by_name(*move)).fetchall(), transfer.tag)
            b.own_rows(connection.execute(self.ENTER, b.by_name(*transfer.entry())).fetchall(), transfer.tag)
            self.bank.commits(transfer)
        self.bank.committed(transfer)
        tag = self.tag()
        assert connection.execute(self.TOTAL, b.by_name(tag)).fetchall() == [(tag, 0)]


class Pipelined(Prepared):
    """Several transfers in one go, each a transaction up to a Sync of its own."""

    def work(self, connection):
        transfers, answers = [], []
        with connection.pipeline() as pipeline:
            for _ in range(self.draw.randint(1, 5)):
                transfers.append(self.bank.transfer(self.name, self.draw))
                answers.append(self._send(connection, transfers[-1]))
                pipeline.sync()
            for transfer, cursors in zip(transfers, answers):
                self._receive(transfer, cursors)

    def _send(self, connection, transfer):
        with_block = self.draw.random() < 0.7
        cursors = [connection.execute("BEGIN")] if with_block else []
        cursors += [connection.execute(self.MOVE, b.by_name(*move)) for move in transfer.moves()]
        # without a block all of it is one transaction, which Sync commits
        self.bank.commits(transfer)
        cursors.append(connection.execute(self.ENTER, b.by_name(*transfer.entry())))
        if with_block:
            cursors.append(connection.execute("COMMIT"))
        else:
            cursors.append(connection.execute(self.TOTAL, b.by_name(transfer.tag)))
        return cursors

    def _receive(self, transfer, cursors):
        for cursor in cursors:
            if cursor.description:
                b.own_rows(cursor.fetchall(), transfer.tag)
        if cursors[-1].description is None:
            assert cursors[-1].statusmessage == "COMMIT"
            self.bank.committed(transfer)


class Asynchronous(BankClient):
    """asyncpg: named statements, parameters and results in binary."""

    def run(self):
        asyncio.run(self._days())

    async def _days(self):
        while not self.bank.over.is_set():
            try:
                connection = await self.connect()
                try:
                    while self.stays():
                        await self.work(connection)
                    await connection.close()
                finally:
                    connection.terminate()
            except GONE as why:
                self.client_errors.note(self.name, why, *self.told)

    async def connect(self):
        place = dict(self.place, database=self.place["dbname"], ssl=self.place["sslmode"])
        del place["dbname"], place["sslmode"]
        return await asyncpg.connect(**place, timeout=None)

    async def work(self, connection):
        transfer = self.bank.transfer(self.name, self.draw)
        async with connection.transaction():
            for move in transfer.moves():
                b.own_rows(await connection.fetch(b.MOVE, *move), transfer.tag)
            b.own_rows(await connection.fetch(b.ENTER, *transfer.entry()), transfer.tag)
            self.bank.commits(transfer)
        self.bank.committed(transfer)
        count = self.draw.randint(0, 200)
        rows = b.own_rows(await connection.fetch(b.ROWS, count, self.tag()), self.tag())
        assert [row[1] for row in rows] == list(range(1, count + 1))


class Impatient(Asynchronous):
    """Waits for less time than the query takes; the driver then has the query cancelled, and continues over the same connection."""
    told = (CANCELED,)

    async def work(self, connection):
        with contextlib.suppress(asyncio.TimeoutError):
            rows = await connection.fetch(b.NAP, self.draw.choice((0.001, 0.02, 5)), self.tag(), timeout=self.draw.random() * 0.02)
            b.own_rows(rows, self.tag())
        await super().work(connection)


class Porter(BankClient):
    """COPY in both directions, and results of some megabytes."""

    def visit(self):
        with psycopg.connect(**self.place, autocommit=True) as connection:
            while self.stays():
                self.draw.choice((self.deliver, self.drop, self.fetch, self.copy_out))(connection)

    def deliver(self, connection):
        parcel = self.bank.parcel(self.name, self.draw)
        with connection.cursor() as cursor:
            with cursor.copy("COPY parcels (number, bank_client, piece) FROM STDIN") as copy:
                for line in parcel.pieces():
                    copy.write(line)
                self.bank.commits(parcel)
            assert cursor.statusmessage == "COPY %d" % parcel.amount
        self.bank.committed(parcel)

    def drop(self, connection):
        """A COPY that the client itself cancels."""
        parcel = self.bank.parcel(self.name, self.draw)
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            with connection.cursor() as cursor, cursor.copy("COPY parcels (number, bank_client, piece) FROM STDIN") as copy:
                for line in parcel.pieces():
                    copy.write(line)
                raise Dropped
        assert connection.execute("SELECT 1").fetchone() == (1,)

    def fetch(self, connection):
        count = self.draw.randint(1, 3000)
        rows = connection.execute(b.with_percents(b.WIDE_ROWS), b.by_name(count, self.tag())).fetchall()
        assert [n for _, n, _ in b.own_rows(rows, self.tag())] == list(range(1, count + 1))

    def copy_out(self, connection):
        count = self.draw.randint(1, 3000)
        with connection.cursor().copy("COPY (%s) TO STDOUT" % b.with_literals(b.WIDE_ROWS, count, self.tag())) as copy:
            assert [int(row[1]) for row in b.own_rows(copy.rows(), self.tag())] == list(range(1, count + 1))


class Dropped(psycopg.errors.QueryCanceled):
    """Makes psycopg end a COPY with CopyFail."""


class Visitor(BankClient):
    def visit(self):
        self.turns += 1
        with contextlib.closing(psycopg2.connect(**self.place)) as connection, connection.cursor() as cursor:
            cursor.execute(b.with_literals(b.TOTAL, self.tag()))
            assert cursor.fetchall() == [(self.tag(), 0)]


class Told(Exception):
    """The words with which a connection ended."""


class Witness(BankClient):
    """A connection ends with one ErrorResponse, which is the last message of it: no client is left without, no client is told twice."""

    def run(self):
        while not self.bank.over.is_set():
            try:
                self.visit()
            except (Told, LoginRefused) as why:
                self.client_errors.note(self.name, why)
                self.bank.over.wait(0.02)

    def visit(self):
        client = Client(self.place["port"])
        try:
            client.login(self.place["password"], user=self.place["user"], database=self.place["dbname"])
            while self.stays():
                self._work(client)
        except Closed:
            raise AssertionError("a connection has ended without a word") from None
        finally:
            client.close()

    def _work(self, client):
        transfer = self.bank.transfer(self.name, self.draw)
        self._ask(client, "BEGIN")
        for sql in transfer.statements():
            rows = self._ask(client, sql)
            assert rows[0][0].decode() == transfer.tag
        self.bank.commits(transfer)
        self._ask(client, "COMMIT")
        self.bank.committed(transfer)

    @staticmethod
    def _ask(client, sql):
        try:
            client.send(m.query(sql))
        except OSError:
            # the connection has ended; its last message can still be read
            pass
        rows = []
        while True:
            message = client.read()
            if message.type == "D":
                rows.append(m.read_row(message.body))
            elif message.type == "E":
                more = client.drain()
                assert not more, "told %s, and then %r" % (m.read_error(message.body), more)
                raise Told(m.read_error(message.body)["M"])
            elif message.type == "Z":
                return rows


class Canceller(Plain):
    """Another thread sends cancel requests for its connection all the time, whatever that is doing, or if it is anything."""
    told = (CANCELED,)

    def visit(self):
        with contextlib.closing(psycopg2.connect(**self.place)) as connection:
            connection.autocommit = True
            left = threading.Event()
            other = threading.Thread(target=self._cancel, args=(connection, left))
            other.start()
            try:
                while self.stays():
                    self._go_on(connection)
            finally:
                left.set()
                other.join()

    def _cancel(self, connection, left):
        while not left.wait(self.draw.random() * 0.03):
            with contextlib.suppress(psycopg2.Error):
                connection.cancel()

    def _go_on(self, connection):
        with connection.cursor() as cursor:
            try:
                self.draw.choice((self.sleep, self.sleep, self.at_once, self.step_by_step))(cursor)
            except psycopg2.errors.QueryCanceled:
                cursor.execute("ROLLBACK")

    def sleep(self, cursor):
        self._ask(cursor, b.with_literals(b.NAP, self.draw.choice((0.001, 0.01, 5)), self.tag()), self.tag())


class Vandal(BankClient):
    """A fully sent transfer may have been committed, a truncated one may not."""
    cancels = False

    def visit(self):
        self.turns += 1
        transfer = self.bank.transfer(self.name, self.draw)
        data = self.draw.choice(self._ways())(transfer)
        sent = self.draw.choice((len(data), self.draw.randrange(len(data))))
        client = Client(self.place["port"])
        try:
            client.login(self.place["password"], user=self.place["user"], database=self.place["dbname"])
            # COMMIT is complete before the Sync after it
            if sent >= len(data) - len(m.sync()):
                self.bank.commits(transfer)
            client.send(data[:sent])
            if self.cancels and self.draw.random() < 0.3:
                self._cancel(client)
            if sent == len(data) and self.draw.random() < 0.5:
                client.read()
        except Closed:
            # the error that ended the connection is not checked here
            pass
        finally:
            self.draw.choice((client.close, client.abort))()

    def _ways(self):
        return self._simple, self._at_once, self._extended, self._copy

    @staticmethod
    def _at_once(transfer):
        return m.query(";".join(transfer.statements()))

    @staticmethod
    def _simple(transfer):
        return b"".join(map(m.query, ["BEGIN", *transfer.statements(), "COMMIT"]))

    @staticmethod
    def _extended(transfer):
        return b"".join(map(m.run, ["BEGIN", *transfer.statements(), "COMMIT"])) + m.sync()

    @staticmethod
    def _copy(transfer):
        """A COPY followed by the transfer in the same transaction."""
        lines = b"".join(m.copy_data(b"0\tnobody\t%d\n" % n) for n in range(20))
        return (m.query("BEGIN") + m.query("COPY parcels (number, bank_client, piece) FROM STDIN WHERE number > 0") + lines + m.copy_done() +
                b"".join(map(m.query, [*transfer.statements(), "COMMIT"])))

    def _cancel(self, client):
        with contextlib.closing(Client(self.place["port"])) as request:
            request.send(m.cancel_request(client.pid, client.key))
            if self.draw.random() < 0.5:
                request.drain()


class CancellingVandal(Vandal):
    """Has some of its queries cancelled. If BEGIN is cancelled, queries that are sent after it without waiting are transactions of their own."""
    cancels = True

    def _ways(self):
        return self._at_once, self._extended


def bank_clients(ranks, bank, weir, client_errors, draw, sslmodes=("disable",)):
    """One client for each of the ranks; they take turns with the values of sslmode."""
    crew = []
    for number, rank in enumerate(ranks):
        place = dict(host=weir.host, port=weir.port, user="app", password=SECRETS["app"], dbname="p0", sslmode=sslmodes[number % len(sslmodes)])
        name = "%s-%d" % (rank.__name__.lower(), number)
        crew.append(rank(name, bank, place, client_errors, random.Random("%s %s" % (name, draw.random()))))
    return crew
