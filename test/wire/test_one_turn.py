"""
Ends that meet: client, server and administrator do their worst in one and the same turn of the loop, in every order.
Whichever comes first, nothing is freed twice, no other connection notices, and the pool keeps its capacity.
"""
import itertools

import pytest

from support import messages as m
from support.scenes import linked
from support.until import until

FAREWELL = m.error("terminating connection due to administrator command", "57P01", "FATAL")

CLIENT_ENDS = {
    "quit": lambda client: client.quit(),
    "eof": lambda client: client.close(),
    "reset": lambda client: client.abort(),
    "half a message": lambda client: (client.send(m.query("never whole")[:-3]), client.close()),
}
SERVER_ENDS = {
    "eof": lambda server: server.close(),
    "reset": lambda server: server.abort(),
    "words": lambda server: (server.send(FAREWELL), server.close()),
    "answer": lambda server: (server.send(m.rows("late"), m.ready("I")), server.close()),
}
STATES = {
    "asking": lambda client, server: client.send(m.query("asked")),
    "asked": lambda client, server: (client.send(m.query("asked")), server.expect_query("asked")),
    "in transaction": lambda client, server: (client.send(m.query("BEGIN")), server.expect_query("BEGIN"),
                                              server.complete("BEGIN", "T"), client.result()),
    "in a row": lambda client, server: (client.send(m.query("asked")), server.expect_query("asked"),
                                        server.send(m.row_description("v"), m.data_row("x" * 100000)[:70000]),
                                        client.expect("T")),
    "in COPY": lambda client, server: (client.send(m.query("copy")), server.expect_query("copy"),
                                       server.send(m.copy_in_response()), client.expect("G"),
                                       client.send(m.copy_data(b"x" * 1000))),
    "idle": lambda client, server: None,
}


def at_rest(weir):
    """No client is left, and no answer is owed; but pgweir may have opened a server for a client that asked and left."""
    until(lambda: not [c for c in weir.show("CLIENTS") if c["database"] == "p0"], "the client is gone")
    weir.wait_pool("p0", cl_active=0, cl_waiting=0, sv_active=0, sv_used=0, sv_login=0)


def works(fake, weir):
    client, server = linked(fake, weir)
    client.quit()
    server.close()
    at_rest(weir)


@pytest.mark.parametrize("state", sorted(STATES))
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_client_and_server_end_together(scene, mode, state):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode=mode, default_pool_size=1, server_login_retry=0)
    for client_end, server_end in itertools.product(sorted(CLIENT_ENDS), sorted(SERVER_ENDS)):
        for server_first in (False, True):
            client, server = linked(fake, weir)
            STATES[state](client, server)
            weir.barrier()
            with weir.one_turn():
                if server_first:
                    SERVER_ENDS[server_end](server)
                CLIENT_ENDS[client_end](client)
                if not server_first:
                    SERVER_ENDS[server_end](server)
            at_rest(weir)
    works(fake, weir)


def command(weir, text):
    """Sends a command of its own console, without waiting for anything."""
    console = weir.connect()
    console.login(user="admin", database="pgbouncer")
    return console, lambda: console.send(m.query(text))


@pytest.mark.parametrize("state", sorted(STATES))
@pytest.mark.parametrize("text", ["KILL p0", "KILL", "KILL_CLIENT %d"])
def test_kill_in_the_turn_in_which_both_end(scene, text, state):
    """KILL between, before and after the two ends; and with another client in the queue."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_login_retry=0)
    for order in itertools.permutations(("client", "server", "command")):
        for client_end, server_end in (("eof", "eof"), ("reset", "words"), ("half a message", "reset"), ("quit", "answer")):
            client, server = linked(fake, weir)
            STATES[state](client, server)
            weir.barrier()
            (row,) = [c for c in weir.show("CLIENTS") if c["database"] == "p0"]
            console, say = command(weir, text % row["id"] if "%" in text else text)
            acts = {"client": lambda: CLIENT_ENDS[client_end](client), "server": lambda: SERVER_ENDS[server_end](server),
                    "command": say}
            with weir.one_turn():
                for actor in order:
                    acts[actor]()
            # the client may be gone before the command names it
            assert console.result().types in ("CZ", "EZ")
            if not text.startswith("KILL_CLIENT"):
                weir.admin(text.replace("KILL", "RESUME"))
            console.quit()
            at_rest(weir)
    works(fake, weir)


UNDONE_BY = {"KILL p0": "RESUME p0", "PAUSE p0": "RESUME p0", "SUSPEND": "RESUME", "DISABLE p0": "ENABLE p0"}


@pytest.mark.parametrize("text", [*UNDONE_BY, "RECONNECT p0", "RELOAD"])
def test_command_in_the_turn_in_which_the_server_ends(scene, text):
    """Another client in the queue would have had the server next; it is served by another server, or gets an error."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, server_login_retry=0)
    for server_first in (False, True):
        holder, rival = weir.client(), weir.client()
        holder.query("BEGIN")
        rival.send(m.query("rival"))
        weir.wait_pool("p0", cl_waiting=1)
        console, say = command(weir, text)
        with weir.one_turn():
            if server_first:
                fake.drop_all()
            say()
            if not server_first:
                fake.drop_all()
        assert console.result().types == "CZ"
        if text in UNDONE_BY:
            weir.admin(UNDONE_BY[text])
        assert holder.drain()[-1].type == "E"
        if text == "KILL p0":
            assert rival.drain()[-1].type == "E"
        else:
            assert rival.result().value == "rival"
        console.quit()
        assert weir.client().query("works").value == "works"


def plain_end(client, rest):
    client.send(rest + b"\n" + bytes(4))


def unknown_type(client, rest):
    client.send(rest + m.message("~", b""))


def forbidden_query(client, rest):
    client.send(rest + m.query("forbidden"))


@pytest.mark.parametrize("end", [plain_end, unknown_type, forbidden_query])
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_client_ends_after_a_partially_forwarded_message(scene, mode, end):
    """
    CopyData is forwarded while a query that may be COPY is pending. The last bytes of such a message, and the reason of the client's end, arrive in
    one read, when no other answer is pending: the server waits for these bytes, and must not be lent to the next client before it has them.
    """
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode=mode, default_pool_size=1, server_reset_query="", disable_pqexec=int(end is forbidden_query))
    client = weir.client()
    frame = m.copy_data(b"x" * 100)
    client.send(m.run("asked") + m.sync() + frame[:50])
    server = fake.accept()
    for kind in "PBDES":
        server.expect(kind)
    assert server.read_bytes(50) == frame[:50]
    server.send(m.message("1", b""), m.message("2", b""), m.rows("answer"), m.ready())
    assert client.result().value == "answer"
    end(client, frame[50:])
    assert client.drain()[-1].type == "E"
    following = weir.client()
    following.send(m.run("next") + m.sync())
    # the rest comes, or the server ends; bytes of another client never come
    if end is forbidden_query:
        assert server.drain_bytes() in (b"", m.terminate())
        server = fake.accept()
    else:
        assert server.read_bytes(len(frame) - 50) == frame[50:]
    for kind in "PBDES":
        server.expect(kind)
    server.send(m.message("1", b""), m.message("2", b""), m.rows("its own"), m.ready())
    assert following.result().value == "its own"
