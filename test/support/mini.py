"""
A minimal PostgreSQL that answers by itself: MiniBackend(session).run() serves one connection.

Every answer names its query: a query other than the commands below returns its own text as its only row, so that a misdirected answer is noticed at
once. Extended queries follow the rules of the real server: answers are held back until Sync or Flush, after an error everything up to Sync is
skipped, portals suspend. Received messages are recorded: session.heard has the types of a connection's messages, fake.queries (pid, text) of every
executed statement, and fake.statements the operations on named prepared statements: ("P", pid, name, text, types), ("B", pid, name), ("D", pid, name)
and ("C", pid, name), without skipped messages.

- BEGIN COMMIT ROLLBACK: as usual, with the transaction status
- fail TEXT: an error
- rows N SIZE: N rows of SIZE bytes (simple queries only)
- series N: N rows, in portions if Execute has a row limit (extended queries only)
- wait: nothing until a cancel request comes (error 57014) or the scene calls fake.release()
- copyin / copyout N: COPY in either direction
- ALTER TABLE: completes with its tag
- define TAG: completes with TAG
- insert TEXT: a row that is in fake.kept when its transaction, explicit or not, is committed
- shape NAME: one column named fake.shapes[NAME], which may not change while a prepared statement exists (extended queries only)
- DEALLOCATE, DISCARD: of prepared statements
- notify CHANNEL: a NotificationResponse to this connection
- die: half a DataRow, then the connection ends

Bytes that are not UTF-8 are refused when the message is read, before any effect, and before the unnamed statement is dropped.
"""
import itertools
import re
import struct

from . import messages as m
from .wire import Closed

SET_CONFIG = re.compile(r"set_config\('([^']*)',\s*E?'((?:[^']|'')*)'")
STARTS = itertools.count(1000000)
CANCELLED = m.error("canceling statement due to user request", "57014")
NOT_UTF8 = m.error('invalid byte sequence for encoding "UTF8"', "22021")


class QueryError(Exception):
    def __init__(self, packet):
        super().__init__()
        self.packet = packet


class Statement:
    """A statement created by Parse."""

    def __init__(self, sql, types, shape):
        self.sql = sql
        self.types = types
        self.shape = shape

    def ends_transaction(self):
        return self.sql.lower() in ("commit", "rollback")

    def has_rows(self):
        word = self.sql.partition(" ")[0].lower()
        return word in ("shape", "fail") or not hasattr(MiniBackend, "_do_" + word)


class MiniBackend:
    def __init__(self, session, byte_by_byte=False):
        self.session = session
        self.put = session.dribble if byte_by_byte else session.send
        self.out = []
        self.status = "I"
        self.statements = session.statements = {}       # name: Statement
        self.portals = {}
        self.unsaved = []               # rows of the transaction
        session.heard = []
        session.most_statements = 0     # with names, at any time

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
        except UnicodeDecodeError:
            self._refused(got.type, NOT_UTF8)
        except (IndexError, ValueError, struct.error):
            self.session.fake.malformed.append(got)
            self.session.send(m.error("invalid message format", "08P01", "FATAL"))
            return False
        except QueryError as error:
            self._refused(got.type, error.packet)
        return True

    def _refused(self, kind, packet):
        self._failed(packet)
        if kind in "QF":
            self._ready()
        else:
            self._skip_to_sync()

    def _failed(self, packet):
        self.out.append(packet)
        if self.status == "T":
            self.status = "E"
        self.portals.clear()
        self.unsaved.clear()

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
        if self.status == "I":
            self._save()
        self.out.append(m.ready(self.status))
        self._flush()

    def _save(self):
        self.session.fake.kept += self.unsaved
        self.unsaved.clear()

    # --- simple queries

    def _on_Q(self, body):
        sql = body.partition(b"\0")[0].decode()
        self.statements.pop("", None)
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
        self._save()
        self.portals.clear()
        self.out.append(m.command_complete(tag))

    def _do_rollback(self, _):
        self.status = "I"
        self.unsaved.clear()
        self.portals.clear()
        self.out.append(m.command_complete("ROLLBACK"))

    def _do_fail(self, text):
        raise QueryError(m.error(text or "failed", "22012"))

    def _do_discard(self, what):
        if what.upper() == "ALL":
            if self.status != "I":
                raise QueryError(m.error("DISCARD ALL cannot run inside a transaction block", "25001"))
            self._forget_all()
        self.out.append(m.command_complete("DISCARD " + what.upper()))

    def _do_deallocate(self, what):
        name = what.split()[-1]
        if name.upper() == "ALL":
            self._forget_all()
            self.out.append(m.command_complete("DEALLOCATE ALL"))
            return
        if name not in self.statements:
            raise QueryError(m.error('prepared statement "%s" does not exist' % name, "26000"))
        del self.statements[name]
        self.out.append(m.command_complete("DEALLOCATE"))

    def _forget_all(self):
        """All with names; the unnamed statement has nothing to do with them."""
        for name in [name for name in self.statements if name]:
            del self.statements[name]

    def _do_alter(self, _):
        self.out.append(m.command_complete("ALTER TABLE"))

    def _do_define(self, tag):
        self.out.append(m.command_complete(tag))

    def _do_insert(self, text):
        self.unsaved.append(text)
        self.out.append(m.command_complete("INSERT 0 1"))

    def _do_shape(self, name):
        self.out += [m.data_row("%s of %s" % (self.session.fake.shapes[name], name)), m.command_complete("SELECT 1")]

    def _do_set(self, assignment):
        name, _, value = assignment.replace("=", " ").replace(" to ", " ").replace(" TO ", " ").partition(" ")
        self._set_parameter(name, value.strip().strip("'"))
        self.out.append(m.command_complete("SET"))

    def _do_select(self, sql):
        """Only set_config() is understood; anything else is returned as it is."""
        if sql.startswith("pg_catalog.pg_is_in_recovery()"):
            fake = self.session.fake
            fake.until(lambda: not fake.is_silent or fake.released, "the end of the silence")
            self.out += [m.data_row(*fake.evidence()), m.command_complete("SELECT 1")]
            return
        if sql.startswith("(extract(epoch from pg_catalog.pg_postmaster_start_time())"):
            self.out += [m.data_row(self.session.fake.started_at), m.command_complete("SELECT 1")]
            return
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

    def _note(self, kind, name, *more):
        if name:
            self.session.fake.statements.append((kind, self.session.pid, name) + more)

    def _refuse_if_aborted(self):
        if self.status == "E":
            text = "current transaction is aborted, commands ignored until end of transaction block"
            raise QueryError(m.error(text, "25P02"))

    def _statement(self, name):
        if name not in self.statements:
            what = 'prepared statement "%s"' % name if name else "unnamed prepared statement"
            raise QueryError(m.error(what + " does not exist", "26000"))
        return self.statements[name]

    def _shape_of(self, sql):
        word, _, name = sql.partition(" ")
        if word != "shape":
            return None
        if name not in self.session.fake.shapes:
            raise QueryError(m.error('relation "%s" does not exist' % name, "42P01"))
        return self.session.fake.shapes[name]

    def _refuse_if_reshaped(self, statement):
        if self._shape_of(statement.sql) != statement.shape:
            raise QueryError(m.error("cached plan must not change result type", "0A000", R="RevalidateCachedQuery"))

    def _on_P(self, body):
        name, sql, types = m.read_parse(body)
        self._note("P", name, sql, types)
        if not name:
            self.statements.pop("", None)
        if sql.startswith("badparse"):
            raise QueryError(m.error("syntax error", "42601"))
        statement = Statement(sql, types, None)
        if sql.strip() and not statement.ends_transaction():
            self._refuse_if_aborted()
        statement.shape = self._shape_of(sql)
        if name in self.statements:
            raise QueryError(m.error('prepared statement "%s" already exists' % name, "42P05"))
        self.statements[name] = statement
        self.session.most_statements = max(self.session.most_statements, sum(1 for one in self.statements if one))
        self.out.append(m.parse_complete())

    def _on_B(self, body):
        portal, name, rest = body.split(b"\0", 2)
        self._note("B", name.decode())
        statement = self._statement(name.decode())
        if not statement.ends_transaction():
            self._refuse_if_aborted()
        self._refuse_if_reshaped(statement)
        formats = int.from_bytes(rest[:2], "big")
        values = m.read_row(rest[2 + 2 * formats:])
        self.portals[portal.decode()] = [statement, values, None]
        self.out.append(m.bind_complete())

    @staticmethod
    def _kind_and_name(body):
        if body[:1] not in (b"S", b"P"):
            raise ValueError(body)
        return body[:1], m.read_cstrings(body[1:])[0]

    def _on_D(self, body):
        kind, name = self._kind_and_name(body)
        if kind == b"S":
            self._note("D", name)
            statement = self._statement(name)
        elif name in self.portals:
            statement = self.portals[name][0]
        else:
            raise QueryError(m.error('portal "%s" does not exist' % name, "34000"))
        if statement.has_rows():
            self._refuse_if_aborted()
        if kind == b"S":
            self.out.append(m.parameter_description(*statement.types))
        self._refuse_if_reshaped(statement)
        self.out.append(m.row_description(statement.shape or "v") if statement.has_rows() else m.no_data())

    def _on_E(self, body):
        name = m.read_cstrings(body)[0]
        limit = int.from_bytes(body[-4:], "big")
        if name not in self.portals:
            raise QueryError(m.error('portal "%s" does not exist' % name, "34000"))
        portal = self.portals[name]
        sql = portal[0].sql
        if not sql.strip():
            self.out.append(m.empty_query_response())
        elif sql.startswith("series "):
            self._series(portal, limit)
        else:
            self._run(sql, described=True, values=portal[1])

    def _series(self, portal, limit):
        sql = portal[0].sql
        total, start = int(sql.split()[1]), portal[2] or 0
        end = min(total, start + limit) if limit else total
        self.out += [m.data_row("%s %d" % (sql, n)) for n in range(start, end)]
        portal[2] = end
        self.out.append(m.portal_suspended() if end < total else m.command_complete("SELECT %d" % (end - start)))

    def _on_C(self, body):
        kind, name = self._kind_and_name(body)
        if kind == b"S":
            self._note("C", name)
        (self.statements if kind == b"S" else self.portals).pop(name, None)
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
    """
    Makes a FakePostgres answer every connection on its own. fake.become(role) makes it a primary, which it is at first, or a standby, as its watcher
    and logins see it.
    """
    fake.role, fake.timeline, fake.position, fake.system = "primary", 1, "0/5000000", "7000"
    fake.started_at = next(STARTS)      # the postmaster
    fake.receiver = 77                  # process id of the WAL receiver of a standby; None: it receives nothing
    fake.is_silent = False              # the question for the role gets no answer

    def evidence():
        is_primary = fake.role == "primary"
        timeline = "%08X%016X" % (fake.timeline, 5) if is_primary else fake.timeline
        return "f" if is_primary else "t", fake.position, timeline, "off", fake.system, None if is_primary else fake.receiver, fake.started_at

    def become(role, timeline=None):
        fake.role, fake.timeline = role, timeline or fake.timeline
        fake.in_hot_standby = "off" if role == "primary" else "on"

    fake.evidence, fake.become = evidence, become
    fake.queries = []
    fake.statements = []
    fake.shapes = {}
    fake.kept = []
    fake.malformed = []                 # messages with a malformed body
    fake.slow_set = False               # a SET takes until it is cancelled or released
    fake.refused_values = set()         # a SET to one of these fails

    def serve(session):
        MiniBackend(session, byte_by_byte).run()

    fake.serve = serve
