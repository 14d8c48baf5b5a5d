#ifndef FLIGHTS_H
#define FLIGHTS_H

#include "fuzz.h"
#include "house.h"

/*
 * A TLS conversation directed by an input: a real OpenSSL on the target's side produces the bytes, and a script changes, truncates, repeats and
 * replaces them in transit. So the input reaches the depth of a valid handshake, with a fault at any byte.
 *
 * A script is a sequence of steps, each a letter and its arguments (N: a byte; P: two bytes, a position modulo the number of pending bytes; T: N and
 * N bytes). Other letters are ignored. The pending bytes are the output of OpenSSL and of earlier steps that is not sent yet.
 *
 * - g: sends the pending bytes, and everything that results is processed
 * - k P: sends the pending bytes before that position
 * - x P N: a pending byte is changed by exclusive or with N
 * - c P: the pending bytes are truncated there
 * - d P N: N bytes are removed there
 * - r: the bytes sent last are repeated, after the pending ones
 * - i P T: bytes are inserted
 * - w N: the N-th clear text of the target is appended to the pending bytes
 * - s T: sends data in TLS
 * - m N: sends the N-th message of the target in TLS
 * - n: sends close_notify
 * - u N: changes keys; N odd: on both sides
 * - R: requests renegotiation
 * - h: closes the connection
 */
struct flights_text {
	const char *data;
	size_t size;
};
#define FLIGHTS_TEXT(text) { text, sizeof(text) - 1 }

struct flights {
	struct house *house;
	struct house_end *end;
	const struct flights_text *messages, *clear;	/* of `m` and `w`; up to size 0 */
	enum fuzz_cut cut;
	struct bytes waits, last;
	struct bytes said;		/* all that was said in TLS */
	bool is_damaged;		/* some step was not one of an honest peer */
	int sent, changes;		/* how often all that waits has gone, and keys were changed */
	uint8_t first;			/* of the bytes that went; 0: none has */
};

/* Plays the script on that end, which has a `secure`; then sends the pending bytes. */
void flights_play(struct flights *f, const uint8_t *script, size_t size);
void flights_free(struct flights *f);

/* Whether these bytes are records of TLS from first to last, the last one perhaps cut off. */
bool flights_are_records(const uint8_t *data, size_t size);

#endif
