/*
 * The client that asks Patroni's REST API: GET /cluster over HTTP/1.1, by the client of libevent's
 * evhttp. Its server is not used in pgweir, for reasons in web/http.c. The client of libevent 2.1
 * has dangers, too; each has an answer here:
 *
 *	name resolution		evhttp resolves a name with a blocking getaddrinfo(), so it gets the
 *				address that our resolver has found
 *	timeouts		they count from the last byte, so a slow server would never end: one
 *				deadline of our own for the whole answer
 *	size of headers, body	without limit by default: HEADERS_MOST, PATRONI_BODY_MOST
 *	size of a chunk's line	without limit, and so are bytes that come during the request: a
 *				high-water mark stops reading
 *	100 Continue		repeated without end, and each keeps its headers: every status but
 *				200 ends the answer after its headers
 *	redirects		not followed, because they are such a status
 *	callbacks		the stack above them uses connection and request: they only note the
 *				result, and on_patroni_timer() takes it
 *	ownership		evhttp frees a request in some failures and in others not: the
 *				request is our own (evhttp_request_own())
 *	descriptors		not close-on-exec: set here
 *	no memory		evhttp_request_new() and evhttp_connection_base_new() use a NULL
 *				pointer if an allocation in their middle fails: has_memory() tries a
 *				larger block before. Later failures lose bytes, and then the
 *				deadline or the JSON parser ends the answer.
 *	messages		on standard error by default: they go to the log
 *
 * With https, the bufferevent that evhttp reads from is libevent's for OpenSSL, with an object of
 * net/tls.h that verifies certificate and name. A user and a password (HTTP basic authentication)
 * go only where no machine in between can read them: over https, and to addresses of loopback.
 *
 * Each question has its own connection: Patroni answers in HTTP/1.0 and closes it anyway, and a new
 * one proves that the host accepts connections.
 *
 * Invariant: the connection, the request and the look-up exist only in the states RESOLVES, ASKS
 * and ANSWERED; the timer is always pending or active.
 */
#include "patroni/patroni.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/url.h"
#include "net/dns.h"
#include "net/tls.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define HEADERS_MOST ((ev_ssize_t)16 * 1024)
#define LEAST_GAP (USEC / 10)		/* between the beginnings of two questions */
#define TIMEOUT_DEFAULT (2 * USEC)
/* after so many rounds without an answer the view is unknown */
#define FAILURES_MOST 2

struct patroni_client {
	struct patroni *source;
	struct patroni_config config;
	struct conf_url urls[URL_MOST];
	unsigned url_count;
	unsigned current;		/* the URL that is asked first */
	unsigned tried;			/* URLs that failed in this round */
	int failures;			/* rounds that failed since the last answer */
	enum { WAITS, RESOLVES, ASKS, ANSWERED } state;
	bool is_wanted;			/* patroni_ask_now() during a question */
	/* ANSWERED: the request has the whole body of an answer with status 200 */
	bool is_complete;
	usec_t round_at, asked_at, due;	/* due: of the timer */
	char failure[256];		/* of this URL */
	char *ca_file;			/* NULL: the system's */
	struct secret *authorization;	/* the value of the header; NULL: none */
	struct tls_context *tls;	/* NULL: not made yet */
	/* of the question, a reference; NULL: not https, or no connection */
	SSL *ssl;
	struct event *timer;
	struct dns_request *lookup;
	struct evhttp_connection *connection;
	struct evhttp_request *request;
	struct patroni_view next;	/* the answer that is read */
};

static void set_timer(struct patroni_client *c, usec_t now, usec_t due)
{
	usec_t delay = due > now ? due - now : 0;
	struct timeval tv = { .tv_sec = delay / USEC, .tv_usec = delay % USEC };

	c->due = due;
	/* Without memory for the timer, on_patroni_timer() tries again in the next turn. */
	if (event_add(c->timer, &tv) != 0)
		event_active(c->timer, EV_TIMEOUT, 0);
}

/* Ends the question to the current URL. */
static void end_question(struct patroni_client *c)
{
	dns_cancel(&c->lookup);
	if (c->connection)
		evhttp_connection_free(c->connection);
	if (c->request)
		evhttp_request_free(c->request);
	SSL_free(c->ssl);
	c->connection = NULL;
	c->request = NULL;
	c->ssl = NULL;
	event_del(c->timer);
}

/* ---- callbacks of evhttp: they note the result ---- */

static void note_end(struct patroni_client *c)
{
	c->state = ANSWERED;
	event_active(c->timer, EV_TIMEOUT, 0);
}

static int on_headers(struct evhttp_request *request, void *context)
{
	struct patroni_client *c = context;
	int status = evhttp_request_get_response_code(request);

	if (status == HTTP_OK)
		return 0;
	snprintf(c->failure, sizeof(c->failure), "answers with HTTP status %d", status);
	return -1;
}

/* The certificate of the server was refused. */
static void note_certificate(struct patroni_client *c)
{
	long result = c->ssl ? SSL_get_verify_result(c->ssl) : X509_V_OK;

	if (result != X509_V_OK)
		snprintf(c->failure, sizeof(c->failure), "has a certificate that is refused: %s",
			 X509_verify_cert_error_string(result));
}

static void on_error(enum evhttp_request_error error, void *context)
{
	static const char *const texts[] = {
		[EVREQ_HTTP_TIMEOUT] = "does not answer in time",
		[EVREQ_HTTP_EOF] =
			"cannot be reached, or closed the connection before the end of its answer",
		[EVREQ_HTTP_INVALID_HEADER] =
			"answers nonsense: the headers are too long, or not HTTP",
		[EVREQ_HTTP_BUFFER_ERROR] = "cannot be reached",
		[EVREQ_HTTP_DATA_TOO_LONG] = "answers nonsense: the body is too long, or not HTTP",
	};
	struct patroni_client *c = context;

	note_certificate(c);
	if (!*c->failure && (size_t)error < sizeof(texts) / sizeof(texts[0]) && texts[error])
		text_copy(c->failure, sizeof(c->failure), texts[error]);
}

/* `request` is NULL after a failure, or a request without a status if the connection was
   refused. */
static void on_patroni_answer(struct evhttp_request *request, void *context)
{
	struct patroni_client *c = context;

	note_certificate(c);
	c->is_complete = request && evhttp_request_get_response_code(request) == HTTP_OK &&
			 !*c->failure;
	if (!c->is_complete && !*c->failure)
		text_copy(c->failure, sizeof(c->failure), "cannot be reached");
	note_end(c);
}

/* ---- one question ---- */

static bool has_memory(void)
{
	struct evbuffer *probe = evbuffer_new();
	bool has = probe && evbuffer_expand(probe, 8192) == 0;

	if (probe)
		evbuffer_free(probe);
	return has;
}

/* Makes the stream of a connection with https. NULL: c->failure says why, or there is no memory. */
static struct bufferevent *make_secure(struct patroni_client *c)
{
	struct tls_config config = { .ca_file = c->ca_file, .verify_peer = true };
	struct bufferevent *stream;
	char why[160];

	if (!c->tls)
		c->tls = tls_context_new(&config, NULL, why, sizeof(why));
	if (!c->tls) {
		snprintf(c->failure, sizeof(c->failure), "is not asked: %s", why);
		return NULL;
	}
	c->ssl = tls_http_new(c->tls, c->urls[c->current].host);
	/* Without memory for all of its parts the library would free a stream before it has begun
	   it. OpenSSL has taken memory since the last look. */
	if (!c->ssl || !has_memory() || !SSL_up_ref(c->ssl))
		return NULL;
	/* it frees its reference also if it fails */
	stream = bufferevent_openssl_socket_new(c->config.base, -1, c->ssl,
						BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
	if (stream)
		bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
	return stream;
}

/* Whether no machine between pgweir and the address can read the traffic, so that a password may be
   sent without TLS. */
static bool is_private(const struct conf_url *url, const struct address *address)
{
	switch (address->u.any.sa_family) {
	case AF_INET:
		return url->is_secure || ntohl(address->u.v4.sin_addr.s_addr) >> 24 == 127;
	case AF_INET6:
		return url->is_secure || IN6_IS_ADDR_LOOPBACK(&address->u.v6.sin6_addr);
	default:
		return false;
	}
}

/* Begins the request at an address. False: no memory, unless c->failure says why. */
static bool send_request(struct patroni_client *c, const struct address *address)
{
	const struct conf_url *url = &c->urls[c->current];
	struct evkeyvalq *headers;
	struct bufferevent *stream;
	char ip[NI_MAXHOST];

	if (!has_memory() || getnameinfo(&address->u.any, address->size, ip, sizeof(ip), NULL, 0,
					 NI_NUMERICHOST) != 0)
		return false;
	stream = url->is_secure ? make_secure(c) : NULL;
	if (url->is_secure && !stream)
		return false;
	c->connection = evhttp_connection_base_bufferevent_new(c->config.base, NULL, stream, ip,
							       url->port);
	if (!c->connection && stream)
		bufferevent_free(stream);
	c->request = evhttp_request_new(on_patroni_answer, c);
	if (!c->connection || !c->request)
		return false;
	evhttp_request_own(c->request);
	evhttp_request_set_header_cb(c->request, on_headers);
	evhttp_request_set_error_cb(c->request, on_error);
	evhttp_connection_set_max_headers_size(c->connection, HEADERS_MOST);
	evhttp_connection_set_max_body_size(c->connection, PATRONI_BODY_MOST);
	stream = evhttp_connection_get_bufferevent(c->connection);
	bufferevent_setwatermark(stream, EV_READ, 0, PATRONI_BODY_MOST + HEADERS_MOST);
	headers = evhttp_request_get_output_headers(c->request);
	if (evhttp_add_header(headers, "Host", strstr(url->text, "//") + 2) != 0 ||
	    evhttp_add_header(headers, "Connection", "close") != 0 ||
	    (c->authorization && is_private(url, address) &&
	     evhttp_add_header(headers, "Authorization", c->authorization->bytes) != 0) ||
	    evhttp_make_request(c->connection, c->request, EVHTTP_REQ_GET, "/cluster") != 0)
		return false;
	if (bufferevent_getfd(stream) >= 0)
		fcntl(bufferevent_getfd(stream), F_SETFD, FD_CLOEXEC);
	return true;
}

static void on_resolved(void *context, const struct dns_answer *answer)
{
	struct patroni_client *c = context;

	c->lookup = NULL;
	c->is_complete = false;
	if (answer->count == 0) {
		snprintf(c->failure, sizeof(c->failure),
			 "cannot be reached: the name does not resolve: %s", answer->error);
		note_end(c);
		return;
	}
	c->state = ASKS;
	if (send_request(c, dns_answer_at(answer, 0)))
		return;
	if (!*c->failure)
		text_copy(c->failure, sizeof(c->failure), "is not asked: no memory");
	note_end(c);
}

/* Asks the current URL. */
static void patroni_ask(struct patroni_client *c)
{
	usec_t now = clock_monotonic();

	c->asked_at = now;
	c->state = RESOLVES;
	c->is_complete = false;
	c->failure[0] = '\0';
	set_timer(c, now, now + c->config.timeout);
	c->lookup = dns_lookup(c->config.dns, c->urls[c->current].host, on_resolved, c);
	if (c->lookup)
		return;
	text_copy(c->failure, sizeof(c->failure), "is not asked: no memory");
	note_end(c);
}

/* ---- rounds ---- */

static bool is_same_member(const struct patroni_member *a, const struct patroni_member *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->host, b->host) == 0 &&
	       a->port == b->port && a->role == b->role && a->is_running == b->is_running &&
	       a->no_load_balance == b->no_load_balance && a->timeline == b->timeline;
}

static bool is_same_view(const struct patroni_view *a, const struct patroni_view *b)
{
	bool is_same = a->is_known == b->is_known && a->count == b->count &&
		       a->leader == b->leader && a->is_paused == b->is_paused &&
		       a->has_switchover == b->has_switchover;

	for (unsigned i = 0; is_same && i < a->count; i++)
		is_same = is_same_member(&a->members[i], &b->members[i]);
	return is_same;
}

/* The round is over: the next one begins after the period, or earlier after a doubt or a first
   failure. */
static void patroni_end_round(struct patroni_client *c)
{
	usec_t gap = c->source->period > LEAST_GAP ? c->source->period : LEAST_GAP;
	bool is_hasty = c->is_wanted || (c->failures > 0 && c->failures < FAILURES_MOST);

	c->is_wanted = false;
	c->state = WAITS;
	set_timer(c, clock_monotonic(), c->round_at + (is_hasty ? LEAST_GAP : gap));
}

/* The question to the current URL has failed. The first round without an answer reports each URL,
   later rounds only the last one. */
static void patroni_fail(struct patroni_client *c)
{
	struct patroni *p = c->source;
	bool was_known = p->view.is_known, is_last = ++c->tried >= c->url_count, is_change = false;
	char why[PATRONI_WHY_SIZE];

	end_question(c);
	snprintf(why, sizeof(why), "Patroni at %s %s", c->urls[c->current].text, c->failure);
	if (is_last || c->failures == 0) {
		is_change = strcmp(p->why, why) != 0;
		text_copy(p->why, sizeof(p->why), why);
	}
	c->current = (c->current + 1) % c->url_count;
	if (!is_last) {
		patroni_ask(c);
	} else {
		if (c->failures < FAILURES_MOST)
			c->failures++;
		p->view.is_known = was_known && c->failures < FAILURES_MOST;
		patroni_end_round(c);
	}
	if (is_change || was_known != p->view.is_known)
		c->config.changed(c->config.context, p);
}

/* The request has ended: reads the answer, if there is one. */
static void patroni_take_answer(struct patroni_client *c)
{
	struct patroni *p = c->source;
	bool is_change = *p->why;
	struct evbuffer *body;
	char why[128];

	if (!c->is_complete) {
		patroni_fail(c);
		return;
	}
	body = evhttp_request_get_input_buffer(c->request);
	if (!patroni_view_read((const char *)evbuffer_pullup(body, -1), evbuffer_get_length(body),
			       &c->next, why, sizeof(why))) {
		snprintf(c->failure, sizeof(c->failure), "answers nonsense: %s", why);
		patroni_fail(c);
		return;
	}
	end_question(c);
	c->next.asked_at = c->asked_at;
	c->failures = 0;
	is_change |= !is_same_view(&p->view, &c->next);
	p->view = c->next;
	p->why[0] = '\0';
	patroni_end_round(c);
	if (is_change)
		c->config.changed(c->config.context, p);
}

static void on_patroni_timer(evutil_socket_t fd, short events, void *context)
{
	struct patroni_client *c = context;
	usec_t now = clock_monotonic();

	(void)fd;
	(void)events;
	if (c->state != ANSWERED && now < c->due) {
		set_timer(c, now, c->due);
		return;
	}
	switch (c->state) {
	case WAITS:
		c->tried = 0;
		c->round_at = now;
		patroni_ask(c);
		return;
	case RESOLVES:
	case ASKS:
		snprintf(c->failure, sizeof(c->failure), "does not answer within %" PRId64 " ms",
			 c->config.timeout / 1000);
		patroni_fail(c);
		return;
	case ANSWERED:
		patroni_take_answer(c);
		return;
	}
}

/* ---- the source ---- */

static void log_of_libevent(int severity, const char *text)
{
	if (severity != EVENT_LOG_DEBUG)
		log_warning("libevent: %s", text);
}

/* Reads the list of URLs. False: one is wrong, or there are too many or none. */
static bool read_urls(struct patroni_client *c, const char *list, char *why, size_t why_size)
{
	enum conf_url_verdict verdict = CONF_URL_OK;
	struct conf_url url;

	while ((verdict = conf_url_next(&list, &url, why, why_size)) == CONF_URL_OK &&
	       c->url_count < URL_MOST)
		c->urls[c->url_count++] = url;
	if (verdict == CONF_URL_END && c->url_count > 0)
		return true;
	if (verdict != CONF_URL_BAD)
		snprintf(why, why_size,
			 c->url_count ? "there are more than %d URLs"
				      : "there is no URL of at most %d",
			 URL_MOST);
	return false;
}

/* Makes the header's value of "user:password" in base64 (RFC 7617). NULL: no user, or no memory:
   then the server refuses the question. */
static struct secret *make_authorization(const struct patroni_access *access)
{
	static const char scheme[] = "Basic ";
	size_t user = access->user ? strlen(access->user) : 0,
	       length = access->password ? access->password->length : 0;
	struct secret *pair = user ? secret_new(NULL, user + 1 + length) : NULL;
	struct secret *value = pair ? secret_new(NULL, strlen(scheme) + (pair->length + 2) / 3 * 4)
				    : NULL;

	if (value) {
		memcpy(pair->bytes, access->user, user);
		pair->bytes[user] = ':';
		if (length > 0)
			memcpy(pair->bytes + user + 1, access->password->bytes, length);
		memcpy(value->bytes, scheme, strlen(scheme));
		EVP_EncodeBlock((unsigned char *)value->bytes + strlen(scheme),
				(const unsigned char *)pair->bytes, (int)pair->length);
	}
	secret_free(&pair);
	return value;
}

void patroni_set_access(struct patroni *source, const struct patroni_access *access)
{
	struct patroni_client *c = source->client;

	mem_free(c->ca_file);
	c->ca_file = access->ca_file ? mem_copy_string(access->ca_file) : NULL;
	secret_free(&c->authorization);
	c->authorization = make_authorization(access);
	if (c->tls)
		tls_context_drop(&c->tls);
}

struct patroni *patroni_new(const struct patroni_config *config, char *why, size_t why_size)
{
	struct patroni *p = mem_try(sizeof(*p));
	struct patroni_client *c = mem_try(sizeof(*c));

	snprintf(why, why_size, "no memory");
	if (!p || !c || !(c->timer = evtimer_new(config->base, on_patroni_timer, c)) ||
	    !read_urls(c, config->urls, why, why_size)) {
		if (c && c->timer)
			event_free(c->timer);
		mem_free(c);
		mem_free(p);
		return NULL;
	}
	event_set_log_callback(log_of_libevent);
	c->source = p;
	c->config = *config;
	c->config.urls = NULL;
	if (config->timeout <= 0)
		c->config.timeout = TIMEOUT_DEFAULT;
	p->client = c;
	patroni_set_access(p, &config->access);
	p->period = config->period;
	p->view.leader = -1;
	set_timer(c, 0, 0);
	return p;
}

void patroni_ask_now(struct patroni *source)
{
	struct patroni_client *c = source->client;
	usec_t due = c->round_at + LEAST_GAP;

	if (c->state != WAITS)
		c->is_wanted = true;
	else if (due < c->due)
		set_timer(c, clock_monotonic(), due);
}

void patroni_free(struct patroni **source)
{
	struct patroni *p = *source;

	*source = NULL;
	if (!p)
		return;
	end_question(p->client);
	patroni_set_access(p, &(struct patroni_access){ .user = NULL });
	event_free(p->client->timer);
	mem_free(p->client);
	mem_free(p);
}
