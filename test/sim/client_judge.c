/*
 * A fake client checks its answers: each message must be the next answer to the oldest request, carry its number, come from the text that this client
 * has prepared, and come from a session in the expected state.
 *
 * The client knows in advance which requests fail. The only unplanned failure is a request that the client itself has cancelled. From then until its
 * next quiet moment, later requests may fail in consequence ("troubled"), but must never get wrong answers.
 */
#include "chance.h"
#include "client.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>


static const struct want no_want;

static void describe_state(const struct guest *c, char *buf, size_t size)
{
	const struct want *w = c->want_count > 0 ? &c->wants[c->first_want] : &no_want;

	snprintf(buf, size, "client %u (state %c, waits for %d, the first is %c %u of verb %d)", c->number, c->now.tx, c->want_count,
		 w->type ? w->type : '-', w->serial, (int)w->asks[w->at < w->count ? w->at : 0].verb);
}

#define JUDGE(c, cond, ...)						\
	do {								\
		if (!(cond)) {						\
			char judge_who[160], judge_what[800];		\
			describe_state(c, judge_who, sizeof(judge_who)); \
			snprintf(judge_what, sizeof(judge_what), __VA_ARGS__); \
			SIM_CHECK(false, "%s: %s", judge_who, judge_what); \
		}							\
	} while (0)

const char *client_error_field(const uint8_t *body, uint32_t size, char field)
{
	const char *at = (const char *)body, *end = at + size;

	while (at < end && *at) {
		if (*at == field)
			return at + 1;
		at += strlen(at) + 1;
	}
	return "";
}

static void pop(struct guest *c)
{
	do {
		c->first_want = (c->first_want + 1) % WANTS_MOST;
		c->want_count--;
		sim_counts.answers++;
	} while (c->want_count > 0 && c->wants[c->first_want].is_void);
}

/* A COPY has ended, when message `row` of its data was read: the Sync that was sent among the data up to there is not answered. */
static void copy_ended(struct guest *c, uint32_t row)
{
	struct want *inner = &c->wants[(c->first_want + 1) % WANTS_MOST];

	if (c->want_count > 1 && inner->is_inner)
		inner->is_void = inner->row <= row;
}

/* ---- rows ---- */

static void judge_row(struct guest *c, const struct ask *ask, uint32_t serial, uint32_t row, const uint8_t *text, uint32_t size)
{
	char expected[512];
	int length = snprintf(expected, sizeof(expected), "%u.%u/%u.%u.%u/%s/db%d/u%d/", ask->client, ask->serial, c->number, serial, row,
			      c->believed, c->database, plan.forced_user[c->database] ? 0 : c->user);

	JUDGE(c, size == (uint32_t)length + ask->b && memcmp(text, expected, (size_t)length) == 0, "wanted \"%s\", %u bytes, got \"%.*s\", %u bytes",
	      expected, (uint32_t)length + ask->b, (int)(size < 100 ? size : 100), (const char *)text, size);
}

static void judge_columns(struct guest *c, const struct ask *ask, const uint8_t *body)
{
	char expected[40];

	snprintf(expected, sizeof(expected), "c%u_%u", ask->client, ask->serial);
	JUDGE(c, strcmp((const char *)body + 2, expected) == 0, "wanted the column %s, got %s", expected, (const char *)body + 2);
}

static void judge_tag(struct guest *c, const struct ask *ask, uint32_t serial, char before, const uint8_t *body)
{
	char tag[64];

	ask_tag(ask, c->number, serial, before, tag, sizeof(tag));
	JUDGE(c, strcmp((const char *)body, tag) == 0, "wanted the tag \"%s\", got \"%s\"", tag, (const char *)body);
	if (ask->verb == ASK_FORGET) {
		memset(c->now.names, 0, sizeof(c->now.names));
		c->now.unnamed.is_there = false;
	}
}

/* ---- streams of a walsender ---- */

static void judge_stream(struct guest *c, struct want *w, const struct ask *ask, uint32_t *row, const uint8_t *body, uint32_t size)
{
	JUDGE(c, w->began && !w->ended && *row < ask->a, "a row of a stream out of place");
	judge_row(c, ask, w->serial, *row, body, size);
	++*row;
	if (w->said_done || chance_one_in(2))
		return;
	/* now and then it has enough before the end */
	client_report(c, w, sim_is_calm ? false : chance_one_in(40));
}

static void stream_ended(struct guest *c, struct want *w, const struct ask *ask, uint32_t rows)
{
	JUDGE(c, w->began && !w->ended && (rows == ask->a || w->said_done), "the end of a stream out of place, behind %u rows of %u", rows,
	      ask->a);
	w->ended = true;
	if (!w->said_done)
		client_report(c, w, true);
}

/* Checks the answers of one statement. Returns true at the end of the statement. */
static bool judge_statement(struct guest *c, struct want *w, const struct ask *ask, uint32_t serial, uint32_t *row, char type,
			    const uint8_t *body, uint32_t size)
{
	char before = c->now.tx;

	switch (type) {
	case 'D':
		JUDGE(c, ask->verb == ASK_ROWS && *row < ask->a && c->now.tx != 'E', "a row too many");
		judge_row(c, ask, serial, *row, body + 6, size - 6);
		++*row;
		return false;
	case 'H':
		JUDGE(c, ask->verb == ASK_COPY_OUT && !w->began, "CopyOutResponse out of place");
		w->began = true;
		return false;
	case 'W':
		JUDGE(c, ask->verb == ASK_STREAM && !w->began, "CopyBothResponse out of place");
		w->began = true;
		return false;
	case 'd':
		if (ask->verb == ASK_STREAM) {
			judge_stream(c, w, ask, row, body, size);
			return false;
		}
		JUDGE(c, ask->verb == ASK_COPY_OUT && w->began && *row < ask->a, "CopyData out of place");
		judge_row(c, ask, serial, *row, body, size);
		++*row;
		return false;
	case 'c':
		if (ask->verb == ASK_STREAM) {
			stream_ended(c, w, ask, *row);
			return false;
		}
		JUDGE(c, ask->verb == ASK_COPY_OUT && *row == ask->a && !w->ended, "CopyDone out of place");
		w->ended = true;
		return false;
	case 'G':
		JUDGE(c, ask->verb == ASK_COPY_IN && !w->began, "CopyInResponse out of place");
		w->began = true;
		if (!w->is_eager)
			client_copy_data(c, ask, serial, -1);
		return false;
	case 'I':
		JUDGE(c, ask->verb == ASK_EMPTY, "EmptyQueryResponse out of place");
		return true;
	case 'C':
		JUDGE(c, ask_moves(ask, &c->now.tx), "what had to fail has not failed");
		JUDGE(c, ask->verb != ASK_ROWS || *row == ask->a, "%u rows of %u", *row, ask->a);
		JUDGE(c, (ask->verb != ASK_COPY_OUT && ask->verb != ASK_STREAM) || w->ended, "the end of a COPY is missing");
		judge_tag(c, ask, serial, before, body);
		if (ask->verb == ASK_COPY_IN)
			copy_ended(c, ask->a);
		return true;
	default:
		JUDGE(c, false, "got a message %c", type);
		return true;
	}
}

/* ---- errors ---- */

/* The question that an error answers, or NULL. */
static const struct ask *asked_by(const struct guest *c, const struct want *w)
{
	switch (w->type) {
	case 'Q':
		return w->at < w->count ? &w->asks[w->at] : NULL;
	case 'E':
		return &c->now.portals[w->portal].ask;
	case 'F':
		return &w->asks[0];
	case 'P':
	case 'B':
		/* in a failed transaction nothing can be prepared but its end */
		return c->now.tx == 'E' ? &w->asks[0] : NULL;
	default:
		return NULL;
	}
}

static void judge_error(struct guest *c, struct want *w, const uint8_t *body, uint32_t size)
{
	const char *state = client_error_field(body, size, 'C'), *text = client_error_field(body, size, 'M');
	const struct ask *ask = asked_by(c, w);
	char tx = c->now.tx, expected[64];
	bool was_planned = ask && !ask_moves(ask, &tx);
	bool cancelled = strcmp(state, "57014") == 0 && c->was_cancelled;
	/* a COPY that fails after it has begun */
	bool given_up = ask && ask->verb == ASK_COPY_IN && ask->b != ASK_COPY_WHOLE && w->began;

	sim_counts.errors++;
	JUDGE(c, was_planned || cancelled || given_up || c->troubled, "got the error %s \"%s\"", state, text);
	snprintf(expected, sizeof(expected), "simulated %u ", c->number);
	JUDGE(c, strncmp(text, "simulated", 9) != 0 || strncmp(text, expected, strlen(expected)) == 0 ||
	      strncmp(text, "simulated 0 ", 12) == 0, "got the error of another: %s", text);
	if (!was_planned)
		c->troubled |= !given_up;
	c->now.tx = c->now.tx == 'T' ? 'E' : c->now.tx;
	if (given_up)
		copy_ended(c, ask->b == ASK_COPY_BAD ? ask_bad_row(ask) : ask->a);
	if (w->type == 'Q' || w->type == 'F') {
		w->at = w->count;
		return;
	}
	do
		pop(c);
	while (c->want_count > 0 && client_first_want(c)->type != 'S');
	/* the Sync is still to be sent */
	if (c->want_count == 0)
		c->troubled = true;
}

/* ---- messages ---- */

static bool has_same_portals(const struct view *a, const struct view *b)
{
	for (int i = 1; i < PORTALS; i++) {
		const struct held *x = &a->portals[i], *y = &b->portals[i];

		if (x->is_there != y->is_there || (x->is_there && (x->serial != y->serial || x->row != y->row)))
			return false;
	}
	return true;
}

static bool has_same_names(const struct view *a, const struct view *b)
{
	for (int i = 0; i < NAMES; i++) {
		const struct named *x = &a->names[i], *y = &b->names[i];

		if (x->is_there != y->is_there || (x->is_there && (x->ask.client != y->ask.client || x->ask.serial != y->ask.serial)))
			return false;
	}
	return true;
}

static void judge_ready(struct guest *c, struct want *w, char status)
{
	JUDGE(c, w->type == 'S' || ((w->type == 'Q' || w->type == 'F') && w->at == w->count), "ReadyForQuery out of place");
	if (c->troubled)
		c->now.tx = status;
	JUDGE(c, status == c->now.tx, "ReadyForQuery says %c", status);
	if (w->type == 'Q')
		c->now.unnamed.is_there = false;
	/* portals end with their transaction, and cannot be used in a failed transaction */
	for (int i = 0; i < PORTALS && status != 'T'; i++)
		c->now.portals[i].is_there = false;
	pop(c);
}

static void judge_call(struct guest *c, struct want *w, char type, const uint8_t *body, uint32_t size)
{
	JUDGE(c, type == 'V' && w->at == 0, "got a message %c", type);
	JUDGE(c, ask_moves(&w->asks[0], &c->now.tx), "what had to fail has not failed");
	JUDGE(c, sim_u32(body) == size - 4, "a result of %u bytes in %u", sim_u32(body), size);
	judge_row(c, &w->asks[0], w->serial, 0, body + 4, size - 4);
	w->at = w->count;
}

/* Returns the text of a statement name; the name has its earlier text if the message that changed it was skipped. */
static const struct ask *text_of(const struct guest *c, const struct want *w)
{
	const struct named *named = w->name < 0 ? &c->now.unnamed : &c->now.names[w->name];

	if (w->type == 'D' && w->what == 'P')
		return &c->now.portals[w->portal].ask;
	return named->is_there ? &named->ask : &w->asks[0];
}

static void judge_prepared(struct guest *c, struct want *w, char type, const uint8_t *body)
{
	static const char answers[] = { ['P'] = '1', ['B'] = '2', ['C'] = '3' };
	const struct ask *ask = text_of(c, w);

	if (w->type == 'D') {
		if (type == 't') {
			JUDGE(c, w->what == 'S' && !w->began && sim_u32(body + 2) == ask->serial, "ParameterDescription of another statement");
			w->began = true;
			return;
		}
		JUDGE(c, type == (ask->verb == ASK_ROWS ? 'T' : 'n') && w->began == (w->what == 'S'), "got a message %c", type);
		if (type == 'T')
			judge_columns(c, ask, body);
		pop(c);
		return;
	}
	JUDGE(c, type == answers[(int)w->type], "got a message %c", type);
	if (w->type == 'B') {
		c->now.portals[w->portal] = (struct held){ .is_there = true, .ask = *ask, .serial = w->serial };
	} else if (w->type == 'C' && w->what == 'P') {
		c->now.portals[w->portal].is_there = false;
	} else if (w->type == 'P' || w->what == 'S') {
		struct named *named = w->name < 0 ? &c->now.unnamed : &c->now.names[w->name];

		*named = (struct named){ .is_there = w->type == 'P', .ask = w->asks[0] };
	}
	pop(c);
}

static void judge_query(struct guest *c, struct want *w, char type, const uint8_t *body, uint32_t size)
{
	const struct ask *ask = &w->asks[w->at];

	JUDGE(c, w->at < w->count, "got a message %c behind the last statement", type);
	if (type == 'T') {
		JUDGE(c, ask->verb == ASK_ROWS && w->row == 0, "RowDescription out of place");
		judge_columns(c, ask, body);
		return;
	}
	if (judge_statement(c, w, ask, ask->serial, &w->row, type, body, size)) {
		w->at++;
		w->row = 0;
		w->began = w->ended = false;
	}
}

static void judge_execute(struct guest *c, struct want *w, char type, const uint8_t *body, uint32_t size)
{
	struct held *held = &c->now.portals[w->portal];

	if (type == 's') {
		JUDGE(c, w->most > 0 && held->ask.verb == ASK_ROWS && w->row == w->most, "PortalSuspended out of place");
		pop(c);
		return;
	}
	if (type == 'D') {
		JUDGE(c, w->most == 0 || w->row < w->most, "a row too many");
		w->row++;
	}
	if (judge_statement(c, w, &held->ask, held->serial, &held->row, type, body, size))
		pop(c);
}

/* Nothing happens in this world that the client may be told, except to what it does at a server. */
static bool may_notice_nothing(const struct guest *c)
{
	return plan.only_switchovers && plan.modes[c->database] == PLAN_TRANSACTION && plan_target(c->database) && !c->is_bad && !sim_is_calm;
}

static void judge_fatal(struct guest *c, const uint8_t *body, uint32_t size)
{
	const char *text = client_error_field(body, size, 'M');

	SIM_TRACE("client %u is told \"%s\"", c->number, text);
	SIM_CHECK(!may_notice_nothing(c) || c->was_hit, "client %u, in state %c, with %d requests, notices a switchover: %s", c->number, c->now.tx,
		  c->want_count, text);
	c->was_told = true;
	sim_note_final_error(text);
}

static void judge_parameter(struct guest *c, const char *name)
{
	if (strcmp(name, "application_name") == 0)
		snprintf(c->believed, sizeof(c->believed), "%s", name + strlen(name) + 1);
}

void client_judge(struct guest *c, char type, const uint8_t *body, uint32_t size)
{
	struct want *w = client_first_want(c);

	if (type == 'E' && strcmp(client_error_field(body, size, 'S'), "FATAL") == 0) {
		judge_fatal(c, body, size);
		return;
	}
	JUDGE(c, !c->was_told, "got a message %c behind the last word", type);
	switch (type) {
	case 'N':
	case 'A':
		return;
	case 'S':
		judge_parameter(c, (const char *)body);
		return;
	default:
		break;
	}
	JUDGE(c, w, "got a message %c that answers nothing", type);
	c->sight.has_part |= w->type != 'Q' || w->asks[0].verb != ASK_READ;
	if (type == 'E')
		judge_error(c, w, body, size);
	else if (type == 'Z')
		judge_ready(c, w, (char)body[0]);
	else if (w->type == 'Q')
		judge_query(c, w, type, body, size);
	else if (w->type == 'F')
		judge_call(c, w, type, body, size);
	else if (w->type == 'E')
		judge_execute(c, w, type, body, size);
	else
		judge_prepared(c, w, type, body);
	if (c->want_count > 0)
		return;
	/* a quiet moment: the actual state must equal the planned state */
	if (!c->troubled) {
		JUDGE(c, c->now.tx == c->planned.tx, "planned to be in state %c", c->planned.tx);
		JUDGE(c, has_same_names(&c->now, &c->planned), "planned to have other statements");
		JUDGE(c, has_same_portals(&c->now, &c->planned), "planned to have other portals");
	}
	c->planned = c->now;
	c->plan_skips = c->is_open && c->troubled;
	if (!c->is_open) {
		if (plan.has_roles && c->now.tx == 'I')
			roles_note_told(&c->sight, c->database);
		c->troubled = false;
		c->was_hit &= c->now.tx != 'I';
		c->was_cancelled = c->cancels > 0;
	}
}

void client_judge_end(struct guest *c, bool between_messages)
{
	bool knows = c->was_told || c->leaves || c->is_bad || c->phase != CLIENT_HERE;

	JUDGE(c, knows || !between_messages || wire_was_full(c->wire), "its connection was closed without a word");
	if (!c->leaves)
		sim_counts.dropped++;
}
