#!/usr/bin/env python3
"""
Attackers for load.py: clients of one address, mostly unauthenticated, and a server for some of them.

attacker.py KIND --port PORT [--path SOCKET]

Prints the port of its server, or 0. Then it obeys its standard input: "on" begins the attack, and is answered with "ready" after a second of attack;
"off" ends the attack, and is answered with "done" and the number of connections. The process runs at the lowest priority: the measuring programs have
precedence.

- lookups: clients wait for look-ups in a database with a server that does not answer
- verifiers: clients send wrong passwords, for each of which a key is derived
- salts: clients make pgweir log in to a server that requests SCRAM with another salt each time, and 1,000,000 iterations
- names: clients name invented databases; the server welcomes auth_user and answers no look-up
- takeover: connections to the socket for online restarts
- handshakes: clients that only make TLS handshakes
- notify: 300 logged-in clients that LISTEN, and one that sends them 20,000 notifications at a time
- sets: logged-in clients that send texts full of the word SET, which pgweir has to read
- functions: logged-in clients that replace a temporary function in a loop: after each, the functions of their database may have changed
"""
import argparse
import asyncio
import base64
import contextlib
import itertools
import os
import socket
import ssl
import struct
import sys

from support import messages as m
from support import scram

ADDRESS = "127.0.0.2"
PAUSE = 0.05                # delay after a refused connection
COUNT = {"lookups": 300, "verifiers": 300, "salts": 20, "names": 300, "takeover": 8, "handshakes": 64, "notify": 301, "sets": 8, "functions": 4}
ITERATIONS = 1000000
SCRAM = 10
TEXT = "SELECT 1 --" + "".join(" set a.n%02d" % (n % 90) for n in range(11000))
number = itertools.count()


# ---- their server

async def read_startup(reader):
    while True:
        (size,) = struct.unpack("!I", await reader.readexactly(4))
        body = await reader.readexactly(size - 4)
        if len(body) != 4:
            return


async def read_message(reader):
    head = await reader.readexactly(5)
    (size,) = struct.unpack("!I", head[1:])
    return head[:1], await reader.readexactly(size - 4)


async def serve_silence(reader, _):
    await reader.read()


async def serve_mute(reader, writer):
    await read_startup(reader)
    writer.write(m.authentication_ok() + m.parameter_status("server_version", "17.0") + m.backend_key_data(1, b"keys") + m.ready())
    await reader.read()


async def serve_salts(reader, writer):
    await read_startup(reader)
    writer.write(m.authentication(SCRAM, b"SCRAM-SHA-256\0\0"))
    _, first = await read_message(reader)
    nonce = scram.attributes(first.partition(b"\0")[2][4:].decode().partition(",,")[2])["r"]
    challenge = "r=%sX,s=%s,i=%d" % (nonce, base64.b64encode(os.urandom(16)).decode(), ITERATIONS)
    writer.write(m.authentication(SCRAM + 1, challenge.encode()))
    await read_message(reader)
    writer.write(m.error("password authentication failed", "28P01", "FATAL"))


SERVERS = {"lookups": serve_silence, "names": serve_mute, "salts": serve_salts}


async def start_server(kind):
    """Returns the port of the server."""
    if kind not in SERVERS:
        return 0

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await SERVERS[kind](reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    return server.sockets[0].getsockname()[1]


# ---- the clients

def names(kind):
    if kind == "names":
        return {"user": "nobody", "database": "invented%d" % next(number)}
    if kind == "lookups":
        return {"user": "nobody%d" % next(number), "database": "attacked"}
    return {"user": "attacker", "database": "attacked"}


async def log_in(options):
    reader, writer = await asyncio.open_connection("127.0.0.1", options.port, local_addr=(ADDRESS, 0))
    try:
        writer.write(m.startup(**names(options.kind)))
        if options.kind == "verifiers":
            await read_message(reader)
            writer.write(m.password("wrong%d" % next(number)))
        await reader.read()
    finally:
        writer.transport.abort()


def tls_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def shake_hands(options):
    """Direct TLS: no messages except TLS are needed."""
    context = tls_context()
    context.set_alpn_protocols(["postgresql"])
    _, writer = await asyncio.open_connection("127.0.0.1", options.port, local_addr=(ADDRESS, 0), ssl=context)
    writer.transport.abort()


async def knock(options):
    reader, writer = await asyncio.open_unix_connection(options.path)
    try:
        await asyncio.wait_for(reader.read(), PAUSE)
    finally:
        writer.transport.abort()


async def query(reader, writer, text):
    writer.write(m.query(text))
    while (await read_message(reader))[0] != b"Z":
        pass


async def work(options):
    """Logged in: reads notifications, has them sent, or sends texts."""
    speaks = options.kind == "notify" and not options.has_speaker
    options.has_speaker |= speaks
    reader, writer = await asyncio.open_connection("127.0.0.1", options.port, local_addr=(ADDRESS, 0))
    try:
        writer.write(m.startup(user="attacker", database="attacked"))
        while (await read_message(reader))[0] != b"Z":
            pass
        if options.kind == "notify" and not speaks:
            await query(reader, writer, "LISTEN news")
        while options.is_on:
            if speaks:
                await query(reader, writer, "SELECT count(pg_notify('news', i::text)) FROM generate_series(1, 20000) i")
            elif options.kind == "sets":
                await query(reader, writer, TEXT)
            elif options.kind == "functions":
                await query(reader, writer, "CREATE OR REPLACE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT %d'" % next(number))
            elif not await reader.read(1 << 16):
                return
    finally:
        options.has_speaker &= not speaks
        writer.transport.abort()


HOW = {"takeover": knock, "handshakes": shake_hands, "notify": work, "sets": work, "functions": work}


async def attack(options):
    # a task that is cancelled may miss it: wait_for() of Python 3.11 passes over it when its time is up at that moment
    while options.is_on:
        # whatever ends the connection, it comes again
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            options.connections += 1
            await HOW.get(options.kind, log_in)(options)
        if options.kind not in HOW:
            await asyncio.sleep(PAUSE)


# ---- the conversation with load.py

async def lines():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def run(options):
    at_work = []
    print(await start_server(options.kind), flush=True)
    commands = await lines()
    while command := (await commands.readline()).decode().strip():
        if command == "on":
            options.connections, options.is_on, options.has_speaker = 0, True, False
            at_work = [asyncio.create_task(attack(options)) for _ in range(COUNT[options.kind])]
            await asyncio.sleep(1)
            print("ready", flush=True)
        else:
            options.is_on = False
            for task in at_work:
                task.cancel()
            await asyncio.gather(*at_work, return_exceptions=True)
            print("done %d" % options.connections, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(COUNT))
    parser.add_argument("--port", type=int, required=True, help="of pgweir")
    parser.add_argument("--path", help="of its socket for online restarts")
    options = parser.parse_args()
    os.nice(19)
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
