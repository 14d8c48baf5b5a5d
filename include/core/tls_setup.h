#ifndef CORE_TLS_SETUP_H
#define CORE_TLS_SETUP_H

#include "conf/conf.h"
#include "net/tls.h"

/* Updates both contexts according to the settings and their files. An unchanged context stays the same object; with sslmode
   disable the context becomes NULL. If a context cannot be created, an error is added and *client or *server stays unchanged.
   With `may_keep` this is a warning if there was a context before. */
void tls_setup_both(struct tls_context **client, struct tls_context **server, const struct settings *settings, bool may_keep,
		    struct conf_problems *problems);

#endif
