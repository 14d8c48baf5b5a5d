#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "ask.h"
#include "machine.h"
#include "prove.h"
#include "roles.h"
#include "rules.h"

/*
 * A fake client, shared by client.c (its life), client_login.c, client_work.c (its requests), client_portals.c (named portals), client_send.c (its
 * messages) and client_judge.c (its answers).
 */

#define NAMES 6				/* names that a client has for prepared statements */
#define PORTALS 3			/* the first portal is unnamed */
#define WANTS_MOST 256			/* answers that it may wait for at a time */

/* A sent message with a pending answer. */
struct want {
	char type;			/* of the message: Q P B D E C S F */
	char what;			/* Describe and Close: S or P */
	struct ask asks[3];		/* Query: its statements; Parse, Bind: of the statement */
	int count, at;			/* number of requests in the message; index of the one being answered */
	uint32_t serial;		/* of the question */
	uint32_t row;			/* the next one */
	uint32_t most;			/* Execute: rows; 0: all */
	int name;			/* of the statement; -1: unnamed */
	int portal;			/* Bind, Execute, Describe and Close of one: which */
	uint32_t reports;		/* a stream: number of sent reports */
	bool said_done;			/* and its CopyDone */
	bool began, ended;		/* its first answer has come; COPY: its last row */
	bool is_eager;			/* COPY IN: the data is on its way already */
	bool is_inner;			/* a Sync among the data of the COPY before it, in front of message `row` ... */
	bool is_void;			/* ... which was read as part of that: no answer */
};

struct named {
	bool is_there;
	struct ask ask;
};

struct held {
	bool is_there;
	struct ask ask;
	uint32_t serial, row;		/* of the Bind; the next one */
};

/* The state of a session after all answered messages, or after all sent messages. */
struct view {
	char tx;
	struct named names[NAMES];
	struct named unnamed;
	struct held portals[PORTALS];
};

enum client_phase { CLIENT_AWAY, CLIENT_TLS, CLIENT_LOGIN, CLIENT_HERE };

struct guest {
	struct actor actor;
	struct wire *wire;
	enum client_phase phase;
	uint32_t number, serial;
	int database, user, address;
	char believed[64];		/* application_name, as it was told */
	struct view now, planned;
	bool plan_skips;		/* the server will skip everything planned up to the next Sync */
	struct want wants[WANTS_MOST];
	int first_want, want_count;
	bool is_open;			/* it owes a Sync */
	bool was_hit;			/* a server has ended what it did for this client */
	bool troubled;			/* an unplanned failure happened: later requests may fail */
	bool was_told, leaves, is_bad;	/* was told the reason of its end; will disconnect; has sent an invalid message */
	uint32_t pid;
	uint8_t key[256];
	size_t key_size;
	/* its login */
	usec_t began;
	bool is_elsewhere;		/* asks for a database that there isn't */
	int generation;			/* of the password that it proves; -1: a wrong one */
	struct prover prover;
	bool is_in;
	uint16_t version;		/* 0 or 2: of the protocol, 3.x */
	bool wants_negotiation;
	const char *replication;	/* NULL: no replication connection */
	int cancels;			/* under way */
	bool was_cancelled;		/* a cancel request was sent since its last quiet moment */
	int64_t quits_after;		/* bytes; -1: does not */
	usec_t deaf_until, asked_at;
	struct bytes out;
	size_t data_begins;		/* in `out`: the data of the last COPY IN */
	struct bytes come;		/* the beginning of a message */
	struct sight sight;		/* in a world with roles */
};

/* Begins the login: the start-up packet. */
void client_send_startup(struct guest *c);
/* A message of the login. */
void client_login_message(struct guest *c, char type, const uint8_t *body, uint32_t size);
/* Draws the client's user and proof before its first message; and frees them. */
void client_login_begin(struct guest *c);
void client_login_end(struct guest *c);

/* Asks for something, or leaves. Its queue is empty. */
void client_work(struct guest *c);
/* Sends the data of a COPY; `inner` (0 ... ask->a): and a Sync in front of this message of it, -1: none. */
void client_copy_data(struct guest *c, const struct ask *ask, uint32_t serial, int inner);
/* Reports to the walsender that streams, or says that it is done with it. */
void client_report(struct guest *c, struct want *w, bool is_done);
/* Sends Terminate. */
void client_send_terminate(struct guest *c);

/* ---- messages of a job: client_send.c ---- */

/* Sends a Query of `count` requests; the data of a COPY IN follows, from c->data_begins on. */
void client_send_query(struct guest *c, const struct ask *asks, int count);
void client_send_parse(struct guest *c, int name, const struct ask *ask);
void client_send_bind(struct guest *c, int name, const struct ask *ask, int portal);
/* Close or Describe ('C', 'D'); of a statement or portal ('S', 'P'). */
void client_send_named(struct guest *c, char type, char what, int name, const struct ask *ask, int portal);
/* `rows`: at most this number. */
void client_send_execute(struct guest *c, int portal, uint32_t rows);
void client_send_sync(struct guest *c);
void client_send_flush(struct guest *c);
void client_send_call(struct guest *c, const struct ask *ask);
struct named *client_planned_statement(struct guest *c, int name);

/* ---- and client_portals.c, of client_work.c ---- */

bool client_may_hold(const struct guest *c);
void client_ask_portals(struct guest *c);
struct ask client_draw_rows(struct guest *c);

/* A message after login. */
void client_judge(struct guest *c, char type, const uint8_t *body, uint32_t size);
/* The pooler has closed the connection in the middle of a message, or not. */
void client_judge_end(struct guest *c, bool between_messages);
/* Field of an ErrorResponse, or "". */
const char *client_error_field(const uint8_t *body, uint32_t size, char field);

static inline struct want *client_first_want(struct guest *c)
{
	return c->want_count > 0 ? &c->wants[c->first_want] : NULL;
}

#endif
