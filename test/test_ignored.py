"""Files that make creates in the source tree are in .gitignore, so that `make check` leaves no untracked file."""
import fnmatch
import pathlib
import re

TOP = pathlib.Path(__file__).parents[1]


def programs():
    """Every program that Makefile.am or etc/files.sh names, by its path."""
    makefile = (TOP / "Makefile.am").read_text(encoding="utf-8").replace("\\\n", " ")
    for names in re.findall(r"^\w*(?:PROGRAMS|programs) = (.*)$", makefile, re.M):
        yield from (name for name in names.split() if not name.startswith("$"))
    for pattern in ("test/unit/*/test_*.c", "test/fuzz/fuzz_*.c"):
        yield from (str(path.relative_to(TOP))[:-2] for path in TOP.glob(pattern))
    yield from ("%s/tests" % path.relative_to(TOP) for path in TOP.glob("test/unit/*/"))


def is_ignored(path, lines):
    return any(fnmatch.fnmatch("/" + path, line) for line in lines)


def test_programs():
    lines = (TOP / ".gitignore").read_text(encoding="utf-8").splitlines()
    made = set(programs())
    assert {"pgweir", "doc/gendoc", "test/sim/sim", "test/bench/blind", "test/fuzz/fuzz_hba", "test/unit/conf/test_hba", "test/unit/conf/tests"} <= made
    assert sorted(path for path in made if not is_ignored(path, lines)) == []
    # sources of the same names are not
    assert {"!/test/unit/*/test_*.c", "!/test/fuzz/fuzz_*.c"} <= set(lines)
