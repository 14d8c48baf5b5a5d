/* What becomes of the server of a link: the decision, as a table. */
#include "relay/release.h"

#include "unit.h"

#define FREE .shares_server = true
#define GONE .client_ends = true, .may_finish = true

/* The views of servers, and what is decided. The reasons are for readers. */
static const struct {
	const char *name;
	struct release_view view;
	enum release_what what;
} rows[] = {
	{ "free", { FREE }, RELEASE_RETURN },
	{ "free, server_reset_query_always", { FREE, .needs_reset = true }, RELEASE_RESET },
	{ "free, server_lifetime over", { FREE, .is_spent = true }, RELEASE_CLOSE },
	{ "session mode", { .shares_server = false }, RELEASE_KEEP },
	{ "ending", { FREE, .is_stopped = true }, RELEASE_KEEP },
	{ "an answer is owed", { FREE, .owes = true }, RELEASE_KEEP },
	{ "in a transaction", { FREE, .in_transaction = true }, RELEASE_KEEP },
	{ "a task is executed", { FREE, .has_task = true }, RELEASE_KEEP },
	{ "a fatal error", { FREE, .said_fatal = true }, RELEASE_KEEP },
	{ "an incomplete answer", { FREE, .in_answer = true }, RELEASE_KEEP },
	{ "input is not processed", { FREE, .holds_input = true }, RELEASE_KEEP },
	{ "bytes are not sent", { FREE, .has_unsent = true }, RELEASE_KEEP },
	{ "an incomplete request", { FREE, .in_message = true }, RELEASE_KEEP },
	{ "a request is held", { FREE, .is_about_to_send = true }, RELEASE_KEEP },
	{ "possible state", { FREE, .has_state = true }, RELEASE_ASK },
	{ "possible state, in a transaction", { FREE, .has_state = true, .in_transaction = true }, RELEASE_KEEP },
	{ "possible state, a request is held", { FREE, .has_state = true, .is_about_to_send = true }, RELEASE_KEEP },
	/* the ledger */
	{ "in doubt", { FREE, .owes = true, .in_doubt = true }, RELEASE_SETTLE },
	{ "in doubt, in a transaction", { FREE, .owes = true, .in_doubt = true, .in_transaction = true }, RELEASE_KEEP },
	{ "in doubt, a request is incomplete", { FREE, .owes = true, .in_doubt = true, .in_message = true }, RELEASE_KEEP },
	{ "in doubt, answers are not processed", { FREE, .owes = true, .in_doubt = true, .holds_input = true, .holds_first = true }, RELEASE_KEEP },
	{ "lost", { FREE, .owes = true, .is_lost = true }, RELEASE_MOVE },
	{ "lost, in a batch", { FREE, .owes = true, .is_lost = true, .in_batch = true }, RELEASE_KEEP },
	{ "lost, in a transaction", { FREE, .owes = true, .is_lost = true, .in_transaction = true }, RELEASE_KEEP },
	{ "lost, with state", { FREE, .owes = true, .is_lost = true, .has_state = true }, RELEASE_PIN },
	{ "lost, pinned", { FREE, .owes = true, .is_lost = true, .has_state = true, .is_pinned = true }, RELEASE_KEEP },
	/* the client ends */
	{ "ended, free", { FREE, .client_ends = true }, RELEASE_RETURN },
	{ "ended, session", { .client_ends = true, .needs_reset = true }, RELEASE_RESET },
	{ "ended, held requests are nobody's", { FREE, .client_ends = true, .is_about_to_send = true }, RELEASE_RETURN },
	{ "ended in a query", { FREE, .client_ends = true, .owes = true }, RELEASE_CLOSE },
	{ "ended in a transaction", { FREE, .client_ends = true, .in_transaction = true }, RELEASE_CLOSE },
	{ "ended in a message", { FREE, .client_ends = true, .in_message = true }, RELEASE_CLOSE },
	{ "ended in doubt", { FREE, .client_ends = true, .owes = true, .in_doubt = true }, RELEASE_SETTLE },
	{ "ended in doubt, canceled", { FREE, .client_ends = true, .owes = true, .in_doubt = true, .is_canceled = true }, RELEASE_CLOSE },
	{ "ended in a task of pgweir", { FREE, .client_ends = true, .owes = true, .has_task = true, .task_ends_alone = true }, RELEASE_SETTLE },
	{ "ended in a task for it", { FREE, .client_ends = true, .owes = true, .has_task = true }, RELEASE_CLOSE },
	{ "ended, its state is reset", { FREE, .client_ends = true, .has_state = true, .leaves_state = true, .needs_reset = true }, RELEASE_RESET },
	{ "ended, its state stays", { FREE, .client_ends = true, .has_state = true, .leaves_state = true }, RELEASE_CLOSE },
	{ "replication", { .client_ends = true, .is_stream = true }, RELEASE_CLOSE },
	/* ... with client_gone = cancel or finish */
	{ "left free", { FREE, GONE }, RELEASE_RETURN },
	{ "left in a query", { FREE, GONE, .owes = true }, RELEASE_FINISH },
	{ "left in a session", { GONE, .owes = true, .in_answer = true, .holds_input = true, .has_unsent = true }, RELEASE_FINISH },
	{ "left in a transaction", { FREE, GONE, .in_transaction = true, .is_canceled = true }, RELEASE_FINISH },
	{ "left in doubt, in a transaction", { FREE, GONE, .owes = true, .in_doubt = true, .in_transaction = true }, RELEASE_FINISH },
	{ "left in doubt", { FREE, GONE, .owes = true, .in_doubt = true }, RELEASE_SETTLE },
	{ "left in a message", { FREE, GONE, .in_message = true }, RELEASE_CLOSE },
	{ "left in CopyData", { FREE, GONE, .owes = true, .in_message = true, .in_copy_data = true }, RELEASE_FINISH },
	{ "left a lost server", { FREE, GONE, .owes = true, .is_lost = true }, RELEASE_CLOSE },
	{ "left in a task for it", { FREE, GONE, .owes = true, .has_task = true }, RELEASE_CLOSE },
	{ "left with a fatal error", { FREE, GONE, .owes = true, .said_fatal = true }, RELEASE_CLOSE },
	{ "left replication", { GONE, .is_stream = true, .owes = true }, RELEASE_CLOSE },
};

TEST(decisions)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct release release = release_decide(&rows[i].view);

		CHECK(*release.why);
		if (release.what != rows[i].what)
			UNIT_FAIL("%s: %d instead of %d (%s)", rows[i].name, (int)release.what, (int)rows[i].what, release.why);
	}
}

/* Whatever else is known: a server with a transaction, a pending answer or an incomplete message never returns to its pool. */
TEST(no_server_returns_with_traces_of_a_client)
{
	for (unsigned bits = 0; bits < 1u << 13; bits++) {
		struct release_view v = {
			FREE, .owes = bits & 1, .in_transaction = bits & 2, .has_task = bits & 4, .said_fatal = bits & 8, .in_answer = bits & 16,
			.holds_input = bits & 32, .has_unsent = bits & 64, .in_message = bits & 128, .client_ends = bits & 256, .has_state = bits & 512,
			.may_finish = bits & 4096, .leaves_state = bits & 512, .in_doubt = (bits & 1) && (bits & 1024), .is_lost = (bits & 1) && (bits & 2048),
		};
		enum release_what what = release_decide(&v).what;

		if (bits & 255)
			CHECK(what != RELEASE_RETURN && what != RELEASE_RESET);
	}
}

UNIT_MAIN
