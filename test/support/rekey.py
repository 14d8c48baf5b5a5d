"""TLS peers that change their keys again and again, and say nothing else: openssl does that, a letter on its stdin each time."""
import contextlib
import subprocess

MOST = 300


class Rekeying:
    """An openssl s_client or s_server; `answer` is on the line that it prints for each change."""

    def __init__(self, answer, *command):
        self._answer = answer
        # its words as they come
        self._process = subprocess.Popen(["stdbuf", "-oL", "openssl", *command], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait_word(self, word):
        """False: it has ended."""
        for line in self._process.stdout:
            if word in line:
                return True
        return False

    def change_keys(self):
        """Very often, or until it has seen that the other side has ended it."""
        with contextlib.suppress(BrokenPipeError):
            for _ in range(MOST):
                # one command for each read; K wants the other side to change its keys, too
                self._process.stdin.write(b"K\n")
                self._process.stdin.flush()
                if not self.wait_word(self._answer):
                    return

    def end(self):
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def change_keys(weir):
    """An unauthenticated client that requests more key changes than pgweir allows."""
    client = Rekeying(b"KEYUPDATE", "s_client", "-starttls", "postgres", "-connect", "127.0.0.1:%d" % weir.port, "-tls1_3")
    try:
        client.change_keys()
    finally:
        client.end()
