/*
 * A walk over every row of message.tbl, and over every byte that has none.
 */
#include "pg/message.h"
#include "unit.h"

static const char client_types[] = "BCDEFHPQSXcdf";
static const char server_types[] = "123ACDEGHINSTVWZcdnst";

TEST(each_byte_has_its_row_or_none)
{
	for (int c = 0; c < 256; c++) {
		const struct pg_message *from_client = pg_client_message((uint8_t)c);
		const struct pg_message *from_server = pg_server_message((uint8_t)c);

		CHECK_INT(from_client != NULL, c && strchr(client_types, c));
		CHECK_INT(from_server != NULL, c && strchr(server_types, c));
		if (from_client)
			CHECK_INT(from_client->type, c);
		if (from_server)
			CHECK_INT(from_server->type, c);
	}
}

TEST(login_has_no_row)
{
	static const char login[] = "RKv";

	for (const char *c = login; *c; c++)
		CHECK(!pg_server_message((uint8_t)*c));
	CHECK(!pg_client_message('p'));
}

TEST(only_what_must_be_read_is_collected)
{
	for (const char *c = client_types; *c; c++) {
		const struct pg_message *m = pg_client_message((uint8_t)*c);

		REQUIRE(m != NULL);
		CHECK(!m->whole);
		CHECK_INT(m->look, strchr("CD", *c) ? 1 : 0);
		CHECK_INT(m->extended, strchr("BCDEHPS", *c) != NULL);
	}
	for (const char *c = server_types; *c; c++) {
		const struct pg_message *m = pg_server_message((uint8_t)*c);

		REQUIRE(m != NULL);
		CHECK_INT(m->whole, strchr("SZ", *c) != NULL);
		CHECK_INT(m->look, 0);
		CHECK_INT(m->extended, strchr("123nst", *c) != NULL);
	}
}

TEST(directions_are_not_mixed_up)
{
	REQUIRE(pg_client_message('S') && pg_server_message('S'));
	CHECK_TEXT(pg_client_message('S')->name, "Sync");
	CHECK_TEXT(pg_server_message('S')->name, "ParameterStatus");
	CHECK_TEXT(pg_client_message('D')->name, "Describe");
	CHECK_TEXT(pg_server_message('D')->name, "DataRow");
}

UNIT_MAIN
