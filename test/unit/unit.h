#ifndef UNIT_H
#define UNIT_H

/*
 * The framework of the unit tests. A file defines tests with TEST(name) { ... } and ends with UNIT_MAIN. After a failure, CHECK continues and REQUIRE
 * leaves the test. Each file is a separate program, which prints one line for each test and "N passed, M failed" at the end.
 */
#include <stdio.h>
#include <string.h>

struct unit_test {
	const char *name;
	void (*run)(void);
	struct unit_test *next;
};

static struct unit_test *unit_first, **unit_end = &unit_first;
static int unit_faults;

#define TEST(id)                                                                    \
	static void unit_run_##id(void);                                            \
	static struct unit_test unit_test_##id = { #id, unit_run_##id, NULL };      \
	__attribute__((constructor)) static void unit_add_##id(void)                \
	{                                                                           \
		*unit_end = &unit_test_##id;                                        \
		unit_end = &unit_test_##id.next;                                    \
	}                                                                           \
	static void unit_run_##id(void)

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
	int main(void)                                                              \
	{                                                                           \
		int passed = 0, failed = 0;                                         \
		for (struct unit_test *t = unit_first; t; t = t->next) {            \
			unit_faults = 0;                                            \
			t->run();                                                   \
			printf("%s %s\n", unit_faults ? "FAIL" : "ok", t->name);    \
			unit_faults ? failed++ : passed++;                          \
		}                                                                   \
		printf("%d passed, %d failed\n", passed, failed);                   \
		return failed ? 1 : 0;                                              \
	}

#endif
