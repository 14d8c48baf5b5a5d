"""Types that change under the prepared statements of drivers that test/drivers.sh has built: the drivers come to right values, as directly."""
import os
import pathlib

import pytest

from support import type_changes

BUILT = pathlib.Path(os.environ.get("PGWEIR_DRIVERS", "/nonexistent"))
CLASSES = BUILT / "java"
# {driver: (the file that its toolchain makes, the command)}
PROGRAMS = {
    "pgx": (BUILT / "go" / "bin" / "types_pgx", [str(BUILT / "go" / "bin" / "types_pgx")]),
    "pgjdbc": (CLASSES / "TypesPgjdbc.class",
               ["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", "%s:%s" % (CLASSES, CLASSES / "postgresql.jar"), "TypesPgjdbc"]),
}


@pytest.mark.parametrize("driver", PROGRAMS)
def test_drivers(scene, postgres, authority, driver):
    program, command = PROGRAMS[driver]
    if not program.exists():
        pytest.skip("%s: its toolchain is not here" % driver)
    type_changes.check_all(scene, postgres, authority, command)
