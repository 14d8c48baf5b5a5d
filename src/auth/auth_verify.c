/*
 * Logins that PAM or LDAP decides: the password comes in clear (AuthenticationCleartextPassword), and a verifier (room verify)
 * finds out whether it is right, while all other clients go on.
 *
 * The user need not be in the user list; a secret in the list is ignored. The pool keeps a password that was right, in memory, for logging
 * in at its servers (proven_secret.c): nothing else is known that they might accept. An empty password fails here; asked with one, many a
 * directory says yes to any name.
 *
 * Invariant: such a client has a check exactly while its step is LOGIN_VERIFY. A client that leaves, or waits for too long, cancels it.
 */
#include "auth/auth.h"

#include "auth/client_address.h"
#include "auth/refusal.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <stdio.h>
#include <string.h>

#define PAM_SERVICE "pgbouncer"		/* existing files in /etc/pam.d have this name */

static bool is_ldap(const struct login *l)
{
	return l->method == AUTH_LDAP;
}

static enum close_reason failure_of(const struct login *l)
{
	return is_ldap(l) ? REASON_LDAP_FAILED : REASON_PAM_FAILED;
}

/* The user's fault is a warning; that no answer could be had is an error. */
static void log_failure(const struct client *c, enum verify_verdict verdict, const char *why)
{
	char who[256], text[PRINTABLE_TEXT];

	log_write(verdict == VERIFIED_NO ? LEVEL_WARNING : LEVEL_ERROR, "%s %s: %s", client_text(c, who, sizeof(who)),
		  verify_method_name(is_ldap(c->login) ? VERIFY_LDAP : VERIFY_PAM), printable_text(why, text, sizeof(text)));
}

/* ---- the question ---- */

void auth_ask_pam(struct client *c)
{
	auth_ask_plain(c);
}

/* A rule is held by the login; the setting is copied, for a RELOAD may come before the password. */
void auth_ask_ldap(struct client *c)
{
	const struct ldap_options *of_setting = c->peer.world->conf->ldap;
	struct login *l = c->login;

	if (!l->rule && !of_setting) {
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return;
	}
	l->ldap = l->rule ? l->rule->ldap : ldap_options_copy(of_setting, l->arena);
	if (l->ldap)
		auth_ask_plain(c);
	else
		client_end(c, REASON_NO_MEMORY, NULL);
}

/* ---- the answer ---- */

static void let_in(struct client *c)
{
	auth_accept(c);
	/* the client may have sent messages during the check, and no event announces them */
	peer_come_again(&c->peer);
}

static void on_answer(void *context, const struct verify_answer *answer)
{
	struct client *c = context;

	world_wake(c->peer.world);
	c->login->check = NULL;
	if (peer_is_stopped(&c->peer))
		return;
	if (answer->verdict == VERIFIED_YES) {
		let_in(c);
		return;
	}
	if (answer->verdict == VERIFIED_DISPLACED) {
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return;
	}
	log_failure(c, answer->verdict, answer->why);
	if (answer->verdict == VERIFIED_NO)
		refusal_begin(c, failure_of(c->login));
	else
		client_end(c, failure_of(c->login), NULL);
}

/* Requests are grouped by client address and by site, as for the limits by address. */
struct verify_source auth_verify_source(const struct client *c)
{
	struct verify_source source = { .group = 0 };
	struct address_key key;

	_Static_assert(sizeof(source.bytes) == sizeof(key), "an address is no source");
	address_key_of(&key, &c->peer.remote);
	memcpy(source.bytes, &key, sizeof(key));
	if (address_site(&key) > 0)
		source.group = (uint8_t)(offsetof(struct address_key, bytes) + address_site(&key));
	return source;
}

static void ask(struct client *c)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	const struct verify_source source = auth_verify_source(c);
	char remote[80];
	const struct verify_question question = {
		.method = is_ldap(l) ? VERIFY_LDAP : VERIFY_PAM,
		.user = l->user,
		.password = l->password->bytes,
		.service = l->rule && l->rule->pam_service ? l->rule->pam_service : PAM_SERVICE,
		.remote = c->peer.remote.family == AF_UNIX ? NULL : brief_address_text(&c->peer.remote, remote, sizeof(remote)),
		.ldap = l->ldap,
		.ldap_timeout = w->conf->settings.auth_ldap_timeout,
	};

	login_step_to(c, LOGIN_VERIFY);
	switch (verifiers_ask(w->verifiers, &question, &source, w->now, on_answer, c, &l->check)) {
	case VERIFIERS_ASKED:
		return;
	case VERIFIERS_TOO_MANY:
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return;
	case VERIFIERS_TOO_LONG:
		log_failure(c, VERIFIED_NO, "name, password and options are too long together");
		refusal_begin(c, failure_of(l));
		return;
	case VERIFIERS_NO_MEMORY:
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
}

void auth_verify_message(struct client *c, const uint8_t *body, size_t size)
{
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *password = pg_read_string(&cursor);
	struct login *l = c->login;

	ASSERT(!l->check && !l->password);
	if (cursor.bad || cursor.at != cursor.end) {
		client_end(c, REASON_BAD_LOGIN_PACKET, "malformed password");
		return;
	}
	if (!*password) {
		log_failure(c, VERIFIED_NO, "the password is empty");
		refusal_begin(c, failure_of(l));
		return;
	}
	l->password = secret_new(password, strlen(password));
	if (l->password)
		ask(c);
	else
		client_end(c, REASON_NO_MEMORY, NULL);
}

/* ---- the end of waiting ---- */

void auth_verify_overdue(const struct client *c)
{
	const struct login *l = c->login;
	char text[160];
	int process;

	if (!l || !l->check)
		return;
	process = verify_check_process(l->check);
	if (process > 0)
		snprintf(text, sizeof(text), "no answer in client_login_timeout; the verifier at work on it (process %d) is ended", process);
	else
		snprintf(text, sizeof(text), "no verifier was free in client_login_timeout (max_auth_processes)");
	log_failure(c, VERIFIED_UNKNOWN, text);
}

void auth_verify_forget(struct client *c)
{
	struct login *l = c->login;

	if (l->check)
		verifiers_cancel(c->peer.world->verifiers, &l->check);
	secret_free(&l->password);
}
