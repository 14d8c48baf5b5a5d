"""
Other users of the same machine: they keep pgweir neither from starting nor from being replaced, and cannot fill its log.
Where run.sh is root, the other user is a real one (support/neighbour.py).
"""
import fcntl
import os
import re
import socket
import stat
import subprocess
import tempfile

import pytest

from support.neighbour import Neighbour
from support.ports import free_port
from support.takeover import Replaced
from support.until import DEADLINE, until
from support.wire import Client, Closed, LoginRefused


@pytest.fixture
def neighbour():
    path = os.environ.get("PGWEIR_NEIGHBOUR")
    if not path:
        pytest.skip("there is no process of another user: see run.sh")
    other = Neighbour(path)
    assert other.does("who") not in (0, os.geteuid())
    return other


@pytest.fixture
def place(scene):
    """A directory that every user may look into, as /run/pgweir is."""
    os.chmod(scene.directory, 0o755)
    path = tempfile.mkdtemp(dir=scene.directory)
    os.chmod(path, 0o755)
    return path


@pytest.fixture
def weir(scene, place):
    return scene.weir(scene.mini(), kind=Replaced, pool_mode="transaction", pidfile=os.path.join(place, "pgweir.pid"),
                      allow="not started|belongs to process|is locked by")


def is_replaced(weir):
    """A client that is connected does not notice."""
    client = weir.client()
    weir.replace()
    assert client.query("there").value == "there"


def killed(weir):
    weir.process.kill()
    weir.process.wait(DEADLINE)
    os.unlink(weir.log_path)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# --- the pidfile


def test_files_beside_the_pidfile_are_private(weir, place):
    pidfile = weir.settings["pidfile"]
    assert sorted(os.listdir(place)) == ["pgweir.pid", "pgweir.pid.lock", "pgweir.pid.takeover"]
    for _ in range(2):
        assert (mode(pidfile), mode(pidfile + ".lock"), mode(pidfile + ".takeover")) == (0o644, 0o600, 0o600)
        is_replaced(weir)
    weir.stop()
    assert not os.listdir(place)


@pytest.mark.parametrize("how", ["flock", "flock shared", "fcntl", "open file description"])
def test_lock_of_a_reader_does_not_prevent_a_start(weir, how):
    """Taken here by a process of our own user, which has no more than a descriptor to read from."""
    def lock(file):
        if how.startswith("flock"):
            fcntl.flock(file, (fcntl.LOCK_SH if "shared" in how else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        else:
            whole = b"\0" * 32      # struct flock: F_RDLCK, SEEK_SET, all bytes
            fcntl.fcntl(file, fcntl.F_SETLK if how == "fcntl" else 37, whole)

    killed(weir)
    with open(weir.settings["pidfile"], encoding="ascii") as file:
        lock(file)
        weir.start()
        is_replaced(weir)


def test_locks_of_another_user_do_not_prevent_a_start(weir, neighbour):
    pidfile = weir.settings["pidfile"]
    for path in (pidfile + ".lock", pidfile + ".takeover"):
        assert neighbour.does("open", path, os.O_RDONLY) == "Permission denied"
    killed(weir)
    with neighbour.begins("lock", pidfile) as done:
        assert done == ["flock", "fcntl"]
        weir.start()
        is_replaced(weir)
        killed(weir)
        weir.start()


def second_start(weir):
    """Returns the error message of a plain start, which must fail."""
    done = subprocess.run(weir.command(), stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE, check=False,
                          text=True)
    assert done.returncode == 1
    return done.stderr


def test_one_process_at_a_time(weir):
    """Also when an administrator has removed the pidfile."""
    assert "belongs to process %d, which is running" % weir.pid in second_start(weir)
    os.unlink(weir.settings["pidfile"])
    assert "is locked by another process" in second_start(weir)
    is_replaced(weir)
    assert "belongs to process %d, which is running" % weir.pid in second_start(weir)


def test_process_id_reused_by_another_user(weir):
    """The id of a process that was killed is given to others again."""
    killed(weir)
    with open(weir.settings["pidfile"], "w", encoding="ascii") as file:
        file.write("1\n")
    try:
        os.kill(1, 0)
        pytest.skip("process 1 is of our own user")
    except PermissionError:
        weir.start()


# --- the socket for online restarts


def no_word_of_refusals(weir):
    assert not re.search("connections refused|not be possible|another user", weir.log())


def test_occupied_abstract_name(weir):
    """Earlier versions listened there. The name follows from the inode of the pidfile, which is the same after a kill."""
    killed(weir)
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(weir.address_of_earlier_version())
        squatter.listen()
        weir.start()
        is_replaced(weir)
    no_word_of_refusals(weir)


def test_another_user_occupies_the_abstract_name(weir, neighbour):
    """The occupied name does not prevent -R without a running process either."""
    killed(weir)
    name = "@" + weir.address_of_earlier_version()[1:]
    with neighbour.begins("bind", name) as done:
        assert done == "bound"
        weir.process = weir.launch()
        weir.wait_log(r"\[%d\] LOG process up" % weir.pid)
        is_replaced(weir)
    no_word_of_refusals(weir)


def test_another_user_floods_every_name(weir, neighbour):
    assert neighbour.does("connect", weir.address()) == "Permission denied"
    with neighbour.begins("flood", weir.address()), neighbour.begins("flood", "@" + weir.address_of_earlier_version()[1:]):
        for _ in range(3):
            is_replaced(weir)
    no_word_of_refusals(weir)


@pytest.fixture
def abstract(scene):
    """The Unix socket for clients is abstract, and there is no pidfile: so is the socket for online restarts."""
    return scene.weir(scene.mini(), kind=Replaced, pool_mode="transaction", pidfile="",
                      unix_socket_dir="@pgweir-%d" % free_port())


def test_another_user_floods_an_abstract_socket(abstract, neighbour):
    with neighbour.begins("flood", "@" + abstract.address()[1:]):
        abstract.wait_log("online restart: connections refused")
        for _ in range(3):
            is_replaced(abstract)
    abstract.barrier()
    lines = re.findall(r"online restart: connections refused: \d+, the last one of process \d+, which is of user (\d+)$",
                       abstract.log(), re.MULTILINE)
    # each process has one, and none a second one within a minute
    assert 1 <= len(lines) <= 4
    assert set(lines) == {str(neighbour.does("who"))}


def test_without_other_users_the_abstract_socket_serves(abstract):
    for _ in range(2):
        is_replaced(abstract)


def test_refused_connections_log_one_line(weir):
    """Connections of our own user, during a takeover."""
    with weir.ask():
        for _ in range(100):
            with weir.connect_channel() as other:
                assert other.is_closed()
    assert "online restart: connections refused: " in weir.log()
    assert len(re.findall("connections refused|wanted to take over", weir.log())) == 1
    is_replaced(weir)


def waits_for_room(process):
    """The process is in connect(); a kernel that does not show this reports another sleep."""
    def read(name):
        with open("/proc/%d/%s" % (process.pid, name), encoding="ascii") as file:
            return file.read()

    assert process.poll() is None, "it does not wait"
    where = read("wchan")
    return where == "unix_wait_for_peer" or (where == "0" and read("stat").rpartition(")")[2].split()[0] == "S")


def test_the_new_process_waits_for_room_in_a_full_queue(weir):
    crowd = []
    with weir.one_turn():
        while True:
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            crowd.append(sock)
            try:
                sock.connect(weir.address())
            except BlockingIOError:
                break
        new = weir.launch()
        until(lambda: waits_for_room(new), "it waits")
        for sock in crowd:
            sock.close()
    weir.wait_log("took over from process")
    weir.predecessors.append(weir.process)
    weir.process = new


# --- the Unix socket for clients

def enters(come):
    """A client that is refused comes again."""
    def tries():
        with come() as client:
            try:
                client.login(user="app", database="p0", password="app-secret")
            except (LoginRefused, Closed):
                return False
            assert client.query("in").value == "in"
            return True
    until(tries, "a client is let in")


@pytest.mark.parametrize("limit", ["max_client_conn", "descriptors"])
def test_another_user_does_not_fill_the_unix_socket(scene, place, neighbour, limit):
    """Its connections count for one address: clients of the network, and of the daemon's own user, are accepted."""
    options, count = ({"max_client_conn": 20}, 20) if limit == "max_client_conn" else ({"max_client_conn": 40, "nofile": 128}, 300)
    weir = scene.weir(scene.mini(), auth_type="plain", unix_socket_dir=place, client_login_timeout=600, **options)
    with neighbour.begins("hold", "%s/.s.PGSQL.%d" % (place, weir.port), count) as said:
        assert said == "connected"
        for _ in range(3):
            enters(weir.connect)
        enters(lambda: Client(weir.port, place))
    weir.wait_log(r"C-\S+ \(nodb\)/\(nouser\)@unix\S* closing because: no more connections allowed")
