/*
 * Functions for short texts that libc lacks: comparison ignoring ASCII case independent of the
 * locale, comma-separated lists, numbers without trailing text, hex, the nearest known name, and
 * reading files up to a limit.
 */
#include "base/text.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

bool text_copy(char *to, size_t size, const char *from)
{
	size_t length = strlen(from);
	bool fits = length < size;

	if (size == 0)
		return false;
	if (!fits)
		length = size - 1;
	memcpy(to, from, length);
	to[length] = '\0';
	return fits;
}

/* tolower(3) depends on the locale; names of the protocol and the configuration do not. */
static char fold_case(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool equal_n(const char *a, const char *b, size_t size, bool fold)
{
	for (size_t i = 0; i < size; i++) {
		if (fold ? fold_case(a[i]) != fold_case(b[i]) : a[i] != b[i])
			return false;
	}
	return true;
}

bool text_equal_fold(const char *a, const char *b)
{
	size_t size = strlen(a);

	return size == strlen(b) && equal_n(a, b, size, true);
}

bool text_list_has(const char *list, const char *name, bool fold)
{
	static const char separators[] = ", \t\r\n";
	size_t wanted = strlen(name), size;

	if (!list || wanted == 0)
		return false;
	while (*(list += strspn(list, separators))) {
		const char *quote = *list == '"' ? strchr(list + 1, '"') : NULL;
		/* a quotation must end with its word, otherwise its quotes are ordinary
		   characters */
		bool is_quoted = quote && strchr(separators, quote[1]);

		list += is_quoted;
		size = is_quoted ? (size_t)(quote - list) : strcspn(list, separators);
		if (size == wanted && equal_n(list, name, size, fold))
			return true;
		list += size + is_quoted;
	}
	return false;
}

#define NEAREST_MOST 64		/* longer names are not considered misspellings */

/* The edit distance in which a transposition of two neighbours is one step. */
static size_t edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
	unsigned char rows[3][NEAREST_MOST + 1];
	unsigned char *before = rows[0], *above = rows[1], *row = rows[2], *spare;

	for (size_t j = 0; j <= b_size; j++)
		above[j] = (unsigned char)j;
	memset(before, 0, sizeof(rows[0]));
	for (size_t i = 1; i <= a_size; i++) {
		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= b_size; j++) {
			bool same = fold_case(a[i - 1]) == fold_case(b[j - 1]);
			unsigned best = above[j - 1] + (same ? 0u : 1u);

			if (above[j] + 1u < best)
				best = above[j] + 1u;
			if (row[j - 1] + 1u < best)
				best = row[j - 1] + 1u;
			if (i > 1 && j > 1 && fold_case(a[i - 1]) == fold_case(b[j - 2]) &&
			    fold_case(a[i - 2]) == fold_case(b[j - 1]) && before[j - 2] + 1u < best)
				best = before[j - 2] + 1u;
			row[j] = (unsigned char)best;
		}
		spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[b_size];
}

const char *text_nearest(const char *text, const char *const *names, size_t count)
{
	size_t size = strlen(text);
	size_t limit = size / 3 > 2 ? size / 3 : 2;
	const char *nearest = NULL;

	if (size > NEAREST_MOST)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t name_size = strlen(names[i]), distance;

		if (name_size > NEAREST_MOST)
			continue;
		distance = edit_distance(text, size, names[i], name_size);
		/* A distance of all letters would be another word, not a misspelling. */
		if (distance > limit || distance >= size)
			continue;
		nearest = names[i];
		if (distance == 0)
			break;
		limit = distance - 1;
	}
	return nearest;
}

bool text_to_int64(const char *text, int64_t *value)
{
	bool negative = *text == '-';
	int64_t sum = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (*text == '\0')
		return false;
	for (; *text; text++) {
		int digit = *text - '0';

		if (digit < 0 || digit > 9)
			return false;
		/* Computed with negative numbers, because INT64_MIN has no positive counterpart. */
		if (__builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_sub_overflow(sum, digit, &sum))
			return false;
	}
	if (!negative && __builtin_sub_overflow(0, sum, &sum))
		return false;
	*value = sum;
	return true;
}

void text_hex(char *to, const void *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = bytes;

	for (size_t i = 0; i < size; i++) {
		*to++ = digits[from[i] >> 4];
		*to++ = digits[from[i] & 15];
	}
	*to = '\0';
}

/* Files may contain passwords: no copy is left in freed memory. */
static char *grow_wiped(char *old, size_t used, size_t capacity)
{
	char *fresh = mem_resize(NULL, capacity);

	if (fresh && used > 0)
		memcpy(fresh, old, used);
	if (old)
		mem_wipe(old, used);
	mem_free(old);
	return fresh;
}

int text_open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct statfs system;
	struct stat file;

	if (fd < 0)
		return -1;
	/* /dev/fd/63 of a shell's <(command) is a pipe without a name, which ends */
	if (fstat(fd, &file) == 0 && S_ISFIFO(file.st_mode) &&
	    (fstatfs(fd, &system) != 0 || system.f_type != PIPEFS_MAGIC)) {
		close(fd);
		errno = ENOTSUP;
		return -1;
	}
	fcntl(fd, F_SETFL, 0);
	return fd;
}

char *text_read_file(const char *path, size_t limit, size_t *size)
{
	int fd = text_open_file(path), error = 0;
	struct stat st;
	size_t used = 0, capacity = 4096;
	char *text;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_size > 0 && (uintmax_t)st.st_size <= limit)
		capacity = (size_t)st.st_size + 2;
	text = grow_wiped(NULL, 0, capacity);
	for (;;) {
		ssize_t got;

		/* Room for a byte beyond the limit, to detect a longer file, and for the NUL. */
		if (text && capacity - used < 2)
			text = grow_wiped(text, used, capacity *= 2);
		if (!text) {
			error = ENOMEM;
			break;
		}
		got = read(fd, text + used, capacity - used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			error = errno;
			break;
		}
		used += (size_t)got;
		if (used > limit)
			error = EFBIG;
		if (got == 0 || error)
			break;
	}
	close(fd);
	if (error) {
		if (text)
			mem_wipe(text, used);
		mem_free(text);
		errno = error;
		return NULL;
	}
	text[used] = '\0';
	if (size)
		*size = used;
	return text;
}
