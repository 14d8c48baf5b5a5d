#ifndef SIM_ATTACK_H
#define SIM_ATTACK_H

#include "machine.h"

#include <stdio.h>

/*
 * Worlds with attackers: unauthenticated clients, or a server of the attackers, consume resources that other clients need (attack.c). Witnesses,
 * which are clients of other addresses, log in and send one query. Their time is limited (witness.c).
 */
enum attack {
	ATTACK_NONE,
	ATTACK_LOOKUPS,			/* look-ups in a database with a server that accepts connections and is silent */
	ATTACK_VERIFIERS,		/* passwords in clear for a SCRAM secret of many iterations */
	ATTACK_SALTS,			/* a server that shows another salt each time, with many iterations */
	ATTACK_NAMES,			/* names of databases that are made up: each look-up wants a connection of its own */
	ATTACKS
};

#define ATTACK_ITERATIONS 1000000
#define ATTACK_LOOKUPS_MOST 20		/* max_auth_query_connections */
#define WITNESS_HOST 5			/* 10.0.0.5 */
#define ATTACK_HOST 6			/* 10.0.0.6: the server that is the attackers', or that hangs because of them */

/* Entries of [databases], lines of [pgweir] and of the user list. */
void attack_write_databases(FILE *f);
void attack_write_settings(FILE *f);
void attack_write_users(FILE *f);
void attack_begin(void);
void attack_calm(void);
void attack_end(void);
struct actor *attack_connected(struct wire *wire);

void witnesses_begin(void);
void witnesses_calm(void);
int witnesses_present(void);
void witnesses_end(void);
struct actor *witness_connected(struct wire *wire);
/* How long they have waited, over all worlds: a line, or none. */
void witnesses_say(void);

#endif
