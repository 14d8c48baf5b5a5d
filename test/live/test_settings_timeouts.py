"""
Everything that takes too long. Each timeout is shown twice: it ends the client that it is set for, and 0 or a value of its
own spares another client in the same position at the same time.
"""
import pytest

from support import messages as m
from support.live import NEVER, SOON, ask, ask_long, ended_with, hold, let_go, pid_of
from support.until import until


def in_a_long_query(client):
    ask_long(client)


def in_an_idle_transaction(client):
    hold(client)


def idle(client):
    pid_of(client)


CASES = [
    ("query_timeout", in_a_long_query, "query timeout"),
    ("idle_transaction_timeout", in_an_idle_transaction, "idle transaction timeout"),
    ("transaction_timeout", in_an_idle_transaction, "transaction timeout"),
    ("transaction_timeout", in_a_long_query, None),
    ("client_idle_timeout", idle, "client_idle_timeout"),
]


def is_unharmed(weir, client, begin):
    if begin is in_a_long_query:
        with weir.cancel(client):
            return client.result().errors[0]["C"] == "57014"
    return client.query("SELECT 1").value == "1"


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("setting, begin, text", [case for case in CASES if case[2]])
def test_global(scene, postgres, mode, setting, begin, text):
    weir = scene.weir({"p0": postgres}, sections={"users": {"rival": setting + "=0"}}, pool_mode=mode,
                      **{setting: SOON})
    spared, struck = weir.client("rival"), weir.client()
    begin(spared)
    begin(struck)
    ended_with(struck, text)
    weir.wait_log("C-.*p0/app.* closing because: " + text)
    assert is_unharmed(weir, spared, begin)


@pytest.mark.parametrize("setting, begin, text", [case for case in CASES if case[2]])
def test_of_a_user(scene, postgres, setting, begin, text):
    weir = scene.weir({"p0": postgres}, sections={"users": {"app": "%s=%s" % (setting, SOON)}},
                      pool_mode="transaction", **{setting: 0})
    spared, struck = weir.client("rival"), weir.client()
    begin(spared)
    begin(struck)
    ended_with(struck, text)
    assert is_unharmed(weir, spared, begin)


@pytest.mark.parametrize("setting, begin", [
    ("query_timeout", in_an_idle_transaction), ("query_timeout", idle),
    ("idle_transaction_timeout", in_a_long_query), ("idle_transaction_timeout", idle),
    ("transaction_timeout", idle),
    ("client_idle_timeout", in_a_long_query), ("client_idle_timeout", in_an_idle_transaction)])
def test_each_timeout_counts_its_own_time_only(scene, postgres, setting, begin):
    """Trap 85: the query timeout counted idle time, the idle timeout counted the time of a query."""
    strike = next(case for case in CASES if case[0] == setting)
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", **{setting: SOON})
    spared, struck = weir.client(), weir.client()
    begin(spared)
    if setting == "client_idle_timeout":
        begin(struck)
        if begin is in_a_long_query:
            with weir.cancel(struck):
                struck.result()
        else:
            let_go(struck)
    else:
        strike[1](struck)
    ended_with(struck, strike[2])
    assert is_unharmed(weir, spared, begin)


def test_transaction_timeout_also_ends_a_running_query(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", transaction_timeout=SOON)
    client = weir.client()
    hold(client)
    in_a_long_query(client)
    ended_with(client, "transaction timeout")


def test_backend_of_a_timed_out_query_is_not_reused(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", query_timeout=SOON, default_pool_size=1)
    client = weir.client()
    pid = pid_of(client)
    in_a_long_query(client)
    ended_with(client, "query timeout")
    assert pid_of(weir.client()) != pid


@pytest.mark.parametrize("place", ["global", "database", "user", "unset by -1"])
def test_query_wait_timeout(scene, postgres, place):
    keys = {"query_wait_timeout": SOON} if place == "database" else {}
    users = {"rival": "query_wait_timeout=0"}
    if place == "user":
        users["app"] = "query_wait_timeout=%s" % SOON
    elif place == "unset by -1":
        keys, users["app"] = {"query_wait_timeout": -1, "pool_size": -1}, "query_wait_timeout=-1"
    weir = scene.weir({"p0": postgres.target("p0", user="app", **keys)}, sections={"users": users},
                      pool_mode="transaction", default_pool_size=1,
                      query_wait_timeout=SOON if place in ("global", "unset by -1") else NEVER)
    holder, spared, struck = weir.client(), weir.client("rival"), weir.client()
    hold(holder)
    ask(spared)
    ask(struck)
    ended_with(struck, "query_wait_timeout")
    weir.wait_log("closing because: query_wait_timeout")
    let_go(holder)
    assert spared.result().value


def test_query_wait_timeout_does_not_count_a_pause(scene, postgres):
    weir = scene.weir({"p0": postgres, "p1": postgres}, pool_mode="transaction", query_wait_timeout=SOON,
                      default_pool_size=1)
    client, holder, struck = weir.client(), weir.client(database="p1"), weir.client(database="p1")
    weir.admin("PAUSE p0")
    ask(client)
    hold(holder)
    ask(struck)
    ended_with(struck, "query_wait_timeout")
    weir.admin("RESUME p0")
    assert client.result().value


def test_client_login_timeout(scene, postgres):
    weir = scene.weir({"p0": postgres}, client_login_timeout=SOON, tcp_defer_accept=0)
    silent = weir.connect()
    ended_with(silent, "client_login_timeout")
    halfway = weir.connect()
    halfway.send(m.startup(user="app", database="p0")[:20])
    ended_with(halfway, "client_login_timeout")
    weir.admin("SET client_login_timeout = %d" % NEVER)
    assert pid_of(weir.client())


def test_client_login_timeout_while_asked_for_a_password(scene, postgres):
    weir = scene.weir({"p0": postgres}, client_login_timeout=SOON, auth_type="md5")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.expect("R")
    ended_with(client, "client_login_timeout")


def test_client_login_timeout_with_the_server_down(scene):
    fake = scene.fake(login=lambda session: session.read())
    weir = scene.weir(fake, client_login_timeout=SOON, server_connect_timeout=NEVER)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    ended_with(client, "client_login_timeout (server down)")


def test_client_login_timeout_0_is_unlimited(scene, postgres):
    weir = scene.weir({"p0": postgres}, client_login_timeout=0, tcp_defer_accept=0, client_idle_timeout=SOON)
    silent, struck = weir.connect(), weir.client()
    ended_with(struck, "client_idle_timeout")
    silent.login(user="app", database="p0")
    assert pid_of(silent)


def test_client_login_timeout_ends_with_the_login(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", client_login_timeout=NEVER, tcp_defer_accept=0)
    client = weir.client()
    weir.admin("SET client_login_timeout = %s" % SOON)
    silent = weir.connect()
    ended_with(silent, "client_login_timeout")
    assert pid_of(client)


def test_suspend_timeout(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", suspend_timeout=SOON)
    deaf, other = weir.client(receive_buffer=4096), weir.client()
    pid_of(other)
    ask(deaf, "SELECT repeat('x', 100000000)")
    until(lambda: any(row["send_avail"] for row in weir.show("SOCKETS") if row["database"] == "p0"),
          "the result waits for a client that does not read it")
    weir.admin("SUSPEND")
    weir.wait_log("closing because: suspend_timeout")
    weir.admin("RESUME")
    assert pid_of(other)


def test_statement_timeout_of_the_server(scene, postgres):
    """A timeout of PostgreSQL itself does not affect the connection."""
    weir = scene.weir({"p0": postgres}, pool_mode="session", query_timeout=NEVER)
    client = weir.client()
    pid = pid_of(client)
    client.query("SET statement_timeout = 100")
    assert client.query("SELECT pg_sleep(3600)").errors[0]["C"] == "57014"
    assert pid_of(client) == pid
