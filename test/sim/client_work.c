/*
 * What a fake client asks for. A job is a few messages that are sent together, so that one read of the pooler's may bring
 * any part of them. Everything about a job is planned: which part of it will fail, and what the session is like behind it.
 *
 * Invariant: `planned` is what `now` will be when all that was sent has been answered, if nothing is cancelled.
 */
#include "base/mem.h"
#include "chance.h"
#include "client.h"
#include "pg/build.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define SHARED_TEXTS 5

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

static struct ask draw_ask(struct guest *c, enum ask_verb verb)
{
	struct ask ask = { .client = c->number, .serial = ++c->serial, .verb = verb };

	if (verb == ASK_ROWS || verb == ASK_COPY_OUT || verb == ASK_COPY_IN)
		ask.a = (uint32_t)chance_spread(0, 20);
	if (verb == ASK_ROWS || verb == ASK_COPY_OUT)
		ask.b = (uint32_t)chance_spread(0, chance_one_in(100) ? 100000 : 500);
	if (verb == ASK_COPY_IN && chance_one_in(3))
		ask.b = ask.a == 0 ? ASK_COPY_GIVEN_UP : chance_below(ASK_COPIES);
	if (verb == ASK_SET)
		ask.a = chance_below(3);
	if (verb == ASK_STREAM) {
		ask.a = (uint32_t)chance_spread(0, 50);
		ask.b = (uint32_t)chance_spread(0, chance_one_in(20) ? 100000 : 500);
		ask.milliseconds = (uint32_t)chance_spread(0, 5000);
		return ask;
	}
	if (verb == ASK_EMPTY)
		return (struct ask){ .verb = ASK_EMPTY };	/* its text says nothing about it */
	if (chance_one_in(4))
		ask.milliseconds = (uint32_t)chance_spread(1, chance_one_in(20) ? 100000 : 500);
	return ask;
}

/* A text that every client may prepare. It has no delay, and always the same number. */
static struct ask shared_ask(void)
{
	uint32_t serial = chance_below(SHARED_TEXTS);

	return (struct ask){ .serial = serial, .verb = ASK_ROWS, .a = serial, .b = serial * 10 };
}

/* What is held behind a Sync or a Query: nothing outside of a transaction, nothing that could be used in a failed one. */
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
			bytes_append_u8(&c->out, 0);
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
 * The data right behind the question, and now and then a Sync among it. A server that reads it in the COPY takes no notice; one
 * that has not begun the COPY, or has failed before it, answers it, and does what comes behind. `runs`: the COPY will begin.
 */
static void send_data_at_once(struct guest *c, const struct ask *ask, uint32_t serial, bool runs)
{
	/* not where the pooler keeps the names of statements: when it cannot know any more what the server owes, it has lost some */
	bool may = !plan.prepares || plan.modes[c->database] == PLAN_SESSION;
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

static void send_query(struct guest *c, const struct ask *asks, int count)
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
		/* behind the first that fails nothing is done */
		if (!ask_moves(&asks[i], &before.tx) || (asks[i].verb == ASK_COPY_IN && asks[i].b != ASK_COPY_WHOLE))
			break;
	}
	w->is_eager = asks[0].verb == ASK_COPY_IN;
	drop_planned_portals(c);
	c->data_begins = bytes_size(&c->out);
	if (w->is_eager)
		send_data_at_once(c, &asks[0], asks[0].serial, runs);
}

/* When a COPY is the last that was asked for, its data may also wait until the server wants it. */
static void wait_with_data(struct guest *c)
{
	struct want *last;

	if (c->want_count == 0 || chance_one_in(3))
		return;
	last = &c->wants[(c->first_want + c->want_count - 1) % WANTS_MOST];
	if (last->type != 'Q' || !last->is_eager)
		return;
	last->is_eager = false;
	c->out.end = c->out.start + c->data_begins;
}

static void ask_simply(struct guest *c, enum ask_verb verb)
{
	struct ask ask = draw_ask(c, verb);

	send_query(c, &ask, 1);
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
	snprintf(buf, size, portal == 0 ? "" : "p%d", portal);
}

static struct named *planned_statement(struct guest *c, int name)
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
		*planned_statement(c, name) = (struct named){ .is_there = true, .ask = *ask };
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
	/* where it is skipped so is what comes of it */
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
		*planned_statement(c, name) = (struct named){ .is_there = false, .ask = *ask };
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

static void send_sync(struct guest *c)
{
	add_want(c, 'S');
	pg_end(&c->out, pg_begin(&c->out, 'S'));
	c->is_open = c->plan_skips = false;
	drop_planned_portals(c);
}

static void send_flush(struct guest *c)
{
	pg_end(&c->out, pg_begin(&c->out, 'H'));
}

/* A function call: of one function, whose argument is a question. */
static void send_call(struct guest *c, const struct ask *ask)
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

/* ---- jobs ---- */

static bool may_prepare(const struct guest *c)
{
	return plan.prepares || plan.modes[c->database] == PLAN_SESSION;
}

/* A verb for one statement somewhere. */
static enum ask_verb draw_verb(const struct guest *c)
{
	static const enum ask_verb usual[] = {
		ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ERROR, ASK_COPY_OUT, ASK_COPY_IN, ASK_EMPTY,
	};

	(void)c;
	return CHANCE_OF(usual);
}

static void execute_in_parts(struct guest *c)
{
	const struct ask *ask = &c->planned.portals[0].ask;

	/* a portal that has been read to its end and is executed again would give nothing but its tag */
	if (ask->verb == ASK_ROWS && ask->a > 1 && chance_one_in(4))
		client_send_execute(c, 0, 1 + chance_below(ask->a - 1));
	client_send_execute(c, 0, 0);
}

/* Binds and executes, with what else a driver may say there. */
static void use_statement(struct guest *c, int name, const struct ask *ask)
{
	if (chance_one_in(4))
		client_send_named(c, 'D', 'S', name, ask, 0);
	client_send_bind(c, name, ask, 0);
	if (chance_one_in(2))
		client_send_named(c, 'D', 'P', name, ask, 0);
	execute_in_parts(c);
	if (chance_one_in(10))
		client_send_named(c, 'C', 'P', name, ask, 0);
}

static void ask_unnamed(struct guest *c)
{
	struct ask ask = draw_ask(c, draw_verb(c));

	client_send_parse(c, -1, &ask);
	if (chance_one_in(20))
		send_flush(c);
	use_statement(c, -1, &ask);
}

static void ask_by_name(struct guest *c)
{
	int name = (int)chance_below(NAMES);
	struct named *named = planned_statement(c, name);
	struct ask ask;

	if (named->is_there && chance_one_in(5))
		client_send_named(c, 'C', 'S', name, &named->ask, 0);
	if (!named->is_there && !c->plan_skips) {
		ask = chance_one_in(2) ? shared_ask() : draw_ask(c, chance_one_in(10) ? ASK_ERROR : ASK_ROWS);
		client_send_parse(c, name, &ask);
	}
	if (!named->is_there)
		return;
	sim_counts.prepared++;
	ask = named->ask;
	use_statement(c, name, &ask);
}

struct ask client_draw_rows(struct guest *c)
{
	return draw_ask(c, ASK_ROWS);
}

bool client_may_hold(const struct guest *c)
{
	return plan.portals && c->planned.tx != 'E' && !c->plan_skips;
}

static void ask_call(struct guest *c)
{
	struct ask ask = draw_ask(c, chance_one_in(10) ? ASK_ERROR : ASK_ROWS);

	send_call(c, &ask);
}

static void ask_batch(struct guest *c)
{
	int parts = 1 + (int)(chance_one_in(3) ? chance_below(5) : 0);

	for (int i = 0; i < parts; i++) {
		if (client_may_hold(c) && chance_one_in(3))
			client_ask_portals(c);
		else if (may_prepare(c) && c->planned.tx != 'E' && chance_one_in(2))
			ask_by_name(c);
		else
			ask_unnamed(c);
	}
	if (chance_one_in(20))
		send_flush(c);
	send_sync(c);
}

static void ask_several(struct guest *c)
{
	struct ask asks[3];
	int count = 2 + (int)chance_below(2);

	for (int i = 0; i < count; i++)
		asks[i] = draw_ask(c, i > 0 && chance_one_in(6) ? ASK_ERROR : ASK_ROWS);
	send_query(c, asks, count);
}

/* Prepares, waits for the answer, and goes on in a later job: as drivers do that want to know the types. */
static void ask_in_two_steps(struct guest *c)
{
	struct ask ask = draw_ask(c, ASK_ROWS);

	client_send_parse(c, -1, &ask);
	client_send_named(c, 'D', 'S', -1, &ask, 0);
	send_flush(c);
}

static void second_step(struct guest *c)
{
	struct ask ask = c->planned.unnamed.ask;

	if (c->planned.unnamed.is_there && !c->troubled && !chance_one_in(5)) {
		client_send_bind(c, -1, &ask, 0);
		execute_in_parts(c);
	}
	send_sync(c);
}

static void ask_anything(struct guest *c)
{
	switch (chance_below(16)) {
	case 0: case 1: case 2: case 3: case 4:
		ask_simply(c, draw_verb(c));
		return;
	case 5: case 6: case 7: case 8:
		ask_batch(c);
		return;
	case 9:
		ask_several(c);
		return;
	case 10:
		ask_in_two_steps(c);
		return;
	case 11:
		send_sync(c);
		return;
	case 12:
		/* a pipeline of anything */
		for (uint32_t i = 2 + chance_below(6); i > 0; i--) {
			if (chance_one_in(2))
				ask_batch(c);
			else if (plan.calls && chance_one_in(4))
				ask_call(c);
			else
				ask_simply(c, draw_verb(c));
		}
		return;
	case 13:
		if (plan.calls) {
			ask_call(c);
			return;
		}
		/* fall through */
	default:
		if (may_prepare(c))
			ask_batch(c);
		else
			ask_simply(c, ASK_ROWS);
	}
}

/* In the simple protocol, or in the other one. */
static void ask_transaction(struct guest *c, enum ask_verb verb)
{
	struct ask ask = draw_ask(c, verb);

	ask.milliseconds = 0;
	if (chance_one_in(2)) {
		send_query(c, &ask, 1);
		return;
	}
	client_send_parse(c, -1, &ask);
	client_send_bind(c, -1, &ask, 0);
	client_send_execute(c, 0, 0);
	send_sync(c);
}

static void work_in_transaction(struct guest *c)
{
	if (c->planned.tx == 'E' || sim_is_calm || chance_one_in(3)) {
		ask_transaction(c, c->planned.tx == 'T' && chance_one_in(2) ? ASK_COMMIT : ASK_ROLLBACK);
		/* the next one right behind */
		if (!sim_is_calm && chance_one_in(3))
			ask_anything(c);
		return;
	}
	ask_anything(c);
}

/* To a walsender: commands are simple queries, and there is nothing else. */
static void ask_walsender(struct guest *c)
{
	if (chance_one_in(2))
		ask_simply(c, ASK_STREAM);
	else
		ask_simply(c, chance_one_in(8) ? ASK_ERROR : ASK_ROWS);
}

void client_say_goodbye(struct guest *c)
{
	pg_build_terminate(&c->out);
	c->leaves = true;
	c->quits_after = (int64_t)bytes_size(&c->out);
}

void client_work(struct guest *c)
{
	bool blocks = plan.modes[c->database] != PLAN_STATEMENT;

	if (c->is_open) {
		second_step(c);
	} else if (c->planned.tx != 'I') {
		work_in_transaction(c);
	} else if (sim_is_calm || chance_one_in(40)) {
		client_say_goodbye(c);
	} else if (c->replication) {
		ask_walsender(c);
	} else if (chance_one_in(12)) {
		/* statement mode: a rule is broken, which ends the connection */
		if (blocks || chance_one_in(4))
			ask_transaction(c, ASK_BEGIN);
		if (blocks && chance_one_in(3))
			ask_anything(c);
	} else if (blocks && chance_one_in(4)) {
		ask_transaction(c, ASK_BEGIN);
		if (chance_one_in(2))
			ask_anything(c);
		if (chance_one_in(3))
			ask_transaction(c, chance_one_in(2) ? ASK_COMMIT : ASK_ROLLBACK);
	} else if (chance_one_in(20)) {
		ask_simply(c, ASK_SET);
	} else if (chance_one_in(60) && may_prepare(c)) {
		ask_simply(c, ASK_FORGET);
	} else {
		ask_anything(c);
	}
	wait_with_data(c);
	if (!sim_is_calm && plan.faulty_clients && chance_one_in(60)) {
		/* gone at any byte of it, or of what will be asked later */
		c->quits_after = chance_spread(0, (int64_t)bytes_size(&c->out) * 2);
		sim_counts.client_faults++;
	}
}
