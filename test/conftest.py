"""Fixtures: the modules in support/ describe the objects that they return."""
import collections
import glob
import os
import pathlib
import shutil
import tempfile

import pytest

from support.certs import Authority
from support.fake import FakePostgres
from support.mini import serve_mini
from support.nameserver import Dnsmasq, NameServer
from support.nodes import Nodes
from support.patroni import PatroniNodes
from support.pgweir import Pgweir
from support.ports import free_port
from support.postgres import Postgres


class Scene:
    """Makes the actors of a test and takes them down in the right order: pgweir before its servers."""

    def __init__(self, directory, shared=None):
        self.directory = directory
        self._shared = shared or directory
        self.weirs = []
        self.fakes = []
        self.servers = []
        self.clusters = []
        self.last_words = None

    def weir(self, databases=None, kind=Pgweir, **options):
        """A running pgweir. databases: {name: target}, or one target for p0. kind: see support/profilers.py."""
        if databases is not None and not isinstance(databases, dict):
            databases = {"p0": databases}
        if self.fakes:
            # a played server does not answer cancel requests
            options.setdefault("client_gone", "close")
        weir = kind(tempfile.mkdtemp(dir=self.directory), databases, **options)
        self.weirs.append(weir)
        return weir

    def fake(self, **options):
        """A PostgreSQL server played by the scene. host: another address of loopback; port: the port of another host."""
        fake = FakePostgres(options.pop("port", None) or free_port(), **options)
        self.fakes.append(fake)
        return fake

    def mini(self, byte_by_byte=False, **options):
        """A played server that answers on its own."""
        fake = self.fake(**options)
        serve_mini(fake, byte_by_byte)
        return fake

    def hosts(self, *addresses, **options):
        """Servers that answer on their own, at several addresses and one port."""
        first = self.mini(host=addresses[0], **options)
        return [first] + [self.mini(host=address, port=first.port, **options) for address in addresses[1:]]

    def nameserver(self):
        """A name server played by the scene."""
        server = NameServer()
        self.servers.append(server)
        return server

    def dnsmasq(self, zone, names, **options):
        """A real name server."""
        server = Dnsmasq(tempfile.mkdtemp(dir=self.directory), zone, names, **options)
        self.servers.append(server)
        return server

    def postgres(self, **options):
        """A real server for this test only, which the test may kill."""
        server = Postgres(tempfile.mkdtemp(dir=self.directory), **options)
        self.servers.append(server)
        return server

    def nodes(self, **options):
        """A primary and its standbys, real servers."""
        cluster = Nodes(tempfile.mkdtemp(dir=self.directory), self._shared, **options)
        self.clusters.append(cluster)
        return cluster

    def patroni(self, **options):
        """The same under Patroni."""
        cluster = PatroniNodes(tempfile.mkdtemp(dir=self.directory), self._shared, **options)
        self.clusters.append(cluster)
        return cluster

    def take_down(self):
        faults = []
        for actor in self.weirs + self.fakes + self.servers:
            try:
                actor.stop()
            except AssertionError as fault:
                faults.append(str(fault))
        for cluster in self.clusters:
            cluster.take_down()
        self.last_words = list(self.words())
        assert not faults, "\n".join(faults)

    def words(self):
        """The log messages of the actors, for the report of a failure."""
        if self.last_words:
            yield from self.last_words
            return
        for weir in self.weirs:
            logged = weir.log().splitlines()
            yield "pgweir log", "\n".join(logged[-60:])
            known = set(logged)
            yield "pgweir stderr", "\n".join(line for line in weir.stderr().splitlines() if line not in known)


@pytest.fixture
def directory():
    """An empty directory with a path short enough for Unix sockets."""
    path = tempfile.mkdtemp(prefix="pw")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def memory_directory():
    """A directory for many files, in memory if the machine has enough of that. It is removed later if this process is killed."""
    place = "/dev/shm"
    if not os.path.isdir(place) or shutil.disk_usage(place).free < 4 * 1024 ** 3:
        place = tempfile.gettempdir()
    for left in glob.glob(os.path.join(place, "pgweir-test.*")):
        if not os.path.exists("/proc/" + left.split(".")[1]):
            shutil.rmtree(left, ignore_errors=True)
    path = tempfile.mkdtemp(prefix="pgweir-test.%d." % os.getpid(), dir=place)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def scene(directory, memory_directory):       # pylint: disable=redefined-outer-name
    stage = Scene(directory, memory_directory)
    yield stage
    stage.take_down()


@pytest.fixture(scope="session")
def worker_directory():
    path = tempfile.mkdtemp(prefix="pw")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def authority(worker_directory):        # pylint: disable=redefined-outer-name
    path = os.path.join(worker_directory, "ca")
    os.mkdir(path)
    return Authority(path)


@pytest.fixture(scope="session")
def postgres(worker_directory, authority):      # pylint: disable=redefined-outer-name
    """A real PostgreSQL shared by the tests of this process; leave it as you found it."""
    path = os.path.join(worker_directory, "pg")
    os.mkdir(path)
    server = Postgres(path, authority)
    yield server
    server.stop()


def pytest_addoption(parser):
    parser.addoption("--few", type=int, metavar="N", help="of each function N tests with parameters: the first, the last, and some between, except for "
                     "functions with the mark every_row, whose parameters are behaviours of their own")


def pytest_configure(config):
    config.addinivalue_line("markers", "every_row: --few leaves out no test of this function")


def pytest_collection_modifyitems(config, items):
    most = config.getoption("--few")
    if not most:
        return
    families = collections.defaultdict(list)
    for item in items:
        families[item.parent.nodeid, getattr(item, "originalname", item.name)].append(item)
    kept = set()
    for family in families.values():
        if len(family) > most and not family[0].get_closest_marker("every_row"):
            family = [family[n * (len(family) - 1) // max(1, most - 1)] for n in range(most)]
        kept.update(map(id, family))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    stage = item.funcargs.get("scene") if hasattr(item, "funcargs") else None
    if report.failed and call.when in ("call", "teardown") and stage:
        report.sections.extend(stage.words())


def write_times(path, stats):
    """For test/changed.py: seconds and name of each file, in place of an earlier line of the file."""
    seconds = collections.Counter()
    for report in sum(stats.values(), []):
        if hasattr(report, "duration"):
            seconds[report.nodeid.split("::")[0]] += report.duration
    path.touch()
    rows = {name: line for line in path.read_text(encoding="utf-8").splitlines() for _, name in [line.split("\t")]}
    rows.update({name: "%.1f\t%s" % (taken, name) for name, taken in seconds.items()})
    path.write_text("".join(line + "\n" for line in rows.values()), encoding="utf-8")


def pytest_terminal_summary(terminalreporter):
    """Leaves the counts for test/run.sh: passed, failed, skipped."""
    if os.environ.get("PGWEIR_TIMES"):
        write_times(pathlib.Path(os.environ["PGWEIR_TIMES"]), terminalreporter.stats)
    path = os.environ.get("PGWEIR_COUNTS")
    if path:
        stats = {word: len(terminalreporter.stats.get(word, ())) for word in ("passed", "failed", "error", "skipped")}
        with open(path, "w", encoding="ascii") as f:
            f.write("%d %d %d\n" % (stats["passed"], stats["failed"] + stats["error"], stats["skipped"]))
