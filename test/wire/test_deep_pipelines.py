"""
Pipelines so deep that pgweir stops reading them until answers come. The server does not know of the messages that pgweir
answers itself, and holds its own answers back until a Flush or a Sync: so only pgweir can end the wait.
"""
import pytest

from support import messages as m
from support.scenes import transactions
from support.threads import run_in_threads
from support.until import DEADLINE

DEEP = 70000                    # more than RELAY_DEEPEST
TEXT = "echo one"


def closes(count=DEEP):
    return m.close("S", "s") * count, "3" * count


def parses(count=DEEP):
    """Parse messages of a text that the server already has: the server gets none of them."""
    return b"".join(m.parse(TEXT, "n%d" % n) for n in range(count)), "1" * count


def both(count=DEEP // 2):
    return (m.close("S", "s") + m.parse(TEXT, "s")) * count, "31" * count


def kinds_until_ready(client):
    return "".join(message.type for message in client.read_until("Z"))


@pytest.mark.parametrize("promised", (closes, parses, both))
def test_batch_of_answers_by_the_pooler(scene, promised):
    """At the limit everything waited for the server, the Sync too, and the server for the Sync."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client()
    client.send(m.parse(TEXT, "s"), m.sync())
    client.expect_all("1Z")
    messages, kinds = promised()
    client.send(messages, m.sync())
    assert kinds_until_ready(client) == kinds + "Z"
    assert client.query("alive").value == "alive"
    assert sum(1 for entry in fake.statements if entry[0] == "P") == 1


def test_batch_of_pooler_answers_after_a_server_answer(scene):
    """Which the server keeps to itself until it is asked."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    messages, kinds = closes()
    client.send(m.run("echo front"), messages, m.sync())
    assert kinds_until_ready(client) == "12TDC" + kinds + "Z"
    assert client.query("alive").value == "alive"


def test_batch_of_answers_held_back_by_the_server(scene):
    """Nothing of it is promised: they are all the server's."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    client.send(m.close("P", "p") * DEEP, m.sync())
    assert kinds_until_ready(client) == "3" * DEEP + "Z"
    assert client.query("alive").value == "alive"


def test_batch_of_long_unnamed_statements(scene):
    """Each text was kept until it was answered, in case the next one fails."""
    weir = transactions(scene, scene.mini(), 1, measured=True)
    client = weir.client()
    assert client.query("one").value == "one"
    before = weir.peak_memory()
    text = "echo " + "x" * 100000
    client.send(m.parse(text) * 300, m.sync())
    assert kinds_until_ready(client) == "1" * 300 + "Z"
    assert weir.peak_memory() - before < 10000
    client.send(m.bind(), m.execute(), m.sync())
    assert client.result().value == text


def push(weir, client, data, most):
    """Sends this over and over until pgweir reads no more. Returns the number of bytes sent."""
    sent, refused = 0, 0
    client.sock.setblocking(False)
    while refused < 3:
        assert sent < most, "of a client that does not read %d bytes were read" % sent
        try:
            sent += client.sock.send(data[sent % len(data):])
            refused = 0
        except BlockingIOError:
            refused += 1
            weir.barrier()
    client.sock.settimeout(DEADLINE)
    return sent


def test_client_that_does_not_read_the_poolers_answers(scene):
    """pgweir kept five bytes for each message, without a limit: the server sees none of them and so does not slow the client down."""
    weir = transactions(scene, scene.mini(), measured=True, tcp_socket_buffer=16384)
    client = weir.client(receive_buffer=4096)
    batch = m.close("S", "s") * 100 + m.flush()
    client.send(batch)
    before = weir.memory()
    taken = push(weir, client, batch, 16000000)
    assert weir.memory() - before < 20000
    rest = -taken % len(batch)

    def write():
        client.send(batch[len(batch) - rest:] if rest else b"", m.sync())

    def read():
        assert kinds_until_ready(client) == "3" * (100 * (1 + (taken + rest) // len(batch))) + "Z"

    run_in_threads(write, read)
    assert client.query("alive").value == "alive"
