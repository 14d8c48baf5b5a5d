"""
PgBouncer itself, run like pgweir, so that one test can check both. The program is $PGWEIR_PGBOUNCER: test/run.sh unpacks the package of Debian 13
(test/pgbouncer.sh).
"""
import os
import re
import signal

from .pgweir import Pgweir

# settings of the tests' own pgweir that PgBouncer 1.24 does not have
OURS = ("login_failure_delay", "core_dumps", "session_state", "client_gone")


class PgBouncer(Pgweir):
    """Options, files, console and clients are like those of Pgweir. Settings that PgBouncer does not have are left out of `settings`."""

    def write_ini(self, text=None):
        if text is None:
            for name in OURS:
                self.settings.pop(name, None)
        super().write_ini(text)

    def command(self):
        path = os.environ.get("PGWEIR_PGBOUNCER")
        assert path, "the environment variable PGWEIR_PGBOUNCER must name PgBouncer: test/run.sh unpacks it"
        return [path] + self._arguments + [self.ini_path]

    def check(self, status):
        """Faults of PgBouncer are not checked, except a crash, which makes measured values meaningless."""
        assert status >= 0 or -status in (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT), "PgBouncer ended with status %d" % status


def words(log, pattern=""):
    """
    Returns level and text of the matching log lines without variable parts: time, process ID, address and number of a connection, ages. Sorted as in
    the log.
    """
    found = re.findall(r"^\S+ \S+ \S+ \[\d+\] (\w+) (.*)$", log, re.M)
    return [(level, plain(text)) for level, text in found if re.search(pattern, plain(text))]


def plain(text):
    text = re.sub(r"\b([CS])-0x[0-9a-f]+: ", r"\1: ", text)
    text = re.sub(r"@(unix|\S+?):\d+\b", r"@\1", re.sub(r"@unix\(\d+(@[^)]*)?\)", "@unix", text))
    return re.sub(r"\(age=[\d.]+s\)", "(age)", text)
