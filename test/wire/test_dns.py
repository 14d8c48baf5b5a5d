"""
Names of servers: several addresses, lifetimes, changes, and name servers that fail, send false answers or are silent.

The PostgreSQL servers are fakes at several addresses of loopback and one port. The server that gets a client's query is the one linked to the client.
"""
import itertools
import socket
import threading

import pytest

from support import messages as m
from support.live import NEVER, last_words
from support.nameserver import NXDOMAIN, REFUSED, SERVFAIL, encode_name, record, write_resolv_conf
from support.until import DEADLINE, until

NAME = "db.example.test"
_numbers = itertools.count()


def where(client, fakes):
    """The place of the server that serves this client's next query."""
    text = "question %d" % next(_numbers)
    assert client.query(text).value == text
    (place,) = [n for n, fake in enumerate(fakes) if text in (asked for _, asked in fake.queries)]
    return place


def hold(client, fakes):
    """As where(), and keeps it in a transaction."""
    client.query("BEGIN")
    return where(client, fakes)


def by_name(scene, names, port, **settings):
    names = names if isinstance(names, list) else [names]
    settings.setdefault("server_idle_timeout", NEVER)
    return scene.weir({"p0": "host=%s port=%d" % (NAME, port)}, pool_mode="transaction",
                      resolv_conf=write_resolv_conf(scene.directory, *names), **settings)


def hosts(weir):
    return {row["hostname"]: row for row in weir.show("DNS_HOSTS")}


# --- several addresses

def test_connections_go_to_all_addresses_in_turn(scene):
    fakes = scene.hosts("127.0.0.2", "127.0.0.3", "127.0.0.4")
    names = scene.nameserver()
    names.set(NAME, a=[fake.host for fake in fakes])
    weir = by_name(scene, names, fakes[0].port)
    seen = [hold(weir.client(), fakes) for _ in range(6)]
    assert sorted(seen) == [0, 0, 1, 1, 2, 2]
    assert names.count("A") == 1 and names.count("AAAA") == 1


def test_dead_address_is_skipped(scene):
    """Trap 88: one of three is down."""
    fakes = scene.hosts("127.0.0.2", "127.0.0.3", "127.0.0.4")
    fakes[1].stop_listening()
    names = scene.nameserver()
    names.set(NAME, a=[fake.host for fake in fakes])
    weir = by_name(scene, names, fakes[0].port)
    assert {hold(weir.client(), fakes) for _ in range(6)} == {0, 2}


def test_silent_address_delays_once(scene):
    """Trap 88: an address that drops packets does not delay every third connection."""
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    hole = socket.create_server(("127.0.0.4", fakes[0].port))
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.4", "127.0.0.2", "127.0.0.3"])
    weir = by_name(scene, names, fakes[0].port, server_connect_timeout=1.5, server_login_retry=NEVER, server_lifetime=0)
    client = weir.client()
    seen = [where(client, fakes) for _ in range(12)]
    hole.close()
    assert seen.count(0) > 2 and seen.count(1) > 2
    assert weir.log().count("no answer") == 1


def test_records_of_the_other_family_are_ignored(scene):
    """An answer to the question for IPv6 that has IPv4 addresses would have each of them tried twice."""
    names, fake = scene.nameserver(), scene.mini(host="127.0.0.2")
    names.play = lambda question: [question.reply(record(question.name, "A", 60, "127.0.0.2"))]
    weir = by_name(scene, names, fake.port)
    assert where(weir.client(), [fake]) == 0
    assert names.count("AAAA") == 1 and hosts(weir)[NAME]["addrs"].count("127.0.0.2") == 1


# --- one family fails: trap 87

@pytest.mark.parametrize("fate", ["silent", "SERVFAIL", "REFUSED", "NXDOMAIN", "empty"])
@pytest.mark.parametrize("bad", ["A", "AAAA"])
def test_failure_of_one_family_does_not_affect_the_other(scene, fate, bad):
    """Trap 87."""
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"] if bad != "A" else (), aaaa=["2001:db8::7"] if bad != "AAAA" else ())

    def play(question):
        if question.kind != bad or fate == "empty":
            return names.answer(question)
        if fate == "silent":
            return []
        return [question.reply(rcode={"SERVFAIL": SERVFAIL, "REFUSED": REFUSED, "NXDOMAIN": NXDOMAIN}[fate])]
    names.play = play
    weir = by_name(scene, names, fake.port)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    until(lambda: hosts(weir).get(NAME, {}).get("addrs"), "the name is known")
    if bad == "AAAA":
        assert client.read_until("Z") and where(client, [fake]) == 0
    else:
        assert hosts(weir)[NAME]["addrs"] == "[2001:db8::7]:0"


# --- lifetimes

def test_answer_is_cached_for_its_lifetime(scene):
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=4000)
    weir = by_name(scene, names, fake.port, dns_max_ttl=3000)
    for _ in range(3):
        hold(weir.client(), [fake])
    row = hosts(weir)[NAME]
    assert 2900 < row["ttl"] <= 3000 and row["addrs"] == "127.0.0.2:0"
    assert names.count("A") == 1
    # a RELOAD shortens the lifetime of cached answers too
    weir.settings["dns_max_ttl"] = 0
    weir.write_ini()
    weir.admin("RELOAD")
    hold(weir.client(), [fake])
    assert names.count("A") == 2 and hosts(weir)[NAME]["ttl"] == 0


@pytest.mark.parametrize("ttl", [0, 1 << 31, (1 << 32) - 1])
def test_extreme_lifetimes(scene, ttl):
    """Trap 87: a TTL that wraps."""
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=ttl)
    weir = by_name(scene, names, fake.port)
    for _ in range(3):
        hold(weir.client(), [fake])
    assert 0 <= hosts(weir)[NAME]["ttl"] <= 15
    assert ttl != 0 or names.count("A") == 3


@pytest.mark.parametrize("rcode", [NXDOMAIN, SERVFAIL, REFUSED])
def test_failure_is_cached_for_dns_nxdomain_ttl(scene, rcode):
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, rcode=rcode)
    weir = by_name(scene, names, fake.port, dns_nxdomain_ttl=NEVER, server_login_retry=0, server_down="fail")
    for _ in range(3):
        assert weir.connect().refused(user="app", database="p0")["M"].startswith("server DNS lookup failed (")
    asked = names.count("A", NAME)
    assert weir.connect().refused(user="app", database="p0")["M"].startswith("server DNS lookup failed (")
    assert names.count("A", NAME) == asked
    row = hosts(weir)[NAME]
    assert row["ttl"] > 3000 and row["addrs"] == ""
    weir.wait_log(r'DNS lookup failed: %s: result=0 \(.+\)$' % NAME)
    # and forgotten when the setting says so
    names.set(NAME, a=["127.0.0.2"])
    weir.admin("SET dns_nxdomain_ttl = 0")
    assert where(weir.client(), [fake]) == 0


# --- silence: trap 87

def test_silent_name_server_ends_in_time_and_recovers(scene):
    """Trap 87."""
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.play = names.silent
    weir = by_name(scene, names, fake.port, server_connect_timeout=0.5, dns_nxdomain_ttl=0, server_login_retry=0, server_down="fail")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert last_words(client)["M"] == "connect timeout"
    weir.wait_log('no answer to the DNS question in time from host "%s"' % NAME)
    names.set(NAME, a=["127.0.0.2"])
    names.play = names.answer
    weir.admin("RELOAD")
    weir.admin("SET server_connect_timeout = 15")
    assert where(weir.client(), [fake]) == 0


def test_silent_name_server_does_not_delay_other_clients(scene):
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.play = names.silent
    weir = scene.weir({"p0": "host=%s port=%d" % (NAME, fake.port), "p1": "host=127.0.0.2 port=%d" % fake.port},
                      resolv_conf=write_resolv_conf(scene.directory, names))
    waiting = weir.connect()
    waiting.send(m.startup(user="app", database="p0"))
    names.wait_asked("A")
    for _ in range(3):
        assert where(weir.client(database="p1"), [fake]) == 0
    lists = {row["list"]: row["items"] for row in weir.show("LISTS")}
    assert lists["dns_names"] == 1 and lists["dns_queries"] == 1
    assert not waiting.has_input()


def test_slow_name_server_does_not_delay_other_clients(scene):
    (fake,) = scene.hosts("127.0.0.2")
    names, answers_now = scene.nameserver(), threading.Event()
    names.set(NAME, a=["127.0.0.2"])

    def slowly(question):
        assert answers_now.wait(DEADLINE)
        return names.answer(question)
    names.play = slowly
    weir = scene.weir({"p0": "host=%s port=%d" % (NAME, fake.port), "p1": "host=127.0.0.2 port=%d" % fake.port},
                      resolv_conf=write_resolv_conf(scene.directory, names))
    waiting = [weir.connect() for _ in range(5)]
    for client in waiting:
        client.send(m.startup(user="app", database="p0"))
    names.wait_asked("A")
    assert where(weir.client(database="p1"), [fake]) == 0
    # one question for all of them
    assert {row["list"]: row["items"] for row in weir.show("LISTS")}["dns_queries"] == 1
    answers_now.set()
    for client in waiting:
        assert client.read_until("Z")


def test_reload_repeats_pending_queries_at_the_new_name_server(scene):
    (fake,) = scene.hosts("127.0.0.2")
    silent, names = scene.nameserver(), scene.nameserver()
    silent.play = silent.silent
    names.set(NAME, a=["127.0.0.2"])
    weir = by_name(scene, silent, fake.port)
    waiting = weir.connect()
    waiting.send(m.startup(user="app", database="p0"))
    silent.wait_asked("A")
    write_resolv_conf(scene.directory, names)
    weir.admin("RELOAD")
    assert waiting.read_until("Z")[-1].type == "Z"
    assert names.count("A") == 1


def test_second_name_server_is_asked_when_the_first_is_silent(scene):
    (fake,) = scene.hosts("127.0.0.2")
    silent, names = scene.nameserver(), scene.nameserver()
    silent.play = silent.silent
    names.set(NAME, a=["127.0.0.2"])
    weir = by_name(scene, [silent, names], fake.port)
    assert where(weir.client(), [fake]) == 0


# --- lies

def _other_name(question):
    section = encode_name("evil.example.test") + question.section[-4:]
    return [question.reply(record("evil.example.test", question.kind, 60, b"\x7f\0\0\7"), section=section)]


def _circle(question):
    return [question.reply(record(NAME, "CNAME", 60, "a.example.test"), record("a.example.test", "CNAME", 60, NAME))]


LIES = {
    "other number": lambda q: [q.reply(record(q.name, "A", 60, "127.0.0.7"), number=bytes([q.id[0] ^ 1, q.id[1]]))],
    "other question": _other_name,
    "short address": lambda q: [q.reply(record(q.name, "A", 60, b"\x7f\0"))],
    "long address": lambda q: [q.reply(record(q.name, "A", 60, b"\x7f\0\0\1" * 9))],
    "cut": lambda q: [q.reply(record(q.name, "A", 60, "127.0.0.7"))[:-3]],
    "only a header": lambda q: [q.reply()[:12]],
    "nothing": lambda q: [q.id],
    "noise": lambda q: [q.id + bytes(range(256)) * 2],
    "names in a circle": _circle,
    "pointer to itself": lambda q: [q.reply(b"\xc0" + bytes([12 + len(q.section)]) + record("", "A", 60, "127.0.0.7")[1:])],
    "address of another name": lambda q: [q.reply(record("evil.test", "A", 60, "127.0.0.7"))],
    "truncated for ever": lambda q: [q.reply(truncated=True)],
}


@pytest.mark.parametrize("lie", LIES)
def test_false_answers(scene, lie):
    """Whatever it says, the login ends in time, nothing is connected to, and the next one, honestly answered, works."""
    fake, wrong = scene.hosts("127.0.0.2", "127.0.0.7")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"])
    names.play = LIES[lie]
    weir = by_name(scene, names, fake.port, server_connect_timeout=1, dns_nxdomain_ttl=0, server_login_retry=0, server_down="fail")
    words = weir.connect().refused(user="app", database="p0")["M"]
    # some releases of c-ares check the addresses only, whatever their name
    assert words.startswith("server DNS lookup failed (") or words == "connect timeout"
    assert not wrong.started
    names.play = names.answer
    weir.admin("RELOAD")
    assert where(weir.client(), [fake]) == 0


def test_truncated_answer_is_repeated_over_tcp(scene):
    fakes = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"])
    over_tcp = []

    def play(question):
        over_tcp.append(question.over_tcp)
        return names.answer(question) if question.over_tcp else [question.reply(truncated=True)]
    names.play = play
    assert where(by_name(scene, names, fakes[0].port).client(), fakes) == 0
    assert True in over_tcp


def test_large_number_of_addresses(scene):
    fakes = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.play = lambda q: [q.reply(*[record(q.name, "A", 60, "127.0.0.2")] * (1000 if q.kind == "A" else 0),
                                    truncated=not q.over_tcp)[:None if q.over_tcp else 12 + len(q.section)]]
    weir = by_name(scene, names, fakes[0].port)
    assert where(weir.client(), fakes) == 0
    assert hosts(weir)[NAME]["addrs"].count(",") == 255


# --- changes

def test_changed_answer_retires_connections_to_old_addresses(scene):
    """Trap 87."""
    old, new = fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, old.port, min_pool_size=0)
    busy, idle = weir.client(), weir.client()
    assert hold(busy, fakes) == 0 and hold(idle, fakes) == 0
    idle.query("COMMIT")
    names.set(NAME, a=["127.0.0.3"], ttl=0)
    third, fourth = weir.client(), weir.client()
    assert hold(third, fakes) == 0          # the idle connection
    assert hold(fourth, fakes) == 1         # a new one, for which the name is asked
    weir.wait_log('addresses of "%s" have changed, 2 server connections are obsolete' % NAME)
    # a server in a transaction stays until the transaction is over
    assert where(busy, fakes) == 0
    busy.query("COMMIT")
    weir.wait_log("127.0.0.2:%d closing because: obsolete connection" % old.port)
    third.query("COMMIT")
    weir.wait_log("127.0.0.2:%d closing because: obsolete connection" % old.port, times=2)
    assert where(busy, fakes) == 1
    assert new.started


def test_idle_connections_to_a_removed_address_close_at_once(scene):
    old, new = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, old.port)
    weir.databases["p1"] = weir.databases["p0"]
    weir.write_ini()
    weir.admin("RELOAD")
    assert where(weir.client(), [old, new]) == 0
    names.set(NAME, a=["127.0.0.3"], ttl=0)
    # another pool asks for the same name
    assert where(weir.client(database="p1"), [old, new]) == 1
    weir.wait_log("p0/app@127.0.0.2:%d closing because: obsolete connection" % old.port)
    weir.wait_pool("p0", sv_idle=0, sv_used=0)
    weir.wait_pool("p1", sv_idle=1)


def test_login_at_a_removed_address_is_ended(scene):
    """The address drops packets, and only the change ends the login there, which does not count as a failed login."""
    (fake,) = scene.hosts("127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    with socket.create_server(("127.0.0.2", fake.port)):
        weir = by_name(scene, names, fake.port, server_connect_timeout=0, server_login_retry=NEVER, default_pool_size=1)
        weir.databases["p1"] = weir.databases["p0"]
        weir.write_ini()
        weir.admin("RELOAD")
        waiting = weir.connect()
        waiting.send(m.startup(user="app", database="p0"))
        weir.wait_log("127.0.0.2:%d new connection to server" % fake.port)
        names.set(NAME, a=["127.0.0.3"], ttl=0)
        # another pool asks for the same name
        assert weir.client(database="p1").query("moved").value == "moved"
        assert waiting.read_until("Z")
        assert waiting.query("served").value == "served"
        weir.wait_log("127.0.0.2:%d closing because: obsolete connection" % fake.port)


def test_answers_that_differ_each_time_end_no_login(scene):
    """A name server that gives each its own address: the question of one login must not end the other, or none would ever be done."""
    fakes = one, other = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, one.port)
    clients = [weir.client() for _ in range(3)]
    assert hold(clients[0], fakes) == 0
    gate = threading.Event()

    def login(session):
        gate.wait(DEADLINE)
        session.welcome()

    one.login = other.login = login
    for client, fake, address in zip(clients[1:], (other, one), ("127.0.0.3", "127.0.0.2")):
        before = len(fake.started)
        names.set(NAME, a=[address], ttl=0)
        client.send(m.query("BEGIN"))
        until(lambda: len(fake.started) > before, "it is about to be let in")   # pylint: disable=cell-var-from-loop
    weir.wait_log('addresses of "%s" have changed, 1 server connections are obsolete' % NAME, times=2)
    weir.barrier()
    assert "closing because: obsolete connection (age=0s)" not in weir.log()
    gate.set()
    for client in clients[1:]:
        assert client.result().status == "T"


def test_idle_pool_notices_a_change(scene):
    """No connection is opened, so none would cause a look-up: pgweir asks for the name as long as connections depend on it."""
    old, new = fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, old.port, default_pool_size=1)
    client = weir.client()
    assert where(client, fakes) == 0
    names.set(NAME, a=["127.0.0.3"], ttl=0)
    weir.wait_log("127.0.0.2:%d closing because: obsolete connection" % old.port)
    assert where(client, fakes) == 1
    # nor does a failing name server remove known addresses or working connections
    names.set(NAME, rcode=SERVFAIL)
    names.wait_asked("A", times=names.count("A") + 2)
    assert weir.pool("p0")["sv_idle"] == 1 and hosts(weir)[NAME]["addrs"] == "127.0.0.3:0"
    assert new.started


def test_unused_name_is_not_refreshed(scene):
    """The answer has expired, and the connections are closed."""
    fakes = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    names.set("other.test", a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, fakes[0].port)
    weir.databases["p1"] = weir.databases["p0"].replace(NAME, "other.test")
    weir.write_ini()
    weir.admin("RELOAD")
    where(weir.client(database="p1"), fakes), where(weir.client(), fakes)
    weir.admin("RECONNECT p1")
    weir.admin("WAIT_CLOSE p1")
    before = names.count("A", "other.test")
    names.wait_asked("A", NAME, times=names.count("A", NAME) + 2)
    assert names.count("A", "other.test") == before


def test_added_or_reordered_addresses_retire_nothing(scene):
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, fakes[0].port)
    clients = [weir.client() for _ in range(3)]
    assert hold(clients[0], fakes) == 0
    names.set(NAME, a=["127.0.0.3", "127.0.0.2"], ttl=0)
    hold(clients[1], fakes), hold(clients[2], fakes)
    for client in clients:
        client.query("COMMIT")
    assert weir.pool("p0")["sv_idle"] == 3
    assert "have changed" not in weir.log()


@pytest.mark.parametrize("rcode", [NXDOMAIN, SERVFAIL])
def test_name_that_stops_resolving_keeps_connections(scene, rcode):
    """A name server that fails must not end working connections; and an address that comes back is not a change."""
    fakes = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, fakes[0].port, dns_nxdomain_ttl=0, server_login_retry=0, query_wait_timeout=NEVER)
    first = weir.client()
    hold(first, fakes)
    names.set(NAME, rcode=rcode)
    second = weir.client()
    second.send(m.query("later"))
    weir.wait_log('DNS lookup failed: %s: ' % NAME)
    assert where(first, fakes) == 0
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    first.query("COMMIT")
    assert second.result().value == "later"
    third, fourth = weir.client(), weir.client()
    assert hold(third, fakes) == hold(fourth, fakes) == 0
    assert "have changed" not in weir.log()


def test_cancel_goes_to_the_old_address_of_its_query(scene):
    old, new = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"], ttl=0)
    weir = by_name(scene, names, old.port)
    client = weir.client()
    client.query("BEGIN")
    client.send(m.query("wait"))
    names.set(NAME, a=["127.0.0.3"], ttl=0)
    hold(weir.client(), [old, new])
    with weir.cancel(client):
        assert client.result().errors[0]["C"] == "57014"
    assert old.next_cancel()


# --- zones

def test_increased_zone_serial_refreshes_its_names(scene):
    old, new = fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"])
    names.set("example.test", soa=7)
    weir = by_name(scene, names, old.port, dns_max_ttl=NEVER, dns_zone_check_period=0.1)
    client = weir.client()
    assert where(client, fakes) == 0
    until(lambda: weir.show("DNS_ZONES") == [{"zonename": "example.test", "serial": 7, "count": 1}], "the serial is known")
    names.wait_asked("SOA", times=names.count("SOA") + 2)
    assert names.count("A") == 1            # the answer may be kept for long
    names.set(NAME, a=["127.0.0.3"])
    names.set("example.test", soa=8)
    weir.wait_log("closing because: obsolete connection")
    assert where(client, fakes) == 1
    assert weir.show("DNS_ZONES") == [{"zonename": "example.test", "serial": 8, "count": 1}]
    assert {row["list"]: row["items"] for row in weir.show("LISTS")}["dns_zones"] == 1
    # switched off, zones are not watched any more
    weir.admin("SET dns_zone_check_period = 0")
    assert weir.show("DNS_ZONES") == []


def test_silent_name_server_is_not_flooded_by_zone_checks(scene):
    (fake,) = scene.hosts("127.0.0.2")
    names = scene.nameserver()
    names.set(NAME, a=["127.0.0.2"])
    names.play = lambda question: [] if question.kind == "SOA" else names.answer(question)
    weir = by_name(scene, names, fake.port, dns_zone_check_period=0.001)
    hold(weir.client(), [fake])
    names.wait_asked("SOA")
    for _ in range(15):
        hold(weir.client(), [fake])
    assert names.count("SOA") <= 3          # the question, and c-ares's own repetitions


# --- a real name server

def test_dnsmasq(scene):
    old, new = fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.dnsmasq("example.test", {"db": ["127.0.0.2"]}, ttl=NEVER)
    weir = by_name(scene, names, old.port, dns_max_ttl=NEVER, dns_zone_check_period=0.1)
    client = weir.client()
    assert where(client, fakes) == 0
    assert hosts(weir)[NAME]["addrs"] == "127.0.0.2:0"
    until(lambda: [row["serial"] for row in weir.show("DNS_ZONES")] == [names.serial], "the serial is known")
    names.set(db=["127.0.0.3"])
    weir.wait_log("closing because: obsolete connection")
    assert where(client, fakes) == 1
    assert [row["serial"] for row in weir.show("DNS_ZONES")] == [names.serial]


def test_dnsmasq_goes_away_and_comes_back(scene):
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    names = scene.dnsmasq("example.test", {"db": ["127.0.0.2", "127.0.0.3"]})
    weir = by_name(scene, names, fakes[0].port, dns_nxdomain_ttl=0, server_login_retry=0)
    clients = [weir.client() for _ in range(2)]
    assert {hold(client, fakes) for client in clients} == {0, 1}
    names.stop()
    third = weir.client()
    third.send(m.query("BEGIN"))
    weir.wait_log('DNS lookup failed: %s: ' % NAME)
    assert where(clients[0], fakes) in (0, 1)
    names.start()
    assert third.result().tags == ["BEGIN"]
