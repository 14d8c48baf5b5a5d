"""log_words.tsv and the tests that it names agree: each event is triggered by its test, and each line that a test asks for is in it."""
import ast
import pathlib

from support.log_words import LEVELS, table

HERE = pathlib.Path(__file__).parent


def logged_by_tests():
    """{(event, test id)} of every logs_event(pooler, "event")."""
    found = set()
    for path in sorted(HERE.glob("*/test_*.py")):
        for test in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(test, ast.FunctionDef):
                continue
            for node in ast.walk(test):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "logs_event":
                    found.add((node.args[1].value, "%s::%s" % (path.relative_to(HERE), test.name)))
    return found


def test_the_table_and_the_tests_agree():
    assert {(row.event, row.test) for row in table()} == logged_by_tests()


def test_rows_are_well_formed():
    for row in table():
        assert row.poolers in ("both", "pgweir"), row
        assert row.level in LEVELS, row
        assert row.text.strip() == row.text != "", row
