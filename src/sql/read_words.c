/*
 * Words of SQL texts that only read: keywords (tbl/read_words.tbl), built-in functions
 * (tbl/read_functions.tbl), and functions that the administrator has named.
 *
 * Letters are compared in ASCII, as PostgreSQL does for keywords. A quoted word is not a keyword,
 * and it is a function only in lower case.
 */
#include "sql/read_words.h"

#include "base/inline.h"

#define LONGEST_WORD 17

static const struct { char text[LONGEST_WORD + 1]; uint8_t size, word; } words[] = {
#define READ_WORD_LETTER(letter, first)
#define READ_WORD(text, word) { text, sizeof(text) - 1, WORD_##word },
#include "tbl/read_words.tbl"
#undef READ_WORD
#undef READ_WORD_LETTER
};
/* The index of the first word with this letter. */
static const uint8_t first_words['z' - 'a' + 2] = {
#define READ_WORD_LETTER(letter, first) [letter - 'a'] = first,
#define READ_WORD(text, word)
#include "tbl/read_words.tbl"
#undef READ_WORD
#undef READ_WORD_LETTER
};

static const char *const read_functions[] = {
#define READ_FUNCTION_SIZE(size, first)
#define READ_FUNCTION(name) name,
#include "tbl/read_functions.tbl"
#undef READ_FUNCTION
#undef READ_FUNCTION_SIZE
};
static const uint16_t first_functions[READ_NAME_MOST + 2] = {
#define READ_FUNCTION_SIZE(size, first) [size] = first,
#define READ_FUNCTION(name)
#include "tbl/read_functions.tbl"
#undef READ_FUNCTION
#undef READ_FUNCTION_SIZE
};

static void to_lower(char *to, const char *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] | 0x20) : from[i];
}

/* Whether the word, which has no other bytes than letters, digits and '_', is the keyword of this
   size. */
static ALWAYS_INLINE bool is_keyword(const char *word, const char *keyword, size_t size)
{
	for (size_t i = 1; i < size; i++)
		if ((word[i] | (keyword[i] == '_' ? 0 : 0x20)) != keyword[i])
			return false;
	return true;
}

enum word word_of(const struct lex_token *t)
{
	unsigned letter = (unsigned)(*t->at | 0x20) - 'a';

	if (t->kind != LEX_WORD || letter > 'z' - 'a')
		return WORD_NAME;
	for (unsigned i = first_words[letter];
	     i < first_words[letter + 1] && words[i].size <= t->size; i++)
		if (words[i].size == t->size && is_keyword(t->at, words[i].text, t->size))
			return words[i].word;
	return WORD_NAME;
}

bool word_may_be_name(enum word word)
{
	switch (word) {
	case WORD_NAME:
	case WORD_ARGUMENTS:
	case WORD_AT:
	case WORD_ESCAPE:
	case WORD_FILTER:
	case WORD_GROUPING:
	case WORD_INTERVAL:
	case WORD_NULLS:
	case WORD_OVER:
	case WORD_PARTITION:
	case WORD_ROLLUP:
	case WORD_ROW:
	case WORD_ROWS:
	case WORD_SPECIAL:
	case WORD_TIME:
	case WORD_WITHIN:
		return true;
	default:
		return false;
	}
}

bool word_is_listed(const char *list, const struct read_path *p)
{
	char name[2 * READ_NAME_MOST + 2], part[READ_NAME_MOST + 1];
	size_t size = 0;

	for (unsigned i = 0; i < p->count; i++) {
		to_lower(part, p->parts[i].text, p->parts[i].text_size);
		if (p->parts[i].kind == LEX_QUOTED_WORD &&
		    memcmp(part, p->parts[i].text, p->parts[i].text_size) != 0)
			return false;
		if (i > 0)
			name[size++] = '.';
		memcpy(name + size, part, p->parts[i].text_size);
		size += p->parts[i].text_size;
	}
	while (list && *list) {
		size_t length;

		list += strspn(list, " \t\r\n\v\f,");
		length = strcspn(list, " \t\r\n\v\f,");
		if (length > 0 && length == size && memcmp(list, name, size) == 0)
			return true;
		list += length;
	}
	return false;
}

bool word_is_read_function(const struct lex_token *t)
{
	char lower[READ_NAME_MOST];
	size_t low, high;

	to_lower(lower, t->text, t->text_size);
	if (t->kind == LEX_QUOTED_WORD && memcmp(lower, t->text, t->text_size) != 0)
		return false;
	low = first_functions[t->text_size];
	high = first_functions[t->text_size + 1];
	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = memcmp(read_functions[middle], lower, t->text_size);

		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}
