"""
asyncpg with its pool, or psycopg in binary, each with prepared statements, for the test of type changes (test_type_changes.py).

type_changes.py asyncpg | psycopg

Reads lines from its standard input, runs each as a statement that the driver prepares, and prints a line for each:

- "run SQL": on the connection that is open
- "fresh SQL": closes that connection, and opens another one before

$1 in the SQL is the integer 7. The answer is "ok " and the rows, each value with its type in the driver's own words, or "error " and the SQLSTATE.
The environment has the variables of libpq.
"""
import asyncio
import os
import sys


def text_of(rows):
    return "ok " + ";".join(",".join("%s:%r" % (type(value).__name__, value) for value in row) for row in rows)


class Psycopg:
    def __init__(self):
        import psycopg              # pylint: disable=import-outside-toplevel
        self._error = psycopg.Error
        self._connection = psycopg.connect("", autocommit=True, prepare_threshold=0)

    async def run(self, sql):
        cursor = self._connection.cursor(binary=True)
        try:
            return text_of(cursor.execute(sql.replace("$1", "%s"), [7] if "$1" in sql else []).fetchall())
        except self._error as error:
            return "error %s" % error.sqlstate

    async def close(self):
        self._connection.close()


class Asyncpg:
    def __init__(self):
        import asyncpg              # pylint: disable=import-outside-toplevel
        self._error = asyncpg.PostgresError
        self._pool = asyncpg.create_pool(host=os.environ["PGHOST"], min_size=1, max_size=1)
        self._is_open = False

    async def run(self, sql):
        if not self._is_open:
            self._is_open = bool(await self._pool)
        try:
            return text_of([tuple(row) for row in await self._pool.fetch(sql, *([7] if "$1" in sql else []))])
        except self._error as error:
            return "error %s" % error.sqlstate

    async def close(self):
        if self._is_open:
            await self._pool.close()


async def main():
    kind = {"psycopg": Psycopg, "asyncpg": Asyncpg}[sys.argv[1]]
    client = kind()
    for line in sys.stdin:
        verb, _, sql = line.strip().partition(" ")
        if verb == "fresh":
            await client.close()
            client = kind()
        print(await client.run(sql), flush=True)
    await client.close()


asyncio.run(main())
