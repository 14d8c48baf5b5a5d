"""prometheus-pgbouncer-exporter as Debian 12 has it, unchanged, one of its collectors at a time."""
import os
import subprocess

from .until import DEADLINE

_COLLECT = """
import sys
from prometheus_pgbouncer_exporter import collectors, utils
connection = utils.get_connection("pgbouncer", sys.argv[2], sys.argv[1])
collector = getattr(collectors, sys.argv[3])
arguments = {} if collector is collectors.ListsCollector else {"databases": None}
for metric in collector(connection=connection, **arguments).collect():
    for sample in metric.samples:
        print(sample.name, sample.labels.get("database", "-"), int(sample.value))
"""


def debian_exporter(socket_directory, port, collector):
    """Returns the exporter's metrics, as lines "METRIC DATABASE VALUE"; for a failed exporter, the lines of its error."""
    assert os.path.exists("/usr/bin/prometheus-pgbouncer-exporter"), "it is not installed: test/run.sh does that"
    done = subprocess.run(["/usr/bin/python3", "-c", _COLLECT, socket_directory, str(port), collector], text=True,
                          capture_output=True, timeout=DEADLINE, check=False)
    return (done.stdout if done.returncode == 0 else done.stderr).splitlines()
