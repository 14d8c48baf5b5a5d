"""session_state = full: what pgweir knows of a session lasts until pgweir has acted on it, and the next fact does not replace it before that."""
import pytest

from support import messages as m
from support.until import until

STATE = """SELECT concat_ws(',', current_setting('app.tenant', true), (SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
           (SELECT count(*) FROM pg_cursors WHERE is_holdable), (SELECT count(*) FROM pg_listening_channels()), to_regclass('pg_temp.left_there'),
           (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()))"""
NOTHING = "0,0,0,0"
LEAVES = {
    "table": "CREATE TEMP TABLE left_there (a int)", "statement": "PREPARE left_there AS SELECT 1",
    "cursor": "DECLARE left_there CURSOR WITH HOLD FOR SELECT 1", "lock": "SELECT pg_advisory_lock(41)", "channel": "LISTEN left_there",
}


def full(scene, postgres, size=1):
    return scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=size, session_state="full")


def state_of(client):
    state = client.query(STATE).value
    return state[1:] if state.startswith(",") else state


@pytest.fixture
def does(postgres):
    """does(q) executes any text, and pgweir does not see which."""
    postgres.execute("CREATE FUNCTION does(q text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE q; END $$", database="p0")
    yield
    postgres.execute("DROP FUNCTION does", database="p0")


def run(client, *messages):
    client.send(*messages, m.sync())
    result = client.result()
    assert not result.errors
    return result


def hidden(text):
    """A text that has no word of the other."""
    return "SELECT does(convert_from('\\x%s', 'UTF8'))" % text.encode().hex()


@pytest.mark.parametrize("what", sorted(LEAVES))
def test_a_client_with_a_statement_follows_one_that_did_anything(scene, postgres, does, what):
    """The statement of the first client may change anything too, because functions are not known after the second one."""
    weir = full(scene, postgres)
    first, second = weir.client(), weir.client()
    run(first, m.parse("SELECT 1", ""), m.bind(""), m.execute())
    assert not second.query(hidden(LEAVES[what])).errors
    assert state_of(first) == NOTHING


@pytest.mark.parametrize("what", sorted(LEAVES))
def test_a_reset_for_a_client_does_not_cover_its_own_statement(scene, postgres, does, what):
    """The server is reset for what the second client did, and then executes the statement of the first one."""
    weir = full(scene, postgres)
    first, second = weir.client(), weir.client()
    run(first, m.parse(hidden(LEAVES[what]), "s"))
    assert not second.query(hidden("LISTEN x")).errors
    run(first, m.bind("s"), m.execute())
    assert state_of(second) == NOTHING


def test_an_unnamed_statement_stays_if_its_successor_is_skipped(scene, postgres):
    """The server skips the second Parse after an error, and executes the first one in a later transaction."""
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    run(mine, m.parse("SELECT set_config('app.tenant', 'mine', false)", ""))
    mine.send(m.parse("SELECT 1/0", "s"), m.bind("s"), m.execute(), m.parse("SELECT 1", ""), m.sync())
    assert mine.result().errors
    assert run(mine, m.bind(""), m.execute()).value == "mine"
    assert state_of(other) == NOTHING


def test_a_function_that_is_replaced_after_its_client_has_left(scene, postgres):
    """The server has the call already, and executes the new function without a client."""
    weir = full(scene, postgres, size=2)
    mine, other = weir.client(), weir.client()
    define = "CREATE OR REPLACE FUNCTION late() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN %s; END $$"
    postgres.execute("CREATE TABLE gate (); GRANT ALL ON gate TO app", database="p0")
    try:
        assert not other.query(define % "'1'::text").errors
        assert not mine.query("SELECT late()").errors
        other.query("BEGIN; LOCK TABLE gate")
        mine.send(m.query("LOCK TABLE gate; SELECT late()"), m.terminate())
        until(lambda: weir.pool("p0")["cl_active"] == 1, "the server has no client")
        assert not other.query(define % "set_config('app.tenant', 'theirs', false) || pg_advisory_lock(41)" + "; COMMIT").errors
        until(lambda: weir.pool("p0")["sv_idle"] == 2, "the query is over")
        clients = [other, weir.client()]
        for client in clients:
            client.query("BEGIN")
        assert [state_of(client) for client in clients] == [NOTHING] * 2
    finally:
        weir.stop()
        postgres.execute("DROP TABLE gate; DROP FUNCTION IF EXISTS late", database="p0")
