/*
 * Messages of a logged-in server: frames, the ledger, ReadyForQuery, ParameterStatus, ErrorResponse, the pooler's answers between the server's, the
 * end of a link. All code is real; the client sends one of a few queries.
 *
 * Input: a byte that selects pool mode, query and TLS; the server's messages. Properties: the result is independent of how the stream is split, and
 * whether it is clear text or TLS records, which are split as well: the client gets the same bytes, unless the server is closed; after whole
 * messages, the next client gets exactly the answers to its own queries, from this server or another; nothing is left at the end.
 */
#include "fuzz.h"
#include "backend.h"
#include "house.h"
#include "messages.h"
#include "pg/frame.h"
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

#define INI(mode, settings) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 user=u" settings "auth_type=any\npool_mode=" mode "\n" \
	"max_prepared_statements=2\nserver_reset_query=DISCARD ALL\n"

#define INIS(settings) { INI("transaction", settings), INI("session", settings), INI("statement", settings), INI("transaction", settings "session_state=full\n") }

enum { HOW_FULL = 192 };		/* from here on with session_state = full */

static const char *const inis[][4] = { INIS(HOUSE_SETTINGS), INIS(HOUSE_SETTINGS_TLS) };

#define QUERY "Q\0\0\0\10one\0"
#define PARSE "P\0\0\0\14a\0one\0\0\0"
#define PARSE_B "P\0\0\0\14b\0two\0\0\0"
#define BIND "B\0\0\0\15\0a\0\0\0\0\0\0\0"
#define DESCRIBE "D\0\0\0\7Sa\0"
#define EXECUTE "E\0\0\0\11\0\0\0\0\0"
#define CLOSE "C\0\0\0\7Sa\0"
#define SYNC "S\0\0\0\4"
#define UNNAMED "P\0\0\0\13\0one\0\0\0" "B\0\0\0\14\0\0\0\0\0\0\0\0"
#define COPY "d\0\0\0\10row\n" "c\0\0\0\4"

static const struct { const char *text; size_t size; } questions[] = {
#define QUESTION(text) { text, sizeof(text) - 1 }
	QUESTION(QUERY), QUESTION(PARSE BIND DESCRIBE EXECUTE SYNC), QUESTION(QUERY QUERY QUERY), QUESTION(QUERY COPY SYNC),
	QUESTION(PARSE SYNC PARSE_B BIND EXECUTE SYNC), QUESTION(PARSE BIND EXECUTE CLOSE SYNC PARSE BIND EXECUTE SYNC),
	QUESTION(UNNAMED EXECUTE "H\0\0\0\4"), QUESTION("F\0\0\0\16\0\0\0\1\0\0\0\0\0\0" UNNAMED EXECUTE COPY SYNC),
};

static bool is_whole(const uint8_t *data, size_t size)
{
	struct pg_frame f;

	while (size > 0) {
		if (pg_frame_look(data, size, PG_LENGTH_LIMIT, &f) != PG_OK || !pg_frame_is_whole(&f))
			return false;
		data += PG_HEADER + f.size;
		size -= PG_HEADER + f.size;
	}
	return true;
}

static struct house_outcome play(uint8_t how, unsigned tls, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct house_outcome o;
	struct house h;
	struct house_end *client, *server;

	sandbox_begin();
	house_open(&h, inis[tls != 0][how < HOW_FULL ? how % 3 : 3]);
	house_choose_tls(&h, tls);
	client = house_login(&h, "first", "d", 0);
	server = house_server(&h);
	FUZZ_CHECK(client && server);
	/* the server has been asked for functions then */
	if (how >= HOW_FULL)
		house_send(&h, client, QUERY, sizeof(QUERY) - 1);
	house_settle(&h);
	house_news(client);
	house_news(server);
	h.holds_answers = true;
	house_send(&h, client, questions[how / 3 % 8].text, questions[how / 3 % 8].size);
	house_settle(&h);
	/* from here on, the backend does not answer the server's queries */
	house_news(server);
	house_feed(&h, server, data, size, cut);
	o = house_outcome_of(client, server);
	house_hang_up(client);
	house_settle(&h);
	/* a client that waits to ask more is not read before answers come: that it has left is not known then */
	if (list_is_empty(&h.world->peers.clients) && is_whole(data, size) && (cut == FUZZ_WHOLE) == (size % 2 == 0))
		house_check_next_client(&h, "d");
	house_close(&h);
	sandbox_end();
	return o;
}

static const struct messages_kit kit = { .skip = 1, .parts = messages_of_server };
MESSAGES_MUTATOR(&kit)

/*
 * Messages that may be present at the end or not: asynchronous messages, which reach the client after the last answer only while it has the server;
 * and the possible beginning of a lost server's answer to the final query ("pgweir: all said"), which waits for the rest, or was forwarded before
 * that query.
 */
#define LOOSE_ENDS "NAS" "1tn"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct house_outcome whole, cut;
	unsigned tls;

	if (size < 1 || size > 4096)
		return 0;
	tls = data[0] / 24 & 7;
	whole = play(data[0], 0, data + 1, size - 1, FUZZ_WHOLE);
	cut = play(data[0], tls, data + 1, size - 1, tls && size % 4 == 0 ? FUZZ_WHOLE : size < 60 ? FUZZ_SINGLE : FUZZ_PIECES);
	/*
	 * a server with extra messages ends with its client unless it has answered that client before; and an extra message may count as an answer to the
	 * client's next query
	 */
	if (!whole.server_is_gone && !cut.server_is_gone) {
		FUZZ_CHECK(whole.client_is_gone == cut.client_is_gone);
		house_trim_end(&whole.client, LOOSE_ENDS);
		house_trim_end(&cut.client, LOOSE_ENDS);
		house_trim_errors(&whole.client);
		house_trim_errors(&cut.client);
		/* asynchronous messages preceded an error, too */
		house_trim_end(&whole.client, LOOSE_ENDS);
		house_trim_end(&cut.client, LOOSE_ENDS);
		FUZZ_SAME(&whole.client, &cut.client);
	}
	house_outcome_free(&whole);
	house_outcome_free(&cut);
	return 0;
}
