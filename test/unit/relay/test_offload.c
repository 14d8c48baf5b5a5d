/* The answer of a standby to a statement that only reads; wire/test_read_auto.py has the rest. */
#include "relay/offload.h"

#include "pg/build.h"
#include "in_transaction.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static bool begin(void)
{
	if (!begin_with_role(INI))
		return false;
	client->pooled.reads = READS_AUTO;
	request_to(client, REQUEST_OFFLOADED);
	client->request->repeat = REPEAT_WHOLE;
	return true;
}

static void end(void)
{
	offload_end(client);
	client->pooled.reads = READS_OFF;
	end_with_role();
}

static void error(struct bytes *to, const char *sqlstate)
{
	pg_build_report(to, PGS_ERROR, "ERROR", sqlstate, "words", NULL, NULL);
}

TEST(answer_is_held_until_it_is_complete)
{
	struct bytes answer = BYTES_EMPTY;
	size_t complete;

	REQUIRE(begin());
	pg_build_string(&answer, PGS_COMPLETE, "SELECT 0");
	pg_build(&answer, PGS_READY, "I", 1);
	complete = bytes_size(&answer);
	for (size_t n = 1; n < complete; n++)
		CHECK_INT(offload_look(server, bytes_front(&answer), n), RETRY_MORE);
	CHECK_INT(offload_look(server, bytes_front(&answer), complete), RETRY_PASS);
	bytes_free(&answer);
	end();
}

TEST(long_answer_is_not_held)
{
	static uint8_t row[RETRY_MOST] = { PGS_ROW, 0, 0, 0xff, 0xff };

	REQUIRE(begin());
	CHECK_INT(offload_look(server, row, sizeof(row) - 1), RETRY_MORE);
	CHECK_INT(offload_look(server, row, sizeof(row)), RETRY_PASS);
	end();
}

TEST(canceled_statement_stays_canceled)
{
	struct bytes answer = BYTES_EMPTY;

	REQUIRE(begin());
	error(&answer, "57014");
	client->request->is_canceled = true;
	CHECK_INT(offload_look(server, bytes_front(&answer), bytes_size(&answer)), RETRY_PASS);
	CHECK_INT(client->request->step, REQUEST_OFFLOADED);
	bytes_free(&answer);
	end();
}

/* Here the client is in a transaction, and cannot leave. */
TEST(error_that_cannot_be_replaced_is_forwarded)
{
	struct bytes answer = BYTES_EMPTY;

	REQUIRE(begin());
	error(&answer, "40001");
	CHECK_INT(offload_look(server, bytes_front(&answer), bytes_size(&answer)), RETRY_PASS);
	CHECK(client->pooled.link);
	bytes_free(&answer);
	end();
}

TEST(input_waits_only_for_a_complete_statement)
{
	size_t n = 20;

	REQUIRE(begin());
	client->request->size = 10;
	CHECK(offload_is_incomplete(client));
	/* the next statement is not sent with it */
	CHECK(!offload_blocks(client, &n));
	CHECK_INT(n, 10);
	request_keep(client, (const uint8_t *)"Q\0\0\0\11abcd", 10);
	CHECK(!offload_is_incomplete(client) && offload_blocks(client, &n));
	end();
}

TEST(client_in_a_transaction_asks_nothing)
{
	size_t n = 14;

	REQUIRE(begin());
	offload_end(client);
	request_to(client, REQUEST_ASKING);
	CHECK(!offload_blocks(client, &n));
	CHECK_INT(n, 14);
	CHECK_INT(client->request->step, REQUEST_DIRECT);
	end();
}

UNIT_MAIN
