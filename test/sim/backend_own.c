/*
 * The pooler's own requests to a fake server: preparing the session for the next client, testing the server, resetting the session; and, as one batch
 * of the extended protocol, the look-up of a user's secret (auth_query).
 *
 * A look-up is answered according to truth.h, which records the moment; or, in a world of lies, with something else: no row, another name, too many
 * columns. All messages of such a batch up to its Sync must come from the pooler.
 *
 * When the pooler releases a server, it asks after all messages of the client for the session state in doubt.
 */
#include "backend.h"

#include "base/mem.h"
#include "chance.h"
#include "pg/build.h"
#include "data_row.h"
#include "roles.h"
#include "sim.h"
#include "truth.h"

#include <stdio.h>
#include <string.h>

#define NULL_LENGTH 0xffffffffu

/* Such requests come between two clients, or between two transactions of one client. */
static void work_for_pooler(const struct backend *b)
{
	SIM_CHECK(b->tx == 'I' && !b->open && !b->copies, "the pooler interferes with client %u on server %u", b->client, b->pid);
	SIM_CHECK(!b->replication[0], "the pooler interferes with the replication of client %u on server %u", b->client, b->pid);
}

/* ---- simple queries ---- */

/* After connect_query the session reports its role. */
static void note_role(struct backend *b)
{
	static const char *const cells[] = { "7530:6e6f6e65" };

	work_for_pooler(b);
	pg_build_data_row(&b->out, cells, 1);
	pg_build_string(&b->out, 'C', "SELECT 1");
}

/* "SELECT pg_catalog.set_config('name',E'value',false),...;RESET name": how the pooler sets parameters. */
static void set_parameters(struct backend *b, const char *sql)
{
	char name[64], value[64];
	const char *at = sql;
	int i;

	work_for_pooler(b);
	if (strstr(sql, "set_config('role',"))
		b->role = 0;
	for (; (at = strstr(at, "set_config('")) != NULL; at++) {
		at += strlen("set_config('");
		i = -1;
		if (sscanf(at, "%63[^']',%*[ E]'%63[^']'", name, value) == 2)
			i = backend_parameter(name);
		else if (sscanf(at, "%63[^']',%*[ E]''", name) == 1 && (i = backend_parameter(name)) >= 0)
			value[0] = '\0';
		if (i >= 0)
			backend_set(b, i, value, true);
	}
	for (at = sql; (at = strstr(at, "RESET ")) != NULL;) {
		at += strlen("RESET ");
		if (sscanf(at, "%63[^;]", name) == 1 && (i = backend_parameter(name)) >= 0)
			backend_set(b, i, b->start_values[i], true);
	}
	if (strncmp(sql, "SELECT", 6) == 0) {
		struct ask row = { .verb = ASK_ROWS };

		backend_row(b, 'D', &row, 0, 0, 0);
		pg_build_string(&b->out, 'C', "SELECT 1");
	}
	if (strstr(sql, "RESET "))
		pg_build_string(&b->out, 'C', "RESET");
}

/* A client has left its transaction or its batch. */
static void roll_back(struct backend *b)
{
	SIM_CHECK(b->tx != 'I' || b->open, "server %u has nothing to roll back", b->pid);
	b->tx = 'I';
	backend_drop_portals(b);
	pg_build_string(&b->out, 'C', "ROLLBACK");
}

void backend_own_query(struct backend *b, const char *sql)
{
	if (strcmp(sql, "DISCARD ALL") == 0) {
		work_for_pooler(b);
		backend_forget_all(b);
		backend_drop_portals(b);
		for (int i = 0; i < PARAMETERS; i++)
			backend_set(b, i, b->start_values[i], true);
		b->role = 0;
		b->was_reset = true;
		pg_build_string(&b->out, 'C', "DISCARD ALL");
	} else if (strcmp(sql, "select 1") == 0) {
		/* connect_query is for a walsender as well */
		if (!b->replication[0] || b->has_worked)
			work_for_pooler(b);
		b->has_worked = true;
		pg_build_string(&b->out, 'C', "SELECT 1");
	} else if (strcmp(sql, "ROLLBACK") == 0) {
		roll_back(b);
	} else if (strncmp(sql, "select pg_catalog.pg_is_in_recovery()", 37) == 0) {
		SIM_CHECK(plan.has_roles, "server %u is asked for its role", b->pid);
		work_for_pooler(b);
		roles_answer(b, strncmp(sql + 37, ",null", 5) == 0);
	} else if (strncmp(sql, "select (extract(epoch from pg_catalog.pg_postmaster_start_time())", 65) == 0) {
		SIM_CHECK(plan.has_roles, "server %u is asked which server it is", b->pid);
		work_for_pooler(b);
		roles_answer_identity(b);
	} else if (strstr(sql, "session_user")) {
		note_role(b);
	} else if (strstr(sql, "set_config(") || strncmp(sql, "RESET ", 6) == 0) {
		set_parameters(b, sql);
	} else {
		SIM_CHECK(false, "server %u was asked \"%s\"", b->pid, sql);
	}
}

/* ---- the query for the session state ---- */

#define QUESTION_TYPES 4

bool backend_own_question(const uint8_t *body, uint32_t size)
{
	return size == 4 + QUESTION_TYPES * sizeof(uint32_t) && memcmp(body, "\0\0\0\4", 4) == 0;
}

void backend_own_is_left(struct backend *b, const uint8_t *body, uint32_t size)
{
	SIM_CHECK(b->own == OWN_NOT && !b->open, "server %u is left in the middle of a batch", b->pid);
	backend_forget(b, "");
	memcpy(b->types, body + size - sizeof(b->types), sizeof(b->types));
	b->own = OWN_QUESTION;
	backend_say(b, '1');
}

static void say_types(struct backend *b)
{
	size_t mark = pg_begin(&b->out, 't');

	bytes_append_u16(&b->out, QUESTION_TYPES);
	bytes_append(&b->out, b->types, sizeof(b->types));
	pg_end(&b->out, mark);
	backend_say(b, 'n');
}

/* ---- the batch of a look-up ---- */

/* Draws the answer to this look-up at its Bind, because the columns precede the row. */
static enum lie draw_lie(void)
{
	return !plan.lies || sim_is_calm || !chance_one_in(4) ? LIE_NONE : (enum lie)chance_below(LIES);
}

void backend_own_parse(struct backend *b, const char *name, const char *sql)
{
	SIM_CHECK(!*name, "server %u was to prepare \"%s\"", b->pid, sql);
	if (strcmp(sql, "ROLLBACK") == 0) {
		/* also if the messages of the batch were answered by the pooler, and none has come here: then it has no effect */
		SIM_CHECK(b->own == OWN_NOT, "server %u: a ROLLBACK out of order", b->pid);
		backend_forget(b, "");
		b->own = OWN_ROLLBACK;
		backend_say(b, '1');
		return;
	}
	if (b->own == OWN_NOT)
		work_for_pooler(b);
	SIM_CHECK(!b->cancelled, "server %u was to cancel a look-up, which is nobody's", b->pid);
	backend_forget(b, "");
	if (strcmp(sql, PLAN_AUTH_QUERY) == 0) {
		SIM_CHECK(b->own == OWN_PATH, "server %u looks up in a session that is not prepared for it", b->pid);
		b->own = OWN_LOOKUP;
	} else if (strstr(sql, "'pg_temp'")) {
		SIM_CHECK(b->own == OWN_RESET, "server %u: a look-up out of order", b->pid);
		b->own = OWN_PATH;
	} else {
		SIM_CHECK(strstr(sql, "set_config('role',") && b->own == OWN_NOT, "server %u was to prepare \"%s\"", b->pid, sql);
		b->own = OWN_RESET;
	}
	backend_say(b, '1');
}

void backend_own_bind(struct backend *b, const uint8_t *parameters)
{
	uint32_t size;

	/* no formats; one parameter, or none */
	if (b->own == OWN_LOOKUP) {
		size = sim_u32(parameters + 4);
		SIM_CHECK(parameters[3] == 1 && size < sizeof(b->looked_up), "server %u: a look-up without a name", b->pid);
		memcpy(b->looked_up, parameters + 8, size);
		b->looked_up[size] = '\0';
		b->lie = draw_lie();
	}
	backend_say(b, '2');
}

void backend_own_describe(struct backend *b)
{
	static const char *const columns[] = { "name:text", "secret:text" };

	if (b->own == OWN_QUESTION) {
		say_types(b);
		return;
	}
	SIM_CHECK(b->own == OWN_LOOKUP, "server %u: a Describe out of order", b->pid);
	pg_build_row_description(&b->out, columns, b->lie == LIE_ONE_COLUMN ? 1 : 2);
}

static void say_pair(struct backend *b, const char *name, const char *secret)
{
	const char *cells[] = { name, secret };

	pg_build_data_row(&b->out, cells, b->lie == LIE_ONE_COLUMN ? 1 : 2);
}

/* Rows, and how it ends. */
static void say_found(struct backend *b, const char *name, const char *secret)
{
	static char long_text[3000];		/* a secret, which no password fits */

	memset(long_text, 'x', sizeof(long_text) - 1);
	switch (b->lie) {
	case LIE_NO_ROW:
		break;
	case LIE_OTHER_NAME:
		say_pair(b, "u99", truth_secret(truth_cluster(b->database), 0));
		break;
	case LIE_NO_SECRET:
		say_pair(b, name, NULL);
		break;
	case LIE_GARBAGE:
		say_pair(b, name, "garbage");
		break;
	case LIE_NO_NAME:
		say_pair(b, NULL, secret);
		break;
	case LIE_LONG:
		say_pair(b, name, long_text);
		break;
	case LIE_TWO_ROWS:
		say_pair(b, name, secret);
		say_pair(b, name, secret);
		backend_say(b, 's');
		return;
	default:
		say_pair(b, name, secret);
	}
	pg_build_string(&b->out, 'C', "SELECT 1");
}

static enum truth_answer meaning_of(enum lie lie)
{
	switch (lie) {
	case LIE_NONE:
		return TRUTH_RIGHT;
	case LIE_NO_ROW: case LIE_OTHER_NAME:
		return TRUTH_NONE;
	case LIE_NO_SECRET: case LIE_GARBAGE: case LIE_LONG:
		return TRUTH_NAMED;
	default:
		return TRUTH_FAILURE;
	}
}

static void find(struct backend *b)
{
	int user = truth_user(b->looked_up), cluster = truth_cluster(b->database);
	enum truth_answer answer = meaning_of(b->lie);

	SIM_CHECK(user < plan.users && plan.looks_up && (user == TRUTH_NOBODY || !plan.is_listed[user]), "%s was looked up", b->looked_up);
	SIM_CHECK(strcmp(b->user, "u0") == 0, "%s was looked up as %s", b->looked_up, b->user);
	sim_counts.lookups++;
	SIM_TRACE("server %u looks up %s in %s: lie %d", b->pid, b->looked_up, b->database, (int)b->lie);
	if (b->lie == LIE_ERROR) {
		backend_fail(b, "42501", 0, 0);
	} else if (user == TRUTH_NOBODY) {
		/* so does a row that is too long fail, but that there is none does not */
		if (answer == TRUTH_NAMED || answer == TRUTH_RIGHT)
			b->lie = LIE_NO_ROW;
		say_found(b, b->looked_up, "none");
	} else {
		say_found(b, b->looked_up, truth_secret(cluster, user));
	}
	truth_answered(cluster, user, answer);
}

bool backend_own_execute(struct backend *b, uint32_t rows)
{
	struct ask row = { .verb = ASK_ROWS };
	bool is_lookup = b->own == OWN_LOOKUP;

	if (b->own == OWN_ROLLBACK) {
		roll_back(b);
		return true;
	}
	SIM_CHECK(rows == (is_lookup ? 2 : 0), "server %u: a look-up that asks for %u rows", b->pid, rows);
	if (is_lookup && !sim_is_calm &&
	    backend_sleeps_first(b, chance_one_in(4) ? (uint32_t)chance_spread(1, chance_one_in(10) ? 100000 : 500) : 0))
		return false;
	b->sleeps = false;
	SIM_CHECK(!b->cancelled, "server %u was to cancel a look-up, which is nobody's", b->pid);
	if (is_lookup) {
		find(b);
		return true;
	}
	backend_row(b, 'D', &row, 0, 0, 0);
	pg_build_string(&b->out, 'C', "SELECT 1");
	return true;
}
