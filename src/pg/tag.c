/*
 * Command tags: see tag.h ("CommandComplete" in "Message Formats").
 */
#include "pg/tag.h"

#include <string.h>

enum pg_tag pg_tag_read(const uint8_t *tag, uint32_t size)
{
	switch (size) {
	case TAG_DO_SIZE: return memcmp(tag, "DO", size) == 0 ? TAG_CODE : TAG_NOTHING;
	case TAG_CALL_SIZE: return memcmp(tag, "CALL", size) == 0 ? TAG_CODE : TAG_NOTHING;
	case TAG_SET_SIZE: return memcmp(tag, "SET", size) == 0 ? TAG_SET : TAG_NOTHING;
	case TAG_RESET_SIZE: return memcmp(tag, "RESET", size) == 0 ? TAG_SET : TAG_NOTHING;
	case TAG_DISCARD_ALL_SIZE:
		if (memcmp(tag, "DISCARD ALL", size) == 0)
			return TAG_DISCARD_ALL;
		return memcmp(tag, "ALTER TABLE", size) == 0 ? TAG_ALTER_TABLE : TAG_NOTHING;
	case TAG_DEALLOCATE_ALL_SIZE: return memcmp(tag, "DEALLOCATE ALL", size) == 0 ? TAG_DEALLOCATE_ALL : TAG_NOTHING;
	}
	return TAG_NOTHING;
}
