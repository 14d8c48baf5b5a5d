/*
 * A server with valid or almost valid TLS: an answer to SSLRequest, a real handshake of TLS 1.2 or 1.3, new or resumed, with bytes that are
 * truncated, changed, repeated, removed and mixed with clear text at any place; then a server's messages.
 *
 * Input: a byte that selects server_tls_sslmode and the server's features; a script (flights.h). Properties: if TLS is required, pgweir sends only an
 * SSLRequest and records; if TLS is preferred, anything else only after the server's 'N'; no clear-text row reaches a client as TLS data
 * (CVE-2021-23222); a server with a wrong certificate, or without ALPN where ALPN is the only indication, gets no data; the result is independent of
 * how the bytes are split; an honest server gets its StartupMessage; nothing is left at the end.
 */
#include "fuzz.h"
#include "flights.h"
#include "house.h"
#include "messages.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "sandbox.h"
#include "secure.h"

#include <string.h>

enum {
	HOW_12 = 1, HOW_MODE = 6, HOW_IMPOSTOR = 8, HOW_WITHOUT_ALPN = 16, HOW_RESUMES = 32,
	HOW_SCRIPTED = 64		/* the answer to SSLRequest is the script's, too */
};
enum mode { MODE_PREFER, MODE_REQUIRE, MODE_VERIFY, MODE_DIRECT };

#define INI(more) \
	"[databases]\nbefore = " HOUSE_SERVER "user=u password=pencil\nd = " HOUSE_SERVER "pool_size=1 user=u password=pencil" \
	HOUSE_SETTINGS_SSL "auth_type=any\npool_mode=transaction\n" more
static const char *const inis[] = {
	[MODE_PREFER] = INI("server_tls_sslmode=prefer\n"), [MODE_REQUIRE] = INI("server_tls_sslmode=require\n"),
	[MODE_VERIFY] = INI("server_tls_sslmode=verify-full\nserver_tls_ca_file=cert\n"),
	[MODE_DIRECT] = INI("server_tls_sslmode=require\nserver_tls_sslnegotiation=direct\nserver_tls_cert_file=cert\nserver_tls_key_file=key\n"),
};

#define OK "R\0\0\0\10\0\0\0\0"
#define WELCOME OK "S\0\0\0\30server_version\00016.3\0" "K\0\0\0\14\0\0\22\147key!" "Z\0\0\0\5I"
#define ROW(text) "D\0\0\0\15\0\1\0\0\0\3" text
#define ANSWER(text) "T\0\0\0\35\0\1text\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0" ROW(text) "C\0\0\0\15SELECT 1\0" "Z\0\0\0\5I"
#define FATAL "E\0\0\0\42SFATAL\0VFATAL\0C57P01\0Mend\0\0"

static const struct flights_text messages[] = {
	FLIGHTS_TEXT(WELCOME), FLIGHTS_TEXT(ANSWER("one")), FLIGHTS_TEXT("R\0\0\0\10\0\0\0\3"), FLIGHTS_TEXT("R\0\0\0\14\0\0\0\5salt"),
	FLIGHTS_TEXT(WELCOME ANSWER("two")), FLIGHTS_TEXT(FATAL), FLIGHTS_TEXT("S"), FLIGHTS_TEXT("R\0\0\0\27\0\0\0\12SCRAM-SHA-256\0\0"),
	{ NULL, 0 },
};
static const struct flights_text clear_texts[] = {
	FLIGHTS_TEXT("S"), FLIGHTS_TEXT("N"), FLIGHTS_TEXT(FATAL), FLIGHTS_TEXT(WELCOME), FLIGHTS_TEXT(ANSWER("bad")),
	FLIGHTS_TEXT("S" WELCOME ANSWER("bad")), FLIGHTS_TEXT("R\0\0\0\10\0\0\0\3"), FLIGHTS_TEXT("SS"), FLIGHTS_TEXT("NS"),
	/* alerts, a change of cipher, empty and long records, HelloRequest, data in clear */
	FLIGHTS_TEXT("\25\3\3\0\2\1\132"), FLIGHTS_TEXT("\25\3\3\0\2\1\0"), FLIGHTS_TEXT("\25\3\3\0\2\2\50"), FLIGHTS_TEXT("\24\3\3\0\1\1"),
	FLIGHTS_TEXT("\26\3\3\0\0"), FLIGHTS_TEXT("\26\3\3\377\377"), FLIGHTS_TEXT("\26\3\3\0\4\0\0\0\0"),
	FLIGHTS_TEXT("\27\3\3\0\22" ROW("bad")), FLIGHTS_TEXT("\26\3\3\0\4\2\377\377\377"), { NULL, 0 },
};

struct outcome {
	struct house_outcome ends;
	int alert;
	bool is_done;
	bool goes_on;			/* the server sent data after the ReadyForQuery of its login */
	bool is_damaged;		/* the point at which damage is noticed depends on the split: only whole inputs are compared */
};

/* Each row that the client got was said in TLS. */
static void check_client(const struct house_end *client, const struct bytes *said)
{
	const uint8_t *at = client->got.data ? bytes_front(&client->got) : NULL;
	size_t left = bytes_size(&client->got);
	struct pg_frame f;

	while (left > 0 && pg_frame_look(at, left, PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
		FUZZ_CHECK((f.type != 'D' && f.type != 'T' && f.type != 'C') || fuzz_has(said, f.body, f.size));
		at += PG_HEADER + f.size;
		left -= PG_HEADER + f.size;
	}
}

static void check_wire(const struct house_end *e, enum mode mode)
{
	size_t skip = mode == MODE_DIRECT ? 0 : 8;

	FUZZ_CHECK(flights_are_records(bytes_front(&e->wire) + skip, bytes_size(&e->wire) - skip));
	FUZZ_CHECK(!fuzz_has(&e->wire, "pencil", 6));
}

/* A client that waits for the server, and has a query for it. */
static struct house_end *client_begin(struct house *h, const char *database)
{
	const char *const pairs[] = { "user", "u", "database", database };
	struct house_end *client = house_connect(h);
	struct bytes out = BYTES_EMPTY;

	pg_build_startup(&out, 3 << 16, pairs, 4);
	pg_build_string(&out, 'Q', "one");
	house_send(h, client, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(h);
	return client;
}

/* The server is there and has been asked for TLS, and its TLS end is ready. */
static struct house_end *server_begin(struct house *h, enum mode mode, bool grants, const struct secure_options *options)
{
	static const uint8_t request[] = { 0, 0, 0, 8, 4, 210, 22, 47 };
	struct house_end *server = house_server(h);

	FUZZ_CHECK(server && bytes_size(&server->got) >= sizeof(request));
	server->holds = true;
	if (mode != MODE_DIRECT) {
		FUZZ_CHECK(bytes_size(&server->got) == sizeof(request) && memcmp(bytes_front(&server->got), request, sizeof(request)) == 0);
		bytes_consume(&server->got, sizeof(request));
	}
	if (mode != MODE_DIRECT && grants) {
		house_send(h, server, "S", 1);
		house_settle(h);
	}
	house_secure_server(h, server, options);
	return server;
}

static struct outcome play(unsigned how, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct secure_options options = {
		.side = SECURE_ACCEPTS, .version = how & HOW_12 ? SECURE_12 : SECURE_13, .has_alpn = !(how & HOW_WITHOUT_ALPN),
		.is_impostor = how & HOW_IMPOSTOR,
	}, honest = { .side = SECURE_ACCEPTS, .version = options.version, .has_alpn = true };
	struct outcome o;
	enum mode mode = (how & HOW_MODE) / 2;
	bool is_trusted = !((how & HOW_IMPOSTOR) && mode == MODE_VERIFY) && !((how & HOW_WITHOUT_ALPN) && mode == MODE_DIRECT);
	struct house h;
	struct flights f = { .house = &h, .messages = messages, .clear = clear_texts, .cut = cut };
	struct house_end *client;

	sandbox_begin();
	house_open(&h, inis[mode]);
	if (how & HOW_RESUMES) {
		h.secures_servers = &honest;
		client_begin(&h, "before");
	}
	h.servers_answer = false;
	client = client_begin(&h, "d");
	f.end = server_begin(&h, mode, !(how & HOW_SCRIPTED), &options);
	flights_play(&f, data, size);

	if (mode != MODE_PREFER || !(how & HOW_SCRIPTED) || f.first != 'N') {
		check_wire(f.end, mode);
		check_client(client, &f.said);
	}
	FUZZ_CHECK(is_trusted || bytes_size(&f.end->got) == 0);
	if (!f.is_damaged && f.sent > 2 && is_trusted && !(how & HOW_SCRIPTED))
		FUZZ_CHECK(f.end->secure->is_done && bytes_size(&f.end->got) > 0 &&
			   ((how & HOW_IMPOSTOR) || secure_is_resumed(f.end->secure) == !!(how & HOW_RESUMES)));
	o.ends = house_outcome_of(client, f.end);
	o.is_done = f.end->secure->is_done;
	o.alert = f.end->secure->alert;
	o.is_damaged = f.is_damaged;
	o.goes_on = messages_go_on_after_ready(bytes_size(&f.said) > 0 ? bytes_front(&f.said) : NULL, bytes_size(&f.said));
	/* time passes: a login that is not over ends */
	house_tick(&h, 20 * USEC);
	house_tick(&h, 200 * USEC);
	house_hang_up(f.end);
	house_settle(&h);
	house_close(&h);
	flights_free(&f);
	sandbox_end();
	return o;
}

static void compare(struct outcome *whole, struct outcome *cut)
{
	if (whole->is_damaged || cut->is_damaged)
		return;
	FUZZ_CHECK(whole->is_done == cut->is_done);
	if (whole->goes_on || cut->goes_on)
		return;
	/* a server that sends data before a query ends, if the query does not come in time */
	if (whole->ends.server_is_gone || cut->ends.server_is_gone)
		return;
	FUZZ_CHECK(whole->alert == cut->alert && whole->ends.client_is_gone == cut->ends.client_is_gone);
	house_drop_async_messages(&whole->ends.client);
	house_drop_async_messages(&cut->ends.client);
	FUZZ_SAME(&whole->ends.client, &cut->ends.client);
	FUZZ_SAME(&whole->ends.server, &cut->ends.server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, cut;

	if (size < 1 || size > 4096)
		return 0;
	whole = play(data[0], data + 1, size - 1, FUZZ_WHOLE);
	cut = play(data[0], data + 1, size - 1, size % 8 == 0 ? FUZZ_SINGLE : FUZZ_PIECES);
	compare(&whole, &cut);
	house_outcome_free(&whole.ends);
	house_outcome_free(&cut.ends);
	return 0;
}
