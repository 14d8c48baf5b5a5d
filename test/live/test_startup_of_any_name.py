"""Start-up parameters that pgweir does not track: they follow their client from server to server, and reach no other client."""
import pytest

from support import messages as m
from support.live import pid_of
from support.postgres import major_version
from support.takeover import Replaced

OF_ANY_NAME = {"options": "-c app.tenant=a\\ b -c Work_Mem=5MB --lock-timeout=7s", "extra_float_digits": "3",
               "search_path": "pg_catalog, app", "statement_timeout": "50s"}
SHOWN = ("SELECT concat_ws('|', current_setting('app.tenant', true), current_setting('work_mem'), current_setting('lock_timeout'), "
         "current_setting('extra_float_digits'), current_setting('search_path'), current_setting('statement_timeout'))")
MINE, PLAIN = "a b|5MB|7s|3|pg_catalog, app|50s", ("4MB|0|1|\"$user\", public|0", "|4MB|0|1|\"$user\", public|0")


def shared_server(scene, postgres, kind=None, **settings):
    """pgweir with clients that take turns on a single server connection."""
    return scene.weir({"p0": postgres}, **{"pool_mode": "transaction", "default_pool_size": 1, **({"kind": kind} if kind else {}), **settings})


def test_parameters_follow_their_client(scene, postgres):
    weir = shared_server(scene, postgres)
    mine, plain, other = weir.client(**OF_ANY_NAME), weir.client(), weir.client(options="-c app.tenant=other -c statement_timeout=1h")
    for _ in range(3):
        assert mine.query(SHOWN).value == MINE
        assert plain.query(SHOWN).value in PLAIN
        assert other.query("SELECT current_setting('app.tenant') || current_setting('statement_timeout')").value == "other1h"
        assert other.query("SHOW work_mem").value == "4MB"
    assert pid_of(mine) == pid_of(plain) == pid_of(other)


def test_equal_values_are_not_set(scene, postgres, heard):
    weir = shared_server(scene, postgres)
    first, second = (weir.client(**{name: value}) for name, value in (("options", "-c WORK_MEM=5MB -c app.x=1"), ("options", "-c app.x=1 -c work_mem=5MB")))
    for client in (first, second) * 3:
        client.query("SELECT 1")
    assert len([text for text in heard() if text != "SELECT 1"]) == 1


def test_last_of_repeated_values_applies(scene, postgres):
    weir = shared_server(scene, postgres)
    client = weir.client(options="-c work_mem=1MB -c work_mem=2MB -c geqo=off", geqo="on")
    assert client.query("SELECT current_setting('work_mem') || current_setting('geqo')").value == "2MBon"


@pytest.mark.parametrize("text", ["RESET work_mem", "RESET ALL", "DISCARD ALL", "SET work_mem = '1MB'"])
def test_startup_value_is_restored(scene, postgres, text):
    """The next transaction begins with the client's start-up value."""
    weir = shared_server(scene, postgres)
    mine, plain = weir.client(options="-c work_mem=5MB"), weir.client()
    for _ in range(2):
        mine.query(text)
        assert mine.query("SHOW work_mem").value == "5MB"
        mine.query(text)
        assert plain.query("SHOW work_mem").value == "4MB"


def test_session_mode(scene, postgres):
    """There the server is opened with them, so that RESET leads to them at once."""
    weir = shared_server(scene, postgres, pool_mode="session", default_pool_size=2)
    mine, plain = weir.client(**OF_ANY_NAME), weir.client()
    assert mine.query(SHOWN).value == MINE and plain.query(SHOWN).value in PLAIN
    mine.query("SET work_mem = '1MB'")
    mine.query("RESET ALL")
    assert mine.query(SHOWN).value == MINE


@pytest.mark.parametrize("name, value, words, sqlstate", [
    ("nosuch", "1", 'unrecognized configuration parameter "nosuch"', "42704"),
    ("work_mem", "much", 'invalid value for parameter "work_mem": "much"', "22023"),
    ("server_version", "9", 'parameter "server_version" cannot be changed', "55P02")])
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_value_refused_by_the_server(scene, postgres, mode, name, value, words, sqlstate):
    """The client gets the same error as on a direct connection, by its first query. A shared server is kept."""
    weir = shared_server(scene, postgres, pool_mode=mode)
    plain = weir.client()
    pid = pid_of(plain)
    if mode == "session":
        plain.close()
    client = weir.client(**{name: value})
    client.send(m.query("SELECT 1"))
    errors = [m.read_error(message.body) for message in client.drain() if message.type == "E"]
    assert [(error["M"], error["C"]) for error in errors] == [(words, sqlstate)]
    if mode == "transaction":
        assert pid_of(plain) == pid


@pytest.mark.parametrize("name", ["role", "session_authorization", "log_connections", "local_preload_libraries", "1a", "a..b", ".a", "a.", "a-b", "ä", "x" * 201])
def test_names_that_no_session_can_take_over(scene, postgres, name):
    weir = shared_server(scene, postgres)
    assert weir.connect().refused(user="app", database="p0", **{name: "1"})["M"].startswith("unsupported startup parameter: ")


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("more", [{"User": "postgres"}, {"DATABASE": "postgres"}, {"Replication": "true"}, {"Options": "-c datestyle=German"},
                                  {"_PQ_.x": "1"}, {"options": "-c user=postgres"}, {"options": "-c database=postgres"},
                                  {"options": "-c options=-c\\ datestyle=German"}], ids=lambda more: " ".join(map("=".join, more.items())))
def test_names_reserved_by_the_startup_message(scene, postgres, mode, more):
    """A server would interpret these names as its own, after the names that pgweir has sent."""
    weir = shared_server(scene, postgres, pool_mode=mode)
    assert weir.connect().refused(user="app", database="p0", **more)["M"].startswith("unsupported startup parameter")
    assert weir.client().query("SELECT current_user || ' ' || current_database()").value == "app p0"


def test_values_recorded_by_pgweir(scene, postgres):
    """The search_path of connect_query, noted in the session, is set for the clients without one of their own."""
    if major_version() >= 18:
        pytest.skip("PostgreSQL 18 reports search_path")
    weir = scene.weir({"p0": postgres.target("p0", connect_query="'SET search_path = pg_catalog, app'")}, pool_mode="transaction",
                      default_pool_size=1)
    for name in ("pgweir.search_path", "PGWEIR.search_path"):
        words = weir.connect().refused(user="app", database="p0", options="-c search_path=other -c %s==mine" % name)["M"]
        assert words == "unsupported startup parameter in options: " + name
    mine, plain = weir.client(search_path="other"), weir.client()
    for _ in range(2):
        assert mine.query("SHOW search_path").value == "other"
        assert plain.query("SHOW search_path").value == "pg_catalog, app"


@pytest.mark.parametrize("value", ["pg_catalog, app", "\"Ä\"\"'\", app"])
@pytest.mark.parametrize("statement", [
    "SET pgweir.search_path = '=evil'", "SELECT set_config('pgweir.search_path', '=evil', false)", "RESET pgweir.search_path", "DISCARD ALL", "RESET ALL"])
def test_no_client_changes_the_search_path_of_others(scene, postgres, statement, value):
    """The value of connect_query was noted in the session itself, where each client could change it."""
    if major_version() >= 18:
        pytest.skip("PostgreSQL 18 reports search_path")
    weir = scene.weir({"p0": postgres.target("p0", connect_query="'SET search_path = %s'" % value.replace("'", "''"))}, pool_mode="transaction",
                      default_pool_size=1)
    plain = weir.client()
    assert plain.query("SHOW search_path").value == value
    for before in ("SET search_path = other", "SET search_path = pg_temp"):
        mine = weir.client(client_encoding="LATIN1")
        mine.query(before)
        mine.query(statement)
        assert plain.query("SHOW search_path").value == value


def test_value_that_cannot_be_restored(scene, postgres):
    """The library that a DO block loads reserves the prefix of the name: its session ends, and the next client gets another session."""
    weir = shared_server(scene, postgres)
    mine, plain, other = weir.client(options="-c plpgsql.nosuch=1"), weir.client(), weir.client(work_mem="5MB")
    for client, value in ((plain, "4MB"), (other, "5MB"), (plain, "4MB")):
        if client is plain:
            mine.query("DO $$ BEGIN END $$")
        assert client.query("SHOW work_mem").value == value


def test_one_parameter_under_two_names(scene, postgres):
    weir = shared_server(scene, postgres)
    old, new = weir.client(sort_mem="5MB"), weir.client(work_mem="6MB")
    for _ in range(2):
        assert old.query("SHOW work_mem").value == "5MB"
        assert new.query("SHOW work_mem").value == "6MB"


def test_maximum_number_of_parameters(scene, postgres):
    weir = shared_server(scene, postgres)
    names = ["a.p%03d" % i for i in range(201)]
    one, two = weir.client(**dict.fromkeys(names[:200], "x")), weir.client(**dict.fromkeys(["b" + name for name in names[:200]], "y"))
    for _ in range(2):
        assert one.query("SELECT current_setting('a.p199') || coalesce(current_setting('ba.p199', true), '')").value == "x"
        assert two.query("SELECT current_setting('ba.p199') || coalesce(current_setting('a.p199', true), '')").value == "y"
    assert weir.connect().refused(user="app", database="p0", **dict.fromkeys(names, "x"))["M"] == "unsupported startup parameter: a.p200"


def test_welcome_has_the_requested_values(scene, postgres):
    weir = shared_server(scene, postgres)
    mine, plain = weir.client(default_transaction_read_only="TRUE"), weir.client()
    assert mine.parameters["default_transaction_read_only"] == "on"
    assert plain.parameters["default_transaction_read_only"] == "off"
    for _ in range(2):
        assert mine.query("SHOW transaction_read_only").value == "on"
        assert plain.query("SHOW transaction_read_only").value == "off"


@pytest.mark.parametrize("name, value, spelled", [
    ("client_encoding", "utf-8", "UTF8"), ("client_encoding", "latin-1", "LATIN1"), ("standard_conforming_strings", "No", "off"),
    ("standard_conforming_strings", "t", "on"), ("IntervalStyle", "ISO_8601", "iso_8601"), ("DateStyle", "german", "German, DMY")])
def test_values_have_the_spelling_of_the_server(scene, postgres, name, value, spelled):
    weir = shared_server(scene, postgres)
    first, second = weir.client(**{name: value}), weir.client(**{name: spelled})
    assert first.parameters[name] == second.parameters[name] == spelled
    first.query("SELECT 1")
    assert not [message for message in second.query("SHOW " + name).messages if message.type == "S"]


def test_statements_are_shared_only_under_the_same_parameters(scene, postgres):
    """A comparison with NULL: transform_null_equals changes the meaning of the text when it is parsed."""
    weir = shared_server(scene, postgres)
    mine, plain = weir.client(transform_null_equals="on"), weir.client()
    for client, value in ((mine, "true"), (plain, "unknown"), (mine, "true"), (plain, "unknown")):
        client.send(m.parse("SELECT coalesce((NULL::int = NULL)::text, 'unknown')", "a") + m.bind("a") + m.execute() + m.close(name="a") + m.sync())
        assert client.result().value == value


def test_connect_query_sets_the_same_parameter(scene, postgres):
    """Values set by connect_query cannot be restored: the server is closed when it is released."""
    weir = scene.weir({"p0": postgres.target("p0", connect_query="'SET work_mem = ''9MB'''")}, pool_mode="transaction", default_pool_size=1)
    mine, plain = weir.client(work_mem="5MB"), weir.client()
    pid = pid_of(plain)
    assert plain.query("SHOW work_mem").value == "9MB"
    assert mine.query("SHOW work_mem").value == "5MB"
    assert plain.query("SHOW work_mem").value == "9MB"
    assert pid_of(plain) != pid
    assert "parameters of the session cannot be set back" in weir.log()


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_online_restart(scene, postgres, mode):
    weir = shared_server(scene, postgres, kind=Replaced, server_tls_sslmode="disable", pool_mode=mode, default_pool_size=2)
    mine, plain = weir.client(**OF_ANY_NAME), weir.client()
    assert mine.query(SHOWN).value == MINE
    weir.replace()
    for _ in range(2):
        assert plain.query(SHOWN).value in PLAIN
        assert mine.query(SHOWN).value == MINE


def test_a_reload_to_transaction_mode(scene, postgres):
    """Servers that were opened with one client's parameters serve no other."""
    weir = shared_server(scene, postgres, pool_mode="session")
    mine = weir.client(**OF_ANY_NAME)
    assert mine.query(SHOWN).value == MINE
    mine.close()
    weir.admin("SET pool_mode = 'transaction'")
    mine, plain = weir.client(**OF_ANY_NAME), weir.client()
    for _ in range(2):
        assert plain.query(SHOWN).value in PLAIN
        assert mine.query(SHOWN).value == MINE
