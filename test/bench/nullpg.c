/*
 * nullpg - a fast PostgreSQL server without data, so that a pooler between nullpg and loadpg is the only slow part.
 *
 * nullpg PORT [CERTIFICATE-FILE KEY-FILE]
 *
 * nullpg accepts every login, with TLS if a certificate is given, and answers with generated data (answer.h). It is strict where a pooler can be
 * wrong: prepared statements belong to their connection, an unknown or duplicate name is an error, and after an error everything up to Sync is
 * skipped. It supports one portal at a time, the last bound portal, whatever its name.
 *
 * A large result is never in memory: a block of its rows is sent repeatedly (struct stream), once in each turn of the loop, so that other clients do
 * not wait for a peer that reads as fast as this program writes. During a stream, and while a peer does not read, no further message of that
 * connection is read.
 */
#include "answer.h"
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <uthash.h>

#include "base/bytes.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/startup.h"

#define READ_SIZE ((size_t)64 * 1024)
#define BLOCK_SIZE ((size_t)256 * 1024)
#define LARGE ((size_t)64 * 1024)	/* a result from here on is a stream */
#define MESSAGE_MOST (1u << 30)
#define EVENTS 512

struct statement {
	struct answer answer;
	UT_hash_handle hh;
	char name[];
};

/* Rows on their way: the block is a whole number of them. */
struct stream {
	uint8_t *block;		/* NULL: none */
	size_t size, at, left;	/* bytes: of the block, sent of it, to be sent in all */
	size_t rows;
	bool then_ready;
};

struct session {
	struct wire wire;
	bool started, failed;	/* failed: skips up to Sync */
	char status;
	uint32_t events;	/* waited for */
	struct answer unnamed, portal;
	bool has_unnamed, has_portal;
	struct statement *statements;
	struct bytes in, out;
	struct stream stream;
};

static int poller;
static SSL_CTX *tls;

/* ---- Answers ---- */

static void forget_statements(struct session *s)
{
	struct statement *each, *next;

	HASH_ITER(hh, s->statements, each, next) {
		HASH_DEL(s->statements, each);
		free(each);
	}
	s->has_unnamed = false;
}

static void fail(struct session *s, const char *sqlstate, const char *message)
{
	pg_build_report(&s->out, 'E', "ERROR", sqlstate, message, NULL, NULL);
	s->failed = true;
	if (s->status == 'T')
		s->status = 'E';
}

static void stream_begin(struct stream *stream, const struct answer *a)
{
	struct bytes block = BYTES_EMPTY;

	do
		answer_put_row(&block, a->width);
	while (block.end < BLOCK_SIZE);
	*stream = (struct stream){
		.block = block.data,
		.size = block.end,
		.left = a->rows * (PG_HEADER + 2 + 4 + a->width),
		.rows = a->rows,
	};
}

/* Writes the rows and the tag, or only the tag. */
static void put_result(struct session *s, const struct answer *a)
{
	if (a->forgets)
		forget_statements(s);
	if (a->status)
		s->status = a->status;
	if (a->tag) {
		pg_build_string(&s->out, 'C', a->tag);
	} else if (a->rows == 0) {
		answer_put_empty(&s->out, 'I');
	} else if (a->rows * a->width >= LARGE) {
		stream_begin(&s->stream, a);
	} else {
		for (size_t i = 0; i < a->rows; i++)
			answer_put_row(&s->out, a->width);
		answer_put_rows_tag(&s->out, a->rows);
	}
}

/* ---- Messages ---- */

static void on_query(struct session *s, const char *sql)
{
	struct answer a = answer_to(sql);

	if (!a.tag && a.rows > 0)
		answer_put_description(&s->out, &a);
	put_result(s, &a);
	if (s->stream.block)
		s->stream.then_ready = true;
	else
		pg_build(&s->out, 'Z', &s->status, 1);
}

static struct statement *statement_find(struct session *s, const char *name)
{
	struct statement *found;

	HASH_FIND_STR(s->statements, name, found);
	return found;
}

/* Returns the answer of the statement with this name, or sends an error and returns NULL. */
static const struct answer *statement_known(struct session *s, const char *name)
{
	struct statement *found;

	if (!*name) {
		if (s->has_unnamed)
			return &s->unnamed;
	} else {
		found = statement_find(s, name);
		if (found)
			return &found->answer;
	}
	fail(s, "26000", "prepared statement does not exist");
	return NULL;
}

static void on_parse(struct session *s, struct pg_cursor *body)
{
	const char *name = pg_read_string(body), *sql = pg_read_string(body);
	struct statement *made;

	if (!*name) {
		s->unnamed = answer_to(sql);
		s->has_unnamed = true;
	} else if (statement_find(s, name)) {
		fail(s, "42P05", "prepared statement already exists");
		return;
	} else {
		made = calloc(1, sizeof(*made) + strlen(name) + 1);
		if (!made)
			abort();
		made->answer = answer_to(sql);
		strcpy(made->name, name);
		HASH_ADD_STR(s->statements, name, made);
	}
	answer_put_empty(&s->out, '1');
}

static void on_bind(struct session *s, struct pg_cursor *body)
{
	const struct answer *known;

	pg_read_string(body);
	known = statement_known(s, pg_read_string(body));
	if (!known)
		return;
	s->portal = *known;
	s->has_portal = true;
	answer_put_empty(&s->out, '2');
}

static const struct answer *portal_known(struct session *s)
{
	if (s->has_portal)
		return &s->portal;
	fail(s, "34000", "portal does not exist");
	return NULL;
}

static void on_describe(struct session *s, struct pg_cursor *body)
{
	bool of_statement = pg_read_u8(body) == 'S';
	const struct answer *known = of_statement ? statement_known(s, pg_read_string(body)) : portal_known(s);
	size_t mark;

	if (!known)
		return;
	if (of_statement) {
		mark = pg_begin(&s->out, 't');
		bytes_append_u16(&s->out, 0);
		pg_end(&s->out, mark);
	}
	answer_put_description(&s->out, known);
}

static void on_execute(struct session *s)
{
	const struct answer *known = portal_known(s);

	if (known)
		put_result(s, known);
}

static void on_close(struct session *s, struct pg_cursor *body)
{
	bool of_statement = pg_read_u8(body) == 'S';
	const char *name = pg_read_string(body);
	struct statement *found = of_statement && *name ? statement_find(s, name) : NULL;

	if (found) {
		HASH_DEL(s->statements, found);
		free(found);
	} else if (of_statement && !*name) {
		s->has_unnamed = false;
	} else if (!of_statement) {
		s->has_portal = false;
	}
	answer_put_empty(&s->out, '3');
}

static void on_sync(struct session *s)
{
	s->failed = false;
	if (s->status == 'I')
		s->has_portal = false;
	pg_build(&s->out, 'Z', &s->status, 1);
}

/* False: the connection is over. */
static bool on_message(struct session *s, const struct pg_frame *frame)
{
	struct pg_cursor body = pg_cursor_of(frame->body, frame->size);

	if (s->failed && frame->type != 'S' && frame->type != 'X')
		return true;
	switch (frame->type) {
	case 'Q':
		on_query(s, pg_read_string(&body));
		break;
	case 'P':
		on_parse(s, &body);
		break;
	case 'B':
		on_bind(s, &body);
		break;
	case 'D':
		on_describe(s, &body);
		break;
	case 'E':
		on_execute(s);
		break;
	case 'C':
		on_close(s, &body);
		break;
	case 'S':
		on_sync(s);
		break;
	case 'H':
		break;
	default:
		return false;
	}
	return !body.bad;
}

static void welcome(struct session *s)
{
	static const char *const parameters[][2] = {
		{ "server_version", "17.0" }, { "server_encoding", "UTF8" }, { "client_encoding", "UTF8" },
		{ "DateStyle", "ISO, MDY" }, { "IntervalStyle", "postgres" }, { "TimeZone", "UTC" },
		{ "integer_datetimes", "on" }, { "standard_conforming_strings", "on" }, { "is_superuser", "off" },
		{ "in_hot_standby", "off" }, { "default_transaction_read_only", "off" },
		{ "session_authorization", "bench" }, { "application_name", "" },
	};
	static const uint8_t key[4] = { 1, 2, 3, 4 };

	pg_build_auth(&s->out, 0, NULL, 0);
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
		pg_build_parameter_status(&s->out, parameters[i][0], parameters[i][1]);
	pg_build_key(&s->out, 'K', (uint32_t)s->wire.fd, key, sizeof(key));
	s->status = 'I';
	s->started = true;
	pg_build(&s->out, 'Z', &s->status, 1);
}

/* The answer to a request for encryption is one byte, and not part of the TLS that follows. */
static bool offer_tls(struct session *s, bool wanted)
{
	bool yes = wanted && tls && !s->wire.ssl;

	if (!wire_write_all(&s->wire, yes ? "S" : "N", 1))
		return false;
	if (yes)
		wire_start_tls(&s->wire, tls, true, NULL);
	return true;
}

static bool on_startup(struct session *s, const struct pg_startup *startup)
{
	switch (startup->kind) {
	case STARTUP_SSL:
	case STARTUP_GSS:
		return offer_tls(s, startup->kind == STARTUP_SSL);
	case STARTUP_SESSION:
		welcome(s);
		return true;
	default:
		return false;
	}
}

/* ---- In and out ---- */

/* Handles one complete message: PG_MORE if none is complete, PG_BAD when the connection is over. */
static enum pg_verdict take_message(struct session *s)
{
	struct pg_startup startup;
	struct pg_frame frame;
	enum pg_verdict verdict;
	size_t size;
	bool goes_on;

	if (s->started) {
		verdict = pg_frame_look(bytes_front(&s->in), bytes_size(&s->in), MESSAGE_MOST, &frame);
		if (verdict != PG_OK || !pg_frame_is_whole(&frame))
			return verdict == PG_BAD ? PG_BAD : PG_MORE;
		size = PG_HEADER + frame.size;
		goes_on = on_message(s, &frame);
	} else {
		verdict = pg_startup_read(bytes_front(&s->in), bytes_size(&s->in), READ_SIZE, &startup);
		if (verdict != PG_OK)
			return verdict;
		size = startup.size;
		goes_on = on_startup(s, &startup);
	}
	bytes_consume(&s->in, size);
	return goes_on ? PG_OK : PG_BAD;
}

static ssize_t flush_out(struct session *s)
{
	while (bytes_size(&s->out) > 0) {
		ssize_t done = wire_write(&s->wire, bytes_front(&s->out), bytes_size(&s->out));

		if (done <= 0)
			return done;
		bytes_consume(&s->out, (size_t)done);
	}
	return 1;
}

/* Continues the stream up to the end of the block. */
static ssize_t flush_stream(struct session *s)
{
	struct stream *stream = &s->stream;
	ssize_t done;

	while (stream->left > 0) {
		size_t piece = stream->size - stream->at;

		done = wire_write(&s->wire, stream->block + stream->at, piece < stream->left ? piece : stream->left);
		if (done <= 0)
			return done;
		stream->at += (size_t)done;
		stream->left -= (size_t)done;
		if (stream->at == stream->size) {
			stream->at = 0;
			if (stream->left > 0)
				return WIRE_LATER;
		}
	}
	answer_put_rows_tag(&s->out, stream->rows);
	if (stream->then_ready)
		pg_build(&s->out, 'Z', &s->status, 1);
	free(stream->block);
	*stream = (struct stream){ .block = NULL };
	return 1;
}

static void wait_for(struct session *s, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = s };

	if (s->events != events)
		epoll_ctl(poller, EPOLL_CTL_MOD, s->wire.fd, &event);
	s->events = events;
}

/* Answers and sends until a message is missing or the peer has no room. False: the connection is over. */
static bool work(struct session *s)
{
	enum pg_verdict verdict = PG_OK;
	ssize_t sent;

	do {
		while (!s->stream.block && (verdict = take_message(s)) == PG_OK)
			;
		if (verdict == PG_BAD || s->out.failed)
			return false;
		sent = flush_out(s);
		if (sent > 0 && s->stream.block) {
			sent = flush_stream(s);
			verdict = PG_OK;
		}
		if (sent == WIRE_ENDED)
			return false;
	} while (sent > 0 && verdict == PG_OK);
	wait_for(s, sent > 0 ? EPOLLIN : EPOLLOUT);
	return true;
}

static bool read_and_work(struct session *s)
{
	ssize_t size;

	do {
		uint8_t *room = bytes_reserve(&s->in, READ_SIZE);

		size = room ? wire_read(&s->wire, room, READ_SIZE) : WIRE_ENDED;
		if (size == WIRE_ENDED)
			return false;
		if (size > 0)
			s->in.end += (size_t)size;
	} while (size == (ssize_t)READ_SIZE);
	return work(s);
}

/* ---- Connections ---- */

static void session_close(struct session *s)
{
	forget_statements(s);
	wire_close(&s->wire);
	bytes_free(&s->in);
	bytes_free(&s->out);
	free(s->stream.block);
	free(s);
}

static void accept_all(int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct session *s = calloc(1, sizeof(*s));
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = s };

		if (!s)
			abort();
		s->wire.fd = fd;
		s->events = EPOLLIN;
		epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
	}
}

static int listen_on(const char *port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 4096) != 0) {
		perror("nullpg: listen");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS], arrivals = { .events = EPOLLIN, .data.ptr = NULL };
	int listener;

	if (argc != 2 && argc != 4) {
		fprintf(stderr, "usage: nullpg PORT [CERTIFICATE-FILE KEY-FILE]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	wire_many_descriptors();
	if (argc == 4)
		tls = wire_context(argv[2], argv[3]);
	listener = listen_on(argv[1]);
	poller = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(poller, EPOLL_CTL_ADD, listener, &arrivals);
	for (;;) {
		int count = epoll_wait(poller, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			struct session *s = events[i].data.ptr;

			if (!s)
				accept_all(listener);
			else if (!(events[i].events & EPOLLOUT ? work(s) : read_and_work(s)))
				session_close(s);
		}
	}
}
