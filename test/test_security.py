"""doc/security.md names tests: each of them must exist. Neither pgweir nor a server is needed."""
import pathlib
import re

HERE = pathlib.Path(__file__).parent
PAGE = (HERE.parent / "doc" / "security.md").read_text(encoding="utf-8")
LISTED = ["CVE-2012-4575", "CVE-2015-6817", "CVE-2021-3935", "CVE-2025-2291", "CVE-2025-12819", "CVE-2026-6664", "CVE-2026-6665",
          "CVE-2026-6666", "CVE-2026-6667"]


def named():
    return re.findall(r"\[(\w+/\w+\.py)::(\w+)\]", PAGE)


def test_every_test_that_is_named_exists():
    missing = [(file, name) for file, name in named()
               if not re.search(r"^def %s\(" % name, (HERE / file).read_text(encoding="utf-8"), re.MULTILINE)]
    assert not missing, missing


def test_every_cve_has_a_test_that_is_named():
    names = {name for _, name in named()}
    for cve in LISTED:
        word = "test_" + cve.lower().replace("-", "_")
        assert any(name.startswith(word) for name in names), cve
        assert cve in PAGE
    assert any(name.startswith("test_1_5_5") for name in names)


def test_every_cve_test_is_named():
    names = {name for _, name in named()}
    for file in ("wire/test_cve.py", "live/test_cve.py"):
        for name in re.findall(r"^def (test_\w+)\(", (HERE / file).read_text(encoding="utf-8"), re.MULTILINE):
            assert name in names, name
