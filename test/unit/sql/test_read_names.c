/* Texts without their literals, and sets of names. */
#include "sql/read_names.h"
#include "unit.h"

#include <string.h>

static char one[READ_TEXT_MOST], other[READ_TEXT_MOST];

static const char *mask(const char *text, char *buf)
{
	size_t size = read_text_mask((const uint8_t *)text, strlen(text) + 1, (uint8_t *)buf, READ_TEXT_MOST - 1);

	buf[size] = '\0';
	return buf;
}

static void same(const char *a, const char *b)
{
	if (!*mask(a, one) || strcmp(one, mask(b, other)) != 0)
		UNIT_FAIL("\"%s\" and \"%s\": \"%s\", \"%s\"", a, b, one, other);
}

static void differ(const char *a, const char *b)
{
	mask(a, one);
	mask(b, other);
	if (*one && strcmp(one, other) == 0)
		UNIT_FAIL("\"%s\" and \"%s\"", a, b);
}

TEST(literals_do_not_count)
{
	same("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 23456");
	same("SELECT a FROM t WHERE b = 'x'", "SELECT a FROM t WHERE b = 'it''s; DROP'");
	same("SELECT a FROM t WHERE b = 1.5", "SELECT a FROM t WHERE b = 22.25");
	same("SELECT a /* by 1 */ FROM t LIMIT 1", "SELECT a /* by 2 */ FROM t LIMIT 2");
	same("SELECT 'x'::regclass", "SELECT 'y'::regclass");
	CHECK_TEXT(mask("SELECT f('a',-12)  FROM t", one), "SELECT f('',-0) FROM t");
}

TEST(everything_else_counts)
{
	differ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE c = 1");
	differ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = '1'");
	differ("SELECT a FROM t1 WHERE b = 1", "SELECT a FROM t2 WHERE b = 1");
	differ("SELECT 1 FROM \"1\"", "SELECT 1 FROM \"2\"");
	differ("SELECT $1, 1", "SELECT $2, 1");
	differ("SELECT a <-1 FROM t", "SELECT a < -1 FROM t");
	differ("SELECT 'x'::a", "SELECT 'x'::b");
	differ("SELECT 1e5", "SELECT 1e6");
	differ("SELECT date '1'", "SELECT time '1'");
	differ("SELECT 1 -- a\n, f(2)", "SELECT 1 -- a, f(2)");
}

TEST(texts_that_are_taken_as_they_are)
{
	static const char *const texts[] = { "", "SELECT a FROM t", "SELECT a FROM t WHERE b = $1", "SELECT 'a\\', 1, '", "SELECT 1 /* a", "SELECT 'a" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK_TEXT(mask(texts[i], one), "");
	/* cut, and without room */
	CHECK_INT(read_text_mask((const uint8_t *)"SELECT 1", 8, (uint8_t *)one, sizeof(one)), 0);
	CHECK_INT(read_text_mask((const uint8_t *)"SELECT 1", 9, (uint8_t *)one, 7), 0);
}

/* Adds the names of a text that only reads. */
static void add(struct read_set *set, const char *text)
{
	struct read_names names;

	CHECK(read_text_only_reads((const uint8_t *)text, strlen(text) + 1, NULL, &names));
	CHECK(read_set_add(set, (const uint8_t *)text, names.list, names.count, names.operators));
}

static const char *question(const struct read_set *set)
{
	static char text[65536];
	struct bytes sql = BYTES_EMPTY;

	read_set_ask(set, &sql);
	CHECK(!sql.failed && bytes_size(&sql) < sizeof(text));
	memcpy(text, bytes_front(&sql), bytes_size(&sql));
	text[bytes_size(&sql)] = '\0';
	bytes_free(&sql);
	return text;
}

TEST(set_has_each_name_once)
{
	struct read_set set = { .operators = 0 }, more = { .operators = 0 };
	size_t size;

	add(&set, "SELECT upper(a) FROM s1.t WHERE b = 1");
	add(&set, "SELECT A FROM s2.t, \"U\" WHERE lower(a) < 'x'");
	CHECK(strstr(question(&set), "('s1','t'),('s2','t'),('','U')"));
	CHECK(strstr(question(&set), "ARRAY['','upper','lower']"));
	size = bytes_size(&set.list);
	add(&set, "SELECT lower(a) FROM s1.t, \"U\" WHERE upper(b) < 'x'");
	CHECK_INT(bytes_size(&set.list), size);
	add(&more, "SELECT a FROM t WHERE trim_array(b, 1) = c");
	CHECK(read_set_merge(&set, &more));
	CHECK(strstr(question(&set), "('','U'),('','t'))") && strstr(question(&set), "'lower','trim_array']"));
	read_set_free(&set);
	read_set_free(&more);
	CHECK(read_set_is_empty(&set));
}

TEST(full_set_refuses_names)
{
	struct read_set set = { .operators = 0 };
	char text[64];
	int count = 0;

	for (bool fits = true; fits; count += fits) {
		struct read_names names;

		snprintf(text, sizeof(text), "SELECT a FROM table_number_%d", count);
		CHECK(read_text_only_reads((const uint8_t *)text, strlen(text) + 1, NULL, &names));
		fits = read_set_add(&set, (const uint8_t *)text, names.list, names.count, names.operators);
	}
	CHECK(count > 1000 && count <= READ_SET_MOST);
	CHECK(bytes_size(&set.text) <= UINT16_MAX);
	read_set_free(&set);
}

UNIT_MAIN
