"""Beginnings that many scenes share."""
from . import messages as m


def transactions(scene, target, pool_size=1, **options):
    """pgweir in transaction mode, with room for this many servers."""
    return scene.weir(target, pool_mode="transaction", default_pool_size=pool_size, **options)


def asked(fake, weir, text="first"):
    """A client with a query that has arrived, and the server that has to answer it."""
    client = weir.client()
    client.send(m.query(text))
    server = fake.accept()
    server.expect_query(text)
    return client, server


def linked(fake, weir):
    """A client that was answered, and the server that it was answered by."""
    client, server = asked(fake, weir)
    server.answer("x")
    assert client.result().value == "x"
    return client, server


def copy_that_fails(fake, weir):
    """
    Returns a client that has received the last answer to a failed COPY of the extended protocol, and its server. The Sync that was sent with the
    Execute was ignored during the COPY, as the server does; the server might also have answered it.
    """
    client = weir.client()
    client.send(m.parse("COPY t FROM STDIN"), m.bind(), m.execute(), m.sync())
    server = fake.accept()
    server.expect_all("PBES")
    server.send(m.parse_complete(), m.bind_complete(), m.copy_in_response())
    client.expect_all("12G")
    client.send(m.copy_data(b"bad\n"), m.copy_done(), m.sync())
    server.expect_all("dcS")
    server.send(m.error("bad data", "22P04"), m.ready())
    client.expect_all("EZ")
    return client, server


def reply_to(question, status="I"):
    """The answer to the messages that pgweir sends after all others when it has lost track of pending answers."""
    parse = question[0]
    return m.parse_complete() + m.parameter_description(*m.read_parse(parse.body)[2]) + m.no_data() + m.ready(status)


def answer_release_query(server):
    """This server is left, and has answered all before."""
    server.send(reply_to(server.expect_all("PDSX")))
    server.expect_closed()
