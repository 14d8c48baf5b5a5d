"""Signals, SHUTDOWN and the lines that the log has of them."""
import signal

import pytest

from support import messages as m
from support.log_words import logs_event
from support.pgbouncer import words


def busy(pooler, scene, **options):
    """A pooler with a client in a transaction."""
    weir = pooler(scene.mini(), pool_mode="transaction", **options)
    client = weir.client()
    assert client.query("BEGIN").tags == ["BEGIN"]
    return weir, client


def lines_of_signals(weir):
    return words(weir.log(), "^got SIG|exiting$|^SHUTDOWN")


TERM = ("LOG", "got SIGTERM, shutting down, waiting for all clients disconnect")
INT = ("LOG", "got SIGINT, shutting down, waiting for all servers connections to be released")


def test_term_waits_for_clients(pooler, scene):
    weir, client = busy(pooler, scene)
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM")
    assert client.query("COMMIT").tags == ["COMMIT"]
    client.quit()
    assert weir.wait_exit() == 0
    logs_event(weir, "SIGTERM")


def test_int_waits_for_servers(pooler, scene):
    weir, client = busy(pooler, scene)
    weir.signal(signal.SIGINT)
    weir.wait_log("got SIGINT")
    client.send(m.query("COMMIT"))
    assert weir.wait_exit() == 0
    logs_event(weir, "SIGINT")


def test_quit(pooler, scene):
    weir, _ = busy(pooler, scene)
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    logs_event(weir, "SIGQUIT")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_second_signal_closes_connections_without_a_message(pooler, scene, first, second):
    weir, client = busy(pooler, scene)
    weir.signal(first)
    weir.wait_log("got " + first.name)
    weir.signal(second)
    assert weir.wait_exit() == 0
    assert client.drain() == []
    assert lines_of_signals(weir) == [
        TERM if first == signal.SIGTERM else INT,
        ("LOG", "got SIGQUIT, fast exit" if second == signal.SIGQUIT else "got %s while shutting down, fast exit" % second.name)]
    if first == second == signal.SIGTERM:
        logs_event(weir, "second SIGTERM")
    if first == second == signal.SIGINT:
        logs_event(weir, "second SIGINT")


def test_pause_and_resume(pooler, scene):
    weir = pooler(scene.mini(), pool_mode="transaction")
    for number, times in ((signal.SIGUSR2, 1), (signal.SIGUSR1, 1), (signal.SIGUSR1, 2), (signal.SIGUSR2, 2), (signal.SIGHUP, 1)):
        weir.signal(number)
        weir.wait_log("got " + number.name, times)
    assert weir.admin("SUSPEND") == "SUSPEND"
    weir.signal(signal.SIGUSR1)
    weir.wait_log("got SIGUSR1", 3)
    weir.signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2", 3)
    logs_event(weir, "SIGUSR1 and SIGUSR2")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_other_signals_during_a_shutdown(pooler, scene, first):
    weir, _ = busy(pooler, scene)
    for number in (first, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        weir.signal(number)
        weir.wait_log("got " + number.name)
    is_term = first == signal.SIGTERM
    assert lines_of_signals(weir) == [
        TERM if is_term else INT,
        ("LOG", "got SIGHUP, re-reading config"),
        ("LOG", "got SIGUSR1, pausing all activity" if is_term else "got SIGUSR1, but already paused/suspended"),
        ("LOG", "got SIGUSR2 while shutting down, ignoring")]
    logs_event(weir, "SIGUSR2 in a shutdown")


@pytest.mark.parametrize("how", ["WAIT_FOR_CLIENTS", "WAIT_FOR_SERVERS"])
def test_waiting_shutdown_is_answered_at_once(pooler, scene, how):
    weir, client = busy(pooler, scene)
    console = weir.client("admin", "pgbouncer")
    for _ in range(2):
        assert console.query("SHUTDOWN " + how).tags == ["SHUTDOWN"]
    assert console.query("SHOW VERSION").tags == ["SHOW"]
    assert console.query("RESUME").error == "pooler is shutting down"
    assert weir.is_alive()
    # PgBouncer waits for the console, too
    console.quit()
    client.send(m.query("COMMIT") + m.terminate())
    assert weir.wait_exit() == 0
    if how == "WAIT_FOR_CLIENTS":
        logs_event(weir, "SHUTDOWN WAIT_FOR_CLIENTS")
    else:
        logs_event(weir, "SHUTDOWN WAIT_FOR_SERVERS")


@pytest.mark.parametrize("how, tag", [("WAIT_FOR_SERVERS", "WAIT_FOR_CLIENTS"), ("WAIT_FOR_CLIENTS", "WAIT_FOR_SERVERS")])
def test_the_other_way_of_waiting_may_follow(pooler, scene, how, tag):
    weir, client = busy(pooler, scene)
    console = weir.client("admin", "pgbouncer")
    assert console.query("SHUTDOWN " + how).tags == ["SHUTDOWN"]
    assert console.query("SHUTDOWN " + tag).tags == ["SHUTDOWN"]
    console.quit()
    client.send(m.query("COMMIT") + m.terminate())
    assert weir.wait_exit() == 0


@pytest.mark.parametrize("first", [None, "SHUTDOWN WAIT_FOR_CLIENTS"])
def test_shutdown_without_waiting(pooler, scene, first):
    weir, _ = busy(pooler, scene)
    console = weir.client("admin", "pgbouncer")
    if first:
        assert console.query(first).tags == ["SHUTDOWN"]
    console.send(m.query("SHUTDOWN"))
    # PgBouncer closes the connection without an answer
    assert [message.type for message in console.drain()] == (["C", "Z"] if pooler.is_ours else [])
    assert weir.wait_exit() == 0
    logs_event(weir, "SHUTDOWN")


def test_the_limit_of_descriptors(pooler, scene):
    weir = pooler(scene.mini(), max_client_conn=123, nofile=4000)
    logs_event(weir, "start")


def test_reload_that_fails(pooler, scene):
    weir = pooler(scene.mini())
    weir.settings["query_timeout"] = "soon"
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    logs_event(weir, "RELOAD that fails")
