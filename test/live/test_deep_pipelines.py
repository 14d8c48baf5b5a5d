"""As wire/test_deep_pipelines.py, before a real PostgreSQL, which keeps what it has answered until it is asked for it or has 8 KiB of it."""
import pytest

from support import messages as m
from support.scenes import transactions

DEEP = 70000


@pytest.mark.parametrize("front, answers", ((b"", ""), (m.run("SELECT 1"), "12TDC")), ids=("alone", "behind-a-query"))
def test_batch_of_answers_that_are_promised(scene, postgres, front, answers):
    weir = transactions(scene, {"p0": postgres})
    client = weir.client()
    client.send(front, m.close("S", "s") * DEEP, m.sync())
    assert client.result().types == answers + "3" * DEEP + "Z"
    assert client.query("SELECT 'alive'").value == "alive"


def test_batch_of_answers_that_the_server_gives(scene, postgres):
    weir = transactions(scene, {"p0": postgres})
    client = weir.client()
    client.send(m.parse("SELECT 1") * DEEP, m.sync())
    assert client.result().types == "1" * DEEP + "Z"
    assert client.query("SELECT 'alive'").value == "alive"
