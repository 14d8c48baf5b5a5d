/* The grammar: every command in every form, and invalid commands. */
#include "admin/command.h"

#include "admin/caller.h"
#include "show/show.h"
#include "unit.h"

/* Formats the command as "VERB name=value", "SHOW ITEM", "invalid" or "empty". ~ is a missing argument. */
static const char *parsed(const char *text)
{
	static char out[1024];
	struct command c;
	enum command_verdict verdict = command_parse((struct sql_span){ text, strlen(text) }, &c);

	if (verdict == COMMAND_PARSE_INVALID)
		strcpy(out, "invalid");
	else if (!c.row)
		strcpy(out, "empty");
	else if (c.show)
		snprintf(out, sizeof(out), "%s %s", c.row->verb, c.show->name);
	else if (c.value)
		snprintf(out, sizeof(out), "%s %s=%s", c.row->verb, c.name ? c.name : c.parameter[0], c.value);
	else
		snprintf(out, sizeof(out), "%s %s", c.row->verb, c.name ? c.name : "~");
	command_free(&c);
	CHECK(!c.row && !c.storage);
	return out;
}

TEST(quotes)
{
	CHECK_PAIRS(parsed,
		{ "PAUSE plain", "PAUSE plain" },
		{ "PAUSE MixedCase", "PAUSE MixedCase" },
		{ "PAUSE 'x'", "PAUSE x" },
		{ "PAUSE ''", "PAUSE " },
		{ "PAUSE 'it''s'", "PAUSE it's" },
		{ "PAUSE ''''", "PAUSE '" },
		{ "PAUSE \"a\"\"b\"", "PAUSE a\"b" },
		{ "PAUSE \"it''s\"", "PAUSE it''s" });
}

TEST(verbs)
{
	CHECK_PAIRS(parsed,
		{ "PAUSE", "PAUSE ~" },
		{ "pause", "PAUSE ~" },
		{ "pAuSe a", "PAUSE a" },
		{ "RESUME a", "RESUME a" },
		{ "SUSPEND", "SUSPEND ~" },
		{ "disable a", "DISABLE a" },
		{ "enable a", "ENABLE a" },
		{ "disable", "DISABLE ~" },
		{ "reconnect", "RECONNECT ~" },
		{ "kill a", "KILL a" },
		{ "kill", "KILL ~" },
		{ "kill_client 12", "KILL_CLIENT 12" },
		{ "explain client 12", "EXPLAIN 12" },
		{ "EXPLAIN Client", "EXPLAIN ~" },
		{ "wait_close a", "WAIT_CLOSE a" },
		{ "reload", "RELOAD ~" },
		{ "shutdown", "SHUTDOWN ~" },
		{ "shutdown wait_for_servers", "SHUTDOWN wait_for_servers" },
		{ "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_CLIENTS" });
}

/* Formats a DRAIN as "TARGET name seconds". */
static const char *drained(const char *text)
{
	static char out[128];
	struct command c;

	if (command_parse((struct sql_span){ text, strlen(text) }, &c) != COMMAND_PARSE_OK)
		strcpy(out, "invalid");
	else
		snprintf(out, sizeof(out), "%s %s %lld", drain_of_words[c.drain_of], c.name ? c.name : "~", (long long)c.seconds);
	command_free(&c);
	return out;
}

TEST(drain)
{
	CHECK_PAIRS(drained,
		{ "DRAIN", "all ~ 0" },
		{ "drain over 5 seconds", "all ~ 5" },
		{ "drain stop", "all ~ -1" },
		{ "drain shop", "database shop 0" },
		{ "drain shop over 30", "database shop 30" },
		{ "drain shop over 1 second", "database shop 1" },
		{ "drain shop stop", "database shop -1" },
		{ "drain \"user\" over 1000000 seconds", "database user 1000000" },
		{ "drain 'stop'", "database stop 0" },
		{ "drain user joe", "user joe 0" },
		{ "drain user \"over\" stop", "user over -1" },
		{ "drain host 10.0.0.5 over 2 seconds", "host 10.0.0.5 2" },
		{ "drain user", "invalid" },
		{ "drain host", "invalid" },
		{ "drain shop over", "invalid" },
		{ "drain shop over soon", "invalid" },
		{ "drain shop over -1", "invalid" },
		{ "drain shop over 1000001", "invalid" },
		{ "drain shop over 5 minutes", "invalid" },
		{ "drain shop over 5 seconds more", "invalid" },
		{ "drain shop stop now", "invalid" },
		{ "drain shop shop", "invalid" },
		{ "drain =", "invalid" },
		{ "drain user =", "invalid" });
}

TEST(names)
{
	CHECK_PAIRS(parsed,
		{ "pause MyDb", "PAUSE MyDb" },
		{ "pause \"My \"\"Db\"", "PAUSE My \"Db" },
		{ "pause 'it''s'", "PAUSE it's" },
		{ "pause my-db.x", "PAUSE my-db.x" },
		{ "pause/* which */a", "PAUSE a" },
		{ "pause\"a\"", "PAUSE a" });
}

TEST(items)
{
	for (size_t i = 0; show_at(i); i++) {
		char text[100], want[100];

		snprintf(text, sizeof(text), "sHoW %s", show_at(i)->name);
		for (char *c = text + 5; *c; c++)
			*c |= *c == '_' ? 0 : 0x20;
		snprintf(want, sizeof(want), "SHOW %s", show_at(i)->name);
		CHECK_TEXT(parsed(text), want);
	}
	CHECK_TEXT(parsed("show CLIENT_ENCODING"), "SHOW client_encoding:text=UTF8");
	CHECK_TEXT(parsed("show datestyle"), "SHOW DateStyle:text=ISO");
}

TEST(settings)
{
	CHECK_PAIRS(parsed,
		{ "set verbose=1", "SET verbose=1" },
		{ "SET verbose TO 1", "SET verbose=1" },
		{ "SET verbose to 1", "SET verbose=1" },
		{ "set \"verbose\" = '1'", "SET verbose=1" },
		{ "set x = \"a b\"", "SET x=a b" },
		{ "set x = ''", "SET x=" },
		{ "set x = 'it''s'", "SET x=it's" },
		{ "set server_reset_query = DISCARD  ALL", "SET server_reset_query=DISCARD  ALL" },
		{ "set logfile = /var/log/x.log", "SET logfile=/var/log/x.log" },
		{ "set x = a,b, c", "SET x=a,b, c" },
		{ "set x = select ';', 'b'", "SET x=select ';', 'b'" },
		{ "set x = 'a' b", "SET x='a' b" },
		{ "set to = to", "SET to=to" });
}

TEST(empty)
{
	CHECK_TEXT(parsed(""), "empty");
	CHECK_TEXT(parsed(" /* nothing */ -- at all"), "empty");
}

TEST(invalid)
{
	static const char *const texts[] = {
		"foo", "select 1", "show", "show foo", "show pools x", "show \"pools\"", "'show' pools", "show 'pools'",
		"pause a b", "pause a=", "pause =", "pause 'a", "pause \"a", "pause a /* open", "suspend a", "reload x",
		"shutdown now", "shutdown wait_for_servers x", "shutdown wait", "kill a b", "kill_client 1 2", "explain 1", "explain server 1",
		"explain client 1 2", "explain", "disable a b",
		"set", "set x", "set x =", "set x to", "set x 1", "set = 1", "set 'x' = 1", "set x = 'a", "set x = a 'b",
		"set x ; 1", "set x tu 1", "set x toad 1", "set x t 1", "pausea", "pause;",
		"showshowshowshowshowshowshowshowshowshowshowshowshowshowshowshow pools",
		"show poolspoolspoolspoolspoolspoolspoolspoolspoolspoolspoolspoolspools",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(parsed(texts[i]), "invalid") != 0)
			UNIT_FAIL("\"%s\" gives %s", texts[i], parsed(texts[i]));
}

/* Permissions: stats_users may use SHOW, except SHOW FDS, EXPLAIN, and the commands of transactions, which do nothing. */
TEST(permissions)
{
	for (int i = 0; i < COMMANDS; i++)
		CHECK_INT(command_rows[i].for_monitor,
			  i == COMMAND_SHOW || i == COMMAND_EXPLAIN || i == COMMAND_BEGIN || i == COMMAND_COMMIT || i == COMMAND_ROLLBACK);
	for (size_t i = 0; show_at(i); i++)
		CHECK_INT(show_at(i)->for_monitor, strcmp(show_at(i)->name, "FDS") != 0 && strcmp(show_at(i)->name, "STATEMENTS") != 0);
}

TEST(suggestions)
{
	static const struct {
		const char *text, *hint;
	} cases[] = {
		{ "shwo pools", "Did you mean \"SHOW\"?" },
		{ "show pool", "Did you mean \"SHOW POOLS\"?" },
		{ "POOLS", "Did you mean \"SHOW POOLS\"?" },
		{ "relaod", "Did you mean \"RELOAD\"?" },
		{ "reload now", "The command is: RELOAD" },
		{ "kill a b", "The command is: KILL [<db>]" },
		{ "SHUTDOWN immediately", "The command is: SHUTDOWN [WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS]" },
		{ "select 1", NULL },
		{ "show nothing_like_it", NULL },
		{ "show", NULL },
		{ "'x'", NULL },
	};
	char buf[COMMAND_HINT], brief[COMMAND_BRIEF];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sql_span text = { cases[i].text, strlen(cases[i].text) };
		const char *hint = command_explain(text, buf, brief);

		CHECK_TEXT(hint ? hint : "", cases[i].hint ? cases[i].hint : "");
	}
}

UNIT_MAIN
