"""
Trap 85: each timer counts the state that it is named for. Durations are not measured: a timer that has expired for one client would have expired for
another client that began earlier.
"""
import pytest

from support import messages as m
from support.until import until


def transactions(scene, target, pool_size=3, **options):
    return scene.weir(target, pool_mode="transaction", default_pool_size=pool_size, **options)


def last_words(client):
    """Text of the error with which the client was cut off."""
    return m.read_error(client.drain()[-1].body)["M"]


def test_trap_85_query_timeout_does_not_count_idle_time(scene):
    """query_timeout hit a client that was idle in its transaction."""
    weir = transactions(scene, scene.mini(), query_timeout=1)
    idle, busy = weir.client(), weir.client()
    idle.query("BEGIN")
    busy.send(m.query("wait"))
    assert last_words(busy) == "query timeout"
    assert idle.query("alive").value == "alive"
    assert idle.query("COMMIT").status == "I"


def test_trap_85_idle_timer_does_not_count_query_time(scene):
    """idle_transaction_timeout hit a client during a long query."""
    fake = scene.mini()
    weir = transactions(scene, fake, idle_transaction_timeout=1)
    busy, idle = weir.client(), weir.client()
    busy.query("BEGIN")
    busy.send(m.query("wait"))
    idle.query("BEGIN")
    assert last_words(idle) == "idle transaction timeout"
    fake.release()
    assert busy.result().value == "waited"
    assert last_words(busy) == "idle transaction timeout"


def test_trap_85_idle_timer_restarts_with_each_query(scene):
    weir = transactions(scene, scene.mini(), idle_transaction_timeout=1)
    busy, idle = weir.client(), weir.client()
    busy.query("BEGIN")
    idle.query("BEGIN")
    while idle.status == "T" and not idle.has_input():
        assert busy.query("busy").value == "busy"
    assert busy.query("COMMIT").status == "I"
    assert last_words(idle) == "idle transaction timeout"


def test_trap_85_transaction_timeout_counts_both(scene):
    weir = transactions(scene, scene.mini(), transaction_timeout=1)
    idle, plain = weir.client(), weir.client()
    idle.query("BEGIN")
    while not idle.has_input():
        plain.query("not in a transaction")
    assert last_words(idle) == "transaction timeout"
    assert plain.query("alive").value == "alive"


def test_trap_85_one_timer_at_zero_leaves_the_others_running(scene):
    weir = transactions(scene, scene.mini(), query_timeout=0, idle_transaction_timeout=1, client_idle_timeout=0)
    busy, idle = weir.client(), weir.client()
    busy.send(m.query("wait"))
    idle.query("BEGIN")
    assert last_words(idle) == "idle transaction timeout"
    weir.barrier()
    assert not busy.has_input()


def test_client_idle_timeout_counts_only_idle_clients(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, client_idle_timeout=1)
    in_transaction, busy, idle = weir.client(), weir.client(), weir.client()
    in_transaction.query("BEGIN")
    busy.send(m.query("wait"))
    assert last_words(idle) == "client_idle_timeout"
    assert in_transaction.query("COMMIT").status == "I"
    fake.release()
    assert busy.result().value == "waited"


def test_query_wait_timeout_hits_waiting_clients_only(scene):
    weir = transactions(scene, scene.mini(), 1, query_wait_timeout=1)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("never"))
    assert last_words(waiting) == "query_wait_timeout"
    assert holder.query("COMMIT").status == "I"
    assert weir.client().query("next").value == "next"


def test_query_wait_notify(scene):
    weir = transactions(scene, scene.mini(), 1, query_wait_notify=0.3)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("late"))
    assert m.read_error(waiting.expect("N").body)["S"] == "NOTICE"
    holder.query("COMMIT")
    assert waiting.result().value == "late"


def test_server_idle_timeout_and_lifetime(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, 1, server_idle_timeout=0.4)
    client = weir.client()
    client.query("first")
    weir.wait_log("server idle timeout")
    assert client.query("second").value == "second"
    until(lambda: len(fake.started) == 2)


def test_server_lifetime_zero_uses_each_connection_once(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, 1, server_lifetime=0)
    client = weir.client()
    for turn in range(3):
        assert client.query("turn %d" % turn).value == "turn %d" % turn
    pids = [pid for pid, _ in fake.queries]
    assert len(set(pids)) == 3


def test_hanging_server_login(scene):
    fake = scene.fake()
    fake.login = lambda session: session.drain()
    weir = transactions(scene, fake, server_connect_timeout=0.5, query_wait_timeout=1, server_login_retry=0)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.drain()[-1].type == "E"
    weir.wait_log("connect timeout")


@pytest.mark.parametrize("how, asks", (("WAIT_FOR_CLIENTS", False), ("WAIT_FOR_SERVERS", True), ("WAIT_FOR_CLIENTS", True)))
def test_shutdown_timeout(scene, how, asks):
    """The shutdown waits for a client that stays; a RELOAD sets the limit."""
    fake = scene.mini()
    weir = transactions(scene, fake, allow="shutdown_timeout")
    client = weir.client()
    if asks:
        client.query("begin")
    weir.admin("SHUTDOWN " + how)
    weir.barrier()
    assert weir.is_alive()
    weir.admin("SET shutdown_timeout = 1")
    assert m.read_error(client.drain()[-1].body)["M"] == "pooler is shutting down"
    assert weir.wait_exit() == 0
    assert "shutdown_timeout: the shutdown waits for 1 %s no longer" % how[9:].lower() in weir.log()
