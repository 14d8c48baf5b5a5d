/* The role of a session: messages that may have changed it, the initial role, and the SQL that restores it. */
#include "state/role.h"
#include "unit.h"

#include <string.h>

static struct conf_database conf;
static struct database database = { .conf = &conf };
static struct pool pool = { .database = &database };
static struct conf settings;
static struct world world = { .conf = &settings };
static struct client client;
static struct server server;

static void begin(void)
{
	conf = (struct conf_database){ .connect_query = NULL };
	settings.settings.server_reset_query = "DISCARD ALL";
	client.shares_server = client.shares_names = true;
	memset(&server, 0, sizeof(server));
	server.pooled.pool = &pool;
	server.pooled.link = &client.pooled;
	server.peer.world = &world;
	ledger_init(&server.ledger);
}

static void end(void)
{
	mem_free(server.session.role);
	server.session.role = NULL;
	ledger_clear(&server.ledger);
}

static void send_query(const char *text)
{
	role_query_sent(&server, (const uint8_t *)text, strlen(text) + 1);
	CHECK(ledger_sent_query(&server.ledger));
}

/* The server answers with the tag SET and ReadyForQuery. Returns whether the role is unknown afterwards. */
static bool answered(void)
{
	enum ledger_owner owner;

	CHECK(ledger_received(&server.ledger, 'C', &owner) == LEDGER_ANSWER);
	role_set_heard(&server, ledger_is_within_query(&server.ledger));
	CHECK(ledger_received(&server.ledger, 'Z', &owner) == LEDGER_ANSWER);
	return server.session.unknown & UNKNOWN_ROLE;
}

static bool after(const char *text)
{
	bool unknown;

	begin();
	send_query(text);
	unknown = answered();
	end();
	return unknown;
}

TEST(queries)
{
	CHECK(!after("SET x = 1"));
	CHECK(!after("SET LOCAL ROLE a"));
	CHECK(after("SET ROLE a"));
	CHECK(after("SELECT 1; SET x = 1"));
	/* the text is incomplete */
	begin();
	role_query_sent(&server, (const uint8_t *)"SET x = 1", 9);
	CHECK(!server.session.plain_set);
	end();
}

TEST(queries_in_a_row)
{
	begin();
	send_query("SET x = 1");
	send_query("SET x = 1");
	CHECK(!answered());
	/* another statement was pending when the second was sent */
	CHECK(answered());
	end();
}

TEST(statements_of_the_extended_protocol)
{
	static const struct { const char *text; bool unknown; } all[] = {
		{ "SET x = 1", false }, { "SELECT 1", false }, { "SET ROLE a", true }, { "RESET ROLE", true },
		{ "/**/SET ROLE a", true },
	};
	enum ledger_owner owner;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		begin();
		role_parse_sent(&server, (const uint8_t *)all[i].text, strlen(all[i].text) + 1);
		CHECK(ledger_sent(&server.ledger, 'E', 0, OWED_TO_CLIENT));
		CHECK(ledger_sent(&server.ledger, 'S', 0, OWED_TO_CLIENT));
		/* a later Query does not change the result */
		send_query("SET x = 1");
		CHECK(ledger_received(&server.ledger, 'C', &owner) == LEDGER_ANSWER);
		role_set_heard(&server, ledger_is_within_query(&server.ledger));
		CHECK((server.session.unknown & UNKNOWN_ROLE) == (all[i].unknown ? UNKNOWN_ROLE : 0));
		end();
	}
}

TEST(lost_ledger)
{
	begin();
	server.ledger.lost = 1;
	role_set_heard(&server, false);
	CHECK(server.session.unknown & UNKNOWN_ROLE);
	end();
}

TEST(role_reported_by_the_server)
{
	static const char *const all[] = { "session_authorization", "is_superuser", "in_hot_standby", "DateStyle", "" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		begin();
		role_reported(&server, all[i]);
		CHECK((server.session.unknown != 0) == (i < 2));
		end();
	}
}

/* Returns the SQL that restores the role. */
static const char *sql(bool for_transaction)
{
	static char seen[1024];
	struct bytes out = BYTES_EMPTY;

	role_sql(&server, for_transaction, &out);
	CHECK(!out.failed && bytes_size(&out) < sizeof(seen));
	snprintf(seen, sizeof(seen), "%.*s", (int)bytes_size(&out), (const char *)bytes_front(&out));
	bytes_free(&out);
	return seen;
}

static void note(const char *text)
{
	struct bytes row = BYTES_EMPTY;

	bytes_append_u16(&row, 1);
	bytes_append_u32(&row, (uint32_t)strlen(text));
	bytes_append_text(&row, text);
	role_note(&server, bytes_front(&row), bytes_size(&row));
	bytes_free(&row);
}

TEST(initial_role)
{
	begin();
	CHECK_TEXT(sql(false), "pg_catalog.set_config('session_authorization',NULL,false) IS NULL,"
		   "pg_catalog.set_config('role',NULL,false) IS NULL");
	note("61:c3a4");
	CHECK_TEXT(server.session.role, "61:c3a4");
	CHECK_TEXT(sql(true), "pg_catalog.set_config('session_authorization',"
		   "pg_catalog.convert_from(pg_catalog.decode('61','hex'),pg_catalog.getdatabaseencoding()),true) IS NULL,"
		   "pg_catalog.set_config('role',"
		   "pg_catalog.convert_from(pg_catalog.decode('c3a4','hex'),pg_catalog.getdatabaseencoding()),true) IS NULL");
	end();
}

TEST(malformed_role_rows)
{
	static const char *const bad[] = {
		"", ":", "61", "61:", ":61", "6:61", "61:6", "61:6A", "61:61:61", "61: 61", "61:zz", "61:61\n", "'',1",
	};
	char name[600] = "";
	uint8_t row[] = { 0, 1, 0, 0, 0, 5, '6', '1', ':', '6', '1' };

	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		note(bad[i]);
		CHECK(!server.session.role && !role_restore(&server, bad[i]));
	}
	/* the longest names */
	memset(name, '6', 511);
	name[254] = ':';
	note(name);
	CHECK_TEXT(server.session.role, name);
	strcat(name, "66");
	note(name);
	CHECK(!role_restore(&server, name) && strlen(server.session.role) == 511);
	/* rows that are truncated, or contain NULL */
	for (size_t size = 0; size < sizeof(row); size++)
		role_note(&server, row, size);
	memset(row + 2, 0xff, 4);
	role_note(&server, row, sizeof(row));
	CHECK_INT(strlen(server.session.role), 511);
	end();
}

TEST(role_after_connect_query)
{
	/* the role set by connect_query is unknown: the server is closed when it is released */
	begin();
	conf.connect_query = "SELECT prepare_session()";
	role_set_heard(&server, false);
	CHECK(!server.session.unknown && server.pooled.close_reason == REASON_NONE);
	role_set_heard(&server, true);
	CHECK(server.pooled.close_reason == REASON_ROLE_UNKNOWN);
	end();
	begin();
	conf.connect_query = "SELECT prepare_session()";
	note("61:61");
	role_set_heard(&server, true);
	CHECK(server.session.unknown & UNKNOWN_ROLE && server.pooled.close_reason == REASON_NONE);
	end();
	/* in an unshared session, server_reset_query runs first */
	begin();
	conf.connect_query = "SELECT prepare_session()";
	client.shares_server = client.shares_names = false;
	role_set_heard(&server, true);
	CHECK(server.session.unknown & UNKNOWN_ROLE && server.pooled.close_reason == REASON_NONE);
	role_discarded(&server);
	role_was_reset(&server, "DISCARD ALL");
	CHECK(!server.session.unknown && server.pooled.close_reason == REASON_NONE);
	role_set_heard(&server, true);
	role_was_reset(&server, "RESET ALL");
	CHECK(server.pooled.close_reason == REASON_ROLE_UNKNOWN);
	end();
	begin();
	conf.connect_query = "SELECT prepare_session()";
	client.shares_server = client.shares_names = false;
	settings.settings.server_reset_query = "";
	role_set_heard(&server, true);
	CHECK(server.pooled.close_reason == REASON_ROLE_UNKNOWN);
	end();
	begin();
	conf.connect_query = "SELECT prepare_session()";
	note("61:61");
	/* the server is already marked to close for another reason */
	mem_free(server.session.role);
	server.session.role = NULL;
	server.pooled.close_reason = REASON_OBSOLETE;
	role_set_heard(&server, true);
	CHECK(server.pooled.close_reason == REASON_OBSOLETE);
	end();
}

TEST(resets)
{
	begin();
	server.session.unknown = UNKNOWN_ROLE | UNKNOWN_PARAMS;
	role_was_reset(&server, "RESET ALL");
	CHECK_INT(server.session.unknown, UNKNOWN_ROLE | UNKNOWN_PARAMS);
	role_was_reset(&server, "RESET ALL; SET ROLE a");
	CHECK_INT(server.session.unknown, UNKNOWN_PARAMS);
	server.session.unknown = UNKNOWN_ROLE;
	role_discarded(&server);
	CHECK_INT(server.session.unknown, 0);
	note("61:62");
	role_discarded(&server);
	CHECK_INT(server.session.unknown, UNKNOWN_ROLE);
	end();
}

UNIT_MAIN
