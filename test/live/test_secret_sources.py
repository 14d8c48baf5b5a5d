"""Values and secrets that do not stand in the ini file: environment variables."""
import psycopg2
import pytest

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
