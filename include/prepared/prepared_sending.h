#ifndef PREPARED_PREPARED_SENDING_H
#define PREPARED_PREPARED_SENDING_H

#include "pg/statement_sql.h"
#include "prepared/prepared_tables.h"

/*
 * A message of the client's on its way to the server, for the files that decide what becomes of it: prepared.c, prepared_named.c, prepared_sql.c and
 * prepared_unnamed.c.
 */

/* A message on its way. */
struct sending {
	struct client *c;
	struct server *s;
	const struct pg_frame *f;
	struct gather *g;
	size_t *skip;
	struct prepared_client *mine;
	struct prepared_server *has;
};

struct sql_plan;

/* ---- prepared_sending.c ---- */

struct world *sending_world(const struct sending *x);
/* The place of the statements of its client: see statements_new_place(). */
uint64_t sending_place(const struct sending *x);
/* Counters of its client's database. */
struct stats *sending_stats(const struct sending *x);
/* It goes on as it is; entered in the ledger as the client's. The text of a Parse is not looked at: it may set a role. */
enum prepared_verdict sending_unchanged(const struct sending *x);
/* A Parse goes on as it is, where statements of clients are not kept. */
enum prepared_verdict sending_not_kept(const struct sending *x, const struct statement_use *use);
/* Writes PG_HEADER bytes: the type, and the length of a message with a body of `rest` bytes. */
void sending_write_header(uint8_t *to, uint8_t type, size_t rest);
/* Gathers a Close, a Describe, or the beginning of a Parse, of the pooler's: header and the server's name that has this end. The rest of
   a Parse, `more` bytes, follows. */
void sending_head(const struct sending *x, uint8_t type, const char *end, size_t end_size, size_t more);
/* Gathers the frame with the server's name that has this end in place of the client's. */
void sending_renamed(const struct sending *x, const struct statement_use *use, const char *end, size_t end_size);
/* Enters it in ledger and journal. False: no memory. */
bool sending_entered(const struct sending *x, uint8_t type, enum ledger_owner owner, enum prepared_what what,
			  struct prepared_name *name, struct statement *st);
/* It does not go on: the pooler answers it in its place. */
enum prepared_verdict sending_local_reply(const struct sending *x, enum prepared_what what,
			  struct prepared_name *name, struct statement *st);
/* What is under way is to be answered first. The server may keep its answers to itself until it is asked for them, and the client's Sync
   is behind this: so it is asked here. */
enum prepared_verdict sending_wait_for_answers(const struct sending *x);
/* DEALLOCATE ALL or DISCARD ALL may be under way: what the client has by a name is known when all is answered. */
bool sending_names_may_go(const struct sending *x);
/* An earlier batch may be a COPY that fails. Then only the server knows which answers belong to which batch, and the client gets all of them: pgweir
   adds no message of its own. */
bool sending_is_after_copy(const struct sending *x);
/* Changed in a batch before this one, and not answered: the change may not happen. */
bool sending_name_in_doubt(const struct sending *x, const struct prepared_name *n);
bool sending_entry_in_doubt(const struct sending *x, const struct prepared_entry *e);
/* The server has it, or will have it by the time it reads what is sent now. */
bool entry_is_there(const struct prepared_entry *e);
/* Its name is free on the server, and there is room for it: what is in the way is closed. False: no memory. */
bool sending_make_way(const struct sending *x, struct prepared_entry *e, const struct statement *st);
/* Gathers a Parse of the statement, with a text as planned (NULL: as it is). */
void sending_parse(const struct sending *x, const struct statement *st, const struct sql_plan *plan);
/* Describes a statement on the server, on the pooler's account, behind its Parse. False: no memory. */
bool sending_describe(const struct sending *x, struct prepared_name *n, struct statement *st, bool alone);
/* A Describe of no statement goes in place of the message; its error becomes that of a statement of which the result has changed its type. */
enum prepared_verdict sending_changed(const struct sending *x, struct prepared_name *n);
/* Parses a statement on the server, on the pooler's account. False: no memory. */
bool sending_replay(const struct sending *x, struct prepared_name *n, struct statement *st, const struct sql_plan *plan);

/* ---- prepared_named.c ---- */

/* A Parse, Close, or Bind or Describe of a statement with a name. */
enum prepared_verdict named_parse(const struct sending *x, const struct statement_use *use);
enum prepared_verdict named_close(const struct sending *x, const struct statement_use *use);
enum prepared_verdict named_use(const struct sending *x, const struct statement_use *use);
/* The client has not prepared this name by the protocol; it may have done so by PREPARE. */
bool named_may_be_of_sql(const struct sending *x, const struct statement_use *use);

/* The statement that a name, which stands for something, stands for on this server; the name moves to it. NULL: no memory. To be dropped. */
struct statement *named_statement(const struct sending *x, struct prepared_name *name);

/* ---- prepared_unnamed.c ---- */

/* The server's unnamed statement is the last one of this client. */
bool unnamed_is_at_hand(const struct client *c, const struct server *s);
/* A message that uses or changes the unnamed statement. */
enum prepared_verdict unnamed_send(const struct sending *x);

/* ---- prepared_sql.c ---- */

/* What has to be sent ahead of SQL that names statements, and in its place. */
struct sql_plan {
	unsigned count;
	struct sql_name names[SQL_NAMES_MOST];
};
/* The text of a Query (alone), a Parse, or of a statement that is to be parsed again. PREPARED_PASS: what it names has been gathered, and the
   text is to be sent by sql_add; PREPARED_MORE: it names nothing of its client's, and goes as it is; else PREPARED_WAIT, PREPARED_NO_MEMORY. */
enum prepared_verdict sql_plan(const struct sending *x, struct sql_plan *plan, const uint8_t *text, size_t size, bool alone);
/* Gathers the `size` bytes that begin with that text, with the names of the server in it; and how many bytes more these are. */
void sql_add(const struct sending *x, const struct sql_plan *plan, const uint8_t *text, size_t size);
size_t sql_growth(const struct sending *x, const struct sql_plan *plan);
/* The client's last SQL was this statement (by its number; 0: the unnamed one), and what its names stand for is so still. */
bool sql_is_ready(const struct sending *x, uint64_t statement);

#endif
