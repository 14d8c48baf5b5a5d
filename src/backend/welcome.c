/*
 * What a server has reported at its login of parameters that are not tracked, as ParameterStatus messages for its clients. Mostly
 * all servers of a pool report the same, and share it.
 *
 * Invariant: `standby` is what in_hot_standby has become since; that parameter alone is about the server, and no session can set it.
 */
#include "backend/welcome.h"

#include "base/inline.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <string.h>

struct welcome {
	int users;			/* holds */
	struct bytes messages;
	char *standby;			/* NULL: nothing else than the messages say */
};

static bool says_the_same(const struct welcome *a, const struct bytes *messages)
{
	size_t size = bytes_size(messages);

	return !a->standby && bytes_size(&a->messages) == size &&
	       (size == 0 || memcmp(bytes_front(&a->messages), bytes_front(messages), size) == 0);
}

struct welcome *welcome_of(struct bytes *messages, struct welcome *like)
{
	struct welcome *made;

	if (like && !messages->failed && says_the_same(like, messages)) {
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

/* The one that no session can set: a standby has become the primary. */
static bool is_of_server(const char *name)
{
	return strcmp(name, "in_hot_standby") == 0;
}

void welcome_reported(struct welcome *welcome, const char *name, const char *value)
{
	char *copy;

	if (!is_of_server(name))
		return;
	/* without memory clients are welcomed with what was true before */
	copy = mem_copy_string(value);
	if (!copy)
		return;
	mem_free(welcome->standby);
	welcome->standby = copy;
}

/* The messages, with this value of what the server itself reports. */
static void build_messages(const struct bytes *messages, const char *value, struct bytes *fresh)
{
	struct pg_frames in = pg_frames_of(messages);
	struct pg_frame f;

	/* another process may have written them */
	while (pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);
		const char *name = pg_read_string(&body);

		if (is_of_server(name))
			pg_build_parameter_status(fresh, name, value);
		else
			bytes_append(fresh, f.body - PG_HEADER, PG_HEADER + f.size);
	}
}

static NEVER_INLINE void renew(struct welcome *welcome)
{
	struct bytes fresh = BYTES_EMPTY;

	if (bytes_size(&welcome->messages) > 0)
		build_messages(&welcome->messages, welcome->standby, &fresh);
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
	/* mostly nothing has been reported: this is on the way of each login */
	if (welcome->standby)
		renew(welcome);
	return &welcome->messages;
}
