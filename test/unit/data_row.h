#ifndef UNIT_DATA_ROW_H
#define UNIT_DATA_ROW_H

/*
 * The DataRow of a server that a test plays.
 */
#include "pg/build.h"

#include <string.h>

/* A NULL cell is SQL null. */
static inline void pg_build_data_row(struct bytes *out, const char *const *cells, size_t count)
{
	size_t mark = pg_begin(out, 'D');

	bytes_append_u16(out, (uint16_t)count);
	for (size_t i = 0; i < count; i++) {
		size_t size = cells[i] ? strlen(cells[i]) : 0;

		bytes_append_u32(out, cells[i] ? (uint32_t)size : UINT32_MAX);
		if (size)
			bytes_append(out, cells[i], size);
	}
	pg_end(out, mark);
}

#endif
