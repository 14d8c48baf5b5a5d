/*
 * PAM and LDAP: the client sends its password in clear text (AuthenticationCleartextPassword), and a verifier, a process of the room verify,
 * checks it without blocking other clients.
 *
 * The user need not be in the user list, and a secret in the list is ignored. A correct password is kept in memory by the pool, for logins at
 * its servers (server_info.c). An empty password is refused without a question, because many directories accept any name with it.
 *
 * Invariant: the client has a check exactly while its step is LOGIN_VERIFY.
 */
#include "auth/auth.h"

#include "auth/refusal.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "pg/frame.h"

#include <string.h>

#define PAM_SERVICE "pgbouncer"		/* the name of existing files in /etc/pam.d */

/* A wrong password is a warning, a missing answer an error. */
static void log_failure(const struct client *c, enum verify_verdict verdict, const char *why)
{
	char who[256], text[PRINTABLE_TEXT];

	log_write(verdict == VERIFIED_NO ? LEVEL_WARNING : LEVEL_ERROR, "%s %s: %s", client_text(c, who, sizeof(who)),
		  verify_method_names[c->login->method == AUTH_LDAP ? VERIFY_LDAP : VERIFY_PAM], printable_text(why, text, sizeof(text)));
}

/* Ends the client. VERIFIED_NO counts as a failure of the address, and the refusal may be delayed. */
static void fail(struct client *c, enum verify_verdict verdict, const char *why)
{
	enum close_reason reason = c->login->method == AUTH_LDAP ? REASON_LDAP_FAILED : REASON_PAM_FAILED;

	log_failure(c, verdict, why);
	if (verdict == VERIFIED_NO)
		refusal_begin(c, reason);
	else
		client_end(c, reason, NULL);
}

void auth_ask_ldap(struct client *c)
{
	const struct ldap_options *of_setting = c->peer.world->conf->ldap;
	struct login *l = c->login;

	if (!l->rule && !of_setting) {
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return;
	}
	/* the login holds the rule; the setting is copied, because a RELOAD may come before the password */
	l->ldap = l->rule ? l->rule->ldap : ldap_options_copy(of_setting, l->arena);
	if (l->ldap)
		auth_ask_password(c);
	else
		client_end(c, REASON_NO_MEMORY, NULL);
}

static void on_answer(void *context, const struct verify_answer *answer)
{
	struct client *c = context;

	c->login->check = NULL;
	if (!peer_wake(&c->peer))
		return;
	switch (answer->verdict) {
	case VERIFIED_YES:
		auth_accept(c);
		/* no event announces messages that the client has sent during the check */
		peer_come_again(&c->peer);
		return;
	case VERIFIED_DISPLACED:
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return;
	case VERIFIED_NO:
	case VERIFIED_UNKNOWN:
		fail(c, answer->verdict, answer->why);
		return;
	}
}

void auth_verify_message(struct client *c, const uint8_t *body, size_t size)
{
	struct world *w = c->peer.world;
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *password = pg_read_string(&cursor);
	struct login *l = c->login;
	const struct verify_source source = client_address_source(c);
	struct verify_question question;
	char remote[80];

	ASSERT(!l->check && !l->password);
	if (cursor.bad || cursor.at != cursor.end) {
		client_end(c, REASON_BAD_LOGIN_PACKET, "malformed password");
		return;
	}
	if (!*password) {
		fail(c, VERIFIED_NO, "the password is empty");
		return;
	}
	l->password = secret_new(password, strlen(password));
	if (!l->password) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	question = (struct verify_question){
		.method = l->method == AUTH_LDAP ? VERIFY_LDAP : VERIFY_PAM,
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
		fail(c, VERIFIED_NO, "name, password and options are too long together");
		return;
	case VERIFIERS_NO_MEMORY:
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
}

void auth_log_overdue(const struct client *c)
{
	const struct login *l = c->login;
	char text[160], who[256];
	int process;

	if (l && l->derivation.derivation) {
		log_error("%s SCRAM: %s", client_text(c, who, sizeof(who)), l->question == QUESTION_PASSWORD ?
			  "the password could not be compared with the secret in client_login_timeout" :
			  "the secret for SCRAM could not be derived in client_login_timeout");
	} else if (l && l->check) {
		process = verify_check_process(l->check);
		if (process > 0)
			snprintf(text, sizeof(text), "no answer in client_login_timeout; the verifier at work on it (process %d) is ended", process);
		else
			snprintf(text, sizeof(text), "no verifier was free in client_login_timeout (max_auth_processes)");
		log_failure(c, VERIFIED_UNKNOWN, text);
	}
}

void auth_forget(struct client *c)
{
	struct login *l = c->login;

	if (l->check)
		verifiers_cancel(c->peer.world->verifiers, &l->check);
	derivation_leave(&l->derivation);
	secret_free(&l->password);
}
