"""
session_state = full, compared with direct connections: random statements of several clients alternate on few servers, and each client gets the same
answers as a dedicated connection. PGWEIR_SESSION_SEEDS: number of seeds; PGWEIR_SESSION_FIRST: the first seed.
"""
import os
import random

import pytest

from support import sessions
from support.rounds import size
from support.takeover import Replaced
from support.wire import Client

OPERATOR = ("RECONNECT", "RELOAD", "-R", "SHOW PINS")
BEGUN = "CREATE TEMP TABLE begun (); DROP TABLE begun"          # PostgreSQL's words depend on whether the session ever had a temporary table
STEPS = 400
SEEDS = int(os.environ.get("PGWEIR_SESSION_SEEDS", size(10, 300)))
FIRST = int(os.environ.get("PGWEIR_SESSION_FIRST", "1"))


@pytest.fixture(scope="module")
def prepared(postgres):
    for sql in sessions.SETUP:
        for database in ("p2", "p3"):                       # locks and channels are a database's own
            postgres.execute(sql, database=database)
    return postgres


def direct(postgres, **startup):
    client = Client(postgres.port)
    client.login(user="postgres", database="p2", **startup)
    client.query(BEGUN)
    return client


def close(pair):
    for client in pair:
        client.quit()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_same_answers_as_on_a_dedicated_connection(scene, prepared, seed):
    draw = random.Random(seed)
    database = prepared.target("p3", user="postgres", connect_query="'%s'" % BEGUN)
    servers = draw.randrange(2, 7)
    clients = servers - 1                                   # each may be pinned, and one server may be the listener
    weir = scene.weir({"p3": database}, Replaced, pool_mode="transaction", session_state="full", server_round_robin=draw.randrange(2),
                      default_pool_size=servers, max_prepared_statements=draw.choice((2, 100)), server_tls_sslmode="disable")

    def pair():
        startup = draw.choice(({}, {"options": "-c intervalstyle=postgres_verbose"}))
        return weir.client(database="p3", **startup), direct(prepared, **startup)
    pairs = [pair() for _ in range(clients)]
    told, hear, unlistened = [], set(), set()
    # values of sequences; linked: clients that may have had a server when the pool's first client asked for a value, or in a transaction at RECONNECT
    has_asked, askers, drawn, may_lose, linked = False, set(), set(), set(), set()
    stale = set()       # clients whose unnamed statement is older than a change of definitions (doc/differences.md)

    def renew(k):
        close(pairs[k])
        pairs[k] = pair()
        told.append("%d: leaves" % k)
        for each in (unlistened, askers, drawn, may_lose, linked):
            each.discard(k)
    try:
        for _ in range(STEPS):
            k = draw.randrange(clients)
            if draw.random() < 0.02:
                renew(k)
                hear.discard(k)
            elif draw.random() < 0.02:
                command = draw.choice(OPERATOR)
                if command == "RECONNECT":                  # ends the listener and its clients
                    for n in hear:
                        renew(n)
                    hear.clear()
                    may_lose |= drawn - askers              # the pool takes their servers
                    linked |= set(range(clients))
                told.append(command)
                weir.replace() if command == "-R" else weir.admin(command)
            steps, texts = zip(*(sessions.draw_step(draw, k) for _ in range(draw.choice((1, 1, 1, 1, 2, 4)))))
            # the client's channels are known only at the end of a pipeline
            if ("UNLISTEN" in str(texts) or "DISCARD ALL" in str(texts)) and "NOTIFY" in str(texts):
                steps, texts = steps[:1], texts[:1]
            if k in unlistened and "NOTIFY" in str(texts):
                continue
            if sessions.binds_stale(stale, k, clients, texts):
                continue
            told.append("%d: %s" % (k, " | ".join(texts)))
            if "LISTEN" in told[-1]:
                hear.add(k)
            for text in texts:
                if "nextval" in text or "setval" in text:
                    drawn.add(k)
                    may_lose |= {k} if not has_asked or k in linked else set()
                if "currval" in text or "lastval" in text:
                    linked |= set() if has_asked else set(range(clients))
                    has_asked = True
                    askers.add(k)
                if "DISCARD" in text:
                    askers.discard(k)
            expected = sessions.answer(pairs[k][1], steps)
            got = sessions.answer(pairs[k][0], steps)
            unlistened -= {k} if expected[-1] == ("Z", b"I") else set()
            if "UNLISTEN" in told[-1] and expected[-1] != ("Z", b"I"):     # it counts from the next request after the transaction on
                unlistened.add(k)
            is_idle = expected[-1] == ("Z", b"I")
            if len(steps) > 1:                              # a notification may come with the answer to a query before its own
                expected, got = (sorted(each, key=lambda part: part[0] == "A") for each in (expected, got))
            if got != expected and k in may_lose and sessions.has_lost_value(got, expected):
                renew(k)
                hear.discard(k)
                continue
            assert got == expected, "seed %d\n%s" % (seed, "\n".join(told[-40:]))
            # setval sets the value of currval only
            if "lastval" in str(texts) and "E" not in [part[0] for part in expected]:
                may_lose.discard(k)
            if is_idle and draw.random() < 0.1:             # within a transaction only the server of the transaction is queried
                told.append("%d: what it listens to" % k)
                expected, got = ([row[0] for row in client.query("SELECT pg_listening_channels()").rows] for client in reversed(pairs[k]))
                assert got == expected, "seed %d\n%s" % (seed, "\n".join(told[-40:]))
    finally:
        for both in pairs:
            close(both)
