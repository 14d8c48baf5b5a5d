"""SHOW LATENCIES, the percentiles of SHOW POOLS, and the histograms of /metrics."""
import http.client

from support import messages as m
from support.ports import free_port
from support.until import until


def latencies(weir, database="p0"):
    """{kind: row} of the pool of user app in the database; None: of all pools."""
    return {row["latency"]: row for row in weir.show("LATENCIES") if row["database"] == database}


def counts(weir, database="p0"):
    return {kind: (row["minute_count"], row["total_count"]) for kind, row in latencies(weir, database).items()}


def test_each_kind_is_counted(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction", session_state="off")
    client = weir.client()
    for _ in range(3):
        client.query("one")
    for query in ("BEGIN", "one", "COMMIT"):
        client.query(query)
    other = weir.client(application_name="other")
    other.query("one")
    # transactions: four queries alone, and one of three queries
    expected = {"wait": (5, 5), "query": (7, 7), "transaction": (5, 5), "login": (2, 2), "connect": (1, 1), "restore": (1, 1)}
    assert counts(weir) == expected
    # the sum of all pools is the same, because only this pool has served a client
    assert counts(weir, None) == expected


def test_percentiles_are_in_order_and_cover_the_wait(scene):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, show_extra_columns=1)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("one"))
    weir.wait_pool("p0", cl_waiting=1)
    (row,) = [row for row in weir.show("POOLS") if row["database"] == "p0"]
    waited = row["maxwait"] * 1000000 + row["maxwait_us"]
    holder.query("COMMIT")
    assert waiting.result().value
    rows = latencies(weir)
    assert rows["wait"]["minute_max"] >= 0.94 * waited > 0
    assert rows["transaction"]["total_max"] >= 0.94 * waited
    for row in rows.values():
        for window in ("minute", "total"):
            values = [row[window + "_" + name] for name in ("p50", "p90", "p99", "p999", "max")]
            assert values == sorted(values)
    (row,) = [row for row in weir.show("POOLS") if row["database"] == "p0"]
    for kind in ("wait", "query", "transaction"):
        for name in ("p50", "p99"):
            assert row["%s_%s" % (kind, name)] == rows[kind]["minute_" + name]


def test_pool_without_latencies_has_no_rows_and_no_percentiles(scene):
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()}, show_extra_columns=1, min_pool_size=0)
    weir.client(database="p1").query("one")
    assert not latencies(weir)
    assert set(latencies(weir, None)) == {"wait", "query", "transaction", "login", "connect", "restore"}
    assert latencies(weir, None)["restore"]["total_count"] == 0


def test_counts_of_a_pool_that_ends_stay_in_the_sum(scene):
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()})
    weir.client(database="p1").query("one")
    weir.admin("KILL p1")
    del weir.databases["p1"]
    weir.write_ini()
    weir.admin("RELOAD")
    until(lambda: all(row["database"] != "p1" for row in weir.show("POOLS")), "the pool is freed")
    assert counts(weir, None)["query"][1] == 1


def test_histograms_of_metrics_equal_show(scene):
    port = free_port()
    weir = scene.weir(scene.mini(), pool_mode="transaction", http_listen_port=port)
    client = weir.client()
    for _ in range(5):
        client.query("one")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("pgweir_latency_seconds"))
    for kind, row in latencies(weir, None).items():
        bounds = [float(found[name]) for name in found if name.startswith('pgweir_latency_seconds_bucket{latency="%s"' % kind)]
        assert bounds == sorted(bounds) and len(bounds) == 23
        assert bounds[-1] == float(found['pgweir_latency_seconds_count{latency="%s"}' % kind]) == row["total_count"]
        assert float(found['pgweir_latency_seconds_sum{latency="%s"}' % kind]) <= row["total_count"] * row["total_max"] / 1e6
