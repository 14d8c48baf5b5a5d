"""
What a pipeline costs grows with its length, not with the square of it: the instructions of pgweir itself for one, two and four
times as many messages. One client would otherwise hold up all the others with a pipeline of a few hundred kilobytes.
"""
import pytest

from support import messages as m
from support.instruments import Counted

MESSAGES = 300
NAMED = "echo '%d'"             # a literal: its meaning hangs on parameters


def deallocations(client, count):
    """Each takes away every name that is certain, while others are in flight."""
    client.send(m.parse("DEALLOCATE ALL"), (m.bind() + m.execute()) * count, names(count), m.sync())


def deallocations_of_some(client, count):
    """... and one of them becomes certain between any two."""
    client.send(m.parse("DEALLOCATE ALL"), b"".join(m.parse("one", "a%d" % n) + m.bind() + m.execute() for n in range(count)),
                names(count), m.sync())


def changes(client, count):
    """Each may change the meaning of every statement that was parsed since the last ReadyForQuery."""
    client.send(m.parse("SET a.b TO 1"), (m.bind() + m.execute()) * count, uses(count), m.sync())


def errors(client, count):
    """Each may have undone a change that nothing was reported of."""
    client.send(m.run("one"), uses(count), m.sync(), (m.bind("missing") + m.sync()) * count)
    for _ in range(count):
        client.result()


def closes(client, count):
    """Each is answered in its turn, if all before it is of one batch."""
    client.send(m.parse("one"), (m.bind() + m.execute()) * count, m.close("S", "missing") * count, m.sync())


def known_texts(client, count):
    """The same, of a Parse."""
    client.send(m.parse("one"), (m.bind() + m.describe("P")) * count,
                b"".join(m.parse(NAMED % 0, "k%d" % n) for n in range(count)), m.sync())


def names(count):
    return b"".join(m.parse(NAMED % n, "z%d" % n) for n in range(count))


def uses(count):
    return b"".join(m.bind("q%d" % n) for n in range(count))


def cost(scene, pipeline, count):
    """The client has prepared so many statements, and its server has none of them."""
    weir = scene.weir(scene.mini(), kind=Counted, max_prepared_statements=10 * MESSAGES)
    client = weir.client()
    client.send(b"".join(m.parse(NAMED % n, "q%d" % n) for n in range(count)), m.sync())
    assert not client.result().errors
    weir.admin("RECONNECT")
    pipeline(client, count)
    client.result()
    client.send(m.terminate())
    client.expect_closed()
    weir.stop()
    return weir.executed()["pgweir"]


@pytest.mark.parametrize("pipeline", (deallocations, deallocations_of_some, changes, errors, closes, known_texts))
def test_cost_of_a_pipeline(scene, pipeline):
    one, two, four = (cost(scene, pipeline, times * MESSAGES) for times in (1, 2, 4))
    # 2 where it is a line, 4 where it is a square
    assert (four - two) / (two - one) <= 2.5, (one, two, four)
