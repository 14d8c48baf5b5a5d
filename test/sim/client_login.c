/*
 * The login of a fake client, and the check of its outcome.
 *
 * The client proves the current password, an earlier password, or a wrong password; some users are unknown. The required outcome follows from
 * truth.h: from the user list, or from the answers to look-ups since the client connected. The pooler's errors for a wrong proof and a failed look-up
 * are checked; all other errors (limits, timeouts, errors of a server) may come at any time.
 *
 * Invariant: a welcomed client got the authentication request that the world's plan sets, and has proven its password.
 */
#include "chance.h"
#include "client.h"
#include "pg/build.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define OLD_PROTOCOL 0
#define LONG_KEYS 2
#define SHORT_KEY 4
#define LONG_KEY 24

/* ---- its user ---- */

static int cluster_of(const struct guest *c)
{
	return plan.cluster[c->database];
}

static void draw_password(struct guest *c)
{
	uint32_t generation;

	c->generation = -1;
	snprintf(c->prover.password, sizeof(c->prover.password), "wrong");
	if (c->user == TRUTH_NOBODY || chance_one_in(20))
		return;
	generation = truth_generation(cluster_of(c), c->user);
	if (generation > 0 && chance_one_in(6))
		generation--;
	c->generation = (int)generation;
	truth_password(cluster_of(c), c->user, generation, c->prover.password);
}

void client_login_begin(struct guest *c)
{
	c->database = (int)chance_below((uint32_t)plan.databases);
	c->user = chance_one_in(40) ? TRUTH_NOBODY : (int)chance_below((uint32_t)plan.users);
	/* an entry "*" stands for every database */
	c->is_elsewhere = chance_one_in(60) && plan.attack != ATTACK_NAMES;
	snprintf(c->prover.user, sizeof(c->prover.user), c->user == TRUTH_NOBODY ? "nobody" : "u%d", c->user);
	draw_password(c);
	if (plan.versions) {
		c->version = chance_one_in(2) ? LONG_KEYS : OLD_PROTOCOL;
		c->wants_negotiation = chance_one_in(4);
	}
	if (plan.streams && chance_one_in(5))
		c->replication = chance_one_in(2) ? "database" : "true";
	c->sight = (struct sight){ .reads = plan_target(c->database) == PLAN_PREFER_STANDBY };
	if (plan_target(c->database) == PLAN_PRIMARY && !plan.only_switchovers && !c->replication)
		c->sight.reads = chance_one_in(2);
}

void client_login_end(struct guest *c)
{
	prove_clear(&c->prover);
}

/* ---- messages of the client ---- */

/*
 * Parameters that are forwarded to the walsender unchanged: they identify the client, and the database, which is missing in a physical replication
 * connection.
 */
static size_t add_replication(const struct guest *c, const char **pairs, char number[16], char database[16])
{
	snprintf(number, 16, "%u", c->number);
	snprintf(database, 16, "db%d", c->database);
	pairs[0] = "replication";
	pairs[1] = c->replication;
	pairs[2] = "sim.client";
	pairs[3] = number;
	pairs[4] = "sim.database";
	pairs[5] = database;
	return 6;
}

void client_send_startup(struct guest *c)
{
	char database[32], name[64], number[16], own[16];
	const char *pairs[18];
	uint32_t version = 3 << 16 | c->version;
	size_t count = 0;

	snprintf(database, sizeof(database), "d%d", c->is_elsewhere ? 99 : c->database);
	snprintf(name, sizeof(name), "n%u_start", c->number);
	pairs[count++] = "user";
	pairs[count++] = c->prover.user;
	pairs[count++] = "database";
	pairs[count++] = database;
	if (chance_one_in(2)) {
		pairs[count++] = "application_name";
		pairs[count++] = name;
	}
	if (chance_one_in(4)) {
		pairs[count++] = "DateStyle";
		pairs[count++] = chance_one_in(2) ? "ISO" : "German, DMY";
	}
	if (chance_one_in(8)) {
		pairs[count++] = "TimeZone";
		pairs[count++] = "Europe/Berlin";
	}
	if (c->sight.reads && plan_target(c->database) == PLAN_PRIMARY) {
		pairs[count++] = "options";
		pairs[count++] = "-c pgweir.target_session_attrs=prefer-standby";
	}
	if (c->replication)
		count += add_replication(c, pairs + count, number, own);
	if (c->wants_negotiation && c->version == OLD_PROTOCOL) {
		pairs[count++] = "_pq_.sim";
		pairs[count++] = "1";
	} else if (c->wants_negotiation) {
		version = 3 << 16 | 9999;
	}
	pg_build_startup(&c->out, version, pairs, count);
	c->phase = CLIENT_LOGIN;
}

/* ---- being let in ---- */

static struct comer comer(const struct guest *c)
{
	return (struct comer){
		.database = c->is_elsewhere ? -1 : c->database, .user = c->user, .address = c->address,
		.is_physical = c->replication && strcmp(c->replication, "true") == 0, .began = c->began,
	};
}

/*
 * Returns whether the plan allows this authentication request. MD5 becomes SCRAM if only a SCRAM secret is stored, and an unknown user may get the
 * request of any known user.
 */
static bool is_fit_to_ask(const struct guest *c, enum proof proof)
{
	bool either = c->user == TRUTH_NOBODY || c->is_elsewhere || plan.lies;
	struct comer who = comer(c);

	if (plan.rules)
		return rules_may_ask(&who, proof);
	if (plan.auth != PROOF_MD5 || (!either && plan.stored[c->user] != PROOF_SCRAM))
		return proof == plan.auth;
	return proof == PROOF_SCRAM || (either && proof == PROOF_MD5);
}

static void let_in(struct guest *c)
{
	SIM_CHECK(!c->is_in, "client %u was let in twice", c->number);
	c->is_in = true;
	SIM_CHECK(is_fit_to_ask(c, c->prover.proof), "client %u was let in without a proof", c->number);
	SIM_CHECK(prove_may_end(&c->prover), "client %u was let in in the middle of SCRAM", c->number);
	SIM_CHECK(!c->is_elsewhere, "client %u was let in to a database that there isn't", c->number);
	SIM_CHECK(truth_may_come(cluster_of(c), c->user, c->prover.proof, c->generation, c->began),
		  "client %u (u%d, cluster %d, password %d) was let in, and must not", c->number, c->user, cluster_of(c), c->generation);
	if (c->prover.proof == PROOF_NONE)
		return;
	truth_is_told(c->database, c->user, c->generation);
	truth_shown(c->database, c->user, (uint32_t)c->generation);
}

static void asked(struct guest *c, const uint8_t *body, uint32_t size)
{
	bool is_first = c->prover.proof == PROOF_NONE;

	if (sim_u32(body) == 0) {
		let_in(c);
		return;
	}
	SIM_CHECK(prove(&c->prover, body, size, &c->out), "client %u: question %u makes no sense", c->number, sim_u32(body));
	if (!is_first)
		return;
	if (!c->is_elsewhere)
		truth_sends_proof(c->database, c->user, c->generation);
	sim_counts.proofs++;
	SIM_CHECK(is_fit_to_ask(c, c->prover.proof), "client %u was asked for %u", c->number, sim_u32(body));
}

/* ---- being refused ---- */

static void refused(struct guest *c, const char *text)
{
	static const char *const wrong[] = {
		"password authentication failed", "SASL authentication failed", "\"trust\" authentication failed",
	};
	struct comer who = comer(c);
	bool is_wrong = false;

	c->was_told = true;
	sim_counts.refused++;
	sim_note_final_error(text);
	SIM_TRACE("client %u is refused: %s", c->number, text);
	if (c->is_bad)
		return;
	SIM_CHECK(strcmp(text, "login rejected") != 0 || (plan.rules && rules_may_reject(&who)), "client %u was rejected", c->number);
	SIM_CHECK(strcmp(text, "no authentication method is found") != 0 || (plan.rules && rules_may_fit_nothing(&who)),
		  "client %u was told that no line fits", c->number);
	if (c->is_elsewhere)
		return;
	if (c->prover.proof != PROOF_NONE && !c->is_in)
		truth_is_told(c->database, c->user, c->generation);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		is_wrong |= strcmp(text, wrong[i]) == 0;
	/* if the method cannot use the stored secret, every password is wrong */
	is_wrong &= !(c->user != TRUTH_NOBODY && c->prover.proof == PROOF_SCRAM && plan.stored[c->user] == PROOF_MD5);
	SIM_CHECK(!is_wrong || truth_may_be_wrong(cluster_of(c), c->user, c->prover.proof, c->generation, c->began),
		  "client %u (u%d, cluster %d, password %d) was told \"%s\", and has proven it", c->number, c->user, cluster_of(c), c->generation,
		  text);
	SIM_CHECK(strcmp(text, "bouncer config error") != 0 || truth_may_fail(cluster_of(c), c->user, c->began),
		  "client %u (u%d, cluster %d) was told \"%s\", and no look-up of its user has failed", c->number, c->user, cluster_of(c), text);
}

/* ---- messages ---- */

static void keep_key(struct guest *c, const uint8_t *body, uint32_t size)
{
	c->pid = sim_u32(body);
	c->key_size = size - 4;
	SIM_CHECK(c->key_size == (c->version == LONG_KEYS ? LONG_KEY : SHORT_KEY), "client %u got a key of %zu bytes", c->number, c->key_size);
	memcpy(c->key, body + 4, c->key_size);
}

static void negotiated(struct guest *c, const uint8_t *body)
{
	SIM_CHECK(c->wants_negotiation && c->prover.proof == PROOF_NONE && !c->is_in, "client %u was told of a version that it knows",
		  c->number);
	SIM_CHECK(sim_u32(body) == (3u << 16 | c->version) && sim_u32(body + 4) == (c->version == OLD_PROTOCOL ? 1 : 0),
		  "client %u was told version %x, %u options", c->number, sim_u32(body), sim_u32(body + 4));
	c->wants_negotiation = false;
}

void client_login_message(struct guest *c, char type, const uint8_t *body, uint32_t size)
{
	switch (type) {
	case 'v':
		negotiated(c, body);
		return;
	case 'R':
		asked(c, body, size);
		return;
	case 'S':
		client_judge(c, type, body, size);
		return;
	case 'K':
		keep_key(c, body, size);
		return;
	case 'Z':
		SIM_CHECK(body[0] == 'I', "client %u logs in into state %c", c->number, body[0]);
		SIM_CHECK(c->is_in && !c->wants_negotiation && c->key_size > 0, "client %u is welcomed without its due", c->number);
		c->phase = CLIENT_HERE;
		sim_counts.logins++;
		return;
	case 'N':
		return;
	case 'E':
		refused(c, client_error_field(body, size, 'M'));
		return;
	default:
		SIM_CHECK(false, "client %u got a message %c in its login", c->number, type);
	}
}
