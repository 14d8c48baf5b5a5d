"""SHOW STATEMENTS, and query_stats."""
import pytest

from support import messages as m
from support.takeover import Replaced
from support.until import until


def stage(scene, target=None, **settings):
    return scene.weir(target or scene.mini(), pool_mode="transaction", max_prepared_statements=10, **settings)


def prepare(client, text, name="s"):
    client.send(m.parse(text, name), m.sync())
    assert client.result().types == "1Z"


def execute(client, name="s"):
    client.send(m.bind(name), m.describe("P"), m.execute(), m.sync())
    return client.result()


def shown(weir):
    """{text: row}; the console's own queries are not counted."""
    return {row["text"]: row for row in weir.show("STATEMENTS")}


def test_prepared_statements_are_shown_without_counts_by_default(scene):
    weir = stage(scene)
    first, second = weir.client(), weir.client()
    prepare(first, "have 'shared'")
    prepare(second, "have 'shared'")
    execute(first)
    first.query("SELECT 1")
    (row,) = weir.show("STATEMENTS")
    assert (row["kind"], row["clients"], row["servers"], row["text"]) == ("prepared", 2, 1, "have 'shared'")
    assert row["executions"] is None and row["total_us"] is None and row["p99_us"] is None
    second.send(m.close("S", "s"), m.sync())
    second.result()
    assert weir.show("STATEMENTS")[0]["clients"] == 1
    first.quit()
    # the server keeps it for the next client
    until(lambda: [(row["clients"], row["servers"]) for row in weir.show("STATEMENTS")] == [(0, 1)], "no client has it")


def test_statements_and_texts_are_counted(scene):
    weir = stage(scene, query_stats=1)
    client = weir.client()
    prepare(client, "have 'kept'")
    for _ in range(3):
        execute(client)
    for value in range(4):
        client.query("select  %d from t where a = 'it''s %d' and b in (%d, 2,\n3) and c1 = 1.5 -- x" % (value, value, value))
    for value in "one", "two":
        client.send(m.run("have $1, '%s'" % value), m.sync())
        client.result()
    rows = shown(weir)
    assert rows["have 'kept'"]["executions"] == 3 and rows["have 'kept'"]["kind"] == "prepared"
    text = rows["select ? from t where a = ? and b in (?) and c1 = ?"]
    assert (text["kind"], text["executions"], text["clients"], text["servers"]) == ("text", 4, None, None)
    assert rows["have $1, ?"]["executions"] == 2
    for row in rows.values():
        assert row["total_us"] >= 0 and row["p99_us"] <= max(1.07 * row["total_us"], 1), row


def test_time_ends_with_the_statement(scene):
    fake = scene.fake()
    weir = stage(scene, fake, query_stats=1)
    client = weir.client()
    client.send(m.query("slow"))
    server = fake.accept()
    server.expect_query("slow")
    weir.barrier()
    assert shown(weir) == {}
    server.answer("x")
    assert client.result().value == "x"
    row = shown(weir)["slow"]
    assert row["executions"] == 1 and row["total_us"] > 0 and 0.9 * row["total_us"] <= row["p99_us"] <= 1.1 * row["total_us"]


def test_reload_turns_counting_on_and_off(scene):
    weir = stage(scene)
    client = weir.client()
    client.query("SELECT 1")
    assert shown(weir) == {}
    weir.admin("SET query_stats = 1")
    client.query("SELECT 1")
    assert shown(weir)["SELECT ?"]["executions"] == 1
    assert {row["name"]: row["used"] for row in weir.show("MEM")}["query_stats_cache"] == 1
    weir.settings["query_stats"] = 0
    weir.write_ini()
    weir.admin("RELOAD")
    client.query("SELECT 1")
    assert shown(weir) == {} and "query_stats_cache" not in {row["name"] for row in weir.show("MEM")}


def test_online_restart_begins_with_empty_counts(scene):
    weir = stage(scene, kind=Replaced, query_stats=1)
    client = weir.client()
    prepare(client, "have 'kept'")
    execute(client)
    client.query("SELECT 1")
    assert shown(weir)["have 'kept'"]["executions"] == 1
    weir.replace()
    rows = shown(weir)
    assert list(rows) == ["have 'kept'"] and (rows["have 'kept'"]["executions"], rows["have 'kept'"]["clients"]) == (0, 1)
    execute(client)
    assert shown(weir)["have 'kept'"]["executions"] == 1


def test_the_number_of_texts_is_bounded(scene):
    """And a SHOW of many rows comes in parts."""
    weir = stage(scene, query_stats=1)
    client = weir.client()
    for number in range(1100):
        client.query("select a%d" % number)
        if number % 100 == 0:
            client.query("select hot")
    rows = shown(weir)
    assert len(rows) == 1000 and rows["select hot"]["executions"] == 11
    assert "select a0" not in rows and "select a1099" in rows


def test_only_administrators_see_texts_and_the_log_has_none(scene):
    weir = stage(scene, query_stats=1)
    client = weir.client()
    client.query("select 'sesame'")
    prepare(client, "have 'sesame', 1")
    execute(client)
    stats = weir.client("stats", "pgweir")
    stats.send(m.query("SHOW STATEMENTS"))
    assert stats.result().error == "admin access needed"
    assert "sesame" in shown(weir).popitem()[0] or "sesame" in str(shown(weir))
    assert "sesame" not in weir.log()
    long = "select " + ", ".join("a%d" % n for n in range(1000))
    client.query(long)
    prepare(client, "have" + long, "long")
    assert all(len(text) <= 1003 for text in shown(weir))
