"""Only root can inspect the process, and a core file contains none of its secrets, unless core_dumps allows it (PR_SET_DUMPABLE)."""
import os
import re

import pytest

from support.profilers import fast_binary
from support.pgweir import Pgweir
from support.wire import LoginRefused


class Fast(Pgweir):
    def command(self):
        return [fast_binary()] + super().command()[1:]


def can_be_looked_into(weir):
    """Files of /proc that only a process with permission to trace it can read."""
    try:
        os.listdir("/proc/%d/fd" % weir.pid)
        with open("/proc/%d/environ" % weir.pid, "rb"), open("/proc/%d/mem" % weir.pid, "rb"):
            return True
    except PermissionError:
        return False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into everything")
def test_process_cannot_be_inspected(scene):
    """By default; changed by SET and RELOAD while it runs."""
    weir = scene.weir(scene.mini(), kind=Fast, core_dumps=None)
    assert not can_be_looked_into(weir)
    weir.admin("SET core_dumps = 1")
    assert can_be_looked_into(weir)
    weir.admin("RELOAD")
    assert not can_be_looked_into(weir)



def dumped(weir):
    """The memory of the process that a core file would contain: regions without MADV_DONTDUMP ("dd" in smaps)."""
    with open("/proc/%d/smaps" % weir.pid, encoding="utf-8") as f:
        regions = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw.*\n(?:(?!VmFlags).*\n)*VmFlags:(.*)", f.read(), re.MULTILINE)
    assert any("dd" in flags.split() for _, _, flags in regions), "nothing is marked"
    with open("/proc/%d/mem" % weir.pid, "rb", buffering=0) as f:
        for start, end, flags in regions:
            if "dd" not in flags.split():
                f.seek(int(start, 16))
                yield f.read(int(end, 16) - int(start, 16))


def test_stored_secrets_are_in_no_core_file(scene):
    """With core_dumps = 1: the user list, the passwords of databases and of LDAP, through a RELOAD and a login that was wrong."""
    secrets = [b"Plain-Sesame-1", b"Database-Sesame-2", b"Ldap-Sesame-3", b"0123456789abcdef" * 2]
    fake = scene.mini(method="scram", password="Database-Sesame-2")
    weir = scene.weir("host=127.0.0.1 port=%d password=Database-Sesame-2" % fake.port, kind=Fast, auth_type="scram-sha-256",
                      users={"plain": "Plain-Sesame-1", "hashed": "md5" + "0123456789abcdef" * 2},
                      auth_ldap_options="ldapserver=127.0.0.1 ldapbasedn=dc=x ldapbinddn=cn=x ldapbindpasswd=Ldap-Sesame-3")
    for _ in range(2):
        assert weir.client("plain").query("in").value == "in"
        with pytest.raises(LoginRefused):
            weir.connect().login(user="plain", database="p0", password="wrong")
        weir.barrier()
        for memory in dumped(weir):
            assert not [secret for secret in secrets if secret in memory]
        weir.admin("RELOAD")
