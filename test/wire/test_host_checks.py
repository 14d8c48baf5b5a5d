"""
The roles of hosts as pgweir learns them: reports of sessions, checks that fail, hosts of another cluster, and the word of Patroni.

Played servers: see support/failover.py. A request that arrives at the wrong host is an error of the scene, because the right one waits for it.
"""
import socket
import urllib.request

import pytest

from support import lookups
from support import messages as m
from support.failover import WATCHER, Cluster, Host, pair, primaries, target
from support.live import NEVER
from support.nameserver import SERVFAIL, write_resolv_conf
from support.ports import free_port
from support.roles import Roles
from support.scenes import linked
from support.until import until
from support.wire import Closed

OFTEN = 0.1         # host_check_period


def host(weir, played):
    (row,) = [row for row in weir.show("HOSTS") if row["port"] == played.port]
    return row


def more_questions(played, count=2):
    """The host has been asked, and its answer has been read."""
    before = played.asked
    until(lambda: played.asked >= before + count, "more questions")


def aiming(weir, attrs):
    return weir.client(options="-c pgweir.target_session_attrs=" + attrs)


def served(client, server, text):
    """This server gets the next query of the client."""
    client.send(m.query(text))
    server.expect_query(text)
    server.answer(text)
    assert client.result().value == text


def waits(weir):
    (wait,) = until(lambda: weir.show("WAITS"), "a client waits")
    return wait["reason"]


# --- reports

def test_session_reports_a_promotion(scene):
    """Host traps 1 and 22. No answer to a question comes. The connection of the reader stays, and serves the writers."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), "any", host_check_period=NEVER)
    reader = aiming(weir, "standby")
    reader.send(m.query("read"))
    server = second.accept()
    server.expect_query("read")
    second.falls_silent()
    more_questions(second, 1)
    first.becomes("standby")
    second.becomes("primary", 2)
    server.send(m.parameter_status("in_hot_standby", "off"), m.command_complete("SELECT 0"), m.ready())
    reader.result()
    served(aiming(weir, "primary"), server, "write")
    assert "primary, was standby (reported by a session: not in recovery)" in weir.log()
    # the reader has another standby when the timelines are known
    first.becomes("standby", 2)
    second.talks()
    reader.send(m.query("read again"))
    first.accept().expect_query("read again")


def test_default_transaction_read_only_is_asked_again(scene):
    """Host trap 2. A reload tells idle sessions nothing."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), "read-write", host_check_period=OFTEN)
    client, server = linked(first.fake, weir)
    first.read_only = "on"
    more_questions(first)
    client.send(m.query("held"))
    waits(weir)
    first.read_only = "off"
    server.expect_query("held")
    server.answer("x")
    assert client.result().value == "x"


# --- other clusters, and other servers

def test_logical_replica(scene):
    """Host trap 12. It is out of recovery, and its timeline is higher."""
    first, second = pair(scene)
    replica = Host(scene, "primary", timeline=9)
    replica.system += 1
    first.falls_silent()
    second.falls_silent()
    weir = primaries(scene, (replica, first, second))
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    until(lambda: replica.asked >= 3, "the replica has answered")
    first.talks()
    second.talks()
    client.finish_login("app")
    client.send(m.query("x"))
    server = first.accept()
    server.expect_query("x")
    server.answer("x")
    client.result()
    until(lambda: host(weir, replica)["state"] == "other cluster", "the replica is refused")
    served(client, server, "write")
    # not even at first, while the others have not answered
    assert {session.startup["user"] for session in replica.fake.started} == {WATCHER}


def test_servers_without_wal_functions(scene):
    """Host trap 13. The role is known all the same, and the server logs two errors for each connection that asks."""
    hosts = first, second = pair(scene)
    for played in hosts:
        played.has_wal = False
    weir = primaries(scene, hosts, "any", host_check_period=OFTEN)
    writer, reader = aiming(weir, "primary"), aiming(weir, "standby")
    for client, played in ((writer, first), (reader, second)):
        client.send(m.query("x"))
        server = played.accept()
        server.expect_query("x")
        server.answer("x")
        assert client.result().value == "x"
    for played in hosts:
        more_questions(played, 5)
        assert len(played.watchers) == 1 and played.refused == 2
        assert host(weir, played)["state"] == "up"


def test_questions_are_about_the_server_itself(scene):
    """Host traps 64 and 65. No clock of a server and no view of replication is asked: one clock, and each host for its own position."""
    hosts = pair(scene)
    weir = primaries(scene, hosts)
    linked(hosts[0].fake, weir)
    until(lambda: hosts[1].questions, "the standby is asked")
    for text in hosts[0].questions | hosts[1].questions:
        assert not [word for word in ("now(", "timestamp", "clock", "pg_stat_replication") if word in text], text


# --- checks that fail

REFUSALS = {"password": ("password authentication failed for user", "28P01"), "database": ("database does not exist", "3D000"),
            "full": ("sorry, too many clients already", "53300")}


@pytest.mark.parametrize("why", REFUSALS)
def test_refused_check(scene, why):
    """Host traps 14 and 16. A host that refuses a login is alive: it keeps its role, for longer than an answer is valid."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), host_check_period=OFTEN)
    client, server = linked(first.fake, weir)
    more_questions(first)
    first.refusal_of_all = m.error(*REFUSALS[why], severity="FATAL")
    first.ends_watchers()
    until(lambda: host(weir, first)["errors"] >= 15, "logins are refused for long")
    row = host(weir, first)
    assert (row["role"], row["state"]) == ("primary", "up")
    served(client, server, "write")
    assert "no primary" not in weir.log()
    weir.wait_log("WARNING host .*: the check of its role cannot log in: " + REFUSALS[why][0])


def test_check_by_another_user(scene):
    """Host trap 14. The user of the checks is missing on one node: the users of clients may ask, too."""
    first, second = pair(scene)

    def login(session):
        if session.startup["user"] == WATCHER:
            session.send(m.error("role does not exist", "28000", "FATAL"))
            raise Closed("refused")
        welcome(session)
    welcome, second.fake.login = second.fake.login, login
    weir = primaries(scene, (first, second), "any", host_check_period=OFTEN)
    writer, reader = aiming(weir, "primary"), aiming(weir, "standby")
    reader.send(m.query("read"))
    second.accept().expect_query("read")
    writer.send(m.query("write"))
    first.accept().expect_query("write")


def test_checks_are_outside_of_all_limits(scene):
    """Host trap 15. The pool, the database, the user and the host are full."""
    stage = Roles(scene, default_pool_size=1, max_host_connections=1, max_db_connections=1, max_user_connections=1)
    busy = stage.weir.client()
    assert busy.query("BEGIN").status == "T"
    stage.weir.client().send(m.query("waits"))
    waits(stage.weir)
    for number, row in enumerate([stage.host(number) for number in range(3)]):
        until(lambda number=number, row=row: stage.host(number)["last_check"] != row["last_check"], "the host is asked again")
    stage.fakes[2].become("primary", timeline=2)
    stage.wait_host(2, role="primary")


def test_one_check_for_all_databases_and_users(scene):
    """Host trap 19. Each host has one connection that asks."""
    hosts = pair(scene)
    names = ["p%d" % number for number in range(5)]
    weir = scene.weir({name: target(hosts, target_session_attrs="any") for name in names}, host_check_user=WATCHER, pool_mode="transaction",
                      host_check_period=OFTEN)
    clients = [weir.client(user, database=name, options="-c pgweir.target_session_attrs=" + attrs)
               for name in names for user, attrs in (("app", "primary"), ("rival", "standby"))]
    for client in clients:
        client.send(m.query("x"))
    for played in hosts:
        for _ in names:
            played.accept().expect_query("x")
        more_questions(played, 5)
        assert len(played.watchers) == 1


def test_failed_check_moves_nobody(scene):
    """Host trap 18. The primary is only unknown: its connections stay, clients wait, and nothing goes elsewhere."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), host_check_period=OFTEN, pool_size=2)
    busy, server = linked(first.fake, weir)
    client = weir.client()
    busy.send(m.query("BEGIN"))
    server.expect_query("BEGIN")
    server.complete("BEGIN", "T")
    busy.result()
    first.fake.stop_listening()
    first.ends_watchers()
    weir.wait_log("no primary")
    client.send(m.query("held"))
    waits(weir)
    busy.send(m.query("goes on"))
    server.expect_query("goes on")
    server.answer("x", status="T")
    assert busy.result().value == "x"
    first.fake.listen()
    again = first.accept()
    again.expect_query("held")
    again.answer("y")
    assert client.result().value == "y"


def test_name_server_fails(scene):
    """Host trap 18. The name server's failure changes nothing, and a connection that ends then is not opened again and again."""
    hosts = scene.hosts("127.0.0.2", "127.0.0.3")
    hosts[1].become("standby")
    names = scene.nameserver()
    for name, played in zip("ab", hosts):
        names.set(name + ".example.test", a=[played.host], ttl=0)
    weir = scene.weir({"p0": "host=a.example.test,b.example.test port=%d target_session_attrs=primary" % hosts[0].port}, pool_mode="transaction",
                      host_check_user=WATCHER, host_check_period=OFTEN, server_login_retry=0, dns_nxdomain_ttl=1,
                      resolv_conf=write_resolv_conf(scene.directory, names))
    client = weir.client()
    assert client.query("x").value == "x"
    for name in "ab":
        names.set(name + ".example.test", rcode=SERVFAIL)
    questions(hosts[0], 5)
    assert client.query("y").value == "y"
    (watcher,) = watchers(hosts[0])
    watcher.sock.shutdown(socket.SHUT_RDWR)
    failure = "DNS lookup failed: a.example.test"
    weir.wait_log(failure)
    asked = questions(hosts[1], 10)
    # in doubt each host is asked twenty times a second
    assert weir.log().count(failure) < 10 * asked
    client.send(m.query("held"))
    waits(weir)
    names.set("a.example.test", a=[hosts[0].host])
    assert client.result().value == "held"


def watchers(played):
    return [session for session in played.started if session.startup["user"] == WATCHER]


def questions(played, count):
    """The host answers so many questions. Returns the number of all."""
    def number():
        return sum(text.startswith("select pg_catalog.pg_is_in_recovery()") for _, text in played.queries)
    before = number()
    until(lambda: number() >= before + count, "the host is asked")
    return number()


def test_lookup_without_a_primary(scene):
    """Host trap 38. auth_query runs on a standby; the login then waits for the primary."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), auth_type="plain", auth_user="asker")
    first.goes()
    client = weir.connect()
    client.send(m.startup(user="bob", database="p0"))
    server = second.accept()
    assert lookups.asked_for(server)[0] == "bob"
    server.send(lookups.found("bob", "secret"))
    client.expect("R")
    client.send(m.password("secret"))
    waits(weir)
    second.becomes("primary", 2)
    client.finish_login()
    client.send(m.query("x"))
    second.accept().expect_query("x")


# --- several poolers

def test_several_poolers(scene):
    """Host trap 37. Each looks at the servers themselves: two processes agree, and none writes while no server is known as the primary."""
    hosts = first, second = pair(scene)
    weirs = [primaries(scene, order, host_check_period=OFTEN) for order in (hosts, hosts[::-1])]
    clients = [weir.client() for weir in weirs]
    for client in clients:
        client.send(m.query("x"))
        server = first.accept()
        server.expect_query("x")
        server.answer("x")
        assert client.result().value == "x"
    second.becomes("primary")
    for weir, client in zip(weirs, clients):
        weir.wait_log("no primary: both")
        client.send(m.query("held"))
        waits(weir)
    second.becomes("primary", 2)
    for client in clients:
        server = second.accept()
        server.expect_query("held")
        server.answer("y")
    for client in clients:
        assert client.result().value == "y"


# --- the higher timeline, and Patroni

def test_higher_timeline_is_forgotten(scene):
    """Host trap 6. Its host is a standby again: the lower timeline is the primary's."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), host_check_period=OFTEN)
    second.becomes("primary", 7)
    client, server = linked(second.fake, weir)
    second.becomes("standby", 5)
    first.becomes("primary", 5)
    weir.wait_log("the primary is .*:%d " % first.port)
    client.send(m.query("write"))
    first.accept().expect_query("write")


class Stage:
    """Two hosts under a played Patroni. p0: clients of the primary, reads: readers."""

    def __init__(self, scene, **settings):
        self.first, self.second = self.hosts = pair(scene)
        self.cluster = Cluster(scene, self.hosts)
        parts = "dbname=p0 patroni=%s target_session_attrs=" % self.cluster.url
        self.weir = scene.weir({"p0": parts + "primary", "reads": parts + "prefer-standby max_lag=3600"}, pool_mode="transaction", default_pool_size=2,
                               host_check_user=WATCHER, host_check_period=OFTEN, server_login_retry=0, **settings)

    def ask(self, played, database="p0", server=None):
        """A new client is served by this host, on a new connection or on this one."""
        client = self.weir.client(database=database)
        client.send(m.query("x"))
        server = server or played.accept()
        server.expect_query("x")
        server.answer("x")
        assert client.result().value == "x"
        return client, server

    def more_answers(self):
        """Of Patroni and of the standby."""
        before = self.cluster.answered
        until(lambda: self.cluster.answered >= before + 3, "Patroni has answered")
        more_questions(self.second)


def test_patroni_decides_and_the_server_confirms(scene):
    """Host traps 6 and 7. The lock moves before the promotion ends; and it moves back to a lower timeline."""
    stage = Stage(scene)
    client, server = stage.ask(stage.first)
    stage.cluster.leader = stage.second
    stage.weir.wait_log("no primary: Patroni's leader is .*, which is a standby by its own word")
    client.send(m.query("held"))
    waits(stage.weir)
    stage.second.becomes("primary", 2)
    server = stage.second.accept()
    server.expect_query("held")
    server.answer("y")
    assert client.result().value == "y"
    # the old primary still takes writes, and gets the lock again
    stage.cluster.leader = stage.first
    stage.weir.wait_log("database p0: the primary is .*:%d " % stage.first.port, times=2)
    client.send(m.query("back"))
    server = stage.first.accept()
    server.expect_query("back")


@pytest.mark.parametrize("place", ["setting", "entry"])
def test_entry_without_a_role_is_the_primarys_with_patroni(scene, place):
    """`shop = dbname=shop` is how people write it: its clients write. An entry with a host of its own is another server, and no host is asked for it."""
    primary, standby = pair(scene)
    cluster = Cluster(scene, (standby, primary))
    cluster.leader = primary
    other = scene.fake()
    entry, settings = ("dbname=p0", {"patroni": cluster.url}) if place == "setting" else ("dbname=p0 patroni=" + cluster.url, {})
    weir = scene.weir({"p0": entry, "other": "host=127.0.0.1 port=%d dbname=p0" % other.port}, pool_mode="transaction", host_check_user=WATCHER,
                      server_login_retry=0, **settings)
    server = None
    for number in range(3):
        client = weir.client()
        client.send(m.query("write %d" % number))
        server = server or primary.accept()
        server.expect_query("write %d" % number)
        server.answer("x")
        assert client.result().value == "x"
    assert "app" not in {session.startup["user"] for session in standby.fake.started}
    client = weir.client(database="other")
    served(client, other.accept(), "x")


def test_second_primary_is_a_warning_a_state_and_a_metric(scene):
    """Patroni's leader has the lower timeline: it gets the writes, and the other one is reported, once for both databases."""
    stage = Stage(scene, http_listen_port=free_port())
    _, server = stage.ask(stage.first)
    stage.second.becomes("primary", 2)
    stage.weir.wait_log("WARNING host .*:%d: a second primary of database .*, with timeline 2; .*:%d is a primary, too, with timeline 1, and gets the writes"
                        % (stage.second.port, stage.first.port))
    assert [host(stage.weir, played)["state"] for played in stage.hosts] == ["up", "second primary"]
    metric = 'pgweir_hosts_second_primary{host="127.0.0.1:%d"} ' % stage.second.port
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % stage.weir.settings["http_listen_port"]) as answer:
        assert metric + "1" in answer.read().decode()
    stage.ask(stage.first, server=server)
    more_questions(stage.second, 5)
    assert stage.weir.log().count("a second primary of database") == 1
    stage.second.becomes("standby", 1)
    stage.weir.wait_log("host .*:%d: no second primary any more" % stage.second.port)
    assert host(stage.weir, stage.second)["second_primary"] == 0


def test_hosts_that_patroni_names_no_more_are_forgotten(scene):
    """Also one that answers, when its last client has left: its Patroni is gone for good."""
    stage = Stage(scene)
    third = Host(scene, "standby")
    def ports():
        return {row["port"] for row in stage.weir.show("HOSTS")}
    expected = {played.port for played in stage.hosts}
    for _ in range(3):
        stage.cluster.strangers = [free_port() for _ in range(20)] + [third.port]
        until(lambda: ports() == expected | set(stage.cluster.strangers), "the new members are known, and the former ones are forgotten")
    until(lambda: host(stage.weir, third)["role"] == "standby", "it is asked for its role")
    stage.cluster.strangers = []
    until(lambda: ports() == expected, "all are forgotten")
    stage.ask(stage.first)


def of_secure_patroni(scene, authority, hosts, name="server", credentials=None, **settings):
    cluster = Cluster(scene, hosts, authority.server_context(name), credentials)
    member = {"api_url": cluster.url + "/patroni"}
    cluster.more = {played: member for played in hosts}
    return cluster, scene.weir({"p0": "dbname=p0"}, pool_mode="transaction", host_check_user=WATCHER, host_check_period=OFTEN, server_login_retry=0,
                               patroni=cluster.url, patroni_ca_file=authority.cert("ca"), **settings)


def test_patroni_with_https_user_and_password(scene, authority):
    """The leader's own Patroni, too. The password is in no log and no answer of the console, and changes with a RELOAD."""
    hosts = pair(scene)
    cluster, weir = of_secure_patroni(scene, authority, hosts, credentials="watch:hunter2", patroni_user="watch", patroni_password="hunter3")
    weir.wait_log("Patroni at https://.* answers with HTTP status 401")
    weir.settings["patroni_password"] = "hunter2"
    weir.write_ini()
    weir.admin("RELOAD")
    client = weir.client()
    client.send(m.query("write"))
    server = hosts[0].accept()
    server.expect_query("write")
    server.answer("x")
    assert client.result().value == "x"
    more = cluster.answered + 4
    until(lambda: cluster.answered >= more, "it is asked again and again")
    rows = {row["key"]: row for row in weir.show("CONFIG")}
    assert "hunter" not in str(rows) + weir.log()
    assert rows["patroni_user"]["value"] == "watch"


def test_certificate_of_patroni_is_verified(scene, authority):
    """The authority, and the name or address. Nothing is sent before."""
    hosts = pair(scene)
    authority.issue("patroni elsewhere", "elsewhere", names="DNS:elsewhere")
    authority.issue("patroni of other", "localhost", names="DNS:localhost,IP:127.0.0.1", by="other")
    for name, why in (("patroni elsewhere", "IP address mismatch"), ("patroni of other", "unable to get local issuer certificate")):
        cluster, weir = of_secure_patroni(scene, authority, hosts, name, patroni_user="watch", patroni_password="hunter2")
        weir.wait_log("WARNING Patroni at https://.* has a certificate that is refused: " + why)
        assert not cluster.authorizations


def test_lag_and_tags_of_patroni(scene):
    """Host traps 11 and 66. Patroni's lag is of received WAL: only the own position of a standby counts. The tag noloadbalance counts, too."""
    stage = Stage(scene)
    stage.second.position = "0/1000"
    stage.cluster.more[stage.second] = {"lag": 0}
    stage.ask(stage.first)
    until(lambda: host(stage.weir, stage.second)["role"] == "standby", "the standby is known")
    _, server = stage.ask(stage.first, "reads")
    stage.second.position = "0/3000000"
    stage.cluster.more[stage.second] = {"lag": 1 << 40}
    stage.more_answers()
    stage.ask(stage.second, "reads")
    stage.cluster.more[stage.second] = {"lag": 0, "tags": {"noloadbalance": True}}
    stage.more_answers()
    stage.ask(stage.first, "reads", server)
