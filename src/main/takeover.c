/*
 * Online restart: the greeting of the two processes. Each sends the program's name and its handover version. The socket is in
 * takeover_socket.c.
 */
#include "main/takeover.h"

#include "base/pack.h"
#include "base/version.h"

#include <stdio.h>
#include <string.h>

#define NAME "pgweir"			/* the name of the program in HELLO; another program might use the same socket name */

bool takeover_say_hello(struct records *records, int patience)
{
	struct bytes out = BYTES_EMPTY;
	bool said;

	pack_text(&out, NAME);
	bytes_append_u32(&out, HANDOVER_VERSION);
	pack_text(&out, PGWEIR_VERSION);
	said = records_send(records, HANDOVER_HELLO, &out, -1, patience);
	bytes_free(&out);
	return said;
}

bool takeover_read_hello(const struct record *record, char *why, size_t why_size)
{
	struct unpack in = unpack_of(record->body, record->size);
	const char *name = unpack_text(&in), *version;
	uint32_t handover = unpack_u32(&in);

	version = unpack_text(&in);
	/* later versions may add fields after it; they are refused below */
	if (record->type != HANDOVER_HELLO || in.bad || !name || !version || strcmp(name, NAME) != 0) {
		snprintf(why, why_size, "the other process is no pgweir");
		return false;
	}
	if (handover == HANDOVER_VERSION)
		return true;
	snprintf(why, why_size, "pgweir %.32s hands over in version %u, pgweir " PGWEIR_VERSION " in version %d", version,
		 (unsigned)handover, HANDOVER_VERSION);
	return false;
}
