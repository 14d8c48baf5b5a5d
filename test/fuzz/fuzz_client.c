/*
 * Messages of a logged-in client: frames, the ledger, renamed and replayed prepared statements, the relay, the link to a server and its end. All code
 * is real, in front of a small PostgreSQL (backend.h).
 *
 * Input: a byte that selects pool mode, protocol, when servers answer, and TLS; the client's messages. Properties: the result is independent of how
 * the stream is split, and whether it is clear text or TLS records, which are split as well: the client and, in session mode, the server get the same
 * bytes; after any input, the next client, on the same server or another, gets exactly the answers to its own queries, and with session_state = full
 * no settings of the earlier session; nothing is left at the end.
 */
#include "fuzz.h"
#include "house.h"
#include "messages.h"
#include "pg/frame.h"
#include "sandbox.h"

#include <string.h>

enum { HOW_MODE = 3, HOW_MINOR = 4, HOW_AT_ONCE = 8, HOW_STAYS = 16, HOW_TLS_SHIFT = 5, MODE_IS_SESSION = 1, MODE_IS_FULL = 3 };

#define INI(mode, settings) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 user=u" settings "auth_type=any\npool_mode=" mode "\n" \
	"max_prepared_statements=2\nserver_reset_query=DISCARD ALL\nmax_packet_size=1000000\n"
#define INIS(settings) \
	{ INI("transaction", settings), INI("session", settings), INI("statement", settings), \
	  INI("transaction", settings "session_state=full\n") }

static const char *const inis[][4] = { INIS(HOUSE_SETTINGS), INIS(HOUSE_SETTINGS_TLS) };

static struct house_outcome play(uint8_t how, unsigned tls, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct house_outcome o;
	struct house h;
	struct house_end *client, *server;

	sandbox_begin();
	house_open(&h, inis[tls != 0][how & HOW_MODE]);
	house_choose_tls(&h, tls);
	client = house_login(&h, "neighbour", "d", how & HOW_MINOR ? 2 : 0);
	FUZZ_CHECK(client != NULL);
	server = house_server(&h);
	h.holds_answers = !(how & HOW_AT_ONCE);
	house_feed(&h, client, data, size, cut);
	h.holds_answers = false;
	house_settle(&h);
	o = house_outcome_of(client, server);
	house_trim_pooler_answers(&o.client);
	if (!(how & HOW_STAYS))
		house_hang_up(client);
	house_settle(&h);
	/* a client with an open transaction keeps the only server; checking half of the inputs is enough */
	if (list_is_empty(&h.world->peers.clients) && (cut == FUZZ_WHOLE) == (size % 2 == 0))
		house_check_next_client(&h, "d");
	if (list_is_empty(&h.world->peers.clients) && (how & HOW_MODE) == MODE_IS_FULL)
		house_check_initial_settings(&h, "d");
	house_close(&h);
	sandbox_end();
	return o;
}

static const struct messages_kit kit = { .skip = 1, .parts = messages_of_client };
MESSAGES_MUTATOR(&kit)

/*
 * Returns whether a server got the final query after requests that were sent into a COPY (link.c). If the server skips that query, because an earlier
 * request failed in a batch without Sync, pgweir cannot know whether all answers have arrived, and the client ends. This depends on when the failure
 * arrives.
 */
static bool was_left_in_doubt(const struct house_outcome *o)
{
	static const char mark[] = "pgweir: all said";

	return o->client_is_gone && bytes_size(&o->server) > 0 &&
	       memmem(bytes_front(&o->server), bytes_size(&o->server), mark, sizeof(mark) - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct house_outcome whole, cut;
	unsigned tls;
	uint8_t how;

	if (size < 1 || size > 4096)
		return 0;
	how = data[0];
	tls = how >> HOW_TLS_SHIFT;
	whole = play(how, 0, data + 1, size - 1, FUZZ_WHOLE);
	cut = play(how, tls, data + 1, size - 1, tls && size % 4 == 0 ? FUZZ_WHOLE : size < 60 ? FUZZ_SINGLE : FUZZ_PIECES);
	/* a server that was sent requests into a COPY owes an unknown number of answers: when it is exchanged for
	   another is a matter of time */
	if (!whole.server_is_gone && !cut.server_is_gone && !was_left_in_doubt(&whole) && !was_left_in_doubt(&cut)) {
		FUZZ_CHECK(whole.client_is_gone == cut.client_is_gone);
		/* a client that is closed in the middle has got as many answers, or sent as many queries, as there was time for */
		house_trim_after_copy(&whole.client, &cut.client);
		if (!whole.client_is_gone)
			FUZZ_SAME(&whole.client, &cut.client);
		/* the eviction of a statement depends on the answers so far: session mode has no evictions */
		if (!(how & HOW_AT_ONCE) && !whole.client_is_gone && (how & HOW_MODE) == MODE_IS_SESSION)
			FUZZ_SAME(&whole.server, &cut.server);
	}
	house_outcome_free(&whole);
	house_outcome_free(&cut);
	return 0;
}
