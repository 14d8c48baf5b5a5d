/*
 * Failed logins, and how their refusals slow down.
 *
 * Guessing passwords over the network has to be slow for the attacker, and only for the attacker. Therefore only refusals are delayed,
 * never a question or a success: a client that knows the password logs in at once, whatever other clients at its address have done. The
 * first failures of a user at an address are told at once (people mistype), the next ones after 0.1 s, 0.2 s, 0.4 s and so on up to
 * login_failure_delay. An address is counted as a whole too, over all users, with more failures free: to try one password with every name
 * is no way round. Failures are counted by name whether the user exists or not.
 *
 * A client that waits for its refusal holds only a descriptor: its messages are discarded, it is the first to be closed when room is
 * needed, and at most REFUSALS_MOST clients wait; then the oldest is refused at once. (An attacker that does not wait for the refusal gains
 * nothing by that but connections to make; how many logins may be in progress is bounded: client_address.c.)
 *
 * The counts are in a table of fixed size that works as a cache: a keyed digest of address and user gives the set, and the row with the
 * oldest last failure is replaced. A row is forgotten when there was no failure for FORGOTTEN. A restart forgets all.
 */
#include "auth/refusal.h"

#include "auth/login_state.h"
#include "base/log.h"
#include "pg/digest.h"

#include <string.h>

#define SETS 128
#define WAYS 8
#define FORGOTTEN (600 * USEC)
#define FIRST_DELAY (USEC / 10)
#define NAME_LOOKED_AT 1024		/* bytes; no longer name is looked up at all */
#define FREE_OF_USER 2
#define FREE_OF_ADDRESS 20
#define REFUSALS_MOST 256

struct failure {
	struct address_key key;
	uint64_t tag;			/* of address and user, keyed */
	bool is_whole;			/* of the address, over all users */
	uint32_t count;
	usec_t last;			/* 0: free */
};

struct failures {
	struct failure rows[SETS][WAYS];
};

struct refusals {
	struct failures *failures;	/* NULL: there was none */
	struct list waiting;		/* logins with a waiting refusal, longest waiting first */
	int count;
};

struct refusals *refusals_new(void)
{
	struct refusals *all = mem_try(sizeof(*all));

	if (all)
		list_init(&all->waiting);
	return all;
}

void refusals_free(struct refusals **place)
{
	if (!*place)
		return;
	mem_free((*place)->failures);
	mem_free(*place);
	*place = NULL;
}

usec_t refusal_delay(uint32_t n, uint32_t free, usec_t most)
{
	usec_t delay = FIRST_DELAY;

	if (n <= free)
		return 0;
	for (n -= free + 1; n > 0 && delay < most; n--)
		delay *= 2;
	return delay < most ? delay : most;
}

/* ---- the counts ---- */

static bool is_remembered(const struct failure *f, usec_t now)
{
	return f->last > 0 && now - f->last < FORGOTTEN;
}

/* The set in which this address and user is counted, and the tag of the row there; user NULL: the address as a whole. NULL: no digest. */
static struct failure *set_of(const struct world *w, const struct address_key *key, const char *user, uint64_t *tag)
{
	uint8_t text[sizeof(*key) + 1 + NAME_LOOKED_AT], digest[SHA256_SIZE];
	size_t length = user ? strnlen(user, NAME_LOOKED_AT) : 0;

	memcpy(text, key, sizeof(*key));
	text[sizeof(*key)] = user != NULL;
	if (length > 0)
		memcpy(text + sizeof(*key) + 1, user, length);
	if (!digest_hmac_sha256(w->seed, sizeof(w->seed), text, sizeof(*key) + 1 + length, digest))
		return NULL;
	memcpy(tag, digest, sizeof(*tag));
	return w->refusals->failures->rows[digest[sizeof(*tag)] % SETS];
}

static struct failure *row_of(struct failure *set, uint64_t tag)
{
	for (int i = 0; i < WAYS; i++)
		if (set[i].last > 0 && set[i].tag == tag)
			return &set[i];
	return NULL;
}

static struct failure *oldest_of(struct failure *set)
{
	struct failure *oldest = set;

	for (int i = 1; i < WAYS; i++)
		if (set[i].last < oldest->last)
			oldest = &set[i];
	return oldest;
}

/* Counts a failure and returns the number of failures, this one included. Returns how many there have been. */
static uint32_t count(const struct world *w, const struct address_key *key, const char *user)
{
	uint64_t tag;
	struct failure *set = set_of(w, key, user, &tag), *f = set ? row_of(set, tag) : NULL;

	if (!set)
		return 0;
	if (!f)
		f = oldest_of(set);
	if (f->tag != tag || !is_remembered(f, w->now))
		*f = (struct failure){ .key = *key, .tag = tag, .is_whole = !user };
	f->last = w->now;
	if (f->count < UINT32_MAX)
		f->count++;
	return f->count;
}

void failures_each(const struct world *w, void (*visit)(void *context, const struct address_key *key, uint32_t count), void *context)
{
	if (!w->refusals->failures)
		return;
	for (int i = 0; i < SETS * WAYS; i++) {
		const struct failure *f = &w->refusals->failures->rows[i / WAYS][i % WAYS];

		if (f->is_whole && is_remembered(f, w->now))
			visit(context, &f->key, f->count);
	}
}

uint32_t failures_of(const struct world *w, const struct address_key *key)
{
	struct failure *set, *f;
	uint64_t tag;

	if (!w->refusals->failures)
		return 0;
	set = set_of(w, key, NULL, &tag);
	f = set ? row_of(set, tag) : NULL;
	return f && is_remembered(f, w->now) ? f->count : 0;
}

/* ---- refusals that wait ---- */

/* Counts the failure. Returns for how long it delays the refusal. */
static usec_t delay_of(struct client *c)
{
	struct world *w = c->peer.world;
	usec_t most = w->conf->settings.login_failure_delay, of_user, of_address;
	struct refusals *all = w->refusals;
	struct address_key key;

	if (most == 0 || (!all->failures && !(all->failures = mem_try(sizeof(*all->failures)))))
		return 0;
	address_key_of(&key, &c->peer.remote);
	of_user = refusal_delay(count(w, &key, c->login->user), FREE_OF_USER, most);
	of_address = refusal_delay(count(w, &key, NULL), FREE_OF_ADDRESS, most);
	return of_user > of_address ? of_user : of_address;
}

void refusal_begin(struct client *c, enum close_reason why)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	usec_t delay = delay_of(c);
	char who[256];

	if (delay == 0 || w->drain != DRAIN_OFF || w->successor) {
		client_end(c, why, NULL);
		return;
	}
	if (w->refusals->count >= REFUSALS_MOST)
		refusals_hurry(w->refusals);
	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(w->pools, &c->pooled, CLIENT_AUTH, w->now);
	login_step_to(c, LOGIN_REFUSED);
	l->refusal = why;
	l->refused_at = w->now + delay;
	list_append(&w->refusals->waiting, &l->refusal_node);
	w->refusals->count++;
	client_address_of(c)->refused++;
	log_info("%s login failed again: its refusal waits for %.1f s", client_text(c, who, sizeof(who)), (double)delay / USEC);
	/* later messages are discarded, but a disconnect has to be noticed */
	flow_unblock(&c->peer, FLOW_HELD);
}

enum close_reason refusal_or(const struct client *c, enum close_reason otherwise)
{
	return c->login && c->login->step == LOGIN_REFUSED ? c->login->refusal : otherwise;
}

void refusal_forget(struct client *c)
{
	struct login *l = c->login;

	if (list_is_empty(&l->refusal_node))
		return;
	list_remove(&l->refusal_node);
	c->peer.world->refusals->count--;
	client_address_of(c)->refused--;
}

static struct login *login_at(struct list *node)
{
	return LIST_OBJECT(node, struct login, refusal_node);
}

static void tell(struct login *l)
{
	client_end(l->client, l->refusal, NULL);
}

void refusals_tick(struct refusals *all, usec_t now)
{
	LIST_EACH(node, &all->waiting)
		if (login_at(node)->refused_at <= now)
			tell(login_at(node));
}

bool refusals_hurry(struct refusals *all)
{
	LIST_EACH(node, &all->waiting) {
		if (peer_is_stopped(&login_at(node)->client->peer))
			continue;
		tell(login_at(node));
		return true;
	}
	return false;
}

void refusals_end(struct refusals *all)
{
	LIST_EACH(node, &all->waiting)
		tell(login_at(node));
}
