"""Traps 79 to 82 and 84 with a real server: the console while clients come, work and wait."""
import signal
import threading

import psycopg
import psycopg2

from support import messages as m
from support.live import NEVER, ask_long, hold, let_go, pid_of
from support.scenes import transactions
from support.until import until


def console(weir):
    return weir.client("admin", "pgbouncer")


class Load:
    """Clients that come, ask and go, in threads, until the block ends. Their faults are raised there."""

    def __init__(self, weir, count, work):
        self.rounds = 0
        self._faults = []
        self._stopped = False
        self._threads = [threading.Thread(target=self._run, args=(weir, work), daemon=True) for _ in range(count)]

    def _run(self, weir, work):
        try:
            while not self._stopped:
                work(weir)
                self.rounds += 1
        except Exception as fault:      # pylint: disable=broad-except
            self._faults.append(fault)

    def more(self, count):
        wanted = self.rounds + count
        until(lambda: self.rounds >= wanted or self._faults, "%d more rounds" % count)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopped = True
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]


def come_and_ask(weir):
    with weir.client() as client:
        assert client.query("SELECT 1").value == "1"
        client.send(m.terminate())


def test_trap_79_pause_that_another_console_ends(scene, postgres):
    """PAUSE waited forever after RESUME had ended the pause."""
    weir = transactions(scene, {"p0": postgres})
    for name in (" p0", ""):
        client, first, second = weir.client(), console(weir), console(weir)
        ask_long(client)
        first.send(m.query("PAUSE" + name))
        weir.wait_log("PAUSE .*command issued" if name else "PAUSE command issued")
        weir.barrier()
        assert not first.has_input()
        assert second.query("RESUME" + name).tags == ["RESUME"]
        assert "RESUME" in first.result().error
        weir.cancel(client).expect_closed()
        assert client.result().errors
        assert client.query("SELECT 1").value == "1"


def test_trap_80_pause_under_load(scene, postgres):
    """PAUSE closed a server in its login, which counted as a failure of the server; a paused database still opened servers."""
    weir = transactions(scene, {"p0": postgres}, pool_size=3, server_lifetime=0)
    with Load(weir, 4, come_and_ask) as load:
        for name in (" p0", "") * 10:
            assert weir.admin("PAUSE" + name) == "PAUSE"
            assert weir.pool("p0")["sv_active"] + weir.pool("p0")["sv_idle"] + weir.pool("p0")["sv_login"] == 0
            assert weir.admin("RESUME" + name) == "RESUME"
            load.more(3)
    assert "server login failed" not in weir.log()


def test_trap_81_reload_keeps_servers(scene, postgres, authority):
    """Every RELOAD closed all TLS connections to servers."""
    weir = transactions(scene, {"p0": postgres}, server_tls_sslmode="verify-ca", server_tls_ca_file=authority.cert("ca"),
                        server_idle_timeout=NEVER)
    client = weir.client()
    pid = pid_of(client)
    with Load(weir, 2, come_and_ask) as load:
        for _ in range(20):
            weir.admin("RELOAD")
            load.more(2)
    assert pid_of(client) == pid


def test_trap_81_change_and_revert(scene, postgres):
    """A change that was reverted was not noticed, and the pool kept the intermediate value."""
    weir = transactions(scene, {"p0": postgres})
    client = weir.client()
    for target in ("p0", "p1", "p0", "p1", "p0"):
        weir.databases["p0"] = postgres.target(target)
        weir.write_ini()
        weir.admin("RELOAD")
        assert client.query("SELECT current_database()").value == target
    # both changes before the server is given back for the first time
    hold(client)
    for target in ("p1", "p0"):
        weir.databases["p0"] = postgres.target(target)
        weir.write_ini()
        weir.admin("RELOAD")
    let_go(client)
    assert client.query("SELECT current_database()").value == "p0"


def test_trap_82_console_during_shutdown(scene, postgres):
    """A pooler that waited for its clients locked its administrator out, refused RESUME, and closed idle clients."""
    weir = transactions(scene, {"p0": postgres})
    busy, idle = weir.client(), weir.client()
    hold(busy)
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM")
    admin = weir.client("admin", "pgbouncer", unix=True)
    admin.send(m.query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    idle.send(m.query("SELECT 'held'"))
    let_go(busy)
    assert admin.result().tags == ["PAUSE"]
    assert len([row for row in admin.query("SHOW CLIENTS").rows if row[1] == b"app"]) == 2
    assert not idle.has_input()
    assert admin.query("RESUME").tags == ["RESUME"]
    assert idle.result().value == "held"
    busy.quit()
    idle.quit()
    assert weir.wait_exit() == 0


def test_trap_84_kill_and_show_fds_under_load(scene, postgres):
    """KILL and SHOW FDS crashed while logins were queued."""
    weir = transactions(scene, {"p0": postgres}, auth_type="scram-sha-256", allow="admin forced disconnect")

    def come_and_perhaps_ask(weir):
        try:
            come_and_ask(weir)
        except Exception:       # pylint: disable=broad-except
            pass                # errors caused by KILL are allowed

    own = weir.client("pgbouncer", "pgbouncer", unix=True)
    with Load(weir, 6, come_and_perhaps_ask) as load:
        for _ in range(25):
            assert own.query("KILL p0").tags == ["KILL"]
            assert own.query("SHOW FDS").tags == ["SHOW"]
            assert own.query("RESUME p0").tags == ["RESUME"]
            assert own.query("SHOW FDS").tags == ["SHOW"]
            load.more(2)
    assert weir.client().query("SELECT 1").value == "1"


def test_drivers_without_autocommit(scene):
    """The clients send BEGIN before the first command, and COMMIT or ROLLBACK after the last."""
    weir = scene.weir(scene.mini())
    where = dict(host=weir.host, port=weir.port, user="admin", dbname="pgbouncer", password=weir.users.get("admin"))
    for driver in psycopg2, psycopg:
        connection = driver.connect(**where)
        if driver is psycopg:
            connection.prepare_threshold = None
        for end in connection.commit, connection.rollback:
            cursor = connection.cursor()
            cursor.execute("SHOW VERSION")
            assert cursor.fetchone()[0].startswith("PgBouncer")
            end()
        connection.close()
    client = weir.client("stats", "pgbouncer")
    for command, tag in (("BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "BEGIN"), ("commit;", "COMMIT"), ("Rollback", "ROLLBACK")):
        assert client.query(command).tags == [tag]
    assert client.query("BEGIN 'x").error
