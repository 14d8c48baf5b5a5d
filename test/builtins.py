#!/usr/bin/env python3
"""
Writes include/tbl/builtin.tbl: names before a parenthesis that are not calls of user functions. Run it with connection strings of the relevant
PostgreSQL versions:

test/builtins.py "host=/run/postgresql dbname=postgres" ... > include/tbl/builtin.tbl

BUILTIN: functions of pg_catalog, except those that run a query in a string. BUILTIN_WORD: keywords that are no function, and that cannot be the name of a
user function without quotes (reserved, or "cannot be function or type name"). A version that lacks a name cannot call a built-in function of that name.
"""
import sys

import psycopg

# functions that run SQL from elsewhere, or change the session's replication origin
RUN_TEXTS = "proname ~ '_to_xml' OR proname IN ('ts_stat', 'ts_rewrite') OR proname ~ '^pg_replication_origin_(session|xact)'"
FUNCTIONS = ("SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND oid < 16384 AND proname ~ '^[a-z0-9_]+$' "
             "AND NOT (%s)" % RUN_TEXTS)
KEYWORDS = "SELECT word FROM pg_get_keywords() WHERE catcode IN ('C', 'R')"

functions, keywords = set(), set()
for where in sys.argv[1:]:
    with psycopg.connect(where) as database:
        functions.update(name for name, in database.execute(FUNCTIONS))
        keywords.update(name for name, in database.execute(KEYWORDS))
ordered = sorted(functions | keywords, key=lambda name: (len(name), name))
print("/*\n * Functions and keywords of PostgreSQL, by their size: see sql/state_calls.c. Made by test/builtins.py.\n */")
size = 0
for number, name in enumerate(ordered):
    while size < len(name):
        size += 1
        print("BUILTIN_SIZE(%d, %d)" % (size, number))
    print('BUILTIN%s("%s")' % ("" if name in functions else "_WORD", name))
for size in range(size + 1, 65):
    print("BUILTIN_SIZE(%d, %d)" % (size, len(ordered)))
