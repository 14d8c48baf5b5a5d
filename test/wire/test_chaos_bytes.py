"""
Bytes that make no sense, from clients and from servers, at every step: pgweir closes the connection that sends them, waits for
more or answers with an error. All other connections go on undisturbed, and nothing is left over.
"""
import random
import ssl
import struct

import pytest

from support import conversation
from support import messages as m
from support import scram
from support.live import SOON
from support.rounds import rounds
from support.until import until
from support.wire import Client, Closed, LoginRefused

GONE = (Closed, OSError, ssl.SSLError)


def tls_settings(authority):
    return {"client_tls_sslmode": "allow", "client_tls_cert_file": authority.cert("server"),
            "client_tls_key_file": authority.key("server"), "server_tls_sslmode": "prefer"}


# --- nonsense

def spoil(draw, data):
    """One way or another of making a stream of messages wrong."""
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        at = draw.randrange(len(data) + 1)
        way = draw.randrange(8)
        if way == 0:
            data[at:at] = draw.randbytes(draw.randrange(1, 20))
        elif way == 1:
            del data[at:at + draw.randrange(1, 20)]
        elif way == 2 and at < len(data):
            data[at] = draw.randrange(256)
        elif way == 3 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif way == 4:
            data[at:at + 4] = struct.pack("!I", draw.choice((0, 3, 4, 5, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 70000)))
        elif way == 5:
            data[at:at] = m.message(chr(draw.randrange(1, 255)).encode("latin-1").decode("ascii", "replace")[:1]
                                    .replace("\ufffd", "?"), draw.randbytes(draw.randrange(30)))
        elif way == 6:
            del data[at:]
        else:
            start = draw.randrange(len(data) + 1)
            data[at:at] = data[start:start + draw.randrange(200)]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def client_words(draw, talk):
    """Some messages of a client, in some order."""
    words = [step for _, steps in talk.parts for step in steps if isinstance(step, bytes)]
    return b"".join(draw.choice(words) for _ in range(draw.randrange(1, 4)))


def let_go(draw, client):
    """All the ways in which a client can leave."""
    try:
        way = draw.randrange(4)
        if way == 0:
            client.shut_writing()
            client.drain_bytes()
        elif way == 1:
            client.send(m.terminate())
        elif way == 2:
            client.abort()
    except GONE:
        pass
    except AssertionError:
        raise AssertionError("hangs after the client has ended its side") from None
    client.close()


def bad_before_login(draw, weir, authority):
    client = weir.connect()
    try:
        kind = draw.randrange(6)
        good = m.startup(user="app", database="p0", application_name="x" * draw.randrange(40))
        if kind == 0:
            client.send(draw.randbytes(draw.randrange(1, 60)))
        elif kind == 1:
            client.send(good[:draw.randrange(len(good))])
        elif kind == 2:
            client.send(spoil(draw, good))
        elif kind == 3:
            client.send(m.SSL_REQUEST + draw.randbytes(draw.randrange(40)))
        elif kind == 4:
            client.send(m.SSL_REQUEST)
            client.read_bytes(1)
            client.send(draw.choice((b"\x16\x03\x01" + draw.randbytes(60), good, draw.randbytes(9), b"\x16")))
        else:
            client.start_tls(authority.client_context())
            client.send(spoil(draw, good))
    except GONE:
        pass
    return client


def bad_in_login(draw, weir, user):
    """user: a known or an unknown one; both have to authenticate."""
    client = weir.connect()
    try:
        client.send(m.startup(user=user, database="p0"))
        client.expect("R")
        first = m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=" + scram.nonce().encode())
        if draw.random() < 0.5:
            client.send(draw.choice((spoil(draw, first), m.query("too early"), first + first,
                                     m.password("x" * draw.choice((0, 10, 5000))), m.terminate())))
        else:
            client.send(first)
            challenge = client.expect("R").body[4:].decode()
            final, _ = scram.client_final(draw.choice(("app-secret", "wrong")), "n=,r=x", challenge)
            client.send(spoil(draw, m.sasl_response(final.encode())))
    except GONE:
        pass
    except AssertionError:
        assert draw, "refused: as well"
    return client


def bad_after_login(draw, weir, talk):
    client = weir.connect()
    try:
        client.login(user="app", database="p0")
        client.send(spoil(draw, client_words(draw, talk)))
    except GONE:
        pass
    return client


def thick_skinned(fake):
    """As PostgreSQL: a message that cannot be read is answered with FATAL and the end."""
    sane = fake.serve

    def serve(session):
        try:
            sane(session)
        except (ValueError, IndexError, struct.error) as why:
            session.send(m.error("invalid message format: %s" % why, "08P01", "FATAL"))
            session.close()
        finally:
            session.close()

    fake.serve = serve
    return fake


@pytest.mark.parametrize("seed", range(3))
def test_invalid_messages_from_clients(scene, authority, seed):
    draw = random.Random(seed)
    fake = thick_skinned(scene.mini())
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=2, **tls_settings(authority),
                      query_wait_notify=0, server_login_retry=0)
    talk = conversation.Conversation("n%d" % seed, conversation.MINI, 20)
    good = weir.client(user="rival")
    before = None
    for turn in rounds(120):
        crowd = [draw.choice((lambda: bad_before_login(draw, weir, authority),
                              lambda: bad_after_login(draw, weir, talk),
                              lambda: bad_after_login(draw, weir, talk)))() for _ in range(4)]
        assert good.query("good %d" % turn).value == "good %d" % turn
        for client in crowd:
            let_go(draw, client)
        if turn == 20:
            before = weir.descriptors()
    only_the_good(weir)
    assert weir.descriptors() <= before + 8
    weir.wait_asleep()
    assert good.query("still good").value == "still good"


@pytest.mark.parametrize("method", ["plain", "md5", "scram-sha-256"])
def test_invalid_messages_in_a_login(scene, method):
    draw = random.Random(method)
    weir = scene.weir(scene.mini(), pool_mode="transaction", auth_type=method)
    good = weir.client()
    for turn in rounds(60):
        crowd = [bad_in_login(draw, weir, draw.choice(("app", "rival", "nobody"))) for _ in range(4)]
        assert good.query("good %d" % turn).value == "good %d" % turn
        for client in crowd:
            let_go(draw, client)
    only_the_good(weir)


def only_the_good(weir):
    """One client is left, in addition to the console clients."""
    until(lambda: [c["database"] for c in weir.show("CLIENTS") if c["database"] != "pgbouncer"] == ["p0"],
          "all others are gone")


# --- servers

def record(fake, sql):
    """Returns the messages of a correct server for a login and a query, in two pieces."""
    direct = Client(fake.port)
    welcome = direct.login(user="app", database="p0")
    answer = direct.query(sql).messages
    direct.close()
    return tuple(b"".join(m.message(one.type, one.body) for one in part) for part in (welcome, answer))


def victim(weir):
    """A client of a server that sends wrong bytes. It must receive its answer or see the end of its connection."""
    client = weir.connect()
    heard = []
    try:
        client.login(user="app", database="p0")
        client.send(m.query("ask"))
        heard = client.read_until("Z")
        client.send(m.terminate())
    except LoginRefused as refusal:
        heard = [m.Message("E", b"")]
        assert refusal.fields["M"]
    except Closed:
        pass
    client.close()
    return heard


def bad_server(fake, welcome, answer, end):
    """Makes each new connection of the server say just this, and end."""
    def login(session):
        session.send(welcome[0])
        if len(welcome) > 1:
            end(session)
            raise Closed("as the scene wants it")

    def serve(session):
        try:
            session.expect_query("ask")
            session.send(answer)
            end(session)
        except (Closed, OSError, AssertionError):
            session.close()

    fake.login, fake.serve = login, serve


ENDS = {"eof": lambda s: s.close(), "reset": lambda s: s.abort()}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_server_dies_at_every_byte(scene, end):
    fake = scene.mini()
    sane = fake.serve
    welcome, answer = record(fake, "rows 2 10")
    weir = scene.weir({"p0": fake, "good": scene.mini()}, pool_mode="transaction", default_pool_size=1,
                      server_login_retry=0, server_down="fail")
    good = weir.client(database="good")
    for cut in range(len(welcome)):
        bad_server(fake, (welcome[:cut], "ends"), b"", ENDS[end])
        heard = victim(weir)
        assert not heard or heard[-1].type == "E", (cut, heard)
        fake.started.clear()
    assert good.query("undisturbed").value == "undisturbed"
    for cut in range(len(answer)):
        bad_server(fake, (welcome,), answer[:cut], ENDS[end])
        heard = victim(weir)
        assert not heard, (cut, heard)
        fake.started.clear()
    assert good.query("undisturbed").value == "undisturbed"
    fake.login, fake.serve = None, sane
    assert weir.client().query("healed").value == "healed"
    until(lambda: weir.pool("p0")["sv_login"] == 0, "no login is left over")


@pytest.mark.parametrize("seed", range(3))
def test_invalid_messages_from_a_server(scene, seed):
    """Whatever a server sends, its client receives an answer or sees the end, and another server serves the next client."""
    draw = random.Random(seed)
    fake = scene.mini()
    sane = fake.serve
    welcome, answer = record(fake, "rows 2 10")
    weir = scene.weir({"p0": fake, "good": scene.mini()}, pool_mode="transaction", default_pool_size=1,
                      server_login_retry=0, query_wait_timeout=SOON)
    good = weir.client(database="good")
    for turn in rounds(100):
        if draw.random() < 0.4:
            bad_server(fake, (spoil(draw, welcome), "ends"), b"", ENDS[draw.choice(sorted(ENDS))])
        else:
            bad_server(fake, (welcome,), spoil(draw, answer), ENDS[draw.choice(sorted(ENDS))])
        victim(weir)
        if turn % 10 == 0:
            assert good.query("good %d" % turn).value == "good %d" % turn
        fake.drop_all()
        fake.started.clear()
        weir.barrier()
    fake.login, fake.serve = None, sane
    weir.admin("RECONNECT p0")
    assert weir.client().query("healed").value == "healed"
    until(lambda: weir.pool("p0")["sv_login"] == 0, "no login is left over")


UNASKED = {
    "ready": m.ready(), "two readies": m.ready() * 2, "row": m.data_row("whose?"), "complete": m.command_complete("X"),
    "result": m.rows("whose?"), "copy in": m.copy_in_response(), "copy data": m.copy_data(b"x"), "parsed": m.parse_complete(),
    "authentication": m.authentication_ok(), "key": m.backend_key_data(1, b"1234"), "byte": b"D", "zero": b"\0",
    "error": m.error("unasked", "57P01", "FATAL"), "mild error": m.error("unasked"), "half a notice": m.notice("x" * 50)[:20],
    "half a parameter": m.parameter_status("TimeZone", "x" * 50)[:20], "bad parameter": m.message("S", b"TimeZone"),
    "huge parameter": m.parameter_status("TimeZone", "x" * 100000),
}


ENDED_BY_THE_SERVER = ("byte", "zero", "half a notice", "half a parameter")


@pytest.mark.parametrize("kind", sorted(UNASKED))
@pytest.mark.parametrize("idle", [False, True])
def test_unexpected_messages_of_a_server(scene, kind, idle):
    """After the answer in the same write, or later, when the server is idle: the next client sees nothing of them."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_login_retry=0)
    alice, bob = weir.client(), weir.client()
    alice.send(m.query("first"))
    server = fake.accept()
    server.expect_query("first")
    words = m.rows("for alice") + m.ready()
    server.send(words if idle else words + UNASKED[kind])
    assert m.read_row(alice.expect_all("TDC")[1].body) == [b"for alice"]
    if idle:
        alice.expect("Z")
        server.send(UNASKED[kind])
    if not idle and kind in ENDED_BY_THE_SERVER:
        # after a partial message the server is not lent, even before it ends
        bob.send(m.query("second"))
        weir.barrier()
        assert not server.has_input()
        server.close()
    else:
        if kind in ENDED_BY_THE_SERVER:
            server.close()
            until(lambda: weir.pool("p0")["sv_idle"] == 0, "the server is gone")
        bob.send(m.query("second"))
    server = fake.accept()
    server.expect_query("second")
    server.answer("for bob")
    assert bob.result().value == "for bob"


def test_error_text_that_contains_fatal(scene):
    """Severity is a field, not a word in the text: the server continues with the next client."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    alice, bob = weir.client(), weir.client()
    assert alice.query("fail VFATAL SFATAL VPANIC").error == "VFATAL SFATAL VPANIC"
    assert bob.query("same server").value == "same server"
    assert len(fake.started) == 1


@pytest.mark.parametrize("unasked", ["ready", "row", "half a parameter"])
def test_server_that_is_never_usable(scene, unasked):
    """The server sends an unexpected message after each welcome: each client gets an error, and the server is not dialled again and again."""
    fake = scene.fake()

    def login(session):
        session.welcome()
        session.send(UNASKED[unasked])
        session.close()
        raise Closed("as the scene wants it")

    fake.login = login
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=2, server_login_retry=3600, server_down="fail")
    for _ in range(3):
        client = weir.connect()
        client.send(m.startup(user="app", database="p0") + m.query("never answered"))
        assert client.drain()[-1].type == "E"
    # at most one for each client: where the server's words come late, it has been lent by then
    assert len(fake.started) <= 3


def test_unsolicited_but_allowed(scene):
    """Notices, notifications and parameters may come at any moment, also in the middle of a row's neighbours."""
    fake = scene.mini(byte_by_byte=True)
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_login_retry=0)
    client = weir.client()
    extra = m.notice("n") + m.notification(1, "channel") + m.parameter_status("TimeZone", "Mars")
    for turn in range(5):
        fake.started[-1].send(extra)
        weir.barrier()
        assert client.query("turn %d" % turn).value == "turn %d" % turn
    assert len(fake.started) == 1


def test_more_clients_than_descriptors(scene):
    """Clients that are let in are served: however many there are, they leave a descriptor for the server connection."""
    weir = scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=4, nofile=64, max_client_conn=1000,
                      allow="descriptor|RLIMIT|file", client_login_timeout=0)
    crowd = [weir.connect() for _ in range(100)]
    for n, client in enumerate(crowd):
        client.send(m.startup(user="app", database="p0") + m.query("%d" % n))
    for n, client in enumerate(crowd):
        client.finish_login("app")
        assert client.result().value == "%d" % n
        client.close()
    weir.wait_asleep()
