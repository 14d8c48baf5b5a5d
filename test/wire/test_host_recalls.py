"""
Reads in flight on a standby that hangs, or that an administrator closes: another host gets them, unless the client has a part of their answer.

Played servers: see support/failover.py. A message that arrives at the wrong server is an error of the scene, because the right one waits for it.
"""
import pytest

from support import messages as m
from support.failover import WATCHER, Host, pair, target
from support.live import NEVER
from support.until import until

BEGIN = "BEGIN READ ONLY"
READ = "SELECT a FROM t"


def asked(host, count=1):
    """Waits for further questions for the role of the host. Each but the last one has been answered, unless the host is silent."""
    before = host.asked
    until(lambda: host.asked >= before + count, "more questions")


class Stage:
    """
    A primary, a standby, perhaps a second standby, and a client of the primary whose reads go to standbys.

    A host is stale after two periods (host_check_period). The period is long until a scene needs a stale host, so that a busy machine,
    on which a played host answers late, makes none of the others stale.
    """

    def __init__(self, scene, standbys=1, **more):
        self.hosts = [*pair(scene), *(Host(scene, "standby") for _ in range(standbys - 1))]
        self.primary, self.standby = self.hosts[:2]
        more = {"target_session_attrs": "primary", "reads": "auto", "reads_on_primary": "off", "load_balance_hosts": "disable", **more}
        self.weir = scene.weir({"p0": target(self.hosts, **more)}, host_check_user=WATCHER, host_check_period=NEVER, read_check_period=600, server_login_retry=0,
                               pool_mode="transaction", log_disconnections=1)
        until(lambda: self.row(self.primary)["role"] == "primary", "the primary is known")
        self.client = self.weir.client()
        # with a client that reads, the hosts are asked ten times a second
        until(lambda: all(self.row(host)["role"] == "standby" for host in self.hosts[1:]), "the standbys follow")

    def row(self, host):
        (row,) = [row for row in self.weir.show("HOSTS") if row["port"] == host.port]
        return row

    def leaves(self, way, host=None):
        host = host or self.standby
        if way == "silence":
            self.turns_stale(host)
        else:
            self.weir.admin("%s HOST 127.0.0.1:%d" % (way, host.port))

    def turns_stale(self, *silent):
        """These hosts get old, in this order: the last answer of each is older than those of the following ones, and of other hosts."""
        for host in silent:
            host.falls_silent(hangs=True)
            for other in self.hosts:
                if other not in silent[:silent.index(host) + 1]:
                    asked(other, 12)
        self.weir.admin("SET host_check_period = 0.5")
        for host in silent:
            until(lambda host=host: self.row(host)["state"] == "stale", "the host is stale")

    def learn(self, client=None):
        """The primary is asked whether the text only reads, and executes it the first two times."""
        client = client or self.client
        client.send(m.query(READ))
        server = self.primary.accept()
        server.expect_query(READ)
        server.answer("at first")
        assert client.result().value == "at first"
        client.send(m.query(READ))
        assert "pg_catalog" in server.expect_query()
        server.send(m.row_description("a"), m.data_row("t"), m.command_complete("SELECT 1"), m.ready())
        server.expect_query(READ)
        server.answer("first")
        assert client.result().value == "first"
        # the standbys are as fresh as what the client has read
        for host in self.hosts:
            asked(host, 3)
        return server

    def recalled(self, server, host=None):
        server.expect_closed()
        host = host or self.standby
        assert self.row(host)["recalls"] == 1
        self.weir.wait_log(r"host 127.0.0.1:%d: 1 reads are taken back" % host.port)
        self.weir.wait_log("closing because: the host is silent, or closed by an administrator: another host gets the read")


WAYS = ["silence", "DISABLE", "DRAIN"]


@pytest.mark.parametrize("way", WAYS)
def test_statement_goes_to_the_primary(scene, way):
    stage = Stage(scene)
    primary = stage.learn()
    stage.client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(READ)
    # an answer that is not complete is held back
    server.send(m.row_description("a"), m.data_row("half"))
    stage.leaves(way)
    primary.expect_query(READ)
    primary.answer("p")
    assert stage.client.result().value == "p"
    stage.recalled(server)


@pytest.mark.parametrize("way", WAYS)
def test_transaction_goes_to_another_standby(scene, way):
    stage = Stage(scene, 2)
    stage.client.send(m.query(BEGIN))
    stage.client.result()
    stage.client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(BEGIN)
    server.complete("BEGIN", "T")
    server.expect_query(READ)
    stage.leaves(way)
    other = stage.hosts[2].accept()
    other.expect_query(BEGIN)
    other.complete("BEGIN", "T")
    other.expect_query(READ)
    other.answer("o", status="T")
    result = stage.client.result()
    assert (result.value, result.status) == ("o", "T")
    stage.recalled(server)


def test_read_waits_for_another_host(scene):
    """While no other host suits, the read stays where it is: the host may only be slow."""
    stage = Stage(scene, target_session_attrs="primary", reads="auto")
    primary = stage.learn()
    stage.client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(READ)
    stage.turns_stale(stage.primary, stage.standby)
    assert stage.row(stage.standby)["recalls"] == 0
    stage.primary.talks()
    primary.expect_query(READ)
    primary.answer("p")
    assert stage.client.result().value == "p"
    stage.recalled(server)


@pytest.mark.parametrize("way", WAYS)
def test_answer_that_has_begun(scene, way):
    """More than 16 KiB have been forwarded: the rest comes from the same host, or the client ends with an error."""
    stage = Stage(scene)
    stage.learn()
    stage.client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(READ)
    server.send(m.row_description("a"), m.data_row("y" * 20000))
    stage.client.expect_all("TD")
    stage.leaves(way)
    server.send(m.data_row("z"))
    assert m.read_row(stage.client.expect("D").body) == [b"z"]
    server.close()
    error = m.read_error(stage.client.drain()[-1].body)
    assert (error["S"], error["C"]) == ("FATAL", "08007")
    assert stage.row(stage.standby)["recalls"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_transaction_that_has_read(scene, way):
    """Its snapshot is on this host."""
    stage = Stage(scene)
    stage.client.send(m.query(BEGIN))
    stage.client.result()
    stage.client.send(m.query(READ))
    server = stage.standby.accept()
    for text, answer in ((BEGIN, m.command_complete("BEGIN")), (READ, m.data_row("s") + m.command_complete("SELECT 1"))):
        server.expect_query(text)
        server.send(answer, m.ready("T"))
    assert stage.client.result().status == "T"
    stage.client.send(m.query("SELECT 2"))
    server.expect_query("SELECT 2")
    stage.leaves(way)
    server.answer("late", status="T")
    assert stage.client.result().value == "late"
    assert stage.row(stage.standby)["recalls"] == 0


def test_parameters_that_a_silent_standby_does_not_take(scene):
    """The request was not sent: pgweir waits for the answer to its own SET."""
    stage = Stage(scene)
    primary = stage.learn()
    stage.client.send(m.query("SET TimeZone = 'Asia/Tokyo'"))
    primary.expect("Q")
    primary.send(m.parameter_status("TimeZone", "Asia/Tokyo"), m.command_complete("SET"), m.ready())
    stage.client.result()
    stage.client.send(m.query(READ))
    server = stage.standby.accept()
    assert b"TimeZone" in server.expect("Q").body
    stage.leaves("silence")
    primary.expect_query("RESET search_path")
    primary.complete("RESET")
    primary.expect_query(READ)
    primary.answer("p")
    assert stage.client.result().value == "p"
    stage.recalled(server)
