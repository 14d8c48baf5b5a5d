"""Tests that run with both programs: with PgBouncer, to confirm the expected behaviour, and with pgweir."""
import pytest

from support.pgbouncer import PgBouncer
from support.pgweir import Pgweir


@pytest.fixture(params=[PgBouncer, Pgweir], ids=["pgbouncer", "pgweir"])
def pooler(request, scene):
    """pooler(databases, **options) starts it; `pooler.is_ours` where the two differ on purpose (doc/differences.md)."""
    def start(databases=None, **options):
        return scene.weir(databases, kind=request.param, **options)
    start.is_ours = request.param is Pgweir
    return start
