/*
 * Authentication by PAM and LDAP.
 *
 * The client sends its password in clear text, and a verifier, a process of the room verify, checks
 * the password without blocking other clients. The user need not be in the user list. A correct
 * password is kept in memory by the pool, for logins at its servers (server_info.c). An empty
 * password is refused without a question, because many directories accept any name with it.
 *
 * Invariant: the client has a check exactly while its step is LOGIN_VERIFY.
 */
#include "auth/auth_inside.h"

#include "auth/login_state.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "pg/frame.h"
#include "verify/verifier.h"

#include <string.h>

#define PAM_SERVICE "pgbouncer"		/* the name of existing files in /etc/pam.d */

/* Ends the client. VERIFIED_NO, a wrong password, is logged as a warning and counts as a failure of
   the address, and the refusal may be delayed. A missing answer is an error. */
static void fail_verification(struct client *c, enum verify_verdict verdict, const char *why)
{
	bool is_ldap = c->login->method == AUTH_LDAP;
	enum close_reason reason = is_ldap ? REASON_LDAP_FAILED : REASON_PAM_FAILED;
	char who[256], text[PRINTABLE_TEXT];

	log_write(verdict == VERIFIED_NO ? LEVEL_WARNING : LEVEL_ERROR, "%s %s: %s",
		  client_text(c, who, sizeof(who)), is_ldap ? "LDAP" : "PAM",
		  printable_text(why, text, sizeof(text)));
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
	/* the login holds the rule; the setting is copied, because a RELOAD may come before the
	   password */
	l->ldap = l->rule ? l->rule->ldap : ldap_options_copy(of_setting, l->arena);
	if (l->ldap)
		auth_ask_password(c);
	else
		client_end(c, REASON_NO_MEMORY, NULL);
}

static void on_verified(void *context, const struct verify_answer *answer)
{
	struct client *c = context;

	c->login->check = NULL;
	if (!peer_wake(&c->peer))
		return;
	if (answer->verdict == VERIFIED_YES) {
		auth_accept_client(c);
		/* no event announces messages that the client has sent during the check */
		peer_come_again(&c->peer);
	} else if (answer->verdict == VERIFIED_DISPLACED) {
		client_end(c, REASON_AUTH_QUEUE, NULL);
	} else {
		fail_verification(c, answer->verdict, answer->why);
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
	enum verify_refusal why;
	char remote[80];

	ASSERT(!l->check && !l->password);
	if (cursor.bad || cursor.at != cursor.end) {
		client_end(c, REASON_BAD_LOGIN_PACKET, "malformed password");
		return;
	}
	if (!*password) {
		fail_verification(c, VERIFIED_NO, "the password is empty");
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
		.remote = c->peer.remote.family == AF_UNIX
				  ? NULL
				  : brief_address_text(&c->peer.remote, remote, sizeof(remote)),
		.ldap = l->ldap,
		.ldap_timeout = w->conf->settings.auth_ldap_timeout,
	};
	login_step_to(c, LOGIN_VERIFY);
	why = verifiers_ask(w->logins.verifiers, &question, &source, w->now, on_verified, c,
			    &l->check);
	if (why == VERIFIERS_TOO_LONG)
		fail_verification(c, VERIFIED_NO,
				  "name, password and options are too long together");
	else if (why != VERIFIERS_ASKED)
		client_end(c, why == VERIFIERS_TOO_MANY ? REASON_AUTH_QUEUE : REASON_NO_MEMORY,
			   NULL);
}
