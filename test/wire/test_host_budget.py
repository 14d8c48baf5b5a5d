"""
max_host_connections: pools share the server connections of a host. A pool without room waits, gets an idle server of another pool, or a busy one at
its release; the number of connections at the host is never exceeded.
"""
import threading

import pytest

from support import messages as m
from support.live import NEVER, SOON, last_words
from support.takeover import Replaced
from support.until import until
from support.wire import Closed


def start(scene, budget, databases, **settings):
    """weir.late has an idle client of each database: the first login of a pool needs a server."""
    settings = {"pool_mode": "transaction", "max_host_connections": budget, "server_idle_timeout": NEVER, "show_extra_columns": 1, **settings}
    weir = scene.weir(databases, **settings)
    weir.late = {}
    for name in databases:
        weir.late[name] = weir.client(database=name)
        weir.admin("RECONNECT")
    return weir


def begin(weir, database, count=1):
    """Clients, each in a transaction."""
    clients = [weir.client(database=database) for _ in range(count)]
    for client in clients:
        assert client.query("BEGIN").status == "T"
    return clients


def ask(weir, database, text="hello"):
    """A client with a query that waits."""
    weir.late[database].send(m.query(text))
    weir.wait_pool(database, cl_waiting=1, held_by="max_host_connections")
    return weir.late[database]


def at_host(weir):
    (row,) = weir.show("HOSTS")
    return row


@pytest.fixture
def mini(scene):
    return scene.mini()


@pytest.fixture
def two(scene, mini):
    return start(scene, 2, {"p0": mini, "p1": mini})


def test_pool_waits_for_a_server_of_another_pool(mini, two):
    first, second = begin(two, "p0", 2)
    waiting = ask(two, "p1")
    row = at_host(two)
    assert row["host"] == "127.0.0.1:%d" % mini.port
    assert (row["connections"], row["max_connections"], row["pools"], row["waiting_pools"], row["unreachable"]) == (2, 2, 2, 1, 0)
    assert two.pool("p0")["host_share"] == 1 and two.pool("p1")["host_share"] == 1
    first.quit()
    assert waiting.result().value == "hello"
    assert at_host(two)["connections"] == 2 and second.query("still").status == "T"


def test_idle_server_is_evicted(mini, two):
    for client in begin(two, "p0", 2):
        client.query("COMMIT")
    started = len(mini.started)
    assert two.late["p1"].query("hello").value == "hello"
    two.wait_log("closing because: evicted")
    assert at_host(two)["connections"] == 2 and len(mini.started) == started + 1


def test_busy_server_is_given_up_when_it_is_released(mini, two):
    first, second = begin(two, "p0", 2)
    waiting = ask(two, "p1")
    assert first.query("COMMIT").status == "I"
    two.wait_log("closing because: evicted")
    assert waiting.result().value == "hello"
    # the client of the closed server goes on, with the server that is left
    first.send(m.query("next"))
    two.wait_pool("p0", cl_waiting=1)
    second.query("COMMIT")
    assert first.result().value == "next"


def test_session_keeps_its_server_until_its_end(scene, mini):
    weir = start(scene, 2, {"p0": mini, "p1": mini}, pool_mode="session", server_fast_close=1)
    first, second = weir.client(), weir.client()
    first.query("one")
    second.query("two")
    waiting = ask(weir, "p1")
    assert first.query("three").value == "three" and second.query("four").value == "four"
    first.quit()
    assert waiting.result().value == "hello"
    assert at_host(weir)["connections"] == 2


def test_pools_take_turns(scene, mini):
    """Three pools have clients that always wait, and one server: each pool has the server for many queries."""
    names = ("p0", "p1", "p2")
    weir = start(scene, 1, {name: mini for name in names})
    started = len(mini.started)
    for client in weir.late.values():
        client.send(m.query("go"))
    for turn, name in enumerate((*names, "p0"), 1):
        answers = 0
        while weir.log().count("closing because: evicted") < turn:
            assert weir.late[name].result().value == "go"
            answers += 1
            weir.barrier()
            weir.late[name].send(m.query("go"))
        assert answers > 1
    until(lambda: len(mini.started) == started + 5, "a new server for each turn")


def test_invented_databases_do_not_starve_a_pool(scene):
    """With "*" clients choose the names: names that no server has admitted take one server of four, which no client was about to use."""
    released = threading.Event()
    fake = scene.mini()

    def login(session):
        if session.startup["database"].startswith("x"):
            released.wait()
            session.send(m.error('database "%s" does not exist' % session.startup["database"], "3D000", "FATAL"))
            raise Closed("refused")
        session.welcome()

    fake.login = login
    weir = start(scene, 4, {"*": "host=127.0.0.1 port=%d" % fake.port, "p0": fake}, server_idle_timeout=NEVER)
    clients = begin(weir, "p0", 4)
    invented = [weir.connect() for _ in range(20)]
    for number, client in enumerate(invented):
        client.send(m.startup(user="app", database="x%d" % number))
    until(lambda: at_host(weir)["waiting_pools"] == 20, "they wait")
    for client in clients:
        assert client.query("COMMIT").status == "I"
    weir.barrier()
    # more queries than turns of half a second last
    until(lambda: [client.query("more").value for client in clients] and at_host(weir)["trials"] == 1, "one of them has its turn")
    for _ in range(20):
        assert [client.query("more").value for client in clients] == ["more"] * 4
        assert at_host(weir)["trials"] <= 1 and weir.pool("p0")["sv_active"] + weir.pool("p0")["sv_idle"] + weir.pool("p0")["sv_login"] >= 3
    released.set()
    for client in invented:
        assert last_words(client)["C"] == "3D000"
    assert [client.query("more").value for client in clients] == ["more"] * 4


def test_list_skips_a_full_host(scene):
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    port = fakes[0].port
    weir = start(scene, 1, {"p0": "host=127.0.0.2 port=%d" % port, "p1": "host=127.0.0.2,127.0.0.3 port=%d load_balance_hosts=disable" % port})
    begin(weir, "p0")
    (holder,) = begin(weir, "p1")
    assert {row["host"]: row["connections"] for row in weir.show("HOSTS")} == {"127.0.0.2:%d" % port: 1, "127.0.0.3:%d" % port: 1}
    # both are full
    waiting = ask(weir, "p1")
    holder.quit()
    assert waiting.result().value == "hello"


def test_host_that_is_down_makes_no_room(scene):
    """A client waits for the host that works: the failure of the other host is no failed login of the pool."""
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    port = fakes[0].port
    weir = start(scene, 1, {"p0": "host=127.0.0.2 port=%d" % port, "p1": "host=127.0.0.2,127.0.0.3 port=%d load_balance_hosts=disable" % port})
    (holder,) = begin(weir, "p0")
    fakes[1].stop()
    waiting = ask(weir, "p1")
    weir.wait_log(r"closing because: hosts are full \(max_host_connections\)")
    assert weir.pool("p1")["login_error"] is None
    assert {row["host"]: row["unreachable"] for row in weir.show("HOSTS")} == {"127.0.0.2:%d" % port: 0, "127.0.0.3:%d" % port: 1}
    holder.quit()
    assert waiting.result().value == "hello"


def test_cancel_request_is_not_limited(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", max_host_connections=1)
    client = weir.client()
    client.send(m.query("long"))
    server = fake.accept()
    server.expect_query("long")
    weir.cancel(client)
    fake.next_cancel()
    server.answer("done")
    assert client.result().value == "done"


def test_waiting_client_gets_the_limit_and_its_holders(scene, mini):
    weir = start(scene, 3, {"p0": mini, "p1": mini, "p2": mini}, query_wait_timeout=SOON)
    begin(weir, "p0", 2)
    begin(weir, "p1")
    words = "the host 127.0.0.1:%d has 3 of 3 server connections (max_host_connections): 2 of p0/app, 1 of p1/app; the longest in use: " % mini.port
    # the first login of a pool waits as well
    for refused in (last_words(ask(weir, "p2")), weir.connect().refused(user="rival", database="p2")):
        assert (refused["M"], refused["H"]) == ("query_wait_timeout", "End long transactions, or raise max_host_connections.")
        assert refused["D"].startswith(words)


def test_reload_changes_the_budget(mini, two):
    first, second = begin(two, "p0", 2)
    waiting = ask(two, "p1")
    two.settings["max_host_connections"] = 3
    two.write_ini()
    two.admin("RELOAD")
    assert waiting.result().value == "hello"
    assert at_host(two)["connections"] == 3
    two.settings["max_host_connections"] = 1
    two.write_ini()
    two.admin("RELOAD")
    # the idle server at once, busy servers at their release
    until(lambda: at_host(two)["connections"] == 2, "the idle server is closed")
    assert first.query("COMMIT").status == "I"
    until(lambda: at_host(two)["connections"] == 1, "the released server is closed")
    assert second.query("still").status == "T"
    two.admin("SET max_host_connections = 0")
    assert [client.query("more").value for client in (first, waiting)] == ["more", "more"]


def test_servers_count_after_an_online_restart(scene, mini):
    weir = start(scene, 2, {"p0": mini, "p1": mini}, kind=Replaced)
    first, second = begin(weir, "p0", 2)
    waiting = ask(weir, "p1")
    weir.replace()
    assert at_host(weir)["connections"] == 2
    weir.wait_pool("p1", cl_waiting=1, held_by="max_host_connections")
    assert second.query("still").status == "T"
    first.query("COMMIT")
    assert waiting.result().value == "hello"
    assert at_host(weir)["connections"] == 2


def test_min_pool_size_takes_no_server_from_others(scene, mini):
    target = "host=127.0.0.1 port=%d user=app min_pool_size=2" % mini.port
    weir = scene.weir({"p0": target, "p1": target}, max_host_connections=3, server_idle_timeout=NEVER, log_stats=1, stats_period=1)
    until(lambda: len(mini.started) == 3, "as many servers as the host may have")
    # a line for each second in which they might have changed
    weir.wait_log(" stats: ", 2)
    assert len(mini.started) == 3 and "closing because" not in weir.log()
