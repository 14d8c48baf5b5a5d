"""
Bytes of heap, with malloc's sizes, for one more idle client, known user, pool, server. The growth is divided by a large number of them, so that it
includes tables which double.

A bound is a few per cent above the use of today's code. Lower it with every gain.
"""
import pytest

from support import messages as m
from support.profilers import Weighed, fast_binary
from support.pgweir import Pgweir
from support.until import until

CLIENTS = 256
SIDE = 16           # users, and databases, of a square of pools


def grown(weir, open_client, count=CLIENTS):
    """Bytes per additional client. As many clients have connected and disconnected before, so that permanent memory is allocated already."""
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
    assert each <= 715, each


def test_idle_client_over_tls(scene, authority):
    """
    Nearly all of it belongs to OpenSSL 3.0: 7.6 KB for the struct, 1.9 for the keys of either direction, 0.9 for the session, 0.5 for its copy of the
    context's settings, 2 for keys, digests and lists that only the handshake needed. No call of its interface frees any of it; without a ticket, or
    with another curve or certificate, the result is the same.
    """
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
    assert each <= 15500, each


def test_idle_client_after_a_query(scene):
    """Memory of a query is freed, except the text of the unnamed statement, which belongs to the client until it is replaced."""
    weir = scene.weir(scene.mini(), kind=Weighed)

    def client():
        client = weir.client()
        assert len(client.query("x" * 3000).value) == 3000
        client.send(m.run("y" * 9000) + m.sync())
        assert len(client.result().value) == 9000
        return client

    each = grown(weir, client)
    assert each <= 9000 + 1020, each


def test_known_user(scene):
    def heap(count):
        # as long as md5 secrets are
        users = {"user%06d" % n: "md5" + 32 * "0" for n in range(count)}
        weir = scene.weir(scene.mini(), kind=Weighed, users=users)
        return weir.heap()

    counts = 1000, 3000
    few, many = (heap(count) for count in counts)
    each = (many - few) / (counts[1] - counts[0])
    assert each <= 245, each


def test_pool_and_server(scene):
    """A square of users and databases grows by combinations with new ones of both, of either, of neither."""
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
    assert pool <= 3800 and server <= 1391, (pool, server)


def test_prepared_statement(scene):
    """A statement is kept once, whichever client prepares it; for each client that knows it there is only its name for it."""
    count, text = 500, 64
    weir = scene.weir(scene.mini(), kind=Weighed, max_prepared_statements=2 * count)
    first, second = weir.client(), weir.client()

    def prepare(client, numbers):
        """Bytes for each of the statements."""
        before = weir.heap()
        for number in numbers:
            client.send(m.parse(("statement %d " % number).ljust(text, "x"), "s%d" % number), m.sync())
            assert client.result().types == "1Z"
        return (weir.heap() - before) / len(numbers)

    # the second half of as many: the tables have doubled before, mostly; names are random, and a table with a long chain doubles early
    prepare(first, range(count))
    prepare(second, range(count))
    new = prepare(first, range(count, 2 * count))
    known = prepare(second, range(count, 2 * count))
    assert new <= text + 464 and known <= 200, (new, known)


class Bare(Pgweir):
    """As installed: memory that the allocator keeps is part of the result."""

    def command(self):
        return [fast_binary(), self.ini_path]


def test_memory_of_many_disconnected_clients_is_freed(scene):
    """Although one client of each hundred stays longer than the rest, and the last one to connect stays, above all others in the heap."""
    weir = scene.weir(scene.mini(), kind=Bare, max_client_conn=3100, listen_backlog=1024, nofile=4096)
    weir.client()
    before = weir.memory()
    crowd = [weir.client() for _ in range(3000)]
    weir.barrier()
    taken = weir.memory() - before
    late, stays = crowd[::100], crowd.pop()
    for client in crowd:
        if client not in late:
            client.close()
    until(lambda: weir.memory() - before < taken / 2, "memory is given back")
    for client in late:
        client.close()
    until(lambda: weir.memory() - before < taken / 3, "and more of it when all have left")
    assert stays.query("SELECT 1").value
