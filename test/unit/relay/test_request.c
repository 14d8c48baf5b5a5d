/* The host that gets a request: the decision, as a table, and the steps. wire/test_reads.py has the rest. */
#include "relay/request.h"

#include "pg/build.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

/* ---- the decision ---- */

#define READER .reads = READS_TRANSACTION, .is_shared = true, .is_transaction = true
#define QUERY READER, .arrived = ARRIVED_QUERY
#define STATEMENT \
	.reads = READS_AUTO, .is_shared = true, .is_transaction = true, .arrived = ARRIVED_QUERY, .is_statement = true

/* The views of requests, and the decisions. */
static const struct {
	const char *name;
	struct request_view view;
	enum request_decision decision;
} rows[] = {
	{ "no reads", { .is_shared = true, .is_transaction = true, .arrived = ARRIVED_QUERY, .says = SAYS_READ }, DECIDE_DIRECT },
	{ "no reads any more", { .is_shared = true, .is_transaction = true, .arrived = ARRIVED_QUERY, .holds_begin = true }, DECIDE_PRIMARY },
	{ "session mode", { .reads = READS_AUTO, .arrived = ARRIVED_QUERY, .says = SAYS_READ, .is_statement = true }, DECIDE_DIRECT },
	/* transactions */
	{ "in part", { READER }, DECIDE_MORE },
	{ "in part, a BEGIN is held", { READER, .holds_begin = true }, DECIDE_MORE },
	{ "in part, statement mode", { .reads = READS_AUTO, .is_shared = true }, DECIDE_DIRECT },
	{ "large", { READER, .arrived = ARRIVED_LARGE }, DECIDE_DIRECT },
	{ "large, a BEGIN is held", { READER, .arrived = ARRIVED_LARGE, .holds_begin = true }, DECIDE_PRIMARY },
	{ "a BEGIN", { QUERY, .says = SAYS_BEGIN }, DECIDE_HOLD_BEGIN },
	{ "an end", { QUERY, .says = SAYS_END, .holds_begin = true }, DECIDE_ANSWER_END },
	{ "a read", { QUERY, .says = SAYS_READ, .holds_begin = true }, DECIDE_READ },
	{ "a read of a session that reads", { QUERY, .says = SAYS_READ }, DECIDE_READ },
	{ "a batch that reads", { READER, .arrived = ARRIVED_BATCH, .says = SAYS_READ }, DECIDE_READ },
	{ "another statement", { QUERY }, DECIDE_DIRECT },
	{ "another statement, a BEGIN is held", { QUERY, .holds_begin = true }, DECIDE_PRIMARY },
	/* decided before */
	{ "waits for a standby", { QUERY, .step = REQUEST_TO_READ }, DECIDE_READ },
	{ "a standby has failed", { QUERY, .step = REQUEST_TO_PRIMARY, .says = SAYS_READ }, DECIDE_PRIMARY },
	{ "in doubt", { STATEMENT, .step = REQUEST_DOUBTED }, DECIDE_ASK_AGAIN },
	/* single statements */
	{ "unknown", { STATEMENT, .verdict = STANDBY_UNKNOWN }, DECIDE_NOTE },
	{ "seen, too many questions", { STATEMENT, .verdict = STANDBY_SEEN, .only_reads = true }, DECIDE_DIRECT },
	{ "seen", { STATEMENT, .verdict = STANDBY_SEEN, .may_ask = true, .only_reads = true }, DECIDE_ASK },
	{ "seen, it writes", { STATEMENT, .verdict = STANDBY_SEEN, .may_ask = true }, DECIDE_NEVER },
	{ "another client asks", { STATEMENT, .verdict = STANDBY_ASKED, .may_ask = true, .only_reads = true }, DECIDE_DIRECT },
	{ "suits", { STATEMENT, .verdict = STANDBY_SUITS, .is_recent = true }, DECIDE_OFFLOAD },
	{ "suits, it is time to ask", { STATEMENT, .verdict = STANDBY_SUITS, .is_recent = true, .is_due = true }, DECIDE_ASK_ALL },
	{ "suits, the answer is old", { STATEMENT, .verdict = STANDBY_SUITS }, DECIDE_DIRECT },
	{ "not now", { STATEMENT, .verdict = STANDBY_NOT_NOW, .is_recent = true }, DECIDE_DIRECT },
	{ "never", { STATEMENT, .verdict = STANDBY_NEVER, .is_recent = true }, DECIDE_DIRECT },
	{ "suits, in a read-only transaction", { STATEMENT, .verdict = STANDBY_SUITS, .is_recent = true, .holds_begin = true }, DECIDE_PRIMARY },
	{ "a read-only transaction of such a client", { STATEMENT, .says = SAYS_READ, .verdict = STANDBY_SUITS, .is_recent = true }, DECIDE_READ },
};

TEST(decisions)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		enum request_decision decision = request_decide(&rows[i].view);

		if (decision != rows[i].decision)
			UNIT_FAIL("%s: %d instead of %d", rows[i].name, (int)decision, (int)rows[i].decision);
	}
}

/* For all views: a standby gets only reads, and only of clients that allow it. */
TEST(nothing_else_goes_to_a_standby)
{
	for (unsigned bits = 0; bits < 1u << 15; bits++) {
		struct request_view v = {
			.reads = (enum reads)(bits & 3), .is_shared = bits & 4, .is_transaction = bits & 8, .holds_begin = bits & 16,
			.arrived = (enum request_arrived)(bits >> 5 & 3), .says = (enum request_says)(bits >> 7 & 3),
			.is_statement = bits & 512, .verdict = bits & 1024 ? STANDBY_SUITS : STANDBY_SEEN, .is_recent = bits & 2048,
			.is_due = bits & 4096, .may_ask = bits & 8192, .only_reads = bits & 16384,
		};
		enum request_decision decision = request_decide(&v);

		if (decision == DECIDE_READ)
			CHECK(v.reads != READS_OFF && v.is_shared && v.is_transaction && v.says == SAYS_READ);
		if (decision == DECIDE_OFFLOAD)
			CHECK(v.reads != READS_OFF && v.is_shared && v.is_statement && v.verdict == STANDBY_SUITS && v.is_recent && !v.holds_begin);
		if (v.holds_begin)
			CHECK(decision != DECIDE_DIRECT && decision < DECIDE_NOTE);
	}
}

/* ---- a client ---- */

static struct house_end *near;
static struct client *client;

static bool begin(void)
{
	whole_open(INI);
	client = whole_login(&near);
	if (!client || client->pooled.link)
		return false;
	client->pooled.role = TARGET_PRIMARY;
	client->pooled.reads = READS_TRANSACTION;
	pool_client_seek(&client->pooled, false);
	client_prepare_request(client);
	return client->request;
}

static void end(void)
{
	request_free(client);
	client->pooled.role = TARGET_ANY;
	client->pooled.reads = READS_OFF;
	pool_client_seek(&client->pooled, false);
	whole_close();
}

/* The verdict on a Query; *used as request_take(). */
static enum verdict take(const char *text, size_t *used)
{
	struct bytes message = BYTES_EMPTY;
	enum verdict verdict;

	pg_build_string(&message, 'Q', text);
	verdict = request_take(client, bytes_front(&message), bytes_size(&message), true, used);
	bytes_free(&message);
	return verdict;
}

TEST(begin_is_held_and_answered)
{
	size_t used;

	REQUIRE(begin());
	CHECK_INT(take("BEGIN READ ONLY", &used), VERDICT_PASS);
	CHECK_INT(used, sizeof("BEGIN READ ONLY") + PG_HEADER);
	CHECK(request_holds_begin(client) && request_step_in(client, REQUEST_IN(BEGIN_HELD)));
	CHECK(client->activity.in_transaction && !client->pooled.link);
	/* a transaction without a request needs no server */
	CHECK_INT(take("COMMIT", &used), VERDICT_PASS);
	CHECK(used > 0 && !request_holds_begin(client) && !client->activity.in_transaction);
	CHECK_INT(client->request->step, REQUEST_DIRECT);
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
		CHECK_INT(client->request->step, requests[i].target == TARGET_READ ? REQUEST_TO_READ : REQUEST_TO_PRIMARY);
		/* the decision lasts until a server has the request */
		CHECK_INT(take("SELECT 2", &used), VERDICT_PASS);
		CHECK_INT(client->pooled.target, requests[i].target);
		request_refused(client);
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

/* The request of the next transaction needs a new decision. */
TEST(read_is_over_with_the_next_request)
{
	size_t used;

	REQUIRE(begin());
	take("BEGIN READ ONLY", &used);
	take("SELECT 1", &used);
	client->request->begin_is = BEGIN_ANSWERED;
	request_to(client, REQUEST_READ_ON_STANDBY);
	take("SELECT 1", &used);
	CHECK_INT(client->request->step, REQUEST_DIRECT);
	CHECK_INT(client->pooled.target, TARGET_PRIMARY);
	end();
}

TEST(request_of_a_handover)
{
	static const enum request_step steps[] = {
		REQUEST_DIRECT, REQUEST_BEGIN_HELD, REQUEST_TO_READ, REQUEST_TO_PRIMARY, REQUEST_READ_ON_STANDBY,
		REQUEST_READ_ON_PRIMARY, REQUEST_MAY_WRITE, REQUEST_DOUBTED,
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		struct bytes out = BYTES_EMPTY;
		struct request_record record;
		struct unpack in;
		size_t used;

		REQUIRE(begin());
		take("BEGIN READ ONLY", &used);
		client->request->step = (uint8_t)steps[i];
		client->reads_only = true;
		request_pack(&out, client);
		request_free(client);
		client->reads_only = false;
		client_prepare_request(client);
		REQUIRE(client->request != NULL);
		in = unpack_of(bytes_front(&out), bytes_size(&out));
		record = request_unpack(&in);
		CHECK(!in.bad && in.at == in.end);
		CHECK(request_restore(client, &record));
		CHECK_INT(client->request->step, steps[i]);
		CHECK(request_holds_begin(client) && client->reads_only);
		CHECK(memcmp(client->request->begin + PG_HEADER, "BEGIN READ ONLY", sizeof("BEGIN READ ONLY")) == 0);
		client->reads_only = false;
		bytes_free(&out);
		end();
	}
}

UNIT_MAIN
