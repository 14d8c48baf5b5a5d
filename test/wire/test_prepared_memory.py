"""max_prepared_memory: what the named statements of one client may take."""
import pytest

from support import messages as m
from support.scenes import transactions
from support.takeover import Replaced

MOST = 100000
TEXT = "echo " + "x" * 1000
NUMBER = MOST // len(TEXT)      # a few more than may be


def ends(client):
    """With the error that says why; what was answered before does not matter."""
    messages = client.read_until("E")
    fields = m.read_error(messages[-1].body)
    client.expect_closed()
    return fields["C"], fields["M"].rpartition(" ")[2]


def parses(first, count):
    return b"".join(m.parse(TEXT, "s%d" % n) for n in range(first, first + count))


@pytest.mark.parametrize("turns", [0, 1])
def test_names_that_are_never_closed(scene, turns):
    """Also when an online restart stands between."""
    weir = transactions(scene, scene.mini(), kind=Replaced, max_prepared_memory=MOST)
    client = weir.client()
    client.send(parses(0, NUMBER // 2), m.sync())
    assert not client.result().errors
    for _ in range(turns):
        weir.replace()
    client.send(parses(NUMBER // 2, NUMBER // 4), m.sync())
    assert not client.result().errors
    client.send(parses(NUMBER, NUMBER // 3), m.sync())
    assert ends(client) == ("08P01", "(max_prepared_memory)")


def test_names_that_are_closed(scene):
    """At once, after the answer, by SQL, and those that an error skips: none of them counts any more."""
    weir = transactions(scene, scene.mini(), max_prepared_memory=MOST)
    client = weir.client()
    for turn in range(3):
        client.send(parses(0, NUMBER // 2), m.sync())
        assert not client.result().errors
        client.send(*(m.close("S", "s%d" % n) for n in range(NUMBER // 2)), m.sync())
        assert not client.result().errors
        client.send(*(m.parse(TEXT, "t") + m.close("S", "t") for _ in range(2 * NUMBER)), m.sync())
        assert not client.result().errors
        client.send(m.bind("missing"), parses(0, NUMBER // 2), m.sync())
        assert client.result().errors
        client.send(parses(0, NUMBER // 2), m.sync())
        assert not client.result().errors
        assert client.query("DEALLOCATE ALL").tags == ["DEALLOCATE ALL"], turn


def test_a_text_that_is_longer(scene):
    """It is not waited for, nor kept."""
    weir = transactions(scene, scene.mini(), max_prepared_memory=MOST)
    client = weir.client()
    whole = m.parse("x" * MOST * 10, "s")
    client.send(whole[:200])
    assert ends(client) == ("08P01", "(max_prepared_memory)")


def test_no_limit(scene):
    weir = transactions(scene, scene.mini(), max_prepared_memory=0)
    client = weir.client()
    client.send(parses(0, 2 * NUMBER), m.sync())
    assert not client.result().errors
