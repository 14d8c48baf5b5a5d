#ifndef UNIT_DERIVE_H
#define UNIT_DERIVE_H

/*
 * SCRAM secrets of passwords, for tests that are servers or clients of pgweir.
 */
#include "pg/scram.h"

#include <string.h>

/* False: no memory, or a salt or count out of bounds; the keys are then zeros. */
static inline bool scram_keys_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations,
				     uint8_t client_key[SCRAM_KEY], uint8_t stored_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	uint8_t salted[SCRAM_KEY];

	memset(client_key, 0, SCRAM_KEY);
	memset(stored_key, 0, SCRAM_KEY);
	memset(server_key, 0, SCRAM_KEY);
	return scram_salted_derive(password, salt, salt_size, iterations, salted) && scram_keys_of_salted(salted, client_key, stored_key, server_key);
}

static inline bool scram_secret_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, struct scram_secret *out)
{
	uint8_t client_key[SCRAM_KEY];

	memset(out, 0, sizeof(*out));
	if (!scram_keys_derive(password, salt, salt_size, iterations, client_key, out->stored_key, out->server_key))
		return false;
	out->iterations = iterations;
	out->salt_size = salt_size;
	memcpy(out->salt, salt, salt_size);
	return true;
}

#endif
