#ifndef RELAY_DURATION_H
#define RELAY_DURATION_H

#include "conn/world.h"

/*
 * Durations in the log: log_min_duration_query, log_min_duration_transaction,
 * log_min_duration_wait, log_query_text. The relay compares a duration with
 * world->queries.durations before it calls these functions.
 */
enum duration { DURATION_QUERY, DURATION_TRANSACTION, DURATION_WAIT };

/* The client has a server: logs a duration, if the settings say so. */
void duration_log(struct client *client, enum duration what, usec_t took);
/* The client begins a query with this message: notes its text for the log. The first `here` bytes
   of the body have arrived. */
void duration_note_text(struct client *client, uint8_t type, const uint8_t *body, size_t here);

#endif
