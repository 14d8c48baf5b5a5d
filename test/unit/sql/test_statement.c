/*
 * Prepared statements on servers: sharing of equal texts, their names, and freeing of unused statements; and statement names in messages, truncated
 * at every byte.
 */
#include "base/mem.h"
#include "sql/statement.h"
#include "unit.h"

#include <stdlib.h>

static struct params_table *table;
static struct statements *all;
static const struct params *none;

#define HERE UINT64_C(1000)	/* a place */

static void begin(void)
{
	table = params_table_new(NULL);
	all = statements_new(table);
	none = params_none(table);
}

/* The tests drop all references: no statement may be left. */
static void end(void)
{
	CHECK_INT(all->count, 0);
	CHECK_INT(all->bytes, 0);
	params_drop(table, &none);
	CHECK_INT(HASH_COUNT(table->sets), 1);
	mem_free(all);
	params_table_free(&table);
}

/* Body of a Parse after the name, without types. */
#define BODY(text) (const uint8_t *)text "\0\0", sizeof(text) + 2

static struct statement *take(const uint8_t *body, size_t size)
{
	return statement_take(all, HERE, none, body, size, false);
}

/* Returns `none` with one value. */
static const struct params *with(int index, const char *value)
{
	return params_with(table, none, index, value);
}

static bool under(const struct params *params, const struct statement *as)
{
	struct statement *s = statement_take(all, HERE, params, BODY("SELECT 1"), false);
	bool same = s == as;

	statement_drop(all, &s);
	return same;
}

TEST(equal_texts_share_a_statement)
{
	struct statement *first, *second;
	size_t bytes;

	begin();
	first = take(BODY("SELECT 1"));
	REQUIRE(first);
	CHECK_INT(first->number, 1);
	CHECK_TEXT(first->end, "1");
	CHECK_INT(first->end_size, strlen(first->end) + 1);
	CHECK_INT(first->size, 11);
	CHECK(memcmp(first->body, "SELECT 1\0\0", 11) == 0);
	bytes = all->bytes;
	CHECK(bytes >= sizeof(*first) + 11);
	second = take(BODY("SELECT 1"));
	CHECK(second == first);
	CHECK_INT(all->count, 1);
	CHECK_INT(all->bytes, bytes);
	statement_drop(all, &second);
	CHECK(!second);
	CHECK_INT(all->count, 1);
	CHECK_TEXT((const char *)first->body, "SELECT 1");
	statement_drop(all, &first);
	end();
}

TEST(different_texts_have_different_statements)
{
	static const struct { const char *body; size_t size; } bodies[] = {
		{ "SELECT 1\0\0", 11 },
		{ "SELECT 2\0\0", 11 },
		{ "SELECT 1 \0\0", 12 },
		{ "SELECT 1\0\0\1\0\0\0\x17", 15 },	/* the same with a type: int4 */
		{ "SELECT 1\0\0\1\0\0\0\x19", 15 },	/* text */
		{ "SELECT 1\0\0\1\0\0\0\0", 15 },	/* unspecified */
		{ "SELECT 1\0\0\2\0\0\0\x17\0\0\0\x17", 19 },
		{ "\0\0", 3 },
	};
	enum { COUNT = sizeof(bodies) / sizeof(bodies[0]) };
	struct statement *taken[COUNT], *again;

	begin();
	for (int i = 0; i < COUNT; i++) {
		taken[i] = take((const uint8_t *)bodies[i].body, bodies[i].size);
		REQUIRE(taken[i]);
		CHECK_INT(taken[i]->number, i + 1);
	}
	CHECK_INT(all->count, COUNT);
	for (int i = 0; i < COUNT; i++) {
		again = take((const uint8_t *)bodies[i].body, bodies[i].size);
		CHECK(again == taken[i]);
		statement_drop(all, &again);
	}
	for (int i = 0; i < COUNT; i++)
		statement_drop(all, &taken[i]);
	end();
}

/* A literal may have another meaning under another DateStyle; application_name changes no meaning. */
TEST(parameters_distinguish_statements)
{
	const struct params *iso, *german, *named, *iso_named;
	struct statement *plain, *in_iso;

	begin();
	iso = with(PARAM_DATESTYLE, "ISO");
	german = with(PARAM_DATESTYLE, "German");
	named = with(PARAM_APPLICATION_NAME, "ann's");
	iso_named = params_with(table, iso, PARAM_APPLICATION_NAME, "bob's");
	plain = take(BODY("SELECT 1"));
	in_iso = statement_take(all, HERE, iso, BODY("SELECT 1"), false);
	CHECK(plain != in_iso);
	CHECK(strcmp(plain->end, in_iso->end) != 0);
	CHECK(under(iso, in_iso));
	CHECK(!under(iso, plain));
	CHECK(!under(german, in_iso));
	CHECK(!under(german, plain));
	CHECK(under(named, plain));
	CHECK(under(iso_named, in_iso));
	statement_drop(all, &in_iso);
	/* a statement with the initial parameters of `named` is not found either */
	statement_drop(all, &plain);
	plain = statement_take(all, HERE, named, BODY("SELECT 1"), false);
	CHECK(under(none, plain));
	CHECK_TEXT(params_get(named, PARAM_APPLICATION_NAME), "ann's");
	statement_drop(all, &plain);
	params_drop(table, &iso);
	params_drop(table, &german);
	params_drop(table, &named);
	params_drop(table, &iso_named);
	end();
}

static bool moved(struct statement *s, const struct params *params, const struct statement *to)
{
	struct statement *other = statement_take(all, HERE, params, s->body, s->size, false);
	bool same = other == to;

	statement_drop(all, &other);
	return same;
}

/* The same text, after the parameters of a session have changed. */
TEST(statement_under_changed_parameters)
{
	const struct params *iso, *named;
	struct statement *plain, *in_iso, *retired, *apart;

	begin();
	iso = with(PARAM_DATESTYLE, "ISO");
	named = with(PARAM_APPLICATION_NAME, "ann's");
	plain = take(BODY("SELECT 1"));
	in_iso = statement_take(all, HERE, iso, plain->body, plain->size, false);
	CHECK(in_iso != plain);
	CHECK(under(iso, in_iso));
	CHECK(moved(in_iso, iso, in_iso));
	CHECK(moved(in_iso, none, plain));
	CHECK(moved(in_iso, named, plain));
	CHECK(moved(plain, named, plain));
	CHECK(statement_is_for(all, in_iso, iso) && statement_is_for(all, plain, none) && statement_is_for(all, plain, named));
	CHECK(!statement_is_for(all, in_iso, none) && !statement_is_for(all, plain, iso));
	/* a retired statement is not given to any client */
	retired = plain;
	statement_retire(all, retired);
	CHECK(!moved(retired, named, retired));
	CHECK(!moved(in_iso, none, retired));
	/* a statement made apart belongs to its maker only, and has its own name */
	apart = statement_take(all, HERE, iso, BODY("SELECT 1"), true);
	CHECK(apart != in_iso && strcmp(apart->end, in_iso->end) != 0 && !apart->known);
	CHECK(apart->is_private && !in_iso->is_private);
	CHECK(under(iso, in_iso));
	CHECK(moved(apart, iso, in_iso));
	CHECK(!moved(apart, none, apart));
	statement_drop(all, &apart);
	statement_drop(all, &in_iso);
	statement_drop(all, &retired);
	params_drop(table, &iso);
	params_drop(table, &named);
	end();
}

/* A statement holds a reference to its parameters, and drops it when freed. */
TEST(statement_keeps_its_parameters)
{
	const struct params *iso;
	struct statement *s, *same;

	begin();
	iso = with(PARAM_DATESTYLE, "ISO");
	s = statement_take(all, HERE, iso, BODY("SELECT 1"), false);
	params_drop(table, &iso);
	CHECK_INT(HASH_COUNT(table->sets), 2);
	CHECK_TEXT(params_get(s->params, PARAM_DATESTYLE), "ISO");
	iso = with(PARAM_DATESTYLE, "ISO");
	same = statement_take(all, HERE, iso, BODY("SELECT 1"), false);
	CHECK(same == s);
	params_drop(table, &iso);
	statement_drop(all, &same);
	statement_drop(all, &s);
	CHECK_INT(HASH_COUNT(table->sets), 1);
	end();
}

/* Another database, or the same database after an ALTER TABLE. */
TEST(each_place_has_its_own_statements)
{
	uint64_t first, second;
	struct statement *here, *there, *again, *under;

	begin();
	first = statements_new_place(all);
	second = statements_new_place(all);
	CHECK(first != 0 && second != 0 && first != second);
	here = statement_take(all, first, none, BODY("SELECT $1"), false);
	there = statement_take(all, second, none, BODY("SELECT $1"), false);
	CHECK(here != there && here->number != there->number);
	CHECK(here->number != first && here->number != second && there->number != first && there->number != second);
	again = statement_take(all, first, none, BODY("SELECT $1"), false);
	CHECK(again == here);
	under = statement_take(all, first, none, here->body, here->size, false);
	CHECK(under == here);
	statement_drop(all, &under);
	under = statement_take(all, second, none, here->body, here->size, false);
	CHECK(under == there);
	statement_drop(all, &again);
	statement_retire(all, here);
	CHECK(here->changed && !there->changed);
	again = statement_take(all, second, none, BODY("SELECT $1"), false);
	CHECK(again == there);
	statement_drop(all, &here);
	statement_drop(all, &there);
	statement_drop(all, &again);
	statement_drop(all, &under);
	end();
}

TEST(the_last_reference_frees)
{
	struct statement *s, *held, *nothing = NULL;

	begin();
	s = take(BODY("SELECT 1"));
	held = statement_hold(s);
	CHECK(held == s);
	statement_drop(all, &s);
	CHECK(!s);
	CHECK_INT(all->count, 1);
	CHECK_TEXT((const char *)held->body, "SELECT 1");
	statement_drop(all, &held);
	CHECK(!held);
	CHECK_INT(all->count, 0);
	CHECK_INT(all->bytes, 0);
	statement_drop(all, &nothing);
	end();
}

/* A server may still have the old statement after its last client has disconnected. */
TEST(names_are_never_reused)
{
	struct statement *s, *other;

	begin();
	s = take(BODY("SELECT 1"));
	statement_drop(all, &s);
	s = take(BODY("SELECT 1"));
	CHECK_TEXT(s->end, "2");
	other = take(BODY("SELECT 2"));
	CHECK_TEXT(other->end, "3");
	statement_drop(all, &other);
	statement_drop(all, &s);
	s = take(BODY("SELECT 3"));
	CHECK_TEXT(s->end, "4");
	CHECK_INT(s->number, 4);
	statement_drop(all, &s);
	end();
}

TEST(texts_whose_meaning_may_change)
{
	static const struct {
		const char *text;
		size_t size;
		bool may;
	} rows[] = {
#define TEXT(text) text "\0\0", sizeof(text) + 2
		{ TEXT(""), false }, { TEXT("SELECT 1, $1, $12::int + \"a\".b"), false }, { TEXT("SELECT ''"), true }, { TEXT("SELECT $$x$$"), true },
		{ TEXT("SELECT $1, $a$x$a$"), true }, { TEXT("SELECT $"), true }, { TEXT("SELECT \"\303\244\""), true }, { TEXT("SELECT E'1'"), true },
#undef TEXT
	};

	begin();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct statement *s = statement_take(all, HERE, none, (const uint8_t *)rows[i].text, rows[i].size, false);

		if (statement_may_differ(s) != rows[i].may)
			UNIT_FAIL("%s", rows[i].text);
		statement_drop(all, &s);
	}
	end();
}

TEST(retired_statement_is_not_found)
{
	struct statement *old, *new, *again;
	size_t bytes;

	begin();
	old = take(BODY("SELECT * FROM t"));
	bytes = all->bytes;
	CHECK(old->known && !old->changed);
	statement_retire(all, old);
	CHECK(!old->known && old->changed);
	CHECK_INT(all->count, 1);
	statement_retire(all, old);		/* a second client reports the same */
	CHECK_INT(all->count, 1);
	new = take(BODY("SELECT * FROM t"));
	REQUIRE(new && new != old);
	CHECK(new->known && !new->changed);
	CHECK_TEXT(old->end, "1");
	CHECK_TEXT(new->end, "2");
	CHECK_INT(all->count, 2);
	CHECK_INT(all->bytes, 2 * bytes);
	statement_drop(all, &old);
	CHECK_INT(all->bytes, bytes);
	again = take(BODY("SELECT * FROM t"));
	CHECK(again == new);
	statement_drop(all, &again);
	statement_drop(all, &new);
	end();
}

TEST(many_statements)
{
	enum { COUNT = 2000 };
	static struct statement *taken[COUNT];
	char body[32];

	begin();
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < COUNT; i++) {
			size_t size = (size_t)snprintf(body, sizeof(body), "SELECT %d", i) + 1;
			struct statement *s;

			body[size++] = 0;
			body[size++] = 0;
			s = take((const uint8_t *)body, size);
			REQUIRE(s);
			CHECK_INT(s->number, i + 1);
			if (round == 0)
				taken[i] = s;
			else
				statement_drop(all, &s);
		}
	CHECK_INT(all->count, COUNT);
	for (int i = 0; i < COUNT; i++)
		statement_drop(all, &taken[i]);
	end();
}

/* ---- messages ---- */

static struct statement_use use;

/* In an allocation of the exact size, so that the sanitizer detects a read past the end. */
static enum pg_verdict read_use(uint8_t type, const char *body, size_t here, size_t size)
{
	static uint8_t *copy;

	free(copy);
	copy = malloc(here ? here : 1);
	memcpy(copy, body, here);
	use = (struct statement_use){ "not set", 1, "not set", 1 };
	return statement_use_read(type, here ? copy : copy + 1, here, size, &use);
}

/* Reads the body truncated at every byte: `least` bytes are needed. */
static void check_use(uint8_t type, const char *body, size_t size, size_t least, const char *portal, const char *name)
{
	for (size_t here = 0; here <= size; here++) {
		enum pg_verdict want = here < least ? PG_MORE : PG_OK, got = read_use(type, body, here, size);

		if (got != want)
			UNIT_FAIL("%c \"%s\": %zu of %zu bytes give %d, want %d", type, name, here, size, got, want);
		if (got != PG_OK)
			continue;
		CHECK_TEXT(use.name, name);
		CHECK_INT(use.name_size, strlen(name) + 1);
		if (portal)
			CHECK_TEXT(use.portal, portal);
		else
			CHECK(!use.portal);
		CHECK_INT(use.portal_size, portal ? strlen(portal) + 1 : 0);
	}
}

/* ---- names on a server ---- */

static bool is_tag_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

TEST(names_consist_of_tag_and_number)
{
	uint8_t random[STATEMENT_TAG];
	struct statement_names names;
	char name[STATEMENT_NAME_MOST];

	for (int i = 0; i < STATEMENT_TAG; i++)
		random[i] = (uint8_t)(i * 17);
	statement_names_make(&names, random);
	CHECK_INT(statement_name(name, &names, "12", 3), STATEMENT_HEAD + 3);
	CHECK_TEXT(name, "PGWEIR_arctevgxizk3m5o7_12");
	/* the longest number; PostgreSQL truncates names after 63 bytes */
	CHECK(statement_name(name, &names, "18446744073709551615", STATEMENT_END_MOST) <= 64);
	CHECK_INT(strlen(name), STATEMENT_NAME_MOST - 1);
}

TEST(random_bits_map_to_letters_evenly)
{
	uint8_t random[STATEMENT_TAG] = { 0 };
	struct statement_names names, other;

	statement_names_make(&names, random);
	for (int i = 0; i < STATEMENT_TAG; i++) {
		bool seen[256] = { false };
		int letters = 0;

		for (int byte = 0; byte < 256; byte++) {
			uint8_t letter;

			random[i] = (uint8_t)byte;
			statement_names_make(&other, random);
			letter = statement_names_tag(&other)[i];
			CHECK(is_tag_letter((char)letter));
			letters += !seen[letter];
			seen[letter] = true;
		}
		CHECK_INT(letters, 32);
		random[i] = 0;
	}
	statement_names_make(&other, random);
	CHECK(memcmp(&names, &other, sizeof(names)) == 0);
}

TEST(tag_is_handed_over)
{
	struct statement_names names, other = { "nothing" }, before = other;
	uint8_t tag[STATEMENT_TAG];

	for (int i = 0; i < STATEMENT_TAG; i++)
		tag[i] = (uint8_t)(200 - i);
	statement_names_make(&names, tag);
	memcpy(tag, statement_names_tag(&names), sizeof(tag));
	CHECK(statement_names_restore(&other, tag));
	CHECK(memcmp(&names, &other, sizeof(names)) == 0);
	other = before;
	for (int i = 0; i < STATEMENT_TAG; i++) {
		uint8_t right = tag[i];

		for (int byte = 0; byte < 256; byte++) {
			tag[i] = (uint8_t)byte;
			if (!is_tag_letter((char)byte))
				CHECK(!statement_names_restore(&other, tag) && memcmp(&other, &before, sizeof(other)) == 0);
		}
		tag[i] = right;
	}
}

TEST(names_in_messages)
{
	check_use('P', "s1\0SELECT 1\0\0\0", 14, 3, NULL, "s1");
	check_use('P', "\0SELECT 1\0\0\0", 12, 1, NULL, "");
	check_use('B', "p\0s22\0\0\0\0\0\0\0", 12, 6, "p", "s22");
	check_use('B', "\0s22\0\0\0\0\0\0\0", 11, 5, "", "s22");
	check_use('B', "p\0\0\0\0\0\0\0\0", 9, 3, "p", "");
	check_use('B', "\0\0\0\0\0\0\0\0", 8, 2, "", "");
	check_use('D', "Ss1\0", 4, 4, NULL, "s1");
	check_use('D', "S\0", 2, 2, NULL, "");
	check_use('C', "Ss1\0", 4, 4, NULL, "s1");
	check_use('C', "S\0", 2, 2, NULL, "");
	check_use('D', "\0s1\0", 4, 4, NULL, "s1");		/* the first byte is not part of the name */
}

/* An unterminated string is certain only at the end of the message. */
static void check_endless(uint8_t type, const char *body, size_t size)
{
	for (size_t here = 0; here <= size; here++)
		CHECK_INT(read_use(type, body, here, size), here < size ? PG_MORE : PG_BAD);
}

TEST(unterminated_names)
{
	check_endless('P', "s1", 2);
	check_endless('P', "", 0);
	check_endless('B', "p", 1);
	check_endless('B', "p\0s22", 5);
	check_endless('B', "p\0", 2);
	check_endless('B', "", 0);
	check_endless('D', "Ss1", 3);
	check_endless('D', "S", 1);
	check_endless('D', "", 0);
	check_endless('C', "Ss1", 3);
	check_endless('C', "S", 1);
	check_endless('C', "", 0);
	check_endless('C', "\0", 1);
}

static bool is_sound(const char *body, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	bool sound;

	memcpy(copy, body, size);
	sound = statement_body_is_sound(size ? copy : copy + 1, size);
	free(copy);
	return sound;
}

/* A valid body; with a byte more or less it is invalid. */
static void check_sound(const char *body, size_t size)
{
	for (size_t n = 0; n <= size + 1; n++)
		if (is_sound(body, n) != (n == size))
			UNIT_FAIL("\"%s\": %zu of %zu bytes", body, n, size);
}

TEST(parse_bodies)
{
	check_sound("SELECT 1\0\0\0", 11);
	check_sound("\0\0\0", 3);
	check_sound("SELECT $1\0\0\1\0\0\0\x17", 16);
	check_sound("SELECT $1\0\0\2\0\0\0\x17\0\0\4\x13", 20);
	CHECK(!is_sound("SELECT 1", 8));
	CHECK(!is_sound("\0\xff\xff", 3));
	CHECK(!is_sound("\0\xff\xff\0\0\0\x17", 7));
}

/* ---- Bind ---- */

#define BIND_IS_TEXT(bytes) statement_bind_is_text((const uint8_t *)bytes, sizeof(bytes) - 1)

TEST(formats_of_a_bind)
{
	static const char text[] = "portal\0name\0" "\0\2\0\0\0\0" "\0\2\0\0\0\3abc\377\377\377\377" "\0\1\0\0";
	size_t size = sizeof(text) - 1;

	CHECK(BIND_IS_TEXT("\0\0" "\0\0" "\0\0" "\0\0"));
	CHECK(!BIND_IS_TEXT("\0\0" "\0\1\0\1" "\0\0" "\0\0"));
	CHECK(!BIND_IS_TEXT("\0\0" "\0\2\0\0\0\1" "\0\2\0\0\0\0\0\0\0\1x" "\0\0"));
	CHECK(!BIND_IS_TEXT("\0\0" "\0\0" "\0\0" "\0\1\0\1"));
	CHECK(!BIND_IS_TEXT("\0\0" "\0\0" "\0\0" "\0\0" "x"));
	CHECK(statement_bind_is_text((const uint8_t *)text, size));
	for (size_t cut = 0; cut < size; cut++)
		CHECK(!statement_bind_is_text((const uint8_t *)text, cut));
}

TEST(sixty_five_thousand_types)
{
	size_t size = 3 + 4 * 65535;
	char *body = calloc(1, size + 1);

	body[1] = body[2] = '\xff';
	CHECK(is_sound(body, size));
	CHECK(!is_sound(body, size - 1));
	CHECK(!is_sound(body, size + 1));
	free(body);
}

UNIT_MAIN
