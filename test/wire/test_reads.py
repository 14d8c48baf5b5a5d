"""
Read-only transactions of clients of a primary (reads = transaction): the messages of each server and of the client.

Played servers: see support/failover.py. A message that arrives at the wrong server is an error of the scene, because the right one waits for it.
"""
import pytest

from support import messages as m
from support.failover import SILENCE, TERMINATED, WATCHER, Host, pair, primaries, target
from support.live import NEVER
from support.until import until

BEGIN = "BEGIN READ ONLY"
READ = "SELECT i FROM t"
CONFLICT = m.error("canceling statement due to conflict with recovery", "40001")


class Stage:
    """A primary, a standby, and pgweir with clients of the primary."""

    def __init__(self, scene, more=None, **settings):
        self.primary, self.standby = hosts = pair(scene)
        settings = {"server_login_retry": 0, "host_check_user": WATCHER, "pool_mode": "transaction", **settings}
        self.weir = scene.weir({"p0": target(hosts, **{"reads": "transaction", "reads_on_primary": "off", **(more or {})})}, **settings)

    def client(self, **parameters):
        """pgweir knows both hosts."""
        until(lambda: [row["role"] for row in self.weir.show("HOSTS")] == ["primary", "standby"] or
              sorted(str(row["role"]) for row in self.weir.show("HOSTS")) == ["primary", "standby"], "both roles are known")
        return self.weir.client(**parameters)

    def begin(self, text=BEGIN, tag="BEGIN"):
        client = self.client()
        client.send(m.query(text))
        result = client.result()
        assert (result.tags, result.status) == ([tag], "T")
        return client


@pytest.fixture
def stage(scene):
    return Stage(scene)


def first_client(stage):
    """A client that was served by the primary, so that both roles are known."""
    client = stage.weir.client()
    client.send(m.query("SELECT warm"))
    server = stage.primary.accept()
    server.expect_query("SELECT warm")
    server.answer("x")
    assert client.result().value == "x"
    until(lambda: sorted(str(row["role"]) for row in stage.weir.show("HOSTS")) == ["primary", "standby"], "both roles are known")
    return client, server


def begun(server, text=BEGIN, tag="BEGIN"):
    server.expect_query(text)
    server.complete(tag, "T")


def read_here(client, host, text=READ, begin=BEGIN):
    client.send(m.query(text))
    server = host.accept()
    begun(server, begin)
    server.expect_query(text)
    server.answer("1", status="T")
    result = client.result()
    assert (result.value, result.status) == ("1", "T")
    return server


def committed(client, server, text="COMMIT"):
    client.send(m.query(text))
    server.expect_query(text)
    server.complete(text)
    assert client.result().status == "I"


@pytest.mark.parametrize("text, tag", [(BEGIN, "BEGIN"), ("begin isolation level repeatable read, read only;", "BEGIN"),
                                       ("START TRANSACTION READ ONLY", "START TRANSACTION")])
def test_read_only_transaction_runs_on_a_standby(stage, text, tag):
    client = stage.begin(text, tag)
    client.send(m.query(READ))
    server = stage.standby.accept()
    begun(server, text, tag)
    server.expect_query(READ)
    server.answer("1", status="T")
    assert client.result().value == "1"
    client.send(m.query("SELECT 2"))
    server.expect_query("SELECT 2")
    server.answer("2", status="T")
    assert client.result().value == "2"
    committed(client, server)
    # outside of it
    client.send(m.query(READ))
    server = stage.primary.accept()
    server.expect_query(READ)
    server.answer("3")
    assert client.result().value == "3"


@pytest.mark.parametrize("begin, first", [
    ("BEGIN", READ), ("BEGIN READ WRITE", READ), ("BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE", READ), ("/* pgweir: primary */ BEGIN READ ONLY", READ),
    ("BEGIN READ ONLY; SELECT 1", READ),
    ("BEGIN READ ONLY; SELECT 1; COMMIT; INSERT INTO t VALUES (1)", READ)])
def test_other_transactions_run_on_the_primary(stage, begin, first):
    """Host trap 52."""
    client = stage.client()
    client.send(m.query(begin))
    server = stage.primary.accept()
    server.expect_query(begin)
    server.complete("BEGIN", "T")
    assert client.result().tags == ["BEGIN"]
    client.send(m.query(first))
    server.expect_query(first)
    server.answer("1", status="T")
    assert client.result().value == "1"


@pytest.mark.parametrize("text", ["SELECT pg_advisory_lock(1)", "INSERT INTO t VALUES (1)", "SELECT 1; SELECT 2", "SELECT pg_export_snapshot()",
                                  "SET TRANSACTION READ WRITE", "SET TRANSACTION SNAPSHOT '1-1'", "/* pgweir: primary */ SELECT 1", "SHOW transaction_read_only"])
def test_first_statement_for_the_primary(stage, text):
    """Host traps 41, 53 and 54."""
    client = stage.begin()
    client.send(m.query(text))
    server = stage.primary.accept()
    begun(server)
    server.expect_query(text)
    server.answer("1", status="T")
    assert client.result().value == "1"


@pytest.mark.parametrize("text, tag", [("COMMIT", "COMMIT"), ("rollback work;", "ROLLBACK"), ("END", "COMMIT"), ("ABORT TRANSACTION", "ROLLBACK")])
def test_transaction_without_a_statement(stage, text, tag):
    client = stage.begin()
    client.send(m.query(text))
    result = client.result()
    assert (result.tags, result.status) == ([tag], "I")
    client.send(m.query("SELECT 1"))
    server = stage.primary.accept()
    server.expect_query("SELECT 1")
    server.answer("1")
    assert client.result().value == "1"


def test_sync_within_a_transaction(stage):
    client = stage.begin()
    client.send(m.sync())
    assert client.expect("Z").body == b"T"
    read_here(client, stage.standby)


def test_extended_protocol(stage):
    client = stage.begin()
    client.send(m.parse(READ), m.bind(), m.describe("P"), m.execute(), m.sync())
    server = stage.standby.accept()
    begun(server)
    server.expect_all("PBDES")
    server.send(m.parse_complete(), m.bind_complete(), m.row_description("a"), m.data_row("1"), m.command_complete("SELECT 1"), m.ready("T"))
    assert client.result().value == "1"
    committed(client, server)


def test_batch_that_only_prepares(stage):
    """Its answer has no CommandComplete, and ends with the second ReadyForQuery after the BEGIN."""
    client = stage.begin()
    client.send(m.parse(READ), m.describe("S", ""), m.sync())
    server = stage.standby.accept()
    begun(server)
    assert [server.read().type for _ in range(3)] == ["P", "D", "S"]
    server.send(m.parse_complete(), m.parameter_description(), m.no_data(), m.ready("T"))
    assert client.result().status == "T"


def test_begin_in_a_batch(stage):
    """As pgjdbc sends it."""
    client = stage.client()
    client.send(m.parse(BEGIN), m.bind(), m.execute(), m.parse(READ), m.bind(), m.describe("P"), m.execute(), m.sync())
    server = stage.standby.accept()
    server.expect_all("PBEPBDES")
    server.send(m.parse_complete(), m.bind_complete(), m.command_complete("BEGIN"), m.parse_complete(), m.bind_complete(), m.row_description("a"),
                m.data_row("1"), m.command_complete("SELECT 1"), m.ready("T"))
    assert client.result().value == "1"
    committed(client, server)


def test_begin_and_statement_in_one_packet(stage):
    """As Npgsql sends it."""
    client = stage.client()
    client.send(m.query(BEGIN) + m.parse(READ) + m.bind() + m.execute() + m.sync())
    server = stage.standby.accept()
    begun(server)
    server.expect_all("PBES")
    server.send(m.parse_complete(), m.bind_complete(), m.data_row("1"), m.command_complete("SELECT 1"), m.ready("T"))
    client.expect_all("CZ12DCZ")


def test_write_behind_the_end_of_a_transaction(stage):
    """All in one packet: the write needs the primary."""
    client = stage.client()
    client.send(m.query(BEGIN) + m.query(READ) + m.query("COMMIT") + m.query("INSERT INTO t VALUES (1)"))
    server = stage.standby.accept()
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    server.expect_query("COMMIT")
    server.complete("COMMIT")
    server = stage.primary.accept()
    server.expect_query("INSERT INTO t VALUES (1)")
    server.complete("INSERT 0 1")
    client.expect_all("CZTDCZCZCZ")


@pytest.mark.parametrize("text", ["COMMIT; INSERT INTO t VALUES (1)", "end work;; INSERT INTO t VALUES (1);", "/* c */ COMMIT TRANSACTION; SELECT 1"])
def test_query_that_goes_on_behind_the_transaction(stage, text):
    """The primary gets all of it, in a transaction of the same kind."""
    client = stage.begin()
    read_here(client, stage.standby)
    client.send(m.query(text))
    server = stage.primary.accept()
    begun(server)
    server.expect_query(text)
    server.send(m.command_complete("COMMIT"), m.command_complete("INSERT 0 1"), m.ready())
    result = client.result()
    assert (result.tags, result.status) == (["COMMIT", "INSERT 0 1"], "I")


@pytest.mark.parametrize("text, moves", [("ROLLBACK; INSERT INTO t VALUES (1)", True), ("COMMIT; INSERT INTO t VALUES (1)", False)])
def test_query_that_goes_on_behind_an_aborted_transaction(stage, text, moves):
    """A COMMIT would be answered as ROLLBACK there only."""
    client = stage.begin()
    server = read_here(client, stage.standby)
    client.send(m.query("SELECT 1 / 0"))
    server.expect_query("SELECT 1 / 0")
    server.send(m.error("division by zero", "22012"), m.ready("E"))
    assert client.result().status == "E"
    client.send(m.query(text))
    if moves:
        server = stage.primary.accept()
        begun(server)
    server.expect_query(text)
    server.send(m.command_complete("ROLLBACK"), m.command_complete("INSERT 0 1"), m.ready())
    assert client.result().tags == ["ROLLBACK", "INSERT 0 1"]


def test_savepoint_is_no_end(stage):
    client = stage.begin()
    server = read_here(client, stage.standby)
    client.send(m.query("ROLLBACK TO a; SELECT 2"))
    server.expect_query("ROLLBACK TO a; SELECT 2")
    server.answer("2", status="T")
    assert client.result().value == "2"


LOCK = "SELECT pg_advisory_xact_lock(1)"
INSTEAD = "this statement belongs on the primary"
REFUSED = {
    "query": (m.query(LOCK), "Q"),
    "long": (m.query(" " * 70000 + LOCK), "Q"),
    "several": (m.query("SELECT 1; " + LOCK), "Q"),
    "unicode": (m.query("""SELECT U&"pg_adv\\0069sory_lock"(1)"""), "Q"),
    "reload": (m.query("SELECT pg_reload_conf()"), "Q"),
    "extended": (m.parse(LOCK) + m.bind() + m.execute() + m.sync(), "PCBES"),
    "named": (m.parse(LOCK, "a") + m.bind(statement="a") + m.execute() + m.sync(), "PBES"),
}


def refused(client, server, kinds):
    first, *_ = server.expect_all(kinds)
    assert INSTEAD.encode() in first.body and b"advisory" not in first.body
    server.send(m.error("syntax error", "42601"), m.ready("E"))
    result = client.result()
    (error,) = result.errors
    assert (error["S"], error["C"], result.status) == ("ERROR", "25001", "E") and INSTEAD in error["M"] and "pgweir: primary" in error["H"]
    client.send(m.query("ROLLBACK"))
    server.expect_query("ROLLBACK")
    server.complete("ROLLBACK")
    assert client.result().status == "I"


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize("which", REFUSED)
def test_later_statement_for_the_primary(stage, which, byte_by_byte):
    """A standby would execute it."""
    request, kinds = REFUSED[which]
    client = stage.begin()
    server = read_here(client, stage.standby)
    if byte_by_byte and which != "long":
        client.dribble(request)
    else:
        client.send(request)
    refused(client, server, kinds)
    client.send(m.query("SELECT 2"))
    server = stage.primary.accept()
    server.expect_query("SELECT 2")
    server.answer("2")
    assert client.result().value == "2"


def test_later_use_of_a_statement_for_the_primary(stage):
    client, server = first_client(stage)
    client.send(m.parse(LOCK, "a") + m.sync())
    server.expect_all("PDS")
    server.send(m.parsed(), m.ready())
    client.result()
    client.send(m.query(BEGIN))
    client.result()
    asked = stage.standby.asked
    until(lambda: stage.standby.asked > asked + 4, "the standby is as fresh as this client")
    server = read_here(client, stage.standby)
    client.send(m.bind("a") + m.execute() + m.sync())
    refused(client, server, "PES")


@pytest.mark.parametrize("status", ["E", "T"])
def test_later_statement_that_a_host_may_execute(scene, status):
    """In an aborted transaction, or on the primary."""
    stage = Stage(scene, FIRST if status == "T" else None)
    client = stage.begin()
    server = read_here(client, stage.primary if status == "T" else stage.standby)
    if status == "E":
        client.send(m.query("SELECT 1 / 0"))
        server.expect_query("SELECT 1 / 0")
        server.send(m.error("division by zero", "22012"), m.ready("E"))
        client.result()
    client.send(m.query(LOCK))
    server.expect_query(LOCK)
    server.send(m.error("it is the server's", "25P02"), m.ready("E"))
    assert client.result().errors[0]["C"] == "25P02"


@pytest.mark.parametrize("failure", ["conflict", "other", "fatal", "close", "after begin", "byte by byte"])
@pytest.mark.parametrize("hand", ["simple", "extended"])
def test_error_of_a_standby_is_asked_of_the_primary(stage, failure, hand):
    """Host traps 30 and 59. The primary gets the BEGIN of the client, too."""
    request, kinds, before = {
        "simple": (m.query(READ), "Q", b""),
        "extended": (m.parse(READ) + m.bind() + m.execute() + m.sync(), "PBES", m.parse_complete() + m.bind_complete()),
    }[hand]
    client = stage.begin()
    client.send(request)
    server = stage.standby.accept()
    server.expect_query(BEGIN)
    server.expect_all(kinds)
    begin = m.command_complete("BEGIN") + m.ready("T")
    if failure == "conflict":
        server.send(begin, before, CONFLICT, m.ready("E"))
    elif failure == "other":
        server.send(begin, m.error("relation does not exist", "42P01"), m.ready("E"))
    elif failure == "fatal":
        server.send(begin, before, TERMINATED)
        server.close()
    elif failure == "close":
        server.close()
    elif failure == "after begin":
        server.send(begin)
        server.close()
    else:
        server.dribble(begin, before, CONFLICT, m.ready("E"))
    server = stage.primary.accept()
    begun(server)
    server.expect_all(kinds)
    server.send(before, m.data_row("1"), m.command_complete("SELECT 1"), m.ready("T"))
    result = client.result()
    assert (result.value, result.status, result.errors) == ("1", "T", [])
    committed(client, server)
    # the next transaction goes to a standby again, as soon as the standby is as fresh as this answer
    asked = stage.standby.asked
    until(lambda: stage.standby.asked > asked + 4, "the standby has answered")
    client.send(m.query(BEGIN))
    client.result()
    read_here(client, stage.standby)


def test_error_of_the_primary_is_the_answer(scene):
    stage = Stage(scene)
    client = stage.begin()
    client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(BEGIN)
    server.expect_query(READ)
    server.close()
    server = stage.primary.accept()
    begun(server)
    server.expect_query(READ)
    server.send(m.error("division by zero", "22012"), m.ready("E"))
    result = client.result()
    assert ([error["C"] for error in result.errors], result.status) == (["22012"], "E")
    client.send(m.query("ROLLBACK"))
    server.expect_query("ROLLBACK")
    server.complete("ROLLBACK")
    assert client.result().status == "I"


def test_begin_that_is_cancelled_at_the_server(stage):
    """The statement behind it runs outside of the transaction: the client gets one answer, which says that the outcome is unknown."""
    client = stage.begin()
    client.send(m.query("INSERT INTO t VALUES (1)"))
    server = stage.primary.accept()
    server.expect_query(BEGIN)
    server.send(m.error("canceling statement due to user request", "57014"), m.ready("I"))
    server.expect_query("INSERT INTO t VALUES (1)")
    assert m.read_error(client.expect("E").body)["C"] == "08007"
    client.expect_closed()


# --- a first request that is cancelled before it has a server

CANCELED = BEGIN + "\n; ROLLBACK TO \"canceled by pgweir's client\""
ABORTED = m.error("current transaction is aborted", "25P02")


@pytest.fixture(name="cancelled")
def _cancelled(scene):
    """A client whose transaction is aborted, and has no server; and the stage."""
    stage = Stage(scene, default_pool_size=1)
    holder = stage.begin()
    held = read_here(holder, stage.standby)
    client = stage.begin()
    client.send(m.query(READ))
    until(lambda: sum(row["cl_waiting"] for row in stage.weir.show("POOLS")) == 1, "the read waits")
    stage.weir.cancel(client)
    result = client.result()
    assert ([error["C"] for error in result.errors], result.status) == (["57014"], "E")
    committed(holder, held)
    return client, stage


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK"])
def test_end_of_a_transaction_that_was_cancelled(cancelled, text):
    client, stage = cancelled
    client.send(m.query(text))
    result = client.result()
    assert (result.tags, result.errors, result.status) == (["ROLLBACK"], [], "I")
    # the next one is as any other
    client.send(m.query(BEGIN))
    assert client.result().status == "T"
    client.send(m.query("INSERT INTO t VALUES (1)"))
    server = stage.primary.accept()
    begun(server)
    server.expect_query("INSERT INTO t VALUES (1)")
    server.complete("INSERT 0 1", "T")
    assert client.result().tags == ["INSERT 0 1"]


def abort(server):
    server.expect_query(CANCELED)
    server.send(m.command_complete("BEGIN"), m.error("savepoint does not exist", "3B001"), m.ready("E"))


def test_statement_in_a_transaction_that_was_cancelled(cancelled):
    """It must not be executed outside of the transaction: PostgreSQL refuses all statements up to the end of the transaction."""
    client, stage = cancelled
    client.send(m.query("INSERT INTO t VALUES (1)"))
    server = stage.primary.accept()
    abort(server)
    server.expect_query("INSERT INTO t VALUES (1)")
    server.send(ABORTED, m.ready("E"))
    result = client.result()
    assert ([error["C"] for error in result.errors], result.status) == (["25P02"], "E")
    committed(client, server, "ROLLBACK")
    client.send(m.query("INSERT INTO t VALUES (2)"))
    server.expect_query("INSERT INTO t VALUES (2)")
    server.complete("INSERT 0 1")
    assert client.result().tags == ["INSERT 0 1"]


def test_rollback_in_a_batch_of_a_transaction_that_was_cancelled(cancelled):
    client, stage = cancelled
    client.send(m.sync())
    assert client.result().status == "E"
    client.send(m.parse("ROLLBACK"), m.bind(), m.execute(), m.sync())
    server = stage.primary.accept()
    abort(server)
    server.expect("P"), server.expect("B"), server.expect("E"), server.expect("S")
    server.send(m.parse_complete(), m.bind_complete(), m.command_complete("ROLLBACK"), m.ready())
    result = client.result()
    assert (result.tags, result.errors, result.status) == (["ROLLBACK"], [], "I")


def test_begin_that_fails_for_a_transaction_that_was_cancelled(cancelled):
    """The statement behind it may have been executed outside of the transaction."""
    client, stage = cancelled
    client.send(m.query("INSERT INTO t VALUES (1)"))
    server = stage.primary.accept()
    server.expect_query(CANCELED)
    server.send(m.error("canceling statement due to user request", "57014"), m.ready("I"))
    server.expect_query("INSERT INTO t VALUES (1)")
    assert m.read_error(client.expect("E").body)["C"] == "08007"
    client.expect_closed()


def test_later_errors_are_the_client_s(stage):
    client = stage.begin()
    server = read_here(client, stage.standby)
    client.send(m.query("SELECT 2"))
    server.expect_query("SELECT 2")
    server.send(CONFLICT, m.ready("E"))
    assert client.result().errors[0]["C"] == "40001"


def test_client_reads_its_write(scene):
    """The standby has not replayed it; then it has."""
    stage = Stage(scene)
    client, server = first_client(stage)
    stage.standby.position = "0/2FFFFF0"
    stage.primary.position = "0/3000100"
    asked = stage.primary.asked
    until(lambda: stage.primary.asked > asked + 2, "the position of the primary is known")
    client.send(m.query("INSERT INTO t VALUES (1)"))
    server.expect_query("INSERT INTO t VALUES (1)")
    server.complete("INSERT 0 1")
    client.result()
    client.send(m.query(BEGIN))
    client.result()
    client.send(m.query(READ))
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    assert client.result().value == "1"
    committed(client, server)
    assert [row["stale_reads"] for row in stage.weir.show("HOSTS") if row["port"] == stage.standby.port] == [1]
    stage.standby.position = "0/3000100"
    asked = stage.standby.asked
    until(lambda: stage.standby.asked > asked + 4, "the standby has said so")
    client.send(m.query(BEGIN))
    client.result()
    read_here(client, stage.standby)


def test_error_of_a_standby_that_a_session_has_waited_for(scene):
    """The primary gets the request of a session that only reads, also if the server of the standby was opened for it."""
    stage = Stage(scene)
    for host in (stage.primary, stage.standby):
        host.reported = {"default_transaction_read_only": "on"}
    client = stage.client()
    client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(READ)
    server.send(CONFLICT, m.ready())
    server = stage.primary.accept()
    server.expect_query(READ)
    server.answer("p")
    assert client.result().value == "p"


def test_session_that_only_reads(scene):
    """default_transaction_read_only = on by ALTER ROLE: autocommit statements, too."""
    stage = Stage(scene)
    for host in (stage.primary, stage.standby):
        host.reported = {"default_transaction_read_only": "on"}
    client = stage.client()
    client.send(m.query(READ))
    server = stage.standby.accept()
    server.expect_query(READ)
    server.answer("1")
    assert client.result().value == "1"
    client.send(m.parse(READ), m.bind(), m.execute(), m.sync())
    server.expect_all("PBES")
    server.send(m.parse_complete(), m.bind_complete(), m.data_row("2"), m.command_complete("SELECT 1"), m.ready())
    assert client.result().value == "2"
    client.send(m.query("BEGIN"))
    assert client.result().tags == ["BEGIN"]
    client.send(m.query(READ))
    begun(server, "BEGIN")
    server.expect_query(READ)
    server.answer("3", status="T")
    assert client.result().value == "3"
    committed(client, server)
    for text, tag in (("BEGIN READ WRITE", "BEGIN"), ("INSERT INTO t VALUES (1)", "INSERT 0 1")):
        client.send(m.query(text))
        server = stage.primary.accept() if text.startswith("BEGIN") else server
        server.expect_query(text)
        server.complete(tag, "T")
        assert client.result().tags == [tag]
    committed(client, server)
    client.send(m.query("SELECT pg_is_in_recovery()"))
    server.expect_query("SELECT pg_is_in_recovery()")
    server.answer("f")
    assert client.result().value == "f"


def test_reload_while_a_read_waits(scene):
    """It still waits for a standby."""
    stage = Stage(scene, default_pool_size=1)
    holder = stage.begin()
    held = read_here(holder, stage.standby)
    client = stage.begin()
    client.send(m.query(READ))
    until(lambda: sum(row["cl_waiting"] for row in stage.weir.show("POOLS")) == 1, "the read waits")
    stage.weir.admin("SET query_wait_timeout = 100")
    stage.weir.barrier()
    committed(holder, held)
    begun(held)
    held.expect_query(READ)
    held.answer("2", status="T")
    assert client.result().value == "2"


# --- the primary's share of reads

FIRST = {"reads_on_primary": "on", "load_balance_hosts": "disable"}      # the first suitable host of the list: the primary


def read_on_primary(stage):
    client = stage.begin()
    client.send(m.query(READ))
    server = stage.primary.accept()
    begun(server)
    server.expect_query(READ)
    return client, server


def test_primary_has_a_share(scene):
    stage = Stage(scene, FIRST)
    client, server = read_on_primary(stage)
    server.answer("1", status="T")
    assert client.result().value == "1"
    committed(client, server)
    client.send(m.query("INSERT INTO t VALUES (1)"))
    server.expect_query("INSERT INTO t VALUES (1)")
    server.complete("INSERT 0 1")
    assert client.result().tags == ["INSERT 0 1"]


def test_copy_within_a_transaction(scene):
    """PostgreSQL lets a read-only transaction copy into a temporary table. The data is no next request, which would wait for the end of this one."""
    stage = Stage(scene, FIRST)
    client, server = read_on_primary(stage)
    server.answer("1", status="T")
    assert client.result().value == "1"
    client.send(m.query("COPY own FROM STDIN"))
    server.expect_query("COPY own FROM STDIN")
    server.send(m.copy_in_response())
    client.expect("G")
    client.send(m.copy_data(b"1\n"), m.copy_done())
    assert server.expect("d").body == b"1\n"
    server.expect("c")
    server.complete("COPY 1", "T")
    result = client.result()
    assert (result.tags, result.status) == (["COPY 1"], "T")
    # the Sync of the batch precedes the data, and another Sync follows it
    client.send(m.parse("COPY own FROM STDIN"), m.bind(), m.execute(), m.sync())
    server.expect("P"), server.expect("B"), server.expect("E"), server.expect("S")
    server.send(m.parse_complete(), m.bind_complete(), m.copy_in_response())
    client.expect("1"), client.expect("2"), client.expect("G")
    client.send(m.copy_data(b"2\n"), m.copy_done(), m.sync())
    assert server.expect("d").body == b"2\n"
    server.expect("c"), server.expect("S")
    server.complete("COPY 1", "T")
    assert client.result().tags == ["COPY 1"]
    committed(client, server)


def test_primary_shuts_down_before_the_first_answer(scene):
    """The standby executes the transaction from its beginning."""
    stage = Stage(scene, FIRST)
    client, server = read_on_primary(stage)
    stage.primary.goes()
    server.send(m.command_complete("BEGIN"), m.ready("T"), TERMINATED)
    server.close()
    server = read_here_again(client, stage.standby)
    committed(client, server)


def read_here_again(client, host):
    server = host.accept()
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    result = client.result()
    assert (result.value, result.status, result.errors) == ("1", "T", [])
    return server


def test_primary_is_lost_before_the_first_answer(scene):
    """What a primary may have executed is not sent again: a function may have acted elsewhere."""
    stage = Stage(scene, FIRST)
    client, server = read_on_primary(stage)
    server.close()
    assert [m.read_error(got.body)["C"] for got in client.drain()] == ["57P01"]


@pytest.mark.parametrize("setting", ["idle_transaction_timeout", "transaction_timeout"])
def test_timeouts_of_a_transaction_without_a_server(scene, setting):
    stage = Stage(scene, **{setting: 1})
    client = stage.begin()
    client.expect("E")
    client.expect_closed()


def test_client_leaves_before_its_first_statement(stage):
    client = stage.begin()
    client.close()
    stage.weir.wait_log("closing because: client")
    other = stage.begin()
    read_here(other, stage.standby)


# --- hosts that refuse logins for good

NO_ENTRY = m.error("no pg_hba.conf entry", "28000", "FATAL")


def test_standby_that_refuses_logins(stage):
    client = stage.begin()
    stage.standby.refusal = NO_ENTRY
    client.send(m.query(READ))
    server = stage.primary.accept()
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    assert client.result().value == "1"
    (row,) = [row for row in stage.weir.show("HOSTS") if row["role"] == "standby"]
    assert row["state"] == "refuses" and "no pg_hba.conf entry" in row["why"]
    committed(client, server)
    stage.standby.refusal = None
    asked = stage.standby.asked
    until(lambda: stage.standby.asked > asked + 4, "the standby is as fresh as this client")
    client.send(m.query(BEGIN))
    client.result()
    server = read_here(client, stage.standby)
    assert {row["state"] for row in stage.weir.show("HOSTS")} == {"up"}


def test_standby_is_not_asked_again_before_server_login_retry(scene):
    stage = Stage(scene, server_login_retry=NEVER)
    client = stage.begin()
    stage.standby.refusal = NO_ENTRY
    client.send(m.query(READ))
    server = stage.primary.accept()
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    client.result()
    committed(client, server)
    stage.standby.refusal = None
    client.send(m.query(BEGIN))
    client.result()
    client.send(m.query(READ))
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    assert client.result().value == "1"


@pytest.mark.parametrize("attrs", ["prefer-standby", "standby"])
def test_standbys_that_refuse_logins(scene, attrs):
    """Another standby; or the primary, for clients of prefer-standby; the error, if all refuse."""
    hosts = primary, first, second = Host(scene, "primary"), Host(scene, "standby"), Host(scene, "standby")
    weir = primaries(scene, hosts, attrs, {"load_balance_hosts": "disable"})
    until(lambda: sorted(str(row["role"]) for row in weir.show("HOSTS")) == ["primary", "standby", "standby"])
    first.refusal = NO_ENTRY
    client = weir.client()
    client.send(m.query("SELECT 1"))
    server = second.accept()
    server.expect_query("SELECT 1")
    server.answer("1")
    assert client.result().value == "1"
    second.refusal = NO_ENTRY
    server.close()
    weir.wait_pool("p0", sv_idle=0)
    if attrs == "prefer-standby":
        other = weir.client()
        other.send(m.query("SELECT 2"))
        server = primary.accept()
        server.expect_query("SELECT 2")
        server.answer("2")
        assert other.result().value == "2"
        primary.refusal = NO_ENTRY
        server.close()
        weir.wait_pool("p0", sv_idle=0)
    last = weir.client()
    last.send(m.query("SELECT 3"))
    assert "no pg_hba.conf entry" in m.read_error(last.drain()[-1].body)["M"]


def test_server_that_was_set_to_the_client_s_parameters_is_used(scene):
    """The primary is the last resort of a reader, which gets it for one transaction."""
    primary, fresh, late = hosts = Host(scene, "primary"), Host(scene, "standby"), Host(scene, "standby")
    late.position = "0/2FFFFF0"
    weir = primaries(scene, hosts, "prefer-standby", server_lifetime=0)
    until(lambda: sorted(str(row["role"]) for row in weir.show("HOSTS")) == ["primary", "standby", "standby"])
    late.refusal = NO_ENTRY
    client = weir.client()
    client.send(m.query("SET TimeZone = 'Asia/Tokyo'"))
    server = fresh.accept()
    server.expect("Q")
    server.send(m.parameter_status("TimeZone", "Asia/Tokyo"), m.command_complete("SET"), m.ready())
    client.result()
    fresh.goes()
    until(lambda: "primary standby unknown".split() == sorted(str(row["role"]) for row in weir.show("HOSTS")))
    client.send(m.query("SELECT 2"))
    server = primary.accept()
    assert b"TimeZone" in server.expect("Q").body
    server.send(m.parameter_status("TimeZone", "Asia/Tokyo"), m.data_row("set"), m.command_complete("SELECT 1"), m.ready())
    server.expect_query("SELECT 2")
    server.answer("2")
    assert client.result().value == "2"


def test_login_without_an_answer_at_a_host_that_lives(scene):
    """Later clients do not get the error of that login."""
    primary, standby = hosts = pair(scene)
    weir = primaries(scene, hosts, server_connect_timeout=1, server_login_retry=NEVER)
    until(lambda: sorted(str(row["role"]) for row in weir.show("HOSTS")) == ["primary", "standby"])
    first = weir.client()
    first.send(m.query("SELECT 0"))
    server = primary.accept()
    server.expect_query("SELECT 0")
    server.answer("0")
    first.result()
    server.close()
    weir.wait_pool("p0", sv_idle=0)
    primary.refusal = SILENCE
    first.send(m.query("SELECT 1"))
    weir.wait_log("connect timeout")
    primary.refusal = None
    second = weir.client()
    second.send(m.query("SELECT 2"))
    server = primary.accept()
    for client, text in ((first, "SELECT 1"), (second, "SELECT 2")):
        server.expect_query(text)
        server.answer(text)
        assert client.result().value == text


def test_standby_that_does_not_answer_a_login(scene):
    """The reader goes to the primary, and the next transaction to the standby, which lives."""
    stage = Stage(scene, server_connect_timeout=1)
    client = stage.begin()
    stage.standby.refusal = SILENCE
    client.send(m.query(READ))
    server = stage.primary.accept()
    begun(server)
    server.expect_query(READ)
    server.answer("1", status="T")
    assert client.result().value == "1"
    committed(client, server)
    stage.standby.refusal = None
    asked = stage.standby.asked
    until(lambda: stage.standby.asked > asked + 4, "the standby is as fresh as this client")
    client.send(m.query(BEGIN))
    client.result()
    read_here(client, stage.standby)


def test_login_without_a_primary(scene):
    """A new client reads on a standby as the connected ones do, and waits with its first write."""
    stage = Stage(scene)
    stage.client().close()
    stage.primary.goes()
    stage.weir.wait_log("no primary")
    client = stage.weir.client()
    client.send(m.query(BEGIN))
    assert client.result().status == "T"
    server = read_here(client, stage.standby)
    committed(client, server)
    again = stage.weir.client()
    again.send(m.query("INSERT INTO t VALUES (1)"))
    until(lambda: stage.weir.show("WAITS"), "the write waits")
    stage.standby.becomes("primary", 2)
    server.expect_query("INSERT INTO t VALUES (1)")
    server.complete("INSERT 0 1")
    assert again.result().tags == ["INSERT 0 1"]
