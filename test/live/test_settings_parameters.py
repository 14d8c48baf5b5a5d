"""Session parameters: allowed start-up parameters, and values that follow the client from server to server."""
import pytest

from support import messages as m
from support.live import NEVER, ask, ended_with, hold, let_go, pid_of

TRACKED = [("client_encoding", "LATIN1"), ("DateStyle", "SQL, DMY"), ("TimeZone", "Asia/Tokyo"),
           ("standard_conforming_strings", "off"), ("application_name", "it's \\ me"), ("IntervalStyle", "iso_8601")]


def shared_server(scene, postgres, **settings):
    """pgweir with clients that take turns on a single server connection."""
    return scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, **settings)


@pytest.mark.parametrize("name, value", TRACKED)
def test_startup_parameters_follow_their_client(scene, postgres, name, value):
    weir = shared_server(scene, postgres)
    plain, special = weir.client(), weir.client(**{name: value})
    usual = plain.query("SHOW " + name).value
    for _ in range(3):
        assert special.query("SHOW " + name).value == value
        assert plain.query("SHOW " + name).value == usual
    assert special.parameters[name] == value and plain.parameters[name] == usual
    assert pid_of(plain) == pid_of(special)


@pytest.mark.parametrize("name, value", TRACKED)
def test_values_set_by_a_client_follow_it(scene, postgres, name, value):
    weir = shared_server(scene, postgres)
    plain, special = weir.client(), weir.client()
    usual = plain.query("SHOW " + name).value
    special.query("SET %s = '%s'" % (name, value.replace("'", "''")))
    for _ in range(3):
        assert plain.query("SHOW " + name).value == usual
        assert special.query("SHOW " + name).value == value


def test_rolled_back_values_do_not_follow_the_client(scene, postgres):
    weir = shared_server(scene, postgres)
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    client.query("SET timezone = 'Asia/Tokyo'")
    client.query("ROLLBACK")
    assert other.query("SHOW timezone").value == "UTC"
    assert client.query("SHOW timezone").value == "UTC"


def test_equal_values_are_not_set(scene, postgres, heard):
    """Trap 42: a parameter that the server spells in its own way was set again before every transaction."""
    weir = shared_server(scene, postgres)
    first, second = weir.client(DateStyle="ISO"), weir.client(DateStyle="iso, mdy", client_encoding="utf-8")
    for client in (first, second) * 3:
        client.query("SELECT 1")
    assert len([text for text in heard() if text != "SELECT 1"]) <= 2
    assert first.parameters["DateStyle"] == second.parameters["DateStyle"] == "ISO, MDY"


def test_ignore_startup_parameters(scene, postgres):
    weir = shared_server(scene, postgres, ignore_startup_parameters="extra_float_digits, work_mem")
    client = weir.client(extra_float_digits="3", work_mem="5MB", options="-c work_mem=6MB")
    assert client.query("SHOW extra_float_digits").value == "1"
    assert client.query("SHOW work_mem").value == "4MB"
    weir.admin("SET ignore_startup_parameters = ''")
    assert weir.client(work_mem="5MB").query("SHOW work_mem").value == "5MB"


def test_options(scene, postgres):
    weir = shared_server(scene, postgres)
    client = weir.client(options="-c timezone=Asia/Tokyo --intervalstyle=iso_8601 -c application_name=two\\ words")
    plain = weir.client()
    for _ in range(2):
        assert client.query("SHOW timezone").value == "Asia/Tokyo"
        assert client.query("SHOW intervalstyle").value == "iso_8601"
        assert client.query("SHOW application_name").value == "two words"
        assert plain.query("SHOW timezone").value == "UTC"


def test_track_extra_parameters(scene, postgres):
    weir = shared_server(scene, postgres, track_extra_parameters="IntervalStyle, statement_timeout")
    client, plain = weir.client(options="-c statement_timeout=5s"), weir.client()
    for _ in range(3):
        assert client.query("SHOW statement_timeout").value == "5s"
        assert plain.query("SHOW statement_timeout").value == "0"


def test_application_name_add_host(scene, postgres):
    weir = shared_server(scene, postgres, application_name_add_host=1)
    client = weir.client(application_name="me")
    host, port = client.sock.getsockname()
    assert client.query("SHOW application_name").value == "me - %s:%d" % (host, port)
    over_unix = weir.client(application_name="me", unix=True)
    assert over_unix.query("SHOW application_name").value.startswith("me - unix")


@pytest.mark.parametrize("state", ["off", "full"])
def test_application_name_add_host_after_set(scene, postgres, state):
    weir = shared_server(scene, postgres, application_name_add_host=1, session_state=state)
    client, other = weir.client(application_name="me"), weir.client(application_name="other")
    host, port = client.sock.getsockname()
    for name in "me too", "me and others":
        client.query("SET application_name = '%s'" % name)
        for _ in range(2):
            assert client.query("SHOW application_name").value == "%s - %s:%d" % (name, host, port)
            assert other.query("SHOW application_name").value == "other - %s:%d" % other.sock.getsockname()
    client.query("SET application_name = ''")
    assert client.query("SHOW application_name").value == "app - %s:%d" % (host, port)


@pytest.mark.parametrize("settings, reset", [
    # the server began with a name of none
    pytest.param({"pool_mode": "session"}, "app", id="session"),
    pytest.param({"pool_mode": "transaction", "session_state": "full"}, "me", id="pinned")])
def test_application_name_add_host_on_a_server_of_its_own(scene, postgres, settings, reset):
    weir = scene.weir({"p0": postgres}, application_name_add_host=1, **settings)
    client = weir.client(application_name="me")
    client.query("CREATE TEMP TABLE mine (n int)")
    address = " - %s:%d" % client.sock.getsockname()

    def names(name):
        where = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        assert [client.query(where).value, client.query("SHOW application_name").value] == [name + address] * 2

    names("me")
    client.query("SET application_name = 'me too'")
    names("me too")
    client.query("SELECT set_config('application_name', 'function', false)")
    names("function")
    client.query("BEGIN; SET application_name = 'undone'")
    client.query("ROLLBACK")
    names("function")
    client.query("BEGIN; SET LOCAL application_name = 'local'")
    client.query("COMMIT")
    names("function")
    client.send(m.parse("SET application_name = 'extended'") + m.bind() + m.execute() + m.sync())
    client.result()
    names("extended")
    client.query("RESET application_name")
    names(reset)
    client.query("SET application_name = 'again'; DISCARD TEMP")
    client.query("RESET ALL")
    names(reset)


def test_refused_startup_value_affects_only_its_client(scene, postgres):
    """The login failed for the whole pool, and was not tried again for server_login_retry."""
    weir = scene.weir({"p0": postgres}, server_login_retry=NEVER)
    words = 'invalid value for parameter "TimeZone": "Mars/Olympus"'
    assert weir.connect().refused(user="app", database="p0", TimeZone="Mars/Olympus")["M"] == words
    plain = weir.client()
    assert plain.query("SHOW timezone").value == "UTC"
    client = weir.client(TimeZone="Mars/Olympus")
    ask(client, "SELECT 1")
    ended_with(client, words, "22023")
    for _ in range(3):
        assert pid_of(weir.client(TimeZone="Asia/Tokyo"))


@pytest.mark.parametrize("name, value, words, sqlstate", [
    ("client_encoding", "MULE_INTERNAL", "conversion between MULE_INTERNAL and UTF8 is not supported", "0A000"),
    ("log_statement", "all", 'permission denied to set parameter "log_statement"', "42501"),
    ("lc_messages", "nowhere", 'permission denied to set parameter "lc_messages"', "42501")])
def test_refused_clients_do_not_block_others(scene, postgres, name, value, words, sqlstate):
    """The login for that client was tried again and again, in front of all other clients, and none of them got an answer."""
    weir = scene.weir({"p0": postgres}, default_pool_size=3, server_login_retry=NEVER, track_extra_parameters="log_statement, lc_messages")
    first = weir.client()
    assert first.query("SELECT 1").value == "1"
    client = weir.client(**{name: value})
    ask(client, "SELECT 1")
    ended_with(client, words, sqlstate)
    assert pid_of(weir.client()) != pid_of(first)


def test_other_login_errors_affect_the_pool(scene, postgres):
    """Whatever its client has asked for: the login is not tried again before its time."""
    weir = scene.weir({"p0": postgres.target("nowhere")}, server_login_retry=NEVER, server_down="fail")
    words = 'database "nowhere" does not exist'
    assert weir.connect().refused(user="app", database="p0", TimeZone="Asia/Tokyo")["M"] == words
    assert words in weir.connect().refused(user="app", database="p0")["M"]
    assert weir.log().count("server login failed") == 1


def test_value_that_the_server_refuses_between_transactions(scene, postgres):
    weir = shared_server(scene, postgres)
    assert weir.client().query("SHOW timezone").value == "UTC"
    client = weir.client(TimeZone="Mars/Olympus")
    ask(client, "SELECT 1")
    ended_with(client, "invalid server parameter", "22023")
    weir.wait_log('setting the client.s parameters failed: ERROR invalid value for parameter "TimeZone"')
    assert weir.client().query("SHOW timezone").value == "UTC"


# --- session mode: RESET

@pytest.mark.parametrize("name, asked, other", [
    ("TimeZone", "Asia/Tokyo", "Europe/Paris"), ("DateStyle", "SQL, DMY", "German, DMY"),
    ("client_encoding", "LATIN1", "UTF8"), ("IntervalStyle", "iso_8601", "sql_standard")])
@pytest.mark.parametrize("reset", ["RESET {}", "SET {} TO DEFAULT", "RESET ALL", "DISCARD ALL"])
def test_reset_restores_the_startup_value(scene, postgres, name, asked, other, reset):
    weir = scene.weir({"p0": postgres})
    client = weir.client(**{name: asked})
    client.query("SET %s = '%s'" % (name, other))
    assert client.query("SHOW " + name).value == other
    assert client.query(reset.format(name)).status == "I"
    assert client.query("SHOW " + name).value == asked


def test_reset_without_a_startup_value(scene, postgres):
    """The connection of another client, which has requested a value, is not suitable."""
    weir = scene.weir({"p0": postgres}, default_pool_size=1)
    client = weir.client(TimeZone="Asia/Tokyo")
    client.query("SELECT 1")
    client.quit()
    client = weir.client()
    client.query("SET timezone = 'Europe/Paris'")
    client.query("RESET timezone")
    assert client.query("SHOW timezone").value == "UTC"


def test_connection_with_the_same_startup_parameters_is_lent_first(scene, postgres):
    weir = scene.weir({"p0": postgres})
    tokyo, paris = weir.client(TimeZone="Asia/Tokyo"), weir.client(TimeZone="Europe/Paris")
    pids = {"Asia/Tokyo": pid_of(tokyo), "Europe/Paris": pid_of(paris)}
    tokyo.quit()
    paris.quit()
    weir.wait_pool("p0", sv_idle=2)
    for zone in ("Asia/Tokyo", "Europe/Paris", "Asia/Tokyo"):
        client = weir.client(TimeZone=zone)
        assert pid_of(client) == pids[zone]
        client.quit()
        weir.wait_pool("p0", sv_idle=2)


def test_session_of_the_next_client_begins_clean(scene, postgres):
    weir = scene.weir({"p0": postgres}, default_pool_size=1)
    client = weir.client()
    pid = pid_of(client)
    for name, value in TRACKED:
        client.query("SET %s = '%s'" % (name, value.replace("'", "''")))
    client.query("SET enable_seqscan = off")
    client.quit()
    fresh = weir.client()
    assert pid_of(fresh) == pid
    for name, _ in TRACKED:
        direct = postgres.execute("SHOW " + name)
        assert name == "application_name" or fresh.query("SHOW " + name).value == direct[0][0]
    assert fresh.query("SHOW enable_seqscan").value == "on"


def test_parameters_in_a_transaction_stay_with_the_server(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=2)
    tokyo, paris = weir.client(TimeZone="Asia/Tokyo"), weir.client(TimeZone="Europe/Paris")
    hold(tokyo)
    hold(paris)
    assert tokyo.query("SHOW timezone").value == "Asia/Tokyo"
    assert paris.query("SHOW timezone").value == "Europe/Paris"
    let_go(tokyo)
    let_go(paris)
    assert tokyo.query("SHOW timezone").value == "Asia/Tokyo"
