"""
Trap 89: errors that are lost or duplicated when a server ends: two on a shutdown, a FATAL hidden by the pooler's own SET, a crash that leaves its
client waiting. The server is ended in each phase; the client gets one true error, or none if it would be inside a message, and in each case the end
of its connection.
"""
import pytest

from support import messages as m
from support.live import NEVER

FATAL = m.error("terminating connection due to administrator command", "57P01", "FATAL")


def begin_query(client, server):
    client.send(m.query("running"))
    server.expect_query("running")


def send_half_the_rows(client, server):
    begin_query(client, server)
    server.send(m.row_description("x"), m.data_row("1"))
    assert client.expect_all("TD")


def send_half_a_row(client, server):
    begin_query(client, server)
    server.send(m.row_description("x"), m.data_row("long" * 100)[:-50])
    client.expect("T")


def begin_transaction(client, server):
    client.send(m.query("BEGIN"))
    server.expect_query("BEGIN")
    server.complete("BEGIN", "T")
    assert client.result().status == "T"


def begin_copy(client, server):
    begin_query(client, server)
    server.send(m.copy_in_response())
    client.expect("G")
    client.send(m.copy_data(b"1\n"))
    assert server.read().type == "d"


def begin_pipeline(client, server):
    client.send(m.parse("a"), m.bind(), m.execute(), m.sync(), m.parse("b"), m.bind(), m.execute(), m.sync())
    server.expect_all("PBES")
    server.send(m.parse_complete(), m.bind_complete(), m.command_complete("SELECT 0"), m.ready())
    assert client.expect_all("12CZ")
    server.expect_all("PBES")


def flush_half(client, server):
    client.send(m.parse("a"), m.flush())
    server.expect_all("PH")
    server.send(m.parse_complete())
    client.expect("1")


PHASES = {
    "in a query": begin_query, "between rows": send_half_the_rows, "in a row": send_half_a_row,
    "in a transaction": begin_transaction, "in COPY": begin_copy, "in a pipeline": begin_pipeline,
    "after a Flush": flush_half,
}


@pytest.mark.parametrize("words", ["FATAL", "crash"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_trap_89_one_true_error(scene, mode, phase, words):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode=mode, server_login_retry=NEVER)
    client = weir.client()
    server = fake.accept()
    PHASES[phase](client, server)
    if words == "FATAL" and phase != "in a row":
        server.send(FATAL)
    server.close()
    errors = [m.read_error(got.body) for got in client.drain() if got.type == "E"]
    if phase == "in a row":
        assert errors == []
    elif words == "FATAL":
        assert [(e["S"], e["C"], e["M"]) for e in errors] == [
            ("FATAL", "57P01", "terminating connection due to administrator command")]
    else:
        assert [(e["S"], e["C"], e["M"]) for e in errors] == [("FATAL", "08P01", "server conn crashed?")]
    # and the next client is served by another server
    other = weir.client()
    other.send(m.query("next"))
    second = fake.accept()
    second.expect_query("next")
    second.answer("fine")
    assert other.result().value == "fine"


@pytest.mark.parametrize("words", ["FATAL", "crash"])
def test_trap_89_end_while_parameters_are_set(scene, words):
    """The client waits for its own query, which has not been sent: the server's words are the truth about why."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    first = weir.client()
    server = fake.accept()
    second = weir.client(TimeZone="Asia/Tokyo")
    second.send(m.query("never sent"))
    assert b"set_config" in server.expect("Q").body
    if words == "FATAL":
        server.send(FATAL)
    server.close()
    errors = [m.read_error(got.body) for got in second.drain() if got.type == "E"]
    assert len(errors) == 1 and errors[0]["S"] == "FATAL"
    assert errors[0]["M"] == ("terminating connection due to administrator command" if words == "FATAL" else
                              "server conn crashed?")
    assert not first.has_input()


def test_trap_89_end_of_an_idle_server_reaches_no_client(scene):
    """The same holds for a server that has served no client yet: it was shut down, and the next one works."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction", server_login_retry=NEVER)
    client = weir.client()
    server = fake.accept()
    server.send(FATAL)
    server.close()
    weir.wait_log("FATAL terminating connection")
    client.send(m.query("next"))
    second = fake.accept()
    second.expect_query("next")
    second.answer("fine")
    assert client.result().value == "fine"


def test_trap_89_shutdown_of_a_server_that_has_answered(scene):
    """The FATAL comes with the answer: one answer, no error, and the client continues with another server."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction")
    client = weir.client()
    server = fake.accept()
    client.send(m.query("one"))
    server.expect_query("one")
    server.send(m.rows("1"), m.ready("I"), FATAL)
    server.close()
    assert client.result().value == "1"
    weir.barrier()
    assert not client.has_input()
