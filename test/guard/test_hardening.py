"""The installed binary has the hardening that configure promises: properties that the linker reports, and properties of the code."""
import os
import platform
import re
import subprocess

import pytest

BINARY = os.environ.get("PGWEIR_FAST", "")
ENDBR64 = b"\xf3\x0f\x1e\xfa"


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, BINARY], check=True, capture_output=True, text=True).stdout


def test_position_independent():
    assert re.search(r"Type:\s+DYN", readelf("-h"))
    assert re.search(r"FLAGS_1.*\bPIE\b", readelf("-d"))


def test_full_relro():
    """Tables filled by the dynamic linker are read-only before main begins."""
    assert "GNU_RELRO" in readelf("-l")
    assert re.search(r"\(FLAGS\).*BIND_NOW|FLAGS_1.*\bNOW\b", readelf("-d"))


def test_no_executable_stack_and_no_writable_code():
    program = readelf("-l")
    assert re.search(r"GNU_STACK.*\bRW\b", program) and not re.search(r"GNU_STACK.*E", program)
    for line in program.splitlines():
        assert not re.match(r"\s+LOAD.*\bRWE\b", line), line
    assert "TEXTREL" not in readelf("-d")


def test_stack_protector_and_fortified_calls():
    names = readelf("--dyn-syms")
    assert "__stack_chk_fail" in names
    assert len(set(re.findall(r"__\w+_chk\b", names)) - {"__stack_chk_fail"}) >= 3, "no fortified calls"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CET is x86's")
def test_branch_protection():
    """
    Functions that are called by their address begin with ENDBR64 (-fcf-protection); in one partition the compiler knows which are not. Whether the whole binary is marked for it is for the C runtime to say,
    which is linked in and has to have it as well; Debian's has not.
    """
    with open(BINARY, "rb") as f:
        assert f.read().count(ENDBR64) > 100
