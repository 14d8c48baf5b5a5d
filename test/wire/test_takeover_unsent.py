"""Bytes that the old process could not get rid of: the new one sends them first, whatever else it finds on these connections."""
from support import messages as m
from support.scenes import asked
from support.takeover import Replaced

ROOM, FLOOD = 1 << 20, 26000


def test_requests_of_a_disconnected_client(scene):
    """The server does not read, and the process is replaced. The new process notices the client's end at once."""
    fake = scene.fake()
    weir = scene.weir(fake, kind=Replaced, pool_mode="transaction", default_pool_size=1, tcp_socket_buffer=4096)
    first, server = asked(fake, weir, "first")
    server.answer("x")
    assert first.result().value == "x"
    weir.admin("SET tcp_socket_buffer = %d" % ROOM)
    client = weir.client()
    client.send(m.query("BEGIN"))
    server.expect_query("BEGIN")
    server.complete("BEGIN", "T")
    assert client.result().status == "T"
    with weir.one_turn():
        client.send(m.flush() * FLOOD, m.query("COMMIT"))
    weir.barrier()
    client.close()
    assert weir.replace().wait() == 0
    assert "".join(message.type for message in server.read_until("Q")) == "H" * FLOOD + "Q"
