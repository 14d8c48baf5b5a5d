/* Accepting connections: a burst, an owner that stops or closes in its callback, and exhausted descriptors. */
#include "base/log.h"
#include "listening.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

TEST(one_event_empties_the_queue)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 100 };
	int fd[50];

	begin();
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	for (int i = 0; i < 50; i++)
		fd[i] = dial(listening);
	event_base_loop(base, EVLOOP_ONCE);
	CHECK_INT(count, 50);
	/* Stopped in the callback: the other connections stay in the queue. */
	for (int i = 0; i < 50; i++) {
		close(fd[i]);
		fd[i] = dial(listening);
	}
	stop_on_accept = true;
	until(51);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	CHECK_INT(count, 51);
	stop_on_accept = false;
	listen_socket_set_accepting(listening, true);
	until(100);
	for (int i = 0; i < 50; i++)
		close(fd[i]);
	end();
}

TEST(the_owner_may_close_from_within)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 10 };
	int one, two;

	begin();
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	one = dial(listening);
	two = dial(listening);
	close_on_accept = true;
	until(1);
	CHECK(!listening);
	CHECK_INT(count, 1);
	CHECK_INT(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	close(one);
	close(two);
	end();
}

static int lines_with(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	char line[300];
	int lines = 0;

	while (file && fgets(line, sizeof line, file))
		lines += strstr(line, text) != NULL;
	if (file)
		fclose(file);
	return lines;
}

/* The exit status of the child: 0 if it paused without spinning and recovered. */
static int run_out_of_descriptors(const char *log_file)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 100 };
	struct rlimit limit;
	struct log_config quiet = { .file = log_file, .quiet = true };
	int clients[20];

	begin();
	if (!log_configure(&quiet))
		return 1;
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	if (!listening)
		return 2;
	for (int i = 0; i < 20; i++)
		clients[i] = dial(listening);
	/* Room for five more, below the quarter that is reserved. */
	limit.rlim_cur = (rlim_t)clients[19] + 6;
	limit.rlim_max = limit.rlim_cur += limit.rlim_cur / 3;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 3;
	until(5);
	/* The queue is not empty and nothing is ready: the loop would sleep. */
	for (int i = 0; i < 20; i++)
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	if (count != 5 || accepts != 5)
		return 4;
	/* After the pause the situation is unchanged, and no further line is logged. */
	event_base_loop(base, EVLOOP_ONCE);	/* the timer */
	event_base_loop(base, EVLOOP_ONCE);	/* the queue */
	if (count != 5 || accepts != 5)
		return 5;
	/* One more than necessary: below the reserve, no descriptor would be available to test whether a connection waits. */
	for (int i = 0; i < 16; i++)
		close(clients[i]);
	until(20);
	if (lines_with(log_file, "accepting connections") != 1 || lines_with(log_file, "cannot accept") != 1)
		return 6;
	for (int i = 16; i < 20; i++)
		close(clients[i]);
	end();
	log_close();
	return 0;
}

TEST(exhausted_descriptors_pause_the_listener)
{
	char log_file[] = "/tmp/pgweir-listen-XXXXXX";
	int log = mkstemp(log_file), status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(run_out_of_descriptors(log_file));
	close(log);
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
	unlink(log_file);
}

UNIT_MAIN
