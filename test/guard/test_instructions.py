"""
User-space instructions per query: of pgweir's own object, then including libevent and libc. The difference of two runs, of which the second has twice
the queries, is exact for pgweir's own instructions.

A bound is a few per cent above the count of today's code with gcc 12. Lower it with every gain.
"""
import http.client
import json
import os
import re

import pytest

from support import messages as m
from support.failover import WATCHER, pair
from support.failover import target as target_of
from support.profilers import UNDER_VALGRIND, Counted, CountedWhenStill
from support.mini import serve_mini
from support.ports import free_port
from support.until import until

QUERIES = 100
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def simple(_, client):
    client.query("one")


def extended(_, client):
    client.send(m.run("one"), m.sync())
    client.result()


def prepared(_, client):
    client.send(m.bind("s1"), m.describe("P"), m.execute(), m.sync())
    client.result()


def transaction(_, client):
    for text in ("BEGIN", "one", "COMMIT"):
        client.query(text)


def thousand_rows(_, client):
    client.query("rows 1000 200")


def visit(weir, _):
    client = weir.client()
    client.query("one")
    client.send(m.terminate())
    # otherwise the next client might connect in the same turn
    client.expect_closed()
    client.close()


def executed(scene, fake, ask, count, **settings):
    """Instructions by object, in the whole life of a pgweir with one client and this number of queries."""
    weir = scene.weir(fake, kind=Counted, **settings)
    client = weir.client()
    if ask is prepared:
        client.send(m.parse("one", "s1"), m.sync())
        client.result()
    for _ in range(1 + count):
        ask(weir, client)
    client.send(m.terminate())
    client.expect_closed()
    weir.stop()
    return weir.executed()


def for_each_query(scene, ask, **settings):
    """(instructions of our own, all of them)"""
    fake = scene.mini()
    once, twice = (executed(scene, fake, ask, count, **settings) for count in (QUERIES, 2 * QUERIES))
    assert once["pgweir"] > 0, once
    return (twice["pgweir"] - once["pgweir"]) / QUERIES, (twice.total() - once.total()) / QUERIES


@pytest.mark.parametrize("ask, own, everything", (
    (simple, 1485, 3110),
    (extended, 2498, 4136),
    (transaction, 3365, 8250),
    # 25 for each row; how many reads bring them depends on the pace of their sender
    (thousand_rows, 30000, 45000),
    (visit, 10600, 20000),
))
def test_instructions(scene, ask, own, everything):
    got = for_each_query(scene, ask)
    assert got[0] <= own and got[1] <= everything, got


@pytest.mark.parametrize("ask, own", ((simple, 1723), (extended, 2800), (transaction, 4007)))
def test_instructions_with_session_state(scene, ask, own):
    """Nothing in the texts or tags tells of a change of the session, and the catalogue is known."""
    got = for_each_query(scene, ask, pool_mode="transaction", session_state="full")
    assert got[0] <= own, got


def test_instructions_of_a_prepared_statement(scene):
    got = for_each_query(scene, prepared, max_prepared_statements=100)
    assert got[0] <= 3170 and got[1] <= 4837, got


def executed_with_roles(scene, hosts, target, texts, count):
    """Instructions of pgweir for these queries of a client, and for its end. No watcher asks meanwhile."""
    weir = scene.weir({"p0": target}, kind=CountedWhenStill, host_check_user=WATCHER)
    client = weir.client()
    if "host=127.0.0.1,127" in target:
        asked = [host.asked for host in hosts]
        until(lambda: all(host.asked > before + 2 for host, before in zip(hosts, asked)), "both hosts are known", UNDER_VALGRIND)
    for text in texts:
        assert client.query(text).errors == []
    weir.stop_clock()
    for _ in range(count):
        for text in texts:
            client.query(text)
    client.send(m.terminate())
    client.expect_closed()
    weir.stop()
    return weir.executed()["pgweir"]


@pytest.mark.parametrize("texts, most", ((("one",), 148), (("BEGIN", "one", "COMMIT"), 304), (("BEGIN READ ONLY", "one", "COMMIT"), 5300)))
def test_instructions_with_reads(scene, texts, most):
    """What reads = transaction adds to queries on the primary, and to a transaction that goes to the standby: how many reads bring the answers of the
    latter depends on the pace of the servers."""
    hosts = pair(scene)
    for host in hosts:
        serve_mini(host.fake)
    plain, reads = ([executed_with_roles(scene, hosts, target, texts, count) for count in (QUERIES, 2 * QUERIES)]
                    for target in ("host=127.0.0.1 port=%d" % hosts[0].port, target_of(hosts, reads="transaction", reads_on_primary="off")))
    added = ((reads[1] - reads[0]) - (plain[1] - plain[0])) / QUERIES
    assert added <= most, (plain, reads, added)


def asked(scene, pools, *targets):
    """Instructions for requests of the page. Each pool has a client."""
    port = free_port()
    weir = scene.weir({"*": "host=127.0.0.1 port=%d" % scene.mini().port}, kind=Counted, http_listen_port=port)
    clients = [weir.client(database="db%03d" % number) for number in range(pools)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=UNDER_VALGRIND)
    for target in targets:
        connection.request("GET", target)
        answer = connection.getresponse()
        assert len(json.loads(answer.read())) == (pools if "pools" in target else 1)
    connection.close()
    for client in clients:
        client.send(m.terminate())
    weir.stop()
    return weir.executed().total()


def test_rows_of_the_page(scene):
    """A row of the page's pools, and the clients of a pool, which depend on no other pool: the page asks all the time."""
    with open(os.path.join(TOP, "src", "web", "page.html"), encoding="utf-8") as f:
        columns = re.search('POOL_COLUMNS = "(.*)"', f.read()).group(1)
    pools, clients = "/api/pools?pools=" + columns, "/api/clients?db=db007&user=app&most=100"
    one, more = asked(scene, 100, pools), asked(scene, 100, pools, pools, pools)
    assert (more - one) / 200 <= 8200, (more - one) / 200
    one, more = asked(scene, 100, clients), asked(scene, 100, clients, clients, clients)
    assert (more - one) / 2 <= 130000, (more - one) / 2


@pytest.mark.parametrize("ask, own, everything", ((simple, 2410, 4400), (extended, 3450, 5480)))
def test_instructions_with_query_stats(scene, ask, own, everything):
    """The cost in the text of the setting."""
    got = for_each_query(scene, ask, query_stats=1)
    assert got[0] <= own and got[1] <= everything, got


def test_trap_57_long_rows_over_tls(scene, authority):
    """The cost of a row grew with the square of its length, because written bytes were examined again for each record."""
    fake = scene.mini(tls=authority.server_context())

    def cost(size):
        weir = scene.weir(fake, kind=Counted, server_tls_sslmode="require", client_tls_sslmode="require",
                          client_tls_cert_file=authority.cert("server"), client_tls_key_file=authority.key("server"))
        client = weir.connect()
        client.start_tls(authority.client_context())
        client.login(user="app", database="p0")
        client.query("rows 1 %d" % size)
        client.send(m.terminate())
        client.expect_closed()
        weir.stop()
        return weir.executed().total()

    one, two, four = (cost(times * 500000) for times in (1, 2, 4))
    # 2 where it is a line, 4 where it is a square
    assert (four - two) / (two - one) <= 2.5, (one, two, four)
