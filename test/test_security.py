"""doc/security.md names tests, or files of tests: each must exist. Neither pgweir nor a server is needed."""
import pathlib
import re

HERE = pathlib.Path(__file__).parent
PAGE = (HERE.parent / "doc" / "security.md").read_text(encoding="utf-8")


def named():
    return re.findall(r"\[(\w+/\w+\.py)(?:::(\w+))?\]", PAGE)


def functions_of(file):
    path = HERE / file
    return re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE) if path.exists() else []


def test_every_test_that_is_named_exists():
    assert len(named()) > 100
    missing = [(file, name) for file, name in named() if not functions_of(file) or name and name not in functions_of(file)]
    assert not missing, missing


def test_every_cve_has_a_test_of_its_name_and_the_reverse():
    listed = {"test_" + cve.lower().replace("-", "_") for cve in re.findall(r"^- (CVE-\d+-\d+): ", PAGE, re.MULTILINE)}
    listed |= {"test_" + version.replace(".", "_") for version in re.findall(r"^- CVE-\d+-\d+, PgBouncer ([\d.]+): ", PAGE, re.MULTILINE)}
    tests = functions_of("wire/test_cve.py") + functions_of("live/test_cve.py")
    assert len(listed) >= 10
    assert not [name for name in listed if not any(test.startswith(name + "_") for test in tests)]
    assert not [test for test in tests if not any(test.startswith(name + "_") for name in listed)]
