"""
Passwords verified by LDAP are sent only to servers of the database of the login.

User "bob" of p0 is verified with a directory; user "bob" of p1, a tenant's database, is another user, found with auth_query.
"""
import os

import pytest

from support import lookups, scram
from support import messages as m
from support.ldap import FakeLdap, bind_answer
from support.mini import serve_mini
from support.pgweir import ANY_METHOD
from support.ports import free_port

RULES = """host pgbouncer all all trust
host p0 all all ldap ldapserver=127.0.0.1 ldapport=%d ldapprefix=cn=
host p1 all all %s
"""


@pytest.fixture
def directory_port():
    """The port of an LDAP server that accepts every password."""
    port = free_port()
    ldap = FakeLdap(port, lambda _, number: bind_answer(number))
    yield port
    ldap.stop()


def asking(scene, secret=None):
    """A server that requests the password in clear text: fake.shown has (user, password). `secret`: the result of a look-up."""
    fake = scene.mini()
    fake.shown = []
    lookups.answer(fake, lambda _: secret)

    def login(session):
        session.send(m.authentication(3))
        fake.shown.append((session.startup["user"], m.read_cstrings(session.expect("p").body)[0]))
        session.welcome()
    fake.login = login
    return fake


def weir_for(scene, port, own, tenant, method="plain", **settings):
    rules = os.path.join(scene.directory, "hba.conf")
    with open(rules, "w", encoding="ascii") as f:
        f.write(RULES % (port, method))
    entry = "host=127.0.0.1 port=%d dbname=%s"
    return scene.weir({"p0": entry % (own.port, "p0"), "p1": entry % (tenant.port, "p1") + settings.pop("entry", "")},
                      auth_type="hba", auth_hba_file=rules, pool_mode="transaction", server_require_auth=ANY_METHOD,
                      server_login_retry=1, **settings)


def test_another_database_does_not_get_the_password(scene, directory_port):
    own, tenant = asking(scene), asking(scene, "tenant-word")
    weir = weir_for(scene, directory_port, own, tenant, users={"asker": "asker-word"}, entry=" auth_user=asker")
    theirs = weir.client("bob", database="p1", password="tenant-word")
    assert theirs.query("one").value == "one"
    assert weir.client("bob", password="ldap-word").query("two").value == "two"
    tenant.drop_all()
    weir.wait_pool("p1", "bob", sv_idle=0)
    assert theirs.query("three").value == "three"
    assert own.shown == [("bob", "ldap-word")]
    assert tenant.shown == [("asker", "asker-word")] + 2 * [("bob", "tenant-word")]


def test_login_to_another_database_keeps_the_password(scene, directory_port):
    own, tenant = asking(scene), asking(scene, "tenant-word")
    weir = weir_for(scene, directory_port, own, tenant, users={"asker": "asker-word"}, entry=" auth_user=asker")
    client = weir.client("bob", password="ldap-word")
    assert client.query("one").value == "one"
    assert weir.client("bob", database="p1", password="tenant-word").query("two").value == "two"
    own.drop_all()
    weir.wait_pool("p0", "bob", sv_idle=0)
    assert client.query("three").value == "three"
    assert own.shown == 2 * [("bob", "ldap-word")]


def test_an_account_with_the_name_of_auth_user(scene, directory_port):
    """The account's password is not used for look-ups, even if the directory accepts it."""
    own = asking(scene, "tenant-word")
    weir = weir_for(scene, directory_port, own, own, users={"asker": "asker-word"}, entry=" auth_user=asker auth_dbname=p0")
    assert weir.client("asker", password="ldap-word").query("one").status == "I"
    assert own.shown == [("asker", "asker-word")]


def test_keys_of_another_database_are_kept(scene, directory_port):
    """Keys derived from such a password do not replace those that a client of another database has proven."""
    secret = scram.make_secret("list-word")
    own, tenant = scene.mini(method="scram", password="ldap-word"), scene.fake()
    tenant.login = lambda session: (session.ask_scram(None, secret=secret), session.welcome())
    serve_mini(tenant)
    weir = weir_for(scene, directory_port, own, tenant, "scram-sha-256", users={"bob": scram.secret_text(secret)})
    theirs = weir.client("bob", database="p1", password="list-word")
    assert theirs.query("one").value == "one"
    assert weir.client("bob", password="ldap-word").query("two").value == "two"
    tenant.drop_all()
    weir.wait_pool("p1", "bob", sv_idle=0)
    assert theirs.query("three").value == "three"
