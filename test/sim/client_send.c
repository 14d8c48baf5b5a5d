/*
 * The messages of a fake client. Each message is added to the list of pending answers, and its outcome is planned: which part of a job will fail, and
 * the state of the session afterwards.
 *
 * Invariant: `planned` is the state that `now` will have after all pending answers, if nothing is cancelled.
 */
#include "base/mem.h"
#include "chance.h"
#include "client.h"
#include "pg/build.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

/* ---- the plan ---- */

static struct want *add_want(struct guest *c, char type)
{
	struct want *w = &c->wants[(c->first_want + c->want_count) % WANTS_MOST];

	SIM_CHECK(c->want_count < WANTS_MOST, "a job too large");
	c->want_count++;
	*w = (struct want){ .type = type, .name = -1, .count = 1 };
	if (c->want_count == 1)
		c->asked_at = loop_now();
	return w;
}

/* Drops portals after a Sync or a Query, outside of a transaction and in a failed one. */
static void drop_planned_portals(struct guest *c)
{
	for (int i = 0; i < PORTALS && c->planned.tx != 'T'; i++)
		c->planned.portals[i].is_there = false;
}

/* Writes over four bytes that have been appended before. */
static void put_u32(struct bytes *out, size_t at, uint32_t value)
{
	uint8_t *to = out->data + out->start + at;

	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void plan_ask(struct guest *c, const struct ask *ask, bool simple)
{
	if (c->plan_skips)
		return;
	if (!ask_moves(ask, &c->planned.tx)) {
		c->plan_skips = !simple;
		return;
	}
	if (ask->verb == ASK_COPY_IN && ask->b != ASK_COPY_WHOLE) {
		c->planned.tx = c->planned.tx == 'T' ? 'E' : c->planned.tx;
		c->plan_skips = !simple;
	}
	if (ask->verb == ASK_FORGET) {
		memset(c->planned.names, 0, sizeof(c->planned.names));
		c->planned.unnamed.is_there = false;
	}
	if (ask->verb == ASK_COMMIT || ask->verb == ASK_ROLLBACK)
		drop_planned_portals(c);
}

/* ---- messages ---- */

void client_copy_data(struct guest *c, const struct ask *ask, uint32_t serial, int inner)
{
	size_t mark;

	for (uint32_t row = 0; row <= ask->a; row++) {
		if ((int)row == inner)
			pg_end(&c->out, pg_begin(&c->out, 'S'));
		if (row == ask->a)
			break;
		mark = pg_begin(&c->out, 'd');
		bytes_append_format(&c->out, "%u.%u.%u", c->number, serial, row);
		for (uint32_t i = 0; i < serial % 50; i++)
			bytes_append_u8(&c->out, ' ');
		pg_end(&c->out, mark);
		if (chance_one_in(30))
			pg_end(&c->out, pg_begin(&c->out, 'H'));
	}
	mark = pg_begin(&c->out, ask->b == ASK_COPY_GIVEN_UP ? 'f' : 'c');
	if (ask->b == ASK_COPY_GIVEN_UP)
		bytes_append_string(&c->out, "given up");
	pg_end(&c->out, mark);
}

/*
 * Sends the data directly after the request, occasionally with a Sync among the data. A server ignores such a Sync during the COPY; a server that has
 * not begun the COPY, or has failed before it, answers the Sync and executes the following messages. `runs`: the COPY will begin.
 */
static void send_data_at_once(struct guest *c, const struct ask *ask, uint32_t serial, bool runs)
{
	/* not if the pooler tracks statement names: when it loses its ledger, it may have lost some names */
	bool may = !plan.prepares || (plan.modes[c->database] == PLAN_SESSION && !plan.modes_change);
	int inner = may && chance_one_in(6) ? (int)chance_below(ask->a + 1) : -1;
	struct want *w;

	client_copy_data(c, ask, serial, inner);
	if (inner < 0)
		return;
	w = add_want(c, 'S');
	w->is_inner = true;
	w->row = (uint32_t)inner;
	if (!runs || (ask->b == ASK_COPY_BAD && w->row > ask_bad_row(ask))) {
		c->plan_skips = c->is_open = false;
		drop_planned_portals(c);
	}
}

void client_send_query(struct guest *c, const struct ask *asks, int count)
{
	struct want *w = add_want(c, 'Q');
	size_t mark = pg_begin(&c->out, 'Q');
	bool runs = !c->plan_skips && c->planned.tx != 'E';

	w->count = count;
	w->serial = asks[0].serial;
	for (int i = 0; i < count; i++) {
		w->asks[i] = asks[i];
		if (i > 0)
			bytes_append_u8(&c->out, ';');
		ask_write(&c->out, &asks[i]);
	}
	bytes_append_u8(&c->out, 0);
	pg_end(&c->out, mark);
	SIM_TRACE("client %u asks %u, verb %d", c->number, w->serial, (int)asks[0].verb);
	if (!c->plan_skips)
		c->planned.unnamed.is_there = false;
	for (int i = 0; i < count; i++) {
		struct view before = c->planned;

		plan_ask(c, &asks[i], true);
		/* nothing after the first failure is executed */
		if (!ask_moves(&asks[i], &before.tx) || (asks[i].verb == ASK_COPY_IN && asks[i].b != ASK_COPY_WHOLE))
			break;
	}
	w->is_eager = asks[0].verb == ASK_COPY_IN;
	drop_planned_portals(c);
	c->data_begins = bytes_size(&c->out);
	if (w->is_eager)
		send_data_at_once(c, &asks[0], asks[0].serial, runs);
}

static void name_of(const struct guest *c, int name, char *buf, size_t size)
{
	(void)c;
	if (name < 0)
		buf[0] = '\0';
	else
		snprintf(buf, size, "s%d", name);
}

static void portal_name(int portal, char *buf, size_t size)
{
	if (portal == 0)
		buf[0] = '\0';
	else
		snprintf(buf, size, "p%d", portal);
}

struct named *client_planned_statement(struct guest *c, int name)
{
	return name < 0 ? &c->planned.unnamed : &c->planned.names[name];
}

void client_send_parse(struct guest *c, int name, const struct ask *ask)
{
	struct want *w = add_want(c, 'P');
	size_t mark = pg_begin(&c->out, 'P');
	char text[32];

	w->name = name;
	w->asks[0] = *ask;
	w->serial = ask->serial;
	name_of(c, name, text, sizeof(text));
	bytes_append_string(&c->out, text);
	ask_write(&c->out, ask);
	bytes_append_u8(&c->out, 0);
	bytes_append_u16(&c->out, 0);
	pg_end(&c->out, mark);
	c->is_open = true;
	SIM_TRACE("client %u prepares \"%s\" %u.%u", c->number, text, ask->client, ask->serial);
	if (!c->plan_skips && c->planned.tx == 'E' && !ask_works_in_failed(ask))
		c->plan_skips = true;
	if (!c->plan_skips)
		*client_planned_statement(c, name) = (struct named){ .is_there = true, .ask = *ask };
}

void client_send_bind(struct guest *c, int name, const struct ask *ask, int portal)
{
	struct want *w = add_want(c, 'B');
	size_t mark = pg_begin(&c->out, 'B');
	char text[32], value[32];
	int size;

	w->name = name;
	w->portal = portal;
	w->asks[0] = *ask;
	w->serial = ++c->serial;
	portal_name(portal, text, sizeof(text));
	bytes_append_string(&c->out, text);
	name_of(c, name, text, sizeof(text));
	bytes_append_string(&c->out, text);
	size = snprintf(value, sizeof(value), "%u.%u", c->number, w->serial);
	bytes_append_u16(&c->out, 0);
	bytes_append_u16(&c->out, 1);
	bytes_append_u32(&c->out, (uint32_t)size);
	bytes_append(&c->out, value, (size_t)size);
	bytes_append_u16(&c->out, 0);
	pg_end(&c->out, mark);
	c->is_open = true;
	if (!c->plan_skips && c->planned.tx == 'E' && !ask_works_in_failed(ask))
		c->plan_skips = true;
	/* if the Bind is skipped, its effects are skipped too */
	c->planned.portals[portal] = (struct held){ .is_there = !c->plan_skips, .ask = *ask, .serial = w->serial };
}

void client_send_named(struct guest *c, char type, char what, int name, const struct ask *ask, int portal)
{
	struct want *w = add_want(c, type);
	size_t mark = pg_begin(&c->out, (uint8_t)type);
	char text[32];

	w->what = what;
	w->name = name;
	w->asks[0] = *ask;
	w->portal = portal;
	if (what == 'S')
		name_of(c, name, text, sizeof(text));
	else
		portal_name(portal, text, sizeof(text));
	bytes_append_u8(&c->out, (uint8_t)what);
	bytes_append_string(&c->out, text);
	pg_end(&c->out, mark);
	c->is_open = true;
	if (type == 'C' && what == 'S' && !c->plan_skips)
		*client_planned_statement(c, name) = (struct named){ .is_there = false, .ask = *ask };
	if (type == 'C' && what == 'P' && !c->plan_skips)
		c->planned.portals[portal].is_there = false;
}

void client_send_execute(struct guest *c, int portal, uint32_t rows)
{
	struct want *w = add_want(c, 'E');
	size_t mark = pg_begin(&c->out, 'E');
	bool runs = !c->plan_skips && c->planned.tx != 'E';
	struct held *held = &c->planned.portals[portal];
	char text[32];

	w->most = rows;
	w->portal = portal;
	w->asks[0] = held->ask;
	w->serial = held->serial;
	w->is_eager = true;
	portal_name(portal, text, sizeof(text));
	bytes_append_string(&c->out, text);
	bytes_append_u32(&c->out, rows);
	pg_end(&c->out, mark);
	c->is_open = true;
	plan_ask(c, &held->ask, false);
	if (runs)
		held->row = rows > 0 && held->row + rows < held->ask.a ? held->row + rows : held->ask.a;
	if (held->ask.verb == ASK_COPY_IN)
		send_data_at_once(c, &held->ask, held->serial, runs);
}

void client_send_sync(struct guest *c)
{
	add_want(c, 'S');
	pg_end(&c->out, pg_begin(&c->out, 'S'));
	c->is_open = c->plan_skips = false;
	drop_planned_portals(c);
}

void client_send_flush(struct guest *c)
{
	pg_end(&c->out, pg_begin(&c->out, 'H'));
}

/* A function call: of one function; its argument is a question. */
void client_send_call(struct guest *c, const struct ask *ask)
{
	struct want *w = add_want(c, 'F');
	size_t mark = pg_begin(&c->out, 'F'), length;

	w->asks[0] = *ask;
	w->serial = ask->serial;
	bytes_append_u32(&c->out, 4711);
	bytes_append_u16(&c->out, 0);
	bytes_append_u16(&c->out, 1);
	length = bytes_size(&c->out);
	bytes_append_u32(&c->out, 0);
	ask_write(&c->out, ask);
	put_u32(&c->out, length, (uint32_t)(bytes_size(&c->out) - length - 4));
	bytes_append_u16(&c->out, 0);
	pg_end(&c->out, mark);
	SIM_TRACE("client %u calls %u, verb %d", c->number, w->serial, (int)ask->verb);
	plan_ask(c, ask, true);
	drop_planned_portals(c);
}

void client_report(struct guest *c, struct want *w, bool is_done)
{
	size_t mark = pg_begin(&c->out, is_done ? 'c' : 'd');

	if (is_done)
		w->said_done = true;
	else
		bytes_append_format(&c->out, "report %u.%u.%u", c->number, w->serial, w->reports++);
	pg_end(&c->out, mark);
}
