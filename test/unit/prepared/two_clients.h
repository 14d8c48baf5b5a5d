#ifndef TWO_CLIENTS_H
#define TWO_CLIENTS_H

/* Two clients that share one server, for tests of prepared statements: the messages of the clients, and what the server gets. */
#include "prepared/prepared.h"

#include "unit.h"
#include "whole.h"

#include <string.h>

static struct house_end *one, *two, *server;

static inline bool begin_with(const char *ini)
{
	whole_open(ini);
	CHECK(whole_login(&one) && whole_login(&two));
	server = house_server(&whole);
	CHECK(server);
	if (server)
		whole_server_got(server);
	return server;
}

/* Returns the messages to the server: "#" is the prefix of pgweir's statement names. */
static inline const char *server_got(void)
{
	static char text[1000];
	const char *from = whole_server_got(server);
	char *to = text;

	while (*from && to < text + sizeof(text) - 1)
		if (strncmp(from, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX)) == 0 && strchr(from + strlen(STATEMENT_PREFIX), '_')) {
			*to++ = '#';
			from = strchr(from + strlen(STATEMENT_PREFIX), '_') + 1;
		} else {
			*to++ = *from++;
		}
	*to = 0;
	return text;
}

static inline void send_parse(struct house_end *end, const char *name, const char *text)
{
	struct bytes body = BYTES_EMPTY;

	bytes_append_string(&body, name);
	bytes_append_text(&body, text);
	bytes_append(&body, "\0\0\0", 3);
	whole_say(end, 'P', bytes_front(&body), bytes_size(&body));
	bytes_free(&body);
}

static inline void send_bind(struct house_end *end, const char *name)
{
	struct bytes body = BYTES_EMPTY;

	bytes_append_u8(&body, 0);
	bytes_append_text(&body, name);
	bytes_append(&body, "\0\0\0\0\0\0\0", 7);
	whole_say(end, 'B', bytes_front(&body), bytes_size(&body));
	bytes_free(&body);
}

static inline void send_sync(struct house_end *end)
{
	whole_say(end, 'S', NULL, 0);
}

/* Bind, Execute and Sync. */
static inline void send_run(struct house_end *end, const char *name)
{
	send_bind(end, name);
	whole_say(end, 'E', "\0\0\0\0\0", 5);
	send_sync(end);
}

#endif
