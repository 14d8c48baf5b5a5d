"""
Trap 86: clocks that were mixed, seconds read as microseconds, 0 that meant "now", one timer that disabled another.

Each time limit is set to 0.5 s, 2 s and 0. No time is measured: the short limit expires first, while the longer one has not, then the longer one; and
a client with limit 0 (none) is still waiting when both have expired.
"""
import datetime
import re

import pytest

from support import messages as m
from support.live import NEVER
from support.until import until

SHORT, LONG = 0.5, 2


def in_order(begin, has_ended):
    """begin(seconds) starts something with this limit; has_ended(it) says whether the limit has struck."""
    never, long, short = begin(0), begin(LONG), begin(SHORT)
    until(lambda: has_ended(short), "the short limit strikes")
    assert not has_ended(long), "the long one strikes with it"
    until(lambda: has_ended(long), "the long limit strikes")
    assert not has_ended(never), "0 is taken for a limit"


def query(client):
    client.send(m.query("wait"))


def transaction(client):
    client.query("BEGIN")


OF_USERS = {
    "query_timeout": query,
    "transaction_timeout": transaction,
    "idle_transaction_timeout": transaction,
    "client_idle_timeout": lambda client: None,
}


@pytest.mark.parametrize("setting", OF_USERS)
def test_trap_86_limits_of_users(scene, setting):
    """All in one process, beside each other."""
    values = {"never": 0, "long": LONG, "short": SHORT}
    weir = scene.weir(scene.mini(), users=dict.fromkeys(values, "x"), pool_mode="transaction", default_pool_size=5,
                      sections={"users": {name: "%s=%s" % (setting, value) for name, value in values.items()}})
    names = {value: name for name, value in values.items()}

    def begin(seconds):
        client = weir.client(names[seconds])
        OF_USERS[setting](client)
        return client
    in_order(begin, lambda client: client.has_input())


def test_trap_86_query_wait_timeout(scene):
    values = {"never": 0, "long": LONG, "short": SHORT}
    fake = scene.mini()
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d user=app" % fake.port}, users=dict.fromkeys(values, "x"),
                      pool_mode="transaction", default_pool_size=1,
                      sections={"users": {name: "query_wait_timeout=%s" % value for name, value in values.items()}})
    holder = weir.client()
    holder.query("BEGIN")
    names = {value: name for name, value in values.items()}

    def begin(seconds):
        client = weir.client(names[seconds])
        client.send(m.query("later"))
        return client
    in_order(begin, lambda client: client.has_input())


def closes_idle_servers(weir):
    weir.client().query("once")
    return lambda: "closing because: server idle timeout" in weir.log()


def ends_silent_logins(weir):
    weir.connect().send(m.startup(user="app", database="p0")[:10])
    return lambda: "closing because: client_login_timeout" in weir.log()


def ends_silent_servers(weir):
    weir.fake.login = lambda session: session.drain()
    weir.connect().send(m.startup(user="app", database="p0"))
    return lambda: "closing because: connect timeout" in weir.log()


def ends_suspension(weir):
    slow = weir.client(receive_buffer=4096)
    slow.send(m.query("rows 1000 10000"))
    until(lambda: any(row["send_remain"] for row in weir.show("SOCKETS")), "the client does not read")
    other = weir.connect()
    other.send(m.startup(user="admin", database="pgbouncer"))
    other.finish_login("admin", "admin-secret")
    other.send(m.query("SUSPEND"))
    return lambda: "closing because: suspend_timeout" in weir.log()


def ends_cancels(weir):
    weir.fake.on_cancel = lambda pid, key, connection: None
    busy = weir.client()
    busy.send(m.query("wait"))
    weir.wait_pool("p0", sv_active=1)
    # two may be under way at a time, and these never get done
    for _ in range(3):
        weir.cancel(busy)
    return lambda: any(row["reason"] == "CANCEL_WAIT_TIMEOUT" and row["count"] for row in weir.show("REASONS"))


OF_THE_PROCESS = {
    "server_idle_timeout": closes_idle_servers,
    "client_login_timeout": ends_silent_logins,
    "server_connect_timeout": ends_silent_servers,
    "suspend_timeout": ends_suspension,
    "cancel_wait_timeout": ends_cancels,
}


@pytest.mark.parametrize("setting", OF_THE_PROCESS)
def test_trap_86_limits_of_the_process(scene, setting):
    """Each value in a process of its own, with all other limits off."""
    off = {name: 0 for name in OF_THE_PROCESS}

    def begin(seconds):
        fake = scene.mini()
        settings = dict(off, **{setting: seconds})
        weir = scene.weir(fake, pool_mode="transaction", tcp_defer_accept=0, default_pool_size=1, **settings)
        weir.fake = fake
        return OF_THE_PROCESS[setting](weir)
    in_order(begin, lambda ended: ended())


def test_trap_86_retry_at_zero_is_at_once(scene):
    """0 means no delay for a time to wait, where it does not mean no limit."""
    fake = scene.mini()
    sane = fake.login
    refusal = m.error("password authentication failed", "28P01", "FATAL")
    fake.login = lambda session: (session.send(refusal), session.close())
    weirs = [scene.weir(fake, server_login_retry=retry, server_down="fail") for retry in (0, NEVER)]
    for weir in weirs:
        assert weir.connect().refused(user="app", database="p0")["M"] == "password authentication failed"
    fake.login = sane
    assert weirs[0].client().query("served").value == "served"
    assert "cached error" in weirs[1].connect().refused(user="app", database="p0")["M"]


# --- trap 90

def test_trap_90_servers_opened_together_do_not_close_together(scene):
    """
    server_lifetime is spread: when the first of ten servers is closed for its age, others still serve, and by the times of the log the last is closed
    much later. (The unit test of maintenance checks with a virtual clock that at least lifetime / size is between two closes.)
    """
    weir = scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=10, server_lifetime=5,
                      server_idle_timeout=0, server_check_delay=NEVER)
    clients = [weir.client() for _ in range(10)]
    for client in clients:
        client.query("BEGIN")
    for client in clients:
        client.query("COMMIT")
    until(lambda: 0 < weir.pool("p0")["sv_idle"] < 10, "some are closed, and others serve")
    weir.wait_log("closing because: server lifetime over", 10)
    ends = [datetime.datetime.fromisoformat(when) for when in re.findall(r"^(\S+ \S+) .* closing because: server lifetime over",
                                                                         weir.log(), re.M)]
    # 4.5 seconds, but for a machine so busy that turns are late
    assert (ends[9] - ends[0]).total_seconds() > 1.5
