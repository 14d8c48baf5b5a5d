"""Entries of [databases]: the fallback, forced users, connect_query, hosts, and idle timeouts."""
import pytest

from support.live import NEVER, SOON, hold, let_go, pid_of
from support.log_words import logs_event
from support.until import until


def names(weir):
    return {row["name"] for row in weir.show("DATABASES")}


def test_fallback_database(scene, postgres):
    weir = scene.weir({"*": postgres}, pool_mode="transaction")
    for database in ("p0", "p1"):
        client = weir.client(database=database)
        assert client.query("SELECT current_database()").value == database
        weir.wait_log("registered new auto-database: %s$" % database)
    assert {"p0", "p1"} <= names(weir)


def test_fallback_database_that_the_server_does_not_have(scene, postgres):
    weir = scene.weir({"*": postgres})
    assert weir.connect().refused(user="app", database="nosuch")["M"] == 'database "nosuch" does not exist'


@pytest.mark.parametrize("down", ["wait", "fail"])
def test_a_mistyped_database_is_told_each_time(scene, postgres, down):
    """With the entry * only the server knows its databases. A later client gets the error as the first one does: not a cached one, and at once."""
    weir = scene.weir({"*": postgres}, auth_type="scram-sha-256", server_down=down, server_login_retry=NEVER, query_wait_timeout=NEVER, verbose=2)
    for _ in range(3):
        error = weir.connect().refused(user="app", database="typo", password="app-secret")
        assert (error["C"], error["M"]) == ("3D000", 'database "typo" does not exist')
    assert weir.connect().refused(user="app", database="typo", password="wrong")["C"] == "28P01"
    assert weir.log().count("new connection to server") == 3


def test_a_database_that_is_created_after_a_refusal(scene, postgres):
    weir = scene.weir({"*": postgres}, server_login_retry=NEVER)
    assert weir.connect().refused(user="app", database="later")["C"] == "3D000"
    postgres.execute("CREATE DATABASE later")
    try:
        assert weir.client(database="later").query("SELECT current_database()").value == "later"
    finally:
        weir.stop()
        postgres.execute("DROP DATABASE later")


def test_named_entry_wins_over_the_fallback(scene, postgres):
    weir = scene.weir({"*": postgres, "mine": postgres.target("p2")})
    assert weir.client(database="mine").query("SELECT current_database()").value == "p2"
    assert "auto-database" not in weir.log()


def test_autodb_idle_timeout(scene, postgres):
    weir = scene.weir({"*": postgres}, pool_mode="transaction", autodb_idle_timeout=SOON,
                      server_idle_timeout=SOON)
    client, stays = weir.client(database="p0"), weir.client(database="p1")
    pid_of(client)
    client.quit()
    until(lambda: "p0" not in names(weir), "the idle database is forgotten")
    assert "p1" in names(weir)
    assert pid_of(stays)
    assert pid_of(weir.client(database="p0"))


def test_autodb_idle_timeout_0_keeps_it(scene, postgres):
    weir = scene.weir({"*": postgres, "own": postgres.target("p1")}, pool_mode="transaction", autodb_idle_timeout=0,
                      server_idle_timeout=SOON, pool_idle_timeout=SOON)
    weir.client(database="p0").quit()
    until(lambda: not any(row["database"] == "p0" for row in weir.show("POOLS")), "the pool is gone")
    assert "p0" in names(weir)


def test_pool_idle_timeout(scene, postgres):
    weir = scene.weir({"p0": postgres, "p1": postgres}, pool_mode="transaction", pool_idle_timeout=SOON,
                      server_idle_timeout=SOON)
    client, stays = weir.client(), weir.client(database="p1")
    pid_of(client)
    client.quit()
    logs_event(weir, "pool that goes")
    assert {row["database"] for row in weir.show("POOLS")} == {"p1", "pgbouncer"}
    assert pid_of(stays) and pid_of(weir.client())


def test_pool_idle_timeout_0_keeps_it(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_idle_timeout=0, server_idle_timeout=SOON)
    weir.client().quit()
    weir.wait_log("closing because: server idle timeout")
    assert any(row["database"] == "p0" for row in weir.show("POOLS"))


def test_forced_user_has_one_pool_for_all(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", user="app", password="app-secret")}, pool_mode="transaction",
                      default_pool_size=1)
    first, second = weir.client("rival"), weir.client("stats")
    assert first.query("SELECT current_user").value == "app"
    assert pid_of(first) == pid_of(second)
    assert [row["user"] for row in weir.show("POOLS") if row["database"] == "p0"] == ["app"]


def test_connect_query_runs_once_after_a_server_login(scene, postgres):
    postgres.execute("CREATE TABLE logins (pid int); GRANT ALL ON logins TO app", database="p3")
    try:
        weir = scene.weir({"p3": postgres.target("p3", connect_query="'INSERT INTO logins SELECT pg_backend_pid()'")},
                          pool_mode="transaction")
        client = weir.client(database="p3")
        pid = pid_of(client)
        assert pid_of(client) == pid
        assert postgres.execute("SELECT pid FROM logins", database="p3") == [(pid,)]
        weir.stop()
    finally:
        postgres.execute("DROP TABLE logins", database="p3")


def test_connect_query_that_fails_is_logged(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", connect_query="'SELECT 1/0'")})
    assert pid_of(weir.client())
    weir.wait_log("connect_query.*division by zero")


@pytest.mark.parametrize("key, value, query", [
    ("client_encoding", "LATIN1", "SHOW client_encoding"), ("datestyle", "'SQL, DMY'", "SHOW datestyle"),
    ("timezone", "Asia/Tokyo", "SHOW timezone"), ("application_name", "weir", "SHOW application_name")])
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_parameters_of_a_database(scene, postgres, key, value, query, mode):
    weir = scene.weir({"p0": postgres.target("p0", **{key: value})}, pool_mode=mode)
    assert weir.client().query(query).value == value.strip("'")


def test_parameter_of_the_client_wins_over_the_database(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", timezone="Asia/Tokyo")}, pool_mode="transaction")
    assert weir.client(TimeZone="Europe/Paris").query("SHOW timezone").value == "Europe/Paris"
    assert weir.client().query("SHOW timezone").value == "Asia/Tokyo"


def test_over_the_unix_socket_of_the_server(scene, postgres):
    weir = scene.weir({"p0": "host=%s port=%d" % (postgres.directory, postgres.port)})
    client = weir.client()
    assert client.query("SELECT inet_server_addr() IS NULL").value == "t"


def where(client):
    """tcp or unix: which of the two hosts this client is on."""
    return client.query("SELECT CASE WHEN inet_server_addr() IS NULL THEN 'unix' ELSE 'tcp' END").value


def test_load_balance_hosts_round_robin(scene, postgres):
    weir = scene.weir({"p0": "host=%s,127.0.0.1 port=%d" % (postgres.directory, postgres.port)},
                      pool_mode="transaction")
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        hold(client)
    assert sorted(where(client) for client in clients) == ["tcp", "tcp", "unix", "unix"]


def test_load_balance_hosts_disable(scene, postgres):
    weir = scene.weir({"p0": "host=%s,127.0.0.1 port=%d load_balance_hosts=disable"
                       % (postgres.directory, postgres.port)}, pool_mode="transaction")
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        hold(client)
    assert [where(client) for client in clients] == ["unix"] * 4


@pytest.mark.parametrize("balance", ["round-robin", "disable"])
def test_host_that_is_down_is_skipped(scene, postgres, balance):
    weir = scene.weir({"p0": "host=%s/nowhere,127.0.0.1 port=%d load_balance_hosts=%s"
                       % (scene.directory, postgres.port, balance)}, pool_mode="transaction", server_login_retry=SOON)
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        hold(client)
    assert [where(client) for client in clients] == ["tcp"] * 3
    for client in clients:
        let_go(client)


def test_changed_entry_retires_the_old_connections(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0")}, pool_mode="transaction", server_idle_timeout=NEVER)
    busy, idle = weir.client(), weir.client()
    old = hold(busy)
    pid_of(idle)
    weir.databases["p0"] = postgres.target("p1")
    weir.write_ini()
    weir.admin("RELOAD")
    assert busy.query("SELECT current_database()").value == "p0"
    assert idle.query("SELECT current_database()").value == "p1"
    let_go(busy)
    assert busy.query("SELECT current_database()").value == "p1"
    assert pid_of(busy) != old
