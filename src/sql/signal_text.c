/*
 * Texts that end or cancel one session: pg_terminate_backend and pg_cancel_backend with a number or
 * $1.
 *
 * Only this shape is read, token by token; comments, other casts and a second argument make it
 * another text. The words follow PostgreSQL's grammar: letters in any case, blanks between tokens.
 */
#include "sql/signal_text.h"

#include <string.h>

struct signal_reader { const char *text, *at, *end; };

static void signal_text_skip_blanks(struct signal_reader *r)
{
	while (r->at < r->end && *r->at && strchr(" \t\n\r\f", *r->at))
		r->at++;
}

static bool is_in_word(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
	       c == '$' || (c & 0x80);
}

/* Takes the word and the blanks after it. */
static bool take_signal_word(struct signal_reader *r, const char *word)
{
	size_t size = strlen(word);

	if ((size_t)(r->end - r->at) < size)
		return false;
	for (size_t i = 0; i < size; i++) {
		char c = r->at[i];

		if ((c >= 'A' && c <= 'Z' ? c | 0x20 : c) != word[i])
			return false;
	}
	if (r->at + size < r->end && is_in_word(word[size - 1]) && is_in_word(r->at[size]))
		return false;
	r->at += size;
	signal_text_skip_blanks(r);
	return true;
}

/* Takes a number of at most ten digits, or $1. */
static bool take_argument(struct signal_reader *r, struct signal_text *out)
{
	const char *from = r->at;
	uint64_t pid = 0;

	out->at = (size_t)(from - r->text);
	while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - from < 10)
		pid = pid * 10 + (uint64_t)(*r->at++ - '0');
	if (r->at == from && r->end - r->at >= 2 && memcmp(r->at, "$1", 2) == 0)
		r->at += 2;
	else if (pid == 0 || pid > INT32_MAX)
		return false;
	out->size = (size_t)(r->at - from);
	out->pid = (uint32_t)pid;
	if (r->at < r->end && is_in_word(*r->at))
		return false;
	signal_text_skip_blanks(r);
	return !take_signal_word(r, "::") || take_signal_word(r, "int") ||
	       take_signal_word(r, "int4") || take_signal_word(r, "integer");
}

bool signal_text_read(const uint8_t *text, size_t size, struct signal_text *out)
{
	struct signal_reader r = { (const char *)text, (const char *)text,
				   (const char *)text + size };
	bool is_known;

	if (size > 0 && text[size - 1] == 0)
		r.end--;
	if (!signal_text_may_be(text, size) || !take_signal_word(&r, "select"))
		return false;
	out->name_at = (size_t)(r.at - r.text);
	if (take_signal_word(&r, "pg_catalog") && !take_signal_word(&r, "."))
		return false;
	out->of = SIGNAL_TERMINATE;
	is_known = take_signal_word(&r, "pg_terminate_backend");
	if (!is_known) {
		out->of = SIGNAL_CANCEL;
		is_known = take_signal_word(&r, "pg_cancel_backend");
	}
	out->name_size = (size_t)(r.at - r.text) - out->name_at;
	if (!is_known || !take_signal_word(&r, "(") || !take_argument(&r, out) ||
	    !take_signal_word(&r, ")"))
		return false;
	take_signal_word(&r, ";");
	return r.at == r.end;
}
