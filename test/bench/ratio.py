#!/usr/bin/env python3
"""
Compares two builds of pgweir, to measure the effect of a change.

ratio.py --build DIR --room DIR [--turns N] [--seconds N] BEFORE AFTER [WORD...]

- --build: directory in which `make bench-programs` was run
- --room: an empty directory
- BEFORE, AFTER: two binaries, for example a copy of the earlier build
- WORD: only timed rows of bench.py with one of these words in the title

Prints the figures of both and the ratio, after divided by before, with its quartiles; and the instructions per query, which do not depend on the load
of the machine. Run it as an ordinary user, with PYTHONPATH naming the directory test/ of the source.
"""
import argparse
import os

import counts
from bench import TIMED, Bench, prepare
from stage import Stage
from turns import Printer, compare, number

BEFORE, AFTER = "before", "after"


def is_wanted(title, words):
    return not words or any(word in title for word in words)


def print_instructions(stage, table, words):
    titles = {mode: "instructions of its own, " + mode for mode in counts.MODES}
    wanted = [mode for mode in counts.MODES if is_wanted(titles[mode], words)]
    found = {name: counts.instructions(stage, name) if wanted else {} for name in (BEFORE, AFTER)}
    for mode in wanted:
        if mode in found[BEFORE] and mode in found[AFTER]:
            before, after = found[BEFORE][mode][0], found[AFTER][mode][0]
            table.row(titles[mode], "per query", number(before), number(after), "%.3f" % (after / before))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--room", required=True)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    prepare()
    poolers = {BEFORE: os.path.abspath(options.before), AFTER: os.path.abspath(options.after)}
    table = Printer("After over before", "work", "figure", BEFORE, AFTER, "ratio")
    with Stage(options.build, options.room, poolers) as stage:
        bench = Bench(stage, options)
        for row in TIMED:
            if not is_wanted(row.title, options.words):
                continue
            row.over, row.over_load = BEFORE, None
            result = compare(stage, table, row, {name: bench.side(name, row.place) for name in poolers}, options.turns,
                             options.seconds)
            table.row(row.title, row.unit, *result.cells(poolers), *result.ratio_cells([AFTER]))
        print_instructions(stage, table, options.words)
    table.end()


if __name__ == "__main__":
    main()
