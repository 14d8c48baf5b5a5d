"""
Messages of the PostgreSQL protocol, version 3, built from their parts and taken apart again.

Builders return bytes; several of them may be added up and sent at once. Names follow the chapter "Message
Formats" of the PostgreSQL documentation. Nothing here checks anything: a scene must be able to build nonsense.
"""
import struct
from collections import namedtuple

PROTOCOL_3_0 = 3 << 16
PROTOCOL_3_2 = (3 << 16) | 2
SSL_REQUEST = struct.pack("!II", 8, 80877103)
GSSENC_REQUEST = struct.pack("!II", 8, 80877104)

Message = namedtuple("Message", "type body")


def cstring(text):
    return (text if isinstance(text, bytes) else text.encode()) + b"\0"


def message(kind, body=b""):
    """Any message: type byte, length, body."""
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


# --- from the client, before login

def startup(protocol=PROTOCOL_3_0, **parameters):
    return startup_pairs(list(parameters.items()), protocol)


def startup_pairs(pairs, protocol=PROTOCOL_3_0):
    body = b"".join(cstring(name) + cstring(value) for name, value in pairs) + b"\0"
    return startup_raw(struct.pack("!I", protocol) + body)


def startup_raw(body):
    return struct.pack("!I", len(body) + 4) + body


def cancel_request(pid, key):
    return startup_raw(struct.pack("!II", 80877102, pid) + key)


# --- from the client

def password(text):
    return message("p", cstring(text))


def sasl_initial(mechanism, data):
    return message("p", cstring(mechanism) + struct.pack("!i", len(data)) + data)


def sasl_response(data):
    return message("p", data)


def query(sql):
    return message("Q", cstring(sql))


def parse(sql, name="", types=()):
    body = cstring(name) + cstring(sql) + struct.pack("!H", len(types))
    return message("P", body + b"".join(struct.pack("!I", oid) for oid in types))


def bind(statement="", portal="", values=()):
    body = cstring(portal) + cstring(statement) + struct.pack("!HH", 0, len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message("B", body + struct.pack("!H", 0))


def describe(kind="P", name=""):
    return message("D", kind.encode() + cstring(name))


def execute(portal="", rows=0):
    return message("E", cstring(portal) + struct.pack("!I", rows))


def close(kind="S", name=""):
    return message("C", kind.encode() + cstring(name))


def sync():
    return message("S")


def flush():
    return message("H")


def terminate():
    return message("X")


def copy_data(data):
    return message("d", data)


def copy_done():
    return message("c")


def copy_fail(text):
    return message("f", cstring(text))


def function_call(oid, *arguments):
    body = struct.pack("!IHHH", oid, 1, 1, len(arguments))
    for argument in arguments:
        body += struct.pack("!i", len(argument)) + argument
    return message("F", body + struct.pack("!H", 1))


def run(sql, *, name="", portal="", rows=0, values=()):
    """Parse, Bind, Describe, Execute of one statement, without Sync."""
    return parse(sql, name) + bind(name, portal, values) + describe("P", portal) + execute(portal, rows)


# --- from the server

def authentication(code, body=b""):
    return message("R", struct.pack("!I", code) + body)


def authentication_ok():
    return authentication(0)


def parameter_status(name, value):
    return message("S", cstring(name) + cstring(value))


def negotiate_protocol_version(version, *options):
    return message("v", struct.pack("!II", version, len(options)) + b"".join(cstring(name) for name in options))


def backend_key_data(pid, key):
    return message("K", struct.pack("!I", pid) + key)


def ready(status="I"):
    return message("Z", status.encode())


def row_description(*names):
    body = struct.pack("!H", len(names))
    for name in names:
        body += cstring(name) + struct.pack("!IHIhiH", 0, 0, 25, -1, -1, 0)
    return message("T", body)


def data_row(*values):
    body = struct.pack("!H", len(values))
    for value in values:
        if value is None:
            body += struct.pack("!i", -1)
        else:
            data = value if isinstance(value, bytes) else str(value).encode()
            body += struct.pack("!i", len(data)) + data
    return message("D", body)


def command_complete(tag):
    return message("C", cstring(tag))


def rows(*values, tag=None):
    """A whole result of one column, without ReadyForQuery."""
    body = b"".join(data_row(value) for value in values)
    return row_description("v") + body + command_complete(tag or "SELECT %d" % len(values))


def fields(**codes):
    return b"".join(code.encode() + cstring(text) for code, text in codes.items()) + b"\0"


def error(text, sqlstate="XX000", severity="ERROR", **more):
    return message("E", fields(S=severity, V=severity, C=sqlstate, M=text, **more))


def notice(text):
    return message("N", fields(S="NOTICE", V="NOTICE", C="00000", M=text))


def notification(pid, channel, payload=""):
    return message("A", struct.pack("!I", pid) + cstring(channel) + cstring(payload))


def parse_complete():
    return message("1")


def parsed(*oids):
    """The answers to a Parse with a name and to pgweir's own Describe behind it."""
    return parse_complete() + parameter_description(*oids) + no_data()


def bind_complete():
    return message("2")


def close_complete():
    return message("3")


def no_data():
    return message("n")


def portal_suspended():
    return message("s")


def empty_query_response():
    return message("I")


def parameter_description(*oids):
    return message("t", struct.pack("!H", len(oids)) + b"".join(struct.pack("!I", oid) for oid in oids))


def copy_in_response(columns=1):
    return message("G", struct.pack("!BH", 0, columns) + struct.pack("!H", 0) * columns)


def copy_out_response(columns=1):
    return message("H", struct.pack("!BH", 0, columns) + struct.pack("!H", 0) * columns)


def copy_both_response(columns=0):
    return message("W", struct.pack("!BH", 0, columns) + struct.pack("!H", 0) * columns)


def function_call_response(value):
    return message("V", struct.pack("!i", len(value)) + value)


# --- taken apart

def read_cstrings(body):
    """The NUL-terminated strings that a body consists of."""
    return [part.decode("utf-8", "replace") for part in body.split(b"\0")[:-1]]


def read_error(body):
    """Fields of an ErrorResponse or NoticeResponse: {'S': severity, 'C': SQLSTATE, 'M': text, ...}."""
    return {part[:1].decode(): part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}


def read_row(body):
    """Columns of a DataRow, bytes or None."""
    (count,), at, columns = struct.unpack_from("!H", body), 2, []
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        columns.append(None if size < 0 else bytes(body[at:at + size]))
        at += max(size, 0)
    return columns


def read_parse(body):
    """Name, text and parameter types of a Parse."""
    name, sql, rest = body.split(b"\0", 2)
    (count,) = struct.unpack_from("!H", rest)
    return name.decode(), sql.decode(), struct.unpack_from("!%dI" % count, rest, 2)


def read_pairs(body):
    """Names and values of a start-up packet, as a dict."""
    parts = read_cstrings(body)
    return dict(zip(parts[0::2], parts[1::2]))


def read_parameter(body):
    name, value = read_cstrings(body)
    return name, value


def read_key(body):
    """Process id and secret key of a BackendKeyData."""
    return struct.unpack_from("!I", body)[0], bytes(body[4:])
