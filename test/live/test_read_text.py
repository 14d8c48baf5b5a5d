"""
Texts that pgweir recognises as reads (sql/read_text.c), on a primary and its standby: both give the same answer, and no text changes anything or runs
code of a user. pgweir's verdict comes from test/live/reads.c, which is linked with its library.

The database has something of each kind that a recogniser may overlook: functions that swallow the error of a standby, operators, casts, domains,
views, policies and attributes that call them; sequences, unlogged tables, partitions of another kind. The random texts are correct queries, and the same
with words and marks of other statements in them.
"""
import os
import random
import re
import subprocess

import psycopg2
import pytest

import read_functions
from support.nodes import Nodes
from support.pgweir import binary
from support.rounds import size

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# spoil() writes on a primary, and returns another value on a standby, without an error
OBJECTS = """
CREATE TABLE traces (i int);
CREATE FUNCTION spoil() RETURNS int LANGUAGE plpgsql AS
    $$BEGIN INSERT INTO traces VALUES (1); RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN -1; END$$;
CREATE FUNCTION stable_spoil() RETURNS int STABLE LANGUAGE sql AS 'SELECT spoil()';
CREATE FUNCTION initcap(int) RETURNS text LANGUAGE sql AS 'SELECT spoil()::text';
CREATE FUNCTION only_reads(int) RETURNS int STABLE LANGUAGE sql AS 'SELECT $1 + 1';
CREATE SCHEMA other;
CREATE FUNCTION other.lower(text) RETURNS text LANGUAGE sql AS 'SELECT spoil()::text';

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN checked AS text CHECK (spoil() <> 0);
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE floats AS RANGE (subtype = float8);

CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric, d date, e mood, f int[], j jsonb, s small);
INSERT INTO t SELECT i, i % 7, 'b' || i % 5, i / 3.0, '2020-01-01'::date + i, (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood, ARRAY[i, i + 1],
    jsonb_build_object('k', i, 'l', ARRAY[i]), i FROM generate_series(1, 20) AS i;
CREATE TABLE u (id int, tid int, w text, x timestamptz DEFAULT '2020-01-01');
INSERT INTO u SELECT i, i % 20, md5(i::text) FROM generate_series(1, 40) AS i;
CREATE TABLE other.n (id int, "Odd" text);
INSERT INTO other.n VALUES (1, 'x'), (2, NULL);
CREATE TABLE p (id int, w text) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1, 2);
INSERT INTO p VALUES (1, 'p'), (2, 'q');
CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM t GROUP BY a;

CREATE VIEW v AS SELECT spoil() AS id;
CREATE VIEW plain AS SELECT * FROM u;
CREATE SEQUENCE s;
CREATE UNLOGGED TABLE unlogged (id int);
CREATE TABLE policed (id int);
INSERT INTO policed VALUES (1);
ALTER TABLE policed ENABLE ROW LEVEL SECURITY;
CREATE POLICY one ON policed USING (spoil() <> 0);
CREATE TABLE doubtful (id int, d checked);
CREATE TABLE composed (id int, p pair);
CREATE TABLE ranged (id int, r floats);
CREATE TABLE arrays (id int, d checked[]);
CREATE TABLE q (id int) PARTITION BY LIST (id);
CREATE UNLOGGED TABLE q1 PARTITION OF q FOR VALUES IN (1);
CREATE TABLE base (id int);
CREATE UNLOGGED TABLE child () INHERITS (base);
CREATE FUNCTION total(t) RETURNS int LANGUAGE sql AS 'SELECT spoil()';
CREATE FUNCTION of_number(int) RETURNS int LANGUAGE sql AS 'SELECT spoil()';
CREATE FUNCTION any_total(anyelement) RETURNS int LANGUAGE sql AS 'SELECT spoil()';
CREATE FUNCTION concatenated(text, text) RETURNS text LANGUAGE sql AS 'SELECT spoil()::text';
CREATE OPERATOR ^@ (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl);
CREATE OPERATOR <#> (LEFTARG = text, RIGHTARG = text, FUNCTION = concatenated);
"""

READS = ["SELECT 1", "SELECT * FROM t ORDER BY id", "SELECT a, count(*) FROM t WHERE b LIKE 'b%' GROUP BY a ORDER BY 1",
         "SELECT t.b, u.w FROM t JOIN u ON u.tid = t.id ORDER BY u.id",
         "SELECT * FROM public.t x, other.n y WHERE x.id = y.id", "SELECT \"Odd\", \"n\".\"id\" FROM other.n ORDER BY 2",
         "SELECT * FROM p ORDER BY id", "SELECT * FROM m ORDER BY a",
         "SELECT e, e::text, 'ok'::mood, mood 'sad' FROM t ORDER BY id", "SELECT s + 1, s::int FROM t ORDER BY 1",
         "WITH v AS (SELECT 1 AS id) SELECT id FROM t WHERE id = 1",
         "SELECT j->'k', j->>'l', f[1] FROM t WHERE j @> '{\"k\": 3}'", "SELECT upper('x'), substring(b FROM 1 FOR 1) FROM t ORDER BY id",
         "SELECT row_number() OVER (PARTITION BY a ORDER BY id) FROM t", "SELECT 5 ^@ 6", "VALUES (1, 'a'), (2, 'b')", "SELECT only_reads(1)",
         "SELECT t.a FROM t LIMIT 1", "SELECT tableoid::regclass, ctid FROM t"]

# a way of each kind of traps 39 to 60 to reach another answer or an effect
TRAPS = ["SELECT spoil()", "SELECT stable_spoil()", "SELECT * FROM spoil()", "SELECT * FROM v", "SELECT * FROM plain", "SELECT * FROM policed",
         "SELECT initcap(1)", "SELECT initcap('a')", "SELECT lower('A')",
         "SELECT other.lower('A')", "SELECT 'a'::checked", "SELECT CAST('a' AS checked)", "SELECT checked 'a'", "SELECT '{a}'::checked[]",
         "SELECT '(1,a)'::pair", "SELECT '[1,2]'::floats", "SELECT 'a'::_checked", "SELECT t.total FROM t",
         "SELECT (t).total FROM t", "SELECT (a).of_number FROM t", "SELECT g.of_number FROM generate_series(1, 2) g", "SELECT (0.5::float8).setseed",
         "SELECT ('transaction_read_only'::text).current_setting", "SELECT ('SELECT to_tsvector(spoil()::text)'::text).ts_stat", "SELECT x.any_total FROM t x", "SELECT total(t) FROM t", "SELECT 'a' <#> 'b'", "SELECT * FROM doubtful",
         "SELECT * FROM composed", "SELECT (p).a FROM composed", "SELECT * FROM ranged", "SELECT * FROM arrays",
         "SELECT * FROM s", "SELECT last_value FROM s", "SELECT * FROM unlogged", "SELECT * FROM q", "SELECT * FROM base", "SELECT nextval('s')",
         "SELECT * FROM pg_sequences", "SELECT pg_is_in_recovery()", "SELECT inet_server_port()", "SELECT * FROM pg_stat_activity",
         "SELECT current_setting('transaction_read_only')", "SHOW transaction_read_only", "SELECT setting FROM pg_settings",
         "SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_lock_shared(1)", "SELECT pg_reload_conf()", "SELECT pg_stat_reset()",
         "SELECT pg_wal_replay_pause()",
         "SELECT lo_creat(-1)", "SELECT pg_logical_emit_message(true, 'a', 'b')", "SELECT pg_current_wal_lsn()", "SELECT currval('s')",
         "SELECT lastval()", "SELECT 1; INSERT INTO traces VALUES (1)", "SELECT 1; SELECT spoil()", "SELECT U&\"\\0073poil\"()",
         "SELECT t.u&\"tot\\0061l\" FROM t", "SELECT t . U&\"tot\\0061l\" FROM t",
         "SELECT $$a$$; SELECT spoil()", "SELECT 'a\\'; SELECT spoil() --'", "SELECT pg_export_snapshot()",
         "SELECT query_to_xml('SELECT spoil()', true, true, '')", "SELECT table_to_xml('v', true, true, '')",
         "SELECT ts_stat('SELECT to_tsvector(spoil()::text)')",
         "SELECT a INTO made FROM t", "CREATE TABLE made AS SELECT 1", "SELECT * FROM t FOR UPDATE", "SELECT * FROM t x FOR KEY SHARE",
         "WITH a AS (INSERT INTO traces VALUES (1) RETURNING i) SELECT * FROM a", "TABLE v", "SELECT * FROM (TABLE v) a", "COPY t TO STDOUT",
         "COPY (SELECT 1) TO PROGRAM 'true'", "EXPLAIN ANALYZE SELECT spoil()", "SELECT txid_current()", "SELECT xmin FROM t", "SELECT version()",
         "SELECT set_config('app.a', 'b', false)", "SELECT * FROM t TABLESAMPLE system (100)",
         "SELECT json_populate_record(doubtful, '{}') FROM doubtful",
         "SELECT clock_timestamp()", "SELECT random()", "SELECT pg_backend_pid()", "CALL f()", "DO 'BEGIN PERFORM spoil(); END'", "LOCK t",
         "LISTEN a", "NOTIFY a", "PREPARE a AS SELECT spoil()", "CHECKPOINT", "BEGIN READ ONLY; SELECT spoil(); COMMIT",
         "/* pgweir: primary */ SELECT 1"]


def verdicts(texts):
    """The question to the catalogue for each text, or None."""
    program = os.path.join(os.path.dirname(binary()), "test", "live", "reads")
    lines = "".join((text.encode().hex() or "-") + "\n" for text in texts)
    answers = subprocess.run([program, "only_reads"], input=lines, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert len(answers) == len(texts)
    return [None if answer == "no" else bytes.fromhex(answer).decode() for answer in answers]


class Judge:
    """Asks the primary and the standby."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.primary, self.standby = self.connect(nodes.primary), self.connect(nodes.standbys[0])

    @staticmethod
    def connect(node):
        connection = node.connect(user="app", database="p0")
        connection.autocommit = True
        return connection

    def value(self, sql):
        with self.primary.cursor() as cursor:
            cursor.execute(sql)
            (row,) = cursor.fetchall()
        return row[0]

    def allowed(self, texts):
        """The texts that pgweir and the catalogue allow."""
        questions = verdicts(texts)
        answers = {question: self.value(question) for question in set(filter(None, questions))}
        return [text for text, question in zip(texts, questions) if answers.get(question)]

    @staticmethod
    def answer(connection, text):
        """Rows or an SQLSTATE."""
        with connection.cursor() as cursor:
            try:
                cursor.execute(text)
                return sorted(map(repr, cursor.fetchall())) if cursor.description else "no rows"
            except psycopg2.Error as error:
                return error.pgcode

    def check(self, text):
        """The text is a read: it gives the same answer on both servers, and changes and locks nothing. Returns the answer."""
        answers = []
        for server in (self.primary, self.standby):
            with server.cursor() as cursor:
                cursor.execute("BEGIN")
                answers.append(self.answer(server, text))
                if server is self.primary and not isinstance(answers[0], str):
                    cursor.execute(LEFT)
                    assert cursor.fetchone()[0] == 0, text
                cursor.execute("ROLLBACK")
        assert answers[0] == answers[1], text
        return answers[0]


# the locks of a write, a row lock, an advisory lock, or DDL
LEFT = """SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND
    (locktype IN ('advisory', 'transactionid') OR mode NOT IN ('AccessShareLock', 'ExclusiveLock'))"""


@pytest.fixture(scope="module", name="judge")
def make_judge(worker_directory, memory_directory):
    path = os.path.join(worker_directory, "reads")
    os.mkdir(path)
    nodes = Nodes(path, memory_directory, standbys=1)
    try:
        nodes.primary.execute(OBJECTS, database="p0", user="app")
        nodes.wait_replayed()
        judge = Judge(nodes)
        yield judge
        judge.primary.close()
        judge.standby.close()
    finally:
        nodes.take_down()


def test_reads(judge):
    assert judge.allowed(READS) == READS
    for text in READS:
        assert not isinstance(judge.check(text), str), text


def test_traps(judge):
    assert judge.allowed(TRAPS) == []


def test_the_test_sees_effects(judge):
    for text in ("SELECT spoil()", "SELECT * FROM v", "SELECT t.total FROM t", "SELECT 'a' <#> 'b'", "SELECT 'a'::checked",
    "SELECT * FROM t FOR UPDATE", "SELECT pg_advisory_lock(1)",
                 "SELECT nextval('s')", "SELECT 1; CREATE TABLE made (i int)", "SELECT pg_is_in_recovery()"):
        with pytest.raises(AssertionError):
            judge.check(text)
        with judge.primary.cursor() as cursor:
            cursor.execute("ROLLBACK; SELECT pg_advisory_unlock_all()")
        with judge.standby.cursor() as cursor:
            cursor.execute("ROLLBACK; SELECT pg_advisory_unlock_all()")


@pytest.mark.parametrize("made, undone", [
    ("CREATE FUNCTION spoil(t) RETURNS text LANGUAGE sql AS 'SELECT spoil()::text'; CREATE CAST (t AS text) WITH FUNCTION spoil(t)",
    "DROP FUNCTION spoil(t) CASCADE"),
    ("CREATE FUNCTION upper(int) RETURNS text LANGUAGE sql AS 'SELECT spoil()::text'", "DROP FUNCTION upper(int)"),
    ("CREATE FUNCTION sfunc(int, int) RETURNS int LANGUAGE sql AS 'SELECT spoil()'; CREATE AGGREGATE upper(int) (SFUNC = sfunc, STYPE = int)",
    "DROP AGGREGATE upper(int); DROP FUNCTION sfunc"),
    ("CREATE OPERATOR = (LEFTARG = text, RIGHTARG = int, FUNCTION = doubt)", "DROP OPERATOR = (text, int)"),
    ("CREATE DOMAIN public.int4 AS text CHECK (spoil() <> 0)", "DROP DOMAIN public.int4"),
    ("CREATE VIEW other.t AS SELECT 1", "DROP VIEW other.t"),
    ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "ALTER TABLE t DISABLE ROW LEVEL SECURITY"),
    ("ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED"),
    ("ALTER TABLE t ADD z checked", "ALTER TABLE t DROP z"),
    ("CREATE TABLE below () INHERITS (t); ALTER TABLE below SET UNLOGGED", "DROP TABLE below"),
])
def test_ddl_changes_the_answer(judge, made, undone):
    text = "SELECT upper(b), a::int4 FROM t WHERE a IN (1, 2)"
    assert judge.allowed([text])
    with judge.primary.cursor() as cursor:
        cursor.execute("CREATE FUNCTION doubt(text, int) RETURNS bool LANGUAGE sql AS 'SELECT spoil() = 0'")
        cursor.execute(made)
        assert not judge.allowed([text])
        cursor.execute(undone)
        cursor.execute("DROP FUNCTION doubt")
    assert judge.allowed([text])


# --- random texts

# columns: i of numbers, t of texts, b of truth values
TABLES = {"t": {"i": "id a s f[1]", "t": "b e::text j->>'k' d::text", "b": "e='ok' j@>'{}'"}, "u": {"i": "id tid", "t": "w x::text"},
      "other.n": {"i": "id", "t": '"Odd"'},
          "p": {"i": "id", "t": "w"}, "m": {"i": "a n"}}
ODD_TABLES = ["v", "plain", "s", "unlogged", "policed", "doubtful", "q", "base", "spoil()", "generate_series(1, 3)", "unnest(ARRAY[1, 2])"]
FORMS = {
    "i": ["1", "25", "{i} + {i}", "- {i}", "{i} * {i}", "abs({i})", "length({t})", "coalesce({i}, 1)", "CASE WHEN {b} THEN {i} ELSE {i} END",
          "CASE {i} WHEN 1 THEN {i} END", "greatest({i}, {i})", "nullif({i}, {i})", "({i})",
          "(SELECT count(*) FROM u WHERE {b})", "(ARRAY[{i}, {i}])[1]", "only_reads({i}::int)", "extract(year FROM date '2020-01-01')",
          "({i})::numeric(10, 2)", "{i} ^@ 1", "position('a' IN {t})"],
    "t": ["'a'", "'b''; --'", "upper({t})", "{t} || {t}", "({i})::text", "CAST({i} AS text)", "substring({t} FROM 1 FOR 2)", "substring({t}, 2)",
          "concat({i}, {t})", "trim(BOTH 'b' FROM {t})", "to_json({t})::text", "(SELECT max(w) FROM u WHERE {b})",
          "{t} COLLATE \"C\"", "replace({t}, 'b', {t})", "left({t}, 1)", "('ok'::mood)::text"],
    "b": ["true", "{i} = {i}", "{i} < {i}", "{i} <> {i}", "{t} LIKE 'b%'", "{b} AND {b}", "{b} OR {b}", "NOT {b}", "{i} IN (1, 2, {i})",
          "{i} BETWEEN 1 AND {i}", "{t} IS NULL", "{t} IS DISTINCT FROM {t}", "EXISTS (SELECT 1 FROM p WHERE {b})", "{i} = ANY (ARRAY[1, {i}])",
          "{i} NOT IN (SELECT id FROM u)", "({i}, {t}) = ({i}, {t})", "{t} SIMILAR TO 'b_'"],
}
ODD_FORMS = ["spoil()", "initcap(1)", "lower('A')", "nextval('s')", "'a'::checked", "('a' <#> 'b')", "t.total", "current_setting('port')"]
PIECES = ["INTO made", "FOR UPDATE", "FOR SHARE", ";", "; SELECT spoil()", "spoil()", "'", '"', "--", "/*", "*/", "\n", "$$", "$a$", "E'", "\\",
          "\\'", "TABLE v", "v", "s", ",", "(", ")", "()", "::checked", "::text", "AS", "x", "1a", "U&", "WITH", "UNION",
          "SELECT", "FROM", ".total", ".any_total", '.u&"tot\\0061l"', "U&'a\\0027'", "LATERAL", "VALUES (1)", "CASE WHEN", "THEN", "END",
          "OVER ()", "FILTER (WHERE", "TABLESAMPLE system (100)", "ORDER BY", "USING", "ON", "JOIN", "RETURNING *", "DELETE FROM traces",
          "INSERT INTO traces VALUES (1)",
          "COLLATE \"C\"", "OPERATOR(public.<#>)", "<#>", "NOT", "IN", "::", ":", "[", "]", "[1]", "t", "t.*", "*", "1", "'a'", "null", "LIMIT 1",
          "GROUP BY", "WINDOW w AS", "ONLY", "nextval('s')", "lower", "count", "(SELECT 1)", "WITH a AS (DELETE FROM traces RETURNING 1)", "e'\\'",
          "N'a'",
          "1.", ".5", "$1", "AT TIME ZONE", "ROW", "ARRAY", "EXISTS", "ANY", "ALL", "DISTINCT", "VARIADIC", "pg_catalog.", "public.", "other.",
          "WHERE CURRENT OF x", "FETCH FIRST ROW ONLY", "SET", "DEFAULT", "checked 'a'", "interval '1' day", "\"spoil\"()", "spoil ( )",
          "spoil/**/()"]


class Texts:
    """Random queries: mostly correct, over a few tables."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def is_odd(self):
        return self.chance.random() < 0.03

    def expression(self, kind, columns, depth=0):
        chance = self.chance
        if chance.random() < 0.01:
            return chance.choice(ODD_FORMS)
        if columns[kind] and (depth > 2 or chance.random() < 0.4):
            return chance.choice(columns[kind])
        form = chance.choice(FORMS[kind][:2] if depth > 2 else FORMS[kind])
        return re.sub(r"\{([itb])\}", lambda found: self.expression(found.group(1), columns, depth + 1), form)

    def query(self):
        chance = self.chance
        names = chance.sample(sorted(TABLES), chance.randint(1, 2))
        aliases = ["%s%d" % (chance.choice("xyz"), number) for number in range(len(names))]
        columns = {kind: [alias + "." + column for name, alias in zip(names, aliases) for column in TABLES[name].get(kind, "").split()] for kind in FORMS}
        relations = [chance.choice(ODD_TABLES) if chance.random() < 0.03 else name for name in names]
        if chance.random() < 0.2:
            relations[0] = "(SELECT * FROM %s)" % relations[0]
        text = "%s %s" % (relations[0], aliases[0])
        if len(names) > 1:
            text += chance.choice([", {} {}", " JOIN {} AS {} ON true", " LEFT JOIN {} {} ON %s" % self.expression("b", columns, 2).replace("{",
            "{{").replace("}", "}}"),
                                   " CROSS JOIN {} {}", ", LATERAL (SELECT * FROM {}) {}"]).format(relations[1], aliases[1])
        return self.around(text, columns)

    def around(self, relations, columns):
        """A query of these relations."""
        chance = self.chance
        where = " WHERE " + self.expression("b", columns) if chance.random() < 0.6 else ""
        if chance.random() < 0.2:
            group = self.expression("i", columns, 2)
            return "SELECT %s, count(*), max(%s) FILTER (WHERE %s) FROM %s%s GROUP BY 1 HAVING count(*) > 0 ORDER BY 1" % (
                group, self.expression("i", columns), self.expression("b", columns), relations, where)
        items = ", ".join(self.expression(chance.choice("itb"), columns) + chance.choice(["", "", " AS r%d", " k%d"]).replace("%d",
              str(number)) for number in range(chance.randint(1, 3)))
        text = "SELECT %s%s FROM %s%s" % (chance.choice(["", "", "DISTINCT ", "row_number() OVER (ORDER BY 1), "]), items, relations, where)
        return chance.choice(["WITH w AS ({}) SELECT * FROM w", "({0}) UNION ALL ({0})", "SELECT count(*) FROM ({}) c"] + 7 * ["{}"]).format(text)

    def mutated(self, text):
        """Words and marks are inserted, removed, and exchanged."""
        parts = re.findall(r"\s+|\w+|'[^']*'|\W", text)
        for _ in range(self.chance.randint(1, 3)):
            at = self.chance.randrange(len(parts))
            piece = self.chance.choice(PIECES)
            parts[at] = self.chance.choice(["", parts[at] + " " + piece + " ", piece, self.chance.choice(parts), parts[at] + piece])
        return "".join(parts)


@pytest.mark.parametrize("seed", range(3))
def test_random_texts(judge, seed):
    texts, traces = Texts(seed), judge.value("SELECT count(*) FROM traces")
    correct = [texts.query() for _ in range(size(100, 2000))]
    # the most interesting texts are near allowed ones
    near = judge.allowed(correct) + READS
    texts_near = [texts.mutated(texts.chance.choice(near)) for _ in range(size(400, 20000))]
    allowed = judge.allowed(correct + texts_near)
    valid = sum(not isinstance(judge.check(text), str) for text in allowed)
    print(len(near), len(allowed), valid)
    assert len(near) > len(correct) / 2
    assert valid > len(near) / 2
    assert judge.value("SELECT count(*) FROM traces") == traces


# --- tables of words

def rows_of(name, row):
    with open(os.path.join(TOP, "include", "tbl", name), encoding="ascii") as f:
        return re.findall(row, f.read(), re.M)


def test_functions_of_the_table_are_not_volatile(judge):
    names = rows_of("read_functions.tbl", r'^READ_FUNCTION\("(\w+)"\)')
    assert names == read_functions.NAMES
    with judge.primary.cursor() as cursor:
        cursor.execute(read_functions.VOLATILE)
        known = dict(cursor.fetchall())
    assert not [name for name in names if known.get(name)]
    assert len(set(names) - set(known)) < 40


def test_reserved_keywords_are_known(judge):
    """A reserved word that the recogniser does not know would be a name for it."""
    with judge.primary.cursor() as cursor:
        cursor.execute("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
        reserved = {word for word, in cursor.fetchall()}
    assert not reserved - set(rows_of("read_words.tbl", r'^READ_WORD\("(\w+)"'))


def test_operators_are_built_in(judge):
    with judge.primary.cursor() as cursor:
        cursor.execute("SELECT DISTINCT oprname::text FROM pg_operator o JOIN pg_proc p ON p.oid = oprcode WHERE provolatile = 'v' AND o.oid < 16384")
        assert not {name for name, in cursor.fetchall()} & set(rows_of("read_operators.tbl", r'^READ_OPERATOR\w*\("(.+)"\)'))
