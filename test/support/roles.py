"""A primary and two standbys, played by the test, and pgweir in front of them."""
from .live import NEVER
from .until import until

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


class Roles:
    """pgweir's databases: p0 for the primary, reads for readers, plain without roles."""

    def __init__(self, scene, kind=None, hosts=HOSTS, balance=None, **settings):
        """balance: load_balance_hosts of reads."""
        self.fakes = scene.hosts(*hosts)
        for fake in self.fakes[1:]:
            fake.become("standby")
        self.keys = ["%s:%d" % (host, self.fakes[0].port) for host in hosts]
        hosts = "host=%s port=%d dbname=p0" % (",".join(hosts), self.fakes[0].port)
        databases = {"p0": hosts + " target_session_attrs=primary", "reads": hosts + " target_session_attrs=standby", "plain": hosts}
        databases["reads"] += " load_balance_hosts=" + balance if balance else ""
        settings = {"pool_mode": "transaction", "show_extra_columns": 1, "server_idle_timeout": NEVER, "default_pool_size": 10,
                    "host_check_period": 0.1, "server_login_retry": 0, **settings}
        self.weir = scene.weir(databases, **settings, **({"kind": kind} if kind else {}))

    def host(self, number):
        (row,) = [row for row in self.weir.show("HOSTS") if row["host"] == self.keys[number]]
        return row

    def wait_host(self, number, **wanted):
        try:
            until(lambda: wanted.items() <= self.host(number).items())
        except AssertionError as error:
            raise AssertionError("not %r: %r" % (wanted, self.host(number))) from error
        return self.host(number)

    def readers(self, count):
        """Clients of reads, when both standbys are known."""
        first = self.weir.client(database="reads")
        for number in (1, 2):
            self.wait_host(number, role="standby")
        return [first] + [self.weir.client(database="reads") for _ in range(count - 1)]

    def pools(self, database):
        """{host: row} of SHOW POOLS."""
        return {row["host"]: row for row in self.weir.show("POOLS") if row["database"] == database and row["user"] == "app"}

    def served_by(self, text):
        """The numbers of the hosts that have got a query."""
        return [number for number, fake in enumerate(self.fakes) if text in [query for _, query in fake.queries]]
