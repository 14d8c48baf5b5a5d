/* The exchange of auth_query: the messages sent, byte by byte where that matters, and the interpretation of every form of answer. */
#include "pg/authquery.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "sql_names.h"
#include "unit.h"

#include <stdlib.h>

static struct authquery query;

/* ---- sent messages ---- */

/* Returns the types of the messages; *nth is set to the body of the nth message of `type`. */
static const char *messages(const struct bytes *b, char type, int nth, struct pg_frame *out)
{
	static char types[64];
	size_t at = 0, count = 0;
	struct pg_frame f;

	while (at < bytes_size(b) && pg_frame_look(bytes_front(b) + at, bytes_size(b) - at, INT32_MAX, &f) == PG_OK) {
		types[count++] = (char)f.type;
		if (f.type == type && nth-- == 0)
			*out = f;
		at += PG_HEADER + f.size;
	}
	types[count] = 0;
	return at == bytes_size(b) ? types : "not whole messages";
}

TEST(batch_matches_its_ledger_entries)
{
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f = { 0 };

	query = (struct authquery){ .user = "bob", .path = "" };
	authquery_build(&query, &out, "SELECT $1", NULL, 0, NULL);
	CHECK(!out.failed);
	CHECK_TEXT(messages(&out, 'D', 0, &f), "PBEPBEPBDES");
	CHECK_INT(f.size, 2);
	CHECK(memcmp(f.body, "P", 2) == 0);
	bytes_free(&out);
}

TEST(the_name_is_a_parameter)
{
	static const uint8_t bind[] = "\0\0\0\0\0\1\0\0\0\7o'h\\$1\"\0";
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f = { 0 };

	query = (struct authquery){ .user = "o'h\\$1\"", .path = "" };
	authquery_build(&query, &out, "SELECT $1", NULL, 0, NULL);
	messages(&out, 'P', 2, &f);
	CHECK_INT(f.size, sizeof("\0SELECT $1\0\0") - 1 + 1);
	CHECK_TEXT((const char *)f.body + 1, "SELECT $1");
	messages(&out, 'B', 2, &f);
	CHECK_INT(f.size, sizeof(bind));
	CHECK(memcmp(f.body, bind, sizeof(bind)) == 0);
	/* two rows at most, so that pgweir does not have to read millions */
	messages(&out, 'E', 2, &f);
	CHECK(memcmp(f.body, "\0\0\0\0\2", 5) == 0);
	bytes_free(&out);
}

TEST(session_is_prepared_first)
{
	static const char *const resets[] = { "DateStyle", "my.ext" };
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f = { 0 };
	const char *sql;

	query = (struct authquery){ .user = "bob", .path = "" };
	authquery_build(&query, &out, "SELECT $1", resets, 2, NULL);
	messages(&out, 'P', 0, &f);
	sql = (const char *)f.body + 1;
	CHECK(strstr(sql, "pg_catalog.set_config('session_authorization', NULL, true), pg_catalog.set_config('role', 'none', true)"));
	CHECK(strstr(sql, "pg_catalog.set_config('client_encoding', pg_catalog.current_setting('server_encoding'), true)"));
	CHECK(strstr(sql, "SELECT pg_catalog.set_config('DateStyle', NULL, true), pg_catalog.set_config('my.ext', NULL, true), "));
	messages(&out, 'P', 1, &f);
	CHECK(strstr((const char *)f.body + 1, "pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT "));
	CHECK(strstr((const char *)f.body + 1, ", 'pg_temp'), true)"));
	CHECK(!strstr((const char *)f.body + 1, "$1"));
	bytes_free(&out);
}

TEST(search_path_of_the_configuration_is_a_parameter)
{
	static const uint8_t bind[] = "\0\0\0\0\0\1\0\0\0\13public, \"a\"";
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f = { 0 };

	query = (struct authquery){ .user = "bob", .path = "public, \"a\"" };
	authquery_build(&query, &out, "SELECT $1", NULL, 0, NULL);
	messages(&out, 'P', 1, &f);
	CHECK(strstr((const char *)f.body + 1, ", $1::pg_catalog.text, 'pg_temp'), true)"));
	messages(&out, 'B', 1, &f);
	CHECK_INT(f.size, sizeof(bind) + 1);
	CHECK(memcmp(f.body, bind, sizeof(bind) - 1) == 0);
	bytes_free(&out);
}

TEST(role_of_connect_query_is_kept)
{
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f = { 0 };

	query = (struct authquery){ .user = "bob", .path = "" };
	authquery_build(&query, &out, "SELECT $1", NULL, 0, "a_role, b_role");
	messages(&out, 'P', 0, &f);
	CHECK(strstr((const char *)f.body + 1, "SELECT a_role, b_role, pg_catalog.set_config('standard_"));
	messages(&out, 'P', 1, &f);
	CHECK(!strstr((const char *)f.body + 1, "'role'"));
	bytes_free(&out);
}

/* The statements run under the search_path of the session, which others may control. */
TEST(preparing_statements_are_schema_qualified)
{
	static const char *const resets[] = { "DateStyle" };
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f = { 0 };

	query = (struct authquery){ .user = "bob", .path = "" };
	authquery_build(&query, &out, "SELECT $1", resets, 1, NULL);
	for (int i = 0; i < 2; i++) {
		messages(&out, 'P', i, &f);
		CHECK_TEXT(unqualified_name("", "server_reset_query", "uses", (const char *)f.body + 1), "");
	}
	bytes_free(&out);
}

/* ---- answers ---- */

static enum authquery_verdict take(char type, const char *body, size_t size)
{
	return authquery_take(&query, (uint8_t)type, (const uint8_t *)body, size);
}
#define TAKE(type, body) take(type, body, sizeof(body) - 1)

#define COLUMN "x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define TWO_COLUMNS "\0\2" COLUMN COLUMN
#define ROW(name, secret) "\0\2\0\0\0" name "\0\0\0" secret
#define BOB "\3bob"

/* The answers to the two statements before the query. */
static void prepared(void)
{
	secret_free(&query.secret);
	query = (struct authquery){ .user = "bob", .path = "" };
	for (int i = 0; i < 2; i++) {
		TAKE('1', "");
		TAKE('2', "");
		TAKE('D', "\0\1\0\0\0\0");
		TAKE('C', "SELECT 1\0");
	}
	TAKE('1', "");
	TAKE('2', "");
}

static enum authquery_verdict end(void)
{
	TAKE('C', "SELECT 1\0");
	return TAKE('Z', "I");
}

static bool fails(const char *why)
{
	return query.failed && strstr(query.why, why);
}

TEST(row_with_a_secret)
{
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', ROW(BOB, "\5hello"));
	CHECK_INT(end(), AUTHQUERY_USER);
	REQUIRE(query.secret);
	CHECK_INT(query.secret->length, 5);
	CHECK_TEXT(query.secret->bytes, "hello");
	secret_free(&query.secret);
	CHECK(!query.secret);
}

TEST(null_secret_differs_from_unknown_user)
{
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', "\0\2\0\0\0" BOB "\xff\xff\xff\xff");
	CHECK_INT(end(), AUTHQUERY_USER);
	REQUIRE(query.secret);
	CHECK_INT(query.secret->length, 0);
	prepared();
	TAKE('T', TWO_COLUMNS);
	CHECK_INT(end(), AUTHQUERY_NO_USER);
	CHECK(!query.secret);
}

TEST(other_name_counts_as_unknown_user)
{
	static const char *const names[] = { "\3Bob", "\2bo", "\4bob " };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char row[32] = "\0\2\0\0";
		size_t size = 5 + strlen(names[i]);

		prepared();
		TAKE('T', TWO_COLUMNS);
		memcpy(row + 5, names[i], strlen(names[i]));
		memcpy(row + size, "\0\0\0\1x", 5);
		take('D', row, size + 5);
		CHECK_INT(end(), AUTHQUERY_NO_USER);
		CHECK(query.other_name);
	}
	secret_free(&query.secret);
}

TEST(results_of_another_shape)
{
	prepared();
	TAKE('T', "\0\1" COLUMN);
	CHECK(fails("1 columns, want 2"));
	prepared();
	TAKE('T', "\0\3" COLUMN COLUMN COLUMN);
	CHECK(fails("3 columns, want 2"));
	prepared();
	TAKE('T', "\0\0");
	CHECK(fails("0 columns"));
	prepared();
	TAKE('n', "");
	CHECK(fails("no rows"));
	prepared();
	TAKE('T', "\0\2" COLUMN "x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1");
	CHECK(fails("not text"));
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', "\0\2\xff\xff\xff\xff\0\0\0\1x");
	CHECK(fails("NULL"));
}

TEST(more_than_one_row)
{
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', ROW(BOB, "\1a"));
	TAKE('D', ROW(BOB, "\1b"));
	CHECK(fails("more than one row"));
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', ROW(BOB, "\1a"));
	TAKE('s', "");
	CHECK(fails("more than one row"));
	secret_free(&query.secret);
}

TEST(long_secrets)
{
	char row[5 + 4 + 4 + AUTHQUERY_SECRET_MOST + 1] = "\0\2\0\0\0" BOB;

	memset(row + 13, 'x', AUTHQUERY_SECRET_MOST + 1);
	for (int more = 0; more < 2; more++) {
		prepared();
		TAKE('T', TWO_COLUMNS);
		row[11] = (char)((AUTHQUERY_SECRET_MOST + more) >> 8);
		row[12] = (char)((AUTHQUERY_SECRET_MOST + more) & 0xff);
		take('D', row, 13 + AUTHQUERY_SECRET_MOST + (size_t)more);
		CHECK_INT(end(), more ? AUTHQUERY_FAILED : AUTHQUERY_USER);
	}
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', ROW(BOB, "\3a\0b"));
	CHECK(fails("too long, or no text"));
	secret_free(&query.secret);
}

TEST(malformed_rows)
{
	static const struct { const char *body; size_t size; } rows[] = {
#define BAD(text) { text, sizeof(text) - 1 }
		BAD(""), BAD("\0"), BAD("\0\2"), BAD("\0\2\0\0\0" BOB), BAD("\0\2\0\0\0" BOB "\0\0\0\1"), BAD("\0\2\0\0\0\4bob"),
		BAD("\0\2\0\0\0" BOB "\0\0\0\1xy"), BAD("\0\1\0\0\0" BOB), BAD("\0\3\0\0\0" BOB "\0\0\0\1x\0\0\0\0"),
		BAD("\0\2\x7f\xff\xff\xff" "bob"), BAD("\0\2\xff\xff\xff\xfe" "bob\0\0\0\1x"),
#undef BAD
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* an allocation of the exact size, so that the sanitizer detects a read past the end */
		char *exact = malloc(rows[i].size + 1);

		REQUIRE(exact);
		memcpy(exact, rows[i].body, rows[i].size);
		exact = realloc(exact, rows[i].size ? rows[i].size : 1);
		prepared();
		TAKE('T', TWO_COLUMNS);
		take('D', exact, rows[i].size);
		CHECK(fails("malformed DataRow"));
		prepared();
		take('T', exact, rows[i].size);
		CHECK(query.failed);
		free(exact);
	}
	prepared();
	TAKE('D', ROW(BOB, "\1x"));
	CHECK(fails("malformed DataRow"));	/* without a RowDescription */
}

TEST(errors)
{
	prepared();
	TAKE('E', "SERROR\0C42501\0Mpermission denied\0\0");
	CHECK(fails("ERROR: permission denied (42501)"));
	/* the first error is the reason */
	TAKE('E', "SERROR\0Mlater\0\0");
	CHECK(fails("permission denied"));
	prepared();
	TAKE('E', "\0");
	CHECK(fails("ERROR: no message (no SQLSTATE)"));
	prepared();
	TAKE('E', "Mtext");
	CHECK(fails("malformed ErrorResponse"));
	/* the preparation has failed: the server skips the rest */
	query = (struct authquery){ .user = "bob", .path = "" };
	CHECK_INT(TAKE('E', "SERROR\0Mno\0\0"), AUTHQUERY_MORE);
	CHECK_INT(TAKE('Z', "I"), AUTHQUERY_FAILED);
	CHECK(fails("no"));
}

TEST(name_that_is_invalid_in_the_server_encoding)
{
	prepared();
	TAKE('E', "SERROR\0C22021\0Minvalid byte sequence\0\0");
	CHECK_INT(TAKE('Z', "I"), AUTHQUERY_NO_USER);
	prepared();
	TAKE('E', "SERROR\0C22P05\0Mno equivalent\0\0");
	CHECK_INT(TAKE('Z', "I"), AUTHQUERY_NO_USER);
	/* not if the name plays no part */
	secret_free(&query.secret);
	query = (struct authquery){ .user = "bob", .path = "" };
	TAKE('E', "SERROR\0C22021\0Minvalid byte sequence\0\0");
	TAKE('Z', "I");
	CHECK(fails("22021"));
}

TEST(session_preparation_failed)
{
	/* the statement ended without a row: nothing was set */
	query = (struct authquery){ .user = "bob", .path = "" };
	TAKE('C', "SELECT 0\0");
	CHECK(fails("could not be prepared"));
	query = (struct authquery){ .user = "bob", .path = "" };
	TAKE('I', "");
	CHECK(fails("could not be prepared"));
	/* no answer arrived */
	query = (struct authquery){ .user = "bob", .path = "" };
	CHECK_INT(TAKE('Z', "I"), AUTHQUERY_FAILED);
	CHECK(fails("not answered"));
}

TEST(answers_that_close_the_connection)
{
	static const char copies[] = "GHW";

	for (size_t i = 0; i < sizeof(copies) - 1; i++) {
		prepared();
		CHECK_INT(TAKE(copies[i], "\0\0\0"), AUTHQUERY_BROKEN);
		CHECK(fails("COPY"));
	}
	prepared();
	TAKE('T', TWO_COLUMNS);
	TAKE('D', ROW(BOB, "\1x"));
	TAKE('C', "SELECT 1\0");
	CHECK_INT(TAKE('Z', "T"), AUTHQUERY_BROKEN);
	CHECK(fails("left a transaction open"));
	secret_free(&query.secret);
}

UNIT_MAIN
