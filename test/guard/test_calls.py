"""
System calls per query. One client with one query at a time costs as much as a forwarder that reads nothing: recv and send in either direction, and a
wait for each of the two events.
"""
import re
import threading
from collections import Counter

import pytest

from support import lookups
from support import messages as m
from support.profilers import Traced

QUERIES = 200
ONE_QUERY = Counter(epoll_wait=2, recvfrom=2, sendto=2)


def simple(text):
    return m.query(text)


def extended(text):
    return m.run(text) + m.sync()


def prepared(text):
    return m.bind("s1", values=(text.encode(),)) + m.describe("P") + m.execute() + m.sync()


def times(count, calls):
    return Counter({name: number * count for name, number in calls.items()})


def ask(client, request, count=QUERIES):
    """Queries, one after the other; the first and the last can be distinguished in the trace."""
    for text in ["first"] + ["between"] * (count - 1) + ["last"]:
        client.send(request(text))
        assert not client.result().errors


@pytest.mark.parametrize("request_", (simple, extended), ids=("simple", "extended"))
def test_one_client(scene, request_):
    weir = scene.weir(scene.mini(), kind=Traced)
    client = weir.client()
    client.query("warm")
    ask(client, request_)
    assert weir.calls("first", "last") == times(QUERIES, ONE_QUERY)


def test_syncs_of_a_client_without_a_server(scene):
    """Each Sync was answered with a separate call; messages between the Syncs do not matter."""
    weir = scene.weir(scene.mini(), kind=Traced)
    client = weir.client()
    client.query("first")
    weir.hold()
    client.send((m.sync() + m.flush() + m.copy_done()) * 200)
    weir.go_on()
    client.expect_all("Z" * 200)
    client.query("last")
    made = weir.calls("first", "last")
    assert made["sendto"] <= 5, made


def test_one_client_with_a_prepared_statement(scene):
    weir = scene.weir(scene.mini(), kind=Traced, max_prepared_statements=100)
    client = weir.client()
    client.send(m.parse("echo one", "s1"), m.sync())
    client.result()
    ask(client, prepared)
    # the new name and the rest of the Bind go in one call, from two places
    assert weir.calls("first", "last") == times(QUERIES, Counter(epoll_wait=2, recvfrom=2, sendmsg=1, sendto=1))


def test_one_client_in_transactions(scene):
    weir = scene.weir(scene.mini(), kind=Traced)
    client = weir.client()
    client.query("warm")
    for text in ["first"] + ["between"] * (QUERIES - 1) + ["last"]:
        # the text is in the BEGIN, where the transaction begins
        assert client.query("BEGIN /* %s */" % text).status == "T"
        client.query("SELECT 1")
        assert client.query("COMMIT").status == "I"
    assert weir.calls("first", "last") == times(3 * QUERIES, ONE_QUERY)


def test_sixteen_clients_share_their_waits(scene):
    """Sixteen messages that have arrived are one wait, and each costs its recv and its send."""
    count, rounds = 16, 10
    fake = scene.fake()
    weir = scene.weir(fake, kind=Traced)
    clients = [weir.client() for _ in range(count)]
    for client in clients:
        client.send(m.query("warm"))
    servers = [fake.accept() for _ in range(count)]
    for turn in range(rounds + 2):
        # an answered server would take the next client's query
        for server in servers:
            server.expect_query()
        weir.hold()
        for server in servers:
            server.answer("1")
        weir.go_on()
        for client in clients:
            assert client.result().value == "1"
        weir.hold()
        for client in clients:
            client.send(m.query("round %d" % turn))
        weir.go_on()
    made = weir.calls("round 0", "round %d" % rounds)
    assert made == Counter(epoll_wait=2 * rounds, recvfrom=2 * rounds * count, sendto=2 * rounds * count)


def test_connect_query_and_disconnect(scene):
    """The total cost of a login, a query and the end."""
    weir = scene.weir(scene.mini(), kind=Traced)
    weir.client().query("warm")
    for text in ["first"] + ["between"] * (QUERIES - 1) + ["last"]:
        client = weir.client()
        client.query(text)
        client.send(m.terminate())
        # otherwise the next client might connect in the same turn
        client.expect_closed()
        client.close()
    made = weir.calls("first", "last")
    # OpenSSL's, before it gives random bytes: many cancel keys are made of one draw
    assert made.pop("getpid") <= 2, made
    # occasionally the listener looks for further connections after an accept
    assert made.pop("accept4") <= QUERIES * 1.1, made
    # epoll_wait: it comes, asks, is answered, leaves; recvfrom: the same, for its start-up packet is there when it is
    # accepted
    assert made == times(QUERIES, Counter(epoll_wait=4, recvfrom=4, sendto=3, epoll_ctl=2, close=1))


@pytest.mark.parametrize("rows, size", ((20000, 200), (20, 500000)), ids=("narrow", "wide"))
def test_large_result_uses_few_calls(scene, rows, size):
    """
    Calls per MB. How full a socket is depends on the speed of its far side, so these are upper bounds; for a slow client, memory is allocated and its
    socket is watched for room.
    """
    weir = scene.weir(scene.mini(), kind=Traced)
    client = weir.client()
    client.query("warm")
    client.send(m.query("rows %d %d" % (rows, size)))
    got, tail, part = 0, b"", bytearray(1 << 20)
    while tail != m.ready():
        count = client.sock.recv_into(part)
        got, tail = got + count, (tail + part[max(0, count - 6):count])[-6:]
    client.query("last")
    made = weir.calls("rows %d" % rows, "last")
    # 7.6 of each with a read buffer of 128 KiB
    assert (made["recvfrom"] + made["sendto"]) / got * 1e6 <= 20, made
    assert made.total() / got * 1e6 <= 30, made


@pytest.mark.parametrize("loops", (1, 5))
def test_turns_of_a_large_result_are_limited(scene, loops):
    """
    Between two waits, when all others have their turn, one connection passes on sbuf_loopcnt reads of the buffer's
    size and no more, however much it has: a stream can add no more than that to the latency of the others each time.
    """
    weir = scene.weir(scene.mini(), kind=Traced, sbuf_loopcnt=loops)
    client = weir.client()
    client.query("warm")
    client.send(m.query("rows 40 500000"))
    tail, part = b"", bytearray(1 << 20)
    while tail != m.ready():
        count = client.sock.recv_into(part)
        tail = (tail + part[max(0, count - 6):count])[-6:]
    client.query("last")
    longest = 0
    for turn in turns_of(weir.trace()):
        assert max(asked for reads in turn.values() for asked, _ in reads) <= 128 * 1024, turn
        longest = max([longest] + [len(reads) for reads in turn.values()])
    assert longest == 1 if loops == 1 else 1 < longest <= loops


@pytest.mark.parametrize("loops", (1, 5))
def test_turns_of_a_collected_message_are_limited(scene, loops):
    """A Parse that is too large for the read buffer is taken as a whole, which is no reason to take it all in one turn."""
    weir = scene.weir(scene.mini(), kind=Traced, sbuf_loopcnt=loops, tcp_socket_buffer=1 << 20)
    client = weir.client()
    text = "x" * 3000000
    weir.hold()
    writer = threading.Thread(target=client.send, args=(m.run(text, name="large") + m.sync(),))
    writer.start()
    weir.go_on()
    writer.join()
    assert client.result().value == text
    # and the one read that found the beginning
    assert max(len(reads) for turn in turns_of(weir.trace()) for reads in turn.values()) <= loops + 1


def test_many_streams_share_a_turn(scene):
    """
    When more than sixteen connections stream at once, each has one read between two waits. The more of them there are, the
    smaller are the reads: else a thousand streams would delay all other connections a thousand times as long as one does.
    """
    crowd, few, full, least = 40, 16, 128 * 1024, 16 * 1024
    fake = scene.fake()
    weir = scene.weir(fake, kind=Traced, default_pool_size=crowd, tcp_socket_buffer=1 << 20)
    clients = [weir.client() for _ in range(crowd)]
    servers = []
    for client in clients:
        client.send(m.query("stream"))
        servers.append(fake.accept())
        assert servers[-1].expect_query() == "stream"
    weir.hold()
    for server in servers:
        server.send(m.rows("x" * (full + full // 2)), m.ready())
    weir.go_on()
    for client in clients:
        assert len(client.result().value) == full + full // 2
    before, crowds = 0, 0
    for turn in turns_of(weir.trace()):
        streams = sum(reads[0][0] == reads[0][1] for reads in turn.values())
        if before > few:
            crowds += 1
            assert all(len(reads) == 1 for reads in turn.values()), turn
            assert max(asked for reads in turn.values() for asked, _ in reads) <= max(full * few // before, least), turn
        assert sum(len(reads) > 1 for reads in turn.values()) <= few, turn
        before = streams
    assert crowds


# Messages that are looked at one by one: of all connections in a turn, of each at the least. A connection that is readable and has been
# read, too, has its least share twice.
LOOKS, LEAST_LOOKS = 4096, 32
CROWD, FLOOD, ROOM = 12, 20000, 1 << 20
MOST = LOOKS + 2 * CROWD * LEAST_LOOKS


def passed_in_turns(weir, kind):
    """For each turn: bytes of messages of one type that were forwarded, and of those before the additional client's query."""
    turns = [[0, 0]]
    for line in weir.trace():
        if line.startswith("epoll_wait"):
            turns.append([0, 0])
        elif call := re.match(r'sendto\(\d+, "%s.*\) += (\d+)$' % kind, line):
            turns[-1][0] += int(call.group(1))
        elif line.startswith("recv") and "one more" in line:
            turns[-1][1] = turns[-1][0]
    return turns


def shares_turns(weir, message, each, most=MOST * 5):
    turns = passed_in_turns(weir, chr(message[0]))
    assert sum(passed for passed, _ in turns) >= CROWD * each * len(message)
    assert max(passed for passed, _ in turns) <= most
    assert max(before for _, before in turns) <= most


def flooding(scene, target):
    """pgweir, and clients in a transaction, one more than are to send or be sent a flood."""
    weir = scene.weir(target, kind=Traced, tcp_socket_buffer=ROOM)
    return weir, [weir.client(receive_buffer=ROOM) for _ in range(CROWD + 1)]


# four unnamed Parse messages count as one processed message, and each walk forwards two pieces of 8 KiB
@pytest.mark.parametrize("message, each, most", (
    (m.flush(), FLOOD, MOST * 5),
    (m.parse("SET a"), 9000, MOST * 4 * 14 + 2 * CROWD * 2 * 8192),
), ids=("flush", "parse"))
def test_small_messages_of_clients_share_a_turn(scene, message, each, most):
    """A read of messages that are processed one by one takes a hundred times as long as a read of data."""
    weir, clients = flooding(scene, scene.mini())
    for client in clients:
        assert not client.query("BEGIN").errors
    *crowd, other = clients
    weir.hold()
    for client in crowd:
        client.send(message * each, m.sync(), m.query("last"))
    other.send(m.query("one more"))
    weir.go_on()
    assert other.result().value == "one more"
    for client in crowd:
        client.read_until("Z")
        assert client.result().value == "last"
    shares_turns(weir, message, each, most)


@pytest.mark.parametrize("message, each", ((m.message("N", b"\0"), FLOOD), (m.message("S", b"\0\0"), 18000)), ids=("notice", "parameter"))
def test_small_messages_of_servers_share_a_turn(scene, message, each):
    fake = scene.fake()
    weir, clients = flooding(scene, fake)
    servers = []
    for client in clients:
        client.send(m.query("ask"))
        servers.append(fake.accept())
        servers[-1].expect_query("ask")
    *crowd, other = clients
    servers[-1].complete("BEGIN", "T")
    other.result()
    weir.hold()
    for server in servers[:-1]:
        server.send(message * each)
    other.send(m.query("one more"))
    weir.go_on()
    servers[-1].expect_query("one more")
    for client, server in zip(crowd, servers):
        server.answer("x")
        assert client.result().value == "x"
    shares_turns(weir, message, each, MOST * len(message))


def test_an_idle_server_is_read_in_small_pieces(scene):
    """All input is processed before a client gets the server: as much is read as can be processed."""
    fake = scene.fake()
    weir = scene.weir(fake, kind=Traced, tcp_socket_buffer=ROOM)
    client = weir.client()
    client.send(m.query("ask"))
    server = fake.accept()
    server.expect_query("ask")
    server.answer("x")
    assert client.result().value == "x"
    weir.hold()
    notice = m.message("N", b"idle")
    server.send(notice * FLOOD, m.error("the end", severity="FATAL"))
    weir.go_on()
    assert [message.type for message in server.drain()] == ["X"]
    turns = []
    for line in weir.trace():
        if line.startswith("epoll_wait"):
            turns.append(0)
        elif call := re.match(r'recvfrom\(\d+, "[^"]*idle.*\) += (\d+)$', line):
            turns[-1] += int(call.group(1))
    # the last of its reads may be as large as the first
    assert max(turns) <= 2 * LOOKS * len(notice)
    assert sum(turns) > FLOOD


def test_suspend_waits_for_messages_that_were_read(scene):
    """The messages have left the socket, so they must be sent before the console reports that nothing is pending."""
    weir = scene.weir(scene.mini(), kind=Traced, tcp_socket_buffer=ROOM)
    client, console = weir.client(), weir.client("admin", "pgbouncer")
    assert not client.query("BEGIN").errors
    weir.hold()
    client.send(m.flush() * FLOOD)
    console.send(m.query("SUSPEND"))
    weir.go_on()
    assert console.result().tags == ["SUSPEND"]
    lines = weir.trace()
    passed = [n for n, line in enumerate(lines) if re.match(r'sendto\(\d+, "H', line)]
    (answered,) = [n for n, line in enumerate(lines) if line.startswith("sendto") and "SUSPEND" in line]
    assert passed[-1] < answered
    console.send(m.query("RESUME"))
    console.result()


def test_early_input_of_an_unauthenticated_client_costs_nothing(scene, authority):
    """
    A client sends more than pgweir reads before login, during the look-up of its user. With TLS some of the bytes are in OpenSSL's buffers, about
    which epoll does not report.
    """
    fake = scene.fake()
    weir = scene.weir({"p0": scene.mini(), "p1": fake}, kind=Traced, auth_type="plain", auth_user="asker",
                      client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                      client_tls_key_file=authority.key("server"))
    stranger = weir.connect()
    stranger.start_tls(authority.client_context())
    stranger.send(m.startup(user="bob", database="p1"))
    assert lookups.asked_for(fake.accept())[0] == "bob"
    stranger.send(bytes(80000))
    client = weir.client()
    for _ in range(10):
        client.query("warm")
    ask(client, simple)
    # nor is there a wait that does not wait
    assert not [line for line in weir.between("first", "last") if re.match(r"epoll_wait\(.*, 0\) += 0", line)]
    assert weir.calls("first", "last") == times(QUERIES, ONE_QUERY)


def turns_of(trace):
    """For each time between two waits: {descriptor: [(bytes asked for, bytes got), ...]}; a read that got nothing left out."""
    turn = {}
    for line in trace:
        read = re.match(r"recvfrom\((\d+), .*, (\d+), MSG_DONTWAIT, NULL, NULL\) += (\d+)$", line)
        if line.startswith("epoll_wait"):
            if turn:
                yield turn
            turn = {}
        elif read:
            turn.setdefault(read.group(1), []).append((int(read.group(2)), int(read.group(3))))
