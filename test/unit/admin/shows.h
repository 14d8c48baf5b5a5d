#ifndef SHOWS_H
#define SHOWS_H

/* The fixture of the SHOW tests, and functions that read an answer. */
#include "show/show.h"

#include "fake_world.h"

static const char plain[] =
	"[databases]\n"
	"shop = host=10.0.0.5 port=5433 dbname=store pool_size=7 user=owner\n"
	"many = host=10.0.0.5,10.0.0.6\n"
	"[users]\n"
	"anna = pool_mode=transaction session_link=login pool_size=3 max_user_connections=9\n"
	"[pgbouncer]\n"
	"listen_port = 6432\n";

static inline struct client *begin(const char *extra)
{
	char ini[1024];

	snprintf(ini, sizeof(ini), "%s%s", plain, extra);
	fake_start(ini);
	return fake_caller("boss", true);
}

static inline const char *ask_show(struct client *c, const char *item)
{
	char text[100];

	snprintf(text, sizeof(text), "SHOW %s", item);
	return fake_ask(c, text);
}

static inline const struct show_item *row_of(const char *command)
{
	CHECK(strncmp(command, "SHOW ", 5) == 0);
	return show_find(command + 5);
}

/* Returns the nth cell of the nth row of the last SHOW, or "(none)". Rows and cells count from 0. */
static inline const char *cell(const char *transcript, int row, int column)
{
	static char out[512];
	const char *at = transcript, *end;

	for (int i = 0; i <= row && at; i++) {
		at = strstr(at, " D(");
		at = at ? at + 3 : NULL;
	}
	for (int i = 0; i < column && at; i++) {
		at = strchr(at, '|');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return "(none)";
	end = at + strcspn(at, "|");
	if (!*end || (strchr(at, ')') && strstr(at, ") ") < end))
		end = strstr(at, ") ");
	snprintf(out, sizeof(out), "%.*s", (int)(end - at), at);
	return out;
}

/* Returns the position of a column. */
static inline int place(const char *item, const char *name)
{
	const struct show_item *row = show_find(item);

	for (size_t i = 0; i < row->all_columns; i++)
		if (!strncmp(row->columns[i], name, strlen(name)) && row->columns[i][strlen(name)] == ':')
			return (int)i;
	UNIT_FAIL("%s has no column %s", item, name);
	return 0;
}

static inline const char *named_cell(const char *transcript, const char *item, int row, const char *column)
{
	return cell(transcript, row, place(item, column));
}

#endif
