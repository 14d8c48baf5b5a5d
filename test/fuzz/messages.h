#ifndef FUZZ_MESSAGES_H
#define FUZZ_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

/*
 * A mutator that knows messages: type, Int32 length that counts itself, body. It puts in, takes out,
 * repeats and changes whole messages and keeps each length true, so that inputs get past the frame; now and
 * then it leaves that to chance.
 */
struct messages_kit {
	size_t skip;			/* bytes at the beginning that are not messages */
	int has_packet;			/* the first message has no type: a start-up packet */
	const struct messages_part {
		uint8_t type;
		const char *body;
		size_t size;
	} *parts;			/* messages to put in; up to type 0 */
};
#define MESSAGES_PART(type, body) { type, body, sizeof(body) - 1 }

/* As LLVMFuzzerCustomMutator. */
size_t messages_mutate(const struct messages_kit *kit, uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
#define MESSAGES_MUTATOR(kit)                                                                    \
	size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)   \
	{                                                                                        \
		return messages_mutate(kit, data, size, most, seed);                             \
	}

/*
 * Returns whether a server with these messages continues after the ReadyForQuery of its login. Bytes that arrive together with it are processed
 * before the first client is welcomed; later bytes are not, so the two may differ.
 */
int messages_go_on_after_ready(const uint8_t *data, size_t size);

/* Messages of a logged-in client, and of a server; type 0 at the end. */
extern const struct messages_part messages_of_client[], messages_of_server[];

#endif
