#ifndef CONF_HBA_PARTS_H
#define CONF_HBA_PARTS_H

#include "conf/hba.h"
#include "conf/index.h"
#include "conf/record.h"

/*
 * The parts of rules, for hba.c, which matches them, and their parser hba_line.c only.
 */

/* Kinds of connections, as a set. */
enum { TRANSPORT_LOCAL = 1, TRANSPORT_TLS = 2, TRANSPORT_CLEAR = 4 };

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
	struct hba_rule rule, unknown;	/* the rule if the address fits, and if it is unknown whether it fits */
	unsigned transports;		/* TRANSPORT_LOCAL... */
	struct hba_names databases, users;
	struct hba_address address;
	struct hba_line *next;
};

/* Parses a record into `line`, which must be zero. A faulty record makes a line that refuses the logins that it could concern
   (rule.is_faulty). False: the record has no fields, and there is no line. Call hba_line_clear in any case. `tls` as for
   hba_load. */
bool hba_line_read(struct hba_line *line, struct hba_record *record, enum hba_tls tls);
void hba_line_clear(struct hba_line *line);

/* Parses "10.0.0.0/8", or an address with the mask `mask` (may be NULL). An IPv4-mapped IPv6 address becomes an IPv4 address if
   the mask allows that. Returns NULL, or a description of the fault. */
const char *hba_address_read(struct hba_address *address, const char *text, const char *mask);
/* Whether the text is an address that needs a mask after it. */
bool hba_address_is_bare(const char *text);
/* Whether an address, 4 or 16 bytes, looks like a mask. */
bool hba_address_may_be_mask(const struct hba_address *address);

#endif
