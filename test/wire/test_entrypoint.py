"""The entrypoint of the container makes a configuration from environment variables (etc/entrypoint.sh)."""
import os
import pathlib
import signal
import subprocess

import pytest

from support.pgweir import binary
from support.ports import free_port
from support.until import until
from support.wire import Client

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "etc" / "entrypoint.sh"


@pytest.fixture
def entrypoint(tmp_path):
    """Runs the script with these variables only, and returns the finished process."""
    def run(*arguments, **variables):
        return subprocess.run(
            ["sh", SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=120,
            env={"PATH": os.environ["PATH"], "PGWEIR_PROGRAM": binary(), "PGWEIR_RUN_DIR": str(tmp_path / "run"), **variables})
    return run


def sections(text):
    """{section: its lines} of an ini file."""
    found = {}
    for line in text.splitlines():
        if line.startswith("["):
            found[line] = []
        elif line:
            found[list(found)[-1]].append(line)
    return found


# as Zalando's operator sets them
ZALANDO = {"PGHOST": "acid", "PGPORT": "5432", "PGUSER": "pooler", "PGPASSWORD": "p", "PGSCHEMA": "pooler", "CONNECTION_POOLER_PORT": "5433",
           "CONNECTION_POOLER_MODE": "transaction", "CONNECTION_POOLER_DEFAULT_SIZE": "15", "CONNECTION_POOLER_MIN_SIZE": "7",
           "CONNECTION_POOLER_RESERVE_SIZE": "7", "CONNECTION_POOLER_MAX_CLIENT_CONN": "10000", "CONNECTION_POOLER_MAX_DB_CONN": "30"}


@pytest.mark.parametrize("variables, entry, users", [
    (ZALANDO, "* = host='acid' port='5432' auth_user='pooler'", ['"pooler" "p"']),
    ({"DATABASE_URL": "postgresql://app:p%40s%24%7Bx%27%22@db.example:5433/shop?sslmode=require"},
     """"shop" = host='db.example' port='5433' user='app'""", ['"app" "p@s${x\'"""']),
    ({"DATABASE_URL": "postgres://[2001:db8::1]/shop"}, "\"shop\" = host='2001:db8::1'", []),
    ({"DB_HOST": "h", "DB_USER": "u", "DB_PASSWORD": "it's", "DB_NAME": "d"}, "\"d\" = host='h' user='u'", ['"u" "it\'s"']),
    ({"DB_HOST": "h"}, "* = host='h'", []),
    ({"DATABASES_HOST": "h", "DATABASES_PORT": "1", "DATABASES_DBNAME": "d", "DATABASES_POOL_SIZE": "7",
      "DATABASES_USER": "it's"}, "\"d\" = host='h' port='1' user='it''s' pool_size='7'", []),
    ({"POSTGRESQL_HOST": "h", "POSTGRESQL_DATABASE": "d", "PGBOUNCER_DATABASE": "shop"},
     "\"shop\" = host='h' dbname='d'", []),
    ({"DATABASES_CONFIG": "[databases]\na = host=x\n", "USERLIST": '"a" "b"'}, "a = host=x", ['"a" "b"']),
    ({"DB_HOST": "${HOME}"}, "* = host='$${HOME}'", []),
])
def test_server_and_user_come_from_the_variables_of_known_images(entrypoint, tmp_path, variables, entry, users):
    result = entrypoint("--print", **variables)
    assert result.returncode == 0, result.stderr
    assert sections(result.stdout)["[databases]"] == [entry]
    assert [line for line in (tmp_path / "run" / "userlist.txt").read_text().splitlines() if line] == users
    assert (tmp_path / "run" / "userlist.txt").stat().st_mode & 0o777 == 0o600


def test_zalandos_operator_gives_the_settings(entrypoint):
    result = entrypoint("--print", **ZALANDO, PGWEIR_DEFAULT_POOL_SIZE="16")
    wanted = {"auth_query = SELECT * FROM pooler.user_lookup($1)", "listen_port = 5433", "pool_mode = transaction", "min_pool_size = 7",
              "reserve_pool_size = 7", "max_client_conn = 10000", "max_db_connections = 30", "default_pool_size = 16",
              "admin_users = pooler", "auth_type = md5"}
    assert wanted <= set(sections(result.stdout)["[pgweir]"]), result.stdout + result.stderr
    assert "not a setting" not in result.stderr


def test_settings_have_a_prefix_and_pgweirs_goes_first(entrypoint):
    result = entrypoint("--print", DATABASES_HOST="h", PGBOUNCER_POOL_MODE="session", PGWEIR_POOL_MODE="transaction",
                        PGBOUNCER_MAX_CLIENT_CONN="500", DEFAULT_POOL_SIZE="3", PGWEIR_SERVER_RESET_QUERY="SELECT '${HOME}'")
    lines = sections(result.stdout)["[pgweir]"]
    assert {"pool_mode = transaction", "max_client_conn = 500", "server_reset_query = SELECT '$${HOME}'"} <= set(lines)
    # without a prefix only where the variables of the server have none
    assert not [line for line in lines if line.startswith("default_pool_size")]
    result = entrypoint("--print", DB_HOST="h", DEFAULT_POOL_SIZE="3")
    assert "default_pool_size = 3" in sections(result.stdout)["[pgweir]"]


def test_variables_of_kubernetes_services_are_no_settings(entrypoint):
    result = entrypoint("--print", DB_HOST="h", PGWEIR_PORT="tcp://10.0.0.1:6432", PGWEIR_SERVICE_HOST="10.0.0.1",
                        PGBOUNCER_PORT="tcp://10.0.0.1:5432", PGWEIR_PORT_6432_TCP_ADDR="10.0.0.1")
    assert result.returncode == 0 and result.stderr == ""
    assert "10.0.0.1" not in result.stdout
    assert "PGWEIR_POOL_MOOD is not a setting" in entrypoint("--print", DB_HOST="h", PGWEIR_POOL_MOOD="x").stderr


@pytest.mark.parametrize("variables, words", [
    ({}, "no server"),
    ({"DB_HOST": "h", "DB_USER": "u", "DB_PASSWORD_FILE": "/nowhere/at/all"}, "cannot read DB_PASSWORD_FILE"),
    ({"DB_HOST": "h\nadmin_users = mallory"}, "more than one line"),
    ({"DB_HOST": "h", "POOL_MODE": "session\nadmin_users = mallory"}, "more than one line"),
    ({"DB_HOST": "h", "DB_USER": "u", "DB_PASSWORD": 'p"\n"mallory" "m'}, "more than one line"),
    ({"DB_HOST": "h", "DB_NAME": "d\nmallory"}, "more than one line"),
])
def test_values_that_cannot_be_written_end_the_start(entrypoint, variables, words):
    result = entrypoint(**variables)
    assert result.returncode == 1
    assert words in result.stderr


def test_a_client_logs_in_with_the_user_of_the_variables(scene, tmp_path):
    """A secret from a file, and the log on standard error."""
    server, port = scene.mini(), free_port()
    (tmp_path / "secret").write_text("a secret\n")
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(["sh", SCRIPT], stderr=log, env={
            **os.environ, "PGWEIR_PROGRAM": binary(), "PGWEIR_RUN_DIR": str(tmp_path / "run"), "DATABASES_HOST": "127.0.0.1",
            "DATABASES_PORT": str(server.port), "DATABASES_USER": "app", "DATABASES_PASSWORD_FILE": str(tmp_path / "secret"),
            "DATABASES_DBNAME": "shop", "PGBOUNCER_LISTEN_PORT": str(port), "PGBOUNCER_LISTEN_ADDR": "127.0.0.1",
            "PGWEIR_UNIX_SOCKET_DIR": str(tmp_path)})
        try:
            until(lambda: "process up" in (tmp_path / "log").read_text())
            client = Client(port)
            client.login(user="app", database="shop", password="a secret")
            assert client.query("SELECT 1").errors == []
            client.close()
        finally:
            process.send_signal(signal.SIGQUIT)
            assert process.wait() == 0
