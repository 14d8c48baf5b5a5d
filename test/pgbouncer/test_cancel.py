"""Cancel requests, and what the log says of them."""
from support import messages as m
from support.pgbouncer import words


def test_cancel_wait_timeout_bounds_the_connecting(pooler, scene):
    """The server takes no new connections, as behind a firewall that drops packets: the request ends, the query goes on."""
    fake = scene.mini()
    weir = pooler(fake, pool_mode="transaction", default_pool_size=1, cancel_wait_timeout=1, server_connect_timeout=3600)
    client = weir.client()
    client.send(m.query("wait"))
    fake.until(lambda: len(fake.queries) > 0, "the query runs")
    fake.listen_without_answer()
    weir.cancel(client).expect_closed()
    weir.wait_log("closing because: cancel_wait_timeout")
    assert words(weir.log(), "^C: .*cancel") == [("LOG", "C: p0/(nouser)@127.0.0.1 closing because: cancel_wait_timeout (age)")]
    weir.barrier()
    assert not client.has_input()
    # the server is not withheld
    fake.release()
    assert client.result().value == "waited"
    assert client.query("next").value == "next"
