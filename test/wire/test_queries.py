"""The query protocol in every order that it allows, and in some that it does not."""
import random

import pytest

from support import messages as m
from support.rounds import rounds
from support.scenes import linked, transactions
from support.until import until
from support.wire import Closed


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_simple_queries(scene, mode):
    weir = scene.weir(scene.mini(), pool_mode=mode)
    client = weir.client()
    assert client.query("one").value == "one"
    assert client.query("a;b;c").types == "TDCTDCTDCZ"
    assert client.query("").types == "IZ"
    assert client.query("fail on purpose").error == "on purpose"
    assert client.query("a;fail;never").types == "TDCEZ"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_extended_queries(scene, mode):
    weir = scene.weir(scene.mini(), pool_mode=mode)
    client = weir.client()
    client.send(m.run("one"), m.sync())
    assert client.result().types == "12TDCZ"
    client.send(m.parse("two"), m.bind(values=(b"a", None, b"")), m.execute(), m.close("P"), m.sync())
    result = client.result()
    assert result.types == "12DC3Z" and result.value == "two,a,NULL,"
    client.send(m.sync())
    assert client.result().types == "Z"
    client.send(m.parse("badparse"), m.bind(), m.execute(), m.sync())
    assert client.result().types == "EZ"
    client.send(m.close("S", "unknown"), m.sync())
    assert client.result().types == "3Z"


def test_transaction_keeps_its_server(scene):
    fake = scene.mini()
    weir = transactions(scene, fake, 2)
    one, two = weir.client(), weir.client()
    for step in ("BEGIN", "one 1", "one 2"):
        one.query(step)
        two.query("two")
    one.query("COMMIT")
    pids = {text: pid for pid, text in fake.queries}
    assert pids["BEGIN"] == pids["one 1"] == pids["one 2"] == pids["COMMIT"] != pids["two"]


def test_session_keeps_its_server_and_resets_it(scene):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="session", default_pool_size=1)
    one, two = weir.client(), weir.connect()
    one.query("first")
    two.send(m.startup(user="app", database="p0"))
    two.finish_login("app")
    two.send(m.query("second"))
    weir.wait_pool("p0", cl_waiting=1)
    one.quit()
    assert two.result().value == "second"
    assert [text for _, text in fake.queries] == ["first", "DISCARD ALL", "second"]


def test_transactions_are_refused_in_statement_mode(scene):
    weir = scene.weir(scene.mini(), pool_mode="statement", default_pool_size=1)
    client = weir.client()
    client.send(m.query("BEGIN"))
    error = m.read_error(client.drain()[-1].body)
    assert error["M"] == "transaction blocks not allowed in statement pooling mode" and error["C"] == "08P01"
    assert weir.client().query("next").status == "I"


@pytest.mark.parametrize("linked_before", [True, False])
def test_a_flush_with_a_body_reaches_no_server(scene, linked_before):
    """PostgreSQL answers the malformed Flush with an error and skips to a Sync, including messages of the next client."""
    weir = transactions(scene, scene.mini())
    client = weir.client()
    if linked_before:
        client.query("BEGIN")
    client.send(m.message("H", b"more"))
    assert m.read_error(client.drain()[-1].body)["M"] == "bad packet"
    assert weir.client().query("next").value == "next"


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_transactions_of_several_queries_are_refused_in_statement_mode(scene, at_once):
    """However the answers arrive: the answer to COMMIT may be in the same read as the answer to BEGIN."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="statement", default_pool_size=1)
    client, server = linked(fake, weir)
    client.send(m.query("BEGIN"), m.query("one"), m.query("COMMIT"))
    server.expect_all("QQQ")
    answers = [m.command_complete("BEGIN"), m.ready("T"), m.command_complete("ONE"), m.ready("T"), m.command_complete("COMMIT"), m.ready("I")]
    if at_once:
        server.send(*answers)
    else:
        server.send(*answers[:2])
    got = client.drain()
    assert [message.type for message in got] == ["C", "E"]
    assert m.read_error(got[-1].body)["M"] == "transaction blocks not allowed in statement pooling mode"


def test_statements_of_one_query_stay_together_in_statement_mode(scene):
    weir = scene.weir(scene.mini(), pool_mode="statement", default_pool_size=1)
    client = weir.client()
    assert client.query("BEGIN; x; COMMIT").types == "CTDCCZ"


def test_pqexec_may_be_disallowed(scene):
    weir = transactions(scene, scene.mini(), disable_pqexec=1)
    client = weir.client()
    client.send(m.run("fine"), m.sync())
    assert client.result().types == "12TDCZ"
    client.send(m.query("not fine"))
    (error,) = client.drain()
    assert m.read_error(error.body)["M"] == "PQexec disallowed"


def test_notice_may_come_anywhere(scene):
    fake = scene.fake()
    weir = transactions(scene, fake)
    client = weir.client()
    client.send(m.run("x"), m.sync())
    server = fake.accept()
    server.expect_all("PBDES")
    note = m.notice("by the way")
    for part in (m.parse_complete(), m.bind_complete(), m.row_description("v"), m.data_row("x"),
                 m.command_complete("SELECT 1"), m.ready()):
        server.send(note)
        server.send(part)
    assert client.result().types == "N1N2NTNDNCNZ"


def test_messages_larger_than_every_buffer(scene):
    weir = transactions(scene, scene.mini(), pkt_buf=1024)
    client = weir.client()
    for size in (1000, 4090, 4096, 8192, 65530, 65536, 1000000):
        text = "x" * size
        assert client.query(text).value == text
        client.send(m.parse("y" + text), m.bind(values=(text.encode(),)), m.execute(), m.sync())
        assert client.result().value == "y" + text + "," + text


def test_max_packet_size(scene):
    weir = transactions(scene, scene.mini(), max_packet_size=100000)
    client = weir.client()
    assert client.query("x" * 90000).value
    client.send(m.query("x" * 200000)[:100])
    assert [got.type for got in client.drain()] in (["E"], [])
    assert weir.client().query("next").value == "next"


def test_terminate_in_a_pipeline(scene):
    fake = scene.mini()
    weir = transactions(scene, fake)
    client = weir.connect()
    client.login(user="app", database="p0")
    client.send(m.query("last words"), m.terminate())
    client.drain()
    assert weir.client().query("next").value == "next"


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_from_a_client(scene, seed):
    """Before and after login: pgweir closes that client, no other client is affected, and nothing of it stays."""
    fake = scene.mini()
    weir = transactions(scene, fake, 3)
    good = weir.client()
    draw = random.Random(seed)
    kinds = "QPBDECSHFXdcfp\0\1Rz\xff"
    for turn in rounds(10):
        bad = weir.connect()
        if turn % 2:
            bad.login(user="app", database="p0")
        junk = b"".join(
            bytes((ord(draw.choice(kinds)),)) + draw.choice((draw.randbytes(4), (4 + draw.randrange(20)).to_bytes(4, "big")))
            + draw.randbytes(draw.randrange(24)) for _ in range(draw.randrange(1, 12)))
        bad.send(junk)
        weir.barrier()
        (bad.close if turn % 3 else bad.abort)()
        assert good.query("good %d" % turn).value == "good %d" % turn
    until(lambda: len([c for c in weir.show("CLIENTS") if c["database"] == "p0"]) == 1, "the bad clients are gone")
    weir.wait_pool("p0", sv_active=0)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_from_a_server(scene, seed):
    """In its login and in its answers: the client is told or cut off, and the next connection works."""
    draw = random.Random(seed)
    kinds = "RSKZTDCEN12snIGHVAtdcW3v\0\xff"
    fake = scene.mini()
    sane_login, sane_serve, bad = fake.login, fake.serve, [True]

    def junk():
        return b"".join(
            bytes((ord(draw.choice(kinds)),)) + (4 + draw.choice((0, 1, 4, 8, 2 ** 31, draw.randrange(99)))).to_bytes(4, "big")
            + draw.randbytes(draw.randrange(24)) for _ in range(draw.randrange(1, 12)))

    def login(session):
        if bad[0] and draw.random() < 0.3:
            session.send(junk())
            session.close()
            raise Closed("said nonsense")
        session.welcome()

    def serve(session):
        if not bad[0]:
            sane_serve(session)
            return
        session.read()
        session.send(junk())
        session.close()

    assert sane_login is None
    fake.login, fake.serve = login, serve
    weir = transactions(scene, fake, 2, server_login_retry=0)
    bad[0] = False
    weir.client().query("parameters are known now")
    fake.drop_all()
    bad[0] = True
    for turn in rounds(10):
        client = weir.connect()
        client.send(m.startup(user="app", database="p0"))
        client.send(m.query("x"))
        weir.barrier()
        client.close()
        weir.barrier()
    bad[0] = False
    until(lambda: works(weir), "the next connection works")


def works(weir):
    client = weir.connect()
    try:
        client.login(user="app", database="p0")
        return client.query("sane").value == "sane"
    except Exception:       # pylint: disable=broad-except
        return False
