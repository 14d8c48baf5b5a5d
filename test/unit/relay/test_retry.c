/* The request that a client with a role has sent, and the reason that the client gets when its server is lost; wire/test_failover.py has the rest. */
#include "relay/retry.h"

#include "relay/link.h"
#include "in_transaction.h"
#include "unit.h"
#include "whole.h"

#include <stdio.h>
#include <string.h>

#define INI WHOLE_INI("pool_size=1", "")

/* A client in a transaction, which has asked for a primary. */
static bool begin(void)
{
	if (!begin_with_role(INI))
		return false;
	pool_client_seek(&client->pooled, false);
	/* until then, the client keeps its server */
	request_answered(client);
	return true;
}

static void keep(const char *bytes, size_t size)
{
	request_keep(client, (const uint8_t *)bytes, size);
}

TEST(request_of_several_writes_is_kept_whole)
{
	REQUIRE(begin());
	server->status = 'I';
	keep("Q\0\0\0\6", 5);
	CHECK_INT(client->request->sent, 5);
	CHECK_INT(client->request->repeat, REPEAT_WHOLE);
	keep("x", 2);
	CHECK_INT(client->request->sent, 7);
	CHECK_INT(bytes_size(&client->request->kept), 7);
	request_answered(client);
	CHECK_INT(bytes_size(&client->request->kept), 0);
	/* the transaction goes on */
	server->status = 'T';
	keep("Q\0\0\0\6x", 7);
	CHECK_INT(client->request->repeat, REPEAT_ANSWERED);
	request_answered(client);
	end_with_role();
}

TEST(long_request_is_not_kept)
{
	static char much[RETRY_MOST];

	REQUIRE(begin());
	keep(much, sizeof(much));
	CHECK_INT(bytes_size(&client->request->kept), RETRY_MOST);
	CHECK(!request_is_cut(client->request));
	keep(much, 1);
	CHECK(request_is_cut(client->request));
	CHECK_INT(bytes_size(&client->request->kept), 0);
	/* nothing is known of its text */
	server->ledger.depth++;
	CHECK_INT(retry_loss(client, server, REASON_SERVER_CRASHED), REASON_OUTCOME_UNKNOWN);
	server->ledger.depth--;
	request_answered(client);
	CHECK(!request_is_cut(client->request));
	end_with_role();
}

TEST(without_memory_a_request_is_not_kept)
{
	REQUIRE(begin());
	whole_memory_ends(0);
	keep("Q\0\0\0\6x", 7);
	CHECK(whole_memory_is_back() > 0);
	CHECK(request_is_cut(client->request));
	request_free(client);
	whole_memory_ends(0);
	client_prepare_request(client);
	CHECK(whole_memory_is_back() > 0);
	CHECK(!client->request);
	end_with_role();
}

/* The reason for the client whose server is lost after this Query in a transaction. */
static enum close_reason loss_after(const char *text, size_t size)
{
	enum close_reason why;

	request_answered(client);
	keep((const char[]){ 'Q', 0, 0, 0, (char)(size + 4) }, 5);
	keep(text, size);
	server->ledger.depth++;
	why = retry_loss(client, server, REASON_SERVER_CRASHED);
	server->ledger.depth--;
	return why;
}

#define LOSS_AFTER(text) loss_after(text, sizeof(text))

TEST(reasons_for_clients_that_lose_their_server)
{
	REQUIRE(begin());
	CHECK_INT(LOSS_AFTER("SELECT 1"), REASON_TRANSACTION_LOST);
	CHECK_INT(LOSS_AFTER("SELECT CASE WHEN a THEN b END"), REASON_TRANSACTION_LOST);
	CHECK_INT(LOSS_AFTER("PREPARED"), REASON_TRANSACTION_LOST);
	CHECK_INT(LOSS_AFTER("COMMIT"), REASON_OUTCOME_UNKNOWN);
	CHECK_INT(LOSS_AFTER("/* a */ end"), REASON_OUTCOME_UNKNOWN);
	CHECK_INT(LOSS_AFTER("SELECT 1;commit;"), REASON_OUTCOME_UNKNOWN);
	CHECK_INT(LOSS_AFTER("PREPARE TRANSACTION 'a'"), REASON_OUTCOME_UNKNOWN);
	CHECK_INT(LOSS_AFTER("SELECT 'open"), REASON_OUTCOME_UNKNOWN);
	/* nothing is pending */
	CHECK_INT(retry_loss(client, server, REASON_HOST_ROLE), REASON_TRANSACTION_LOST);
	server->status = 'I';
	CHECK_INT(retry_loss(client, server, REASON_SERVER_CRASHED), REASON_HOST_LOST);
	CHECK_INT(retry_loss(client, server, REASON_HOST_ROLE), REASON_HOST_ROLE);
	CHECK_INT(LOSS_AFTER("SELECT 1"), REASON_OUTCOME_UNKNOWN);
	server->status = 'T';
	/* the client knows more */
	server->said_fatal = true;
	CHECK_INT(LOSS_AFTER("COMMIT"), REASON_SERVER_CRASHED);
	server->said_fatal = false;
	CHECK_INT(retry_loss(client, server, REASON_CLIENT_EOF), REASON_CLIENT_EOF);
	client->pooled.target = TARGET_ANY;
	CHECK_INT(LOSS_AFTER("COMMIT"), REASON_SERVER_CRASHED);
	end_with_role();
}

/* ---- tbl/retry_error.tbl ---- */

#define FATAL "FATAL"
#define ANY "ERROR"

TEST(errors_of_the_table_and_no_others)
{
	static const struct {
		enum error_of of;
		const char *sqlstate, *severity, *word;
		enum resend action;
	} rows[] = {
#define RETRY_ERROR(id, of, sqlstate, severity, word, action) { ERROR_OF_##of, sqlstate, severity, word, RESEND_##action },
#include "tbl/retry_error.tbl"
#undef RETRY_ERROR
	};
	static const char *const kept[] = { "00000", "08006", "0A000", "23505", "40001", "40P01",
					    "53300", "57014", "57P02", "57P03", "57P05", "XX000" };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_fatal = strcmp(rows[i].severity, "FATAL") == 0;
		const char *sqlstate = *rows[i].sqlstate ? rows[i].sqlstate : "XX000";
		struct pg_error e = { .severity = rows[i].severity, .sqlstate = sqlstate };
		char message[64];

		snprintf(message, sizeof(message), "during %s.", rows[i].word);
		e.message = message;
		CHECK_INT(retry_resend(rows[i].of, &e), rows[i].action);
		/* another severity, and another SQLSTATE */
		e.severity = is_fatal ? "ERROR" : "FATAL";
		CHECK_INT(retry_resend(rows[i].of, &e), is_fatal ? RESEND_NEVER : rows[i].action);
		e.severity = rows[i].severity;
		e.sqlstate = "22012";
		CHECK_INT(retry_resend(rows[i].of, &e),
			  *rows[i].sqlstate ? RESEND_NEVER : rows[i].action);
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		struct pg_error e = { .severity = "FATAL", .sqlstate = kept[i], .message = "failed" };

		CHECK_INT(retry_resend(ERROR_OF_PRIMARY, &e), RESEND_NEVER);
		CHECK_INT(retry_resend(ERROR_OF_STANDBY, &e), RESEND_NEVER);
		CHECK_INT(retry_resend(ERROR_OF_READ, &e), RESEND_ON_PRIMARY);
		CHECK_INT(retry_resend(ERROR_OF_UNREAD, &e), RESEND_ELSEWHERE);
	}
}

UNIT_MAIN
