"""Which client is served next, by which connection, and messages to waiting clients."""
import re

from support import messages as m
from support.live import NEVER, SOON, ask, hold, let_go, notices, pid_of


def test_waiting_clients_are_served_in_order_of_arrival(scene, postgres):
    postgres.execute("CREATE SEQUENCE turn; GRANT ALL ON SEQUENCE turn TO app", database="p3")
    weir = scene.weir({"p3": postgres}, pool_mode="transaction", default_pool_size=1)
    holder = weir.client(database="p3")
    hold(holder)
    waiting = []
    try:
        for count in range(1, 21):
            client = weir.client(database="p3")
            ask(client, "SELECT nextval('turn')")
            waiting.append(client)
            weir.wait_pool("p3", cl_waiting=count)
        let_go(holder)
        assert [int(client.result().value) for client in waiting] == list(range(1, 21))
    finally:
        holder.close()
        postgres.execute("DROP SEQUENCE turn", database="p3")


def three_released_in_turn(weir):
    """Process ids of three idle server connections, in the order in which they were released."""
    clients = [weir.client() for _ in range(3)]
    pids = [hold(client) for client in clients]
    for count, client in enumerate(clients, 1):
        let_go(client)
        weir.wait_pool("p0", sv_idle=count)
    return pids


def test_last_released_is_used_first(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_round_robin=0)
    pids = three_released_in_turn(weir)
    client = weir.client()
    assert [pid_of(client) for _ in range(4)] == [pids[2]] * 4


def test_round_robin(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", server_round_robin=1)
    pids = three_released_in_turn(weir)
    client = weir.client()
    assert [pid_of(client) for _ in range(6)] == pids * 2


def test_round_robin_at_run_time(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction")
    pids = three_released_in_turn(weir)
    client = weir.client()
    assert pid_of(client) == pids[2]
    weir.admin("SET server_round_robin = 1")
    assert [pid_of(client) for _ in range(3)] == pids
    weir.admin("SET server_round_robin = 0")
    assert pid_of(client) == pids[2]


def test_query_wait_notify(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, query_wait_notify=SOON)
    holder, late = weir.client(), weir.client()
    hold(holder)
    ask(late)
    notice = m.read_error(late.expect("N").body)
    # PgBouncer's text; it has the notice from 1.25 on, and no DETAIL
    assert (notice["S"], notice["C"]) == ("NOTICE", "00000")
    assert notice["M"] == "No server connection available in postgres backend, client being queued"
    assert re.fullmatch(r"The client has waited for \d+ s\.", notice["D"])
    let_go(holder)
    result = late.result()
    assert result.value and not notices(result.messages)


def test_query_wait_notify_0_says_nothing(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", default_pool_size=1, query_wait_notify=0,
                      query_wait_timeout=SOON)
    hold(weir.client())
    late = weir.client()
    ask(late)
    assert [message.type for message in late.drain()] == ["E"]


def test_login_notify_message(scene, postgres):
    weir = scene.weir({"p0": postgres}, pool_mode="transaction", login_notify_message="mind the weir, all")
    welcome = weir.connect()
    assert notices(welcome.login(user="app", database="p0")) == ["mind the weir, all"]
    weir.admin("SET login_notify_message = ''")
    assert not notices(weir.connect().login(user="app", database="p0"))


def test_no_notice_at_login_by_default(scene, postgres):
    weir = scene.weir({"p0": postgres}, query_wait_notify=NEVER)
    assert not notices(weir.connect().login(user="app", database="p0"))
