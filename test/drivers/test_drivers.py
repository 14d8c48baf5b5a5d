"""
PostgreSQL drivers, as applications use them, through pgweir: each program of this directory in session and in transaction mode, with and without TLS,
with the driver's defaults and with its prepared statements.

$PGWEIR_DRIVERS is the directory in which test/drivers.sh has built them. This test reads the table of doc/drivers.md, which lists the unsupported
operations of each program: an error that is not in the table, and a row with a check that succeeds, are failures.
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from support.live import NEVER

HERE = pathlib.Path(__file__).resolve().parent
BUILT = pathlib.Path(os.environ.get("PGWEIR_DRIVERS", "/nonexistent"))
TABLE = HERE.parent.parent / "doc" / "drivers.md"
MODES = ("session", "transaction")
VARIANTS = ("default", "cache")
TRANSPORTS = ("tcp", "tls")
POOL = 5
PATIENCE = 300


def python(program, *arguments):
    return [sys.executable, str(HERE / "python" / (program + ".py")), *arguments]


def built(*path):
    return [str(BUILT.joinpath(*path))]


# Name in doc/drivers.md: what to run. The last file named in a command, if it was to be built, tells whether it was.
PROGRAMS = {
    "psycopg2": python("with_psycopg2"),
    "psycopg 3": python("with_psycopg"),
    "pg8000": python("with_pg8000"),
    "asyncpg": python("with_asyncpg"),
    "SQLAlchemy, psycopg2": python("with_sqlalchemy", "psycopg2"),
    "SQLAlchemy, psycopg 3": python("with_sqlalchemy", "psycopg"),
    "SQLAlchemy, asyncpg": python("with_sqlalchemy", "asyncpg"),
    "SQLAlchemy, pg8000": python("with_sqlalchemy", "pg8000"),
    "Django, psycopg2": python("with_django", "psycopg2"),
    "Django, psycopg 3": python("with_django", "psycopg"),
    "pgx": built("go", "bin", "with_pgx"),
    "lib/pq": built("go", "bin", "with_pq"),
    "pgjdbc": ["java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", "%s:%s" % (BUILT / "java", BUILT / "java" / "postgresql.jar"),
               "WithPgjdbc"],
    "node-postgres": ["node"] + built("node", "with_pg.js"),
    "postgres.js": ["node"] + built("node", "with_postgres.js"),
    "tokio-postgres": built("rust", "target", "debug", "with_tokio_postgres"),
    "sqlx": built("rust", "target", "debug", "with_sqlx"),
}
NEEDS = {"pgx": "go/bin/with_pgx", "lib/pq": "go/bin/with_pq", "pgjdbc": "java/WithPgjdbc.class",
         "node-postgres": "node/node_modules", "postgres.js": "node/node_modules",
         "tokio-postgres": "rust/target/debug/with_tokio_postgres", "sqlx": "rust/target/debug/with_sqlx"}

# Settings that an administrator must make for a driver, as with PgBouncer.
SETTINGS = {"sqlx": {"ignore_startup_parameters": "extra_float_digits"}}


def promised(driver, mode, variant):
    """{check: words of its error} by the table: | driver | mode | variant | check | error |, where * is any."""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 5 and cells[0] in (driver, "*") and cells[1] in (mode, "*") and cells[2] in (variant, "*"):
            found[cells[3].strip("`")] = cells[4].strip("`")
    return found


@pytest.fixture
def table(postgres):
    postgres.execute("DROP TABLE IF EXISTS drive; CREATE TABLE drive (n int PRIMARY KEY, t text); "
                     "ALTER TABLE drive OWNER TO app", database="p0")
    yield
    postgres.execute("DROP TABLE drive", database="p0")


def pooled(scene, postgres, authority, mode, transport, **settings):
    """pgweir, and the environment that tells a program where it is."""
    tls = {}
    if transport == "tls":
        tls = dict(client_tls_sslmode="require", client_tls_cert_file=authority.cert("server"),
                   client_tls_key_file=authority.key("server"))
    weir = scene.weir({"p0": postgres}, pool_mode=mode, auth_type="scram-sha-256", default_pool_size=POOL,
                      max_client_conn=300, server_idle_timeout=NEVER, client_login_timeout=NEVER, query_wait_timeout=NEVER,
                      **tls, **settings)
    place = dict(PGHOST="localhost" if tls else "127.0.0.1", PGPORT=str(weir.port), PGUSER="app", PGPASSWORD="app-secret",
                 PGDATABASE="p0", PGSSLMODE="verify-full" if tls else "disable", DRIVER_MODE=mode)
    if tls:
        place["PGSSLROOTCERT"] = authority.cert("ca")
    return weir, place


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("driver", PROGRAMS)
def test_driver(scene, postgres, authority, table, driver, mode, variant, transport):
    if driver in NEEDS and not (BUILT / NEEDS[driver]).exists():
        pytest.skip("%s: its toolchain is not here" % driver)
    weir, place = pooled(scene, postgres, authority, mode, transport, **SETTINGS.get(driver, {}))
    environment = dict(os.environ, DRIVER_VARIANT=variant, **place)
    done = subprocess.run(PROGRAMS[driver], env=environment, cwd=weir.directory, text=True, capture_output=True,
                          timeout=PATIENCE, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    lines = re.findall(r"^(ok|error|skip) (\w+)(?:: (.*))?$", done.stdout, re.M)
    assert len(lines) == len(done.stdout.splitlines()), "a line that nobody understands: " + told
    checks = {name: (verdict, words) for verdict, name, words in lines}
    assert "workers" in checks, told
    wanted = {name: words for name, words in promised(driver, mode, variant).items() if name in checks}
    got = {name: words for name, (verdict, words) in checks.items() if verdict == "error"}
    assert set(got) == set(wanted), told
    for name, words in wanted.items():
        assert words in got[name], told
    assert len(weir.show("SERVERS")) <= POOL
    weir.wait_pool("p0", cl_active=0, cl_waiting=0, sv_active=0)
