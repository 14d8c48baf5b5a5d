"""Traps 53 to 57: resources that one pool takes from another, or that are never given back."""
from support import messages as m
from support.live import NEVER, SOON
from support.rounds import size
from support.scenes import transactions
from support.until import until

MEGABYTE = 1000000


def test_trap_53_two_minima_that_exceed_the_limit(scene):
    """Two pools with a min_pool_size took each other's servers without an end, within a limit that was too small for both."""
    fake = scene.mini()
    target = "host=127.0.0.1 port=%d user=app min_pool_size=2" % fake.port
    weir = scene.weir({"p0": target, "p1": target}, pool_mode="transaction", max_user_connections=2, log_stats=1, stats_period=1,
                      server_idle_timeout=NEVER)
    until(lambda: len(fake.started) == 2, "as many servers as the user may have")
    # a line for each second in which they might have changed
    weir.wait_log(" stats: ", 2)
    assert len(fake.started) == 2 and "closing because" not in weir.log()


def test_trap_53_exactly_one_is_evicted(scene):
    """When a limit left no room for a new client, pgweir closed all idle servers, or none."""
    fake = scene.mini()
    weir = scene.weir({"p0": fake, "p1": fake}, pool_mode="transaction", max_user_connections=4, server_idle_timeout=NEVER)
    crowd = [weir.client() for _ in range(4)]
    for client in crowd:
        client.query("BEGIN")
    for client in crowd:
        client.query("COMMIT")
    weir.wait_pool("p0", sv_idle=4)
    for turn in range(1, 4):
        late = weir.client(database="p1")
        assert late.query("BEGIN").status == "T"
        assert weir.log().count("closing because: evicted") == turn
        weir.wait_pool("p0", sv_idle=4 - turn)


def test_trap_54_one_busy_user_keeps_the_database_for_all(scene):
    """A database that came from the fallback was removed with the pool of its idle user, and with it busy clients of another user."""
    weir = scene.weir({"*": scene.mini()}, pool_mode="transaction", autodb_idle_timeout=SOON, pool_idle_timeout=SOON,
                      server_idle_timeout=SOON)
    idle, busy, bystander = weir.client(), weir.client("rival"), weir.client(database="p1")
    idle.query("one")
    bystander.query("one")
    assert busy.query("BEGIN").status == "T"
    idle.quit()
    bystander.quit()
    until(lambda: not "p1" in [row["name"] for row in weir.show("DATABASES")], "p1 is forgotten")
    until(lambda: not [row for row in weir.show("POOLS") if (row["database"], row["user"]) == ("p0", "app")], "the idle pool is gone")
    assert "p0" in [row["name"] for row in weir.show("DATABASES")]
    assert busy.query("still").value == "still" and busy.query("COMMIT").status == "I"


def test_trap_55_large_messages_leave_nothing_behind(scene):
    """Each connection's buffer stayed as large as the largest message that had gone through it."""
    weir = transactions(scene, scene.mini(), 2, measured=True, max_client_conn=10000)
    text = "x" * 5 * MEGABYTE
    clients = [weir.client() for _ in range(size(20, 2000))]
    first = clients.pop()
    assert first.query(text).value == text
    before = weir.memory()
    for client in clients:
        assert client.query(text).value == text
        # the slow part of a message is collected, where it has to be
        client.send(m.parse("short", text[:1000]), m.sync())
        client.result()
    assert all(client.query("still here").value == "still here" for client in clients)
    assert weir.memory() - before < 4096 + 8 * len(clients)


def test_trap_56_pools_of_users_that_do_not_return(scene):
    """There were as many pools, users and databases as had ever been seen."""
    count = size(10, 200)
    users = {"user%d" % n: "secret" for n in range(count)}
    weir = scene.weir({"*": scene.mini()}, users=users, pool_mode="transaction", pool_idle_timeout=SOON, autodb_idle_timeout=SOON,
                      server_idle_timeout=SOON, max_client_conn=100000)
    for user in users:
        for n in range(count):
            with weir.connect() as client:
                client.login(user=user, database="d%d" % n)
                client.query("one")
                client.quit()
    until(lambda: {row["database"] for row in weir.show("POOLS")} == {"pgbouncer"}, "no pool is left")
    until(lambda: {row["name"] for row in weir.show("DATABASES")} == {"pgbouncer"}, "no database is left")


def bundle_size(path):
    with open(path, encoding="utf-8") as f:
        return f.read().count("BEGIN CERTIFICATE")


def test_trap_57_one_bundle_for_all_databases(scene, authority):
    """Each database loaded the bundle of certificates for itself."""
    fake = scene.mini(tls=authority.server_context())
    with open(scene.directory + "/bundle.crt", "w", encoding="utf-8") as bundle:
        for path in authority.cert("ca"), "/etc/ssl/certs/ca-certificates.crt":
            with open(path, encoding="utf-8") as f:
                bundle.write(f.read())
    assert bundle_size(bundle.name) > 100
    databases = {"d%d" % n: "host=localhost port=%d" % fake.port for n in range(size(50, 500))}
    weir = scene.weir(databases, pool_mode="transaction", measured=True, server_tls_sslmode="verify-full",
                      server_tls_ca_file=bundle.name, server_idle_timeout=NEVER, max_client_conn=10000)

    def ask(name):
        client = weir.client(database=name)
        assert client.query(name).value == name
    names = iter(databases)
    ask(next(names))
    before = weir.memory()
    for name in names:
        ask(name)
    # a connection over TLS has its own memory; the bundle as often would be some 500 KB for each
    assert weir.memory() - before < 200 * len(databases)
