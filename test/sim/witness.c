/*
 * The clients of other addresses beside an attack, and their server.
 *
 * Each logs in, asks one question, leaves, and comes again. It is looked up, in a database of its own. One of them is slow: it waits
 * for some seconds before it proves its user. None may be refused, and none may wait longer than a bound that follows from the
 * settings and the attack: where addresses take turns, it is a turn of each; where an attack of several addresses has all
 * look-ups under way, it is client_login_timeout, which ends them.
 *
 * Invariant: whatever a witness waits for, it is judged at its deadline, also if no answer ever comes.
 */
#include "pg/scram.h"
#include "attack.h"

#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "pg/build.h"
#include "client.h"
#include "data_row.h"
#include "prove.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

/* The secrets of the world are made by the real function: the simulated one counts what pgweir derives. */
bool __real_scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
#define scram_salted_derive __real_scram_salted_derive
#include "derive.h"
#undef scram_salted_derive

#define WITNESSES 5
#define FIRST_ADDRESS 10
#define SSL_CODE 80877103
#define CLASSES 64			/* of waiting times, each a fifth longer than the one before it */
#define PASSWORD "witness"

struct witness {
	struct actor actor;
	struct wire *wire;
	int number;
	bool leaves;
	bool is_in, has_thought;	/* ReadyForQuery has come; it may prove itself */
	usec_t began;			/* without the time in which it thinks */
	usec_t thinks_until;		/* 0: it has not begun to */
	struct prover prover;
	struct bytes out, come;
};

/* A connection of their server. */
struct desk {
	struct list node;
	struct actor actor;
	struct wire *wire;
	bool is_in;
	struct bytes out;
};

static struct witness witnesses[WITNESSES];
static int witness_count;
static struct list desks;
static uint16_t last_port;
/* Over all worlds: waiting times by class, and the longest as a part of its bound. */
static struct { uint64_t count, by_class[CLASSES]; usec_t longest, bound; } waits;

/* ---- time limit ---- */

static usec_t bound(void)
{
	usec_t derivation = processes_time(ATTACK_ITERATIONS) + plan.slowness, most = USEC / 2 + 3 * plan.lateness;

	/* the keys of all witnesses, which one process derives */
	most += plan.auth == PROOF_PLAIN ? (WITNESSES + 1) * plan.slowness : plan.slowness;
	switch (plan.attack) {
	case ATTACK_VERIFIERS:
		/* the running derivation, and one for each address */
		return most + (plan.attack_addresses + 1) * derivation;
	case ATTACK_SALTS:
		/* one of the server before each of the witnesses' */
		return most + (WITNESSES + 1) * derivation;
	case ATTACK_NAMES:
		/* half of the look-ups are for one address; with two addresses, look-ups end in time */
		return most + (plan.attack_addresses > 1 ? plan.login_timeout : 0);
	default:
		/* a quarter of the look-ups is for one database, and the rest is free */
		return most;
	}
}

static void note_wait(usec_t waited, usec_t most)
{
	int class = 0;

	for (double limit = 100; class < CLASSES - 1 && waited > (usec_t)limit; limit *= 1.25)
		class++;
	waits.by_class[class]++;
	waits.count++;
	if (waits.bound == 0 || (double)waited / (double)most > (double)waits.longest / (double)waits.bound) {
		waits.longest = waited;
		waits.bound = most;
	}
}

void witnesses_say(void)
{
	double limit = 100;
	uint64_t seen = 0;

	if (waits.count == 0)
		return;
	for (int class = 0; class < CLASSES; class++, limit *= 1.25) {
		seen += waits.by_class[class];
		if (seen * 100 >= waits.count * 99)
			break;
	}
	printf("%llu connections of attackers, %llu logins from other addresses beside them: p99 %.3f s, longest %.3f s of at most %.3f s\n",
	       (unsigned long long)sim_counts.attacks, (unsigned long long)waits.count, limit / USEC, (double)waits.longest / USEC,
	       (double)waits.bound / USEC);
}

/* ---- their server ---- */

static void desk_end(struct desk *d)
{
	wire_close(&d->wire, false);
	actor_rest(&d->actor);
	bytes_free(&d->out);
	list_remove(&d->node);
	mem_free(d);
}

static void welcome(struct desk *d)
{
	static const uint8_t key[4];

	pg_build_auth(&d->out, 0, NULL, 0);
	pg_build_parameter_status(&d->out, "server_version", "17.0");
	pg_build_key(&d->out, 'K', 4712, key, sizeof(key));
	pg_build(&d->out, 'Z', "I", 1);
}

/* A plain password, or a new SCRAM secret each time, so that a key must be derived. */
static void say_secret(struct desk *d)
{
	const char *cells[] = { "witness", PASSWORD };
	char text[SCRAM_SECRET_TEXT];
	struct scram_secret secret;
	uint8_t salt[16];

	if (plan.auth == PROOF_PLAIN) {
		for (size_t i = 0; i < sizeof(salt); i++)
			salt[i] = (uint8_t)chance_draw();
		SIM_CHECK(scram_secret_derive(PASSWORD, salt, sizeof(salt), 1, &secret) && scram_secret_write(&secret, text, sizeof(text)),
			  "no secret");
		cells[1] = text;
	}
	pg_build_data_row(&d->out, cells, 2);
}

/* The end of a look-up's batch: everything is answered at once. */
static void look_up(struct desk *d)
{
	static const char *const columns[] = { "name:text", "secret:text" }, *const cells[] = { "x" };

	SIM_TRACE("the witnesses' server looks up");
	for (int i = 0; i < 2; i++) {
		pg_end(&d->out, pg_begin(&d->out, '1'));
		pg_end(&d->out, pg_begin(&d->out, '2'));
		pg_build_data_row(&d->out, cells, 1);
		pg_build_string(&d->out, 'C', "SELECT 1");
	}
	pg_end(&d->out, pg_begin(&d->out, '1'));
	pg_end(&d->out, pg_begin(&d->out, '2'));
	pg_build_row_description(&d->out, columns, 2);
	say_secret(d);
	pg_build_string(&d->out, 'C', "SELECT 1");
	pg_build(&d->out, 'Z', "I", 1);
}

static void take_packet(struct desk *d, const uint8_t *at)
{
	if (!d->is_in && sim_u32(at + 4) == SSL_CODE) {
		bytes_append_u8(&d->out, 'N');
	} else if (!d->is_in) {
		d->is_in = true;
		welcome(d);
	} else if (*at == 'Q') {
		pg_build_string(&d->out, 'C', "SELECT 1");
		pg_build(&d->out, 'Z', "I", 1);
	} else if (*at == 'S') {
		look_up(d);
	}
}

static void desk_act(struct actor *actor)
{
	struct desk *d = SIM_OBJECT(actor, struct desk, actor);
	size_t here, header;
	const uint8_t *at;
	uint32_t size;

	while (at = wire_come(d->wire, &here), header = d->is_in ? 5 : 4,
	       here >= header && here >= (size = sim_u32(at + header - 4) + (d->is_in ? 1 : 0))) {
		take_packet(d, at);
		wire_take(d->wire, size);
	}
	bytes_consume(&d->out, wire_put(d->wire, bytes_front(&d->out), bytes_size(&d->out)));
	if (wire_has_ended(d->wire))
		desk_end(d);
}

struct actor *witness_connected(struct wire *wire)
{
	struct desk *d = mem_must(sizeof(*d));

	actor_init(&d->actor, desk_act, 0);
	d->wire = wire;
	list_append(&desks, &d->node);
	return &d->actor;
}

/* ---- the witnesses ---- */

/* Not where its turn may take all of client_login_timeout. */
static bool is_slow(const struct witness *w)
{
	return w->number == 0 && !(plan.attack == ATTACK_NAMES && plan.attack_addresses > 1);
}

static void come(struct witness *w)
{
	static const char *const pairs[] = { "user", "witness", "database", "witnesses" };

	w->wire = wire_call(&w->actor, FIRST_ADDRESS + w->number, ++last_port);
	if (!w->wire)
		return;
	SIM_TRACE("witness %d comes", w->number);
	w->began = loop_now();
	w->is_in = w->leaves = false;
	w->has_thought = !is_slow(w);
	w->thinks_until = 0;
	snprintf(w->prover.user, sizeof(w->prover.user), "witness");
	snprintf(w->prover.password, sizeof(w->prover.password), PASSWORD);
	pg_build_startup(&w->out, 3 << 16, pairs, 4);
}

static void go(struct witness *w)
{
	wire_close(&w->wire, false);
	bytes_free(&w->out);
	bytes_free(&w->come);
	prove_clear(&w->prover);
	actor_rest(&w->actor);
	if (!sim_is_calm)
		actor_at(&w->actor, loop_now() + chance_spread(1, 2 * USEC));
}

/* Asked for a proof: may think first, before the message is taken. False: it does still. */
static bool think(struct witness *w)
{
	if (w->has_thought || sim_is_calm)
		return true;
	if (w->thinks_until == 0) {
		w->thinks_until = loop_now() + chance_between(USEC, plan.login_timeout / 3);
		w->began += w->thinks_until - loop_now();
	}
	w->has_thought = loop_now() >= w->thinks_until;
	if (!w->has_thought)
		actor_at(&w->actor, w->thinks_until);
	return w->has_thought;
}

/* Returns false if the witness continues later. */
static bool take(struct witness *w, const uint8_t *at, uint32_t size)
{
	SIM_TRACE("witness %d <- %c", w->number, *at);
	switch (*at) {
	case 'E':
		SIM_CHECK(false, "a client of another address is refused: %s", client_error_field(at + 5, size - 5, 'M'));
		break;
	case 'R':
		if (sim_u32(at + 5) == 0)
			break;
		if (!think(w))
			return false;
		SIM_CHECK(prove(&w->prover, at + 5, size - 5, &w->out), "witness %d was asked for %u", w->number, sim_u32(at + 5));
		break;
	case 'Z':
		if (w->is_in) {
			note_wait(loop_now() - w->began, bound());
			pg_build(&w->out, 'X', NULL, 0);
			w->leaves = true;
		} else {
			pg_build_string(&w->out, 'Q', "witness");
		}
		w->is_in = true;
		break;
	}
	return true;
}

static void take_in(struct witness *w)
{
	size_t here;
	const uint8_t *at = wire_come(w->wire, &here);
	uint32_t size;

	bytes_append(&w->come, at, here);
	wire_take(w->wire, here);
	while ((here = bytes_size(&w->come)) >= 5 && here >= (size = sim_u32(bytes_front(&w->come) + 1) + 1)) {
		if (!take(w, bytes_front(&w->come), size))
			return;
		bytes_consume(&w->come, size);
	}
}

static void witness_act(struct actor *actor)
{
	struct witness *w = SIM_OBJECT(actor, struct witness, actor);

	if (!w->wire && !sim_is_calm)
		come(w);
	if (!w->wire)
		return;
	take_in(w);
	bytes_consume(&w->out, wire_put(w->wire, bytes_front(&w->out), bytes_size(&w->out)));
	SIM_CHECK(w->leaves || loop_now() <= w->began + bound(), "a client of another address waits for more than %.3f s",
		  (double)bound() / USEC);
	if (wire_has_ended(w->wire)) {
		SIM_CHECK(w->leaves, "a client of another address has lost its connection");
		go(w);
	} else if (!w->leaves) {
		actor_at(&w->actor, w->began + bound() + 1);
	}
}

/* ---- all of them ---- */

void witnesses_begin(void)
{
	list_init(&desks);
	last_port = 1024;
	witness_count = plan.attack == ATTACK_NONE ? 0 : WITNESSES;
	for (int i = 0; i < witness_count; i++) {
		witnesses[i] = (struct witness){ .number = i };
		actor_init(&witnesses[i].actor, witness_act, 0);
		actor_at(&witnesses[i].actor, loop_now() + chance_spread(0, 10 * USEC));
	}
}

void witnesses_calm(void)
{
	for (int i = 0; i < witness_count; i++)
		actor_at(&witnesses[i].actor, loop_now() + 1);
}

int witnesses_present(void)
{
	int count = 0;

	for (int i = 0; i < witness_count; i++)
		count += witnesses[i].wire != NULL;
	return count;
}

void witnesses_end(void)
{
	for (int i = 0; i < witness_count; i++) {
		if (witnesses[i].wire)
			go(&witnesses[i]);
		actor_rest(&witnesses[i].actor);
	}
	while (!list_is_empty(&desks))
		desk_end(SIM_OBJECT(desks.next, struct desk, node));
}
