"""
Waiting, the only way the tests know: ask again until it is so, or fail with a reason.

Nothing in a test may depend on how long something takes. A scene waits for a message, for the end of a
connection, or here for a fact that has no message of its own (a row of SHOW, a line of the log). DEADLINE only
decides when a test that hangs is called failed: it is never part of what is tested.
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
