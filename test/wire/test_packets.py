"""Traps 61 to 67: packets that lie about their length, their order, or themselves."""
import base64
import struct

import pytest

from support import messages as m
from support import scram
from support.pgweir import ANY_METHOD
from support.until import until
from support.wire import Closed, LoginRefused

LENGTHS = [0, 1, 2, 3, 4, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 1]


def transactions(scene, target, pool_size=2, **options):
    return scene.weir(target, pool_mode="transaction", default_pool_size=pool_size, **options)


def lying(kind, length, body=b"x\0"):
    return kind.encode() + struct.pack("!I", length) + body


def ends(client):
    """Returns the error message before the end. The client shuts its side first, because pgweir may wait for a long message."""
    try:
        client.shut_writing()
    except OSError:
        pass
    return "".join(got.type for got in client.drain())


@pytest.mark.parametrize("length", LENGTHS)
def test_trap_61_lengths_from_a_client(scene, length):
    """Length overflow, unchecked widening: in every message, when idle and after a query."""
    weir = transactions(scene, scene.mini())
    for kind in "QPBDECSHFXdcfpz":
        client = weir.client()
        # without a body these do not lie (PostgreSQL would refuse a Query without a NUL, the played server does not)
        fine = {"S": "Z", "F": "VZ", "Q": "IZ"}.get(kind, "") if length == 4 else ""
        client.send(lying(kind, length))
        assert ends(client) in ("", "E", fine), kind
        client = weir.client()
        client.send(m.query("before"), lying(kind, length))
        assert ends(client) in ("", "E", "TDCZ", "TDCZE", "TDCZ" + fine), kind
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_trap_61_lengths_in_a_login(scene, auth_type, length):
    weir = transactions(scene, scene.mini(), auth_type=auth_type)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    client.send(lying("p", length, b"SCRAM-SHA-256\0\0\0\0\5hello"))
    assert ends(client) in ("", "E")
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("inner", [-2, -2 ** 31, 2 ** 31 - 1, 2 ** 31 - 14, 1000, 0])
def test_trap_61_length_inside_a_scram_packet(scene, inner):
    """The length of the initial response, inside of a message with a right length of its own."""
    weir = transactions(scene, scene.mini(), auth_type="scram-sha-256")
    for data in (b"", b"n,,n=,r=abc", b"n,,n=,r=" + b"x" * 5000):
        client = weir.connect()
        client.send(m.startup(user="app", database="p0"))
        client.expect("R")
        client.send(m.message("p", m.cstring("SCRAM-SHA-256") + struct.pack("!i", inner) + data))
        assert ends(client) in ("", "E")
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("first", [
    b"", b"n", b"n,", b"n,,", b"n,,n=", b"n,,n=,r=", b"y,,n=,r=abc", b"p=tls-unique,,n=,r=abc", b"n,a=app,n=,r=abc",
    b"n,,m=x,n=,r=abc", b"n,,r=abc,n=", b"\0", b"n,,n=,r=a\0b", b"n,,n=,r=\xff\xfe", b"n,,n=,r=a b", b"x,,n=,r=abc",
])
def test_malformed_first_message_of_scram(scene, first):
    weir = transactions(scene, scene.mini(), auth_type="scram-sha-256")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    client.send(m.sasl_initial("SCRAM-SHA-256", first))
    assert ends(client) in ("E", "R", "RE", "")
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("final", [
    "", "c=biws", "c=biws,r={r}", "c=biws,r={r},p=", "c=biws,r={r},p=AAAA", "c=biws,r={r},p=!!!!", "c=biws,r=other,p={p}",
    "c=eSws,r={r},p={p}", "r={r},p={p}", "c=biws,r={r},p={long}", "c=biws,r={r},x=1,p={p}", "p={p}",
])
def test_malformed_final_message_of_scram(scene, final):
    weir = transactions(scene, scene.mini(), auth_type="scram-sha-256")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    client.send(m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=abc"))
    nonce = scram.attributes(client.expect("R").body[4:].decode())["r"]
    client.send(m.sasl_response(final.format(r=nonce, p=scram.b64(b"x" * 32), long=scram.b64(b"x" * 9000)).encode()))
    error = m.read_error(client.expect("E").body)
    assert error["M"] in ("SASL authentication failed", "password authentication failed")
    client.expect_closed()


@pytest.mark.parametrize("length", LENGTHS)
def test_trap_61_lengths_from_a_server(scene, length):
    fake = scene.mini()
    sane = fake.serve
    words = [None]

    def serve(session):
        if words[0] is None:
            sane(session)
            return
        session.read()
        session.send(words[0])
        session.shut_writing()
        session.drain()

    fake.serve = serve
    weir = transactions(scene, fake, server_login_retry=0)
    for kind in "DTCEZSNA1n":
        words[0] = lying(kind, length)
        client = weir.client()
        client.send(m.query("x"))
        try:
            # a message without a body is relayed
            kinds = "".join(got.type for got in client.read_until("E"))
            assert kinds == "E" or length == 4 and kinds == kind + "E", kind
        except Closed:
            pass
        client.close()
    words[0] = None
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("length", LENGTHS + [5, 7])
@pytest.mark.parametrize("kind", "RSKZEN")
def test_trap_61_lengths_from_a_server_in_its_login(scene, kind, length):
    fake = scene.mini()

    def login(session):
        session.send(lying(kind, length))
        session.shut_writing()
        session.drain()
        raise Closed("as the scene wants it")

    fake.login = login
    weir = transactions(scene, fake, server_login_retry=0, query_wait_timeout=0.5)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert [got.type for got in client.drain()][-1] == "E"
    fake.login = None
    assert weir.client().query("unharmed").value == "unharmed"


SERVER_FIRST = {
    "nonce of 10 kB": "r={r}" + "x" * 10000 + ",s=c2FsdA==,i=4096",
    "salt of 10 kB": "r={r}x,s=" + base64.b64encode(b"x" * 10000).decode() + ",i=4096",
    "bad base64": "r={r}x,s=!!!!,i=4096",
    "half base64": "r={r}x,s=c2F,i=4096",
    "empty salt": "r={r}x,s=,i=4096",
    "no salt": "r={r}x,i=4096",
    "no count": "r={r}x,s=c2FsdA==",
    "count 0": "r={r}x,s=c2FsdA==,i=0",
    "negative count": "r={r}x,s=c2FsdA==,i=-1",
    "huge count": "r={r}x,s=c2FsdA==,i=99999999999999999999",
    "other nonce": "r=other,s=c2FsdA==,i=4096",
    "same nonce": "r={r},s=c2FsdA==,i=4096",
    "nothing": "",
    "a NUL": "r={r}x\0,s=c2FsdA==,i=4096",
    "extension": "m=x,r={r}x,s=c2FsdA==,i=4096",
}


@pytest.mark.parametrize("words", sorted(SERVER_FIRST))
def test_trap_62_first_message_of_a_servers_scram(scene, words):
    """A huge nonce overflowed the stack; a salt with invalid base64 gave a negative length."""
    fake = scene.mini()

    def login(session):
        session.send(m.authentication(10, m.cstring("SCRAM-SHA-256") + b"\0"))
        bare = session.expect("p").body.partition(b"\0")[2][4:].decode().split(",", 2)[2]
        nonce = scram.attributes(bare)["r"]
        session.send(m.authentication(11, SERVER_FIRST[words].format(r=nonce).encode()))
        session.drain()
        raise Closed("as the scene wants it")

    fake.login = login
    weir = transactions(scene, fake, server_login_retry=0, server_connect_timeout=2, query_wait_timeout=1)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.drain()[-1].type == "E"
    # the next client must not be among those that waited for that login
    until(lambda: weir.pool("p0")["sv_login"] == 0, "the login has failed")
    fake.login = None
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("words", ["v=AAAA", "v=!!!", "", "e=other-error", "v=" + "A" * 9000])
def test_trap_62_final_message_of_a_servers_scram(scene, words):
    """A server that cannot prove that it knows the password is not logged in to."""
    fake = scene.mini()

    def login(session):
        session.send(m.authentication(10, m.cstring("SCRAM-SHA-256") + b"\0"))
        bare = session.expect("p").body.partition(b"\0")[2][4:].decode().split(",", 2)[2]
        first = scram.server_first(scram.attributes(bare)["r"], scram.make_secret("app-secret"))
        session.send(m.authentication(11, first.encode()))
        session.expect("p")
        session.send(m.authentication(12, words.encode()))
        session.welcome()

    fake.login = login
    weir = transactions(scene, fake, server_login_retry=3600)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    got = client.drain()
    assert [message.type for message in got] == ["E"]


@pytest.mark.parametrize("method", ["cleartext", "md5", "scram"])
def test_servers_that_ask_for_a_password(scene, method):
    weir = transactions(scene, scene.mini(method=method, password="app-secret"), server_require_auth=ANY_METHOD)
    assert weir.client().query("logged in").value == "logged in"


@pytest.mark.parametrize("method", ["cleartext", "md5", "scram"])
def test_servers_that_refuse_the_password(scene, method):
    weir = transactions(scene, scene.mini(method=method, password="another"), server_login_retry=3600, server_down="fail",
                        server_require_auth=ANY_METHOD)
    text = 'password authentication failed for user "app"'
    assert text in weir.connect().refused(user="app", database="p0")["M"]
    weir.wait_log("server login failed: FATAL " + text)
    assert text in weir.connect().refused(user="app", database="p0")["M"]


@pytest.mark.parametrize("present", ["", "S", "SC", "SM", "CM", "M", "C", "SCM", "SVCMDHPpqWstcdnFLR"])
def test_trap_63_error_without_some_of_its_fields(scene, present):
    """ErrorResponse without SQLSTATE crashed."""
    text = {"S": "FATAL", "V": "FATAL", "C": "28000", "M": "the text"}
    packet = m.message("E", m.fields(**{code: text.get(code, "1") for code in present}))
    fake = scene.mini()

    def login(session):
        session.send(packet)
        raise Closed("as the scene wants it")

    fake.login = login
    weir = transactions(scene, fake, server_login_retry=0, query_wait_timeout=0.5)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.drain()[-1].type == "E"
    fake.login = None
    client = weir.client()
    client.query("fine")
    assert client.query("fine").value == "fine"


def test_trap_63_unterminated_error_body(scene):
    fake = scene.mini()

    def login(session):
        session.send(m.message("E", b"SFATAL\0Mno end"))
        raise Closed("as the scene wants it")

    fake.login = login
    weir = transactions(scene, fake, server_login_retry=0, query_wait_timeout=0.5)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    assert client.drain()[-1].type == "E"


def test_trap_63_server_without_a_cancel_key(scene):
    """A server that sends no BackendKeyData was not tolerated."""
    fake = scene.mini()
    fake.login = lambda session: session.welcome(key=False)
    weir = transactions(scene, fake)
    client = weir.client()
    client.query("BEGIN")
    weir.cancel(client).drain()
    assert client.query("COMMIT").status == "I"
    assert fake.cancels.empty()


@pytest.mark.parametrize("size", [64, 1000, 9000, 65536, 200000])
def test_trap_64_long_names(scene, size):
    """A long database name was fatal."""
    weir = transactions(scene, scene.mini())
    name = "x" * size
    for pairs in ([("user", "app"), ("database", name)], [("user", name), ("database", "p0")],
                  [("user", "app"), ("database", "p0"), (name, "1")], [("user", "app"), ("database", "p0"), ("a", name)]):
        client = weir.connect()
        client.send(m.startup_pairs(pairs))
        # a parameter may have such a name or value: then the client is welcomed, if its server is there in time
        assert ends(client)[-1:] in ("E", "Z", "")
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("packet", [m.password("x"), m.query("x"), m.sync(), m.terminate(), m.run("x"), b"\0" * 64],
                         ids=["password", "query", "sync", "terminate", "batch", "zeros"])
def test_trap_64_messages_out_of_order(scene, packet):
    """A password before the start-up packet met a NULL."""
    weir = transactions(scene, scene.mini(), auth_type="md5")
    client = weir.connect()
    client.send(packet)
    assert ends(client) in ("E", "")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    client.send(packet if packet != m.password("x") else m.startup(user="app", database="p0"))
    assert ends(client) in ("E", "")
    client = weir.client()
    client.send(m.password("nobody asked"))
    assert ends(client) in ("E", "")
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("auth_type", ["trust", "plain", "md5", "scram-sha-256"])
@pytest.mark.parametrize("method", ["trust", "cleartext", "md5", "scram"])
def test_trap_65_login_byte_by_byte_on_both_sides(scene, auth_type, method):
    """Fragmented start-up, login and password packets were refused."""
    fake = scene.mini(byte_by_byte=True, method=method, password="app-secret")
    sane = fake._greet        # pylint: disable=protected-access

    def greet(session):
        session.send = session.dribble
        sane(session)

    fake._greet = greet       # pylint: disable=protected-access
    weir = transactions(scene, fake, auth_type=auth_type, server_require_auth=ANY_METHOD)
    client = weir.connect()
    client.send = client.dribble
    client.send(m.SSL_REQUEST)
    assert client.read_bytes(1) == b"N"
    client.login(user="app", database="p0", password="app-secret", application_name="slow")
    assert client.query("slowly").value == "slowly"


@pytest.mark.parametrize("auth_type", ["plain", "scram-sha-256"])
def test_trap_65_long_password(scene, auth_type):
    """A password of 20 kB, as some clouds hand them out as tokens."""
    secret = "long-" * 4000
    weir = transactions(scene, scene.mini(method="cleartext", password=secret), users={"app": secret}, auth_type=auth_type,
                        server_require_auth=ANY_METHOD)
    assert weir.client().query("logged in").value == "logged in"


def test_trap_65_large_startup_packet(scene):
    weir = transactions(scene, scene.mini(), ignore_startup_parameters="extra")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0", extra="x" * 8000))
    client.finish_login("app")
    assert client.query("fine").value == "fine"


def tls_side(scene, authority, mode="allow", **options):
    return transactions(scene, scene.mini(), client_tls_sslmode=mode, client_tls_key_file=authority.key("server"),
                        client_tls_cert_file=authority.cert("server"), **options)


@pytest.mark.parametrize("words", [m.query("injected"), m.startup(user="app", database="p0"), b"\x16"],
                         ids=["query", "startup", "byte"])
def test_trap_66_cleartext_after_an_ssl_request(scene, authority, words):
    """Cleartext that an attacker inserted before the encrypted bytes was accepted as the client's."""
    weir = tls_side(scene, authority)
    client = weir.connect()
    client.send(m.SSL_REQUEST, words)
    got = client.read_bytes(1)
    assert got in (b"S", b"E")
    weir.wait_log("received unencrypted data after SSL request")
    try:
        while client.read_bytes(1):
            pass
    except Closed:
        pass


def test_trap_66_tls_is_required(scene, authority):
    weir = tls_side(scene, authority, "require")
    assert weir.connect().refused(user="app", database="p0")["M"] == "SSL required"
    client = weir.connect()
    client.start_tls(authority.client_context())
    client.login(user="app", database="p0")
    assert client.query("inside").value == "inside"


def test_trap_66_second_ssl_request_inside_tls(scene, authority):
    weir = tls_side(scene, authority, "require")
    client = weir.connect()
    client.start_tls(authority.client_context())
    client.send(m.SSL_REQUEST)
    got = client.drain_bytes()
    assert got in (b"", b"N") or got[:1] == b"E"
    client = weir.connect()
    client.start_tls(authority.client_context())
    client.login(user="app", database="p0")


def test_trap_67_gss_request_before_tls(scene, authority):
    """GSSENCRequest is declined, and the client continues with any other request."""
    weir = tls_side(scene, authority, "require")
    client = weir.connect()
    client.send(m.GSSENC_REQUEST)
    assert client.read_bytes(1) == b"N"
    client.start_tls(authority.client_context())
    client.login(user="app", database="p0")
    assert client.query("inside").value == "inside"


def test_trap_67_random_bytes_in_place_of_tls(scene, authority):
    weir = tls_side(scene, authority)
    for words in (b"x" * 100, b"\x16\x03\x01\xff\xff" + b"\0" * 64, b"\x16\x03\x01\0\5\1\0\0\1\0"):
        client = weir.connect()
        client.send(m.SSL_REQUEST)
        assert client.read_bytes(1) == b"S"
        client.send(words)
        client.shut_writing()
        client.drain_bytes()
    assert weir.client().query("unharmed").value == "unharmed"


def test_unknown_user_and_wrong_password_look_the_same(scene):
    weir = transactions(scene, scene.mini(), auth_type="scram-sha-256")
    answers = []
    for user in ("app", "nobody"):
        client = weir.connect()
        try:
            client.login(user=user, database="p0", password="wrong")
        except LoginRefused as refusal:
            answers.append(refusal.fields)
        except AssertionError as fault:
            raise AssertionError("asked differently") from fault
    assert len(answers) == 2 and answers[0] == answers[1]


def challenge(weir, user):
    """(salt, iterations) that this user is shown."""
    client = weir.connect()
    client.send(m.startup(user=user, database="p0"))
    client.expect("R")
    nonce = scram.nonce()
    client.send(m.sasl_initial("SCRAM-SHA-256", ("n,,n=,r=" + nonce).encode()))
    said = scram.attributes(client.expect("R").body[4:].decode())
    client.close()
    return base64.b64decode(said["s"]), int(said["i"])


def test_unknown_users_get_the_same_requests_as_known_ones(scene):
    """Counts and lengths of salts in the proportions of the user list, each name the same ones each time."""
    shapes = [(5000, 16), (5000, 16), (20000, 16), (4096, 24)]
    users = {"user%d" % n: scram.secret_text(scram.make_secret("x", bytes(size), count)) for n, (count, size) in enumerate(shapes)}
    users["in clear"] = "secret"
    shapes.append((7777, 16))
    weir = transactions(scene, scene.mini(), auth_type="scram-sha-256", users=users, max_client_conn=1000, scram_iterations=7777)
    shown = {user: challenge(weir, user) for user in ["unknown%d" % n for n in range(200)] + list(users)}
    assert all(challenge(weir, user) == seen for user, seen in shown.items())
    assert {(count, len(salt)) for salt, count in shown.values()} == set(shapes)
    # two of four users have clear passwords
    often = [count for user, (_, count) in shown.items() if user.startswith("unknown")].count(5000)
    assert 15 < often < 150
    assert len({salt for salt, _ in shown.values()}) >= len(shown) - len(users)
