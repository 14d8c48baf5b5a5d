"""test/fuzz/corpus.py: inputs found by fuzzing never replace inputs written by hand. Neither pgweir nor a server is needed."""
import pathlib
import subprocess
import sys

TOOL = pathlib.Path(__file__).parent / "fuzz" / "corpus.py"
FOUND = "# found by fuzzing, minimized"


def run(*args):
    subprocess.run([sys.executable, str(TOOL), *map(str, args)], check=True, timeout=60)


def put(directory, *inputs):
    directory.mkdir()
    for number, data in enumerate(inputs):
        (directory / str(number)).write_bytes(data)


def test_a_corpus_is_the_same_in_both_forms(tmp_path):
    inputs = {b"\0\n\r\t\\x", b"#not a remark", bytes(range(256)), b"plain"}
    put(tmp_path / "in", *inputs)
    run("pack", tmp_path / "in", tmp_path / "text")
    run("unpack", tmp_path / "text", tmp_path / "out")
    assert {file.read_bytes() for file in (tmp_path / "out").iterdir()} == inputs


def test_only_what_fuzzing_found_is_replaced(tmp_path):
    (tmp_path / "text").write_text("# seeds\none\n%s\nold\n# a bug\ntwo\n" % FOUND)
    put(tmp_path / "in", b"new", b"one", b"two")
    run("pack", tmp_path / "in", tmp_path / "text")
    assert (tmp_path / "text").read_text() == "# seeds\none\n# a bug\ntwo\n%s\nnew\n" % FOUND


def test_what_fuzzing_found_is_bounded(tmp_path):
    put(tmp_path / "in", b"1", b"22", b"333", b"4444")
    for limits, kept in (((), 4), ((9,), 3), ((8,), 2), ((100, 2), 2), ((1,), 0)):
        (tmp_path / "text").write_text("# seeds\nseed\n")
        run("pack", tmp_path / "in", tmp_path / "text", *limits)
        assert len((tmp_path / "text").read_text().splitlines()) == 2 + (kept + 1 if kept else 0), limits
