"""
Clients behind a load balancer that names them in a header of the PROXY protocol.

The load balancer is at 127.0.0.2; consoles and other clients come from 127.0.0.1, without a header.
"""
import http.client
import socket
import struct

import psycopg2
import pytest

from support import messages as m
from support.ports import free_port
from support.until import DEADLINE, until
from support.wire import Closed, LoginRefused

BALANCER = "127.0.0.2"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ELSEWHERE = "PROXY protocol header from an address that is not in proxy_protocol_networks"


def v1(address="192.0.2.7", port=51244):
    return b"PROXY %s %s %s %d 6432\r\n" % (b"TCP6" if ":" in address else b"TCP4", address.encode(), b"::1" if ":" in address else b"10.0.0.1", port)


def v2(address="192.0.2.7", port=51244, tlvs=b"", command=0x21):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    addresses = socket.inet_pton(family, address) + socket.inet_pton(family, "::1" if ":" in address else "10.0.0.1") + struct.pack("!HH", port, 6432)
    body = addresses + tlvs
    return SIGNATURE + struct.pack("!BBH", command, 0x21 if ":" in address else 0x11, len(body)) + body


def start(scene, **settings):
    return scene.weir(scene.mini(), **{"listen_addr": "*", "proxy_protocol_networks": BALANCER, "pool_mode": "transaction", **settings})


def behind(weir, header, source=BALANCER):
    """A client that sends the header first."""
    client = weir.connect_from(source)
    client.send(header)
    return client


def logged_in(weir, header, **parameters):
    client = behind(weir, header)
    client.login(user="app", database="p0", **parameters)
    return client


def address_of(weir, user="app"):
    (row,) = [row for row in weir.show("CLIENTS") if row["user"] == user]
    return row["addr"], row["port"]


def refusal(client, *packets):
    client.send(*packets)
    (error,) = client.drain()
    return m.read_error(error.body)


@pytest.mark.parametrize("make", [v1, v2])
@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_client_has_the_address_of_the_header(scene, make, address):
    weir = start(scene)
    client = logged_in(weir, make(address))
    assert client.query("x").value == "x"
    assert address_of(weir) == (address, 51244)
    weir.wait_log("login attempt: db=p0 user=app tls=no replication=no proxy=127.0.0.2:")
    assert [row["address"] for row in weir.show("ADDRESSES") if row["clients"] and row["address"] != "127.0.0.1"] == \
        [address if ":" not in address else "2001:db8::/64"]


@pytest.mark.parametrize("make", [v1, v2])
def test_header_comes_byte_by_byte(scene, make):
    weir = start(scene)
    client = weir.connect_from(BALANCER)
    client.dribble(make(), m.startup(user="app", database="p0"))
    client.finish_login("app")
    assert address_of(weir) == ("192.0.2.7", 51244)


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", v2(command=0x20), SIGNATURE + b"\x20\0\0\0"], ids=["UNKNOWN", "LOCAL with addresses", "LOCAL"])
def test_balancer_that_speaks_for_itself_keeps_its_address(scene, header):
    weir = start(scene)
    logged_in(weir, header)
    assert address_of(weir)[0] == BALANCER


def test_check_of_the_balancer_is_no_failure(scene):
    """HAProxy and the balancers of AWS connect, send LOCAL, and leave."""
    weir = start(scene)
    for header in (b"", SIGNATURE + b"\x20\0\0\0", v1()):
        behind(weir, header).close()
    logged_in(weir, v1())
    assert "closing because: client unexpected eof" not in weir.log()


@pytest.mark.parametrize("header", [m.startup(user="app", database="p0"), b"PROXY TCP4 localhost ::1 1 2\r\n", b"PROXY " + b"x" * 200,
                                    SIGNATURE + b"\x31\x11\0\0", b"\x16\x03\x01", m.SSL_REQUEST],
                         ids=["no header", "a name", "a long line", "version 3", "TLS", "SSLRequest"])
def test_what_is_no_header_is_refused(scene, header):
    weir = start(scene)
    error = refusal(weir.connect_from(BALANCER), header)
    assert (error["C"], error["M"].split(":")[0]) == ("08P01", "invalid PROXY protocol header")


@pytest.mark.parametrize("header", [v1(), v2()])
def test_header_from_elsewhere_is_refused(scene, header):
    weir = start(scene)
    for source in ("127.0.0.3", "127.0.0.1"):
        error = refusal(behind(weir, header, source))
        assert (error["C"], error["M"]) == ("28000", ELSEWHERE)
    # a second header
    assert refusal(behind(weir, v1("192.0.2.1")), v1())["C"] == "08P01"


def test_without_the_setting_a_header_is_refused(scene):
    weir = start(scene, proxy_protocol_networks=None)
    assert refusal(behind(weir, v1()))["M"] == ELSEWHERE


def test_tlvs_are_skipped_without_being_kept(scene):
    weir = start(scene)
    client = behind(weir, v2(tlvs=b"\x04\xff\xf0" + b"x" * 65520)[:40000])
    client.send(b"x" * (16 + 12 + 3 + 65520 - 40000), m.startup(user="app", database="p0"))
    client.finish_login("app")
    assert client.query("x").value == "x"


def test_half_a_header_ends_by_the_login_timeout(scene):
    weir = start(scene, client_login_timeout=0.3)
    for part in (b"PRO", v1()[:-1], v2()[:20], v2(tlvs=b"x" * 100)[:-1]):
        error = refusal(behind(weir, part))
        assert error["M"] == "client_login_timeout"


def test_rules_see_the_client(scene, tmp_path):
    rules = tmp_path / "hba.conf"
    rules.write_text("host all all 192.0.2.0/24 trust\nhost all all 127.0.0.1/32 trust\nhost all all 127.0.0.2/32 reject\nhost all all all reject\n")
    weir = start(scene, auth_type="hba", auth_hba_file=str(rules))
    logged_in(weir, v1("192.0.2.9"))
    for header in (v1("198.51.100.1"), b"PROXY UNKNOWN\r\n"):
        with pytest.raises(LoginRefused):
            logged_in(weir, header)


def test_limits_count_by_the_client(scene):
    weir = start(scene, max_client_conn_per_ip=1)
    logged_in(weir, v1("192.0.2.1"))
    logged_in(weir, v1("192.0.2.2"))
    with pytest.raises(LoginRefused, match="max_client_conn_per_ip"):
        logged_in(weir, v1("192.0.2.1"))


def test_name_has_the_address_of_the_client(scene):
    weir = start(scene, application_name_add_host=1)
    client = logged_in(weir, v2(), application_name="psql")
    assert client.parameters["application_name"] == "psql - 192.0.2.7:51244"


def test_cancel_request_comes_behind_a_header(scene):
    fake = scene.fake()
    weir = scene.weir(fake, listen_addr="*", proxy_protocol_networks=BALANCER, pool_mode="transaction")
    client = logged_in(weir, v1())
    client.send(m.query("long"))
    server = fake.accept()
    server.expect_query("long")
    behind(weir, v1("192.0.2.8")).send(m.cancel_request(client.pid, client.key))
    assert fake.next_cancel() == (server.pid, server.key)
    server.answer("late")
    assert client.result().value == "late"


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("make", [v1, v2])
def test_tls_begins_behind_the_header(scene, authority, make, direct):
    weir = start(scene, client_tls_sslmode="require", client_tls_cert_file=authority.cert("server"), client_tls_key_file=authority.key("server"))
    client = behind(weir, make())
    if direct:
        context = authority.client_context()
        context.set_alpn_protocols(["postgresql"])
        client.sock = context.wrap_socket(client.sock, server_hostname="localhost")
    else:
        client.start_tls(authority.client_context())
    client.login(user="app", database="p0")
    assert client.query("x").value == "x"
    assert address_of(weir) == ("192.0.2.7", 51244)


def test_unix_socket_may_be_a_balancers(scene):
    weir = start(scene, proxy_protocol_networks="10.0.0.0/8, unix")
    client = weir.connect(unix=True)
    client.send(v1())
    client.login(user="app", database="p0")
    assert address_of(weir) == ("192.0.2.7", 51244)
    with pytest.raises(LoginRefused, match="invalid PROXY protocol header"):
        weir.client(unix=True)


def test_reload_changes_the_networks(scene):
    weir = start(scene, proxy_protocol_networks=None)
    weir.settings["proxy_protocol_networks"] = BALANCER
    weir.write_ini()
    weir.admin("RELOAD")
    logged_in(weir, v1())
    weir.settings["proxy_protocol_networks"] = "example.com"
    weir.write_ini()
    with pytest.raises(psycopg2.Error, match="must be a list of networks"):
        weir.admin("RELOAD")
    logged_in(weir, v1())


def test_silent_connections_of_the_balancer_make_room(scene):
    """Until the header arrives, a connection counts at the address of the load balancer."""
    weir = start(scene, max_login_clients=5)
    silent = [weir.connect_from(BALANCER) for _ in range(8)]
    until(lambda: sum(row["logins"] for row in weir.show("ADDRESSES") if row["address"] == BALANCER) <= 5, "some were displaced")
    weir.client()
    for client in silent:
        client.close()


class Behind(http.client.HTTPConnection):
    """HTTP from the load balancer."""

    def __init__(self, port, header, context=None):
        super().__init__("127.0.0.1", port, timeout=DEADLINE)
        self.header, self.context = header, context

    def connect(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), DEADLINE, source_address=(BALANCER, 0))
        self.sock.sendall(self.header)
        if self.context:
            self.sock = self.context.wrap_socket(self.sock, server_hostname="localhost")


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("header", [v1(), v2(), v2(tlvs=b"\x04\xff\x00" + b"x" * 65280), b"PROXY UNKNOWN\r\n"], ids=["v1", "v2", "long", "UNKNOWN"])
def test_http_comes_behind_a_header(scene, authority, header, tls):
    port = free_port()
    files = {"client_tls_sslmode": "allow", "client_tls_cert_file": authority.cert("server"), "client_tls_key_file": authority.key("server")}
    start(scene, http_listen_port=port, http_tls=int(tls), **(files if tls else {}))
    connection = Behind(port, header, authority.client_context() if tls else None)
    for _ in range(2):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, answer.msg and b"ok\n")
    connection.close()


def test_http_without_a_header_is_refused(scene):
    port = free_port()
    start(scene, http_listen_port=port)
    connection = Behind(port, b"")
    with pytest.raises((ConnectionError, http.client.BadStatusLine, http.client.RemoteDisconnected)):
        connection.request("GET", "/healthz")
        connection.getresponse()
    connection.close()


def test_guessed_passwords_count_for_the_client(scene):
    """Failed logins delay the refusals of their client, and not of the load balancer."""
    weir = start(scene, auth_type="plain", users={"app": "right"}, login_failure_delay=0.01)
    for _ in range(3):
        client = behind(weir, v1("192.0.2.66"))
        with pytest.raises(LoginRefused):
            client.login(password="wrong", user="app", database="p0")
    failures = {row["address"]: row["failures"] for row in weir.show("ADDRESSES")}
    assert failures["192.0.2.66"] == 3 and BALANCER not in failures


def test_end_within_a_header_is_quiet(scene):
    weir = start(scene)
    client = behind(weir, v1()[:10])
    client.close()
    client = behind(weir, v1())
    with pytest.raises(Closed):
        client.sock.shutdown(socket.SHUT_WR)
        client.read()
