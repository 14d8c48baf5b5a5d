"""auth_type ldap: a real directory, and unreachable or broken servers."""
import os
import signal

import psycopg2
import pytest

from support import messages as m
from support.postgres import SECRETS as SERVER_SECRETS
from support.slapd import BASE, PEOPLE, SEARCHER, SEARCH_SECRET, Slapd

SECRET = "ldap-secret"
SIMPLE = 'ldapserver=127.0.0.1 ldapport={port} ldapprefix="uid=" ldapsuffix=",%s"' % PEOPLE
SEARCH = ('ldapserver=127.0.0.1 ldapport={port} ldapbasedn="%s" ldapbinddn="%s" ldapbindpasswd=%s'
          % (PEOPLE, SEARCHER, SEARCH_SECRET))


@pytest.fixture(scope="module")
def slapd(tmp_path_factory, authority):
    server = Slapd(tmp_path_factory.mktemp("slapd"), authority)
    yield server
    server.stop()


@pytest.fixture
def own_slapd(tmp_path):
    """A directory of the test, which may stop it with slapd.stop()."""
    servers = []

    def make(**options):
        directory = tmp_path / ("slapd%d" % len(servers))
        directory.mkdir()
        servers.append(Slapd(directory, **options))
        return servers[-1]
    yield make
    for server in servers:
        server.stop()


def weir_for(scene, postgres, options, **settings):
    """Server connections need no password, so that only the client login matters."""
    return scene.weir({"p0": postgres.target("p0", user="trusted")}, auth_type="ldap", auth_ldap_options=options,
                      **settings)


def check_logins(weir, user="app", secret=SECRET):
    """The right password is taken, wrong ones are not."""
    assert weir.client(user, password=secret).query("SELECT current_user").value == "trusted"
    for wrong in ("wrong", "", secret + "x", "x" * 60000):
        fields = weir.connect().refused(user=user, database="p0", password=wrong)
        assert (fields["M"], fields["C"], fields["S"]) == ("LDAP authentication failed", "28000", "FATAL")
    weir.wait_log("closing because: LDAP authentication failed", times=4)
    weir.wait_log("login failed: db=p0 user=" + user, times=4)
    weir.wait_log(r"WARNING C-\S+ p0/%s@\S+ LDAP: 127.0.0.1: bind: Invalid credentials" % user, times=3)
    weir.wait_log(r"WARNING C-\S+ p0/%s@\S+ LDAP: the password is empty" % user)


def refused(weir, user, why, password=SECRET):
    """This login fails, and the log says why."""
    fields = weir.connect().refused(user=user, database="p0", password=password)
    assert fields["M"] == "LDAP authentication failed"
    weir.wait_log(r"LDAP: " + why)


# --- how a user is found

@pytest.mark.parametrize("options", [
    SIMPLE,
    SEARCH,
    SEARCH + " ldapsearchattribute=cn",
    SEARCH + ' ldapsearchfilter="(&(objectClass=person)(|(uid=$username)(mail=$username)))"',
    'ldapurl="ldap://127.0.0.1:{port}/%s?uid?sub" ldapbinddn="%s" ldapbindpasswd=%s' % (BASE, SEARCHER, SEARCH_SECRET),
    'ldapurl="ldap://127.0.0.1:{port}/%s??one?(cn=$username)" ldapbinddn="%s" ldapbindpasswd=%s'
    % (PEOPLE, SEARCHER, SEARCH_SECRET),
])
def test_right_and_wrong_passwords(scene, postgres, slapd, options):
    weir = weir_for(scene, postgres, options.format(port=slapd.port))
    check_logins(weir)
    refused(weir, "nobody", "127.0.0.1: (bind: Invalid credentials|search: there is no entry for this user)")


def test_anonymous_search(scene, postgres, own_slapd):
    slapd = own_slapd(anonymous=True)
    check_logins(weir_for(scene, postgres, 'ldapserver=127.0.0.1 ldapport=%d ldapbasedn="%s"' % (slapd.port, BASE)))


def test_libpq_logs_in_and_the_user_list_is_ignored(scene, postgres, slapd):
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port))
    with psycopg2.connect(host=weir.host, port=weir.port, user="app", dbname="p0", password=SECRET) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
    refused(weir, "app", "127.0.0.1: bind: Invalid credentials", password=weir.users["app"])


def test_the_entry_must_be_the_only_one(scene, postgres, slapd, own_slapd):
    options = 'ldapserver=127.0.0.1 ldapport=%%d ldapbasedn="%s" ldapbinddn="%s" ldapbindpasswd=%s ' \
              "ldapsearchattribute=mail" % (BASE, SEARCHER, SEARCH_SECRET)
    weir = weir_for(scene, postgres, options % slapd.port)
    refused(weir, "twin@example.net", "127.0.0.1: search: more than one entry fits this user", password="twin-secret")
    assert weir.client("app@example.net", password=SECRET).query("SELECT 1").value == "1"
    # a server that sends no more than one says so, and that is not taken for there being one only
    few = own_slapd(sizelimit=1)
    weir = weir_for(scene, postgres, options % few.port)
    refused(weir, "twin@example.net", "127.0.0.1: search: more than one entry fits this user", password="twin-secret")


@pytest.mark.parametrize("user, mark", [
    ("app)(uid=*", r"\)"), ("*", r"\*"), ("ap*", r"\*"), ("app(", r"\("), ("ap\\70", r"\\\\?"), ("app/x", "/")])
def test_names_with_special_characters_of_filters(scene, postgres, slapd, user, mark):
    weir = weir_for(scene, postgres, SEARCH.format(port=slapd.port))
    refused(weir, user, 'the user name has a "%s" in it, which means something in LDAP' % mark)


@pytest.mark.parametrize("user", ["app,ou=people,dc=example,dc=net", "app+cn=app", "app=", 'a"pp', "a\\70p", "#617070",
                                  "<app>", "app;"])
def test_names_with_special_characters_of_dns(scene, postgres, slapd, user):
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port))
    asked = slapd.log().count(" BIND dn=")
    refused(weir, user, 'the user name has a "."|the user name has a "\\\\')
    assert slapd.log().count(" BIND dn=") == asked


def test_without_a_dn_names_are_not_restricted(scene, postgres, slapd):
    """user@domain is not a DN: its characters have no special meaning, and the server interprets the name."""
    weir = weir_for(scene, postgres, "ldapserver=127.0.0.1 ldapport=%d ldapsuffix=@example.net" % slapd.port)
    refused(weir, "a,b", "127.0.0.1: bind: Invalid DN syntax")


def test_an_empty_password_is_never_sent(scene, postgres, slapd):
    """slapd treats a name without a password as an anonymous bind, and accepts it."""
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port))
    asked = slapd.log().count(" BIND dn=")
    refused(weir, "app", "the password is empty", password="")
    assert slapd.log().count(" BIND dn=") == asked


def test_a_wrong_password_for_the_search(scene, postgres, slapd):
    weir = weir_for(scene, postgres, SEARCH.replace(SEARCH_SECRET, "wrong").format(port=slapd.port))
    refused(weir, "app", "127.0.0.1: bind for the search: Invalid credentials")


# --- TLS

TLS = [
    pytest.param(SIMPLE + " ldaptls=1", False, id="starttls"),
    pytest.param(SIMPLE + " ldapscheme=ldaps", True, id="ldaps"),
    pytest.param(SEARCH + " ldaptls=1", False, id="search-starttls"),
    pytest.param('ldapurl="ldaps://127.0.0.1:{port}/%s?uid?sub" ldapbinddn="%s" ldapbindpasswd=%s'
                 % (BASE, SEARCHER, SEARCH_SECRET), True, id="url-ldaps"),
]


@pytest.mark.parametrize("options, tls_port", TLS)
def test_tls(scene, postgres, slapd, authority, monkeypatch, options, tls_port):
    monkeypatch.setenv("LDAPTLS_CACERT", authority.cert("ca"))
    before = slapd.log().count("TLS established")
    weir = weir_for(scene, postgres, options.format(port=slapd.tls_port if tls_port else slapd.port))
    check_logins(weir)
    assert slapd.log().count("TLS established") >= before + 3


@pytest.mark.parametrize("options, tls_port", TLS[:2])
def test_a_server_with_another_certificate_gets_no_password(scene, postgres, slapd, authority, monkeypatch, options, tls_port):
    monkeypatch.setenv("LDAPTLS_CACERT", authority.cert("other"))
    weir = weir_for(scene, postgres, options.format(port=slapd.tls_port if tls_port else slapd.port))
    asked = slapd.log().count(" BIND dn=")
    refused(weir, "app", "127.0.0.1: (StartTLS|bind): ")
    assert slapd.log().count(" BIND dn=") == asked


def test_no_password_without_the_requested_tls(scene, postgres, own_slapd):
    """A server that refuses StartTLS."""
    slapd = own_slapd()
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port) + " ldaptls=1")
    refused(weir, "app", "127.0.0.1: StartTLS: ")
    assert " BIND dn=" not in slapd.log()


# --- servers that are away

def test_next_server_is_tried(scene, postgres, slapd):
    """No server listens on 127.0.0.2."""
    weir = weir_for(scene, postgres, SIMPLE.replace("127.0.0.1", '"127.0.0.2 127.0.0.1"', 1).format(port=slapd.port))
    check_logins(weir)


def test_server_becomes_available_again(scene, postgres, own_slapd):
    slapd = own_slapd()
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port))
    slapd.stop()
    refused(weir, "app", "127.0.0.1: bind: Can't contact LDAP server")
    slapd.start()
    check_logins(weir)


# --- lines of an HBA file

def test_lines_of_an_hba_file(scene, postgres, slapd):
    """Each has its own options; the setting does not count."""
    path = os.path.join(scene.directory, "hba.conf")
    with open(path, "w", encoding="ascii") as f:
        f.write("host p0 all all ldap %s\nhost p1 all all ldap %s\nhost all all all trust\n"
                % (SIMPLE.format(port=slapd.port), SEARCH.format(port=slapd.port) + " ldapsearchattribute=mail"))
    weir = scene.weir({name: postgres.target(name, user="trusted") for name in ("p0", "p1")}, auth_type="hba",
                      auth_hba_file=path, auth_ldap_options="ldapserver=192.0.2.1 ldapprefix=x")
    check_logins(weir)
    assert weir.client("app@example.net", database="p1", password=SECRET).query("SELECT 1").value == "1"
    # a RELOAD between question and answer does not take the line away
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    with open(path, "w", encoding="ascii") as f:
        f.write("host all all all trust\n")
    weir.admin("RELOAD")
    client.send(m.password(SECRET))
    client.expect("R")
    client.read_until("Z")


def test_commas_between_the_options_of_an_hba_line(scene, postgres, slapd):
    """As in PgBouncer and PostgreSQL: such a line was skipped, and the next line admitted the client."""
    path = os.path.join(scene.directory, "hba.conf")
    lines = ("host p0 all all ldap {0[0]}, {0[1]} , {0[2]} ,{0[3]}\n" "host p1 all all ldap {0[0]},{0[1]},{0[2]},{0[3]}\n"
             "host all all all trust\n").format(SIMPLE.format(port=slapd.port).split(" "))
    with open(path, "w", encoding="ascii") as f:
        f.write(lines)
    databases = {name: postgres.target(name, user="trusted") for name in ("p0", "p1")}
    weir = scene.weir(databases, auth_type="hba", auth_hba_file=path)
    check_logins(weir)
    assert weir.client("app", "p1", password=SECRET).query("SELECT 1").value == "1"
    assert weir.connect().refused(user="app", database="p1", password="wrong")["M"] == "LDAP authentication failed"
    assert weir.admin("RELOAD") == "RELOAD"


def test_ldaps_with_starttls_on_an_hba_line(scene, postgres):
    """PgBouncer takes the line, and refuses its logins; the next line does not decide."""
    path = os.path.join(scene.directory, "hba.conf")
    with open(path, "w", encoding="ascii") as f:
        f.write('host p0 all all ldap ldapurl="ldaps://127.0.0.1/dc=x?uid?sub" ldaptls=1\nhost all all all trust\n')
    weir = scene.weir({"p0": postgres.target("p0", user="trusted")}, auth_type="hba", auth_hba_file=path)
    weir.wait_log(r'WARNING %s:1: ldap lets nobody in: "ldaptls" \(StartTLS\) and ldaps' % path)
    assert weir.admin("RELOAD") == "RELOAD"
    refused(weir, "app", '"ldaptls" .StartTLS. and ldaps')


def test_reload_during_verification(scene, postgres, slapd):
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port))
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    weir.settings["auth_type"] = "trust"
    del weir.settings["auth_ldap_options"]
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    weir.wait_log("RELOAD: the configuration")
    client.send(m.password(SECRET))
    client.expect("R")
    client.read_until("Z")


# --- the server's password

def test_verified_password_is_used_for_the_server(scene, postgres, own_slapd):
    """The user list has another password, which is ignored, as in PgBouncer."""
    slapd = own_slapd(secrets={"app": SERVER_SECRETS["app"], "rival": "not at the server"})
    weir = scene.weir({"p0": postgres, "forced": postgres.target("p0", user="rival")},
                      users={"app": "stale", "rival": SERVER_SECRETS["rival"]}, auth_type="ldap",
                      auth_ldap_options=SIMPLE.format(port=slapd.port))
    assert weir.client("app", password=SERVER_SECRETS["app"]).query("SELECT current_user").value == "app"
    # a forced user has never shown us anything
    client = weir.client("app", database="forced", password=SERVER_SECRETS["app"])
    assert client.query("SELECT current_user").value == "rival"
    fields = weir.connect().refused(user="rival", database="p0", password="not at the server")
    assert fields["M"] == 'password authentication failed for user "rival"'


def test_search_password_is_not_shown(scene, postgres, slapd):
    weir = weir_for(scene, postgres, SEARCH.format(port=slapd.port))
    weir.settings["auth_type"] = "trust"
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    weir.wait_log("RELOAD: the configuration")
    (shown,) = [row["value"] for row in weir.show("CONFIG") if row["key"] == "auth_ldap_options"]
    assert "ldapbinddn=" in shown and "ldapbindpasswd=***" in shown
    assert SEARCH_SECRET not in shown + weir.log() + weir.stderr()


def test_console_login_by_ldap(scene, postgres, own_slapd):
    slapd = own_slapd(secrets={"admin": "admin-secret", "stats": "stats-secret", "app": SECRET})
    weir = weir_for(scene, postgres, SIMPLE.format(port=slapd.port))
    assert weir.admin("RELOAD") == "RELOAD"
    assert weir.connect().refused(user="app", database="pgbouncer", password=SECRET)["M"] == "not allowed"
