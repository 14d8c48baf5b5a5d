"""Names under which servers know statements: each server connection has names of its own, which no client can guess."""
import re

from support import messages as m
from support.prepared import HEAD, ONE, P1, Stage, let_go, occupy, use
from support.takeover import Replaced


def heads(fake):
    """Returns the prefixes of the names on each server connection, oldest connection first."""
    of_server = {}
    for _, pid, name, *_ in (entry for entry in fake.statements if entry[0] == "P"):
        of_server.setdefault(pid, set()).add(re.match(HEAD, name).group())
    assert all(len(found) == 1 for found in of_server.values()), of_server
    return [found.pop() for found in of_server.values()]


def test_each_server_connection_has_its_own_names(scene):
    stage = Stage(scene, pool_size=3)
    client = stage.client()
    client.send(P1, m.sync())
    client.expect_all("1Z")
    for busy in range(3):
        others = occupy(stage, busy)
        client.send(use("s1"), m.sync())
        assert client.result().value == ONE
        let_go(others)
    assert len(stage.fake.started) == 3 and len(set(heads(stage.fake))) == 3
    # the number is the statement's on every connection
    assert len({name.rpartition("_")[2] for _, _, name, *_ in stage.log("P")}) == 1


def test_another_connection_to_the_same_server_has_other_names(scene):
    stage = Stage(scene)
    client = stage.client()
    client.send(P1, m.sync())
    client.expect_all("1Z")
    for _ in range(5):
        stage.weir.admin("RECONNECT")
        client.send(use("s1"), m.sync())
        assert client.result().value == ONE
    assert len(set(heads(stage.fake))) == 6


def test_names_are_kept_in_an_online_restart(scene):
    """The server does not notice the restart, and has only the names that it received."""
    fake = scene.mini()
    weir = scene.weir(fake, kind=Replaced, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    for text, name in ((ONE, "a"), ("echo two", "b")):
        client.send(m.parse(text, name), m.sync())
        client.expect_all("1Z")
        weir.replace()
    for name in ("a", "b"):
        client.send(use(name), m.sync())
        assert client.result().errors == []
    client.send(m.parse("echo three", "c"), m.sync())
    client.expect_all("1Z")
    assert len([entry for entry in fake.statements if entry[0] == "P"]) == 3 and len(heads(fake)) == 1


def test_the_names_of_errors_are_unknown_too(scene):
    """An unknown statement name of a client is sent to the server as a name that nothing has, and that no client can construct."""
    stage = Stage(scene)
    first, second = stage.client(), stage.client()
    for client in (first, second):
        client.send(m.bind("missing"), m.sync())
        (error,) = client.result().errors
        assert error["M"] == 'prepared statement "missing" does not exist'
    names = {name for _, _, name in stage.log("B")}
    assert len(names) == 1 and all(re.fullmatch(HEAD + "0", name) for name in names)
    first.send(P1, m.sync())
    first.expect_all("1Z")
    first.send(P1, m.sync())
    (error,) = first.result().errors
    assert error["M"] == 'prepared statement "s1" already exists'
    assert any(re.fullmatch(HEAD + "again", name) for _, _, name, *_ in stage.log("P"))
