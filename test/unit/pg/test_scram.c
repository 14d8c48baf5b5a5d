/*
 * SCRAM: the exchange of RFC 7677 from both sides; an exchange between both sides with every bit of every message inverted and every message
 * truncated anywhere; and refused messages of each side. Messages are passed in allocations of the exact size, so that the sanitizer detects a read
 * past the end.
 */
#include "pg/scram.h"
#include "derive.h"
#include "unit.h"

#include <stdlib.h>

static const char rfc_secret[] = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
				 "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
#define RFC_BARE "n=user,r=rOprNGfwEbeRWgbNEkqO"
#define RFC_NONCE "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define RFC_SERVER_FIRST "r=" RFC_NONCE ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
#define RFC_CLIENT_FINAL "c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define RFC_SERVER_FINAL "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

static const uint8_t nonce_c[SCRAM_NONCE_RAW] = "client's nonce...";
static const uint8_t nonce_s[SCRAM_NONCE_RAW] = "server's nonce...";
static const char *why;
static char said[4096];		/* output of the last step */

/* Records the output of a step and returns its result; a refusal has a reason and no output. */
static enum scram_result heard(enum scram_result result, struct bytes *out)
{
	snprintf(said, sizeof(said), "%.*s", (int)bytes_size(out), bytes_size(out) ? (char *)bytes_front(out) : "");
	bytes_free(out);
	if ((result == SCRAM_INVALID || result == SCRAM_NO_KEYS || result == SCRAM_WRONG || result == SCRAM_UNBOUND) && (!why || *said))
		UNIT_FAIL("refused without a reason, or with an answer");
	return result;
}

static enum scram_result verifier_says(struct scram_verifier *v, const void *message, size_t size)
{
	struct bytes out = BYTES_EMPTY;
	char *exact = malloc(size ? size : 1);
	enum scram_result result;

	memcpy(exact, message, size);
	why = NULL;
	result = heard(scram_verifier_step(v, exact, size, &out, &why), &out);
	free(exact);
	return result;
}

static enum scram_result verifier_reads(struct scram_verifier *v, const char *message)
{
	return verifier_says(v, message, strlen(message));
}

static scram_cached_keys *keys_at_hand;
static void *keys_context;

static const char *password;

/* NULL: no password; cached keys are used. */
static void knows(struct scram_prover *p, const char *text)
{
	password = text;
	p->may_derive = text != NULL;
}

static void derive(struct scram_prover *p)
{
	uint8_t stored_key[SCRAM_KEY];

	CHECK(!p->have_keys && scram_keys_derive(password, p->salt, p->salt_size, p->iterations, p->client_key, stored_key, p->server_key));
	p->have_keys = true;
}

static enum scram_result prover_says(struct scram_prover *p, const void *message, size_t size)
{
	struct bytes out = BYTES_EMPTY;
	char *exact = message ? malloc(size ? size : 1) : NULL;
	enum scram_result result;

	if (message)
		memcpy(exact, message, size);
	why = NULL;
	result = scram_prover_step(p, exact, size, keys_at_hand, keys_context, &out, &why);
	if (result == SCRAM_PENDING) {
		derive(p);
		result = scram_prover_step(p, exact, size, keys_at_hand, keys_context, &out, &why);
	}
	free(exact);
	return heard(result, &out);
}

static enum scram_result prover_reads(struct scram_prover *p, const char *message)
{
	return prover_says(p, message, strlen(message));
}

static void rfc_verifier(struct scram_verifier *v, bool mock)
{
	struct scram_secret secret;

	CHECK(scram_secret_read(rfc_secret, &secret));
	scram_verifier_init(v, &secret, mock, nonce_s);
	strcpy(v->nonce, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
}

/* A prover that has sent the first message of the RFC. */
static void rfc_prover(struct scram_prover *p)
{
	scram_prover_init(p, nonce_c);
	strcpy(p->nonce, "rOprNGfwEbeRWgbNEkqO");
	knows(p, "pencil");
	CHECK_INT(prover_says(p, NULL, 0), SCRAM_CONTINUE);
	CHECK_TEXT(said, "n,,n=,r=rOprNGfwEbeRWgbNEkqO");
	/* The client of the RFC sends its user name; ours leaves the name to the start-up packet. */
	mem_free(p->client_first_bare);
	p->client_first_bare = mem_copy_string(RFC_BARE);
}

TEST(rfc_7677_verifier)
{
	struct scram_secret secret;
	uint8_t client[SCRAM_KEY], stored[SCRAM_KEY], server[SCRAM_KEY];
	struct scram_verifier v;

	rfc_verifier(&v, false);
	CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_CONTINUE);
	CHECK_TEXT(said, RFC_SERVER_FIRST);
	CHECK_INT(verifier_reads(&v, RFC_CLIENT_FINAL), SCRAM_DONE);
	CHECK_TEXT(said, RFC_SERVER_FINAL);
	REQUIRE(scram_secret_read(rfc_secret, &secret));
	REQUIRE(scram_keys_derive("pencil", secret.salt, secret.salt_size, 4096, client, stored, server));
	CHECK(memcmp(v.client_key, client, SCRAM_KEY) == 0);
	CHECK_INT(verifier_reads(&v, RFC_CLIENT_FINAL), SCRAM_INVALID);
	scram_verifier_clear(&v);
}

TEST(verifier_with_a_second_secret)
{
	struct scram_verifier v;

	for (int mock = 0; mock < 2; mock++) {
		rfc_verifier(&v, mock);
		v.other = mem_must(sizeof(*v.other));
		*v.other = v.secret;
		v.secret.stored_key[0] ^= 1;
		v.secret.server_key[0] ^= 1;
		CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_CONTINUE);
		CHECK_INT(verifier_reads(&v, RFC_CLIENT_FINAL), mock ? SCRAM_WRONG : SCRAM_DONE);
		if (!mock)
			CHECK_TEXT(said, RFC_SERVER_FINAL);
		CHECK(v.is_other);
		scram_verifier_clear(&v);
	}
	/* neither */
	rfc_verifier(&v, false);
	v.secret.stored_key[0] ^= 1;
	v.other = mem_must(sizeof(*v.other));
	*v.other = v.secret;
	CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_CONTINUE);
	CHECK_INT(verifier_reads(&v, RFC_CLIENT_FINAL), SCRAM_WRONG);
	CHECK(!v.is_other);
	scram_verifier_clear(&v);
}

TEST(rfc_7677_prover)
{
	struct scram_prover p;

	rfc_prover(&p);
	CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_CONTINUE);
	CHECK_TEXT(said, RFC_CLIENT_FINAL);
	CHECK_INT(p.iterations, 4096);
	CHECK_INT(p.salt_size, 16);
	CHECK_INT(prover_reads(&p, RFC_SERVER_FINAL), SCRAM_DONE);
	CHECK_TEXT(said, "");
	CHECK_INT(prover_reads(&p, RFC_SERVER_FINAL), SCRAM_INVALID);
	scram_prover_clear(&p);
}

TEST(mock_exchange_looks_alike_and_never_succeeds)
{
	static const uint8_t zeros[SCRAM_KEY];
	struct scram_verifier v;

	rfc_verifier(&v, true);
	CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_CONTINUE);
	CHECK_TEXT(said, RFC_SERVER_FIRST);
	CHECK_INT(verifier_reads(&v, RFC_CLIENT_FINAL), SCRAM_WRONG);
	CHECK(memcmp(v.client_key, zeros, SCRAM_KEY) == 0);
	scram_verifier_clear(&v);
}

TEST(missing_initial_response_is_requested)
{
	struct bytes out = BYTES_EMPTY;
	struct scram_verifier v;

	rfc_verifier(&v, false);
	CHECK_INT(scram_verifier_step(&v, NULL, 0, &out, &why), SCRAM_CONTINUE);
	CHECK_INT(bytes_size(&out), 0);
	CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_CONTINUE);
	CHECK_TEXT(said, RFC_SERVER_FIRST);
	scram_verifier_clear(&v);
}

/* The result of a client-first message to a new verifier. */
static enum scram_result first(const char *message)
{
	enum scram_result result;
	struct scram_verifier v;
	const char *reason;

	rfc_verifier(&v, false);
	result = verifier_reads(&v, message);
	reason = why;
	if (result != SCRAM_CONTINUE)
		CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_INVALID);
	why = reason;
	scram_verifier_clear(&v);
	return result;
}

TEST(client_first_messages)
{
	CHECK_INT(first("n,,n=,r=abc"), SCRAM_CONTINUE);
	CHECK_INT(first("y,,n=,r=abc"), SCRAM_CONTINUE);
	CHECK_INT(first("n,,n=us=2Cer,r=abc,x=1,Y=2"), SCRAM_CONTINUE);
	CHECK_INT(first("p=tls-server-end-point,,n=,r=abc"), SCRAM_INVALID);
	CHECK(why && strncmp(why, "client selected SCRAM-SHA-256 without channel binding", 53) == 0);
	CHECK_INT(first("n,a=root,n=,r=abc"), SCRAM_INVALID);
	CHECK_INT(first("n,,m=1,n=,r=abc"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,m=1,r=abc"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=abc,m=1"), SCRAM_INVALID);
	CHECK_INT(first(""), SCRAM_INVALID);
	CHECK_INT(first("n"), SCRAM_INVALID);
	CHECK_INT(first("n,"), SCRAM_INVALID);
	CHECK_INT(first("n,,"), SCRAM_INVALID);
	CHECK_INT(first("x,,n=,r=abc"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r="), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=a\x7f"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=a b"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=\xC3\xA9"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=abc,"), SCRAM_INVALID);
	CHECK_INT(first("n,,r=abc,n="), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=abc,1=2"), SCRAM_INVALID);
	CHECK_INT(first("n,,n=,r=abc,x"), SCRAM_INVALID);
}

TEST(lengths_of_client_first)
{
	static char message[10240];
	/* The verifier of the RFC adds 30 characters and a NUL. */
	size_t longest = SCRAM_NONCE_TEXT - 31;

	strcpy(message, "n,,n=,r=");
	memset(message + 8, 'x', longest);
	CHECK_INT(first(message), SCRAM_CONTINUE);
	message[8 + longest] = 'x';
	CHECK_INT(first(message), SCRAM_INVALID);
	memset(message + 8, 'x', sizeof(message) - 9);
	CHECK_INT(first(message), SCRAM_INVALID);
	/* A long name is valid up to the message limit. */
	snprintf(message, sizeof(message), "n,,n=%*s,r=abc", SCRAM_MESSAGE_MAX - 11, "x");
	CHECK_INT(strlen(message), SCRAM_MESSAGE_MAX);
	CHECK_INT(first(message), SCRAM_CONTINUE);
	snprintf(message, sizeof(message), "n,,n=%*s,r=abc", SCRAM_MESSAGE_MAX - 10, "x");
	CHECK_INT(first(message), SCRAM_INVALID);
}

/* The result of a client-final message to a verifier after a client-first message. */
static enum scram_result final(const char *first_message, const char *message, size_t size)
{
	enum scram_result result;
	struct scram_verifier v;

	rfc_verifier(&v, false);
	CHECK_INT(verifier_reads(&v, first_message), SCRAM_CONTINUE);
	result = verifier_says(&v, message, size);
	scram_verifier_clear(&v);
	return result;
}

static enum scram_result rfc_final(const char *message)
{
	return final("n,," RFC_BARE, message, strlen(message));
}

TEST(client_final_messages)
{
	static const char with_nul[] = RFC_CLIENT_FINAL "\0";

	CHECK_INT(rfc_final("c=eSws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), SCRAM_INVALID);
	CHECK_TEXT(why, "unexpected SCRAM channel-binding attribute in client-final-message");
	CHECK_INT(final("y,," RFC_BARE, RFC_CLIENT_FINAL, strlen(RFC_CLIENT_FINAL)), SCRAM_INVALID);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE "x,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), SCRAM_INVALID);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVR="), SCRAM_INVALID);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE ",p=eHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), SCRAM_WRONG);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE ",p="), SCRAM_INVALID);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE ",p=AAAA"), SCRAM_INVALID);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE ",m=1,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), SCRAM_INVALID);
	/* The signature covers an extension, so this proof is invalid. */
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE ",x=1,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), SCRAM_WRONG);
	CHECK_INT(rfc_final("c=biws,r=" RFC_NONCE), SCRAM_INVALID);
	CHECK_INT(rfc_final(RFC_CLIENT_FINAL ",x=1"), SCRAM_INVALID);
	CHECK_INT(rfc_final(RFC_CLIENT_FINAL ","), SCRAM_INVALID);
	CHECK_INT(rfc_final("r=" RFC_NONCE ",c=biws,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), SCRAM_INVALID);
	CHECK_INT(final("n,," RFC_BARE, with_nul, sizeof(with_nul) - 1), SCRAM_INVALID);
}

/* The result of a server-first message to a prover of the RFC. */
static enum scram_result server_first(const char *message)
{
	enum scram_result result;
	struct scram_prover p;

	rfc_prover(&p);
	result = prover_reads(&p, message);
	scram_prover_clear(&p);
	return result;
}

#define SALT ",s=W22ZaJ0SNY7soEsUEjb6gQ=="

TEST(server_first_messages)
{
	char longest[256] = "r=" RFC_NONCE ",s=";

	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=1,x=2"), SCRAM_CONTINUE);
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=0"), SCRAM_INVALID);
	CHECK_TEXT(why, "malformed SCRAM message (invalid iteration count)");
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=-1"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i="), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=1x"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=1000001"), SCRAM_INVALID);
	CHECK_TEXT(why, "SCRAM iteration count of the server is too high");
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=4294967297"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=18446744073709551617"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE ",s=,i=1"), SCRAM_INVALID);
	CHECK_TEXT(why, "malformed SCRAM message (invalid salt)");
	CHECK_INT(server_first("r=" RFC_NONCE ",s=!!!!,i=1"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE ",s=W22,i=1"), SCRAM_INVALID);
	CHECK_INT(server_first("m=1,r=" RFC_NONCE SALT ",i=1"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE SALT ",i=1,m=1"), SCRAM_INVALID);
	CHECK_INT(server_first("r=rOprNGfwEbeRWgbNEkqO" SALT ",i=1"), SCRAM_INVALID);
	CHECK_TEXT(why, "invalid SCRAM response (nonce mismatch)");
	CHECK_INT(server_first("r=" SALT ",i=1"), SCRAM_INVALID);
	CHECK_INT(server_first("r=rOprNGfwEbeRWgbNEkqP123" SALT ",i=1"), SCRAM_INVALID);
	CHECK_INT(server_first("r=" RFC_NONCE "\n" SALT ",i=1"), SCRAM_INVALID);
	CHECK_INT(server_first("e=other-error"), SCRAM_INVALID);
	CHECK_INT(server_first(""), SCRAM_INVALID);
	CHECK_INT(server_first(","), SCRAM_INVALID);
	/* 64 bytes of salt, then 67. */
	memset(longest + strlen(longest), 'A', 85);
	strcat(longest, "A==,i=1");
	CHECK_INT(server_first(longest), SCRAM_CONTINUE);
	strcpy(strstr(longest, "A==,"), "AAAAAA,i=1");
	CHECK_INT(server_first(longest), SCRAM_INVALID);
}

TEST(huge_server_nonce)
{
	static char message[10240];
	size_t room = SCRAM_MESSAGE_MAX - strlen(SALT ",i=1");

	memset(message, 'x', sizeof(message) - 1);
	memcpy(message, "r=rOprNGfwEbeRWgbNEkqO", 22);
	CHECK_INT(server_first(message), SCRAM_INVALID);
	strcpy(message + room, SALT ",i=1");
	CHECK_INT(server_first(message), SCRAM_CONTINUE);
	strcpy(message + room, "x" SALT ",i=1");
	CHECK_INT(server_first(message), SCRAM_INVALID);
}

TEST(server_final_messages)
{
	static const struct { const char *message; enum scram_result result; } rows[] = {
		{ RFC_SERVER_FINAL, SCRAM_DONE },
		{ RFC_SERVER_FINAL ",x=1", SCRAM_DONE },
		{ RFC_SERVER_FINAL ",m=1", SCRAM_INVALID },
		{ RFC_SERVER_FINAL "x", SCRAM_INVALID },
		{ "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", SCRAM_WRONG },
		{ "v=", SCRAM_INVALID },
		{ "v=AAAA", SCRAM_INVALID },
		{ "e=invalid-proof", SCRAM_WRONG },
		{ "x=1," RFC_SERVER_FINAL, SCRAM_INVALID },
		{ "", SCRAM_INVALID },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scram_prover p;

		rfc_prover(&p);
		CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_CONTINUE);
		CHECK_INT(prover_reads(&p, rows[i].message), rows[i].result);
		scram_prover_clear(&p);
	}
}

/* One exchange in which message `which` (0..3) is damaged: bit `bit` of byte `at` is inverted, or the message is truncated before `at`. */
struct spoiling {
	int which;
	size_t at;
	int bit;		/* -1: truncated */
};

static struct scram_secret quick;	/* one iteration */
static char flag = 'n';			/* the client's channel binding flag: n, y, or p for PLUS */
static const struct scram_binding channel = { 32, "the certificate of this server." };
static size_t lengths[4];		/* of the messages of the last exchange */

static void spoil(const struct spoiling *s, int which, char *message, size_t *size)
{
	lengths[which] = *size = strlen(said);
	memcpy(message, said, *size);
	if (s->which != which)
		return;
	if (s->bit < 0)
		*size = s->at;
	else
		message[s->at] ^= (char)(1 << s->bit);
}

/* Returns true if both sides completed the exchange. */
static bool talk(struct scram_prover *p, struct scram_verifier *v, const struct spoiling *s)
{
	char message[4096];
	size_t size;

	if (prover_says(p, NULL, 0) != SCRAM_CONTINUE)
		return false;
	spoil(s, 0, message, &size);
	if (verifier_says(v, message, size) != SCRAM_CONTINUE)
		return false;
	spoil(s, 1, message, &size);
	if (prover_says(p, message, size) != SCRAM_CONTINUE)
		return false;
	spoil(s, 2, message, &size);
	if (verifier_says(v, message, size) != SCRAM_DONE)
		return false;
	spoil(s, 3, message, &size);
	return prover_says(p, message, size) == SCRAM_DONE;
}

static bool exchange(const struct spoiling *s)
{
	static const uint8_t salt[16] = "sixteen bytes..";
	struct scram_verifier v;
	struct scram_prover p;
	bool done;

	CHECK(scram_secret_derive("s\xC3\xA9same", salt, sizeof(salt), 1, &quick));
	scram_verifier_init(&v, &quick, false, nonce_s);
	scram_prover_init(&p, nonce_c);
	knows(&p, "s\xC3\xA9same");
	p.gs2 = flag;
	if (flag == 'p') {
		p.binding = v.binding = channel;
		v.plus = true;
	}
	done = talk(&p, &v, s);
	scram_verifier_clear(&v);
	scram_prover_clear(&p);
	return done;
}

TEST(both_sides_agree)
{
	for (const char *flags = "nyp"; *flags; flags++) {
		flag = *flags;
		CHECK(exchange(&(struct spoiling){ -1, 0, 0 }));
	}
	flag = 'n';
}

static void spoil_every_message(void)
{
	size_t whole[4];

	REQUIRE(exchange(&(struct spoiling){ -1, 0, 0 }));
	memcpy(whole, lengths, sizeof(whole));
	for (int which = 0; which < 4; which++) {
		for (size_t at = 0; at < whole[which]; at++) {
			for (int bit = -1; bit < 8; bit++) {
				struct spoiling s = { which, at, bit };

				if (exchange(&s))
					UNIT_FAIL("flag %c, message %d, byte %zu, bit %d", flag, which, at, bit);
			}
		}
	}
}

TEST(every_damaged_message_is_refused)
{
	for (const char *flags = "nyp"; *flags; flags++) {
		flag = *flags;
		spoil_every_message();
	}
	flag = 'n';
}

/* ---- channel binding ---- */

/* The result of a client-first message if PLUS was offered and chosen. */
static enum scram_result bound_first(bool offered, bool chosen, const char *message)
{
	enum scram_result result;
	struct scram_verifier v;

	rfc_verifier(&v, false);
	if (offered)
		v.binding = channel;
	v.plus = chosen;
	result = verifier_reads(&v, message);
	scram_verifier_clear(&v);
	return result;
}

TEST(flag_fits_the_mechanism)
{
	CHECK_INT(bound_first(true, true, "p=tls-server-end-point,,n=,r=abc"), SCRAM_CONTINUE);
	CHECK_INT(bound_first(true, true, "n,,n=,r=abc"), SCRAM_INVALID);
	CHECK(why && strstr(why, "does not include channel binding data"));
	CHECK_INT(bound_first(true, true, "y,,n=,r=abc"), SCRAM_INVALID);
	CHECK_INT(bound_first(true, false, "p=tls-server-end-point,,n=,r=abc"), SCRAM_INVALID);
	CHECK(why && strstr(why, "without channel binding"));
	CHECK_INT(bound_first(true, false, "n,,n=,r=abc"), SCRAM_CONTINUE);
	CHECK_INT(bound_first(false, false, "y,,n=,r=abc"), SCRAM_CONTINUE);
	/* PLUS was offered: an attacker has changed the list */
	CHECK_INT(bound_first(true, false, "y,,n=,r=abc"), SCRAM_UNBOUND);
	CHECK(why && strstr(why, "thinks the server does not"));
}

TEST(malformed_gs2_headers)
{
	static const char *const rows[] = {
		"p", "p=", "p=,", "p=,,", "p=,,n=,r=abc", "p,,n=,r=abc", "p=tls-server-end-point", "p=tls-server-end-point,",
		"p=tls-server-end-point,,", "p=tls-server-end-point,n=,r=abc", "p=tls-server-end-point,a=root,n=,r=abc",
		"p=tls-server-end-point,,m=1,n=,r=abc", "p=tls-server-end-point ,,n=,r=abc", "p=tls-unique,,n=,r=abc",
		"p=TLS-SERVER-END-POINT,,n=,r=abc", "p=tls-server-end-poin,,n=,r=abc", "P=tls-server-end-point,,n=,r=abc",
		"q=tls-server-end-point,,n=,r=abc", ",,n=,r=abc", "p=tls-server-end-point,,r=abc",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (bound_first(true, true, rows[i]) != SCRAM_INVALID)
			UNIT_FAIL("accepted: %s", rows[i]);
	CHECK_INT(bound_first(true, true, "p=tls-unique,,n=,r=abc"), SCRAM_INVALID);
	CHECK_TEXT(why, "unsupported SCRAM channel-binding type");
	CHECK_INT(bound_first(true, true, "p=tls-server-end-point,a=root,n=,r=abc"), SCRAM_INVALID);
	CHECK_TEXT(why, "client uses authorization identity, but it is not supported");
}

/* An attacker between a client and this verifier, with another certificate: the client binds to `seen`. */
static enum scram_result through_another_channel(const struct scram_binding *seen)
{
	enum scram_result result;
	struct scram_verifier v;
	struct scram_prover p;
	char message[4096];

	scram_verifier_init(&v, &quick, false, nonce_s);
	scram_prover_init(&p, nonce_c);
	knows(&p, "s\xC3\xA9same");
	p.gs2 = 'p';
	p.binding = *seen;
	v.binding = channel;
	v.plus = true;
	prover_says(&p, NULL, 0);
	strcpy(message, said);
	verifier_reads(&v, message);
	strcpy(message, said);
	CHECK_INT(prover_reads(&p, message), SCRAM_CONTINUE);
	strcpy(message, said);
	result = verifier_reads(&v, message);
	scram_verifier_clear(&v);
	scram_prover_clear(&p);
	return result;
}

TEST(channel_binding_detects_another_certificate)
{
	struct scram_binding other = channel;

	REQUIRE(exchange(&(struct spoiling){ -1, 0, 0 }));
	CHECK_INT(through_another_channel(&other), SCRAM_DONE);
	for (size_t i = 0; i < other.size; i++) {
		other.data[i] ^= 1;
		CHECK_INT(through_another_channel(&other), SCRAM_UNBOUND);
		CHECK_TEXT(why, "SCRAM channel binding check failed");
		other.data[i] ^= 1;
	}
	other.size--;
	CHECK_INT(through_another_channel(&other), SCRAM_UNBOUND);
	other.size = SCRAM_BINDING_MAX;
	CHECK_INT(through_another_channel(&other), SCRAM_UNBOUND);
	other.size = 0;
	CHECK_INT(through_another_channel(&other), SCRAM_UNBOUND);
}

TEST(wrong_password_is_refused)
{
	struct scram_verifier v;
	struct scram_prover p;

	REQUIRE(exchange(&(struct spoiling){ -1, 0, 0 }));
	scram_verifier_init(&v, &quick, false, nonce_s);
	scram_prover_init(&p, nonce_c);
	knows(&p, "sesame");
	CHECK(!talk(&p, &v, &(struct spoiling){ -1, 0, 0 }));
	CHECK_TEXT(why, "the proof does not match");
	scram_verifier_clear(&v);
	scram_prover_clear(&p);
}

TEST(keys_recovered_from_a_login_are_valid)
{
	const struct spoiling nothing = { -1, 0, 0 };
	struct scram_verifier v, at_server;
	struct scram_prover p, next;

	REQUIRE(exchange(&nothing));
	scram_verifier_init(&v, &quick, false, nonce_s);
	scram_prover_init(&p, nonce_c);
	knows(&p, "s\xC3\xA9same");
	REQUIRE(talk(&p, &v, &nothing));

	scram_verifier_init(&at_server, &quick, false, nonce_c);
	scram_prover_init(&next, nonce_s);
	next.have_keys = true;
	memcpy(next.client_key, v.client_key, SCRAM_KEY);
	memcpy(next.server_key, v.secret.server_key, SCRAM_KEY);
	CHECK(talk(&next, &at_server, &nothing));
	scram_verifier_clear(&at_server);
	scram_prover_clear(&next);
	scram_verifier_clear(&v);
	scram_prover_clear(&p);
}

struct kept {
	uint8_t salt[16], client_key[SCRAM_KEY], server_key[SCRAM_KEY];
	uint32_t iterations;
	int asked, hits;
};

static bool kept_keys(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		      uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	struct kept *kept = context;

	kept->asked++;
	if (salt_size != 16 || iterations != kept->iterations || memcmp(salt, kept->salt, 16) != 0)
		return false;
	kept->hits++;
	memcpy(client_key, kept->client_key, SCRAM_KEY);
	memcpy(server_key, kept->server_key, SCRAM_KEY);
	return true;
}

TEST(derived_keys_can_be_cached)
{
	struct kept kept = { .iterations = 0 };

	keys_at_hand = kept_keys;
	keys_context = &kept;
	for (int round = 0; round < 2; round++) {
		struct scram_prover p;

		rfc_prover(&p);
		/* The second time the password is wrong, so only the cached keys can succeed. */
		if (round == 1)
			knows(&p, "crayon");
		CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_CONTINUE);
		CHECK_TEXT(said, RFC_CLIENT_FINAL);
		CHECK_INT(prover_reads(&p, RFC_SERVER_FINAL), SCRAM_DONE);
		CHECK_INT(p.salt_size, 16);
		memcpy(kept.salt, p.salt, 16);
		kept.iterations = p.iterations;
		memcpy(kept.client_key, p.client_key, SCRAM_KEY);
		memcpy(kept.server_key, p.server_key, SCRAM_KEY);
		CHECK_INT(kept.asked, round + 1);
		CHECK_INT(kept.hits, round);
		scram_prover_clear(&p);
	}
	keys_at_hand = NULL;
	keys_context = NULL;
}

TEST(keys_are_not_derived_by_the_prover)
{
	struct scram_prover p;
	struct bytes out = BYTES_EMPTY;

	rfc_prover(&p);
	for (int round = 0; round < 2; round++) {
		CHECK_INT(scram_prover_step(&p, RFC_SERVER_FIRST, strlen(RFC_SERVER_FIRST), NULL, NULL, &out, &why), SCRAM_PENDING);
		CHECK_INT(bytes_size(&out), 0);
		CHECK_INT(p.salt_size, 16);
		CHECK_INT(p.iterations, 4096);
	}
	CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_CONTINUE);
	CHECK_TEXT(said, RFC_CLIENT_FINAL);
	scram_prover_clear(&p);
}

TEST(cached_keys_are_sufficient)
{
	struct kept kept = { .iterations = 0 };
	struct scram_prover p;

	rfc_prover(&p);
	CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_CONTINUE);
	memcpy(kept.salt, p.salt, 16);
	memcpy(kept.client_key, p.client_key, SCRAM_KEY);
	memcpy(kept.server_key, p.server_key, SCRAM_KEY);
	kept.iterations = p.iterations;
	scram_prover_clear(&p);

	scram_prover_init(&p, nonce_c);
	CHECK_INT(prover_says(&p, NULL, 0), SCRAM_CONTINUE);
	scram_prover_clear(&p);
	keys_at_hand = kept_keys;
	keys_context = &kept;
	rfc_prover(&p);
	knows(&p, NULL);
	CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_CONTINUE);
	CHECK_TEXT(said, RFC_CLIENT_FINAL);
	scram_prover_clear(&p);

	/* keys for a salt other than the server's */
	kept.salt[0] ^= 1;
	rfc_prover(&p);
	knows(&p, NULL);
	CHECK_INT(prover_reads(&p, RFC_SERVER_FIRST), SCRAM_NO_KEYS);
	CHECK(strstr(why, "no keys are known"));
	scram_prover_clear(&p);
	keys_at_hand = NULL;
	keys_context = NULL;
}

TEST(clear_wipes_secrets)
{
	static const uint8_t zeros[SCRAM_KEY];
	struct scram_verifier v;

	rfc_verifier(&v, false);
	CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_CONTINUE);
	CHECK_INT(verifier_reads(&v, RFC_CLIENT_FINAL), SCRAM_DONE);
	scram_verifier_clear(&v);
	CHECK(memcmp(v.client_key, zeros, SCRAM_KEY) == 0);
	CHECK(memcmp(v.secret.stored_key, zeros, SCRAM_KEY) == 0);
	CHECK_INT(verifier_reads(&v, "n,," RFC_BARE), SCRAM_INVALID);
	scram_verifier_clear(&v);
}

UNIT_MAIN
