/* Start-up packets: each kind, each error, truncated at each byte; and the options parameter as the server parses it. */
#include "pg/startup.h"
#include "unit.h"

#include <stdlib.h>

#define LIMIT 10000
#define VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

static uint8_t packet[1024];

static size_t packet_of(uint32_t length, uint32_t code, const void *rest, size_t size)
{
	uint8_t head[8] = { (uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,
			    (uint8_t)(code >> 24), (uint8_t)(code >> 16), (uint8_t)(code >> 8), (uint8_t)code };

	memcpy(packet, head, 8);
	if (size)
		memcpy(packet + 8, rest, size);
	return 8 + size;
}

static enum pg_verdict read_packet(uint32_t code, const void *rest, size_t size, struct pg_startup *s)
{
	size_t n = packet_of((uint32_t)size + 8, code, rest, size);

	return pg_startup_read(packet, n, LIMIT, s);
}

#define READ(code, text, s) read_packet(code, text, sizeof(text) - 1, s)

TEST(session)
{
	struct pg_startup s;
	const char *name, *value;
	size_t at = 0;

	REQUIRE(READ(VERSION(3, 2), "user\0joe\0database\0\0_pq_.x\0" "1\0\0", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_SESSION);
	CHECK_INT(s.major, 3);
	CHECK_INT(s.minor, 2);
	REQUIRE(pg_startup_pair(&s, &at, &name, &value));
	CHECK_TEXT(name, "user");
	CHECK_TEXT(value, "joe");
	REQUIRE(pg_startup_pair(&s, &at, &name, &value));
	CHECK_TEXT(name, "database");
	CHECK_TEXT(value, "");
	REQUIRE(pg_startup_pair(&s, &at, &name, &value));
	CHECK_TEXT(name, "_pq_.x");
	CHECK_TEXT(value, "1");
	CHECK(!pg_startup_pair(&s, &at, &name, &value));
	CHECK(!pg_startup_pair(&s, &at, &name, &value));
}

TEST(session_without_pairs)
{
	struct pg_startup s;
	const char *name, *value;
	size_t at = 0;

	REQUIRE(READ(VERSION(3, 0), "\0", &s) == PG_OK);
	CHECK_INT(s.pairs_size, 0);
	CHECK(!pg_startup_pair(&s, &at, &name, &value));
}

TEST(session_layout)
{
	struct pg_startup s;

	CHECK(READ(VERSION(3, 0), "", &s) == PG_BAD);
	CHECK_INT(s.fault, STARTUP_FAULT_LAYOUT);
	CHECK(READ(VERSION(3, 0), "user\0joe\0", &s) == PG_BAD);		/* no terminator */
	CHECK_INT(s.fault, STARTUP_FAULT_LAYOUT);
	CHECK(READ(VERSION(3, 0), "user\0joe", &s) == PG_BAD);
	CHECK(READ(VERSION(3, 0), "user\0joe\0database\0\0", &s) == PG_BAD);	/* a name without a value */
	CHECK(READ(VERSION(3, 0), "user\0", &s) == PG_BAD);
	CHECK(READ(VERSION(3, 0), "user\0joe\0\0rest\0x\0\0", &s) == PG_BAD);	/* bytes after the terminator */
	CHECK(READ(VERSION(3, 0), "\0\0", &s) == PG_BAD);
	CHECK(READ(VERSION(3, 0), "x", &s) == PG_BAD);
	CHECK_INT(s.fault, STARTUP_FAULT_LAYOUT);
}

TEST(requests)
{
	struct pg_startup s;

	CHECK(READ(VERSION(1234, 5679), "", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_SSL);
	CHECK_INT(s.size, 8);
	CHECK(READ(VERSION(1234, 5680), "", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_GSS);
	CHECK(READ(VERSION(1234, 5679), "x", &s) == PG_BAD);
	CHECK_INT(s.fault, STARTUP_FAULT_HEADER);
	CHECK(READ(VERSION(1234, 5681), "", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_UNKNOWN);
}

TEST(cancel)
{
	struct pg_startup s;
	uint8_t body[4 + 257] = { 0x01, 0x02, 0x03, 0x04, 'k', 'e', 'y', '!' };

	CHECK(read_packet(VERSION(1234, 5678), body, 8, &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_CANCEL);
	CHECK_INT(s.cancel_pid, 0x01020304);
	CHECK_INT(s.cancel_key_size, 4);
	CHECK(!memcmp(s.cancel_key, "key!", 4));
	CHECK(read_packet(VERSION(1234, 5678), body, 4 + 256, &s) == PG_OK);
	CHECK_INT(s.cancel_key_size, 256);
	CHECK(read_packet(VERSION(1234, 5678), body, 4 + 257, &s) == PG_BAD);
	CHECK_INT(s.fault, STARTUP_FAULT_HEADER);
	CHECK(read_packet(VERSION(1234, 5678), body, 7, &s) == PG_BAD);
	CHECK(read_packet(VERSION(1234, 5678), body, 0, &s) == PG_BAD);
}

TEST(versions)
{
	struct pg_startup s;

	CHECK(READ(VERSION(2, 0), "anything", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_VERSION_2);
	CHECK(READ(VERSION(0, 7), "", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_VERSION_2);
	CHECK(READ(VERSION(4, 0), "anything", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_UNKNOWN);
	CHECK(READ(VERSION(3, 9999), "\0", &s) == PG_OK);
	CHECK_INT(s.kind, STARTUP_SESSION);
}

TEST(lengths)
{
	static const uint32_t impossible[] = { 0, 1, 4, 7, LIMIT + 1, 0x7fffffff, 0x80000000, 0xffffffff,
					       0x47455420 /* "GET " */, 0x16030100 /* a TLS hello */ };
	struct pg_startup s;

	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		packet_of(impossible[i], 0, NULL, 0);
		CHECK_INT(pg_startup_read(packet, 4, LIMIT, &s), PG_BAD);	/* reported as early as possible */
		CHECK_INT(s.fault, STARTUP_FAULT_HEADER);
	}
	packet_of(LIMIT, VERSION(3, 0), NULL, 0);
	CHECK(pg_startup_read(packet, 8, LIMIT, &s) == PG_MORE);
}

TEST(truncated_packets)
{
	static const char pairs[] = "user\0joe\0\0behind";
	size_t size = 8 + 10, all = packet_of((uint32_t)size, VERSION(3, 0), pairs, sizeof(pairs));

	for (size_t n = 0; n <= all; n++) {
		uint8_t *copy = malloc(n ? n : 1);
		struct pg_startup s;

		REQUIRE(copy != NULL);
		memcpy(copy, packet, n);
		CHECK_INT(pg_startup_read(copy, n, LIMIT, &s), n < size ? PG_MORE : PG_OK);
		if (n >= size) {
			CHECK_INT(s.size, size);
			CHECK_INT(s.pairs_size, 9);
		}
		free(copy);
	}
}

static char name[32], value[32];

static enum pg_verdict next(const char **text)
{
	memset(name, '#', sizeof(name));
	memset(value, '#', sizeof(value));
	return pg_options_next(text, name, sizeof(name), value, sizeof(value));
}

/* Returns the options of a list as "name|value; name|value", with "bad" for the first invalid option. */
static const char *options(const char *text)
{
	static char result[200];
	enum pg_verdict verdict;
	size_t size = 0;

	result[0] = '\0';
	while ((verdict = next(&text)) == PG_OK)
		size += (size_t)snprintf(result + size, sizeof(result) - size, "%s%s|%s", size ? "; " : "", name, value);
	if (verdict == PG_BAD)
		snprintf(result + size, sizeof(result) - size, "%sbad", size ? "; " : "");
	return result;
}

TEST(options_forms)
{
	CHECK_PAIRS(options,
		{ "-c work_mem=4MB", "work_mem|4MB" },
		{ "-cwork_mem=4MB", "work_mem|4MB" },
		{ "--work-mem=4MB", "work-mem|4MB" },
		{ "-c work-mem=a-b", "work-mem|a-b" },
		{ "  -c\t a=1 \n --b=2  -c c=3 ", "a|1; b|2; c|3" },
		{ "-c a=", "a|" },
		{ "-c a=b=c", "a|b=c" },
		{ "", "" },
		{ "  ", "" });
}

TEST(options_escapes)
{
	CHECK_PAIRS(options,
		{ "-c search_path=a,\\ \"b\\\\c\"", "search_path|a, \"b\\c\"" },
		{ "-c a=x\\ ", "a|x " },
		{ "-c a=x\\", "a|x" });
}

TEST(other_command_line_options)
{
	CHECK_PAIRS(options,
		{ "-d 5", "bad" },
		{ "x=5", "bad" },
		{ "-", "bad" },
		{ "--", "bad" },
		{ "-c", "bad" },
		{ "-c ", "bad" },
		{ "-c name", "bad" },
		{ "--name", "bad" },
		{ "--=5", "bad" },
		{ "-c a=1 -x", "a|1; bad" });
}

TEST(options_fit_or_are_refused)
{
	CHECK_PAIRS(options,
		{ "-c n123456789012345678901234567890=5", "n123456789012345678901234567890|5" },
		{ "-c n1234567890123456789012345678901=5", "bad" },
		{ "-c n=1234567890123456789012345678901", "n|1234567890123456789012345678901" },
		{ "-c n=12345678901234567890123456789012", "bad" });
}

TEST(minor_versions)
{
	CHECK_INT(pg_minor_served(0), 0);
	CHECK_INT(pg_minor_served(1), 0);
	CHECK_INT(pg_minor_served(2), 2);
	CHECK_INT(pg_minor_served(3), 2);
	CHECK_INT(pg_minor_served(UINT16_MAX), 2);
	CHECK_INT(pg_minor_served(PG_MINOR_NEWEST), PG_MINOR_NEWEST);
}

/* ---- values of parameters ---- */

TEST(booleans)
{
	static const char *const on[] = { "on", "ON", "true", "T", "tru", "yes", "y", "1" };
	static const char *const off[] = { "off", "of", "False", "f", "no", "N", "0" };
	static const char *const refused[] = { "", "o", "2", "10", "onn", "trues", "enable", "ye s" };

	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		CHECK_TEXT(pg_boolean_spelled(on[i]), "on");
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		CHECK_TEXT(pg_boolean_spelled(off[i]), "off");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK(pg_boolean_spelled(refused[i]) == NULL);
}

TEST(parameters)
{
	CHECK_TEXT(pg_spelled("Client_Encoding", "utf-8"), "UTF8");
	CHECK_TEXT(pg_spelled("STANDARD_conforming_strings", "yes"), "on");
	CHECK_TEXT(pg_spelled("standard_conforming_strings", "0"), "off");
	CHECK_TEXT(pg_spelled("standard_conforming_strings", "maybe"), "maybe");
	CHECK_TEXT(pg_spelled("intervalstyle", "ISO_8601"), "iso_8601");
	CHECK_TEXT(pg_spelled("IntervalStyle", "Postgres_Verbose"), "postgres_verbose");
	CHECK_TEXT(pg_spelled("IntervalStyle", "roman"), "roman");
	CHECK_TEXT(pg_spelled("application_name", "YES"), "YES");
}

/* ---- client encoding ---- */

TEST(spellings)
{
	CHECK_TEXT(pg_spelled("client_encoding", "utf-8"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "UTF8"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", " Utf_8 "), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "unicode"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "iso-8859-1"), "LATIN1");
	CHECK_TEXT(pg_spelled("client_encoding", "ISO_8859-16"), "LATIN10");
	CHECK_TEXT(pg_spelled("client_encoding", "Windows-1252"), "WIN1252");
	CHECK_TEXT(pg_spelled("client_encoding", "win"), "WIN1251");
	CHECK_TEXT(pg_spelled("client_encoding", "abc"), "WIN1258");
	CHECK_TEXT(pg_spelled("client_encoding", "windows950"), "BIG5");
	CHECK_TEXT(pg_spelled("client_encoding", "shift_jis_2004"), "SHIFT_JIS_2004");
}

/* Older drivers compare with the spelling that they sent. */
TEST(upper_case_unicode_is_kept)
{
	CHECK_TEXT(pg_spelled("client_encoding", "UNICODE"), "UNICODE");
}

TEST(unknown_character_set_is_kept)
{
	CHECK_TEXT(pg_spelled("client_encoding", ""), "");
	CHECK_TEXT(pg_spelled("client_encoding", "--"), "--");
	CHECK_TEXT(pg_spelled("client_encoding", "utf9"), "utf9");
	CHECK_TEXT(pg_spelled("client_encoding", "utf8\xc3\xa9"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

/* ---- DateStyle ---- */

static const char *over(const char *before, const char *asked)
{
	static char full[PG_DATESTYLE_MOST];

	return pg_datestyle_over(before, asked, full) ? full : NULL;
}

TEST(unmentioned_part_is_kept)
{
	CHECK_TEXT(over("ISO, MDY", "SQL"), "SQL, MDY");
	CHECK_TEXT(over("German, DMY", "ISO"), "ISO, DMY");
	CHECK_TEXT(over("Postgres, YMD", "MDY"), "Postgres, MDY");
	CHECK_TEXT(over("SQL, DMY", "ISO, YMD"), "ISO, YMD");
	CHECK_TEXT(over("SQL, DMY", "YMD, ISO"), "ISO, YMD");
}

TEST(spellings_DateStyle)
{
	CHECK_TEXT(over("ISO, MDY", "iso"), "ISO, MDY");
	CHECK_TEXT(over("ISO, MDY", " sql\t,\n dmy "), "SQL, DMY");
	CHECK_TEXT(over("ISO, MDY", "sql,dmy"), "SQL, DMY");
	CHECK_TEXT(over("ISO, MDY", "postgresql"), "Postgres, MDY");
	CHECK_TEXT(over("ISO, MDY", "European"), "ISO, DMY");
	CHECK_TEXT(over("ISO, DMY", "us"), "ISO, MDY");
	CHECK_TEXT(over("ISO, DMY", "NonEuropean"), "ISO, MDY");
	CHECK_TEXT(over("ISO, DMY", "ISO, ISO"), "ISO, DMY");
}

TEST(german_sets_the_field_order)
{
	CHECK_TEXT(over("ISO, MDY", "German"), "German, DMY");
	CHECK_TEXT(over("ISO, MDY", "German, YMD"), "German, YMD");
	CHECK_TEXT(over("ISO, MDY", "YMD, German"), "German, YMD");
}

TEST(values_that_only_the_server_can_resolve)
{
	CHECK(!over("ISO, MDY", ""));
	CHECK(!over("ISO, MDY", "DEFAULT"));
	CHECK(!over("ISO, MDY", "ISO, DEFAULT"));
	CHECK(!over("ISO, MDY", "ISO MDY"));
	CHECK(!over("ISO, MDY", "ISO,"));
	CHECK(!over("ISO, MDY", ",ISO"));
	CHECK(!over("ISO, MDY", "\"iso\""));
	CHECK(!over("ISO, MDY", "ISO, SQL"));
	CHECK(!over("ISO, MDY", "DMY, MDY"));
	CHECK(!over("ISO, MDY", "is"));
	CHECK(!over("ISO, MDY", "isoo"));
	CHECK(!over("ISO", "SQL"));
	CHECK(!over("", "SQL"));
	CHECK(!over("Klingon, MDY", "SQL"));
}

UNIT_MAIN
