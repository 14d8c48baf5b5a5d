"""Logins, and their log lines."""
from support import messages as m
from support.pgbouncer import words


def test_a_login_and_its_end(pooler, scene):
    weir = pooler(scene.mini(), auth_type="scram-sha-256")
    weir.client().quit()
    weir.wait_log("client close request")
    assert words(weir.log(), "^C: ") == [
        ("LOG", "C: p0/app@127.0.0.1 login attempt: db=p0 user=app tls=no replication=no"),
        ("LOG", "C: p0/app@127.0.0.1 closing because: client close request (age)")]


def test_a_wrong_password(pooler, scene):
    weir = pooler(scene.mini(), auth_type="plain")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    client.send(m.password("wrong"))
    error = m.read_error(client.expect("E").body)
    # the SQLSTATE is as in PgBouncer 1.25
    assert (error["S"], error["C"], error["M"]) == ("FATAL", "28P01" if pooler.is_ours else "08P01", "password authentication failed")
    weir.wait_log("password authentication failed")
    assert words(weir.log(), "closing because")[-1] == ("LOG", "C: p0/app@127.0.0.1 closing because: password authentication failed (age)")


def test_process_id_is_made_by_the_pooler(pooler, postgres):
    """doc/drivers.md: pg_terminate_backend() knows nothing of it."""
    client = pooler(postgres).client()
    assert client.pid != int(client.query("SELECT pg_backend_pid()").value)
    assert client.query("SELECT count(*) FROM pg_stat_activity WHERE pid = %d" % client.pid).value == "0"
