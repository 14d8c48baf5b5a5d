/* The grammar of the configuration file, independent of the meaning of entries. */
#include "conf/ini.h"

#include "base/bytes.h"
#include "conf/conf.h"
#include "tempfile.h"
#include "unit.h"

#include <sys/stat.h>

static struct bytes shown = BYTES_EMPTY;

static void show(void *context, const struct ini_line *line)
{
	(void)context;
	if (line->key)
		bytes_append_format(&shown, "%d:%s.%s=%s;", line->line, line->section ? line->section : "-", line->key, line->value);
	else
		bytes_append_format(&shown, "%d:[%s];", line->line, line->section);
}

static struct bytes files = BYTES_EMPTY;

static void opened(void *context, const char *path)
{
	const char *slash = strrchr(path, '/');

	(void)context;
	bytes_append_format(&files, "%s;", slash ? slash + 1 : path);
}

/* Reads a file. Returns its entries, then "!" and the line of each problem. Valid until the next call. */
static const char *read_path(const char *path)
{
	struct conf_problems problems = { 0 };

	bytes_free(&shown);
	bytes_free(&files);
	ini_read(path, &problems, show, opened, NULL);
	bytes_append_u8(&files, 0);
	for (size_t i = 0; i < problems.count; i++)
		bytes_append_format(&shown, "!%d", problems.items[i].line);
	CHECK_INT(problems.errors, problems.count);
	conf_problems_free(&problems);
	bytes_append_string(&shown, "");
	return (const char *)bytes_front(&shown);
}

static const char *parse(const char *text)
{
	return read_path(temp_write("a.ini", text));
}

/* Returns the text of the only problem. */
static const char *problem_of(const char *text)
{
	static char buf[512];
	struct conf_problems problems = { 0 };

	ini_read(temp_write("a.ini", text), &problems, show, opened, NULL);
	CHECK_INT(problems.count, 1);
	snprintf(buf, sizeof(buf), "%s", problems.count ? problems.items[0].text : "");
	conf_problems_free(&problems);
	return buf;
}

TEST(sections_keys_comments)
{
	CHECK_PAIRS(parse,
		{ "", "" },
		{ "[a]\nx=1\n\n ; c = d\n\t# e\n  y  =  2 3  \n[ b ]\nx=\n", "1:[a];2:a.x=1;6:a.y=2 3;7:[b];8:b.x=;" },
		{ "[a] ; b\nx=1\n[c]# d\n[e] \t#\n", "1:[a];2:a.x=1;3:[c];4:[e];" },
		{ "[a] b\n[c]x=1\n", "!1!2" },
		{ "x=1", "1:-.x=1;" },
		{ "[a]\r\nx = 1 \r\n", "1:[a];2:a.x=1;" },
		{ "\xef\xbb\xbf[a]\nx=1", "1:[a];2:a.x=1;" },
		{ "[a]\nq = SELECT 1; -- # no comment\n", "1:[a];2:a.q=SELECT 1; -- # no comment;" },
		{ "[a]\nx===\n* = y\n", "1:[a];2:a.x===;3:a.*=y;" });
}

TEST(quoted_names)
{
	CHECK_PAIRS(parse,
		{ "\"a b\" = 1", "1:-.a b=1;" },
		{ "\"a\"\"b=c;\"=1", "1:-.a\"b=c;=1;" },
		{ "\"*\" = 1", "1:-.*=1;" },
		{ "\"\" = 1", "!1" },
		{ "\"abc = 1\nx=2", "2:-.x=2;!1" },
		{ "\"abc\"d = 1\nx=2", "2:-.x=2;!1" });
}

TEST(invalid_lines)
{
	CHECK_TEXT(parse("[a]\nnonsense\nx=1\n= 5\n[b\n[c] d\nfoo bar = 1\n%inc x\n%include\ny=2"),
		   "1:[a];3:a.x=1;10:a.y=2;!2!4!5!6!7!8!9");
	CHECK(strstr(problem_of("pool_mode session"), "no \"=\" behind \"pool_mode\""));
	CHECK(strstr(problem_of("\"abc = 1"), "double quote"));
	CHECK(strstr(problem_of("%includes x"), "%include FILE"));
}

TEST(invalid_bytes)
{
	CHECK_TEXT(read_path(temp_write_bytes("a.ini", "[a]\nx=\0y\nz=1\n\0", 15)), "1:[a];3:a.z=1;!2!4");
	CHECK_TEXT(parse("[a]\n\x01\x02\xff = \x80\n"), "1:[a];2:a.\x01\x02\xff=\x80;");
}

TEST(included_file_continues_the_section)
{
	char text[256];

	temp_write("b.ini", "y=2\n[c]\nz=3\n");
	snprintf(text, sizeof(text), "[a]\nx=1\n%%include %s\nw=4\n", temp_path("b.ini"));
	CHECK_TEXT(parse(text), "1:[a];2:a.x=1;1:a.y=2;2:[c];3:c.z=3;4:c.w=4;");
	CHECK_TEXT((const char *)bytes_front(&files), "a.ini;b.ini;");
}

TEST(files_of_an_included_directory)
{
	static const char *const names[][2] = {
		{ "d/3.conf", "z=3\n" }, { "d/10.ini", "y=2\n[c]\n" }, { "d/4.ini~", "no=1\n" }, { "d/.5.ini", "no=1\n" }, { "d/6.txt", "no=1\n" },
	};
	char text[256];

	REQUIRE(mkdir(temp_path("d"), 0700) == 0 && mkdir(temp_path("d/7.ini"), 0700) == 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		temp_write(names[i][0], names[i][1]);
	snprintf(text, sizeof(text), "[a]\n%%include %s\nw=4\n", temp_path("d"));
	CHECK_TEXT(parse(text), "1:[a];1:a.y=2;2:[c];1:c.z=3;3:c.w=4;");
	CHECK_TEXT((const char *)bytes_front(&files), "a.ini;10.ini;3.conf;");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(temp_path(names[i][0]));
	CHECK(rmdir(temp_path("d/7.ini")) == 0 && rmdir(temp_path("d")) == 0);
}

TEST(empty_file_is_valid)
{
	char text[256];

	temp_write("b.ini", "");
	snprintf(text, sizeof(text), "%%include %s\n%%include /nonexistent/c.ini\n", temp_path("b.ini"));
	CHECK_TEXT(parse(text), "!2");
	CHECK_TEXT((const char *)bytes_front(&files), "a.ini;b.ini;");
}

TEST(failed_include_is_reported_at_its_line)
{
	char text[256];

	CHECK_TEXT(parse("[a]\n%include /nonexistent/x.ini\nx=1"), "1:[a];3:a.x=1;!2");
	CHECK(strstr(problem_of("%include /nonexistent/x.ini"), "\"/nonexistent/x.ini\": No such file"));
	snprintf(text, sizeof(text), "%%include %s", temp_path("a.ini"));
	CHECK(strstr(problem_of(text), "includes itself"));
	snprintf(text, sizeof(text), "x=1\n%%include %s\n", temp_path("b.ini"));
	temp_write("a.ini", text);
	snprintf(text, sizeof(text), "y=1\n%%include %s\n", temp_path("a.ini"));
	temp_write("b.ini", text);
	CHECK_TEXT(read_path(temp_path("a.ini")), "1:-.x=1;1:-.y=1;!2");
}

/* A file may be included twice, but a tree of such includes would never end. */
TEST(number_of_includes_is_limited)
{
	struct conf_problems problems = { 0 };
	char name[16], text[512];

	for (int i = 0; i < 15; i++) {
		snprintf(name, sizeof(name), "f%d", i + 1);
		snprintf(text, sizeof(text), "%%include %s\n%%include %s\n", temp_path(name), temp_path(name));
		snprintf(name, sizeof(name), "f%d", i);
		temp_write(name, text);
	}
	temp_write("f15", "x=1\n");
	bytes_free(&shown);
	CHECK(ini_read(temp_path("f0"), &problems, show, opened, NULL));
	CHECK(problems.errors > 0);
	REQUIRE(problems.count > 0);
	CHECK(strstr(problems.items[0].text, "too many files"));
	conf_problems_free(&problems);
}

TEST(missing_file_is_reported)
{
	struct conf_problems problems = { 0 };

	CHECK(!ini_read("/nonexistent/x.ini", &problems, show, opened, NULL));
	REQUIRE(problems.count == 1);
	CHECK_TEXT(problems.items[0].file, "/nonexistent/x.ini");
	CHECK(strstr(problems.items[0].text, "No such file"));
	conf_problems_free(&problems);
}

TEST(teardown)
{
	bytes_free(&shown);
	bytes_free(&files);
	CHECK(!shown.data);
}

/* key=value lists. */

/* Reads the whole list and writes it as "key<value>key<value>", with "!" at the end if the list is invalid. */
static const char *parse_pairs(const char *list)
{
	static char out[512];
	char text[256], *cursor = text, *key, *value;
	const char *why = NULL;
	enum connstr_verdict verdict;

	strcpy(text, list);
	out[0] = '\0';
	while ((verdict = connstr_next(&cursor, &key, &value, &why)) == CONNSTR_PAIR)
		sprintf(out + strlen(out), "%s<%s>", key, value);
	if (verdict == CONNSTR_BAD) {
		strcat(out, "!");
		CHECK(why && *why);
	}
	return out;
}

TEST(plain_lists)
{
	CHECK_PAIRS(parse_pairs,
		{ "", "" },
		{ "   ", "" },
		{ "host=a", "host<a>" },
		{ "host=a port=5432\tdbname=x", "host<a>port<5432>dbname<x>" },
		{ "  host = a  port =5 x= y  ", "host<a>port<5>x<y>" },
		{ "host=h1,h2 query=a=b", "host<h1,h2>query<a=b>" },
		{ "password=ab'c\\d\"e", "password<ab'c\\d\"e>" },
		{ "host=", "host<>" });
}

/* As in libpq, blanks after "=" are skipped before the value. */
TEST(an_empty_value_in_the_middle_needs_quotes)
{
	CHECK_TEXT(parse_pairs("host= port=5"), "host<port=5>");
	CHECK_TEXT(parse_pairs("host='' port=5"), "host<>port<5>");
}

TEST(quoted_values)
{
	CHECK_PAIRS(parse_pairs,
		{ "a='b c'", "a<b c>" },
		{ "a='it''s' b='''' c=''", "a<it's>b<'>c<>" },
		{ "a = 'x=y z' b=1", "a<x=y z>b<1>" },
		{ "a='\\' b=2", "a<\\>b<2>" });
}

TEST(invalid_lists)
{
	CHECK_PAIRS(parse_pairs,
		{ "host", "!" },
		{ "=x", "!" },
		{ "host=a garbage", "host<a>!" },
		{ "a='b", "!" },
		{ "a='b''", "!" },
		{ "a='b'c=d", "!" },
		{ "a b=c", "!" });
}

/* One entry of the file: the error messages about an unquoted password and the words after it. */

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
