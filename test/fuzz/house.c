/*
 * pgweir around a fuzz target: see house.h. Servers are dialled at an abstract Unix socket on which this
 * process listens itself.
 */
#include "house.h"

#include "admin/console.h"
#include "backend.h"
#include "base/version.h"
#include "fuzz.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/statement.h"
#include "sandbox.h"
#include "session/lookup.h"
#include "session/relay.h"

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
#define CONFS_MOST 8

static int listening = -1;
static char host[64];

/* ---- the place of the servers ---- */

static void listen_once(void)
{
	struct address a;

	if (listening >= 0)
		return;
	snprintf(host, sizeof(host), "@pgweir-fuzz-%ld", (long)getpid());
	FUZZ_CHECK(address_from_unix(&a, host, PORT));
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listening < 0 || bind(listening, &a.u.any, a.size) != 0 || listen(listening, 128) != 0) {
		perror(host);
		exit(1);
	}
}

/* ---- what main does ---- */

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

/* Snapshots are never changed, so one is read once. */
static struct conf *conf_of(const char *ini)
{
	static struct { const char *ini; struct conf *conf; } known[CONFS_MOST];
	struct conf_problems problems = { .count = 0 };
	struct bytes text = BYTES_EMPTY;
	int i = 0;

	while (i < CONFS_MOST && known[i].ini && known[i].ini != ini)
		i++;
	FUZZ_CHECK(i < CONFS_MOST);
	if (known[i].ini)
		return known[i].conf;
	for (const char *c = ini; *c; c++) {
		if (c[0] == '%' && c[1] == 's') {
			bytes_append_text(&text, host);
			c++;
		} else {
			bytes_append_u8(&text, (uint8_t)*c);
		}
	}
	sandbox_files((const char *)bytes_front(&text), bytes_size(&text));
	bytes_free(&text);
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
	if (!base)
		base = event_base_new();
	memset(h, 0, sizeof(*h));
	h->base = base;
	h->servers_answer = true;
	h->world = world_new(base, conf_of(ini), &problems);
	FUZZ_CHECK(h->world && problems.errors == 0);
	conf_problems_free(&problems);
	h->console = console_new(h->world, &control);
	FUZZ_CHECK(h->console);
}

static void end_free(struct house_end *e)
{
	house_hang_up(e);
	bytes_free(&e->got);
	if (e->backend)
		backend_free(e->backend);
	free(e->backend);
}

void house_close(struct house *h)
{
	struct world *w = h->world;

	console_free(&h->console);
	world_end_sessions(w, GOODBYE_POOLER_SHUTTING_DOWN);
	lookups_reap(w);
	world_check(w);
	FUZZ_CHECK(list_is_empty(&w->clients) && list_is_empty(&w->servers) && list_is_empty(&w->again));
	/* whoever held a prepared statement is gone */
	FUZZ_CHECK(statements_count(w->statements) == 0);
	FUZZ_CHECK(!w->by_cancel_pid);
	world_free(&h->world);
	for (int i = 0; i < h->end_count; i++)
		end_free(&h->ends[i]);
	/* connections that nobody has accepted */
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
	*e = (struct house_end){ .fd = fd, .is_server = is_server, .got = BYTES_EMPTY };
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
	FUZZ_CHECK(client_open(h->world, fds[1], &from, false, 6432));
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

static bool accept_servers(struct house *h)
{
	bool moved = false;
	int fd;

	while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct house_end *e = end_new(h, fd, true);

		moved = true;
		if (!e || !h->servers_answer)
			continue;
		e->backend = calloc(1, sizeof(*e->backend));
		FUZZ_CHECK(e->backend);
		backend_init(e->backend);
	}
	return moved;
}

/* What pgweir has sent to it. */
static bool receive(struct house_end *e)
{
	char buffer[16384];
	bool moved = false;

	while (e->fd >= 0 && !e->is_gone) {
		ssize_t got = recv(e->fd, buffer, sizeof(buffer), 0);

		if (got < 0 && errno == EAGAIN)
			break;
		moved = true;
		if (got > 0)
			bytes_append(&e->got, buffer, (size_t)got);
		else
			e->is_gone = true;
	}
	FUZZ_CHECK(!e->got.failed);
	return moved;
}

static void answer(struct house *h, struct house_end *e)
{
	struct bytes news, out = BYTES_EMPTY;

	if (!e->backend || (h->holds_answers && e->backend->has_begun) || e->fd < 0)
		return;
	news = house_news(e);
	backend_take(e->backend, news.data, bytes_size(&news), &out);
	FUZZ_CHECK(!out.failed);
	if (bytes_size(&out) > 0)
		house_send(h, e, bytes_front(&out), bytes_size(&out));
	/* the end of what it is asked is the end of it */
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
	bool moved;

	relay_share_turn(w);
	world_sleep(w);
	event_base_loop(h->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	world_wake(w);
	world_again(w);
	if (ticks)
		world_tick(w);
	world_schedule(w);
	console_turn(h->console);
	world_reap(w);
	world_check(w);
	moved = accept_servers(h) || world_has_again(w);
	for (int i = 0; i < h->end_count; i++)
		moved |= receive(&h->ends[i]);
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

void house_send(struct house *h, struct house_end *e, const void *data, size_t size)
{
	const uint8_t *at = data;
	int turns = 0;

	while (size > 0 && e->fd >= 0) {
		ssize_t sent = send(e->fd, at, size, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return;
		if (sent < 0) {
			/* nobody reads it: so be it */
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

void house_feed(struct house *h, struct house_end *e, const void *data, size_t size, enum fuzz_cut cut)
{
	const uint8_t *at = data;
	uint64_t state = 0;

	while (size > 0) {
		size_t piece = fuzz_cut_next(cut, &state, at, size);

		house_send(h, e, at, piece);
		house_settle(h);
		at += piece;
		size -= piece;
	}
}

/* ---- clients that log in ---- */

struct house_end *house_login(struct house *h, const char *user, const char *database, unsigned minor)
{
	const char *const pairs[] = { "user", user, "database", database };
	struct house_end *e = house_connect(h);
	struct bytes out = BYTES_EMPTY, news;

	if (!e)
		return NULL;
	pg_build_startup(&out, 3 << 16 | minor, pairs, 4);
	house_send(h, e, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(h);
	news = house_news(e);
	if (e->is_gone || bytes_size(&news) < 6 || bytes_front(&news)[bytes_size(&news) - 6] != 'Z')
		return NULL;
	return e;
}

static void expect_row(struct bytes *want, const char *text, bool describes)
{
	static const char *const columns[] = { "text:text" };

	if (describes)
		pg_build_row_description(want, columns, 1);
	pg_build_data_row(want, &text, 1);
	pg_build_command_complete(want, "SELECT 1");
}

static void ask_simple(struct house *h, struct house_end *e, const char *text)
{
	struct bytes out = BYTES_EMPTY, want = BYTES_EMPTY, news;

	pg_build_query(&out, text);
	house_send(h, e, bytes_front(&out), bytes_size(&out));
	house_settle(h);
	expect_row(&want, text, true);
	pg_build_ready(&want, 'I');
	news = house_news(e);
	FUZZ_SAME(&want, &news);
	bytes_free(&out);
	bytes_free(&want);
}

/* Parse of a named statement, Bind, Execute, Sync; the name is one that the others use, too. */
static void ask_extended(struct house *h, struct house_end *e, const char *text)
{
	static const uint8_t bind[] = "\0a\0\0\0\0\0\0\0", execute[] = "\0\0\0\0\0";
	struct bytes out = BYTES_EMPTY, want = BYTES_EMPTY, news;
	size_t mark = pg_begin(&out, 'P');

	bytes_append_string(&out, "a");
	bytes_append_string(&out, text);
	bytes_append_u16(&out, 0);
	pg_end(&out, mark);
	mark = pg_begin(&out, 'B');
	bytes_append(&out, bind, 9);
	pg_end(&out, mark);
	mark = pg_begin(&out, 'E');
	bytes_append(&out, execute, 5);
	pg_end(&out, mark);
	pg_end(&out, pg_begin(&out, 'S'));
	house_send(h, e, bytes_front(&out), bytes_size(&out));
	house_settle(h);
	pg_end(&want, pg_begin(&want, '1'));
	pg_end(&want, pg_begin(&want, '2'));
	expect_row(&want, text, false);
	pg_build_ready(&want, 'I');
	news = house_news(e);
	FUZZ_SAME(&want, &news);
	bytes_free(&out);
	bytes_free(&want);
}

void house_check_neighbour(struct house *h, const char *database)
{
	struct house_end *e;

	/* all ends are taken */
	if (h->end_count > HOUSE_ENDS - 4)
		return;
	h->holds_answers = false;
	h->servers_answer = true;
	e = house_login(h, "neighbour", database, 0);
	FUZZ_CHECK(e != NULL);
	ask_simple(h, e, "the neighbour's 1");
	ask_extended(h, e, "the neighbour's 2");
	ask_simple(h, e, "the neighbour's 3");
	house_hang_up(e);
	house_settle(h);
}

void house_trim_promises(struct bytes *news)
{
	static const uint8_t parsed[PG_HEADER] = { '1', 0, 0, 0, 4 }, closed[PG_HEADER] = { '3', 0, 0, 0, 4 };

	while (bytes_size(news) >= PG_HEADER) {
		const uint8_t *last = bytes_front(news) + bytes_size(news) - PG_HEADER;

		if (memcmp(last, parsed, PG_HEADER) != 0 && memcmp(last, closed, PG_HEADER) != 0)
			return;
		news->end -= PG_HEADER;
	}
}

static void trim_after_copy(struct bytes *news)
{
	static const uint8_t begins[] = { 'G', 0, 0, 0 };
	const uint8_t *found = bytes_size(news) > 0 ? memmem(bytes_front(news), bytes_size(news), begins, sizeof(begins)) : NULL;

	if (found)
		news->end = news->start + (size_t)(found - bytes_front(news));
}

void house_trim_after_copy(struct bytes *one, struct bytes *other)
{
	trim_after_copy(one);
	trim_after_copy(other);
}

void house_trim_asides(struct bytes *news)
{
	const uint8_t *at, *end, *last;
	struct pg_frame f;

	if (bytes_size(news) == 0)
		return;
	last = at = bytes_front(news);
	end = at + bytes_size(news);
	while (at < end && pg_frame_look(at, (size_t)(end - at), PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
		at = f.body + f.size;
		if (f.type != 'N' && f.type != 'A' && f.type != 'S')
			last = at;
	}
	if (at == end)
		news->end -= (size_t)(end - last);
}
