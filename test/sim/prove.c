/*
 * A fake client proves that it knows its password, in the way that it is asked for: see prove.h.
 */
#include "pg/scram.h"
#include "prove.h"

#include "chance.h"
#include "pg/build.h"
#include "sim.h"

#include <string.h>

/* The secrets of the world are made by the real function: the simulated one counts what pgweir derives. */
bool __real_scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
#define scram_salted_derive __real_scram_salted_derive
#include "derive.h"
#undef scram_salted_derive

static bool scram_step(struct prover *p, const char *data, size_t size, struct bytes *to)
{
	struct bytes out = BYTES_EMPTY;
	const char *why = "";
	enum scram_result result = scram_prover_step(&p->scram, data, size, NULL, NULL, &out, &why);
	uint8_t stored_key[SCRAM_KEY];

	if (result == SCRAM_PENDING) {
		p->scram.have_keys = scram_keys_derive(p->password, p->scram.salt, p->scram.salt_size, p->scram.iterations, p->scram.client_key,
						       stored_key, p->scram.server_key);
		result = scram_prover_step(&p->scram, data, size, NULL, NULL, &out, &why);
	}
	p->scram_done = result == SCRAM_DONE;
	if (result == SCRAM_CONTINUE && data)
		pg_build(to, 'p', bytes_front(&out), bytes_size(&out));
	else if (result == SCRAM_CONTINUE)
		pg_build_sasl_initial(to, "SCRAM-SHA-256", bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	return result == SCRAM_CONTINUE || result == SCRAM_DONE;
}

static bool begin_scram(struct prover *p, struct bytes *out)
{
	uint8_t nonce[SCRAM_NONCE_RAW];

	for (size_t i = 0; i < sizeof(nonce); i++)
		nonce[i] = (uint8_t)chance_draw();
	scram_prover_init(&p->scram, nonce);
	p->scram.may_derive = true;
	p->scram_begun = true;
	return scram_step(p, NULL, 0, out);
}

static bool say_md5(const struct prover *p, const uint8_t *salt, struct bytes *out)
{
	char stored[MD5_SECRET + 1], answer[MD5_SECRET + 1];

	if (!md5_secret(p->password, p->user, stored) || !md5_answer(stored, salt, answer))
		return false;
	pg_build(out, 'p', answer, sizeof(answer));
	return true;
}

bool prove(struct prover *p, const uint8_t *body, uint32_t size, struct bytes *out)
{
	uint32_t code = sim_u32(body);
	bool is_first = p->proof == PROOF_NONE;

	switch (code) {
	case 3:
		p->proof = PROOF_PLAIN;
		pg_build(out, 'p', p->password, strlen(p->password) + 1);
		return is_first;
	case 5:
		p->proof = PROOF_MD5;
		return is_first && size == 8 && say_md5(p, body + 4, out);
	case 10:
		p->proof = PROOF_SCRAM;
		return is_first && begin_scram(p, out);
	case 11:
	case 12:
		return p->scram_begun && !p->scram_done && scram_step(p, (const char *)body + 4, size - 4, out) && p->scram_done == (code == 12);
	default:
		return false;
	}
}

bool prove_may_end(const struct prover *p)
{
	return !p->scram_begun || p->scram_done;
}

void prove_clear(struct prover *p)
{
	if (p->scram_begun)
		scram_prover_clear(&p->scram);
	memset(p, 0, sizeof(*p));
}
