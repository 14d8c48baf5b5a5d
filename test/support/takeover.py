"""
pgweir that is replaced by another process of it while it runs, and the handover between the two, played by the test.

    Replaced    starts its own successors; every process that was replaced has to end in good order, too
    Channel     one end of the conversation: records with descriptors over a Unix socket (src/net/records.c)
"""
import array
import os
import re
import signal
import socket
import struct

from .pgweir import Pgweir
from .until import DEADLINE, until

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include/handover/handover.h")
with open(HEADER, encoding="utf-8") as lines:
    VERSION = int(re.search(r"#define HANDOVER_VERSION (\d+)", lines.read())[1])       # of the handover
HELLO, REFUSAL, TAKE, PIDFILE, END, READY, GO = "H", "R", "t", "F", "Z", "r", "G"


class Replaced(Pgweir):
    """predecessors: the processes that were replaced, oldest first."""

    def __init__(self, directory, databases=None, **settings):
        self.predecessors = []
        settings.setdefault("pidfile", os.path.join(str(directory), "pgweir.pid"))
        if settings["pidfile"] == "":
            del settings["pidfile"]
        super().__init__(directory, databases, **settings)

    def console(self, user="admin", database="pgbouncer", **more):
        """Under TLS it would stay with the process that was replaced."""
        return super().console(user, database, **{"sslmode": "disable", **more})

    def launch(self, *arguments):
        """A new process with -R. It may take over or not."""
        old, before = self.process, self._arguments
        self._arguments = ["-R", *arguments]
        self.start(wait=False)
        self._arguments = before
        new, self.process = self.process, old
        return new

    def replace(self):
        """A new process takes over; returns the old one when both have said so."""
        old, new = self.process, self.launch()
        until(lambda: self._said(new, "took over from process %d" % old.pid), "process %d takes over" % new.pid)
        until(lambda: self._said(old, "process %d has taken over" % new.pid), "process %d lets go" % old.pid)
        self.predecessors.append(old)
        self.process = new
        return old

    def _said(self, process, text):
        if process.poll() is not None and not self.log_of(process):
            raise AssertionError("status %s: %s" % (process.returncode, self.stderr()[-3000:]))
        return text in self.log_of(process)

    def log_of(self, process):
        return "\n".join(line for line in self.log().splitlines() if "[%d]" % process.pid in line)

    def fails(self, *arguments):
        """An online restart that fails: returns the last log lines of the new process."""
        new = self.launch(*arguments)
        assert new.wait(DEADLINE) == 1
        return self.log_of(new)

    def address(self):
        """Where the running process is asked."""
        file = self._file()
        return "\0pgweir-takeover/" + file[1:] if file.startswith("@") else file + ".takeover"

    def _file(self):
        return self.settings.get("pidfile") or "%s/.s.PGSQL.%d" % (self.settings["unix_socket_dir"], self.port)

    def address_of_earlier_version(self):
        """Where a process of an earlier version is asked."""
        file = os.stat(self._file())
        return "\0pgweir-takeover/file-%x-%x" % (file.st_dev, file.st_ino)

    def connect_channel(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(DEADLINE)
        sock.connect(self.address())
        return Channel(sock)

    def ask(self):
        """A played successor that has been greeted."""
        channel = self.connect_channel()
        channel.greet()
        return channel

    def stop(self):
        """Ends all processes, the newest first."""
        super().stop()
        for predecessor in self.predecessors:
            if predecessor.poll() is None:
                predecessor.send_signal(signal.SIGQUIT)
            assert predecessor.wait(DEADLINE) == 0, "a replaced process ended with %s" % predecessor.returncode
        self.check(self.expected_status)

    def counts(self):
        """(clients, servers, listening sockets, clients that stayed) of the last takeover."""
        found = re.findall(r"took over from process \d+: (\d+) clients, (\d+) servers, (\d+) listening sockets; (\d+)", self.log())
        return tuple(int(number) for number in found[-1])


def listen_at(address):
    """A listening socket in the place of the old process."""
    if not address.startswith("\0") and os.path.exists(address):
        os.unlink(address)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    listener.settimeout(DEADLINE)
    return listener


def text(value):
    data = value.encode() + b"\0"
    return struct.pack("!I", len(data)) + data


def hello(version=VERSION, name="pgweir", program="9.9.9"):
    return text(name) + struct.pack("!I", version) + text(program)


class Record:
    def __init__(self, kind, body, fd):
        self.kind, self.body, self.fd = kind, body, fd

    @property
    def text(self):
        (size,) = struct.unpack_from("!I", self.body)
        assert size == len(self.body) - 4 and self.body.endswith(b"\0")
        return self.body[4:-1].decode()


class Channel:
    """One end. Descriptors that came are closed with it."""

    def __init__(self, sock):
        self.sock = sock
        self.descriptors = []

    def send(self, kind, body=b"", fd=None):
        ancillary = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        data = struct.pack("!cBHI", kind.encode(), fd is not None, 0, len(body)) + body
        sent = self.sock.sendmsg([data], ancillary)
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def _bytes(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def read(self):
        head, ancillary, _, _ = self.sock.recvmsg(8, socket.CMSG_SPACE(4))
        if not head:
            raise EOFError
        fds = array.array("i")
        for _, _, data in ancillary:
            fds.frombytes(data)
        self.descriptors += fds
        if len(head) < 8:
            head += self._bytes(8 - len(head))
        kind, has_fd, _, size = struct.unpack("!cBHI", head)
        assert has_fd == len(fds)
        return Record(kind.decode(), self._bytes(size), fds[0] if fds else None)

    def greet(self, body=None):
        record = self.read()
        assert record.kind == HELLO, record.text
        self.send(HELLO, body or hello())
        return record

    def take(self):
        """Everything up to END."""
        self.send(TAKE)
        records = [self.read()]
        while records[-1].kind not in (END, REFUSAL):
            records.append(self.read())
        return records

    def ready(self):
        self.send(READY, b"\1")

    def is_closed(self):
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def close(self):
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
