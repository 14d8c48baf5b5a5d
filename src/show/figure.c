/*
 * The columns of SHOW: the functions of include/tbl/figure.tbl that write a value of a row.
 */
#include "show/figure.h"

#include "backend/server_info.h"
#include "base/clock.h"
#include "pool/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* "0x2a": the name of a connection in ptr, link and log lines; NULL: none. */
static void pointer_cell(struct result *r, uint64_t id)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, id);
	result_text(r, id > 0 ? text : NULL);
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

/* A position in the WAL, as PostgreSQL writes it; NULL: unknown. */
static void position_cell(struct result *r, uint64_t position)
{
	char text[POSITION_TEXT];

	result_text(r, position > 0 ? position_text(position, text) : NULL);
}

/* A size of a pool as text, empty if not set. */
static void size_cell(struct result *r, int64_t size)
{
	char text[24] = "";

	if (size != CONF_UNSET)
		snprintf(text, sizeof(text), "%" PRId64, size);
	result_text(r, text);
}

static void cut_cell(struct result *r, const char *text)
{
	char cut[QUERY_TEXT_MOST + 4];

	if (strnlen(text, QUERY_TEXT_MOST + 1) > QUERY_TEXT_MOST) {
		snprintf(cut, sizeof(cut), "%.*s...", QUERY_TEXT_MOST, text);
		text = cut;
	}
	result_text(r, text);
}

/* The event that the clients of a pool wait for, in words; NULL: no client waits. */
static void wait_cell(struct result *r, const struct pool_row *row, usec_t now)
{
	struct client_wait wait;
	char text[WAIT_TEXT + WAIT_HINT + 2];

	if (row->waiting == 0 || row->is_console) {
		result_text(r, NULL);
		return;
	}
	pool_wait_of(row->pool, now, &wait);
	snprintf(text, sizeof(text), "%s.%s%s", wait.text, *wait.hint ? " " : "", wait.hint);
	result_text(r, text);
}

/* A figure of the last minute; NULL: no latency. */
static void latency_cell(struct result *r, const struct pool *pool, enum latency_shown which,
			 size_t offset)
{
	struct latency_figures figures;

	latency_read(pool->pools, pool, which, true, &figures);
	if (figures.count > 0)
		result_count(r, *(const uint64_t *)(const void *)((const char *)&figures + offset));
	else
		result_text(r, NULL);
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
#define ROW_LATENCY struct latency_row
#define ROW_TOTAL struct count_row
#define ROW_VERIFIER struct verify_view
#define ROW_ADDRESS struct address_row
#define ROW_HOST struct host_row
#define ROW_PIN struct connection_row
#define ROW_DRAIN struct drain
#define ROW_REASON struct reason_row
#define ROW_WAIT struct wait_row
#define ROW_STATEMENT struct statement_row
#define ROW_ALARM struct alarm

#define TEXT(value) result_text(s->to, value)
#define NUMBER(value) result_number(s->to, (int64_t)(value))
#define COUNT(value) result_count(s->to, value)
#define ADDRESS(value) address_cell(s->to, &(value))
#define TIME(value) time_cell(s->to, value)
#define MONOTONIC(value) time_cell(s->to, (value) + s->world->wall_ahead)
#define POINTER(value) pointer_cell(s->to, value)
#define PROTOCOL(value) protocol_cell(s->to, value)
#define PINS(value) pins_cell(s->to, value)
#define SIZE(value) size_cell(s->to, value)
#define WAITS(value) wait_cell(s->to, value, s->world->now)
#define KNOWN(value) ((value) > 0 ? NUMBER(value) : TEXT(NULL))
#define POSITION(value) position_cell(s->to, value)
#define CUT(value) cut_cell(s->to, value)
#define LATENCY(which, percentile) \
	latency_cell(s->to, row->pool, SHOWN_##which, offsetof(struct latency_figures, percentile))
#define PARAMETER(name) \
	result_text(s->to, row->params ? params_get(row->params, PARAM_##name) : NULL)
#define FIGURE(group, name, type, kind, unit, write, ...)				\
	static void group##_##name(const struct show *s, const void *of)		\
	{										\
		const ROW_##group *row = of;						\
											\
		(void)row;								\
		write;									\
	}
#include "tbl/figure.tbl"
#undef FIGURE

const struct figure show_figures[] = {
#define FIGURE(group, name, type, kind, unit, write, ...) \
	{ #name ":" #type, \
	  group##_##name, \
	  GROUP(group), \
	  kind, \
	  unit, \
	  FIGURE_TEXTS(__VA_ARGS__, NULL, NULL) },
#define FIGURE_TEXTS(sentence, metric, ...) sentence, metric
#include "tbl/figure.tbl"
#undef FIGURE
};
const size_t show_figure_count = sizeof(show_figures) / sizeof(show_figures[0]);
