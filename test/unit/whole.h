#ifndef UNIT_WHOLE_H
#define UNIT_WHOLE_H

/*
 * pgweir as a whole for a unit test: the world of the fuzz targets (test/fuzz/house.h), in which the test plays clients and servers. The rooms are
 * real, so connections reach their states as in production. The clock advances only with house_tick(); allocations can be made to fail. A program
 * whose source includes this header is linked with test/unit/whole.c and the world (etc/files.sh).
 *
 * The messages to an end are read as a transcript, one word for each message:
 *
 * from a client: Q(text) P(name/text) B(portal/name) D(S/name) C(S/name) E(portal) S H X d c f p
 * from a server: Z(I) C(tag) E(SQLSTATE message{detail}) N(SQLSTATE message) S(name=value) 1 2
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

/* The ini is a constant text, which is read once. */
void whole_open(const char *ini);
/* Ends all connections and checks that all their resources are freed. */
void whole_close(void);

/* Logs in a client as user u at database d. Returns the client, or NULL if its login was refused; `end` is the test's end of the connection. */
struct client *whole_login(struct house_end **end);
/* The same with a server that is lent to the client in a transaction (BEGIN has been answered). */
struct client *whole_in_transaction(struct house_end **client, struct house_end **server);
/* Returns the client or server of pgweir whose other end was created last; NULL: none. */
struct client *whole_last_client(void);
struct server *whole_last_server(void);

/* Sends a message from this end and runs turns until nothing is left to do. whole_say takes `size` bytes, whole_query a text. */
void whole_say(struct house_end *end, uint8_t type, const void *body, size_t size);
void whole_query(struct house_end *end, const char *text);
/* Returns the transcript of the messages to this end since the previous call. Valid until the next call. */
const char *whole_said(struct house_end *end, bool is_server);
#define whole_client_got(end) whole_said(end, false)
#define whole_server_got(end) whole_said(end, true)
/* Sends "Q(text)" and returns the messages to the client. */
const char *whole_ask(struct house_end *client, const char *text);

/* After `more` allocations, every allocation fails until whole_memory_is_back(), which returns the number of failed allocations. */
void whole_memory_ends(int more);
int whole_memory_is_back(void);

#endif
