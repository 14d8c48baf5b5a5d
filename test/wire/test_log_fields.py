"""
Texts that peers put into the log and into SHOW: they forge no line and no field, contain no terminal control characters, and are short. Plain names
are logged unchanged, because fail2ban, pgbadger and others parse the lines.
"""
import os
import re
import unicodedata

import pytest

from support import messages as m
from support.certs import Authority
from support.until import until
from support.wire import Client

FORGER = b"x@10.9.9.9:1 login failed: db=a user=b"
LONGEST = 63            # bytes of a name that PostgreSQL takes
FAILED_LOGIN = 5120     # bytes of log that a login which fails costs at most
LINE = 4096             # bytes of a line at most, with its end

HOSTILE = {
    "a field": FORGER,
    "a line": b"a\n2026-01-01 00:00:00.000 UTC [1] FATAL no",
    "a terminal's control": b"\x1b]0;owned\x07\x1b[2J",
    "C1 in a byte": b"\x9b31m\x85",
    "C1 in UTF-8": "\x9b31m\x85".encode(),
    "direction": "\u202egnp.exe\u2066".encode(),
    "a line of Unicode": "a\u2028b\u2029c".encode(),
    "invisible": "a\u200bp\u200dp\ufeff\u00ad".encode(),
    "no UTF-8": b"\xff\xfe\xe9\xc0\x80\xed\xa0\x80",
    "quotes": b"\" user=postgres \\\" '",
    "controls": b"\x01" * LONGEST,
    "controls, many": b"\x01" * 1000,
    "letters": b"n" * LONGEST,
    "letters, many": b"n" * 1000,
    "blanks": b" " * LONGEST,
}


def anybody(scene, target, **settings):
    """Lets in every user, to every database."""
    return scene.weir({"*": "host=127.0.0.1 port=%d user=app" % target.port}, auth_type="any", **settings)


def packet(user, database, *more):
    pairs = (b"user", user, b"database", database) + more
    return m.startup_raw(b"\0\3\0\0" + b"".join(part + b"\0" for part in pairs) + b"\0")


def raw_log(weir):
    with open(weir.log_path, "rb") as f:
        return f.read()


def costs(weir, *sent):
    """Returns the log lines of a client that sends this and is refused. The log is written before the connection is closed."""
    before = len(raw_log(weir))
    client = weir.connect()
    for part in sent:
        client.send(part)
    client.drain()
    return raw_log(weir)[before:]


def is_harmless(text):
    """Nothing of it is a control, changes the direction of writing, or is invisible."""
    return all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp") for c in text if c != "\n")


# --- fields


def test_plain_names_are_logged_unchanged(scene):
    """Word for word PgBouncer's."""
    weir = scene.weir(scene.mini(), auth_type="plain")
    costs(weir, packet(b"no-one", "caf\u00e9_2.x".encode()), m.password("wrong"))
    where = r"C-0x\w+: caf\u00e9_2\.x/no-one@127\.0\.0\.1:\d+"
    for line in (where + r" login attempt: db=caf\u00e9_2\.x user=no-one tls=no replication=no",
                 where + r" login failed: db=caf\u00e9_2\.x user=no-one",
                 where + r" closing because: password authentication failed \(age=\d+s\)",
                 where + r" pooler error: password authentication failed"):
        assert len(re.findall(r"\] (?:LOG|WARNING) %s$" % line, weir.log(), re.MULTILINE)) == 1, line


def test_a_name_forges_no_field(scene):
    weir = scene.weir(scene.mini(), auth_type="plain")
    text = costs(weir, packet(FORGER, FORGER), m.password("wrong")).decode()
    quoted = '"%s"' % FORGER.decode()
    assert text.count(quoted) == text.count(FORGER.decode()) > 6
    # the rest without the quoted names is pgweir's own text
    own = text.replace(quoted, "NAME")
    assert "10.9.9.9" not in own
    assert len(re.findall(r" C-0x\w+: NAME/NAME@127\.0\.0\.1:\d+ login failed: db=NAME user=NAME$", own, re.MULTILINE)) == 1


@pytest.mark.parametrize("name", [b"(nodb)", b"a/b", b"a=b", b"a:1", b"DOMAIN\\app", b"a,b", b"a b", b'a"b',
                                  "a\u00a0b".encode(), b"a\tb"])
def test_a_name_that_could_end_its_field_is_quoted(scene, name):
    weir = scene.weir(scene.mini())
    shown = name.decode().replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\x09")
    assert 'db="%s" user=app tls=' % shown in costs(weir, packet(b"app", name)).decode()


# --- bytes


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_name_sends_nothing_to_a_terminal(scene, hostile):
    """In the log and in SHOW, of a login that fails and of a client that is in."""
    name = HOSTILE[hostile]
    weir = anybody(scene, scene.mini(), pool_mode="transaction", verbose=3)
    client = weir.connect()
    client.send(packet(name, name, b"application_name", name))
    client.finish_login()
    costs(weir, packet(name, name, name + b"-", name))
    shown = [str(value) for what in ("CLIENTS", "SERVERS", "POOLS", "DATABASES", "USERS", "STATS", "SOCKETS", "FDS")
             for row in weir.show(what) for value in row.values()]
    assert any(name[:1].decode("latin-1") in value or "\\x" in value for value in shown)
    assert all(is_harmless(value) and "\n" not in value for value in shown), shown
    text = raw_log(weir).decode("utf-8")
    assert is_harmless(text)
    assert not [line for line in text.splitlines() if not re.match(r"\d{4}-\S+ \S+ UTC \[%d\] [A-Z]+ " % weir.pid, line)]


def test_server_errors_are_printable_and_short(scene):
    def refuse(session):
        session.send(m.error("\x1b[2J\x9b\u202e" + "\n" * 8000, "28000", "FATAL\x1b" * 100))
        session.close()

    weir = scene.weir(scene.fake(login=refuse), pool_mode="transaction")
    weir.connect().refused(user="app", database="p0")
    lines = [line for line in raw_log(weir).splitlines() if b"\\x1b[2J" in line]
    assert len(lines) >= 3
    assert max(map(len, lines)) < 1024
    assert is_harmless(raw_log(weir).decode("utf-8"))


def test_log_lines_have_a_maximum_length(scene):
    """A long command of an administrator is truncated, so that no line exceeds the atomic size of a pipe."""
    weir = scene.weir(scene.mini())
    console = weir.client(user="admin", database="pgbouncer")
    assert console.query("RELOAD" + "\x01" * 60000).errors
    assert console.query("SET default_pool_size = '%s'" % ("\x01" * 60000)).errors
    assert console.query("PAUSE \"%s\"" % ("\x01" * 60000)).errors
    assert max(map(len, raw_log(weir).splitlines())) < LINE


# --- how much


def wrong_password(auth_type):
    def provoke(scene, name):
        weir = scene.weir(scene.mini(), auth_type=auth_type)
        first = m.password("x" * 900)
        if auth_type == "scram-sha-256":
            first = m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=" + b"x" * 1000)
        return costs(weir, packet(name, b"p0"), first, m.sasl_response(b"c=biws,r=y,p=eA=="))
    return provoke


def no_database(scene, name):
    return costs(scene.weir(scene.mini()), packet(name, name))


def no_database_with_rules(scene, name):
    weir = scene.weir(scene.mini(), auth_type="hba", auth_hba_file="", allow="not started", wait=False)
    weir.wait_exit()
    with open(weir.path("hba"), "w", encoding="ascii") as f:
        f.write("local all all trust\n")
    weir.settings["auth_hba_file"] = weir.path("hba")
    weir.write_ini()
    weir.start()
    return costs(weir, packet(name, name))


def no_user(scene, name):
    return costs(scene.weir(scene.mini()), packet(name, b"p0"))


def no_parameter(scene, name):
    return costs(scene.weir(scene.mini()), packet(name, name, name, name))


def no_option(scene, name):
    option = b"".join(b"\\" + name[at:at + 1] for at in range(len(name)))
    return costs(scene.weir(scene.mini()), packet(name, name, b"options", b"-c " + option + b"=1"))


def disabled(scene, name):
    weir = anybody(scene, scene.mini())
    client = weir.connect()
    client.send(packet(name, name))
    client.finish_login()
    console = weir.client(user="admin", database="pgbouncer")
    console.send(m.message("Q", b'DISABLE "' + name.replace(b'"', b'""') + b'"\0'))
    console.result()
    return costs(weir, packet(name, name))


def refused_by_server(scene, name):
    def refuse(session):
        session.send(m.message("E", b"SFATAL\0VFATAL\0C3D000\0Mdatabase \"" + name + b"\" does not exist\0\0"))
        session.close()

    weir = anybody(scene, scene.fake(login=refuse))
    return costs(weir, packet(name, name))


def cached_error(scene, name):
    def refuse(session):
        session.send(m.message("E", b"SFATAL\0VFATAL\0C3D000\0Mdatabase \"" + name + b"\" does not exist\0\0"))
        session.close()

    weir = anybody(scene, scene.fake(login=refuse), server_login_retry=60, server_down="fail")
    costs(weir, packet(name, name))
    return costs(weir, packet(name, name))


def pooler_is_full(scene, name):
    weir = scene.weir(scene.mini(), max_client_conn=1, pool_mode="transaction")
    weir.client()
    return costs(weir, packet(name, name))


def replication(scene, name):
    return costs(scene.weir(scene.mini()), packet(name, name, b"replication", name))


def made_to_wait(scene, name):
    """The delayed refusal of a client with repeated failures, which is sent when the pooler ends."""
    weir = scene.weir(scene.mini(), auth_type="plain", login_failure_delay=60)
    costs(weir, packet(name, b"p0"), m.password("x"))
    costs(weir, packet(name, b"p0"), m.password("x"))
    before = len(raw_log(weir))
    client = weir.connect()
    client.send(packet(name, b"p0"))
    client.expect("R")
    client.send(m.password("x"))
    until(lambda: b"its refusal waits" in raw_log(weir)[before:], "it waits")
    weir.admin("SET login_failure_delay = 0")
    client.close()
    until(lambda: not [row for row in weir.show("SOCKETS") if row["state"] in ("login", "auth")], "it has left")
    return raw_log(weir)[before:]


def no_packet(scene, name):
    return costs(scene.weir(scene.mini()), name.ljust(8, b"\xff"))


def no_tls(scene, name):
    return costs(scene.weir(scene.mini()), m.SSL_REQUEST, b"\x16\x03\x01" + name)


def looked_up_in_vain(scene, name):
    """The most that one login writes: over TLS and IPv6, with a look-up in a database that the server does not have, three times."""
    def refuse(session):
        session.send(m.message("E", b"SFATAL\0VFATAL\0C3D000\0Mdatabase \"" + name + b"\" does not exist\0\0"))
        session.close()

    authority = Authority(scene.directory)
    rules = os.path.join(scene.directory, "rules")
    with open(rules, "w", encoding="ascii") as f:
        f.write("hostssl all all all scram-sha-256\n")
    weir = scene.weir({"*": scene.fake(login=refuse)}, auth_type="hba", auth_hba_file=rules, auth_user="asker", users={"asker": "x"},
                      server_login_retry=0, listen_addr="::1", client_tls_sslmode="require", client_tls_key_file=authority.key("server"),
                      client_tls_cert_file=authority.cert("server"))
    for _ in range(3):
        before = len(raw_log(weir))
        client = Client(weir.port, "::1")
        client.start_tls(authority.client_context())
        client.send(packet(name, name))
        client.expect("R")
        client.send(m.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=x"), m.sasl_response(b"c=biws,r=y,p=eA=="))
        client.drain()
        client.close()
    until(lambda: b"closing because" in raw_log(weir)[before:].splitlines()[-1] or b"pooler error" in raw_log(weir)[before:], "it has ended")
    return raw_log(weir)[before:]


FAILURES = {
    "plain": wrong_password("plain"), "md5": wrong_password("md5"), "scram": wrong_password("scram-sha-256"),
    "no database": no_database, "no rule": no_database_with_rules, "no user": no_user, "parameter": no_parameter,
    "option": no_option, "disabled": disabled, "server": refused_by_server, "cached": cached_error, "full": pooler_is_full,
    "replication": replication, "waits": made_to_wait, "no packet": no_packet, "no TLS": no_tls,
    "looked up": looked_up_in_vain,
}


@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("hostile", ["a field", "controls", "controls, many", "no UTF-8", "letters", "letters, many", "quotes"])
def test_failed_login_logs_little(scene, fail, hostile):
    text = FAILURES[fail](scene, HOSTILE[hostile])
    assert text.count(b"\n") < 12
    assert len(text) <= FAILED_LOGIN, text
    assert is_harmless(text.decode("utf-8"))
