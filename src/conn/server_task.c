/*
 * The pooler's own query that a server is executing (tbl/server_task.tbl).
 *
 * Invariant: one at a time, and in a state of the server that the table names.
 */
#include "conn/server_task.h"

#include "base/assert.h"
#include "base/mem.h"
#include "conn/world.h"

#define S(id) (1u << SERVER_##id)
static const struct {
	const char *shown, *words;
	unsigned states;
} rows[SERVER_TASKS] = {
#define SERVER_TASK(id, shown, words, states) [TASK_##id] = { shown, words, states },
#include "tbl/server_task.tbl"
#undef SERVER_TASK
};
#undef S

void server_task_to(struct server *s, enum server_task task)
{
	ASSERT((unsigned)task < SERVER_TASKS && (s->task == TASK_NONE) != (task == TASK_NONE));
	s->task = task;
	if (task == TASK_NONE)
		return;
	s->task_failed = false;
	mem_free(s->task_words);
	s->task_words = NULL;
	s->task_since = s->peer.world->now;
}

const char *server_task_name(enum server_task task)
{
	ASSERT((unsigned)task < SERVER_TASKS);
	return rows[task].shown;
}

const char *server_task_words(enum server_task task)
{
	ASSERT((unsigned)task < SERVER_TASKS);
	return rows[task].words;
}

bool server_task_fits(enum server_task task, enum server_state state)
{
	ASSERT((unsigned)task < SERVER_TASKS && (unsigned)state < SERVER_STATES);
	return rows[task].states & 1u << state;
}
