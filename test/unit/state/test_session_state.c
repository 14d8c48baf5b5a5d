/*
 * Changes that clients make to their sessions: the facts in doubt, the effect of the server's answer, and the setting and clearing of
 * pins.
 */
#include "state/session_question.h"
#include "state/session_state.h"

#include "sql/state_text.h"
#include "state/session_functions.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "session_state=full\n")
#define SMALL_INI WHOLE_INI("pool_size=2", "session_state=full\nmax_pinned=1\n")
#define SESSION_INI "[databases]\nd = " HOUSE_SERVER "user=u pool_size=2" HOUSE_SETTINGS "auth_type=any\npool_mode=session\nsession_state=full\n"
#define EVERYTHING ((((1u << PINS) - 1) & ~(unsigned)(PIN_LIBRARY | PIN_SEQUENCE)) | FACT_ROLE)

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client in a transaction. */
static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	return client && server;
}

static bool reads(const char *text, enum text_of of)
{
	whole.world->share.words_left = LOOKS_OF_TURN;
	return session_state_text(server, client, (const uint8_t *)text, strlen(text) + 1, of) == VERDICT_PASS;
}

/* The only column of the only row of this result. */
static const char *value_of(struct house_end *end, const char *text)
{
	static char value[64];
	struct bytes news;
	const uint8_t *row;
	size_t size;

	house_news(end);
	whole_query(end, text);
	news = house_news(end);
	row = memmem(bytes_front(&news), bytes_size(&news), "D\0\0\0", 4);
	size = row ? pg_u32_at(row + 7) : 0;
	if (size >= sizeof(value))
		size = 0;
	memcpy(value, row ? row + 11 : (const uint8_t *)"?", row ? size : 1);
	value[row ? size : 1] = '\0';
	return value;
}

/* ---- links ---- */

TEST(clients_whose_state_is_kept)
{
	REQUIRE(begin(INI));
	CHECK(client->link_facts.keeps_state);
	REQUIRE(client->session);
	CHECK(client->session->first == client->params);
	whole_close();
	/* the client has its own session */
	REQUIRE(begin(SESSION_INI));
	CHECK(!client->link_facts.keeps_state && !client->session);
	whole_close();
	REQUIRE(begin(WHOLE_INI("pool_size=2", "")));
	CHECK(!client->link_facts.keeps_state && !client->session);
	whole_close();
}

/* ---- tags ---- */

static unsigned dirty_facts_after(enum pg_tag tag, unsigned pins)
{
	server->session.dirty = 0;
	client->pooled.pins = (uint8_t)pins;
	session_note_command(server, tag, false);
	client->pooled.pins = 0;
	return server->session.dirty;
}

TEST(command_tags)
{
	static const struct { enum pg_tag tag; unsigned dirty, pins, dirty_if_pinned; } tags[] = {
		{ TAG_SET, PIN_PARAMETERS, 0, PIN_PARAMETERS }, { TAG_CODE, EVERYTHING, 0, EVERYTHING }, { TAG_DISCARD_ALL, EVERYTHING, 0, EVERYTHING },
		{ TAG_CREATE, PIN_TEMPORARY, 0, PIN_TEMPORARY }, { TAG_DEFINE, PIN_TEMPORARY, 0, PIN_TEMPORARY },
		{ TAG_DROP, 0, PIN_TEMPORARY, PIN_TEMPORARY }, { TAG_DISCARD, 0, PIN_TEMPORARY | PIN_LOCK, PIN_TEMPORARY },
		{ TAG_PREPARE, PIN_STATEMENT, 0, PIN_STATEMENT }, { TAG_DEALLOCATE, 0, PIN_STATEMENT, PIN_STATEMENT },
		{ TAG_DEALLOCATE_ALL, 0, PIN_STATEMENT, PIN_STATEMENT }, { TAG_CLOSE, 0, PIN_CURSOR, PIN_CURSOR },
		{ TAG_LISTEN, PIN_LISTENING, 0, PIN_LISTENING }, { TAG_ALTER, 0, EVERYTHING & 0xff, 0 }, { TAG_NOTHING, 0, EVERYTHING & 0xff, 0 },
	};

	REQUIRE(begin(INI));
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		CHECK_INT(dirty_facts_after(tags[i].tag, 0), tags[i].dirty);
		CHECK_INT(dirty_facts_after(tags[i].tag, tags[i].pins), tags[i].dirty_if_pinned);
	}
	server->session.dirty = 0;
	server->session.tainted_by = 0;
	whole_close();
}

TEST(load_pins_until_the_client_disconnects)
{
	REQUIRE(begin(INI));
	session_note_command(server, TAG_LOAD, false);
	CHECK_INT(client->pooled.pins, PIN_LIBRARY);
	CHECK_INT(client->pooled.pool->pinned, 1);
	/* no query can show whether the library is still loaded */
	server->session.dirty = EVERYTHING;
	CHECK(!session_state_ask(server));
	whole_close();
}

TEST(discarding_sequences_ends_their_pin)
{
	REQUIRE(begin(INI));
	CHECK(reads("SELECT lastval()", TEXT_OF_QUERY));
	CHECK_INT(client->pooled.pins, PIN_SEQUENCE);
	CHECK(client->pooled.pool->reads_sequences);
	/* the client may have sent the text after DISCARD SEQUENCES */
	session_note_command(server, TAG_DISCARD_SEQUENCES, false);
	CHECK_INT(client->pooled.pins, PIN_SEQUENCE);
	session_state_ask(server);
	session_note_command(server, TAG_DISCARD_SEQUENCES, false);
	CHECK_INT(client->pooled.pins, 0);
	CHECK_INT(client->pooled.pool->pinned, 0);
	whole_close();
}

/* ---- texts ---- */

TEST(query_texts)
{
	static const struct { const char *text; unsigned dirty; } texts[] = {
		{ "SELECT 1", 0 }, { "SELECT set_config('a.b', 'x', false)", PIN_PARAMETERS | FACT_ROLE }, { "CREATE TEMP TABLE t (a int)", PIN_TEMPORARY },
		{ "DECLARE c CURSOR WITH HOLD FOR SELECT 1", PIN_CURSOR }, { "SELECT pg_advisory_lock(1)", PIN_LOCK },
		{ "SELECT pg_advisory_xact_lock(1)", 0 },
	};

	REQUIRE(begin(INI));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		server->session.dirty = 0;
		CHECK(reads(texts[i].text, TEXT_OF_QUERY));
		CHECK_INT(server->session.dirty, texts[i].dirty);
	}
	server->session.dirty = 0;
	CHECK_INT(client->session->count, 1);
	CHECK_TEXT((const char *)bytes_front(&client->session->names), "a.b");
	CHECK_INT(client->session->calls | client->session->unnamed_calls, 0);
	whole_close();
}

/* A prepared statement may be executed in any later link. */
TEST(prepared_texts)
{
	REQUIRE(begin(INI));
	CHECK(reads("SELECT pg_advisory_lock(1)", TEXT_OF_NAMED));
	CHECK_INT(client->session->calls, PIN_LOCK);
	CHECK(reads("PREPARE p AS SELECT set_config('a.b', 'x', false)", TEXT_OF_QUERY));
	CHECK_INT(client->session->calls, PIN_LOCK | PIN_PARAMETERS | FACT_ROLE);
	CHECK(reads("CREATE TEMP TABLE t (a int)", TEXT_OF_UNNAMED));
	CHECK_INT(client->session->unnamed_calls, PIN_TEMPORARY);
	/* the next one replaces it */
	CHECK(reads("SELECT 1", TEXT_OF_UNNAMED));
	CHECK_INT(client->session->unnamed_calls, 0);
	session_state_begin(server, client);
	CHECK_INT(server->session.dirty, PIN_LOCK | PIN_PARAMETERS | FACT_ROLE);
	server->session.dirty = 0;
	client->session->calls = 0;
	whole_close();
}

TEST(incomplete_text)
{
	REQUIRE(begin(INI));
	whole.world->share.words_left = LOOKS_OF_TURN;
	CHECK_INT(session_state_text(server, client, (const uint8_t *)"SELECT 1", 8, TEXT_OF_QUERY), VERDICT_PASS);
	CHECK_INT(server->session.dirty, EVERYTHING);
	CHECK_INT(client->pooled.pins, 0);
	/* the text sets a parameter whose name may be in the missing rest */
	session_note_command(server, TAG_SET, false);
	CHECK_INT(client->pooled.pins, PIN_PARAMETERS);
	whole_close();
}

/* ---- long texts ---- */

/* "SELECT " and so many times "abs(1),", and this end. */
static size_t long_text(char *text, size_t count, const char *end)
{
	char *at = stpcpy(text, "SELECT ");

	while (count-- > 0)
		at = stpcpy(at, "abs(1),");
	return (size_t)(stpcpy(at, end) - text) + 1;
}

#define TURNS_MOST 100000

/* Reads the text with a share of `words` in each turn. Returns the number of turns; 0: the text must wait. */
static int turns(const char *text, size_t size, int64_t words)
{
	enum verdict verdict = VERDICT_LATER;
	int count;

	for (count = 0; verdict == VERDICT_LATER && count < TURNS_MOST; count++) {
		whole.world->share.looks = 0;
		whole.world->share.words_left = words;
		verdict = session_state_text(server, client, (const uint8_t *)text, size, TEXT_OF_QUERY);
		/* the last word may cost more than is left */
		CHECK(whole.world->share.looks <= words + 20);
		CHECK((client->session->progress != NULL) == (verdict == VERDICT_LATER));
	}
	return verdict == VERDICT_PASS ? count : 0;
}

TEST(long_text_in_several_turns)
{
	static char text[10000];
	size_t size = long_text(text, 1000, "set_config('a.b', '1', false)");

	REQUIRE(begin(INI));
	whole.world->share.words_left = 1 << 20;
	CHECK_INT(session_state_text(server, client, (const uint8_t *)text, size, TEXT_OF_QUERY), VERDICT_PASS);
	CHECK_INT(server->session.dirty, PIN_PARAMETERS | FACT_ROLE);
	CHECK_INT(client->session->count, 1);
	server->session.dirty = 0;
	CHECK(turns(text, size, 100) > 20);
	CHECK_INT(server->session.dirty, PIN_PARAMETERS | FACT_ROLE);
	CHECK_INT(client->session->count, 1);
	whole_close();
}

/* Each turn makes progress, even with the smallest share. */
TEST(long_text_with_a_share_of_one_word)
{
	static char text[10000];
	size_t size = long_text(text, 100, "pg_advisory_lock(1)");

	REQUIRE(begin(INI));
	CHECK(turns(text, size, 1) > 100);
	CHECK_INT(server->session.dirty, PIN_LOCK);
	/* a function that is not known: the text is walked after the search for parentheses */
	server->session.tainted_by = 0;
	size = long_text(text, 100, "not_known(1)");
	CHECK(turns(text, size, 1) > 100);
	CHECK(turns(text, size, 32) > 10);
	CHECK(server->session.tainted_by != 0);
	whole_close();
}

/* The search begins again when the client has another server, or functions have changed: the next text may be another one. */
TEST(long_text_is_read_again)
{
	static char text[10000], other[10000];
	size_t size = long_text(text, 1000, "lock(12345678)"), other_size = long_text(other, 1000, "pg_advisory_lock(1)");

	REQUIRE(begin(INI));
	other[other_size - 1] = '\0';
	size = other_size;
	whole.world->share.words_left = 1900;
	CHECK_INT(session_state_text(server, client, (const uint8_t *)text, size, TEXT_OF_QUERY), VERDICT_LATER);
	REQUIRE(client->session->progress);
	session_state_begin(server, client);
	CHECK(!client->session->progress);
	CHECK(turns(other, size, 100) > 0);
	CHECK_INT(server->session.dirty & PIN_LOCK, PIN_LOCK);
	/* a function is replaced meanwhile: its calls are not known */
	server->session.dirty = 0;
	server->session.tainted_by = 0;
	whole.world->share.words_left = 1000;
	CHECK_INT(session_state_text(server, client, (const uint8_t *)text, size, TEXT_OF_QUERY), VERDICT_LATER);
	session_functions_changed(client->pooled.pool->database, whole.world->now);
	CHECK(turns(text, size, 100) > 0);
	CHECK(server->session.tainted_by != 0);
	whole_close();
}

TEST(long_text_without_memory)
{
	static char text[10000];
	size_t size = long_text(text, 1000, "pg_advisory_lock(1)");

	REQUIRE(begin(INI));
	whole_memory_ends(0);
	whole.world->share.words_left = 100;
	CHECK_INT(session_state_text(server, client, (const uint8_t *)text, size, TEXT_OF_QUERY), VERDICT_PASS);
	CHECK(whole_memory_is_back() > 0);
	CHECK_INT(server->session.dirty, PIN_LOCK);
	whole_close();
}

TEST(parameter_name_outside_the_text)
{
	REQUIRE(begin(INI));
	CHECK(reads("SELECT set_config($1, $2, false)", TEXT_OF_QUERY));
	CHECK_INT(client->pooled.pins, PIN_PARAMETERS);
	whole_close();
}

TEST(too_many_parameter_names)
{
	char text[60];

	REQUIRE(begin(INI));
	for (int i = 0; i < SESSION_NAMES_MOST; i++) {
		snprintf(text, sizeof(text), "SET a.n%d = 1; SET a.n%d = 2", i, i);
		CHECK(reads(text, TEXT_OF_QUERY));
	}
	CHECK_INT(client->session->count, SESSION_NAMES_MOST);
	CHECK_INT(client->pooled.pins, 0);
	CHECK(reads("SET a.more = 1", TEXT_OF_QUERY));
	CHECK_INT(client->pooled.pins, PIN_PARAMETERS);
	whole_close();
}

TEST(statements_about_temporary_objects_are_in_doubt)
{
	REQUIRE(begin(INI));
	CHECK(!(server->session.dirty & PIN_TEMPORARY));
	CHECK(reads("CREATE TEMP TABLE t (a int)", TEXT_OF_QUERY));
	CHECK(server->session.dirty & PIN_TEMPORARY);
	server->session.dirty = 0;
	whole_close();
}

/* ---- the answer ---- */

TEST(parameters_follow_the_client)
{
	struct house_end *other;

	REQUIRE(begin(INI));
	whole_query(near, "W7");
	whole_query(near, "C");
	CHECK_INT(client->pooled.pool->state_asks, 1);
	CHECK(!client->pooled.link && client->pooled.pins == 0);
	CHECK_TEXT(params_other_value(client->params, "work_mem"), "7");
	CHECK(!params_other_value(client->session->first, "work_mem"));
	REQUIRE(whole_login(&other));
	CHECK_TEXT(value_of(other, "w"), "");
	CHECK_TEXT(value_of(near, "w"), "7");
	/* the servers that had other values */
	CHECK(client->pooled.pool->state_restores > 0);
	CHECK_INT(client->pooled.pool->state_asks, 1);
	whole_close();
}

TEST(pin_is_set_and_cleared)
{
	REQUIRE(begin(INI));
	whole_query(near, "APREPARE");
	whole_query(near, "C");
	CHECK_INT(client->pooled.pins, PIN_STATEMENT);
	CHECK_INT(client->session->pins_logged, PIN_STATEMENT);
	CHECK(client->pooled.link && server_of(client->pooled.link) == server);
	/* nothing suggests that the pin may be obsolete */
	whole_query(near, "one");
	CHECK_INT(client->pooled.pool->state_asks, 1);
	whole_query(near, "ADEALLOCATE");
	CHECK_INT(client->pooled.pool->state_asks, 2);
	CHECK(client->pooled.pins == 0 && !client->pooled.link);
	CHECK_INT(client->pooled.pool->pinned, 0);
	whole_close();
}

TEST(pin_limit)
{
	struct house_end *second;

	REQUIRE(begin(SMALL_INI));
	whole_query(near, "APREPARE");
	whole_query(near, "C");
	CHECK_INT(client->pooled.pool->pinned, 1);
	REQUIRE(whole_login(&second));
	whole_client_got(second);
	whole_query(second, "APREPARE");
	CHECK(strstr(whole_client_got(second), "C(PREPARE) Z(I) E("));
	CHECK(second->is_gone);
	CHECK_INT(client->pooled.pool->pinned, 1);
	CHECK_TEXT(value_of(near, "one"), "one");
	whole_close();
}

/* ---- after a handover ---- */

static bool restores(const char *names, size_t size, int *count)
{
	static const struct client_session facts = { .calls = PIN_LOCK, .pins_logged = PIN_LISTENING };
	bool works;

	if (!begin(INI))
		return false;
	session_state_free(client);
	CHECK(!client->session);
	works = session_state_unpack(client, &facts, client->params, names, size);
	*count = client->session ? client->session->count : -1;
	CHECK(client->session && client->session->calls == PIN_LOCK && client->session->pins_logged == PIN_LISTENING);
	client->session->calls = 0;
	whole_close();
	return works;
}

TEST(handed_over_session)
{
	int count;

	CHECK(restores("", 0, &count));
	CHECK_INT(count, 0);
	CHECK(restores("a.b\0c.d", 8, &count));
	CHECK_INT(count, 2);
	CHECK(!restores("a.b\0c.d", 7, &count));
	CHECK(!restores("ab", 3, &count));
	CHECK(!restores("a.'b", 5, &count));
}

UNIT_MAIN
