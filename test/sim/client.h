#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "ask.h"
#include "machine.h"

/* A fake client, as client.c (its life), client_work.c (what it asks) and client_judge.c (what it is answered) share it. */

#define NAMES 6				/* names that a client has for prepared statements */
#define WANTS_MOST 256			/* answers that it may wait for at a time */

/* A message that it has sent and that is to be answered. */
struct want {
	char type;			/* of the message: Q P B D E C S */
	char what;			/* Describe and Close: S or P */
	struct ask asks[3];		/* Query: its statements; Parse, Bind: of the statement */
	int count, at;			/* of them; the one that is being answered */
	uint32_t serial;		/* of the question */
	uint32_t row;			/* the next one */
	uint32_t most;			/* Execute: rows; 0: all */
	int name;			/* of the statement; -1: unnamed */
	bool began, ended;		/* its first answer has come; COPY: its last row */
	bool is_eager;			/* COPY IN: the data is on its way already */
	bool is_inner;			/* a Sync among the data of the COPY before it, in front of message `row` ... */
	bool is_void;			/* ... which was read as part of that: no answer */
};

struct named {
	bool is_there;
	struct ask ask;
};

/* What a session is like after all that was answered, or after all that was sent. */
struct view {
	char tx;
	struct named names[NAMES];
	struct named unnamed;
};

enum client_phase { CLIENT_AWAY, CLIENT_TLS, CLIENT_LOGIN, CLIENT_HERE };

struct guest {
	struct actor actor;
	struct wire *wire;
	enum client_phase phase;
	uint32_t number, serial;
	int database, user;
	char believed[64];		/* application_name, as it was told */
	struct view now, planned;
	bool plan_skips;		/* what is planned up to the next Sync will not be done */
	struct want wants[WANTS_MOST];
	int first_want, want_count;
	struct ask bound;		/* the portal, after what was answered */
	uint32_t bound_serial, bound_row;
	uint32_t shown_serial;		/* the portal, after what was sent */
	struct ask shown;
	bool is_open;			/* it owes a Sync */
	bool troubled;			/* something failed that it had not planned: what follows may fail */
	bool was_told, leaves, is_bad;	/* heard why it ends; goes by itself; has sent what is nothing */
	uint32_t pid, key;
	int cancels;			/* under way */
	bool was_cancelled;		/* one was under way since its last quiet moment */
	int64_t quits_after;		/* bytes; -1: does not */
	usec_t deaf_until, asked_at;
	struct bytes out;
	size_t data_begins;		/* in `out`: that of the last COPY IN */
	struct bytes come;		/* the beginning of a message */
};

/* Asks for something, or leaves. Its queue is empty. */
void client_work(struct guest *c);
/* Sends the data of a COPY; `inner` (0 ... ask->a): and a Sync in front of this message of it, -1: none. */
void client_copy_data(struct guest *c, const struct ask *ask, uint32_t serial, int inner);
/* Leaves politely. */
void client_say_goodbye(struct guest *c);

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
