"""
Another user of the same machine, for tests of operations that such a user can try.

run.sh, as root, runs this file as a process of that user, and names its Unix socket in $PGWEIR_NEIGHBOUR. A test requests one operation at a time,
over its own connection; effects of the operation last until that connection ends.

    with neighbour.begins("lock", path) as done:
        assert done == ["flock", "fcntl"]
"""
import contextlib
import fcntl
import json
import os
import socket
import sys
import threading


def _address(name):
    """JSON has no NUL at the front of an abstract name: '@' stands for it."""
    return "\0" + name[1:] if name.startswith("@") else name


class Acts:
    """The operations. Each returns its result, and objects that are closed at the end."""

    @staticmethod
    def who():
        return os.getuid(), []

    @staticmethod
    def open(path, flags):
        try:
            return "opened", [os.fdopen(os.open(path, flags), closefd=True)]
        except OSError as why:
            return why.strerror, []

    @staticmethod
    def lock(path):
        """All kinds of locks that a reader can take, each over a descriptor of its own."""
        done, files = [], [open(path, encoding="ascii") for _ in range(2)]     # pylint: disable=consider-using-with
        for name, function, file in (("flock", lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB), files[0]),
                                     ("fcntl", lambda f: fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB), files[1])):
            with contextlib.suppress(OSError):
                function(file)
                done.append(name)
        return done, files

    @staticmethod
    def connect(name):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(_address(name))
            return "connected", [sock]
        except OSError as why:
            return why.strerror, [sock]

    @staticmethod
    def hold(name, count):
        """Holds this many silent connections."""
        held = []
        for _ in range(count):
            said, socks = Acts.connect(name)
            held += socks
            if said != "connected":
                return said, held
        return "connected", held

    @staticmethod
    def bind(name):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.bind(_address(name))
            sock.listen()
            return "bound", [sock]
        except OSError as why:
            return why.strerror, [sock]

    @staticmethod
    def flood(name):
        """Connects again and again, hundreds of connections at a time."""
        flood = Flood(_address(name))
        flood.begun.wait()
        return "begun", [flood]


class Flood(threading.Thread):
    def __init__(self, address):
        super().__init__(daemon=True)
        self._address = address
        self._over = threading.Event()
        self.begun = threading.Event()
        self.start()

    def run(self):
        held = []
        while not self._over.is_set():
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.connect(self._address)
            held.append(sock)
            if len(held) == 300:
                self.begun.set()
                for old in held:
                    old.close()
                held = []
        for old in held:
            old.close()

    def close(self):
        self._over.set()
        self.join()


def _serve(connection):
    with connection, connection.makefile("r", encoding="utf-8") as lines:
        act, arguments = json.loads(next(lines))
        said, things = getattr(Acts, act)(*arguments)
        connection.sendall((json.dumps(said) + "\n").encode())
        for _ in lines:
            pass
        for thing in things:
            thing.close()
        connection.sendall(b"\n")


def serve(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


class Neighbour:
    """How a test speaks to it."""

    def __init__(self, path):
        self._path = path

    @contextlib.contextmanager
    def begins(self, act, *arguments):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(30)
            sock.connect(self._path)
            sock.sendall((json.dumps((act, arguments)) + "\n").encode())
            with sock.makefile("r", encoding="utf-8") as lines:
                yield json.loads(next(lines))
                sock.shutdown(socket.SHUT_WR)
                next(lines)

    def does(self, act, *arguments):
        with self.begins(act, *arguments) as said:
            return said


if __name__ == "__main__":
    serve(sys.argv[1])
