#ifndef SQL_STATE_FUNCTIONS_QUERY_H
#define SQL_STATE_FUNCTIONS_QUERY_H

#include "base/bytes.h"

#define FUNCTION_ROWS_MOST "20000"	/* rows of each kind that the server sends */

/* Appends the query for the fingerprint of the catalogue, and, with `has_functions`, for the rows
   that state_functions_row() takes. */
void state_functions_query(struct bytes *sql, bool has_functions);

#endif
