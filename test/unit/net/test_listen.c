/* Listeners: options inherited by accepted sockets, shared ports, and Unix socket files: active, stale, or foreign. */
#include "base/log.h"
#include "listening.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/vm_sockets.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof value;

	return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

TEST(accepted_sockets_inherit)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 10, .defer_accept = false,
					.options = { true, 21, 0, 4, 5000, 0 } };
	struct socket_options later = { true, 0, 0, 0, 0, 0 };
	char text[60];
	int fd, idle;

	begin();
	fd = socket(AF_INET, SOCK_STREAM, 0);
	idle = option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE);
	close(fd);
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	CHECK(listening->port != 0);
	CHECK(!listen_socket_is_unix(listening));
	snprintf(text, sizeof text, "127.0.0.1:%u", (unsigned)listening->port);
	CHECK_TEXT(listening->text, text);
	fd = dial(listening);
	until(1);
	CHECK_INT(option_of(accepted[0], IPPROTO_TCP, TCP_NODELAY), 1);
	CHECK_INT(option_of(accepted[0], SOL_SOCKET, SO_KEEPALIVE), 1);
	CHECK_INT(option_of(accepted[0], IPPROTO_TCP, TCP_KEEPIDLE), 21);
	CHECK_INT(option_of(accepted[0], IPPROTO_TCP, TCP_KEEPCNT), 4);
	CHECK_INT(option_of(accepted[0], IPPROTO_TCP, TCP_USER_TIMEOUT), 5000);
	CHECK(fcntl(accepted[0], F_GETFL) & O_NONBLOCK);
	CHECK_INT(fcntl(accepted[0], F_GETFD), FD_CLOEXEC);
	close(fd);
	/* After a RELOAD: 0 restores the system default. */
	listen_socket_set_options(listening, &later, true);
	CHECK(option_of(listening->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) >= 45);
	listen_socket_set_options(listening, &later, false);
	fd = dial(listening);
	until(2);
	CHECK_INT(option_of(accepted[1], IPPROTO_TCP, TCP_KEEPIDLE), idle);
	CHECK_INT(option_of(accepted[1], IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
	close(fd);
	end();
}

TEST(ipv4_and_ipv6_share_a_port)
{
	struct listen_config config = { .host = "0.0.0.0", .backlog = 10 };
	struct listen_socket *four, *again;
	char text[60];
	int fd;

	begin();
	four = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(four);
	config.port = four->port;
	config.host = "::";
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	snprintf(text, sizeof text, "[::]:%u", (unsigned)config.port);
	CHECK_TEXT(listening->text, text);
	again = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	CHECK(!again);
	snprintf(text, sizeof text, "cannot listen on [::]:%u: ", (unsigned)config.port);
	CHECK_INT(errno, EADDRINUSE);
	CHECK(strncmp(why, text, strlen(text)) == 0 && strstr(why, strerror(EADDRINUSE)));
	fd = dial(listening);
	until(1);
	close(fd);
	listen_socket_close(&four, true);
	end();
}

TEST(reuseport)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 10, .reuseport = true };
	struct listen_socket *second;

	begin();
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	config.port = listening->port;
	second = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	CHECK(second);
	listen_socket_close(&second, true);
	end();
}

/* Some systems do not allow every process to attach a filter. */
static bool may_filter(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	struct sock_fprog program = { 1, &all };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	bool ok = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;

	close(fd);
	return ok;
}

/* The kernel retransmits dropped packets late: some connections take a second. */
TEST(closing_listener_leaves_new_connections_to_the_others)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 100, .reuseport = true };
	struct listen_socket *leaver;
	int fds[32];

	begin();
	leaver = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(leaver);
	config.port = leaver->port;
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	CHECK(listen_socket_leave(leaver));
	CHECK(listen_socket_leave(leaver));
	for (int i = 0; i < 32; i++)
		fds[i] = dial(listening);
	/* no connection reaches the closing listener: on_accept checks the listener */
	any_listener = !may_filter();
	listen_socket_drain(leaver);
	listen_socket_drain(listening);
	CHECK(any_listener || count < 32);
	listen_socket_close(&leaver, true);
	until(32);
	for (int i = 0; i < 32; i++)
		close(fds[i]);
	end();
}

/* With TCP_DEFER_ACCEPT, a connection is not queued until its client has sent data. */
TEST(connections_in_progress_are_accepted_while_closing)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 100, .reuseport = true, .defer_accept = true };
	socklen_t size = 0;
	int fds[5];

	begin();
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	for (int i = 0; i < 5; i++)
		fds[i] = dial(listening);
	CHECK(listen_socket_leave(listening));
	listen_socket_drain(listening);
	CHECK_INT(count, 0);
	for (int i = 0; i < 5; i++)
		CHECK_INT(write(fds[i], "x", 1), 1);
	listen_socket_drain(listening);
	CHECK_INT(count, 5);
	CHECK_INT(getsockopt(accepted[0], SOL_SOCKET, SO_GET_FILTER, NULL, &size), 0);
	CHECK_INT(size, 0);
	for (int i = 0; i < 5; i++)
		close(fds[i]);
	end();
}

TEST(closing_without_other_listeners_keeps_connections)
{
	struct listen_config config = { .host = "127.0.0.1", .backlog = 100 };
	int fds[3];

	begin();
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	CHECK(!listen_socket_leave(listening));
	for (int i = 0; i < 3; i++)
		fds[i] = dial(listening);
	listen_socket_drain(listening);
	CHECK_INT(count, 3);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	end();
}

TEST(bad_hosts)
{
	struct listen_config config = { .host = "localhost", .backlog = 10 };
	char longer[200] = "/";

	begin();
	CHECK(!listen_socket_open(base, &config, on_accept, NULL, why, sizeof why));
	CHECK_TEXT(why, "\"localhost\" is not an IP address");
	CHECK_INT(errno, EINVAL);
	memset(longer + 1, 'x', sizeof longer - 2);
	config.host = longer;
	CHECK(!listen_socket_open(base, &config, on_accept, NULL, why, sizeof why));
	CHECK(strstr(why, "too long"));
	config.host = "/nonexistent-directory-of-pgweir";
	config.port = 5;
	CHECK(!listen_socket_open(base, &config, on_accept, NULL, why, sizeof why));
	CHECK_TEXT(why, "cannot listen on unix:/nonexistent-directory-of-pgweir/.s.PGSQL.5: No such file or directory");
	end();
}

TEST(unix_socket_files)
{
	char dir[] = "/tmp/pgweir-listen-XXXXXX", path[100], group[20], text[120];
	struct listen_config config = { .host = dir, .port = 6432, .backlog = 10, .unix_mode = 0770 };
	struct listen_socket *rival;
	struct stat file;
	mode_t mask = umask(077);
	struct address a;
	int fd, stale;

	REQUIRE(mkdtemp(dir));
	begin();
	snprintf(path, sizeof path, "%s/.s.PGSQL.6432", dir);
	snprintf(group, sizeof group, "%u", (unsigned)getgid());
	config.unix_group = group;
	/* Stale: a socket file whose process has ended. */
	REQUIRE(address_from_unix(&a, dir, 6432));
	stale = socket(AF_UNIX, SOCK_STREAM, 0);
	REQUIRE(bind(stale, &a.u.any, a.size) == 0);
	close(stale);
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	snprintf(text, sizeof text, "unix:%s", path);
	CHECK_TEXT(listening->text, text);
	CHECK(listen_socket_is_unix(listening));
	CHECK_INT(listening->port, 6432);
	REQUIRE(stat(path, &file) == 0);
	CHECK_INT(file.st_mode & 07777, 0770);
	fd = dial(listening);
	until(1);
	close(fd);
	/* Active: refused and not changed. */
	rival = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	CHECK(!rival);
	CHECK(strstr(why, "socket is in use"));
	until((fd = dial(listening), 2));
	close(fd);
	/* The file now belongs to a successor and is not removed. */
	REQUIRE(unlink(path) == 0);
	rival = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(rival);
	listen_socket_close(&listening, true);
	CHECK(access(path, F_OK) == 0);
	listen_socket_close(&rival, false);
	CHECK(access(path, F_OK) == 0);
	/* The file of a listener that failed during setup is removed. */
	config.unix_group = "no-such-group-here";
	CHECK(!listen_socket_open(base, &config, on_accept, NULL, why, sizeof why));
	CHECK(strstr(why, "group \"no-such-group-here\" does not exist"));
	CHECK(access(path, F_OK) != 0);
	/* Not a socket: never removed. */
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	config.unix_group = NULL;
	CHECK(!listen_socket_open(base, &config, on_accept, NULL, why, sizeof why));
	CHECK(strstr(why, "not a socket"));
	CHECK(access(path, F_OK) == 0);
	unlink(path);
	end();
	rmdir(dir);
	umask(mask);
}

TEST(abstract_names)
{
	char name[60], text[80];
	struct listen_config config = { .host = name, .port = 77, .backlog = 10 };
	int fd;

	snprintf(name, sizeof name, "@pgweir-test-%d", (int)getpid());
	begin();
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	snprintf(text, sizeof text, "unix:%s/.s.PGSQL.77", name);
	CHECK_TEXT(listening->text, text);
	CHECK_INT(listening->port, 77);
	CHECK(!listen_socket_open(base, &config, on_accept, NULL, why, sizeof why));
	CHECK(strstr(why, "socket is in use"));
	fd = dial(listening);
	until(1);
	close(fd);
	end();
}

TEST(adopted_sockets)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), client;
	struct address a;

	begin();
	REQUIRE(address_from_ip(&a, "127.0.0.1", 0));
	REQUIRE(bind(fd, &a.u.any, a.size) == 0);
	CHECK(!listen_socket_adopt(base, fd, on_accept, NULL, why, sizeof why));
	CHECK(strstr(why, "not a listening"));
	CHECK(!listen_socket_adopt(base, -1, on_accept, NULL, why, sizeof why));
	REQUIRE(listen(fd, 5) == 0);
	listening = listen_socket_adopt(base, fd, on_accept, NULL, why, sizeof why);
	REQUIRE(listening);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK(listening->port != 0);
	client = dial(listening);
	until(1);
	close(client);
	end();
}

/* Clients of such a socket have neither an address nor a user. */
TEST(adopted_socket_of_another_family)
{
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
	struct sockaddr_vm a = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = VMADDR_PORT_ANY };

	/* a kernel may lack this family */
	if (fd < 0)
		return;
	begin();
	REQUIRE(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 5) == 0);
	CHECK(!listen_socket_adopt(base, fd, on_accept, NULL, why, sizeof why));
	CHECK(strstr(why, "of TCP or Unix"));
	close(fd);
	end();
}

/* ---- accepting: a burst, an owner that stops or closes in its callback, exhausted descriptors ---- */

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
	struct listen_socket *urgent;
	int clients[20], late, before;

	begin();
	if (!log_configure(&quiet))
		return 1;
	listening = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	config.uses_reserve = true;
	urgent = listen_socket_open(base, &config, on_accept, NULL, why, sizeof why);
	if (!listening || !urgent)
		return 2;
	listen_socket_set_accepting(urgent, false);
	late = dial(urgent);
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
	/* the reserve is for this socket, too */
	listen_socket_set_accepting(urgent, true);
	event_base_loop(base, EVLOOP_ONCE);
	if (count != 6)
		return 7;
	before = accepts;
	/* After the pause the situation is unchanged, and no further line is logged. */
	event_base_loop(base, EVLOOP_ONCE);	/* the timer */
	event_base_loop(base, EVLOOP_ONCE);	/* the queue */
	if (count != 6 || accepts != before)
		return 5;
	/* One more than necessary: below the reserve, no descriptor would be available to test whether a connection waits. */
	for (int i = 0; i < 17; i++)
		close(clients[i]);
	until(21);
	if (lines_with(log_file, "accepting connections") != 1 || lines_with(log_file, "cannot accept") != 1)
		return 6;
	for (int i = 17; i < 20; i++)
		close(clients[i]);
	close(late);
	listen_socket_close(&urgent, false);
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

UNIT_ALONE
