"""pool_mode: how long a client keeps a server connection, and the three levels of the setting."""
import pytest

from support.live import ask, ended_with, hold, let_go, pid_of
from support.wire import Closed


def mode_in_fact(weir, database="p0", user="app"):
    """The mode as clients see it: whether a client keeps the server connection, and whether BEGIN is allowed."""
    first, second = weir.client(user, database), weir.client(user, database)
    if pid_of(first) != pid_of(second):
        return "session"
    ask(first, "BEGIN")
    try:
        first.result()
    except Closed:
        return "statement"
    return "transaction"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_global(scene, postgres, mode):
    weir = scene.weir({"p0": postgres}, pool_mode=mode)
    assert mode_in_fact(weir) == mode
    assert weir.pool("p0")["pool_mode"] == mode


def test_database_wins_over_global(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", pool_mode="transaction"), "p1": postgres}, pool_mode="session")
    assert mode_in_fact(weir, "p0") == "transaction"
    assert mode_in_fact(weir, "p1") == "session"


def test_user_wins_over_database(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", pool_mode="transaction")},
                      sections={"users": {"app": "pool_mode=session"}}, pool_mode="statement")
    assert mode_in_fact(weir, "p0", "app") == "session"
    assert mode_in_fact(weir, "p0", "rival") == "transaction"


def test_default_is_session(scene, postgres):
    assert mode_in_fact(scene.weir({"p0": postgres})) == "session"


def test_session_keeps_objects_of_a_client(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="session")
    client = weir.client()
    client.query("CREATE TEMPORARY TABLE mine (n int)")
    client.query("SET work_mem = '5MB'")
    client.query("PREPARE one AS SELECT 41 + 1")
    assert client.query("EXECUTE one").value == "42"
    assert client.query("SHOW work_mem").value == "5MB"
    assert client.query("SELECT count(*) FROM mine").value == "0"


def test_transaction_keeps_the_server_for_a_transaction_only(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    first, second = weir.client(), weir.client()
    pid = hold(first)
    assert weir.pool("p0")["sv_active"] == 1
    assert pid_of(first) == pid
    let_go(first)
    weir.wait_pool("p0", sv_active=0, sv_idle=1)
    assert pid_of(second) == pid


def test_transaction_keeps_the_server_through_a_failed_transaction(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    hold(client)
    assert client.query("SELECT 1/0").status == "E"
    assert weir.pool("p0")["sv_active"] == 1
    assert client.query("SELECT 1").errors[0]["C"] == "25P02"
    assert client.query("ROLLBACK").status == "I"
    weir.wait_pool("p0", sv_active=0)


def test_statement_refuses_transactions(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="statement")
    client = weir.client()
    assert client.query("SELECT 1").value == "1"
    assert client.query("SELECT 2; SELECT 3").rows == [[b"2"], [b"3"]]
    ask(client, "BEGIN")
    ended_with(client, "transaction blocks not allowed in statement pooling mode")
    assert weir.client().query("SELECT 4").value == "4"
