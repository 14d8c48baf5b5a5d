/* Where a transaction begins: what reads_take() decides. wire/test_reads.py has the rest. */
#include "relay/reads.h"

#include "pg/build.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static struct house_end *near;
static struct client *client;

static bool begin(void)
{
	whole_open(INI);
	client = whole_login(&near);
	if (!client || client->pooled.link)
		return false;
	client->pooled.target = TARGET_PRIMARY;
	client->pooled.splits = true;
	client_prepare_retry(client);
	return client->retry;
}

static void end(void)
{
	client->pooled.target = TARGET_ANY;
	client->pooled.splits = false;
	client->reads = 0;
	mem_free(client->begin);
	client->begin = NULL;
	whole_close();
}

/* The verdict on a Query; *used as reads_take(). */
static enum verdict take(const char *text, size_t *used)
{
	struct bytes message = BYTES_EMPTY;
	enum verdict verdict;

	pg_build_string(&message, 'Q', text);
	verdict = reads_take(client, bytes_front(&message), bytes_size(&message), used);
	bytes_free(&message);
	return verdict;
}

TEST(begin_is_held_back_and_answered)
{
	size_t used;

	REQUIRE(begin());
	CHECK_INT(take("BEGIN READ ONLY", &used), VERDICT_PASS);
	CHECK_INT(used, sizeof("BEGIN READ ONLY") + PG_HEADER);
	CHECK(client->reads & READING_BEGIN);
	CHECK(client->in_transaction && !client->pooled.link);
	/* a transaction without a request needs no server */
	CHECK_INT(take("COMMIT", &used), VERDICT_PASS);
	CHECK(used > 0 && !(client->reads & READING_BEGIN) && !client->in_transaction);
	end();
}

TEST(first_request_decides)
{
	static const struct { const char *text; enum target target; } requests[] = {
		{ "SELECT 1", TARGET_READ }, { "SELECT pg_advisory_lock(1)", TARGET_PRIMARY }, { "INSERT INTO t VALUES (1)", TARGET_PRIMARY },
		{ "SELECT 1; SELECT 2", TARGET_PRIMARY }, { "COMMIT; INSERT INTO t VALUES (1)", TARGET_PRIMARY },
	};
	size_t used;

	REQUIRE(begin());
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		take("BEGIN READ ONLY", &used);
		CHECK_INT(take(requests[i].text, &used), VERDICT_PASS);
		CHECK_INT(used, 0);
		CHECK_INT(client->pooled.target, requests[i].target);
		client->reads = 0;
	}
	end();
}

TEST(other_transactions_are_the_primarys)
{
	size_t used;

	REQUIRE(begin());
	take("SELECT 1", &used);
	CHECK_INT(client->pooled.target, TARGET_PRIMARY);
	take("BEGIN", &used);
	CHECK(used == 0 && client->pooled.target == TARGET_PRIMARY);
	/* a session that reads only */
	client_set_reading(client, "on");
	take("SELECT 1", &used);
	CHECK_INT(client->pooled.target, TARGET_READ);
	client_set_reading(client, "off");
	end();
}

UNIT_MAIN
