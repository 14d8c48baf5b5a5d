"""Passwords in clear for SCRAM secrets: a process derives the key, and all other clients go on."""
import os
import signal
from contextlib import contextmanager, suppress

import pytest

from support import messages as m
from support import scram
from support.scenes import transactions
from support.takeover import Replaced
from support.until import DEADLINE, until

SLOW = 1000000                  # as many iterations as are ever derived
USERS = {"app": scram.secret_text(scram.make_secret("sesame")), "bob": scram.secret_text(scram.make_secret("bobs")), "clear": "clear",
         "admin": "of the console"}
REFUSED = "password authentication failed"
FULL = "too many logins wait for a look-up or verifier (max_auth_queue)"


def start_weir(scene, **settings):
    return transactions(scene, scene.mini(), **{"auth_type": "plain", "users": USERS, "max_auth_processes": 1,
                                                "login_failure_delay": 0, **settings})


def begin(weir, user="app", password="sesame", address=None):
    """A client that has sent its password."""
    client = weir.connect_from(address) if address else weir.connect()
    client.send(m.startup(user=user, database="p0"))
    client.expect("R")
    client.send(m.password(password))
    return client


def comes_in(client):
    client.expect("R")
    client.read_until("Z")
    client.close()


def error(client):
    """Returns message and SQLSTATE of the refusal."""
    fields = m.read_error(client.expect("E").body)
    client.expect_closed()
    return fields["M"], fields["C"]


def is_refused(client):
    assert error(client) == (REFUSED, "28P01")


def processes(weir):
    return [row for row in weir.show("VERIFIERS") if row["pid"] is not None]


def waiting(weir):
    return [row["user"] for row in weir.show("VERIFIERS") if row["state"] == "waiting"]


@contextmanager
def stopped(weir):
    """The only derivation process has begun, and is stopped meanwhile."""
    is_refused(begin(weir, "bob", "that begins it"))
    (row,) = processes(weir)
    os.kill(row["pid"], signal.SIGSTOP)
    try:
        yield row["pid"]
    finally:
        with suppress(ProcessLookupError):
            os.kill(row["pid"], signal.SIGCONT)


def busy_with(weir, user):
    until(lambda: [(row["state"], row["method"], row["user"]) for row in processes(weir)] == [("busy", "SCRAM", user)],
          "a key is derived for " + user)


def test_right_and_wrong(scene):
    weir = start_weir(scene)
    comes_in(begin(weir))
    for user, password in [("app", "sesam"), ("app", "sesame "), ("app", USERS["app"]), ("bob", "sesame"),
                           ("app", "x" * 60000), ("app", ""), ("nobody", "")]:
        is_refused(begin(weir, user, password))
    comes_in(begin(weir))
    comes_in(begin(weir, "bob", "bobs"))
    # each correct password was derived once, and empty ones were not derived
    (row,) = processes(weir)
    assert (row["method"], row["state"], row["answers"]) == (None, "idle", 2 + 5)


def test_other_clients_do_not_wait(scene):
    weir = start_weir(scene)
    session = weir.client("clear", password="clear")
    comes_in(begin(weir, "bob", "bobs"))
    with stopped(weir) as pid:
        wrong = begin(weir, "app", "wrong")
        busy_with(weir, "app")
        right = begin(weir)
        until(lambda: waiting(weir) == ["app"], "the second waits")
        assert session.query("SELECT 1").value is not None
        comes_in(begin(weir, "clear", "clear"))
        is_refused(begin(weir, "clear", "wrong"))
        # cached from before
        comes_in(begin(weir, "bob", "bobs"))
        assert [row["pid"] for row in processes(weir)] == [pid]
    is_refused(wrong)
    comes_in(right)


def test_unknown_users_take_as_long(scene):
    """As many unknown users take time as known users have SCRAM secrets."""
    weir = start_weir(scene)
    with stopped(weir):
        clients = [begin(weir, "nobody%d" % i) for i in range(60)]
        weir.wait_log("login attempt", times=60)
        assert 0 < len(waiting(weir)) < 59
    for client in clients:
        is_refused(client)


def test_names_do_not_evict_cached_keys(scene):
    """SCRAM for a list of passwords in clear: one derivation for each name, known or not, whatever other names come."""
    weir = transactions(scene, scene.mini(), auth_type="scram-sha-256", users={"clear": "clear"}, max_auth_processes=1, scram_iterations=1)

    def derivations(names):
        before = sum(row["answers"] for row in processes(weir))
        for name in names:
            with weir.connect() as client:
                client.send(m.startup(user=name, database="p0"))
                client.expect("R")
        return sum(row["answers"] for row in processes(weir)) - before
    assert derivations(["clear", "nobody"]) == 2
    derivations("nobody%d" % n for n in range(1100))
    assert derivations(["clear", "nobody", "nobody0"]) == 0


def test_equal_requests_are_derived_once(scene):
    """As after a start, when all of an application's clients come at once."""
    weir = start_weir(scene, max_auth_queue=1, max_client_conn=200)
    with stopped(weir):
        clients = [begin(weir)]
        busy_with(weir, "app")
        clients += [begin(weir) for _ in range(100)]
        weir.wait_log("login attempt", times=102)
        gone = begin(weir)
        weir.wait_log("login attempt", times=103)
        # the client whose request runs disconnects, and another one
        clients.pop(0).close()
        gone.close()
        weir.wait_log("client unexpected eof", times=2)
        assert waiting(weir) == []
        (row,) = processes(weir)
    for client in clients:
        comes_in(client)
    assert processes(weir)[0]["answers"] == row["answers"] + 1


def test_request_shared_with_another_address(scene):
    """The request is processed in the turn of the address with fewer requests, not after all requests of the other address."""
    names = ["v%d" % n for n in range(10)]
    weir = start_weir(scene, auth_type="scram-sha-256", users=dict.fromkeys(names, "secret"), listen_addr="*", scram_iterations=200000)
    weir.admin("SHOW VERSION")

    def question(name, **address):
        client = weir.connect_from(**address) if address else weir.connect()
        client.send(m.startup(user=name, database="p0"))
        return client

    with weir.one_turn():
        crowd = [question(name) for name in names]
    until(lambda: waiting(weir), "questions wait")
    client = question(names[-1], address="127.0.0.2")
    client.expect("R")
    with weir.one_turn():
        answered = [other.has_input() for other in crowd]
    assert answered[-1] and sum(answered) < 8, answered
    for other in crowd:
        other.close()


def test_queue_is_limited(scene):
    weir = start_weir(scene, max_auth_queue=2, listen_addr="*")
    with stopped(weir):
        first = begin(weir, "app", "one")
        busy_with(weir, "app")
        second, third = begin(weir, "app", "two"), begin(weir, "app", "three")
        until(lambda: waiting(weir) == ["app", "app"], "they wait")
        assert error(begin(weir, "app", "four")) == (FULL, "53300")
        # addresses take turns
        other = begin(weir, "bob", "bobs", "127.0.0.2")
        assert error(third) == (FULL, "53300")
        until(lambda: waiting(weir) == ["app", "bob"], "it has made room")
    is_refused(first)
    is_refused(second)
    comes_in(other)
    (row,) = [row for row in weir.show("REASONS") if "max_auth_queue" in " ".join(map(str, row.values()))]
    assert 2 in row.values()


def test_waiting_client_disconnects(scene):
    """pgweir drops the waiting request of a client that leaves. A process finishes the one in progress, and no client is told."""
    weir = start_weir(scene)
    with stopped(weir) as pid:
        first = begin(weir, "app", "one")
        busy_with(weir, "app")
        second = begin(weir, "app", "two")
        until(lambda: waiting(weir) == ["app"], "it waits")
        second.close()
        until(lambda: waiting(weir) == [], "it has left")
        first.close()
        weir.wait_log("client unexpected eof", times=2)
        # and is found when it is asked for again
        busy_with(weir, "app")
        again = begin(weir, "app", "one")
    is_refused(again)
    assert [(row["pid"], row["state"], row["answers"]) for row in processes(weir)] == [(pid, "idle", 2)]


def test_client_login_timeout(scene):
    weir = start_weir(scene, client_login_timeout=1)
    with stopped(weir):
        client = begin(weir)
        assert error(client)[0] == "client_login_timeout"
        weir.wait_log(r"ERROR C-\S+ p0/app@\S+ SCRAM: the password could not be compared with the secret in client_login_timeout")
    comes_in(begin(weir))


def test_a_process_that_dies(scene):
    weir = start_weir(scene)
    with stopped(weir) as pid:
        client = begin(weir)
        busy_with(weir, "app")
        os.kill(pid, signal.SIGKILL)
        is_refused(client)
        weir.wait_log(r"ERROR C-\S+ p0/app@\S+ SCRAM: the verifier at work on it \(process %d\) has ended without an answer" % pid)
        until(lambda: not os.path.exists("/proc/%d" % pid), "it is reaped")
        comes_in(begin(weir))


def test_maximum_number_of_iterations(scene):
    users = {"app": scram.secret_text(scram.make_secret("sesame", iterations=SLOW)),
             "bob": scram.secret_text(scram.make_secret("sesame", iterations=SLOW + 1))}
    weir = start_weir(scene, users=users, client_login_timeout=600)
    client = begin(weir)
    client.sock.settimeout(15 * DEADLINE)
    comes_in(client)
    is_refused(begin(weir, "bob"))
    weir.wait_log(r"ERROR C-\S+ p0/bob@\S+ SCRAM: the secret has more than 1000000 iterations, too many for a password in clear")


def test_lines_of_an_hba_file(scene, tmp_path):
    rules = tmp_path / "hba.conf"
    rules.write_text("local all all peer\nhost pgbouncer all all trust\nhost all all all password\n", encoding="ascii")
    weir = start_weir(scene, auth_type="hba", auth_hba_file=str(rules))
    comes_in(begin(weir))
    is_refused(begin(weir, "app", "wrong"))
    assert [row["state"] for row in processes(weir)] == ["idle"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGQUIT])
def test_a_shutdown_meanwhile(scene, signum):
    weir = start_weir(scene)
    is_refused(begin(weir, "bob", "that begins it"))
    (row,) = processes(weir)
    os.kill(row["pid"], signal.SIGSTOP)
    client = begin(weir)
    busy_with(weir, "app")
    queued = begin(weir, "bob", "bobs")
    until(lambda: waiting(weir) == ["bob"], "it waits")
    weir.signal(signum)
    assert weir.wait_exit() == 0
    assert error(client)[0] == error(queued)[0] == "pooler is shutting down"
    until(lambda: not os.path.exists("/proc/%d" % row["pid"]), "the process has ended")


def test_reload_meanwhile(scene):
    weir = start_weir(scene)
    with stopped(weir) as pid:
        client = begin(weir)
        busy_with(weir, "app")
        weir.settings["max_auth_queue"] = 5
        weir.write_ini()
        weir.admin("RELOAD")
        busy_with(weir, "app")
    comes_in(client)
    until(lambda: pid not in [row["pid"] for row in processes(weir)], "the old process ends")
    is_refused(begin(weir, "app", "wrong"))


def test_login_in_progress_ends_in_the_old_process(scene):
    weir = start_weir(scene, kind=Replaced, auth_type="plain")
    with stopped(weir):
        right, wrong = begin(weir), begin(weir, "app", "wrong")
        until(lambda: waiting(weir) == ["app"], "one waits")
        weir.replace()
    comes_in(right)
    is_refused(wrong)
    comes_in(begin(weir))
