/*
 * SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: RFC 5802 with the hash of RFC 7677, as PostgreSQL implements them ("SASL Authentication").
 *
 *	client-first:	n,,n=,r=<client nonce>			n: no channel binding; y: the server offers none;
 *								p=tls-server-end-point: SCRAM-SHA-256-PLUS
 *	server-first:	r=<client nonce><server nonce>,s=<salt>,i=<iterations>
 *	client-final:	c=<binding>,r=<both nonces>,p=<proof>
 *	server-final:	v=<signature>
 *
 *	binding         = base64 of "n,,", of "y,,", or of "p=tls-server-end-point,," and the channel binding data
 *	AuthMessage     = client-first without its first two fields "," server-first "," client-final without ",p=..."
 *	proof           = ClientKey XOR HMAC(StoredKey, AuthMessage)
 *	signature       = HMAC(ServerKey, AuthMessage)
 *
 * The verifier has StoredKey: the XOR of proof and HMAC is ClientKey if its hash is StoredKey. ClientKey suffices for a login at each server with the
 * same secret, so pgweir can log in at PostgreSQL for a client without knowing the password.
 *
 * The prover has ClientKey and ServerKey; the caller derives them from a password, which takes long, or has them from a client. The server proves
 * that it knows the secret, too.
 *
 * As in PostgreSQL, the user name is the name in the start-up message, and the name in the exchange is ignored. An authorization identity and
 * mandatory extensions ("m=") are refused, other extensions are skipped. AuthMessage protects all messages of the exchange, but not the list of
 * mechanisms before it. For that list there is the flag y: a client that supports channel binding and says y to a verifier that offers it has
 * received a changed list, and is refused.
 *
 * Invariant: after any result but SCRAM_CONTINUE and SCRAM_PENDING the exchange is in STEP_OVER and stays there. A message has at most
 * SCRAM_MESSAGE_MAX bytes, and each value is a slice of the message until it has been checked.
 */
#include "pg/scram.h"


#include <stdio.h>
#include <string.h>

#define SERVER_FIRST_MAX (SCRAM_NONCE_TEXT + BASE64_SIZE(SCRAM_SALT_MAX) + 24)
#define GS2_PLUS "p=tls-server-end-point,,"
#define GS2_MAX (sizeof(GS2_PLUS) - 1)
#define BINDING_TEXT (BASE64_SIZE(GS2_MAX + SCRAM_BINDING_MAX) + 1)

enum { STEP_FIRST, STEP_FINAL, STEP_SIGNATURE, STEP_OVER };

static const char malformed[] = "malformed SCRAM message", no_memory[] = "out of memory";

struct slice {
	const char *at;
	size_t size;
};

/* The rest of a message. */
struct scan {
	const char *at, *end;
};

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

/* Takes "<letter>=<value>" and the comma after it. False: there is none, or nothing follows the comma. */
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

static bool take(struct scan *s, char name, struct slice *value)
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

/* Printable ASCII without a comma, and not empty (RFC 5802 section 7); take() has removed the comma. */
static bool is_nonce(struct slice s)
{
	for (size_t i = 0; i < s.size; i++)
		if (s.at[i] < 0x21 || s.at[i] > 0x7e)
			return false;
	return s.size > 0;
}

/* Returns the error of the message as a whole, or NULL. */
static const char *message_fault(const char *message, size_t size)
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
static char *make_auth_message(const char *client_first_bare, struct slice server_first, struct slice client_final)
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

static bool sign(const uint8_t key[SCRAM_KEY], const char *auth_message, uint8_t signature[SCRAM_KEY])
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
			return "client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data";
	} else if (flag != 'n' && flag != 'y') {
		return "malformed SCRAM message (unexpected channel-binding flag)";
	} else if (v->plus) {
		return "client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data";
	}
	v->gs2 = flag;
	if (flag == 'p') {
		if (!take(s, 'p', &type))
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
static enum scram_result take_client_first(struct scram_verifier *v, struct scan s, struct bytes *out, const char **why)
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
	if (!take(&s, 'n', &user) || !take(&s, 'r', &nonce) || !skip_extensions(&s))
		return invalid(why, malformed);
	if (!is_nonce(nonce))
		return invalid(why, "non-printable characters in SCRAM nonce");
	if (nonce.size + own >= sizeof(v->nonce))
		return invalid(why, "malformed SCRAM message (the nonce is too long)");
	memmove(v->nonce + nonce.size, v->nonce, own + 1);
	memcpy(v->nonce, nonce.at, nonce.size);
	base64_encode(salt, v->secret.salt, v->secret.salt_size);
	snprintf(text, sizeof(text), "r=%s,s=%s,i=%u", v->nonce, salt, (unsigned)v->secret.iterations);
	v->server_first = mem_copy_string(text);
	bytes_append_text(out, text);
	if (!v->client_first_bare || !v->server_first || out->failed)
		return invalid(why, no_memory);
	v->step = STEP_FINAL;
	return SCRAM_CONTINUE;
}

/* Computes ClientKey from the proof, compares its hash with StoredKey, and appends server-final. */
static enum scram_result check_proof(struct scram_verifier *v, const uint8_t proof[SCRAM_KEY],
				     const char *auth_message, struct bytes *out, const char **why)
{
	uint8_t signature[SCRAM_KEY], hashed[SCRAM_KEY];
	char text[BASE64_SIZE(SCRAM_KEY) + 1];
	bool holds;

	if (!sign(v->secret.stored_key, auth_message, signature))
		return invalid(why, no_memory);
	xor(v->client_key, proof, signature);
	if (!digest_sha256(v->client_key, SCRAM_KEY, hashed) || !sign(v->secret.server_key, auth_message, signature))
		return invalid(why, no_memory);
	holds = mem_equal_constant_time(hashed, v->secret.stored_key, SCRAM_KEY);
	if (!holds || v->mock) {
		*why = "the proof does not match";
		return SCRAM_WRONG;
	}
	base64_encode(text, signature, SCRAM_KEY);
	bytes_append_text(out, "v=");
	bytes_append_text(out, text);
	return out->failed ? invalid(why, no_memory) : SCRAM_DONE;
}

static enum scram_result verify_client_final(struct scram_verifier *v, struct scan s, struct bytes *out, const char **why)
{
	struct slice binding, nonce, proof, signed_part = { s.at, 0 };
	uint8_t proof_bytes[SCRAM_KEY];
	char bound[BINDING_TEXT], name;
	enum scram_result result;
	char *auth_message;
	size_t got;

	/* c=...,r=...[,extensions],p=... */
	if (!take(&s, 'c', &binding) || !take(&s, 'r', &nonce))
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
			return invalid(why, "unexpected SCRAM channel-binding attribute in client-final-message");
		*why = "SCRAM channel binding check failed";
		return SCRAM_UNBOUND;
	}
	if (!slice_is(nonce, v->nonce))
		return invalid(why, "invalid SCRAM response (nonce does not match)");
	if (!base64_decode(proof_bytes, SCRAM_KEY, &got, proof.at, proof.size) || got != SCRAM_KEY)
		return invalid(why, "malformed SCRAM message (malformed proof in client-final-message)");
	auth_message = make_auth_message(v->client_first_bare, (struct slice){ v->server_first, strlen(v->server_first) }, signed_part);
	if (!auth_message)
		return invalid(why, no_memory);
	result = check_proof(v, proof_bytes, auth_message, out, why);
	mem_free(auth_message);
	if (result != SCRAM_DONE)
		mem_wipe(v->client_key, SCRAM_KEY);
	return result;
}

enum scram_result scram_verifier_step(struct scram_verifier *v, const char *message, size_t size, struct bytes *out,
				      const char **why)
{
	uint8_t step = v->step;
	const char *fault;

	if (step == STEP_FIRST && !message)
		return SCRAM_CONTINUE;
	v->step = STEP_OVER;
	fault = message_fault(message, size);
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

static enum scram_result send_client_first(struct scram_prover *p, struct bytes *out, const char **why)
{
	char bare[sizeof(p->nonce) + 8];

	/* PostgreSQL takes the user from the start-up message; libpq leaves the name empty, too. */
	snprintf(bare, sizeof(bare), "n=,r=%s", p->nonce);
	p->client_first_bare = mem_copy_string(bare);
	bytes_append_text(out, gs2_header(p->gs2));
	bytes_append_text(out, bare);
	if (!p->client_first_bare || out->failed)
		return invalid(why, no_memory);
	p->step = STEP_FINAL;
	return SCRAM_CONTINUE;
}

/* Reads server-first. Returns the error, or NULL. */
static const char *server_first_fault(struct scram_prover *p, struct scan s, struct slice *nonce)
{
	struct slice salt, iterations;
	size_t own = strlen(p->nonce);

	if (s.at < s.end && *s.at == 'm')
		return "server requires an unsupported SCRAM extension";
	if (!take(&s, 'r', nonce) || !is_nonce(*nonce))
		return malformed;
	/* Without a part from the server, an old exchange could be replayed to pgweir. */
	if (nonce->size <= own || memcmp(nonce->at, p->nonce, own) != 0)
		return "invalid SCRAM response (nonce mismatch)";
	if (!take(&s, 's', &salt))
		return malformed;
	if (!base64_decode(p->salt, sizeof(p->salt), &p->salt_size, salt.at, salt.size) || p->salt_size == 0)
		return "malformed SCRAM message (invalid salt)";
	if (!take(&s, 'i', &iterations))
		return malformed;
	if (!scram_iterations_read(iterations.at, iterations.size, &p->iterations))
		return "malformed SCRAM message (invalid iteration count)";
	if (p->iterations > SCRAM_ITERATIONS_MAX)
		return "SCRAM iteration count of the server is too high";
	return skip_extensions(&s) ? NULL : malformed;
}

/* Takes server-first, and appends client-final. */
static enum scram_result answer_server_first(struct scram_prover *p, struct slice message, scram_cached_keys *cached,
					     void *context, struct bytes *out, const char **why)
{
	char unsigned_part[SCRAM_MESSAGE_MAX + BINDING_TEXT + 16], text[BASE64_SIZE(SCRAM_KEY) + 1], bound[BINDING_TEXT];
	uint8_t stored_key[SCRAM_KEY], signature[SCRAM_KEY], proof[SCRAM_KEY];
	struct slice nonce;
	const char *fault = server_first_fault(p, (struct scan){ message.at, message.at + message.size }, &nonce);
	int length;
	bool ok;

	if (fault)
		return invalid(why, fault);
	if (!p->have_keys && !(cached && cached(context, p->salt, p->salt_size, p->iterations, p->client_key, p->server_key))) {
		if (!p->may_derive) {
			*why = "no keys are known for the salt that the server uses";
			return SCRAM_NO_KEYS;
		}
		p->step = STEP_FINAL;
		return SCRAM_PENDING;
	}
	write_binding(bound, p->gs2, &p->binding);
	length = snprintf(unsigned_part, sizeof(unsigned_part), "c=%s,r=%.*s", bound, (int)nonce.size, nonce.at);
	p->auth_message = make_auth_message(p->client_first_bare, message, (struct slice){ unsigned_part, (size_t)length });
	if (!p->auth_message)
		return invalid(why, no_memory);
	ok = digest_sha256(p->client_key, SCRAM_KEY, stored_key) && sign(stored_key, p->auth_message, signature);
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
		return invalid(why, no_memory);
	p->step = STEP_SIGNATURE;
	return SCRAM_CONTINUE;
}

static enum scram_result check_server_final(struct scram_prover *p, struct slice message, const char **why)
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
		return invalid(why, no_memory);
	if (mem_equal_constant_time(want, have, SCRAM_KEY))
		return SCRAM_DONE;
	*why = "incorrect server signature";
	return SCRAM_WRONG;
}

enum scram_result scram_prover_step(struct scram_prover *p, const char *message, size_t size,
				    scram_cached_keys *cached, void *context, struct bytes *out, const char **why)
{
	struct slice whole = { message, size };
	uint8_t step = p->step;
	const char *fault;

	p->step = STEP_OVER;
	if (step == STEP_FIRST)
		return send_client_first(p, out, why);
	fault = message_fault(message, size);
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
