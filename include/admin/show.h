#ifndef ADMIN_SHOW_H
#define ADMIN_SHOW_H

#include "admin/caller.h"

/*
 * The SHOW commands: one row each in include/tbl/show.tbl, which names the function that fills in
 * the rows. That gives the cells in the order of the columns, and those of our own (behind the
 * standard ones) only when `extra`.
 */
struct show {
	struct world *world;
	const struct control *control;
	bool with_secrets;			/* for the daemon's own user at the other end of a Unix socket */
	bool extra;
	struct result *to;
	struct bytes *notices;			/* what is said beside the rows */
};
typedef void show_fill(const struct show *show);

struct show_row {
	const char *name;
	bool for_monitor;			/* stats_users may see it too */
	show_fill *fill;
	const char *const *columns;		/* the standard ones, then our own */
	size_t standard_columns, all_columns;	/* none: no result */
};

/* The row of this name in any case, or NULL. */
const struct show_row *show_find(const char *name);
/* All of them, in the order of the table; NULL behind the last. */
const struct show_row *show_at(size_t index);
/* Fills in caller->result. */
void show_run(struct caller *caller, const struct show_row *row);

/* show_connections.c, show_pools.c, show_stats.c, show_process.c */
#define SHOW(name, access, fill, standard, own) show_fill show_##fill;
#include "tbl/show.tbl"
#undef SHOW

/* How many SHOW USERS has. False: no memory. */
bool show_users_count(const struct world *world, size_t *count);
/* "0x2a": how a connection is called in ptr, link and log lines. */
const char *show_pointer(uint64_t id, char *buf, size_t size);
#define SHOW_POINTER 24

#endif
