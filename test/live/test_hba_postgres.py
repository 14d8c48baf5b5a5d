"""
Random HBA and ident files: pgweir and PostgreSQL read the same files and give the same result for the same client.

Features that the version of PostgreSQL lacks (expressions for databases and users, and include, came with 16) are omitted from its files. The
databases do not exist: the later error shows which method admitted the client.
"""
import os
import pwd
import random
import signal
import socket
import struct
import tempfile

import pytest

from support import messages as m
from support.postgres import Postgres, major_version
from support.until import until
from support.wire import Peer

NAMES = ["d1", "d2", "app", "rival", '"all"', '"a b"', '"c""d"', '"sameuser"', '"replication"', '"+app"', 'd"1"', '""']
DATABASE_WORDS = NAMES + ["all", "sameuser", "replication"] * 2
USER_WORDS = NAMES + ["all"] * 4 + ["sameuser", "replication"]
# \' and \< are not anchors; matching is by bytes, so "é" counts as two
EXPRESSIONS = ["/^d", "/[12]$", '"/^(a|r)"', '"/^[a-c]( b|pp)$"', "/^\\w+$", "/l", "/\\'", "/\\<", '"/^a{,3}$"', "/^.{2}$",
               "/^..$", "/^\u00e9$", "/^[\u00e9]+$", '"/^(|d)[12]$"', "/^[[:alpha:]]+$", "/^[^[:cntrl:]]+$", "/\\y1",
               "/^(?:a|app)(?:p|pp)?$"]
ADDRESSES = ["all", "samehost", "samenet", "0.0.0.0/0", "127.0.0.0/8", "127.0.0.5/32", "127.0.0.4/30", "127.0.0.5/31",
             "127.0.0.5 255.255.255.255", "127.0.0.1\t255.0.0.255", "127.99.0.4 255.0.0.254", "::1/128", "::/0", "10.0.0.0/8",
             "127.0.0.1/32"]
TYPES = ["local", "local", "host", "host", "hostssl", "hostnossl", "hostnogssenc"]
METHODS = ["trust", "reject", "password", "scram-sha-256"]
CLIENT_NAMES = ["d1", "d2", "app", "rival", "all", "a b", 'c"d', "sameuser", "replication", "+app", "d", "\u00e9",
                "o'neil", "a<b"]


def words(chance, choices, new):
    count = chance.choice((1, 1, 1, 2, 3))
    if new:
        choices = choices + EXPRESSIONS
    return chance.choice((",", ", ")).join(chance.choice(choices) for _ in range(count))


def one_line(chance, new):
    kind = chance.choice(TYPES)
    fields = [kind, "@names" if chance.random() < 0.05 else words(chance, DATABASE_WORDS, new), words(chance, USER_WORDS, new)]
    if kind != "local":
        fields.append(chance.choice(ADDRESSES))
    fields.append(chance.choice(METHODS))
    line = ""
    for field in fields:
        line += field + chance.choice((" ", " ", "\t", "   ", " \\\n", "\\\n "))
    return line + chance.choice(("", "", "# comment", "#", "# \\\nlocal all all trust"))


def random_file(chance, new):
    lines = [one_line(chance, new) for _ in range(chance.randint(3, 10))]
    if new and chance.random() < 0.3:
        lines.insert(chance.randrange(len(lines)), chance.choice(("include more.conf", "include_if_exists nosuch", "include_dir more.d")))
    return "\n".join(lines) + "\n"


class Asked:
    """The client's address (None: a Unix socket) and its start-up packet."""

    def __init__(self, source, tls=False, **startup):
        self.source = source
        self.tls = tls
        self.startup = startup

    def __repr__(self):
        return "%s%s %r" % ("tls " if self.tls else "", self.source or "unix", self.startup)

    def of(self, port, directory, context=None):
        """The verdict of the server there: the first question, "trust", "reject" or "none"."""
        if self.source:
            sock = socket.create_connection(("127.0.0.1", port), source_address=(self.source, 0))
        else:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect("%s/.s.PGSQL.%d" % (directory, port))
        with Peer(sock) as peer:
            if self.tls:
                peer.send(m.SSL_REQUEST)
                assert peer.read_bytes(1) == b"S"
                peer.sock = context.wrap_socket(peer.sock)
            peer.send(m.startup(**self.startup))
            return read_verdict(peer.read())


def random_client(chance):
    source = chance.choice(("127.0.0.1", "127.0.0.5", "127.0.0.6", "127.1.0.1", None))
    startup = {"user": chance.choice(CLIENT_NAMES), "database": chance.choice(CLIENT_NAMES)}
    if chance.random() < 0.15:
        startup["replication"] = chance.choice(("true", "database"))
    return Asked(source, source is not None and chance.random() < 0.3, **startup)


def read_verdict(message):
    if message.type == "R":
        (code,) = struct.unpack_from("!I", message.body)
        return {0: "trust", 3: "password", 10: "scram-sha-256"}[code]
    text = m.read_error(message.body)["M"]
    if text in ("login rejected", "unix socket login rejected") or text.startswith(("pg_hba.conf rejects", "Peer auth")):
        return "reject"
    if text == "no authentication method is found" or text.startswith("no pg_hba.conf entry"):
        return "none"
    assert text == '"trust" authentication failed' or text.startswith("no such database"), text
    return "trust"


@pytest.fixture(name="server", scope="module")
def make_server(worker_directory, authority):
    server = Postgres(tempfile.mkdtemp(dir=worker_directory), authority)
    yield server
    server.stop()


def write_side_files(directory):
    os.makedirs(directory + "/more.d", exist_ok=True)
    for name, text in (("names", '"a b" d1\n# rival\nall_of_them'), ("more.conf", "host d1 all all password\n"),
                       ("more.d/b.conf", "host d1,d2 @../names all trust\n"), ("more.d/a.conf", "host d2 all all reject\n"),
                       ("more.d/c", "host all all all trust\n")):
        with open("%s/%s" % (directory, name), "w", encoding="utf-8") as f:
            f.write(text)


def bring(server, weir, files, marker):
    """
    Both read these files {their name in pgweir's directory: text}. PostgreSQL reads them later: the line for the database `marker`, new each time,
    shows when it has.
    """
    for name, text in files.items():
        with open(weir.path("../" + name), "w", encoding="utf-8") as f:
            f.write(text)
        with open("%s/pg_%s" % (server.data, name), "w", encoding="utf-8") as f:
            f.write(text)
    server.process.send_signal(signal.SIGHUP)
    weir.admin("RELOAD")
    asked = Asked("127.0.0.1", user="x", database=marker)
    until(lambda: asked.of(server.port, server.directory) == "reject", "PostgreSQL has read: %s" % files)


FIRST = "host pgbouncer admin 127.0.0.1/32 trust\n"


def marked(marker):
    return FIRST + "host %s all 127.0.0.1/32 reject\n" % marker


def hba_weir(scene, server, authority, **settings):
    with open(scene.directory + "/hba.conf", "w", encoding="utf-8") as f:
        f.write(FIRST)
    return scene.weir({"nosuch": server}, users={name: "x" for name in CLIENT_NAMES}, auth_type="hba",
                      auth_hba_file=scene.directory + "/hba.conf", client_tls_sslmode="allow",
                      client_tls_cert_file=authority.cert("server"), client_tls_key_file=authority.key("server"), **settings)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_line_as_postgres(scene, server, authority, seed):
    chance = random.Random("hba %d" % seed)
    context = authority.client_context(verify=False)
    weir = hba_weir(scene, server, authority)
    for directory in (scene.directory, server.data):
        write_side_files(directory)
    for turn in range(5):
        marker = "marker_%d_%d" % (seed, turn)
        text = marked(marker) + random_file(chance, major_version() >= 16)
        bring(server, weir, {"hba.conf": text}, marker)
        for _ in range(16):
            client = random_client(chance)
            wanted = client.of(server.port, server.directory, context)
            got = client.of(weir.port, weir.directory, context)
            assert got == wanted, "%r: %s, PostgreSQL says %s\n%s" % (client, got, wanted, text)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_map_as_postgres(scene, server, authority, seed):
    """The name of the user that runs the tests, with random maps."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    chance = random.Random("ident %d" % seed)
    systems = [me, '"%s"' % me, me.upper(), "/^" + me[0], "/^%s(.*)$" % me[:2], "/^(%s)$" % me, '"/^(.)(.*)$"', "/x{9}"]
    users = ["app", "rival", "d1", '"a b"', "\\1", "\\1p", '"d\\1"', me]
    grouped = [word for word in systems if "(" in word]
    with open(scene.directory + "/ident.conf", "w", encoding="utf-8") as f:
        f.write("")
    if major_version() >= 16:
        users += ["all", '"all"', "/^a", "/^\\w+$"]
    weir = hba_weir(scene, server, authority, auth_ident_file=scene.directory + "/ident.conf")
    for turn in range(8):
        marker = "marker_%d_%d" % (seed, turn)
        lines = []
        for _ in range(chance.randint(1, 4)):
            user = chance.choice(users)
            # a \1 for which there is nothing makes PostgreSQL read no further, and is refused when pgweir reads the file
            system = chance.choice(grouped if "\\1" in user else systems)
            lines.append("%s %s %s\n" % (chance.choice("mmmn"), system, user))
        files = {"hba.conf": marked(marker) + "local d1 all peer\nlocal all all peer map=m\n", "ident.conf": "".join(lines)}
        bring(server, weir, files, marker)
        for user in CLIENT_NAMES[:6] + [me, me[1:], me[2:] + "p", "d" + me, "p"]:
            client = Asked(None, user=user, database=chance.choice(("d1", "d2")))
            if user not in weir.users:
                weir.users[user] = "x"
                weir.write_users()
                weir.admin("RELOAD")
            wanted = client.of(server.port, server.directory)
            got = client.of(weir.port, weir.directory)
            assert got == wanted, "%r: %s, PostgreSQL says %s\n%s" % (client, got, wanted, files["ident.conf"])
