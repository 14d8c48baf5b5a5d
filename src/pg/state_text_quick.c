/*
 * A quick look at SQL: whether any word of session state may be in it. All texts of clients with session_state = full are looked at, and nearly none
 * has one, so many bytes are looked at together, three letters of each word.
 */
#include "pg/state_text.h"

#include "base/inline.h"

#include <string.h>

#define BLOCK 32

/* The three bytes begin "set", "temp", "hold", "advisory", "dblink" or "unlisten", or are those of "currval", "lastval", "nextval" and "pg_listening_channels"
   that few words have, in upper or lower case, or are the beginning of an identifier with escapes. So do a few bytes that are no letters: these
   cost a closer look. The last one is_third. */
static inline bool tells(uint8_t a, uint8_t b, uint8_t c)
{
	a |= 0x20;
	b |= 0x20;
	switch (c | 0x20) {
	case 't': return a == 's' && b == 'e';
	case 'm': return a == 't' && b == 'e';
	case 'l': return (a == 'h' && b == 'o') || (a == 'd' && b == 'b') || (a == 'u' && b == 'n') || (a == 'g' && b == ('_' | 0x20));
	case 'o': return a == 'n' && b == 't';
	case 'v': return (a == 'a' && b == 'd') || (a == 'r' && b == 'r') || (a == 's' && b == 't') || (a == 'x' && b == 't');
	default: return a == 'u' && b == '&';
	}
}

/* The last of three such bytes. */
static const bool is_third[256] = {
	['t'] = true, ['T'] = true, ['m'] = true, ['M'] = true, ['l'] = true, ['L'] = true, ['v'] = true, ['V'] = true,
	['o'] = true, ['O'] = true,
	['"'] = true,
};

/* At one of so many bytes, and two more. Without a branch, so that the compiler takes many bytes at a time. */
static NEVER_INLINE bool block_tells(const uint8_t *at, uint8_t selects)
{
	uint8_t found = 0;

	for (size_t i = 0; i < BLOCK; i++) {
		uint8_t a = at[i] | 0x20, b = at[i + 1] | 0x20, c = at[i + 2] | 0x20;
		uint8_t with_e = (uint8_t)((b == 'e') & (((a == 's') & (c == 't')) | ((a == 't') & (c == 'm'))));
		uint8_t others = (uint8_t)(((a == 'h') & (b == 'o') & (c == 'l')) | ((a == 'a') & (b == 'd') & (c == 'v')) |
					   ((a == 'd') & (b == 'b') & (c == 'l')));
		uint8_t with_v = (uint8_t)((c == 'v') & (((a == 'r') & (b == 'r')) | (((a == 's') | (a == 'x')) & (b == 't'))));

		uint8_t escaped = (uint8_t)((a == 'u') & (b == '&') & (c == '"'));

		uint8_t listens = (uint8_t)((c == 'l') & (((a == 'u') & (b == 'n')) | ((a == 'g') & (b == ('_' | 0x20)))));

		uint8_t into = (uint8_t)((a == 'n') & (b == 't') & (c == 'o') & selects);

		found |= into | with_e | others | with_v | escaped | listens;
	}
	return found;
}

/* INTO is no word of a SELECT in this text, which is one INSERT. */
static bool only_inserts(const uint8_t *text, const uint8_t *end)
{
	return end - text > 6 && (text[0] | 0x20) == 'i' && (text[1] | 0x20) == 'n' && (text[2] | 0x20) == 's' && !memchr(text, ';', (size_t)(end - text - 1));
}

bool state_text_may_tell(const uint8_t *text, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL, *at = text;

	uint8_t selects;

	if (!end)
		return true;
	selects = !only_inserts(text, end);
	for (; end - at >= BLOCK + 2; at += BLOCK)
		if (block_tells(at, selects))
			return true;
	for (; end - at >= 3; at++)
		if (is_third[at[2]] && tells(at[0], at[1], at[2]) && (selects || (at[2] | 0x20) != 'o'))
			return true;
	return false;
}
