/*
 * Authentication of a client: which method holds for it, and the methods that ask no question.
 *
 * Three steps, in this order: auth_begin chooses the method (auth_type, and with hba a line: auth_hba.c), then finds the user's
 * secret, then has auth_question ask. The two last are apart because a secret may have to be waited for. Methods that ask for a
 * secret are in auth_secret.c.
 *
 * An unknown user takes the same steps as a known one: whether a name exists is not told before the proof.
 */
#include "auth/auth.h"

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "auth/refusal.h"
#include "auth/unknown.h"
#include "auth/users.h"
#include "backend/secrets.h"
#include "base/log.h"
#include "base/text.h"
#include "pg/password.h"

#include <string.h>
#include <unistd.h>

/* ---- shared by the methods ---- */

static void send_out(struct client *c)
{
	struct bytes out = c->login->out;

	c->login->out = (struct bytes)BYTES_EMPTY;
	client_send(c, &out);
	bytes_wipe(&out);
}

void auth_wait_for(struct client *c, enum login_step step)
{
	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_AUTH, c->peer.world->now);
	login_step_to(c, step);
	send_out(c);
}

/* The database name is a name of the console: "pgbouncer" or "pgweir". */
static bool auth_is_console(const struct login *l)
{
	return strcmp(l->database, "pgbouncer") == 0 || strcmp(l->database, "pgweir") == 0;
}

/* Gives a user of the console its rights: admin_users may do everything, stats_users may show. False: it ended. */
static bool console_role(struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	struct login *l = c->login;

	if (text_list_has(set->admin_users, l->user, false))
		client_address_set_administrator(c);
	c->may_show = c->is_admin || text_list_has(set->stats_users, l->user, false) || set->auth_type == AUTH_ANY;
	if (c->may_show && (c->is_admin || client_address_may_have(c, false)))
		return true;
	client_end(c, c->may_show ? REASON_MAX_CLIENT_CONN_PER_IP : REASON_NOT_ALLOWED, NULL);
	return false;
}

/* The user that runs the daemon may look after it, over a Unix socket, without a password. */
static bool is_own_user(const struct client *c)
{
	const struct login *l = c->login;

	return auth_is_console(l) && c->peer.remote.family == AF_UNIX && c->peer.remote.u.peer.uid == (uint32_t)geteuid() &&
	       (strcmp(l->user, "pgbouncer") == 0 || strcmp(l->user, "pgweir") == 0);
}

void auth_accept(struct client *c)
{
	if (!auth_is_console(c->login) || c->is_admin || console_role(c))
		c->peer.world->ops->proven(c);
}

/* The user exists, but no answer of the client can be checked with the stored secret. */
static bool has_unfit_secret(const struct login *l)
{
	enum secret_kind kind = secret_kind_of(l->stored->bytes);

	return kind == SECRET_NONE || (l->question == QUESTION_SCRAM && kind == SECRET_MD5);
}

static void log_refused(const struct client *c)
{
	const struct login *l = c->login;
	char who[256];

	client_text(c, who, sizeof(who));
	if (l->stored && secret_kind_of(l->stored->bytes) == SECRET_NONE)
		log_error("%s password authentication failed (the user's secret is empty or malformed)", who);
	else if (l->stored && has_unfit_secret(l))
		log_error("%s SCRAM authentication failed: user has MD5 secret", who);
	else if (l->question == QUESTION_SCRAM)
		log_error("%s password authentication failed", who);
}

void auth_refuse(struct client *c)
{
	const struct login *l = c->login;
	/* auth_type md5 uses SCRAM for some users, and that must not show */
	bool is_sasl = l->question == QUESTION_SCRAM && l->method != AUTH_MD5;

	log_refused(c);
	if (!l->stored)
		refusal_begin(c, is_sasl ? REASON_SASL_NO_USER : REASON_PASSWORD_NO_USER);
	else if (has_unfit_secret(l))
		refusal_begin(c, is_sasl ? REASON_SASL_SECRET : REASON_PASSWORD_SECRET);
	else
		refusal_begin(c, is_sasl ? REASON_SASL_FAILED : REASON_PASSWORD_FAILED);
}

/* ---- methods without a question ---- */

static void begin_trust(struct client *c)
{
	if (!c->login->stored) {
		refusal_begin(c, login_user_was_looked_up(c->login) ? REASON_NO_USER : REASON_TRUST_FAILED);
		return;
	}
	auth_accept(c);
}

/* auth_type any: the name does not matter, the database brings its own user. */
static void begin_any(struct client *c)
{
	const struct conf_database *conf = database_conf_find(c->peer.world->pools, c->login->database);

	if (conf && !auth_is_console(c->login) && !conf->user) {
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return;
	}
	auth_accept(c);
}

/* ---- which method, which secret, then the question ---- */

/* Sets login->method. False: no method holds, and the client has ended. */
static bool choose_method(struct client *c)
{
	c->login->method = (enum auth_type)c->peer.world->conf->settings.auth_type;
	return c->login->method != AUTH_HBA || auth_choose_by_rule(c);
}

/* PAM or LDAP decides, and nothing that is stored here counts. */
static bool is_verified_elsewhere(const struct login *l)
{
	return l->method == AUTH_PAM || l->method == AUTH_LDAP;
}

/* Methods for which a user must be known. */
static bool is_about_users(enum auth_type method)
{
	switch (method) {
	case AUTH_TRUST: case AUTH_PLAIN: case AUTH_MD5: case AUTH_SCRAM: case AUTH_CERT: case AUTH_PEER:
		return true;
	case AUTH_ANY: case AUTH_REJECT: case AUTH_HBA: case AUTH_PAM: case AUTH_LDAP:
		return false;
	}
	return false;
}

/* Sets login->stored from the user list, or has the user looked up. False: the client has ended, or waits. */
static bool find_secret(struct client *c)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	const struct secret *listed;

	users_refresh(w);
	listed = secrets_listed(w->secrets, l->user);
	if (!listed && is_about_users(l->method)) {
		enum lookup_begun begun = lookup_begin(c);

		if (begun == LOOKUP_BEGUN_WAITS)
			l->sought = USER_LOOKED_UP;
		else if (begun == LOOKUP_BEGUN_NONE)
			l->sought = USER_NOT_LISTED;
		return begun == LOOKUP_BEGUN_NONE;
	}
	if (!listed)
		return true;
	l->sought = USER_LISTED;
	l->stored = l->stored_copy = secret_new(listed->bytes, listed->length);
	if (l->stored)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

/* md5 becomes SCRAM where the stored secret is a SCRAM one, because an MD5 answer cannot be checked against it. The kind of
   question must not tell whether a user exists: as many of the unknown are asked for SCRAM as of the known. */
static void ask_md5_or_scram(struct client *c)
{
	const struct login *l = c->login;
	enum secret_kind kind = l->stored ? secret_kind_of(l->stored->bytes) : SECRET_NONE;

	/* drawn for every user: the time must not tell whether one exists */
	bool unknown_is_asked_scram = unknown_is_scram(c);

	if (kind == SECRET_SCRAM || (kind == SECRET_NONE && unknown_is_asked_scram))
		auth_ask_scram(c);
	else
		auth_ask_md5(c);
}

void auth_question(struct client *c)
{
	switch (c->login->method) {
	case AUTH_TRUST:
		begin_trust(c);
		return;
	case AUTH_ANY:
		begin_any(c);
		return;
	case AUTH_PLAIN:
		auth_ask_plain(c);
		return;
	case AUTH_MD5:
		ask_md5_or_scram(c);
		return;
	case AUTH_SCRAM:
		auth_ask_scram(c);
		return;
	case AUTH_CERT:
		auth_ask_certificate(c);
		return;
	case AUTH_PEER:
		auth_ask_system(c);
		return;
	case AUTH_PAM:
		auth_ask_pam(c);
		return;
	case AUTH_LDAP:
		auth_ask_ldap(c);
		return;
	case AUTH_REJECT:		/* has not got here */
	case AUTH_HBA:
		client_end(c, REASON_NO_AUTH_METHOD, NULL);
		return;
	}
}

void auth_begin(struct client *c)
{
	char who[256];

	if (is_own_user(c)) {
		log_info("%s pgbouncer access from unix socket", client_text(c, who, sizeof(who)));
		client_address_set_administrator(c);
		c->may_show = true;
		auth_accept(c);
		return;
	}
	if (!choose_method(c))
		return;
	if (c->login->method == AUTH_REJECT)
		client_end(c, REASON_LOGIN_REJECTED, NULL);
	else if (is_verified_elsewhere(c->login) || find_secret(c))
		auth_question(c);
}

void auth_looked_up(struct client *c)
{
	struct login *l = c->login;

	if (l->wait.refused != REASON_NONE) {
		client_end(c, l->wait.refused, NULL);
		return;
	}
	l->stored = l->stored_copy = l->wait.found;
	l->wait.found = NULL;
	l->sought = l->stored ? USER_FOUND : USER_NOT_FOUND;
	l->answer = l->wait.answer;
	l->source = l->wait.source;
	auth_question(c);
}

void auth_message(struct client *c, const uint8_t *body, size_t size)
{
	if (is_verified_elsewhere(c->login))
		auth_verify_message(c, body, size);
	else
		auth_secret_message(c, body, size);
}

int auth_queue_most(const struct settings *set)
{
	int64_t most = set->max_auth_queue > 0 ? set->max_auth_queue : set->max_client_conn * 3 / 4;

	return most > 0 ? (int)most : 1;
}
