/*
 * Values of boolean parameters ("Parameter Names and Values"): on, off, true, false, yes, no, 1 and 0 in any case, and any beginning of
 * one of these words that is no beginning of another.
 */
#include "pg/boolean.h"

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
