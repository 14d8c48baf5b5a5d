"""
RELOAD changes TLS settings during handshakes. A handshake in progress keeps its settings, the next one uses the new settings, and no connection is
lost.
"""
import shutil
import ssl
import threading

import pytest

from support import messages as m
from support.rounds import rounds
from support.threads import run_in_threads
from support.until import DEADLINE, until
from support.wire import Closed, LoginRefused


class SlowHandshake:
    """TLS for a scripted client, as far as the scene wants. From the first message on it serves as the client's socket."""

    def __init__(self, client, context):
        client.send(m.SSL_REQUEST)
        assert client.read_bytes(1) == b"S"
        self._socket, client.sock = client.sock, self
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._step()
        self.hello = self._out.read()

    def _step(self):
        try:
            self._tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def send(self, part):
        self._socket.sendall(part)

    def finish(self):
        """All that follows the hello. The certificate that was shown, as in a file."""
        while not self._step():
            self.send(self._out.read())
            self._in.write(self._socket.recv(65536))
        self.send(self._out.read())
        return self._tls.getpeercert(True)

    # --- as a socket

    def sendall(self, data):
        self._tls.write(data)
        self.send(self._out.read())

    def recv(self, size):
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                data = self._socket.recv(65536)
                if not data:
                    return b""
                self._in.write(data)

    def close(self):
        self._socket.close()


@pytest.fixture(scope="module")
def certificates(authority):
    """Names of two certificates for the same host."""
    authority.issue("later", "localhost", names="DNS:localhost,IP:127.0.0.1")
    return "server", "later"


def der(authority, name):
    with open(authority.cert(name), encoding="ascii") as f:
        return ssl.PEM_cert_to_DER_cert(f.read())


class Files:
    """Certificate and key under names of their own, so that their contents can change."""

    def __init__(self, directory, authority):
        self.authority = authority
        self.cert, self.key = directory + "/changing.crt", directory + "/changing.key"

    def become(self, name):
        shutil.copy(self.authority.cert(name), self.cert)
        shutil.copy(self.authority.key(name), self.key)


def transactions(scene, fake, files, **settings):
    return scene.weir(fake, pool_mode="transaction", default_pool_size=2, server_login_retry=0,
                      client_tls_cert_file=files.cert, client_tls_key_file=files.key,
                      **dict({"client_tls_sslmode": "require", "server_tls_sslmode": "disable"}, **settings))


def reload(weir, **settings):
    weir.settings.update(settings)
    weir.write_ini()
    weir.admin("RELOAD")


@pytest.mark.parametrize("change", ["certificate", "protocols", "verify-ca", "disable"])
@pytest.mark.parametrize("point", ["before the hello", "in the hello", "behind the hello"])
def test_client_handshake_survives_a_reload(scene, directory, authority, certificates, point, change):
    first, second = certificates
    files = Files(directory, authority)
    files.become(first)
    weir = transactions(scene, scene.mini(), files)
    early = weir.connect()
    handshake = SlowHandshake(early, authority.client_context())
    cut = {"before the hello": 0, "in the hello": 100, "behind the hello": len(handshake.hello)}[point]
    handshake.send(handshake.hello[:cut])
    weir.barrier()
    if change == "certificate":
        files.become(second)
        reload(weir)
    elif change == "protocols":
        reload(weir, client_tls_protocols="tlsv1.2")
    elif change == "verify-ca":
        reload(weir, client_tls_sslmode=change, client_tls_ca_file=authority.cert("ca"))
    else:
        reload(weir, client_tls_sslmode=change)
    handshake.send(handshake.hello[cut:])
    assert handshake.finish() == der(authority, first)
    early.login(user="app", database="p0")
    assert early.query("began before").value == "began before"

    late = weir.connect()
    if change == "disable":
        late.send(m.SSL_REQUEST)
        assert late.read_bytes(1) == b"N"
    elif change == "verify-ca":
        with pytest.raises((LoginRefused, Closed, OSError)):
            late.start_tls(authority.client_context())
            late.login(user="app", database="p0")
    else:
        late.start_tls(authority.client_context())
        assert late.sock.getpeercert(True) == der(authority, second if change == "certificate" else first)
        assert change != "protocols" or late.sock.version() == "TLSv1.2"
        late.login(user="app", database="p0")
        assert late.query("came after").value == "came after"


class Gate:
    """In place of an SSLContext: a server that takes its time to answer the hello."""

    def __init__(self, context):
        self._context = context
        self.held = threading.Semaphore(0)
        self._open = threading.Event()

    def wrap_socket(self, *arguments, **options):
        self.held.release()
        assert self._open.wait(DEADLINE)
        return self._context.wrap_socket(*arguments, **options)

    def open(self):
        self._open.set()


@pytest.mark.parametrize("settings", [
    {"server_tls_sslmode": "disable"}, {"server_tls_sslmode": "verify-ca"}, {"server_tls_protocols": "tlsv1.2"},
], ids=lambda settings: " ".join(settings.values()))
def test_server_handshake_during_a_reload(scene, directory, authority, certificates, settings):
    """The client that waits for that server is served all the same: by it, or by a server with the new settings."""
    files = Files(directory, authority)
    files.become(certificates[0])
    gate = Gate(authority.server_context())
    fake = scene.mini(tls=gate)
    weir = transactions(scene, fake, files, client_tls_sslmode="allow", server_tls_sslmode="require",
                        server_tls_ca_file=authority.cert("ca"))
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"), m.query("waits for it"))
    assert gate.held.acquire(timeout=DEADLINE)
    reload(weir, **settings)
    gate.open()
    client.finish_login("app")
    assert client.result().value == "waits for it"
    # whatever began with the old settings is not lent any more
    assert client.query("next").value == "next"
    last = fake.started[-1]
    if settings == {"server_tls_sslmode": "disable"}:
        assert not last.tls
    elif "server_tls_protocols" in settings:
        assert last.sock.version() == "TLSv1.2"
    until(lambda: len([s for s in weir.show("SERVERS") if s["database"] == "p0"]) == 1, "the old one is gone")


@pytest.mark.parametrize("before, after", [("prefer", "require"), ("allow", "verify-ca"), ("verify-ca", "verify-full")])
@pytest.mark.parametrize("at", ["idle", "in a transaction", "in its login"])
def test_servers_with_a_laxer_mode_are_closed(scene, directory, authority, certificates, before, after, at):
    """Each pair has the same context, and yet other connections are wanted."""
    files = Files(directory, authority)
    files.become(certificates[0])
    is_secure = before == "verify-ca"
    fake = scene.mini(tls=authority.server_context()) if is_secure else scene.mini()
    weir = transactions(scene, fake, files, client_tls_sslmode="allow", server_tls_sslmode=before,
                        server_tls_ca_file=authority.cert("ca"))
    client = weir.client()
    if at == "in its login":
        weir.admin("RECONNECT")
        held = threading.Semaphore(0)

        def say_nothing(session):
            held.release()
            session.read_bytes(1)

        fake.login, welcome = say_nothing, fake.login
        client.send(m.query("waits"))
        assert held.acquire(timeout=DEADLINE)
        fake.login = welcome
    else:
        client.query("BEGIN" if at == "in a transaction" else "before")
    begun = len(fake.started)
    reload(weir, server_tls_sslmode=after)
    if at == "in a transaction":
        assert weir.pool("p0")["sv_active"] == 1
        client.query("COMMIT")
    if at != "in its login":
        weir.wait_pool("p0", sv_idle=0, sv_active=0)
        assert len(fake.started) == begun
        client.send(m.query("waits"))
    if is_secure:
        assert client.result().value == "waits"
        assert len(fake.started) == begun + 1
    else:
        weir.wait_log("TLS")
        assert "waits" not in [text for _, text in fake.queries]


def test_handshakes_under_reloads(scene, directory, authority, certificates):
    """Each one ends with one certificate or the other, and each query is answered."""
    files = Files(directory, authority)
    files.become(certificates[0])
    weir = transactions(scene, scene.mini(tls=authority.server_context()), files, server_tls_sslmode="require",
                        server_lifetime=0, max_client_conn=1000, listen_backlog=256)
    valid = {der(authority, name) for name in certificates}
    over = threading.Event()
    shown = []

    def visit(name):
        context = authority.client_context()
        turn = 0
        while not over.is_set():
            turn += 1
            with weir.connect() as client:
                client.start_tls(context)
                shown.append(client.sock.getpeercert(True))
                client.login(user="app", database="p0")
                assert client.query("%s %d" % (name, turn)).value == "%s %d" % (name, turn)

    def administrate():
        try:
            for turn in rounds(40):
                seen = len(shown)
                files.become(certificates[turn % 2])
                reload(weir, server_tls_protocols=("tlsv1.2", "tlsv1.3")[turn // 2 % 2])
                until(lambda: len(shown) > seen + 2, "handshakes go on")
        finally:
            over.set()

    run_in_threads(administrate, *(lambda n=n: visit("visitor %d" % n) for n in range(6)))
    assert set(shown) == valid
