"""auth_query with a server that is played: hostile answers, none at all, and many clients that ask at once."""
import os
import signal
import struct

import pytest

from support import lookups
from support import messages as m
from support import scram
from support.live import NEVER, SOON, ended_with
from support.pgweir import ANY_METHOD
from support.ports import free_port
from support.takeover import Replaced
from support.until import until

COLUMN = m.cstring("c") + struct.pack("!IHIhi", 0, 0, 25, -1, -1)
CONFIG_ERROR = ("bouncer config error", "28000")
FAILED = ("auth_query failed", "57P03")
BEGUN = lookups.prepared() + m.parse_complete() + m.bind_complete()      # the answer up to the result
CRASHED = ("server conn crashed?", "08P01")


class Stage:
    """pgweir in front of a played server, and clients that no list knows."""

    def __init__(self, scene, **settings):
        self.fake = scene.fake()
        settings = {"auth_type": "plain", "auth_user": "asker", "pool_mode": "transaction", **settings}
        self.weir = scene.weir(settings.pop("databases", self.fake), **settings)

    def come(self, user="bob", **parameters):
        """A client that has sent its user name."""
        client = self.weir.connect()
        client.send(m.startup(user=user, database="p0", **parameters))
        return client

    def asked(self, user="bob", server=None):
        """The server that a look-up of this user has come to."""
        server = server or self.fake.accept()
        assert server.startup["user"] == "asker"
        assert lookups.asked_for(server)[0] == user
        return server

    def serve(self, server, user="bob", secret="secret"):
        server.send(lookups.found(user, secret))

    def welcomed(self, client, user="bob", secret="secret", first=True):
        """The client comes in, with the first server of its pool when it is the first."""
        client.expect("R")
        client.send(m.password(secret))
        if first:
            assert self.fake.accept().startup["user"] == user
        client.finish_login()
        return client

    def refused(self, client):
        """Asked for a password, the client is refused whatever it says."""
        client.expect("R")
        client.send(m.password("secret"))
        ended_with(client, "password authentication failed", "28P01")

    def wait_idle(self):
        self.weir.wait_pool("p0", "asker", cl_waiting=0, sv_active=0, sv_idle=1)

    def client_row(self, user="bob"):
        return [row for row in self.weir.show("CLIENTS") if row["user"] == user]


@pytest.fixture
def stage(scene):
    return Stage(scene)


# --- requests


def test_user_name_is_sent_as_a_parameter(scene):
    stage = Stage(scene, auth_query="SELECT a, b FROM t WHERE a = $1")
    name = "bob'); DROP TABLE t; --"
    client = stage.come(name)
    server = stage.fake.accept()
    assert lookups.asked_for(server) == (name, "SELECT a, b FROM t WHERE a = $1")
    stage.serve(server, name)
    stage.welcomed(client, name)
    stage.wait_idle()


def test_look_up_server_gets_no_client_parameters(scene):
    """Trap 69: nothing of a client's start-up packet is used before the client has authenticated."""
    for mode in "session", "transaction":
        stage = Stage(scene, pool_mode=mode, track_extra_parameters="search_path")
        stage.come(search_path="evil", client_encoding="SJIS", options="-c DateStyle=German")
        server = stage.asked()
        assert set(server.startup) == {"user", "database"}


def test_parameters_of_an_earlier_client_are_reset(scene):
    stage = Stage(scene, default_pool_size=1, track_extra_parameters="IntervalStyle")
    # auth_user himself is a client of the same pool
    owner = stage.come("asker")
    server = stage.asked("asker")
    stage.serve(server, "asker")
    owner.expect("R")
    owner.send(m.password("secret"))
    owner.finish_login()
    owner.send(m.query("SET"))
    server.expect_query()
    server.send(m.parameter_status("standard_conforming_strings", "off"), m.parameter_status("IntervalStyle", "sql_standard"),
                m.parameter_status("client_encoding", "SJIS"), m.command_complete("SET"), m.ready())
    owner.result()
    stage.come()
    reset = m.read_cstrings(server.expect("P").body[1:])[0]
    assert "pg_catalog.set_config('IntervalStyle', NULL, true)" in reset
    assert reset.index("'standard_conforming_strings', NULL") < reset.index("'standard_conforming_strings', 'on', true")
    assert "pg_catalog.set_config('client_encoding', pg_catalog.current_setting('server_encoding'), true)" in reset
    assert "TimeZone" not in reset


# --- answers


@pytest.mark.parametrize("rows", [
    [], [(None, None)], [("bob", None)], [("bob", "")], [("alice", "secret")], [("BOB", "secret")], [("bob\0", "secret")], [("", "secret")],
    [("asker", "secret")],
], ids=str)
def test_unknown_user(stage, rows):
    """Traps 68 and 75: each takes the same steps."""
    client = stage.come()
    stage.asked().send(lookups.prepared() + lookups.result(*rows))
    stage.refused(client)
    stage.wait_idle()


BARE_ERROR = m.message("E", b"\0")
SHAPES = {
    "error": (lookups.failed(m.error("no such thing", "42P01")), "ERROR: no such thing \\(42P01\\)"),
    "bare error": (lookups.failed(BARE_ERROR), "ERROR: no message \\(no SQLSTATE\\)"),
    "broken error": (lookups.failed(m.message("E", b"Mno end")), "malformed ErrorResponse"),
    "error at once": (m.error("not now", "57014") + m.ready(), "not now"),
    "not prepared": (m.parse_complete() + m.bind_complete() + m.command_complete("SELECT 0") +
                     lookups.prepared()[len(lookups.prepared()) // 2:] + lookups.result(("bob", "secret")),
                     "could not be prepared"),
    "two rows": (lookups.prepared() + lookups.result(("bob", "secret"), ("bob", "other")), "more than one row"),
    "many rows": (lookups.prepared() + lookups.result(*[("bob", "secret")] * 10000), "more than one row"),
    "suspended": (lookups.prepared() + lookups.result(("bob", "secret"), end=m.portal_suspended()), "more than one row"),
    "no columns": (lookups.prepared() + lookups.result((), columns=0), "0 columns"),
    "one column": (lookups.prepared() + lookups.result(("bob",), columns=1), "1 columns"),
    "many columns": (lookups.prepared() + lookups.result(("bob", "secret", "x"), columns=3), "3 columns"),
    "row of another size": (lookups.prepared() + lookups.result(("bob", "secret", "x")), "malformed DataRow"),
    "no result": (BEGUN + m.no_data() + m.command_complete("SET") + m.ready(), "returns no rows"),
    "empty": (BEGUN + m.no_data() + m.empty_query_response() + m.ready(), "returns no rows"),
    "NULL name": (lookups.prepared() + lookups.result((None, "secret")), "name of the user is NULL"),
    "binary": (BEGUN + m.message("T", b"\0\2" + COLUMN + b"\0\1" + COLUMN + b"\0\0") + m.data_row("bob", "secret") +
               m.command_complete("SELECT 1") + m.ready(), "not text"),
    "long secret": (lookups.found("bob", 65531 * "x"), "too long"),
    "secret with NUL": (lookups.found("bob", b"sec\0ret"), "no text"),
    "negative length": (BEGUN + m.row_description("a", "b") + m.message("D", b"\0\2\0\0\0\3bob\xff\xff\xff\xfe") +
                        m.command_complete("SELECT 1") + m.ready(), "malformed DataRow"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_unusable_answers(stage, shape):
    """The client is refused, the log says why, and the server is as good as before."""
    answer, log = SHAPES[shape]
    client = stage.come()
    server = stage.asked()
    server.send(answer)
    ended_with(client, *CONFIG_ERROR)
    stage.weir.wait_log('p0/asker: auth_query for user "bob" failed: .*' + log)
    client = stage.come()
    stage.serve(stage.asked(server=server))
    stage.welcomed(client)


BROKEN = {
    "COPY IN": (BEGUN + m.no_data() + m.copy_in_response(), CONFIG_ERROR, "returns no rows"),
    "COPY OUT": (BEGUN + m.no_data() + m.copy_out_response(), CONFIG_ERROR, "returns no rows"),
    "COPY at once": (m.copy_out_response(), FAILED, "nothing asked for"),
    "row at once": (m.data_row("bob", "secret"), FAILED, "nothing asked for"),
    "ready at once": (m.ready(), FAILED, "nothing asked for"),
    "transaction": (lookups.found("bob", "secret")[:-1] + b"T", CONFIG_ERROR, "left a transaction open"),
    "failed transaction": (lookups.found("bob", "secret")[:-1] + b"E", CONFIG_ERROR, "left a transaction open"),
    "no status": (lookups.found("bob", "secret")[:-6] + m.message("Z"), CONFIG_ERROR, "left a transaction open"),
    "unknown type": (m.message("!", b"?"), FAILED, "nothing asked for"),
    "authentication": (m.authentication(3), FAILED, "nothing asked for"),
    "length 3": (b"1\0\0\0\3", FAILED, "nothing asked for"),
    "length -1": (b"1\xff\xff\xff\xff", FAILED, "nothing asked for"),
    "a gigabyte": (BEGUN + m.row_description("a", "b") + b"D\x40\0\0\0", CONFIG_ERROR,
                   "message of the answer is too long"),
    "65 KiB": (lookups.found("bob", 66560 * "x"), CONFIG_ERROR, "message of the answer is too long"),
}


@pytest.mark.parametrize("shape", BROKEN)
def test_answers_that_violate_the_protocol(stage, shape):
    """The client is refused, the server is closed, and the next look-up has a new one."""
    answer, words, log = BROKEN[shape]
    client = stage.come()
    server = stage.asked()
    server.send(answer)
    ended_with(client, *words)
    stage.weir.wait_log("auth_query for user .* failed: .*" + log)
    assert all(message.type == "X" for message in server.drain())
    client = stage.come()
    stage.serve(stage.asked())
    stage.welcomed(client)


@pytest.mark.parametrize("sqlstate", ["22021", "22P05"])
def test_name_invalid_in_the_server_encoding_is_unknown(stage, sqlstate):
    """As in a database that does not exist: the error would tell that this one does."""
    client = stage.come()
    server = stage.asked()
    server.send(lookups.failed(m.error("invalid byte sequence", sqlstate)))
    stage.refused(client)
    client = stage.come()
    stage.serve(stage.asked(server=server))
    stage.welcomed(client)


@pytest.mark.parametrize("listed", [True, False])
def test_unusable_scram_secret(scene, listed):
    """The salt is too long. The text itself is not accepted as a password; the log reports the secret."""
    secret = scram.secret_text(scram.make_secret("secret", salt=65 * b"s"))
    stage = Stage(scene, users={"eve": secret} if listed else {}, allow="cannot be used")
    client = stage.come("eve")
    if not listed:
        stage.serve(stage.asked("eve"), "eve", secret)
    client.expect("R")
    client.send(m.password(secret))
    ended_with(client, "password authentication failed", "28P01")
    stage.weir.wait_log('user "eve": a SCRAM secret that cannot be used' if listed else 'user "eve" found a SCRAM secret: it cannot be used')


# --- requests to unknown users


class Knowing:
    """pgweir with SCRAM in front of servers that know the users of `secrets`; challenge() returns the challenge to a client."""

    def __init__(self, scene, secrets, databases=("p0",), **settings):
        self.servers = {}
        entries = {}
        for name in databases:
            fake = self.servers.setdefault(name[0], None) or self._server(scene, secrets)
            self.servers[name[0]] = fake
            entries[name] = "host=127.0.0.1 port=%d dbname=%s" % (fake.port, name)
        self.weir = scene.weir(entries, kind=Replaced, auth_type="scram-sha-256", auth_user="asker", pool_mode="transaction", **settings)

    @staticmethod
    def _server(scene, secrets):
        fake = scene.mini()
        lookups.answer(fake, lambda user: scram.secret_text(secrets[user]) if user in secrets else None)
        return fake

    def challenge(self, user, database="p0"):
        """(salt, iteration count)"""
        with self.weir.connect() as client:
            client.send(m.startup(user=user, database=database))
            client.expect("R")
            first = b"n,,n=,r=clientnonce"
            client.send(m.message("p", m.cstring("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
            shown = scram.attributes(client.expect("R").body[4:].decode())
            return shown["s"], int(shown["i"])


def test_salts_of_several_databases_do_not_reveal_users(scene):
    """
    A user that a server knows has its secret in all databases of the server, and another, made-up secret elsewhere. The same holds for an unknown
    user.
    """
    secret = scram.make_secret("secret")
    stage = Knowing(scene, {"bob": secret}, ("a0", "a1", "b0"), max_client_conn=300)
    for user in "bob", "zoe":
        salts = [stage.challenge(user, database)[0] for database in ("a0", "a1", "nosuch", "pgbouncer")]
        assert salts[0] == salts[1] and salts[2] == salts[3] and salts[0] != salts[2], user
        assert salts == [stage.challenge(user, database)[0] for database in ("a0", "a1", "nosuch", "pgbouncer")]
    assert stage.challenge("zoe", "b0")[0] not in salts


def test_look_ups_do_not_change_requests_to_unknown_users(scene):
    """Only logged-in users count, each once; also after an online restart."""
    secrets = {"few%d" % n: scram.make_secret("secret", iterations=5000) for n in range(2)}
    secrets["many"] = scram.make_secret("secret", iterations=6000)
    stage = Knowing(scene, secrets, max_client_conn=1000)
    names = ["unknown%d" % n for n in range(60)]
    for _ in range(20):
        assert stage.challenge("many")[1] == 6000
    assert {stage.challenge(name)[1] for name in names} == {4096}
    for user in "few0", "few1", "many":
        stage.weir.client(user, password="secret")
    shown = {name: stage.challenge(name) for name in names}
    often = [count for _, count in shown.values()]
    assert set(often) == {5000, 6000} and often.count(6000) < often.count(5000)
    for _ in range(20):
        stage.weir.client("many", password="secret").quit()
    stage.weir.replace()
    assert {name: stage.challenge(name) for name in names} == shown


def test_asynchronous_messages_during_a_look_up(stage):
    noise = m.notice("hear") + m.parameter_status("TimeZone", "UTC") + m.notification(1, "channel")
    answer = lookups.found("bob", "secret")
    client = stage.come()
    server = stage.asked()
    cut = len(lookups.prepared())
    server.send(noise, answer[:cut], noise, answer[cut:-6], noise, answer[-6:], noise)
    stage.welcomed(client)
    stage.wait_idle()


def test_byte_by_byte(stage):
    client = stage.come()
    stage.asked().dribble(lookups.found("bob", "secret"))
    stage.welcomed(client)


def test_extra_messages_after_the_answer_end_the_server_only(stage):
    client = stage.come()
    server = stage.asked()
    server.send(lookups.found("bob", "secret") + m.data_row("x"))
    stage.welcomed(client)
    stage.weir.wait_log("SV_[A-Z]+ server got dirty")
    assert all(message.type == "X" for message in server.drain())


def test_the_server_dies_after_each_byte(scene):
    stage = Stage(scene, server_login_retry=0)
    answer = lookups.found("bob", "secret")
    for size in range(len(answer)):
        client = stage.come()
        server = stage.asked()
        server.send(answer[:size])
        (server.close if size % 2 else server.abort)()
        ended_with(client, *CRASHED)
    stage.weir.wait_log('auth_query for user "bob" failed: server conn crashed', times=len(answer))


@pytest.mark.parametrize("last_words", [b"", m.error("terminating connection due to administrator command", "57P01", "FATAL")],
                         ids=["silent", "told"])
def test_dead_server_is_replaced(stage, last_words):
    """An idle server turns out to be dead: pgweir asks the next one, at last a new one, and the client receives no error."""
    clients = {name: stage.come(name) for name in ("ann", "bob")}
    servers = [stage.fake.accept(), stage.fake.accept()]
    # neither is free before both are at work
    names = [lookups.asked_for(server)[0] for server in servers]
    for server, name in zip(servers, names):
        stage.serve(server, name)
        stage.welcomed(clients[name], name)
    client = stage.come("cid")
    for server in reversed(servers):
        stage.asked("cid", server)
        server.send(last_words)
        server.close()
    server = stage.asked("cid")
    late = stage.come("cid")
    stage.serve(server, "cid")
    stage.welcomed(client, "cid")
    stage.weir.wait_log('LOG p0/asker: auth_query for user "cid" is asked again: server conn crashed', times=2)
    stage.serve(stage.asked("cid", server), "cid")
    stage.welcomed(late, "cid", first=False)
    assert "failed" not in stage.weir.log()


def test_query_that_crashes_a_server_is_not_repeated(stage):
    """The server has begun to answer: the query may be the reason of its crash."""
    first = stage.come("ann")
    server = stage.asked("ann")
    stage.serve(server, "ann")
    stage.welcomed(first, "ann")
    client = stage.come()
    stage.asked(server=server)
    server.send(m.parse_complete())
    server.close()
    ended_with(client, *CRASHED)


def test_fatal_error_of_the_server(stage):
    client = stage.come()
    server = stage.asked()
    server.send(m.error("terminating connection due to administrator command", "57P01", "FATAL"))
    server.close()
    ended_with(client, *CRASHED)
    stage.weir.wait_log("failed: FATAL: terminating connection due to administrator command")


# --- waiting


def test_never_answered_query_timeout(scene):
    stage = Stage(scene, query_timeout=SOON)
    client = stage.come()
    server = stage.asked()
    ended_with(client, "query timeout")
    server.expect_closed()


def test_never_answered_query_timeout_of_auth_user(scene):
    stage = Stage(scene, query_timeout=NEVER, sections={"users": {"asker": "query_timeout=%s" % SOON}})
    client = stage.come()
    server = stage.asked()
    ended_with(client, "query timeout")
    server.expect_closed()


def test_never_answered_client_login_timeout(scene):
    """The server is not kept when all waiting clients are gone."""
    stage = Stage(scene, client_login_timeout=SOON)
    client = stage.come()
    server = stage.asked()
    ended_with(client, "client_login_timeout (server down)")
    server.expect_closed()
    assert stage.weir.pool("p0", "asker")["sv_active"] == 0


def test_never_answered_with_all_limits_off(scene):
    """A server that is stuck does not make all logins wait for ever."""
    stage = Stage(scene, client_login_timeout=0, query_timeout=0, server_connect_timeout=SOON)
    client = stage.come()
    server = stage.asked()
    ended_with(client, "query timeout")
    server.expect_closed()


def test_server_connect_timeout_does_not_apply(scene):
    """The query of an administrator may take longer than server_check_query."""
    stage = Stage(scene, server_connect_timeout=SOON, server_down="fail")
    client = stage.come()
    server = stage.asked()
    # another connection reaches this limit meanwhile, which proves that the time has passed
    stage.fake.login = lambda session: session.fake.until(lambda: session.fake.released, "the end")
    late = stage.weir.connect()
    late.send(m.startup(user="app", database="p0"))
    late.expect("R")
    late.send(m.password("app-secret"))
    ended_with(late, "connect timeout")
    stage.fake.login = None
    assert stage.client_row()
    stage.serve(server)
    stage.welcomed(client)


def test_look_up_queues_for_a_full_pool(scene):
    stage = Stage(scene, default_pool_size=1)
    one, two = stage.come("one"), stage.come("two")
    server = stage.asked("one")
    stage.weir.wait_pool("p0", "asker", cl_waiting=1, sv_active=1)
    stage.serve(server, "one")
    stage.asked("two", server)
    stage.serve(server, "two")
    stage.welcomed(one, "one")
    stage.welcomed(two, "two")


def test_query_wait_timeout(scene):
    stage = Stage(scene, default_pool_size=1, query_wait_timeout=SOON, query_wait_notify=SOON / 4)
    stage.come("one")
    server = stage.asked("one")
    two = stage.come("two")
    ended_with(two, "query_wait_timeout")
    assert not server.has_input()


def test_server_is_unavailable(scene):
    stage = Stage(scene, databases="port=%d" % free_port(), server_down="fail")
    for _ in range(2):
        ended_with(stage.come(), *FAILED)
    stage.weir.wait_log('p0/asker: auth_query for user "bob" failed: .*connect failed')


def test_auth_user_is_refused(scene):
    """The server's error about auth_user goes to the log, not to unauthenticated clients."""
    stage = Stage(scene)
    stage.fake.login = lambda session: (session.send(m.error('role "asker" may not', "28000", "FATAL")), session.close())
    ended_with(stage.come(), *FAILED)
    stage.weir.wait_log('server login failed: FATAL role "asker" may not')
    stage.weir.wait_log('auth_query for user "bob" failed: .*role "asker" may not')


# --- many at once


def test_waiting_clients_share_the_next_query(scene):
    """A login never uses the answer to an earlier query: the password may have been changed since."""
    stage = Stage(scene, default_pool_size=5)
    first = stage.come()
    server = stage.asked()
    late = [stage.come() for _ in range(20)]
    until(lambda: len(stage.client_row()) == 21, "all of them wait")
    assert not server.has_input()
    stage.serve(server, secret="old")
    stage.welcomed(first, secret="old")
    stage.asked(server=server)
    stage.serve(server, secret="new")
    for client in late:
        stage.welcomed(client, secret="new", first=False)
    assert not server.has_input()
    assert len([s for s in stage.fake.started if s.startup["user"] == "asker"]) == 1


def test_look_ups_of_users_run_in_parallel(scene):
    stage = Stage(scene, default_pool_size=2)
    slow, quick = stage.come("slow"), stage.come("quick")
    servers = [stage.fake.accept(), stage.fake.accept()]
    names = [lookups.asked_for(server)[0] for server in servers]
    assert sorted(names) == ["quick", "slow"]
    stage.serve(servers[names.index("quick")], "quick")
    stage.welcomed(quick, "quick")
    stage.serve(servers[names.index("slow")], "slow")
    stage.welcomed(slow, "slow")


def test_hanging_logins_do_not_delay_other_clients(scene):
    """Trap 77."""
    # with the queue that follows from max_client_conn, those beyond 450 are refused once the first has waited for a second
    stage = Stage(scene, max_client_conn=600, max_auth_queue=600)
    waiting = [stage.come("user%d" % (n % 50)) for n in range(500)]
    until(lambda: len(stage.weir.show("CLIENTS")) >= 500, "all of them wait")
    stage.weir.users["carol"] = "secret"
    stage.weir.write_users()
    stage.weir.admin("RELOAD")
    client = stage.come("carol")
    client.expect("R")
    client.send(m.password("secret"))
    until(lambda: [s for s in stage.fake.started if s.startup["user"] == "carol"], "carol's server")
    client.finish_login()
    assert stage.weir.pool("p0", "asker")["cl_waiting"] == 45
    for one in waiting:
        one.close()
    stage.weir.wait_pool("p0", "asker", cl_waiting=0)


# --- clients that do not wait


def test_slow_login_does_not_restore_an_old_secret(scene):
    """A client that was looked up before the password changed may still log in with the old one; servers receive the new one."""
    shown = []
    stage = Stage(scene, server_require_auth=ANY_METHOD)

    def login(session):
        if session.startup["user"] == "bob":
            session.send(m.authentication(3))
            shown.append(m.read_cstrings(session.expect("p").body)[0])
        session.welcome()

    stage.fake.login = login
    slow = stage.come()
    server = stage.asked()
    stage.serve(server, secret="old")
    slow.expect("R")
    quick = stage.come()
    stage.asked(server=server)
    stage.serve(server, secret="new")
    stage.welcomed(quick, secret="new")
    slow.send(m.password("old"))
    slow.finish_login()
    stage.weir.admin("RECONNECT")
    quick.send(m.query("anew"))
    later = stage.fake.accept()
    later.expect_query("anew")
    later.answer("done")
    assert quick.result().value == "done"
    assert shown == ["new", "new"]


def test_disconnected_queued_client_sends_no_query(scene):
    stage = Stage(scene, default_pool_size=1)
    one, two, three = stage.come("one"), stage.come("two"), stage.come("three")
    server = stage.asked("one")
    stage.weir.wait_pool("p0", "asker", cl_waiting=2)
    two.close()
    stage.weir.wait_pool("p0", "asker", cl_waiting=1)
    stage.serve(server, "one")
    stage.serve(stage.asked("three", server), "three")
    stage.welcomed(one, "one")
    stage.welcomed(three, "three")


@pytest.mark.parametrize("leaving", [lambda c: c.close(), lambda c: c.abort()], ids=["end", "reset"])
def test_client_disconnects_during_its_query(stage, leaving):
    """The server is kept, and clients that come meanwhile have a query of their own."""
    one = stage.come()
    server = stage.asked()
    leaving(one)
    until(lambda: not stage.client_row(), "it has gone")
    two, three = stage.come(), stage.come()
    until(lambda: len(stage.client_row()) == 2, "they wait")
    leaving(two)
    until(lambda: len(stage.client_row()) == 1, "one has gone")
    stage.serve(server, secret="old")
    stage.serve(stage.asked(server=server))
    stage.welcomed(three)
    stage.wait_idle()


def test_all_clients_disconnect(stage):
    one = stage.come()
    server = stage.asked()
    two = stage.come()
    until(lambda: len(stage.client_row()) == 2, "they wait")
    with stage.weir.one_turn():
        one.close()
        two.close()
        stage.serve(server)
    stage.wait_idle()
    assert not server.has_input()


def test_next_client_of_the_queue_ends(stage):
    """In the same turn in which the query that it waited for has ended: the next client sends the query."""
    one = stage.come()
    server = stage.asked()
    two, three = stage.come(), stage.come()
    until(lambda: len(stage.client_row()) == 3, "they wait")
    second = stage.client_row()[1]["id"]
    console = stage.weir.connect()
    console.login(user="admin", database="pgbouncer", password="admin-secret")
    with stage.weir.one_turn():
        stage.serve(server)
        console.send(m.query("KILL_CLIENT %d" % second))
    ended_with(two, "admin forced disconnect", "57P01")
    stage.welcomed(one)
    stage.serve(stage.asked(server=server))
    stage.welcomed(three, first=False)


def test_early_password(stage):
    """A client's password that arrives before the request waits for the request."""
    client = stage.weir.connect()
    client.send(m.startup(user="bob", database="p0"), m.password("secret"))
    stage.serve(stage.asked())
    client.expect("R")
    stage.fake.accept()
    client.finish_login()


def test_too_much_early_input(stage):
    client = stage.weir.connect()
    client.send(m.startup(user="bob", database="p0"))
    server = stage.asked()
    client.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            client.sock.send(m.password(1000 * "x"))
    client.sock.settimeout(20)
    stage.weir.barrier()
    stage.serve(server)
    client.expect("R")
    ended_with(client, "password authentication failed", "28P01")


@pytest.mark.parametrize("early", [False, True], ids=["", "early"])
def test_trusted(scene, early):
    """
    With auth_type trust the look-up is the whole login. The second login of a pool ends with the answer, because the welcome is
    known by then.
    """
    stage = Stage(scene, auth_type="trust")
    first = stage.come()
    asker = stage.asked()
    stage.serve(asker)
    bob = stage.fake.accept()
    first.finish_login()
    second = stage.come()
    stage.asked(server=asker)
    if early:
        second.send(m.query("early"))
        stage.weir.barrier()
    stage.serve(asker)
    second.finish_login()
    if not early:
        second.send(m.query("early"))
    bob.expect_query("early")
    bob.send(m.command_complete("early"), m.ready())
    second.result()
    third = stage.come()
    stage.asked(server=asker).send(lookups.prepared() + lookups.result())
    ended_with(third, "no such user", "28000")


# --- the operator


def test_show_commands(stage):
    client = stage.come()
    server = stage.asked()
    (row,) = stage.client_row()
    assert (row["state"], row["database"], row["link"]) == ("waiting", "p0", "")
    (row,) = [row for row in stage.weir.show("SERVERS") if row["user"] == "asker"]
    assert (row["state"], row["link"]) == ("active", "")
    pool = stage.weir.pool("p0", "asker")
    assert (pool["cl_active"], pool["cl_waiting"], pool["sv_active"]) == (0, 0, 1)
    assert {row["list"]: row["items"] for row in stage.weir.show("LISTS")}["login_clients"] == 1
    stage.serve(server)
    stage.welcomed(client)
    assert {row["list"]: row["items"] for row in stage.weir.show("LISTS")}["login_clients"] == 0


def test_kill_client(stage):
    client = stage.come()
    server = stage.asked()
    (row,) = stage.client_row()
    stage.weir.admin("KILL_CLIENT %d" % row["id"])
    ended_with(client, "admin forced disconnect", "57P01")
    stage.serve(server)
    stage.wait_idle()


@pytest.mark.parametrize("hold, go_on", [("PAUSE", "RESUME"), ("PAUSE p0", "RESUME p0"), ("SUSPEND", "RESUME")])
def test_pause_holds_the_look_up(stage, hold, go_on):
    stage.weir.admin(hold)
    if hold == "SUSPEND":
        client = stage.weir.connect()
        client.send(m.startup(user="bob", database="p0"))
    else:
        client = stage.come()
        stage.weir.wait_pool("p0", "asker", cl_waiting=1, sv_login=0)
    stage.weir.barrier()
    assert not stage.fake.started
    stage.weir.admin(go_on)
    stage.serve(stage.asked())
    stage.welcomed(client)


def test_pause_waits_for_a_running_look_up(stage):
    client = stage.come()
    server = stage.asked()
    console = stage.weir.connect()
    console.login(user="admin", database="pgbouncer", password="admin-secret")
    console.send(m.query("PAUSE"))
    stage.weir.wait_log("PAUSE command issued")
    stage.serve(server)
    assert console.result().tags == ["PAUSE"]
    assert all(message.type == "X" for message in server.drain())
    stage.weir.admin("RESUME")
    stage.welcomed(client)


def test_reconnect_does_not_interrupt_a_look_up(stage):
    client = stage.come()
    server = stage.asked()
    stage.weir.admin("RECONNECT")
    stage.serve(server)
    assert all(message.type == "X" for message in server.drain())
    stage.welcomed(client)


@pytest.mark.parametrize("queued", [False, True])
def test_kill(scene, queued):
    stage = Stage(scene, default_pool_size=1)
    first = stage.come("first")
    server = stage.asked("first")
    client = stage.come("second" if queued else "first")
    until(lambda: len(stage.weir.show("CLIENTS")) == 3, "both wait")
    stage.weir.admin("KILL p0")
    server.expect_closed()
    ended_with(first, "admin forced disconnect", "57P01")
    if queued:
        ended_with(client, "admin forced disconnect", "57P01")
        stage.weir.admin("RESUME p0")
        return
    # it came for a query that had not begun, and now waits as all clients do
    stage.weir.wait_pool("p0", "asker", cl_waiting=1)
    stage.weir.admin("RESUME p0")
    stage.serve(stage.asked("first"), "first")
    stage.welcomed(client, "first")


@pytest.mark.parametrize("queued", [False, True])
def test_reload_removes_the_database(scene, queued):
    stage = Stage(scene, default_pool_size=1)
    first = stage.come("first")
    server = stage.asked("first")
    client = stage.come("second" if queued else "first")
    until(lambda: len(stage.weir.show("CLIENTS")) == 3, "both wait")
    stage.weir.databases = {"other": stage.fake}
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    server.expect_closed()
    for one in first, client:
        ended_with(one, *FAILED)


def test_reload_changes_the_query(stage):
    """A client that waits for an answer has asked the old query; a client that comes after the RELOAD asks the new one."""
    client = stage.come()
    server = stage.asked()
    stage.weir.settings["auth_query"] = "SELECT new, one WHERE $1"
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    later = stage.come()
    other = stage.fake.accept()
    assert lookups.asked_for(other) == ("bob", "SELECT new, one WHERE $1")
    stage.serve(other)
    stage.welcomed(later)
    stage.serve(server)
    stage.welcomed(client, first=False)


@pytest.mark.parametrize("how", ["SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN"])
def test_shutdown(scene, how):
    stage = Stage(scene, default_pool_size=1)
    one = stage.come("one")
    server = stage.asked("one")
    again, two = stage.come("one"), stage.come("two")
    until(lambda: len(stage.weir.show("CLIENTS")) == 4, "they wait")
    console = stage.weir.connect()
    console.login(user="admin", database="pgbouncer", password="admin-secret")
    console.send(m.query(how))
    if how == "SHUTDOWN WAIT_FOR_SERVERS":
        ended_with(two, "server shutting down", "57P01")
        stage.serve(server, "one")
    elif how == "SHUTDOWN WAIT_FOR_CLIENTS":
        # clients that connected before still log in
        stage.weir.wait_log("SHUTDOWN WAIT_FOR_CLIENTS command issued")
        stage.serve(server, "one")
        stage.welcomed(one, "one")
        for client in one, again, two:
            client.close()
    stage.weir.wait_exit()


def test_disabled(scene):
    stage = Stage(scene, auth_dbname="other")
    stage.weir.databases["other"] = stage.fake
    stage.weir.write_ini()
    stage.weir.admin("RELOAD")
    stage.weir.admin("DISABLE other")
    ended_with(stage.come(), 'authentication database "other" is disabled', "57P03")
    stage.weir.admin("ENABLE other")
    stage.weir.admin("DISABLE p0")
    client = stage.come()
    stage.serve(stage.asked())
    client.expect("R")
    client.send(m.password("secret"))
    ended_with(client, 'database "p0" is disabled', "57P03")


def test_unknown_auth_dbname(scene):
    stage = Stage(scene, auth_dbname="nowhere")
    ended_with(stage.come(), *CONFIG_ERROR)
    stage.weir.wait_log('authentication database "nowhere" is not configured')


def test_client_input_during_key_derivation(scene):
    """Its look-up is complete, and is not repeated."""
    stage = Stage(scene, auth_type="scram-sha-256", max_auth_processes=1)
    other = stage.come("ann")
    server = stage.asked("ann")
    stage.serve(server, "ann")
    other.expect("R")
    (row,) = [row for row in stage.weir.show("VERIFIERS") if row["pid"] is not None]
    os.kill(row["pid"], signal.SIGSTOP)
    client = stage.come()
    stage.serve(stage.asked(server=server))
    until(lambda: [row for row in stage.weir.show("VERIFIERS") if row["user"] == "bob"], "its key is derived")
    first = "n=,r=" + scram.nonce()
    for piece in (lambda message: (message[:1], message[1:]))(m.sasl_initial("SCRAM-SHA-256", b"n,," + first.encode())):
        client.send(piece)
        stage.weir.barrier()
    os.kill(row["pid"], signal.SIGCONT)
    client.expect("R")
    final, _ = scram.client_final("secret", first, client.expect("R").body[4:].decode())
    client.send(m.sasl_response(final.encode()))
    assert client.expect("R").body[:4] == b"\0\0\0\x0c"
    assert stage.fake.accept().startup["user"] == "bob"
    client.finish_login()


def test_look_up_does_not_count_as_client(scene):
    """The look-up itself does not count as a client of its database, its user, or the pooler."""
    stage = Stage(scene, max_client_conn=1, max_db_client_connections=1, max_user_client_connections=1)
    client = stage.come()
    stage.serve(stage.asked())
    stage.welcomed(client)
    stage.wait_idle()
