"""SHOW WAITS, the column waits of SHOW POOLS, EXPLAIN CLIENT, and the details of errors when a limit is reached."""
import re

import pytest

from support import messages as m
from support.live import NEVER, SOON, last_words
from support.takeover import Replaced
from support.until import until

TIME = r"\d+\.\d (?:ms|s)"
IN_USE = r"1 of 1 server connections are in use \(default_pool_size\); the longest in use: " + TIME + \
    r", by client C-%s on S-%s \(127\.0\.0\.1:\d+, backend process \d+\): idle in transaction for " + TIME


def stage(scene, target=None, **settings):
    settings = {"pool_mode": "transaction", "default_pool_size": 1, "server_login_retry": NEVER, "show_extra_columns": 1, **settings}
    return scene.weir(target or scene.mini(), **settings)


def held(weir, **where):
    """A client with a transaction, and a client that waits for its server."""
    holder, waiting = weir.client(**where), weir.client(application_name="batch", **where)
    holder.query("BEGIN")
    waiting.send(m.query("one"))
    until(lambda: weir.show("WAITS"), "a client waits")
    return holder, waiting


def row_of(weir, client):
    port = client.sock.getsockname()[1]
    return next(row for row in weir.show("CLIENTS") if row["port"] == port)


def explained(weir, client):
    """EXPLAIN CLIENT as {key: text}."""
    lines = [row["CLIENT STATE"] for row in weir.rows("EXPLAIN CLIENT %s" % row_of(weir, client)["ptr"])]
    assert re.fullmatch(r"Client C-0x\w+: \S+/\S+@\S+", lines[0]), lines
    return dict(re.fullmatch(r"  ([^:]+): (.*)", line).groups() for line in lines[1:])


# --- SHOW WAITS

def test_wait_for_the_size_of_a_pool(scene):
    weir = stage(scene)
    holder, waiting = held(weir)
    (row,) = weir.show("WAITS")
    server = row_of(weir, holder)["link"]
    assert (row["database"], row["user"], row["waits_for"], row["application_name"]) == ("p0", "app", "pool_size", "batch")
    assert (row["ptr"], row["holder"], row["holder_link"]) == (row_of(weir, waiting)["ptr"], row_of(weir, holder)["ptr"], server)
    assert row["wait_us"] > 0 and row["holder_us"] >= row["wait_us"] and re.match(r"\d{4}-\d\d-\d\d ", row["since"])
    words = IN_USE % (row["holder"], server)
    assert re.fullmatch(words, row["reason"]), row
    assert re.fullmatch(words + r"\. End long transactions, or raise default_pool_size\.", weir.pool("p0")["waits"])
    holder.query("COMMIT")
    assert waiting.result().value
    assert not weir.show("WAITS") and weir.pool("p0")["waits"] is None


def test_wait_for_the_limit_of_a_database_and_of_a_user(scene):
    fake = scene.mini()
    for setting, other in (("max_db_connections", {"user": "rival"}), ("max_user_connections", {"database": "p1"})):
        weir = stage(scene, {"p0": fake, "p1": fake}, default_pool_size=5, **{setting: 1})
        holder = weir.client(**other)
        holder.query("BEGIN")
        waiting = weir.connect()
        waiting.send(m.startup(user="app", database="p0"), m.query("one"))
        (row,) = until(lambda: weir.show("WAITS"), "it waits for " + setting)
        assert (row["waits_for"], row["holder"]) == (setting, row_of(weir, holder)["ptr"])
        assert re.match(r"the (database|user) has 1 of 1 server connections \(%s\): 1 of (rival|p1); the longest in use: " % setting, row["reason"])
        holder.query("COMMIT")
        waiting.read_until("Z")
        assert waiting.result().value


def test_wait_for_pause_and_for_a_login(scene):
    fake = scene.fake(login=lambda session: session.drain())
    weir = stage(scene, fake)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    (row,) = until(lambda: weir.show("WAITS"), "the login waits")
    assert (row["waits_for"], row["holder"]) == ("server login", None)
    assert row["reason"] == "the server connection S-%s is being opened" % row["holder_link"]
    weir.admin("PAUSE p0")
    (row,) = until(lambda: [row for row in weir.show("WAITS") if row["waits_for"] == "pause"], "the database is paused")
    assert (row["reason"], row["holder"], row["holder_link"]) == ("the database is paused", None, None)


def test_wait_for_a_look_up(scene):
    fake = scene.fake()
    weir = scene.weir(fake, auth_type="plain", auth_user="app", max_auth_query_connections=1, default_pool_size=5)
    clients = []
    for name in "first", "second":
        client = weir.connect()
        client.send(m.startup(user=name, database="p0"))
        clients.append(client)
    until(lambda: len(weir.show("WAITS")) == 2, "both wait")
    fake.accept()
    rows = until(lambda: (lambda rows: rows[0]["waits_for"] == "auth_query" and rows)(weir.show("WAITS")), "the first look-up runs")
    assert rows[0]["reason"] == "auth_query runs on the server connection S-%s" % rows[0]["holder_link"]
    assert rows[1]["waits_for"] == "max_auth_query_connections"


def test_many_waits_come_in_parts(scene):
    """Each part of a SHOW is a turn of its own: the rows are those of a walk over all clients."""
    weir = stage(scene, max_client_conn=1300, listen_backlog=1024, nofile=4096)
    holder = weir.client()
    holder.query("BEGIN")
    clients = [weir.client() for _ in range(1200)]
    for client in clients:
        client.send(m.query("one"))
    weir.wait_pool("p0", cl_waiting=1200)
    rows = weir.show("WAITS")
    assert len({row["ptr"] for row in rows}) == len(rows) == 1200
    holder.query("COMMIT")
    assert all(client.result().value for client in clients)


# --- errors

def test_error_after_query_wait_timeout_names_limit_holder_and_setting(scene):
    weir = stage(scene, query_wait_timeout=SOON)
    holder, waiting = held(weir)
    ids, waiting_id = row_of(weir, holder), row_of(weir, waiting)["ptr"]
    error = last_words(waiting)
    assert error["M"] == "query_wait_timeout"
    assert re.fullmatch(IN_USE % (ids["ptr"], ids["link"]), error["D"])
    # and the log has it
    weir.wait_log(r" LOG C-%s: \S+ detail: %s$" % (waiting_id, re.escape(error["D"])))
    assert error["H"] == "End long transactions, or raise default_pool_size."


def test_error_names_the_place_of_the_setting_and_the_reserve(scene):
    weir = stage(scene, {"p0": "host=127.0.0.1 port=%d pool_size=1 reserve_pool_size=1" % scene.mini().port}, reserve_pool_timeout=SOON, query_wait_timeout=2)
    first, second, waiting = weir.client(), weir.client(), weir.client()
    first.query("BEGIN")
    second.query("BEGIN")
    waiting.send(m.query("one"))
    error = last_words(waiting)
    assert error["D"].startswith("2 of 2 server connections are in use (pool_size of the database and reserve_pool_size); "), error
    assert error["H"] == "End long transactions, or raise pool_size of the database."


@pytest.mark.parametrize("setting, detail", (
    ("max_db_client_connections", "the database has 2 of 2 client connections (max_db_client_connections): 1 of app, 1 of rival"),
    ("max_user_client_connections", "the user has 2 of 2 client connections (max_user_client_connections): 1 of p0, 1 of p1")))
def test_error_of_a_client_limit_names_its_clients(scene, setting, detail):
    fake = scene.mini()
    weir = stage(scene, {"p0": fake, "p1": fake}, **{setting: 2})
    other = {"user": "rival"} if "db" in setting else {"database": "p1"}
    clients = [weir.client(), weir.client(**other)]
    late = weir.connect()
    late.send(m.startup(user="app", database="p0"))
    error = last_words(late)
    assert (error["M"], error["C"]) == ("client connections exceeded (%s)" % setting, "53300")
    assert (error["D"], error["H"]) == (detail, "SHOW CLIENTS on the console lists the clients.")
    assert all(client.query("one").value for client in clients)


def test_error_before_the_login_names_no_other_client(scene):
    weir = stage(scene, max_client_conn=1)
    client = weir.client()
    client.query("one")
    late = weir.connect()
    late.send(m.startup(user="app", database="p0"))
    error = last_words(late)
    assert (error["M"], error.get("D")) == ("no more connections allowed (max_client_conn)", None)
    assert error["H"] == "SHOW ADDRESSES and SHOW SOCKETS on the console list the connections."


# --- EXPLAIN CLIENT

def test_life_of_a_client(scene):
    weir = stage(scene)
    holder, waiting = held(weir)
    life = explained(weir, holder)
    assert list(life) == ["Connected", "Login", "State", "Server", "Transaction"]
    assert re.fullmatch(r"%s(?: \(.*\))?" % TIME, life["Login"]) and re.fullmatch("active, for " + TIME, life["State"])
    assert re.fullmatch(r"S-%s: p0/app@\S+, process \d+, for %s" % (row_of(weir, holder)["link"], TIME), life["Server"])
    life = explained(weir, waiting)
    assert life["Application"] == "batch"
    assert re.fullmatch(r"for pool_size, for %s: 1 of 1 server .*\. End long transactions, or raise default_pool_size\." % TIME, life["Wait"])
    holder.query("COMMIT")
    waiting.result()
    life = explained(weir, waiting)
    assert list(life) == ["Application", "Connected", "Login", "State", "Last wait"]
    assert re.fullmatch("%s, for pool_size, ended %s ago" % (TIME, TIME), life["Last wait"])


def test_life_of_a_client_that_has_not_logged_in(scene):
    weir = stage(scene)
    stranger = weir.connect()
    stranger.send(b"\0\0")
    (row,) = until(lambda: [row for row in weir.show("SOCKETS") if row["port"] == stranger.sock.getsockname()[1]], "it is accepted")
    lines = [row["CLIENT STATE"] for row in weir.rows("EXPLAIN CLIENT %s" % row["ptr"])]
    assert lines[0].startswith("Client C-%s: (nodb)/(nouser)@" % row["ptr"])
    assert re.fullmatch(r"  Login: in progress for %s \(client .*\), waits for: client" % TIME, lines[2])


def test_ids_and_rights(scene):
    weir = stage(scene)
    client = weir.client()
    client.query("select 'secret'")
    ptr = row_of(weir, client)["ptr"]
    looker = weir.client("stats", "pgweir")
    for name in ptr, "C-" + ptr, str(int(ptr, 16)), "'C-%s'" % ptr:
        looker.send(m.query("explain client " + name))
        result = looker.result()
        assert result.rows and result.tags == ["EXPLAIN"] and not any("secret" in str(row) for row in result.rows)
    for text, error in (("EXPLAIN CLIENT 999999", "client not found"), ("EXPLAIN CLIENT S-0x1", "invalid client pointer supplied"),
                        ("EXPLAIN CLIENT", "invalid client pointer supplied"), ("EXPLAIN 1", "invalid command 'EXPLAIN 1', use SHOW HELP;")):
        looker.send(m.query(text))
        assert looker.result().error == error
    assert weir.admin("KILL_CLIENT C-" + ptr) == "KILL_CLIENT"


def test_life_of_a_client_continues_after_an_online_restart(scene):
    weir = stage(scene, kind=Replaced)
    holder, waiting = held(weir)
    holder.query("COMMIT")
    waiting.result()
    before = explained(weir, waiting)
    weir.replace()
    after = explained(weir, waiting)
    assert after["Login"] == before["Login"] and after["Connected"].split(",")[0] == before["Connected"].split(",")[0]
    assert after["Last wait"].rsplit(",", 1)[0] == before["Last wait"].rsplit(",", 1)[0]


def test_reload_changes_the_setting_that_is_named(scene):
    weir = stage(scene, query_wait_timeout=0)
    holder, waiting = held(weir)
    weir.admin("SET default_pool_size = 2")
    assert waiting.result().value and not weir.show("WAITS")
    holder.query("COMMIT")
