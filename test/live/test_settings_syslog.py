"""Syslog messages, their name and facility."""
import re

import pytest

from support.live import pid_of
from support.syslog import LOG_INFO, LOG_WARNING, Listened


def start(scene, postgres, **settings):
    weir = scene.weir({"p0": postgres}, kind=Listened, **settings)
    pid_of(weir.client())
    weir.connect().refused(user="app", database="nowhere")
    return weir


def told(weir):
    """The messages to the daemon, as (facility, priority, ident, text)."""
    return [(facility, priority, ident, text) for facility, priority, ident, pid, text in weir.syslog.lines() if pid == weir.pid]


def test_syslog_is_off(scene, postgres):
    assert not start(scene, postgres).syslog.lines()


def test_syslog(scene, postgres):
    lines = told(start(scene, postgres, syslog=1))
    assert {line[0] for line in lines} == {3}       # LOG_DAEMON
    assert {line[2] for line in lines} == {"pgbouncer"}
    priorities = {text: priority for _, priority, _, text in lines}
    (login,) = [text for text in priorities if "login attempt: db=p0" in text]
    (fault,) = [text for text in priorities if "pooler error: no such database: nowhere" in text]
    assert priorities[login] == LOG_INFO and priorities[fault] == LOG_WARNING
    assert not re.match(r"\d{4}-", login), "syslog has its own time"


@pytest.mark.parametrize("word, number", [("auth", 4), ("authpriv", 10), ("daemon", 3), ("user", 1), ("local0", 16),
                                          ("local1", 17), ("local2", 18), ("local3", 19), ("local4", 20), ("local5", 21),
                                          ("local6", 22), ("local7", 23)])
def test_syslog_facility(scene, postgres, word, number):
    assert {line[0] for line in told(start(scene, postgres, syslog=1, syslog_facility=word))} == {number}


def test_syslog_ident(scene, postgres):
    assert {line[2] for line in told(start(scene, postgres, syslog=1, syslog_ident="weir of shop"))} == {"weir of shop"}


def test_syslog_at_run_time(scene, postgres):
    weir = start(scene, postgres)
    weir.admin("SET syslog = 1")
    weir.admin("SET syslog_ident = 'later'")
    weir.admin("SET syslog_facility = local6")
    weir.client()
    facility, _, ident, text = told(weir)[-1]
    assert (facility, ident) == (22, "later") and "login attempt: db=p0" in text
