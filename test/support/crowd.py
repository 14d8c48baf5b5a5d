"""A crowd of clients at work, against a server that answers on its own (mini.py)."""
import threading

from . import messages as m
from .until import until


class Crowd:
    """Clients that ask and check; in transactions, pipelines, large results and COPY, so that SUSPEND finds all of it."""

    def __init__(self, weir, count):
        self.over = threading.Event()
        self.works = [lambda n=n: self._work(weir, n) for n in range(count)]
        self.answers = 0

    def _work(self, weir, n):
        client = weir.client()
        turn = 0
        while not self.over.is_set():
            turn += 1
            text = "client %d turn %d" % (n, turn)
            if n % 4 == 0:
                client.send(m.query("BEGIN"), m.query(text), m.query("COMMIT"))
                assert client.result().status == "T"
                assert client.result().value == text
                assert client.result().status == "I"
            elif n % 4 == 1:
                client.send(*(m.run("%s %d" % (text, k)) + m.sync() for k in range(10)))
                for k in range(10):
                    assert client.result().value == "%s %d" % (text, k)
            elif n % 4 == 2:
                assert len(client.query("rows 20 50000").rows) == 20
            else:
                client.send(m.query("copyin"))
                client.expect("G")
                client.send(m.copy_data(b"x" * 10000), m.copy_data(b"y\n"), m.copy_done())
                assert client.result().tags == ["COPY 2"]
            self.answers += 1
        client.quit()

    def wait_for_more(self):
        goal = self.answers + 20
        until(lambda: self.answers >= goal, "answers come")
