/*
 * Texts that only read (read_text.c), reduced to the parts that their verdict depends on.
 *
 * A verdict depends on the tokens of a text without its literals, and on the catalogue's answer
 * about its names. Therefore texts share a verdict if they differ only in literals
 * (read_text_mask()), and the verdicts of all texts hold as long as the catalogue gives the same
 * answer about all of their names at once. The reason is that each part of the question is "there
 * is no such object with one of these names". The question about the union of the names is
 * therefore true if and only if the question about each text is true.
 *
 * Invariant: in a set, a name of kind READ_NAME_SCHEMA is followed by the relation that it belongs
 * to, as in struct read_names.
 */
#include "sql/read_names.h"

#include "sql/sql_lex.h"

/* ---- sets of names ---- */

static const struct read_name *names_of(const struct read_set *set, unsigned *count)
{
	*count = (unsigned)(bytes_size(&set->list) / sizeof(struct read_name));
	return (const struct read_name *)(const void *)bytes_front(&set->list);
}

static bool is_quoted_name(const uint8_t *text, const struct read_name *name)
{
	return name->at > 0 && text[name->at - 1] == '"';
}

static bool is_same_name(const uint8_t *text, const struct read_name *a, const uint8_t *of_b,
			 const struct read_name *b)
{
	return a->kind == b->kind && a->size == b->size &&
	       is_quoted_name(text, a) == is_quoted_name(of_b, b) &&
	       memcmp(text + a->at, of_b + b->at, a->size) == 0;
}

/* The schema that list[i], a relation, belongs to, or NULL. */
static const struct read_name *schema_of(const struct read_name *list, unsigned i)
{
	return i > 0 && list[i - 1].kind == READ_NAME_SCHEMA ? &list[i - 1] : NULL;
}

static bool names_has_name(const struct read_set *set, const uint8_t *text,
			   const struct read_name *list, unsigned i)
{
	const struct read_name *schema = schema_of(list, i), *own;
	const uint8_t *own_text = bytes_front(&set->text);
	unsigned count;

	own = names_of(set, &count);
	for (unsigned j = 0; j < count; j++) {
		const struct read_name *own_schema = schema_of(own, j);

		if (is_same_name(own_text, &own[j], text, &list[i]) && !schema == !own_schema &&
		    (!schema || is_same_name(own_text, own_schema, text, schema)))
			return true;
	}
	return false;
}

static void append_name_to_set(struct read_set *set, const uint8_t *text,
			       const struct read_name *name)
{
	struct read_name own = *name;

	bytes_append_u8(&set->text, is_quoted_name(text, name) ? '"' : ' ');
	own.at = (uint16_t)bytes_size(&set->text);
	bytes_append(&set->text, text + name->at, name->size);
	bytes_append(&set->list, &own, sizeof(own));
}

bool read_set_add(struct read_set *set, const uint8_t *text, const struct read_name *list,
		  unsigned count, uint64_t operators)
{
	for (unsigned i = 0; i < count; i++) {
		const struct read_name *schema = schema_of(list, i);

		if (list[i].kind == READ_NAME_SCHEMA || names_has_name(set, text, list, i))
			continue;
		if (bytes_size(&set->list) / sizeof(*list) + 2 > READ_SET_MOST ||
		    bytes_size(&set->text) + 2 * (UINT8_MAX + 1) > UINT16_MAX)
			return false;
		if (schema)
			append_name_to_set(set, text, schema);
		append_name_to_set(set, text, &list[i]);
	}
	set->operators |= operators;
	return !set->text.failed && !set->list.failed;
}

bool read_set_merge(struct read_set *set, const struct read_set *other)
{
	unsigned count;
	const struct read_name *list = names_of(other, &count);

	return read_set_add(set, bytes_front(&other->text), list, count, other->operators);
}

void read_set_ask(const struct read_set *set, struct bytes *sql)
{
	unsigned count;
	const struct read_name *list = names_of(set, &count);

	read_names_ask(bytes_front(&set->text), list, count, set->operators, sql);
}

void read_set_free(struct read_set *set)
{
	bytes_free(&set->text);
	bytes_free(&set->list);
	set->operators = 0;
}

/* ---- texts without literals ---- */

static bool is_number(const struct lex_token *t)
{
	for (size_t i = 0; i < t->size; i++)
		if (!lex_is_digit(t->at[i]))
			return false;
	return t->kind == LEX_WORD;
}

size_t read_text_mask(const uint8_t *text, size_t size, uint8_t *masked, size_t most)
{
	struct sql_lexer lexer = lex_begin(text, size);
	const char *end = lexer.at;
	bool has_literals = false, is_parameter = false;
	struct lex_token t;
	size_t used = 0;

	while (t = lex_next(&lexer), t.kind != LEX_END) {
		bool is_string = t.kind == LEX_STRING && *t.at == '\'',
		     is_literal = is_string || (is_number(&t) && !is_parameter);
		const char *word = is_string ? "''" : is_literal ? "0" : t.at;
		size_t length = is_string ? 2 : is_literal ? 1 : t.size;

		if (length + 1 > most - used)
			return 0;
		/* a <- 1 and a < - 1 are different operators */
		if (t.at != end)
			masked[used++] = ' ';
		memcpy(masked + used, word, length);
		used += length;
		end = t.at + t.size;
		has_literals |= is_literal;
		is_parameter = lex_is_mark(&t, '$');
	}
	return has_literals && !lexer.is_uncertain && !lexer.is_cut ? used : 0;
}
