/*
 * A walk over every row of message.tbl, and over every byte that has none.
 */
#include "pg/ledger_ring.h"
#include "pg/message.h"
#include "unit.h"

static const char client_types[] = "BCDEFHPQSXcdf";
static const char server_types[] = "123ACDEGHINSTVWZcdnst";

TEST(each_byte_has_its_row_or_none)
{
	for (int c = 0; c < 256; c++) {
		const struct pg_client_message *from_client = pg_client_message((uint8_t)c, PG_SESSION | PG_COPY);
		const struct pg_server_message *from_server = pg_server_message((uint8_t)c, PG_SESSION);

		CHECK_INT(from_client != NULL, c && strchr(client_types, c));
		CHECK_INT(from_server != NULL, c && strchr(server_types, c));
		if (from_client)
			CHECK_INT(from_client->type, c);
		if (from_server)
			CHECK_INT(from_server->type, c);
	}
}

TEST(each_byte_is_legal_at_login_or_not)
{
	for (int c = 0; c < 256; c++) {
		CHECK_INT(pg_client_message((uint8_t)c, PG_LOGIN) != NULL, c && strchr("pX", c));
		CHECK_INT(pg_server_message((uint8_t)c, PG_LOGIN) != NULL, c && strchr("RKvSZEN", c));
	}
}

TEST(only_what_must_be_read_is_collected)
{
	for (const char *c = client_types; *c; c++)
		CHECK_INT(pg_client_messages[(uint8_t)*c].look, strchr("CD", *c) ? 1 : 0);
	for (const char *c = server_types; *c; c++)
		CHECK_INT(pg_server_messages[(uint8_t)*c].whole, strchr("SZ", *c) != NULL);
}

TEST(directions_are_not_mixed_up)
{
	CHECK_TEXT(pg_client_messages['S'].name, "Sync");
	CHECK_TEXT(pg_server_messages['S'].name, "ParameterStatus");
	CHECK_TEXT(pg_client_messages['D'].name, "Describe");
	CHECK_TEXT(pg_server_messages['D'].name, "DataRow");
}

/* What is legal within a COPY alone is left over outside, and what owes nothing there has no entry. */
TEST(a_message_of_a_copy_is_taken_as_one)
{
	for (const char *c = client_types; *c; c++) {
		const struct pg_client_message *m = &pg_client_messages[(uint8_t)*c];

		CHECK_INT(m->taken_by == TAKEN_BY_COPY, m->phases == PG_COPY);
		CHECK_INT(m->owes == LEDGER_COPY_END, strchr("cf", *c) != NULL);
		CHECK_INT(m->owes == LEDGER_NOTHING, strchr("HXd", *c) != NULL);
	}
}

/* Entries that are answered, at each stage. */
TEST(only_answers_are_crossed_off)
{
	for (int stage = 0; stage < STAGES; stage++)
		for (int kind = 0; kind <= LEDGER_NOTHING; kind++)
			for (int c = 0; c < 256; c++) {
				uint8_t does = pg_answers[stage][kind][c], by = pg_server_messages[c].taken_by;

				if (does == LEDGER_DOES_NOT_FIT)
					continue;
				CHECK(pg_server_message((uint8_t)c, PG_SESSION) && kind < LEDGER_COPY_END);
				CHECK(by == TAKEN_AS_ANSWER || by == TAKEN_AS_READY);
				CHECK(by == TAKEN_AS_ANSWER || ledger_weights[kind] >= LEDGER_END);
			}
}

/* The short way leaves the stage as it is, but for the end of an entry, which is at its begin: what it may do elsewhere is nothing. */
TEST(an_answer_passes_unread_where_its_type_says_all)
{
	for (int stage = 0; stage < STAGES; stage++)
		for (int kind = 0; kind <= LEDGER_NOTHING; kind++)
			for (int c = 0; c < 256; c++) {
				uint8_t does = pg_answers[stage][kind][c];

				if (stage == STAGE_COPY_OUT || stage == STAGE_COPY_BOTH)
					CHECK(does <= LEDGER_STAYS || does > LEDGER_CROSSES_OFF_ENDED);
			}
}

/* The short way enters what ledger_sent enters. */
TEST(a_message_passes_unread_as_its_row_says)
{
	struct ledger fast, careful;

	for (int c = 0; c < 256; c++) {
		const struct pg_client_message *m = &pg_client_messages[c];

		ledger_init(&fast);
		ledger_init(&careful);
		CHECK_INT(ledger_sent_plain(&fast, (uint8_t)c), m->name && pg_client_unread[c] != UNREAD_NEVER && m->owes <= LEDGER_SYNC);
		CHECK(ledger_sent(&careful, (uint8_t)c, PG_OF_PORTAL, OWED_TO_CLIENT));
		if (fast.used > 0) {
			CHECK_INT(ledger_head(&fast)->kind, m->owes);
			CHECK_INT(ledger_head(&careful)->kind, m->owes);
		}
		ledger_clear(&fast);
		ledger_clear(&careful);
	}
}

UNIT_MAIN
