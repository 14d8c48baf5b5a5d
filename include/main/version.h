#ifndef MAIN_VERSION_H
#define MAIN_VERSION_H

#include <stdio.h>

struct event_base;

/* Prints the output of --version: the version that monitoring tools parse, then the versions of the libraries, one per line. */
void version_print(FILE *to);
/* Logs "process up: pgweir X.Y.Z, libevent V (backend), adns: ..., tls: ...". */
void version_log_up(struct event_base *base);

#endif
