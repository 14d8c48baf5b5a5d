/*
 * The side of SCRAM that proves: messages, proof and signature are those of scram.c.
 *
 * The caller has the keys, or derives them from a password, which takes long and is not done here. The server has to
 * prove that it knows the secret, too, and its nonce must add to ours: one that repeats it has no part in the freshness of
 * the exchange.
 *
 * Invariant: as in scram.c, after any result but SCRAM_CONTINUE and SCRAM_PENDING the exchange is over and stays so.
 */
#include "pg/scram.h"

#include <stdio.h>
#include <string.h>

#include "pg/base64.h"
#include "pg/digest.h"
#include "pg/scram_parts.h"

void scram_prover_init(struct scram_prover *p, const uint8_t nonce[SCRAM_NONCE_RAW])
{
	memset(p, 0, sizeof(*p));
	p->gs2 = 'n';
	base64_encode(p->nonce, nonce, SCRAM_NONCE_RAW);
}

static enum scram_result send_client_first(struct scram_prover *p, struct bytes *out, const char **why)
{
	char bare[sizeof(p->nonce) + 8];

	/* PostgreSQL takes the user from the startup message and libpq leaves the name empty. */
	snprintf(bare, sizeof(bare), "n=,r=%s", p->nonce);
	p->client_first_bare = mem_copy_string(bare);
	bytes_append_text(out, scram_gs2_header(p->gs2));
	bytes_append_text(out, bare);
	if (!p->client_first_bare || out->failed)
		return scram_invalid(why, scram_no_memory);
	p->step = SCRAM_STEP_FINAL;
	return SCRAM_CONTINUE;
}

/* Checks and keeps what the server asks for: what is wrong with it, or NULL. */
static const char *server_first_fault(struct scram_prover *p, struct scram_scan s, struct scram_slice *nonce)
{
	struct scram_slice salt, iterations;
	size_t own = strlen(p->nonce);

	if (s.at < s.end && *s.at == 'm')
		return "server requires an unsupported SCRAM extension";
	if (!scram_take(&s, 'r', nonce) || !scram_is_nonce(*nonce))
		return scram_malformed;
	/* A server that adds nothing has no part in the freshness of the exchange. */
	if (nonce->size <= own || memcmp(nonce->at, p->nonce, own) != 0)
		return "invalid SCRAM response (nonce mismatch)";
	if (!scram_take(&s, 's', &salt))
		return scram_malformed;
	if (!base64_decode(p->salt, sizeof(p->salt), &p->salt_size, salt.at, salt.size) || p->salt_size == 0)
		return "malformed SCRAM message (invalid salt)";
	if (!scram_take(&s, 'i', &iterations))
		return scram_malformed;
	if (!scram_iterations_read(iterations.at, iterations.size, &p->iterations))
		return "malformed SCRAM message (invalid iteration count)";
	if (p->iterations > SCRAM_ITERATIONS_MAX)
		return "SCRAM iteration count of the server is too high";
	return scram_skip_extensions(&s) ? NULL : scram_malformed;
}

static bool find_keys(struct scram_prover *p, scram_cached_keys *cached, void *context)
{
	return p->have_keys || (cached && cached(context, p->salt, p->salt_size, p->iterations, p->client_key, p->server_key));
}

/* Base64 of the proof over p->auth_message. */
static bool make_proof(const struct scram_prover *p, char text[BASE64_SIZE(SCRAM_KEY) + 1])
{
	uint8_t stored_key[SCRAM_KEY], signature[SCRAM_KEY], proof[SCRAM_KEY];
	bool ok = digest_sha256(p->client_key, SCRAM_KEY, stored_key) && scram_sign(stored_key, p->auth_message, signature);

	if (ok) {
		scram_xor(proof, p->client_key, signature);
		base64_encode(text, proof, SCRAM_KEY);
	}
	mem_wipe(stored_key, sizeof(stored_key));
	mem_wipe(signature, sizeof(signature));
	return ok;
}

static enum scram_result send_client_final(struct scram_prover *p, struct scram_slice server_first, struct scram_slice nonce,
					   struct bytes *out, const char **why)
{
	char unsigned_part[SCRAM_MESSAGE_MAX + SCRAM_BINDING_TEXT + 16], proof[BASE64_SIZE(SCRAM_KEY) + 1], bound[SCRAM_BINDING_TEXT];
	char *server_first_text = scram_copy_text(server_first.at, server_first.size);
	int length;

	scram_binding_text(bound, p->gs2, &p->binding);
	length = snprintf(unsigned_part, sizeof(unsigned_part), "c=%s,r=%.*s", bound, (int)nonce.size, nonce.at);
	if (server_first_text)
		p->auth_message = scram_auth_message(p->client_first_bare, server_first_text,
						    (struct scram_slice){ unsigned_part, (size_t)length });
	mem_free(server_first_text);
	if (!p->auth_message)
		return scram_invalid(why, scram_no_memory);
	if (!make_proof(p, proof))
		return scram_invalid(why, "could not calculate client proof");
	bytes_append_text(out, unsigned_part);
	bytes_append_text(out, ",p=");
	bytes_append_text(out, proof);
	if (out->failed)
		return scram_invalid(why, scram_no_memory);
	p->step = SCRAM_STEP_SIGNATURE;
	return SCRAM_CONTINUE;
}

static enum scram_result answer_server_first(struct scram_prover *p, struct scram_slice message, scram_cached_keys *cached,
					     void *context, struct bytes *out, const char **why)
{
	struct scram_slice nonce;
	const char *fault = server_first_fault(p, (struct scram_scan){ message.at, message.at + message.size }, &nonce);

	if (fault)
		return scram_invalid(why, fault);
	if (!find_keys(p, cached, context)) {
		if (!p->may_derive) {
			*why = "no keys are known for the salt that the server uses";
			return SCRAM_NO_KEYS;
		}
		p->step = SCRAM_STEP_FINAL;
		return SCRAM_PENDING;
	}
	return send_client_final(p, message, nonce, out, why);
}

static enum scram_result check_server_final(struct scram_prover *p, struct scram_slice message, const char **why)
{
	struct scram_scan s = { message.at, message.at + message.size };
	uint8_t want[SCRAM_KEY], have[SCRAM_KEY];
	struct scram_slice value;
	char name;
	size_t got;

	if (!scram_take_any(&s, &name, &value) || !scram_skip_extensions(&s))
		return scram_invalid(why, scram_malformed);
	if (name == 'e') {
		*why = "error received from server in SCRAM exchange";
		return SCRAM_WRONG;
	}
	if (name != 'v')
		return scram_invalid(why, scram_malformed);
	if (!base64_decode(have, SCRAM_KEY, &got, value.at, value.size) || got != SCRAM_KEY)
		return scram_invalid(why, "malformed SCRAM message (invalid server signature)");
	if (!scram_sign(p->server_key, p->auth_message, want))
		return scram_invalid(why, scram_no_memory);
	if (mem_equal_constant_time(want, have, SCRAM_KEY))
		return SCRAM_DONE;
	*why = "incorrect server signature";
	return SCRAM_WRONG;
}

enum scram_result scram_prover_step(struct scram_prover *p, const char *message, size_t size,
				    scram_cached_keys *cached, void *context, struct bytes *out, const char **why)
{
	struct scram_slice whole = { message, size };
	uint8_t step = p->step;
	const char *fault;

	p->step = SCRAM_STEP_OVER;
	if (step == SCRAM_STEP_FIRST)
		return send_client_first(p, out, why);
	fault = scram_message_fault(message, size);
	if (fault)
		return scram_invalid(why, fault);
	if (step == SCRAM_STEP_FINAL)
		return answer_server_first(p, whole, cached, context, out, why);
	if (step == SCRAM_STEP_SIGNATURE)
		return check_server_final(p, whole, why);
	return scram_invalid(why, "unexpected SCRAM message");
}

void scram_prover_clear(struct scram_prover *p)
{
	mem_free(p->client_first_bare);
	mem_free(p->auth_message);
	mem_wipe(p, sizeof(*p));
	p->step = SCRAM_STEP_OVER;
}
