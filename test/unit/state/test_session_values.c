/* Kept values of sequences: the texts that are sent in place of the client's, the limit, and the record of a handover. */
#include "state/session_values.h"

#include "unit.h"
#include "whole.h"

#include <string.h>

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client in a transaction, with these values of sequences with the OIDs 1, 2, ...; the last one is that of lastval. */
static bool begin(const int64_t *values, unsigned count)
{
	struct bytes record = BYTES_EMPTY;
	struct unpack in;
	bool done;

	whole_open(WHOLE_INI("pool_size=2", "session_state=full\n"));
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server || !client->session)
		return false;
	pack_bool(&record, true);
	bytes_append_u8(&record, (uint8_t)count);
	for (unsigned i = 0; i < count; i++) {
		bytes_append_u32(&record, i + 1);
		pack_i64(&record, values[i]);
		pack_bool(&record, i == count - 1);
	}
	pack_u64(&record, server->peer.id);
	pack_bool(&record, false);
	in = unpack_of(bytes_front(&record), bytes_size(&record));
	done = session_values_unpack(&in, &client->session->values);
	bytes_free(&record);
	return done;
}

/* The text in place of this one; NULL: it is sent as it is. */
static const char *filled(const char *text)
{
	static char copy[4096];
	struct bytes out = BYTES_EMPTY;
	bool is_filled = session_values_fill(server, client, (const uint8_t *)text, strlen(text) + 1, &out);

	if (is_filled)
		snprintf(copy, sizeof(copy), "%s", (const char *)bytes_front(&out));
	bytes_free(&out);
	return is_filled ? copy : NULL;
}

#define MAY(oid) "pg_catalog.has_sequence_privilege('" oid "'::pg_catalog.oid,'USAGE,SELECT')"
#define IS(argument, oid) " WHEN (" argument "\n)::pg_catalog.regclass::pg_catalog.oid OPERATOR(pg_catalog.=) '" oid "'::pg_catalog.oid AND " MAY(oid)

TEST(texts_with_values)
{
	REQUIRE(begin((int64_t[]){ 7, -5 }, 2));
	CHECK_TEXT(filled("SELECT lastval();"), "SELECT CASE WHEN " MAY("2") " THEN '-5'::pg_catalog.int8 WHEN NOT " MAY("2")
		   " THEN pg_catalog.currval('2'::pg_catalog.regclass) ELSE lastval() END AS lastval;");
	CHECK_TEXT(filled("SELECT currval('a') AS b"), "SELECT CASE" IS("'a'", "1") " THEN '7'::pg_catalog.int8" IS("'a'", "2")
		   " THEN '-5'::pg_catalog.int8 ELSE currval('a') END AS b");
	CHECK(!filled("SELECT lastval(), 1"));
	/* the transaction may have drawn values */
	session_values_keep(client);
	CHECK(!filled("SELECT lastval()"));
	whole_close();
}

TEST(values_that_differ_are_not_known)
{
	REQUIRE(begin((int64_t[]){ 7, 8 }, 2));
	client->session->values->all[0].is_last = true;
	CHECK(!filled("SELECT lastval()"));
	client->session->values->all[1].value = 7;
	CHECK(filled("SELECT lastval()"));
	session_values_forget(server, client);
	CHECK(!filled("SELECT lastval()"));
	whole_close();
}

TEST(records_of_values)
{
	static const uint8_t too_many[] = { 1, VALUES_MOST + 1, 0 };
	struct sequence_values *values = NULL;
	struct unpack in = unpack_of(too_many, sizeof(too_many));
	struct bytes record = BYTES_EMPTY;

	CHECK(!session_values_unpack(&in, &values));
	session_values_free(&values);
	REQUIRE(begin((int64_t[]){ 7, 8, 9 }, 3));
	session_values_pack(&record, client->session->values);
	in = unpack_of(bytes_front(&record), bytes_size(&record));
	CHECK(session_values_unpack(&in, &values));
	REQUIRE(values);
	CHECK_INT(values->count, 3);
	CHECK_INT(values->all[2].value, 9);
	CHECK(values->all[2].is_last && !values->all[1].is_last);
	session_values_free(&values);
	bytes_free(&record);
	whole_close();
}

UNIT_MAIN
