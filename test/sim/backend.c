/*
 * The fake servers: PostgreSQL as far as a pooler can tell, from the start-up packet to the last word.
 *
 * A backend answers as PostgreSQL does, in order, and holds answers back until Sync, Flush or a full buffer. It knows the language
 * of ask.h, the pooler's own queries, and nothing of the clients, but it watches whom it works for: as soon as another
 * one asks, the one before must have left it clean (SIM_CHECK in work_for). Its hosts have moods: they refuse, are silent, are
 * full, restart. What a client may believe about the backend's session is in each row, so the client sees whether it is true.
 *
 * Invariant: what a correct pooler sends never makes a backend say "protocol violation"; it aborts the simulation instead.
 */
#include "ask.h"
#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "machine.h"
#include "pg/build.h"
#include "sim.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_CODE 80877102
#define SSL_CODE 80877103
#define BUFFER 8192			/* PostgreSQL's: fuller than that, it sends */
#define PARAMETERS 5

enum mood { MOOD_GOOD, MOOD_REFUSES, MOOD_SILENT, MOOD_FULL, MOOD_STARTING, MOOD_REJECTS, MOODS };
enum phase { PHASE_STARTUP, PHASE_PASSWORD, PHASE_READY, PHASE_CANCEL, PHASE_DEAF };

struct host {
	enum mood mood;
	struct actor weather;
};

struct statement {
	struct list node;
	struct ask ask;
	char name[64];
};

struct portal {
	bool is_bound;
	struct ask ask;
	uint32_t client, serial;	/* who has bound it */
	uint32_t row;			/* the next one */
};

struct backend {
	struct list node;
	struct actor actor;
	struct wire *wire;
	int host;
	enum phase phase;
	char database[32], user[32];
	char values[PARAMETERS][64], start_values[PARAMETERS][64];
	uint32_t pid, key;
	char tx;
	bool open, skipping;		/* extended messages since the last Sync; passing over to it */
	bool copies, copies_simply;	/* reads COPY data, for a Query */
	struct ask copy;
	uint32_t copy_client, copy_serial, copy_next;
	struct list statements;
	struct portal portal;
	bool sleeps, cancelled;
	usec_t until;
	struct bytes out;
	size_t may_send;		/* of `out`: the rest is not flushed yet */
	int64_t dies_after;		/* bytes; -1: does not */
	uint32_t client;		/* whom it works or last worked for; 0: nobody yet */
	bool batch_is_known;		/* whose the open batch is: a text that all share does not say it */
	bool was_reset;
};

static struct host hosts[PLAN_HOSTS];
static struct list backends;
static uint32_t last_pid;

static const char *const parameter_names[PARAMETERS] = { "application_name", "DateStyle", "client_encoding", "TimeZone", "IntervalStyle" };

/* ---- statements ---- */

static struct statement *find_statement(struct backend *b, const char *name)
{
	LIST_EACH(node, &b->statements) {
		struct statement *s = SIM_OBJECT(node, struct statement, node);

		if (strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

static void forget_statement(struct backend *b, const char *name)
{
	struct statement *s = find_statement(b, name);

	if (!s)
		return;
	list_remove(&s->node);
	mem_free(s);
}

/* ---- saying ---- */

static void flush(struct backend *b)
{
	b->may_send = bytes_size(&b->out);
}

static void flush_if_full(struct backend *b)
{
	if (bytes_size(&b->out) > BUFFER)
		flush(b);
}

static void say_ready(struct backend *b)
{
	b->open = b->skipping = b->batch_is_known = false;
	/* an unnamed portal does not outlive its transaction */
	if (b->tx == 'I')
		b->portal.is_bound = false;
	pg_build_ready(&b->out, b->tx);
	flush(b);
}

static void say_error(struct backend *b, const char *state, uint32_t client, uint32_t serial)
{
	char text[80];

	snprintf(text, sizeof(text), "simulated %u %u", client, serial);
	pg_build_error(&b->out, "ERROR", state, text, NULL, NULL);
}

static void say_short(struct backend *b, char type)
{
	pg_end(&b->out, pg_begin(&b->out, (uint8_t)type));
}

/* What may come at any moment. */
static void say_by_the_way(struct backend *b)
{
	size_t mark;

	if (!chance_one_in(200))
		return;
	switch (chance_below(3)) {
	case 0:
		pg_build_notice(&b->out, "NOTICE", "00000", "by the way", NULL);
		return;
	case 1:
		pg_build_parameter_status(&b->out, "in_hot_standby", "off");
		return;
	default:
		mark = pg_begin(&b->out, 'A');
		bytes_append_u32(&b->out, b->pid);
		bytes_append_string(&b->out, "channel");
		bytes_append_string(&b->out, "payload");
		pg_end(&b->out, mark);
	}
}

static void say_columns(struct backend *b, const struct ask *ask)
{
	char name[40];
	const char *column = name;

	snprintf(name, sizeof(name), "c%u_%u:text", ask->client, ask->serial);
	pg_build_row_description(&b->out, &column, 1);
}

/* One row or message of COPY: which text, for whom, the how many-th, and what the session believes. */
static void say_row(struct backend *b, char type, const struct ask *ask, uint32_t client, uint32_t serial, uint32_t row)
{
	char text[512], *place = text;
	size_t mark, size;
	static const char filling[256] = { 0 };

	size = (size_t)snprintf(text, sizeof(text), "%u.%u/%u.%u.%u/%s/%s/%s/", ask->client, ask->serial, client, serial, row, b->values[0],
				b->database, b->user);
	mark = pg_begin(&b->out, (uint8_t)type);
	if (type == 'D') {
		bytes_append_u16(&b->out, 1);
		bytes_append_u32(&b->out, (uint32_t)size + ask->b);
	}
	bytes_append(&b->out, place, size);
	for (uint32_t left = ask->b; left > 0; left -= left < sizeof(filling) ? left : sizeof(filling))
		bytes_append(&b->out, filling, left < sizeof(filling) ? left : sizeof(filling));
	pg_end(&b->out, mark);
	flush_if_full(b);
}

static void say_copy_begin(struct backend *b, char type)
{
	size_t mark = pg_begin(&b->out, (uint8_t)type);

	bytes_append_u8(&b->out, 0);
	bytes_append_u16(&b->out, 0);
	pg_end(&b->out, mark);
	flush(b);
}

/* ---- a life ---- */

static void act(struct actor *actor);

static void forget_statements(struct backend *b)
{
	while (!list_is_empty(&b->statements)) {
		struct statement *s = SIM_OBJECT(b->statements.next, struct statement, node);

		list_remove(&s->node);
		mem_free(s);
	}
	b->portal.is_bound = false;
}

static void backend_end(struct backend *b, bool reset)
{
	SIM_TRACE("server %u ends%s", b->pid, reset ? " with a reset" : "");
	wire_close(&b->wire, reset);
	actor_rest(&b->actor);
	list_remove(&b->node);
	forget_statements(b);
	bytes_free(&b->out);
	mem_free(b);
}

static void set_value(struct backend *b, int i, const char *value, bool tell)
{
	char full[64];

	/* the server's own spelling */
	snprintf(full, sizeof(full), "%s%s", value, i == 1 && !strchr(value, ',') ? ", MDY" : "");
	if (strcmp(b->values[i], full) == 0)
		return;
	memcpy(b->values[i], full, sizeof(full));
	if (tell)
		pg_build_parameter_status(&b->out, parameter_names[i], full);
}

static int parameter_of(const char *name)
{
	for (int i = 0; i < PARAMETERS; i++)
		if (strcasecmp(parameter_names[i], name) == 0)
			return i;
	return -1;
}

static struct actor *connected(const struct sockaddr_in *address, struct wire *wire)
{
	static const char *const defaults[PARAMETERS] = { "", "ISO, MDY", "UTF8", "GMT", "postgres" };
	struct backend *b = mem_must(sizeof(*b));

	actor_init(&b->actor, act, plan.slowness);
	list_init(&b->statements);
	list_append(&backends, &b->node);
	b->wire = wire;
	b->host = (int)(ntohl(address->sin_addr.s_addr) & 255) - 1;
	b->pid = ++last_pid;
	b->key = (uint32_t)chance_draw();
	b->tx = 'I';
	b->dies_after = -1;
	if (!sim_is_calm && plan.faulty_servers && chance_one_in(20))
		b->dies_after = chance_spread(0, 100000);
	wire_set_room(wire, (size_t)chance_spread(64, 65536), (size_t)chance_spread(64, 65536));
	for (int i = 0; i < PARAMETERS; i++)
		snprintf(b->values[i], sizeof(b->values[i]), "%s", defaults[i]);
	return &b->actor;
}

static enum reception asked(const struct sockaddr_in *address, usec_t *delay)
{
	uint32_t i = (ntohl(address->sin_addr.s_addr) & 255) - 1;

	SIM_CHECK(i < PLAN_HOSTS, "a connection to an address that nobody has given");
	*delay = chance_spread(0, plan.slowness);
	if (hosts[i].mood == MOOD_REFUSES)
		return RECEPTION_REFUSED;
	return hosts[i].mood == MOOD_SILENT && chance_one_in(2) ? RECEPTION_SILENCE : RECEPTION_ACCEPTED;
}

/* ---- login ---- */

static void welcome(struct backend *b)
{
	uint8_t key[4];

	pg_build_auth(&b->out, 0, NULL, 0);
	pg_build_parameter_status(&b->out, "server_version", "17.0");
	for (int i = 0; i < PARAMETERS; i++) {
		pg_build_parameter_status(&b->out, parameter_names[i], b->values[i]);
		memcpy(b->start_values[i], b->values[i], sizeof(b->values[i]));
	}
	pg_build_parameter_status(&b->out, "standard_conforming_strings", "on");
	memcpy(key, &b->key, sizeof(key));
	pg_build_backend_key(&b->out, b->pid, key, sizeof(key));
	b->phase = PHASE_READY;
	say_ready(b);
	sim_counts.server_logins++;
}

/* Says FATAL, and nothing more. */
static void refuse(struct backend *b, const char *state, const char *text)
{
	pg_build_error(&b->out, "FATAL", state, text, NULL, NULL);
	flush(b);
	b->dies_after = (int64_t)bytes_size(&b->out);
	b->phase = PHASE_DEAF;
}

static void begin_login(struct backend *b)
{
	switch (hosts[b->host].mood) {
	case MOOD_FULL:
		refuse(b, "53300", "sorry, too many clients already");
		return;
	case MOOD_STARTING:
		refuse(b, "57P03", "the database system is starting up");
		return;
	case MOOD_REJECTS:
		refuse(b, "28P01", "password authentication failed");
		return;
	case MOOD_SILENT:
		b->phase = PHASE_DEAF;
		return;
	default:
		break;
	}
	if (!plan.passwords) {
		welcome(b);
		return;
	}
	pg_build_auth(&b->out, 3, NULL, 0);
	flush(b);
	b->phase = PHASE_PASSWORD;
}

static void read_pairs(struct backend *b, const char *at, const char *end)
{
	while (at < end && *at) {
		const char *name = at, *value = name + strlen(name) + 1;
		int i = parameter_of(name);

		if (strcmp(name, "database") == 0)
			snprintf(b->database, sizeof(b->database), "%s", value);
		else if (strcmp(name, "user") == 0)
			snprintf(b->user, sizeof(b->user), "%s", value);
		else if (i >= 0)
			set_value(b, i, value, false);
		at = value + strlen(value) + 1;
	}
}

static void cancel(uint32_t pid, uint32_t key)
{
	LIST_EACH(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->pid != pid)
			continue;
		SIM_CHECK(b->key == key, "a cancel request with a wrong key");
		SIM_TRACE("server %u is asked to cancel, and %s", pid, b->sleeps ? "does" : "has nothing to cancel");
		b->cancelled = b->sleeps;
		actor_at(&b->actor, loop_now());
	}
}

/* A packet without a type. */
static void read_startup(struct backend *b, const uint8_t *at, uint32_t size)
{
	uint32_t code = sim_u32(at + 4), key;

	if (code == SSL_CODE) {
		bytes_append_u8(&b->out, 'N');
		flush(b);
	} else if (code == CANCEL_CODE) {
		memcpy(&key, at + 12, sizeof(key));
		cancel(sim_u32(at + 8), key);
		sim_counts.cancelled++;
		b->phase = PHASE_DEAF;
		b->dies_after = 0;
	} else {
		read_pairs(b, (const char *)at + 8, (const char *)at + size);
		begin_login(b);
	}
}

/* ---- work ---- */

/* Somebody asks: as long as it is another one than before, nothing may be left of that one. */
static void work_for(struct backend *b, uint32_t client)
{
	int database = atoi(b->database + 2);
	bool is_begun = b->open && b->batch_is_known;

	b->batch_is_known = true;
	if (client == b->client)
		return;
	SIM_CHECK(b->tx == 'I' && !is_begun && !b->copies, "server %u, in state %c%s, was handed from client %u to client %u", b->pid, b->tx,
		  is_begun ? " within a batch" : "", b->client, client);
	SIM_CHECK(b->client == 0 || b->was_reset || plan.modes[database] != PLAN_SESSION, "server %u was handed on without a reset", b->pid);
	b->client = client;
	b->was_reset = false;
}

/* The pooler's own queries come between two clients, or between two transactions of one. */
static void work_for_pooler(struct backend *b)
{
	SIM_CHECK(b->tx == 'I' && !b->open && !b->copies, "the pooler interferes with client %u on server %u", b->client, b->pid);
}

static bool sleeps_first(struct backend *b, uint32_t milliseconds)
{
	if (!b->sleeps && milliseconds > 0) {
		b->sleeps = true;
		b->until = loop_now() + milliseconds * (USEC / 1000);
		actor_at(&b->actor, b->until);
		return true;
	}
	return false;
}

/* Executes. False: it has failed, and the error is said. `rows`: at most so many now (0: all). */
static bool execute(struct backend *b, const struct ask *ask, uint32_t client, uint32_t serial, struct portal *portal, uint32_t rows)
{
	char before = b->tx, tag[64], name[64];

	work_for(b, client);
	say_by_the_way(b);
	if (!ask_moves(ask, &b->tx)) {
		say_error(b, before == 'E' ? "25P02" : "22012", client, serial);
		return false;
	}
	switch (ask->verb) {
	case ASK_ROWS:
		for (uint32_t row = portal ? portal->row : 0, n = 0; row < ask->a; row++, n++) {
			if (rows > 0 && n == rows) {
				portal->row = row;
				say_short(b, 's');
				return true;
			}
			say_row(b, 'D', ask, client, serial, row);
		}
		if (portal)
			portal->row = ask->a;
		break;
	case ASK_SET:
		snprintf(name, sizeof(name), "n%u_%u", client, ask->a);
		set_value(b, 0, name, true);
		break;
	case ASK_COPY_OUT:
		say_copy_begin(b, 'H');
		for (uint32_t row = 0; row < ask->a; row++)
			say_row(b, 'd', ask, client, serial, row);
		say_short(b, 'c');
		break;
	case ASK_FORGET:
		forget_statements(b);
		break;
	case ASK_EMPTY:
		say_short(b, 'I');
		return true;
	case ASK_COPY_IN:
		b->copies = true;
		b->copies_simply = !portal;
		b->copy = *ask;
		b->copy_client = client;
		b->copy_serial = serial;
		b->copy_next = 0;
		say_copy_begin(b, 'G');
		return true;
	default:
		break;
	}
	ask_tag(ask, client, serial, before, tag, sizeof(tag));
	pg_build_command_complete(&b->out, tag);
	sim_counts.queries++;
	return true;
}

/* "SELECT pg_catalog.set_config('name',E'value',false),...;RESET name": how the pooler sets parameters. */
static void set_parameters(struct backend *b, const char *sql)
{
	char name[64], value[64];
	const char *at = sql;
	int i;

	work_for_pooler(b);
	for (; (at = strstr(at, "set_config('")) != NULL; at++) {
		at += strlen("set_config('");
		i = -1;
		if (sscanf(at, "%63[^']',%*[ E]'%63[^']'", name, value) == 2)
			i = parameter_of(name);
		else if (sscanf(at, "%63[^']',%*[ E]''", name) == 1 && (i = parameter_of(name)) >= 0)
			value[0] = '\0';
		if (i >= 0)
			set_value(b, i, value, true);
	}
	for (at = sql; (at = strstr(at, "RESET ")) != NULL;) {
		at += strlen("RESET ");
		if (sscanf(at, "%63[^;]", name) == 1 && (i = parameter_of(name)) >= 0)
			set_value(b, i, b->start_values[i], true);
	}
	if (strncmp(sql, "SELECT", 6) == 0) {
		struct ask row = { .verb = ASK_ROWS };

		say_row(b, 'D', &row, 0, 0, 0);
		pg_build_command_complete(&b->out, "SELECT 1");
	}
	if (strstr(sql, "RESET "))
		pg_build_command_complete(&b->out, "RESET");
}

/* What the pooler asks for itself. */
static void own_query(struct backend *b, const char *sql)
{
	if (strcmp(sql, "DISCARD ALL") == 0) {
		work_for_pooler(b);
		forget_statements(b);
		for (int i = 0; i < PARAMETERS; i++)
			set_value(b, i, b->start_values[i], true);
		b->was_reset = true;
		pg_build_command_complete(&b->out, "DISCARD ALL");
	} else if (strcmp(sql, "select 1") == 0) {
		work_for_pooler(b);
		pg_build_command_complete(&b->out, "SELECT 1");
	} else if (strstr(sql, "set_config(") || strncmp(sql, "RESET ", 6) == 0) {
		set_parameters(b, sql);
	} else {
		SIM_CHECK(false, "server %u was asked \"%s\"", b->pid, sql);
	}
}

static void query(struct backend *b, const char *sql)
{
	struct ask ask;
	const char *rest = ask_read(sql, &ask);

	forget_statement(b, "");
	if (!rest) {
		SIM_CHECK(!b->cancelled, "server %u was to cancel \"%s\", which is nobody's", b->pid, sql);
		own_query(b, sql);
		say_ready(b);
		return;
	}
	if (b->cancelled) {
		work_for(b, ask.client);
		if (b->tx == 'T')
			b->tx = 'E';
		say_error(b, "57014", ask.client, ask.serial);
		say_ready(b);
		return;
	}
	for (;;) {
		uint32_t client = ask.client ? ask.client : b->client;

		if (ask.verb == ASK_ROWS && (b->tx != 'E'))
			say_columns(b, &ask);
		if (!execute(b, &ask, client, ask.serial, NULL, 0))
			break;
		if (b->copies)
			return;
		if (*rest != ';' || !(rest = ask_read(rest + 1, &ask)))
			break;
	}
	say_ready(b);
}

/* ---- the extended protocol ---- */

static void fail(struct backend *b, const char *state, uint32_t client, uint32_t serial)
{
	if (b->tx == 'T')
		b->tx = 'E';
	b->skipping = true;
	say_error(b, state, client, serial);
}

static void parse(struct backend *b, const char *name, const char *sql)
{
	struct statement *s;
	struct ask ask;

	SIM_CHECK(ask_read(sql, &ask), "server %u was to prepare \"%s\"", b->pid, sql);
	if (ask.client)
		work_for(b, ask.client);
	if (b->tx == 'E' && !ask_works_in_failed(&ask)) {
		fail(b, "25P02", ask.client, ask.serial);
		return;
	}
	if (!*name)
		forget_statement(b, name);
	if (find_statement(b, name)) {
		fail(b, "42P05", ask.client, ask.serial);
		return;
	}
	s = mem_must(sizeof(*s));
	s->ask = ask;
	snprintf(s->name, sizeof(s->name), "%s", name);
	list_append(&b->statements, &s->node);
	say_short(b, '1');
}

static void bind_portal(struct backend *b, const char *body)
{
	const char *portal = body, *name = portal + strlen(portal) + 1;
	const uint8_t *rest = (const uint8_t *)name + strlen(name) + 1;
	struct statement *s = find_statement(b, name);
	char value[64] = "";
	uint32_t size;

	/* no formats, one parameter: "CLIENT.SERIAL" */
	SIM_CHECK(rest[0] == 0 && rest[1] == 0 && rest[2] == 0 && rest[3] == 1, "a Bind that no client has sent");
	size = sim_u32(rest + 4);
	SIM_CHECK(size < sizeof(value), "a Bind that no client has sent");
	memcpy(value, rest + 8, size);
	SIM_CHECK(sscanf(value, "%u.%u", &b->portal.client, &b->portal.serial) == 2, "a Bind that no client has sent");
	work_for(b, b->portal.client);
	if (!s) {
		fail(b, "26000", b->portal.client, b->portal.serial);
		return;
	}
	SIM_CHECK(s->ask.client == 0 || s->ask.client == b->portal.client, "client %u was bound to the statement of client %u",
		  b->portal.client, s->ask.client);
	if (b->tx == 'E' && !ask_works_in_failed(&s->ask)) {
		fail(b, "25P02", b->portal.client, b->portal.serial);
		return;
	}
	b->portal.is_bound = true;
	b->portal.ask = s->ask;
	b->portal.row = 0;
	say_short(b, '2');
}

static void describe(struct backend *b, char what, const char *name)
{
	struct statement *s = what == 'S' ? find_statement(b, name) : NULL;
	const struct ask *ask = what == 'S' ? s ? &s->ask : NULL : b->portal.is_bound ? &b->portal.ask : NULL;
	size_t mark;

	if (!ask) {
		fail(b, what == 'S' ? "26000" : "34000", 0, 0);
		return;
	}
	if (what == 'S') {
		mark = pg_begin(&b->out, 't');
		bytes_append_u16(&b->out, 1);
		bytes_append_u32(&b->out, ask->serial);
		pg_end(&b->out, mark);
	}
	if (ask->verb == ASK_ROWS)
		say_columns(b, ask);
	else
		say_short(b, 'n');
}

/* False: it sleeps over it. */
static bool execute_portal(struct backend *b, const uint8_t *body)
{
	struct portal *p = &b->portal;
	uint32_t rows = sim_u32(body + strlen((const char *)body) + 1);

	if (!p->is_bound) {
		fail(b, "34000", 0, 0);
		return true;
	}
	if (sleeps_first(b, p->row == 0 ? p->ask.milliseconds : 0))
		return false;
	b->sleeps = false;
	if (b->cancelled) {
		fail(b, "57014", p->client, p->serial);
		return true;
	}
	if (!execute(b, &p->ask, p->client, p->serial, p, rows))
		b->skipping = true;
	return true;
}

/* By CopyDone, CopyFail, or a message that is not understood ('d'). */
static void end_copy(struct backend *b, char type)
{
	char tag[64];

	b->copies = false;
	if (type == 'c') {
		SIM_CHECK(b->copy_next == b->copy.a, "%u of %u messages of COPY have come", b->copy_next, b->copy.a);
		ask_tag(&b->copy, b->copy_client, b->copy_serial, b->tx, tag, sizeof(tag));
		pg_build_command_complete(&b->out, tag);
		sim_counts.copies++;
	} else if (b->copies_simply) {
		if (b->tx == 'T')
			b->tx = 'E';
		say_error(b, type == 'd' ? "22P04" : "57014", b->copy_client, b->copy_serial);
	} else {
		fail(b, type == 'd' ? "22P04" : "57014", b->copy_client, b->copy_serial);
	}
	if (b->copies_simply)
		say_ready(b);
}

static void copy_message(struct backend *b, char type, const uint8_t *body, uint32_t size)
{
	char text[64] = "";
	uint32_t client, serial, row;

	if (type == 'H' || type == 'S')
		return;			/* as PostgreSQL does: so that a pipeline may be sent into a COPY */
	if (type == 'c' || type == 'f') {
		end_copy(b, type);
		return;
	}
	SIM_CHECK(type == 'd', "message %c within a COPY", type);
	memcpy(text, body, size < sizeof(text) ? size : sizeof(text) - 1);
	SIM_CHECK(sscanf(text, "%u.%u.%u", &client, &serial, &row) == 3 && client == b->copy_client && serial == b->copy_serial &&
		  row == b->copy_next, "COPY of %u.%u.%u got \"%s\"", b->copy_client, b->copy_serial, b->copy_next, text);
	if (b->copy.b == ASK_COPY_BAD && row == ask_bad_row(&b->copy))
		end_copy(b, 'd');
	b->copy_next++;
}

static uint32_t sleep_of(const struct backend *b, const char *sql)
{
	struct ask ask;

	if (ask_read(sql, &ask))
		return ask.milliseconds;
	/* the pooler's own queries take time as well */
	return !sim_is_calm && !b->sleeps && chance_one_in(8) ? (uint32_t)chance_spread(1, 300) : 0;
}

/* False: it sleeps over this message and will come back to it. */
static bool message(struct backend *b, char type, const uint8_t *body, uint32_t size)
{
	const char *text = (const char *)body;

	if (b->copies) {
		copy_message(b, type, body, size);
		return true;
	}
	if (b->skipping && type != 'S')
		return true;
	switch (type) {
	case 'Q':
		if (sleeps_first(b, sleep_of(b, text)))
			return false;
		b->sleeps = false;
		query(b, text);
		break;
	case 'P':
		parse(b, text, text + strlen(text) + 1);
		break;
	case 'B':
		bind_portal(b, text);
		break;
	case 'D':
		describe(b, text[0], text + 1);
		break;
	case 'E':
		if (!execute_portal(b, body))
			return false;
		break;
	case 'C':
		if (text[0] == 'S')
			forget_statement(b, text + 1);
		else
			b->portal.is_bound = false;
		say_short(b, '3');
		break;
	case 'S':
		say_ready(b);
		break;
	case 'H':
		flush(b);
		break;
	case 'd':
	case 'c':
	case 'f':
		break;			/* left over from a COPY that has failed */
	default:
		SIM_CHECK(false, "server %u got a message %c", b->pid, type);
	}
	b->open |= strchr("PBDEC", type) != NULL;
	b->cancelled = false;
	return true;
}

/* ---- acting ---- */

/* False: it has died. */
static bool put_out(struct backend *b)
{
	size_t most = b->may_send, put;

	if (b->dies_after >= 0 && (int64_t)most > b->dies_after)
		most = (size_t)b->dies_after;
	put = most > 0 ? wire_put(b->wire, bytes_front(&b->out), most) : 0;
	bytes_consume(&b->out, put);
	b->may_send -= put;
	if (b->dies_after < 0)
		return true;
	b->dies_after -= (int64_t)put;
	if (b->dies_after > 0 || (b->phase == PHASE_DEAF && b->may_send > 0))
		return true;
	if (b->phase != PHASE_DEAF)
		sim_counts.server_faults++;
	backend_end(b, b->phase != PHASE_DEAF && chance_one_in(2));
	return false;
}

/* One message. False: there is none that can be dealt with now. */
static bool take_message(struct backend *b)
{
	bool typed = b->phase != PHASE_STARTUP;
	size_t here, header = typed ? 5 : 4;
	const uint8_t *at = wire_come(b->wire, &here);
	uint32_t size;
	uint8_t *copy;
	bool done = true;

	if (b->phase == PHASE_DEAF || here < header || bytes_size(&b->out) > 4 * BUFFER)
		return false;
	if (b->sleeps && !b->cancelled && loop_now() < b->until)
		return false;
	size = sim_u32(at + header - 4) + (typed ? 1 : 0);
	SIM_CHECK(size >= header && size < 10000000, "server %u got a message of %u bytes", b->pid, size);
	if (here < size) {
		wire_set_room(b->wire, 65536, size > 65536 ? size : 65536);
		return false;
	}
	copy = mem_must(size + 1);
	memcpy(copy, at, size);
	if (!typed) {
		read_startup(b, copy, size);
	} else if (b->phase == PHASE_PASSWORD) {
		SIM_CHECK(*copy == 'p', "server %u got no password", b->pid);
		welcome(b);
	} else if (*copy == 'X') {
		/* what it has not flushed is never sent */
		b->phase = PHASE_DEAF;
		b->dies_after = (int64_t)b->may_send;
	} else {
		SIM_TRACE("server %u <- %c %.60s", b->pid, *copy, (char *)copy + 5);
		done = message(b, (char)*copy, copy + 5, size - 5);
	}
	mem_free(copy);
	if (done)
		wire_take(b->wire, size);
	return done;
}

static void act(struct actor *actor)
{
	struct backend *b = SIM_OBJECT(actor, struct backend, actor);

	while (take_message(b))
		;
	if (wire_is_gone(b->wire) || (wire_has_ended(b->wire) && !b->sleeps && bytes_size(&b->out) == 0 && b->phase != PHASE_DEAF)) {
		backend_end(b, false);
		return;
	}
	if (put_out(b) && b->sleeps && b->until > loop_now())
		actor_at(&b->actor, b->until);
}

/* ---- hosts ---- */

/* Everybody is sent away, with words or without. */
static void restart(int host)
{
	LIST_EACH_SAFE(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->host != host || b->phase != PHASE_READY)
			continue;
		sim_counts.server_faults++;
		if (chance_one_in(3)) {
			backend_end(b, chance_one_in(2));
			continue;
		}
		SIM_TRACE("server %u shuts down", b->pid);
		refuse(b, "57P01", "terminating connection due to administrator command");
		actor_notice(&b->actor);
	}
}

static void weather(struct actor *actor)
{
	struct host *h = SIM_OBJECT(actor, struct host, weather);
	int i = (int)(h - hosts);

	h->mood = MOOD_GOOD;
	if (sim_is_calm || !plan.faulty_servers)
		return;
	if (chance_one_in(2)) {
		h->mood = (enum mood)chance_below(MOODS);
		if (h->mood != MOOD_GOOD && chance_one_in(2))
			restart(i);
		sim_counts.server_faults++;
		SIM_TRACE("host %d has mood %d", i, (int)h->mood);
	}
	actor_at(actor, loop_now() + (h->mood == MOOD_GOOD ? chance_spread(USEC, 600 * USEC) : chance_spread(USEC, 60 * USEC)));
}

static const struct wire_hosts reception = { asked, connected };

void backends_begin(void)
{
	list_init(&backends);
	last_pid = 1000;
	for (int i = 0; i < PLAN_HOSTS; i++) {
		hosts[i].mood = MOOD_GOOD;
		actor_init(&hosts[i].weather, weather, 0);
		actor_at(&hosts[i].weather, loop_now() + chance_spread(0, 100 * USEC));
	}
	wire_begin(&reception);
}

void backends_calm(void)
{
	for (int i = 0; i < PLAN_HOSTS; i++)
		hosts[i].mood = MOOD_GOOD;
	LIST_EACH(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->phase == PHASE_READY)
			b->dies_after = -1;
	}
}

int backends_open(void)
{
	int count = 0;

	LIST_EACH(node, &backends)
		count++;
	return count;
}

bool backends_are_at_rest(char *why, size_t size)
{
	LIST_EACH(node, &backends) {
		const struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->phase == PHASE_READY && (b->tx != 'I' || b->open || b->copies)) {
			snprintf(why, size, "server %u is in state %c, last with client %u", b->pid, b->tx, b->client);
			return false;
		}
	}
	return true;
}

void backends_end(void)
{
	while (!list_is_empty(&backends))
		backend_end(SIM_OBJECT(backends.next, struct backend, node), false);
	for (int i = 0; i < PLAN_HOSTS; i++)
		actor_rest(&hosts[i].weather);
}
