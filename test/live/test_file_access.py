"""Files of the configuration that every user of the machine can read or change: --check, the start and RELOAD say so."""
import os
import re
import subprocess

import pytest

from support.pgweir import binary
from support.until import DEADLINE

READ, CHANGE, BOTH = (r"every user of this machine can %s it \(mode %s\)" % found
                      for found in (("read", "0644"), ("change", "0602"), ("read and change", "0666")))


def check(path):
    """Status and warnings of --check."""
    done = subprocess.run([binary(), "--check", path], capture_output=True, text=True, check=False, timeout=DEADLINE)
    return done.returncode, re.findall(r"^(.*): warning: (.*)$", done.stdout, re.MULTILINE)


def line_of(weir, text):
    """Returns the place of this line in the configuration, as problems name it."""
    with open(weir.ini_path, encoding="utf-8") as f:
        (line,) = [number for number, found in enumerate(f, 1) if found.startswith(text)]
    return "%s:%d" % (weir.ini_path, line)


def write(path, text, mode=0o600):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, mode)


def start(scene, authority, key_mode=0o600):
    """pgweir with a user list, a key and a certificate, rules and a password of its own, private but for the key."""
    directory = scene.directory
    write(directory + "/hba.conf", "host all all 127.0.0.1/32 trust\ninclude more.conf\n")
    write(directory + "/more.conf", "local all all trust\n")
    for name, mode in (("cert", 0o600), ("key", key_mode)):
        with open(getattr(authority, name)("server"), encoding="ascii") as f:
            write(directory + "/" + name, f.read(), mode)
    return scene.weir({"p0": "host=127.0.0.1 port=1 password=secret"}, auth_type="hba", auth_hba_file=directory + "/hba.conf",
                      client_tls_sslmode="allow", client_tls_cert_file=directory + "/cert",
                      client_tls_key_file=directory + "/key")


@pytest.fixture
def weir(scene, authority):
    return start(scene, authority)


def test_private_files(weir):
    assert check(weir.ini_path) == (0, [])
    weir.admin("RELOAD")
    assert " WARNING " not in weir.log()


@pytest.mark.parametrize("setting, mode, text", [
    ("auth_file", 0o644, READ), ("auth_file", 0o602, CHANGE), ("auth_file", 0o666, BOTH), ("client_tls_key_file", 0o644, READ),
    ("client_tls_cert_file", 0o602, CHANGE)])
def test_files_that_settings_name(weir, setting, mode, text):
    path = weir.settings[setting]
    os.chmod(path, mode)
    status, warnings = check(weir.ini_path)
    assert status == 0
    ((where, what),) = warnings
    assert where == line_of(weir, setting + " =")
    assert re.fullmatch('"%s" names "%s": %s' % (setting, path, text), what)
    for times in (1, 2):
        weir.admin("RELOAD")
        weir.wait_log(r"WARNING %s: \"%s\" names .*: %s" % (re.escape(where), setting, text), times)
    os.chmod(path, 0o600)
    assert check(weir.ini_path) == (0, [])


def test_certificate_may_be_readable_by_all(weir):
    os.chmod(weir.settings["client_tls_cert_file"], 0o644)
    assert check(weir.ini_path) == (0, [])


def test_the_configuration_with_a_password(weir):
    os.chmod(weir.ini_path, 0o644)
    ((where, what),) = check(weir.ini_path)[1]
    assert where == line_of(weir, "p0 =")
    assert re.fullmatch("a password stands in this file: " + READ, what)
    weir.databases["p0"] = "host=127.0.0.1 port=1"
    weir.write_ini()
    assert check(weir.ini_path) == (0, [])
    os.chmod(weir.ini_path, 0o666)
    ((where, what),) = check(weir.ini_path)[1]
    assert (where, what) == (weir.ini_path, "every user of this machine can change it (mode 0666)")


@pytest.mark.parametrize("name", ["hba.conf", "more.conf"])
def test_hba_rules(weir, name):
    """Changes of them let clients in."""
    path = os.path.join(os.path.dirname(weir.settings["auth_hba_file"]), name)
    os.chmod(path, 0o644)
    assert check(weir.ini_path) == (0, [])
    os.chmod(path, 0o602)
    assert check(weir.ini_path) == (0, [(path, "every user of this machine can change it (mode 0602)")])
    weir.admin("RELOAD")
    weir.wait_log(r"WARNING %s: every user of this machine can change it" % re.escape(path))


def test_at_the_start(scene, authority):
    weir = start(scene, authority, key_mode=0o644)
    weir.wait_log(r'WARNING %s: "client_tls_key_file" names ".*": %s' % (re.escape(line_of(weir, "client_tls_key_file")), READ))
    assert weir.log().count(" WARNING ") == 1


def test_by_set(weir):
    os.chmod(weir.settings["auth_file"], 0o644)
    os.chmod(weir.settings["client_tls_key_file"], 0o644)
    weir.admin("SET client_tls_key_file = '%s'" % weir.settings["client_tls_key_file"])
    weir.wait_log(r'WARNING "client_tls_key_file" names ".*": ' + READ)
    # files of other settings are not checked
    weir.admin("SET verbose = 0")
    assert weir.log().count(" WARNING ") == 1
