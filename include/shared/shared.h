#ifndef SHARED_SHARED_H
#define SHARED_SHARED_H

#include "shared/budgets.h"

/*
 * What all worlds of a process have in common. A world is one event loop with its connections and
 * pools; each has a pointer to the one struct shared, which outlives them.
 */
struct shared {
	struct named_budget *budgets;	/* uthash by kind and name; see budget_hold() */
	/* all client connections, including console and unauthenticated clients, without cancel
	   requests: max_client_conn */
	struct budget clients;
	/* servers that only look-ups use: max_auth_query_connections */
	struct budget lookup_servers;
	/* pools that wait for a host under max_host_connections, longest waiting first */
	struct list waiting_for_hosts;	/* struct budget_wait */
	struct list worlds;		/* struct bell of each world */
	unsigned world_count;		/* their number */
};
/* What other worlds tell one world. */
struct bell {
	struct list node;		/* of shared->worlds */
	/* how many times an object of any world waits for a budget, and how many hosts exceed
	   theirs: 0 in most turns, and then a server that is released wakes nothing. Each world has
	   a copy, because it is read for each transaction */
	int64_t shortages;
	/* pools of other worlds wait for servers that may be idle here */
	bool is_asked;
};

/* Ends the process if there is no memory. */
struct shared *shared_new(void);
/* A world begins and ends to share. */
void shared_join(struct shared *shared, struct bell *bell);
void shared_leave(struct shared *shared, struct bell *bell);
/* Adds to the shortages of all worlds. */
void shared_count_shortages(struct shared *shared, int64_t change);
/* No world may use it any more. Sets *shared to NULL; *shared may be NULL. */
void shared_free(struct shared **shared);

#endif
