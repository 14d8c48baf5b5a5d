/*
 * The hash of all tables: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"),
 * the lower half of its 64 bits.
 *
 * Unauthenticated clients choose many of the keys: names of statements, users and databases, texts,
 * addresses. If an attacker could compute the hash, many names could be chosen that share one
 * chain, and all clients would wait while the single thread walks the chain. With a secret key of
 * this process, this is not possible. Rust, Ruby and Python use one round per word and three final
 * rounds too.
 *
 * Invariant: the key does not change while a table exists. Therefore the process has one key, which
 * is drawn before anything else is done (main.c). Without a key, as in simulations, all hashes are
 * the same in each run.
 */
#include "base/hash.h"

#include <endian.h>
#include <string.h>

static uint64_t hash_key[2];

struct state {
	uint64_t a, b, c, d;
};

static inline uint64_t turned(uint64_t x, int left)
{
	return x << left | x >> (64 - left);
}

static inline uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

static inline uint64_t half_at(const uint8_t *at)
{
	uint32_t half;

	memcpy(&half, at, sizeof(half));
	return le32toh(half);
}

static inline void mix(struct state *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = turned(s->b, 13) ^ s->a;
	s->d = turned(s->d, 16) ^ s->c;
	s->a = turned(s->a, 32) + s->d;
	s->c += s->b;
	s->d = turned(s->d, 21) ^ s->a;
	s->b = turned(s->b, 17) ^ s->c;
	s->c = turned(s->c, 32);
}

static inline void hash_take(struct state *s, uint64_t word)
{
	s->d ^= word;
	mix(s);
	s->a ^= word;
}

void hash_set_key(const uint8_t key[HASH_KEY])
{
	hash_key[0] = word_at(key);
	hash_key[1] = word_at(key + sizeof(uint64_t));
}

uint64_t hash_long(const void *from, size_t size)
{
	const uint8_t *at = from, *end = at + (size & ~(sizeof(uint64_t) - 1));
	size_t rest = size % sizeof(uint64_t);
	uint64_t last = (uint64_t)size << 56;
	struct state s = {
		hash_key[0] ^ UINT64_C(0x736f6d6570736575),
		hash_key[1] ^ UINT64_C(0x646f72616e646f6d),
		hash_key[0] ^ UINT64_C(0x6c7967656e657261),
		hash_key[1] ^ UINT64_C(0x7465646279746573),
	};

	for (; at < end; at += sizeof(uint64_t))
		hash_take(&s, word_at(at));
	/* The bytes after the last whole word. The reads overlap, because a loop would take longer
	   than the rest of the hash for a short name. */
	if (rest > 0 && size > sizeof(uint64_t))
		last |= word_at(end + rest - sizeof(uint64_t)) >> (64 - 8 * rest);
	else if (rest >= sizeof(uint32_t))
		last |= half_at(end) | half_at(end + rest - sizeof(uint32_t))
					       << 8 * (rest - sizeof(uint32_t));
	else if (rest > 0)
		last |= end[0] | (uint64_t)end[rest / 2] << 8 * (rest / 2) |
			(uint64_t)end[rest - 1] << 8 * (rest - 1);
	hash_take(&s, last);
	s.c ^= 0xff;
	mix(&s);
	mix(&s);
	mix(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

/* ---- names to objects ---- */

bool index_put(struct index *index, struct arena *arena, const char *name, void *object)
{
	struct index_node *node;

	HASH_FIND_STR(index->nodes, name, node);
	if (node) {
		node->object = object;
		return true;
	}
	node = arena_take(arena, sizeof(*node));
	if (!node)
		return false;
	node->name = name;
	node->object = object;
	HASH_ADD_KEYPTR(hh, index->nodes, node->name, strlen(node->name), node);
	return HASH_HAS(hh, node);
}

