"""Settings for the form and the number of log lines: log_format, log_fold_time."""
import json
import re
import socket

import pytest

from support import messages as m
from support.syslog import Listened
from wire.test_log_fields import HOSTILE, LONGEST, anybody, costs, is_harmless, packet, raw_log

FULL = "no more connections allowed (max_client_conn)"


def objects(text):
    """The objects of complete lines."""
    return [json.loads(line) for line in text.decode("utf-8", "strict").splitlines()]


def about(weir, message):
    """The objects whose message contains this."""
    return [line for line in objects(raw_log(weir)) if message in line["message"]]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_json_with_hostile_names(scene, hostile):
    """Each line is one object in UTF-8, of a client that is in and of a login that fails, and has the identifiers of the text."""
    name = HOSTILE[hostile]
    weir = anybody(scene, scene.mini(), pool_mode="transaction", verbose=3, log_format="json")
    client = weir.connect()
    client.send(packet(name, name, b"application_name", name))
    client.finish_login()
    costs(weir, packet(name, name, name + b"-", name))
    lines = objects(raw_log(weir))
    assert max(map(len, raw_log(weir).splitlines())) < 4096
    for line in lines:
        assert set(line) <= {"time", "level", "pid", "client", "server", "database", "user", "address", "message"}, line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) and line["pid"] == weir.pid
    [login] = [line for line in lines if line["message"].startswith("login attempt: ") and "tls=no" in line["message"]][:1]
    assert re.fullmatch(r"C-0x\w+", login["client"]) and re.fullmatch(r"127\.0\.0\.1:\d+", login["address"])
    shown = name[:LONGEST].decode("utf-8", "replace")
    if "\n" not in shown and "\ufffd" not in shown and is_harmless(shown):
        assert login["user"] == login["database"] == shown
    else:
        assert "\\x" in login["user"]
    server = about(weir, "new connection to server")[0]
    assert re.fullmatch(r"S-0x\w+", server["server"]) and server["address"].startswith("127.0.0.1:") and server["user"] == "app"


def test_json_has_durations_as_numbers(scene):
    """And the process of the server, and the text; the next line has them no more."""
    fake = scene.mini()
    weir = scene.weir(fake, pool_mode="transaction", log_format="json", log_min_duration_query=0, log_query_text=1)
    client = weir.client()
    client.query('"x" \\ \x01')
    client.quit()
    weir.wait_log("client close request")
    lines = objects(raw_log(weir))
    (line,) = [line for line in lines if "duration_ms" in line]
    assert line["duration_of"] == "query" and line["server_pid"] == fake.started[0].pid
    assert line["message"].startswith("query duration: %.3f ms (server pid " % line["duration_ms"])
    assert line["statement"].startswith('"x" \\')
    assert not [line for line in lines if "close request" in line["message"] and "statement" in line]


def test_the_format_changes_with_reload(scene):
    weir = scene.weir(scene.mini())
    size = len(raw_log(weir))
    weir.settings["log_format"] = "json"
    weir.write_ini()
    weir.admin("RELOAD")
    weir.client().quit()
    weir.wait_log("client close request")
    assert raw_log(weir)[:size].startswith(b"2") and b"\n{\"time\":" in raw_log(weir)
    assert {row["key"]: row["value"] for row in weir.show("CONFIG")}["log_format"] == "json"
    weir.admin("SET log_format = 'text'")
    weir.client().quit()
    weir.wait_log(r"LOG C-0x\w+: p0/app@\S+ closing because: client close request")


def test_json_to_syslog_and_stderr(scene):
    class Kind(Listened):
        kind = socket.SOCK_DGRAM

    weir = scene.weir(scene.mini(), kind=Kind, syslog=1, log_format="json")
    weir.client().quit()
    weir.wait_log("client close request")
    for text in weir.syslog.texts()[-3:] + weir.stderr().splitlines()[-3:]:
        assert json.loads(text)["level"] == "LOG", text


# --- folding


def refused(weir, user="app", database="p0"):
    client = weir.connect()
    client.send(m.startup(user=user, database=database))
    client.drain()


def lines_with(weir, text):
    return [line for line in weir.log().splitlines() if text in line]


@pytest.mark.parametrize("form", ("text", "json"))
def test_repeated_errors_are_folded(scene, form):
    weir = scene.weir(scene.mini(), log_fold_time=3600, max_client_conn=1, log_format=form)
    first = weir.client()
    for _ in range(5):
        refused(weir)
    assert len(lines_with(weir, "pooler error: " + FULL)) == len(lines_with(weir, "closing because: " + FULL)) == 1
    assert len(lines_with(weir, "login failed: db=p0 user=app")) == 1
    # another user has a first line
    refused(weir, database="p1", user="other")
    assert len(lines_with(weir, "pooler error: " + FULL)) == 2
    first.quit()
    weir.wait_log("client close request")
    weir.admin("SET log_fold_time = 0")
    counts = lines_with(weir, "4 more in ")
    assert len(counts) == 3 and sum(FULL in line for line in counts) == 2
    if form == "json":
        assert json.loads(counts[0])["folded"] == 4
    size = len(lines_with(weir, "pooler error: " + FULL))
    # the console holds the only place
    for _ in range(3):
        refused(weir)
    assert len(lines_with(weir, "pooler error: " + FULL)) == size + 3


def test_every_error_is_logged_by_default(scene):
    weir = scene.weir(scene.mini(), max_client_conn=1)
    first = weir.client()
    for _ in range(5):
        refused(weir)
    assert len(lines_with(weir, "pooler error: " + FULL)) == 5
    first.close()


def test_the_count_is_written_without_another_line(scene):
    weir = scene.weir(scene.mini(), log_fold_time=1, max_client_conn=1, log_stats=0)
    first = weir.client()
    for _ in range(3):
        refused(weir)
    weir.wait_log(r"WARNING \d more in 1 s, the last one: C-0x\w+: \S+ pooler error: no more connections allowed")
    first.close()


@pytest.mark.parametrize("database, password", (("p0", "wrong"), ("nowhere", "app")))
def test_failed_logins_are_never_folded(scene, database, password):
    """Rules that ban addresses count them."""
    weir = scene.weir(scene.mini(), auth_type="plain", log_fold_time=3600)
    for _ in range(4):
        costs(weir, packet(b"app", database.encode()), m.password(password))
    for text in ("login attempt: ", "login failed: ", "closing because: ", "pooler error: "):
        assert len([line for line in lines_with(weir, text) if "/app@127" in line]) == 4, weir.log()


def test_errors_of_servers_are_folded_by_sqlstate(scene):
    answers = iter(["28000", "28000", "3D000", "28000"])

    def refuse(session):
        code = next(answers, "28000")
        session.send(m.error("not now: " + code, code, "FATAL"))
        session.close()

    weir = scene.weir(scene.fake(login=refuse), pool_mode="transaction", log_fold_time=3600, server_login_retry=0)
    for _ in range(4):
        weir.connect().refused(user="app", database="p0")
    assert len(lines_with(weir, "server login failed: FATAL not now: ")) == 2


# --- durations


DURATION = r"LOG C-0x\w+: p0/app@127\.0\.0\.1:\d+ %s duration: \d+\.\d{3} ms \(server pid \d+\)"


def durations(weir, what):
    return re.findall(DURATION % what + "(.*)", weir.log())


def test_no_duration_is_logged_by_default(scene):
    weir = scene.weir(scene.mini(), log_query_text=1)
    weir.client().query("one")
    assert "duration" not in weir.log()


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
@pytest.mark.parametrize("state", ("off", "full"))
def test_durations_of_queries_and_transactions(scene, mode, state):
    weir = scene.weir(scene.mini(), pool_mode=mode, session_state=state, log_min_duration_query=0, log_min_duration_transaction=0)
    client = weir.client()
    client.query("one")
    texts = ("BEGIN", "one", "COMMIT") if mode != "statement" else ("one",)
    for text in texts:
        client.query(text)
    client.send(m.run("one"), m.sync())
    client.result()
    # no text without log_query_text
    assert durations(weir, "query") == [""] * (2 + len(texts))
    assert durations(weir, "transaction") == [""] * 3
    # above every duration
    weir.admin("SET log_min_duration_query = 1000000000")
    weir.admin("SET log_min_duration_transaction = -1")
    client.query("one")
    assert len(durations(weir, "query")) == 2 + len(texts) and len(durations(weir, "transaction")) == 3
    shown = {row["key"]: row["value"] for row in weir.show("CONFIG")}
    assert (shown["log_min_duration_query"], shown["log_min_duration_transaction"]) == ("1000000000", "-1")


def test_durations_of_waits(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction", default_pool_size=1, log_min_duration_wait=0)
    holder, waiting = weir.client(), weir.client()
    holder.query("BEGIN")
    before = len(durations(weir, "wait"))
    waiting.send(m.query("one"))
    weir.wait_pool("p0", cl_waiting=1)
    holder.query("COMMIT")
    waiting.result()
    assert len(durations(weir, "wait")) == before + 1


def test_texts_of_queries(scene):
    """Only if asked for, cut, and without values of parameters. Each kind of request."""
    weir = scene.weir(scene.mini(), pool_mode="transaction", max_prepared_statements=10, log_min_duration_query=0, log_query_text=1)
    client = weir.client()
    client.query("one /* \x1b \n */")
    client.send(m.parse("one /* named */", "s1"), m.sync())
    client.result()
    client.send(m.bind("s1"), m.describe("P"), m.execute(), m.sync())
    client.result()
    client.send(m.run("one /* unnamed */"), m.sync())
    client.result()
    client.query("one /* %s */" % ("x" * 5000))
    texts = durations(weir, "query")
    assert texts[:4] == [" statement: one /* \\x1b \\x0a */", " statement: one /* named */", " statement: one /* named */",
                         " statement: one /* unnamed */"]
    assert texts[4].endswith("xx...") and len(texts[4]) < 1024
    weir.admin("SET log_query_text = 0")
    client.query("one /* secret */")
    assert durations(weir, "query")[5] == "" and "secret" not in weir.log()


def test_no_text_of_another_query(scene):
    """Of a pipeline only the first text is known; the next requests have none."""
    weir = scene.weir(scene.mini(), pool_mode="transaction", log_min_duration_query=0, log_query_text=1)
    client = weir.client()
    client.send(m.query("one /* first */"), m.query("one /* second */"))
    client.result()
    client.result()
    texts = durations(weir, "query")
    assert texts[0] == " statement: one /* first */" and texts[1:] == [""]


def test_values_of_parameters_are_not_logged(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction", log_min_duration_query=0, log_query_text=1, verbose=3)
    client = weir.client()
    client.send(m.parse("one"), m.message("B", b"\0\0\0\0\0\1\0\0\0\6secret\0\0"), m.execute(), m.sync())
    client.result()
    client.query("one")
    assert len(durations(weir, "query")) == 2 and "secret" not in weir.log()


def test_the_fraction_of_logged_clients(scene):
    """Errors are logged of each client."""
    weir = scene.weir(scene.mini(), auth_type="plain", log_sample="0", log_min_duration_query=0)
    client = weir.client()
    client.query("one")
    client.quit()
    costs(weir, packet(b"app", b"p0"), m.password("wrong"))
    assert "duration" not in weir.log() and "login attempt" not in weir.log() and "client close request" not in weir.log()
    assert len(lines_with(weir, "closing because: password authentication failed")) == 1
    weir.admin("SET log_sample = 0.5")
    before = len(lines_with(weir, "login attempt"))
    for _ in range(64):
        weir.client().quit()
    weir.barrier()
    attempts = [line.split()[5] for line in lines_with(weir, "login attempt: db=p0")]
    ends = [line.split()[5] for line in lines_with(weir, "closing because: client close request")]
    assert before == 0 and 10 < len(attempts) < 54 and set(ends) <= set(attempts)
    assert {row["key"]: row["value"] for row in weir.show("CONFIG")}["log_sample"] == "0.5"
