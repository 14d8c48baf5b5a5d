/*
 * Clients of the pooler in house.h: they log in, send queries, and check the answers. Also the outcome of a play, and the parts of an answer that
 * depend on timing, so that two clients with the same queries may get different messages.
 */
#include "house.h"

#include "data_row.h"
#include "fuzz.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <string.h>

/* ---- clients that log in ---- */

struct house_end *house_login(struct house *h, const char *user, const char *database, unsigned minor)
{
	const char *const pairs[] = { "user", user, "database", database };
	struct house_end *e = house_connect(h);
	struct bytes out = BYTES_EMPTY, news;

	if (!e)
		return NULL;
	if (h->secures_clients)
		house_secure(h, e, h->secures_clients);
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
	pg_build_string(want, 'C', "SELECT 1");
}

/* Sends `out`, and checks that the answer is `want` followed by ReadyForQuery. Frees both. */
static void ask(struct house *h, struct house_end *e, struct bytes *out, struct bytes *want)
{
	struct bytes news;

	house_send(h, e, bytes_front(out), bytes_size(out));
	house_settle(h);
	pg_build(want, 'Z', "I", 1);
	news = house_news(e);
	FUZZ_SAME(want, &news);
	bytes_free(out);
	bytes_free(want);
}

static void ask_for(struct house *h, struct house_end *e, const char *text, const char *value)
{
	struct bytes out = BYTES_EMPTY, want = BYTES_EMPTY;

	pg_build_string(&out, 'Q', text);
	expect_row(&want, value, true);
	ask(h, e, &out, &want);
}

static void ask_simple(struct house *h, struct house_end *e, const char *text)
{
	ask_for(h, e, text, text);
}

/* Parse of a named statement, Bind, Execute, Sync; other clients use the same name. */
static void ask_extended(struct house *h, struct house_end *e, const char *text)
{
	static const uint8_t bind[] = "\0a\0\0\0\0\0\0\0", execute[] = "\0\0\0\0\0";
	struct bytes out = BYTES_EMPTY, want = BYTES_EMPTY;
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
	pg_end(&want, pg_begin(&want, '1'));
	pg_end(&want, pg_begin(&want, '2'));
	expect_row(&want, text, false);
	ask(h, e, &out, &want);
}

void house_check_next_client(struct house *h, const char *database)
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

void house_check_initial_settings(struct house *h, const char *database)
{
	struct house_end *e = h->end_count <= HOUSE_ENDS - 4 ? house_login(h, "neighbour", database, 0) : NULL;

	if (!e)
		return;
	ask_for(h, e, "w", "");
	house_hang_up(e);
	house_settle(h);
}

/* ---- outcome ---- */

static struct bytes part_of(const struct house_end *e, size_t from)
{
	struct bytes part = BYTES_EMPTY;

	if (e && bytes_size(&e->got) > from)
		bytes_append(&part, bytes_front(&e->got) + from, bytes_size(&e->got) - from);
	FUZZ_CHECK(!part.failed);
	return part;
}

struct house_outcome house_outcome_of(const struct house_end *client, const struct house_end *server)
{
	return (struct house_outcome){
		.client = part_of(client, client ? client->seen : 0), .server = part_of(server, 0),
		.client_is_gone = client && client->is_gone, .server_is_gone = server && server->is_gone,
	};
}

void house_outcome_free(struct house_outcome *o)
{
	bytes_free(&o->client);
	bytes_free(&o->server);
}

/* ---- parts that depend on timing ---- */

void house_trim_pooler_answers(struct bytes *news)
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

static bool is_aside(uint8_t type)
{
	return type == 'N' || type == 'A' || type == 'S';
}

void house_trim_end(struct bytes *news, const char *types)
{
	const uint8_t *at, *end, *last;
	struct pg_frame f;

	if (bytes_size(news) == 0)
		return;
	last = at = bytes_front(news);
	end = at + bytes_size(news);
	while (at < end && pg_frame_look(at, (size_t)(end - at), PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
		at = f.body + f.size;
		if (!strchr(types, f.type))
			last = at;
	}
	if (at == end || strchr(types, *at))
		news->end -= (size_t)(end - last);
}

/* The fields of an ErrorResponse that are whole and say something, and the byte that ends them. */
static void append_fields(struct bytes *to, const uint8_t *at, const uint8_t *end)
{
	const uint8_t *nul;

	while (at < end && *at != 0 && (nul = memchr(at, 0, (size_t)(end - at)))) {
		if (nul - at > 1)
			bytes_append(to, at, (size_t)(nul + 1 - at));
		at = nul + 1;
	}
	bytes_append_u8(to, 0);
}

void house_trim_errors(struct bytes *news)
{
	struct bytes kept = BYTES_EMPTY;
	struct pg_frame f;

	while (bytes_size(news) > 0 && pg_frame_look(bytes_front(news), bytes_size(news), PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
		size_t mark = pg_begin(&kept, f.type);

		if (f.type == 'E')
			append_fields(&kept, f.body, f.body + f.size);
		else
			bytes_append(&kept, f.body, f.size);
		pg_end(&kept, mark);
		bytes_consume(news, PG_HEADER + f.size);
	}
	if (bytes_size(news) > 0 && *bytes_front(news) != 'E')
		bytes_append(&kept, bytes_front(news), bytes_size(news));
	FUZZ_CHECK(!kept.failed);
	bytes_free(news);
	*news = kept;
}

void house_drop_async_messages(struct bytes *news)
{
	struct bytes kept = BYTES_EMPTY;
	const uint8_t *at = bytes_size(news) > 0 ? bytes_front(news) : NULL;
	size_t left = bytes_size(news);
	struct pg_frame f;

	while (left > 0 && pg_frame_look(at, left, PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
		if (!is_aside(f.type))
			bytes_append(&kept, at, PG_HEADER + f.size);
		at += PG_HEADER + f.size;
		left -= PG_HEADER + f.size;
	}
	if (left > 0 && !is_aside(*at))
		bytes_append(&kept, at, left);
	FUZZ_CHECK(!kept.failed);
	bytes_free(news);
	*news = kept;
}
