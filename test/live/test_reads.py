"""Reads on standbys of real servers: freshness, and read-only transactions."""
import signal

import pytest

from support import messages as m
from support.nodes import children, freeze, send
from support.until import until

TABLE = "CREATE TABLE t (i int)"
ADD = "INSERT INTO t VALUES (1)"
COUNT = "SELECT count(*) FROM t"
WHERE = "SELECT setting FROM pg_settings WHERE name = 'cluster_name'"


@pytest.fixture
def nodes(scene):
    cluster = scene.nodes()
    cluster.primary.execute(TABLE + "; GRANT ALL ON t TO PUBLIC", database="p0")
    cluster.wait_replayed()
    return cluster


def weir_of(scene, nodes, database="p0", **options):
    return scene.weir({"p0": nodes.target(database, **options)}, pool_mode="transaction", server_login_retry=0)


def readers(weir, count=8):
    """The names of the servers that new clients read from."""
    names = set()
    for _ in range(count):
        client = weir.client()
        names.add(client.query(WHERE).value)
        client.close()
    return names


def test_max_lag(scene, nodes):
    """Host traps 61, 64, 69 and 77. A standby that replays nothing gets no readers after a second; an idle primary takes none out."""
    weir = weir_of(scene, nodes, target_session_attrs="prefer-standby", load_balance_hosts="round-robin", max_lag=1)
    _, frozen, other = nodes.nodes
    until(lambda: readers(weir) == {"n2", "n3"}, "both standbys have readers")
    nodes.freeze_replay(frozen)
    nodes.primary.execute(ADD, database="p0")
    until(lambda: readers(weir) == {"n3"}, "the frozen standby has no readers")
    nodes.thaw_replay(frozen)
    until(lambda: readers(weir) == {"n2", "n3"}, "both standbys have readers again")
    nodes.primary.execute("SELECT pg_switch_wal()")
    for _ in range(20):
        assert readers(weir) == {"n2", "n3"}
    nodes.freeze_replay(frozen)
    nodes.freeze_replay(other)
    nodes.primary.execute(ADD, database="p0")
    until(lambda: readers(weir) == {"n1"}, "the primary is the last resort")


def test_readers_stay_while_there_is_no_primary(scene, nodes):
    weir = weir_of(scene, nodes, target_session_attrs="standby", load_balance_hosts="round-robin", max_lag=1)
    until(lambda: readers(weir) == {"n2", "n3"}, "both standbys have readers")
    nodes.kill9(nodes.primary)
    until(lambda: not [row for row in weir.show("HOSTS") if row["role"] == "primary"], "the primary is known to have gone")
    for _ in range(20):
        assert readers(weir) == {"n2", "n3"}


NODE = "SELECT current_setting('weir.node')"


def named(nodes):
    """Each server tells its name in a setting that is not about the server, as far as pgweir knows."""
    for node in nodes.nodes:
        with open(node.data + "/postgresql.conf", "a", encoding="utf-8") as f:
            f.write("weir.node = '%s'\n" % node.name)
        node.execute("SELECT pg_reload_conf()")


def read(client, sql):
    """In a read-only transaction."""
    client.query("BEGIN READ ONLY")
    value = client.query(sql).value
    assert client.query("COMMIT").status == "I"
    return value


@pytest.mark.parametrize("level, seen", [("session", "1"), ("database", "1"), ("off", "0")])
def test_client_reads_its_write(scene, nodes, level, seen):
    """Host trap 73. No standby replays the write; off shows that the other levels could be stale. `database`: another connection reads it, too."""
    named(nodes)
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off", read_your_writes=level)
    client = weir.client()
    until(lambda: read(client, NODE) in ("n2", "n3"), "reads on a standby")
    for standby in nodes.standbys:
        nodes.freeze_replay(standby)
    client.query(ADD)
    for _ in range(20):
        assert read(client, COUNT) == seen
    other = weir.client()
    assert read(other, COUNT) == ("1" if level == "database" else "0")
    for standby in nodes.standbys:
        nodes.thaw_replay(standby)
    until(lambda: read(client, NODE) in ("n2", "n3"), "reads on a standby again")
    if level == "off":
        until(lambda: read(client, COUNT) == "1", "the standby has replayed the write")
    assert read(client, COUNT) == "1"


def test_no_read_is_stale_while_standbys_lag(scene, nodes):
    """Each read on whatever host sees the last write, and reads return to standbys."""
    named(nodes)
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off")
    client = weir.client()
    places = set()
    for number in range(1, 151):
        client.query(ADD)
        if number == 50:
            nodes.freeze_replay(nodes.nodes[1])
        if number == 100:
            nodes.thaw_replay(nodes.nodes[1])
        for _ in range(1 + number % 3 * 10):
            client.query("BEGIN READ ONLY")
            assert client.query(COUNT).value == str(number)
            places.add(client.query(NODE).value)
            client.query("COMMIT")
    until(lambda: read(client, NODE) in ("n2", "n3"), "reads on a standby")
    assert "n1" in places


def test_read_on_a_standby_that_hangs(scene, nodes):
    """The other standby gets it as soon as SHOW HOSTS says that the host is silent; the connections of the hanging one end."""
    named(nodes)
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off", load_balance_hosts="disable")
    client = weir.client()
    until(lambda: read(client, NODE) == "n2", "reads on the first standby")
    standby = nodes.nodes[1]
    freeze(standby.value("SELECT pid FROM pg_stat_activity WHERE usename = 'app' AND query IN (%s, 'COMMIT')", (NODE,)))
    try:
        client.query("BEGIN READ ONLY")
        client.send(m.query(NODE))
        until(lambda: [row for row in weir.show("SERVERS") if row["port"] == standby.port and row["state"] == "active"], "the standby has the read")
        freeze(standby.pid, *children(standby.pid))
        assert client.result().value == "n3"
    finally:
        send(signal.SIGCONT, standby.pid, *children(standby.pid))
    assert client.query("COMMIT").status == "I"
    assert [row["recalls"] for row in weir.show("HOSTS") if row["port"] == standby.port] == [1]


def test_archive_switch_on_an_idle_primary(scene, nodes):
    """A standby never reaches the position that the primary reports then."""
    named(nodes)
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off")
    client = weir.client()
    client.query(ADD)
    nodes.primary.execute("SELECT pg_switch_wal()")
    until(lambda: read(client, NODE) in ("n2", "n3"), "reads on a standby")
    assert read(client, COUNT) == "1"


def test_role_that_only_reads(scene, nodes):
    named(nodes)
    nodes.primary.execute("ALTER ROLE app SET default_transaction_read_only = on")
    nodes.wait_replayed()
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off")
    client = weir.client()
    until(lambda: client.query(NODE).value in ("n2", "n3"), "autocommit reads on a standby")
    assert client.query(ADD).errors[0]["C"] == "25006"
    client.query("BEGIN READ WRITE")
    assert client.query(ADD).tags == ["INSERT 0 1"]
    client.query("COMMIT")
    assert client.query(COUNT).value == "1"


def test_what_a_standby_cannot_do(scene, nodes):
    """Host traps 41 and 43. The client gets the answer of the primary."""
    nodes.primary.execute("CREATE UNLOGGED TABLE u (i int); INSERT INTO u VALUES (7); GRANT ALL ON u TO PUBLIC; CREATE FUNCTION w() RETURNS int AS "
                          "'SELECT count(*)::int FROM u' LANGUAGE sql", database="p0")
    nodes.wait_replayed()
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off")
    client = weir.client()
    assert read(client, "SELECT i FROM u") == "7"
    assert read(client, "SELECT w()") == "1"
    assert read(client, "SELECT pg_is_in_recovery()") == "f"
    assert read(client, "SELECT pg_try_advisory_xact_lock(1)") == "t"
    client.query("BEGIN READ ONLY")
    assert client.query("SELECT 1/0").errors[0]["C"] == "22012"
    assert client.query("ROLLBACK").status == "I"


SET_CTX = "CREATE FUNCTION set_ctx(k text, v text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN set_config(k, v, false); END'"


@pytest.mark.parametrize("text", ["SELECT set_ctx('shop.tenant', 'a')", "SELECT setseed(0.5)"], ids=["parameter", "seed"])
def test_read_only_transaction_that_pins(scene, nodes, text):
    """It runs on the primary, where its client can write later; behind a read on a standby it is an error."""
    named(nodes)
    nodes.primary.execute(SET_CTX, database="p0")
    nodes.wait_replayed()
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off", session_state="full")
    client = weir.client()
    until(lambda: read(client, NODE) in ("n2", "n3"), "reads on a standby")
    client.query("BEGIN READ ONLY")
    assert client.query(NODE).value in ("n2", "n3")
    assert client.query(text).errors[0]["C"] == "25001"
    client.query("ROLLBACK")
    client.query("BEGIN READ ONLY")
    assert not client.query(text).errors
    assert client.query(NODE).value == "n1"
    client.query("COMMIT")
    assert client.query(ADD).tags == ["INSERT 0 1"]
    assert len(weir.show("PINS")) == 1


def test_pin_that_appears_on_a_standby(scene, nodes):
    """One parameter too many to be restored elsewhere: the client is told, instead of being left where it cannot write."""
    named(nodes)
    weir = weir_of(scene, nodes, reads="transaction", reads_on_primary="off", session_state="full")
    client = weir.client()
    until(lambda: read(client, NODE) in ("n2", "n3"), "reads on a standby")
    client.query("BEGIN READ ONLY")
    assert client.query(NODE).value in ("n2", "n3")
    for number in range(201):
        assert not client.query("SET shop.p%d = '1'" % number).errors
    client.send(m.query("COMMIT"))
    error = m.read_error(client.drain()[-1].body)
    assert (error["S"], error["C"]) == ("FATAL", "57P01")
    assert "cannot leave a standby (parameters)" in error["M"]
