"""Traps of hosts with roles that only real servers prove; the servers serve all scenes, so the scene of the promotion is the last one."""
import os
import signal

import pytest

from support import messages as m
from support.nodes import Nodes, freeze, send
from support.until import until

COUNT = "SELECT count(*) FROM t"
NODE = "SELECT current_setting('weir.node')"
STATE = "SELECT concat_ws(' ', current_setting('app.a'), current_user, count(*)) FROM here"


@pytest.fixture(scope="module", name="nodes")
def make_nodes(worker_directory, memory_directory):
    path = os.path.join(worker_directory, "host_traps")
    os.mkdir(path)
    nodes = Nodes(path, memory_directory)
    try:
        for node in nodes.nodes:
            with open(node.data + "/postgresql.conf", "a", encoding="utf-8") as f:
                f.write("weir.node = '%s'\n" % node.name)
            node.execute("SELECT pg_reload_conf()")
        nodes.primary.execute("CREATE TABLE t (i int); GRANT ALL ON t TO app; CREATE ROLE acts; GRANT acts TO app; CREATE SCHEMA other AUTHORIZATION acts; "
                              "CREATE TABLE other.here (); GRANT ALL ON other.here TO acts", database="p0")
        nodes.wait_replayed()
        yield nodes
    finally:
        nodes.take_down()


def weir_of(scene, nodes, **more):
    return scene.weir({"p0": nodes.target("p0", target_session_attrs="primary", **more)}, pool_mode="transaction", server_login_retry=0,
                      session_state="full")


def read(client, text):
    """In a read-only transaction: the answer, and the node."""
    client.query("BEGIN READ ONLY")
    value, node = client.query(text).value, client.query(NODE).value
    assert client.query("COMMIT").status == "I"
    return value, node


def test_session_state_on_two_servers(scene, nodes):
    """Host trap 55. A setting, search_path, role and prepared statements follow the client to a standby; a temporary table keeps it at the primary."""
    client = weir_of(scene, nodes, reads="transaction").client()
    for text in ("SET app.a = 'x'", "SET search_path = other", "SET ROLE acts"):
        assert client.query(text).tags == ["SET"]
    client.send(m.parse(STATE, "n"), m.sync())
    client.result()

    def is_at_a_standby():
        client.query("BEGIN READ ONLY")
        client.send(m.bind("n"), m.execute(), m.sync())
        assert client.result().value == client.query(STATE).value == "x acts 0"
        node = client.query(NODE).value
        client.query("COMMIT")
        return node != nodes.primary.name
    until(is_at_a_standby, "the client reads from a standby")
    client.query("RESET ROLE")
    client.query("CREATE TEMPORARY TABLE own ()")
    for _ in range(20):
        assert read(client, "SELECT count(*) FROM own") == ("0", nodes.primary.name)


def position(weir):
    return [row["position"] for row in weir.show("HOSTS") if row["role"] == "primary"]


def test_commit_that_is_not_flushed(scene, nodes):
    """Host trap 68. synchronous_commit = off: the standbys have replayed all that the primary has flushed, but not the write."""
    weir = weir_of(scene, nodes, reads="transaction")
    client = weir.client()
    until(lambda: read(client, COUNT)[1] != nodes.primary.name, "the client reads from a standby")
    walwriter = nodes.primary.process_titled("walwriter")
    freeze(walwriter)
    try:
        client.query("SET synchronous_commit = off")
        for number in range(1, 4):
            before = position(weir)
            client.query("INSERT INTO t VALUES (1)")
            until(lambda before=before: position(weir) != before, "the primary has told its position")
            for _ in range(10):
                assert read(client, COUNT)[0] == str(number)
    finally:
        send(signal.SIGCONT, walwriter)


def test_promotion_without_a_checkpoint(scene, nodes):
    """Host traps 5 and 34. The control file has the old timeline for longer. A client that listens ends with 57P01."""
    weir = weir_of(scene, nodes)
    client, listener = weir.client(), weir.client()
    listener.query("LISTEN news")
    assert client.query(COUNT).value == str(nodes.primary.value(COUNT, database="p0"))
    old, new = nodes.primary, nodes.standbys[0]
    freeze(new.process_titled("checkpointer"))
    nodes.stop(old)
    nodes.promote(new, follow=False)
    client.send(m.query("INSERT INTO t VALUES (2)"))
    assert client.result().tags == ["INSERT 0 1"]
    until(lambda: [row["timeline"] for row in weir.show("HOSTS") if row["role"] == "primary"] == [2], "the new timeline")
    assert new.value("SELECT timeline_id FROM pg_control_checkpoint()") == 1
    assert m.read_error(listener.drain()[-1].body)["C"] == "57P01"
