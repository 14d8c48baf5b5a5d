/*
 * A client with valid or almost valid TLS: a real handshake, after SSLRequest or directly, of TLS 1.2 or 1.3, new or resumed. Its bytes are
 * truncated, changed, repeated, removed and mixed with clear text at any place, before, within and after it.
 *
 * Input: a byte that selects pgweir's requirements and the client's beginning; a script (flights.h). Properties: no clear text is treated as TLS data
 * (CVE-2021-3935): every message to a server was sent in TLS, and no client is welcomed without a StartupMessage in TLS; after its 'S' pgweir sends
 * only records; the result is independent of how the bytes are split; an honest client gets TLS; after any input, the next client is welcomed;
 * nothing is left at the end.
 */
#include "fuzz.h"
#include "flights.h"
#include "house.h"
#include "pg/frame.h"
#include "sandbox.h"
#include "secure.h"

#include <string.h>

enum {
	HOW_12 = 1, HOW_DIRECT = 2, HOW_WITHOUT_ALPN = 4, HOW_RESUMES = 8,
	HOW_SHOWS = 16,			/* a certificate, where pgweir asks for one */
	HOW_TOGETHER = 32,		/* the SSLRequest waits for the script to send it */
	HOW_DEMANDS = 64		/* pgweir asks for one, and wants it */
};

#define INI(more) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=2 user=u" HOUSE_SETTINGS "auth_type=any\npool_mode=transaction\n" HOUSE_CLIENT_TLS more
static const char *const inis[] = { INI(""), INI("client_tls_sslmode=verify-ca\nclient_tls_ca_file=cert\n") };

#define SSL_REQUEST "\0\0\0\10\4\322\26\57"
#define STARTUP "\0\0\0\37\0\3\0\0user\0first\0database\0d\0\0"
#define MALLORY "\0\0\0\41\0\3\0\0user\0mallory\0database\0d\0\0"

static const struct flights_text messages[] = {
	FLIGHTS_TEXT(STARTUP), FLIGHTS_TEXT("Q\0\0\0\10one\0"), FLIGHTS_TEXT("Q\0\0\0\10two\0"), FLIGHTS_TEXT(SSL_REQUEST),
	FLIGHTS_TEXT("X\0\0\0\4"), FLIGHTS_TEXT("P\0\0\0\13\0ten\0\0\0" "B\0\0\0\14\0\0\0\0\0\0\0\0" "E\0\0\0\11\0\0\0\0\0" "S\0\0\0\4"),
	FLIGHTS_TEXT(STARTUP "Q\0\0\0\10one\0" "Q\0\0\0\10two\0"), { NULL, 0 },
};
static const struct flights_text clear_texts[] = {
	FLIGHTS_TEXT(MALLORY), FLIGHTS_TEXT("Q\0\0\0\10bad\0"), FLIGHTS_TEXT(SSL_REQUEST), FLIGHTS_TEXT(MALLORY "Q\0\0\0\10bad\0"),
	/* alerts: a warning, close_notify, a fatal alert; a change of cipher; an empty record; a record that is too long; data in clear */
	FLIGHTS_TEXT("\25\3\3\0\2\1\132"), FLIGHTS_TEXT("\25\3\3\0\2\1\0"), FLIGHTS_TEXT("\25\3\3\0\2\2\50"), FLIGHTS_TEXT("\24\3\3\0\1\1"),
	FLIGHTS_TEXT("\26\3\1\0\0"), FLIGHTS_TEXT("\26\3\1\377\377"), FLIGHTS_TEXT("\27\3\3\0\10Q\0\0\0\10bad\0"), FLIGHTS_TEXT("\27\3\3\0\0"),
	/* a handshake message of the most that can be said; HelloRequest; SSL 2; GSSENCRequest; another protocol altogether */
	FLIGHTS_TEXT("\26\3\1\0\4\1\377\377\377"), FLIGHTS_TEXT("\26\3\3\0\4\0\0\0\0"), FLIGHTS_TEXT("\200\56\1\3\1\0\25\0\0\0\20"),
	FLIGHTS_TEXT("\0\0\0\10\4\322\26\60"), FLIGHTS_TEXT("GET / HTTP/1.1\r\n\r\n"), { NULL, 0 },
};

struct outcome {
	struct house_outcome ends;
	int alert;
	bool is_done;
	bool is_damaged;		/* the point at which damage is noticed depends on the split: only whole inputs are compared */
};

static bool is_welcomed(const struct house_outcome *o)
{
	return fuzz_has(&o->client, "server_version", 15);
}

/* Whatever a server was asked for its client was said in TLS. */
static void check_servers(const struct house *h, const struct bytes *said)
{
	for (int i = 0; i < h->end_count; i++) {
		const struct house_end *e = &h->ends[i];
		size_t left = e->is_server ? bytes_size(&e->got) : 0, packet;
		const uint8_t *at;
		struct pg_frame f;

		if (left < 4)
			continue;
		/* after pgweir's own StartupMessage */
		at = bytes_front(&e->got);
		packet = pg_u32_at(at);
		FUZZ_CHECK(packet <= left);
		at += packet;
		left -= packet;
		while (left > 0 && pg_frame_look(at, left, PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
			FUZZ_CHECK(f.type == 'X' || fuzz_has(said, f.body, f.size));
			at += PG_HEADER + f.size;
			left -= PG_HEADER + f.size;
		}
	}
}

/* In clear text pgweir sends 'S' or an error, and nothing after the 'S'. */
static void check_wire(const struct house_end *e, unsigned how)
{
	const uint8_t *at = e->wire.data ? bytes_front(&e->wire) : NULL;
	size_t size = bytes_size(&e->wire);

	if (!(how & HOW_DIRECT) && size > 0) {
		FUZZ_CHECK(*at == 'S' || *at == 'E');
		if (*at == 'E')
			return;
		at++;
		size--;
	}
	/* a ClientHello with a wrong beginning is read as a start-up packet, and refused in clear text */
	FUZZ_CHECK(size == 0 || ((how & HOW_DIRECT) && *at == 'E') || flights_are_records(at, size));
}

/* An honest client before this one: it leaves a session, unless it had to show a certificate. */
static SSL_SESSION *session_before(struct house *h, const struct secure_options *options, unsigned how)
{
	struct house_end *e = house_connect(h);
	SSL_SESSION *session;

	house_secure(h, e, options);
	house_send(h, e, "X\0\0\0\4", 5);
	house_settle(h);
	session = secure_session(e->secure);
	FUZZ_CHECK((session == NULL) == !!(how & HOW_DEMANDS));
	house_hang_up(e);
	house_settle(h);
	return session;
}

/* Sends the first request in clear text. */
static void ask_for_tls(struct flights *f, unsigned how)
{
	if (how & HOW_DIRECT)
		return;
	if (how & HOW_TOGETHER) {
		bytes_append(&f->waits, SSL_REQUEST, sizeof(SSL_REQUEST) - 1);
		f->end->awaits_answer = f->is_damaged = true;
		return;
	}
	house_send_raw(f->house, f->end, SSL_REQUEST, sizeof(SSL_REQUEST) - 1);
	house_settle(f->house);
	FUZZ_CHECK(bytes_size(&f->end->got) == 1 && *bytes_front(&f->end->got) == 'S');
	bytes_consume(&f->end->got, 1);
}

static struct outcome play(unsigned how, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct secure_options options = {
		.side = SECURE_CONNECTS, .version = how & HOW_12 ? SECURE_12 : SECURE_13, .has_alpn = !(how & HOW_WITHOUT_ALPN),
		.shows_certificate = how & HOW_SHOWS,
	}, honest = options;
	struct outcome o;
	struct house h;
	struct flights f = { .house = &h, .messages = messages, .clear = clear_texts, .cut = cut };

	sandbox_begin();
	honest.has_alpn = honest.shows_certificate = true;
	house_open(&h, inis[!!(how & HOW_DEMANDS)]);
	if (how & HOW_RESUMES)
		options.session = session_before(&h, &honest, how);
	f.end = house_connect(&h);
	ask_for_tls(&f, how);
	f.end->secure = secure_new(&options);
	secure_begin(f.end->secure);
	flights_play(&f, data, size);

	check_wire(f.end, how);
	check_servers(&h, &f.said);
	o.is_done = f.end->secure->is_done;
	o.alert = f.end->secure->alert;
	o.is_damaged = f.is_damaged;
	o.ends = house_outcome_of(f.end, house_server(&h));
	FUZZ_CHECK(fuzz_has(&f.said, "user", 5) || !is_welcomed(&o.ends));
	house_trim_pooler_answers(&o.ends.client);
	/* TLS 1.3 is done for the client before it is for pgweir, which may still refuse it */
	if (!f.is_damaged && f.sent > 2 && (!(how & HOW_DEMANDS) || (how & HOW_SHOWS)) && !((how & HOW_DIRECT) && (how & HOW_WITHOUT_ALPN)))
		FUZZ_CHECK(o.is_done && o.alert >> 8 != SSL3_AL_FATAL && secure_is_resumed(f.end->secure) == (options.session != NULL));
	house_hang_up(f.end);
	house_settle(&h);
	h.secures_clients = &honest;
	house_check_next_client(&h, "d");
	house_close(&h);
	flights_free(&f);
	SSL_SESSION_free(options.session);
	sandbox_end();
	return o;
}

static void compare(struct outcome *whole, struct outcome *cut)
{
	if (whole->is_damaged || cut->is_damaged)
		return;
	FUZZ_CHECK(whole->is_done == cut->is_done);
	/*
	 * after the login the session is like any other: fuzz_client.c explains why these sessions are not compared; and a client that disconnects before
	 * its welcome may miss it
	 */
	if (whole->ends.server_is_gone || cut->ends.server_is_gone ||
	    (whole->ends.client_is_gone && (is_welcomed(&whole->ends) || is_welcomed(&cut->ends))))
		return;
	FUZZ_CHECK(whole->alert == cut->alert && whole->ends.client_is_gone == cut->ends.client_is_gone);
	house_trim_after_copy(&whole->ends.client, &cut->ends.client);
	/* the quoted part of a bad header depends on the split */
	if (!fuzz_has(&whole->ends.client, "bad packet header", 17))
		FUZZ_SAME(&whole->ends.client, &cut->ends.client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, cut;

	if (size < 1 || size > 4096)
		return 0;
	whole = play(data[0], data + 1, size - 1, FUZZ_WHOLE);
	cut = play(data[0], data + 1, size - 1, size % 8 == 0 ? FUZZ_SINGLE : FUZZ_PIECES);
	/* data together with an SSLRequest is refused; the same data by itself may be TLS */
	if (!(data[0] & HOW_TOGETHER) || (data[0] & HOW_DIRECT))
		compare(&whole, &cut);
	house_outcome_free(&whole.ends);
	house_outcome_free(&cut.ends);
	return 0;
}
