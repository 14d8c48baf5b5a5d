"""
Each source file of the rooms of connections has its own unit test: src/ROOM/x.c has test/unit/ROOM/test_x.c.

Files without a test are listed with the reason. The list only shrinks: a file that gets a test is removed, and a new file needs a test.
"""
import glob
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = "conn backend state watch auth prepared cancel login relay handover core".split()

# played by test/sim/patroni.c and live/test_service.py
WITHOUT = {"watch/source", "watch/names"}

# The files of a room are one program. These are programs of their own (UNIT_ALONE), because they replace functions of the C library or of
# libevent, or of pgweir for one file only.
ALONE = {"auth/test_client_address", "backend/test_keys", "net/test_listen", "net/test_loop_memory", "net/test_stream", "net/test_stream_abuse",
         "net/test_stream_tls"}


def names(pattern, prefix):
    """ROOM/x of each file of the rooms."""
    found = set()
    for room in ROOMS:
        for path in glob.glob(os.path.join(TOP, pattern % room)):
            found.add("%s/%s" % (room, os.path.basename(path)[len(prefix):-2]))
    return found


def test_each_source_file_has_a_unit_test():
    sources = names("src/%s/*.c", "")
    assert len(sources) > 50
    missing = sources - names("test/unit/%s/test_*.c", "test_") - set(WITHOUT)
    assert not missing, "no test/unit/ROOM/test_x.c: " + ", ".join(sorted(missing))


def test_the_list_only_shrinks():
    listed = set(WITHOUT)
    assert listed <= names("src/%s/*.c", ""), listed - names("src/%s/*.c", "")
    tested = listed & names("test/unit/%s/test_*.c", "test_")
    assert not tested, "they have a test, so they leave the list: " + ", ".join(sorted(tested))


def test_only_files_that_replace_functions_are_programs_of_their_own():
    ends = {}
    for path in glob.glob(os.path.join(TOP, "test/unit/*/test_*.c")):
        with open(path, encoding="utf-8") as file:
            ends[os.path.relpath(path, os.path.join(TOP, "test/unit"))[:-2]] = re.findall(r"^UNIT_(?:MAIN|ALONE)$", file.read(), re.M)
    assert all(len(found) == 1 for found in ends.values()), [name for name, found in ends.items() if len(found) != 1]
    assert {name for name, found in ends.items() if found == ["UNIT_ALONE"]} == ALONE
