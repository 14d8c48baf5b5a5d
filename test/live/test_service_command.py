"""The command line, the pidfile, the background, the log file: pgweir as a process."""
import hashlib
import os
import pwd
import re
import resource
import signal
import subprocess
import termios

import psycopg2
import pytest

from support.live import pid_of
from support.pgweir import binary
from support.ports import free_port
from support.postgres import SECRETS
from support.until import DEADLINE, until

ENVIRONMENT = dict(os.environ, TZ="UTC", ASAN_OPTIONS="exitcode=99")


def run(*arguments):
    """Runs it to its end: (status, stdout, stderr)."""
    done = subprocess.run([binary(), *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE,
                          check=False)
    return done.returncode, done.stdout, done.stderr


class Files:
    """A configuration file and the files that it names."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.ini, self.log, self.pidfile = (os.path.join(directory, name) for name in ("a.ini", "a.log", "a.pid"))

    def write(self, **settings):
        settings = dict({"listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "",
                         "auth_type": "any"}, **settings)
        with open(self.ini, "w", encoding="utf-8") as f:
            f.write("[databases]\np0 = host=127.0.0.1 user=x\n[pgbouncer]\n")
            f.writelines("%s = %s\n" % item for item in settings.items() if item[1] is not None)
        return self.ini

    def read(self, path):
        try:
            with open(path, encoding="utf-8") as f:
                return f.read()
        except FileNotFoundError:
            return ""


@pytest.fixture
def files(directory):
    return Files(directory)


@pytest.fixture
def spawn(files):
    """Starts a process in the foreground; all are ended with the test."""
    started = []

    def start(*arguments, until_up=True, **options):
        process = subprocess.Popen([binary(), *arguments, files.ini], env=options.pop("env", ENVIRONMENT),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=open(files.directory + "/stderr", "ab"), **options)
        started.append(process)
        if until_up:
            until(lambda: "process up" in files.read(files.directory + "/stderr") + files.read(files.log)
                  or process.poll() is not None, "it comes up")
            assert process.poll() is None, files.read(files.directory + "/stderr")
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT)
        assert process.wait(DEADLINE) in (0, 1)
        process.stdout.close()


# --- one-shot options

@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option):
    status, out, _ = run(option)
    assert status == 0
    first, *rest = out.splitlines()
    assert re.fullmatch(r"PgBouncer 1\.25\.2 \(pgweir \d+\.\d+\.\d+\)", first)
    assert any("libevent" in line for line in rest) and any("OpenSSL" in line for line in rest)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option):
    status, out, _ = run(option)
    assert status == 0
    for name in ("--daemon", "--quiet", "--verbose", "--user", "--reboot", "--version", "--help", "--check",
                 "--print-config"):
        assert name in out


@pytest.mark.parametrize("arguments", [[], ["--nosuch", "x.ini"], ["a.ini", "b.ini"], ["/nowhere/at/all.ini"]])
def test_bad_command_line(arguments):
    status, out, err = run(*arguments)
    assert status == 1 and not out and err


def test_check_lists_every_problem(files):
    with open(files.ini, "w", encoding="utf-8") as f:
        f.write("[databases]\np0 = host=127.0.0.1 prot=5432\np1 = host='unclosed\n[users]\nu = pool_mode=sometimes\n"
                "[pgbouncer]\nlisten_port = many\nmax_client_con = 5\nauth_type = secret\n"
                "server_lifetime = -1\n[nonsense]\nx = 1\n")
    status, out, _ = run("--check", files.ini)
    assert status == 1
    found = {int(line) for line in re.findall(r"^%s:(\d+): " % re.escape(files.ini), out, re.M)}
    assert {2, 3, 5, 7, 8, 9, 10, 11} <= found, out
    assert re.search(r":2: .*port", out) and re.search(r":8: .*max_client_conn", out), out
    status, _, err = run(files.ini)
    assert status == 1
    assert re.search(r"a\.ini:7: ", err) and re.search(r"a\.ini:9: ", err)


def test_check_of_a_valid_file(files):
    status, out, _ = run("--check", files.write())
    assert (status, out.count("\n")) == (0, 1)


def test_check_reads_the_named_files(files):
    status, out, _ = run("--check", files.write(auth_type="md5", auth_file="/nowhere/userlist.txt"))
    assert status == 1 and "/nowhere/userlist.txt" in out
    status, out, _ = run("--check", files.write(client_tls_sslmode="require", client_tls_cert_file="/nowhere/crt",
                                                client_tls_key_file="/nowhere/key"))
    assert status == 1 and "/nowhere/" in out


# Obstacles to a start with a valid file, and the error messages; {dir} is the directory of the files.
FAULTS = {
    "account": ({"user": "no-such-account"}, 'user "no-such-account": there is no such account'),
    "root": ({"user": "root"}, 'user "root" is root: pgweir should not run as root'),
    "directory of the log": ({"logfile": "{dir}/none/a.log"}, 'log file "{dir}/none/a.log": No such file or directory'),
    "log": ({"logfile": "/proc/version"}, 'log file "/proc/version": Permission denied'),
    "log is a directory": ({"logfile": "{dir}"}, 'log file "{dir}": Is a directory'),
    "directory of the pidfile": ({"pidfile": "{dir}/none/a.pid"}, 'cannot open "{dir}/none/a.pid'),
    "address": ({"listen_addr": "192.0.2.1"}, "cannot listen on 192.0.2.1:{port}: Cannot assign requested address"),
    "name": ({"listen_addr": "name.invalid"}, "cannot listen on name.invalid: "),
    "directory of the socket": ({"unix_socket_dir": "{dir}/none"}, "cannot listen on unix:{dir}/none/.s.PGSQL.{port}: "),
    "group": ({"unix_socket_dir": "{dir}", "unix_socket_group": "no-such-group"}, 'group "no-such-group" does not exist'),
    "group of others": ({"unix_socket_dir": "{dir}", "unix_socket_group": "0"}, 'to group "0": Operation not permitted'),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_reports_obstacles_to_a_start(files, fault):
    settings, text = FAULTS[fault]
    if fault == "group of others" and 0 in os.getgroups() + [os.getgid()]:
        pytest.skip("this account is in group 0")

    def fill(value):
        return value.replace("{dir}", files.directory).replace("{port}", str(files.port))
    files.write(**{name: fill(value) for name, value in settings.items()})
    before = sorted(os.listdir(files.directory))
    status, out, _ = run("--check", files.ini)
    assert status == 1 and fill(text) in out, out
    assert sorted(os.listdir(files.directory)) == before
    status, _, err = run(files.ini)
    assert status == 1 and fill(text) in err, err


def test_check_with_a_running_pooler(files, spawn):
    """The pidfile, log, port and socket of the running process are not reported."""
    files.write(pidfile=files.pidfile, logfile=files.log, unix_socket_dir=files.directory)
    spawn()
    status, out, _ = run("--check", files.ini)
    assert (status, out.count("\n")) == (0, 1), out


def test_check_of_an_account_that_only_root_becomes(files):
    """The start may be by root."""
    status, out, _ = run("--check", files.write(user="daemon"))
    assert status == 0
    assert re.search(r'^warning: a start by this account would fail: cannot become user "daemon"', out, re.M), out


def test_check_of_the_background(files):
    status, out, _ = run("--check", "-d", files.write())
    assert status == 1 and "-d needs pidfile, and logfile or syslog, to be set" in out


def test_check_without_addresses(files):
    """systemd may have sockets for it."""
    status, out, _ = run("--check", files.write(listen_addr=None))
    assert status == 0 and "nowhere to listen but on sockets from systemd" in out


@pytest.mark.parametrize("name", ["job_name", "service_name"])
def test_job_name_is_accepted_without_effect(files, scene, postgres, name):
    files.write(**{name: "weir"})
    status, out, err = run("--check", files.ini)
    assert status == 0 and '"job_name" has no effect here' in out + err
    weir = scene.weir({"p0": postgres}, **{name: "weir"})
    assert [row["value"] for row in weir.show("CONFIG") if row["key"] == "job_name"] == ["weir"]
    weir.wait_log('WARNING .*"job_name" has no effect here')


def test_print_config(files):
    status, out, _ = run("--print-config", files.write(default_pool_size=7, pool_mode="transaction", auth_dbname="$${x}$1"))
    assert status == 0
    printed = dict(line.split(" = ", 1) for line in out.splitlines() if " = " in line)
    assert (printed["default_pool_size"], printed["pool_mode"]) == ("7", "transaction")
    assert printed["auth_dbname"] == "$${x}$1"          # as the file has to write it
    assert printed["server_reset_query"] == "DISCARD ALL" and len(printed) > 80


# --- the log

def test_quiet_silences_stderr_only(files, spawn):
    files.write(logfile=files.log)
    spawn("-q")
    assert "process up" in files.read(files.log)
    assert files.read(files.directory + "/stderr") == ""


def test_log_goes_to_stderr_and_to_the_file(files, spawn):
    files.write(logfile=files.log)
    spawn()
    assert files.read(files.log).splitlines() == files.read(files.directory + "/stderr").splitlines()
    line = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+\] (LOG|WARNING|ERROR|FATAL|NOISE|DEBUG) \S")
    assert all(line.match(entry) for entry in files.read(files.log).splitlines())
    assert "listening on 127.0.0.1:%d" % files.port in files.read(files.log)
    assert re.search(r"process up: pgweir \S+, libevent \S+ \(\w+\), adns: c-ares \S+, tls: OpenSSL",
                     files.read(files.log))


@pytest.mark.parametrize("options, most", [
    ((), "LOG"), (("-v",), "DEBUG"), (("-v", "-v"), "NOISE"), (("-vv",), "NOISE")])
def test_verbose(scene, postgres, tmp_path, options, most):
    """A login says at NOISE which line of the HBA file it matched."""
    rules = tmp_path / "hba"
    rules.write_text("host all all 127.0.0.1/32 trust\n", encoding="utf-8")
    weir = scene.weir({"p0": postgres}, arguments=options, auth_type="hba", auth_hba_file=str(rules))
    weir.client()
    levels = set(re.findall(r"^\S+ \S+ UTC \[\d+\] (\w+) ", weir.log(), re.M))
    order = ["LOG", "DEBUG", "NOISE"]
    assert not levels & set(order[order.index(most) + 1:])
    assert most != "NOISE" or "NOISE" in levels


def test_log_file_is_opened_again_at_hup(scene, postgres):
    weir = scene.weir({"p0": postgres})
    os.rename(weir.log_path, weir.log_path + ".1")
    weir.client()
    weir.signal(signal.SIGHUP)
    until(lambda: "RELOAD" in weir.log(), "the new file is written to")
    pid_of(weir.client())
    with open(weir.log_path + ".1", encoding="utf-8") as f:
        assert "login attempt" in f.read()
    assert "login attempt" in weir.log()


def test_missing_syslog_does_not_prevent_a_start(files, spawn):
    """Where no process listens on /dev/log the lines are lost, and nothing else is."""
    files.write(syslog=1, syslog_ident="pgweir-test", syslog_facility="local0")
    spawn()
    assert "process up" in files.read(files.directory + "/stderr")


# --- pidfile, background

def test_pidfile(files, spawn):
    files.write(pidfile=files.pidfile)
    process = spawn()
    assert files.read(files.pidfile) == "%d\n" % process.pid
    status, _, err = run(files.ini)
    assert status == 1 and "belongs to process %d, which is running" % process.pid in err
    assert process.poll() is None
    process.send_signal(signal.SIGQUIT)
    assert process.wait(DEADLINE) == 0
    assert not os.path.exists(files.pidfile)


def test_stale_pidfile_is_replaced(files, spawn):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with open(files.pidfile, "w", encoding="ascii") as f:
        f.write("%d\n" % gone.pid)
    files.write(pidfile=files.pidfile)
    process = spawn()
    assert files.read(files.pidfile) == "%d\n" % process.pid


def test_daemon(files):
    files.write(pidfile=files.pidfile, logfile=files.log)
    status, out, _ = run("-d", files.ini)
    assert (status, out) == (0, "")
    pid = int(files.read(files.pidfile))
    assert "process up" in files.read(files.log)
    assert os.getsid(pid) not in (os.getsid(0), pid)
    assert {os.readlink("/proc/%d/fd/%d" % (pid, fd)) for fd in (0, 1, 2)} == {"/dev/null"}
    os.kill(pid, signal.SIGQUIT)
    until(lambda: not os.path.exists(files.pidfile), "it has ended")


@pytest.mark.parametrize("missing", ["pidfile", "logfile"])
def test_daemon_needs_pidfile_and_a_log(files, missing):
    settings = {"pidfile": files.pidfile, "logfile": files.log}
    del settings[missing]
    status, _, err = run("-d", files.write(**settings))
    assert status == 1 and "-d needs pidfile" in err


def test_daemon_reports_a_failed_start(files, spawn):
    files.write(logfile=files.log)
    spawn()
    files.write(pidfile=files.pidfile, logfile=files.log)
    status, _, _ = run("-d", files.ini)
    assert status == 1 and "cannot listen on 127.0.0.1" in files.read(files.log)


# --- user, limits

def test_user_that_does_not_exist(files):
    status, _, err = run("-u", "nobody-of-this-name", files.write())
    assert status == 1 and "there is no such account" in err


def test_user_of_the_process_itself(files, spawn):
    files.write()
    spawn("-u", pwd.getpwuid(os.geteuid()).pw_name)


def test_root_is_refused_as_user(files):
    status, _, err = run("-u", "root", files.write())
    assert status == 1 and "root" in err


def test_too_few_descriptors_are_warned_about(scene, postgres):
    weir = scene.weir({"p0": postgres}, nofile=200, max_client_conn=10000)
    weir.wait_log("WARNING the configuration may need [0-9]+ open files, but only 200 are allowed")
    assert pid_of(weir.client())


def test_descriptors_are_raised_to_what_is_needed(scene, postgres):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(2000, hard - 500)
    weir = scene.weir({"p0": postgres}, max_client_conn=wanted)
    with open("/proc/%d/limits" % weir.pid, encoding="ascii") as f:
        (soft,) = re.findall(r"^Max open files\s+(\d+)", f.read(), re.M)
    assert int(soft) >= wanted


# --- --hash-password

def hashed(password, *arguments):
    """(status, stdout, stderr) with the password on standard input."""
    done = subprocess.run([binary(), "--hash-password", *arguments], input=password, capture_output=True, timeout=DEADLINE, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("password", ["simple", "I\u00adX \u2168 \u00aa", "it's \"quoted\" \\ $", "\u0007", "x" * 4000])
@pytest.mark.parametrize("method", [(), ("scram-sha-256",), ("md5",)])
def test_hashed_password_is_accepted_by_postgresql_and_pgweir(scene, postgres, password, method):
    status, line, err = hashed(password.encode() + b"\nrest", *method, 'ha"sh')
    assert (status, err) == (0, "")
    user, secret = re.fullmatch(r'"(ha""sh)" "([^"]*)"\n', line).groups()
    assert secret.startswith("md5" if method == ("md5",) else "SCRAM-SHA-256$4096:")
    weir = scene.weir({"p0": "host=127.0.0.1 port=%d dbname=p0 user=app password=%s" % (postgres.port, SECRETS["app"])}, auth_type="md5")
    with open(weir.path("userlist.txt"), "a", encoding="utf-8") as f:
        f.write(line)
    weir.admin("RELOAD")
    client = psycopg2.connect(host="127.0.0.1", port=weir.port, user=user.replace('""', '"'), password=password, dbname="p0")
    client.cursor().execute("SELECT 1")
    client.close()
    if method == ("md5",):
        assert secret == "md5" + hashlib.md5((password + 'ha"sh').encode()).hexdigest()
        return
    postgres.execute('CREATE ROLE "ha""sh" LOGIN PASSWORD \'%s\'' % secret)
    try:
        psycopg2.connect(host=postgres.host, port=postgres.port, user='ha"sh', password=password, dbname="p0").close()
    finally:
        postgres.execute('DROP ROLE "ha""sh"')


def test_hashed_password_without_user():
    first, second = hashed(b"secret"), hashed(b"secret\r\n")
    assert first[0] == second[0] == 0 and first[1].startswith("SCRAM-SHA-256$4096:")
    assert first[1] != second[1]                # another salt


@pytest.mark.parametrize("given, why", [(b"", "empty"), (b"\n", "empty"), (b"a\0b\n", "NUL"), (b"x" * 4096, "too long")])
def test_password_that_cannot_be_hashed(given, why):
    status, out, err = hashed(given, "alice")
    assert (status, out) == (1, "") and why in err


@pytest.mark.parametrize("again, status", [(b"secret\n", 0), (b"secrets\n", 1)])
def test_password_of_the_terminal_has_no_echo(again, status):
    ours, theirs = os.openpty()
    process = subprocess.Popen([binary(), "--hash-password", "alice"], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    for question, answer in ((b"Password: ", b"secret\n"), (b"again: ", again)):
        while not shown.endswith(question):
            shown += os.read(ours, 100)
        os.write(ours, answer)
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == status and out.startswith(b'"alice" "SCRAM') == (status == 0)
    assert b"secret" not in shown
    assert termios.tcgetattr(ours)[3] & termios.ECHO
    os.close(ours)
