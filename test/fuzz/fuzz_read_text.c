/*
 * SQL texts that only read (sql/read_text.c), and texts of read-only transactions (sql/read_transaction.c).
 *
 * Input: the text. Properties of a text that only reads: another statement after it, a lock or EXPLAIN makes the verdict no; comments, and the case of its
 * words, change nothing; no word of a write is outside of strings, unless it is a name after a dot or AS; each name is a part of the text, and the
 * question to the catalogue is one statement without escapes. BEGIN must be the only statement of a text.
 */
#include "fuzz.h"
#include "sql/read_text.h"
#include "sql/read_transaction.h"
#include "sql/sql_lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct read_names names;

/* The parts as one text with its NUL. To be freed. */
static uint8_t *joined(const char *before, const uint8_t *text, size_t text_size, const char *after, size_t *size)
{
	uint8_t *whole = malloc(strlen(before) + text_size + strlen(after) + 1), *at = whole;

	FUZZ_CHECK(whole);
	at = mempcpy(at, before, strlen(before));
	if (text_size > 0)
		at = mempcpy(at, text, text_size);
	at = mempcpy(at, after, strlen(after) + 1);
	*size = (size_t)(at - whole);
	return whole;
}

static bool reads(const char *before, const uint8_t *text, size_t text_size, const char *after)
{
	size_t size;
	uint8_t *whole = joined(before, text, text_size, after, &size);
	bool result = read_text_only_reads(whole, size, NULL, &names);

	free(whole);
	return result;
}

static void check_words(uint8_t *text, size_t size)
{
	static const char *const writes[] = { "into", "insert", "update", "delete", "merge", "table", "returning", "lock", "call", "do", "copy",
		"nextval", "pg_advisory_lock" };
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token before = { .kind = LEX_END }, t;

	for (; t = lex_next(&l), t.kind != LEX_END; before = t) {
		struct sql_lexer after = l;
		struct lex_token next = lex_next(&after);

		if (t.kind != LEX_WORD || lex_is_mark(&before, '.') || lex_is(&before, "as"))
			continue;
		/* the last ones are also names of columns */
		for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
			FUZZ_CHECK(!lex_is(&t, writes[i]) || (i >= 7 && !lex_is_mark(&next, '(')));
	}
}

static void check_names(const uint8_t *text, size_t size)
{
	struct bytes sql = BYTES_EMPTY;
	size_t quotes = 0;

	FUZZ_CHECK(names.count <= READ_NAMES_MOST);
	for (unsigned i = 0; i < names.count; i++) {
		const struct read_name *n = &names.list[i];

		FUZZ_CHECK(n->size > 0 && n->size < 64 && n->at + (size_t)n->size < size);
		for (size_t c = n->at; c < n->at + (size_t)n->size; c++)
			FUZZ_CHECK(text[c] >= ' ' || text[c] == '\t' ? text[c] < 0x80 && text[c] != '"' && text[c] != '\'' && text[c] != '\\' : true);
	}
	read_text_ask(text, &names, &sql);
	FUZZ_CHECK(!sql.failed);
	for (size_t i = 0; i < bytes_size(&sql); i++) {
		quotes += bytes_front(&sql)[i] == '\'';
		FUZZ_CHECK(bytes_front(&sql)[i] != '\\' && bytes_front(&sql)[i] != 0);
		FUZZ_CHECK(bytes_front(&sql)[i] != ';' || quotes % 2 == 1);
	}
	FUZZ_CHECK(quotes % 2 == 0);
	bytes_free(&sql);
}

/* The same text with other letters in its words. */
static void check_case(uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token t;

	while (t = lex_next(&l), t.kind != LEX_END)
		for (size_t i = 0; t.kind == LEX_WORD && i < t.size; i++) {
			uint8_t *c = &text[t.at + i - (const char *)text];

			*c = (uint8_t)(isupper(*c) ? tolower(*c) : toupper(*c));
		}
	FUZZ_CHECK(read_text_only_reads(text, size, NULL, &names));
}

static void check_begin(const uint8_t *text, size_t size)
{
	size_t whole_size;
	uint8_t *whole = joined("", text, size, "\n;SELECT 1", &whole_size);

	FUZZ_CHECK(read_transaction_begin(whole, whole_size) == READ_BEGIN_NOT);
	FUZZ_CHECK(!read_transaction_suits_standby(whole, whole_size));
	free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
	size_t text_size = nul ? (size_t)(nul - data) : size, whole_size;
	uint8_t *whole = joined("", data, text_size, "", &whole_size);
	bool begins = read_transaction_begin(whole, whole_size) != READ_BEGIN_NOT;

	FUZZ_CHECK(!read_text_only_reads(whole, text_size, NULL, &names));
	if (begins || read_transaction_suits_standby(whole, whole_size))
		check_begin(data, text_size);
	FUZZ_CHECK(!(read_transaction_affects_standby(whole, whole_size) && read_transaction_suits_standby(whole, whole_size)));
	if (read_text_only_reads(whole, whole_size, NULL, &names)) {
		unsigned count = names.count;

		FUZZ_CHECK(!begins);
		check_names(whole, whole_size);
		check_words(whole, whole_size);
		FUZZ_CHECK(!reads("", data, text_size, "\n; DELETE FROM t"));
		FUZZ_CHECK(!reads("", data, text_size, "\nFOR UPDATE"));
		FUZZ_CHECK(!reads("EXPLAIN ", data, text_size, ""));
		FUZZ_CHECK(!reads("WITH a AS (DELETE FROM t RETURNING *) ", data, text_size, ""));
		FUZZ_CHECK(!reads(READ_HINT, data, text_size, ""));
		if (whole_size + 20 < READ_TEXT_MOST) {
			FUZZ_CHECK(reads("/* a */\n", data, text_size, "\n-- a"));
			FUZZ_CHECK(names.count == count);
		}
		check_case(whole, whole_size);
	}
	free(whole);
	return 0;
}
