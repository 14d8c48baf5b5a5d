/*
 * Authentication of a client: which method applies and which secret, and the methods without a password.
 *
 * auth_begin chooses the method (auth_type, or the matching line of auth_hba_file), finds the user's secret, if necessary with a look-up,
 * and begins the method. tbl/auth_method.tbl lists the methods; auth_secret.c and auth_verify.c have the methods with a password.
 *
 * A line of auth_hba_file is chosen by the start-up packet and the client's address only. A line that cannot be used, or whose address cannot
 * be checked, refuses the client as if no line matched. The log has the number of the line, the client does not get it.
 *
 * Invariant: before its proof an unknown user takes the same steps as a known user, so that a client cannot find out which names exist.
 */
#include "auth/auth.h"

#include "auth/refusal.h"
#include "auth/users.h"
#include "backend/secrets.h"
#include "base/log.h"
#include "base/text.h"
#include "net/tls.h"
#include "pg/password.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- for all methods ---- */

void auth_wait_for(struct client *c, enum login_step step)
{
	struct bytes out;

	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_AUTH, c->peer.world->now);
	login_step_to(c, step);
	/* sending may end the login */
	out = c->login->out;
	c->login->out = (struct bytes)BYTES_EMPTY;
	client_send(c, &out);
	bytes_wipe(&out);
}

static bool is_console_name(const char *database)
{
	return strcmp(database, "pgbouncer") == 0 || strcmp(database, "pgweir") == 0;
}

void auth_accept(struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	const struct login *l = c->login;

	if (is_console_name(l->database) && !c->is_admin) {
		if (text_list_has(set->admin_users, l->user, false))
			client_address_set_administrator(c);
		c->may_show = c->is_admin || text_list_has(set->stats_users, l->user, false) || set->auth_type == AUTH_ANY;
		if (!c->may_show) {
			client_end(c, REASON_NOT_ALLOWED, NULL);
			return;
		}
		/* the place that is reserved for administrators does not count for other users of the console */
		if (!c->is_admin && !client_address_may_have(c, false)) {
			client_end(c, REASON_MAX_CLIENT_CONN_PER_IP, NULL);
			return;
		}
	}
	c->peer.world->ops->proven(c);
}

void auth_refuse(struct client *c)
{
	const struct login *l = c->login;
	/* with auth_type md5, the error message must not reveal that this user was asked for SCRAM */
	bool is_sasl = l->question == QUESTION_SCRAM && l->method != AUTH_MD5;
	enum secret_kind kind = l->stored ? secret_kind_of(l->stored->bytes) : SECRET_NONE;
	/* no response of the client can be checked with the stored secret */
	bool is_unfit = kind == SECRET_NONE || (l->question == QUESTION_SCRAM && kind == SECRET_MD5);
	char who[256];

	client_text(c, who, sizeof(who));
	if (l->stored && kind == SECRET_NONE)
		log_error("%s password authentication failed (the user's secret is empty or malformed)", who);
	else if (l->stored && is_unfit)
		log_error("%s SCRAM authentication failed: user has MD5 secret", who);
	else if (l->question == QUESTION_SCRAM)
		log_error("%s password authentication failed", who);
	if (!l->stored)
		refusal_begin(c, is_sasl ? REASON_SASL_NO_USER : REASON_PASSWORD_NO_USER);
	else if (is_unfit)
		refusal_begin(c, is_sasl ? REASON_SASL_SECRET : REASON_PASSWORD_SECRET);
	else
		refusal_begin(c, is_sasl ? REASON_SASL_FAILED : REASON_PASSWORD_FAILED);
}

/* ---- the line of auth_hba_file ---- */

static enum hba_fit is_near(const struct hba_client *of, bool whole_net)
{
	struct brief_address a = { .family = of->ip_size == 4 ? AF_INET : AF_INET6 };
	int is_own;

	memcpy(a.u.ip, of->ip, of->ip_size);
	is_own = address_is_own(&a, whole_net);
	if (is_own < 0) {
		log_error("cannot list the network interfaces of this machine (samehost, samenet): %s", strerror(errno));
		return HBA_FIT_UNKNOWN;
	}
	return is_own ? HBA_FITS : HBA_FITS_NOT;
}

/* Whether the client has shown a valid certificate whose common name is the user, or is mapped to it by the line. */
static bool has_certificate_of_user(const struct client *c)
{
	const struct login *l = c->login;
	SSL *ssl = c->peer.stream.ssl;
	char name[256];

	if (!ssl || !tls_peer_is_verified(ssl) || !tls_peer_common_name(ssl, name, sizeof(name)))
		return false;
	return l->hba ? hba_map_allows(l->hba, l->rule->map, name, l->user) : strcmp(name, l->user) == 0;
}

/* Sets login->rule and login->method by the first line that matches. False: no usable line; the client has ended. */
static bool choose_by_rule(struct client *c)
{
	const struct conf *conf = c->peer.world->conf;
	const struct brief_address *remote = &c->peer.remote;
	struct login *l = c->login;
	struct hba_client of = {
		.database = l->database, .user = l->user, .is_physical = l->replication == REPLICATION_PHYSICAL,
		.is_tls = c->peer.stream.ssl != NULL, .is_near = is_near,
	};
	bool has_certificate = true;
	char who[256];

	/* a line with one name of the console matches both names; the console does not replicate, so `replication` cannot bypass its lines */
	if (is_console_name(l->database)) {
		of.alias = strcmp(l->database, "pgweir") == 0 ? "pgbouncer" : "pgweir";
		of.is_physical = false;
	}
	if (remote->family == AF_INET || remote->family == AF_INET6) {
		of.ip_size = remote->family == AF_INET ? 4 : 16;
		memcpy(of.ip, remote->u.ip, of.ip_size);
	}
	l->hba = conf->hba ? hba_hold(conf->hba) : NULL;
	l->rule = l->hba ? hba_find(l->hba, &of) : NULL;
	if (!l->rule || l->rule->is_faulty || l->rule->is_unknown) {
		client_end(c, REASON_NO_AUTH_METHOD, NULL);
		return false;
	}
	log_noise("%s matched %s:%d (%s)", client_text(c, who, sizeof(who)), l->rule->file, l->rule->line, auth_methods[l->rule->method].keyword);
	if (l->rule->certificate == HBA_CERTIFICATE_VALID)
		has_certificate = c->peer.stream.ssl && tls_peer_is_verified(c->peer.stream.ssl);
	else if (l->rule->certificate == HBA_CERTIFICATE_OF_USER)
		has_certificate = has_certificate_of_user(c);
	if (!has_certificate) {
		client_end(c, REASON_CERT_FAILED, NULL);
		return false;
	}
	l->method = l->rule->method;
	return true;
}

bool auth_rule_text(const struct client *c, char *buf, size_t size)
{
	const struct login *l = c->login;

	if (!l->hba)
		return false;
	if (l->rule && l->rule->is_faulty)
		snprintf(buf, size, "refused by %s:%d, a line that cannot be used", l->rule->file, l->rule->line);
	else if (l->rule && l->rule->is_unknown)
		snprintf(buf, size, "refused by %s:%d, a line whose address cannot be checked", l->rule->file, l->rule->line);
	else if (l->rule)
		snprintf(buf, size, "matched %s:%d (%s)", l->rule->file, l->rule->line, auth_methods[l->rule->method].keyword);
	else
		snprintf(buf, size, "no line of %s fits: tls=%s replication=%s", c->peer.world->conf->settings.auth_hba_file,
			 c->peer.stream.ssl ? "yes" : "no", l->replication == REPLICATION_PHYSICAL ? "physical" : "no");
	return true;
}

/* ---- methods without a password ---- */

static void begin_trust(struct client *c)
{
	if (c->login->stored)
		auth_accept(c);
	else
		refusal_begin(c, login_user_was_looked_up(c->login) ? REASON_NO_USER : REASON_TRUST_FAILED);
}

/* Any user name is accepted. The entry of the database must name the user for its servers. */
static void begin_any(struct client *c)
{
	const struct conf_database *conf = database_conf_find(c->peer.world->pools, c->login->database);

	if (conf && !is_console_name(c->login->database) && !conf->user)
		client_end(c, REASON_CONFIG_ERROR, NULL);
	else
		auth_accept(c);
}

static void begin_reject(struct client *c)
{
	client_end(c, REASON_LOGIN_REJECTED, NULL);
}

static void begin_certificate(struct client *c)
{
	bool is_of_user = has_certificate_of_user(c);
	char who[256];

	if (is_of_user && c->login->stored) {
		auth_accept(c);
		return;
	}
	if (!is_of_user && c->peer.stream.ssl && tls_peer_is_verified(c->peer.stream.ssl))
		log_error("%s TLS certificate name mismatch", client_text(c, who, sizeof(who)));
	client_end(c, REASON_CERT_FAILED, NULL);
}

/* peer: the operating system names the user of the process at the other end of a Unix socket. The call blocks if the system gets its users
   from a directory server; use a password there. */
static void begin_peer(struct client *c)
{
	const struct login *l = c->login;
	struct passwd entry, *found = NULL;
	char space[4096];

	if (c->peer.remote.family == AF_UNIX && getpwuid_r(c->peer.remote.u.peer.uid, &entry, space, sizeof(space), &found) == 0 && found &&
	    hba_map_allows(l->hba, l->rule->map, entry.pw_name, l->user) && l->stored)
		auth_accept(c);
	else
		client_end(c, REASON_UNIX_LOGIN_REJECTED, NULL);
}

/* ---- the method and the secret ---- */

static const struct {
	void (*begin)(struct client *c);
	void (*message)(struct client *c, const uint8_t *body, size_t size);
} actions[AUTH_METHODS] = {
#define AUTH_METHOD(id, word, keyword, needs, library, begin, message) [AUTH_##id] = { begin, message },
#include "tbl/auth_method.tbl"
#undef AUTH_METHOD
};

/* Sets login->stored from the user list, or begins a look-up. False: the client waits or has ended. */
static bool find_secret(struct client *c)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	const struct secret *listed;
	enum lookup_begun begun;

	users_refresh(w);
	listed = secrets_listed(w->secrets, l->user);
	if (!listed) {
		if (!(auth_methods[l->method].needs & AUTH_NEEDS_USER))
			return true;
		begun = lookup_begin(c);
		if (begun == LOOKUP_BEGUN_WAITS)
			l->sought = USER_LOOKED_UP;
		else if (begun == LOOKUP_BEGUN_NONE)
			l->sought = USER_NOT_LISTED;
		return begun == LOOKUP_BEGUN_NONE;
	}
	l->sought = USER_LISTED;
	l->stored = l->stored_copy = secret_new(listed->bytes, listed->length);
	if (!l->stored)
		client_end(c, REASON_NO_MEMORY, NULL);
	return l->stored != NULL;
}

void auth_begin(struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	const struct brief_address *remote = &c->peer.remote;
	struct login *l = c->login;
	char who[256];

	/* the user that runs the process has access to the console over a Unix socket, without a password */
	if (is_console_name(l->database) && is_console_name(l->user) && remote->family == AF_UNIX && remote->u.peer.uid == (uint32_t)geteuid()) {
		log_info("%s pgbouncer access from unix socket", client_text(c, who, sizeof(who)));
		client_address_set_administrator(c);
		c->may_show = true;
		auth_accept(c);
		return;
	}
	l->method = (enum auth_type)set->auth_type;
	if (l->method == AUTH_HBA && !choose_by_rule(c))
		return;
	if (auth_methods[l->method].needs & AUTH_NEEDS_VERIFIER || find_secret(c))
		actions[l->method].begin(c);
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
	actions[l->method].begin(c);
}

void auth_message(struct client *c, const uint8_t *body, size_t size)
{
	actions[c->login->method].message(c, body, size);
}

int auth_queue_most(const struct settings *set)
{
	int64_t most = set->max_auth_queue > 0 ? set->max_auth_queue : set->max_client_conn * 3 / 4;

	return most > 0 ? (int)most : 1;
}
