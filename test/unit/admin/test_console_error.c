/* Error texts: details are inserted, and long details are truncated at a character boundary. */
#include "admin/console_error.h"

#include "unit.h"

static const char *text_of(enum console_error why, const char *first, const char *second)
{
	static char text[1024];
	struct bytes out = BYTES_EMPTY;

	console_error_text(why, first, second, &out);
	snprintf(text, sizeof(text), "%s", (const char *)bytes_front(&out));
	CHECK_INT(bytes_size(&out), strlen(text) + 1);
	bytes_free(&out);
	return text;
}

TEST(refusal_text_includes_details)
{
	CHECK_TEXT(text_of(CONSOLE_ERROR_ACCESS, NULL, NULL), "admin access needed");
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, "shop", NULL), "no such database: shop");
	CHECK_TEXT(text_of(CONSOLE_ERROR_ADMIN_DATABASE, "pause", "pgweir"), "cannot pause admin db: pgweir");
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, NULL, NULL), "no such database: ");
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, "%s%n", NULL), "no such database: %s%n");
}

TEST(long_details_are_truncated)
{
	char name[300], want[600];

	memset(name, 'x', sizeof(name));
	name[200] = '\0';
	snprintf(want, sizeof(want), "no such database: %s", name);
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, name, NULL), want);
	memset(name, 'x', sizeof(name));
	name[250] = '\0';
	snprintf(want, sizeof(want), "no such database: %.200s...", name);
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, name, NULL), want);
	/* a character of two bytes across the end */
	memcpy(name + 199, "\xc3\xa9", 2);
	snprintf(want, sizeof(want), "no such database: %.199s...", name);
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, name, NULL), want);
}

TEST(every_refusal_has_a_sqlstate)
{
	for (int i = 0; i < CONSOLE_ERRORS; i++)
		CHECK_INT(strlen(console_error_sqlstate((enum console_error)i)), 5);
	CHECK_TEXT(console_error_sqlstate(CONSOLE_ERROR_ACCESS), "08P01");
}

UNIT_MAIN
