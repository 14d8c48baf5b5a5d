"""Asynchronous messages of a server when it ends, and which clients get them."""
import threading

import pytest

from support import messages as m
from support.scenes import asked
from support.until import DEADLINE, until
from support.wire import Closed

CLOSE_REASON = m.error("terminating connection due to administrator command", "57P01", "FATAL")


def test_error_after_the_last_answer_is_not_sent_to_the_client(scene):
    """The client had its answer and would not have kept the server, but was ended with it."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction")
    client, server = asked(fake, weir)
    server.send(m.rows("1"), m.ready("I"), CLOSE_REASON)
    server.close()
    assert client.result().value == "1"
    client.send(m.query("second"))
    second = fake.accept()
    second.expect_query("second")
    second.answer("2")
    assert client.result().value == "2"
    weir.wait_log("server said: FATAL terminating connection due to administrator command")


@pytest.mark.parametrize("words", (CLOSE_REASON, m.rows("of no client") + m.ready()), ids=("fatal", "rows"))
def test_error_after_the_login_is_not_sent_to_the_client(scene, words):
    """The FATAL arrived together with the end of the login, and ended a client that got the new server in the same turn."""
    may_end, has_ended = threading.Event(), threading.Event()

    def login(session):
        if len(fake.started) != 2:
            session.welcome()
            return
        assert may_end.wait(DEADLINE)
        reported = b"".join(m.parameter_status(*pair) for pair in session.parameters.items())
        session.send(m.authentication_ok(), reported, m.backend_key_data(session.pid, session.key), m.ready(), words)
        has_ended.set()
        raise Closed("it has said its last word")

    fake = scene.fake(login=login)
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=2, min_pool_size=2, server_login_retry=0)
    other, client = weir.client(), weir.client()
    other.send(m.query("first"))
    fake.accept().expect_query("first")
    until(lambda: len(fake.started) == 2, "another server is opened")
    with weir.one_turn():
        may_end.set()
        assert has_ended.wait(DEADLINE)
        client.send(m.query("second"))
    server = fake.accept()
    server.expect_query("second")
    server.answer("2")
    assert client.result().value == "2"


def test_error_in_a_session_is_sent_to_the_client(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session")
    client, server = asked(fake, weir)
    server.send(m.rows("1"), m.ready("I"), CLOSE_REASON)
    server.close()
    assert client.result().value == "1"
    (words,) = client.drain()
    assert m.read_error(words.body)["C"] == "57P01"


def test_error_in_a_transaction_is_sent_to_the_client(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction")
    client, server = asked(fake, weir, "BEGIN")
    server.send(m.command_complete("BEGIN"), m.ready("T"), CLOSE_REASON)
    server.close()
    assert client.result().tags == ["BEGIN"]
    (words,) = client.drain()
    assert m.read_error(words.body)["C"] == "57P01"


def test_nothing_follows_a_fatal_error(scene):
    """The pooler answered messages after the FATAL of a server that was still connected, as far as it could do so by itself."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction")
    client, server = asked(fake, weir, "BEGIN")
    server.send(m.command_complete("BEGIN"), m.ready("T"))
    client.result()
    client.send(m.parse("one", "s1"), m.sync())
    server.expect_all("PDS")
    server.send(m.parse_complete(), m.parameter_description(), m.no_data(), m.ready("T"))
    client.result()
    server.send(CLOSE_REASON)
    assert m.read_error(client.expect("E").body)["C"] == "57P01"
    client.send(m.close("S", "s1"), m.flush(), m.sync())
    server.expect_all("HS")
    server.close()
    assert client.drain() == []


def test_nothing_follows_a_fatal_error_after_the_poolers_query(scene):
    """A server ends directly after the answer to the pooler's SET: the client received ParameterStatus messages after the FATAL."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction")
    first, server = asked(fake, weir)
    server.answer("1")
    first.result()
    client = weir.client(DateStyle="German")
    client.send(m.query("second"))
    assert b"set_config" in server.expect("Q").body
    server.send(m.parameter_status("DateStyle", "German, DMY"), m.rows("German"), m.ready("I"), CLOSE_REASON)
    assert [message.type for message in client.drain()] == ["E"]
