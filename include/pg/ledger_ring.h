#ifndef PG_LEDGER_RING_H
#define PG_LEDGER_RING_H

/*
 * What the files of the ledger share, and no other file includes: its entries.
 */
#include "pg/ledger.h"

#define LEDGER_SMALL (sizeof(((struct ledger *)0)->small) / sizeof(struct ledger_entry))

/* A capacity is a power of two. */
static inline uint32_t ledger_place(const struct ledger *l, uint32_t index)
{
	return (l->head + index) & (l->capacity - 1);
}

static inline struct ledger_entry *ledger_entry_at(struct ledger *l, uint32_t index)
{
	return &(l->entries ? l->entries : l->small)[ledger_place(l, index)];
}

static inline const struct ledger_entry *ledger_head(const struct ledger *l)
{
	return l->entries ? &l->entries[l->head] : &l->small[l->head];
}

static inline bool ledger_may_open_copy(uint8_t kind)
{
	return kind == LEDGER_EXECUTE || kind == LEDGER_QUERY;
}

/* What one entry of a kind adds to the counts of the ledger. */
#define LEDGER_COPIER UINT64_C(1)
#define LEDGER_END (UINT64_C(1) << 32)
extern const uint64_t ledger_weights[LEDGER_NOTHING];

/* ledger_plain.c: the row of pg_answers by which the short way goes for an entry; and to be called when anything has changed that the
   short ways rely on. */
uint8_t ledger_plain_row(enum ledger_kind kind, enum ledger_owner owner, enum ledger_mark mark);
void ledger_aim(struct ledger *ledger);
/* ledger.c: the oldest message is answered. To be followed by ledger_aim. */
void ledger_drop_answered(struct ledger *ledger);

#endif
