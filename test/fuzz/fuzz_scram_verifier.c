/*
 * SCRAM from pgweir to a client (pg/scram.c): any data that an unauthenticated client may send, with and without channel binding.
 *
 * Input: a byte for the offer, the client-first message, a NUL, the client-final message. If the final message ends with "%", the target replaces
 * this with the matching proof, so that inputs get further. Properties: without the correct proof no client is accepted, and with it the proven key
 * is the client's; an unknown user is never accepted; pgweir's own prover understands the output; a second final message is refused.
 */
#include "fuzz.h"
#include "derive.h"
#include "pg/scram.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

enum { OFFER_PLUS = 1, OFFER_CHOSEN = 2, OFFER_MOCK = 4, OFFER_NOTHING_FIRST = 8 };

static struct scram_secret secret;
static uint8_t client_key[SCRAM_KEY];

static void prepare(void)
{
	static const uint8_t salt[] = "0123456789abcdef";
	uint8_t stored_key[SCRAM_KEY], server_key[SCRAM_KEY];

	if (secret.iterations > 0)
		return;
	FUZZ_CHECK(scram_secret_derive("pencil", salt, 16, 16, &secret));
	FUZZ_CHECK(scram_keys_derive("pencil", salt, 16, 16, client_key, stored_key, server_key));
	FUZZ_CHECK(memcmp(stored_key, secret.stored_key, SCRAM_KEY) == 0 && memcmp(server_key, secret.server_key, SCRAM_KEY) == 0);
}

/* Puts the proof in place of the "%". */
static void prove(struct bytes *final, const struct scram_verifier *v)
{
	uint8_t signature[SCRAM_KEY];
	char text[BASE64_SIZE(SCRAM_KEY) + 1];
	struct bytes auth = BYTES_EMPTY;
	size_t size = bytes_size(final) - 1;

	/* "...,p=" is not covered by the signature */
	if (size < 3 || memcmp(bytes_front(final) + size - 3, ",p=", 3) != 0)
		return;
	bytes_append_format(&auth, "%s,%s,", v->client_first_bare, v->server_first);
	bytes_append(&auth, bytes_front(final), size - 3);
	FUZZ_CHECK(!auth.failed && digest_hmac_sha256(secret.stored_key, SCRAM_KEY, bytes_front(&auth), bytes_size(&auth), signature));
	for (int i = 0; i < SCRAM_KEY; i++)
		signature[i] ^= client_key[i];
	EVP_EncodeBlock((unsigned char *)text, signature, SCRAM_KEY);
	final->end--;
	bytes_append_text(final, text);
	bytes_free(&auth);
}

static enum scram_result step(struct scram_verifier *v, const void *message, size_t size, struct bytes *out)
{
	uint8_t *copy = message ? fuzz_copy(message, size) : NULL;
	const char *why = NULL;
	enum scram_result result = scram_verifier_step(v, (const char *)copy, size, out, &why);

	FUZZ_CHECK(!out->failed);
	FUZZ_CHECK(result == SCRAM_CONTINUE || result == SCRAM_DONE || (why && bytes_size(out) == 0));
	free(copy);
	return result;
}

static void finish(struct scram_verifier *v, struct fuzz_input *in, bool mock)
{
	struct bytes final = BYTES_EMPTY, out = BYTES_EMPTY;
	bool proves = fuzz_left(in) > 0 && in->end[-1] == '%';
	enum scram_result result;

	bytes_append(&final, in->at, fuzz_left(in));
	if (proves)
		prove(&final, v);
	result = step(v, final.data, bytes_size(&final), &out);
	FUZZ_CHECK(result != SCRAM_CONTINUE);
	/* no input finds the proof by chance */
	FUZZ_CHECK(result != SCRAM_DONE || (proves && !mock));
	if (result == SCRAM_DONE) {
		FUZZ_CHECK(memcmp(v->client_key, client_key, SCRAM_KEY) == 0);
		FUZZ_CHECK(bytes_size(&out) == 2 + BASE64_SIZE(SCRAM_KEY) && memcmp(bytes_front(&out), "v=", 2) == 0);
	}
	bytes_free(&out);
	FUZZ_CHECK(step(v, "c=biws", 6, &out) == SCRAM_INVALID);
	bytes_free(&final);
	bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t nonce[SCRAM_NONCE_RAW] = "the nonce of ours";
	struct fuzz_input in = fuzz_input_of(data, size);
	uint8_t offer = fuzz_u8(&in), *first;
	struct bytes out = BYTES_EMPTY;
	struct scram_verifier v;
	enum scram_result result;
	size_t first_size;

	prepare();
	scram_verifier_init(&v, &secret, offer & OFFER_MOCK, nonce);
	if (offer & OFFER_PLUS) {
		v.binding.size = 32;
		memset(v.binding.data, 7, 32);
		v.plus = offer & OFFER_CHOSEN;
	}
	if (offer & OFFER_NOTHING_FIRST) {
		FUZZ_CHECK(step(&v, NULL, 0, &out) == SCRAM_CONTINUE && bytes_size(&out) == 0);
	}
	first = fuzz_bytes(&in, 0, &first_size);
	result = step(&v, first, first_size, &out);
	FUZZ_CHECK(result != SCRAM_DONE);
	if (result == SCRAM_CONTINUE) {
		FUZZ_CHECK(bytes_size(&out) > 2 && memcmp(bytes_front(&out), "r=", 2) == 0);
		FUZZ_CHECK(!memchr(bytes_front(&out), 0, bytes_size(&out)));
		finish(&v, &in, offer & OFFER_MOCK);
	}
	free(first);
	bytes_free(&out);
	scram_verifier_clear(&v);
	return 0;
}
