#ifndef FAKE_WORLD_H
#define FAKE_WORLD_H

/*
 * A world for the tests of the console: real settings, pools and parameters, and fake functions in place of the session room, which fake_world.c
 * replaces for all files of this room. The output of the console is kept per client and printed as a transcript:
 *
 * S(name=value) K Z(I) T(name:oid/format,...) D(cell|~|...) C(tag) I 1 2 3 n s t(0)
 * E(SQLSTATE message) N(SQLSTATE message), with {detail} after the message if there is a detail
 *
 * ~ is null; unprintable bytes are \xNN. The clock advances only when a test advances it.
 */
#include "admin/caller.h"
#include "auth/client_address.h"
#include "backend/derivation.h"
#include "backend/keys.h"
#include "backend/server_info.h"
#include "base/mem.h"
#include "cancel/cancel.h"
#include "core/alarm.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "sql/statement.h"
#include "unit.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

struct fake_client {
	struct client client;
	struct bytes got;
	bool is_broken;				/* the next write to the socket fails */
	enum close_reason why;			/* the client has ended */
};

extern struct fake_world {
	struct event_base *base;
	struct world world;
	struct derivations derivations;
	struct secrets secrets;
	struct console *console;
	struct fake_client *clients[1200];
	struct server *servers[64];
	int client_count, server_count;
	bool is_flushed;
	int suspended, resumed, dropped, drained;	/* number of calls */
	/* control */
	int reloads, sets;
	bool fails;				/* RELOAD and SET */
	char set_name[64], set_value[256];
	enum world_drain shutdown;
} fake;

static inline struct fake_client *fake_of(struct client *c) { return LIST_OBJECT(c, struct fake_client, client); }

/* Returns the configuration of this ini text, which must be right. The caller drops it. */
struct conf *fake_conf(const char *ini);
/* At second 1000, and 2020-09-13 12:26:40 UTC by the wall. */
void fake_start(const char *ini);
/* Ends all connections, checks the pools and frees everything. */
void fake_end(void);

/* Adds an idle client. */
struct client *fake_client_new(const char *database, const char *user);
/* Adds a console client that has been welcomed, and discards the welcome. */
struct client *fake_caller(const char *user, bool is_admin);
/* Adds an idle server connection. */
struct server *fake_server_new(const char *database, const char *user);
/* The server and its client end. */
void fake_server_dies(struct pool_server *p);

/* Passes a message, or a Query with this text, to the console. */
void fake_message(struct client *c, uint8_t type, const void *body, size_t size);
void fake_query(struct client *c, const char *text);
/* Returns the transcript of the output since the previous call. Valid until the next call. */
const char *fake_transcript(struct client *client);
/* Sends a Query and reads the answer. */
const char *fake_ask(struct client *c, const char *text);
/* The steps of a turn that concern the console. */
void fake_turn(void);

#endif
