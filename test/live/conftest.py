"""Fixtures of the tests with a real PostgreSQL."""
import os
import re
import subprocess

import pytest

from support.pooled_postgres import MODES, TRANSPORTS, PooledPostgres
from support.postgres import SECRETS, tool


class Heard:
    """The statements of one role on the shared server, in order, while the server logs all of them. Without pgweir's query for functions."""

    def __init__(self, postgres, role):
        self._postgres = postgres
        self._role = role
        self._start = len(postgres.log())

    def __call__(self, pid=None):
        pattern = r"\[%s\] %s@\S+ LOG:  (?:statement|execute [^:]*): (.*)" % (pid or r"\d+", self._role)
        return [text for text in re.findall(pattern, self._postgres.log()[self._start:]) if "pg_catalog.pg_proc" not in text]


@pytest.fixture
def heard(postgres):
    """heard() lists the statements that role app has run on the shared server in this test."""
    postgres.execute("ALTER ROLE app SET log_statement = 'all'")
    yield Heard(postgres, "app")
    postgres.execute("ALTER ROLE app RESET log_statement")


def fronts(*modes):
    return pytest.fixture(params=[(mode, transport) for mode in modes for transport in TRANSPORTS], ids="-".join)


@fronts(*MODES)
def pooled(request, scene, postgres, authority):
    """pgweir in each mode, reached over each kind of connection."""
    return PooledPostgres(scene, postgres, authority, *request.param)


@fronts("session", "transaction")
def transaction_front(request, scene, postgres, authority):
    """The same in the modes that can carry transactions."""
    return PooledPostgres(scene, postgres, authority, *request.param)


@fronts("session")
def session_front(request, scene, postgres, authority):
    """The same in the mode in which a client has a server connection for itself."""
    return PooledPostgres(scene, postgres, authority, *request.param)


@pytest.fixture(scope="session")
def bench(postgres):
    """The tables of pgbench, in p2."""
    subprocess.run([tool("pgbench"), "-i", "-q", "-s", "1", "-h", postgres.host, "-p", str(postgres.port), "-U", "app",
                    "p2"], check=True, env=dict(os.environ, PGPASSWORD=SECRETS["app"]), capture_output=True)
    return "p2"
