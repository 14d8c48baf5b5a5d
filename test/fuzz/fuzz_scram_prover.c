/*
 * SCRAM from pgweir to a server (pg/scram.c): any data that an attacker in place of a server may send.
 *
 * Input: a byte for the client's channel binding and keys, the server-first message, a NUL, the server-final message. If the final message ends with
 * "%", the target replaces this with the signature that a server with the secret would send. Properties: only such a server is accepted; the keys
 * cached afterwards belong to its salt and iteration count; the server cannot cause more iterations than the limit.
 */
#include "fuzz.h"
#include "derive.h"
#include "pg/scram.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

enum { HOW_BINDING = 3, HOW_KEYS = 4, HOW_CACHED = 8, HOW_NO_PASSWORD = 16 };
#define DERIVED_MOST 64		/* iterations; more would only be slow */

static bool cached(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t client_key[SCRAM_KEY],
		   uint8_t server_key[SCRAM_KEY])
{
	FUZZ_CHECK(salt_size > 0 && salt_size <= SCRAM_SALT_MAX && iterations > 0 && salt);
	memset(client_key, 1, SCRAM_KEY);
	memset(server_key, 2, SCRAM_KEY);
	return *(const bool *)context;
}

static enum scram_result step(struct scram_prover *p, const void *message, size_t size, bool has_cached, struct bytes *out)
{
	uint8_t *copy = message ? fuzz_copy(message, size) : NULL;
	const char *why = NULL;
	enum scram_result result = scram_prover_step(p, (const char *)copy, size, cached, &has_cached, out, &why);
	uint8_t stored_key[SCRAM_KEY];

	if (result == SCRAM_PENDING) {
		FUZZ_CHECK(p->may_derive && !p->have_keys && bytes_size(out) == 0);
		p->have_keys = scram_keys_derive("pencil", p->salt, p->salt_size, p->iterations, p->client_key, stored_key, p->server_key);
		result = scram_prover_step(p, (const char *)copy, size, cached, &has_cached, out, &why);
		FUZZ_CHECK(result != SCRAM_PENDING);
	}
	FUZZ_CHECK(!out->failed);
	FUZZ_CHECK(result == SCRAM_CONTINUE || result == SCRAM_DONE || (why && bytes_size(out) == 0));
	free(copy);
	return result;
}

/* Replaces "%" with the signature of a server that knows the secret. */
static void sign(struct bytes *final, const struct scram_prover *p)
{
	uint8_t signature[SCRAM_KEY];
	char text[BASE64_SIZE(SCRAM_KEY) + 1];

	FUZZ_CHECK(digest_hmac_sha256(p->server_key, SCRAM_KEY, p->auth_message, strlen(p->auth_message), signature));
	EVP_EncodeBlock((unsigned char *)text, signature, SCRAM_KEY);
	final->end--;
	bytes_append_text(final, text);
}

static void finish(struct scram_prover *p, struct fuzz_input *in)
{
	struct bytes final = BYTES_EMPTY, out = BYTES_EMPTY;
	bool signs = fuzz_left(in) > 0 && in->end[-1] == '%';
	enum scram_result result;

	bytes_append(&final, in->at, fuzz_left(in));
	if (signs)
		sign(&final, p);
	result = step(p, final.data, bytes_size(&final), false, &out);
	FUZZ_CHECK(result != SCRAM_CONTINUE && bytes_size(&out) == 0);
	FUZZ_CHECK(result != SCRAM_DONE || signs);
	FUZZ_CHECK(step(p, "v=", 2, false, &out) == SCRAM_INVALID);
	bytes_free(&final);
	bytes_free(&out);
}

/* The first count of the message; 0: it has none that would be derived. */
static unsigned long count_in(const uint8_t *message, size_t size)
{
	for (size_t i = 0; i + 3 < size; i++)
		if (memcmp(message + i, ",i=", 3) == 0)
			return strtoul((const char *)message + i + 3, NULL, 10);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t nonce[SCRAM_NONCE_RAW] = "the nonce of ours";
	struct fuzz_input in = fuzz_input_of(data, size);
	uint8_t how = fuzz_u8(&in);
	bool has_keys = how & (HOW_KEYS | HOW_CACHED);
	char *first = fuzz_text(&in, 0);
	struct bytes out = BYTES_EMPTY;
	unsigned long count = count_in((const uint8_t *)first, strlen(first));
	struct scram_prover p;

	scram_prover_init(&p, nonce);
	p.may_derive = !(how & HOW_NO_PASSWORD);
	p.have_keys = how & HOW_KEYS;
	p.gs2 = "nypn"[how & HOW_BINDING];
	if (p.gs2 == 'p')
		p.binding.size = 32;
	FUZZ_CHECK(step(&p, NULL, 0, false, &out) == SCRAM_CONTINUE && bytes_size(&out) > 0);
	bytes_free(&out);
	/* to derive a million is slow, and nothing that is not known */
	if (has_keys || !p.may_derive || count <= DERIVED_MOST || count > SCRAM_ITERATIONS_MAX) {
		enum scram_result result = step(&p, first, strlen(first), how & HOW_CACHED, &out);

		FUZZ_CHECK(result == SCRAM_CONTINUE || result == SCRAM_INVALID || result == SCRAM_UNBOUND ||
			   (result == SCRAM_NO_KEYS && !has_keys && !p.may_derive));
		if (result == SCRAM_CONTINUE) {
			FUZZ_CHECK(has_keys || (p.may_derive && p.iterations <= SCRAM_ITERATIONS_MAX));
			finish(&p, &in);
		}
	}
	free(first);
	bytes_free(&out);
	scram_prover_clear(&p);
	return 0;
}
