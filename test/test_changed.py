"""The choice of test/changed.py. The tests play the history of git: the tested copy of the source has no history."""
import changed
import pytest

DIFF = {
    "src/cancel/cancel.c": "@@ -1 +1 @@ cancel_find(void)\n-a\n+b\n",
    "src/pool/schedule.c": "@@ -1 +1 @@ pool_decide(void)\n+\treturn conf->reserve_pool_timeout;\n",
}


@pytest.fixture(autouse=True)
def history(monkeypatch):
    def git(*arguments):
        if arguments[0] == "log":
            return "\0\nsrc/base/clock.c\ntest/wire/test_timers.py\n\0\nsrc/base/clock.c\nsrc/base/log.c\nsrc/pg/ledger.c\ntest/wire/test_syslog.py\n"
        if arguments[0] == "diff":
            return DIFF.get(arguments[-1], "")
        raise AssertionError(arguments)
    monkeypatch.setattr(changed, "git", git)


def chosen(*files):
    return [scene for _, scene in changed.rank(set(files), "base")]


def test_a_changed_scene_comes_first():
    assert chosen("src/cancel/cancel.c", "test/wire/test_dns.py")[0] == "wire/test_dns.py"


def test_a_changed_module_chooses_the_scenes_that_import_it():
    assert "wire/test_dns.py" in chosen("test/support/nameserver.py")
    assert "wire/test_cancel.py" not in chosen("test/support/nameserver.py")


def test_a_module_that_imports_a_changed_one_counts_as_changed():
    assert {"nodes", "patroni", "postgres"} <= changed.importers({"test/support/postgres.py"})


def test_shared_names_choose_a_scene():
    assert {"wire/test_cancel.py", "pgbouncer/test_cancel.py"} == set(chosen("src/cancel/cancel.c")[:2])


def test_a_small_commit_of_the_past_weighs_more_than_a_large_one():
    ranked = chosen("src/base/clock.c")
    assert ranked.index("wire/test_timers.py") < ranked.index("wire/test_syslog.py")


def test_a_setting_in_a_changed_line_chooses_the_scenes_that_set_it():
    texts = changed.scene_files()
    setting = {scene for scene, text in texts.items() if "reserve_pool_timeout" in text}
    assert setting and setting <= set(chosen("src/pool/schedule.c"))


def test_a_table_belongs_to_the_rooms_that_include_it():
    assert changed.rooms_of(["include/tbl/command.tbl"]) == {"admin"}


def test_a_room_has_its_unit_tests_and_the_fuzz_targets_that_include_it():
    programs = list(changed.programs_of({"patroni"}))
    assert programs[0] == "test/unit/patroni/tests"
    assert any(path.startswith("test/fuzz/fuzz_") for path in programs[1:])
    assert {"test/unit/auth/tests", "test/unit/auth/test_client_address"} <= set(changed.programs_of({"auth"}))


def test_documents_choose_no_scene():
    assert not chosen("doc/faq.md")


def test_the_time_limits_the_scenes_but_not_the_first_changed_one():
    ranked = [(float("inf"), "wire/test_a.py"), (2.0, "wire/test_b.py"), (1.0, "wire/test_c.py")]
    times = {"wire/test_a.py": 50.0, "wire/test_b.py": 20.0, "wire/test_c.py": 5.0}
    assert changed.within(ranked, times, 10.0) == (["wire/test_a.py"], ["wire/test_b.py", "wire/test_c.py"])
    assert changed.within(ranked[1:], times, 10.0) == (["wire/test_c.py"], ["wire/test_b.py"])
