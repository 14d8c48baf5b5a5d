"""
Several processes on one port (so_reuseport), with cancel keys that find their way ([peers]), restarted one after the
other as the documentation says: SIGTERM, wait, start. Clients that reconnect notice nothing.
"""
import signal
import threading

import psycopg
import pytest

from support import messages as m
from support.live import NEVER, ask_long
from support.postgres import SECRETS
from support.until import until
from support.wire import Client, Closed


class Group:
    """Processes on one port, each a peer of the others. As peers they are reached by their Unix sockets."""

    def __init__(self, scene, postgres, count, **settings):
        settings.update(pool_mode="transaction", auth_type="scram-sha-256", so_reuseport=1, server_idle_timeout=NEVER)
        self.weirs = []
        for number in range(1, count + 1):
            first = {"listen_port": self.weirs[0].port} if self.weirs else {}
            self.weirs.append(scene.weir({"p0": postgres}, peer_id=number, **first, **settings))
        self.port = self.weirs[0].port
        for weir in self.weirs:
            weir.port = self.port
            weir.sections["peers"] = {str(n): "host=%s port=%d" % (peer.directory, self.port)
                                      for n, peer in enumerate(self.weirs, 1)}
            weir.write_ini()
            weir.signal(signal.SIGHUP)
            weir.wait_log("RELOAD: the configuration of .* is in force")

    def connect(self):
        return psycopg.connect(host="127.0.0.1", port=self.port, user="app", password=SECRETS["app"], dbname="p0",
                               autocommit=True)


class Worker:
    """An application that opens a connection for a few transactions, then another connection."""

    def __init__(self, group):
        self.group = group
        self.rounds = 0
        self.fault = None
        self.stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self.stopped:
                with self.group.connect() as connection:
                    for number in range(5):
                        with connection.transaction():
                            (answer,) = connection.execute("SELECT %s::int + 1", (number,)).fetchone()
                            assert answer == number + 1
                self.rounds += 1
        except Exception as fault:      # pylint: disable=broad-except
            self.fault = fault

    def more(self, rounds=3):
        """Waits until the application has reconnected this many times from now on, or failed."""
        enough = self.rounds + rounds
        until(lambda: self.rounds >= enough or self.fault, "%d more connections" % rounds)

    def stop(self):
        self.stopped = True
        self._thread.join()


def start_again(weir):
    starts = weir.log().count("process up")
    weir.start(wait=False)
    until(lambda: weir.log().count("process up") > starts, "it is up again")


@pytest.mark.parametrize("count", [2, 3])
def test_rolling_restart(scene, postgres, count):
    group = Group(scene, postgres, count)
    workers = [Worker(group) for _ in range(4)]
    try:
        for weir in group.weirs:
            for worker in workers:
                worker.more()
            weir.signal(signal.SIGTERM)
            assert weir.wait_exit() == 0
            for worker in workers:
                worker.more()
            start_again(weir)
        for worker in workers:
            worker.more()
    finally:
        for worker in workers:
            worker.stop()
    assert [worker.fault for worker in workers] == [None] * len(workers)
    for weir in group.weirs:
        assert not [line for line in weir.log().splitlines() if " WARNING " in line or " ERROR " in line]


def test_cancel_through_any_process(scene, postgres):
    """Wherever the kernel takes the request: the key names the process that made it."""
    group = Group(scene, postgres, 3)
    client = Client(group.port)
    client.login(user="app", database="p0", password=SECRETS["app"])
    while not all(count_reason(weir, "CANCEL_DONE") for weir in group.weirs):
        ask_long(client)
        with Client(group.port) as request:
            request.send(m.cancel_request(client.pid, client.key))
            request.expect_closed()
        assert client.result().error == "canceling statement due to user request"
    client.quit()


def count_reason(weir, reason):
    """Over the Unix socket, which is this very process's."""
    with weir.client("admin", "pgbouncer", unix=True) as console:
        return sum(int(row[4]) for row in console.query("SHOW REASONS").rows if row[0].decode() == reason)


def connects_while_it_leaves(weir):
    """Whether a client is served that sends its first bytes when the process has been told to go."""
    lines = weir.log().count("got SIGTERM")
    client = weir.connect()
    try:
        weir.signal(signal.SIGTERM)
        weir.wait_log("got SIGTERM", lines + 1)
        client.send(m.startup(user="app", database="p0"))
        client.finish_login("app", SECRETS["app"])
        assert client.query("SELECT 1").value == "1"
    except (Closed, ConnectionError):
        return False
    finally:
        client.close()
        assert weir.wait_exit() == 0
    return True


def test_accepted_connection_is_served(scene, postgres):
    """With tcp_defer_accept only the kernel knows of it before its first words, and they may be under way for a moment."""
    assert connects_while_it_leaves(scene.weir({"p0": postgres}, so_reuseport=1, tcp_defer_accept=1))


def test_client_in_its_login_is_served(scene, postgres):
    """The client has connected, and has a pending authentication request, when the process is told to end."""
    weir = scene.weir({"p0": postgres}, auth_type="plain")
    client, silent = weir.connect(), weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    silent.send(m.SSL_REQUEST)
    assert silent.read_bytes(1) == b"N"
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM")
    # a client that comes now, over the socket that stays open for the console, is too late
    late = weir.connect(unix=True).refused(user="app", database="p0")
    assert late["M"] == "pooler is shutting down"
    client.send(m.password("app-secret"))
    client.finish_login("app", "app-secret")
    assert client.query("SELECT 1").value == "1"
    client.quit()
    assert weir.is_alive()
    silent.close()
    assert weir.wait_exit() == 0


def test_shutdown_that_waits_for_servers_admits_no_client(scene, postgres):
    weir = scene.weir({"p0": postgres}, auth_type="plain", pool_mode="transaction")
    holder, client = weir.client(), weir.connect()
    holder.query("BEGIN")
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    weir.signal(signal.SIGINT)
    weir.wait_log("got SIGINT")
    client.send(m.password("app-secret"))
    assert m.read_error(client.read_until("E")[-1].body)["M"] == "pooler is shutting down"
    holder.query("COMMIT")
    assert weir.wait_exit() == 0
