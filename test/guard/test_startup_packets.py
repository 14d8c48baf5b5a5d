"""
The cost of a start-up packet is linear in its length: parameters do not cost more next to a long one. Otherwise an unauthenticated client could cause
as much work with 10 kB as with a TLS handshake, and without taking turns.
"""
import struct

from support import messages as m
from support.profilers import Counted

LOGINS = 50
LONG = [("search_path", "x" * 4900)]
MANY = [("TimeZone", str(n % 10)) for n in range(400)]


def startup(parameters):
    """As of messages.startup, but names may come more than once."""
    pairs = [("user", "app"), ("database", "p0")] + parameters
    body = struct.pack("!I", 3 << 16) + b"".join(name.encode() + b"\0" + value.encode() + b"\0" for name, value in pairs) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def executed(scene, fake, parameters):
    """Instructions of a pgweir with this number of logins. Its other work is constant, and cancels in a difference."""
    weir = scene.weir(fake, kind=Counted, auth_type="scram-sha-256", log_connections=0, log_disconnections=0)
    for _ in range(LOGINS):
        client = weir.connect()
        client.send(startup(parameters))
        client.expect("R")
        client.send(m.terminate())
        client.expect_closed()
        client.close()
    weir.stop()
    return weir.executed().total()


def test_parameters_cost_the_same_next_to_a_long_one(scene):
    fake = scene.mini()
    none, long, many, both = (executed(scene, fake, parameters) for parameters in ([], LONG, MANY, LONG + MANY))
    assert both - none < 1.2 * (long - none + many - none), (none, long, many, both)


def test_each_name_costs_the_same(scene):
    """Names that are not tracked are put into order, and the last of them looks like the first for long: with four times as many the packet costs
    no more than five times as much."""
    fake = scene.mini()
    none, few, many = (executed(scene, fake, [("a.%s%03d" % ("x" * 38, n), "") for n in range(count)]) for count in (0, 50, 200))
    assert many - none < 5 * (few - none), (none, few, many)
