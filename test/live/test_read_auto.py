"""
reads = auto with real servers: each statement gives through pgweir what the primary gives, and no client reads older data than its own writes.

The statements are the kinds of traps 39 to 60 (host_traps.tsv). The role app owns everything; functions swallow errors, take locks and read about the node.
"""
import time

import psycopg2
import pytest

from support.postgres import SECRETS
from support.until import until

OBJECTS = """
CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT i, 'b' || i FROM generate_series(1, 20) i;
CREATE TABLE traces (i int);
CREATE SEQUENCE s;
CREATE UNLOGGED TABLE unlogged (i int);
INSERT INTO unlogged VALUES (1);
CREATE FUNCTION spoil() RETURNS int LANGUAGE plpgsql AS
    $$BEGIN INSERT INTO traces VALUES (1); RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN -1; END$$;
CREATE FUNCTION claims_stable() RETURNS int STABLE LANGUAGE sql AS 'SELECT spoil()';
CREATE FUNCTION tell() RETURNS bool STABLE LANGUAGE sql AS 'SELECT pg_is_in_recovery()';
CREATE VIEW v AS SELECT spoil() AS i;
CREATE FUNCTION same(text, text) RETURNS bool LANGUAGE sql AS 'SELECT spoil() = 1';
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = same);
CREATE DOMAIN checked AS int CHECK (spoil() = 1);
CREATE FUNCTION total(t) RETURNS int LANGUAGE sql AS 'SELECT spoil()';
CREATE TABLE policed (i int);
INSERT INTO policed VALUES (1);
ALTER TABLE policed ENABLE ROW LEVEL SECURITY;
ALTER TABLE policed FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON policed USING (spoil() = 1);
CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t;
"""
# of a superuser
FOREIGN = """
CREATE FOREIGN DATA WRAPPER wrapper;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER wrapper;
CREATE FOREIGN TABLE away (i int) SERVER elsewhere;
GRANT SELECT ON away TO app;
"""

READS = [
    "SELECT 1", "SELECT a, b FROM t ORDER BY a", "SELECT count(*) FROM t WHERE b LIKE 'b1%'", "SELECT upper(b) FROM t WHERE a = 3", "VALUES (1, 'x'), (2, 'y')",
    "WITH w AS (SELECT a FROM t WHERE a < 5) SELECT sum(a) FROM w", "SELECT x.a FROM t x JOIN t y ON x.a = y.a WHERE y.b = 'b7'", "SELECT n FROM m",
    "SELECT a FROM t WHERE a IN (SELECT a FROM t WHERE a > 18) ORDER BY 1 DESC", "SELECT 1 / 0", "SELECT no_such_column FROM t", "SELECT a FROM no_such_table",
    "SELECT 'x'::int", "SELECT coalesce(NULL, 3), CASE WHEN true THEN 1 END, extract(year FROM date '2020-01-01')", "SELECT repeat('long', 10000)",
]
# by trap; traps 55, 56 and 58 to 60 are no statements
TRAPS = {
    39: ["SELECT spoil()", "SELECT claims_stable()", "SELECT tell()", "SELECT /* a comment */ spoil()", "select SPOIL ( )", "SELECT \"spoil\"()",
         "SELECT public.spoil()", "DO 'BEGIN PERFORM spoil(); END'", "CALL no_procedure()", "SELECT query_to_xml('SELECT spoil()', true, true, '')::text"],
    40: ["SELECT inet_server_port()", "SELECT setting FROM pg_settings WHERE name = 'cluster_name'", "SELECT current_setting('transaction_read_only')",
         "SELECT count(*) FROM pg_stat_wal_receiver", "SELECT gid FROM pg_prepared_xacts", "SELECT txid_current() > 0",
         "SELECT xmin <> '0'::xid FROM t WHERE a = 1"],
    41: ["SELECT pg_try_advisory_lock(7), pg_advisory_unlock(7)", "SELECT pg_try_advisory_xact_lock_shared(7)"],
    42: ["ALTER SYSTEM SET work_mem = '5MB'", "CHECKPOINT", "LOAD 'plpgsql'", "SELECT pg_reload_conf()", "SELECT pg_stat_reset()",
         "SELECT pg_wal_replay_pause()", "SELECT pg_create_physical_replication_slot('x')", "SELECT pg_backup_start('x')", "SELECT pg_notify('c', '')",
         "SELECT set_config('work_mem', '1MB', true)"],
    # currval before nextval, which defines the value for the session of the server
    43: ["SELECT i FROM unlogged", "SELECT currval('s')", "SELECT lastval()", "SELECT nextval('s') > 0", "SELECT lo_creat(-1) > 0",
         "SELECT pg_logical_emit_message(false, 'a', 'b') > '0/0'", "SELECT pg_current_wal_insert_lsn() > '0/0'",
         "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "BEGIN READ WRITE", "SELECT a FROM t WHERE a = 1 FOR UPDATE",
         "SELECT a FROM t WHERE a = 1 FOR SHARE", "WITH w AS (INSERT INTO traces VALUES (2) RETURNING i) SELECT i FROM w", "SELECT a INTO t FROM t",
         "INSERT INTO traces VALUES (9)", "UPDATE t SET b = b WHERE a = 2", "DELETE FROM traces WHERE i = 9"],
    44: ["SELECT last_value > 0 FROM s", "SELECT sequencename FROM pg_sequences"],
    45: ["SELECT i FROM v", "TABLE v", "SELECT 'a'::text === 'b'::text", "SELECT 1::checked", "SELECT t.total FROM t LIMIT 1", "SELECT i FROM policed"],
    46: ["SELECT i FROM away", "COPY (SELECT 1) TO PROGRAM 'true'"],
    47: ["SELECT 1; SELECT spoil()", "SELECT 1; INSERT INTO traces VALUES (4)"],
    # known to newer servers only
    48: ["SELECT JSON_OBJECT('k': 1)::text", "SELECT a FROM JSON_TABLE(jsonb '[1]', '$[*]' COLUMNS (a int PATH '$')) j",
         "MERGE INTO traces USING (SELECT 1) x ON false WHEN NOT MATCHED THEN INSERT VALUES (6) RETURNING i"],
    49: ["SELECT 1" + 50000 * "+1", "SELECT 1" + 2000 * " UNION SELECT 1"],
    50: ["EXPLAIN (COSTS off) SELECT 1", "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) INSERT INTO traces VALUES (3)", "LOCK t",
         "REFRESH MATERIALIZED VIEW m"],
    51: ["SELECT 'a\\'; SELECT spoil() --'", "SELECT $$a$$; SELECT spoil()", "SELECT 1 /* /* */ */; SELECT spoil() -- */",
         "SELECT E'a\\'', spoil()::text, '--'", "SELECT U&'\\0061'"],
    52: ["BEGIN READ ONLY; SELECT 1; COMMIT; INSERT INTO traces VALUES (5)"],
    53: ["BEGIN READ ONLY; SET TRANSACTION READ WRITE; INSERT INTO traces VALUES (7); COMMIT"],
    54: ["SELECT pg_export_snapshot() <> ''", "SET TRANSACTION SNAPSHOT '00000003-00000001-1'"],
    57: ["SHOW transaction_read_only", "SELECT pg_is_in_recovery()"],
}


@pytest.fixture(name="nodes")
def make_nodes(scene):
    cluster = scene.nodes()
    cluster.primary.execute(OBJECTS, database="p0", user="app")
    cluster.primary.execute(FOREIGN, database="p0")
    cluster.wait_replayed()
    return cluster


def weir_of(scene, nodes, read_check_period=600, **more):
    """The catalogue is asked again about all texts after half of read_check_period."""
    weir = scene.weir({"p0": nodes.target("p0", target_session_attrs="primary", reads="auto", reads_on_primary="off", **more)}, pool_mode="transaction",
                      server_login_retry=0, read_check_period=read_check_period, show_extra_columns=1)
    weir.client().close()       # hosts are asked for clients
    until(lambda: sorted(row["role"] for row in weir.show("HOSTS")) == ["primary", "standby", "standby"])
    return weir


def direct(nodes, text):
    """The same of the primary itself."""
    server = nodes.primary.connect("app", "p0")
    server.autocommit = True
    try:
        with server.cursor() as cursor:
            try:
                cursor.execute(text)
            except psycopg2.Error as error:
                return [], [(error.pgcode, error.diag.message_primary)]
            return cursor.fetchall() if cursor.description else [], []
    finally:
        server.close()


def through(weir, text):
    client = psycopg2.connect(host="127.0.0.1", port=weir.port, user="app", password=SECRETS.get("app"), dbname="p0")
    client.autocommit = True
    try:
        seen = []
        for _ in range(3):
            with client.cursor() as cursor:
                try:
                    cursor.execute(text)
                    seen.append((cursor.fetchall() if cursor.description else [], []))
                except psycopg2.Error as error:
                    seen.append(([], [(error.pgcode, error.diag.message_primary)]))
        return seen
    finally:
        client.close()


def log_statements(nodes):
    for node in nodes.nodes:
        node.execute("ALTER SYSTEM SET log_statement = 'all'")
        node.execute("SELECT pg_reload_conf()")
    for node in nodes.nodes:
        until(lambda node=node: node.execute("SHOW log_statement")[0][0] == "all")


def came_to_standbys(nodes, text):
    logs = ""
    for standby in nodes.standbys:
        with open(standby.log_path, encoding="utf-8") as log:
            logs += log.read()
    return ": " + text + "\n" in logs


@pytest.mark.parametrize("texts", [READS, sum(TRAPS.values(), [])], ids=["reads", "traps"])
def test_statements(scene, nodes, texts):
    """
    Host traps 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54 and 57. Each statement thrice: at first, with the question, and when
    the verdict is known. Only reads come to a standby.
    """
    weir = weir_of(scene, nodes, read_your_writes="off")
    log_statements(nodes)
    for text in texts:
        expected = direct(nodes, text)
        for seen in through(weir, text):
            assert seen == expected, text
    for text in texts:
        assert came_to_standbys(nodes, text) == (texts is READS), text


def test_own_writes(scene, nodes):
    """A client that writes and reads again and again sees its last write each time. When a standby shows the write, the standby reads."""
    weir = weir_of(scene, nodes)
    log_statements(nodes)
    client = weir.client()
    text = "SELECT count(*) FROM traces"
    for number in range(1, 100):
        client.query("INSERT INTO traces VALUES (%d)" % number)
        for _ in range(3):
            assert client.query(text).value == str(number)

    def reads():
        assert client.query(text).value == "99"
        return came_to_standbys(nodes, text)
    until(reads)


DDL = {
    "view": "ALTER TABLE t RENAME TO former; CREATE VIEW t AS SELECT spoil() AS a; GRANT SELECT ON t TO app",
    "policy": "ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (a <> 3 OR spoil() = 1)",
    "function": "CREATE SCHEMA own; CREATE FUNCTION own.upper(text) RETURNS text LANGUAGE sql AS 'SELECT spoil()::text'; "
                "ALTER ROLE app SET search_path = own, public, pg_catalog",
}


@pytest.mark.parametrize("ddl", DDL)
def test_ddl_past_pgweir_ends_the_verdict(scene, nodes, ddl):
    """The text then runs code that a standby refuses silently. Each answer is the primary's when the catalogue has been asked again, within a period."""
    weir = weir_of(scene, nodes, read_check_period=0.2, read_your_writes="off")
    log_statements(nodes)
    client = weir.client()
    text = "SELECT upper(a::text) FROM t WHERE a IN (-1, 1, 3) ORDER BY 1 DESC LIMIT 1"

    def reads():
        assert client.query(text).value == "3"
        return came_to_standbys(nodes, text)
    until(reads)
    nodes.primary.execute(DDL[ddl], database="p0")
    nodes.wait_replayed()
    asked = sum(row["read_asks"] for row in weir.show("POOLS"))

    def has_asked():
        client.query(text)
        return sum(row["read_asks"] for row in weir.show("POOLS")) > asked + 1
    until(has_asked)
    expected = direct(nodes, text)[0][0][0]
    for _ in range(20):
        assert client.query(text).value == expected


def test_questions_are_bounded(scene, nodes):
    """60 texts cost at most 20 questions, and ten more for each second."""
    weir = weir_of(scene, nodes)
    client = weir.client()
    begin = time.monotonic()
    for number in range(60):
        for _ in range(2):
            client.query("SELECT a AS c%d FROM t" % number)
    asked = sum(row["read_asks"] for row in weir.show("POOLS"))
    assert 0 < asked <= 21 + 10 * (time.monotonic() - begin)
