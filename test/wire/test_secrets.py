"""pgweir must not disclose passwords and keys: in the log, in SHOW, in errors, in --check and --print-config."""
import base64
import os
import re
import subprocess

import pytest

from support import messages as m
from support import scram
from support.pgweir import USERS, binary
from support.scenes import transactions
from support.wire import LoginRefused

PLAIN, DATABASE, LDAP, TYPED = "Plain-Sesame-1", "Database-Sesame-2", "Ldap-Sesame-3", "Typed-Sesame-4"
SCRAM = scram.make_secret("Scram-Sesame-5")
MD5 = "md5" + "0123456789abcdef" * 2
SECRETS = [PLAIN, DATABASE, LDAP, TYPED, "Scram-Sesame-5", MD5[3:], scram.b64(SCRAM.stored_key), scram.b64(SCRAM.server_key),
           SCRAM.stored_key.hex(), SCRAM.server_key.hex(), base64.b64encode(PLAIN.encode()).decode()] + list(USERS.values())
SHOWS = ["HELP", "CONFIG", "DATABASES", "POOLS", "PEERS", "PEER_POOLS", "CLIENTS", "SERVERS", "USERS", "VERSION", "STATE", "SOCKETS",
         "ACTIVE_SOCKETS", "LISTS", "MEM", "DNS_HOSTS", "DNS_ZONES", "STATS", "STATS_TOTALS", "STATS_AVERAGES", "TOTALS", "VERIFIERS",
         "REASONS", "ADDRESSES"]


def found_in(text):
    return [secret for secret in SECRETS if secret in text]


def start(scene, auth_type):
    fake = scene.mini(method="scram", password=DATABASE)
    return transactions(
        scene, {"p0": "host=127.0.0.1 port=%d password=%s" % (fake.port, DATABASE), "own": "host=127.0.0.1 port=%d" % fake.port},
        auth_type=auth_type, users={"plain": PLAIN, "stored": scram.secret_text(SCRAM), "hashed": MD5, "app": DATABASE},
        auth_ldap_options="ldapserver=127.0.0.1 ldapbasedn=dc=x ldapbinddn=cn=x ldapbindpasswd=%s" % LDAP,
        verbose=3, show_extra_columns=1, server_login_retry=0, log_stats=1)


def texts_of(messages):
    return "\n".join(message.body.decode("utf-8", "replace") for message in messages)


@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_secrets_are_not_disclosed(scene, auth_type):
    """Logins that succeed, fail and are broken off, over and over, with the log at its most talkative."""
    weir = start(scene, auth_type)
    heard = []
    for user, password in [("plain", PLAIN), ("stored", "Scram-Sesame-5"), ("app", DATABASE), ("plain", TYPED), ("nobody", TYPED),
                           ("stored", TYPED), ("hashed", TYPED)]:
        for database in ("p0", "own", "nowhere", "pgbouncer"):
            client = weir.connect()
            try:
                heard += client.login(user=user, database=database, password=password)
                client.send(m.query("fail " + database))
                heard += client.result().messages
            except LoginRefused as refusal:
                heard.append(m.Message("E", repr(refusal.fields).encode()))
            client.close()
    client = weir.connect()
    client.send(m.startup(user="plain", database="p0"))
    client.expect("R")
    client.send(m.password(TYPED)[:9])
    client.close()
    client = weir.connect()
    client.send(m.startup(user="plain", database="p0"))
    client.expect("R")
    client.send(m.query(TYPED))
    heard += client.drain()
    weir.barrier()
    assert not found_in(texts_of(heard))
    assert not found_in(weir.log() + weir.stderr())
    for user in ("admin", "stats"):
        console = weir.connect()
        console.login(user=user, database="pgbouncer", password=weir.users[user])
        for what in SHOWS + ["FDS"]:
            console.send(m.query("SHOW " + what))
            assert not found_in(texts_of(console.result().messages)), (user, what)
        console.send(m.query("SET auth_ldap_options = 'ldapserver=%s nonsense ldapbindpasswd=%s'" % ("x", LDAP)))
        assert not found_in(texts_of(console.result().messages)), user
    assert not found_in(weir.log())


@pytest.mark.parametrize("command", [
    "SETT x 'ldapbindpasswd=%s'", "SET auth_opt = '%s'", "SET auth_opt 'ldapbindpasswd=%s'", "SET auth_type = 'ldapbindpasswd=%s'",
    "RELOAD SET auth_ldap_options = 'ldapbindpasswd=%s'", "PAUSE; FOO %s", "'%s'", "SHOW pools %s"])
def test_no_secret_of_a_console_command_is_logged(scene, command):
    weir = start(scene, "md5")
    console = weir.client("admin", "pgbouncer")
    assert console.query(command % LDAP).errors
    console.send(m.parse(command % LDAP, "s"), m.sync())
    console.result()
    assert weir.log() and not found_in(weir.log())


def test_secrets_are_in_no_report(scene):
    """--check and --print-config, for a valid configuration and for one with an error in every line with a secret."""
    weir = start(scene, "md5")
    wrong = weir.path("wrong.ini")
    with open(weir.ini_path, encoding="utf-8") as f:
        text = f.read()
    with open(wrong, "w", encoding="utf-8") as f:
        f.write(re.sub(r"password=(\S+)", r"pasword=\1 port=x", text).replace("ldapbindpasswd", "ldapbindpassword"))
    with open(weir.path("userlist.txt"), "a", encoding="utf-8") as f:
        f.write('"half" "%s\n"%s\n' % (TYPED, PLAIN))
    for path in (weir.ini_path, wrong):
        for option in ("--check", "--print-config"):
            said = subprocess.run([binary(), option, path], capture_output=True, text=True, check=False, cwd=os.path.dirname(path))
            assert said.stdout + said.stderr
            assert not found_in(said.stdout + said.stderr), (option, path, said.stdout + said.stderr)
    weir.admin("RELOAD")
    assert not found_in(weir.log())
