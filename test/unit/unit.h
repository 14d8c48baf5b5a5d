#ifndef UNIT_H
#define UNIT_H

/*
 * The framework of the unit tests. A file defines tests with TEST(name) { ... } and ends with UNIT_MAIN. After a failure, CHECK continues and REQUIRE
 * leaves the test.
 *
 * The files of a room are one program, test/unit/ROOM/tests. Its main(), in unit.c, runs each file in a process of its own. The program also
 * answers to the name of a file (`make test/unit/relay/test_link`), and then runs that file only, in the first process, as a debugger wants it.
 *
 * A file that defines a function of the C library or of libpgweir.a in order to replace it ends with UNIT_ALONE, and is a program of its own: in the
 * program of its room the function would be replaced for all files.
 */
#include <stdio.h>
#include <string.h>

struct unit_test {
	const char *name;
	void (*run)(void);
	struct unit_test *next;
};

/* Failed checks of the test that runs. */
extern int unit_faults;
/* Called before main(). unit_end_file() names the file (__FILE__) of the tests that were added since its previous call. */
void unit_add(struct unit_test *test);
void unit_add_before(void (*run)(void));
void unit_end_file(const char *path);

#define TEST(id)                                                                    \
	static void unit_run_##id(void);                                            \
	static struct unit_test unit_test_##id = { #id, unit_run_##id, NULL };      \
	__attribute__((constructor)) static void unit_add_##id(void)                \
	{                                                                           \
		unit_add(&unit_test_##id);                                          \
	}                                                                           \
	static void unit_run_##id(void)

/* UNIT_BEFORE(name) { ... } runs in the process of its file, before the first test; at most one in each file. */
#define UNIT_BEFORE(id)                                                             \
	static void id(void);                                                       \
	__attribute__((constructor)) static void unit_add_##id(void)                \
	{                                                                           \
		unit_add_before(id);                                                \
	}                                                                           \
	static void id(void)

#define UNIT_FAIL(...)                                                              \
	(fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), \
	 fprintf(stderr, "\n"), unit_faults++)
#define CHECK(cond) ((cond) ? (void)0 : (void)UNIT_FAIL("failed: %s", #cond))
#define REQUIRE(cond)                                                               \
	do {                                                                        \
		if (!(cond)) {                                                      \
			UNIT_FAIL("failed: %s", #cond);                             \
			return;                                                     \
		}                                                                   \
	} while (0)
#define CHECK_INT(got, want)                                                        \
	do {                                                                        \
		long long unit_g = (long long)(got), unit_w = (long long)(want);    \
		if (unit_g != unit_w)                                               \
			UNIT_FAIL("%s is %lld, want %lld", #got, unit_g, unit_w);   \
	} while (0)
#define CHECK_TEXT(got, want)                                                       \
	do {                                                                        \
		const char *unit_g = (got), *unit_w = (want);                       \
		if (!unit_g || !unit_w || strcmp(unit_g, unit_w) != 0)              \
			UNIT_FAIL("%s is \"%s\", want \"%s\"", #got, unit_g ? unit_g : "(null)", unit_w ? unit_w : "(null)"); \
	} while (0)
/* Pairs of an input text and the expected output text of the function. */
#define CHECK_PAIRS(function, ...)                                                  \
	do {                                                                        \
		static const char *const unit_pairs[][2] = { __VA_ARGS__ };         \
		for (size_t unit_i = 0; unit_i < sizeof(unit_pairs) / sizeof(unit_pairs[0]); unit_i++) { \
			const char *unit_in = unit_pairs[unit_i][0], *unit_w = unit_pairs[unit_i][1]; \
			const char *unit_g = function(unit_in);                     \
			if (strcmp(unit_g, unit_w) != 0)                            \
				UNIT_FAIL("%s(\"%s\") is \"%s\", want \"%s\"", #function, unit_in, unit_g, unit_w); \
		}                                                                   \
	} while (0)

#define UNIT_MAIN                                                                   \
	__attribute__((constructor)) static void unit_add_file(void)                \
	{                                                                           \
		unit_end_file(__FILE__);                                            \
	}
#define UNIT_ALONE UNIT_MAIN

#endif
