#ifndef NET_RECORDS_H
#define NET_RECORDS_H

#include "base/bytes.h"

/*
 * Records between two processes over a Unix stream socket: each record has a type, a body, and
 * optionally a descriptor (SCM_RIGHTS). See records.c.
 */
#define RECORD_HEADER 8			/* bytes */

struct records {
	int fd;				/* the socket; owned */
	/* why the last call failed, for a log line; valid until the next call */
	const char *error;
	/* after a failed records_send: no further record can be sent */
	bool is_cut;
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
	/* the peer closed the connection within a record, or sent an invalid record: see `error` */
	RECORDS_BROKEN
};

/* Takes ownership of a connected, non-blocking socket. NULL: no memory; the caller keeps the
   socket. */
struct records *records_new(int fd);
/* Closes the socket and wipes the buffers. Sets *records to NULL; *records may be NULL. */
void records_free(struct records **records);

/* Reads the next record. Waits for the peer, but gives up after `patience` milliseconds in which
   nothing arrives; 0: does not wait, and returns RECORDS_AGAIN if no complete record is available.
   A descriptor is close-on-exec. */
enum records_verdict records_next(struct records *records, struct record *record, int patience);
/* Sends a record; `body` may be NULL, `fd` may be -1. Waits for a full socket for at most
   `patience` milliseconds without progress (0: does not wait). False: see `error`. If the record
   was sent in part, or the connection is lost, is_cut is true and no further record can be sent. */
bool records_send(struct records *records, uint8_t type, const struct bytes *body, int fd,
		  int patience);

#endif
