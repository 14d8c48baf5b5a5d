#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* The one place that names our version: configure reads it from here. */
#define PGWEIR_VERSION "0.1.0"

/* What SHOW VERSION and the first line of --version say: monitoring looks for the first three numbers in it to decide
   which columns to expect. */
#define PGWEIR_COMPATIBLE_VERSION "PgBouncer 1.25.2 (pgweir " PGWEIR_VERSION ")"

#endif
