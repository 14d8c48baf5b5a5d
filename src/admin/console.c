/*
 * The console: its callers, which are the clients of the databases "pgbouncer" and "pgweir"; the
 * simple protocol; the interface to room core; and once a turn, the waiting commands. The functions
 * that both protocols share are here too: errors, running commands, sending.
 *
 * A Query may contain several statements. The first that fails ends it, as in PostgreSQL; if a
 * statement waits, the rest of the text is kept. To leave time for other clients, one turn runs at
 * most STATEMENTS_MOST statements; the next turn continues. The output is limited: while more than
 * OUTPUT_MOST bytes are unsent, the next statement does not run.
 *
 * A client may end within any call that runs a command or sends (KILL_CLIENT of itself, a broken
 * socket), while its caller is in use on the stack. Therefore the end only marks the client
 * (caller_is_gone), and the reap removes and frees the caller.
 *
 * Invariant: console->callers has exactly the console clients that got their welcome and have not
 * ended. After a call from outside, the `out` of a caller is empty or belongs to an extended
 * exchange that has not reached its Sync or Flush.
 */
#include "admin/console.h"

#include "admin/caller.h"
#include "admin/result_wire.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "show/show.h"

#include <string.h>

#define OUTPUT_MOST ((size_t)1024 * 1024)
#define STATEMENTS_MOST 4		/* statements of one Query per turn */

/* ---- errors ---- */

/*
 * The table of the console's errors. Call sites contain no texts, so scripts can rely on the texts
 * of one table, and a test can provoke every row.
 */

#define DETAIL_MOST 200

static const struct {
	const char *sqlstate, *text;
} errors[CONSOLE_ERRORS] = {
#define CONSOLE_ERROR(id, sqlstate, text) [CONSOLE_ERROR_##id] = { sqlstate, text },
#include "tbl/console_error.tbl"
#undef CONSOLE_ERROR
};

/* Appends the text and a NUL, with the details (NULL: "") in place of %s; the log and the client
   get at most DETAIL_MOST bytes of a detail. Returns the text. */
static const char *error_text(enum console_error why, const char *first, const char *second,
			      struct bytes *out)
{
	const char *details[] = { first ? first : "", second ? second : "" }, *at, *place;
	size_t used = 0, size;

	ASSERT((unsigned)why < CONSOLE_ERRORS);
	for (at = errors[why].text; (place = strstr(at, "%s")) != NULL; at = place + 2) {
		ASSERT(used < 2);
		bytes_append(out, at, (size_t)(place - at));
		size = strlen(details[used]);
		if (size > DETAIL_MOST)
			/* not within a character */
			for (size = DETAIL_MOST;
			     size > 0 && ((unsigned char)details[used][size] & 0xc0) == 0x80;
			     size--)
				;
		bytes_append(out, details[used], size);
		bytes_append_text(out, details[used][size] ? "..." : "");
		used++;
	}
	bytes_append_string(out, at);
	return bytes_text(out) ? bytes_text(out) : "out of memory";
}

/* ---- the state of a caller ---- */

#define C(id) (1u << CONSOLE_##id)
static const struct state_row states[CONSOLE_STATES] = {
#define CONSOLE_STATE(id, name, moves) [CONSOLE_##id] = { moves, name },
#include "tbl/console_state.tbl"
#undef CONSOLE_STATE
};
#undef C

/* The only writer of client->console.state. console_turn checks callers that are WAITING or SENDING
   in each turn, and callers that are CONTINUING continue in the next turn. */
static void caller_become(struct caller *caller, enum console_state state)
{
	struct client *client = caller->client;

	client->console.state = state_move(states, CONSOLE_STATES, client->console.state, state);
	list_remove(&caller->node);
	if (state == CONSOLE_WAITING || state == CONSOLE_SENDING)
		list_append(&caller->console->waiting, &caller->node);
	if (state == CONSOLE_CONTINUING)
		peer_come_again(&client->peer);
}

/* ---- waiting commands ---- */

/*
 * Waiting commands: PAUSE, KILL, SUSPEND and WAIT_CLOSE are answered when a condition on other
 * connections holds. Each condition is checked once a turn, which also finds out that it cannot be
 * reached any more (a RESUME from another console, a RELOAD that removed the database). Therefore
 * no event handler has to report anything.
 *
 * A cancel request ("Canceling Requests in Progress") ends a wait, and resumes the pools that the
 * command has paused: a PAUSE that was given up because a session does not end must not block other
 * clients.
 *
 * Invariant: wait.kind is not WAIT_FOR_NOTHING exactly while the caller is WAITING.
 */

static void wait_forget(struct caller *caller)
{
	mem_free(caller->wait.database);
	caller->wait = (struct wait){ .kind = WAIT_FOR_NOTHING };
}

/* Checks the condition. Clients may end, also the caller's client: suspend_timeout closes clients
   that do not read. */
static enum wait_verdict wait_check(const struct caller *caller)
{
	const struct wait *wait = &caller->wait;
	struct world *world = caller->console->world;
	const struct pools *pools = world->pools;
	const struct database *database = NULL;
	usec_t most = world->conf->settings.suspend_timeout;
	bool is_over = true;

	if (caller->client->console.state == CONSOLE_SENDING)
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
		is_over = pools_is_without_servers(pools, database, false);
		break;
	case WAIT_FOR_CLOSE:
		is_over = pools_is_without_servers(pools, database, true);
		break;
	case WAIT_FOR_SUSPEND:
		if (!pools->suspended)
			return WAIT_RESUMED;
		is_over = world_unflushed(world, most > 0 && world->now - wait->since >= most) == 0;
		break;
	case WAIT_FOR_NOTHING:
		break;
	}
	return is_over ? WAIT_OVER : WAIT_LASTS;
}

/* The command has failed: resumes the pools that it has paused. Returns whether there were any. */
static bool wait_take_back(const struct caller *caller)
{
	const struct wait *wait = &caller->wait;
	struct world *world = caller->console->world;
	struct pools *pools = world->pools;
	struct database *database = wait->database ? database_find(pools, wait->database) : NULL;
	bool is_suspend = wait->kind == WAIT_FOR_SUSPEND;
	bool is_paused = wait->database ? database && database->paused
			 : is_suspend	? pools->suspended
					: pools->paused;

	/* another console client may have resumed or paused in the same turn */
	if (!wait->has_begun || !is_paused)
		return false;
	if (is_suspend)
		world_suspend(world, false);
	pools_pause(pools, database, false);
	return true;
}

enum outcome caller_wait(struct caller *caller, enum wait_kind kind, const struct command *command,
			 bool has_begun)
{
	char *name = mem_copy_string(command->name);

	if (command->name && !name)
		return caller_refuse(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL, NULL);
	caller->wait = (struct wait){
		.kind = kind,
		.database = name,
		.since = caller->console->world->now,
		.verb = command->row->verb,
		.has_begun = has_begun,
	};
	caller_become(caller, CONSOLE_WAITING);
	if (wait_check(caller) == WAIT_LASTS)
		return OUTCOME_WAITS;
	wait_forget(caller);
	caller_become(caller, CONSOLE_RUNNING);
	return OUTCOME_DONE;
}

/* ---- callers ---- */

static void close_statement(struct caller *caller)
{
	command_free(&caller->command);
	result_free(&caller->answer);
}

static struct caller *caller_new(struct console *console, struct client *client)
{
	struct caller *caller = mem_try(sizeof(*caller));

	if (!caller)
		return NULL;
	caller->client = client;
	caller->console = console;
	list_init(&caller->node);
	list_init(&caller->held.statements);
	list_init(&caller->held.portals);
	HASH_ADD_PTR(console->callers, client, caller);
	if (HASH_HAS(hh, caller))
		return caller;
	mem_free(caller);
	return NULL;
}

static void caller_free(struct caller *caller)
{
	list_remove(&caller->node);
	wait_forget(caller);
	extended_end(caller, true);
	close_statement(caller);
	bytes_free(&caller->out);
	bytes_free(&caller->rest);
	mem_free(caller);
}

static void log_refusal(const struct caller *caller, const char *message)
{
	char who[256], shown[PRINTABLE_TEXT];

	printable_text(message, shown, sizeof(shown));
	log_error("%s", shown);
	if (caller->console->world->conf->settings.log_pooler_errors)
		log_warning("%s pooler error: %s", client_text(caller->client, who, sizeof(who)),
			    shown);
}

enum outcome caller_refuse(struct caller *caller, enum console_error why, const char *first,
			   const char *second, const char *detail)
{
	struct bytes text = BYTES_EMPTY;
	const char *message = error_text(why, first, second, &text);

	pg_build_report(&caller->out, 'E', "ERROR", errors[why].sqlstate, message, detail, NULL);
	log_refusal(caller, message);
	bytes_free(&text);
	return OUTCOME_FAILED;
}

bool caller_flush(struct caller *caller)
{
	if (caller_is_gone(caller))
		return false;
	if (bytes_size(&caller->out) == 0 && !caller->out.failed)
		return true;
	if (!client_send(caller->client, &caller->out))
		return false;
	bytes_wipe(&caller->out);
	return !caller_is_gone(caller);
}

/* Sends. If bytes remain unsent, the caller becomes SENDING, so that no more rows are produced.
   Returns true in this case, and if the client has ended. */
static bool caller_must_rest(struct caller *caller)
{
	if (bytes_size(&caller->out) + stream_unsent(&caller->client->peer.stream) <= OUTPUT_MOST)
		return false;
	if (!caller_flush(caller))
		return true;
	if (stream_unsent(&caller->client->peer.stream) == 0)
		return false;
	caller_become(caller, CONSOLE_SENDING);
	return true;
}

void caller_begin_result(const struct caller *caller, const struct command *command,
			 struct result *result)
{
	static const char *const explained[] = { "CLIENT STATE:text" };
	const char *const *columns = command->id == COMMAND_EXPLAIN && command->row
					     ? explained
					     : command->parameter;
	size_t count = columns ? 1 : 0;

	if (command->show) {
		columns = command->show->columns;
		count = caller->console->world->conf->settings.show_extra_columns
				? command->show->all_columns
				: command->show->standard_columns;
	}
	result_init(result, &result_wire, columns, count);
}

void caller_answer_later(struct caller *caller)
{
	if (caller_must_rest(caller))
		return;
	caller_become(caller, CONSOLE_CONTINUING);
	caller_flush(caller);
}

/* ---- the simple protocol ---- */

enum outcome caller_refuse_invalid(struct caller *caller, struct sql_span statement)
{
	struct bytes text = BYTES_EMPTY, told = BYTES_EMPTY, logged = BYTES_EMPTY;
	char place[COMMAND_HINT], brief[COMMAND_BRIEF];
	const char *hint = command_explain(statement, place, brief);

	bytes_append(&text, statement.at, statement.size);
	bytes_append_u8(&text, 0);
	pg_build_report(&caller->out, 'E', "ERROR", errors[CONSOLE_ERROR_INVALID].sqlstate,
			error_text(CONSOLE_ERROR_INVALID, bytes_text(&text), NULL, &told), NULL,
			hint);
	/* the log gets less, because the statement may contain a secret */
	log_refusal(caller, error_text(CONSOLE_ERROR_INVALID, brief, NULL, &logged));
	bytes_free(&text);
	bytes_free(&told);
	bytes_free(&logged);
	return OUTCOME_FAILED;
}

/* Sends rows of the open statement, and the tag after the last row. */
static void give_rows(struct caller *caller, enum outcome outcome)
{
	if (outcome == OUTCOME_DONE || outcome == OUTCOME_GOES_ON)
		result_give(&caller->answer, 0, &caller->out);
	if (outcome == OUTCOME_DONE)
		pg_build_string(&caller->out, 'C', caller->command.row->verb);
	if (outcome != OUTCOME_GOES_ON)
		close_statement(caller);
}

static enum outcome run_statement(struct caller *caller, struct sql_span statement)
{
	enum outcome outcome;

	switch (command_parse(statement, &caller->command)) {
	case COMMAND_PARSE_OK:
		caller_begin_result(caller, &caller->command, &caller->answer);
		outcome = verb_run(caller, &caller->command, &caller->answer, true);
		if (caller->answer.column_count > 0 &&
		    (outcome == OUTCOME_DONE || outcome == OUTCOME_GOES_ON))
			result_describe(&caller->answer, &caller->out);
		give_rows(caller, outcome);
		return outcome;
	case COMMAND_PARSE_INVALID:
		caller_refuse_invalid(caller, statement);
		break;
	case COMMAND_PARSE_NO_MEMORY:
		caller_refuse(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL, NULL);
		break;
	}
	close_statement(caller);
	return OUTCOME_FAILED;
}

static void finish_query(struct caller *caller)
{
	pg_build(&caller->out, 'Z', "I", 1);
	bytes_free(&caller->rest);
	caller->in_query = false;
	caller_flush(caller);
}

/* Whether the Query continues in a later turn, or the client has ended. */
static bool postpone_rest(struct caller *caller, enum outcome outcome)
{
	if (outcome == OUTCOME_GOES_ON)
		caller_answer_later(caller);
	return outcome == OUTCOME_GOES_ON || outcome == OUTCOME_WAITS || caller_must_rest(caller);
}

/* Runs every statement of a Query message; with is_rest, the statements of caller->rest. */
static void caller_query(struct caller *caller, struct sql_span text, bool is_rest)
{
	const char *end = text.at + text.size;
	struct sql_span statement;
	int count = 0;

	caller->in_query = true;
	while (sql_next_statement(&text, &statement)) {
		enum outcome outcome = OUTCOME_GOES_ON;
		struct bytes rest = BYTES_EMPTY;

		if (count++ == STATEMENTS_MOST)
			text = (struct sql_span){ statement.at, (size_t)(end - statement.at) };
		else
			outcome = run_statement(caller, statement);
		if (caller_is_gone(caller))
			return;
		if (outcome == OUTCOME_FAILED)
			break;
		if (!postpone_rest(caller, outcome))
			continue;
		if (caller_is_gone(caller))
			return;
		/* Keep the statements that remain to be run, and send `out`. */
		bytes_append(&rest, text.at, text.size);
		bytes_free(&caller->rest);
		caller->rest = rest;
		if (!rest.failed) {
			caller_flush(caller);
			return;
		}
		/* The Query ends here. */
		close_statement(caller);
		wait_forget(caller);
		caller_become(caller, CONSOLE_RUNNING);
		caller_refuse(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL, NULL);
		break;
	}
	if (count == 0 && !is_rest)
		pg_end(&caller->out, pg_begin(&caller->out, 'I'));
	finish_query(caller);
}

/* ---- continuing in a later turn ---- */

/* Called while the caller is RUNNING: makes it READY for its next message, unless the previous one
   is not complete. Returns whether it is READY. */
static bool caller_settle(struct caller *caller)
{
	if (caller_is_gone(caller) || caller->client->console.state != CONSOLE_RUNNING ||
	    caller_must_rest(caller))
		return false;
	caller_become(caller, CONSOLE_READY);
	return true;
}

/* Continues a caller after its wait is over (verdict is not WAIT_LASTS), or in a later turn. */
static void caller_continue(struct caller *caller, enum wait_verdict verdict)
{
	bool is_good = verdict == WAIT_OVER, is_postponed = false;
	struct bytes rest = BYTES_EMPTY;
	enum outcome outcome;

	switch (verdict) {
	case WAIT_RESUMED:
		caller_refuse(caller, CONSOLE_ERROR_RESUMED, caller->wait.verb, NULL, NULL);
		break;
	case WAIT_CANCELLED:
		caller_refuse(caller, CONSOLE_ERROR_CANCELLED, NULL, NULL,
			      wait_take_back(caller) ? "What it had paused goes on." : NULL);
		break;
	case WAIT_DATABASE_GONE:
		caller_refuse(caller, CONSOLE_ERROR_NO_DATABASE, caller->wait.database, NULL, NULL);
		break;
	case WAIT_LASTS:
	case WAIT_OVER:
		if (caller->wait.verb)
			pg_build_string(&caller->out, 'C', caller->wait.verb);
		break;
	}
	wait_forget(caller);
	caller_become(caller, CONSOLE_RUNNING);
	if (caller->in_query) {
		/* the rows of the open statement, then the rest of the text */
		if (caller->command.row) {
			outcome = verb_run(caller, &caller->command, &caller->answer, false);
			give_rows(caller, outcome);
			is_postponed = postpone_rest(caller, outcome);
		}
		if (!is_postponed) {
			rest = caller->rest;
			caller->rest = (struct bytes)BYTES_EMPTY;
			if (is_good && bytes_size(&rest) > 0)
				caller_query(
					caller,
					(struct sql_span){ bytes_text(&rest), bytes_size(&rest) },
					true);
			else
				finish_query(caller);
			bytes_free(&rest);
		}
	} else if (caller->portal) {
		extended_continue(caller);
	} else {
		caller->skips |= !is_good;
		caller_flush(caller);
	}
	if (!caller_settle(caller))
		return;
	/* its next messages are read */
	flow_unblock(&caller->client->peer, FLOW_HELD);
	peer_come_again(&caller->client->peer);
}

/* ---- the interface to room core ---- */

static struct caller *find_caller(struct console *console, const struct client *client)
{
	struct caller *caller;

	HASH_FIND_PTR(console->callers, &client, caller);
	return caller;
}

static void on_welcome(void *context, struct client *client)
{
	struct caller *caller = caller_new(context, client);

	if (!caller) {
		client_end(client, REASON_NO_MEMORY, NULL);
		return;
	}
	for (const struct console_param *p = console_params; p->name; p++)
		if (p->in_welcome)
			pg_build_parameter_status(&caller->out, p->name, p->value);
	pg_build_key(&caller->out, 'K', client->cancel_key.pid, client->cancel_key.secret,
			     client->cancel_key.size);
	pg_build(&caller->out, 'Z', "I", 1);
	caller_flush(caller);
}

static void on_console_message(void *context, struct client *client, uint8_t type,
			       const uint8_t *body, size_t size)
{
	struct caller *caller = find_caller(context, client);

	ASSERT(caller && client->console.state == CONSOLE_READY);
	if (caller->skips && type != 'S' && type != 'X')
		return;
	caller_become(caller, CONSOLE_RUNNING);
	switch (type) {
	case 'Q':
		/* the body is one string that ends where the body ends */
		if (size == 0 || memchr(body, 0, size) != body + size - 1) {
			client_end(client, REASON_BAD_PACKET, NULL);
			break;
		}
		extended_end(caller, false);
		caller_query(caller, (struct sql_span){ (const char *)body, size - 1 }, false);
		break;
	case 'P': case 'B': case 'D': case 'E': case 'C': case 'S': case 'H':
		if (!extended_message(caller, type, body, size))
			client_end(client, REASON_BAD_PACKET, NULL);
		break;
	case 'F':
		caller_refuse(caller, CONSOLE_ERROR_FUNCTION_CALL, NULL, NULL, NULL);
		pg_build(&caller->out, 'Z', "I", 1);
		caller_flush(caller);
		break;
	case 'X':
		client_end(client, REASON_CLIENT_CLOSE, NULL);
		break;
	case 'c': case 'd': case 'f':
		break;		/* part of a failed COPY; PostgreSQL ignores it too */
	default:
		client_end(client, REASON_BAD_PACKET, NULL);
	}
	caller_settle(caller);
}

static void on_go_on(void *context, struct client *client)
{
	struct caller *caller = find_caller(context, client);

	if (caller && client->console.state == CONSOLE_CONTINUING)
		caller_continue(caller, WAIT_OVER);
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

	return caller && client->console.state == CONSOLE_READY && !caller->skips &&
	       bytes_size(&caller->out) == 0 && caller->held.count == 0;
}

/* wait_check returns WAIT_CANCELLED from now on, and the turn sends the answer. False: the command
   does not wait. */
static bool on_cancel(void *context, struct client *client)
{
	struct caller *caller = find_caller(context, client);

	if (!caller || caller->wait.kind == WAIT_FOR_NOTHING)
		return false;
	caller->wait.is_cancelled = true;
	return true;
}

static bool on_adopt(void *context, struct client *client)
{
	return caller_new(context, client) != NULL;
}

static const struct console_ops ops = {
	.message = on_console_message,
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
	world->console.ops = &ops;
	world->console.context = console;
	return console;
}

void console_free(struct console **console)
{
	struct console *c = *console;
	struct caller *caller, *next;

	if (!c)
		return;
	c->world->console.ops = NULL;
	c->world->console.context = NULL;
	HASH_ITER(hh, c->callers, caller, next) {
		HASH_DEL(c->callers, caller);
		caller_free(caller);
	}
	mem_free(c);
	*console = NULL;
}

void console_turn(struct console *console)
{
	struct list round, *node;

	/* The client of the SUSPEND may have lost its connection, and only a RESUME would end the
	   suspension. */
	if (console->world->pools->suspended && !console->callers) {
		log_info("admin disappeared when suspended, doing RESUME");
		console_pause_all(console, false);
	}
	if (list_is_empty(&console->waiting))
		return;
	/* Answering a caller may begin or end the wait of another one: each caller that waits now
	   is checked once. */
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
			caller_continue(caller, verdict);
	}
}

void console_pause_all(struct console *console, bool on)
{
	struct world *world = console->world;

	if (!on && world->pools->suspended)
		world_suspend(world, false);
	if (pools_is_paused(world->pools, NULL) != on)
		pools_pause(world->pools, NULL, on);
}
