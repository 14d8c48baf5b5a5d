/*
 * loadpg - closed-loop PostgreSQL clients with little cost of their own: each sends its next request when the answer to the last request is complete.
 *
 * loadpg [-h ADDRESS] [-p PORT] [-U USER] [-d DATABASE] [-m NAMES] [-c CLIENTS] [-M simple|extended|prepared|txn|local] [-q SQL] [-D DEPTH] [-C]
 * [-i IDLE] [-L LOGINS] [-a ADDRESS] [-g] [-b STREAMS] [-S SLOW] [-N SILENT] [-y DRIBBLERS] [-B SQL] [-s [-r]] [-T SECONDS] [-w WARM-UP] [-n COUNT] [-P
 * PID,...]
 *
 * - -U, -d: a # in them is the number of the connection, modulo NAMES when -m is given
 * - -M prepared: parsed by each client once, then Bind, Describe, Execute, Sync; txn: BEGIN, the query and COMMIT, three round trips that count once;
 *   local: as txn, with a SET LOCAL after BEGIN, and the query as a prepared statement
 * - -D: number of requests before the first answer is read
 * - -C: a new connection for each transaction
 * - -i: number of additional clients that log in first and then do nothing
 * - -L: number of their logins in progress at once (50)
 * - -a: the address that connections come from
 * - -g: continues only when a line arrives on standard input: prints "ready" when the idle clients are connected
 * - -b: number of additional clients that run the SQL of -B repeatedly: not counted
 * - -S, -N, -y: number of additional clients that read the result of -B slowly, never read it, send it byte by byte (burden.h)
 * - -s: TLS, with any certificate; -r offers the ticket of the previous connection
 * - -n: ends after this number of transactions, instead of after a time
 * - -P: processes of the pooler: their CPU time and memory are read meanwhile
 *
 * PGPASSWORD is the password for a server that requests SCRAM-SHA-256.
 *
 * Prints one line of name=value pairs. The exit status is 1 if any client got an error, lost its connection, or nothing was answered during the
 * measured time. Invariant: a logged-in client with work to do has at least one pending ReadyForQuery.
 */
#include "burden.h"
#include "connection.h"
#include "process.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/list.h"
#include "pg/build.h"

#define IDLE_LOGINS 50		/* of idle clients, under way at once: no pooler's backlog is the measure */
#define LOGIN_SECONDS 120
#define LATENCY_STEP 1.005
#define LATENCY_STEPS 4000	/* 1.005^4000 us are some minutes */
#define STEPS_MOST 4

enum role { WORKER, IDLER, STREAMER, BURDEN };		/* BURDEN + enum burden_kind: one of these */
enum mode { SIMPLE, EXTENDED, PREPARED, TRANSACTION, LOCAL };

struct client {
	struct connection connection;
	enum role role;
	unsigned owed;		/* messages of ReadyForQuery */
	unsigned step;		/* of a transaction of several requests */
	bool has_prepared;
	long done;
	usec_t began;
};

/* A request, ready to be sent, and how many ReadyForQuery it is owed. */
struct request {
	struct bytes bytes;
	unsigned ready;
};

static struct {
	const char *user, *database, *sql, *stream_sql, *pids;
	unsigned names, workers, idlers, idle_logins, streamers, burdens[BURDENS], depth;
	enum mode mode;
	bool reconnects, waits;
	double seconds, warm_up;
	long count;			/* 0: no limit */
} option = {
	.user = "bench", .database = "bench", .sql = "SELECT 1", .stream_sql = "ROWS 50000000 200",
	.names = 1u << 31, .workers = 16, .idle_logins = IDLE_LOGINS, .depth = 1, .seconds = 5, .warm_up = 1,
};

static struct {
	long begun, done, errors, logins, logins_measured, resumed;
	unsigned dials;
	double bytes, stream_bytes;
	uint32_t latency[LATENCY_STEPS];
} total;

static struct client *clients;
static struct request steps[STEPS_MOST], first_prepared, stream_request;
static unsigned step_count = 1;
static bool measuring;

/* ---- Requests ---- */

static void put_query(struct request *r, const char *sql)
{
	pg_build_string(&r->bytes, 'Q', sql);
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
	put_parse(&first_prepared.bytes, "s1", option.sql);
	put_run(&first_prepared, "s1");
	if (option.mode == TRANSACTION || option.mode == LOCAL) {
		step_count = 0;
		put_query(&steps[step_count++], "BEGIN");
		if (option.mode == LOCAL) {
			put_query(&steps[step_count++], "SET LOCAL app.tenant = '7'");
			put_run(&steps[step_count++], "s1");
		} else {
			put_query(&steps[step_count++], option.sql);
		}
		put_query(&steps[step_count++], "COMMIT");
		return;
	}
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

static struct client *client_of(struct connection *c)
{
	return LIST_OBJECT(c, struct client, connection);
}

static void count_error(const char *who, const char *text)
{
	if (total.errors++ == 0)
		fprintf(stderr, "loadpg: %s%s\n", who, text);
}

static void on_error(struct connection *c, const char *message)
{
	(void)c;
	count_error("the server says: ", message);
}

static void on_broken(struct connection *c, const char *why)
{
	(void)c;
	count_error("", why);
}

static void on_received(struct connection *c, size_t bytes)
{
	if (measuring)
		*(client_of(c)->role >= STREAMER ? &total.stream_bytes : &total.bytes) += (double)bytes;
}

static void send_request(struct client *c, const struct request *r)
{
	c->owed = r->ready;
	connection_send(&c->connection, &r->bytes);
}

/* Sends the next request; at the end of the count, nothing. */
static void go_on(struct client *c)
{
	if (c->role == STREAMER)
		send_request(c, &stream_request);
	if (c->role >= BURDEN)
		burden_add(&c->connection, (enum burden_kind)(c->role - BURDEN), &stream_request.bytes);
	if (c->role != WORKER)
		return;
	if (c->step == 0) {
		if (option.count && total.begun >= option.count)
			return;
		total.begun += option.depth;
		if (!option.reconnects)
			c->began = clock_monotonic();
	}
	if (!c->has_prepared && (option.mode == PREPARED || (option.mode == LOCAL && c->step == 1))) {
		c->has_prepared = true;
		send_request(c, &first_prepared);
	} else {
		send_request(c, &steps[c->step]);
	}
}

static void put_name(char *to, size_t size, const char *pattern, unsigned number)
{
	const char *mark = strchr(pattern, '#');

	if (mark)
		snprintf(to, size, "%.*s%u%s", (int)(mark - pattern), pattern, number % option.names, mark + 1);
	else
		snprintf(to, size, "%s", pattern);
}

static void dial(struct client *c)
{
	unsigned number = total.dials++;
	char user[64], database[64];

	put_name(user, sizeof(user), option.user, number);
	put_name(database, sizeof(database), option.database, number);
	c->has_prepared = false;
	c->began = clock_monotonic();
	connection_dial(&c->connection, user, database);
}

static void on_login(struct connection *connection, bool resumed)
{
	total.logins++;
	if (measuring) {
		total.logins_measured++;
		total.resumed += resumed;
	}
	go_on(client_of(connection));
}

static void count_done(struct client *c)
{
	double us = (double)(clock_monotonic() - c->began);
	int step = us <= 1 ? 0 : (int)(log(us) / log(LATENCY_STEP));

	total.latency[step < LATENCY_STEPS ? step : LATENCY_STEPS - 1]++;
	total.done += option.depth;
	c->done++;
}

static void on_ready(struct connection *connection)
{
	struct client *c = client_of(connection);

	if (c->role >= BURDEN || --c->owed > 0)
		return;
	if (c->role == WORKER && ++c->step == step_count) {
		c->step = 0;
		if (measuring)
			count_done(c);
		if (option.reconnects) {
			connection_leave(connection);
			if (!option.count || total.begun < option.count)
				dial(c);
			return;
		}
	}
	go_on(c);
}

/* ---- The whole ---- */

static bool is_over(usec_t end)
{
	return (option.count && total.done >= option.count) || clock_monotonic() >= end;
}

static void run_for(double seconds)
{
	usec_t end = clock_monotonic() + (usec_t)(seconds * (double)USEC);

	do {
		connections_wait(5);
		burdens_tick(clock_monotonic());
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
			clients[opened].role = role;
			dial(&clients[opened++]);
		}
		run_for(0.002);
		if (clock_monotonic() > patience)
			count_error("", "not all clients could log in");
	}
}

static unsigned clients_in_all(void)
{
	unsigned sum = option.idlers + option.streamers + option.workers;

	for (int kind = 0; kind < BURDENS; kind++)
		sum += option.burdens[kind];
	return sum;
}

/* Keeps the connections that are there until a line comes. */
static void wait_for_go(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	printf("ready\n");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0 && total.errors == 0)
		run_for(0.01);
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

/* Throughput of the slowest client divided by the throughput of the fastest. */
static double fairness(void)
{
	long least = 0, most = 0;

	for (unsigned i = 0; i < clients_in_all(); i++) {
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
	if (total.logins_measured > 0)
		printf(" resumed=%.3f", (double)total.resumed / (double)total.logins_measured);
	if (!option.pids)
		return;
	printf(" cpu_pct=%.1f memory_kib=%.0f", 100 * cpu / seconds, after->memory);
	if (total.done > 0)
		printf(" cpu_us=%.3f", cpu * 1e6 / (double)total.done);
	if (total.bytes > 0)
		printf(" cpu_s_gb=%.4f", cpu * 1e9 / (total.bytes + total.stream_bytes));
}

static void options_read(int argc, char **argv, struct connection_target *target)
{
	static const char modes[] = "septl";
	const char *mode;
	int letter;

	while ((letter = getopt(argc, argv, "h:p:U:d:m:c:M:q:D:Ci:L:a:gb:S:N:y:B:srT:w:n:P:")) != -1) {
		switch (letter) {
		case 'h': target->host = optarg; break;
		case 'p': target->port = optarg; break;
		case 'U': option.user = optarg; break;
		case 'd': option.database = optarg; break;
		case 'm': option.names = (unsigned)atoi(optarg); break;
		case 'c': option.workers = (unsigned)atoi(optarg); break;
		case 'q': option.sql = optarg; break;
		case 'D': option.depth = (unsigned)atoi(optarg); break;
		case 'C': option.reconnects = true; break;
		case 'i': option.idlers = (unsigned)atoi(optarg); break;
		case 'L': option.idle_logins = (unsigned)atoi(optarg); break;
		case 'a': target->from = optarg; break;
		case 'g': option.waits = true; break;
		case 'S': option.burdens[BURDEN_SLOW_READER] = (unsigned)atoi(optarg); break;
		case 'N': option.burdens[BURDEN_NON_READER] = (unsigned)atoi(optarg); break;
		case 'y': option.burdens[BURDEN_DRIBBLER] = (unsigned)atoi(optarg); break;
		case 'b': option.streamers = (unsigned)atoi(optarg); break;
		case 'B': option.stream_sql = optarg; break;
		case 's': target->tls = true; break;
		case 'r': target->offers_ticket = true; break;
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
	if (option.names == 0 || option.depth == 0 || (option.mode >= TRANSACTION && option.depth > 1))
		exit(2);
}

int main(int argc, char **argv)
{
	struct process_figures before, after;
	usec_t begin;
	double idle_memory = 0, idle_seconds = 0;
	struct connection_target target = {
		.host = "127.0.0.1", .port = "6432", .password = getenv("PGPASSWORD"),
		.logged_in = on_login, .ready = on_ready, .received = on_received, .error = on_error, .broken = on_broken,
	};

	options_read(argc, argv, &target);
	signal(SIGPIPE, SIG_IGN);
	wire_many_descriptors();
	build_requests();
	connections_begin(&target);
	clients = calloc(clients_in_all(), sizeof(*clients));
	if (!clients)
		abort();

	before = process_read(option.pids);
	begin = clock_monotonic();
	open_clients(IDLER, option.idlers, option.idle_logins);
	idle_seconds = (double)(clock_monotonic() - begin) / (double)USEC;
	after = process_read(option.pids);
	if (option.idlers > 0)
		idle_memory = (after.memory - before.memory) / option.idlers;
	if (option.waits)
		wait_for_go();

	measuring = option.count > 0;
	open_clients(STREAMER, option.streamers, option.streamers);
	for (int kind = 0; kind < BURDENS; kind++)
		open_clients(BURDEN + (unsigned)kind, option.burdens[kind], IDLE_LOGINS);
	open_clients(WORKER, option.workers, option.workers);
	if (!measuring)
		run_for(option.warm_up);
	measuring = true;
	before = process_read(option.pids);
	begin = clock_monotonic();
	if (total.errors == 0 && clients_in_all() > option.idlers)
		run_for(option.seconds);
	after = process_read(option.pids);
	if (total.done == 0 && total.bytes == 0 && option.workers > 0)
		count_error("", "no answer in all the time measured");
	print_figures((double)(clock_monotonic() - begin) / (double)USEC, &before, &after);
	if (option.idlers > 0)
		printf(" idle_login_s=%.2f idle_kib=%.3f", idle_seconds, idle_memory);
	printf("\n");
	return total.errors ? 1 : 0;
}
