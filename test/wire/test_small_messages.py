"""
More small messages in one read than a turn of the loop looks at. The rest waits for the next turn, and the connection that sent
them may have ended by then: nothing that it sent before is lost.
"""
import pytest

from support import messages as m
from support.scenes import asked, transactions
from support.takeover import Replaced

# more than a turn processes, no more than one read takes, and fits the socket buffer while pgweir is stopped
FLOOD, ROOM = 20000, 1 << 20
NOTICES = m.message("N", b"\0") * FLOOD
FATAL = m.error("terminating connection due to administrator command", "57P01", "FATAL")


def kinds(messages):
    return "".join(message.type for message in messages)


def in_transaction(fake, weir):
    client, server = asked(fake, weir, "BEGIN")
    server.complete("BEGIN", "T")
    assert client.result().status == "T"
    return client, server


def roomy(scene, fake, **settings):
    return transactions(scene, fake, tcp_socket_buffer=ROOM, **settings)


@pytest.fixture(params=[False, True], ids=["clear", "tls"])
def tls(request):
    return request.param


def test_answers_before_the_end_of_a_server(scene, authority, tls):
    """The answer to COMMIT, which took place: the client could not know that."""
    fake = scene.fake(tls=authority.server_context() if tls else None)
    weir = roomy(scene, fake, server_tls_sslmode="require" if tls else "disable")
    client, server = in_transaction(fake, weir)
    client.send(m.query("COMMIT"))
    server.expect_query("COMMIT")
    with weir.one_turn():
        server.send(NOTICES, m.command_complete("COMMIT"), m.ready("I"), FATAL)
        server.close()
    assert kinds(client.read_until("Z")) == "N" * FLOOD + "CZ"
    client.send(m.query("next"))
    other = fake.accept()
    other.expect_query("next")
    other.answer("1")
    assert client.result().value == "1"


def test_answers_of_a_server_that_cannot_be_written_to(scene):
    fake = scene.fake()
    weir = roomy(scene, fake)
    client, server = in_transaction(fake, weir)
    client.send(m.query("UPDATE"))
    server.expect_query("UPDATE")
    with weir.one_turn():
        server.send(NOTICES, m.command_complete("UPDATE 1"), m.ready("T"))
        server.abort()
        client.send(m.query("COMMIT"))
    assert kinds(client.drain()) == "N" * FLOOD + "CZE"


FLOODS = {
    "flush": (b"", m.flush() * FLOOD),
    "bind": (m.parse("SELECT 1", "s"), m.bind("s") * 7000),
}


@pytest.mark.parametrize("kind", sorted(FLOODS))
def test_requests_before_the_end_of_a_client(scene, authority, tls, kind):
    first, flood = FLOODS[kind]
    fake = scene.fake()
    weir = roomy(scene, fake, client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                 client_tls_key_file=authority.key("server"))
    client = weir.connect()
    if tls:
        client.start_tls(authority.client_context())
    client.login(user="app", database="p0")
    client.send(m.query("BEGIN"))
    server = fake.accept()
    server.expect_query("BEGIN")
    server.complete("BEGIN", "T")
    assert client.result().status == "T"
    with weir.one_turn():
        client.send(first, flood, m.sync(), m.query("COMMIT"))
        client.close()
    sent = "".join(chr(message[0]) for message in split(first + flood + m.sync()))
    # pgweir describes a statement with its Parse
    assert kinds(server.read_until("Q")) == sent.replace("PB", "PDB") + "Q"


def split(messages):
    """The messages in a run of them."""
    at = 0
    while at < len(messages):
        size = 1 + int.from_bytes(messages[at + 1:at + 5], "big")
        yield messages[at:at + size]
        at += size


def test_the_end_of_a_client_with_a_deep_pipeline(scene):
    """The rest waits for answers, which arrive in the same turn as the client's end, before it."""
    deep, more = 65536, 4000
    fake = scene.fake()
    weir = roomy(scene, fake)
    client, server = in_transaction(fake, weir)
    client.send(m.close("P", "p") * (deep + more), m.sync())
    assert kinds(server.read_until("H")) == "C" * deep + "H"
    weir.barrier()
    with weir.one_turn():
        server.send(m.close_complete() * deep)
        client.shut_writing()
    # there may be another Flush that requests the answers
    assert kinds(server.read_until("S")).replace("H", "") == "C" * more + "S"


def test_unsent_requests_are_handed_over(scene):
    """The server does not read: the process is replaced, and the client has disconnected."""
    fake = scene.fake()
    weir = scene.weir(fake, kind=Replaced, pool_mode="transaction", default_pool_size=1, tcp_socket_buffer=4096)
    _, server = opened = asked(fake, weir, "first")
    server.answer("x")
    assert opened[0].result().value == "x"
    weir.admin("SET tcp_socket_buffer = %d" % ROOM)
    client = weir.client()
    client.send(m.query("BEGIN"))
    server.expect_query("BEGIN")
    server.complete("BEGIN", "T")
    assert client.result().status == "T"
    flood = 26000
    with weir.one_turn():
        client.send(m.flush() * flood, m.query("COMMIT"))
    weir.barrier()
    (row,) = [row for row in weir.show("SOCKETS") if row["type"] == "C" and row["pkt_avail"]]
    assert row["pkt_avail"] > 5
    client.close()
    assert weir.replace().wait() == 0
    assert kinds(server.read_until("Q")) == "H" * flood + "Q"
