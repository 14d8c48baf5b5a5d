/*
 * The cache of the resolver.
 *
 * A host is created when its name is requested and kept while it is requested. Its answer is kept even after it has expired, to
 * compare it with the next answer: connections to addresses that the next answer lacks must be closed. An answer is
 * reference-counted: a callback may look up the same name again, which can replace the answer while the callback still reads
 * it.
 *
 * Invariant: a zone exists while it has hosts, and counts them.
 */
#include "net/dns_cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

struct dns_cache_table {
	UT_hash_handle hh;
	struct dns_host *host;
};

struct dns_result dns_no_memory = { .holders = 1, .error = "out of memory" };

struct dns_result *dns_result_new(int count, const char *error)
{
	struct dns_result *result = mem_try(sizeof(*result) + (size_t)count * sizeof(result->addresses[0]));

	if (!result)
		return NULL;
	result->holders = 1;
	result->count = result->reachable = count;
	result->error = error;
	return result;
}

struct dns_result *dns_result_hold(struct dns_result *result)
{
	result->holders++;
	return result;
}

void dns_result_drop(struct dns_result **result)
{
	if (*result && --(*result)->holders == 0)
		mem_free(*result);
	*result = NULL;
}

bool dns_result_lacks(const struct dns_result *now, const struct dns_result *old)
{
	for (int i = 0; i < old->count; i++) {
		int j = 0;

		while (j < now->count && !address_is_same_host(&now->addresses[j], &old->addresses[i]))
			j++;
		if (j == now->count)
			return true;
	}
	return false;
}

void dns_cache_init(struct dns_cache *cache)
{
	memset(cache, 0, sizeof(*cache));
	list_init(&cache->hosts);
	list_init(&cache->zones);
}

struct dns_host *dns_cache_find(struct dns_cache *cache, const char *name)
{
	struct dns_cache_table *link;

	HASH_FIND(hh, cache->table, name, strlen(name), link);
	return link ? link->host : NULL;
}

struct dns_host *dns_cache_add(struct dns_cache *cache, const char *name)
{
	size_t length = strlen(name);
	struct dns_host *host = mem_try(sizeof(*host) + length + 1);
	struct dns_cache_table *link = mem_try(sizeof(*link));

	if (host && link) {
		memcpy(host->name, name, length + 1);
		host->link = link;
		link->host = host;
		HASH_ADD_KEYPTR(hh, cache->table, host->name, length, link);
	}
	if (!host || !link || !HASH_HAS(hh, link)) {
		mem_free(host);
		mem_free(link);
		return NULL;
	}
	list_init(&host->waiting);
	list_init(&host->change);
	list_append(&cache->hosts, &host->node);
	cache->host_count++;
	return host;
}

static void leave_zone(struct dns_cache *cache, struct dns_host *host)
{
	struct dns_zone *zone = host->zone;

	host->zone = NULL;
	if (!zone || --zone->hosts > 0)
		return;
	list_remove(&zone->node);
	cache->zone_count--;
	mem_free(zone);
}

static void remove_host(struct dns_cache *cache, struct dns_host *host)
{
	leave_zone(cache, host);
	HASH_DELETE(hh, cache->table, host->link);
	mem_free(host->link);
	list_remove(&host->node);
	list_remove(&host->change);
	cache->host_count--;
	dns_result_drop(&host->result);
	dns_result_drop(&host->good);
	mem_free(host);
}

void dns_cache_clear(struct dns_cache *cache)
{
	LIST_EACH_SAFE(node, &cache->hosts)
		remove_host(cache, LIST_OBJECT(node, struct dns_host, node));
}

void dns_cache_forget(struct dns_cache *cache, usec_t since)
{
	LIST_EACH_SAFE(node, &cache->hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);

		if (!host->query && list_is_empty(&host->waiting) && list_is_empty(&host->change) &&
		    host->used < since)
			remove_host(cache, host);
	}
}

struct dns_zone *dns_cache_zone(struct dns_cache *cache, const char *name)
{
	LIST_EACH(node, &cache->zones) {
		struct dns_zone *zone = LIST_OBJECT(node, struct dns_zone, node);

		if (strcmp(zone->name, name) == 0)
			return zone;
	}
	return NULL;
}

bool dns_cache_join_zone(struct dns_cache *cache, struct dns_host *host)
{
	const char *dot = strchr(host->name, '.');
	struct dns_zone *zone;
	bool is_new;

	if (host->zone || !dot || !dot[1])
		return false;
	zone = dns_cache_zone(cache, dot + 1);
	is_new = !zone;
	if (is_new) {
		zone = mem_try(sizeof(*zone) + strlen(dot));
		if (!zone)
			return false;
		memcpy(zone->name, dot + 1, strlen(dot));
		zone->serial = -1;
		list_append(&cache->zones, &zone->node);
		cache->zone_count++;
	}
	zone->hosts++;
	host->zone = zone;
	return is_new;
}

void dns_cache_leave_zones(struct dns_cache *cache)
{
	LIST_EACH(node, &cache->hosts)
		leave_zone(cache, LIST_OBJECT(node, struct dns_host, node));
}
