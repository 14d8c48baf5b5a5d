#ifndef SHOW_SHOW_H
#define SHOW_SHOW_H

#include "show/result.h"

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct world;

/*
 * The SHOW commands, for any format: include/tbl/show.tbl has a row for each,
 * include/tbl/figure.tbl a row for each column.
 */
struct show {
	struct world *world;
	const char *version;			/* of pgweir and the console */
	bool with_secrets;			/* SHOW FDS gives secrets, too */
	const struct show_item *item;
	struct result *to;
	const char *only_database, *only_user;	/* of pools and connections; NULL: all */
	/* of connections: only the first of this pool (connections_of_pool), ... */
	const struct pool *pool;
	/* ... and so many, fewer than to->most; NULL: all pools */
	size_t pool_most;
};

enum figure_kind { LABEL, INFO, GAUGE, COUNTER, STATE };
enum figure_unit { NONE, SECONDS, MILLISECONDS, MICROSECONDS, BYTES };

/* A column. */
struct figure {
	const char *column;			/* "name:type" */
	void (*cell)(const struct show *show, const void *row);
	uint64_t group;				/* one bit */
	uint8_t kind, unit;			/* enum figure_kind, figure_unit */
	const char *sentence;
	/* Name in /metrics; METRIC_LABEL: a label of all metrics of the row, as is each LABEL;
	   METRIC_LABEL_IF_SET: unless it is NULL; NULL: "pgweir_" and the names of item and
	   column. */
	const char *metric;
};
#define METRIC_LABEL ""
#define METRIC_LABEL_IF_SET "?"

struct show_item {
	const char *name;
	bool for_monitor;			/* stats_users may see it too */
	/* Writes rows to show->to, which result_init() has prepared with the standard or with all
	   columns of the item. More rows are left if show->to->walk.goes_on; the next call gives
	   them. NULL: no rows. */
	void (*fill)(const struct show *show);
	uint64_t standard, extra;		/* groups of figures */
	const char *sentence;
	size_t standard_columns, all_columns;	/* 0: no result */
	/* "name:type", the extra ones last; ends with NULL */
	const char *columns[RESULT_COLUMNS + 1];
	const struct figure *figures[RESULT_COLUMNS];	/* of the same columns */
};

/* The item of this name in any case, or NULL. */
const struct show_item *show_find(const char *name);
/* All items, in the order of the table; NULL after the last. */
const struct show_item *show_at(size_t index);
/* Writes the next part of the rows: at most show->to->most. As fill() otherwise. */
void show_part(const struct show *show);
#endif
