"""
coverage.py DIRECTORY LINES: adds up the coverage that gcov wrote there (as JSON), by room, for test/coverage.sh. Inline functions of a header are in
many objects: a line or branch counts as executed if any of these objects executed it. LINES gets the other lines.
"""
import collections
import glob
import gzip
import json
import os
import re
import sys

WORST = 15


def read(directory):
    """({(file, line): times}, {(file, line, branch): times}) of src and include."""
    lines, branches = collections.Counter(), collections.Counter()
    for path in glob.glob(os.path.join(directory, "*.gcov.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as f:
            report = json.load(f)
        for one in report["files"]:
            name = re.search(r"(?:^|/)((?:src|include)/\w+/.*)$", one["file"])
            if not name or name.group(1).startswith("include/tbl/") or one["file"].startswith("/usr/"):
                continue
            for line in one["lines"]:
                where = (name.group(1), line["line_number"])
                lines[where] += line["count"]
                for number, branch in enumerate(line["branches"]):
                    branches[where + (number,)] += branch["count"]
    return lines, branches


def part(counts, belongs):
    """(executed, all) of the lines or branches in the files that belong."""
    mine = [times for where, times in counts.items() if belongs(where[0])]
    return sum(times > 0 for times in mine), len(mine)


def text(executed, total):
    return "%6d of %6d %5.1f %%" % (executed, total, 100.0 * executed / total if total else 100)


def main(directory, missed):
    lines, branches = read(directory)
    files = {where[0] for where in lines}
    rooms = sorted({name.split("/")[1] for name in files})
    print("%-10s %24s   %24s" % ("room", "lines", "branches"))
    for room in rooms + [""]:
        def belongs(name, room=room):
            return not room or name.split("/")[1] == room
        print("%-10s %s   %s" % (room or "all", text(*part(lines, belongs)), text(*part(branches, belongs))))
    left = collections.Counter(where[0] for where, times in lines.items() if times == 0)
    print("\nmost lines that nobody reached:")
    for name, count in left.most_common(WORST):
        print("%6d of %5d  %s" % (count, part(lines, lambda other, name=name: other == name)[1], name))
    with open(missed, "w", encoding="utf-8") as f:
        f.writelines("%s:%d\n" % where for where, times in sorted(lines.items()) if times == 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
