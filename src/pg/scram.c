/*
 * SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: RFC 5802 with the hash of RFC 7677, as PostgreSQL speaks them.
 *
 *	client-first:	n,,n=,r=<client nonce>			n: no channel binding; y: none seen at the server;
 *								p=tls-server-end-point: SCRAM-SHA-256-PLUS
 *	server-first:	r=<client nonce><server nonce>,s=<salt>,i=<iterations>
 *	client-final:	c=<binding>,r=<both nonces>,p=<proof>
 *	server-final:	v=<signature>
 *
 *	binding         = base64 of "n,,", of "y,,", or of "p=tls-server-end-point,," and the channel's own bytes behind it
 *	AuthMessage     = client-first without its first two fields "," server-first "," client-final without ",p=..."
 *	proof           = ClientKey XOR HMAC(StoredKey, AuthMessage)
 *	signature       = HMAC(ServerKey, AuthMessage)
 *
 * Here is the verifier; scram_prover.c has the other side, scram_parts.c what both need.
 *
 * The verifier holds StoredKey: it takes the XOR back and looks whether the outcome hashes to StoredKey. That
 * outcome is ClientKey, and its holder can log in at any server with the same secret; this is how a client's login
 * is carried on to PostgreSQL although no password is known.
 *
 * As in PostgreSQL the user name is that of the startup message and the one in here counts for nothing, an
 * authorization identity is refused, mandatory extensions ("m=") are refused and others skipped. Whatever a peer could change
 * on the way is part of AuthMessage. What is not, the list of mechanisms, is what the flag is for: a client that has channel binding
 * and says y to a verifier that offered it has been shown a shorter list by an attacker in between, and is refused.
 *
 * Invariant: after any result but SCRAM_CONTINUE the exchange is in step OVER and stays there. Lengths: a message
 * has at most SCRAM_MESSAGE_MAX bytes, and every value is a slice of it until it has been checked.
 */
#include "pg/scram.h"

#include <stdio.h>
#include <string.h>

#include "pg/base64.h"
#include "pg/digest.h"
#include "pg/scram_parts.h"

#define SERVER_FIRST_MAX (SCRAM_NONCE_TEXT + BASE64_SIZE(SCRAM_SALT_MAX) + 24)

void scram_verifier_init(struct scram_verifier *v, const struct scram_secret *secret, bool mock,
			 const uint8_t nonce[SCRAM_NONCE_RAW])
{
	memset(v, 0, sizeof(*v));
	v->secret = *secret;
	v->mock = mock;
	base64_encode(v->nonce, nonce, SCRAM_NONCE_RAW);
}

/* The channel-binding flag against the mechanism that was chosen: what is wrong, or NULL. */
static const char *flag_fault(const struct scram_verifier *v, char flag)
{
	if (flag == 'p')
		return v->plus ? NULL : "client selected SCRAM-SHA-256 without channel binding, but the SCRAM message "
					"includes channel binding data";
	if (flag != 'n' && flag != 'y')
		return "malformed SCRAM message (unexpected channel-binding flag)";
	return v->plus ? "client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel "
			 "binding data" : NULL;
}

/* Takes "n,,", "y,," or "p=tls-server-end-point,,": what is wrong with it, or NULL. */
static const char *gs2_fault(struct scram_verifier *v, struct scram_scan *s)
{
	const char *fault = flag_fault(v, *s->at);
	struct scram_slice type;

	if (fault)
		return fault;
	v->gs2 = *s->at;
	if (v->gs2 == 'p') {
		if (!scram_take(s, 'p', &type))
			return scram_malformed;
		if (!scram_slice_is(type, "tls-server-end-point"))
			return "unsupported SCRAM channel-binding type";
	} else {
		if (s->end - s->at < 2 || s->at[1] != ',')
			return scram_malformed;
		s->at += 2;
	}
	if (s->at < s->end && *s->at == 'a')
		return "client uses authorization identity, but it is not supported";
	if (s->at == s->end || *s->at != ',')
		return scram_malformed;
	s->at++;
	return NULL;
}

/* The nonce becomes the client's part and ours behind it. False when that is too long. */
static bool prepend_nonce(struct scram_verifier *v, struct scram_slice client)
{
	size_t own = strlen(v->nonce);

	if (client.size + own >= sizeof(v->nonce))
		return false;
	memmove(v->nonce + client.size, v->nonce, own + 1);
	memcpy(v->nonce, client.at, client.size);
	return true;
}

static enum scram_result send_server_first(struct scram_verifier *v, struct bytes *out, const char **why)
{
	char text[SERVER_FIRST_MAX], salt[BASE64_SIZE(SCRAM_SALT_MAX) + 1];

	base64_encode(salt, v->secret.salt, v->secret.salt_size);
	snprintf(text, sizeof(text), "r=%s,s=%s,i=%u", v->nonce, salt, (unsigned)v->secret.iterations);
	v->server_first = mem_copy_string(text);
	bytes_append_text(out, text);
	if (!v->client_first_bare || !v->server_first || out->failed)
		return scram_invalid(why, scram_no_memory);
	v->step = SCRAM_STEP_FINAL;
	return SCRAM_CONTINUE;
}

static enum scram_result take_client_first(struct scram_verifier *v, struct scram_scan s, struct bytes *out,
					   const char **why)
{
	const char *fault = gs2_fault(v, &s);
	struct scram_slice user, nonce;

	if (fault)
		return scram_invalid(why, fault);
	if (v->gs2 == 'y' && v->binding.size > 0) {
		*why = "client supports SCRAM channel binding but thinks the server does not";
		return SCRAM_UNBOUND;
	}
	if (s.at < s.end && *s.at == 'm')
		return scram_invalid(why, "client requires an unsupported SCRAM extension");
	v->client_first_bare = scram_copy_text(s.at, (size_t)(s.end - s.at));
	if (!scram_take(&s, 'n', &user) || !scram_take(&s, 'r', &nonce) || !scram_skip_extensions(&s))
		return scram_invalid(why, scram_malformed);
	if (!scram_is_nonce(nonce))
		return scram_invalid(why, "non-printable characters in SCRAM nonce");
	if (!prepend_nonce(v, nonce))
		return scram_invalid(why, "malformed SCRAM message (the nonce is too long)");
	return send_server_first(v, out, why);
}

/* Takes "c=...,r=...[,extensions],p=..."; `signed_part` is all but the proof. */
static bool take_client_final(struct scram_scan s, struct scram_slice *binding, struct scram_slice *nonce, struct scram_slice *proof,
			      struct scram_slice *signed_part)
{
	char name;

	signed_part->at = s.at;
	if (!scram_take(&s, 'c', binding) || !scram_take(&s, 'r', nonce))
		return false;
	do {
		/* Without the comma in front of this attribute. */
		signed_part->size = (size_t)(s.at - 1 - signed_part->at);
		if (!scram_take_any(&s, &name, proof) || name == 'm')
			return false;
	} while (name != 'p');
	return s.at == s.end;
}

/* Recovers ClientKey from the proof and says whether it is the one that StoredKey was made from. */
static enum scram_result check_proof(struct scram_verifier *v, const uint8_t proof[SCRAM_KEY],
				     const char *auth_message, struct bytes *out, const char **why)
{
	uint8_t signature[SCRAM_KEY], hashed[SCRAM_KEY];
	char text[BASE64_SIZE(SCRAM_KEY) + 1];
	bool holds;

	if (!scram_sign(v->secret.stored_key, auth_message, signature))
		return scram_invalid(why, scram_no_memory);
	scram_xor(v->client_key, proof, signature);
	if (!digest_sha256(v->client_key, SCRAM_KEY, hashed) || !scram_sign(v->secret.server_key, auth_message, signature))
		return scram_invalid(why, scram_no_memory);
	holds = mem_equal_constant_time(hashed, v->secret.stored_key, SCRAM_KEY);
	if (!holds || v->mock) {
		*why = "the proof does not match";
		return SCRAM_WRONG;
	}
	base64_encode(text, signature, SCRAM_KEY);
	bytes_append_text(out, "v=");
	bytes_append_text(out, text);
	return out->failed ? scram_invalid(why, scram_no_memory) : SCRAM_DONE;
}

static enum scram_result verify_client_final(struct scram_verifier *v, struct scram_scan s, struct bytes *out,
					     const char **why)
{
	struct scram_slice binding, nonce, proof, signed_part;
	uint8_t proof_bytes[SCRAM_KEY];
	char bound[SCRAM_BINDING_TEXT];
	enum scram_result result;
	char *auth_message;
	size_t got;

	if (!take_client_final(s, &binding, &nonce, &proof, &signed_part))
		return scram_invalid(why, scram_malformed);
	scram_binding_text(bound, v->gs2, &v->binding);
	if (!scram_slice_is(binding, bound)) {
		if (v->gs2 != 'p')
			return scram_invalid(why, "unexpected SCRAM channel-binding attribute in client-final-message");
		*why = "SCRAM channel binding check failed";
		return SCRAM_UNBOUND;
	}
	if (!scram_slice_is(nonce, v->nonce))
		return scram_invalid(why, "invalid SCRAM response (nonce does not match)");
	if (!base64_decode(proof_bytes, SCRAM_KEY, &got, proof.at, proof.size) || got != SCRAM_KEY)
		return scram_invalid(why, "malformed SCRAM message (malformed proof in client-final-message)");
	auth_message = scram_auth_message(v->client_first_bare, v->server_first, signed_part);
	if (!auth_message)
		return scram_invalid(why, scram_no_memory);
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

	if (step == SCRAM_STEP_FIRST && !message)
		return SCRAM_CONTINUE;
	v->step = SCRAM_STEP_OVER;
	fault = scram_message_fault(message, size);
	if (fault)
		return scram_invalid(why, fault);
	if (step == SCRAM_STEP_FIRST)
		return take_client_first(v, (struct scram_scan){ message, message + size }, out, why);
	if (step == SCRAM_STEP_FINAL)
		return verify_client_final(v, (struct scram_scan){ message, message + size }, out, why);
	return scram_invalid(why, "unexpected SCRAM message");
}

void scram_verifier_clear(struct scram_verifier *v)
{
	mem_free(v->client_first_bare);
	mem_free(v->server_first);
	mem_wipe(v, sizeof(*v));
	v->step = SCRAM_STEP_OVER;
}
