"""
Random sequences with prepared statements whose texts change their meaning: by DDL of any client, by search_path and temporary tables of the client.
Each client is compared, message by message, with a direct connection of its own that gets the same messages. In place of a statement, pgweir may answer
0A000 `cached plan must not change result type` where the direct connection goes on: then both connections begin again. In a seed without such changes
pgweir may not.
"""
import struct

from . import messages as m
from .sessions import columns

NAMES = ("a", "b", "c", "")
NUMBERS = ("int", "bigint", "real", "text", "numeric", "varchar(9)")
TIMES = ("date", "timestamp", "timestamptz", "text")
MOMENT = "2024-01-02 03:04:05"

# what the tables begin with; t is dropped and created again, the others are altered
TABLES = {
    "public.t": ("int", "'7'"), "public.u": ("timestamp", "'%s'" % MOMENT),
    "tn1.tnt": ("timestamp", "'%s'" % MOMENT), "tn2.tnt": ("date", "'%s'" % MOMENT), "tn3.tnt": ("text", "'%s'" % MOMENT),
}


def create(table, kind):
    return "CREATE TABLE %s (v %s); INSERT INTO %s VALUES (%s)" % (table, kind, table, TABLES[table][1])


FILL = "; ".join("DELETE FROM %s; INSERT INTO %s (v) VALUES (%s)" % (table, table, value) for table, (_, value) in TABLES.items())
SETUP = ["SET client_min_messages = 'error'", "DROP SCHEMA IF EXISTS tn1, tn2, tn3 CASCADE", "DROP TABLE IF EXISTS public.t, public.u CASCADE",
         "DROP VIEW IF EXISTS public.seen", "DROP FUNCTION IF EXISTS public.f(int)", "DROP FUNCTION IF EXISTS public.f(text)",
         "CREATE SCHEMA tn1", "CREATE SCHEMA tn2", "CREATE SCHEMA tn3",
         *[create(table, kind) for table, (kind, _) in TABLES.items()],
         "CREATE VIEW public.seen AS SELECT 1 AS v", "CREATE FUNCTION public.f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'"]

# text, and values for its parameters
TEXTS = (
    ("SELECT v FROM t ORDER BY v::text", ()),
    ("SELECT * FROM t ORDER BY v::text", ()),
    ("SELECT v::text, v FROM t WHERE v = $1 ORDER BY 1", (("7", "8", "x"),)),
    ("INSERT INTO t (v) VALUES ($1) RETURNING v::text", (("7", "8", "70000000000", "1.5", "x"),)),
    ("INSERT INTO u VALUES ($1) RETURNING v::text, v", ((MOMENT, "2024-01-02", "x"),)),
    ("SELECT v FROM u ORDER BY v::text", ()),
    ("INSERT INTO tnt VALUES ($1) RETURNING v::text", ((MOMENT, "2024-01-02", "x"),)),
    ("SELECT v FROM tnt ORDER BY v::text", ()),
    ("SELECT * FROM tnt ORDER BY v::text", ()),
    ("SELECT $1 < v FROM tnt ORDER BY v::text", ((MOMENT, "2024-01-01"),)),
    ("SELECT * FROM seen", ()),
    ("SELECT f($1)", (("7", "x"),)),
    ("SELECT f(7)", ()),
    ("SELECT current_schema()::text", ()),
    ("SELECT $1", (("7", "x"),)),
    ("SELECT 10 / $1", (("0", "5"),)),
    ("SELECT generate_series(1, $1)", (("5", "2"),)),
    ("VALUES (1, 'a'), (2, 'b')", ()),
    ("SELEKT", ()),
)
ENCODED = {21: ("!h", (7, 1)), 23: ("!i", (7, 0, 8760)), 20: ("!q", (7, 1 << 40)), 700: ("!f", (7.0, 1.5)), 701: ("!d", (7.0, 1.5)), 1082: ("!i", (8767,)),
           1114: ("!q", (757479845000000,)), 1184: ("!q", (757479845000000,))}


def bind(statement, portal, values, formats, result):
    body = m.cstring(portal) + m.cstring(statement) + struct.pack("!H", len(formats)) + b"".join(struct.pack("!H", each) for each in formats)
    body += struct.pack("!H", len(values)) + b"".join(struct.pack("!i", len(value)) + value for value in values)
    return m.message("B", body + struct.pack("!HH", 1, result))


def is_changed(part):
    return part[0] == "E" and part[2:] == ("0A000", "cached plan must not change result type")


def batches(parts):
    """The answers divided behind each ReadyForQuery."""
    ends = [n + 1 for n, part in enumerate(parts) if part[0] == "Z"]
    return [parts[begin:end] for begin, end in zip([0] + ends, ends)]


def first_difference(got, want):
    return next((n for n, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))


def fails_alike(got, want):
    """
    Both fail, and pgweir's error is of the Parse that it has to send again: the text has no meaning, or the transaction has failed. The direct
    connection may have parsed, bound or described something before its error.
    """
    at = first_difference(got, want)
    end = next((n for n in range(at, len(want)) if want[n][0] not in "12t"), len(want))
    if at >= len(got) or end >= len(want) or not got[at][0] == want[end][0] == "E":
        return False
    return got[at][2][:2] in ("42", "25") and got[at + 1:] == want[end + 1:]


def answers(client, count):
    """
    Returns the answers up to the last of so many ReadyForQuery, without parts that differ between connections. Whether a value is refused in Bind or in
    Execute depends on how often the server has executed the statement (plan_cache_mode).
    """
    got = []
    while count:
        message = client.read()
        count -= message.type == "Z"
        if message.type in "EN":
            fields = m.read_error(message.body)
            if fields["C"].startswith("22"):
                got = got[:-2] if [part[0] for part in got[-2:]] == ["2", "T"] else got[:-1] if got and got[-1][0] == "2" else got
            got.append((message.type, fields["S"], fields["C"], fields["M"]))
        elif message.type == "T":
            got.append((message.type, columns(message.body)))
        elif message.type != "S":
            got.append((message.type, message.body))
    return got


class Statement:
    """What a client has prepared by one name."""

    def __init__(self, values, may_write):
        self.values = values
        self.may_write = may_write  # this text, or an earlier one if its Parse has failed
        self.types = None           # as of the last ParameterDescription


class Pair:
    """A client of pgweir and its direct connection, and what both have."""

    def __init__(self, through, direct):
        self.through, self.direct = through, direct
        self.names = {}
        self.status = b"I"
        self.settings = False       # its transaction has a SET that is to be rolled back
        self.portal = False
        self.tainted = False        # its unnamed statement may be SQL that names others, which has no types of its own
        self.is_pinned = False
        self.hides = False          # the session may have a temporary table, which only a statement parsed again uses

    def quit(self):
        self.through.quit()
        self.direct.quit()


class Play:
    """One seed: pairs, and clients that only hold servers."""

    def __init__(self, draw, pairs, holders, servers, keeps_state):
        self.draw, self.pairs, self.holders = draw, pairs, holders
        self.is_quiet = draw.random() < 0.15        # no text changes its meaning
        self.servers, self.keeps_state = servers, keeps_state
        self.holding = set()
        self.ddl_of = None          # this pair has DDL in its transaction: locks
        self.told = []
        self.excused = 0
        self.diverged = None        # to be called when the tables differ

    # --- parts of a pipeline: (bytes, description)

    def parse(self, pair, name):
        text, values = self.draw.choice(TEXTS)
        types = self.draw.choice(((), (), (), (23,), (25,), (1114,), (0,))) if values else ()
        before = m.close("S", name) if name in pair.names and name and self.draw.random() < 0.9 else b""
        if before or name == "" or name not in pair.names:
            may_write = text.startswith("INSERT") or (name in pair.names and pair.names[name].may_write)
            pair.names[name] = Statement(values, may_write)
        return before + m.parse(text, name, types), "%sParse %r %s %r" % ("Close, " if before else "", name, text, types)

    def describe(self, pair, name):
        self.described.append(pair.names.get(name))
        return m.describe("S", name), "Describe %r" % name

    def close(self, pair, name):
        pair.names.pop(name, None)
        return m.close("S", name), "Close %r" % name

    def use(self, pair, name):
        statement = pair.names.get(name)
        values, formats = [], []
        for n, choice in enumerate(statement.values if statement else ()):
            kind = statement.types[n] if statement.types and n < len(statement.types) else None
            if kind in ENCODED and self.draw.random() < 0.5:
                code, numbers = ENCODED[kind]
                values.append(struct.pack(code, self.draw.choice(numbers)))
                formats.append(1)
            else:
                values.append(self.draw.choice(choice).encode())
                formats.append(0)
        portal = self.draw.choice(("", "", "", "p"))
        result = self.draw.choice((0, 1))
        rows = self.draw.choice((0, 0, 0, 1))
        data = m.close("P", portal) if portal else b""
        data += bind(name, portal, values, formats, result)
        described = self.draw.random() < 0.4
        if described:
            data += m.describe("P", portal)
        data += m.execute(portal, rows)
        # a Parse, which pgweir may send again in the batch, makes rows of a suspended INSERT visible
        if rows and (self.draw.random() < 0.5 or not statement or statement.may_write):
            data += m.execute(portal, 0)
        pair.portal = portal == "p"
        return data, "Bind %r %r %r, result %d%s, Execute %d%s" % (name, values, formats, result, ", Describe P" if described else "", rows,
                                                                  " " + portal if portal else "")

    def sql_about_names(self, pair):
        name = self.draw.choice(NAMES[:3])
        statement = pair.names.get(name)
        if self.draw.random() < 0.3:
            pair.names.pop(name, None)
            return "DEALLOCATE %s" % name
        if self.draw.random() < 0.05:
            for each in NAMES[:3]:
                pair.names.pop(each, None)
            return "DEALLOCATE ALL"
        values = ", ".join("'%s'" % self.draw.choice(choice) for choice in statement.values) if statement else ""
        return "EXECUTE %s%s" % (name, "(%s)" % values if values else "")

    def sql_of_transactions(self, pair):
        if pair.status == b"I":
            return "BEGIN"
        if pair.settings:
            return self.draw.choice(("ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s"))
        return self.draw.choice(("COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"))

    def sql_of_meaning(self, pair):
        """What changes the meaning of texts for this client."""
        if self.is_quiet:
            return self.draw.choice(("SET LOCAL app.a = 'x'", "SELECT set_config('request.jwt.claims', '{}', true)", "SET LOCAL work_mem = '1MB'"))
        path = self.draw.choice(("tn1", "tn2", "tn3", "tn1, public", "public, tn2", "pg_catalog"))
        texts = ["SET LOCAL search_path = %s" % path, "SELECT set_config('search_path', '%s', true)" % path, "SET LOCAL app.a = 'x'",
                 "SELECT set_config(lower('SEARCH_PATH'), '%s', true)" % path, "/* tenant */ SET LOCAL search_path TO %s" % path,
                 "DO $$ BEGIN SET LOCAL search_path TO %s; END $$" % path, "SELECT set_config('request.jwt.claims', '{}', true)"]
        if pair.status == b"T":
            kind = self.draw.choice(NUMBERS + TIMES)
            texts += ["CREATE TEMP TABLE %s (v %s) ON COMMIT DROP" % (self.draw.choice(("t", "u", "tnt")), kind)] * 2
        text = self.draw.choice(texts)
        if self.keeps_state and self.draw.random() < 0.5:
            kind = self.draw.choice(NUMBERS + TIMES)
            text = self.draw.choice((
                "SET search_path = %s" % path, "SELECT set_config('search_path', '%s', false)" % path, "RESET search_path", "RESET ALL",
                "SET search_path TO DEFAULT", "SET \"Search_Path\" = %s" % path, "CREATE TEMP TABLE %s (v %s)" % (self.draw.choice(("t", "tnt")), kind),
                "DROP TABLE IF EXISTS pg_temp.t", "DISCARD TEMP", "DISCARD ALL", "SET ROLE app", "RESET ROLE", "SET a$b.c = 'x'"))
        elif pair.status == b"T" and self.draw.random() < 0.15:
            pair.settings = True
            text = "SET search_path = %s" % path
        if text == "DISCARD ALL":
            pair.names.clear()
        return text

    def sql_of_tables(self):
        """DDL that every client notices."""
        numbers, times = self.draw.choice(NUMBERS), self.draw.choice(TIMES)
        tenant = self.draw.choice(("tn1.tnt", "tn2.tnt", "tn3.tnt"))
        view = self.draw.choice(("1 AS v", "'x'::text AS v", "1 AS v, 2 AS w", "1.5::real AS v"))
        result = self.draw.choice(("int", "text", "real", "bigint"))
        return self.draw.choice((
            "ALTER TABLE public.t ALTER v TYPE %s USING '7'::%s" % (numbers, numbers),
            "ALTER TABLE public.t ALTER v TYPE %s USING '7'::%s" % (numbers, numbers),
            "ALTER TABLE public.u ALTER v TYPE %s USING '%s'::%s" % (times, MOMENT, times),
            "ALTER TABLE %s ALTER v TYPE %s USING '%s'::%s" % (tenant, times, MOMENT, times),
            "ALTER TABLE public.t ADD w int DEFAULT 5", "ALTER TABLE public.t DROP COLUMN IF EXISTS w",
            "DROP TABLE public.t; " + create("public.t", numbers),
            "DROP TABLE public.u; " + create("public.u", times),
            "DROP TABLE %s; %s" % (tenant, create(tenant, times)),
            "DROP VIEW public.seen; CREATE VIEW public.seen AS SELECT %s" % view,
            "CREATE OR REPLACE VIEW public.seen AS SELECT %s" % view,
            "DROP FUNCTION public.f(int); CREATE FUNCTION public.f(int) RETURNS %s LANGUAGE sql AS 'SELECT ($1 + 2)::%s'" % (result, result),
            "CREATE OR REPLACE FUNCTION public.f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + %d'" % self.draw.randrange(9),
            "CREATE FUNCTION public.f(text) RETURNS text LANGUAGE sql AS 'SELECT $1'", "DROP FUNCTION public.f(text)",
        ))

    # --- steps

    def tell(self, k, text):
        self.told.append("%s: %s" % (k, text))

    def context(self):
        return "\n".join(self.told[-60:])

    def exchange(self, k, data, count, description):
        """Sends the same to both, and compares the answers. Returns those of the direct connection; None: excused, and both have begun again."""
        pair = self.pairs[k]
        self.tell(k, description)
        pair.direct.send(data)
        want = answers(pair.direct, count)
        pair.through.send(data)
        got = answers(pair.through, count)
        self.tell(k, "    " + repr([part if part[0] in "EDtZ" else part[0] for part in want])[:400])
        pair.status = want[-1][1]
        pair.hides |= "TEMP TABLE" in description
        if any(is_changed(part) for part in want):      # the server has made the portal before this error
            pair.portal = False
        got = [part for n, part in enumerate(got) if part[0] != "n" or not is_changed(got[n + 1])]   # of EXECUTE with a name that no statement has
        for one, other in zip(batches(got), batches(want)):
            if one == other or fails_alike(one, other):
                continue
            at = first_difference(one, other)
            at = next((n for n in range(at, len(one)) if one[n][0] not in "12t"), at)
            assert at < len(one) and not self.is_quiet and (is_changed(one[at]) or pair.hides), "direct  %r\nthrough %r" % (want, got)
            break
        else:
            return want
        self.excused += 1
        self.begin_again(k)
        return None

    def begin_again(self, k):
        """After an error that only pgweir has given, both connections forget what they have, and the tables are filled anew."""
        pair = self.pairs[k]
        self.tell(k, "begins again")
        texts = ["ROLLBACK"]
        if self.keeps_state:
            texts += ["RESET ALL", "RESET ROLE", "DISCARD TEMP"]
        for client in (pair.direct, pair.through):
            for text in texts:
                assert client.query(text).status == "I"
            client.send(b"".join(m.close("S", name) for name in NAMES) + m.sync())
            answers(client, 1)
        pair.names.clear()
        pair.status, pair.settings, pair.portal, pair.hides = b"I", False, False, False
        if self.ddl_of == k:
            self.ddl_of = None
        self.diverged()

    def pipeline(self, k):
        pair = self.pairs[k]
        self.described = []
        data, descriptions, count = b"", [], 0
        for _ in range(self.draw.choice((1, 1, 1, 2))):
            for _ in range(self.draw.choice((1, 1, 2, 2, 3, 5))):
                name = self.draw.choice(NAMES[:3] if pair.tainted else NAMES)
                kind = self.draw.random()
                if kind < 0.3 or name not in pair.names and kind < 0.8:
                    one = self.parse(pair, name)
                elif kind < 0.4:
                    one = self.describe(pair, name)
                elif kind < 0.85:
                    one = self.use(pair, name)
                elif kind < 0.9:
                    one = self.close(pair, name)
                elif pair.portal and kind < 0.92:
                    one = m.execute("p", 0), "Execute 'p'"
                elif kind < 0.95:
                    text = self.sql_about_names(pair)
                    one = m.run(text) + m.close("S"), "unnamed: " + text
                    pair.names.pop("", None)
                    pair.tainted = True
                else:
                    text = self.sql_of_meaning(pair)
                    one = m.run(text), "unnamed: " + text
                    pair.names.pop("", None)
                data += one[0]
                descriptions.append(one[1])
            data += m.sync()
            descriptions.append("Sync")
            count += 1
        if pair.tainted:
            data += m.close("S") + m.sync()
            count += 1
        want = self.exchange(k, data, count, " | ".join(descriptions))
        pair.tainted = False
        if want:
            types = [struct.unpack_from("!%dI" % struct.unpack_from("!H", part[1]), part[1], 2) for part in want if part[0] == "t"]
            if not any(part[0] == "E" for part in want):
                for statement, each in zip(self.described, types):
                    if statement:
                        statement.types = each

    def sql(self, k):
        pair = self.pairs[k]
        kind = self.draw.random()
        if kind < 0.45:
            text = self.sql_of_transactions(pair)
        elif kind < 0.75:
            text = self.sql_of_meaning(pair)
        else:
            text = self.sql_about_names(pair)
        if self.draw.random() < 0.7:
            data = m.query(text)
            if ";" not in text:
                pair.names.pop("", None)
        else:
            pair.names.pop("", None)
            self.exchange(k, m.run(text) + m.sync() + m.close("S") + m.sync(), 2, "unnamed: " + text)
            return
        self.exchange(k, data, 1, text)

    def ddl(self, k):
        text = self.sql_of_tables()
        self.pairs[k].names.pop("", None)
        self.exchange(k, m.query(text), 1, text)
        if self.pairs[k].status == b"T":
            self.ddl_of = k

    def is_busy(self, k):
        return self.pairs[k].status != b"I" or self.pairs[k].is_pinned

    def hold(self):
        n = self.draw.randrange(len(self.holders))
        busy = len(self.holding) + sum(map(self.is_busy, range(len(self.pairs))))
        if n in self.holding:
            self.holders[n].query("COMMIT")
            self.holding.discard(n)
        elif busy + 1 < self.servers:
            self.holders[n].query("BEGIN")
            self.holding.add(n)
        else:
            return
        self.tell("holder %d" % n, "BEGIN" if n in self.holding else "COMMIT")

    def choose(self):
        """A client that gets a server, and no lock of another stops it."""
        if self.ddl_of is not None:
            return self.ddl_of
        busy = len(self.holding) + sum(map(self.is_busy, range(len(self.pairs))))
        able = [k for k in range(len(self.pairs)) if self.is_busy(k) or busy < self.servers]
        return self.draw.choice(able)

    def step(self):
        if self.holders and self.draw.random() < 0.2:
            self.hold()
        k = self.choose()
        pair = self.pairs[k]
        kind = self.draw.random()
        # a failed transaction with a savepoint keeps its locks
        others_wait = all(other.status == b"I" for n, other in enumerate(self.pairs) if n != k)
        if pair.status == b"E" and self.draw.random() < 0.6:
            text = self.draw.choice(("ROLLBACK", "ROLLBACK", "ROLLBACK TO s"))
            pair.names.pop("", None)
            self.exchange(k, m.query(text), 1, text)
        elif kind < 0.15 and others_wait and not self.is_quiet:
            self.ddl(k)
        elif kind < 0.4:
            self.sql(k)
        else:
            self.pipeline(k)
        is_temporary = "TEMP" in " ".join(self.told[-2:])
        pair.is_pinned |= self.keeps_state and is_temporary
        if pair.status == b"I":
            pair.settings = pair.portal = False
            pair.hides &= pair.is_pinned
            if self.ddl_of == k:
                self.ddl_of = None
