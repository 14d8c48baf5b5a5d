"""Cancel requests, and their log lines."""
from support import messages as m
from support.log_words import logs_event
from support.pgbouncer import words


def running(pooler, scene):
    """pgweir with a time limit for cancel requests, a client with a running query, and its server."""
    fake = scene.mini()
    weir = pooler(fake, pool_mode="transaction", default_pool_size=1, cancel_wait_timeout=1, server_connect_timeout=3600)
    client = weir.client()
    client.send(m.query("wait"))
    fake.until(lambda: len(fake.queries) > 0, "the query runs")
    return weir, client, fake


def cancel_fails(weir, client, fake, reason):
    """The request ends for this reason, the query continues, and its server serves the next client."""
    weir.cancel(client).expect_closed()
    weir.wait_log("closing because: " + reason)
    assert words(weir.log(), "^C: .*cancel") == [("LOG", "C: p0/(nouser)@127.0.0.1 closing because: %s (age)" % reason)]
    weir.barrier()
    assert not client.has_input()
    fake.release()
    assert client.result().value == "waited"
    assert client.query("next").value == "next"


def test_cancel_wait_timeout_limits_the_connection_attempt(pooler, scene):
    """The server accepts no new connections, like a firewall that drops packets."""
    weir, client, fake = running(pooler, scene)
    fake.listen_without_answer()
    cancel_fails(weir, client, fake, "cancel_wait_timeout")
    logs_event(weir, "cancel_wait_timeout")


def test_a_cancel_request_whose_connection_is_refused(pooler, scene):
    """PgBouncer tries again until the time is over."""
    weir, client, fake = running(pooler, scene)
    fake.stop_listening()
    cancel_fails(weir, client, fake, "failed to send cancel request" if pooler.is_ours else "cancel_wait_timeout")
    logs_event(weir, "cancel request whose connection is refused")
