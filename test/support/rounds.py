"""
The number of rounds of a scene that looks for a race condition, and the amounts of data.

$PGWEIR_ROUNDS is a factor for the scene's default (1 if unset), or "full": then every scene has the size of the trap's original report, or ten times
its default if no such size is known.
"""
import os

_ROUNDS = os.environ.get("PGWEIR_ROUNDS", "1")
IS_FULL = _ROUNDS == "full"


def size(count, full=None):
    """An amount: count in a usual run, full in one at full size."""
    if IS_FULL:
        return full or 10 * count
    return max(1, int(count * float(_ROUNDS)))


def rounds(count, full=None):
    """The numbers of the rounds."""
    return range(size(count, full))
