/*
 * The reasons why pgweir ends a connection or refuses a request: a table with a counter for each row.
 *
 * Invariant: the number of a reason is the index of its row in include/tbl/close_reason.tbl, after REASON_NONE. Alerts and
 * drivers match the texts, so they must not change.
 */
#include "pool/close_reason.h"

#include "base/assert.h"
#include "base/printable.h"
#include "base/text.h"
#include "pool/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HINT_NONE NULL
#define HINT_PARAMETERS "Parameters named in ignore_startup_parameters are passed over, those in track_extra_parameters are set."

static const struct close_reason_row rows[REASONS] = {
	[REASON_NONE] = { "NONE", FAULT_NOBODY, "00000", TOLD_ERROR, DETAIL_TEXT, NULL, "" },
#define CLOSE_REASON(id, fault, sqlstate, told, detail, hint, text) \
	[REASON_##id] = { #id, FAULT_##fault, sqlstate, TOLD_##told, DETAIL_##detail, HINT_##hint, text },
#include "tbl/close_reason.tbl"
#undef CLOSE_REASON
};

static uint64_t counted[REASONS];

const struct close_reason_row *close_reason_row(enum close_reason why)
{
	ASSERT((unsigned)why < REASONS);
	return &rows[why];
}

const char *close_reason_text(enum close_reason why, const char *detail, char *buf, size_t size)
{
	const char *text = close_reason_row(why)->text, *hole = strstr(text, "%s");
	const char *optional = detail ? NULL : strstr(text, " (%s)");
	size_t used;

	/* printf is not used: the detail comes from a peer, and no row text must be used as a format by accident. */
	text_copy(buf, size, text);
	if (optional && (size_t)(optional - text) < size) {
		buf[optional - text] = '\0';
		return buf;
	}
	if (!hole || (size_t)(hole - text) >= size)
		return buf;
	used = (size_t)(hole - text);
	text_copy(buf + used, size - used, detail ? detail : "");
	used += strlen(buf + used);
	text_copy(buf + used, size - used, hole + 2);
	return buf;
}

const char *close_reason_log_text(enum close_reason why, const char *detail, char *buf, size_t size)
{
	char name[PRINTABLE_NAME], text[PRINTABLE_TEXT];

	if (detail) {
		switch (close_reason_row(why)->detail) {
		case DETAIL_TEXT:
			detail = printable_text(detail, text, sizeof(text));
			break;
		case DETAIL_NAME:
			detail = printable_name(detail, name, sizeof(name));
			break;
		case DETAIL_QUOTED:
			detail = printable_inside(detail, name, sizeof(name));
			break;
		}
	}
	return close_reason_text(why, detail, buf, size);
}

void close_reason_count(enum close_reason why)
{
	ASSERT((unsigned)why < REASONS);
	counted[why]++;
}

uint64_t close_reason_counted(enum close_reason why)
{
	ASSERT((unsigned)why < REASONS);
	return counted[why];
}

/* ---- pins ---- */

/*
 * Pins: why clients keep their server connection between transactions (include/tbl/pin.tbl), and the number of such clients per
 * pool.
 */

static const char *const words[PINS] = {
#define PIN(id, words, where) [PIN_##id##_NUMBER] = words,
#include "tbl/pin.tbl"
#undef PIN
};

_Static_assert(PINS <= 8, "the bits fit pool_client.pins, and one more server.state_doubts");

void pool_client_pin(struct pool_client *client, unsigned pins)
{
	ASSERT(client->link && pins < 1u << PINS);
	client->pool->pinned += (pins != 0) - (client->pins != 0);
	client->pins = (uint8_t)pins;
}

/* Appends after the first `used` bytes of buf. The text must fit. Returns the new length. */
__attribute__((format(printf, 3, 4))) static size_t append(char *buf, size_t used, const char *format, ...)
{
	va_list arguments;
	int added;

	va_start(arguments, format);
	added = vsnprintf(buf + used, PIN_TEXT - used, format, arguments);
	va_end(arguments);
	ASSERT(added >= 0 && used + (size_t)added < PIN_TEXT);
	return used + (size_t)added;
}

const char *pins_text(unsigned pins, char *buf)
{
	size_t used = 0;

	*buf = '\0';
	for (int i = 0; i < PINS; i++)
		if (pins & 1u << i)
			used = append(buf, used, "%s%s", used > 0 ? ", " : "", words[i]);
	return buf;
}

const char *pool_pins_text(const struct pool *pool, char *buf)
{
	int counts[PINS] = { 0 };
	size_t used;
	const char *between = ": ";

	if (pool->pinned == 0)
		return NULL;
	LIST_EACH(node, &pool->clients[CLIENT_ACTIVE])
		for (int i = 0; i < PINS; i++)
			counts[i] += client_at(node)->pins >> i & 1;
	used = append(buf, 0, "%d of %d server connections are pinned", pool->pinned, pool_live(pool));
	for (int i = 0; i < PINS; i++) {
		if (counts[i] == 0)
			continue;
		used = append(buf, used, "%s%d %s", between, counts[i], words[i]);
		between = ", ";
	}
	if (pool->server_count[SERVER_LISTENING] > 0)
		append(buf, used, "; one listens for all");
	return buf;
}
