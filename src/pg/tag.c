/*
 * Command tags: see tag.h ("CommandComplete" in "Message Formats").
 */
#include "pg/tag.h"

#include "base/inline.h"

#include <string.h>

#define BEGINS(tag, size, words) ((size) >= sizeof(words) && memcmp(tag, words, sizeof(words) - 1) == 0)

/* The size says it as well: "TABLE" is not the beginning of "TABLESPACE". */
static bool is_relation(const uint8_t *what, uint32_t size)
{
	return (size == sizeof("TABLE") && memcmp(what, "TABLE", size) == 0) || (size == sizeof("INDEX") && memcmp(what, "INDEX", size) == 0) ||
	       (size == sizeof("SEQUENCE") && memcmp(what, "SEQUENCE", size) == 0);
}

/* Tags that are told by their first words. */
static NEVER_INLINE enum pg_tag read_beginning(const uint8_t *tag, uint32_t size)
{
	if (BEGINS(tag, size, "ALTER "))
		return TAG_ALTER;
	if (BEGINS(tag, size, "CREATE "))
		return is_relation(tag + sizeof("CREATE ") - 1, size - (sizeof("CREATE ") - 1)) ? TAG_CREATE : TAG_DEFINE;
	if (BEGINS(tag, size, "CLOSE "))
		return TAG_CLOSE;
	if (BEGINS(tag, size, "DROP "))
		return TAG_DROP;
	if (BEGINS(tag, size, "DEALLOCATE"))
		return TAG_DEALLOCATE;
	if (BEGINS(tag, size, "DISCARD SEQUENCES"))
		return TAG_DISCARD_SEQUENCES;
	if (BEGINS(tag, size, "DISCARD "))
		return TAG_DISCARD;
	if (BEGINS(tag, size, "LISTEN") || BEGINS(tag, size, "UNLISTEN"))
		return TAG_LISTEN;
	if (BEGINS(tag, size, "LOAD"))
		return TAG_LOAD;
	return BEGINS(tag, size, "PREPARE") ? TAG_PREPARE : TAG_NOTHING;
}

/* With a constant size, for which no function is called. */
#define IS(tag, whole) (memcmp(tag, whole, sizeof(whole)) == 0)

enum pg_tag pg_tag_read(const uint8_t *tag, uint32_t size)
{
	switch (size) {
	case TAG_DO_SIZE:
		return IS(tag, "DO") ? TAG_CODE : TAG_NOTHING;
	case TAG_SET_SIZE:
		return IS(tag, "SET") ? TAG_SET : TAG_NOTHING;
	case TAG_CALL_SIZE:
		if (IS(tag, "CALL"))
			return TAG_CODE;
		break;
	case TAG_RESET_SIZE:
		return IS(tag, "RESET") ? TAG_SET : TAG_NOTHING;
	case TAG_DISCARD_ALL_SIZE:
		if (IS(tag, "DISCARD ALL"))
			return TAG_DISCARD_ALL;
		break;
	case TAG_DEALLOCATE_ALL_SIZE:
		if (IS(tag, "DEALLOCATE ALL"))
			return TAG_DEALLOCATE_ALL;
		break;
	}
	return size > 0 && pg_tag_tells(tag, size) ? read_beginning(tag, size) : TAG_NOTHING;
}

bool pg_tag_changes_sessions(const uint8_t *tag, uint32_t size)
{
	return (size == sizeof("ALTER ROLE") && IS(tag, "ALTER ROLE")) || (size == sizeof("ALTER DATABASE") && IS(tag, "ALTER DATABASE"));
}
