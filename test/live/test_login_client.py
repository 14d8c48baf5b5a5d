"""How clients prove their user: every auth_type with every kind of secret, right, wrong and unknown."""
import hashlib
import struct

import psycopg2
import pytest

from support import messages as m
from support import scram
from support.live import pid_of
from support.until import until
from support.wire import LoginRefused

SECRET = "plain secret"
KINDS = {
    "plain": SECRET,
    "md5": "md5" + hashlib.md5((SECRET + "someone").encode()).hexdigest(),
    "scram": scram.secret_text(scram.make_secret(SECRET)),
}
TRUST, CLEARTEXT, MD5, SASL = 0, 3, 5, 10


def weir_for(scene, postgres, auth_type, secret, **settings):
    """A server login that asks for nothing, so that only the client's matters."""
    return scene.weir({"p0": postgres.target("p0", user="trusted")}, users={"someone": secret},
                      auth_type=auth_type, **settings)


def asked(client, user="someone"):
    """The first question after the start-up packet."""
    client.send(m.startup(user=user, database="p0"))
    return struct.unpack_from("!I", client.expect("R").body)[0]


@pytest.mark.parametrize("auth_type, kind, question", [
    ("plain", "plain", CLEARTEXT), ("plain", "md5", CLEARTEXT), ("plain", "scram", CLEARTEXT),
    ("md5", "plain", MD5), ("md5", "md5", MD5), ("md5", "scram", SASL),
    ("scram-sha-256", "plain", SASL), ("scram-sha-256", "scram", SASL)])
def test_right_and_wrong_password(scene, postgres, auth_type, kind, question):
    weir = weir_for(scene, postgres, auth_type, KINDS[kind])
    assert asked(weir.connect()) == question
    client = weir.client("someone", password=SECRET)
    assert client.query("SELECT current_user").value == "trusted"
    text = "SASL authentication failed" if auth_type == "scram-sha-256" else "password authentication failed"
    for wrong in ("plain  secret", "", "x" * 5000, KINDS[kind] if kind != "plain" else "md5"):
        fields = weir.connect().refused(user="someone", database="p0", password=wrong)
        assert (fields["M"], fields["C"], fields["S"]) == (text, "28P01", "FATAL")
    weir.wait_log("closing because: " + text, times=4)
    weir.wait_log("login failed: db=p0 user=someone", times=4)


@pytest.mark.parametrize("auth_type, kind", [
    ("plain", "plain"), ("plain", "md5"), ("plain", "scram"), ("md5", "plain"), ("md5", "md5"), ("md5", "scram"),
    ("scram-sha-256", "plain"), ("scram-sha-256", "scram")])
def test_libpq_logs_in(scene, postgres, auth_type, kind):
    weir = weir_for(scene, postgres, auth_type, KINDS[kind])
    with psycopg2.connect(host=weir.host, port=weir.port, user="someone", dbname="p0", password=SECRET) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_user")
            assert cursor.fetchone() == ("trusted",)
    connection.close()
    with pytest.raises(psycopg2.OperationalError, match="authentication failed"):
        psycopg2.connect(host=weir.host, port=weir.port, user="someone", dbname="p0", password="wrong")


def test_scram_refuses_md5_secrets(scene, postgres):
    weir = weir_for(scene, postgres, "scram-sha-256", KINDS["md5"])
    for password in (SECRET, KINDS["md5"]):
        fields = weir.connect().refused(user="someone", database="p0", password=password)
        assert fields["M"] == "SASL authentication failed"


def flow(weir, user, password):
    """Returns the externally visible flow of a login: types and codes of the answers, and the error."""
    client = weir.connect()
    client.send(m.startup(user=user, database="p0"))
    question = client.read()
    seen = [question.type, question.body[:4], len(question.body)]
    code = struct.unpack_from("!I", question.body)[0]
    if code == CLEARTEXT:
        client.send(m.password(password))
    elif code == MD5:
        client.send(m.password(scram.md5_password(user, password, question.body[4:8])))
    else:
        first = "n=,r=" + scram.nonce()
        client.send(m.sasl_initial("SCRAM-SHA-256", b"n,," + first.encode()))
        challenge = client.expect("R").body[4:].decode()
        said = scram.attributes(challenge)
        seen += [said["i"], len(said["s"]), len(said["r"])]
        client.send(m.sasl_response(scram.client_final(password, first, challenge)[0].encode()))
    (error,) = client.drain()
    fields = m.read_error(error.body)
    return seen + [error.type, fields["S"], fields["C"], fields["M"]]


@pytest.mark.parametrize("auth_type, kind", [
    ("plain", "plain"), ("md5", "plain"), ("scram-sha-256", "plain"), ("scram-sha-256", "scram")])
def test_unknown_user_looks_like_a_wrong_password(scene, postgres, auth_type, kind):
    weir = weir_for(scene, postgres, auth_type, KINDS[kind])
    wrong = flow(weir, "someone", "wrong")
    assert flow(weir, "nobody", "wrong") == wrong
    assert flow(weir, "nobody", "") == flow(weir, "someone", "")


def test_kind_of_request_does_not_reveal_users(scene, postgres):
    """With auth_type=md5 and secrets of both kinds, users that don't exist are asked either way as well, each always the same."""
    names = ["user%d" % n for n in range(40)]
    users = {name: KINDS["scram" if n % 2 else "md5"] for n, name in enumerate(names)}
    weir = scene.weir(postgres, auth_type="md5", users=users)

    def kinds(who):
        found = []
        for name in who:
            with weir.connect() as client:
                found.append(asked(client, name))
        return found

    assert kinds(names[:4]) == [MD5, SASL, MD5, SASL]
    strangers = ["stranger%d" % n for n in range(60)]
    seen = kinds(strangers)
    # of 60 with a chance of nearly one half each, none of one kind is one case in 10^17
    assert set(seen) == {MD5, SASL}
    assert kinds(strangers) == seen


def test_unknown_user_has_the_same_salt_at_every_attempt(scene, postgres):
    weir = weir_for(scene, postgres, "scram-sha-256", KINDS["scram"])

    def salt(user):
        client = weir.connect()
        assert asked(client, user) == SASL
        client.send(m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=" + scram.nonce().encode()))
        return scram.attributes(client.expect("R").body[4:].decode())["s"]

    assert salt("nobody") == salt("nobody") != salt("nobody else")
    assert salt("someone") == salt("someone")


def test_unknown_database_is_reported_after_authentication(scene, postgres):
    weir = weir_for(scene, postgres, "md5", SECRET)
    fields = weir.connect().refused(user="someone", database="nosuch", password="wrong")
    assert fields["M"] == "password authentication failed"
    fields = weir.connect().refused(user="someone", database="nosuch", password=SECRET)
    assert (fields["M"], fields["C"]) == ("no such database: nosuch", "3D000")


def test_empty_secret_admits_no_client(scene, postgres):
    for auth_type in ("plain", "md5", "scram-sha-256"):
        weir = weir_for(scene, postgres, auth_type, "")
        assert "authentication failed" in weir.connect().refused(user="someone", database="p0", password="")["M"]


def test_trust(scene, postgres):
    weir = weir_for(scene, postgres, "trust", SECRET)
    client = weir.connect()
    assert asked(client) == TRUST
    fields = weir.connect().refused(user="nobody", database="p0")
    assert fields["M"] == '"trust" authentication failed'


def test_any(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", user="trusted"), "p1": postgres}, auth_type="any")
    client = weir.connect()
    assert asked(client, "whoever") == TRUST
    client.finish_login()
    assert client.query("SELECT current_user").value == "trusted"
    assert weir.connect().refused(user="whoever", database="p1")["M"] == "bouncer config error"


def test_any_admits_every_user_to_statistics(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", user="trusted")}, auth_type="any")
    console = weir.client("whoever", "pgbouncer")
    assert console.query("SHOW VERSION").value
    assert console.query("RELOAD").error == "admin access needed"


@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_password_with_non_ascii_characters(scene, postgres, auth_type):
    password = "p\u00e4\u00df\"w\u00f6rd\u2192 \\'"
    weir = weir_for(scene, postgres, auth_type, password)
    psycopg2.connect(host=weir.host, port=weir.port, user="someone", dbname="p0", password=password).close()


@pytest.mark.parametrize("stored, given", [
    ("I\u00adX", "IX"), ("\u2168", "IX"), ("a\u00a0b", "a b"), ("IX", "\u2168"), ("\u00e9", "e\u0301")])
def test_saslprep(scene, postgres, stored, given):
    """libpq applies SASLprep to the typed password; a listed password must be prepared in the same way (RFC 4013)."""
    weir = weir_for(scene, postgres, "scram-sha-256", stored)
    psycopg2.connect(host=weir.host, port=weir.port, user="someone", dbname="p0", password=given).close()


def test_scram_iterations(scene, postgres):
    weir = weir_for(scene, postgres, "scram-sha-256", SECRET, scram_iterations=4096)

    def iterations():
        client = weir.connect()
        asked(client)
        client.send(m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=" + scram.nonce().encode()))
        return scram.attributes(client.expect("R").body[4:].decode())["i"]

    assert iterations() == "4096"
    weir.admin("SET scram_iterations = 10000")
    assert iterations() == "10000"
    assert pid_of(weir.client("someone", password=SECRET))


def may_log_in(weir, user, password):
    try:
        weir.connect().login(user=user, database="p0", password=password)
    except LoginRefused:
        return False
    return True


@pytest.mark.parametrize("auth_type", ["md5", "scram-sha-256"])
def test_user_list_is_read_again_when_it_has_changed(scene, postgres, auth_type):
    weir = weir_for(scene, postgres, auth_type, SECRET)
    assert may_log_in(weir, "someone", SECRET) and not may_log_in(weir, "new", "n")
    weir.users.update(someone="changed", new="n")
    weir.write_users()
    until(lambda: may_log_in(weir, "new", "n"), "the new user is known")
    assert may_log_in(weir, "someone", "changed") and not may_log_in(weir, "someone", SECRET)
    del weir.users["new"]
    weir.write_users()
    until(lambda: not may_log_in(weir, "new", "n"), "the old user is forgotten")


def test_user_list_is_read_again_at_reload(scene, postgres):
    weir = weir_for(scene, postgres, "md5", SECRET)
    weir.users["new"] = "n"
    weir.write_users()
    weir.admin("RELOAD")
    assert may_log_in(weir, "new", "n")


def test_scram_with_a_wrong_nonce(scene, postgres):
    weir = weir_for(scene, postgres, "scram-sha-256", SECRET)
    client = weir.connect()
    asked(client)
    first = "n=,r=" + scram.nonce()
    client.send(m.sasl_initial("SCRAM-SHA-256", b"n,," + first.encode()))
    challenge = client.expect("R").body[4:].decode()
    changed = challenge.replace("r=", "r=X", 1)
    client.send(m.sasl_response(scram.client_final(SECRET, first, changed)[0].encode()))
    (error,) = client.drain()
    assert m.read_error(error.body)["M"] == "SASL authentication failed"


def test_other_mechanism_is_refused(scene, postgres):
    weir = weir_for(scene, postgres, "scram-sha-256", SECRET)
    client = weir.connect()
    asked(client)
    client.send(m.sasl_initial("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc"))
    (error,) = client.drain()
    assert m.read_error(error.body)["M"] == "SASL authentication failed"


# --- the console

def test_console_requires_the_password_and_a_listed_name(scene, postgres):
    weir = weir_for(scene, postgres, "scram-sha-256", SECRET)
    assert weir.connect().refused(user="admin", database="pgbouncer", password="x")["M"] == "SASL authentication failed"
    fields = weir.connect().refused(user="someone", database="pgbouncer", password=SECRET)
    assert fields["M"] == "not allowed"
    assert weir.admin("RELOAD") == "RELOAD"
    weir.admin("SET stats_users = 'someone'")
    console = weir.client("someone", "pgweir", password=SECRET)
    assert console.query("SHOW VERSION").value
    assert console.query("SHUTDOWN").error == "admin access needed"
    weir.admin("SET admin_users = 'admin, someone'")
    console = weir.client("someone", "pgweir", password=SECRET)
    assert console.query("RELOAD").tags == ["RELOAD"]


@pytest.mark.parametrize("user", ["pgbouncer", "pgweir"])
def test_owner_of_the_process_is_admin_over_the_unix_socket(scene, postgres, user):
    weir = weir_for(scene, postgres, "scram-sha-256", SECRET, admin_users="")
    console = weir.connect(unix=True)
    console.login(user=user, database=user)
    assert console.query("RELOAD").tags == ["RELOAD"]
    assert weir.connect().refused(user=user, database=user, password="")["M"] == "SASL authentication failed"
