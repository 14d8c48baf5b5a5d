"""Traps 39 to 47 with a real server: parameters and notifications that stay with the session they belong to."""
import re

import pytest

from support import messages as m
from support.live import pid_of
from support.postgres import SECRETS
from support.scenes import transactions
from support.wire import Client


def direct(postgres, **parameters):
    """A connection past pgweir."""
    client = Client(postgres.port)
    client.login(user="app", database="p0", password=SECRETS["app"], **parameters)
    return client


def show(client, name):
    return client.query("SHOW " + name).value


def test_trap_39_one_channel_in_two_databases(scene, postgres):
    """Listeners were identified by the channel only, and notifications came in another order."""
    weir = scene.weir({"p0": postgres, "p1": postgres}, pool_mode="session")
    listeners = {name: [weir.client(database=name) for _ in range(2)] for name in ("p0", "p1")}
    for client in listeners["p0"] + listeners["p1"]:
        assert client.query("LISTEN news").tags == ["LISTEN"]
    for name in listeners:
        sender = weir.client(database=name)
        for number in range(50):
            sender.query("NOTIFY news, '%s %d'" % (name, number))
    for name, clients in listeners.items():
        for client in clients:
            got = [m.read_cstrings(client.expect("A").body[4:])[1] for _ in range(50)]
            assert got == ["%s %d" % (name, number) for number in range(50)]
            assert [message.type for message in client.query("SELECT 1").messages] == list("TDCZ")


def test_trap_41_parameter_that_is_not_reported(scene, postgres):
    """The next client does not get the start-up value of another."""
    weir = transactions(scene, {"p0": postgres}, track_extra_parameters="enable_seqscan")
    plain, without = weir.client(), weir.client(enable_seqscan="off")
    for _ in range(5):
        assert show(without, "enable_seqscan") == "off"
        assert show(plain, "enable_seqscan") == "on"
        assert show(weir.client(), "enable_seqscan") == "on"


def test_trap_41_in_session_mode(scene, postgres):
    weir = scene.weir({"p0": postgres}, default_pool_size=1, track_extra_parameters="enable_seqscan")
    for value in ("off", None, "off", None):
        client = weir.client(**({"enable_seqscan": value} if value else {}))
        assert show(client, "enable_seqscan") == (value or "on")
        client.quit()


def test_trap_42_value_that_changes_nothing(scene, postgres, heard):
    """The server reports no change when "utf-8" is set over "UTF8": it was set again for each transaction."""
    weir = transactions(scene, {"p0": postgres})
    clients = [weir.client(client_encoding="utf-8"), weir.client(), weir.client(client_encoding="utf8")]
    for _ in range(10):
        for client in clients:
            assert show(client, "client_encoding") == "UTF8"
    assert len([sql for sql in heard() if "set_config" in sql]) <= 2


MONTH = "SELECT extract(month FROM '01/02/2003'::date)"


@pytest.mark.parametrize("asked, month, spelled", [
    ("ISO", "1", "ISO, MDY"), ("Postgres", "1", "Postgres, MDY"), ("German", "2", "German, DMY"), ("European", "2", "ISO, DMY"),
    ("sql, ymd", None, "SQL, YMD"), ("DEFAULT", "1", "ISO, MDY")])
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_half_of_a_datestyle(scene, postgres, mode, asked, month, spelled):
    """Drivers request ISO. The order of date fields was then the order of the previous client of the server connection."""
    weir = scene.weir({"p0": postgres}, pool_mode=mode, default_pool_size=1)
    with Client(postgres.port) as direct:
        direct.login(user="app", database="p0", password=SECRETS["app"], DateStyle=asked)
        assert direct.parameters["DateStyle"] == spelled
    for other in "SQL, DMY", "Postgres, YMD", "ISO, MDY":
        with weir.client() as before:
            before.query("SET DateStyle = '%s'" % other)
            if mode == "session":
                before.quit()
            with weir.client(DateStyle=asked) as client:
                assert show(client, "DateStyle") == spelled
                assert month is None or client.query(MONTH).value == month
                if asked != "DEFAULT":
                    assert client.parameters["DateStyle"] == spelled
                client.quit()


AWKWARD = {
    "search_path": ['"a b", "quo""te", \'\'', "back\\slash, \"'\"", "public", '""'],
    "application_name": ["it's", 'say "no"', "back\\slash", "", "per%cent $1", "E'\\\\'"],
}


@pytest.mark.parametrize("name", AWKWARD)
def test_trap_43_quoting(scene, postgres, name):
    """Each time a value went from server to server it was quoted once more, or came apart at a comma."""
    weir = transactions(scene, {"p0": postgres}, track_extra_parameters="search_path")
    wanted, clients = [], []
    for value in AWKWARD[name]:
        with direct(postgres, **{name: value}) as reference:
            wanted.append(show(reference, name))
        clients.append(weir.client(**{name: value}))
    for _ in range(100):
        assert [show(client, name) for client in clients] == wanted


def test_trap_44_empty_application_name(scene, postgres):
    """An empty name at the start hid the name that was set later."""
    weir = transactions(scene, {"p0": postgres}, pool_size=2)
    client, rival = weir.client(application_name=""), weir.client(application_name="rival")
    pid = pid_of(client)
    client.query("SET application_name = 'later'")
    rival.query("BEGIN")
    assert pid_of(rival) == pid
    assert pid_of(client) != pid
    assert show(client, "application_name") == "later"


SETTING = """
BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SHOW transaction_isolation; COMMIT; SHOW transaction_isolation
BEGIN; SELECT 1; SET application_name = 'rolled back'; SHOW application_name; ROLLBACK; SHOW application_name
BEGIN; SELECT 1; SET application_name = 'kept'; COMMIT; SHOW application_name
BEGIN; SET LOCAL DateStyle = 'German'; SHOW DateStyle; COMMIT; SHOW DateStyle
BEGIN; SET DateStyle = 'SQL'; SAVEPOINT a; SET DateStyle = 'German'; ROLLBACK TO a; COMMIT; SHOW DateStyle
BEGIN; SET TimeZone = 'Europe/Paris'; SELECT 1/0; ROLLBACK; SHOW TimeZone
SET TimeZone = 'Asia/Tokyo'; SHOW TimeZone; RESET TimeZone; SHOW TimeZone
BEGIN READ ONLY; SHOW transaction_read_only; COMMIT; SHOW transaction_read_only
"""


def test_trap_45_set_in_and_for_a_transaction(scene, postgres):
    """Every statement is a message of its own, and between transactions another client has the server."""
    weir = transactions(scene, {"p0": postgres})
    rival = weir.client(application_name="rival", DateStyle="Postgres", TimeZone="Africa/Cairo")
    with direct(postgres) as reference:
        client = weir.client()
        for sql in re.split(r";|\n", SETTING.strip()):
            through, past = client.query(sql.strip()), reference.query(sql.strip())
            assert (through.rows, through.tags, through.status) == (past.rows, past.tags, past.status), sql
            if client.status == "I":
                assert show(rival, "DateStyle") == "Postgres, MDY"


def test_trap_46_reset_query_that_fails(scene, postgres):
    """The error of the reset query was ignored, and the server was lent unchanged."""
    weir = scene.weir({"p0": postgres}, pool_mode="session", default_pool_size=1, server_reset_query="SELECT 1/0")
    client = weir.client()
    pid = pid_of(client)
    client.query("SET work_mem = '77MB'")
    client.quit()
    other = weir.client()
    assert pid_of(other) != pid
    assert show(other, "work_mem") == postgres.execute("SHOW work_mem")[0][0]
    weir.wait_log(r"WARNING S-0x.* server_reset_query failed: ERROR division by zero")
    weir.wait_log(r"S-0x.* closing because: reset query failed")


def test_trap_47_welcome_after_an_upgrade(scene):
    """The client gets the version of its server, not of the previous server."""
    fakes = {version: scene.mini() for version in ("15.6", "18.0")}
    for version, fake in fakes.items():
        def login(session, version=version):
            session.parameters["server_version"] = version
            session.welcome()
        fake.login = login
    weir = transactions(scene, {"p0": fakes["15.6"]})
    old = weir.client()
    assert old.parameters["server_version"] == "15.6"
    weir.databases["p0"] = fakes["18.0"]
    weir.write_ini()
    weir.admin("RELOAD")
    assert weir.client().parameters["server_version"] == "18.0"
    assert old.query("which").value == "which"
    assert ("which" in [sql for _, sql in fakes["18.0"].queries]) and not fakes["15.6"].queries


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "unicode", "UNICODE", "iso-8859-1", "latin10", "Windows-1252", "win", "koi8", "alt",
                                  "tcvn5712", "shift_jis", "euc_jp", "gb18030", "uhc", "ISO_8859-7", "sql_ascii"])
def test_client_encoding_is_spelled_at_login_as_the_server_spells_it(scene, postgres, name):
    weir = transactions(scene, {"p0": postgres})
    expected = direct(postgres, client_encoding=name)
    client = weir.client(client_encoding=name)
    assert client.parameters["client_encoding"] == expected.parameters["client_encoding"]
    assert show(client, "client_encoding") == show(expected, "client_encoding")
