"""
How often a scene that hunts for a race is played, and how large its amounts are.

$PGWEIR_ROUNDS is a factor for what a scene names (1 if unset), or "full": then every scene has the size that the trap
was described with, and ten times what it names if there was no such size.
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
