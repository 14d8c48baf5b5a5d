"""A syslog daemon, played by the test, and a pgweir that takes its socket for /dev/log."""
import os
import re
import socket
import subprocess

from .pgweir import Pgweir

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard", "syslog_elsewhere.c")
LOG_WARNING, LOG_INFO = 4, 6


class Daemon:
    """A syslog daemon that reads only on request. Its stream has a large buffer, its datagram queue is short."""

    def __init__(self, path, kind=socket.SOCK_STREAM):
        self.path = path
        self.raw = []       # the bytes read so far
        self._connections = []
        self._socket = socket.socket(socket.AF_UNIX, kind)
        self._socket.bind(path)
        self._socket.setblocking(False)
        if kind == socket.SOCK_STREAM:
            self._socket.listen(64)
        else:
            self._connections.append(self._socket)

    def close(self):
        for one in self._connections + [self._socket]:
            one.close()

    def gone(self):
        self.close()
        os.unlink(self.path)

    def _accept(self):
        while self._socket not in self._connections:
            try:
                self._connections.append(self._socket.accept()[0])
                self._connections[-1].setblocking(False)
            except BlockingIOError:
                return

    @staticmethod
    def _read(one):
        data = b""
        while True:
            try:
                piece = one.recv(1 << 16)
            except BlockingIOError:
                return data
            if not piece:
                return data
            # a line's end is a NUL, or the datagram's
            data += piece if one.type == socket.SOCK_STREAM else piece + b"\0"

    def lines(self):
        """All that has ever come, as (facility, priority, ident, pid, text)."""
        self._accept()
        for one in self._connections:
            data = self._read(one)
            assert not data or data.endswith(b"\0"), data
            self.raw += data.decode().split("\0")[:-1]
        heads = [re.fullmatch(r"<(\d+)>[A-Z][a-z]{2} [ 1-3]\d \d\d:\d\d:\d\d (.*?)\[(\d+)\]: (.*)", line) for line in self.raw]
        return [(int(head[1]) >> 3, int(head[1]) & 7, head[2], int(head[3]), head[4]) for head in heads]

    def texts(self):
        return [line[-1] for line in self.lines()]


class Listened(Pgweir):
    """Its syslog messages go to a Daemon: its attribute `syslog`."""

    syslog = None
    kind = socket.SOCK_STREAM

    def with_syslog_socket(self, command):
        """The command, with our socket in the place of /dev/log."""
        library = self.path("syslog.so")
        if not os.path.exists(library):
            subprocess.run([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", library, SOURCE],
                           check=True)
        if not self.syslog:
            self.syslog = Daemon(self.path("syslog"), self.kind)
        # a sanitizer wants to be loaded first, but works as well after the library
        sanitizer = "verify_asan_link_order=0:detect_leaks=1:exitcode=99:log_path=" + self.path("sanitizer")
        return ["env", "LD_PRELOAD=" + library, "SYSLOG_SOCKET=" + self.syslog.path,
                "ASAN_OPTIONS=" + sanitizer] + command

    def command(self):
        return self.with_syslog_socket(super().command())

    def stop(self):
        try:
            super().stop()
        finally:
            self.syslog.close()
