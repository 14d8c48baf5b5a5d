"""
Prepared statements in any order (support/preparing.py), by many clients at once on few servers with room for few statements: every answer is the same
as on a dedicated connection.
"""
import random
import threading

import pytest

from support import conversation
from support import messages as m
from support.prepared import SHARED, check_names, held
from support.preparing import Preparing
from support.rounds import rounds
from support.truth import at_rest, expected, play
from support.until import DEADLINE
from support.wire import Client

MODES = ("transaction", "statement")
CACHES = (1, 2, 200)


def talks_of(dialect, seed, mode, people=5, parts=25):
    return [Preparing("%s.%d" % (seed, n), dialect, parts, mode != "statement") for n in range(people)]


def direct_to(server):
    def direct():
        client = Client(server.port)
        client.login(user="app", database="p0", password="app-secret")
        return client
    return direct


def check_statements(fake, weir, cache):
    """A name is one statement for ever; and a server that may keep few has few, whatever single batches brought."""
    check_names(fake)
    with weir.client() as client:
        client.send(m.parse("echo one more", "more"), m.sync())
        client.expect_all("1Z")
    assert held(fake.session_of(fake.statements[-1][1])) <= cache


@pytest.mark.parametrize("vandals", [0, 3])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("mode", MODES)
def test_prepared_with_a_played_server(scene, mode, cache, vandals):
    truth = scene.mini()
    for seed in rounds(3):
        fake, size = scene.mini(), 1 + seed % 2
        weir = scene.weir(fake, pool_mode=mode, default_pool_size=size, server_login_retry=0, max_prepared_statements=cache)
        play(weir, direct_to(truth), talks_of(conversation.MINI, seed, mode), seed, size, vandals=vandals)
        check_statements(fake, weir, cache)
        weir.stop()


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("mode", MODES)
def test_prepared_with_a_server_that_writes_byte_by_byte(scene, mode, cache):
    truth, fake = scene.mini(), scene.mini(byte_by_byte=True)
    weir = scene.weir(fake, pool_mode=mode, default_pool_size=1, max_prepared_statements=cache, pkt_buf=512)
    talks = [Preparing("bytes %d" % n, conversation.MINI, 12, mode != "statement", small=True) for n in range(3)]
    play(weir, direct_to(truth), talks, 0, 1)
    check_statements(fake, weir, cache)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("mode", MODES)
def test_prepared_with_a_real_server(scene, postgres, mode, cache):
    postgres.execute("DROP TABLE IF EXISTS sink", database="p0")
    for statement in conversation.SQL.tables:
        postgres.execute(statement, database="p0")
    postgres.execute("ALTER TABLE sink OWNER TO app", database="p0")
    for seed in rounds(3):
        size = 1 + seed % 2
        weir = scene.weir(postgres, pool_mode=mode, default_pool_size=size, max_prepared_statements=cache)
        play(weir, direct_to(postgres), talks_of(conversation.SQL, seed, mode), seed, size)
        with weir.client() as client:
            client.send(m.parse("SELECT 'one more'", "more"), m.sync())
            client.expect_all("1Z")
            there = client.query("SELECT count(*) FROM pg_prepared_statements WHERE name ~ '^%s$'" % SHARED.pattern).value
            assert int(there) <= cache
        weir.stop()
    postgres.execute("DROP TABLE sink", database="p0")


@pytest.mark.parametrize("cache", CACHES)
def test_prepared_in_pieces_of_any_size(scene, cache):
    """One client after the other, each cut at every byte of a short conversation."""
    truth, fake = scene.mini(), scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1, max_prepared_statements=cache)
    for seed in rounds(3):
        talk = Preparing("cut %d" % seed, conversation.MINI, 6, small=True)
        with direct_to(truth)() as client:
            answers = expected(client, talk)
        draw = random.Random(seed)
        for _ in range(20):
            client = weir.client()
            for (name, steps), answer in zip(talk.parts, answers):
                def send(data):
                    for start in range(0, len(data), step):
                        client.send(data[start:start + step])
                step = draw.choice((1, 2, 3, 5, 7, 11, 64, 511, 512, 513, 4096))
                got = conversation.hold(client, steps, send)
                assert got == answer, (talk.label, name, step, got, answer)
            client.quit()
    at_rest(weir, 1)
    check_statements(fake, weir, cache)


@pytest.mark.parametrize("cache", (1, 200))
def test_prepared_while_servers_come_and_go(scene, cache):
    """Servers are replaced whenever they are released, reset queries run, and the console interferes."""
    truth = scene.mini()
    for seed in rounds(2):
        fake = scene.mini()
        weir = scene.weir(fake, pool_mode="transaction", default_pool_size=2, max_prepared_statements=cache,
                          server_reset_query="DISCARD ALL", server_reset_query_always=seed % 2)
        over, console = threading.Event(), weir.console()

        def interfere():
            draw = random.Random("console %d" % seed)
            with console.cursor() as cursor:
                while not over.is_set():
                    cursor.execute(draw.choice(("RECONNECT", "SHOW CLIENTS", "SHOW SERVERS", "SHOW POOLS", "RELOAD",
                                                "PAUSE p0", "SHOW SOCKETS")))
                    if cursor.statusmessage == "PAUSE":
                        cursor.execute("RESUME p0")

        disturber = threading.Thread(target=interfere)
        disturber.start()
        try:
            play(weir, direct_to(truth), talks_of(conversation.MINI, "served %d" % seed, "transaction"), seed, 2)
        finally:
            over.set()
            disturber.join(DEADLINE)
        check_statements(fake, weir, cache)
        weir.stop()
