#ifndef ADMIN_RESULT_WIRE_H
#define ADMIN_RESULT_WIRE_H

#include "show/result.h"

/* Writes rows as DataRow messages, each column in text or in binary. */
extern const struct result_format result_wire;

enum wire_format { WIRE_TEXT, WIRE_BINARY };

/* Sets the format codes of a Bind: none (all text), one for all columns, or one per column. False: another number of codes. The
   codes must be of enum wire_format. */
bool result_set_formats(struct result *r, const uint16_t *codes, size_t count);
/* Appends the RowDescription, with the formats. */
void result_describe(const struct result *r, struct bytes *out);
/* Moves at most `most` rows (0: all) to the end of `out`; returns their number. */
size_t result_give(struct result *r, size_t most, struct bytes *out);

#endif
