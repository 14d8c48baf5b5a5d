/*
 * The attackers: a number of clients at one to three addresses. Each occupies one of the states before authentication, or makes the pooler log in to
 * a server that causes expensive work. A refused attacker returns soon; occasionally an attacker disconnects and returns.
 *
 * The attackers' server accepts every connection. It is silent from the start (look-ups), or welcomes and never answers (names), or requests SCRAM
 * with a different salt each time (salts).
 *
 * Invariant: the attackers' server has at most max_auth_query_connections open connections for look-ups.
 */
#include "attack.h"

#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "pg/build.h"
#include "pg/scram.h"
#include "prove.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define FIRST_ADDRESS 50
#define ATTACKERS_MOST 300
#define SSL_CODE 80877103

struct attacker {
	struct actor actor;
	struct wire *wire;
	int number;
	usec_t leaves_at;
	struct prover prover;
	struct bytes out, come;
};

/* A connection of their server. */
struct victim {
	struct list node;
	struct actor actor;
	struct wire *wire;
	bool is_in;			/* the start-up packet has come */
	int passwords;
	struct bytes out;
};

static struct attacker attackers[ATTACKERS_MOST];
static int attacker_count;
static struct list victims;
static uint32_t last_number;
static uint16_t last_port;

/* ---- the configuration ---- */

void attack_write_databases(FILE *f)
{
	const char *target = "host=10.0.0.6 pool_mode=transaction pool_size=200";

	fprintf(f, "witnesses = host=10.0.0.%d dbname=witnesses pool_mode=transaction pool_size=20 auth_dbname=witnesses\n", WITNESS_HOST);
	if (plan.attack == ATTACK_NAMES)
		fprintf(f, "* = %s\n", target);
	else
		fprintf(f, "attacked = %s dbname=attacked auth_dbname=attacked\n", target);
}

void attack_write_settings(FILE *f)
{
	fprintf(f, "max_login_clients = %d\nmax_auth_query_connections = %d\nclient_login_timeout = %lld\nserver_connect_timeout = 15\n"
		"server_login_retry = 0\nlogin_failure_delay = %d\nmax_auth_processes = 4\n",
		plan.places, ATTACK_LOOKUPS_MOST, (long long)(plan.login_timeout / USEC), (int)(plan.seed % 3));
}

void attack_write_users(FILE *f)
{
	uint8_t keys[SCRAM_KEY] = { 1 };
	struct scram_secret secret = { .iterations = ATTACK_ITERATIONS, .salt_size = 16 };
	char text[SCRAM_SECRET_TEXT];

	memcpy(secret.stored_key, keys, SCRAM_KEY);
	memcpy(secret.server_key, keys, SCRAM_KEY);
	SIM_CHECK(scram_secret_write(&secret, text, sizeof(text)), "no secret");
	fprintf(f, "\"attacker\" \"%s\"\n", plan.attack == ATTACK_VERIFIERS ? text : "attacking");
}

/* ---- their server ---- */

static void victim_end(struct victim *v)
{
	wire_close(&v->wire, false);
	actor_rest(&v->actor);
	bytes_free(&v->out);
	list_remove(&v->node);
	mem_free(v);
}

static void ask_scram(struct victim *v)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0";

	pg_build_auth(&v->out, 10, mechanisms, sizeof(mechanisms));
}

/* The first message of the exchange has the client's nonce at its end; the answer has another salt each time. */
static void challenge(struct victim *v, const char *message, size_t size)
{
	char text[400];
	int length = 0;
	const char *nonce = memmem(message, size, "r=", 2);

	SIM_CHECK(nonce, "no nonce in a first message of SCRAM");
	length = snprintf(text, sizeof(text), "%.*sX,s=%08xAAAAAAAAAAAAAA==,i=%d", (int)(size - (size_t)(nonce - message)), nonce,
			  (unsigned)chance_draw(), ATTACK_ITERATIONS);
	pg_build_auth(&v->out, 11, text, (size_t)length);
}

static void welcome(struct victim *v)
{
	static const uint8_t key[4];

	pg_build_auth(&v->out, 0, NULL, 0);
	pg_build_parameter_status(&v->out, "server_version", "17.0");
	pg_build_key(&v->out, 'K', 4711, key, sizeof(key));
	pg_build(&v->out, 'Z', "I", 1);
}

static void take_packet(struct victim *v, const uint8_t *at, uint32_t size)
{
	if (!v->is_in && sim_u32(at + 4) == SSL_CODE) {
		bytes_append_u8(&v->out, 'N');
		return;
	}
	if (!v->is_in) {
		v->is_in = true;
		if (plan.attack == ATTACK_SALTS)
			ask_scram(v);
		else if (plan.attack == ATTACK_NAMES || sim_is_calm)
			welcome(v);
	} else if (plan.attack == ATTACK_SALTS && *at == 'p' && v->passwords++ == 0) {
		challenge(v, (const char *)at + 5, size - 5);
	} else if (plan.attack == ATTACK_SALTS && *at == 'p') {
		pg_build_report(&v->out, 'E', "FATAL", "28P01", "simulated: attacked", NULL, NULL);
	}
}

static void victim_act(struct actor *actor)
{
	struct victim *v = SIM_OBJECT(actor, struct victim, actor);
	size_t here, header = v->is_in ? 5 : 4;
	const uint8_t *at = wire_come(v->wire, &here);
	uint32_t size;

	if (wire_has_ended(v->wire)) {
		victim_end(v);
		return;
	}
	if (here >= header && here >= (size = sim_u32(at + header - 4) + (v->is_in ? 1 : 0))) {
		take_packet(v, at, size);
		wire_take(v->wire, size);
		actor_at(&v->actor, loop_now() + 1);
	}
	bytes_consume(&v->out, wire_put(v->wire, bytes_front(&v->out), bytes_size(&v->out)));
}

struct actor *attack_connected(struct wire *wire)
{
	struct victim *v = mem_must(sizeof(*v));
	int open = 0;

	actor_init(&v->actor, victim_act, plan.slowness);
	v->wire = wire;
	list_append(&victims, &v->node);
	LIST_EACH(node, &victims)
		open += !wire_is_gone(SIM_OBJECT(node, struct victim, node)->wire);
	SIM_CHECK(plan.attack == ATTACK_SALTS || open <= ATTACK_LOOKUPS_MOST, "%d connections are open for look-ups", open);
	return &v->actor;
}

/* ---- the attackers ---- */

static void say_startup(struct attacker *a)
{
	char user[32], database[32];
	const char *pairs[] = { "user", user, "database", database };
	bool is_known = plan.attack == ATTACK_VERIFIERS || plan.attack == ATTACK_SALTS;

	last_number++;
	snprintf(database, sizeof(database), plan.attack == ATTACK_NAMES ? "invented%u" : "attacked", last_number);
	snprintf(user, sizeof(user), is_known ? "attacker" : "nobody%u", last_number);
	snprintf(a->prover.user, sizeof(a->prover.user), "%s", user);
	if (plan.attack == ATTACK_VERIFIERS)
		snprintf(a->prover.password, sizeof(a->prover.password), "wrong%u", last_number);
	else
		snprintf(a->prover.password, sizeof(a->prover.password), "attacking");
	pg_build_startup(&a->out, 3 << 16, pairs, 4);
}

static void come(struct attacker *a)
{
	a->wire = wire_call(&a->actor, FIRST_ADDRESS + a->number % plan.attack_addresses, ++last_port);
	if (!a->wire) {
		actor_at(&a->actor, loop_now() + USEC);
		return;
	}
	sim_counts.attacks++;
	say_startup(a);
	a->leaves_at = loop_now() + (chance_one_in(4) ? chance_spread(USEC / 10, 10 * USEC) : 3600 * USEC);
	actor_at(&a->actor, a->leaves_at);
}

static void go(struct attacker *a)
{
	wire_close(&a->wire, chance_one_in(2));
	bytes_free(&a->out);
	bytes_free(&a->come);
	prove_clear(&a->prover);
	actor_rest(&a->actor);
	if (!sim_is_calm)
		actor_at(&a->actor, loop_now() + chance_spread(USEC / 20, 2 * USEC));
}

static void take_in(struct attacker *a)
{
	size_t here;
	const uint8_t *at = wire_come(a->wire, &here);
	uint32_t size;

	bytes_append(&a->come, at, here);
	wire_take(a->wire, here);
	while ((here = bytes_size(&a->come)) >= 5 && here >= (size = sim_u32(bytes_front(&a->come) + 1) + 1)) {
		at = bytes_front(&a->come);
		if (*at == 'R' && sim_u32(at + 5) != 0)
			prove(&a->prover, at + 5, size - 5, &a->out);
		bytes_consume(&a->come, size);
	}
}

static void attacker_act(struct actor *actor)
{
	struct attacker *a = SIM_OBJECT(actor, struct attacker, actor);

	if (!a->wire && !sim_is_calm)
		come(a);
	if (!a->wire)
		return;
	take_in(a);
	bytes_consume(&a->out, wire_put(a->wire, bytes_front(&a->out), bytes_size(&a->out)));
	if (sim_is_calm || wire_has_ended(a->wire) || loop_now() >= a->leaves_at)
		go(a);
	else
		actor_at(&a->actor, a->leaves_at);
}

/* ---- all of them ---- */

void attack_begin(void)
{
	list_init(&victims);
	last_number = 0;
	last_port = 1024;
	attacker_count = plan.attackers;
	SIM_CHECK(attacker_count <= ATTACKERS_MOST, "too many attackers");
	for (int i = 0; i < attacker_count; i++) {
		attackers[i] = (struct attacker){ .number = i };
		actor_init(&attackers[i].actor, attacker_act, 0);
		actor_at(&attackers[i].actor, loop_now() + chance_spread(0, 5 * USEC));
	}
}

void attack_calm(void)
{
	for (int i = 0; i < attacker_count; i++)
		actor_at(&attackers[i].actor, loop_now() + 1);
}

void attack_end(void)
{
	for (int i = 0; i < attacker_count; i++)
		if (attackers[i].wire)
			go(&attackers[i]);
	for (int i = 0; i < attacker_count; i++)
		actor_rest(&attackers[i].actor);
	attacker_count = 0;
	while (!list_is_empty(&victims))
		victim_end(SIM_OBJECT(victims.next, struct victim, node));
}
