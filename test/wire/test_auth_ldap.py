"""LDAP servers that hang, lie and talk nonsense: their logins fail with a reason, and no other logins do."""
import itertools

import pytest

from support import messages as m
from support.ldap import CLOSE, HANG, FakeLdap, bind_answer, entry, reference, search_done, starttls_answer
from support.pgweir import ANY_METHOD
from support.ports import free_port
from support.until import until

SIMPLE = 'ldapserver="%s" ldapport=%d ldapprefix=cn='
SEARCH = 'ldapserver="%s" ldapport=%d ldapbasedn="dc=x" ldapbinddn="cn=s" ldapbindpasswd=s'
DN = "cn=app,dc=x"


@pytest.fixture
def ldap():
    """ldap(reply, host) starts another server; all servers of a test have one port, as the setting requires."""
    servers = []
    port = free_port()

    def play(reply, host="127.0.0.1"):
        servers.append(FakeLdap(port, reply, host))
        return servers[-1]
    play.port = port
    yield play
    for server in servers:
        server.stop()


def weir_for(scene, ldap, options=SIMPLE, hosts="127.0.0.1", more="", **settings):
    settings.setdefault("auth_ldap_timeout", 1)
    return scene.weir(scene.mini(), auth_type="ldap", auth_ldap_options=options % (hosts, ldap.port) + more, **settings)


def refused(weir, why):
    fields = weir.connect().refused(user="app", database="p0", password="secret")
    assert (fields["M"], fields["C"]) == ("LDAP authentication failed", "28000")
    weir.wait_log(r"(WARNING|ERROR) C-\S+ p0/app@\S+ LDAP: " + why)


def accepted(weir):
    assert weir.client("app", password="secret").query("SELECT 1").status == "I"


def yes(operation, number):
    """An LDAP server that accepts every password and has exactly one entry."""
    if operation == "search":
        return entry(number, DN) + search_done(number)
    return bind_answer(number)


def never(*_):
    return HANG


BAD = {
    "hangs": (never, "bind: Timed out"),
    "closes": (lambda *_: CLOSE, "bind: Can't contact LDAP server"),
    "garbage": (lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n", "bind: (Can't contact|Decoding|Timed out)"),
    "a part of an answer": (lambda _, number: bind_answer(number)[:-2], "bind: Timed out"),
    "a header that promises 2 GB": (lambda *_: b"\x30\x84\x7f\xff\xff\xff\x02\x01\x01", "bind: (Can't contact|Decoding|Timed out)"),
    "a length of 127 bytes": (lambda *_: b"\x30\xff" + b"\xff" * 127, "bind: (Can't contact|Decoding|Timed out)"),
    "the answer to another question": (lambda _, number: bind_answer(number + 1), "bind: Timed out"),
    "an answer of another kind": (lambda _, number: search_done(number), "bind: Protocol error"),
    "a referral": (lambda _, number: bind_answer(number, 10, "ldap://127.0.0.3/"), "bind: Referral"),
    "busy": (lambda _, number: bind_answer(number, 51), "bind: Server is busy"),
    "unwilling": (lambda _, number: bind_answer(number, 53), "bind: Server is unwilling to perform"),
}


@pytest.mark.parametrize("what", BAD)
def test_malformed_answers(scene, ldap, what):
    reply, why = BAD[what]
    ldap(reply)
    weir = weir_for(scene, ldap)
    refused(weir, "127.0.0.1: " + why)
    # the verifier has survived the answer, or another one has replaced it
    refused(weir, "127.0.0.1: " + why)


@pytest.mark.parametrize("what", ["hangs", "closes", "garbage", "a part of an answer", "busy"])
def test_next_server_is_tried(scene, ldap, what):
    ldap(BAD[what][0])
    ldap(yes, "127.0.0.2")
    accepted(weir_for(scene, ldap, hosts="127.0.0.1 127.0.0.2"))


@pytest.mark.parametrize("code", [49, 32, 53, 48])
def test_no_other_server_is_tried_after_an_answer(scene, ldap, code):
    """A server that answers has decided."""
    ldap(lambda _, number: bind_answer(number, code))
    other = ldap(yes, "127.0.0.2")
    refused(weir_for(scene, ldap, hosts="127.0.0.1 127.0.0.2"), "127.0.0.1: bind: ")
    assert other.connections == 0


def test_endless_answer_byte_by_byte(scene, ldap):
    """Each byte comes in time, and the library's clock does not see that the whole does not."""
    ldap(lambda *_: itertools.chain([b"\x30\x82\x7f\xff\x02\x01\x01\x61\x82\x7f\xf0"], itertools.repeat(b"\x04")))
    refused(weir_for(scene, ldap), "127.0.0.1: bind: Timed out")


MANY = 20


@pytest.mark.parametrize("step", ["bind", "search"])
def test_endless_answer(scene, ldap, step):
    """The library keeps whatever comes, here 1.2 MB: entries that fit, and in front of another answer notices that were not asked for."""
    def reply(operation, number):
        if step == "bind":
            return entry(0, "cn=" + "x" * 60000) * MANY + bind_answer(number)
        return bind_answer(number) if operation == "bind" else entry(number, "cn=" + "x" * 60000) * MANY + search_done(number)
    ldap(reply)
    refused(weir_for(scene, ldap, options=SIMPLE if step == "bind" else SEARCH), "127.0.0.1: %s: the server sends more than 1 MB" % step)


def test_client_login_timeout_ends_the_wait(scene, ldap):
    ldap(never)
    weir = weir_for(scene, ldap, auth_ldap_timeout=60, client_login_timeout=1)
    assert weir.connect().refused(user="app", database="p0", password="secret")["M"] == "client_login_timeout"
    weir.wait_log(r"ERROR C-\S+ p0/app@\S+ LDAP: no answer in client_login_timeout; the verifier at work on it")


# --- searching

def searching(result):
    return lambda operation, number: bind_answer(number) if operation == "bind" else result(number)


LIES = {
    "an entry without a name": (lambda n: entry(n, "") + search_done(n), "the entry found has no usable name"),
    "a name that never ends": (lambda n: entry(n, "cn=" + "x" * 9000) + search_done(n), "the entry found has no usable name"),
    "nothing": (search_done, "there is no entry for this user"),
    "a reference": (lambda n: reference(n, "ldap://127.0.0.2/") + search_done(n), "there is no entry for this user"),
    "a referral": (lambda n: search_done(n, 10, "ldap://127.0.0.2/"), "Referral"),
    "two": (lambda n: entry(n, DN) + entry(n, "cn=b") + search_done(n), "more than one entry fits this user"),
    "one, and no more allowed": (lambda n: entry(n, DN) + search_done(n, 4), "more than one entry fits this user"),
    "no such base": (lambda n: search_done(n, 32), "No such object"),
    "one, and no end": (lambda n: entry(n, DN), "Timed out"),
    "an error": (lambda n: entry(n, DN) + search_done(n, 1), "Operations error"),
}


@pytest.mark.parametrize("what", LIES)
def test_search_result_with_a_false_name(scene, ldap, what):
    """Whatever it says, the user's password is not sent, and no other server is asked."""
    result, why = LIES[what]
    server = ldap(searching(result))
    other = ldap(yes, "127.0.0.2")
    refused(weir_for(scene, ldap, SEARCH), "127.0.0.1: search: " + why)
    assert not [request for request in server.requests if b"secret" in request]
    assert other.connections == 0


@pytest.mark.parametrize("found", [lambda _: b"", lambda n: entry(n, DN) + entry(n, "cn=b")], ids=["none", "two"])
def test_unknown_user_takes_the_same_steps(scene, ldap, found):
    """Else the time would tell which users there are. Yes to a name that does not exist lets no client in."""
    server = ldap(searching(lambda n: found(n) + search_done(n)))
    refused(weir_for(scene, ldap, SEARCH), "127.0.0.1: search: ")
    until(lambda: server.asked == ["bind", "search", "bind", "unbind"], "all is asked")
    assert b",dc=x" in server.requests[2] and DN.encode() not in server.requests[2]


def test_server_hangs_after_an_empty_search(scene, ldap):
    """The result of the search decides, and no other server is asked."""
    binds = itertools.count()
    ldap(lambda operation, number: search_done(number) if operation == "search" else bind_answer(number) if next(binds) == 0 else HANG)
    other = ldap(yes, "127.0.0.2")
    refused(weir_for(scene, ldap, SEARCH, "127.0.0.1 127.0.0.2"), "127.0.0.1: search: there is no entry for this user")
    assert other.connections == 0


def test_search_with_one_result(scene, ldap):
    server = ldap(yes)
    accepted(weir_for(scene, ldap, SEARCH))
    until(lambda: server.asked == ["bind", "search", "bind", "unbind"], "all is asked")


# --- StartTLS

@pytest.mark.parametrize("reply", [
    lambda _, number: starttls_answer(number, 2), lambda _, number: starttls_answer(number),
    lambda _, number: starttls_answer(number) + b"no TLS at all", lambda *_: CLOSE, never,
    lambda _, number: starttls_answer(number) + bind_answer(number + 1)],
    ids=["refused", "no TLS then", "garbage then", "closes", "hangs", "an answer in the clear"])
def test_password_is_not_sent_without_tls(scene, ldap, reply):
    server = ldap(lambda operation, number: reply(operation, number) if operation == "starttls" else bind_answer(number))
    refused(weir_for(scene, ldap, more=" ldaptls=1"), "127.0.0.1: StartTLS: ")
    assert "bind" not in server.asked


def test_next_server_is_tried_after_a_hanging_handshake(scene, ldap):
    """The library's clock does not advance there."""
    first = ldap(lambda _, number: starttls_answer(number))
    second = ldap(lambda _, number: starttls_answer(number, 2), "127.0.0.2")
    refused(weir_for(scene, ldap, more=" ldaptls=1", hosts="127.0.0.1 127.0.0.2"), "127.0.0.2: StartTLS: Protocol error")
    # the library has given up the first; the thread that plays it may not have read that yet
    until(lambda: first.asked == ["starttls", "no LDAP"], "the first heard of TLS")
    assert second.asked[0] == "starttls"


# --- the console

def test_console_input_during_verification(scene, ldap):
    """The client sends more than pgweir reads before login."""
    ldap(lambda _, number: bind_answer(number))
    client = weir_for(scene, ldap).connect()
    client.send(m.startup(user="admin", database="pgbouncer"))
    client.expect("R")
    client.send(m.password("secret"), *[m.query("SHOW VERSION -- " + "x" * 40000)] * 4)
    client.finish_login()
    for _ in range(4):
        assert client.result().tags == ["SHOW"]


def test_console_password_is_not_sent_to_servers(scene, ldap):
    """A login to the console by the user list leaves the password that LDAP has found right where it is."""
    ldap(lambda _, number: bind_answer(number))
    fake = scene.mini()
    fake.login = lambda session: (session.ask_cleartext("secret"), session.welcome())
    path = scene.directory + "/hba.conf"
    with open(path, "w", encoding="utf-8") as f:
        f.write('host pgbouncer app all scram-sha-256\nhost p0 app all ldap ldapserver=127.0.0.1 ldapport=%d ldapprefix=cn=\n'
                'host pgbouncer admin all trust\n' % ldap.port)
    weir = scene.weir(fake, auth_type="hba", auth_hba_file=path, stats_users="app", pool_mode="transaction",
                      server_require_auth=ANY_METHOD)
    client = weir.client(password="secret")
    assert client.query("before").value == "before"
    weir.client(database="pgbouncer", password="app-secret")
    weir.admin("RECONNECT")
    assert client.query("after").value == "after"
    assert len(fake.started) == 2


# --- many

def test_slow_logins_do_not_delay_other_clients(scene, ldap):
    """Fifty logins wait for a server that hangs, while a session continues."""
    slow = []
    ldap(lambda operation, number: HANG if slow else bind_answer(number))
    weir = weir_for(scene, ldap, auth_ldap_timeout=60, max_client_conn=200)
    session = weir.client("app", password="secret")
    for _ in range(50):
        slow.append(weir.connect())
        slow[-1].send(m.startup(user="app", database="p0"))
        slow[-1].expect("R")
        slow[-1].send(m.password("secret"))
    own = weir.connect(unix=True)
    own.login(user="pgbouncer", database="pgbouncer")

    def states():
        return [row[1].decode() for row in own.query("SHOW VERIFIERS").rows]
    until(lambda: states().count("busy") == 8, "eight are at work")
    for _ in range(300):
        assert session.query("SELECT 1").status == "I"
    assert states().count("busy") == 8 and states().count("waiting") == 42
    for client in slow:
        client.close()
    until(lambda: not {"busy", "waiting"} & set(states()), "nobody waits any more")
