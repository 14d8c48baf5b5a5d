"""
A PAM service of the test, for a pgweir of the test build: a script (pam_exec) decides, and records its input. The user name determines the result:

- slow...: waits until the test releases it
- killer: kills the process that PAM runs in
- all others: the password must be "NAME-pam"; the account of "expired" may not be used
"""
import os

from .until import until

SERVICE = """auth required pam_exec.so expose_authtok quiet {script}
account required pam_exec.so quiet {script}
"""

SCRIPT = r"""#!/bin/sh
echo "$PAM_TYPE $PAM_SERVICE $PAM_USER ${{PAM_RHOST-none}}" >> '{directory}/asked'
case $PAM_TYPE in
account)
	test "$PAM_USER" != expired
	exit ;;
esac
case $PAM_USER in
slow*)
	read -r _ < '{directory}/gate'
	echo "$PAM_USER" >> '{directory}/passed' ;;
killer)
	kill -ABRT $PPID ;;		# of which a sanitizer makes no report, for which it would need long
esac
test "$(tr -d '\0')" = "$PAM_USER-pam"
"""


class Pam:
    def __init__(self, directory, monkeypatch, service=None):
        self.directory = str(directory)
        script = os.path.join(self.directory, "script")
        with open(script, "w", encoding="ascii") as f:
            f.write(SCRIPT.format(directory=self.directory))
        os.chmod(script, 0o755)
        with open(os.path.join(self.directory, "pgbouncer"), "w", encoding="ascii") as f:
            f.write((service or SERVICE).format(script=script))
        os.mkfifo(os.path.join(self.directory, "gate"))
        monkeypatch.setenv("PGWEIR_PAM_CONFDIR", self.directory)

    def asked(self):
        """Lines "TYPE SERVICE USER RHOST"."""
        return self._lines("asked")

    def _lines(self, name):
        try:
            with open(os.path.join(self.directory, name), encoding="utf-8") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def wait_asked(self, count):
        return until(lambda: len(self.asked()) >= count, "PAM was asked %d times" % count)

    def let_go(self):
        """Opens the gate for the processes that wait there now."""
        try:
            os.close(os.open(os.path.join(self.directory, "gate"), os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            pass        # no process waits

    def end(self):
        """Scripts of verifiers that have been ended are still waiting."""
        def no_login_waits():
            self.let_go()
            return len(self._lines("passed")) == sum(line.startswith("auth pgbouncer slow") for line in self.asked())
        until(no_login_waits, "nobody waits any more")
