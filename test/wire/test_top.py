"""pgweir top: the console's rows in a terminal (a real pty), and as plain text."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from support import messages as m
from support.until import DEADLINE


def once(weir, *arguments, target=None, status=0, **environment):
    done = subprocess.run([weir.command()[0], "top", "--once", *arguments, target or weir.ini_path], capture_output=True, text=True,
                          timeout=DEADLINE, check=False, env=dict(os.environ, **environment))
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


class Terminal:
    """pgweir top in a pty of this size; `text` is all that was written since the last forget()."""

    def __init__(self, weir, *arguments, rows=24, columns=100, **environment):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(weir.command()[0], ["pgweir", "top", "--interval=0.1", *arguments, weir.ini_path],
                      {**os.environ, "TERM": "xterm", **environment})
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def forget(self):
        self.text = ""

    def wait(self, pattern):
        end = time.monotonic() + DEADLINE
        while not re.search(pattern, self.text, re.DOTALL):
            assert time.monotonic() < end, self.text
            if select.select([self.fd], [], [], 1)[0]:
                self.text += os.read(self.fd, 65536).decode()

    def press(self, key):
        os.write(self.fd, key.encode())

    def drain(self):
        """Reads until the program has closed the terminal, and returns its exit status."""
        while True:
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                break
            if not got:
                break
            self.text += got.decode()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


def crowded(scene, **settings):
    """Two pools: p1 has a waiting client, p0 has none."""
    mini = scene.mini()
    weir = scene.weir({"p0": mini, "p1": mini}, pool_mode="transaction", default_pool_size=1, show_extra_columns=1, **settings)
    clients = [weir.client(), weir.client(database="p1"), weir.client(database="p1")]
    clients[0].query("one")
    clients[1].query("BEGIN")
    clients[2].send(m.query("one"))
    weir.wait_pool("p1", cl_waiting=1)
    return weir, clients


def many_pools(scene, count):
    mini = scene.mini()
    weir = scene.weir({"d%d" % i: mini for i in range(count)}, pool_mode="transaction")
    return weir, [weir.client(database="d%d" % i) for i in range(count)]


def table(text):
    lines = text.splitlines()
    return [line.split() for line in lines[next(i for i, line in enumerate(lines) if line.startswith("DATABASE")) + 1:]]


def test_one_screen_of_plain_text(scene):
    weir, _ = crowded(scene)
    text = once(weir)
    assert "\x1b" not in text
    assert "1 waiting" in text and re.search(r"[\d.]+ queries/s of [\d.]+ ms", text) and "ended since the start: " in text
    rows = table(text)
    assert "pgbouncer" not in [row[0] for row in rows]
    assert [row[0] for row in rows if row[0] in ("p0", "p1")] == ["p1", "p0"]
    assert rows[0][:5] == ["p1", "app", "transaction", "1", "1"] and rows[0][-1] == "pool_size"
    assert rows == sorted(rows, key=lambda row: -float(row[4]))
    names = [row[0] for row in table(once(weir, "--sort=name"))]
    assert names == ["p0", "p1"]


def test_more_pools_than_rows_are_all_in_plain_text(scene):
    weir, _ = many_pools(scene, 60)
    assert len([row for row in table(once(weir)) if re.fullmatch(r"d\d+", row[0])]) >= 60


@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_connection_strings(scene, auth_type):
    weir = scene.weir(scene.mini(), auth_type=auth_type)
    secret = weir.users["admin"]
    for target in ("host=127.0.0.1 port=%d user=admin password='%s' dbname=pgbouncer" % (weir.port, secret),
                   "postgresql://admin:%s@127.0.0.1:%d/pgbouncer?application_name=x" % (secret, weir.port),
                   "postgres://admin@localhost:%d?password=%s" % (weir.port, secret)):
        assert "DATABASE" in once(weir, target=target)
    assert "DATABASE" in once(weir, target="host=127.0.0.1", PGPORT=str(weir.port), PGUSER="admin", PGPASSWORD=secret)
    assert "password authentication failed" in once(weir, target="postgres://admin:no@127.0.0.1:%d" % weir.port, status=1) or \
           auth_type == "scram-sha-256"
    assert "does not use TLS" in once(weir, target="host=127.0.0.1 sslmode=require", status=1)


def test_errors(scene):
    weir = scene.weir(scene.mini())
    assert "cannot connect to 127.0.0.1, port 1: " in once(weir, target="host=127.0.0.1 port=1", status=1)
    assert "no-such-file" in once(weir, target="/no-such-file.ini", status=1)
    assert "key=value" in once(weir, target="host=x port", status=1)
    for wrong in ("--sort=x", "--interval=0", "--interval=x", "--nothing"):
        assert "Usage:" in once(weir, wrong, status=2)


def test_answers_of_another_program_are_refused(scene):
    """Not of the protocol, too long, malformed."""
    for raw in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"R\xff\xff\xff\xff", b"R\0\0\0\1", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\5IT\0\0\0\6\0\1Z\0\0\0\5I",
                b"R\0\0\0\x08\0\0\0\0Z\0\0\0\5ID\0\0\0\6\0\1Z\0\0\0\5I"):
        def answer(session, raw=raw):
            session.send(raw)
            session.close()

        fake = scene.fake(login=answer)
        weir = scene.weir(fake)
        assert once(weir, target="host=127.0.0.1 port=%d" % fake.port, status=1).startswith("pgweir top: ")


def test_the_live_view(scene):
    weir, clients = crowded(scene)
    top = Terminal(weir, columns=160)
    top.wait(r"p1 +app +transaction +1 +1 .* pool_size.*sorted by waiting")
    # the waiting pool is coloured; rates follow in the second round
    assert "\x1b[1;31mp1" in top.text and top.text.startswith("\x1b[?1049h")
    top.wait(r"ended: ")
    for key, words in (("s", "servers"), ("r", "queries/s"), ("n", "name"), ("w", "waiting")):
        top.forget()
        top.press(key)
        top.wait("sorted by " + words)
    top.forget()
    top.press("p")
    top.wait("PAUSED")
    top.press("p")
    clients[1].query("COMMIT")
    clients[2].result()
    top.forget()
    top.wait(r"p1 +app +transaction +2 +0 ")
    top.press("q")
    assert top.drain() == 0 and top.text.endswith("\x1b[?1049l")


def test_the_size_of_the_terminal(scene):
    weir, _ = many_pools(scene, 30)
    top = Terminal(weir, rows=12, columns=40)
    top.wait(r"\.\.\. and \d+ more pools")
    top.forget()
    top.resize(60, 200)
    top.wait(r"MODE.*LOGIN.*q quit")
    top.resize(24, 80)
    top.forget()
    top.wait(r"DATABASE +USER +CLIENTS +WAITING +MAXWAIT +ACTIVE +IDLE +QUERIES/S")
    top.resize(10, 30)
    top.forget()
    top.wait(r"\x1b\[H.*\x1b\[H")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", top.text.split("\x1b[H")[1])
    assert max(map(len, shown.splitlines())) <= 30
    # the title does not scroll away
    assert top.text.split("\x1b[H")[1].count("\n") < 10
    os.kill(top.pid, signal.SIGTERM)
    assert top.drain() == 0


def test_no_colour(scene):
    weir, _ = crowded(scene)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        top = Terminal(weir, **environment)
        top.wait(r"p1 +app")
        top.press("q")
        assert top.drain() == 0
        assert not re.search(r"\x1b\[[0-9;]*m", top.text)


def test_a_restart_of_pgweir(scene):
    """The view says that there is no connection, and comes back."""
    weir = scene.weir(scene.mini())
    top = Terminal(weir)
    top.wait("clients: ")
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    top.wait("NO CONNECTION")
    weir.start()
    top.forget()
    top.wait("clients: ")
    top.press("q")
    assert top.drain() == 0


def test_hostile_names_send_nothing_to_the_terminal(scene):
    name = b"\x1b]0;owned\x07\x9b\xe2\x80\xae"
    weir = scene.weir({"*": "host=127.0.0.1 port=1"}, auth_type="any")
    client = weir.connect()
    client.send(m.startup_raw(b"\0\3\0\0user\0" + name + b"\0database\0" + name + b"\0\0"))
    weir.wait_log("login attempt")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", once(weir))


def test_a_command_of_the_console_is_sent_and_its_rows_are_printed(scene):
    weir = scene.weir(scene.mini())
    lines = once(weir, "--command=SHOW DATABASES").splitlines()
    assert lines[0].startswith("name|host|port|database|")
    assert [line.split("|")[0] for line in lines[1:]] == [row["name"] for row in weir.show("DATABASES")]
    assert once(weir, "--command=PAUSE p0") == ""
    assert [row["paused"] for row in weir.show("DATABASES") if row["name"] == "p0"] == [1]
    assert once(weir, "--command=PAUSE nothing", status=1).startswith("pgweir top: no such database")


def test_drain_and_sigterm_end_the_process_with_its_last_client(scene):
    """The hook of the Helm chart: DRAIN by pgweir top, then SIGTERM. A client in a transaction ends after its COMMIT."""
    server = scene.mini()
    weir = scene.weir(server, pool_mode="transaction")
    idle, busy = weir.client(), weir.client()
    busy.query("BEGIN")
    once(weir, "--command=DRAIN OVER 1 SECONDS")
    weir.signal(signal.SIGTERM)
    assert m.read_error(idle.expect("E").body)["C"] == "57P01"
    busy.query("COMMIT")
    assert m.read_error(busy.expect("E").body)["C"] == "57P01"
    assert weir.wait_exit() == 0
