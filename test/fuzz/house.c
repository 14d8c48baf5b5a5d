/*
 * pgweir around a fuzz target: see house.h. Servers have IP addresses, so that TLS may be used, but every dialled IP address leads to an abstract
 * Unix socket of this process: no packet leaves the process, and sent data is available at once.
 */
#include "cancel/cancel.h"
#include "house.h"

#include "admin/console.h"
#include "auth/lookup.h"
#include "backend.h"
#include "base/version.h"
#include "core/lifecycle.h"
#include "fuzz.h"
#include "login/handshake.h"
#include "pg/build.h"
#include "pg/startup.h"
#include "relay/relay.h"
#include "sandbox.h"
#include "secure.h"
#include "sql/statement.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define QUIET_TURNS 2		/* without anything having moved: then nothing will */
#define TURNS_MOST 20000	/* more is a loop that does not end */
#define PORT 5432
#define CONFS_MOST 64
#define PACKET_MOST 100000

static int listening = -1;
static struct address here;

/* ---- the place of the servers ---- */

static void listen_once(void)
{
	char name[64];

	if (listening >= 0)
		return;
	snprintf(name, sizeof(name), "@pgweir-fuzz-%ld", (long)getpid());
	FUZZ_CHECK(address_from_unix(&here, name, PORT));
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listening < 0 || bind(listening, &here.u.any, here.size) != 0 || listen(listening, 128) != 0) {
		perror(name);
		exit(1);
	}
}

bool __real_stream_connect(struct stream *stream, struct event_base *base, const struct sockaddr *address, socklen_t size,
			   const struct socket_options *options, const struct stream_ops *ops);
bool __wrap_stream_connect(struct stream *stream, struct event_base *base, const struct sockaddr *address, socklen_t size,
			   const struct socket_options *options, const struct stream_ops *ops);
bool __wrap_stream_connect(struct stream *stream, struct event_base *base, const struct sockaddr *address, socklen_t size,
			   const struct socket_options *options, const struct stream_ops *ops)
{
	if (address->sa_family == AF_UNIX)
		return __real_stream_connect(stream, base, address, size, options, ops);
	return __real_stream_connect(stream, base, &here.u.any, here.size, NULL, ops);
}

/* ---- functions of main ---- */

static bool on_reload(void *context, struct conf_problems *problems)
{
	struct house *h = context;

	return world_reconfigure(h->world, h->world->conf, problems);
}

static bool on_set(void *context, const char *name, const char *value, struct conf_problems *problems)
{
	struct house *h = context;
	struct conf *next = conf_with(h->world->conf, name, value, problems);
	bool ok = next && world_reconfigure(h->world, next, problems);

	if (next)
		conf_drop(&next);
	return ok;
}

static void on_shutdown(void *context, enum world_drain how)
{
	world_drain(((struct house *)context)->world, how);
}

/* Snapshots are never changed, so each ini is parsed once. */
static struct conf *conf_of(const char *ini)
{
	static struct { const char *ini; struct conf *conf; } known[CONFS_MOST];
	struct conf_problems problems = { .count = 0 };
	int i = 0;

	while (i < CONFS_MOST && known[i].ini && known[i].ini != ini)
		i++;
	FUZZ_CHECK(i < CONFS_MOST);
	if (known[i].ini)
		return known[i].conf;
	sandbox_files(ini, strlen(ini));
	known[i].conf = conf_load(SANDBOX_MAIN, &problems);
	if (known[i].conf)
		conf_read_rules(known[i].conf, NULL, false, &problems);
	for (size_t n = 0; n < problems.count; n++)
		if (!problems.items[n].is_warning)
			fprintf(stderr, "%d: %s\n", problems.items[n].line, problems.items[n].text);
	FUZZ_CHECK(known[i].conf && problems.errors == 0);
	conf_problems_free(&problems);
	known[i].ini = ini;
	return known[i].conf;
}

void house_open(struct house *h, const char *ini)
{
	static struct event_base *base;
	struct control control = { .reload = on_reload, .set = on_set, .shutdown = on_shutdown, .context = h,
				   .version = PGWEIR_COMPATIBLE_VERSION };
	struct conf_problems problems = { .count = 0 };

	listen_once();
	secure_prepare();
	if (!base)
		base = event_base_new();
	memset(h, 0, sizeof(*h));
	h->base = base;
	h->servers_answer = true;
	h->shared = shared_new();
	h->world = world_new(base, h->shared, conf_of(ini), &problems);
	FUZZ_CHECK(h->world && problems.errors == 0);
	conf_problems_free(&problems);
	h->console = console_new(h->world, &control);
	FUZZ_CHECK(h->console);
}

static void end_free(struct house_end *e)
{
	house_hang_up(e);
	bytes_free(&e->got);
	bytes_free(&e->wire);
	secure_free(&e->secure);
	if (e->backend)
		backend_free(e->backend);
	free(e->backend);
}

void house_close(struct house *h)
{
	struct world *w = h->world;

	console_free(&h->console);
	world_end_sessions(w, REASON_POOLER_SHUTTING_DOWN, false);
	world_check(w);
	FUZZ_CHECK(list_is_empty(&w->peers.clients) && list_is_empty(&w->peers.servers) && list_is_empty(&w->peers.again));
	/* every holder of a prepared statement is gone */
	FUZZ_CHECK(w->statements->count == 0);
	FUZZ_CHECK(!w->cancels->by_pid);
	world_free(&h->world);
	shared_free(&h->shared);
	for (int i = 0; i < h->end_count; i++)
		end_free(&h->ends[i]);
	/* connections that were not accepted */
	for (int fd; (fd = accept(listening, NULL, NULL)) >= 0;)
		close(fd);
}

/* ---- ends ---- */

static struct house_end *end_new(struct house *h, int fd, bool is_server)
{
	struct house_end *e = &h->ends[h->end_count];

	if (h->end_count == HOUSE_ENDS) {
		close(fd);
		return NULL;
	}
	h->end_count++;
	*e = (struct house_end){ .fd = fd, .is_server = is_server, .got = BYTES_EMPTY, .wire = BYTES_EMPTY };
	return e;
}

struct house_end *house_connect(struct house *h)
{
	struct address from;
	int fds[2];

	if (h->end_count == HOUSE_ENDS)
		return NULL;
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	FUZZ_CHECK(address_from_ip(&from, "127.0.0.1", (uint16_t)(40000 + h->end_count)));
	FUZZ_CHECK(dispatch_ops.accepted(h->world, fds[1], &from, false, 6432));
	return end_new(h, fds[0], false);
}

struct house_end *house_server(struct house *h)
{
	for (int i = h->end_count - 1; i >= 0; i--)
		if (h->ends[i].is_server)
			return &h->ends[i];
	return NULL;
}

void house_hang_up(struct house_end *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

static void send_secured(struct house *h, struct house_end *e);

static bool accept_servers(struct house *h)
{
	bool moved = false;
	int fd;

	while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct house_end *e = end_new(h, fd, true);

		moved = true;
		if (!e || !h->servers_answer)
			continue;
		e->begins = true;
		e->backend = calloc(1, sizeof(*e->backend));
		FUZZ_CHECK(e->backend);
		backend_init(e->backend);
	}
	return moved;
}

static void take_in(struct house *h, struct house_end *e, const uint8_t *data, size_t size)
{
	size_t clear = e->awaits_answer && *data == 'S';

	bytes_append(&e->wire, data, size);
	e->awaits_answer = false;
	if (!e->secure) {
		bytes_append(&e->got, data, size);
		return;
	}
	secure_take(e->secure, data + clear, size - clear, &e->got);
	if (!e->holds)
		send_secured(h, e);
}

/* Reads the bytes that pgweir has sent to this end. */
static bool receive(struct house *h, struct house_end *e)
{
	uint8_t buffer[16384];
	bool moved = false;

	while (e->fd >= 0 && !e->is_gone) {
		ssize_t got = recv(e->fd, buffer, sizeof(buffer), 0);

		if (got < 0 && errno == EAGAIN)
			break;
		moved = true;
		if (got > 0)
			take_in(h, e, buffer, (size_t)got);
		else
			e->is_gone = true;
	}
	FUZZ_CHECK(!e->got.failed && !e->wire.failed);
	return moved;
}

void house_secure_server(struct house *h, struct house_end *e, const struct secure_options *options)
{
	struct bytes begun = e->got;

	e->got = (struct bytes)BYTES_EMPTY;
	e->secure = secure_new(options);
	if (bytes_size(&begun) > 0)
		secure_take(e->secure, bytes_front(&begun), bytes_size(&begun), &e->got);
	bytes_free(&begun);
	if (!e->holds)
		send_secured(h, e);
}

/* An end that asks for TLS, or begins with it, gets it where the servers have TLS. False: the first packet isn't whole. */
static bool answer_ssl_request(struct house *h, struct house_end *e)
{
	struct pg_startup s;
	bool is_direct = *bytes_front(&e->got) == SSL3_RT_HANDSHAKE && h->secures_servers;

	if (!is_direct && pg_startup_read(bytes_front(&e->got), bytes_size(&e->got), PACKET_MOST, &s) != PG_OK)
		return false;
	e->begins = false;
	if (!is_direct && s.kind != STARTUP_SSL)
		return true;
	if (!is_direct) {
		house_send(h, e, h->secures_servers ? "S" : "N", 1);
		bytes_consume(&e->got, s.size);
	}
	if (h->secures_servers)
		house_secure_server(h, e, h->secures_servers);
	return true;
}

/* Every server gets the notifications of another. */
static void say_to_others(struct house *h, const struct house_end *from)
{
	struct bytes *notified = &from->backend->notified;

	for (int i = 0; i < h->end_count && bytes_size(notified) > 0; i++) {
		struct house_end *e = &h->ends[i];

		if (e != from && e->backend && e->backend->has_begun && e->fd >= 0 && !e->is_gone)
			house_send(h, e, bytes_front(notified), bytes_size(notified));
	}
	bytes_free(notified);
}

static void answer(struct house *h, struct house_end *e)
{
	struct bytes news, out = BYTES_EMPTY;

	if (e->begins && !e->is_gone && (bytes_size(&e->got) == 0 || !answer_ssl_request(h, e)))
		return;
	if (!e->backend || (h->holds_answers && e->backend->has_begun) || e->fd < 0)
		return;
	news = house_news(e);
	backend_take(e->backend, news.data, bytes_size(&news), &out);
	FUZZ_CHECK(!out.failed);
	if (bytes_size(&out) > 0)
		house_send(h, e, bytes_front(&out), bytes_size(&out));
	say_to_others(h, e);
	/* the backend's end ends the connection */
	if (e->backend->has_ended || e->is_gone)
		house_hang_up(e);
	bytes_free(&out);
}

struct bytes house_news(struct house_end *e)
{
	struct bytes news = { .data = e->got.data ? bytes_front(&e->got) + e->seen : NULL, .end = bytes_size(&e->got) - e->seen };

	e->seen = bytes_size(&e->got);
	return news;
}

/* ---- the turn ---- */

static bool turn(struct house *h, bool ticks)
{
	struct world *w = h->world;
	bool moved, idle;

	relay_begin_turn(w);
	w->loop.clock_is_old = true;
	event_base_loop(h->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	idle = w->loop.clock_is_old;
	world_wake(w);
	world_again(w);
	if (w->logins.handshakes->is_busy)
		handshakes_turn(w, idle);
	if (ticks)
		world_tick(w);
	world_reap(w);
	while (!list_is_empty(&w->pools->dirty)) {
		pools_schedule(w->pools, w->now);
		world_reap(w);
	}
	console_turn(h->console);
	world_reap(w);
	world_check(w);
	moved = accept_servers(h) || world_has_again(w) || w->logins.handshakes->is_busy;
	for (int i = 0; i < h->end_count; i++)
		moved |= receive(h, &h->ends[i]);
	for (int i = 0; i < h->end_count; i++)
		answer(h, &h->ends[i]);
	return moved;
}

void house_settle(struct house *h)
{
	int quiet = 0, turns = 0;

	while (quiet < QUIET_TURNS) {
		quiet = turn(h, false) ? 0 : quiet + 1;
		FUZZ_CHECK(++turns < TURNS_MOST);
	}
}

void house_tick(struct house *h, usec_t time)
{
	sandbox_sleep(time);
	turn(h, true);
	house_settle(h);
}

void house_send_raw(struct house *h, struct house_end *e, const void *data, size_t size)
{
	const uint8_t *at = data;
	int turns = 0;

	while (size > 0 && e->fd >= 0) {
		ssize_t sent = send(e->fd, at, size, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return;
		if (sent < 0) {
			/* pgweir does not read it: give up */
			if (++turns > 100)
				return;
			turn(h, false);
			continue;
		}
		at += sent;
		size -= (size_t)sent;
		turns = 0;
	}
}

static void send_secured(struct house *h, struct house_end *e)
{
	struct bytes wire = BYTES_EMPTY;

	secure_out(e->secure, &wire);
	if (bytes_size(&wire) > 0)
		house_send_raw(h, e, bytes_front(&wire), bytes_size(&wire));
	bytes_free(&wire);
}

void house_send(struct house *h, struct house_end *e, const void *data, size_t size)
{
	if (!e->secure) {
		house_send_raw(h, e, data, size);
		return;
	}
	secure_say(e->secure, data, size);
	send_secured(h, e);
}

void house_feed_raw(struct house *h, struct house_end *e, const void *data, size_t size, enum fuzz_cut cut)
{
	const uint8_t *at = data;
	uint64_t state = 0;

	while (size > 0) {
		size_t piece = fuzz_cut_next(cut, &state, at, size);

		house_send_raw(h, e, at, piece);
		house_settle(h);
		at += piece;
		size -= piece;
	}
}

/*
 * The data is split into records in this way, and then the records in transit, where nothing else may come between them; so there are many messages
 * in one record, which arrives in pieces, and one message in many records, which arrive together or in pieces.
 */
static void feed_secured(struct house *h, struct house_end *e, const uint8_t *at, size_t size, enum fuzz_cut cut)
{
	bool in_pieces = cut == FUZZ_WHOLE || size % 2 == 0;
	struct bytes wire = BYTES_EMPTY;
	uint64_t state = 0;

	while (size > 0) {
		size_t piece = fuzz_cut_next(cut, &state, at, size);

		secure_say(e->secure, at, piece);
		at += piece;
		size -= piece;
	}
	secure_out(e->secure, &wire);
	e->holds = true;
	if (bytes_size(&wire) > 0)
		house_feed_raw(h, e, bytes_front(&wire), bytes_size(&wire), in_pieces ? FUZZ_PIECES : FUZZ_WHOLE);
	e->holds = false;
	bytes_free(&wire);
}

void house_feed(struct house *h, struct house_end *e, const void *data, size_t size, enum fuzz_cut cut)
{
	if (e->secure)
		feed_secured(h, e, data, size, cut);
	else
		house_feed_raw(h, e, data, size, cut);
}

void house_choose_tls(struct house *h, unsigned choice)
{
	static const struct secure_options options[2][2] = {
		{ { .side = SECURE_CONNECTS, .has_alpn = true }, { .side = SECURE_CONNECTS, .has_alpn = true, .version = SECURE_12 } },
		{ { .side = SECURE_ACCEPTS, .has_alpn = true }, { .side = SECURE_ACCEPTS, .has_alpn = true, .version = SECURE_12 } },
	};
	bool is_12 = choice & HOUSE_TLS_12;

	h->secures_clients = choice & HOUSE_TLS_CLIENTS ? &options[0][is_12] : NULL;
	h->secures_servers = choice & HOUSE_TLS_SERVERS ? &options[1][is_12] : NULL;
}

void house_secure(struct house *h, struct house_end *e, const struct secure_options *options)
{
	struct bytes out = BYTES_EMPTY;

	pg_build(&out, 0, PG_SSL_REQUEST, sizeof(PG_SSL_REQUEST) - 1);
	house_send(h, e, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(h);
	FUZZ_CHECK(bytes_size(&e->got) == 1 && *bytes_front(&e->got) == 'S');
	bytes_consume(&e->got, 1);
	e->secure = secure_new(options);
	secure_begin(e->secure);
	send_secured(h, e);
	house_settle(h);
	FUZZ_CHECK(e->secure->is_done);
}
