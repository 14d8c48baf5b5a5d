"""
Requests that are sent to another server, because their host is not the primary any more or shuts down; and above all the requests that are not.

Played servers: see support/failover.py. A request that arrives at the second host although it must not is an error of the scene: each scene ends
with a request that has to be the first there.
"""
import pytest

from support import messages as m
from support.failover import IN_RECOVERY, READ_ONLY, TERMINATED, Host, pair, primaries, target
from support.live import NEVER
from support.scenes import asked
from support.until import until

INSERT = "INSERT INTO t VALUES (1)"


def hands(text=INSERT, name=""):
    """Messages of a request by each protocol, and what a server sends before the result."""
    return {
        "simple": (m.query(text), "Q", b""),
        "simple with rows": (m.query(text), "Q", m.row_description("a")),
        "extended": (m.parse(text) + m.bind() + m.execute() + m.sync(), "PBES", m.parse_complete() + m.bind_complete()),
        "described": (m.parse(text) + m.bind() + m.describe("P") + m.execute() + m.sync(), "PBDES",
                      m.parse_complete() + m.bind_complete() + m.row_description("a")),
        # pgweir asks for the types of the statement
        "named": (m.parse(text, "n") + m.bind("n") + m.execute() + m.sync(), "PDBES",
                  m.parse_complete() + m.parameter_description() + m.no_data() + m.bind_complete()),
    }


HANDS = hands()


def sent(weir, host, request, kinds):
    client = weir.client()
    client.send(request)
    server = host.accept()
    server.expect_all(kinds)
    return client, server


def done(client, host, kinds, before=b"", row="done"):
    """The request arrives at this host, and its answer at the client."""
    server = host.accept()
    server.expect_all(kinds)
    server.send(before, m.data_row(row), m.command_complete("INSERT 0 1"), m.ready())
    assert client.result().value == row
    return server


def moved(first, second):
    """The second host is the primary from now on."""
    first.becomes("standby")
    second.becomes("primary", 2)


def is_unused(client, host, text="barrier"):
    """Nothing else has been sent to the host before."""
    client.send(m.query(text))
    server = host.accept()
    server.expect_query(text)
    server.answer("x")
    assert client.result().value == "x"


def counted(weir, host):
    """Requests that were taken back from the host, and errors of the host that its clients got after all."""
    row = next(row for row in weir.show("HOSTS") if row["port"] == host.port)
    return row["retries"], row["kept_answers"]


# --- 25006 and 0A000

@pytest.mark.parametrize("error", [READ_ONLY, IN_RECOVERY], ids=["25006", "0A000"])
@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("attrs", ["primary", "read-write"])
def test_request_that_a_standby_has_refused(scene, hand, error, attrs):
    """Host trap 20."""
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second), attrs)
    client, server = sent(weir, first, request, kinds)
    moved(first, second)
    server.send(before, error, m.ready())
    done(client, second, kinds, before)
    assert (counted(weir, first), counted(weir, second)) == ((1, 0), (0, 0))
    # the client's names are what they were before the request
    if hand == "named":
        client.send(m.bind("n") + m.execute() + m.sync())


@pytest.mark.parametrize("hand", HANDS)
def test_primary_that_has_refused(scene, hand):
    """A legitimate error: the transaction is read-only by other means."""
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    server.send(before, READ_ONLY, m.ready())
    result = client.result()
    assert [error["C"] for error in result.errors] == ["25006"] and result.status == "I"
    assert counted(weir, first) == (1, 1)
    assert not second.fake.started or all(session.startup["user"] == "watch" for session in second.fake.started)
    client.send(request)
    server = first.accept()
    server.expect_all(kinds)
    server.send(before, m.data_row("x"), m.command_complete("INSERT 0 1"), m.ready())
    assert client.result().value == "x"


@pytest.mark.parametrize("answer, kinds", [
    (m.row_description("a") + m.data_row("x") + m.command_complete("SELECT 1") + READ_ONLY + m.ready(), "TDCEZ"),
    (m.command_complete("INSERT 0 1") + READ_ONLY + m.ready(), "CEZ"),
    (m.notice("careful") + READ_ONLY + m.ready(), "NEZ"),
    (READ_ONLY + m.ready("E"), "EZ"),
    (m.error("duplicate key", "23505") + m.ready(), "EZ"),
    (m.error("this feature is missing", "0A000") + m.ready(), "EZ"),
], ids=["rows", "first of several", "notice", "transaction", "other error", "other feature"])
def test_answers_that_are_forwarded(scene, answer, kinds):
    """Host trap 28."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    first.falls_silent()
    server.send(answer)
    client.expect_all(kinds)
    first.talks()


def test_statement_within_a_transaction(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, "BEGIN")
    server.complete("BEGIN", "T")
    client.result()
    client.send(m.query(INSERT))
    server.expect_query(INSERT)
    moved(first, second)
    server.send(READ_ONLY, m.ready("E"))
    assert client.result().errors[0]["C"] == "25006"
    client.send(m.query("ROLLBACK"))
    server.expect_query("ROLLBACK")
    server.complete("ROLLBACK")
    assert client.result().tags == ["ROLLBACK"]


def test_long_request(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    text = INSERT + " -- " + 20000 * "x"
    client, server = asked(first.fake, weir, text)
    moved(first, second)
    server.send(READ_ONLY, m.ready())
    assert client.result().errors[0]["C"] == "25006"


def test_second_request_of_a_pipeline(scene):
    """Host trap 29. The first one may have had an effect: neither is sent again."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client = weir.client()
    client.send(m.query(INSERT), m.query("SELECT 2"))
    server = first.accept()
    server.expect_query(INSERT)
    server.expect_query("SELECT 2")
    moved(first, second)
    server.send(READ_ONLY, m.ready())
    assert client.result().errors[0]["C"] == "25006"
    server.answer("2")
    assert client.result().value == "2"


@pytest.mark.parametrize("attrs", ["any", "standby", "read-only"])
def test_clients_of_other_roles_get_the_error(scene, attrs):
    first, second = pair(scene)
    weir = primaries(scene, (second, first) if attrs == "any" else (first, second), attrs, {"load_balance_hosts": "disable"})
    client, server = asked(second.fake, weir, INSERT)
    server.send(READ_ONLY, m.ready())
    assert client.result().errors[0]["C"] == "25006"


@pytest.mark.parametrize("hand", ["described", "simple with rows"])
def test_beginning_of_an_answer_is_held_back(scene, hand):
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    moved(first, second)
    server.send(before)
    # pgweir has read the beginning in the turn of the first command at the latest
    for _ in range(2):
        weir.show("POOLS")
    server.send(READ_ONLY, m.ready())
    done(client, second, kinds, before)


def test_byte_by_byte(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    request, kinds, before = HANDS["described"]
    client, server = sent(weir, first, request, kinds)
    moved(first, second)
    server.dribble(before, READ_ONLY, m.ready())
    server = second.accept()
    server.expect_all(kinds)
    server.dribble(before, m.data_row("x"), m.command_complete("INSERT 0 1"), m.ready())
    assert client.result().value == "x"


# --- FATAL 57P01

SINGLE = ["SELECT 1", INSERT, "update t set i = 1", "DELETE FROM t", "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", "WITH a AS (SELECT 1) SELECT 2",
          "VALUES (1)", "TABLE t", "(SELECT 1) UNION (SELECT 2)", "/* c */ select 1 -- c", "SELECT ';' ;", "BEGIN"]
OTHERS = ["CALL p()", "DO $$ BEGIN COMMIT; END $$", "SELECT 1; SELECT 2", "COPY t TO STDOUT", "VACUUM", "CREATE DATABASE d", "COMMIT PREPARED 'x'",
          "REINDEX DATABASE CONCURRENTLY d", "", "EXECUTE n", "SELECT 'open", "EXPLAIN ANALYZE SELECT 1"]
# effects that no rollback undoes
ELSEWHERE = ["SELECT dblink_exec('c', 'INSERT INTO t VALUES (1)')", "INSERT INTO t VALUES (1, send_mail())", "SELECT public.lower('A')",
             "SELECT pg_logical_emit_message(false, 'outbox', 'x')", "SELECT pg_terminate_backend(1)", "SELECT pg_advisory_lock(1)"]


@pytest.mark.parametrize("text", SINGLE)
def test_statement_that_a_shutdown_has_ended(scene, text):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, text)
    first.goes()
    server.send(TERMINATED)
    server.close()
    until(lambda: "shutting down" in weir.log(), "the host is known to shut down")
    second.becomes("primary", 2)
    server = second.accept()
    server.expect_query(text)
    server.answer("done")
    assert client.result().value == "done"


@pytest.mark.parametrize("row", [b"", m.data_row("lost")], ids=["no row", "row"])
@pytest.mark.parametrize("hand", HANDS)
def test_statement_of_each_protocol(scene, hand, row):
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    first.goes()
    server.send(before, row, TERMINATED)
    server.close()
    second.becomes("primary", 2)
    done(client, second, kinds, before)


@pytest.mark.parametrize("hand", HANDS)
def test_shutdown_behind_an_answer(scene, hand):
    """Both arrive at once: the answer is the client's, and the end of the server is nothing to it."""
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    first.goes()
    server.send(before, m.data_row("x"), m.command_complete("INSERT 0 1"), m.ready(), TERMINATED)
    server.close()
    assert client.result().value == "x"
    second.becomes("primary", 2)
    is_unused(client, second)


@pytest.mark.parametrize("end, code", [(b"", "08007"), (TERMINATED, "57P01")], ids=["lost", "57P01"])
def test_role_by_a_reload_during_a_request(scene, end, code):
    """The request began before pgweir kept requests of this client, so no other server can get it."""
    first, second = hosts = pair(scene)
    weir = scene.weir({"p0": target(hosts)}, host_check_user="watch", server_login_retry=0, pool_mode="transaction", log_disconnections=1)
    client = weir.client()
    client.send(m.query(INSERT))
    server = first.accept()
    server.expect_query(INSERT)
    weir.databases["p0"] = target(hosts, target_session_attrs="primary")
    weir.write_ini()
    weir.admin("RELOAD")
    server.send(end)
    server.close()
    assert [m.read_error(got.body)["C"] for got in client.drain() if got.type == "E"] == [code]


@pytest.mark.parametrize("text", OTHERS + ELSEWHERE)
def test_statements_that_are_not_repeated(scene, text):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, text)
    first.goes()
    server.send(TERMINATED)
    server.close()
    assert [got.type for got in client.drain()] == ["E"]
    second.becomes("primary", 2)
    is_unused(weir.client(), second)


def test_named_statement_that_is_not_repeated(scene):
    """Its text came in an earlier request."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client = weir.client()
    client.send(m.parse("CALL p()", "n"), m.sync())
    server = first.accept()
    server.expect_all("PDS")
    server.send(m.parse_complete(), m.parameter_description(), m.no_data(), m.ready())
    client.expect_all("1Z")
    client.send(m.bind("n"), m.execute(), m.sync())
    server.expect_all("BES")
    first.goes()
    server.send(m.bind_complete(), TERMINATED)
    server.close()
    assert [got.type for got in client.drain()] == ["2", "E"]


def test_named_statement_of_an_earlier_request(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client = weir.client()
    client.send(m.parse(INSERT, "n"), m.sync())
    server = first.accept()
    server.expect_all("PDS")
    server.send(m.parse_complete(), m.parameter_description(), m.no_data(), m.ready())
    client.expect_all("1Z")
    client.send(m.bind("n"), m.execute(), m.sync())
    server.expect_all("BES")
    first.goes()
    server.send(m.bind_complete(), TERMINATED)
    server.close()
    second.becomes("primary", 2)
    server = second.accept()
    # the server parses it first, and waits for the next messages until pgweir knows the types
    server.expect_all("PDH")
    server.send(m.parse_complete(), m.parameter_description(), m.no_data())
    server.expect_all("BES")
    server.send(m.bind_complete(), m.data_row("x"), m.command_complete("INSERT 0 1"), m.ready())
    assert client.result().types == "2DCZ"


def knows(scene):
    """Two hosts, and a client without a server. The server at the first host has the statement INSERT of another client."""
    hosts = pair(scene)
    weir = primaries(scene, hosts)
    client, other = weir.client(), weir.client()
    other.send(m.parse(INSERT, "n"), m.sync())
    server = hosts[0].accept()
    server.expect_all("PDS")
    server.send(m.parse_complete(), m.parameter_description(), m.no_data(), m.ready())
    other.expect_all("1Z")
    return (*hosts, client, server)


def test_known_statement_is_described(scene):
    """pgweir answers the Parse itself, but not before the server describes the statement: so the next primary can do both."""
    first, second, client, server = knows(scene)
    client.send(m.parse(INSERT, "n"), m.describe("S", "n"), m.flush())
    server.expect_all("DH")
    first.goes()
    server.send(TERMINATED)
    server.close()
    second.becomes("primary", 2)
    server = second.accept()
    server.expect_all("PDDH")
    server.send(m.parse_complete(), 2 * (m.parameter_description() + m.no_data()))
    client.expect_all("1tn")


def test_known_statement_has_been_answered(scene):
    """No other server gets a Parse that pgweir has answered: the client would get its answer twice, or an error about a duplicate."""
    first, second, client, server = knows(scene)
    client.send(m.parse(INSERT, "n"), m.flush())
    server.expect_all("H")
    client.expect_all("1")
    first.goes()
    server.send(TERMINATED)
    server.close()
    second.becomes("primary", 2)
    assert m.read_error(client.expect("E").body)["C"] == "57P01"


@pytest.mark.parametrize("before", [m.command_complete("INSERT 0 1"), m.notice("careful"), m.row_description("a") + 400 * m.data_row(100 * "x")],
                         ids=["complete", "notice", "many rows"])
def test_answer_of_which_something_counts(scene, before):
    """Host trap 28."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    first.goes()
    server.send(before, TERMINATED)
    server.close()
    assert client.drain()[-1].type == "E"
    second.becomes("primary", 2)
    is_unused(weir.client(), second)


def test_warning_of_a_wait_for_standbys(scene):
    """The transaction is committed: the SQLSTATE is the same, but the message is a notice."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    first.goes()
    server.send(m.message("N", TERMINATED[5:].replace(b"FATAL", b"WARNING")))
    server.close()
    assert [(got.type, m.read_error(got.body)["C"]) for got in client.drain()] == [("N", "57P01"), ("E", "08007")]
    second.becomes("primary", 2)
    is_unused(weir.client(), second)


def test_backend_that_an_administrator_has_terminated(scene):
    """Host trap 32."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    server.send(TERMINATED)
    server.close()
    (error,) = client.drain()
    assert m.read_error(error.body)["C"] == "57P01"
    is_unused(weir.client(), first)


def test_only_a_new_login_shows_that_the_host_stays(scene):
    """A watcher's connection may answer after a shutdown has begun."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    first.open = False
    server.send(TERMINATED)
    server.close()
    weir.wait_log("is shutting down")
    assert not client.has_input()
    second.becomes("primary", 2)
    server = second.accept()
    server.expect_query(INSERT)
    server.answer("x")
    assert client.result().value == "x"


def test_host_that_restarts(scene):
    """Host trap 8."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    first.goes()
    server.send(TERMINATED)
    server.close()
    weir.wait_log("p0/app@.* closing because: server conn crashed")
    weir.wait_log("is shutting down", weir.log().count("is shutting down") + 1)
    first.open = True
    server = first.accept()
    server.expect_query(INSERT)
    server.answer("x")
    assert client.result().value == "x"


def test_retry_on_shutdown_is_off(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second), retry_on_shutdown=0)
    client, server = asked(first.fake, weir, INSERT)
    first.goes()
    server.send(TERMINATED)
    server.close()
    assert [got.type for got in client.drain()] == ["E"]


def test_held_request_is_bounded_by_query_wait_timeout(scene):
    """Host trap 25."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), query_wait_timeout=1)
    client, server = asked(first.fake, weir, INSERT)
    first.goes()
    server.send(TERMINATED)
    server.close()
    (error,) = client.drain()
    assert "query_wait_timeout" in m.read_error(error.body)["M"]


@pytest.mark.parametrize("hand", HANDS)
def test_cancel_request_for_a_held_request(scene, hand):
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    first.goes()
    server.send(before, TERMINATED)
    server.close()
    weir.wait_log("is shutting down")
    weir.cancel(client)
    result = client.result()
    assert [error["C"] for error in result.errors] == ["57014"] and result.types == "EZ"
    second.becomes("primary", 2)
    is_unused(client, second)


def test_client_that_leaves_while_its_request_is_held(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    first.goes()
    server.send(TERMINATED)
    server.close()
    weir.wait_log("is shutting down")
    client.close()
    weir.wait_log("C-0x.* closing because: client unexpected eof")
    second.becomes("primary", 2)
    is_unused(weir.client(), second)


# --- lost connections

@pytest.mark.parametrize("hand", HANDS)
def test_lost_connection(scene, hand):
    """Host trap 27."""
    request, kinds, before = HANDS[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    first.goes()
    server.send(before)
    server.close()
    got = client.drain()
    assert m.read_error(got[-1].body)["C"] == "08007"
    second.becomes("primary", 2)
    is_unused(weir.client(), second)


def in_transaction(first, weir):
    client, server = asked(first.fake, weir, "BEGIN")
    server.complete("BEGIN", "T")
    client.result()
    return client, server


COMMITS = {
    "COMMIT": m.query("COMMIT"), "END": m.query(" end ;"), "last": m.query("SELECT 1; COMMIT"), "prepare": m.query("PREPARE TRANSACTION 'x'"),
    "comment": m.query("/* c */ commit -- c"), "extended": m.parse("COMMIT") + m.bind() + m.execute() + m.sync(),
}
WORKS = {
    "query": m.query("SELECT 1"), "extended": m.parse("SELECT 1") + m.bind() + m.execute() + m.sync(), "case": m.query("SELECT CASE WHEN true THEN 1 END"),
    "savepoint": m.query("SAVEPOINT a"),
}


@pytest.mark.parametrize("which", COMMITS)
def test_commit_without_an_answer(scene, which):
    """Host trap 26."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = in_transaction(first, weir)
    client.send(COMMITS[which])
    server.read()
    first.goes()
    server.close()
    (error,) = client.drain()
    error = m.read_error(error.body)
    assert (error["S"], error["C"]) == ("FATAL", "08007") and "committed or not" in error["M"]
    second.becomes("primary", 2)
    is_unused(weir.client(), second)


@pytest.mark.parametrize("which", WORKS)
def test_transaction_that_is_lost(scene, which):
    """Host trap 31."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = in_transaction(first, weir)
    client.send(WORKS[which])
    server.read()
    first.goes()
    server.close()
    (error,) = client.drain()
    error = m.read_error(error.body)
    assert (error["S"], error["C"]) == ("FATAL", "57P01") and "rolled back" in error["M"]


def test_transaction_without_a_request(scene):
    """Host trap 31."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = in_transaction(first, weir)
    first.goes()
    server.close()
    (error,) = client.drain()
    assert m.read_error(error.body)["C"] == "57P01"


def test_client_without_a_role(scene):
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="transaction")
    client, server = asked(fake, weir, "COMMIT")
    server.close()
    (error,) = client.drain()
    error = m.read_error(error.body)
    assert (error["C"], error["M"]) == ("08P01", "server conn crashed?")


@pytest.mark.parametrize("ended", [True, False])
def test_idle_server_that_is_gone(scene, ended):
    """Its last message, or its end, and the request arrive in one turn."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), pool_size=2)
    client, server = asked(first.fake, weir, "SELECT 1")
    server.answer("x")
    client.result()
    first.goes()
    until(lambda: "is shutting down" in weir.log(), "the host is known to shut down")
    with weir.one_turn():
        if ended:
            server.send(TERMINATED)
        server.close()
        client.send(m.query(INSERT))
    second.becomes("primary", 2)
    server = second.accept()
    server.expect_query(INSERT)
    server.answer("y")
    assert client.result().value == "y"

# --- statements that only read

SELECT = "SELECT a FROM t"


def asks(server, says="t"):
    """The server confirms by its catalogue that the statement only reads, or does not."""
    text = server.expect_query()
    assert "pg_catalog" in text, text
    server.send(m.row_description("a"), m.data_row(says), m.command_complete("SELECT 1"), m.ready())


@pytest.mark.parametrize("hand", hands(SELECT))
def test_read_of_a_lost_primary(scene, hand):
    """The next primary has the same definitions: it says that nothing was changed, and gets the statement."""
    request, kinds, before = hands(SELECT)[hand]
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = sent(weir, first, request, kinds)
    first.goes()
    server.send(before)
    server.close()
    second.becomes("primary", 2)
    server = second.accept()
    asks(server)
    server.expect_all(kinds)
    server.send(before, m.data_row("done"), m.command_complete("SELECT 1"), m.ready())
    assert client.result().value == "done"


@pytest.mark.parametrize("answer", ["f", None], ids=["no", "error"])
def test_read_with_effects(scene, answer):
    """A view may call a function of a user."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, SELECT)
    first.goes()
    server.close()
    second.becomes("primary", 2)
    server = second.accept()
    if answer:
        asks(server, answer)
    else:
        assert "pg_catalog" in server.expect_query()
        server.send(m.error("permission denied", "42501"), m.ready())
    assert [m.read_error(got.body)["C"] for got in client.drain()] == ["08007"]
    is_used_on(weir.client(), server)


def is_used_on(client, server):
    """The server is free, and has got nothing else."""
    client.send(m.query("barrier"))
    server.expect_query("barrier")
    server.answer("x")
    assert client.result().value == "x"


def test_server_of_the_question_is_lost(scene):
    """The statement is still in doubt: another server is asked."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, SELECT)
    server.close()
    server = first.accept()
    assert "pg_catalog" in server.expect_query()
    first.goes()
    server.close()
    second.becomes("primary", 2)
    server = second.accept()
    asks(server)
    server.expect_query(SELECT)
    server.answer("done")
    assert client.result().value == "done"


def test_read_in_doubt_waits_in_vain(scene):
    first, second = pair(scene)
    weir = primaries(scene, (first, second), query_wait_timeout=1)
    client, server = asked(first.fake, weir, SELECT)
    first.goes()
    server.close()
    assert [m.read_error(got.body)["C"] for got in client.drain()] == ["08007"]


def test_read_in_doubt_is_cancelled(scene):
    """The next request is another one."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, SELECT)
    first.goes()
    server.close()
    until(lambda: weir.show("WAITS"), "the client waits")
    weir.cancel(client)
    assert [error["C"] for error in client.result().errors] == ["57014"]
    second.becomes("primary", 2)
    is_unused(client, second, INSERT)


def test_read_of_a_silent_primary(scene):
    """Another host becomes the primary, and all connections to the old one end."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), host_check_period=0.1)
    client, server = asked(first.fake, weir, SELECT)
    writer = weir.client()
    first.falls_silent()
    second.becomes("primary", 2)
    other = second.accept()
    asks(other)
    other.expect_query(SELECT)
    other.answer("done")
    assert client.result().value == "done"
    server.expect_closed()
    is_used_on(writer, other)


def readers(scene, **settings):
    """A client by name of the first of two standbys."""
    first, second = pair(scene)
    third = Host(scene, "standby")
    weir = primaries(scene, (first, second, third), "standby", {"load_balance_hosts": "disable"}, **settings)
    weir.client()
    until(lambda: sorted(str(row["role"]) for row in weir.show("HOSTS")) == ["primary", "standby", "standby"], "all roles are known")
    return weir, second, third


def test_reader_by_name_of_a_lost_standby(scene):
    weir, second, third = readers(scene)
    client, server = asked(second.fake, weir, SELECT)
    second.goes()
    server.close()
    server = third.accept()
    asks(server)
    server.expect_query(SELECT)
    server.answer("done")
    assert client.result().value == "done"


def test_reader_by_name_of_a_standby_that_shuts_down(scene):
    """Nothing was committed, whatever the statement does."""
    weir, second, third = readers(scene)
    client, server = asked(second.fake, weir, SELECT)
    second.goes()
    server.send(TERMINATED)
    server.close()
    server = third.accept()
    server.expect_query(SELECT)
    server.answer("done")
    assert client.result().value == "done"


@pytest.mark.parametrize("end, code", [(TERMINATED, "57P01"), (b"", "08007")], ids=["57P01", "lost"])
def test_reader_by_name_that_may_act_elsewhere(scene, end, code):
    weir, second, third = readers(scene)
    client, server = asked(second.fake, weir, "SELECT send_mail()")
    second.goes()
    server.send(end)
    server.close()
    assert [m.read_error(got.body)["C"] for got in client.drain()] == [code]
    is_unused(weir.client(), third)


def test_reader_by_name_of_a_standby_that_hangs(scene):
    weir, second, third = readers(scene, host_check_period=0.1)
    client, server = asked(second.fake, weir, SELECT)
    second.falls_silent()
    other = third.accept()
    asks(other)
    other.expect_query(SELECT)
    other.answer("done")
    assert client.result().value == "done"
    server.expect_closed()


# --- requests that their servers have never read

@pytest.mark.parametrize("ended", [True, False], ids=["57P01", "lost"])
def test_request_behind_the_end_of_its_server(scene, ended):
    """In one turn pgweir sends the request, and reads what the server has said before: no statement was executed, whatever it does."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, "SELECT 1")
    server.answer("x")
    client.result()
    first.goes()
    until(lambda: "is shutting down" in weir.log(), "the host is known to shut down")
    with weir.one_turn():
        # the event that comes first is handled first
        client.send(m.query("CALL p()"))
        if ended:
            server.send(TERMINATED)
        server.close()
    second.becomes("primary", 2)
    server = second.accept()
    server.expect_query("CALL p()")
    server.answer("y")
    assert client.result().value == "y"


# --- connections of a host that loses its role, or gets one

def test_connections_of_a_demoted_primary(scene):
    """Host trap 21. Idle connections end at once, when the role moves; no restart has cut them."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), pool_size=2, host_check_period=0.1)
    clients = [weir.client() for _ in range(2)]
    servers = []
    for client in clients:
        client.send(m.query("x"))
        servers.append(first.accept())
        servers[-1].expect_query("x")
    for client, server in zip(clients, servers):
        server.answer("x")
        client.result()
    moved(first, second)
    for server in servers:
        server.expect("X")
        server.expect_closed()
    is_unused(clients[0], second)


def test_service_is_back_at_once(scene):
    """Host trap 23. server_login_retry of a failed host delays no login at the next primary, and the pool is filled again."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), pool_size=3, server_login_retry=NEVER, host_check_period=0.1)
    clients = [weir.client() for _ in range(3)]
    first.goes()
    weir.wait_log("no primary")
    for client in clients:
        client.send(m.query("BEGIN"))
    # the first host refuses logins, and so does the second one in the beginning of its promotion
    second.refusal = m.error("the database system is not yet accepting connections", "57P03", "FATAL")
    second.becomes("primary", 2)
    weir.wait_log("not yet accepting connections")
    second.refusal = None
    for _ in clients:
        server = second.accept()
        server.expect_query("BEGIN")
        server.complete("BEGIN", "T")
    assert [client.result().status for client in clients] == ["T"] * 3


def test_cancel_request_after_a_move(scene):
    """Host trap 33. It goes to the host that executes the request now, and to no other."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second))
    client, server = asked(first.fake, weir, INSERT)
    moved(first, second)
    server.send(READ_ONLY, m.ready())
    server = second.accept()
    server.expect_query(INSERT)
    weir.cancel(client)
    assert second.fake.next_cancel() == (server.pid, server.key)
    assert first.fake.cancels.empty()
    server.send(m.error("canceling statement due to user request", "57014"), m.ready())
    assert client.result().errors[0]["C"] == "57014"


@pytest.mark.parametrize("kind", ["session", "replication"])
def test_sessions_end_with_the_role(scene, kind):
    """Host trap 34. A client that needs this one session gets 57P01, instead of silence. See live/test_host_traps.py for LISTEN."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), pool_mode="session" if kind == "session" else "transaction", host_check_period=0.1)
    client = weir.client(**({"replication": "database"} if kind == "replication" else {}))
    text = "SELECT 1" if kind == "session" else "START_REPLICATION 0/0"
    client.send(m.query(text))
    server = first.accept()
    server.expect_query(text)
    if kind == "replication":
        server.send(m.message("W", b"\0\0\0"))
        client.expect("W")
    else:
        server.answer("x")
        client.result()
    second.becomes("primary", 2)
    assert m.read_error(client.drain()[-1].body)["C"] == "57P01"


@pytest.mark.parametrize("answer", [TERMINATED, b""], ids=["57P01", "lost"])
def test_read_of_a_standby_that_restarts(scene, answer):
    """Host trap 35. A reader by name notices a delay only: its next statement goes to another standby."""
    first, second = pair(scene)
    third = Host(scene, "standby")
    weir = primaries(scene, (first, second, third), "standby", {"load_balance_hosts": "disable"}, host_check_period=0.1)
    weir.client()
    until(lambda: sorted(str(row["role"]) for row in weir.show("HOSTS")) == ["primary", "standby", "standby"], "all roles are known")
    client, server = asked(second.fake, weir, "SELECT 1")
    server.answer("x")
    client.result()
    second.goes()
    weir.wait_log("host .*:%d: unknown, was standby" % second.port)
    server.send(answer)
    server.close()
    client.send(m.query("SELECT 2"))
    server = third.accept()
    server.expect_query("SELECT 2")
    server.answer("y")
    assert client.result().value == "y"


# --- in_hot_standby

@pytest.mark.parametrize("attrs, told", [("any", None), ("primary", "off"), ("read-write", "off"), ("standby", "on"), ("read-only", "on"),
                                         ("prefer-standby", "on")])
def test_clients_are_told_by_their_role(scene, attrs, told):
    """Host trap 56."""
    first, second = pair(scene)
    weir = primaries(scene, (first, second), attrs, {"load_balance_hosts": "disable"})
    if attrs == "prefer-standby":
        weir.client()
        until(lambda: "standby" in [row["role"] for row in weir.show("HOSTS")], "the standby is known")
    client = weir.client()
    assert client.parameters["in_hot_standby"] == (told or "off")
    client.send(m.query("SELECT 1"))
    server = (second if told == "on" else first).accept()
    server.expect_query("SELECT 1")
    server.send(m.parameter_status("in_hot_standby", "off"), m.parameter_status("TimeZone", "Asia/Tokyo"), m.command_complete("SELECT 0"), m.ready())
    reported = [m.read_parameter(got.body) for got in client.read_until() if got.type == "S"]
    assert reported == ([] if told else [("in_hot_standby", "off")]) + [("TimeZone", "Asia/Tokyo")]

