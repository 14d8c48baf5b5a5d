/*
 * Opening a server connection, up to the first ReadyForQuery: name, connect, TLS by SSLRequest or at once.
 * The start-up message and the password are in server_login.c.
 *
 * A way to a server is one address of one host. Hosts are tried in the order that hosts.c gives, and of
 * each all addresses in their order; a way that cannot be connected to, is silent for its part of
 * server_connect_timeout, breaks off, fails in TLS, or says that it is not ready (PostgreSQL starts, stops,
 * or is full) is followed by the next. Only when none is left the dial has failed. An answer that is final
 * (a refused password, no such database) is not asked for a second time elsewhere. Only one thing is waited
 * for at a time; nothing here ever blocks.
 */
#include "backend/dial.h"

#include "backend/server_login.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "pg/build.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WAY_LEAST (USEC / 2)		/* for one way; a name with very many addresses is not tried to its end */
#define USELESS_MOST USEC		/* for a dial with a connection that would be closed as soon as it is open */

/* ---- where to ---- */

static void find_address(struct server *s);

/* Each way to a server that is still to be tried gets an equal part of the time that is left, so that one
   that swallows what is sent to it does not take the others' time. */
static void give_time(struct server *s)
{
	struct dial *d = s->dial;
	usec_t limit = s->peer.world->conf->settings.server_connect_timeout, now = s->peer.world->now;
	/* behind the present one */
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

/* The line that server_end writes when there is no other way. */
static void log_way(const struct server *s, enum close_reason why, const char *detail)
{
	const struct world *w = s->peer.world;
	char who[256], text[REASON_LOG_TEXT];

	if (s->pooled.is_cancel || !w->conf->settings.log_disconnections)
		return;
	log_info("%s closing because: %s (age=%llds)", server_text(s, who, sizeof(who)), close_reason_log_text(why, detail, text, sizeof(text)),
		 (long long)(w->now_wall - s->peer.connected_at) / USEC);
}

/* The address that is being tried does not work. A server that is away is tried twice a second: only news is logged. */
static void note_dead_address(struct server *s, enum close_reason why, const char *detail)
{
	if (hosts_note_address(s, false) && !is_last_way(s))
		log_way(s, why, detail);
}

/* Goes on to the next host of the list. False: this was the last one. */
static bool try_next_host(struct server *s)
{
	hosts_note(s, false);
	if (!hosts_next(s))
		return false;
	forget_addresses(s->dial);
	find_address(s);
	return true;
}

static bool connect_to_next(struct server *s)
{
	struct world *w = s->peer.world;
	const struct settings *set = &w->conf->settings;
	struct socket_options options = {
		.keepalive = set->tcp_keepalive, .keepidle = (int)set->tcp_keepidle, .keepintvl = (int)set->tcp_keepintvl,
		.keepcnt = (int)set->tcp_keepcnt, .user_timeout = (int)set->tcp_user_timeout, .buffer = (int)set->tcp_socket_buffer,
	};
	struct dial *d = s->dial;

	while (d->next_address < d->address_count) {
		const struct address *a = &d->addresses[d->next_address++];

		*s->address = *a;
		brief_address_of(&s->peer.remote, a, (uint16_t)d->port);
		dial_step_to(d, DIAL_CONNECT);
		give_time(s);
		if (stream_connect(&s->peer.stream, w->base, &a->u.any, a->size, &options, w->ops->server_stream)) {
			/* a new socket is read: SUSPEND still holds */
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

static void resolved(void *context, const struct dns_answer *answer)
{
	struct server *s = context;
	struct dial *d = s->dial;

	d->request = NULL;
	if (!peer_wake(&s->peer))
		return;
	if (answer->count == 0) {
		const char *error = answer->error ? answer->error : "no address";

		log_warning("DNS lookup failed: %s: result=0 (%s)", d->host, error);
		if (!is_last_way(s))
			log_way(s, REASON_DNS_FAILED, error);
		if (!try_next_host(s))
			server_end(s, REASON_DNS_FAILED, error);
		return;
	}
	d->addresses = mem_try((size_t)answer->count * sizeof(*d->addresses));
	if (!d->addresses) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	d->address_count = answer->count;
	for (int i = 0; i < d->address_count; i++) {
		d->addresses[i] = *dns_answer_at(answer, i);
		if (d->addresses[i].u.any.sa_family == AF_INET6)
			d->addresses[i].u.v6.sin6_port = htons((uint16_t)d->port);
		else
			d->addresses[i].u.v4.sin_port = htons((uint16_t)d->port);
	}
	hosts_order_addresses(s);
	connect_to_next(s);
}

static void find_address(struct server *s)
{
	struct dial *d = s->dial;
	bool is_unix = d->host[0] == '/' || d->host[0] == '@';

	if (is_unix ? address_from_unix(&d->one, d->host, (uint16_t)d->port) : address_from_ip(&d->one, d->host, (uint16_t)d->port)) {
		d->addresses = &d->one;
		d->address_count = 1;
		connect_to_next(s);
		return;
	}
	if (is_unix) {
		if (!try_next_host(s))
			server_end(s, REASON_CONNECT_FAILED, strerror(ENAMETOOLONG));
		return;
	}
	dial_step_to(d, DIAL_NAME);
	give_time(s);
	d->request = dns_lookup(s->peer.world->dns, d->host, resolved, s);
	if (!d->request)
		server_end(s, REASON_NO_MEMORY, NULL);
}

static bool prepare(struct server *s)
{
	s->dial = mem_try(sizeof(*s->dial));
	s->address = s->address ? s->address : mem_try(sizeof(*s->address));
	if (s->dial && s->address) {
		s->dial->server = s;
		derivation_wait_init(&s->dial->derivation, &s->peer);
		s->dial->generation = s->pooled.pool->generation;
		return true;
	}
	server_end(s, REASON_NO_MEMORY, NULL);
	return false;
}

void dial_begin(struct pool *pool, struct world *w, const struct client *whom, const struct bytes *kept)
{
	struct server *s = server_new(pool, w, false, whom);
	char name[POOL_TEXT];

	if (!s) {
		log_warning("out of memory: no server connection for %s", pool_text(pool, name, sizeof(name)));
		pool_login_failed(pool, FAILURE_PASSING, w->now);
		return;
	}
	if (!server_info_get(pool, w->params) || !prepare(s)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	if (kept && bytes_size(kept) > 0)
		bytes_append(&s->dial->kept, bytes_front(kept), bytes_size(kept));
	if (s->dial->kept.failed) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	if (!hosts_begin(s)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	find_address(s);
}

struct server *dial_for_cancel(struct server *target, void (*connected)(struct server *))
{
	struct world *w = target->peer.world;
	struct server *s = server_new(target->pooled.pool, w, true, NULL);

	if (!s)
		return NULL;
	if (!prepare(s))
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
	return connect_to_next(s) ? s : NULL;
}

/* ---- connected ---- */

static bool tls_is_wanted(struct server *s)
{
	struct tls_context *in_force = s->peer.world->server_tls;

	if (!s->pooled.is_cancel && !s->dial->tls && in_force)
		s->dial->tls = tls_context_hold(in_force);
	return s->dial->tls && s->peer.remote.family != AF_UNIX;
}

/* Without an SSLRequest first. A cancel goes the way its target went. */
static bool is_direct(struct server *s)
{
	int of_database = s->pooled.pool->database->conf->sslnegotiation;
	int of_all = s->peer.world->conf->settings.server_tls_sslnegotiation;

	if (!s->pooled.is_cancel)
		s->tls_direct = (of_database == CONF_UNSET ? of_all : of_database) == SSLNEGOTIATION_DIRECT;
	return s->tls_direct;
}

static void begin_tls(struct server *s)
{
	bool verify_name = s->peer.world->conf->settings.server_tls_sslmode == SSLMODE_VERIFY_FULL;

	dial_step_to(s->dial, DIAL_TLS);
	if (!stream_secure_connect(&s->peer.stream, s->dial->tls, s->dial->host, verify_name, NULL))
		server_end(s, REASON_NO_MEMORY, NULL);
}

/* The connection stands: send the StartupMessage, or carry the cancel request. */
static void established(struct server *s)
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
	struct dial *d = s->dial;
	struct brief_address local = { .family = 0 };
	struct bytes out = BYTES_EMPTY;
	char who[256], from[80];
	bool sent;

	if (error) {
		d->error = s->peer.stream.error;
		stream_close(&s->peer.stream);
		note_dead_address(s, REASON_CONNECT_FAILED, strerror(d->error));
		connect_to_next(s);
		return;
	}
	hosts_note_reached(s);
	if (s->peer.world->conf->settings.log_connections) {
		address_of_socket(s->peer.stream.fd, &local, s->peer.remote.port);
		log_info("%s new connection to server (from %s)", server_text(s, who, sizeof(who)),
			 brief_address_and_port(&local, from, sizeof(from)));
	}
	if (!tls_is_wanted(s)) {
		established(s);
		return;
	}
	if (is_direct(s)) {
		begin_tls(s);
		return;
	}
	dial_step_to(d, DIAL_SSL_ANSWER);
	pg_build_ssl_request(&out);
	sent = !out.failed && stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	if (!sent)
		dial_give_way(s, REASON_CONNECT_FAILED, stream_error(&s->peer.stream));
}

/* Whether both mean PostgreSQL. Servers before 17 know no ALPN, and then it is the SSLRequest that says so. */
static const char *alpn_fault(const struct server *s)
{
	switch (tls_agreed_alpn(s->peer.stream.ssl)) {
	case TLS_ALPN_OTHER:
		return "server agreed on another application protocol (ALPN)";
	case TLS_ALPN_NONE:
		return s->tls_direct ? "server does not confirm the application protocol (ALPN)" : NULL;
	case TLS_ALPN_POSTGRESQL:
		break;
	}
	return NULL;
}

void dial_secured(struct server *s, const char *error)
{
	char who[256], text[128];

	if (!error)
		error = alpn_fault(s);
	if (error) {
		dial_give_way(s, REASON_SERVER_TLS, error);
		return;
	}
	if (s->peer.world->conf->settings.log_connections)
		log_info("%s SSL established: %s", server_text(s, who, sizeof(who)), tls_agreed_text(s->peer.stream.ssl, text, sizeof(text)));
	established(s);
}

/* The one byte that answers SSLRequest. Only that byte is read: what came behind it in the clear (CVE-2021-23222)
   would have to pass as a TLS record. */
static void read_ssl_answer(struct server *s)
{
	int mode = s->peer.world->conf->settings.server_tls_sslmode;
	char answer = 0;
	ssize_t r = stream_read(&s->peer.stream, &answer, 1);

	if (r == STREAM_AGAIN)
		return;
	if (r < 0) {
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
	} else if (answer == 'S') {
		begin_tls(s);
	} else if (answer == 'N' && mode < SSLMODE_REQUIRE && !s->pooled.is_cancel) {
		/* a cancel's target has TLS, so its key is not for the eyes of others */
		established(s);
	} else if (answer == 'N') {
		dial_give_way(s, REASON_SERVER_TLS, "server does not support SSL, but SSL was required");
	} else {
		dial_give_way(s, REASON_SERVER_LOGIN_BROKEN, "unexpected answer to SSLRequest");
	}
}

void dial_read(struct server *s, bool from_socket)
{
	switch (s->dial->step) {
	case DIAL_NEXT:
		connect_to_next(s);
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

/* ---- another way ---- */

static void forget_login(struct dial *d)
{
	scram_prover_clear(&d->scram);
	derivation_leave(&d->derivation);
	bytes_wipe(&d->challenge);
	bytes_free(&d->welcome);
	d->refusal = SERVER_REFUSAL_OTHER;
}

/* What one server has said is nothing that another one need say. */
static void forget_way(struct server *s)
{
	struct world *w = s->peer.world;

	stream_close(&s->peer.stream);
	bytes_wipe(&s->peer.held);
	params_drop(w->params, &s->params);
	s->params = params_none(w->params);
	s->session.reported = 0;
	mem_free(s->cancel_key);
	s->cancel_key = NULL;
	s->cancel_key_size = 0;
	s->backend_pid = 0;
	if (s->dial->request)
		dns_cancel(&s->dial->request);
	forget_login(s->dial);
}

void dial_give_way(struct server *s, enum close_reason why, const char *detail)
{
	struct dial *d = s->dial;

	if (s->pooled.is_cancel || s->pooled.close_reason != REASON_NONE || is_last_way(s)) {
		server_end(s, why, detail);
		return;
	}
	if (why == REASON_SERVER_CRASHED && stream_abuse(&s->peer.stream)) {
		why = REASON_SERVER_TLS;
		detail = stream_abuse(&s->peer.stream);
	}
	if (d->step == DIAL_NAME)
		log_way(s, why, detail);
	else
		note_dead_address(s, why, detail);
	forget_way(s);
	/* what is on the stack above reads from the stream that has just been closed: begin again from a
	   fresh one */
	dial_step_to(d, DIAL_NEXT);
	d->way_ends = 0;
	peer_come_again(&s->peer);
}

void dial_tick(struct server *s)
{
	const struct world *w = s->peer.world;
	usec_t limit = w->conf->settings.server_connect_timeout;
	bool is_over = limit > 0 && w->now - s->pooled.since >= limit;
	enum close_reason why = s->dial->step == DIAL_CONNECT ? REASON_CONNECT_TIMED_OUT : REASON_CONNECT_TIMEOUT;
	char who[256];

	if (s->pooled.close_reason != REASON_NONE && w->now - s->pooled.since >= USELESS_MOST) {
		server_end(s, (enum close_reason)s->pooled.close_reason, NULL);
		return;
	}
	if (!is_over && (s->dial->way_ends == 0 || w->now < s->dial->way_ends))
		return;
	if (!s->pooled.is_cancel)
		log_warning("%s no answer %s in time from host \"%s\"", server_text(s, who, sizeof(who)), dial_step_words(s->dial->step),
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
	forget_login(d);
	mem_free(d->order);
	bytes_free(&d->kept);
	if (d->tls)
		tls_context_drop(&d->tls);
	mem_wipe(d, sizeof(*d));
	mem_free(d);
}
