"""
Checks answers against a direct connection: random conversations, many at once through a pool of few servers, each compared
message by message with the same conversation on a connection of its own.
"""
import random

from . import conversation
from .threads import run_in_threads
from .until import until
from .wire import Closed


def pieces(client, draw):
    """Sends in one write, or in a few that end anywhere."""
    def send(data):
        cuts = sorted(draw.randrange(len(data)) for _ in range(draw.choice((0, 0, 1, 3))))
        for start, end in zip([0] + cuts, cuts + [len(data)]):
            client.send(data[start:end])
    return send


def expected(client, talk):
    return [conversation.hold(client, steps) for _, steps in talk.parts]


def talker(weir, talk, answers, draw, leaves):
    """leaves: how likely it is after each part that the client comes back as another."""
    def run():
        client = None
        for (name, steps), answer in zip(talk.parts, answers):
            client = client or weir.client()
            got = conversation.hold(client, steps, pieces(client, draw))
            assert got == answer, (talk.label, name, got, answer)
            if draw.random() < leaves:
                client.quit()
                client = None
        if client:
            client.quit()
    return run


def vandal(weir, talk, draw, count):
    """Begins the same work as the other clients and disconnects at some byte. Some of its requests get cancelled."""
    def run():
        for _ in range(count):
            data = b"".join(step for step in draw.choice(talk.parts)[1] if isinstance(step, bytes))
            client = weir.connect()
            try:
                client.login(user="app", database="p0")
                sent = draw.choice((len(data), draw.randrange(len(data))))
                client.send(data[:sent])
                if draw.random() < 0.3:
                    request = weir.cancel(client)
                    if draw.random() < 0.5:
                        request.drain()
                    request.close()
                if sent == len(data) and draw.random() < 0.5:
                    client.read()
            except (Closed, OSError):
                pass
            draw.choice((client.close, client.abort))()
    return run


def at_rest(weir, size):
    """Nothing is left over, and the pool has its whole capacity."""
    until(lambda: not [c for c in weir.show("CLIENTS") if c["database"] == "p0"], "all clients are gone")

    def is_free():
        row = weir.pool("p0")
        return row["sv_active"] == row["sv_tested"] == row["sv_login"] == row["cl_waiting"] == 0
    until(is_free, "all servers are free")
    assert weir.pool("p0")["sv_idle"] <= size


def play(weir, direct, talks, seed, size, leaves=0.0, vandals=0):
    """direct() gives a connection without pgweir."""
    answers = []
    for talk in talks:
        with direct() as client:
            answers.append(expected(client, talk))
    works = [talker(weir, talk, answer, random.Random("%s talker" % talk.label), leaves) for talk, answer in zip(talks, answers)]
    works += [vandal(weir, talks[n], random.Random("%d vandal %d" % (seed, n)), len(talks[n].parts)) for n in range(vandals)]
    run_in_threads(*works)
    at_rest(weir, size)
