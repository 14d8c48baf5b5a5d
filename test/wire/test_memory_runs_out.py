"""
No memory: any allocation may fail, wherever it is made. pgweir refuses one peer, and no other peer notices. No answer is wrong,
nothing is lost, no client waits for ever, and when there is memory again all is as before.
"""
import itertools
import signal

import pytest

from support import messages as m
from support import lookups, scram
from support.nameserver import write_resolv_conf
from support.rounds import size
from support.failing_malloc import CLOSED, FOREVER, FailingMalloc, hear, numbers, fail_allocations
from support.until import until
from support.wire import Closed, LoginRefused

_numbers = itertools.count()


def fresh(word):
    """A text that was never used before."""
    return "%s %d" % (word, next(_numbers))


def start(scene, target, **settings):
    settings = {"pool_mode": "transaction", "default_pool_size": 2, "server_login_retry": 0, "allow": "out of memory",
                "max_client_conn": 15000, **settings}
    return scene.weir(target, kind=FailingMalloc, **settings)


def served(weir, **login):
    """A check: another client connects, asks, and is answered."""
    def check():
        client = weir.client(**login)
        text = fresh("check")
        assert client.query(text).value == text
        client.quit()
    return check


def come(weir, *requests, tls=None, **login):
    """A client connects, is welcomed or refused, and sends requests. Returns the messages that it receives."""
    login = {"user": "app", "database": "p0", **login}
    client = weir.connect()
    heard = []
    try:
        if tls:
            client.start_tls(tls)
        client.send(m.startup(**{name: value for name, value in login.items() if name != "password"}))
        heard = client.finish_login(login["user"], login.get("password"))
    except LoginRefused as refusal:
        heard = [m.Message("E", b""), *hear(client)]
    except (Closed, OSError):
        heard = [CLOSED]
    except AssertionError:
        # an error in place of the answer to the SSLRequest
        assert tls and b"out of memory" in client.buffer, bytes(client.buffer)
        heard = [CLOSED]
    else:
        if requests:
            heard += hear(client, *requests)
    client.close()
    return heard


def ask(client, *requests):
    return [hear(client, *requests)]


# --- coming in

def test_login_with_trust(scene):
    weir = start(scene, scene.mini())
    served(weir)()
    fail_allocations(weir, lambda: None, lambda _: [come(weir)], served(weir))


def test_login_with_scram(scene):
    users = {"user%d" % n: "secret" for n in range(size(9000, 60000))}
    names = iter(users)
    weir = start(scene, {"p0": "host=127.0.0.1 port=%d user=app" % scene.mini().port}, auth_type="scram-sha-256", users=users)
    served(weir, password="app-secret")()
    fail_allocations(weir, lambda: next(names), lambda user: [come(weir, user=user, password="secret")],
           served(weir, password="app-secret"))


def test_login_with_a_password_in_clear(scene):
    """For a SCRAM secret: a process derives the key."""
    secret = scram.secret_text(scram.make_secret("secret", iterations=1))
    users = {"user%d" % n: secret for n in range(size(9000, 60000))}
    names = iter(users)
    weir = start(scene, {"p0": "host=127.0.0.1 port=%d user=app" % scene.mini().port}, auth_type="plain", users=users)
    served(weir, password="app-secret")()
    fail_allocations(weir, lambda: next(names), lambda user: [come(weir, user=user, password="secret")],
           served(weir, password="app-secret"))


def test_login_over_tls(scene, authority):
    weir = start(scene, scene.mini(), client_tls_sslmode="require", client_tls_cert_file=authority.cert("server"),
                 client_tls_key_file=authority.key("server"), max_client_conn=20)
    context = authority.client_context()

    def check():
        client = weir.connect()
        client.start_tls(context)
        client.login(user="app", database="p0")
        client.quit()
    check()
    fail_allocations(weir, lambda: None, lambda _: [come(weir, m.query("inside"), tls=context)], check)


def test_login_of_an_unknown_user(scene):
    """A user and a database that were never seen."""
    users = {"user%d" % n: "secret" for n in range(size(9000, 60000))}
    names = iter(users)
    weir = start(scene, {"*": scene.mini()}, users=users)
    served(weir)()
    fail_allocations(weir, lambda: next(names), lambda name: [come(weir, m.query("hello"), user=name, database="of " + name)],
           served(weir), drought=5)


def test_login_of_a_client_with_a_role(scene):
    """Its own pool at the host, and the roles of the hosts."""
    weir = start(scene, scene.mini(), host_check_period=3600)
    options = {"options": "-c pgweir.target_session_attrs=primary"}
    served(weir, **options)()
    fail_allocations(weir, lambda: weir.admin("RECONNECT"), lambda _: [come(weir, m.query("inside"), **options)], served(weir, **options), drought=5)


# --- servers

def linked_by(method, scene, authority):
    """A pgweir that logs in at its server, and a preparation after which it must log in again."""
    fake = scene.mini(method=method, password="app-secret", tls=authority.server_context())
    weir = start(scene, fake, default_pool_size=1, server_tls_sslmode="require", users={"app": "app-secret"})

    def prepare():
        weir.admin("RECONNECT")
        client = weir.client()
        return client
    return weir, prepare


@pytest.mark.parametrize("method", ("scram", "md5"))
def test_login_at_a_server(scene, authority, method):
    weir, prepare = linked_by(method, scene, authority)
    served(weir)()
    fail_allocations(weir, prepare, lambda client: ask(client, m.query("hello")), served(weir), drought=5)


def test_name_of_a_server(scene):
    fake, names = scene.mini(), scene.nameserver()
    names.set("db.example.test", a=["127.0.0.1"], ttl=0)
    weir = start(scene, {"p0": "host=db.example.test port=%d" % fake.port}, default_pool_size=1, dns_max_ttl=0, dns_nxdomain_ttl=0,
                 resolv_conf=write_resolv_conf(scene.directory, names))
    served(weir)()

    def prepare():
        weir.admin("RECONNECT")
        return weir.client()
    fail_allocations(weir, prepare, lambda client: ask(client, m.query("hello")), served(weir), drought=5, most=5)


def test_lookup_of_a_user(scene):
    """auth_query: the server is played as far as the look-up."""
    fake = scene.fake()

    def serve(session):
        """A look-up begins with Parse."""
        while (got := session.read()).type != "X":
            if got.type == "Q":
                session.send(m.rows(m.read_cstrings(got.body)[0]), m.ready())
            elif got.type == "S":
                session.send(lookups.found("bob", "secret"))
    fake.serve = serve
    weir = start(scene, fake, auth_type="plain", auth_user="asker", users={"asker": "asker-secret"})
    served(weir, user="bob", password="secret")()
    fail_allocations(weir, lambda: weir.admin("RECONNECT"), lambda _: [come(weir, m.query("hello"), user="bob", password="secret")],
           served(weir, user="bob", password="secret"), drought=5)


# --- queries

def settled(weir):
    """A preparation: a client that was answered before."""
    def prepare():
        client = weir.client()
        assert client.query("hello").value == "hello"
        return client
    return prepare


def test_simple_queries(scene):
    weir = start(scene, scene.mini())
    fail_allocations(weir, settled(weir), lambda client: ask(client, m.query("one")) + ask(client, m.query("x" * 300000)), served(weir))


def test_prepared_statements(scene):
    weir = start(scene, scene.mini(), max_prepared_statements=2)

    def play(client):
        heard = []
        for name in "abc":
            heard.append(hear(client, m.parse("text of %s" % name, name), m.bind(name), m.describe("P"), m.execute(), m.sync()))
        heard.append(hear(client, m.bind("a"), m.execute(), m.close("S", "b"), m.parse("other", "b"), m.sync()))
        return heard
    fail_allocations(weir, settled(weir), play, served(weir))


def test_new_prepared_statements(scene):
    weir = start(scene, scene.mini(), max_prepared_statements=200)

    def play(client):
        text = "echo" + 400 * "o"
        return [hear(client, m.parse(text + str(n), "s%d" % n), m.flush(), m.bind("s%d" % n), m.execute(), m.sync()) for n in range(2)]

    def prepare():
        client = settled(weir)()
        client.query("DISCARD ALL")
        weir.admin("RECONNECT")
        return client
    fail_allocations(weir, prepare, play, served(weir), drought=5)


@pytest.mark.parametrize("asked", [
    m.run("echo new") + m.sync(), m.close("S") + m.sync(), m.parse("echo a text", "new") + m.bind("new") + m.execute() + m.sync(),
    m.bind("s1") + m.execute() + m.sync(), m.bind() + m.execute() + m.sync(), m.describe("S", "nobody") + m.sync(),
    m.close("S", "s1") + m.sync()], ids=["unnamed", "close unnamed", "named", "use", "use unnamed", "unknown", "close"])
def test_partially_buffered_message(scene, asked):
    """The first message of a transaction, on a server without a list of statements yet: the next client of that server is served."""
    weir = start(scene, scene.mini(), default_pool_size=1)

    def prepare():
        client = weir.client()
        assert hear(client, m.parse("echo of old", "s1"), m.run("echo unnamed"), m.sync())[-1].type == "Z"
        weir.admin("RECONNECT")
        served(weir)()
        return client

    def check():
        for _ in range(2):
            client = weir.client()
            for text in fresh("echo"), fresh("echo"):
                client.send(m.parse(text, text), m.bind(text), m.execute(), m.run(text), m.sync())
                assert client.result().rows == [[text.encode()]] * 2
                client.send(m.close("S", text), m.run(text), m.query(text), m.bind(text), m.sync())
                assert client.result().rows == [[text.encode()]] * 2
                assert client.result().errors[0]["C"] == "26000"
            client.quit()
    fail_allocations(weir, prepare, lambda client: ask(client, asked), check, drought=5)


def test_parameters_follow_the_client(scene):
    weir = start(scene, scene.mini(), default_pool_size=1)

    def prepare():
        return weir.client(application_name=fresh("program")), weir.client(application_name=fresh("other"))
    fail_allocations(weir, prepare, lambda clients: [hear(client, m.query("one")) for client in clients], served(weir), drought=5)


def test_large_rows_and_a_slow_reader(scene):
    weir = start(scene, scene.mini())

    def prepare():
        client = weir.connect(receive_buffer=4096)
        client.login(user="app", database="p0")
        return client
    fail_allocations(weir, prepare, lambda client: ask(client, m.query("rows 30 100000")), served(weir))


def test_copy(scene):
    weir = start(scene, scene.mini())
    for request in (m.query("copyin") + m.copy_data(b"line") + m.copy_done(),
                    m.query("copyin") + m.copy_data(b"bad") + m.copy_done(),
                    m.query("copyout 30"),
                    m.run("copyin") + m.copy_data(b"line") * 3 + m.copy_done() + m.sync()):
        fail_allocations(weir, settled(weir), lambda client, request=request: ask(client, request), served(weir))


def test_cancel(scene):
    fake = scene.mini()
    weir = start(scene, fake, default_pool_size=1)

    def prepare():
        client = settled(weir)()
        client.send(m.query("wait"))
        until(lambda: fake.queries[-1][1] == "wait", "the query runs")
        return client

    def play(client):
        """The user repeats a request that is lost."""
        request = weir.cancel(client)
        request.drain()
        request.close()
        return []

    def check():
        client = clients.pop()
        while not client.has_input():
            weir.cancel(client).drain()
        assert "57014" in client.result().errors[0].values()
        served(weir)()
    clients = []

    def remembered():
        clients.append(prepare())
        return clients[-1]
    fail_allocations(weir, remembered, play, check)


# --- the console

SHOWS = ("CLIENTS", "CONFIG", "DATABASES", "DNS_HOSTS", "DNS_ZONES", "FDS", "LISTS", "MEM", "PEERS", "PEER_POOLS", "POOLS",
         "SERVERS", "SOCKETS", "STATE", "STATS", "STATS_TOTALS", "STATS_AVERAGES", "TOTALS", "USERS", "VERSION", "HELP",
         "ACTIVE_SOCKETS", "HBA", "PREPARED_STATEMENTS")


def console(weir):
    return lambda: weir.client("admin", "pgbouncer")


def test_show(scene):
    weir = start(scene, scene.mini())
    served(weir)()
    for what in SHOWS:
        fail_allocations(weir, console(weir), lambda client, what=what: ask(client, m.query("SHOW " + what)), served(weir), most=3, types_only=True)


def test_show_with_the_extended_protocol(scene):
    weir = start(scene, scene.mini())
    fail_allocations(weir, console(weir), lambda client: ask(client, m.run("SHOW POOLS") + m.sync()), served(weir), types_only=True)


COMMANDS = ("SET server_lifetime = 1000", "SET server_lifetime = 2000", "PAUSE p0; RESUME p0", "RECONNECT", "KILL p0; RESUME p0",
            "DISABLE p0; ENABLE p0", "DISABLE HOST 127.0.0.1; ENABLE HOST 127.0.0.1",
            "DRAIN HOST 127.0.0.9; SHOW HOSTS", "nonsense", "SUSPEND; RESUME", "KILL_CLIENT 0x1")


def test_commands(scene):
    weir = start(scene, scene.mini())

    def check():
        """Half of the commands may have been carried out; a RESUME with nothing to resume gets an error."""
        client = weir.client("admin", "pgbouncer")
        for mend in ("RESUME", "RESUME p0", "ENABLE p0", "ENABLE HOST 127.0.0.1"):
            client.query(mend)
        client.quit()
        served(weir)()
    served(weir)()
    for command in COMMANDS:
        fail_allocations(weir, console(weir), lambda client, command=command: ask(client, m.query(command)), check, most=3, types_only=True)


def test_reload(scene, authority):
    """A RELOAD that finds no memory changes nothing, and says so."""
    weir = start(scene, scene.mini(), client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                 client_tls_key_file=authority.key("server"))
    ages = itertools.count(1000)

    def prepare():
        weir.settings["server_lifetime"] = next(ages)
        weir.databases["p%d" % next(_numbers)] = weir.databases["p0"]
        weir.write_users()
        weir.write_ini()
        return weir.client("admin", "pgbouncer")
    fail_allocations(weir, prepare, lambda client: ask(client, m.query("RELOAD")), served(weir), most=20, types_only=True)


# --- beginning and end

def is_listening_or_gone(weir):
    return not weir.is_alive() or "process up" in weir.log()


def start_denied(scene, numbers_of, **settings):
    """pgweir starts and works, or ends with status 1 and a line that gives the reason: for each of these n."""
    came_up = 0
    weir = start(scene, {"p0": "host=127.0.0.1 port=1"}, at_start=(0, 0), **settings)
    weir.admin("SHOW VERSION")
    total = weir.asked
    assert total > 0
    for n in numbers(total, numbers_of):
        for last in (n, FOREVER):
            weir = start(scene, {"p0": "host=127.0.0.1 port=1"}, at_start=(n, last), wait=False,
                         allow="out of memory|no memory|not started|Cannot allocate|malloc", **settings)
            until(lambda: is_listening_or_gone(weir), "it is up, or has ended")
            if weir.is_alive():
                with weir.denied(0, 0):
                    pass
                weir.admin("SHOW VERSION")
                came_up += 1
            else:
                weir.expected_status = 99 if weir.crashed_in_openssl_setup() else 1
                assert weir.stderr().strip(), (n, total)
            weir.stop()
    return came_up


def test_start(scene):
    start_denied(scene, 5)


def test_start_with_tls(scene, authority):
    start_denied(scene, 5, client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                 client_tls_key_file=authority.key("server"), client_tls_ca_file=authority.cert("ca"),
                 server_tls_sslmode="verify-full", server_tls_ca_file=authority.cert("ca"))


@pytest.mark.parametrize("how", (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT), ids=("INT", "TERM", "QUIT"))
def test_shutdown(scene, how):
    """The shutdown completes normally with connected clients and servers."""
    fake = scene.mini()

    def end(first, last):
        weir = start(scene, fake)
        clients = [weir.client() for _ in range(3)]
        clients[0].query("BEGIN")
        clients[1].query("one")
        with weir.denied(first, last):
            weir.signal(how)
            weir.wait_log("got SIG")
            for client in clients:
                client.close()
            assert weir.wait_exit() == 0, (first, last)
            weir.stop()
            return weir.asked
    total = end(0, 0)
    for n in numbers(total, 2):
        end(n, n)
        end(n, FOREVER)
