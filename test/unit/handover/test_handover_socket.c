/* The socket for online restart requests: its path, its permissions, and existing files at its path. */
#include "handover/handover.h"
#include "base/log.h"
#include "conn/world.h"
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
static struct conf conf;
static struct settings *settings = &conf.settings;
static struct world world = { .conf = &conf };
static struct event_base *base;
static struct pidfile *no_pidfile;
static bool due;
static FILE *lines;		/* of the log */

static void begin(void)
{
	char logged[96];
	struct log_config config = { .file = logged, .quiet = true };

	snprintf(directory, sizeof(directory), "/tmp/test_takeover.XXXXXX");
	if (!mkdtemp(directory))
		abort();
	chmod(directory, 0755);
	snprintf(pidfile, sizeof(pidfile), "%s/p.pid", directory);
	snprintf(path, sizeof(path), "%s.takeover", pidfile);
	*settings = (struct settings){ .pidfile = pidfile, .unix_socket_dir = directory, .listen_port = 6432 };
	snprintf(logged, sizeof(logged), "%s/log", directory);
	CHECK(log_configure(&config));
	lines = fopen(logged, "r");
	unlink(logged);
	base = event_base_new();
	why[0] = '\0';
}

static void end(void)
{
	log_close();
	fclose(lines);
	event_base_free(base);
	CHECK(rmdir(directory) == 0);
}

/* The running process begins to listen. NULL: it cannot, and the log has the reason. */
static struct giver *listens(void)
{
	return giver_open(base, &world, &no_pidfile, &due);
}

/* The running process cannot listen; returns the line of the log. */
static const char *refusal(void)
{
	static char line[512];

	CHECK(!listens());
	line[0] = '\0';
	/* the end of the file was read before */
	clearerr(lines);
	while (fgets(line, sizeof(line), lines))
		;
	line[strcspn(line, "\n")] = '\0';
	return line;
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
	struct taker *taker;

	CHECK_INT(taker_find(settings, &taker, why, sizeof(why)), TAKER_NOBODY);
	CHECK(!taker);
	CHECK_TEXT(why, text);
}

TEST(beside_the_pidfile)
{
	struct giver *giver;
	mode_t saved = umask(0);

	begin();
	check_nobody("No such file or directory");
	giver = listens();
	REQUIRE(giver);
	CHECK_INT(mode_of(path), S_IFSOCK | 0600);
	CHECK(connects(path));
	giver_close(&giver);
	CHECK(!giver);
	CHECK_INT(mode_of(path), 0);
	giver_close(&giver);
	umask(saved);
	end();
}

/* Only root can be another user. */
TEST(no_other_user_can_connect)
{
	struct giver *giver;
	struct taker *taker;
	int status = 1;
	pid_t child;

	if (getuid() != 0)
		return;
	begin();
	giver = listens();
	REQUIRE(giver);
	child = fork();
	if (child == 0)
		_exit(setuid(65534) == 0 && taker_find(settings, &taker, why, sizeof(why)) == TAKER_NOBODY ? 0 : 1);
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
	giver_close(&giver);
	end();
}

TEST(beside_the_socket_for_clients)
{
	struct giver *giver;
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
	giver_close(&giver);
	CHECK_INT(mode_of(path), 0);
	unlink(clients);
	end();
}

TEST(abstract_as_the_socket_for_clients)
{
	struct giver *giver;
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
	CHECK(strstr(refusal(), ": socket is in use"));
	giver_close(&giver);
	end();
}

TEST(no_directory_for_the_socket)
{
	struct taker *taker;
	char long_one[200];

	begin();
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	settings->pidfile = long_one;
	CHECK(strstr(refusal(), "too long"));
	CHECK_INT(taker_find(settings, &taker, why, sizeof(why)), TAKER_NOBODY);
	settings->pidfile = settings->unix_socket_dir = "";
	CHECK(strstr(refusal(), ": neither pidfile nor unix_socket_dir is set"));
	CHECK_INT(taker_find(settings, &taker, why, sizeof(why)), TAKER_REFUSED);
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
	struct giver *giver, *second;
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
	giver_close(&giver);
	CHECK(connects(path));
	giver_close(&second);
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
