/*
 * Start-up packets ("Message Formats" in the PostgreSQL documentation: StartupMessage, SSLRequest,
 * GSSENCRequest, CancelRequest).
 *
 * TLS begins after an SSLRequest, or with the first byte of the connection as in PostgreSQL 17,
 * where ALPN confirms that both sides use PostgreSQL's protocol. An SSLRequest is answered only if
 * no bytes have followed it: bytes sent in clear must not be taken for encrypted bytes. Each kind
 * of request may be made once.
 *
 * The parameters of a StartupMessage are set on each server of the client (ask), or ignored if
 * ignore_startup_parameters names them. A parameter that cannot be set and restored is refused by
 * name.
 */
#include "login/startup_packet.h"

#include "auth/auth.h"
#include "auth/client_address.h"
#include "auth/users.h"
#include "backend/keys.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "cancel/cancel.h"
#include "login/handshake.h"
#include "login/login.h"
#include "net/proxy_header.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/message.h"
#include "pg/startup.h"

#include <stdio.h>
#include <string.h>

/* first byte of a TLS handshake record; a start-up packet with this first byte would be far too
   long */
#define TLS_HANDSHAKE 0x16
#define TARGET_OPTION "pgweir.target_session_attrs"
#define NAME_MOST 1024			/* longest accepted name of a user or database */

static bool is_ignored(const struct client *c, const char *name)
{
	return text_list_has(c->peer.world->conf->settings.ignore_startup_parameters, name, true);
}

/* ---- parameters ---- */

/* Keeps a parameter for the client's dedicated server (replication). False: too many, or no memory;
   the client has ended. */
static bool keep_for_server(struct client *c, const char *name, const char *value)
{
	struct login *l = c->login;

	if (l->kept_pairs == REPLICATION_PAIRS) {
		client_end(c, REASON_STARTUP_PARAMETER, name);
		return false;
	}
	l->kept_pairs++;
	bytes_append_string(&l->kept, name);
	bytes_append_string(&l->kept, value);
	if (!l->kept.failed)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

/* A parameter in the start-up packet. */
struct asked {
	const char *name, *value;
	const char *written;		/* the name as in the packet */
	enum close_reason otherwise;		/* the reason if the parameter is refused */
};

/* Handles an untracked parameter. False: refused. */
static bool take_untracked(struct client *c, const struct asked *p)
{
	char who[256], written[PRINTABLE_TEXT], value[PRINTABLE_TEXT];
	struct login *l = c->login;
	char *name;

	if (is_ignored(c, p->name) ||
	    (p->otherwise == REASON_STARTUP_OPTION && is_ignored(c, "options")))
		return true;
	if (l->replication)
		return keep_for_server(c, p->name, p->value);
	if (params_kind_of(p->name) != PARAMS_SETTABLE || l->other_count == PARAMS_OTHERS_MOST) {
		log_warning("%s unsupported startup parameter%s: %s=%s",
			    client_text(c, who, sizeof(who)),
			    p->otherwise == REASON_STARTUP_OPTION ? " in options" : "",
			    printable_text(p->written, written, sizeof(written)),
			    printable_text(p->value, value, sizeof(value)));
		client_end(c, p->otherwise, p->written);
		return false;
	}
	/* the client's sessions will have it */
	name = arena_copy(l->arena, p->name, strlen(p->name));
	if (!l->others)
		l->others = arena_take(l->arena, PARAMS_OTHERS_MOST * sizeof(*l->others));
	if (!name || !l->others) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	l->others[l->other_count++] = (struct params_pair){ name, p->value };
	return true;
}

/* Handles the role that the client asks for. False: it is not a role; the client has ended. */
static bool ask_target(struct client *c, const struct asked *p)
{
	for (int target = TARGET_ANY; target <= TARGET_PREFER_STANDBY; target++) {
		if (strcmp(p->value, setting_word(WORDS_TARGET, target)) == 0) {
			c->pooled.own_target = (uint8_t)target;
			return true;
		}
	}
	client_end(c, REASON_STARTUP_VALUE, TARGET_OPTION);
	return false;
}

/* Handles a parameter. A tracked parameter is used even if ignore_startup_parameters names it, as
   in PgBouncer. The value is not copied until all parameters are known. False: refused. */
static bool startup_ask(struct client *c, const struct asked *p)
{
	int index = params_index(c->peer.world->params, p->name);

	if (strcmp(p->name, TARGET_OPTION) == 0)
		return ask_target(c, p);

	if (index < 0)
		return take_untracked(c, p);
	c->login->values[index] = pg_spelled(p->name, p->value);
	return true;
}

static bool ask_parameter(struct client *c, const char *name, const char *value)
{
	return startup_ask(c, &(struct asked){ name, value, name, REASON_STARTUP_PARAMETER });
}

static bool ask_options(struct client *c, const char *text)
{
	/* neither the name nor all values together are longer than the text */
	size_t size = strlen(text) + 1, left = size;
	char *written = arena_take(c->login->arena, size),
	     *name = arena_take(c->login->arena, size);
	char *value = arena_take(c->login->arena, size);

	if (!written || !name || !value) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	for (;;) {
		switch (pg_options_next(&text, written, size, value, left)) {
		case PG_MORE:
			return true;
		case PG_BAD:
			client_end(c, REASON_STARTUP_OPTIONS_FORM, NULL);
			return false;
		case PG_OK:
			/* the name of the setting that a server uses for this option name */
			for (size_t i = 0, length = strlen(written); i <= length; i++)
				name[i] = written[i] == '-' ? '_' : written[i];
			if (!startup_ask(c, &(struct asked){ name, value, written,
							     REASON_STARTUP_OPTION }))
				return false;
			left -= strlen(value) + 1;
			value += strlen(value) + 1;
		}
	}
}

static bool ask_application_name(struct client *c, const char *value)
{
	struct login *l = c->login;

	if (!c->peer.world->conf->settings.application_name_add_host)
		return ask_parameter(c, "application_name", value);
	/* of several values the last one counts */
	if (!l->application_name && !(l->application_name = arena_take(l->arena, NAME_WITH_HOST))) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	client_name_with_host(c, value, l->application_name);
	return ask_parameter(c, "application_name", l->application_name);
}

/* Keeps a name, truncated like PostgreSQL truncates it before it applies its rules. A longer name
   must be truncated before rules, limits and forced users are looked up: a client with user "x" *
   64 reaches the role "x" * 63. Not truncated if the configuration contains the name; servers never
   see it (server_login.c). */
static bool keep_name(struct client *c, char **place, const char *value)
{
	struct world *w = c->peer.world;
	bool is_user = place == &c->login->user;
	size_t size = strlen(value);

	if (size > NAME_MOST) {
		client_end(c, REASON_STARTUP_VALUE, is_user ? "user" : "database");
		return false;
	}
	if (!is_user) {
		size = database_name_size(w->conf, value);
	} else if (size > CONF_NAME_MOST) {
		users_refresh(w);
		size = userlist_find(w->logins.secrets->list, value) ? size : CONF_NAME_MOST;
	}
	*place = arena_copy(c->login->arena, value, size);
	if (*place)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

static bool is_protocol_option(const char *name)
{
	return text_starts(name, "_pq_.");
}

/* The parameters are handled in three rounds: names first, so that the log can name a refused
   client, then `options`, then the other parameters, which override `options` as in the server.
   Drivers send them in different orders. */
enum round { ROUND_NAMES, ROUND_OPTIONS, ROUND_PARAMETERS, ROUNDS };

/* Parses a boolean like PostgreSQL: any unambiguous prefix of the words. */
static bool read_boolean(const char *value, bool *is_true)
{
	static const struct {
		const char *word;
		size_t least;
		bool is_true;
	} words[] = {
		{ "true", 1, true }, { "false", 1, false }, { "yes", 1, true }, { "no", 1, false },
		{ "on", 2, true }, { "off", 2, false }, { "1", 1, true }, { "0", 1, false },
	};
	size_t size = strlen(value);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (size < words[i].least || size > strlen(words[i].word) ||
		    strncasecmp(value, words[i].word, size) != 0)
			continue;
		*is_true = words[i].is_true;
		return true;
	}
	return false;
}

/* Finds `replication` before the other parameters are used. False: invalid value; the client has
   ended. */
static bool find_replication(struct client *c, const struct pg_startup *packet)
{
	const char *name, *value;
	size_t at = 0;
	bool physical;

	while (pg_startup_pair(packet, &at, &name, &value)) {
		if (strcmp(name, "replication") != 0)
			continue;
		if (strcmp(value, "database") == 0) {
			c->login->replication = REPLICATION_LOGICAL;
		} else if (read_boolean(value, &physical)) {
			c->login->replication = physical ? REPLICATION_PHYSICAL : REPLICATION_NONE;
		} else {
			client_end(c, REASON_STARTUP_VALUE, name);
			return false;
		}
	}
	return true;
}

/* False: refused. *options: the number of protocol options. */
static bool take_pairs(struct client *c, const struct pg_startup *packet, size_t *options)
{
	/* the first round finds the rounds that are needed */
	bool is_due[ROUNDS] = { [ROUND_NAMES] = true };
	const char *name, *value;
	bool is_accepted;

	*options = 0;
	for (enum round round = ROUND_NAMES; round < ROUNDS; round++)
		for (size_t at = 0; is_due[round] && pg_startup_pair(packet, &at, &name, &value);) {
			enum round its = ROUND_PARAMETERS;

			if (strcmp(name, "user") == 0 || strcmp(name, "database") == 0)
				its = ROUND_NAMES;
			else if (strcmp(name, "options") == 0)
				its = ROUND_OPTIONS;
			is_due[its] = true;
			if (its != round)
				continue;
			is_accepted = true;
			if (is_protocol_option(name))
				++*options;
			else if (round == ROUND_NAMES)
				is_accepted = keep_name(
					c, *name == 'u' ? &c->login->user : &c->login->database,
					value);
			else if (round == ROUND_OPTIONS)
				is_accepted = c->login->replication
						      ? keep_for_server(c, name, value)
						      : ask_options(c, value);
			else if (strcmp(name, "application_name") == 0)
				is_accepted = ask_application_name(c, value);
			else if (strcmp(name, "replication") !=
				 0) /* find_replication has used it */
				is_accepted = ask_parameter(c, name, value);
			if (!is_accepted)
				return false;
		}
	return true;
}

/* Answers an unsupported minor version and unknown protocol options (all are unknown) with
   NegotiateProtocolVersion. All `count` options must be listed, because the client would treat an
   unlisted option as supported. False: no memory. */
static bool negotiate(struct client *c, const struct pg_startup *packet, size_t count)
{
	const char **unknown, *name, *value;
	size_t at = 0, named = 0;

	if (packet->minor == c->login_facts.minor && count == 0)
		return true;
	unknown = arena_take(c->login->arena, (count + 1) * sizeof(*unknown));
	if (!unknown)
		return false;
	while (named < count && pg_startup_pair(packet, &at, &name, &value))
		if (is_protocol_option(name))
			unknown[named++] = name;
	pg_build_negotiate(&c->login->out, 3 << 16 | c->login_facts.minor, unknown, named);
	return true;
}

/* Checks the limits of connections. Administrators are always admitted to the console, and a login
   at the limit of its address may be an administrator's. Clients without a login in progress are
   displaced by clients that log in. */
static bool admit(struct client *c, const struct database *database)
{
	const struct pools *pools = c->peer.world->pools;

	bool is_console = database && database->is_console;

	if (!client_address_may_have(c, is_console)) {
		client_end(c, REASON_MAX_CLIENT_CONN_PER_IP, NULL);
		return false;
	}
	if (is_console)
		return true;
	while (pools->clients > pools->conf->settings.max_client_conn) {
		if (displace_login(c, REASON_MAX_CLIENT_CONN))
			continue;
		client_end(c, REASON_MAX_CLIENT_CONN, NULL);
		return false;
	}
	return true;
}

static void log_attempt(const struct client *c)
{
	char who[256], database[PRINTABLE_NAME], user[PRINTABLE_NAME], tls[96], more[128] = "";
	char sender[64];

	if (!c->peer.world->conf->settings.log_connections ||
	    !client_is_sampled(c, c->peer.world->conf->settings.log_sample))
		return;
	/* the values that used to be the only ones are omitted, so that log parsers find the
	   familiar line */
	if (c->login_facts.minor > 0)
		snprintf(more, sizeof(more), " protocol=3.%u", c->login_facts.minor);
	if (c->login->direct)
		snprintf(more + strlen(more), sizeof(more) - strlen(more),
			 " sslnegotiation=direct");
	if (c->login->sender.family != 0)
		snprintf(more + strlen(more), sizeof(more) - strlen(more), " proxy=%s",
			 brief_address_and_port(&c->login->sender, sender, sizeof(sender)));
	log_info("%s login attempt: db=%s user=%s tls=%s replication=%s%s",
		 client_text(c, who, sizeof(who)),
		 printable_name(c->login->database, database, sizeof(database)),
		 printable_name(c->login->user, user, sizeof(user)),
		 c->peer.stream.ssl ? stream_tls_text(&c->peer.stream, tls, sizeof(tls)) : "no",
		 pg_replication_word(c->login->replication), more);
}

static void session_packet(struct client *c, const struct pg_startup *packet)
{
	struct login *l = c->login;
	struct world *w = c->peer.world;
	const struct database *known;
	bool is_in_time;
	size_t options;

	c->login_facts.minor = (uint8_t)pg_minor_served(packet->minor);
	l->values = arena_take(l->arena, (size_t)params_count(w->params) * sizeof(*l->values));
	if (!l->values) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	if (!find_replication(c, packet) || !take_pairs(c, packet, &options))
		return;
	if (!l->user || !*l->user) {
		client_end(c, REASON_NO_USERNAME, NULL);
		return;
	}
	if (w->conf->settings.application_name_add_host && !l->values[PARAM_APPLICATION_NAME] &&
	    !ask_application_name(c, "app"))
		return;
	/* one set for all parameters: a set for each would make a packet with many parameters as
	   expensive as a TLS handshake */
	l->asked = params_of_values(w->params, l->values, l->others, l->other_count);
	l->values = NULL;
	l->others = NULL;
	l->other_count = 0;
	if (!l->asked) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	if ((!l->database || !*l->database) && !keep_name(c, &l->database, l->user))
		return;
	known = database_find(w->pools, l->database);
	/* WAIT_CLIENTS waits for clients that connected before the shutdown began; the console is
	   always available */
	is_in_time = w->drain.step == DRAIN_OFF ||
		     (w->drain.step == DRAIN_WAIT_CLIENTS && client_is_in_time(c));
	if (!is_in_time && !(known && known->is_console)) {
		client_end(c, REASON_POOLER_SHUTTING_DOWN, NULL);
		return;
	}
	if (!admit(c, known))
		return;
	log_attempt(c);
	if (negotiate(c, packet, options))
		auth_begin(c);
	else
		client_end(c, REASON_NO_MEMORY, NULL);
}

/* ---- packets ---- */

static bool say_byte(struct client *c, char answer)
{
	if (stream_write_bytes(&c->peer.stream, &answer, 1))
		return true;
	client_end(c, REASON_CLIENT_EOF, NULL);
	return false;
}

static bool offers_tls(const struct client *c)
{
	return c->peer.world->tls.clients && c->peer.remote.family != AF_UNIX;
}

/* SSLRequest: starts TLS, or another start-up packet may follow in clear. */
static void ssl_packet(struct client *c, bool more_has_come)
{
	bool tls = offers_tls(c);

	if (c->login->ssl_asked || c->peer.stream.ssl) {
		client_end(c, REASON_BAD_LOGIN_PACKET, "SSLRequest");
		return;
	}
	if (more_has_come) {
		client_end(c, REASON_CLEAR_AFTER_SSL, NULL);
		return;
	}
	c->login->ssl_asked = true;
	if (!say_byte(c, tls ? 'S' : 'N') || !tls)
		return;
	/* the next bytes are the hello, and no bytes are read before */
	login_step_to(c, LOGIN_TLS_HELLO);
	c->login->tls = tls_context_hold(c->peer.world->tls.clients);
}

size_t startup_packet(struct client *c, const uint8_t *at, size_t n)
{
	static const uint8_t terminate[] = { PGC_TERMINATE, 0, 0, 0, 4 };
	const struct settings *set = &c->peer.world->conf->settings;
	struct pg_startup packet;
	char version[24];

	/* direct TLS is not allowed after an SSLRequest or GSSENCRequest */
	if (*at == TLS_HANDSHAKE && !c->peer.stream.ssl && !c->login->ssl_asked &&
	    !c->login->gss_asked) {
		if (!offers_tls(c)) {
			client_end(c, REASON_TLS_HANDSHAKE,
				   "direct TLS, which is not offered here");
			return 0;
		}
		c->login->direct = true;
		/* OpenSSL checks these bytes */
		handshake_want(c, at, n);
		return n;
	}
	/* some clients send Terminate on a connection without a start-up packet */
	if (memcmp(at, terminate, n < sizeof(terminate) ? n : sizeof(terminate)) == 0) {
		if (n > PG_LENGTH_WORD)
			client_end(c, REASON_TERMINATE_FIRST, NULL);
		return 0;
	}
	switch (pg_startup_read(at, n, STARTUP_MOST, &packet)) {
	case PG_MORE:
		return 0;
	case PG_BAD:
		if (proxy_header_is_signed(at, n) && c->login->sender.family == 0)
			client_end(c, REASON_PROXY_SENDER, NULL);
		else if (packet.fault == STARTUP_FAULT_LAYOUT)
			client_end(c, REASON_BAD_STARTUP, NULL);
		else
			client_end_bad_header(c, at, n);
		return 0;
	case PG_OK:
		break;
	}
	switch (packet.kind) {
	case STARTUP_SSL:
		ssl_packet(c, n > packet.size);
		return packet.size;
	case STARTUP_GSS:
		/* GSSAPI encryption is not supported; a client may ask once */
		if (c->login->gss_asked) {
			client_end(c, REASON_BAD_LOGIN_PACKET, "GSSENCRequest");
			return 0;
		}
		c->login->gss_asked = true;
		return say_byte(c, 'N') ? packet.size : 0;
	case STARTUP_CANCEL:
		cancel_request(c, &packet);
		return 0;
	case STARTUP_VERSION_2:
		client_end(c, REASON_PROTOCOL_2, NULL);
		return 0;
	case STARTUP_UNKNOWN:
		snprintf(version, sizeof(version), "%u.%u", packet.major, packet.minor);
		client_end(c, REASON_PROTOCOL_UNKNOWN, version);
		return 0;
	case STARTUP_SESSION:
		break;
	}
	if (set->client_tls_sslmode >= SSLMODE_REQUIRE && !c->peer.stream.ssl &&
	    c->peer.remote.family != AF_UNIX) {
		client_end(c, REASON_SSL_REQUIRED, NULL);
		return 0;
	}
	session_packet(c, &packet);
	return packet.size;
}
