"""Online restarts in front of a real PostgreSQL, under drivers at work: no error, and every sum right."""
import os
import random
import subprocess
import threading

import psycopg
import pytest

from support import messages as m
from support.bank import Bank
from support.client_errors import ClientErrors
from support.live import NEVER, hold, let_go, pid_of
from support.postgres import tool
from support.takeover import Replaced
from support.bank_clients import Asynchronous, Pipelined, Plain, Porter, Prepared, Visitor, bank_clients
from support.threads import run_in_threads
from support.until import DEADLINE, until

TIMES = 5


def replaced(scene, postgres, **settings):
    """Without TLS to the servers, which would keep them from going along."""
    return scene.weir({"p0": postgres, "p2": postgres}, kind=Replaced, auth_type="scram-sha-256", server_idle_timeout=NEVER,
                      **{"default_pool_size": 4, "pool_mode": "transaction", "server_tls_sslmode": "disable", **settings})


def gone(process):
    assert process.wait(DEADLINE) == 0


@pytest.fixture
def accounts(postgres):
    postgres.execute("DROP TABLE IF EXISTS accounts; CREATE TABLE accounts AS SELECT n::int AS id, 0::bigint AS balance FROM "
                     "generate_series(1, 10) n; ALTER TABLE accounts ADD PRIMARY KEY (id), OWNER TO app", database="p0")
    yield
    postgres.execute("DROP TABLE accounts", database="p0")


@pytest.mark.parametrize("mode, tls", [("transaction", "disable"), ("session", "disable"), ("transaction", "require")])
def test_five_times_in_a_row_under_drivers(scene, postgres, mode, tls):
    weir = replaced(scene, postgres, pool_mode=mode, server_tls_sslmode=tls, default_pool_size=4 if mode == "transaction" else 20)
    bank, client_errors = Bank(postgres), ClientErrors()
    crew = bank_clients([Plain, Plain, Prepared, Prepared, Pipelined, Asynchronous, Visitor, Porter], bank, weir, client_errors, random.Random(mode + tls))

    def administrate():
        try:
            for _ in range(TIMES):
                bank.wait_for_more()
                weir.replace()
        finally:
            bank.over.set()

    run_in_threads(administrate, *(bank_client.run for bank_client in crew))
    for predecessor in weir.predecessors:
        gone(predecessor)
    bank.audit()
    bank.close()
    assert not client_errors.counts


def transactions(weir, database):
    return sum(row["xact_count"] for row in weir.show("STATS_TOTALS") if row["database"] == database)


def test_pgbench_notices_nothing(scene, postgres, bench):
    """
    Prepared, with permanent connections, and with a new connection for each transaction. There is a server for each client: while a thread of pgbench
    waits to prepare, its other clients keep their transactions open.
    """
    weir = replaced(scene, postgres, default_pool_size=10)
    environment = dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(weir.port), PGUSER="app", PGPASSWORD="app-secret", PGSSLMODE="disable")
    runs = [subprocess.Popen([tool("pgbench"), "-n", "-c", "6", "-T", "600", "-M", "prepared", *more, bench],
                             env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for more in ([], ["-C", "-c", "2"])]
    try:
        for _ in range(TIMES):
            goal = transactions(weir, bench) + 100
            until(lambda: transactions(weir, bench) > goal or any(run.poll() for run in runs), "transactions")    # pylint: disable=cell-var-from-loop
            weir.replace()
        assert all(run.poll() is None for run in runs), [run.stderr.read() for run in runs if run.poll() is not None]
    finally:
        for run in runs:
            run.terminate()
        said = [run.communicate(timeout=DEADLINE)[1] for run in runs]
    assert not [line for text in said for line in text.splitlines() if "ERROR" in line or "error" in line or "aborted" in line]


def test_sessions_are_handed_over(scene, postgres):
    """Session-level objects in session mode: temporary tables, settings, LISTEN, advisory locks."""
    weir = replaced(scene, postgres, pool_mode="session")
    client = weir.client()
    backend = pid_of(client)
    client.query("CREATE TEMP TABLE mine AS SELECT 42 AS n")
    client.query("SET work_mem = '77MB'")
    client.query("LISTEN news")
    client.query("SELECT pg_advisory_lock(7)")
    gone(weir.replace())
    assert pid_of(client) == backend
    assert client.query("SELECT n FROM mine").value == "42"
    assert client.query("SHOW work_mem").value == "77MB"
    weir.replace()
    postgres.execute("NOTIFY news, 'heard'", database="p0")
    assert client.expect("A").body.endswith(b"news\0heard\0")
    client.quit()
    # and the server is fit for another client
    with weir.client() as other:
        assert pid_of(other) == backend
        assert other.query("SHOW work_mem").value != "77MB"


def test_transactions_and_locks_are_handed_over(scene, postgres, accounts):     # pylint: disable=unused-argument
    weir = replaced(scene, postgres)
    one, two = weir.client(), weir.client()
    backend = hold(one)
    one.query("UPDATE accounts SET balance = 5 WHERE id = 1")
    two.send(m.query("UPDATE accounts SET balance = balance + 1 WHERE id = 1 RETURNING balance"))
    until(lambda: postgres.execute("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(1,)], "the second waits for the first")
    weir.replace()
    assert pid_of(one) == backend
    let_go(one)
    assert two.result().value == "6"


def test_keys_are_handed_over(scene, postgres):
    """The user list has SCRAM secrets only: keys recovered from a login also work for server logins of the next process."""
    (secret,), = postgres.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")
    weir = replaced(scene, postgres, users={"app": secret}, default_pool_size=3)
    clients = []
    for _ in range(3):
        clients.append(weir.connect())
        clients[-1].login(password="app-secret", user="app", database="p0")
    hold(clients[0])
    weir.replace()
    hold(clients[1])
    weir.replace()
    hold(clients[2])
    for client in clients:
        let_go(client)


def test_looked_up_users_are_handed_over(scene, postgres):
    """The same for a user that auth_query has found."""
    weir = scene.weir({"p0": postgres.target("p0") + " auth_user=postgres"}, kind=Replaced, auth_type="scram-sha-256",
                      pool_mode="transaction", default_pool_size=3, server_idle_timeout=NEVER)
    weir.users = {name: secret for name, secret in weir.users.items() if name not in ("app",)}
    weir.write_users()
    weir.admin("RELOAD")
    clients = []
    for _ in range(2):
        clients.append(weir.connect())
        clients[-1].login(password="app-secret", user="app", database="p0")
    hold(clients[0])
    weir.replace()
    hold(clients[1])
    for client in clients:
        let_go(client)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_tls_to_the_servers(scene, postgres, mode):
    """Server connections with TLS are not handed over: idle ones are closed, a busy one keeps its client in the old process."""
    weir = replaced(scene, postgres, pool_mode=mode, server_tls_sslmode="require")
    busy, idle = weir.client(), weir.client()
    backend = hold(busy)
    idle.query("SELECT 1")
    old = weir.replace()
    assert weir.counts()[3] == (2 if mode == "session" else 1)
    assert pid_of(busy) == backend
    let_go(busy)
    assert idle.query("SELECT 2").value == "2"
    assert old.poll() is None
    busy.quit()
    idle.quit()
    gone(old)


def test_show_fds_while_everything_moves(scene, postgres):
    """Trap 84: asked again and again, with logins queued and takeovers between."""
    weir = replaced(scene, postgres, default_pool_size=2)
    over = threading.Event()

    def come_and_go():
        while not over.is_set():
            with psycopg.connect(weir.dsn(), autocommit=True) as connection:
                connection.execute("SELECT 1")

    def look():
        try:
            for turn in range(60):
                rows = weir.show("FDS")
                assert {row["task"] for row in rows} <= {"pooler", "client", "server"}
                assert sum(row["task"] == "pooler" for row in rows) == 2
                if turn % 15 == 7:
                    weir.replace()
        finally:
            over.set()

    run_in_threads(look, come_and_go, come_and_go, come_and_go)
