"""Names of more than 63 bytes, which PostgreSQL cuts: a rule or limit for the name that is left holds for them too."""
import pytest

from support import messages as m
from support.wire import LoginRefused

SHORT = "n" * 63
LONGER = [SHORT + "n", SHORT + "other", SHORT * 16]
CUT = "PostgreSQL would cut it"


def refusal(weir, **startup):
    """The error that ends the login, or None."""
    client = weir.connect()
    try:
        client.login(**{"user": "app", "database": "p0", **startup})
    except LoginRefused as refused:
        return refused.fields["M"]
    client.quit()
    return None


def with_rules(scene, lines, databases, **settings):
    path = scene.directory + "/hba.conf"
    with open(path, "w", encoding="utf-8") as f:
        f.write("host pgbouncer admin all trust\n" + lines + "host all all all trust\n")
    return scene.weir(databases, auth_type="hba", auth_hba_file=path, users={SHORT: "x", "app": "x"}, **settings)


@pytest.mark.parametrize("name", [SHORT] + LONGER, ids=len)
def test_hba_lines_of_a_user(scene, name):
    weir = with_rules(scene, "host all %s all reject\n" % SHORT, scene.mini())
    assert refusal(weir, user=name) == "login rejected"
    assert refusal(weir) is None


@pytest.mark.parametrize("name", [SHORT] + LONGER, ids=len)
def test_hba_lines_of_a_database(scene, name):
    """As an explicit name, and as the user name if the database is omitted."""
    weir = with_rules(scene, "host %s all all reject\n" % SHORT, {"*": scene.mini()})
    assert refusal(weir, database=name) == "login rejected"
    client = weir.connect()
    client.send(m.startup(user=name))
    assert m.read_error(client.expect("E").body)["M"] == "login rejected"
    assert refusal(weir, database="other") is None


def test_limits_of_a_user(scene):
    weir = scene.weir(scene.mini(), users={SHORT: "x"}, sections={"users": {SHORT: "max_user_client_connections=1"}})
    weir.client(SHORT)
    for name in LONGER:
        assert refusal(weir, user=name) == "client connections exceeded (max_user_client_connections)"


def test_disabled_database(scene):
    weir = scene.weir({"*": scene.mini()})
    weir.client(database=SHORT).quit()
    weir.admin('DISABLE "%s"' % SHORT)
    for name in LONGER:
        assert refusal(weir, database=name) == 'database "%s" is disabled' % SHORT


def test_servers_and_console_see_the_truncated_name(scene):
    fake = scene.fake()
    weir = scene.weir({"*": fake}, users={SHORT: "x"})
    for name in LONGER:
        client = weir.client(name, name)
        assert {(row["user"], row["database"]) for row in weir.show("CLIENTS")} >= {(SHORT, SHORT)}
        client.quit()
    assert {(session.startup["user"], session.startup["database"]) for session in fake.started} == {(SHORT, SHORT)}


def test_names_of_the_configuration_are_not_truncated(scene):
    """Names may be long if no server gets them."""
    fake = scene.fake()
    long, more = LONGER[:2]
    weir = scene.weir({long: "host=127.0.0.1 port=%d dbname=p0 user=forced" % fake.port,
                       "own": fake, more: "host=127.0.0.1 port=%d" % fake.port}, users={long: "x", "app": "x", "forced": "x"})
    weir.client(long, long).quit()
    assert {(session.startup["user"], session.startup["database"]) for session in fake.started} == {("forced", "p0")}
    assert CUT in refusal(weir, user=long, database="own")
    assert CUT in refusal(weir, database=more)
    assert len(fake.started) == 1
