"""Values and secrets that do not stand in the ini file: environment variables, files with a password."""
import re
import subprocess

import psycopg2
import pytest

from support import messages as m
from support.live import NEVER, ended_with, pid_of
from support.pgweir import binary, private
from support.postgres import SECRETS
from support.takeover import Replaced
from support.until import DEADLINE


def shown(weir, key):
    return next(row["value"] for row in weir.show("CONFIG") if row["key"] == key)


# --- environment variables

def test_values_from_the_environment(scene, postgres, monkeypatch):
    monkeypatch.setenv("WEIR_PORT", str(postgres.port))
    monkeypatch.setenv("WEIR_PW", SECRETS["app"])
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", scene.directory)
    weir = scene.weir({"p0": "host=127.0.0.1 port=${WEIR_PORT} user=app password=${WEIR_PW}"}, auth_dbname="a${WEIR_PORT}",
                      job_name="$${x}$1", allow="no effect")
    assert weir.client().query("SELECT current_user").value == "app"
    assert shown(weir, "auth_dbname") == "a%d" % postgres.port
    assert shown(weir, "job_name") == "${x}$1"
    weir.write_users()
    with open(scene.directory + "/users", "w", encoding="ascii") as f:
        f.write('"app" "app-secret"\n')
    weir.settings.update(auth_file="${CREDENTIALS_DIRECTORY}/users")
    weir.write_ini()
    weir.admin("RELOAD")
    assert shown(weir, "auth_file") == scene.directory + "/users"


def test_reload_with_a_variable_that_is_not_set(scene, postgres):
    weir = scene.weir({"p0": postgres})
    weir.settings.update(auth_dbname="${WEIR_NOT_SET}", default_pool_size=7)
    weir.write_ini()
    with pytest.raises(psycopg2.Error, match=r'pgweir.ini:\d+: "auth_dbname": the environment variable "WEIR_NOT_SET" is not set'):
        weir.admin("RELOAD")
    assert shown(weir, "default_pool_size") == "20"


# --- password_file

def write(path, text):
    with private(path) as f:
        f.write(text)


def test_password_from_a_file(scene, postgres):
    path = scene.directory + "/password"
    write(path, SECRETS["app"] + "\n")
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d user=app password_file=%s" % (postgres.port, path)}, pool_mode="transaction",
                      server_idle_timeout=NEVER, users={"app": "elsewhere"}, auth_type="scram-sha-256")
    client = weir.client(password="elsewhere")
    pid = pid_of(client)
    weir.admin("RELOAD")
    assert pid_of(client) == pid
    postgres.execute("ALTER ROLE app PASSWORD 'another'")
    try:
        write(path, "another\n")
        weir.admin("RELOAD")
        assert pid_of(client) != pid
    finally:
        postgres.execute("ALTER ROLE app PASSWORD '%s'" % SECRETS["app"])
    text = str([weir.show(what) for what in ("CONFIG", "DATABASES", "POOLS")]) + weir.log()
    assert "another" not in text and SECRETS["app"] not in text


def test_reload_without_the_file_changes_nothing(scene, postgres):
    path = scene.directory + "/password"
    write(path, SECRETS["app"])
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d user=app password_file=%s" % (postgres.port, path)})
    write(path, "")
    weir.settings["default_pool_size"] = 7
    weir.write_ini()
    with pytest.raises(psycopg2.Error, match=r'pgweir.ini:2: database "p0": "password_file" names ".*", which cannot be used: its first line is empty'):
        weir.admin("RELOAD")
    assert shown(weir, "default_pool_size") == "20"
    assert weir.client().query("SELECT current_user").value == "app"


@pytest.mark.parametrize("auth_file", [True, False])
@pytest.mark.parametrize("auth_type", ["scram-sha-256", "md5", "plain"])
def test_secret_of_a_user_from_a_file(scene, postgres, auth_type, auth_file):
    path = scene.directory + "/app"
    write(path, SECRETS["app"] + "\n")
    weir = scene.weir({"p0": postgres}, users={"app": "not this one"}, auth_type=auth_type, server_tls_sslmode="require",
                      sections={"users": {"app": "password_file=" + path, "admin": "password_file=" + path}},
                      **({} if auth_file else {"auth_file": None}))
    assert weir.client(password=SECRETS["app"]).query("SELECT current_user").value == "app"
    assert weir.connect().refused(user="app", database="p0", password="not this one")["C"] == "28P01"
    write(path, "another\n")
    weir.users["admin"] = SECRETS["app"]
    weir.admin("RELOAD")
    assert weir.connect().refused(user="app", database="p0", password=SECRETS["app"])["C"] == "28P01"
    # a list that is read again has the secret of the last RELOAD
    if auth_file:
        weir.write_users()
        assert weir.connect().refused(user="app", database="p0", password="not this one")["C"] == "28P01"
    text = weir.log() + str(weir.show("USERS"))
    assert "another" not in text and SECRETS["app"] not in text


# --- two secrets of a user

def hashed(password, *arguments):
    done = subprocess.run([binary(), "--hash-password", *arguments], input=password, capture_output=True, text=True, timeout=DEADLINE, check=True)
    return done.stdout.strip()


@pytest.fixture
def role(postgres):
    """A role of this test only, whose password is "old"."""
    postgres.execute("CREATE ROLE rotating LOGIN PASSWORD 'old'")
    yield "rotating"
    postgres.execute("DROP ROLE rotating")


def rotating(scene, new, old, database, **settings):
    """pgweir with both secrets of the user `rotating`."""
    write(scene.directory + "/new", new + "\n")
    write(scene.directory + "/old", old + "\n")
    keys = "password_file={0}/new old_password_file={0}/old".format(scene.directory)
    return scene.weir({"p0": database}, sections={"users": {"rotating": keys}}, server_tls_sslmode="require", **settings)


def login(weir, password, **more):
    return weir.client(user="rotating", password=password, **more)


def refused(weir, password):
    return weir.connect().refused(user="rotating", database="p0", password=password)["C"]


@pytest.mark.parametrize("new, old", [("new", "old"), ("SCRAM", "old"), ("new", "SCRAM"), ("SCRAM", "SCRAM")])
@pytest.mark.parametrize("auth_type", ["scram-sha-256", "md5", "plain"])
def test_both_secrets_are_accepted(scene, postgres, auth_type, new, old):
    like = scene.directory + "/like"
    write(like, hashed("something"))
    texts = [hashed(password, "--like=" + like) if text == "SCRAM" else password for text, password in ((new, "new"), (old, "old"))]
    weir = rotating(scene, *texts, "host=127.0.0.1 port=%d user=app password=%s" % (postgres.port, SECRETS["app"]), auth_type=auth_type)
    for password in ("new", "old", "new", "old"):
        assert login(weir, password).query("SELECT current_user").value == "app"
    assert refused(weir, "none") == refused(weir, "newold") == "28P01"
    assert len(re.findall('user "rotating" has logged in with its old secret', weir.log())) == 2
    # the end of the rotation
    weir.sections["users"]["rotating"] = "password_file=%s/new" % scene.directory
    weir.write_ini()
    weir.admin("RELOAD")
    assert refused(weir, "old") == "28P01"
    assert login(weir, "new").query("SELECT 1").value == "1"
    assert not re.search("SCRAM-SHA", weir.log())


def test_secrets_of_two_salts(scene, postgres):
    weir = rotating(scene, hashed("new"), hashed("old"), postgres, auth_type="scram-sha-256")
    assert 'user "rotating": old_password_file is ignored, because no exchange can check both secrets' in weir.log()
    assert refused(weir, "old") == "28P01"


def test_old_secret_alone(scene, postgres):
    write(scene.directory + "/old", "old")
    weir = scene.weir({"p0": postgres}, sections={"users": {"rotating": "old_password_file=%s/old" % scene.directory}},
                      auth_type="scram-sha-256")
    assert 'user "rotating": old_password_file is ignored, because there is no other secret' in weir.log()
    assert refused(weir, "old") == "28P01"


def failures(postgres):
    return len(re.findall('password authentication failed for user "rotating"', postgres.log()))


def test_server_gets_the_secret_that_it_accepts(scene, postgres, role):
    weir = rotating(scene, "new", "old", postgres, auth_type="scram-sha-256", pool_mode="transaction", default_pool_size=2)
    before = failures(postgres)
    first, second = login(weir, "new"), login(weir, "old")
    first.query("BEGIN")
    # the second connection begins with the secret that was accepted
    assert second.query("SELECT current_user").value == role
    assert failures(postgres) == before + 1
    assert "trying the old secret of the user" in weir.log()
    first.query("COMMIT")
    postgres.execute("ALTER ROLE rotating PASSWORD 'new'")
    weir.admin("RECONNECT")
    assert first.query("SELECT current_user").value == role
    assert failures(postgres) == before + 2
    assert "trying the new secret of the user" in weir.log()
    # with neither of them the client gets the error of the server, once
    postgres.execute("ALTER ROLE rotating PASSWORD 'third'")
    weir.admin("RECONNECT")
    first.send(m.query("SELECT 1"))
    ended_with(first, 'password authentication failed for user "rotating"', "28P01")
    assert failures(postgres) == before + 4


def test_scram_secrets_at_a_server(scene, postgres, role):
    like = scene.directory + "/like"
    write(like, hashed("something"))
    new, old = (hashed(password, "--like=" + like) for password in ("new", "old"))
    postgres.execute("ALTER ROLE rotating PASSWORD '%s'" % old)
    weir = rotating(scene, new, old, postgres, auth_type="scram-sha-256", pool_mode="transaction", kind=Replaced)
    client = login(weir, "old")
    assert client.query("SELECT current_user").value == role
    postgres.execute("ALTER ROLE rotating PASSWORD '%s'" % new)
    other = login(weir, "new")
    weir.admin("RECONNECT")
    assert other.query("SELECT current_user").value == client.query("SELECT current_user").value == role
    weir.replace()
    weir.admin("RECONNECT")
    assert client.query("SELECT current_user").value == role
    postgres.execute("ALTER ROLE rotating PASSWORD '%s'" % old)
    weir.admin("RECONNECT")
    assert client.query("SELECT current_user").value == role
