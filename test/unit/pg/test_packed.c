/* Parameters, ledgers and statements are unchanged after a handover; truncated records are refused. */
#include "unit.h"

#include "base/mem.h"
#include "pg/ledger.h"
#include "sql/statement.h"

#include <stdio.h>

/* Truncates the record at every byte and checks that it is refused each time. `read` reads one value and frees it. */
static void cut_everywhere(const struct bytes *packed, void (*read)(struct unpack *in))
{
	for (size_t n = 0; n <= bytes_size(packed); n++) {
		/* an allocation of the exact size, so that the sanitizer detects a read past the end */
		uint8_t *copy = mem_must(n + 1);
		struct unpack in = unpack_of(copy + 1, n);

		if (n > 0)
			memcpy(copy + 1, bytes_front(packed), n);
		read(&in);
		CHECK(in.bad == (n < bytes_size(packed)));
		mem_free(copy);
	}
}

static struct params_table *here, *there;

static const struct params *set_of(struct params_table *table, const char *const *pairs)
{
	const struct params *set = params_none(table), *next;

	for (; *pairs; pairs += 2) {
		next = params_with(table, set, params_index(table, pairs[0]), pairs[1]);
		params_drop(table, &set);
		set = next;
	}
	return set;
}

static const char *const pairs[] = { "DateStyle", "German", "TimeZone", "", "work_mem", "4MB", NULL };

static void read_params(struct unpack *in)
{
	const struct params *set = params_unpack(in, there);

	if (set)
		params_drop(there, &set);
}

TEST(parameters_are_sent_by_name)
{
	struct bytes out = BYTES_EMPTY;
	const struct params *set, *got;
	struct unpack in;

	here = params_table_new("work_mem, IntervalStyle");
	there = params_table_new("IntervalStyle");
	set = set_of(here, pairs);
	params_pack(&out, here, set);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	got = params_unpack(&in, there);
	REQUIRE(got && unpack_is_done(&in));
	CHECK_TEXT(params_get(got, PARAM_DATESTYLE), "German");
	CHECK_TEXT(params_get(got, PARAM_TIMEZONE), "");
	CHECK(!params_get(got, params_index(there, "IntervalStyle")));
	params_drop(there, &got);
	cut_everywhere(&out, read_params);
	bytes_free(&out);

	params_pack_bits(&out, here, 1u << PARAM_TIMEZONE | 1u << params_index(here, "work_mem") | 1u << params_index(here, "IntervalStyle"));
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	CHECK_INT(params_unpack_bits(&in, there), 1u << PARAM_TIMEZONE | 1u << params_index(there, "IntervalStyle"));
	CHECK(unpack_is_done(&in));
	bytes_free(&out);
	params_drop(here, &set);
	params_table_free(&here);
	params_table_free(&there);
}

/* A parameter that is tracked only by the other process counts as one of the client's untracked parameters. */
TEST(parameters_that_are_no_longer_tracked)
{
	char names[PARAMS_OTHERS_MOST][8];
	struct params_pair others[PARAMS_OTHERS_MOST];
	const char *values[PARAM_FIXED + 1] = { NULL };
	const struct params *set, *got;
	struct bytes out = BYTES_EMPTY;
	struct unpack in;

	here = params_table_new("work_mem");
	there = params_table_new(NULL);
	for (unsigned i = 0; i < PARAMS_OTHERS_MOST; i++) {
		snprintf(names[i], sizeof(names[i]), "a.p%u", i);
		others[i] = (struct params_pair){ names[i], "x" };
	}
	values[PARAM_FIXED] = "4MB";
	set = params_of_values(here, values, others, PARAMS_OTHERS_MOST);
	params_pack(&out, here, set);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	got = params_unpack(&in, there);
	REQUIRE(got && unpack_is_done(&in));
	CHECK_INT((int)params_others(got), PARAMS_OTHERS_MOST + 1);
	CHECK_TEXT(params_other_value(got, "work_mem"), "4MB");
	bytes_free(&out);
	params_drop(there, &got);
	params_drop(here, &set);
	params_table_free(&here);
	params_table_free(&there);
}

static void read_ledger(struct unpack *in)
{
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	ledger_unpack(in, &l);
	CHECK(!in->bad || ledger_is_empty(&l));
	ledger_clear(&l);
}

static void move(struct ledger *l)
{
	struct bytes out = BYTES_EMPTY;
	struct unpack in;

	ledger_pack(&out, l);
	ledger_clear(l);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	CHECK(ledger_unpack(&in, l) && unpack_is_done(&in));
	if (bytes_size(&out) < 1000)
		cut_everywhere(&out, read_ledger);
	bytes_free(&out);
}

/* Feeds answers and moves the ledger before each; compares the owner of each answer with `owners`. */
static void answer(struct ledger *l, const char *types, const char *owners)
{
	for (; *types; types++, owners++) {
		enum ledger_owner owner = OWED_TO_CLIENT;

		move(l);
		if (ledger_passes(l, (uint8_t)*types)) {
			CHECK(*owners == 'c');
			continue;
		}
		CHECK(ledger_received(l, (uint8_t)*types, &owner) == LEDGER_ANSWER);
		CHECK(owner == (*owners == 'c' ? OWED_TO_CLIENT : OWED_TO_POOLER));
	}
}

TEST(ledger_continues_after_a_move_anywhere)
{
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	CHECK(ledger_sent(&l, 'P', 0, OWED_TO_POOLER));
	CHECK(ledger_sent_marked(&l, 'B', 0, OWED_TO_CLIENT, MARK_PREPARED));
	CHECK(ledger_sent(&l, 'D', 'S', OWED_TO_CLIENT));
	ledger_watch_last(&l);
	CHECK(ledger_sent(&l, 'E', 0, OWED_TO_CLIENT));
	CHECK(ledger_sent(&l, 'S', 0, OWED_TO_CLIENT));
	CHECK(ledger_sent(&l, 'Q', 0, OWED_TO_CLIENT));
	CHECK_INT(ledger_depth(&l), 6);
	answer(&l, "12tTDDCZ" "TDCIZ", "pcccccccccccc");
	CHECK(ledger_is_empty(&l));
	ledger_clear(&l);
}

TEST(watched_answer_remains_watched)
{
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	CHECK(ledger_sent(&l, 'E', 0, OWED_TO_CLIENT));
	ledger_watch_last(&l);
	CHECK(ledger_sent(&l, 'E', 0, OWED_TO_CLIENT));
	move(&l);
	CHECK(!ledger_passes(&l, 'C'));
	ledger_clear(&l);
}

TEST(copies_errors_and_doubts_are_kept)
{
	enum ledger_owner owner;
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	CHECK(ledger_sent(&l, 'P', 0, OWED_TO_CLIENT) && ledger_sent(&l, 'B', 0, OWED_TO_CLIENT) && ledger_sent(&l, 'E', 0, OWED_TO_CLIENT));
	answer(&l, "12G", "ccc");
	CHECK(ledger_sent(&l, 'S', 0, OWED_TO_CLIENT));
	move(&l);
	CHECK(l.copy_in && l.copy_syncs == 1);
	CHECK(ledger_received(&l, 'E', &owner) == LEDGER_ANSWER);
	move(&l);
	CHECK(ledger_may_surprise(&l) && !ledger_is_empty(&l));
	ledger_clear(&l);
	CHECK(ledger_sent(&l, 'P', 0, OWED_TO_CLIENT));
	CHECK(ledger_received(&l, 'E', &owner) == LEDGER_ANSWER);
	move(&l);
	CHECK(!ledger_enters(&l));
	ledger_clear(&l);
}

/* More entries than the struct itself holds, in a ring whose head is in the middle. */
TEST(long_pipelines_are_kept)
{
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	for (int i = 0; i < 50; i++)
		CHECK(ledger_sent(&l, i % 2 ? 'P' : 'B', 0, OWED_TO_CLIENT));
	for (int i = 0; i < 30; i++)
		answer(&l, i % 2 ? "1" : "2", "c");
	for (int i = 0; i < 200; i++)
		CHECK(ledger_sent(&l, i % 2 ? 'P' : 'B', 0, OWED_TO_CLIENT));
	move(&l);
	CHECK_INT(ledger_depth(&l), 220);
	for (int i = 0; i < 220; i++)
		answer(&l, i % 2 ? "1" : "2", "c");
	CHECK_INT(ledger_depth(&l), 0);
	ledger_clear(&l);
}

TEST(impossible_entries_are_refused)
{
	static const uint8_t kind[] = { 0, 0, 0, 1, 99, 0, 0, 0, 1 }, count[] = { 0, 0, 0, 1, 0, 0, 0, 0, 0 },
			     many[] = { 0xff, 0xff, 0xff, 0xff };
	const struct { const uint8_t *at; size_t size; } rubbish[] = {
		{ kind, sizeof kind }, { count, sizeof count }, { many, sizeof many },
	};

	for (size_t i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
		struct unpack in = unpack_of(rubbish[i].at, rubbish[i].size);

		read_ledger(&in);
		CHECK(in.bad);
	}
}

/* Returns whether a ledger with one Query and these values in place of the derived ones is accepted. */
static bool is_taken(uint8_t kind, uint32_t depth, uint32_t copiers, uint8_t stage, bool answered, bool copy_in, bool lost)
{
	struct bytes out = BYTES_EMPTY;
	struct ledger l = { .used = 0 };
	struct unpack in;
	bool taken;

	bytes_append_u32(&out, 1);
	bytes_append_u8(&out, kind);
	for (int i = 0; i < 3; i++)
		pack_bool(&out, false);
	bytes_append_u8(&out, 1);
	bytes_append_u32(&out, depth);
	bytes_append_u32(&out, copiers);
	bytes_append_u32(&out, 0);
	bytes_append_u8(&out, stage);
	pack_bool(&out, answered);
	for (int i = 0; i < 3; i++)
		pack_bool(&out, false);
	pack_bool(&out, copy_in);
	pack_bool(&out, false);
	pack_bool(&out, lost);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	ledger_clear(&l);
	taken = ledger_unpack(&in, &l);
	CHECK(taken == unpack_is_done(&in) && (taken || ledger_is_empty(&l)));
	ledger_clear(&l);
	bytes_free(&out);
	return taken;
}

TEST(inconsistent_ledgers_are_refused)
{
	enum { PARSE = 0, EXECUTE = 4, QUERY = 7, MARKER = 9, COPY_IN = 2, ENDED = 5, COPY_LAST = 6 };

	CHECK(is_taken(QUERY, 1, 1, 0, false, false, false));
	CHECK(is_taken(QUERY, 1, 1, 0, true, false, false));
	CHECK(is_taken(QUERY, 1, 1, ENDED, true, false, false));
	CHECK(is_taken(EXECUTE, 1, 1, COPY_IN, false, true, false));
	CHECK(is_taken(QUERY, 1, 1, COPY_LAST, false, false, false));
	CHECK(is_taken(PARSE, 1, 0, 0, false, false, false));
	/* wrong sums of the entries; the second would underflow */
	CHECK(!is_taken(QUERY, 2, 1, 0, false, false, false));
	CHECK(!is_taken(QUERY, 0, 0, 0, false, false, false));
	CHECK(!is_taken(PARSE, 1, 1, 0, false, false, false));
	/* an answer that the message never has */
	CHECK(!is_taken(PARSE, 1, 0, COPY_IN, false, false, false));
	CHECK(!is_taken(EXECUTE, 1, 1, ENDED, false, false, false));
	CHECK(!is_taken(EXECUTE, 1, 1, 0, true, false, false));
	CHECK(!is_taken(PARSE, 1, 0, COPY_LAST, false, false, false));
	CHECK(!is_taken(QUERY, 1, 1, COPY_LAST + 1, false, false, false));
	CHECK(!is_taken(MARKER, 0, 0, 0, false, false, false));
	CHECK(!is_taken(PARSE, 1, 0, 0, false, true, false));
	CHECK(!is_taken(QUERY, 1, 1, 0, false, false, true));
}

#define BODY "SELECT 1\0\0\0"

TEST(statements_keep_their_numbers)
{
	struct statements *old, *new;
	struct statement *a, *b, *got_a, *got_b, *found;
	struct bytes out = BYTES_EMPTY;
	const struct params *none;
	struct unpack in;

	here = params_table_new(NULL);
	there = params_table_new(NULL);
	old = statements_new(here);
	new = statements_new(there);
	none = params_none(here);
	statements_begin_behind(old, 41);
	a = statement_take(old, 7, none, (const uint8_t *)BODY, sizeof BODY - 1, false);
	b = statement_take(old, 7, none, (const uint8_t *)"x\0\0\0", 4, false);
	statement_retire(old, b);
	statement_pack(&out, here, a);
	statement_pack(&out, here, b);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	got_a = statement_unpack(&in, there, new);
	got_b = statement_unpack(&in, there, new);
	REQUIRE(got_a && got_b && unpack_is_done(&in));
	CHECK_TEXT(got_a->end, "42");
	CHECK_TEXT(got_b->end, "43");
	CHECK(got_a->place == 7 && got_b->place == 7);
	CHECK(got_a->known && !got_a->changed && !got_b->known && got_b->changed);
	CHECK(got_a->size == sizeof BODY - 1 && memcmp(got_a->body, BODY, got_a->size) == 0);
	/* a client that parses the same text shares the statement; another text gets a new number */
	params_drop(here, &none);
	none = params_none(there);
	found = statement_take(new, 7, none, (const uint8_t *)BODY, sizeof BODY - 1, false);
	CHECK(found == got_a);
	statement_drop(new, &found);
	found = statement_take(new, 7, none, (const uint8_t *)"x\0\0\0", 4, false);
	CHECK_TEXT(found->end, "44");
	statement_drop(new, &found);
	params_drop(there, &none);
	in = unpack_of(bytes_front(&out), 20);
	CHECK(!statement_unpack(&in, there, new) && in.bad);
	statement_drop(new, &got_a);
	statement_drop(new, &got_b);
	statement_drop(old, &a);
	statement_drop(old, &b);
	CHECK_INT(new->count, 0);
	bytes_free(&out);
	mem_free(old);
	mem_free(new);
	params_table_free(&here);
	params_table_free(&there);
}

UNIT_MAIN
