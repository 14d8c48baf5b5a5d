"""
Lists of hosts, and servers that are away: which host pgweir connects to, how long that takes, which clients wait and which get an error.

The hosts are played servers at several addresses of loopback, on one port.
"""
import itertools
import re
import socket

import pytest

from support import messages as m
from support.live import NEVER, SOON, last_words
from support.nameserver import write_resolv_conf
from support.ports import free_port
from support.until import until

_numbers = itertools.count()
FOUR = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")


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


def target(fakes, **more):
    parts = dict(host=",".join(fake.host for fake in fakes), port=fakes[0].port, **more)
    return " ".join("%s=%s" % part for part in parts.items())


def listed(scene, fakes, balance="round-robin", **settings):
    settings.setdefault("server_idle_timeout", NEVER)
    return scene.weir({"p0": target(fakes, load_balance_hosts=balance)}, pool_mode="transaction", **settings)


def refuses(*fields):
    """A login that ends with this error."""
    def login(session):
        session.send(m.error(*fields, severity="FATAL"))
        session.close()
    return login


class BlackHole:
    """Takes connections, in the kernel's name, and never says anything."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        self.socket = socket.create_server((host, port))

    def stop(self):
        self.socket.close()


@pytest.fixture
def black_hole(scene):
    def make(host, port):
        hole = BlackHole(host, port)
        scene.servers.append(hole)
        return hole
    return make


# --- the host that pgweir connects to

def test_round_robin_continues_over_all_connections(scene):
    """Trap 78: a counter that overflows. Each connection ends after one transaction, and the next host has its turn."""
    fakes = scene.hosts(*FOUR[:3])
    weir = listed(scene, fakes, server_lifetime=0)
    client = weir.client()
    seen = [where(client, fakes) for _ in range(300)]
    assert len(set(zip(seen, seen[1:]))) == 3 and {seen.count(n) for n in range(3)} == {100}


def test_disable_keeps_the_working_host(scene):
    fakes = scene.hosts(*FOUR[:3])
    # with a time to retry, a host that failed would be left out for that time in any case
    weir = listed(scene, fakes, "disable", server_lifetime=0, server_login_retry=0)
    client = weir.client()
    assert {where(client, fakes) for _ in range(5)} == {0}
    fakes[0].stop_listening()
    assert {where(client, fakes) for _ in range(5)} == {1}
    # it stays there when the first is back, until this one fails
    fakes[0].listen()
    assert {where(client, fakes) for _ in range(5)} == {1}
    fakes[1].stop_listening()
    assert {where(client, fakes) for _ in range(5)} == {2}


def test_dead_host_is_not_tried_again_before_server_login_retry(scene):
    """Trap 88: one dead host delays all."""
    fakes = scene.hosts(*FOUR[:3])
    weir = listed(scene, fakes, server_lifetime=0, server_login_retry=NEVER)
    fakes[1].stop_listening()
    client = weir.client()
    seen = [where(client, fakes) for _ in range(20)]
    assert seen.count(0) == seen.count(2) == 10
    assert weir.log().count("%s:%d closing because: connect failed (" % (fakes[1].host, fakes[1].port)) == 1
    # all hosts are dead: those given up are tried again
    fakes[1].listen()
    fakes[0].stop_listening()
    fakes[2].stop_listening()
    assert where(client, fakes) == 1


def test_dead_host_is_known_to_all_pools(scene):
    """One connection attempt in the whole process detects a dead host; a refused login concerns its own pool only."""
    fakes = scene.hosts(*FOUR[:2])
    weir = scene.weir({name: target(fakes, load_balance_hosts="round-robin") for name in ("p0", "p1", "p2")}, pool_mode="transaction",
                      server_lifetime=0, server_login_retry=NEVER, server_idle_timeout=NEVER)
    refused = "%s:%d closing because: connect failed (" % (fakes[0].host, fakes[0].port)
    fakes[0].stop_listening()
    clients = [weir.client(database=name) for name in ("p0", "p1", "p2")]
    for _ in range(2):
        assert [where(client, fakes) for client in clients] == [1, 1, 1]
    assert weir.log().count(refused) == 1
    fakes[0].listen()
    fakes[1].stop_listening()
    assert [where(client, fakes) for client in clients] == [0, 0, 0]


def test_a_refused_login_says_nothing_about_the_host_to_others(scene):
    fakes = scene.hosts(*FOUR[:2])
    weir = scene.weir({name: target(fakes, load_balance_hosts="round-robin") for name in ("p0", "p1")}, pool_mode="transaction",
                      server_lifetime=0, server_login_retry=NEVER, server_idle_timeout=NEVER)
    welcomes = fakes[0].login
    fakes[0].login = refuses("too many connections for role", "53300")
    client = weir.client(database="p0")
    assert {where(client, fakes) for _ in range(4)} == {1}
    fakes[0].login = welcomes
    client = weir.client(database="p1")
    assert {where(client, fakes) for _ in range(4)} == {0, 1}


def test_dead_host_comes_back_after_server_login_retry(scene):
    fakes = scene.hosts(*FOUR[:2])
    weir = listed(scene, fakes, server_lifetime=0, server_login_retry=SOON)
    fakes[1].stop_listening()
    client = weir.client()
    assert {where(client, fakes) for _ in range(4)} == {0}
    fakes[1].listen()
    until(lambda: where(client, fakes) == 1, "the host is used again")


def test_silent_host_uses_only_its_share_of_the_timeout(scene, black_hole):
    """Trap 88: with a host that takes connections and says nothing, the login ends long before server_connect_timeout."""
    fakes = scene.hosts(*FOUR[:2])
    holes = [black_hole(address, fakes[0].port) for address in FOUR[2:]]
    weir = listed(scene, holes + fakes, server_connect_timeout=2, server_login_retry=NEVER)
    assert where(weir.client(), fakes) == 0
    for hole in holes:
        weir.wait_log(r'no answer in the login in time from host "%s"|no answer to SSLRequest in time from host "%s"'
                      % (hole.host, hole.host))
    # each is left, and the connection that the client gets is the first
    weir.wait_log("S-0x.* closing because: connect timeout", times=2)
    assert len(fakes[0].started) == 1


def test_all_hosts_are_silent(scene, black_hole):
    holes = [black_hole(FOUR[0], free_port())]
    holes += [black_hole(address, holes[0].port) for address in FOUR[1:3]]
    weir = listed(scene, holes, server_connect_timeout=2, server_down="fail")
    assert weir.connect().refused(user="app", database="p0")["M"] == "connect timeout"
    assert len(set(line.partition("from host")[2] for line in weir.log().splitlines() if "no answer" in line)) == 3


@pytest.mark.parametrize("balance", ["round-robin", "disable"])
@pytest.mark.parametrize("fields", [("the database system is starting up", "57P03"),
                                    ("the database system is shutting down", "57P01"),
                                    ("sorry, too many clients already", "53300")])
def test_host_that_is_not_ready_is_followed_by_the_next(scene, fields, balance):
    """Host trap 9."""
    fakes = scene.hosts(*FOUR[:2])
    fakes[0].login = refuses(*fields)
    weir = listed(scene, fakes, balance, server_login_retry=NEVER)
    assert {hold(weir.client(), fakes) for _ in range(3)} == {1}
    weir.wait_log("server login failed: FATAL " + fields[0])
    # the same login continues at the other host, and the first host gets no further attempt
    assert len(fakes[0].started) == 1 and weir.log().count("closing because: " + fields[0]) == 1


@pytest.mark.parametrize("fields", [("password authentication failed", "28P01"), ("no such database", "3D000"),
                                    ("no pg_hba.conf entry", "28000")])
def test_final_refusal_is_not_retried_at_another_host(scene, fields):
    """As in libpq: a password that one host refuses is not shown to the others."""
    fakes = scene.hosts(*FOUR[:2])
    fakes[0].login = refuses(*fields)
    weir = listed(scene, fakes, server_login_retry=NEVER)
    assert weir.connect().refused(user="app", database="p0")["M"] == fields[0]
    assert not fakes[1].started


def test_next_host_is_tried_after_a_broken_login(scene):
    fakes = scene.hosts(*FOUR[:3])
    fakes[0].login = lambda session: session.close()
    fakes[1].login = lambda session: (session.send(m.authentication_ok()), session.close())
    weir = listed(scene, fakes)
    assert where(weir.client(), fakes) == 2


def test_parameters_of_a_broken_login_are_discarded(scene):
    fakes = scene.hosts(*FOUR[:2])

    def half(session):
        session.send(m.authentication_ok(), m.parameter_status("server_version", "9.6"),
                     m.parameter_status("TimeZone", "Asia/Tokyo"), m.parameter_status("only_here", "1"))
        session.close()
    fakes[0].login = half
    weir = listed(scene, fakes)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    told = dict(m.read_parameter(got.body) for got in client.read_until("Z") if got.type == "S")
    assert told["server_version"] == "15.6" and told["TimeZone"] == "UTC" and "only_here" not in told


# --- TLS: trap 78

@pytest.mark.parametrize("first_is", ["good", "bad"])
def test_verify_full_compares_the_one_host_of_the_list(scene, authority, first_is):
    """Trap 78."""
    authority.issue("two", "pgweir test", names="IP:127.0.0.2")
    authority.issue("three", "pgweir test", names="IP:127.0.0.3")
    names = ["two", "three"] if first_is == "good" else ["three", "three"]
    first = scene.mini(host="127.0.0.2", tls=authority.server_context(names[0]))
    second = scene.mini(host="127.0.0.3", port=first.port, tls=authority.server_context(names[1]))
    weir = listed(scene, [first, second], server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("ca"))
    seen = [hold(weir.client(), [first, second]) for _ in range(4)]
    if first_is == "good":
        assert sorted(seen) == [0, 0, 1, 1]
    else:
        assert seen == [1] * 4
        weir.wait_log(r"S-0x.*@127\.0\.0\.2:\d+ closing because: server TLS: .*mismatch")


def test_host_without_tls_is_skipped_if_tls_is_required(scene, authority):
    plain = scene.mini(host="127.0.0.2")
    secure = scene.mini(host="127.0.0.3", port=plain.port, tls=authority.server_context())
    weir = listed(scene, [plain, secure], server_tls_sslmode="require")
    assert {hold(weir.client(), [plain, secure]) for _ in range(3)} == {1}


def test_list_shrinks_while_a_host_is_dialled(scene, black_hole):
    (fake,) = scene.hosts(FOUR[0])
    holes = [black_hole(address, fake.port) for address in FOUR[1:]]
    weir = listed(scene, holes + [fake], server_connect_timeout=2)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    weir.wait_pool("p0", sv_login=1)
    weir.databases["p0"] = target([fake])
    weir.write_ini()
    weir.admin("RELOAD")
    assert client.read_until("Z")
    assert where(client, [fake]) == 0


def lead_to(weir, host, port):
    weir.databases["p0"] = "host=%s port=%d" % (host, port)
    weir.write_ini()
    weir.admin("RELOAD")


def test_reload_ends_logins_at_the_old_address(scene, black_hole):
    """The old host swallows connections, and nothing but the RELOAD ends the login there; it held the pool's only place."""
    first, last = scene.hosts(*FOUR[:2])
    hole = black_hole(FOUR[2], first.port)
    weir = listed(scene, [first], server_connect_timeout=0, default_pool_size=1, query_wait_timeout=0)
    client = weir.client()
    assert where(client, [first, last]) == 0
    lead_to(weir, hole.host, hole.port)
    client.send(m.query("waits"))
    weir.wait_pool("p0", cl_waiting=1, sv_login=1)
    newcomer = weir.connect()
    newcomer.send(m.startup(user="app", database="p0"))
    weir.wait_pool("p0", cl_waiting=2)
    lead_to(weir, last.host, last.port)
    assert client.result().value == "waits"
    assert newcomer.read_until("Z")
    assert where(newcomer, [first, last]) == 1
    weir.wait_log("%s:%d closing because: database configuration changed" % (hole.host, hole.port))


def welcomes(version):
    """A login of a server of this version."""
    def login(session):
        session.parameters["server_version"] = version
        session.welcome()
    return login


@pytest.mark.parametrize("before", ["served", "paused", "disabled", "refused"])
def test_fallback_inherits_nothing_of_a_removed_database(scene, before):
    """RELOAD takes it out of the file, and a client comes again before it is swept away."""
    old, fresh = scene.mini(login=welcomes("9.6")), scene.mini(login=welcomes("17.2"))
    if before == "refused":
        old.login = refuses("no such database", "3D000")
    weir = scene.weir({"p0": old, "*": fresh}, pool_mode="transaction", server_login_retry=NEVER)
    client = None
    if before == "refused":
        assert weir.connect().refused(user="app", database="p0")["M"] == "no such database"
    else:
        client = weir.client()
        assert client.query("old").value == "old"
    if before == "paused":
        weir.admin("PAUSE p0")
    elif before == "disabled":
        weir.admin("DISABLE p0")
    del weir.databases["p0"]
    weir.write_ini()
    weir.admin("RELOAD")
    assert not client or last_words(client)["M"] == "database removed"
    client = weir.client()
    assert client.parameters["server_version"] == "17.2"
    assert where(client, [old, fresh]) == 1


def test_reconnect_ends_hanging_logins(scene):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_connect_timeout=0)
    answers, fake.login = fake.login, lambda session: None
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    until(lambda: fake.started, "the login hangs")
    fake.login = answers
    weir.admin("RECONNECT")
    assert client.read_until("Z")
    assert client.query("served").value == "served"


# --- clients that wait, and clients that get an error: trap 88

def away(scene, **settings):
    """A server with one connection, lent to the first of two clients, and pgweir before it."""
    fake = scene.mini()
    settings.setdefault("server_login_retry", NEVER)
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_check_delay=NEVER, **settings)
    first, second = weir.client(), weir.client()
    first.query("BEGIN")
    return fake, weir, first, second


@pytest.mark.parametrize("why", ["refused", "starting up", "full", "breaks off"])
def test_queue_waits_while_the_server_is_unavailable(scene, why):
    """A restart of PostgreSQL: waiting clients go on waiting. They are served when it is back, long before server_login_retry."""
    fake, weir, first, second = away(scene, verbose=1)
    waiting = [second] + [weir.client() for _ in range(3)]
    for client in waiting:
        client.send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=4)
    if why == "refused":
        fake.stop_listening()
    elif why == "breaks off":
        fake.login = lambda session: session.close()
    else:
        fake.login = refuses(*{"starting up": ("the database system is starting up", "57P03"),
                               "full": ("sorry, too many clients already", "53300")}[why])
    fake.drop_all()
    first.drain()
    weir.wait_log("S-0x.* closing because: (connect failed|the database system|sorry|server conn)", times=3)
    assert weir.pool("p0")["cl_waiting"] == 4
    # a new client gets an error at once
    assert re.search("connect failed|the database system|sorry|server conn", last_words_of_query(weir))
    if why == "refused":
        fake.listen()
    else:
        fake.login = None
    for client in waiting:
        assert client.result().value == "later"
    weir.wait_pool("p0", cl_waiting=0)


def last_words_of_query(weir):
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"), m.query("now"))
    return last_words(client)["M"]


def test_queue_gets_a_refusal_at_once(scene):
    fake, weir, first, second = away(scene)
    third = weir.client()
    for client in (second, third):
        client.send(m.query("never"))
    weir.wait_pool("p0", cl_waiting=2)
    fake.login = refuses("password authentication failed", "28P01")
    fake.drop_all()
    first.drain()
    assert last_words(second)["M"] == last_words(third)["M"] == "password authentication failed"


def test_query_wait_timeout_limits_the_wait_for_a_server(scene):
    fake, weir, first, second = away(scene, query_wait_timeout=1)
    second.send(m.query("never"))
    weir.wait_pool("p0", cl_waiting=1)
    fake.stop_listening()
    fake.drop_all()
    first.drain()
    assert last_words(second)["M"] == "query_wait_timeout"


def test_logins_wait_while_the_server_starts_up(scene):
    """Host trap 9. A pooler that was restarted together with its server: it refuses no client while the server recovers."""
    fake = scene.mini(login=refuses("the database system is starting up", "57P03"))
    weir = scene.weir(fake, server_login_retry=NEVER, verbose=1)
    early = [weir.connect() for _ in range(3)]
    with weir.one_turn():
        for client in early:
            client.send(m.startup(user="app", database="p0"))
    weir.wait_log("server login failed: FATAL the database system is starting up", times=2)
    # and a login that begins when the failure is already known
    early.append(weir.connect())
    early[-1].send(m.startup(user="app", database="p0"))
    weir.wait_pool("p0", cl_waiting=4)
    fake.login = None
    for client in early:
        assert client.read_until("Z")


def minds_a_date_style(session):
    """Refuses a DateStyle as a hook of the server may, with its own SQLSTATE."""
    if session.startup.get("DateStyle") == "forbidden":
        session.send(m.authentication_ok(), m.error("not for you", "28000", "FATAL"))
        session.close()
    else:
        session.welcome()


def test_refusal_of_one_clients_parameters_does_not_stop_the_queue(scene):
    """In session mode servers are opened with the parameters of their clients. pgweir cannot know the reason of the 28000."""
    fake = scene.mini(login=minds_a_date_style)
    weir = scene.weir(fake, pool_mode="session", server_login_retry=SOON)
    holder, head, last = weir.client(), weir.client(DateStyle="forbidden"), weir.client(DateStyle="German")
    assert holder.query("hello").value == "hello"
    head.send(m.query("never"))
    weir.wait_log("not for you")
    last.send(m.query("served"))
    assert last.result().value == "served"
    fake.login = None
    assert head.result().value == "never"


# --- names

def test_list_of_names(scene):
    fakes = scene.hosts(*FOUR[:3])
    names = scene.nameserver()
    names.set("a.example.test", a=[FOUR[0]])
    names.set("c.example.test", a=[FOUR[1], FOUR[2]])
    weir = scene.weir({"p0": "host=a.example.test,b.example.test,c.example.test port=%d" % fakes[0].port},
                      pool_mode="transaction", resolv_conf=write_resolv_conf(scene.directory, names))
    seen = [hold(weir.client(), fakes) for _ in range(8)]
    assert set(seen) == {0, 1, 2}
    weir.wait_log("DNS lookup failed: b.example.test: ")
    assert {row["hostname"]: row["addrs"].count(":") for row in weir.show("DNS_HOSTS")} == {
        "a.example.test": 1, "b.example.test": 0, "c.example.test": 2}


def test_name_changes_while_another_host_is_tried(scene):
    """The connection that asks for it has not been anywhere by this name, and is as good as any."""
    old, new = scene.hosts(*FOUR[1:3])
    names = scene.nameserver()
    names.set("a.example.test", a=[FOUR[0]], ttl=0)
    names.set("b.example.test", a=[FOUR[1]], ttl=0)
    weir = scene.weir({"p0": "host=a.example.test,b.example.test port=%d" % old.port}, pool_mode="transaction",
                      server_login_retry=0, resolv_conf=write_resolv_conf(scene.directory, names))
    client = weir.client()
    # the first attempt to connect began with a, the second begins with b
    for _ in range(2):
        assert where(client, [old, new]) == 0
        weir.admin("RECONNECT")
    names.set("b.example.test", a=[FOUR[2]], ttl=0)
    assert where(client, [old, new]) == 1
    assert len(old.started) == 2 and len(new.started) == 1
