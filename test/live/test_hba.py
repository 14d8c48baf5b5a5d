"""auth_type hba: the HBA line that matches a client, and the line's method."""
import os
import pwd
import struct
import subprocess

import psycopg2
import pytest

from support import messages as m
from support import scram
from support.live import ended_with, pid_of
from support.log_words import logs_event
from support.pgweir import binary
from support.takeover import Replaced

TRUST, CLEARTEXT, MD5, SASL = 0, 3, 5, 10
NO_LINE = "no authentication method is found"
REJECTED = "login rejected"


def rules(weir_directory, text, name="hba.conf"):
    path = "%s/%s" % (weir_directory, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


CONSOLE = "host pgbouncer admin 127.0.0.1/32 trust\n"


def weir_with(scene, postgres, text, ident=None, users=None, **settings):
    """pgweir with an HBA file; its last line opens the console to the test, if none before does."""
    directory = scene.directory
    path = rules(directory, text + ("" if CONSOLE in text else CONSOLE))
    if ident is not None:
        settings["auth_ident_file"] = rules(directory, ident, "ident.conf")
    databases = {name: postgres.target(name, user="trusted") for name in ("p0", "p1")}
    return scene.weir(databases, users=users, auth_type="hba", auth_hba_file=path, **settings)


def tls(authority, sslmode="allow"):
    return {"client_tls_sslmode": sslmode, "client_tls_cert_file": authority.cert("server"),
            "client_tls_key_file": authority.key("server"), "client_tls_ca_file": authority.cert("ca")}


def question(weir, user="app", database="p0", unix=False, **startup):
    """The code of the first question, or the text of the refusal."""
    client = weir.connect(unix)
    client.send(m.startup(user=user, database=database, **startup))
    got = client.read()
    return struct.unpack_from("!I", got.body)[0] if got.type == "R" else m.read_error(got.body)["M"]


# --- lines

def test_first_matching_line_applies(scene, postgres):
    weir = weir_with(scene, postgres, """
        host  p0  rival  127.0.0.1/32  reject
        host  p0  app    127.0.0.1/32  md5
        host  p1  app    127.0.0.1/32  scram-sha-256
        host  p1  rival  127.0.0.1/32  password
        host  p1  stats  127.0.0.1/32  trust
        host  p1  all    10.0.0.0/8    trust
        local p1  all                  password
    """)
    assert question(weir, "rival", "p0") == REJECTED
    assert question(weir, "app", "p0") == MD5
    assert question(weir, "app", "p1") == SASL
    assert question(weir, "rival", "p1") == CLEARTEXT
    assert question(weir, "stats", "p1") == TRUST
    assert question(weir, "other", "p1") == NO_LINE
    assert question(weir, "other", "p1", unix=True) == CLEARTEXT
    assert question(weir, "app", "p0", unix=True) == NO_LINE
    for user, database in (("app", "p0"), ("app", "p1"), ("rival", "p1"), ("stats", "p1")):
        assert weir.client(user, database).query("SELECT current_user").value == "trusted"


def test_log_names_the_refusing_line(scene, postgres):
    weir = weir_with(scene, postgres, "# first\nhost p0 rival all reject\nhost p0 app all md5\n")
    path = weir.settings["auth_hba_file"]
    fields = weir.connect().refused(user="rival", database="p0")
    assert (fields["M"], fields["C"]) == (REJECTED, "28000")
    weir.wait_log(r"C-0x\w+: p0/rival@127.0.0.1:\d+ matched %s:2 \(reject\)$" % path)
    fields = weir.connect().refused(user="app", database="p0", password="wrong")
    assert (fields["M"], fields["C"]) == ("password authentication failed", "28P01")
    weir.wait_log(r"p0/app@127.0.0.1:\d+ matched %s:3 \(md5\)$" % path)
    fields = weir.connect().refused(user="other", database="p0")
    assert (fields["M"], fields["C"]) == (NO_LINE, "28000")
    weir.wait_log(r"p0/other@127.0.0.1:\d+ no line of %s fits: tls=no replication=no$" % path)
    weir.wait_log("closing because: " + NO_LINE)


def test_a_wrong_password_does_not_try_the_next_line(scene, postgres):
    weir = weir_with(scene, postgres, "host all app all md5\nhost all all all trust\n")
    assert weir.connect().refused(user="app", database="p0", password="wrong")["M"] == "password authentication failed"
    assert pid_of(weir.client("app"))


@pytest.mark.parametrize("method, code", [("md5", MD5), ("scram-sha-256", SASL), ("password", CLEARTEXT)])
def test_an_unknown_user_or_database_looks_like_a_wrong_password(scene, postgres, method, code):
    """Trap 75."""
    weir = weir_with(scene, postgres, "host all all all %s\n" % method)
    seen = [weir.connect().refused(user=user, database=database, password="wrong")
            for user, database in (("app", "p0"), ("nobody", "p0"), ("app", "nosuch"), ("nobody", "nosuch"))]
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert {question(weir, user, database) for user in ("app", "nobody") for database in ("p0", "nosuch")} == {code}


def test_names_lists_and_expressions(scene, postgres):
    rules(scene.directory, "app, rival\n", "some_users")
    weir = weir_with(scene, postgres, 'host "p0",p1 @some_users all md5\nhost /^p[0-9]$ /^st 127.0.0.0/8 password\n')
    assert question(weir, "app", "p0") == MD5
    assert question(weir, "rival", "p1") == MD5
    assert question(weir, "stats", "p0") == CLEARTEXT
    assert question(weir, "admin", "p0") == NO_LINE


def test_samehost_and_samenet(scene, postgres):
    weir = weir_with(scene, postgres, "host p0 all samehost md5\nhost p1 all samenet password\n")
    assert question(weir, database="p0") == MD5
    assert question(weir, database="p1") == CLEARTEXT


def test_libpq_logs_in(scene, postgres):
    weir = weir_with(scene, postgres, "host all app samehost scram-sha-256\nhost all rival 127.0.0.0/8 md5\n")
    for user in ("app", "rival"):
        psycopg2.connect(weir.dsn(user)).close()
        with pytest.raises(psycopg2.OperationalError, match="authentication failed"):
            psycopg2.connect(host=weir.host, port=weir.port, user=user, dbname="p0", password="wrong")


def test_a_scram_secret_turns_md5_into_scram(scene, postgres):
    secret = scram.secret_text(scram.make_secret("strong"))
    weir = weir_with(scene, postgres, "host all all all md5\n", users={"strong": secret})
    assert question(weir, "strong") == SASL
    assert question(weir, "app") == MD5
    assert pid_of(weir.client("strong", password="strong"))


def test_physical_replication_needs_the_keyword(scene, postgres):
    weir = weir_with(scene, postgres, "host all,/. rival all trust\nhost replication app all md5\nhost all all all password\n")
    assert question(weir, replication="true") == MD5
    assert question(weir, replication="database") == CLEARTEXT
    assert question(weir) == CLEARTEXT
    assert question(weir, "rival", "replication", replication="true") == NO_LINE
    weir.wait_log("fits: tls=no replication=physical")


# --- the console

def test_both_names_match_the_console(scene, postgres):
    weir = weir_with(scene, postgres, "host pgbouncer stats all reject\nhost all all all md5\n")
    assert question(weir, "stats", "pgbouncer") == REJECTED
    assert question(weir, "stats", "pgweir") == REJECTED
    assert question(weir, "stats", "p0") == MD5
    assert weir.connect().refused(user="app", database="pgbouncer", password="app-secret")["M"] == "not allowed"
    assert weir.show("VERSION")


def test_keyword_replication_does_not_match_the_console(scene, postgres):
    weir = weir_with(scene, postgres, "host replication all all trust\nhost pgbouncer admin all md5\n")
    client = weir.connect()
    client.send(m.startup(user="admin", database="pgbouncer", replication="true"))
    assert struct.unpack_from("!I", client.expect("R").body)[0] == MD5


def test_unix_user_of_the_daemon_needs_no_line_for_the_console(scene, postgres):
    weir = weir_with(scene, postgres, "local all all reject\n")
    for name in ("pgbouncer", "pgweir"):
        assert weir.client("pgbouncer", name, unix=True).query("SHOW VERSION").value
    assert question(weir, "admin", "pgbouncer", unix=True) == REJECTED


# --- TLS, certificates

def test_hostssl_and_hostnossl(scene, postgres, authority):
    weir = weir_with(scene, postgres, "hostssl all app all trust\nhostnossl all rival all trust\n", **tls(authority))

    def over_tls(user):
        client = weir.connect()
        client.start_tls(authority.client_context())
        client.send(m.startup(user=user, database="p0"))
        return client

    assert over_tls("app").read().type == "R"
    ended_with(over_tls("rival"), NO_LINE, "28000")
    weir.wait_log("fits: tls=yes")
    assert question(weir, "app") == NO_LINE
    assert question(weir, "rival") == TRUST


def test_cert_with_and_without_a_map(scene, postgres, authority):
    authority.issue("bob", "bob@example.com")
    weir = weir_with(scene, postgres, "hostssl p0 all all cert\nhostssl p1 all all cert map=people\n",
                     ident="people /^(.*)@example\\.com$ \\1\npeople app rival\n", users={"bob": "x"}, **tls(authority))

    def entered(certificate, user, database):
        client = weir.connect()
        client.start_tls(authority.client_context(certificate))
        client.send(m.startup(user=user, database=database))
        got = client.read()
        if got.type == "R":
            client.finish_login()
            return client.query("SELECT current_user").value == "trusted"
        assert m.read_error(got.body)["M"] == "certificate authentication failed"
        return False

    assert entered("client", "app", "p0")
    assert not entered("client", "rival", "p0")
    assert not entered(None, "app", "p0")
    assert entered("client", "rival", "p1")
    assert not entered("client", "app", "p1")
    assert entered("bob", "bob", "p1")
    assert not entered("bob", "rival", "p1")
    # a user that the map allows must still be a known user
    authority.issue("stranger", "stranger@example.com")
    assert not entered("stranger", "stranger", "p1")


def test_clientcert_besides_a_password(scene, postgres, authority):
    weir = weir_with(scene, postgres, "hostssl p0 all all md5 clientcert=verify-ca\n"
                     "hostssl p1 all all md5 clientcert=verify-full\n", **tls(authority))

    def first_word(certificate, user, database):
        client = weir.connect()
        client.start_tls(authority.client_context(certificate))
        client.send(m.startup(user=user, database=database))
        got = client.read()
        return struct.unpack_from("!I", got.body)[0] if got.type == "R" else m.read_error(got.body)["M"]

    failed = "certificate authentication failed"
    assert first_word("client", "rival", "p0") == MD5
    assert first_word(None, "rival", "p0") == failed
    assert first_word("client", "app", "p1") == MD5
    assert first_word("client", "rival", "p1") == failed
    assert first_word(None, "app", "p1") == failed


# --- peer

def test_peer_with_and_without_a_map(scene, postgres):
    me = pwd.getpwuid(os.geteuid()).pw_name
    weir = weir_with(scene, postgres, "local p0 all peer\nlocal p1 all peer map=m\nhost p0 all all peer\n",
                     ident="m %s app\nm nobody rival\nm %s ghost\n" % (me, me), users={me: "x"})
    assert weir.client(me, "p0", unix=True).query("SELECT current_user").value == "trusted"
    assert weir.client("app", "p1", unix=True).query("SELECT current_user").value == "trusted"
    rejected = "unix socket login rejected"
    for user, database in (("app", "p0"), (me, "p1"), ("rival", "p1"), ("ghost", "p1")):
        fields = weir.connect(unix=True).refused(user=user, database=database)
        assert (fields["M"], fields["C"]) == (rejected, "28000")
    assert question(weir, me, "p0") == rejected


# --- files that change, files with faults

BAD = "host bad all 10.0.0.0/33 trust\n"


def test_valid_lines_around_an_invalid_line_apply(scene, postgres):
    """Trap 73."""
    weir = weir_with(scene, postgres, "host p0 all all md5\n" + BAD + "host p1 all all password\n")
    weir.wait_log(r"WARNING \S+/hba.conf:2: refuses every login that it could be about: \"10.0.0.0/33\" has no valid length")
    assert question(weir, database="p0") == MD5
    assert question(weir, database="p1") == CLEARTEXT
    # the rules read at the start can be read again
    assert weir.admin("RELOAD") == "RELOAD"


# (line, a login that it could be about: refused; others, which the next line lets in)
REFUSING = {
    "mistyped method": ("host p0 rival all rejct", ("rival", "p0"), [("rival", "p1"), ("app", "p0")]),
    "mistyped address": ("host p0 rival 127.0.0.1/33 reject", ("rival", "p0"), [("rival", "p1"), ("app", "p0")]),
    "expression": ("host p0 /(?i)rival all reject", ("app", "p0"), [("app", "p1")]),
    "members of a role": ("host p0 +admins 127.0.0.0/8 reject", ("app", "p0"), [("app", "p1")]),
    "host name": ("host p0 rival localhost reject", ("rival", "p0"), [("app", "p0")]),
    "method of PostgreSQL": ("host p0 rival all gss include_realm=0", ("rival", "p0"), [("app", "p0")]),
    "option": ("host p0 rival all trust colour=blue", ("rival", "p0"), [("app", "p0")]),
    "list that cannot be read": ("host p0 @nosuch all reject", ("app", "p0"), [("app", "p1")]),
    "quote": ('host p0 "rival all reject', ("app", "p1"), []),
    "missing field": ("host rival all reject", ("app", "p0"), []),
    "missing comma": ("host p0 app rival all reject", ("rival", "p0"), []),
    "cut": ("host p0 rival,", ("app", "p0"), []),
    "kind of connection": ("hots p0 rival all reject", ("app", "p1"), []),
    "file that is missing": ("include nosuch", ("app", "p1"), []),
}


@pytest.mark.parametrize("case", REFUSING)
def test_unusable_line_refuses(scene, postgres, case):
    """No later line admits a client that the unusable line may match; the client gets the same error as without a matching line."""
    line, (user, database), others = REFUSING[case]
    weir = weir_with(scene, postgres, CONSOLE + line + "\nhost all all all trust\nlocal all all trust\n")
    fields = weir.connect().refused(user=user, database=database)
    assert (fields["M"], fields["C"]) == (NO_LINE, "28000")
    path = weir.settings["auth_hba_file"]
    logs_event(weir, "line of the HBA file that cannot be used")
    assert "refused by %s:2," % path in weir.log()
    for other, its_database in others:
        assert question(weir, other, its_database) == TRUST
    # the same after a RELOAD of the same file, and of another file that is no better
    assert weir.admin("RELOAD") == "RELOAD"
    assert question(weir, user, database) == NO_LINE
    rules(scene.directory, CONSOLE + "host p0 rival all rejekt\nhost all all all trust\n")
    with pytest.raises(psycopg2.Error):
        weir.admin("RELOAD")
    assert question(weir, user, database) == NO_LINE
    rules(scene.directory, CONSOLE + "host all all all trust\n")
    assert weir.admin("RELOAD") == "RELOAD"
    assert question(weir, user, database) == TRUST


def test_unusable_line_refuses_after_an_online_restart(scene, postgres):
    weir = weir_with(scene, postgres, CONSOLE + "host all all all trust\n", kind=Replaced)
    client = weir.client("rival")
    path = rules(scene.directory, CONSOLE + "host p0 rival 127.0.0.1/33 reject\nhost all all all trust\n")
    weir.replace()
    weir.wait_log(r"WARNING %s:2: refuses every login" % path)
    assert question(weir, "rival", "p0") == NO_LINE
    assert question(weir, "app", "p0") == TRUST
    # an existing client is not authenticated again
    assert client.query("SELECT 1").value == "1"


def test_unix_user_of_the_daemon_is_accepted_when_all_are_refused(scene, postgres):
    weir = weir_with(scene, postgres, "include nosuch\n")
    assert question(weir, "admin", "pgbouncer") == NO_LINE
    assert question(weir, "app", "p0", unix=True) == NO_LINE
    rules(scene.directory, "host all all all trust\n")
    assert weir.client("pgbouncer", "pgbouncer", unix=True).query("RELOAD").tags == ["RELOAD"]
    assert question(weir, "app", "p0") == TRUST


def test_invalid_line_of_a_map_admits_no_client(scene, postgres):
    me = pwd.getpwuid(os.geteuid()).pw_name
    weir = weir_with(scene, postgres, "local p0 all peer map=m\n",
                     ident="m {0} +app\nm /( rival\nm {0} app x\nm {0} stats\n".format(me))
    for line in (1, 2, 3):
        weir.wait_log(r"WARNING \S+/ident.conf:%d: passed over: " % line)
    for user in ("app", "rival", "x"):
        assert question(weir, user, unix=True) == "unix socket login rejected"
    assert weir.client("stats", unix=True).query("SELECT 1").value == "1"


def test_blanks_around_commas(scene, postgres):
    """As PgBouncer has it: the first of these lines was read as one for rival from the address ", app"."""
    weir = weir_with(scene, postgres, 'host p0 rival , app 127.0.0.1/32 reject\nhost p0 ,"p1" stats ,"other" all password\n'
                     "host all all all trust\n")
    assert question(weir, "rival", "p0") == REJECTED
    assert question(weir, "app", "p0") == REJECTED
    assert question(weir, "app", "p1") == TRUST
    assert question(weir, "other", "p0") == CLEARTEXT
    assert question(weir, "stats", "p1") == CLEARTEXT


def test_an_anchor_of_the_c_library_is_a_plain_character(scene, postgres):
    """PostgreSQL reads a quote; regcomp() of the GNU C library reads the end of the name."""
    users = ("/\\'", "/\\`", "/\\<", '"/^a{,9}$"')
    weir = weir_with(scene, postgres, "".join("host p0 %s all trust\n" % user for user in users))
    assert question(weir, "app", "p0") == NO_LINE
    assert question(weir, "aa", "p0") == NO_LINE
    # the user is not known, but the line is its
    assert question(weir, "o'neil", "p0") == '"trust" authentication failed'


@pytest.mark.parametrize("where, text, line, reason", [
    ("hba.conf", BAD, 1, "no valid length"),
    ("hba.conf", "host all +admins all md5\n", 1, "is not supported"),
    ("hba.conf", "host all all all gss\n", 1, "is not supported"),
    ("hba.conf", "host all all all md5\ninclude nosuch\n", 2, "No such file"),
    ("ident.conf", "m a b\nm /( b\n", 2, "regular expression")])
def test_reload_with_an_invalid_line_keeps_the_old_rules(scene, postgres, where, text, line, reason):
    weir = weir_with(scene, postgres, "host p0 all all md5\n", ident="m a b\n")
    console = "host pgbouncer admin 127.0.0.1/32 trust\n"
    rules(scene.directory, text + (console if where == "hba.conf" else ""), where)
    with pytest.raises(psycopg2.Error) as refused:
        weir.admin("RELOAD")
    assert refused.value.pgcode == "F0000"
    assert "%s:%d: " % (where, line) in refused.value.diag.message_detail
    assert reason in refused.value.diag.message_detail
    weir.wait_log(r"ERROR \S+/%s:%d: .*%s" % (where, line, reason))
    assert question(weir, database="p0") == MD5
    assert question(weir, database="p1") == NO_LINE
    rules(scene.directory, "host p1 all all password\n" + console)
    rules(scene.directory, "m a b\n", "ident.conf")
    assert weir.admin("RELOAD") == "RELOAD"
    assert question(weir, database="p0") == NO_LINE
    assert question(weir, database="p1") == CLEARTEXT


def test_rules_are_removed_during_a_login(scene, postgres):
    """The login ends under the line that it began under, and the next one begins under the new rules."""
    weir = weir_with(scene, postgres, "host p0 all all password\n")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    rules(scene.directory, "host p0 all all reject\nhost pgbouncer admin all trust\n")
    weir.admin("RELOAD")
    assert question(weir) == REJECTED
    client.send(m.password("app-secret"))
    client.finish_login()
    assert pid_of(client)


def test_set_on_the_console(scene, postgres):
    weir = weir_with(scene, postgres, "host p0 all all md5\n")
    other = rules(scene.directory, "host p0 all all password\nhost pgbouncer admin all trust\n", "other.conf")
    bad = rules(scene.directory, BAD, "bad.conf")
    # a change of something else does not read the rules again
    rules(scene.directory, "host p0 all all reject\n")
    weir.admin("SET query_wait_timeout = 77")
    assert question(weir) == MD5
    weir.admin("SET auth_hba_file = '%s'" % other)
    assert question(weir) == CLEARTEXT
    with pytest.raises(psycopg2.Error) as refused:
        weir.admin("SET auth_hba_file = '%s'" % bad)
    assert "bad.conf:1: " in refused.value.diag.message_detail
    assert question(weir) == CLEARTEXT
    weir.admin("SET auth_type = 'trust'")
    assert question(weir) == TRUST
    weir.admin("SET auth_type = 'hba'")
    assert question(weir) == CLEARTEXT


def check(weir):
    done = subprocess.run([binary(), "--check", weir.ini_path], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_check_reads_the_files(scene, postgres):
    weir = weir_with(scene, postgres, "host p0 all all md5\n", ident="m a b\n")
    assert check(weir)[0] == 0
    rules(scene.directory, "host p0 all all md5\n" + BAD)
    status, said = check(weir)
    assert status == 1 and "hba.conf:2: \"10.0.0.0/33\" has no valid length" in said
    rules(scene.directory, "host all all all md5\ninclude nosuch\n")
    status, said = check(weir)
    assert status == 1 and "hba.conf:2: cannot include" in said
    rules(scene.directory, "local p0 all peer map=x\n")
    status, said = check(weir)
    assert status == 0 and "hba.conf:1: warning: lets nobody in" in said
    rules(scene.directory, "m a b c\n", "ident.conf")
    status, said = check(weir)
    assert status == 1 and "ident.conf:1: expected nothing behind the user" in said
