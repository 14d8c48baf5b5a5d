"""
Waiting, in the only way that the tests use: test a condition repeatedly until it holds, or fail with a reason.

No test may depend on a duration. A scene waits for a message, for the end of a connection, or here for a fact without a message (a row of SHOW, a
line of the log). DEADLINE only limits a test that hangs: it is never part of a test's condition.
"""
import threading

DEADLINE = 20.0
_STEP = 0.01
_never = threading.Event()


def until(predicate, what="", deadline=DEADLINE):
    """Returns the first true value of predicate(); fails when there is none before the deadline."""
    for _ in range(int(deadline / _STEP)):
        value = predicate()
        if value:
            return value
        _never.wait(_STEP)
    raise AssertionError("waited in vain: %s" % (what or predicate))
