"""The first packets of a connection: versions, parameters, requests for encryption, and everything malformed."""
import struct

import pytest

from support import messages as m
from support.wire import Closed


@pytest.fixture
def weir(scene):
    return scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=2)


def refusal(client, *packets):
    """Sends these packets and returns the fields of the only ErrorResponse before the end."""
    client.send(*packets)
    (error,) = client.drain()
    assert error.type == "E"
    return m.read_error(error.body)


def test_plain_login_reports_what_the_server_reported(weir):
    client = weir.client()
    assert client.parameters["server_version"] == "15.6"
    assert client.parameters["integer_datetimes"] == "on"
    assert client.status == "I"
    assert client.query("hello").value == "hello"


def test_promoted_standby_is_reported(scene):
    """Parameters that the server reports about itself reach later clients; values set in a session do not."""
    fake = scene.fake()
    fake.login = lambda session: (session.parameters.update(in_hot_standby="on"), session.welcome())
    weir = scene.weir(fake, pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    assert client.parameters["in_hot_standby"] == "on"
    client.send(m.query("promoted?"))
    server = fake.accept()
    server.expect_query("promoted?")
    server.send(m.parameter_status("in_hot_standby", "off"), m.parameter_status("default_transaction_read_only", "on"),
                m.rows("yes"), m.ready())
    assert client.result().value == "yes"
    late = weir.client()
    assert (late.parameters["in_hot_standby"], late.parameters["default_transaction_read_only"]) == ("off", "off")
    assert late.parameters["server_version"] == client.parameters["server_version"]


def test_welcome_is_in_order(weir):
    client = weir.connect()
    client.send(m.startup(user="app", database="p0"))
    kinds = "".join(message.type for message in client.finish_login("app"))
    assert kinds[0] == "R" and kinds.rstrip("Z")[-1] == "K" and kinds.count("Z") == 1
    assert set(kinds[1:-2]) == {"S"}


def test_database_defaults_to_the_user(scene):
    weir = scene.weir({"app": scene.mini()})
    client = weir.connect()
    client.login(user="app")
    assert client.query("mine").value == "mine"


def test_trap_58_negotiation_is_sent_once_to_a_client_that_has_to_wait(scene):
    """The negotiation message was sent twice to a client when its login had to wait."""
    fake = scene.fake()
    weir = scene.weir(fake, pool_mode="session", default_pool_size=1)
    gate = []
    fake.login = gate.append
    client = weir.connect()
    client.send(m.startup(m.PROTOCOL_3_2, user="app", database="p0", **{"_pq_.x": "1"}))
    server = fake.accept()
    weir.barrier()
    server.welcome()
    kinds = "".join(message.type for message in client.finish_login("app"))
    assert kinds.count("v") == 1 and kinds.index("v") < kinds.index("K")


@pytest.mark.parametrize("packet", [m.SSL_REQUEST, m.GSSENC_REQUEST])
def test_encryption_that_is_not_offered_is_declined(weir, packet):
    client = weir.connect()
    client.send(packet)
    assert client.read_bytes(1) == b"N"
    client.login(user="app", database="p0")
    assert client.query("plain").value == "plain"


def test_gss_then_ssl_are_declined_in_turn(weir):
    client = weir.connect()
    for packet in (m.GSSENC_REQUEST, m.SSL_REQUEST):
        client.send(packet)
        assert client.read_bytes(1) == b"N"
    client.login(user="app", database="p0")


def test_version_2_is_refused(weir):
    error = refusal(weir.connect(), m.startup_raw(struct.pack("!I", 2 << 16) + b"p0\0app\0"))
    assert error["M"] == "old V2 protocol not supported"


def test_no_user_is_refused(weir):
    assert refusal(weir.connect(), m.startup(database="p0"))["M"] == "no username supplied"


def test_unknown_database(weir):
    assert weir.connect().refused(user="app", database="nosuch")["M"] == "no such database: nosuch"


def test_missing_terminator(weir):
    """Trap 67."""
    body = struct.pack("!I", m.PROTOCOL_3_0) + b"user\0app\0database\0p0\0"
    error = refusal(weir.connect(), m.startup_raw(body))
    assert error["M"] == "invalid startup packet layout: expected terminator as last byte"


@pytest.mark.parametrize("name", ["no-such", "role"])
def test_unknown_startup_parameter(weir, name):
    error = weir.connect().refused(user="app", database="p0", **{name: "1"})
    assert error["M"] == "unsupported startup parameter: " + name
    assert "ignore_startup_parameters" in error["H"]


def test_ignored_startup_parameters(scene):
    weir = scene.weir(scene.mini(), ignore_startup_parameters="extra_float_digits, role, options")
    client = weir.client(extra_float_digits="3", role="boss")
    assert client.query("works").value == "works"


def test_ignored_startup_parameter_inside_options(scene):
    weir = scene.weir(scene.mini(), ignore_startup_parameters="extra_float_digits")
    assert weir.client(options="-c extra_float_digits=3").query("works").value == "works"


def test_a_long_value_in_options(weir):
    """As long as a start-up packet may be."""
    value = "x" * 9000
    assert weir.client(options="-c application_name=" + value).parameters["application_name"] == value


def test_tracked_parameters_reach_the_server(scene):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction")
    client = weir.client(application_name="me", client_encoding="LATIN1", DateStyle="SQL, DMY")
    assert client.parameters["application_name"] == "me", fake.queries
    assert client.parameters["client_encoding"] == "LATIN1"
    client.query("run")
    (pid, _) = next(entry for entry in fake.queries if entry[1] == "run")
    session = fake.session_of(pid)
    assert session.parameters["application_name"] == "me", fake.queries
    assert session.parameters["client_encoding"] == "LATIN1"
    assert session.parameters["DateStyle"] == "SQL, DMY"


@pytest.mark.parametrize("options", ["-c TimeZone=Asia/Tokyo", "--timezone=Asia/Tokyo"])
def test_options_set_tracked_parameters(scene, options):
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction")
    client = weir.client(options=options)
    assert client.parameters["TimeZone"] == "Asia/Tokyo"
    client.query("run")
    (pid, _) = next(entry for entry in fake.queries if entry[1] == "run")
    assert fake.session_of(pid).parameters["TimeZone"] == "Asia/Tokyo"


def test_options_with_backslash_and_several_settings(weir):
    client = weir.client(options="-c application_name=two\\ words  --IntervalStyle=iso_8601")
    assert client.parameters["application_name"] == "two words"
    assert client.parameters["IntervalStyle"] == "iso_8601"


@pytest.mark.parametrize("order", [("options", "TimeZone"), ("TimeZone", "options")], ids=" ".join)
def test_parameter_overrides_options(weir, order):
    """In whatever order a driver sends them: libpq begins with options, pgjdbc ends with them."""
    values = {"options": "-c TimeZone=Asia/Tokyo -c IntervalStyle=iso_8601", "TimeZone": "Europe/Berlin"}
    client = weir.client(**{name: values[name] for name in order})
    assert client.parameters["TimeZone"] == "Europe/Berlin"
    assert client.parameters["IntervalStyle"] == "iso_8601"


def test_unknown_parameter_inside_options(weir):
    error = weir.connect().refused(user="app", database="p0", options="-c Post-Auth-Delay=1")
    assert error["M"] == "unsupported startup parameter in options: Post-Auth-Delay"


@pytest.mark.parametrize("options", ["-d 3", "words", "-c"])
def test_other_kinds_of_options(weir, options):
    error = weir.connect().refused(user="app", database="p0", options=options)
    assert error["M"] == ("unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed")


@pytest.mark.parametrize("length", [0, 1, 4, 7, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 1])
def test_impossible_length_of_the_first_packet(weir, length):
    client = weir.connect()
    client.send(struct.pack("!II", length, m.PROTOCOL_3_0) + b"user\0app\0\0")
    for message in client.drain():
        assert message.type == "E"
    assert weir.client().query("unharmed").value == "unharmed"


def test_bad_packet_header_is_quoted(weir):
    error = refusal(weir.connect(), b"GET / HTTP/1.1\r\n\r\n")
    assert error["M"].startswith("bad packet header: '47455420")


def test_cancel_with_an_unknown_key_is_closed_silently(weir):
    client = weir.connect()
    client.send(m.cancel_request(4711, b"\1\2\3\4"))
    client.expect_closed()


def test_cancel_with_a_short_key_does_no_harm(weir):
    client = weir.connect()
    client.send(m.startup_raw(struct.pack("!II", 80877102, 1)))
    client.drain()
    assert weir.client().query("unharmed").value == "unharmed"


def test_client_disconnects_at_every_byte_of_its_startup_packet(weir):
    packet = m.startup(user="app", database="p0")
    for cut in range(len(packet)):
        client = weir.connect()
        client.send(packet[:cut])
        client.close() if cut % 2 else client.abort()
    assert weir.client().query("unharmed").value == "unharmed"


def test_client_login_timeout(scene):
    weir = scene.weir(scene.mini(), client_login_timeout=0.3)
    client = weir.connect()
    client.send(m.startup(user="app", database="p0")[:7])
    (error,) = client.drain()
    assert m.read_error(error.body)["M"] == "client_login_timeout"


def test_terminate_before_login(weir):
    client = weir.connect()
    client.send(m.terminate())
    try:
        client.read()
    except Closed:
        pass
    assert weir.client().query("unharmed").value == "unharmed"


def test_names_in_an_invalid_encoding_do_not_break_show(scene):
    """The console speaks UTF-8, whatever its clients are called: drivers that watch it give up at anything else."""
    weir = scene.weir({"*": "host=127.0.0.1 port=%d" % scene.mini().port}, pool_mode="transaction")
    client = weir.connect()
    client.send(m.startup_raw(b"\0\3\0\0user\0app\0database\0d\xe9part\0application_name\0caf\xe9\0\0"))
    client.finish_login()
    (shown,) = [row for row in weir.show("CLIENTS") if row["user"] == "app"]
    assert (shown["database"], shown["application_name"]) == ("d\\xe9part", "caf\\xe9")
    for what in ("DATABASES", "POOLS", "STATS", "SOCKETS"):
        assert "d\\xe9part" in {row.get("database", row.get("name")) for row in weir.show(what)}


def test_lists_with_blanks_between(scene):
    """As PgBouncer reads them, except that PgBouncer also takes two unquoted words with a blank between them for one role."""
    weir = scene.weir(scene.mini(), admin_users='nobody admin, "two words"', stats_users="x\tstats", pool_mode="transaction",
                      users=dict.fromkeys(("nobody admin", "two words", "two", "words"), "x"),
                      ignore_startup_parameters="extra_float_digits role,\tother")
    for name in ("extra_float_digits", "role", "other"):
        assert weir.client(**{name: "1"}).query("hello").value == "hello"
    assert refusal(weir.connect(), m.startup(user="app", database="p0", session_authorization="1"))["M"] == "unsupported startup parameter: session_authorization"
    assert weir.client(user="admin", database="pgbouncer").query("RELOAD").tags == ["RELOAD"]
    assert weir.client(user="stats", database="pgbouncer").query("RELOAD").error == "admin access needed"
    assert weir.client(user="two words", database="pgbouncer").query("RELOAD").tags == ["RELOAD"]
    for user in ("app", "nobody admin", "two", "words"):
        assert refusal(weir.connect(), m.startup(user=user, database="pgbouncer"))["M"] == "not allowed"
