"""Settings, error messages and commands of pgweir for an unavailable server. pgbouncer/test_waiting.py covers behaviour shared with PgBouncer."""
import os
import re
import signal

import pytest

from support import messages as m
from support.live import NEVER, SOON, ended_with, last_words
from support.nameserver import write_resolv_conf
from support.ports import free_port
from support.scenes import transactions
from support.takeover import Replaced
from support.until import until

REFUSED = "connect failed (Connection refused)"
LAST_LOGIN = r"The last login at the server failed: %s: %s, \d+\.\d m?s ago"
CACHED = "server login has been failing, cached error: %s (server_login_retry)"


def refuses(text, sqlstate):
    def login(session):
        session.send(m.error(text, sqlstate, "FATAL"))
        session.close()
    return login


@pytest.fixture
def away(scene):
    fake = scene.mini()
    fake.stop_listening()
    return fake


def asks(weir, user="app", **more):
    """A client that has sent its start-up packet and its query."""
    client = weir.connect()
    client.send(m.startup(user=user, database="p0", **more), m.query("served"))
    return client


def waits(weir, count=1, **more):
    """Clients that wait in their login, for a server that has been tried."""
    clients = [asks(weir, **more) for _ in range(count)]
    weir.wait_log("S-0x.* closing because: ")
    weir.wait_pool("p0", cl_waiting=count)
    return clients


def served(client):
    client.read_until("Z")
    assert client.result().value == "served"


# --- server_down

@pytest.mark.parametrize("how", ["plain", "replication", "auth_query"])
def test_server_down_fail(scene, away, how):
    settings = {"auth_type": "plain", "auth_user": "app"} if how == "auth_query" else {}
    weir = transactions(scene, away, server_down="fail", server_login_retry=NEVER, **settings)
    if how == "auth_query":
        for _ in range(2):
            ended_with(asks(weir, user="stranger"), "auth_query failed", "57P03")
    else:
        more = {"replication": "true"} if how == "replication" else {}
        ended_with(asks(weir, **more), REFUSED)
        ended_with(asks(weir, **more), CACHED % REFUSED)


def test_server_down_may_be_changed_while_clients_wait(scene, away):
    weir = scene.weir(away, server_login_retry=NEVER)
    (client,) = waits(weir)
    weir.admin("SET server_down = fail")
    ended_with(client, CACHED % REFUSED)


def test_look_up_waits_like_its_login(scene, away):
    weir = transactions(scene, away, auth_type="plain", auth_user="app", server_login_retry=NEVER, client_login_timeout=1)
    for _ in range(2):
        ended_with(asks(weir, user="stranger"), "client_login_timeout (server down)")


# --- the reason

@pytest.mark.parametrize("why", ["refused", "unreachable", "no socket", "no such name", "silent"])
def test_reasons_of_unreachable_servers(scene, why):
    settings = {}
    if why == "refused":
        target, text = "host=127.0.0.1 port=%d" % free_port(), REFUSED
    elif why == "unreachable":
        # connections to a broadcast address are impossible: connect() itself fails
        target, text = "host=255.255.255.255 port=1", "connect failed (%s)" % os.strerror(101)
    elif why == "no socket":
        target, text = "host=%s port=1" % scene.directory, "connect failed (No such file or directory)"
    elif why == "no such name":
        names = scene.nameserver()
        settings["resolv_conf"] = write_resolv_conf(scene.directory, names)
        target, text = "host=nowhere.test port=1", "server DNS lookup failed (Domain name not found)"
    else:
        hole = scene.fake(login=lambda session: session.drain())
        target, text = "host=127.0.0.1 port=%d" % hole.port, "connect timeout"
        settings["server_connect_timeout"] = SOON
    weir = scene.weir({"p0": target}, server_login_retry=NEVER, client_login_timeout=2, show_extra_columns=1, **settings)
    client = asks(weir)
    weir.wait_log(r"LOG S-0x\w+: p0/app@\S* closing because: %s \(age=\d+s\)$" % text.replace("(", r"\(").replace(")", r"\)"))
    until(lambda: weir.pool("p0")["login_error"] == text, "the column login_error")
    error = last_words(client)
    assert error["M"] == "client_login_timeout (server down)"
    assert re.fullmatch(LAST_LOGIN % (r"\S+:\d+", re.escape(text)), error["D"]) and "." in error["H"], error


def test_query_gets_the_reason_too(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, server_login_retry=NEVER, query_wait_timeout=1)
    holder, waiting, late = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("never"))
    weir.wait_pool("p0", cl_waiting=1)
    fake.stop_listening()
    fake.drop_all()
    weir.wait_log("S-0x.* closing because: connect failed")
    late.send(m.query("now"))
    ended_with(late, CACHED % REFUSED)
    error = last_words(waiting)
    assert error["M"] == "query_wait_timeout"
    assert re.fullmatch(LAST_LOGIN % ("127.0.0.1:%d" % fake.port, re.escape(REFUSED)), error["D"]), error
    assert "pg_isready" in error["H"]


def test_queue_with_another_reason_has_another_detail(scene):
    weir = transactions(scene, scene.mini(), query_wait_timeout=1)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("never"))
    error = last_words(waiting)
    assert error["M"] == "query_wait_timeout" and error["D"].startswith("1 of 1 server connections are in use (default_pool_size); ")


# --- the cached error is forgotten

def fails_with(fake, text="no"):
    fake.login = refuses(text, "28P01")


@pytest.mark.parametrize("what", ["TLS", "secret", "database", "timeout"])
def test_changed_setting_clears_the_cached_error(scene, authority, what):
    fake = scene.mini(tls=authority.server_context())
    weir = transactions(scene, fake, server_login_retry=NEVER)
    weir.client()
    fails_with(fake)
    weir.admin("RECONNECT")
    ended_with(asks_again(weir), "no", "28P01")
    fake.login = None
    ended_with(asks_again(weir), CACHED % "no")
    # another setting is no reason to try again
    weir.admin("SET server_idle_timeout = 599")
    ended_with(asks_again(weir), CACHED % "no")
    if what == "TLS":
        weir.admin("SET server_tls_sslmode = require")
    elif what == "timeout":
        weir.admin("SET server_connect_timeout = 14")
    else:
        if what == "secret":
            weir.users["app"] = "another"
            weir.write_users()
        else:
            weir.databases["p0"] = "host=127.0.0.1 port=%d password=another" % fake.port
            weir.write_ini()
        weir.admin("RELOAD")
    assert asks_again(weir).result().value == "served"


def asks_again(weir):
    """A client that is welcomed without a server, and its query."""
    client = weir.client()
    client.send(m.query("served"))
    return client


# --- as long as it is missed

def test_without_clients_there_is_no_attempt_and_the_pool_is_freed(scene, away):
    weir = scene.weir(away, server_login_retry=0.1, pool_idle_timeout=1)
    (client,) = waits(weir)
    client.close()
    until(lambda: not [row for row in weir.show("POOLS") if row["database"] == "p0"], "the pool is gone")


def test_short_lived_clients_trigger_attempts(scene):
    """Each gets the cached error and leaves. Service is back long before server_login_retry is over."""
    fake = scene.mini()
    weir = transactions(scene, fake, server_login_retry=NEVER)
    weir.client().close()
    fake.stop_listening()
    weir.admin("RECONNECT")
    # the first query waits for the attempt and then continues to wait; its client disconnects
    first = asks_again(weir)
    weir.wait_log("S-0x.* closing because: connect failed")
    first.close()
    ended_with(asks_again(weir), CACHED % REFUSED)
    fake.listen()
    until(lambda: asks_again(weir).read().type != "E", "the server is found")


def test_full_server_gets_one_login_at_a_time(scene):
    fake = scene.mini()
    most = {"now": 0, "ever": 0}

    def login(session):
        most["now"] += 1
        most["ever"] = max(most["ever"], most["now"])
        if len(fake.started) > 2:
            session.send(m.error("sorry, too many clients already", "53300", "FATAL"))
            most["now"] -= 1
            session.close()
            return
        session.welcome()
        most["now"] -= 1
    fake.login = login
    weir = transactions(scene, fake, 20, server_login_retry=0, verbose=1)
    clients = [weir.client() for _ in range(20)]
    for client in clients:
        client.send(m.query("BEGIN"))
    # two connections are opened when the first login has succeeded, and one more for each that succeeds then
    weir.wait_log("server login failed: FATAL sorry", times=4)
    assert most["ever"] <= 3
    most["ever"] = 0
    weir.wait_log("server login failed: FATAL sorry", times=6)
    assert most["ever"] == 1


# --- commands, and the end of waiting

def test_events_that_end_waiting_logins(scene, away):
    weir = scene.weir({"p0": away, "p1": away}, server_login_retry=NEVER)
    clients = waits(weir, 2)
    weir.admin("KILL p0")
    for client in clients:
        assert last_words(client)["M"] == "admin forced disconnect"
    weir.admin("RESUME p0")
    clients = waits(weir, 2)
    del weir.databases["p0"]
    weir.write_ini()
    weir.admin("RELOAD")
    for client in clients:
        assert last_words(client)["M"] == "database removed"


def test_shutdown_does_not_wait_for_logins(scene, away):
    weir = scene.weir(away, server_login_retry=NEVER)
    clients = waits(weir, 2)
    weir.signal(signal.SIGINT)
    for client in clients:
        assert last_words(client)["M"] == "server shutting down"
    assert weir.wait_exit() == 0


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
@pytest.mark.parametrize("target", ["plain", "*", "forced user", "TLS"])
def test_every_kind_of_pool(scene, away, authority, mode, target):
    to, settings = "host=127.0.0.1 port=%d" % away.port, {}
    if target == "forced user":
        to += " user=rival"
    if target == "TLS":
        away.tls = authority.server_context()
        settings["server_tls_sslmode"] = "require"
    weir = scene.weir({"*" if target == "*" else "p0": to}, pool_mode=mode, server_login_retry=NEVER, **settings)
    clients = [asks(weir, client_encoding="UTF8", application_name=name) for name in ("one", "two")]
    weir.wait_log("S-0x.* closing because: " + REFUSED.replace("(", r"\(").replace(")", r"\)"))
    # an operator's commands in the meantime change nothing
    for command in ("RELOAD", "RECONNECT", "PAUSE", "RESUME"):
        weir.admin(command)
    away.listen()
    for client in clients:
        served(client)


def test_replication_clients(scene, away):
    """Each waits for a server of its own."""
    weir = transactions(scene, away, 4, server_login_retry=NEVER)
    clients = waits(weir, 2, replication="true")
    away.listen()
    for client in clients:
        served(client)


def test_waiting_logins_remain_in_the_old_process(scene, away):
    weir = scene.weir(away, kind=Replaced, pool_mode="transaction", server_login_retry=NEVER)
    clients = waits(weir, 2)
    old = weir.replace()
    late = asks(weir)
    away.listen()
    for client in clients + [late]:
        served(client)
        client.close()
    assert old.wait(20) == 0
