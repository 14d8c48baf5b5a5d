"""The work for a client's first question does not tell whether its user exists. It is counted in instructions, because time is too coarse."""
import pytest

from support import messages as m
from support import scram
from support.profilers import Counted
from support.pgweir import USERS

LOGINS = 100
STORED = {"scram": scram.secret_text(scram.make_secret("secret")), "md5": "md5" + 32 * "0", "clear": "secret"}


def executed(scene, fake, user, count, auth_type, stored):
    users = {name: STORED[stored] for name in ("alice", *USERS)}
    weir = scene.weir(fake, kind=Counted, auth_type=auth_type, users=users, log_connections=0, log_disconnections=0)
    for _ in range(count):
        client = weir.connect()
        client.send(m.startup(user=user, database="p0"))
        client.expect("R")
        client.send(m.terminate())
        # otherwise the next client might connect in the same turn
        client.expect_closed()
        client.close()
    weir.stop()
    return weir.executed().total()


@pytest.mark.parametrize("auth_type, stored", [("scram-sha-256", "scram"), ("scram-sha-256", "clear"), ("md5", "scram"), ("md5", "md5"),
                                               ("md5", "clear")])
def test_cost_of_a_request_is_equal_for_all_users(scene, auth_type, stored):
    fake = scene.mini()
    # work done once, at the start and for the first login
    first = executed(scene, fake, "alice", 1, auth_type, stored)
    cost = {user: (executed(scene, fake, user, 1 + LOGINS, auth_type, stored) - first) / LOGINS for user in ("alice", "nosua")}
    assert abs(cost["alice"] - cost["nosua"]) < cost["alice"] / 20, cost
