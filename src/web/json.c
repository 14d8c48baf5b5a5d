/*
 * SHOW as JSON: /api/pools is an array of objects, one for each row, with all columns, also the
 * extra ones; numbers are numbers. /api/pools,state is an object with an array for each of these.
 * Four lists exist only here: `you`, the user and its rights; `paused`, the names of paused
 * databases; `warnings`, the last lines of the log of level WARNING and above; `history`, arrays of
 * the samples of the last hour (web/history.h) after ?since=SECONDS, the first with the names of
 * the columns; with ?db=, ?user= and, if SHOW POOLS has a host for it, ?host= samples of a pool.
 * /api/ lists the names.
 *
 * ?db= and ?user= choose the pools, clients, servers and sockets of a database and of a user; of
 * these connections &most=N gives the first N in the order of their states. ?pools=database,user
 * chooses columns of `pools`, and so for each SHOW.
 *
 * An answer is made in parts of ROWS_MOST rows, and each row has the values at the time of its
 * part.
 *
 * Invariant: between two parts the body is valid JSON up to that place.
 */
#include "web/connection.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/text.h"
#include "pool/host.h"
#include "pool/rows.h"
#include "show/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ITEMS_MOST 12			/* in one request */
#define NAME_MOST 32
#define ROWS_MOST 200			/* of a part */

/* Appends printable bytes in quotes. */
static void quote(struct bytes *out, const char *text, size_t size)
{
	bytes_append_u8(out, '"');
	for (size_t from = 0, n; from < size; from += n) {
		for (n = 0; from + n < size && text[from + n] != '"' && text[from + n] != '\\'; n++)
			;
		bytes_append(out, text + from, n);
		if (from + n < size) {
			bytes_append_u8(out, '\\');
			bytes_append_u8(out, (uint8_t)text[from + n]);
			n++;
		}
	}
	bytes_append_u8(out, '"');
}

static void json_text(struct bytes *out, const char *text, size_t size)
{
	size_t shown = printable_write(NULL, text, size);
	char *copy = shown == size ? NULL : mem_try(shown);

	/* other bytes than UTF-8 are written as \xNN, as on the console */
	if (copy)
		printable_write(copy, text, size);
	if (copy || shown == size)
		quote(out, copy ? copy : text, shown);
	else
		out->failed = true;
	mem_free(copy);
}

/* ---- the format of rows ---- */

enum own_list { OWN_NONE, OWN_YOU, OWN_HISTORY, OWN_NAMES, OWN_PAUSED, OWN_WARNINGS };

struct json_state {
	struct {
		const struct show_item *show;
		enum own_list own;
		char name[NAME_MOST];
	} items[ITEMS_MOST];
	size_t count, at;		/* number of items; the current one */
	bool has_begun;			/* the current item */
	struct show_item item;		/* its SHOW, with the chosen columns */
	struct result result;		/* of its SHOW */
	struct bytes names;		/* ,"column": for each column, ... */
	uint16_t name_at[RESULT_COLUMNS + 1];	/* ... its position, and the end */
	bool has_rows;			/* a row was written */
	uint64_t sample;		/* of history: the next one */
};

static void json_begin_row(struct result *r)
{
	struct json_state *s = LIST_OBJECT(r, struct json_state, result);

	bytes_append_text(&r->rows, s->has_rows ? ",\n{" : "{");
	s->has_rows = true;
}

/* Appends the name of the column. */
static void begin_cell(struct result *r)
{
	const struct json_state *s = LIST_OBJECT(r, struct json_state, result);
	size_t at = s->name_at[r->cell] + (r->cell == 0);

	bytes_append(&r->rows, bytes_front(&s->names) + at, s->name_at[r->cell + 1] - at);
}

static void json_add_null(struct result *r)
{
	begin_cell(r);
	bytes_append_text(&r->rows, "null");
}

static void json_add_text(struct result *r, const char *text, size_t size)
{
	begin_cell(r);
	json_text(&r->rows, text, size);
}

static void json_add_number(struct result *r, int64_t value)
{
	begin_cell(r);
	if (value < 0)
		bytes_append_u8(&r->rows, '-');
	bytes_append_decimal(&r->rows, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static void json_add_count(struct result *r, uint64_t value)
{
	begin_cell(r);
	bytes_append_decimal(&r->rows, value);
}

static void json_end_row(struct result *r)
{
	bytes_append_u8(&r->rows, '}');
}

static const struct result_format json_format = {
	.begin_row = json_begin_row,
	.null = json_add_null,
	.text = json_add_text,
	.number = json_add_number,
	.count = json_add_count,
	.end_row = json_end_row,
};

/* ---- answers ---- */

static void json_drop(void *state)
{
	struct json_state *s = state;

	result_free(&s->result);
	bytes_free(&s->names);
	mem_free(s);
}

static void write_you(const struct connection *c, struct bytes *out)
{
	const struct settings *settings = &c->web->world->conf->settings;
	char host[65] = "", name[96];

	bytes_append_text(out, "{\"user\":");
	json_text(out, c->user, strlen(c->user));
	bytes_append_format(out, ",\"admin\":%s,\"version\":", c->is_admin ? "true" : "false");
	json_text(out, c->web->version, strlen(c->web->version));
	/* the name of this pooler: several pages may be open */
	if (gethostname(host, sizeof(host) - 1) != 0)
		*host = '\0';
	bytes_append_text(out, ",\"name\":");
	snprintf(name, sizeof(name), "%s:%" PRId64, host, settings->listen_port);
	json_text(out, name, strlen(name));
	bytes_append_format(out, ",\"peer\":%" PRId64 ",\"uptime\":%" PRId64, settings->peer_id,
			    (int64_t)((c->web->world->now_wall - c->web->started_at) / USEC));
	if (c->is_reader && settings->conffile) {
		bytes_append_text(out, ",\"file\":");
		json_text(out, settings->conffile, strlen(settings->conffile));
	}
	bytes_append_u8(out, '}');
}

static void write_names(const struct connection *c, struct bytes *out)
{
	const struct show_item *item;
	const char *before = "";

	for (size_t i = 0; (item = show_at(i)) != NULL; i++) {
		if (!item->fill || !(item->for_monitor || c->is_admin))
			continue;
		bytes_append_format(out, "%s\"", before);
		for (const char *at = item->name; *at; at++)
			bytes_append_u8(out,
					(uint8_t)(*at >= 'A' && *at <= 'Z' ? *at | 0x20 : *at));
		bytes_append_u8(out, '"');
		before = ",";
	}
}

static void write_paused(const struct connection *c, struct bytes *out)
{
	const char *before = "";

	for (const struct database *d = c->peer.world->pools->databases; d; d = d->hh.next) {
		if (!d->paused)
			continue;
		bytes_append_text(out, before);
		json_text(out, d->name, strlen(d->name));
		before = ",";
	}
}

/* The last warnings and errors of the log, the last one first. */
static void write_warnings(struct bytes *out)
{
	const struct log_recent *line;
	char when[64];

	for (size_t back = 0; (line = log_recent(back)) != NULL; back++) {
		bytes_append_format(
			out, "%s{\"time\":\"%s\",\"level\":\"%s\",\"text\":", back > 0 ? ",\n" : "",
			clock_format(line->time, 0, when, sizeof(when)), line->level);
		json_text(out, line->text, strlen(line->text));
		bytes_append_u8(out, '}');
	}
}

/* ---- the last hour ---- */

/* Returns the pool of database and user, at the host that the request names as SHOW POOLS does;
   NULL: there is none. */
static struct pool *find_pool(const struct connection *c, const char *database, const char *user)
{
	struct pools *pools = c->peer.world->pools;
	const struct database *d = database_find(pools, database);
	char host[HTTP_TEXT_MOST];
	bool has_host = http_parameter(&c->request, "host", host, sizeof(host));

	if (d)
		LIST_EACH(node, &d->members) {
			struct pool *pool = LIST_OBJECT(node, struct pool, of_database);
			const char *at = pool->host == pools->no_host ? POOL_NO_HOST
					 : pool->host		      ? pool->host->key
								      : "";

			if (strcmp(pool->user->name, user) == 0 && !d->is_console &&
			    strcmp(at, has_host ? host : "") == 0)
				return pool;
		}
	return NULL;
}

/* The history of all pools, or of the pool of db and user. NULL: no such pool, or no memory. */
static const struct history *history_asked(const struct connection *c)
{
	const struct world *w = c->peer.world;
	char database[HTTP_TEXT_MOST], user[HTTP_TEXT_MOST];
	struct pool *pool;

	if (!http_parameter(&c->request, "db", database, sizeof(database)) ||
	    !http_parameter(&c->request, "user", user, sizeof(user)))
		return c->web->histories.all;
	pool = find_pool(c, database, user);
	return pool ? history_of_pool(w->pools, pool, w->now) : NULL;
}

/* Appends a part of the samples. Returns whether it was the last one. */
static bool write_history(const struct connection *c, struct json_state *s, struct bytes *out)
{
	const struct history *h = history_asked(c);
	char since[24];
	int64_t from = 0;

	if (!s->has_begun) {
		if (http_parameter(&c->request, "since", since, sizeof(since)) &&
		    (!text_to_int64(since, &from) || from < 0))
			from = 0;
		s->sample = h ? history_find(h, (uint64_t)from) : 0;
#define X(type, name) "\"" #name "\","
		bytes_append_text(out, "[" HISTORY_EACH(X));
#undef X
		out->end -= !out->failed;
		bytes_append_u8(out, ']');
	}
	if (!h)
		return true;
	s->sample = history_write(h, s->sample, ROWS_MOST, out);
	return s->sample >= h->count;
}

/* ---- parts of an answer ---- */

/* ?pools=database,user: only these columns of the item `pools`. */
static void choose_columns(const struct connection *c, struct json_state *s)
{
	const struct show_item *all = s->items[s->at].show;
	char wanted[HTTP_TEXT_MOST], name[NAME_MOST];
	size_t count = 0;

	s->item = *all;
	if (!http_parameter(&c->request, s->items[s->at].name, wanted, sizeof(wanted)))
		return;
	for (size_t i = 0; i < all->all_columns; i++) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(all->columns[i], ":"),
			 all->columns[i]);
		if (!text_list_has(wanted, name, false))
			continue;
		s->item.columns[count] = all->columns[i];
		s->item.figures[count++] = all->figures[i];
	}
	s->item.all_columns = count > 0 ? count : all->all_columns;
}

static void begin_rows(const struct connection *c, struct json_state *s)
{
	choose_columns(c, s);
	result_init(&s->result, &json_format, s->item.columns, s->item.all_columns);
	/* a part costs about the same with few columns */
	s->result.most = ROWS_MOST +
			 ROWS_MOST * (RESULT_COLUMNS - s->item.all_columns) / RESULT_COLUMNS;
	bytes_free(&s->names);
	for (size_t i = 0; i < s->item.all_columns; i++) {
		s->name_at[i] = (uint16_t)bytes_size(&s->names);
		bytes_append_format(&s->names, ",\"%.*s\":", (int)strcspn(s->item.columns[i], ":"),
				    s->item.columns[i]);
		s->name_at[i + 1] = (uint16_t)bytes_size(&s->names);
	}
	if (s->names.failed)
		result_fail(&s->result);
	s->has_rows = false;
}

/* Appends a part of the rows. Returns whether it was the last one. */
static bool write_rows(const struct connection *c, struct json_state *s, struct bytes *out)
{
	char database[HTTP_TEXT_MOST], user[HTTP_TEXT_MOST], most[24];
	struct show show = { .world = c->peer.world,
			     .version = c->web->version,
			     .item = &s->item,
			     .to = &s->result };
	int64_t limit;

	if (http_parameter(&c->request, "db", database, sizeof(database)))
		show.only_database = database;
	if (http_parameter(&c->request, "user", user, sizeof(user)))
		show.only_user = user;
	/* the first connections of a pool, in one part */
	if (show.only_database && show.only_user &&
	    http_parameter(&c->request, "most", most, sizeof(most)) &&
	    text_to_int64(most, &limit) && limit >= 0) {
		show.pool = find_pool(c, database, user);
		show.pool_most = limit < ROWS_MOST ? (size_t)limit : ROWS_MOST;
	}
	if (!s->has_begun)
		begin_rows(c, s);
	if (!s->names.failed)
		show_part(&show);
	if (bytes_size(&s->result.rows) > 0)
		bytes_append(out, bytes_front(&s->result.rows), bytes_size(&s->result.rows));
	out->failed |= s->result.rows.failed;
	s->result.row_count = 0;
	bytes_consume(&s->result.rows, bytes_size(&s->result.rows));
	if (s->result.walk.goes_on)
		return false;
	result_free(&s->result);
	return true;
}

static void json_write_part(struct connection *c)
{
	struct json_state *s = c->answer.state;
	struct bytes *out = &c->answer.body;
	bool is_over = true;

	if (!s->has_begun && s->count > 1) {
		bytes_append_text(out, s->at > 0 ? ",\n" : "{");
		json_text(out, s->items[s->at].name, strlen(s->items[s->at].name));
		bytes_append_u8(out, ':');
	}
	if (s->items[s->at].own == OWN_YOU) {
		write_you(c, out);
	} else {
		if (!s->has_begun)
			bytes_append_u8(out, '[');
		if (s->items[s->at].own == OWN_NAMES)
			write_names(c, out);
		else if (s->items[s->at].own == OWN_PAUSED)
			write_paused(c, out);
		else if (s->items[s->at].own == OWN_WARNINGS)
			write_warnings(out);
		else if (s->items[s->at].own == OWN_HISTORY)
			is_over = write_history(c, s, out);
		else
			is_over = write_rows(c, s, out);
		if (is_over)
			bytes_append_u8(out, ']');
	}
	s->has_begun = !is_over;
	s->at += is_over;
	if (s->at < s->count)
		return;
	bytes_append_text(out, s->count > 1 ? "}\n" : "\n");
	c->answer.is_whole = true;
}

/* Adds an item. Returns 0, or the status of the answer. */
static int add_item(const struct connection *c, struct json_state *s, const char *name)
{
	const struct show_item *show = show_find(name);

	if (s->count == ITEMS_MOST)
		return 404;
	text_copy(s->items[s->count].name, NAME_MOST, name);
	if (strcmp(name, "you") == 0)
		s->items[s->count].own = OWN_YOU;
	else if (strcmp(name, "history") == 0)
		s->items[s->count].own = OWN_HISTORY;
	else if (strcmp(name, "paused") == 0)
		s->items[s->count].own = OWN_PAUSED;
	else if (strcmp(name, "warnings") == 0)
		s->items[s->count].own = OWN_WARNINGS;
	else if (*name == '\0')
		s->items[s->count].own = OWN_NAMES;
	else if (!show || !show->fill)
		return 404;
	else if (!show->for_monitor && !c->is_admin)
		return 403;
	s->items[s->count++].show = show;
	return 0;
}

void json_answer(struct connection *c, const char *items)
{
	struct json_state *s = mem_try(sizeof(*s));
	char name[NAME_MOST];
	int status = s ? 0 : 500;

	for (const char *at = items; status == 0; at++) {
		size_t size = strcspn(at, ",");

		if (size >= sizeof(name)) {
			status = 404;
			break;
		}
		memcpy(name, at, size);
		name[size] = '\0';
		status = add_item(c, s, name);
		at += size;
		if (*at == '\0')
			break;
	}
	if (status != 0) {
		mem_free(s);
		connection_tell(c, status,
				status == 404	? "no such SHOW: /api/ lists them"
				: status == 403 ? "only admin_users may see this"
						: "out of memory");
		return;
	}
	connection_answer(c, 200, "application/json");
	c->answer.state = s;
	c->answer.drop = json_drop;
	c->answer.more = json_write_part;
}
