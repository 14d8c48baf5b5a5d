"""Traps 1 to 13: replies that are lost, doubled, or reach another client."""
import random

import pytest

from support import messages as m
from support.rounds import rounds
from support.scenes import linked, transactions
from support.threads import run_in_threads


def batch(text):
    return m.run(text) + m.sync()


def check_batches(client, texts):
    """The replies to one batch for each text, and nothing else."""
    for text in texts:
        result = client.result()
        assert result.types == "12TDCZ" and result.value == text


def test_trap_01_pipelines_of_rivals(scene):
    """Server released on the first ReadyForQuery while later batches of the pipeline are unanswered."""
    weir = transactions(scene, scene.mini())
    clients = [weir.client() for _ in range(3)]
    for turn in rounds(10):
        texts = {client: ["client %d turn %d batch %d" % (n, turn, k) for k in range(20)]
                 for n, client in enumerate(clients)}
        for client in clients:
            client.send(*map(batch, texts[client]))
        for client in clients:
            check_batches(client, texts[client])


def test_trap_01_pipelines_of_simple_queries(scene):
    weir = transactions(scene, scene.mini())
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.send(*(m.query("%d of %d" % (k, id(client))) for k in range(20)))
    for client in clients:
        for k in range(20):
            assert client.result().value == "%d of %d" % (k, id(client))


def test_trap_01_server_is_kept_while_a_second_sync_is_unanswered(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    one, two = weir.client(), weir.client()
    one.send(batch("first"), batch("second"))
    server = fake.accept()
    server.expect_all("PBDESPBDES")
    two.send(m.query("rival"))
    answer = m.parse_complete() + m.bind_complete() + m.rows("x") + m.ready()
    server.send(answer)
    assert one.result().value == "x"
    weir.barrier()
    assert not server.has_input()
    server.send(answer)
    assert one.result().value == "x"
    server.expect_query("rival")
    server.answer("y")
    assert two.result().value == "y"


def test_trap_02_pipeline_cut_at_every_byte(scene):
    """A path for whole messages counted differently from the path for pieces."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    pipeline = batch("one") + m.parse("two") + m.flush() + m.bind() + m.execute() + m.sync() + m.query("three") + m.sync()
    for cut in range(1, len(pipeline)):
        client.send(pipeline[:cut])
        weir.barrier()
        client.send(pipeline[cut:])
        kinds = "".join(client.result().types for _ in range(4))
        assert kinds == "12TDCZ" "12DCZ" "TDCZ" "Z", "cut at byte %d" % cut


def test_trap_03_flush_is_not_the_end_of_a_query(scene):
    """Execute and Flush taken for the end: ReadyForQuery before the client's Sync was even sent."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, rival = weir.client(), weir.client()
    client.send(m.parse("insert"), m.describe("S"), m.flush())
    server = fake.accept()
    server.expect_all("PDH")
    server.send(m.parse_complete(), m.parameter_description(), m.no_data())
    client.expect_all("1tn")
    client.send(m.bind(), m.execute(), m.flush())
    server.expect_all("BEH")
    server.send(m.bind_complete(), m.command_complete("INSERT 0 1"))
    client.expect_all("2C")
    rival.send(m.query("rival"))
    weir.barrier()
    assert not client.has_input() and not server.has_input()
    client.send(m.sync())
    server.expect("S")
    weir.barrier()
    assert not client.has_input() and not server.has_input()
    server.send(m.ready())
    client.expect("Z")
    server.expect_query("rival")
    server.answer("done")
    assert rival.result().value == "done"


def test_trap_04_rows_in_portions_with_flush(scene):
    """Server freed while a portal is open."""
    weir = transactions(scene, scene.mini())
    client, rivals = weir.client(), [weir.client() for _ in range(3)]
    client.send(m.parse("series 1000"), m.bind(), m.flush())
    client.expect_all("12")
    for rival in rivals:
        rival.send(m.query("rival %d" % id(rival)))
    got = []
    while len(got) < 1000:
        client.send(m.execute(rows=10), m.flush())
        got += [m.read_row(client.expect("D").body)[0].decode() for _ in range(10)]
        assert client.read().type in "sC"
    assert got == ["series 1000 %d" % n for n in range(1000)]
    weir.barrier()
    assert not any(rival.has_input() for rival in rivals)
    client.send(m.sync())
    client.expect("Z")
    for rival in rivals:
        assert rival.result().value == "rival %d" % id(rival)


def test_trap_05_error_skips_to_sync_and_so_do_the_expectations(scene):
    """After an error the server skips to Sync, but the skipped replies stayed expected."""
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    for turn in rounds(20):
        client.send(m.parse("fail now"), m.bind(), m.execute(), m.query("skipped"), m.parse("skipped"), m.describe())
        client.send(m.sync())
        assert client.result().types == "12EZ"
        client.send(m.query("after %d" % turn))
        rival.send(m.query("rival %d" % turn))
        assert client.result().value == "after %d" % turn
        assert rival.result().value == "rival %d" % turn


def test_trap_05_query_without_sync_after_an_error(scene):
    weir = transactions(scene, scene.mini())
    client = weir.client()
    client.send(m.parse("fail now"), m.bind(), m.execute(), m.query("skipped"))
    weir.barrier()
    client.send(m.sync())
    assert client.result().types == "12EZ"
    weir.barrier()
    assert not client.has_input()
    assert client.query("again").value == "again"


def test_trap_05_messages_after_a_received_error(scene):
    """Messages between the error and the Sync are skipped, so no answers are expected."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    client.send(m.parse("fail now"), m.bind(), m.execute(), m.flush())
    client.expect_all("12E")
    client.send(m.query("skipped"), m.run("skipped"))
    weir.barrier()
    client.send(m.sync())
    assert client.result().types == "Z"
    assert client.query("again").value == "again"


def test_trap_06_error_meets_the_next_batch(scene):
    """A failed batch, with the next Parse and Flush on their way already."""
    weir = transactions(scene, scene.mini())

    def work(name):
        client = weir.client()
        for turn in rounds(50):
            client.send(m.parse("fail " + name), m.bind(), m.execute(), m.sync())
            client.send(m.parse("%s %d" % (name, turn)), m.describe("S"), m.flush())
            failed = client.result()
            assert failed.types == "12EZ" and failed.error == name
            client.expect_all("1tT")
            client.send(m.bind(), m.execute(), m.sync())
            result = client.result()
            assert result.types == "2DCZ" and result.value == "%s %d" % (name, turn)

    run_in_threads(lambda: work("one"), lambda: work("two"), lambda: work("three"))


def test_trap_07_error_of_the_poolers_own_statement_stays_with_its_client(scene):
    """The pooler's own query for one client fails, and the error was taken for the answer to another."""
    fake = scene.mini()
    fake.refused_values = {"Mars/Olympus"}
    weir = transactions(scene, fake)
    plain = weir.client()
    plain.query("opens the server")
    for turn in rounds(20):
        odd = weir.client(TimeZone="Mars/Olympus")
        odd.send(m.query("odd %d" % turn))
        plain.send(m.query("plain %d" % turn))
        result = plain.result()
        assert result.types == "TDCZ" and result.value == "plain %d" % turn
        words = odd.read()
        assert words.type in "ET", "the query ran, or was refused: %r" % (words,)
        odd.close()


def test_clients_with_different_parameters_take_turns(scene):
    """The values of one client must not be undone for the next before its query has run."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    zones = ("UTC", "Asia/Tokyo", "Europe/Oslo")
    clients = [weir.client(TimeZone=zone) for zone in zones]
    for turn in range(10):
        for client, zone in zip(clients, zones):
            client.send(m.query("%s %d" % (zone, turn)))
        for client, zone in zip(clients, zones):
            assert client.result().value == "%s %d" % (zone, turn)
    for before, (_, text) in zip(fake.queries, fake.queries[1:]):
        assert "set_config" in text or "set_config" in before[1] or text.split()[0] == before[1].split()[0]


def test_trap_08_cancel_does_not_shift_the_replies(scene):
    """A cancel request that the pooler answered shifted all later replies by one."""
    fake = scene.mini()
    weir = transactions(scene, fake, 2)
    client, rival = weir.client(), weir.client()
    draw = random.Random(8)
    for turn in rounds(200, full=10000):
        if turn % 2:
            before = len(fake.queries)
            client.send(m.query("wait"))
            fake.until(lambda: len(fake.queries) > before, "the query runs")
        else:
            client.send(m.query("quick"))
        for _ in range(draw.randrange(3)):
            weir.barrier()
        with weir.cancel(client):
            rival.send(m.query("rival %d" % turn))
            result = client.result()
        if turn % 2:
            assert result.error == "canceling statement due to user request"
        else:
            assert result.value == "quick"
        assert rival.result().value == "rival %d" % turn
        assert client.query("count %d" % turn).value == "count %d" % turn


@pytest.mark.parametrize("leave", ["close", "abort"])
@pytest.mark.parametrize("half", [m.parse("half") + m.bind() + m.execute(), m.query("half a query")], ids=["batch", "query"])
def test_trap_09_client_disconnects_at_every_byte(scene, half, leave):
    """Half a batch stays at the server and becomes the beginning of the next user's."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    rival = weir.client()
    for cut in range(1, len(half)):
        client = weir.connect()
        client.login(user="app", database="p0")
        client.send(half[:cut])
        weir.barrier()
        getattr(client, leave)()
        result = rival.query("after %d" % cut)
        assert result.value == "after %d" % cut and result.status == "I"
    # a Terminate sent after a partial message would have completed it
    assert all(text.startswith("after ") for _, text in fake.queries if text != "half") and not fake.malformed
    for session in fake.started:
        heard = "".join(session.heard)
        assert "P" not in heard or "Q" not in heard[heard.index("P"):], "reused after half a batch"


@pytest.mark.parametrize("leave", ["quit", "close", "abort"])
@pytest.mark.parametrize("state", ["in transaction", "in aborted transaction", "in a pipeline", "in a query"])
def test_trap_10_next_client_gets_no_open_transaction(scene, leave, state):
    """Connection in a transaction returned to the pool when its client left."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    client, rival = weir.connect(), weir.client()
    client.login(user="app", database="p0")
    if state == "in a query":
        client.send(m.query("wait"))
        fake.until(lambda: fake.queries, "the query runs")
    else:
        client.query("BEGIN")
        if state == "in aborted transaction":
            client.query("fail")
        if state == "in a pipeline":
            client.send(m.parse("x"), m.bind(), m.execute(), m.flush())
            client.expect_all("12D")
    rival.send(m.query("next"))
    getattr(client, leave)()
    result = rival.result()
    assert result.value == "next" and result.status == "I"
    first, second = fake.started
    assert "Q" not in second.heard[1:] and fake.queries[-1] == (second.pid, "next") and first is not second


@pytest.mark.parametrize("size", [1000, 65536, 400000, 3000000, 50000000])
def test_trap_11_slow_reader_keeps_its_server(scene, size):
    """Server lent to the next one before all of its bytes had really been sent."""
    weir = transactions(scene, scene.mini())
    rivals = [weir.client() for _ in range(3)]
    slow = weir.client(receive_buffer=4096)
    weir.barrier()
    before = weir.memory()
    slow.send(m.query("rows %d %d" % (size // 1000, 1000)))
    for rival in rivals:
        rival.send(m.query("rival %d" % id(rival)))
    weir.barrier()
    if size == 50000000:
        assert not any(rival.has_input() for rival in rivals)
    assert weir.memory() - before < 16384
    result = slow.result()
    assert result.tags == ["SELECT %d" % (size // 1000)] and len(result.rows) == size // 1000
    for rival in rivals:
        assert rival.result().value == "rival %d" % id(rival)


def test_trap_12_server_that_writes_byte_by_byte(scene):
    """Header read twice, or not at all, when it comes in pieces."""
    weir = transactions(scene, scene.mini(byte_by_byte=True))
    client, rival = weir.client(), weir.client()
    for turn in range(5):
        client.send(batch("a %d" % turn), batch("b %d" % turn), m.query("BEGIN; c; fail d"), m.query("ROLLBACK"))
        rival.send(m.query("rival %d" % turn))
        check_batches(client, ["a %d" % turn, "b %d" % turn])
        assert client.result().types == "CTDCEZ"
        assert client.result().types == "CZ"
        assert rival.result().value == "rival %d" % turn


def test_trap_12_both_sides_write_byte_by_byte(scene):
    weir = transactions(scene, scene.mini(byte_by_byte=True))
    client = weir.client()
    client.dribble(batch("one"), m.query("two"), m.parse("three", "named"), m.sync(), m.bind("named"), m.execute(), m.sync())
    assert "".join(client.result().types for _ in range(4)) == "12TDCZ" "TDCZ" "1Z" "2DCZ"


def test_trap_12_large_row_after_a_small_reply(scene):
    weir = transactions(scene, scene.mini())
    client, rival = weir.client(), weir.client()
    text = "x" * 1000000
    client.send(m.parse("small", "small"), m.sync(), m.query(text), batch(text))
    rival.send(m.query("rival"))
    assert client.result().types == "1Z"
    assert client.result().value == text
    check_batches(client, [text])
    assert rival.result().value == "rival"


@pytest.mark.parametrize("leave", ["close", "abort"])
def test_trap_12_reader_disconnects_within_a_row(scene, leave):
    weir = transactions(scene, scene.mini())
    rival = weir.client()
    client = weir.connect()
    client.login(user="app", database="p0")
    client.send(m.query("rows 10 1000000"))
    client.expect("T")
    client.read_bytes(300000)
    rival.send(m.query("rival"))
    getattr(client, leave)()
    assert rival.result().value == "rival"


def test_trap_13_dead_idle_server_is_not_lent(scene):
    """The connection of an idle server ends just before the next query."""
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.client()
    for turn in rounds(30):
        assert client.query("turn %d" % turn).value == "turn %d" % turn
        fake.drop_all()
        weir.barrier()


@pytest.mark.parametrize("words", [
    m.ready(), m.command_complete("SELECT 1"), m.data_row("of somebody else"), b"\0\0\0\0\0\0\0", m.parse_complete(),
    m.error("terminating connection due to administrator command", "57P01", "FATAL"),
], ids=["Z", "C", "D", "zeros", "1", "E"])
def test_trap_13_idle_server_that_sends_data_is_not_lent(scene, words):
    """An asynchronous message of an idle server must never become the beginning of an answer."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    client, server = linked(fake, weir)
    server.send(words)
    weir.barrier()
    client.send(m.query("second"))
    fresh = fake.accept()
    fresh.expect_query("second")
    fresh.answer("y")
    result = client.result()
    assert result.value == "y" and result.types == "TDCZ"
