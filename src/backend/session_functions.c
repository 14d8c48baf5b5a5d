/*
 * Functions of a pool's database that change the state of the session (pg/state_functions.h): when they are read, and by which server.
 *
 * A server that has just been lent reads them before the client's first message goes there: the first of a pool, the first after a
 * command that has changed definitions, and once in EVERY besides, because functions are made by connections as well that
 * pgweir does not see. In the first two cases each client waits until they are known, in the last case one client does.
 *
 * Where they cannot be read (by PostgreSQL before 11, or without memory), the log says so, and what was known before counts on.
 */
#include "backend/session_functions.h"

#include "backend/task.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"

#define EVERY (60 * USEC)

struct functions_question {
	struct state_functions *found;
	unsigned changes;		/* info->functions_changes when it began */
};

/* The next question. False: there is none; or the server has ended. */
static bool send_question(struct server *s, const struct server_info *info)
{
	struct bytes sql = BYTES_EMPTY;
	bool asks = state_functions_ask(s->functions->found, info->functions, &sql);

	bytes_append_u8(&sql, 0);
	if (sql.failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	else if (asks)
		server_run(s, TASK_FUNCTIONS, (const char *)bytes_front(&sql));
	bytes_free(&sql);
	return asks && !peer_is_stopped(&s->peer);
}

void session_functions_ask(struct server *s)
{
	struct world *w = s->peer.world;
	struct server_info *info = server_info_get(s->policy.pool, w->params);

	ASSERT(!s->functions && s->policy.link);
	s->functions = info ? mem_try(sizeof(*s->functions)) : NULL;
	if (s->functions)
		s->functions->found = state_functions_new();
	if (!s->functions || !s->functions->found) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	s->functions->changes = info->functions_changes;
	/* it is known what there was a while ago: others need not wait */
	if (info->functions && info->functions_due > 0)
		info->functions_due = w->now + EVERY;
	send_question(s, info);
}

void session_functions_row(struct server *s, const struct pg_frame *row)
{
	if (s->functions)
		state_functions_row(s->functions->found, row);
}

static void log_count(const struct pool *pool, const struct state_functions *functions, size_t before)
{
	size_t count = state_functions_count(functions);
	char name[POOL_TEXT];

	if (count != before)
		log_info("%s: functions of the database that change the session: %zu", pool_text(pool, name, sizeof(name)), count);
	if (state_functions_are_incomplete(functions))
		log_warning("%s: the database has more functions that change the session than can be kept", pool_text(pool, name, sizeof(name)));
}

static void forget(struct server *s)
{
	state_functions_free(&s->functions->found);
	mem_free(s->functions);
	s->functions = NULL;
}

/* They are those of the database now. */
static void take_over(struct server *s, struct server_info *info)
{
	size_t before = info->functions ? state_functions_count(info->functions) : 0;

	state_functions_free(&info->functions);
	info->functions = s->functions->found;
	info->functions_readings++;
	info->functions_in_use = state_functions_count(info->functions) > 0 ? info->functions : NULL;
	s->functions->found = NULL;
	log_count(s->policy.pool, info->functions, before);
}

bool session_functions_learn(struct server *s)
{
	struct world *w = s->peer.world;
	struct server_info *info = server_info_get(s->policy.pool, w->params);
	char name[POOL_TEXT];

	/* asked in another process, or before a RELOAD that leads elsewhere */
	if (!s->functions || !info)
		return false;
	if (!s->task_failed && !state_functions_are_same(s->functions->found, info->functions)) {
		if (send_question(s, info) || peer_is_stopped(&s->peer))
			return true;
		if (state_functions_close(s->functions->found))
			take_over(s, info);
		else
			log_warning("%s: out of memory: functions of the database are not known", pool_text(s->policy.pool, name, sizeof(name)));
	}
	/* unless a command has changed them since */
	if (s->functions->changes == info->functions_changes)
		info->functions_due = w->now + EVERY;
	forget(s);
	return false;
}

void session_functions_forget(struct server *s)
{
	struct server_info *info = s->policy.pool->session;

	if (!s->functions)
		return;
	forget(s);
	if (info)
		info->functions_due = 0;
}

void session_functions_changed(struct database *d)
{
	LIST_EACH(node, &d->members) {
		struct server_info *info = LIST_OBJECT(node, struct pool, of_database)->session;

		if (!info)
			continue;
		info->functions_due = 0;
		info->functions_changes++;
	}
}
