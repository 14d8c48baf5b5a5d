"""Hosts with roles as an operator sees and steers them: SHOW HOSTS, SHOW POOLS, DISABLE HOST, DRAIN HOST and ENABLE HOST."""
import re

import psycopg2
import pytest

from support import messages as m
from support.live import NEVER, ended_with
from support.roles import Roles
from support.takeover import Replaced
from support.until import until
from support.wire import LoginRefused


@pytest.fixture
def stage(scene):
    return Roles(scene)


def test_hosts_and_pools_are_shown(stage):
    client = stage.weir.client()
    assert client.query("BEGIN").status == "T"
    row = stage.wait_host(0, role="primary", state="up", used=1, timeline=1, position="0/5000000", errors=0,
                          why="asked: not in recovery, timeline 1, position 0/5000000")
    assert row["port"] == stage.fakes[0].port and row["last_check"] and row["last_change"]
    row = stage.wait_host(2, role="standby", state="up", used=0, connections=0, timeline=1)
    assert "in recovery" in row["why"]
    pools = stage.pools("p0")
    assert {host: pool["role"] for host, pool in pools.items() if host} == {stage.keys[0]: "primary"}
    assert pools[stage.keys[0]]["sv_active"] == 1
    (row,) = [row for row in stage.weir.show("CLIENTS") if row["database"] == "p0"]
    assert (row["host"], row["target_session_attrs"]) == (stage.keys[0], "primary")
    (row,) = [row for row in stage.weir.show("SERVERS") if row["link"]]
    assert (row["host"], row["target_session_attrs"]) == (stage.keys[0], None)


def test_hosts_without_roles_have_none(scene):
    fake = scene.mini()
    weir = scene.weir(fake, show_extra_columns=1)
    assert weir.client().query("x").value == "x"
    (row,) = weir.show("HOSTS")
    assert (row["role"], row["state"], row["last_check"], row["why"]) == (None, "up", None, None)
    assert {(row["host"], row["role"]) for row in weir.show("POOLS")} == {(None, None)}


def test_states_of_hosts(stage):
    """Host trap 10: another cluster."""
    stage.weir.client().query("x")
    for number in range(3):
        stage.wait_host(number, state="up")
    stage.fakes[1].stop_listening()
    stage.fakes[1].drop_all()
    row = stage.wait_host(1, state="down", role="unknown")
    assert row["errors"] > 0 and "refused" in row["why"]
    stage.fakes[2].system = "7001"
    stage.wait_host(2, state="other cluster", role="unknown")
    stage.fakes[2].system = "7000"
    stage.wait_host(2, state="up", role="standby")


def test_old_evidence_of_a_silent_host(stage):
    """Host trap 3: without an answer a host is the primary for two periods at most."""
    client = stage.weir.client()
    client.query("x")
    stage.fakes[0].is_silent = True
    stage.wait_host(0, state="stale", role="unknown")
    client.send(m.query("held"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    assert "held" not in [sql for _, sql in stage.fakes[0].queries]
    stage.fakes[0].is_silent = False
    stage.fakes[0].happened()
    assert client.result().value == "held"


# --- DISABLE HOST, ENABLE HOST and DRAIN HOST

def closed(stage, number, state="disabled"):
    """No connection of a client is left at the host."""
    stage.wait_host(number, state=state, connections=0, used=0)


def test_disabled_host_gets_no_new_transaction(stage):
    """Host trap 78."""
    clients = stage.readers(6)
    for number, client in enumerate(clients):
        assert client.query("BEGIN").status == "T"
        client.query("in %d" % number)
    at_first = [number for number in range(6) if 1 in stage.served_by("in %d" % number)]
    assert at_first and len(at_first) < 6
    assert stage.weir.admin("DISABLE HOST " + stage.keys[1]) == "DISABLE"
    assert stage.host(1)["state"] == "disabled"
    # transactions go on where they are
    for number, client in enumerate(clients):
        client.query("later %d" % number)
        assert stage.served_by("later %d" % number) == stage.served_by("in %d" % number)
        client.query("COMMIT")
    closed(stage, 1)
    for number, client in enumerate(clients + [stage.weir.client(database="reads")]):
        client.query("after %d" % number)
        assert stage.served_by("after %d" % number) == [2]
    stage.weir.admin("RELOAD")
    clients[0].query("reloaded")
    assert stage.served_by("reloaded") == [2] and stage.host(1)["state"] == "disabled"
    # the other one, and no host is left
    stage.weir.admin("DISABLE HOST 127.0.0.4")
    closed(stage, 2)
    clients[0].send(m.query("held"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    (wait,) = stage.weir.show("WAITS")
    assert wait["waits_for"] == "target_session_attrs"
    assert stage.keys[1] + ": standby, disabled" in wait["reason"]
    assert stage.weir.admin("ENABLE HOST 127.0.0.3") == "ENABLE"
    assert clients[0].result().value == "held"
    assert stage.served_by("held") == [1]
    stage.wait_host(1, state="up")
    stage.weir.wait_log("WARNING host %s is disabled, until ENABLE HOST" % stage.keys[1])
    stage.weir.wait_log("WARNING host %s is enabled" % stage.keys[1])


def test_disabled_primary_holds_writers(stage):
    client = stage.weir.client()
    assert client.query("one").value == "one"
    stage.weir.admin("DISABLE HOST 127.0.0.2")
    closed(stage, 0)
    client.send(m.query("two"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    assert stage.keys[0] + ": primary, disabled" in stage.weir.show("WAITS")[0]["reason"]
    # a switchover in the meantime
    stage.fakes[0].become("standby")
    stage.fakes[1].become("primary", timeline=2)
    assert client.result().value == "two"
    assert stage.served_by("two") == [1]


@pytest.mark.parametrize("balance", ("round-robin", "disable"))
def test_disabled_host_of_a_database_without_roles(scene, balance):
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    target = "host=127.0.0.2,127.0.0.3 port=%d dbname=p0 load_balance_hosts=%s" % (fakes[0].port, balance)
    weir = scene.weir(target, pool_mode="transaction", default_pool_size=4, server_idle_timeout=NEVER, show_extra_columns=1)
    clients = [weir.client() for _ in range(4)]
    weir.admin("DISABLE HOST 127.0.0.2")
    for client in clients:
        assert client.query("BEGIN").status == "T"
    assert not any(sql == "BEGIN" for _, sql in fakes[0].queries)
    weir.admin("DISABLE HOST 127.0.0.3")
    for client in clients[1:]:
        client.query("COMMIT")
    clients[1].send(m.query("held"))
    weir.wait_pool("p0", cl_waiting=1, held_by="target_session_attrs", sv_active=1, sv_idle=0)
    (wait,) = weir.show("WAITS")
    assert wait["reason"] == "an administrator has disabled each host of the database (DISABLE HOST)"
    assert clients[0].query("goes on").value == "goes on"
    weir.admin("ENABLE HOST 127.0.0.2")
    assert clients[1].result().value == "held"
    assert [sql for _, sql in fakes[0].queries if sql == "held"]
    assert {row["host"].partition(":")[0]: row["state"] for row in weir.show("HOSTS")} == {"127.0.0.2": "up", "127.0.0.3": "disabled"}


def test_host_stays_disabled_while_no_database_lists_it(stage):
    stage.weir.client(database="reads").query("one")
    stage.weir.admin("DISABLE HOST 127.0.0.4")
    before = dict(stage.weir.databases)
    for name in ("p0", "reads", "plain"):
        stage.weir.databases[name] = before[name].replace(",127.0.0.4", "")
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    assert stage.host(2)["state"] == "disabled"
    stage.weir.databases.update(before)
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    assert stage.host(2)["state"] == "disabled"
    stage.weir.databases = {"p1": "host=127.0.0.2 port=%d" % stage.fakes[0].port}
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    assert stage.weir.admin("ENABLE HOST " + stage.keys[2]) == "ENABLE"
    assert "disabled" not in [row["state"] for row in stage.weir.show("HOSTS")]


@pytest.mark.parametrize("command", ("DISABLE HOST", "ENABLE HOST", "DRAIN HOST"))
def test_unknown_host(stage, command):
    for name in ("127.0.0.9", "127.0.0.2:1", "127.0.0.", "127.0.0.2:", ":"):
        with pytest.raises(psycopg2.Error, match="no such host: " + re.escape(name)):
            stage.weir.admin("%s '%s'" % (command, name))


def test_database_with_the_name_host(scene):
    weir = scene.weir({"host": scene.mini(), "p0": scene.mini()})
    weir.admin("DISABLE host")
    assert weir.connect().refused(user="app", database="host")["M"] == 'database "host" is disabled'
    weir.admin("ENABLE host")
    assert weir.client(database="host").query("x").value == "x"


def test_drained_host_moves_clients(stage):
    """In a database with roles and several hosts no client that can go elsewhere ends."""
    clients = stage.readers(6)
    for number, client in enumerate(clients):
        assert client.query("BEGIN").status == "T"
    assert stage.weir.admin("DRAIN HOST 127.0.0.3") == "DRAIN"
    stage.wait_host(1, state="draining")
    for number, client in enumerate(clients):
        assert client.query("COMMIT").status == "I"
    closed(stage, 1, "draining")
    for number, client in enumerate(clients + [stage.weir.client(database="reads")]):
        client.query("after %d" % number)
        assert stage.served_by("after %d" % number) == [2]
    assert stage.weir.admin("DRAIN HOST 127.0.0.3 STOP") == "DRAIN"
    stage.weir.admin("DISABLE HOST 127.0.0.4")
    clients[0].query("back")
    assert stage.served_by("back") == [1]
    stage.weir.admin("DRAIN HOST " + stage.keys[1])
    stage.weir.admin("ENABLE HOST 127.0.0.3")
    assert not stage.weir.show("DRAINS")
    stage.wait_host(1, state="up")


def test_drained_host_ends_clients_of_session_mode(scene):
    stage = Roles(scene, pool_mode="session")
    stays, leaves = stage.weir.client(database="reads"), stage.weir.client()
    assert stays.query("x").value == "x"
    assert leaves.query("BEGIN").status == "T"
    stage.weir.admin("DRAIN HOST 127.0.0.2")
    assert leaves.query("y").value == "y"
    assert leaves.query("COMMIT").status == "I"
    ended_with(leaves, "terminating connection due to administrator command (DRAIN)", "57P01")
    closed(stage, 0, "draining")
    assert stays.query("z").value == "z"


# --- online restart

def test_hosts_survive_an_online_restart(scene):
    """The evidence of the hosts, and the words of an administrator."""
    stage = Roles(scene, kind=Replaced)
    stage.fakes[2].become("primary", timeline=2)
    stage.fakes[0].become("standby")
    busy, idle, held = stage.weir.client(), stage.weir.client(), stage.weir.client(database="plain", options="-c pgweir.target_session_attrs=primary")
    assert busy.query("BEGIN").status == "T"
    assert idle.query("idle").value == "idle" and held.query("own").value == "own"
    assert stage.served_by("own") == [2]
    stage.wait_host(2, role="primary", timeline=2)
    # a primary of the past
    stage.fakes[2].stop_listening()
    stage.weir.admin("DISABLE HOST 127.0.0.3")
    before = stage.host(2)
    stage.weir.replace()
    assert stage.host(1)["state"] == "disabled"
    after = stage.host(2)
    assert after["timeline"] == before["timeline"] == 2 and after["role_changes"] >= before["role_changes"]
    assert busy.query("goes on").value == "goes on"
    assert busy.query("COMMIT").status == "I"


def test_own_role_survives_an_online_restart(scene):
    stage = Roles(scene, kind=Replaced)
    client = stage.weir.client(database="plain", options="-c pgweir.target_session_attrs=primary")
    assert client.query("one").value == "one"
    waiting = stage.weir.client(database="plain", options="-c pgweir.target_session_attrs=primary")
    stage.weir.admin("DISABLE HOST 127.0.0.2")
    closed(stage, 0)
    waiting.send(m.query("held"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    stage.weir.replace()
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    stage.weir.admin("ENABLE HOST 127.0.0.2")
    assert waiting.result().value == "held"
    for number in range(10):
        client.query("later %d" % number)
        assert stage.served_by("later %d" % number) == [0]
    assert stage.served_by("held") == [0]
    (row,) = {(row["target_session_attrs"], row["host"]) for row in stage.weir.show("CLIENTS") if row["database"] == "plain"}
    assert row == ("primary", stage.keys[0])


# --- the ends of connections

def test_connections_to_a_primary_of_the_past_end(stage):
    """Host trap 4. In the middle of a transaction, too: its changes would be lost."""
    client = stage.weir.client()
    assert client.query("BEGIN").status == "T"
    # the higher timeline decides while both say that they are the primary
    stage.fakes[1].become("primary", timeline=2)
    stage.wait_host(1, role="primary")
    ended_with(client, "the connection to the server was lost, and the transaction was rolled back", "57P01")
    stage.weir.wait_log("@%s closing because: terminating connection because another host is the primary now" % stage.keys[0])
    again = stage.weir.client()
    assert again.query("x").value == "x"
    assert stage.served_by("x") == [1]


def test_nonsense_for_a_role(stage):
    """The connection ends, and the host is asked again."""
    client = stage.weir.client()
    client.query("x")
    stage.wait_host(2, state="up", role="standby")
    stage.fakes[2].system = "nonsense"
    stage.weir.wait_log("closing because: the role of the host cannot be read: the answer to the question for the role is malformed")
    stage.fakes[2].system = "7000"
    stage.wait_host(2, role="standby", state="up", why="asked: in recovery, timeline 1, position 0/5000000")
    assert client.query("y").value == "y"


def test_watchers_end_with_the_roles(stage):
    client = stage.weir.client()
    assert client.query("x").value == "x"
    stage.wait_host(1, state="up")
    stage.weir.databases = {"p0": stage.weir.databases["plain"]}
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    stage.weir.wait_log("closing because: the role of the host is not needed any more", times=3)
    assert {row["role"] for row in stage.weir.show("HOSTS")} == {None}
    assert client.query("y").value == "y"


# --- RELOAD

def reload(stage, **databases):
    """Changes entries; None removes one."""
    for name, target in databases.items():
        stage.weir.databases[name] = target
        if target is None:
            del stage.weir.databases[name]
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")


def test_roles_are_known_over_a_reload(stage):
    """Host trap 84."""
    client, busy = stage.weir.client(), stage.weir.client()
    assert busy.query("BEGIN").status == "T" and client.query("x").value == "x"
    stage.wait_host(2, state="up")
    before = [stage.host(number) for number in range(3)]
    hosts = stage.weir.databases["p0"]
    reload(stage, p0=hosts.replace("127.0.0.2,127.0.0.3", "127.0.0.3,127.0.0.2"))
    assert client.query("y").value == "y"
    assert busy.query("z").value == "z" and busy.query("COMMIT").status == "I"
    for number, row in enumerate(before):
        assert stage.host(number)["role_changes"] == row["role_changes"] == 1 and stage.host(number)["role"] == row["role"]
    assert "no primary" not in stage.weir.log()


def test_waiting_client_gets_a_host_that_a_reload_adds(stage):
    """Host traps 8 and 24: without a primary, clients wait, although all hosts are standbys."""
    hosts = stage.weir.databases["p0"]
    reload(stage, p0=hosts.replace("127.0.0.2,", ""), reads=None, plain=None)
    client = stage.weir.connect()
    client.send(m.startup(user="app", database="p0"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    reload(stage, p0=hosts)
    client.finish_login("app")
    assert client.query("x").value == "x"
    assert stage.served_by("x") == [0]


def test_host_that_a_reload_removes(stage):
    """Transactions go on there, and no other one begins."""
    clients = stage.readers(6)
    for number, client in enumerate(clients):
        assert client.query("BEGIN").status == "T"
        client.query("in %d" % number)
    reload(stage, reads=stage.weir.databases["reads"].replace("127.0.0.3,", ""))
    for number, client in enumerate(clients):
        client.query("goes on %d" % number)
        assert stage.served_by("goes on %d" % number) == stage.served_by("in %d" % number)
        assert client.query("COMMIT").status == "I"
        client.query("later %d" % number)
        assert stage.served_by("later %d" % number) == [2]


def test_reload_changes_the_role(stage):
    client = stage.weir.client()
    assert client.query("x").value == "x"
    stage.wait_host(1, state="up")
    target = stage.weir.databases["p0"]
    reload(stage, p0=target.replace("=primary", "=standby"))
    assert client.query("y").value == "y"
    assert stage.served_by("y") in ([1], [2])
    reload(stage, p0=target.replace(" target_session_attrs=primary", ""))
    assert client.query("z").value == "z"
    reload(stage, p0=target)
    assert client.query("again").value == "again"
    assert stage.served_by("again") == [0]


def test_reload_without_roles_serves_waiting_clients(stage):
    stage.fakes[0].become("standby")
    client, login = stage.weir.connect(), stage.weir.client(database="plain")
    client.send(m.startup(user="app", database="p0"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    reload(stage, p0=stage.weir.databases["plain"], reads=None)
    client.finish_login("app")
    assert client.query("x").value == "x" and login.query("y").value == "y"


def test_reload_removes_the_database_of_a_waiting_client(stage):
    stage.fakes[0].become("standby")
    client = stage.weir.connect()
    client.send(m.startup(user="app", database="p0"))
    until(lambda: stage.weir.show("WAITS"), "the client waits")
    reload(stage, p0=None)
    with pytest.raises(LoginRefused, match="database removed"):
        client.finish_login("app")
    # hosts of other databases are still asked
    assert stage.weir.client(database="reads").query("x").value == "x"
