#ifndef AUTH_CLIENT_ADDRESS_H
#define AUTH_CLIENT_ADDRESS_H

#include "base/hash.h"
#include "base/list.h"
#include "net/address.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Addresses that clients come from: for each, how many connections there are, and how many logins are in progress. From these
 * counts follow max_client_conn_per_ip, and which login ends when there are too many (displace.h).
 */
struct client;
struct world;

/* The unit by which clients are counted: an address without its port. IPv4, in IPv6's notation or not, is the same. Only the first 64 bits
   of an IPv6 address count, because a host usually has all addresses of such a network; link-local addresses and ::1 count in full. On a Unix
   socket it is the uid of the client's process. */
struct address_key {
	uint8_t family;			/* AF_INET, AF_INET6, AF_UNIX, or 0 */
	uint8_t bytes[16];		/* the address; Unix: the uid, highest byte first; the rest is zero */
};
/* Addresses that one site usually has all of; they count together: the /48 network of an IPv6 address; all link-local addresses; at a Unix
   socket the 65,536 uids that differ only in the lower 16 bits, if they are above 65,535, because a user of the system may have that number of
   uids for containers (subuid). Any other address is a site of its own. */
struct client_site {
	struct address_key key;		/* the bytes after the site's prefix are zero */
	int addresses;			/* that have a connection */
	int login_count;		/* logins in progress at the bounded addresses of this site */
	struct list crowded;		/* addresses with such logins (struct client_address), the one where the last has begun in front */
	struct list node;		/* of struct client_addresses, by login_count; in none without logins */
	UT_hash_handle hh;
};
struct client_address {
	struct address_key key;
	int clients;			/* connections, without cancel requests; while the object lives, there is one */
	int administrators;		/* of these, proven ones: the console has room for them */
	int refused;			/* logins that have failed, with a refusal that waits */
	int login_count;		/* logins in progress, the refused ones included: not authenticated yet */
	struct list logins;		/* the logins in progress (struct login), oldest first */
	bool is_bounded;		/* the user is not trusted: its logins count for the bound and may be ended for others */
	struct client_site *site;
	struct list node;		/* of its site; in none without logins, or without the bound */
	UT_hash_handle hh;
};

/* All addresses that have a connection. */
#define CLIENT_ADDRESS_CROWDS 32
struct client_addresses {
	struct client_address *by_key;		/* uthash */
	struct client_site *sites;		/* uthash */
	int login_count;		/* over all addresses that are bounded */
	struct list waited_for;		/* struct login of such addresses with a client that has to send something, longest waiting first */
	struct list crowds[CLIENT_ADDRESS_CROWDS];	/* [n]: sites with n logins in progress; the last one: with as many or more */
};
/* NULL: no memory. */
struct client_addresses *client_addresses_new(void);

void address_key_of(struct address_key *key, const struct brief_address *address);
/* The number of bytes of its site's prefix; 0: the address is a site of its own. */
size_t address_site(const struct address_key *key);
#define CLIENT_ADDRESS_TEXT 64			/* room for such a text */
/* "10.0.0.7", "2001:db8::/64", "unix:1000". Returns buf. */
const char *client_address_text(const struct address_key *key, char *buf, size_t size);

/* Calls give() for each address that has a connection. */
void client_addresses_each(const struct client_addresses *all, void (*give)(void *context, const struct client_address *one), void *context);
bool client_addresses_has(const struct client_addresses *all, const struct address_key *key);
/* The address where this client is counted, or NULL. */
struct client_address *client_address_of(const struct client *client);
/* Counts the connection of a client with its address set, and its login as in progress if it has one (client->login). False: no
   memory. */
bool client_address_enter(struct client *client);
/* The client's login has entered another step. */
void client_address_login_stepped(struct client *client);
/* The login is over: the client is authenticated, or ends. Fine twice. */
void client_address_login_over(struct client *client);
bool client_address_has_login(const struct client *client);
/* The connection is not counted any more. Fine twice, and without an enter. */
void client_address_leave(struct client *client);

/* max_client_conn_per_ip allows this client, which is counted already. Always for Unix sockets. A login at the console gets one more place,
   which does not count administrators, because it may be the login of an administrator. */
bool client_address_may_have(const struct client *client, bool names_console);
/* The client is a proven administrator of the console: sets client->is_admin. */
void client_address_set_administrator(struct client *client);
/* More logins are in progress than may be: max_login_clients, or else max_client_conn. Logins over a Unix socket by root and by the user
   that runs pgweir are not counted. */
bool client_address_is_crowded(const struct world *world);
/* Asserts that the counts match the clients. */
void client_addresses_check(const struct world *world);

#endif
