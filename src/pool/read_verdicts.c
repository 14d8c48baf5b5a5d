/*
 * Verdicts on SQL texts, by the hash of a text: 64 bits under the key of the process, so that no
 * client can choose a text with the hash of another one.
 *
 * A verdict holds for all roles and for each search_path, because the question to the catalogue
 * counts names in every schema (sql/read_text.h). It belongs to one count of definitions; databases
 * with the same name on the same servers share this count (struct written). A database of the
 * configuration that has no roles may be the same one by another way: a command there changes the
 * counts of all.
 *
 * Invariant: at most READ_VERDICTS_MOST verdicts; the least recently used verdict leaves first.
 */
#include "pool/read_verdicts.h"

#include "base/hash.h"
#include "pool/freshness.h"
#include "pool/inside.h"

struct read_entry {
	UT_hash_handle hh;
	struct list node;		/* in `used` */
	uint64_t key, definitions;
	usec_t at;			/* when the verdict was set */
	enum read_verdict verdict;
};
struct read_verdicts {
	struct read_entry *table;	/* uthash by key */
	struct list used;		/* the last used first */
	void *basis;			/* see read_verdicts_basis() */
	void (*free_basis)(void *basis);
};

static struct read_entry *verdicts_find(const struct database *database, uint64_t key)
{
	struct read_verdicts *all = database->roles ? database->roles->verdicts : NULL;
	struct read_entry *entry = NULL;

	if (all)
		HASH_FIND(hh, all->table, &key, sizeof(key), entry);
	if (entry) {
		list_remove(&entry->node);
		list_prepend(&all->used, &entry->node);
	}
	return entry;
}

static void verdicts_drop(struct read_verdicts *all, struct read_entry *entry)
{
	HASH_DELETE(hh, all->table, entry);
	list_remove(&entry->node);
	mem_free(entry);
}

enum read_verdict read_verdict_on(const struct database *database, uint64_t key, usec_t now)
{
	const struct read_entry *entry = verdicts_find(database, key);

	if (!entry || entry->definitions != database->roles->written->definitions)
		return STANDBY_UNKNOWN;
	if (entry->verdict != STANDBY_NEVER && entry->verdict != STANDBY_SUITS &&
	    now - entry->at >= READ_VERDICT_LASTS)
		return STANDBY_UNKNOWN;
	return entry->verdict;
}

/* Returns the verdicts of the database. NULL: no memory. */
static struct read_verdicts *verdicts_of(struct roles *roles)
{
	struct read_verdicts *all = roles->verdicts ? roles->verdicts : mem_try(sizeof(*all));

	if (all && !roles->verdicts)
		list_init(&all->used);
	roles->verdicts = all;
	return all;
}

void **read_verdicts_basis(const struct database *database, void (*free_it)(void *basis))
{
	struct read_verdicts *all = verdicts_of(database->roles);

	if (!all)
		return NULL;
	all->free_basis = free_it;
	return &all->basis;
}

/* Returns a new entry, or NULL. */
static struct read_entry *verdicts_add(struct roles *roles, uint64_t key)
{
	struct read_verdicts *all = verdicts_of(roles);
	struct read_entry *entry;

	if (!all)
		return NULL;
	if (HASH_COUNT(all->table) >= READ_VERDICTS_MOST)
		verdicts_drop(all, LIST_OBJECT(list_last(&all->used), struct read_entry, node));
	entry = mem_try(sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = key;
	HASH_ADD(hh, all->table, key, sizeof(key), entry);
	if (!HASH_HAS(hh, entry)) {
		mem_free(entry);
		return NULL;
	}
	list_prepend(&all->used, &entry->node);
	return entry;
}

void read_verdict_set(struct database *database, uint64_t key, enum read_verdict verdict,
		      uint64_t definitions, usec_t now)
{
	struct read_entry *entry;

	if (!database->roles || database->roles->written->definitions != definitions)
		return;
	entry = verdicts_find(database, key);
	if (!entry)
		entry = verdicts_add(database->roles, key);
	if (!entry)
		return;
	entry->definitions = definitions;
	entry->verdict = verdict;
	entry->at = now;
}

void read_definitions_changed(const struct database *database)
{
	if (database->roles) {
		database->roles->written->definitions++;
		return;
	}
	for (struct written *written = database->pools->written; written;
	     written = written->hh.next)
		written->definitions++;
}

void read_verdicts_free(struct read_verdicts **place)
{
	struct read_verdicts *all = *place;

	*place = NULL;
	if (!all)
		return;
	LIST_EACH_SAFE(node, &all->used)
		verdicts_drop(all, LIST_OBJECT(node, struct read_entry, node));
	if (all->free_basis)
		all->free_basis(all->basis);
	mem_free(all);
}
