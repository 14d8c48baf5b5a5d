/*
 * The users that may log in, and the knowledge of servers and pooler about them: see truth.h.
 *
 * A user is in the user list, with one password for all databases, or is looked up: then each cluster has its own password for the name, which
 * changes occasionally. The clusters record their answers to look-ups with the time. Therefore the required outcome of each login is known: its
 * secret must come from a look-up after the login began (a guarantee of auth/lookup.c).
 *
 * Invariant: a generation is never reused, and no two users, clusters or generations have the same password.
 */
#include "truth.h"

#include "chance.h"
#include "machine.h"
#include "pg/scram.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The secrets of the world are made by the real function: the simulated one counts what pgweir derives. */
bool __real_scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
#define scram_salted_derive __real_scram_salted_derive
#include "derive.h"
#undef scram_salted_derive

struct known {
	uint32_t generation;
	char secret[SCRAM_SECRET_TEXT];
	struct scram_secret scram;
	usec_t given[TRUTH_GENERATIONS];	/* when a look-up was last answered so; 0: never */
	usec_t named, none, failed;
};

static struct {
	struct known known[PLAN_DATABASES][PLAN_USERS];
	usec_t nobody_failed[PLAN_DATABASES];
	bool has_changed;
	struct { uint32_t generation; usec_t at; } shown[PLAN_DATABASES][PLAN_USERS];	/* at: 0: never */
	int unanswered[PLAN_DATABASES][PLAN_USERS][TRUTH_GENERATIONS];	/* proofs */
	struct actor changer;
} truth;

/* A user of the list is the same everywhere. */
static struct known *known_of(int cluster, int user)
{
	return &truth.known[plan.is_listed[user] ? 0 : cluster][user];
}

int truth_cluster(const char *dbname)
{
	return *dbname ? plan.cluster[atoi(dbname + 2)] : 0;
}

int truth_user(const char *name)
{
	return name[0] == 'u' ? atoi(name + 1) : TRUTH_NOBODY;
}

uint32_t truth_generation(int cluster, int user)
{
	return known_of(cluster, user)->generation;
}

void truth_password(int cluster, int user, uint32_t generation, char password[TRUTH_PASSWORD])
{
	if (plan.is_listed[user])
		snprintf(password, TRUTH_PASSWORD, "password%d", user);
	else
		snprintf(password, TRUTH_PASSWORD, "password%d.%d.%u", user, cluster, generation);
}

const char *truth_secret(int cluster, int user)
{
	return known_of(cluster, user)->secret;
}

void truth_scram(int cluster, int user, struct scram_secret *secret)
{
	*secret = known_of(cluster, user)->scram;
}

enum proof truth_server_asks(int user)
{
	return plan.server_asks[user];
}

bool truth_has_changed(void)
{
	return truth.has_changed;
}

/* Computes the stored secret of the current generation. */
static void store(int cluster, int user)
{
	struct known *k = known_of(cluster, user);
	uint8_t salt[16];
	char password[TRUTH_PASSWORD], name[16];
	bool done = true;

	for (size_t i = 0; i < sizeof(salt); i++)
		salt[i] = (uint8_t)chance_draw();
	truth_password(cluster, user, k->generation, password);
	snprintf(name, sizeof(name), "u%d", user);
	done = scram_secret_derive(password, salt, sizeof(salt), plan.iterations, &k->scram);
	if (plan.stored[user] == PROOF_SCRAM)
		done = done && scram_secret_write(&k->scram, k->secret, sizeof(k->secret));
	else if (plan.stored[user] == PROOF_MD5)
		done = done && md5_secret(password, name, k->secret);
	else
		snprintf(k->secret, sizeof(k->secret), "%s", password);
	SIM_CHECK(done, "no secret for %s", name);
}

/* The password of one user is changed. */
static void change(struct actor *actor)
{
	int cluster = plan.cluster[chance_below((uint32_t)plan.databases)], user = (int)chance_below((uint32_t)plan.users);
	struct known *k = known_of(cluster, user);

	if (sim_is_calm)
		return;
	if (!plan.is_listed[user] && k->generation + 1 < TRUTH_GENERATIONS) {
		k->generation++;
		truth.has_changed = true;
		store(cluster, user);
		SIM_TRACE("cluster %d: u%d has password %u now", cluster, user, k->generation);
	}
	actor_at(actor, loop_now() + chance_spread(USEC / 10, 600 * USEC));
}

void truth_begin(void)
{
	FILE *f = fopen(plan.users_path, "w");

	SIM_CHECK(f, "cannot write %s", plan.users_path);
	memset(&truth, 0, sizeof(truth));
	for (int user = 0; user < plan.users; user++) {
		for (int cluster = 0; cluster < (plan.is_listed[user] ? 1 : plan.databases); cluster++)
			store(cluster, user);
		if (plan.is_listed[user])
			fprintf(f, "\"u%d\" \"%s\"\n", user, truth_secret(0, user));
	}
	fprintf(f, "\"admin\" \"adminpassword\"\n");
	if (plan.attack)
		attack_write_users(f);
	SIM_CHECK(fclose(f) == 0, "cannot write %s", plan.users_path);
	actor_init(&truth.changer, change, 0);
	if (plan.changes)
		actor_at(&truth.changer, loop_now() + chance_spread(0, 300 * USEC));
}

void truth_calm(void)
{
	actor_rest(&truth.changer);
}

void truth_end(void)
{
	actor_rest(&truth.changer);
}

/* ---- proofs and answers ---- */

void truth_sends_proof(int database, int user, int generation)
{
	if (user != TRUTH_NOBODY && generation >= 0)
		truth.unanswered[database][user][generation]++;
}

void truth_is_told(int database, int user, int generation)
{
	if (user != TRUTH_NOBODY && generation >= 0)
		truth.unanswered[database][user][generation]--;
}

void truth_shown(int database, int user, uint32_t generation)
{
	truth.shown[database][user].generation = generation;
	truth.shown[database][user].at = loop_now();
}

bool truth_is_shown(int database, int user, usec_t before)
{
	uint32_t generation = truth_generation(plan.cluster[database], user);
	usec_t at = truth.shown[database][user].at;

	for (uint32_t i = 0; i < TRUTH_GENERATIONS; i++)
		if (i != generation && truth.unanswered[database][user][i] > 0)
			return false;
	return at > 0 && at < before && truth.shown[database][user].generation == generation;
}

void truth_answered(int cluster, int user, enum truth_answer answer)
{
	struct known *k = user == TRUTH_NOBODY ? NULL : known_of(cluster, user);
	usec_t now = loop_now();

	if (!k) {
		if (answer == TRUTH_FAILURE)
			truth.nobody_failed[cluster] = now;
		return;
	}
	switch (answer) {
	case TRUTH_RIGHT:
		k->given[k->generation] = k->named = now;
		return;
	case TRUTH_NAMED:
		k->named = k->none = now;
		return;
	case TRUTH_NONE:
		k->none = now;
		return;
	case TRUTH_FAILURE:
		k->failed = now;
	}
}

/* ---- judging ---- */

bool truth_may_come(int cluster, int user, enum proof proof, int generation, usec_t began)
{
	const struct known *k;

	if (user == TRUTH_NOBODY)
		return false;
	k = known_of(cluster, user);
	if (proof == PROOF_NONE)
		return plan.is_listed[user] || k->named >= began;
	if (generation < 0)
		return false;
	return plan.is_listed[user] || k->given[generation] >= began;
}

bool truth_may_be_wrong(int cluster, int user, enum proof proof, int generation, usec_t began)
{
	const struct known *k;

	if (user == TRUTH_NOBODY)
		return true;
	k = known_of(cluster, user);
	if (proof != PROOF_NONE && generation < 0)
		return true;
	if (plan.is_listed[user])
		return false;
	if (k->none >= began)
		return true;
	/* another password was in force */
	for (int i = 0; proof != PROOF_NONE && i < TRUTH_GENERATIONS; i++)
		if (i != generation && k->given[i] >= began)
			return true;
	return false;
}

bool truth_may_fail(int cluster, int user, usec_t began)
{
	if (user == TRUTH_NOBODY)
		return truth.nobody_failed[cluster] >= began;
	return !plan.is_listed[user] && known_of(cluster, user)->failed >= began;
}
