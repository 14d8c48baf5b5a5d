"""
A fake LDAP server: a function of the test determines its answers: right, wrong or none.

reply(operation, number) -> bytes, a list of them to be sent one after another, HANG or CLOSE

operation is "bind", "search", "starttls" or "unbind", number is the ID of the message (RFC 4511, in BER).
"""
import socket
import threading

HANG, CLOSE = "hang", "close"
_OPERATIONS = {0x60: "bind", 0x63: "search", 0x77: "starttls", 0x42: "unbind"}


def _ber(tag, body):
    if len(body) < 128:
        return bytes([tag, len(body)]) + body
    return bytes([tag, 0x82]) + len(body).to_bytes(2, "big") + body


def message(number, tag, body):
    return _ber(0x30, _ber(2, bytes([number])) + _ber(tag, body))


def _result(code, referral=None):
    body = bytes([0x0a, 1, code]) + _ber(4, b"") + _ber(4, b"")
    return body + (_ber(0xa3, _ber(4, referral.encode())) if referral else b"")


def bind_answer(number, code=0, referral=None):
    return message(number, 0x61, _result(code, referral))


def entry(number, dn):
    return message(number, 0x64, _ber(4, dn.encode()) + _ber(0x30, b""))


def reference(number, url):
    return message(number, 0x73, _ber(4, url.encode()))


def search_done(number, code=0, referral=None):
    return message(number, 0x65, _result(code, referral))


def starttls_answer(number, code=0):
    return message(number, 0x78, _result(code))


class FakeLdap:
    def __init__(self, port, reply, host="127.0.0.1"):
        self.asked = []
        self.requests = []              # bodies of the same
        self.connections = 0
        self._reply = reply
        self._sockets = []
        self._stopped = threading.Event()
        self._listener = socket.create_server((host, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            with sock.makefile("rb") as stream:
                while self._answer(sock, stream):
                    pass
        except OSError:
            pass
        sock.close()

    def _answer(self, sock, stream):
        """One request. All that comes here is short enough for these two forms of a length."""
        head = stream.read(2)
        if len(head) < 2:
            return False
        if head[0] != 0x30:
            self.asked.append("no LDAP")        # TLS or another protocol, which this server does not support
            self._stopped.wait()
            return False
        size = head[1] if head[1] < 128 else int.from_bytes(stream.read(head[1] - 128), "big")
        body = stream.read(size)
        operation = _OPERATIONS.get(body[3], "0x%02x" % body[3])
        self.asked.append(operation)
        self.requests.append(body)
        if operation == "unbind":
            return False
        answer = self._reply(operation, body[2])
        if answer == HANG:
            self._stopped.wait()
        if answer in (HANG, CLOSE):
            return False
        for piece in [answer] if isinstance(answer, bytes) else answer:
            sock.sendall(piece)
            if not isinstance(answer, bytes) and self._stopped.wait(0.1):
                return False
        return True

    def stop(self):
        self._stopped.set()
        # accept() in another thread is not woken by close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
