/* The pooler's own messages between a client's messages: their ledger entries, and the routing of their answers. */
#include "conn/journal.h"
#include "conn/world.h"
#include "pg/build.h"
#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

static struct server server;
static int other;

static void begin(void)
{
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	server = (struct server){ .peer.stream = { .fd = pair[0], .phase = STREAM_OPEN }, .unnamed_of = 7, .batch = 3 };
	other = pair[1];
	ledger_init(&server.ledger);
}

static void end(void)
{
	ledger_clear(&server.ledger);
	close(server.peer.stream.fd);
	close(other);
}

static const uint8_t batch[] = {
	PGC_PARSE, 0, 0, 0, 8, 'x', 0, 0, 0, PGC_BIND, 0, 0, 0, 4, PGC_EXECUTE, 0, 0, 0, 4, PGC_SYNC, 0, 0, 0, 4,
};

static void send_batch(void)
{
	struct bytes out = BYTES_EMPTY;
	uint8_t got[2 * sizeof(batch)];

	bytes_append(&out, batch, sizeof(batch));
	CHECK(journal_send(&server, MARK_TASK, &out));
	CHECK_INT(read(other, got, sizeof(got)), sizeof(batch));
	CHECK(memcmp(got, batch, sizeof(batch)) == 0);
	bytes_free(&out);
}

/* Checks that the answer belongs to a message of this owner and mark, and whether it completes the message. */
static void answer(char type, enum ledger_owner owner, enum ledger_mark mark, bool ends)
{
	enum ledger_owner told;

	CHECK_INT(ledger_next_mark(&server.ledger), mark);
	CHECK(ledger_received(&server.ledger, (uint8_t)type, &told) == LEDGER_ANSWER);
	CHECK_INT(told, owner);
	CHECK_INT(server.ledger.mark, ends ? mark : LEDGER_UNMARKED);
	ledger_check(&server.ledger);
}

TEST(answers_of_pooler_and_client_are_separated)
{
	begin();
	CHECK(ledger_sent_query(&server.ledger));
	send_batch();
	CHECK(ledger_sent_query(&server.ledger));
	CHECK_INT(server.batch, 4);
	CHECK_INT(server.unnamed_of, 7);
	answer('C', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	answer('Z', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	answer('1', OWED_TO_POOLER, MARK_TASK, true);
	answer('2', OWED_TO_POOLER, MARK_TASK, true);
	answer('D', OWED_TO_POOLER, MARK_TASK, false);
	answer('C', OWED_TO_POOLER, MARK_TASK, true);
	CHECK(!server.ledger.mark_failed);
	answer('Z', OWED_TO_POOLER, MARK_TASK, true);
	answer('C', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	answer('Z', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	CHECK(ledger_is_empty(&server.ledger));
	end();
}

/* Each feature learns how many of its messages the server skips; the Sync is answered. */
TEST(error_reports_skipped_messages_by_mark)
{
	begin();
	CHECK(ledger_sent_marked(&server.ledger, PGC_PARSE, 0, OWED_TO_CLIENT, MARK_PREPARED));
	CHECK(ledger_sent_marked(&server.ledger, PGC_BIND, 0, OWED_TO_CLIENT, MARK_PREPARED));
	send_batch();
	answer('E', OWED_TO_CLIENT, MARK_PREPARED, true);
	CHECK(server.ledger.mark_failed);
	CHECK_INT(server.ledger.marks_skipped[LEDGER_UNMARKED], 4);
	CHECK_INT(server.ledger.marks_skipped[MARK_PREPARED], 1);
	CHECK_INT(server.ledger.marks_skipped[MARK_TASK], 3);
	answer('Z', OWED_TO_POOLER, MARK_TASK, true);
	CHECK(!server.ledger.mark_failed && server.ledger.marks_skipped[LEDGER_UNMARKED] == 0);
	CHECK(ledger_is_empty(&server.ledger));
	end();
}

/* ReadyForQuery completes a Query after any answer; the client's unnamed statement is dropped. */
TEST(pooler_query)
{
	struct bytes out = BYTES_EMPTY;

	begin();
	pg_build_string(&out, 'Q', "SELECT 1");
	CHECK(journal_send(&server, MARK_TASK, &out));
	CHECK_INT(server.unnamed_of, 0);
	CHECK_INT(server.batch, 3);
	answer('E', OWED_TO_POOLER, MARK_TASK, false);
	answer('Z', OWED_TO_POOLER, MARK_TASK, true);
	CHECK(!server.ledger.mark_failed && ledger_is_empty(&server.ledger));
	bytes_free(&out);
	end();
}

TEST(failed_message_is_not_sent)
{
	struct bytes out = BYTES_EMPTY;
	uint8_t got;

	begin();
	out.failed = true;
	CHECK(!journal_send(&server, MARK_TASK, &out));
	CHECK(ledger_is_empty(&server.ledger) && read(other, &got, 1) < 0);
	end();
}

UNIT_MAIN
