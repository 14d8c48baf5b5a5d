#ifndef SHOW_FIGURE_H
#define SHOW_FIGURE_H

#include "auth/client_address.h"
#include "cancel/cancel.h"
#include "conf/value.h"
#include "conn/world.h"
#include "core/alarm.h"
#include "core/connection_row.h"
#include "core/diagnosis.h"
#include "pool/drain.h"
#include "pool/rows.h"
#include "relay/query_stats.h"
#include "show/show.h"
#include "sql/statement.h"
#include "verify/verifier.h"

/*
 * The columns of SHOW (figure.c), and the structs of rows that the functions show_... fill
 * (show.c).
 */

/* Rows that no other room defines, one struct for a group of figures in include/tbl/figure.tbl. */
struct config_row { const char *name, *value, *default_text; bool is_changeable; };
struct peer_row { int64_t id, port, pool_size; const char *host; };
struct peer_pool_row { int64_t id; struct peer_count count; };
struct named_user_row { const char *name; struct user_row of; };
struct text_row { const char *name, *value; };
struct count_row { const char *name; uint64_t value; };
struct memory_row { const char *name; size_t size, used, unused; };
struct dns_host_row { const char *name, *addresses; int64_t ttl; };
struct dns_zone_row { const char *name; int64_t serial, hosts; };
struct stats_row { const char *database; struct stats total, average; };
struct latency_row {
	const char *database, *user;
	enum latency_shown which;
	struct latency_figures minute, total;
};
struct reason_row { const struct close_reason_row *row; const char *fault; uint64_t count; };
/* one of them may be NULL */
struct statement_row { const struct statement *statement; const struct query_entry *stats; };
struct wait_row { const struct connection_row *client; struct client_wait wait; };
struct fd_row {
	/* link: descriptor of the connection at the other end; 0: none */
	int64_t fd, port, cancel, link;
	/* NULL: not known, or not shown */
	const char *task, *user, *database, *address, *password;
	const struct params *params;		/* NULL: not known */
};

enum group {
	GROUP_CONFIG,
	GROUP_DATABASE,
	GROUP_DATABASE_EXTRA,
	GROUP_POOL,
	GROUP_POOL_EXTRA,
	GROUP_PEER,
	GROUP_PEER_POOL,
	GROUP_CONNECTION,
	GROUP_BUFFER,
	GROUP_CONNECTION_EXTRA,
	GROUP_USER,
	GROUP_USER_EXTRA,
	GROUP_VERSION,
	GROUP_STATE,
	GROUP_FD,
	GROUP_LIST,
	GROUP_MEMORY,
	GROUP_DNS_HOST,
	GROUP_DNS_ZONE,
	GROUP_STATS,
	GROUP_STATS_TOTAL,
	GROUP_STATS_AVERAGE,
	GROUP_STATS_TOTALS,
	GROUP_STATS_AVERAGES,
	GROUP_LATENCY,
	GROUP_TOTAL,
	GROUP_VERIFIER,
	GROUP_ADDRESS,
	GROUP_HOST,
	GROUP_PIN,
	GROUP_REASON,
	GROUP_WAIT,
	GROUP_DRAIN,
	GROUP_STATEMENT,
	GROUP_ALARM
};
#define GROUP(name) ((uint64_t)1 << GROUP_##name)
#define NO_GROUP 0

/* All columns, in the order of include/tbl/figure.tbl. */
extern const struct figure show_figures[];
extern const size_t show_figure_count;

#endif
