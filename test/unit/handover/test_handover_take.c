/* The socket for online restart requests: its path, its permissions, and existing files at its path. */
#include "handover/handover.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], pidfile[96], path[128], why[256];
static struct settings settings;

static void begin(void)
{
	snprintf(directory, sizeof(directory), "/tmp/test_takeover.XXXXXX");
	if (!mkdtemp(directory))
		abort();
	chmod(directory, 0755);
	snprintf(pidfile, sizeof(pidfile), "%s/p.pid", directory);
	snprintf(path, sizeof(path), "%s.takeover", pidfile);
	settings = (struct settings){ .pidfile = pidfile, .unix_socket_dir = directory, .listen_port = 6432 };
	why[0] = '\0';
}

static void end(void)
{
	CHECK(rmdir(directory) == 0);
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

static void check_connects(const struct handover_socket *to)
{
	int fd = -1, other;

	CHECK_INT(handover_connect(&settings, &fd, why, sizeof(why)), TAKER_FOUND);
	other = accept(to->fd, NULL, NULL);
	CHECK(other >= 0);
	close(other);
	close(fd);
}

static void check_nobody(const char *text)
{
	int fd = -1;

	CHECK_INT(handover_connect(&settings, &fd, why, sizeof(why)), TAKER_NOBODY);
	CHECK_TEXT(why, text);
}

TEST(beside_the_pidfile)
{
	struct handover_socket to;
	mode_t saved = umask(0);

	begin();
	check_nobody("No such file or directory");
	REQUIRE(handover_listen(&to, &settings, why, sizeof(why)));
	CHECK_INT(mode_of(path), S_IFSOCK | 0600);
	check_connects(&to);
	handover_unlisten(&to);
	CHECK_INT(to.fd, -1);
	CHECK_INT(mode_of(path), 0);
	handover_unlisten(&to);
	umask(saved);
	end();
}

/* Only root can be another user. */
TEST(no_other_user_can_connect)
{
	struct handover_socket to;
	int fd, status = 1;
	pid_t child;

	if (getuid() != 0)
		return;
	begin();
	REQUIRE(handover_listen(&to, &settings, why, sizeof(why)));
	child = fork();
	if (child == 0)
		_exit(setuid(65534) == 0 && handover_connect(&settings, &fd, why, sizeof(why)) == TAKER_NOBODY ? 0 : 1);
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
	handover_unlisten(&to);
	end();
}

TEST(beside_the_socket_for_clients)
{
	struct handover_socket to;
	char clients[96];

	begin();
	settings.pidfile = NULL;
	snprintf(clients, sizeof(clients), "%s/.s.PGSQL.6432", directory);
	CHECK(!handover_listen(&to, &settings, why, sizeof(why)));
	CHECK(strstr(why, ".s.PGSQL.6432\": No such file"));
	make_file(clients);
	REQUIRE(handover_listen(&to, &settings, why, sizeof(why)));
	snprintf(path, sizeof(path), "%s.takeover", clients);
	CHECK_INT(mode_of(path), S_IFSOCK | 0600);
	check_connects(&to);
	handover_unlisten(&to);
	CHECK_INT(mode_of(path), 0);
	unlink(clients);
	end();
}

TEST(abstract_as_the_socket_for_clients)
{
	struct handover_socket to, second;
	char name[64];

	begin();
	snprintf(name, sizeof(name), "@pgweir-unit-%ld", (long)getpid());
	settings.pidfile = "";
	settings.unix_socket_dir = name;
	check_nobody("Connection refused");
	REQUIRE(handover_listen(&to, &settings, why, sizeof(why)));
	check_connects(&to);
	CHECK(!handover_listen(&second, &settings, why, sizeof(why)));
	CHECK_TEXT(why, "Address already in use");
	handover_unlisten(&to);
	end();
}

TEST(no_directory_for_the_socket)
{
	struct handover_socket to;
	char long_one[200];
	int fd;

	begin();
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	settings.pidfile = long_one;
	CHECK(!handover_listen(&to, &settings, why, sizeof(why)));
	CHECK(strstr(why, "too long"));
	CHECK_INT(handover_connect(&settings, &fd, why, sizeof(why)), TAKER_NOBODY);
	settings.pidfile = settings.unix_socket_dir = "";
	CHECK(!handover_listen(&to, &settings, why, sizeof(why)));
	CHECK_TEXT(why, "neither pidfile nor unix_socket_dir is set");
	CHECK_INT(handover_connect(&settings, &fd, why, sizeof(why)), TAKER_REFUSED);
	end();
}

TEST(existing_files_at_the_socket_path)
{
	struct handover_socket to, second;
	char kept[128];

	begin();
	REQUIRE(handover_listen(&to, &settings, why, sizeof(why)));
	/* the inode number is not reused */
	snprintf(kept, sizeof(kept), "%s/kept", directory);
	REQUIRE(link(path, kept) == 0);
	/* the socket of a process that listens is kept */
	CHECK(!handover_listen(&second, &settings, why, sizeof(why)));
	CHECK(strstr(why, path) && strstr(why, "socket is in use"));
	check_connects(&to);
	/* the socket of a killed process is replaced */
	close(to.fd);
	check_nobody("Connection refused");
	REQUIRE(handover_listen(&second, &settings, why, sizeof(why)));
	/* and is not removed twice */
	to.fd = dup(second.fd);
	handover_unlisten(&to);
	check_connects(&second);
	handover_unlisten(&second);
	unlink(kept);
	/* a file that is not a socket is kept */
	make_file(path);
	CHECK(!handover_listen(&to, &settings, why, sizeof(why)));
	CHECK(strstr(why, "a file that is not a socket"));
	CHECK(unlink(path) == 0);
	CHECK(symlink("/nowhere", path) == 0);
	CHECK(!handover_listen(&to, &settings, why, sizeof(why)));
	CHECK(unlink(path) == 0);
	end();
}

UNIT_MAIN
