"""
Scenes of prepared statements: the same messages are sent to pgweir and directly to a fake server, and both must answer alike, message by message.
Afterwards the messages that pgweir sent to its server are checked.
"""
import re

from . import messages as m
from .wire import Client, Result

HEAD = r"PGWEIR_[a-z2-7]{16}_"      # of the names that one server connection knows statements by
SHARED = re.compile(HEAD + r"\d+")
MODES = ("transaction", "statement")
ONE, TWO = "echo one", "echo two"
P1, P2 = m.parse(ONE, "s1"), m.parse(TWO, "s2")
C1, C2 = m.close("S", "s1"), m.close("S", "s2")
FAIL = m.run("fail on purpose")
FORGET = ("DEALLOCATE ALL", "DISCARD ALL")
LONG_TEXT = 70000               # more than any buffer of pgweir's


def plain(message):
    """Returns a message in comparable form: for an error only the fields that PostgreSQL guarantees."""
    if message.type != "E":
        return message.type, bytes(message.body)
    fields = m.read_error(message.body)
    return "E", fields.get("S"), fields.get("C"), fields.get("M")


def use(name, portal="", values=()):
    """Bind and Execute of a statement that was prepared before."""
    return m.bind(name, portal, values) + m.execute(portal)


def check_names(fake):
    """Every name at the server is pgweir's own, and was never another statement's: {name: (text, types)}."""
    meaning = {}
    for _, _, name, sql, types in (entry for entry in fake.statements if entry[0] == "P"):
        assert re.match(HEAD, name), name
        if SHARED.fullmatch(name):
            assert meaning.setdefault(name, (sql, types)) == (sql, types), "%s is two statements" % name
    return meaning


def held(session):
    """How many statements that clients share a played server has."""
    return sum(1 for name in session.statements if SHARED.fullmatch(name))


class Both:
    """A client that talks to pgweir, and its double that talks to a server of its own."""

    def __init__(self, client, double):
        self.client = client
        self.double = double

    def send(self, *parts):
        for one in (self.client, self.double):
            one.send(*parts)

    def heard(self, kind="Z"):
        """Returns the messages of both up to the first message of this type."""
        want = self.double.read_until(kind)
        got = self.client.read_until(kind)
        assert list(map(plain, got)) == list(map(plain, want)), "got %r, want %r" % (
            list(map(plain, got)), list(map(plain, want)))
        return Result(got)

    def ask(self, *parts):
        """One exchange with one ReadyForQuery."""
        self.send(*parts)
        return self.heard()

    def ask_all(self, count, *parts):
        """One write with this many answers."""
        self.send(*parts)
        return [self.heard() for _ in range(count)]

    def quit(self):
        for one in (self.client, self.double):
            one.quit()


class Stage:
    """pgweir before a played server, and a second one for the doubles."""

    def __init__(self, scene, pool_size=1, pool_mode="transaction", byte_by_byte=False, **settings):
        self.fake = scene.mini(byte_by_byte)
        self.truth = scene.mini()
        self.more = 0
        self.weir = scene.weir(self.fake, pool_mode=pool_mode, default_pool_size=pool_size, **settings)

    def both(self):
        double = Client(self.truth.port)
        double.login(user="app", database="p0")
        return Both(self.weir.client(), double)

    def client(self):
        return self.weir.client()

    def shape(self, name, column):
        self.fake.shapes[name] = self.truth.shapes[name] = column

    # --- messages to the server about named prepared statements

    def log(self, kinds="PBDC", pid=None):
        return [entry for entry in self.fake.statements if entry[0] in kinds and pid in (None, entry[1])]

    def parsed(self, pid=None):
        """Texts of the Parse messages, in order."""
        return [entry[3] for entry in self.log("P", pid)]

    def kinds(self, pid=None):
        return "".join(entry[0] for entry in self.log("PBDC", pid))

    def name_of(self, sql):
        """The one name under which the server knows this text."""
        (name,) = {entry[2] for entry in self.log("P") if entry[3] == sql}
        return name

    def check_names(self):
        return check_names(self.fake)

    def server_holds(self, session=None):
        """How many statements that clients share a server has now."""
        return held(session or self.fake.started[-1])

    def check_bound(self, most):
        """Prepares one statement more than a server may have, so that other statements are closed."""
        self.more += 1
        client = self.client()
        client.send(m.parse("echo one more %d" % self.more, "more"), m.sync())
        client.expect_all("1Z")
        server = self.fake.session_of(self.log("P")[-1][1])
        client.quit()
        assert self.server_holds(server) <= most

    def columns(self, what="CLIENTS"):
        """prepared_statements of SHOW, for database p0."""
        return sorted(row["prepared_statements"] for row in self.weir.show(what) if row["database"] == "p0")


def occupy(stage, count=1):
    """Transactions of other clients that occupy this many servers: the next request goes to another server."""
    others = [stage.client() for _ in range(count)]
    for other in others:
        assert other.query("BEGIN").status == "T"
    return others


def let_go(others):
    for other in others:
        assert other.query("COMMIT").status == "I"
