/*
 * The commands of the console. Room pool and main (control) do the work; this file makes the checks
 * before it, in the order in which users expect the errors, and begins the wait after it
 * (console.c).
 *
 * Invariant: a refused command has changed nothing.
 */
#include "admin/caller.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/text.h"
#include "conf/value.h"
#include "core/diagnosis.h"
#include "pg/build.h"
#include "pool/admit.h"
#include "pool/closed.h"
#include "show/show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBLEMS_TOLD 5			/* in the DETAIL of a failed RELOAD; the log has all */

typedef enum outcome verb(struct caller *caller, const struct command *command);
#define COMMAND(name, argument, access, help) static verb run_##name;
#include "tbl/command.tbl"
#undef COMMAND

static verb *const verbs[COMMANDS] = {
#define COMMAND(name, argument, access, help) [COMMAND_##name] = run_##name,
#include "tbl/command.tbl"
#undef COMMAND
};

/* ---- commands ---- */

enum outcome verb_run(struct caller *caller, const struct command *command, struct result *result,
		      bool is_first)
{
	struct stats *total = &caller->client->pooled.pool->database->stats.total;
	const struct client *client = caller->client;
	bool may_run = client->console.is_admin || !is_first;
	enum outcome outcome;

	if (!may_run && client->console.may_show && command->id == COMMAND_SHOW)
		may_run = !command->show || command->show->for_monitor;
	else if (!may_run && client->console.may_show)
		may_run = command->row->for_monitor ||
			  (command->id == COMMAND_SET && console_param_find(command->name));
	if (!may_run)
		return caller_refuse(caller, CONSOLE_ERROR_ACCESS, NULL, NULL, NULL);
	/* SHOW STATS lists the console as a database */
	total->query_count += is_first;
	total->xact_count += is_first;
	caller->result = result;
	outcome = verbs[command->id](caller, command);
	caller->result = NULL;
	return outcome;
}

/* Logs "PAUSE 'shop' command issued (C-0x5: ...)", in PgBouncer's words. Not called for SHOW, nor
   for a command that is refused because of its form or the state of the pooler. */
static void log_command(const struct caller *caller, const struct command *command)
{
	char who[256], name[PRINTABLE_NAME], value[PRINTABLE_TEXT];
	const char *name_of_verb = command->row->verb;

	client_text(caller->client, who, sizeof(who));
	if (command->name)
		printable_text(command->name, name, sizeof(name));
	if (command->id == COMMAND_SET)
		printable_text(setting_may_be_secret(command->name, command->value)
				       ? "***"
				       : command->value,
			       value, sizeof(value));
	if (!command->name)
		log_info("%s command issued (%s)", name_of_verb, who);
	else if (command->id == COMMAND_SET)
		log_info("%s %s=%s command issued (%s)", name_of_verb, name, value, who);
	else if (command->id == COMMAND_SHUTDOWN)
		log_info("%s %s command issued (%s)", name_of_verb, name, who);
	else
		log_info("%s '%s' command issued (%s)", name_of_verb, name, who);
}

static enum outcome verbs_refuse(struct caller *caller, enum console_error why)
{
	return caller_refuse(caller, why, NULL, NULL, NULL);
}

/* Finds the database of a command, and logs the command. False: an error was sent. True with *found
   NULL: the command concerns all databases. */
static bool find_database(struct caller *caller, const struct command *command,
			  struct database **found)
{
	struct world *world = caller->console->world;
	char verb_name[32];

	*found = NULL;
	if (!command->name && command->row->argument != ARGUMENT_DATABASE_OR_ALL) {
		verbs_refuse(caller, CONSOLE_ERROR_DATABASE_NEEDED);
		return false;
	}
	log_command(caller, command);
	if (!command->name)
		return true;
	/* creates it from "*": a PAUSE must apply to a database that no client has used yet */
	*found = database_get(world->pools, command->name, true, world->now);
	if (!*found) {
		caller_refuse(caller, CONSOLE_ERROR_NO_DATABASE, command->name, NULL, NULL);
		return false;
	}
	if (!(*found)->is_console)
		return true;
	/* the error contains the verb in lower case */
	text_copy(verb_name, sizeof(verb_name), command->row->verb);
	for (char *c = verb_name; *c; c++)
		*c |= *c == '_' ? 0 : 0x20;
	caller_refuse(caller, CONSOLE_ERROR_ADMIN_DATABASE, verb_name, command->name, NULL);
	return false;
}

static enum outcome run_SHOW(struct caller *caller, const struct command *command)
{
	const struct brief_address *from = &caller->client->peer.remote;
	struct show show = {
		.world = caller->console->world,
		.version = caller->console->control.version,
		.item = command->show,
		.to = caller->result,
		.with_secrets = from->family == AF_UNIX && from->u.peer.uid == (uint32_t)geteuid(),
	};
	struct bytes help = BYTES_EMPTY;
	const struct show_item *item;

	if (command->parameter) {
		result_text(caller->result, command->value);
	} else if (command->show->fill) {
		show.item->fill(&show);
	} else {
		/* SHOW HELP: all items of SHOW, and the other commands, as a NOTICE */
		for (size_t i = 0; (item = show_at(i)) != NULL; i++)
			bytes_append_format(&help, "%s%s", i % 6 == 0 ? "\n\tSHOW " : "|",
					    item->name);
		for (size_t i = 0; i < COMMANDS; i++)
			if (command_rows[i].help)
				bytes_append_format(&help, "\n\t%s", command_rows[i].help);
		bytes_append_u8(&help, 0);
		if (help.failed)
			caller->out.failed = true;
		else
			pg_build_report(&caller->out, 'N', "NOTICE", "00000", "Console usage",
					bytes_text(&help), NULL);
		bytes_free(&help);
	}
	return caller->result->walk.goes_on ? OUTCOME_GOES_ON : OUTCOME_DONE;
}

static enum outcome run_PAUSE(struct caller *caller, const struct command *command)
{
	struct pools *pools = caller->console->world->pools;
	struct database *database;
	bool has_begun;

	if (pools_is_paused(pools, NULL))
		return verbs_refuse(caller, CONSOLE_ERROR_PAUSED);
	if (!find_database(caller, command, &database))
		return OUTCOME_FAILED;
	has_begun = !pools_is_paused(pools, database);
	pools_pause(pools, database, true);
	return caller_wait(caller, WAIT_FOR_PAUSE, command, has_begun);
}

static enum outcome run_RESUME(struct caller *caller, const struct command *command)
{
	struct world *world = caller->console->world;
	struct database *database;

	if (!find_database(caller, command, &database))
		return OUTCOME_FAILED;
	if (pools_is_paused(world->pools, database)) {
		if (!database && world->pools->suspended)
			world_suspend(world, false);
		pools_pause(world->pools, database, false);
		return OUTCOME_DONE;
	}
	if (world->drain.step != DRAIN_OFF)
		return verbs_refuse(caller, CONSOLE_ERROR_SHUTTING_DOWN);
	if (database)
		return caller_refuse(caller, CONSOLE_ERROR_DATABASE_NOT_PAUSED, command->name, NULL,
				     NULL);
	return verbs_refuse(caller, CONSOLE_ERROR_NOT_PAUSED);
}

static enum outcome run_SUSPEND(struct caller *caller, const struct command *command)
{
	struct world *world = caller->console->world;

	if (pools_is_paused(world->pools, NULL))
		return verbs_refuse(caller, CONSOLE_ERROR_PAUSED);
	for (const struct database *d = world->pools->databases; d; d = d->hh.next)
		if (d->paused)
			return verbs_refuse(caller, CONSOLE_ERROR_SUSPEND_PAUSED);
	log_command(caller, command);
	world->pools->suspended = true;
	world_suspend(world, true);
	return caller_wait(caller, WAIT_FOR_SUSPEND, command, true);
}

/* Disables or enables hosts. */
static enum outcome run_of_host(struct caller *caller, const struct command *command)
{
	struct world *world = caller->console->world;

	log_command(caller, command);
	if (!host_is_listed(world->pools, NULL, command->name))
		return caller_refuse(caller, CONSOLE_ERROR_NO_HOST, command->name, NULL, NULL);
	if (!hosts_disable(world->pools, command->name, command->id == COMMAND_DISABLE, world->now))
		return verbs_refuse(caller, CONSOLE_ERROR_NO_MEMORY);
	return OUTCOME_DONE;
}

static enum outcome run_DISABLE(struct caller *caller, const struct command *command)
{
	struct database *database;

	if (command->drain_of == DRAIN_OF_HOST)
		return run_of_host(caller, command);
	if (!find_database(caller, command, &database))
		return OUTCOME_FAILED;
	database->disabled = command->id == COMMAND_DISABLE;
	return OUTCOME_DONE;
}

static enum outcome run_ENABLE(struct caller *caller, const struct command *command)
{
	return run_DISABLE(caller, command);
}

static enum outcome run_RECONNECT(struct caller *caller, const struct command *command)
{
	struct database *database;

	if (!find_database(caller, command, &database))
		return OUTCOME_FAILED;
	pools_reconnect(caller->console->world->pools, database);
	return OUTCOME_DONE;
}

static enum outcome run_KILL(struct caller *caller, const struct command *command)
{
	struct pools *pools = caller->console->world->pools;
	struct database *database;
	bool has_begun;

	if (!find_database(caller, command, &database))
		return OUTCOME_FAILED;
	has_begun = !pools_is_paused(pools, database);
	pools_kill(pools, database);
	return caller_wait(caller, WAIT_FOR_PAUSE, command, has_begun);
}

/* Answered at once: SHOW STATE and SHOW DRAINS tell how many clients are left. */
static enum outcome run_DRAIN(struct caller *caller, const struct command *command)
{
	struct world *world = caller->console->world;
	const char *name = command->name ? command->name : "";
	struct database *database;

	if (command->seconds < 0) {
		log_command(caller, command);
		if (!drain_stop(world->pools, command->drain_of, name, false))
			return verbs_refuse(caller, CONSOLE_ERROR_NO_DRAIN);
		hosts_admit_anew(world->pools, world->now);
		return OUTCOME_DONE;
	}
	if (command->drain_of == DRAIN_OF_DATABASE) {
		if (!find_database(caller, command, &database))
			return OUTCOME_FAILED;
		name = database->name;
	} else {
		log_command(caller, command);
	}
	if (command->drain_of == DRAIN_OF_HOST && !host_is_listed(world->pools, NULL, name))
		return caller_refuse(caller, CONSOLE_ERROR_NO_HOST, name, NULL, NULL);
	if (!drain_begin(world->pools, command->drain_of, name, world->now,
			 world->now + command->seconds * USEC))
		return verbs_refuse(caller, CONSOLE_ERROR_NO_MEMORY);
	if (command->drain_of == DRAIN_OF_HOST)
		hosts_admit_anew(world->pools, world->now);
	world_drain_clients(world);
	return OUTCOME_DONE;
}

/* Reads the id of a client: a number of SHOW CLIENTS, a ptr, which is the id in hexadecimal, or
   C-0x2a of the log. False: an error was sent. */
static bool read_id(struct caller *caller, const struct command *command, uint64_t *id)
{
	const char *name = command->name, *hex;
	int64_t number;

	if (name && text_starts(name, "C-0x"))
		name += 2;
	hex = name && text_starts(name, "0x") ? name + 2 : NULL;
	if (hex && *hex && strlen(hex) <= 16 &&
	    strspn(hex, "0123456789abcdefABCDEF") == strlen(hex))
		*id = strtoull(hex, NULL, 16);
	else if (name && !hex && text_to_int64(name, &number) && number > 0)
		*id = (uint64_t)number;
	else
		return verbs_refuse(caller, CONSOLE_ERROR_CLIENT_POINTER) != OUTCOME_FAILED;
	return true;
}

static enum outcome run_KILL_CLIENT(struct caller *caller, const struct command *command)
{
	uint64_t id;

	if (!read_id(caller, command, &id))
		return OUTCOME_FAILED;
	if (!world_kill_client(caller->console->world, id))
		return verbs_refuse(caller, CONSOLE_ERROR_CLIENT_UNKNOWN);
	log_command(caller, command);
	return OUTCOME_DONE;
}

static void verbs_write_line(void *context, const char *text) { result_text(context, text); }

static enum outcome run_EXPLAIN(struct caller *caller, const struct command *command)
{
	uint64_t id;

	if (!read_id(caller, command, &id))
		return OUTCOME_FAILED;
	LIST_EACH(node, &caller->console->world->peers.clients) {
		const struct client *client = LIST_OBJECT(node, struct client, peer.node);

		if (client->peer.id != id)
			continue;
		client_explain(client, verbs_write_line, caller->result);
		return OUTCOME_DONE;
	}
	return verbs_refuse(caller, CONSOLE_ERROR_CLIENT_UNKNOWN);
}

static enum outcome run_WAIT_CLOSE(struct caller *caller, const struct command *command)
{
	struct database *database;

	if (!find_database(caller, command, &database))
		return OUTCOME_FAILED;
	return caller_wait(caller, WAIT_FOR_CLOSE, command, false);
}

/* Appends a problem: "FILE:LINE: TEXT", as far as they are known. */
static void append_problem(struct bytes *out, const struct conf_problem *problem)
{
	if (bytes_size(out) > 0)
		bytes_append_text(out, "\n");
	if (problem->file && problem->line > 0)
		bytes_append_format(out, "%s:%d: ", problem->file, problem->line);
	else if (problem->file)
		bytes_append_format(out, "%s: ", problem->file);
	bytes_append_text(out, problem->text);
}

/* Sends the result of a RELOAD or a SET: warnings as notices, or the error with the first problems
   as its DETAIL. */
static enum outcome verbs_report(struct caller *caller, bool is_good, enum console_error why,
			   struct conf_problems *problems)
{
	struct bytes detail = BYTES_EMPTY;
	size_t told = 0;

	for (size_t i = 0; is_good && i < problems->count; i++) {
		struct bytes text = BYTES_EMPTY;

		append_problem(&text, &problems->items[i]);
		bytes_append_u8(&text, 0);
		if (bytes_text(&text) && problems->items[i].is_about_tls)
			pg_build_report(
				&caller->out, 'N', "NOTICE", "00000",
				"TLS settings could not be applied, still using old configuration",
				bytes_text(&text), NULL);
		else if (bytes_text(&text))
			pg_build_report(&caller->out, 'N', "WARNING", "01000", bytes_text(&text),
					NULL, NULL);
		bytes_free(&text);
	}
	for (size_t i = 0; !is_good && i < problems->count && told < PROBLEMS_TOLD; i++) {
		if (problems->items[i].is_warning)
			continue;
		append_problem(&detail, &problems->items[i]);
		told++;
	}
	if (!is_good && problems->errors > told)
		bytes_append_format(&detail, "\nand %zu more", problems->errors - told);
	bytes_append_u8(&detail, 0);
	if (!is_good)
		caller_refuse(caller, why, NULL, NULL, told > 0 ? bytes_text(&detail) : NULL);
	bytes_free(&detail);
	conf_problems_free(problems);
	return is_good ? OUTCOME_DONE : OUTCOME_FAILED;
}

static enum outcome run_RELOAD(struct caller *caller, const struct command *command)
{
	const struct control *control = &caller->console->control;
	struct conf_problems problems = { NULL, 0, 0 };
	bool is_good;

	log_command(caller, command);
	is_good = control->reload(control->context, &problems);
	return verbs_report(caller, is_good, CONSOLE_ERROR_RELOAD_FAILED, &problems);
}

static enum outcome run_SET(struct caller *caller, const struct command *command)
{
	const struct control *control = &caller->console->control;
	struct conf_problems problems = { NULL, 0, 0 };
	bool is_good;

	if (console_param_find(command->name))
		return OUTCOME_DONE;
	log_command(caller, command);
	is_good = control->set(control->context, command->name, command->value, &problems);
	return verbs_report(caller, is_good, CONSOLE_ERROR_SET_FAILED, &problems);
}

/* Drivers without autocommit send these three around each command. The console has no transactions:
   they do nothing. */
static enum outcome run_BEGIN(struct caller *caller, const struct command *command)
{
	(void)caller;
	(void)command;
	return OUTCOME_DONE;
}

static enum outcome run_COMMIT(struct caller *caller, const struct command *command)
{
	return run_BEGIN(caller, command);
}

static enum outcome run_ROLLBACK(struct caller *caller, const struct command *command)
{
	return run_BEGIN(caller, command);
}

/*
 * A shutdown that waits is answered at once, and the console stays open, because a script that has
 * requested it starts the next process then, and clients may stay for hours. The connection that
 * has requested an immediate shutdown ends with the answer.
 */
static enum outcome run_SHUTDOWN(struct caller *caller, const struct command *command)
{
	const struct control *control = &caller->console->control;
	enum world_drain how = DRAIN_NOW;

	if (command->name)
		how = text_equal_fold(command->name, "WAIT_FOR_SERVERS") ? DRAIN_WAIT_SERVERS
									 : DRAIN_WAIT_CLIENTS;
	log_command(caller, command);
	if (how == DRAIN_NOW)
		client_note_error_sent(caller->client);
	control->shutdown(control->context, how);
	return OUTCOME_DONE;
}
