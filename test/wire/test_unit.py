"""pgweir under the system call filter of the unit that it is installed with."""
import grp
import os
import pathlib
import re

import pytest

from support import messages as m
from support import scram
from support.seccomp import UNIT, under_seccomp
from support.log_words import logs_event
from support.pgweir import Pgweir
from support.takeover import Replaced
from support.until import until

RULES = """
host p0 app samehost trust
host p0 rival samenet scram-sha-256
host p0 stats samenet reject
host p0 clear samehost password
host all all all trust
"""
USERS = {"clear": scram.secret_text(scram.make_secret("sesame"))}


class Confined(Replaced):
    """A Pgweir. families: in place of the unit's RestrictAddressFamilies=."""

    def __init__(self, directory, *arguments, families=None, **settings):
        self._unit = UNIT
        if families:
            text = re.sub(r"(?m)^(RestrictAddressFamilies)=.*$", r"\1=" + families, UNIT.read_text(encoding="utf-8"))
            self._unit = pathlib.Path(directory, "unit")
            self._unit.write_text(text, encoding="utf-8")
        super().__init__(directory, *arguments, **settings)

    def command(self):
        # the search for leaks traces its own process, which the unit forbids
        options = "detect_leaks=0:exitcode=99:log_path=" + self.path("sanitizer")
        return under_seccomp(["env", "ASAN_OPTIONS=" + options] + super().command(), self._unit)


def start(scene, **options):
    with open(scene.directory + "/hba.conf", "w", encoding="ascii") as f:
        f.write(RULES)
    return scene.weir(scene.mini(), kind=Confined, users=USERS, auth_type="hba", auth_hba_file=scene.directory + "/hba.conf", **options)


def log_in_clear(weir):
    """A password in clear for a SCRAM secret: a process of pgweir's derives the key."""
    client = weir.connect()
    client.send(m.startup(user="clear", database="p0"))
    client.expect("R")
    client.send(m.password("sesame"))
    client.read_until("Z")


def test_service_under_its_filter(scene):
    group = grp.getgrgid(os.getgroups()[-1] if os.getgroups() else os.getgid()).gr_name
    weir = start(scene, unix_socket_group=group, pidfile=scene.directory + "/pid", nofile=512, max_client_conn=100)
    for user in ("app", "rival"):
        assert weir.client(user, password=weir.users[user]).query("SELECT 1").value is not None
    assert weir.connect().refused(user="stats", database="p0")["M"] == "login rejected"
    log_in_clear(weir)
    (row,) = [row for row in weir.show("VERIFIERS") if row["pid"]]
    assert os.getpriority(os.PRIO_PROCESS, row["pid"]) - os.getpriority(os.PRIO_PROCESS, weir.pid) == 10
    weir.admin("RELOAD")
    weir.replace()
    assert weir.client().query("SELECT 1").value is not None
    assert not re.search(r"not permitted|not supported| ERROR ", weir.log() + weir.stderr())


@pytest.mark.parametrize("user", ["app", "stats"])
def test_interfaces_that_cannot_be_listed(scene, user):
    """Neither a line that would admit nor one that would reject is skipped."""
    weir = start(scene, families="AF_INET AF_INET6 AF_UNIX")
    assert weir.connect().refused(user=user, database="p0")["M"] == "no authentication method is found"
    line = [number for number, text in enumerate(RULES.splitlines(), 1) if " %s " % user in text][0]
    logs_event(weir, "network interfaces that cannot be listed")
    assert "refused by %s/hba.conf:%d," % (scene.directory, line) in weir.log()
    # other lines are in force
    assert weir.client(unix=False, user="admin", database="p0", password="admin-secret")
