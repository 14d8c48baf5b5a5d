#!/usr/bin/env python3
"""
Writes include/tbl/builtin.tbl: names that are no calls of a user's function in front of a parenthesis. Run it with the connection strings of
the PostgreSQL versions that count:

    test/builtins.py "host=/run/postgresql dbname=postgres" ... > include/tbl/builtin.tbl

These are the functions of pg_catalog, but for those that run a query in a string, and keywords. A version that has one name less than
another one calls nothing by that name.
"""
import sys

import psycopg

# they run SQL that may stand nowhere in a text, or change what the session is to a replication origin
RUN_TEXTS = "proname ~ '_to_xml' OR proname IN ('ts_stat', 'ts_rewrite') OR proname ~ '^pg_replication_origin_(session|xact)'"
# keywords that a function may be called as well, of those that often stand in front of a parenthesis
IN_FRONT = "'by', 'copy', 'explain', 'filter', 'materialized', 'over', 'set', 'vacuum'"
NAMES = ("SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND oid < 16384 AND proname ~ '^[a-z0-9_]+$' "
         "AND NOT (%s) UNION SELECT word FROM pg_get_keywords() WHERE catcode <> 'U' OR word IN (%s)" % (RUN_TEXTS, IN_FRONT))

names = set()
for where in sys.argv[1:]:
    with psycopg.connect(where) as database:
        names.update(name for name, in database.execute(NAMES))
ordered = sorted(names, key=lambda name: (len(name), name))
print("/*\n * Functions and keywords of PostgreSQL, by their size: see pg/state_calls.c. Made by test/builtins.py.\n */")
size = 0
for number, name in enumerate(ordered):
    while size < len(name):
        size += 1
        print("BUILTIN_SIZE(%d, %d)" % (size, number))
    print('BUILTIN("%s")' % name)
for size in range(size + 1, 65):
    print("BUILTIN_SIZE(%d, %d)" % (size, len(ordered)))
