/*
 * Passwords in clear that are to be compared with SCRAM secrets (auth_type plain, `password` in an HBA file).
 *
 * The comparison takes thousands of HMACs, on purpose, and whoever does not know a password can ask for as many as he likes. So it is
 * made by a verifier, one of those that do nothing else (world->derivers: a slow PAM module holds up none of these). It tells
 * SaltedPassword, and here is seen whether that gives the StoredKey of the secret. The password that was right last is known
 * again without all that (keys.c).
 *
 * After a start, when nobody is known yet, many clients come at once with the same name and password. So what is asked for already is
 * not asked for again: a derivation is found by a keyed digest of the secret and the password. Nobody can tell by the time it takes
 * whether a user exists: a made-up secret is derived for just as well.
 *
 * Invariant: a derivation is in world->derivations until its answer comes, or is given up when nobody waits for it and no process is at
 * work on it. One that a process is at work on is finished: that takes a bounded time, and to start another process takes some, too.
 */
#include "session/derive.h"

#include "base/hash.h"
#include "base/log.h"
#include "session/auth.h"
#include "session/keys.h"
#include "session/origin.h"
#include "session/refusal.h"

#include <string.h>

#define TAG 32

struct derivation {
	struct world *world;
	struct verify_check *check;	/* NULL: answered */
	struct list waiting;		/* struct login */
	uint8_t tag[TAG];		/* keys_tag of secret and password */
	UT_hash_handle hh;
};

/* ---- the answer ---- */

static void log_failure(const struct client *c, const char *why)
{
	char who[256];

	log_error("%s %s: %s", client_text(c, who, sizeof(who)), verify_method_name(VERIFY_SCRAM), why);
}

static void compare(struct client *c, const uint8_t salted[SCRAM_KEY])
{
	struct login *l = c->login;
	bool right = l->stored && keys_password_prove(auth_keys_of(c), l->password->bytes, l->user, l->stored->bytes, salted);

	secret_free(&l->password);
	if (!right) {
		refusal_begin(c, GOODBYE_PASSWORD_FAILED);
		return;
	}
	auth_accept(c);
	/* no event will announce what it has sent meanwhile */
	if (c->policy.state != CLIENT_DEAD)
		peer_come_again(&c->peer);
}

static void tell(struct client *c, const struct verify_answer *answer)
{
	switch (answer->verdict) {
	case VERIFY_YES:
		compare(c, answer->salted);
		return;
	case VERIFY_DISPLACED:
		client_end(c, GOODBYE_AUTH_QUEUE, NULL);
		return;
	case VERIFY_NO:
	case VERIFY_UNKNOWN:
		log_failure(c, answer->why);
		client_end(c, GOODBYE_PASSWORD_FAILED, NULL);
		return;
	}
}

static void on_answer(void *context, const struct verify_answer *answer)
{
	struct derivation *d = context;

	world_wake(d->world);
	d->check = NULL;
	HASH_DEL(d->world->derivations, d);
	/* one that is told may end others that wait here */
	while (!list_is_empty(&d->waiting)) {
		struct login *l = LIST_OBJECT(d->waiting.next, struct login, derivation_node);

		list_remove(&l->derivation_node);
		l->derivation = NULL;
		tell(l->client, answer);
	}
	mem_free(d);
}

/* ---- the question ---- */

static struct derivation *derivation_new(struct world *w, const uint8_t tag[TAG])
{
	struct derivation *d = mem_try(sizeof(*d));

	if (!d)
		return NULL;
	d->world = w;
	list_init(&d->waiting);
	memcpy(d->tag, tag, sizeof(d->tag));
	HASH_ADD(hh, w->derivations, tag, sizeof(d->tag), d);
	if (HASH_HAS(hh, d))
		return d;
	mem_free(d);
	return NULL;
}

/* NULL: the client has ended. */
static struct derivation *ask(struct client *c, const struct scram_secret *secret, const uint8_t tag[TAG])
{
	struct world *w = c->peer.world;
	const struct verify_source source = auth_verify_source(c);
	const struct verify_question question = {
		.method = VERIFY_SCRAM, .user = c->login->user, .password = c->login->password->bytes,
		.salt = secret->salt, .salt_size = secret->salt_size, .iterations = secret->iterations,
	};
	struct derivation *d = derivation_new(w, tag);
	enum verify_refusal refused = !d ? VERIFY_NO_MEMORY :
				      verifiers_ask(w->derivers, &question, &source, w->now, on_answer, d, &d->check);

	if (refused == VERIFY_ASKED)
		return d;
	if (d) {
		HASH_DEL(w->derivations, d);
		mem_free(d);
	}
	if (refused == VERIFY_TOO_LONG)
		refusal_begin(c, GOODBYE_PASSWORD_FAILED);
	else
		client_end(c, refused == VERIFY_TOO_MANY ? GOODBYE_AUTH_QUEUE : GOODBYE_NO_MEMORY, NULL);
	return NULL;
}

/* One that is asked for already, or a new one. NULL: the client has ended. */
static struct derivation *find_or_ask(struct client *c, const struct scram_secret *secret, const char *stored)
{
	struct derivation *d = NULL;
	uint8_t tag[TAG];

	if (!keys_tag(auth_keys_of(c), stored, c->login->password->bytes, tag)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return NULL;
	}
	HASH_FIND(hh, c->peer.world->derivations, tag, sizeof(tag), d);
	return d ? d : ask(c, secret, tag);
}

_Static_assert(SCRAM_ITERATIONS_MAX == 1000000, "the log says something else");

void derive_begin(struct client *c, const char *password, const char *stored)
{
	struct login *l = c->login;
	struct scram_secret secret;
	struct derivation *d;

	if (!scram_secret_read(stored, &secret) || secret.iterations > SCRAM_ITERATIONS_MAX) {
		log_failure(c, "the secret has more than 1000000 iterations, too many for a password in clear");
		refusal_begin(c, GOODBYE_PASSWORD_FAILED);
		return;
	}
	l->password = secret_new(password, strlen(password));
	if (!l->password) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	l->step = LOGIN_VERIFY;
	d = find_or_ask(c, &secret, stored);
	if (d) {
		l->derivation = d;
		list_append(&d->waiting, &l->derivation_node);
	}
	mem_wipe(&secret, sizeof(secret));
}

/* ---- the end of waiting ---- */

void derive_overdue(const struct client *c)
{
	if (c->login && c->login->derivation)
		log_failure(c, "the password could not be compared with the secret in client_login_timeout");
}

static void give_up(struct derivation *d)
{
	HASH_DEL(d->world->derivations, d);
	verifiers_cancel(d->world->derivers, &d->check);
	mem_free(d);
}

void derive_forget(struct client *c)
{
	struct login *l = c->login;
	struct derivation *d = l->derivation;

	if (!d)
		return;
	l->derivation = NULL;
	list_remove(&l->derivation_node);
	if (list_is_empty(&d->waiting) && d->check && !verify_check_process(d->check))
		give_up(d);
}

void derivations_free(struct world *w)
{
	struct derivation *d, *next;

	HASH_ITER(hh, w->derivations, d, next)
		give_up(d);
}
