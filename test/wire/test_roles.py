"""The role of a session: its recording after connect_query, and reports of a server; see also live/test_roles.py."""
import pytest

from support import messages as m
from support.scenes import transactions

HEX = b"app".hex() + ":" + b"acts".hex()
SELECTED = m.command_complete("SELECT 1")


class Stage:
    """A client, and a server on which connect_query has run."""

    def __init__(self, scene, note, byte_by_byte=False):
        """note: the server's answer to the query for its role."""
        self.fake = scene.fake()
        target = "host=127.0.0.1 port=%d connect_query='SELECT prepare()'" % self.fake.port
        self.weir = transactions(scene, target, server_login_retry=0)
        self.client = self.weir.client()
        self.client.send(m.query("first"))
        self.server = self.fake.accept()
        self.server.expect_query("SELECT prepare()")
        self.server.answer("done")
        assert "session_user" in self.server.expect_query()
        (self.server.dribble if byte_by_byte else self.server.send)(note + m.ready())
        self.answer("first")

    def answer(self, text):
        self.server.expect_query(text)
        self.server.answer(text)
        assert self.client.result().value == text

    def set(self, text):
        """The next transaction of the client, in which it sets something."""
        self.client.send(m.query(text))
        asked = self.prepared_by(text)
        self.server.complete("SET")
        assert self.client.result().tags == ["SET"]
        return asked

    def prepared_by(self, text):
        """Returns pgweir's query to the server before this text of the client."""
        asked = m.read_cstrings(self.server.expect("Q").body)[0]
        if asked == text:
            return ""
        self.server.complete("RESET")
        self.server.expect_query(text)
        return asked


NOTES = {"row": m.rows(HEX), "row alone": m.data_row(HEX) + SELECTED, "several columns": m.data_row(HEX, "other") + SELECTED}


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("byte_by_byte", [False, True])
def test_initial_role_is_restored(scene, note, byte_by_byte):
    stage = Stage(scene, NOTES[note], byte_by_byte)
    assert stage.set("SET x = 1") == ""
    # of the parameters that the server does not report nothing is known then
    assert stage.set("SET LOCAL ROLE other") == "RESET search_path"
    # of SET LOCAL nothing is left
    assert stage.set("SET ROLE other") == ""
    asked = stage.set("SET x = 1")
    for name, value in (("session_authorization", b"app"), ("role", b"acts")):
        assert "set_config('%s',pg_catalog.convert_from(pg_catalog.decode('%s','hex')" % (name, value.hex()) in asked
    assert stage.set("SET x = 1") == "RESET search_path"
    assert len(stage.fake.started) == 1


NO_NOTES = {
    "nonsense": m.rows("nonsense"), "SQL": m.rows("'; DROP TABLE t; --"), "empty": m.rows(""), "no colon": m.rows("61"),
    "odd": m.rows("61:6"), "upper case": m.rows("61:6A"), "long": m.rows("66" * 255 + ":66"),
    "too long to be read": m.rows("6" * 100000),
    "no row": m.command_complete("SELECT 0"), "error": m.error("no such function"), "empty row": m.message("D", b"") + SELECTED,
    "NULL": m.message("D", b"\0\1\xff\xff\xff\xff") + SELECTED, "cut row": m.message("D", b"\0\1\0\0\0\5x") + SELECTED,
}


@pytest.mark.parametrize("note", NO_NOTES)
def test_server_with_an_unknown_role_is_closed(scene, note):
    """As soon as it is released after a SET that may be of a role. A plain one does not close it."""
    stage = Stage(scene, NO_NOTES[note])
    for text in ("SET x = 1", "SET LOCAL ROLE other", "SET ROLE other"):
        stage.set(text)
    stage.server.expect("X")
    stage.server.expect_closed()
    stage.weir.wait_log("closing because: role of the session cannot be set back")
    assert [row["count"] for row in stage.weir.show("REASONS") if row["reason"] == "ROLE_UNKNOWN"] == [1]
    stage.client.send(m.query("next"))
    stage.server = stage.fake.accept()


@pytest.mark.parametrize("name, value, concerns", [
    ("session_authorization", "other", True), ("is_superuser", "on", True), ("in_hot_standby", "on", False),
    ("DateStyle", "German, DMY", False)])
def test_roles_reported_by_a_server(scene, name, value, concerns):
    """Whatever it was that has changed them: the tag does not say SET."""
    fake = scene.fake()
    weir = transactions(scene, fake)
    one, other = weir.client(), weir.client()
    one.send(m.query("SELECT f()"))
    server = fake.accept()
    server.expect_query("SELECT f()")
    server.send(m.rows("x"), m.parameter_status(name, value), m.ready())
    assert one.result().value == "x"
    other.send(m.query("next"))
    text = m.read_cstrings(server.expect("Q").body)[0]
    assert ("set_config('role',NULL,false)" in text) == concerns
    if text != "next":
        server.answer("set")
        server.expect_query("next")
    server.answer("y")
    assert other.result().value == "y"
