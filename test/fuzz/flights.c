/*
 * A TLS conversation that an input directs: see flights.h.
 */
#include "flights.h"

#include "secure.h"

#include <string.h>

#define STEPS_MOST 200
#define WAITS_MOST 100000
#define CHANGES_MOST 16		/* OpenSSL takes 32 changes of keys in a row for an attack */

/* ---- pending bytes ---- */

static void gather(struct flights *f)
{
	if (f->end->secure)
		secure_out(f->end->secure, &f->waits);
	FUZZ_CHECK(!f->waits.failed && !f->said.failed && !f->last.failed);
}

static void send_first(struct flights *f, size_t size)
{
	struct bytes piece = BYTES_EMPTY;

	f->sent += size == bytes_size(&f->waits);
	if (size > 0) {
		bytes_append(&piece, bytes_front(&f->waits), size);
		bytes_consume(&f->waits, size);
		f->first = f->first ? f->first : *bytes_front(&piece);
		house_feed_raw(f->house, f->end, bytes_front(&piece), bytes_size(&piece), f->cut);
		bytes_free(&f->last);
		f->last = piece;
	}
	house_settle(f->house);
}

static size_t place(struct flights *f, struct fuzz_input *in)
{
	size_t at = fuzz_u16(in), size = bytes_size(&f->waits);

	return size > 0 ? at % size : 0;
}

static void put_in(struct flights *f, size_t at, const uint8_t *data, size_t size)
{
	struct bytes whole = BYTES_EMPTY;

	if (bytes_size(&f->waits) > 0) {
		bytes_append(&whole, bytes_front(&f->waits), at);
		bytes_append(&whole, data, size);
		bytes_append(&whole, bytes_front(&f->waits) + at, bytes_size(&f->waits) - at);
	} else {
		bytes_append(&whole, data, size);
	}
	bytes_free(&f->waits);
	f->waits = whole;
}

static void leave_out(struct flights *f, size_t at, size_t size)
{
	size_t left = bytes_size(&f->waits) - at;
	uint8_t *front;

	if (size > left)
		size = left;
	if (size == 0)
		return;
	front = bytes_front(&f->waits);
	memmove(front + at, front + at + size, left - size);
	f->waits.end -= size;
}

/* ---- sending ---- */

static void say(struct flights *f, const void *data, size_t size)
{
	if (f->end->secure && secure_say(f->end->secure, data, size))
		bytes_append(&f->said, data, size);
}

static const struct flights_text *choose(const struct flights_text *texts, unsigned number)
{
	unsigned count = 0;

	while (texts[count].size > 0)
		count++;
	return &texts[number % count];
}

/* The bytes that a step brings with it. */
static const uint8_t *take_text(struct fuzz_input *in, size_t *size)
{
	const uint8_t *at;

	*size = fuzz_u8(in);
	if (*size > fuzz_left(in))
		*size = fuzz_left(in);
	at = in->at;
	in->at += *size;
	return at;
}

/* ---- steps ---- */

/* Runs a step of an honest peer. Returns false if the step is another one. */
static bool step_honestly(struct flights *f, uint8_t what, struct fuzz_input *in)
{
	const struct flights_text *text;
	const uint8_t *data;
	size_t size;

	switch (what) {
	case 'g':
		send_first(f, bytes_size(&f->waits));
		return true;
	case 'k':
		send_first(f, place(f, in));
		return true;
	case 's':
		data = take_text(in, &size);
		say(f, data, size);
		return true;
	case 'm':
		text = choose(f->messages, fuzz_u8(in));
		say(f, text->data, text->size);
		return true;
	case 'u':
		if (f->end->secure)
			secure_change_key(f->end->secure, fuzz_u8(in) & 1);
		f->is_damaged |= ++f->changes > CHANGES_MOST;
		return true;
	default:
		return false;
	}
}

static void step_otherwise(struct flights *f, uint8_t what, struct fuzz_input *in)
{
	const struct flights_text *text;
	const uint8_t *data;
	size_t at, size;

	f->is_damaged = true;
	switch (what) {
	case 'x':
		at = place(f, in);
		if (bytes_size(&f->waits) > 0)
			bytes_front(&f->waits)[at] ^= fuzz_u8(in);
		return;
	case 'c':
		leave_out(f, place(f, in), SIZE_MAX);
		return;
	case 'd':
		at = place(f, in);
		leave_out(f, at, fuzz_u8(in));
		return;
	case 'i':
		at = place(f, in);
		data = take_text(in, &size);
		put_in(f, at, data, size);
		return;
	case 'r':
		if (bytes_size(&f->last) > 0)
			bytes_append(&f->waits, bytes_front(&f->last), bytes_size(&f->last));
		return;
	case 'w':
		text = choose(f->clear, fuzz_u8(in));
		bytes_append(&f->waits, text->data, text->size);
		return;
	case 'n':
		if (f->end->secure)
			secure_say_end(f->end->secure);
		return;
	case 'R':
		if (f->end->secure)
			secure_renegotiate(f->end->secure);
		return;
	default:
		house_hang_up(f->end);
		house_settle(f->house);
	}
}

void flights_play(struct flights *f, const uint8_t *script, size_t size)
{
	struct fuzz_input in = fuzz_input_of(script, size);

	f->end->holds = true;
	for (int steps = 0; fuzz_left(&in) > 0 && steps < STEPS_MOST; steps++) {
		uint8_t what = fuzz_u8(&in);

		gather(f);
		if (bytes_size(&f->waits) > WAITS_MOST)
			break;
		if (!step_honestly(f, what, &in) && memchr("xcdirwnRh", what, 9))
			step_otherwise(f, what, &in);
	}
	gather(f);
	send_first(f, bytes_size(&f->waits));
}

void flights_free(struct flights *f)
{
	bytes_free(&f->waits);
	bytes_free(&f->last);
	bytes_free(&f->said);
}

/* The version in a header is not checked: an alert about a ClientHello repeats its wrong version. */
bool flights_are_records(const uint8_t *data, size_t size)
{
	while (size > 0) {
		size_t length = size < 5 ? 0 : (size_t)data[3] << 8 | data[4];

		if (data[0] < SSL3_RT_CHANGE_CIPHER_SPEC || data[0] > SSL3_RT_APPLICATION_DATA ||
		    length > SSL3_RT_MAX_ENCRYPTED_LENGTH)
			return false;
		if (size < 5 || size - 5 < length)
			return true;
		data += 5 + length;
		size -= 5 + length;
	}
	return true;
}
