/* The texts that end or cancel one session. */
#include "sql/signal_text.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static struct signal_text found;

/* "TERMINATE name number" or "-". */
static const char *read_text(const char *text)
{
	static char out[200];

	if (!signal_text_read((const uint8_t *)text, strlen(text) + 1, &found))
		return "-";
	snprintf(out, sizeof(out), "%s %.*s %.*s %u", found.of == SIGNAL_TERMINATE ? "terminate" : "cancel", (int)found.name_size,
		 text + found.name_at, (int)found.size, text + found.at, (unsigned)found.pid);
	return out;
}

TEST(the_shape)
{
	CHECK_PAIRS(read_text,
		    { "SELECT pg_terminate_backend(1234567890)", "terminate pg_terminate_backend 1234567890 1234567890" },
		    { "select pg_cancel_backend($1)", "cancel pg_cancel_backend $1 0" },
		    { "SELECT PG_Catalog . pg_TERMINATE_backend ( 5 :: int ) ; ", "terminate PG_Catalog . pg_TERMINATE_backend  5 5" },
		    { "select\npg_cancel_backend($1::INTEGER)", "cancel pg_cancel_backend $1 0" },
		    { "select pg_cancel_backend(2147483647::int4)", "cancel pg_cancel_backend 2147483647 2147483647" });
}

TEST(other_texts)
{
	CHECK_PAIRS(read_text,
		    { "SELECT pg_terminate_backend(pg_backend_pid())", "-" }, { "SELECT pg_terminate_backend(2147483648)", "-" },
		    { "SELECT pg_terminate_backend(12345678901)", "-" }, { "SELECT pg_terminate_backend(0)", "-" },
		    { "SELECT pg_terminate_backend(1, 1000)  ", "-" }, { "SELECT pg_terminate_backend(-1)  ", "-" },
		    { "SELECT pg_terminate_backend($12)  ", "-" }, { "SELECT pg_terminate_backend($2)  ", "-" },
		    { "SELECT pg_terminate_backend(1) FROM t", "-" }, { "SELECT pg_terminate_backend(1), 2", "-" },
		    { "SELECT pg_terminate_backend(1); SELECT 1", "-" }, { "SELECT pg_terminate_backend(1)::text", "-" },
		    { "SELECT pg_terminate_backend(1::text)", "-" }, { "SELECT pg_terminate_backend(1::int8)", "-" },
		    { "SELECT pg_terminate_backends(1)  ", "-" }, { "SELECT pg_terminate_backend(1)x", "-" },
		    { "SELECT pg_terminate_backend(1x)   ", "-" }, { "SELECT pg_terminate_backend/**/(1)", "-" },
		    { "SELECT pg_catalogpg_terminate_backend(1)", "-" }, { "SELECT pg_catalog pg_terminate_backend(1)", "-" },
		    { "SELECT  pg_terminate_backend(1)", "-" }, { "SELECT pg_terminate_backend(1", "-" }, { "SELECT pg_ternimate_backend(1)", "-" });
	/* a part of a text */
	for (size_t size = 0; size < 38; size++)
		CHECK(!signal_text_read((const uint8_t *)"SELECT pg_terminate_backend(1234567890)", size, &found));
}

UNIT_MAIN
