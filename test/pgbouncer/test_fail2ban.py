"""etc/fail2ban: the real fail2ban-regex finds the addresses of failed logins, and no others, in the log of either pooler."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import messages as m
from support.until import DEADLINE

CONFIGURATION = Path(__file__).parents[2] / "etc" / "fail2ban"


def program(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/sbin")
    assert path, "%s is not installed: test/run.sh does that" % name
    return path


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def found(weir):
    """The addresses, one for each line that counts."""
    return run(program("fail2ban-regex"), "-o", "ip", weir.log_path, str(CONFIGURATION / "filter.d" / "pgweir.conf")).split()


def fail(weir, address, user="app", database="p0", password="wrong"):
    client = weir.connect_from(address)
    client.send(m.startup(user=user, database=database))
    if client.read().type == "R":
        client.send(m.password(password))
    client.drain()


def test_addresses_of_failed_logins(pooler, scene):
    weir = pooler(scene.mini(), auth_type="md5", listen_addr="*")
    fail(weir, "127.0.0.2")
    fail(weir, "127.0.0.3", user="stranger")
    fail(weir, "127.0.0.4", database="nowhere")
    weir.client().quit()
    weir.wait_log("client close request")
    # PgBouncer asks only after it has looked for the database; pgweir tells after the proof that there is none
    assert found(weir) == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


def test_a_name_is_not_an_address(scene):
    """The name of a client cannot cause a ban of another address."""
    weir = scene.weir(scene.mini(), auth_type="md5", listen_addr="*")
    for name in ("x@10.0.0.1:5 closing because: password authentication failed (age=0s)", 'a"@10.0.0.1:5 closing because: no such user',
                 "x\n2026-11-22 02:01:23.820 UTC [1] LOG C-0x1: a/b@10.0.0.1:5 closing because: no such user (age=0s)"):
        fail(weir, "127.0.0.2", user=name)
        fail(weir, "127.0.0.3", database=name)
    assert set(found(weir)) == {"127.0.0.2", "127.0.0.3"}


@pytest.mark.parametrize("line, address", [
    ('Nov 22 02:01:23 db1 pgweir[812]: C-0x1f: shop/"jane@example.org"@192.0.2.7:40112 closing because: SASL authentication failed '
     '(age=0s)', ["192.0.2.7"]),
    ("2026-11-22 02:01:23.820 CET [812] LOG C-0x1f: shop/jane@[2001:db8::7]:40112 closing because: login rejected (age=1s)",
     ["2001:db8::7"]),
    ("2026-11-22 02:01:23.820 UTC [812] LOG C-0x1f: shop/jane@192.0.2.7:40112 closing because: client close request (age=1s)", []),
    ("2026-11-22 02:01:23.820 UTC [812] LOG C-0x1f: shop/jane@unix(811):6432 closing because: login rejected (age=1s)", []),
])
def test_lines(line, address):
    assert run(program("fail2ban-regex"), "-o", "ip", line, str(CONFIGURATION / "filter.d" / "pgweir.conf")).split() == address


def test_jail(scene):
    """Fail2Ban takes the jail with the files of its package."""
    copy = os.path.join(scene.directory, "fail2ban")
    shutil.copytree("/etc/fail2ban", copy, ignore=shutil.ignore_patterns("jail.d"))
    shutil.copytree(CONFIGURATION, copy, dirs_exist_ok=True)
    log = os.path.join(scene.directory, "pgweir.log")
    Path(log).touch()
    jail = Path(copy) / "jail.d" / "pgweir.conf"
    jail.write_text(jail.read_text(encoding="ascii").replace("/var/log/pgweir/pgweir.log", log), encoding="ascii")
    dump = run(program("fail2ban-client"), "-c", copy, "-d")
    assert "'pgweir'" in dump and log in dump
