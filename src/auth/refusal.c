/*
 * Failed logins, and the delay of their refusals (login_failure_delay).
 *
 * Guessing passwords over the network must be slow for the attacker, and only for the attacker.
 * Therefore refusals are delayed, never a request or a success: a client with the correct password
 * logs in at once, whatever other clients of its address have done. The first failures of a user at
 * an address are reported at once, because users mistype; the next ones after 0.1 s, 0.2 s, 0.4 s
 * and so on up to login_failure_delay. The address is counted over all users too, with more
 * failures before the first delay, so that trying one password with many names is slow as well.
 * Failures are counted by name whether the user exists or not.
 *
 * Until its refusal a client takes only a descriptor: its messages are discarded, it is closed
 * first when room is needed, and at most REFUSALS_MOST clients wait; the oldest is refused at once
 * when there are more. Attackers may close before the refusal, but then have to make new
 * connections, and the number of logins in progress is limited.
 *
 * The counts are a cache of fixed size: a keyed digest of address and user selects the set, and the
 * row with the oldest failure is replaced. A row expires when there was no failure for FORGOTTEN. A
 * restart clears the counts.
 */
#include "auth/auth_inside.h"

#include "auth/login_state.h"
#include "base/log.h"
#include "pg/password.h"

#include <string.h>

#define FORGOTTEN (600 * USEC)
#define FIRST_DELAY (USEC / 10)
#define NAME_HASHED 1024		/* bytes; longer names do not pass the start-up packet */
#define FREE_OF_USER 2
#define FREE_OF_ADDRESS 20
#define REFUSALS_MOST 256

/* Returns how long the n-th failure delays its refusal if the first `free` failures do not; at most
   `most`. */
static usec_t refusal_delay(uint32_t n, uint32_t free, usec_t most)
{
	usec_t delay = FIRST_DELAY;

	if (n <= free || most == 0)
		return 0;
	for (n -= free + 1; n > 0 && delay < most; n--)
		delay *= 2;
	return delay < most ? delay : most;
}

static bool is_remembered(const struct failure *f, usec_t now)
{
	return f->last > 0 && now - f->last < FORGOTTEN;
}

/* Returns the row of this address and user, or else the row to replace, with another tag. `user`
   NULL: the address as a whole. NULL: no digest. */
static struct failure *find_row(const struct world *w, const struct address_key *key,
				const char *user, uint64_t *tag)
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
	oldest = set = w->logins.addresses->failures[digest[sizeof(*tag)] % FAILURE_SETS];
	for (int i = 0; i < FAILURE_WAYS; i++) {
		if (set[i].last > 0 && set[i].tag == *tag)
			return &set[i];
		if (set[i].last < oldest->last)
			oldest = &set[i];
	}
	return oldest;
}

/* Counts a failure. Returns the number of failures, including this one. */
static uint32_t refusal_count(const struct world *w, const struct address_key *key,
				    const char *user)
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

uint32_t refusal_failures(const struct world *w, const struct address_key *key)
{
	uint64_t tag;
	const struct failure *f =
		w->logins.addresses->failures ? find_row(w, key, NULL, &tag) : NULL;

	return f && f->tag == tag && is_remembered(f, w->now) ? f->count : 0;
}

const struct failure *refusal_next_row(const struct world *w, int *row)
{
	const struct client_addresses *all = w->logins.addresses;

	while (all->failures && *row < FAILURE_SETS * FAILURE_WAYS) {
		const struct failure *f =
			&all->failures[*row / FAILURE_WAYS][*row % FAILURE_WAYS];

		++*row;
		if (f->is_whole && is_remembered(f, w->now))
			return f;
	}
	return NULL;
}

void refusal_forget(struct client *c)
{
	struct login *l = c->login;

	if (list_is_empty(&l->refusal_node))
		return;
	list_remove(&l->refusal_node);
	c->peer.world->logins.addresses->refused_count--;
	client_address_of(c)->refused--;
}

/* Sends the refusal of a login. The reap sends it, so the login does not wait any longer. */
static void refusal_send(struct login *l)
{
	refusal_forget(l->client);
	client_end(l->client, l->refusal, NULL);
}

bool refusals_hurry(struct client_addresses *all)
{
	struct list *first = list_first(&all->refused);

	if (first)
		refusal_send(LIST_OBJECT(first, struct login, refusal_node));
	return first != NULL;
}

void refusals_tick(struct client_addresses *all, usec_t now)
{
	LIST_EACH_SAFE(node, &all->refused) {
		struct login *l = LIST_OBJECT(node, struct login, refusal_node);

		if (l->refused_at <= now)
			refusal_send(l);
	}
}

void refusal_begin(struct client *c, enum close_reason why)
{
	struct world *w = c->peer.world;
	struct client_addresses *all = w->logins.addresses;
	usec_t most = w->conf->settings.login_failure_delay, delay = 0, of_address;
	struct login *l = c->login;
	struct address_key key;
	char who[256];

	/* without a delay the counts still show where passwords are guessed */
	if (all->failures || (all->failures = mem_try(FAILURE_SETS * sizeof(*all->failures)))) {
		address_key_of(&key, &c->peer.remote);
		delay = refusal_delay(refusal_count(w, &key, l->user), FREE_OF_USER, most);
		of_address = refusal_delay(refusal_count(w, &key, NULL), FREE_OF_ADDRESS,
					   most);
		if (of_address > delay)
			delay = of_address;
	}
	if (delay == 0 || w->drain.step != DRAIN_OFF || w->successor) {
		client_end(c, why, NULL);
		return;
	}
	if (all->refused_count >= REFUSALS_MOST)
		refusals_hurry(all);
	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(w->pools, &c->pooled, CLIENT_AUTH, w->now);
	login_step_to(c, LOGIN_REFUSED);
	l->refusal = why;
	l->refused_at = w->now + delay;
	list_append(&all->refused, &l->refusal_node);
	all->refused_count++;
	client_address_of(c)->refused++;
	log_info("%s login failed again: its refusal waits for %.1f s",
		 client_text(c, who, sizeof(who)), (double)delay / USEC);
	/* later messages are discarded, but a disconnect has to be noticed */
	flow_unblock(&c->peer, FLOW_HELD);
}
