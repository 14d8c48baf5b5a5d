"""
asyncpg: the extended protocol in binary, and named statements for every query; in variant cache only three statements are kept, so that each query
closes another.
"""
import asyncio
import datetime
import decimal
import ssl
import uuid

import asyncpg

from check import (CACHE, DATABASE, HOST, LARGE, PASSWORD, PORT, ROOT, ROUNDS, RUNNING, SESSION, SLEEP, TERMINATE, TLS,
                   USER, WORKERS, report, sqlstate)

VALUES = (
    ("int8", 2 ** 53 + 1), ("float8", -1.5), ("text", "häßlich, it's ☃"), ("bool", True), ("text", None),
    ("numeric", decimal.Decimal("123.450")), ("date", datetime.date(2026, 11, 21)), ("int4[]", [1, 2, -3]),
    ("timestamptz", datetime.datetime(2026, 11, 21, 2, 1, 23, 820000, tzinfo=datetime.timezone.utc)),
    ("bytea", bytes(range(256))), ("uuid", uuid.UUID("0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5")),
    ("json", '{"a": [1, 2]}'), ("interval", datetime.timedelta(days=3, seconds=7)),
)


async def connect(**options):
    context = ssl.create_default_context(cafile=ROOT) if TLS else False
    if CACHE:
        options["statement_cache_size"] = 3
    return await asyncpg.connect(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, ssl=context,
                                 timeout=None, **options)


async def expect(code, work):
    try:
        await work
    except Exception as error:      # pylint: disable=broad-except
        assert code in (None, sqlstate(error)), "%s instead of %s: %s" % (sqlstate(error), code, error)
    else:
        raise AssertionError("no error, where there should be %s" % code)


class Swapped:
    """Within it another client has the server that was released last."""

    def __init__(self, rival):
        self._transaction = rival.transaction()
        self._rival = rival

    async def __aenter__(self):
        await self._transaction.start()
        await self._rival.fetchval("SELECT 1")

    async def __aexit__(self, *_):
        await self._transaction.rollback()


async def open_():
    connection = await connect()
    row = await connection.fetchrow("SELECT current_user::text, current_database()::text")
    assert tuple(row) == (USER, DATABASE)
    await connection.close()


async def types():
    connection = await connect()
    columns = ", ".join("$%d::%s" % (n + 1, kind) for n, (kind, _) in enumerate(VALUES))
    row = await connection.fetchrow("SELECT " + columns, *(value for _, value in VALUES))
    for (kind, value), got in zip(VALUES, row):
        assert got == value, "%s: %r came back as %r" % (kind, value, got)
    await connection.close()


async def transaction():
    connection = await connect()
    insert = "INSERT INTO drive VALUES ($1, 'transaction')"
    count = "SELECT count(*) FROM drive WHERE t = 'transaction'"
    block = connection.transaction()
    await block.start()
    await connection.execute(insert, 1)
    await block.rollback()
    assert await connection.fetchval(count) == 0
    async with connection.transaction():
        await connection.execute(insert, 2)
        inner = connection.transaction()
        await inner.start()
        await connection.execute(insert, 3)
        await inner.rollback()
    assert await connection.fetchval(count) == 1
    await connection.close()


async def error():
    connection = await connect()
    insert = "INSERT INTO drive VALUES ($1, 'error')"
    await connection.execute(insert, 4)
    await expect("23505", connection.execute(insert, 4))
    await expect("42601", connection.fetch("SELEC 1"))
    assert await connection.fetchval("SELECT 1") == 1
    block = connection.transaction()
    await block.start()
    await expect("22012", connection.fetchval("SELECT 1 / $1::int", 0))
    await expect("25P02", connection.fetchval("SELECT 1"))
    await block.rollback()
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


async def batch():
    connection = await connect()
    await connection.executemany("INSERT INTO drive VALUES ($1, $2)", [(n, "batch") for n in range(10000, 10200)])
    assert await connection.fetchval("SELECT count(*) FROM drive WHERE t = 'batch'") == 200
    await connection.close()


async def copy():
    connection = await connect()
    rows = [(n, "copy %d" % n) for n in range(20000, 30000)]
    await connection.copy_records_to_table("drive", records=rows)
    out = bytearray()

    async def take(data):
        out.extend(data)

    await connection.copy_from_query("SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n", output=take)
    assert out.decode() == "".join("%d\t%s\n" % row for row in rows)
    await expect("23505", connection.copy_records_to_table("drive", records=rows[:1]))
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


async def cancel():
    """A cancelled task sends a cancel request, and the connection continues."""
    connection, watcher = await connect(), await connect()
    sleeper = asyncio.ensure_future(connection.fetchval(SLEEP))
    while await watcher.fetchval(RUNNING) != 1:
        pass
    sleeper.cancel()
    try:
        await sleeper
    except asyncio.CancelledError:
        pass
    assert await connection.fetchval("SELECT 1") == 1
    while await watcher.fetchval(RUNNING) != 0:
        pass
    await connection.close()
    await watcher.close()


async def large():
    connection = await connect()
    text = "x" * LARGE
    assert tuple(await connection.fetchrow("SELECT $1::text, length($1::text)", text)) == (text, LARGE)
    await connection.close()


async def reconnect():
    connection = await connect()
    await expect(None, connection.fetchval(TERMINATE))
    await connection.close()
    connection = await connect()
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


async def prepared():
    connection, rival = await connect(), await connect()
    statement = await connection.prepare("SELECT $1::int + 100")
    for turn in range(7):
        for n in range(10):
            assert await connection.fetchval("SELECT $1::int + %d" % n, turn) == turn + n
        async with Swapped(rival):
            assert await connection.fetchval("SELECT $1::int + 0", turn) == turn
            assert await statement.fetchval(turn) == turn + 100
    await connection.close()
    await rival.close()


async def cursor():
    connection = await connect()
    async with connection.transaction():
        total = 0
        async for row in connection.cursor("SELECT generate_series(1, $1::int)", 1000, prefetch=10):
            total += row[0]
        assert total == 500500
    await connection.close()


async def temporary():
    connection, rival = await connect(), await connect()
    try:
        await connection.execute("CREATE TEMPORARY TABLE mine (n int)")
        async with Swapped(rival):
            assert await connection.fetchval("SELECT count(*) FROM mine") == 0
    finally:
        await connection.execute("DISCARD TEMP")
        await connection.close()
        await rival.close()


async def pool():
    """asyncpg's own pool resets a connection whenever it is given back."""
    context = ssl.create_default_context(cafile=ROOT) if TLS else False
    async with asyncpg.create_pool(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, ssl=context,
                                   timeout=None, min_size=2, max_size=4) as connections:
        async def work(number):
            async with connections.acquire() as connection:
                assert await connection.fetchval("SELECT $1::int", number) == number

        await asyncio.gather(*(work(number) for number in range(40)))


async def workers():
    async def work(number):
        connection = await connect()
        for turn in range(ROUNDS):
            key = 100000 + number * ROUNDS + turn
            async with connection.transaction():
                await connection.execute("INSERT INTO drive VALUES ($1, 'workers')", key)
                assert await connection.fetchval("SELECT t FROM drive WHERE n = $1", key) == "workers"
        await connection.close()

    await asyncio.gather(*(work(number) for number in range(WORKERS)))
    connection = await connect()
    assert await connection.fetchval("SELECT count(*) FROM drive WHERE t = 'workers'") == WORKERS * ROUNDS
    await connection.close()


async def listen():
    connection, other = await connect(), await connect()
    heard = asyncio.get_running_loop().create_future()
    await connection.add_listener("weir", lambda _c, _pid, _channel, payload: heard.set_result(payload))
    await other.execute("NOTIFY weir, 'high'")
    assert await heard == "high"
    await connection.close()
    await other.close()


async def main():
    checks = [open_, types, transaction, error, batch, copy, cancel, large, prepared, cursor, temporary, pool, reconnect,
              workers] + ([listen] if SESSION else [])
    for check in checks:
        fault = None
        try:
            await check()
        except Exception as caught:     # pylint: disable=broad-except
            fault = caught
        report(check.__name__.rstrip("_"), fault)


asyncio.run(main())
