"""
Bytes of heap, as malloc takes them, for one more idle client, known user, pool, server. Growth by so many of them,
divided, so that tables which double are in it.

A bound is a few per cent above what today's code takes. Lower it with every gain.
"""
from support import messages as m
from support.instruments import Weighed

CLIENTS = 256
SIDE = 16           # users, and databases, of a square of pools
KIB = 1024


def grown(weir, open_client, count=CLIENTS):
    """Bytes for each of so many clients more. As many have come and gone before: what stays for good is there."""
    for client in [open_client() for _ in range(count)]:
        client.send(m.terminate())
        client.expect_closed()
        client.close()
    before = weir.heap()
    for _ in range(count):
        open_client()
    return (weir.heap() - before) / count


def test_idle_client(scene):
    weir = scene.weir(scene.mini(), kind=Weighed)
    each = grown(weir, weir.client)
    assert each <= 0.8 * KIB, each


def test_idle_client_over_tls(scene, authority):
    """Nearly all of it is OpenSSL's: 8.4 KiB for an SSL that has said nothing yet, 5 KiB for its keys and session."""
    weir = scene.weir(scene.mini(), kind=Weighed, client_tls_sslmode="require",
                      client_tls_cert_file=authority.cert("server"), client_tls_key_file=authority.key("server"))
    context = authority.client_context()

    def client():
        client = weir.connect()
        client.start_tls(context)
        client.login(user="app", database="p0")
        client.query("so that the tickets are read as well")
        return client

    each = grown(weir, client, CLIENTS // 2)
    assert each <= 15.2 * KIB, each


def test_idle_client_that_has_asked(scene):
    """What a query needed is given back."""
    weir = scene.weir(scene.mini(), kind=Weighed)

    def client():
        client = weir.client()
        assert len(client.query("x" * 3000).value) == 3000
        client.send(m.run("y" * 9000) + m.sync())
        assert len(client.result().value) == 9000
        return client

    each = grown(weir, client)
    assert each <= 0.8 * KIB, each


def test_known_user(scene):
    def heap(count):
        # as long as md5 secrets are
        users = {"user%06d" % n: "md5" + 32 * "0" for n in range(count)}
        weir = scene.weir(scene.mini(), kind=Weighed, users=users)
        return weir.heap()

    counts = 1000, 3000
    few, many = (heap(count) for count in counts)
    each = (many - few) / (counts[1] - counts[0])
    assert each <= 0.25 * KIB, each


def test_pool_and_server(scene):
    """A square of users and databases grows by what needs new ones of both, of either, of neither."""
    users, databases = (["%s%02d" % (word, n) for n in range(2 * SIDE)] for word in ("u", "d"))
    fake = scene.mini()
    weir = scene.weir(dict.fromkeys(databases, fake), kind=Weighed, users=dict.fromkeys(users, "secret"))

    def visit(some_users, some_databases):
        """Heap with the servers that the visits opened, and without."""
        for user in some_users:
            for database in some_databases:
                client = weir.client(user, database)
                client.query("one")
                client.send(m.terminate())
                client.expect_closed()
                client.close()
        with_servers = weir.heap()
        weir.admin("RECONNECT")
        return with_servers, weir.heap()

    first, second = slice(SIDE), slice(SIDE, None)
    visit(users[first], databases[first])
    visit(users[first], databases[second])
    _, before = visit(users[second], databases[first])
    with_servers, after = visit(users[second], databases[second])
    pool, server = (after - before) / SIDE ** 2, (with_servers - after) / SIDE ** 2
    assert pool <= KIB and server <= 0.85 * KIB, (pool, server)
