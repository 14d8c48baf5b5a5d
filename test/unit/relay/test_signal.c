/* pg_terminate_backend of a number that pgweir told: of the client itself, of another client, of none. */
#include "relay/signal.h"

#include "unit.h"
#include "whole.h"

static struct house_end *near, *far, *other;

static const char *terminate(uint32_t pid)
{
	static char text[80];

	snprintf(text, sizeof(text), "SELECT pg_terminate_backend(%u)", pid);
	return text;
}

/* Two clients, and a server that the first one has in a transaction. */
static bool begin(struct client **first, struct client **second)
{
	whole_open(WHOLE_INI("pool_size=1", ""));
	*first = whole_in_transaction(&near, &far);
	*second = whole_login(&other);
	whole_client_got(near);
	whole_client_got(other);
	whole_server_got(far);
	return *first && *second;
}

TEST(another_client_ends)
{
	struct client *first, *second;

	CHECK(begin(&first, &second));
	whole_query(near, terminate(second->cancel_key.pid));
	CHECK_TEXT(whole_server_got(far), "Q(SELECT true AS pg_terminate_backend)");
	CHECK(strncmp(whole_client_got(other), "E(57P01 ", 8) == 0);
	whole_close();
}

TEST(its_own_number_becomes_the_servers)
{
	struct client *first, *second;

	CHECK(begin(&first, &second));
	whole_query(near, terminate(first->cancel_key.pid));
	CHECK_TEXT(whole_server_got(far), "Q(SELECT pg_terminate_backend(pg_catalog.pg_backend_pid()))");
	whole_close();
}

TEST(other_numbers_and_texts_are_unchanged)
{
	struct client *first, *second;
	char text[128], expected[140];

	CHECK(begin(&first, &second));
	whole_query(near, "SELECT pg_terminate_backend(4711)");
	CHECK_TEXT(whole_server_got(far), "Q(SELECT pg_terminate_backend(4711))");
	snprintf(text, sizeof(text), "SELECT pg_terminate_backend(%u) FROM t", second->cancel_key.pid);
	snprintf(expected, sizeof(expected), "Q(%s)", text);
	whole_query(near, text);
	CHECK_TEXT(whole_server_got(far), expected);
	CHECK_TEXT(whole_client_got(other), "");
	whole_close();
}

UNIT_MAIN
