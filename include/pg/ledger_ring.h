#ifndef PG_LEDGER_RING_H
#define PG_LEDGER_RING_H

/*
 * What the files of the ledger share, and no other file includes: its entries, and how far the answer to the oldest has come.
 */
#include "pg/ledger.h"

#define LEDGER_SMALL (sizeof(((struct ledger *)0)->small) / sizeof(struct ledger_entry))

enum kind {
	PARSE, BIND, DESCRIBE, DESCRIBE_STATEMENT, EXECUTE, CLOSE,
	SYNC, QUERY, CALL,
	COPY_END,		/* the marker; no answer belongs to it */
	PROMISE = LEDGER_LOCAL_REPLY	/* answered by the pooler, in its turn */
};

enum stage {
	STAGE_BEGIN,		/* also: between the statements of a Query */
	STAGE_TYPES,		/* ParameterDescription has come, RowDescription or NoData has not */
	STAGE_COPY_IN,
	STAGE_COPY_OUT,
	STAGE_COPY_BOTH,
	STAGE_ENDED		/* Query, FunctionCall: only ReadyForQuery has not come */
};

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
	return kind == EXECUTE || kind == QUERY;
}

/* What one entry of a kind adds to the counts of the ledger. */
#define LEDGER_COPIER UINT64_C(1)
#define LEDGER_END (UINT64_C(1) << 32)
extern const uint64_t ledger_weights[LEDGER_LOCAL_REPLY + 1];

/* ledger_plain.c: the row of the table of answers that an entry has by itself; and to be called when anything has changed that the
   short ways rely on. */
uint8_t ledger_plain_row(enum kind kind, enum ledger_owner owner, bool marked);
void ledger_aim(struct ledger *ledger);
/* ledger.c: the oldest message is answered. To be followed by ledger_aim. */
void ledger_drop_answered(struct ledger *ledger);

#endif
