"""session_link = login: in session mode a client has its server from the start, and is told that server's process id."""
import pytest

from support import messages as m
from support.scenes import asked
from support.takeover import Replaced
from support.until import until
from support.wire import Closed, LoginRefused

RESET = "DISCARD ALL"


def sessions(scene, target, pool_size=1, **settings):
    return scene.weir(target, **{"pool_mode": "session", "session_link": "login", "default_pool_size": pool_size, **settings})


def begun(weir, **parameters):
    """A client that has sent its start-up packet."""
    client = weir.connect()
    client.send(m.startup(**{"user": "app", "database": "p0", **parameters}))
    return client


def waiting(weir, count=1, **parameters):
    """The same, when the client is in the queue after others."""
    client = begun(weir, **parameters)
    weir.wait_pool("p0", cl_waiting=count)
    assert not client.has_input()
    return client


def logged_in(fake, weir, **parameters):
    """A welcomed client and its server."""
    client = weir.client(**parameters)
    server = fake.accept()
    return client, server


def left(client, server):
    """The client has gone, and its session is over."""
    client.quit()
    server.expect_query(RESET)
    server.complete("DISCARD")


@pytest.fixture
def fake(scene):
    return scene.fake()


# --- the welcome

def test_server_is_linked_at_login(scene, fake):
    weir = sessions(scene, fake)
    client, server = logged_in(fake, weir)
    assert client.pid == server.pid
    assert client.key != server.key
    assert len(client.key) == 4
    weir.wait_pool("p0", cl_active=1, sv_active=1)
    (row,) = [row for row in weir.show("CLIENTS") if row["database"] == "p0"]
    (its_server,) = weir.show("SERVERS")
    assert (row["state"], row["link"]) == ("active", its_server["ptr"])
    assert (its_server["link"], its_server["remote_pid"]) == (row["ptr"], client.pid)
    client.send(m.query("one"))
    server.expect_query("one")
    server.answer("1")
    assert client.result().value == "1"
    left(client, server)
    weir.wait_pool("p0", cl_active=0, sv_idle=1)


def test_first_query_is_the_default(scene, fake):
    weir = scene.weir(fake, pool_mode="session")
    assert {row["key"]: row["value"] for row in weir.show("CONFIG")}["session_link"] == "first_query"
    client, server = asked(fake, weir)
    assert client.pid != server.pid


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_other_modes_have_no_sessions(scene, fake, mode):
    weir = sessions(scene, fake, pool_mode=mode)
    client, server = asked(fake, weir)
    server.answer("x")
    client.result()
    assert client.pid != server.pid
    assert weir.pool("p0")["sv_idle"] == 1


def test_counts(scene, fake):
    """A login is neither a query nor a transaction, and its wait counts as a client's wait for a server."""
    weir = sessions(scene, fake)
    client, server = logged_in(fake, weir)
    second = waiting(weir)
    left(client, server)
    second.finish_login()
    (row,) = [row for row in weir.show("STATS_TOTALS") if row["database"] == "p0"]
    assert [row[name] for name in ("server_assignment_count", "client_login_count", "xact_count", "query_count")] == [2, 2, 0, 0]
    assert row["wait_time"] > 0


def test_welcome_is_what_its_server_reports(scene, fake):
    """Two servers of other versions, each in the hands of several clients."""
    def login(session):
        session.parameters.update(server_version="15.%d" % session.pid, TimeZone="Zone/%d" % session.pid)
        session.welcome()

    fake.login = login
    weir = sessions(scene, fake, 2)
    one, its_server = logged_in(fake, weir)
    two, _ = logged_in(fake, weir)
    for client in (one, two):
        assert client.parameters["server_version"] == "15.%d" % client.pid
        assert client.parameters["TimeZone"] == "Zone/%d" % client.pid
    its_server.send(m.parameter_status("in_hot_standby", "on"))
    one.expect("S")
    left(one, its_server)
    again = weir.client()
    assert again.pid == its_server.pid
    assert again.parameters["server_version"] == "15.%d" % again.pid
    assert again.parameters["TimeZone"] == "Zone/%d" % again.pid
    assert again.parameters["in_hot_standby"] == "on"


def test_parameters_are_set_before_the_welcome(scene, fake):
    """Also parameters that the previous client has changed, with the server's spelling."""
    weir = sessions(scene, fake, server_reset_query="")
    client, server = logged_in(fake, weir)
    server.send(m.parameter_status("DateStyle", "German, DMY"))
    client.expect("S")
    second = waiting(weir, application_name="two")
    client.quit()
    text = m.read_cstrings(server.expect("Q").body)[0]
    assert "German" not in text and "ISO, MDY" in text and "two" in text
    weir.barrier()
    assert not second.has_input()
    server.send(m.notification(1, "of the client before"), m.parameter_status("application_name", "Two"),
                m.parameter_status("DateStyle", "ISO, MDY"))
    server.answer("set")
    assert [got.type for got in second.finish_login()][0] == "R"
    assert (second.parameters["application_name"], second.parameters["DateStyle"]) == ("Two", "ISO, MDY")
    assert second.pid == server.pid
    second.send(m.query("next"))
    server.expect_query("next")


def test_parameters_that_cannot_be_set(scene, fake):
    weir = sessions(scene, fake)
    client = begun(weir, application_name="two")
    server = fake.accept()
    server.expect("Q")
    server.send(m.error("no such application", "22023"), m.ready())
    with pytest.raises(LoginRefused):
        client.finish_login()
    client.expect_closed()
    weir.wait_pool("p0", cl_active=0, sv_active=0)


def test_server_ends_while_parameters_are_set(scene, fake):
    weir = sessions(scene, fake)
    client = begun(weir, application_name="two")
    server = fake.accept()
    server.expect("Q")
    server.send(m.error("the administrator", "57P01", "FATAL"))
    server.close()
    with pytest.raises(LoginRefused) as refusal:
        client.finish_login()
    assert refusal.value.fields["M"] == "the administrator"
    client.expect_closed()
    weir.client()


def test_early_input(scene, fake):
    """Input with the start-up packet is not answered before the welcome."""
    weir = sessions(scene, fake)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"), m.query("early"))
    server = fake.accept()
    server.expect_query("early")
    client.finish_login()
    server.answer("late")
    assert client.result().value == "late"


def test_server_without_a_key(scene, fake):
    """The server sends no process ID: the client gets a number from pgweir."""
    fake.login = lambda session: session.welcome(key=False)
    client, _ = logged_in(fake, sessions(scene, fake))
    assert client.pid > 0


# --- the queue

def test_queue(scene, fake):
    """Each waits for its turn, by logins and queries alike."""
    weir = sessions(scene, {"p0": fake}, sections={"users": {"other": "session_link=first_query"}})
    client, server = logged_in(fake, weir)
    second = waiting(weir)
    third = waiting(weir, 2)
    assert {row["state"] for row in weir.show("CLIENTS") if row["database"] == "p0"} == {"active", "waiting"}
    left(client, server)
    second.finish_login()
    assert second.pid == server.pid
    weir.barrier()
    assert not third.has_input()
    left(second, server)
    third.finish_login()
    assert third.pid == server.pid


def test_queued_clients_disconnect(scene, fake):
    weir = sessions(scene, fake)
    _, server = logged_in(fake, weir)
    clients = [waiting(weir, n + 1) for n in range(3)]
    clients[0].close()
    clients[1].abort()
    weir.wait_pool("p0", cl_waiting=1)
    clients[2].quit()
    weir.wait_pool("p0", cl_waiting=0)
    weir.wait_log("C-.* closing because: client close request")
    assert not server.has_input()


def test_query_wait_timeout_limits_the_login(scene, fake):
    """The timeout of a query applies, not the timeout of a login."""
    weir = sessions(scene, fake, query_wait_timeout=1, client_login_timeout=0.1)
    _, _ = logged_in(fake, weir)
    assert weir.connect().refused(user="app", database="p0")["M"] == "query_wait_timeout"
    weir.wait_pool("p0", cl_waiting=0, cl_active=1)


def test_pause(scene, fake):
    weir = sessions(scene, fake, query_wait_timeout=1, client_login_timeout=0.1)
    weir.admin("PAUSE")
    client = waiting(weir)
    weir.admin("RESUME")
    client.finish_login()
    assert client.pid == fake.accept().pid


def test_kill_and_shutdown_end_the_wait(scene, fake):
    weir = sessions(scene, fake)
    logged_in(fake, weir)
    one, two = waiting(weir), waiting(weir, 2)
    number = min(row["id"] for row in weir.show("CLIENTS") if row["state"] == "waiting")
    weir.admin("KILL_CLIENT %d" % number)
    one.expect("E")
    one.expect_closed()
    weir.wait_pool("p0", cl_waiting=1)
    weir.admin("SHUTDOWN WAIT_FOR_SERVERS")
    two.expect("E")
    two.expect_closed()


# --- servers that refuse, or are away

def test_server_that_refuses(scene, fake):
    def login(session):
        session.send(m.error("no place for you", "28000", "FATAL"))
        raise Closed

    fake.login = login
    refused = sessions(scene, fake).connect().refused(user="app", database="p0")
    assert (refused["M"], refused["C"]) == ("no place for you", "28000")


def test_start_up_value_that_the_server_refuses(scene, fake):
    """The error goes to the client that requests the value."""
    def login(session):
        if session.startup.get("TimeZone") == "Nowhere":
            session.send(m.authentication_ok(), m.error("invalid value", "22023", "FATAL"))
            raise Closed
        session.welcome()

    fake.login = login
    weir = sessions(scene, fake, 2)
    assert weir.connect().refused(user="app", database="p0", TimeZone="Nowhere")["C"] == "22023"
    client, server = logged_in(fake, weir, TimeZone="Mars")
    assert server.startup["TimeZone"] == client.parameters["TimeZone"] == "Mars"


def test_server_is_unavailable(scene, fake):
    """As server_down says of logins."""
    fake.stop_listening()
    weir = sessions(scene, fake, server_login_retry=1)
    client = waiting(weir)
    later = waiting(weir, 2)
    weir.wait_log("connect failed", times=2)
    weir.admin("SET server_down = 'fail'")
    assert later.expect("E") and client.expect("E")
    weir.admin("SET server_down = 'wait'")
    third = waiting(weir)
    fake.listen()
    third.finish_login()
    assert third.pid == fake.accept().pid


def test_server_that_ends(scene, fake):
    """An idle client has a session, which ends with it."""
    weir = sessions(scene, fake)
    client, server = logged_in(fake, weir)
    server.send(m.error("terminating connection due to administrator command", "57P01", "FATAL"))
    server.close()
    assert m.read_error(client.expect("E").body)["C"] == "57P01"
    client.expect_closed()


def test_idle_clients(scene, fake):
    """Their time runs from the welcome."""
    weir = sessions(scene, fake, client_idle_timeout=1)
    client, _ = logged_in(fake, weir)
    assert m.read_error(client.expect("E").body)["M"] == "client_idle_timeout"
    client.expect_closed()


# --- cancel requests

def running(client, server):
    client.send(m.query("long"))
    server.expect_query("long")


@pytest.mark.parametrize("protocol, size", [(m.PROTOCOL_3_0, 4), (m.PROTOCOL_3_2, 24)])
def test_cancel(scene, fake, protocol, size):
    weir = sessions(scene, fake, server_max_protocol_version="3.2")
    client, server = logged_in(fake, weir, protocol=protocol)
    assert (client.pid, len(client.key)) == (server.pid, size)
    running(client, server)
    request = weir.connect()
    request.send(m.cancel_request(client.pid, bytes(size)))
    request.expect_closed()
    weir.cancel(client)
    assert fake.next_cancel() == (server.pid, server.key)
    assert fake.cancels.empty()


@pytest.mark.parametrize("peer_id, protocol", [(0, m.PROTOCOL_3_0), (4711, m.PROTOCOL_3_0 + 2), (4711, m.PROTOCOL_3_0)])
def test_many_clients_of_one_process_id(scene, fake, peer_id, protocol):
    """Each client is in another cluster: only the secret distinguishes them."""
    fakes = [scene.fake() for _ in range(8)]
    weir = sessions(scene, {"p%d" % n: fake for n, fake in enumerate(fakes)}, kind=Replaced, peer_id=peer_id)
    both = []
    for n, one in enumerate(fakes):
        client = weir.client(database="p%d" % n, protocol=protocol)
        both.append((client, one.accept(), one))
    numbers = {client.pid for client, _, _ in both}
    assert len(numbers) == (8 if peer_id and protocol == m.PROTOCOL_3_0 else 1)
    assert len(numbers) == 1 or min(numbers) > 4194304
    assert len({client.key for client, _, _ in both}) == 8
    assert {client.key[0] << 6 | client.key[1] >> 2 for client, _, _ in both} == {peer_id} or peer_id == 0
    for _ in range(2):
        for client, server, one in both:
            running(client, server)
            weir.cancel(client)
            assert one.next_cancel() == (server.pid, server.key)
            server.answer("x")
            client.result()
        both[0][0].close()
        left_behind, server, _ = both.pop(0)
        assert left_behind
        server.expect_query(RESET)
        server.complete("DISCARD")
        weir.replace()


# --- online restart

def test_clients_are_handed_over(scene, fake):
    weir = sessions(scene, fake, kind=Replaced)
    client, server = logged_in(fake, weir)
    weir.replace()
    weir.wait_pool("p0", cl_active=1, sv_active=1)
    running(client, server)
    weir.cancel(client)
    assert fake.next_cancel() == (server.pid, server.key)
    server.answer("x")
    client.result()
    second = waiting(weir)
    left(client, server)
    second.finish_login()
    assert second.pid == server.pid
    assert second.parameters == client.parameters


def test_waiting_client_remains_in_the_old_process(scene, fake):
    """The login continues in the old process, which opens a server for it."""
    weir = sessions(scene, fake, kind=Replaced)
    _, server = logged_in(fake, weir)
    second = waiting(weir)
    weir.replace()
    second.finish_login()
    its_server = fake.accept()
    assert second.pid == its_server.pid != server.pid
    running(second, its_server)
    weir.cancel(second)
    assert fake.next_cancel() == (its_server.pid, its_server.key)
    its_server.answer("x")
    assert second.result().value == "x"
    second.quit()


# --- the setting

def test_where_it_is_set(scene, fake):
    """The user wins over the database, and that over the general setting. A change holds for new logins."""
    at, more = "host=127.0.0.1 port=%d dbname=p0 " % fake.port, {"users": {"stats": "session_link=first_query"}}
    weir = scene.weir({"p0": at, "p1": at + "session_link=login"}, sections=more, pool_mode="session", show_extra_columns=1)

    def links(user, database):
        client = weir.client(user=user, database=database)
        return client.pid in [session.pid for session in fake.started]

    assert [links(*who) for who in (("app", "p0"), ("app", "p1"), ("stats", "p1"))] == [False, True, False]
    weir.admin("SET session_link = 'login'")
    assert [links(*who) for who in (("app", "p0"), ("app", "p1"), ("stats", "p0"))] == [True, True, False]
    rows = {row["name"]: row["session_link"] for row in weir.show("DATABASES")}
    assert (rows["p0"], rows["p1"]) == (None, "login")
    assert {row["name"]: row["session_link"] for row in weir.show("USERS")}["stats"] == "first_query"
    rows = {(row["database"], row["user"]): row["session_link"] for row in weir.show("POOLS")}
    assert (rows["p0", "app"], rows["p1", "stats"], rows["pgbouncer", "pgbouncer"]) == ("login", "first_query", None)
    weir.settings["session_link"] = "first_query"
    weir.write_ini()
    weir.admin("RELOAD")
    assert not links("app", "p0")


def test_mode_that_changes_while_it_waits(scene, fake):
    """The client is welcomed all the same, and its server is returned to the pool."""
    weir = sessions(scene, fake)
    _, server = logged_in(fake, weir)
    second = waiting(weir)
    weir.admin("SET pool_mode = 'transaction'")
    server.close()
    second.finish_login()
    fresh = fake.accept()
    assert second.pid != fresh.pid
    weir.wait_pool("p0", sv_idle=1, sv_active=0)
    second.send(m.query("works"))
    fresh.expect_query("works")
    fresh.answer("yes")
    assert second.result().value == "yes"


def test_link_that_changes_while_it_waits(scene, fake):
    weir = sessions(scene, fake)
    client, server = logged_in(fake, weir)
    second = waiting(weir)
    weir.admin("SET session_link = 'first_query'")
    weir.barrier()
    assert not second.has_input()
    left(client, server)
    second.finish_login()
    assert second.pid == server.pid
    assert until(lambda: weir.pool("p0")["sv_active"] == 1, "the link")
