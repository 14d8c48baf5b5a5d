"""Fixtures of the tests with a real PostgreSQL."""
import re

import pytest


class Heard:
    """What the shared server was told by one role, in order, while it logs every statement of it."""

    def __init__(self, postgres, role):
        self._postgres = postgres
        self._role = role
        self._start = len(postgres.log())

    def __call__(self, pid=None):
        pattern = r"\[%s\] %s@\S+ LOG:  (?:statement|execute [^:]*): (.*)" % (pid or r"\d+", self._role)
        return re.findall(pattern, self._postgres.log()[self._start:])


@pytest.fixture
def heard(postgres):
    """heard() lists the statements that role app has run on the shared server in this test."""
    postgres.execute("ALTER ROLE app SET log_statement = 'all'")
    yield Heard(postgres, "app")
    postgres.execute("ALTER ROLE app RESET log_statement")
