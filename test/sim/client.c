/*
 * The life of the fake clients: they connect, log in (client_login.c), work (client_work.c), check answers (client_judge.c), and disconnect in one of
 * many ways. A client that has gone is replaced by a new client with its own number.
 *
 * Invariant: a live client has a wire, which carries everything that the client sends and receives.
 */
#include "client.h"

#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "neighbours.h"
#include "pg/build.h"
#include "roles.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

static struct guest *clients;
static int client_count;
static uint32_t last_number;
static uint16_t last_port;

/* A connection that carries a cancel request. */
struct canceller {
	struct list node;
	struct actor actor;
	struct wire *wire;
	struct bytes out;
	struct guest *client;		/* NULL: has gone */
};
static struct list cancellers = { &cancellers, &cancellers };

/* ---- cancel requests ---- */

static void canceller_end(struct canceller *k)
{
	if (k->client)
		k->client->cancels--;
	actor_rest(&k->actor);
	wire_close(&k->wire, false);
	bytes_free(&k->out);
	list_remove(&k->node);
	mem_free(k);
}

static void canceller_act(struct actor *actor)
{
	struct canceller *k = SIM_OBJECT(actor, struct canceller, actor);

	if (bytes_size(&k->out) > 0)
		bytes_consume(&k->out, wire_put(k->wire, bytes_front(&k->out), bytes_size(&k->out)));
	/* some wait for the answer, some don't */
	if (wire_has_ended(k->wire) || (bytes_size(&k->out) == 0 && k->client == NULL && chance_one_in(3)))
		canceller_end(k);
}

static void cancel(struct guest *c)
{
	struct canceller *k = mem_must(sizeof(*k));
	uint8_t key[sizeof(c->key)];
	bool is_wrong = chance_one_in(10);
	size_t size = c->key_size;
	uint32_t pid;

	actor_init(&k->actor, canceller_act, plan.slowness);
	list_append(&cancellers, &k->node);
	k->wire = wire_call(&k->actor, 0, ++last_port);
	if (!k->wire) {
		canceller_end(k);
		return;
	}
	sim_counts.cancels++;
	if (plan.neighbours && chance_one_in(4)) {
		SIM_TRACE("somebody cancels a query of another pooler");
		neighbours_draw_key(&pid, key, &size);
		pg_build_key(&k->out, 0, pid, key, size);
		actor_at(&k->actor, loop_now());
		return;
	}
	SIM_TRACE("client %u cancels%s", c->number, is_wrong ? ", with a wrong key" : "");
	memcpy(key, c->key, size);
	if (!is_wrong) {
		k->client = c;
		c->cancels++;
		c->was_cancelled = true;
	} else if (size > 4 && chance_one_in(2)) {
		size = 4;
	} else {
		/* the first two bytes may be the number of a pooler, and the hops that are left do not matter */
		key[2 + chance_below((uint32_t)size - 2)] ^= (uint8_t)(1 + chance_below(255));
	}
	pg_build_key(&k->out, 0, c->pid, key, size);
	actor_at(&k->actor, loop_now() + chance_spread(0, plan.slowness));
}

/* ---- coming ---- */

static void client_act(struct actor *actor);

static void say_nonsense(struct guest *c)
{
	c->is_bad = true;
	sim_counts.client_faults++;
	for (uint32_t i = 1 + chance_below(40); i > 0; i--)
		bytes_append_u8(&c->out, chance_one_in(2) ? 0 : (uint8_t)chance_draw());
}

static void come(struct guest *c)
{
	struct actor actor = c->actor;

	/* the new client takes the place of this one */
	memset(c, 0, sizeof(*c));
	c->actor = actor;
	c->quits_after = -1;
	c->now.tx = c->planned.tx = 'I';
	c->address = (int)chance_below(RULES_ADDRESSES);
	c->wire = wire_call(&c->actor, c->address, ++last_port);
	if (!c->wire) {
		c->actor.place = -1;
		if (!sim_is_calm)
			actor_at(&c->actor, loop_now() + USEC);
		return;
	}
	c->number = ++last_number;
	client_login_begin(c);
	wire_set_room(c->wire, (size_t)chance_spread(64, 65536), (size_t)chance_spread(64, 65536));
	SIM_TRACE("client %u comes for d%d as u%d", c->number, c->database, c->user);
	c->asked_at = c->began = loop_now();
	if (plan.faulty_clients && chance_one_in(40)) {
		say_nonsense(c);
		c->phase = CLIENT_LOGIN;
	} else if (chance_one_in(10)) {
		pg_build(&c->out, 0, PG_SSL_REQUEST, sizeof(PG_SSL_REQUEST) - 1);
		c->phase = CLIENT_TLS;
	} else {
		client_send_startup(c);
	}
	if (plan.faulty_clients && chance_one_in(30)) {
		c->quits_after = chance_spread(0, 200);
		sim_counts.client_faults++;
	}
	actor_at(&c->actor, loop_now());
}

/* ---- going ---- */

static void go(struct guest *c, bool reset)
{
	/* a client that was not let in does not try again at once */
	usec_t pause = chance_spread(0, plan.pause_most) + (c->phase == CLIENT_HERE ? 0 : chance_spread(0, 30 * USEC));

	SIM_TRACE("client %u goes%s", c->number, reset ? " with a reset" : "");
	LIST_EACH(node, &cancellers) {
		struct canceller *k = SIM_OBJECT(node, struct canceller, node);

		if (k->client == c)
			k->client = NULL;
	}
	wire_close(&c->wire, reset);
	bytes_free(&c->out);
	bytes_free(&c->come);
	client_login_end(c);
	c->phase = CLIENT_AWAY;
	actor_rest(&c->actor);
	if (!sim_is_calm)
		actor_at(&c->actor, loop_now() + pause);
}

void client_is_hit(uint32_t pid)
{
	for (int i = 0; i < client_count; i++)
		clients[i].was_hit |= clients[i].phase != CLIENT_AWAY && clients[i].pid == pid;
}

bool client_waits_for_read(uint32_t pid)
{
	for (int i = 0; i < client_count; i++) {
		const struct guest *c = &clients[i];

		if (c->phase == CLIENT_HERE && c->pid == pid)
			return c->sight.first_read > 0 && !c->sight.has_part && !c->was_cancelled && c->cancels == 0 && c->want_count > 0 &&
			       bytes_size(&c->out) == 0 && !c->leaves && !c->was_told;
	}
	return false;
}

struct sight *client_sight(uint32_t number)
{
	for (int i = 0; i < client_count; i++)
		if (clients[i].phase == CLIENT_HERE && clients[i].number == number)
			return &clients[i].sight;
	return NULL;
}

/* ---- acting ---- */

static void take_in(struct guest *c)
{
	size_t here, size;
	const uint8_t *at = wire_come(c->wire, &here);

	if (here == 0)
		return;
	/* not all of it at once */
	if (here > 1 && chance_one_in(4))
		here = (size_t)chance_spread(1, (int64_t)here);
	bytes_append(&c->come, at, here);
	wire_take(c->wire, here);
	for (;;) {
		at = bytes_front(&c->come);
		here = bytes_size(&c->come);
		if (here > 0 && c->phase == CLIENT_TLS && *at == 'E') {
			c->phase = CLIENT_LOGIN;
		} else if (here > 0 && c->phase == CLIENT_TLS) {
			SIM_CHECK(*at == 'N', "client %u was offered TLS", c->number);
			bytes_consume(&c->come, 1);
			client_send_startup(c);
			continue;
		}
		if (here < 5 || here < (size = sim_u32(at + 1) + 1) || c->is_bad)
			break;
		SIM_TRACE("client %u <- %c", c->number, *at);
		if (c->phase == CLIENT_LOGIN)
			client_login_message(c, (char)*at, at + 5, (uint32_t)size - 5);
		else
			client_judge(c, (char)*at, at + 5, (uint32_t)size - 5);
		bytes_consume(&c->come, size);
	}
}

/* False: it has gone at this byte. */
static bool put_out(struct guest *c)
{
	size_t most = bytes_size(&c->out), put;

	if (c->quits_after >= 0 && (int64_t)most > c->quits_after)
		most = (size_t)c->quits_after;
	put = most > 0 ? wire_put(c->wire, bytes_front(&c->out), most) : 0;
	bytes_consume(&c->out, put);
	if (c->quits_after < 0)
		return true;
	c->quits_after -= (int64_t)put;
	if (c->quits_after > 0)
		return true;
	if (!c->leaves && chance_one_in(3)) {
		/* says no more, but still listens */
		wire_hush(c->wire);
		c->leaves = true;
		c->quits_after = INT64_MAX;
		bytes_free(&c->out);
		return true;
	}
	go(c, !c->leaves && chance_one_in(2));
	return false;
}

static void check_patience(const struct guest *c)
{
	usec_t waits = loop_now() - c->asked_at;

	/* half a packet may wait for its other half for ever */
	bool waits_for_any = c->phase == CLIENT_HERE ? c->want_count > 0 : !c->is_bad;

	SIM_CHECK(!waits_for_any || waits < 36000 * USEC, "client %u has waited for %lld s", c->number, (long long)(waits / USEC));
}

/* When it will ask again. */
static void think(struct guest *c)
{
	usec_t most = c->planned.tx == 'I' && !c->is_open ? plan.pause_most : plan.pause_most / 10;

	if (sim_is_calm)
		most = USEC / 10;
	else if (chance_one_in(100))
		most = 1000 * USEC;	/* a transaction that is left alone, until a timeout ends it */
	actor_at(&c->actor, loop_now() + 1 + (chance_one_in(3) ? 0 : chance_spread(0, most)));
}

static bool is_free(const struct guest *c)
{
	return c->phase == CLIENT_HERE && !c->was_told && !c->leaves && c->want_count == 0 && bytes_size(&c->out) == 0;
}

static bool has_more_to_read(const struct guest *c)
{
	size_t left;

	wire_come(c->wire, &left);
	return left > 0;
}

/* The client has sent its messages: choose the next step. */
static void go_on(struct guest *c)
{
	if (is_free(c)) {
		if (sim_is_calm || chance_one_in(2))
			client_work(c);
		if (is_free(c))
			think(c);
	} else if (plan.cancels && !sim_is_calm && c->want_count > 0) {
		if (c->cancels == 0 && chance_one_in(8))
			cancel(c);
		actor_at(&c->actor, loop_now() + 1 + chance_spread(0, 60 * USEC));
	}
	if (!sim_is_calm && chance_one_in(300)) {
		c->deaf_until = loop_now() + chance_spread(0, 300 * USEC);
		actor_at(&c->actor, c->deaf_until);
	}
}

static void client_act(struct actor *actor)
{
	struct guest *c = SIM_OBJECT(actor, struct guest, actor);

	if (c->phase == CLIENT_AWAY) {
		if (!sim_is_calm)
			come(c);
		return;
	}
	if (loop_now() < c->deaf_until && !sim_is_calm && !wire_has_ended(c->wire)) {
		if (put_out(c))
			actor_at(&c->actor, c->deaf_until);
		return;
	}
	take_in(c);
	if (has_more_to_read(c)) {
		actor_at(&c->actor, loop_now() + 1);
	} else if (wire_has_ended(c->wire)) {
		client_judge_end(c, bytes_size(&c->come) == 0);
		go(c, false);
		return;
	}
	check_patience(c);
	go_on(c);
	if (put_out(c) && c->is_bad && sim_is_calm)
		go(c, true);
}

/* ---- all of them ---- */

void clients_begin(int count)
{
	client_count = count;
	clients = mem_must((size_t)count * sizeof(*clients));
	last_number = 0;
	last_port = 1024;
	for (int i = 0; i < count; i++) {
		actor_init(&clients[i].actor, client_act, plan.slowness);
		actor_at(&clients[i].actor, loop_now() + chance_spread(0, plan.pause_most));
	}
}

void clients_calm(void)
{
	for (int i = 0; i < client_count; i++)
		actor_at(&clients[i].actor, loop_now() + 1);
}

int clients_present(char *who, size_t size)
{
	int count = 0;

	LIST_EACH(node, &cancellers)
		if (count++ == 0)
			snprintf(who, size, "a cancel request");
	for (int i = 0; i < client_count; i++) {
		const struct guest *c = &clients[i];

		if (c->phase == CLIENT_AWAY)
			continue;
		if (count++ == 0)
			snprintf(who, size, "client %u (phase %d, state %c, waits for %d answers since %lld s, %zu bytes to send)", c->number,
				 (int)c->phase, c->now.tx, c->want_count, (long long)((loop_now() - c->asked_at) / USEC), bytes_size(&c->out));
	}
	return count;
}

void clients_end(void)
{
	for (int i = 0; i < client_count; i++) {
		if (clients[i].phase != CLIENT_AWAY)
			go(&clients[i], true);
		actor_rest(&clients[i].actor);
	}
	while (!list_is_empty(&cancellers))
		canceller_end(SIM_OBJECT(cancellers.next, struct canceller, node));
	mem_free(clients);
	clients = NULL;
}
