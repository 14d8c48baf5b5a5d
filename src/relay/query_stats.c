/*
 * Executions and times of queries.
 *
 * Invariant: the table has at most QUERY_STATS_MOST entries, each also in the list `used`.
 */
#include "relay/query_stats.h"

#include "base/mem.h"
#include "sql/sql_lex.h"

#include <stddef.h>
#include <string.h>

#define KEY_OFFSET offsetof(struct query_entry, statement)

_Static_assert(offsetof(struct query_entry, text) == KEY_OFFSET + sizeof(uint64_t),
	       "the key has no padding");

static void query_stats_drop(struct query_stats *stats, struct query_entry *e)
{
	HASH_DEL(stats->table, e);
	list_remove(&e->used);
	mem_free(e);
}

void query_stats_free(struct query_stats **place)
{
	struct query_stats *stats = *place;

	*place = NULL;
	while (stats && stats->table)
		query_stats_drop(stats, stats->table);
	mem_free(stats);
}

/* Writes the text with "?" in place of each literal and list of literals, and one blank for blanks
   and comments. Returns the size. */
static size_t write_without_literals(const char *text, char out[QUERY_TEXT_MOST])
{
	size_t size = strlen(text), used = 0, literal_end = 0, list_end = 0;
	struct sql_lexer lexer = lex_begin((const uint8_t *)text, size + 1);
	const char *before = text;
	bool is_parameter = false;

	for (struct lex_token t = lex_next(&lexer); t.kind != LEX_END; t = lex_next(&lexer)) {
		bool is_literal = t.kind == LEX_STRING ||
				  (t.kind == LEX_WORD && lex_is_digit(*t.at) && !is_parameter),
		     is_after = used > 0 && used == literal_end;
		bool has_gap = used > 0 && t.at > before;

		before = t.at + t.size;
		is_parameter = lex_is_mark(&t, '$');
		/* the fraction of a number, a string in two parts, the next value of a list */
		if (is_after && ((is_literal) || (lex_is_mark(&t, '.') && !has_gap)))
			continue;
		if (is_literal && list_end > 0 && used == list_end + 1) {
			used = list_end;
			continue;
		}
		if (used + has_gap + (is_literal ? 1 : t.size) > QUERY_TEXT_MOST - 1)
			break;
		list_end = is_after && lex_is_mark(&t, ',') ? used : 0;
		/* no blank before the comma of a list, so that list_end is the end of its
		   literal */
		if (has_gap && list_end == 0)
			out[used++] = ' ';
		if (is_literal)
			out[used] = '?';
		else
			memcpy(out + used, t.at, t.size);
		used += is_literal ? 1 : t.size;
		literal_end = is_literal ? used : literal_end;
	}
	out[used] = '\0';
	return used;
}

static struct query_entry *find(const struct query_stats *stats, const void *key, size_t size)
{
	struct query_entry *found;

	HASH_FIND(hh, stats->table, key, size, found);
	return found;
}

/* NULL: no memory. */
static struct query_entry *add(struct query_stats *stats, const void *key, size_t size)
{
	struct query_entry *e = mem_try(KEY_OFFSET + size + 1);

	if (!e)
		return NULL;
	memcpy(&e->statement, key, size);
	HASH_ADD_KEYPTR(hh, stats->table, &e->statement, size, e);
	if (!HASH_HAS(hh, e)) {
		mem_free(e);
		return NULL;
	}
	list_append(&stats->used, &e->used);
	if (HASH_COUNT(stats->table) > QUERY_STATS_MOST)
		query_stats_drop(stats, LIST_OBJECT(stats->used.next, struct query_entry, used));
	return e;
}

void query_stats_add(struct query_stats *stats, uint64_t statement, const char *text, usec_t took)
{
	struct { uint64_t statement; char text[QUERY_TEXT_MOST]; } key;
	size_t size = sizeof(key.statement) +
		      (statement > 0 ? 0 : write_without_literals(text, key.text));
	struct query_entry *e;

	key.statement = statement;
	e = find(stats, &key, size);
	if (!e && !(e = add(stats, &key, size)))
		return;
	list_remove(&e->used);
	list_append(&stats->used, &e->used);
	e->executions++;
	e->total += (uint64_t)took;
	e->counts[latency_bucket(took)]++;
}

const struct query_entry *query_stats_find(const struct query_stats *stats, uint64_t statement)
{
	return find(stats, &statement, sizeof(statement));
}

