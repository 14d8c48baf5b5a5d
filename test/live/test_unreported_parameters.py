"""
Tracked parameters that the server does not report, above all search_path (reported since PostgreSQL 18): changes by one client do not affect the
next. The clients alternate on one server connection.
"""
import pytest

from support import messages as m
from support.postgres import SECRETS, major_version
from support.scenes import transactions
from support.wire import Client

EXTRA = "enable_seqscan, extra.name, lc_messages, no_such_parameter, role"
USUAL = {"search_path": '"$user", public', "enable_seqscan": "on", "role": "none"}
OWN = {"search_path": "a", "enable_seqscan": "off", "extra.name": "mine"}

# Messages of a client.
CHANGES = [
    ["DISCARD ALL"], ["RESET ALL"], ["SET search_path = public"], ["RESET search_path"], ["SET enable_seqscan = on"],
    ["SET extra.name = 'its'"], ["RESET extra.name; RESET enable_seqscan"], ["SET SESSION search_path = b; SELECT 1"],
    ["BEGIN", "SET search_path = b", "COMMIT"], ["BEGIN", "SET search_path = b", "ROLLBACK"],
    ["BEGIN", "SET LOCAL search_path = b", "ROLLBACK"], ["BEGIN", "SET LOCAL enable_seqscan = on", "COMMIT"],
    ["BEGIN", "SET search_path = b", "SAVEPOINT x", "RESET ALL", "ROLLBACK TO x", "COMMIT"],
    ["SET search_path = b", "DISCARD ALL", "SET enable_seqscan = on"], ["BEGIN; SET search_path = b; SELECT 1/0", "ROLLBACK"],
]


def has(client, name):
    return client.query("SELECT coalesce(current_setting('%s', true), '')" % name).value


def own_all(clients):
    """Each client has its requested values, and other parameters are unchanged."""
    for client, asked in clients:
        for name in OWN:
            if name in asked:
                assert has(client, name) == asked[name]
            else:
                assert has(client, name) == USUAL.get(name, "")
        assert has(client, "role") == USUAL["role"]


@pytest.fixture
def unreported():
    """A reported parameter that a client changes follows that client; a change by connect_query follows no client."""
    if major_version() >= 18:
        pytest.skip("PostgreSQL 18 reports search_path")


def extended(client, text):
    client.send(m.parse(text), m.bind(), m.execute(), m.sync())
    return client.result()


@pytest.mark.usefixtures("unreported")
@pytest.mark.parametrize("change", CHANGES, ids=" - ".join)
def test_changes_of_a_client_do_not_affect_others(scene, postgres, change):
    weir = transactions(scene, {"p0": postgres}, track_extra_parameters=EXTRA)
    clients = [(weir.client(**asked), asked) for asked in (OWN, {}, OWN, {"search_path": "b"})]
    for hand in Client.query, extended:
        for client, asked in clients:
            for text in change:
                if hand is extended and ";" in text:
                    continue
                hand(client, text)
            # the first of them is also the next one
            own_all([(client, asked)] + clients)


def test_another_size_of_answer_changes_nothing(scene, postgres):
    """The tag comes after rows, and before some, in one piece or by itself."""
    weir = transactions(scene, {"p0": postgres})
    other = weir.client(search_path="a")
    for size in 1, 1000, 70000, 500000:
        client = weir.client(search_path="a")
        long = "SELECT repeat('x', %d)" % size
        client.query("%s; SET search_path = b; %s" % (long, long))
        assert has(other, "search_path") == "a"
        client.send(m.query(long), m.query("SET search_path = b"), m.query(long))
        for _ in range(3):
            client.result()
        assert has(other, "search_path") == "a"


@pytest.mark.parametrize("spelling", ["DISCARD ALL", "RESET ALL", "DISCARD ALL;", "discard  all ; ", "RESET ALL; SELECT 1",
                                      "SET search_path = b", "RESET enable_seqscan; SET search_path = b"])
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_reset_queries_of_any_spelling(scene, postgres, mode, spelling):
    weir = scene.weir({"p0": postgres}, pool_mode=mode, default_pool_size=1, track_extra_parameters=EXTRA,
                      server_reset_query=spelling, server_reset_query_always=1)
    if mode == "transaction":
        own_all([(weir.client(**asked), asked) for asked in (OWN, {}, OWN)] * 2)
        return
    for asked in (OWN, OWN, {}, OWN, {"search_path": "b"}, {}, OWN):
        with weir.client(**asked) as client:
            own_all([(client, asked)])
            client.query("SET search_path = c; SET enable_seqscan = off")
            client.quit()


def test_check_query_that_resets(scene, postgres):
    weir = transactions(scene, {"p0": postgres}, server_check_query="RESET ALL", server_check_delay=0)
    clients = [weir.client(search_path="a") for _ in range(2)]
    for client in clients * 3:
        assert has(client, "search_path") == "a"


@pytest.mark.parametrize("query, path", [
    ("SET search_path TO c, public", "c, public"), ("SELECT set_config($$search_path$$, $$$$, false)", ""),
    ("SELECT set_config($$search_path$$, concat($$\"a$$, chr(10), $$b\"$$), false)", '"a\nb"')], ids=["list", "empty", "lines"])
@pytest.mark.usefixtures("unreported")
def test_values_of_connect_query_are_kept(scene, postgres, query, path):
    """Also when a client discards all that the session has."""
    weir = transactions(scene, {"p0": postgres.target("p0", connect_query="'%s'" % query)})
    one, other, own = weir.client(), weir.client(), weir.client(search_path="a")
    for change in "SELECT 1", "SET search_path = b", "SET LOCAL work_mem = '5MB'", "RESET search_path":
        for client in one, other, own:
            client.query(change)
            assert has(own, "search_path") == "a"
            assert has(one, "search_path") == has(other, "search_path") == path
    for reset in "RESET ALL", "DISCARD ALL":
        one.query(reset)
        assert has(other, "search_path") == path
        assert has(own, "search_path") == "a"


def test_clients_without_settings_cause_no_query(scene, postgres, heard):
    weir = transactions(scene, {"p0": postgres}, track_extra_parameters=EXTRA)
    clients = [weir.client(search_path="a") for _ in range(2)]
    for client in clients * 20:
        assert client.query("BEGIN").tags == ["BEGIN"]
        assert has(client, "search_path") == "a"
        assert client.query("COMMIT").tags == ["COMMIT"]
    assert len([sql for sql in heard() if "set_config" in sql or "RESET" in sql]) == 1


def test_a_setting_costs_one_query(scene, postgres, heard):
    """And none where each client has a session of its own, which is reset in a way that is known."""
    weir = transactions(scene, {"p0": postgres})
    clients = [weir.client(search_path="a") for _ in range(2)]
    for _ in range(5):
        clients[0].query("BEGIN")
        clients[0].query("SET LOCAL work_mem = '5MB'")
        clients[0].query("COMMIT")
        for client in clients:
            assert has(client, "search_path") == "a"
    assert len([sql for sql in heard() if "set_config" in sql]) <= 6


def test_known_reset_causes_no_query(scene, postgres, heard):
    weir = scene.weir({"p0": postgres}, default_pool_size=1, pool_mode="session")
    for _ in range(5):
        with weir.client() as client:
            client.query("SET search_path = b")
            client.query("SELECT 1")
            client.quit()
        with weir.client() as client:
            assert has(client, "search_path") == USUAL["search_path"]
            client.quit()
    assert not [sql for sql in heard() if "set_config" in sql or "RESET" in sql]


def test_discard_in_session_mode(scene, postgres):
    """The reset restores the initial values of the session, as on a direct connection."""
    weir = scene.weir({"p0": postgres}, default_pool_size=1, pool_mode="session")
    for reset in "DISCARD ALL", "RESET ALL":
        client = weir.client(search_path="a")
        direct = Client(postgres.port)
        direct.login(user="app", database="p0", password=SECRETS["app"], search_path="a")
        for each in client, direct:
            each.query("SET search_path = b")
            assert has(each, "search_path") == "b"
            each.query(reset)
            assert has(each, "search_path") == "a"
            each.quit()


LONG_DASH, SCHEMA = "billing \u2013 night", '"sch\u00e9ma"'


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SJIS", "UTF8", "utf8", "SQL_ASCII"])
@pytest.mark.parametrize("own", ["UTF8", "utf-8"])
def test_values_are_read_in_the_encoding_of_their_client(scene, postgres, encoding, own):
    """The values are sent in the client's encoding, although the server reads the query that sets them in the encoding of the previous client."""
    weir = transactions(scene, {"p0": postgres})
    other = weir.client(client_encoding=encoding)
    wide = weir.client(client_encoding=own, search_path=SCHEMA, application_name=LONG_DASH)
    for _ in range(3):
        assert other.query("SELECT 1").value == "1"
        assert has(wide, "search_path") == SCHEMA
        assert has(wide, "application_name").startswith("billing ")
        assert has(other, "search_path") == USUAL["search_path"]


def test_values_of_a_client_with_another_encoding_than_the_database(scene, postgres):
    weir = transactions(scene, {"p0": postgres})
    wide = weir.client(client_encoding="UTF8", search_path=SCHEMA)
    narrow = [weir.client(client_encoding="LATIN1") for _ in range(2)]
    for _ in range(3):
        assert has(wide, "search_path") == SCHEMA
        for client in narrow:
            client.send(m.query("SELECT length('\u00e9')"))
            assert client.result().value == "2"
    assert narrow[0].parameters["client_encoding"] == "LATIN1"
