/* Each message builder compared with the bytes in the protocol documentation. */
#include "pg/build.h"
#include "pg/frame.h"
#include "data_row.h"
#include "unit.h"

#define IS(bytes, text) is(bytes, text, sizeof(text) - 1)

/* Returns true if the bytes are exactly these, and empties the buffer. */
static bool is(struct bytes *b, const char *want, size_t size)
{
	bool equal = !b->failed && bytes_size(b) == size && !memcmp(bytes_front(b), want, size);

	if (!equal) {
		for (size_t i = 0; i < bytes_size(b); i++)
			fprintf(stderr, "%02x ", bytes_front(b)[i]);
		fprintf(stderr, "\n");
	}
	bytes_free(b);
	return equal;
}

TEST(auth_and_key)
{
	struct bytes b = BYTES_EMPTY;

	pg_build_auth(&b, 0, NULL, 0);
	CHECK(IS(&b, "R\0\0\0\x08\0\0\0\0"));
	pg_build_auth(&b, 5, "salt", 4);
	CHECK(IS(&b, "R\0\0\0\x0c\0\0\0\5salt"));
	pg_build_key(&b, 'K', 0x01020304, (const uint8_t *)"abcd", 4);
	CHECK(IS(&b, "K\0\0\0\x0c\1\2\3\4" "abcd"));
}

TEST(reports)
{
	struct bytes b = BYTES_EMPTY;

	pg_build_report(&b, 'E', "FATAL", "08P01", "no", NULL, NULL);
	CHECK(IS(&b, "E\0\0\0\x1e" "SFATAL\0VFATAL\0C08P01\0Mno\0\0"));
	pg_build_report(&b, 'E', "E", "1", "m", "d", "h");
	CHECK(IS(&b, "E\0\0\0\x17SE\0VE\0C1\0Mm\0Dd\0Hh\0\0"));
	pg_build_report(&b, 'N', "N", "0", "m", "d", NULL);
	CHECK(IS(&b, "N\0\0\0\x14SN\0VN\0C0\0Mm\0Dd\0\0"));
	pg_build_report(&b, 'N', "N", "0", "m", NULL, NULL);
	CHECK(IS(&b, "N\0\0\0\x11SN\0VN\0C0\0Mm\0\0"));
}

TEST(server_side)
{
	static const char *const options[] = { "_pq_.a", "_pq_.b" };
	struct bytes b = BYTES_EMPTY;

	pg_build_string(&b, 'C', "SHOW");
	CHECK(IS(&b, "C\0\0\0\x09SHOW\0"));
	pg_build_negotiate(&b, 0x30000, options, 2);
	CHECK(IS(&b, "v\0\0\0\x1a\0\3\0\0\0\0\0\2_pq_.a\0_pq_.b\0"));
	pg_build_negotiate(&b, 0, NULL, 0);
	CHECK(IS(&b, "v\0\0\0\x0c\0\0\0\0\0\0\0\0"));
	pg_build_parameter_status(&b, "TimeZone", "UTC");
	CHECK(IS(&b, "S\0\0\0\x11TimeZone\0UTC\0"));
	pg_build(&b, 'Z', "I", 1);
	CHECK(IS(&b, "Z\0\0\0\5I"));
}

TEST(client_side)
{
	static const char *const pairs[] = { "user", "joe" };
	struct bytes b = BYTES_EMPTY;

	pg_build_string(&b, 'Q', "SELECT 1");
	CHECK(IS(&b, "Q\0\0\0\x0dSELECT 1\0"));
	pg_build(&b, 'p', "pw", 3);
	CHECK(IS(&b, "p\0\0\0\7pw\0"));
	pg_build_sasl_initial(&b, "SCRAM-SHA-256", "n,,", 3);
	CHECK(IS(&b, "p\0\0\0\x19SCRAM-SHA-256\0\0\0\0\3n,,"));
	pg_build(&b, 'X', NULL, 0);
	CHECK(IS(&b, "X\0\0\0\4"));
	pg_build_startup(&b, 0x30000, pairs, 2);
	CHECK(IS(&b, "\0\0\0\x12\0\3\0\0user\0joe\0\0"));
	pg_build_startup(&b, 0x30000, NULL, 0);
	CHECK(IS(&b, "\0\0\0\x09\0\3\0\0\0"));
	pg_build(&b, 0, PG_SSL_REQUEST, sizeof(PG_SSL_REQUEST) - 1);
	CHECK(IS(&b, "\0\0\0\x08\x04\xd2\x16\x2f"));
	pg_build_key(&b, 0, 7, (const uint8_t *)"abcd", 4);
	CHECK(IS(&b, "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\7" "abcd"));
}

TEST(rows)
{
	static const char *const columns[] = { "database:text", "port:int4", "id:int8", "n:numeric", "k:17", "a:b:text", "x" };
	static const char *const cells[] = { "abc", NULL, "" };
	struct bytes b = BYTES_EMPTY;

	pg_build_row_description(&b, columns, 7);
	CHECK(IS(&b, "T\0\0\0\x9f\0\7"
		  "database\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
		  "port\0\0\0\0\0\0\0\0\0\0\x17\0\4\xff\xff\xff\xff\0\0"
		  "id\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0"
		  "n\0\0\0\0\0\0\0\0\0\6\xa4\xff\xff\xff\xff\xff\xff\0\0"
		  "k\0\0\0\0\0\0\0\0\0\0\x11\xff\xff\xff\xff\xff\xff\0\0"
		  "a:b\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
		  "x\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"));
	pg_build_data_row(&b, cells, 3);
	CHECK(IS(&b, "D\0\0\0\x15\0\3\0\0\0\3abc\xff\xff\xff\xff\0\0\0\0"));
	pg_build_row_description(&b, NULL, 0);
	CHECK(IS(&b, "T\0\0\0\6\0\0"));
}

/* An append may move the buffer and drop consumed bytes; lengths are still written at the right place. */
TEST(lengths_survive_a_move)
{
	struct bytes b = BYTES_EMPTY;
	char text[300];
	struct pg_frame f;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 200; i++) {
		pg_build(&b, 'Z', "I", 1);
		pg_build_string(&b, 'Q', text);
		REQUIRE(!b.failed);
		REQUIRE(pg_frame_look(bytes_front(&b), bytes_size(&b), 1000, &f) == PG_OK);
		CHECK_INT(f.type, i % 2 ? 'Q' : 'Z');
		bytes_consume(&b, PG_HEADER + f.size);
	}
	for (int i = 200; i < 400; i++) {
		REQUIRE(pg_frame_look(bytes_front(&b), bytes_size(&b), 1000, &f) == PG_OK);
		CHECK_INT(f.type, i % 2 ? 'Q' : 'Z');
		CHECK_INT(f.size, i % 2 ? 300 : 1);
		bytes_consume(&b, PG_HEADER + f.size);
	}
	CHECK_INT(bytes_size(&b), 0);
	bytes_free(&b);
}

/* A failed buffer remains failed, and nothing is written at an invalid mark. */
TEST(out_of_memory)
{
	struct bytes b = BYTES_EMPTY;

	b.failed = true;
	pg_build_report(&b, 'E', "ERROR", "08P01", "no", "detail", "hint");
	pg_build_startup(&b, 0x30000, NULL, 0);
	CHECK(b.failed);
	CHECK_INT(bytes_size(&b), 0);
	bytes_free(&b);
}

UNIT_MAIN
