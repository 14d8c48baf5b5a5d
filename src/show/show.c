/*
 * The tables of SHOW as data: items from show.tbl, columns from figure.tbl. The grammar of the console, Describe, the rows and
 * doc/show.md read the columns here.
 *
 * Invariant: a row has exactly the columns of its result (the functions of "rows and values" count the cells).
 */
#include "show/show.h"

#include "backend/server_info.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "show/result.h"
#include "show/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

/* ---- cells ---- */

static void address_cell(struct result *r, const struct brief_address *address)
{
	char text[64];

	result_text(r, brief_address_text(address, text, sizeof(text)));
}

static void time_cell(struct result *r, usec_t wall)
{
	char text[64];

	result_text(r, clock_format(wall, 0, text, sizeof(text)));
}

/* "0x2a": the name of a connection in ptr, link and log lines. */
static void pointer_cell(struct result *r, uint64_t id)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, id);
	result_text(r, text);
}

static void protocol_cell(struct result *r, unsigned minor)
{
	char text[16];

	snprintf(text, sizeof(text), "3.%u", minor);
	result_text(r, text);
}

static void pins_cell(struct result *r, unsigned pins)
{
	char text[PIN_TEXT];

	result_text(r, pins ? pins_text(pins, text) : NULL);
}

/* A size of a pool as text, empty if not set. */
static void size_cell(struct result *r, int64_t size)
{
	char text[24] = "";

	if (size != CONF_UNSET)
		snprintf(text, sizeof(text), "%" PRId64, size);
	result_text(r, text);
}

/* ---- figures ---- */

#define ROW_CONFIG struct config_row
#define ROW_DATABASE struct database_row
#define ROW_DATABASE_EXTRA struct database_row
#define ROW_POOL struct pool_row
#define ROW_POOL_EXTRA struct pool_row
#define ROW_PEER struct peer_row
#define ROW_PEER_POOL struct peer_pool_row
#define ROW_CONNECTION struct connection_row
#define ROW_BUFFER struct connection_row
#define ROW_CONNECTION_EXTRA struct connection_row
#define ROW_USER struct named_user_row
#define ROW_USER_EXTRA struct named_user_row
#define ROW_VERSION char
#define ROW_STATE struct text_row
#define ROW_FD struct fd_row
#define ROW_LIST struct count_row
#define ROW_MEMORY struct memory_row
#define ROW_DNS_HOST struct dns_host_row
#define ROW_DNS_ZONE struct dns_zone_row
#define ROW_STATS struct stats_row
#define ROW_STATS_TOTAL struct stats_row
#define ROW_STATS_AVERAGE struct stats_row
#define ROW_STATS_TOTALS struct stats_row
#define ROW_STATS_AVERAGES struct stats_row
#define ROW_TOTAL struct count_row
#define ROW_VERIFIER struct verify_view
#define ROW_ADDRESS struct address_row
#define ROW_PIN struct connection_row
#define ROW_REASON struct reason_row

enum group {
	GROUP_CONFIG, GROUP_DATABASE, GROUP_DATABASE_EXTRA, GROUP_POOL, GROUP_POOL_EXTRA, GROUP_PEER, GROUP_PEER_POOL, GROUP_CONNECTION,
	GROUP_BUFFER, GROUP_CONNECTION_EXTRA, GROUP_USER, GROUP_USER_EXTRA, GROUP_VERSION, GROUP_STATE, GROUP_FD, GROUP_LIST, GROUP_MEMORY,
	GROUP_DNS_HOST, GROUP_DNS_ZONE, GROUP_STATS, GROUP_STATS_TOTAL, GROUP_STATS_AVERAGE, GROUP_STATS_TOTALS, GROUP_STATS_AVERAGES,
	GROUP_TOTAL, GROUP_VERIFIER, GROUP_ADDRESS, GROUP_PIN, GROUP_REASON
};
#define GROUP(name) ((uint64_t)1 << GROUP_##name)
#define NO_GROUP 0

#define TEXT(value) result_text(s->to, value)
#define NUMBER(value) result_number(s->to, (int64_t)(value))
#define COUNT(value) result_count(s->to, value)
#define ADDRESS(value) address_cell(s->to, &(value))
#define TIME(value) time_cell(s->to, value)
#define POINTER(value) pointer_cell(s->to, value)
#define PROTOCOL(value) protocol_cell(s->to, value)
#define PINS(value) pins_cell(s->to, value)
#define SIZE(value) size_cell(s->to, value)
#define PARAMETER(name) result_text(s->to, row->params ? params_get(row->params, PARAM_##name) : NULL)
#define FIGURE(group, name, type, kind, unit, write, sentence)				\
	static void group##_##name(const struct show *s, const void *of)		\
	{										\
		const ROW_##group *row = of;						\
											\
		(void)row;								\
		write;									\
	}
#include "tbl/figure.tbl"
#undef FIGURE

static const struct figure figures[] = {
#define FIGURE(group, name, type, kind, unit, write, sentence) { #name ":" #type, group##_##name, GROUP(group), kind, unit, sentence },
#include "tbl/figure.tbl"
#undef FIGURE
};

/* ---- items ---- */

static struct show_item items[] = {
#define MONITOR true
#define ADMIN false
#define SHOW(name, access, fill, standard, extra, sentence) { #name, access, fill, standard, extra, sentence, 0, 0, { NULL }, { NULL } },
#include "tbl/show.tbl"
#undef SHOW
#undef MONITOR
#undef ADMIN
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static void add_columns(struct show_item *item, uint64_t groups)
{
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		if (!(figures[i].group & groups))
			continue;
		ASSERT(item->all_columns < RESULT_COLUMNS);
		item->figures[item->all_columns] = &figures[i];
		item->columns[item->all_columns++] = figures[i].column;
	}
}

/* Finds the columns of an item at its first use: they depend only on the tables. */
static const struct show_item *with_columns(struct show_item *item)
{
	if (item->all_columns == 0) {
		add_columns(item, item->standard);
		item->standard_columns = item->all_columns;
		add_columns(item, item->extra);
	}
	return item;
}

const struct show_item *show_at(size_t index)
{
	return index < ITEMS ? with_columns(&items[index]) : NULL;
}

const struct show_item *show_find(const char *name)
{
	for (size_t i = 0; i < ITEMS; i++)
		if (text_equal_fold(items[i].name, name))
			return with_columns(&items[i]);
	return NULL;
}

void show_row(const struct show *s, const void *row)
{
	for (size_t i = 0; i < s->to->column_count; i++)
		s->item->figures[i]->cell(s, row);
}

void show_run(const struct show *s)
{
	s->item->fill(s);
	ASSERT(s->to->cell == 0);
}

/* ---- rows and values ---- */

/*
 * The rows of a SHOW, independent of their format. A SHOW calls one function for each value; this file converts the value to
 * the type of its column, and the format writes it.
 *
 * Invariant: `rows` contains row_count complete rows, and then at most one incomplete row with `cell` values.
 */

static const char *type_of(const char *column)
{
	return strrchr(column, ':') + 1;
}

static enum column_type read_type(const char *column)
{
	static const char *const names[] = {
		[COLUMN_TEXT] = "text", [COLUMN_INT4] = "int4", [COLUMN_INT8] = "int8", [COLUMN_NUMERIC] = "numeric",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], type_of(column)))
			return (enum column_type)i;
	return COLUMN_TEXT;	/* bytea: always null */
}

void result_init(struct result *r, const struct result_format *format, const char *const *columns, size_t count)
{
	ASSERT(count <= RESULT_COLUMNS);
	*r = (struct result){ .format = format, .columns = columns, .column_count = count };
	for (size_t i = 0; i < count; i++)
		r->type[i] = (uint8_t)read_type(columns[i]);
}

void result_free(struct result *r)
{
	if (r->is_secret)
		bytes_wipe(&r->rows);
	else
		bytes_free(&r->rows);
	r->cell = 0;
	r->row_count = 0;
}

struct column result_column(const struct result *r)
{
	const char *name = r->columns[r->cell];

	return (struct column){
		.name = name, .name_size = (size_t)(type_of(name) - name) - 1, .type = (enum column_type)r->type[r->cell],
	};
}

/* The first value begins a row. */
static void begin(struct result *r)
{
	ASSERT(r->cell < r->column_count);
	if (r->cell > 0)
		return;
	r->mark = bytes_size(&r->rows);
	r->format->begin_row(r);
}

static void end(struct result *r)
{
	if (++r->cell < r->column_count)
		return;
	r->format->end_row(r);
	r->cell = 0;
	r->row_count++;
}

void result_null(struct result *r)
{
	begin(r);
	r->format->null(r);
	end(r);
}

void result_text(struct result *r, const char *text)
{
	ASSERT(r->type[r->cell] == COLUMN_TEXT);
	if (!text) {
		result_null(r);
		return;
	}
	begin(r);
	r->format->text(r, text, strlen(text));
	end(r);
}

static void number_as_text(struct result *r, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	result_text(r, text);
}

void result_number(struct result *r, int64_t value)
{
	enum column_type type = (enum column_type)r->type[r->cell];

	if (type == COLUMN_NUMERIC) {
		ASSERT(value >= 0);
		result_count(r, (uint64_t)value);
		return;
	}
	if (type == COLUMN_TEXT) {
		number_as_text(r, value);
		return;
	}
	if (type == COLUMN_INT4)
		value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
	begin(r);
	r->format->number(r, value);
	end(r);
}

void result_count(struct result *r, uint64_t value)
{
	if (r->type[r->cell] != COLUMN_NUMERIC) {
		result_number(r, value > INT64_MAX ? INT64_MAX : (int64_t)value);
		return;
	}
	begin(r);
	r->format->count(r, value);
	end(r);
}
