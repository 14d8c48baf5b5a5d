"""
Prepared statements whose texts change their meaning, compared with direct connections: see support/statements.py. PGWEIR_STATEMENT_SEEDS: number of
seeds; PGWEIR_STATEMENT_FIRST: the first seed.
"""
import os
import random

import pytest

from support import statements
from support.rounds import size
from support.wire import Client

BEGUN = "CREATE TEMP TABLE begun (); DROP TABLE begun"          # PostgreSQL's words depend on whether the session ever had a temporary table
STEPS = 150
SEEDS = int(os.environ.get("PGWEIR_STATEMENT_SEEDS", size(8, 200)))
FIRST = int(os.environ.get("PGWEIR_STATEMENT_FIRST", "1"))
DIRECT, THROUGH = "p2", "p3"


def connect(postgres, database):
    client = Client(postgres.port)
    client.login(user="postgres", database=database)
    client.query(BEGUN)
    return client


@pytest.fixture(scope="module")
def owners(postgres):
    """A connection to each of both databases, which repair their tables."""
    clients = [connect(postgres, database) for database in (DIRECT, THROUGH)]
    yield clients
    for client in clients:
        client.quit()


def run(clients, *texts):
    for client in clients:
        for text in texts:
            result = client.query(text)
            assert not result.errors, (text, result.errors)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_statements_as_on_a_dedicated_connection(scene, postgres, owners, seed):
    draw = random.Random(seed)
    run(owners, *statements.SETUP)
    keeps_state = draw.random() < 0.5
    servers = draw.randrange(2, 7)
    count = min(draw.randrange(1, 4), servers)
    holders = servers - count if keeps_state else servers - 1
    weir = scene.weir({THROUGH: postgres.target(THROUGH, user="postgres", connect_query="'%s'" % BEGUN)}, pool_mode="transaction",
                      session_state="full" if keeps_state else "off", server_round_robin=draw.randrange(2), default_pool_size=servers,
                      max_prepared_statements=draw.choice((2, 100)), server_tls_sslmode="disable")
    pairs = [statements.Pair(weir.client(database=THROUGH), connect(postgres, DIRECT)) for _ in range(count)]
    play = statements.Play(draw, pairs, [weir.client(database=THROUGH) for _ in range(holders)], servers, keeps_state)
    play.diverged = lambda: run(owners, statements.FILL)
    try:
        for _ in range(STEPS):
            play.step()
    except AssertionError as why:
        raise AssertionError("seed %d, %d servers, session_state %s\n%s\n%s" % (seed, servers, "full" if keeps_state else "off", play.context(), why)) from None
    finally:
        for pair in pairs:
            pair.quit()
