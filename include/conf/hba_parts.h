#ifndef CONF_HBA_PARTS_H
#define CONF_HBA_PARTS_H

#include "conf/hba.h"
#include "base/hash.h"
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

/*
 * Addresses are IPv4 and IPv6 networks. If a client has reached an IPv6 socket over IPv4, its
 * address is ::ffff:a.b.c.d and matches IPv4 lines too: whether a rule refuses 10.0.0.0/8 must not
 * depend on the socket.
 */
#define HBA_MAPPED_PREFIX "\0\0\0\0\0\0\0\0\0\0\xff\xff"
#define HBA_MAPPED_SIZE 12	/* bytes before the IPv4 address in ::ffff:a.b.c.d */

enum hba_address_kind {
	HBA_ADDRESS_ALL,
	HBA_ADDRESS_MASK,
	HBA_ADDRESS_SAME_HOST,
	HBA_ADDRESS_SAME_NET
};
struct hba_address {
	enum hba_address_kind kind;
	uint8_t size;			/* 4 or 16 */
	uint8_t ip[16], mask[16];
};

struct hba_line {
	/* the rule if the address fits, and if it is unknown whether it fits */
	struct hba_rule rule, unknown;
	unsigned transports;		/* TRANSPORT_LOCAL... */
	struct hba_names databases, users;
	struct hba_address address;
	struct hba_line *next;
};

/* Parses a record into `line`, which must be zero. A faulty record becomes a line with
   rule.is_faulty, which refuses the logins that it could concern. False: the record has no fields,
   and there is no line; `line` may have contents in any case. `tls`: of the settings. */
bool hba_line_read(struct hba_line *line, struct hba_record *record, enum hba_tls tls);


#endif
