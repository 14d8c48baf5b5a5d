"""
The effect of an attack on other clients: the p99 of 16 clients with queries, and of 4 clients that log in repeatedly, with and without the attack,
alternately. Each attack is a process (attacker.py) at 127.0.0.2; the other clients come from 127.0.0.1. Attackers that are logged in keep PostgreSQL
busy, which shares the processors: without the attack, the same clients are connected to PostgreSQL directly.
"""
import os
import statistics
import subprocess
import sys

from stage import LOAD_CPU, pinned

from support import scram

TURNS = 5
QUERIES = ["-c", "16", "-T", "2", "-w", "0.3"]
LOGINS = ["-C", "-c", "4", "-T", "2", "-w", "0.3"]
WRONG = scram.secret_text(scram.make_secret("never said", iterations=100000))

# p99 of other clients during an attack before a login, in milliseconds: at most FACTOR times the value without it, plus this amount. doc/performance.md
# gives the reason.
FACTOR = 3
MORE_MS = {"queries": 10, "logins": 50}
# Attackers that are logged in to another database, on a real PostgreSQL.
FACTOR_LOGGED_IN = 2
LOGGED_IN = ("notify", "sets", "functions")

RULES = """host all attacker 127.0.0.2/32 %s
host all bench 127.0.0.1/32 scram-sha-256
host all all 127.0.0.2/32 password
"""

# {kind: (its title, settings, method for the user "attacker")}
KINDS = {
    "lookups": ("300 clients of one address, look-ups in a database that hangs", {}, "password"),
    "verifiers": ("300 clients of one address, wrong passwords of which keys are derived", {}, "password"),
    "salts": ("a server that asks for SCRAM with another salt each time", {"server_login_retry": 0}, "trust"),
    "names": ("300 clients of one address, made-up names of databases", {}, "password"),
    "takeover": ("connections to the socket for online restarts", {}, "reject"),
    "notify": ("20,000 notifications at a time for 300 listeners of another database", {}, "trust"),
    "sets": ("8 clients of another database, texts of 120 KB with nothing but SET", {}, "trust"),
    "functions": ("4 clients of another database, each replaces a temporary function in a loop", {}, "trust"),
    "handshakes": ("64 clients of one address, TLS handshakes without a login", {"client_tls_sslmode": "allow"}, "reject"),
}


class Attacker:
    """attacker.py at work, on the CPU of the load."""

    def __init__(self, kind):
        self._kind = kind
        self._command = []
        self._process = None
        self.server_port = 0

    def start(self, port, path):
        command = [sys.executable, os.path.join(os.path.dirname(__file__), "attacker.py"), self._kind, "--port", str(port), "--path", path]
        # pylint: disable-next=consider-using-with
        self._process = subprocess.Popen(pinned(LOAD_CPU, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.server_port = int(self._process.stdout.readline())

    def say(self, command):
        """Says it, and returns the answer."""
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise AssertionError("the attackers have ended")
        return answer

    def stop(self):
        if self._process:
            self._process.kill()
            self._process.communicate()


def settings_of(kind, stage, port, postgres):
    """The pooler's settings, and the lines of its further databases; `postgres`: where a real PostgreSQL is."""
    rules = stage.path(kind + ".hba")
    with open(rules, "w", encoding="ascii") as f:
        f.write(RULES % KINDS[kind][2])
    target = "host=127.0.0.1 port=%d" % port
    logged_in = "attacked = %s pool_mode=transaction pool_size=4 session_state=full" % postgres
    others = {"notify": [logged_in], "sets": [logged_in], "functions": [logged_in], "lookups": ["attacked = " + target], "salts": ["attacked = " + target], "names": ["* = " + target],
              "verifiers": ["attacked = host=127.0.0.1 port=%d" % stage.null.port]}.get(kind, [])
    settings = {
        "auth_type": "hba", "auth_hba_file": rules, "max_client_conn": 400 if kind in LOGGED_IN else 200, "pidfile": stage.path(kind + ".pid"),
        "auth_user": "asker", "auth_query": "SELECT a, b FROM s.t($1)", "auth_dbname": "",
        "client_tls_key_file": stage.authority.key("server"), "client_tls_cert_file": stage.authority.cert("server"),
        **KINDS[kind][1]}
    return settings, others


def measure(stage, server):
    return {"queries": stage.load(server, QUERIES)["p99_us"] / 1000, "logins": stage.load(server, LOGINS)["p99_us"] / 1000}


def compare(stage, server, attacker, direct):
    """
    {measurement: (p99 without, p99 with the attack)} in milliseconds, medians of the turns; and connections of attackers a second. direct: None, or
    attackers that are at work without pgweir while `attacker` is not.
    """
    figures = {who: ([], []) for who in MORE_MS}
    connections = []
    for _ in range(TURNS):
        for with_attack, at_work in enumerate((direct, attacker)):
            if at_work:
                at_work.say("on")
            found = measure(stage, server)
            if at_work:
                count = int(at_work.say("off")[1])
                connections += [count] if with_attack else []
            for who, p99 in found.items():
                figures[who][with_attack].append(p99)
    return {who: tuple(map(statistics.median, both)) for who, both in figures.items()}, statistics.median(connections)


def bound(kind, who, alone):
    return FACTOR_LOGGED_IN * alone if kind in LOGGED_IN else FACTOR * alone + MORE_MS[who]
