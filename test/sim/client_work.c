/*
 * The requests of a fake client. A job is a few messages (client_send.c) that are sent together, so that one read of the pooler may contain any part
 * of them.
 *
 * Invariant: a job ends with a Sync, or is_open records that a Sync is still to be sent.
 */
#include "chance.h"
#include "client.h"
#include "pg/build.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define SHARED_TEXTS 5

/* ---- questions ---- */

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

/* ---- jobs ---- */

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

	client_send_query(c, &ask, 1);
}

static bool may_prepare(const struct guest *c)
{
	return plan.prepares || plan.modes[c->database] == PLAN_SESSION;
}

/* A verb for one statement somewhere. */
static enum ask_verb draw_verb(const struct guest *c)
{
	static const enum ask_verb usual[] = {
		ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ROWS, ASK_ERROR, ASK_COPY_OUT, ASK_COPY_IN, ASK_EMPTY,
		ASK_ROLE,
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

/* Binds and executes, with the other messages that drivers may send here. */
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
		client_send_flush(c);
	use_statement(c, -1, &ask);
}

static void ask_by_name(struct guest *c)
{
	int name = (int)chance_below(NAMES);
	struct named *named = client_planned_statement(c, name);
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

/* pgweir refuses a function call in a transaction on a standby. */
static bool may_call(const struct guest *c) { return plan.calls && c->sight.first_read == 0; }

static void ask_call(struct guest *c)
{
	struct ask ask = draw_ask(c, chance_one_in(10) ? ASK_ERROR : ASK_ROWS);

	client_send_call(c, &ask);
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
		client_send_flush(c);
	client_send_sync(c);
}

static void ask_several(struct guest *c)
{
	struct ask asks[3];
	int count = 2 + (int)chance_below(2);

	for (int i = 0; i < count; i++)
		asks[i] = draw_ask(c, i > 0 && chance_one_in(6) ? ASK_ERROR : ASK_ROWS);
	client_send_query(c, asks, count);
}

/* Prepares a statement, waits for the answer, and continues in a later job, as drivers do that need the parameter types. */
static void ask_in_two_steps(struct guest *c)
{
	struct ask ask = draw_ask(c, ASK_ROWS);

	client_send_parse(c, -1, &ask);
	client_send_named(c, 'D', 'S', -1, &ask, 0);
	client_send_flush(c);
}

static void second_step(struct guest *c)
{
	struct ask ask = c->planned.unnamed.ask;

	if (c->planned.unnamed.is_there && !c->troubled && !chance_one_in(5)) {
		client_send_bind(c, -1, &ask, 0);
		execute_in_parts(c);
	}
	client_send_sync(c);
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
		client_send_sync(c);
		return;
	case 12:
		/* a pipeline of anything */
		for (uint32_t i = 2 + chance_below(6); i > 0; i--) {
			if (chance_one_in(2))
				ask_batch(c);
			else if (may_call(c) && chance_one_in(4))
				ask_call(c);
			else
				ask_simply(c, draw_verb(c));
		}
		return;
	case 13:
		if (may_call(c)) {
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
		client_send_query(c, &ask, 1);
	} else {
		client_send_parse(c, -1, &ask);
		client_send_bind(c, -1, &ask, 0);
		client_send_execute(c, 0, 0);
		client_send_sync(c);
	}
	/* later requests are the primary's, if this ends a READ ONLY transaction */
	if (verb == ASK_COMMIT || verb == ASK_ROLLBACK)
		c->sight.last_read = c->serial;
}

static void work_in_transaction(struct guest *c)
{
	if (c->planned.tx == 'E' || sim_is_calm || chance_one_in(3)) {
		ask_transaction(c, c->planned.tx == 'T' && chance_one_in(2) ? ASK_COMMIT : ASK_ROLLBACK);
		/* the next request follows immediately */
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

void client_send_terminate(struct guest *c)
{
	pg_build(&c->out, 'X', NULL, 0);
	c->leaves = true;
	c->quits_after = (int64_t)bytes_size(&c->out);
}

void client_work(struct guest *c)
{
	bool blocks = plan.modes[c->database] != PLAN_STATEMENT;

	if (plan.has_roles && !c->is_open && c->now.tx == 'I') {
		c->sight.first_read = 0;
		roles_note_asks(&c->sight, c->database);
	} else if (c->sight.first_read > 0) {
		/* its end may have been cancelled */
		c->sight.last_read = UINT32_MAX;
	}
	if (c->is_open) {
		second_step(c);
	} else if (c->planned.tx != 'I') {
		work_in_transaction(c);
	} else if (sim_is_calm || chance_one_in(40)) {
		client_send_terminate(c);
	} else if (c->replication) {
		ask_walsender(c);
	} else if (chance_one_in(12)) {
		/* statement mode: a rule is broken, which ends the connection */
		if (blocks || chance_one_in(4))
			ask_transaction(c, ASK_BEGIN);
		if (blocks && chance_one_in(3))
			ask_anything(c);
	} else if (blocks && plan_splits_reads(c->database) && !c->sight.reads && chance_one_in(2)) {
		c->sight.first_read = c->serial + 1;
		c->sight.last_read = UINT32_MAX;
		c->sight.has_part = false;
		ask_simply(c, ASK_READ);
		if (chance_one_in(2))
			ask_simply(c, ASK_ROWS);
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
		/* the client disconnects at any byte of this job or of a later one */
		c->quits_after = chance_spread(0, (int64_t)bytes_size(&c->out) * 2);
		sim_counts.client_faults++;
	}
}

