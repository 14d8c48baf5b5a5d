"""The rows of include/tbl/close_reason.tbl. A row may have comments, and a text of several literals in several lines."""
import collections
import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[2] / "include/tbl/close_reason.tbl"
_LITERAL = r'"((?:[^"\\]|\\.)*)"'
_ROW = re.compile(r'^CLOSE_REASON\((\w+),\s*(\w+),\s*"(\w+)",\s*(\w+),\s*(\w+),\s*(\w+),\s*((?:%s\s*)+)\)' % _LITERAL, re.MULTILINE)

# format: the text, as C writes it; for the others see the head of the table
Row = collections.namedtuple("Row", "name fault sqlstate told detail hint format")


def close_reasons(until=None):
    """The rows in the order of the table, those before the comment `until` if it is given."""
    source = TABLE.read_text(encoding="utf-8").split("/* %s */" % until)[0]
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    rows = [Row(*row[:6], "".join(re.findall(_LITERAL, row[6]))) for row in _ROW.findall(source)]
    assert len(rows) == len(re.findall(r"^CLOSE_REASON\(", source, re.MULTILINE)), "a row that is not understood"
    return rows
