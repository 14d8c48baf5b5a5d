"""SQL that names prepared statements of the protocol: DEALLOCATE and EXECUTE, with the drivers that send them."""
import shutil
import subprocess

import psycopg
import psycopg2
import pytest
from psycopg import pq

from support import messages as m
from support.pooled_postgres import PooledPostgres
from support.postgres import major_version
from support.takeover import Replaced
from support.until import until
from support.wire import Client

OK, ROWS, FAILED = pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.FATAL_ERROR


@pytest.fixture(params=["off", "full"])
def pooled(request, scene, postgres, authority):
    return PooledPostgres(scene, postgres, authority, "transaction", "tcp", default_pool_size=2, session_state=request.param)


@pytest.fixture
def table(postgres):
    postgres.execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept (n int); ALTER TABLE kept OWNER TO app", database="p0")
    yield "kept"
    postgres.execute("DROP TABLE kept", database="p0")


class Session:
    """One client of the protocol itself."""

    def __init__(self, parameters):
        self.connection = psycopg.connect(autocommit=True, **parameters)
        self.pgconn = self.connection.pgconn

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def said(self, result):
        if result.status == FAILED:
            return result.error_field(pq.DiagnosticField.SQLSTATE).decode(), \
                result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY).decode()
        rows = [tuple(result.get_value(row, column) for column in range(result.nfields)) for row in range(result.ntuples)]
        return (result.command_status or b"").decode(), rows

    def prepare(self, name, text):
        return self.said(self.pgconn.prepare(name.encode(), text.encode()))

    def run(self, name, *values):
        return self.said(self.pgconn.exec_prepared(name.encode(), values))

    def query(self, text):
        return self.said(self.pgconn.exec_(text.encode()))

    def parse(self, text):
        """In the extended protocol, as a statement without a name."""
        return self.said(self.pgconn.exec_params(text.encode(), None))

    def texts(self, text):
        """All results of a Query with several statements."""
        self.pgconn.send_query(text.encode())
        said = []
        while (result := self.pgconn.get_result()) is not None:
            said.append(self.said(result))
        return said


GONE = ("26000", 'prepared statement "s1" does not exist')
SPELLINGS = ["DEALLOCATE s1", "deallocate prepare S1;", "/* a /* b */ */ DEALLOCATE -- c\n \"s1\" ; "]


def both(pooled, postgres, script):
    """Returns the results of a script directly, and through pgweir, with another client between."""
    seen = []
    direct = {**pooled.parameters, "host": postgres.host, "port": postgres.port}
    for parameters in (direct, pooled.parameters):
        with Session(parameters) as session, Session(parameters) as other:
            seen.append(script(session, other))
    return seen


def same(pooled, postgres, script):
    direct, ours = both(pooled, postgres, script)
    assert ours == direct
    return ours


@pytest.mark.parametrize("text", SPELLINGS)
@pytest.mark.parametrize("how", ["query", "parse"])
def test_deallocate(pooled, postgres, text, how):
    def script(session, other):
        session.prepare("s1", "SELECT 1")
        other.prepare("s1", "SELECT 1")
        return [getattr(session, how)(text), session.run("s1"), session.prepare("s1", "SELECT 2"), session.run("s1"),
                getattr(session, how)(text), getattr(session, how)(text), other.run("s1")]

    seen = same(pooled, postgres, script)
    assert seen[0] == ("DEALLOCATE", []) and seen[1] == GONE and seen[3] == ("SELECT 1", [(b"2",)]) and seen[5] == GONE


@pytest.mark.parametrize("how", ["query", "parse"])
def test_in_a_transaction(pooled, postgres, table, how):
    def script(session, other):
        session.query("TRUNCATE kept")
        session.query("BEGIN")
        session.prepare("s1", "INSERT INTO kept VALUES ($1)")
        seen = [session.run("s1", b"1"), getattr(session, how)("DEALLOCATE s1"), session.query("COMMIT")]
        return seen + [other.query("SELECT * FROM kept")]

    assert same(pooled, postgres, script)[-1] == ("SELECT 1", [(b"1",)])


@pytest.mark.parametrize("how", ["query", "parse"])
def test_in_a_failed_transaction(pooled, postgres, how):
    def script(session, _other):
        session.prepare("s1", "SELECT 1")
        session.query("BEGIN")
        session.query("nonsense")
        seen = [getattr(session, how)("DEALLOCATE s1"), getattr(session, how)("EXECUTE s1")]
        return seen + [session.query("ROLLBACK"), session.run("s1")]

    seen = same(pooled, postgres, script)
    assert seen[0][0] == seen[1][0] == "25P02" and seen[3] == ("SELECT 1", [(b"1",)])


@pytest.mark.parametrize("how", ["query", "parse"])
def test_execute(pooled, postgres, how):
    def script(session, other):
        ask = getattr(session, how)
        session.prepare("s1", "SELECT $1::int + 1 AS n")
        seen = [ask("EXECUTE s1(41)"), ask("EXECUTE \"s1\" ( 1 );"), ask("EXPLAIN (COSTS off) EXECUTE s1(1)"), ask("EXECUTE s1")]
        other.query("BEGIN")
        seen += [ask("EXECUTE s1('7')"), session.run("s1", b"1"), ask("EXECUTE s2(1)")]
        other.query("COMMIT")
        return seen

    seen = same(pooled, postgres, script)
    assert seen[0] == ("SELECT 1", [(b"42",)]) and seen[3][0] == "42601" and '"s1"' in seen[3][1]


def test_several_in_one_text(pooled, postgres):
    def script(session, other):
        session.prepare("s1", "SELECT 1")
        session.prepare("s2", "SELECT $1::text")
        seen = session.texts("BEGIN; EXECUTE s1; EXECUTE s2('; DEALLOCATE s1'); DEALLOCATE s1; SELECT $$DEALLOCATE s2$$; COMMIT")
        seen += session.texts("EXECUTE s2('a'); DEALLOCATE s1; EXECUTE s2('b')")
        seen += session.texts("DEALLOCATE s2; EXECUTE s2('c')")
        seen += session.texts("PREPARE s3 AS SELECT 3; EXECUTE s3; DEALLOCATE s3; EXECUTE s3")
        return seen + [session.run("s1"), session.run("s2", b"d"), session.prepare("s2", "SELECT 5"), session.run("s2")]

    same(pooled, postgres, script)


def test_parsed_with_a_name(pooled, postgres):
    """The text of a statement refers to another, which may be redefined before its next use, on another server."""
    def script(session, other):
        seen = []
        session.prepare("s1", "SELECT 'first'")
        seen += [session.prepare("e", "EXECUTE s1"), session.run("e"), session.prepare("d", "DEALLOCATE s1")]
        other.query("BEGIN")
        seen += [session.run("e"), session.run("d"), session.run("e"), session.run("d"), session.prepare("s1", "SELECT 'second'")]
        other.query("COMMIT")
        return seen + [session.run("e"), session.run("d"), session.run("s1")]

    seen = same(pooled, postgres, script)
    assert seen[1][1] == [(b"first",)] and seen[8][1] == [(b"second",)] and seen[10] == GONE


REPORTED = [("DateStyle", "SQL, DMY"), ("TimeZone", "Asia/Tokyo"), ("application_name", "mine"), ("search_path", "pg_catalog, public")]


def reports(client, text):
    """Returns the parameters that the server reports during the Query."""
    return [tuple(m.read_cstrings(message.body)) for message in client.query(text).messages if message.type == "S"]


@pytest.mark.parametrize("name, value", REPORTED)
def test_parameters_that_a_failed_parse_rolls_back(pooled, postgres, table, name, value):
    """The second server does not have s1: pgweir parses s1 ahead of EXECUTE. The Parse fails, and the server reports the old value after it."""
    if name == "search_path" and major_version() < 18:
        pytest.skip("PostgreSQL before 18 does not report search_path")
    setting = "SET %s = %s" % (name, value if name == "search_path" else "'%s'" % value)
    seen = []
    for connect in (lambda: Client(postgres.port), pooled.weir.connect):
        client, other = connect(), connect()
        for one in (client, other):
            one.login(user="app", database="p0", password="app-secret")
        client.send(m.parse("SELECT n FROM kept", "s1") + m.sync())
        assert not client.result().errors
        other.query("BEGIN")
        told = [reports(client, text) for text in ("BEGIN", setting, "DROP TABLE kept", "EXECUTE s1", "ROLLBACK")]
        seen.append((told, client.query("SHOW " + name).value))
        for one in (client, other):
            one.quit()
    direct, ours = seen
    assert ours == direct
    assert direct[0][1] == [(name, value)] and direct[0][3] == [(name, direct[1])]


def test_a_pipeline(pooled, postgres):
    def script(session, _other):
        with session.connection.pipeline():
            cursors = [session.connection.execute(text, prepare=prepare) for text, prepare in
                       (("SELECT 1", True), ("DEALLOCATE _pg3_0", False), ("SELECT 2", False))]
        return [cursor.statusmessage for cursor in cursors]

    assert same(pooled, postgres, script) == ["SELECT 1", "DEALLOCATE", "SELECT 1"]


def test_online_restart(scene, postgres):
    """Between the text and its answer pgweir is replaced."""
    weir = scene.weir({"p0": postgres}, kind=Replaced, pool_mode="transaction", default_pool_size=1, server_tls_sslmode="disable")
    client = weir.client()
    client.send(m.parse("SELECT pg_advisory_lock(7)", "lock") + m.parse("SELECT 1", "s1") + m.sync())
    client.result()
    with postgres.connect(database="p0").cursor() as holder:
        holder.execute("SELECT pg_advisory_lock(7)")
        client.send(m.query("EXECUTE lock; DEALLOCATE s1; SELECT 5; DEALLOCATE s1"))
        until(lambda: postgres.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), "it waits")
        weir.replace()
        holder.execute("SELECT pg_advisory_unlock(7)")
    result = client.result()
    assert result.tags == ["SELECT 1", "DEALLOCATE", "SELECT 1"] and GONE[1] in str(result.error)
    client.send(m.parse("SELECT 2", "s1") + m.bind("s1") + m.execute() + m.sync())
    assert client.result().value == "2"


def test_psycopg(pooled):
    """With a small cache psycopg deallocates statements itself."""
    with psycopg.connect(prepare_threshold=0, autocommit=True, **pooled.parameters) as connection:
        connection.prepared_max = 2
        for n in range(30):
            assert connection.execute(f"SELECT %s::int + {n % 5}", (n,)).fetchone() == (n + n % 5,)


PDO = """<?php
$d = new PDO($argv[1], null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
for ($i = 1; $i <= 3; $i++) {
    $d->beginTransaction();
    $s = $d->prepare('INSERT INTO kept VALUES (?)');
    $s->execute([$i]);
    unset($s);
    if (!$d->commit()) exit(1);
}
$s = $d->prepare('SELECT sum(n) FROM kept WHERE n < ?');
$s->execute([100]);
echo $s->fetchColumn();
"""

DBD = r"""use DBI;
my $d = DBI->connect("dbi:Pg:$ARGV[0]", undef, undef, { RaiseError => 1, PrintError => 0, AutoCommit => 0 });
for my $i (1 .. 3) {
    my $s = $d->prepare('INSERT INTO kept VALUES (?)');
    $s->{pg_switch_prepared} = 1;
    $s->execute($i);
    $s->finish;
    undef $s;
    $d->commit;
}
my $s = $d->prepare('SELECT sum(n) FROM kept WHERE n < ?');
$s->execute(100);
print $s->fetchrow_array;
$s->finish;
undef $s;
$d->commit;
$d->disconnect;
"""


def of_words(pooled, separator):
    given = pooled.parameters
    return separator.join(f"{key}={given[key]}" for key in ("host", "port", "user", "password", "dbname"))


@pytest.mark.parametrize("program, script, prefix", [("php", PDO, "pgsql:"), ("perl", DBD, "")], ids=["PDO", "DBD::Pg"])
def test_drivers(pooled, postgres, table, tmp_path, program, script, prefix):
    if not shutil.which(program):
        pytest.fail(f"{program} is not installed")
    file = tmp_path / "script"
    file.write_text(script)
    done = subprocess.run([program, str(file), prefix + of_words(pooled, ";")], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6", "")
    assert postgres.execute("SELECT count(*) FROM kept", database="p0") == [(3,)]


def test_postgres_fdw(pooled, postgres, table):
    """Another PostgreSQL is the client."""
    given = pooled.parameters
    try:
        postgres.execute("CREATE EXTENSION postgres_fdw", database="postgres")
    except psycopg2.errors.UndefinedFile as why:        # PostgreSQL 18 from PyPI brings a library that lacks a symbol of libpq
        pytest.skip(str(why))
    statements = [f"CREATE SERVER weir FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{given['host']}', port '{given['port']}', "
                  f"dbname '{given['dbname']}')",
                  f"CREATE USER MAPPING FOR CURRENT_USER SERVER weir OPTIONS (user '{given['user']}', password '{given['password']}')",
                  "CREATE FOREIGN TABLE far (n int) SERVER weir OPTIONS (table_name 'kept')"]
    try:
        postgres.execute("; ".join(statements), database="postgres")
        for n in range(3):
            postgres.execute(f"BEGIN; INSERT INTO far VALUES ({n}), ({n}); UPDATE far SET n = n + 10 WHERE n = {n} AND random() >= 0; COMMIT",
                             database="postgres")
        assert postgres.execute("SELECT sum(n), count(*) FROM far", database="postgres") == [(66, 6)]
    finally:
        postgres.execute("DROP EXTENSION IF EXISTS postgres_fdw CASCADE", database="postgres")
