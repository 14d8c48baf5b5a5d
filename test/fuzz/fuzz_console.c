/*
 * The console: its words, statements, SHOW, commands and the extended protocol, as an administrator and as
 * a user with read-only access.
 *
 * Input: a byte that chooses the user; the client's messages. Properties: it does not matter how the stream is
 * cut: the same kinds of messages come, with the same errors; every message is whole; a user with read-only
 * access changes nothing; nothing is left in the end, whatever was paused, killed or shut down.
 */
#include "fuzz.h"
#include "house.h"
#include "messages.h"
#include "pg/message.h"
#include "pg/frame.h"
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char ini[] =
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 user=u\n* = " HOUSE_SERVER "user=u\n[users]\nu = pool_mode=session\n"
	"[peers]\n1 = host=127.0.0.1\n" HOUSE_SETTINGS "auth_type=any\nadmin_users=admin\nstats_users=looker\n";

/*
 * The constant part of the output: the types of the messages and the texts of errors, without quoted input: the quoted part of a bad header depends
 * on the split.
 */
static void digest(struct bytes got, bool with_rows, struct bytes *out)
{
	struct pg_frame f;
	struct pg_error error;

	while (bytes_size(&got) > 0) {
		FUZZ_CHECK(pg_frame_look(bytes_front(&got), bytes_size(&got), PG_LENGTH_LIMIT, &f) == PG_OK);
		FUZZ_CHECK(pg_frame_is_whole(&f));
		if (f.type != 'D' || with_rows)
			bytes_append_u8(out, f.type);
		if (f.type == 'E') {
			FUZZ_CHECK(pg_error_read(f.body, f.size, &error) == PG_OK);
			bytes_append(out, error.message, strcspn(error.message, "'"));
		}
		bytes_consume(&got, PG_HEADER + f.size);
	}
}

/* A command with one of these words may end connections in a later turn: the number of rows in SHOW then depends on the split. */
static bool mentions_an_end(const uint8_t *data, size_t size)
{
	static const char *const words[] = { "SHUTDOWN", "PAUSE", "KILL", "RECONNECT" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (size_t at = 0; at + strlen(words[i]) <= size; at++)
			if (strncasecmp((const char *)data + at, words[i], strlen(words[i])) == 0)
				return true;
	return false;
}

static struct bytes play(bool may_only_look, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct bytes out = BYTES_EMPTY, news;
	struct house h;
	struct house_end *caller, *client;
	const struct conf *before;

	sandbox_begin();
	house_open(&h, ini);
	client = house_login(&h, "somebody", "d", 0);
	caller = house_login(&h, may_only_look ? "looker" : "admin", "pgbouncer", 0);
	FUZZ_CHECK(client && caller);
	before = h.world->conf;
	house_feed(&h, caller, data, size, cut);
	house_tick(&h, USEC);
	if (may_only_look) {
		FUZZ_CHECK(h.world->conf == before && h.world->drain.step == DRAIN_OFF && !client->is_gone);
		FUZZ_CHECK(!h.world->pools->paused && !h.world->pools->suspended);
	}
	news = house_news(caller);
	digest(news, !mentions_an_end(data, size), &out);
	bytes_append_u8(&out, caller->is_gone ? '!' : '.');
	house_hang_up(caller);
	house_settle(&h);
	house_close(&h);
	sandbox_end();
	return out;
}

#define ASK(text) MESSAGES_PART('Q', text "\0")
static const struct messages_part parts[] = {
	ASK("SHOW POOLS"), ASK("SHOW CLIENTS"), ASK("SHOW SERVERS; SHOW LISTS"), ASK("SHOW CONFIG"), ASK("SHOW HELP"),
	ASK("SHOW STATS_TOTALS"),
	ASK("SHOW MEM"), ASK("SHOW FDS"), ASK("SHOW server_version"), ASK("PAUSE d"), ASK("PAUSE"), ASK("RESUME"),
	ASK("KILL d"), ASK("RELOAD"),
	ASK("SET default_pool_size = 3"), ASK("SET verbose TO '1'"), ASK("DISABLE d"), ASK("ENABLE d"),
	ASK("RECONNECT"), ASK("SUSPEND"),
	ASK("SHUTDOWN WAIT_FOR_CLIENTS"), ASK("WAIT_CLOSE d"), ASK("KILL_CLIENT 0x1"),
	ASK("SHOW \"databases\" /* x */ -- y"), ASK(";;"),
	MESSAGES_PART('P', "\0SHOW POOLS\0\0\0"), MESSAGES_PART('P', "a\0SHOW STATS\0\0\1\0\0\0\27"),
	MESSAGES_PART('B', "\0\0\0\0\0\0\0\0"),
	MESSAGES_PART('B', "p\0a\0\0\1\0\0\0\0\0\1\0\1"), MESSAGES_PART('D', "S\0"), MESSAGES_PART('D', "P\0"),
	MESSAGES_PART('E', "\0\0\0\0\1"),
	MESSAGES_PART('E', "\0\0\0\0\0"), MESSAGES_PART('C', "S\0"), MESSAGES_PART('C', "Pp\0"),
	MESSAGES_PART('S', ""), MESSAGES_PART('H', ""),
	MESSAGES_PART('F', "\0\0\0\1\0\0\0\0\0\0"), MESSAGES_PART('X', ""), MESSAGES_PART('d', "x"), MESSAGES_PART(0, ""),
};
static const struct messages_kit kit = { .skip = 1, .parts = parts };
MESSAGES_MUTATOR(&kit)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes whole, cut;

	if (size < 1 || size > 2048)
		return 0;
	whole = play(data[0] & 1, data + 1, size - 1, FUZZ_WHOLE);
	cut = play(data[0] & 1, data + 1, size - 1, size < 80 ? FUZZ_SINGLE : FUZZ_PIECES);
	FUZZ_SAME(&whole, &cut);
	bytes_free(&whole);
	bytes_free(&cut);
	return 0;
}
