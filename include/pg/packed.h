#ifndef PG_PACKED_H
#define PG_PACKED_H

#include "base/bytes.h"
#include "pg/ledger.h"
#include "pg/statement.h"

/*
 * What this room knows of a connection, packed for another process of ours: see packed.c. The order of what is packed is the
 * order in which it is unpacked; a reader that meets what it cannot use sets in->bad.
 */

/* By name, so that the other process may track other parameters: it forgets those that it does not track. */
void params_pack(struct bytes *out, const struct params_table *table, const struct params *set);
/* A reference. NULL: in->bad, or no memory. */
const struct params *params_unpack(struct unpack *in, struct params_table *table);
/* A set of parameters as bits, bit i for parameter i; by name too. */
void params_pack_bits(struct bytes *out, const struct params_table *table, uint64_t bits);
uint64_t params_unpack_bits(struct unpack *in, const struct params_table *table);

void ledger_pack(struct bytes *out, const struct ledger *ledger);
/* Into one that is initialised. False: in->bad, or no memory; the ledger is then empty. */
bool ledger_unpack(struct unpack *in, struct ledger *ledger);

void statement_pack(struct bytes *out, const struct params_table *table, const struct statement *statement);
/* A reference to a statement of the same number, name and text. NULL: in->bad, or no memory. */
struct statement *statement_unpack(struct unpack *in, struct params_table *table, struct statements *all);

#endif
