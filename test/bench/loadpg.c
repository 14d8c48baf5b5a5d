/*
 * loadpg - closed-loop PostgreSQL clients that cost little themselves: each
 * sends its next request when the answer to the last one is complete.
 *
 *	loadpg [-h ADDRESS] [-p PORT] [-U USER] [-d DATABASE] [-m NAMES]
 *	       [-c CLIENTS] [-M simple|extended|prepared|txn] [-q SQL] [-D DEPTH] [-C]
 *	       [-i IDLE] [-b STREAMS] [-B SQL] [-s [-r]] [-T SECONDS] [-w WARM-UP] [-n COUNT] [-P PID,...]
 *
 *	-U, -d	a # in them is the number of the connection, modulo NAMES when -m is given
 *	-M	prepared: parsed by each client once, then Bind, Describe, Execute, Sync;
 *		txn: BEGIN, the query and COMMIT, three round trips that count as one
 *	-D	so many requests at once, before the first answer is read
 *	-C	a new connection for each transaction
 *	-i	so many more clients that log in first and then do nothing
 *	-b	so many more clients that run the SQL of -B over and over: not counted
 *	-s	TLS, whatever the certificate; -r offers the ticket of the connection before
 *	-n	ends after so many transactions, instead of after a time
 *	-P	processes whose CPU time and memory are read meanwhile: the pooler's
 *
 * PGPASSWORD is the password for a server that asks for SCRAM-SHA-256; its keys
 * are derived once, so that a login costs little here.
 *
 * Prints one line of name=value pairs. The exit status is 1 when any client got
 * an error. Invariant: a client that is logged in and at work waits for `owed`
 * messages of ReadyForQuery, and nobody else's answer can reach it unnoticed:
 * errors count, and so does a connection that ends.
 */
#include "process.h"
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/scram.h"

#define READ_SIZE ((size_t)256 * 1024)
#define CARRY_MOST 512		/* the longest message that is read whole */
#define EVENTS 512
#define IDLE_LOGINS 50		/* of idle clients, under way at once: no pooler's backlog is the measure */
#define LOGIN_SECONDS 60
#define LATENCY_STEP 1.005
#define LATENCY_STEPS 4000	/* 1.005^4000 us are some minutes */
#define MESSAGE_MOST 0x7fffffffu

enum role { WORKER, IDLER, STREAMER };
enum mode { SIMPLE, EXTENDED, PREPARED, TRANSACTION };
enum phase { ASKING_TLS, SHAKING_HANDS, LOGGING_IN, AT_WORK };

struct client {
	struct wire wire;
	enum role role;
	enum phase phase;
	unsigned owed, step;		/* step: of a transaction of several requests */
	bool has_prepared;
	long done;
	usec_t began;
	uint32_t skip;			/* bytes of a message that are still to come and are not looked at */
	size_t carried;			/* bytes of an incomplete message */
	uint8_t carry[CARRY_MOST];
	struct scram_prover *prover;	/* during a login that asks for it */
	SSL_SESSION *ticket;
};

/* A request, ready to be sent, and how many ReadyForQuery it is owed. */
struct request {
	struct bytes bytes;
	unsigned ready;
};

static struct {
	const char *host, *port, *user, *database, *sql, *stream_sql, *pids, *password;
	unsigned names, workers, idlers, streamers, depth;
	enum mode mode;
	bool reconnects, tls, offers_ticket;
	double seconds, warm_up;
	long count;			/* 0: no limit */
} option = {
	.host = "127.0.0.1", .port = "6432", .user = "bench", .database = "bench", .sql = "SELECT 1",
	.stream_sql = "ROWS 50000000 200", .names = 1u << 31, .workers = 16, .depth = 1, .seconds = 5, .warm_up = 1,
};

static struct {
	long begun, done, errors, logins, handshakes, resumed;
	unsigned connections;
	double bytes, stream_bytes;
	uint32_t latency[LATENCY_STEPS];
} total;

/* The keys of the one password, by the salt that the server asked with. */
static struct {
	bool known;
	uint32_t iterations;
	size_t salt_size;
	uint8_t salt[SCRAM_SALT_MAX], client_key[SCRAM_KEY], server_key[SCRAM_KEY];
} keys;

static struct client *clients;
static struct request steps[3], first_prepared, stream_request;
static unsigned step_count = 1;
static SSL_CTX *tls;
static int poller;
static bool measuring;
static uint8_t input[CARRY_MOST + READ_SIZE];

static void dial(struct client *c);

/* ---- Requests ---- */

static void put_query(struct request *r, const char *sql)
{
	pg_build_query(&r->bytes, sql);
	r->ready++;
}

static void put_parse(struct bytes *out, const char *name, const char *sql)
{
	size_t mark = pg_begin(out, 'P');

	bytes_append_string(out, name);
	bytes_append_string(out, sql);
	bytes_append_u16(out, 0);
	pg_end(out, mark);
}

/* Bind, Describe, Execute and Sync, as libpq sends them. */
static void put_run(struct request *r, const char *name)
{
	struct bytes *out = &r->bytes;
	size_t mark = pg_begin(out, 'B');

	bytes_append_string(out, "");
	bytes_append_string(out, name);
	for (int i = 0; i < 3; i++)
		bytes_append_u16(out, 0);
	pg_end(out, mark);
	mark = pg_begin(out, 'D');
	bytes_append_u8(out, 'P');
	bytes_append_string(out, "");
	pg_end(out, mark);
	mark = pg_begin(out, 'E');
	bytes_append_string(out, "");
	bytes_append_u32(out, 0);
	pg_end(out, mark);
	pg_end(out, pg_begin(out, 'S'));
	r->ready++;
}

static void build_requests(void)
{
	put_query(&stream_request, option.stream_sql);
	if (option.mode == TRANSACTION) {
		put_query(&steps[0], "BEGIN");
		put_query(&steps[1], option.sql);
		put_query(&steps[2], "COMMIT");
		step_count = 3;
		return;
	}
	put_parse(&first_prepared.bytes, "s1", option.sql);
	put_run(&first_prepared, "s1");
	for (unsigned i = 0; i < option.depth; i++) {
		if (option.mode == SIMPLE) {
			put_query(&steps[0], option.sql);
		} else {
			if (option.mode == EXTENDED)
				put_parse(&steps[0].bytes, "", option.sql);
			put_run(&steps[0], option.mode == PREPARED ? "s1" : "");
		}
	}
}

/* ---- One client ---- */

static void leave(struct client *c)
{
	wire_close(&c->wire);
	if (c->prover) {
		scram_prover_clear(c->prover);
		free(c->prover);
		c->prover = NULL;
	}
}

static void fail(struct client *c, const char *why)
{
	if (total.errors++ == 0)
		fprintf(stderr, "loadpg: %s\n", why);
	leave(c);
}

static void send_bytes(struct client *c, struct bytes *bytes)
{
	if (!wire_write_all(&c->wire, bytes_front(bytes), bytes_size(bytes)))
		fail(c, "connection closed");
}

static void send_and_free(struct client *c, struct bytes *bytes)
{
	send_bytes(c, bytes);
	bytes_free(bytes);
}

static void send_request(struct client *c, struct request *r)
{
	c->owed = r->ready;
	send_bytes(c, &r->bytes);
}

/* Sends what comes next; at the end of the count, nothing. */
static void go_on(struct client *c)
{
	if (c->role != WORKER) {
		if (c->role == STREAMER)
			send_request(c, &stream_request);
		return;
	}
	if (c->step == 0) {
		if (option.count && total.begun >= option.count)
			return;
		total.begun += option.depth;
		if (!option.reconnects)
			c->began = clock_monotonic();
	}
	if (option.mode == PREPARED && !c->has_prepared) {
		c->has_prepared = true;
		send_request(c, &first_prepared);
	} else {
		send_request(c, &steps[c->step]);
	}
}

static void count_done(struct client *c)
{
	double us = (double)(clock_monotonic() - c->began);
	int step = us <= 1 ? 0 : (int)(log(us) / log(LATENCY_STEP));

	total.latency[step < LATENCY_STEPS ? step : LATENCY_STEPS - 1]++;
	total.done += option.depth;
	c->done++;
}

static void reconnect(struct client *c)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_terminate(&out);
	send_and_free(c, &out);
	leave(c);
	if (!option.count || total.begun < option.count)
		dial(c);
}

/* False: this connection is not the one any more whose bytes are being read. */
static bool on_ready(struct client *c)
{
	if (c->phase == LOGGING_IN) {
		c->phase = AT_WORK;
		total.logins++;
		go_on(c);
		return c->wire.fd >= 0;
	}
	if (--c->owed > 0)
		return true;
	if (c->role == WORKER && ++c->step == step_count) {
		c->step = 0;
		if (measuring)
			count_done(c);
		if (option.reconnects) {
			reconnect(c);
			return false;
		}
	}
	go_on(c);
	return c->wire.fd >= 0;
}

/* ---- Login ---- */

static void put_name(char *to, size_t size, const char *pattern, unsigned number)
{
	const char *mark = strchr(pattern, '#');

	if (mark)
		snprintf(to, size, "%.*s%u%s", (int)(mark - pattern), pattern, number % option.names, mark + 1);
	else
		snprintf(to, size, "%s", pattern);
}

static void send_startup(struct client *c)
{
	unsigned number = total.connections++;
	struct bytes out = BYTES_EMPTY;
	char user[64], database[64];
	const char *const pairs[] = { "user", user, "database", database };

	put_name(user, sizeof(user), option.user, number);
	put_name(database, sizeof(database), option.database, number);
	c->phase = LOGGING_IN;
	pg_build_startup(&out, 3u << 16, pairs, 4);
	send_and_free(c, &out);
}

static bool keys_for(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		     uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	(void)context;
	if (!keys.known || keys.iterations != iterations || keys.salt_size != salt_size ||
	    memcmp(keys.salt, salt, salt_size) != 0)
		return false;
	memcpy(client_key, keys.client_key, SCRAM_KEY);
	memcpy(server_key, keys.server_key, SCRAM_KEY);
	return true;
}

static void keep_keys(const struct scram_prover *p)
{
	keys.known = true;
	keys.iterations = p->iterations;
	keys.salt_size = p->salt_size;
	memcpy(keys.salt, p->salt, p->salt_size);
	memcpy(keys.client_key, p->client_key, SCRAM_KEY);
	memcpy(keys.server_key, p->server_key, SCRAM_KEY);
}

static void prove(struct client *c, const uint8_t *message, size_t size)
{
	struct bytes answer = BYTES_EMPTY, out = BYTES_EMPTY;
	bool is_first = !c->prover;
	uint8_t nonce[SCRAM_NONCE_RAW];
	const char *why = "no password: set PGPASSWORD";
	enum scram_result result = SCRAM_INVALID;

	if (is_first && option.password) {
		c->prover = calloc(1, sizeof(*c->prover));
		if (!c->prover || RAND_bytes(nonce, sizeof(nonce)) != 1)
			abort();
		scram_prover_init(c->prover, nonce);
		c->prover->password = option.password;
	}
	if (c->prover)
		result = scram_prover_step(c->prover, is_first ? NULL : (const char *)message, size, keys_for, NULL,
					   &answer, &why);
	if (result == SCRAM_CONTINUE) {
		if (is_first)
			pg_build_sasl_initial(&out, "SCRAM-SHA-256", bytes_front(&answer), bytes_size(&answer));
		else
			pg_build_password(&out, bytes_front(&answer), bytes_size(&answer));
		send_and_free(c, &out);
	} else if (result == SCRAM_DONE) {
		keep_keys(c->prover);
	} else {
		fail(c, why);
	}
	bytes_free(&answer);
}

static void on_authentication(struct client *c, const struct pg_frame *frame)
{
	struct pg_cursor body = pg_cursor_of(frame->body, frame->size);

	switch (pg_read_u32(&body)) {
	case 0:
		return;
	case 10:
	case 11:
	case 12:
		prove(c, body.at, (size_t)(body.end - body.at));
		return;
	default:
		fail(c, "the server asks for another proof than SCRAM-SHA-256");
	}
}

static int on_ticket(SSL *ssl, SSL_SESSION *ticket)
{
	struct client *c = SSL_get_app_data(ssl);

	SSL_SESSION_free(c->ticket);
	c->ticket = ticket;
	return 1;
}

static void shake_hands(struct client *c)
{
	ssize_t result = wire_handshake(&c->wire);

	if (result == WIRE_LATER)
		return;
	if (result == WIRE_ENDED) {
		fail(c, "the TLS handshake failed");
		return;
	}
	if (measuring) {
		total.handshakes++;
		total.resumed += SSL_session_reused(c->wire.ssl);
	}
	send_startup(c);
}

static void on_tls_answer(struct client *c)
{
	char answer;

	switch (wire_read(&c->wire, &answer, 1)) {
	case WIRE_LATER:
		return;
	case WIRE_ENDED:
		fail(c, "connection closed");
		return;
	default:
		break;
	}
	if (answer != 'S') {
		fail(c, "the server has no TLS");
		return;
	}
	c->phase = SHAKING_HANDS;
	wire_start_tls(&c->wire, tls, false, option.offers_ticket ? c->ticket : NULL);
	SSL_set_app_data(c->wire.ssl, c);
	shake_hands(c);
}

static void dial(struct client *c)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(option.port)) };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	struct bytes out = BYTES_EMPTY;
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	c->wire = (struct wire){ .fd = fd };
	c->owed = c->step = c->skip = 0;
	c->carried = 0;
	c->has_prepared = false;
	c->began = clock_monotonic();
	if (inet_pton(AF_INET, option.host, &address.sin_addr) != 1 || fd < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		fail(c, strerror(errno));
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
	if (!option.tls) {
		send_startup(c);
		return;
	}
	c->phase = ASKING_TLS;
	pg_build_ssl_request(&out);
	send_and_free(c, &out);
}

/* ---- Answers ---- */

static void on_error(const struct pg_frame *frame)
{
	if (total.errors++ > 0)
		return;
	fputs("loadpg: the server says:", stderr);
	for (size_t i = 0; i < frame->here; i++) {
		if (i == 0 || frame->body[i - 1] == '\0')
			fputc(' ', stderr);
		else if (frame->body[i])
			fputc(frame->body[i], stderr);
	}
	fputc('\n', stderr);
}

/* True when the message matters here. */
static bool is_read(uint8_t type)
{
	return type == 'Z' || type == 'R' || type == 'E';
}

/* Walks the messages at `p`. Returns how many bytes are done with; the others are the beginning of a message. */
static size_t walk(struct client *c, const uint8_t *p, size_t size)
{
	struct pg_frame frame;
	size_t at = 0;

	while (c->wire.fd >= 0) {
		size_t piece = size - at < c->skip ? size - at : c->skip;
		enum pg_verdict verdict;

		at += piece;
		c->skip -= (uint32_t)piece;
		verdict = pg_frame_look(p + at, size - at, MESSAGE_MOST, &frame);
		if (verdict == PG_BAD)
			fail(c, "not a message");
		if (verdict != PG_OK)
			break;
		if (is_read(frame.type)) {
			if (!pg_frame_is_whole(&frame) && frame.size + PG_HEADER <= CARRY_MOST)
				break;
			if (frame.type == 'E')
				on_error(&frame);
			if (frame.type == 'R')
				on_authentication(c, &frame);
			if (frame.type == 'Z' && !on_ready(c))
				return size;
		}
		at += PG_HEADER;
		c->skip = frame.size;
	}
	return at;
}

static void on_readable(struct client *c)
{
	ssize_t got;

	if (c->phase == ASKING_TLS) {
		on_tls_answer(c);
		return;
	}
	if (c->phase == SHAKING_HANDS) {
		shake_hands(c);
		return;
	}
	do {
		size_t size = c->carried, done;

		memcpy(input, c->carry, size);
		got = wire_read(&c->wire, input + size, READ_SIZE);
		if (got == WIRE_ENDED)
			fail(c, "connection closed");
		if (got <= 0)
			return;
		if (measuring)
			*(c->role == STREAMER ? &total.stream_bytes : &total.bytes) += (double)got;
		size += (size_t)got;
		c->carried = 0;
		done = walk(c, input, size);
		if (c->wire.fd >= 0 && done < size) {
			c->carried = size - done;
			memcpy(c->carry, input + done, c->carried);
		}
	} while (c->wire.fd >= 0 && c->wire.ssl && got == (ssize_t)READ_SIZE);
}

/* ---- The whole ---- */

static bool is_over(usec_t end)
{
	return (option.count && total.done >= option.count) || clock_monotonic() >= end;
}

static void run_for(double seconds)
{
	usec_t end = clock_monotonic() + (usec_t)(seconds * (double)USEC);
	struct epoll_event events[EVENTS];

	do {
		int count = epoll_wait(poller, events, EVENTS, 5);

		for (int i = 0; i < count; i++) {
			struct client *c = events[i].data.ptr;

			if (c->wire.fd >= 0)
				on_readable(c);
		}
	} while (!is_over(end));
}

/* Opens clients of a role; returns when all that were opened so far have logged in, or an error came. */
static void open_clients(enum role role, unsigned count, unsigned at_once)
{
	static unsigned opened;
	usec_t patience = clock_monotonic() + LOGIN_SECONDS * USEC;
	unsigned last = opened + count;

	while (total.errors == 0 && (long)last > total.logins) {
		while (opened < last && (long)opened < total.logins + at_once && total.errors == 0) {
			clients[opened] = (struct client){ .role = role, .wire.fd = -1 };
			dial(&clients[opened++]);
		}
		run_for(0.002);
		if (clock_monotonic() > patience)
			fail(&clients[0], "not all clients could log in");
	}
}

static double percentile(double part)
{
	double all = 0, seen = 0;

	for (int i = 0; i < LATENCY_STEPS; i++)
		all += total.latency[i];
	for (int i = 0; i < LATENCY_STEPS; i++) {
		seen += total.latency[i];
		if (all > 0 && seen >= part * all)
			return pow(LATENCY_STEP, i);
	}
	return 0;
}

/* Throughput of the slowest client over that of the fastest. */
static double fairness(void)
{
	long least = 0, most = 0;

	for (unsigned i = 0; i < option.idlers + option.streamers + option.workers; i++) {
		const struct client *c = &clients[i];

		if (c->role != WORKER)
			continue;
		if (most == 0 || c->done < least)
			least = c->done;
		if (c->done > most)
			most = c->done;
	}
	return most ? (double)least / (double)most : 0;
}

static void print_figures(double seconds, const struct process_figures *before, const struct process_figures *after)
{
	double cpu = after->cpu - before->cpu;

	printf("tps=%.0f p50_us=%.0f p99_us=%.0f max_us=%.0f mb_s=%.2f fair=%.3f errors=%ld", (double)total.done / seconds,
	       percentile(0.5), percentile(0.99), percentile(1), total.bytes / 1e6 / seconds, fairness(), total.errors);
	if (total.stream_bytes > 0)
		printf(" stream_mb_s=%.2f", total.stream_bytes / 1e6 / seconds);
	if (total.handshakes > 0)
		printf(" resumed=%.3f", (double)total.resumed / (double)total.handshakes);
	if (!option.pids)
		return;
	printf(" cpu_pct=%.1f memory_kib=%.0f", 100 * cpu / seconds, after->memory);
	if (total.done > 0)
		printf(" cpu_us=%.3f", cpu * 1e6 / (double)total.done);
	if (total.bytes > 0)
		printf(" cpu_s_gb=%.4f", cpu * 1e9 / (total.bytes + total.stream_bytes));
}

static void options_read(int argc, char **argv)
{
	static const char modes[] = "sept";
	const char *mode;
	int letter;

	option.password = getenv("PGPASSWORD");
	while ((letter = getopt(argc, argv, "h:p:U:d:m:c:M:q:D:Ci:b:B:srT:w:n:P:")) != -1) {
		switch (letter) {
		case 'h': option.host = optarg; break;
		case 'p': option.port = optarg; break;
		case 'U': option.user = optarg; break;
		case 'd': option.database = optarg; break;
		case 'm': option.names = (unsigned)atoi(optarg); break;
		case 'c': option.workers = (unsigned)atoi(optarg); break;
		case 'q': option.sql = optarg; break;
		case 'D': option.depth = (unsigned)atoi(optarg); break;
		case 'C': option.reconnects = true; break;
		case 'i': option.idlers = (unsigned)atoi(optarg); break;
		case 'b': option.streamers = (unsigned)atoi(optarg); break;
		case 'B': option.stream_sql = optarg; break;
		case 's': option.tls = true; break;
		case 'r': option.offers_ticket = true; break;
		case 'T': option.seconds = atof(optarg); break;
		case 'w': option.warm_up = atof(optarg); break;
		case 'n': option.count = atol(optarg); break;
		case 'P': option.pids = optarg; break;
		case 'M':
			mode = *optarg ? strchr(modes, *optarg) : NULL;
			if (mode) {
				option.mode = (enum mode)(mode - modes);
				break;
			}
			/* fall through */
		default:
			fprintf(stderr, "loadpg: the options are described at the top of its source\n");
			exit(2);
		}
	}
	if (option.names == 0 || option.depth == 0 || (option.mode == TRANSACTION && option.depth > 1))
		exit(2);
}

int main(int argc, char **argv)
{
	struct process_figures before, after;
	usec_t begin;
	double idle_memory = 0, idle_seconds = 0;

	options_read(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	wire_many_descriptors();
	build_requests();
	if (option.tls) {
		tls = wire_context(NULL, NULL);
		SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(tls, on_ticket);
	}
	poller = epoll_create1(EPOLL_CLOEXEC);
	clients = calloc(option.idlers + option.streamers + option.workers, sizeof(*clients));
	if (!clients)
		abort();

	before = process_read(option.pids);
	begin = clock_monotonic();
	open_clients(IDLER, option.idlers, IDLE_LOGINS);
	idle_seconds = (double)(clock_monotonic() - begin) / (double)USEC;
	after = process_read(option.pids);
	if (option.idlers > 0)
		idle_memory = (after.memory - before.memory) / option.idlers;

	measuring = option.count > 0;
	open_clients(STREAMER, option.streamers, option.streamers);
	open_clients(WORKER, option.workers, option.workers);
	if (!measuring)
		run_for(option.warm_up);
	measuring = true;
	before = process_read(option.pids);
	begin = clock_monotonic();
	if (total.errors == 0 && option.workers + option.streamers > 0)
		run_for(option.seconds);
	after = process_read(option.pids);
	if (total.errors == 0 && total.done == 0 && total.bytes == 0 && option.workers > 0) {
		fprintf(stderr, "loadpg: no answer in all the time measured\n");
		total.errors++;
	}
	print_figures((double)(clock_monotonic() - begin) / (double)USEC, &before, &after);
	if (option.idlers > 0)
		printf(" idle_login_s=%.2f idle_kib=%.3f", idle_seconds, idle_memory);
	printf("\n");
	return total.errors ? 1 : 0;
}
