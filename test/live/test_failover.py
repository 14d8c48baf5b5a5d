"""A planned switchover between real servers, with pgbench and single clients at work; wire/test_failover.py has the rules one by one."""
import re
import subprocess

import pytest

from support import messages as m
from support.postgres import SECRETS, tool
from support.until import DEADLINE, until

INSERT = "INSERT INTO t VALUES (1) RETURNING pg_backend_pid()"


@pytest.fixture
def nodes(scene):
    cluster = scene.nodes(standbys=1)
    cluster.primary.execute("CREATE TABLE t (i int); GRANT ALL ON t TO app", database="p0")
    cluster.wait_replayed()
    return cluster


def start(scene, nodes, **settings):
    settings.setdefault("pool_mode", "transaction")
    return scene.weir({"p0": nodes.target("p0", target_session_attrs="primary")}, server_login_retry=0, host_check_user="postgres", users=SECRETS, **settings)


def switch_over(nodes):
    """The primary shuts down, and its standby, which has everything, is promoted."""
    first, second = nodes.primary, nodes.standbys[0]
    nodes.stop(first)
    nodes.promote(second, follow=False)
    return first, second


def rows(nodes):
    return nodes.primary.value("SELECT count(*) FROM t", database="p0")


def pgbench(weir, directory, hand, script, clients=4):
    path = "%s/script.sql" % directory
    with open(path, "w", encoding="utf-8") as f:
        f.write(script)
    # pylint: disable-next=consider-using-with
    return subprocess.Popen([tool("pgbench"), "-n", "-c", str(clients), "-T", "3600", "-M", hand, "-f", path, "-h", weir.host, "-p", str(weir.port), "-U", "app",
                             "p0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def transactions_of(weir):
    return sum(int(row["total_xact_count"]) for row in weir.show("STATS"))


@pytest.mark.parametrize("hand", ["simple", "extended", "prepared"])
def test_single_statements_notice_only_a_delay(scene, nodes, directory, hand):
    """Each of them is executed once."""
    weir = start(scene, nodes, default_pool_size=4)
    running = pgbench(weir, directory, hand, "INSERT INTO t VALUES (2);\nSELECT count(*) FROM t;\n")
    try:
        until(lambda: transactions_of(weir) > 200, "pgbench is at work")
        switch_over(nodes)
        before = transactions_of(weir)
        until(lambda: transactions_of(weir) > before + 200, "pgbench goes on", deadline=3 * DEADLINE)
        assert running.poll() is None, running.stdout.read()
    finally:
        running.terminate()
        output = running.communicate()[0]
    assert "ERROR" not in output and "aborted" not in output and "FATAL" not in output, output


def test_each_acknowledged_statement_is_there_once(scene, nodes):
    weir = start(scene, nodes, default_pool_size=4)
    clients = [weir.client() for _ in range(4)]
    acknowledged = 0
    for turn in range(60):
        for client in clients:
            client.send(m.query("INSERT INTO t VALUES (%d)" % turn))
        if turn == 30:
            switch_over(nodes)
        for client in clients:
            result = client.result()
            assert result.tags == ["INSERT 0 1"], result.errors
            acknowledged += 1
    assert rows(nodes) == acknowledged


def test_statement_that_runs_during_the_shutdown(scene, nodes):
    weir = start(scene, nodes)
    client = weir.client()
    client.send(m.query("INSERT INTO t SELECT 1 FROM pg_sleep(CASE WHEN inet_server_port() = %d THEN 3600 ELSE 0 END)" % nodes.primary.port))
    first = nodes.primary
    until(lambda: first.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), "the statement runs")
    switch_over(nodes)
    assert client.result().tags == ["INSERT 0 1"]
    assert rows(nodes) == 1


def test_deferred_constraint_at_commit(scene, nodes):
    """The commit itself is under way, before its record."""
    nodes.primary.execute("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF inet_server_port() = %d THEN PERFORM pg_sleep(3600); END IF; "
                          "RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER c AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()"
                          % nodes.primary.port, database="p0")
    nodes.wait_replayed()
    weir = start(scene, nodes)
    client = weir.client()
    client.send(m.query("INSERT INTO t VALUES (1)"))
    first = nodes.primary
    until(lambda: first.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), "the trigger runs")
    switch_over(nodes)
    assert client.result().tags == ["INSERT 0 1"]
    assert rows(nodes) == 1


def test_wait_for_a_synchronous_standby(scene, nodes):
    """The transaction is committed, and PostgreSQL answers only with a warning: the statement is not sent again."""
    first, second = nodes.primary, nodes.standbys[0]
    weir = start(scene, nodes)
    client = weir.client()
    client.query("SELECT 1")
    first.set("synchronous_standby_names", "nobody")
    client.send(m.query("INSERT INTO t VALUES (1)"))
    until(lambda: first.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), "the commit waits")
    nodes.wait_replayed()
    nodes.stop(first)
    got = client.drain()
    assert [message.type for message in got] == ["N", "E"] and m.read_error(got[1].body)["C"] == "08007"
    second.execute("ALTER SYSTEM RESET synchronous_standby_names") if not second.is_in_recovery() else None
    nodes.promote(second, follow=False)
    assert second.value("SELECT count(*) FROM t", database="p0") == 1


def test_backend_that_an_administrator_terminates(scene, nodes):
    weir = start(scene, nodes)
    client = weir.client()
    client.send(m.query("SELECT pg_sleep(3600)"))
    find = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    until(lambda: nodes.primary.execute(find), "the statement runs")
    nodes.primary.execute("SELECT pg_terminate_backend(pid) FROM (%s) a" % find)
    (error,) = client.drain()
    assert m.read_error(error.body)["C"] == "57P01"
    assert weir.client().query("SELECT 1").value == "1"


def test_transaction_gets_one_clear_error(scene, nodes):
    weir = start(scene, nodes, default_pool_size=2)
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    client.query("INSERT INTO t VALUES (1)")
    switch_over(nodes)
    (error,) = client.drain()
    error = m.read_error(error.body)
    assert error["C"] == "57P01" and error["S"] == "FATAL", error
    assert other.query("SELECT count(*) FROM t").value == "0"


def test_commit_of_a_killed_primary(scene, nodes):
    """Its answer never comes: the wait for a synchronous standby is cut off."""
    first, second = nodes.primary, nodes.standbys[0]
    weir = start(scene, nodes)
    client = weir.client()
    first.set("synchronous_standby_names", "nobody")
    client.query("BEGIN")
    client.query("INSERT INTO t VALUES (1)")
    client.send(m.query("COMMIT"))
    until(lambda: first.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), "the commit waits")
    nodes.kill9(first)
    (error,) = client.drain()
    error = m.read_error(error.body)
    assert error["C"] == "08007" and re.search("committed or not", error["M"]), error
    nodes.promote(second, follow=False)


def test_prepared_statement_and_settings_follow(scene, nodes):
    weir = start(scene, nodes, session_state="full")
    client = weir.client()
    client.query("SET work_mem = '7MB'")
    client.send(m.parse("INSERT INTO t VALUES ($1) RETURNING current_setting('work_mem')", "n"), m.sync())
    client.result()
    for turn in range(2):
        client.send(m.bind("n", values=(b"1",)), m.execute(), m.sync())
        assert client.result().value == "7MB"
        if turn == 0:
            switch_over(nodes)
    assert rows(nodes) == 2
