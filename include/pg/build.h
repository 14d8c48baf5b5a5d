#ifndef PG_BUILD_H
#define PG_BUILD_H

#include "base/bytes.h"

/*
 * Building messages. pg_begin() begins a message of this type (0: a packet without a type) and
 * returns its mark, pg_end() writes the length. If there is no memory, out->failed is set.
 */
size_t pg_begin(struct bytes *out, uint8_t type);
void pg_end(struct bytes *out, size_t mark);

/* Whole messages. */
/* A message with these bytes as its body: ReadyForQuery ('Z'), PasswordMessage and SASLResponse
   ('p'), Terminate ('X'); without a type: SSLRequest. */
static inline void pg_build(struct bytes *out, uint8_t type, const void *body, size_t size)
{
	size_t mark = pg_begin(out, type);

	if (size)
		bytes_append(out, body, size);
	pg_end(out, mark);
}
#define PG_SSL_REQUEST "\x04\xd2\x16\x2f"		/* the code 1234.5679 */
void pg_build_auth(struct bytes *out, uint32_t code, const void *data, size_t size);
/* BackendKeyData ('K'); without a type: CancelRequest. */
void pg_build_key(struct bytes *out, uint8_t type, uint32_t pid, const uint8_t *key,
		  size_t key_size);
/* A message with one string as its body: CommandComplete ('C') with the tag, Query ('Q'). */
static inline void pg_build_string(struct bytes *out, uint8_t type, const char *text)
{
	size_t mark = pg_begin(out, type);

	bytes_append_string(out, text);
	pg_end(out, mark);
}
/* ErrorResponse ('E') or NoticeResponse ('N') with fields S, V, C, M, and D and H where not
   NULL. */
void pg_build_report(struct bytes *out, uint8_t type, const char *severity, const char *sqlstate,
		     const char *message, const char *detail, const char *hint);
/* NegotiateProtocolVersion: the newest minor version served, and the names of the unknown
   options. */
void pg_build_negotiate(struct bytes *out, uint32_t newest_minor_version,
			const char *const *options, size_t count);
static inline void pg_build_parameter_status(struct bytes *out, const char *name, const char *value)
{
	size_t mark = pg_begin(out, 'S');

	bytes_append_string(out, name);
	bytes_append_string(out, value);
	pg_end(out, mark);
}
/* SASLInitialResponse. */
void pg_build_sasl_initial(struct bytes *out, const char *mechanism, const void *data, size_t size);
/* StartupMessage, a packet without a type: name/value pairs, an even count. */
void pg_build_startup(struct bytes *out, uint32_t version, const char *const *pairs, size_t count);

/* RowDescription of the console: columns as "name:type", with type text, int4, int8, numeric or 17
   (bytea). */
void pg_build_row_description(struct bytes *out, const char *const *columns, size_t count);

#endif
