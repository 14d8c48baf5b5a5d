"""
Names of prepared statements: server-side names cannot be guessed by SQL, a name that is too long is refused, and DEALLOCATE ALL takes effect in
sequence in a pipeline.
"""
import pytest

from support import messages as m
from support.prepared import FORGET, HEAD, Both, use
from support.wire import Client

# all names without a tag, as pgweir once used them, and guesses of a client
GUESSES = """
DO $guess$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT 'PGWEIR_' || n FROM generate_series(0, 50) n UNION ALL SELECT 'PGWEIR_again' LOOP
        BEGIN
            EXECUTE format('DEALLOCATE %I', name);
        EXCEPTION WHEN invalid_sql_statement_name THEN NULL;
        END;
        EXECUTE format('PREPARE %I AS SELECT ''poisoned''', name);
    END LOOP;
END
$guess$
"""


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("user", [None, "app"], ids=["same role", "forced user"])
def test_names_cannot_be_guessed(scene, postgres, mode, user):
    """One client replaces all statements whose names it can guess, hidden in a DO block. Statements of another client are kept."""
    target = postgres.target("p0", **({"user": user, "password": "app-secret"} if user else {}))
    weir = scene.weir({"p0": target}, pool_mode=mode, default_pool_size=1)
    victim, attacker = weir.client(), weir.client("rival" if user else "app")
    victim.send(m.parse("SELECT 'mine'", "s"), m.sync())
    victim.expect_all("1Z")
    assert attacker.query(GUESSES).tags == ["DO"]
    for _ in range(2):
        victim.send(m.bind("s"), m.execute(), m.sync())
        assert victim.result().value == "mine"
    victim.send(m.bind("missing"), m.execute(), m.sync())
    assert victim.result().errors[0]["C"] == "26000"
    victim.send(m.parse("SELECT 'other'", "s"), m.sync())
    assert victim.result().errors[0]["C"] == "42P05"


def test_names_do_not_repeat(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(m.parse("SELECT 1", "s"), m.sync())
    client.expect_all("1Z")
    seen = set()
    for _ in range(10):
        client.send(m.bind("s"), m.execute(), m.sync())
        assert client.result().value == "1"
        seen.add(client.query("SELECT substring(name from '^%s') FROM pg_prepared_statements" % HEAD).value)
        weir.admin("RECONNECT")
    assert len(seen) == 10 and None not in seen


@pytest.mark.parametrize("size", [5000, 70000])
@pytest.mark.parametrize("begin", ["SELECT 1", "BEGIN", "BEGIN; SELECT 1/0"], ids=["idle", "transaction", "aborted"])
def test_a_name_that_is_too_long(scene, postgres, begin, size):
    """PostgreSQL's refusal of the message in its place becomes the pooler's, in any state of the transaction."""
    client = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1).client()
    client.query(begin)
    for message in (m.parse("SELECT 2", "n" * size), m.bind("n" * size), m.bind("", "n" * size), m.describe("S", "n" * size),
                    m.close("S", "n" * size)):
        client.send(message, m.sync())
        (error,) = client.result().errors
        assert (error["S"], error["C"], error["M"]) == ("ERROR", "42622", "name of a prepared statement or portal is too long")
    client.query("ROLLBACK")
    client.send(m.parse("SELECT 3", "s"), m.bind("s"), m.execute(), m.sync())
    assert client.result().value == "3"


@pytest.mark.parametrize("way", ["query", "among others", "execute", "execute, behind a Sync", "in a transaction"])
@pytest.mark.parametrize("forget", FORGET)
def test_names_after_their_deallocation_in_a_pipeline(scene, postgres, forget, way):
    """The answers equal PostgreSQL's own, even if the server has none of the client's statements."""
    double = Client(postgres.port)
    double.login(password="app-secret", user="app", database="p0")
    both = Both(scene.weir({"p0": postgres}, pool_mode="transaction", max_prepared_statements=1).client(), double)
    both.ask(m.parse("SELECT 'one'", "s1"), m.parse("SELECT 'two'", "s2"), m.sync())
    parts = {"query": [m.query(forget)], "among others": [m.query("/* */ SELECT 1; %s; SELECT 2" % forget)], "execute": [m.run(forget)],
             "execute, behind a Sync": [m.run(forget), m.sync()],
             "in a transaction": [m.query("BEGIN"), m.query(forget), m.query("ROLLBACK")]}[way]
    parts += [use("s1"), m.sync(), use("s2"), m.parse("SELECT 'three'", "s1"), m.sync(), use("s1"), m.sync()]
    both.ask_all(sum(part[:1] in (b"Q", b"S") for part in parts), *parts)


@pytest.mark.parametrize("has_own", [False, True], ids=["no statements", "own statements"])
def test_deallocate_of_a_name_of_pgweir(scene, postgres, has_own):
    """pg_prepared_statements shows the server's names of all clients; with these a client drops no statement of another one."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    mine, other = weir.client(), weir.client()
    mine.send(m.parse("SELECT 'mine'", "s"), m.sync())
    mine.expect_all("1Z")
    if has_own:
        other.send(m.parse("SELECT 'other'", "o"), m.sync())
        other.expect_all("1Z")
    name = other.query("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%mine%'").value

    def all_refused(texts, sqlstate):
        for sql in texts:
            for packet in m.query(sql), m.run(sql) + m.sync(), m.parse(sql, "d") + m.bind("d") + m.execute() + m.close("S", "d") + m.sync():
                other.send(packet)
                result = other.result()
                assert [error["C"] for error in result.errors] == [sqlstate], (sql, result.errors)
                other.send(m.close("S", "d"), m.sync())
                other.expect_all("3Z")
    all_refused(['DEALLOCATE "%s"' % name, 'deallocate prepare "%s"' % name], "26000")
    if has_own:
        assert [error["C"] for error in other.query('SELECT 1; DEALLOCATE "%s"' % name).errors] == ["26000"]
    other.query("BEGIN")
    other.query("fail")
    all_refused(['DEALLOCATE "%s"' % name], "25P02")
    other.query("ROLLBACK")
    for _ in range(2):
        mine.send(m.bind("s"), m.execute(), m.sync())
        assert mine.result().value == "mine"
    if has_own:
        assert other.query("DEALLOCATE o").tags == ["DEALLOCATE"]
    assert other.query("DEALLOCATE ALL").tags == ["DEALLOCATE ALL"]
