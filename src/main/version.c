/*
 * The version, and the environment of pgweir. Library versions are read at run time, not from the headers at build time.
 */
#include "main/version.h"

#include "base/log.h"
#include "base/version.h"

#include <ares.h>
#include <event2/event.h>
#include <openssl/crypto.h>

void version_print(FILE *to)
{
	fprintf(to, "%s\n", PGWEIR_COMPATIBLE_VERSION);
	fprintf(to, "libevent %s\n", event_get_version());
	fprintf(to, "adns: c-ares %s\n", ares_version(NULL));
	fprintf(to, "tls: %s\n", OpenSSL_version(OPENSSL_VERSION));
#ifdef HAVE_PAM
	fprintf(to, "pam: yes\n");
#else
	fprintf(to, "pam: no\n");
#endif
#ifdef HAVE_LDAP
	fprintf(to, "ldap: yes\n");
#else
	fprintf(to, "ldap: no\n");
#endif
#ifdef HAVE_LIBSYSTEMD
	fprintf(to, "systemd: yes\n");
#else
	fprintf(to, "systemd: no\n");
#endif
}

void version_log_up(struct event_base *base)
{
	log_info("process up: pgweir %s, libevent %s (%s), adns: c-ares %s, tls: %s", PGWEIR_VERSION, event_get_version(),
		 event_base_get_method(base), ares_version(NULL), OpenSSL_version(OPENSSL_VERSION));
}
