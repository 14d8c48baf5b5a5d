"""The examples of the documents work as they are written: each test takes the example's text out of its page."""
import os
import pathlib
import re
import subprocess
import textwrap

import pytest

from support.live import hold, let_go
from support.pgweir import binary, private
from support.postgres import SECRETS, tool
from support.until import until

PAGES = pathlib.Path(__file__).resolve().parent.parent.parent / "doc"


def examples(page, begins):
    """The indented examples of a page that contain the text, without their indentation."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", (PAGES / page).read_text(), re.M)
    return [re.sub(r"^ {4}", "", block, flags=re.M) for block in blocks if begins in block]


def sql_of(example):
    """The text between <<'EOF' and EOF."""
    return re.search(r"<<'EOF'.*?\n(.*?)^EOF$", example, re.M | re.S).group(1)


def settings_of(example):
    """The settings of the main section of an ini example."""
    return dict(line.split(" = ", 1) for line in example.split("[pgweir]")[1].splitlines() if " = " in line)


@pytest.fixture
def server(scene):
    """A server of this test alone, because the examples make roles."""
    return scene.postgres()


def logs_in(weir, user, password, database="p0"):
    client = weir.client(user, database, password=password)
    return client.query("SELECT session_user").value == user


def test_auth_query_of_the_page_finds_users_and_no_superuser(scene, server):
    """users.md, auth_query: the role, the function, its grants and the settings."""
    server.execute(sql_of(examples("users.md", "CREATE ROLE pgweir_auth")[0]), database="postgres")
    settings = settings_of(examples("users.md", "auth_query = ")[0])
    settings.pop("auth_file")
    server.execute("CREATE ROLE found LOGIN PASSWORD 'found-secret'")
    server.execute("CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'boss-secret'")
    weir = scene.weir({"p0": server, "postgres": server}, users={"pgweir_auth": "auth-password"}, **settings)
    assert logs_in(weir, "found", "found-secret")
    assert weir.connect().refused(password="boss-secret", user="boss", database="p0")["C"] == "28P01"
    assert weir.connect().refused(password="wrong", user="found", database="p0")["C"] == "28P01"


def test_auth_query_on_a_table_needs_no_superuser(scene, server):
    """users.md, Managed PostgreSQL: the server's administrator may not read pg_authid."""
    server.execute("CREATE ROLE administrator LOGIN CREATEROLE PASSWORD 'secret'")
    server.execute("GRANT CREATE ON DATABASE postgres TO administrator", database="postgres")
    example = examples("users.md", "CREATE TABLE pgweir.secret")[0]
    tables = textwrap.dedent(re.search(r"<<'EOF'.*?\n(.*?)^ *EOF$", example, re.M | re.S).group(1))
    line = subprocess.run([binary(), "--hash-password", "found"], input="found-secret\n", capture_output=True, text=True, check=True).stdout
    secret = re.search(r"SCRAM-SHA-256[^\"\n]*", line).group(0)
    users = textwrap.dedent(examples("users.md", "INSERT INTO pgweir.secret")[0])
    users = re.search(r"BEGIN;.*COMMIT;", users, re.S).group(0).replace("app", "found").replace("SCRAM-SHA-256$4096:...", secret)
    for text in (tables, users):
        server.execute("SET ROLE administrator; " + text, database="postgres")
    settings = settings_of(examples("users.md", "auth_query = ")[0])
    settings.pop("auth_file")
    weir = scene.weir({"p0": server, "postgres": server}, users={"pgweir_auth": "auth-password"}, **settings)
    assert logs_in(weir, "found", "found-secret")
    assert weir.connect().refused(password="wrong", user="found", database="p0")["C"] == "28P01"


def test_secrets_copied_from_the_server_log_in_on_both_sides(scene, server):
    """start.md and users.md: the user list from pg_authid."""
    for page in ("start.md", "users.md"):
        example = [each for each in examples(page, "pg_authid WHERE") if "userlist.txt" in each][0]
        query = sql_of(example).replace("'app', 'pooladmin'", "'app'")
        lines = [row[0] for row in server.execute(query)]
        assert any(line.startswith('"app" "SCRAM-SHA-256$') for line in lines)
        secrets = dict(re.match(r'"(.*?)" "(.*)"', line).groups() for line in lines)
        weir = scene.weir({"p0": server}, users={"app": secrets["app"]}, auth_type="scram-sha-256")
        assert logs_in(weir, "app", SECRETS["app"])


def file_of(name, authority):
    """The content of a file that an example names."""
    if name.endswith((".crt", ".key")):
        return pathlib.Path(authority.path(("ca" if "ca" in name else "server") + name[-4:])).read_text()
    if name == "pg_hba.conf":
        return "host all all all scram-sha-256\n"
    return "a secret" if name.startswith("app") else "".join(
        '"%s" "a secret"\n' % user for user in ("admin", "app", "pooladmin", "pgweir_auth", "pgweir_check"))


@pytest.mark.parametrize("page, begins", [
    ("start.md", "max_client_conn = 1000"), ("choosing.md", "shop_session"), ("choosing.md", "max_host_connections"),
    ("users.md", "auth_query = "), ("users.md", "old_password_file"), ("users.md", "user=app password_file"),
    ("users.md", "auth_type = cert"), ("operating.md", "client_tls_sslmode = require"), ("operating.md", "server_tls_ca_file"),
    ("sessions.md", "pool_mode=transaction"), ("migrating.md", "reads_on_primary=off"), ("migrating.md", "query_wait_timeout=4"),
    ("migrating.md", "10.0.0.6*3"), ("servers.md", "patroni = http"), ("servers.md", "reads=transaction"), ("servers.md", "dbname=shop target_session_attrs=prefer-standby"), ("servers.md", "shop_ro")])
def test_settings_of_a_page_pass_the_check(tmp_path, authority, page, begins):
    """An ini example with the files that it names, checked by pgweir --check."""
    example = [each for each in examples(page, begins) if "[" in each][0]
    example = sql_of(example) if "<<'EOF'" in example else textwrap.dedent(example)
    for name in {"userlist.txt", *re.findall(r"/etc/pgweir/([\w.-]+)", example)}:
        with private(tmp_path / name) as f:
            f.write(file_of(name, authority))
    ini = tmp_path / "example.ini"
    with private(ini) as f:
        f.write("%s\n[pgweir]\nlisten_addr = 127.0.0.1\nunix_socket_dir = %s\nauth_file = %s\n%s" % (
            "[databases]\nother = host=127.0.0.1\n" if "[databases]" not in example else "", tmp_path, tmp_path / "userlist.txt",
            re.sub("/(etc|run|var/log)/pgweir", str(tmp_path), example)))
    result = subprocess.run([binary(), "--check", ini], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_examples_of_sessions_return_what_they_say(scene, server):
    """sessions.md: each statement is a transaction, and gets the next of several servers, unless it pins."""
    for sql in ("CREATE ROLE reader ROLE app", "CREATE SEQUENCE invoice", "GRANT USAGE ON SEQUENCE invoice TO app",
                "GRANT CREATE ON SCHEMA public TO app"):
        server.execute(sql, database="p0")
    weir = scene.weir({"p0": server}, pool_mode="transaction", session_state="full", default_pool_size=4, server_round_robin=1)
    lines = [line for block in examples("sessions.md", "-- returns ") for line in block.splitlines() if line.strip()]
    assert len(lines) > 20
    client, *others = [weir.client() for _ in range(3)]
    for each in (client, *others):
        hold(each)
    for each in (client, *others):
        let_go(each)
    # the first question in a pool may come too late: sessions.md, The first question in a pool
    assert others[0].query("SELECT lastval()").errors[0]["C"] == "55000"
    for line in lines:
        sql, _, wanted = line.partition("-- returns ")
        result = client.query(sql)
        assert not result.errors, (line, result.errors)
        assert not wanted or result.value == wanted, (line, result.value)
        others[0].query("SELECT 1")


def test_patroni_with_reads_as_the_page_says(scene):
    """servers.md, With Patroni: the commands of "Try it" show where each of the three runs."""
    patroni = scene.patroni()
    entries = [line.partition(" = ") for line in examples("servers.md", "shop_ro = dbname=shop")[0].splitlines() if "dbname" in line]
    weir = scene.weir({name: parts.replace("dbname=shop", "dbname=p0") for name, _, parts in entries}, pool_mode="transaction",
                      patroni=patroni.urls, session_state="full")
    commands = [line for line in examples("servers.md", "pg_is_in_recovery")[0].splitlines() if line]
    assert len(commands) == 3
    printed = []
    for command in commands:
        command = command.replace("6432", str(weir.port)).replace("psql", tool("psql") + " -X", 1)
        result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True,
                                env={**os.environ, "PGPASSWORD": SECRETS["app"]})
        printed.append([word for word in result.stdout.split() if word in "ft"])
        until(lambda: any("standby" == row["role"] for row in weir.show("HOSTS")), "a standby is known")
    assert "has no effect" not in weir.log()
    assert printed[0] == ["f"] and printed[1] in (["t"], ["f"]) and printed[2] == ["t"], printed


def test_alerts_of_the_page_are_those_of_the_rules():
    """operating.md explains each alert of etc/prometheus-rules.yml."""
    rules = (PAGES.parent / "etc/prometheus-rules.yml").read_text()
    named = set(re.findall(r"`(Pgweir\w+)`", (PAGES / "operating.md").read_text()))
    assert named == set(re.findall(r"alert: (\w+)", rules))
