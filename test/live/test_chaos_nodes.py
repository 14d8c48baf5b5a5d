"""The bank on three servers whose roles change, in short: test/chaos.sh --nodes does the same for as long as it is told."""
import itertools

import pytest

from support.chaos_nodes import KINDS, NodesChaos
from support.rounds import IS_FULL, rounds, size


@pytest.mark.parametrize("reads", ["transaction", "auto"])
@pytest.mark.parametrize("seed", range(5 if IS_FULL else 1))
def test_nothing_is_lost_and_no_read_is_stale(scene, seed, reads):
    """Host traps 11, 71, 72 and 74."""
    chaos = NodesChaos(scene, "nodes %d" % seed, reads=reads)
    chaos.play(rounds(3, full=50))
    chaos.audit()
    assert not any(stale for _, stale in chaos.stale().values()), chaos.stale()
    # while others write all the time, a standby rarely covers the last write of the database: Followers may read from the primary only
    assert chaos.stale()["Rereader"][0] > 0, chaos.stale()


@pytest.mark.parametrize("by", ["service", "headless"])
@pytest.mark.parametrize("reads", ["transaction", "auto"] if IS_FULL else ["transaction"])
def test_nothing_is_lost_and_no_read_is_stale_by_one_address(scene, by, reads):
    """The addresses of services that follow the roles, or one name of all servers."""
    chaos = NodesChaos(scene, by, kinds=("switch", "crash", "hang"), reads=reads, by=by)
    least = size(2, full=50)

    def until_read():
        """At least so many, and until a standby has been read: of the standbys behind a service only one at a time may be."""
        for number in itertools.count():
            if number >= least and chaos.stale()["Rereader"][0] > 0:
                return
            yield number
    chaos.play(itertools.islice(until_read(), least + 20))
    chaos.audit()
    assert not any(stale for _, stale in chaos.stale().values()), chaos.stale()
    assert chaos.stale()["Rereader"][0] > 0, chaos.stale()


def test_reads_are_stale_without_read_your_writes(scene):
    """The control: the scene above can fail."""
    chaos = NodesChaos(scene, "stale", kinds=("freeze",), is_fresh=False)

    def are_stale():
        return chaos.stale()["Follower"][1] > 0 and chaos.stale()["Rereader"][1] > 0

    def until_stale():
        """A reader rarely changes its host."""
        while not are_stale():
            yield
    chaos.play(itertools.islice(until_stale(), 20))
    chaos.audit()
    stale = chaos.stale()
    assert stale["Follower"][1] > 0 and stale["Rereader"][1] > 0, stale
