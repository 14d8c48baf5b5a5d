/*
 * Parameters that a server has reported at its login and that are not tracked, as ParameterStatus messages for its clients. Servers of a pool that
 * report equal values share one object.
 *
 * in_hot_standby is a property of the server; no session can set it.
 *
 * Invariant: `standby` is the value that a server with this object has reported last, until the messages have it.
 */
#include "backend/welcome.h"

#include "base/inline.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <string.h>

struct welcome {
	int users;			/* references */
	struct bytes messages;
	char *standby;			/* NULL: as in the messages */
};

/* The only parameter of the server itself: a standby has become the primary. */
#define STANDBY "in_hot_standby"

struct welcome *welcome_of(struct bytes *messages, struct welcome *like)
{
	size_t size = bytes_size(messages);
	struct welcome *made;

	if (like && !messages->failed && !like->standby && bytes_size(&like->messages) == size &&
	    (size == 0 || memcmp(bytes_front(&like->messages), bytes_front(messages), size) == 0)) {
		bytes_free(messages);
		return welcome_hold(like);
	}
	made = messages->failed ? NULL : mem_try(sizeof(*made));
	if (!made) {
		bytes_free(messages);
		return NULL;
	}
	made->users = 1;
	made->messages = *messages;
	*messages = (struct bytes)BYTES_EMPTY;
	return made;
}

struct welcome *welcome_hold(struct welcome *welcome)
{
	welcome->users++;
	return welcome;
}

void welcome_drop(struct welcome **place)
{
	struct welcome *welcome = *place;

	*place = NULL;
	if (!welcome || --welcome->users > 0)
		return;
	bytes_free(&welcome->messages);
	mem_free(welcome->standby);
	mem_free(welcome);
}

void welcome_reported(struct welcome *welcome, const char *name, const char *value)
{
	char *copy;

	if (strcmp(name, STANDBY) != 0)
		return;
	/* without memory clients get the older value */
	copy = mem_copy_string(value);
	if (!copy)
		return;
	mem_free(welcome->standby);
	welcome->standby = copy;
}

/* Inserts the reported value into the messages. */
static NEVER_INLINE void renew(struct welcome *welcome)
{
	struct bytes fresh = BYTES_EMPTY;
	struct pg_frames in = pg_frames_of(&welcome->messages);
	struct pg_frame f;

	/* another process may have written the messages: they may be incomplete */
	while (bytes_size(&welcome->messages) > 0 && pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);
		const char *name = pg_read_string(&body);

		if (strcmp(name, STANDBY) == 0)
			pg_build_parameter_status(&fresh, name, welcome->standby);
		else
			bytes_append(&fresh, f.body - PG_HEADER, PG_HEADER + f.size);
	}
	mem_free(welcome->standby);
	welcome->standby = NULL;
	if (fresh.failed) {
		bytes_free(&fresh);
		return;
	}
	bytes_free(&welcome->messages);
	welcome->messages = fresh;
}

const struct bytes *welcome_messages(struct welcome *welcome)
{
	/* called for each login; usually nothing has been reported */
	if (welcome->standby)
		renew(welcome);
	return &welcome->messages;
}
