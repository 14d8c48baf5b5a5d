"""
traps.tsv: bugs that poolers have really had, numbered, and for each of them the tests that would find it here. host_traps.tsv: the same for hosts with
roles.

A test belongs to a trap when its name or the first words of its docstring say so; the table has to agree with that.
"""
import ast
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent
TRAPS = {"traps.tsv": 91, "host_traps.tsv": 84}
SAID = {"traps.tsv": r"Traps? ", "host_traps.tsv": r"Host traps? "}
NAMED = {"traps.tsv": r"test_trap_(\d+)_", "host_traps.tsv": r"test_host_trap_(\d+)_"}


def table(name):
    """{number: (description, [test ids])}"""
    rows = {}
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        number, words, tests = line.split("\t")
        assert int(number) not in rows, number
        rows[int(number)] = (words, tests.split())
    return rows


def numbers_of(test, name):
    """The traps that a test says it is about."""
    named = re.match(NAMED[name], test.name)
    said = re.match(SAID[name] + r"(\d+(?:(?:, | and )\d+)*)\b", ast.get_docstring(test) or "")
    found = re.findall(r"\d+", said.group(1)) if said else []
    return {int(number) for number in found + ([named.group(1)] if named else [])}


def stated(name):
    """{test id: numbers}"""
    found = {}
    for path in sorted(HERE.glob("*/test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found["%s::%s" % (path.relative_to(HERE), node.name)] = numbers_of(node, name)
    return found


@pytest.mark.parametrize("name", TRAPS)
def test_all_are_there(name):
    rows = table(name)
    assert list(rows) == list(range(1, TRAPS[name] + 1))
    assert not [number for number, (words, ids) in rows.items() if not words or not ids]


@pytest.mark.parametrize("name", TRAPS)
def test_the_table_and_the_tests_agree(name):
    there = stated(name)
    by_table = {(number, test) for number, (_, ids) in table(name).items() for test in ids}
    by_tests = {(number, test) for test, numbers in there.items() for number in numbers}
    assert not {test for _, test in by_table if test not in there}
    assert not by_tests - by_table, "not in the table"
    assert not by_table - by_tests, "in the table, but neither name nor docstring of the test says so"
