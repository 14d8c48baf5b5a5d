"""auth_type pam: modules that say yes, no, nothing for a long time, or crash; and the processes in which they do."""
import os
import resource
import signal

import pytest

from support import messages as m
from support.pam import Pam
from support.postgres import SECRETS
from support.takeover import Replaced
from support.until import until


PERMIT = "auth required pam_permit.so\naccount required pam_permit.so\n"


@pytest.fixture
def pam(tmp_path, monkeypatch):
    service = Pam(tmp_path, monkeypatch)
    yield service
    service.end()


def weir_for(scene, postgres, **settings):
    return scene.weir({"p0": postgres.target("p0", user="trusted")}, auth_type="pam", **settings)


def rules_of(scene, rules):
    """The path of an HBA file with these lines."""
    path = os.path.join(scene.directory, "hba.conf")
    with open(path, "w", encoding="ascii") as f:
        f.write(rules)
    return path


def start(weir, user, address=None):
    """A client that has sent its password and waits."""
    client = weir.connect_from(address) if address else weir.connect()
    client.send(m.startup(user=user, database="p0"))
    client.expect("R")
    client.send(m.password(user + "-pam"))
    return client


def error(client):
    """The ErrorResponse that it gets."""
    return m.read_error(client.expect("E").body)


def children(weir):
    """Process IDs of the verifiers; a process that has ended and is not reaped yet is included."""
    with open("/proc/%d/task/%d/children" % (weir.pid, weir.pid), encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


def is_gone(pid):
    return not os.path.exists("/proc/%d" % pid)


def test_right_and_wrong_passwords(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    assert weir.client("app", password="app-pam").query("SELECT current_user").value == "trusted"
    assert weir.client("nobody else knows", password="nobody else knows-pam").query("SELECT 1").value == "1"
    for wrong in ("app", "app-pam ", weir.users["app"], "x" * 60000):
        fields = weir.connect().refused(user="app", database="p0", password=wrong)
        assert (fields["M"], fields["C"], fields["S"]) == ("PAM authentication failed", "28000", "FATAL")
    weir.wait_log("closing because: PAM authentication failed", times=4)
    weir.wait_log(r"ERROR C-\S+ p0/app@\S+ PAM: pam_authenticate: System error", times=4)


def test_module_refuses_the_login(scene, postgres, tmp_path, monkeypatch):
    Pam(tmp_path, monkeypatch, "auth required pam_deny.so\naccount required pam_permit.so\n")
    weir = weir_for(scene, postgres)
    assert weir.connect().refused(user="app", database="p0", password="app-pam")["M"] == "PAM authentication failed"
    weir.wait_log(r"WARNING C-\S+ p0/app@\S+ PAM: pam_authenticate: Authentication failure")


def test_no_descriptor_for_a_verifier(scene, postgres, pam):
    """No verifier can be started: the login fails, a logged-in client continues, and the next login is verified again."""
    weir = weir_for(scene, postgres, allow="verif|descriptor|Too many open files")
    inside = weir.client("app", password="app-pam")
    assert inside.query("SELECT 1").value == "1"
    for pid in children(weir):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not children(weir), "no verifier is left")
    late = weir.connect()
    late.send(m.startup(user="late", database="p0"))
    late.expect("R")
    _, hard = resource.prlimit(weir.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(weir.pid, resource.RLIMIT_NOFILE, (weir.descriptors(), hard))
    late.send(m.password("late-pam"))
    assert error(late)["S"] == "FATAL"
    late.expect_closed()
    assert inside.query("SELECT 1").value == "1"
    resource.prlimit(weir.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert weir.client("later", password="later-pam").query("SELECT 1").value == "1"


def test_empty_password_is_refused_without_pam(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    assert weir.connect().refused(user="app", database="p0", password="")["M"] == "PAM authentication failed"
    weir.wait_log("PAM: the password is empty")
    assert pam.asked() == []


def test_items_for_pam(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    weir.client("app", password="app-pam")
    weir.client("app", password="app-pam", unix=True)
    assert pam.asked() == ["auth pgbouncer app 127.0.0.1", "account pgbouncer app 127.0.0.1",
                           "auth pgbouncer app none", "account pgbouncer app none"]


def test_expired_account(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    fields = weir.connect().refused(user="expired", database="p0", password="expired-pam")
    assert fields["M"] == "PAM authentication failed"
    weir.wait_log("PAM: pam_acct_mgmt: ")


def test_no_such_service(scene, postgres, pam):
    os.unlink(os.path.join(pam.directory, "pgbouncer"))
    weir = weir_for(scene, postgres)
    assert weir.connect().refused(user="app", database="p0", password="app-pam")["M"] == "PAM authentication failed"
    weir.wait_log("PAM: pam_")


def test_verified_password_is_used_for_the_server(scene, postgres, tmp_path, monkeypatch):
    """pam_permit accepts any password; the server knows the correct one."""
    Pam(tmp_path, monkeypatch, PERMIT)
    weir = scene.weir({"p0": postgres, "p1": postgres}, users={"app": "stale"}, auth_type="pam", server_login_retry=1)
    # even a text of the form of a hash is treated as a password
    for wrong in ("wrong", "md5" + "0" * 32):
        fields = weir.connect().refused(user="app", database="p0", password=wrong)
        assert "password authentication failed" in fields["M"]
    assert weir.client("app", database="p1", password=SECRETS["app"]).query("SELECT current_user").value == "app"


def test_password_of_the_user_list_is_used_again(scene, postgres, tmp_path, monkeypatch):
    """A client that has proven the password of the list since then needs no password of PAM's."""
    Pam(tmp_path, monkeypatch, PERMIT)
    weir = scene.weir({"p0": postgres, "p1": postgres}, auth_type="pam")
    assert weir.connect().refused(user="app", database="p0", password="wrong")
    weir.settings["auth_type"] = "scram-sha-256"
    weir.write_ini()
    weir.signal(signal.SIGHUP)
    weir.wait_log("RELOAD: the configuration")
    assert weir.client("app", database="p1").query("SELECT current_user").value == "app"


# --- an online restart

def test_verified_password_is_handed_over(scene, postgres, tmp_path, monkeypatch):
    Pam(tmp_path, monkeypatch, PERMIT)
    weir = scene.weir({"p0": postgres}, kind=Replaced, users={"app": "stale"}, auth_type="pam")
    client = weir.client("app", password=SECRETS["app"])
    client.query("SELECT 1")
    weir.replace()
    weir.admin("RECONNECT")
    until(lambda: weir.pool("p0")["sv_idle"] == 0, "the server is gone")
    assert client.query("SELECT current_user").value == "app"
    # and the password may still be replaced, and forgotten
    assert weir.client("app", password=SECRETS["app"]).query("SELECT 1").value == "1"


def test_login_in_progress_ends_in_the_old_process(scene, postgres, pam):
    weir = scene.weir({"p0": postgres.target("p0", user="trusted")}, kind=Replaced, auth_type="hba", admin_users="admin",
                      auth_hba_file=rules_of(scene, "host pgbouncer all all trust\nhost all all all pam\n"))
    slow = start(weir, "slow")
    pam.wait_asked(1)
    weir.replace()

    def is_asked_for_the_account():
        pam.let_go()
        return len(pam.asked()) == 2
    until(is_asked_for_the_account, "PAM goes on")
    slow.expect("R")
    slow.read_until("Z")
    assert slow.query("SELECT current_user").value == "trusted"


# --- many, slow ones

def test_slow_logins_do_not_delay_other_clients(scene, postgres, pam):
    """Trap 77: fifty logins hang; sessions continue, and the console answers. Then all logins succeed."""
    weir = weir_for(scene, postgres, max_client_conn=200)
    session = weir.client("app", password="app-pam")
    slow = [start(weir, "slow%d" % i) for i in range(50)]
    pam.wait_asked(2 + 8)
    for i in range(500):
        assert session.query("SELECT %d" % i).value == str(i)
    own = weir.connect(unix=True)
    own.login(user="pgbouncer", database="pgbouncer")
    states = [row[1].decode() for row in own.query("SHOW VERIFIERS").rows]
    assert (states.count("busy"), states.count("waiting"), states.count("idle")) == (8, 42, 0)
    assert len(children(weir)) == 8

    def all_in():
        pam.let_go()
        return len([line for line in pam.asked() if line.startswith("account pgbouncer slow")]) == 50
    until(all_in, "PAM lets all of them in")
    for client in slow:
        client.expect("R")
        client.read_until("Z")
    assert len(children(weir)) <= 8


def test_no_more_than_max_auth_queue_wait(scene, postgres, pam):
    weir = weir_for(scene, postgres, max_auth_processes=1, max_auth_queue=1)
    first = start(weir, "slow1")
    pam.wait_asked(1)
    second = start(weir, "slow2")
    weir.wait_log("login attempt", times=2)
    fields = error(start(weir, "app"))
    assert (fields["M"], fields["C"]) == ("too many logins wait for a look-up or verifier (max_auth_queue)", "53300")
    first.close()
    second.close()


def test_one_address_does_not_fill_the_queue_for_others(scene, postgres, pam):
    """Its youngest login is displaced by the first login of another address, which is served after one more login of the others."""
    weir = weir_for(scene, postgres, max_auth_processes=1, max_auth_queue=3)
    slow = [start(weir, "slow0")]
    pam.wait_asked(1)
    for number in (1, 2, 3):
        slow.append(start(weir, "slow%d" % number))
        weir.wait_log("login attempt", times=number + 1)
    late = start(weir, "app", "127.0.0.2")
    assert error(slow[3])["M"] == "too many logins wait for a look-up or verifier (max_auth_queue)"
    slow[3].expect_closed()
    assert error(start(weir, "second", "127.0.0.2"))["M"] == "too many logins wait for a look-up or verifier (max_auth_queue)"
    (row,) = [row for row in own_console(weir).query("SHOW REASONS").rows if b"max_auth_queue" in b" ".join(map(bytes, row))]
    assert b"2" in row
    slow[0].close()
    pam.wait_asked(2)
    slow[1].close()
    late.expect("R")
    late.read_until("Z")
    assert late.query("SELECT current_user").value == "trusted"
    assert [line.split()[2] for line in pam.asked()[:4]] == ["slow0", "slow1", "app", "app"]
    slow[2].close()


# --- lines of an HBA file

def weir_with(scene, postgres, rules, **settings):
    return scene.weir({"p0": postgres.target("p0", user="trusted"), "p1": postgres.target("p1", user="trusted")},
                      auth_type="hba", auth_hba_file=rules_of(scene, rules), **settings)


def test_service_of_an_hba_line(scene, postgres, pam):
    os.symlink("pgbouncer", os.path.join(pam.directory, "elsewhere"))
    weir = weir_with(scene, postgres, "host p1 all all pam pamservice=elsewhere\nhost all all all pam\n")
    assert weir.client("app", password="app-pam").query("SELECT 1").value == "1"
    assert weir.client("nobody", database="p1", password="nobody-pam").query("SELECT 1").value == "1"
    assert [line.split()[1] for line in pam.asked()] == 2 * ["pgbouncer"] + 2 * ["elsewhere"]
    assert weir.connect().refused(user="app", database="p0", password="x")["M"] == "PAM authentication failed"


def test_slow_logins_do_not_delay_other_methods(scene, postgres, pam):
    weir = weir_with(scene, postgres, "host p1 all all pam\nhost all all all scram-sha-256\n", max_client_conn=200)
    slow = []
    for i in range(50):
        slow.append(weir.connect())
        slow[-1].send(m.startup(user="slow%d" % i, database="p1"))
        slow[-1].expect("R")
        slow[-1].send(m.password("slow%d-pam" % i))
    pam.wait_asked(8)
    for _ in range(50):
        client = weir.client("app")
        assert client.query("SELECT 1").value == "1"
        client.quit()
    assert len(pam.asked()) == 8
    assert {row["state"] for row in weir.show("VERIFIERS") if row["method"]} == {"busy", "waiting"}
    for client in slow:
        client.close()


# --- an end before the answer

def all_wait_for_a_second(own, count):
    """Waits until this number of logins have waited for more than a second, however busy the machine is."""
    def waited():
        return [int(row[4]) > 1000000 for row in own.query("SHOW VERIFIERS").rows] == [True] * count
    until(waited, "logins wait")


def own_console(weir):
    own = weir.connect(unix=True)
    own.login(user="pgbouncer", database="pgbouncer")
    return own


def test_login_times_out(scene, postgres, pam):
    weir = weir_for(scene, postgres, max_auth_processes=1)
    slow = start(weir, "slow")
    pam.wait_asked(1)
    (process,) = children(weir)
    own = own_console(weir)
    all_wait_for_a_second(own, 1)
    own.query("SET client_login_timeout = 1")
    assert error(slow)["M"] == "client_login_timeout"
    weir.wait_log(r"C-0x1: p0/slow@\S+ PAM: no answer in client_login_timeout; the verifier at work on it "
                  r"\(process %d\) is ended" % process)
    until(lambda: is_gone(process), "the verifier ends")
    own.query("SET client_login_timeout = 60")
    assert weir.client("app", password="app-pam").query("SELECT 1").value == "1"


def test_waiting_login_times_out(scene, postgres, pam):
    weir = weir_for(scene, postgres, max_auth_processes=1)
    slow = start(weir, "slow")
    pam.wait_asked(1)
    waiting = start(weir, "app")
    own = own_console(weir)
    all_wait_for_a_second(own, 2)
    own.query("SET client_login_timeout = 1")
    assert {error(slow)["M"], error(waiting)["M"]} == {"client_login_timeout"}
    weir.wait_log(r"C-0x2: p0/app@\S+ PAM: no verifier was free in client_login_timeout \(max_auth_processes\)")


def test_client_disconnects(scene, postgres, pam):
    """Its verifier ends, and makes room. (The process of pam_exec has its own session, and ends by itself.)"""
    weir = weir_for(scene, postgres, max_auth_processes=1)
    slow = start(weir, "slow")
    pam.wait_asked(1)
    (process,) = children(weir)
    slow.close()
    until(lambda: is_gone(process), "the verifier ends")
    assert weir.client("app", password="app-pam").query("SELECT 1").value == "1"


def test_a_module_that_crashes(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    for _ in range(3):
        fields = weir.connect().refused(user="killer", database="p0", password="killer-pam")
        assert fields["M"] == "PAM authentication failed"
    weir.wait_log(r"PAM: the verifier at work on it \(process \d+\) has ended without an answer", times=3)
    weir.wait_log(r"WARNING verifier \d+ was ended by signal 6", times=3)
    assert weir.client("app", password="app-pam").query("SELECT 1").value == "1"


def test_verifiers_end_with_pgweir(scene, postgres, pam):
    """Even when it has no time to tell them."""
    weir = weir_for(scene, postgres, max_auth_processes=2)
    weir.client("app", password="app-pam")
    start(weir, "slow")
    pam.wait_asked(3)
    start(weir, "slow")
    pam.wait_asked(4)
    processes = children(weir)
    assert len(processes) == 2
    weir.expected_status = -signal.SIGKILL
    weir.signal(signal.SIGKILL)
    weir.wait_exit()
    until(lambda: all(map(is_gone, processes)), "the verifiers end")


def test_signals_for_pgweir_do_not_end_a_login(scene, postgres, pam):
    """A service manager sends them to every process of the service."""
    weir = weir_for(scene, postgres)
    slow = start(weir, "slow")
    pam.wait_asked(1)
    (process,) = children(weir)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(process, signum)

    def is_asked_for_the_account():
        pam.let_go()
        return len(pam.asked()) == 2
    until(is_asked_for_the_account, "PAM goes on")
    slow.expect("R")
    slow.read_until("Z")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGQUIT])
def test_shutdown_during_a_verification(scene, postgres, pam, signum):
    weir = weir_for(scene, postgres)
    slow = start(weir, "slow")
    pam.wait_asked(1)
    (process,) = children(weir)
    weir.signal(signum)
    assert weir.wait_exit() == 0
    assert error(slow)["M"] == "pooler is shutting down"
    until(lambda: is_gone(process), "the verifier ends")


def test_shutdown_waits_for_clients_in_verification(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    slow = start(weir, "slow")
    pam.wait_asked(1)
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM")

    def is_asked_for_the_account():
        pam.let_go()
        return len(pam.asked()) == 2
    until(is_asked_for_the_account, "PAM goes on")
    slow.expect("R")
    slow.read_until("Z")
    assert slow.query("SELECT 1").value == "1"
    slow.quit()
    assert weir.wait_exit() == 0


def test_reload_starts_new_verifiers(scene, postgres, pam):
    """The new verifiers read the configuration of PAM, LDAP and the resolver again."""
    weir = weir_for(scene, postgres)
    weir.client("app", password="app-pam")
    old = children(weir)
    weir.signal(signal.SIGHUP)
    weir.wait_log("RELOAD: the configuration")
    until(lambda: all(map(is_gone, old)), "the old verifiers end")
    weir.client("app", password="app-pam")
    assert len(children(weir)) == 1


def test_verifier_inherits_no_descriptors(scene, postgres, pam):
    weir = weir_for(scene, postgres)
    weir.client("app", password="app-pam")
    (process,) = children(weir)
    files = {int(fd): os.readlink("/proc/%d/fd/%s" % (process, fd)) for fd in os.listdir("/proc/%d/fd" % process)}
    assert sorted(files) == [0, 1, 2, 3]
    assert files[0] == files[1] == "/dev/null"
    assert files[3].startswith("socket:")
