/* key=value lists. */
#include "conf/connstr.h"

#include "unit.h"

/* Reads the whole list and writes it as "key<value>key<value>", with "!" at the end if the list is invalid. */
static const char *parse(const char *list)
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
	CHECK_PAIRS(parse,
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
	CHECK_TEXT(parse("host= port=5"), "host<port=5>");
	CHECK_TEXT(parse("host='' port=5"), "host<>port<5>");
}

TEST(quoted_values)
{
	CHECK_PAIRS(parse,
		{ "a='b c'", "a<b c>" },
		{ "a='it''s' b='''' c=''", "a<it's>b<'>c<>" },
		{ "a = 'x=y z' b=1", "a<x=y z>b<1>" },
		{ "a='\\' b=2", "a<\\>b<2>" });
}

TEST(invalid_lists)
{
	CHECK_PAIRS(parse,
		{ "host", "!" },
		{ "=x", "!" },
		{ "host=a garbage", "host<a>!" },
		{ "a='b", "!" },
		{ "a='b''", "!" },
		{ "a='b'c=d", "!" },
		{ "a b=c", "!" });
}

UNIT_MAIN
