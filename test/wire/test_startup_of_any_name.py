"""Start-up parameters that pgweir does not track, where the server cannot set them; see also live/test_startup_of_any_name.py."""
import pytest

from support import messages as m
from support.scenes import transactions

CANCELED = ("canceling statement due to statement timeout", "57014")


def set_on(server):
    """Returns the pooler's query that sets parameters, which the test must answer."""
    return m.read_cstrings(server.expect("Q").body)[0]


def begin(scene, **parameters):
    """A client that had its query answered, and the server that has the parameters now; and another client."""
    fake = scene.fake()
    weir = transactions(scene, fake, server_login_retry=0)
    one, other = weir.client(**parameters), weir.client(options="-c app.b=2")
    one.send(m.query("first"))
    server = fake.accept()
    if parameters:
        assert "'app.a'" in set_on(server)
        server.answer("set")
    server.expect_query("first")
    server.answer("first")
    assert one.result().value == "first"
    return fake, weir, one, other, server


def test_time_limit_of_the_previous_client(scene):
    """The time limit ends that server, and the other client gets a new one."""
    fake, weir, one, other, server = begin(scene, options="-c app.a=1 -c statement_timeout=1")
    other.send(m.query("second"))
    set_on(server)
    server.send(m.error(*CANCELED), m.ready())
    server.expect("X")
    fresh = fake.accept()
    assert "statement_timeout" not in set_on(fresh)
    fresh.answer("set")
    fresh.expect_query("second")
    fresh.answer("second")
    assert other.result().value == "second"
    weir.wait_log("closing because: parameters of the session cannot be set back")
    assert [row["count"] for row in weir.show("REASONS") if row["reason"] == "PARAMS_UNKNOWN"] == [1]


def test_own_time_limit_in_session_mode(scene):
    """The server was opened with the time limit: another server would not help."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session", default_pool_size=1, server_login_retry=0)
    client = weir.client(statement_timeout="1", application_name="me")
    client.send(m.query("first"))
    server = fake.accept()
    set_on(server)
    server.send(m.error(*CANCELED), m.ready())
    assert [m.read_error(message.body)["M"] for message in client.drain() if message.type == "E"] == [CANCELED[0]]
    assert len(fake.started) == 1


@pytest.mark.parametrize("words", [CANCELED, ("invalid value", "22023"), ("x" * 100000, "22023")], ids=["canceled", "invalid", "long"])
def test_own_time_limit_on_a_new_server(scene, words):
    _, weir, one, other, server = begin(scene)
    other.send(m.query("second"))
    set_on(server)
    server.send(m.error(*words), m.ready())
    errors = [m.read_error(message.body)["M"] for message in other.drain() if message.type == "E"]
    assert len(errors) == 1 and (errors[0] == words[0] or len(words[0]) > 1000)
    one.send(m.query("third"))
    server.expect_query("third")
    server.answer("third")
    assert one.result().value == "third"
