/*
 * The pidfile of running and ended processes and of other users, and interference by other users. As root the other user is real; otherwise a child
 * of our own user plays the part and does only what another user could do.
 */
#include "unit.h"

#include "base/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[96], lock_path[112], why[256];

static void begin(void)
{
	snprintf(directory, sizeof directory, "/tmp/test_pidfile.XXXXXX");
	if (!mkdtemp(directory))
		abort();
	chmod(directory, 0755);
	snprintf(path, sizeof path, "%s/pgweir.pid", directory);
	snprintf(lock_path, sizeof lock_path, "%s.lock", path);
	why[0] = '\0';
}

static void end(void)
{
	unlink(path);
	unlink(lock_path);
	CHECK(rmdir(directory) == 0);
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

/* Returns the process ID of a process that has ended. */
static pid_t dead_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

/* Returns the process ID of a running process of our user. */
static pid_t living_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		pause();
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(written_and_removed)
{
	struct pidfile *p;

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	CHECK_TEXT(read_file(), our_line());
	CHECK(access(lock_path, F_OK) == 0);
	pidfile_release(&p, true);
	CHECK(!p);
	CHECK(access(path, F_OK) < 0 && access(lock_path, F_OK) < 0);
	pidfile_release(&p, true);
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
	pidfile_release(&p, true);
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
		pidfile_release(&p, true);
		end();
	}
}

TEST(running_owner_without_a_lock)
{
	pid_t owner = living_process();
	char text[32];

	begin();
	snprintf(text, sizeof text, "%ld\n", (long)owner);
	write_file(text);
	CHECK(!pidfile_take(path, why, sizeof why));
	CHECK(strstr(why, path) && strstr(why, "is running"));
	CHECK_TEXT(read_file(), text);
	CHECK(access(lock_path, F_OK) < 0);
	end();
	end_process(owner);
}

TEST(running_owner_with_a_lock)
{
	struct pidfile *p;

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	/* our own process ID in the file would not be a reason to refuse; the lock is */
	CHECK(!pidfile_take(path, why, sizeof why));
	CHECK(strstr(why, "is running"));
	pidfile_release(&p, true);
	p = pidfile_take(path, why, sizeof why);
	CHECK(p);
	pidfile_release(&p, true);
	end();
}

TEST(pidfile_of_another_user_is_not_changed)
{
	struct pidfile *p;

	begin();
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p);
	unlink(path);
	write_file("1\n");
	unlink(lock_path);
	REQUIRE(symlink(path, lock_path) == 0);
	pidfile_release(&p, true);
	CHECK_TEXT(read_file(), "1\n");
	CHECK(access(lock_path, F_OK) == 0);
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
	REQUIRE(stat(lock_path, &s) == 0);
	CHECK_INT(s.st_mode & 0777, 0600);
	pidfile_release(&p, true);
	umask(saved);
	end();
}

/* ---- other users ---- */

static bool lock_with_flock(int fd, int how)
{
	return flock(fd, how | LOCK_NB) == 0;
}

static bool lock_with_fcntl(int fd, int how)
{
	struct flock all = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return fcntl(fd, how, &all) == 0;
}

/* Another user opens the pidfile and locks it until its end of the pipe is closed. Returns its process ID. */
static pid_t locked_by_another_user(bool (*lock)(int fd, int how), int how, int *hold)
{
	int ends[2], told[2];
	char byte = 'n';
	pid_t child;

	if (pipe(ends) != 0 || pipe(told) != 0)
		abort();
	child = fork();
	if (child == 0) {
		int fd, private;

		close(ends[1]);
		if (getuid() == 0 && setuid(65534) != 0)
			_exit(1);
		fd = open(path, O_RDONLY);
		private = open(lock_path, O_RDONLY);
		byte = fd >= 0 && lock(fd, how) && (private < 0 || getuid() != 65534) ? 'y' : 'n';
		if (write(told[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 0)
			_exit(0);
		_exit(1);
	}
	close(ends[0]);
	close(told[1]);
	CHECK(read(told[0], &byte, 1) == 1 && byte == 'y');
	close(told[0]);
	*hold = ends[1];
	return child;
}

TEST(pidfile_locked_by_another_user_does_not_prevent_a_start)
{
	static const struct {
		bool (*lock)(int fd, int how);
		int how;
	} locks[] = {
		{ lock_with_flock, LOCK_EX }, { lock_with_flock, LOCK_SH }, { lock_with_fcntl, F_SETLK },
		{ lock_with_fcntl, F_OFD_SETLK },
	};

	for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
		struct pidfile *p;
		char text[32];
		pid_t child;
		int hold;

		begin();
		/* a killed process leaves both files */
		snprintf(text, sizeof text, "%ld\n", (long)dead_process());
		write_file(text);
		p = pidfile_take(path, why, sizeof why);
		REQUIRE(p);
		pidfile_release(&p, false);
		write_file(text);
		child = locked_by_another_user(locks[i].lock, locks[i].how, &hold);
		p = pidfile_take(path, why, sizeof why);
		CHECK(p);
		CHECK_TEXT(read_file(), our_line());
		/* the pidfile does not prevent an online restart either */
		if (p) {
			int fd = dup(p->lock);
			struct pidfile *next = pidfile_adopt(path, fd);

			CHECK(next && pidfile_write(next));
			pidfile_release(&p, false);
			pidfile_release(&next, true);
		}
		close(hold);
		waitpid(child, NULL, 0);
		end();
	}
}

/* Another user may get the process ID of a killed pgweir. */
TEST(process_of_another_user_does_not_prevent_a_start)
{
	struct pidfile *p;

	if (kill(1, 0) == 0 || errno != EPERM)
		return;
	begin();
	write_file("1\n");
	p = pidfile_take(path, why, sizeof why);
	CHECK(p);
	CHECK_TEXT(read_file(), our_line());
	pidfile_release(&p, true);
	end();
}

TEST(mode_of_the_lock_file_is_set)
{
	struct pidfile *p;
	struct stat s;

	begin();
	close(open(lock_path, O_RDWR | O_CREAT, 0666));
	REQUIRE(chmod(lock_path, 0666) == 0);
	p = pidfile_take(path, why, sizeof why);
	REQUIRE(p && stat(lock_path, &s) == 0);
	CHECK_INT(s.st_mode & 0777, 0600);
	pidfile_release(&p, true);
	end();
}

static void check_refused(const char *text)
{
	why[0] = '\0';
	CHECK(!pidfile_take(path, why, sizeof why));
	CHECK(strstr(why, text));
}

TEST(pidfile_that_is_not_a_file_is_refused)
{
	const char *both[] = { path, lock_path };

	for (int i = 0; i < 2; i++) {
		begin();
		REQUIRE(mkfifo(both[i], 0666) == 0);
		check_refused("it is not a regular file");
		CHECK(strstr(why, both[i]));
		unlink(both[i]);
		REQUIRE(mkdir(both[i], 0700) == 0);
		check_refused("it is not a regular file");
		rmdir(both[i]);
		REQUIRE(symlink("/dev/zero", both[i]) == 0);
		check_refused("it is not a regular file");
		end();
	}
}

TEST(lock_file_error_includes_the_path)
{
	begin();
	if (getuid() != 0) {
		write_file("");
		REQUIRE(chmod(directory, 0555) == 0);
		check_refused("pgweir.pid.lock\": Permission denied");
		REQUIRE(chmod(directory, 0755) == 0);
	}
	end();
}

/* ---- from process to process ---- */

/* Simulates an online restart with a second descriptor in place of a second process. */
TEST(pidfile_and_lock_are_handed_over)
{
	struct pidfile *old, *new, *third;
	char elsewhere[128];
	int fd;

	begin();
	old = pidfile_take(path, why, sizeof why);
	REQUIRE(old);
	fd = dup(old->lock);
	snprintf(elsewhere, sizeof elsewhere, "%s.other", path);
	CHECK(!pidfile_adopt(elsewhere, fd));
	new = pidfile_adopt(path, fd);
	REQUIRE(new);
	write_file("1\n");
	pidfile_release(&old, false);
	CHECK(!old);
	/* the file still exists and is locked; also if an administrator has removed it */
	third = pidfile_take(path, why, sizeof why);
	CHECK(!third);
	REQUIRE(rename(path, elsewhere) == 0);
	third = pidfile_take(path, why, sizeof why);
	CHECK(!third && strstr(why, "is locked by another process"));
	CHECK(access(path, F_OK) != 0);
	REQUIRE(rename(elsewhere, path) == 0);
	CHECK(pidfile_write(new));
	CHECK_TEXT(read_file(), our_line());
	pidfile_release(&new, true);
	CHECK(access(path, F_OK) != 0);
	end();
}

/* Earlier versions lock the pidfile itself and pass its descriptor. */
TEST(handed_over_by_an_earlier_version)
{
	struct pidfile *new, *third;
	pid_t owner = living_process();
	char text[32];
	int fd;

	begin();
	snprintf(text, sizeof text, "%ld\n", (long)owner);
	write_file(text);
	fd = open(path, O_RDWR);
	REQUIRE(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	/* a plain start is refused */
	third = pidfile_take(path, why, sizeof why);
	CHECK(!third && strstr(why, "is running"));
	new = pidfile_adopt(path, fd);
	REQUIRE(new);
	CHECK_TEXT(read_file(), text);
	third = pidfile_take(path, why, sizeof why);
	CHECK(!third);
	CHECK(pidfile_write(new));
	CHECK_TEXT(read_file(), our_line());
	/* the lock that an earlier version would check exists too */
	fd = open(path, O_RDWR);
	CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);
	close(fd);
	pidfile_release(&new, true);
	CHECK(access(path, F_OK) != 0 && access(lock_path, F_OK) != 0);
	end();
	end_process(owner);
}

UNIT_MAIN
