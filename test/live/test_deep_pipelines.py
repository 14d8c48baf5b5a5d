"""Like wire/test_deep_pipelines.py, with a real PostgreSQL, which holds answers back until a Flush or Sync, or until it has 8 KiB."""
import pytest

from support import messages as m
from support.scenes import transactions

DEEP = 70000


@pytest.mark.parametrize("front, answers", ((b"", ""), (m.run("SELECT 1"), "12TDC")), ids=("alone", "behind-a-query"))
def test_batch_of_answers_by_the_pooler(scene, postgres, front, answers):
    weir = transactions(scene, {"p0": postgres})
    client = weir.client()
    client.send(front, m.close("S", "s") * DEEP, m.sync())
    assert client.result().types == answers + "3" * DEEP + "Z"
    assert client.query("SELECT 'alive'").value == "alive"


def test_batch_of_answers_by_the_server(scene, postgres):
    weir = transactions(scene, {"p0": postgres})
    client = weir.client()
    client.send(m.parse("SELECT 1") * DEEP, m.sync())
    assert client.result().types == "1" * DEEP + "Z"
    assert client.query("SELECT 'alive'").value == "alive"
