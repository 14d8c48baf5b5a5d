#ifndef FUZZ_HBA_READ_H
#define FUZZ_HBA_READ_H

/* Reading of HBA and ident files for unit tests and fuzz targets. */
#include "conf/conf.h"
#include "conf/hba.h"

/* Reads the rules as RELOAD does while `running` (NULL: none) is in force; `ident_file` may be NULL. Returns them also if they must not replace
   `running`: `problems` then has errors. NULL: a file cannot be read. */
static inline struct hba *hba_read(const char *hba_file, const char *ident_file, enum hba_tls tls, struct hba *running, struct conf_problems *problems)
{
	struct conf now = { .hba = running }, conf = { .settings = {
		.auth_type = AUTH_HBA, .auth_hba_file = hba_file, .auth_ident_file = ident_file,
		.client_tls_sslmode = tls == HBA_TLS_OFF ? SSLMODE_DISABLE : SSLMODE_ALLOW,
		.client_tls_ca_file = tls == HBA_TLS_CERTIFICATES ? "ca" : NULL,
	} };

	conf_read_rules(&conf, running ? &now : NULL, false, problems);
	return conf.hba;
}

#endif
