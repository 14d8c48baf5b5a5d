"""
SET ROLE and SET SESSION AUTHORIZATION of one client, and the next client of the same server connection, which has the role
that the session began with. test/unit/pg/test_role.c has more texts.
"""
import pytest

from support import messages as m
from support.live import pid_of
from support.postgres import SECRETS
from support.scenes import transactions
from support.takeover import Replaced
from support.until import until

ROLES = ("acts_a", "acts_b")
WHO = "SELECT concat_ws(' ', session_user, current_user, current_setting('role'))"
APP, BOSS = "app app none", "boss boss none"

# Messages of a client that change its role; a statement without ; is sent by either protocol.
LEAVES_A_ROLE = [
    ["SET ROLE acts_a"], ["set  role 'acts_a'"], ["SET SESSION ROLE acts_a"], ["SET role = 'acts_a'"], ["SET role TO acts_a"],
    ['SET "role" = acts_a'], ["SET U&\"\\0072ole\" = 'acts_a'"], ["SET/**/ROLE acts_a"], ["/* hint */ SET ROLE acts_a"],
    ["-- hint\nSET ROLE acts_a"], ["SET ROLE acts_a;"], ["SELECT 1; SET ROLE acts_a"],
    ["SET work_mem = '1MB'; SET ROLE acts_a"],
    ["SET work_mem = '1MB'", "SET ROLE acts_a"], ["BEGIN", "SET ROLE acts_a", "COMMIT"], ["BEGIN; SET ROLE acts_a; COMMIT"],
    ["BEGIN", "SAVEPOINT s", "SET ROLE acts_a", "RELEASE s", "COMMIT"],
    ["BEGIN", "SET ROLE acts_b", "SAVEPOINT s", "SET ROLE acts_a", "ROLLBACK TO s", "COMMIT"],
    ["SET ROLE acts_a", "RESET ROLE", "SET ROLE acts_b"], ["BEGIN", "SET ROLE acts_a", "SET work_mem = '1MB'", "COMMIT"],
]
LEAVES_NONE = [
    ["BEGIN", "SET ROLE acts_a", "ROLLBACK"], ["BEGIN", "SET LOCAL ROLE acts_a", "COMMIT"],
    ["BEGIN; SET LOCAL ROLE acts_a; COMMIT"],
    ["SET ROLE acts_a; SELECT 1/0"], ["BEGIN", "SAVEPOINT s", "SET ROLE acts_a", "ROLLBACK TO s", "COMMIT"], ["SET ROLE NONE"],
    ["SET ROLE no_such_role"], ["RESET ROLE"], ["SET SESSION AUTHORIZATION app"], ["RESET SESSION AUTHORIZATION"],
]
OF_THE_BOSS = [
    ["SET SESSION AUTHORIZATION app"], ["SET SESSION SESSION AUTHORIZATION app"], ["SET session_authorization = 'app'"],
    ["SET SESSION AUTHORIZATION app", "SET ROLE acts_a"], ["BEGIN", "SET SESSION AUTHORIZATION app", "COMMIT"],
    # by whatever hidden means: the server reports both
    ["DO $$ BEGIN EXECUTE 'SET SESSION AUTHORIZATION app'; END $$"],
    ["SELECT set_config('session_authorization', 'app', false)"],
    ["DO $$ BEGIN EXECUTE 'SET ROLE acts_a'; END $$"], ["SELECT set_config('role', 'acts_a', false)"],
]
# Statements without an effect on roles.
PLAIN = [
    ["SET work_mem = '1MB'"], ["BEGIN", "SET LOCAL work_mem = '1MB'", "COMMIT"], ["BEGIN", "SET LOCAL ROLE acts_a", "COMMIT"],
    ["SET SESSION work_mem TO '1MB'"], ["SET TIME ZONE 'UTC'"], ["BEGIN", "SET TRANSACTION READ ONLY", "COMMIT"],
    ["SET no.such = 'role'"], ["SET work_mem = 'nonsense'"],
]


def by_query(client, text):
    return client.query(text)


def extended(client, text):
    client.send(m.parse(text), m.bind(), m.execute(), m.sync())
    return client.result()


def prepared(client, text):
    client.send(m.parse(text, "n " + text), m.sync())
    client.result()
    client.send(m.bind("n " + text), m.execute(), m.sync())
    return client.result()


HANDS = (by_query, extended, prepared)


@pytest.fixture(scope="module")
def roles(postgres):
    for role in ROLES:
        postgres.execute("CREATE ROLE %s; GRANT %s TO app" % (role, role))
    postgres.execute("CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'boss-secret'")
    yield postgres
    for role in ROLES + ("boss",):
        postgres.execute("DROP ROLE " + role)


def start(scene, roles, kind=None, target=None, **settings):
    """One server connection for all clients."""
    options = {"kind": kind} if kind else {}
    return transactions(scene, {"p0": target or roles}, users={**SECRETS, "boss": "boss-secret"}, **options, **settings)


def do(client, change, hand):
    """False: this cannot go by this hand."""
    if hand is not by_query and any(";" in text and not text.startswith("DO") for text in change):
        return False
    for text in change:
        hand(client, text)
    return True


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("hand", HANDS)
def test_the_next_client_acts_as_itself(scene, roles, mode, hand):
    weir = scene.weir({"p0": roles}, pool_mode=mode, default_pool_size=1)
    for change in LEAVES_A_ROLE + LEAVES_NONE + PLAIN:
        if mode == "statement" and change[0].startswith("BEGIN"):
            continue
        with weir.client() as first, weir.client() as second:
            pid = pid_of(second)
            if do(first, change, hand):
                # and the first one in its next transaction
                assert [client.query(WHO).value for client in (second, first)] == [APP, APP], change
            assert pid_of(second) == pid


@pytest.mark.parametrize("hand", HANDS)
def test_the_next_client_of_a_superuser(scene, roles, hand):
    weir = start(scene, roles)
    for change in OF_THE_BOSS:
        with weir.client("boss") as first, weir.client("boss") as second:
            pid = pid_of(second)
            if do(first, change, hand):
                assert second.query(WHO).value == BOSS, change
            assert pid_of(second) == pid


@pytest.mark.parametrize("hand", HANDS)
def test_all_clients_of_a_forced_user(scene, roles, hand):
    weir = start(scene, roles, target=roles.target("p0", user="app", password="app-secret"))
    one, other = weir.client("rival"), weir.client("clear")
    for change in LEAVES_A_ROLE:
        if do(one, change, hand):
            assert other.query(WHO).value == APP, change


def test_a_role_lasts_as_long_as_its_transaction(scene, roles):
    weir = start(scene, roles)
    client = weir.client()
    client.query("BEGIN")
    client.query("SET ROLE acts_a")
    for _ in range(3):
        assert client.query(WHO).value == "app acts_a acts_a"
    client.query("COMMIT")
    assert client.query(WHO).value == APP
    # one message is one link
    assert [row[0] for row in client.query("SET ROLE acts_a; %s" % WHO).rows] == [b"app acts_a acts_a"]


@pytest.mark.parametrize("first", ["SET work_mem = '1MB'", "SET work_mem = 'nonsense'", "SET no_such_thing = 1"])
def test_pipelines(scene, roles, first):
    """A plain SET that fails or succeeds, followed by a Query that is not plain."""
    weir = start(scene, roles)
    one, other = weir.client(), weir.client()
    for text in ("SELECT 1; SET ROLE acts_a", "SET ROLE acts_a", "SET work_mem = '1MB'; SET ROLE acts_a"):
        one.send(m.query(first), m.query(text))
        one.result()
        assert not one.result().errors
        assert other.query(WHO).value == APP
        one.send(m.parse(text.rpartition(";")[2], "s"), m.query(first), m.bind("s"), m.execute(), m.close("S", "s"), m.sync())
        one.result()
        assert not one.result().errors
        assert other.query(WHO).value == APP


@pytest.mark.parametrize("name", ["", "s"])
def test_prepared_in_one_transaction_and_executed_in_another(scene, roles, name):
    weir = start(scene, roles)
    one, other = weir.client(), weir.client()
    one.send(m.parse("SET ROLE acts_a", name), m.sync())
    one.expect_all("1Z")
    for command in ("SHOW VERSION", "RECONNECT", "RECONNECT"):
        weir.admin(command)
        one.send(m.bind(name), m.execute(), m.sync())
        result = one.result()
        # an unnamed statement that was never described is refused on another server after its client has changed its role
        assert result.tags == ["SET"] or not name and result.error == "cached plan must not change result type"
        assert other.query(WHO).value == APP


def test_a_large_text(scene, roles):
    """Longer than the read buffer, so that only its beginning is looked at."""
    weir = start(scene, roles)
    one, other = weir.client(), weir.client()
    for text in ("/* %s */ SET ROLE acts_a", "SET ROLE /* %s */ acts_a", "SET work_mem = '1MB' /* %s */; SET ROLE acts_a"):
        text = text % ("x" * 300000)
        hands = HANDS if ";" not in text else (by_query,)
        for hand in hands:
            if hand is not prepared:
                assert hand(one, text).tags[-1] == "SET"
                assert other.query(WHO).value == APP


def test_in_session_mode_a_role_lasts_as_long_as_the_session(scene, roles, heard):
    weir = scene.weir({"p0": roles}, pool_mode="session", default_pool_size=1)
    for change in LEAVES_A_ROLE[:3]:
        with weir.client() as client:
            assert client.query(WHO).value == APP
            for text in change:
                client.query(text)
            for _ in range(2):
                assert client.query(WHO).value == "app acts_a acts_a"
            client.quit()
    # only the reset query restores the role
    assert not [sql for sql in heard() if "set_config" in sql]


@pytest.mark.parametrize("reset", ["", "RESET ALL"])
def test_in_session_mode_without_a_reset_of_roles(scene, roles, reset):
    weir = scene.weir({"p0": roles}, pool_mode="session", default_pool_size=1, server_reset_query=reset)
    for change in LEAVES_A_ROLE + [["SET ROLE acts_a"]]:
        for hand in HANDS:
            with weir.client() as client:
                assert client.query(WHO).value == APP
                do(client, change, hand)
                client.quit()


# --- the initial role of a session

@pytest.mark.parametrize("query", ["SET ROLE acts_a", "SELECT set_config($$role$$, $$acts_a$$, false)"])
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_role_that_connect_query_sets(scene, roles, mode, query):
    weir = scene.weir({"p0": roles.target("p0", connect_query="'%s'" % query)}, pool_mode=mode, default_pool_size=1)
    began_with = "app acts_a acts_a"
    for change in LEAVES_A_ROLE + LEAVES_NONE + PLAIN + [["DISCARD ALL"], ["RESET ALL"]]:
        for hand in HANDS:
            with weir.client() as client:
                assert client.query(WHO).value == began_with, change
                do(client, change, hand)
                client.quit()
    assert len(roles.backends("p0")) == 1


def test_a_session_authorization_that_connect_query_sets(scene, roles):
    weir = start(scene, roles, target=roles.target("p0", connect_query="'SET SESSION AUTHORIZATION app; SET ROLE acts_b'"))
    one, other = weir.client("boss"), weir.client("boss")
    for change in [["SET ROLE acts_a"], ["RESET SESSION AUTHORIZATION"], ["SET SESSION AUTHORIZATION rival"], ["DISCARD ALL"]]:
        for hand in HANDS:
            assert other.query(WHO).value == "app acts_b acts_b", change
            do(one, change, hand)


def test_role_name_with_non_ascii_characters(scene, roles):
    """The role is a name in the encoding of the database, in any client encoding."""
    name = "r\u00f4le 'a' \\ \u2192"
    roles.execute('CREATE ROLE "%s"; GRANT "%s" TO app' % (name, name))
    try:
        query = "'SET ROLE \"%s\"'" % name.replace("'", "''")
        weir = start(scene, roles, target=roles.target("p0", connect_query=query))
        for encoding in ("UTF8", "LATIN1", "SJIS", "SQL_ASCII"):
            with weir.client(client_encoding=encoding) as one, weir.client(client_encoding=encoding) as other:
                one.query("SET ROLE acts_a")
                assert other.query("SELECT encode(convert_to(current_user, 'UTF8'), 'hex')").value == name.encode().hex()
        weir.stop()
    finally:
        roles.execute('DROP ROLE "%s"' % name)


def test_a_role_that_alter_role_sets(scene, roles):
    roles.execute("ALTER ROLE app SET role = 'acts_b'")
    try:
        weir = start(scene, roles)
        one, other = weir.client(), weir.client()
        for change in LEAVES_A_ROLE + [["SET ROLE NONE"], ["RESET ROLE"], ["DISCARD ALL"]]:
            assert other.query(WHO).value == "app acts_b acts_b", change
            do(one, change, by_query)
        weir.stop()
    finally:
        roles.execute("ALTER ROLE app RESET role")


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_role_that_the_reset_query_sets(scene, roles, mode):
    """The role that the operator sets for sessions between two clients."""
    weir = scene.weir({"p0": roles}, pool_mode=mode, default_pool_size=1, server_reset_query="RESET ALL; SET ROLE acts_b",
                      server_reset_query_always=1)
    with weir.client() as client:
        client.query("SELECT 1")
        client.quit()
    for _ in range(3):
        with weir.client() as client:
            assert client.query(WHO).value == "app acts_b acts_b"
            client.query("SET ROLE acts_a")
            client.quit()


def test_a_role_that_is_tracked(scene, roles):
    """track_extra_parameters = role gives each client the role that it has asked for at its start."""
    weir = start(scene, roles, track_extra_parameters="role")
    a, b, none = weir.client(role="acts_a"), weir.client(role="acts_b"), weir.client()
    for change in LEAVES_A_ROLE + LEAVES_NONE:
        do(none, change, by_query)
        assert [client.query(WHO).value for client in (a, b, none)] == ["app acts_a acts_a", "app acts_b acts_b", APP], change


def test_role_that_cannot_be_restored(scene, roles):
    """The server is closed, with a reason."""
    roles.execute("CREATE ROLE acts_c; GRANT acts_c TO app")
    weir = start(scene, roles, target=roles.target("p0", connect_query="'SET ROLE acts_c'"), log_disconnections=1)
    one, other = weir.client(), weir.client()
    pid = pid_of(one)
    one.query("SET ROLE acts_a")
    roles.execute("REVOKE acts_c FROM app; DROP ROLE acts_c")
    other.send(m.query(WHO))
    assert other.drain()[-1].type == "E"
    weir.wait_log(r"setting the client's parameters failed: ERROR .*acts_c")
    weir.wait_log(r"S-0x\w+: .* closing because: role of the session cannot be set back")
    # a new session does not get the role either, which is in the log
    assert weir.client().query(WHO).value == APP
    assert pid not in until(lambda: roles.backends("p0"), "another server connection")


# --- cost

def test_plain_settings_cost_nothing(scene, roles, heard):
    """Plain settings cause neither a query of the pooler for roles, nor a new connection."""
    weir = start(scene, roles)
    clients = [weir.client() for _ in range(3)]
    pids = set()
    for hand in HANDS:
        for change in PLAIN:
            for client in clients:
                do(client, change, hand)
                pids.add(pid_of(client))
    assert len(pids) == 1
    assert not [sql for sql in heard() if "'role'" in sql and "set_config" in sql]


def test_a_role_costs_one_query(scene, roles, heard):
    weir = start(scene, roles)
    clients = [weir.client() for _ in range(2)]
    pids = {pid_of(client) for client in clients}
    for _ in range(5):
        for client in clients:
            client.query("BEGIN")
            client.query("SET ROLE acts_a")
            client.query("COMMIT")
        pids |= {pid_of(client) for client in clients}
    assert len(pids) == 1
    assert len([sql for sql in heard() if "set_config('role'" in sql]) == 10


# --- together with other things

def test_auth_query_runs_as_its_login_user(scene, roles):
    """The server connection has served a client of that user, which has left a role there that must not run look-ups."""
    roles.execute("CREATE FUNCTION find_user(name text) RETURNS TABLE (n text, s text) LANGUAGE sql AS "
                  "$$ SELECT name, CASE WHEN current_user = 'app' THEN 'secret' ELSE 'wrong' END $$", database="p0")
    try:
        weir = transactions(scene, {"p0": roles}, auth_type="md5", auth_user="app", max_user_connections=1,
                            auth_query="SELECT * FROM public.find_user($1)")
        for text in ("SET ROLE acts_a", "DO $$ BEGIN EXECUTE 'SET ROLE acts_a'; END $$"):
            weir.client("app").query(text)
            assert weir.client("trusted", password="secret").query("SELECT current_user").value == "trusted"
            assert weir.connect().refused(user="trusted", database="p0", password="wrong")["C"] == "28P01"
            weir.admin("RECONNECT")
        weir.stop()
    finally:
        roles.execute("DROP FUNCTION find_user(text)", database="p0")


@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("when", ["in its transaction", "behind it"])
def test_online_restart_between_statements(scene, roles, hand, when):
    weir = start(scene, roles, kind=Replaced, server_tls_sslmode="disable", target=roles.target("p0"))
    one, other = weir.client(), weir.client()
    pid = pid_of(one)
    plain = ["SET work_mem = '1MB'", "BEGIN", "SET LOCAL work_mem = '1MB'", "COMMIT"]
    for change in (["BEGIN", "SET ROLE acts_a", "COMMIT"], plain):
        for text in change:
            if text == "COMMIT" and when == "in its transaction":
                weir.replace()
            hand(one, text)
        if when == "behind it":
            weir.replace()
        assert other.query(WHO).value == APP
    assert pid_of(other) == pid


def test_online_restart_after_connect_query(scene, roles):
    weir = start(scene, roles, kind=Replaced, server_tls_sslmode="disable",
                 target=roles.target("p0", connect_query="'SET ROLE acts_b'"))
    one, other = weir.client(), weir.client()
    for _ in range(2):
        one.query("SET ROLE acts_a")
        weir.replace()
        assert other.query(WHO).value == "app acts_b acts_b"


def test_online_restart_during_a_set(scene, roles):
    """The text is no longer available when its answer arrives."""
    weir = start(scene, roles, kind=Replaced, server_tls_sslmode="disable", target=roles.target("p0"))
    one, other = weir.client(), weir.client()
    for text in ("SELECT pg_sleep(0.5); SET ROLE acts_a", "SET ROLE acts_a", "SET work_mem = '1MB'"):
        one.send(m.query(text))
        weir.replace()
        assert one.result().tags[-1] == "SET"
        assert other.query(WHO).value == APP
