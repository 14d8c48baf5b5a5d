"""
Figures of SHOW compared exactly with the work of the scene: messages, queries, connections and memory.

Trap 91: averages divided wrongly, counts that drift. Each figure is also checked after everything has become idle.
"""
import contextlib
import os
import pathlib
import re
import socket
import stat
import threading

import psycopg2
import psycopg2.extras
import pytest

from support import messages as m
from support.live import NEVER
from support.nameserver import write_resolv_conf
from support.until import DEADLINE, until

COUNTERS = ("server_assignment_count", "xact_count", "query_count", "received", "sent", "xact_time", "query_time",
            "wait_time", "client_parse_count", "server_parse_count", "bind_count", "client_login_count")
# The names of the counters in the other commands, in order.
IN_TOTALS = ("server_assignment_count", "xact_count", "query_count", "bytes_received", "bytes_sent", "xact_time",
             "query_time", "wait_time", "client_parse_count", "server_parse_count", "bind_count", "client_login_count")
IN_ALL = ("server_assignment_count", "xact_count", "query_count", "client_bytes", "server_bytes", "xact_time",
          "query_time", "wait_time", "ps_client_parse_count", "ps_server_parse_count", "ps_bind_count",
          "client_login_count")


def stats(weir, database="p0"):
    """The counters of SHOW STATS, by name; the same in SHOW STATS_TOTALS."""
    (row,) = [row for row in weir.show("STATS") if row["database"] == database]
    (again,) = [row for row in weir.show("STATS_TOTALS") if row["database"] == database]
    totals = {name: int(row["total_" + name]) for name in COUNTERS}
    assert list(totals.values()) == [int(again[name]) for name in IN_TOTALS]
    return totals


def grown(weir, before, database="p0"):
    now = stats(weir, database)
    return {name: now[name] - before[name] for name in COUNTERS}


def work(scene, **settings):
    """A server that answers, pgweir in transaction mode, and a client that is logged in."""
    fake = scene.mini()
    settings.setdefault("server_idle_timeout", NEVER)
    settings.setdefault("server_check_delay", NEVER)
    weir = scene.weir(fake, pool_mode="transaction", stats_period=NEVER, **settings)
    return fake, weir, weir.client()


class Count:
    """Sends messages, reads up to the given number of ReadyForQuery, and counts the bytes of both."""

    def __init__(self, client):
        self.client = client
        self.sent = 0
        self.received = 0

    def __call__(self, *packets, answers=1):
        data = b"".join(packets)
        self.client.send(data)
        self.sent += len(data)
        for _ in range(answers):
            self.received += sum(len(got.body) + 5 for got in self.client.read_until("Z"))


# --- STATS, STATS_TOTALS, STATS_AVERAGES, TOTALS

def test_statistics_of_simple_queries(scene):
    """Trap 91."""
    fake, weir, client = work(scene)
    client.query("first, so that all is connected")
    before, count = stats(weir), Count(client)
    for n in range(7):
        count(m.query("query %d" % n))
    count(m.query("rows 100 1000"))
    more = grown(weir, before)
    assert (more["query_count"], more["xact_count"], more["server_assignment_count"]) == (8, 8, 8)
    assert (more["received"], more["sent"]) == (count.sent, count.received)
    assert more["xact_time"] == more["query_time"] > 0
    assert (more["wait_time"], more["client_login_count"]) == (0, 0)


def test_statistics_of_a_transaction(scene):
    fake, weir, client = work(scene)
    before, count = stats(weir), Count(client)
    for text in ("BEGIN", "one", "fail two", "three", "ROLLBACK"):
        count(m.query(text))
    more = grown(weir, before)
    assert (more["query_count"], more["xact_count"], more["server_assignment_count"]) == (5, 1, 1)
    assert (more["received"], more["sent"]) == (count.sent, count.received)
    # a transaction lasts from its first query to its last, including the time between
    assert more["xact_time"] >= more["query_time"]


def test_statistics_of_pipelines_and_prepared_statements(scene):
    """Trap 91."""
    fake, weir, client = work(scene, default_pool_size=1)
    other = weir.client()
    client.query("connected")
    before, count = stats(weir), Count(client)
    count(m.parse("named text", "a"), m.bind("a"), m.execute(), m.sync(),
          m.bind("a"), m.execute(), m.sync(), m.bind("a"), m.execute(), m.sync(), answers=3)
    count(m.parse("unnamed text"), m.bind(), m.execute(), m.sync())
    more = grown(weir, before)
    assert more["query_count"] == more["xact_count"] == 4
    # named statements are counted; the server parses only texts that it does not know yet
    assert (more["client_parse_count"], more["server_parse_count"], more["bind_count"]) == (1, 1, 3)
    # the same text of another client: parsed by it, but not again by the server
    before = stats(weir)
    Count(other)(m.parse("named text", "b"), m.bind("b"), m.execute(), m.sync())
    more = grown(weir, before)
    assert (more["client_parse_count"], more["server_parse_count"], more["bind_count"]) == (1, 0, 1)


def test_statistics_of_logins(scene):
    fake, weir, client = work(scene)
    before = stats(weir)
    for _ in range(5):
        weir.client().quit()
    assert weir.connect().refused(user="nobody", database="p0")
    more = grown(weir, before)
    assert more["client_login_count"] == 5
    assert {more[name] for name in COUNTERS if name != "client_login_count"} == {0}


def test_logins_on_the_console_are_counted(scene):
    """As PgBouncer 1.25 does it."""
    weir = scene.weir(scene.mini())

    def count():
        (row,) = [row for row in weir.show("STATS") if row["database"] == "pgbouncer"]
        return row["total_client_login_count"]
    before = count()
    for user in ("admin", "stats", "admin"):
        weir.client(user, "pgbouncer").quit()
    assert count() == before + 3


def test_statistics_of_waiting(scene):
    """Trap 91: the waiting time of each client that waited, and of no other."""
    fake, weir, client = work(scene, default_pool_size=1)
    client.query("BEGIN")
    others = [weir.client() for _ in range(3)]
    before = stats(weir)
    for other in others:
        other.send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=3)
    waited = until(lambda: weir.pool("p0")["maxwait_us"] > 50000 and weir.pool("p0"), "they wait")
    assert grown(weir, before)["wait_time"] == 0
    client.query("COMMIT")
    for other in others:
        assert other.result().value == "later"
    more = grown(weir, before)
    assert more["wait_time"] >= 3 * waited["maxwait_us"] - 3 * 20000 and more["server_assignment_count"] == 3
    # waiting is not counted again as query time
    weir.wait_pool("p0", cl_waiting=0, maxwait=0, maxwait_us=0)
    client.query("alone")
    assert grown(weir, before)["wait_time"] == more["wait_time"]


def test_totals_are_the_sums_over_all_databases(scene):
    fakes = scene.mini(), scene.mini()
    weir = scene.weir({"p0": fakes[0], "p1": fakes[1]}, pool_mode="transaction", stats_period=NEVER)
    for database, queries in (("p0", 3), ("p1", 5)):
        client = weir.client(database=database)
        for n in range(queries):
            client.query("query %d" % n)
    rows = weir.show("STATS")
    assert [row["database"] for row in rows] == ["p0", "p1", "pgbouncer"]
    assert [int(row["total_query_count"]) for row in rows[:2]] == [3, 5]
    listed = {row["name"]: int(row["value"]) for row in weir.show("TOTALS")}
    assert list(listed) == ["total_" + name for name in IN_ALL] + ["avg_" + name for name in IN_ALL]
    rows = weir.show("STATS")
    # the console is one of them, and each SHOW is a query of it
    console = int(rows[2]["total_query_count"])
    assert listed["total_query_count"] == 8 + console - 1
    for name, column in (("total_client_bytes", "total_received"), ("total_server_bytes", "total_sent"),
                         ("total_query_time", "total_query_time"), ("total_xact_time", "total_xact_time")):
        assert listed[name] == sum(int(row[column]) for row in rows) > 0
    assert listed["total_client_login_count"] == 3         # one of them on the console


def test_averages_begin_with_the_last_full_period(scene):
    """Trap 91. Averages begin with the process, too, and continue until now."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", stats_period=1, server_idle_timeout=NEVER)
    client = weir.client()

    def averages():
        (row,) = [row for row in weir.show("STATS_AVERAGES") if row["database"] == "p0"]
        return {name: int(value) for name, value in row.items() if name != "database"}

    def busy():
        for _ in range(20):
            client.query("x" * 50)
        return averages()["query_count"] > 0 and averages()
    seen = until(busy, "a period with work has ended")
    assert seen["xact_count"] == seen["query_count"] > 0
    # rates over one period: bytes per query are the same for all queries
    assert seen["bytes_received"] // seen["query_count"] in range(56, 60)
    # a time is per query, not per second; no query takes longer than the period
    assert 0 < seen["query_time"] < 1000000 and seen["query_time"] == seen["xact_time"]
    again = averages()
    (row,) = [row for row in weir.show("STATS") if row["database"] == "p0"]
    names = [name for name in row if name.startswith("avg_")]
    assert len(names) == len(again) == 12
    # at rest all are zero, and the totals stay
    until(lambda: set(averages().values()) == {0}, "averages at rest")
    assert stats(weir)["query_count"] >= 20
    weir.wait_log(r"stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server parses/s, \d+ binds/s, "
                  r"\d+ client logins/s, in \d+ B/s, out \d+ B/s, xact \d+ us, query \d+ us, wait \d+ us$")


# --- POOLS, LISTS, DATABASES, USERS, STATE

def lists(weir):
    return {row["list"]: row["items"] for row in weir.show("LISTS")}


def named(weir, what, name):
    (row,) = [row for row in weir.show(what) if row["name"] == name]
    return row


def test_pool_and_its_sums(scene):
    """Trap 91."""
    fake, weir, client = work(scene, default_pool_size=3, max_db_connections=10, max_user_connections=11,
                              max_db_client_connections=20, max_user_client_connections=21)
    idle = weir.client()
    idle.query("once")
    client.query("BEGIN")
    second, third = weir.client(), weir.client()
    second.query("BEGIN")
    third.send(m.query("wait"))
    fake.until(lambda: any(text == "wait" for _, text in fake.queries), "the query runs")
    waiting = weir.client()
    waiting.send(m.query("queued"))
    row = weir.wait_pool("p0", cl_waiting=1) and weir.pool("p0")
    assert (row["cl_active"], row["cl_waiting"], row["sv_active"], row["sv_idle"], row["sv_used"]) == (4, 1, 3, 0, 0)
    assert (row["sv_login"], row["sv_tested"], row["pool_mode"]) == (0, 0, "transaction")
    assert row["load_balance_hosts"] is None
    database, user = named(weir, "DATABASES", "p0"), named(weir, "USERS", "app")
    assert (database["current_connections"], database["current_client_connections"]) == (3, 5)
    assert (database["max_connections"], database["max_client_connections"]) == (10, 20)
    assert (database["port"], database["pool_size"], database["paused"], database["disabled"]) == (fake.port, 3, 0, 0)
    assert (user["current_connections"], user["current_client_connections"]) == (3, 5)
    assert (user["max_user_connections"], user["max_user_client_connections"]) == (11, 21)
    counts = lists(weir)
    # the console's client is one too
    assert (counts["databases"], counts["pools"], counts["used_clients"], counts["used_servers"]) == (2, 2, 6, 3)
    assert (counts["login_clients"], counts["free_clients"], counts["free_servers"]) == (0, 0, 0)
    # a cancel request is counted while it is under way, but not as a client
    held = []
    fake.on_cancel = lambda pid, key, connection: held.append((pid, key, connection))
    weir.cancel(third)
    weir.wait_pool("p0", cl_active_cancel_req=1, sv_active_cancel=1)
    assert named(weir, "DATABASES", "p0")["current_client_connections"] == 5
    assert named(weir, "DATABASES", "p0")["current_connections"] == 3
    until(lambda: held, "the request has come")
    pid, key, connection = held[0]
    fake.deliver_cancel(pid, key)
    assert third.result().errors
    weir.wait_pool("p0", sv_being_canceled=1)
    connection.close()
    weir.wait_pool("p0", cl_active_cancel_req=0, sv_active_cancel=0, sv_being_canceled=0)
    assert waiting.result().value == "queued"
    client.query("COMMIT")
    second.query("COMMIT")
    weir.wait_pool("p0", cl_active=5, cl_waiting=0, sv_active=0, sv_idle=3, maxwait=0, maxwait_us=0)
    # no client is left
    for one in (client, idle, second, third, waiting):
        one.quit()
    weir.wait_pool("p0", cl_active=0, sv_idle=3)
    assert named(weir, "DATABASES", "p0")["current_client_connections"] == 0
    assert named(weir, "USERS", "app")["current_client_connections"] == 0
    weir.admin("KILL p0")
    assert named(weir, "DATABASES", "p0")["current_connections"] == named(weir, "USERS", "app")["current_connections"] == 0
    assert named(weir, "DATABASES", "p0")["paused"] == 1
    counts = lists(weir)
    assert (counts["used_clients"], counts["used_servers"]) == (1, 0)


def test_servers_being_opened_tested_or_long_idle(scene):
    fake, let_in = scene.mini(), threading.Event()

    def login(session):
        assert let_in.wait(DEADLINE)
        session.welcome()
    fake.login = login
    weir = scene.weir(fake, pool_mode="transaction", server_check_delay=NEVER, server_check_query="wait",
                      server_idle_timeout=NEVER)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    row = weir.wait_pool("p0", sv_login=1) and weir.pool("p0")
    assert (row["cl_waiting"], row["cl_active"]) == (1, 0)
    assert lists(weir)["login_clients"] == 1
    let_in.set()
    client.finish_login("app")
    weir.wait_pool("p0", sv_login=0, cl_waiting=0, cl_active=1)
    # idle for longer than server_check_delay, it counts as used; it is tested before it is lent
    client.query("once")
    weir.admin("SET server_check_delay = 0.1")
    weir.wait_pool("p0", sv_used=1, sv_idle=0)
    client.send(m.query("asks for it"))
    weir.wait_pool("p0", sv_tested=1, cl_waiting=1)
    fake.release()
    assert client.result().value == "asks for it"


@pytest.mark.parametrize("verb, state", [("PAUSE", "paused"), ("SUSPEND", "suspended")])
def test_state(scene, verb, state):
    fake, weir, client = work(scene)
    assert {row["key"]: row["value"] for row in weir.show("STATE")} == {"active": "yes", "paused": "no", "suspended": "no"}
    weir.admin(verb)
    shown = {row["key"]: row["value"] for row in weir.show("STATE")}
    assert shown == dict({"active": "no", "paused": "no", "suspended": "no"}, **{state: "yes"})
    weir.admin("RESUME")


def test_cancel_requests_for_peers_are_counted(scene):
    fake = scene.mini()
    weirs = [scene.weir(fake, pool_mode="transaction", peer_id=n) for n in (1, 2)]
    quiet = socket.create_server(("127.0.0.1", 0))          # a peer that accepts requests and never answers
    for weir in weirs:
        weir.sections["peers"] = {"1": "host=127.0.0.1 port=%d pool_size=7" % quiet.getsockname()[1],
                                  "2": "host=127.0.0.1 port=%d" % weirs[1].port}
        weir.write_ini()
        weir.admin("RELOAD")
    none = {"cl_active_cancel_req": 0, "cl_waiting_cancel_req": 0, "sv_active_cancel": 0, "sv_login": 0}
    assert weirs[1].show("PEER_POOLS") == [dict(none, peer_id=1), dict(none, peer_id=2)]
    assert [(row["peer_id"], row["host"], row["pool_size"]) for row in weirs[1].show("PEERS")] == [
        (1, "127.0.0.1", 7), (2, "127.0.0.1", 20)]
    assert (lists(weirs[1])["peers"], lists(weirs[1])["peer_pools"]) == (2, 2)
    client = weirs[0].client()
    for _ in range(2):
        weirs[1].cancel(client)
    both = dict(none, peer_id=1, cl_active_cancel_req=2, sv_active_cancel=2)
    until(lambda: weirs[1].show("PEER_POOLS")[0] == both, "they are with the peer")
    assert weirs[1].show("PEER_POOLS")[1] == dict(none, peer_id=2)
    for _ in range(2):
        quiet.accept()[0].close()
    quiet.close()
    until(lambda: weirs[1].show("PEER_POOLS")[0] == dict(none, peer_id=1), "they have ended")


def test_load_balance_hosts_is_shown_for_lists(scene):
    weir = scene.weir({"one": "host=127.0.0.1", "two": "host=127.0.0.1,127.0.0.2",
                       "three": "host=127.0.0.1,127.0.0.2 load_balance_hosts=disable"})
    assert {row["name"]: row["load_balance_hosts"] for row in weir.show("DATABASES")} == {
        "one": None, "two": "round-robin", "three": "disable", "pgbouncer": None}


# --- CLIENTS, SERVERS, SOCKETS, ACTIVE_SOCKETS, FDS

def of_client(rows, client):
    """The row of a connection, found by the port that it comes from."""
    (row,) = [row for row in rows if row["port"] == client.sock.getsockname()[1]]
    return row


def of_server(rows, session):
    (row,) = [row for row in rows if row["local_port"] == session.sock.getpeername()[1]]
    return row


def test_connections_and_their_links(scene):
    fake, weir, client = work(scene)
    waiting_for_nothing = weir.client("rival", application_name="idler")
    client.send(m.parse("some text", "a"), m.parse("BEGIN", "b"), m.bind("b"), m.execute(), m.sync())
    client.read_until("Z")
    session = fake.started[0]
    mine, its = of_client(weir.show("CLIENTS"), client), of_server(weir.show("SERVERS"), session)
    assert (mine["type"], mine["user"], mine["database"], mine["state"]) == ("C", "app", "p0", "active")
    assert (its["type"], its["user"], its["database"], its["state"]) == ("S", "app", "p0", "active")
    assert mine["link"] == its["ptr"] and its["link"] == mine["ptr"]
    assert mine["ptr"] == hex(mine["id"]) and its["ptr"] == hex(its["id"]) and its["id"] != mine["id"]
    assert (mine["addr"], mine["local_addr"], mine["local_port"]) == ("127.0.0.1", "127.0.0.1", weir.port)
    assert (its["addr"], its["port"], its["remote_pid"]) == ("127.0.0.1", fake.port, session.pid)
    assert (mine["prepared_statements"], its["prepared_statements"]) == (2, len(session.statements))
    assert mine["replication"] == its["replication"] == "none" and mine["tls"] == its["tls"] == ""
    assert mine["wait"] == mine["wait_us"] == mine["close_needed"] == its["close_needed"] == 0
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"
    for row in (mine, its):
        assert re.match(when, row["connect_time"]) and re.match(when, row["request_time"])
        assert row["connect_time"] <= row["request_time"]
    other = of_client(weir.show("CLIENTS"), waiting_for_nothing)
    assert (other["user"], other["state"], other["link"], other["application_name"]) == ("rival", "idle", "", "idler")
    assert other["prepared_statements"] == 0
    (asking,) = [row for row in weir.show("CLIENTS") if row["database"] == "pgbouncer"]
    assert (asking["user"], asking["state"]) == ("admin", "active")
    # after the end of the session's work, the marks are gone
    weir.admin("RECONNECT p0")
    assert of_server(weir.show("SERVERS"), session)["close_needed"] == 1
    client.query("COMMIT")
    until(lambda: weir.show("SERVERS") == [], "the server is closed")
    assert of_client(weir.show("CLIENTS"), client)["link"] == ""


def test_waiting_client_shows_how_long(scene):
    fake, weir, client = work(scene, default_pool_size=1)
    client.query("BEGIN")
    waiting = weir.client()
    waiting.send(m.query("later"))

    def waits():
        row = of_client(weir.show("CLIENTS"), waiting)
        return row["state"] == "waiting" and row["wait_us"] > 0 and row
    first = until(waits, "it waits")
    second = until(lambda: (lambda row: row and row["wait_us"] != first["wait_us"] and row)(waits()), "it waits longer")
    assert (second["wait"], second["wait_us"]) > (first["wait"], first["wait_us"])
    client.query("COMMIT")
    waiting.result()
    row = of_client(weir.show("CLIENTS"), waiting)
    assert (row["wait"], row["wait_us"], row["state"]) == (0, 0, "idle")


def test_sockets_and_active_sockets(scene):
    fake, weir, client = work(scene)
    idle = weir.client()
    client.query("BEGIN")
    stranger = weir.connect()
    stranger.send(b"\0\0")
    until(lambda: len(weir.show("SOCKETS")) == 5, "client, idler, stranger, console, server")
    rows = weir.show("SOCKETS")
    assert sorted(row["type"] for row in rows) == ["C", "C", "C", "C", "S"]
    assert of_client(rows, client)["pkt_remain"] == of_client(rows, client)["send_remain"] == 0
    assert of_client(rows, stranger)["database"] == "(nodb)" and of_client(rows, stranger)["user"] == "(nouser)"
    active = weir.show("ACTIVE_SOCKETS")
    assert of_client(active, client)["link"] and of_server(active, fake.started[0])["link"]
    assert idle.sock.getsockname()[1] not in {row["port"] for row in active}


def test_socket_shows_unsent_bytes(scene):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction")
    slow = weir.client(receive_buffer=4096)
    slow.send(m.query("rows 1000 10000"))

    def stuck():
        rows = [row for row in weir.show("SOCKETS") if row["port"] == slow.sock.getsockname()[1]]
        return rows and rows[0]["send_remain"] > 0 and rows[0]
    row = until(stuck, "the client does not read")
    assert row["send_avail"] == row["send_remain"]
    assert len(slow.result().rows) == 1000
    assert of_client(weir.show("SOCKETS"), slow)["send_remain"] == 0


def test_descriptors(scene):
    fake, weir, client = work(scene)
    idle = weir.client()
    client.query("BEGIN")
    weir.show("VERSION")
    rows = weir.show("FDS")
    directory = "/proc/%d/fd" % weir.pid
    assert len({row["fd"] for row in rows}) == len(rows)
    for row in rows:
        assert stat.S_ISSOCK(os.stat("%s/%d" % (directory, row["fd"])).st_mode), row
    kinds = [row["task"] for row in rows]
    # TCP and Unix; the console's own connection is not handed over
    assert sorted(kinds) == ["client", "client", "pooler", "pooler", "server"]
    pooler = [row for row in rows if row["task"] == "pooler"]
    assert {(row["addr"], row["port"]) for row in pooler} == {("127.0.0.1", weir.port), ("unix", weir.port)}
    mine = of_client([row for row in rows if row["task"] == "client"], client)
    (its,) = [row for row in rows if row["task"] == "server"]
    assert mine["link"] == its["fd"] and its["link"] == mine["fd"]
    assert (its["user"], its["database"], its["addr"], its["port"]) == ("app", "p0", "127.0.0.1", fake.port)
    assert mine["cancel"] == 0 and mine["password"] is None         # secrets only over the Unix socket
    assert (mine["client_encoding"], mine["std_strings"], mine["datestyle"], mine["timezone"]) == (
        "UTF8", "on", "ISO, MDY", "UTC")
    assert of_client([row for row in rows if row["task"] == "client"], idle)["link"] == 0


# --- MEM, DNS

def test_memory_figures(scene):
    fake, weir, client = work(scene)
    clients = [weir.client() for _ in range(4)]
    client.query("BEGIN")
    clients[0].query("BEGIN")
    client.send(m.parse("a text of some length", "a"), m.sync())
    client.read_until("Z")
    rows = {row["name"]: row for row in weir.show("MEM")}
    counts = lists(weir)
    for name, item in (("client_cache", "used_clients"), ("server_cache", "used_servers"), ("pool_cache", "pools"),
                       ("db_cache", "databases"), ("peer_cache", "peers")):
        assert rows[name]["used"] == counts[item], name
    assert all(row["memtotal"] == row["size"] * (row["used"] + row["free"]) for row in rows.values())
    assert rows["client_cache"]["used"] == 6 and rows["server_cache"]["used"] == 2
    assert rows["prepared_statement_cache"]["used"] > len("a text of some length")
    # and gives back
    for one in clients[1:]:
        one.quit()
    until(lambda: {row["name"]: row["used"] for row in weir.show("MEM")}["client_cache"] == 3, "they are gone")


def test_names_are_counted(scene):
    names = scene.nameserver()
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names.set("a.one.test", a=["127.0.0.2"])
    names.set("b.one.test", a=["127.0.0.2", "127.0.0.3"])
    names.set("c.two.test", a=["127.0.0.3"])
    names.set("one.test", soa=5)
    hosts = ("a.one.test", "b.one.test", "c.two.test", "nowhere.test", "127.0.0.2")
    weir = scene.weir({"p%d" % n: "host=%s port=%d" % (host, fakes[0].port) for n, host in enumerate(hosts)},
                      resolv_conf=write_resolv_conf(scene.directory, names), dns_zone_check_period=NEVER, server_down="fail")
    for n in range(5):
        if n == 3:
            weir.connect().refused(user="app", database="p3")
        else:
            weir.client(database="p%d" % n)
    # an address is not a name
    assert {row["hostname"]: row["addrs"].split(",") for row in weir.show("DNS_HOSTS")} == {
        "a.one.test": ["127.0.0.2:0"], "b.one.test": ["127.0.0.2:0", "127.0.0.3:0"], "c.two.test": ["127.0.0.3:0"],
        "nowhere.test": [""]}
    until(lambda: {row["zonename"]: (row["serial"], row["count"]) for row in weir.show("DNS_ZONES")} == {
        "one.test": (5, 2), "two.test": (0, 1)}, "zones and their serials")
    counts = lists(weir)
    assert (counts["dns_names"], counts["dns_zones"], counts["dns_queries"], counts["dns_pending"]) == (4, 2, 0, 0)
    assert [names.count("A", host) for host in hosts[:3]] == [1, 1, 1] and names.count("A", "127.0.0.2") == 0


# --- settings and secrets

def test_limits_of_databases_and_users(scene):
    """The value of an entry, otherwise the general setting."""
    weir = scene.weir({"p0": "host=127.0.0.1 port=7777 dbname=other user=forced pool_size=1 min_pool_size=2 "
                             "reserve_pool_size=3 server_lifetime=4 pool_mode=statement", "p1": "host=127.0.0.1"},
                      sections={"users": {"app": "pool_size=6 reserve_pool_size=7 pool_mode=transaction "
                                                 "max_user_connections=8 max_user_client_connections=9"}},
                      default_pool_size=10, min_pool_size=0, reserve_pool_size=12, server_lifetime=13,
                      max_db_connections=14, max_user_connections=15, max_user_client_connections=16)
    own, other = named(weir, "DATABASES", "p0"), named(weir, "DATABASES", "p1")
    assert (own["host"], own["port"], own["database"], own["force_user"]) == ("127.0.0.1", 7777, "other", "forced")
    assert (own["pool_size"], own["min_pool_size"], own["reserve_pool_size"], own["server_lifetime"],
            own["pool_mode"], own["max_connections"]) == (1, 2, 3, 4, "statement", 14)
    assert (other["host"], other["port"], other["database"], other["force_user"]) == ("127.0.0.1", 5432, "p1", None)
    assert (other["pool_size"], other["min_pool_size"], other["reserve_pool_size"], other["server_lifetime"],
            other["pool_mode"]) == (10, 0, 12, 13, None)
    own, other = named(weir, "USERS", "app"), named(weir, "USERS", "rival")
    assert (own["pool_size"], own["reserve_pool_size"], own["pool_mode"], own["max_user_connections"],
            own["max_user_client_connections"]) == ("6", "7", "transaction", 8, 9)
    assert (other["pool_size"], other["reserve_pool_size"], other["pool_mode"], other["max_user_connections"],
            other["max_user_client_connections"]) == ("", "", None, 15, 16)
    weir.admin("DISABLE p1")
    assert (named(weir, "DATABASES", "p1")["disabled"], named(weir, "DATABASES", "p0")["disabled"]) == (1, 0)
    weir.settings["default_pool_size"] = 11
    weir.write_ini()
    weir.admin("RELOAD")
    config = {row["key"]: row for row in weir.show("CONFIG")}
    assert (config["default_pool_size"]["value"], config["default_pool_size"]["default"],
            config["default_pool_size"]["changeable"]) == ("11", "20", "yes")
    assert named(weir, "DATABASES", "p1")["pool_size"] == 11


def test_only_the_unix_user_of_the_daemon_sees_secrets(scene):
    fake, weir, client = work(scene)
    client.query("BEGIN")
    with contextlib.closing(psycopg2.connect(host=weir.directory, port=weir.port, user="admin", dbname="pgbouncer",
                                             password="admin-secret")) as console:
        console.autocommit = True
        with console.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute("SHOW FDS")
            rows = cursor.fetchall()
    mine = of_client([row for row in rows if row["task"] == "client"], client)
    (its,) = [row for row in rows if row["task"] == "server"]
    assert mine["password"] == its["password"] == "app-secret"
    assert mine["cancel"] == int.from_bytes(client.pid.to_bytes(4, "big") + client.key, "big", signed=True)
    session = fake.started[0]
    assert its["cancel"] == int.from_bytes(session.pid.to_bytes(4, "big") + session.key, "big", signed=True)
    # secrets that logins have revealed are not shown
    assert mine["scram_client_key"] is its["scram_server_key"] is None


def test_waiting_cancel_requests_are_counted(scene):
    fake = scene.mini()
    fake.on_cancel = lambda pid, key, connection: None
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, cancel_wait_timeout=NEVER)
    client = weir.client()
    client.send(m.query("wait"))
    weir.wait_pool("p0", sv_active=1)
    for _ in range(3):
        weir.cancel(client)
    weir.wait_pool("p0", cl_active_cancel_req=2, cl_waiting_cancel_req=1, sv_active_cancel=2)
    (its,) = [row for row in weir.show("SERVERS") if row["state"] == "active"]
    assert its["remote_pid"] == fake.started[0].pid
    # cancel requests are connections, but not sessions
    assert len(weir.show("CLIENTS")) == 5 and lists(weir)["used_servers"] == 3


# --- every column has its test

HERE = pathlib.Path(__file__).parent


def test_every_column_has_its_test(scene):
    """figures.txt lists the test of each column; every listed test must exist, and every published column must be listed."""
    weir = scene.weir(scene.mini())
    known, cursor = {}, weir.console().cursor()
    for line in (HERE / "figures.txt").read_text(encoding="utf-8").splitlines():
        command, columns, test = line.split("\t")
        path, _, name = test.partition("::")
        text = (HERE.parent / path).read_text(encoding="utf-8")
        assert re.search(r"\bdef %s\(|TEST\(%s\)" % (name, name), text), test
        assert not known.setdefault(command, set()) & set(columns.split()), line
        known[command] |= set(columns.split())
    published = (HERE.parent / "unit" / "admin" / "show_columns.h").read_text(encoding="utf-8")
    for command in re.findall(r'\{ "SHOW (\w+)",$', published, re.M):
        cursor.execute("SHOW " + command)
        assert {column.name for column in cursor.description} == known[command], command


def test_pools_in_order(scene):
    """By database and user, as PgBouncer shows them, whichever came first."""
    fake = scene.mini()
    weir = scene.weir({"zeta": fake, "alpha": fake, "mid": fake}, users={"u1": "", "u2": "", "admin": ""})
    for user, database in (("u2", "zeta"), ("u1", "mid"), ("u2", "alpha"), ("u1", "zeta")):
        weir.client(user, database).query("one")
    assert [(row["database"], row["user"]) for row in weir.show("POOLS")] == [
        ("alpha", "u2"), ("mid", "u1"), ("pgbouncer", "pgbouncer"), ("zeta", "u1"), ("zeta", "u2")]


def test_users_are_listed_and_counted(scene):
    """Each user once, whether the user list, the configuration or a connection names it, in SHOW USERS and in SHOW LISTS."""
    weir = scene.weir(scene.mini(), users={"u2": "", "u1": "", "admin": ""},
                      sections={"users": {"u1": "pool_size=3", "u0": "pool_size=4"}})
    weir.client("u1").query("one")
    names = [row["name"] for row in weir.show("USERS")]
    assert names == sorted(set(names)) and {"admin", "pgbouncer", "u0", "u1", "u2"} <= set(names)
    assert lists(weir)["users"] == len(names)


def test_logins_on_the_console_are_counted(scene):
    weir = scene.weir(scene.mini())

    def counted():
        (row,) = [row for row in weir.show("STATS_TOTALS") if row["database"] == "pgbouncer"]
        return row["client_login_count"]

    before = counted()
    weir.client("stats", "pgbouncer")
    assert counted() == before + 1
    weir.client()
    (total,) = [row["value"] for row in weir.show("TOTALS") if row["name"] == "total_client_login_count"]
    assert total == before + 2


def test_state_shows_a_shutdown(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    weir.admin("SHUTDOWN WAIT_FOR_CLIENTS")

    def state():
        return {row["key"]: row["value"] for row in weir.show("STATE")}

    assert (state()["shutdown"], state()["shutdown_waits_for"]) == ("wait_for_clients", "2")
    other.quit()
    until(lambda: state()["shutdown_waits_for"] == "1", "one client has left")
    weir.admin("SHUTDOWN WAIT_FOR_SERVERS")
    assert (state()["shutdown"], state()["shutdown_waits_for"]) == ("wait_for_servers", "1")
    client.send(m.query("COMMIT"))
    assert weir.wait_exit() == 0


def test_unknown_command_is_refused_with_a_hint(scene):
    weir = scene.weir(scene.mini())
    (error,) = weir.client("admin", "pgbouncer").query("SHOW POOL").errors
    assert (error["M"], error["H"]) == ("invalid command 'SHOW POOL', use SHOW HELP;", 'Did you mean "SHOW POOLS"?')
