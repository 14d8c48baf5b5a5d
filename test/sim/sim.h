#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "attack.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "truth.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Declarations shared by the files of the simulation. */

struct event_base;
struct world;

#define SIM_FD 1000000			/* the first simulated descriptor */
#define SIM_OBJECT(member_pointer, type, member) ((type *)(void *)((char *)(member_pointer) - offsetof(type, member)))

/* The pooler or the simulation has made an error: prints the message and how to run the world again, and aborts. */
#define SIM_CHECK(cond, ...) ((cond) ? (void)0 : sim_failed(__FILE__, __LINE__, __VA_ARGS__))
_Noreturn void sim_failed(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A line of the trace, with the time in front, if tracing is on. */
#define SIM_TRACE(...) (sim_traces ? sim_trace(__VA_ARGS__) : (void)0)
extern bool sim_traces;
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct event_base *sim_event_base(void);
bool sim_has_listener(void);	/* rooms.c */
void wire_refuse_waiting(void);		/* wire.c: connections that the pooler will not accept any more */
bool rooms_are_empty(void);
usec_t processes_time(uint32_t iterations);	/* processes.c: the duration of a key derivation */
void processes_begin(void);
bool processes_are_gone(void);

/* ---- the plan of a world (plan.c) ---- */

#define PLAN_DATABASES 4
#define PLAN_USERS 3
#define PLAN_HOSTS 3
#define PLAN_AUTH_QUERY "SELECT name, secret FROM simulated WHERE name = $1"

enum plan_mode { PLAN_SESSION, PLAN_TRANSACTION, PLAN_STATEMENT };

struct plan {
	uint64_t seed;
	usec_t length;
	int databases, users, hosts, clients;
	enum plan_mode modes[PLAN_DATABASES];
	bool forced_user[PLAN_DATABASES];	/* servers are the first user's, whichever client asks */
	enum proof auth;		/* how clients have to prove their user */
	bool is_listed[PLAN_USERS];	/* in the user list; else in the servers' */
	enum proof stored[PLAN_USERS];	/* the form of the stored secret: a plain password (or none needed), MD5, SCRAM */
	enum proof server_asks[PLAN_USERS];
	uint32_t iterations;		/* of SCRAM */
	int cluster[PLAN_DATABASES];	/* which database is asked about users: its servers know the same ones */
	bool asks_one;			/* one database is asked for all, by the general setting */
	usec_t pause_most;			/* of a client between two jobs */
	usec_t slowness;			/* of clients and servers */
	usec_t lateness;			/* of the clock's tick */

	/* the parts of this world: plan_parts in plan.c has their names */
	bool looks_up, lies;		/* users are looked up; and look-ups may return false data */
	bool changes;			/* of passwords */
	bool streams;			/* replication */
	bool portals, calls;		/* portals with names, function calls */
	bool versions;			/* of the protocol: 3.2, options */
	bool rules;			/* an HBA file says which client is asked how */
	bool neighbours;		/* other poolers, to which cancel requests are handed on */
	bool prepares;			/* named statements work in all pool modes */
	bool modes_change;		/* with RELOAD */
	bool faulty_servers, faulty_clients, faulty_network, cancels, operator;
	bool attackers_come;
	bool has_roles;			/* the hosts are a primary and standbys, and databases ask for roles: roles.c */

	/* of a world with attackers, which has no other causes of waiting */
	enum attack attack;
	int attackers, attack_addresses;
	int places;			/* max_login_clients */
	usec_t login_timeout;

	/* of a world with roles */
	bool only_switchovers;		/* planned ones, and no other fault: no client between two transactions may notice */
	int role_hosts;			/* 2 or 3 */

	char conf_path[256], users_path[256], rules_path[256];
};
extern struct plan plan;

/* Differences of a plan from the drawn one, to search for the smallest world that fails. */
struct plan_limits {
	uint32_t without;		/* bits of the parts, by their place in plan_part_name */
	int clients;			/* at most; 0: as drawn */
	uint64_t salt;			/* other chances in the same plan; 0: the seed's own */
};
extern struct plan_limits plan_limits;
/* NULL: no such part. */
const char *plan_part_name(int part);
bool plan_has_part(int part);

/* False: there is no such part. */
bool plan_leave_out(const char *name);
/* How to play this world again, within plan_limits: a line. */
void plan_say_options(FILE *to, uint64_t seed, usec_t length);

/* Draws a plan for a seed, within plan_limits. `length` 0: that, too. */
void plan_draw(uint64_t seed, usec_t length);
/* Writes the configuration, with the settings that a RELOAD may change drawn again. */
void plan_write_conf(void);

/* What the clients of a database ask for. */
enum plan_target { PLAN_ANY, PLAN_PRIMARY, PLAN_PREFER_STANDBY };
static inline enum plan_target plan_target(int database)
{
	static const enum plan_target targets[PLAN_DATABASES] = { PLAN_PRIMARY, PLAN_PREFER_STANDBY, PLAN_ANY, PLAN_PRIMARY };

	return plan.has_roles ? targets[database] : PLAN_ANY;
}

/* reads = transaction, for clients that ask for the primary. */
static inline bool plan_splits_reads(int database) { return plan_target(database) == PLAN_PRIMARY && plan.seed / 8 % 2; }
/* read_your_writes = database. */
static inline bool plan_reads_all_writes(void) { return plan.seed / 512 % 2; }
/* Watchers log in as the first user, which is always possible. */
static inline bool plan_has_check_user(void) { return plan.seed / 128 % 4 > 0; }

/* ---- counters, for the last lines ---- */

struct sim_counts {
	uint64_t turns, queries, answers, copies, prepared, errors, cancels, cancelled, logins, refused, farewells;
	uint64_t lookups, streams, calls, portals, proofs, handed_on;
	uint64_t attacks;
	uint64_t switchovers, crashes, partitions, divergences, role_questions, lags;
	uint64_t hangs, hung_answers, met_hangs;
	/* at standbys: of READ ONLY transactions, of clients that ask for standbys */
	uint64_t split_reads, standby_reads;
	uint64_t stale_looks, recalls;
	uint64_t server_logins, server_faults, client_faults, commands, reloads, dropped;
};
extern struct sim_counts sim_counts;
/* The pooler has told a client this as its last word. */
void sim_note_final_error(const char *text);

static inline uint32_t sim_u32(const uint8_t *at) { return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]; }

/* No more faults and no new work from now on: everything has to come to its end (sim.c). */
extern bool sim_is_calm;

/* ---- the actors ---- */

void backends_begin(void);			/* the fake servers: backend.c */
void backends_calm(void);
int backends_open(void);		/* connections that are open */
bool backends_are_at_rest(char *why, size_t size);
void backends_end(void);

void clients_begin(int count);		/* client.c */
void clients_calm(void);		/* the clients finish their work and disconnect */
int clients_present(char *who, size_t size);
void clients_end(void);

void operator_begin(struct world *world);	/* operator.c */
void operator_calm(void);
bool operator_is_done(void);
void operator_say(const char *command);
void operator_end(void);

#endif
