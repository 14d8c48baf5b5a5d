"""What goes to syslog, under which name and facility. A preloaded library writes to a file what the system would be told."""
import os
import re
import subprocess

import pytest

from support.live import pid_of
from support.pgweir import Pgweir

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard", "syslog_file.c")
LOG_ERR, LOG_WARNING, LOG_INFO = 3, 4, 6


class Listened(Pgweir):
    """pgweir whose words to syslog are in a file."""

    def command(self):
        library = self.path("syslog.so")
        if not os.path.exists(library):
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        # a sanitizer wants to be loaded first, and does as well behind
        sanitizer = "verify_asan_link_order=0:detect_leaks=1:exitcode=99:log_path=" + self.path("sanitizer")
        return ["env", "LD_PRELOAD=" + library, "SYSLOG_FILE=" + self.path("syslog"),
                "ASAN_OPTIONS=" + sanitizer] + super().command()

    def told(self):
        """Lines as (facility, priority, ident, text)."""
        return [(int(facility), int(priority), ident, text) for facility, priority, ident, text in
                re.findall(r"^(\d+)\.(\d+) (.*?): (.*)$", self._read("syslog"), re.M)]


def start(scene, postgres, **settings):
    weir = scene.weir({"p0": postgres}, kind=Listened, **settings)
    pid_of(weir.client())
    weir.connect().refused(user="app", database="nowhere")
    return weir


def test_syslog_is_off(scene, postgres):
    assert not start(scene, postgres).told()


def test_syslog(scene, postgres):
    told = start(scene, postgres, syslog=1).told()
    assert {line[0] for line in told} == {3}        # LOG_DAEMON
    assert {line[2] for line in told} == {"pgbouncer"}
    priorities = {text: priority for _, priority, _, text in told}
    (login,) = [text for text in priorities if "login attempt: db=p0" in text]
    (fault,) = [text for text in priorities if "pooler error: no such database: nowhere" in text]
    assert priorities[login] == LOG_INFO and priorities[fault] == LOG_WARNING
    assert not re.match(r"\d{4}-", login), "syslog has its own time"


@pytest.mark.parametrize("word, number", [("auth", 4), ("authpriv", 10), ("daemon", 3), ("user", 1), ("local0", 16),
                                          ("local1", 17), ("local2", 18), ("local3", 19), ("local4", 20), ("local5", 21),
                                          ("local6", 22), ("local7", 23)])
def test_syslog_facility(scene, postgres, word, number):
    assert {line[0] for line in start(scene, postgres, syslog=1, syslog_facility=word).told()} == {number}


def test_syslog_ident(scene, postgres):
    assert {line[2] for line in start(scene, postgres, syslog=1, syslog_ident="weir of shop").told()} == {"weir of shop"}


def test_syslog_at_run_time(scene, postgres):
    weir = start(scene, postgres)
    weir.admin("SET syslog = 1")
    weir.admin("SET syslog_ident = 'later'")
    weir.admin("SET syslog_facility = local6")
    weir.client()
    facility, _, ident, text = weir.told()[-1]
    assert (facility, ident) == (22, "later") and "login attempt: db=p0" in text
