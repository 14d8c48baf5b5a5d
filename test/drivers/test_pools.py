"""
Pools of drivers during a planned switchover: each worker writes numbers in autocommit and prints those that were acknowledged. No worker gets an error,
and each number is there once.

$PGWEIR_DRIVERS is the directory in which test/drivers.sh has built the programs.
"""
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from support.until import DEADLINE, until
from support.writers import TABLE, numbers_at

HERE = pathlib.Path(__file__).resolve().parent
BUILT = pathlib.Path(os.environ.get("PGWEIR_DRIVERS", "/nonexistent"))
LONG = 3 * DEADLINE
JAVA = ":".join(str(BUILT / "java" / name) for name in ("", "postgresql.jar", "HikariCP.jar", "slf4j-api.jar"))
POOLS = {
    "pgxpool": ([str(BUILT / "go/bin/pool_pgx")], BUILT / "go/bin/pool_pgx"),
    "HikariCP": (["java", "-XX:+UseSerialGC", "-cp", JAVA, "PoolPgjdbc"], BUILT / "java/PoolPgjdbc.class"),
    "psycopg_pool": ([sys.executable, str(HERE / "python/pool_psycopg.py")], HERE),
}


def wait_for_more(program, lines):
    goal = len(lines) + 300
    until(lambda: len(lines) > goal or program.poll() is not None, "numbers are written", deadline=LONG)


@pytest.mark.parametrize("pool", POOLS)
def test_planned_switchover(scene, pool):
    command, needed = POOLS[pool]
    if not needed.exists():
        pytest.skip("%s: its toolchain is not here" % pool)
    nodes = scene.nodes()
    nodes.primary.execute(TABLE, database="p0")
    nodes.wait_replayed()
    weir = scene.weir({"p0": nodes.target("p0", target_session_attrs="primary")}, pool_mode="transaction", default_pool_size=3, server_login_retry=0)
    place = dict(PGHOST=weir.host, PGPORT=str(weir.port), PGUSER="app", PGPASSWORD="app-secret", PGDATABASE="p0", PGSSLMODE="disable")
    with subprocess.Popen(command, env=dict(os.environ, **place), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        lines = []
        reader = threading.Thread(target=lambda: [lines.append(line) for line in program.stdout], daemon=True)
        reader.start()
        for _ in range(2):
            wait_for_more(program, lines)
            nodes.switchover(nodes.standbys[0])
        wait_for_more(program, lines)
        program.stdin.close()
        assert program.wait(LONG) == 0
        reader.join()
    errors = [line for line in lines if not line.strip().isdigit()]
    assert not errors, errors[:10]
    assert sorted(map(int, lines)) == numbers_at(nodes.primary)
