"""Addresses behind which servers change: a service that leads to another server, a service of several standbys, and a name with several addresses."""
import contextlib

import pytest

from support import messages as m
from support.nameserver import NameServer, write_resolv_conf
from support.service import Service
from support.until import until
from support.wire import Closed

ADD = "INSERT INTO t VALUES (1)"
COUNT = "SELECT count(*) FROM t"
WHERE = "SELECT setting FROM pg_settings WHERE name = 'cluster_name'"
NODE = "SELECT current_setting('weir.node')"


def begin(scene, **more):
    nodes = scene.nodes(**more)
    nodes.primary.execute("CREATE TABLE t (i int); GRANT ALL ON t TO PUBLIC", database="p0")
    nodes.primary.execute("GRANT pg_read_all_stats TO app")
    nodes.wait_replayed()
    return nodes


def weir_of(scene, database, **more):
    return scene.weir({"p0": database}, **{"pool_mode": "transaction", "server_login_retry": 0, "show_extra_columns": 1, **more})


def test_writes_follow_a_service_to_the_new_primary(scene):
    """The service leads to the old primary, which comes back as a standby, until the watcher is connected to it; then to the new one."""
    nodes = begin(scene, standbys=1)
    old, new = nodes.nodes
    service = Service(scene, old)
    weir = weir_of(scene, "host=127.0.0.1 port=%d dbname=p0 target_session_attrs=primary" % service.port)
    client = weir.client()
    assert client.query(ADD).tags == ["INSERT 0 1"]
    nodes.switchover(new)
    until(lambda: weir.show("HOSTS")[0]["role"] != "primary" and weir.show("HOSTS")[0]["state"] not in ("down", "stale"))
    service.leads_to(new)
    for _ in range(3):
        assert client.query(ADD).tags == ["INSERT 0 1"]
    assert new.value(COUNT, database="p0") == 4


@pytest.mark.parametrize("listed", ["alone", "with a standby"])
def test_writes_wait_while_a_service_leads_to_a_primary_of_the_past(scene, listed):
    """The old primary comes back as a primary, and the service leads to it again for a while."""
    nodes = begin(scene)
    old, new, standby = nodes.nodes
    service = Service(scene, old)
    ports = [service.port] if listed == "alone" else [service.port, standby.port]
    weir = weir_of(scene, "host=%s port=%s dbname=p0 target_session_attrs=primary" %
                   (",".join("127.0.0.1" for _ in ports), ",".join(map(str, ports))))
    client = weir.client()
    assert client.query(ADD).tags == ["INSERT 0 1"]
    nodes.wait_replayed()
    nodes.promote(new)
    service.leads_to(new)
    nodes.stop(old)
    assert client.query(ADD).tags == ["INSERT 0 1"]
    nodes.start(old)
    service.leads_to(old)
    nodes.stop(new)
    client.send(m.query(ADD))
    weir.wait_log("no primary: .* is a primary of the past: its timeline 1 is lower than 2")
    assert old.value(COUNT, database="p0") == 1
    nodes.start(new)
    service.leads_to(new)
    assert client.result().tags == ["INSERT 0 1"]
    assert (old.value(COUNT, database="p0"), new.value(COUNT, database="p0")) == (1, 3)


def test_connections_leave_a_primary_that_the_service_has_left(scene):
    """The old primary lives, and does not know."""
    nodes = begin(scene, standbys=1)
    old, new = nodes.nodes
    service = Service(scene, old)
    weir = weir_of(scene, "host=127.0.0.1 port=%d dbname=p0 target_session_attrs=primary" % service.port, default_pool_size=2)
    client, other = weir.client(), weir.client()
    assert client.query(ADD).tags == ["INSERT 0 1"]
    nodes.wait_replayed()
    nodes.promote(new, follow=False)
    service.leads_to(new)
    # its server is busy, so the other client needs a new connection: that tells
    client.query("BEGIN")
    client.query(ADD)
    assert other.query(ADD).tags == ["INSERT 0 1"]
    assert new.value(COUNT, database="p0") == 2
    client.send(m.query("COMMIT"))
    assert m.read_error(client.expect("E").body)["C"] == "57P01"
    assert old.value(COUNT, database="p0") == 1


@pytest.mark.parametrize("first", ["fresh", "frozen"])
def test_reads_through_a_service_of_two_standbys_see_the_writes_of_the_client(scene, first):
    """The watcher asks one of them, and new connections lead to both in turn."""
    nodes = begin(scene)
    primary, fresh, frozen = nodes.nodes
    for node in nodes.nodes:
        with open(node.data + "/postgresql.conf", "a", encoding="utf-8") as f:
            f.write("weir.node = '%s'\n" % node.name)
        node.execute("SELECT pg_reload_conf()")
    service = Service(scene, *((fresh, frozen) if first == "fresh" else (frozen, fresh)))
    weir = weir_of(scene, "host=127.0.0.1,127.0.0.1 port=%d,%d dbname=p0 reads=transaction reads_on_primary=off "
                   "read_your_writes=database" % (primary.port, service.port))

    def read(client, sql):
        client.query("BEGIN READ ONLY")
        value = client.query(sql).value
        client.query("COMMIT")
        return value
    clients = [weir.client() for _ in range(6)]
    nodes.freeze_replay(frozen)
    clients[0].query(ADD)
    places = set()
    for number in range(1, 20):
        for client in clients:
            client.query(ADD)
        # each has a server of its own
        for client in clients:
            client.query("BEGIN READ ONLY")
            assert int(client.query(COUNT).value) == 1 + number * len(clients)
        places |= {client.query(NODE).value for client in clients}
        for client in clients:
            client.query("COMMIT")
    if first == "fresh":
        until(lambda: read(clients[0], NODE) == "n2", "reads on the standby whose position is known")
    assert places <= {"n1", "n2"}


def test_each_address_of_a_name_is_a_host(scene):
    """As a headless name has it: in any order, and all servers at once."""
    nodes = begin(scene, one_port=True)
    names = NameServer()
    scene.servers.append(names)
    addresses = [node.host for node in nodes.nodes]
    names.set("shop.test", a=[addresses[1], addresses[2], addresses[0]], ttl=1)
    weir = weir_of(scene, "host=shop.test port=%d dbname=p0 target_session_attrs=primary reads=transaction reads_on_primary=off" %
                   nodes.primary.port, resolv_conf=write_resolv_conf(scene.directory, names))

    def write():
        with weir.client() as client:
            return client.query(ADD).tags == ["INSERT 0 1"]

    def readers():
        places = set()
        for _ in range(8):
            with weir.client(options="-c pgweir.target_session_attrs=standby") as client:
                places.add(client.query(WHERE).value)
        return places
    assert all(write() for _ in range(10))
    until(lambda: readers() == {"n2", "n3"}, "both standbys are read")
    roles = {row["host"]: row["role"] for row in weir.show("HOSTS")}
    assert [roles["%s:%d" % (address, nodes.primary.port)] for address in addresses] == ["primary", "standby", "standby"]
    # a failover, and the name loses the dead server
    nodes.kill9(nodes.primary)
    nodes.promote(nodes.nodes[1])
    names.set("shop.test", a=addresses[1:], ttl=1)
    assert all(write() for _ in range(10))
    until(lambda: readers() == {"n3"}, "the standby is read")
    until(lambda: "%s:%d" % (addresses[0], nodes.primary.port) not in {row["host"] for row in weir.show("HOSTS") if row["role"]})
    weir.admin("RELOAD")
    assert all(write() for _ in range(10))


def test_pgweir_stops_while_it_looks_a_name_up(scene):
    names = scene.nameserver()
    names.play = names.silent
    weir = weir_of(scene, "host=shop.test dbname=p0 target_session_attrs=primary", resolv_conf=write_resolv_conf(scene.directory, names))
    names.wait_asked("A", "shop.test")
    weir.stop()


def test_a_transaction_outlasts_the_loss_of_the_other_address_of_its_name(scene):
    """The name of two servers has one address while the standby is away."""
    nodes = begin(scene, standbys=1, one_port=True)
    names = NameServer()
    scene.servers.append(names)
    primary, standby = [node.host for node in nodes.nodes]
    names.set("shop.test", a=[primary, standby], ttl=1)
    weir = weir_of(scene, "host=shop.test port=%d dbname=p0 target_session_attrs=primary" % nodes.primary.port,
                   resolv_conf=write_resolv_conf(scene.directory, names))
    client = weir.client()
    assert client.query("BEGIN").status == "T"
    for addresses, text in (([primary], "it is one host"), ([primary, standby], "each is a host of its own")):
        count = weir.log().count(text)
        names.set("shop.test", a=addresses, ttl=1)
        until(lambda: weir.log().count(text) > count)
        # a primary is known
        assert weir.client().query(ADD).tags == ["INSERT 0 1"]
        assert client.query(ADD).tags == ["INSERT 0 1"]
    assert client.query("COMMIT").tags == ["COMMIT"]
    assert nodes.primary.value(COUNT, database="p0") == 4


@pytest.mark.parametrize("is_listed", [True, False], ids=["beside", "alone"])
def test_a_transaction_by_an_address_that_a_name_has_lost_ends_with_its_primary(scene, is_listed):
    """The name loses the standby, and after the standby's promotion it loses the old primary, which lives, or has both again."""
    nodes = begin(scene, standbys=1, one_port=True)
    names = NameServer()
    scene.servers.append(names)
    old, new = nodes.nodes
    names.set("shop.test", a=[old.host, new.host], ttl=1)
    weir = weir_of(scene, "host=shop.test port=%d dbname=p0 target_session_attrs=primary" % old.port,
                   resolv_conf=write_resolv_conf(scene.directory, names))
    client = weir.client()
    assert client.query("BEGIN").status == "T"
    assert client.query(ADD).tags == ["INSERT 0 1"]
    names.set("shop.test", a=[old.host], ttl=1)
    until(lambda: "it is one host" in weir.log())
    assert weir.client().query(ADD).tags == ["INSERT 0 1"]
    nodes.wait_replayed()
    nodes.promote(new, follow=False)
    names.set("shop.test", a=[old.host, new.host] if is_listed else [new.host], ttl=1)

    def where():
        # a query that runs while the connections to the old primary end may be lost
        with contextlib.suppress(Closed), weir.client() as other:
            return other.query(WHERE).value
    until(lambda: where() == "n2", "the new primary is used")
    client.send(m.query("COMMIT"))
    assert m.read_error(client.expect("E").body)["C"] == "57P01"
    assert old.value(COUNT, database="p0") == 1
