"""Users that auth_query finds, with a real PostgreSQL: which clients are accepted, and the user of server logins."""
import pytest

from support import live
from support import messages as m
from support import scram
from support.postgres import SECRETS
from support.threads import run_in_threads
from support.until import until
from support.wire import LoginRefused

ROLES = {"q_scram": "scram secret", "q_other": "other secret", "asker": "asker secret"}
# an administrator's function that avoids the right of auth_user to read pg_authid
LOOKUP = """
CREATE SCHEMA pooler AUTHORIZATION asker;
CREATE FUNCTION pooler.user_lookup(i_name text, OUT uname text, OUT phash text) RETURNS SETOF record
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT rolname::text, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid
        WHERE rolname = i_name AND rolcanlogin
$$;
REVOKE ALL ON FUNCTION pooler.user_lookup(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pooler.user_lookup(text) TO asker;
"""
BY_FUNCTION = "SELECT uname, phash FROM pooler.user_lookup($1)"
REFUSED = ("28P01", "password authentication failed")


@pytest.fixture(scope="module")
def roles(postgres):
    """The server with the roles of this file, which are in no user list; nor is md5user."""
    for role, secret in ROLES.items():
        postgres.execute("CREATE ROLE %s LOGIN PASSWORD '%s'" % (role, secret))
    postgres.execute(LOOKUP, database="p0")
    yield postgres
    postgres.execute("DROP SCHEMA pooler CASCADE", database="p0")
    for role in ROLES:
        postgres.execute("DROP ROLE %s" % role)


@pytest.fixture
def start(scene, roles):
    """Starts pgweir, which looks users up as a superuser with the query it has by default."""
    def begin(databases=None, **settings):
        settings = {"auth_type": "md5", "auth_user": "postgres", **settings}
        return scene.weir(databases or {"p0": roles, "p1": roles}, **settings)
    return begin


def by_asker(settings=None):
    """Settings with which a role asks that may not read pg_authid."""
    return dict(auth_user="asker", auth_query=BY_FUNCTION, users={"asker": ROLES["asker"]}, **(settings or {}))


def come(weir, user, password=None, database="p0"):
    return weir.client(user, database, password=password or ROLES.get(user) or SECRETS[user])


def refusal(weir, user, password, database="p0"):
    words = weir.connect().refused(password=password, user=user, database=database)
    return words["C"], words["M"]


def who(client):
    return client.query("SELECT session_user").value


# --- accepted clients


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
@pytest.mark.parametrize("settings", [{}, by_asker()], ids=["superuser", "function"])
def test_only_the_correct_password_is_accepted(start, settings, mode):
    weir = start(pool_mode=mode, **settings)
    for user, words in ("q_scram", REFUSED), ("md5user", REFUSED):
        assert refusal(weir, user, "wrong") == words
        assert refusal(weir, user, " ") == words
        client = come(weir, user)
        assert who(client) == user
        assert weir.pool("p0", user)["pool_mode"] == mode
        assert refusal(weir, user, "wrong") == words
        client.quit()


@pytest.mark.parametrize("auth_type", ["plain", "scram-sha-256"])
def test_other_queries(start, auth_type):
    weir = start(auth_type=auth_type)
    assert who(come(weir, "q_scram")) == "q_scram"
    assert refusal(weir, "q_scram", "wrong")[0] == "28P01"
    assert refusal(weir, "nobody", "wrong")[0] == "28P01"


def test_trust_requires_an_existing_user(start, roles):
    weir = start(auth_type="trust")
    come(weir, "trusted")
    assert refusal(weir, "nobody", None) == ("28000", "no such user")
    assert not roles.execute("SELECT 1 FROM pg_stat_activity WHERE usename = 'nobody'")


def test_unknown_and_known_users_get_the_same_error(start):
    """Trap 75: neither the steps nor the error messages reveal which users exist; logged-in users determine the requests to others."""
    weir = start()
    assert refusal(weir, "q_scram", "wrong") == refusal(weir, "nobody", "wrong") == REFUSED
    weir = start()
    assert refusal(weir, "nobody", "wrong") == REFUSED
    come(weir, "md5user")
    assert refusal(weir, "md5user", "wrong") == refusal(weir, "nobody", "wrong") == REFUSED


def test_unknown_users_get_both_kinds_of_requests(start):
    """Where users with secrets of both kinds have logged in, users that don't exist divide as well."""
    weir = start()
    come(weir, "q_scram"), come(weir, "md5user")
    # with a chance of one half each, none of one kind is one case in 2^39
    assert {refusal(weir, "nobody%d" % n, "wrong") for n in range(40)} == {REFUSED}


def test_no_client_becomes_auth_user(start):
    """Trap 68."""
    weir = start(**by_asker())
    for name in "nobody", "", "asker ", "ASKER":
        for password in ROLES["asker"], "", "md5" + 32 * "0":
            try:
                weir.connect().login(user=name, database="p0", password=password)
            except LoginRefused:
                continue
            raise AssertionError("%r came in" % name)
    assert weir.pool("p0", "asker")["cl_active"] == 0


def test_long_name_is_truncated_as_in_postgresql(start, roles):
    """The look-up, the log and every count know the name that PostgreSQL would see."""
    name = "q" * 63
    roles.execute("CREATE ROLE %s LOGIN PASSWORD 'long'" % name)
    try:
        weir = start()
        for asked in name, name + "q", name + "q" * 900:
            client = come(weir, asked, "long")
            assert who(client) == name
            assert {row["user"] for row in weir.show("CLIENTS") if row["database"] == "p0"} == {name}
            client.quit()
        assert refusal(weir, name + "q", "wrong") == REFUSED
    finally:
        roles.execute("DROP ROLE %s" % name)


@pytest.mark.parametrize("name", ["o'hara", 'quo"ted', "back\\slash", "$1", "x'; DROP ROLE q_scram; --", "Å é", "%s"])
def test_names_are_not_interpreted_as_sql(start, roles, name):
    roles.execute('CREATE ROLE "%s" LOGIN PASSWORD \'odd\'' % name.replace('"', '""'))
    try:
        assert who(come(start(), name, "odd")) == name
    finally:
        roles.execute('DROP ROLE "%s"' % name.replace('"', '""'))


def test_name_in_an_invalid_encoding_is_unknown(start):
    """As for a missing database: the server's error does not concern this login."""
    weir = start()
    for database in "p0", "nosuch":
        client = weir.connect()
        client.send(live.m.startup(user="Q1Q2", database=database).replace(b"Q1Q2", b"Q\xff\xfe2"))
        client.expect("R")
    assert who(come(weir, "q_scram")) == "q_scram"


@pytest.mark.parametrize("auth_type", ["cert", "hba"])
def test_certificate_of_an_existing_user(start, roles, authority, auth_type):
    for name in "trusted", "ghost":
        authority.issue(name, name)
    weir = start(client_tls_sslmode="verify-full", client_tls_cert_file=authority.cert("server"),
                 client_tls_key_file=authority.key("server"), client_tls_ca_file=authority.cert("ca"))
    with open(weir.path("hba.conf"), "w", encoding="ascii") as f:
        f.write("hostssl p0 all all cert\nhost all admin all trust\n")
    weir.settings.update(auth_type=auth_type, auth_hba_file=weir.path("hba.conf"))
    weir.write_ini()
    weir.signal(1)
    weir.wait_log("RELOAD: the configuration of .* is in force")

    def enter(certificate, user):
        client = weir.connect()
        client.start_tls(authority.client_context(certificate))
        client.login(user=user, database="p0")
        return client

    assert who(enter("trusted", "trusted")) == "trusted"
    for certificate, user in ("ghost", "ghost"), ("ghost", "trusted"), ("trusted", "q_scram"):
        with pytest.raises(LoginRefused, match="certificate authentication failed"):
            enter(certificate, user)


def test_lines_of_an_hba_file(start, roles):
    """The line says how; only where it asks for a secret is a user looked up."""
    weir = start(admin_users="admin", **by_asker())
    with open(weir.path("hba.conf"), "w", encoding="ascii") as f:
        f.write("host all admin all trust\nhost p1 all all reject\nhost p0 md5user,q_scram all md5\n"
                "host p0 q_other all password\nhost p0 trusted all trust\n")
    weir.settings.update(auth_type="hba", auth_hba_file=weir.path("hba.conf"), auth_dbname="p0")
    weir.write_ini()
    weir.admin("RELOAD")
    assert refusal(weir, "q_scram", ROLES["q_scram"], "p1") == ("28000", "login rejected")
    assert refusal(weir, "nobody", "x") == ("28000", "no authentication method is found")
    assert not [row for row in weir.show("POOLS") if row["user"] == "asker"]
    for user in "md5user", "q_scram", "q_other", "trusted":
        assert who(come(weir, user)) == user
    for user in "md5user", "q_scram", "q_other":
        assert refusal(weir, user, "wrong")[0] == "28P01"


def test_replication_connections(start, roles):
    """Trap 40: the look-up is an ordinary query, and the keys of the user open the server for replication."""
    roles.execute("ALTER ROLE q_scram REPLICATION")
    weir = start(**by_asker({"auth_dbname": "p0"}))
    for _ in range(2):
        client = weir.client("q_scram", "p0", password=ROLES["q_scram"], replication="database")
        (row,) = client.query("IDENTIFY_SYSTEM").rows
        assert row[3] == b"p0"
        client.quit()


# --- roles that change


def test_expired_and_missing_passwords(start, roles):
    """Trap 70 (CVE-2025-2291)."""
    weir = start(**by_asker())
    come(weir, "q_other").quit()
    for change in "VALID UNTIL '2001-01-01'", "VALID UNTIL '-infinity'":
        roles.execute("ALTER ROLE q_other " + change)
        assert refusal(weir, "q_other", ROLES["q_other"]) == REFUSED
    roles.execute("ALTER ROLE q_other VALID UNTIL 'infinity'")
    come(weir, "q_other").quit()
    roles.execute("ALTER ROLE q_other PASSWORD NULL")
    try:
        for password in ROLES["q_other"], "", "NULL":
            assert refusal(weir, "q_other", password) == REFUSED
    finally:
        roles.execute("ALTER ROLE q_other PASSWORD '%s'" % ROLES["q_other"])
    roles.execute("ALTER ROLE q_other NOLOGIN")
    try:
        assert refusal(weir, "q_other", ROLES["q_other"]) == REFUSED
    finally:
        roles.execute("ALTER ROLE q_other LOGIN")
    come(weir, "q_other")


def test_changed_password_applies_at_once(start, roles):
    """The old one does not work a moment longer, the new one works at the first attempt, at the server too."""
    weir = start(auth_type="md5")
    come(weir, "q_other").quit()
    try:
        for password in "second", "third":
            roles.execute("ALTER ROLE q_other PASSWORD '%s'" % password)
            assert refusal(weir, "q_other", ROLES["q_other"]) == REFUSED
            weir.admin("RECONNECT p0")
            assert who(come(weir, "q_other", password)) == "q_other"
    finally:
        roles.execute("ALTER ROLE q_other PASSWORD '%s'" % ROLES["q_other"])


def test_the_new_secret_ends_the_wait_after_a_failed_server_login(start, roles):
    weir = start(server_login_retry=live.NEVER)
    stays = come(weir, "q_other")
    try:
        roles.execute("ALTER ROLE q_other PASSWORD 'newer'")
        weir.admin("RECONNECT p0")
        stays.send(live.m.query("SELECT 1"))
        words = live.last_words(stays)
        assert (words["C"], words["M"]) == ("28P01", 'password authentication failed for user "q_other"')
        assert who(come(weir, "q_other", "newer")) == "q_other"
    finally:
        roles.execute("ALTER ROLE q_other PASSWORD '%s'" % ROLES["q_other"])


# --- with which user servers are logged in to


# with "clear" the server wants the password itself: a query must have found that, not a hash
@pytest.mark.parametrize("user, auth_type", [
    ("q_scram", "md5"), ("q_scram", "plain"), ("md5user", "md5"), ("md5user", "plain"), ("clear", "plain"),
    ("clear", "scram-sha-256")])
def test_later_server_logins(start, user, auth_type):
    """Trap 71: the secret and the keys serve after RECONNECT and RELOAD too, without the client's doing."""
    weir = start(auth_type=auth_type, pool_mode="transaction")
    if user == "clear":
        weir.settings["auth_query"] = "SELECT 'clear'::text, '%s'::text WHERE $1::text = 'clear'" % SECRETS["clear"]
        weir.write_ini()
        weir.admin("RELOAD")
    client = come(weir, user)
    first = live.pid_of(client)
    for command in "RECONNECT", "RELOAD", "RECONNECT":
        weir.admin(command)
    assert until(lambda: live.pid_of(client) != first, "another server")
    assert who(client) == user


def test_several_servers_from_one_login(start):
    weir = start(pool_mode="transaction")
    clients = [come(weir, "q_scram") for _ in range(4)]
    assert len({live.hold(client) for client in clients}) == 4


def test_a_plain_secret_from_a_table(start, roles):
    roles.execute("CREATE TABLE accounts (who text, pass text); GRANT SELECT ON accounts TO asker;"
                  "INSERT INTO accounts VALUES ('q_scram', 'scram secret'), ('q_other', NULL)", database="p0")
    try:
        weir = start(**by_asker({"auth_type": "scram-sha-256"}))
        weir.settings["auth_query"] = "SELECT who, pass FROM public.accounts WHERE who = $1"
        weir.write_ini()
        weir.admin("RELOAD")
        assert who(come(weir, "q_scram")) == who(come(weir, "q_scram")) == "q_scram"
        assert refusal(weir, "q_scram", "wrong") == refusal(weir, "q_other", "") == ("28P01", "SASL authentication failed")
    finally:
        roles.execute("DROP TABLE accounts", database="p0")


def test_a_table_without_its_schema_is_not_found(start, roles):
    """The log names the reason."""
    roles.execute("CREATE TABLE accounts (who text, pass text); INSERT INTO accounts VALUES ('q_scram', 'scram secret')", database="p0")
    try:
        weir = start(auth_query="SELECT who, pass FROM accounts WHERE who = $1")
        assert refusal(weir, "q_scram", "scram secret")[1] == "bouncer config error"
        weir.wait_log(r'auth_query for user "q_scram" failed: ERROR: relation "accounts" does not exist \(42P01\); '
                      r"the search_path of auth_query is pg_catalog and pg_temp \(auth_search_path\)$")
        roles.execute("ALTER ROLE postgres SET search_path = public")
        roles.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'p0'")
        assert who(come(weir, "q_scram")) == "q_scram"
    finally:
        roles.execute("ALTER ROLE postgres RESET search_path")
        roles.execute("DROP TABLE accounts", database="p0")


def test_the_same_user_from_file_query_and_forced(start, roles):
    """Traps 71 and 76: a secret of a name from one source is not used for another source, with a reload between."""
    databases = {"p0": roles, "forced": roles.target("p0", user="app", password=SECRETS["app"]),
                 "listed": roles.target("p0", user="app"), "self": roles.target("p0", user="q_scram")}
    weir = start(databases, pool_mode="transaction", auth_dbname="p0")
    for _ in range(2):
        clients = {
            "q_scram": [come(weir, "q_scram", database=name) for name in ("p0", "self")],
            "app": [come(weir, user, database=name) for user in ("q_scram", "app", "md5user") for name in ("forced", "listed")]
                   + [come(weir, "app")],
        }
        for command in "RECONNECT", "RELOAD", "RECONNECT":
            weir.admin(command)
        for user, theirs in clients.items():
            assert {who(client) for client in theirs} == {user}
        # the same name is in the list now, with another secret, and is not looked up any more
        weir.users["q_scram"] = "list secret"
        weir.write_users()
        weir.admin("RELOAD")
        assert refusal(weir, "q_scram", ROLES["q_scram"], "forced")[0] == "28P01"
        assert who(come(weir, "q_scram", "list secret", "forced")) == "app"
        del weir.users["q_scram"]
        weir.write_users()
        weir.admin("RELOAD")


def test_the_secret_of_a_client_is_not_that_of_the_forced_user(start, roles):
    """Trap 71: the forced user has no password here; the client's password is not tried instead."""
    weir = start({"p0": roles, "forced": roles.target("p0", user="q_other")}, auth_dbname="p0")
    assert "none is stored for this user" in refusal(weir, "q_scram", ROLES["q_scram"], "forced")[1]
    # its own login brings it
    assert who(come(weir, "q_other", database="forced")) == "q_other"
    assert who(come(weir, "q_scram", database="forced")) == "q_other"


# --- where and with which user is asked


def test_settings_of_the_database(start, roles):
    """auth_user, auth_query and auth_dbname of a database win over the general ones; auth_user of the asked database too."""
    databases = {
        "p0": roles.target("p0", auth_user="asker", auth_query="'%s'" % BY_FUNCTION),
        "p1": roles.target("p1", auth_dbname="p0", auth_query="'%s'" % BY_FUNCTION),
        "p2": roles.target("p2"),
        "p3": roles.target("p3", auth_user="postgres"),
    }
    weir = start(databases, auth_user=None, users={"asker": ROLES["asker"]})
    for name in "p0", "p1", "p3":
        assert who(come(weir, "q_scram", database=name)) == "q_scram"
    assert refusal(weir, "q_scram", ROLES["q_scram"], "p2")[0] == "28P01"
    assert {row["user"] for row in weir.show("POOLS") if row["database"] == "p0"} == {"asker", "q_scram"}
    assert {row["user"] for row in weir.show("POOLS") if row["database"] == "p3"} == {"postgres", "q_scram"}


def test_auth_user_is_used_despite_a_forced_user(start, roles):
    """The password of the entry belongs to the forced user, not to auth_user."""
    weir = start({"p0": roles.target("p0", user="app", password=SECRETS["app"])}, **by_asker())
    assert who(come(weir, "q_scram")) == "app"
    assert {row["user"] for row in weir.show("POOLS") if row["database"] == "p0"} == {"asker", "app"}


def test_auth_user_itself_is_looked_up(start):
    weir = start(auth_user="trusted", auth_query="SELECT 'trusted', 'trusted-secret' WHERE $1::text = 'trusted'")
    for _ in range(2):
        assert who(come(weir, "trusted")) == "trusted"
    assert refusal(weir, "trusted", "wrong")[0] == "28P01"
    assert refusal(weir, "q_scram", ROLES["q_scram"])[0] == "28P01"


def test_console_login_uses_auth_dbname(start):
    weir = start(admin_users="admin, q_scram", stats_users="q_other")
    assert refusal(weir, "q_scram", ROLES["q_scram"], "pgbouncer")[0] == "28P01"
    weir.settings["auth_dbname"] = "p0"
    weir.write_ini()
    weir.admin("RELOAD")
    assert come(weir, "q_scram", database="pgbouncer").query("RELOAD").tags == ["RELOAD"]
    assert come(weir, "q_other", database="pgbouncer").query("RELOAD").error == "admin access needed"
    assert refusal(weir, "q_scram", "wrong", "pgbouncer")[0] == "28P01"
    assert refusal(weir, "md5user", SECRETS["md5user"], "pgbouncer") == ("28000", "not allowed")


def test_missing_database_is_reported_after_authentication(start, roles):
    weir = start({"p0": roles})
    for password in ROLES["q_scram"], "wrong":
        assert refusal(weir, "q_scram", password, "nosuch") == REFUSED
    weir.settings["auth_dbname"] = "p0"
    weir.write_ini()
    weir.admin("RELOAD")
    assert refusal(weir, "q_scram", ROLES["q_scram"], "nosuch") == ("3D000", "no such database: nosuch")
    assert refusal(weir, "q_scram", "wrong", "nosuch") == refusal(weir, "nobody", "wrong", "nosuch") == REFUSED


def test_databases_from_the_fallback(start, roles):
    """The database that a client names is asked, and forgotten when no client has logged in to it."""
    weir = start({"*": roles})
    assert who(come(weir, "q_scram", database="p1")) == "q_scram"
    assert refusal(weir, "q_scram", "x", "nosuch") == REFUSED
    weir.wait_log('nosuch/postgres: auth_query for user "q_scram" failed: .*database "nosuch" does not exist')
    until(lambda: "nosuch" not in {row["database"] for row in weir.show("POOLS")}, "the database is forgotten")
    assert "p1" in {row["database"] for row in weir.show("POOLS")}


@pytest.mark.parametrize("auth_type", ["md5", "scram-sha-256", "plain"])
def test_missing_database_does_not_reveal_users(start, roles, auth_type):
    """A listed user, a user of the server and a missing user get the same request and the same error message."""
    weir = start({"*": roles}, auth_type=auth_type, users={"postgres": "root", "listed": SCRAM_SECRET}, server_login_retry=0.1)
    assert who(come(weir, "q_scram", database="p1")) == "q_scram"
    heard = {}
    for user in "listed", "q_scram", "no such user":
        client = weir.connect()
        client.send(m.startup(user=user, database="nosuch"))
        question = client.expect("R")
        heard[user] = (question.body[:4], refusal(weir, user, "wrong", "nosuch"))
    assert len(set(heard.values())) == 1, heard
    # after the proof the server's own words are told
    assert "does not exist" in refusal(weir, "postgres", "root", "nosuch")[1] or auth_type == "plain"


SCRAM_SECRET = scram.secret_text(scram.make_secret("listed"))


# --- nothing of any client's session


ATTACK = """
CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.yes(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION evil.yes(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = text, FUNCTION = evil.yes);
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.yes);
CREATE TABLE evil.pg_authid AS SELECT 'q_scram'::name rolname, null::timestamptz rolvaliduntil,
    'evil'::text rolpassword, true rolcanlogin;
GRANT ALL ON evil.pg_authid TO PUBLIC;
"""


@pytest.fixture
def attacked(roles):
    roles.execute(ATTACK, database="p0")
    yield roles
    roles.execute("DROP SCHEMA evil CASCADE", database="p0")


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_search_path_of_a_client_is_not_used(start, attacked, mode):
    """Trap 69 (CVE-2025-12819): in the start-up packet, and in a session that auth_user's pool reuses."""
    weir = start(pool_mode=mode, track_extra_parameters="search_path", default_pool_size=1, auth_type="plain",
                 users={"postgres": "root"})
    hostile = weir.connect()
    with pytest.raises(LoginRefused, match="password authentication failed"):
        hostile.login(user="q_scram", database="p0", password="evil", search_path="evil, pg_catalog")
    leaves = weir.client("postgres", password="root", search_path="evil, pg_catalog")
    assert leaves.query("SHOW search_path").value == "evil, pg_catalog"
    assert leaves.query("SET search_path = evil, pg_catalog").tags == ["SET"]
    if mode == "session":
        leaves.quit()
    assert refusal(weir, "q_scram", "evil") == REFUSED
    come(weir, "q_scram").quit()


def test_temporary_tables_and_settings_of_a_session_are_not_used(start, attacked):
    """PostgreSQL looks for tables in pg_temp first, whatever the search_path."""
    weir = start(pool_mode="transaction", default_pool_size=1, auth_type="plain", users={"postgres": "root"})
    leaves = weir.client("postgres", password="root")
    leaves.query("CREATE TEMP TABLE pg_authid AS SELECT * FROM evil.pg_authid")
    assert leaves.query("SELECT rolpassword FROM pg_authid").value == "evil"
    leaves.query("SET search_path = evil, pg_catalog, pg_temp; SET client_encoding = LATIN1;"
                 "SET standard_conforming_strings = off")
    pid = live.pid_of(leaves)
    assert refusal(weir, "q_scram", "evil") == REFUSED
    come(weir, "q_scram").quit()
    # the look-up ran on this very session, and has left it as it was
    assert live.pid_of(leaves) == pid
    assert leaves.query("SHOW standard_conforming_strings").value == "off"
    assert leaves.query("SELECT rolpassword FROM pg_temp.pg_authid").value == "evil"


# objects that the owner of a database creates in a schema: functions that make the owner a superuser if auth_user is a superuser
HOSTILE = """
CREATE ROLE tenant LOGIN PASSWORD 'tenant secret';
ALTER DATABASE p1 OWNER TO tenant;
SET ROLE tenant;
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.rise() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE tenant SUPERUSER'; RETURN true; END $$;
CREATE FUNCTION hostile.same(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT hostile.rise()';
CREATE FUNCTION hostile.same(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT hostile.rise()';
CREATE OPERATOR hostile.= (LEFTARG = name, RIGHTARG = name, FUNCTION = hostile.same);
CREATE OPERATOR hostile.= (LEFTARG = name, RIGHTARG = text, FUNCTION = hostile.same);
CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT hostile.rise(); SELECT pg_catalog.now()';
CREATE FUNCTION hostile.lower(text) RETURNS text LANGUAGE sql AS 'SELECT hostile.rise(); SELECT pg_catalog.lower($1)';
CREATE TABLE hostile.pg_authid AS SELECT 'q_scram'::name rolname, null::timestamptz rolvaliduntil, 'evil'::text rolpassword, true rolcanlogin;
"""


@pytest.fixture
def tenant(roles):
    roles.execute(HOSTILE, database="p1")
    yield roles
    roles.execute("SET ROLE none; DROP SCHEMA hostile CASCADE; ALTER DATABASE p1 OWNER TO postgres; ALTER DATABASE p1 RESET ALL; DROP ROLE tenant",
                  database="p1")


def is_superuser(roles):
    return roles.execute("SELECT rolsuper FROM pg_roles WHERE rolname = 'tenant'")[0][0]


SETTINGS_OF_THE_OWNER = ["search_path = hostile, pg_catalog", "search_path = pg_temp, hostile, pg_catalog", "role = tenant",
                         "standard_conforming_strings = off", "transform_null_equals = on"]
QUERIES_OF_AN_OPERATOR = [
    None,
    "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1 AND (rolvaliduntil IS NULL OR rolvaliduntil > now())",
    "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = lower($1) AND '\\' <> ''",
]


@pytest.mark.parametrize("query", QUERIES_OF_AN_OPERATOR, ids=["default", "now", "lower"])
@pytest.mark.parametrize("setting", SETTINGS_OF_THE_OWNER)
def test_database_owner_cannot_influence_a_look_up(start, tenant, setting, query):
    """ALTER DATABASE ... SET changes the initial settings of auth_user's sessions, but neither the result nor the functions of a look-up."""
    tenant.execute("SET ROLE tenant; ALTER DATABASE p1 SET %s" % setting)
    weir = start(**({"auth_query": query} if query else {}))
    assert who(come(weir, "tenant", "tenant secret", database="p1")) == "tenant"
    assert who(come(weir, "q_scram", database="p1")) == "q_scram"
    assert refusal(weir, "nobody_at_all", "x", database="p1")[0] == "28P01"
    assert not is_superuser(tenant)


def test_role_setting_for_a_database_is_not_used(start, tenant):
    tenant.execute("ALTER ROLE postgres IN DATABASE p1 SET search_path = hostile, pg_catalog", database="p1")
    try:
        weir = start(auth_query=QUERIES_OF_AN_OPERATOR[1])
        assert who(come(weir, "q_scram", database="p1")) == "q_scram"
        assert not is_superuser(tenant)
    finally:
        tenant.execute("ALTER ROLE postgres IN DATABASE p1 RESET ALL")


def test_auth_user_keeps_its_own_search_path(start, roles):
    """A function without a schema is found in the search_path that the role of auth_user has been given."""
    roles.execute("ALTER ROLE asker SET search_path = pooler, public")
    try:
        weir = start(**by_asker())
        weir.settings["auth_query"] = "SELECT uname, phash FROM user_lookup($1)"
        weir.write_ini()
        weir.admin("RELOAD")
        assert who(come(weir, "q_scram")) == "q_scram"
    finally:
        roles.execute("ALTER ROLE asker RESET search_path")


USER_SEARCH = """
CREATE FUNCTION {0}.user_search(uname text) RETURNS TABLE (usename name, passwd text) LANGUAGE sql SECURITY DEFINER
    AS 'SELECT usename, passwd FROM pg_shadow WHERE usename = $1';
REVOKE ALL ON FUNCTION {0}.user_search(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {0}.user_search(text) TO asker;
"""
BY_SEARCH = "SELECT usename, passwd FROM user_search($1)"


@pytest.fixture
def searching(roles):
    """As CloudNativePG does: a function in public, which auth_query calls without a schema; and another function in schema pooler."""
    roles.execute(USER_SEARCH.format("public"), database="p1")
    roles.execute(USER_SEARCH.format("pooler"), database="p0")
    yield roles
    roles.execute("DROP FUNCTION public.user_search", database="p1")
    roles.execute("DROP FUNCTION pooler.user_search", database="p0")


def test_public_is_in_the_path_of_auth_dbname(start, searching):
    """A function without a schema. In the client's own database it is not found in public, whose owner may be any user."""
    weir = start(**by_asker({"auth_dbname": "p1"}))
    weir.settings["auth_query"] = BY_SEARCH
    weir.write_ini()
    weir.admin("RELOAD")
    assert who(come(weir, "q_scram")) == "q_scram"
    assert refusal(weir, "q_scram", "wrong") == refusal(weir, "nobody", "x") == REFUSED
    del weir.settings["auth_dbname"]
    weir.write_ini()
    weir.admin("RELOAD")
    assert refusal(weir, "q_scram", ROLES["q_scram"], database="p1") == ("28000", "bouncer config error")
    weir.wait_log(r"function user_search\(unknown\) does not exist \(42883\); the search_path of auth_query is pg_catalog and pg_temp")
    # the same pool and the same query, with another path
    weir.settings["auth_dbname"] = "p1"
    weir.write_ini()
    weir.admin("RELOAD")
    assert who(come(weir, "q_scram", database="p1")) == "q_scram"


def test_auth_search_path(start, searching):
    """The search path of the process and of a database; RELOAD changes the path."""
    weir = start({"p0": searching, "p1": searching.target("p1", auth_search_path="public")}, auth_search_path='"no such", pooler', **by_asker())
    weir.settings["auth_query"] = BY_SEARCH
    weir.write_ini()
    weir.admin("RELOAD")
    assert who(come(weir, "q_scram")) == who(come(weir, "q_scram", database="p1")) == "q_scram"
    weir.settings["auth_search_path"] = "public"
    weir.write_ini()
    weir.admin("RELOAD")
    assert refusal(weir, "q_scram", ROLES["q_scram"])[1] == "bouncer config error"
    weir.wait_log(r"does not exist \(42883\); the search_path of auth_query is pg_catalog, public and pg_temp")
    assert who(come(weir, "q_scram", database="p1")) == "q_scram"


def test_in_session_mode_the_session_is_reset_afterwards(start, roles):
    roles.execute("CREATE FUNCTION pooler.noting(text) RETURNS TABLE (a text, b text) LANGUAGE sql AS "
                  "$$ SELECT set_config('asked.for', $1, false); SELECT rolname::text, rolpassword FROM pg_authid "
                  "WHERE rolname = $1 $$", database="p0")
    weir = start(pool_mode="session", default_pool_size=1, auth_query="SELECT a, b FROM pooler.noting($1)",
                 users={"postgres": "root"}, auth_type="plain")
    come(weir, "q_scram").quit()
    client = weir.client("postgres", password="root")
    assert not client.query("SELECT current_setting('asked.for', true)").rows[0][0]


# --- failures


@pytest.mark.parametrize("query, log", [
    ("SELECT 1 WHERE $1::text = ''", "1 columns, want 2"),
    ("SELECT $1::text, 'a'::text, 'b'::text", "3 columns, want 2"),
    ("SELECT $1::text, generate_series(1, 1000000)::text", "more than one row"),
    ("SELECT NULL::text, $1::text", "the name of the user is NULL"),
    ("SELECT $1::text, repeat('x', 65531)", "the secret is too long"),
    ("SELECT $1::text, repeat('x', 100000)", "a message of the answer is too long"),
    ("SELECT nonsense FROM nowhere WHERE x = $1", 'relation "nowhere" does not exist'),
    ("SELECT rolname, rolpassword FROM pg_authid", "supplies 1 parameters"),
    ("SELECT $1::text, 1/0", "division by zero"),
    ("COPY pg_database TO STDOUT", "supplies 1 parameters"),
    ("NOTIFY x", "supplies 1 parameters"),
    ("SELECT $1::text; SELECT 2", "cannot insert multiple commands"),
    (";", "supplies 1 parameters"),
])
def test_answers_of_any_shape(start, query, log):
    """Each is an error of the configuration: refused, logged precisely, and the pool of auth_user is as it was."""
    weir = start(auth_query=query)
    assert refusal(weir, "q_scram", ROLES["q_scram"])[1] in ("bouncer config error", "auth_query failed")
    weir.wait_log("auth_query .*failed.*" + log)
    weir.settings["auth_query"] = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1"
    weir.write_ini()
    weir.admin("RELOAD")
    assert who(come(weir, "q_scram")) == "q_scram"


NULLS = """
CREATE FUNCTION pooler.one_row(i_name text, OUT uname text, OUT phash text) LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = i_name
$$"""


def test_row_of_nulls_counts_as_unknown_user(start, roles):
    """The result of a function with OUT parameters that finds nothing; clients cannot distinguish unknown users by it."""
    roles.execute(NULLS, database="p0")
    weir = start(auth_query="SELECT uname, phash FROM pooler.one_row($1)")
    assert who(come(weir, "q_scram")) == "q_scram"
    assert refusal(weir, "nobody", "x") == refusal(weir, "q_scram", "wrong") == REFUSED
    weir.wait_log("no such user: nobody")
    assert "auth_query for user" not in weir.log()


@pytest.mark.parametrize("size", [2049, 65530])
def test_a_long_secret(start, roles, size):
    """65,530 bytes are the longest password that a client can send."""
    databases = {"p0": roles, "forced": roles.target("p0", user="app", password=SECRETS["app"])}
    weir = start(databases, auth_dbname="p0", auth_type="plain", auth_query="SELECT $1::text, repeat('x', %d)" % size)
    assert who(come(weir, "q_scram", size * "x", database="forced")) == "app"
    assert refusal(weir, "q_scram", (size - 1) * "x", "forced") == REFUSED


def test_auth_user_without_the_right_to_read_secrets(start):
    weir = start(auth_user="trusted")
    assert refusal(weir, "q_scram", ROLES["q_scram"]) == ("28000", "bouncer config error")
    weir.wait_log("permission denied for table pg_authid")


def test_auth_user_is_refused_by_the_server(start):
    weir = start(auth_user="asker", users={"asker": "not its secret"})
    for _ in range(2):
        assert refusal(weir, "q_scram", ROLES["q_scram"]) == ("57P03", "auth_query failed")
    weir.wait_log('server login failed: FATAL password authentication failed for user "asker"')
    weir.wait_log('p0/asker: auth_query for user "q_scram" failed: .*password authentication failed for user "asker"')
    # secrets of the list are not affected
    assert who(weir.client("app")) == "app"


def test_server_is_killed_during_a_look_up(start, roles):
    weir = start(auth_query="SELECT $1::text, pg_sleep(3600)::text")
    client = weir.connect()
    client.send(live.m.startup(user="q_scram", database="p0"))
    asleep = ("SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)::text' AND state = 'active' "
              "AND pid <> pg_backend_pid()")
    until(lambda: roles.execute(asleep), "auth_query runs")
    roles.execute("SELECT pg_terminate_backend(pid) FROM (%s) x" % asleep)
    live.ended_with(client, "server conn crashed?")
    weir.wait_log("auth_query for user .* failed: FATAL: terminating connection")


# --- figures


def test_show_commands(start, roles):
    weir = start(**by_asker(), sections={"users": {"q_scram": "pool_size=3 max_user_connections=5"}})
    assert "q_scram" in {row["name"] for row in weir.show("USERS")}
    client = come(weir, "q_scram")
    come(weir, "md5user")
    users = {row["name"]: row for row in weir.show("USERS")}
    assert users["q_scram"]["pool_size"] == "3" and users["q_scram"]["max_user_connections"] == 5
    assert users["q_scram"]["current_client_connections"] == users["md5user"]["current_client_connections"] == 1
    assert users["asker"]["current_client_connections"] == 0 and users["asker"]["current_connections"] == 1
    assert weir.pool("p0", "asker")["cl_active"] == weir.pool("p0", "asker")["cl_waiting"] == 0
    assert weir.pool("p0", "asker")["sv_idle"] == 1
    assert who(client) == "q_scram"
    lists = {row["list"]: row["items"] for row in weir.show("LISTS")}
    assert lists["login_clients"] == 0
    assert not [row for row in weir.show("SERVERS") if row["state"] not in ("idle", "active")]


def test_limits_of_users_found_by_auth_query(start):
    weir = start(sections={"users": {"q_scram": "max_user_client_connections=1"}})
    come(weir, "q_scram")
    assert refusal(weir, "q_scram", ROLES["q_scram"]) == ("53300", "client connections exceeded (max_user_client_connections)")


def test_simultaneous_logins_share_a_look_up(start, roles):
    """One look-up for all clients that arrive during another look-up."""
    roles.execute("CREATE SEQUENCE asked; CREATE FUNCTION pooler.counting(text) RETURNS TABLE (a text, b text) LANGUAGE sql AS "
                  "$$ SELECT nextval('public.asked'); SELECT pg_advisory_xact_lock_shared(77); "
                  "SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = $1 $$", database="p0")
    lock = roles.connect(database="p0")
    try:
        weir = start(auth_query="SELECT a, b FROM pooler.counting($1)", pool_mode="transaction", max_client_conn=200)
        lock.cursor().execute("SELECT pg_advisory_xact_lock(77)")
        clients = [weir.connect() for _ in range(50)]
        come_in = live.m.startup(user="q_scram", database="p0")
        clients[0].send(come_in)
        until(lambda: roles.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), "its query runs")
        for client in clients[1:]:
            client.send(come_in)
        until(lambda: len([row for row in weir.show("CLIENTS") if row["user"] == "q_scram"]) == 50, "all of them wait")
        lock.rollback()
        run_in_threads(*[lambda client=client: client.finish_login("q_scram", ROLES["q_scram"]) for client in clients])
        assert roles.execute("SELECT last_value FROM asked", database="p0") == [(2,)]
    finally:
        lock.close()
        roles.execute("DROP SEQUENCE asked", database="p0")
