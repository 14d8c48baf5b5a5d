"""Nobody but root looks into the process, and no core file has what is in it, unless core_dumps says so (PR_SET_DUMPABLE)."""
import os

import pytest

from support.instruments import fast_binary
from support.pgweir import Pgweir


class Fast(Pgweir):
    def command(self):
        return [fast_binary()] + super().command()[1:]


def can_be_looked_into(weir):
    """Files of /proc that only somebody who may trace the process can read."""
    try:
        os.listdir("/proc/%d/fd" % weir.pid)
        with open("/proc/%d/environ" % weir.pid, "rb"), open("/proc/%d/mem" % weir.pid, "rb"):
            return True
    except PermissionError:
        return False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into everything")
def test_nobody_looks_into_the_process(scene):
    """By default; changed by SET and RELOAD while it runs."""
    weir = scene.weir(scene.mini(), kind=Fast, core_dumps=None)
    assert not can_be_looked_into(weir)
    weir.admin("SET core_dumps = 1")
    assert can_be_looked_into(weir)
    weir.admin("RELOAD")
    assert not can_be_looked_into(weir)

