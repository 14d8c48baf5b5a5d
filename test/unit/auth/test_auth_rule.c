/* The log message about a line of auth_hba_file. */
#include "auth/auth_rule.h"

#include "logins.h"
#include "whole.h"

#define HBA_INI "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS "pool_mode=transaction\nauth_type=hba\nauth_hba_file=hba\n== hba\n\n\n" \
	"host d x 127.0.0.1/32 password\n"
#define USERS "\"x\" \"pass\"\n"

TEST(log_message_has_the_line_number)
{
	struct house_end *end;
	struct client *c;
	char text[200];

	login_open(HBA_INI, USERS);
	end = login_name("x", "d");
	c = whole_last_client();
	CHECK(end && auth_rule_text(c, text, sizeof(text)));
	CHECK_TEXT(text, "matched hba:3 (password)");
	{
		struct hba_rule rule = *c->login->rule;
		const struct hba_rule *real = c->login->rule;

		rule.is_faulty = true;
		c->login->rule = &rule;
		CHECK(auth_rule_text(c, text, sizeof(text)));
		CHECK_TEXT(text, "refused by hba:3, a line that cannot be used");
		rule.is_faulty = false;
		rule.is_unknown = true;
		CHECK(auth_rule_text(c, text, sizeof(text)));
		CHECK_TEXT(text, "refused by hba:3, a line whose address cannot be checked");
		c->login->rule = NULL;
		CHECK(auth_rule_text(c, text, sizeof(text)));
		CHECK_TEXT(text, "no line of hba fits: tls=no replication=no");
		c->login->rule = real;
	}
	whole_close();
	login_open(WHOLE_INI("", ""), "");
	house_connect(&whole);
	CHECK(!auth_rule_text(whole_last_client(), text, sizeof(text)));
	whole_close();
}

UNIT_MAIN
