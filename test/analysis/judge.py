"""
Prints the findings of a tool of test/analysis.sh that are not accepted.

- judge.py SOURCE TOOL LOG USED: prints the findings of the log that accepted.tsv does not list; records the used entries in USED
- judge.py SOURCE --unused USED: prints the entries of accepted.tsv that were not used

An entry is a check, a file, a part of the source line, and the reason, separated by tabs. So the entry remains valid when other lines change, but not
when its own line does.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FINDING = re.compile(r"^(?:\S*/)?((?:src|include|etc|test)/[^:\s]+):(\d+):(?:\d+:)? (?:fatal )?(?:warning|error|note|portability|performance|style):"
                     r" (.*) \[([^\[\]]+)\]$")
# the last line that each tool prints only when it has completed
STATUS = re.compile(r"^status (\d+)$", re.M)


def accepted():
    with open(os.path.join(HERE, "accepted.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    assert all(len(row) == 4 and row[3] for row in rows), "accepted.tsv: check, file, piece of the line, reason"
    return rows


def findings(log):
    """(file, line, text, check) of each, once."""
    seen = set()
    for line in log.splitlines():
        match = FINDING.match(line)
        if match:
            path, number, text, check = match.groups()
            check = check.split(",")[0].replace("clang-analyzer-", "").replace("-Wanalyzer-", "analyzer-")
            check = re.sub(r"^CWE-\d+\] \[(?:-Wanalyzer-)?", "", check)
            one = (path, int(number), text, check)
            if one not in seen:
                seen.add(one)
                yield one


def source_line(top, path, number):
    with open(os.path.join(top, path), encoding="utf-8") as f:
        return f.read().splitlines()[number - 1]


def judge(top, tool, log_path, used_path):
    with open(log_path, encoding="utf-8", errors="replace") as f:
        log = f.read()
    known, bad = 0, []
    with open(used_path, "a", encoding="utf-8") as used:
        for path, number, text, check in findings(log):
            line = source_line(top, path, number)
            entry = next((row for row in accepted() if row[0] == check and row[1] == path and row[2] in line), None)
            if entry:
                known += 1
                used.write("\t".join(entry) + "\n")
            else:
                bad.append("%s:%d: %s [%s]\n\t%s" % (path, number, text, check, line.strip()))
    status = STATUS.search(log)
    if not status or (status.group(1) != "0" and not known and not bad):
        bad.append("%s did not run:\n%s" % (tool, log[-3000:]))
    for one in bad:
        print(one)
    print("%s: %d accepted, %d to mend" % (tool, known, len(bad)))
    return not bad


def unused(used_path):
    with open(used_path, encoding="utf-8") as f:
        used = set(f.read().splitlines())
    left = [row for row in accepted() if "\t".join(row) not in used]
    for row in left:
        print("accepted.tsv: nothing finds this any more: " + "\t".join(row))
    return not left


if __name__ == "__main__":
    if sys.argv[2] == "--unused":
        sys.exit(0 if unused(sys.argv[3]) else 1)
    sys.exit(0 if judge(*sys.argv[1:]) else 1)
