/* Lists of authentication methods: the names as in libpq, and the methods that a list allows. */
#include "conf/methods.h"

#include "conf/conf.h"
#include "unit.h"

/* Returns the mask of a valid list. */
static int list_of(const char *text)
{
	int64_t list = -2;

	if (!methods_read(text, &list))
		UNIT_FAIL("\"%s\" is not read", text);
	return (int)list;
}

TEST(the_empty_list)
{
	char buf[64];

	CHECK_INT(list_of(""), CONF_UNSET);
	CHECK_INT(list_of(" \t"), CONF_UNSET);
	CHECK_TEXT(methods_text(CONF_UNSET, buf, sizeof(buf)), "");
	for (int i = 0; i < SERVER_METHODS; i++) {
		CHECK(methods_allow(CONF_UNSET, (enum server_method)i));
		CHECK(!methods_name(CONF_UNSET, (enum server_method)i));
	}
}

TEST(each_method_name)
{
	static const char *const words[] = { "password", "md5", "gss", "sspi", "scram-sha-256", "none" };
	char text[32], buf[64];

	for (int i = 0; i < SERVER_METHODS; i++) {
		int list = list_of(words[i]);

		CHECK_TEXT(methods_text(list, buf, sizeof(buf)), words[i]);
		for (int k = 0; k < SERVER_METHODS; k++) {
			CHECK(methods_allow(list, (enum server_method)k) == (i == k || (i == METHOD_PASSWORD && k == METHOD_NONE)));
			CHECK(methods_name(list, (enum server_method)k) == (i == k));
		}
		snprintf(text, sizeof(text), "!%s", words[i]);
		list = list_of(text);
		CHECK_TEXT(methods_text(list, buf, sizeof(buf)), text);
		for (int k = 0; k < SERVER_METHODS; k++) {
			CHECK(methods_allow(list, (enum server_method)k) == (i != k));
			CHECK(!methods_name(list, (enum server_method)k));
		}
	}
}

TEST(lists)
{
	char buf[64];

	CHECK_TEXT(methods_text(list_of(" NONE , scram-SHA-256,\tpassword "), buf, sizeof(buf)), "password,scram-sha-256,none");
	CHECK_TEXT(methods_text(list_of("!none,!password,!md5,!gss,!sspi,!scram-sha-256"), buf, sizeof(buf)),
		   "!password,!md5,!gss,!sspi,!scram-sha-256,!none");
	CHECK(methods_allow(list_of("md5,none"), METHOD_NONE) && !methods_allow(list_of("md5,none"), METHOD_SCRAM));
	CHECK(!methods_allow(list_of("!md5,!none"), METHOD_NONE) && methods_allow(list_of("!md5,!none"), METHOD_SCRAM));
}

TEST(invalid_lists)
{
	static const char *const wrong[] = {
		",", "md5,", ",md5", "md5,,none", "md5 none", "md5;none", "scram", "scram-sha-256-plus", "md5,md5", "!md5,!md5",
		"md5,!none", "!md5,none", "!", "!!md5", "! md5", "md5!", "password1", "passwor", "any", "0", "-1",
		"a-very-long-word-that-is-none",
	};
	int64_t list = 7;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (methods_read(wrong[i], &list) || list != 7)
			UNIT_FAIL("\"%s\" is read", wrong[i]);
}

UNIT_MAIN
