/* The table of server tasks: the pooler's own work on a server. */
#include "child.h"
#include "conn/world.h"

static struct world world = { .now = 5 * USEC };

TEST(task_begins_and_ends)
{
	static struct server server = { .peer.world = &world };

	server.task_failed = true;
	server_task_to(&server, TASK_RESET);
	CHECK_INT(server.task, TASK_RESET);
	CHECK(!server.task_failed);
	CHECK_INT(server.task_since, 5 * USEC);
	/* whether a task has failed is known after it is over */
	server.task_failed = true;
	server_task_to(&server, TASK_NONE);
	CHECK_INT(server.task, TASK_NONE);
	CHECK(server.task_failed);
}

TEST(each_task_has_a_name_and_a_log_text)
{
	CHECK(!server_task_name(TASK_NONE));
	for (int task = TASK_NONE + 1; task < SERVER_TASKS; task++) {
		CHECK(*server_task_name((enum server_task)task));
		CHECK(*server_task_words((enum server_task)task));
	}
	CHECK_TEXT(server_task_name(TASK_NOTE), "connect_query");
	CHECK_TEXT(server_task_words(TASK_RESET), "server_reset_query");
}

/* An idle server runs no task. */
TEST(no_task_runs_on_an_idle_server)
{
	for (int task = TASK_NONE + 1; task < SERVER_TASKS; task++) {
		CHECK(!server_task_fits((enum server_task)task, SERVER_IDLE));
		CHECK(!server_task_fits((enum server_task)task, SERVER_USED));
		CHECK(!server_task_fits((enum server_task)task, SERVER_BEING_CANCELED));
	}
	for (int state = 0; state < SERVER_STATES; state++)
		CHECK(server_task_fits(TASK_NONE, (enum server_state)state));
	CHECK(server_task_fits(TASK_BARRIER, SERVER_ACTIVE) && server_task_fits(TASK_BARRIER, SERVER_TESTED));
}

TEST(second_task_fails_the_assertion)
{
	static struct server server = { .peer.world = &world };
	struct child child;
	int report = 0;

	if (child_fork(&child)) {
		child_report(&child, &report, sizeof(report));
		server_task_to(&server, TASK_PARAMS);
		server_task_to(&server, TASK_BARRIER);
		_exit(0);
	}
	CHECK(child_end(&child, &report, sizeof(report)) != 0);
}

UNIT_MAIN
