"""max_prepared_memory: the memory limit for the named statements of one client."""
import pytest

from support import messages as m
from support.scenes import transactions
from support.takeover import Replaced
from support.threads import run_in_threads

MOST = 100000
TEXT = "echo " + "x" * 1000
NUMBER = MOST // len(TEXT)      # a few more than may be


def ends(client):
    """Checks that the client ends with the matching error; earlier answers are ignored."""
    messages = client.read_until("E")
    fields = m.read_error(messages[-1].body)
    client.expect_closed()
    return fields["C"], fields["M"].rpartition(" ")[2]


def parses(first, count):
    return b"".join(m.parse(TEXT, "s%d" % n) for n in range(first, first + count))


@pytest.mark.parametrize("turns", [0, 1])
def test_names_that_are_never_closed(scene, turns):
    """Also across an online restart."""
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


def test_closed_names_do_not_count(scene):
    """Closed at once, after the answer, by SQL, or skipped by an error: none of these names counts any more."""
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


def test_text_longer_than_the_limit(scene):
    """The rest of the text is neither waited for nor kept."""
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


def test_texts_of_disconnected_clients(scene):
    """A server connection keeps statements of former clients for others, but no more than one client may have."""
    fake = scene.mini()
    weir = transactions(scene, fake, max_prepared_memory=MOST)
    texts = ["echo %d " % n + "x" * (MOST // 5) for n in range(20)]
    for text in texts:
        client = weir.client()
        client.send(m.parse(text, "s"), m.bind("s"), m.execute(), m.sync())
        assert client.result().value == text
        client.quit()
    (server,) = fake.started
    assert 2 <= server.most_statements <= 4


def test_texts_under_one_name_in_one_batch(scene):
    """The name stands for the last of them; the others were kept until they were answered, which a server may put off until the Sync."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client = weir.client()
    count, size = 40, 100000
    client.send(m.query("one"))
    server = fake.accept()
    server.expect_query("one")
    server.answer("one")
    assert client.result().value == "one"
    heard, unanswered = [], []

    def send():
        client.send(*(m.parse("echo %d" % n + "x" * size, "n") + m.close("S", "n") for n in range(count)), m.sync())

    def read():
        while not heard or heard[-1] != "S":
            heard.append(server.read().type)
            if heard[-1] in "PC":
                unanswered.append(m.parsed() if heard[-1] == "P" else m.close_complete())
            assert len(unanswered) < count // 2, "nothing asks for what has been answered"
            if heard[-1] in "HS":
                server.send(*unanswered)
                unanswered.clear()
        server.send(m.ready())

    run_in_threads(send, read)
    assert "".join(message.type for message in client.read_until("Z")) == "13" * count + "Z"


def test_unknown_names(scene):
    """Meaningless names are kept until the server has answered. The server gets short names in their place."""
    fake = scene.mini()
    weir = transactions(scene, fake, measured=True)
    client = weir.client()
    assert client.query("one").value == "one"
    before = weir.peak_memory()
    batch = m.query("wait") + (m.bind("n" * 4000) + m.sync()) * 10000

    def send():
        client.send(batch)

    def release():
        for _ in range(20):
            weir.barrier()
        fake.release()

    def read():
        assert client.result().value == "waited"
        for _ in range(10000):
            assert client.result().error == 'prepared statement "%s" does not exist' % ("n" * 4000)

    run_in_threads(send, release, read)
    assert weir.peak_memory() - before < 30000


def test_unknown_name_is_logged_once_per_batch(scene):
    """After the error, the server skips all later messages."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    for _ in range(2):
        client.send(m.bind("nothing") * 1000, m.sync())
        assert client.result().error == 'prepared statement "nothing" does not exist'
    assert weir.log().count("prepared statement 'nothing' not found") == 2
