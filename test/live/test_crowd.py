"""Many clients, few servers; and servers that die under them."""
import os
import resource
import signal
import subprocess
import threading

import psycopg
import pytest

from support import messages as m
from support.pooled_postgres import PooledPostgres
from support.live import NEVER, last_words, pid_of
from support.postgres import SECRETS, tool
from support.until import DEADLINE, until

READY = "database system is ready to accept connections"


@pytest.fixture
def many_descriptors():
    """A thousand sockets are more than the usual soft limit. The hard one, which is pgweir's as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("mode", ["transaction", "statement", "session"])
def test_1000_clients_on_a_pool_of_4_all_finish(scene, postgres, many_descriptors, mode):
    weir = scene.weir({"p0": postgres}, pool_mode=mode, default_pool_size=4, max_client_conn=1100, listen_backlog=1024)
    clients = [weir.client() for _ in range(1000)]
    for count in range(1 if mode == "session" else 2):
        for number, client in enumerate(clients):
            client.send(m.query("SELECT %d, %d" % (number, count)))
        for number, client in enumerate(clients):
            assert client.result().rows == [[str(number).encode(), str(count).encode()]]
            if mode == "session":
                client.quit()
    assert len(set(row["remote_pid"] for row in weir.show("SERVERS"))) <= 4
    for client in clients:
        client.close()
    until(lambda: weir.pool("p0")["cl_active"] == 0, "all have left")
    weir.wait_pool("p0", cl_waiting=0, sv_active=0)


def test_10000_clients_are_idle_while_100_work(scene, postgres, many_descriptors):
    if many_descriptors < 10500:
        pytest.skip("the hard limit for open files is %d: too low for ten thousand clients" % many_descriptors)
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=4, max_client_conn=10200,
                      listen_backlog=1024, measured=True)
    workers = [weir.client() for _ in range(100)]
    memory, idle = weir.memory(), []
    for _ in range(20):
        arriving = [weir.connect() for _ in range(500)]
        for client in arriving:
            client.send(m.startup(user="app", database="p0"))
        for client in arriving:
            client.finish_login("app")
        idle += arriving
    # one struct per client, and no buffers
    assert weir.memory() < memory + 10000 * 2
    for turn in range(20):
        for number, worker in enumerate(workers):
            worker.send(m.query("SELECT %d, %d" % (number, turn)))
        for number, worker in enumerate(workers):
            assert worker.result().rows == [[str(number).encode(), str(turn).encode()]]
    assert weir.pool("p0")["cl_active"] == 10100
    for number, client in enumerate(idle):
        assert client.query("SELECT %d" % number).value == str(number)
        client.close()
    weir.wait_pool("p0", cl_active=100, cl_waiting=0)


def test_1000_logins_at_once(scene, postgres, many_descriptors):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=4, max_client_conn=1100,
                      listen_backlog=1024, auth_type="scram-sha-256")
    clients = [weir.connect() for _ in range(1000)]
    for client in clients:
        client.send(m.startup(user="app", database="p0"))
    for client in clients:
        client.finish_login("app", "app-secret")
    assert pid_of(clients[-1])


class Load:
    """Threads that run small transactions and connect again when they must; every answer is checked."""

    def __init__(self, weir, count):
        self._parameters = dict(host=weir.host, port=weir.port, user="app", dbname="p0", autocommit=True,
                                prepare_threshold=None)
        self._stop = threading.Event()
        self.done = 0
        self.wrong = []
        self.failures = set()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number):
        count = 0
        while not self._stop.is_set():
            try:
                with psycopg.connect(**self._parameters) as connection:
                    while not self._stop.is_set():
                        count += 1
                        (got,) = connection.execute("SELECT %s::text", ("%d/%d" % (number, count),)).fetchone()
                        if got != "%d/%d" % (number, count):
                            self.wrong.append(got)
                        self.done += 1
            except psycopg.OperationalError as why:
                self.failures.add(str(why).strip())
                # or all of them would do nothing but fail
                self._stop.wait(0.02)

    def wait_for_more(self, count=200):
        goal = self.done + count
        until(lambda: self.done >= goal, "transactions go through")

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), "a client hangs"
        assert not self.wrong


def test_killed_backend(scene):
    """kill -9 of one backend makes PostgreSQL end all of them and start over."""
    server = scene.postgres()
    weir = scene.weir({"p0": server}, pool_mode="transaction", default_pool_size=4)
    load = Load(weir, 8)
    for _ in range(3):
        load.wait_for_more()
        starts = server.log().count(READY)
        os.kill(server.backends("p0")[0], signal.SIGKILL)
        until(lambda: server.log().count(READY) > starts, "PostgreSQL has started over", deadline=3 * DEADLINE)
        load.wait_for_more()
    load.stop()
    assert load.failures


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_restart_of_the_server_under_load(scene, how):
    """
    Trap 88. Service is back before server_login_retry has passed: a server that is away is looked for all along. Meanwhile
    clients that wait go on waiting, and new clients are told.
    """
    server = scene.postgres()
    weir = scene.weir({"p0": server}, pool_mode="transaction", default_pool_size=4, server_login_retry=NEVER,
                      show_extra_columns=1)
    load = Load(weir, 8)
    for _ in range(2):
        load.wait_for_more()
        server.stop(how)
        until(lambda: "connect failed" in (weir.pool("p0")["login_error"] or ""), "the server is missed")
        newcomer = weir.client()
        newcomer.send(m.query("SELECT 1"))
        assert "connect failed" in last_words(newcomer)["M"]
        server.start()
        load.wait_for_more()
    load.stop()


def test_restart_of_the_server_under_pgbench(scene, authority):
    """pgbench gives up clients that lose their connection, or wait in vain; no client hangs, and the next run is whole."""
    server = scene.postgres()
    subprocess.run([tool("pgbench"), "-i", "-q", "-h", server.host, "-p", str(server.port), "-U", "app", "p0"],
                   check=True, capture_output=True, env=dict(os.environ, PGPASSWORD=SECRETS["app"]))
    pooled = PooledPostgres(scene, server, authority, "transaction", "tcp", server_login_retry=0.1, query_wait_timeout=1)
    running = subprocess.Popen([tool("pgbench"), "-n", "-c", "8", "-T", "3600"], env=pooled.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: sum(int(row["total_xact_count"]) for row in pooled.weir.show("STATS")) > 100, "pgbench is at work")
    server.stop(signal.SIGINT)
    assert running.wait(DEADLINE) != 0
    server.start()
    until(lambda: pooled.run("pgbench", "-n", "-c", "8", "-t", "20", check=False).returncode == 0, "service is back")


def test_terminated_backends_are_replaced(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=4)
    load = Load(weir, 8)
    for _ in range(10):
        load.wait_for_more(100)
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'p0'")
    load.wait_for_more()
    load.stop()
    assert all("terminating connection due to administrator command" in text or "server conn crashed" in text
               for text in load.failures), load.failures


def test_terminated_idle_backend_is_not_lent(scene, postgres):
    """Trap 13."""
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    client = weir.client()
    pid = pid_of(client)
    postgres.execute("SELECT pg_terminate_backend(%s)", (pid,))
    weir.wait_log("S-.*FATAL terminating connection due to administrator command")
    assert pid_of(client) != pid
