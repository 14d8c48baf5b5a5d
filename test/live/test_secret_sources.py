"""Values and secrets that do not stand in the ini file: environment variables, files with a password."""
import psycopg2
import pytest

from support.live import NEVER, pid_of
from support.pgweir import private
from support.postgres import SECRETS


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
