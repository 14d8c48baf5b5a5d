/*
 * What both sides of a SCRAM exchange need: attributes taken off a message, what is wrong with a message at first sight,
 * AuthMessage, and what c= says of the channel. The exchange itself is described in scram.c.
 *
 * Everything here reads a peer's bytes within the bounds that the caller gives; nothing is copied but what is to be kept.
 */
#include "pg/scram_parts.h"

#include <string.h>

#include "pg/base64.h"
#include "pg/digest.h"

const char scram_malformed[] = "malformed SCRAM message";
const char scram_no_memory[] = "out of memory";

bool scram_slice_is(struct scram_slice s, const char *text)
{
	return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}

bool scram_take_any(struct scram_scan *s, char *name, struct scram_slice *value)
{
	const char *p = s->at;

	if (s->end - p < 2 || p[1] != '=')
		return false;
	if ((*p < 'A' || *p > 'Z') && (*p < 'a' || *p > 'z'))
		return false;
	*name = *p;
	value->at = p + 2;
	for (p = value->at; p < s->end && *p != ','; p++)
		;
	value->size = (size_t)(p - value->at);
	if (p < s->end && ++p == s->end)
		return false;
	s->at = p;
	return true;
}

bool scram_take(struct scram_scan *s, char name, struct scram_slice *value)
{
	char found;

	return scram_take_any(s, &found, value) && found == name;
}

bool scram_skip_extensions(struct scram_scan *s)
{
	struct scram_slice value;
	char name;

	while (s->at < s->end)
		if (!scram_take_any(s, &name, &value) || name == 'm')
			return false;
	return true;
}

/* The commas went when the value was taken. */
bool scram_is_nonce(struct scram_slice s)
{
	for (size_t i = 0; i < s.size; i++)
		if (s.at[i] < 0x21 || s.at[i] > 0x7e)
			return false;
	return s.size > 0;
}

const char *scram_message_fault(const char *message, size_t size)
{
	if (size == 0)
		return "malformed SCRAM message (the message is empty)";
	if (size > SCRAM_MESSAGE_MAX)
		return "malformed SCRAM message (the message is too long)";
	if (memchr(message, '\0', size))
		return "malformed SCRAM message (message length does not match input length)";
	return NULL;
}

char *scram_copy_text(const char *text, size_t size)
{
	char *copy = mem_try(size + 1);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

char *scram_auth_message(const char *client_first_bare, const char *server_first, struct scram_slice client_final)
{
	size_t a = strlen(client_first_bare), b = strlen(server_first);
	char *joined = mem_try(a + 1 + b + 1 + client_final.size + 1);

	if (!joined)
		return NULL;
	memcpy(joined, client_first_bare, a);
	joined[a] = ',';
	memcpy(joined + a + 1, server_first, b);
	joined[a + 1 + b] = ',';
	memcpy(joined + a + 1 + b + 1, client_final.at, client_final.size);
	return joined;
}

bool scram_sign(const uint8_t key[SCRAM_KEY], const char *auth_message, uint8_t signature[SCRAM_KEY])
{
	return digest_hmac_sha256(key, SCRAM_KEY, auth_message, strlen(auth_message), signature);
}

void scram_xor(uint8_t to[SCRAM_KEY], const uint8_t a[SCRAM_KEY], const uint8_t b[SCRAM_KEY])
{
	for (size_t i = 0; i < SCRAM_KEY; i++)
		to[i] = a[i] ^ b[i];
}

enum scram_result scram_invalid(const char **why, const char *text)
{
	*why = text;
	return SCRAM_INVALID;
}

const char *scram_gs2_header(char gs2)
{
	switch (gs2) {
	case 'p':
		return SCRAM_GS2_PLUS;
	case 'y':
		return "y,,";
	default:
		return "n,,";
	}
}

void scram_binding_text(char to[SCRAM_BINDING_TEXT], char gs2, const struct scram_binding *binding)
{
	const char *header = scram_gs2_header(gs2);
	uint8_t input[SCRAM_GS2_MAX + SCRAM_BINDING_MAX];
	size_t size = strlen(header);

	memcpy(input, header, size);
	if (gs2 == 'p') {
		memcpy(input + size, binding->data, binding->size);
		size += binding->size;
	}
	base64_encode(to, input, size);
}
