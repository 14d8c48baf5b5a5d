"""The lines of the log that parsers and alerts look for (log_words.tsv), each triggered, with PgBouncer and with pgweir."""
import pytest

from support import messages as m
from support import scram
from support.live import SOON, ask, ask_long, ended_with, hold, last_words, pid_of
from support.log_words import logs_event
from support.until import until


def test_everyday(pooler, scene):
    weir = pooler(scene.mini())
    weir.client().quit()
    logs_event(weir, "a client comes and goes")


def test_end_of_file(pooler, scene):
    weir = pooler(scene.mini())
    weir.client().close()
    logs_event(weir, "a client goes without Terminate")


# --- the reason that ends a server is the reason that ends its client

def test_query_timeout(pooler, postgres):
    weir = pooler(postgres, query_timeout=SOON if pooler.is_ours else 1)
    client = weir.client()
    ask_long(client)
    client.drain()
    logs_event(weir, "query timeout")


def test_idle_transaction_timeout(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", idle_transaction_timeout=SOON if pooler.is_ours else 1)
    client = weir.client()
    hold(client)
    client.drain()
    logs_event(weir, "idle transaction timeout")


def test_statement_mode(pooler, postgres):
    weir = pooler(postgres, pool_mode="statement")
    client = weir.client()
    ask(client, "BEGIN")
    client.drain()
    logs_event(weir, "transaction in statement mode")


def test_terminate_in_a_query(pooler, postgres):
    weir = pooler(postgres, client_gone="close")
    client = weir.client()
    ask_long(client)
    client.quit()
    logs_event(weir, "Terminate in a query")


def test_end_of_file_in_a_query(pooler, postgres):
    weir = pooler(postgres, client_gone="close")
    client = weir.client()
    ask_long(client)
    client.close()
    logs_event(weir, "end of file in a query")


def test_terminate_in_a_transaction(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", client_gone="close")
    client = weir.client()
    hold(client)
    client.quit()
    logs_event(weir, "Terminate in a transaction")


def test_end_of_file_in_a_pipeline(pooler, postgres):
    """One answer has come, and the client leaves before the next."""
    weir = pooler(postgres, pool_mode="transaction", client_gone="close")
    client = weir.client()
    client.send(m.query("SELECT 1"), m.query("SELECT pg_sleep(3600)"))
    client.read_until("Z")
    client.close()
    logs_event(weir, "end of file in a pipeline")


# --- logins that fail

def refuse(weir, user="app", database="p0", **parameters):
    return weir.connect().refused(user=user, database=database, password="wrong", **parameters)["M"]


def test_wrong_password(pooler, scene):
    assert refuse(pooler(scene.mini(), auth_type="md5")) == "password authentication failed"
    logs_event(scene.weirs[-1], "wrong password")


def test_wrong_password_with_scram(pooler, scene):
    assert refuse(pooler(scene.mini(), auth_type="scram-sha-256")) == "SASL authentication failed"
    logs_event(scene.weirs[-1], "wrong password with SCRAM")


def test_unknown_user(pooler, scene):
    assert refuse(pooler(scene.mini(), auth_type="plain"), "stranger") == "password authentication failed"
    logs_event(scene.weirs[-1], "unknown user")


def test_unknown_user_with_scram(pooler, scene):
    assert refuse(pooler(scene.mini(), auth_type="scram-sha-256"), "stranger") == "SASL authentication failed"
    logs_event(scene.weirs[-1], "unknown user with SCRAM")


def test_unknown_user_with_trust(pooler, scene):
    assert refuse(pooler(scene.mini()), "stranger") == '"trust" authentication failed'
    logs_event(scene.weirs[-1], "unknown user with trust")


def test_unknown_user_of_auth_query_with_trust(pooler, postgres):
    weir = pooler(postgres, auth_user="postgres")
    assert refuse(weir, "stranger") == "no such user"
    logs_event(weir, "unknown user of auth_query with trust")


def test_md5_secret_with_scram(pooler, scene):
    weir = pooler(scene.mini(), auth_type="scram-sha-256", users={"old": "md5" + "a" * 32})
    assert refuse(weir, "old") == "SASL authentication failed"
    logs_event(weir, "MD5 secret with SCRAM")


def test_unknown_database(pooler, scene):
    weir = pooler(scene.mini())
    assert refuse(weir, database="nowhere") == "no such database: nowhere"
    logs_event(weir, "unknown database")


def test_console_refuses_ordinary_users(pooler, scene):
    weir = pooler(scene.mini())
    assert refuse(weir, database="pgbouncer") == "not allowed"
    logs_event(weir, "console not allowed")


def test_rejected_by_rule(pooler, scene):
    rules = scene.directory + "/hba.conf"
    with open(rules, "w", encoding="ascii") as f:
        f.write("host all app all reject\n")
    weir = pooler(scene.mini(), auth_type="hba", auth_hba_file=rules)
    assert refuse(weir) == "login rejected"
    logs_event(weir, "rejected by a rule")


def test_certificate_of_another_user(pooler, scene, authority):
    weir = pooler(scene.mini(), auth_type="cert", client_tls_sslmode="verify-full", client_tls_ca_file=authority.cert("ca"),
                  client_tls_cert_file=authority.cert("server"), client_tls_key_file=authority.key("server"))
    client = weir.connect()
    client.start_tls(authority.client_context("client"))
    client.send(m.startup(user="rival", database="p0"))
    client.drain()
    logs_event(weir, "certificate of another user")


def test_unsupported_startup_parameter(pooler, scene):
    weir = pooler(scene.mini())
    assert refuse(weir, post_auth_delay="1MB") == "unsupported startup parameter: post_auth_delay"
    logs_event(weir, "unsupported startup parameter")


def test_unsupported_startup_parameter_in_options(pooler, scene):
    weir = pooler(scene.mini())
    assert refuse(weir, options="-c log_connections=on --work-mem=1MB") == "unsupported startup parameter in options: log_connections"
    logs_event(weir, "unsupported startup parameter in options")
    assert "work-mem" not in weir.log()


def test_terminate_as_the_first_packet(pooler, scene):
    weir = pooler(scene.mini())
    client = weir.connect()
    client.dribble(m.terminate())
    client.expect_closed()
    logs_event(weir, "Terminate as the first packet")
    assert "pooler error" not in weir.log()


def test_password_of_any_length(pooler, scene):
    weir = pooler(scene.mini(), auth_type="plain")
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    client.expect("R")
    client.send(m.password("x" * 70000))
    ended_with(client, "password authentication failed", "28P01" if pooler.is_ours else "08P01")
    logs_event(weir, "password that is too long")


def look_up(pooler, postgres, name):
    """Users are looked up in the database `name`, and `off` is disabled."""
    weir = pooler({"p0": postgres, "off": postgres}, auth_type="md5", auth_user="postgres", auth_dbname=name)
    weir.admin("DISABLE off")
    client = weir.connect()
    client.send(m.startup(user="stranger", database="p0"))
    return weir, last_words(client)["M"]


def test_auth_dbname_that_is_not_configured(pooler, postgres):
    weir, words = look_up(pooler, postgres, "nowhere")
    assert words == "bouncer config error"
    logs_event(weir, "auth_dbname that is not configured")


def test_auth_dbname_that_is_disabled(pooler, postgres):
    weir, words = look_up(pooler, postgres, "off")
    assert words == 'authentication database "off" is disabled'
    logs_event(weir, "auth_dbname that is disabled")


# --- cancel requests

def test_cancel(pooler, postgres):
    weir = pooler(postgres, server_tls_sslmode="disable")
    client = weir.client()
    ask_long(client)
    weir.cancel(client)
    assert client.result().errors[0]["C"] == "57014"
    logs_event(weir, "cancel request")


def test_cancel_for_an_idle_client(pooler, scene):
    weir = pooler(scene.mini())
    weir.cancel(weir.client())
    logs_event(weir, "cancel request for an idle client")


def test_cancel_with_a_wrong_key(pooler, scene):
    weir = pooler(scene.mini())
    weir.connect().send(m.cancel_request(4711, b"1234"))
    logs_event(weir, "cancel request with a wrong key")


# --- servers

def test_idle_server_sends_a_message(pooler, scene):
    fake = scene.fake()
    weir = pooler(fake)
    weir.client().quit()
    fake.accept().send(m.data_row("unasked"))
    logs_event(weir, "message of an idle server")


@pytest.mark.parametrize("tls", ["disable", "require"])
def test_an_idle_server_shuts_down(pooler, postgres, tls):
    weir = pooler(postgres, pool_mode="transaction", server_tls_sslmode=tls)
    pid = pid_of(weir.client())
    postgres.execute("SELECT pg_terminate_backend(%d)" % pid)
    logs_event(weir, "error of an idle server")


def test_evicted(pooler, scene):
    """A replication client needs a connection of its own, and the pool is full."""
    weir = pooler(scene.mini(), pool_mode="transaction", default_pool_size=1)
    weir.client().query("x")
    ask(weir.client(replication="true"), "IDENTIFY_SYSTEM")
    logs_event(weir, "evicted for a replication client")


def test_suspend_timeout(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", suspend_timeout=1)
    client = weir.client(receive_buffer=4096)
    ask(client, "SELECT repeat('x', 100000000)")
    until(lambda: any(row["database"] == "p0" and row["send_avail"] for row in weir.show("SOCKETS")), "the result is stuck")
    weir.admin("SUSPEND")
    logs_event(weir, "suspend_timeout")


def test_server_with_tls(pooler, postgres):
    weir = pooler(postgres, server_tls_sslmode="require")
    weir.client()
    logs_event(weir, "server connection with TLS")


def test_server_refuses_a_login(pooler, postgres):
    weir = pooler(postgres.target("nowhere"))
    weir.connect().refused(user="app", database="p0")
    logs_event(weir, "server refuses a login")


def test_scram_secret_without_keys(pooler, postgres):
    weir = pooler(postgres, users={"app": scram.secret_text(scram.make_secret("app-secret"))})
    assert refuse(weir) == "server login failed: wrong password type"
    logs_event(weir, "SCRAM secret without keys")


def test_md5_secret_for_scram_at_the_server(pooler, postgres):
    weir = pooler(postgres, users={"app": "md5" + "a" * 32})
    assert refuse(weir) == "server login failed: wrong password type"
    logs_event(weir, "MD5 secret for SCRAM at the server")


def test_scram_secret_for_md5_at_the_server(pooler, postgres):
    weir = pooler(postgres, users={"md5user": scram.secret_text(scram.make_secret("app-secret"))})
    assert refuse(weir, "md5user") == "server login failed: wrong password type"
    logs_event(weir, "SCRAM secret for MD5 at the server")


def test_server_disconnects_in_its_login(pooler, scene):
    fake = scene.fake()
    weir = pooler(fake)
    client = weir.client()
    ask(client)
    server = fake.accept()
    server.expect("Q")
    server.close()
    client.drain()
    logs_event(weir, "server breaks off")


def test_server_lifetime(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", server_lifetime=1)
    pid_of(weir.client())
    logs_event(weir, "server_lifetime")


def test_server_idle_timeout(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", server_idle_timeout=1)
    pid_of(weir.client())
    logs_event(weir, "server_idle_timeout")


def test_reserve_pool(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", default_pool_size=1, reserve_pool_size=1, reserve_pool_timeout=1)
    hold(weir.client())
    hold(weir.client())
    logs_event(weir, "reserve pool")


# --- prepared statements

def test_name_that_was_prepared(pooler, postgres):
    """PgBouncer ends the client; pgweir passes on the server's error."""
    weir = pooler(postgres, pool_mode="transaction", max_prepared_statements=10)
    client = weir.client()
    client.send(m.parse("SELECT 1", "s"), m.sync())
    client.read_until()
    client.send(m.parse("SELECT 2", "s"), m.sync())
    assert client.read().type == "E"
    logs_event(weir, "name that was prepared")


def test_name_that_was_not_prepared(pooler, postgres):
    weir = pooler(postgres, pool_mode="transaction", max_prepared_statements=10)
    client = weir.client()
    client.send(m.bind("s"), m.sync())
    assert client.read().type == "E"
    logs_event(weir, "name that was not prepared")
