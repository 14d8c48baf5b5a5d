/*
 * The first packet of a connection, which any unauthenticated client may send: pg_startup_read, its pairs, the options in them.
 *
 * Input: the bytes of the connection. Properties: for any part of the packet, the result is that of the whole packet or PG_MORE, and is available as
 * soon as the announced size has arrived; a parsed packet, written again, is parsed as the same.
 */
#include "fuzz.h"
#include "pg/build.h"
#include "pg/startup.h"

#include <stdlib.h>
#include <string.h>

#define PACKET_MOST 10000
#define PAIRS_MOST 64

/* Walks over the options of the text, up to the first invalid option. */
static void walk_options(const char *text)
{
	char name[16], value[32];

	for (const char *before = text; pg_options_next(&text, name, sizeof(name), value, sizeof(value)) == PG_OK; before = text) {
		FUZZ_CHECK(text > before);
		FUZZ_CHECK(strlen(name) < sizeof(name) && strlen(value) < sizeof(value) && *name);
	}
}

static size_t walk_pairs(const struct pg_startup *s, const char **pairs, size_t most)
{
	const char *name, *value;
	size_t at = 0, count = 0;

	while (pg_startup_pair(s, &at, &name, &value)) {
		FUZZ_CHECK((const uint8_t *)name >= s->pairs && (const uint8_t *)value + strlen(value) < s->pairs + s->pairs_size);
		walk_options(value);
		if (count < most) {
			pairs[count++] = name;
			pairs[count++] = value;
		}
	}
	return count;
}

/* A packet that says the same is read as saying the same. */
static void write_again(const struct pg_startup *s)
{
	const char *pairs[PAIRS_MOST], *again[PAIRS_MOST];
	struct bytes out = BYTES_EMPTY;
	struct pg_startup back;
	size_t count = 0;

	if (s->kind == STARTUP_SESSION) {
		count = walk_pairs(s, pairs, PAIRS_MOST);
		pg_build_startup(&out, (uint32_t)s->major << 16 | s->minor, pairs, count);
	} else if (s->kind == STARTUP_CANCEL) {
		FUZZ_CHECK(s->cancel_key_size >= PG_KEY_LEAST && s->cancel_key_size <= PG_KEY_MOST);
		pg_build_key(&out, 0, s->cancel_pid, s->cancel_key, s->cancel_key_size);
	} else {
		return;
	}
	FUZZ_CHECK(!out.failed);
	FUZZ_CHECK(pg_startup_read(bytes_front(&out), bytes_size(&out), SIZE_MAX, &back) == PG_OK);
	FUZZ_CHECK(back.kind == s->kind && back.size == bytes_size(&out));
	if (s->kind == STARTUP_CANCEL) {
		FUZZ_CHECK(back.cancel_pid == s->cancel_pid && back.cancel_key_size == s->cancel_key_size);
		FUZZ_CHECK(memcmp(back.cancel_key, s->cancel_key, s->cancel_key_size) == 0);
	} else {
		FUZZ_CHECK(back.major == s->major && back.minor == s->minor);
		FUZZ_CHECK(walk_pairs(&back, again, PAIRS_MOST) == count);
		for (size_t i = 0; i < count; i++)
			FUZZ_CHECK(strcmp(pairs[i], again[i]) == 0);
	}
	bytes_free(&out);
}

static void read_part(const uint8_t *data, size_t size, enum pg_verdict whole, const struct pg_startup *told)
{
	uint8_t *part = fuzz_copy(data, size);
	struct pg_startup s;
	enum pg_verdict verdict = pg_startup_read(part, size, PACKET_MOST, &s);

	FUZZ_CHECK(verdict == PG_MORE || verdict == whole);
	if (whole == PG_OK)
		FUZZ_CHECK((verdict == PG_OK) == (size >= told->size));
	if (verdict == PG_OK)
		FUZZ_CHECK(s.kind == told->kind && s.size == told->size && s.pairs_size == told->pairs_size &&
			   s.cancel_key_size == told->cancel_key_size);
	free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum pg_verdict verdict;
	struct pg_startup s;

	if (size > PACKET_MOST)
		return 0;
	verdict = pg_startup_read(data, size, PACKET_MOST, &s);
	for (size_t n = 0; n < size; n += n < 40 ? 1 : n / 8)
		read_part(data, n, verdict, &s);
	if (verdict == PG_OK) {
		FUZZ_CHECK(s.size <= size);
		if (s.size > 0)
			read_part(data, s.size - 1, verdict, &s);
		write_again(&s);
	}
	return 0;
}
