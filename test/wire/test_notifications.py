"""
The process ID in a notification: the notifying client gets its own from BackendKeyData, and other clients get another number, because the process ID
is half of its cancel key.
"""
import struct

from support import messages as m
from support.scenes import linked
from support.takeover import Replaced

QUERY = "SELECT 1"
SERVERS = 4194304             # no process of a server has a higher number


def heard(client):
    """The process id in the notification that comes next."""
    body = client.expect("A").body
    assert m.read_cstrings(body[4:])[:2] == ["news", "text"]
    return struct.unpack_from("!I", body)[0]


def heard_of(client, *others):
    """The number of another client's process as shown to the client: it belongs neither to a server nor to any client."""
    number = heard(client)
    assert number > SERVERS and number not in [client.pid] + [other.pid for other in others]
    return number


def news(server):
    """A notification by this server's process."""
    return m.notification(server.pid, "news", "text")


def ask(fake_server, client):
    client.send(m.query(QUERY))
    fake_server.expect_query(QUERY)
    fake_server.answer("x")
    client.result()


def two_modes(scene, fake, **options):
    """p0 has one server in transaction mode, p1 sessions."""
    return scene.weir({"p0": "host=127.0.0.1 port=%d pool_mode=transaction pool_size=1" % fake.port,
                       "p1": "host=127.0.0.1 port=%d" % fake.port}, pool_mode="session", **options)


def listener(fake, weir):
    """A client with a session, and its server."""
    client = weir.client(database="p1")
    client.send(m.query(QUERY))
    server = fake.accept()
    server.expect_query(QUERY)
    server.answer("x")
    client.result()
    return client, server


def test_own_notification(scene):
    """A listener ignores its own notifications by comparing process IDs."""
    fake = scene.fake()
    client, server = linked(fake, scene.weir(fake, pool_mode="session"))
    assert client.pid != server.pid
    server.send(news(server))
    assert heard(client) == client.pid
    client.send(m.query("NOTIFY"))
    server.expect_query("NOTIFY")
    server.send(news(server), m.command_complete("NOTIFY"), news(server), m.ready())
    assert heard(client) == client.pid
    client.expect("C")
    assert heard(client) == client.pid
    client.expect("Z")


def test_own_notification_in_a_transaction(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    other, server = linked(fake, weir)
    client = weir.client()
    client.send(m.query(QUERY))
    server.expect_query(QUERY)
    server.send(news(server), m.command_complete("NOTIFY"), m.ready())
    assert heard(client) == client.pid != other.pid


def test_notification_of_another_session(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session")
    listens, server = linked(fake, weir)
    speaks, its_server = linked(fake, weir)
    server.send(news(its_server), news(server))
    heard_of(listens, speaks)
    assert heard(listens) == listens.pid
    third, server = linked(fake, weir)
    server.send(news(its_server) * 2)
    assert heard_of(third, speaks) == heard_of(third, speaks)


def test_client_that_used_the_server_last(scene):
    """In transaction mode the server may be idle again, or at work for another client."""
    fake = scene.fake()
    weir = two_modes(scene, fake)
    listens, server = listener(fake, weir)
    first, shared = linked(fake, weir)
    server.send(news(shared))
    its_first = heard_of(listens, first)
    second = weir.client()
    second.send(m.query("BEGIN"))
    shared.expect_query("BEGIN")
    server.send(news(shared))
    its_second = heard_of(listens, second)
    assert its_first != its_second
    shared.complete("BEGIN", "T")
    second.result()
    second.send(m.query("COMMIT"))
    shared.expect_query("COMMIT")
    shared.complete("COMMIT")
    second.result()
    second.quit()
    weir.wait_pool("p0", cl_active=1)
    server.send(news(shared))
    assert heard(listens) == its_second


def test_processes_of_no_client(scene):
    """The IDs of a process outside of pgweir, of a process without a client so far, and of a process that has ended are not changed."""
    fake = scene.fake()
    weir = two_modes(scene, fake, server_idle_timeout=0)
    listens, server = listener(fake, weir)
    server.send(m.notification(77, "news", "text"))
    assert heard(listens) == 77
    weir.client()                       # the other pool lacks a server for the welcome, so that one is opened
    shared = fake.accept()
    weir.wait_pool("p0", sv_idle=1)
    server.send(news(shared))
    assert heard(listens) == shared.pid
    speaks = weir.client()
    ask(shared, speaks)
    shared.close()
    weir.wait_pool("p0", sv_idle=0)
    server.send(news(shared))
    assert heard(listens) == shared.pid


def test_equal_process_ids_of_two_servers(scene):
    """Servers at two ports have processes of one number."""
    one, two = scene.fake(), scene.fake()
    weir = scene.weir({"p0": one, "p1": two}, pool_mode="session")
    clients, servers = {}, {}
    for name, fake in (("p0", one), ("p1", two)):
        clients[name] = weir.client(database=name)
        clients[name].send(m.query(QUERY))
        servers[name] = fake.accept()
        servers[name].expect_query(QUERY)
        servers[name].answer("x")
        clients[name].result()
    listens = weir.client(database="p1")
    listens.send(m.query(QUERY))
    server = two.accept()
    server.expect_query(QUERY)
    server.answer("x")
    listens.result()
    assert servers["p0"].pid == servers["p1"].pid
    server.send(news(servers["p1"]))
    its_number = heard_of(listens, *clients.values())
    other = weir.client(database="p0")
    other.send(m.query(QUERY))
    server = one.accept()
    server.expect_query(QUERY)
    server.answer("x")
    other.result()
    server.send(news(servers["p0"]))
    assert heard_of(other, *clients.values()) != its_number


def test_notification_in_pieces(scene):
    """Split at every byte, and after every other message."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session")
    client, server = linked(fake, weir)
    server.dribble(news(server), m.notice("x"), news(server))
    assert heard(client) == client.pid
    client.expect("N")
    assert heard(client) == client.pid
    for cut in range(1, len(news(server))):
        server.send(news(server)[:cut])
        weir.barrier()
        server.send(news(server)[cut:])
        assert heard(client) == client.pid


def test_notification_that_is_too_short(scene):
    """The malformed message is forwarded unchanged."""
    fake = scene.fake()
    client, server = linked(fake, scene.weir(fake, pool_mode="session"))
    server.send(m.message("A", b"\0\0"), m.message("A"), news(server))
    assert [client.expect("A").body for _ in range(2)] == [b"\0\0", b""]
    assert heard(client) == client.pid


def test_notification_after_an_online_restart(scene):
    fake = scene.fake()
    weir = two_modes(scene, fake, kind=Replaced)
    listens, server = listener(fake, weir)
    speaks, shared = linked(fake, weir)
    weir.replace()
    server.send(news(server), news(shared))
    assert heard(listens) == listens.pid
    heard_of(listens, speaks)


def test_with_session_link(scene):
    """Process IDs of servers are not secret."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session", session_link="login")
    listens, server = weir.connect(), None
    listens.send(m.startup(user="app", database="p0"))
    server = fake.accept()
    while listens.read().type != "Z":
        pass
    server.send(m.notification(server.pid + 1, "news", "text"), news(server))
    assert [heard(listens), heard(listens)] == [server.pid + 1, server.pid]
