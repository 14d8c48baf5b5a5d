"""Messages of --check and of the start about unusable secrets, and about an auth_user without a secret."""
import subprocess

import pytest

from support.pgweir import binary
from support.ports import free_port
from support.until import until

MD5 = "md5" + "0123456789abcdef" * 2
SCRAM = ("SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")


def warnings(weir):
    done = subprocess.run([binary(), "--check", weir.ini_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = [line.partition("warning: ")[2] for line in done.stdout.splitlines() if "warning: " in line]
    assert all(text in weir.log() for text in found)
    assert not [text for text in found if MD5 in text or "SCRAM-SHA-256$" in text]
    return found


@pytest.mark.parametrize("users, settings, wanted", [
    ({"old": MD5, "older": MD5}, {"auth_type": "scram-sha-256"},
     ['2 secrets, the first of user "%s": an MD5 secret, with which no login is possible while auth_type is scram-sha-256']),
    ({"old": MD5}, {"auth_type": "md5"}, []),
    ({"new": SCRAM, "old": "md5rain"}, {"auth_type": "scram-sha-256"}, []),
    ({"cut": SCRAM[:60]}, {}, ['1 secret, the first of user "cut": a SCRAM secret that cannot be used, with which no login is possible']),
    ({"upper": MD5.upper().replace("MD5", "md5")}, {}, ['1 secret, the first of user "upper": it looks like an MD5 secret and is none, '
                                                        'so it counts as a password']),
    ({}, {"auth_user": "asker"}, ['"auth_user" is "asker", which has no secret in auth_file: the look-up of users fails, unless servers ask '
                                  'it for none']),
    ({"asker": "x"}, {"auth_user": "asker"}, []),
    ({}, {"auth_query": "SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = $1"},
     ['"auth_query" has no effect without "auth_user"']),
])
def test_warnings(scene, users, settings, wanted):
    weir = scene.weir("host=127.0.0.1 port=%d" % free_port(), users=users, **settings)
    first = next(iter(users), "")
    found = [text for text in warnings(weir) if "without a schema" not in text]
    assert [text.replace('user "older"', 'user "old"') for text in found] == [text.replace("%s", first) for text in wanted]


def test_a_list_that_is_read_again(scene):
    """Without a RELOAD, when a client logs in."""
    weir = scene.weir("host=127.0.0.1 port=%d" % free_port(), auth_type="scram-sha-256", allow="authentication failed|cannot be used")
    weir.users["cut"] = SCRAM[:60]
    weir.write_users()

    def is_told():
        weir.connect().refused(user="cut", database="p0", password="x")
        return 'user "cut": a SCRAM secret that cannot be used' in weir.log()
    until(is_told, "the warning")


def test_database_password_applies_to_auth_user(scene):
    weir = scene.weir("host=127.0.0.1 port=%d user=asker password=x" % free_port(), auth_user="asker")
    assert not [text for text in warnings(weir) if "auth_user" in text]


def test_auth_query_of_a_database_without_auth_user(scene):
    weir = scene.weir("host=127.0.0.1 port=%d auth_query='SELECT 1, $1'" % free_port())
    assert [text for text in warnings(weir) if "no effect" in text] == ['database "p0": "auth_query" has no effect without "auth_user"']
