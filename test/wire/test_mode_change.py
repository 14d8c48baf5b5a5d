"""
pool_mode changes while clients are connected: the session of one client is never lent to another.

The next client must not see state that a client leaves in its own session (LISTEN, SET ROLE, temporary tables, statements), and a connected client
must not lose such state. Therefore a client with a session keeps it, and the session ends with the client.
"""
import pytest

from support import messages as m
from support.takeover import Replaced


def changed(weir, **settings):
    weir.settings.update(settings)
    weir.write_ini()


def by_reload(weir, **settings):
    changed(weir, **settings)
    weir.admin("RELOAD")


def by_set(weir, **settings):
    for name, value in settings.items():
        weir.admin("SET %s = '%s'" % (name, value))


def by_set_of_the_database(weir, **settings):
    for name, value in settings.items():
        weir.admin("SET p0.%s = '%s'" % (name.replace("default_", ""), value))


def by_another_process(weir, **settings):
    changed(weir, **settings)
    weir.replace()


def entry(mini, more):
    return "host=127.0.0.1 port=%d dbname=p0 %s" % (mini.port, more)


WAYS = pytest.mark.parametrize("change", [by_reload, by_set, by_set_of_the_database, by_another_process], ids=lambda way: way.__name__)


def begun(scene, mode, **settings):
    mini = scene.mini()
    return mini, scene.weir(mini, kind=Replaced, pool_mode=mode, **{"default_pool_size": 2, **settings})


def pids(mini, *texts):
    return [pid for text in texts for pid, sql in mini.queries if sql == text]


@WAYS
@pytest.mark.parametrize("other", ["transaction", "statement"])
def test_a_session_stays_with_its_client_and_ends_with_it(scene, change, other):
    mini, weir = begun(scene, "session")
    owner = weir.client()
    owner.query("mine")
    change(weir, pool_mode=other)
    assert weir.pool("p0")["pool_mode"] == other
    owner.query("still mine")
    with weir.client() as rival:
        rival.query("another's")
    mine, still, others = pids(mini, "mine", "still mine", "another's")
    assert mine == still != others
    owner.quit()
    weir.wait_pool("p0", sv_active=0, sv_idle=1)
    with weir.client() as late:
        late.query("late")
    assert pids(mini, "late") == [others]
    weir.wait_log("obsolete connection")


@WAYS
def test_open_transaction_during_a_change_to_session_mode(scene, change):
    """The open transaction ends on a shared server; the next one begins a session on a dedicated server."""
    mini, weir = begun(scene, "transaction")
    client = weir.client()
    client.query("BEGIN")
    change(weir, pool_mode="session")
    client.query("in it")
    client.query("COMMIT")
    weir.wait_pool("p0", sv_active=0)
    client.query("first of the session")
    client.query("second of the session")
    inside, first, second = pids(mini, "in it", "first of the session", "second of the session")
    assert inside != first == second
    assert weir.pool("p0")["sv_active"] == 1


@WAYS
def test_prepared_statements_during_a_change_to_session_mode(scene, change):
    """A dedicated session would not know the statements: the client continues to share servers, and leaves nothing behind."""
    mini, weir = begun(scene, "transaction", default_pool_size=1)
    client = weir.client()
    client.send(m.parse("prepared", "mine"), m.sync())
    client.result()
    change(weir, pool_mode="session")
    for _ in range(2):
        client.send(m.bind("mine"), m.execute(), m.sync())
        assert client.result().value == "prepared"
        with weir.client() as rival:
            rival.query("another's")
    resets = [sql for _, sql in mini.queries if sql == "DISCARD ALL"]
    assert len(resets) >= 3


@WAYS
def test_idle_sessions_are_not_reused(scene, change):
    """Their start-up parameters came from one client: RESET would restore them for others."""
    mini, weir = begun(scene, "session", track_extra_parameters="search_path")
    with weir.client(search_path="mine") as owner:
        owner.query("mine")
    weir.wait_pool("p0", sv_idle=1)
    change(weir, pool_mode="transaction")
    weir.wait_pool("p0", sv_idle=0)
    with weir.client() as other:
        other.query("another's")
    assert [session.startup.get("search_path") for session in mini.started] == ["mine", None]


@WAYS
def test_shared_servers_are_opened_without_client_parameters(scene, change):
    mini, weir = begun(scene, "session", track_extra_parameters="search_path", default_pool_size=1)
    owner = weir.client(search_path="mine")
    change(weir, pool_mode="transaction")
    owner.query("shared")
    assert mini.started[-1].startup.get("search_path") is None
    with weir.client() as other:
        other.query("another's")
    assert len(set(pids(mini, "shared", "another's"))) == 1


def test_modes_of_a_database_and_of_a_user(scene):
    mini = scene.mini()
    weir = scene.weir({"p0": entry(mini, "pool_mode=session")}, pool_mode="transaction", default_pool_size=2)
    owner = weir.client()
    owner.query("mine")
    weir.databases["p0"] = mini
    weir.write_ini()
    weir.admin("RELOAD")
    assert weir.pool("p0")["pool_mode"] == "transaction"
    owner.quit()
    weir.wait_pool("p0", sv_active=0, sv_idle=0)


def test_reload_without_a_mode_change_keeps_the_servers(scene):
    """The settings and the database say it in turn: in between there is no other mode."""
    mini = scene.mini()
    weir = scene.weir(mini, pool_mode="session", default_pool_size=2)
    client = weir.client()
    client.query("before")
    weir.databases["p0"] = entry(mini, "pool_mode=session")
    by_reload(weir, pool_mode="transaction")
    client.quit()
    weir.wait_pool("p0", sv_idle=1)
    with weir.client() as other:
        other.query("after")
    assert len(set(pids(mini, "before", "after"))) == 1


def test_server_fast_close_applies_to_older_sessions(scene):
    mini, weir = begun(scene, "session", server_fast_close=1)
    client = weir.client()
    client.query("mine")
    by_reload(weir, pool_mode="transaction")
    assert [m.read_error(message.body)["M"] for message in client.drain() if message.type == "E"] == ["database configuration changed"]
    weir.wait_pool("p0", sv_active=0)
    assert len(mini.started) == 1
