/*
 * main() of the unit tests: see unit.h.
 *
 * One line for each test, and "N passed, M failed" at the end. Each file runs in a child process, so it begins with untouched variables of the rooms,
 * and a crash or a leak fails this file only: the child counts in memory that it shares with its parent, and a child that ends otherwise than by
 * exit() with the status of its counts is one more failure.
 */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MOST 64

struct counts {
	int passed, failed;
};

static struct unit_file {
	char name[64];			/* "test_link" */
	void (*before)(void);
	struct unit_test *first, **end;
	struct counts counts;
} files[FILES_MOST];
static int file_count;			/* of complete files; files[file_count] still gets tests */

int unit_faults;

void unit_add(struct unit_test *test)
{
	struct unit_file *file = &files[file_count];

	if (file_count == FILES_MOST)
		abort();
	if (!file->end)
		file->end = &file->first;
	*file->end = test;
	file->end = &test->next;
}

void unit_add_before(void (*run)(void))
{
	if (files[file_count].before)
		abort();
	files[file_count].before = run;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void unit_end_file(const char *path)
{
	const char *base = base_name(path);

	snprintf(files[file_count++].name, sizeof(files[0].name), "%.*s", (int)strcspn(base, "."), base);
}

static int run_tests(const struct unit_file *file, struct counts *counts)
{
	if (file->before)
		file->before();
	for (struct unit_test *test = file->first; test; test = test->next) {
		unit_faults = 0;
		test->run();
		printf("%s %s\n", unit_faults ? "FAIL" : "ok", test->name);
		unit_faults ? counts->failed++ : counts->passed++;
	}
	return counts->failed ? 1 : 0;
}

static void run_in_child(struct unit_file *file, struct counts *shared)
{
	int status, want;
	pid_t child;

	*shared = (struct counts){ 0, 0 };
	fflush(NULL);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(run_tests(file, shared));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	file->counts = *shared;
	want = file->counts.failed ? 1 : 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == want)
		return;
	file->counts.failed++;
	printf("FAIL %s: ended with %s %d\n", file->name, WIFSIGNALED(status) ? "signal" : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static struct unit_file *file_of_name(const char *name)
{
	for (int i = 0; i < file_count; i++) {
		if (strcmp(files[i].name, name) == 0)
			return &files[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct unit_file *only = file_count == 1 ? &files[0] : file_of_name(base_name(argv[0]));
	struct counts *shared, sum = { 0, 0 };

	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (only) {
		run_tests(only, &sum);
		printf("%d passed, %d failed\n", sum.passed, sum.failed);
		return sum.failed ? 1 : 0;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		abort();
	for (int i = 0; i < file_count; i++) {
		printf("-- %s\n", files[i].name);
		run_in_child(&files[i], shared);
		sum.passed += files[i].counts.passed;
		sum.failed += files[i].counts.failed;
	}
	for (int i = 0; i < file_count; i++) {
		if (files[i].counts.failed)
			printf("%s: %d failed\n", files[i].name, files[i].counts.failed);
	}
	printf("%d passed, %d failed\n", sum.passed, sum.failed);
	return sum.failed ? 1 : 0;
}
