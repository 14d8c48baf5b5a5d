#ifndef CONF_HBA_H
#define CONF_HBA_H

#include "conf/conf.h"
#include "conf/ldap.h"

#include <stdint.h>

/*
 * The rules of auth_type=hba: an HBA file and an ident file, read, checked, and from then on never changed. A snapshot is
 * counted by references, so a login keeps the rule that holds for it while a RELOAD makes the next.
 */
struct hba;

/* Whether something fits a client. */
enum hba_fit { HBA_FITS_NOT, HBA_FITS, HBA_FIT_UNKNOWN };

/* A client, as rules see it. */
struct hba_client {
	const char *database, *user;	/* as the start-up packet names them, whether they exist or not */
	const char *alias;		/* another name of the same database, which lines may mean it by; NULL: it has none */
	bool is_physical;		/* a physical replication connection: only the word `replication` fits it */
	bool is_tls;
	uint8_t ip_size;		/* 4 or 16; 0: Unix socket */
	uint8_t ip[16];			/* network byte order */
	/* samehost, samenet: whether the address is one of this machine, or in a net of this machine. NULL: unknown. */
	enum hba_fit (*is_near)(const struct hba_client *client, bool whole_net);
};

enum hba_certificate {			/* what a TLS client has to show besides (clientcert=) */
	HBA_CERTIFICATE_NONE,
	HBA_CERTIFICATE_VALID,		/* verify-ca */
	HBA_CERTIFICATE_OF_USER		/* verify-full: its common name is, or `map` maps it to, the user */
};

struct hba_rule {
	const char *file;		/* where it stands */
	int line;
	bool is_faulty;			/* the line cannot be used, and refuses the login; nothing below counts */
	bool is_unknown;		/* the same, because nothing says whether its address fits the client */
	enum auth_type method;		/* never AUTH_ANY, AUTH_HBA; AUTH_REJECT when the line is faulty or unknown */
	enum hba_certificate certificate;
	const char *map;		/* of the ident file; NULL: names must be equal */
	const struct ldap_options *ldap;	/* AUTH_LDAP only */
	const char *pam_service;	/* AUTH_PAM only; NULL: not given */
};

enum hba_tls {				/* what TLS clients can have */
	HBA_TLS_OFF, HBA_TLS_ON,
	HBA_TLS_CERTIFICATES		/* and they are asked for a certificate */
};

/* Reads both files (ident_file NULL: there are no maps). Lines that need more than `tls` are warned of. A line that cannot be
   used adds an error that names file, line and reason. Such a line of the HBA file is a rule that refuses (is_faulty); one of
   the ident file is not among the maps. NULL, with an error, when a file cannot be read at all or there is no memory. Release
   with hba_drop. */
struct hba *hba_load(const char *hba_file, const char *ident_file, enum hba_tls tls, struct conf_problems *problems);
/* Of the problems that hba_load has added, counted from 0, the first one that is not about a line of the HBA file. */
size_t hba_problems(const struct hba *hba);
struct hba *hba_hold(struct hba *hba);
/* Sets *hba to NULL. NULL inside is fine. */
void hba_drop(struct hba **hba);

/* True when `fresh` may replace `running` (NULL: nothing runs): it has no line that cannot be used, or the very same ones. So a
   mistake does not get into a running pooler, and a file that it was started with can still be read again. */
bool hba_may_replace(const struct hba *fresh, const struct hba *running);

/* The files that the rules and maps were read from, those that they include among them. */
const struct conf_file *hba_files(const struct hba *hba);

/* The first rule that fits, or that may fit (is_unknown); NULL: none does. It lives as long as the snapshot. */
const struct hba_rule *hba_find(const struct hba *hba, const struct hba_client *client);
/* True when a person that the system, or a certificate, knows by this name may be this user: by the lines of `map`, or with
   NULL by being the same. */
bool hba_map_allows(const struct hba *hba, const char *map, const char *system_name, const char *user);
/* The word for a method on a line: "scram-sha-256", "password" for AUTH_PLAIN. */
const char *hba_method_name(enum auth_type method);

#endif
