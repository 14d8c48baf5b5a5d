"""
The options of TCP connections, read from pgweir's own sockets: pidfd_getfd(2) copies another process's descriptor, and the kernel reports its
options.
"""
import contextlib
import ctypes
import os
import socket

import pytest

from support.live import pid_of

PIDFD_GETFD = 438       # the number of the system call, which is the same on all machines
OPTIONS = {
    "tcp_keepidle": (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 777),
    "tcp_keepintvl": (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 33),
    "tcp_keepcnt": (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 7),
    "tcp_user_timeout": (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 12345),
    "tcp_keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
}
libc = ctypes.CDLL(None, use_errno=True)


def copies(pid):
    """Copies of the process's sockets of TCP."""
    process = os.pidfd_open(pid)
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                is_socket = os.readlink("/proc/%d/fd/%s" % (pid, name)).startswith("socket:")
            except FileNotFoundError:
                continue
            if not is_socket:
                continue
            number = libc.syscall(PIDFD_GETFD, process, int(name), 0)
            assert number >= 0, os.strerror(ctypes.get_errno())
            copy = socket.socket(fileno=number)
            if copy.family == socket.AF_INET:
                yield copy
            else:
                copy.close()
    finally:
        os.close(process)


def peer(sock):
    with contextlib.suppress(OSError):
        return sock.getpeername()
    return None


def options_of(weir, address, level, option):
    """The value on pgweir's socket with this address at its other end."""
    found = []
    for copy in copies(weir.pid):
        with copy:
            if peer(copy) == address:
                found.append(copy.getsockopt(level, option))
    assert len(found) == 1, found
    return found[0]


def both_ends(weir, postgres):
    """Addresses of a client and of the server that it uses."""
    client = weir.client()
    pid_of(client)
    return client.sock.getsockname(), (postgres.host, postgres.port)


@pytest.mark.parametrize("name", OPTIONS)
def test_option_is_set(scene, postgres, name):
    level, option, value = OPTIONS[name]
    weir = scene.weir({"p0": postgres}, **{name: value})
    for address in both_ends(weir, postgres):
        assert options_of(weir, address, level, option) == value


@pytest.mark.parametrize("name", OPTIONS)
def test_option_0_is_the_system_default(scene, postgres, name):
    level, option, _ = OPTIONS[name]
    weir = scene.weir({"p0": postgres}, **{name: 0})
    with socket.socket() as fresh:
        usual = fresh.getsockopt(level, option)
    for address in both_ends(weir, postgres):
        assert options_of(weir, address, level, option) == usual


def test_option_set_at_run_time_applies_to_new_connections(scene, postgres):
    level, option, value = OPTIONS["tcp_keepidle"]
    weir = scene.weir({"p0": postgres})
    before, _ = both_ends(weir, postgres)
    weir.admin("SET tcp_keepidle = %d" % value)
    assert options_of(weir, before, level, option) != value
    after, _ = both_ends(weir, postgres)
    assert options_of(weir, after, level, option) == value
    weir.admin("RELOAD")                # the file says nothing of it
    again, _ = both_ends(weir, postgres)
    assert options_of(weir, again, level, option) != value


@pytest.mark.parametrize("option", [socket.SO_RCVBUF, socket.SO_SNDBUF])
def test_tcp_socket_buffer(scene, postgres, option):
    """Linux doubles the number, to have room for its own."""
    weir = scene.weir({"p0": postgres}, tcp_socket_buffer=20000)
    for address in both_ends(weir, postgres):
        assert options_of(weir, address, socket.SOL_SOCKET, option) == 40000
