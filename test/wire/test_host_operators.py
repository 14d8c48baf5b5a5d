"""Hosts with roles as an operator sees and steers them: SHOW HOSTS, SHOW POOLS, DISABLE HOST, DRAIN HOST and ENABLE HOST."""
import pytest

from support.roles import Roles


@pytest.fixture
def stage(scene):
    return Roles(scene)


def test_hosts_and_pools_are_shown(stage):
    client = stage.weir.client()
    assert client.query("BEGIN").status == "T"
    row = stage.wait_host(0, role="primary", state="up", used=1, timeline=1, position="0/5000000", errors=0,
                          why="asked: not in recovery, timeline 1, position 0/5000000")
    assert row["port"] == stage.fakes[0].port and row["last_check"] and row["last_change"]
    row = stage.wait_host(2, role="standby", state="up", used=0, connections=0)
    assert row["timeline"] is None and "in recovery" in row["why"]
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
