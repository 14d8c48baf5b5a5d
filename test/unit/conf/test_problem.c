/* The list of problems. */
#include "conf/conf.h"

#include "unit.h"

TEST(problems_are_kept_in_order)
{
	struct conf_problems p = { 0 };
	char file[] = "a.ini";

	conf_problem_add(&p, false, file, 3, "found %d", 7);
	conf_problem_add(&p, true, NULL, 0, "%s", "w");
	file[0] = 'X';
	CHECK_INT(p.count, 2);
	CHECK_INT(p.errors, 1);
	CHECK_TEXT(p.items[0].file, "a.ini");
	CHECK_INT(p.items[0].line, 3);
	CHECK_TEXT(p.items[0].text, "found 7");
	CHECK(!p.items[0].is_warning);
	CHECK(!p.items[1].file);
	CHECK(p.items[1].is_warning);
	conf_problems_free(&p);
	CHECK_INT(p.count, 0);
	CHECK_INT(p.errors, 0);
	conf_problems_free(&p);
}

TEST(list_is_limited_but_errors_are_counted)
{
	struct conf_problems p = { 0 };

	for (int i = 0; i < 5000; i++)
		conf_problem_add(&p, false, "f", i, "problem");
	CHECK_INT(p.errors, 5000);
	CHECK(p.count < 1000);
	CHECK(strstr(p.items[p.count - 1].text, "more problems"));
	CHECK_TEXT(p.items[p.count - 2].text, "problem");
	conf_problems_free(&p);
}

UNIT_MAIN
