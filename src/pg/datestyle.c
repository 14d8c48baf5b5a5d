/*
 * DateStyle, the one tracked parameter of which a value may say half: how dates are written (ISO, SQL, Postgres, German), in which
 * order their fields are read (YMD, DMY, MDY), or both ("Date/Time Output" in the PostgreSQL documentation). What is not said stays as
 * it is in the session, so that a half means another thing on a server connection that another client had before.
 *
 * Words as in the server's check_datestyle(): in any case, with commas between; DMY is also EURO..., MDY also US or NONEURO..., and
 * German brings DMY along unless an order is said.
 */
#include "pg/datestyle.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct halves {
	const char *style, *order;	/* in the server's spelling; NULL: not said */
	bool order_is_implied;
};

enum half { HALF_STYLE, HALF_ORDER };

static const struct word {
	const char *text, *spelling;
	enum half half;
	bool is_beginning;		/* of any longer word */
} words[] = {
	{ "ISO", "ISO", HALF_STYLE, false },
	{ "SQL", "SQL", HALF_STYLE, false },
	{ "POSTGRES", "Postgres", HALF_STYLE, true },
	{ "GERMAN", "German", HALF_STYLE, false },
	{ "YMD", "YMD", HALF_ORDER, false },
	{ "DMY", "DMY", HALF_ORDER, false },
	{ "EURO", "DMY", HALF_ORDER, true },
	{ "MDY", "MDY", HALF_ORDER, false },
	{ "US", "MDY", HALF_ORDER, false },
	{ "NONEURO", "MDY", HALF_ORDER, true },
};

static const struct word *word_of(const char *at, size_t size)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const struct word *w = &words[i];
		size_t length = strlen(w->text);

		if ((w->is_beginning ? size >= length : size == length) && strncasecmp(at, w->text, length) == 0)
			return w;
	}
	return NULL;
}

static bool take_word(struct halves *h, const char *at, size_t size)
{
	const struct word *w = word_of(at, size);

	if (!w)
		return false;
	if (w->half == HALF_STYLE) {
		if (h->style && h->style != w->spelling)
			return false;
		h->style = w->spelling;
		if (!h->order && strcmp(w->spelling, "German") == 0) {
			h->order = "DMY";
			h->order_is_implied = true;
		}
		return true;
	}
	if (h->order && !h->order_is_implied && strcmp(h->order, w->spelling) != 0)
		return false;
	h->order = w->spelling;
	h->order_is_implied = false;
	return true;
}

static bool read_halves(const char *text, struct halves *h)
{
	static const char blanks[] = " \t\n\r\f\v";

	*h = (struct halves){ 0 };
	for (const char *at = text;; at++) {
		size_t size;

		at += strspn(at, blanks);
		size = strcspn(at, ", \t\n\r\f\v");
		if (!take_word(h, at, size))
			return false;
		at += size;
		at += strspn(at, blanks);
		if (*at != ',')
			return !*at;
	}
}

bool pg_datestyle_over(const char *before, const char *asked, char full[PG_DATESTYLE_MOST])
{
	struct halves old, new;

	if (!read_halves(before, &old) || !old.style || !old.order || !read_halves(asked, &new))
		return false;
	snprintf(full, PG_DATESTYLE_MOST, "%s, %s", new.style ? new.style : old.style, new.order ? new.order : old.order);
	return true;
}
