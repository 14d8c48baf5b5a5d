/*
 * SQL that may change the role of a session.
 *
 * CommandComplete says SET or RESET, but not of what. These functions look at the text, as far as that is plain:
 *
 *	statement = "SET" [ "SESSION" / "LOCAL" ] name rest / "RESET" name rest
 *	name      = letters and digits of ASCII, "_" and "$", with a blank, "=", "." or the end behind them
 *
 * The names role, session_authorization, SESSION (as in SET SESSION AUTHORIZATION) and those that are not plain ("role",
 * U&"\0072ole") may change the role. What SET LOCAL sets ends with the transaction. SET CONSTRAINTS has a tag of its own. In
 * front of a Parse's text comments are understood, because programs put them there, and semicolons, because PostgreSQL
 * passes over them; elsewhere a comment in the place of a blank makes a text one that may.
 *
 * Bytes beyond ASCII belong to no plain word. In every client_encoding a byte of ASCII that stands for something else has
 * a byte beyond ASCII in front of it.
 */
#include "pg/role.h"

#include <string.h>
#include <strings.h>

/* What is left of a text. */
struct rest {
	const char *at, *end;
	bool is_cut;			/* there is more behind the end, which is not here */
};

struct word {
	const char *at;
	size_t size;
};

static struct rest rest_of(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *)bytes, *nul = size > 0 ? memchr(text, 0, size) : NULL;

	return (struct rest){ text, nul ? nul : text + size, !nul };
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_in_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

static bool is_at(const struct rest *r, const char *what)
{
	size_t size = strlen(what);

	return (size_t)(r->end - r->at) >= size && memcmp(r->at, what, size) == 0;
}

static bool is_at_blank(const struct rest *r)
{
	return r->at < r->end && is_blank(*r->at);
}

static void skip_blanks(struct rest *r)
{
	while (is_at_blank(r))
		r->at++;
}

/* The word that begins here; of size 0: none does. */
static struct word take_word(struct rest *r)
{
	struct word w = { r->at, 0 };

	while (r->at < r->end && is_in_word(*r->at))
		r->at++;
	w.size = (size_t)(r->at - w.at);
	return w;
}

static bool is(const struct word *w, const char *text)
{
	return w->size == strlen(text) && strncasecmp(w->at, text, w->size) == 0;
}

/* False: no comment begins here, or its end is not here. */
static bool skip_comment(struct rest *r)
{
	int depth = 0;

	if (is_at(r, "--")) {
		while (r->at < r->end && *r->at != '\n' && *r->at != '\r')
			r->at++;
		return r->at < r->end || !r->is_cut;
	}
	if (!is_at(r, "/*"))
		return false;
	do {
		bool begins = is_at(r, "/*"), ends = is_at(r, "*/");

		depth += begins - ends;
		r->at += begins || ends ? 2 : 1;
	} while (depth > 0 && r->at < r->end);
	return depth == 0;
}

/* What is set or reset has a plain name, of nothing that has to do with roles. */
static bool takes_other_name(struct rest *r)
{
	static const char *const names[] = { "role", "session_authorization", "session", "authorization" };
	struct word name;

	skip_blanks(r);
	name = take_word(r);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is(&name, names[i]))
			return false;
	if (name.size == 0 || (r->at == r->end && r->is_cut))
		return false;
	return r->at == r->end || is_blank(*r->at) || *r->at == '=' || *r->at == '.';
}

/* What follows the word SET. */
static bool set_keeps(struct rest *r)
{
	struct rest behind = *r;
	struct word first;

	if (!is_at_blank(r))
		return false;
	skip_blanks(&behind);
	first = take_word(&behind);
	if (is(&first, "local") && is_at_blank(&behind))
		return true;
	if (is(&first, "session") && is_at_blank(&behind))
		*r = behind;
	return takes_other_name(r);
}

static bool is_one_statement(const struct rest *r)
{
	struct rest behind = *r;

	behind.at = memchr(r->at, ';', (size_t)(r->end - r->at));
	if (!behind.at)
		return true;
	behind.at++;
	skip_blanks(&behind);
	return behind.at == behind.end;
}

bool role_query_keeps(const uint8_t *text, size_t size)
{
	struct rest r = rest_of(text, size), behind;
	struct word first = take_word(&r), second;

	if (!is(&first, "set") || r.is_cut || !is_one_statement(&r))
		return false;
	behind = r;
	skip_blanks(&behind);
	second = take_word(&behind);
	return !is(&second, "constraints") && set_keeps(&r);
}

bool role_parse_keeps(const uint8_t *text, size_t size)
{
	struct rest r = rest_of(text, size);
	struct word first;

	for (;;) {
		while (r.at < r.end && (is_blank(*r.at) || *r.at == ';'))
			r.at++;
		if (!is_at(&r, "--") && !is_at(&r, "/*"))
			break;
		if (!skip_comment(&r))
			return false;
	}
	/* a comment may begin there */
	if (r.is_cut && r.end - r.at < 2)
		return false;
	first = take_word(&r);
	if (r.is_cut && r.at == r.end)
		return false;
	if (is(&first, "set"))
		return set_keeps(&r);
	if (is(&first, "reset"))
		return is_at_blank(&r) && takes_other_name(&r);
	return true;
}

bool role_is_mentioned(const char *sql)
{
	return strcasestr(sql, "role") || strcasestr(sql, "authorization");
}
