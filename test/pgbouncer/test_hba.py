"""Lines of an HBA file that PgBouncer can use: the same logins, the same verdicts."""
import struct

import pytest

from support import messages as m

# the line after the tested one: it admits each login that the tested line does not match
OPEN = "host all all 0.0.0.0/0 trust\n"
TRUST, CLEARTEXT, MD5, SASL = 0, 3, 5, 10
REJECTED = "login rejected"

# (line, the logins that the last line does not let in, and the question or error for each). u1, u2: users; p0, p1, u1: databases.
ALL = [(user, database) for user in ("u1", "u2") for database in ("p0", "p1", "u1")]
U1 = [login for login in ALL if login[0] == "u1"]
LINES = {
    "blanks around a comma": ("host all u1 , u2 127.0.0.1/32 reject", ALL),
    "blank before a comma": ("host all u1 ,u2 127.0.0.1/32 reject", ALL),
    "blank behind a comma": ("host all u1, u2 127.0.0.1/32 reject", ALL),
    "quoted names": ('host all "u1" , "u2" 127.0.0.1/32 reject', ALL),
    "quoted names without blanks": ('host all "u1","u2" 127.0.0.1/32 reject', ALL),
    "databases": ("host p0 , p1 u1 127.0.0.1/32 reject", [("u1", "p0"), ("u1", "p1")]),
    "quoted databases": ('host "p0" ,"p1" u1 127.0.0.1/32 reject', [("u1", "p0"), ("u1", "p1")]),
    "a list with all": ("host nosuch,all u1 all reject", U1),
    "any address": ("host all u1 0.0.0.0/0 reject", U1),
    "a mask": ("host all u1 127.0.0.0 255.0.0.0 reject", U1),
    "zeros in the length": ("host all u1 127.0.0.1/032 reject", U1),
    "a net": ("host all u1 127.0.0.0/8 reject", U1),
    "another net": ("host all u1 10.0.0.0/8 reject", []),
    "IPv6": ("host all u1 ::/0 reject", []),
    "sameuser": ("host sameuser u1 all reject", [("u1", "u1")]),
    "replication": ("host replication u1 all reject", []),
    "all in quotes": ('host "all" u1 all reject', []),
    "capitals of a name": ("host all U1 all reject", []),
    "capitals of a keyword": ("host ALL u1 all reject", []),
    "a comment": ("host all u1 127.0.0.1/32 reject # comment", U1),
    "a comment without a blank": ("host all u1 127.0.0.1/32 reject# comment", U1),
    "tabs": ("host\tall\tu1\tall\treject", U1),
    "the end of a line of Windows": ("host all u1 all reject\r", U1),
    "Unix sockets": ("local all u1 reject", []),
    "TLS": ("hostssl all u1 127.0.0.1/32 reject", []),
    "no TLS": ("hostnossl all u1 127.0.0.1/32 reject", U1),
    "peer": ("host all u1 127.0.0.1/32 peer", dict.fromkeys(U1, "unix socket login rejected")),
    "cert": ("host all u1 127.0.0.1/32 cert", dict.fromkeys(U1, "certificate authentication failed")),
    "scram-sha-256": ("host all u1 127.0.0.1/32 scram-sha-256", dict.fromkeys(U1, SASL)),
    "md5": ("host all u1 127.0.0.1/32 md5", dict.fromkeys(U1, MD5)),
    "password": ("host all u1 127.0.0.1/32 password", dict.fromkeys(U1, CLEARTEXT)),
}


def verdict(weir, user, database):
    """The code of the first question, or the text of the refusal."""
    client = weir.connect()
    client.send(m.startup(user=user, database=database))
    got = client.read()
    return struct.unpack_from("!I", got.body)[0] if got.type == "R" else m.read_error(got.body)["M"]


@pytest.mark.parametrize("case", LINES)
def test_line(pooler, scene, case):
    line, wanted = LINES[case]
    with open(scene.directory + "/hba.conf", "w", encoding="ascii", newline="") as f:
        f.write(line + "\n" + OPEN)
    fake = scene.mini()
    weir = pooler(dict.fromkeys(("p0", "p1", "u1"), fake), users={"u1": "x", "u2": "x"}, auth_type="hba",
                  auth_hba_file=scene.directory + "/hba.conf")
    wanted = wanted if isinstance(wanted, dict) else dict.fromkeys(wanted, REJECTED)
    assert {login: verdict(weir, *login) for login in ALL} == {login: wanted.get(login, TRUST) for login in ALL}
