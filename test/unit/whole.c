/* pgweir as a whole for a unit test: see whole.h. */
#include "whole.h"

#include "base/mem.h"
#include "pg/message.h"
#include "pg/frame.h"

#include <stdio.h>
#include <string.h>

struct house whole;
static size_t told[HOUSE_ENDS];		/* number of bytes that each server end has already included in a transcript */

/* ---- life ---- */

void whole_open(const char *ini)
{
	sandbox_begin();
	memset(told, 0, sizeof(told));
	house_open(&whole, ini);
}

void whole_close(void)
{
	house_close(&whole);
	sandbox_end();
}

struct client *whole_last_client(void)
{
	struct world *w = whole.world;

	return list_is_empty(&w->peers.clients) ? NULL : LIST_OBJECT(w->peers.clients.prev, struct client, peer.node);
}

struct server *whole_last_server(void)
{
	struct world *w = whole.world;

	return list_is_empty(&w->peers.servers) ? NULL : LIST_OBJECT(w->peers.servers.prev, struct server, peer.node);
}

struct client *whole_login(struct house_end **end)
{
	*end = house_login(&whole, "u", "d", 0);
	return *end ? whole_last_client() : NULL;
}

struct client *whole_in_transaction(struct house_end **client, struct house_end **server)
{
	struct client *c = whole_login(client);

	if (!c)
		return NULL;
	FUZZ_CHECK(strcmp(whole_ask(*client, "BEGIN"), "C(BEGIN) Z(T)") == 0);
	*server = house_server(&whole);
	whole_server_got(*server);
	FUZZ_CHECK(c->pooled.link);
	return c;
}

/* ---- messages ---- */

void whole_say(struct house_end *end, uint8_t type, const void *body, size_t size)
{
	struct bytes out = BYTES_EMPTY;
	size_t mark = pg_begin(&out, type);

	bytes_append(&out, body, size);
	pg_end(&out, mark);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
}

void whole_query(struct house_end *end, const char *text)
{
	whole_say(end, 'Q', text, strlen(text) + 1);
}

const char *whole_ask(struct house_end *client, const char *text)
{
	whole_query(client, text);
	return whole_client_got(client);
}

static void put_error(struct bytes *out, const struct pg_frame *f)
{
	struct pg_error error;

	FUZZ_CHECK(pg_error_read(f->body, f->size, &error) == PG_OK);
	bytes_append_format(out, "(%s %s", error.sqlstate, error.message);
	if (*error.detail)
		bytes_append_format(out, "{%s}", error.detail);
	bytes_append_u8(out, ')');
}

/* Writes two strings, the first of which may be a letter, with this character between them. */
static void put_two(struct bytes *out, const struct pg_frame *f, char between)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	char letter[2] = { (char)f->body[0], 0 };
	const char *first = letter, *second;

	if (f->type == 'D' || f->type == 'C')
		pg_read_u8(&c);
	else
		first = pg_read_string(&c);
	second = pg_read_string(&c);
	FUZZ_CHECK(!c.bad);
	bytes_append_format(out, "(%s%c%s)", first, between, second);
}

static void put_body(struct bytes *out, const struct pg_frame *f, bool is_server)
{
	/* letters that mean another message in the other direction */
	switch (f->type | (is_server ? 0x100 : 0)) {
	case 'E': case 'N':
		put_error(out, f);
		return;
	case 'S':
		put_two(out, f, '=');
		return;
	case 'Z':
		bytes_append_format(out, "(%c)", f->body[0]);
		return;
	case 'C': case 0x100 | 'Q': case 0x100 | 'E':
		bytes_append_format(out, "(%s)", (const char *)f->body);
		return;
	case 0x100 | 'P': case 0x100 | 'B': case 0x100 | 'D': case 0x100 | 'C':
		put_two(out, f, '/');
	}
}

/* The new bytes for a server: its backend, which answers, has already read them. */
static struct bytes server_news(struct house_end *end)
{
	size_t *from = &told[end - whole.ends];
	struct bytes news = { .data = bytes_front(&end->got), .start = *from, .end = bytes_size(&end->got) };

	*from = news.end;
	/* the start-up packet has no type */
	if (news.start == 0 && news.end >= 4)
		news.start = (size_t)news.data[2] << 8 | news.data[3];
	return news;
}

const char *whole_said(struct house_end *end, bool is_server)
{
	static char text[20000];
	struct bytes news = is_server ? server_news(end) : house_news(end), out = BYTES_EMPTY;
	struct pg_frame f;

	while (bytes_size(&news) > 0) {
		if (pg_frame_look(bytes_front(&news), bytes_size(&news), INT32_MAX, &f) != PG_OK || !pg_frame_is_whole(&f)) {
			bytes_append_format(&out, " (%zu bytes)", bytes_size(&news));
			break;
		}
		bytes_append_format(&out, "%s%c", bytes_size(&out) ? " " : "", f.type);
		put_body(&out, &f, is_server);
		news.start += PG_HEADER + f.size;
	}
	bytes_append_u8(&out, 0);
	snprintf(text, sizeof(text), "%s", (const char *)bytes_front(&out));
	bytes_free(&out);
	return text;
}

/* ---- memory ---- */

static int left = -1, failed;

void whole_memory_ends(int more)
{
	left = more;
	failed = 0;
}

int whole_memory_is_back(void)
{
	left = -1;
	return failed;
}

static bool there_is_memory(void)
{
	if (left < 0)
		return true;
	if (left > 0) {
		left--;
		return true;
	}
	failed++;
	return false;
}

void *__real_mem_try(size_t size);
void *__wrap_mem_try(size_t size);
void *__wrap_mem_try(size_t size)
{
	return there_is_memory() ? __real_mem_try(size) : NULL;
}

void *__real_mem_resize(void *old, size_t size);
void *__wrap_mem_resize(void *old, size_t size);
void *__wrap_mem_resize(void *old, size_t size)
{
	return there_is_memory() ? __real_mem_resize(old, size) : NULL;
}

char *__real_mem_copy_string(const char *text);
char *__wrap_mem_copy_string(const char *text);
char *__wrap_mem_copy_string(const char *text)
{
	return !text || there_is_memory() ? __real_mem_copy_string(text) : NULL;
}
