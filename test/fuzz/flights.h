#ifndef FLIGHTS_H
#define FLIGHTS_H

#include "fuzz.h"
#include "house.h"

/*
 * A TLS conversation that an input directs: a true OpenSSL on the target's side makes the bytes, and a script
 * changes, cuts, repeats and replaces them on their way. So the input has the depth of a right handshake, and
 * the fault at any byte of it.
 *
 * A script is a run of steps, a letter and what it wants (N: a byte; P: two bytes, a place, taken modulo the
 * size of what there is; T: N and so many bytes). Other letters are passed over. "What waits" is what
 * OpenSSL, and steps before, have put there to be sent.
 *
 *	g	what waits goes, and whatever it brings about is done	k P	of what waits goes what is before that place
 *	x P N	a byte of what waits is changed by N (exclusive or)	c P	what waits ends at that place
 *	d P N	N bytes of it are left out				r	what went last goes again, behind what waits
 *	i P T	something is put in between				w N	the N-th of the target's clear texts waits, too
 *	s T	says something in TLS					m N	says the N-th of the target's messages in TLS
 *	n	says the end (close_notify)				u N	changes keys; N odd: both sides
 *	R	wants to renegotiate					h	hangs up
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
	bool is_damaged;		/* some step was none that an honest peer takes */
	int sent, changes;		/* how often all that waits has gone, and keys were changed */
	uint8_t first;			/* of the bytes that went; 0: none has */
};

/* Plays the script on that end, which has a `secure`; then sends what still waits. */
void flights_play(struct flights *f, const uint8_t *script, size_t size);
void flights_free(struct flights *f);

/* Whether these bytes are records of TLS from first to last, the last one perhaps cut off. */
bool flights_are_records(const uint8_t *data, size_t size);

#endif
