/* Every SHOW: the columns compared with the published interface, the formats, and permissions. */
#include "admin/result_wire.h"
#include "shows.h"

#include "show_columns.h"

TEST(columns_match_the_published_interface)
{
	for (size_t i = 0; i < sizeof(show_columns) / sizeof(show_columns[0]); i++) {
		const struct show_item *row = row_of(show_columns[i].command);
		char have[2048] = "";

		if (!row) {
			UNIT_FAIL("no %s", show_columns[i].command);
			continue;
		}
		for (size_t k = 0; k < row->standard_columns; k++)
			snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s", k ? " " : "", row->columns[k]);
		CHECK_TEXT(have, show_columns[i].columns);
		CHECK(row->all_columns <= RESULT_COLUMNS);
		CHECK(row->columns[row->all_columns] == NULL);
	}
}

/* The only others are HELP and the commands that PgBouncer does not have. */
TEST(there_are_no_other_show_commands)
{
	size_t known = sizeof(show_columns) / sizeof(show_columns[0]), count = 0;

	for (; show_at(count); count++)
		;
	CHECK_INT(count, known + 12);
	CHECK(show_find("help") && show_find("reasons") && show_find("reasons_all") && show_find("verifiers") && show_find("addresses"));
	CHECK(show_find("pins") && show_find("waits") && show_find("drains") && show_find("hosts") && show_find("alarms"));
	CHECK(!show_find("") && !show_find("pool"));
}

/* The RowDescription and the tag are as published, and each cell is valid in its format. */
TEST(columns_on_the_wire)
{
	static const struct { const char *name; int oid; } oids[] = {
		{ "text", 25 }, { "int4", 23 }, { "int8", 20 }, { "numeric", 1700 }, { "17", 17 },
	};
	struct client *c = begin("");

	fake_server_new("shop", "owner");
	for (size_t i = 0; i < sizeof(show_columns) / sizeof(show_columns[0]); i++) {
		char want[4096] = "T(", columns[2048], *save = NULL;
		const char *got;

		strcpy(columns, show_columns[i].columns);
		for (char *one = strtok_r(columns, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
			char *type = strchr(one, ':');
			int oid = 0;

			*type++ = '\0';
			for (size_t k = 0; k < sizeof(oids) / sizeof(oids[0]); k++)
				if (!strcmp(oids[k].name, type))
					oid = oids[k].oid;
			CHECK(oid != 0);
			snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%s:%d/0", want[2] ? "," : "", one, oid);
		}
		strcat(want, ")");
		got = fake_ask(c, show_columns[i].command);
		if (strncmp(got, want, strlen(want)) != 0)
			UNIT_FAIL("%s gives %.300s, want %s", show_columns[i].command, got, want);
		snprintf(want, sizeof(want), " C(%s) Z(I)", show_columns[i].tag);
		CHECK(strlen(got) > strlen(want) && strcmp(got + strlen(got) - strlen(want), want) == 0);
	}
	fake_end();
}

/* With show_extra_columns, the standard columns keep their positions. */
TEST(extra_columns_come_after_the_standard_ones)
{
	struct client *c = begin("show_extra_columns = 1\n");
	int grown = 0;

	fake_server_new("shop", "owner");
	for (size_t i = 0; show_at(i); i++) {
		const struct show_item *row = show_at(i);
		const char *got = ask_show(c, row->name), *end = strchr(got, ')');
		size_t columns = row->standard_columns ? 1 : 0;

		CHECK(end && (got[0] == 'T') == (row->standard_columns > 0));
		if (!end || !row->standard_columns)
			continue;
		for (const char *p = got; p < end; p++)
			columns += *p == ',';
		CHECK_INT(columns, row->all_columns);
		grown += row->all_columns > row->standard_columns;
	}
	CHECK_INT(grown, 7);
	fake_end();
}

static void no_bytes(struct result *r) { (void)r; }
static void write_text(struct result *r, const char *text, size_t size) { bytes_append_format(&r->rows, "'%.*s' ", (int)size, text); }
static void write_number(struct result *r, int64_t value) { bytes_append_format(&r->rows, "%" PRId64 " ", value); }
static void write_count(struct result *r, uint64_t value) { bytes_append_format(&r->rows, "%" PRIu64 " ", value); }

/* A SHOW is independent of the result format and needs no client. */
TEST(show_works_with_any_result_format)
{
	static const struct result_format format = {
		.begin_row = no_bytes, .null = no_bytes, .text = write_text, .number = write_number, .count = write_count,
		.end_row = no_bytes,
	};
	const struct show_item *row;
	bool has_version = false;

	begin("");
	fake_client_new("shop", "anna");
	fake_server_new("shop", "anna");
	for (size_t i = 0; (row = show_at(i)) != NULL; i++) {
		struct result r;
		struct show show = { .world = &fake.world, .version = "PgBouncer 1.25.2 (pgweir 0.0.0)", .item = row, .to = &r };

		result_init(&r, &format, row->columns, row->all_columns);
		if (row->fill)
			show.item->fill(&show);
		CHECK_INT(r.cell, 0);
		bytes_append_u8(&r.rows, 0);
		has_version |= !strcmp((const char *)bytes_front(&r.rows), "'PgBouncer 1.25.2 (pgweir 0.0.0)' ");
		if (!strcmp(row->name, "SERVERS"))
			CHECK(strstr((const char *)bytes_front(&r.rows), " 'idle' '10.0.0.5' 5432 ") != NULL);
		result_free(&r);
	}
	CHECK(has_version);
	fake_end();
}

TEST(fixed_rows)
{
	struct client *c = begin("");

	for (size_t i = 0; i < sizeof(show_rows) / sizeof(show_rows[0]); i++) {
		char names[1024], *save = NULL;
		const char *got = ask_show(c, show_rows[i].item);
		int row = 0;

		strcpy(names, show_rows[i].names);
		for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save), row++)
			CHECK_TEXT(cell(got, row, 0), name);
		CHECK_TEXT(cell(got, row, 0), "(none)");
	}
	fake_end();
}

TEST(stats_users_see_all_but_fds_and_statements)
{
	struct client *c;

	begin("");
	c = fake_caller("looker", false);
	for (size_t i = 0; show_at(i); i++) {
		const char *got = ask_show(c, show_at(i)->name);

		if (!strcmp(show_at(i)->name, "FDS") || !strcmp(show_at(i)->name, "STATEMENTS"))
			CHECK_TEXT(got, "E(08P01 admin access needed) Z(I)");
		else
			CHECK(strstr(got, " C(SHOW) Z(I)") != NULL);
	}
	fake_end();
}

UNIT_MAIN
