"""
The cost of a pipeline is linear, not quadratic, in its length: pgweir's own instructions for one, two and four times as many messages. Otherwise one
client could delay all others with a pipeline of a few hundred kilobytes.
"""
import pytest

from support import messages as m
from support.profilers import Counted

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
    """The client has prepared this number of statements, and its server has none of them."""
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


TEXT_LONG = "echo '%s'" % ("x" * 60000)
MOST = 20000                    # instructions for a message of a few bytes


def ended(weir, client):
    client.send(m.terminate())
    client.expect_closed()
    weir.stop()
    return sum(weir.executed().values())


def uses_of_an_evicted_text(scene, count):
    """Parsed after a message that may have changed the parameters, and evicted from the server, all in one batch."""
    weir = scene.weir(scene.mini(), kind=Counted, max_prepared_statements=5)
    client = weir.client()
    client.send(m.run("one"), m.parse(TEXT_LONG, "long"), b"".join(m.parse("t%d" % n, "t%d" % n) for n in range(10)),
                m.bind("long") * count, m.sync())
    assert not client.result().errors
    return ended(weir, client)


def test_cost_of_a_use_does_not_grow_with_the_text(scene):
    """The text was copied and hashed for each use."""
    one, two = (uses_of_an_evicted_text(scene, times * MESSAGES) for times in (1, 2))
    assert (two - one) / MESSAGES < MOST, (one, two)


LARGE = 1000000                 # more than the read buffer takes
NOTICES = 30


def notices_before_a_large_text(scene, count):
    """A Parse waits, because its name is in doubt, and one notice after the other comes meanwhile."""
    fake = scene.fake()
    weir = scene.weir(fake, kind=Counted)
    client = weir.client()
    client.send(m.parse("small", "n"), m.sync())
    server = fake.accept()
    server.expect_all("PDS")
    client.send(m.parse("echo '%s'" % ("x" * LARGE), "n"), m.sync())
    for _ in range(10):
        weir.barrier()
    for _ in range(count):
        server.send(m.notice("wait"))
        client.expect("N")
    server.send(m.error("no"), m.ready())
    client.expect_all("EZ")
    server.expect_all("PDS")
    server.send(m.parsed(), m.ready())
    client.expect_all("1Z")
    return ended(weir, client)


def test_cost_of_an_answer_does_not_grow_with_a_pending_text(scene):
    """The text was copied for each notice."""
    one, two = (notices_before_a_large_text(scene, times * NOTICES) for times in (1, 2))
    assert (two - one) / NOTICES < MOST, (one, two)


MENTIONS = 1000
NAMED_LONG = "n" * 60 + "." + "n" * 60 + "." + "n" * 60


def mentions_of_a_parameter(scene, count):
    """By a client with session_state = full that has named many others before."""
    weir = scene.weir(scene.mini(), kind=Counted, session_state="full")
    client = weir.client()
    client.send(m.query("echo -- " + " ".join("set %s%d" % (NAMED_LONG, n) for n in range(90))))
    client.result()
    client.send(m.query("echo -- " + "set x.y " * count))
    client.result()
    return ended(weir, client)


def test_cost_of_a_parameter_does_not_grow_with_their_number(scene):
    """The parameter was compared with each earlier one, over its whole length."""
    one, two = (mentions_of_a_parameter(scene, times * MENTIONS) for times in (1, 2))
    assert (two - one) / MENTIONS < 5000, (one, two)


def text_full_of_sets(scene, count):
    weir = scene.weir(scene.mini(), kind=Counted, session_state="full")
    client = weir.client()
    client.send(m.query("echo -- " + " ".join("set a.n%02d" % (n % 90) for n in range(count))))
    client.result()
    return ended(weir, client)


def test_cost_of_a_text_full_of_sets(scene):
    """A name was searched after each SET, and all other clients waited for that."""
    one, two = (text_full_of_sets(scene, times * 5000) for times in (1, 2))
    assert (two - one) / 5000 < 1000, (one, two)
