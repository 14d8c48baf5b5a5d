#ifndef SESSION_TLS_SETUP_H
#define SESSION_TLS_SETUP_H

#include "conf/conf.h"
#include "net/tls.h"

/* Brings both contexts to what the settings and the files they name say now. A context that does not change stays the same
   object; one whose sslmode is disable becomes NULL. What cannot be made is an error in problems, and its place is left as it was. */
void tls_setup_both(struct tls_context **client, struct tls_context **server, const struct settings *settings,
		    struct conf_problems *problems);

#endif
