#ifndef PG_SCRAM_PARTS_H
#define PG_SCRAM_PARTS_H

#include "pg/base64.h"
#include "pg/scram.h"

/*
 * What the two sides of a SCRAM exchange share: for scram.c and scram_prover.c only.
 */
enum { SCRAM_STEP_FIRST, SCRAM_STEP_FINAL, SCRAM_STEP_SIGNATURE, SCRAM_STEP_OVER };

#define SCRAM_GS2_PLUS "p=tls-server-end-point,,"
#define SCRAM_GS2_MAX (sizeof(SCRAM_GS2_PLUS) - 1)
#define SCRAM_BINDING_TEXT (BASE64_SIZE(SCRAM_GS2_MAX + SCRAM_BINDING_MAX) + 1)	/* room for what c= has, and a NUL */

extern const char scram_malformed[], scram_no_memory[];

struct scram_slice {
	const char *at;
	size_t size;
};

/* What is left of a message. */
struct scram_scan {
	const char *at, *end;
};

bool scram_slice_is(struct scram_slice s, const char *text);
/* Takes "<letter>=<value>" and the comma behind it, which something must follow. False: it is not there. */
bool scram_take_any(struct scram_scan *s, char *name, struct scram_slice *value);
/* The same, of this letter. */
bool scram_take(struct scram_scan *s, char name, struct scram_slice *value);
/* Skips optional extensions up to the end. False: something else, or a mandatory one. */
bool scram_skip_extensions(struct scram_scan *s);
/* Printable ASCII, and not empty (RFC 5802 section 7). */
bool scram_is_nonce(struct scram_slice s);
/* What is wrong with the message before anything in it is looked at, or NULL. */
const char *scram_message_fault(const char *message, size_t size);
/* A copy with a NUL behind it, the caller's; NULL: no memory. */
char *scram_copy_text(const char *text, size_t size);
/* AuthMessage, the caller's; NULL: no memory. */
char *scram_auth_message(const char *client_first_bare, const char *server_first, struct scram_slice client_final);
/* HMAC of the AuthMessage. False: no memory. */
bool scram_sign(const uint8_t key[SCRAM_KEY], const char *auth_message, uint8_t signature[SCRAM_KEY]);
void scram_xor(uint8_t to[SCRAM_KEY], const uint8_t a[SCRAM_KEY], const uint8_t b[SCRAM_KEY]);
/* SCRAM_INVALID, for this reason. */
enum scram_result scram_invalid(const char **why, const char *text);
/* What a client-first message begins with, for flag n, y or p. */
const char *scram_gs2_header(char gs2);
/* What c= has to hold: base64 of the header and, with p, of the channel's binding. */
void scram_binding_text(char to[SCRAM_BINDING_TEXT], char gs2, const struct scram_binding *binding);

#endif
