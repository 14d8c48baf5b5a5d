#ifndef PG_MESSAGE_H
#define PG_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The messages of protocol 3 after login, one row each, in include/tbl/message.tbl.
 * The relay asks the row whether a message is legal here and whether its body
 * has to be read as a whole before it may go on.
 */
struct pg_message {
	uint8_t type;
	const char *name;	/* as the protocol documentation calls it */
	bool whole;		/* its body is looked at: wait until all of it is here */
	uint32_t look;		/* bytes of the body that must be here before it may go on (Describe, Close: 1) */
	bool extended;		/* part of the extended query protocol: owes until Sync */
};

/* Row of a message that a client (frontend) sends after login; NULL: there is none of this type. */
const struct pg_message *pg_client_message(uint8_t type);
/* Row of a message that a server (backend) sends after login; NULL: none. */
const struct pg_message *pg_server_message(uint8_t type);

#endif
