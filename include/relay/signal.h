#ifndef RELAY_SIGNAL_H
#define RELAY_SIGNAL_H

#include "conn/client.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "sql/signal_text.h"

#include <string.h>

/* pg_terminate_backend() and pg_cancel_backend() with a process number that pgweir has given to a
   client, such as SELECT pg_terminate_backend(1234567890): see signal.c. */

/* Whether the message may call one of these functions. False: signal_replace() need not be
   called. */
static inline bool signal_may_be_meant(const struct client *c, const struct pg_frame *f)
{
	const uint8_t *text;

	/* UNNAMED_SIGNALS is set with shares_names only */
	if (f->type == PGC_BIND)
		return c->prepared && c->prepared->unnamed_care & UNNAMED_SIGNALS;
	if (f->type == PGC_QUERY)
		return signal_text_may_be(f->body, f->here);
	if (f->type != PGC_PARSE || !c->link_facts.shares_names || f->here <= SIGNAL_SHORTEST)
		return false;
	text = request_text_after_name(f->body, f->here);
	return text && signal_text_may_be(text, f->here - (size_t)(text - f->body));
}

/* Carries the request of the message out, and appends the message that the client's server gets in
   its place. False: the server gets the message itself, and nothing was done. The server is ready
   for the message. */
bool signal_replace(struct client *client, struct server *server, const struct pg_frame *frame,
		    struct bytes *out);

#endif
