/*
 * The pidfile: of the living, of the dead, and of somebody else.
 */
#include "unit.h"

#include "main/pidfile.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[96], why[256];

static void begin(void)
{
	snprintf(directory, sizeof directory, "/tmp/test_pidfile.XXXXXX");
	if (!mkdtemp(directory))
		abort();
	snprintf(path, sizeof path, "%s/pgweir.pid", directory);
	why[0] = '\0';
}

static void end(void)
{
	unlink(path);
	rmdir(directory);
}

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static const char *read_file(void)
{
	static char text[64];
	FILE *f = fopen(path, "r");
	size_t size;

	if (!f)
		return NULL;
	size = fread(text, 1, sizeof text - 1, f);
	text[size] = '\0';
	fclose(f);
	return text;
}

static const char *our_line(void)
{
	static char text[32];

	snprintf(text, sizeof text, "%ld\n", (long)getpid());
	return text;
}

/* The id of a process that has ended. */
static pid_t dead_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

TEST(written_and_removed)
{
	struct pidfile *p;

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	CHECK_TEXT(read_file(), our_line());
	pidfile_release(&p);
	CHECK(!p);
	CHECK(access(path, F_OK) < 0);
	pidfile_release(&p);
	end();
}

TEST(stale_one_is_replaced)
{
	struct pidfile *p;
	char text[64];

	begin();
	snprintf(text, sizeof text, "%ld\nand a longer tail than ours\n", (long)dead_process());
	write_file(text);
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	CHECK_TEXT(read_file(), our_line());
	pidfile_release(&p);
	end();
}

TEST(nonsense_is_replaced)
{
	static const char *const nonsense[] = { "", "\n", "me", "-1\n", "0\n", "99999999999999999999\n" };

	for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
		struct pidfile *p;

		begin();
		write_file(nonsense[i]);
		p = pidfile_take(path, why, sizeof why);
		CHECK(p);
		CHECK_TEXT(read_file(), our_line());
		pidfile_release(&p);
		end();
	}
}

TEST(living_owner_without_a_lock)
{
	char text[32];

	begin();
	snprintf(text, sizeof text, "%ld\n", (long)getppid());
	write_file(text);
	CHECK(!pidfile_take(path, why, sizeof why));
	CHECK(strstr(why, path) && strstr(why, "is running"));
	CHECK_TEXT(read_file(), text);
	end();
}

TEST(living_owner_with_a_lock)
{
	struct pidfile *p;

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	/* our own number in it would be no reason to refuse, the lock is */
	CHECK(!pidfile_take(path, why, sizeof why));
	CHECK(strstr(why, "is running"));
	pidfile_release(&p);
	p = pidfile_take(path, why, sizeof why);
	CHECK(p);
	pidfile_release(&p);
	end();
}

TEST(somebody_elses_is_left_alone)
{
	struct pidfile *p;

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	unlink(path);
	write_file("1\n");
	pidfile_release(&p);
	CHECK_TEXT(read_file(), "1\n");
	end();
}

TEST(no_such_directory)
{
	begin();
	CHECK(!pidfile_take("/tmp/no such directory/pgweir.pid", why, sizeof why));
	CHECK(strstr(why, "No such file or directory"));
	end();
}

TEST(symbolic_link_is_refused)
{
	char target[96];

	begin();
	snprintf(target, sizeof target, "%s/target", directory);
	REQUIRE(symlink(target, path) == 0);
	CHECK(!pidfile_take(path, why, sizeof why));
	CHECK(access(target, F_OK) < 0);
	end();
}

TEST(readable_by_all_writable_by_us)
{
	struct pidfile *p;
	struct stat s;
	mode_t saved = umask(022);

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p && stat(path, &s) == 0);
	CHECK_INT(s.st_mode & 0777, 0644);
	pidfile_release(&p);
	umask(saved);
	end();
}

/* As in an online restart, with a second descriptor in place of a second process. */
TEST(it_goes_along_with_its_lock)
{
	struct pidfile *old, *new, *third;
	char elsewhere[128];
	int fd;

	begin();
	old = pidfile_take(path, why, sizeof why);
	REQUIRE(old);
	fd = dup(pidfile_descriptor(old));
	snprintf(elsewhere, sizeof elsewhere, "%s.other", path);
	CHECK(!pidfile_adopt(elsewhere, fd));
	new = pidfile_adopt(path, fd);
	REQUIRE(new);
	write_file("1\n");
	pidfile_forget(&old);
	CHECK(!old);
	/* the file is there still, and locked */
	third = pidfile_take(path, why, sizeof why);
	CHECK(!third);
	CHECK(pidfile_write(new));
	CHECK_TEXT(read_file(), our_line());
	pidfile_release(&new);
	CHECK(access(path, F_OK) != 0);
	end();
}

UNIT_MAIN
