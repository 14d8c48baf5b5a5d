"""Files for TLS that are exchanged on the console, one SET after the other."""
import re
import signal
import ssl

import pytest

from support import messages as m
from support.certs import Authority
from support.pgbouncer import words
from support.until import until

NOTICE = "TLS settings could not be applied, still using old configuration"
MISFIT = 'TLS setup failed: failed to load private key file "%s": key values mismatch'


@pytest.fixture
def pair(directory):
    """Another certificate of localhost than "server"."""
    authority = Authority(directory)
    authority.issue("fresh", "localhost", names="DNS:localhost")
    return authority


def notices(result):
    return [m.read_error(message.body)["M"] for message in result.messages if message.type == "N"]


def certificate_of(weir, authority):
    """Returns the server certificate that a client gets, in DER."""
    client = weir.connect()
    client.start_tls(authority.client_context())
    return client.sock.getpeercert(True)


def der(authority, name):
    with open(authority.cert(name), encoding="ascii") as f:
        return ssl.PEM_cert_to_DER_cert(f.read())


def exchange(console, authority, side, first, name):
    """SETs both files, `first` first."""
    kinds = [first] + [kind for kind in ("key", "cert") if kind != first]
    return [console.query("SET %s_tls_%s_file = '%s'" % (side, kind, getattr(authority, kind)(name))) for kind in kinds]


@pytest.mark.parametrize("first", ["key", "cert"])
def test_the_pair_for_clients(pooler, scene, pair, first):
    weir = pooler(scene.mini(), client_tls_sslmode="allow", client_tls_key_file=pair.key("server"), client_tls_cert_file=pair.cert("server"))
    console = weir.client("admin", "pgbouncer", unix=True)
    kinds = [first, "cert" if first == "key" else "key"]
    misfit = console.query("SET client_tls_%s_file = '%s'" % (kinds[0], getattr(pair, kinds[0])("fresh")))
    assert misfit.errors == [] and notices(misfit) == [NOTICE]
    assert certificate_of(weir, pair) == der(pair, "server")
    # an unrelated SET succeeds without a notice about the files
    assert notices(console.query("SET query_timeout = 5")) == []
    fit = console.query("SET client_tls_%s_file = '%s'" % (kinds[1], getattr(pair, kinds[1])("fresh")))
    assert fit.errors == [] and notices(fit) == []
    assert certificate_of(weir, pair) == der(pair, "fresh")
    key = pair.key("fresh" if first == "key" else "server")
    assert [(level, text.partition(" (TLS")[0]) for level, text in words(weir.log(), "TLS setup")] == [("ERROR", MISFIT % key)]


@pytest.mark.parametrize("first", ["key", "cert"])
def test_the_first_pair_for_servers(pooler, scene, pair, first):
    weir = pooler(scene.mini(), server_tls_sslmode="prefer")
    console = weir.client("admin", "pgbouncer")
    results = exchange(console, pair, "server", first, "fresh")
    assert [result.errors for result in results] == [[], []]
    assert notices(results[1]) == []
    assert weir.client().query("x").value == "x"


def test_a_key_without_a_certificate(pooler, scene, pair):
    weir = pooler(scene.mini(), server_tls_sslmode="prefer", server_tls_key_file=pair.key("server"))
    assert weir.client().query("x").value == "x"
    assert weir.admin("RELOAD") == "RELOAD"


def test_reload_with_files_that_cannot_be_used(pooler, scene, pair):
    weir = pooler(scene.mini(), client_tls_sslmode="allow", client_tls_key_file=pair.key("server"), client_tls_cert_file=pair.cert("server"))
    for key, reason in ((pair.key("fresh"), "key values mismatch"), ("/nonexistent", "")):
        weir.settings["client_tls_key_file"] = key
        weir.write_ini()
        count = weir.log().count("keeping old configuration")
        weir.signal(signal.SIGHUP)
        until(lambda: weir.log().count("keeping old configuration") > count, "the RELOAD has failed")
        text = 'TLS setup failed: failed to load private key file "%s": %s' % (key, reason)
        (level, _), = [line for line in words(weir.log(), "TLS setup") if text in line[1]]
        assert level == "ERROR"
    # file and line of the setting stand after the text that alerts match
    assert all(re.fullmatch(r"TLS setup failed: .*", text) for _, text in words(weir.log(), "TLS setup"))
    assert words(weir.log(), "keeping old") == [("ERROR", "TLS configuration could not be reloaded, keeping old configuration")] * 2
    assert certificate_of(weir, pair) == der(pair, "server")


def test_files_that_are_not_used_need_not_exist(pooler, scene):
    weir = pooler(scene.mini(), client_tls_sslmode="disable", client_tls_key_file="/nonexistent", server_tls_sslmode="disable",
                  server_tls_cert_file="/nonexistent")
    assert weir.client().query("x").value == "x"
