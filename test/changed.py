"""
Which tests can notice a change: python3 test/changed.py [--since REV] [--seconds N] [--workers N] [--times FILE]

The change is the difference of the work tree to REV: to the commit at which the branch left main, or on main itself to the last commit
(to its parent if the work tree has no change). Prints a line for each test to run, and notes for the reader:

    unit test/unit/relay/tests          the unit tests of a changed room, or a fuzz target that includes a header of the room
    worlds                              some simulated worlds: a source file has changed
    scene wire/test_cancel.py           a file of scenes; the file with the best chance to notice the change comes first
    note ...                            tests that are left out, and why

No table says which scenes belong to which source file. A scene file is chosen if it or a module that it imports has changed, and otherwise by
points for

- commits in the past that changed both the source file and the scene file: fewer points if the commit changed many files;
- names that both share, as src/cancel/cancel.c and wire/test_cancel.py do;
- names of include/tbl, such as settings and commands, that both the changed lines (or the head of their function) and the scene file contain:
  fewer points for a name that many scene files contain.

Files with points are chosen in this order until their tests take --seconds with --workers at once. --times has the seconds of each file in
the last run (support of PGWEIR_TIMES in conftest.py); an unknown file counts as UNKNOWN seconds.
"""
import argparse
import ast
import collections
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
SCENES = ("wire", "live", "pgbouncer")
UNKNOWN = 15.0


def git(*arguments):
    done = subprocess.run(["git", "-C", str(TOP), *arguments], capture_output=True, encoding="utf-8", errors="replace", check=False)
    return done.stdout if done.returncode == 0 else None


# --- the change

def default_base():
    """The revision to compare with; None without git or without an earlier commit."""
    head = git("rev-parse", "HEAD")
    for main in ("main", "origin/main"):
        base = git("merge-base", "HEAD", main)
        if base and base != head:
            return base.strip()
    dirty = git("status", "--porcelain")
    rev = git("rev-parse", "--verify", "-q", "HEAD" if dirty else "HEAD~1")
    return rev and rev.strip()


def changed_files(base):
    listed = git("diff", "--name-only", "--no-renames", base) or ""
    new = git("ls-files", "--others", "--exclude-standard") or ""
    return sorted(set(listed.split("\n") + new.split("\n")) - {""})


def changed_words(base, path):
    """Words of the changed lines, and of the heads of the functions around them; of the whole file if it is new."""
    diff = git("diff", "--unified=0", "--no-renames", base, "--", path) or ""
    if not diff and (TOP / path).exists():
        diff = "\n".join("+" + line for line in (TOP / path).read_text(encoding="utf-8", errors="replace").split("\n"))
    lines = [line for line in diff.split("\n") if line[:2] == "@@" or line[:1] in "+-"]
    return set(re.findall(r"[A-Za-z][A-Za-z0-9_]{3,}", "\n".join(lines)))


# --- rooms and their programs

def rooms_of(files):
    """The rooms of the files; a table belongs to the rooms that include it."""
    rooms = set()
    for path in files:
        parts = path.split("/")
        if parts[:2] == ["include", "tbl"]:
            for source in [*TOP.glob("src/*/*.[ch]"), *TOP.glob("include/*/*.h")]:
                if '"tbl/%s"' % parts[2] in source.read_text(encoding="utf-8"):
                    rooms.add(source.parent.name)
        elif parts[0] in ("src", "include") and len(parts) == 3:
            rooms.add(parts[1])
        elif parts[:2] == ["test", "unit"] and len(parts) == 4:
            rooms.add(parts[2])
    return rooms


def programs_of(rooms):
    """The programs that etc/files.sh names: of each room one, and one of each file that ends with UNIT_ALONE; and fuzz targets."""
    for room in sorted(rooms):
        for path in sorted(TOP.glob("test/unit/%s/test_*.c" % room)):
            if is_alone(path):
                yield "test/unit/%s/%s" % (room, path.stem)
        if (TOP / "test/unit" / room).is_dir():
            yield "test/unit/%s/tests" % room
    for path in sorted(TOP.glob("test/fuzz/fuzz_*.c")):
        if rooms & set(re.findall(r'#include "(\w+)/', path.read_text(encoding="utf-8"))):
            yield "test/fuzz/%s" % path.stem


def is_alone(path):
    return "UNIT_ALONE" in path.read_text(encoding="utf-8").splitlines()


# --- scenes

def scene_files():
    """{name: text}, such as wire/test_cancel.py"""
    return {"%s/%s" % (layer, path.name): path.read_text(encoding="utf-8")
            for layer in SCENES for path in sorted((TOP / "test" / layer).glob("test_*.py"))}


def imports(text):
    """The modules of support/ that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and (node.level or node.module.split(".")[0] == "support"):
            found.add(node.module.split(".")[-1])
        elif isinstance(node, ast.ImportFrom):
            found |= {name.name for name in node.names}
    return found


def importers(changed):
    """Modules of support/ that have changed, and the modules that import these, directly or not."""
    modules = {path.stem: imports(path.read_text(encoding="utf-8")) for path in (TOP / "test/support").glob("*.py")}
    found = {pathlib.PurePath(path).stem for path in changed if path.startswith("test/support/")}
    while True:
        more = {name for name, used in modules.items() if used & found} | found
        if more == found:
            return found
        found = more


def from_history(changed, points):
    """Scene files of the commits that have changed these sources before."""
    commits = (git("log", "--no-renames", "--format=tformat:%x00", "--name-only", "--", "src", "include", "test") or "").split("\0")
    for commit in commits:
        files = set(commit.split("\n")) - {""}
        sources = [path for path in files if path.startswith(("src/", "include/"))]
        scenes = [path[5:] for path in files if path[5:] in points]
        both = len(changed & set(sources))
        if both and scenes:
            for scene in scenes:
                points[scene] += both / (len(sources) * len(scenes)) ** 0.5


def words_of_name(path):
    """pool, role and evidence for src/pool/role_evidence.c; without the s of a plural."""
    pure = pathlib.PurePath(path)
    return {word.rstrip("s") for word in (pure.stem.removeprefix("test_") + "_" + pure.parent.name).split("_")}


def from_names(changed, points):
    for path in changed:
        for scene in points:
            shared = words_of_name(path) & words_of_name(scene)
            points[scene] += len(shared) / len(words_of_name(path)) / max(1, len(changed)) ** 0.5


def from_tables(words, texts, points):
    names = set()
    for path in TOP.glob("include/tbl/*.tbl"):
        names |= set(re.findall(r"\b(?:[A-Z][A-Z0-9_]{3,}|[a-z]+(?:_[a-z0-9]+)+)\b", path.read_text(encoding="utf-8")))
    found = {name: set(re.findall(r"\w+", text)) for name, text in texts.items()}
    for word in words & names:
        having = [scene for scene in points if word in found[scene]]
        for scene in having:
            points[scene] += 1 / len(having)


def rank(changed, base):
    """[(points, scene file)], best first. The points are infinite if the file or a module that it imports has changed."""
    texts = scene_files()
    points = collections.Counter(dict.fromkeys(texts, 0.0))
    sources = {path for path in changed if path.startswith(("src/", "include/"))}
    from_history(sources, points)
    from_names(sources, points)
    from_tables(set().union(*(changed_words(base, path) for path in sources)), texts, points)
    modules = importers(changed)
    for scene, text in texts.items():
        if "test/" + scene in changed or imports(text) & modules:
            points[scene] = float("inf")
    return sorted(((number, scene) for scene, number in points.items() if number > 0), key=lambda pair: (-pair[0], pair[1]))


def times_of(path):
    if not path or not pathlib.Path(path).exists():
        return {}
    rows = (line.split("\t") for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines())
    return {scene: float(seconds) for seconds, scene in rows}


def within(ranked, times, budget):
    """Scene files in their order, while their seconds are within the budget; and the others."""
    chosen, left = [], []
    for number, scene in ranked:
        seconds = times.get(scene, UNKNOWN)
        # the changed scene itself always runs
        if seconds <= budget or number == float("inf") and not chosen:
            chosen.append(scene)
            budget -= seconds
        else:
            left.append(scene)
    return chosen, left


def main():
    parser = argparse.ArgumentParser(description="Prints the tests that can notice a change.")
    parser.add_argument("--since")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--times")
    options = parser.parse_args()
    base = options.since or default_base()
    if not base or git("rev-parse", "--verify", "-q", base + "^{commit}") is None:
        sys.exit("no commit to compare with: is this a git work tree with history?")
    changed = changed_files(base)
    rooms = rooms_of(changed)
    programs = list(programs_of(rooms))
    chosen, left = within(rank(changed, base), times_of(options.times), options.seconds * options.workers)
    for program in programs:
        print("unit", program)
    if any(path.startswith(("src/", "include/", "test/sim/")) for path in changed):
        print("worlds")
    for scene in chosen:
        print("scene", scene)
    print("note compared with %s: %d files changed" % (base[:10], len(changed)))
    print("note left out: clang's build, PostgreSQL 18, the installation build and test/guard, the oracles")
    print("note left out: the unit tests of all rooms but %s" % (" ".join(sorted(rooms)) or "none"))
    whole = [path for path in changed if not path.startswith(("src/", "include/", "doc/", "test/unit/", "test/support/", "test/sim/"))
             and path[5:] not in scene_files() and not path.endswith(".md")]
    if whole:
        print("note these can touch all tests (sh test/run.sh): " + " ".join(whole))
    if left:
        print("note left out for want of time: " + " ".join(left))
    print("note left out, as nothing connects them with the change: %d of %d files of scenes"
          % (len(scene_files()) - len(chosen) - len(left), len(scene_files())))


if __name__ == "__main__":
    main()
