#ifndef PG_TAG_H
#define PG_TAG_H

#include "pg/message.h"

/*
 * Command tags (the text of CommandComplete) that say more than that the command is complete. Those that concern every link are known by
 * their size first, with the NUL: the tags of most statements (SELECT 1, BEGIN, COMMIT) have another one, and are not compared. Tags of shorter sizes
 * concern only clients with session_state = full.
 */
#define TAG_DO_SIZE sizeof("DO")
#define TAG_SET_SIZE sizeof("SET")
#define TAG_CALL_SIZE sizeof("CALL")
#define TAG_RESET_SIZE sizeof("RESET")
#define TAG_DISCARD_ALL_SIZE sizeof("DISCARD ALL")
#define TAG_DEALLOCATE_ALL_SIZE sizeof("DEALLOCATE ALL")
#define TAG_DEFINITION_SIZE sizeof("DROP VIEW")			/* the shortest of a command that defines something, and all longer ones */
#define TAG_SIZES (1ull << TAG_DO_SIZE | 1ull << TAG_SET_SIZE | 1ull << TAG_CALL_SIZE | 1ull << TAG_RESET_SIZE | ~0ull << TAG_DEFINITION_SIZE)
#define TAG_ANY_SIZE (~1ull)
#define TAG_LONGEST 63			/* bytes of a tag that is read, at most: no tag of PostgreSQL has as many */

enum pg_tag {
	TAG_NOTHING,
	TAG_SET,		/* SET or RESET */
	TAG_CODE,		/* DO or CALL */
	TAG_DISCARD_ALL,
	TAG_DEALLOCATE_ALL,
	TAG_ALTER,		/* ALTER of anything */
	TAG_DROP,		/* DROP of anything */
	TAG_CREATE,		/* CREATE of a table, an index or a sequence */
	TAG_DEFINE,		/* CREATE of anything else: a view, a function, a type */
	TAG_DISCARD,		/* DISCARD of a part: TEMP, PLANS */
	TAG_DISCARD_SEQUENCES,
	TAG_PREPARE,
	TAG_DEALLOCATE,		/* of one statement */
	TAG_CLOSE,		/* CLOSE of one cursor, or of all */
	TAG_LISTEN,		/* LISTEN or UNLISTEN */
	TAG_LOAD
};

/* After it a text may mean something else, of which no error tells: $1 of another type. A table that is created changes no text but one that had no
   table, or that of another schema; it may be temporary, and come with each transaction. */
static inline bool pg_tag_changes_meaning(enum pg_tag tag)
{
	return tag == TAG_ALTER || tag == TAG_DROP || tag == TAG_DEFINE;
}

/* ALTER ROLE or ALTER DATABASE, which may change what a new session begins with: `size` bytes of a tag for which pg_tag_read gives TAG_ALTER. */
bool pg_tag_changes_sessions(const uint8_t *tag, uint32_t size);

/* After it texts may mean something else to the same session, as long as its transaction is not over: the tables may be temporary. */
static inline bool pg_tag_is_definition(enum pg_tag tag)
{
	return pg_tag_changes_meaning(tag) || tag == TAG_CREATE || tag == TAG_CODE || tag == TAG_DISCARD || tag == TAG_DISCARD_ALL;
}

/* A message of a server of this type, with so many bytes of body, may be one of these: `sizes` are TAG_ANY_SIZE, or TAG_SIZES for those that concern
   every link. */
static inline bool pg_tag_may_tell(uint8_t type, uint32_t size, uint64_t sizes)
{
	return type == PGS_COMPLETE && size <= TAG_LONGEST && (sizes >> size & 1);
}
/* A quick look at the `size` bytes of such a one, at least 1: false for nearly all, by the first letter. */
static inline bool pg_tag_tells(const uint8_t *tag, uint32_t size)
{
	const uint32_t letters = 1u << ('A' - '@') | 1u << ('C' - '@') | 1u << ('D' - '@') | 1u << ('L' - '@') | 1u << ('P' - '@') | 1u << ('U' - '@');

	return (letters >> (*tag & 31) & 1) || size == TAG_SET_SIZE || size == TAG_RESET_SIZE;
}
/* Of the `size` bytes of one for which pg_tag_may_tell says so. */
enum pg_tag pg_tag_read(const uint8_t *tag, uint32_t size);

#endif
