"""
The texts of the log: test/log_words.tsv has the lines that log parsers, alerts and fail2ban rules look for.

A row is: event, poolers that write it (both; or pgweir, if PgBouncer 1.24 has no such line, or deliberately another line), level, text, test. Rows of
one event are in the order of their lines; other lines may come between them. In a text, {anything in braces} matches any non-empty text; connections
and ages are in the form of plain() in pgbouncer.py. Additions of pgweir to a line of PgBouncer follow in parentheses.
"""
import re
from collections import namedtuple
from pathlib import Path

from .pgbouncer import PgBouncer, words
from .until import until

TABLE = Path(__file__).parents[1] / "log_words.tsv"
LEVELS = ("LOG", "WARNING", "ERROR", "FATAL", "NOISE")
Row = namedtuple("Row", "event poolers level text test")


def table():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [Row(*line.split("\t")) for line in lines if line and not line.startswith("#")]


def pattern(text):
    return "".join(".+?" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{[^}]*\})", text)) + r"( \(.*\))?$"


def rows_of(event, is_ours):
    return [row for row in table() if row.event == event and (is_ours or row.poolers == "both")]


def missing(log, rows):
    """Returns the first row that has no line after the line of the previous row; None: every row has a line."""
    lines = iter(words(log))
    for row in rows:
        if not any(level == row.level and re.match(pattern(row.text), text) for level, text in lines):
            return row
    return None


def logs_event(pooler, event):
    """Waits until the log has all lines of this event, in their order."""
    rows = rows_of(event, not isinstance(pooler, PgBouncer))
    assert rows, "no line of %r in %s" % (event, TABLE.name)
    try:
        until(lambda: missing(pooler.log(), rows) is None)
    except AssertionError:
        lines = "\n".join("%s %s" % line for line in words(pooler.log()))
        raise AssertionError("%r is not in:\n%s" % (missing(pooler.log(), rows), lines)) from None
