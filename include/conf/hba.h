#ifndef CONF_HBA_H
#define CONF_HBA_H

#include "conf/conf.h"
#include "conf/ldap.h"

#include <stdint.h>

/*
 * The rules of auth_type=hba: an immutable snapshot of an HBA file and an ident file. It is
 * reference-counted, so a login keeps its rule while a RELOAD replaces the snapshot.
 */
struct hba;

/* Whether a rule fits a client. */
enum hba_fit { HBA_FITS_NOT, HBA_FITS, HBA_FIT_UNKNOWN };

/* The properties of a client, which rules are compared with. */
struct hba_client {
	const char *database, *user;	/* from the start-up packet, whether they exist or not */
	/* another name that lines may use for the same database; may be NULL */
	const char *alias;
	/* a physical replication connection: only the keyword `replication` fits it */
	bool is_physical;
	bool is_tls;
	uint8_t ip_size;		/* 4 or 16; 0: Unix socket */
	uint8_t ip[16];			/* network byte order */
	/* samehost, samenet: whether the address belongs to this machine, or to a network of this
	   machine. NULL: unknown. */
	enum hba_fit (*is_near)(const struct hba_client *client, bool whole_net);
};

/* clientcert=: the certificate that a TLS client needs in addition */
enum hba_certificate {
	HBA_CERTIFICATE_NONE,
	HBA_CERTIFICATE_VALID,		/* verify-ca */
	/* verify-full: its common name, or the user that `map` maps it to, is the user */
	HBA_CERTIFICATE_OF_USER
};

struct hba_rule {
	const char *file;		/* the location of the line */
	int line;
	/* the line cannot be used and refuses the login; the members below have no meaning */
	bool is_faulty;
	/* the same, because it is unknown whether the address fits the client */
	bool is_unknown;
	/* never AUTH_ANY or AUTH_HBA; AUTH_REJECT if the line is faulty or unknown */
	enum auth_type method;
	enum hba_certificate certificate;
	const char *map;		/* a map of the ident file; NULL: names must be equal */
	const struct ldap_options *ldap;	/* AUTH_LDAP only */
	const char *pam_service;	/* AUTH_PAM only; may be NULL */
};

enum hba_tls {				/* the TLS support that clients get */
	HBA_TLS_OFF, HBA_TLS_ON,
	HBA_TLS_CERTIFICATES		/* and clients are asked for a certificate */
};

struct hba *hba_hold(struct hba *hba);
/* Releases a reference and sets *hba to NULL; *hba may be NULL. */
void hba_drop(struct hba **hba);

/* Returns the files that the rules and maps were read from, including included files. */
const struct conf_file *hba_files(const struct hba *hba);

/* Returns the first rule that fits, or that may fit (is_unknown), or NULL. Valid as long as the
   snapshot. */
const struct hba_rule *hba_find(const struct hba *hba, const struct hba_client *client);
/* Whether `system_name`, from the operating system or a certificate, may log in as `user`:
   according to the lines of `map`, or if `map` is NULL, if the names are equal. */
bool hba_map_allows(const struct hba *hba, const char *map, const char *system_name,
		    const char *user);

#endif
