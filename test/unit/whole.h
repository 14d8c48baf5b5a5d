#ifndef UNIT_WHOLE_H
#define UNIT_WHOLE_H

/*
 * pgweir as a whole for a unit test: the world of the fuzz targets (test/fuzz/house.h), in which the test plays clients and servers.
 * The rooms are the real ones, so a test calls the functions of its file with connections that have come to be as they do in production.
 * The clock stands still until house_tick(); memory can be made to run out. A program whose source includes this header is linked
 * with test/unit/whole.c and the world (etc/files.sh).
 *
 * What an end was sent is read as a transcript, one word for each message:
 *
 *	Q(text) P(name/text) B(portal/name) D(S/name) C(S/name) E(portal) S H X d c f p	from a client
 *	Z(I) C(tag) E(SQLSTATE message{detail}) N(SQLSTATE message) S(name=value) 1 2	from a server
 */
#include "../fuzz/backend.h"
#include "../fuzz/house.h"
#include "../fuzz/sandbox.h"

#include "conn/client.h"
#include "conn/server.h"
#include "pg/build.h"

/* One pool, whose servers are 127.0.0.1:5432: database d, user u, no password. `settings` is a constant text: rows of [pgbouncer]. */
#define WHOLE_INI(database, settings) \
	"[databases]\nd = " HOUSE_SERVER "user=u " database HOUSE_SETTINGS "auth_type=any\npool_mode=transaction\n" settings

extern struct house whole;

/* The ini is a constant text: it is read once. */
void whole_open(const char *ini);
/* Ends all connections, and checks that nothing is left of them. */
void whole_close(void);

/* A client that has logged in as user u at database d; the end that the test plays, and the other one. NULL: it was not let in. */
struct client *whole_login(struct house_end **end);
/* The same with a server that is lent to it in a transaction (BEGIN has been answered). */
struct client *whole_in_transaction(struct house_end **client, struct house_end **server);
/* The client or server of pgweir whose other end has been made last; NULL: none. */
struct client *whole_last_client(void);
struct server *whole_last_server(void);

/* Sends a message for this end, and lets everything settle. `body` of whole_say is `size` bytes; whole_query's a text. */
void whole_say(struct house_end *end, uint8_t type, const void *body, size_t size);
void whole_query(struct house_end *end, const char *text);
/* What was sent to this end since the last call. Good until the next one. */
const char *whole_said(struct house_end *end, bool is_server);
#define whole_client_got(end) whole_said(end, false)
#define whole_server_got(end) whole_said(end, true)
/* Sends "Q(text)" and returns what the client gets. */
const char *whole_ask(struct house_end *client, const char *text);

/* The allocation after `more` others fails, and each one after it, until whole_memory_is_back(); the count of those that failed. */
void whole_memory_ends(int more);
int whole_memory_is_back(void);

#endif
