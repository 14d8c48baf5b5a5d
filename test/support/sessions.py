"""
Random statements that change the state of a session, for clients of session_state = full: each client is compared, answer by answer, with a
direct connection of its own that is given the same.
"""
from . import messages as m

TEXTS = {
    "parameters": [
        "SET work_mem = '{n}MB'", "SET app.tenant = 't{n}'", "SET DateStyle = 'German'", "SET search_path = s{k}, public", "SET TimeZone = 'Asia/Tokyo'",
        "SET LOCAL work_mem = '{n}MB'", "SELECT set_config('app.other', 'o{n}', false)", "SELECT set_config('app.other', 'l{n}', true)",
        "RESET work_mem", "RESET app.tenant", "RESET ALL", "SET statement_timeout = '{n}min'", "SET extra_float_digits = 0", "SET bytea_output = 'escape'",
        "DO $$ BEGIN PERFORM set_config('app.tenant', 'd{n}', false); END $$", "SET default_transaction_read_only = off",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TIME ZONE 'UTC'", "SET NAMES 'UTF8'", "SET work_mem TO DEFAULT",
        "SET \"App.Tenant\" = 'q{n}'"],
    "code": ["CALL called({n})", "CALL answered({n})"],
    "roles": ["SET ROLE app", "SET ROLE rival", "RESET ROLE", "SET ROLE none", "SET SESSION AUTHORIZATION app", "SET SESSION AUTHORIZATION DEFAULT", "SET LOCAL ROLE rival"],
    "temporary": [
        "CREATE TEMP TABLE mine AS SELECT {n} AS a", "CREATE TEMP TABLE shared_name AS SELECT {n} AS a", "DROP TABLE mine", "DROP TABLE pg_temp.shared_name",
        "CREATE TEMP TABLE gone (a int) ON COMMIT DROP", "INSERT INTO mine VALUES ({n})", "SELECT * FROM mine ORDER BY a", "DISCARD TEMP",
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT {n}'", "SELECT pg_temp.f()", "DROP FUNCTION pg_temp.f()",
        "CREATE TEMP VIEW seen AS SELECT {n} AS a", "SELECT * FROM seen", "DROP VIEW seen", "SELECT {n} AS a INTO TEMP mine"],
    "cursors": [
        "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series({n}, {n} + 5)", "DECLARE c CURSOR FOR SELECT generate_series(1, 3)", "FETCH 2 FROM c", "FETCH ALL FROM c", "CLOSE c",
        "CLOSE ALL", "MOVE 1 FROM c"],
    "locks": [
        "SELECT pg_advisory_lock({k}00)", "SELECT pg_advisory_unlock({k}00)", "SELECT pg_try_advisory_lock({k}01)", "SELECT pg_advisory_unlock_all()",
        "SELECT pg_advisory_xact_lock({k}02)", "SELECT pg_try_advisory_lock_shared({k}00)", "SELECT pg_advisory_unlock_shared({k}00)"],
    "statements": ["PREPARE p AS SELECT {n}", "PREPARE p(int) AS SELECT $1 + {n}", "EXECUTE p", "EXECUTE p(1)", "DEALLOCATE p", "PREPARE q AS SELECT set_config('app.tenant', 'q{n}', false)",
                   "EXECUTE q", "DEALLOCATE q"],
    "channels": ["LISTEN chan{k}", "UNLISTEN chan{k}", "UNLISTEN *", "NOTIFY chan{k}, '{n}'"],
    "transactions": ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "SELECT 1/0", "BEGIN; SET work_mem = '{n}MB'; COMMIT",
                     "SET app.tenant = 'e{n}'; SELECT 1/0", "BEGIN", "COMMIT"],
    "sequences": ["SELECT nextval('counted{k}')", "SELECT nextval('counted{k}'), currval('counted{k}'), lastval()", "DISCARD SEQUENCES", "SELECT lastval()",
                  "SELECT currval('counted{k}')", "SELECT setval('counted{k}', {n})"],
    "all": ["DISCARD ALL"],
    "looks": [
        "SELECT current_setting('work_mem'), coalesce(current_setting('app.tenant', true), ''), coalesce(current_setting('app.other', true), ''), current_setting('search_path'), "
        "current_setting('statement_timeout'), current_setting('DateStyle'), current_setting('TimeZone')",
        "SELECT session_user, current_user, current_setting('is_superuser')", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        "SELECT name, statement FROM pg_prepared_statements WHERE from_sql ORDER BY name", "SELECT name, is_holdable FROM pg_cursors WHERE name <> '' ORDER BY name",
        "SELECT a FROM shared_name", "SELECT * FROM pathed", "SELECT '1999-02-03'::date, 1.1::float8, '\\x41'::bytea",
        "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema() ORDER BY 1", "SHOW transaction_isolation"],
}
SETUP = ["CREATE TABLE shared_name AS SELECT 0 AS a", "GRANT SELECT ON shared_name TO public",
         *["CREATE SCHEMA s%d" % k for k in range(8)], *["CREATE TABLE s%d.pathed AS SELECT %d AS which" % (k, k) for k in range(8)],
         *["CREATE SEQUENCE counted%d" % k for k in range(8)], *["GRANT ALL ON counted%d TO public" % k for k in range(8)],
         "CREATE PROCEDURE called(int) LANGUAGE sql AS 'SELECT 1'",
         "CREATE PROCEDURE answered(INOUT a int) LANGUAGE plpgsql AS 'BEGIN a := a + 1; END'",
         "CREATE TABLE public.pathed AS SELECT -1 AS which", *["GRANT USAGE ON SCHEMA s%d TO public" % k for k in range(8)],
         *["GRANT SELECT ON s%d.pathed TO public" % k for k in range(8)], "GRANT SELECT ON public.pathed TO public"]


def draw_text(draw, k):
    kind = draw.choice(list(TEXTS) + ["looks", "looks", "transactions", "parameters"])
    return draw.choice(TEXTS[kind]).replace("{n}", str(draw.randrange(64, 99))).replace("{k}", str(k))


def draw_step(draw, k):
    """Returns the bytes of one request, up to its Query or Sync, and its description."""
    way = draw.random()
    if way < 0.1:
        return m.bind() + m.execute() + m.sync(), "again"           # the unnamed statement, if the session has one
    text = draw_text(draw, k)
    if way < 0.6 or ";" in text:
        return m.query(text), text
    if way < 0.9 or "UNLISTEN" in text:             # in the middle of a batch it is noticed only partly
        return m.run(text) + m.sync(), "unnamed: " + text
    name = "n%d" % draw.randrange(3)
    return m.close("S", name) + m.run(text, name=name) + m.sync(), name + ": " + text


def binds_stale(stale, k, clients, texts):
    """Client k binds its unnamed statement again, which is older than a CREATE or DROP of any client.
    If not, notes what the texts change."""
    after = set(stale)
    for text in texts:
        if text == "again" and k in after:
            return True
        if not text.startswith("n") and text != "again":
            after.discard(k)
        if "CREATE" in text or "DROP" in text:
            after |= set(range(clients)) - ({k} if text.startswith("unnamed") else set())
    # in a pipeline, the command is complete after the next Parse was sent
    if len(texts) > 1 and any("CREATE" in text or "DROP" in text for text in texts):
        after.add(k)
    stale.clear()
    stale.update(after)
    return False


def columns(body):
    """Returns the columns of a RowDescription, without the OIDs of tables."""
    at, found = 2, []
    while at < len(body):
        end = body.index(b"\0", at)
        found.append((body[at:end], body[end + 7:end + 19]))
        at = end + 19
    return found


def answer(client, steps):
    """Returns the answers, without parts that differ between connections: process IDs, line numbers of the server's source."""
    client.send(b"".join(steps))
    got = []
    for message in [message for _ in steps for message in client.read_until("Z")]:
        if message.type in "EN":
            fields = m.read_error(message.body)
            got.append((message.type, fields["S"], fields["C"], fields["M"]))
        elif message.type == "T":
            got.append((message.type, columns(message.body)))
        elif message.type == "A":
            got.append((message.type, message.body[4:]))
        elif message.type != "S":                   # their order is the server's affair; the looks compare values
            got.append((message.type, message.body))
    return got


def has_lost_value(got, expected):
    """The first difference is error 55000 of currval or lastval in place of a value (doc/sessions.md, Values of sequences)."""
    mine, its = next(((a, b) for a, b in zip(got, expected) if a != b), (("Z",), ("Z",)))
    return mine[0] == "E" and mine[2] == "55000" and mine[3].startswith(("currval of sequence", "lastval is not yet")) and its[0] == "D"
