"""Servers with a SCRAM challenge that takes long to answer: separate processes derive the keys, and pgweir keeps them, up to a limit."""
import os
import signal
import threading

from support import messages as m
from support import scram
from support.until import until
from support.wire import LoginRefused

PASSWORD = "app-secret"
SLOW = 1000000          # iterations, the most that is taken
TOO_MANY = "server asks for SCRAM with another salt each time"


def asking(salt_of=lambda: os.urandom(16), iterations=1, seen=None):
    """A login that asks for SCRAM with the salt that salt_of() gives."""
    def login(session):
        if seen:
            seen.append(session)
        session.ask_scram(PASSWORD, secret=scram.make_secret(PASSWORD, salt_of(), iterations))
        session.welcome()
    return login


def with_password(fake, password):
    """An entry of [databases] that has one."""
    return "host=127.0.0.1 port=%d dbname=p0 password=%s" % (fake.port, password)


def derivations(weir):
    return sum(row["answers"] or 0 for row in weir.show("VERIFIERS"))


def one_use(session):
    """Answers one query, then ends, so that the next one wants a new connection."""
    session.sock.settimeout(None)
    session.expect_query()
    session.answer("in")
    session.close()


def asks_once(weir, database="p0"):
    """Returns None, or the error message of a new client."""
    try:
        client = weir.client(database=database)
    except LoginRefused as refused:
        return refused.fields["M"]
    client.send(m.query("x"))
    packet = client.read()
    client.close()
    return m.read_error(packet.body)["M"] if packet.type == "E" else None


def test_event_loop_continues_while_keys_are_derived(scene):
    """Clients of another database are served between the challenge and its answer."""
    answered = threading.Event()

    def login(session):
        secret = scram.Secret(SLOW, os.urandom(16), b"", b"")
        session.send(m.authentication(10, b"SCRAM-SHA-256\0\0"))
        first = session.expect("p").body.partition(b"\0")[2][4:].decode()
        session.send(m.authentication(11, scram.server_first(scram.attributes(first)["r"], secret).encode()))
        session.expect("p")
        answered.set()
        session.close()

    weir = scene.weir({"slow": scene.fake(login=login), "p0": scene.mini()}, server_login_retry=60, server_connect_timeout=600,
                      client_login_timeout=600)
    inside = weir.client()
    waiting = weir.connect()
    waiting.send(m.startup(user="app", database="slow"))
    until(lambda: [row for row in weir.show("VERIFIERS") if row["method"] == "SCRAM"], "a key is derived")
    for n in range(20):
        assert inside.query("q%d" % n).value == "q%d" % n
    assert not answered.is_set()
    assert answered.wait(300)


def test_server_login_with_derivation_succeeds(scene):
    """Data after the server's challenge is not lost, and a disconnect of the client is noticed."""
    fake = scene.fake(login=asking(iterations=50000), serve=one_use)
    weir = scene.weir(fake, pool_mode="transaction")
    leaving = weir.connect()
    leaving.send(m.startup(user="app", database="p0"))
    until(lambda: derivations(weir) == 1 or [row for row in weir.show("VERIFIERS") if row["state"] == "busy"], "a key is derived")
    leaving.abort()
    assert weir.client().query("x").value == "in"


def test_the_connection_ends_while_its_key_is_derived(scene):
    """By the server, by time, by an administrator, by the end of pgweir."""
    def login(session):
        secret = scram.Secret(SLOW, os.urandom(16), b"", b"")
        session.send(m.authentication(10, b"SCRAM-SHA-256\0\0"))
        first = session.expect("p").body.partition(b"\0")[2][4:].decode()
        session.send(m.authentication(11, scram.server_first(scram.attributes(first)["r"], secret).encode()))
        if session.startup["database"] == "leaves":
            session.close()

    fake = scene.fake(login=login)
    weir = scene.weir({"leaves": fake, "p0": fake, "killed": fake}, server_connect_timeout=1, server_login_retry=60,
                      server_down="fail", max_auth_processes=1)
    clients = []
    for database in "leaves", "p0", "killed":
        clients.append(weir.connect())
        clients[-1].send(m.startup(user="app", database=database))
    until(lambda: len([row for row in weir.show("VERIFIERS") if row["method"] == "SCRAM"]) == 3, "keys are derived, or wait for that")
    weir.admin("KILL killed")
    for client in clients:
        client.drain()
    clients.append(weir.connect())
    weir.admin("RESUME killed")
    clients[-1].send(m.startup(user="app", database="killed"))
    until(lambda: [row for row in weir.show("VERIFIERS") if row["method"] == "SCRAM"], "one more is derived")


def test_keys_of_several_salts_are_cached(scene):
    """Servers of three clusters with one user: one derivation per salt."""
    fakes = [scene.fake(login=asking(lambda salt=bytes([n]) * 16: salt), serve=one_use) for n in range(3)]
    weir = scene.weir({"p%d" % n: fake for n, fake in enumerate(fakes)}, pool_mode="transaction")
    for _ in range(4):
        for n in range(3):
            client = weir.client(database="p%d" % n)
            assert client.query("x").value == "in"
            client.quit()
            until(lambda: not weir.show("SERVERS"), "the server has ended")
    assert [len(fake.started) for fake in fakes] == [4, 4, 4]
    assert derivations(weir) == 3


def test_passwords_of_several_databases(scene):
    """Each has its own for one user: their keys are kept side by side, and no database has the bound of derivations against it."""
    def asking_for(password, salt):
        def login(session):
            session.ask_scram(password, secret=scram.make_secret(password, salt, 1))
            session.welcome()
        return login

    fakes = [scene.fake(login=asking_for("password%d" % n, bytes([n]) * 16), serve=one_use) for n in range(2)]
    weir = scene.weir({"p%d" % n: with_password(fake, "password%d" % n) for n, fake in enumerate(fakes)}, pool_mode="transaction")
    for _ in range(20):
        for n in range(2):
            client = weir.client(database="p%d" % n)
            assert client.query("x").value == "in"
            client.quit()
            until(lambda: not weir.show("SERVERS"), "the server has ended")
    assert derivations(weir) == 2


def test_refused_password(scene):
    """The key is derived once, for any number of attempts, and clients get the server's error."""
    salt = bytes(16)

    def login(session):
        session.ask_scram("another", secret=scram.make_secret("another", salt, 1))

    fake = scene.fake(login=login)
    weir = scene.weir(fake, server_login_retry=0)
    for n in range(30):
        words = asks_once(weir)
        assert words and "password authentication failed" in words, (n, words)
    assert derivations(weir) == 1


def test_password_is_corrected_during_a_derivation(scene):
    """The key of the wrong one does not count for the right one, which has the same salt at the server."""
    salt = bytes(16)

    def login(session):
        session.ask_scram(PASSWORD, secret=scram.make_secret(PASSWORD, salt, 1))
        session.welcome()

    fake = scene.fake(login=login, serve=one_use)
    weir = scene.weir(fake, users={"app": "wrong"}, server_login_retry=0, max_auth_processes=1, pool_mode="transaction")
    asks_once(weir)
    (row,) = [row for row in weir.show("VERIFIERS") if row["pid"] is not None]
    os.kill(row["pid"], signal.SIGSTOP)
    salt = bytes([1]) * 16
    waiting = weir.connect()
    waiting.send(m.startup(user="app", database="p0"))
    until(lambda: [row for row in weir.show("VERIFIERS") if row["state"] == "busy"], "a key is derived")
    weir.users["app"] = PASSWORD
    weir.write_users()
    weir.admin("RELOAD")
    os.kill(row["pid"], signal.SIGCONT)
    waiting.drain()
    assert not asks_once(weir)


def test_many_connections_that_need_one_key(scene):
    """A server comes back with another salt, and all its clients return: one derivation, counted once."""
    salts = [bytes(16), bytes([1]) * 16]
    fake = scene.fake(login=asking(lambda: salts[0]))
    weir = scene.weir(fake, default_pool_size=40, pool_mode="transaction", server_round_robin=1, max_auth_processes=1)
    clients = [weir.client() for _ in range(40)]
    clients[0].send(m.query("x"))
    session = fake.accept()
    session.expect_query()
    session.answer("in")
    assert clients[0].result().value == "in"
    del salts[0]
    (row,) = [row for row in weir.show("VERIFIERS") if row["pid"] is not None]
    os.kill(row["pid"], signal.SIGSTOP)
    before = len(fake.started)
    for client in clients:
        client.send(m.query("x"))
    # more are opened when one of these is logged in
    until(lambda: len(fake.started) == before + 2, "two connections wait for the key")
    os.kill(row["pid"], signal.SIGCONT)
    weir.wait_pool("p0", sv_active=40)
    assert TOO_MANY not in weir.log() and derivations(weir) == 2


def test_server_with_constantly_new_salts(scene):
    """Some are taken, then its logins fail for a while, with the reason; other databases have nothing to do with it."""
    other = scene.fake(login=asking(), serve=one_use)
    weir = scene.weir({"p0": scene.fake(login=asking(), serve=one_use), "p1": other}, pool_mode="transaction", server_login_retry=60)
    served = 0
    words = ""
    while served < 60 and TOO_MANY not in words:
        words = asks_once(weir) or ""
        served += not words
    assert TOO_MANY in words
    assert served >= 16
    assert TOO_MANY in weir.log()
    assert weir.client(database="p1").query("x").value == "in"


def test_many_databases_of_a_server_with_constantly_new_salts(scene):
    """Each name of a database that led to it was a budget of its own."""
    names = ["d%d" % n for n in range(6)]
    weir = scene.weir({"*": scene.fake(login=asking(), serve=one_use)}, pool_mode="transaction", server_login_retry=60)
    for database in names:
        for _ in range(5):
            if asks_once(weir, database):
                break
    assert TOO_MANY in weir.log()
    # one more every five seconds
    assert 16 <= derivations(weir) <= 24


def test_wrong_client_passwords_do_not_delay_server_logins(scene):
    """Their requests fill the queue; those of server logins have a separate queue."""
    path = scene.directory + "/hba.conf"
    with open(path, "w", encoding="utf-8") as f:
        f.write("host pgbouncer all all trust\nhost slow all all password\nhost all all all trust\n")
    users = {"app": PASSWORD, "admin": "x", "victim": scram.secret_text(scram.make_secret("x", iterations=SLOW))}
    weir = scene.weir({"slow": scene.mini(), "p0": scene.fake(login=asking(), serve=one_use)}, users=users, auth_type="hba", auth_hba_file=path,
                      listen_addr="*", max_auth_processes=1, max_auth_queue=8, pool_mode="transaction")
    crowd = []
    for n in range(12):
        crowd.append(weir.connect_from("127.0.0.%d" % (n + 2)))
        crowd[-1].send(m.startup(user="victim", database="slow"))
        crowd[-1].expect("R")
        crowd[-1].send(m.password("wrong%d" % n))
    until(lambda: [row for row in weir.show("VERIFIERS") if row["state"] == "waiting"], "clients wait")
    assert weir.client().query("x").value == "in"
    assert [row for row in weir.show("VERIFIERS") if row["state"] == "waiting"]
