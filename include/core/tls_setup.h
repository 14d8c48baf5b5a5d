#ifndef CORE_TLS_SETUP_H
#define CORE_TLS_SETUP_H

#include "conn/world.h"

/* TLS contexts from settings: see tls_setup.c. */

/* Makes the TLS contexts of a configuration. Unchanged contexts are the same objects as in `old`;
   with sslmode disable it is NULL. If a context cannot be made, an error is added and the context
   of `old` stays; with `may_keep` this is a warning if there is one. `fresh` is zero before. */
void tls_contexts_make(struct tls_contexts *fresh, const struct tls_contexts *old,
		       const struct conf *conf, bool may_keep, struct conf_problems *problems);
/* Drops the contexts; *contexts is zero then. */
void tls_contexts_drop(struct tls_contexts *contexts);
/* Marks the servers over TCP of each database if its own TLS context differs from the context in
   `old`. Returns whether there is such a database. */
bool tls_contexts_retire_changed(struct world *world, const struct tls_contexts *old);
/* The settings client_tls_... */
struct tls_config tls_config_of_clients(const struct settings *settings);

#endif
