"""SHOW STATEMENTS and SHOW WAITS with a real server."""
from support import messages as m
from support.until import until


def test_times_of_statements(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", max_prepared_statements=10, query_stats=1)
    client = weir.client()
    client.send(m.parse("SELECT pg_sleep(0.01), $1::int", "s", [23]), m.sync())
    assert client.result().types == "1Z"
    for value in b"1", b"2":
        client.send(m.bind("s", values=[value]), m.execute(), m.sync())
        assert client.result().rows[0][1] == value
    for value in range(3):
        assert client.query("SELECT %d + 1" % value).value == str(value + 1)
    rows = {row["text"]: row for row in weir.show("STATEMENTS")}
    slow, fast = rows["SELECT pg_sleep(0.01), $1::int"], rows["SELECT ? + ?"]
    assert (slow["executions"], slow["clients"], slow["servers"], fast["executions"]) == (2, 1, 1, 3)
    assert slow["total_us"] >= 20000 and slow["p99_us"] >= 9400


def test_holder_of_a_lock_of_the_pool(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("SELECT 1"))
    (row,) = until(lambda: weir.show("WAITS"), "it waits")
    weir.admin("KILL_CLIENT C-" + row["holder"])
    assert waiting.result().value == "1"
