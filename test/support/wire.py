"""
One end of a connection that speaks the PostgreSQL protocol message by message, and the client made of it.

Everything blocks, and every wait has the common deadline, so that a scene reads from top to bottom:

    alice = Client(port)
    alice.login(user="app", database="p0")
    alice.send(query("SELECT 1"))
    server.expect("Q")
"""
import hmac
import select
import socket
import struct

from . import messages as m
from . import scram
from .until import DEADLINE


class Closed(Exception):
    """The other side ended the connection."""


class Peer:
    """A connected socket and the bytes of it that are read but not yet asked for."""

    def __init__(self, sock):
        sock.settimeout(DEADLINE)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.buffer = bytearray()

    # --- writing

    def send(self, *parts):
        """All parts in one write."""
        self.sock.sendall(b"".join(parts))

    def dribble(self, *parts):
        """Byte by byte, each one a segment of its own."""
        for byte in b"".join(parts):
            self.sock.sendall(bytes((byte,)))

    # --- reading

    def _fill(self):
        try:
            data = self.sock.recv(65536)
        except (ConnectionError, BrokenPipeError) as why:
            raise Closed(str(why)) from why
        except TimeoutError:
            raise AssertionError("nothing came; read so far: %r" % bytes(self.buffer[:200])) from None
        if not data:
            raise Closed("end of file")
        self.buffer += data

    def read_bytes(self, count):
        while len(self.buffer) < count:
            self._fill()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read(self):
        """The next message, whatever it is."""
        kind, length = struct.unpack("!cI", self.read_bytes(5))
        return m.Message(kind.decode("latin-1"), self.read_bytes(length - 4))

    def expect(self, kind):
        """The next message, which must be of this type."""
        got = self.read()
        assert got.type == kind, "want a message %r, got %r: %r" % (kind, got.type, got.body[:300])
        return got

    def expect_all(self, kinds):
        """The next messages, one for each character of kinds."""
        return [self.expect(kind) for kind in kinds]

    def read_until(self, kind="Z"):
        """All messages up to and including the first of this type."""
        got = []
        while not got or got[-1].type != kind:
            got.append(self.read())
        return got

    def expect_closed(self):
        """The connection ends, and nothing comes before that."""
        try:
            got = self.read()
        except Closed:
            return
        raise AssertionError("want the end of the connection, got %r" % (got,))

    def drain(self):
        """Everything up to the end of the connection."""
        got = []
        try:
            while True:
                got.append(self.read())
        except Closed:
            return got

    def drain_bytes(self):
        """The same, for data that may not be valid messages."""
        try:
            while True:
                self._fill()
        except Closed:
            data = bytes(self.buffer)
            self.buffer.clear()
            return data

    def has_input(self):
        """Whether anything is there to be read now. Only means something after a barrier."""
        if self.buffer or (hasattr(self.sock, "pending") and self.sock.pending()):
            return True
        return bool(select.select([self.sock], [], [], 0)[0])

    # --- the end

    def shut_writing(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def abort(self):
        """Ends the connection with a reset instead of an end of file."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Result:
    """The answer to one query: everything up to ReadyForQuery."""

    def __init__(self, messages):
        self.messages = messages
        self.types = "".join(message.type for message in messages)
        self.rows = [m.read_row(message.body) for message in messages if message.type == "D"]
        self.tags = [m.read_cstrings(message.body)[0] for message in messages if message.type == "C"]
        self.errors = [m.read_error(message.body) for message in messages if message.type == "E"]
        self.status = messages[-1].body.decode() if messages[-1].type == "Z" else None

    @property
    def value(self):
        """The only column of the only row, as text."""
        assert not self.errors, self.errors
        ((column,),) = self.rows
        return column.decode()

    @property
    def error(self):
        """Text of the only error."""
        (only,) = self.errors
        return only["M"]


class Client(Peer):
    """A scripted client. Nothing is sent until it is told to."""

    def __init__(self, port, host="127.0.0.1", receive_buffer=None, source=None):
        family = socket.AF_UNIX if host.startswith("/") else socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            sock.bind((source, 0))
        sock.settimeout(DEADLINE)
        sock.connect("%s/.s.PGSQL.%d" % (host, port) if host.startswith("/") else (host, port))
        super().__init__(sock)
        self.parameters = {}
        self.pid, self.key = None, None
        self.status = None

    def start_tls(self, context, name="localhost"):
        self.send(m.SSL_REQUEST)
        assert self.read_bytes(1) == b"S"
        self.sock = context.wrap_socket(self.sock, server_hostname=name)

    def login(self, password=None, protocol=m.PROTOCOL_3_0, **parameters):
        """Starts up and answers whatever it is asked, up to the first ReadyForQuery."""
        self.send(m.startup(protocol, **parameters))
        return self.finish_login(parameters.get("user", ""), password)

    def finish_login(self, user="", password=None):
        """The rest of a login after the start-up packet. Returns all messages of the welcome."""
        welcome = []
        while True:
            got = self.read()
            welcome.append(got)
            if got.type == "R":
                self._authenticate(got.body, user, password)
            elif got.type == "S":
                name, value = m.read_parameter(got.body)
                self.parameters[name] = value
            elif got.type == "K":
                self.pid, self.key = m.read_key(got.body)
            elif got.type == "E":
                raise LoginRefused(m.read_error(got.body))
            elif got.type == "Z":
                self.status = got.body.decode()
                return welcome

    def _authenticate(self, body, user, password):
        (code,) = struct.unpack_from("!I", body)
        if code == 3:
            self.send(m.password(password))
        elif code == 5:
            self.send(m.password(scram.md5_password(user, password, body[4:8])))
        elif code == 10:
            self._scram(password)
        else:
            assert code == 0, "authentication request %d" % code

    def _scram(self, password):
        first = "n=,r=" + scram.nonce()
        self.send(m.sasl_initial("SCRAM-SHA-256", b"n,," + first.encode()))
        got = self.read()
        if got.type == "E":
            raise LoginRefused(m.read_error(got.body))
        challenge = got.body[4:].decode()
        final, signature = scram.client_final(password, first, challenge)
        self.send(m.sasl_response(final.encode()))
        got = self.read()
        if got.type == "E":
            raise LoginRefused(m.read_error(got.body))
        said = scram.attributes(got.body[4:].decode())
        assert hmac.compare_digest(said["v"], signature), "server does not know the password"

    def refused(self, **login):
        """A login that must fail: its ErrorResponse."""
        try:
            self.login(**login)
        except LoginRefused as refusal:
            self.expect_closed()
            return refusal.fields
        raise AssertionError("login was accepted")

    def result(self):
        """The answers up to ReadyForQuery."""
        result = Result(self.read_until("Z"))
        self.status = result.status
        return result

    def query(self, sql):
        """A simple query and its result."""
        self.send(m.query(sql))
        return self.result()

    def quit(self):
        self.send(m.terminate())
        self.close()


class LoginRefused(Exception):
    def __init__(self, fields):
        super().__init__(fields.get("M"))
        self.fields = fields
