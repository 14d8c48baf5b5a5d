"""How many server connections there may be: pool sizes, the reserve, limits per database and per user, eviction."""
import pytest

from support.live import NEVER, SOON, ask, hold, let_go, pid_of


def fill(weir, count, database="p0", user="app"):
    """Makes this many clients, each with a server connection."""
    clients = [weir.client(user, database) for _ in range(count)]
    assert len({hold(client) for client in clients}) == count
    return clients


def assert_full(weir, clients, database="p0", user="app"):
    """No client gets another connection of this pool until one of the clients lets go of its own."""
    late = weir.client(user, database)
    ask(late)
    weir.wait_pool(database, user, sv_active=len(clients), cl_waiting=1)
    let_go(clients[0])
    assert late.result().value
    weir.wait_pool(database, user, cl_waiting=0)


# --- pool_size

def test_default_pool_size(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=2)
    assert_full(weir, fill(weir, 2))


def test_pool_size_of_a_database(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", pool_size=3), "p1": postgres}, pool_mode="transaction",
                      default_pool_size=1)
    assert_full(weir, fill(weir, 3))
    assert_full(weir, fill(weir, 1, "p1"), "p1")


def test_pool_size_of_a_user(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", pool_size=1)}, sections={"users": {"rival": "pool_size=2"}},
                      pool_mode="transaction", default_pool_size=5)
    assert_full(weir, fill(weir, 2, user="rival"), user="rival")
    assert_full(weir, fill(weir, 1))


def test_pool_size_0_is_unlimited(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=0)
    fill(weir, 30)
    assert weir.pool("p0")["sv_active"] == 30


def test_pool_size_grows_and_shrinks_at_run_time(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    clients = fill(weir, 1)
    late = weir.client()
    ask(late, "BEGIN")
    weir.wait_pool("p0", cl_waiting=1)
    weir.admin("SET default_pool_size = 3")
    assert late.result().tags == ["BEGIN"]
    clients += [late] + fill(weir, 1)
    weir.admin("SET default_pool_size = 1")
    for client in clients:
        let_go(client)
    weir.wait_log("too many servers in the pool", times=2)
    weir.wait_pool("p0", sv_idle=1, sv_active=0)


# --- min_pool_size

def test_min_pool_size(scene, postgres):
    weir = scene.weir({"p0": postgres, "p1": postgres.target("p1", min_pool_size=2)}, pool_mode="transaction",
                      min_pool_size=3, server_check_delay=NEVER)
    weir.client()
    weir.client(database="p1")
    weir.wait_pool("p0", sv_idle=3)
    weir.wait_pool("p1", sv_idle=2)


def test_min_pool_size_is_restored(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", min_pool_size=2)
    client = weir.client()
    weir.wait_pool("p0", sv_idle=2)
    before = {row["remote_pid"] for row in weir.show("SERVERS")}
    victim = hold(client)
    postgres.execute("SELECT pg_terminate_backend(%s)", (victim,))
    weir.wait_log("closing because: server conn crashed")
    rival = weir.client()
    weir.wait_pool("p0", sv_idle=2)
    after = {row["remote_pid"] for row in weir.show("SERVERS")}
    assert before - after == {victim}
    assert rival.query("SELECT 1").value == "1"


def test_min_pool_size_with_a_forced_user_needs_no_client(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", user="app")}, pool_mode="transaction", min_pool_size=2)
    weir.wait_pool("p0", sv_idle=2)


def test_min_pool_size_without_clients_is_not_kept(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", min_pool_size=2, server_idle_timeout=SOON)
    client = weir.client()
    weir.wait_pool("p0", sv_idle=2)
    client.quit()
    weir.wait_log("closing because: server idle timeout", times=2)
    weir.wait_pool("p0", sv_idle=0)


def test_min_pool_size_is_no_more_than_pool_size(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", min_pool_size=5, default_pool_size=2)
    client = weir.client()
    weir.wait_pool("p0", sv_idle=2)
    weir.admin("SET min_pool_size = 1")
    hold(client)
    assert weir.pool("p0")["sv_active"] + weir.pool("p0")["sv_idle"] == 2


# --- the reserve

@pytest.mark.parametrize("place", ["global", "database", "database alias", "user"])
def test_reserve_pool(scene, postgres, place):
    keys = {"database": {"reserve_pool_size": 1}, "database alias": {"reserve_pool": 1}}.get(place, {})
    weir = scene.weir({"p0": postgres.target("p0", **keys)}, pool_mode="transaction", default_pool_size=1,
                      sections={"users": {"app": "reserve_pool_size=1"}} if place == "user" else None,
                      reserve_pool_size=1 if place == "global" else None, reserve_pool_timeout=SOON)
    first, second, third = (weir.client() for _ in range(3))
    pid = hold(first)
    assert hold(second) != pid
    weir.wait_log("taking connection from reserve_pool")
    ask(third)
    weir.wait_pool("p0", sv_active=2, cl_waiting=1)
    let_go(first)
    assert third.result().value == str(pid)


def test_reserve_pool_timeout(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, reserve_pool_size=1,
                      reserve_pool_timeout=NEVER)
    holder, late = weir.client(), weir.client()
    hold(holder)
    ask(late)
    weir.wait_pool("p0", sv_active=1, cl_waiting=1)
    weir.admin("SET reserve_pool_timeout = 0.1")
    assert late.result().value
    weir.wait_log("taking connection from reserve_pool")


def test_reserve_timeout_without_a_reserve_has_no_effect(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, reserve_pool_timeout=0,
                      query_wait_timeout=SOON)
    hold(weir.client())
    late = weir.client()
    ask(late)
    late.expect("E")
    assert "reserve_pool" not in weir.log()


# --- limits of server connections over several pools

@pytest.mark.parametrize("place", ["global", "database"])
def test_max_db_connections(scene, postgres, place):
    key = {"max_db_connections": 2} if place == "database" else {}
    weir = scene.weir({"p0": postgres.target("p0", **key), "p1": postgres}, pool_mode="transaction",
                      max_db_connections=2 if place == "global" else None)
    (first,), (_,) = fill(weir, 1), fill(weir, 1, user="rival")
    late = weir.client(user="rival")
    ask(late)
    weir.wait_pool("p0", user="rival", sv_active=1, cl_waiting=1)
    fill(weir, 2 if place == "global" else 3, "p1")
    let_go(first)
    assert late.result().value
    weir.wait_log("closing because: evicted")


@pytest.mark.parametrize("place", ["global", "user"])
def test_max_user_connections(scene, postgres, place):
    weir = scene.weir({"p0": postgres, "p1": postgres}, pool_mode="transaction",
                      sections={"users": {"app": "max_user_connections=2"}} if place == "user" else None,
                      max_user_connections=2 if place == "global" else None)
    (first,), (_,) = fill(weir, 1), fill(weir, 1, "p1")
    late = weir.client(database="p1")
    ask(late)
    weir.wait_pool("p1", sv_active=1, cl_waiting=1)
    fill(weir, 2 if place == "global" else 3, user="rival")
    let_go(first)
    assert late.result().value
    weir.wait_log("closing because: evicted")


def test_limit_0_is_unlimited(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", max_db_connections=0)}, pool_mode="transaction",
                      sections={"users": {"app": "max_user_connections=0"}}, max_db_connections=1,
                      max_user_connections=1)
    fill(weir, 3)


def test_eviction_takes_the_longest_idle_server(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", max_db_connections=3)
    clients = fill(weir, 2)
    (other,) = fill(weir, 1, user="rival")
    pids = [pid_of(client) for client in clients]
    let_go(clients[1])
    let_go(clients[0])
    weir.wait_pool("p0", sv_idle=2)
    late = weir.client("rival")
    pid = hold(late)
    assert pid not in pids
    weir.wait_log("closing because: evicted")
    assert weir.log().count("closing because: evicted") == 1
    assert pid_of(weir.client()) == pids[0]
    let_go(other)


def test_busy_servers_are_not_evicted(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", max_db_connections=1)
    late, holder = weir.client("rival"), weir.client()
    hold(holder)
    ask(late)
    weir.wait_pool("p0", "rival", cl_waiting=1)
    assert holder.query("SELECT 1").value == "1"
    let_go(holder)
    assert late.result().value


# --- limits of clients

def test_max_client_conn(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", max_client_conn=2)
    first, _ = weir.client(), weir.client()
    fields = weir.connect().refused(user="app", database="p0")
    assert (fields["M"], fields["C"]) == ("no more connections allowed (max_client_conn)", "53300")
    assert weir.show("VERSION")
    first.quit()
    weir.wait_log("client close request")
    weir.admin("SET max_client_conn = 3")
    assert pid_of(weir.client())


@pytest.mark.parametrize("place", ["global", "database"])
def test_max_db_client_connections(scene, postgres, place):
    key = {"max_db_client_connections": 2} if place == "database" else {}
    weir = scene.weir({"p0": postgres.target("p0", **key), "p1": postgres}, pool_mode="transaction",
                      max_db_client_connections=2 if place == "global" else None)
    first, _ = weir.client(), weir.client("rival")
    fields = weir.connect().refused(user="app", database="p0")
    assert (fields["M"], fields["C"]) == ("client connections exceeded (max_db_client_connections)", "53300")
    weir.client(database="p1")
    first.quit()
    weir.wait_log("client close request")
    assert pid_of(weir.client())


@pytest.mark.parametrize("place", ["global", "user"])
def test_max_user_client_connections(scene, postgres, place):
    weir = scene.weir({"p0": postgres, "p1": postgres}, pool_mode="transaction",
                      sections={"users": {"app": "max_user_client_connections=2"}} if place == "user" else None,
                      max_user_client_connections=2 if place == "global" else None)
    first, _ = weir.client(), weir.client(database="p1")
    fields = weir.connect().refused(user="app", database="p0")
    assert (fields["M"], fields["C"]) == ("client connections exceeded (max_user_client_connections)", "53300")
    weir.client("rival")
    first.quit()
    weir.wait_log("client close request")
    assert pid_of(weir.client())
