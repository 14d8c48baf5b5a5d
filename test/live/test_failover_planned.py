"""A planned switchover under load: no client outside of a transaction gets an error. With Patroni, and with plain servers and a person."""
import pytest

from support.until import until
from support.writers import TABLE, Pgbench, Writers

MODES = ("simple", "extended", "prepared")
SINGLE = """INSERT INTO journal VALUES (:mode, :client_id);
UPDATE counters SET n = n + :step WHERE client = :client_id AND mode = :mode;
SELECT n FROM counters WHERE client = :client_id AND mode = :mode;
"""
BOOKS = """
CREATE TABLE journal (mode int, client int);
CREATE TABLE counters (mode int, client int, n int);
INSERT INTO counters SELECT mode, client, 0 FROM generate_series(0, 2) mode, generate_series(0, 3) client;
GRANT ALL ON journal, counters TO PUBLIC
"""


class Plain:
    def __init__(self, scene):
        self.cluster = scene.nodes()
        self.target = self.cluster.target("p0", target_session_attrs="primary")

    def switchover(self):
        """An administrator stops the primary, and promotes a standby; the old primary returns as its standby."""
        self.cluster.switchover(self.cluster.standbys[0])


class ByPatroni:
    def __init__(self, scene):
        self.cluster = scene.patroni()
        self.target = "dbname=p0 target_session_attrs=primary patroni=%s" % self.cluster.urls

    def switchover(self):
        old = self.cluster.leader()
        self.cluster.switchover(old)
        self.cluster.wait_leader(former=old)
        self.cluster.heal()


@pytest.fixture(params=[Plain, ByPatroni])
def stage(scene, request):
    made = request.param(scene)
    made.cluster.primary.execute(BOOKS + ";" + TABLE, database="p0")
    made.cluster.wait_replayed()
    made.weir = scene.weir({"p0": made.target}, pool_mode="transaction", default_pool_size=6, server_login_retry=0)
    return made


def transactions(weir):
    return sum(row["xact_count"] for row in weir.show("STATS_TOTALS") if row["database"] == "p0")


def test_pgbench_notices_a_delay_only(scene, stage):
    """Each transaction that pgbench has counted is in the tables, once."""
    runs = [Pgbench(stage.weir, scene.directory, SINGLE, mode, 4, {"mode": number, "step": 1}) for number, mode in enumerate(MODES)]
    try:
        more(stage.weir, runs)
        stage.switchover()
        more(stage.weir, runs)
        counted = [run.stop() for run in runs]
    finally:
        for run in runs:
            run.kill()
    primary = stage.cluster.primary
    assert primary.execute("SELECT count(*)::int FROM journal GROUP BY mode ORDER BY mode", database="p0") == [(count,) for count in counted]
    assert primary.execute("SELECT sum(n)::int FROM counters GROUP BY mode ORDER BY mode", database="p0") == [(count,) for count in counted]


def more(weir, runs):
    goal = transactions(weir) + 300
    until(lambda: transactions(weir) > goal or not all(run.is_running() for run in runs), "transactions")


def test_writers_notice_a_delay_only(stage):
    """Host trap 31. Errors come inside of transactions only, and are of two kinds: rolled back, or a COMMIT whose answer is lost."""
    writers = Writers(stage.weir, 3, blocks=2)
    for _ in range(2):
        writers.wait_for_more()
        stage.switchover()
    writers.wait_for_more()
    writers.stop()
    assert not writers.outside
    assert set(writers.inside) <= {"57P01", "08007"}
    writers.audit(stage.cluster.primary)
