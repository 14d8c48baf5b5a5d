/*
 * Requests: authentication, rights, and the choice of the answer.
 *
 * The rights are the rights of the console: readers have the rights of stats_users, administrators
 * are admin_users. Passwords are checked against auth_file, independent of auth_type. A wrong
 * password is refused after login_failure_delay, as in a login, and the answer does not reveal
 * whether the user exists.
 *
 * A command needs the header X-Pgweir and, from a browser, the Origin of this endpoint. A page of
 * another site can send neither, although the browser would add the password that it remembers.
 * Clients without a password must use a plain host name: otherwise a page of another site, whose
 * DNS server resolves its name to this machine, could read the answers.
 */
#include "web/connection.h"

#include "auth/users.h"
#include "backend/keys.h"
#include "backend/server_info.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "conf/value.h"
#include "core/lifecycle.h"
#include "net/tls.h"
#include "pg/scram.h"
#include "pool/drain.h"
#include "pool/role.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DATABASE_MOST 256
#define KEY_MOST 64
#define TOLD_MOST 400

enum http_auth { HTTP_AUTH_OFF, HTTP_AUTH_AUTO, HTTP_AUTH_BASIC };

static void route_known(struct connection *c);
static bool is_open_check(const struct http_request *r);

/* ---- authentication ---- */

static const char *who_text(const struct connection *c, char *buf, size_t size)
{
	char address[64], user[PRINTABLE_NAME];

	snprintf(buf, size, "HTTP: %s%s%s",
		 brief_address_and_port(&c->peer.remote, address, sizeof(address)),
		 c->user[0] ? " user " : "",
		 c->user[0] ? printable_name(c->user, user, sizeof(user)) : "");
	return buf;
}

static bool is_loopback(const struct brief_address *a)
{
	static const uint8_t mapped[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127 },
			     own[16] = { [15] = 1 };

	if (a->family == AF_INET)
		return a->u.ip[0] == 127;
	return a->family == AF_INET6 && (memcmp(a->u.ip, own, sizeof(own)) == 0 ||
					 memcmp(a->u.ip, mapped, sizeof(mapped)) == 0);
}

static bool is_own_user(const struct connection *c)
{
	return c->peer.remote.family == AF_UNIX && c->peer.remote.u.peer.uid == (uint32_t)geteuid();
}

static void route_refuse(struct connection *c)
{
	char who[256];

	log_warning("%s: password authentication failed", who_text(c, who, sizeof(who)));
	connection_tell(c, 401, "wrong user or password");
	text_copy(c->answer.fields, sizeof(c->answer.fields),
		  "WWW-Authenticate: Basic realm=\"pgweir\", charset=\"UTF-8\"\r\n");
}

static void refuse_later(struct connection *c)
{
	c->phase = WEB_REFUSING;
	c->since = c->peer.world->now + c->peer.world->conf->settings.login_failure_delay;
}

static void accept_user(struct connection *c)
{
	const struct settings *set = &c->peer.world->conf->settings;

	c->is_admin = text_list_has(set->admin_users, c->user, false);
	c->is_reader = c->is_admin || text_list_has(set->stats_users, c->user, false);
	if (c->is_reader)
		route_known(c);
	else
		connection_tell(c, 403, "this user is in neither admin_users nor stats_users");
}

static const char *stored_secret(const struct connection *c, bool is_old)
{
	const struct userlist *list = c->peer.world->logins.secrets->list;
	const struct secret *secret = is_old ? users_old_secret(list, c->user)
					     : userlist_find(list, c->user);

	return secret ? secret->bytes : NULL;
}

/*
 * A wrong password must not tell whether the user exists, or the kind of its secret. Therefore each
 * wrong password costs two derivations, together one more than the most iterations of a secret in
 * the list: with the iterations of the user's secret, or for any other user with the most, and then
 * with the rest. A right password costs none or one. For example, with secrets of 4,096 and 600,000
 * iterations: 4,096 and 595,905, or 600,000 and 1. Without SCRAM secrets in the list nothing is
 * derived.
 */
static void derive_key(struct connection *c, const uint8_t *salt, size_t salt_size,
		       uint32_t iterations);

/* Derives a key and drops it, so that an unknown user takes as long as a wrong password. The salt
   depends on user and purpose, because equal questions are derived once, as questions of a known
   user are. */
static void derive_nothing(struct connection *c, const char *purpose, uint32_t iterations)
{
	uint8_t salt[SHA256_SIZE];

	if (digest_hmac_texts(c->peer.world->seed, purpose, c->user, salt))
		derive_key(c, salt, MOCK_SALT, iterations);
	else
		refuse_later(c);
}

static void on_derived(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct connection *c = LIST_OBJECT(wait, struct connection, derivation);
	struct secrets *secrets = c->peer.world->logins.secrets;
	bool is_right = false;

	for (int is_old = 0; is_old < 2 && answer->verdict == VERIFIED_YES && !is_right; is_old++) {
		const char *stored = stored_secret(c, is_old);

		is_right = stored && secret_kind_of(stored) == SECRET_SCRAM &&
			   keys_password_prove(is_old ? secrets->old_keys : secrets->keys,
					       c->password->bytes, c->user, stored, answer->salted);
	}
	if (!is_right && c->iterations_left > 0) {
		uint32_t rest = c->iterations_left;

		c->iterations_left = 0;
		derive_nothing(c, "HTTP: the rest", rest);
		return;
	}
	secret_free(&c->password);
	if (is_right)
		accept_user(c);
	else
		refuse_later(c);
}

/* Derives a key of c->password. */
static void derive_key(struct connection *c, const uint8_t *salt, size_t salt_size,
		       uint32_t iterations)
{
	const struct derivation_question question = {
		.user = c->user,
		.password = c->password->bytes,
		.salt = salt,
		.salt_size = salt_size,
		.iterations = iterations,
	};
	struct verify_source source = { .bytes = { 0xfe } };

	/* all HTTP clients take one turn together */
	c->derivation.done = on_derived;
	c->phase = WEB_ASKING;
	if (derivation_ask(c->peer.world, &question, &source, NULL, &c->derivation) ==
	    VERIFIERS_ASKED)
		return;
	secret_free(&c->password);
	refuse_later(c);
}

/* The password is wrong, or only a derivation tells. `stored` NULL: the user has no SCRAM secret
   that can be derived. */
static void derive_keys(struct connection *c, const char *password,
			const struct scram_secret *stored)
{
	uint32_t most = c->peer.world->logins.secrets->iterations_most,
		 first = stored ? stored->iterations : most;

	c->password = most > 0 ? secret_new(password, strlen(password)) : NULL;
	if (!c->password) {
		refuse_later(c);
		return;
	}
	c->iterations_left = most - first + 1;
	if (stored)
		derive_key(c, stored->salt, stored->salt_size, first);
	else
		derive_nothing(c, "HTTP: no secret", first);
}

static void route_check_password(struct connection *c, const char *password)
{
	struct world *w = c->peer.world;
	struct scram_secret secret;
	const char *scram = NULL;

	users_refresh(w);
	for (int is_old = 0; is_old < 2 && *password; is_old++) {
		const char *stored = stored_secret(c, is_old);

		if (!stored)
			continue;
		if (password_matches(password, c->user, stored) ||
		    keys_password_check(is_old ? w->logins.secrets->old_keys
					       : w->logins.secrets->keys,
					password, c->user, stored)) {
			accept_user(c);
			return;
		}
		if (secret_kind_of(stored) == SECRET_SCRAM)
			scram = stored;
	}
	if (!*password)
		refuse_later(c);
	else if (scram && scram_secret_read(scram, &secret) &&
		 secret.iterations <= SCRAM_ITERATIONS_MAX)
		derive_keys(c, password, &secret);
	else
		derive_keys(c, password, NULL);
}

void connection_route(struct connection *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	bool is_near = c->peer.remote.family == AF_UNIX ||
		       (is_loopback(&c->peer.remote) && c->request.is_host_plain);
	char password[HTTP_TEXT_MOST];

	if (c->phase == WEB_REFUSING) {
		route_refuse(c);
		return;
	}
	if (c->is_spare && !is_open_check(&c->request)) {
		c->phase = WEB_WAITING;
		return;
	}
	c->user[0] = '\0';
	if (c->peer.stream.ssl && !c->request.authorization[0] &&
	    tls_peer_is_verified(c->peer.stream.ssl) &&
	    tls_peer_common_name(c->peer.stream.ssl, c->user, sizeof(c->user)) &&
	    (text_list_has(set->admin_users, c->user, false) ||
	     text_list_has(set->stats_users, c->user, false))) {
		accept_user(c);
		return;
	}
	c->user[0] = '\0';
	c->is_admin = is_own_user(c);
	c->is_reader = c->is_admin || set->http_auth == HTTP_AUTH_OFF ||
		       (set->http_auth == HTTP_AUTH_AUTO && is_near);
	if (!c->request.authorization[0] || is_open_check(&c->request)) {
		route_known(c);
	} else if (!http_credentials(&c->request, c->user, password)) {
		connection_tell(c, 400, "Authorization: only Basic is known");
	} else {
		route_check_password(c, password);
		mem_wipe(password, sizeof(password));
	}
}

/* ---- commands ---- */

static void route_run_command(struct connection *c, const char *verb, struct database *database)
{
	struct world *w = c->peer.world;
	char who[256], name[PRINTABLE_NAME];

	if (database)
		log_info("%s '%s' command issued (%s)", verb,
			 printable_text(database->name, name, sizeof(name)),
			 who_text(c, who, sizeof(who)));
	else
		log_info("%s command issued (%s)", verb, who_text(c, who, sizeof(who)));
	if (strcmp(verb, "RECONNECT") == 0) {
		pools_reconnect(w->pools, database);
	} else if (strcmp(verb, "PAUSE") == 0) {
		pools_pause(w->pools, database, true);
	} else {
		if (!database && w->pools->suspended)
			world_suspend(w, false);
		pools_pause(w->pools, database, false);
	}
}

/* False: the command is refused. */
static bool check_command_rights(struct connection *c)
{
	if (c->request.is_marked && c->request.is_same_origin)
		return true;
	connection_tell(
		c, 403,
		"a command needs the header X-Pgweir, and from a browser the Origin of this page");
	return false;
}

/* POST /api/kill_client?id= */
static void kill_client_answer(struct connection *c)
{
	char text[24], who[256];
	int64_t id;

	if (!check_command_rights(c))
		return;
	if (!http_parameter(&c->request, "id", text, sizeof(text)) || !text_to_int64(text, &id) ||
	    id <= 0 || !world_kill_client(c->peer.world, (uint64_t)id)) {
		connection_tell(c, 404, "client not found");
		return;
	}
	log_info("KILL_CLIENT '%s' command issued (%s)", text, who_text(c, who, sizeof(who)));
	connection_tell(c, 200, "KILL_CLIENT");
}

/* POST /api/set?db=NAME&key=pool_size&value=7: SET of a key of the database. The answer has the
   warnings, or why nothing has changed. */
static void set_answer(struct connection *c)
{
	char database[DATABASE_MOST], key[KEY_MOST], value[KEY_MOST],
		name[DATABASE_MOST + KEY_MOST + 1], who[256], shown[PRINTABLE_TEXT];
	struct conf_problems problems = { .count = 0 };
	bool is_good;

	if (!check_command_rights(c))
		return;
	if (!http_parameter(&c->request, "db", database, sizeof(database)) ||
	    !http_parameter(&c->request, "key", key, sizeof(key)) || strchr(key, '.') ||
	    !http_parameter(&c->request, "value", value, sizeof(value))) {
		connection_tell(c, 400, "needed: db, key and value");
		return;
	}
	snprintf(name, sizeof(name), "%s.%s", database, key);
	log_info("SET %s=%s command issued (%s)", printable_text(name, shown, sizeof(shown)),
		 setting_may_be_secret(name, value) ? "***" : value, who_text(c, who, sizeof(who)));
	is_good = c->web->set(NULL, name, value, &problems);
	connection_answer(c, is_good ? 200 : 400, "text/plain; charset=utf-8");
	for (size_t i = 0; i < problems.count; i++)
		if (is_good || !problems.items[i].is_warning)
			bytes_append_format(&c->answer.body, "%s\n", problems.items[i].text);
	conf_problems_free(&problems);
}

/* POST /api/pause, resume, reconnect: without ?db= for all databases. The answer does not wait
   until no server is in use. */
static void command_answer(struct connection *c, const char *verb)
{
	struct world *w = c->peer.world;
	struct database *database = NULL;
	char name[DATABASE_MOST], told[TOLD_MOST];
	bool is_paused;

	if (!check_command_rights(c))
		return;
	if (c->request.query[0]) {
		if (http_parameter(&c->request, "db", name, sizeof(name)))
			database = database_get(w->pools, name, true, w->now);
		if (!database || database->is_console) {
			connection_tell(c, 404, "no such database");
			return;
		}
	}
	is_paused = pools_is_paused(w->pools, database);
	if (strcmp(verb, "PAUSE") == 0 ? is_paused || pools_is_paused(w->pools, NULL)
				       : strcmp(verb, "RESUME") == 0 && !is_paused) {
		connection_tell(c, 409,
				strcmp(verb, "PAUSE") == 0 ? "already paused" : "not paused");
		return;
	}
	route_run_command(c, verb, database);
	snprintf(told, sizeof(told), "%s", verb);
	connection_tell(c, 200, told);
}

/* ---- health ---- */

/* Returns why a new client would not be served now; NULL: it would be. */
static const char *unready_reason(const struct world *w)
{
	if (w->successor)
		return "replaced by another process";
	if (w->drain.step != DRAIN_OFF)
		return "shutting down";
	if (w->pools->suspended)
		return "suspended";
	LIST_EACH(node, &w->pools->drains)
		if (LIST_OBJECT(node, struct drain, node)->of == DRAIN_OF_ALL)
			return "drained";
	if (w->pools->clients >= w->conf->settings.max_client_conn)
		return "max_client_conn is reached";
	return w->pools->paused ? "paused" : NULL;
}

/* Whether a host answers, or none was asked: without a primary clients wait, and a load balancer
   that sends them elsewhere gains nothing. */
static bool has_host(const struct roles *roles)
{
	bool answers = false, was_asked = false;

	for (unsigned i = 0; i < roles->count; i++) {
		const struct host *host = roles->places[i].host;

		answers |= host->is_fresh;
		was_asked |= host->evidence.at > 0 || host->errors > 0;
	}
	return answers || !was_asked;
}

/* Returns why the database is not ready, in buf, which has room for TOLD_MOST bytes, or NULL if it
   is ready. */
static const char *unready_database(const struct world *w, const char *name, char *buf)
{
	const struct database *d = database_find(w->pools, name);
	const char *error = NULL;
	int servers = 0;

	if (!d)
		return database_conf_find(w->pools, name) ? NULL : "no such database";
	if (d->paused || d->disabled)
		return d->paused ? "the database is paused" : "the database is disabled";
	if (drain_due(w->pools, d, NULL, NULL, 0, INT64_MAX))
		return "the database is drained";
	if (d->roles && !has_host(d->roles)) {
		roles_text(d, w->now, buf, TOLD_MOST);
		return buf;
	}
	LIST_EACH(node, &d->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		servers += pool->live - pool->server_count[SERVER_LOGIN];
		if (pool->login_failed)
			error = pool_login_error(pool);
	}
	if (servers > 0 || !error)
		return NULL;
	snprintf(buf, TOLD_MOST, "no server connection: %s", error);
	return buf;
}

static void ready_answer(struct connection *c)
{
	const char *why = unready_reason(c->peer.world);
	char name[DATABASE_MOST], buf[TOLD_MOST];

	if (!why && http_parameter(&c->request, "db", name, sizeof(name)))
		why = unready_database(c->peer.world, name, buf);
	connection_tell(c, why ? 503 : 200, why ? why : "ready");
}

/* ---- routes ---- */

static void health_answer(struct connection *c)
{
	connection_tell(c, 200, "ok");
}

static void page_answer(struct connection *c)
{
	connection_answer(c, 200, "text/html; charset=utf-8");
	bytes_append(&c->answer.body, web_page, web_page_size);
	text_copy(c->answer.fields, sizeof(c->answer.fields),
		  "Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src data:; "
		  "style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors "
		  "'none'\r\n");
}

/* A browser asks for user and password, and sends them with all further requests. */
static void login_answer(struct connection *c)
{
	connection_tell(c, 303, "logged in");
	text_copy(c->answer.fields, sizeof(c->answer.fields), "Location: ./\r\n");
}

static void pause_answer(struct connection *c) { command_answer(c, "PAUSE"); }
static void resume_answer(struct connection *c) { command_answer(c, "RESUME"); }
static void reconnect_answer(struct connection *c) { command_answer(c, "RECONNECT"); }
static void items_answer(struct connection *c)
{
	json_answer(c, c->request.path + strlen("/api/"));
}

/* NEEDS_LOGIN: of an administrator; the browser asks again while it has the password of another
   user. */
enum need { NEEDS_NOTHING, NEEDS_READER_FOR_QUERY, NEEDS_READER, NEEDS_LOGIN, NEEDS_ADMIN };

static const struct route {
	const char *path;
	bool is_post;
	enum need need;
	void (*answer)(struct connection *c);
} routes[] = {
	{ "/", false, NEEDS_READER, page_answer },
	{ "/login", false, NEEDS_LOGIN, login_answer },
	{ "/metrics", false, NEEDS_READER, metrics_answer },
	{ "/healthz", false, NEEDS_NOTHING, health_answer },
	{ "/readyz", false, NEEDS_READER_FOR_QUERY, ready_answer },
	{ "/api/pause", true, NEEDS_ADMIN, pause_answer },
	{ "/api/resume", true, NEEDS_ADMIN, resume_answer },
	{ "/api/reconnect", true, NEEDS_ADMIN, reconnect_answer },
	{ "/api/kill_client", true, NEEDS_ADMIN, kill_client_answer },
	{ "/api/set", true, NEEDS_ADMIN, set_answer },
	{ "/api/", false, NEEDS_READER, items_answer },
};

static bool is_allowed(const struct connection *c, enum need need)
{
	switch (need) {
	case NEEDS_NOTHING:
		return true;
	case NEEDS_READER_FOR_QUERY:
		return c->is_reader || !c->request.query[0];
	case NEEDS_READER:
		return c->is_reader;
	case NEEDS_LOGIN:
	case NEEDS_ADMIN:
		return c->is_admin;
	}
	return false;
}

static const struct route *route_of(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		if (strcmp(path, routes[i].path) == 0 ||
		    (strcmp(routes[i].path, "/api/") == 0 && text_starts(path, "/api/")))
			return &routes[i];
	return NULL;
}

/* Whether the request is a health check for which no password is compared: it needs none, or has
   none. */
static bool is_open_check(const struct http_request *r)
{
	const struct route *route = route_of(r->path);

	if (!route)
		return false;
	return route->need == NEEDS_NOTHING ||
	       (route->need == NEEDS_READER_FOR_QUERY && (!r->query[0] || !r->authorization[0]));
}

/* The rights of the client are known. */
static void route_known(struct connection *c)
{
	const struct route *route = route_of(c->request.path);

	if (!route) {
		connection_tell(c, 404, "no such page: / /metrics /healthz /readyz /api/pools");
	} else if (route->is_post != (c->request.method == HTTP_METHOD_POST)) {
		connection_tell(c, 405, http_reason(405));
		text_copy(c->answer.fields, sizeof(c->answer.fields),
			  route->is_post ? "Allow: POST\r\n" : "Allow: GET, HEAD\r\n");
	} else if (is_allowed(c, route->need)) {
		route->answer(c);
	} else if (route->need == NEEDS_ADMIN && c->user[0]) {
		connection_tell(c, 403, "only admin_users may do this");
	} else {
		connection_tell(c, 401, "log in as one of admin_users or stats_users");
		text_copy(c->answer.fields, sizeof(c->answer.fields),
			  "WWW-Authenticate: Basic realm=\"pgweir\", charset=\"UTF-8\"\r\n");
	}
}
