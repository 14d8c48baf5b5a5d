"""The life of server connections: lifetime, queries before and after a use, and retries of server logins."""
import pytest

from support.live import NEVER, SOON, ended_with, hold, let_go, pid_of
from support.until import until
from support.wire import LoginRefused


# --- how long

def test_server_lifetime(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_lifetime=SOON)
    client = weir.client()
    pid = pid_of(client)
    weir.wait_log("closing because: server lifetime over")
    assert pid_of(client) != pid


def test_server_lifetime_spares_busy_servers(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_lifetime=SOON, default_pool_size=2)
    busy, idle = weir.client(), weir.client()
    pid = hold(busy)
    other = pid_of(idle)
    weir.wait_log("closing because: server lifetime over")
    assert pid_of(busy) == pid
    let_go(busy)
    weir.wait_log("closing because: server lifetime over", times=2)
    assert pid_of(busy) not in (pid, other)


def test_server_lifetime_0_uses_each_connection_once(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_lifetime=0, default_pool_size=1)
    client = weir.client()
    assert len({pid_of(client) for _ in range(5)}) == 5
    assert hold(client) == pid_of(client)


def test_server_lifetime_0_in_session_mode(scene, postgres):
    weir = scene.weir({"p0": postgres}, server_lifetime=0, default_pool_size=1)
    pids = set()
    for _ in range(3):
        client = weir.client()
        pid = pid_of(client)
        assert pid_of(client) == pid
        pids.add(pid)
        client.quit()
    assert len(pids) == 3


def test_server_lifetime_of_a_database(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", server_lifetime=0), "p1": postgres}, pool_mode="transaction",
                      server_lifetime=NEVER)
    client, other = weir.client(), weir.client(database="p1")
    assert pid_of(client) != pid_of(client)
    assert pid_of(other) == pid_of(other)


def test_server_idle_timeout(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_idle_timeout=0)
    client = weir.client()
    pid = pid_of(client)
    assert pid_of(client) == pid
    weir.admin("SET server_idle_timeout = 0.1")
    weir.wait_log("closing because: server idle timeout")
    weir.wait_pool("p0", sv_idle=0)
    until(lambda: pid not in postgres.backends("p0"), "the backend is gone")
    assert pid_of(client) != pid


# --- check query

@pytest.fixture
def checks(postgres):
    """A sequence that counts, and the function that reads it."""
    postgres.execute("CREATE SEQUENCE checks MINVALUE 0 START 1; GRANT ALL ON checks TO app", database="p3")
    yield lambda: postgres.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM checks",
                                   database="p3")[0][0]
    postgres.execute("DROP SEQUENCE checks", database="p3")


def test_server_check_query(scene, postgres, checks):
    weir = scene.weir({"p3": postgres}, pool_mode="transaction", server_check_delay=0,
                      server_check_query="SELECT nextval('checks')")
    client = weir.client(database="p3")
    pid, before = pid_of(client), checks()
    for count in range(1, 4):
        weir.wait_pool("p3", sv_used=1)
        assert pid_of(client) == pid
        assert checks() == before + count
    weir.stop()


def test_server_check_delay(scene, postgres, checks):
    weir = scene.weir({"p3": postgres}, pool_mode="transaction", server_check_delay=NEVER,
                      server_check_query="SELECT nextval('checks')")
    client = weir.client(database="p3")
    for _ in range(3):
        pid_of(client)
    assert weir.pool("p3")["sv_idle"] == 1 and checks() == 0
    weir.admin("SET server_check_delay = 0.1")
    weir.wait_pool("p3", sv_used=1)
    pid_of(client)
    assert checks() == 1
    weir.stop()


def test_failing_check_query_replaces_the_connection(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_check_delay=NEVER, default_pool_size=1)
    client = weir.client()
    pid = pid_of(client)
    weir.admin("SET server_check_query = 'SELECT 1/(pg_backend_pid() - %d)'" % pid)
    weir.admin("SET server_check_delay = 0")
    weir.wait_pool("p0", sv_used=1)
    assert pid_of(client) != pid
    weir.wait_log("server_check_query failed: ERROR division by zero")
    weir.wait_log("closing because: test query failed")


@pytest.mark.parametrize("query", ["<empty>", None])
def test_empty_check_query(scene, postgres, heard, query):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_check_delay=0, server_check_query=query)
    client = weir.client()
    client.query("SELECT 1")
    weir.wait_pool("p0", sv_used=1)
    client.query("SELECT 2")
    assert heard()[-3:] == ["SELECT 1", "", "SELECT 2"]


def test_no_check_query(scene, postgres, heard):
    weir = scene.weir({"p0": postgres}, sections={"users": {"rival": "client_idle_timeout=%s" % SOON}},
                      pool_mode="transaction", server_check_delay=0, server_check_query="")
    client, clock = weir.client(), weir.client("rival")
    client.query("SELECT 1")
    ended_with(clock, "client_idle_timeout")
    client.query("SELECT 2")
    assert heard() == ["SELECT 1", "SELECT 2"]


def test_dead_connection_is_found_by_the_check(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_check_delay=0)
    client = weir.client()
    pid = pid_of(client)
    weir.wait_pool("p0", sv_used=1)
    postgres.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert pid_of(client) != pid


# --- reset query

def test_server_reset_query_ends_a_session(scene, postgres, heard):
    weir = scene.weir({"p0": postgres}, default_pool_size=1)
    client = weir.client()
    pid = pid_of(client)
    client.query("SET work_mem = '5MB'")
    client.quit()
    client = weir.client()
    assert pid_of(client) == pid
    assert client.query("SHOW work_mem").value == "4MB"
    assert "DISCARD ALL" in heard()


@pytest.mark.parametrize("query", ["SELECT 'own reset'", ""])
def test_another_reset_query_and_none(scene, postgres, heard, query):
    weir = scene.weir({"p0": postgres}, default_pool_size=1, server_reset_query=query)
    client = weir.client()
    client.query("SET work_mem = '5MB'")
    client.quit()
    assert weir.client().query("SHOW work_mem").value == "5MB"
    # a SET that nothing takes back may have been one of the search_path
    assert [sql for sql in heard() if sql != "RESET search_path"] == ["SET work_mem = '5MB'"] + ([query] if query else []) + ["SHOW work_mem"]


def test_no_reset_query_between_transactions(scene, postgres, heard):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    weir.client().query("SELECT 1")
    weir.client().query("SELECT 2")
    assert heard() == ["SELECT 1", "SELECT 2"]


def test_server_reset_query_always(scene, postgres, heard):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, server_reset_query_always=1)
    client = weir.client()
    hold(client)
    let_go(client)
    client.query("SELECT 2")
    assert heard()[:5] == ["BEGIN", "SELECT pg_backend_pid()", "COMMIT", "DISCARD ALL", "SELECT 2"]


def test_failing_reset_query_closes_the_connection(scene, postgres):
    weir = scene.weir({"p0": postgres}, default_pool_size=1, server_reset_query="SELECT 1/0")
    client = weir.client()
    pid = pid_of(client)
    client.quit()
    weir.wait_log("server_reset_query failed: ERROR division by zero")
    weir.wait_log("closing because: reset query failed")
    assert pid_of(weir.client()) != pid


# --- closing and failing

def test_without_server_fast_close_a_session_lasts(scene, postgres):
    weir = scene.weir({"p0": postgres}, server_fast_close=0)
    client = weir.client()
    pid = pid_of(client)
    weir.admin("RECONNECT")
    weir.barrier()
    assert pid_of(client) == pid
    client.quit()
    weir.wait_log("S-.*closing because:")
    assert pid_of(weir.client()) != pid


def test_server_fast_close_ends_a_session_between_transactions(scene, postgres):
    weir = scene.weir({"p0": postgres}, server_fast_close=1)
    client = weir.client()
    pid = hold(client)
    weir.admin("RECONNECT")
    weir.barrier()
    assert pid_of(client) == pid
    let_go(client)
    ended_with(client, "database configuration changed")
    assert pid_of(weir.client()) != pid


def test_server_login_retry(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", user="app", password="wrong")}, server_login_retry=NEVER, server_down="fail")
    said = 'password authentication failed for user "app"'
    assert weir.connect().refused(user="app", database="p0")["M"] == said
    cached = "server login has been failing, cached error: %s (server_login_retry)" % said
    for _ in range(3):
        assert weir.connect().refused(user="app", database="p0")["M"] == cached
    assert weir.log().count("new connection to server") == 1
    weir.databases["p0"] = postgres.target("p0", user="app", password="app-secret")
    weir.settings["server_login_retry"] = 0.1
    weir.write_ini()
    weir.admin("RELOAD")
    until(lambda: can_log_in(weir), "a new attempt succeeds")


def can_log_in(weir):
    client = weir.connect()
    try:
        client.login(user="app", database="p0")
    except LoginRefused:
        return False
    return True


def test_server_connect_timeout(scene):
    fake = scene.fake(login=lambda session: session.read())
    weir = scene.weir(fake, server_connect_timeout=SOON, server_login_retry=NEVER, server_down="fail")
    assert weir.connect().refused(user="app", database="p0")["M"] == "connect timeout"
    weir.wait_log("closing because: connect timeout")
