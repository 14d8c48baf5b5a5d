#ifndef CONF_HBA_PARTS_H
#define CONF_HBA_PARTS_H

#include "conf/hba.h"
#include "conf/index.h"
#include "conf/record.h"

/*
 * What rules and maps consist of; for hba.c, which matches them, and for their readers, hba_line.c and ident_line.c, only.
 */

/* Kinds of connections, as a set. */
enum { HBA_LOCAL = 1, HBA_TLS = 2, HBA_CLEAR = 4 };

/* A list of databases or users. */
struct hba_pattern {
	struct pattern *pattern;
	struct hba_pattern *next;
};
struct hba_names {
	bool all, same_user, replication;
	struct index exact;
	struct hba_pattern *patterns;
};

enum hba_address_kind { HBA_ADDRESS_ALL, HBA_ADDRESS_MASK, HBA_ADDRESS_SAME_HOST, HBA_ADDRESS_SAME_NET };
struct hba_address {
	enum hba_address_kind kind;
	uint8_t size;			/* 4 or 16 */
	uint8_t ip[16], mask[16];
};

struct hba_line {
	struct hba_rule rule, unknown;	/* what holds where the address fits, and where that cannot be known */
	unsigned transports;		/* HBA_LOCAL... */
	struct hba_names databases, users;
	struct hba_address address;
	struct hba_line *next;
};

struct ident_line {
	const char *map;
	const char *system_name;	/* what is compared when there is no pattern */
	struct pattern *system_pattern;
	const char *user;		/* may have a \1, when system_pattern is there */
	bool takes_group;		/* that \1 is replaced */
	bool any_user;
	struct pattern *user_pattern;
	struct ident_line *next;
};

/* Reads a record into `line`, which is zero. A faulty record makes a line that refuses what it could be about
   (rule.is_faulty). False: the record has no fields, and there is no line. What the line holds is released with
   hba_line_clear in any case. `tls` as for hba_load. */
bool hba_line_read(struct hba_line *line, struct record *record, enum hba_tls tls);
void hba_line_clear(struct hba_line *line);
/* Reads a record into `line`, which is zero. False: the record is faulty; what the line holds is released with
   ident_line_clear in any case. */
bool ident_line_read(struct ident_line *line, struct record *record);
void ident_line_clear(struct ident_line *line);
/* True when the line, which is one of the right map, lets the system's name be this user. */
bool ident_line_allows(const struct ident_line *line, const char *system_name, const char *user);

/* "10.0.0.0/8", or an address with the mask `mask` (NULL: it has none). An IPv6 address that maps an IPv4 one becomes that
   where the mask allows. NULL, or what is wrong. */
const char *hba_address_read(struct hba_address *address, const char *text, const char *mask);
/* True when the text needs a mask behind it. */
bool hba_address_is_bare(const char *text);
/* True when what has been read as the address, 4 or 16 bytes, looks like a mask. */
bool hba_address_may_be_mask(const struct hba_address *address);
enum hba_fit hba_address_fits(const struct hba_address *address, const struct hba_client *client);

#endif
