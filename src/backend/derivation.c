/*
 * Derivations under way.
 *
 * A derivation is found by a keyed digest of all that goes into it. After a start, when no key is known yet, many clients come
 * at once with the same name and password, and a server is logged in to by several connections: each of these derivations
 * is made once, for all that wait.
 *
 * Questions of clients have a queue that is bounded, and in which addresses take turns. Those of server logins stand in a line of their own
 * (verify/verifier.c), because the number of connections that log in bounds them already, and clients with wrong passwords
 * must not keep pgweir from its servers. There the hosts take turns, so that one with slow salts is not before all others, whatever
 * the number of names that lead to it.
 *
 * Invariant: a derivation is in derivations->under_way until its answer comes, or is given up when nothing waits for it and no
 * process is at work on it. One that a process is at work on is finished: that takes a bounded time, and starting another
 * process takes some, too.
 */
#include "backend/derivation.h"

#include "base/hash.h"
#include "conn/world.h"
#include "net/address.h"
#include "pg/digest.h"

#include <string.h>

#define DERIVATIONS_MOST 16		/* for one user on one server at once, for as many salts */
#define DERIVE_PERIOD (5 * USEC)	/* one more */

struct derivation {
	struct world *world;
	struct verify_check *check;	/* NULL: answered */
	struct list waiting;		/* struct derivation_wait */
	uint8_t tag[SHA256_SIZE];
	UT_hash_handle hh;
};

/* What the server at one address may still cause for one user, whatever the database: one at which many names of databases lead
   must not have as many budgets. */
struct budget_key {
	struct verify_source host;
	uint16_t port;
	const struct user *user;
};
struct derivation_budget {
	struct budget_key key;
	uint8_t left;			/* one more every DERIVE_PERIOD ... */
	usec_t since;			/* ... counted from here */
	UT_hash_handle hh;
};

void derivation_wait_init(struct derivation_wait *wait, struct peer *peer)
{
	*wait = (struct derivation_wait){ .peer = peer };
	list_init(&wait->node);
}

static void on_answer(void *context, const struct verify_answer *answer)
{
	struct derivation *d = context;

	world_wake(d->world);
	d->check = NULL;
	HASH_DEL(d->world->derivations->under_way, d);
	/* one that is told may end others that wait here */
	while (!list_is_empty(&d->waiting)) {
		struct derivation_wait *wait = LIST_OBJECT(d->waiting.next, struct derivation_wait, node);

		list_remove(&wait->node);
		wait->derivation = NULL;
		if (!peer_is_stopped(wait->peer))
			wait->done(wait, answer);
	}
	mem_free(d);
}

/* Of the three, only the password has no bound of its own. */
static bool tag_of(const struct world *w, const struct derivation_question *q, uint8_t tag[SHA256_SIZE])
{
	uint8_t text[SHA256_SIZE + sizeof(q->iterations) + SCRAM_SALT_MAX];
	size_t size = SHA256_SIZE + sizeof(q->iterations) + q->salt_size;
	bool ok = digest_hmac_sha256(w->seed, sizeof(w->seed), q->password, strlen(q->password), text);

	memcpy(text + SHA256_SIZE, &q->iterations, sizeof(q->iterations));
	memcpy(text + SHA256_SIZE + sizeof(q->iterations), q->salt, q->salt_size);
	return ok && digest_hmac_sha256(w->seed, sizeof(w->seed), text, size, tag);
}

static struct derivation *derivation_new(struct world *w, const uint8_t tag[SHA256_SIZE])
{
	struct derivation *d = mem_try(sizeof(*d));

	if (!d)
		return NULL;
	d->world = w;
	list_init(&d->waiting);
	memcpy(d->tag, tag, sizeof(d->tag));
	HASH_ADD(hh, w->derivations->under_way, tag, sizeof(d->tag), d);
	if (HASH_HAS(hh, d))
		return d;
	mem_free(d);
	return NULL;
}

/* The key of a server's turn, the same for all ports of its host: no address of a client has this family. */
static struct verify_source source_of_server(const struct address *server)
{
	struct verify_source source = { .bytes = { 0xff } };
	unsigned hash;

	_Static_assert(sizeof(source) > sizeof(server->u.v6.sin6_addr), "an address fits");
	if (server->u.any.sa_family == AF_INET6) {
		memcpy(source.bytes + 1, &server->u.v6.sin6_addr, sizeof(server->u.v6.sin6_addr));
	} else if (server->u.any.sa_family == AF_INET) {
		memcpy(source.bytes + 1, &server->u.v4.sin_addr, sizeof(server->u.v4.sin_addr));
	} else {
		hash = hash_of(&server->u.local, server->size);
		memcpy(source.bytes + 1, &hash, sizeof(hash));
	}
	return source;
}

static enum verify_refusal ask(struct derivation *d, const struct derivation_question *q, const struct verify_source *source,
			       const struct address *server)
{
	const struct verify_source of_server = source ? *source : source_of_server(server);
	const struct verify_question question = {
		.method = VERIFY_SCRAM, .user = q->user, .password = q->password, .salt = q->salt, .salt_size = q->salt_size,
		.iterations = q->iterations, .is_own = !source,
	};

	return verifiers_ask(d->world->derivations->derivers, &question, &of_server, d->world->now, on_answer, d, &d->check);
}

/* It has been asked for, and the answer has not come: to ask for it, too, costs nothing. */
static bool derivation_is_under_way(const struct world *w, const struct derivation_question *q)
{
	struct derivation *d = NULL;
	uint8_t tag[SHA256_SIZE];

	if (tag_of(w, q, tag))
		HASH_FIND(hh, w->derivations->under_way, tag, sizeof(tag), d);
	return d != NULL;
}

enum verify_refusal derivation_ask(struct world *w, const struct derivation_question *q, const struct verify_source *source,
				   const struct address *server, struct derivation_wait *wait)
{
	enum verify_refusal refused = VERIFIERS_NO_MEMORY;
	struct derivation *d = NULL;
	uint8_t tag[SHA256_SIZE];

	if (!tag_of(w, q, tag))
		return VERIFIERS_NO_MEMORY;
	HASH_FIND(hh, w->derivations->under_way, tag, sizeof(tag), d);
	/* one that clients of one address have asked for is not to keep those of others waiting behind all of theirs */
	if (d && source)
		verifiers_share(w->derivations->derivers, d->check, source);
	if (!d && (d = derivation_new(w, tag)) != NULL) {
		refused = ask(d, q, source, server);
		if (refused != VERIFIERS_ASKED) {
			HASH_DEL(w->derivations->under_way, d);
			mem_free(d);
			return refused;
		}
	}
	if (!d)
		return VERIFIERS_NO_MEMORY;
	wait->derivation = d;
	list_append(&d->waiting, &wait->node);
	return VERIFIERS_ASKED;
}

/* ---- how many a server may cause ---- */

static uint16_t port_of(const struct address *a)
{
	return a->u.any.sa_family == AF_INET6 ? a->u.v6.sin6_port : a->u.any.sa_family == AF_INET ? a->u.v4.sin_port : 0;
}

/* Full when it is new. NULL: no memory. */
static struct derivation_budget *budget_of(struct world *w, const struct address *server, const struct user *user)
{
	struct budget_key key;
	struct derivation_budget *b;

	memset(&key, 0, sizeof(key));
	key.host = source_of_server(server);
	key.port = port_of(server);
	key.user = user;
	HASH_FIND(hh, w->derivations->budgets, &key, sizeof(key), b);
	if (b || !(b = mem_try(sizeof(*b))))
		return b;
	b->key = key;
	b->left = DERIVATIONS_MOST;
	b->since = w->now;
	HASH_ADD(hh, w->derivations->budgets, key, sizeof(b->key), b);
	if (HASH_HAS(hh, b))
		return b;
	mem_free(b);
	return NULL;
}

static void budget_grow(struct derivation_budget *b, usec_t now)
{
	usec_t periods = (now - b->since) / DERIVE_PERIOD;

	if (periods == 0)
		return;
	b->left = (uint8_t)(periods + b->left < DERIVATIONS_MOST ? periods + b->left : DERIVATIONS_MOST);
	b->since = now;
}

bool derivation_may_ask(struct world *w, const struct derivation_question *q, const struct address *server, const struct user *user)
{
	struct derivation_budget *b;

	if (derivation_is_under_way(w, q))
		return true;
	b = budget_of(w, server, user);
	if (!b)
		return false;
	budget_grow(b, w->now);
	return b->left > 0 && b->left-- > 0;
}

static void budget_free(struct derivations *all, struct derivation_budget *b)
{
	HASH_DEL(all->budgets, b);
	mem_free(b);
}

void derivations_tick(struct derivations *all, usec_t now)
{
	struct derivation_budget *b, *next;

	verifiers_tick(all->derivers, now);
	HASH_ITER(hh, all->budgets, b, next)
		if (now - b->since >= DERIVATIONS_MOST * DERIVE_PERIOD)
			budget_free(all, b);
}

bool derivation_in_loop(const struct derivation_question *q, uint8_t salted[SCRAM_KEY])
{
	return q->iterations <= DERIVATION_IN_LOOP && scram_salted_derive(q->password, q->salt, q->salt_size, q->iterations, salted);
}

static void give_up(struct derivation *d)
{
	HASH_DEL(d->world->derivations->under_way, d);
	verifiers_cancel(d->world->derivations->derivers, &d->check);
	mem_free(d);
}

void derivation_leave(struct derivation_wait *wait)
{
	struct derivation *d = wait->derivation;

	if (!d)
		return;
	wait->derivation = NULL;
	list_remove(&wait->node);
	if (list_is_empty(&d->waiting) && d->check && !verify_check_process(d->check))
		give_up(d);
}

struct derivations *derivations_new(struct event_base *base, const struct verify_limits *limits)
{
	struct derivations *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	all->derivers = verifiers_new(base, limits);
	if (!all->derivers)
		derivations_free(&all);
	return all;
}

void derivations_free(struct derivations **place)
{
	struct derivations *all = *place;
	struct derivation *d, *next;
	struct derivation_budget *b, *next_budget;

	if (!all)
		return;
	HASH_ITER(hh, all->under_way, d, next)
		give_up(d);
	HASH_ITER(hh, all->budgets, b, next_budget)
		budget_free(all, b);
	verifiers_free(&all->derivers);
	mem_free(all);
	*place = NULL;
}
