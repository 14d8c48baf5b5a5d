"""SCRAM-SHA-256-PLUS: pgweir as server and as client, and attacks by a machine in between."""
import base64
import hashlib
import shutil
import ssl

import pytest

from support import messages as m
from support import scram
from support.scenes import transactions
from support.wire import Closed, LoginRefused

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
END_POINT = "p=tls-server-end-point,,"


def der(authority, name="server"):
    with open(authority.cert(name), encoding="ascii") as f:
        return ssl.PEM_cert_to_DER_cert(f.read())


def digest(authority, name="server", algorithm="sha256"):
    return hashlib.new(algorithm, der(authority, name)).digest()


def settings(authority, name="server", **more):
    return dict({"client_tls_sslmode": "allow", "client_tls_cert_file": authority.cert(name),
                 "client_tls_key_file": authority.key(name), "auth_type": "scram-sha-256"}, **more)


@pytest.fixture
def weir(scene, authority):
    return transactions(scene, scene.mini(), 2, **settings(authority))


def begin(weir, authority, tls=True, user="app"):
    """A client that has been asked for SASL, and the mechanisms that it was offered."""
    client = weir.connect()
    if tls:
        client.start_tls(authority.client_context())
    client.send(m.startup(user=user, database="p0"))
    body = client.expect("R").body
    assert body[:4] == b"\0\0\0\x0a" and body.endswith(b"\0\0")
    return client, m.read_cstrings(body[4:-1])


def go_on(client, mechanism, gs2, channel, password="app-secret"):
    """The exchange. Returns the fields of the error, or None after a login."""
    bare = "n=,r=" + scram.nonce()
    client.send(m.sasl_initial(mechanism, (gs2 + bare).encode()))
    got = client.read()
    if got.type == "R":
        final, signature = scram.client_final(password, bare, got.body[4:].decode(), channel)
        client.send(m.sasl_response(final.encode()))
        got = client.read()
    if got.type == "E":
        client.expect_closed()
        return m.read_error(got.body)
    assert scram.attributes(got.body[4:].decode())["v"] == signature
    client.finish_login()
    assert client.query("in").value == "in"
    return None


REFUSED = "SASL authentication failed"


# --- clients

def test_trap_74_plus_is_offered_over_tls_only(weir, authority):
    assert begin(weir, authority)[1] == [PLUS, PLAIN]
    assert begin(weir, authority, tls=False)[1] == [PLAIN]


@pytest.mark.parametrize("tls", [False, True])
def test_unknown_users_get_the_same_mechanisms(weir, authority, tls):
    known, unknown = begin(weir, authority, tls), begin(weir, authority, tls, user="nobody")
    assert known[1] == unknown[1]


def test_plus(weir, authority):
    client, _ = begin(weir, authority)
    assert go_on(client, PLUS, END_POINT, END_POINT.encode() + digest(authority)) is None


@pytest.mark.parametrize("kind", ["plain", "scram"])
@pytest.mark.parametrize("auth_type", ["md5", "scram-sha-256"])
def test_plus_with_every_kind_of_secret(scene, authority, kind, auth_type):
    secret = "app-secret" if kind == "plain" else scram.secret_text(scram.make_secret("app-secret"))
    others = {name: scram.secret_text(scram.make_secret(name)) for name in ("rival", "stats")}
    weir = transactions(scene, scene.mini(), users=dict(others, app=secret), **settings(authority, auth_type=auth_type))
    if (kind, auth_type) == ("plain", "md5"):
        client = weir.connect()
        client.start_tls(authority.client_context())
        client.send(m.startup(user="app", database="p0"))
        assert client.expect("R").body[:4] == b"\0\0\0\x05"
        return
    client, offered = begin(weir, authority)
    assert offered == [PLUS, PLAIN]
    assert go_on(client, PLUS, END_POINT, END_POINT.encode() + digest(authority)) is None


def test_without_binding_over_tls(weir, authority):
    """A client that knows nothing of it says n."""
    client, _ = begin(weir, authority)
    assert go_on(client, PLAIN, "n,,", b"n,,") is None


@pytest.mark.parametrize("flag", ["n", "y"])
def test_without_tls(weir, authority, flag):
    """y is right where nothing was offered."""
    client, _ = begin(weir, authority, tls=False)
    assert go_on(client, PLAIN, flag + ",,", flag.encode() + b",,") is None


def test_downgrade_is_detected(weir, authority):
    """A client that would have bound, but was shown a list without PLUS by an attacker in between."""
    client, _ = begin(weir, authority)
    assert go_on(client, PLAIN, "y,,", b"y,,")["M"] == REFUSED
    weir.wait_log("channel binding: client supports SCRAM channel binding but thinks the server does not")
    assert go_on(begin(weir, authority)[0], PLUS, END_POINT, END_POINT.encode() + digest(authority)) is None


def test_another_certificate_is_detected(weir, authority):
    """An attacker in between ends TLS with its own certificate."""
    for channel in (digest(authority, "client"), bytes(32), digest(authority)[:-1], digest(authority) + b"\0", b"",
                    digest(authority, algorithm="sha512")):
        client, _ = begin(weir, authority)
        assert go_on(client, PLUS, END_POINT, END_POINT.encode() + channel)["M"] == REFUSED
    weir.wait_log("channel binding: SCRAM channel binding check failed", times=6)


@pytest.mark.parametrize("mechanism, gs2, channel", [
    (PLUS, "n,,", b"n,,"), (PLUS, "y,,", b"y,,"), (PLAIN, END_POINT, None), (PLUS, "p=tls-unique,,", b"x"),
    (PLUS, "p=tls-server-end-point,a=root,", None), (PLUS, "p=,,", None), (PLUS, "p,,", None), (PLUS, "p", None),
    (PLUS, "p=tls-server-end-point", None), (PLUS, "p=tls-server-end-point,", None), (PLUS, "", None),
    (PLUS, ",,", None), (PLUS, "\0\0\0", None), (PLUS, "p=" + "x" * 3000 + ",,", None),
    (PLUS, "p=tls-server-end-point,,m=1,", None), ("SCRAM-SHA-1-PLUS", END_POINT, None), ("", END_POINT, None),
    ("SCRAM-SHA-256-PLUS-PLUS", END_POINT, None), ("scram-sha-256-plus", END_POINT, None)])
def test_inconsistent_flag_and_mechanism(weir, authority, mechanism, gs2, channel):
    client, _ = begin(weir, authority)
    channel = channel or END_POINT.encode() + digest(authority)
    assert go_on(client, mechanism, gs2, channel)["M"] == REFUSED
    assert go_on(begin(weir, authority)[0], PLAIN, "n,,", b"n,,") is None


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("tls", [False, True])
def test_plus_that_was_not_offered_is_refused(weir, authority, tls, bound):
    """Bound to nothing is not bound."""
    if tls:
        weir.admin("SET client_channel_binding = 'disable'")
    client, offered = begin(weir, authority, tls)
    assert offered == [PLAIN]
    channel = END_POINT.encode() + (digest(authority) if bound else b"")
    assert go_on(client, PLUS, END_POINT, channel)["M"] == REFUSED


@pytest.mark.parametrize("channel", [b"n,,", b"y,,", b"", END_POINT.encode(), b"\xff" * 2000])
def test_another_binding_type_in_the_final_message(weir, authority, channel):
    client, _ = begin(weir, authority)
    assert go_on(client, PLUS, END_POINT, channel)["M"] == REFUSED


@pytest.mark.parametrize("attribute", ["!", "AAA", "====", "cD10bHM", ""])
def test_binding_with_invalid_base64(weir, authority, attribute):
    client, _ = begin(weir, authority)
    bare = "n=,r=" + scram.nonce()
    client.send(m.sasl_initial(PLUS, (END_POINT + bare).encode()))
    nonces = scram.attributes(client.expect("R").body[4:].decode())["r"]
    client.send(m.sasl_response(("c=%s,r=%s,p=%s" % (attribute, nonces, scram.b64(bytes(32)))).encode()))
    assert m.read_error(client.expect("E").body)["M"] == REFUSED


def test_wrong_password_and_unknown_user_fail_alike(weir, authority):
    binding = END_POINT.encode() + digest(authority)
    for user, password in (("app", "wrong"), ("nobody", "app-secret")):
        client, _ = begin(weir, authority, user=user)
        assert go_on(client, PLUS, END_POINT, binding, password)["M"] == REFUSED
    assert "channel binding:" not in weir.log()


def test_no_initial_response(weir, authority):
    """A length of -1: the data come with the next message, as RFC 4422 has it."""
    client, _ = begin(weir, authority)
    client.send(m.message("p", m.cstring(PLUS) + b"\xff\xff\xff\xff"))
    assert client.expect("R").body == b"\0\0\0\x0b"
    bare = "n=,r=" + scram.nonce()
    client.send(m.sasl_response((END_POINT + bare).encode()))
    first = client.expect("R").body[4:].decode()
    final, _ = scram.client_final("app-secret", bare, first, END_POINT.encode() + digest(authority))
    client.send(m.sasl_response(final.encode()))
    assert client.expect("R").body[:4] == b"\0\0\0\x0c"
    client.finish_login()


@pytest.mark.parametrize("algorithm, bound_by", [
    ("sha1", "sha256"), ("sha256", "sha256"), ("sha384", "sha384"), ("sha512", "sha512")])
def test_hash_follows_the_certificate(scene, authority, algorithm, bound_by):
    authority.issue(algorithm, "localhost", names="DNS:localhost", digest=algorithm)
    weak = {"client_tls_ciphers": "DEFAULT:@SECLEVEL=0"} if algorithm == "sha1" else {}
    weir = transactions(scene, scene.mini(), **settings(authority, algorithm, **weak))
    context = authority.client_context(verify=False)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    client = weir.connect()
    client.start_tls(context)
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    assert go_on(client, PLUS, END_POINT, END_POINT.encode() + digest(authority, algorithm, bound_by)) is None


def test_certificate_without_a_hash_offers_no_binding(scene, authority):
    authority.issue("ed25519", "localhost", names="DNS:localhost", by=None, key="ed25519")
    weir = transactions(scene, scene.mini(), **settings(authority, "ed25519"))
    client = weir.connect()
    client.start_tls(authority.client_context(verify=False))
    client.send(m.startup(user="app", database="p0"))
    assert m.read_cstrings(client.expect("R").body[4:-1]) == [PLAIN]
    assert go_on(client, PLAIN, "y,,", b"y,,") is None


def test_channel_binding_can_be_disabled(scene, authority):
    """For an installation with a proxy in front that ends TLS."""
    weir = transactions(scene, scene.mini(), **settings(authority, client_channel_binding="disable"))
    client, offered = begin(weir, authority)
    assert offered == [PLAIN]
    assert go_on(client, PLAIN, "y,,", b"y,,") is None
    assert go_on(begin(weir, authority)[0], PLUS, END_POINT, END_POINT.encode() + digest(authority))["M"] == REFUSED
    weir.admin("SET client_channel_binding = 'prefer'")
    assert begin(weir, authority)[1] == [PLUS, PLAIN]


def test_binding_uses_the_certificate_of_the_connection(scene, directory, authority):
    """A RELOAD installs another certificate during a login: the presented certificate remains valid for this login."""
    authority.issue("later", "localhost", names="DNS:localhost,IP:127.0.0.1")
    mine = {name: "%s/mine.%s" % (directory, name) for name in ("crt", "key")}

    def install(name):
        shutil.copy(authority.cert(name), mine["crt"])
        shutil.copy(authority.key(name), mine["key"])

    install("server")
    weir = transactions(scene, scene.mini(), 2, auth_type="scram-sha-256", client_tls_sslmode="allow",
                        client_tls_cert_file=mine["crt"], client_tls_key_file=mine["key"])
    early = weir.connect()
    early.start_tls(authority.client_context())
    weir.barrier()
    install("later")
    assert weir.admin("RELOAD") == "RELOAD"
    early.send(m.startup(user="app", database="p0"))
    early.expect("R")
    assert go_on(early, PLUS, END_POINT, END_POINT.encode() + digest(authority)) is None
    late, _ = begin(weir, authority)
    assert go_on(late, PLUS, END_POINT, END_POINT.encode() + digest(authority, "later")) is None


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_binding_on_a_resumed_session(weir, authority, version):
    context = authority.client_context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    first = weir.connect()
    first.start_tls(context)
    first.login(user="app", database="p0", password="app-secret")
    client = weir.connect()
    client.send(m.SSL_REQUEST)
    assert client.read_bytes(1) == b"S"
    client.sock = context.wrap_socket(client.sock, server_hostname="localhost", session=first.sock.session)
    assert client.sock.session_reused
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    assert go_on(client, PLUS, END_POINT, END_POINT.encode() + digest(authority)) is None


# --- servers

def scram_server(scene, authority, mechanisms=(PLUS, PLAIN), tls=True, name="server", asks="scram"):
    """A played server that asks for app's password in this way."""
    fake = scene.mini(tls=authority.server_context(name) if tls else None)

    def login(session):
        if asks == "scram":
            session.ask_scram("app-secret", mechanisms=mechanisms)
        elif asks:
            getattr(session, "ask_" + asks)("app-secret")
        session.welcome()

    fake.login = login
    return fake


def words_of(weir):
    return weir.connect().refused(user="app", database="p0")["M"]


LOGIN = "invalid server login exchange: "


@pytest.mark.parametrize("mode", ["prefer", "require"])
@pytest.mark.parametrize("mechanisms", [(PLUS, PLAIN), (PLAIN, PLUS), ("X", PLUS, "Y"), (PLUS,)])
def test_plus_is_chosen_if_offered_by_the_server(scene, authority, mode, mechanisms):
    fake = scram_server(scene, authority, mechanisms)
    weir = transactions(scene, fake, server_tls_sslmode="require", server_channel_binding=mode)
    assert weir.client().query("in").value == "in"
    (session,) = fake.started
    assert (session.mechanism, session.gs2) == (PLUS, END_POINT)
    assert session.binding == END_POINT.encode() + digest(authority)


def test_binding_without_a_password(scene, authority):
    """The keys that the user's own login has revealed bind as well."""
    fake = scram_server(scene, authority)
    secret = scram.secret_text(scram.make_secret("app-secret"))
    weir = transactions(scene, fake, users={"app": secret}, server_tls_sslmode="require",
                        server_channel_binding="require", **settings(authority))
    client, _ = begin(weir, authority)
    assert go_on(client, PLUS, END_POINT, END_POINT.encode() + digest(authority)) is None
    assert fake.started[-1].binding == END_POINT.encode() + digest(authority)


@pytest.mark.parametrize("mode, tls, mechanisms, gs2", [
    ("disable", True, (PLUS, PLAIN), "n,,"), ("disable", True, (PLAIN,), "n,,"), ("prefer", True, (PLAIN,), "y,,"),
    ("prefer", False, (PLAIN,), "n,,"), ("disable", False, (PLAIN,), "n,,"),
    # something on the way speaks TLS to the server and clear text to us
    ("prefer", False, (PLUS, PLAIN), "n,,")])
def test_flag_without_channel_binding(scene, authority, mode, tls, mechanisms, gs2):
    fake = scram_server(scene, authority, mechanisms, tls)
    weir = transactions(scene, fake, server_tls_sslmode="prefer", server_channel_binding=mode)
    assert weir.client().query("in").value == "in"
    (session,) = fake.started
    assert (session.mechanism, session.gs2, session.binding) == (PLAIN, gs2, gs2.encode())


@pytest.mark.parametrize("asks, tls, mechanisms, words", [
    ("scram", True, (PLAIN,), "channel binding is required, but the server offers none"),
    ("scram", False, (PLAIN,), "channel binding is required, but the connection has no TLS"),
    ("scram", False, (PLUS, PLAIN), "channel binding is required, but the connection has no TLS"),
    ("md5", True, (), "channel binding is required, but the server asks for the password without"),
    ("cleartext", True, (), "channel binding is required, but the server asks for the password without"),
    (None, True, (), "channel binding is required, but the server lets us in without")])
def test_require(scene, authority, asks, tls, mechanisms, words):
    fake = scram_server(scene, authority, mechanisms, tls, asks=asks)
    weir = transactions(scene, fake, server_tls_sslmode="prefer", server_channel_binding="require")
    assert words_of(weir) == LOGIN + words
    assert not fake.started[0].mechanism


def test_database_has_its_own_mode(scene, authority):
    fake = scram_server(scene, authority)
    target = "host=127.0.0.1 port=%d" % fake.port
    weir = scene.weir({"off": target + " channel_binding=disable", "on": target}, server_tls_sslmode="require",
                      server_channel_binding="require")
    for database in ("off", "on"):
        weir.client(database=database).query("in")
    assert [session.mechanism for session in fake.started] == [PLAIN, PLUS]


@pytest.mark.parametrize("change", ["setting", "key"])
def test_a_changed_mode_reconnects(scene, authority, change):
    fake = scram_server(scene, authority)
    weir = transactions(scene, fake, server_tls_sslmode="require")
    client = weir.client()
    client.query("before")
    if change == "setting":
        weir.admin("SET server_channel_binding = 'disable'")
    else:
        weir.databases["p0"] = "host=127.0.0.1 port=%d dbname=p0 channel_binding=disable" % fake.port
        weir.write_ini()
        weir.admin("RELOAD")
    assert client.query("after").value == "after"
    assert [session.mechanism for session in fake.started] == [PLUS, PLAIN]


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_servers_certificate_without_a_hash(scene, authority, mode):
    authority.issue("ed25519", "localhost", names="DNS:localhost", by=None, key="ed25519")
    fake = scram_server(scene, authority, name="ed25519")
    weir = transactions(scene, fake, server_tls_sslmode="require", server_channel_binding=mode)
    if mode == "require":
        assert words_of(weir) == LOGIN + "channel binding is required, but it is not defined for the server's certificate"
        return
    assert weir.client().query("in").value == "in"
    assert (fake.started[0].mechanism, fake.started[0].gs2) == (PLAIN, "n,,")


def test_attacker_between_pgweir_and_its_server(scene, authority):
    """
    An attacker in the middle has a certificate of its own and forwards all bytes: the login is bound to the attacker's
    certificate, not to the server's.
    """
    authority.issue("between", "localhost", names="DNS:localhost")
    fake = scram_server(scene, authority, name="between")
    weir = transactions(scene, fake, server_tls_sslmode="require")
    weir.client().query("in")
    assert fake.started[0].binding == END_POINT.encode() + digest(authority, "between")
    assert fake.started[0].binding != END_POINT.encode() + digest(authority, "server")


@pytest.mark.parametrize("body", [
    b"", b"\0", PLUS.encode(), PLUS.encode() + b"\0", PLUS.encode() + b"\0\0x", b"\0" + PLUS.encode() + b"\0\0",
    b"SCRAM-SHA-256-PLU\0\0", b"SCRAM-SHA-256-PLUSS\0\0", b"scram-sha-256\0\0", b"x" * 60000 + b"\0\0", b"GSSAPI\0\0",
    PLAIN.encode() + b"\0", PLAIN.encode() + b"\0\0\0"])
@pytest.mark.parametrize("tls", [False, True])
def test_malformed_mechanism_lists(scene, authority, body, tls):
    fake = scene.fake(tls=authority.server_context() if tls else None)

    def login(session):
        session.send(m.authentication(10, body))
        raise Closed("the end of the play")

    fake.login = login
    weir = transactions(scene, fake, server_tls_sslmode="prefer")
    assert words_of(weir) == LOGIN + "server offers no SASL mechanism that is known"


@pytest.mark.parametrize("again", [m.authentication(10, PLUS.encode() + b"\0\0"), m.authentication(3)])
def test_server_sends_two_authentication_requests(scene, authority, again):
    fake = scene.fake(tls=authority.server_context())

    def login(session):
        session.send(m.authentication(10, PLUS.encode() + b"\0\0"), again)
        raise Closed("the end of the play")

    fake.login = login
    weir = transactions(scene, fake, server_tls_sslmode="require")
    assert words_of(weir) == LOGIN + "server asked for the password twice"


def test_server_omits_its_signature(scene, authority):
    fake = scene.fake(tls=authority.server_context())

    def login(session):
        session.send(m.authentication(10, PLUS.encode() + b"\0\0"))
        assert base64.b64encode(session.expect("p").body)
        session.send(m.authentication_ok())
        raise Closed("the end of the play")

    fake.login = login
    weir = transactions(scene, fake, server_tls_sslmode="require", server_channel_binding="require")
    assert words_of(weir) == LOGIN + "server ended SCRAM before its proof"


def test_wrong_password_at_a_server(scene, authority):
    fake = scram_server(scene, authority)
    weir = transactions(scene, fake, users={"app": "another"}, server_tls_sslmode="require")
    with pytest.raises(LoginRefused, match='password authentication failed for user "app"'):
        weir.client()
