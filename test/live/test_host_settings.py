"""The settings of one database, which its owner chooses, do not change what pgweir knows about the hosts."""
import pytest

from support.until import until

# What the owner of p1 sets, and how the watcher in p1 would fail
SETTINGS = {
    "default_transaction_isolation": "serializable",    # a standby answers nothing
    "default_transaction_read_only": "on",              # no host is for writers
    "idle_session_timeout": "300ms",                    # the watcher ends between two questions
    "statement_timeout": "1ms",
    "search_path": "evil, pg_catalog",
    "role": "rival",
}


@pytest.fixture(name="nodes")
def begin(scene):
    nodes = scene.nodes(standbys=1)
    nodes.primary.execute("CREATE TABLE t (i int); GRANT ALL ON t TO PUBLIC", database="p0")
    # rival may see nothing of pg_stat_wal_receiver
    nodes.primary.execute("GRANT pg_read_all_stats, rival TO app")
    nodes.primary.execute("CREATE SCHEMA evil; CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';"
                          "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);"
                          "GRANT USAGE ON SCHEMA evil TO PUBLIC", database="p1")
    nodes.wait_replayed()
    return nodes


def weir_of(scene, nodes, attrs):
    # the watchers log in to the first database
    return scene.weir({"p1": nodes.target("p1", target_session_attrs="primary"), "p0": nodes.target("p0", target_session_attrs=attrs)},
                      pool_mode="transaction", server_login_retry=0, host_check_user="app", show_extra_columns=1)


def hosts(weir):
    """{port: (role, state, errors)}"""
    return {row["port"]: (row["role"], row["state"], row["errors"]) for row in weir.show("HOSTS")}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_another_database(scene, nodes, name):
    nodes.primary.execute("ALTER DATABASE p1 SET %s = %s" % (name, SETTINGS[name] if name == "search_path" else "'%s'" % SETTINGS[name]))
    nodes.wait_replayed()
    primary, standby = nodes.nodes
    weir = weir_of(scene, nodes, "read-write")
    writer = weir.client()
    assert writer.query("INSERT INTO t VALUES (1)").tags == ["INSERT 0 1"]
    until(lambda: hosts(weir)[standby.port][0] == "standby")
    wanted = {primary.port: ("primary", "up", 0), standby.port: ("standby", "up", 0)}
    until(lambda: hosts(weir) == wanted)
    checks = [row["last_check"] for row in weir.show("HOSTS")]
    until(lambda: all(row["last_check"] > before for row, before in zip(weir.show("HOSTS"), checks)), "each is asked again")
    assert hosts(weir) == wanted
    assert not [line for line in weir.log().splitlines() if "role cannot log in" in line or ", was primary" in line or ", was standby" in line]


def test_read_only_default_of_the_host_counts(scene, nodes):
    nodes.primary.set("default_transaction_read_only", "on")
    weir = weir_of(scene, nodes, "read-only")
    until(lambda: hosts(weir).get(nodes.primary.port, [None])[0] == "primary" or not weir.client().close())
    nodes.stop(nodes.nodes[1])
    client = weir.client()
    assert client.query("SELECT setting FROM pg_settings WHERE name = 'cluster_name'").value == "n1"
