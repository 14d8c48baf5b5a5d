"""
reads = auto: single statements that a standby executes, and above all what goes to the primary. Played servers: see support/failover.py.
"""
import pytest

from support import messages as m
from support.failover import READ_ONLY, TERMINATED, WATCHER, pair, target
from support.until import until

READ = "SELECT a FROM t"
QUESTION = "pg_catalog"
RARELY = 600        # read_check_period: the catalogue is asked again after half of it


@pytest.fixture(name="hosts")
def make_hosts(scene):
    return pair(scene)


def weir_of(scene, hosts, reads="auto", **settings):
    settings.setdefault("read_check_period", RARELY)
    return scene.weir({"p0": target(hosts, target_session_attrs="primary", reads=reads, reads_on_primary="off")}, log_disconnections=1, default_pool_size=1, show_extra_columns=1,
                      host_check_user=WATCHER, server_login_retry=0, pool_mode="transaction", **settings)


def rows(tag="SELECT 1", value="x"):
    return m.row_description("a") + m.data_row(value) + m.command_complete(tag) + m.ready()


BATCH = m.parse(READ) + m.bind() + m.describe("P") + m.execute() + m.sync()
REQUESTS = {
    "simple": (m.query(READ), "Q", rows()),
    "extended": (BATCH, "PBDES", m.parse_complete() + m.bind_complete() + rows()),
}


class Play:
    """A client, and its servers on both hosts."""

    def __init__(self, scene, hosts, **settings):
        self.primary_host, self.standby_host = hosts
        self.weir = weir_of(scene, hosts, **settings)
        until(lambda: {row["role"] for row in self.weir.show("HOSTS")} == {"primary", "standby"})
        self.client = self.weir.client()
        self.primary = self.standby = None

    def at_primary(self):
        if not self.primary:
            self.primary = self.primary_host.accept()
        return self.primary

    def at_standby(self):
        if not self.standby:
            self.standby = self.standby_host.accept()
        return self.standby

    def is_asked(self, says="t"):
        server = self.at_primary()
        asked = server.expect_query()
        assert QUESTION in asked, asked
        server.send(m.row_description("a"), m.data_row(says), m.command_complete("SELECT 1"), m.ready())

    def learn(self, says="t", text=READ):
        """The first time the primary executes the statement; the second time it is asked before."""
        self.reads_of_primary(text)
        self.client.send(m.query(text))
        self.is_asked(says)
        self.primary_reads(text, "first")

    def primary_reads(self, text=READ, value="p"):
        server = self.at_primary()
        server.expect_query(text)
        server.send(rows(value=value))
        assert self.client.result().value == value

    def standby_reads(self, text=READ, value="s"):
        self.client.send(m.query(text))
        server = self.at_standby()
        server.expect_query(text)
        server.send(rows(value=value))
        assert self.client.result().value == value

    def reads_of_primary(self, text=READ):
        self.client.send(m.query(text))
        self.primary_reads(text)


@pytest.fixture(name="play")
def make_play(scene, hosts):
    return Play(scene, hosts, read_your_writes="off")


def test_read_goes_to_the_standby_after_the_question(play):
    play.learn()
    for _ in range(3):
        play.standby_reads()
    play.reads_of_primary("SELECT nextval('s')")
    play.standby_reads()


def test_texts_share_a_verdict_whatever_their_literals(play):
    text = "SELECT a FROM t WHERE b = %d AND c LIKE '%s'"
    play.learn(text=text % (1, "x"))
    play.standby_reads(text % (2, "y"))
    play.standby_reads(text % (1, "x"))
    play.reads_of_primary("SELECT a FROM t WHERE b = 1 AND d LIKE 'x'")
    # an error in a literal is not an error of the others
    play.client.send(m.query(text % (3, "z")))
    play.standby.expect_query(text % (3, "z"))
    play.standby.send(m.error("of a literal", "22P02"), m.ready())
    play.primary_reads(text % (3, "z"))
    play.reads_of_primary(text % (3, "z"))
    play.standby = None
    play.standby_reads(text % (4, "z"))
    assert sum(row["read_asks"] for row in play.weir.show("POOLS")) == 1


def test_extended(play):
    play.learn()
    request, kinds, answer = REQUESTS["extended"]
    for _ in range(2):
        play.client.send(request)
        server = play.at_standby()
        server.expect_all(kinds)
        server.send(answer)
        assert play.client.result().value == "x"


def test_named_statement(play):
    play.learn()
    play.client.send(m.parse(READ, "n") + m.sync())
    server = play.at_primary()
    server.expect_all("PDS")
    server.send(m.parse_complete(), m.parameter_description(), m.row_description("a"), m.ready())
    play.client.result()
    play.client.send(m.bind("n") + m.execute() + m.sync())
    server = play.at_standby()
    server.expect_all("PDH")
    server.send(m.parse_complete(), m.parameter_description(), m.row_description("a"))
    server.expect_all("BES")
    server.send(m.bind_complete(), m.data_row("s"), m.command_complete("SELECT 1"), m.ready())
    assert play.client.result().value == "s"


def test_catalogue_refuses(play):
    play.learn("f")
    play.reads_of_primary()


def test_question_fails(play):
    play.reads_of_primary()
    play.client.send(m.query(READ))
    server = play.at_primary()
    server.expect_query()
    server.send(m.error("no", "57014"), m.ready())
    play.primary_reads()
    play.reads_of_primary()


@pytest.mark.parametrize("text", ["SELECT f(1)", "SELECT a FROM t FOR UPDATE", "UPDATE t SET a = 1", "SELECT 1; SELECT 2", "/* pgweir: primary */ " + READ, "BEGIN"])
def test_texts_for_the_primary(play, text):
    for _ in range(2):
        play.client.send(m.query(text))
        play.primary_reads(text)


@pytest.mark.parametrize("request_", [
    m.parse("SELECT $1", "", [20000]) + m.bind(values=[b"1"]) + m.execute() + m.sync(),
    m.parse(READ) + m.bind() + m.execute() + m.bind() + m.execute() + m.sync(),
    m.query(READ) + m.query(READ),
], ids=["type", "two", "pipeline"])
def test_requests_for_the_primary(play, request_):
    play.learn()
    play.client.send(request_)
    play.at_primary().read()


@pytest.mark.parametrize("hand", REQUESTS)
@pytest.mark.parametrize("error", [READ_ONLY, m.error("no such table", "42P01"), m.error("conflict", "40001"), m.error("deadlock", "40P01"),
                                   m.error("cached plan must not change result type", "0A000"), TERMINATED],
                         ids=["25006", "42P01", "40001", "40P01", "0A000", "57P01"])
@pytest.mark.parametrize("with_rows", [False, True])
def test_error_of_the_standby(play, hand, error, with_rows):
    """Host traps 43, 58, 59 and 60."""
    request, kinds, answer = REQUESTS[hand]
    play.learn()
    play.client.send(request)
    server = play.at_standby()
    server.expect_all(kinds)
    server.send(m.row_description("a") + 3 * m.data_row("half") if with_rows else b"", error, b"" if error is TERMINATED else m.ready())
    server = play.at_primary()
    server.expect_all(kinds)
    server.send(answer)
    result = play.client.result()
    assert result.value == "x" and not result.errors
    # remembered
    play.reads_of_primary()


def test_error_of_both(play):
    play.learn()
    play.client.send(m.query(READ))
    play.at_standby().expect_query(READ)
    play.standby.send(m.error("of the standby", "22012"), m.ready())
    play.at_primary().expect_query(READ)
    play.primary.send(m.error("of the primary", "22012"), m.ready())
    assert [error["M"] for error in play.client.result().errors] == ["of the primary"]


@pytest.mark.parametrize("beginning", [b"", m.row_description("a") + m.data_row("half"), m.data_row("half")[:6]], ids=["nothing", "rows", "part"])
def test_standby_is_lost(play, beginning):
    """Host trap 35."""
    play.learn()
    play.client.send(m.query(READ))
    server = play.at_standby()
    server.expect_query(READ)
    server.send(beginning)
    server.close()
    play.primary_reads()
    play.reads_of_primary()


CANCELED = m.error("canceling statement due to user request", "57014")


def test_cancelled(play):
    play.learn()
    play.client.send(m.query(READ))
    play.at_standby().expect_query(READ)
    canceller = play.weir.cancel(play.client)
    play.standby_host.fake.next_cancel()
    canceller.expect_closed()
    play.standby.send(CANCELED, m.ready())
    assert play.client.result().errors[0]["C"] == "57014"
    play.standby_reads()


def test_timeout_of_the_standby(play):
    """No request has canceled the statement: its statement_timeout is its own."""
    play.learn()
    play.client.send(m.query(READ))
    play.at_standby().expect_query(READ)
    play.standby.send(CANCELED, m.ready())
    play.primary_reads()
    play.reads_of_primary()


def test_long_answer(play):
    """After 16 KiB the answer of the standby stands, with its error."""
    play.learn()
    play.client.send(m.query(READ))
    server = play.at_standby()
    server.expect_query(READ)
    server.send(m.row_description("a"), m.data_row("y" * 10000))
    server.send(m.data_row("y" * 10000))
    play.client.expect_all("TDD")
    server.send(m.error("late", "40001"), m.ready())
    assert play.client.result().errors[0]["M"] == "late"
    play.reads_of_primary()


def test_long_answer_without_an_error(play):
    play.learn()
    play.client.send(m.query(READ))
    server = play.at_standby()
    server.expect_query(READ)
    server.send(m.row_description("a"), 5 * m.data_row("y" * 10000), m.command_complete("SELECT 5"), m.ready())
    assert len(play.client.result().rows) == 5
    play.standby_reads()


@pytest.mark.parametrize("tag", ["ALTER TABLE", "CREATE TABLE", "CREATE FUNCTION", "DROP TABLE", "CREATE VIEW"])
def test_ddl_empties_the_cache(play, tag):
    play.learn()
    play.standby_reads()
    play.client.send(m.query("ddl"))
    play.at_primary().expect_query("ddl")
    play.primary.complete(tag)
    play.client.result()
    play.learn()
    play.standby_reads()


def test_ddl_during_the_question(play):
    other = play.weir.client()
    play.reads_of_primary()
    play.client.send(m.query(READ))
    play.at_primary().expect_query()
    play.primary.send(m.row_description("a"), m.data_row("t"), m.command_complete("SELECT 1"), m.ready())
    play.primary_reads()
    other.send(m.query("ddl"))
    play.at_primary().expect_query("ddl")
    play.primary.complete("ALTER TABLE")
    other.result()
    play.learn()


def test_next_statement_waits(play):
    """Of a pipeline: the second statement comes while the standby reads."""
    play.learn()
    play.client.send(m.query(READ))
    server = play.at_standby()
    server.expect_query(READ)
    play.client.send(m.query("UPDATE t SET a = 1"))
    server.send(rows(value="s"))
    assert play.client.result().value == "s"
    play.primary_reads("UPDATE t SET a = 1")


def test_next_statement_waits_in_the_queue(play):
    """The second statement arrives while the first one waits for a connection to the standby: the standby does not get it."""
    play.learn()
    play.standby_reads()
    other = play.weir.client()
    other.send(m.query(READ))
    play.standby.expect_query(READ)
    play.client.send(m.query(READ))
    until(lambda: play.weir.show("POOLS") and any(row["cl_waiting"] == 1 for row in play.weir.show("POOLS")))
    play.client.send(m.query("UPDATE t SET a = 1"))
    play.client.send(m.query("COMMIT"))
    play.standby.send(rows(value="o"))
    assert other.result().value == "o"
    play.standby.expect_query(READ)
    play.standby.send(rows(value="s"))
    assert play.client.result().value == "s"
    play.primary_reads("UPDATE t SET a = 1")
    play.primary_reads("COMMIT")


def test_rest_after_the_answer(play):
    """The client waits until the server is free."""
    play.learn()
    play.client.send(m.query(READ))
    play.at_standby().expect_query(READ)
    notice = m.notice("late")
    play.standby.send(rows(value="s") + notice[:7])
    play.client.expect_all("TDCZ")
    play.client.send(m.query("UPDATE t SET a = 1"))
    until(lambda: any(row["cl_active"] == 1 for row in play.weir.show("POOLS")))
    play.standby.send(notice[7:])
    play.client.expect("N")
    play.primary_reads("UPDATE t SET a = 1")


def test_no_standby(scene, hosts):
    play = Play(scene, hosts, read_your_writes="off")
    play.learn()
    play.standby_host.goes()
    until(lambda: "standby" not in {row["role"] for row in play.weir.show("HOSTS")})
    play.reads_of_primary()
    play.reads_of_primary()


def test_in_a_transaction(play):
    """Host trap 75. A transaction that may write reads from the primary, so that a write never follows from the read of another host."""
    play.learn()
    play.client.send(m.query("BEGIN"))
    play.at_primary().expect_query("BEGIN")
    play.primary.complete("BEGIN", "T")
    play.client.result()
    play.client.send(m.query(READ))
    play.at_primary().expect_query(READ)
    play.primary.send(m.row_description("a"), m.data_row("p"), m.command_complete("SELECT 1"), m.ready("T"))
    assert play.client.result().value == "p"
    play.client.send(m.query("COMMIT"))
    play.at_primary().expect_query("COMMIT")
    play.primary.complete("COMMIT")
    play.client.result()
    play.standby_reads()


def test_statement_after_a_read_only_transaction(play):
    """After a read-only transaction on the standby, single statements go to the standby again."""
    play.learn()
    play.standby_reads()
    play.client.send(m.query("BEGIN READ ONLY"))
    assert play.client.result().status == "T"
    play.client.send(m.query("SELECT i FROM u"))
    play.standby.expect_query("BEGIN READ ONLY")
    play.standby.complete("BEGIN", "T")
    play.standby.expect_query("SELECT i FROM u")
    play.standby.answer("1", status="T")
    assert play.client.result().value == "1"
    play.client.send(m.query("COMMIT"))
    play.standby.expect_query("COMMIT")
    play.standby.complete("COMMIT")
    play.client.result()
    for _ in range(2):
        play.standby_reads()


@pytest.mark.parametrize("reads", ["off", "transaction"])
def test_without_auto(scene, hosts, reads):
    play = Play(scene, hosts, reads=reads, read_your_writes="off")
    for _ in range(3):
        play.reads_of_primary()
