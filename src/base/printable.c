/*
 * The printable form of a text from a peer: a name, an error message, a value of SHOW.
 *
 * Log lines and console output are read by terminals and by programs. A terminal obeys the control
 * characters of C0 and C1, as one byte (0x9b) or as a UTF-8 character (U+009B). Programs and human
 * readers can be misled about the end of a line or a field. Therefore only visible characters of
 * well-formed UTF-8 (RFC 3629) are left unchanged. Escaped are:
 *
 * controls    C0, DEL, C1
 * line ends   U+2028, U+2029
 * direction   U+202A ... U+202E, U+2066 ... U+2069: they reorder the text around them
 * invisible   characters without width, fillers, tags, noncharacters
 *
 * A name among other fields is quoted if a character of it could end its field: a user may be
 * called x@10.9.9.9:1 login failed: db=a user=b.
 */
#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PIECE_MOST 16		/* four bytes of a character, each as \xNN */

/* The output for one character of the text, or for one byte that does not begin a character. */
struct piece {
	size_t taken;			/* bytes of the text */
	size_t size;			/* bytes of `text` */
	uint32_t code;			/* 0: not printable */
	char text[PIECE_MOST];
};

struct range {
	uint32_t first, last;
};

/* Beyond ASCII; sorted. */
static const struct range unprintable[] = {
	{ 0x80, 0x9f },	      { 0xad, 0xad },	  { 0x34f, 0x34f },	{ 0x61c, 0x61c },
	{ 0x115f, 0x1160 },   { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },	{ 0x200b, 0x200f },
	{ 0x2028, 0x202e },   { 0x2060, 0x206f }, { 0x2800, 0x2800 },	{ 0x3164, 0x3164 },
	{ 0xfdd0, 0xfdef },   { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff },	{ 0xffa0, 0xffa0 },
	{ 0xfff0, 0xfffb },   { 0xfffe, 0xffff }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
	{ 0xe0000, 0xe0fff },
};
static const struct range blanks[] = {
	{ 0xa0, 0xa0 },	    { 0x1680, 0x1680 }, { 0x2000, 0x200a },
	{ 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 },
};
#define IS_IN(table, code) printable_is_in(table, sizeof(table) / sizeof((table)[0]), code)

static bool printable_is_in(const struct range *table, size_t count, uint32_t code)
{
	for (size_t i = 0; i < count && table[i].first <= code; i++)
		if (code <= table[i].last)
			return true;
	return false;
}

/* Returns the size of the UTF-8 character at `at` (`size` bytes are available) and sets *code; 0:
   not a valid character. */
static size_t utf8_character(const unsigned char *at, size_t size, uint32_t *code)
{
	static const unsigned char bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	size_t length = at[0] < 0x80   ? 1
			: at[0] < 0xc2 ? 0
			: at[0] < 0xe0 ? 2
			: at[0] < 0xf0 ? 3
			: at[0] < 0xf5 ? 4
				       : 0;

	if (length > size)
		return 0;
	*code = at[0] & bits[length];
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	/* overlong encodings, surrogates, code points above U+10FFFF */
	if ((length == 3 && *code < 0x800) || (*code >= 0xd800 && *code <= 0xdfff) ||
	    (length == 4 && *code < 0x10000) || *code > 0x10ffff)
		return 0;
	return length;
}

/* `size` is 1 or more. */
static void next_piece(struct piece *p, const char *from, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *at = (const unsigned char *)from;
	size_t length = utf8_character(at, size, &p->code);
	bool is_printable = length > 0;

	if (is_printable && p->code < 0x80)
		is_printable = p->code >= 0x20 && p->code != 0x7f;
	else if (is_printable)
		/* the last two code points of each plane are noncharacters */
		is_printable = (p->code & 0xfffe) != 0xfffe && !IS_IN(unprintable, p->code);
	p->taken = length > 0 ? length : 1;
	if (is_printable) {
		memcpy(p->text, from, length);
		p->size = length;
		return;
	}
	p->code = 0;
	p->size = 4 * p->taken;
	for (size_t i = 0; i < p->taken; i++) {
		p->text[4 * i] = '\\';
		p->text[4 * i + 1] = 'x';
		p->text[4 * i + 2] = digits[at[i] >> 4];
		p->text[4 * i + 3] = digits[at[i] & 15];
	}
}

size_t printable_write(char *to, const char *from, size_t size)
{
	struct piece p;
	size_t sum = 0;

	for (size_t i = 0; i < size; i += p.taken) {
		next_piece(&p, from + i, size - i);
		if (to)
			memcpy(to + sum, p.text, p.size);
		sum += p.size;
	}
	return sum;
}

/* ---- with a buffer of fixed size ---- */

/* Copies while at most `room` bytes are used. *whole: the whole text was copied. Returns the
   size. */
static size_t copy(char *to, size_t room, const char *from, bool inside, bool *whole)
{
	size_t size = strlen(from), used = 0, i = 0;
	struct piece p;

	for (; i < size; i += p.taken) {
		bool marked;

		next_piece(&p, from + i, size - i);
		/* between quotes, these characters are escaped with a backslash */
		marked = inside && (p.code == '"' || p.code == '\\');
		if (used + marked + p.size > room)
			break;
		if (marked)
			to[used++] = '\\';
		memcpy(to + used, p.text, p.size);
		used += p.size;
	}
	*whole = i == size;
	return used;
}

size_t printable_copy(char *to, size_t room, const char *from, bool inside)
{
	bool whole;
	size_t used = copy(to, room, from, inside, &whole);

	if (whole)
		return used;
	used = copy(to, room - 3, from, inside, &whole);
	memcpy(to + used, "...", 3);
	return used + 3;
}

const char *printable_name(const char *name, char *buf, size_t size)
{
	size_t length = strlen(name), used;
	bool is_plain = length > 0;
	struct piece p;

	for (size_t i = 0; is_plain && i < length; i += p.taken) {
		next_piece(&p, name + i, length - i);
		if (p.code >= 0x80)
			is_plain = !IS_IN(blanks, p.code);
		else
			is_plain = (p.code >= 'a' && p.code <= 'z') ||
				   (p.code >= 'A' && p.code <= 'Z') ||
				   (p.code >= '0' && p.code <= '9') ||
				   (p.code != 0 && strchr("_$.+#%!*~^-", (int)p.code));
	}
	if (is_plain)
		return printable_text(name, buf, size);
	used = printable_copy(buf + 1, size - 3, name, true);
	buf[0] = buf[used + 1] = '"';
	buf[used + 2] = '\0';
	return buf;
}
