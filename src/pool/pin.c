/*
 * Pins: why clients keep their server connection between transactions (include/tbl/pin.tbl), and the number of such clients per
 * pool.
 */
#include "pool/inside.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>

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
