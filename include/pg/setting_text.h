#ifndef PG_SETTING_TEXT_H
#define PG_SETTING_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What SQL of a client says about parameters of its session: see setting_text.c. A text is `size` bytes that end with their NUL, or are cut
 * off.
 */
enum {
	SETTING_CALLED = 1,		/* it calls set_config, not for the transaction alone: no command tag will say so */
	SETTING_UNNAMED = 2,		/* ... for a parameter whose name is not in the text: set_config($1, $2, false) */
	SETTING_KEPT = 4,		/* it has the word PREPARE: EXECUTE may call that later */
	SETTING_CUT = 8			/* there is more of it, which may say what it likes */
};

/* Is given a name with a dot, in lower case, which SET, RESET or set_config in the text is about. */
typedef void setting_named(void *context, const char *name);

/* Returns SETTING_ bits. */
unsigned setting_text_read(const uint8_t *text, size_t size, setting_named *named, void *context);

/* False: setting_text_read would return 0, and name nothing. True for each text that has the letters "set" in it, or is cut off. */
bool setting_text_may_tell(const uint8_t *text, size_t size);

#endif
