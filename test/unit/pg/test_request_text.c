/* The text of a Query, Parse or Bind; the statements of a client are played. */
#include "pg/request_text.h"

#include "pg/message.h"
#include "unit.h"

#define MESSAGE(kind, bytes) { .type = (kind), .size = sizeof(bytes) - 1, .body = (const uint8_t *)(bytes), .here = sizeof(bytes) - 1 }

static void find(const void *client, const char *name, struct request_text *text)
{
	static const uint8_t named[] = "SELECT 2\0\0\1\0\0\0\27";

	CHECK(client == &find);
	if (strcmp(name, "s") == 0)
		request_text_set(text, named, sizeof(named) - 1);
}

/* Returns the text with its NUL, "(none)" for a message without a text, or "(unknown)". */
static const char *text_of(struct pg_frame f, struct request_text *text)
{
	if (!request_text_read(&f, find, &find, text))
		return "(none)";
	return text->at ? (const char *)text->at : "(unknown)";
}

TEST(messages_with_a_text)
{
	struct request_text text;

	CHECK_TEXT(text_of((struct pg_frame)MESSAGE(PGC_QUERY, "SELECT 1\0"), &text), "SELECT 1");
	CHECK_INT(text.size, sizeof("SELECT 1"));
	CHECK_INT(text.types_size, 0);
	CHECK_TEXT(text_of((struct pg_frame)MESSAGE(PGC_PARSE, "s\0SELECT 2\0\0\1\0\0\0\27"), &text), "SELECT 2");
	CHECK_INT(text.size, sizeof("SELECT 2"));
	CHECK_INT(text.types_size, 6);
	CHECK_INT(text.types[1], 1);
	CHECK_TEXT(text_of((struct pg_frame)MESSAGE(PGC_BIND, "portal\0s\0\0\0"), &text), "SELECT 2");
	CHECK_INT(text.types_size, 6);
	CHECK_TEXT(text_of((struct pg_frame)MESSAGE(PGC_BIND, "\0other\0\0\0"), &text), "(unknown)");
	CHECK_TEXT(text_of((struct pg_frame)MESSAGE(PGC_EXECUTE, "\0\0\0\0\0"), &text), "(none)");
	CHECK_TEXT(text_of((struct pg_frame)MESSAGE(PGC_SYNC, ""), &text), "(none)");
}

/* A message that is cut anywhere has the beginning of the text, or none. */
TEST(message_that_has_arrived_in_part)
{
	static const char body[] = "s\0SELECT 2\0\0";
	struct request_text text;

	for (size_t here = 0; here < sizeof(body); here++) {
		struct pg_frame f = { .type = PGC_PARSE, .size = sizeof(body), .body = (const uint8_t *)body, .here = here };

		CHECK(request_text_read(&f, find, &find, &text));
		CHECK(here < 2 ? !text.at : text.at == (const uint8_t *)body + 2);
		CHECK(here < 2 || text.size + text.types_size == here - 2);
		CHECK(text.size <= sizeof("SELECT 2"));
	}
	for (size_t here = 0; here < 3; here++) {
		struct pg_frame f = { .type = PGC_BIND, .size = 6, .body = (const uint8_t *)"\0s\0\0\0", .here = here };

		CHECK(request_text_read(&f, find, &find, &text) && !text.at);
	}
}

UNIT_MAIN
