"""The ledger of truth in short: test/chaos.sh does the same for as long as it is told."""
import pytest

from support.chaos import CLIENTS, CONSOLE, KINDS, PROCESS, Chaos
from support.rounds import IS_FULL, rounds


@pytest.mark.parametrize("seed", range(5 if IS_FULL else 1))
def test_operator_actions_cause_no_errors(scene, authority, seed):
    """RELOAD, PAUSE, SUSPEND, RECONNECT and online restarts, and clients that vanish: not one error."""
    quiet = [kind for kind in (*CONSOLE, *PROCESS, *CLIENTS) if not KINDS[kind] and kind != "cancel"]
    chaos = Chaos(scene, authority, "quiet %d" % seed, quiet)
    chaos.play(rounds(12, full=200))
    chaos.audit()


@pytest.mark.parametrize("seed", range(5 if IS_FULL else 1))
def test_no_transfer_is_lost_or_duplicated(scene, authority, seed):
    chaos = Chaos(scene, authority, "loud %d" % seed)
    chaos.play(rounds(12, full=200))
    chaos.audit()
