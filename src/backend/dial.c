/*
 * Opening a server connection, up to the first ReadyForQuery: name, connect, TLS by SSLRequest or
 * direct TLS. The start-up message and the password are in server_login.c.
 *
 * In the order of time, with the steps of tbl/dial_step.tbl:
 *
 * 1. The scheduler has decided that the pool needs a server: dial_begin() makes it, in state
 *    LOGIN. begin_hosts() puts the hosts of the list into an order, and use_host() takes the first
 *    host that is open and has room in its budget.
 * 2. find_address() asks for the addresses of the name (NAME), unless the list has an address.
 * 3. dial_connect_to_next() connects to one address after the other (CONNECT). If none is left, the
 *    next host follows.
 * 4. dial_connected() sends SSLRequest (SSL_ANSWER), or begins TLS at once (TLS), or continues
 *    without TLS, by sslmode and sslnegotiation.
 * 5. begin_startup() leaves the connection to server_login.c (STARTUP to READY).
 * 6. After a failure in between dial_give_way() tries the next address (NEXT). Failures are: the
 *    address refuses the connection, does not answer in its part of server_connect_timeout, closes
 *    the connection, fails in TLS, or says that it is not ready (PostgreSQL starts, stops, or is
 *    full). After the last address, or a final answer such as a refused password, the server ends;
 *    the reap notes the failed login for the pool (server_info_failed()).
 *
 * A server in state LOGIN waits for one event at a time, and nothing here blocks.
 *
 * Example. The list is a,b, and a refuses connections because it is being restarted. The dial goes
 * on with b as soon as the refusal arrives, and for server_login_retry later dials begin with b.
 *
 * With load_balance_hosts=round-robin each dial begins with the next host, so that connections are
 * distributed; with disable each dial begins with the host that worked last, and with the next host
 * after a failure. In both cases a host with a failure within server_login_retry is tried after all
 * others: it delays few dials, but is used again when it works, or when no other host works.
 * Addresses of a name are treated in the same way; the last DEAD_MOST failed addresses are
 * remembered.
 *
 * All pools share the result of connecting to a host (struct host). The result of a login belongs
 * to the pool, because it may concern one user or database: a user with too many connections must
 * not mark a host as down for others.
 *
 * Invariant: a dial tries every host once. If a RELOAD changes the list, the dial ends with its
 * generation.
 */
#include "backend/dial.h"

#include "backend/server_login.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/state.h"
#include "base/text.h"
#include "pg/build.h"
#include "pool/closed.h"

#include <openssl/err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEAD_MOST 16
/* for one address; a name with very many addresses is not tried to the last address */
#define WAY_LEAST (USEC / 2)
/* the longest time of a dial if its server is to be closed at once (close_reason) */
#define USELESS_MOST USEC

struct dead_address {
	struct brief_address address;
	usec_t since;
};

#define D(id) (1u << DIAL_##id)
static const struct state_row dial_steps[DIAL_STEPS] = {
#define DIAL_STEP(id, words, moves) [DIAL_##id] = { moves, words },
#include "tbl/dial_step.tbl"
#undef DIAL_STEP
};
#undef D

void dial_step_to(struct dial *d, enum dial_step step)
{
	d->step = (enum dial_step)state_move(dial_steps, DIAL_STEPS, d->step, step);
}

/* ---- the list of hosts of a pool ---- */

static struct hosts *hosts_of(const struct server *s)
{
	struct server_info *info = s->pooled.pool->server_info;

	/* a RELOAD may have given the pool another list */
	return info && s->dial->generation == s->pooled.pool->generation ? &info->hosts : NULL;
}

static void host_name_of(const struct host *host, struct dial *d)
{
	d->port = host->port;
	/* the key without the port */
	snprintf(d->host, sizeof(d->host), "%.*s", (int)(strrchr(host->key, ':') - host->key),
		 host->key);
}

/* Begins with the next host of the order that is open and has room in its budget. False: there is
   none, or the list has become shorter. */
static bool use_host(struct server *s)
{
	const struct pool *pool = s->pooled.pool;
	struct dial *d = s->dial;

	for (;; d->order_at++) {
		unsigned at = d->order[d->order_at];
		struct host *host = at < pool->place_count ? pool->places[at].host : NULL;

		if (!host)
			return false;
		if (host_is_closed_to(host, pool->database)) {
			if (d->order_at + 1 == d->order_count)
				return false;
			continue;
		}
		if (host == s->pooled.host || pool_server_take_host(&s->pooled, host)) {
			host_name_of(host, d);
			d->is_reached = false;
			return true;
		}
		d->has_skipped = true;
		if (d->order_at + 1 == d->order_count)
			return false;
	}
}

/* Whether a failure was less than server_login_retry ago. */
static bool is_recent(const struct server *s, usec_t failed_at)
{
	const struct world *w = s->peer.world;

	return failed_at > 0 && w->now - failed_at < w->conf->settings.server_login_retry;
}

/* Sorts the list into the order in which this dial tries it. False: no memory. */
static bool begin_hosts(struct server *s)
{
	struct dial *d = s->dial;
	struct pool *pool = s->pooled.pool;
	struct hosts *hosts = hosts_of(s);
	unsigned count, found = 0;

	if (!hosts || !pool_places(pool))
		return false;
	count = pool->place_count;
	d->order = mem_try(count * sizeof(*d->order));
	if (!d->order)
		return false;
	for (int dead = 0; dead < 2; dead++) {
		for (unsigned i = 0; i < count; i++) {
			unsigned at = (hosts->next + i) % count;

			if (host_place_has_failed(pool->pools, &pool->places[at],
						  s->peer.world->now) == dead)
				d->order[found++] = at;
		}
	}
	d->order_count = count;
	if (pool->database->conf->load_balance_hosts != BALANCE_DISABLE)
		hosts->next = (d->order[0] + 1) % count;
	return true;
}

/* Returns the number of hosts after the present host. */
static unsigned hosts_left(const struct server *s)
{
	return s->dial->order_count > 0 ? s->dial->order_count - 1 - s->dial->order_at : 0;
}

/* Goes on to the next host. False: there is none, or a RELOAD has changed the list. */
static bool next_host(struct server *s)
{
	if (hosts_left(s) == 0 || s->dial->generation != s->pooled.pool->generation)
		return false;
	s->dial->order_at++;
	return use_host(s);
}

static struct dead_address *find_dead(const struct hosts *hosts,
				      const struct brief_address *address)
{
	for (int i = 0; hosts->dead && i < DEAD_MOST; i++) {
		const struct brief_address *dead = &hosts->dead[i].address;

		if (dead->family == address->family && dead->port == address->port &&
		    memcmp(dead->u.ip, address->u.ip, sizeof(dead->u.ip)) == 0)
			return &hosts->dead[i];
	}
	return NULL;
}

bool hosts_note_address(struct server *s, bool works)
{
	struct hosts *hosts = s->dial->order ? hosts_of(s) : NULL;
	struct dead_address *dead;
	bool was_dead;

	if (!hosts)
		return true;
	dead = find_dead(hosts, &s->peer.remote);
	was_dead = dead && dead->since > 0;
	if (!dead && !works) {
		/* without memory the address is only tried again earlier; otherwise it replaces the
		   oldest entry */
		if (!hosts->dead)
			hosts->dead = mem_try(DEAD_MOST * sizeof(*hosts->dead));
		dead = hosts->dead;
		for (int i = 1; dead && i < DEAD_MOST; i++)
			if (hosts->dead[i].since < dead->since)
				dead = &hosts->dead[i];
	}
	if (dead)
		*dead = (struct dead_address){ s->peer.remote, works ? 0 : s->peer.world->now };
	return was_dead == works;
}

void hosts_note(struct server *s, enum host_note note)
{
	struct dial *d = s->dial;
	struct hosts *hosts = d->order ? hosts_of(s) : NULL;
	const struct pool *pool = s->pooled.pool;
	unsigned at = hosts ? d->order[d->order_at] : 0;
	bool works = note == HOST_WORKS;

	d->is_reached |= note == HOST_REACHED;
	if (works && s->pooled.host && !s->pooled.is_cancel)
		dial_note_attempt(s, s->pooled.host, REASON_NONE, "");
	if (!hosts || at >= pool->place_count)
		return;
	if (note == HOST_REACHED) {
		pool->places[at].host->unreachable_since = 0;
		return;
	}
	pool->places[at].failed_at = works ? 0 : s->peer.world->now;
	if (!d->is_reached)
		pool->places[at].host->unreachable_since = works ? 0 : s->peer.world->now;
	if (pool->database->conf->load_balance_hosts == BALANCE_DISABLE) {
		if (works)
			hosts->next = at;
		else if (hosts->next == at)
			hosts->next = (at + 1) % pool->place_count;
	}
}

void hosts_order_addresses(struct server *s)
{
	struct dial *d = s->dial;
	const struct hosts *hosts = d->order ? hosts_of(s) : NULL;
	int end = d->address_count;

	/* each address is examined once; working addresses keep their order */
	for (int i = 0; hosts && hosts->dead && i < end;) {
		struct address address = d->addresses[i];
		struct brief_address brief;
		const struct dead_address *dead;

		brief_address_of(&brief, &address, (uint16_t)d->port);
		dead = find_dead(hosts, &brief);
		if (!dead || !is_recent(s, dead->since)) {
			i++;
			continue;
		}
		memmove(&d->addresses[i], &d->addresses[i + 1],
			(size_t)(d->address_count - i - 1) * sizeof(address));
		d->addresses[d->address_count - 1] = address;
		end--;
	}
}

/* ---- addresses ---- */

static void find_address(struct server *s);

/* Each remaining address gets an equal part of the remaining time, so that a silent address does
   not use up the time of the others. */
static void give_time(struct server *s)
{
	struct dial *d = s->dial;
	usec_t limit = s->peer.world->conf->settings.server_connect_timeout,
	       now = s->peer.world->now;
	/* after the present address */
	usec_t ways = (usec_t)hosts_left(s) + (d->address_count - d->next_address);
	usec_t part = (s->pooled.since + limit - now) / (ways + 1);

	d->way_ends = limit > 0 && ways > 0 ? now + (part > WAY_LEAST ? part : WAY_LEAST) : 0;
}

static void forget_addresses(struct dial *d)
{
	if (d->request)
		dns_cancel(&d->request);
	if (d->addresses != &d->one)
		mem_free(d->addresses);
	d->addresses = NULL;
	d->address_count = d->next_address = 0;
}

static bool is_last_way(const struct server *s)
{
	return s->dial->next_address == s->dial->address_count && hosts_left(s) == 0;
}

/* The present address does not work, and another one is tried: writes the log line that
   server_end() writes for the last address. Only changes are logged, because a server is tried
   twice a second while it is down. */
static void note_dead_address(struct server *s, enum close_reason why, const char *detail)
{
	const struct world *w = s->peer.world;
	char who[256], text[REASON_LOG_TEXT];
	/* without an address the name has failed */
	bool is_news = s->dial->step == DIAL_NAME || hosts_note_address(s, false);

	s->dial->failed_why = why;
	close_reason_text(why, detail, s->dial->failed_text, sizeof(s->dial->failed_text));
	if (is_news && !is_last_way(s) && !s->pooled.is_cancel &&
	    w->conf->settings.log_disconnections)
		log_info("%s closing because: %s (age=%llds)", server_text(s, who, sizeof(who)),
			 close_reason_log_text(why, detail, text, sizeof(text)),
			 (long long)(w->now_wall - s->peer.connected_at) / USEC);
}

/* Tries the next host of the list. False: there is none. If the others were only skipped, the login
   says nothing about the server, and ends. */
static bool try_next_host(struct server *s)
{
	const struct dial *d = s->dial;

	hosts_note(s, HOST_FAILS);
	/* the failure of the last host ends the dial: dial_note_failure() */
	if (hosts_left(s) > 0 && d->failed_why != REASON_NONE)
		dial_note_attempt(s, s->pooled.host, d->failed_why, d->failed_text);
	if (!next_host(s)) {
		if (s->dial->has_skipped)
			server_end(s, REASON_HOSTS_FULL, NULL);
		return s->dial->has_skipped;
	}
	forget_addresses(s->dial);
	find_address(s);
	return true;
}

static bool dial_connect_to_next(struct server *s)
{
	struct world *w = s->peer.world;
	const struct settings *set = &w->conf->settings;
	struct socket_options options = {
		.keepalive = set->tcp_keepalive,
		.keepidle = (int)set->tcp_keepidle,
		.keepintvl = (int)set->tcp_keepintvl,
		.keepcnt = (int)set->tcp_keepcnt,
		.user_timeout = (int)set->tcp_user_timeout,
		.buffer = (int)set->tcp_socket_buffer,
	};
	struct dial *d = s->dial;

	while (d->next_address < d->address_count) {
		const struct address *a = &d->addresses[d->next_address++];

		*s->address = *a;
		brief_address_of(&s->peer.remote, a, (uint16_t)d->port);
		dial_step_to(d, DIAL_CONNECT);
		give_time(s);
		if (stream_connect(&s->peer.stream, w->base, &a->u.any, a->size, &options,
				   w->ops->server_stream)) {
			/* a new socket is read at first, but SUSPEND still applies */
			if (s->peer.blocked)
				flow_block(&s->peer, s->peer.blocked);
			return true;
		}
		d->error = errno;
		note_dead_address(s, REASON_CONNECT_FAILED, strerror(d->error));
	}
	if (!try_next_host(s))
		server_end(s, REASON_CONNECT_FAILED, strerror(d->error));
	return false;
}

static void dial_resolved(void *context, const struct dns_answer *answer)
{
	struct server *s = context;
	struct dial *d = s->dial;

	d->request = NULL;
	if (!peer_wake(&s->peer))
		return;
	if (answer->count == 0) {
		const char *error = answer->error ? answer->error : "no address";

		log_write(dial_failed_alike(s, error) ? LEVEL_DEBUG : LEVEL_WARNING,
			  "DNS lookup failed: %s: result=0 (%s)", d->host, error);
		note_dead_address(s, REASON_DNS_FAILED, error);
		if (!try_next_host(s))
			server_end(s, REASON_DNS_FAILED, error);
		return;
	}
	d->addresses = dns_answer_copy(answer, (uint16_t)d->port);
	if (!d->addresses) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	d->address_count = answer->count;
	hosts_order_addresses(s);
	dial_connect_to_next(s);
}

static void find_address(struct server *s)
{
	struct dial *d = s->dial;
	bool is_unix = d->host[0] == '/' || d->host[0] == '@';

	if (is_unix ? address_from_unix(&d->one, d->host, (uint16_t)d->port)
		    : address_from_ip(&d->one, d->host, (uint16_t)d->port)) {
		d->addresses = &d->one;
		d->address_count = 1;
		dial_connect_to_next(s);
		return;
	}
	if (is_unix) {
		if (!try_next_host(s))
			server_end(s, REASON_CONNECT_FAILED, strerror(ENAMETOOLONG));
		return;
	}
	dial_step_to(d, DIAL_NAME);
	give_time(s);
	d->request = dns_lookup(s->peer.world->dns, d->host, dial_resolved, s);
	if (!d->request)
		server_end(s, REASON_NO_MEMORY, NULL);
}

/* Makes the data of a dial. False: no memory; the server has ended. */
static bool dial_prepare(struct server *s)
{
	const struct server_info *info = s->pooled.pool->server_info;

	s->dial = mem_try(sizeof(*s->dial));
	s->address = s->address ? s->address : mem_try(sizeof(*s->address));
	if (s->dial && s->address) {
		s->dial->server = s;
		derivation_wait_init(&s->dial->derivation, &s->peer);
		s->dial->generation = s->pooled.pool->generation;
		s->dial->uses_old = info && info->proven.prefers_old;
		return true;
	}
	server_end(s, REASON_NO_MEMORY, NULL);
	return false;
}

void dial_begin(struct pool *pool, struct world *w, const struct client *whom,
		const struct bytes *kept)
{
	struct server *s = server_new(pool, w, false, whom);
	char name[POOL_TEXT];

	if (!s) {
		log_warning("out of memory: no server connection for %s",
			    pool_text(pool, name, sizeof(name)));
		pool_login_failed(pool, FAILURE_PASSING, w->now);
		return;
	}
	if (!server_info_get(pool, w->params)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	if (!dial_prepare(s))
		return;
	if (kept && bytes_size(kept) > 0)
		bytes_append(&s->dial->kept, bytes_front(kept), bytes_size(kept));
	if (s->dial->kept.failed || !begin_hosts(s)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	if (!use_host(s)) {
		server_end(s, REASON_HOSTS_FULL, NULL);
		return;
	}
	find_address(s);
}

struct server *dial_to_watch(struct pool *pool, struct world *w)
{
	struct server *s = server_new(pool, w, false, NULL);

	if (!s)
		return NULL;
	pool_server_watch(&s->pooled);
	if (!server_info_get(pool, w->params)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return NULL;
	}
	if (!dial_prepare(s))
		return NULL;
	pool_server_set_host(&s->pooled, pool->host);
	host_name_of(pool->host, s->dial);
	find_address(s);
	return s;
}

struct server *dial_for_cancel(struct server *target, void (*connected)(struct server *))
{
	struct world *w = target->peer.world;
	struct server *s = server_new(target->pooled.pool, w, true, NULL);

	if (!s || !dial_prepare(s))
		return NULL;
	s->dial->connected = connected;
	if (target->peer.stream.ssl)
		s->dial->tls = tls_context_hold(target->peer.stream.context);
	s->tls_direct = target->tls_direct;
	s->dial->one = *target->address;
	s->dial->addresses = &s->dial->one;
	s->dial->address_count = 1;
	s->dial->port = target->peer.remote.port;
	text_copy(s->dial->host, sizeof(s->dial->host), target->host ? target->host : "");
	return dial_connect_to_next(s) ? s : NULL;
}

/* ---- connected ---- */

static int sslmode_of(const struct server *s)
{
	return conf_server_tls(&s->peer.world->conf->settings, s->pooled.pool->database->conf)
		.sslmode;
}

/* Returns the TLS context for the server's database. NULL: none. */
static struct tls_context *context_for(const struct server *s)
{
	const struct tls_contexts *tls = &s->peer.world->tls;
	const struct conf_database *d = s->pooled.pool->database->conf;

	if (!conf_server_tls(&s->peer.world->conf->settings, d).is_own)
		return tls->servers;
	for (size_t i = 0; i < tls->own_count; i++)
		if (strcmp(tls->own[i].name, d->name) == 0)
			return tls->own[i].context;
	return NULL;
}

static void begin_tls(struct server *s)
{
	bool verify_name = sslmode_of(s) == SSLMODE_VERIFY_FULL;

	const struct host *host = s->pooled.host;

	dial_step_to(s->dial, DIAL_TLS);
	if (!stream_secure_connect(&s->peer.stream, s->dial->tls,
				   host && host->name ? host->name : s->dial->host, verify_name,
				   NULL))
		server_end(s, REASON_NO_MEMORY, NULL);
}

/* The connection is established: sends the StartupMessage, or the cancel request. */
static void begin_startup(struct server *s)
{
	if (s->pooled.is_cancel) {
		s->dial->connected(s);
		return;
	}
	dial_step_to(s->dial, DIAL_STARTUP);
	server_login_begin(s);
}

void dial_connected(struct server *s, const char *error)
{
	const struct settings *set = &s->peer.world->conf->settings;
	int negotiation = s->pooled.pool->database->conf->sslnegotiation;
	struct dial *d = s->dial;
	struct brief_address local = { .family = 0 };
	struct bytes out = BYTES_EMPTY;
	char who[256], from[80];
	bool sent;

	if (error) {
		d->error = s->peer.stream.error;
		stream_close(&s->peer.stream);
		note_dead_address(s, REASON_CONNECT_FAILED, strerror(d->error));
		dial_connect_to_next(s);
		return;
	}
	hosts_note(s, HOST_REACHED);
	if (set->log_connections) {
		address_of_socket(s->peer.stream.fd, &local, s->peer.remote.port);
		log_write(dial_failed_alike(s, "") ? LEVEL_DEBUG : LEVEL_LOG,
			  "%s new connection to server (from %s)", server_text(s, who, sizeof(who)),
			  brief_address_and_port(&local, from, sizeof(from)));
	}
	/* a cancel request uses the TLS settings of its target */
	if (!s->pooled.is_cancel && !d->tls && context_for(s))
		d->tls = tls_context_hold(context_for(s));
	ASSERT(d->tls || s->pooled.is_cancel || sslmode_of(s) == SSLMODE_DISABLE);
	if (!d->tls || s->peer.remote.family == AF_UNIX) {
		begin_startup(s);
		return;
	}
	if (!s->pooled.is_cancel)
		s->tls_direct = (negotiation == CONF_UNSET ? set->server_tls_sslnegotiation
							   : negotiation) == SSLNEGOTIATION_DIRECT;
	if (s->tls_direct) {
		begin_tls(s);
		return;
	}
	dial_step_to(d, DIAL_SSL_ANSWER);
	pg_build(&out, 0, PG_SSL_REQUEST, sizeof(PG_SSL_REQUEST) - 1);
	sent = !out.failed && stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	if (!sent)
		dial_give_way(s, REASON_CONNECT_FAILED, stream_error(&s->peer.stream));
}

/* Writes version, cipher and, for an elliptic curve exchange, the group:
   TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519. Returns buf. */
static const char *agreed_text(SSL *ssl, char *buf, size_t size)
{
	EVP_PKEY *shared = NULL;
	char group[64] = "";
	size_t length;
	bool is_curve = SSL_get_peer_tmp_key(ssl, &shared) == 1 && !EVP_PKEY_is_a(shared, "DH") &&
			EVP_PKEY_get_group_name(shared, group, sizeof(group), &length) == 1;

	/* X25519 and X448 are both the type of the key and its only group */
	if (shared && !is_curve && !EVP_PKEY_is_a(shared, "DH"))
		snprintf(group, sizeof(group), "%s", EVP_PKEY_get0_type_name(shared));
	snprintf(buf, size, "%s/%s%s%s", SSL_get_version(ssl), SSL_get_cipher_name(ssl),
		 *group ? "/ECDH=" : "", group);
	EVP_PKEY_free(shared);
	ERR_clear_error();
	return buf;
}

void dial_secured(struct server *s, const char *error)
{
	char who[256], text[128];
	enum tls_alpn alpn = error ? TLS_ALPN_NONE : tls_agreed_alpn(s->peer.stream.ssl);

	/* servers before 17 do not know ALPN; the answer to SSLRequest has shown that they are
	   PostgreSQL */
	if (!error && alpn == TLS_ALPN_OTHER)
		error = "server agreed on another application protocol (ALPN)";
	else if (!error && alpn == TLS_ALPN_NONE && s->tls_direct)
		error = "server does not confirm the application protocol (ALPN)";
	if (error) {
		dial_give_way(s, REASON_SERVER_TLS, error);
		return;
	}
	if (s->peer.world->conf->settings.log_connections)
		log_info("%s SSL established: %s", server_text(s, who, sizeof(who)),
			 agreed_text(s->peer.stream.ssl, text, sizeof(text)));
	begin_startup(s);
}

/* Reads the answer to SSLRequest, one byte. Bytes after it, which were not encrypted
   (CVE-2021-23222), are not read here: they fail as a TLS record. */
static void read_ssl_answer(struct server *s)
{
	int mode = sslmode_of(s);
	char answer = 0;
	ssize_t r = stream_read(&s->peer.stream, &answer, 1);

	if (r == STREAM_AGAIN)
		return;
	if (r < 0) {
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
	} else if (answer == 'S') {
		begin_tls(s);
	} else if (answer == 'N' && mode < SSLMODE_REQUIRE && !s->pooled.is_cancel) {
		/* the target of a cancel request has TLS, so its key must not be sent without
		   TLS */
		begin_startup(s);
	} else if (answer == 'N') {
		dial_give_way(s, REASON_SERVER_TLS,
			      "server does not support SSL, but SSL was required");
	} else {
		dial_give_way(s, REASON_SERVER_LOGIN_BROKEN, "unexpected answer to SSLRequest");
	}
}

void dial_read(struct server *s, bool from_socket)
{
	switch (s->dial->step) {
	case DIAL_NEXT:
		dial_connect_to_next(s);
		return;
	case DIAL_SSL_ANSWER:
		if (from_socket)
			read_ssl_answer(s);
		return;
	default:
		if (dial_step_reads_messages(s->dial->step))
			server_login_read(s, from_socket);
		return;
	}
}

/* ---- the next address ---- */

/* Discards everything that the server of this address has sent: another server may send other
   values. */
static void discard_login(struct server *s)
{
	struct world *w = s->peer.world;

	stream_close(&s->peer.stream);
	peer_wipe_held(&s->peer);
	params_drop(w->params, &s->params);
	s->params = params_none(w->params);
	server_forget_login(s);
	if (s->dial->request)
		dns_cancel(&s->dial->request);
	scram_prover_clear(&s->dial->scram);
	derivation_leave(&s->dial->derivation);
	bytes_wipe(&s->dial->challenge);
	bytes_free(&s->dial->welcome);
	s->dial->refusal = SERVER_REFUSAL_OTHER;
}

/* Connects to the next address in a later turn, because the caller may still read from the closed
   stream. */
static void connect_later(struct server *s)
{
	discard_login(s);
	dial_step_to(s->dial, DIAL_NEXT);
	s->dial->way_ends = 0;
	peer_come_again(&s->peer);
}

void dial_again(struct server *s)
{
	s->dial->next_address--;
	connect_later(s);
}

void dial_give_way(struct server *s, enum close_reason why, const char *detail)
{
	if (s->pooled.is_cancel || s->pooled.close_reason != REASON_NONE || is_last_way(s)) {
		server_end(s, why, detail);
		return;
	}
	if (why == REASON_SERVER_CRASHED && stream_abuse(&s->peer.stream)) {
		why = REASON_SERVER_TLS;
		detail = stream_abuse(&s->peer.stream);
	}
	note_dead_address(s, why, detail);
	connect_later(s);
}

void dial_tick(struct server *s)
{
	const struct world *w = s->peer.world;
	usec_t limit = w->conf->settings.server_connect_timeout;
	bool is_over = limit > 0 && w->now - s->pooled.since >= limit;
	enum close_reason why = s->dial->step == DIAL_CONNECT ? REASON_CONNECT_TIMED_OUT
							      : REASON_CONNECT_TIMEOUT;
	char who[256];

	if (s->pooled.close_reason != REASON_NONE && w->now - s->pooled.since >= USELESS_MOST) {
		server_end(s, (enum close_reason)s->pooled.close_reason, NULL);
		return;
	}
	if (!is_over && (s->dial->way_ends == 0 || w->now < s->dial->way_ends))
		return;
	if (!s->pooled.is_cancel)
		log_write(dial_failed_alike(s, close_reason_rows[why].text) ? LEVEL_DEBUG
									    : LEVEL_WARNING,
			  "%s no answer %s in time from host \"%s\"",
			  server_text(s, who, sizeof(who)), dial_steps[s->dial->step].name,
			  s->dial->host);
	if (is_over)
		server_end(s, why, NULL);
	else
		dial_give_way(s, why, NULL);
}

/* ---- the end ---- */

void dial_free(struct server *s)
{
	struct dial *d = s->dial;

	if (!d)
		return;
	s->dial = NULL;
	forget_addresses(d);
	scram_prover_clear(&d->scram);
	derivation_leave(&d->derivation);
	bytes_wipe(&d->challenge);
	bytes_free(&d->welcome);
	mem_free(d->order);
	bytes_free(&d->kept);
	if (d->tls)
		tls_context_drop(&d->tls);
	mem_wipe(d, sizeof(*d));
	mem_free(d);
}
