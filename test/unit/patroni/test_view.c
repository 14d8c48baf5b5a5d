/* Answers of Patroni to GET /cluster. */
#include "patroni/patroni.h"
#include "unit.h"

#include <stdlib.h>

static struct patroni_view view;
static char why[PATRONI_WHY_SIZE];

/* Reads an answer in memory of its own size, so that the sanitizer detects each read beyond. */
static bool reads(const char *text)
{
	size_t size = strlen(text);
	char *copy = malloc(size + 1);
	bool done;

	memcpy(copy, text, size);
	copy = realloc(copy, size ? size : 1);
	memset(&view, 0xff, sizeof(view));
	*why = '\0';
	done = patroni_view_read(copy, size, &view, why, sizeof(why));
	free(copy);
	CHECK(done == view.is_known);
	CHECK(done == !*why);
	return done;
}

static const char *refusal(const char *text)
{
	reads(text);
	return why;
}

/* An answer with one good member n1 and the given values in a second one. */
static const char *refusal_of_member(const char *values)
{
	char text[2048];

	snprintf(text, sizeof(text), "{\"members\": [{\"name\": \"n1\", \"role\": \"leader\", \"state\": \"running\", \"host\": \"a\"}, %s]}", values);
	return refusal(text);
}

/* Debian's 3.0.2, three nodes. */
static const char patroni_3_0_2[] =
	"{\"members\": [{\"name\": \"n1\", \"role\": \"replica\", \"state\": \"running\", \"api_url\": \"http://127.0.0.1:7521/patroni\", "
	"\"host\": \"127.0.0.1\", \"port\": 7511, \"timeline\": 2, \"lag\": 0}, "
	"{\"name\": \"n2\", \"role\": \"sync_standby\", \"state\": \"stopped\", \"api_url\": \"http://127.0.0.1:7522/patroni\", "
	"\"host\": \"127.0.0.1\", \"port\": 7512, \"pending_restart\": true, \"tags\": {\"noloadbalance\": true, \"clonefrom\": true}, "
	"\"lag\": \"unknown\"}, "
	"{\"name\": \"n3\", \"role\": \"leader\", \"state\": \"running\", \"api_url\": \"http://127.0.0.1:7523/patroni\", "
	"\"host\": \"127.0.0.1\", \"port\": 7513, \"timeline\": 2}]}";

TEST(patroni_3_0_2)
{
	REQUIRE(reads(patroni_3_0_2));
	CHECK_INT(view.count, 3);
	CHECK_INT(view.leader, 2);
	CHECK(!view.is_paused && !view.has_switchover);
	CHECK_TEXT(view.members[0].name, "n1");
	CHECK_TEXT(view.members[0].host, "127.0.0.1");
	CHECK_INT(view.members[0].port, 7511);
	CHECK_INT(view.members[0].role, PATRONI_REPLICA);
	CHECK(view.members[0].is_running && !view.members[0].no_load_balance);
	CHECK_INT(view.members[0].timeline, 2);
	CHECK_INT(view.members[0].lag, 0);
	CHECK_INT(view.members[1].role, PATRONI_REPLICA);
	CHECK(!view.members[1].is_running && view.members[1].no_load_balance);
	CHECK_INT(view.members[1].timeline, 0);
	CHECK_INT(view.members[1].lag, -1);
	CHECK_INT(view.members[2].role, PATRONI_LEADER);
	CHECK_INT(view.members[2].lag, -1);
}

/* 4.1.5, with a member before its first start. */
TEST(patroni_4_1)
{
	REQUIRE(reads("{\"members\": [{\"name\": \"n1\", \"role\": \"leader\", \"state\": \"running\", \"api_url\": \"http://h1:8008/patroni\", "
		      "\"host\": \"h1.example.com\", \"port\": 5433, \"timeline\": 9}, "
		      "{\"name\": \"n2\", \"role\": \"quorum_standby\", \"state\": \"streaming\", \"api_url\": \"http://h2:8008/patroni\", "
		      "\"host\": \"2001:db8::2\", \"timeline\": 9, \"pending_restart_reason\": {\"a\": {\"old_value\": \"1\", \"new_value\": \"2\"}}, "
		      "\"receive_lag\": 0, \"receive_lsn\": \"0/5000148\", "
		      "\"replay_lag\": 16, \"replay_lsn\": \"0/5000138\", \"lag\": 16, \"lsn\": \"0/5000138\"}, "
		      "{\"name\": \"n3\", \"role\": \"replica\", \"state\": \"in archive recovery\", \"api_url\": \"\", \"host\": \"h3\", \"port\": 5432, "
		      "\"lag\": 9223372036854775807}, "
		      "{\"name\": \"n4\", \"role\": \"replica\", \"state\": \"creating replica\", \"api_url\": \"\", "
		      "\"receive_lsn\": \"unknown\", \"lag\": \"unknown\"}], "
		      "\"pause\": true, \"scheduled_switchover\": {\"at\": \"2026-11-27T10:00:00+00:00\", \"from\": \"n1\"}, \"scope\": \"shop\"}"));
	CHECK_INT(view.count, 4);
	CHECK_INT(view.leader, 0);
	CHECK(view.is_paused && view.has_switchover);
	CHECK_TEXT(view.members[1].host, "2001:db8::2");
	CHECK_INT(view.members[1].port, 5432);
	CHECK_INT(view.members[1].role, PATRONI_REPLICA);
	CHECK_INT(view.members[1].lag, 16);
	CHECK(view.members[1].is_running && view.members[2].is_running);
	CHECK_INT(view.members[2].lag, INT64_MAX);
	CHECK(!view.members[3].is_running);
	CHECK_TEXT(view.members[3].host, "");
	CHECK_INT(view.members[3].port, 0);
}

TEST(roles)
{
	REQUIRE(reads("{\"members\": [{\"name\": \"a\", \"role\": \"standby_leader\", \"state\": \"running\"}, "
		      "{\"name\": \"b\", \"role\": \"uninitialized\", \"state\": \"\"}]}"));
	CHECK_INT(view.leader, 0);
	CHECK_INT(view.members[0].role, PATRONI_STANDBY_LEADER);
	CHECK_INT(view.members[1].role, PATRONI_OTHER);
	REQUIRE(reads("{\"members\": [{\"name\": \"a\", \"role\": \"replica\", \"state\": \"running\"}], \"pause\": false}"));
	CHECK_INT(view.leader, -1);
	CHECK(!view.is_paused);
}

TEST(tags_are_as_true_as_in_python)
{
	static const struct { const char *value; bool is_set; } cases[] = {
		{ "true", true }, { "false", false }, { "null", false }, { "0", false }, { "1", true }, { "0.0", false }, { "-0.5", true },
		{ "\"\"", false }, { "\"false\"", true }, { "[]", false }, { "[0]", true }, { "{}", false }, { "{\"a\": 0}", true },
	};
	char text[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "{\"members\": [{\"name\": \"a\", \"role\": \"replica\", \"state\": \"running\", "
			 "\"tags\": {\"noloadbalance\": %s}}]}", cases[i].value);
		CHECK(reads(text) && view.members[0].no_load_balance == cases[i].is_set);
	}
}

TEST(refused_answers)
{
	CHECK_PAIRS(refusal,
		    { "", "the answer is empty" },
		    { "{\"members\": ", "it cannot be read as JSON at byte 12" },
		    { "<html>", "it cannot be read as JSON at byte 1" },
		    { "{} {}", "it cannot be read as JSON at byte 4" },
		    { "{\"members\": [], \"members\": []}", "it cannot be read as JSON at byte 25" },
		    { "{\"members\": [1e999]}", "it cannot be read as JSON at byte 18" },
		    { "{\"members\": [99999999999999999999]}", "it cannot be read as JSON at byte 33" },
		    { "{\"members\": [\"\\u0000\"]}", "it cannot be read as JSON at byte 21" },
		    { "{\"members\": [\"\xff\"]}", "it cannot be read as JSON at byte 14" },
		    { "[]", "the answer is not an object" },
		    { "{}", "members is not an array" },
		    { "{\"members\": {}}", "members is not an array" },
		    { "{\"members\": []}", "members has 0 entries instead of 1 to 64" },
		    { "{\"members\": [1]}", "member 0 is not an object" },
		    { "{\"members\": [{}], \"pause\": 1}", "pause is neither true nor false" },
		    { "{\"members\": [{}], \"scheduled_switchover\": true}", "scheduled_switchover is not an object" });
}

TEST(refused_members)
{
	CHECK_PAIRS(refusal_of_member,
		    { "{}", "name of member 1 is not a text of 1 to 127 bytes" },
		    { "{\"name\": \"\"}", "name of member 1 is not a text of 1 to 127 bytes" },
		    { "{\"name\": 2}", "name of member 1 is not a text of 1 to 127 bytes" },
		    { "{\"name\": \"n2\"}", "role of member 1 is not a text" },
		    { "{\"name\": \"n2\", \"role\": null}", "role of member 1 is not a text" },
		    { "{\"name\": \"n2\", \"role\": \"replica\"}", "state of member 1 is not a text" },
		    { "{\"name\": \"n2\", \"role\": \"replica\", \"state\": 1}", "state of member 1 is not a text" },
#define N2 "{\"name\": \"n2\", \"role\": \"replica\", \"state\": \"running\", "
		    { N2 "\"host\": 1}", "host of member 1 is not the name of a host" },
		    { N2 "\"host\": \"\"}", "host of member 1 is not the name of a host" },
		    { N2 "\"host\": \"/tmp\"}", "host of member 1 is not the name of a host" },
		    { N2 "\"host\": \"@tmp\"}", "host of member 1 is not the name of a host" },
		    { N2 "\"host\": \"b,c\"}", "host of member 1 is not the name of a host" },
		    { N2 "\"host\": \"b c\"}", "host of member 1 is not the name of a host" },
		    { N2 "\"host\": \"b\", \"port\": \"5432\"}", "port of member 1 is not a port" },
		    { N2 "\"host\": \"b\", \"port\": 0}", "port of member 1 is not a port" },
		    { N2 "\"host\": \"b\", \"port\": 65536}", "port of member 1 is not a port" },
		    { N2 "\"host\": \"b\", \"port\": 5432.0}", "port of member 1 is not a port" },
		    { N2 "\"tags\": []}", "tags of member 1 is not an object" },
		    { N2 "\"timeline\": \"1\"}", "timeline of member 1 is not a timeline" },
		    { N2 "\"timeline\": -1}", "timeline of member 1 is not a timeline" },
		    { N2 "\"timeline\": 4294967296}", "timeline of member 1 is not a timeline" },
		    { N2 "\"lag\": 1.5}", "lag of member 1 is not a number of bytes" },
		    { N2 "\"lag\": -1}", "lag of member 1 is not a number of bytes" },
		    { N2 "\"lag\": null}", "lag of member 1 is not a number of bytes" },
		    { N2 "\"host\": \"A\", \"port\": 5432}", "members 0 and 1 have the same address" },
		    { "{\"name\": \"n1\", \"role\": \"replica\", \"state\": \"running\"}", "members 0 and 1 have the same name" },
		    { "{\"name\": \"n2\", \"role\": \"leader\", \"state\": \"running\"}", "members 0 and 1 are both the leader" },
		    { "{\"name\": \"n2\", \"role\": \"standby_leader\", \"state\": \"running\"}", "members 0 and 1 are both the leader" });
	CHECK_TEXT(refusal_of_member(N2 "\"host\": \"a\", \"port\": 5433}"), "");
}

TEST(limits)
{
	static char text[PATRONI_BODY_MOST + 2];
	char *at = text + sprintf(text, "{\"members\": [");

	for (int i = 0; i < PATRONI_MEMBERS_MOST; i++)
		at += sprintf(at, "%s{\"name\": \"n%d\", \"role\": \"replica\", \"state\": \"streaming\", \"host\": \"h%d\"}", i ? ", " : "", i, i);
	strcpy(at, "]}");
	CHECK(reads(text));
	CHECK_INT(view.count, PATRONI_MEMBERS_MOST);
	strcpy(at, ", {}]}");
	CHECK_TEXT(refusal(text), "members has 65 entries instead of 1 to 64");
	/* as long as allowed, and one byte more */
	memset(text, ' ', PATRONI_BODY_MOST + 1);
	memcpy(text, "{}", 2);
	text[PATRONI_BODY_MOST] = '\0';
	CHECK_TEXT(refusal(text), "members is not an array");
	text[PATRONI_BODY_MOST] = ' ';
	CHECK_TEXT(refusal(text), "the answer is longer than 131072 bytes");
	/* levels beyond the limit of the library */
	memset(text, '[', PATRONI_BODY_MOST);
	text[PATRONI_BODY_MOST] = '\0';
	CHECK_TEXT(refusal(text), "it cannot be read as JSON at byte 2049");
	/* long texts */
	memset(text, 0, sizeof(text));
	sprintf(text, "{\"members\": [{\"name\": \"%0127d\", \"role\": \"replica\", \"state\": \"running\", \"host\": \"%0255d\"}]}", 1, 1);
	CHECK(reads(text));
	CHECK_INT(strlen(view.members[0].host), 255);
	sprintf(text, "{\"members\": [{\"name\": \"%0128d\", \"role\": \"replica\", \"state\": \"running\"}]}", 1);
	CHECK(!reads(text));
	sprintf(text, "{\"members\": [{\"name\": \"n\", \"role\": \"replica\", \"state\": \"running\", \"host\": \"%0256d\"}]}", 1);
	CHECK(!reads(text));
}

/* An answer within the limit of its size that takes too much memory: no allocation of the library fails by returning NULL. */
TEST(memory_is_bounded)
{
	static char text[PATRONI_BODY_MOST + 1];
	size_t at = 1;

	text[0] = '[';
	for (; at + 4 < PATRONI_BODY_MOST; at += 3)
		memcpy(text + at, "{},", 3);
	memcpy(text + at, "{}]", 4);
	CHECK_TEXT(refusal(text), "the answer needs too much memory");
	/* the greatest real cluster: every member with 1 kB of tags */
	at = (size_t)sprintf(text, "{\"members\": [");
	for (int i = 0; i < PATRONI_MEMBERS_MOST; i++) {
		at += (size_t)sprintf(text + at, "%s{\"name\": \"n%d\", \"role\": \"replica\", \"state\": \"streaming\", \"host\": \"h%d\", \"tags\": {",
				      i ? ", " : "", i, i);
		for (int k = 0; k < 100; k++)
			at += (size_t)sprintf(text + at, "%s\"t%d\": %d", k ? ", " : "", k, k);
		at += (size_t)sprintf(text + at, "}}");
	}
	strcpy(text + at, "]}");
	CHECK(reads(text));
	CHECK(strlen(text) > 64 * 1024);
	/* the next answer is read as ever */
	CHECK(reads(patroni_3_0_2));
}

UNIT_MAIN
