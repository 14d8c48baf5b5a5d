/*
 * SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: RFC 5802 with the hash of RFC 7677, as PostgreSQL
 * implements them ("SASL Authentication").
 *
 *	client-first:	n,,n=,r=<client nonce>			n: no channel binding; y: the server
 *								offers none; p=tls-server-end-point:
 *								SCRAM-SHA-256-PLUS
 *	server-first:	r=<client nonce><server nonce>,s=<salt>,i=<iterations>
 *	client-final:	c=<binding>,r=<both nonces>,p=<proof>
 *	server-final:	v=<signature>
 *
 *	binding         = base64 of "n,,", of "y,,", or of "p=tls-server-end-point,," and the
 *			channel binding data
 *	AuthMessage     = client-first without its first two fields "," server-first ","
 *			client-final without ",p=..."
 *	proof           = ClientKey XOR HMAC(StoredKey, AuthMessage)
 *	signature       = HMAC(ServerKey, AuthMessage)
 *
 * The verifier has StoredKey: the XOR of proof and HMAC is ClientKey if its hash is StoredKey.
 * ClientKey suffices for a login at each server with the same secret, so pgweir can log in at
 * PostgreSQL for a client without knowing the password.
 *
 * The prover has ClientKey and ServerKey; the caller derives them from a password, which takes
 * long, or has them from a client. The server proves that it knows the secret, too.
 *
 * As in PostgreSQL, the user name is the name in the start-up message, and the name in the exchange
 * is ignored. An authorization identity and mandatory extensions ("m=") are refused, other
 * extensions are skipped. AuthMessage protects all messages of the exchange, but not the list of
 * mechanisms before it. For that list there is the flag y: a client says y if it supports channel
 * binding and has not seen an offer. If the verifier has offered it, an attacker has changed the
 * list, and the client is refused.
 *
 * Base64 is strict: RFC 4648 section 3.5 permits a decoder to refuse encodings with unused bits
 * set, so that a value has exactly one encoding, and no two different SCRAM messages carry the same
 * proof. OpenSSL's decoder skips blanks, and does not return the number of bytes before the
 * padding.
 *
 * The keys of a secret are
 *
 *	SaltedPassword = PBKDF2-HMAC-SHA-256(SASLprep(password), salt, iterations)
 *	ClientKey      = HMAC(SaltedPassword, "Client Key")
 *	StoredKey      = SHA-256(ClientKey)
 *	ServerKey      = HMAC(SaltedPassword, "Server Key")
 *
 * Passwords and keys on the stack are wiped before each return.
 *
 * Invariant: after any result but SCRAM_CONTINUE and SCRAM_PENDING the exchange is in STEP_OVER and
 * stays there. A message has at most SCRAM_MESSAGE_MAX bytes, and each value is a slice of the
 * message until it has been checked.
 */
#include "pg/scram.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include <idn-free.h>
#include <openssl/evp.h>
#include <stringprep.h>

#define SERVER_FIRST_MAX (SCRAM_NONCE_TEXT + BASE64_SIZE(SCRAM_SALT_MAX) + 24)
#define GS2_PLUS "p=tls-server-end-point,,"
#define GS2_MAX (sizeof(GS2_PLUS) - 1)
#define BINDING_TEXT (BASE64_SIZE(GS2_MAX + SCRAM_BINDING_MAX) + 1)

enum { STEP_FIRST, STEP_FINAL, STEP_SIGNATURE, STEP_OVER };

static const char malformed[] = "malformed SCRAM message", scram_no_memory[] = "out of memory";

struct slice {
	const char *at;
	size_t size;
};

/* The rest of a message. */
struct scan {
	const char *at, *end;
};

/* ---- base64 ---- */

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes BASE64_SIZE(size) characters and a NUL. */
static void base64_encode(char *to, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	for (; size >= 3; size -= 3, from += 3) {
		*to++ = base64_digits[from[0] >> 2];
		*to++ = base64_digits[((unsigned)from[0] << 4 | from[1] >> 4) & 63];
		*to++ = base64_digits[((unsigned)from[1] << 2 | from[2] >> 6) & 63];
		*to++ = base64_digits[from[2] & 63];
	}
	if (size > 0) {
		unsigned second = size == 2 ? from[1] : 0;

		*to++ = base64_digits[from[0] >> 2];
		*to++ = base64_digits[((unsigned)from[0] << 4 | second >> 4) & 63];
		*to++ = size == 2 ? base64_digits[second << 2 & 63] : '=';
		*to++ = '=';
	}
	*to = '\0';
}

bool base64_decode(void *to, size_t size, size_t *got, const char *text, size_t length)
{
	uint8_t *out = to;
	size_t padding = 0, done = 0;
	uint32_t bits = 0;

	if (length % 4 != 0)
		return false;
	while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < length - padding; i++) {
		char c = text[i];
		int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
			    : c >= 'a' && c <= 'z' ? c - 'a' + 26
			    : c >= '0' && c <= '9' ? c - '0' + 52
			    : c == '+'		   ? 62
			    : c == '/'		   ? 63
						   : -1;

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		/* of four base64_digits, the second, third and fourth each complete a byte */
		if (i % 4 == 0)
			continue;
		if (done == size)
			return false;
		out[done++] = (uint8_t)(bits >> (6 - i % 4 * 2));
	}
	if ((padding == 1 && (bits & 3)) || (padding == 2 && (bits & 15)))
		return false;
	*got = done;
	return true;
}

/* ---- SASLprep ---- */

/*
 * SASLprep (RFC 4013), a profile of stringprep (RFC 3454), maps passwords that look equal to the
 * same bytes. The result must be the same in PostgreSQL and in libpq, so these steps follow
 * PostgreSQL:
 *
 *  - A password of ASCII is used unchanged, control characters included.
 *  - Blanks that are not ASCII become a space; characters that are "commonly mapped to nothing" are
 *    removed.
 *  - Then a search for prohibited characters, for characters that Unicode 3.2 had not assigned, and
 *    for text of mixed directions. (The RFC searches after the normalisation. The order matters for
 *    a few characters such as U+0340, which is prohibited, but is normalised to a permitted one.)
 *  - Then normalisation form KC.
 *  - If a step refuses the password, if nothing is left, or if the bytes are not UTF-8, the
 *    password is used unprepared: a role may have been given such a password in another encoding.
 *
 * The tables are in GNU libidn. Its profile of RFC 4013 includes the normalisation as a step, which
 * is removed here and done afterwards.
 *
 * libidn sorts combining characters by swapping neighbours, which takes quadratic time: a password
 * of 100 kB would stop the event loop for half a second. Longer passwords are used unprepared.
 */
#define PREPARED_MAX 4096
#define PROFILE_STEPS 32

/* Returns the prepared password; NULL: unprepared. */
static struct secret *scram_prepare(const char *password, size_t length)
{
	Stringprep_profile profile[PROFILE_STEPS];
	/* the mapping replaces or removes characters, and never makes the text longer */
	struct secret *mapped = secret_new(password, length), *prepared = NULL;
	char *normal = NULL;
	size_t count = 0;

	for (const Stringprep_profile *step = stringprep_saslprep; step->operation; step++) {
		if (step->operation == STRINGPREP_NFKC)
			continue;
		if (count == PROFILE_STEPS - 1)
			goto out;
		profile[count++] = *step;
	}
	memset(&profile[count], 0, sizeof(profile[count]));
	if (!mapped || stringprep(mapped->bytes, length + 1, STRINGPREP_NO_UNASSIGNED, profile) !=
			       STRINGPREP_OK)
		goto out;
	if (mapped->bytes[0] == '\0')
		goto out;
	normal = stringprep_utf8_nfkc_normalize(mapped->bytes, -1);
	if (!normal)
		goto out;
	prepared = secret_new(normal, strlen(normal));
	mem_wipe(normal, strlen(normal));
out:
	idn_free(normal);
	secret_free(&mapped);
	return prepared;
}

/* ---- secrets ---- */

/* Reads all `length` characters, which must be digits, as a count of 1 to 2^31-1. */
static bool scram_iterations_read(const char *digits, size_t length, uint32_t *out)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(digits[i] - '0');
		if (value > INT32_MAX)
			return false;
	}
	*out = (uint32_t)value;
	return value > 0;
}

static bool read_key(const char *from, const char *end, uint8_t key[SCRAM_KEY])
{
	size_t got;

	return base64_decode(key, SCRAM_KEY, &got, from, (size_t)(end - from)) && got == SCRAM_KEY;
}

bool scram_secret_read(const char *text, struct scram_secret *out)
{
	const char *count, *salt, *stored, *server;

	memset(out, 0, sizeof(*out));
	if (!text_starts(text, SCRAM_PREFIX))
		return false;
	count = text + strlen(SCRAM_PREFIX);
	salt = strchr(count, ':');
	stored = salt ? strchr(salt, '$') : NULL;
	server = stored ? strchr(stored, ':') : NULL;
	return server && scram_iterations_read(count, (size_t)(salt - count), &out->iterations) &&
	       base64_decode(out->salt, sizeof(out->salt), &out->salt_size, salt + 1,
			     (size_t)(stored - salt - 1)) &&
	       out->salt_size > 0 && read_key(stored + 1, server, out->stored_key) &&
	       read_key(server + 1, server + strlen(server), out->server_key);
}

bool scram_secret_write(const struct scram_secret *secret, char *to, size_t size)
{
	char salt[BASE64_SIZE(SCRAM_SALT_MAX) + 1], stored[BASE64_SIZE(SCRAM_KEY) + 1],
		server[sizeof(stored)];
	int length;

	base64_encode(salt, secret->salt, secret->salt_size);
	base64_encode(stored, secret->stored_key, SCRAM_KEY);
	base64_encode(server, secret->server_key, SCRAM_KEY);
	length = snprintf(to, size, SCRAM_PREFIX "%u:%s$%s:%s", (unsigned)secret->iterations, salt,
			  stored, server);
	mem_wipe(stored, sizeof(stored));
	mem_wipe(server, sizeof(server));
	return length > 0 && (size_t)length < size;
}

bool scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size,
			 uint32_t iterations, uint8_t salted[SCRAM_KEY])
{
	size_t length = strlen(password);
	struct secret *prepared = NULL;
	bool is_ascii = true, ok;

	if (salt_size < 1 || salt_size > SCRAM_SALT_MAX || iterations < 1 ||
	    iterations > SCRAM_ITERATIONS_MAX)
		return false;
	for (const char *at = password; *at && is_ascii; at++)
		is_ascii = (unsigned char)*at < 0x80;
	if (length <= PREPARED_MAX && !is_ascii)
		prepared = scram_prepare(password, length);
	if (!prepared)
		prepared = secret_new(password, length);
	ok = prepared && prepared->length <= INT32_MAX &&
	     PKCS5_PBKDF2_HMAC(prepared->bytes, (int)prepared->length, salt, (int)salt_size,
			       (int)iterations, EVP_sha256(), SCRAM_KEY, salted) == 1;
	secret_free(&prepared);
	return ok;
}

bool scram_keys_of_salted(const uint8_t salted[SCRAM_KEY], uint8_t client_key[SCRAM_KEY],
			  uint8_t stored_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	static const char client[] = "Client Key", server[] = "Server Key";
	bool ok = digest_hmac_sha256(salted, SCRAM_KEY, client, strlen(client), client_key) &&
		  digest_sha256(client_key, SCRAM_KEY, stored_key) &&
		  digest_hmac_sha256(salted, SCRAM_KEY, server, strlen(server), server_key);

	if (!ok) {
		mem_wipe(client_key, SCRAM_KEY);
		mem_wipe(stored_key, SCRAM_KEY);
		mem_wipe(server_key, SCRAM_KEY);
	}
	return ok;
}

/* ---- messages ---- */

static enum scram_result invalid(const char **why, const char *text)
{
	*why = text;
	return SCRAM_INVALID;
}

static bool slice_is(struct slice s, const char *text)
{
	return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}

/* Takes "<letter>=<value>" and the comma after it. False: there is none, or nothing follows the
   comma. */
static bool take_any(struct scan *s, char *name, struct slice *value)
{
	const char *p = s->at;

	if (s->end - p < 2 || p[1] != '=')
		return false;
	if ((*p < 'A' || *p > 'Z') && (*p < 'a' || *p > 'z'))
		return false;
	*name = *p;
	value->at = p + 2;
	for (p = value->at; p < s->end && *p != ','; p++)
		;
	value->size = (size_t)(p - value->at);
	if (p < s->end && ++p == s->end)
		return false;
	s->at = p;
	return true;
}

static bool scram_take(struct scan *s, char name, struct slice *value)
{
	char found;

	return take_any(s, &found, value) && found == name;
}

/* Skips optional extensions up to the end. False: a mandatory extension, or something else. */
static bool skip_extensions(struct scan *s)
{
	struct slice value;
	char name;

	while (s->at < s->end)
		if (!take_any(s, &name, &value) || name == 'm')
			return false;
	return true;
}

/* Whether the text is printable ASCII without a comma, and not empty (RFC 5802 section 7);
   scram_take() has removed the comma. */
static bool is_nonce(struct slice s)
{
	for (size_t i = 0; i < s.size; i++)
		if (s.at[i] < 0x21 || s.at[i] > 0x7e)
			return false;
	return s.size > 0;
}

/* Returns the error of the message as a whole, or NULL. */
static const char *scram_message_fault(const char *message, size_t size)
{
	if (size == 0)
		return "malformed SCRAM message (the message is empty)";
	if (size > SCRAM_MESSAGE_MAX)
		return "malformed SCRAM message (the message is too long)";
	if (memchr(message, '\0', size))
		return "malformed SCRAM message (message length does not match input length)";
	return NULL;
}

/* Returns AuthMessage, to be freed; NULL: no memory. */
static char *make_auth_message(const char *client_first_bare, struct slice server_first,
			       struct slice client_final)
{
	size_t a = strlen(client_first_bare), b = server_first.size;
	char *joined = mem_try(a + 1 + b + 1 + client_final.size + 1);

	if (!joined)
		return NULL;
	memcpy(joined, client_first_bare, a);
	joined[a] = ',';
	memcpy(joined + a + 1, server_first.at, b);
	joined[a + 1 + b] = ',';
	memcpy(joined + a + 1 + b + 1, client_final.at, client_final.size);
	return joined;
}

static bool sign(const uint8_t key[SCRAM_KEY], const char *auth_message,
		 uint8_t signature[SCRAM_KEY])
{
	return digest_hmac_sha256(key, SCRAM_KEY, auth_message, strlen(auth_message), signature);
}

static void xor(uint8_t to[SCRAM_KEY], const uint8_t a[SCRAM_KEY], const uint8_t b[SCRAM_KEY])
{
	for (size_t i = 0; i < SCRAM_KEY; i++)
		to[i] = a[i] ^ b[i];
}

/* The beginning of client-first. */
static const char *gs2_header(char gs2)
{
	return gs2 == 'p' ? GS2_PLUS : gs2 == 'y' ? "y,," : "n,,";
}

/* The value of c=. */
static void write_binding(char to[BINDING_TEXT], char gs2, const struct scram_binding *binding)
{
	const char *header = gs2_header(gs2);
	uint8_t input[GS2_MAX + SCRAM_BINDING_MAX];
	size_t size = strlen(header);

	memcpy(input, header, size);
	if (gs2 == 'p') {
		memcpy(input + size, binding->data, binding->size);
		size += binding->size;
	}
	base64_encode(to, input, size);
}

/* ---- the verifier ---- */

void scram_verifier_init(struct scram_verifier *v, const struct scram_secret *secret, bool mock,
			 const uint8_t nonce[SCRAM_NONCE_RAW])
{
	memset(v, 0, sizeof(*v));
	v->secret = *secret;
	v->mock = mock;
	base64_encode(v->nonce, nonce, SCRAM_NONCE_RAW);
}

/* Takes "n,,", "y,," or "p=tls-server-end-point,,". Returns the error, or NULL. */
static const char *gs2_fault(struct scram_verifier *v, struct scan *s)
{
	char flag = *s->at;
	struct slice type;

	if (flag == 'p') {
		if (!v->plus)
			return "client selected SCRAM-SHA-256 without channel binding, but the "
			       "SCRAM message includes channel binding data";
	} else if (flag != 'n' && flag != 'y') {
		return "malformed SCRAM message (unexpected channel-binding flag)";
	} else if (v->plus) {
		return "client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include "
		       "channel binding data";
	}
	v->gs2 = flag;
	if (flag == 'p') {
		if (!scram_take(s, 'p', &type))
			return malformed;
		if (!slice_is(type, "tls-server-end-point"))
			return "unsupported SCRAM channel-binding type";
	} else {
		if (s->end - s->at < 2 || s->at[1] != ',')
			return malformed;
		s->at += 2;
	}
	if (s->at < s->end && *s->at == 'a')
		return "client uses authorization identity, but it is not supported";
	if (s->at == s->end || *s->at != ',')
		return malformed;
	s->at++;
	return NULL;
}

/* Takes client-first, and appends server-first to `out`. */
static enum scram_result take_client_first(struct scram_verifier *v, struct scan s,
					   struct bytes *out, const char **why)
{
	char text[SERVER_FIRST_MAX], salt[BASE64_SIZE(SCRAM_SALT_MAX) + 1];
	const char *fault = gs2_fault(v, &s);
	size_t own = strlen(v->nonce);
	struct slice user, nonce;

	if (fault)
		return invalid(why, fault);
	if (v->gs2 == 'y' && v->binding.size > 0) {
		*why = "client supports SCRAM channel binding but thinks the server does not";
		return SCRAM_UNBOUND;
	}
	if (s.at < s.end && *s.at == 'm')
		return invalid(why, "client requires an unsupported SCRAM extension");
	v->client_first_bare = mem_try((size_t)(s.end - s.at) + 1);
	if (v->client_first_bare)
		memcpy(v->client_first_bare, s.at, (size_t)(s.end - s.at));
	if (!scram_take(&s, 'n', &user) || !scram_take(&s, 'r', &nonce) || !skip_extensions(&s))
		return invalid(why, malformed);
	if (!is_nonce(nonce))
		return invalid(why, "non-printable characters in SCRAM nonce");
	if (nonce.size + own >= sizeof(v->nonce))
		return invalid(why, "malformed SCRAM message (the nonce is too long)");
	memmove(v->nonce + nonce.size, v->nonce, own + 1);
	memcpy(v->nonce, nonce.at, nonce.size);
	base64_encode(salt, v->secret.salt, v->secret.salt_size);
	snprintf(text, sizeof(text), "r=%s,s=%s,i=%u", v->nonce, salt,
		 (unsigned)v->secret.iterations);
	v->server_first = mem_copy_string(text);
	bytes_append_text(out, text);
	if (!v->client_first_bare || !v->server_first || out->failed)
		return invalid(why, scram_no_memory);
	v->step = STEP_FINAL;
	return SCRAM_CONTINUE;
}

/* Computes ClientKey from the proof, and the signature of the verifier. *holds: the hash of
   ClientKey is StoredKey. False: no memory. */
static bool prove(const struct scram_secret *secret, const uint8_t proof[SCRAM_KEY],
		  const char *auth_message, uint8_t client_key[SCRAM_KEY],
		  uint8_t signature[SCRAM_KEY], bool *holds)
{
	uint8_t hashed[SCRAM_KEY];

	if (!sign(secret->stored_key, auth_message, signature))
		return false;
	xor(client_key, proof, signature);
	if (!digest_sha256(client_key, SCRAM_KEY, hashed) ||
	    !sign(secret->server_key, auth_message, signature))
		return false;
	*holds = mem_equal_constant_time(hashed, secret->stored_key, SCRAM_KEY);
	return true;
}

/* Compares the proof with the secrets, and appends server-final. */
static enum scram_result check_proof(struct scram_verifier *v, const uint8_t proof[SCRAM_KEY],
				     const char *auth_message, struct bytes *out, const char **why)
{
	uint8_t signature[SCRAM_KEY];
	char text[BASE64_SIZE(SCRAM_KEY) + 1];
	bool holds;

	if (!prove(&v->secret, proof, auth_message, v->client_key, signature, &holds))
		return invalid(why, scram_no_memory);
	if (!holds && v->other) {
		if (!prove(v->other, proof, auth_message, v->client_key, signature, &holds))
			return invalid(why, scram_no_memory);
		v->is_other = holds;
	}
	if (!holds || v->mock) {
		*why = "the proof does not match";
		return SCRAM_WRONG;
	}
	base64_encode(text, signature, SCRAM_KEY);
	bytes_append_text(out, "v=");
	bytes_append_text(out, text);
	return out->failed ? invalid(why, scram_no_memory) : SCRAM_DONE;
}

static enum scram_result verify_client_final(struct scram_verifier *v, struct scan s,
					     struct bytes *out, const char **why)
{
	struct slice binding, nonce, proof, signed_part = { s.at, 0 };
	uint8_t proof_bytes[SCRAM_KEY];
	char bound[BINDING_TEXT], name;
	enum scram_result result;
	char *auth_message;
	size_t got;

	/* c=...,r=...[,extensions],p=... */
	if (!scram_take(&s, 'c', &binding) || !scram_take(&s, 'r', &nonce))
		return invalid(why, malformed);
	do {
		/* without the comma before this attribute */
		signed_part.size = (size_t)(s.at - 1 - signed_part.at);
		if (!take_any(&s, &name, &proof) || name == 'm')
			return invalid(why, malformed);
	} while (name != 'p');
	if (s.at != s.end)
		return invalid(why, malformed);
	write_binding(bound, v->gs2, &v->binding);
	if (!slice_is(binding, bound)) {
		if (v->gs2 != 'p')
			return invalid(why, "unexpected SCRAM channel-binding attribute in "
					    "client-final-message");
		*why = "SCRAM channel binding check failed";
		return SCRAM_UNBOUND;
	}
	if (!slice_is(nonce, v->nonce))
		return invalid(why, "invalid SCRAM response (nonce does not match)");
	if (!base64_decode(proof_bytes, SCRAM_KEY, &got, proof.at, proof.size) || got != SCRAM_KEY)
		return invalid(why,
			       "malformed SCRAM message (malformed proof in client-final-message)");
	auth_message = make_auth_message(v->client_first_bare,
					 (struct slice){ v->server_first, strlen(v->server_first) },
					 signed_part);
	if (!auth_message)
		return invalid(why, scram_no_memory);
	result = check_proof(v, proof_bytes, auth_message, out, why);
	mem_free(auth_message);
	if (result != SCRAM_DONE)
		mem_wipe(v->client_key, SCRAM_KEY);
	return result;
}

enum scram_result scram_verifier_step(struct scram_verifier *v, const char *message, size_t size,
				      struct bytes *out, const char **why)
{
	uint8_t step = v->step;
	const char *fault;

	if (step == STEP_FIRST && !message)
		return SCRAM_CONTINUE;
	v->step = STEP_OVER;
	fault = scram_message_fault(message, size);
	if (fault)
		return invalid(why, fault);
	if (step == STEP_FIRST)
		return take_client_first(v, (struct scan){ message, message + size }, out, why);
	if (step == STEP_FINAL)
		return verify_client_final(v, (struct scan){ message, message + size }, out, why);
	return invalid(why, "unexpected SCRAM message");
}

void scram_verifier_clear(struct scram_verifier *v)
{
	mem_free(v->client_first_bare);
	mem_free(v->server_first);
	if (v->other)
		mem_wipe(v->other, sizeof(*v->other));
	mem_free(v->other);
	mem_wipe(v, sizeof(*v));
	v->step = STEP_OVER;
}

/* ---- the prover ---- */

void scram_prover_init(struct scram_prover *p, const uint8_t nonce[SCRAM_NONCE_RAW])
{
	memset(p, 0, sizeof(*p));
	p->gs2 = 'n';
	base64_encode(p->nonce, nonce, SCRAM_NONCE_RAW);
}

/* Reads server-first. Returns the error, or NULL. */
static const char *server_first_fault(struct scram_prover *p, struct scan s, struct slice *nonce)
{
	struct slice salt, iterations;
	size_t own = strlen(p->nonce);

	if (s.at < s.end && *s.at == 'm')
		return "server requires an unsupported SCRAM extension";
	if (!scram_take(&s, 'r', nonce) || !is_nonce(*nonce))
		return malformed;
	/* Without a part from the server, an old exchange could be replayed to pgweir. */
	if (nonce->size <= own || memcmp(nonce->at, p->nonce, own) != 0)
		return "invalid SCRAM response (nonce mismatch)";
	if (!scram_take(&s, 's', &salt))
		return malformed;
	if (!base64_decode(p->salt, sizeof(p->salt), &p->salt_size, salt.at, salt.size) ||
	    p->salt_size == 0)
		return "malformed SCRAM message (invalid salt)";
	if (!scram_take(&s, 'i', &iterations))
		return malformed;
	if (!scram_iterations_read(iterations.at, iterations.size, &p->iterations))
		return "malformed SCRAM message (invalid iteration count)";
	if (p->iterations > SCRAM_ITERATIONS_MAX)
		return "SCRAM iteration count of the server is too high";
	return skip_extensions(&s) ? NULL : malformed;
}

/* Takes server-first, and appends client-final. */
static enum scram_result answer_server_first(struct scram_prover *p, struct slice message,
					     scram_cached_keys *cached, void *context,
					     struct bytes *out, const char **why)
{
	char unsigned_part[SCRAM_MESSAGE_MAX + BINDING_TEXT + 16], text[BASE64_SIZE(SCRAM_KEY) + 1],
		bound[BINDING_TEXT];
	uint8_t stored_key[SCRAM_KEY], signature[SCRAM_KEY], proof[SCRAM_KEY];
	struct slice nonce;
	const char *fault = server_first_fault(
		p, (struct scan){ message.at, message.at + message.size }, &nonce);
	int length;
	bool ok;

	if (fault)
		return invalid(why, fault);
	if (!p->have_keys && !(cached && cached(context, p->salt, p->salt_size, p->iterations,
						p->client_key, p->server_key))) {
		if (!p->may_derive) {
			*why = "no keys are known for the salt that the server uses";
			return SCRAM_NO_KEYS;
		}
		p->step = STEP_FINAL;
		return SCRAM_PENDING;
	}
	write_binding(bound, p->gs2, &p->binding);
	length = snprintf(unsigned_part, sizeof(unsigned_part), "c=%s,r=%.*s", bound,
			  (int)nonce.size, nonce.at);
	p->auth_message = make_auth_message(p->client_first_bare, message,
					    (struct slice){ unsigned_part, (size_t)length });
	if (!p->auth_message)
		return invalid(why, scram_no_memory);
	ok = digest_sha256(p->client_key, SCRAM_KEY, stored_key) &&
	     sign(stored_key, p->auth_message, signature);
	if (ok) {
		xor(proof, p->client_key, signature);
		base64_encode(text, proof, SCRAM_KEY);
	}
	mem_wipe(stored_key, sizeof(stored_key));
	mem_wipe(signature, sizeof(signature));
	if (!ok)
		return invalid(why, "could not calculate client proof");
	bytes_append_text(out, unsigned_part);
	bytes_append_text(out, ",p=");
	bytes_append_text(out, text);
	if (out->failed)
		return invalid(why, scram_no_memory);
	p->step = STEP_SIGNATURE;
	return SCRAM_CONTINUE;
}

static enum scram_result check_server_final(struct scram_prover *p, struct slice message,
					    const char **why)
{
	struct scan s = { message.at, message.at + message.size };
	uint8_t want[SCRAM_KEY], have[SCRAM_KEY];
	struct slice value;
	char name;
	size_t got;

	if (!take_any(&s, &name, &value) || !skip_extensions(&s))
		return invalid(why, malformed);
	if (name == 'e') {
		*why = "error received from server in SCRAM exchange";
		return SCRAM_WRONG;
	}
	if (name != 'v')
		return invalid(why, malformed);
	if (!base64_decode(have, SCRAM_KEY, &got, value.at, value.size) || got != SCRAM_KEY)
		return invalid(why, "malformed SCRAM message (invalid server signature)");
	if (!sign(p->server_key, p->auth_message, want))
		return invalid(why, scram_no_memory);
	if (mem_equal_constant_time(want, have, SCRAM_KEY))
		return SCRAM_DONE;
	*why = "incorrect server signature";
	return SCRAM_WRONG;
}

enum scram_result scram_prover_step(struct scram_prover *p, const char *message, size_t size,
				    scram_cached_keys *cached, void *context, struct bytes *out,
				    const char **why)
{
	struct slice whole = { message, size };
	char bare[sizeof(p->nonce) + 8];
	uint8_t step = p->step;
	const char *fault;

	p->step = STEP_OVER;
	if (step == STEP_FIRST) {
		/* PostgreSQL takes the user from the start-up message; libpq leaves the name empty,
		   too. */
		snprintf(bare, sizeof(bare), "n=,r=%s", p->nonce);
		p->client_first_bare = mem_copy_string(bare);
		bytes_append_text(out, gs2_header(p->gs2));
		bytes_append_text(out, bare);
		if (!p->client_first_bare || out->failed)
			return invalid(why, scram_no_memory);
		p->step = STEP_FINAL;
		return SCRAM_CONTINUE;
	}
	fault = scram_message_fault(message, size);
	if (fault)
		return invalid(why, fault);
	if (step == STEP_FINAL)
		return answer_server_first(p, whole, cached, context, out, why);
	if (step == STEP_SIGNATURE)
		return check_server_final(p, whole, why);
	return invalid(why, "unexpected SCRAM message");
}

void scram_prover_clear(struct scram_prover *p)
{
	mem_free(p->client_first_bare);
	mem_free(p->auth_message);
	mem_wipe(p, sizeof(*p));
	p->step = STEP_OVER;
}
