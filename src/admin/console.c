/*
 * The interface of the console to room session: welcome, messages and end of a client; and once a turn, the waiting commands.
 *
 * A client may end within any call that runs a command or sends (KILL_CLIENT of itself, a broken socket), while its caller is
 * in use on the stack. Therefore the end only marks the client, and the reap removes and frees the caller.
 *
 * Invariant: console->callers has exactly the console clients that got their welcome and have not ended.
 */
#include "admin/console.h"

#include "admin/caller.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <string.h>

static struct caller *find_caller(struct console *console, const struct client *client)
{
	struct caller *caller;

	HASH_FIND_PTR(console->callers, &client, caller);
	return caller;
}

static void on_welcome(void *context, struct client *client)
{
	struct caller *caller = caller_new(context, client);
	const char *name, *value;
	bool in_welcome;

	if (!caller) {
		client_end(client, REASON_NO_MEMORY, NULL);
		return;
	}
	for (size_t i = 0; console_param(i, &name, &value, &in_welcome); i++)
		if (in_welcome)
			pg_build_parameter_status(&caller->out, name, value);
	pg_build_backend_key(&caller->out, client->cancel_pid, client->cancel_key,
			     client->cancel_key_size);
	pg_build_ready(&caller->out, 'I');
	caller_flush(caller);
}

/* The body of a Query is one string that ends where the body ends. */
static void on_query(struct caller *caller, const uint8_t *body, size_t size)
{
	if (size == 0 || memchr(body, 0, size) != body + size - 1) {
		client_end(caller->client, REASON_BAD_PACKET, NULL);
		return;
	}
	extended_end_transaction(caller);
	caller_query(caller, (struct sql_span){ (const char *)body, size - 1 }, false);
}

static void on_function_call(struct caller *caller)
{
	caller_refuse(caller, CONSOLE_ERROR_FUNCTION_CALL, NULL, NULL, NULL);
	pg_build_ready(&caller->out, 'I');
	caller_flush(caller);
}

static void dispatch(struct caller *caller, uint8_t type, const uint8_t *body, size_t size)
{
	struct client *client = caller->client;

	switch (type) {
	case 'Q':
		on_query(caller, body, size);
		return;
	case 'P': case 'B': case 'D': case 'E': case 'C': case 'S': case 'H':
		if (!extended_message(caller, type, body, size))
			client_end(client, REASON_BAD_PACKET, NULL);
		return;
	case 'F':
		on_function_call(caller);
		return;
	case 'X':
		client_end(client, REASON_CLIENT_CLOSE, NULL);
		return;
	case 'c': case 'd': case 'f':
		return;		/* part of a failed COPY; PostgreSQL ignores it too */
	default:
		client_end(client, REASON_BAD_PACKET, NULL);
	}
}

static void on_message(void *context, struct client *client, uint8_t type, const uint8_t *body, size_t size)
{
	struct caller *caller = find_caller(context, client);

	ASSERT(caller && client->console_state == CONSOLE_READY);
	if (caller->skips && type != 'S' && type != 'X')
		return;
	caller_become(caller, CONSOLE_RUNNING);
	dispatch(caller, type, body, size);
	caller_settle(caller);
}

static void on_go_on(void *context, struct client *client)
{
	struct caller *caller = find_caller(context, client);

	if (caller && client->console_state == CONSOLE_CONTINUING)
		caller_go_on(caller, WAIT_OVER);
}

static void on_closed(void *context, struct client *client)
{
	struct console *console = context;
	struct caller *caller = find_caller(console, client);

	if (!caller)
		return;		/* it ended before its welcome */
	HASH_DEL(console->callers, caller);
	caller_free(caller);
}

static bool is_at_rest(void *context, const struct client *client)
{
	const struct caller *caller = find_caller(context, client);

	return caller && client->console_state == CONSOLE_READY && !caller->skips && bytes_size(&caller->out) == 0 &&
	       caller->held.count == 0;
}

static bool on_adopt(void *context, struct client *client)
{
	return caller_new(context, client) != NULL;
}

/* The turn sends the answer, as after every wait. */
static bool on_cancel(void *context, struct client *client)
{
	struct caller *caller = find_caller(context, client);

	return caller && wait_cancel(caller);
}

static const struct console_ops ops = {
	.message = on_message,
	.go_on = on_go_on,
	.closed = on_closed,
	.welcome = on_welcome,
	.is_at_rest = is_at_rest,
	.adopt = on_adopt,
	.cancel = on_cancel,
};

struct console *console_new(struct world *world, const struct control *control)
{
	struct console *console = mem_try(sizeof(*console));

	if (!console)
		return NULL;
	console->world = world;
	console->control = *control;
	list_init(&console->waiting);
	world->console = &ops;
	world->console_context = console;
	return console;
}

void console_free(struct console **console)
{
	struct console *c = *console;
	struct caller *caller, *next;

	if (!c)
		return;
	c->world->console = NULL;
	c->world->console_context = NULL;
	HASH_ITER(hh, c->callers, caller, next) {
		HASH_DEL(c->callers, caller);
		caller_free(caller);
	}
	mem_free(c);
	*console = NULL;
}

/* The client of the SUSPEND may have lost its connection, and only a RESUME would end the suspension. */
static void end_orphaned_suspend(struct console *console)
{
	if (!console->world->pools->suspended || console->callers)
		return;
	log_info("admin disappeared when suspended, doing RESUME");
	console_resume_all(console);
}

void console_turn(struct console *console)
{
	struct list round, *node;

	end_orphaned_suspend(console);
	if (list_is_empty(&console->waiting))
		return;
	/* Answering a caller may begin or end the wait of another one: each caller that waits now is checked once. */
	list_init(&round);
	while ((node = list_first(&console->waiting)) != NULL) {
		list_remove(node);
		list_append(&round, node);
	}
	while ((node = list_first(&round)) != NULL) {
		struct caller *caller = LIST_OBJECT(node, struct caller, node);
		enum wait_verdict verdict;

		list_remove(node);
		list_append(&console->waiting, node);
		verdict = wait_check(caller);
		if (verdict != WAIT_LASTS && !caller_is_gone(caller))
			caller_go_on(caller, verdict);
	}
}

void console_pause_all(struct console *console)
{
	struct pools *pools = console->world->pools;

	if (!pools_is_paused(pools, NULL))
		pools_pause(pools, NULL, true);
}

void console_resume_all(struct console *console)
{
	struct world *world = console->world;

	if (world->pools->suspended)
		world_suspend(world, false);
	if (pools_is_paused(world->pools, NULL))
		pools_pause(world->pools, NULL, false);
}

/* ---- errors ---- */

/*
 * The table of the console's errors. Call sites contain no texts, so scripts can rely on the texts of one table, and a test can
 * provoke every row.
 */

#define DETAIL_MOST 200

static const struct {
	const char *sqlstate, *text;
} rows[CONSOLE_ERRORS] = {
#define CONSOLE_ERROR(id, sqlstate, text) [CONSOLE_ERROR_##id] = { sqlstate, text },
#include "tbl/console_error.tbl"
#undef CONSOLE_ERROR
};

const char *console_error_sqlstate(enum console_error why)
{
	ASSERT((unsigned)why < CONSOLE_ERRORS);
	return rows[why].sqlstate;
}

static void append_detail(struct bytes *out, const char *detail)
{
	size_t size = detail ? strlen(detail) : 0;

	if (size <= DETAIL_MOST) {
		bytes_append(out, detail, size);
		return;
	}
	size = DETAIL_MOST;
	while (size > 0 && ((unsigned char)detail[size] & 0xc0) == 0x80)
		size--;
	bytes_append(out, detail, size);
	bytes_append_text(out, "...");
}

void console_error_text(enum console_error why, const char *first, const char *second, struct bytes *out)
{
	const char *details[] = { first, second }, *at, *place;
	size_t used = 0;

	ASSERT((unsigned)why < CONSOLE_ERRORS);
	for (at = rows[why].text; (place = strstr(at, "%s")) != NULL; at = place + 2) {
		ASSERT(used < 2);
		bytes_append(out, at, (size_t)(place - at));
		append_detail(out, details[used++]);
	}
	bytes_append_string(out, at);
}
