/* The store of user secrets: it is created completely or not at all, and contains the secrets of the list. */
#include "backend/keys.h"

#include "base/mem.h"
#include "tempfile.h"
#include "unit.h"
#include "whole.h"

TEST(out_of_memory_creates_no_store)
{
	struct secrets *all = NULL;
	int failed = 1, more;

	for (more = 0; failed > 0 && more < 100; more++) {
		whole_memory_ends(more);
		all = secrets_new();
		failed = whole_memory_is_back();
		CHECK((all != NULL) == (failed == 0));
	}
	CHECK(more > 1 && failed == 0);
	REQUIRE(all);
	CHECK(all->keys && all->found_keys && !all->list);
	secrets_free(&all);
	CHECK(!all);
	secrets_free(&all);
}

TEST(listed)
{
	struct conf_problems problems = { .count = 0 };
	struct secrets *all = secrets_new();

	REQUIRE(all);
	CHECK(!userlist_find(all->list, "u"));
	all->list = userlist_load(temp_write("users.txt", "\"u\" \"one\"\n"), &problems);
	REQUIRE(all->list);
	CHECK_TEXT(userlist_find(all->list, "u")->bytes, "one");
	CHECK(!userlist_find(all->list, "v"));
	secrets_free(&all);
}

UNIT_MAIN
