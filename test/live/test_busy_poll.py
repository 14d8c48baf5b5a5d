"""busy_poll: when the loop polls before it sleeps, and the figures shown. The benchmarks measure the speed."""
from support import messages as m
from support.until import until

PIPELINE = 200


def state(weir):
    return {row["key"]: row["value"] for row in weir.show("STATE")}


def load(client):
    """Queries that are answered faster than 1,000 a second, whatever the speed of this test."""
    client.send(m.query("SELECT 1") * PIPELINE)
    for _ in range(PIPELINE):
        assert client.result().rows == [[b"1"]]


def test_auto_tries_under_load(scene, postgres):
    weir = scene.weir({"p0": postgres}, show_extra_columns=1, busy_poll="auto", busy_poll_share=100)
    client = weir.client()
    assert state(weir)["busy_poll"] == "sleeps"

    def has_polled():
        load(client)
        return int(state(weir)["busy_poll_time"]) > 0
    until(has_polled, "a trial has polled")


def test_a_number_polls_and_off_does_not(scene, postgres):
    weir = scene.weir({"p0": postgres}, show_extra_columns=1, busy_poll=300)
    client = weir.client()
    assert state(weir)["busy_poll"] == "polls"
    load(client)
    polled = int(state(weir)["busy_poll_time"])
    assert polled > 0
    weir.admin("SET busy_poll = 'off'")
    before = state(weir)
    load(client)
    after = state(weir)
    assert before["busy_poll"] == after["busy_poll"] == "off"
    assert int(after["busy_poll_time"]) == int(before["busy_poll_time"]) >= polled
    weir.admin("SET busy_poll = 'auto'")
    # the load of this tick may begin a trial, which ends with the load
    until(lambda: state(weir)["busy_poll"] == "sleeps", "it sleeps")


def test_clients_that_have_not_logged_in_do_not_make_it_poll(scene, postgres):
    """Each byte of an unauthenticated client ended a wait, which was counted as a short wait."""
    weir = scene.weir({"p0": postgres}, show_extra_columns=1, busy_poll=10000, busy_poll_share=100)
    stranger = weir.connect()
    packet = m.startup(user="app", database="p0", application_name="x" * 1000)

    def polled_for(count):
        before = int(state(weir)["busy_poll_time"])
        for byte in packet[:count]:
            stranger.send(bytes([byte]))
            weir.barrier()
        return int(state(weir)["busy_poll_time"]) - before
    polled_for(100)
    assert polled_for(100) == 0


def test_extra_rows_are_shown_on_demand(scene, postgres):
    assert list(state(scene.weir({"p0": postgres}))) == ["active", "paused", "suspended"]
