"""
The cost of a server's parameter report depends on its own length, not on earlier reports. Otherwise a server of one database could delay all others
with a few hundred kilobytes.
"""
import pytest

from support import messages as m
from support.profilers import Counted

REPORTS = 200
MOST = 20000                    # instructions for one
TRACKED = ("client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "search_path")


def tracked(server):
    """Parameters that are part of each client's session, and all but one of them are long."""
    server.send(*(m.parameter_status(name, "v" * 60000) for name in TRACKED))
    return "application_name"


def of_the_server(server):
    """A parameter that belongs to the welcome of all clients."""
    server.send(m.parameter_status("in_hot_standby", "on"))
    return "in_hot_standby"


def many_parameters(session):
    session.parameters.update(("p%d" % n, "") for n in range(4000))
    session.welcome()


def cost(scene, first, times):
    fake = scene.fake(login=many_parameters)
    weir = scene.weir(fake, kind=Counted)
    client = weir.client()
    client.send(m.query("first"))
    server = fake.accept()
    server.expect_query("first")
    name = first(server)
    server.send(*(m.parameter_status(name, word) for _ in range(times) for word in ("a", "b")))
    server.answer("x")
    client.result()
    client.send(m.terminate())
    client.expect_closed()
    weir.stop()
    return weir.executed()["pgweir"]


@pytest.mark.parametrize("first", (tracked, of_the_server))
def test_cost_of_a_report(scene, first):
    one, two = (cost(scene, first, times * REPORTS // 2) for times in (1, 2))
    assert (two - one) / REPORTS < MOST, (one, two)


REPORTED = 4000                 # parameters of many_parameters
LOGINS = 10
OTHERS = {"app.x%d" % n: "1" for n in range(200)}


def cost_of_welcomes(scene, times, asked):
    """The cost of this number of clients that request these parameters, with a server that reports many."""
    weir = scene.weir(scene.fake(login=many_parameters), kind=Counted)
    weir.client()
    for _ in range(times):
        client = weir.client(**asked)
        client.send(m.terminate())
        client.expect_closed()
    weir.stop()
    return weir.executed()["pgweir"]


def test_cost_of_a_welcome(scene):
    """A client's own values are not searched one by one among the server's reports."""
    without, with_them = ((cost_of_welcomes(scene, 2 * LOGINS, asked) - cost_of_welcomes(scene, LOGINS, asked)) / LOGINS for asked in ({}, OTHERS))
    assert (with_them - without) / REPORTED < 1000, (without, with_them)
