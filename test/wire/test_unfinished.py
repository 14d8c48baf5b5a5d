"""
Messages whose end does not arrive. If pgweir must read more of a message before it can forward it, the server has seen nothing of it, so such a
client must not keep a server.
"""
import pytest

from support import messages as m
from support.scenes import transactions
from support.until import until

HALVES = {
    "parse": m.parse("echo " + "x" * 200, "s")[:60],
    "parse-unnamed": m.parse("echo " + "x" * 200)[:60],
    "parse-large": m.parse("echo " + "x" * 100000, "s")[:50000],
    "parse-header": m.parse("echo one", "s")[:5],
    "bind": m.bind("name of a statement")[:12],
    "describe-header": m.describe("S", "name of a statement")[:5],
    "describe": m.describe("S", "name of a statement")[:12],
    "close": m.close("S", "name of a statement")[:12],
}


@pytest.fixture(params=sorted(HALVES))
def half(request):
    return HALVES[request.param]


def test_unfinished_message_requests_no_server(scene, half):
    """One server, which a client had that said no more."""
    weir = transactions(scene, scene.mini())
    silent, other = weir.client(), weir.client()
    silent.send(half)
    weir.barrier()
    assert other.query("alive").value == "alive"
    assert [row["state"] for row in weir.show("CLIENTS") if row["database"] == "p0"] == ["idle", "idle"]


def test_unfinished_message_releases_the_server(scene, half):
    weir = transactions(scene, scene.mini())
    silent, other = weir.client(), weir.client()
    silent.send(m.query("first"), half)
    assert silent.result().value == "first"
    assert other.query("alive").value == "alive"


def test_pause_does_not_wait_for_an_unfinished_message(scene, half):
    weir = transactions(scene, scene.mini())
    silent = weir.client()
    silent.send(m.query("first"), half)
    assert silent.result().value == "first"
    weir.admin("PAUSE")
    weir.admin("RESUME")
    assert weir.client().query("alive").value == "alive"


def test_rest_may_arrive_byte_by_byte(scene):
    weir = transactions(scene, scene.mini())
    client, other = weir.client(), weir.client()
    for byte in m.query("first") + m.parse("echo two", "s") + m.bind("s") + m.describe("P") + m.execute() + m.close("S", "s"):
        client.send(bytes((byte,)))
        weir.barrier()
    client.expect_all("TDCZ")
    client.send(m.sync())
    client.expect_all("12TDC3Z")
    assert other.query("alive").value == "alive"


@pytest.mark.parametrize("name", ("s", ""))
@pytest.mark.parametrize("here", (5, 100, 500000))
def test_query_timeout_runs_while_a_large_text_arrives(scene, name, here):
    """A text that exceeds the read buffer has a server meanwhile."""
    weir = transactions(scene, scene.mini(), query_timeout=1)
    silent, other = weir.client(), weir.client()
    silent.send(m.parse("echo " + "x" * 1000000, name)[:here])
    assert m.read_error(silent.drain()[-1].body)["M"] == "query timeout"
    assert other.query("alive").value == "alive"


@pytest.mark.parametrize("here", (5, 50))
@pytest.mark.parametrize("message", (m.copy_data(b"x" * 100), m.copy_fail("x" * 100)), ids=("data", "fail"))
def test_query_timeout_runs_while_copy_data_arrives(scene, message, here):
    """The query may have been a COPY, so the server has the beginning; it was not, and everything is answered."""
    weir = transactions(scene, scene.mini(), query_timeout=1)
    silent = weir.client()
    silent.send(m.query("first"), message[:here])
    assert silent.result().value == "first"
    assert m.read_error(silent.drain()[-1].body)["M"] == "query timeout"
    assert weir.client().query("alive").value == "alive"


def test_pool_size_unfinished_messages_do_not_block_the_pool(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, pool_size=3)
    silent = [weir.client() for _ in range(6)]
    for client in silent:
        client.send(HALVES["parse"])
    weir.barrier()
    assert weir.client().query("alive").value == "alive"
    assert until(lambda: len(fake.started) == 1, "one server is enough")
