/*
 * SCRAM derivations.
 *
 * A derivation is found by a keyed digest of its parameters. After a start no key is known yet,
 * many clients log in at once with the same name and password, and several connections log in at a
 * server. Therefore each derivation is made once for all connections that wait for it.
 *
 * Questions of clients are in a bounded queue, in which addresses take turns. Questions of server
 * logins have a queue of their own (verify/verifier.c): the number of connections that log in
 * bounds them, and clients with wrong passwords must not delay server logins. In this queue hosts
 * take turns, so that a host with a high iteration count does not delay other hosts, even with many
 * databases.
 *
 * Invariant: a derivation is in derivations->under_way until its answer comes, or until nothing
 * waits for it and no process works on it. If a process works on a derivation, it finishes, because
 * this takes a bounded time, and starting another process takes time, too.
 */
#include "backend/derivation.h"

#include "base/hash.h"
#include "conn/world.h"
#include "net/address.h"
#include "pg/scram.h"

#include <string.h>

/* for one user on one server at once, each with another salt */
#define DERIVATIONS_MOST 16
#define DERIVE_PERIOD (5 * USEC)	/* time until one more is allowed */

struct derivation {
	struct world *world;
	struct verify_check *check;	/* NULL: answered */
	struct list waiting;		/* struct derivation_wait */
	uint8_t tag[SHA256_SIZE];
	UT_hash_handle hh;
};

/* The derivations that the server at one address may still cause for one user, for all databases
   together. */
struct budget_key {
	struct verify_source host;
	uint16_t port;
	const struct user *user;
};
struct derivation_budget {
	struct budget_key key;
	uint8_t left;			/* grows by one every DERIVE_PERIOD ... */
	usec_t since;			/* ... from this time on */
	UT_hash_handle hh;
};

static void on_derivation_answer(void *context, const struct verify_answer *answer)
{
	struct derivation *d = context;

	world_wake(d->world);
	d->check = NULL;
	HASH_DEL(d->world->logins.derivations->under_way, d);
	/* done() may end other waits of this list */
	while (!list_is_empty(&d->waiting)) {
		struct derivation_wait *wait = LIST_OBJECT(d->waiting.next, struct derivation_wait,
							   node);

		list_remove(&wait->node);
		wait->derivation = NULL;
		if (peer_wake(wait->peer))
			wait->done(wait, answer);
	}
	mem_free(d);
}

/* The key of a derivation. The password, which has no maximum length, is included as a digest.
   False: no memory. */
static bool tag_of(const struct world *w, const struct derivation_question *q,
		   uint8_t tag[SHA256_SIZE])
{
	uint8_t text[SHA256_SIZE + sizeof(q->iterations) + SCRAM_SALT_MAX];
	size_t size = SHA256_SIZE + sizeof(q->iterations) + q->salt_size;
	bool ok = digest_hmac_sha256(w->seed, sizeof(w->seed), q->password, strlen(q->password),
				     text);

	memcpy(text + SHA256_SIZE, &q->iterations, sizeof(q->iterations));
	memcpy(text + SHA256_SIZE + sizeof(q->iterations), q->salt, q->salt_size);
	return ok && digest_hmac_sha256(w->seed, sizeof(w->seed), text, size, tag);
}

/* The turn of a server's host, the same for all its ports. The first byte differs from all client
   addresses. */
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

/* The number of derivations is bounded, because a server could send another salt each time, and
   have a key derived for each connection. */
static bool take_budget(struct world *w, const struct derivation_login *login)
{
	const struct address *server = login->server;
	struct derivation_budget *b;
	struct budget_key key;
	usec_t periods;

	memset(&key, 0, sizeof(key));
	key.host = source_of_server(server);
	if (server->u.any.sa_family == AF_INET6)
		key.port = server->u.v6.sin6_port;
	else if (server->u.any.sa_family == AF_INET)
		key.port = server->u.v4.sin_port;
	key.user = login->user;
	HASH_FIND(hh, w->logins.derivations->budgets, &key, sizeof(key), b);
	if (!b) {
		b = mem_try(sizeof(*b));
		if (!b)
			return false;
		b->key = key;
		b->left = DERIVATIONS_MOST;
		b->since = w->now;
		HASH_ADD(hh, w->logins.derivations->budgets, key, sizeof(b->key), b);
		if (!HASH_HAS(hh, b)) {
			mem_free(b);
			return false;
		}
	}
	periods = (w->now - b->since) / DERIVE_PERIOD;
	if (periods > 0) {
		b->left = (uint8_t)(periods + b->left < DERIVATIONS_MOST ? periods + b->left
									 : DERIVATIONS_MOST);
		b->since = w->now;
	}
	return b->left > 0 && b->left-- > 0;
}

enum verify_refusal derivation_ask(struct world *w, const struct derivation_question *q,
				   const struct verify_source *source,
				   const struct derivation_login *login,
				   struct derivation_wait *wait)
{
	const struct verify_question question = {
		.method = VERIFY_SCRAM,
		.user = q->user,
		.password = q->password,
		.salt = q->salt,
		.salt_size = q->salt_size,
		.iterations = q->iterations,
		.is_own = !source,
	};
	struct verify_source turn;
	enum verify_refusal refused;
	struct derivation *d = NULL;
	uint8_t tag[SHA256_SIZE];

	if (!tag_of(w, q, tag))
		return VERIFIERS_NO_MEMORY;
	HASH_FIND(hh, w->logins.derivations->under_way, tag, sizeof(tag), d);
	if (d) {
		/* it is in the turns of all addresses that ask for it */
		if (source)
			verifiers_share(w->logins.derivations->derivers, d->check, source);
	} else {
		d = mem_try(sizeof(*d));
		if (!d)
			return VERIFIERS_NO_MEMORY;
		if (login && !take_budget(w, login)) {
			mem_free(d);
			return VERIFIERS_TOO_MANY;
		}
		d->world = w;
		list_init(&d->waiting);
		memcpy(d->tag, tag, sizeof(d->tag));
		HASH_ADD(hh, w->logins.derivations->under_way, tag, sizeof(d->tag), d);
		if (!HASH_HAS(hh, d)) {
			mem_free(d);
			return VERIFIERS_NO_MEMORY;
		}
		turn = source ? *source : source_of_server(login->server);
		refused = verifiers_ask(w->logins.derivations->derivers, &question, &turn, w->now,
					on_derivation_answer, d, &d->check);
		if (refused != VERIFIERS_ASKED) {
			HASH_DEL(w->logins.derivations->under_way, d);
			mem_free(d);
			return refused;
		}
	}
	wait->derivation = d;
	list_append(&d->waiting, &wait->node);
	return VERIFIERS_ASKED;
}

void derivations_tick(struct derivations *all, usec_t now)
{
	struct derivation_budget *b, *next;

	verifiers_tick(all->derivers, now);
	HASH_ITER(hh, all->budgets, b, next)
		if (now - b->since >= DERIVATIONS_MOST * DERIVE_PERIOD) {
			HASH_DEL(all->budgets, b);
			mem_free(b);
		}
}

static void cancel(struct derivation *d)
{
	HASH_DEL(d->world->logins.derivations->under_way, d);
	verifiers_cancel(d->world->logins.derivations->derivers, &d->check);
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
		cancel(d);
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
		cancel(d);
	HASH_ITER(hh, all->budgets, b, next_budget) {
		HASH_DEL(all->budgets, b);
		mem_free(b);
	}
	verifiers_free(&all->derivers);
	mem_free(all);
	*place = NULL;
}
