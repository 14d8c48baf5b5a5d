"""An unavailable server: which clients wait, for how long, and the messages to them and in the log."""
import re

import pytest

from support import messages as m
from support.live import NEVER, SOON, last_words
from support.log_words import logs_event
from support.pgbouncer import words
from support.until import until

REFUSED = ("password authentication failed", "28P01")


def refuses(*fields):
    """A server that answers each login with this error."""
    def login(session):
        session.send(m.error(*fields, severity="FATAL"))
        session.close()
    return login


def asks(weir, database="p0", user="app", **more):
    """A client that has sent its start-up packet and its query."""
    client = weir.connect()
    client.send(m.startup(user=user, database=database, **more), m.query("served"))
    return client


def told(client):
    error = last_words(client)
    return error["S"], error["C"], error["M"]


def failures(weir):
    """Returns the reasons for which server connections were closed. Text in parentheses exists in pgweir only."""
    return [re.sub(r" \([^)]*\)", "", text.partition("closing because: ")[2]) for _, text in words(weir.log(), "^S: .*closing because")]


def end(weir, text):
    """Level and text of the lines that tell of the client's end; without pgweir's line with the DETAIL."""
    weir.wait_log("pooler error: " + re.escape(text))
    return [line for line in words(weir.log(), "^C: p0/") if "login attempt" not in line[1] and " detail: " not in line[1]][-2:]


@pytest.fixture
def away(scene):
    """A server that refuses connections."""
    fake = scene.mini()
    fake.stop_listening()
    return fake


# --- logins: A2

def test_logins_wait_for_a_server_that_is_not_available_yet(pooler, away):
    weir = pooler(away, pool_mode="transaction", server_login_retry=SOON, **({"verbose": 1} if pooler.is_ours else {}))
    first = asks(weir)
    weir.wait_log("S-0x.* closing because: connect failed", times=2)
    later = asks(weir)
    weir.wait_pool("p0", cl_waiting=2)
    away.listen()
    for client in (first, later):
        client.read_until("Z")
        assert client.result().value == "served"


@pytest.mark.parametrize("setting, text", [("client_login_timeout", "client_login_timeout (server down)"),
                                           ("query_timeout", "query_timeout"), ("query_wait_timeout", "query_wait_timeout")])
def test_events_that_end_the_wait_of_a_login(pooler, away, setting, text):
    weir = pooler(away, server_login_retry=SOON, **{setting: 1})
    # the second comes when the failing is known
    for _ in range(2):
        assert told(asks(weir)) == ("FATAL", "08P01", text)
    if setting == "client_login_timeout":
        logs_event(weir, "client_login_timeout of a login that waits for a server")
    elif setting == "query_timeout":
        logs_event(weir, "query_timeout of a login that waits for a server")
    else:
        logs_event(weir, "query_wait_timeout of a login that waits for a server")
    assert set(failures(weir)) == {"connect failed"}


@pytest.mark.parametrize("why", ["TLS", "timeout", "name", "starting up", "replication"])
def test_wait_after_any_failure_except_a_refusal(pooler, scene, why):
    fake = scene.mini()
    target, settings, more = {"p0": fake}, {}, {}
    if why == "TLS":
        settings["server_tls_sslmode"] = "require"
    elif why == "timeout":
        fake.login = lambda session: session.drain()
        settings["server_connect_timeout"] = SOON
    elif why == "name":
        target = {"p0": "host=nowhere.invalid port=%d" % fake.port}
    elif why == "starting up":
        fake.login = refuses("the database system is starting up", "57P03")
    else:
        fake.stop_listening()
        more["replication"] = "true"
    weir = pooler(target, server_login_retry=SOON, client_login_timeout=1, **settings)
    assert told(asks(weir, **more)) == ("FATAL", "08P01", "client_login_timeout (server down)")


def test_refused_login_is_reported_to_all_waiting_clients(pooler, scene):
    """With the server's SQLSTATE."""
    fake = scene.mini()
    weir = pooler(fake, server_login_retry=NEVER)
    with weir.one_turn():
        clients = [asks(weir), asks(weir)]
        fake.login = refuses(*REFUSED)
    for client in clients:
        assert told(client) == ("FATAL", "28P01", REFUSED[0])


def test_a_login_after_a_refusal_waits_for_the_next_attempt(pooler, scene):
    """The cached error is for queries."""
    # pgweir logs a repeated failure with verbose = 1 only
    weir = pooler(scene.mini(login=refuses(*REFUSED)), server_login_retry=SOON, **({"verbose": 1} if pooler.is_ours else {}))
    for attempt in (1, 2):
        assert told(asks(weir)) == ("FATAL", "28P01", REFUSED[0])
        assert weir.log().count("new connection to server") == attempt


# --- queries

@pytest.mark.parametrize("why", [None, ("the database system is starting up", "57P03")])
def test_waiting_queries_continue_and_later_ones_get_the_cached_error(pooler, scene, why):
    fake = scene.mini()
    weir = pooler(fake, pool_mode="transaction", default_pool_size=1, server_login_retry=SOON)
    holder, waiting, idle = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("later"))
    weir.wait_pool("p0", cl_waiting=1)
    text = "connect failed"
    if why:
        fake.login, text = refuses(*why), why[0]
    else:
        fake.stop_listening()
    fake.drop_all()
    weir.wait_log("S-0x.* closing because: " + text)
    cached = r"server login has been failing, cached error: %s( \(.*\))? \(server_login_retry\)$" % text
    idle.send(m.query("now"))
    newcomer = asks(weir)
    newcomer.read_until("Z")
    for client in (idle, newcomer):
        severity, state, error = told(client)
        assert (severity, state) == ("FATAL", "08P01") and re.match(cached, error), error
    logs_event(weir, "query while the login at the server fails")
    if why:
        fake.login = None
    else:
        fake.listen()
    assert waiting.result().value == "later"


@pytest.mark.parametrize("setting", ["query_timeout", "query_wait_timeout"])
def test_events_that_end_the_wait_of_a_query(pooler, scene, setting):
    weir = pooler(scene.mini(), pool_mode="transaction", default_pool_size=1, **{setting: 1})
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("never"))
    assert told(waiting) == ("FATAL", "08P01", setting)
    assert end(weir, setting)[0] == ("LOG", "C: p0/app@127.0.0.1 closing because: %s (age)" % setting)
    if pooler.is_ours:
        # PgBouncer ends this one too: it takes an idle transaction for a query
        assert holder.query("COMMIT").tags == ["COMMIT"]


def test_wait_time_and_query_time_are_separate(pooler, scene):
    fake = scene.mini()
    weir = pooler(fake, pool_mode="transaction", default_pool_size=1, query_timeout=NEVER)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    waiting.send(m.query("wait"))
    weir.wait_pool("p0", cl_waiting=1)
    holder.query("COMMIT")
    weir.wait_pool("p0", cl_waiting=0, sv_active=1)
    weir.admin("SET query_timeout = 1")
    assert told(waiting) == ("FATAL", "08P01", "query timeout")


@pytest.mark.parametrize("what", ["query", "login"])
def test_query_timeout_runs_during_a_pause(pooler, scene, what):
    """A2b."""
    weir = pooler(scene.mini(), pool_mode="transaction", query_timeout=1)
    client = weir.client() if what == "query" else None
    weir.admin("PAUSE")
    if client:
        client.send(m.query("never"))
    else:
        client = asks(weir)
    assert told(client) == ("FATAL", "08P01", "query_timeout")


def test_retired_server_does_not_count(pooler, scene):
    """A3: its client keeps it; other clients get the refusal of the login at the new server."""
    fake = scene.mini()
    weir = pooler(fake, pool_mode="transaction", default_pool_size=2, server_login_retry=NEVER)
    holder, one, two = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    fake.login = refuses(*REFUSED)
    weir.admin("RECONNECT")
    with weir.one_turn():
        one.send(m.query("never"))
        two.send(m.query("never"))
    assert told(one) == told(two) == ("FATAL", "28P01", REFUSED[0])
    assert holder.query("still mine").value == "still mine"


# --- hosts of a list

@pytest.mark.parametrize("balance", ["round-robin", "disable"])
@pytest.mark.parametrize("why", ["connect failed", "starting up"])
def test_unusable_host(pooler, scene, balance, why):
    fakes = scene.hosts("127.0.0.2", "127.0.0.3")
    if why == "connect failed":
        fakes[0].stop_listening()
    else:
        fakes[0].login = refuses(why, "57P03")
    weir = pooler({"p0": "host=127.0.0.2,127.0.0.3 port=%d load_balance_hosts=%s" % (fakes[0].port, balance)},
                  pool_mode="transaction", server_login_retry=SOON)
    client = asks(weir)
    client.read_until("Z")
    assert client.result().value == "served"
    until(lambda: fakes[1].queries, "the other host serves")
    ((level, text),) = words(weir.log(), "^S: .*closing because")
    assert level == "LOG"
    assert re.match(r"S: p0/app@127\.0\.0\.2 closing because: %s( \([\w ]*\))? \(age\)$" % why, text), text
