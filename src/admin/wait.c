/*
 * Waiting commands: PAUSE, KILL, SUSPEND and WAIT_CLOSE are answered when a condition on other connections holds. Each
 * condition is checked once a turn, which also finds out that it cannot be reached any more (a RESUME from another console, a
 * RELOAD that removed the database). Therefore no event handler has to report anything.
 *
 * A cancel request ("Canceling Requests in Progress") ends a wait, and resumes the pools that the command has paused: a PAUSE
 * that was given up because a session does not end must not block other clients.
 *
 * Invariant: wait.kind is not WAIT_FOR_NOTHING exactly while the caller is WAITING.
 */
#include "admin/caller.h"

#include "base/mem.h"

bool wait_begin(struct caller *caller, enum wait_kind kind, const char *database, const char *verb)
{
	char *name = mem_copy_string(database);

	if (database && !name)
		return false;
	caller->wait = (struct wait){
		.kind = kind, .database = name, .since = caller->console->world->now, .verb = verb,
	};
	caller_become(caller, CONSOLE_WAITING);
	return true;
}

void wait_forget(struct caller *caller)
{
	mem_free(caller->wait.database);
	caller->wait = (struct wait){ .kind = WAIT_FOR_NOTHING };
}

static enum wait_verdict suspend_check(struct world *world, const struct wait *wait)
{
	usec_t most = world->conf->settings.suspend_timeout;

	if (!world->pools->suspended)
		return WAIT_RESUMED;
	if (most > 0 && world->now - wait->since >= most)
		world_drop_unflushed(world);
	return world_is_flushed(world) ? WAIT_OVER : WAIT_LASTS;
}

enum wait_verdict wait_check(const struct caller *caller)
{
	const struct wait *wait = &caller->wait;
	struct world *world = caller->console->world;
	const struct pools *pools = world->pools;
	const struct database *database = NULL;
	bool is_over = true;

	if (caller->client->console_state == CONSOLE_SENDING)
		return stream_unsent(&caller->client->peer.stream) == 0 ? WAIT_OVER : WAIT_LASTS;
	if (wait->is_cancelled)
		return WAIT_CANCELLED;
	if (wait->database) {
		database = database_find(world->pools, wait->database);
		if (!database)
			return WAIT_DATABASE_GONE;
	}
	switch (wait->kind) {
	case WAIT_FOR_PAUSE:
		if (database ? !database->paused : !pools->paused)
			return WAIT_RESUMED;
		is_over = pools_is_without_servers(pools, database);
		break;
	case WAIT_FOR_CLOSE:
		is_over = pools_is_without_close_needed(pools, database);
		break;
	case WAIT_FOR_SUSPEND:
		return suspend_check(world, wait);
	case WAIT_FOR_NOTHING:
		break;
	}
	return is_over ? WAIT_OVER : WAIT_LASTS;
}

bool wait_cancel(struct caller *caller)
{
	if (caller->wait.kind == WAIT_FOR_NOTHING)
		return false;
	caller->wait.is_cancelled = true;
	return true;
}

bool wait_take_back(const struct caller *caller)
{
	const struct wait *wait = &caller->wait;
	struct world *world = caller->console->world;
	struct pools *pools = world->pools;
	struct database *database = wait->database ? database_find(pools, wait->database) : NULL;
	bool is_suspend = wait->kind == WAIT_FOR_SUSPEND;
	bool is_paused = wait->database ? database && database->paused : is_suspend ? pools->suspended : pools->paused;

	/* another console client may have resumed or paused in the same turn */
	if (!wait->has_begun || !is_paused)
		return false;
	if (is_suspend)
		world_suspend(world, false);
	pools_pause(pools, database, false);
	return true;
}
