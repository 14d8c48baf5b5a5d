/*
 * The names of parameters in SQL.
 *
 * The command tag SET says that something has been set, not what. Parameters that the server knows are in its view pg_settings. Those
 * with a dot that no extension has defined ("Customized Options") are in no view: only one that has the name can ask for the value. So the
 * names are read from the texts of clients:
 *
 *	SET [ SESSION ] name ...		RESET name		set_config('name', value, false)
 *
 * SET LOCAL, and set_config with true, end with the transaction. The text is cut into words, and not parsed: a name too many costs a
 * question about it (UPDATE t SET a.b = 1), and is in no other way wrong. Comments and strings are passed over, but dollar quotes are not,
 * because a DO block stands between them.
 *
 * Bytes beyond ASCII belong to no word here. A name that has some is refused by PostgreSQL, too (from 14 on).
 */
#include "pg/setting_text.h"

#include "pg/params.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define CALL_MOST 64		/* tokens of a call of set_config that are looked at, to find its last argument */

enum kind { END, WORD, STRING, MARK };

struct token {
	enum kind kind;
	const char *at;			/* of a WORD or STRING without its quotes */
	size_t size;
	bool is_quoted;			/* "a word" */
};

struct reader { const char *at, *end; };

static bool is_at(const struct reader *r, const char *what)
{
	size_t size = strlen(what);

	return (size_t)(r->end - r->at) >= size && memcmp(r->at, what, size) == 0;
}

static bool is_in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void skip_comment(struct reader *r)
{
	int depth = 0;

	if (is_at(r, "--")) {
		const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));

		r->at = end ? end : r->end;
		return;
	}
	do {
		bool begins = is_at(r, "/*"), ends = is_at(r, "*/");

		depth += begins - ends;
		r->at += begins || ends ? 2 : 1;
	} while (depth > 0 && r->at < r->end);
}

/* At a '$': what is quoted between two tags is read as the rest. */
static bool skip_tag(struct reader *r)
{
	const char *at = r->at + 1;

	while (at < r->end && is_in_word(*at))
		at++;
	if (at == r->end || *at != '$')
		return false;
	r->at = at + 1;
	return true;
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end) {
		if (is_at(r, "--") || is_at(r, "/*"))
			skip_comment(r);
		else if (!(*r->at == '$' && skip_tag(r)) && !isspace((unsigned char)*r->at))
			break;
		else if (r->at < r->end && isspace((unsigned char)*r->at))
			r->at++;
	}
}

/* Behind the quote that it begins with. */
static struct token take_quoted(struct reader *r, enum kind kind, bool has_escapes)
{
	char quote = *r->at++;
	struct token t = { kind, r->at, 0, quote == '"' };

	while (r->at < r->end && *r->at != quote)
		r->at += has_escapes && *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
	t.size = (size_t)(r->at - t.at);
	r->at += r->at < r->end;
	return t;
}

static struct token take(struct reader *r)
{
	struct token t = { END, r->at, 0, false };

	skip_blanks(r);
	t.at = r->at;
	if (r->at == r->end)
		return t;
	if (is_at(r, "E'") || is_at(r, "e'")) {
		r->at++;
		return take_quoted(r, STRING, true);
	}
	if (*r->at == '\'')
		return take_quoted(r, STRING, false);
	if (*r->at == '"')
		return take_quoted(r, WORD, false);
	while (r->at < r->end && is_in_word(*r->at))
		r->at++;
	t.kind = r->at > t.at ? WORD : MARK;
	r->at += r->at == t.at;
	t.size = (size_t)(r->at - t.at);
	return t;
}

static struct token look(const struct reader *r)
{
	struct reader ahead = *r;

	return take(&ahead);
}

static bool is(const struct token *t, const char *word)
{
	return t->kind == WORD && !t->is_quoted && t->size == strlen(word) && strncasecmp(t->at, word, t->size) == 0;
}

static bool is_mark(const struct token *t, char c)
{
	return t->kind == MARK && *t->at == c;
}

/* ---- what a text says ---- */

struct reading {
	struct reader r;
	setting_named *named;
	void *context;
	unsigned said;
};

struct name {
	char text[PARAMS_NAME_LONGEST + 1];
	size_t size;			/* of one that is too long more than fits */
};

static void append(struct name *n, const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++, n->size++)
		if (n->size < PARAMS_NAME_LONGEST)
			n->text[n->size] = (char)tolower((unsigned char)at[i]);
}

static void tell(struct reading *x, struct name *n)
{
	if (n->size > PARAMS_NAME_LONGEST)
		return;
	n->text[n->size] = '\0';
	if (strchr(n->text, '.') && params_is_settable(n->text))
		x->named(x->context, n->text);
}

/* Parts with dots between them. */
static void name_follows(struct reading *x)
{
	struct name n = { .size = 0 };
	struct token t = look(&x->r);

	while (t.kind == WORD) {
		take(&x->r);
		append(&n, t.at, t.size);
		t = look(&x->r);
		if (!is_mark(&t, '.'))
			break;
		take(&x->r);
		append(&n, ".", 1);
		t = look(&x->r);
	}
	tell(x, &n);
}

static void set_follows(struct reading *x)
{
	struct token t = look(&x->r);

	if (is(&t, "local"))
		return;
	if (is(&t, "session"))
		take(&x->r);
	name_follows(x);
}

/* Behind the parenthesis of a call: its last argument is the word true. Where that is not found soon, it is taken for another one. */
static bool call_is_local(struct reader r)
{
	struct token before = { END, NULL, 0, false }, last = before, t;
	int depth = 1;

	for (int i = 0; i < CALL_MOST && (t = take(&r)).kind != END; i++) {
		depth += is_mark(&t, '(') - is_mark(&t, ')');
		if (depth == 0)
			return is(&last, "true") && is_mark(&before, ',');
		before = last;
		last = t;
	}
	return false;
}

/* Behind the word set_config. */
static void call_follows(struct reading *x)
{
	struct token t = look(&x->r), comma;
	struct name n = { .size = 0 };

	if (!is_mark(&t, '('))
		return;
	take(&x->r);
	if (call_is_local(x->r))
		return;
	x->said |= SETTING_CALLED;
	t = look(&x->r);
	if (t.kind == STRING) {
		struct reader behind = x->r;

		take(&behind);
		comma = take(&behind);
		if (is_mark(&comma, ',') && !memchr(t.at, '\\', t.size)) {
			append(&n, t.at, t.size);
			tell(x, &n);
			return;
		}
	}
	x->said |= SETTING_UNNAMED;
}

static bool is_set_config(const struct token *t)
{
	return t->kind == WORD && t->size == strlen("set_config") && strncasecmp(t->at, "set_config", t->size) == 0;
}

unsigned setting_text_read(const uint8_t *text, size_t size, setting_named *named, void *context)
{
	const char *begin = (const char *)text, *nul = size > 0 ? memchr(begin, 0, size) : NULL;
	struct reading x = { { begin, nul ? nul : begin + size }, named, context, nul ? 0 : SETTING_CUT };
	struct token t;

	while ((t = take(&x.r)).kind != END) {
		if (is(&t, "set"))
			set_follows(&x);
		else if (is(&t, "reset"))
			name_follows(&x);
		else if (is_set_config(&t))
			call_follows(&x);
		else if (is(&t, "prepare"))
			x.said |= SETTING_KEPT;
	}
	return x.said;
}

bool setting_text_may_tell(const uint8_t *text, size_t size)
{
	uint32_t last = 0;

	for (size_t i = 0; i < size; i++) {
		if (text[i] == 0)
			return false;
		last = (last << 8 | text[i] | 0x20) & 0xffffff;
		if (last == ('s' << 16 | 'e' << 8 | 't'))
			return true;
	}
	return true;
}
