"""The process ID sent to a client, with a real server, as used by programs that have a session."""
import os
import subprocess

import psycopg
import pytest

from support import messages as m
from support.postgres import SECRETS, tool
from support.until import DEADLINE, until

SPEC = """
setup { CREATE TABLE isolated (n int); INSERT INTO isolated VALUES (1); }
teardown { DROP TABLE isolated; }
session one
step begin1 { BEGIN; }
step update1 { UPDATE isolated SET n = n + 1; }
step commit1 { COMMIT; }
session two
step begin2 { BEGIN; }
step update2 { UPDATE isolated SET n = n * 10; }
step commit2 { COMMIT; }
step look { SELECT n FROM isolated; }
permutation begin1 update1 begin2 update2 commit1 commit2 look
permutation begin2 update2 begin1 update1 commit2 commit1 look
"""


@pytest.fixture
def weir(scene, postgres):
    return scene.weir({"p0": postgres}, pool_mode="session", session_link="login")


def connect(weir):
    return psycopg.connect(weir.dsn(), autocommit=True)


def own(connection):
    return connection.execute("SELECT pg_backend_pid()").fetchone()[0]


def test_client_gets_the_process_id_of_the_server(weir):
    with connect(weir) as one, connect(weir) as two:
        assert (one.info.backend_pid, two.info.backend_pid) == (own(one), own(two))
        seen = one.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'app'").fetchall()
        assert {(one.info.backend_pid,), (two.info.backend_pid,)} <= set(seen)


def test_a_session_ends_another(weir):
    with connect(weir) as one, connect(weir) as two:
        assert one.execute("SELECT pg_terminate_backend(%s)", (two.info.backend_pid,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.AdminShutdown):
            two.execute("SELECT 1")
        with pytest.raises(psycopg.errors.AdminShutdown):
            one.execute("SELECT pg_terminate_backend(%s)", (one.info.backend_pid,))
    with connect(weir) as third:
        assert third.info.backend_pid == own(third)


def test_session_that_blocks_another(weir):
    one, two, looks = weir.client(), weir.client(), weir.client()
    one.query("SELECT pg_advisory_lock(1)")
    two.send(m.query("SELECT pg_advisory_lock(1)"))
    until(lambda: looks.query("SELECT pg_blocking_pids(%d)" % two.pid).value == "{%d}" % one.pid, "the lock")
    assert looks.query("SELECT pg_cancel_backend(%d)" % two.pid).value == "t"
    assert two.result().error == "canceling statement due to user request"


@pytest.mark.parametrize("link", ["first_query", "login"])
def test_notifications_of_both_links(scene, postgres, link):
    """Clients with either are told each other's process ids, and know their own."""
    at = postgres.target("p0", session_link=link)
    weir = scene.weir({"p0": at, "p1": postgres.target("p0", session_link="login")}, pool_mode="session")
    with psycopg.connect(weir.dsn(), autocommit=True) as hears, psycopg.connect(weir.dsn(database="p1"), autocommit=True) as speaks:
        hears.execute("LISTEN link")
        hears.execute("NOTIFY link, 'own'")
        speaks.execute("NOTIFY link, 'other'")
        told = {"own": hears.info.backend_pid, "other": speaks.info.backend_pid}
        assert {note.payload: note.pid for note in hears.notifies(timeout=DEADLINE, stop_after=2)} == told
        assert (own(hears) == told["own"]) == (link == "login")


def isolated(port, directory):
    """Returns the output of PostgreSQL's isolation tester for the specification."""
    tester = os.path.join(os.path.dirname(tool("postgres")), "../lib/pgxs/src/test/isolation/isolationtester")
    if not os.path.exists(tester):
        pytest.skip("no isolationtester")
    environment = dict(os.environ, PGPASSWORD=SECRETS["app"], PGISOLATIONTIMEOUT=str(DEADLINE))
    done = subprocess.run([tester, "host=127.0.0.1 port=%d user=app dbname=p0" % port], input=SPEC, text=True, capture_output=True,
                          env=environment, cwd=directory, timeout=2 * DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_isolation_tester(weir, postgres, directory):
    """The tester waits until pg_blocking_pids shows that a session waits for another, and identifies both by libpq's process IDs."""
    said = isolated(postgres.port, directory)
    assert "<waiting ...>" in said
    assert isolated(weir.port, directory) == said
