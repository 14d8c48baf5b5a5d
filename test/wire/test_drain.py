"""DRAIN: the clients of a database, user or host end between two transactions, and no client of the target logs in."""
import re
import threading

import pytest

from support import messages as m
from support.live import ended_with
from support.takeover import Replaced
from support.threads import run_in_threads
from support.until import until
from support.wire import Closed

ENDED = "terminating connection due to administrator command (DRAIN)", "57P01"
LATE = "OVER 1000000 SECONDS"       # only clients of a few ids have had their turn


def drains(weir):
    return {(row["target"], row["name"]): (row["clients"], row["ended"]) for row in weir.show("DRAINS")}


def wait_left(weir, left, target=("database", "p0")):
    until(lambda: drains(weir)[target][0] == left, "%d clients are left" % left)


def refused(weir, what, **login):
    fields = weir.connect().refused(**{"user": "app", "database": "p0", **login})
    assert (fields["C"], fields["M"]) == ("57P03", "no new connections: an administrator has drained %s (DRAIN)" % what)


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_idle_clients_end_and_new_logins_are_refused(scene, mode):
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()}, pool_mode=mode)
    clients = [weir.client() for _ in range(3)]
    stays = weir.client(database="p1")
    clients[0].query("one")
    weir.admin("DRAIN p0")
    for client in clients:
        ended_with(client, *ENDED)
    wait_left(weir, 0)
    assert drains(weir) == {("database", "p0"): (0, 3)}
    refused(weir, 'database "p0"')
    refused(weir, 'database "p0"', user="rival")
    assert stays.query("two").value == "two"
    assert weir.admin("DRAIN p0 STOP") == "DRAIN"
    assert not weir.show("DRAINS")
    assert weir.client().query("three").value == "three"
    weir.wait_log('LOG DRAIN of database "p0" begins: 3 clients, 0 s')
    weir.wait_log('LOG DRAIN of database "p0": no client is left, 3 were ended')
    weir.wait_log('LOG DRAIN of database "p0" stops: 3 clients were ended, 0 are left')


@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_a_transaction_ends_first(scene, mode):
    """The client gets every answer of its transaction, and then the error."""
    weir = scene.weir(scene.mini(), pool_mode=mode)
    client = weir.client()
    client.query("BEGIN")
    weir.admin("DRAIN p0")
    weir.barrier()
    assert drains(weir) == {("database", "p0"): (1, 0)}
    (state,) = [row["value"] for row in weir.show("STATE") if row["key"] == "drain"]
    assert re.fullmatch(r'database "p0", 1 clients left, since \d{4}-.*, until \d{4}-.*', state), state
    assert client.query("in the middle").value == "in the middle"
    result = client.query("COMMIT")
    assert (result.tags, result.status) == (["COMMIT"], "I")
    ended_with(client, *ENDED)


@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_a_busy_client_ends_at_a_transactions_end(scene, mode):
    """It is never idle in a tick: it asks again as soon as it has its answer."""
    weir = scene.weir(scene.mini(), pool_mode=mode, default_pool_size=2 if mode == "transaction" else 4)
    clients = [weir.client() for _ in range(4)]
    begun = threading.Barrier(len(clients) + 1, timeout=20)

    def work(client):
        client.query("first")
        begun.wait()
        with pytest.raises(Closed):
            for n in range(1000000):
                client.send(m.query("BEGIN"))
                if client.result().errors:
                    break
                for text in ("row %d" % n, "COMMIT"):
                    client.send(m.query(text))
                    assert not client.result().errors
            client.expect_closed()
            raise Closed()

    def administrate():
        begun.wait()
        weir.admin("DRAIN")

    run_in_threads(administrate, *(lambda client=client: work(client) for client in clients))
    wait_left(weir, 0, ("all", ""))
    assert drains(weir) == {("all", ""): (0, 4)}


def test_targets(scene):
    """A user, a host, all: each alone, and none of them ends the console."""
    port = scene.hosts("127.0.0.1", "127.0.0.2")[0].port
    weir = scene.weir({"p%d" % n: "host=%s port=%d" % (host, port) for n, host in enumerate(("127.0.0.1", "127.0.0.2", "127.0.0.1,127.0.0.2"))},
                      pool_mode="transaction")
    users = {(user, database): weir.client(user=user, database=database) for user in ("app", "rival") for database in ("p0", "p1", "p2")}
    weir.admin("DRAIN USER rival")
    for database in ("p0", "p1", "p2"):
        ended_with(users["rival", database], *ENDED)
    refused(weir, 'user "rival"', user="rival")
    weir.admin('drain host "127.0.0.2"')
    for database in ("p1", "p2"):
        ended_with(users["app", database], *ENDED)
        refused(weir, 'host "127.0.0.2"', database=database)
    assert users["app", "p0"].query("one").value == "one"
    assert set(drains(weir)) == {("user", "rival"), ("host", "127.0.0.2")}
    weir.admin("DRAIN")
    ended_with(users["app", "p0"], *ENDED)
    refused(weir, "every database")
    assert weir.admin("DRAIN STOP") == "DRAIN" and not weir.show("DRAINS")
    assert weir.client(user="rival", database="p0").query("two").value == "two"


@pytest.mark.parametrize("command, error", (
    ("DRAIN nowhere", "no such database: nowhere"),
    ("DRAIN pgbouncer", "cannot drain admin db: pgbouncer"),
    ("DRAIN HOST 10.1.2.3", "no such host: 10.1.2.3"),
    ("DRAIN p0 STOP", "there is no such DRAIN"),
    ("DRAIN STOP", "there is no such DRAIN"),
    ("DRAIN p0 OVER", "invalid command 'DRAIN p0 OVER', use SHOW HELP;"),
    ("DRAIN USER", "invalid command 'DRAIN USER', use SHOW HELP;"),
    ("DRAIN p0 OVER 1000001", "invalid command 'DRAIN p0 OVER 1000001', use SHOW HELP;"),
))
def test_refused_commands_change_nothing(scene, command, error):
    weir = scene.weir(scene.mini())
    client = weir.client()
    (fields,) = weir.client(user="admin", database="pgbouncer").query(command).errors
    assert fields["M"] == error
    assert not weir.show("DRAINS") and client.query("one").value == "one"


def test_clients_have_their_turns_one_after_the_other(scene):
    """The turns are spread over the time (unit/pool/test_drain); a second DRAIN of the same target replaces the time."""
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    clients = [weir.client() for _ in range(20)]
    weir.admin("DRAIN p0 " + LATE)
    weir.admin("DRAIN USER stats OVER 1 SECOND")
    weir.barrier()
    left, ended = drains(weir)["database", "p0"]
    assert (left + ended, ended <= 1) == (20, True)
    refused(weir, 'database "p0"')
    weir.admin("DRAIN p0 OVER 1 SECONDS")
    for client in clients:
        ended_with(client, *ENDED)
    wait_left(weir, 0)


def test_a_client_in_the_queue_is_served_first(scene):
    """PAUSE holds it longer."""
    weir = scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=1)
    works, waits = weir.client(), weir.client()
    works.query("BEGIN")
    waits.send(m.query("waited for"))
    weir.wait_pool("p0", cl_waiting=1)
    weir.admin("DRAIN p0")
    pause = weir.client(user="admin", database="pgbouncer")
    pause.send(m.query("PAUSE p0"))
    weir.barrier()
    works.query("COMMIT")
    ended_with(works, *ENDED)
    pause.result()
    wait_left(weir, 1)
    assert not waits.has_input() and drains(weir)["database", "p0"] == (1, 1)
    weir.admin("RESUME p0")
    assert waits.result().value == "waited for"
    ended_with(waits, *ENDED)


def test_suspend_ends_nobody(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    client = weir.client()
    client.query("one")
    weir.admin("SUSPEND")
    weir.admin("DRAIN")
    weir.barrier()
    assert drains(weir) == {("all", ""): (1, 0)} and not client.has_input()
    weir.admin("RESUME")
    ended_with(client, *ENDED)


@pytest.mark.parametrize("how", ("CLIENTS", "SERVERS"))
def test_a_shutdown_goes_on(scene, how):
    weir = scene.weir(scene.mini(), pool_mode="session")
    client = weir.client()
    client.query("BEGIN")
    weir.admin("SHUTDOWN WAIT_FOR_" + how)
    weir.admin("DRAIN")
    client.query("COMMIT")
    ended_with(client, *ENDED)
    weir.wait_exit()


def test_a_database_that_reload_removes(scene):
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()}, pool_mode="transaction")
    client = weir.client()
    client.query("BEGIN")
    weir.admin("DRAIN p0")
    p0 = weir.databases.pop("p0")
    weir.write_ini()
    weir.admin("RELOAD")
    wait_left(weir, 0)
    assert weir.connect().refused(user="app", database="p0")["C"] in ("3D000", "08P01")
    weir.databases["p0"] = p0
    weir.write_ini()
    weir.admin("RELOAD")
    refused(weir, 'database "p0"')
    weir.admin("DRAIN p0 STOP")
    assert weir.client().query("one").value == "one"


def test_online_restart(scene):
    """The new process continues the drain, with its counts."""
    weir = scene.weir({"p0": scene.mini(), "p1": scene.mini()}, kind=Replaced, pool_mode="transaction")
    ends, stays, other = weir.client(), weir.client(), weir.client(database="p1")
    stays.query("BEGIN")
    weir.admin("DRAIN p0")
    ended_with(ends, *ENDED)
    weir.admin("DRAIN p1 " + LATE)
    before = [(row["name"], row["since"], row["until"]) for row in weir.show("DRAINS")]
    weir.replace()
    assert [row[0] for row in before] == ["p0", "p1"]
    assert [(row["name"], row["since"][:18], row["until"][:18]) for row in weir.show("DRAINS")] == [(a, b[:18], c[:18]) for a, b, c in before]
    wait_left(weir, 1)
    assert drains(weir)["database", "p0"] == (1, 1)
    refused(weir, 'database "p0"')
    assert stays.query("COMMIT").tags == ["COMMIT"]
    ended_with(stays, *ENDED)
    assert other.query("one").value == "one"


def test_what_is_on_its_way_arrives(scene):
    """A COPY, the answers to a pipeline, and a result that its client has not read."""
    weir = scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=4)
    copies, pipelines, reads = weir.client(), weir.client(), weir.client(receive_buffer=4096)
    copies.send(m.query("copyin"))
    copies.expect("G")
    pipelines.send(m.query("wait"), m.query("two"))
    reads.send(m.query("rows 40 100000"))
    reads.expect("T")
    until(lambda: weir.pool("p0")["sv_active"] == 3, "all are served")
    weir.admin("DRAIN")
    weir.barrier()
    copies.send(m.copy_data(b"x\n"), m.copy_done())
    assert copies.result().tags == ["COPY 1"]
    assert len([message for message in reads.read_until() if message.type == "D"]) == 40
    for fake in scene.fakes:
        fake.release()
    assert [pipelines.result().value for _ in range(2)] == ["waited", "two"]
    for client in (copies, pipelines, reads):
        ended_with(client, *ENDED)
