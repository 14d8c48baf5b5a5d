"""
Each client gets the answers to its own requests: random conversations, many at once through a pool of few servers, each
compared message by message with the same conversation on a connection of its own.
"""
import pytest

from support import conversation
from support.rounds import rounds
from support.truth import play
from support.wire import Client

MODES = ("transaction", "session", "statement")


def talks_of(dialect, seed, mode):
    return [conversation.Conversation("%d.%d" % (seed, n), dialect, 15, mode != "statement") for n in range(6)]


def leaving(mode):
    """In session mode a client that stays would keep the others waiting for its server."""
    return 0.4 if mode == "session" else 0.05


@pytest.mark.parametrize("vandals", [0, 3])
@pytest.mark.parametrize("mode", MODES)
def test_truth_with_a_played_server(scene, mode, vandals):
    fake = scene.mini()
    for seed in rounds(2):
        size = 1 + seed % 3
        weir = scene.weir(fake, pool_mode=mode, default_pool_size=size, server_login_retry=0)

        def direct():
            client = Client(fake.port)
            client.login(user="app", database="p0")
            return client

        play(weir, direct, talks_of(conversation.MINI, seed, mode), seed, size, leaving(mode), vandals)
        weir.stop()


@pytest.mark.parametrize("vandals", [0, 3])
@pytest.mark.parametrize("mode", MODES)
def test_truth_with_a_real_server(scene, postgres, mode, vandals):
    postgres.execute("DROP TABLE IF EXISTS sink", database="p0")
    for statement in conversation.SQL.tables:
        postgres.execute(statement, database="p0")
    postgres.execute("ALTER TABLE sink OWNER TO app", database="p0")
    for seed in rounds(2):
        size = 1 + seed % 3
        weir = scene.weir(postgres, pool_mode=mode, default_pool_size=size, server_login_retry=0)

        def direct():
            client = Client(postgres.port)
            client.login(user="app", database="p0", password="app-secret")
            return client

        play(weir, direct, talks_of(conversation.SQL, seed, mode), seed, size, leaving(mode), vandals)
        weir.stop()
    postgres.execute("DROP TABLE sink", database="p0")
