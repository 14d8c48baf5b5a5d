"""
Free TCP ports on loopback.

The ports are below the range that the kernel uses for outgoing connections; otherwise a client of another test might use the port between its choice
and the bind of a server. Each test process chooses ports from blocks that it has claimed, so that no other test process chooses the same port: an
abstract Unix socket with the block's name can be bound by one process only, and is freed when that process ends, in whatever way.
"""
import contextlib
import random
import socket

_FIRST, _LAST, _BLOCK = 12000, 32000, 100
_random = random.Random()       # seeded by the system: parallel workers draw differently
_claims = []
_ports = []


def free_port():
    while True:
        if not _ports:
            _ports.extend(_claim_block())
        port = _ports.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextlib.contextmanager
def full_listener():
    """Yields a port on which connections are not answered: the kernel drops a SYN while the queue of the listening socket is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", free_port()), backlog=0))
        for _ in range(4):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def listens(port):
    """Whether some process listens there, on an IPv4 address; asked of the kernel, so that the process sees no connection."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "0A" for line in f.readlines()[1:])


def _claim_block():
    while True:
        first = _random.randrange(_FIRST, _LAST, _BLOCK)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind("\0pgweir test ports %d" % first)
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        # a server that still runs keeps its port without a claim
        if len(_claims) > 2:
            _claims.pop(0).close()
        return _random.sample(range(first, first + _BLOCK), _BLOCK)
