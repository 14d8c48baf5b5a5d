"""
Readers of standbys: how old their data may be, how they are spread, and hosts that go and return.

Played servers: see support/failover.py for servers that the scene answers for, and support/roles.py for servers that answer by themselves.
"""
import pytest

from support import messages as m
from support.failover import WATCHER, pair, target
from support.live import NEVER, SOON, last_words
from support.roles import Roles
from support.scenes import linked
from support.until import until

FOUR = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")


def step(position, number):
    return "%s/%X" % (position.partition("/")[0], int(position.partition("/")[2], 16) + number)


def asked_again(played, count=2):
    before = played.asked
    until(lambda: played.asked >= before + count, "more questions")


def weir_of(scene, hosts, **more):
    return scene.weir({"p0": target(hosts, **more)}, host_check_user=WATCHER, pool_mode="transaction", server_login_retry=0, host_check_period=0.1)


def reads(weir, played, server=None, database="p0"):
    """A new client reads from this host, on a new connection or on this one."""
    client = weir.client(database=database)
    client.send(m.query("read"))
    server = server or played.accept()
    server.expect_query("read")
    server.answer("x")
    assert client.result().value == "x"
    return server


# --- freshness

def test_standby_that_is_never_at_the_position_of_the_primary(scene):
    """Host trap 62. The positions of two moments always differ: a standby that is a question late is no late standby."""
    first, second = pair(scene)
    weir = weir_of(scene, (first, second), target_session_attrs="prefer-standby", max_lag=3600)
    server = None
    asked_again(first)
    for _ in range(5):
        second.position = first.position
        first.position = step(first.position, 0x100)
        asked_again(first)
        asked_again(second)
        server = reads(weir, second, server)


def test_position_that_is_unknown(scene):
    """Host trap 63. It is no lag of 0: after a restart the standby has replayed nothing yet."""
    first, second = pair(scene)
    second.position = None
    weir = weir_of(scene, (first, second), target_session_attrs="prefer-standby", max_lag=3600)
    weir.client()
    until(lambda: sorted(str(row["role"]) for row in weir.show("HOSTS")) == ["primary", "unknown"], "the primary is known")
    asked_again(second)
    reads(weir, first)
    assert [row["lag_ms"] for row in weir.show("HOSTS") if row["role"] == "unknown"] == [None]
    second.position = first.position
    asked_again(first)
    asked_again(second)
    reads(weir, second)


def test_position_from_before_the_commit(scene):
    """Host trap 70. The standby has replayed all that the primary has said, but the write was acknowledged after that."""
    first, second = pair(scene)
    parts = target((first, second), dbname="p0")
    weir = scene.weir({"p0": parts + " target_session_attrs=primary", "reads": parts + " target_session_attrs=prefer-standby read_your_writes=database"},
                      host_check_user=WATCHER, pool_mode="transaction", server_login_retry=0, host_check_period=NEVER)
    writer, server = linked(first.fake, weir)
    weir.client(database="reads")
    standby = reads_again(first, second, weir)
    # the question is on its way when the write comes
    first.falls_silent()
    asked_again(first, 1)
    writer.send(m.query("write"))
    server.expect_query("write")
    server.complete("INSERT 0 1")
    writer.result()
    asked_again(second, 3)
    primary = reads(weir, first, database="reads")
    first.position = step(first.position, 0x100)
    first.talks()
    asked_again(first)
    asked_again(second)
    reads(weir, first, primary, database="reads")
    second.position = first.position
    reads_again(first, second, weir, standby)


def reads_again(primary, standby, weir, server=None):
    """When the standby covers all acknowledged writes."""
    asked_again(primary)
    asked_again(standby)
    return reads(weir, standby, server, database="reads")


# --- full pools

def test_full_pool_takes_no_host_out(scene):
    """Host trap 76. A client that has waited in vain for a connection changes nothing: the host stays the first choice."""
    stage = Roles(scene, balance="disable", default_pool_size=1, query_wait_timeout=SOON)
    busy, late, other = stage.readers(3)
    assert busy.query("BEGIN").status == "T"
    busy.query("busy")
    late.send(m.query("late"))
    assert last_words(late)["M"] == "query_wait_timeout"
    row = stage.host(1)
    assert (row["state"], row["role"], row["errors"], row["role_changes"]) == ("up", "standby", 0, 1)
    busy.query("COMMIT")
    other.query("other")
    assert stage.served_by("busy") == stage.served_by("other") == [1]


def test_pool_size_is_for_each_host(scene):
    """Host trap 81. SHOW POOLS has a row for each host, with its role."""
    stage = Roles(scene, default_pool_size=1)
    stage.readers(1)
    for attrs in ("primary", "standby"):
        client = stage.weir.client(database="plain", options="-c pgweir.target_session_attrs=" + attrs)
        assert client.query("BEGIN").status == "T"
    rows = [(row["role"], row["sv_active"]) for host, row in stage.pools("plain").items() if host and row["sv_active"]]
    assert sorted(rows) == [("primary", 1), ("standby", 1)]


# --- hosts that go and return

def begun(stage, count, text):
    """New readers, each in a transaction. Returns the hosts that they are at."""
    places = []
    for number in range(count):
        client = stage.weir.client(database="reads")
        assert client.query("BEGIN").status == "T"
        client.query("%s %d" % (text, number))
        places += stage.served_by("%s %d" % (text, number))
        stage.held.append(client)
    return places


def away(stage, number):
    stage.fakes[number].stop_listening()
    stage.fakes[number].drop_all()
    stage.held = []


def back(stage, number):
    stage.fakes[number].listen()
    stage.wait_host(number, role="standby")


@pytest.mark.parametrize("balance", ["default", "round-robin"])
def test_dead_host_among_others(scene, balance):
    """Host trap 80. The hosts that live have equal shares, also the host that follows the dead one in the list."""
    stage = Roles(scene, hosts=FOUR, balance=None if balance == "default" else balance, host_check_period=1)
    away(stage, 2)
    stage.weir.client(database="reads")
    for number in (1, 3):
        stage.wait_host(number, role="standby")
    places = begun(stage, 12, "x")
    assert (places.count(1), places.count(3)) == (6, 6)


def test_host_that_returns(scene):
    """Host traps 79 and 82. It has little use, and gets not all new readers at once for that; readers of the other host come to it, too."""
    # otherwise a reader without pauses stays: it has just read later data than any other standby is known to have
    stage = Roles(scene, default_pool_size=30, read_your_writes="off")
    away(stage, 2)
    stage.weir.client(database="reads")
    assert begun(stage, 12, "before") == 12 * [1]
    back(stage, 2)
    assert 1 in begun(stage, 8, "after")
    for client in stage.held:
        client.query("COMMIT")
    client = stage.held[0]
    numbers = iter(range(100000))

    def is_moved():
        text = "move %d" % next(numbers)
        client.query(text)
        return stage.served_by(text) == [2]
    until(lambda: any(is_moved() for _ in range(50)), "a reader of the other host")


def test_silent_host_keeps_its_connections(scene):
    """Host trap 83. They are not proven dead. When the host answers again, they serve, and no client logs in."""
    stage = Roles(scene, host_check_user=WATCHER)
    stage.held = []
    stage.readers(1)
    places = begun(stage, 4, "x")
    assert 1 in places
    for client in stage.held:
        client.query("COMMIT")

    def logins():
        return len([session for session in stage.fakes[1].started if session.startup["user"] != WATCHER])
    before = logins()
    stage.fakes[1].is_silent = True
    stage.wait_host(1, state="stale", role="unknown")
    numbers = iter(range(100000))

    def is_at(host, client):
        text = "%d" % next(numbers)
        client.query(text)
        return stage.served_by(text) == [host]
    for client in stage.held:
        until(lambda client=client: is_at(2, client), "readers are at the other host")
    assert stage.host(1)["connections"] == places.count(1)
    stage.fakes[1].is_silent = False
    stage.fakes[1].happened()
    stage.wait_host(1, role="standby")

    def is_back():
        with stage.weir.client(database="reads") as client:
            return is_at(1, client)
    until(is_back, "the host serves again")
    assert logins() == before
