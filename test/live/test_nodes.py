"""Scenes of support/nodes.py and support/patroni.py themselves, and of pgweir in front of several servers."""
import os
import signal
import subprocess
import sys

import pytest

from support.nodes import is_gone
from support.until import until

TABLE = "CREATE TABLE t (i int)"
ADD = "INSERT INTO t VALUES (1)"
COUNT = "SELECT count(*) FROM t"


@pytest.fixture
def nodes(scene):
    cluster = scene.nodes()
    cluster.primary.execute(TABLE, database="p0")
    return cluster


def counts(cluster):
    return [node.value(COUNT, database="p0") for node in cluster.nodes]


def test_a_standby_takes_over(nodes):
    first, second, third = nodes.nodes
    nodes.primary.execute(ADD, database="p0")
    nodes.wait_replayed()
    nodes.kill9(first)
    nodes.promote(second)
    assert (nodes.primary, nodes.standbys) == (second, [third])
    nodes.primary.execute(ADD, database="p0")
    nodes.rejoin(first)
    nodes.wait_replayed()
    assert nodes.roles() == {"n1": "standby", "n2": "primary", "n3": "standby"}
    assert counts(nodes) == [2, 2, 2]
    nodes.switchover(first)
    nodes.rejoin(third, fresh=True)
    assert nodes.roles() == {"n1": "primary", "n2": "standby", "n3": "standby"}


def test_replay_is_frozen_while_the_standby_answers(nodes):
    """Host trap 67."""
    _, frozen, other = nodes.nodes
    nodes.wait_replayed()
    nodes.freeze_replay(frozen)
    nodes.primary.execute(ADD, database="p0")
    nodes.wait_replayed(other)
    assert counts(nodes) == [1, 0, 1]
    nodes.thaw_replay(frozen)
    nodes.wait_replayed()
    assert counts(nodes) == [1, 1, 1]


def test_a_delayed_standby_falls_back(nodes):
    _, delayed, other = nodes.nodes
    nodes.wait_replayed()
    nodes.apply_delay(delayed, 3600000)
    nodes.primary.execute(ADD, database="p0")
    nodes.wait_replayed(other)
    assert counts(nodes) == [1, 0, 1]
    nodes.apply_delay(delayed, 0)
    nodes.wait_replayed()


def test_a_paused_primary_returns_as_a_second_one(nodes):
    first, second, _ = nodes.nodes
    nodes.pause(first)
    nodes.promote(second)
    nodes.resume(first)
    assert nodes.roles() == {"n1": "primary", "n2": "primary", "n3": "standby"}
    first.execute(ADD, database="p0")
    nodes.rejoin(first)
    assert counts(nodes) == [0, 0, 0]


def test_servers_end_with_the_test_process(directory, memory_directory):
    """Even if that is killed."""
    program = ("import sys\nfrom support.nodes import Nodes\nnodes = Nodes(*sys.argv[1:])\n"
               "print(*[node.pid for node in nodes.nodes], flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", program, directory, memory_directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd=os.path.dirname(os.path.dirname(__file__))) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert len(pids) == 3
    until(lambda: all(map(is_gone, pids)), "the servers end")


def test_the_next_host_of_the_list_after_a_failure(scene):
    """Today's list of hosts: pgweir knows no roles, and takes the first server that it can reach."""
    nodes = scene.nodes(standbys=1, one_port=True)
    weir = scene.weir({"p0": nodes.target("p0", load_balance_hosts="disable")}, server_login_retry=0)
    client = weir.client()
    assert client.query("SELECT pg_is_in_recovery()").value == "f"
    nodes.wait_replayed()
    nodes.kill9(nodes.primary)
    nodes.promote(nodes.standbys[0])
    client = weir.client()
    assert client.query("CREATE TABLE t (i int)").tags == ["CREATE TABLE"]


def test_patroni_chooses_another_leader(scene):
    patroni = scene.patroni()
    first = patroni.leader()
    first.execute(TABLE, database="p0")
    patroni.wait_replayed()
    second, third = patroni.standbys
    patroni.switchover(first, second)
    assert patroni.wait_leader(former=first) is second
    patroni.heal()
    patroni.kill_postgres(second)
    assert patroni.wait_leader(former=second) in (first, third)
    patroni.heal()
    leader = patroni.leader()
    patroni.kill_machine(leader)
    patroni.wait_leader(former=leader).execute(ADD, database="p0")
    patroni.stop_etcd()
    patroni.heal()
    patroni.wait_replayed()
    assert counts(patroni) == [1, 1, 1]
