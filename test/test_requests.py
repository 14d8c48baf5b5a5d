"""
The request of a client with a role (src/relay/request.c): numbers that keep it an object.

Its step has one writer, what it asks for has one writer, and the text of a message is found in one place.
"""
import glob
import os
import re

from names import without_comments

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = ["src/relay/request.c", "src/relay/offload.c", "src/relay/retry.c", "src/relay/from_client.c", "src/relay/from_server.c",
         "include/relay/request.h", "include/relay/offload.h", "include/relay/retry.h", "include/conn/client_request.h"]


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def sources():
    """{path: text without comments} of all C files."""
    found = [path for pattern in ("src/**/*.[ch]", "include/**/*.h") for path in glob.glob(os.path.join(TOP, pattern), recursive=True)]
    assert len(found) > 200
    return {os.path.relpath(path, TOP): without_comments(read(path)) for path in found}


def places(pattern):
    """The files with this pattern, one for each match."""
    return [path for path, text in sources().items() for _ in re.finditer(pattern, text)]


def walk():
    """[(file, function)] of the story in request.c."""
    story = read("src/relay/request.c").split("The walk of such a read")[1].split("Invariant:")[0]
    rows = re.findall(r"^ \*\t(\w+\.[ch])\t+((?:[^\n]|\n \*\t\t\t)+)", story, re.M)
    return [(file, function) for file, functions in rows for function in re.findall(r"\w+", functions.replace("\n *", " "))]


def test_the_step_has_one_writer():
    assert places(r"\b(?:request|r)->step = ") == ["src/relay/request.c"]
    assert places(r"\bis_held = ") == ["src/relay/request.c"]


def test_what_a_client_asks_for_has_one_writer():
    assert places(r"\b(?:client|pooled|pc)(?:->|\.)target = ") == ["include/pool/pool.h"]


def test_a_step_is_no_bit_and_few_facts_are_booleans():
    assert not places(r"\bREADING_(?:BEGIN|SENT|HERE|NEXT|PRIMARY|STANDBY|SESSION|FAILED)\b")
    members = without_comments(read("include/conn/client_request.h")).split("struct request {")[1].split("};")[0]
    assert len(re.findall(r"^\s*bool (\w+)", members, re.M)) <= 3


def test_the_text_of_a_message_is_found_in_one_place():
    """pg/request_text.h splits a message, and prepared_request_text() finds the statement of a Bind."""
    for path, text in sources().items():
        if path.startswith(("src/relay/", "include/relay/")):
            assert "memchr(" not in text and "name_find(" not in text, path


def test_the_walk_of_a_read_is_short():
    found = walk()
    assert 10 < len(found) <= 22, found
    assert len({os.path.splitext(file)[0] for file, _ in found}) <= 6
    for file, function in found:
        path = ("include/relay/" if file.endswith(".h") else "src/relay/") + file
        assert re.search(r"^(?!\t)[^\n;]*\b%s\((?:[^;{]*)\)\n\{" % function, read(path), re.M), (file, function)


def test_no_condition_is_long():
    for path in FILES:
        for statement in re.split(r"[;{}]", without_comments(read(path))):
            assert len(re.findall(r"&&|\|\|", statement)) <= 8, (path, statement)


def test_files_and_functions_are_short():
    for path in FILES:
        text = read(path)
        assert text.count("\n") <= 800, path
        for body in re.findall(r"^\{\n(.*?)^\}", text, re.M | re.S):
            assert body.count("\n") <= 80, (path, body[:200])
