/*
 * A client before authentication: start-up packets, SSLRequest and similar requests, a password, an MD5 response, SCRAM, the HBA rules, the welcome.
 * All code under test is real; the input is any data that an unauthenticated client may send.
 *
 * Input: a byte that selects auth_type; the bytes of the connection. Properties: the result is independent of how they are split: the client gets the
 * same bytes; with auth_type plain no client is welcomed without the password; after any input, the next client is welcomed and gets its own answers;
 * nothing is left at the end. Randomness is deterministic, and so are salts and nonces, so inputs can contain the correct answer.
 */
#include "fuzz.h"
#include "backend.h"
#include "house.h"
#include "messages.h"
#include "pg/frame.h"
#include "sandbox.h"

#include <string.h>

#define INI(type) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=2 user=u\nopen = " HOUSE_SERVER "pool_size=1 user=u" HOUSE_SETTINGS \
	"auth_file=users\nadmin_users=alice\nignore_startup_parameters=extra_float_digits\nmax_client_conn=20\nauth_type=" type "\n"

static const char *const inis[] = {
	INI("plain"), INI("md5"), INI("scram-sha-256"), INI("hba\nauth_hba_file=rules"), INI("trust"), INI("any"),
};

static const char users[] =
	"\"alice\" \"pencil\"\n\"bob\" \"md5d9a75f1ea9d7ac1ef0f68b3b4a5a6f7e\"\n\"neighbour\" \"\"\n"
	"\"carol\" \"SCRAM-SHA-256$16:MDEyMzQ1Njc4OWFiY2RlZg==$zyiCN9CAyp+5Ur/3LZOC8HBqIvZUBrJRQC7dFVDwDxc=:"
	"OoVhVJ0Hzzk3ZE1PPZUbTqcVP9fCuUu9nXkWd4PK2sg=\"\n";
static const char rules[] =
	"host open all 127.0.0.1/32 trust\nhost d alice all scram-sha-256\nhost d bob all md5\nhost d carol all password\n"
	"host d all all reject\n";

/* Returns whether ReadyForQuery is among the messages, after a possible answer to an SSLRequest. */
static bool is_welcomed(const struct bytes *got)
{
	const uint8_t *at = got->data ? bytes_front(got) : NULL;
	size_t left = bytes_size(got);
	struct pg_frame f;

	while (left > 0 && *at == 'N' && (left < 2 || at[1] != 0)) {
		at++;
		left--;
	}
	while (left > 0 && pg_frame_look(at, left, PG_LENGTH_LIMIT, &f) == PG_OK && pg_frame_is_whole(&f)) {
		if (f.type == 'Z')
			return true;
		at += PG_HEADER + f.size;
		left -= PG_HEADER + f.size;
	}
	return false;
}

static bool says(const struct house_outcome *o, const char *text)
{
	return fuzz_has(&o->client, text, strlen(text));
}

static struct house_outcome play(unsigned type, const uint8_t *data, size_t size, enum fuzz_cut cut)
{
	struct house_outcome o;
	struct house h;
	struct house_end *client;

	sandbox_begin();
	sandbox_file("users", users, sizeof(users) - 1);
	sandbox_file("rules", rules, sizeof(rules) - 1);
	house_open(&h, inis[type]);
	sandbox_rewind();
	client = house_connect(&h);
	house_feed(&h, client, data, size, cut);
	o = house_outcome_of(client, NULL);
	house_hang_up(client);
	house_settle(&h);
	/* by the rules, or because nothing is asked */
	if (type >= 3)
		house_check_next_client(&h, "open");
	house_close(&h);
	sandbox_end();
	return o;
}

static const struct messages_part parts[] = {
	MESSAGES_PART('p', "pencil\0"), MESSAGES_PART('p', "md5d9a75f1ea9d7ac1ef0f68b3b4a5a6f7e\0"),
	MESSAGES_PART('p', "SCRAM-SHA-256\0\0\0\0\27n,,n=,r=abcdefghijklmnop"),
	MESSAGES_PART('p', "c=biws,r=abcdefghijklmnop,p=AAAA"), MESSAGES_PART('Q', "SHOW POOLS\0"),
	MESSAGES_PART('X', ""), MESSAGES_PART(0, ""),
};
static const struct messages_kit kit = { .skip = 1, .has_packet = 1, .parts = parts };
MESSAGES_MUTATOR(&kit)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct house_outcome whole, cut;
	bool is_in;
	unsigned type;

	if (size < 1 || size > 4096)
		return 0;
	type = data[0] % 6;
	whole = play(type, data + 1, size - 1, FUZZ_WHOLE);
	cut = play(type, data + 1, size - 1, size < 200 ? FUZZ_SINGLE : FUZZ_PIECES);
	is_in = is_welcomed(&whole.client);
	/* data together with an SSLRequest must not be clear text; and the quoted part of a bad header depends on the split */
	if (!says(&whole, "unencrypted data") && !says(&whole, "bad packet header")) {
		FUZZ_CHECK(is_in == is_welcomed(&cut.client) && (is_in || whole.client_is_gone == cut.client_is_gone));
		/* after the login the session is like any other */
		if (!is_in)
			FUZZ_SAME(&whole.client, &cut.client);
	}
	FUZZ_CHECK(!is_in || type > 0 || memmem(data, size, "pencil", 6));
	house_outcome_free(&whole);
	house_outcome_free(&cut);
	return 0;
}
