"""etc/setup.sh, which the scripts of the tree share: what it says of apt-get's failures. apt-get runs on directories of the test."""
import contextlib
import fcntl
import pathlib
import subprocess

import pytest

from support.until import DEADLINE

SETUP = pathlib.Path(__file__).resolve().parents[1] / "etc/setup.sh"
APT = """#!/bin/sh
exec /usr/bin/apt-get -o Dir::State='{0}' -o Dir::State::Lists='{0}/lists' -o Dir::Cache='{0}' -o Dir::Etc::SourceList='{0}/sources' \\
	-o Dir::Etc::SourceParts=/dev/null "$@"
"""


@pytest.fixture
def apt(tmp_path):
    """Starts a function of setup.sh with an apt-get that knows the sources of the test only."""
    (tmp_path / "lists/partial").mkdir(parents=True)
    (tmp_path / "sources").touch()
    for name, text in (("apt-get", APT.format(tmp_path)), ("sudo", '#!/bin/sh\nexec "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def start(function):
        text = 'PATH=%s:$PATH; top=; . %s; apt_log=%s/log; %s; echo done' % (tmp_path, SETUP, tmp_path, function)
        return subprocess.Popen(["sh", "-euc", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    start.directory = tmp_path
    return start


@contextlib.contextmanager
def locked(path):
    """The lock of another apt-get: as this process holds it, apt-get names python3."""
    with open(path, "w", encoding="utf-8") as f:
        fcntl.lockf(f, fcntl.LOCK_EX)
        yield


def test_an_update_waits_for_the_lock_of_another_process(apt):
    with locked(apt.directory / "lists/lock"):
        process = apt("apt_update")
        line = process.stdout.readline()
    assert line.startswith("== Waiting for the package lock of ") and "(p" in line, line
    assert process.communicate(timeout=DEADLINE)[0] == "done\n"


def test_a_lock_that_stays_is_named_and_the_network_is_not(apt):
    with locked(apt.directory / "lists/lock"):
        process = apt('apt-get update >"$apt_log" 2>&1 || apt_failed "apt-get update failed" "check the network"')
        _, complaint = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "FAILED: another process holds the package lock: " in complaint
    assert "network" not in complaint


def test_other_failures_are_told_as_they_are(apt):
    """A directory that the account may not write, as without root: no lock."""
    (apt.directory / "lists").chmod(0o500)
    process = apt("apt_update")
    _, complaint = process.communicate(timeout=DEADLINE)
    (apt.directory / "lists").chmod(0o700)
    assert process.returncode == 1
    assert "FAILED: apt-get update failed" in complaint and "package lock" not in complaint
