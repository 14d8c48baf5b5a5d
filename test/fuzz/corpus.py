#!/usr/bin/env python3
"""
Converts corpora of fuzz targets between a directory with a file for each input, as fuzzers use it, and the text in the tree.

- corpus.py unpack FILE DIRECTORY: writes a file for each line of the text
- corpus.py pack DIRECTORY FILE [SIZE [COUNT]]: replaces the part headed FOUND, which becomes the last, with the smallest inputs that no other part
  contains, at most COUNT inputs and SIZE bytes in all

test/fuzz/replay.c describes the format of the text.
"""
import hashlib
import os
import re
import sys

FOUND = "# found by fuzzing, minimized"
NAMED = {0x0a: "\\n", 0x0d: "\\r", 0x09: "\\t", 0x00: "\\0", 0x5c: "\\\\"}
BACK = {"n": 0x0a, "r": 0x0d, "t": 0x09, "0": 0x00, "\\": 0x5c}
PART = re.compile(r"\\x([0-9a-f]{2})|\\(.)|([^\\])", re.DOTALL)


def escape(data):
    text = "".join(NAMED.get(b) or (chr(b) if 0x20 <= b < 0x7f else "\\x%02x" % b) for b in data)
    return "\\x23" + text[1:] if text.startswith("#") else text


def unescape(line):
    return bytes(int(hexed, 16) if hexed else BACK[named] if named else ord(plain)
                 for hexed, named, plain in PART.findall(line))


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().splitlines()


def unpack(path, directory):
    os.makedirs(directory, exist_ok=True)
    for line in read(path):
        if not line.startswith("#"):
            data = unescape(line)
            with open(os.path.join(directory, hashlib.sha1(data).hexdigest()), "wb") as file:
                file.write(data)


def written(path):
    """The inputs written by hand: all parts except the part that fuzzing has found."""
    kept, is_found = [], False
    for line in read(path) if os.path.exists(path) else []:
        if line.startswith("#"):
            is_found = line == FOUND
        if not is_found:
            kept.append(line)
    return kept


def pack(directory, path, size=1 << 30, count=1 << 30):
    kept = written(path)
    inputs = []
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            inputs.append(escape(file.read()))
    known = set(kept)
    used = 0
    fresh = []
    for line in sorted(set(inputs) - known, key=lambda text: (len(text), text)):
        used += len(line) + 1
        if used > size or len(fresh) == count:
            break
        fresh.append(line)
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(line + "\n" for line in kept + ([FOUND] + fresh if fresh else [])))


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3])
    elif len(sys.argv) in (4, 5, 6) and sys.argv[1] == "pack":
        pack(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
    else:
        sys.exit(__doc__)


main()
