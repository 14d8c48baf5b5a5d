"""Standbys that follow the primary in all the ways there are, and servers in recovery that do not."""
import pytest

from support.service import Service
from support.takeover import Replaced
from support.until import DEADLINE, until

WHERE = "SELECT setting FROM pg_settings WHERE name = 'cluster_name'"
COUNT = "SELECT count(*) FROM t"
ADD = "INSERT INTO t SELECT repeat('x', 500) FROM generate_series(1, 2000)"


def begin(scene, **more):
    nodes = scene.nodes(**more)
    nodes.primary.execute("CREATE TABLE t (x text); GRANT ALL ON t TO PUBLIC", database="p0")
    nodes.primary.execute("GRANT pg_read_all_stats TO app")
    nodes.wait_replayed()
    return nodes


def weir_of(scene, nodes, kind=None, **more):
    more = {"target_session_attrs": "prefer-standby", "load_balance_hosts": "round-robin", "read_your_writes": "off", **more}
    return scene.weir({"p0": nodes.target("p0", **more)}, pool_mode="transaction", server_login_retry=0, show_extra_columns=1,
                      **({"kind": kind} if kind else {}))


def states(weir):
    """{port: state}"""
    return {row["port"]: row["state"] for row in weir.show("HOSTS")}


def readers(weir, count=8):
    """The names of the servers that new clients read from."""
    names = set()
    for _ in range(count):
        client = weir.client()
        names.add(client.query(WHERE).value)
        client.close()
    return names


@pytest.mark.parametrize("lead", ["beyond", "below"])
@pytest.mark.parametrize("max_lag", [0, 10])
def test_a_former_primary_with_the_timeline_of_the_primary_is_not_read(scene, lead, max_lag):
    """Both have written since they were one cluster. Its position is beyond the primary's, or below it."""
    nodes = begin(scene, standbys=1)
    former, other = nodes.nodes
    nodes.stop(other)
    former.execute(ADD if lead == "beyond" else "INSERT INTO t VALUES ('lost')", database="p0")
    nodes.stop(former)
    nodes.restart_as_primary(other)
    if lead == "below":
        other.execute(ADD, database="p0")
    nodes.start_alone(former)
    weir = weir_of(scene, nodes, max_lag=max_lag)
    weir.client()
    until(lambda: states(weir) == {other.port: "up", former.port: "diverged" if lead == "beyond" else "not following"})
    assert readers(weir) == {"n2"}
    warning = "host 127.0.0.1:%d is a standby that does not follow the primary, and is not read" % former.port
    until(lambda: warning in weir.log(), "the warning", deadline=3 * DEADLINE)
    nodes.rejoin(former, fresh=True)
    until(lambda: readers(weir) == {"n1"}, "the standby is read")
    weir.wait_log("host 127.0.0.1:%d follows the primary again" % former.port)


def test_a_former_primary_with_a_lower_timeline_is_not_read(scene):
    """It has written beyond the place where the timeline of the primary begins."""
    nodes = begin(scene, standbys=1)
    former, other = nodes.nodes
    nodes.promote(other)
    former.execute(ADD, database="p0")
    nodes.start_alone(former)
    weir = weir_of(scene, nodes)
    weir.client()
    until(lambda: states(weir) == {other.port: "up", former.port: "diverged"})
    assert readers(weir) == {"n2"}
    other.execute(ADD, database="p0")
    other.execute(ADD, database="p0")
    until(lambda: states(weir) == {other.port: "up", former.port: "diverged"})
    assert readers(weir) == {"n2"}


def test_a_standby_that_tries_to_follow_with_other_wal_is_not_read(scene):
    """Its WAL receiver connects again and again, and ends at the first record that does not fit."""
    nodes = begin(scene, standbys=1)
    former, other = nodes.nodes
    nodes.stop(other)
    former.execute("INSERT INTO t VALUES ('lost')", database="p0")
    nodes.stop(former)
    nodes.restart_as_primary(other)
    other.execute(ADD, database="p0")
    nodes.start_alone(former)
    former.set("primary_conninfo", nodes._conninfo(other))          # pylint: disable=protected-access
    until(lambda: "started streaming" in former.log(), "it has tried")
    weir = weir_of(scene, nodes)
    weir.client()
    until(lambda: states(weir) == {other.port: "up", former.port: "not following"})
    for _ in range(20):
        assert readers(weir) == {"n2"}


def test_a_standby_of_an_isolated_primary_is_not_read(scene):
    """n1 lives on as a primary, with the timeline of the new one, and feeds n3. pgweir cannot ask n1."""
    nodes = begin(scene)
    former, primary, standby = nodes.nodes
    with open(former.data + "/pg_hba.conf", "w", encoding="utf-8") as f:
        f.write("host all,replication postgres 127.0.0.1/32 trust\n")
    former.execute("SELECT pg_reload_conf()")
    nodes.stop(primary)
    former.execute("INSERT INTO t VALUES ('lost')", database="p0")
    nodes.restart_as_primary(primary)
    primary.execute(ADD, database="p0")
    weir = weir_of(scene, nodes)
    weir.client()
    until(lambda: states(weir)[standby.port] == "not following")
    (row,) = [row for row in weir.show("HOSTS") if row["port"] == standby.port]
    assert row["why"] == "it receives from 127.0.0.1:%d, which is not known to follow the primary" % former.port
    assert readers(weir) == {"n2"}
    assert nodes.is_streaming(standby, former)
    nodes.stop(former)
    nodes.rejoin(standby, fresh=True)
    until(lambda: readers(weir) == {"n3"}, "the standby is read")


def test_a_former_primary_that_has_crashed_is_not_read(scene):
    """It replays its own WAL before it answers, and then stands still below the position of the primary."""
    nodes = begin(scene, standbys=1)
    former, primary = nodes.nodes
    nodes.stop(primary)
    former.execute("CHECKPOINT")
    for _ in range(3):
        former.execute(ADD, database="p0")
    nodes.kill9(former)
    nodes.restart_as_primary(primary)
    for _ in range(5):
        primary.execute(ADD, database="p0")
    weir = weir_of(scene, nodes)
    weir.client()
    nodes.start_alone(former)
    until(lambda: states(weir) == {primary.port: "up", former.port: "not following"})
    for _ in range(3):
        primary.execute(ADD, database="p0")
        assert readers(weir) == {"n2"}
    assert former.value(COUNT, database="p0") == 6000


def test_standbys_of_all_kinds_are_read(scene):
    """The primary is idle. n2 has a paused replay, n3 is fed by n2's sibling n4, which follows the primary."""
    nodes = begin(scene, standbys=3)
    _, paused, cascading, other = nodes.nodes
    cascading.set("primary_conninfo", nodes._conninfo(other))       # pylint: disable=protected-access
    nodes.wait_streaming(other)
    until(lambda: nodes.is_streaming(cascading, other))
    paused.execute("SELECT pg_wal_replay_pause()")
    nodes.primary.execute("INSERT INTO t VALUES ('paused')", database="p0")
    nodes.wait_replayed(cascading, other)
    weir = weir_of(scene, nodes)
    until(lambda: readers(weir) == {"n2", "n3", "n4"}, "all standbys are read")
    assert set(states(weir).values()) == {"up"}


def test_a_standby_that_is_fed_from_an_archive_is_read(scene):
    nodes = begin(scene, standbys=1)
    primary, standby = nodes.nodes
    standby.set("restore_command", "cp %s/pg_wal/%%f %%p" % primary.data)
    standby.set("primary_conninfo", "")
    until(lambda: not nodes.is_streaming(standby, primary), "it does not stream")
    weir = weir_of(scene, nodes)
    assert readers(weir) == {"n1"}
    for _ in range(2):
        primary.execute(ADD, database="p0")
        primary.execute("SELECT pg_switch_wal()")
    until(lambda: readers(weir) == {"n2"}, "the standby is read")


def test_after_a_promotion_the_other_standby_is_read_again(scene):
    nodes = begin(scene)
    weir = weir_of(scene, nodes, target_session_attrs="standby")
    until(lambda: readers(weir) == {"n2", "n3"}, "both standbys are read")
    nodes.kill9(nodes.primary)
    nodes.promote(nodes.nodes[1])
    until(lambda: states(weir)[nodes.nodes[2].port] == "up", "the standby follows")
    assert readers(weir) == {"n3"}
    # without a primary this stays so
    nodes.kill9(nodes.primary)
    weir.wait_log("no primary")
    for _ in range(5):
        assert readers(weir) == {"n3"}


def test_an_online_restart_keeps_the_verdicts(scene):
    """There is no primary that could be compared with after it."""
    nodes = begin(scene)
    former, good, other = nodes.nodes
    nodes.stop(other)
    nodes.stop(good)
    former.execute(ADD, database="p0")
    nodes.stop(former)
    nodes.restart_as_primary(good)
    nodes.start(other)
    nodes.follow(other)
    nodes.start_alone(former)
    weir = weir_of(scene, nodes, kind=Replaced, target_session_attrs="standby")
    until(lambda: readers(weir) == {"n3"} and states(weir)[former.port] == "diverged")
    nodes.kill9(good)
    weir.wait_log("no primary")
    weir.replace()
    assert states(weir)[former.port] == "diverged"
    assert readers(weir) == {"n3"}


def test_the_verdict_on_a_server_is_not_the_verdict_on_the_next_one_at_its_address(scene):
    """During an online restart the address of a service leads to a former primary, whose position is below the primary's."""
    nodes = begin(scene)
    former, primary, standby = nodes.nodes
    nodes.stop(standby)
    nodes.stop(primary)
    former.execute("INSERT INTO t VALUES ('lost')", database="p0")
    nodes.stop(former)
    nodes.restart_as_primary(primary)
    nodes.start(standby)
    nodes.follow(standby)
    primary.execute(ADD, database="p0")
    nodes.start_alone(former)
    service = Service(scene, standby)
    weir = scene.weir({"p0": "host=127.0.0.1,127.0.0.1 port=%d,%d dbname=p0 target_session_attrs=prefer-standby read_your_writes=off" %
                       (primary.port, service.port)}, kind=Replaced, pool_mode="transaction", server_login_retry=0, show_extra_columns=1)
    until(lambda: readers(weir) == {"n3"}, "the standby is read")
    service.leads_to(former)
    weir.replace()
    until(lambda: states(weir)[service.port] == "not following")
    assert readers(weir) == {"n2"}
