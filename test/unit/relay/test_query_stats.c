/* Entries of queries: texts without literals, and the bound. */
#include "relay/query_stats.h"

#include "unit.h"

#include <stdio.h>

static struct query_stats *stats;

/* Returns the text of the entry that counts this query. */
static const char *counted(const char *text)
{
	query_stats_add(stats, 0, text, 7);
	return LIST_OBJECT(stats->used.prev, struct query_entry, used)->text;
}

TEST(texts_without_literals)
{
	stats = query_stats_new();
	REQUIRE(stats);
	CHECK_TEXT(counted("select 1"), "select ?");
	CHECK_TEXT(counted("  select\t\n 'a' /* b 1 */ , 2 -- c"), "select ?");
	CHECK_TEXT(counted("select a1, $1, $12, b = -1.50, 1e10"), "select a1, $1, $12, b = -?");
	CHECK_TEXT(counted("select E'\\'1', $$x$$, $q$'$q$, \"a 1\""), "select ?, \"a 1\"");
	CHECK_TEXT(counted("x in (1,2 , 3) or y in ('a', 'b') and (z, 1)"), "x in (?) or y in (?) and (z, ?)");
	CHECK_TEXT(counted("values (1, 2), (3, 4)"), "values (?), (?)");
	CHECK_TEXT(counted("a = 1 and b=2"), "a = ? and b=?");
	CHECK_TEXT(counted("'open"), "?");
	CHECK_TEXT(counted(""), "");
	query_stats_free(&stats);
	CHECK(stats == NULL);
}

TEST(counts_times_and_percentile)
{
	const struct query_entry *e;

	stats = query_stats_new();
	REQUIRE(stats);
	for (int i = 0; i < 99; i++)
		query_stats_add(stats, 42, "ignored", 5);
	query_stats_add(stats, 42, "ignored", 1000000);
	query_stats_add(stats, 0, "select 1", 1);
	CHECK(query_stats_find(stats, 43) == NULL);
	e = query_stats_find(stats, 42);
	REQUIRE(e);
	CHECK_INT(e->executions, 100);
	CHECK_INT(e->total, 99 * 5 + 1000000);
	CHECK_INT(query_entry_p99(e), 5);
	query_stats_add(stats, 42, "ignored", 1000000);
	CHECK(query_entry_p99(e) > 900000);
	query_stats_free(&stats);
}

TEST(the_least_recent_entry_makes_room)
{
	char text[32];

	stats = query_stats_new();
	REQUIRE(stats);
	for (int i = 0; i < QUERY_STATS_MOST; i++) {
		snprintf(text, sizeof(text), "select a%d", i);
		counted(text);
	}
	counted("select a0");
	counted("select new");
	CHECK_INT(HASH_COUNT(stats->table), QUERY_STATS_MOST);
	CHECK_INT(LIST_OBJECT(stats->used.prev->prev, struct query_entry, used)->executions, 2);
	counted("select a1");
	CHECK_INT(LIST_OBJECT(stats->used.prev, struct query_entry, used)->executions, 1);
	counted("select a0");
	CHECK_INT(LIST_OBJECT(stats->used.prev, struct query_entry, used)->executions, 3);
	query_stats_free(&stats);
}

UNIT_MAIN
