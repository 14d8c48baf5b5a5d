"""Cancel requests on their way between the processes of a group ([peers]), and peers that are gone, silent or wrong."""
import contextlib
import socket

import pytest

from support import messages as m
from support.live import NEVER
from support.nameserver import write_resolv_conf
from support.ports import free_port
from support.scenes import transactions
from support.until import DEADLINE, until

CANCELLED = "canceling statement due to user request"


@pytest.fixture
def silence():
    """A port where connections are taken and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


def introduce(weir, **ports):
    """Says which peers it has: p2=port and so on."""
    weir.sections["peers"] = {name[1:]: "host=127.0.0.1 port=%d" % port for name, port in ports.items()}
    weir.write_ini()
    weir.admin("RELOAD")


def ended(weir, reason):
    """How often a connection has ended for this reason."""
    return sum(row["count"] for row in weir.show("REASONS") if row["reason"] == reason)


def on_their_way(weir):
    """Requests that have been handed to peers, or are about to be."""
    return sum(row["cl_active_cancel_req"] + row["cl_waiting_cancel_req"] for row in weir.show("PEER_POOLS"))


def request_for(weir, peer, key=None, address=None):
    """A cancel request for a client of this peer that this process does not know."""
    request = weir.connect_from(address) if address else weir.connect()
    request.send(m.cancel_request(4711, key or bytes((peer >> 6, (peer & 63) << 2 | 3, 1, 2))))
    return request


def start(client, fake):
    before = len(fake.queries)
    client.send(m.query("wait"))
    fake.until(lambda: len(fake.queries) > before, "the query runs")


@pytest.mark.parametrize("protocol", [m.PROTOCOL_3_0, m.PROTOCOL_3_0 + 2])
def test_key_names_the_process(scene, protocol):
    fake = scene.mini()
    weirs = [transactions(scene, fake, peer_id=number) for number in (1, 2, 3)]
    for weir in weirs:
        introduce(weir, p1=weirs[0].port, p2=weirs[1].port, p3=weirs[2].port)
    clients = [weir.client(protocol=protocol) for weir in weirs]
    for client in clients:
        for through in weirs:
            start(client, fake)
            through.cancel(client).expect_closed()
            assert client.result().error == CANCELLED


def test_canceller_that_does_not_wait(scene):
    """The canceller's request is forwarded all the same."""
    fake = scene.mini()
    home, other = (transactions(scene, fake, peer_id=number) for number in (1, 2))
    introduce(other, p1=home.port)
    client = home.client()
    start(client, fake)
    with other.one_turn():
        other.cancel(client).close()
    assert client.result().error == CANCELLED


def test_requests_in_a_ring_of_wrong_addresses_end(scene):
    """Each takes the other for the peer that is asked for: three hops, and that is that."""
    fake = scene.mini()
    one, two = (transactions(scene, fake, peer_id=number, pool_size=4) for number in (1, 2))
    introduce(one, p3=two.port)
    introduce(two, p3=one.port)
    request_for(one, 3).expect_closed()
    # the first process gets the request from us, and from the second; that makes two hops each
    until(lambda: ended(one, "CANCEL_DONE") + ended(one, "CANCEL_UNKNOWN") == 2, "two requests at the first")
    assert ended(two, "CANCEL_DONE") + ended(two, "CANCEL_UNKNOWN") == 2
    assert ended(one, "CANCEL_UNKNOWN") + ended(two, "CANCEL_UNKNOWN") == 1


def test_peer_that_is_gone(scene):
    weir = transactions(scene, scene.mini(), peer_id=1)
    introduce(weir, p2=free_port())
    request_for(weir, 2).expect_closed()
    weir.wait_log("WARNING C-0x.* cancel request for a peer: ")
    assert ended(weir, "CANCEL_UNKNOWN") == 1


@pytest.fixture
def swallowed():
    """A port where connections are neither taken nor refused."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.2", free_port()))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def named_peer(scene, fake, port, addresses):
    """A pgweir with peer 2, which has these addresses and this port. No more is waited for than one connection."""
    names = scene.nameserver()
    names.set("peer.example.test", a=addresses)
    weir = transactions(scene, fake, peer_id=1, resolv_conf=write_resolv_conf(scene.directory, names))
    weir.sections["peers"] = {"2": "host=peer.example.test port=%d" % port}
    weir.write_ini()
    weir.admin("RELOAD")
    return weir


def test_peer_with_several_addresses(scene):
    """One of them leads nowhere, whichever of them is first."""
    fake = scene.mini()
    home = transactions(scene, fake, peer_id=2)
    other = named_peer(scene, fake, home.port, ["127.0.0.3", "127.0.0.1"])
    client = home.client()
    for _ in range(3):
        start(client, fake)
        other.cancel(client).expect_closed()
        assert client.result().error == CANCELLED


def test_peer_with_an_address_that_drops_packets(scene, swallowed):
    """The address is given up for the next when its share of cancel_wait_timeout is over."""
    fake = scene.mini()
    with socket.create_server(("127.0.0.1", swallowed)) as peer:
        peer.settimeout(DEADLINE)
        other = named_peer(scene, fake, swallowed, ["127.0.0.2", "127.0.0.1"])
        other.admin("SET cancel_wait_timeout = 2")
        for _ in range(2):
            request = request_for(other, 2)
            connection, _ = peer.accept()
            with connection:
                connection.settimeout(DEADLINE)
                assert connection.recv(16, socket.MSG_WAITALL)[4:8] == m.cancel_request(4711, b"1234")[4:8]
            request.expect_closed()
    assert ended(other, "CANCEL_DONE") == 2


def test_peer_none_of_whose_addresses_works(scene):
    other = named_peer(scene, scene.mini(), free_port(), ["127.0.0.2", "127.0.0.3", "127.0.0.4"])
    request_for(other, 2).expect_closed()
    other.wait_log("WARNING C-0x.* cancel request for a peer: ")
    assert ended(other, "CANCEL_UNKNOWN") == 1


def test_silent_peer(scene, silence):
    """The request is dropped when cancel_wait_timeout is over, and counted; meanwhile SHOW tells that it waits."""
    weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=3600)
    introduce(weir, p2=silence)
    requests = [request_for(weir, 2) for _ in range(3)]
    until(lambda: on_their_way(weir) == 3, "all three are on their way")
    weir.admin("SET cancel_wait_timeout = 0.2")
    for request in requests:
        request.expect_closed()
    assert ended(weir, "CANCEL_WAIT_TIMEOUT") == 3
    assert weir.client().query("unharmed").value == "unharmed"


@pytest.mark.parametrize("key", [b"", b"\0\x0b\1", b"\0\x0b\1\2\3", b"\0\x08\1\2", b"\0\x07\1\2", b"\xff\xff\1\2", b"x" * 256],
                         ids=["none", "short", "odd", "no hops left", "our own", "no peer", "long"])
def test_key_without_a_target(scene, silence, key):
    """Requests are not forwarded: our own peer_id, an unknown peer_id, no hop left, another key length."""
    weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=3600)
    introduce(weir, p2=silence, p1=silence)
    request = weir.connect()
    request.send(m.cancel_request(4711, key))
    assert request.drain_bytes() == b"" or len(key) < 4
    weir.barrier()
    assert on_their_way(weir) == 0


def test_pool_size_limits_simultaneous_requests(scene):
    """The other requests wait, in the order in which they came, and none that leaves the queue is lost."""
    with socket.create_server(("127.0.0.1", 0)) as peer:
        peer.settimeout(DEADLINE)
        weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=NEVER)
        weir.sections["peers"] = {"2": "host=127.0.0.1 port=%d pool_size=2" % peer.getsockname()[1]}
        weir.write_ini()
        weir.admin("RELOAD")
        requests = []
        for n in range(6):
            requests.append(request_for(weir, 2, bytes((0, 2 << 2 | 3, n, 0))))
            weir.barrier()
        (row,) = weir.show("PEER_POOLS")
        assert row["cl_active_cancel_req"] + row["cl_waiting_cancel_req"] == 6 and row["sv_active_cancel"] + row["sv_login"] == 2
        came = []
        for _ in requests:
            connection, _ = peer.accept()
            with connection:
                connection.settimeout(DEADLINE)
                came.append(connection.recv(16, socket.MSG_WAITALL)[14])
        assert came == [0, 1, 2, 3, 4, 5]
        for request in requests:
            request.expect_closed()
        assert ended(weir, "CANCEL_DONE") == 6


def limited_to(weir, size, port):
    """Peer 2, with this number of connections."""
    weir.sections["peers"] = {"2": "host=127.0.0.1 port=%d pool_size=%d" % (port, size)}
    weir.write_ini()
    weir.admin("RELOAD")


def test_queue_is_limited(scene):
    """
    Clients can send requests without limit for a peer that hangs, even before login. pgweir drops a request when the peer's queue
    is full, and does not fill the log.
    """
    with socket.create_server(("127.0.0.1", 0)) as peer:
        peer.settimeout(DEADLINE)
        weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=NEVER, max_client_conn=10, verbose=2)
        limited_to(weir, 1, peer.getsockname()[1])
        requests = [request_for(weir, 2) for _ in range(101)]
        until(lambda: on_their_way(weir) == 101, "one is on its way, a hundred wait")
        for _ in range(3):
            request_for(weir, 2).expect_closed()
        assert ended(weir, "CANCEL_CROWD") == 3 and on_their_way(weir) == 101
        assert weir.wait_log("closing because: too many cancel requests wait")
        full = "WARNING peer 2: 100 cancel requests wait for it already, others are dropped"
        assert weir.log().count(full) == 1
        # none of them counts as a client
        assert weir.client().query("unharmed").value == "unharmed"
        peer.accept()[0].close()
        requests.pop(0).expect_closed()
        requests.append(request_for(weir, 2))
        until(lambda: on_their_way(weir) == 101, "there was room for one more")
        assert ended(weir, "CANCEL_CROWD") == 3
        for request in requests:
            peer.accept()[0].close()
            request.expect_closed()
        until(lambda: on_their_way(weir) == 0, "the line is empty")
        assert ended(weir, "CANCEL_CROWD") == 3 and weir.log().count(full) == 1


def test_one_address_does_not_fill_the_queue(scene):
    """A request of another address displaces the youngest request of the address that fills the queue, and is the second next to be forwarded."""
    with socket.create_server(("127.0.0.1", 0)) as peer:
        peer.settimeout(DEADLINE)
        weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=NEVER)
        limited_to(weir, 1, peer.getsockname()[1])
        crowd = [request_for(weir, 2) for _ in range(101)]
        until(lambda: on_their_way(weir) == 101, "one is on its way, a hundred wait")
        alone = request_for(weir, 2, bytes((0, 2 << 2 | 3, 7, 7)), address="127.0.0.2")
        crowd.pop().expect_closed()
        assert ended(weir, "CANCEL_CROWD") == 1 and on_their_way(weir) == 101
        keys = []
        for _ in range(3):
            taken = peer.accept()[0]
            keys.append(taken.recv(16)[-2:])
            taken.close()
        assert b"\7\7" in keys
        alone.expect_closed()


def test_queue_grows_with_the_pool_size(scene, silence):
    """After a RELOAD that makes room, waiting requests use it; twice pool_size may wait where that is more than a hundred."""
    weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=NEVER)
    limited_to(weir, 1, silence)
    requests = [request_for(weir, 2) for _ in range(101)]
    until(lambda: on_their_way(weir) == 101, "the line is full")
    limited_to(weir, 51, silence)
    until(lambda: sum(row["sv_active_cancel"] + row["sv_login"] for row in weir.show("PEER_POOLS")) == 51, "51 have begun")
    requests += [request_for(weir, 2) for _ in range(52)]
    until(lambda: on_their_way(weir) == 153, "102 wait")
    request_for(weir, 2).expect_closed()
    assert ended(weir, "CANCEL_CROWD") == 1
    weir.admin("SET cancel_wait_timeout = 0.2")
    for request in requests:
        request.expect_closed()
    assert ended(weir, "CANCEL_CROWD") == 1 and ended(weir, "CANCEL_WAIT_TIMEOUT") == 153


def test_reload_removes_the_peer_of_waiting_requests(scene, silence):
    weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=NEVER)
    weir.sections["peers"] = {"2": "host=127.0.0.1 port=%d pool_size=1" % silence}
    weir.write_ini()
    weir.admin("RELOAD")
    first = request_for(weir, 2)
    weir.barrier()
    second = request_for(weir, 2)
    until(lambda: on_their_way(weir) == 2, "both are there")
    introduce(weir, p3=silence)
    second.expect_closed()
    assert ended(weir, "CANCEL_UNKNOWN") == 1
    introduce(weir, p2=silence)
    assert on_their_way(weir) == 1
    weir.admin("SET cancel_wait_timeout = 0.2")
    first.expect_closed()


def test_shutdown_with_a_request_in_progress(scene, silence):
    """The request is waited for, but no longer than cancel_wait_timeout."""
    weir = transactions(scene, scene.mini(), peer_id=1, cancel_wait_timeout=0.5)
    introduce(weir, p2=silence)
    request = request_for(weir, 2)
    weir.signal(15)
    request.expect_closed()
    assert weir.wait_exit() == 0
