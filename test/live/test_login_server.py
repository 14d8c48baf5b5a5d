"""Authentication of pgweir at PostgreSQL: every method of pg_hba.conf, with the secrets of the user list."""
import hashlib

import pytest

from support import messages as m
from support import scram
from support.live import last_words, pid_of
from support.postgres import SECRETS


def stored_secret(postgres, role):
    ((secret,),) = postgres.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,))
    return secret


@pytest.mark.parametrize("role", ["trusted", "clear", "md5user", "app"])
@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_with_the_password_of_the_user_list(scene, postgres, role, auth_type):
    weir = scene.weir({"p0": postgres}, users={role: SECRETS[role]}, auth_type=auth_type)
    assert weir.client(role).query("SELECT current_user").value == role


@pytest.mark.parametrize("role", ["trusted", "clear", "md5user", "app"])
def test_with_the_password_of_the_database_entry(scene, postgres, role):
    weir = scene.weir({"p0": postgres.target("p0", user=role, password="'%s'" % SECRETS[role])},
                      users={role: "another"}, auth_type="md5")
    assert weir.client("rival").query("SELECT current_user").value == role


def test_md5_secret_of_the_server_serves_both_sides(scene, postgres):
    weir = scene.weir({"p0": postgres}, users={"md5user": stored_secret(postgres, "md5user")}, auth_type="md5")
    client = weir.client("md5user", password=SECRETS["md5user"])
    assert client.query("SELECT current_user").value == "md5user"


@pytest.mark.parametrize("auth_type", ["md5", "scram-sha-256", "plain"])
def test_keys_recovered_from_a_login_are_valid_at_the_server(scene, postgres, auth_type):
    """Only the secret of pg_authid is stored; pgweir gets the key from the client's own proof."""
    weir = scene.weir({"p0": postgres}, users={"app": stored_secret(postgres, "app")}, auth_type=auth_type,
                      pool_mode="transaction")
    client = weir.client("app", password=SECRETS["app"])
    pid = pid_of(client)
    weir.admin("RECONNECT")
    assert pid_of(client) != pid
    assert SECRETS["app"] not in weir.log()


def test_keys_are_for_their_own_user_only(scene, postgres):
    weir = scene.weir({"p0": postgres, "forced": postgres.target("p0", user="app")},
                      users={"app": stored_secret(postgres, "app")}, auth_type="scram-sha-256")
    fields = weir.connect().refused(user="rival", database="forced", password="rival-secret")
    assert fields["M"] == "server login failed: wrong password type"
    weir.client("app", password=SECRETS["app"])


def test_forced_user_with_keys_of_its_login(scene, postgres):
    weir = scene.weir({"p0": postgres, "forced": postgres.target("p0", user="app")},
                      users={"app": stored_secret(postgres, "app")}, auth_type="scram-sha-256",
                      server_login_retry=0)
    weir.client("app", password=SECRETS["app"])
    client = weir.client("rival", "forced")
    assert client.query("SELECT current_user").value == "app"


def test_secret_of_another_password_is_refused(scene, postgres):
    own = scram.secret_text(scram.make_secret("app-secret"))
    weir = scene.weir({"p0": postgres}, users={"app": own}, auth_type="scram-sha-256")
    fields = weir.connect().refused(user="app", database="p0", password="app-secret")
    assert (fields["C"], fields["M"]) == ("28P01", 'password authentication failed for user "app"')
    weir.wait_log("cannot do SCRAM authentication: the stored SCRAM secret is not the one of the server")


@pytest.mark.parametrize("change", ["VALID UNTIL '2001-01-01'", "PASSWORD 'newer'", "PASSWORD NULL"])
@pytest.mark.parametrize("listed", ["scram", "clear"])
def test_outdated_secret(scene, postgres, listed, change):
    """A new login and a client of an open session get the server's error; the log has the cause."""
    postgres.execute("CREATE ROLE stale LOGIN PASSWORD 'stale-secret'")
    try:
        secret = "stale-secret" if listed == "clear" else stored_secret(postgres, "stale")
        settings = dict(users={"stale": secret}, auth_type="scram-sha-256", pool_mode="transaction", server_login_retry=0)
        weir = scene.weir({"p0": postgres}, **settings)
        client = weir.client("stale", password="stale-secret")
        client.query("SELECT 1")
        postgres.execute("ALTER ROLE stale %s" % change)
        weir.admin("RECONNECT p0")
        client.send(m.query("SELECT 2"))
        other = scene.weir({"p0": postgres}, **settings)
        for words in last_words(client), other.connect().refused(user="stale", database="p0", password="stale-secret"):
            assert (words["C"], words["M"]) == ("28P01", 'password authentication failed for user "stale"')
        weir.wait_log("the stored SCRAM secret is not the one of the server" if listed == "scram" else "server login failed: FATAL password auth")
    finally:
        postgres.execute("DROP ROLE stale")


@pytest.mark.parametrize("role", ["clear", "md5user", "app"])
def test_wrong_password_gets_the_error_of_the_server(scene, postgres, role):
    weir = scene.weir({"p0": postgres}, users={role: "wrong"}, auth_type="plain")
    fields = weir.connect().refused(user=role, database="p0", password="wrong")
    assert fields["M"] == 'password authentication failed for user "%s"' % role
    weir.wait_log("server login failed: FATAL password authentication failed for user")


@pytest.mark.parametrize("role, listed, words", [
    ("clear", "", None), ("clear", "password", None), ("clear", "!none", None),
    ("clear", "scram-sha-256", "password in clear text, but"), ("md5user", "", None), ("md5user", "scram-sha-256", "MD5 hash"),
    ("app", "", None), ("app", "scram-sha-256", None), ("app", "!scram-sha-256", "asks for SASL"), ("trusted", "", None),
    ("trusted", "scram-sha-256,none", None), ("trusted", "scram-sha-256", "does not ask for a password"),
    ("trusted", "!none", "does not ask for a password"), ("trusted", "password", None)])
def test_methods_that_a_server_may_ask_for(scene, postgres, role, listed, words):
    weir = scene.weir({"p0": postgres.target("p0")}, users=SECRETS, server_tls_sslmode="disable", server_require_auth=listed)
    if words:
        told = weir.connect().refused(user=role, database="p0")["M"]
        assert told.startswith("authentication method of the server is not allowed: server") and words in told
    else:
        assert weir.client(role).query("SELECT current_user").value == role


def test_without_any_secret(scene, postgres):
    weir = scene.weir({"p0": postgres.target("p0", user="unlisted")}, auth_type="trust")
    postgres.execute("CREATE ROLE unlisted LOGIN PASSWORD 'x'")
    try:
        assert "none is stored" in weir.connect().refused(user="app", database="p0")["M"]
    finally:
        postgres.execute("DROP ROLE unlisted")


@pytest.mark.parametrize("role, secret, words", [
    ("app", "md5" + hashlib.md5(b"app-secretapp").hexdigest(), "server login failed: wrong password type"),
    ("clear", "md5" + hashlib.md5(b"clear-secretclear").hexdigest(), "only a hash"),
    ("md5user", scram.secret_text(scram.make_secret("md5-secret")), "server login failed: wrong password type")])
def test_secret_unsuitable_for_the_requested_method(scene, postgres, role, secret, words):
    weir = scene.weir({"p0": postgres}, users={role: secret}, auth_type="trust")
    assert words in weir.connect().refused(user=role, database="p0")["M"]


def test_many_logins_derive_keys_once(scene, postgres):
    """Every transaction uses a new server login: 4096 iterations of HMAC each would take too long."""
    weir = scene.weir({"p0": postgres}, auth_type="scram-sha-256", pool_mode="transaction", server_lifetime=0)
    client = weir.client("app")
    assert len({pid_of(client) for _ in range(30)}) == 30
    for _ in range(30):
        weir.client("app").close()


def test_password_with_non_ascii_characters(scene, postgres):
    password = "p\u00e4\u00df w\u00f6rd\u2192\u2168"
    postgres.execute("CREATE ROLE strange LOGIN PASSWORD %s", (password,))
    try:
        weir = scene.weir({"p0": postgres.target("p0", user="strange")}, users={"strange": password},
                          auth_type="trust")
        assert weir.client().query("SELECT current_user").value == "strange"
        weir.stop()
    finally:
        postgres.execute("DROP ROLE strange")
