"""
Changes of types under the prepared statements of a driver, compared with a direct connection.

A program (test/drivers/python/type_changes.py has the conversation) prepares a statement through pgweir, and another one does so directly. Another
client changes the types, through pgweir. Then the statement runs on each server of the pool.
Each answer must be right or an error of 0A000, on which drivers prepare again, and the program must come to right answers without a new connection,
as it does directly.
"""
import contextlib
import os
import subprocess
import sys

from .pooled_postgres import PooledPostgres

SERVERS = 3
PYTHON = os.path.join(os.path.dirname(os.path.dirname(__file__)), "drivers", "python", "type_changes.py")
IN_PYTHON = {kind: [sys.executable, PYTHON, kind] for kind in ("psycopg", "asyncpg")}


def column(old, new, value):
    """The type of a column changes."""
    return (f"CREATE TABLE changed (v {old}); INSERT INTO changed VALUES ({value})", "SELECT v FROM changed",
            f"ALTER TABLE changed ALTER v TYPE {new} USING v::text::{new}")


# {change: (SQL before, the statement, SQL of the change)}
CHANGES = {
    "int to real": column("int", "real", "7"),
    "real to int": column("real", "int", "7"),
    "int to bigint": column("int", "bigint", "7"),
    "bigint to int": column("bigint", "int", "7"),
    "int to text": column("int", "text", "7"),
    "text to int": column("text", "int", "'1701'"),
    "int to numeric": column("int", "numeric(9, 2)", "7"),
    "text to bytea": column("text", "bytea", "'abcd'"),
    "date to timestamp": column("date", "timestamp", "'2001-02-03'"),
    "timestamp to timestamptz": column("timestamp", "timestamptz", "'2001-02-03 04:05'"),
    "varchar to a longer one": column("varchar(5)", "varchar(9)", "'abcd'"),
    "int[] to bigint[]": column("int[]", "bigint[]", "'{7,8}'"),
    "uuid to text": column("uuid", "text", "'01234567-89ab-cdef-0123-456789abcdef'"),
    "a column more": ("CREATE TABLE changed (a int); INSERT INTO changed VALUES (7)", "SELECT * FROM changed",
                      "ALTER TABLE changed ADD b real DEFAULT 1.5"),
    "a column less": ("CREATE TABLE changed (a int, b real, c text); INSERT INTO changed VALUES (7, 1.5, 'c')", "SELECT * FROM changed",
                      "ALTER TABLE changed DROP b"),
    "a column anew": ("CREATE TABLE changed (a int, b int); INSERT INTO changed VALUES (7, 8)", "SELECT * FROM changed",
                      "ALTER TABLE changed DROP a; ALTER TABLE changed ADD a real DEFAULT 1.5"),
    "two names exchanged": ("CREATE TABLE changed (a int, b real); INSERT INTO changed VALUES (7, 1.5)", "SELECT a, b FROM changed",
                            "ALTER TABLE changed RENAME a TO c; ALTER TABLE changed RENAME b TO a; ALTER TABLE changed RENAME c TO b"),
    "another table": ("CREATE TABLE changed (v int); INSERT INTO changed VALUES (7)", "SELECT v FROM changed",
                      "DROP TABLE changed; CREATE TABLE changed (v real); INSERT INTO changed VALUES (1.5)"),
    "a view replaced": ("CREATE TABLE changed (v int); INSERT INTO changed VALUES (7); CREATE VIEW seen AS SELECT v FROM changed",
                        "SELECT * FROM seen", "CREATE OR REPLACE VIEW seen AS SELECT v, v::real / 2 AS half FROM changed"),
    "another view": ("CREATE TABLE changed (v int); INSERT INTO changed VALUES (7); CREATE VIEW seen AS SELECT v FROM changed",
                     "SELECT v FROM seen", "DROP VIEW seen; CREATE VIEW seen AS SELECT v::real AS v FROM changed"),
    "an enum recreated": ("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE changed (v mood); INSERT INTO changed VALUES ('glad')",
                          "SELECT v FROM changed",
                          "ALTER TABLE changed ALTER v TYPE text; DROP TYPE mood; CREATE TYPE mood AS ENUM ('glad', 'sad', 'mad'); "
                          "ALTER TABLE changed ALTER v TYPE mood USING v::mood"),
    "another function": ("CREATE TABLE changed (v int); CREATE FUNCTION told() RETURNS int LANGUAGE SQL AS 'SELECT 7'", "SELECT told()",
                         "DROP FUNCTION told(); CREATE FUNCTION told() RETURNS real LANGUAGE SQL AS 'SELECT 1.5::real'"),
    "a parameter to bigint": ("CREATE TABLE changed (v int); INSERT INTO changed VALUES (7)", "SELECT v FROM changed WHERE v = $1",
                              "ALTER TABLE changed ALTER v TYPE bigint"),
    "a parameter to smallint": ("CREATE TABLE changed (v int); INSERT INTO changed VALUES (7)", "SELECT v FROM changed WHERE v = $1",
                                "ALTER TABLE changed ALTER v TYPE smallint"),
    "a parameter to real": ("CREATE TABLE changed (v int)", "INSERT INTO changed VALUES ($1) RETURNING 'stored'",
                            "ALTER TABLE changed ALTER v TYPE real"),
}
LEFT = "DROP VIEW IF EXISTS seen; DROP TABLE IF EXISTS changed; DROP TYPE IF EXISTS mood; DROP FUNCTION IF EXISTS told()"


class Program:
    def __init__(self, command, environment):
        # pylint: disable-next=consider-using-with
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, verb, sql):
        self._process.stdin.write("%s %s\n" % (verb, sql))
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer, "the program has ended"
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


def execute(pooled, sql):
    """By another client of the pool."""
    client = pooled.weir.client()
    assert not client.query(sql).errors
    client.quit()


def stored(postgres):
    """Values that the statement itself has stored."""
    with contextlib.closing(postgres.connect(database="p0")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT * FROM changed")
        return cursor.fetchall()


def compare(pooled, postgres, through, direct, change):
    before, statement, after = CHANGES[change]
    execute(pooled, LEFT + ";" + before)
    first = direct.ask("fresh", statement)
    assert first.startswith("ok "), first
    assert [through.ask("fresh", statement) for _ in range(2)] + [through.ask("run", statement) for _ in range(SERVERS)] == [first] * (2 + SERVERS)
    execute(pooled, after)
    answers = [through.ask("run", statement) for _ in range(3 * SERVERS)]
    # a driver that does not prepare again goes on with the error
    kept = [direct.ask("run", statement) for _ in range(2)][-1]
    right = direct.ask("fresh", statement)
    assert right.startswith("ok ") and kept in (right, "error 0A000"), (right, kept)
    assert set(answers) <= {right, "error 0A000"}, (right, answers)
    assert answers[-SERVERS:] == [kept] * SERVERS, (kept, answers)
    if "INSERT" in statement:
        assert stored(postgres) == [(7,)], stored(postgres)


def check_all(scene, postgres, authority, command):
    """All changes, with one program for each way."""
    # servers in turns: the statement meets each of them
    pooled = PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=SERVERS, min_pool_size=SERVERS, server_round_robin=1)
    directly = {"PGHOST": postgres.host, "PGPORT": str(postgres.port)}
    wrong = {}
    with Program(command, pooled.environment) as through, Program(command, {**pooled.environment, **directly}) as direct:
        assert through.ask("run", "SELECT 1").startswith("ok ")
        pooled.weir.wait_pool("p0", sv_idle=SERVERS)
        for change in CHANGES:
            try:
                compare(pooled, postgres, through, direct, change)
            except AssertionError as fault:
                wrong[change] = str(fault)
    postgres.execute(LEFT, database="p0")
    assert not wrong
