#ifndef RULES_H
#define RULES_H

/* Declarations shared by the targets of HBA and ident files: clients to match with the rules. */
#include "conf/hba.h"

#include <string.h>

#define RULES_MOST 4096		/* bytes of an input: longer ones show nothing more */

static inline enum hba_fit rules_near(const struct hba_client *client, bool whole_net)
{
	return client->ip[0] == 127 || (whole_net && client->ip[0] == 10) ? HBA_FITS : HBA_FITS_NOT;
}

#define RULES_CLIENTS 48

/* The i-th of all kinds of client. */
static inline struct hba_client rules_client(int i)
{
	static const char *const databases[] = { "shop", "replication", "all" }, *const users[] = { "alice", "shop", "+x", "postgres" };
	static const uint8_t addresses[][16] = {
		{ 127, 0, 0, 1 }, { 10, 1, 2, 3 }, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, { 0 },
	};
	struct hba_client c = { .database = databases[i % 3], .user = users[i / 3 % 4], .is_near = i % 7 ? rules_near : NULL };

	c.ip_size = (uint8_t[]){ 4, 4, 16, 0 }[i / 12 % 4];
	memcpy(c.ip, addresses[i / 12 % 4], sizeof(c.ip));
	c.is_tls = i % 2;
	c.is_physical = i % 5 == 0;
	return c;
}

#endif
