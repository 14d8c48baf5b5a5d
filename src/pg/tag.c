/*
 * Command tags: see tag.h ("CommandComplete" in "Message Formats").
 */
#include "pg/tag.h"

#include "base/inline.h"

#include <string.h>

/* Tags that are told by their first words. */
static const struct { const char *words; enum pg_tag tag; } beginnings[] = {
	{ "CREATE ", TAG_CREATE },
	{ "DROP ", TAG_DROP },
	{ "DISCARD SEQUENCES", TAG_DISCARD_SEQUENCES },
	{ "DISCARD ", TAG_DISCARD },
	{ "PREPARE", TAG_PREPARE },
	{ "DEALLOCATE", TAG_DEALLOCATE },
	{ "CLOSE ", TAG_CLOSE },
	{ "LISTEN", TAG_LISTEN },
	{ "UNLISTEN", TAG_LISTEN },
	{ "LOAD", TAG_LOAD },
};

static NEVER_INLINE enum pg_tag read_beginning(const uint8_t *tag, uint32_t size)
{
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		size_t length = strlen(beginnings[i].words);

		if (size > length && *tag == (uint8_t)*beginnings[i].words && memcmp(tag, beginnings[i].words, length) == 0)
			return beginnings[i].tag;
	}
	return TAG_NOTHING;
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
		if (IS(tag, "ALTER TABLE"))
			return TAG_ALTER_TABLE;
		break;
	case TAG_DEALLOCATE_ALL_SIZE:
		if (IS(tag, "DEALLOCATE ALL"))
			return TAG_DEALLOCATE_ALL;
		break;
	}
	return read_beginning(tag, size);
}
