"""CVEs of poolers of this kind that need a real PostgreSQL to be played; the others are in wire/test_cve.py."""
import pytest

from support.wire import LoginRefused

MODES = ["session", "transaction", "statement"]
ATTACK = """
CREATE ROLE victim LOGIN PASSWORD 'right';
CREATE SCHEMA cve; GRANT ALL ON SCHEMA cve TO PUBLIC;
CREATE FUNCTION cve.yes(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION cve.yes(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR cve.= (LEFTARG = name, RIGHTARG = text, FUNCTION = cve.yes);
CREATE OPERATOR cve.= (LEFTARG = name, RIGHTARG = name, FUNCTION = cve.yes);
CREATE TABLE cve.pg_authid AS SELECT 'victim'::name rolname, null::timestamptz rolvaliduntil, 'evil'::text rolpassword,
    true rolcanlogin;
GRANT ALL ON cve.pg_authid TO PUBLIC;
"""


@pytest.fixture
def victim(postgres):
    """A role that is in no user list, and a schema in which an attacker defines everything."""
    postgres.execute(ATTACK, database="p0")
    yield postgres
    postgres.execute("DROP SCHEMA cve CASCADE", database="p0")
    postgres.execute("DROP ROLE victim")


def attempt(weir, password, **parameters):
    """Returns None, or the error message of the refusal."""
    client = weir.connect()
    try:
        client.login(user="victim", database="p0", password=password, **parameters)
    except LoginRefused as refusal:
        return refusal.fields["M"]
    client.quit()
    return None


@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_cve_2025_2291_valid_until(scene, victim, auth_type):
    """The default auth_query knows that a password may have expired; nothing of an earlier login lets it live on."""
    weir = scene.weir(victim, auth_type=auth_type, auth_user="postgres", pool_mode="transaction")
    assert attempt(weir, "right") is None
    for moment in ("2001-01-01", "-infinity", "yesterday"):
        victim.execute("ALTER ROLE victim VALID UNTIL '%s'" % moment)
        for password in ("right", "", "wrong"):
            assert attempt(weir, password).endswith("authentication failed"), moment
    for moment in ("infinity", "tomorrow"):
        victim.execute("ALTER ROLE victim VALID UNTIL '%s'" % moment)
        assert attempt(weir, "right") is None
        assert attempt(weir, "wrong").endswith("authentication failed")


@pytest.mark.parametrize("how", ["parameter", "options"])
@pytest.mark.parametrize("mode", MODES)
def test_cve_2025_12819_search_path(scene, victim, mode, how):
    """An attacker's search_path has the query find the attacker's functions: in the start-up packet, and left in a session."""
    weir = scene.weir(victim, auth_type="plain", auth_user="postgres", pool_mode=mode, default_pool_size=1,
                      track_extra_parameters="search_path", users={"postgres": "root"})
    path = "cve,pg_catalog"
    asks = {"search_path": path} if how == "parameter" else {"options": "-c search_path=" + path}
    for _ in range(2):
        assert attempt(weir, "evil", **asks) == "password authentication failed"
        assert attempt(weir, "right", **asks) is None
        # the session that the next look-up gets was used by a client with that search_path
        leaves = weir.client("postgres", password="root", **asks)
        assert leaves.query("SHOW search_path").value == path
        if mode == "session":
            assert leaves.query("SET search_path = %s" % path).tags == ["SET"]
        leaves.quit()
