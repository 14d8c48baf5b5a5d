"""
pgweir under the system call filter of its unit, as systemd would set it up (SystemCallFilter=, SystemCallErrorNumber= and
RestrictAddressFamilies= of etc/pgweir.service.in). systemd says which calls are in its groups; libseccomp, which systemd
uses too, makes the filter. No service manager has to run.

As a program: seccomp.py UNIT COMMAND..., which sets up the filter and becomes the command.
"""
import ctypes
import errno
import os
import pathlib
import re
import socket
import subprocess
import sys

UNIT = pathlib.Path(__file__).resolve().parents[2] / "etc" / "pgweir.service.in"
ALLOW = 0x7fff0000
FAMILIES_MOST = 46


def refuse(number):
    return 0x00050000 | number


def entries(unit, key):
    """The values of a key, in order."""
    return [value.split() for value in re.findall(r"^%s=(.*)$" % key, pathlib.Path(unit).read_text(encoding="utf-8"), re.M)]


def group(name):
    """Returns the system calls of a group; any other name is itself a system call."""
    if not name.startswith("@"):
        return {name}
    listed = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    return set().union(*(group(line.strip()) for line in listed.splitlines()[1:] if not line.strip().startswith("#")))


def allowed_calls(unit):
    """Returns the system calls that SystemCallFilter= allows: systemd.exec(5) adds @default to a list of allowed calls."""
    calls = group("@default")
    for words in entries(unit, "SystemCallFilter"):
        takes_away = words[0].startswith("~")
        found = set().union(*(group(word.lstrip("~")) for word in words))
        calls = calls - found if takes_away else calls | found
    return calls


def allowed_families(unit):
    (words,) = entries(unit, "RestrictAddressFamilies")
    return {int(getattr(socket, word)) for word in words}


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""
    _fields_ = [("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


EQUAL = 4


class Filter:
    def __init__(self, otherwise):
        self.library = ctypes.CDLL("libseccomp.so.2")
        self.library.seccomp_init.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(otherwise)))
        assert self.context

    def add(self, action, call, *comparisons):
        """A call that this machine does not have needs no rule."""
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:
            done = self.library.seccomp_rule_add_array(self.context, ctypes.c_uint32(action), number, len(comparisons),
                                                       (Comparison * len(comparisons))(*comparisons))
            assert done == 0, (call, done)

    def load(self):
        done = self.library.seccomp_load(self.context)
        assert done == 0, os.strerror(-done)


def set_filter(unit):
    (number,) = entries(unit, "SystemCallErrorNumber")
    families = Filter(ALLOW)
    for family in set(range(FAMILIES_MOST)) - allowed_families(unit):
        families.add(refuse(errno.EAFNOSUPPORT), "socket", Comparison(0, EQUAL, family, 0))
    calls = Filter(refuse(getattr(errno, number[0])))
    for call in allowed_calls(unit) | {"seccomp"}:
        calls.add(ALLOW, call)
    families.load()
    calls.load()


def under_seccomp(command, unit=UNIT):
    return [sys.executable, os.path.abspath(__file__), str(unit)] + command


if __name__ == "__main__":
    set_filter(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
