#ifndef NET_DNS_CACHE_H
#define NET_DNS_CACHE_H

#include "base/clock.h"
#include "base/list.h"
#include "net/address.h"

/*
 * The cache of net/dns.c: hosts with their last answers, and the zones of the hosts. No I/O and no clock.
 */

/* A reference-counted answer, shared by the cache and the callbacks that read it. */
struct dns_result {
	int holders;
	int count;
	int reachable;			/* the first `reachable` addresses have a route */
	const char *error;		/* a constant; if count is 0 */
	struct address addresses[];
};
/* Returns an answer with one reference, zero addresses, and all addresses reachable. NULL: no memory. */
struct dns_result *dns_result_new(int count, const char *error);
struct dns_result *dns_result_hold(struct dns_result *result);
/* Drops a reference and sets *result to NULL; *result may be NULL. */
void dns_result_drop(struct dns_result **result);
/* The answer for missing memory. It is static and has an extra reference, so it is never freed. */
extern struct dns_result dns_no_memory;
/* Whether `old` has an address that `now` lacks. */
bool dns_result_lacks(const struct dns_result *now, const struct dns_result *old);

struct dns_zone {
	struct list node;
	int64_t serial;			/* -1: unknown */
	int hosts;
	usec_t asked_until;		/* end of the longest wait for the current SOA query; 0: no query in progress */
	char name[];
};

struct dns;
struct dns_query;
struct dns_cache_table;			/* the hash table of names, private to dns_cache.c */
struct dns_host {
	struct dns_cache_table *link;
	struct list node;
	struct dns *dns;		/* set by the owner, for the end of the query */
	struct dns_result *result;	/* the last answer; NULL: no answer yet */
	struct dns_result *good;	/* the last answer with addresses, to compare the next answer with */
	usec_t expires;			/* of `result` */
	usec_t used;			/* when it was requested last */
	struct dns_query *query;	/* in progress, or NULL */
	bool ask_again;			/* its query was aborted and must be repeated */
	bool tell_first;		/* the first answer counts as a change */
	usec_t watch_after;		/* dns_watch starts no query before this time */
	struct list waiting;		/* the requests for this host */
	struct list change;		/* on the list of hosts with a change to report */
	struct dns_zone *zone;		/* NULL: in no watched zone */
	unsigned turn;			/* index of the first address for the next request */
	char name[];
};

struct dns_cache {
	struct dns_cache_table *table;
	struct list hosts;
	struct list zones;
	int host_count, zone_count;
};

void dns_cache_init(struct dns_cache *cache);
/* Frees all hosts, which must have no requests, and all zones. */
void dns_cache_clear(struct dns_cache *cache);
/* NULL: not found. */
struct dns_host *dns_cache_find(struct dns_cache *cache, const char *name);
/* Adds a new name. NULL: no memory. */
struct dns_host *dns_cache_add(struct dns_cache *cache, const char *name);
/* Removes hosts without requests since `since`. */
void dns_cache_forget(struct dns_cache *cache, usec_t since);
/* Adds the host to the zone named by the part after its first dot. Returns whether the zone is new. */
bool dns_cache_join_zone(struct dns_cache *cache, struct dns_host *host);
struct dns_zone *dns_cache_zone(struct dns_cache *cache, const char *name);
/* Removes all zones; the hosts stay. */
void dns_cache_leave_zones(struct dns_cache *cache);

#endif
