"""
Clients connect, guess passwords, leave and connect again. A server gives answers that are right, wrong, late or missing. An
administrator gives all commands. Only clients with the right password log in; afterwards no client waits and everything works.
"""
import random
import threading

from support import lookups
from support import messages as m
from support.rounds import size
from support.threads import run_in_threads
from support.until import until
from support.wire import Closed, LoginRefused

COMMANDS = ("PAUSE", "RESUME", "RESUME", "RECONNECT", "RELOAD", "SUSPEND", "RESUME", "KILL p0", "RESUME p0", "SHOW CLIENTS",
            "SHOW SERVERS", "SHOW POOLS", "SHOW LISTS", "SHOW FDS", "SET default_pool_size = 2", "SET default_pool_size = 5",
            "SET pool_mode = session", "SET pool_mode = transaction", "SET auth_type = scram-sha-256", "SET auth_type = plain",
            "SET auth_query = 'SELECT other WHERE $1'", "SET query_timeout = 0.2", "SET query_timeout = 0")
SECRET = "secret of %s"


class Oracle:
    """Serves look-ups, now and then badly, and whatever else is asked."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.calm = False

    def __call__(self, session):
        while True:
            got = session.read()
            if got.type == "P":
                self.look_up(session)
            elif got.type == "Q":
                session.answer(session.startup["user"])
            elif got.type == "X":
                raise Closed("told to")

    def look_up(self, session):
        messages = session.read_until("S")
        name = messages[6].body[10:-2].decode()
        right = lookups.found(name, SECRET % name)
        kind = 0 if self.calm else self.draw.randrange(12)
        if kind == 1:
            session.send(lookups.failed(m.error("no")))
        elif kind == 2:
            session.send(right[:self.draw.randrange(len(right))])
            raise Closed("by itself")
        elif kind == 3:
            session.send(lookups.nobody())
        elif kind == 4:
            session.send(lookups.found("somebody else", "x"))
        elif kind == 5:
            session.send(bytes(self.draw.randrange(256) for _ in range(20)))
        elif kind == 6:
            session.dribble(right)
        elif kind == 7:
            # no answer: the connection ends together with the pooler's
            session.read()
        else:
            session.send(right)


class Guest:
    def __init__(self, weir, name, over):
        self.weir, self.name, self.over = weir, name, over
        self.draw = random.Random(name)
        self.came = self.came_in = 0

    def run(self):
        while not self.over.is_set():
            self.came += 1
            user = "user%d" % self.draw.randrange(4)
            knows = self.draw.random() < 0.7
            client = self.weir.connect()
            try:
                client.send(m.startup(user=user, database="p0"))
                if self.draw.random() < 0.7:
                    client.finish_login(user, SECRET % user if knows else "a guess")
                    assert knows, "came in with a guess"
                    self.came_in += 1
                    assert client.query("who").value == user
            except (Closed, LoginRefused, OSError):
                pass
            self.draw.choice((client.close, client.abort))()


def operate(weir, draw, guests, over):
    console = weir.connect()
    console.login(user="admin", database="pgbouncer", password="admin-secret")
    while sum(guest.came for guest in guests) < size(1500):
        command = draw.choice(COMMANDS)
        if command == "PAUSE":
            # it waits for every server: another console lets it go
            console.send(m.query(command))
            helper = weir.connect()
            helper.login(user="admin", database="pgbouncer", password="admin-secret")
            helper.query("RESUME")
            helper.quit()
            console.result()
        else:
            console.query(command)
    for command in "RESUME", "RESUME p0", "SET query_timeout = 0", "SET auth_type = plain", "SET default_pool_size = 5":
        console.query(command)
    over.set()


def test_everything_at_once(scene):
    oracle = Oracle(4)
    weir = scene.weir(scene.fake(serve=oracle), auth_type="plain", auth_user="asker", pool_mode="transaction",
                      default_pool_size=3, server_login_retry=0.1, client_login_timeout=2, query_wait_timeout=2, max_client_conn=500)
    over = threading.Event()
    guests = [Guest(weir, "guest %d" % n, over) for n in range(8)]
    run_in_threads(lambda: operate(weir, random.Random(5), guests, over), *[guest.run for guest in guests])
    assert sum(guest.came_in for guest in guests) > 0, "nobody came in"
    oracle.calm = True
    until(lambda: {row["list"]: row["items"] for row in weir.show("LISTS")}["login_clients"] == 0, "nobody waits")
    weir.wait_pool("p0", "asker", cl_waiting=0, sv_active=0)
    client = weir.connect()
    client.login(user="user0", database="p0", password=SECRET % "user0")
    assert client.query("who").value == "user0"
