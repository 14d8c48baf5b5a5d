#ifndef MAIN_VERSION_H
#define MAIN_VERSION_H

#include <stdio.h>

struct event_base;

/* The answer to --version: the version that monitoring looks for, then those of the libraries, one a line. */
void version_print(FILE *to);
/* Logs "process up: pgweir X.Y.Z, libevent V (backend), adns: ..., tls: ...". */
void version_log_up(struct event_base *base);

#endif
