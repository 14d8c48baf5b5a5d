/*
 * Requests of clients at a fake server: simple queries, the extended protocol, COPY, function calls. The statements and portals of a session are kept
 * here.
 *
 * Invariant: the first message of a batch that names the client determines the client; no other client sends messages until the batch is over.
 */
#include "backend.h"

#include "base/mem.h"
#include "chance.h"
#include "pg/build.h"
#include "roles.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* pgweir's own statement behind the BEGIN of a client whose first request was cancelled before it had a server */
#define ABORTS " ROLLBACK TO "

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

void backend_forget(struct backend *b, const char *name)
{
	struct statement *s = find_statement(b, name);

	if (!s)
		return;
	list_remove(&s->node);
	mem_free(s);
}

void backend_forget_all(struct backend *b)
{
	while (!list_is_empty(&b->statements)) {
		struct statement *s = SIM_OBJECT(b->statements.next, struct statement, node);

		list_remove(&s->node);
		mem_free(s);
	}
}

/* ---- portals ---- */

static struct portal *find_portal(struct backend *b, const char *name)
{
	for (int i = 0; i < PORTALS_MOST; i++)
		if (b->portals[i].is_bound && strcmp(b->portals[i].name, name) == 0)
			return &b->portals[i];
	return NULL;
}

/* Returns a place for a portal; NULL: a portal of this name exists. The unnamed portal may be bound again. */
static struct portal *new_portal(struct backend *b, const char *name)
{
	struct portal *p = find_portal(b, name);

	if (p)
		return *name ? NULL : p;
	for (int i = *name ? 1 : 0; i < PORTALS_MOST; i++) {
		p = &b->portals[i];
		if (p->is_bound)
			continue;
		*p = (struct portal){ .is_bound = false };
		snprintf(p->name, sizeof(p->name), "%s", name);
		return p;
	}
	SIM_CHECK(false, "server %u has too many portals", b->pid);
}

void backend_drop_portals(struct backend *b)
{
	for (int i = 0; i < PORTALS_MOST; i++)
		b->portals[i].is_bound = false;
}

/* ---- the client that it works for ---- */

void backend_work_for(struct backend *b, uint32_t client)
{
	int database = atoi(b->database + 2);
	bool is_begun = b->open && b->batch_is_known;

	b->batch_is_known = b->has_worked = true;
	if (client == b->client)
		return;
	SIM_CHECK(!b->replication[0], "server %u, which is for the replication of client %u alone, was handed to client %u", b->pid,
		  b->client, client);
	SIM_CHECK(b->tx == 'I' && !is_begun && !b->copies, "server %u, in state %c%s, was handed from client %u to client %u", b->pid, b->tx,
		  is_begun ? " within a batch" : "", b->client, client);
	SIM_CHECK(b->client == 0 || b->was_reset || !b->has_session, "server %u was handed on without a reset", b->pid);
	SIM_CHECK(b->role == 0, "server %u acts as client %u for client %u", b->pid, b->role, client);
	b->has_session = plan.modes[database] == PLAN_SESSION;
	b->client = client;
	b->was_reset = false;
}

bool backend_sleeps_first(struct backend *b, uint32_t milliseconds)
{
	if (!b->sleeps && milliseconds > 0) {
		b->sleeps = true;
		b->until = loop_now() + milliseconds * (USEC / 1000);
		actor_at(&b->actor, b->until);
		return true;
	}
	return false;
}

/* Executes. Returns false if the request failed and the error was sent. `rows`: at most this number now (0: all). */
static bool execute(struct backend *b, const struct ask *ask, uint32_t client, uint32_t serial, struct portal *portal, uint32_t rows)
{
	char before = b->tx, tag[64], name[64];

	backend_work_for(b, client);
	backend_send_async_messages(b);
	if (!ask_moves(ask, &b->tx)) {
		backend_error(b, before == 'E' ? "25P02" : "22012", client, serial);
		return false;
	}
	/* a BEGIN that was held back has no effect, and goes to the next server, too */
	if (plan.has_roles && ask->verb != ASK_READ && (!portal || (ask->verb == ASK_ROWS && ask->a > 0 && portal->row == 0)))
		roles_judge_executed(b, client, serial);
	/* an empty query shows no data: pgweir checks servers with one */
	if (plan.has_roles && ask->verb != ASK_EMPTY)
		roles_judge_read(b, client, serial);
	switch (ask->verb) {
	case ASK_ROWS:
		for (uint32_t row = portal ? portal->row : 0, n = 0; row < ask->a; row++, n++) {
			if (rows > 0 && n == rows) {
				portal->row = row;
				backend_say(b, 's');
				return true;
			}
			backend_row(b, 'D', ask, client, serial, row);
		}
		if (portal)
			portal->row = ask->a;
		break;
	case ASK_SET:
		snprintf(name, sizeof(name), "n%u_%u", client, ask->a);
		backend_set(b, 0, name, true);
		break;
	case ASK_ROLE:
		b->role = client;
		break;
	case ASK_COPY_OUT:
		backend_copy_begin(b, 'H');
		for (uint32_t row = 0; row < ask->a; row++)
			backend_row(b, 'd', ask, client, serial, row);
		backend_say(b, 'c');
		break;
	case ASK_FORGET:
		backend_forget_all(b);
		break;
	case ASK_EMPTY:
		backend_say(b, 'I');
		return true;
	case ASK_STREAM:
		stream_begin(b, ask);
		return true;
	case ASK_COPY_IN:
		b->copies = true;
		b->copies_simply = !portal;
		b->copy = *ask;
		b->copy_client = client;
		b->copy_serial = serial;
		b->copy_next = 0;
		backend_copy_begin(b, 'G');
		return true;
	default:
		break;
	}
	if (b->tx == 'I' && before != 'I')
		backend_drop_portals(b);
	ask_tag(ask, client, serial, before, tag, sizeof(tag));
	pg_build_string(&b->out, 'C', tag);
	sim_counts.queries++;
	return true;
}

static void query(struct backend *b, const char *sql)
{
	struct ask ask;
	const char *rest = ask_read(sql, &ask);

	backend_forget(b, "");
	if (!rest) {
		SIM_CHECK(!b->cancelled, "server %u was to cancel \"%s\", which is nobody's", b->pid, sql);
		backend_own_query(b, sql);
		backend_ready(b);
		return;
	}
	if (b->cancelled) {
		backend_work_for(b, ask.client);
		if (b->tx == 'T')
			b->tx = 'E';
		backend_error(b, "57014", ask.client, ask.serial);
		backend_ready(b);
		return;
	}
	for (;;) {
		uint32_t client = ask.client ? ask.client : b->client;

		if (ask.verb == ASK_ROWS && (b->tx != 'E'))
			backend_columns(b, &ask);
		if (!execute(b, &ask, client, ask.serial, NULL, 0))
			break;
		if (b->copies || b->streams)
			return;
		if (*rest == ';' && strncmp(rest + 1, ABORTS, strlen(ABORTS)) == 0) {
			b->tx = 'E';
			backend_error(b, "3B001", 0, 0);
			break;
		}
		if (*rest != ';' || !(rest = ask_read(rest + 1, &ask)))
			break;
	}
	backend_ready(b);
}

/* ---- the extended protocol ---- */

void backend_fail(struct backend *b, const char *state, uint32_t client, uint32_t serial)
{
	if (b->tx == 'T')
		b->tx = 'E';
	b->skipping = true;
	backend_error(b, state, client, serial);
}

static void parse(struct backend *b, const char *name, const char *sql, const uint8_t *body, uint32_t size)
{
	struct statement *s;
	struct ask ask;

	SIM_CHECK(!b->replication[0], "server %u replicates, and knows no extended protocol", b->pid);
	if (backend_own_question(body, size)) {
		backend_own_is_left(b, body, size);
		return;
	}
	if (!ask_read(sql, &ask)) {
		backend_own_parse(b, name, sql);
		return;
	}
	if (ask.client)
		backend_work_for(b, ask.client);
	if (b->tx == 'E' && !ask_works_in_failed(&ask)) {
		backend_fail(b, "25P02", ask.client, ask.serial);
		return;
	}
	if (!*name)
		backend_forget(b, name);
	if (find_statement(b, name)) {
		backend_fail(b, "42P05", ask.client, ask.serial);
		return;
	}
	s = mem_must(sizeof(*s));
	s->ask = ask;
	snprintf(s->name, sizeof(s->name), "%s", name);
	list_append(&b->statements, &s->node);
	backend_say(b, '1');
}

static void bind_portal(struct backend *b, const char *body)
{
	const char *portal = body, *name = portal + strlen(portal) + 1;
	const uint8_t *rest = (const uint8_t *)name + strlen(name) + 1;
	struct statement *s = find_statement(b, name);
	uint32_t size, client, serial;
	struct portal *p;
	char value[64] = "";

	if (b->own != OWN_NOT && !*name) {
		backend_own_bind(b, rest);
		return;
	}
	/* no formats, one parameter: "CLIENT.SERIAL" */
	SIM_CHECK(rest[0] == 0 && rest[1] == 0 && rest[2] == 0 && rest[3] == 1, "a Bind that no client has sent");
	size = sim_u32(rest + 4);
	SIM_CHECK(size < sizeof(value), "a Bind that no client has sent");
	memcpy(value, rest + 8, size);
	SIM_CHECK(sscanf(value, "%u.%u", &client, &serial) == 2, "a Bind that no client has sent");
	backend_work_for(b, client);
	if (!s) {
		backend_fail(b, "26000", client, serial);
		return;
	}
	SIM_CHECK(s->ask.client == 0 || s->ask.client == client, "client %u was bound to the statement of client %u", client, s->ask.client);
	p = b->tx == 'E' && !ask_works_in_failed(&s->ask) ? NULL : new_portal(b, portal);
	if (!p) {
		backend_fail(b, b->tx == 'E' ? "25P02" : "42P03", client, serial);
		return;
	}
	p->is_bound = true;
	p->ask = s->ask;
	p->client = client;
	p->serial = serial;
	p->row = 0;
	backend_say(b, '2');
}

static void describe(struct backend *b, char what, const char *name)
{
	struct statement *s = what == 'S' ? find_statement(b, name) : NULL;
	struct portal *p = what == 'P' ? find_portal(b, name) : NULL;
	const struct ask *ask = s ? &s->ask : p ? &p->ask : NULL;
	size_t mark;

	if (b->own != OWN_NOT) {
		backend_own_describe(b);
		return;
	}
	if (!ask) {
		backend_fail(b, what == 'S' ? "26000" : "34000", 0, 0);
		return;
	}
	if (what == 'S') {
		mark = pg_begin(&b->out, 't');
		bytes_append_u16(&b->out, 1);
		bytes_append_u32(&b->out, ask->serial);
		pg_end(&b->out, mark);
	}
	if (ask->verb == ASK_ROWS)
		backend_columns(b, ask);
	else
		backend_say(b, 'n');
}

/* False: it sleeps over it. */
static bool execute_portal(struct backend *b, const uint8_t *body)
{
	struct portal *p = find_portal(b, (const char *)body);
	uint32_t rows = sim_u32(body + strlen((const char *)body) + 1);

	if (b->own != OWN_NOT)
		return backend_own_execute(b, rows);
	if (!p) {
		backend_fail(b, "34000", 0, 0);
		return true;
	}
	if (backend_sleeps_first(b, p->row == 0 ? p->ask.milliseconds : 0))
		return false;
	b->sleeps = false;
	if (b->cancelled) {
		backend_fail(b, "57014", p->client, p->serial);
		return true;
	}
	if (!execute(b, &p->ask, p->client, p->serial, p, rows))
		b->skipping = true;
	return true;
}

static void close_portal(struct backend *b, const char *name)
{
	struct portal *p = find_portal(b, name);

	if (p)
		p->is_bound = false;
	backend_say(b, '3');
}

/* ---- function calls ---- */

/* Calls the function of one argument, which is a request. Returns false if the request sleeps. */
static bool call(struct backend *b, const uint8_t *body, uint32_t size)
{
	/* the function; no formats, one argument of this length, the result as text */
	const uint8_t *at = body + 12;
	char text[128] = "", before = b->tx;
	struct ask ask;

	SIM_CHECK(size > 14 && size - 14 < sizeof(text) && body[5] == 0 && body[7] == 1 && sim_u32(body + 8) == size - 14,
		  "a FunctionCall that no client has sent");
	memcpy(text, at, size - 14);
	SIM_CHECK(ask_read(text, &ask) && ask.client, "a FunctionCall that no client has sent");
	backend_work_for(b, ask.client);
	if (backend_sleeps_first(b, ask.milliseconds))
		return false;
	b->sleeps = false;
	if (b->cancelled) {
		if (b->tx == 'T')
			b->tx = 'E';
		backend_error(b, "57014", ask.client, ask.serial);
	} else if (!ask_moves(&ask, &b->tx)) {
		backend_error(b, before == 'E' ? "25P02" : "22012", ask.client, ask.serial);
	} else {
		backend_row(b, 'V', &ask, ask.client, ask.serial, 0);
		sim_counts.calls++;
	}
	backend_ready(b);
	return true;
}

/* ---- COPY ---- */

/* By CopyDone, CopyFail, or a message that is not understood ('d'). */
static void end_copy(struct backend *b, char type)
{
	char tag[64];

	b->copies = false;
	if (type == 'c') {
		SIM_CHECK(b->copy_next == b->copy.a, "%u of %u messages of COPY have come", b->copy_next, b->copy.a);
		ask_tag(&b->copy, b->copy_client, b->copy_serial, b->tx, tag, sizeof(tag));
		pg_build_string(&b->out, 'C', tag);
		sim_counts.copies++;
	} else if (b->copies_simply) {
		if (b->tx == 'T')
			b->tx = 'E';
		backend_error(b, type == 'd' ? "22P04" : "57014", b->copy_client, b->copy_serial);
	} else {
		backend_fail(b, type == 'd' ? "22P04" : "57014", b->copy_client, b->copy_serial);
	}
	if (b->copies_simply)
		backend_ready(b);
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
	if (type == 'P' && (backend_own_question(body, size) || strcmp((const char *)body + strlen((const char *)body) + 1, "ROLLBACK") == 0)) {
		backend_refuse(b, "08P01", "terminating connection because protocol synchronization was lost");
		return;
	}
	SIM_CHECK(type == 'd', "message %c within a COPY", type);
	/* the client has left within this message, and the pooler has completed it */
	if (size > 0 && body[size - 1] == 0) {
		end_copy(b, 'd');
		return;
	}
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

bool backend_message(struct backend *b, char type, const uint8_t *body, uint32_t size)
{
	const char *text = (const char *)body;

	if (b->copies || b->streams) {
		if (b->copies)
			copy_message(b, type, body, size);
		else
			stream_message(b, type, body, size);
		return true;
	}
	if (b->skipping && type != 'S')
		return true;
	switch (type) {
	case 'Q':
		if (backend_sleeps_first(b, sleep_of(b, text)))
			return false;
		b->sleeps = false;
		query(b, text);
		break;
	case 'P':
		parse(b, text, text + strlen(text) + 1, body, size);
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
		if (text[0] == 'P') {
			close_portal(b, text + 1);
			break;
		}
		backend_forget(b, text + 1);
		backend_say(b, '3');
		break;
	case 'F':
		if (!call(b, body, size))
			return false;
		break;
	case 'S':
		backend_ready(b);
		break;
	case 'H':
		backend_flush(b);
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
