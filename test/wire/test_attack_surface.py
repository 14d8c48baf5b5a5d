"""The effects, and their duration, that an attacker with access to the port can cause: failed logins, unfinished logins, connections."""
import ipaddress
import threading

import pytest

from support import lookups
from support import messages as m
from support.live import NEVER, SOON, ended_with, last_words
from support.scenes import linked, transactions
from support.takeover import Replaced
from support.until import until
from support.wire import LoginRefused

CROWDED = ("too many logins in progress (max_login_clients)", "53300")
FULL = ("no more connections allowed (max_client_conn)", "53300")
PER_IP = ("client connections exceeded (max_client_conn_per_ip)", "53300")
REFUSED = "password authentication failed"
FREE = 2                # failures of a user that are told at once
FREE_OF_ADDRESS = 20


def fail(weir, user="app", **how):
    with pytest.raises(LoginRefused, match="authentication failed") as refusal:
        weir.connect(**how).login(user=user, database="p0", password="wrong")
    return refusal.value.fields["M"]


def doomed(weir, user="app", **how):
    """A client that sent a wrong password, and that has not been told yet."""
    client = weir.connect(**how)
    client.send(m.startup(user=user, database="p0"))
    client.expect("R")
    client.send(m.password("wrong"))
    return client


def address(weir, name="127.0.0.1"):
    """The row of SHOW ADDRESSES."""
    return next((row for row in weir.show("ADDRESSES") if row["address"] == name), None)


# --- failed logins


def slow(scene, target=None, **settings):
    """The longest delay stands for any: a test that passes does not wait for it."""
    return transactions(scene, target or scene.mini(), **dict({"auth_type": "plain", "login_failure_delay": 60}, **settings))


def failed_often(weir, user="app", free=FREE):
    """... so often that the next refusals wait, and for long."""
    for _ in range(free):
        fail(weir, user)
    waiting = [doomed(weir, user) for _ in range(9)]
    until(lambda: address(weir)["refused"] == 9, "the refusals wait")
    for client in waiting:
        client.close()
    until(lambda: address(weir)["refused"] == 0, "they have left")


def test_first_failed_login_is_not_delayed(scene):
    """With the default: two failures leave no trace but in the count."""
    weir = slow(scene, login_failure_delay=None)
    for _ in range(FREE):
        assert fail(weir) == REFUSED
    assert "its refusal waits" not in weir.log()
    assert address(weir)["failures"] == FREE


@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256", "trust"])
@pytest.mark.parametrize("user", ["app", "nobody"])
def test_repeated_failed_logins_are_delayed(scene, auth_type, user):
    """The steps and the error message are the same for an existing and a missing user."""
    if (auth_type, user) == ("trust", "app"):
        return
    weir = slow(scene, auth_type=auth_type, login_failure_delay=0.4)
    words = {fail(weir, user) for _ in range(FREE + 4)}
    assert len(words) == 1
    for delay in ("0.1", "0.2", "0.4"):
        weir.wait_log("login failed again: its refusal waits for %s s" % delay)
    assert weir.log().count("its refusal waits") == 4
    # each of them is in the log as ever, when it is told
    weir.wait_log("login failed: db=p0 user=%s$" % user, times=FREE + 4)
    assert address(weir)["failures"] == FREE + 4


def test_correct_password_is_not_delayed(scene):
    """While refusals wait, the same user logs in from the same address. Other users and addresses do not wait either."""
    weir = slow(scene)
    failed_often(weir)
    waiting = [doomed(weir) for _ in range(3)]
    until(lambda: address(weir)["refused"] == 3, "the refusals wait")
    assert weir.client("app").query("right").value == "right"
    assert weir.client("rival").query("other").value == "other"
    assert fail(weir, "rival") == REFUSED
    assert fail(weir, "app", unix=True) == REFUSED
    assert not any(client.has_input() for client in waiting)
    for client in waiting:
        client.close()


def test_failures_of_an_address_count_over_all_users(scene):
    """One password with every name."""
    weir = slow(scene)
    for number in range(FREE_OF_ADDRESS):
        fail(weir, "user%d" % number)
    waiting = doomed(weir, "another")
    weir.wait_log("p0/another@.* its refusal waits for 0.1 s")
    assert last_words(waiting)["M"] == REFUSED


def test_input_during_the_delay_is_ignored(scene):
    """Megabytes of input use no memory, a correct password after the wrong one is ignored, and the client's disconnect is noticed."""
    weir = slow(scene)
    failed_often(weir)
    client = doomed(weir)
    until(lambda: address(weir)["refused"] == 1, "the refusal waits")
    client.send(m.password("app-secret"), m.query("x"), b"\xff" * 2 ** 22)
    weir.barrier()
    memory = {row["name"]: row for row in weir.show("MEM")}
    assert int(memory["iobuf_cache"]["memtotal"]) < 2 ** 19
    client.close()
    # the failed login of a client that leaves counts all the same
    weir.wait_log("closing because: password authentication failed", times=FREE + 10)
    assert address(weir)["refused"] == 0


def test_the_delay_ends_with_client_login_timeout(scene):
    weir = slow(scene, client_login_timeout=1)
    failed_often(weir)
    ended_with(doomed(weir), REFUSED, "28P01")


@pytest.mark.parametrize("how", ["SHUTDOWN", "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_SERVERS"])
def test_shutdown_sends_delayed_refusals(scene, how):
    weir = slow(scene)
    failed_often(weir)
    waiting = [doomed(weir) for _ in range(3)]
    until(lambda: address(weir)["refused"] == 3, "the refusals wait")
    weir.admin(how)
    for client in waiting:
        assert last_words(client)["M"] == REFUSED
    weir.wait_exit()


def test_reload_disables_the_delay(scene):
    weir = slow(scene)
    failed_often(weir)
    weir.settings["login_failure_delay"] = 0
    weir.write_ini()
    weir.admin("RELOAD")
    assert fail(weir) == REFUSED


def test_number_of_delayed_refusals_is_limited(scene):
    """The table of refusals is full: the oldest delayed refusal is sent."""
    weir = slow(scene, max_client_conn=1000)
    failed_often(weir)
    first = doomed(weir)
    until(lambda: address(weir)["refused"] == 1, "the first refusal waits")
    others = [doomed(weir) for _ in range(256)]
    assert last_words(first)["M"] == REFUSED
    until(lambda: address(weir)["refused"] == 256, "all the others wait")
    for client in others:
        client.close()


def test_delayed_refusals_make_room(scene):
    """Delayed refusals count for max_client_conn, and are the first to make room."""
    weir = slow(scene)
    failed_often(weir)
    weir.admin("SET max_client_conn = 5")
    waiting = [doomed(weir) for _ in range(4)]
    until(lambda: address(weir)["refused"] == 4, "the refusals wait")
    for client in waiting:
        assert weir.client("rival").query("in").value == "in"
        assert last_words(client)["M"] == REFUSED
    assert last_words(_comes(weir))["M"] == FULL[0]


def test_unknown_user_of_a_look_up_is_delayed_too(scene):
    """auth_type trust, where the look-up itself is the proof: refused out of the state of waiting for it."""
    fake = scene.fake()
    weir = slow(scene, fake, auth_type="trust", auth_user="asker", login_failure_delay=0.1)
    server = None
    for _ in range(FREE + 2):
        client = weir.connect()
        client.send(m.startup(user="bob", database="p0"))
        server = server or fake.accept()
        assert lookups.asked_for(server)[0] == "bob"
        server.send(lookups.nobody())
        assert last_words(client)["M"] == "no such user"
    assert weir.log().count("its refusal waits") == 2


# --- logins in progress


def silent(weir, count, **how):
    """Connections that send one byte of a start-up packet and no more. (With tcp_defer_accept the kernel holds silent connections back.)"""
    weir.admin("SHOW VERSION")          # the console has to connect before the many clients do
    clients = [weir.connect(**how) for _ in range(count)]
    for client in clients:
        client.send(b"\0")
    return clients


def test_logins_in_progress_are_limited(scene):
    """Silent clients do not keep others out: pgweir closes clients of the address with most logins, and tells them why."""
    weir = transactions(scene, scene.mini(), auth_type="plain", max_login_clients=10, listen_addr="*", client_login_timeout=600)
    crowd = silent(weir, 10)
    until(lambda: address(weir)["logins"] == 10, "the crowd is there")
    for number in range(15):
        one = weir.connect_from("127.0.0.%d" % (number + 2))
        one.login(user="app", database="p0", password="app-secret")
        assert one.query("in").value == "in"
        one.quit()
    told = [client for client in crowd if client.has_input()]
    assert told
    for client in told:
        ended_with(client, *CROWDED)
    (row,) = [row for row in weir.show("REASONS") if row["reason"] == "MAX_LOGIN_CLIENTS"]
    assert row["count"] == len(told)


def test_many_logins_of_one_address_do_not_displace_each_other(scene):
    """While the earlier clients may still log in, pgweir refuses the new client; when they take too long, they make room."""
    weir = transactions(scene, scene.mini(), auth_type="plain", max_login_clients=4)
    crowd = silent(weir, 4)
    until(lambda: address(weir)["logins"] == 4, "the crowd is there")

    def comes_in():
        client = weir.connect()
        try:
            client.login(user="app", database="p0", password="app-secret")
        except LoginRefused as refusal:
            assert (refusal.fields["M"], refusal.fields["C"]) == CROWDED
            return None
        return client

    assert until(comes_in, "one of the crowd has been silent for too long").query("in").value == "in"
    assert [client for client in crowd if client.has_input()]


def test_unix_user_of_the_daemon_is_always_accepted(scene):
    weir = transactions(scene, scene.mini(), auth_type="plain", max_login_clients=2)
    silent(weir, 2)
    until(lambda: address(weir)["logins"] == 2, "the crowd is there")
    local = silent(weir, 6, unix=True)
    assert weir.client(unix=True).query("in").value == "in"
    assert len(local) == 6


def test_default_limit_of_logins_is_max_client_conn(scene):
    """A client that connects and sends nothing does not keep logins out: it makes room for clients of another address."""
    weir = transactions(scene, scene.mini(), auth_type="plain", max_client_conn=6, listen_addr="*", client_login_timeout=600)
    crowd = silent(weir, 6)
    until(lambda: address(weir)["logins"] == 6, "the crowd is there")
    inside = []
    for number in range(3):
        one = weir.connect_from("127.0.0.%d" % (number + 2))
        one.login(user="app", database="p0", password="app-secret")
        inside.append(one)
    for one in inside:
        assert one.query("in").value == "in"
    told = [client for client in crowd if client.has_input()]
    assert len(told) == 4          # the console, three clients that logged in, and two silent ones remain
    for client in told:
        ended_with(client, *FULL)


def test_a_cancel_request_is_no_login(scene):
    """However many are under way, they are not counted, and many logins in progress do not keep out a cancel request."""
    fake = scene.fake()
    weir = transactions(scene, fake, max_login_clients=1)
    client, server = linked(fake, weir)
    client.send(m.query("long"))
    server.expect_query("long")
    requests = [weir.cancel(client) for _ in range(3)]
    pid, key = fake.next_cancel()
    assert (pid, key) == (server.pid, server.key)
    server.answer("x")
    assert client.result().value == "x"
    for request in requests:
        request.drain()
    assert address(weir)["clients"] == 1 + len([row for row in weir.show("CLIENTS") if row["database"] == "pgbouncer"])


def never_welcome(session):
    """A server that keeps every client waiting, to the end of the connection."""
    session.sock.settimeout(None)
    session.read()


@pytest.mark.parametrize("leaving", [lambda c: c.close(), lambda c: c.abort()], ids=["end", "reset"])
@pytest.mark.parametrize("user, settings", [
    ("app", {"auth_type": "trust"}), ("stranger", {"auth_type": "md5", "auth_user": "app", "auth_query": "SELECT $1"})],
    ids=["welcome", "look-up"])
def test_client_that_disconnects_while_waiting_for_a_server_makes_room(scene, user, settings, leaving):
    """Even if the client has already sent its query. (live/test_auth_pam.py tests a client that waits for PAM.)"""
    weir = transactions(scene, scene.fake(login=never_welcome), max_client_conn=3, client_login_timeout=600,
                        server_connect_timeout=600, **settings)
    weir.barrier()
    for _ in range(3):
        waiting = [weir.connect() for _ in range(2)]
        for client in waiting:
            client.send(m.startup(user=user, database="p0"), m.query("x" * 60000))
        until(lambda: len([row for row in weir.show("CLIENTS") if row["user"] == user]) == 2, "they wait")
        assert weir.connect().refused(user=user, database="p0")["M"] == FULL[0]
        for client in waiting:
            leaving(client)
        until(lambda: address(weir)["clients"] == 1 and address(weir)["logins"] == 0, "there is room")


# --- connections of one address


@pytest.mark.parametrize("protocol", [m.PROTOCOL_3_0, m.PROTOCOL_3_2])
def test_max_client_conn_per_ip(scene, authority, protocol):
    """
    The refusal has an error text of its own, over TLS too. Other addresses, the console and Unix sockets are let in. A client
    that leaves makes room.
    """
    weir = transactions(scene, scene.mini(), max_client_conn_per_ip=3, listen_addr="*", client_tls_sslmode="allow",
                        client_tls_key_file=authority.key("server"), client_tls_cert_file=authority.cert("server"))
    inside = [weir.client() for _ in range(3)]
    for tls in (False, True):
        client = weir.connect()
        if tls:
            client.start_tls(authority.client_context())
        client.send(m.startup(protocol, user="app", database="p0"))
        ended_with(client, *PER_IP)
    other = weir.connect_from("127.0.0.2")
    other.login(user="app", database="p0")
    assert weir.client(unix=True).query("local").value == "local"
    # the console always has room; it counts, though
    weir.admin("SHOW VERSION")
    assert address(weir)["clients"] == 4
    inside.pop().quit()
    until(lambda: address(weir)["clients"] == 3, "it has left")
    ended_with(_comes(weir), *PER_IP)
    inside.pop().quit()
    until(lambda: address(weir)["clients"] == 2, "it has left")
    assert weir.client().query("in").value == "in"
    (row,) = [row for row in weir.show("REASONS") if row["reason"] == "MAX_CLIENT_CONN_PER_IP"]
    assert (row["count"], row["sqlstate"]) == (3, "53300")


def test_console_login_gets_one_extra_connection_per_address(scene):
    """The login may be an administrator's. Until it is authenticated no other connection is accepted; and no other user may keep the place."""
    weir = transactions(scene, scene.mini(), max_client_conn_per_ip=2, auth_type="plain", users={"admin": "a", "stats": "s"})
    inside = [weir.client() for _ in range(2)]
    weir.admin("SHOW VERSION")
    unauthenticated = [weir.connect() for _ in range(4)]
    for client in unauthenticated:
        client.send(m.startup(user="admin", database="pgbouncer"))
    unauthenticated[0].expect("R")
    for client in unauthenticated[1:]:
        ended_with(client, *PER_IP)
    unauthenticated.pop(0).close()
    until(lambda: address(weir)["clients"] == 3, "the stranger has left")
    consoles = []
    for _ in range(3):
        consoles.append(weir.connect())
        consoles[-1].login(user="admin", database="pgbouncer", password="a")
    assert address(weir)["clients"] == 6
    client = weir.connect()
    client.send(m.startup(user="stats", database="pgbouncer"))
    client.expect("R")
    client.send(m.password("s"))
    ended_with(client, *PER_IP)
    assert all(client.query("still").value == "still" for client in inside)


def _comes(weir, **how):
    client = weir.connect(**how)
    client.send(m.startup(user="app", database="p0"))
    return client


def test_reload_changes_the_limit_for_new_connections(scene):
    weir = transactions(scene, scene.mini())
    inside = [weir.client() for _ in range(3)]
    weir.admin("SET max_client_conn_per_ip = 2")
    ended_with(_comes(weir), *PER_IP)
    assert all(client.query("still").value == "still" for client in inside)
    weir.admin("SET max_client_conn_per_ip = 0")
    assert weir.client().query("in").value == "in"


def test_ipv4_mapped_address_equals_the_ipv4_address(scene):
    """A socket of both families reports 127.0.0.1 as ::ffff:127.0.0.1."""
    if not _has_ipv6():
        pytest.fail("this machine has no IPv6 on loopback")
    weir = transactions(scene, scene.mini(), max_client_conn_per_ip=2, listen_addr="127.0.0.1,::1")
    inside = [weir.client(), weir.client()]
    ended_with(_comes(weir), *PER_IP)
    six = [weir.connect_from("::1", to="::1") for _ in range(2)]
    for client in six:
        client.login(user="app", database="p0")
    names = {ipaddress.ip_address(row["address"]): row["clients"] for row in weir.show("ADDRESSES")}
    assert names[ipaddress.ip_address("::1")] == 2
    assert all(client.query("in").value == "in" for client in inside + six)


def _has_ipv6():
    with open("/proc/net/if_inet6", encoding="ascii") as f:
        return "00000000000000000000000000000001" in f.read()


def test_unauthenticated_clients_count_for_their_address(scene):
    weir = transactions(scene, scene.mini(), max_client_conn_per_ip=3)
    crowd = silent(weir, 3)
    until(lambda: any(row["logins"] == 3 for row in weir.show("ADDRESSES")), "the crowd is there")
    ended_with(_comes(weir), *PER_IP)
    for client in crowd:
        client.close()
    until(lambda: address(weir)["logins"] == 0, "they have left")
    assert weir.client().query("in").value == "in"


def test_takeover_keeps_the_connection_counts_of_addresses(scene):
    """
    Transferred connections count in the new process, including those that have sent nothing yet. The takeover does not wait for delayed refusals.
    """
    weir = slow(scene, kind=Replaced, max_client_conn_per_ip=14)
    inside = [weir.client() for _ in range(2)]
    failed_often(weir)
    (fresh,) = silent(weir, 1)
    late = doomed(weir)
    until(lambda: address(weir)["refused"] == 1 and address(weir)["logins"] == 2, "both are there")
    weir.replace()
    assert last_words(late)["M"] == REFUSED
    row = address(weir)
    assert (row["clients"], row["logins"], row["refused"]) == (4, 1, 0)         # two, the new one, and the console
    weir.admin("SET max_client_conn_per_ip = 4")
    ended_with(_comes(weir), *PER_IP)
    inside.pop().quit()
    until(lambda: address(weir)["clients"] == 3, "it has left")
    fresh.send(m.startup(user="app", database="p0")[1:])
    fresh.finish_login("app", "app-secret")
    assert fresh.query("in").value == inside[0].query("in").value == "in"


def test_client_login_timeout_ends_silent_clients(scene):
    weir = transactions(scene, scene.mini(), client_login_timeout=SOON)
    for client in silent(weir, 3):
        ended_with(client, "client_login_timeout")
    until(lambda: weir.show("ADDRESSES") and address(weir)["logins"] == 0, "nobody is left")


# --- words before their time


def looked_up(scene, authority, fake, tls):
    """pgweir, a client with a lookup of its name in progress, and the server that was asked for it."""
    weir = scene.weir(fake, auth_type="plain", auth_user="asker", client_login_timeout=600, server_connect_timeout=600,
                      client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                      client_tls_key_file=authority.key("server"))
    client = weir.connect()
    if tls:
        client.start_tls(authority.client_context())
    client.send(m.startup(user="bob", database="p0"))
    asker = fake.accept()
    assert lookups.asked_for(asker)[0] == "bob"
    return weir, client, asker


def bobs(weir):
    return [row for row in weir.show("CLIENTS") if row["user"] == "bob"]


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
def test_early_input_is_processed_in_order(scene, authority, tls):
    """A client sends more than pgweir keeps before login, during the look-up of its user: password and requests, all unasked."""
    count, text = 40, "x" * 4000
    fake = scene.fake()
    weir, client, asker = looked_up(scene, authority, fake, tls)
    writer = threading.Thread(target=client.send, args=(m.password("secret") + count * m.query(text),))
    writer.start()
    for _ in range(3):
        assert bobs(weir)
    asker.send(lookups.found("bob", "secret"))
    server = fake.accept()
    for _ in range(count):
        server.expect_query(text)
        server.answer("1")
    writer.join()
    while client.read().type != "Z":
        pass
    for _ in range(count):
        assert client.result().value == "1"


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
def test_disconnect_after_much_early_input_is_noticed(scene, authority, tls):
    """Its password makes room again, while its server is waited for."""
    def welcome_but_bob(session):
        if session.startup["user"] == "bob":
            never_welcome(session)
        session.welcome()

    weir, client, asker = looked_up(scene, authority, scene.fake(login=welcome_but_bob), tls)
    password = "secret" * 100
    early = m.password(password) + m.query("x" * 65000)
    early += m.query("x" * (65536 + 100 - len(early) - 6))
    client.send(early)
    for _ in range(3):
        assert bobs(weir)
    client.close()
    asker.send(lookups.found("bob", password))
    until(lambda: not bobs(weir), "it has left")


def test_invented_databases_are_not_created(scene):
    """With auth_type any no client proves anything, and a name that only "*" fits, without a user of its own, is refused."""
    fake = scene.mini()
    weir = scene.weir({"*": fake, "p0": "host=127.0.0.1 port=%d user=app" % fake.port}, auth_type="any", autodb_idle_timeout=NEVER)
    for n in range(3):
        assert weir.connect().refused(user="anybody", database="invented%d" % n)["M"] == "bouncer config error"
    assert not [row for row in weir.show("DATABASES") if row["name"].startswith("invented")]
    assert "registered new auto-database" not in weir.log()
    assert weir.client().query("known").value == "known"
