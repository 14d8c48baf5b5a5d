"""client_gone: what happens with the server of a client that leaves in a query or a transaction."""
import pytest

from support import messages as m
from support.live import NEVER, ask, ask_long, hold, pid_of
from support.takeover import Replaced
from support.until import DEADLINE, until


def weir_of(scene, postgres, size=1, mode="transaction", **settings):
    settings.setdefault("client_gone_timeout", NEVER)
    return scene.weir({"p0": postgres.target("p0")}, default_pool_size=size, pool_mode=mode, show_extra_columns=1, log_disconnections=1, **settings)


@pytest.fixture(autouse=True)
def table(postgres):
    postgres.execute("DROP TABLE IF EXISTS gone; CREATE TABLE gone (n text); GRANT ALL ON gone TO PUBLIC", database="p0")
    yield
    postgres.execute("DROP TABLE gone", database="p0")


def rows(postgres):
    return [n for (n,) in postgres.execute("SELECT n FROM gone ORDER BY n", database="p0")]


def sleeps(postgres, pid):
    """Waits until the server process executes pg_sleep."""
    until(lambda: postgres.execute("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s", (pid,)) == [(True,)], "it runs")


def kept(weir, pid, cancels):
    """The next client gets the same server, which is in no transaction."""
    client = weir.client()
    assert client.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").value == "0"
    assert pid_of(client) == pid
    row = weir.pool("p0")
    assert (row["gone_kept"], row["gone_cancels"]) == (1, cancels)


LEAVES = {"eof": lambda client: client.close(), "reset": lambda client: client.abort(), "terminate": lambda client: client.send(m.terminate())}


@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("leave", sorted(LEAVES))
def test_idle_in_a_transaction(scene, postgres, mode, leave):
    weir = weir_of(scene, postgres, mode=mode)
    client = weir.client()
    pid = hold(client)
    client.query("INSERT INTO gone VALUES ('no'); SELECT pg_advisory_xact_lock(1)")
    LEAVES[leave](client)
    kept(weir, pid, 0)
    assert rows(postgres) == []


def test_failed_transaction(scene, postgres):
    weir = weir_of(scene, postgres)
    client = weir.client()
    pid = hold(client)
    assert client.query("SELECT 1/0").status == "E"
    client.close()
    kept(weir, pid, 0)


@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("leave", ("eof", "reset"))
def test_a_query_is_cancelled(scene, postgres, mode, leave):
    weir = weir_of(scene, postgres, mode=mode)
    client = weir.client()
    pid = hold(client)
    client.query("SELECT pg_advisory_xact_lock(1)")
    ask_long(client)
    LEAVES[leave](client)
    kept(weir, pid, 1)
    assert weir.wait_log("canceling the query of a client that has left")


def test_a_query_before_terminate_is_executed(scene, postgres):
    """PostgreSQL reads the Terminate after the query. A client that leaves later without one is cancelled first."""
    weir = weir_of(scene, postgres, size=2)
    with postgres.connect(database="p0") as holder:
        holder.cursor().execute("SELECT pg_advisory_xact_lock(7)")
        client, other = weir.client(), weir.client()
        ask(client, "INSERT INTO gone SELECT 'yes' FROM pg_advisory_xact_lock(7)")
        client.send(m.terminate())
        ask_long(other)
        other.close()
        weir.wait_log("canceling the query of a client that has left")
    until(lambda: rows(postgres) == ["yes"], "the row is stored")
    row = weir.pool("p0")
    assert (row["gone_kept"], row["gone_cancels"]) == (2, 1)


def test_a_batch_without_a_sync_is_rolled_back(scene, postgres):
    """A Sync alone would commit it."""
    weir = weir_of(scene, postgres)
    client = weir.client()
    pid = pid_of(client)
    client.send(m.run("INSERT INTO gone VALUES ('no')"), m.flush())
    client.expect_all("12nC")
    client.close()
    kept(weir, pid, 0)
    assert rows(postgres) == []


def test_a_batch_that_runs_is_cancelled(scene, postgres):
    weir = weir_of(scene, postgres)
    client = weir.client()
    pid = pid_of(client)
    client.send(m.run("INSERT INTO gone VALUES ('no')"), m.run("SELECT pg_sleep(3600)"))
    sleeps(postgres, pid)
    client.close()
    kept(weir, pid, 1)
    assert rows(postgres) == []


def test_a_pipeline(scene, postgres):
    """The batches that had their Sync when the client left are committed, except for the one that is cancelled."""
    weir = weir_of(scene, postgres)
    client = weir.client()
    pid = pid_of(client)
    client.send(m.run("INSERT INTO gone VALUES ('a')"), m.sync(), m.run("INSERT INTO gone VALUES ('b')"), m.run("SELECT pg_sleep(3600)"), m.sync(),
                m.run("INSERT INTO gone VALUES ('c')"), m.sync(), m.run("INSERT INTO gone VALUES ('d')"))
    client.expect_all("12nCZ")
    client.close()
    kept(weir, pid, 1)
    assert rows(postgres) == ["a", "c"]


@pytest.mark.parametrize("half", (False, True))
@pytest.mark.parametrize("how", ("simple", "batch", "batch-sync", "transaction"))
def test_copy_from(scene, postgres, how, half):
    weir = weir_of(scene, postgres)
    client = weir.client()
    pid = hold(client) if how == "transaction" else pid_of(client)
    copy = "COPY gone FROM STDIN"
    client.send(m.query(copy) if how in ("simple", "transaction") else m.run(copy) + (m.sync() if how == "batch-sync" else m.flush()))
    client.expect_all("G" if how in ("simple", "transaction") else "12nG")
    client.send(m.copy_data(b"one\n"), m.copy_data(b"two\n" * 1000)[:3000 if half else None])
    weir.barrier()
    client.close()
    kept(weir, pid, 0)
    assert rows(postgres) == []


def test_copy_from_that_begins_later(scene, postgres):
    weir = weir_of(scene, postgres, client_gone="finish")
    client = weir.client()
    pid = pid_of(client)
    ask(client, "SELECT pg_sleep(0.2); COPY gone FROM STDIN")
    client.close()
    kept(weir, pid, 0)


def test_copy_to_is_dropped(scene, postgres):
    weir = weir_of(scene, postgres)
    client = weir.client(receive_buffer=4096)
    pid = hold(client)
    ask(client, "COPY (SELECT repeat('x', 1000), generate_series(1, 100000000)) TO STDOUT")
    client.expect("H")
    client.close()
    kept(weir, pid, 1)


def test_finish_does_not_cancel(scene, postgres):
    weir = weir_of(scene, postgres, client_gone="finish")
    client = weir.client()
    pid = pid_of(client)
    ask(client, "DO $$ BEGIN PERFORM pg_sleep(0.5); INSERT INTO gone VALUES ('yes'); END $$")
    until(lambda: weir.pool("p0")["sv_active"] == 1, "the query runs")
    client.close()
    kept(weir, pid, 0)
    assert rows(postgres) == ["yes"]


def test_close(scene, postgres):
    weir = weir_of(scene, postgres, client_gone="close")
    client = weir.client()
    pid = hold(client)
    client.close()
    assert pid_of(weir.client()) != pid
    weir.wait_log("client disconnect while server was not ready")


def test_the_limit(scene, postgres):
    weir = weir_of(scene, postgres, client_gone="finish", client_gone_timeout=0.3)
    client = weir.client()
    pid = hold(client)
    ask_long(client)
    client.close()
    assert pid_of(weir.client()) != pid
    weir.wait_log(r"client has left, and the server is not ready \(client_gone_timeout\)")
    postgres.execute("SELECT pg_terminate_backend(%s)", (pid,))


@pytest.mark.parametrize("session_state", ("full", "off"))
def test_state_of_the_client_does_not_stay(scene, postgres, session_state):
    """DISCARD ALL, in transaction mode too."""
    weir = weir_of(scene, postgres, session_state=session_state, server_reset_query_always=int(session_state == "off"))
    client = weir.client()
    pid = hold(client)
    client.query("SET work_mem = '77kB'; CREATE TEMP TABLE mine (n int); PREPARE mine AS SELECT 1; SELECT pg_advisory_lock(7)")
    client.send(m.query("COMMIT; CREATE TEMP TABLE other (n int); SELECT pg_sleep(3600)"))
    sleeps(postgres, pid)
    client.close()
    kept(weir, pid, 1)
    other = weir.client()
    assert other.query("SELECT count(*) FROM pg_class WHERE relpersistence = 't'").value == "0"
    assert other.query("SELECT count(*) FROM pg_prepared_statements WHERE from_sql").value == "0"
    assert other.query("SHOW work_mem").value != "77kB"


def test_prepared_statements_survive(scene, postgres):
    """Statements whose answers came after the client had left are known."""
    weir = weir_of(scene, postgres, max_prepared_statements=100)
    client = weir.client()
    pid = hold(client)
    client.send(m.parse("SELECT pg_sleep(0.02)", "s"), m.bind("s"), m.execute(), m.parse("SELECT 'x'", "t"), m.close("S", "t"), m.sync())
    client.close()
    kept(weir, pid, 0)
    other = weir.client()
    for text, name in (("SELECT pg_sleep(0.02)", "a"), ("SELECT 'x'", "b")):
        other.send(m.parse(text, name), m.bind(name), m.execute(), m.sync())
        assert other.result().types == "12DCZ"
    assert pid_of(other) == pid


def test_many_clients_at_once(scene, postgres):
    """No new server connection, although each application died in its query."""
    weir = weir_of(scene, postgres, size=5)
    clients = [weir.client() for _ in range(5)]
    pids = sorted(hold(client) for client in clients)
    for client in clients:
        ask_long(client)
    for client in clients:
        client.abort()
    clients = [weir.client() for _ in range(5)]
    assert sorted(hold(client) for client in clients) == pids


def test_pause_waits(scene, postgres):
    weir = weir_of(scene, postgres, client_gone_delay=0.3)
    client = weir.client()
    hold(client)
    ask_long(client)
    client.close()
    weir.admin("PAUSE")
    assert weir.show("SERVERS") == []
    weir.admin("RESUME")
    assert weir.client().query("SELECT 1").value == "1"


def test_suspend_waits_with_the_cancel_request(scene, postgres):
    """The query runs on; RESUME cancels it."""
    weir = weir_of(scene, postgres, client_gone_delay=0.1)
    client = weir.client()
    pid = pid_of(client)
    ask(client, "SELECT pg_sleep(3600)")
    sleeps(postgres, pid)
    weir.admin("SUSPEND")
    client.close()
    weir.barrier()
    assert weir.pool("p0")["gone_cancels"] == 0
    weir.admin("RESUME")
    kept(weir, pid, 1)


@pytest.mark.parametrize("when", ("before", "within"))
def test_suspend_of_a_server_without_its_client(scene, postgres, when):
    """The client has left before the SUSPEND; the answer arrives within it, or the cancel request is sent after it."""
    weir = weir_of(scene, postgres, client_gone="finish" if when == "within" else "cancel", client_gone_delay=1)
    client = weir.client()
    pid = pid_of(client)
    ask(client, "SELECT pg_sleep(%s)" % ("0.3" if when == "within" else "3600"))
    client.close()
    until(lambda: weir.pool("p0")["cl_active"] == 0, "the client has left")
    weir.admin("SUSPEND")
    if when == "within":
        until(lambda: postgres.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", (pid,)) == [("idle",)], "the query has ended")
    weir.barrier()
    assert weir.pool("p0")["gone_kept"] == 0
    weir.admin("RESUME")
    kept(weir, pid, int(when == "before"))


@pytest.mark.parametrize("how", ("cancel", "finish"))
def test_online_restart(scene, postgres, how):
    """The server of the query stays with the process that was replaced, which ends with the query."""
    weir = weir_of(scene, postgres, kind=Replaced, client_gone=how, client_gone_delay=4, server_tls_sslmode="disable")
    client = weir.client()
    pid = hold(client)
    client.query("INSERT INTO gone VALUES ('no')")
    with postgres.connect(database="p0") as holder:
        holder.cursor().execute("SELECT pg_advisory_xact_lock(7)")
        ask(client, "SELECT pg_advisory_xact_lock(7)")
        until(lambda: weir.pool("p0")["sv_active"] == 1, "the query runs")
        client.close()
        until(lambda: weir.pool("p0")["cl_active"] == 0, "the client has left")
        old = weir.replace()
        assert pid_of(weir.client()) != pid
        if how == "cancel":
            assert old.wait(DEADLINE) == 0
    assert old.wait(DEADLINE) == 0
    assert ("canceling the query" in weir.log_of(old)) == (how == "cancel")
    until(lambda: postgres.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (pid,)) == [(0,)], "the server has ended")
    assert rows(postgres) == []


def test_a_failed_batch_with_a_query_after_it(scene, postgres):
    """The server skips the Query too, until a Sync that no client sends."""
    weir = weir_of(scene, postgres)
    client = weir.client()
    pid = pid_of(client)
    client.send(m.parse("SELECT 1/"), m.query("INSERT INTO gone VALUES ('no')"))
    assert client.expect("E")
    client.close()
    kept(weir, pid, 0)
    assert rows(postgres) == []
