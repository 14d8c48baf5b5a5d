"""Reads on standbys of real servers: freshness, and read-only transactions."""
import pytest

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
    """Host traps 61, 69 and 77. A standby that replays nothing gets no readers after a second; an idle primary takes none out."""
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
    weir.wait_log("no primary")
    for _ in range(20):
        assert readers(weir) == {"n2", "n3"}


