"""
A console client shares each turn of the loop with all other clients: it may send any number of commands at once, but a few run per turn. Input after
a waiting command is held back by TCP.
"""
import pytest

from support import messages as m
from support.scenes import asked, linked
from support.threads import run_in_threads
from support.until import until

COUNT = 100
SV_ACTIVE = 6


def active_servers(result):
    """The column sv_active of pool p0 in each SHOW POOLS of an answer."""
    return [int(row[SV_ACTIVE]) for row in result.rows if row[0] == b"p0"]


def one_query(console):
    return [m.query("SHOW POOLS;" * COUNT)], lambda: active_servers(console.result())


def queries(console):
    return [m.query("SHOW POOLS")] * COUNT, lambda: [value for _ in range(COUNT) for value in active_servers(console.result())]


@pytest.mark.parametrize("form", [one_query, queries])
def test_other_clients_are_served_between_commands(scene, form):
    """
    The console's own answers show the order: another client's query, which arrived after the console's commands in the same turn, has a server in all
    answers except those of that turn.
    """
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    client, server = linked(fake, weir)
    console = weir.client(user="stats", database="pgbouncer")
    asks, answers = form(console)
    with weir.one_turn():
        console.send(*asks)
        client.send(m.query("asked"))
    server.expect_query("asked")
    assert answers()[4:] == [1] * (COUNT - 4)
    server.answer("x")
    assert client.result().value == "x"


def test_input_after_a_waiting_command_is_held_by_tcp(scene):
    """Input after a waiting command was once read, and the client ended after 256 KB."""
    count = 20000
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    client, server = asked(fake, weir)
    console, admin = (weir.client(user="admin", database="pgbouncer") for _ in range(2))
    console.send(m.query("PAUSE p0"))
    weir.wait_log("PAUSE 'p0' command issued")

    def held():
        return max(row["recv_pos"] for row in weir.show("SOCKETS"))

    def answers():
        until(lambda: held() >= 65536, "it is read no more")
        weir.barrier()
        assert held() < 65536 + 131072
        server.answer("x")
        server.expect("X")
        assert console.result().tags == ["PAUSE"]
        for _ in range(count):
            assert console.result().tags == ["SET"]

    run_in_threads(lambda: console.send(m.query("SET client_encoding = utf8") * count), answers)
    assert client.result().value == "x"
    assert admin.query("RESUME p0").tags == ["RESUME"]
