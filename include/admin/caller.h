#ifndef ADMIN_CALLER_H
#define ADMIN_CALLER_H

#include "admin/command.h"
#include "admin/console.h"
#include "admin/held.h"
#include "admin/refusal.h"

/*
 * A caller is a client of the console: what it has asked, what it is owed, and what its command
 * waits for. This header is shared by the files of the admin room; the others see admin/console.h.
 */
struct console {
	struct world *world;
	struct control control;
	struct caller *callers;		/* uthash by client */
	struct list waiting;		/* those that are WAITING or SENDING */
};

enum wait_kind {
	WAIT_NOTHING,
	WAIT_PAUSED,			/* PAUSE, KILL: no server connection is left */
	WAIT_SUSPENDED,			/* SUSPEND: every buffer is flushed */
	WAIT_CLOSED			/* WAIT_CLOSE: no server connection is marked any more */
};

enum wait_verdict {
	WAIT_LASTS,
	WAIT_OVER,
	WAIT_RESUMED,			/* another caller has undone what was to come true */
	WAIT_CANCELLED,			/* the caller does not want it any more */
	WAIT_DATABASE_GONE
};

struct wait {
	enum wait_kind kind;
	char *database;			/* by name: it may be gone before the wait is over; NULL: all */
	usec_t since;			/* monotonic */
	const char *verb;		/* also the tag that is owed */
	bool has_begun;			/* what is paused has not been before: a cancel request takes it back */
	bool is_cancelled;
};

struct caller {
	struct client *client;
	struct console *console;
	UT_hash_handle hh;
	struct list node;		/* console->waiting */
	bool in_query;			/* a Query is unanswered: its rest comes, and ReadyForQuery */
	bool skips;			/* an extended message failed: nothing counts until Sync */
	struct bytes out;		/* not yet sent */
	struct bytes rest;		/* Query: statements behind the one that waits */
	struct command command;		/* Query: the statement that is being answered; row NULL: none */
	struct result answer;		/* ... its rows */
	struct portal *portal;		/* extended.c: an Execute of it is being answered; NULL: none */
	uint32_t portal_most;		/* ... by so many rows more; 0: all */
	struct result *result;		/* where the command that runs puts its rows */
	struct wait wait;
	struct held held;		/* extended.c: statements and portals */
};

/* Its client is ending: nothing may be sent to it any more. The caller is freed by the reap. */
static inline bool caller_is_gone(const struct caller *caller) { return peer_is_stopped(&caller->client->peer); }

enum outcome {
	COMMAND_DONE,			/* its rows are in the result; the tag is the caller's to add */
	COMMAND_GOES_ON,		/* some of its rows are; caller_run_on() gives more */
	COMMAND_FAILED,			/* the ErrorResponse is in caller->out */
	COMMAND_WAITS			/* caller->wait says for what */
};

/* Bytes that end in a NUL, as a string; NULL when there was no memory for them. */
static inline const char *bytes_text(const struct bytes *b)
{
	return b->failed ? NULL : (const char *)bytes_front(b);
}

/* caller.c */
/* The only writer of client->console_state. What is WAITING or SENDING is looked at in each turn (console_turn), and what is
   CONTINUING goes on with the next one. */
void caller_become(struct caller *caller, enum console_state state);
const char *console_state_name(enum console_state state);
bool console_state_may_become(enum console_state from, enum console_state to);
struct caller *caller_new(struct console *console, struct client *client);	/* NULL: no memory */
void caller_free(struct caller *caller);
/* Appends the ErrorResponse; logs it. Returns COMMAND_FAILED. `detail` is the field of this
   name; all three may be NULL. */
enum outcome caller_refuse(struct caller *caller, enum refusal why, const char *first, const char *second,
			   const char *detail);
/* Sends what is in `out`. False: the client is gone. */
bool caller_flush(struct caller *caller);
/* The refusal of a statement that does not parse. */
enum outcome caller_refuse_invalid(struct caller *caller, struct sql_span statement);
/* "PAUSE 'shop' command issued (C-0x5: ...)", in PgBouncer's words: not for SHOW, nor where the form or the moment forbids the
   command. */
void caller_log_command(const struct caller *caller, const struct command *command);
/* Runs a command, when the caller may. `result` has been begun with the command's columns. */
enum outcome caller_run(struct caller *caller, const struct command *command, struct result *result);
enum outcome caller_run_on(struct caller *caller, const struct command *command, struct result *result);
/* Sends; the answer goes on in a later turn. */
void caller_answer_later(struct caller *caller);
/* Sends, and when the caller is slow to read makes it SENDING, so that nothing more is produced:
   true then, or when it is gone. */
bool caller_must_rest(struct caller *caller);
/* A Query message: every statement of the text, or of caller->rest with is_rest. */
void caller_query(struct caller *caller, struct sql_span text, bool is_rest);
/* The caller is RUNNING: ready for its next message, unless the one before has left something to do. True: it is ready. */
bool caller_settle(struct caller *caller);
/* What the caller waited for has come (verdict is not WAIT_LASTS), or it is its turn: answers and goes on. */
void caller_go_on(struct caller *caller, enum wait_verdict verdict);

/* wait.c */
/* The caller's command waits from now on. False: no memory. */
bool wait_begin(struct caller *caller, enum wait_kind kind, const char *database, const char *verb);
void wait_forget(struct caller *caller);
/* Clients may end, also the caller's own: suspend_timeout drops those that do not take what they are sent. */
enum wait_verdict wait_check(const struct caller *caller);
/* A cancel request for the caller: wait_check says so from now on. False: its command does not wait, or for something that comes
   in any case. */
bool wait_cancel(struct caller *caller);
/* The command has failed: what it has paused goes on. True: it was paused, and goes on now. */
bool wait_take_back(const struct caller *caller);

/* verbs.c: the verb of this row. The caller may run it and its argument has the right form. */
enum outcome verb_run(struct caller *caller, const struct command *command);

/* extended.c */
/* A message of the extended protocol: P B D E C S H. False: its body is broken. */
bool extended_message(struct caller *caller, uint8_t type, const uint8_t *body, size_t size);
/* Goes on with the Execute of caller->portal. */
void extended_go_on(struct caller *caller);
/* Portals end with the transaction, that is with Sync or Query. */
void extended_end_transaction(struct caller *caller);

#endif
