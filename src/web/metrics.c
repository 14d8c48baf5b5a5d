/*
 * /metrics: the text formats of Prometheus (0.0.4) and of OpenMetrics (1.0), by the Accept field.
 * The values are the rows of SHOW, and tbl/figure.tbl has the names.
 *
 * The formats require that all series of a metric are together, and SHOW gives rows. First the rows
 * of one SHOW are collected as labels and numbers, in parts of ROWS_MOST rows. Then the columns are
 * written in parts of LINES_MOST lines, and the next SHOW is collected. An answer holds the numbers
 * of one SHOW and one part of the text.
 *
 * metrics_max_pools limits the rows of a SHOW. The remaining rows are added up in one row with the
 * first label "other" and empty other labels; of times, that row has the longest.
 */
#include "web/connection.h"

#include "base/mem.h"
#include "base/printable.h"
#include "base/text.h"
#include "show/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROWS_MOST 200
#define LINES_MOST 300
#define NAME_MOST 128
#define LOWEST_POWER 5			/* bounds of the histograms, in microseconds: 32 us ... */
#define HIGHEST_POWER 26		/* ... to 67 s */

/* The SHOWs with metrics: a metric for each column, for LISTS a metric for each row. */
static const struct { const char *show; bool is_limited;
} sources[] = {
	{ "DATABASES", true },	  { "POOLS", true },   { "STATS_TOTALS", true }, { "USERS", true },
	{ "DNS_HOSTS", true },	  { "HOSTS", true },   { "PEER_POOLS", false },	 { "MEM", false },
	{ "REASONS_ALL", false }, { "DRAINS", false }, { "LISTS", false },
	{ "ALARMS", false },
};
#define SOURCES (sizeof(sources) / sizeof(sources[0]))

static const struct { const char *row, *metric, *help;
} lists[] = {
	{ "databases", "pgbouncer_databases", "databases" },
	{ "users", "pgbouncer_users", "users" },
	{ "pools", "pgbouncer_pools", "pools" },
	{ "free_clients", "pgbouncer_free_clients", "always 0: unused clients are freed" },
	{ "used_clients", "pgbouncer_used_clients", "clients" },
	{ "login_clients", "pgbouncer_login_clients", "clients in login" },
	{ "free_servers", "pgbouncer_free_servers",
	  "always 0: unused server connections are freed" },
	{ "used_servers", "pgbouncer_used_servers", "server connections" },
	{ "dns_names", "pgbouncer_cached_dns_names", "host names in the cache" },
	{ "dns_zones", "pgbouncer_cached_dns_zones", "zones of host names in the cache" },
	{ "dns_queries", "pgbouncer_in_flight_dns_queries", "DNS queries in progress" },
	{ "peers", "pgweir_peers", "poolers in [peers]" },
};

struct collection {
	struct result result;
	const struct show_item *item;
	int64_t most;			/* rows; the others are added to `other` */
	struct bytes labels;		/* of each row: the text between the braces, and a NUL */
	/* of each row: int64_t for each column; NOTHING: NULL; of a STATE: the offset in `texts` */
	struct bytes values;
	struct bytes texts;		/* each ends with a NUL */
	size_t rows;
	struct bytes label;		/* of the current row */
	int64_t row[RESULT_COLUMNS], other[RESULT_COLUMNS];
	bool has_other;
};
#define NOTHING INT64_MIN

struct metrics_state {
	struct collection collection;
	bool is_open;			/* OpenMetrics */
	bool is_collected;		/* the rows of the current source are collected */
	/* place of the next line; label_at: in collection.labels */
	size_t source, column, line, label_at;
};

/* Whether the label is of only some rows. */
static bool is_optional(const struct figure *f)
{
	return f->metric && *f->metric == *METRIC_LABEL_IF_SET;
}

static bool is_label(const struct figure *f)
{
	return f->kind == LABEL || is_optional(f) || (f->metric && *f->metric == '\0');
}

/* Whether the column x_us follows a column x in seconds, and has its fraction. */
static bool is_fraction(const struct show_item *item, size_t column)
{
	const char *name = item->columns[column],
		   *before = column > 0 ? item->columns[column - 1] : NULL;
	size_t size = before ? strcspn(before, ":") : 0;

	return before && item->figures[column]->unit == MICROSECONDS &&
	       item->figures[column - 1]->unit == SECONDS && strncmp(name, before, size) == 0 &&
	       text_starts(name + size, "_us:");
}

static bool is_metric(const struct show_item *item, size_t column)
{
	const struct figure *f = item->figures[column];

	return (f->kind == GAUGE || f->kind == COUNTER || f->kind == STATE) && !is_label(f) &&
	       !is_fraction(item, column);
}

/* ---- rows ---- */

/* Appends a value of a label, with the escapes of both formats. */
static void append_label(struct collection *t, const char *text, size_t size)
{
	const char *name = t->result.columns[t->result.cell];

	bytes_append_text(&t->label, bytes_size(&t->label) > 0 ? "," : "");
	bytes_append(&t->label, name, strcspn(name, ":"));
	bytes_append_text(&t->label, "=\"");
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			bytes_append_format(&t->label, "\\%c", c);
		else if (c == '\n')
			bytes_append_text(&t->label, "\\n");
		else
			bytes_append_u8(&t->label, c);
	}
	bytes_append_u8(&t->label, '"');
}

static void metrics_begin_row(struct result *r)
{
	struct collection *t = LIST_OBJECT(r, struct collection, result);

	bytes_consume(&t->label, bytes_size(&t->label));
}

static void metrics_add_text(struct result *r, const char *text, size_t size)
{
	struct collection *t = LIST_OBJECT(r, struct collection, result);
	char *shown;

	t->row[r->cell] = NOTHING;
	if (t->item->figures[r->cell]->kind == STATE && text) {
		t->row[r->cell] = (int64_t)bytes_size(&t->texts);
		bytes_append(&t->texts, text, size);
		bytes_append_u8(&t->texts, 0);
	}
	if (!is_label(t->item->figures[r->cell]))
		return;
	shown = mem_try(printable_write(NULL, text, size) + 1);
	if (shown)
		append_label(t, shown, printable_write(shown, text, size));
	t->label.failed |= !shown;
	mem_free(shown);
}

static void metrics_add_null(struct result *r)
{
	struct collection *t = LIST_OBJECT(r, struct collection, result);
	const struct figure *f = t->item->figures[r->cell];

	if (f->kind == STATE || is_optional(f))
		t->row[r->cell] = NOTHING;
	else
		metrics_add_text(r, "", 0);
}

static void metrics_add_number(struct result *r, int64_t value)
{
	struct collection *t = LIST_OBJECT(r, struct collection, result);
	char text[24];

	t->row[r->cell] = t->item->figures[r->cell]->unit == MILLISECONDS ? value * 1000 : value;
	if (is_label(t->item->figures[r->cell]))
		append_label(t, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, value));
}

static void metrics_add_count(struct result *r, uint64_t value)
{
	metrics_add_number(r, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void add_to_other(struct collection *t)
{
	for (size_t i = 0; i < t->result.column_count; i++) {
		const struct figure *f = t->item->figures[i];
		bool is_time = f->kind == GAUGE && (f->unit == SECONDS || f->unit == MILLISECONDS ||
						    f->unit == MICROSECONDS);

		if (t->row[i] == NOTHING || f->kind == STATE)
			continue;
		if (!is_time)
			t->other[i] += t->row[i];
		else if (t->row[i] > t->other[i])
			t->other[i] = t->row[i];
	}
	t->has_other = true;
}

static void keep_row(struct collection *t)
{
	bytes_append_u8(&t->label, 0);
	if (!t->label.failed)
		bytes_append(&t->labels, bytes_front(&t->label), bytes_size(&t->label));
	bytes_append(&t->values, t->row, t->result.column_count * sizeof(t->row[0]));
	t->labels.failed |= t->label.failed;
	t->rows++;
}

static void metrics_end_row(struct result *r)
{
	struct collection *t = LIST_OBJECT(r, struct collection, result);

	for (size_t i = 1; i < r->column_count; i++)
		if (is_fraction(t->item, i) && t->row[i] != NOTHING)
			t->row[i - 1] = t->row[i - 1] * USEC + t->row[i];
	if ((int64_t)t->rows < t->most)
		keep_row(t);
	else
		add_to_other(t);
}

static const struct result_format collection_format = {
	.begin_row = metrics_begin_row,
	.null = metrics_add_null,
	.text = metrics_add_text,
	.number = metrics_add_number,
	.count = metrics_add_count,
	.end_row = metrics_end_row,
};

static void collection_free(struct collection *t)
{
	result_free(&t->result);
	bytes_free(&t->labels);
	bytes_free(&t->values);
	bytes_free(&t->texts);
	bytes_free(&t->label);
	*t = (struct collection){ .rows = 0 };
}

/* The rows that were too many. */
static void keep_other(struct collection *t)
{
	bool is_first = true;

	if (!t->has_other)
		return;
	metrics_begin_row(&t->result);
	memcpy(t->row, t->other, sizeof(t->row));
	for (size_t i = 0; i < t->result.column_count; i++)
		if (t->item->figures[i]->kind == STATE)
			t->row[i] = NOTHING;
	for (t->result.cell = 0; t->result.cell < t->result.column_count; t->result.cell++)
		if (is_label(t->item->figures[t->result.cell]) &&
		    !is_optional(t->item->figures[t->result.cell])) {
			append_label(t, "other", is_first ? strlen("other") : 0);
			is_first = false;
		}
	t->result.cell = 0;
	keep_row(t);
}

/* Collects a part of the rows. Returns whether it was the last one. */
static bool metrics_collect(const struct connection *c, struct collection *t, size_t source)
{
	struct show show = { .world = c->peer.world, .version = c->web->version, .to = &t->result };

	if (!t->item) {
		t->item = show_find(sources[source].show);
		t->most = sources[source].is_limited
				  ? c->peer.world->conf->settings.metrics_max_pools
				  : INT64_MAX;
		result_init(&t->result, &collection_format, t->item->columns, t->item->all_columns);
		t->result.most = ROWS_MOST;
	}
	show.item = t->item;
	show_part(&show);
	if (t->result.walk.goes_on)
		return false;
	keep_other(t);
	return true;
}

/* ---- lines ---- */

/* Appends the lines about a metric. OpenMetrics: the name of a counter has no _total there.
   `metric` is the name of its series. */
static void write_about(struct bytes *out, const char *metric, bool is_open, bool is_counter,
			const char *help)
{
	size_t size = strlen(metric) - (is_open && is_counter ? strlen("_total") : 0);

	bytes_append_format(out, "# HELP %.*s ", (int)size, metric);
	for (const char *at = help; *at; at++)
		if (*at != '`')
			bytes_append_format(out, is_open && *at == '"' ? "\\%c" : "%c", *at);
	bytes_append_format(out, "\n# TYPE %.*s %s\n", (int)size, metric,
			    is_counter ? "counter" : "gauge");
}

/* Writes the name of a column's metric: "pgweir_", SHOW, column, unit and, for a counter, total. */
static const char *metric_name(const struct show_item *item, size_t column, char *buf, size_t size)
{
	const struct figure *f = item->figures[column];
	const char *unit = f->unit == SECONDS || f->unit == MICROSECONDS ? "_seconds"
			   : f->unit == BYTES				 ? "_bytes"
									 : "";

	if (f->metric)
		return f->metric;
	snprintf(buf, size, "pgweir_%s_%.*s%s%s", item->name, (int)strcspn(f->column, ":"),
		 f->column, unit, f->kind == COUNTER ? "_total" : "");
	for (char *at = buf; *at; at++)
		if (*at >= 'A' && *at <= 'Z')
			*at |= 0x20;
	return buf;
}

/* Appends a value: of microseconds as seconds. */
static void write_value(struct bytes *out, int64_t value, bool is_micro)
{
	uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;

	bytes_append_text(out, value < 0 ? " -" : " ");
	bytes_append_decimal(out, is_micro ? size / USEC : size);
	if (is_micro)
		bytes_append_format(out, ".%06d", (int)(size % USEC));
	bytes_append_u8(out, '\n');
}

/* Appends at most `most` lines of the current column. Returns whether the column is complete. */
static bool write_column(struct metrics_state *s, size_t most, struct bytes *out)
{
	const struct collection *t = &s->collection;
	const int64_t *values = t->rows > 0 ? (const void *)bytes_front(&t->values) : NULL;
	const struct figure *f = t->item->figures[s->column];
	bool has_fraction = s->column + 1 < t->result.column_count &&
			    is_fraction(t->item, s->column + 1);
	char name[NAME_MOST];
	const char *metric = metric_name(t->item, s->column, name, sizeof(name)), *label;
	size_t metric_size = strlen(metric), label_size;

	if (s->line == 0 && t->rows > 0)
		write_about(out, metric, s->is_open, f->kind == COUNTER, f->sentence);
	for (; s->line < t->rows && most > 0; s->line++, most--) {
		int64_t value = values[s->line * t->result.column_count + s->column];

		label = (const char *)bytes_front(&t->labels) + s->label_at;
		label_size = strlen(label);
		s->label_at += label_size + 1;
		if (value == NOTHING)
			continue;
		bytes_append(out, metric, metric_size);
		bytes_append_u8(out, '{');
		bytes_append(out, label, label_size);
		if (f->kind == STATE) {
			bytes_append_format(out, ",%.*s=\"%s\"", (int)strcspn(f->column, ":"),
					    f->column,
					    (const char *)bytes_front(&t->texts) + value);
			value = 1;
		}
		bytes_append_u8(out, '}');
		write_value(out, value,
			    has_fraction || f->unit == MILLISECONDS || f->unit == MICROSECONDS);
	}
	return s->line == t->rows;
}

/* SHOW LISTS: the label of a row is list="databases". */
static void write_lists(const struct metrics_state *s, struct bytes *out)
{
	const struct collection *t = &s->collection;
	const int64_t *values = t->rows > 0 ? (const void *)bytes_front(&t->values) : NULL;
	const char *label = t->rows > 0 ? (const char *)bytes_front(&t->labels) : NULL;
	char wanted[64];

	for (size_t row = 0; row < t->rows; row++, label += strlen(label) + 1)
		for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
			snprintf(wanted, sizeof(wanted), "list=\"%s\"", lists[i].row);
			if (strcmp(label, wanted) != 0)
				continue;
			write_about(out, lists[i].metric, s->is_open, false, lists[i].help);
			bytes_append_text(out, lists[i].metric);
			write_value(out, values[row * t->result.column_count + 1], false);
		}
}

static void write_one(struct bytes *out, const char *metric, bool is_open, bool is_counter,
		      const char *help, int64_t value, bool is_micro)
{
	write_about(out, metric, is_open, is_counter, help);
	bytes_append_text(out, metric);
	write_value(out, value, is_micro);
}

/* The histograms of all pools. Each _sum adds up the values of the buckets. */
static void write_latencies(const struct pools *pools, struct bytes *out)
{
	static const char metric[] = "pgweir_latency_seconds";

	bytes_append_format(
		out,
		"# HELP %s latencies of all pools, as in SHOW LATENCIES\n# TYPE %s histogram\n",
		metric, metric);
	for (unsigned which = 0; which < SHOWN_LATENCIES; which++) {
		uint64_t counts[LATENCY_BUCKETS] = { 0 }, count = 0, sum = 0;
		unsigned bucket = 0;

		latency_sum(pools, which, false, counts);
		for (unsigned power = LOWEST_POWER; power <= HIGHEST_POWER; power++) {
			for (; latency_bucket_low(bucket) < (uint64_t)1 << power; bucket++)
				count += counts[bucket];
			bytes_append_format(
				out, "%s_bucket{latency=\"%s\",le=\"%u.%06u\"} %" PRIu64 "\n",
				metric, latency_names[which], (1u << power) / (unsigned)USEC,
				(1u << power) % (unsigned)USEC, count);
		}
		for (bucket = 0, count = 0; bucket < LATENCY_BUCKETS; bucket++) {
			count += counts[bucket];
			sum += counts[bucket] * latency_bucket_value(bucket);
		}
		bytes_append_format(out, "%s_bucket{latency=\"%s\",le=\"+Inf\"} %" PRIu64 "\n",
				    metric, latency_names[which], count);
		bytes_append_format(out, "%s_sum{latency=\"%s\"} %" PRIu64 ".%06" PRIu64 "\n",
				    metric, latency_names[which], sum / USEC, sum % USEC);
		bytes_append_format(out, "%s_count{latency=\"%s\"} %" PRIu64 "\n", metric,
				    latency_names[which], count);
	}
}

/* The metrics of the process. */
static void write_first(const struct connection *c, bool is_open, struct bytes *out)
{
	struct timespec used = { 0, 0 };
	const struct world *w = c->peer.world;
	const struct settings *set = &w->conf->settings;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	write_one(out, "pgbouncer_up", is_open, false, "1: the pooler answers", 1, false);
	bytes_append_format(out,
			    "# HELP pgbouncer_version_info version\n# TYPE pgbouncer_version_info "
			    "gauge\npgbouncer_version_info{version=\"%s\"} 1\n",
			    c->web->version);
	write_one(out, "pgbouncer_config_max_client_connections", is_open, false, "max_client_conn",
		  set->max_client_conn, false);
	write_one(out, "pgbouncer_config_max_user_connections", is_open, false,
		  "max_user_connections", set->max_user_connections, false);
	write_one(out, "pgweir_paused", is_open, false, "1 after PAUSE or SUSPEND of all databases",
		  w->pools->paused || w->pools->suspended, false);
	write_one(out, "pgweir_shutting_down", is_open, false,
		  "1 while a shutdown waits for clients or servers", w->drain.step != DRAIN_OFF,
		  false);
	write_one(out, "pgweir_last_reload_failed", is_open, false,
		  "1 if the last RELOAD has failed", w->reload.has_failed, false);
	write_one(out, "pgweir_queries_total", is_open, true, "answered queries",
		  (int64_t)w->queries.count, false);
	write_latencies(w->pools, out);
	write_one(out, "process_cpu_seconds_total", is_open, true, "processor time",
		  (int64_t)used.tv_sec * USEC + used.tv_nsec / 1000, true);
	write_one(out, "process_start_time_seconds", is_open, false, "when the process started",
		  c->web->started_at, true);
}

static void metrics_write_part(struct connection *c)
{
	struct metrics_state *s = c->answer.state;
	struct collection *t = &s->collection;
	struct bytes *out = &c->answer.body;

	if (!s->is_collected) {
		if (s->source == 0 && !t->item)
			write_first(c, s->is_open, out);
		s->is_collected = metrics_collect(c, t, s->source);
		out->failed |= t->labels.failed || t->values.failed || t->texts.failed ||
			       t->result.rows.failed;
		return;
	}
	if (strcmp(sources[s->source].show, "LISTS") == 0) {
		write_lists(s, out);
		s->column = t->result.column_count;
	}
	for (size_t before = bytes_size(out);
	     s->column < t->result.column_count && bytes_size(out) - before < LINES_MOST * 100;) {
		if (is_metric(t->item, s->column) && !write_column(s, LINES_MOST, out))
			return;
		s->column++;
		s->line = s->label_at = 0;
	}
	if (s->column < t->result.column_count)
		return;
	collection_free(t);
	s->column = 0;
	s->is_collected = false;
	s->source++;
	if (s->source < SOURCES)
		return;
	if (s->is_open)
		bytes_append_text(out, "# EOF\n");
	c->answer.is_whole = true;
}

static void metrics_drop(void *state)
{
	struct metrics_state *s = state;

	collection_free(&s->collection);
	mem_free(s);
}

void metrics_answer(struct connection *c)
{
	struct metrics_state *s = mem_try(sizeof(*s));

	if (!s) {
		connection_tell(c, 500, "out of memory");
		return;
	}
	s->is_open = c->request.wants_openmetrics;
	connection_answer(c, 200,
			  s->is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				     : "text/plain; version=0.0.4; charset=utf-8");
	c->answer.state = s;
	c->answer.drop = metrics_drop;
	c->answer.more = metrics_write_part;
}
