"""
Free TCP ports on loopback.

They are taken from below the range that the kernel hands out to outgoing connections, else a client of
another test might hold the number between the moment it is chosen and the moment a server binds it.
"""
import random
import socket

_FIRST, _LAST = 12000, 32000
_random = random.Random()       # seeded by the system: parallel workers draw differently
_given = set()


def free_port():
    while True:
        port = _random.randrange(_FIRST, _LAST)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
