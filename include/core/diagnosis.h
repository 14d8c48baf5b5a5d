#ifndef CORE_DIAGNOSIS_H
#define CORE_DIAGNOSIS_H

#include "conn/world.h"

/*
 * Waits of clients, and the life of a client, for administrators: SHOW WAITS, EXPLAIN CLIENT, and
 * the DETAIL of errors.
 */
#define WAIT_TEXT 1024
#define WAIT_HINT 256

struct client_wait {
	const char *on;			/* a setting, or a condition */
	usec_t since;			/* monotonic: when the wait began */
	/* ids of the connections that the client waits for; 0: none */
	uint64_t client, server;
	usec_t held;			/* how long they have been in this state */
	char text[WAIT_TEXT];
	char hint[WAIT_HINT];		/* "": none */
};

/* Fills *wait if the client waits for a server, for another connection, or for a task of pgweir.
   False: it does not wait. */
bool client_wait_of(const struct client *client, struct client_wait *wait);
/* Fills *wait with the reason why clients of the pool wait for a server; `since` is not set. */
void pool_wait_of(const struct pool *pool, usec_t now, struct client_wait *wait);
/* Fills words and hint with the hosts at which no server can be opened, and why, or with the error
   of the last login. False: the last login at a server has succeeded. */
bool pool_failure_of(const struct pool *pool, usec_t now, struct client_wait *wait);
/* Calls line() for each line of EXPLAIN CLIENT. No line has the text of a query. */
void client_explain(const struct client *client, void (*line)(void *context, const char *text),
		    void *context);

#endif
