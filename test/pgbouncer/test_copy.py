"""Clients that disconnect after a COPY."""
import pytest

from support import messages as m
from support.pgbouncer import words
from support.scenes import copy_that_fails


@pytest.mark.parametrize("reason", ["client close request", "client unexpected eof"])
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_client_disconnects_after_a_failed_copy(pooler, scene, mode, reason):
    """The server stays. pgweir asks it an empty query, to know whether the Sync within the COPY was answered, too."""
    fake = scene.fake()
    weir = pooler(fake, pool_mode=mode, default_pool_size=1, server_reset_query="")
    client, server = copy_that_fails(fake, weir)
    if reason == "client close request":
        client.quit()
    else:
        client.close()
    weir.wait_log("closing because: " + reason)
    if pooler.is_ours:
        server.expect_query("")
        server.send(m.empty_query_response(), m.ready())
    other = weir.client()
    other.send(m.query("next"))
    server.expect_query("next")
    server.answer("the same server")
    assert other.result().value == "the same server"
    assert words(weir.log(), "closing because") == [("LOG", "C: p0/app@127.0.0.1 closing because: %s (age)" % reason)]
