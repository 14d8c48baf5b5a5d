"""
Counts in place of times, which are equal on every machine and at every load: instructions and system calls. Both are the difference of a longer and a
shorter run, which cancels start, login and end of the program.
"""
import collections
import os
import re
import subprocess

from stage import LoadFailed

SHORT, LONG = 500, 2500

MODES = ("simple", "extended", "prepared")


def self_costs(path):
    """{object file: instructions executed in it} of a callgrind file, calls into other functions left out."""
    names = {}
    costs = collections.Counter()
    inside = None
    is_call = False
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            match = re.match(r"(c?)ob=\((\d+)\)(?: (.*))?$", line.rstrip("\n"))
            if match:
                caller, number, name = match.group(1) == "", match.group(2), match.group(3)
                if name:
                    names[number] = name
                if caller:
                    inside = names[number]
            elif line.startswith("calls="):
                is_call = True          # the next line is the cost of the function called
            elif re.match(r"[+\-*\d]", line):
                fields = line.split()
                if not is_call and len(fields) > 1:
                    costs[inside] += int(fields[1])
                is_call = False
    return costs


def instructions(stage, name):
    """
    {mode: (own, all)} user-space instructions per query of one client: in the pooler's own binary, and including its libraries. Unsupported modes are
    omitted.
    """
    out = stage.path("callgrind.%s" % name)
    pooler = stage.pooler(name, under=["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out])
    dumps = 0

    def dump():
        nonlocal dumps
        subprocess.run(["callgrind_control", "-d", str(pooler.process.pid)], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        dumps += 1
        return self_costs("%s.%d" % (out, dumps))

    found = {}
    try:
        stage.load(pooler, ["-c", "1", "-n", str(SHORT), "-T", "60"])
        dump()
        for mode in MODES:
            costs = []
            try:
                for count in (SHORT, LONG):
                    stage.load(pooler, ["-c", "1", "-M", mode, "-n", str(count), "-T", "60"])
                    costs.append(dump())
            except LoadFailed:
                dump()
                continue
            costs[1].subtract(costs[0])
            own = costs[1][os.path.realpath(stage.pooler_paths[name])]
            found[mode] = own / (LONG - SHORT), sum(costs[1].values()) / (LONG - SHORT)
    finally:
        stage.stop(pooler)
    return found


def _calls(path):
    """Returns {system call: count} from the output of strace -c."""
    calls = {}
    with open(path, encoding="ascii", errors="replace") as f:
        for line in f:
            fields = line.split()
            if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
                calls[fields[-1]] = int(fields[3])
    return calls


def system_calls(stage, name, arguments=()):
    """{system call: times per query} of one client."""
    counted = []
    for count in (SHORT, LONG):
        out = stage.path("strace.%s.%d" % (name, count))
        pooler = stage.pooler(name, under=["strace", "-f", "-c", "-o", out])
        try:
            stage.load(pooler, ["-c", "1", "-n", str(count), "-T", "60", *arguments])
        finally:
            stage.stop(pooler)
        counted.append(_calls(out))
    each = {call: (times - counted[0].get(call, 0)) / (LONG - SHORT) for call, times in counted[1].items()}
    return {call: round(times, 2) for call, times in each.items() if times >= 0.005}
