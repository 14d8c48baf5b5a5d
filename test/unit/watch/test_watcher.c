/* The answer to the question for the role of a host. */
#include "watch/watcher.h"

#include "unit.h"

#define SYSTEM "7382951034823917273"
#define WAL_FILE "0000000A0000001600000037"

#define COLUMNS 7

/* Makes a DataRow; NULL: a NULL. Returns its size. */
static size_t make_row(const char *const columns[COLUMNS], uint8_t *row)
{
	size_t used = 2;

	row[0] = 0;
	row[1] = COLUMNS;
	for (int i = 0; i < COLUMNS; i++) {
		size_t size = columns[i] ? strlen(columns[i]) : 0;

		memset(row + used, columns[i] ? 0 : 0xff, 4);
		if (columns[i])
			row[used + 3] = (uint8_t)size;
		used += 4;
		if (columns[i])
			memcpy(row + used, columns[i], size);
		used += size;
	}
	return used;
}

static bool reads(const char *recovery, const char *position, const char *file, const char *read_only, const char *system, struct host_evidence *answer)
{
	const char *const columns[COLUMNS] = { recovery, position, file, read_only, system };
	uint8_t row[400];
	size_t size = make_row(columns, row);

	*answer = (struct host_evidence){ .claim = CLAIM_UNKNOWN };
	return watch_read_row(row, size, answer);
}

TEST(a_primary_and_a_standby)
{
	struct host_evidence answer;

	CHECK(reads("f", "16/B374D848", WAL_FILE, "off", SYSTEM, &answer));
	CHECK(answer.claim == CLAIM_PRIMARY && answer.timeline == 10 && answer.position == 0x16B374D848 && !answer.is_read_only &&
	      answer.system_id == UINT64_C(7382951034823917273));
	CHECK(reads("t", "0/5000028", NULL, "on", SYSTEM, &answer));
	CHECK(answer.claim == CLAIM_STANDBY && answer.timeline == 0 && answer.position == 0x5000028 && answer.is_read_only);
	/* a service without WAL functions */
	CHECK(reads("f", NULL, NULL, "off", NULL, &answer));
	CHECK(answer.claim == CLAIM_PRIMARY && answer.position == 0 && answer.system_id == 0);
}

TEST(the_wal_receiver_of_a_standby)
{
	static const struct { const char *text; bool is_read; uint32_t receiver; const char *sender; } cases[] = {
		{ NULL, true, 0, "" }, { "4711", true, 4711, "" }, { "4294967295", true, UINT32_MAX, "" }, { "4294967296", false, 0, "" },
		{ "", false, 0, "" }, { "-1", false, 0, "" }, { "4711 db1 5432", true, 4711, "db1:5432" },
		{ "4711 ::1 65535", true, 4711, "::1:65535" }, { "4711 /a b 5432", true, 4711, "/a b:5432" },
		{ "4711 db1 65536", false, 4711, "" }, { "4711 db1", false, 4711, "" }, { "4711 ", false, 4711, "" }, { "4711  5432", false, 4711, "" },
		{ " db1 5432", false, 0, "" }, { "4711 db1 ", false, 4711, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const columns[COLUMNS] = { "t", "0/5000028", "3", "off", SYSTEM, cases[i].text };
		struct host_evidence answer = { .claim = CLAIM_UNKNOWN };
		uint8_t row[400];

		CHECK_INT(watch_read_row(row, make_row(columns, row), &answer), cases[i].is_read);
		CHECK_INT(answer.receiver, cases[i].receiver);
		CHECK_TEXT(answer.sender, cases[i].sender);
	}
}

TEST(limits_of_numbers)
{
	struct host_evidence answer;

	CHECK(reads("f", "FFFFFFFF/FFFFFFFF", "FFFFFFFF0000000000000000", "off", "18446744073709551615", &answer));
	CHECK(answer.position == UINT64_MAX && answer.timeline == UINT32_MAX && answer.system_id == UINT64_MAX);
	CHECK(!reads("f", "100000000/0", NULL, "off", "1", &answer));
	CHECK(!reads("f", "0/100000000", NULL, "off", "1", &answer));
	CHECK(!reads("f", "0/0", NULL, "off", "18446744073709551616", &answer));
}

TEST(nonsense_is_refused)
{
	static const char *const rows[][5] = {
		{ NULL, NULL, NULL, NULL, NULL }, { "", NULL, NULL, NULL, NULL }, { "x", NULL, NULL, NULL, NULL }, { "tt", NULL, NULL, NULL, NULL },
		{ "t", "", NULL, NULL, NULL }, { "t", "/", NULL, NULL, NULL }, { "t", "0", NULL, NULL, NULL }, { "t", "0/", NULL, NULL, NULL },
		{ "t", "g/0", NULL, NULL, NULL }, { "t", "-1/0", NULL, NULL, NULL }, { "f", "0/0", "", NULL, NULL }, { "f", "0/0", "0000000A", NULL, NULL },
		{ "f", "0/0", "0000000x0000001600000037", NULL, NULL }, { "f", "0/0", NULL, NULL, "" }, { "f", "0/0", NULL, NULL, "1a" },
		{ "f", "0/0", NULL, NULL, "-1" },
	};
	struct host_evidence answer;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(!reads(rows[i][0], rows[i][1], rows[i][2], rows[i][3], rows[i][4], &answer));
}

TEST(cut_and_long_rows_are_refused)
{
	static const char *const columns[COLUMNS] = { "f", "16/B374D848", WAL_FILE, "off", SYSTEM, "4711", "1764331200123456" };
	struct host_evidence answer = { .at = 5 };
	uint8_t row[400], exact[400];
	size_t size = make_row(columns, row);

	for (size_t n = 0; n < size; n++) {
		memcpy(exact, row, n);
		CHECK(!watch_read_row(exact, n, &answer));
	}
	row[size] = 0;
	CHECK(!watch_read_row(row, size + 1, &answer));
	row[1] = COLUMNS - 1;
	CHECK(!watch_read_row(row, size, &answer));
	/* the time is the caller's */
	CHECK_INT(answer.at, 5);
}

UNIT_MAIN
