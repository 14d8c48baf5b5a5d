#!/usr/bin/env python3
"""Checks the names of the C code: python3 test/names.py prints what test_language.py compares with its lists of exceptions.

A predicate is a function with a word is, has, may, are or can in its name: it takes pointers to const and assigns to no member.
A function without a result is named by what it does, not by a statement (`entry_is_certain`).
A struct tag, the common prefix of the enumerators of an enum, and the name of a source file or header belong to one definition."""

import os
import re

from language import TREE, files

PREDICATE = re.compile(r"(?:^|_)(?:is|has|may|are|can)(?:_|$)")
STATEMENT = re.compile(r"(?:^|_)(?:is|are|was|were|has|have|had|may|can|goes|stays|comes|ends|waits)(?:_|$)")
FUNCTION = re.compile(r"^(?P<result>(?:(?:static|inline|const|struct|enum|union|unsigned)\s+)*\w+[\s*]+)(?P<name>\w+)\((?P<args>[^()]*(?:\([^()]*\)"
                      r"[^()]*)*)\)(?:\s*(?:ATTRIBUTE_\w+|__attribute__\s*\(\(.*?\)\)))*\s*(?P<end>[;{])", re.M | re.S)
ASSIGNMENT = re.compile(r"->\w+(?:\[[^\]\n]*\])?\s*(?:(?:[-+|&^*/]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\w+->|(?<!,)\n\s*\*\w+(?:\+\+)?\s*=(?!=)")


def without_comments(text):
    """Returns the text with comments and strings blanked, so that lines keep their numbers."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
    return token.sub(lambda m: '""' if m.group()[0] == '"' else "0" if m.group()[0] == "'" else "\n" * m.group().count("\n"), text)


def sources():
    """Yields (path below the tree, text without comments) of each file of C."""
    for path in files("src/**/*.[ch]", "include/**/*.h"):
        yield str(path.relative_to(TREE)), without_comments(path.read_text(encoding="utf-8"))


def functions(text):
    """Yields (name, result, arguments, body) of each function; the body of a prototype is empty."""
    for found in FUNCTION.finditer(text):
        body = ""
        if found.group("end") == "{":
            body = text[found.end():text.find("\n}", found.end())]
        yield found.group("name"), " ".join(found.group("result").split()), found.group("args"), body


def is_mutable_pointer(argument):
    """Whether the function may change what this argument points to."""
    return "*" in argument and not re.match(r"\s*(?:struct\s+\w+\s+)?const\b", argument) or argument.count("*") > 1 and not re.search(r"\*\s*const", argument)


def predicates_with_effect(text):
    """Returns the names of the predicates that could change something."""
    return {name for name, _, args, body in functions(text) if PREDICATE.search(name)
            and (any(is_mutable_pointer(each) for each in args.split(",")) or ASSIGNMENT.search(body))}


def statements_without_result(text):
    """Returns the names of the functions without a result that are named as a statement."""
    return {name for name, result, _, _ in functions(text) if STATEMENT.search(name) and re.fullmatch(r"(?:static )?(?:inline )?void", result)}


def tags(text):
    """Returns the struct tags that this file defines."""
    return re.findall(r"\bstruct\s+(\w+)\s*\{", text)


def enum_prefixes(text):
    """Returns the common prefix of the enumerators of each enum: up to the last _ that all of them have."""
    found = []
    for body in re.findall(r"\benum(?:\s+\w+)?\s*\{([^}]*)\}", text):
        made = re.findall(r"#\s*define\s+\w+\([^)]*\)\s*(\w+_)##", body)
        body = re.sub(r"^[ \t]*#.*$", "", body, flags=re.M)
        names = made + [re.match(r"\w+", each.strip()).group() for each in body.split(",") if re.match(r"\w+", each.strip())]
        prefix = made[0] if made else os.path.commonprefix(names)
        prefix = prefix[:prefix.rfind("_") + 1]
        if prefix and (len(names) > 1 or made):
            found.append(prefix)
    return found


def twice(lists):
    """Returns what more than one of these lists has, or one of them has twice."""
    seen, again = set(), set()
    for each in (each for some in lists for each in some):
        (again if each in seen else seen).add(each)
    return again


def definitions(text):
    """Returns the names of the functions that this file defines."""
    return {name for name, _, _, _ in (found for found in functions(text) if found[3])}


def read():
    """Returns {check: set of names that fail it}."""
    texts = dict(sources())
    return {
        "predicates with an effect": set().union(*map(predicates_with_effect, texts.values())),
        "functions without a result named as a statement": set().union(*map(statements_without_result, texts.values())),
        "struct tags defined twice": twice(map(tags, texts.values())),
        "prefixes of two enums": twice(map(enum_prefixes, texts.values())),
        "functions of two source files": twice(definitions(text) for text in texts.values()),
        "names of two source files": twice([[os.path.basename(path) for path in texts if path.endswith(".c")]]),
        "names of two headers": twice([[os.path.basename(path) for path in texts if path.endswith(".h")]]),
    }


if __name__ == "__main__":
    for check, names in read().items():
        print(f"{check} ({len(names)}): {' '.join(sorted(names))}")
