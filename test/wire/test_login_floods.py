"""One address floods the logins, in every state before authentication. Clients of other addresses get in, and the server is spared."""
import ssl

import pytest

from support import lookups
from support import messages as m
from support.ldap import HANG, FakeLdap
from support.live import last_words
from support.ports import free_port
from support.until import until
from support.wire import LoginRefused

FULL = "no more connections allowed (max_client_conn)"
QUEUE = "too many logins wait for a look-up or verifier (max_auth_queue)"
MANY = 100              # the default of max_client_conn
LOOKS_UP = {"auth_user": "asker", "auth_query": "SELECT a, b FROM s.t($1)", "pool_mode": "transaction"}


def silent(session):
    """A server that takes the start-up packet and never answers."""
    session.sock.settimeout(None)
    session.read()


def mute(session):
    """A server that is logged in to and never answers a query."""
    session.sock.settimeout(None)
    while True:
        session.read()


def answering(reply):
    """Serves look-ups: reply(user) is the answer to each; None: no answer."""
    def serve(session):
        session.sock.settimeout(None)
        while True:
            packet = session.read()
            if packet.type == "X":
                session.close()
                return
            user, _ = lookups.asked_for(session, packet)
            answer = reply(user)
            if answer:
                session.send(answer)
    return serve


answer_nobody = answering(lambda user: lookups.nobody())


def wants(weir, user, database, password=None, address=None):
    """A client that has sent its start-up packet, and its password where it is asked for one."""
    client = weir.connect_from(address) if address else weir.connect()
    client.send(m.startup(user=user, database=database))
    if password:
        client.expect("R")
        client.send(m.password(password))
    return client


def comes_in(weir, address, **how):
    client = weir.connect_from(address)
    client.login(**{"user": "app", "database": "p0", "password": "app-secret", **how})
    assert client.query("in").value == "in"
    client.quit()


def addresses(weir):
    return {row["address"]: row for row in weir.show("ADDRESSES")}


def wait_for_logins(weir, count, address="127.0.0.1"):
    until(lambda: addresses(weir).get(address, {"logins": 0})["logins"] >= count, "%d logins are in progress" % count)


# --- the places of max_client_conn


def hold_by_look_up(scene, **settings):
    weir = scene.weir({"p0": scene.mini(), "silent": scene.fake(login=silent)}, auth_type="plain", listen_addr="*", **LOOKS_UP, **settings)
    return weir, [(("user%d" % n, "silent"), {}) for n in range(2 * MANY)]


def hold_by_ldap(scene, ldap):
    path = scene.directory + "/hba.conf"
    options = 'ldapserver=127.0.0.1 ldapport=%d ldapprefix="cn="' % ldap.port
    with open(path, "w", encoding="utf-8") as f:
        f.write("host pgbouncer all all trust\nhost p1 all all ldap %s\nhost all all all password\n" % options)
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()}, auth_type="hba", auth_hba_file=path, listen_addr="*", auth_ldap_timeout=60)
    return weir, [(("user%d" % n, "p1"), {"password": "x"}) for n in range(2 * MANY)]


def hold_by_pause(scene):
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()}, auth_type="plain", listen_addr="*", **LOOKS_UP)
    weir.admin("PAUSE p1")
    return weir, [(("user%d" % n, "p1"), {}) for n in range(2 * MANY)]


@pytest.fixture
def ldap():
    port = free_port()
    server = FakeLdap(port, lambda *_: HANG)
    server.port = port
    yield server
    server.stop()


@pytest.mark.parametrize("hold", ["look-up", "ldap", "pause"])
def test_one_address_does_not_block_others(scene, ldap, hold):
    """All of its logins wait for something that does not come. For a new client of another address, pgweir ends one of them."""
    weir, logins = {"look-up": lambda: hold_by_look_up(scene), "ldap": lambda: hold_by_ldap(scene, ldap),
                    "pause": lambda: hold_by_pause(scene)}[hold]()
    weir.admin("SHOW VERSION")
    crowd = [wants(weir, *who, **how) for who, how in logins[:MANY - 1]]
    most = 3 * MANY // 4 if hold == "ldap" else MANY - 1       # the others wait for no verifier
    wait_for_logins(weir, most)
    for number in range(2, 12):
        comes_in(weir, "127.0.0.%d" % number)
        crowd.append(wants(weir, *logins[MANY + number][0]))   # its place is wanted again at once
    told = {last_words(client)["M"] for client in crowd if client.has_input() and hold != "ldap"}
    assert told <= {FULL, QUEUE}


def test_logins_of_the_flooding_address_are_served_in_order(scene):
    """A new client does not end the login of an earlier client of the same address."""
    weir, logins = hold_by_look_up(scene, max_client_conn=20)
    weir.admin("SHOW VERSION")
    crowd = [wants(weir, *who, **how) for who, how in logins[:10]]
    wait_for_logins(weir, 10)
    late = [wants(weir, *who, **how) for who, how in logins[10:30]]
    for client in late[9:]:
        assert last_words(client)["M"] in (FULL, QUEUE)
    assert not [client for client in crowd if client.has_input()]


def test_hanging_look_ups_leave_places_for_other_logins(scene):
    """
    With one login per address, no address has more logins than the new client's. Therefore a quarter of the places is reserved for logins that do not
    wait.
    """
    weir, logins = hold_by_look_up(scene, max_client_conn=12, server_connect_timeout=600, client_login_timeout=600)
    weir.admin("SHOW VERSION")
    crowd = []

    def one_more_is_refused():
        crowd.append(wants(weir, *logins[len(crowd)][0], address="127.0.1.%d" % (len(crowd) + 1)))
        weir.barrier()
        if not crowd[-1].has_input():
            return False
        assert last_words(crowd.pop())["M"] == QUEUE
        return True

    while len(crowd) < 9:
        assert not one_more_is_refused()
    # the first of them has waited for a second
    until(lambda: one_more_is_refused() or crowd.pop().close(), "a look-up is refused")
    comes_in(weir, "127.0.0.3")


def test_slow_clients_of_other_addresses_are_kept(scene):
    """An address with the most logins does not displace a login of an address with few, however long that login has been silent."""
    weir, logins = hold_by_look_up(scene, max_client_conn=10, server_connect_timeout=600, client_login_timeout=600)
    weir.admin("SHOW VERSION")
    slow = wants(weir, "app", "p0", address="127.0.0.2")
    slow.expect("R")
    silent_one = weir.connect()
    silent_one.send(m.startup(user="app", database="p0")[:5])
    crowd = [wants(weir, *logins[n][0]) for n in range(7)]
    wait_for_logins(weir, 8)
    late = []

    def comes_late():
        late.append(wants(weir, *logins[8 + len(late) % 100][0]))
        weir.barrier()
        return silent_one.has_input()

    # both have been silent for more than a second then
    until(comes_late, "the silent client of the same address makes room")
    assert last_words(silent_one)["M"] == FULL
    for _ in range(10):
        comes_late()
    assert not slow.has_input()
    slow.send(m.password("app-secret"))
    slow.finish_login()
    for client in crowd + late:
        client.close()


def test_pause_may_hold_logins_up_to_the_limit(scene):
    weir, logins = hold_by_pause(scene)
    crowd = [wants(weir, *who, **how) for who, how in logins[:MANY - 1]]
    wait_for_logins(weir, MANY - 1)
    assert not [client for client in crowd if client.has_input()]


def test_max_auth_queue_follows_max_client_conn(scene, ldap):
    """By default three quarters of it."""
    weir, logins = hold_by_ldap(scene, ldap)
    weir.admin("SET max_auth_processes = 1")
    weir.admin("SET max_client_conn = 20")
    crowd = [wants(weir, *who, **how) for who, how in logins[:16]]
    until(lambda: len([row for row in weir.show("VERIFIERS") if row["method"] == "LDAP"]) == 16, "one is asked about, 15 wait")
    assert last_words(wants(weir, *logins[17][0], password="x"))["M"] == QUEUE
    assert not [client for client in crowd if client.has_input()]


def test_silent_clients_are_found_after_trusted_ones(scene):
    """As many addresses as places: silent clients make room, although Unix socket clients, which do not, come first."""
    weir = scene.weir(scene.mini(), auth_type="plain", listen_addr="*", max_client_conn=60, client_login_timeout=600)
    local = [weir.connect(unix=True) for _ in range(20)]
    for client in local:
        client.send(m.startup(user="app", database="p0"))
        client.expect("R")
    crowd = [wants(weir, "app", "p0", address="127.0.1.%d" % (n + 1)) for n in range(40)]
    for client in crowd:
        client.expect("R")

    def has_room():
        client = weir.connect_from("127.0.2.1")
        client.send(m.startup(user="app", database="p0"))
        return client.read().type == "R"
    until(has_room, "a silent client makes room")
    assert not [client for client in local if client.has_input()]


# --- connections of the server


def counts(fake):
    """Connections that it has now."""
    return len([session for session in fake.started if session.sock.fileno() != -1])


@pytest.fixture
def invented(scene):
    """pgweir with an entry "*". Its server accepts logins and does not answer look-ups."""
    fake = scene.fake(serve=mute)
    return fake, scene.weir({"*": fake}, auth_type="plain", listen_addr="*", max_client_conn=1000, show_extra_columns=1,
                            max_auth_query_connections=8, server_check_query="", autodb_idle_timeout=600, **LOOKS_UP)


def test_invented_databases_use_a_limited_share_of_connections(invented):
    """Half of max_auth_query_connections for one address; all of it for several."""
    fake, weir = invented
    crowd = [wants(weir, "user", "invented%d" % n) for n in range(60)]
    wait_for_logins(weir, 60)
    until(lambda: counts(fake) == 4, "half of the connections are open")
    weir.barrier()
    assert counts(fake) == 4
    rows = [row for row in weir.show("POOLS") if row["cl_waiting"] == 1]
    assert len(rows) == 56 and {row["held_by"] for row in rows} == {"max_auth_query_connections"}
    crowd += [wants(weir, "user", "more%d" % n, address="127.0.0.2") for n in range(60)]
    until(lambda: counts(fake) == 8, "all of the connections are open")
    crowd += [wants(weir, "user", "most%d" % n, address="127.0.0.3") for n in range(20)]
    weir.barrier()
    assert counts(fake) == 8
    assert "registered new auto-database" not in weir.log()
    for client in crowd:
        client.close()
    until(lambda: counts(fake) == 0, "they are closed when the clients have left")
    until(lambda: not [row for row in weir.show("DATABASES") if row["name"].startswith("invented")], "the databases are forgotten")


def test_addresses_take_turns(scene):
    """An address with many waiting look-ups does not delay an address with few."""
    asked = []

    def answer_some(user):
        asked.append(user)
        return lookups.nobody() if user.startswith("fast") else None

    fake = scene.fake(serve=answering(answer_some))
    weir = scene.weir({"*": fake}, auth_type="plain", listen_addr="*", max_client_conn=1000, max_auth_query_connections=4, **LOOKS_UP)
    crowd = [wants(weir, "slow%d" % n, "invented%d" % n) for n in range(60)]
    wait_for_logins(weir, 60)
    for n in range(10):
        client = wants(weir, "fast", "real%d" % n, address="127.0.0.2")
        client.expect("R")
        client.close()
    assert len([user for user in asked if user.startswith("slow")]) == 2
    for client in crowd:
        client.close()


def test_one_database_takes_a_quarter(scene):
    """A database that does not answer leaves the connections of look-ups to others."""
    hangs, answers = scene.fake(serve=mute), scene.fake(serve=answer_nobody)
    weir = scene.weir({"hangs": hangs, "answers": answers}, auth_type="plain", listen_addr="*", max_client_conn=1000,
                      max_auth_query_connections=8, **LOOKS_UP)
    crowd = [wants(weir, "user%d" % n, "hangs", address="127.0.0.%d" % (1 + n % 6)) for n in range(60)]
    until(lambda: counts(hangs) == 2, "a quarter of the connections is open")
    for n in range(10):
        client = wants(weir, "other%d" % n, "answers")
        client.expect("R")
        client.close()
    assert counts(hangs) == 2
    assert weir.pool("hangs", "asker")["cl_waiting"] == 58
    for client in crowd:
        client.close()


def test_look_ups_leave_connections_of_the_database_to_clients(scene):
    """Half of max_db_connections, although a quarter of max_auth_query_connections is more."""
    def answer_queries(session):
        session.sock.settimeout(None)
        while True:
            packet = session.read()
            if packet.type == "X":
                session.close()
                return
            if packet.type == "Q":
                session.answer("x")

    fake = scene.fake(serve=answer_queries)
    weir = scene.weir(fake, auth_type="plain", listen_addr="*", max_client_conn=1000, max_db_connections=4, show_extra_columns=1,
                      server_check_query="", **LOOKS_UP)
    crowd = [wants(weir, "user%d" % n, "p0", address="127.0.0.%d" % (2 + n % 6)) for n in range(20)]
    until(lambda: counts(fake) == 2, "half of the connections are open")
    client = weir.client(password="app-secret")
    assert client.query("in").value == "x"
    assert counts(fake) == 3 and weir.pool("p0", "asker")["cl_waiting"] == 18
    for client in crowd:
        client.close()


def hang_from_one_address(scene):
    """Look-ups of one address have all turns that an address may have, in two databases that do not answer."""
    hangs, answers = scene.fake(serve=mute), scene.fake(serve=answer_nobody)
    weir = scene.weir({"hangs0": hangs, "hangs1": hangs, "answers": answers}, auth_type="plain", listen_addr="*", max_client_conn=1000,
                      max_auth_query_connections=8, **LOOKS_UP)
    crowd = [wants(weir, "user%d" % n, "hangs%d" % (n % 2)) for n in range(20)]
    until(lambda: counts(hangs) == 4, "half of the connections are open")
    return weir, crowd


def test_address_at_its_limit_does_not_block_a_database(scene):
    """Look-ups of this address that wait do not block the database for other addresses."""
    weir, crowd = hang_from_one_address(scene)
    crowd += [wants(weir, "more%d" % n, "answers") for n in range(20)]
    wait_for_logins(weir, 40)
    for n in range(10):
        client = wants(weir, "other%d" % n, "answers", address="127.0.0.2")
        client.expect("R")
        client.close()
    weir.barrier()
    assert not [client for client in crowd if client.has_input()]
    for client in crowd:
        client.close()


def test_address_at_its_limit_does_not_block_a_user(scene):
    """
    A client requests a user first, and its look-up waits. A client of another address requests the same user: its turn starts the look-up for both.
    """
    weir, crowd = hang_from_one_address(scene)
    held = wants(weir, "alice", "answers")
    wait_for_logins(weir, 21)
    weir.barrier()
    assert not held.has_input()
    client = wants(weir, "alice", "answers", address="127.0.0.2")
    client.expect("R")
    held.expect("R")
    for client in crowd:
        client.close()


def test_failed_login_leaves_no_look_up_connection(scene):
    fake = scene.fake(serve=answer_nobody)
    weir = scene.weir({"*": fake}, auth_type="plain", max_client_conn=1000, **LOOKS_UP)
    for n in range(40):
        client = wants(weir, "user", "invented%d" % n)
        client.expect("R")
        client.close()
    until(lambda: counts(fake) == 0, "no connection is left")
    assert "auth_query is over, and no client has logged in to the database" in weir.log()


def test_a_login_registers_the_database(scene):
    """From then on its connection for look-ups is kept, as for every database."""
    fake = scene.fake(serve=answering(lambda user: lookups.found(user, "secret")))
    weir = scene.weir({"*": fake}, auth_type="plain", **LOOKS_UP)
    for _ in range(2):
        client = weir.connect()
        client.login(user="bob", database="named", password="secret")
        client.quit()
    weir.wait_log("registered new auto-database: named")
    until(lambda: weir.pool("named", "asker")["sv_idle"] == 1, "the connection for look-ups is kept")
    assert len([session for session in fake.started if session.startup["user"] == "asker"]) == 2


def test_idle_connections_of_look_ups_make_room(scene):
    """Connections of configured databases are kept for later look-ups, but always leave room for another database."""
    fake = scene.fake(serve=answer_nobody)
    names = ["p%d" % n for n in range(12)]
    weir = scene.weir({name: fake for name in names}, auth_type="plain", max_auth_query_connections=4, **LOOKS_UP)
    for name in names:
        client = wants(weir, "user", name)
        client.expect("R")
        client.close()
    weir.barrier()
    assert counts(fake) <= 4
    assert "too many connections for auth_query (max_auth_query_connections)" in weir.log()


def test_look_ups_that_begin_together_keep_to_the_limit(scene):
    """Each of them could have opened the last connection that there may be."""
    fake, busy = scene.fake(serve=answer_nobody), scene.fake(serve=mute)
    names = ["p%d" % n for n in range(3)]
    weir = scene.weir({**{name: fake for name in names}, **{"q%d" % n: busy for n in range(4)}}, auth_type="plain", listen_addr="*",
                      max_auth_query_connections=4, show_extra_columns=1, **LOOKS_UP)
    for name in names:
        client = wants(weir, "user", name)
        client.expect("R")
        client.close()
    assert counts(fake) == 3
    clients = [weir.connect_from("127.0.0.%d" % (1 + n)) for n in range(4)]
    packets = [m.startup(user="user", database="q%d" % n) for n in range(4)]
    for client, packet in zip(clients, packets):
        client.send(packet[:5])
    wait_for_logins(weir, 1, "127.0.0.4")
    with weir.one_turn():
        for client, packet in zip(clients, packets):
            client.send(packet[5:])
    until(lambda: len(busy.started) > 0 and counts(fake) == 0, "idle connections make room")
    until(lambda: counts(busy) == 4, "each look-up has a connection")
    weir.barrier()
    assert not [row for row in weir.show("POOLS") if row["held_by"]]


# --- the loop's time


def tls_settings(authority, name="server", **more):
    return {"client_tls_sslmode": "allow", "client_tls_key_file": authority.key(name), "client_tls_cert_file": authority.cert(name), **more}


# the expensive step comes with the ClientHello, its last piece, a second ClientHello, or after the first answer
@pytest.mark.parametrize("hello", ["whole", "pieces", "retry", "rsa"])
def test_tls_handshakes_take_turns(scene, authority, hello):
    """Many expensive steps of one address at once do not delay the steps of other addresses, nor a query."""
    authority.issue("rsa", "localhost", rsa=True)
    weir = scene.weir(scene.mini(), auth_type="plain", listen_addr="*", max_client_conn=500,
                      **tls_settings(authority, "rsa", client_tls_ecdhcurve="secp384r1" if hello == "retry" else "auto"))
    inside = weir.client()
    flood = [Hello(weir.connect_from("127.0.0.2"), hello) for _ in range(200)]
    one = Hello(weir.connect_from("127.0.0.3"), hello)
    # after the beginnings of all of them
    last = Hello(weir.connect_from("127.0.0.2"))
    last.send()
    last.wait()
    with weir.one_turn():
        for each in flood:
            each.send()
        inside.send(m.query("answered"))
        one.send()
    with_query = one_answered = None
    assert inside.result().value == "answered"
    with weir.one_turn():
        with_query = len([each for each in flood if each.is_answered()])
    one.wait()
    with weir.one_turn():
        one_answered = len([each for each in flood if each.is_answered()])
    assert with_query < 100 and one_answered < 150, (with_query, one_answered)
    for each in flood:
        each.wait()


class Hello:
    """A client in a TLS handshake: its next message is expensive to answer, and it sends nothing after that."""

    def __init__(self, client, how="whole"):
        self.client = client
        self.client.send(m.SSL_REQUEST)
        assert self.client.read_bytes(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if how == "rsa":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers("AES128-GCM-SHA256")
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)
        self._go_on()
        if how == "pieces":
            self.client.send(self._out.read(5))
        elif how != "whole":
            self.client.send(self._out.read())
            self._hear()
        if how == "retry":
            assert self._record()[0] == 20      # compatibility message after a ClientHello for middleboxes

    def _go_on(self):
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()

    def _record(self):
        head = self.client.read_bytes(5)
        return head + self.client.read_bytes(int.from_bytes(head[3:], "big"))

    def _hear(self):
        """Reads until there is something to say again."""
        while not self._out.pending:
            self._in.write(self._record())
            self._go_on()

    def send(self):
        self.client.send(self._out.read())

    def is_answered(self):
        return self.client.has_input()

    def wait(self):
        assert self.client.read_bytes(1) in b"\x14\x16"


def test_client_disconnects_while_its_handshake_waits(scene, authority):
    weir = scene.weir(scene.mini(), auth_type="plain", max_client_conn=500, **tls_settings(authority))
    for _ in range(3):
        flood = [Hello(weir.connect()) for _ in range(50)]
        with weir.one_turn():
            for hello in flood:
                hello.send()
        for hello in flood[::2]:
            hello.client.abort()
        for hello in flood[1::2]:
            hello.wait()
            hello.client.close()
        until(lambda: addresses(weir)["127.0.0.1"]["logins"] == 0, "all have left")
    client = weir.connect()
    client.start_tls(authority.client_context())
    client.login(user="app", database="p0", password="app-secret")
    assert client.query("in").value == "in"


def test_handshakes_wait_through_suspend_and_reload(scene, authority):
    """Accepted handshakes are completed with the certificate of that time, even if a RELOAD has disabled TLS."""
    weir = scene.weir(scene.mini(), auth_type="plain", max_client_conn=500, **tls_settings(authority))
    flood = [Hello(weir.connect()) for _ in range(50)]
    weir.admin("SUSPEND")
    for hello in flood:
        hello.send()
    weir.settings["client_tls_sslmode"] = "disable"
    weir.write_ini()
    weir.admin("RELOAD")
    weir.admin("RESUME")
    for hello in flood:
        hello.wait()
    with pytest.raises(LoginRefused):
        weir.connect().login(user="app", database="p0", password="wrong")
