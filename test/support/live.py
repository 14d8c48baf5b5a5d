"""Helpers for scenes with pgweir and a real PostgreSQL. A client here is the scripted client of wire.py."""
from . import messages as m

SOON = 1.5              # a time that is to run out in a test, in seconds; longer than a login, less than 2 (wire/test_waits.py)
NEVER = 3600            # a timeout that must not expire


def pid_of(client):
    """The process id of the PostgreSQL backend that serves a query of this client now."""
    return int(client.query("SELECT pg_backend_pid()").value)


def hold(client):
    """Begins a transaction, which keeps a server connection; the backend's process id."""
    assert client.query("BEGIN").tags == ["BEGIN"]
    return pid_of(client)


def let_go(client):
    assert client.query("COMMIT").tags == ["COMMIT"]


def ask(client, sql="SELECT pg_backend_pid()"):
    """Sends a query without waiting for the answer: read it with client.result()."""
    client.send(m.query(sql))


# Takes until it is cancelled. Its notice tells that it runs: to PostgreSQL a cancel that comes before means nothing.
LONG = "DO $$ BEGIN RAISE NOTICE 'runs'; PERFORM pg_sleep(3600); END $$"


def ask_long(client):
    """Sends a query that takes until it is cancelled, and returns when the server runs it."""
    ask(client, LONG)
    client.expect("N")


def last_words(client):
    """The fields of the ErrorResponse with which a connection ends."""
    words = [m.read_error(message.body) for message in client.drain() if message.type == "E"]
    assert len(words) == 1, words
    return words[0]


def ended_with(client, text, sqlstate="08P01"):
    """The connection has ended with these words."""
    fields = last_words(client)
    assert (fields["M"], fields["C"], fields["S"]) == (text, sqlstate, "FATAL"), fields


def notices(messages):
    return [m.read_error(message.body)["M"] for message in messages if message.type == "N"]
