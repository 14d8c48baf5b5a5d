/* One entry of the file: the error messages about an unquoted password and the words after it. */
#include "conf/conf.h"

#include "tempfile.h"
#include "unit.h"

/* Returns all problems of a database with this list, and their line. */
static const char *said_of(const char *list)
{
	static char said[2048];
	char text[1024];
	struct conf_problems problems = { .count = 0 };
	struct conf *conf;
	size_t used = 0;

	snprintf(text, sizeof(text), "[databases]\nd = %s\n[pgweir]\n", list);
	conf = conf_load(temp_write("a.ini", text), &problems);
	said[0] = '\0';
	for (size_t i = 0; i < problems.count; i++)
		if (problems.items[i].line > 0)
			used += (size_t)snprintf(said + used, sizeof(said) - used, "%d: %s\n", problems.items[i].line,
						 problems.items[i].text);
	if (conf)
		conf_drop(&conf);
	conf_problems_free(&problems);
	return said;
}

#define QUOTES " (a value with blanks in it must stand in 'single quotes')\n"

TEST(words_after_a_password_are_reported_by_number)
{
	CHECK_PAIRS(said_of,
		{ "password='my horse' port=1", "" },
		{ "password=my horse=1 battery=2",
		  "2: database \"d\": unknown key behind \"password\": key=value number 2" QUOTES
		  "2: database \"d\": unknown key behind \"password\": key=value number 3" QUOTES },
		{ "password=my horse=1 battery",
		  "2: database \"d\": unknown key behind \"password\": key=value number 2" QUOTES
		  "2: database \"d\": behind \"password\", at key=value number 3: expected key=value" QUOTES },
		{ "host=a password=my horse",
		  "2: database \"d\": behind \"password\", at key=value number 3: expected key=value" QUOTES },
		{ "host=a port=1 horse", "2: database \"d\": behind \"port\": expected key=value" QUOTES });
}

/* The password word may be similar to a key, be the value of a key, follow valid keys, or follow a misspelt "password". */
TEST(words_after_a_password_are_not_printed)
{
	static const char *const lists[] = {
		"password=my hosst=1", "password=my prot=1 port=horse", "password=my port=horse", "password=my pool_mode=hosst",
		"password=my host=a horse=1", "passwrd=my horse=1 hosst", "password=my port=1 horse='", "password = my\thorse = hosst",
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		const char *said = said_of(lists[i]);

		CHECK(*said);
		CHECK(!strstr(said, "horse") && !strstr(said, "hosst") && !strstr(said, "prot") && !strstr(said, "my"));
		CHECK(strstr(said, "2: database \"d\": "));
	}
}

UNIT_MAIN
