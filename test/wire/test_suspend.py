"""SUSPEND and RESUME while clients are at work: nothing moves in between, no client is lost, every answer is the right one."""
import pytest

from support import messages as m
from support.crowd import Crowd
from support.live import SOON, ended_with
from support.rounds import rounds
from support.threads import run_in_threads
from support.until import until

LATER = 2       # seconds in which a played server answers for certain


def moved(weir):
    """Returns the totals so far: bytes, queries, transactions."""
    (row,) = [row for row in weir.show("STATS_TOTALS") if row["database"] == "p0"]
    return {name: row[name] for name in ("bytes_received", "bytes_sent", "query_count", "xact_count")}


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_suspend_and_resume_under_load(scene, mode):
    weir = scene.weir(scene.mini(), pool_mode=mode, default_pool_size=4 if mode == "transaction" else 12)
    crowd = Crowd(weir, 12)

    def administrate():
        try:
            for _ in rounds(15):
                crowd.wait_for_more()
                assert weir.admin("SUSPEND") == "SUSPEND"
                (active, paused, suspended) = (row["value"] for row in weir.show("STATE"))
                assert (active, paused, suspended) == ("no", "no", "yes")
                # a new client logs in, but has to wait like all clients
                with weir.client() as late:
                    before = moved(weir)
                    late.send(m.query("late"))
                    weir.barrier()
                    assert moved(weir) == before and not late.has_input()
                    assert weir.admin("RESUME") == "RESUME"
                    if mode == "transaction":
                        assert late.result().value == "late"
        finally:
            crowd.over.set()

    run_in_threads(administrate, *crowd.works)
    assert not [line for line in weir.log().splitlines() if "suspend_timeout" in line]


def test_console_that_logs_in_during_suspend_may_resume(scene):
    """A connection accepted before the SUSPEND that had not logged in continues its login."""
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    weir.client().query("first")
    starts = [m.startup(user="app", database="p0"), m.startup(user="admin", database="pgbouncer")]
    with weir.connect() as client, weir.connect() as console:
        client.send(starts[0][:8])
        console.send(starts[1][:8])
        weir.barrier()
        weir.admin("SUSPEND")
        client.send(starts[0][8:])
        client.finish_login("app")
        client.send(m.query("late"))
        console.send(starts[1][8:])
        console.finish_login("admin")
        weir.barrier()
        assert not client.has_input()
        console.send(m.query("RESUME"))
        assert console.result().errors == []
        assert client.result().value == "late"


def test_suspended_clients_may_disconnect(scene):
    """A client that leaves during SUSPEND is closed after RESUME, and leaves no transaction to the next client."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, client_gone="cancel")
    leaver, waiting = weir.client(), weir.client()
    leaver.query("BEGIN")
    waiting.send(m.query("waiting"))
    weir.wait_pool("p0", cl_waiting=1)
    weir.admin("SUSPEND")
    leaver.abort()
    weir.barrier()
    assert not waiting.has_input()
    weir.admin("RESUME")
    result = waiting.result()
    assert result.value == "waiting" and result.status == "I"
    assert [text for _, text in fake.queries] == ["BEGIN", "ROLLBACK", "waiting"]


def welcomes_when_released(session):
    session.fake.until(lambda: session.fake.released, "the end of a login")
    session.welcome()


def test_no_timeout_expires_during_suspend(scene):
    """Data that arrives during SUSPEND is in time: answers, requests, the end of a server's login."""
    fake, slow = scene.mini(), scene.mini()
    weir = scene.weir({"p0": fake, "p1": slow}, pool_mode="transaction", tcp_defer_accept=0)
    busy, between, idle, waiting = weir.client(), weir.client(), weir.client(), weir.client(database="p1")
    between.query("BEGIN")
    idle.query("first")
    weir.admin("RECONNECT p1")
    slow.login = welcomes_when_released
    waiting.send(m.query("opened"))
    busy.send(m.query("wait"))
    until(lambda: fake.queries[-1][1] == "wait" and len(slow.started) == 2, "both are under way")
    weir.admin("SUSPEND")
    for limit in ("query_timeout", "idle_transaction_timeout", "client_idle_timeout", "server_connect_timeout"):
        weir.admin("SET %s = %s" % (limit, LATER))
    weir.admin("SET client_login_timeout = %s" % (LATER + SOON))
    fake.release()
    slow.release()
    between.send(m.query("in time"))
    idle.send(m.query("again"))
    # a new client is read; its timeout shows that each of these times has run out
    ended_with(weir.connect(), "client_login_timeout")
    weir.admin("RESUME")
    assert busy.result().value == "waited"
    assert between.result().value == "in time"
    assert idle.result().value == "again"
    assert waiting.result().value == "opened"
    ended_with(between, "idle transaction timeout")
    ended_with(idle, "client_idle_timeout")


def test_a_console_that_was_slow_can_still_resume(scene):
    """
    SUSPEND holds up clients, but not the console that gave it: also when the answers to the console's later requests did not fit
    its socket.
    """
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    console = weir.client(user="admin", database="pgbouncer", receive_buffer=4096)
    console.query("SUSPEND")
    count = 2000
    console.send(*[m.query("SHOW CONFIG")] * count)
    weir.barrier()
    for _ in range(count):
        assert console.result().tags == ["SHOW"]
    assert console.query("RESUME").tags == ["RESUME"]
    assert weir.client().query("hello").value == "hello"


def test_console_dropped_by_suspend_timeout_runs_no_further_commands(scene):
    """The console has not read the answers to its earlier commands; pgweir discards the later commands."""
    weir = scene.weir(scene.mini(), pool_mode="transaction", suspend_timeout=SOON)
    client, stuck = weir.client(), weir.client(unix=True)
    stuck.send(m.query("rows 1000 100000"))
    until(lambda: any(row["send_avail"] for row in weir.show("SOCKETS")), "the result is stuck, and SUSPEND will wait")
    console = weir.client(user="admin", database="pgbouncer", unix=True)
    size = sum(len(message.body) + 5 for message in console.query("SHOW CONFIG").messages)
    # more than a Unix socket takes, and less than the megabyte at which pgweir waits for its reader
    console.send(m.query("SHOW CONFIG; " * (900000 // size) + "SUSPEND; SHUTDOWN WAIT_FOR_CLIENTS"))
    weir.wait_log("closing because: suspend_timeout", times=2)
    weir.barrier()
    assert "SHUTDOWN" not in weir.log()
    assert len(weir.show("CLIENTS")) == 2
    weir.admin("RESUME")
    assert client.query("hello").value == "hello"


@pytest.mark.parametrize("cut_off", ["quit", "abort"])
def test_lost_console_ends_its_suspend(scene, cut_off):
    """A console that sends only this command, with psql -c, leaves no client suspended either."""
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    client = weir.client()
    consoles = [weir.client(user="admin", database="pgbouncer") for _ in range(2)]
    consoles[0].query("SUSPEND")
    client.send(m.query("hello"))
    consoles[0].quit()
    # one console is still there
    assert [row[1] for row in consoles[1].query("SHOW STATE").rows] == [b"no", b"no", b"yes"]
    assert not client.has_input()
    getattr(consoles[1], cut_off)()
    assert client.result().value == "hello"
    weir.wait_log("admin disappeared when suspended, doing RESUME")
    assert [row["value"] for row in weir.show("STATE")] == ["yes", "no", "no"]
