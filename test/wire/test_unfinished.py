"""
Messages of which the end does not come. Of those that pgweir has to see more of before it can pass them on, the server sees
nothing, so they must not keep one from others.
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


def test_it_asks_for_no_server(scene, half):
    """One server, which a client had that said no more."""
    weir = transactions(scene, scene.mini())
    silent, other = weir.client(), weir.client()
    silent.send(half)
    weir.barrier()
    assert other.query("alive").value == "alive"
    assert [row["state"] for row in weir.show("CLIENTS") if row["database"] == "p0"] == ["idle", "idle"]


def test_it_does_not_keep_the_server_of_the_query_before(scene, half):
    weir = transactions(scene, scene.mini())
    silent, other = weir.client(), weir.client()
    silent.send(m.query("first"), half)
    assert silent.result().value == "first"
    assert other.query("alive").value == "alive"


def test_pause_does_not_wait_for_it(scene, half):
    weir = transactions(scene, scene.mini())
    silent = weir.client()
    silent.send(m.query("first"), half)
    assert silent.result().value == "first"
    weir.admin("PAUSE")
    weir.admin("RESUME")
    assert weir.client().query("alive").value == "alive"


def test_its_rest_may_come_byte_by_byte(scene):
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
def test_clock_of_a_query_runs_while_a_large_text_comes(scene, name, here):
    """One that does not fit the read buffer has a server meanwhile."""
    weir = transactions(scene, scene.mini(), query_timeout=1)
    silent, other = weir.client(), weir.client()
    silent.send(m.parse("echo " + "x" * 1000000, name)[:here])
    assert m.read_error(silent.drain()[-1].body)["M"] == "query timeout"
    assert other.query("alive").value == "alive"


@pytest.mark.parametrize("here", (5, 50))
@pytest.mark.parametrize("message", (m.copy_data(b"x" * 100), m.copy_fail("x" * 100)), ids=("data", "fail"))
def test_clock_of_a_query_runs_while_data_of_a_copy_come(scene, message, here):
    """The query may have been a COPY, so that the server has the beginning; it was none, and all is answered."""
    weir = transactions(scene, scene.mini(), query_timeout=1)
    silent = weir.client()
    silent.send(m.query("first"), message[:here])
    assert silent.result().value == "first"
    assert m.read_error(silent.drain()[-1].body)["M"] == "query timeout"
    assert weir.client().query("alive").value == "alive"


def test_pool_is_not_stopped_by_as_many_as_it_has_servers(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, pool_size=3)
    silent = [weir.client() for _ in range(6)]
    for client in silent:
        client.send(HALVES["parse"])
    weir.barrier()
    assert weir.client().query("alive").value == "alive"
    assert until(lambda: len(fake.started) == 1, "one server is enough")
