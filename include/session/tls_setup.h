#ifndef SESSION_TLS_SETUP_H
#define SESSION_TLS_SETUP_H

#include "conf/conf.h"
#include "net/tls.h"

/* Brings both contexts to what the settings and the files they name say now. A context that does not change stays the same
   object; one with the sslmode disable becomes NULL. What cannot be made is an error in problems, and its place is left as it was. With
   `may_keep` it is a warning where there was a context before. */
void tls_setup_both(struct tls_context **client, struct tls_context **server, const struct settings *settings, bool may_keep,
		    struct conf_problems *problems);

#endif
