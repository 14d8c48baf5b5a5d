/*
 * Runs the statements of a caller in the simple protocol, and has the functions that both protocols share: errors, running
 * commands, sending.
 *
 * A Query may contain several statements. The first that fails ends it, as in PostgreSQL; if a statement waits, the rest of the
 * text is kept. To leave time for other clients, one turn runs at most STATEMENTS_MOST statements; the next turn continues. The
 * output is limited: while more than OUTPUT_MOST bytes are unsent, the next statement does not run.
 *
 * Invariant: after a call from outside, `out` is empty or belongs to an extended exchange that has not reached its Sync or
 * Flush. Any call that runs a command or sends may end the client (caller_is_gone).
 */
#include "admin/caller.h"

#include "admin/result_wire.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "conf/value.h"
#include "pg/build.h"
#include "show/show.h"

#define OUTPUT_MOST ((size_t)1024 * 1024)
#define STATEMENTS_MOST 4		/* statements of one Query per turn */

#define C(id) (1u << CONSOLE_##id)
static const struct {
	const char *name;
	unsigned moves;
} states[CONSOLE_STATES] = {
#define CONSOLE_STATE(id, name, moves) [CONSOLE_##id] = { name, moves },
#include "tbl/console_state.tbl"
#undef CONSOLE_STATE
};
#undef C

const char *console_state_name(enum console_state state)
{
	ASSERT((unsigned)state < CONSOLE_STATES);
	return states[state].name;
}

bool console_state_may_become(enum console_state from, enum console_state to)
{
	ASSERT((unsigned)from < CONSOLE_STATES && (unsigned)to < CONSOLE_STATES);
	return states[from].moves & 1u << to;
}

void caller_become(struct caller *caller, enum console_state state)
{
	struct client *client = caller->client;

	ASSERT(console_state_may_become((enum console_state)client->console_state, state));
	client->console_state = (uint8_t)state;
	list_remove(&caller->node);
	if (state == CONSOLE_WAITING || state == CONSOLE_SENDING)
		list_append(&caller->console->waiting, &caller->node);
	if (state == CONSOLE_CONTINUING)
		peer_come_again(&client->peer);
}

struct caller *caller_new(struct console *console, struct client *client)
{
	struct caller *caller = mem_try(sizeof(*caller));

	if (!caller)
		return NULL;
	caller->client = client;
	caller->console = console;
	list_init(&caller->node);
	held_init(&caller->held);
	HASH_ADD_PTR(console->callers, client, caller);
	if (HASH_HAS(hh, caller))
		return caller;
	mem_free(caller);
	return NULL;
}

static void close_statement(struct caller *caller)
{
	command_free(&caller->command);
	result_free(&caller->answer);
}

void caller_free(struct caller *caller)
{
	list_remove(&caller->node);
	wait_forget(caller);
	held_free(&caller->held);
	close_statement(caller);
	bytes_free(&caller->out);
	bytes_free(&caller->rest);
	mem_free(caller);
}

static const char *refusal_message(enum console_error why, const char *first, const char *second, struct bytes *text)
{
	console_error_text(why, first, second, text);
	return bytes_text(text) ? bytes_text(text) : "out of memory";
}

static void log_refusal(const struct caller *caller, const char *message)
{
	char who[256], shown[PRINTABLE_TEXT];

	printable_text(message, shown, sizeof(shown));
	log_error("%s", shown);
	if (caller->console->world->conf->settings.log_pooler_errors)
		log_warning("%s pooler error: %s", client_text(caller->client, who, sizeof(who)), shown);
}

enum outcome caller_refuse(struct caller *caller, enum console_error why, const char *first, const char *second,
			   const char *detail)
{
	struct bytes text = BYTES_EMPTY;
	const char *message = refusal_message(why, first, second, &text);

	pg_build_error(&caller->out, "ERROR", console_error_sqlstate(why), message, detail, NULL);
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

bool caller_must_rest(struct caller *caller)
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

static bool may_run(const struct caller *caller, const struct command *command)
{
	const struct client *client = caller->client;

	if (client->is_admin)
		return true;
	if (!client->may_show)
		return false;
	if (command->id == COMMAND_SHOW)
		return !command->show || command->show->for_monitor;
	return command->row->for_monitor || (command->id == COMMAND_SET && is_console_param(command->name));
}

void caller_log_command(const struct caller *caller, const struct command *command)
{
	char who[256], name[PRINTABLE_NAME], value[PRINTABLE_TEXT];
	const char *verb = command->row->verb;

	client_text(caller->client, who, sizeof(who));
	if (command->name)
		printable_text(command->name, name, sizeof(name));
	if (command->id == COMMAND_SET)
		printable_text(setting_may_be_secret(command->name, command->value) ? "***" : command->value, value, sizeof(value));
	if (!command->name)
		log_info("%s command issued (%s)", verb, who);
	else if (command->id == COMMAND_SET)
		log_info("%s %s=%s command issued (%s)", verb, name, value, who);
	else if (command->id == COMMAND_SHUTDOWN)
		log_info("%s %s command issued (%s)", verb, name, who);
	else
		log_info("%s '%s' command issued (%s)", verb, name, who);
}

/* SHOW STATS lists the console as a database. */
static void count_query(const struct caller *caller)
{
	struct stats *total = &caller->client->pooled.pool->database->stats.total;

	total->query_count++;
	total->xact_count++;
}

enum outcome caller_run_on(struct caller *caller, const struct command *command, struct result *result)
{
	enum outcome outcome;

	caller->result = result;
	outcome = verb_run(caller, command);
	caller->result = NULL;
	return outcome;
}

enum outcome caller_run(struct caller *caller, const struct command *command, struct result *result)
{
	if (!may_run(caller, command))
		return caller_refuse(caller, CONSOLE_ERROR_ACCESS, NULL, NULL, NULL);
	count_query(caller);
	return caller_run_on(caller, command, result);
}

void caller_answer_later(struct caller *caller)
{
	if (caller_must_rest(caller))
		return;
	caller_become(caller, CONSOLE_CONTINUING);
	caller_flush(caller);
}

/* ---- the simple protocol ---- */

/* Sends rows of the open statement, and the tag after the last row. */
static enum outcome give_rows(struct caller *caller, enum outcome outcome)
{
	if (outcome == OUTCOME_DONE || outcome == OUTCOME_GOES_ON)
		result_give(&caller->answer, 0, &caller->out);
	if (outcome == OUTCOME_DONE)
		pg_build_command_complete(&caller->out, caller->command.row->verb);
	if (outcome != OUTCOME_GOES_ON)
		close_statement(caller);
	return outcome;
}

static enum outcome run_parsed(struct caller *caller)
{
	const char *const *columns;
	size_t count;
	bool extra = caller->console->world->conf->settings.show_extra_columns;
	bool has_rows = command_columns(&caller->command, extra, &columns, &count);
	enum outcome outcome;

	result_init(&caller->answer, &result_wire, columns, count);
	outcome = caller_run(caller, &caller->command, &caller->answer);
	if (has_rows && (outcome == OUTCOME_DONE || outcome == OUTCOME_GOES_ON))
		result_describe(&caller->answer, &caller->out);
	return give_rows(caller, outcome);
}

enum outcome caller_refuse_invalid(struct caller *caller, struct sql_span statement)
{
	struct bytes text = BYTES_EMPTY, told = BYTES_EMPTY, logged = BYTES_EMPTY;
	char hint[COMMAND_SUGGESTION], brief[COMMAND_BRIEF];

	bytes_append(&text, statement.at, statement.size);
	bytes_append_u8(&text, 0);
	pg_build_error(&caller->out, "ERROR", console_error_sqlstate(CONSOLE_ERROR_INVALID), refusal_message(CONSOLE_ERROR_INVALID, bytes_text(&text), NULL, &told),
		       NULL, command_suggest(statement, hint, sizeof(hint)));
	log_refusal(caller, refusal_message(CONSOLE_ERROR_INVALID, command_brief(statement, brief), NULL, &logged));
	bytes_free(&text);
	bytes_free(&told);
	bytes_free(&logged);
	return OUTCOME_FAILED;
}

static enum outcome run_statement(struct caller *caller, struct sql_span statement)
{
	switch (command_parse(statement, &caller->command)) {
	case COMMAND_PARSE_OK:
		return run_parsed(caller);
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

/* Keeps the statements that remain to be run, and sends `out`. False: no memory; the Query ends here. */
static bool keep_rest(struct caller *caller, struct sql_span rest)
{
	struct bytes kept = BYTES_EMPTY;

	bytes_append(&kept, rest.at, rest.size);
	bytes_free(&caller->rest);
	caller->rest = kept;
	if (!kept.failed) {
		caller_flush(caller);
		return true;
	}
	close_statement(caller);
	wait_forget(caller);
	caller_become(caller, CONSOLE_RUNNING);
	caller_refuse(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL, NULL);
	return false;
}

static void finish_query(struct caller *caller)
{
	pg_build_ready(&caller->out, 'I');
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

void caller_query(struct caller *caller, struct sql_span text, bool is_rest)
{
	const char *end = text.at + text.size;
	struct sql_span statement;
	int count = 0;

	caller->in_query = true;
	while (sql_next_statement(&text, &statement)) {
		enum outcome outcome = OUTCOME_GOES_ON;

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
		if (caller_is_gone(caller) || keep_rest(caller, text))
			return;
		break;
	}
	if (count == 0 && !is_rest)
		pg_end(&caller->out, pg_begin(&caller->out, 'I'));
	finish_query(caller);
}

/* ---- continuing in a later turn ---- */

/* Sends the answer of a command that has waited. False: the command failed. */
static bool answer(struct caller *caller, enum wait_verdict verdict)
{
	switch (verdict) {
	case WAIT_RESUMED:
		caller_refuse(caller, CONSOLE_ERROR_RESUMED, caller->wait.verb, NULL, NULL);
		return false;
	case WAIT_CANCELLED:
		caller_refuse(caller, CONSOLE_ERROR_CANCELLED, NULL, NULL, wait_take_back(caller) ? "What it had paused goes on." : NULL);
		return false;
	case WAIT_DATABASE_GONE:
		caller_refuse(caller, CONSOLE_ERROR_NO_DATABASE, caller->wait.database, NULL, NULL);
		return false;
	case WAIT_LASTS:
	case WAIT_OVER:
		break;
	}
	if (caller->wait.verb)
		pg_build_command_complete(&caller->out, caller->wait.verb);
	return true;
}

static void go_on_with_query(struct caller *caller, bool is_good)
{
	struct bytes rest;

	if (caller->command.row && postpone_rest(caller, give_rows(caller, caller_run_on(caller, &caller->command, &caller->answer))))
		return;
	rest = caller->rest;
	caller->rest = (struct bytes)BYTES_EMPTY;
	if (is_good && bytes_size(&rest) > 0)
		caller_query(caller, (struct sql_span){ bytes_text(&rest), bytes_size(&rest) }, true);
	else
		finish_query(caller);
	bytes_free(&rest);
}

bool caller_settle(struct caller *caller)
{
	if (caller_is_gone(caller) || caller->client->console_state != CONSOLE_RUNNING || caller_must_rest(caller))
		return false;
	caller_become(caller, CONSOLE_READY);
	return true;
}

void caller_go_on(struct caller *caller, enum wait_verdict verdict)
{
	bool is_good = answer(caller, verdict);

	wait_forget(caller);
	caller_become(caller, CONSOLE_RUNNING);
	if (caller->in_query) {
		go_on_with_query(caller, is_good);
	} else if (caller->portal) {
		extended_go_on(caller);
	} else {
		caller->skips |= !is_good;
		caller_flush(caller);
	}
	if (caller_settle(caller))
		client_console_done(caller->client);
}
