"""LISTEN in transaction mode, with session_state = full: one server connection of the pool listens for all of its clients."""
import random
import struct
import threading

import psycopg
import pytest

from support import messages as m
from support.live import ended_with, pid_of
from support.rounds import rounds
from support.takeover import Replaced
from support.until import until
from support.wire import Client


def full(scene, postgres, kind=None, size=3, **settings):
    return scene.weir({"p0": postgres}, **{"pool_mode": "transaction", "default_pool_size": size, "session_state": "full",
                                           "show_extra_columns": 1, "server_round_robin": 1,
                                           **({"kind": kind} if kind else {}), **settings})


def direct_client(postgres):
    client = Client(postgres.port)
    client.login(user="postgres", database="p0")
    return client


def note(message):
    """The process id, the channel and the payload."""
    assert message.type == "A", message
    (pid,) = struct.unpack_from("!I", message.body)
    channel, payload = m.read_cstrings(message.body[4:])[:2]
    return pid, channel, payload


def heard(client, count=1):
    return [note(client.read())[1:] for _ in range(count)]


def notes_of(result):
    return [note(message)[1:] for message in result.messages if message.type == "A"]


def listening(weir):
    return [row for row in weir.show("SERVERS") if row["state"] == "listening"]


def at_rest(weir, listeners=1):
    """No client keeps a server connection, and no server connection has anything to do."""
    def is_at_rest():
        return not weir.show("PINS") and not [row for row in weir.show("SERVERS") if row["task"]] and len(listening(weir)) == listeners
    until(is_at_rest, "all have moved")


def quiet(weir, *clients):
    weir.barrier()
    assert not [client for client in clients if client.has_input()]


def channels(client):
    return sorted(row[0].decode() for row in client.query("SELECT pg_listening_channels()").rows)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_client_without_a_server_gets_notifications(scene, postgres, mode):
    weir = full(scene, postgres, pool_mode=mode)
    mine, other = weir.client(), weir.client()
    assert not mine.query("LISTEN news").errors
    at_rest(weir)
    other.query("NOTIFY news, 'hello'")
    told = note(mine.read())
    assert told[0] not in (mine.pid, other.pid) and told[1:] == ("news", "hello")
    other.query("SELECT pg_notify('news', 'again')")
    assert note(mine.read()) == (told[0], "news", "again")
    other.query("NOTIFY other, 'nothing'")
    quiet(weir, mine, other)
    assert {row["state"] for row in weir.show("CLIENTS") if row["database"] == "p0"} == {"idle"}
    weir.wait_log("listens for the clients of its pool")


def test_one_server_connection_for_all(scene, postgres):
    weir = full(scene, postgres)
    clients = [weir.client() for _ in range(8)]
    for number, client in enumerate(clients):
        assert not client.query("LISTEN everyone; LISTEN c%d" % (number % 4)).errors
    at_rest(weir)
    for number in range(4):
        clients[0].send(m.query("NOTIFY c%d, 'x'" % number))
        notes = notes_of(clients[0].result())
        assert notes == ([("c0", "x")] if number == 0 else [])
    for number, client in enumerate(clients[1:], 1):
        assert heard(client) == [("c%d" % (number % 4), "x")]
    clients[3].query("NOTIFY everyone, 'y'")
    for client in clients[:3] + clients[4:]:
        assert heard(client) == [("everyone", "y")]
    quiet(weir, *clients)
    assert len(listening(weir)) == 1
    (pool,) = (row for row in weir.show("POOLS") if row["database"] == "p0")
    assert pool["cl_listening"] == 8 and pool["notifications"] == 16 and pool["pinned"] == 0


@pytest.mark.parametrize("way", ["query", "unnamed", "block"])
def test_own_notifications_come_before_the_end_of_the_query(scene, postgres, way):
    weir = full(scene, postgres)
    first, mine = weir.client(), weir.client()
    first.query("LISTEN news")
    mine.query("LISTEN news")
    at_rest(weir)
    for turn in rounds(30):
        text = "NOTIFY news, '%d'" % turn
        mine.send({"query": m.query(text), "unnamed": m.run(text) + m.sync(), "block": m.query("BEGIN; %s; COMMIT" % text)}[way])
        result = mine.result()
        assert [note(message) for message in result.messages if message.type == "A"] == [(mine.pid, "news", str(turn))]
        assert result.types.endswith("AZ")
        assert heard(first) == [("news", str(turn))]


def test_no_notifications_within_a_transaction(scene, postgres):
    weir = full(scene, postgres)
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN news")
    mine.query("LISTEN news")
    at_rest(weir)
    mine.query("BEGIN")
    other.query("NOTIFY news, '1'")
    assert heard(first) == [("news", "1")]
    quiet(weir, mine)
    assert mine.query("SELECT 1").types == "TDCZ"
    other.query("NOTIFY news, '2'")
    assert heard(first) == [("news", "2")]
    result = mine.query("COMMIT")
    assert result.types == "CAAZ" and notes_of(result) == [("news", "1"), ("news", "2")]


def own_way(client, way, text):
    """In an open transaction: NOTIFY and COMMIT."""
    if way == "statements":
        client.query(text)
        return client.query("COMMIT")
    client.send({"one query": m.query(text + "; COMMIT"), "extended": m.run(text) + m.run("COMMIT") + m.sync()}[way])
    return client.result()


@pytest.mark.parametrize("way", ["statements", "one query", "extended"])
@pytest.mark.parametrize("own, told", [
    ("NOTIFY ch1, 'own'", [("ch1", "own")]),
    ("NOTIFY ch1, 'own'; NOTIFY ch2, 'own'", [("ch1", "own"), ("ch2", "own")]),
    ("UNLISTEN ch2; NOTIFY ch2, 'left'; NOTIFY ch1, 'own'", [("ch1", "own")]),
    ("LISTEN ch3; NOTIFY ch3, 'new'; NOTIFY ch1, 'own'; NOTIFY ch3, 'last'", [("ch3", "new"), ("ch1", "own"), ("ch3", "last")]),
    ("LISTEN ch3; NOTIFY ch3, 'new'", [("ch3", "new")]),
])
def test_own_notifications_come_after_those_that_were_committed_before(scene, postgres, way, own, told):
    """The client is told the same as on a direct connection, in the same order."""
    weir = full(scene, postgres, size=4)
    first, other = weir.client(), weir.client()
    first.query("LISTEN ch1")
    at_rest(weir)
    for client in (direct_client(postgres), weir.client()):
        client.query("LISTEN ch1; LISTEN ch2")
        at_rest(weir)
        client.query("BEGIN")
        other.query("NOTIFY ch1, 'other'; NOTIFY ch1, 'same transaction'")
        other.query("NOTIFY ch1, 'again'")
        for text in own.split("; ")[:-1]:
            client.query(text)
        result = own_way(client, way, own.split("; ")[-1])
        assert notes_of(result) == [("ch1", "other"), ("ch1", "same transaction"), ("ch1", "again"), *told]
        assert result.types.endswith("A" * (3 + len(told)) + "Z")
        client.close()


@pytest.mark.parametrize("seed", rounds(3))
def test_all_clients_are_told_in_the_same_order(scene, postgres, seed):
    """Clients LISTEN, NOTIFY and begin transactions at random. Each is told what a direct connection is told, in the same order."""
    weir = full(scene, postgres, size=6)
    direct, clients = direct_client(postgres), [weir.client() for _ in range(4)] + [direct_client(postgres)]
    direct.query(";".join("LISTEN " + channel for channel in ("ch1", "ch2", "p0", "p1", "p2", "p3", "p4")))
    for number, client in enumerate(clients):
        client.query("LISTEN ch1; LISTEN ch2")
        client.number, client.notes, client.said = number, [], 0
    at_rest(weir)

    def say(client, text):
        client.send(m.query(text))
        result = client.result()
        assert not result.errors
        client.notes += notes_of(result)

    def notify(client, channel):
        client.said += 1
        return "NOTIFY %s, '%d.%d'" % (channel, client.number, client.said)

    def act(client, chance):
        texts = [notify(client, chance.choice(["ch1", "ch2"])) for _ in range(chance.randrange(1, 4))]
        way = chance.randrange(4)
        if way > 0 and chance.random() < 0.3:
            texts += ["LISTEN p%d" % client.number, notify(client, "p%d" % client.number), notify(client, "ch1")]
        if way == 0:
            say(client, "; ".join(texts))
        elif way == 1:
            say(client, "BEGIN; %s; COMMIT" % "; ".join(texts))
        else:
            for text in ["BEGIN", *texts, "COMMIT" if way == 2 else "ROLLBACK"]:
                say(client, text)
        if chance.random() < 0.2:
            say(client, "UNLISTEN p%d" % client.number)

    def work(client):
        chance = random.Random("%d of %d" % (client.number, seed))
        for _ in range(40):
            act(client, chance)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(clients[0], "NOTIFY ch1, 'last'")
    direct.notes = []
    for client in (direct, *clients):
        while ("ch1", "last") not in client.notes:
            client.notes += heard(client)
        assert len(client.notes) == len(set(client.notes))
    for client in clients:
        own = "p%d" % client.number
        missing = {note for note in direct.notes if note[0] in ("ch1", "ch2", own)} - set(client.notes)
        # its own channel may be one that it has left
        assert {channel for channel, _ in missing} <= {own}
        assert client.notes == [note for note in direct.notes if note in client.notes]


def test_no_notification_is_lost_or_duplicated(scene, postgres):
    """While clients LISTEN, and their channels move, another client sends notifications continuously."""
    weir = full(scene, postgres, size=4)
    over = threading.Event()
    speaker = weir.client()
    said = []

    def speak():
        while not over.is_set():
            speaker.query("NOTIFY news, '%d'" % len(said))
            said.append(len(said))

    thread = threading.Thread(target=speak)
    thread.start()
    clients, firsts = [weir.client() for _ in range(len(rounds(12)))], []
    try:
        for client in clients:
            client.query("BEGIN")
            client.query("LISTEN news")
            client.query("COMMIT")
            firsts.append(len(said) + 1)        # the notifications from now on, and possibly those in transit
            until(lambda: len(said) > firsts[-1] + 3, "more is said")
            for _ in range(3):
                client.send(m.query("SELECT 1"))
                client.notes = getattr(client, "notes", []) + notes_of(client.result())
    finally:
        over.set()
        thread.join()
    speaker.query("NOTIFY news, 'last'")
    at_rest(weir)
    for client, first in zip(clients, firsts):
        notes = client.notes
        while not notes or notes[-1][1] != "last":
            notes += heard(client)
        numbers = [int(payload) for _, payload in notes[:-1]]
        assert numbers == list(range(numbers[0], len(said))) and numbers[0] <= first


@pytest.mark.parametrize("say, left", [
    (["UNLISTEN a"], ["b"]),
    (["UNLISTEN *"], []),
    (["DISCARD ALL"], []),
    (["BEGIN", "UNLISTEN a", "COMMIT"], ["b"]),
    (["BEGIN; UNLISTEN a; COMMIT"], ["b"]),
    (["BEGIN", "UNLISTEN a", "ROLLBACK"], ["a", "b"]),
    (["BEGIN", "SAVEPOINT s", "UNLISTEN a", "ROLLBACK TO s", "UNLISTEN b", "COMMIT"], ["a"]),
    (["BEGIN", "UNLISTEN a", "SAVEPOINT s", "UNLISTEN b", "ROLLBACK TO s", "UNLISTEN c", "COMMIT"], ["b"]),
    (["BEGIN", "UNLISTEN *", "LISTEN c", "COMMIT"], ["c"]),
    (["BEGIN", "UNLISTEN *", "SELECT 1/0", "COMMIT"], ["a", "b"]),
    (["BEGIN", "LISTEN c", "ROLLBACK"], ["a", "b"]),
    (["BEGIN", "SELECT 1", "UNLISTEN a", "UNLISTEN b", "LISTEN a", "COMMIT"], ["a"]),
    (["LISTEN c"], ["a", "b", "c"]),
    (["LISTEN a"], ["a", "b"]),
    (["DO $$ BEGIN EXECUTE 'UNLISTEN a'; END $$"], ["b"]),
])
def test_remaining_channels(scene, postgres, say, left):
    weir = full(scene, postgres)
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN a")
    mine.query("LISTEN a; LISTEN b")
    at_rest(weir)
    for sql in say:
        mine.query(sql)
    at_rest(weir)
    for channel in ("a", "b", "c"):
        other.query("NOTIFY " + channel)
        assert channel != "a" or heard(first) == [("a", "")]
    for channel in left:
        assert heard(mine) == [(channel, "")]
    quiet(weir, mine)
    assert channels(mine) == left
    at_rest(weir)
    assert channels(first) == ["a"] and channels(other) == []


@pytest.mark.parametrize("requests", [
    [["BEGIN"], ["NOTIFY a, '1'"], ["NOTIFY b, '2'"], ["UNLISTEN a"], ["COMMIT"]],
    [["BEGIN"], ["NOTIFY a, '1'"], ["NOTIFY b, '2'"], ["UNLISTEN *"], ["COMMIT", "SELECT 1"]],
    [["BEGIN; NOTIFY a, '1'; NOTIFY b, '2'; UNLISTEN a; COMMIT"]],
    [["NOTIFY a, '1'; NOTIFY b, '2'; UNLISTEN a"]],
    [["BEGIN"], ["UNLISTEN a"], ["NOTIFY a, '1'"], ["ROLLBACK"]],
    [["BEGIN"], ["SAVEPOINT s"], ["UNLISTEN a"], ["ROLLBACK TO s"], ["NOTIFY a, '1'"], ["COMMIT"]],
    [["NOTIFY a, '1'"], ["UNLISTEN a"], ["NOTIFY a, '2'"]],
])
def test_own_notifications_and_unlisten_in_one_transaction(scene, postgres, requests):
    """The client is told the same as on a direct connection: nothing from a channel that the transaction leaves."""
    weir = full(scene, postgres)
    first, mine, direct = weir.client(), weir.client(), Client(postgres.port)
    direct.login(user="postgres", database="p1")
    for client in (first, mine, direct):
        client.query("LISTEN a; LISTEN b")
    at_rest(weir)
    for texts in requests:
        told = []
        for client in (direct, mine):
            client.send(b"".join(m.query(text) for text in texts))
            told.append([note for _ in texts for note in notes_of(client.result())])
        assert told[1] == told[0]
    at_rest(weir)
    quiet(weir, mine)


@pytest.mark.parametrize("way", ["query", "one query", "unnamed", "named"])
def test_channels_in_a_transaction(scene, postgres, way):
    """pg_listening_channels() says what the transaction began with, as on a direct connection."""
    weir = full(scene, postgres, max_prepared_statements=20)
    direct, first, mine, other = (Client(postgres.port), *(weir.client() for _ in range(3)))
    direct.login(user="postgres", database="p0")
    for client in (direct, first, mine):
        client.query("LISTEN a; LISTEN b")
    at_rest(weir)
    if way == "named":
        mine.send(m.parse("/* x */ begin", "b") + m.sync())
        mine.result()

    def begin(client):
        if client is direct or way == "query":
            client.query("BEGIN")
        elif way == "unnamed":
            client.send(m.run("START TRANSACTION") + m.sync())
            client.result()
        elif way == "named":
            client.send(m.bind("b") + m.execute() + m.sync())
            client.result()
        else:
            client.query("SELECT 1; BEGIN")

    for steps in (["UNLISTEN a", "COMMIT"], ["UNLISTEN *", "ROLLBACK"], ["SAVEPOINT s", "UNLISTEN b", "ROLLBACK TO s", "LISTEN c", "COMMIT"],
                  ["SELECT 1", "COMMIT"]):
        told = []
        for client in (direct, mine):
            begin(client)
            told.append([])
            for step in steps:
                told[-1].append(channels(client))
                assert not client.query(step).errors
            told[-1].append(channels(client))
        assert told[0] == told[1]
        at_rest(weir)
    assert told[1][0] == ["b", "c"] and channels(other) == []
    other.query("NOTIFY a; NOTIFY b; NOTIFY c")
    assert heard(first, 2) == [("a", ""), ("b", "")] and heard(mine, 2) == [("b", ""), ("c", "")]
    quiet(weir, first, mine)


def test_unlisten_by_a_prepared_statement(scene, postgres):
    weir = full(scene, postgres, max_prepared_statements=20)
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN a")
    mine.query("LISTEN a")
    at_rest(weir)
    mine.send(m.parse("UNLISTEN a", "u") + m.sync())
    mine.result()
    mine.send(m.bind("u") + m.execute() + m.sync())
    assert not mine.result().errors
    at_rest(weir)
    other.query("NOTIFY a")
    assert heard(first) == [("a", "")]
    quiet(weir, mine)


@pytest.mark.parametrize("name", ['"With \\" quotes"'.replace('\\"', '""'), "MixedCase", '"MixedCase"', "x" * 63, "x" * 70, '"äöü"', "\"it's\""])
def test_names_of_channels(scene, postgres, name):
    weir = full(scene, postgres)
    mine, second, other = (weir.client() for _ in range(3))
    mine.query("LISTEN " + name)
    second.query("LISTEN " + name)
    at_rest(weir)
    other.query("NOTIFY %s, 'x'" % name)
    (told,) = heard(mine)
    assert [told] == heard(second) and told[1] == "x"
    mine.query("UNLISTEN " + name)
    at_rest(weir)
    other.query("NOTIFY %s, 'y'" % name)
    assert heard(second) == [(told[0], "y")]
    quiet(weir, mine)


def test_last_client_disconnects(scene, postgres):
    weir = full(scene, postgres)
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.query("LISTEN a")
    at_rest(weir)
    clients[0].query("UNLISTEN *")
    clients[1].send(m.terminate())
    clients[2].abort()
    until(lambda: not listening(weir) and {row["state"] for row in weir.show("SERVERS")} <= {"idle"}, "the listener is idle")
    for _ in range(4):
        assert channels(clients[0]) == []


def test_listener_connection_ends(scene, postgres):
    """Notifications in the meantime are lost: the clients reconnect and read their tables."""
    weir = full(scene, postgres)
    mine, busy, other = (weir.client() for _ in range(3))
    mine.query("LISTEN a")
    busy.query("LISTEN a")
    at_rest(weir)
    busy.query("BEGIN")
    postgres.execute("SELECT pg_terminate_backend(%d)" % listening(weir)[0]["remote_pid"])
    for client in (mine, busy):
        ended_with(client, "the server connection that listens for notifications has ended: server conn crashed?")
    mine = weir.client()
    mine.query("LISTEN a")
    other.query("NOTIFY a, 'x'")
    assert heard(mine) == [("a", "x")]


@pytest.mark.parametrize("verb", ["PAUSE", "RECONNECT", "SET session_state = 'off'", "SET pool_mode = 'session'", "SET default_pool_size = 1"])
def test_console_ends_the_listener(scene, postgres, verb):
    weir = full(scene, postgres)
    mine = weir.client()
    mine.query("LISTEN a")
    at_rest(weir)
    weir.admin(verb)
    mine.drain()
    until(lambda: not listening(weir), "there is no listener")


def test_suspend(scene, postgres):
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query("LISTEN a")
    at_rest(weir)
    weir.admin("SUSPEND")
    postgres.execute("NOTIFY a, 'x'", database="p0")
    weir.admin("RESUME")
    assert heard(mine) == [("a", "x")]
    other.query("SELECT 1")


def test_a_pool_of_one(scene, postgres):
    """There is no second server connection to work with: the client keeps the only one."""
    weir = full(scene, postgres, size=1)
    mine = weir.client()
    mine.query("LISTEN a")
    until(lambda: [row["pins"] for row in weir.show("PINS")] == ["listens"], "it is pinned")
    postgres.execute("NOTIFY a, 'x'", database="p0")
    assert heard(mine) == [("a", "x")]
    assert mine.query("NOTIFY a").types == "CAZ"


def test_with_other_pins(scene, postgres):
    """The channels move when nothing else keeps the server connection."""
    weir = full(scene, postgres)
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN a")
    at_rest(weir)
    mine.query("CREATE TEMP TABLE t (a int)")
    mine.query("LISTEN a; LISTEN b")
    until(lambda: [row["pins"] for row in weir.show("PINS")] == ["temporary objects, listens"], "it is pinned")
    for channel in ("a", "b"):
        other.query("NOTIFY " + channel)
        assert heard(mine) == [(channel, "")]
    assert heard(first) == [("a", "")]
    mine.query("DROP TABLE t")
    at_rest(weir)
    for channel in ("a", "b"):
        other.query("NOTIFY " + channel)
        assert heard(mine) == [(channel, "")]
    assert heard(first) == [("a", "")]
    mine.query("CREATE TEMP TABLE t (a int)")
    other.query("NOTIFY a")
    assert heard(mine) == [("a", "")]
    quiet(weir, mine)


def test_a_client_that_does_not_read(scene, postgres):
    weir = full(scene, postgres)
    first, slow, other = weir.client(), weir.connect(receive_buffer=4096), weir.client()
    slow.login(user="app", database="p0")
    first.query("LISTEN a")
    slow.query("LISTEN a")
    at_rest(weir)
    pid = slow.pid
    for turn in range(1000):
        other.query("NOTIFY a, '%s'" % ("%d" % turn + 7000 * "x"))
        assert len(heard(first)) == 1
        if turn > 100 and "too many notifications" in weir.log():
            break
    weir.wait_log("too many notifications wait for the client to read them")
    assert pid and channels(first) == ["a"]


def test_with_other_encodings(scene, postgres):
    weir = full(scene, postgres)
    first, latin, other = weir.client(), weir.client(client_encoding="LATIN1"), weir.client()
    first.query("LISTEN a")
    at_rest(weir)
    latin.query("LISTEN a")
    until(lambda: [row["pins"] for row in weir.show("PINS")] == ["listens"], "it is pinned")
    other.query("NOTIFY a, 'ä'")
    assert heard(first) == [("a", "ä")]
    assert latin.read().body[4:] == b"a\0\xe4\0"


def test_a_flood_reaches_all(scene, postgres):
    """More notifications and receivers than one turn takes; a client of another pool has answers meanwhile."""
    weir = scene.weir({"p0": postgres, "p1": postgres.target("p0", session_state="off")}, pool_mode="transaction", default_pool_size=3,
                      session_state="full", show_extra_columns=1, max_client_conn=500)
    listeners, other, count = [weir.client() for _ in range(80)], weir.client(database="p1"), 2000
    for client in listeners:
        assert not client.query("LISTEN news").errors
    at_rest(weir)
    speaks = weir.client()
    speaks.send(m.query("SELECT count(pg_notify('news', i::text)) FROM generate_series(1, %d) i" % count))
    for _ in rounds(50):
        assert other.query("SELECT 7").value == "7"
    assert speaks.result().value == str(count)
    for client in listeners:
        assert heard(client, count) == [("news", str(n + 1)) for n in range(count)]
    quiet(weir, *listeners)


def test_psycopg(scene, postgres):
    weir = full(scene, postgres)
    at = dict(host="127.0.0.1", port=weir.port, dbname="p0", user="app")
    with psycopg.connect(**at, autocommit=True) as hears, psycopg.connect(**at) as speaks:
        hears.execute("LISTEN weir")
        for turn in rounds(10):
            speaks.execute("SELECT pg_notify('weir', %s)", (str(turn),))
            speaks.commit()
        hears.execute("NOTIFY weir, 'own'")
        told = list(hears.notifies(timeout=20, stop_after=len(rounds(10)) + 1))
        assert [n.payload for n in told] == [str(turn) for turn in rounds(10)] + ["own"]
        assert told[-1].pid == hears.info.backend_pid and told[0].pid not in (hears.info.backend_pid, speaks.info.backend_pid)


def test_many_listeners_and_few_servers(scene, postgres):
    weir = full(scene, postgres, size=2, max_client_conn=500)
    clients = [weir.client() for _ in range(60)]
    for number, client in enumerate(clients):
        client.send(m.query("LISTEN c%d" % (number % 6)))
    for client in clients:
        client.result()
    at_rest(weir)
    other = weir.client()
    for number in range(6):
        other.query("NOTIFY c%d, 'x'" % number)
    for number, client in enumerate(clients):
        assert heard(client) == [("c%d" % (number % 6), "x")]
    assert pid_of(other)


def test_online_restart(scene, postgres):
    weir = full(scene, postgres, Replaced, server_tls_sslmode="disable")
    first, mine, busy, other = (weir.client() for _ in range(4))
    first.query("LISTEN a")
    mine.query("LISTEN a; LISTEN b")
    busy.query("LISTEN a")
    at_rest(weir)
    busy.query("BEGIN")
    other.query("NOTIFY a, 'before'")
    assert heard(first) == heard(mine) == [("a", "before")]
    weir.replace()
    at_rest(weir)
    other.query("NOTIFY a, 'after'")
    assert heard(first) == heard(mine) == [("a", "after")]
    assert notes_of(busy.query("COMMIT")) == [("a", "before"), ("a", "after")]
    assert mine.query("NOTIFY b, 'own'").types == "CAZ"
    mine.query("UNLISTEN a")
    late = weir.client()
    late.query("LISTEN b")
    at_rest(weir)
    other.query("NOTIFY a, '1'; NOTIFY b, '2'")
    assert heard(first) == heard(busy) == [("a", "1")] and heard(mine) == heard(late) == [("b", "2")]
    quiet(weir, first, mine, busy, late)


def test_online_restart_of_a_pinned_client(scene, postgres):
    weir = full(scene, postgres, Replaced, server_tls_sslmode="disable")
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN a")
    at_rest(weir)
    mine.query("CREATE TEMP TABLE t (a int)")
    mine.query("LISTEN b")
    until(lambda: [row["pins"] for row in weir.show("PINS")] == ["temporary objects, listens"], "it is pinned")
    weir.replace()
    other.query("NOTIFY b, '1'")
    assert heard(mine) == [("b", "1")]
    mine.query("DROP TABLE t")
    at_rest(weir)
    other.query("NOTIFY b, '2'; NOTIFY a")
    assert heard(mine) == [("b", "2")] and heard(first) == [("a", "")]
    quiet(weir, mine, first)


def test_online_restart_with_tls(scene, postgres):
    """A listener with TLS remains in the old process, and so do its clients."""
    weir = full(scene, postgres, Replaced)
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN a")
    mine.query("LISTEN a")
    at_rest(weir)
    weir.replace()
    other.query("NOTIFY a, 'x'")
    assert heard(first) == heard(mine) == [("a", "x")]
    late = weir.client()
    late.query("LISTEN a")
    at_rest(weir)
    other.query("NOTIFY a, 'y'")
    assert heard(first) == heard(mine) == heard(late) == [("a", "y")]


def test_too_many_channels(scene, postgres):
    """Then the client keeps its server connection for them."""
    weir = full(scene, postgres)
    mine, other = weir.client(), weir.client()
    mine.query(";".join("LISTEN %s%d" % (50 * "x", number) for number in range(501)))
    until(lambda: [row["pins"] for row in weir.show("PINS")] == ["listens"], "it is pinned")
    other.query("NOTIFY %s7, 'x'" % (50 * "x"))
    assert heard(mine) == [(50 * "x" + "7", "x")]
    assert not listening(weir)
    mine.query("UNLISTEN *")
    until(lambda: not weir.show("PINS"), "it is free")


@pytest.mark.parametrize("sent", ["COPY t TO STDOUT", "COPY t FROM STDIN"])
def test_with_a_copy(scene, postgres, sent):
    weir = full(scene, postgres)
    first, mine, other = (weir.client() for _ in range(3))
    other.query("CREATE TABLE IF NOT EXISTS listen_t AS SELECT 1 AS a")
    first.query("LISTEN news")
    mine.query("LISTEN news")
    at_rest(weir)
    mine.send(m.query(sent.replace("t", "listen_t", 1)))
    if "STDIN" in sent:
        mine.read_until("G")
        other.query("NOTIFY news, 'x'")
        assert heard(first) == [("news", "x")]
        mine.send(m.copy_data(b"2\n") + m.copy_done())
        assert notes_of(mine.result()) == [("news", "x")]
    else:
        assert mine.result().tags[0].startswith("COPY")
        other.query("NOTIFY news, 'x'")
        assert heard(first) == heard(mine) == [("news", "x")]
    quiet(weir, first, mine)
    other.query("DROP TABLE listen_t")


def test_client_is_cancelled_or_killed(scene, postgres):
    weir = full(scene, postgres)
    first, mine, other = (weir.client() for _ in range(3))
    first.query("LISTEN news")
    mine.query("LISTEN news")
    at_rest(weir)
    mine.send(m.query("SELECT pg_sleep(60)"))
    weir.wait_pool("p0", sv_active=2)
    weir.cancel(mine)
    assert mine.result().error == "canceling statement due to user request"
    weir.admin("KILL_CLIENT %s" % [row["ptr"] for row in weir.show("CLIENTS") if row["port"] == mine.sock.getsockname()[1]][0])
    mine.drain()
    other.query("NOTIFY news, 'x'")
    assert heard(first) == [("news", "x")]
    at_rest(weir)
