#ifndef SHOW_ROWS_H
#define SHOW_ROWS_H

#include "auth/client_address.h"
#include "cancel/peers.h"
#include "pool/rows.h"
#include "core/connection_row.h"
#include "show/show.h"
#include "verify/verifier.h"

/* Rows of SHOW that no other room defines, one struct for a group of figures in include/tbl/figure.tbl. */
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
struct address_row { const char *text; int64_t clients, logins, refused, failures; };
struct reason_row { const struct close_reason_row *row; const char *fault; uint64_t count; };
struct fd_row {
	int64_t fd, port, cancel, link;		/* link: descriptor of the connection at the other end; 0: none */
	const char *task, *user, *database, *address, *password;	/* NULL: not known, or not shown */
	const struct params *params;		/* NULL: not known */
};

/* The functions of show.tbl: show_connections.c, show_pools.c, show_process.c. */
void show_config(const struct show *show);
void show_databases(const struct show *show);
void show_pools(const struct show *show);
void show_peers(const struct show *show);
void show_peer_pools(const struct show *show);
void show_clients(const struct show *show);
void show_servers(const struct show *show);
void show_users(const struct show *show);
void show_version(const struct show *show);
void show_state(const struct show *show);
void show_fds(const struct show *show);
void show_sockets(const struct show *show);
void show_active_sockets(const struct show *show);
void show_lists(const struct show *show);
void show_mem(const struct show *show);
void show_dns_hosts(const struct show *show);
void show_dns_zones(const struct show *show);
void show_stats(const struct show *show);
void show_totals(const struct show *show);
void show_verifiers(const struct show *show);
void show_addresses(const struct show *show);
void show_pins(const struct show *show);
void show_reasons(const struct show *show);
void show_reasons_all(const struct show *show);

#endif
