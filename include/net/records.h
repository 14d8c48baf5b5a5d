#ifndef NET_RECORDS_H
#define NET_RECORDS_H

#include "base/bytes.h"

/*
 * Records between two processes over a Unix stream socket: each has a type, a body, and may bring one descriptor with it
 * (SCM_RIGHTS). See records.c.
 */
struct records;

struct record {
	uint8_t type;
	const uint8_t *body;		/* good until the next record is asked for */
	size_t size;
	int fd;				/* -1: none; else the reader's to close */
};

enum records_verdict {
	RECORDS_OK,
	RECORDS_AGAIN,			/* nothing whole is here (yet) */
	RECORDS_END,			/* the other side has closed, between two records */
	RECORDS_BROKEN			/* it closed within one, or sent what is none: records_error says why */
};

/* Takes a connected, non-blocking socket over. NULL: no memory; the socket then stays the caller's. */
struct records *records_new(int fd);
/* Closes the socket and wipes what was read. Sets *records to NULL; NULL inside is fine. */
void records_free(struct records **records);
int records_fd(const struct records *records);

/* What is here, without waiting. A descriptor that comes with RECORDS_OK is close-on-exec. */
enum records_verdict records_next(struct records *records, struct record *record);
/* The same, but waits for the other side, for at most so many milliseconds in which nothing at all comes from it. */
enum records_verdict records_wait(struct records *records, struct record *record, int patience);
/* Sends one; `body` may be NULL, `fd` -1. Waits for a full socket for at most so many milliseconds (0: not at all) without
   progress. False: records_error says why, and no further record may be sent: a part of this one may be on its way. */
bool records_send(struct records *records, uint8_t type, const struct bytes *body, int fd, int patience);
/* Sends one if it can be sent now. AGAIN: nothing of it is on its way, and it, or another one, may be sent later. BROKEN: as above. */
enum records_verdict records_try(struct records *records, uint8_t type, const struct bytes *body, int fd);
/* Why the last call failed, for a log line. */
const char *records_error(const struct records *records);

#endif
