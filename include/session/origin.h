#ifndef SESSION_ORIGIN_H
#define SESSION_ORIGIN_H

#include "base/hash.h"
#include "net/address.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Where clients come from: for each address, how many of them there are, and how many have not proven yet who they are. What is
 * allowed to an address follows from that (max_client_conn_per_ip), and who has to make room when too many log in at once
 * (max_login_clients).
 */
struct client;
struct world;

/* An address without its port. IPv4, in IPv6's clothes or not, is one and the same; on a Unix socket it is the system's user. */
struct origin_key {
	uint8_t family;			/* AF_INET, AF_INET6, AF_UNIX, or 0 */
	uint8_t bytes[16];		/* the address; Unix: the uid; zeros behind it */
};
struct origin {
	struct origin_key key;
	int clients;			/* connections, without cancel requests; as long as the object lives, there is one */
	int strangers;			/* of these, those that have not proven who they are ... */
	int refused;			/* ... and of these, those whose login has failed, and whose refusal waits */
	UT_hash_handle hh;
};

void origin_key_of(struct origin_key *key, const struct brief_address *address);
#define ORIGIN_TEXT 64			/* room for such a text */
/* "10.0.0.7", "::1", "unix:1000". Returns buf. */
const char *origin_text(const struct origin_key *key, char *buf, size_t size);

/* Where this client is counted, or NULL. */
struct origin *origin_of(const struct client *client);
/* The client, whose address is set, is counted as a stranger. False: no memory. */
bool origin_enter(struct client *client);
/* It is none any more: it has proven who it is. Fine twice. */
void origin_proven(struct client *client);
/* It is not counted any more. Fine twice, and without an enter. */
void origin_leave(struct client *client);

/* max_client_conn_per_ip allows this client, which is counted already. Always for Unix sockets. */
bool origin_may_have(const struct client *client);
/* Strangers, without those of Unix sockets, are more than may log in at once: max_login_clients, or else max_client_conn. */
bool origin_is_crowded(const struct world *world);
/* Somebody's login ends (with `why`) in favour of this client's: one that has failed and waits for its refusal, else one that
   its client keeps waiting, of an address that has more of them than this client's has, or for more than a second. False: nobody's does. */
bool origin_make_room(struct client *client, int why);
/* The counts are those of the clients: ASSERTs. */
void origins_check(const struct world *world);

#endif
