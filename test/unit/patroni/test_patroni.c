/* The client of Patroni's REST API against servers that the test plays in the same event loop. */
#include "conf/url.h"
#include "net/dns.h"
#include "patroni/patroni.h"
#include "unit.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define BODY "{\"members\": [{\"name\": \"n1\", \"role\": \"leader\", \"state\": \"running\", \"host\": \"10.0.0.1\", \"timeline\": 1}]}"
#define OK "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"

/* ---- memory of libevent ---- */

static size_t memory_used, memory_most = SIZE_MAX;
static int memory_probes;	/* the allocation after this number of large ones (has_memory()) fails; 0: none */

static void *memory_take(size_t size)
{
	static bool is_next;
	size_t *block = memory_used + size > memory_most || is_next ? NULL : malloc(16 + size);

	is_next = memory_probes > 0 && size >= 8192 && --memory_probes == 0;

	if (!block)
		return NULL;
	*block = size;
	memory_used += size;
	return block + 2;
}

static void memory_give(void *memory)
{
	size_t *block = memory;

	if (!block)
		return;
	memory_used -= block[-2];
	free(block - 2);
}

static void *memory_resize(void *memory, size_t size)
{
	void *larger = memory_take(size);
	size_t old = memory ? ((size_t *)memory)[-2] : 0;

	if (larger && memory) {
		memcpy(larger, memory, old < size ? old : size);
		memory_give(memory);
	}
	return larger;
}

UNIT_BEFORE(begin)
{
	event_set_mem_functions(memory_take, memory_resize, memory_give);
	signal(SIGPIPE, SIG_IGN);
	alarm(60);
}

/* ---- the played servers ---- */

enum after { CLOSES, STAYS, DRIPS, REPEATS };
struct server {
	struct evconnlistener *listener;
	int port;
	const char *text;	/* the answer; NULL: the connection is closed without one */
	enum after after;	/* after the answer */
	int questions;
	char question[1000];	/* the last one */
	struct bufferevent *streams[64];
	struct event *drips[64];
	int count;
};
static struct event_base *base;
static struct dns *dns;
static struct server one, two;

static void drip(evutil_socket_t fd, short events, void *context)
{
	(void)fd, (void)events;
	bufferevent_write(context, "x", 1);
}

static void written(struct bufferevent *stream, void *context)
{
	struct server *s = context;

	if (s->after == REPEATS)
		bufferevent_write(stream, s->text, strlen(s->text));
	else if (s->after == CLOSES)
		shutdown(bufferevent_getfd(stream), SHUT_WR);
}

static void asked(struct bufferevent *stream, void *context)
{
	static const struct timeval often = { 0, 1000 };
	struct server *s = context;
	struct evbuffer *input = bufferevent_get_input(stream);
	size_t size = evbuffer_get_length(input);

	if (size < 4 || size >= sizeof(s->question))
		return;
	evbuffer_copyout(input, s->question, size);
	s->question[size] = '\0';
	if (!strstr(s->question, "\r\n\r\n"))
		return;
	evbuffer_drain(input, size);
	s->questions++;
	if (!s->text) {
		shutdown(bufferevent_getfd(stream), SHUT_RDWR);
		return;
	}
	bufferevent_setcb(stream, asked, written, NULL, s);
	bufferevent_write(stream, s->text, strlen(s->text));
	if (s->after == DRIPS && s->count < 64) {
		s->drips[s->count - 1] = event_new(base, -1, EV_PERSIST, drip, stream);
		event_add(s->drips[s->count - 1], &often);
	}
}

static void accepted(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int size, void *context)
{
	struct server *s = context;
	struct bufferevent *stream = s->count < 64 ? bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;

	(void)listener, (void)address, (void)size;
	if (!stream) {
		close(fd);
		return;
	}
	s->streams[s->count++] = stream;
	bufferevent_setcb(stream, asked, NULL, NULL, s);
	bufferevent_enable(stream, EV_READ | EV_WRITE);
}

static void server_open(struct server *s, const char *text, enum after after)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);

	memset(s, 0, sizeof(*s));
	s->text = text;
	s->after = after;
	s->listener = evconnlistener_new_bind(base, accepted, s, LEV_OPT_CLOSE_ON_FREE, 16, (struct sockaddr *)&a, sizeof(a));
	CHECK(s->listener);
	getsockname(evconnlistener_get_fd(s->listener), (struct sockaddr *)&a, &size);
	s->port = ntohs(a.sin_port);
}

static void server_close(struct server *s)
{
	if (s->listener)
		evconnlistener_free(s->listener);
	s->listener = NULL;
	for (int i = 0; i < s->count; i++) {
		if (s->drips[i])
			event_free(s->drips[i]);
		bufferevent_free(s->streams[i]);
		s->drips[i] = NULL;
	}
	s->count = 0;
}

/* ---- the source under test ---- */

static struct patroni *source;
static int changes;
static char reasons[4][PATRONI_WHY_SIZE];	/* of the first changes */

static void changed(void *context, const struct patroni *p)
{
	CHECK(context == &changes);
	CHECK(p == source);
	if (changes < 4)
		strcpy(reasons[changes], p->why);
	changes++;
}

static void world_open(void)
{
	char why[200];

	base = event_base_new();
	dns = dns_open(base, &(struct dns_config){ .resolv_conf = "/dev/null", .max_ttl = USEC }, why, sizeof(why));
	CHECK(base && dns);
	memset(&one, 0, sizeof(one));
	memset(&two, 0, sizeof(two));
}

static void source_open(const char *host, usec_t timeout)
{
	char urls[200], why[200];
	struct patroni_config config = { .base = base, .dns = dns, .urls = urls, .period = USEC / 5, .timeout = timeout, .changed = changed,
					 .context = &changes };

	snprintf(urls, sizeof(urls), two.port ? "http://%s:%d, http://%s:%d" : "http://%s:%d", host, one.port, host, two.port);
	changes = 0;
	memset(reasons, 0, sizeof(reasons));
	source = patroni_new(&config, why, sizeof(why));
	CHECK(source);
}

static void world_close(void)
{
	patroni_free(&source);
	server_close(&one);
	server_close(&two);
	dns_close(&dns);
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_base_free(base);
}

/* Runs the loop until the source has reported this number of changes. */
static void wait_changes(int wanted)
{
	while (changes < wanted)
		event_base_loop(base, EVLOOP_ONCE);
}

/* The reason after the URL, when a server answers so. */
static const char *reason_for(const char *text, enum after after)
{
	static char found[PATRONI_WHY_SIZE];
	const char *behind;

	world_open();
	server_open(&one, text, after);
	source_open("127.0.0.1", USEC / 4);
	wait_changes(1);
	CHECK(!source->view.is_known);
	behind = *source->why ? strchr(source->why + strlen("Patroni at "), ' ') : NULL;
	strcpy(found, behind ? behind + 1 : "");
	world_close();
	return found;
}

/* Whether one descriptor is connected to this port, and a child process does not inherit it. */
static bool is_connected_alone(int port)
{
	struct sockaddr_in a;
	int found = 0;

	for (int fd = 3; fd < 100; fd++) {
		socklen_t size = sizeof(a);

		if (getpeername(fd, (struct sockaddr *)&a, &size) == 0 && ntohs(a.sin_port) == port)
			found += fcntl(fd, F_GETFD) & FD_CLOEXEC ? 1 : 100;
	}
	return found == 1;
}

TEST(a_good_answer)
{
	usec_t before = clock_monotonic();

	world_open();
	server_open(&one, OK BODY, CLOSES);
	source_open("127.0.0.1", 0);
	CHECK(!source->view.is_known && source->view.leader == -1);
	while (one.questions < 1)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK(is_connected_alone(one.port));
	wait_changes(1);
	CHECK(source->view.is_known);
	CHECK_TEXT(source->why, "");
	CHECK_INT(source->view.leader, 0);
	CHECK_TEXT(source->view.members[0].host, "10.0.0.1");
	CHECK(source->view.asked_at >= before && source->view.asked_at <= clock_monotonic());
	CHECK(strncmp(one.question, "GET /cluster HTTP/1.1\r\nHost: 127.0.0.1:", 39) == 0);
	CHECK(strstr(one.question, "\r\nConnection: close\r\n"));
	/* the same answer again does not count as a change, a different answer does */
	while (one.questions < 3)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK_INT(changes, 1);
	one.text = OK "{\"members\": [{\"name\": \"n1\", \"role\": \"replica\", \"state\": \"running\", \"host\": \"10.0.0.1\", \"timeline\": 1}]}";
	wait_changes(2);
	CHECK_INT(source->view.leader, -1);
	world_close();
}

TEST(other_forms_of_a_good_answer)
{
	static const char *const answers[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		CHECK_TEXT(reason_for(answers[i], i < 2 ? STAYS : CLOSES), "answers nonsense: members is not an array");
}

TEST(failures)
{
	CHECK_TEXT(reason_for(OK "<html>", CLOSES), "answers nonsense: it cannot be read as JSON at byte 1");
	CHECK_TEXT(reason_for(OK, CLOSES), "answers nonsense: the answer is empty");
	CHECK_TEXT(reason_for(OK "{\"members\": [", CLOSES), "answers nonsense: it cannot be read as JSON at byte 13");
	CHECK_TEXT(reason_for("HTTP/1.0 503 Service Unavailable\r\n\r\n" BODY, CLOSES), "answers with HTTP status 503");
	CHECK_TEXT(reason_for("HTTP/1.0 404 Not Found\r\n\r\n" BODY, CLOSES), "answers with HTTP status 404");
	CHECK_TEXT(reason_for("HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", CLOSES), "answers with HTTP status 302");
	CHECK_TEXT(reason_for("HTTP/1.1 204 No Content\r\n\r\n", CLOSES), "answers with HTTP status 204");
	CHECK_TEXT(reason_for("HTTP/1.1 100 Continue\r\n\r\n", REPEATS), "answers with HTTP status 100");
	CHECK_TEXT(reason_for("HTTP/1.1 100 Continue\r\n\r\n" OK BODY, CLOSES), "answers with HTTP status 100");
	CHECK_TEXT(reason_for(NULL, CLOSES), "cannot be reached, or closed the connection before the end of its answer");
	CHECK_TEXT(reason_for("HTTP/1.0 200 OK\r\nContent-Length: 500\r\n\r\n{", CLOSES),
		   "cannot be reached, or closed the connection before the end of its answer");
	CHECK_TEXT(reason_for("HTTP/1.0 200 OK\r\nContent-", CLOSES), "cannot be reached, or closed the connection before the end of its answer");
#define NOT_HTTP "answers nonsense: the headers are too long, or not HTTP"
	CHECK_TEXT(reason_for("220 mail.example.com ESMTP\r\n", STAYS), NOT_HTTP);
	CHECK_TEXT(reason_for("HTTP/9.9 200 OK\r\n\r\n" BODY, CLOSES), NOT_HTTP);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", CLOSES), NOT_HTTP);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n" BODY, CLOSES), NOT_HTTP);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" BODY, CLOSES), NOT_HTTP);
}

TEST(huge_answers)
{
	static char filler[4097];

	memset(filler, 'a', 4096);
	CHECK_TEXT(reason_for(filler, REPEATS), NOT_HTTP);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\na: b\r\n", CLOSES), "cannot be reached, or closed the connection before the end of its answer");
#define TOO_LONG "answers nonsense: the body is too long, or not HTTP"
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nContent-Length: 131073\r\n\r\n", STAYS), TOO_LONG);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", STAYS), TOO_LONG);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20001\r\n", STAYS), TOO_LONG);
	CHECK_TEXT(reason_for("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", STAYS), TOO_LONG);
}

/* A server that sends without end: the answer ends at a limit, and the memory of libevent stays bounded. */
static const char *reason_for_endless(const char *head, const char *more)
{
	static char found[PATRONI_WHY_SIZE];
	size_t most = 0;

	world_open();
	server_open(&one, head, REPEATS);
	source_open("127.0.0.1", USEC / 4);
	while (one.questions < 1)
		event_base_loop(base, EVLOOP_ONCE);
	one.text = more;
	while (changes < 1) {
		event_base_loop(base, EVLOOP_ONCE);
		most = memory_used > most ? memory_used : most;
	}
	CHECK(most < 1000000);
	strcpy(found, source->why);
	world_close();
	return found;
}

TEST(endless_answers)
{
	static char filler[8193], headers[8193];

	memset(filler, '1', 8192);
	for (size_t i = 0; i < 8192; i += 8)
		memcpy(headers + i, "abc: d\r\n", 8);
	CHECK(strstr(reason_for_endless("HTTP/1.1 200 OK\r\n", headers), "the headers are too long"));
	CHECK(strstr(reason_for_endless("HTTP/1.1 200 OK\r\n", filler), "the headers are too long"));
	CHECK(strstr(reason_for_endless(OK, filler), "the body is too long"));
	CHECK(strstr(reason_for_endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", filler), "does not answer within 250 ms"));
	CHECK(strstr(reason_for_endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", headers), "the body is too long"));
}

TEST(slow_answers)
{
	CHECK_TEXT(reason_for("", STAYS), "does not answer within 250 ms");
	CHECK_TEXT(reason_for("HTTP/1.0 200 OK\r\na: ", DRIPS), "does not answer within 250 ms");
	CHECK_TEXT(reason_for(OK "{\"", DRIPS), "does not answer within 250 ms");
}

TEST(nobody_listens)
{
	world_open();
	server_open(&one, OK BODY, CLOSES);
	server_close(&one);
	source_open("127.0.0.1", USEC);
	wait_changes(1);
	CHECK(strstr(source->why, "cannot be reached"));
	world_close();
}

TEST(a_name_that_does_not_resolve)
{
	world_open();
	one.port = 8008;
	source_open("no.such.host.invalid", USEC);
	wait_changes(1);
	CHECK(strstr(source->why, "Patroni at http://no.such.host.invalid:8008 cannot be reached: the name does not resolve: "));
	world_close();
}

TEST(a_name_is_resolved)
{
	world_open();
	server_open(&one, OK BODY, CLOSES);
	source_open("localhost", USEC);
	wait_changes(1);
	CHECK(source->view.is_known);
	CHECK(strstr(one.question, "Host: localhost:"));
	world_close();
}

/* The view is the last answer until all URLs have failed twice. */
TEST(a_view_turns_unknown_after_two_failures)
{
	usec_t asked_at;

	world_open();
	server_open(&one, OK BODY, CLOSES);
	source_open("127.0.0.1", USEC);
	wait_changes(1);
	asked_at = source->view.asked_at;
	one.text = "HTTP/1.0 503 no\r\n\r\n";
	wait_changes(2);
	CHECK(source->view.is_known && source->view.asked_at >= asked_at);
	CHECK(strstr(source->why, "HTTP status 503"));
	wait_changes(3);
	CHECK(!source->view.is_known);
	/* the same failure again does not count as a change */
	for (int before = one.questions; one.questions < before + 3;)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK_INT(changes, 3);
	one.text = OK BODY;
	wait_changes(4);
	CHECK(source->view.is_known);
	CHECK_TEXT(source->why, "");
	world_close();
}

TEST(two_urls)
{
	int questions;

	world_open();
	server_open(&one, "HTTP/1.0 503 no\r\n\r\n", CLOSES);
	server_open(&two, OK BODY, CLOSES);
	source_open("127.0.0.1", USEC);
	wait_changes(2);
	CHECK(strstr(reasons[0], "HTTP status 503"));
	CHECK(source->view.is_known);
	CHECK_TEXT(source->why, "");
	/* the second one is asked first from now on */
	questions = one.questions;
	while (two.questions < 3)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK_INT(one.questions, questions);
	CHECK_INT(changes, 2);
	/* and the first one again after the second has failed */
	one.text = OK BODY;
	server_close(&two);
	while (one.questions == questions)
		event_base_loop(base, EVLOOP_ONCE);
	wait_changes(4);
	CHECK(source->view.is_known);
	/* both have failed twice: one change for each of the first round, and one for the loss of the view */
	server_close(&one);
	wait_changes(6);
	CHECK(source->view.is_known);
	wait_changes(7);
	CHECK(!source->view.is_known);
	world_close();
}

TEST(a_doubt_asks_at_once)
{
	world_open();
	server_open(&one, OK BODY, CLOSES);
	source_open("127.0.0.1", USEC);
	source->period = 3600 * USEC;
	wait_changes(1);
	CHECK_INT(one.questions, 1);
	/* many doubts between two questions are one question; a doubt during a question asks again */
	for (int i = 0; i < 5; i++)
		patroni_ask_now(source);
	while (one.questions < 2)
		event_base_loop(base, EVLOOP_ONCE);
	for (int i = 0; i < 5; i++)
		patroni_ask_now(source);
	while (one.questions < 3)
		event_base_loop(base, EVLOOP_ONCE);
	world_close();
}

/* A source can be freed at each moment of a question. */
TEST(freed_during_a_question)
{
	for (int turns = 0; turns < 12; turns++) {
		world_open();
		server_open(&one, turns % 2 ? OK BODY : OK "{", turns % 2 ? CLOSES : STAYS);
		source_open(turns % 3 ? "127.0.0.1" : "localhost", USEC);
		for (int i = 0; i < turns; i++)
			event_base_loop(base, EVLOOP_ONCE);
		world_close();
	}
	patroni_free(&source);
}

/* With less and less memory an answer fails, or it is read as it is; with memory the source works again. */
TEST(without_memory)
{
	int answers = 0, failures = 0;

	for (size_t room = 0; room < 24000; room += 750) {
		world_open();
		server_open(&one, OK BODY, CLOSES);
		source_open("127.0.0.1", USEC / 20);
		memory_most = memory_used + room;
		wait_changes(1);
		answers += source->view.is_known;
		failures += !source->view.is_known;
		if (source->view.is_known)
			CHECK_TEXT(source->view.members[0].host, "10.0.0.1");
		memory_most = SIZE_MAX;
		if (!source->view.is_known)
			wait_changes(2);
		server_close(&one);
		world_close();
	}
	CHECK(answers > 0 && failures > 5);
}

/* The TLS connection belongs to libevent and to the question: none of them frees the reference of the other. */
TEST(without_memory_for_https)
{
	char urls[64], why[200];
	struct patroni_config config = { .urls = urls, .period = USEC / 5, .timeout = USEC / 20, .changed = changed, .context = &changes };

	for (int probes = 1; probes <= 2; probes++) {
		world_open();
		server_open(&one, NULL, CLOSES);
		snprintf(urls, sizeof(urls), "https://127.0.0.1:%d", one.port);
		config.base = base;
		config.dns = dns;
		changes = 0;
		source = patroni_new(&config, why, sizeof(why));
		memory_probes = probes;
		wait_changes(1);
		CHECK(strstr(source->why, "is not asked: no memory"));
		CHECK_INT(memory_probes, 0);
		world_close();
	}
}

TEST(wrong_urls)
{
	static const char *const lists[] = { "", "http://a:1,b", "ftp://a:1" };
	char why[200], many[1000] = "";
	struct patroni_config config = { .changed = changed };

	world_open();
	config.base = base;
	config.dns = dns;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		config.urls = lists[i];
		CHECK(!patroni_new(&config, why, sizeof(why)));
		CHECK(*why);
	}
	for (int i = 0; i <= URL_MOST; i++)
		sprintf(many + strlen(many), "http://a:%d ", i + 1);
	config.urls = many;
	CHECK(!patroni_new(&config, why, sizeof(why)));
	CHECK_TEXT(why, "there are more than 16 URLs");
	source = NULL;
	world_close();
}

UNIT_MAIN
