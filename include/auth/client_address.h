#ifndef AUTH_CLIENT_ADDRESS_H
#define AUTH_CLIENT_ADDRESS_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "net/address.h"
#include "pool/close_reason.h"
#include "verify/queue.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Addresses of clients: for each, the number of connections and of logins in progress. They decide
 * about max_client_conn_per_ip, and which login ends when too many are in progress. Failed logins
 * are counted by address and by user at the address: the more failures, the later the refusal is
 * sent (login_failure_delay). Successful logins and other clients do not wait.
 */
struct client;
struct world;

/* The unit by which clients are counted: an address without its port. An IPv4 address written as
   IPv6 is the IPv4 address. Only the first 64 bits of an IPv6 address count, because a host usually
   has all addresses of such a network; link-local addresses and ::1 count in full. For a Unix
   socket it is the uid of the client's process. */
struct address_key {
	uint8_t family;			/* AF_INET, AF_INET6, AF_UNIX, or 0 */
	/* the address; Unix: the uid, highest byte first; the rest is zero */
	uint8_t bytes[16];
};
/* Addresses that may all belong to one host or user: a /48 network of IPv6; all link-local
   addresses; 65,536 uids that differ only in the lower 16 bits, above 65,535, because a user of the
   system may have this number for containers (subuid). Any other address is a site of its own. */
struct client_site {
	struct address_key key;		/* the bytes after the site's prefix are zero */
	int addresses;			/* number of addresses with a connection */
	/* logins in progress at the bounded addresses of this site */
	int login_count;
	/* struct client_address with such logins; the address of the latest login is first */
	struct list crowded;
	/* of struct client_addresses, by login_count; in no list without logins */
	struct list node;
	UT_hash_handle hh;
};
struct client_address {
	struct address_key key;
	int clients;			/* connections, without cancel requests; at least 1 */
	int administrators;		/* authenticated administrators of the console among them */
	int refused;			/* failed logins with a delayed refusal */
	/* logins in progress, including the refused ones: not authenticated yet */
	int login_count;
	struct list logins;		/* the logins in progress (struct login), oldest first */
	/* its logins count for the limit and may be ended for others: not for users that are
	   trusted */
	bool is_bounded;
	struct client_site *site;
	/* of its site; in no list without logins, or if it is not bounded */
	struct list node;
	UT_hash_handle hh;
};

/* Failed logins. */
struct failure {
	struct address_key key;
	uint64_t tag;			/* keyed digest of address and user */
	bool is_whole;			/* of the address, over all users */
	uint32_t count;
	usec_t last;			/* 0: the row is free */
};

/* All addresses with a connection, and addresses with failed logins. */
#define CLIENT_ADDRESS_CROWDS 32
#define FAILURE_SETS 128
#define FAILURE_WAYS 8
struct client_addresses {
	struct client_address *by_key;		/* uthash */
	struct client_site *sites;		/* uthash */
	/* logins in progress at all bounded addresses, limited by max_login_clients or else
	   max_client_conn */
	int login_count;
	/* struct login of these: waits for its client, longest waiting first */
	struct list waited_for;
	/* [n]: sites with n logins in progress; in the last element, sites with n or more */
	struct list crowds[CLIENT_ADDRESS_CROWDS];
	/* FAILURE_SETS of them; NULL: no login has failed yet */
	struct failure (*failures)[FAILURE_WAYS];
	struct list refused;		/* struct login with a delayed refusal, oldest first */
	int refused_count;
};
/* NULL: no memory. */
struct client_addresses *client_addresses_new(void);
/* No client may be counted. Sets *addresses to NULL; *addresses may be NULL. */
void client_addresses_free(struct client_addresses **addresses);
/* Asserts that the counts match the clients. */
void client_addresses_check(const struct world *world);

/* The client's address and site for a queue: clients of different addresses take turns there. */
struct verify_source client_address_source(const struct client *client);
/* Returns the address and the site of a connection's other end, for a queue in which addresses take
   turns. */
struct verify_source brief_address_source(const struct brief_address *remote);

/* Counts the connection of a client, and its login in progress if it has one (client->login).
   False: no memory. */
bool client_address_enter(struct client *client);
/* The login is over: the client is authenticated or ends. No effect if it is over already. */
void client_address_login_over(struct client *client);
/* The connection does not count any longer. No effect if it is not counted. */
void client_address_leave(struct client *client);

/* Whether max_client_conn_per_ip allows this client, which is counted already. Always true for Unix
   sockets. A login at the console has one more place, which administrators do not use up, because
   it may be the login of an administrator. */
bool client_address_may_have(const struct client *client, bool names_console);
/* The client is an authenticated administrator of the console: sets console.is_admin. */
void client_address_set_administrator(struct client *client);
/* Ends another login, with reason `why`, to make room for this client's. It is the first of: a
   login in its delay before the refusal; a login at the site with the most logins, if that site has
   more than the client's site; a login at another address of the client's site, if that address has
   more than the client's address; a login of a client with more than a second of silence, at a site
   (or an address of the client's site) with as many logins. Example: 10.0.0.7 has 900 logins in
   progress, and a client of 10.0.0.8 connects. A login of 10.0.0.7 ends. False: there is no such
   login. */
bool displace_login(struct client *client, enum close_reason why);

/* The proof of the client was wrong, or its user is unknown: ends the client with `why`, now or
   after the delay. Called for known and unknown users alike. The client may end. */
void refusal_begin(struct client *client, enum close_reason why);
/* Sends the refusals that are due at `now`; INT64_MAX: all, because the process ends or is
   replaced. */
void refusals_tick(struct client_addresses *addresses, usec_t now);
/* A row of SHOW ADDRESSES. */
#define CLIENT_ADDRESS_TEXT 64
struct address_row {
	const char *text;		/* "10.0.0.7", "2001:db8::/64", "unix:1000" */
	int64_t clients, logins, refused;
	int64_t failures;		/* remembered failed logins */
};
/* Calls give() for each address that has clients, and then for each address without clients that
   has failed logins. */
void client_addresses_each_row(const struct world *world,
			       void (*give)(void *context, const struct address_row *row),
			       void *context);

/* Calls give() for each address with remembered failed logins, with its text. */
void client_addresses_each_failure(const struct world *world,
				   void (*give)(void *context, const char *address,
						const struct failure *failure),
				   void *context);

#endif
