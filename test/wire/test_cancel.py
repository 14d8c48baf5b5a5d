"""Traps 14 to 21: a cancel reaches the query it was meant for, or none."""
import functools
import os

import pytest

from support import messages as m
from support.live import NEVER
from support.log_words import logs_event
from support.rounds import rounds, size
from support.scenes import transactions
from support.threads import run_in_threads
from support.until import until

CANCELLED = "canceling statement due to user request"


class Gate:
    """Holds cancel requests at the server's door until the scene lets them in."""

    def __init__(self, fake):
        self.fake = fake
        self.held = []
        fake.on_cancel = lambda pid, key, connection: self.held.append((pid, key, connection))

    def wait(self, count=1):
        self.fake.until(lambda: len(self.held) >= count, "%d cancel requests at the server" % count)

    def _pass(self, pid, key, connection):
        self.fake.deliver_cancel(pid, key)
        connection.close()

    def let_in(self):
        held, self.held = self.held, []
        for request in held:
            self._pass(*request)

    def open(self):
        """Lets in the held requests; requests that come from now on are not held."""
        self.fake.on_cancel = self._pass
        self.let_in()


def start(client, fake, text="wait"):
    """Sends a query and returns when the server runs it."""
    before = len(fake.queries)
    client.send(m.query(text))
    fake.until(lambda: len(fake.queries) > before, "the query runs")


def test_client_gone_waits_for_its_cancel_request(scene):
    """The request comes after the end of its query: no other client has the server then, and the ROLLBACK is not sent before."""
    fake = scene.mini()
    gate = Gate(fake)
    weir = transactions(scene, fake, client_gone="cancel", client_gone_timeout=NEVER)
    one, two = weir.client(), weir.client()
    one.query("begin")
    start(one, fake)
    one.close()
    gate.wait()
    pid, key, _ = gate.held[0]
    fake.deliver_cancel(pid, key)
    two.send(m.query("other"))
    weir.barrier()
    assert fake.queries[-1][1] == "wait" and len(fake.started) == 1
    gate.open()
    assert two.result().value == "other"
    assert [text for _, text in fake.queries[-2:]] == ["ROLLBACK", "other"] and len(fake.started) == 1


def test_client_gone_repeats_its_cancel_request(scene):
    """The first one comes between two queries, and has no effect."""
    fake = scene.mini()
    gate = Gate(fake)
    weir = transactions(scene, fake, client_gone="cancel", client_gone_timeout=NEVER)
    client = weir.client()
    start(client, fake)
    client.close()
    gate.wait()
    gate.held.pop()[2].close()
    gate.wait()
    gate.open()
    assert weir.client().query("other").value == "other"
    assert len(fake.started) == 1


def test_cancel_reaches_its_query(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, 2)
    one, two = weir.client(), weir.client()
    start(one, fake)
    start(two, fake)
    assert one.key != two.key or one.pid != two.pid
    weir.cancel(two).expect_closed()
    assert two.result().error == CANCELLED
    weir.barrier()
    assert not one.has_input()
    weir.cancel(one).expect_closed()
    assert one.result().error == CANCELLED


def test_cancel_carries_the_servers_own_key(scene):
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client()
    start(client, fake)
    (session,) = fake.started
    weir.cancel(client)
    assert fake.next_cancel() == (session.pid, session.key)
    assert client.key != session.key
    assert client.result().error == CANCELLED


def test_cancel_of_an_idle_client_is_not_forwarded(scene):
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client()
    client.query("something")
    weir.cancel(client).expect_closed()
    assert client.query("still here").value == "still here"
    assert fake.cancels.empty()


def test_cancel_of_a_pause(scene):
    """Ctrl-C in psql during a PAUSE that waits for a session to end: afterwards no client waits."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="session")
    client, console = weir.client(), weir.client(user="admin", database="pgbouncer")
    client.query("its session")
    weir.cancel(console).expect_closed()
    console.send(m.query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    late = weir.client()
    late.send(m.query("late"))
    weir.barrier()
    assert not console.has_input() and not late.has_input()
    weir.cancel(console).expect_closed()
    result = console.result()
    assert result.error == CANCELLED and result.status == "I"
    assert late.result().value == "late"
    assert client.query("still here").value == "still here"
    assert console.query("RESUME").error == "pooler is not paused/suspended"


def test_server_of_a_pause_closes_after_its_cancel_requests(scene):
    """The session is not reset, because PAUSE closes the server: it must close also when PAUSE is over before the cancel request is."""
    fake = scene.mini()
    gate = Gate(fake)
    weir = scene.weir(fake, pool_mode="session", default_pool_size=1, server_reset_query="DISCARD ALL")
    client, console = weir.client(), weir.client(user="admin", database="pgbouncer")
    start(client, fake)
    weir.cancel(client)
    gate.wait()
    fake.release()
    assert client.result().value == "waited"
    console.send(m.query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    client.quit()
    weir.wait_pool("p0", sv_being_canceled=1)
    weir.admin("RESUME")
    gate.open()
    assert weir.client().query("next").value == "next"
    of_query = {text: connection for connection, text in fake.queries}
    assert of_query["next"] != of_query["wait"]


@pytest.mark.parametrize("tls", [False, True])
def test_trap_14_server_is_not_lent_while_a_cancel_is_under_way(scene, authority, tls):
    """Cancel forwarded, or still in flight, when the server had changed hands."""
    fake = scene.fake(tls=authority.server_context() if tls else None)
    gate = Gate(fake)
    weir = transactions(scene, fake, server_tls_sslmode="require" if tls else "disable")
    one, two = weir.client(), weir.client()
    one.send(m.query("first"))
    server = fake.accept()
    server.expect_query("first")
    weir.cancel(one)
    gate.wait()
    server.answer("too late")
    assert one.result().value == "too late"
    two.send(m.query("second"))
    weir.barrier()
    assert not server.has_input(), "lent with a cancel under way"
    assert weir.pool("p0")["cl_waiting"] == 1
    gate.let_in()
    server.expect_query("second")
    server.answer("unharmed")
    assert two.result().value == "unharmed"


@pytest.mark.parametrize("tls", [False, True])
def test_trap_14_next_clients_query_is_never_cancelled(scene, authority, tls):
    fake = scene.mini(tls=authority.server_context() if tls else None)
    weir = transactions(scene, fake, server_tls_sslmode="require" if tls else "disable")
    one, two = weir.client(), weir.client()
    for turn in rounds(100, full=10000):
        start(one, fake)
        two.send(m.query("BEGIN; second %d; COMMIT" % turn))
        requests = [weir.cancel(one) for _ in range(1 + turn % 2)]
        assert one.result().error == CANCELLED
        result = two.result()
        assert result.types == "CTDCCZ" and not result.errors
        for request in requests:
            request.close()


def test_trap_15_queued_cancel_requests_expire(scene):
    """Queued cancel delivered minutes later, to whatever ran then."""
    fake = scene.mini()
    gate = Gate(fake)
    weir = transactions(scene, fake, 1, cancel_wait_timeout=0.5)
    client = weir.client()
    start(client, fake)
    requests = [weir.cancel(client) for _ in range(12)]
    gate.wait()
    weir.wait_log("cancel_wait_timeout")
    until(lambda: weir.pool("p0")["cl_waiting_cancel_req"] == 0, "no cancel waits any more")
    weir.barrier()
    arrived = len(gate.held)
    assert arrived < 12
    gate.let_in()
    assert client.result().error == CANCELLED
    for request in requests:
        request.expect_closed()
    assert client.query("next").value == "next"
    assert not gate.held


def test_cancel_requests_per_server_are_limited(scene):
    """A client with the key can repeat a request without end; the requests that are under way already serve for all."""
    fake = scene.mini()
    gate = Gate(fake)
    weir = transactions(scene, fake, 1, cancel_wait_timeout=NEVER)
    client = weir.client()
    start(client, fake)
    requests = [weir.cancel(client) for _ in range(16)]
    weir.wait_pool("p0", cl_active_cancel_req=2, cl_waiting_cancel_req=14)
    for _ in range(3):
        weir.cancel(client).expect_closed()
    (row,) = [row for row in weir.show("REASONS") if row["reason"] == "CANCEL_CROWD"]
    assert row["count"] == 3
    gate.wait(2)
    gate.open()
    assert client.result().error == CANCELLED
    for request in requests:
        request.expect_closed()
    weir.wait_pool("p0", cl_active_cancel_req=0, cl_waiting_cancel_req=0)
    start(client, fake)
    request = weir.cancel(client)
    assert client.result().error == CANCELLED
    request.expect_closed()


def test_trap_16_cancels_of_a_dead_server_do_not_delay_the_next_login(scene):
    """Each cancel that could not connect counted as a failed login, and these are retried rarely."""
    fake = scene.mini()
    weir = transactions(scene, fake, 3, server_login_retry=3600, server_connect_timeout=5, max_client_conn=1000)
    client, other = weir.client(), weir.client()
    start(client, fake)
    fake.stop_listening()
    for request in [weir.cancel(client) for _ in range(500)]:
        request.expect_closed()
    fake.listen()
    assert other.query("BEGIN").status == "T"
    fake.release()
    assert client.result().value == "waited"


def test_trap_17_cancel_meets_the_poolers_own_set(scene):
    """The cancel hit the SET that the pooler had put in front of the query."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    plain = weir.client()
    plain.query("opens the server")
    odd = weir.client(TimeZone="Asia/Tokyo")
    fake.slow_set = True
    odd.send(m.query("odd"))
    fake.until(lambda: any("Asia/Tokyo" in text for _, text in fake.queries), "the SET runs")
    weir.cancel(odd)
    weir.barrier()
    fake.slow_set = False
    fake.release()
    plain.send(m.query("plain"))
    assert plain.result().value == "plain"
    for got in odd.read_until("Z"):
        assert got.type != "E" or m.read_error(got.body)["M"] == CANCELLED
    assert "invalid server parameter" not in weir.log()


@pytest.mark.parametrize("play", [
    "extra bytes", "server answers", "requester leaves", "requester aborts", "notice", "client leaves", "twice",
    "server dies", "unfinished",
])
def test_trap_18_unusual_ends_of_a_cancel_request(scene, play):
    """States of a cancel in which other poolers aborted."""
    fake = scene.mini()
    gate = Gate(fake)
    weir = transactions(scene, fake, 2)
    client, other = weir.client(), weir.client()
    start(client, fake)
    packet = m.cancel_request(client.pid, client.key)
    request = weir.connect()
    request.send(packet[:-1] if play == "unfinished" else packet + b"and more" if play == "extra bytes" else packet)
    if play == "unfinished":
        weir.barrier()
        request.abort()
        weir.cancel(client)
    gate.wait()
    if play == "server answers":
        gate.held[0][2].send(m.error("no cancels today", "53300", "FATAL"))
    elif play == "requester leaves":
        request.close()
    elif play == "requester aborts":
        request.abort()
    elif play == "notice":
        fake.started[0].send(m.notice("while being cancelled"))
        client.expect("N")
    elif play == "client leaves":
        client.abort()
    elif play == "twice":
        second = weir.cancel(client)
        second.send(packet)
        second.abort()
    elif play == "server dies":
        fake.drop_all()
    weir.barrier()
    gate.let_in()
    if play not in ("client leaves", "server dies"):
        assert client.result().error == CANCELLED
        assert client.query("again").value == "again"
    assert other.query("other").value == "other"
    gate.let_in()


def test_trap_19_cancel_of_a_waiting_client(scene):
    """The query of a client that still waited for a server could not be cancelled."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("never runs"))
    weir.wait_pool("p0", cl_waiting=1)
    weir.cancel(waiting)
    error = m.read_error(waiting.expect("E").body)
    assert error["M"] == CANCELLED and error["C"] == "57014"
    holder.query("COMMIT")
    weir.barrier()
    assert "never runs" not in [text for _, text in fake.queries]
    assert fake.cancels.empty()
    assert holder.query("goes on").value == "goes on"


def test_trap_20_storm_of_cancels_leaves_nothing(scene):
    """Crash, leaked descriptors, a growing map of keys."""
    weir = transactions(scene, scene.mini(), 4, measured=True)

    def storm(count):
        def work(n):
            client = weir.client()
            for turn in range(count):
                client.send(m.query("storm %d" % turn))
                with weir.cancel(client) as request:
                    (request.close, request.abort, request.expect_closed)[(n + turn) % 3]()
                # most requests must wait for a server; then the cancel request hits this query
                result = client.result()
                assert result.errors or result.value == "storm %d" % turn
                assert not result.errors or result.error == CANCELLED
            client.close()

        run_in_threads(*(functools.partial(work, n) for n in range(40)))
        weir.wait_pool("p0", cl_active=0, cl_waiting=0, cl_active_cancel_req=0, cl_waiting_cancel_req=0,
                       sv_active=0, sv_active_cancel=0, sv_being_canceled=0)

    storm(10)
    descriptors, memory = weir.descriptors(), weir.memory()
    storm(size(20, full=10000))
    until(lambda: weir.descriptors() <= descriptors + 4, "no descriptor is left over but those of the pool")
    assert weir.memory() < memory + 4096


def test_trap_21_cancel_at_the_wrong_peer(scene):
    """A cancel that arrives at another process of the group finds its way."""
    fake = scene.mini()
    weirs = [transactions(scene, fake, peer_id=n) for n in (1, 2, 3)]
    for weir in weirs:
        weir.sections["peers"] = {str(n): "host=127.0.0.1 port=%d" % w.port for n, w in enumerate(weirs, 1)}
        weir.write_ini()
        weir.admin("RELOAD")
    client = weirs[0].client()
    for through in weirs:
        start(client, fake)
        through.cancel(client).expect_closed()
        assert client.result().error == CANCELLED


def test_trap_21_missing_socket_directory_fails_the_start(scene):
    """The socket by which peers connect could not be created, and pgweir started all the same."""
    weir = scene.weir(scene.mini(), wait=False, unix_socket_dir="/nonexistent/directory", allow=r".")
    weir.expected_status = 1
    assert weir.wait_exit() == 1
    assert os.path.dirname("/nonexistent/directory") in weir.log() + weir.stderr()


def test_canceller_disconnects_while_its_request_is_connecting(scene):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction")
    client = weir.client()
    client.send(m.query("wait"))
    fake.until(lambda: len(fake.queries) > 0, "the query runs")
    fake.listen_without_answer()
    canceller = weir.cancel(client)
    weir.wait_pool("p0", cl_active_cancel_req=1)
    canceller.close()
    weir.barrier()
    # until then the dial continues
    weir.admin("SET cancel_wait_timeout = 0.1")
    logs_event(weir, "client gives up on its cancel request")
