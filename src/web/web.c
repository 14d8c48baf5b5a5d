/*
 * The HTTP endpoint: its sockets, its connections, and when they work.
 *
 * HTTP must cost queries nothing. All work for a request (reading, parsing, each part of an answer)
 * is done in steps of on_work(), one connection after the other. Steps that took more than
 * WORK_BURST are followed by a pause, so that they use at most 1 / WORK_SHARE of the time, and a
 * flood of requests delays its own answers only. An event of a connection does nothing but queue
 * it. New connections are bounded per tick and in sum, a request has a size, and a slow client is
 * closed after http_timeout, whether it is slow to send or to take bytes. An answer is made in
 * parts: the next part is made when the socket has accepted the previous one.
 *
 * Health checks must not wait for other requests: a liveness probe that is not answered restarts
 * pgweir. WEB_SPARES_MOST connections beyond http_max_connections are accepted, and get answers of
 * health checks only, which need neither a password nor much work. Any other request on such a
 * spare connection waits until one of the http_max_connections places is free. Example: one address
 * holds all places with wrong passwords, whose refusals are delayed. GET /healthz of the same
 * address is answered on a spare connection. For a client of an address with fewer connections, a
 * delayed refusal of that address makes room.
 *
 * Invariant: a connection is on web->ready exactly while it has a step to do. The socket is read
 * only in WEB_READING and WEB_CLOSING. web->spares connections have is_spare; only those are ever
 * in WEB_WAITING.
 */
#include "web/connection.h"

#include "auth/client_address.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/listen.h"
#include "net/proxy_header.h"
#include "web/web_sockets.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORK_SHARE 20			/* 5 % of the time */
#define WORK_BURST 2000			/* microseconds of work without a pause */
/* microseconds that a step counts as at least: its events and its turn take time, too */
#define WORK_LEAST 100
#define WORK_PAUSE_MOST USEC
#define TICK_MILLISECONDS 100
/* microseconds of work that a step of a TLS handshake counts as */
#define HANDSHAKE_COST 2000
#define ACCEPTS_MOST 32			/* new connections per tick */
/* from its last progress on, a connection is not closed for another one */
#define GRACE (USEC / 10)
/* delayed refusals that are compared, to find the one to close */
#define REFUSED_COMPARED 8
#define RETRY_MOST (10 * USEC)		/* for the sockets of the process that this one replaces */
#define IN_MOST (HTTP_HEAD_MOST + HTTP_BODY_MOST)

/* ---- work ---- */

static void on_work(evutil_socket_t fd, short what, void *arg);

static void plan_work(struct web *web)
{
	usec_t wait = web->work_at - clock_monotonic();
	struct timeval delay = { 0 };

	if (list_is_empty(&web->ready))
		return;
	if (wait > 0)
		delay = (struct timeval){ .tv_sec = wait / USEC, .tv_usec = wait % USEC };
	/* without a pause, in the next turn; without memory for the timer, in this turn */
	if (event_add(&web->work, &delay) != 0)
		event_active(&web->work, EV_TIMEOUT, 0);
}

static void connection_go_on(struct connection *c)
{
	struct web *web = c->web;
	bool was_idle = list_is_empty(&web->ready);

	if (!list_is_empty(&c->ready))
		return;
	list_append(&web->ready, &c->ready);
	if (was_idle)
		plan_work(web);
}

/* ---- connections ---- */

static size_t connections_most(const struct web *web)
{
	return (size_t)web->world->conf->settings.http_max_connections;
}

static bool has_place(const struct web *web)
{
	return web->count - web->spares < connections_most(web);
}

/* Whether a connection can be closed for another one: it has had the time to send a request, and no
   request waits for its turn. */
static bool is_idle(const struct connection *c)
{
	if (c->peer.world->now - c->since < GRACE)
		return false;
	return c->phase == WEB_CLOSING || c->phase == WEB_WAITING ||
	       ((c->phase == WEB_READING || c->phase == WEB_SECURING ||
		 c->phase == WEB_HEADER) &&
		list_is_empty(&c->ready));
}

/* Gives free places to spare connections with requests that need one. */
static void fill_places(struct web *web)
{
	LIST_EACH(node, &web->connections) {
		struct connection *c = LIST_OBJECT(node, struct connection, node);

		if (!has_place(web))
			return;
		if (c->phase != WEB_WAITING)
			continue;
		c->is_spare = false;
		web->spares--;
		c->phase = WEB_READING;
		connection_go_on(c);
	}
}

/* New connections wait in the queue of the kernel while all connections are being answered, and
   after a burst until the next tick. */
static void update_accepting(struct web *web)
{
	bool has_room = has_place(web) || web->spares < WEB_SPARES_MOST;

	LIST_EACH(node, &web->connections)
		has_room = has_room || is_idle(LIST_OBJECT(node, struct connection, node));
	web_sockets_set_accepting(web, has_room && web->accepts_left > 0);
}

/* The connection has made progress. */
static void touch(struct connection *c)
{
	c->since = c->peer.world->now;
	list_remove(&c->node);
	list_append(&c->web->connections, &c->node);
}

static void drop_answer(struct web_answer *a)
{
	if (a->drop)
		a->drop(a->state);
	bytes_free(&a->body);
	*a = (struct web_answer){ .status = 0 };
}

static void connection_close(struct connection *c)
{
	struct web *web = c->web;
	bool was_spare = c->is_spare;

	derivation_leave(&c->derivation);
	secret_free(&c->password);
	drop_answer(&c->answer);
	bytes_wipe(&c->in);
	mem_wipe(&c->request, sizeof(c->request));
	list_remove(&c->node);
	list_remove(&c->ready);
	stream_close(&c->peer.stream);
	mem_free(c);
	web->count--;
	web->spares -= was_spare;
	fill_places(web);
	update_accepting(web);
}

static void on_web_readable(struct stream *stream)
{
	struct connection *c = LIST_OBJECT(stream, struct connection, peer.stream);

	world_wake(c->peer.world);
	stream_set_reading(stream, false);
	connection_go_on(c);
}

static void on_web_drained(struct stream *stream)
{
	struct connection *c = LIST_OBJECT(stream, struct connection, peer.stream);

	world_wake(c->peer.world);
	touch(c);
	connection_go_on(c);
}

static void on_web_secured(struct stream *stream, const char *error)
{
	struct connection *c = LIST_OBJECT(stream, struct connection, peer.stream);

	world_wake(c->peer.world);
	if (error) {
		log_debug("HTTP: TLS: %s", error);
		connection_close(c);
		return;
	}
	c->phase = WEB_READING;
	stream_set_reading(stream, true);
}

/* A step of a handshake may take a millisecond: it waits for its turn. */
static bool request_step(struct stream *stream)
{
	struct connection *c = LIST_OBJECT(stream, struct connection, peer.stream);

	world_wake(c->peer.world);
	connection_go_on(c);
	return false;
}

static const struct stream_ops stream_ops = {
	.on_readable = on_web_readable,
	.on_drained = on_web_drained,
	.on_secured = on_web_secured,
	.request_step = request_step,
};

/* Closes the connection that has waited longest for a request, or for its client to close.
   `is_for_new`: connections may be closed while they wait for a place, too. False: all are being
   answered. */
static bool web_make_room(struct web *web, bool is_for_new)
{
	LIST_EACH_SAFE(node, &web->connections) {
		struct connection *c = LIST_OBJECT(node, struct connection, node);

		if (is_idle(c) && (is_for_new || c->phase != WEB_WAITING)) {
			connection_close(c);
			return true;
		}
	}
	return false;
}

static size_t connections_of(const struct web *web, const struct verify_source *source)
{
	size_t count = 0;

	LIST_EACH(node, &web->connections)
		count += verify_source_same_group(
			source, &LIST_OBJECT(node, struct connection, node)->source);
	return count;
}

/* Closes a connection whose refusal is delayed, for a client of an address with fewer connections.
   While a client guesses passwords, it displaces no refusal of its own, which would shorten the
   delay. */
static void displace_refused(struct web *web, const struct verify_source *source)
{
	size_t own = connections_of(web, source);
	int left = REFUSED_COMPARED;

	LIST_EACH(node, &web->connections) {
		struct connection *c = LIST_OBJECT(node, struct connection, node);

		if (c->phase != WEB_REFUSING)
			continue;
		if (connections_of(web, &c->source) > own + 1) {
			connection_close(c);
			return;
		}
		if (--left == 0)
			return;
	}
}

/* The client begins with a TLS handshake or a request. The connection may close. */
static void connection_begin(struct connection *c)
{
	c->phase = c->is_secure ? WEB_SECURING : WEB_READING;
	if (c->is_secure && !stream_secure_accept(&c->peer.stream, c->web->tls, NULL, 0))
		connection_close(c);
}

static void on_accepted(void *context, int fd, const struct address *remote,
			struct listen_socket *from)
{
	struct web *web = context;
	struct world *w = web->world;
	struct verify_source source;
	struct brief_address brief;
	struct connection *c;

	world_wake(w);
	web->accepts_left--;
	brief_address_of(&brief, remote, 0);
	if (listen_socket_is_unix(from)) {
		brief.family = AF_UNIX;
		if (!address_unix_peer(fd, &brief.u.peer.pid, &brief.u.peer.uid))
			brief.u.peer.uid = UINT32_MAX;
	}
	source = brief_address_source(&brief);
	if (!has_place(web) && !web_make_room(web, true))
		displace_refused(web, &source);
	c = has_place(web) || web->spares < WEB_SPARES_MOST ? mem_try(sizeof(*c)) : NULL;
	if (!c || !stream_open(&c->peer.stream, w->base, fd, &stream_ops)) {
		mem_free(c);
		close(fd);
		update_accepting(web);
		return;
	}
	c->peer.world = w;
	c->peer.remote = brief;
	c->source = source;
	c->is_spare = !has_place(web);
	web->spares += c->is_spare;
	c->web = web;
	c->since = w->now;
	derivation_wait_init(&c->derivation, &c->peer);
	list_init(&c->ready);
	list_init(&c->node);
	list_append(&web->connections, &c->node);
	web->count++;
	c->is_secure = web->tls && !listen_socket_is_unix(from);
	c->phase = WEB_HEADER;
	if (!world_expects_header(w, &brief))
		connection_begin(c);
	update_accepting(web);
}

/* ---- answers ---- */

void connection_answer(struct connection *c, int status, const char *type)
{
	drop_answer(&c->answer);
	c->answer.status = status;
	c->answer.type = type;
	c->phase = WEB_ANSWERING;
	touch(c);
	connection_go_on(c);
}

void connection_tell(struct connection *c, int status, const char *text)
{
	connection_answer(c, status, "text/plain; charset=utf-8");
	bytes_append_text(&c->answer.body, text);
	bytes_append_text(&c->answer.body, "\n");
}

static void write_head(const struct connection *c, struct bytes *out)
{
	const time_t now = (time_t)(c->peer.world->now_wall / USEC);
	const struct web_answer *a = &c->answer;
	struct tm parts;
	char date[40];

	if (!gmtime_r(&now, &parts) ||
	    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &parts) == 0)
		date[0] = '\0';
	bytes_append_format(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n%s", a->status,
			    http_reason(a->status), date, a->type, a->fields);
	if (a->is_chunked)
		bytes_append_text(out, "Transfer-Encoding: chunked\r\n");
	else if (a->is_whole)
		bytes_append_format(out, "Content-Length: %zu\r\n", bytes_size(&a->body));
	bytes_append_format(out,
			    "Cache-Control: no-store\r\nX-Content-Type-Options: "
			    "nosniff\r\nConnection: %s\r\n\r\n",
			    c->request.keeps_alive ? "keep-alive" : "close");
}

/* Sends the next part. False: the connection is broken. */
static bool send_part(struct connection *c)
{
	struct web_answer *a = &c->answer;
	bool has_body = c->request.method != HTTP_METHOD_HEAD;
	struct bytes out = BYTES_EMPTY;
	size_t size;
	bool is_sent;

	if (!a->more)
		a->is_whole = true;
	else if (has_body || !a->has_head)
		a->more(c);
	size = bytes_size(&a->body);
	if (!a->has_head) {
		a->is_chunked = !a->is_whole && !c->request.is_old;
		c->request.keeps_alive = c->request.keeps_alive && c->web->socket_count > 0 &&
					 (a->is_whole || a->is_chunked);
		write_head(c, &out);
		a->has_head = true;
	}
	a->is_whole |= !has_body;
	if (has_body && size > 0) {
		if (a->is_chunked)
			bytes_append_format(&out, "%zx\r\n", size);
		bytes_append(&out, bytes_front(&a->body), size);
		if (a->is_chunked)
			bytes_append_text(&out, "\r\n");
	}
	if (has_body && a->is_chunked && a->is_whole)
		bytes_append_text(&out, "0\r\n\r\n");
	is_sent = !out.failed && !a->body.failed &&
		  (bytes_size(&out) == 0 ||
		   stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out)));
	bytes_consume(&a->body, size);
	bytes_free(&out);
	return is_sent;
}

/* The answer is sent: waits for the next request, or for the client to close. */
static void finish_answer(struct connection *c)
{
	touch(c);
	list_remove(&c->ready);
	drop_answer(&c->answer);
	bytes_consume(&c->in, c->request.size);
	mem_wipe(c->request.authorization, sizeof(c->request.authorization));
	c->phase = c->request.keeps_alive ? WEB_READING : WEB_CLOSING;
	if (c->phase == WEB_CLOSING && c->peer.stream.ssl) {
		connection_close(c);
		return;
	}
	if (c->phase == WEB_CLOSING) {
		/* input that is not read would reset the connection before the client has read the
		   answer */
		shutdown(c->peer.stream.fd, SHUT_WR);
		bytes_wipe(&c->in);
	}
	if (bytes_size(&c->in) > 0)
		connection_go_on(c);
	else
		stream_set_reading(&c->peer.stream, true);
	update_accepting(c->web);
}

/* Makes and sends the next part of the answer, if the socket has accepted the previous part. */
static void step_answer(struct connection *c)
{
	if (stream_unsent(&c->peer.stream) > 0)
		return;
	if (!c->answer.is_whole && !send_part(c)) {
		connection_close(c);
		return;
	}
	/* otherwise on_web_drained() continues */
	if (stream_unsent(&c->peer.stream) > 0)
		return;
	if (c->answer.is_whole)
		finish_answer(c);
	else
		connection_go_on(c);
}

/* ---- requests ---- */

/* Reads and discards until the client closes. */
static void step_closing(struct connection *c)
{
	ssize_t got = stream_read(&c->peer.stream, c->peer.world->buffer, IN_MOST);

	if (got < 0)
		connection_close(c);
	else
		stream_set_reading(&c->peer.stream, true);
}

/* Reads the header of a load balancer, and no byte beyond it, because a TLS handshake may follow.
   Its client is the client of the connection from then on. */
static void step_header(struct connection *c)
{
	struct bytes *in = &c->in;
	struct proxy_header header = { .more = 1 };
	enum proxy_verdict verdict = PROXY_MORE;
	size_t wanted;
	ssize_t got;

	for (;;) {
		if (bytes_size(in) > 0)
			verdict = proxy_header_read(bytes_front(in), bytes_size(in), &header);
		wanted = verdict == PROXY_OK ? header.size - bytes_size(in) : header.more;
		if (verdict == PROXY_BAD || wanted == 0)
			break;
		got = stream_read(&c->peer.stream, c->peer.world->buffer,
				  wanted < IN_MOST ? wanted : IN_MOST);
		if (got == 0) {
			stream_set_reading(&c->peer.stream, true);
			return;
		}
		if (got > 0)
			bytes_append(in, c->peer.world->buffer, (size_t)got);
		if (got < 0 || in->failed) {
			connection_close(c);
			return;
		}
	}
	if (verdict == PROXY_BAD) {
		log_debug("HTTP: invalid PROXY protocol header: %s", header.fault);
		connection_close(c);
		return;
	}
	bytes_free(in);
	if (header.has_client)
		c->peer.remote = header.client;
	c->source = brief_address_source(&c->peer.remote);
	stream_set_reading(&c->peer.stream, true);
	connection_begin(c);
}

static enum http_verdict read_request(struct connection *c, int *status)
{
	return bytes_size(&c->in) > 0 ? http_read((const char *)bytes_front(&c->in),
						  bytes_size(&c->in), &c->request, status)
				      : HTTP_READ_MORE;
}

/* The request of a spare connection waits for a place: closes an idle connection for it. */
static void web_make_place(struct connection *c)
{
	struct web *web = c->web;

	touch(c);
	while (!has_place(web) && web_make_room(web, false))
		;
	fill_places(web);
}

/* Returns whether an answer has begun. */
static bool step_reading(struct connection *c)
{
	struct world *w = c->peer.world;
	int status;
	enum http_verdict verdict = read_request(c, &status);
	ssize_t got = 0;

	if (verdict == HTTP_READ_MORE) {
		got = stream_read(&c->peer.stream, w->buffer, IN_MOST - bytes_size(&c->in));
		/* the time for a request begins with its first byte */
		if (got > 0 && bytes_size(&c->in) == 0)
			touch(c);
		if (got > 0)
			bytes_append(&c->in, w->buffer, (size_t)got);
		verdict = read_request(c, &status);
	}
	if (c->in.failed || (verdict == HTTP_READ_MORE && got < 0)) {
		connection_close(c);
		return false;
	}
	if (verdict == HTTP_READ_MORE) {
		stream_set_reading(&c->peer.stream, true);
	} else if (verdict == HTTP_READ_BAD) {
		c->request.keeps_alive = false;
		c->request.size = bytes_size(&c->in);
		connection_tell(c, status, http_reason(status));
	} else {
		connection_route(c);
		if (c->phase == WEB_WAITING)
			web_make_place(c);
	}
	return c->phase == WEB_ANSWERING;
}

static void web_step(struct connection *c)
{
	switch (c->phase) {
	case WEB_SECURING:
		/* the step is made from the event loop, after this one */
		c->web->work_at += HANDSHAKE_COST * WORK_SHARE;
		stream_secure_go_on(&c->peer.stream);
		return;
	case WEB_HEADER:
		step_header(c);
		return;
	case WEB_READING:
		if (step_reading(c))
			step_answer(c);
		return;
	case WEB_ANSWERING:
		step_answer(c);
		return;
	case WEB_CLOSING:
		step_closing(c);
		return;
	case WEB_WAITING:
	case WEB_ASKING:
	case WEB_REFUSING:
		return;
	}
}

static void on_work(evutil_socket_t fd, short what, void *arg)
{
	struct web *web = arg;
	struct list *node = list_first(&web->ready);
	usec_t began, spent;

	(void)fd, (void)what;
	if (!node)
		return;
	world_wake(web->world);
	began = clock_monotonic();
	list_remove(node);
	web_step(LIST_OBJECT(node, struct connection, ready));
	spent = clock_monotonic() - began;
	spent = (spent > WORK_LEAST ? spent : WORK_LEAST) * WORK_SHARE;
	if (web->work_at < began - WORK_BURST * WORK_SHARE)
		web->work_at = began - WORK_BURST * WORK_SHARE;
	web->work_at += spent < WORK_PAUSE_MOST ? spent : WORK_PAUSE_MOST;
	plan_work(web);
}

/* ---- sockets ---- */

bool web_prepare(struct web *web, const struct conf *conf, struct conf_problems *problems)
{
	ASSERT(!web->next);
	/* the sockets belong to the other process now */
	return web->is_leaving || web_sockets_prepare(web, conf, on_accepted, problems);
}

static void on_web_tick(evutil_socket_t fd, short what, void *arg);

void web_decide(struct web *web, bool is_used)
{
	static const struct timeval every = { .tv_usec = TICK_MILLISECONDS * 1000 };

	web_sockets_exchange(web, is_used);
	if (!is_used)
		return;
	/* without sockets the endpoint is off; answers that have begun are completed */
	LIST_EACH_SAFE(node, &web->connections) {
		struct connection *c = LIST_OBJECT(node, struct connection, node);

		if (web->socket_count == 0 && c->phase == WEB_READING && bytes_size(&c->in) == 0)
			connection_close(c);
	}
	if (web->socket_count > 0 || web->count > 0 || web->retry_until > 0) {
		if (!event_pending(&web->tick, EV_TIMEOUT, NULL) &&
		    event_add(&web->tick, &every) != 0)
			log_warning("HTTP: out of memory");
	} else {
		histories_free(&web->histories, web->world->pools);
		event_del(&web->tick);
	}
}

/* ---- time ---- */

static void retry(struct web *web)
{
	struct conf_problems problems = { .count = 0 };
	bool is_last = web->world->now >= web->retry_until;

	if (is_last || web_prepare(web, web->world->conf, &problems)) {
		web->retry_until = 0;
		if (!is_last)
			web_decide(web, true);
	}
	if (is_last)
		log_warning("HTTP: the sockets of the process that was replaced are still in use: "
			    "RELOAD tries again");
	conf_problems_free(&problems);
}

static void on_web_tick(evutil_socket_t fd, short what, void *arg)
{
	struct web *web = arg;
	struct world *w = web->world;

	(void)fd, (void)what;
	world_wake(w);
	if (web->retry_until > 0)
		retry(web);
	/* another process has replaced this one and opens the same sockets */
	if (w->successor && !web->is_leaving) {
		web->is_leaving = true;
		web_decide(web, true);
	}
	if (!web->is_leaving && w->now >= web->histories.due)
		histories_add(&web->histories, w->pools, w->now, w->now_wall);
	LIST_EACH_SAFE(node, &web->connections) {
		struct connection *c = LIST_OBJECT(node, struct connection, node);

		if (c->phase == WEB_REFUSING
			    ? w->now >= c->since
			    : w->now - c->since >= w->conf->settings.http_timeout) {
			if (c->phase == WEB_REFUSING)
				connection_route(c);
			else
				connection_close(c);
		}
	}
	/* spare connections, and after a change of the limit */
	while (web->count > connections_most(web) && web_make_room(web, false))
		;
	fill_places(web);
	web->accepts_left = ACCEPTS_MOST;
	update_accepting(web);
}

/* ---- life ---- */

void web_free(struct web **place)
{
	struct web *web = *place;

	*place = NULL;
	if (!web)
		return;
	web->accepts_left = 0;
	while (!list_is_empty(&web->connections))
		connection_close(LIST_OBJECT(web->connections.next, struct connection, node));
	ASSERT(!web->next);
	web_sockets_close(web);
	event_del(&web->work);
	event_del(&web->tick);
	histories_free(&web->histories, web->world->pools);
	mem_free(web);
}

struct web *web_open(struct world *world, const char *version, web_set *set, bool replaces,
		     struct conf_problems *problems)
{
	struct web *web = mem_try(sizeof(*web));
	struct conf_problems kept = { .count = 0 };
	bool is_ready;

	if (!web) {
		conf_problem_add(problems, false, NULL, 0, "HTTP: out of memory");
		return NULL;
	}
	web->world = world;
	web->version = version;
	web->set = set;
	web->started_at = world->now_wall;
	web->accepts_left = ACCEPTS_MOST;
	list_init(&web->connections);
	list_init(&web->ready);
	event_assign(&web->work, world->base, -1, 0, on_work, web);
	event_assign(&web->tick, world->base, -1, EV_PERSIST, on_web_tick, web);
	is_ready = web_prepare(web, world->conf, replaces ? &kept : problems);
	conf_problems_free(&kept);
	if (!is_ready && !replaces) {
		web_free(&web);
		return NULL;
	}
	web->retry_until = is_ready ? 0 : world->now + RETRY_MOST;
	web_decide(web, true);
	return web;
}
