/* A walk over every row of message.tbl, and over every byte without a row. */
#include "pg/ledger_ring.h"
#include "pg/message.h"
#include "unit.h"

static const char client_types[] = "BCDEFHPQSXcdf";
static const char server_types[] = "123ACDEGHINSTVWZcdnst";

TEST(each_type_byte_has_at_most_one_row)
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

TEST(type_bytes_that_are_legal_at_login)
{
	for (int c = 0; c < 256; c++) {
		CHECK_INT(pg_client_message((uint8_t)c, PG_LOGIN) != NULL, c && strchr("pX", c));
		CHECK_INT(pg_server_message((uint8_t)c, PG_LOGIN) != NULL, c && strchr("RKvSZEN", c));
	}
}

TEST(only_required_messages_are_collected)
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

/* A message that is legal only within a COPY is ignored outside, and a message without an answer has no entry. */
TEST(copy_messages)
{
	for (const char *c = client_types; *c; c++) {
		const struct pg_client_message *m = &pg_client_messages[(uint8_t)*c];

		CHECK_INT(m->taken_by == TAKEN_BY_COPY, m->phases == PG_COPY);
		CHECK_INT(m->owes == LEDGER_COPY_END, strchr("cf", *c) != NULL);
		CHECK_INT(m->owes == LEDGER_NOTHING, strchr("HXd", *c) != NULL);
	}
}

/* The entries that each message answers, at each stage. */
TEST(only_answers_remove_entries)
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

/* The short path does not change the stage, except at the beginning of an entry that ends there. */
TEST(answers_that_may_pass_unread)
{
	for (int stage = 0; stage < STAGES; stage++)
		for (int kind = 0; kind <= LEDGER_NOTHING; kind++)
			for (int c = 0; c < 256; c++) {
				uint8_t does = pg_answers[stage][kind][c];

				if (stage == STAGE_COPY_OUT || stage == STAGE_COPY_BOTH)
					CHECK(does <= LEDGER_STAYS || does > LEDGER_CROSSES_OFF_ENDED);
			}
}

/* The short path makes the same entry as ledger_sent. */
TEST(messages_that_may_pass_unread)
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
