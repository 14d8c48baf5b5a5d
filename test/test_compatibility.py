"""doc/compatibility.md agrees with the tables and the tests, and no row of it is open."""
from support import compatibility


def test_document_is_current():
    written = (compatibility.TOP / "doc/compatibility.md").read_text(encoding="utf-8")
    assert written == compatibility.document(), "run: python3 test/support/compatibility.py >doc/compatibility.md"


def test_no_row_is_open():
    rows = [line for line in compatibility.document().splitlines() if line.startswith("- ")]
    assert sum(row.rsplit(": ", 1)[0].count("`") // 2 for row in rows) > 140
    assert not [row for row in rows if row.endswith(": open")]


def test_every_proof_is_wanted():
    """Every proof belongs to an existing row."""
    facts = (compatibility.TOP / "test/support/pgbouncer_settings.tsv").read_text(encoding="utf-8")
    names = {line.split("\t")[0] for line in facts.splitlines()[1:]}
    assert {name.replace("database ", "") for name in compatibility.PROOFS} <= names


def test_settings_are_all_known():
    """Everything PgBouncer has is a setting here, with the same default."""
    differ = [(name, there, here) for name, _, there, here, _ in compatibility.rows() if there != here]
    names = [name for name, _, _ in differ]
    # the default query names its schemas, so that the owner of a database has no say in it
    assert names == ["auth_query", "verbose"]
    assert differ[1:] == [("verbose", "", "0")]
    assert differ[0][2].replace("OPERATOR(pg_catalog.<)", "<").replace(" OPERATOR(pg_catalog.=) ", "=").replace("pg_catalog.", "") == differ[0][1]
