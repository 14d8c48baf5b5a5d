"""SQLAlchemy on the driver that is named as the argument: its engine with its own pool, Core and ORM."""
import asyncio
import datetime
import decimal
import ssl
import sys

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import create_async_engine

from check import (CACHE, DATABASE, HOST, LARGE, PASSWORD, PORT, ROOT, ROUNDS, TERMINATE, TLS, USER, WORKERS, expect,
                   in_threads, run)

DRIVER = sys.argv[1]
DIALECT = {"psycopg2": "postgresql+psycopg2", "psycopg": "postgresql+psycopg", "pg8000": "postgresql+pg8000",
           "asyncpg": "postgresql+asyncpg"}[DRIVER]
URL = sa.URL.create(DIALECT, USER, PASSWORD, HOST, PORT, DATABASE)


def arguments():
    """The driver's arguments for TLS, and for preparing as early as possible."""
    given, options = {}, {}
    if DRIVER in ("pg8000", "asyncpg"):
        name = "ssl_context" if DRIVER == "pg8000" else "ssl"
        given[name] = ssl.create_default_context(cafile=ROOT) if TLS else (None if DRIVER == "pg8000" else False)
    if CACHE and DRIVER == "psycopg":
        given["prepare_threshold"] = 0
    if CACHE and DRIVER == "asyncpg":
        given["prepared_statement_cache_size"] = 3
    return dict(connect_args=given, **options)


class Base(orm.DeclarativeBase):
    pass


class Drive(Base):
    __tablename__ = "drive"
    n = sa.Column(sa.Integer, primary_key=True)
    t = sa.Column(sa.Text)


TABLE = Drive.__table__


class Sync:
    """The engine as most programs have it."""

    def __init__(self, **options):
        self.engine = sa.create_engine(URL, **arguments(), **options)

    def work(self, function):
        """Runs it with a connection in a transaction, as engine.begin() does."""
        with self.engine.begin() as connection:
            return function(connection)

    def dispose(self):
        self.engine.dispose()


class Async:
    """The same for asyncpg: the function runs in SQLAlchemy's greenlet."""

    def __init__(self, **options):
        self.loop = asyncio.new_event_loop()
        self.engine = create_async_engine(URL, **arguments(), **options)

    def work(self, function):
        async def inside():
            async with self.engine.begin() as connection:
                return await connection.run_sync(function)

        return self.loop.run_until_complete(inside())

    def dispose(self):
        self.loop.run_until_complete(self.engine.dispose())
        self.loop.close()


ENGINE = Async if DRIVER == "asyncpg" else Sync
engine = ENGINE()


def open():     # pylint: disable=redefined-builtin
    row = engine.work(lambda c: c.execute(sa.text("SELECT current_user::text, current_database()::text")).one())
    assert tuple(row) == (USER, DATABASE)


def types():
    values = [(sa.BigInteger, 2 ** 53 + 1), (sa.Float, -1.5), (sa.Text, "häßlich, it's ☃"), (sa.Boolean, True),
              (sa.Numeric, decimal.Decimal("123.450")), (sa.Date, datetime.date(2026, 11, 21)),
              (sa.LargeBinary, bytes(range(256))), (sa.JSON, {"a": [1, 2]}), (sa.ARRAY(sa.Integer), [1, 2, -3]),
              (sa.DateTime(timezone=True), datetime.datetime(2026, 11, 21, 2, 1, 23, tzinfo=datetime.timezone.utc))]
    columns = [sa.cast(sa.literal(value, kind), kind) for kind, value in values]
    row = engine.work(lambda c: c.execute(sa.select(*columns)).one())
    for (kind, value), got in zip(values, row):
        assert got == value, "%s: %r came back as %r" % (kind, value, got)


def transaction():
    def given_up(connection):
        connection.execute(TABLE.insert(), {"n": 1, "t": "transaction"})
        raise KeyError("changed my mind")

    def kept(connection):
        connection.execute(TABLE.insert(), {"n": 2, "t": "transaction"})
        nested = connection.begin_nested()
        connection.execute(TABLE.insert(), {"n": 3, "t": "transaction"})
        nested.rollback()

    expect(None, lambda: engine.work(given_up))
    engine.work(kept)
    count = sa.select(sa.func.count()).where(TABLE.c.t == "transaction")
    assert engine.work(lambda c: c.execute(count).scalar()) == 1


def error():
    insert = TABLE.insert().values(n=4, t="error")
    engine.work(lambda c: c.execute(insert))
    expect("23505", lambda: engine.work(lambda c: c.execute(insert)))
    expect("42601", lambda: engine.work(lambda c: c.execute(sa.text("SELEC 1"))))
    assert engine.work(lambda c: c.execute(sa.text("SELECT 1")).scalar()) == 1


def batch():
    rows = [{"n": n, "t": "batch"} for n in range(10000, 10200)]
    engine.work(lambda c: c.execute(TABLE.insert(), rows))
    count = sa.select(sa.func.count()).where(TABLE.c.t == "batch")
    assert engine.work(lambda c: c.execute(count).scalar()) == 200


def mapped():
    """The ORM: a unit of work, and a query that streams."""
    def work(connection):
        with orm.Session(connection) as session:
            session.add_all([Drive(n=n, t="mapped") for n in range(50000, 50050)])
            session.flush()
            found = session.scalars(sa.select(Drive).where(Drive.t == "mapped").execution_options(yield_per=10))
            assert sum(1 for _ in found) == 50
            session.get(Drive, 50000).t = "changed"
            session.commit()

    engine.work(work)
    assert engine.work(lambda c: c.execute(sa.select(TABLE.c.t).where(TABLE.c.n == 50000)).scalar()) == "changed"


def large():
    text = "x" * LARGE
    query = sa.select(sa.literal(text), sa.func.length(sa.literal(text)))
    assert tuple(engine.work(lambda c: c.execute(query).one())) == (text, LARGE)


def prepared():
    """The same statements on two connections of the pool in turn."""
    for turn in range(7):
        for n in range(10):
            query = sa.select(sa.literal(turn, sa.Integer) + n)
            assert engine.work(lambda c, query=query: c.execute(query).scalar()) == turn + n


def reconnect():
    """A connection that has died in the pool is noticed by pool_pre_ping, and replaced."""
    careful = ENGINE(pool_pre_ping=True, pool_size=1)
    expect(None, lambda: careful.work(lambda c: c.execute(sa.text(TERMINATE))))
    assert careful.work(lambda c: c.execute(sa.text("SELECT 1")).scalar()) == 1
    careful.dispose()


def workers():
    """Without a pool of SQLAlchemy's: in session mode its idle connections would keep the servers."""
    if DRIVER == "asyncpg":
        many = Async(poolclass=sa.NullPool)

        async def task(number):
            async with many.engine.connect() as connection:
                for turn in range(ROUNDS):
                    await connection.execute(TABLE.insert(), {"n": 100000 + number * ROUNDS + turn, "t": "workers"})
                    await connection.commit()

        async def all_of_them():
            await asyncio.gather(*(task(number) for number in range(WORKERS)))

        many.loop.run_until_complete(all_of_them())
    else:
        many = Sync(poolclass=sa.NullPool)

        def work(number):
            with many.engine.connect() as connection:
                for turn in range(ROUNDS):
                    connection.execute(TABLE.insert(), {"n": 100000 + number * ROUNDS + turn, "t": "workers"})
                    connection.commit()

        in_threads(WORKERS, work)
    many.dispose()
    count = sa.select(sa.func.count()).where(TABLE.c.t == "workers")
    assert engine.work(lambda c: c.execute(count).scalar()) == WORKERS * ROUNDS


run([open, types, transaction, error, batch, mapped, large, prepared, reconnect])
engine.dispose()
engine = ENGINE()
run([workers])
engine.dispose()
