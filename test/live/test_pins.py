"""session_state = full: state that cannot be moved to another server pins the server connection to its client while the state exists."""
import pytest

from support import messages as m
from support.live import ended_with, last_words, pid_of
from support.takeover import Replaced
from support.until import until


def full(scene, postgres, kind=None, size=2, **settings):
    return scene.weir({"p0": postgres}, **{"pool_mode": "transaction", "default_pool_size": size, "session_state": "full",
                                           "show_extra_columns": 1, "server_round_robin": 1,
                                           **({"kind": kind} if kind else {}), **settings})


def pins(weir):
    return [row["pins"] for row in weir.show("PINS")]


def pinned(weir, *reasons):
    """Waits for these pins. The server is queried after the client's answer."""
    until(lambda: pins(weir) == list(reasons), "the pins are %s" % (reasons,))


def has_it(client, look):
    return [row[0].decode() for row in client.query(look).rows] == ["5"]


def prepared(client, sql, name=""):
    client.send(m.run(sql, name=name) + m.sync())
    return client.result()


# the statement that creates the state, a check that it exists, the statement that ends it, and the displayed reason
KINDS = {
    "temporary table": ("CREATE TEMP TABLE pinned_t AS SELECT 5 AS a", "SELECT a FROM pinned_t", "DROP TABLE pinned_t", "temporary objects"),
    "select into": ("SELECT 5 AS a INTO TEMP pinned_t", "SELECT a FROM pinned_t", "DISCARD TEMP", "temporary objects"),
    "pg_temp": ("CREATE TABLE pg_temp.pinned_t AS SELECT 5 AS a", "SELECT a FROM pinned_t", "DROP TABLE pinned_t", "temporary objects"),
    "temporary function": ("CREATE FUNCTION pg_temp.pinned_f() RETURNS int LANGUAGE sql AS 'SELECT 5'", "SELECT pg_temp.pinned_f()",
                           "DROP FUNCTION pg_temp.pinned_f()", "temporary objects"),
    "temporary sequence": ("CREATE TEMP SEQUENCE pinned_s START 5", "SELECT start_value FROM pg_sequences WHERE sequencename = 'pinned_s'",
                           "DROP SEQUENCE pinned_s", "temporary objects"),
    "in a DO block": ("DO $$ BEGIN CREATE TEMP TABLE pinned_t AS SELECT 5 AS a; END $$", "SELECT a FROM pinned_t",
                      "DO $$ BEGIN DROP TABLE pinned_t; END $$", "temporary objects"),
    "path": ("SET search_path = pg_temp, public; SELECT 5 AS a INTO pinned_t", "SELECT a FROM pinned_t", "DISCARD ALL", "temporary objects"),
    "cursor": ("BEGIN; DECLARE pinned_c CURSOR WITH HOLD FOR SELECT 5; COMMIT",
               "SELECT 5 FROM pg_cursors WHERE name = 'pinned_c'", "CLOSE pinned_c", "cursor with hold"),
    "lock": ("SELECT pg_advisory_lock(4711)", "SELECT count(*) + 4 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
             "SELECT pg_advisory_unlock(4711)", "advisory lock"),
    "lock of two numbers": ("SELECT pg_try_advisory_lock_shared(4, 711)",
                            "SELECT count(*) + 4 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
                            "SELECT pg_advisory_unlock_all()", "advisory lock"),
    "PREPARE": ("PREPARE pinned_p AS SELECT 5", "EXECUTE pinned_p", "DEALLOCATE pinned_p", "prepared by SQL"),
    "LISTEN": ("LISTEN pinned_l", "SELECT 5 FROM pg_listening_channels()", "UNLISTEN pinned_l", "listens"),
}


@pytest.mark.parametrize("way", ["query", "unnamed"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "LISTEN"])        # see test_listen.py
def test_pin_lasts_while_its_object_exists(scene, postgres, kind, way):
    make, look, end, why = KINDS[kind]
    if way == "unnamed" and ";" in make.replace("; END", ""):
        pytest.skip("one statement only")
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    say = mine.query if way == "query" else lambda sql: prepared(mine, sql)
    assert not say(make).errors
    pid = pid_of(mine)
    pinned(weir, why)
    for _ in range(3):
        assert pid_of(other) != pid
        assert say(look).value == "5" and pid_of(mine) == pid
        row, = (row for row in weir.show("CLIENTS") if row["pins"])
        assert row["pins"] == why and int(row["pinned_us"]) > 0
    assert [row["pinned"] for row in weir.show("POOLS") if row["database"] == "p0"] == [1]
    assert not say(end).errors
    pinned(weir)
    assert [row["pinned"] for row in weir.show("POOLS") if row["database"] == "p0"] == [0]
    for _ in range(4):
        assert not has_it(other, look)
    until(lambda: pid_of(mine) != pid, "the client has another server")
    assert weir.log().count("keeps its server connection: " + why) == 1


@pytest.mark.parametrize("make", [
    "BEGIN; CREATE TEMP TABLE pinned_t (a int) ON COMMIT DROP; COMMIT",
    "BEGIN; CREATE TEMP TABLE pinned_t (a int); ROLLBACK",
    "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; CLOSE c; COMMIT",
    "BEGIN; DECLARE c CURSOR FOR SELECT 1; COMMIT",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT pg_advisory_lock(1); SELECT pg_advisory_unlock(1)",
    "BEGIN; LISTEN a; ROLLBACK",
    "PREPARE a AS SELECT 1; DEALLOCATE a",
    "CREATE TEMP TABLE pinned_t (a int); SELECT 1/0",
])
def test_temporary_state_causes_no_pin(scene, postgres, make):
    weir = full(scene, postgres)
    client = weir.client()
    client.query(make)
    assert client.query("SELECT 1").value == "1"
    pinned(weir)
    assert {row["state"] for row in weir.show("SERVERS")} == {"idle"}


def test_lock_that_was_not_acquired(scene, postgres):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("SELECT pg_advisory_lock(1)")
    assert other.query("SELECT pg_try_advisory_lock(1)").value == "f"
    pinned(weir, "advisory lock")
    for _ in range(2):                                      # taken twice, given back twice
        mine.query("SELECT pg_advisory_lock(1)")
    for left in (1, 1, 0):
        mine.query("SELECT pg_advisory_unlock(1)")
        pinned(weir, *["advisory lock"] * left)
    assert other.query("SELECT pg_try_advisory_lock(1)").value == "t"


def test_several_reasons(scene, postgres):
    weir = full(scene, postgres)
    client = weir.client()
    client.query("LISTEN a; SELECT pg_advisory_lock(1); PREPARE b AS SELECT 1")
    pinned(weir, "advisory lock, prepared by SQL, listens")
    client.query("UNLISTEN *")
    pinned(weir, "advisory lock, prepared by SQL")
    client.query("DISCARD ALL")
    pinned(weir)


def test_notifications_reach_an_idle_client(scene, postgres):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("LISTEN news")
    other.query("NOTIFY news, 'hello'")
    told = mine.expect("A")
    assert told.body.endswith(b"news\0hello\0")


def test_prepared_statements_that_lock(scene, postgres):
    """A later link has the text no more."""
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.send(m.parse("SELECT pg_advisory_lock($1)", "lock") + m.parse("SELECT pg_advisory_unlock($1)", "unlock") + m.sync())
    mine.result()
    for _ in range(2):
        mine.send(m.bind("lock", "", [b"7"]) + m.execute() + m.sync())
        mine.result()
        pid = pid_of(mine)
        pinned(weir, "advisory lock")
        assert pid_of(other) != pid
        mine.send(m.bind("unlock", "", [b"7"]) + m.execute() + m.sync())
        assert mine.result().value == "t"
        pinned(weir)


@pytest.mark.parametrize("reset", ["DISCARD ALL", ""])
@pytest.mark.parametrize("end", ["terminate", "close", "kill"])
@pytest.mark.parametrize("kind", KINDS)
def test_next_client_gets_a_clean_session(scene, postgres, kind, end, reset):
    weir = full(scene, postgres, size=1, server_reset_query=reset)
    mine, other = weir.client(), weir.client()
    mine.query(KINDS[kind][0])
    if end == "kill":
        pinned(weir, KINDS[kind][3])
        weir.admin("KILL_CLIENT " + str(weir.show("PINS")[0]["ptr"]))
    elif end == "terminate":
        mine.send(m.terminate())
    mine.close()
    assert not has_it(other, KINDS[kind][1])
    until(lambda: other.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").value == "0", "the server process is gone")
    pinned(weir)
    if not reset and end != "kill":
        weir.wait_log("state of the session cannot be set back")


@pytest.mark.parametrize("make, look", [
    ("SELECT isn_weak(true)", "SELECT '0-393-04002-0'::isbn IS NOT NULL"), ("SELECT pg_replication_origin_session_setup('pins')", "SELECT pg_replication_origin_session_is_setup()"),
    ("SELECT pg_backup_start('pins', true)", "SELECT (pg_backup_stop(false)).labelfile IS NOT NULL"),
    ("SELECT pg_create_physical_replication_slot('pins', false, true)", "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE active_pid = pg_backend_pid())"),
    ("SET seed = 0.5", "SELECT random() = %s"), ("SELECT set_config('seed', '0.5', true)", "SELECT random() = %s"),
])
def test_what_no_reset_undoes_stays_with_its_client(scene, postgres, make, look):
    """The client keeps the server, which closes when the client has left."""
    def shows(client):
        result = client.query(look)
        return not result.errors and result.value == "t"

    postgres.execute("CREATE EXTENSION isn; SELECT pg_replication_origin_create('pins')", database="p0")
    try:
        direct = postgres.connect(database="p0")
        cursor = direct.cursor()
        cursor.execute("SET seed = 0.5; SELECT random()")
        look = look.replace("%s", repr(cursor.fetchone()[0]))
        direct.close()
        weir = full(scene, postgres.target("p0", user="postgres"), size=2)
        mine, other = weir.client(), weir.client()
        assert not mine.query(make).errors
        for _ in range(2):
            assert not shows(other)
        assert pins(weir) == ["library, connection or seed"]
        mine.close()
        pinned(weir)
        clients = [weir.client() for _ in range(2)]
        for client in clients:
            client.query("BEGIN")
        assert [shows(client) for client in clients] == [False, False]
        weir.stop()
    finally:
        postgres.execute("DROP EXTENSION isn; SELECT pg_replication_origin_drop('pins')", database="p0")


@pytest.mark.parametrize("make", ["SELECT setseed(0.5)", "SELECT set_config($1, 'x', false)"])
def test_pin_without_a_query_lasts_until_the_client_disconnects(scene, postgres, make):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    if "$1" in make:
        mine.send(m.parse(make) + m.bind("", "", [b"app.x"]) + m.execute() + m.sync())
        mine.result()
    else:
        mine.query(make)
    pid = pid_of(mine)
    mine.query("DISCARD ALL")
    assert pid_of(mine) == pid and pid_of(other) != pid
    weir.wait_log("keeps its server connection until it leaves")
    mine.close()
    pinned(weir)


@pytest.mark.parametrize("name, words", [
    ("pgweir.x", "whose name pgweir cannot keep"), ("a$b.c", "whose name pgweir cannot keep"),
    ("a%s.b" % ("x" * 70), "whose name pgweir cannot keep")])
def test_log_says_that_the_name_of_a_parameter_cannot_be_kept(scene, postgres, name, words):
    weir = full(scene, postgres)
    client = weir.client()
    assert client.query("SET %s = 'x'" % name).tags == ["SET"]
    pinned(weir, "parameters")
    weir.wait_log("keeps its server connection until it leaves: it sets a parameter " + words)


@pytest.fixture
def past_pgweir(postgres):
    """Functions that a connection to the server itself creates after pgweir has read the functions."""
    gone = "DROP FUNCTION IF EXISTS made_past(), tidied_past(); DROP TABLE IF EXISTS hidden"
    postgres.execute(gone + "; CREATE TABLE hidden AS SELECT 4 AS a; GRANT ALL ON hidden TO PUBLIC", database="p0")
    yield lambda body: postgres.execute("CREATE FUNCTION made_past() RETURNS int LANGUAGE plpgsql AS $$ BEGIN %s; RETURN 5; END $$"
                                        % body, database="p0")
    postgres.execute(gone, database="p0")


@pytest.mark.parametrize("body, look, reason", [
    ("CREATE TEMP TABLE hidden AS SELECT 5 AS a", "SELECT a FROM hidden", "temporary objects"),
    ("EXECUTE 'CREATE TEMP ' || 'TABLE hidden AS SELECT 5 AS a'", "SELECT a FROM hidden", "temporary objects"),
    ("PERFORM pg_advisory_lock(4711)", KINDS["lock"][1], "advisory lock"),
    ("EXECUTE 'PREPARE pinned_p AS SELECT 5'", "EXECUTE pinned_p", "prepared by SQL")])
@pytest.mark.parametrize("way", ["query", "unnamed", "named"])
def test_state_of_a_function_that_was_created_past_pgweir(scene, postgres, past_pgweir, body, look, reason, way):
    """The client read the permanent table of that name, without an error."""
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    for client in (mine, other):
        client.query("SELECT 1")
    past_pgweir(body)
    if way == "query":
        mine.query("SELECT made_past()")
    else:
        prepared(mine, "SELECT made_past()", name="n" if way == "named" else "")
    pinned(weir, reason)
    for _ in range(3):
        other.query("SELECT 1")
        assert has_it(mine, look)


def test_load(scene, postgres):
    weir = full(scene, postgres.target("p0", user="postgres"))
    mine, other = weir.client(), weir.client()
    assert not mine.query("LOAD 'plpgsql'").errors
    pid = pid_of(mine)
    assert pid_of(other) != pid and pid_of(mine) == pid
    assert pins(weir) == ["library, connection or seed"]


def test_server_ends(scene, postgres):
    """The client has lost its session, and gets an error."""
    weir = full(scene, postgres)
    mine = weir.client()
    mine.query("CREATE TEMP TABLE pinned_t (a int)")
    postgres.execute("SELECT pg_terminate_backend(%d)" % pid_of(mine))
    assert last_words(mine)["M"] == "terminating connection due to administrator command"


def test_max_pinned(scene, postgres):
    weir = full(scene, postgres, size=3, max_pinned=1)
    first, second, third = (weir.client() for _ in range(3))
    first.query("CREATE TEMP TABLE pinned_t (a int)")
    pinned(weir, "temporary objects")
    second.send(m.query("PREPARE a AS SELECT 1"))
    ended_with(second, "too many server connections are pinned (max_pinned): prepared by SQL")
    assert first.query("SELECT count(*) FROM pinned_t").value == "0"
    assert third.query("SELECT count(*) FROM pg_prepared_statements").value == "0"
    first.query("DISCARD TEMP")
    pinned(weir)
    assert not third.query("PREPARE a AS SELECT 1").errors
    pinned(weir, "prepared by SQL")


@pytest.mark.parametrize("level", ["database", "user"])
def test_max_pinned_of_a_pool(scene, postgres, level):
    target = postgres.target("p0", max_pinned=1) if level == "database" else postgres.target("p0")
    users = {"sections": {"users": {"app": "max_pinned=1"}}} if level == "user" else {}
    weir = scene.weir({"p0": target}, pool_mode="transaction", session_state="full", **users)
    first, second = weir.client(), weir.client()
    first.query("PREPARE a AS SELECT 1")
    pinned(weir, "prepared by SQL")
    second.send(m.query("PREPARE a AS SELECT 1"))
    ended_with(second, "too many server connections are pinned (max_pinned): prepared by SQL")


def test_pinned_idle_timeout(scene, postgres):
    weir = full(scene, postgres, pinned_idle_timeout=1)
    mine, other = weir.client(), weir.client()
    other.query("SELECT 1")
    mine.query("SELECT pg_advisory_lock(1)")
    ended_with(mine, "pinned_idle_timeout: advisory lock")
    assert other.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").value == "0"


def test_waiting_client_gets_the_reason(scene, postgres):
    weir = full(scene, postgres, query_wait_timeout=1)
    holders = [weir.client() for _ in range(2)]
    holders[0].query("LISTEN a; SELECT pg_advisory_lock(1)")
    holders[1].query("LISTEN a")
    waiting = weir.client()
    waiting.send(m.query("SELECT 1"))
    ended_with(waiting, "query_wait_timeout (1 of 2 server connections are pinned: 1 advisory lock, 1 listens; one listens for all)")


def test_online_restart(scene, postgres):
    weir = full(scene, postgres, Replaced, server_tls_sslmode="disable")
    mine, other = weir.client(), weir.client()
    mine.query("CREATE TEMP TABLE pinned_t AS SELECT 5 AS a")
    pid = pid_of(mine)
    weir.replace()
    pinned(weir, "temporary objects")
    assert mine.query("SELECT a FROM pinned_t").value == "5" and pid_of(other) != pid
    mine.query("DROP TABLE pinned_t")
    pinned(weir)


def test_online_restart_of_a_client_with_unexamined_sql(scene, postgres):
    """The new process knows whose state the session has: setting start-up parameters after a RESET must not clear it."""
    weir = full(scene, postgres, Replaced, server_tls_sslmode="disable")
    mine, other = weir.client(options="-c intervalstyle=postgres_verbose"), weir.client()
    mine.query("DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 5)")
    mine.query("DO $$ BEGIN PERFORM set_config('app.tenant', '1', false); END $$")
    pinned(weir, "cursor with hold")
    weir.replace()
    mine.query("RESET ALL")
    assert mine.query("MOVE 4 FROM c").tags == ["MOVE 4"] and mine.query("FETCH c").value == "5"
    assert not other.query("SELECT name FROM pg_cursors").rows


def test_online_restart_in_a_transaction(scene, postgres):
    weir = full(scene, postgres, Replaced, server_tls_sslmode="disable")
    mine, other = weir.client(), weir.client()
    mine.query("BEGIN; LISTEN news")
    weir.replace()
    mine.query("COMMIT")
    other.query("NOTIFY news")
    mine.expect("A")


def test_reload_to_off(scene, postgres):
    """A client that keeps a server continues with it, and releases it as before."""
    weir = full(scene, postgres)
    mine = weir.client()
    mine.query("PREPARE a AS SELECT 1")
    weir.admin("SET session_state = 'off'")
    assert mine.query("SELECT count(*) FROM pg_prepared_statements").value == "1"
    pinned(weir, "prepared by SQL")
    mine.query("DEALLOCATE a")
    pinned(weir)


def test_off_pins_nothing(scene, postgres):
    weir = full(scene, postgres, session_state="off")
    client = weir.client()
    client.query("LISTEN a; SELECT pg_advisory_lock(1)")
    pinned(weir)


def test_reconnect_waits_for_the_client(scene, postgres):
    weir = full(scene, postgres)
    mine = weir.client()
    mine.query("CREATE TEMP TABLE pinned_t AS SELECT 5 AS a")
    pid = pid_of(mine)
    weir.admin("RECONNECT")
    assert mine.query("SELECT a FROM pinned_t").value == "5"
    mine.query("DROP TABLE pinned_t")
    pinned(weir)
    assert pid_of(mine) != pid


def test_parameters_are_kept_with_pins(scene, postgres):
    weir = full(scene, postgres)
    mine, other = weir.client(options="-c work_mem=7MB"), weir.client()
    mine.query("LISTEN a")
    mine.query("SET work_mem = '9MB'")
    assert mine.query("SHOW work_mem").value == "9MB"
    mine.query("RESET work_mem")
    assert mine.query("SHOW work_mem").value == "7MB"
    mine.query("UNLISTEN a")
    for _ in range(4):
        assert mine.query("SHOW work_mem").value == "7MB" and other.query("SHOW work_mem").value == "4MB"


def test_statements_about_temporary_tables_are_not_shared(scene, postgres):
    """The same text is about another table for another client."""
    weir = full(scene, postgres, size=1, max_prepared_statements=20)
    postgres.execute("CREATE TABLE IF NOT EXISTS pinned_shared AS SELECT 1 AS a", database="p0")
    postgres.execute("GRANT SELECT ON pinned_shared TO PUBLIC", database="p0")
    mine, other = weir.client(), weir.client()
    text = "SELECT a FROM pinned_shared"
    assert prepared(other, text, "s").value == "1"
    mine.query("CREATE TEMP TABLE pinned_other (a int)")
    mine.query("CREATE TEMP TABLE pinned_shared AS SELECT 2 AS a")
    assert prepared(mine, text, "s").value == "2"
    mine.query("DROP TABLE pg_temp.pinned_shared, pinned_other")
    for client in (mine, other):
        client.send(m.bind("s") + m.execute() + m.sync())
        assert client.result().value == "1"


def test_pooler_queries_are_counted(scene, postgres):
    weir = full(scene, postgres, size=1)
    client, other = weir.client(), weir.client()

    def counts():
        row, = (row for row in weir.show("POOLS") if row["database"] == "p0")
        return row["state_asks"], row["state_restores"]
    client.query("SELECT 1")
    assert counts() == (0, 0)
    client.query("SET work_mem = '9MB'")
    for number in (0, 2):
        other.query("SELECT 1")
        assert counts() == (1, number + 1)
        client.query("SELECT 1")
        assert counts() == (1, number + 2)


SERIAL = "CREATE TABLE drawn (id serial, who text); GRANT ALL ON drawn TO PUBLIC; GRANT ALL ON drawn_id_seq TO PUBLIC"


@pytest.fixture
def drawn(postgres):
    postgres.execute("DROP TABLE IF EXISTS drawn; " + SERIAL, database="p0")
    return postgres


def draw(client, who):
    return client.query("INSERT INTO drawn (who) VALUES ('%s') RETURNING id" % who).value


@pytest.mark.parametrize("read", ["SELECT lastval()", "SELECT currval('drawn_id_seq')"])
@pytest.mark.parametrize("way", ["query", "unnamed"])
def test_values_of_sequences_are_the_clients_own(scene, drawn, read, way):
    weir = full(scene, drawn, size=4)
    mine, other, third = weir.client(), weir.client(), weir.client()
    say = (lambda client: client.query(read)) if way == "query" else (lambda client: prepared(client, read))
    draw(other, "other")
    assert say(third).errors[0]["C"] == "55000"                 # it has drawn none, whatever server it has
    for _ in range(3):
        theirs, own = draw(other, "other"), draw(mine, "mine")
        assert say(mine).value == own
        draw(other, "other")
        assert say(mine).value == own
    assert "sequence values" in pins(weir)
    assert say(other).value == str(int(theirs) + 2)
    for client in (mine, other, third):
        client.query("DISCARD SEQUENCES")
        assert say(client).errors[0]["C"] == "55000"
        client.query("DISCARD ALL")
    pinned(weir)


def test_first_read_of_a_sequence_in_a_transaction(scene, drawn):
    weir = full(scene, drawn, size=1)
    mine, other = weir.client(), weir.client()
    draw(other, "other")
    mine.query("BEGIN")
    own = draw(mine, "mine")
    assert mine.query("SELECT currval('drawn_id_seq')").value == own
    mine.query("COMMIT")
    assert mine.query("SELECT lastval()").value == own


OWN = {
    "name": "SELECT currval('drawn_id_seq')",
    "cast": "SELECT pg_catalog.currval('drawn_id_seq'::regclass);",
    "quoted": "SELECT \"currval\"('public.\"drawn_id_seq\"'), 1",
    "serial": "SELECT currval(pg_get_serial_sequence('drawn', 'id'))",
    "insert": "INSERT INTO drawn (id, who) VALUES (-currval('drawn_id_seq'), 'x') RETURNING -id",
    "both": "SELECT lastval(), currval('drawn_id_seq')",
}
NOT_OWN = {
    "name": "SELECT currval('other_seq')",
    "one of two": "SELECT currval('drawn_id_seq'), currval('other_seq')",
    "expression": "SELECT currval('other' || '_seq')",
    "list": "SELECT currval(c.oid) FROM pg_class c WHERE relname = 'other_seq'",
    "string": "SELECT currval('drawn_id_seq'), currval(E'\\157ther_seq')",
    "escapes": "SELECT currval(U&'other!005fseq' UESCAPE '!')",
    "comment": "SELECT currval/* ('drawn_id_seq') */('other_seq')",
    "dollar": "SELECT currval($$other_seq$$)",
    "two statements": "SET LOCAL search_path = elsewhere; SELECT currval('drawn_id_seq')",
    "set_config": "SELECT set_config('search_path', 'elsewhere', true), currval(pg_get_serial_sequence('drawn', 'id'))",
}


@pytest.fixture
def others(drawn):
    """Sequences from which only other clients draw."""
    drawn.execute("CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.drawn (id serial, who text); CREATE SEQUENCE other_seq; "
                  "CREATE TABLE elsewhere.other (id bigint DEFAULT nextval('other_seq'), who text); GRANT ALL ON SCHEMA elsewhere TO PUBLIC; "
                  "GRANT ALL ON ALL TABLES IN SCHEMA elsewhere TO PUBLIC; GRANT ALL ON ALL SEQUENCES IN SCHEMA elsewhere, public TO PUBLIC", database="p0")
    yield drawn
    drawn.execute("DROP SCHEMA elsewhere CASCADE; DROP SEQUENCE other_seq", database="p0")


def draw_as_another(weir, *more, **at):
    """The session has values of all sequences. INSERT keeps no server connection."""
    with weir.client(**at) as other:
        for table in ("drawn", "elsewhere.drawn", "elsewhere.other") + more:
            assert not other.query("INSERT INTO %s (who) VALUES ('other')" % table).errors


@pytest.mark.parametrize("way", ["query", "unnamed"])
@pytest.mark.parametrize("text", OWN.values(), ids=OWN)
def test_first_client_that_reads_gets_its_own_value(scene, others, text, way):
    weir = full(scene, others, size=1)
    draw_as_another(weir)
    mine = weir.client()
    say = mine.query if way == "query" else lambda text: prepared(mine, text)
    mine.query("BEGIN")
    own = draw(mine, "mine")
    assert say(text).rows[0][0].decode() == own
    assert say("SELECT lastval()").value == own
    mine.query("COMMIT")
    assert say("SELECT lastval()").value == own
    assert say("SELECT currval('drawn_id_seq')").value == own
    assert say("SELECT currval('other_seq')").errors[0]["C"] == "55000"
    assert draw(mine, "mine") == say("SELECT currval('drawn_id_seq')").value


@pytest.mark.parametrize("way", ["query", "unnamed"])
@pytest.mark.parametrize("text", NOT_OWN.values(), ids=NOT_OWN)
def test_first_client_that_reads_another_sequence_gets_no_value(scene, others, text, way):
    if way == "unnamed" and ";" in text:
        return
    weir = full(scene, others, size=1)
    draw_as_another(weir)
    mine = weir.client()
    mine.query("BEGIN")
    draw(mine, "mine")
    result = mine.query(text) if way == "query" else prepared(mine, text)
    assert [error["C"] for error in result.errors] == ["55000"]
    mine.query("ROLLBACK")


# what locks a sequence as nextval does, or makes a name another sequence
CASES = {
    "setval": ("SELECT setval('other_seq', 9)", "SELECT lastval()"),
    "failed nextval": ("SAVEPOINT a; SELECT nextval('ended_seq')|ROLLBACK TO a", "SELECT currval('ended_seq')"),
    "DO": ("DO $$ BEGIN PERFORM nextval('ended_seq'); EXCEPTION WHEN OTHERS THEN END $$", "SELECT currval('ended_seq')"),
    "ALTER SEQUENCE": ("ALTER SEQUENCE ended_seq MAXVALUE 3", "SELECT currval('ended_seq')"),
    "TRUNCATE": ("TRUNCATE ended RESTART IDENTITY", "SELECT currval('ended_seq')"),
    "function": ("SELECT 1", "SELECT reads_other()"),
}


@pytest.mark.parametrize("case", CASES)
def test_first_client_that_reads_a_sequence_that_it_only_locks(scene, others, case):
    others.execute("CREATE SEQUENCE ended_seq MAXVALUE 2; CREATE TABLE ended (id int DEFAULT nextval('ended_seq'), who text); ALTER SEQUENCE ended_seq OWNED BY ended.id; "
                   "ALTER TABLE ended OWNER TO app; "
                   "CREATE FUNCTION reads_other() RETURNS bigint LANGUAGE sql AS $$ SELECT currval('other_seq') $$", database="p0")
    try:
        weir = full(scene, others, size=1)
        text, read = CASES[case]
        draw_as_another(weir, "ended", "ended", user="app")
        mine = weir.client(user="app")
        mine.query("BEGIN")
        if case != "setval":
            draw(mine, "mine")
        for part in text.split("|"):
            mine.query(part)
        assert mine.query(read).errors[0]["C"] == "55000"
        mine.query("ROLLBACK")
    finally:
        others.execute("DROP TABLE ended; DROP FUNCTION reads_other", database="p0")


def test_first_client_that_reads_by_a_named_statement(scene, others):
    """Its name may stand for another sequence later."""
    weir = full(scene, others, size=1, max_prepared_statements=10)
    draw_as_another(weir)
    mine = weir.client()
    mine.query("BEGIN")
    draw(mine, "mine")
    mine.send(m.parse("SELECT currval('drawn_id_seq')", "s") + m.sync())
    assert not mine.result().errors
    mine.query("SET LOCAL search_path = elsewhere")
    mine.send(m.bind("s") + m.execute() + m.sync())
    assert mine.result().errors[0]["C"] == "55000"


@pytest.mark.parametrize("begin", [False, True])
@pytest.mark.parametrize("read", ["SELECT lastval()", "SELECT currval('drawn_id_seq')"])
def test_first_client_that_reads_in_a_batch(scene, others, read, begin):
    weir = full(scene, others, size=1)
    draw_as_another(weir)
    mine = weir.client()
    if begin:
        mine.query("BEGIN")
    mine.send(m.parse("SELECT 1") + m.bind() + m.execute() + m.parse(read) + m.bind() + m.execute() + m.sync())
    result = mine.result()
    assert [error["C"] for error in result.errors] == ["55000"] and result.types == "12DC12EZ"
    mine.query("ROLLBACK")
    own = draw(mine, "mine")
    assert mine.query(read).value == own


def test_first_client_that_reads_in_a_batch_that_has_failed(scene, others):
    """The server has passed over DISCARD SEQUENCES, too: later requests send it again."""
    weir = full(scene, others, size=1)
    draw_as_another(weir)
    mine = weir.client()
    for _ in range(2):
        mine.send(m.parse("SELECT 1/0") + m.bind() + m.execute() + m.parse("SELECT lastval()") + m.bind() + m.execute() + m.sync())
        assert [error["C"] for error in mine.result().errors] == ["22012"]
    assert mine.query("SELECT lastval()").errors[0]["C"] == "55000"
    mine.send(m.parse("SELECT 1/0") + m.bind() + m.execute() + m.query("SELECT lastval()") + m.sync())
    assert [error["C"] for error in mine.result().errors] == ["22012"]


def test_first_client_that_reads_by_a_query_in_a_batch(scene, others):
    weir = full(scene, others, size=1)
    draw_as_another(weir)
    mine, other = weir.client(), weir.client()
    mine.send(m.parse("SELECT 1") + m.query("SELECT lastval()"))
    assert mine.result().errors[0]["C"] == "55000"
    mine.query("DISCARD ALL")
    draw(other, "other")
    mine.send(m.parse("SELECT 1") + m.query("SELECT lastval()"))
    assert mine.result().errors[0]["C"] == "55000"


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("begin", ["", "BEGIN"])
def test_values_of_others_are_never_read(scene, drawn, size, begin):
    """Not by the first client that asks either, whatever it has done on that server before."""
    weir = full(scene, drawn, size=size)
    mine, others = weir.client(), [weir.client() for _ in range(3)]
    for other in others:
        draw(other, "other")
    for text in ("SELECT 1", "SELECT 2", begin or "SELECT 3"):
        mine.query(text)
    assert mine.query("SELECT lastval()").errors[0]["C"] == "55000"
    mine.query("ROLLBACK")
    assert mine.query("SELECT currval('drawn_id_seq')").errors[0]["C"] == "55000"


def test_values_of_others_are_never_read_after_a_rollback_in_a_pipeline(scene, drawn):
    weir = full(scene, drawn, size=1)
    mine, other = weir.client(), weir.client()
    draw(other, "other")
    mine.query("BEGIN; SELECT 1/0")
    mine.send(m.query("ROLLBACK") + m.query("SELECT lastval()"))
    mine.result()
    assert mine.result().errors[0]["C"] == "55000"


@pytest.mark.parametrize("text", ["SELECT nextval('drawn_id_seq')", "SELECT setval('drawn_id_seq', nextval('drawn_id_seq'))", "prepared"])
@pytest.mark.parametrize("read", ["SELECT lastval()", "BEGIN; SELECT lastval()", "SELECT currval('drawn_id_seq')"])
def test_a_value_that_nextval_has_drawn_is_not_lost(scene, drawn, text, read):
    weir = full(scene, drawn, size=5)
    mine, others = weir.client(), [weir.client() for _ in range(3)]
    own = prepared(mine, "SELECT nextval('drawn_id_seq')").value if text == "prepared" else mine.query(text).value
    for _ in range(2):
        for other in others:
            other.query("SELECT nextval('drawn_id_seq')")
            draw(other, "other")
    assert mine.query(read).value == own
    mine.query("ROLLBACK")
    assert mine.query(read).value == own


def test_trigger_that_draws_values_pins_no_client_that_writes_elsewhere(scene, drawn):
    for sql in ("DROP TABLE IF EXISTS plain_t", "CREATE TABLE plain_t (a int)", "GRANT ALL ON plain_t TO PUBLIC",
                "CREATE OR REPLACE FUNCTION draws() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM nextval('drawn_id_seq'); RETURN NEW; END $$",
                "CREATE TRIGGER draws BEFORE INSERT ON drawn FOR EACH ROW EXECUTE FUNCTION draws()"):
        drawn.execute(sql, database="p0")
    weir = full(scene, drawn, size=3)
    client = weir.client()
    client.query("INSERT INTO plain_t VALUES (1)")
    assert pins(weir) == []
    own = client.query("BEGIN; INSERT INTO drawn (who) VALUES ('me'); SELECT lastval()").value
    assert own and not client.query("COMMIT").errors


@pytest.mark.parametrize("reset", ["DISCARD ALL", "DISCARD SEQUENCES"])
@pytest.mark.parametrize("way", ["queries", "statement", "one query", "reading query", "first reading query"])
def test_a_value_drawn_directly_after_discard_is_not_lost(scene, drawn, reset, way):
    if (reset, way) == ("DISCARD ALL", "one query"):
        pytest.skip("DISCARD ALL cannot run in a transaction block")
    weir = full(scene, drawn, size=4)
    asker, mine, other = weir.client(), weir.client(options="-c intervalstyle=postgres_verbose"), weir.client()
    asker.query("SELECT lastval()")
    if way == "first reading query":
        draw(other, "other")
        mine.query("SELECT 1")
    else:
        draw(mine, "mine")
    if way == "queries":
        mine.send(m.query(reset) + m.query("SELECT nextval('drawn_id_seq')"))
        mine.result()
        own = mine.result().value
    elif way == "statement":
        mine.send(m.query(reset) + m.run("SELECT nextval('drawn_id_seq')", name="n") + m.sync())
        mine.result()
        own = mine.result().value
    elif "reading" in way:
        mine.send(m.query(reset) + m.query("SELECT coalesce(nextval('drawn_id_seq'), lastval())"))
        mine.result()
        own = mine.result().value
        weir.admin("RECONNECT")
    else:
        own = mine.query(reset + "; SELECT nextval('drawn_id_seq')").value
    for _ in range(4):
        draw(other, "other")
    assert mine.query("SELECT lastval()").value == own


def test_a_client_that_draws_yields_to_those_that_wait(scene, drawn):
    """The client releases its server while it has not asked for its value; afterwards it sees no value of another client."""
    weir = full(scene, drawn, size=2)
    clients = [weir.client() for _ in range(5)]
    for _ in range(3):
        for client in clients:
            assert not client.query("SELECT nextval('drawn_id_seq')").errors
    assert len(weir.show("PINS")) == 2
    assert clients[0].query("SELECT lastval()").errors[0]["C"] == "55000"
    clients[0].quit()
    weir.admin("PAUSE")
    weir.admin("RESUME")


def test_values_and_an_online_restart(scene, drawn):
    weir = full(scene, drawn, Replaced, size=2, server_tls_sslmode="disable")
    mine, other = weir.client(), weir.client()
    own = mine.query("SELECT nextval('drawn_id_seq')").value
    draw(other, "other")
    weir.replace()
    draw(other, "other")
    assert mine.query("BEGIN; SELECT lastval()").value == own
    mine.query("COMMIT")
    weir.replace()
    assert mine.query("SELECT currval('drawn_id_seq')").value == own


def test_pool_is_known_to_ask_for_values_after_an_online_restart(scene, drawn):
    weir = full(scene, drawn, Replaced, size=3, server_tls_sslmode="disable")
    asker, mine, other = weir.client(), weir.client(), weir.client()
    asker.query("SELECT lastval()")
    asker.quit()
    weir.replace()
    own = draw(mine, "mine")
    for _ in range(3):
        draw(other, "other")
    assert mine.query("SELECT lastval()").value == own


def test_values_in_a_pool_that_is_known_to_ask_for_them(scene, drawn):
    """INSERT keeps the server, too."""
    weir = full(scene, drawn, size=4)
    first, mine, others = weir.client(), weir.client(), [weir.client() for _ in range(2)]
    first.query("SELECT lastval()")
    own = draw(mine, "mine")
    for other in others:
        draw(other, "other")
    assert mine.query("BEGIN; SELECT currval('drawn_id_seq')").value == own


def test_sequence_values_of_a_disconnected_client_are_cleared(scene, drawn):
    weir = full(scene, drawn, size=1)
    for _ in range(2):
        mine = weir.client()
        draw(mine, "mine")
        assert not mine.query("SELECT lastval()").errors
        mine.close()
        with weir.client() as other:
            assert other.query("SELECT lastval()").errors[0]["C"] == "55000"


def test_sql_prepared_statement_used_by_the_protocol(scene, postgres):
    """Bind and Close know the names of PREPARE, and no other client's."""
    weir = full(scene, postgres, max_prepared_statements=20)
    mine, other = weir.client(), weir.client()
    mine.query("PREPARE by_sql(int) AS SELECT $1 + 1")
    for client in (mine, other, mine):
        client.send(m.bind("by_sql", "", [b"4"]) + m.execute() + m.sync())
        result = client.result()
        assert result.errors[0]["C"] == "26000" if client is other else result.value == "5"
    mine.send(m.describe("S", "by_sql") + m.close("S", "by_sql") + m.sync())
    assert mine.result().types == "tT3Z"
    assert mine.query("SELECT count(*) FROM pg_prepared_statements WHERE from_sql").value == "0"
    pinned(weir)


def test_drain_ends_pinned_and_listening_clients(scene, postgres):
    """Between their transactions; their servers keep nothing of them."""
    weir = full(scene, postgres, size=4)
    pins, listens = weir.client(), weir.client()
    pins.query("CREATE TEMP TABLE pinned_t AS SELECT 5 AS a")
    pinned(weir, "temporary objects")
    pins.query("BEGIN")
    listens.query("LISTEN pinned_n")
    until(lambda: weir.pool("p0")["cl_listening"] == 1, "it listens")
    weir.admin("DRAIN p0")
    ended_with(listens, "terminating connection due to administrator command (DRAIN)", "57P01")
    assert pins.query("SELECT a FROM pinned_t").value == "5"
    pins.query("COMMIT")
    ended_with(pins, "terminating connection due to administrator command (DRAIN)", "57P01")
    weir.admin("DRAIN STOP")
    assert weir.client().query("SELECT to_regclass('pinned_t') IS NULL").value == "t"


def test_temp_buffers_of_the_start_up_are_in_force_after_temporary_tables_of_others(scene, postgres):
    weir = full(scene, postgres, size=1)
    other, mine = weir.client(), weir.client(options="-c temp_buffers=2000")
    for text in ("CREATE TEMP TABLE used AS SELECT 1 AS a", "DROP TABLE used"):
        assert not other.query(text).errors
    assert mine.query("SHOW temp_buffers").value == "16000kB"
    # PostgreSQL refuses a change in the session that has used such tables
    for text in ("CREATE TEMP TABLE used AS SELECT 1 AS a", "DROP TABLE used"):
        assert not other.query(text).errors
    assert weir.client().query("SET temp_buffers = 3000").errors[0]["C"] == "22023"
