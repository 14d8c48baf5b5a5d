"""The server's side of auth_query: pgweir's messages, and answers of every form."""
from . import messages as m

BATCH = "PBEPBEPBDES"


def asked_for(session, first=None):
    """The next that comes must be a look-up: (name of the user, the query). `first`: the message of it that has been read."""
    got = [first] + session.expect_all(BATCH[1:]) if first else session.expect_all(BATCH)
    query = m.read_cstrings(got[6].body[1:])[0]
    bind = got[7].body
    assert bind[:8] == b"\0\0" + b"\0\0" + b"\0\1" + bind[6:8], bind
    return bind[10:-2].decode(), query


def prepared():
    """The answers to the statements that precede the query."""
    return 2 * (m.parse_complete() + m.bind_complete() + m.data_row("x") + m.command_complete("SELECT 1"))


def result(*rows, columns=2, end=None):
    """The answer to the query itself, including ReadyForQuery."""
    return (m.parse_complete() + m.bind_complete() + m.row_description(*("c%d" % n for n in range(columns))) +
            b"".join(m.data_row(*row) for row in rows) + (end or m.command_complete("SELECT %d" % len(rows))) + m.ready())


def found(user, secret):
    return prepared() + result((user, secret))


def nobody():
    return prepared() + result()


def failed(error):
    """An error of the query; the server passes over the rest."""
    return prepared() + m.parse_complete() + error + m.ready()


def answer(fake, secret_of, asker="asker"):
    """The played server answers the look-ups of `asker` with secret_of(user) (None: it has no such user), and serves others as before."""
    serve_others = fake.serve

    def serve(session):
        if session.startup["user"] != asker:
            serve_others(session)
            return
        while True:
            first = session.read()
            if first.type == "X":
                return
            if first.type == "P":
                user, _ = asked_for(session, first)
                secret = secret_of(user)
                session.send(nobody() if secret is None else found(user, secret))
            else:
                session.complete("SELECT 1")
    fake.serve = serve
