/*
 * Logins at a fake server: the start-up packet, the proof of the password, the welcome; and packets other than logins: requests for TLS and cancel
 * requests.
 *
 * Each user gets the authentication request that the plan of the world sets for this user, so that the pooler has a matching secret and knows the
 * currently stored secret (truth.h). An invalid proof is correct only if the pooler computed the proof from a password that has since been changed;
 * otherwise the pooler is at fault.
 */
#include "backend.h"

#include "chance.h"
#include "pg/build.h"
#include "roles.h"
#include "sim.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_CODE 80877102
#define SSL_CODE 80877103

/* ---- the welcome ---- */

static void welcome(struct backend *b)
{
	pg_build_auth(&b->out, 0, NULL, 0);
	pg_build_parameter_status(&b->out, "server_version", "17.0");
	for (int i = 0; i < PARAMETERS; i++) {
		pg_build_parameter_status(&b->out, backend_parameter_names[i], b->values[i]);
		memcpy(b->start_values[i], b->values[i], sizeof(b->values[i]));
	}
	pg_build_parameter_status(&b->out, "standard_conforming_strings", "on");
	if (plan.has_roles) {
		b->says_standby = member_is_standby(b->host);
		pg_build_parameter_status(&b->out, "default_transaction_read_only", "off");
		pg_build_parameter_status(&b->out, "in_hot_standby", b->says_standby ? "on" : "off");
	}
	pg_build_key(&b->out, 'K', b->pid, b->key, b->key_size);
	b->phase = PHASE_READY;
	backend_ready(b);
	sim_counts.server_logins++;
}

/* ---- the proof ---- */

static int cluster_of(const struct backend *b)
{
	return truth_cluster(b->database);
}

static void wrong(struct backend *b)
{
	bool is_shown = b->database[0] && truth_is_shown(atoi(b->database + 2), truth_user(b->user), b->asked_at);

	SIM_CHECK(truth_has_changed() && !is_shown, "server %u: the pooler gave a wrong proof for %s in %s", b->pid, b->user, b->database);
	backend_refuse(b, "28P01", "simulated: wrong password");
}

static void ask(struct backend *b)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0";
	int user = truth_user(b->user);
	struct scram_secret secret;
	uint8_t nonce[SCRAM_NONCE_RAW];

	SIM_CHECK(user >= 0 && user < plan.users, "server %u: a login as %s", b->pid, b->user);
	b->phase = PHASE_PASSWORD;
	b->asked_at = loop_now();
	switch (truth_server_asks(user)) {
	case PROOF_NONE:
		welcome(b);
		return;
	case PROOF_PLAIN:
		pg_build_auth(&b->out, 3, NULL, 0);
		break;
	case PROOF_MD5:
		b->asks_md5 = true;
		for (size_t i = 0; i < sizeof(b->salt); i++)
			b->salt[i] = (uint8_t)chance_draw();
		pg_build_auth(&b->out, 5, b->salt, sizeof(b->salt));
		break;
	case PROOF_SCRAM:
		b->asks_scram = true;
		for (size_t i = 0; i < sizeof(nonce); i++)
			nonce[i] = (uint8_t)chance_draw();
		truth_scram(cluster_of(b), user, &secret);
		scram_verifier_init(&b->scram, &secret, false, nonce);
		pg_build_auth(&b->out, 10, mechanisms, sizeof(mechanisms));
	}
	backend_flush(b);
}

static void scram_step(struct backend *b, const char *data, size_t size)
{
	struct bytes out = BYTES_EMPTY;
	const char *why = "";

	switch (scram_verifier_step(&b->scram, data, size, &out, &why)) {
	case SCRAM_CONTINUE:
		pg_build_auth(&b->out, 11, out.data, bytes_size(&out));
		backend_flush(b);
		break;
	case SCRAM_DONE:
		pg_build_auth(&b->out, 12, out.data, bytes_size(&out));
		welcome(b);
		break;
	case SCRAM_WRONG:
		wrong(b);
		break;
	default:
		SIM_CHECK(false, "server %u: SCRAM from the pooler: %s", b->pid, why);
	}
	bytes_free(&out);
}

void backend_password(struct backend *b, const uint8_t *body, uint32_t size)
{
	int user = truth_user(b->user), cluster = cluster_of(b);
	const char *text = (const char *)body;
	char password[TRUTH_PASSWORD], stored[MD5_SECRET + 1], expected[TRUTH_PASSWORD];

	if (b->asks_scram && !b->scram.client_first_bare) {
		SIM_CHECK(strcmp(text, "SCRAM-SHA-256") == 0 && size > 18, "server %u: the pooler chose %s", b->pid, text);
		scram_step(b, text + 18, size - 18);
		return;
	}
	if (b->asks_scram) {
		scram_step(b, text, size);
		return;
	}
	truth_password(cluster, user, truth_generation(cluster, user), password);
	snprintf(expected, sizeof(expected), "%s", password);
	if (b->asks_md5)
		SIM_CHECK(md5_secret(password, b->user, stored) && md5_answer(stored, b->salt, expected), "no MD5");
	if (strcmp(text, expected) == 0)
		welcome(b);
	else
		wrong(b);
}

/* ---- packets without a type ---- */

static void begin_login(struct backend *b)
{
	const char *state, *text;

	if (!backend_is_shut(b, &state, &text))
		ask(b);
	else if (state)
		backend_refuse(b, state, text);
	else
		b->phase = PHASE_DEAF;
}

static void read_pairs(struct backend *b, const char *at, const char *end)
{
	while (at < end && *at) {
		const char *name = at, *value = name + strlen(name) + 1;
		int i = backend_parameter(name);

		if (strcmp(name, "database") == 0 || strcmp(name, "sim.database") == 0)
			snprintf(b->database, sizeof(b->database), "%s", value);
		else if (strcmp(name, "user") == 0)
			snprintf(b->user, sizeof(b->user), "%s", value);
		else if (strcmp(name, "replication") == 0)
			snprintf(b->replication, sizeof(b->replication), "%s", value);
		else if (strcmp(name, "sim.client") == 0)
			b->client = (uint32_t)atoi(value);
		else if (i >= 0)
			backend_set(b, i, value, false);
		at = value + strlen(value) + 1;
	}
	SIM_CHECK((b->client > 0) == (b->replication[0] != 0), "server %u: a login for client %u with replication \"%s\"", b->pid, b->client,
		  b->replication);
}

/* Some are newer than the pooler, and some older. */
static void draw_version(struct backend *b, uint32_t asked)
{
	b->minor = (uint8_t)asked;
	b->key_size = 4;
	if (asked == 0)
		return;
	if (chance_one_in(3)) {
		b->minor = 0;
		pg_build_negotiate(&b->out, 3 << 16, NULL, 0);
		return;
	}
	b->key_size = (size_t)chance_between(4, KEY_MOST);
	for (size_t i = 0; i < b->key_size; i++)
		b->key[i] = (uint8_t)chance_draw();
}

void backend_startup(struct backend *b, const uint8_t *at, uint32_t size)
{
	uint32_t code = sim_u32(at + 4);

	if (code == SSL_CODE) {
		bytes_append_u8(&b->out, 'N');
		backend_flush(b);
	} else if (code == CANCEL_CODE) {
		backend_cancel(sim_u32(at + 8), at + 12, size - 12);
		sim_counts.cancelled++;
		b->phase = PHASE_DEAF;
		b->dies_after = 0;
	} else {
		SIM_CHECK(code >> 16 == 3 && ((code & 0xffff) == 0 || (code & 0xffff) == 2), "server %u: protocol %x", b->pid, code);
		draw_version(b, code & 0xffff);
		read_pairs(b, (const char *)at + 8, (const char *)at + size);
		begin_login(b);
	}
}
