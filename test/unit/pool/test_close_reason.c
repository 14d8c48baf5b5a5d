/* The table of close reasons: every row is complete, and every text can include any detail. */
#include "pool/close_reason.h"

#include "fake.h"
#include "unit.h"

TEST(every_close_reason_row_is_complete)
{
	for (int why = REASON_NONE + 1; why < REASONS; why++) {
		const struct close_reason_row *row = &close_reason_rows[why];

		CHECK(row->name && row->name[0]);
		CHECK(row->text && row->text[0]);
		CHECK_INT(strlen(row->sqlstate), 5);
		CHECK(row->fault != FAULT_NOBODY);
		/* A text has at most one %s and no other format directive. */
		const char *percent = strchr(row->text, '%');
		CHECK(!percent || (percent[1] == 's' && !strchr(percent + 1, '%')));
		for (int other = why + 1; other < REASONS; other++)
			CHECK(strcmp(row->name, close_reason_rows[other].name) != 0);
	}
	CHECK_TEXT(close_reason_rows[REASON_NONE].text, "");
	CHECK_INT(close_reason_rows[REASON_SERVER_BROKEN].fault, FAULT_SERVER);
}

TEST(close_reason_text_includes_detail)
{
	char buf[64], tiny[8];

	CHECK_TEXT(close_reason_text(REASON_NO_DATABASE, "app", buf, sizeof(buf)), "no such database: app");
	CHECK_TEXT(close_reason_text(REASON_DATABASE_DISABLED, "app", buf, sizeof(buf)), "database \"app\" is disabled");
	CHECK_TEXT(close_reason_text(REASON_LOGIN_FAILING, "x", buf, sizeof(buf)),
		   "server login has been failing, cached error: x (server_login_re");
	CHECK_TEXT(close_reason_text(REASON_NO_DATABASE, "%s%n%x", buf, sizeof(buf)), "no such database: %s%n%x");
	CHECK_TEXT(close_reason_text(REASON_NO_DATABASE, NULL, buf, sizeof(buf)), "no such database: ");
	CHECK_TEXT(close_reason_text(REASON_NO_USER, "ignored", buf, sizeof(buf)), "no such user");
	CHECK_TEXT(close_reason_text(REASON_NO_DATABASE, "app", tiny, sizeof(tiny)), "no such");
	CHECK_TEXT(close_reason_text(REASON_NONE, NULL, buf, sizeof(buf)), "");
	/* a text with the detail in parentheses is valid without the detail */
	CHECK_TEXT(close_reason_text(REASON_CONNECT_FAILED, "Connection refused", buf, sizeof(buf)), "connect failed (Connection refused)");
	CHECK_TEXT(close_reason_text(REASON_CONNECT_FAILED, NULL, buf, sizeof(buf)), "connect failed");
	CHECK_TEXT(close_reason_text(REASON_CONNECT_FAILED, NULL, tiny, sizeof(tiny)), "connect");
}

TEST(log_details_are_escaped_and_truncated)
{
	char buf[REASON_LOG_TEXT], large[1000];

	CHECK_TEXT(close_reason_log_text(REASON_NO_DATABASE, "app", buf, sizeof(buf)), "no such database: app");
	CHECK_TEXT(close_reason_log_text(REASON_NO_DATABASE, "a (age=1s)", buf, sizeof(buf)), "no such database: \"a (age=1s)\"");
	CHECK_TEXT(close_reason_log_text(REASON_DATABASE_DISABLED, "app", buf, sizeof(buf)), "database \"app\" is disabled");
	CHECK_TEXT(close_reason_log_text(REASON_DATABASE_DISABLED, "a\"b", buf, sizeof(buf)), "database \"a\\\"b\" is disabled");
	CHECK_TEXT(close_reason_log_text(REASON_STARTUP_OPTION, "a\nb", buf, sizeof(buf)),
		   "unsupported startup parameter in options: \"a\\x0ab\"");
	CHECK_TEXT(close_reason_log_text(REASON_SERVER_SAID, "no, \"not\" today\x1b", buf, sizeof(buf)), "no, \"not\" today\\x1b");
	CHECK_TEXT(close_reason_log_text(REASON_NO_DATABASE, NULL, buf, sizeof(buf)), "no such database: ");
	memset(large, '\x1b', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	for (int why = REASON_NONE + 1; why < REASONS; why++) {
		close_reason_log_text((enum close_reason)why, large, buf, sizeof(buf));
		/* the buffer is large enough, so the end of the row is printed */
		CHECK(strlen(buf) < sizeof(buf) - 1);
	}
}

UNIT_MAIN
