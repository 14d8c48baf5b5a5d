"""Sizes of the source: a file is one subject, of at most 800 lines; the room handover is a conversation, and other rooms pack their own parts."""
import pathlib

TOP = pathlib.Path(__file__).parents[1]
LINES_MOST = 800
HANDOVER_MOST = 1800


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def test_a_file_has_at_most_800_lines():
    files = {str(path.relative_to(TOP / "src")): lines(path) for path in TOP.glob("src/*/*.[ch]") if path.name != "page_data.c"}
    assert len(files) > 100
    assert [name for name, count in files.items() if count > LINES_MOST] == []


def test_the_room_of_the_handover_stays_small():
    files = [*TOP.glob("src/handover/*.[ch]"), *TOP.glob("include/handover/*.h")]
    assert len(files) >= 5
    assert sum(map(lines, files)) <= HANDOVER_MOST
