/*
 * A server during pgweir's login: authentication requests, SCRAM as the client side, versions, parameters, keys, errors. All code under test is real;
 * the input is any data that an attacker in place of the server may send.
 *
 * Input: a byte that selects pgweir's knowledge of the user; the server's bytes. Properties: the result is independent of how they are split: the
 * waiting client, and the server, get the same bytes; the password is sent in clear only if requested; nothing is left at the end. Randomness is
 * deterministic, and so is pgweir's nonce, so inputs can contain the correct answer.
 */
#include "fuzz.h"
#include "house.h"
#include "messages.h"
#include "pg/build.h"
#include "sandbox.h"

#include <string.h>

#define INI(database, more) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 " database HOUSE_SETTINGS "auth_type=any\nserver_check_query=one\n" more

#define LONG_KEYS "server_max_protocol_version=3.2\n"

static const char *const inis[] = {
	INI("user=u password=pencil", ""), INI("user=u", ""), INI("user=u password=pencil connect_query='one'", LONG_KEYS),
	INI("user=u password=md5d9a75f1ea9d7ac1ef0f68b3b4a5a6f7e datestyle=German", LONG_KEYS),
};

static struct house_outcome play(unsigned how, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	static const char *const pairs[] = { "user", "u", "database", "d", "application_name", "x" };
	struct house_outcome o;
	struct bytes out = BYTES_EMPTY;
	struct house_end *client, *server;
	struct house h;

	sandbox_begin();
	house_open(&h, inis[how]);
	h.servers_answer = false;
	client = house_connect(&h);
	pg_build_startup(&out, 3 << 16, pairs, 6);
	house_send(&h, client, bytes_front(&out), bytes_size(&out));
	house_settle(&h);
	server = house_server(&h);
	FUZZ_CHECK(server != NULL);
	sandbox_rewind();
	house_feed(&h, server, data, size, cut);
	o = house_outcome_of(client, server);
	/* time passes: a login that is not over ends */
	house_tick(&h, 20 * USEC);
	house_tick(&h, 200 * USEC);
	house_hang_up(server);
	house_settle(&h);
	house_close(&h);
	bytes_free(&out);
	sandbox_end();
	return o;
}

/* A request for the password in clear: AuthenticationCleartextPassword. */
static bool asks_in_clear(const uint8_t *data, size_t size)
{
	return memmem(data, size, "R\0\0\0\10\0\0\0\3", 9) != NULL;
}

static const struct messages_kit kit = { .skip = 1, .parts = messages_of_server };
MESSAGES_MUTATOR(&kit)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct house_outcome whole, cut;
	unsigned how;

	if (size < 1 || size > 4096 || memmem(data, size, ",i=1", 4) != memmem(data, size, ",i=16", 5))
		return 0;
	how = data[0] % 4;
	whole = play(how, data + 1, size - 1, FUZZ_WHOLE);
	cut = play(how, data + 1, size - 1, size < 300 ? FUZZ_SINGLE : FUZZ_PIECES);
	FUZZ_CHECK(whole.server_is_gone == cut.server_is_gone || messages_go_on_after_ready(data, size));
	if (!whole.server_is_gone && !messages_go_on_after_ready(data, size)) {
		FUZZ_CHECK(whole.client_is_gone == cut.client_is_gone);
		FUZZ_SAME(&whole.client, &cut.client);
		FUZZ_SAME(&whole.server, &cut.server);
	}
	FUZZ_CHECK(asks_in_clear(data, size) || !fuzz_has(&whole.server, "pencil", 6));
	FUZZ_CHECK(!fuzz_has(&whole.client, "pencil", 6) || memmem(data, size, "pencil", 6));
	house_outcome_free(&whole);
	house_outcome_free(&cut);
	return 0;
}
