/*
 * Functions of a database that change the state of the session (sql/state_functions.h): when they
 * are read, and by which server.
 *
 * A newly assigned server reads them before the client's first message is sent to it. This is the
 * first server of a database, the first server after a command that has changed functions, and one
 * server in each period EVERY, because connections that do not use pgweir create functions, too.
 * One server of the database reads at a time; clients of other servers continue meanwhile.
 *
 * While the functions are not known (never read, changed since the last reading, or not readable
 * within the time that state_functions.c allows), each text is unproven (session_state.c). The
 * isolation of clients therefore does not depend on the time of a reading, but state that such a
 * text sets may be lost for its own client (doc/sessions.md, Limits). When a reading finds a
 * change, each server is reset before its next client. Readings have a rate: if a client changes
 * functions in a loop, the other clients of its database wait for RATE_BURST readings, and then for
 * one reading in each RATE.
 */
#include "state/session_functions.h"
#include "state/session_state.h"

#include "state/server_session.h"
#include "state/task.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"

#define EVERY (60 * USEC)
/* the query has a limit of time, which a busy server may have exceeded */
#define AFTER_FAILURE (5 * USEC)
#define RATE USEC
#define RATE_BURST 8

struct functions_question {
	struct state_functions *found;
	struct database_functions *of;
	unsigned changes;		/* of->changes when it began */
};

/* Sends the query of the next round, if there is one; the server may end. */
static enum state_functions_round functions_send_question(struct server *s)
{
	struct bytes sql = BYTES_EMPTY;
	enum state_functions_round round = state_functions_ask(s->session.functions->found,
							       s->session.functions->of->all, &sql);

	if (round == STATE_FUNCTIONS_NEXT)
		server_run_and_free(s, &task_functions, &sql);
	return round;
}

/* Returns the functions of the pool's database, which all pools of the database share, and makes
   them on first use. NULL: no memory. */
static struct database_functions *functions_of(struct pool *pool, struct server_info *info)
{
	if (info->functions)
		return info->functions;
	LIST_EACH(node, &pool->database->members) {
		struct pool *other = LIST_OBJECT(node, struct pool, of_database);
		struct server_info *theirs = other->server_info;

		if (theirs && theirs->functions && theirs->generation == other->generation)
			info->functions = theirs->functions;
	}
	if (!info->functions && (info->functions = mem_try(sizeof(*info->functions))) != NULL)
		info->functions->tokens = RATE_BURST;
	if (info->functions)
		info->functions->pools++;
	return info->functions;
}

/* Returns when the next reading may begin; 0: at once. */
static usec_t next_reading(struct database_functions *f, usec_t now)
{
	int64_t fresh = (now - f->tokens_at) / RATE;

	if (fresh > 0) {
		f->tokens = fresh > RATE_BURST - f->tokens ? RATE_BURST : f->tokens + (int)fresh;
		f->tokens_at = now;
	}
	return f->tokens > 0 ? 0 : f->tokens_at + RATE;
}

void session_functions_ask(struct server *s)
{
	struct world *w = s->peer.world;
	struct server_info *info = server_info_get(s->pooled.pool, w->params);
	struct database_functions *known = info ? functions_of(s->pooled.pool, info) : NULL;

	ASSERT(!s->session.functions && s->pooled.link);
	s->session.functions = known ? mem_try(sizeof(*s->session.functions)) : NULL;
	if (s->session.functions) {
		*s->session.functions = (struct functions_question){ .found = state_functions_new(),
								     .of = known,
								     .changes = known->changes };
		known->pools++;
	}
	if (!s->session.functions || !s->session.functions->found) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	next_reading(known, w->now);
	known->tokens -= known->tokens > 0;
	known->reading_since = w->now;
	known->due = w->now + EVERY;
	functions_send_question(s);
}

static void functions_row(struct server *s, const struct pg_frame *row)
{
	if (s->session.functions)
		state_functions_row(s->session.functions->found, row);
}

static void functions_forget(struct server *s)
{
	s->session.functions->of->reading_since = 0;
	database_functions_drop(&s->session.functions->of);
	state_functions_free(&s->session.functions->found);
	mem_free(s->session.functions);
	s->session.functions = NULL;
}

/* The functions of the database have changed: the clients of its busy servers may have called
   functions that are not known, so each of these sessions is in doubt. */
static void doubt_busy_servers(struct database *d)
{
	LIST_EACH(node, &d->members) {
		LIST_EACH (of_pool,
			   &LIST_OBJECT(node, struct pool, of_database)->servers[SERVER_ACTIVE]) {
			struct server *s = server_of(
				LIST_OBJECT(of_pool, struct pool_server, node));
			const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

			if (c && c->link_facts.keeps_state)
				server_note_tainted(s, c->peer.id);
		}
		/* clients that have left may have sent such calls, too */
		LIST_EACH (of_pool,
			   &LIST_OBJECT(node, struct pool, of_database)->servers[SERVER_FINISHING])
			server_note_stale(
				server_of(LIST_OBJECT(of_pool, struct pool_server, node)));
	}
}

/* A reading has found a change. Texts that were examined with the earlier reading may have called
   newer functions of other connections, for example with the name of a built-in function. Therefore
   every session is reset before its next client. */
static void doubt_all_servers(struct database *d)
{
	static const enum server_state unused[] = { SERVER_IDLE, SERVER_USED };

	doubt_busy_servers(d);
	LIST_EACH(node, &d->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]) && pool_keeps_state(pool);
		     i++)
			LIST_EACH_SAFE(of_pool, &pool->servers[unused[i]]) {
				struct server *s = server_of(
					LIST_OBJECT(of_pool, struct pool_server, node));

				server_note_stale(s);
				if (s->pooled.close_reason == REASON_STATE_STAYS)
					server_end(s, REASON_STATE_STAYS, NULL);
			}
	}
}

/* The answer is complete and replaces the known functions of the database. */
static void take_over(struct server *s, struct database_functions *known)
{
	bool is_first = !known->all;
	size_t before = known->all ? state_functions_summary(known->all).count : 0;
	struct state_functions_summary found = state_functions_summary(s->session.functions->found);
	char name[POOL_TEXT];

	state_functions_free(&known->all);
	known->all = s->session.functions->found;
	known->readings++;
	known->hash = found.hash;
	known->in_use = found.changes_something ? known->all : NULL;
	s->session.functions->found = NULL;
	pool_text(s->pooled.pool, name, sizeof(name));
	if (!is_first) {
		doubt_all_servers(s->pooled.pool->database);
		/* the client of this server has executed nothing in this link */
		if (s->session.stale & STALE_FUNCTIONS)
			server_note_stale(s);
	}
	if (found.count != before)
		log_info("%s: functions of the database that change the session: %zu", name,
			 found.count);
	if (found.is_incomplete)
		log_warning("%s: the database has more functions that change the session than can "
			    "be kept",
			    name);
}

/* The answer is complete. True: the next query has been sent, or the server has ended. */
static bool functions_learn(struct server *s)
{
	struct database_functions *known = s->session.functions ? s->session.functions->of : NULL;
	enum state_functions_round round = STATE_FUNCTIONS_SAME;
	bool failed = s->task_failed;
	char name[POOL_TEXT];

	/* another process has sent the query */
	if (!known)
		return false;
	if (!failed)
		round = functions_send_question(s);
	if (round == STATE_FUNCTIONS_NEXT)
		return true;
	if (round == STATE_FUNCTIONS_COMPLETE)
		take_over(s, known);
	failed |= round == STATE_FUNCTIONS_NO_MEMORY;
	if (failed)
		log_warning("%s: functions of the database are not known: its server connections "
			    "are reset between clients",
			    pool_text(s->pooled.pool, name, sizeof(name)));
	if (failed && known->due > s->peer.world->now + AFTER_FAILURE)
		known->due = s->peer.world->now + AFTER_FAILURE;
	known->are_known = !failed && s->session.functions->changes == known->changes;
	functions_forget(s);
	return false;
}

void session_functions_forget(struct server *s)
{
	if (!s->session.functions)
		return;
	s->session.functions->of->due = next_reading(s->session.functions->of, s->peer.world->now);
	functions_forget(s);
}

/* At the beginning of a link the server gets the client's parameters next, unless a command has
   changed functions meanwhile. Later in a link it has these parameters. */
static enum task_end functions_done(struct server *s, bool failed)
{
	bool begins = s->session.stale & STALE_FUNCTIONS;

	(void)failed;
	if (!s->pooled.link) {
		session_functions_forget(s);
		return TASK_END_RELEASE;
	}
	if (functions_learn(s))
		return TASK_END_NOTHING;
	if (!session_functions_are_due(s->pooled.pool, s->peer.world->now))
		session_set_known(s, STALE_FUNCTIONS);
	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return TASK_END_NOTHING;
	}
	session_note_prepared(s, client_of(s->pooled.link));
	return begins ? TASK_END_RESTORE : TASK_END_RESUME;
}

const struct server_task task_functions = {
	.name = "functions",
	.description = "asking for the functions of the database",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
	.reads_rows = true,
	.ends_alone = true,
	.on_row = functions_row,
	.on_done = functions_done,
};

void session_functions_changed(struct database *d, usec_t now)
{
	LIST_EACH(node, &d->members) {
		struct server_info *info =
			LIST_OBJECT(node, struct pool, of_database)->server_info;

		if (!info || !info->functions)
			continue;
		info->functions->are_known = false;
		info->functions->due = next_reading(info->functions, now);
		info->functions->changes++;
	}
	/* these clients may call the new functions, also with messages that the servers have
	   already */
	doubt_busy_servers(d);
}
