"""session_state = full: no change to a session reaches another client, whether pgweir knows of the change or not."""
import pytest

from support import messages as m
from support.until import until


def full(scene, postgres, default_pool_size=1, **settings):
    """pgweir with clients that alternate on one server connection, or on the given number."""
    return scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=default_pool_size, session_state="full", **settings)


LOOK = """SELECT current_setting('work_mem'), coalesce(current_setting('app.tenant', true), ''), current_setting('search_path'), session_user = current_user,
          (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), (SELECT count(*) FROM pg_listening_channels()),
          (SELECT count(*) FROM pg_cursors WHERE is_holdable), (SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
          (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema())"""

# the names are in no source text, because EXECUTE builds the statement
HIDDEN = "CREATE FUNCTION hidden(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE reverse($1); RETURN $1; END $$; "
SETS = HIDDEN + "CREATE FUNCTION sets() RETURNS text LANGUAGE sql AS $$ SELECT hidden(')eslaf ,''7'' ,''tnanet.ppa''(gifnoc_tes TCELES') $$; "

NESTED = "CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql AS 'SELECT $1'; CREATE FUNCTION nested() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT %s; END; " % (
    "plain(" * 300 + "set_config('app.tenant', '7', false)" + ")" * 300)
# the expression is so deep that pg_get_functiondef fails with "stack depth limit exceeded", and the function itself does not
DEEP = ("CREATE FUNCTION plain(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'; CREATE FUNCTION nested() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT %s; END; "
        "ALTER FUNCTION nested() SECURITY DEFINER SET max_stack_depth = '6MB'") % ("plain(" * 4968 + "set_config('app.tenant', '7', false)" + ")" * 4968)

WAYS = {
    "pg_settings": ("", "UPDATE pg_settings SET setting = '5120' WHERE name = 'work_mem'"),
    "view of pg_settings": ("CREATE VIEW tuned AS SELECT * FROM pg_settings; GRANT ALL ON tuned TO app", "UPDATE tuned SET setting = '5120' WHERE name = 'work_mem'"),
    "aggregate": ("CREATE AGGREGATE collect(text, boolean) (SFUNC = set_config, STYPE = text, INITCOND = 'app.tenant')", "SELECT collect('7', false)"),
    "aggregate of a function": (SETS + "CREATE FUNCTION add(int, int) RETURNS int LANGUAGE sql AS $$ SELECT length(sets()) $$; "
                                "CREATE AGGREGATE collect(int) (SFUNC = add, STYPE = int)", "SELECT collect(1)"),
    "rule": ("CREATE RULE also AS ON INSERT TO noted DO ALSO SELECT set_config('app.tenant', '7', false)", "INSERT INTO noted VALUES ('x')"),
    "domain": ("CREATE DOMAIN checked AS text CHECK (set_config('app.tenant', VALUE, false) IS NOT NULL)", "SELECT '7'::checked"),
    "domain of a function": (SETS + "CREATE DOMAIN checked AS text CHECK (sets() IS NOT NULL)", "SELECT jsonb_populate_record(null::record_of, '{\"a\": \"7\"}')"),
    "name without letters": ("CREATE FUNCTION \"-\"(text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.tenant', $1, false) $$", "SELECT \"-\"('7')"),
    "default": (SETS + "ALTER TABLE noted ADD made text DEFAULT sets()", "INSERT INTO noted VALUES ('x')"),
    "constraint": ("ALTER TABLE noted ADD CHECK (set_config('app.tenant', t, false) IS NOT NULL)", "INSERT INTO noted VALUES ('x')"),
    "index": (SETS + "CREATE FUNCTION stays(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT set_config('app.tenant', $1, false) $$; "
              "CREATE INDEX ON noted (stays(t))", "INSERT INTO noted VALUES ('x')"),
    "view": (SETS + "CREATE VIEW seen AS SELECT sets() AS s; CREATE VIEW over AS SELECT * FROM seen; GRANT ALL ON seen, over TO app", "SELECT * FROM over"),
    "view of set_config": ("CREATE VIEW seen AS SELECT set_config('app.tenant', '7', false) AS s; GRANT ALL ON seen TO app", "SELECT * FROM seen"),
    "policy": (SETS + "CREATE POLICY p ON noted USING (sets() IS NOT NULL); ALTER TABLE noted ENABLE ROW LEVEL SECURITY; INSERT INTO noted VALUES ('x')",
               "SELECT * FROM noted"),
    "operator": (SETS + "CREATE FUNCTION at(int, int) RETURNS text LANGUAGE sql AS 'SELECT sets()'; CREATE OPERATOR @@@ (LEFTARG = int, RIGHTARG = int, FUNCTION = at)",
                 "SELECT 1 @@@ 2"),
    "cast": (SETS + "CREATE FUNCTION of(record_of) RETURNS int LANGUAGE sql AS 'SELECT length(sets())'; CREATE CAST (record_of AS int) WITH FUNCTION of(record_of)",
             "SELECT '(1)'::record_of::int"),
    "attribute": (SETS + "CREATE FUNCTION attribute(record_of) RETURNS text LANGUAGE sql AS 'SELECT sets()'", "SELECT (r::record_of).attribute FROM (SELECT '(1)'::record_of AS r) AS q"),
    "argument": (SETS + "CREATE FUNCTION argued(text DEFAULT sets()) RETURNS text LANGUAGE sql AS 'SELECT $1'", "SELECT argued()"),
    "trigger": (SETS + "CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM sets(); RETURN NEW; END'; "
                "CREATE TRIGGER fires BEFORE UPDATE ON noted FOR EACH ROW EXECUTE FUNCTION fires(); INSERT INTO noted VALUES ('x')", "UPDATE noted SET t = 'y'"),
    "query_to_xml": ("", "SELECT query_to_xml('select set_con' || 'fig(''app.tenant'', ''7'', false)', true, true, '')"),
    "table_to_xml": (SETS + "CREATE VIEW seen AS SELECT sets() AS s; GRANT ALL ON seen TO app", "SELECT table_to_xml(('se' || 'en')::regclass, true, true, '')"),
    "ts_stat": ("", "SELECT * FROM ts_stat('select to_tsvector(set_con' || 'fig(''app.tenant'', ''7'', false))')"),
    "ts_stat of a value": ("", "SELECT (('select to_tsvector(set_conf' || 'ig' || '(''app.tenant'', ''7'', false))')::text).ts_stat"),
    "ts_stat of an alias": ("", "SELECT g.ts_stat FROM unnest(ARRAY['select to_tsvector(set_conf' || 'ig' || '(''app.tenant'', ''7'', false))']) g"),
    "ts_stat after a comment": ("", "SELECT ts_stat--\r('select to_tsvector(set_conf' || 'ig' || '(''app.tenant'', ''7'', false))')"),
    "string with a second part": ("", "SELECT E'a'\n'\\'', ts_stat('select to_tsvector(set_conf' || 'ig' || '(''app.tenant'', ''7'', false))'), ''"),
    "comment in a function": ("CREATE FUNCTION commented() RETURNS text LANGUAGE plpgsql AS E'begin --x\\rset work_mem = ''5MB''; RETURN ''a''; END'", "SELECT commented()"),
    "function": (SETS, "SELECT sets()"),
    "function in a function's query": (SETS + "CREATE FUNCTION outermost() RETURNS SETOF text LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT sets(); END'", "SELECT * FROM outermost()"),
    "nested calls": (NESTED, "SELECT nested()"),
    "nested calls without a definition": (DEEP, "SELECT nested()"),
    "lock": (HIDDEN, "SELECT hidden(reverse('SELECT pg_advis' || 'ory_lock(7)'))"),
    "channel": (HIDDEN, "SELECT hidden(reverse('LIS' || 'TEN hidden'))"),
    "cursor": (HIDDEN, "SELECT hidden(reverse('DECLARE c CURSOR WITH HO' || 'LD FOR SELECT 1'))"),
    "statement": (HIDDEN, "SELECT hidden(reverse('PRE' || 'PARE p AS SELECT 1'))"),
    "table": (HIDDEN, "SELECT hidden(reverse('CREATE TE' || 'MP TABLE x (a int)'))"),
    "role": (HIDDEN, "SELECT hidden(reverse('SE' || 'T ROLE rival'))"),
    "path": (HIDDEN, "SELECT ways.hidden(reverse('SE' || 'T search_path = pg_catalog'))"),
}


@pytest.fixture
def made(postgres):
    """Creates the objects in p0 that the cases below need, until the test is over."""
    def make(sql):
        postgres.execute("CREATE SCHEMA ways; CREATE TABLE ways.noted (t text); GRANT ALL ON SCHEMA ways TO app; GRANT ALL ON ways.noted TO app; "
                         "CREATE TYPE ways.record_of AS (a text); ALTER ROLE app IN DATABASE p0 SET search_path = ways, public; GRANT rival TO app; "
                         "SET search_path = ways, public; " + sql, database="p0")
    yield make
    postgres.execute("DROP SCHEMA ways CASCADE; ALTER ROLE app IN DATABASE p0 RESET search_path; REVOKE rival FROM app", database="p0")


@pytest.mark.parametrize("prepared", [False, True], ids=["query", "statement"])
@pytest.mark.parametrize("way", WAYS)
def test_no_change_reaches_another_client(scene, made, postgres, way, prepared):
    setup, text = WAYS[way]
    made(setup)
    if "record_of, '{" in text:
        postgres.execute("ALTER TYPE ways.record_of ALTER ATTRIBUTE a TYPE ways.checked", database="p0")
    weir = full(scene, postgres)
    other = weir.client()
    before = other.query(LOOK).rows
    mine = weir.client(user="app")
    pid = mine.query("SELECT pg_backend_pid()").value
    for turn in range(2):
        if prepared:
            mine.send(m.parse(text, "s") if turn == 0 else b"", m.bind("s"), m.execute(), m.sync())
            result = mine.result()
        else:
            result = mine.query(text)
        assert not result.errors, result.errors
        if weir.show("PINS"):
            return                      # this client has a dedicated server connection
        assert other.query(LOOK).rows == before
    assert way == "statement" or other.query("SELECT pg_backend_pid()").value == pid


NEW = "CREATE FUNCTION %s(int) RETURNS text LANGUAGE sql AS 'SELECT sets()'"


@pytest.mark.parametrize("name, text", [
    ("evil", "SELECT evil--\r(7)"), ("evil", "SELECT (7).evil"), ("evil", "SELECT (ARRAY[7])[1] . evil"), ("ways.abs", "SELECT ways./**/abs(7)"),
    ("ways.abs", "SELECT ways--\r.abs(7)"), ("\"values\"", "SELECT \"values\"(7)"), ("copy", "SELECT copy(7)"), ("verbose", "SELECT verbose(7)"),
])
def test_new_function_by_any_spelling(scene, made, postgres, name, text):
    """The catalogue was read before another connection created the function: its call is seen however it is written."""
    made("")
    weir = full(scene, postgres)
    mine, other = weir.client(user="app"), weir.client()
    before = other.query(LOOK).rows
    postgres.execute("SET search_path = ways; " + SETS + NEW % name, database="p0")
    assert mine.query(text).value
    assert other.query(LOOK).rows == before


def test_what_a_new_overload_has_left_is_gone_after_the_next_reading(scene, made, postgres):
    """A call of abs() is proven, although another connection has just created an abs() for text: no server keeps its effect when pgweir knows of it."""
    made("")
    weir = full(scene, postgres, default_pool_size=2)
    mine, other, third = (weir.client(user="app") for _ in range(3))
    before = other.query(LOOK).rows
    postgres.execute("SET search_path = ways; " + SETS + "CREATE FUNCTION abs(text) RETURNS text LANGUAGE sql AS 'SELECT sets()'", database="p0")
    other.query("BEGIN")
    assert mine.query("SELECT abs('x'::text)").value
    # the next link reads the catalogue
    assert not other.query("CREATE FUNCTION ways.made() RETURNS int LANGUAGE sql AS 'SELECT 1'").errors
    other.query("COMMIT")
    for client in (other, third):
        client.query("BEGIN")
    assert [client.query(LOOK).rows for client in (other, third)] == [before, before]


def test_function_created_after_the_reading(scene, made, postgres):
    """The catalogue was read before another connection created the function."""
    made("")
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    before = other.query(LOOK).rows
    postgres.execute("SET search_path = ways; " + SETS, database="p0")
    assert mine.query("SELECT sets()").value
    assert other.query(LOOK).rows == before


def test_unreadable_catalogue(scene, made, postgres):
    made(SETS)
    weir = full(scene, postgres)
    blocker = postgres.connect(database="p0")
    try:
        blocker.cursor().execute("LOCK pg_policy IN ACCESS EXCLUSIVE MODE")
        assert weir.client().query("SELECT sets()").value
    finally:
        blocker.close()
    weir.wait_log("functions of the database are not known: its server connections are reset between clients")
    assert weir.client().query("SELECT coalesce(current_setting('app.tenant', true), '')").value == ""


def test_cancelled_reading_of_the_catalogue(scene, made, postgres):
    """The cancel request of the client hits the query for the functions. Texts are unproven then."""
    made(SETS)
    weir = full(scene, postgres, show_extra_columns=1)
    blocker = postgres.connect(database="p0")
    try:
        blocker.cursor().execute("LOCK pg_policy IN ACCESS EXCLUSIVE MODE")
        mine = weir.client()
        mine.send(m.query("SELECT sets()"))
        # the reading is bounded by 0.5 s, which also leaves the functions unknown
        until(lambda: "functions" in [row["task"] for row in weir.show("SERVERS")] or "functions of the database are not known" in weir.log(), "the functions are read")
        weir.cancel(mine).expect_closed()
        mine.result()
    finally:
        blocker.close()
    assert mine.query("SELECT sets()").value
    assert weir.client().query("SELECT coalesce(current_setting('app.tenant', true), '')").value == ""


def test_setting_for_superusers_only(scene, postgres):
    """The role at the end of the transaction may not have the right to see the setting."""
    weir = full(scene, postgres, users={"postgres": ""})
    boss, other = weir.client(user="postgres"), weir.client(user="postgres")
    assert not boss.query("SET log_error_verbosity = 'verbose'; SET ROLE app").errors
    assert other.query("SELECT current_setting('log_error_verbosity')").value == "default"


def test_a_path_to_temporary_tables(scene, postgres):
    postgres.execute("ALTER ROLE app IN DATABASE p0 SET search_path = pg_temp, public")
    try:
        weir = full(scene, postgres, default_pool_size=2)
        mine, other = weir.client(), weir.client()
        assert not mine.query("SELECT 1 AS a INTO made_there").errors
        assert other.query("SELECT a FROM made_there").errors
    finally:
        postgres.execute("ALTER ROLE app IN DATABASE p0 RESET search_path")


MANY = """DO $$ BEGIN FOR i IN 1..%d LOOP EXECUTE format('CREATE FUNCTION %%I() RETURNS text LANGUAGE sql AS %%L', '%s' || i,
          'SELECT set_config(''app.tenant'', ''x'', false)'); END LOOP; END $$"""


@pytest.mark.parametrize("count, name", [(2001, "f"), (1900, "a_function_with_a_name_as_long_as_postgresql_takes_one_")])
def test_many_functions(scene, made, postgres, count, name):
    """All functions are read, within the time limit of one reading."""
    made(MANY % (count, name))
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("SELECT %s%d()" % (name, count))
    assert other.query("SELECT coalesce(current_setting('app.tenant', true), '')").value == ""
    assert mine.query("SELECT current_setting('app.tenant', true)").value == "x"
    known = [int(line.rsplit(" ", 1)[1]) for line in weir.log().splitlines() if "functions of the database that change the session" in line]
    assert known and known[-1] >= count


@pytest.mark.parametrize("prepared", [False, True], ids=["query", "statement"])
def test_trigger_made_by_a_function_is_noticed(scene, made, postgres, prepared):
    """No command tag says that a function has made a trigger: the functions of the database are read again after each text that may have done so."""
    made(HIDDEN + "CREATE TABLE ways.plain (a int); ALTER TABLE ways.plain OWNER TO app")
    weir = full(scene, postgres)
    other = weir.client()
    before = other.query(LOOK).rows
    mine = weir.client(user="app")
    trigger = ("CREATE FUNCTION ways.tf() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN PERFORM set_config('app.tenant', '7', false); RETURN new; END $f$; "
               "CREATE TRIGGER q BEFORE INSERT ON ways.plain FOR EACH ROW EXECUTE FUNCTION ways.tf()")
    define = "SELECT ways.hidden('%s')" % trigger[::-1].replace("'", "''")
    if prepared:
        mine.send(m.parse(define, "s"), m.bind("s"), m.execute(), m.sync())
        result = mine.result()
    else:
        result = mine.query(define)
    assert not result.errors, result.errors
    mine.quit()
    third = weir.client(user="app")
    result = third.query("INSERT INTO ways.plain VALUES (1)")
    assert not result.errors, result.errors
    assert other.query(LOOK).rows == before
