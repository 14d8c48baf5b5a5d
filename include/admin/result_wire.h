#ifndef ADMIN_RESULT_WIRE_H
#define ADMIN_RESULT_WIRE_H

#include "show/result.h"

/* Writes rows as DataRow messages, each column in text or in binary. */
extern const struct result_format result_wire;

enum wire_format { WIRE_TEXT, WIRE_BINARY };

/* Appends the RowDescription, with the formats. */
void result_describe(const struct result *r, struct bytes *out);
/* Moves at most `most` rows (0: all) to the end of `out`; returns their number. */
size_t result_give(struct result *r, size_t most, struct bytes *out);

#endif
