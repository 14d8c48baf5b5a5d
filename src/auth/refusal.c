/*
 * Failed logins, and the delay of their refusals.
 *
 * Guessing passwords over the network must be slow for the attacker, and only for the attacker. Therefore refusals are delayed, never a
 * request or a success: a client with the correct password logs in at once, whatever other clients of its address have done. The first failures of
 * a user at an address are reported at once, because users mistype; the next ones after 0.1 s, 0.2 s, 0.4 s and so on up to
 * login_failure_delay. The address is counted over all users too, with more failures before the first delay, so that trying one password with
 * many names is slow as well. Failures are counted by name whether the user exists or not.
 *
 * A client that waits for its refusal takes only a descriptor: its messages are discarded, it is closed first when room is needed, and at most
 * REFUSALS_MOST clients wait; the oldest is refused at once when there are more. An attacker that does not wait for the refusal has to make new
 * connections, and the number of logins in progress is limited (client_address.c).
 *
 * The counts are a cache of fixed size: a keyed digest of address and user selects the set, and the row with the oldest failure is replaced. A row
 * expires when there was no failure for FORGOTTEN. A restart clears the counts.
 */
#include "auth/refusal.h"

#include "auth/login_state.h"
#include "base/log.h"
#include "pg/password.h"

#include <string.h>

#define SETS 128
#define WAYS 8
#define FORGOTTEN (600 * USEC)
#define FIRST_DELAY (USEC / 10)
#define NAME_HASHED 1024		/* bytes; longer names do not pass the start-up packet */
#define FREE_OF_USER 2
#define FREE_OF_ADDRESS 20
#define REFUSALS_MOST 256

struct failure {
	struct address_key key;
	uint64_t tag;			/* keyed digest of address and user */
	bool is_whole;			/* of the address, over all users */
	uint32_t count;
	usec_t last;			/* 0: the row is free */
};

struct refusals {
	struct failure (*sets)[WAYS];	/* SETS of them; NULL: no login has failed yet */
	struct list waiting;		/* struct login with a delayed refusal, oldest first */
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
	mem_free((*place)->sets);
	mem_free(*place);
	*place = NULL;
}

/* Returns how long the n-th failure delays its refusal if the first `free` failures do not; at most `most`. */
static usec_t refusal_delay(uint32_t n, uint32_t free, usec_t most)
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

/* Returns the row of this address and user, or else the row to replace, with another tag. `user` NULL: the address as a whole. NULL: no digest. */
static struct failure *find_row(const struct world *w, const struct address_key *key, const char *user, uint64_t *tag)
{
	uint8_t text[sizeof(*key) + 1 + NAME_HASHED], digest[SHA256_SIZE];
	size_t length = user ? strnlen(user, NAME_HASHED) : 0;
	struct failure *set, *oldest;

	memcpy(text, key, sizeof(*key));
	text[sizeof(*key)] = user != NULL;
	if (length > 0)
		memcpy(text + sizeof(*key) + 1, user, length);
	if (!digest_hmac_sha256(w->seed, sizeof(w->seed), text, sizeof(*key) + 1 + length, digest))
		return NULL;
	memcpy(tag, digest, sizeof(*tag));
	oldest = set = w->refusals->sets[digest[sizeof(*tag)] % SETS];
	for (int i = 0; i < WAYS; i++) {
		if (set[i].last > 0 && set[i].tag == *tag)
			return &set[i];
		if (set[i].last < oldest->last)
			oldest = &set[i];
	}
	return oldest;
}

/* Counts a failure. Returns the number of failures, including this one. */
static uint32_t count(const struct world *w, const struct address_key *key, const char *user)
{
	uint64_t tag;
	struct failure *f = find_row(w, key, user, &tag);

	if (!f)
		return 0;
	if (f->tag != tag || !is_remembered(f, w->now))
		*f = (struct failure){ .key = *key, .tag = tag, .is_whole = !user };
	f->last = w->now;
	if (f->count < UINT32_MAX)
		f->count++;
	return f->count;
}

void failures_each(const struct world *w, void (*visit)(void *context, const struct address_key *key, uint32_t count), void *context)
{
	for (int i = 0; w->refusals->sets && i < SETS * WAYS; i++) {
		const struct failure *f = &w->refusals->sets[i / WAYS][i % WAYS];
		const struct client_address *connected;

		if (!f->is_whole || !is_remembered(f, w->now))
			continue;
		HASH_FIND(hh, w->addresses->by_key, &f->key, sizeof(f->key), connected);
		if (!connected)
			visit(context, &f->key, f->count);
	}
}

uint32_t failures_of(const struct world *w, const struct address_key *key)
{
	const struct failure *f;
	uint64_t tag;

	f = w->refusals->sets ? find_row(w, key, NULL, &tag) : NULL;
	return f && f->tag == tag && is_remembered(f, w->now) ? f->count : 0;
}

/* ---- delayed refusals ---- */

void refusal_begin(struct client *c, enum close_reason why)
{
	struct world *w = c->peer.world;
	struct refusals *all = w->refusals;
	usec_t most = w->conf->settings.login_failure_delay, delay = 0, of_address;
	struct login *l = c->login;
	struct address_key key;
	char who[256];

	if (most > 0 && (all->sets || (all->sets = mem_try(SETS * sizeof(*all->sets))))) {
		address_key_of(&key, &c->peer.remote);
		delay = refusal_delay(count(w, &key, l->user), FREE_OF_USER, most);
		of_address = refusal_delay(count(w, &key, NULL), FREE_OF_ADDRESS, most);
		if (of_address > delay)
			delay = of_address;
	}
	if (delay == 0 || w->drain != DRAIN_OFF || w->successor) {
		client_end(c, why, NULL);
		return;
	}
	if (all->count >= REFUSALS_MOST)
		refusals_hurry(all);
	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(w->pools, &c->pooled, CLIENT_AUTH, w->now);
	login_step_to(c, LOGIN_REFUSED);
	l->refusal = why;
	l->refused_at = w->now + delay;
	list_append(&all->waiting, &l->refusal_node);
	all->count++;
	client_address_of(c)->refused++;
	log_info("%s login failed again: its refusal waits for %.1f s", client_text(c, who, sizeof(who)), (double)delay / USEC);
	/* later messages are discarded, but a disconnect has to be noticed */
	flow_unblock(&c->peer, FLOW_HELD);
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

/* Sends the refusal of a login. The reap sends it, so the login does not wait any longer. */
static void refuse(struct login *l)
{
	refusal_forget(l->client);
	client_end(l->client, l->refusal, NULL);
}

void refusals_tick(struct refusals *all, usec_t now)
{
	LIST_EACH_SAFE(node, &all->waiting) {
		struct login *l = LIST_OBJECT(node, struct login, refusal_node);

		if (l->refused_at <= now)
			refuse(l);
	}
}

bool refusals_hurry(struct refusals *all)
{
	struct list *first = list_first(&all->waiting);

	if (first)
		refuse(LIST_OBJECT(first, struct login, refusal_node));
	return first != NULL;
}
