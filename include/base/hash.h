#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/mem.h"

#include <stdint.h>

/*
 * uthash, told to report a lack of memory: on its own it ends the process. HASH_ADD and its kin then leave the table as it
 * was and the object out of it, so each of them is followed by HASH_HAS. And told to hash with a key: see hash.c.
 */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) mem_try(size)
#define uthash_free(memory, size) mem_free(memory)
#define HASH_FUNCTION(from, size, hash) ((hash) = hash_of((from), (size)))
#include <uthash.h>

/* Whether the HASH_ADD of `object` by its handle `hh` that was made just now found memory. */
#define HASH_HAS(hh, object) ((object)->hh.tbl != NULL)

#define HASH_KEY 16		/* bytes */

/* Where several objects have one key, HASH_FIND gives the first of them, and the others follow it in its bucket, among objects with other keys.
   The next object there; NULL: there is none. */
#define HASH_NEXT_IN_BUCKET(hh, object) \
	((object)->hh.hh_next ? ELMT_FROM_HH((object)->hh.tbl, (object)->hh.hh_next) : NULL)

/* The key of this process, of random bytes. To be called before there is any table. */
void hash_set_key(const uint8_t key[HASH_KEY]);
/* Of `size` bytes, under that key. */
unsigned hash_of(const void *from, size_t size);

#endif
