#ifndef NET_DNS_CACHE_H
#define NET_DNS_CACHE_H

#include "base/clock.h"
#include "base/list.h"
#include "net/address.h"

/*
 * What net/dns.c remembers: hosts with their last answers, and the zones they are in. No I/O and no clock.
 */

/* An answer, shared between the cache and those it is being delivered to. */
struct dns_result {
	int holders;
	int count;
	int reachable;			/* the first of them, as far as the routing table knows */
	const char *error;		/* a constant; when count is 0 */
	struct address addresses[];
};
/* Held once by the caller; the addresses are zeros, and all held for reachable. NULL: no memory. */
struct dns_result *dns_result_new(int count, const char *error);
struct dns_result *dns_result_hold(struct dns_result *result);
/* Frees with the last holder and sets *result to NULL; NULL is fine. */
void dns_result_drop(struct dns_result **result);
/* Stands for the answer that there was no memory for; a holder more is the program, so it is never freed. */
extern struct dns_result dns_no_memory;
/* True when `old` has an address that `now` lacks. */
bool dns_result_lacks(const struct dns_result *now, const struct dns_result *old);

struct dns_zone {
	struct list node;
	int64_t serial;			/* -1: not known */
	int hosts;
	usec_t asked_until;		/* a question for its serial is under way until then at most; 0: none is */
	char name[];
};

struct dns;
struct dns_query;
struct dns_cache_table;			/* the hash of names, of no concern to others */
struct dns_host {
	struct dns_cache_table *link;
	struct list node;
	struct dns *dns;		/* the owner that learns of the query's end */
	struct dns_result *result;	/* last answer; NULL: none yet */
	struct dns_result *good;	/* last one that had addresses, to compare the next with */
	usec_t expires;			/* of `result` */
	usec_t used;			/* last asked for */
	struct dns_query *query;	/* under way, or NULL */
	bool ask_again;			/* it was cut short */
	bool tell_first;		/* the code that depends on the name does not know its addresses from here */
	usec_t watch_after;		/* not asked for before, unless a request looks it up */
	struct list waiting;		/* requests that wait for it */
	struct list change;		/* on the list of hosts with a change that is to be told */
	struct dns_zone *zone;		/* NULL: in none that is watched */
	unsigned turn;			/* place of the address that the next request begins with */
	char name[];
};

struct dns_cache {
	struct dns_cache_table *table;
	struct list hosts;
	struct list zones;
	int host_count, zone_count;
};

void dns_cache_init(struct dns_cache *cache);
/* Frees all hosts, which no request may wait for any more, and zones. */
void dns_cache_clear(struct dns_cache *cache);
/* NULL when it is not there. */
struct dns_host *dns_cache_find(struct dns_cache *cache, const char *name);
/* Adds a name that is not there. NULL: no memory. */
struct dns_host *dns_cache_add(struct dns_cache *cache, const char *name);
/* Forgets hosts that no request waits for and none has asked for since `since`. */
void dns_cache_forget(struct dns_cache *cache, usec_t since);
/* Puts the host into the zone named by what follows its first dot. True when that zone is new. */
bool dns_cache_join_zone(struct dns_cache *cache, struct dns_host *host);
struct dns_zone *dns_cache_zone(struct dns_cache *cache, const char *name);
/* Forgets all zones; the hosts stay. */
void dns_cache_leave_zones(struct dns_cache *cache);

#endif
