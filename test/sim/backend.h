#ifndef SIM_BACKEND_H
#define SIM_BACKEND_H

#include "ask.h"
#include "base/list.h"
#include "machine.h"
#include "pg/scram.h"

/*
 * A fake server, shared by backend.c (its life), backend_login.c, backend_say.c (messages of its session), backend_work.c (requests of clients),
 * backend_own.c (requests of the pooler) and backend_stream.c (replication).
 */

#define PARAMETERS 5
#define PORTALS_MOST 4
#define KEY_MOST 256

enum backend_phase { PHASE_STARTUP, PHASE_PASSWORD, PHASE_READY, PHASE_CANCEL, PHASE_DEAF };

struct statement {
	struct list node;
	struct ask ask;
	char name[64];
};

struct portal {
	bool is_bound;
	char name[32];
	struct ask ask;
	uint32_t client, serial;	/* the client that has bound it */
	uint32_t row;			/* the next one */
};

/* The pooler's own messages in a batch, and the outcome of a look-up (backend_own.c). */
enum own { OWN_NOT, OWN_RESET, OWN_PATH, OWN_LOOKUP, OWN_QUESTION, OWN_ROLLBACK };
enum lie {
	LIE_NONE, LIE_NO_ROW, LIE_OTHER_NAME, LIE_NO_SECRET, LIE_GARBAGE, LIE_NO_NAME, LIE_TWO_ROWS, LIE_ERROR, LIE_ONE_COLUMN, LIE_LONG,
	LIES
};

struct backend {
	struct list node;
	struct actor actor;
	struct wire *wire;
	int host;
	enum backend_phase phase;
	char database[32], user[32];
	char values[PARAMETERS][64], start_values[PARAMETERS][64];
	uint32_t pid;
	uint8_t key[KEY_MOST];
	size_t key_size;
	uint8_t minor;			/* of the protocol, as it is spoken */
	uint8_t salt[4];
	struct scram_verifier scram;
	bool asks_scram, asks_md5;
	usec_t asked_at;
	char tx;
	bool open, skipping;		/* extended messages since the last Sync; passing over to it */
	bool copies, copies_simply;	/* reads COPY data, for a Query */
	struct ask copy;
	uint32_t copy_client, copy_serial, copy_next;
	struct list statements;
	struct portal portals[PORTALS_MOST];	/* the first is the unnamed one */
	enum own own;			/* the statement of the pooler's own batch that was prepared last */
	enum lie lie;
	char looked_up[64];
	uint8_t types[16];		/* of OWN_QUESTION, as they came */
	bool sleeps, cancelled;
	usec_t until;
	struct bytes out;
	size_t may_send;		/* of `out`: the rest is not flushed yet */
	int64_t dies_after;		/* bytes; -1: does not */
	uint32_t client;		/* the client that it works or last worked for; 0: none yet */
	uint32_t role;			/* the client that sent the ASK_ROLE in force; 0: none is */
	bool batch_is_known;		/* the client of the open batch is known: a text that all share does not name it */
	bool was_reset, has_worked;	/* since it is with this client; at all */
	bool has_session;		/* the client has it in session mode */
	char replication[16];		/* as it was asked for at the start; "": an ordinary session */
	bool streams, stream_ended;	/* WAL, in answer to `copy`; and has said all of it */
	uint32_t stream_row;
	/* in a world with roles: */
	bool says_standby;		/* the last reported in_hot_standby */
	bool watches, has_answered;	/* the watcher has asked; its question was answered ... */
	uint64_t answered_in;		/* ... in this era of the host */
	bool answered_sanely;
	/* the beginning of the link that was last used while no primary could be compared */
	usec_t free_since;
};

extern const char *const backend_parameter_names[PARAMETERS];

/* ---- backend.c ---- */

/* A server is asked to cancel. */
void backend_cancel(uint32_t pid, const uint8_t *key, size_t key_size);
/* Returns true if the host accepts no logins at the moment, with the FATAL error to send (*state NULL: silence). */
bool backend_is_shut(const struct backend *b, const char **state, const char **text);

/* ---- backend_login.c ---- */

void backend_startup(struct backend *b, const uint8_t *at, uint32_t size);
void backend_password(struct backend *b, const uint8_t *body, uint32_t size);

/* ---- backend_say.c ---- */

void backend_flush(struct backend *b);
void backend_ready(struct backend *b);
void backend_error(struct backend *b, const char *state, uint32_t client, uint32_t serial);
/* A message without a body. */
void backend_say(struct backend *b, char type);
/* Asynchronous messages. */
void backend_send_async_messages(struct backend *b);
void backend_columns(struct backend *b, const struct ask *ask);
/* One row, message of COPY or result of a function: its text, its client, its number, and the state of the session. */
void backend_row(struct backend *b, char type, const struct ask *ask, uint32_t client, uint32_t serial, uint32_t row);
/* CopyInResponse (G), CopyOutResponse (H), CopyBothResponse (W). */
void backend_copy_begin(struct backend *b, char type);
/* -1: none that is reported. */
int backend_parameter(const char *name);
void backend_set(struct backend *b, int i, const char *value, bool tell);
/* Says FATAL, and nothing more. */
void backend_refuse(struct backend *b, const char *state, const char *text);

/* ---- backend_work.c ---- */

/* False: it sleeps over this message and will come back to it. */
bool backend_message(struct backend *b, char type, const uint8_t *body, uint32_t size);
/* A client sends a request: if the previous request came from another client, the session must be clean. */
void backend_work_for(struct backend *b, uint32_t client);
void backend_forget(struct backend *b, const char *statement);
void backend_forget_all(struct backend *b);
void backend_drop_portals(struct backend *b);
/* An extended message fails: on to the next Sync. */
void backend_fail(struct backend *b, const char *state, uint32_t client, uint32_t serial);
/* True: it has fallen asleep. */
bool backend_sleeps_first(struct backend *b, uint32_t milliseconds);

/* ---- backend_own.c ---- */

void backend_own_query(struct backend *b, const char *sql);
void backend_own_parse(struct backend *b, const char *name, const char *sql);
void backend_own_bind(struct backend *b, const uint8_t *parameters);
void backend_own_describe(struct backend *b);
/* A Parse of the question that a server is asked which is left; it is. */
bool backend_own_question(const uint8_t *body, uint32_t size);
void backend_own_is_left(struct backend *b, const uint8_t *body, uint32_t size);
/* False: it sleeps over it. */
bool backend_own_execute(struct backend *b, uint32_t rows);

/* ---- backend_stream.c ---- */

/* A walsender begins to stream, gets a message meanwhile, has some time. */
void stream_begin(struct backend *b, const struct ask *ask);
void stream_message(struct backend *b, char type, const uint8_t *body, uint32_t size);
void stream_go_on(struct backend *b);

#endif
