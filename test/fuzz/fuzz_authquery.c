/*
 * The answer to auth_query (pg/authquery.c), through the ledger, as lookup.c reads it: a secret is found only in a row of two columns that names this
 * user.
 *
 * Input: server messages. Properties: messages that the ledger refuses are never read; a failure has a reason; a user is known only with a row of
 * that user's name, of a described result, and the user's secret is the secret in that row.
 */
#include "fuzz.h"
#include "messages.h"
#include "pg/authquery.h"
#include "pg/message.h"
#include "pg/frame.h"
#include "pg/ledger.h"

#include <stdlib.h>
#include <string.h>

#define USER "alice"

/* Returns the secret of a DataRow with exactly the user and a secret; otherwise NULL. */
static const uint8_t *secret_in(const struct pg_frame *f, uint32_t *size)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint16_t columns = pg_read_u16(&c);
	uint32_t name_size = pg_read_u32(&c);
	const uint8_t *name = pg_read_bytes(&c, name_size), *secret;

	*size = pg_read_u32(&c);
	secret = *size == UINT32_MAX ? c.at : pg_read_bytes(&c, *size);
	*size = *size == UINT32_MAX ? 0 : *size;
	if (c.bad || c.at != c.end || columns != 2 || name_size != strlen(USER) || memcmp(name, USER, name_size) != 0)
		return NULL;
	return secret;
}

/* The batch as lookup.c sends it. */
static void ask(struct authquery *query, struct ledger *ledger)
{
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f;

	*query = (struct authquery){ .user = USER, .path = "" };
	authquery_build(query, &out, "SELECT usename, passwd FROM users WHERE usename = $1", NULL, 0, NULL);
	FUZZ_CHECK(!out.failed);
	for (const char *type = "PBEPBEPBDES"; *type; type++) {
		FUZZ_CHECK(pg_frame_look(bytes_front(&out), bytes_size(&out), PG_LENGTH_LIMIT, &f) == PG_OK && f.type == (uint8_t)*type);
		FUZZ_CHECK(ledger_sent(ledger, f.type, 'P', OWED_TO_POOLER));
		bytes_consume(&out, PG_HEADER + f.size);
	}
	FUZZ_CHECK(bytes_size(&out) == 0);
	bytes_free(&out);
}

static const struct messages_kit kit = { .parts = messages_of_server };
MESSAGES_MUTATOR(&kit)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes known = BYTES_EMPTY;
	struct authquery query;
	struct ledger ledger = { .used = 0 };
	struct pg_frame f;
	enum authquery_verdict result = AUTHQUERY_MORE;
	bool rows = false;

	ledger_clear(&ledger);
	ask(&query, &ledger);
	while (!ledger_is_empty(&ledger) && pg_frame_look(data, size, 1 << 20, &f) == PG_OK && pg_frame_is_whole(&f)) {
		uint8_t *body = fuzz_copy(f.body, f.size);
		enum ledger_owner owner;
		enum ledger_verdict verdict = ledger_received(&ledger, f.type, &owner);
		const uint8_t *secret;
		uint32_t secret_size;

		if (verdict == LEDGER_ANSWER)
			result = authquery_take(&query, f.type, body, f.size);
		free(body);
		if (verdict == LEDGER_BROKEN || result != AUTHQUERY_MORE)
			break;
		if (f.type == 'D' && (secret = secret_in(&f, &secret_size))) {
			rows = true;
			bytes_free(&known);
			bytes_append(&known, secret, secret_size);
		}
		data += PG_HEADER + f.size;
		size -= PG_HEADER + f.size;
	}
	switch (result) {
	case AUTHQUERY_MORE:
		break;
	case AUTHQUERY_BROKEN:
	case AUTHQUERY_FAILED:
		FUZZ_CHECK(query.why[0]);
		break;
	case AUTHQUERY_NO_USER:
		FUZZ_CHECK(!query.secret);
		break;
	case AUTHQUERY_USER:
		FUZZ_CHECK(rows && query.secret->length == bytes_size(&known));
		FUZZ_CHECK(query.secret->length == 0 || memcmp(query.secret->bytes, bytes_front(&known), query.secret->length) == 0);
	}
	secret_free(&query.secret);
	ledger_clear(&ledger);
	bytes_free(&known);
	return 0;
}
