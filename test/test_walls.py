"""
The walls between the rooms of the source, checked on its #include lines.

Only the dependencies in the table below are allowed: a single exception would merge two rooms. And every header includes everything that it needs, so
it compiles by itself.
"""
import glob
import os
import re
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# room: (rooms of ours, libraries) that it may include; base/hash.h includes uthash, and keeps it from ending the process
LIBC = {
    "arpa", "assert", "ctype", "dirent", "endian", "errno", "execinfo", "fcntl", "fnmatch", "getopt", "glob", "grp",
    "inttypes", "ifaddrs", "limits", "linux", "malloc", "math", "net", "netdb", "netinet", "poll", "pwd", "sched",
    "signal", "spawn", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string",
    "strings", "sys", "syslog", "termios", "time", "unistd",
}
ROOMS = {
    "base": (set(), {"uthash", "systemd"}),
    "net": ({"base"}, {"event2", "openssl", "ares", "sanitizer"}),
    "pg": ({"base"}, {"openssl", "stringprep", "idn-free"}),
    "conf": ({"base"}, set()),
    "sql": ({"base", "pg"}, set()),
    "shared": ({"base"}, set()),
    "pool": ({"base", "conf", "shared"}, set()),
    "patroni": ({"base", "net", "conf"}, {"event2", "openssl", "jansson", "setjmp"}),
    "verify": ({"base", "conf", "pg"}, {"event2", "ldap", "lber", "security"}),
}
# the rooms of connections, each of which may include the rooms before it
LAYERS = {
    "conn": {"event2", "openssl"}, "backend": {"event2", "openssl"}, "state": set(), "watch": {"event2"}, "auth": {"openssl"}, "prepared": set(), "cancel": {"event2"},
    "login": set(), "relay": set(), "handover": {"event2"}, "core": {"event2", "openssl"}, "show": set(), "web": {"event2"}, "admin": set(),
    "main": {"event2", "openssl", "ares"},
}
BELOW = set(ROOMS)
for _room, _libraries in LAYERS.items():
    ROOMS[_room] = (set(BELOW), _libraries)
    BELOW.add(_room)

# pure rooms: no file descriptors, no clock
FORBIDDEN = {
    "pg": {"sys/socket", "sys/epoll", "poll", "unistd", "time", "sys/time", "base/clock"},
    "sql": {"sys/socket", "sys/epoll", "poll", "unistd", "time", "sys/time", "base/clock"},
    "pool": {"sys/socket", "sys/epoll", "poll", "netinet", "arpa"},
    "shared": {"sys/socket", "sys/epoll", "poll", "netinet", "arpa"},
}


def sources():
    found = []
    for room in ROOMS:
        for pattern in ("src/%s/*.c", "src/%s/*.h", "include/%s/*.h"):
            found += [(room, path) for path in glob.glob(os.path.join(TOP, pattern % room))]
    return sorted(found)


def is_private(name):
    """A header in src/ROOM belongs to the files of its room; other rooms see include/ROOM."""
    return os.path.exists(os.path.join(TOP, "src", name))


def includes(path):
    """(line number, quoted or not, included file) of each #include."""
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
            if match:
                yield number, match.group(1) == '"', match.group(2)


def complaint(room, quoted, name):
    """Why this room may not include that; None if it may."""
    rooms, libraries = ROOMS[room]
    stem = name[:-2] if name.endswith(".h") else name
    first = stem.split("/")[0]
    if stem in FORBIDDEN.get(room, ()):
        return "%s must not know <%s>" % (room, name)
    if quoted:
        if first == "tbl" or first == room or first in rooms:
            return None
        return "%s may not include %s" % (room, name)
    if first in LIBC or first in libraries:
        return None
    return "%s may not include <%s>" % (room, name)


def test_shows_know_no_format():
    """A SHOW returns values; a struct result_format writes them, and formats other than the protocol's are possible."""
    shows = [path for room, path in sources() if room == "show"]
    assert len(shows) >= 4
    for path in shows:
        assert not {"admin/result_wire.h", "pg/build.h"} & {name for _, _, name in includes(path)}, path


def test_shows_read_rows_of_other_rooms():
    """The values of a connection, pool or database are collected in its own room (core/connection_row.h, pool/rows.h)."""
    innards = re.compile(r"LIST_EACH|LIST_OBJECT|HASH_[A-Z]|\b(pooled|peer|stream)\.|\blogin->|->database->")
    for path in (path for room, path in sources() if room == "show"):
        with open(path, encoding="utf-8") as f:
            found = [(number, line.strip()) for number, line in enumerate(f, 1) if innards.search(line)]
        assert not found, (path, found)


def test_there_is_something_to_check():
    assert {room for room, _ in sources()} == set(ROOMS)


def test_walls():
    faults = []
    for room, path in sources():
        for number, quoted, name in includes(path):
            why = complaint(room, quoted, name)
            if quoted and is_private(name) and name.split("/")[0] != room:
                why = "%s belongs to its room alone" % name
            if why:
                faults.append("%s:%d: %s" % (os.path.relpath(path, TOP), number, why))
    assert not faults, "\n".join(faults)


def test_no_room_is_forgotten():
    for side in ("src", "include"):
        found = {name for name in os.listdir(os.path.join(TOP, side)) if os.path.isdir(os.path.join(TOP, side, name))}
        assert found - {"tbl"} <= set(ROOMS), side


def test_no_header_knows_everything():
    """A header that reaches a third of all others must not be included by half of the source files."""
    ours = [path for _, path in sources()]
    direct = {os.path.relpath(path, os.path.join(TOP, "include")): {what for _, quoted, what in includes(path) if quoted}
              for path in ours}

    def reached(name):
        seen, todo = set(), [name]
        while todo:
            new = direct.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    headers = [name for name in direct if name.endswith(".h") and not name.startswith("..")]
    bodies = [reached(name) for name in direct if name.endswith(".c")]
    for header in headers:
        if len(reached(header)) > len(headers) / 3:
            users = sum(header in body for body in bodies)
            assert users <= len(bodies) / 2, "%s is known to %d of %d files" % (header, users, len(bodies))


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_each_header_compiles_alone(room):
    compiler = os.environ.get("CC", "gcc")
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I" + os.path.join(TOP, "include"), "-I" + os.path.join(TOP, "src")]
    for _, path in ((r, p) for r, p in sources() if r == room and p.endswith(".h")):
        done = subprocess.run([compiler, *flags, "-fsyntax-only", "-x", "c", "-include", path, "/dev/null"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


# --- calls

def objects(build):
    """{(room, file): (symbols that it defines, symbols that it leaves undefined)} of the objects of a build."""
    found = {}
    for room in ROOMS:
        for path in glob.glob(os.path.join(build, "src", room, "*.o")):
            # a build that is kept has the objects of sources that are gone
            if not os.path.exists(os.path.join(TOP, "src", room, os.path.basename(path)[:-2] + ".c")):
                continue
            lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
            symbols = [line.split()[-2:] for line in lines]
            found[room, os.path.basename(path)[:-2]] = ({name for kind, name in symbols if kind in "TDBR"},
                                                        {name for kind, name in symbols if kind == "U"})
    return found


def calls(build):
    """Pairs of files (room, file) of which the first needs a symbol of the second, with these symbols."""
    files = objects(build)
    owner = {name: file for file, (defined, _) in files.items() for name in defined}
    found = {}
    for file, (_, undefined) in files.items():
        for name in undefined:
            if owner.get(name, file) != file:
                found.setdefault((file, owner[name]), set()).add(name)
    return found


@pytest.fixture(scope="module")
def build():
    """The directory that the binary under test was built in, with the objects of the library in it."""
    directory = os.path.dirname(os.path.realpath(os.environ["PGWEIR"]))
    assert os.path.exists(os.path.join(directory, "src/main/main.o")), directory
    return directory


def test_calls_lead_down(build):
    """A room may need symbols only of rooms that it may include: a separate prototype would bypass the #include lines."""
    found = calls(build)
    assert len(found) > 500
    faults = ["src/%s/%s.c needs %s of src/%s/%s.c" % (*caller, ", ".join(sorted(names)), *callee)
              for (caller, callee), names in found.items() if callee[0] != caller[0] and callee[0] not in ROOMS[caller[0]][0]]
    assert not faults, "\n".join(sorted(faults))


# The most files of a room that call each other in a circle. A room with a larger circle has its number of today here, which only goes down.
CIRCLE = 3
LARGER_CIRCLES = {"backend": 4, "relay": 4, "state": 5, "web": 4}


def circles(edges):
    """The largest sets of files of which each reaches each other one by calls, as sorted lists. `edges`: pairs (caller, callee)."""
    callees = {}
    for caller, callee in edges:
        callees.setdefault(caller, set()).add(callee)

    def reached(file):
        seen, todo = set(), [file]
        while todo:
            new = callees.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    reach = {file: reached(file) for file in callees}
    found = {tuple(sorted(other for other in reach[file] if file in reach.get(other, ()))) for file in reach if file in reach[file]}
    return sorted((list(each) for each in found), key=len)


def test_circles_are_found():
    assert circles([("a", "b"), ("b", "c")]) == []
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")]) == [["d", "e"], ["a", "b", "c"]]


def test_circles_of_files_are_small(build):
    """Files that call each other in a circle can only be read together: a lower file keeps the data, and an upper one decides."""
    found = calls(build)
    for room in ROOMS:
        inside = {(caller[1], callee[1]): names for (caller, callee), names in found.items() if caller[0] == callee[0] == room}
        largest = (circles(inside) or [[]])[-1]
        most = LARGER_CIRCLES.get(room, CIRCLE)
        links = ["%s.c needs %s of %s.c" % (pair[0], ", ".join(sorted(names)), pair[1])
                 for pair, names in sorted(inside.items()) if set(pair) <= set(largest)]
        assert len(largest) <= most, "%s: %d files in a circle\n%s" % (room, len(largest), "\n".join(links))
        assert room not in LARGER_CIRCLES or len(largest) == most, "%s: lower its number to %d" % (room, len(largest))


def test_the_document_has_the_steps_of_the_turn():
    """doc/architecture.md and the first comment of src/main/turn.c name the same steps, in the same order."""
    with open(os.path.join(TOP, "src/main/turn.c"), encoding="utf-8") as f:
        code = re.findall(r"^ \*\t(\w+)  ", f.read(), re.M)
    with open(os.path.join(TOP, "doc/architecture.md"), encoding="utf-8") as f:
        section = f.read().split("\n## The turn\n")[1].split("\n## ")[0]
    assert len(code) > 9
    assert code == re.findall(r"^(?!step)(\w+) \| ", section, re.M)


def texts(*suffixes):
    """Returns {path in the tree: text} of the files of src, include and test/unit with these suffixes."""
    found = {}
    for top in ("src", "include", "test/unit"):
        for place, _, names in os.walk(os.path.join(TOP, top)):
            for name in names:
                if name.endswith(suffixes):
                    with open(os.path.join(place, name), encoding="utf-8") as f:
                        found[os.path.relpath(os.path.join(place, name), TOP)] = f.read()
    return found


def places_of(path):
    """Returns the files of the tree that the document may mean by `path`: from the top, or below src, include or include/tbl."""
    tops = ("", "src", "include", "include/tbl", "doc", "test", "test/unit")
    return [os.path.join(top, path) for top in tops if os.path.exists(os.path.join(TOP, top, path))]


def test_each_name_in_the_document_exists():
    """Each path, function, type and constant in backticks of doc/architecture.md; X, <room> and ... are for the reader to replace."""
    with open(os.path.join(TOP, "doc/architecture.md"), encoding="utf-8") as f:
        document = re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)
    spans = set(re.findall(r"`([^`\n]+)`", document))
    code = re.sub(r"/\*.*?\*/", "", "\n".join(texts(".c", ".h", ".tbl").values()), flags=re.S)
    words = set(re.findall(r"\w+", code))
    faults = []
    assert len(spans) > 200
    for span in sorted(spans):
        if re.search(r"<|\.\.\.|_X\b|^make |^threads = N$|\bNAME\b", span):
            continue
        members = re.fullmatch(r"\w+((?:(?:->|\.)\w+)+)", span)
        if members and "->" + re.sub(r"^(?:->|\.)", "", members[1]) in code:
            continue
        if re.fullmatch(r"[\w./-]+(?:\.\w+|/\w+)", span) and ("/" in span or re.search(r"\.(?:c|h|tbl|md|py|in|ac)$", span)):
            faults += [] if places_of(span) else [span]
        elif members and members[1] not in code:
            faults.append(f"{span}: no such member is used")
        else:
            faults += [f"{span}: {word}" for word in re.findall(r"[A-Za-z_]\w{2,}", span) if word not in words]
    assert not faults, "\n".join(faults)


def test_each_function_in_the_document_is_in_the_file_that_it_names():
    """`function()` (`file`) and `function()` in `file`; a row of several functions names the file of the last one."""
    with open(os.path.join(TOP, "doc/architecture.md"), encoding="utf-8") as f:
        found = re.findall(r"`(\w+)\(\)`\s+(?:in\s+|\()`([\w/]+\.[ch])`", f.read())
    assert len(found) > 40
    faults = []
    for function, path in found:
        text = "\n".join(texts(".c", ".h").get(place, "") for place in places_of(path))
        if not re.search(rf"^[A-Za-z][^\n;=]*\b{function}\([^;{{]*\)\n{{", text, re.M):
            faults.append(f"{function}() is not defined in {path}")
    assert not faults, "\n".join(faults)


# Functions of PostgreSQL, of libraries and of Patroni in comments, and names that stand for several.
FOREIGN = set("""
    check_datestyle cluster_as_json dblink_exec evhttp_connection_base_new exec_simple_query lex_save pg_split_opts _record_pack step_x take_x
    """.split())
FOREIGN_FILES = set("b.c load.c syslog.h utils.py".split())


def test_each_function_and_file_in_a_comment_exists():
    """`name()` and `file.c` in the comments of src and include: a name in a comment is not renamed by a compiler."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*(.*?)\*/', re.S)
    found = {path: text for path, text in texts(".c", ".h", ".tbl").items() if not path.startswith("test")}
    words = set()
    for text in found.values():
        words |= set(re.findall(r"\w+", token.sub(lambda m: m.group() if m.group(1) is None else " ", text)))
    names = {name for top in ("src", "include", "test", "doc", "etc") for _, _, files in os.walk(os.path.join(TOP, top)) for name in files}
    faults = []
    for path, text in found.items():
        for comment in token.finditer(text):
            body = comment.group(1) or ""
            faults += [f"{path}: {name}()" for name in re.findall(r"\b([a-z_]\w{3,})\(\)", body) if name not in words | FOREIGN]
            faults += [f"{path}: {name}" for name in re.findall(r"\b(?:[a-z_]+/)*([a-z_]+\.(?:c|h|tbl|py|md))\b", body)
                       if name not in names | FOREIGN_FILES]
    assert len(found) > 300
    assert not faults, "\n".join(faults)
