"""Protocol versions: negotiation with clients and servers, and cancel keys of both lengths."""
import struct

import pytest

from support import messages as m
from support.pgweir import ANY_METHOD
from support.scenes import transactions
from support.wire import Closed

CANCELLED = "canceling statement due to user request"


@pytest.fixture
def weir(scene):
    return transactions(scene, scene.mini(), 2)


def agree(weir, minor, pairs=()):
    """A client that requests 3.minor. Returns the negotiated version and options, or None, and the client."""
    client = weir.connect()
    client.send(m.startup_pairs([("user", "app"), ("database", "p0"), *pairs], m.PROTOCOL_3_0 + minor))
    told = None
    for got in client.finish_login("app"):
        if got.type == "v":
            assert told is None, "told twice"
            version, count = struct.unpack_from("!II", got.body)
            told = version, m.read_cstrings(got.body[8:])
            assert len(told[1]) == count
    return told, client


# --- clients

@pytest.mark.parametrize("asked, told, key", [
    (0, None, 4), (1, m.PROTOCOL_3_0, 4), (2, None, 24), (3, m.PROTOCOL_3_2, 24), (9999, m.PROTOCOL_3_2, 24),
    (65535, m.PROTOCOL_3_2, 24)])
def test_client_gets_the_newest_version_that_it_knows(weir, asked, told, key):
    """Trap 67: 3.1 is not a version in use and is never offered. Clients request 3.9999 to see whether servers negotiate."""
    got, client = agree(weir, asked)
    assert got == (told and (told, []))
    assert len(client.key) == key
    assert client.query("works").value == "works"


@pytest.mark.parametrize("minor", [0, 2, 9999])
def test_every_protocol_option_is_named(weir, minor):
    """An unlisted option would count as known."""
    names = ["_pq_.option%d" % n for n in range(500)]
    pairs = [(name, "") for name in names]
    pairs.insert(250, ("application_name", "between"))
    told, client = agree(weir, minor, pairs)
    assert told == (m.PROTOCOL_3_0 if minor == 0 else m.PROTOCOL_3_2, names)
    assert client.parameters["application_name"] == "between"
    assert client.query("works").value == "works"


@pytest.mark.parametrize("major", [1, 2, 4, 1233, 1235])
def test_other_major_versions_are_refused(weir, major):
    client = weir.connect()
    client.send(m.startup_pairs([("user", "app")], major << 16 | 2))
    (error,) = client.drain()
    assert m.read_error(error.body)["M"] == ("old V2 protocol not supported" if major < 3 else
                                             "unsupported protocol version %d.2" % major)


def test_the_console_has_long_keys_too(weir):
    client = weir.connect()
    client.send(m.startup(m.PROTOCOL_3_2, user="admin", database="pgbouncer"))
    client.finish_login("admin")
    assert len(client.key) == 24


def test_version_in_the_log_and_on_the_console(scene):
    weir = transactions(scene, scene.mini(), show_extra_columns=1)
    old, new = weir.client(), weir.client(protocol=m.PROTOCOL_3_2)
    weir.wait_log(r"login attempt: db=p0 user=app tls=no replication=no$")
    weir.wait_log(r"login attempt: db=p0 user=app tls=no replication=no protocol=3\.2$")
    shown = [row["protocol"] for row in weir.show("CLIENTS") if row["database"] == "p0"]
    assert shown == ["3.0", "3.2"]
    old.quit()
    new.quit()


# --- cancels

def run(client, fake, text="wait"):
    before = len(fake.queries)
    client.send(m.query(text))
    fake.until(lambda: len(fake.queries) > before, "the query runs")


def test_long_key_cancels(scene):
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client(protocol=m.PROTOCOL_3_2)
    run(client, fake)
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED
    assert fake.next_cancel() == (fake.started[0].pid, fake.started[0].key)


def altered(key):
    """Keys that are nearly this one."""
    for at in range(len(key)):
        yield key[:at] + bytes((key[at] ^ 0x40,)) + key[at + 1:]
    yield key[:4]
    yield key[:-1]
    yield key + b"\0"
    yield key + bytes(256 - len(key))
    yield bytes(len(key))


@pytest.mark.parametrize("protocol", [m.PROTOCOL_3_0, m.PROTOCOL_3_2])
@pytest.mark.parametrize("peer_id", [0, 5])
def test_other_keys_do_not_cancel(scene, protocol, peer_id):
    fake = scene.mini()
    weir = transactions(scene, fake, peer_id=peer_id)
    client = weir.client(protocol=protocol)
    run(client, fake)
    for key in altered(client.key):
        if key != client.key and len(key) >= 4:
            request = weir.connect()
            request.send(m.cancel_request(client.pid, key))
            request.expect_closed()
    other = weir.connect()
    other.send(m.cancel_request(client.pid ^ 1, client.key))
    other.expect_closed()
    assert fake.cancels.empty() and not client.has_input()
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED


@pytest.mark.parametrize("size", [0, 1, 3, 257, 300, 9000])
def test_cancel_key_of_an_impossible_size(weir, size):
    request = weir.connect()
    request.send(m.cancel_request(1, bytes(size)))
    (error,) = request.drain()
    assert m.read_error(error.body)["M"].startswith("bad packet header: '")
    assert weir.client().query("unharmed").value == "unharmed"


def test_long_keys_are_unrelated(scene):
    weir = transactions(scene, scene.mini(), peer_id=9)
    keys = [weir.client(protocol=m.PROTOCOL_3_2).key for _ in range(100)]
    assert len({key[:2] for key in keys}) == 1, "the peer's number"
    for at in range(2, 24):
        assert len({key[at] for key in keys}) > 10
    assert len({key[2:] for key in keys}) == len(keys)


def test_long_key_is_forwarded_through_the_peers(scene):
    """Two hops: the first process does not know the maker of the key, but knows a process that does."""
    fake = scene.mini()
    weirs = [transactions(scene, fake, peer_id=n) for n in (1, 2, 3)]
    maker, _, other = weirs
    for weir, known in zip(weirs, ((), (1,), (1, 2, 3))):
        weir.sections["peers"] = {str(n): "host=127.0.0.1 port=%d" % weirs[n - 1].port for n in known}
        weir.write_ini()
        weir.admin("RELOAD")
    # the third process's peer 1 is the second process
    other.sections["peers"]["1"] = "host=127.0.0.1 port=%d" % weirs[1].port
    other.write_ini()
    other.admin("RELOAD")
    client = maker.client(protocol=m.PROTOCOL_3_2)
    for through in reversed(weirs):
        run(client, fake)
        through.cancel(client).expect_closed()
        assert client.result().error == CANCELLED


@pytest.mark.parametrize("size", [4, 24])
def test_each_hop_is_counted(scene, size):
    """A fake peer returns the request that is forwarded to it."""
    peer = scene.fake()
    weir = transactions(scene, scene.mini(), peer_id=1, sections={"peers": {"3": "host=127.0.0.1 port=%d" % peer.port}})

    def key(hops, peer_id=3):
        return bytes((peer_id >> 6, (peer_id & 0x3f) << 2 | hops)) + bytes(range(100, 98 + size))

    for hops in (3, 2, 1):
        request = weir.connect()
        request.send(m.cancel_request(4711, key(hops)))
        assert peer.next_cancel() == (4711, key(hops - 1))
        request.expect_closed()
    for nobodys in (key(0), key(3, peer_id=2), key(3, peer_id=1), key(3) + b"\0", key(3)[:-1] + bytes(5)):
        request = weir.connect()
        request.send(m.cancel_request(4711, nobodys))
        request.expect_closed()
    assert peer.cancels.empty()


# --- servers

def test_servers_are_asked_for_3_0(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, show_extra_columns=1)
    weir.client(protocol=m.PROTOCOL_3_2).query("something")
    assert [session.protocol for session in fake.started] == [m.PROTOCOL_3_0]
    assert [row["protocol"] for row in weir.show("SERVERS")] == ["3.0"]


@pytest.mark.parametrize("newest", ["3.2", "latest"])
@pytest.mark.parametrize("protocol", [m.PROTOCOL_3_0, m.PROTOCOL_3_2])
def test_long_key_of_a_server(scene, newest, protocol):
    fake = scene.mini()
    weir = transactions(scene, fake, server_max_protocol_version=newest, show_extra_columns=1)
    client = weir.client(protocol=protocol)
    run(client, fake)
    (session,) = fake.started
    assert session.protocol == m.PROTOCOL_3_2 and len(session.key) == 32
    assert [row["protocol"] for row in weir.show("SERVERS")] == ["3.2"]
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED
    assert fake.next_cancel() == (session.pid, session.key)


def test_server_that_negotiates_down(scene):
    fake = scene.mini(minor=0)
    weir = transactions(scene, fake, server_max_protocol_version="3.2", show_extra_columns=1)
    client = weir.client(protocol=m.PROTOCOL_3_2)
    run(client, fake)
    (session,) = fake.started
    assert session.protocol == m.PROTOCOL_3_2 and len(session.key) == 4
    assert [row["protocol"] for row in weir.show("SERVERS")] == ["3.0"]
    weir.cancel(client).expect_closed()
    assert client.result().error == CANCELLED


def test_database_has_its_own_protocol_version(scene):
    old, new = scene.mini(), scene.mini()
    weir = scene.weir({"old": "host=127.0.0.1 port=%d max_protocol_version=3.0" % old.port, "new": new},
                      server_max_protocol_version="latest")
    for database in ("old", "new"):
        weir.client(database=database).query("something")
    assert old.started[0].protocol == m.PROTOCOL_3_0 and new.started[0].protocol == m.PROTOCOL_3_2


@pytest.mark.parametrize("change", ["setting", "key"])
def test_a_changed_version_reconnects(scene, change):
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client()
    client.query("before")
    if change == "setting":
        weir.admin("SET server_max_protocol_version = '3.2'")
    else:
        weir.databases["p0"] = "host=127.0.0.1 port=%d dbname=p0 max_protocol_version=3.2" % fake.port
        weir.write_ini()
        weir.admin("RELOAD")
    assert client.query("after").value == "after"
    assert [session.protocol for session in fake.started] == [m.PROTOCOL_3_0, m.PROTOCOL_3_2]


def played_login(scene, play, **settings):
    """Returns the error message of a login at a server that plays this after the start-up packet."""
    fake = scene.fake()

    def login(session):
        play(session)
        raise Closed("the end of the play")

    fake.login = login
    weir = transactions(scene, fake, **settings)
    words = weir.connect().refused(user="app", database="p0")["M"]
    assert "AddressSanitizer" not in weir.stderr()
    return words


@pytest.mark.parametrize("asked, body, words", [
    ("3.2", struct.pack("!II", m.PROTOCOL_3_0 + 1, 0), "server wants to speak protocol 3.1"),
    ("3.2", struct.pack("!II", m.PROTOCOL_3_0 + 3, 0), "server wants to speak protocol 3.3"),
    ("3.2", struct.pack("!II", 2 << 16, 0), "server wants to speak protocol 2.0"),
    ("3.2", struct.pack("!II", 4 << 16, 0), "server wants to speak protocol 4.0"),
    ("3.2", struct.pack("!II", 2 ** 32 - 1, 0), "server wants to speak protocol 65535.65535"),
    ("3.0", struct.pack("!II", m.PROTOCOL_3_2, 0), "server wants to speak protocol 3.2"),
    ("3.2", struct.pack("!II", m.PROTOCOL_3_0, 1) + b"_pq_.x\0", "malformed NegotiateProtocolVersion"),
    ("3.2", struct.pack("!II", m.PROTOCOL_3_0, 2 ** 32 - 1), "malformed NegotiateProtocolVersion"),
    ("3.2", struct.pack("!II", m.PROTOCOL_3_0, 0) + b"x", "malformed NegotiateProtocolVersion"),
    ("3.2", struct.pack("!I", m.PROTOCOL_3_0), "malformed NegotiateProtocolVersion"),
    ("3.2", b"", "malformed NegotiateProtocolVersion"),
])
def test_server_negotiates_an_unrequested_version(scene, asked, body, words):
    said = played_login(scene, lambda session: session.send(m.message("v", body)), server_max_protocol_version=asked)
    assert said == "invalid server login exchange: " + words


@pytest.mark.parametrize("before", [
    m.negotiate_protocol_version(m.PROTOCOL_3_0), m.authentication(3), m.authentication(5, b"salt"),
    m.authentication(10, b"SCRAM-SHA-256\0\0"), m.authentication_ok()])
def test_server_negotiates_too_late(scene, before):
    late = m.negotiate_protocol_version(m.PROTOCOL_3_0)
    said = played_login(scene, lambda session: session.send(before, late), server_max_protocol_version="3.2",
                        server_require_auth=ANY_METHOD)
    assert said == "invalid server login exchange: NegotiateProtocolVersion out of order"


@pytest.mark.parametrize("version", [0, m.PROTOCOL_3_0])
def test_server_that_sends_the_minor_version_only(scene, version):
    """The documentation of the message leaves that open."""
    fake = scene.fake()

    def login(session):
        session.send(m.negotiate_protocol_version(version))
        session.welcome()

    fake.login = login
    weir = transactions(scene, fake, server_max_protocol_version="3.2", show_extra_columns=1)
    client = weir.client()
    client.send(m.query("x"))
    fake.accept().expect_query("x")
    assert [row["protocol"] for row in weir.show("SERVERS")] == ["3.0"]


@pytest.mark.parametrize("newest", ["3.0", "3.2"])
@pytest.mark.parametrize("size", [0, 1, 3, 257, 5000])
def test_server_key_of_an_impossible_size(scene, newest, size):
    said = played_login(scene, lambda session: session.send(m.authentication_ok(), m.backend_key_data(7, bytes(size)), m.ready()),
                        server_max_protocol_version=newest)
    assert said == "invalid server login exchange: malformed BackendKeyData"


@pytest.mark.parametrize("newest, size", [("3.0", 4), ("3.0", 32), ("3.2", 4), ("3.2", 5), ("3.2", 256)])
def test_server_keys_of_every_size_are_kept(scene, newest, size):
    fake = scene.mini()
    key = bytes(range(256))[256 - size:]

    def login(session):
        session.key = key
        session.welcome()

    fake.login = login
    weir = transactions(scene, fake, server_max_protocol_version=newest)
    client = weir.client()
    run(client, fake)
    weir.cancel(client).expect_closed()
    assert fake.next_cancel() == (fake.started[0].pid, key)
    assert client.result().error == CANCELLED
