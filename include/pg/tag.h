#ifndef PG_TAG_H
#define PG_TAG_H

#include "pg/message.h"

/*
 * Command tags (the text of CommandComplete) that say more than that the command is complete. They are known by their size first, with
 * the NUL: nearly all others have another one, and are not compared.
 */
#define TAG_DO_SIZE sizeof("DO")
#define TAG_SET_SIZE sizeof("SET")
#define TAG_CALL_SIZE sizeof("CALL")
#define TAG_RESET_SIZE sizeof("RESET")
#define TAG_DISCARD_ALL_SIZE sizeof("DISCARD ALL")		/* and of "ALTER TABLE" */
#define TAG_DEALLOCATE_ALL_SIZE sizeof("DEALLOCATE ALL")
#define TAG_SIZES (1u << TAG_DO_SIZE | 1u << TAG_SET_SIZE | 1u << TAG_CALL_SIZE | 1u << TAG_RESET_SIZE | 1u << TAG_DISCARD_ALL_SIZE | 1u << TAG_DEALLOCATE_ALL_SIZE)

enum pg_tag {
	TAG_NOTHING,
	TAG_SET,		/* SET or RESET */
	TAG_CODE,		/* DO or CALL */
	TAG_DISCARD_ALL,
	TAG_ALTER_TABLE,
	TAG_DEALLOCATE_ALL
};

/* A message of a server of this type, with so many bytes of body, may be one of these. */
static inline bool pg_tag_may_tell(uint8_t type, uint32_t size)
{
	return type == PGS_COMPLETE && size <= TAG_DEALLOCATE_ALL_SIZE && (TAG_SIZES >> size & 1);
}
/* Of the `size` bytes of one for which pg_tag_may_tell says so. */
enum pg_tag pg_tag_read(const uint8_t *tag, uint32_t size);

#endif
