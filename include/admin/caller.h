#ifndef ADMIN_CALLER_H
#define ADMIN_CALLER_H

#include "admin/command.h"
#include "admin/console.h"
#include "base/list.h"
#include "base/bytes.h"
#include "base/state.h"

/* The errors of the console. Each row of include/tbl/console_error.tbl has the SQLSTATE and the
   text. */
enum console_error {
#define CONSOLE_ERROR(id, sqlstate, text) CONSOLE_ERROR_##id,
#include "tbl/console_error.tbl"
#undef CONSOLE_ERROR
	CONSOLE_ERRORS
};


/*
 * The prepared statements and portals of one caller. Their number and size are limited.
 */
struct held {
	struct list statements, portals;
	size_t count, bytes;		/* the number and total size of both */
};


/*
 * A caller is a client of the console: its statements, its unsent answers, and the condition that
 * its command waits for. This header is shared by the files of room admin; other rooms use
 * admin/console.h.
 */
struct console {
	struct world *world;
	struct control control;
	struct caller *callers;		/* uthash by client */
	struct list waiting;		/* callers that are WAITING or SENDING */
};

enum wait_kind {
	WAIT_FOR_NOTHING,
	WAIT_FOR_PAUSE,			/* PAUSE, KILL: until no server connection is left */
	WAIT_FOR_SUSPEND,			/* SUSPEND: until every buffer is flushed */
	/* WAIT_CLOSE: until no server connection is marked for closing */
	WAIT_FOR_CLOSE
};

enum wait_verdict {
	WAIT_LASTS,
	WAIT_OVER,
	WAIT_RESUMED,			/* another caller has resumed */
	WAIT_CANCELLED,			/* a cancel request for the caller has arrived */
	WAIT_DATABASE_GONE
};

struct wait {
	enum wait_kind kind;
	/* by name, because it may be removed while the caller waits; NULL: all */
	char *database;
	usec_t since;			/* monotonic */
	const char *verb;		/* also the command tag of the answer */
	/* the command has paused pools itself: a cancel request resumes these */
	bool has_begun;
	bool is_cancelled;
};

struct caller {
	struct client *client;
	struct console *console;
	UT_hash_handle hh;
	struct list node;		/* in console->waiting */
	/* a Query is in progress: the rest of its answer and ReadyForQuery follow */
	bool in_query;
	/* an extended message failed: messages are skipped until Sync */
	bool skips;
	struct bytes out;		/* unsent bytes */
	struct bytes rest;		/* Query: the statements after the waiting one */
	struct command command;		/* Query: the current statement; row NULL: none */
	struct result answer;		/* ... and its rows */
	/* extended.c: the portal of the current Execute; NULL: none */
	struct portal *portal;
	uint32_t portal_most;		/* ... and its row limit; 0: unlimited */
	struct result *result;		/* the rows of the current command */
	struct wait wait;
	struct held held;		/* extended.c: prepared statements and portals */
};

/* Whether the client is ending: then nothing may be sent to it, and the reap frees the caller. */
static inline bool caller_is_gone(const struct caller *caller)
{
	return peer_is_stopped(&caller->client->peer);
}

enum outcome {
	OUTCOME_DONE,			/* the rows are complete; the caller adds the tag */
	OUTCOME_GOES_ON,		/* some rows are available; verb_run() produces more */
	OUTCOME_FAILED,			/* the ErrorResponse is in caller->out */
	OUTCOME_WAITS			/* caller->wait has the condition */
};

/* Returns bytes that end in a NUL as a string, or NULL if there was no memory. */
static inline const char *bytes_text(const struct bytes *b)
{
	return b->failed ? NULL : (const char *)bytes_front(b);
}

/* console.c */
/* Appends and logs the ErrorResponse. Returns OUTCOME_FAILED. `first` and `second` replace %s in
   the text, `detail` is the DETAIL field; each may be NULL. */
enum outcome caller_refuse(struct caller *caller, enum console_error why, const char *first,
			   const char *second, const char *detail);
/* Sends `out`. False: the client has ended. */
bool caller_flush(struct caller *caller);
/* Refuses a malformed statement. */
enum outcome caller_refuse_invalid(struct caller *caller, struct sql_span statement);
/* Initialises the result of a command with its columns. */
void caller_begin_result(const struct caller *caller, const struct command *command,
			 struct result *result);
/* Waits, unless the condition holds already. `has_begun`: the command has paused a pool that was
   not paused before. */
enum outcome caller_wait(struct caller *caller, enum wait_kind kind, const struct command *command,
			 bool has_begun);
/* Sends; the rest of the answer follows in a later turn. */
void caller_answer_later(struct caller *caller);

/* verbs.c: checks that the caller may run the command (`is_first`), and runs it; or produces more
   rows (OUTCOME_GOES_ON). Writes the rows to `result`, which is initialised. The form of the
   argument has been checked. */
enum outcome verb_run(struct caller *caller, const struct command *command, struct result *result,
		      bool is_first);

/* extended.c */
/* Handles a message of the extended protocol: P B D E C S H. False: its body is malformed. */
bool extended_message(struct caller *caller, uint8_t type, const uint8_t *body, size_t size);
/* Continues the Execute of caller->portal. */
void extended_continue(struct caller *caller);
/* Closes all portals: the transaction ends with Sync or Query. `also_statements`: and all
   statements. */
void extended_end(struct caller *caller, bool also_statements);

#endif
