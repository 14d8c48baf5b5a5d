/*
 * Answers of a fake server's session: messages, held back as PostgreSQL does until a Flush, a Sync or a full buffer, and reported parameters.
 *
 * Invariant: each row contains the state of the session that its client expects.
 */
#include "backend.h"

#include "chance.h"
#include "pg/build.h"
#include "roles.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define BUFFER 8192			/* PostgreSQL's: fuller than that, it sends */

const char *const backend_parameter_names[PARAMETERS] = { "application_name", "DateStyle", "client_encoding", "TimeZone", "IntervalStyle" };

void backend_flush(struct backend *b)
{
	b->may_send = bytes_size(&b->out);
}

static void flush_if_full(struct backend *b)
{
	if (bytes_size(&b->out) > BUFFER)
		backend_flush(b);
}

void backend_ready(struct backend *b)
{
	b->open = b->skipping = b->batch_is_known = false;
	b->own = OWN_NOT;
	/* after a promotion */
	if (plan.has_roles && b->says_standby && !member_is_standby(b->host)) {
		b->says_standby = false;
		pg_build_parameter_status(&b->out, "in_hot_standby", "off");
	}
	/* a portal does not outlive its transaction */
	if (b->tx == 'I')
		backend_drop_portals(b);
	pg_build(&b->out, 'Z', &b->tx, 1);
	backend_flush(b);
}

void backend_error(struct backend *b, const char *state, uint32_t client, uint32_t serial)
{
	char text[80];

	snprintf(text, sizeof(text), "simulated %u %u", client, serial);
	pg_build_report(&b->out, 'E', "ERROR", state, text, NULL, NULL);
	/* as PostgreSQL, which would pass over a Flush now */
	backend_flush(b);
}

void backend_say(struct backend *b, char type)
{
	pg_end(&b->out, pg_begin(&b->out, (uint8_t)type));
}

void backend_send_async_messages(struct backend *b)
{
	size_t mark;

	if (!chance_one_in(200))
		return;
	switch (chance_below(3)) {
	case 0:
		pg_build_report(&b->out, 'N', "NOTICE", "00000", "by the way", NULL, NULL);
		return;
	case 1:
		if (!plan.has_roles)
			pg_build_parameter_status(&b->out, "in_hot_standby", "off");
		return;
	default:
		mark = pg_begin(&b->out, 'A');
		bytes_append_u32(&b->out, b->pid);
		bytes_append_string(&b->out, "channel");
		bytes_append_string(&b->out, "payload");
		pg_end(&b->out, mark);
	}
}

void backend_columns(struct backend *b, const struct ask *ask)
{
	char name[40];
	const char *column = name;

	snprintf(name, sizeof(name), "c%u_%u:text", ask->client, ask->serial);
	pg_build_row_description(&b->out, &column, 1);
}

void backend_row(struct backend *b, char type, const struct ask *ask, uint32_t client, uint32_t serial, uint32_t row)
{
	char text[512];
	size_t mark, size;
	static const char filling[256] = { 0 };

	size = (size_t)snprintf(text, sizeof(text), "%u.%u/%u.%u.%u/%s/%s/%s/", ask->client, ask->serial, client, serial, row, b->values[0],
				b->database, b->user);
	mark = pg_begin(&b->out, (uint8_t)type);
	if (type == 'D')
		bytes_append_u16(&b->out, 1);
	if (type == 'D' || type == 'V')
		bytes_append_u32(&b->out, (uint32_t)size + ask->b);
	bytes_append(&b->out, text, size);
	for (uint32_t left = ask->b; left > 0; left -= left < sizeof(filling) ? left : sizeof(filling))
		bytes_append(&b->out, filling, left < sizeof(filling) ? left : sizeof(filling));
	pg_end(&b->out, mark);
	flush_if_full(b);
}

void backend_copy_begin(struct backend *b, char type)
{
	size_t mark = pg_begin(&b->out, (uint8_t)type);

	bytes_append_u8(&b->out, 0);
	bytes_append_u16(&b->out, 0);
	pg_end(&b->out, mark);
	backend_flush(b);
}

void backend_set(struct backend *b, int i, const char *value, bool tell)
{
	char full[64];

	/* the server's own spelling */
	snprintf(full, sizeof(full), "%s%s", value, i == 1 && !strchr(value, ',') ? ", MDY" : "");
	if (strcmp(b->values[i], full) == 0)
		return;
	memcpy(b->values[i], full, sizeof(full));
	if (tell)
		pg_build_parameter_status(&b->out, backend_parameter_names[i], full);
}

int backend_parameter(const char *name)
{
	for (int i = 0; i < PARAMETERS; i++)
		if (strcasecmp(backend_parameter_names[i], name) == 0)
			return i;
	return -1;
}

void backend_refuse(struct backend *b, const char *state, const char *text)
{
	pg_build_report(&b->out, 'E', "FATAL", state, text, NULL, NULL);
	if (plan.has_roles && b->phase == PHASE_READY)
		roles_note_hit(b);
	backend_flush(b);
	b->dies_after = (int64_t)bytes_size(&b->out);
	b->phase = PHASE_DEAF;
	b->streams = false;
}
