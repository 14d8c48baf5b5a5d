"""pg_terminate_backend and pg_cancel_backend of a number that BackendKeyData told."""
import struct

import pytest

from support import messages as m
from support.live import ended_with
from support.takeover import Replaced
from support.until import until

TERMINATE, CANCEL = "SELECT pg_terminate_backend(%s)", "SELECT pg_cancel_backend(%s)"
ENDED = ("terminating connection due to administrator command", "57P01")
MODES = {"transaction": {"pool_mode": "transaction"}, "statement": {"pool_mode": "statement"}, "session": {"pool_mode": "session"},
         "off": {"pool_mode": "transaction", "session_state": "off"}}


def by_query(client, sql, pid):
    client.send(m.query(sql % pid))


def by_parse(client, sql, pid):
    client.send(m.run(sql % pid) + m.sync())


def bound(name, pid, binary):
    value = struct.pack("!i", pid) if binary else str(pid).encode()
    return m.message("B", b"\0" + m.cstring(name) + struct.pack("!HHHi", 1, int(binary), 1, len(value)) + value + struct.pack("!H", 0))


def by_parameter(client, sql, pid, binary=False):
    client.send(m.parse(sql % "$1") + bound("", pid, binary) + m.execute() + m.sync())


def by_binary(client, sql, pid):
    by_parameter(client, sql, pid, binary=True)


def by_name(client, sql, pid):
    """Parsed once for all numbers."""
    name = sql[10:15]
    if name not in client.__dict__.setdefault("parsed", set()):
        client.parsed.add(name)
        client.send(m.parse(sql % "$1::int", name) + m.sync())
        client.expect_all("1Z")
    client.send(bound(name, pid, False) + m.execute() + m.sync())


HOW = [by_query, by_parse, by_parameter, by_binary, by_name]


@pytest.fixture(params=MODES)
def weir(scene, postgres, request):
    weir = scene.weir({"p0": postgres}, default_pool_size=3, **MODES[request.param])
    weir.mode = request.param
    return weir


def skip_statements_of_sessions(weir, how):
    if weir.mode == "session" and how is not by_query:
        pytest.skip("pgweir does not know the statements of clients in session mode")


def value_of(client):
    result = client.result()
    assert not result.errors, result.errors
    return result.value


@pytest.mark.parametrize("how", HOW)
def test_the_own_number(weir, how):
    skip_statements_of_sessions(weir, how)
    client, other = weir.client(), weir.client()
    how(client, CANCEL, client.pid)
    # the server may have finished before it notices
    result = client.result()
    assert [error["C"] for error in result.errors] == ["57014"] or result.value == "t"
    assert client.query("SELECT 1").value == "1"
    how(client, TERMINATE, client.pid)
    ended_with(client, *ENDED)
    assert other.query("SELECT 1").value == "1"


@pytest.mark.parametrize("how", HOW)
def test_another_client(weir, how):
    """Idle, and in a transaction; its server is not in that transaction any more."""
    skip_statements_of_sessions(weir, how)
    client = weir.client()
    for begin in ["SELECT 1", "BEGIN; SELECT pg_advisory_xact_lock(7)"][:1 if weir.mode == "statement" else 2]:
        target = weir.client()
        target.query(begin)
        how(client, TERMINATE, target.pid)
        assert value_of(client) == "t"
        ended_with(target, *ENDED)
        how(client, TERMINATE, target.pid)
        assert value_of(client) == "f"
    until(lambda: client.query("SELECT pg_try_advisory_xact_lock(7)").value == "t", "its transaction is over")


@pytest.mark.parametrize("how", HOW)
def test_what_is_left_to_postgres(weir, how):
    """Another role's client, a cancel of another client, an unknown number, the number of a server, and a failed transaction."""
    client, target, rival = weir.client(), weir.client(), weir.client("rival")
    for sql, pid in (TERMINATE, rival.pid), (CANCEL, target.pid), (TERMINATE, 2 ** 31 - 1), (CANCEL, 1):
        how(client, sql, pid)
        assert value_of(client) == "f", sql
    if weir.mode != "statement":
        client.query("BEGIN")
        client.query("fail")
        how(client, TERMINATE, target.pid)
        assert [error["C"] for error in client.result().errors] == ["25P02"]
        client.query("ROLLBACK")
    for other in target, rival:
        assert other.query("SELECT 1").value == "1"
    # a server's own number is PostgreSQL's matter
    pid = int(rival.query("SELECT pg_backend_pid()").value)
    how(client, TERMINATE, pid)
    assert "42501" in [error["C"] for error in client.result().errors]


def test_statements_are_kept_in_an_online_restart(scene, postgres):
    weir = scene.weir({"p0": postgres}, kind=Replaced, pool_mode="transaction", default_pool_size=2)
    client, target = weir.client(), weir.client()
    by_name(client, TERMINATE, 1)
    assert value_of(client) == "f"
    weir.replace()
    by_name(client, TERMINATE, target.pid)
    assert value_of(client) == "t"
    ended_with(target, *ENDED)
