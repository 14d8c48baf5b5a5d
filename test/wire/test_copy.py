"""Traps 34 to 38: COPY, function calls, and messages that no client asked for."""
import struct
import threading

import pytest

from support import messages as m
from support.scenes import answer_release_query, copy_that_fails, linked, reply_to, transactions
from support.takeover import Replaced
from support.threads import run_in_threads
from support.until import until


def test_copy_in_and_out(scene):
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    client.send(m.query("copyin"))
    client.expect("G")
    rival.send(m.query("rival"))
    client.send(*(m.copy_data(b"line %d\n" % n) for n in range(1000)))
    weir.barrier()
    assert not rival.has_input()
    client.send(m.copy_done())
    assert client.result().tags == ["COPY 1000"]
    assert rival.result().value == "rival"
    result = client.query("copyout 1000")
    assert result.types == "H" + "d" * 1000 + "cCZ"
    assert [got.body for got in result.messages[1:1001]] == [b"line %d\n" % n for n in range(1000)]


def test_copy_fail(scene):
    weir = transactions(scene, scene.mini())
    client = weir.client()
    client.send(m.query("copyin"))
    client.expect("G")
    client.send(m.copy_data(b"x\n"), m.copy_fail("changed my mind"))
    assert client.result().types == "EZ"
    assert client.query("next").value == "next"


def test_copy_data_in_one_write_with_its_query(scene):
    weir = transactions(scene, scene.mini())
    client = weir.client()
    client.send(m.query("copyin"), m.copy_data(b"x\n"), m.copy_data(b"y\n"), m.copy_done(), m.query("behind it"))
    assert client.result().tags == ["COPY 2"]
    assert client.result().value == "behind it"


@pytest.mark.parametrize("syncs", [1, 2, 3])
def test_trap_34_sync_during_copy_in(scene, syncs):
    """A Sync that the server ignores during COPY IN was counted: the server was never free again."""
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    for turn in range(5):
        client.send(m.parse("copyin"), m.bind(), m.execute(), *[m.sync()] * syncs)
        if turn % 2:
            client.expect_all("12G")
        client.send(m.copy_data(b"x\n"), m.copy_done(), m.sync())
        rival.send(m.query("rival %d" % turn))
        assert client.result().types == ("CZ" if turn % 2 else "12GCZ")
        assert rival.result().value == "rival %d" % turn
    weir.barrier()
    assert not client.has_input()
    weir.wait_pool("p0", sv_active=0, sv_idle=1)


def test_trap_34_sync_after_a_copy_that_fails_first(scene):
    """The same Sync counts after all when the COPY fails before the server has read it."""
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    for turn in range(5):
        client.send(m.parse("copyin"), m.bind(), m.execute(), m.copy_data(b"bad\n"), m.sync())
        assert client.result().types == "12GEZ"
        rival.send(m.query("rival %d" % turn))
        client.send(m.query("client %d" % turn))
        assert rival.result().value == "rival %d" % turn
        assert client.result().value == "client %d" % turn


@pytest.mark.parametrize("block", [False, True], ids=["alone", "in BEGIN"])
@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
def test_trap_35_data_that_comes_after_the_copy_failed(scene, block, extended):
    """Late CopyData and CopyDone claimed a server for nothing, or reached the next client's."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client()
    rivals = [weir.client() for _ in range(20)]
    if block:
        client.query("BEGIN")
    megabyte = m.copy_data(b"x" * 65531) * 16

    def send():
        client.send(m.parse("copyin") + m.bind() + m.execute() if extended else m.query("copyin"))
        client.send(m.copy_data(b"bad\n"))
        for _ in range(50):
            client.send(megabyte)
        client.send(m.copy_done(), m.sync() if extended else b"")

    sender = threading.Thread(target=send)
    sender.start()
    for rival in rivals:
        rival.send(m.query("rival %d" % id(rival)))
    result = client.result()
    assert result.types == ("12GEZ" if extended else "GEZ") and result.status == ("E" if block else "I")
    sender.join()
    if block:
        assert client.query("ROLLBACK").status == "I"
    for rival in rivals:
        result = rival.result()
        assert result.types == "TDCZ" and result.value == "rival %d" % id(rival)
    weir.wait_pool("p0", sv_active=0)
    client.send(m.copy_data(b"long after"), m.copy_done())
    weir.barrier()
    assert weir.pool("p0")["sv_active"] == 0
    assert client.query("next").value == "next"
    assert len(fake.started) == 1 and not set("dc") & set(fake.started[0].heard[-1:])


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
def test_request_sent_into_a_copy(scene, extended):
    """pgweir cannot know what the server makes of it: the client gets all that the server sends, and other clients do not fail_allocations."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    client, rival = weir.client(), weir.client()
    begin = m.parse("copyin") + m.bind() + m.execute() if extended else m.query("copyin")
    client.send(begin, m.copy_data(b"bad\n"), m.sync(), m.query("after"))
    rival.send(m.query("rival"))
    heard = client.read_until("E")
    assert heard[-1].type == "E"
    client.read_until("Z")
    assert rival.result().value == "rival"
    # if the server executed later messages, they were the client's own
    client.send(m.query("last"))
    while client.result().rows != [[b"last"]]:
        pass


def test_server_is_not_released_within_a_batch(scene):
    """When pending answers are no longer known, the client continues with another server, but not with the rest of a batch."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = linked(fake, weir)
    client.send(m.parse("copyin"), m.bind(), m.execute(), m.copy_data(b"bad\n"), m.sync(), m.copy_done(),
                m.parse("one"), m.bind(), m.flush())
    server.expect_all("PBEdScPBH")
    server.send(m.parse_complete(), m.bind_complete(), m.copy_in_response(), m.error("bad line"), m.ready("I"))
    assert client.result().types == "12GEZ"
    server.send(m.parse_complete(), m.bind_complete())
    client.expect_all("12")
    client.send(m.execute(), m.sync())
    server.expect_all("ES")
    server.send(m.command_complete("ONE"), m.ready("I"))
    assert client.result().tags == ["ONE"]
    answer_release_query(server)


@pytest.mark.parametrize("left", [False, True], ids=["known in time", "too late"])
def test_copy_after_a_request_sent_into_a_copy(scene, left):
    """The client would have sent the data without a server to take it, and waited for ever."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = linked(fake, weir)
    client.send(m.query("copyin"), m.copy_data(b"bad\n"), m.sync(), m.query("copyin"))
    server.expect_all("QdSQ")
    if left:
        server.send(m.copy_in_response(), m.error("bad line"), m.ready("I"))
        server.expect_all("PDSX")
        server.send(m.copy_in_response())
        server.close()
        assert [message.type for message in client.drain()] == ["G", "E", "Z", "G", "E"]
        return
    server.send(m.copy_in_response(), m.error("bad line"), m.ready("I"), m.copy_in_response())
    assert client.result().types == "GEZ"
    client.expect("G")
    client.send(m.copy_data(b"good\n"), m.copy_done())
    server.expect_all("dc")
    server.send(m.command_complete("COPY 1"), m.ready("I"))
    assert client.result().tags == ["COPY 1"]
    answer_release_query(server)


def test_released_server_ends_within_an_answer(scene):
    """A server's end between two messages looks like its requested end; the client would have waited forever."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = linked(fake, weir)
    client.send(m.query("copyin"), m.copy_data(b"bad\n"), m.sync(), m.query("one"))
    server.expect_all("QdSQ")
    server.send(m.copy_in_response(), m.error("bad line"), m.ready("I"))
    server.expect_all("PDSX")
    server.send(m.row_description("v"), m.data_row("first of two"))
    server.close()
    assert [message.type for message in client.drain()] == ["G", "E", "Z", "T", "D", "E"]


@pytest.fixture
def left(scene):
    """A server that pgweir asks whether it is done, its client, which waits for the answers to "one" and "two", and the question."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = linked(fake, weir)
    client.send(m.query("copyin"), m.copy_data(b"bad\n"), m.sync(), m.query("one"), m.query("two"))
    server.expect_all("QdSQQ")
    server.send(m.copy_in_response(), m.error("bad line"), m.ready("I"))
    assert client.result().types == "GEZ"
    question = server.expect_all("PDSX")
    return fake, weir, client, server, question


def test_released_server_ends_before_all_answers(left):
    """The silent server was believed to have answered everything, and its client waited forever."""
    _, _, client, server, _ = left
    server.answer("1")
    assert client.result().value == "1"
    server.close()
    (message,) = client.drain()
    assert m.read_error(message.body)["M"] == "server conn crashed?"


def test_released_server_gets_no_terminate_of_its_client(left):
    """With client_connection_check_interval PostgreSQL ends the query when the client's half of the connection is closed."""
    _, weir, client, server, _ = left
    weir.barrier()
    assert not server.has_input()
    server.answer("1")
    assert client.result().value == "1"


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 10, 27])
def test_answer_to_the_poolers_query_in_pieces(left, cut):
    """No client gets the answer to the pooler's query, wherever the answer is split. Later messages of the client go to another server."""
    fake, weir, client, server, question = left
    client.send(m.query("three"))
    server.answer("1")
    server.answer("2")
    said = reply_to(question)
    server.send(said[:cut])
    assert [client.result().value, client.result().value] == ["1", "2"]
    weir.barrier()
    assert not client.has_input() and len(fake.started) == 1
    server.send(said[cut:])
    other = fake.accept()
    other.expect_query("three")
    other.answer("3")
    assert client.result().value == "3"
    server.expect_closed()


@pytest.mark.parametrize("alike", [m.parse_complete() + m.bind_complete(), m.parse_complete() + m.parameter_description(1, 2, 3, 4)])
@pytest.mark.parametrize("cut", [0, 1, 5, 9])
def test_similar_answer_belongs_to_the_client(left, alike, cut):
    _, weir, client, server, question = left
    server.send(alike[:cut])
    weir.barrier()
    server.send(alike[cut:], m.command_complete("ONE"), m.ready())
    assert client.result().types == ("12CZ" if m.bind_complete() in alike else "1tCZ")
    server.answer("2")
    assert client.result().value == "2"
    server.send(reply_to(question))
    server.expect_closed()
    assert not client.has_input()


@pytest.mark.parametrize("status", ["T", "E"])
def test_server_is_not_released_within_a_transaction(left, status):
    """No other server has the transaction: the client gets an error with the reason."""
    _, _, client, server, question = left
    server.complete("BEGIN", status)
    server.complete("TWO", status)
    server.send(reply_to(question, status))
    assert client.result().status == status and client.result().status == status
    (message,) = client.drain()
    assert m.read_error(message.body)["M"] == "request sent into a COPY that is not over"


def test_query_on_a_released_server_can_be_cancelled(left):
    _, weir, client, server, question = left
    weir.cancel(client).expect_closed()
    assert server.fake.next_cancel() == (server.pid, server.key)
    server.send(m.error("canceling statement due to user request", "57014"), m.ready())
    assert client.result().types == "EZ"
    server.answer("2")
    assert client.result().value == "2"
    server.send(reply_to(question))
    server.expect_closed()


def test_trap_36_copy_out_extended_with_flush(scene):
    """Hang after a Flush, and in COPY by the extended protocol."""
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    client.send(m.parse("copyout 100"), m.bind(), m.execute(), m.flush())
    client.expect_all("12H" + "d" * 100 + "cC")
    rival.send(m.query("rival"))
    weir.barrier()
    assert not rival.has_input()
    client.send(m.sync())
    client.expect("Z")
    assert rival.result().value == "rival"


def test_trap_36_copy_in_extended_with_flush(scene):
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    client.send(m.parse("copyin"), m.bind(), m.execute(), m.flush())
    client.expect_all("12G")
    client.send(m.copy_data(b"x\n"), m.flush(), m.copy_data(b"y\n"), m.copy_done(), m.flush())
    rival.send(m.query("rival"))
    weir.barrier()
    assert not rival.has_input()
    client.send(m.sync())
    assert client.result().types == "CZ"
    assert rival.result().value == "rival"


def test_trap_37_function_call(scene):
    """FunctionCall was not forwarded, least of all as the first message."""
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    client.send(m.function_call(952, b"\0\0\0\1"), m.function_call(953))
    rival.send(m.query("rival"))
    assert client.result().types == "VZ" and client.result().types == "VZ"
    assert rival.result().value == "rival"
    large = m.function_call(954, b"x" * 5000000)
    client.send(large)
    result = client.result()
    assert result.types == "VZ" and result.messages[0].body[4:] == large[5:]


def test_trap_37_large_answer_to_a_function_call(scene):
    """As lo_read() gives it."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client = weir.client()
    client.send(m.function_call(955, b"\0\0\0\1"))
    server = fake.accept()
    server.expect("F")
    megabyte, megabytes = b"x" * 1048576, 100
    header = m.function_call_response(b"")[:1] + struct.pack("!Ii", 8 + megabytes * len(megabyte), megabytes * len(megabyte))

    def answer():
        server.send(header)
        for _ in range(megabytes):
            server.send(megabyte)
        server.send(m.ready())

    def read():
        assert client.read_bytes(len(header)) == header
        for _ in range(megabytes):
            assert client.read_bytes(len(megabyte)) == megabyte
        client.expect("Z")

    run_in_threads(answer, read)
    client.send(m.query("next"))
    server.expect_query("next")
    server.answer("fine")
    assert client.result().value == "fine"


def test_trap_37_failed_function_call(scene):
    weir = transactions(scene, scene.mini())
    client = weir.client()
    client.query("BEGIN")
    client.query("fail")
    client.send(m.function_call(1), m.query("ROLLBACK"))
    assert client.result().types == "EZ"
    assert client.result().types == "CZ"


def test_trap_38_notifications_when_idle_and_in_answers(scene):
    """A NOTIFY taken for the start or the end of a query."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session", default_pool_size=1)
    client, server = linked(fake, weir)
    storm = b"".join(m.notification(99, "channel", str(n)) for n in range(500))
    server.send(storm)
    got = client.expect_all("A" * 500)
    assert [m.read_cstrings(message.body[4:])[1] for message in got] == [str(n) for n in range(500)]
    client.send(m.query("second"))
    server.expect_query("second")
    note = m.notification(99, "channel", "between")
    server.send(note, m.row_description("v"), note, m.data_row("y"), note, m.command_complete("SELECT 1"), note,
                m.ready(), note)
    assert client.result().types == "ATADACAZ"
    client.expect("A")
    row = weir.pool("p0")
    assert (row["sv_active"], row["cl_waiting"]) == (1, 0)
    assert weir.show("STATS_TOTALS") and total(weir, "query_count") == 2


def total(weir, column):
    return next(row[column] for row in weir.show("STATS_TOTALS") if row["database"] == "p0")


def test_trap_38_notices_during_login(scene):
    """A NOTICE before ReadyForQuery failed the login."""
    fake = scene.fake()

    def login(session):
        session.send(m.notice("before"), m.authentication_ok(), m.notice("between"))
        session.send(*(m.parameter_status(*item) for item in session.parameters.items()))
        session.send(m.notice("and more"), m.backend_key_data(1, b"1234"), m.notice("after"), m.ready(), m.notice("late"))

    fake.login = login
    weir = transactions(scene, fake)
    client = weir.client()
    client.send(m.query("works"))
    server = fake.accept()
    server.expect_query("works")
    server.answer("yes")
    assert client.result().value == "yes"


@pytest.mark.parametrize("words", [m.notice("idle talk"), m.parameter_status("DateStyle", "German, DMY"),
                                   m.notification(1, "x")], ids=["notice", "parameter", "notification"])
def test_trap_38_asynchronous_messages_of_an_idle_server_do_not_dirty_it(scene, words):
    """A NOTICE from an idle server closed the connection, or was taken for an answer."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = linked(fake, weir)
    server.send(words)
    weir.barrier()
    client.send(m.query("second"))
    server.expect_query("second")
    server.answer("y")
    types = client.result().types
    assert types.replace("S", "") == "TDCZ"
    assert len(fake.started) == 1


def test_parameter_status_reaches_its_client_and_is_remembered(scene):
    fake = scene.mini()
    weir = transactions(scene, fake)
    one, two = weir.client(), weir.client()
    result = one.query("SET DateStyle = 'German, DMY'")
    assert m.read_parameter(result.messages[0].body) == ("DateStyle", "German, DMY")
    two.query("two")
    (session,) = fake.started
    assert session.parameters["DateStyle"] == "ISO, MDY"
    one.query("one")
    assert session.parameters["DateStyle"] == "German, DMY"
    until(lambda: fake.queries[-1][1] == "one")


# --- requests after a COPY that fails before data is read: only the server knows which of them it executes

def close_statement(name):
    return m.message("C", b"S" + m.cstring(name))


def types(messages):
    return "".join(one.type for one in messages)


@pytest.fixture(params=["together", "after CopyInResponse"])
def forlorn(request, scene):
    """After a failed COPY, the client prepared "one" again and got ParseComplete. That server is gone. Returns the scene's server and the client."""
    fake = scene.fake()
    weir = transactions(scene, fake, max_prepared_statements=50, server_login_retry=0)
    client = weir.client()
    client.send(m.parse("a COPY", "copy"), m.parse("one", "name"), m.parse("one"), m.sync())
    server = fake.accept()
    assert types(server.read_until("S")) == "PDPDPS"
    described = m.parse_complete() + m.parameter_description() + m.no_data()
    server.send(described * 2, m.parse_complete(), m.ready())
    assert client.result().types == "111Z"
    copy = [m.bind("copy"), m.execute()]
    behind = [m.sync(), close_statement("name"), m.parse("two", "name"), m.parse("two"), m.sync()]
    if request.param == "together":
        client.send(*copy, *behind)
        assert types(server.read_until("S")) == "BES"
        server.send(m.bind_complete(), m.copy_in_response())
    else:
        client.send(*copy, m.flush())
        assert types([server.read() for _ in range(3)]) == "BEH"
        server.send(m.bind_complete(), m.copy_in_response())
        client.expect_all("2G")
        client.send(*behind)
        assert types(server.read_until("S")) == "S"
    assert types(server.read_until("S")).replace("H", "") == "CPPS", "each has its answer in its place, so the server has to give it"
    server.send(m.error("cannot copy"), m.ready(), m.close_complete(), m.parse_complete() * 2, m.ready())
    answer_release_query(server)
    assert client.result().types in ("2GEZ", "EZ")
    assert client.result().types == "311Z"
    return fake, client


@pytest.mark.parametrize("name", ["", "name"])
def test_earlier_statement_is_not_executed_for_a_doubtful_name(forlorn, name):
    """The old statement was executed once: after ParseComplete, the client got the answer of the earlier statement."""
    fake, client = forlorn
    client.send(m.bind(name), m.execute(), m.sync())
    server = fake.accept()
    asked = server.read_until("S")
    assert types(asked) == ("BES" if name else "CBES")
    server.send(b"" if name else m.close_complete(), m.error("no such statement", "26000"), m.ready())
    assert client.result().error == "no such statement"


def test_doubtful_name_may_be_prepared_again(forlorn):
    fake, client = forlorn
    client.send(m.parse("three", "name"), m.sync())
    server = fake.accept()
    asked = server.read_until("S")
    assert types(asked) == "PDS" and b"\0three\0" in asked[0].body
    server.send(m.parse_complete(), m.parameter_description(), m.no_data(), m.ready())
    assert client.result().types == "1Z"
    client.send(m.bind("name"), m.sync())
    assert types(server.read_until("S")) == "BS"
    server.send(m.bind_complete(), m.ready())
    assert client.result().types == "2Z"


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("answered", [False, True])
def test_doubtful_server_of_a_disconnected_client_is_reused(scene, mode, answered):
    """The Sync within the COPY may have been answered: the server is kept, and the next client does not get that answer."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode=mode, default_pool_size=1, server_reset_query="DISCARD ALL")
    client, server = copy_that_fails(fake, weir)
    client.quit()
    weir.wait_log("closing because: client close request")
    other = weir.client("app")
    other.send(m.query("next"))
    server.expect_query("")
    if answered:
        server.send(m.ready())
    server.send(m.empty_query_response(), m.ready())
    if mode == "session":
        server.expect_query("DISCARD ALL")
        server.complete("DISCARD ALL")
    server.expect_query("next")
    server.answer("next")
    assert other.result().value == "next"
    assert not other.has_input()


def test_server_ends_while_a_doubt_is_resolved_without_a_client(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = copy_that_fails(fake, weir)
    client.quit()
    server.expect_query("")
    server.close()
    other = weir.client()
    other.send(m.query("next"))
    fresh = fake.accept()
    fresh.expect_query("next")
    fresh.answer("next")
    assert other.result().value == "next"


def test_doubt_is_resolved_by_the_new_process(scene):
    fake = scene.fake()
    weir = scene.weir(fake, kind=Replaced, pool_mode="transaction", default_pool_size=1)
    client, server = copy_that_fails(fake, weir)
    client.quit()
    weir.wait_log("closing because: client close request")
    server.expect_query("")
    weir.replace()
    server.send(m.ready(), m.empty_query_response(), m.ready())
    other = weir.client()
    other.send(m.query("next"))
    server.expect_query("next")
    server.answer("next")
    assert other.result().value == "next"


@pytest.mark.parametrize("used, most", [("bind", 1), ("parse", 1), ("parse", 100)])
def test_own_messages_wait_for_a_batch_that_may_be_a_copy(scene, used, most):
    """
    Of a COPY that failed with messages after it, all answers went to the client, also those to the pooler's Close, Parse and Describe. A Parse that
    went on without a Describe left the types unknown, so that a change of these types was not noticed later.
    """
    fake = scene.fake()
    weir = transactions(scene, fake, max_prepared_statements=most)
    client = weir.client()
    server = None
    for text, name in ("one", "s1"), ("a COPY", "copy"):
        client.send(m.parse(text, name), m.sync())
        server = server or fake.accept()
        asked = types(server.read_until("S"))
        assert asked == ("PDS" if name == "s1" or most > 1 else "CPDS")
        server.send(m.close_complete() if asked[0] == "C" else b"", m.parse_complete(), m.parameter_description(), m.no_data(), m.ready())
        assert client.result().types == "1Z"
    client.send(m.bind("copy"), m.execute(), m.sync(), m.bind("s1") if used == "bind" else m.parse("two", "s2"), m.sync())
    assert types(server.read_until("S")) == "BES"
    server.send(m.bind_complete(), m.error("permission denied"), m.ready())
    assert client.result().types == "2EZ"
    server.expect("H")
    described = m.parse_complete() + m.parameter_description() + m.no_data()
    if used == "parse":
        assert types(server.read_until("S")) == ("PDS" if most > 1 else "CPDS")
        server.send(b"" if most > 1 else m.close_complete(), described, m.ready())
        assert client.result().types == "1Z"
    else:
        assert types(server.read_until("H")) == "CPDH"
        server.send(m.close_complete(), described)
        assert types(server.read_until("S")) == "BS"
        server.send(m.bind_complete(), m.ready())
        assert client.result().types == "2Z"
