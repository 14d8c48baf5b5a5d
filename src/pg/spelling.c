/*
 * How PostgreSQL spells values of parameters ("Parameter Names and Values"). Boolean ones may be written as on, off, true, false, yes,
 * no, 1 and 0 in any case, and as any beginning of one of these words that is no beginning of another. Those with a list of values
 * are compared without regard to case.
 */
#include "pg/spelling.h"

#include "base/text.h"
#include "pg/encoding.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *pg_boolean_spelled(const char *value)
{
	static const struct {
		const char *word;
		size_t least;			/* characters that tell it from the others */
		const char *spelled;
	} words[] = {
		{ "true", 1, "on" }, { "yes", 1, "on" }, { "on", 2, "on" }, { "1", 1, "on" },
		{ "false", 1, "off" }, { "no", 1, "off" }, { "off", 2, "off" }, { "0", 1, "off" },
	};
	size_t size = strlen(value);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (size >= words[i].least && size <= strlen(words[i].word) && strncasecmp(value, words[i].word, size) == 0)
			return words[i].spelled;
	return NULL;
}

static const char *style_spelled(const char *value)
{
	static const char *const styles[] = { "postgres", "postgres_verbose", "sql_standard", "iso_8601" };

	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
		if (text_equal_fold(value, styles[i]))
			return styles[i];
	return NULL;
}

const char *pg_spelled(const char *name, const char *value)
{
	const char *spelled = NULL;

	if (text_equal_fold(name, "client_encoding"))
		return pg_encoding_spelled(value);
	if (text_equal_fold(name, "standard_conforming_strings"))
		spelled = pg_boolean_spelled(value);
	else if (text_equal_fold(name, "IntervalStyle"))
		spelled = style_spelled(value);
	return spelled ? spelled : value;
}
