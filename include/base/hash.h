#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/mem.h"

/*
 * uthash, told to report a lack of memory: on its own it ends the process. HASH_ADD and its kin then leave the table as it
 * was and the object out of it, so each of them is followed by HASH_HAS.
 */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) mem_try(size)
#define uthash_free(memory, size) mem_free(memory)
#include <uthash.h>

/* Whether the HASH_ADD of `object` by its handle `hh` that was made just now found memory. */
#define HASH_HAS(hh, object) ((object)->hh.tbl != NULL)

#endif
