/*
 * What a client sends once it is logged in: frames, the ledger, prepared statements that are renamed and
 * replayed, the relay, the link to a server and its end. All of it is the real thing, in front of a small
 * PostgreSQL (backend.h).
 *
 * Input: a byte that chooses pool mode, protocol and when servers answer; the client's messages.
 * Properties: it does not matter how the stream is cut: the client and, in session mode, the server get the
 * same bytes; whatever the client has done, the next one, who gets the same server or another, gets the
 * answers to his own questions and nothing else; nothing is left in the end.
 */
#include "fuzz.h"
#include "house.h"
#include "messages.h"
#include "pg/frame.h"
#include "sandbox.h"

#include <string.h>

enum { HOW_MODE = 3, HOW_MINOR = 4, HOW_AT_ONCE = 8, HOW_STAYS = 16, MODE_IS_SESSION = 1 };

#define INI(mode) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 user=u" HOUSE_SETTINGS "auth_type=any\npool_mode=" mode "\n" \
	"max_prepared_statements=2\nserver_reset_query=DISCARD ALL\nmax_packet_size=1000000\n"

static const char *const inis[] = { INI("transaction"), INI("session"), INI("statement"), INI("transaction") };

struct outcome {
	struct bytes client, server;
	bool is_gone, is_lost;		/* the client; the server that it began with */
};

static struct outcome play(uint8_t how, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct outcome o = { .client = BYTES_EMPTY, .server = BYTES_EMPTY };
	struct house h;
	struct house_end *client, *server;
	struct bytes news;

	sandbox_begin();
	house_open(&h, inis[how & HOW_MODE]);
	client = house_login(&h, "neighbour", "d", how & HOW_MINOR ? 2 : 0);
	FUZZ_CHECK(client != NULL);
	server = house_server(&h);
	h.holds_answers = !(how & HOW_AT_ONCE);
	house_feed(&h, client, data, size, cut);
	h.holds_answers = false;
	house_settle(&h);
	news = house_news(client);
	bytes_append(&o.client, news.data, bytes_size(&news));
	house_trim_promises(&o.client);
	if (server)
		bytes_append(&o.server, server->got.data, bytes_size(&server->got));
	o.is_gone = client->is_gone;
	o.is_lost = server && server->is_gone;
	if (!(how & HOW_STAYS))
		house_hang_up(client);
	house_settle(&h);
	/* one who has a transaction open keeps the one server there is; half of the time is enough */
	if (list_is_empty(&h.world->clients) && (cut == FUZZ_WHOLE) == (size % 2 == 0))
		house_check_neighbour(&h, "d");
	house_close(&h);
	sandbox_end();
	return o;
}

static void outcome_free(struct outcome *o)
{
	bytes_free(&o->client);
	bytes_free(&o->server);
}

static const struct messages_kit kit = { .skip = 1, .parts = messages_of_client };
MESSAGES_MUTATOR(&kit)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, cut;
	uint8_t how;

	if (size < 1 || size > 4096)
		return 0;
	how = data[0];
	whole = play(how, data + 1, size - 1, FUZZ_WHOLE);
	cut = play(how, data + 1, size - 1, size < 60 ? FUZZ_SINGLE : FUZZ_PIECES);
	/* nobody can say what a server owes that was sent requests into a COPY: when it is exchanged for another
	   is a matter of time */
	if (whole.is_lost || cut.is_lost) {
		outcome_free(&whole);
		outcome_free(&cut);
		return 0;
	}
	FUZZ_CHECK(whole.is_gone == cut.is_gone);
	/* who is put out in the middle has got as many answers, or asked as many questions, as there was time for */
	house_trim_after_copy(&whole.client, &cut.client);
	if (!whole.is_gone && !cut.is_gone)
		FUZZ_SAME(&whole.client, &cut.client);
	/* when a statement makes room for another follows from what has been answered by then: in session mode
	   there is no such thing */
	if (!(how & HOW_AT_ONCE) && !whole.is_gone && (how & HOW_MODE) == MODE_IS_SESSION)
		FUZZ_SAME(&whole.server, &cut.server);
	outcome_free(&whole);
	outcome_free(&cut);
	return 0;
}
