#ifndef NET_RECORDS_H
#define NET_RECORDS_H

#include "base/bytes.h"

/*
 * Records between two processes over a Unix stream socket: each record has a type, a body, and optionally a descriptor
 * (SCM_RIGHTS). See records.c.
 */
#define RECORD_HEADER 8			/* bytes */

struct records {
	int fd;				/* the socket; owned */
	const char *error;		/* why the last call failed, for a log line; valid until the next call */
	/* only records.c uses these: */
	int came;			/* the descriptor of the current record, or -1 */
	uint8_t header[RECORD_HEADER];	/* of the current record */
	size_t header_size;		/* number of bytes received */
	struct bytes body;		/* of the current record, as far as received */
	bool handed_out;		/* `body` belongs to the last record */
	char error_text[128];
};

struct record {
	uint8_t type;
	const uint8_t *body;		/* valid until the next record is read */
	size_t size;
	int fd;				/* -1: no descriptor; otherwise the caller must close it */
};

enum records_verdict {
	RECORDS_OK,
	RECORDS_AGAIN,			/* no complete record is available yet */
	RECORDS_END,			/* the peer has closed the connection between two records */
	RECORDS_BROKEN			/* the peer closed the connection within a record, or sent an invalid record: see `error` */
};

/* Takes ownership of a connected, non-blocking socket. NULL: no memory; the caller keeps the socket. */
struct records *records_new(int fd);
/* Closes the socket and wipes the buffers. Sets *records to NULL; *records may be NULL. */
void records_free(struct records **records);

/* Reads the next available record without blocking. A descriptor is close-on-exec. */
enum records_verdict records_next(struct records *records, struct record *record);
/* The same, but waits for the peer. Gives up after `patience` milliseconds in which nothing arrives. */
enum records_verdict records_wait(struct records *records, struct record *record, int patience);
/* Sends a record; `body` may be NULL, `fd` may be -1. Waits for a full socket for at most `patience` milliseconds without
   progress (0: does not wait). False: see `error`; the caller sends no further record, because this record may have been
   sent in part. */
bool records_send(struct records *records, uint8_t type, const struct bytes *body, int fd, int patience);
/* Sends a record if this is possible at once. AGAIN: nothing was sent, and any record may be sent later. BROKEN: as above. */
enum records_verdict records_try(struct records *records, uint8_t type, const struct bytes *body, int fd);

#endif
