/* The socket for online restart requests: its path, its permissions, and existing files at its path. */
#include "conn/takeover_socket.h"
#include "conf/settings.h"
#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], pidfile[96], path[128], why[256];
static struct settings all, *settings = &all;
static struct event_base *base;

static void begin(void)
{
	snprintf(directory, sizeof(directory), "/tmp/test_takeover.XXXXXX");
	if (!mkdtemp(directory))
		abort();
	chmod(directory, 0755);
	snprintf(pidfile, sizeof(pidfile), "%s/p.pid", directory);
	snprintf(path, sizeof(path), "%s.takeover", pidfile);
	*settings = (struct settings){ .pidfile = pidfile, .unix_socket_dir = directory, .listen_port = 6432 };
	base = event_base_new();
	why[0] = '\0';
}

static void end(void)
{
	event_base_free(base);
	CHECK(rmdir(directory) == 0);
}

static void on_accepted(void *context, int fd, const struct address *peer, struct listen_socket *from)
{
	(void)context, (void)peer, (void)from;
	close(fd);
}

/* The running process begins to listen. NULL: it cannot, and `why` has the reason. */
static struct listen_socket *listens(void)
{
	return takeover_socket_open(base, settings, on_accepted, NULL, why, sizeof(why));
}

/* The running process cannot listen; returns the reason. */
static const char *refusal(void)
{
	why[0] = '\0';
	CHECK(!listens());
	return why;
}

/* The new process looks for the running process. */
static enum taker_found finds(void)
{
	int fd = -1;
	enum taker_found found = takeover_socket_connect(settings, &fd, why, sizeof(why));

	CHECK_INT(fd >= 0, found == TAKER_FOUND);
	if (fd >= 0)
		close(fd);
	return found;
}

static mode_t mode_of(const char *file)
{
	struct stat s;

	return lstat(file, &s) == 0 ? s.st_mode : 0;
}

static void make_file(const char *name)
{
	FILE *f = fopen(name, "w");

	fputs("text", f);
	fclose(f);
}

/* Connects to the socket at `path`, or to the abstract socket of the file "@...". Returns whether a process listens. */
static bool connects(const char *file)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	bool is_abstract = *file == '@';
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), size;
	bool done;

	size = snprintf(a.sun_path + is_abstract, sizeof(a.sun_path) - 1, is_abstract ? "pgweir-takeover/%s" : "%s", file + is_abstract);
	done = connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size + 1)) == 0;
	close(fd);
	return done;
}

static void check_nobody(const char *text)
{
	CHECK_INT(finds(), TAKER_NOBODY);
	CHECK_TEXT(why, text);
}

TEST(beside_the_pidfile)
{
	struct listen_socket *giver;
	mode_t saved = umask(0);

	begin();
	check_nobody("No such file or directory");
	giver = listens();
	REQUIRE(giver);
	CHECK_INT(mode_of(path), S_IFSOCK | 0600);
	CHECK(connects(path));
	CHECK_INT(finds(), TAKER_FOUND);
	listen_socket_close(&giver, true);
	CHECK(!giver);
	CHECK_INT(mode_of(path), 0);
	umask(saved);
	end();
}

/* Only root can be another user. */
TEST(no_other_user_can_connect)
{
	struct listen_socket *giver;
	int status = 1;
	pid_t child;

	if (getuid() != 0)
		return;
	begin();
	giver = listens();
	REQUIRE(giver);
	child = fork();
	if (child == 0)
		_exit(setuid(65534) == 0 && finds() == TAKER_NOBODY ? 0 : 1);
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
	listen_socket_close(&giver, true);
	end();
}

TEST(beside_the_socket_for_clients)
{
	struct listen_socket *giver;
	char clients[96];

	begin();
	settings->pidfile = NULL;
	snprintf(clients, sizeof(clients), "%s/.s.PGSQL.6432", directory);
	CHECK(strstr(refusal(), ".s.PGSQL.6432\": No such file"));
	make_file(clients);
	giver = listens();
	REQUIRE(giver);
	snprintf(path, sizeof(path), "%s.takeover", clients);
	CHECK_INT(mode_of(path), S_IFSOCK | 0600);
	CHECK(connects(path));
	listen_socket_close(&giver, true);
	CHECK_INT(mode_of(path), 0);
	unlink(clients);
	end();
}

TEST(abstract_as_the_socket_for_clients)
{
	struct listen_socket *giver;
	char name[64];

	begin();
	snprintf(name, sizeof(name), "@pgweir-unit-%ld", (long)getpid());
	settings->pidfile = "";
	settings->unix_socket_dir = name;
	check_nobody("Connection refused");
	giver = listens();
	REQUIRE(giver);
	snprintf(path, sizeof(path), "%s/.s.PGSQL.6432", name);
	CHECK(connects(path));
	CHECK(strstr(refusal(), "socket is in use"));
	listen_socket_close(&giver, true);
	end();
}

TEST(no_directory_for_the_socket)
{
	char long_one[200];

	begin();
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	settings->pidfile = long_one;
	CHECK(strstr(refusal(), "too long"));
	CHECK_INT(finds(), TAKER_NOBODY);
	settings->pidfile = settings->unix_socket_dir = "";
	CHECK(strstr(refusal(), "neither pidfile nor unix_socket_dir is set"));
	CHECK_INT(finds(), TAKER_REFUSED);
	end();
}

/* Makes a socket at the path, as a process that was killed leaves behind. */
static void make_stale_socket(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(a.sun_path, path, sizeof(a.sun_path));
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0);
	close(fd);
}

TEST(existing_files_at_the_socket_path)
{
	struct listen_socket *giver, *second;
	char kept[128];
	const char *line;

	begin();
	/* the socket of a killed process is replaced */
	make_stale_socket();
	check_nobody("Connection refused");
	giver = listens();
	REQUIRE(giver);
	/* the inode number is not reused */
	snprintf(kept, sizeof(kept), "%s/kept", directory);
	REQUIRE(link(path, kept) == 0);
	/* the socket of a process that listens is kept */
	line = refusal();
	CHECK(strstr(line, path) && strstr(line, "socket is in use"));
	CHECK(connects(path));
	/* the socket of a later process is not removed */
	unlink(path);
	second = listens();
	REQUIRE(second);
	listen_socket_close(&giver, true);
	CHECK(connects(path));
	listen_socket_close(&second, true);
	unlink(kept);
	/* a file that is not a socket is kept */
	make_file(path);
	CHECK(strstr(refusal(), "a file that is not a socket"));
	CHECK(unlink(path) == 0);
	CHECK(symlink("/nowhere", path) == 0);
	refusal();
	CHECK(unlink(path) == 0);
	end();
}

UNIT_MAIN
