#ifndef SIM_ROLES_H
#define SIM_ROLES_H

#include "ask.h"
#include "machine.h"

#include <stdint.h>

/*
 * The roles of the hosts in a world with roles (plan.has_roles): all hosts are one cluster, which has switchovers, crashes, partitions, standbys that
 * go away, nonsense for the watcher, and a host of another cluster. The rules for pgweir are checked at each byte that it sends (roles.c).
 */

struct world;
struct backend;

void roles_sim_begin(struct world *world);
void roles_sim_calm(void);
void roles_sim_end(void);

/* ---- the state of a host, for backend.c ---- */

enum member_state { MEMBER_UP, MEMBER_SHUTS_DOWN, MEMBER_DOWN, MEMBER_SILENT };
enum member_state member_state(int host);
/* Logins are refused with 53300, but sessions go on. */
bool member_is_full(int host);
bool member_is_standby(int host);

/* ---- sessions ---- */

/* The question of the watcher: appends the answer, or makes the session fail. `is_short`: without functions of the WAL. */
void roles_answer(struct backend *b, bool is_short);
/* The first question of a session of a pool at a host: which server this is. */
void roles_answer_identity(struct backend *b);
/* The pooler has sent these bytes to the server. */
void roles_judge_sent(struct backend *b, const uint8_t *data, size_t size);
/* The server executes the request of a client for the first time. */
void roles_judge_executed(struct backend *b, uint32_t client, uint32_t serial);
/* What a client has seen of the data: times. */
struct sight {
	bool reads;			/* all its requests ask for a standby, or the primary if there is none */
	uint32_t first_read, last_read;	/* the requests of its READ ONLY transaction, which do too, and which the pooler may take back from a standby; 0: none */
	bool has_part;			/* of the answers behind the BEGIN of this transaction */
	usec_t seen, sees;		/* at its last answer; by its last request */
	usec_t must_see;		/* the last write of another client that this client's request must see */
	usec_t executed_at;		/* of a writer: its last request that has no answer yet; 0: none */
};
/* The request is one of a READ ONLY transaction. */
static inline bool sight_may_repeat(const struct sight *s, uint32_t serial)
{
	return s->first_read > 0 && serial >= s->first_read && serial <= s->last_read;
}
/* client.c: NULL: the client has left. */
struct sight *client_sight(uint32_t number);
/* The server executes a request of the client, which asks; has all its answers, between two transactions; begins to ask, between two transactions. */
void roles_judge_read(const struct backend *b, uint32_t client, uint32_t serial);
void roles_note_told(struct sight *sight, int database);
void roles_note_asks(struct sight *sight, int database);
/* The server has ended the session in which its client may have a request or a transaction. */
void roles_note_hit(struct backend *b);
/* After each turn. */
void roles_judge_turn(void);

/* ---- for roles.c ---- */

/* backend.c: ends the sessions of a host with 57P01, or without a word. */
void backends_terminate(int host, bool only_watchers);
void backends_crash(int host);
/* The host has none of the other faults. */
bool backends_are_well(int host);
/* The number of its servers that have a part of an answer to send. */
uint64_t backends_that_answer(int host);
/* NULL: there is none. */
const struct backend *backend_of(uint32_t pid);
/* The host is heard again. */
void backends_go_on(int host);
/* client.c: the client with this process ID of its cancel key loses its request or transaction. */
void client_is_hit(uint32_t pid);
/* client.c: this client has sent the first request of a READ ONLY transaction, and waits for the first byte of the answer; it has not asked to cancel. */
bool client_waits_for_read(uint32_t pid);

#endif
