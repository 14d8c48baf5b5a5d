/*
 * The table of SHOW commands, as data, and what its functions share. The columns stand in show.tbl
 * and nowhere else: the grammar, Describe, the rows and the test against the published interface
 * all read them there.
 *
 * Invariant: a function gives as many cells a row as the result has columns (result.c counts them).
 */
#include "admin/show.h"

#include "base/assert.h"
#include "base/text.h"
#include "pg/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]) - 1)	/* without the NULL that ends it */

#define SHOW(name, access, fill, standard, own)					\
	static const char *const standard_##name[] = { standard NULL };		\
	static const char *const columns_##name[] = { standard own NULL };
#include "tbl/show.tbl"
#undef SHOW

static const struct show_row rows[] = {
#define MONITOR true
#define ADMIN false
#define SHOW(name, access, fill, standard, own) \
	{ #name, access, show_##fill, columns_##name, COUNT(standard_##name), COUNT(columns_##name) },
#include "tbl/show.tbl"
#undef SHOW
#undef MONITOR
#undef ADMIN
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

const struct show_row *show_at(size_t index)
{
	return index < ROWS ? &rows[index] : NULL;
}

const struct show_row *show_find(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (text_equal_fold(rows[i].name, name))
			return &rows[i];
	return NULL;
}

static bool may_see_secrets(const struct client *client)
{
	const struct brief_address *from = &client->peer.remote;

	return from->family == AF_UNIX && from->u.peer.uid == (uint32_t)geteuid();
}

void show_run(struct caller *caller, const struct show_row *row)
{
	struct result *to = caller->result;
	const struct show show = {
		.world = caller->console->world, .control = &caller->console->control,
		.with_secrets = may_see_secrets(caller->client), .extra = to->column_count > row->standard_columns,
		.to = to, .notices = &caller->out,
	};

	row->fill(&show);
	ASSERT(to->cell == 0);
}

const char *show_pointer(uint64_t id, char *buf, size_t size)
{
	snprintf(buf, size, "0x%" PRIx64, id);
	return buf;
}

/* The items behind one SHOW, a few to a line. */
static void list_items(struct bytes *text)
{
	for (size_t i = 0; i < ROWS; i++)
		bytes_append_format(text, "%s%s", i % 6 == 0 ? "\n\tSHOW " : "|", rows[i].name);
}

void show_help(const struct show *s)
{
	struct bytes text = BYTES_EMPTY;

	list_items(&text);
	for (size_t i = 0; i < COMMANDS; i++) {
		const char *help = command_row((enum command_id)i)->help;

		if (help)
			bytes_append_format(&text, "\n\t%s", help);
	}
	bytes_append_u8(&text, 0);
	if (text.failed)
		s->notices->failed = true;
	else
		pg_build_notice(s->notices, "NOTICE", "00000", "Console usage", bytes_text(&text));
	bytes_free(&text);
}
