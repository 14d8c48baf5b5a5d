/*
 * The life of the fake servers, which behave like PostgreSQL towards a pooler, from the start-up packet to the end.
 *
 * A backend answers as PostgreSQL does, in order, and holds answers back until Sync, Flush or a full buffer. The backend knows the language of ask.h
 * and the pooler's own queries, but no clients. It checks that the pooler has cleaned the session up when another client's request arrives (SIM_CHECK
 * in backend_work_for). Hosts have moods: they refuse, are silent, are full, restart. Each row contains the state of the backend's session, so the
 * client can verify its expectation.
 *
 * Invariant: the messages of a correct pooler never cause a "protocol violation"; such an error aborts the simulation.
 */
#include "backend.h"

#include "base/mem.h"
#include "chance.h"
#include "neighbours.h"
#include "roles.h"
#include "sim.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define UNSENT_MOST 32768		/* as long as more than this waits, it reads no further */

enum mood { MOOD_GOOD, MOOD_REFUSES, MOOD_SILENT, MOOD_FULL, MOOD_STARTING, MOOD_REJECTS, MOODS };

struct host {
	enum mood mood;
	struct actor weather;
};

static struct host hosts[PLAN_HOSTS];
static struct list backends;
static uint32_t last_pid;

/* ---- its beginning and its end ---- */

static void act(struct actor *actor);

static void backend_end(struct backend *b, bool reset)
{
	SIM_TRACE("server %u ends%s", b->pid, reset ? " with a reset" : "");
	wire_close(&b->wire, reset);
	actor_rest(&b->actor);
	list_remove(&b->node);
	backend_forget_all(b);
	if (b->asks_scram)
		scram_verifier_clear(&b->scram);
	bytes_free(&b->out);
	mem_free(b);
}

static struct actor *connected(const struct sockaddr_in *address, struct wire *wire)
{
	static const char *const defaults[PARAMETERS] = { "", "ISO, MDY", "UTF8", "GMT", "postgres" };
	struct backend *b;

	switch (ntohl(address->sin_addr.s_addr) & 255) {
	case NEIGHBOUR_ADDRESS:
		return neighbours_connected(wire);
	case WITNESS_HOST:
		return witness_connected(wire);
	case ATTACK_HOST:
		return attack_connected(wire);
	}
	if (plan.has_roles && member_state((int)(ntohl(address->sin_addr.s_addr) & 255) - 1) == MEMBER_DOWN)
		return NULL;
	b = mem_must(sizeof(*b));
	actor_init(&b->actor, act, plan.slowness);
	list_init(&b->statements);
	list_append(&backends, &b->node);
	b->wire = wire;
	b->host = (int)(ntohl(address->sin_addr.s_addr) & 255) - 1;
	b->pid = ++last_pid;
	b->key_size = 4;
	for (size_t i = 0; i < b->key_size; i++)
		b->key[i] = (uint8_t)chance_draw();
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

	if (i == NEIGHBOUR_ADDRESS - 1)
		return neighbours_asked(delay);
	*delay = 0;
	if (i == WITNESS_HOST - 1 || i == ATTACK_HOST - 1)
		return RECEPTION_ACCEPTED;
	SIM_CHECK(i < PLAN_HOSTS, "a connection to an address that nobody has given");
	*delay = chance_spread(0, plan.slowness);
	if (plan.has_roles && member_state((int)i) == MEMBER_SILENT && chance_one_in(2))
		return RECEPTION_SILENCE;
	if (hosts[i].mood == MOOD_REFUSES || (plan.has_roles && member_state((int)i) == MEMBER_DOWN))
		return RECEPTION_REFUSED;
	return hosts[i].mood == MOOD_SILENT && chance_one_in(2) ? RECEPTION_SILENCE : RECEPTION_ACCEPTED;
}

/* ---- requests from the other files of the backend ---- */

void backend_cancel(uint32_t pid, const uint8_t *key, size_t key_size)
{
	LIST_EACH(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->pid != pid)
			continue;
		SIM_CHECK(b->key_size == key_size && memcmp(b->key, key, key_size) == 0, "a cancel request with a wrong key");
		SIM_TRACE("server %u is asked to cancel, and %s", pid, b->sleeps || b->streams ? "does" : "has nothing to cancel");
		b->cancelled = b->sleeps || b->streams;
		actor_at(&b->actor, loop_now());
	}
}

bool backend_is_shut(const struct backend *b, const char **state, const char **text)
{
	static const struct { const char *state, *text; } words[MOODS] = {
		[MOOD_FULL] = { "53300", "sorry, too many clients already" },
		[MOOD_STARTING] = { "57P03", "the database system is starting up" },
		[MOOD_REJECTS] = { "28P01", "simulated: password authentication failed" },
	};
	enum mood mood = hosts[b->host].mood;

	if (plan.has_roles && member_state(b->host) == MEMBER_SHUTS_DOWN) {
		*state = "57P03";
		*text = "the database system is shutting down";
		return true;
	}
	if (plan.has_roles && member_is_full(b->host))
		mood = MOOD_FULL;
	*state = words[mood].state;
	*text = words[mood].text;
	return *state || mood == MOOD_SILENT;
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

	if (b->phase == PHASE_DEAF || here < header || bytes_size(&b->out) > UNSENT_MOST)
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
		backend_startup(b, copy, size);
	} else if (b->phase == PHASE_PASSWORD) {
		SIM_CHECK(*copy == 'p', "server %u got no password", b->pid);
		backend_password(b, copy + 5, size - 5);
	} else if (*copy == 'X') {
		/* bytes that are not flushed are never sent */
		b->phase = PHASE_DEAF;
		b->dies_after = (int64_t)b->may_send;
	} else {
		SIM_TRACE("server %u <- %c %.60s", b->pid, *copy, (char *)copy + 5);
		done = backend_message(b, (char)*copy, copy + 5, size - 5);
	}
	mem_free(copy);
	if (done)
		wire_take(b->wire, size);
	return done;
}

/* The host of the server hangs. A server without a connection ends nevertheless. */
static bool hangs(const struct backend *b)
{
	return plan.has_roles && member_state(b->host) == MEMBER_SILENT && !wire_is_gone(b->wire);
}

static void act(struct actor *actor)
{
	struct backend *b = SIM_OBJECT(actor, struct backend, actor);

	/* a message may make the host hang */
	while (!hangs(b) && take_message(b))
		;
	if (hangs(b))
		return;
	if (wire_is_gone(b->wire) || (wire_has_ended(b->wire) && !b->sleeps && bytes_size(&b->out) == 0 && b->phase != PHASE_DEAF)) {
		backend_end(b, false);
		return;
	}
	if (b->streams && bytes_size(&b->out) <= UNSENT_MOST)
		stream_go_on(b);
	if (!put_out(b))
		return;
	if (b->sleeps && b->until > loop_now())
		actor_at(&b->actor, b->until);
	else if (b->streams && !b->stream_ended && bytes_size(&b->out) <= UNSENT_MOST)
		actor_at(&b->actor, b->until + 1);
}

/* ---- hosts ---- */

/* Closes all connections of the host, with an error message or without. */
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
		backend_refuse(b, "57P01", "terminating connection due to administrator command");
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

/* ---- roles ---- */

void backends_terminate(int host, bool only_watchers)
{
	LIST_EACH_SAFE(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->host != host || b->phase == PHASE_DEAF || (only_watchers && !b->watches))
			continue;
		if (b->phase != PHASE_READY) {
			backend_end(b, false);
			continue;
		}
		backend_refuse(b, "57P01", "terminating connection due to administrator command");
		actor_notice(&b->actor);
	}
}

void backends_crash(int host)
{
	LIST_EACH_SAFE(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->host != host)
			continue;
		roles_note_hit(b);
		backend_end(b, chance_one_in(2));
	}
}

uint64_t backends_that_answer(int host)
{
	uint64_t count = 0;

	LIST_EACH(node, &backends) {
		const struct backend *b = SIM_OBJECT(node, struct backend, node);

		count += b->host == host && b->phase == PHASE_READY && bytes_size(&b->out) > 0;
	}
	return count;
}

const struct backend *backend_of(uint32_t pid)
{
	LIST_EACH(node, &backends) {
		const struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->pid == pid)
			return b;
	}
	return NULL;
}

bool backends_are_well(int host)
{
	return hosts[host].mood == MOOD_GOOD;
}

void backends_go_on(int host)
{
	LIST_EACH(node, &backends) {
		struct backend *b = SIM_OBJECT(node, struct backend, node);

		if (b->host == host)
			actor_notice(&b->actor);
	}
}

static void sent(struct actor *actor, const void *data, size_t size)
{
	struct backend *b = SIM_OBJECT(actor, struct backend, actor);

	if (!plan.has_roles || actor->act != act)
		return;
	if (b->phase == PHASE_DEAF)
		roles_note_hit(b);
	else if (b->phase == PHASE_READY)
		roles_judge_sent(b, data, size);
}

static const struct wire_hosts reception = { asked, connected, sent };

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
		if (b->replication[0]) {
			snprintf(why, size, "server %u was for the replication of client %u alone", b->pid, b->client);
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
