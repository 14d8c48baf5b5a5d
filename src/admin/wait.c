/*
 * What commands wait for. PAUSE, KILL, SUSPEND, WAIT_CLOSE and SHUTDOWN answer when something has
 * come true that other connections bring about. Nobody has to remember to call back: once a turn
 * each wait looks at the world, which also shows that somebody else has put an end to it (a RESUME
 * from another console, a RELOAD that removed the database), so that no command waits for what
 * can't come.
 *
 * Invariant: a caller is on console->waiting exactly while its wait.kind is not WAIT_NOTHING, and
 * its client is console_busy then.
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
	caller->client->console_busy = true;
	list_append(&caller->console->waiting, &caller->node);
	return true;
}

void wait_end(struct caller *caller)
{
	list_remove(&caller->node);
	mem_free(caller->wait.database);
	caller->wait = (struct wait){ .kind = WAIT_NOTHING };
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

	if (wait->database) {
		database = database_find(world->pools, wait->database);
		if (!database)
			return WAIT_DATABASE_GONE;
	}
	switch (wait->kind) {
	case WAIT_PAUSED:
		if (database ? !database->paused : !pools->paused)
			return WAIT_RESUMED;
		is_over = pools_is_without_servers(pools, database);
		break;
	case WAIT_CLOSED:
		is_over = pools_is_without_close_needed(pools, database);
		break;
	case WAIT_SUSPENDED:
		return suspend_check(world, wait);
	case WAIT_OUTPUT:
		is_over = stream_unsent(&caller->client->peer.stream) == 0;
		break;
	case WAIT_SHUTDOWN:
		is_over = false;
		break;
	case WAIT_NOTHING:
		break;
	}
	return is_over ? WAIT_OVER : WAIT_LASTS;
}
