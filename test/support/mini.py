"""
Enough of a PostgreSQL to answer on its own: MiniBackend(session).run() serves one connection.

Every answer names its question: a query that is none of the words below returns its own text as its only row, so
that a reply in the wrong hands is seen at once. Extended queries follow the rules of the real server: replies are
held back until Sync or Flush, after an error everything up to Sync is skipped, portals suspend. What came is kept:
session.heard has the types of a connection's messages, fake.queries (pid, text) of every statement that ran.

    BEGIN COMMIT ROLLBACK   as usual, with the transaction status
    fail TEXT               an error
    rows N SIZE             N rows of SIZE bytes (simple queries only)
    series N                N rows, in portions if Execute has a row limit (extended queries only)
    wait                    nothing until a cancel comes (error 57014) or the scene calls fake.release()
    copyin / copyout N      COPY in either direction
    notify CHANNEL          a NotificationResponse to this connection
    die                     half a DataRow, then the connection ends
"""
import re
import struct

from . import messages as m
from .wire import Closed

SET_CONFIG = re.compile(r"set_config\('([^']*)',\s*E?'((?:[^']|'')*)'")
CANCELLED = m.error("canceling statement due to user request", "57014")


class QueryError(Exception):
    def __init__(self, packet):
        super().__init__()
        self.packet = packet


class MiniBackend:
    def __init__(self, session, byte_by_byte=False):
        self.session = session
        self.put = session.dribble if byte_by_byte else session.send
        self.out = []
        self.status = "I"
        self.statements = {}
        self.portals = {}
        session.heard = []

    # --- the loop

    def run(self):
        try:
            while self._step(self.session.read()):
                pass
        finally:
            self.session.close()

    def _step(self, got):
        self.session.heard.append(got.type)
        if got.type == "X":
            return False
        handler = getattr(self, "_on_" + got.type, None)
        if not handler:
            self.session.send(m.error("unknown message %r" % got.type, "08P01", "FATAL"))
            return False
        try:
            handler(got.body)
        except (IndexError, ValueError, struct.error):
            self.session.fake.malformed.append(got)
            self.session.send(m.error("invalid message format", "08P01", "FATAL"))
            return False
        except QueryError as error:
            self._failed(error.packet)
            if got.type in "QF":
                self._ready()
            else:
                self._skip_to_sync()
        return True

    def _failed(self, packet):
        self.out.append(packet)
        if self.status == "T":
            self.status = "E"
        self.portals.clear()

    def _skip_to_sync(self):
        while True:
            got = self.session.read()
            self.session.heard.append(got.type)
            if got.type == "X":
                raise Closed("terminated")
            if got.type == "S":
                self._ready()
                return
            if got.type == "H":
                self._flush()

    def _flush(self):
        if self.out:
            self.put(*self.out)
            self.out = []

    def _ready(self):
        self.out.append(m.ready(self.status))
        self._flush()

    # --- simple queries

    def _on_Q(self, body):
        sql = m.read_cstrings(body)[0]
        parts = [part.strip() for part in sql.split(";") if part.strip()]
        if not parts:
            self.out.append(m.empty_query_response())
        for part in parts:
            self._run(part, described=False)
        self._ready()

    def _run(self, sql, described, values=()):
        """Rows, copy or whatever the text asks for. described: the RowDescription went out already."""
        self.session.cancelled = False
        self.session.fake.queries.append((self.session.pid, sql))
        self.session.fake.happened()
        word, _, rest = sql.partition(" ")
        command = getattr(self, "_do_" + word.lower(), None)
        if self.status == "E" and word.lower() not in ("commit", "rollback"):
            raise QueryError(m.error("current transaction is aborted", "25P02"))
        if command:
            command(rest)
            return
        value = b",".join([sql.encode()] + [v if v is not None else b"NULL" for v in values])
        if not described:
            self.out.append(m.row_description("v"))
        self.out += [m.data_row(value), m.command_complete("SELECT 1")]

    def _do_begin(self, _):
        self.status = "T"
        self.out.append(m.command_complete("BEGIN"))

    def _do_commit(self, _):
        tag = "ROLLBACK" if self.status == "E" else "COMMIT"
        self.status = "I"
        self.portals.clear()
        self.out.append(m.command_complete(tag))

    def _do_rollback(self, _):
        self.status = "I"
        self.portals.clear()
        self.out.append(m.command_complete("ROLLBACK"))

    def _do_fail(self, text):
        raise QueryError(m.error(text or "failed", "22012"))

    def _do_discard(self, what):
        self.statements.clear()
        self.out.append(m.command_complete("DISCARD " + what))

    def _do_set(self, assignment):
        name, _, value = assignment.replace("=", " ").replace(" to ", " ").replace(" TO ", " ").partition(" ")
        self._set_parameter(name, value.strip().strip("'"))
        self.out.append(m.command_complete("SET"))

    def _do_select(self, sql):
        """Only set_config() is understood; anything else is returned as it is."""
        pairs = SET_CONFIG.findall(sql)
        for name, value in pairs:
            self._set_parameter(name, value.replace("''", "'"))
        text = ",".join(value for _, value in pairs) if pairs else "SELECT " + sql
        self.out.append(m.rows(text))

    def _set_parameter(self, name, value):
        session, fake = self.session, self.session.fake
        if fake.slow_set:
            fake.until(lambda: session.cancelled or fake.released, "the end of a SET")
            if session.cancelled:
                raise QueryError(CANCELLED)
        if value in fake.refused_values:
            raise QueryError(m.error('invalid value for parameter "%s": "%s"' % (name, value), "22023"))
        known = {key.lower(): key for key in session.parameters}
        if name.lower() in known and session.parameters[known[name.lower()]] != value:
            session.parameters[known[name.lower()]] = value
            self.out.append(m.parameter_status(known[name.lower()], value))

    def _do_rows(self, rest):
        count, size = (int(part) for part in rest.split())
        row = m.data_row(b"x" * size)
        self.out.append(m.row_description("v"))
        self._flush()
        chunk = row * max(1, 65536 // len(row))
        per_chunk, left = len(chunk) // len(row), count
        while left >= per_chunk:
            self.put(chunk)
            left -= per_chunk
        self.out += [row * left, m.command_complete("SELECT %d" % count)]

    def _do_wait(self, _):
        """A cancel that came before the query means nothing to it, as with the real server."""
        self._flush()
        session, fake = self.session, self.session.fake
        fake.until(lambda: session.cancelled or fake.released, "the end of a wait")
        if session.cancelled:
            session.cancelled = False
            raise QueryError(CANCELLED)
        self.out += [m.row_description("v"), m.data_row("waited"), m.command_complete("SELECT 1")]

    def _do_notify(self, channel):
        self.out += [m.notification(self.session.pid, channel), m.command_complete("NOTIFY")]

    def _do_copyin(self, _):
        self.out.append(m.copy_in_response())
        self._flush()
        lines = 0
        while True:
            got = self.session.read()
            if got.type == "d":
                lines += 1
                if got.body.startswith(b"bad"):
                    raise QueryError(m.error("duplicate key value", "23505"))
            elif got.type == "c":
                self.out.append(m.command_complete("COPY %d" % lines))
                return
            elif got.type == "f":
                raise QueryError(m.error("COPY from stdin failed", "57014"))
            elif got.type == "X":
                raise Closed("terminated in COPY")
            elif got.type not in "SH":
                raise QueryError(m.error("unexpected message during COPY", "08P01"))

    def _do_copyout(self, count):
        lines = [m.copy_data(b"line %d\n" % n) for n in range(int(count))]
        self.out += [m.copy_out_response(), *lines, m.copy_done(), m.command_complete("COPY " + count)]

    def _do_die(self, _):
        half = m.data_row("never whole")[:-4]
        self.out += [m.row_description("v"), half]
        self._flush()
        raise Closed("died as told")

    # --- extended queries

    def _on_P(self, body):
        name, sql = m.read_cstrings(body)[:2]
        if name and name in self.statements:
            raise QueryError(m.error('prepared statement "%s" already exists' % name, "42P05"))
        if sql.startswith("badparse"):
            raise QueryError(m.error("syntax error", "42601"))
        self.statements[name] = sql
        self.out.append(m.parse_complete())

    def _on_B(self, body):
        portal, _, rest = body.partition(b"\0")
        statement, _, rest = rest.partition(b"\0")
        sql = self.statements.get(statement.decode())
        if sql is None:
            raise QueryError(m.error('prepared statement "%s" does not exist' % statement.decode(), "26000"))
        formats = int.from_bytes(rest[:2], "big")
        values = m.read_row(rest[2 + 2 * formats:])
        self.portals[portal.decode()] = [sql, values, None]
        self.out.append(m.bind_complete())

    def _on_D(self, body):
        kind, name = body[:1], m.read_cstrings(body[1:])[0]
        sql = self.statements.get(name) if kind == b"S" else self.portals.get(name, (None,))[0]
        if sql is None:
            raise QueryError(m.error("nothing of that name to describe", "26000"))
        if kind == b"S":
            self.out.append(m.parameter_description())
        has_rows = not hasattr(self, "_do_" + sql.partition(" ")[0].lower())
        self.out.append(m.row_description("v") if has_rows else m.no_data())

    def _on_E(self, body):
        name = m.read_cstrings(body)[0]
        limit = int.from_bytes(body[-4:], "big")
        if name not in self.portals:
            raise QueryError(m.error('portal "%s" does not exist' % name, "34000"))
        portal = self.portals[name]
        if portal[0].startswith("series "):
            self._series(portal, limit)
        else:
            self._run(portal[0], described=True, values=portal[1])

    def _series(self, portal, limit):
        total, start = int(portal[0].split()[1]), portal[2] or 0
        end = min(total, start + limit) if limit else total
        self.out += [m.data_row("%s %d" % (portal[0], n)) for n in range(start, end)]
        portal[2] = end
        self.out.append(m.portal_suspended() if end < total else m.command_complete("SELECT %d" % (end - start)))

    def _on_C(self, body):
        (self.statements if body[:1] == b"S" else self.portals).pop(m.read_cstrings(body[1:])[0], None)
        self.out.append(m.close_complete())

    def _on_S(self, _):
        if self.status == "I":
            self.portals.clear()
        self._ready()

    def _on_H(self, _):
        self._flush()

    def _on_F(self, body):
        if self.status == "E":
            raise QueryError(m.error("current transaction is aborted", "25P02"))
        self.out.append(m.function_call_response(body))
        self._ready()

    def _on_d(self, _):
        """Data of a COPY that failed: ignored, as are its CopyDone and CopyFail."""

    _on_c = _on_f = _on_d


def serve_mini(fake, byte_by_byte=False):
    """Makes a FakePostgres answer every connection on its own."""
    fake.queries = []
    fake.malformed = []                 # messages whose body made no sense
    fake.slow_set = False               # a SET takes until it is cancelled or released
    fake.refused_values = set()         # a SET to one of these fails

    def serve(session):
        MiniBackend(session, byte_by_byte).run()

    fake.serve = serve
