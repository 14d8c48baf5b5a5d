#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* The version of pgweir; configure reads it from this file. */
#define PGWEIR_VERSION "0.1.0"

/* The text of SHOW VERSION and the first line of --version: monitoring tools derive the expected
   columns from its first three numbers. */
#define PGWEIR_COMPATIBLE_VERSION "PgBouncer 1.25.2 (pgweir " PGWEIR_VERSION ")"

#endif
