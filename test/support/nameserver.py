"""
Name servers on their own port, which resolv_conf can name.

NameServer is a fake: it answers from a table, or answers each query as the scene wants, including false answers, and records the queries. Dnsmasq is
a real name server.
"""
import ipaddress
import os
import socket
import struct
import subprocess
import threading

from .ports import free_port
from .until import DEADLINE, until

TYPES = {"A": 1, "CNAME": 5, "SOA": 6, "AAAA": 28}
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


def encode_name(name):
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def record(name, kind, ttl, data):
    """One record of an answer. data: an address, a name (CNAME), a serial (SOA), or the bytes themselves."""
    if kind in ("A", "AAAA") and isinstance(data, str):
        data = ipaddress.ip_address(data).packed
    elif kind == "CNAME" and isinstance(data, str):
        data = encode_name(data)
    elif kind == "SOA":
        data = b"\0\0" + struct.pack("!5I", data, 60, 60, 60, 60)
    return encode_name(name) + struct.pack("!HHIH", TYPES[kind], 1, ttl, len(data)) + data


class Question:
    """A query, and the packets that may answer it."""

    def __init__(self, packet, over_tcp):
        self.id = packet[:2]
        self.over_tcp = over_tcp
        labels, at = [], 12
        while packet[at]:
            labels.append(packet[at + 1:at + 1 + packet[at]].decode())
            at += packet[at] + 1
        (kind,) = struct.unpack_from("!H", packet, at + 1)
        self.name = ".".join(labels).lower()
        self.kind = {number: name for name, number in TYPES.items()}.get(kind, str(kind))
        self.section = packet[12:at + 5]

    def reply(self, *records, rcode=NOERROR, number=None, section=None, truncated=False):
        flags = 0x8580 | (0x0200 if truncated else 0) | rcode
        return ((number or self.id) + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) +
                (section or self.section) + b"".join(records))


class NameServer:
    """
    set(name, a=[...], aaaa=[...], ttl=, rcode=, soa=): the records of a name; a missing name is NXDOMAIN
    play: a function of the scene: gets a Question, returns the packets to send (none: silence)
    asked: (name, type) of all queries
    """

    def __init__(self, port=None):
        self.port = port or free_port()
        self.names = {}
        self.play = self.answer
        self.asked = []
        self.faults = []
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        self._tcp = socket.create_server(("127.0.0.1", self.port))
        self._threads = [threading.Thread(target=self._run, args=(loop,)) for loop in (self._serve_udp, self._serve_tcp)]
        for thread in self._threads:
            thread.start()

    def set(self, name, a=(), aaaa=(), ttl=60, rcode=NOERROR, soa=None):
        self.names[name] = {"A": a, "AAAA": aaaa, "SOA": [soa] if soa is not None else (), "ttl": ttl, "rcode": rcode}

    def count(self, kind, name=None):
        return sum(1 for asked, what in list(self.asked) if what == kind and name in (None, asked))

    def wait_asked(self, kind, name=None, times=1):
        until(lambda: self.count(kind, name) >= times, "%d questions for %s of %s" % (times, kind, name))

    def answer(self, question):
        """The honest answer."""
        known = self.names.get(question.name)
        if not known or known["rcode"] != NOERROR:
            return [question.reply(rcode=known["rcode"] if known else NXDOMAIN)]
        records = [record(question.name, question.kind, known["ttl"], data) for data in known.get(question.kind, ())]
        return [question.reply(*records)]

    def silent(self, _):
        return []

    def stop(self):
        wake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wake.sendto(b"", ("127.0.0.1", self.port))
        wake.close()
        self._tcp.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE)
        self._udp.close()
        self._tcp.close()
        assert not self.faults, self.faults

    # --- inside

    def _run(self, loop):
        try:
            loop()
        except Exception as fault:      # pylint: disable=broad-except
            self.faults.append(fault)

    def _play(self, packet, over_tcp):
        question = Question(packet, over_tcp)
        self.asked.append((question.name, question.kind))
        return self.play(question)

    def _serve_udp(self):
        while True:
            packet, asker = self._udp.recvfrom(4096)
            if not packet:
                return
            for reply in self._play(packet, False):
                self._udp.sendto(reply, asker)

    def _serve_tcp(self):
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(DEADLINE)
                head = connection.recv(2, socket.MSG_WAITALL)
                packet = connection.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL) if len(head) == 2 else b""
                for reply in self._play(packet, True) if packet else []:
                    connection.sendall(struct.pack("!H", len(reply)) + reply)


def write_resolv_conf(directory, *servers):
    """A file for resolv_conf; where it is."""
    path = os.path.join(str(directory), "resolv.conf")
    with open(path, "w", encoding="ascii") as f:
        f.writelines("nameserver 127.0.0.1:%d\n" % server.port for server in servers)
    return path


class Dnsmasq:
    """
    The real name server, with authority over a zone.

    names    {name: [addresses]}; set() gives others, with a serial that counts up as a zone's does
    """

    def __init__(self, directory, zone, names, ttl=0):
        self.directory = str(directory)
        self.port = free_port()
        self.zone = zone
        self.ttl = ttl
        self.serial = 2026112100
        self.names = dict(names)
        self.process = None
        self.start()

    def set(self, **names):
        """Other addresses: set(db=[...]) for db.ZONE. The serial number of the zone grows."""
        self.stop()
        self.names.update(names)
        self.serial += 1
        self.start()

    def start(self):
        config = os.path.join(self.directory, "dnsmasq.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write("port=%d\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\npid-file=\n" % self.port)
            f.write("auth-server=ns.%s,127.0.0.1\nauth-zone=%s\nauth-soa=%d\nauth-ttl=%d\n"
                    % (self.zone, self.zone, self.serial, self.ttl))
            f.write("".join("host-record=%s.%s,%s,%d\n" % (name, self.zone, address, self.ttl)
                            for name, addresses in self.names.items() for address in addresses))
            f.write("user=\nlog-facility=-\n")
        with open(os.path.join(self.directory, "dnsmasq.log"), "ab") as log:
            self.process = subprocess.Popen(["/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=" + config],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._answers, "dnsmasq answers")

    def _answers(self):
        assert self.process.poll() is None, "dnsmasq ended: " + self.log()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", self.port))
            probe.settimeout(0.5)
            try:
                probe.send(b"\0\1\1\0\0\1\0\0\0\0\0\0" + encode_name(self.zone) + b"\0\6\0\1")
                return probe.recv(512)
            except OSError:
                return False

    def log(self):
        with open(os.path.join(self.directory, "dnsmasq.log"), encoding="utf-8") as f:
            return f.read()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE)
