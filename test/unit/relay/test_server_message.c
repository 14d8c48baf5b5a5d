/* Processing of a server's messages: the bytes needed to classify a message, its effect on the server's state, and its recipient. */
#include "relay/client_message.h"

#include "pg/build.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/release.h"
#include "state/server_session.h"
#include "state/session_restore.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;
static struct bytes message;

/* A client in a transaction, without pending answers. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	return client && server;
}

static void end(void)
{
	bytes_free(&message);
	whole_close();
}

/* The same with a query that is not answered. */
static bool begin_query(void)
{
	if (!begin())
		return false;
	whole.holds_answers = true;
	whole_query(near, "one");
	return true;
}

/* Looks at the first n bytes of the message, in an allocation of that size. */
static int look_at(size_t n)
{
	uint8_t *copy = fuzz_copy(bytes_front(&message), n);
	struct pg_frame f;
	enum verdict verdict = answer_look(server, copy, n, &f);

	bytes_consume(&message, bytes_size(&message));
	bytes_append(&message, copy, n);
	free(copy);
	return (int)verdict;
}

/* Looks at the whole message, which is valid until the next one is built. */
static int look(void)
{
	return look_at(bytes_size(&message));
}

static struct bytes *fresh(void)
{
	bytes_free(&message);
	return &message;
}

static int look_at_body(uint8_t type, const void *body, size_t size)
{
	size_t mark = pg_begin(fresh(), type);

	bytes_append(&message, body, size);
	pg_end(&message, mark);
	return look();
}

static int look_at_empty(uint8_t type)
{
	return look_at_body(type, "", 0);
}

static int look_at_ready(char status)
{
	pg_build(fresh(), 'Z', &status, 1);
	return look();
}

static int look_at_tag(const char *tag)
{
	pg_build_string(fresh(), 'C', tag);
	return look();
}

static int look_at_error(const char *severity)
{
	pg_build_report(fresh(), 'E', severity, "57P01", "words", NULL, NULL);
	return look();
}

/* ---- answers to a client ---- */

TEST(answer_to_a_query)
{
	REQUIRE(begin_query());
	CHECK_INT(look_at_tag("SELECT 1"), VERDICT_PASS);
	server->status = 'I';
	CHECK_INT(look_at_ready('T'), VERDICT_READY);
	CHECK_INT(server->status, 'T');
	/* no answer is pending */
	CHECK_INT(look_at_tag("SELECT 1"), VERDICT_INVALID);
	end();
}

TEST(invalid_ready_for_query)
{
	static const char *const bodies[] = { "", "X", "II" };

	for (size_t i = 0; i < 3; i++) {
		REQUIRE(begin_query());
		CHECK_INT(look_at_tag("SELECT 1"), VERDICT_PASS);
		CHECK_INT(look_at_body('Z', bodies[i], i), VERDICT_INVALID);
		server->status = 'T';
		end();
	}
}

TEST(message_type_not_allowed_in_a_session)
{
	REQUIRE(begin_query());
	CHECK_INT(look_at_body('R', "\0\0\0\0", 4), VERDICT_INVALID);
	CHECK_INT(look_at_body('K', "\0\0\0\0\0\0\0\0", 8), VERDICT_INVALID);
	end();
}

TEST(server_without_a_client)
{
	REQUIRE(begin());
	whole_query(near, "C");
	REQUIRE(!client->pooled.link);
	CHECK_INT(look_at_tag("SELECT 1"), VERDICT_INVALID);
	CHECK_INT(look_at_empty('N'), VERDICT_SWALLOW);
	CHECK_INT(look_at_error("FATAL"), VERDICT_FATAL);
	CHECK(server->said_fatal);
	server->said_fatal = false;
	end();
}

/* ---- bytes needed ---- */

TEST(incomplete_header)
{
	REQUIRE(begin_query());
	pg_build(fresh(), 'Z', "T", 1);
	for (size_t n = 0; n < PG_HEADER; n++) {
		pg_build(fresh(), 'Z', "T", 1);
		CHECK_INT(look_at(n), VERDICT_MORE);
	}
	end();
}

TEST(messages_read_as_a_whole)
{
	REQUIRE(begin_query());
	pg_build_parameter_status(fresh(), "TimeZone", "Asia/Tokyo");
	CHECK_INT(look_at(bytes_size(&message) - 1), VERDICT_MORE);
	/* a long row is not collected */
	bytes_append_text(fresh(), "D");
	bytes_append_u32(&message, 1000000);
	CHECK_INT(look(), VERDICT_PASS);
	/* an unexpected message whose size would need a large allocation is not collected either */
	bytes_append_text(fresh(), "S");
	bytes_append_u32(&message, 1000000);
	CHECK_INT(look(), VERDICT_INVALID);
	end();
}

TEST(significant_command_tag)
{
	REQUIRE(begin_query());
	pg_build_string(fresh(), 'C', "DISCARD ALL");
	CHECK_INT(look_at(bytes_size(&message) - 1), VERDICT_MORE);
	end();
}

/* The severity is at the beginning. */
TEST(beginning_of_an_error)
{
	char words[300];

	memset(words, 'x', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	REQUIRE(begin_query());
	pg_build_report(fresh(), 'E', "FATAL", "57P01", words, NULL, NULL);
	CHECK_INT(look_at(PG_HEADER + 127), VERDICT_MORE);
	CHECK(!server->said_fatal);
	pg_build_report(fresh(), 'E', "FATAL", "57P01", words, NULL, NULL);
	CHECK_INT(look_at(PG_HEADER + 128), VERDICT_PASS);
	CHECK(server->said_fatal);
	server->said_fatal = false;
	end();
}

/* The error may have to be sent with another statement name. */
TEST(error_of_a_marked_message)
{
	char words[300];

	memset(words, 'x', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	REQUIRE(begin());
	CHECK(ledger_sent_marked(&server->ledger, 'P', 0, OWED_TO_POOLER, MARK_PREPARED));
	pg_build_report(fresh(), 'E', "ERROR", "42601", words, NULL, NULL);
	CHECK_INT(look_at(PG_HEADER + 128), VERDICT_MORE);
	end();
}

TEST(row_of_a_pooler_query)
{
	REQUIRE(begin_query());
	bytes_append_text(fresh(), "D");
	bytes_append_u32(&message, 60);
	server->task = &task_note;
	CHECK_INT(look(), VERDICT_MORE);
	server->task = NULL;
	CHECK_INT(look(), VERDICT_PASS);
	end();
}

/* ---- effects on the server's state ---- */

TEST(parameter_status)
{
	REQUIRE(begin_query());
	pg_build_parameter_status(fresh(), "TimeZone", "Asia/Tokyo");
	CHECK_INT(look(), VERDICT_PASS);
	/* the client has changed the parameter itself: the client's value is updated */
	CHECK_TEXT(params_get(client->params, params_index(whole.world->params, "TimeZone")), "Asia/Tokyo");
	CHECK_TEXT(params_get(server->params, params_index(whole.world->params, "TimeZone")), "Asia/Tokyo");
	end();
}

TEST(malformed_parameter_status)
{
	static const char *const bodies[] = { "a", "a\0b", "a\0b\0c" };
	static const size_t sizes[] = { 1, 3, 5 };

	REQUIRE(begin_query());
	for (size_t i = 0; i < 3; i++)
		CHECK_INT(look_at_body('S', bodies[i], sizes[i]), VERDICT_INVALID);
	CHECK_INT(look_at_body('S', "a\0b", 4), VERDICT_PASS);
	end();
}

/* A change that the client has not requested belongs to the server. */
TEST(parameter_status_during_a_task)
{
	REQUIRE(begin());
	CHECK(ledger_sent_marked(&server->ledger, 'Q', 0, OWED_TO_POOLER, MARK_TASK));
	pg_build_parameter_status(fresh(), "TimeZone", "Asia/Tokyo");
	CHECK_INT(look(), VERDICT_SWALLOW);
	CHECK_TEXT(params_get(client->params, params_index(whole.world->params, "TimeZone")), "UTC");
	CHECK_TEXT(params_get(server->params, params_index(whole.world->params, "TimeZone")), "Asia/Tokyo");
	end();
}

/* The error of this Parse may roll back a SET of the client. */
TEST(parameter_status_during_a_pooler_parse)
{
	REQUIRE(begin());
	CHECK(ledger_sent_marked(&server->ledger, 'P', 0, OWED_TO_POOLER, MARK_PREPARED));
	pg_build_parameter_status(fresh(), "TimeZone", "Asia/Tokyo");
	CHECK_INT(look(), VERDICT_PASS);
	CHECK_TEXT(params_get(client->params, params_index(whole.world->params, "TimeZone")), "Asia/Tokyo");
	end();
}

TEST(an_error_that_is_not_fatal)
{
	REQUIRE(begin_query());
	CHECK_INT(look_at_error("ERROR"), VERDICT_PASS);
	CHECK(!server->said_fatal);
	end();
}

/* The texts of the tags that mean more than the completion of the command. */
TEST(ddl_changes_the_meaning_of_texts)
{
	REQUIRE(begin_query());
	CHECK_INT(look_at_tag("INSERT 0 1000000"), VERDICT_PASS);
	CHECK(!server->session.changes);
	CHECK_INT(look_at_tag("ALTER TABLE"), VERDICT_PASS);
	CHECK_INT(server->session.changes, CHANGES_MEANING | CHANGES_TABLES);
	server->session.changes = 0;
	end();
}

TEST(all_prepared_statements_are_gone)
{
	static const char *const tags[] = { "DISCARD ALL", "DEALLOCATE ALL" };

	for (int i = 0; i < 2; i++) {
		REQUIRE(begin());
		whole_say(near, 'P', "a\0one\0\0", 8);
		whole_say(near, 'S', "", 0);
		CHECK_INT(prepared_client_count(client), 1);
		CHECK_INT(prepared_server_count(server), 1);
		whole.holds_answers = true;
		whole_query(near, "one");
		CHECK_INT(look_at_tag("SELECT 1"), VERDICT_PASS);
		CHECK_INT(prepared_server_count(server), 1);
		CHECK_INT(look_at_tag(tags[i]), VERDICT_PASS);
		CHECK_INT(prepared_client_count(client), 0);
		CHECK_INT(prepared_server_count(server), 0);
		end();
	}
}

/* After a message of pgweir itself, the client keeps its names. */
TEST(discard_by_the_pooler_keeps_the_clients_names)
{
	REQUIRE(begin());
	whole_say(near, 'P', "a\0one\0\0", 8);
	whole_say(near, 'S', "", 0);
	CHECK(ledger_sent(&server->ledger, 'Q', 0, OWED_TO_POOLER));
	CHECK_INT(look_at_tag("DISCARD ALL"), VERDICT_SWALLOW);
	CHECK_INT(prepared_client_count(client), 1);
	CHECK_INT(prepared_server_count(server), 0);
	end();
}

/* No other server would accept the data that the client is about to send. */
TEST(copy_with_a_lost_ledger)
{
	REQUIRE(begin_query());
	server->status = 'I';
	CHECK_INT(look_at_body('G', "\0\0\0", 3), VERDICT_PASS);
	CHECK_INT(server->status, 'I');
	server->ledger.lost = true;
	CHECK_INT(look_at_tag("SELECT 1"), VERDICT_PASS);
	CHECK_INT(server->status, 'I');
	CHECK_INT(look_at_body('G', "\0\0\0", 3), VERDICT_PASS);
	CHECK_INT(server->status, 'T');
	end();
}

/* ---- asynchronous messages ---- */

TEST(fatal_error)
{
	REQUIRE(begin());
	/* within a transaction the error is sent to the client */
	CHECK_INT(look_at_error("FATAL"), VERDICT_PASS);
	server->status = 'I';
	CHECK_INT(look_at_error("FATAL"), VERDICT_FATAL);
	client->pooled.pins = PIN_LISTENING;
	CHECK_INT(look_at_error("FATAL"), VERDICT_PASS);
	client->pooled.pins = 0;
	client->link_facts.shares_server = false;
	CHECK_INT(look_at_error("FATAL"), VERDICT_PASS);
	client->link_facts.shares_server = true;
	server->task = &task_params;
	CHECK_INT(look_at_error("FATAL"), VERDICT_PASS);
	server->task = NULL;
	client->peer.passing = 1;
	CHECK_INT(look_at_error("FATAL"), VERDICT_PASS);
	client->peer.passing_dropped = true;
	CHECK_INT(look_at_error("FATAL"), VERDICT_FATAL);
	client->peer.passing = 0;
	client->peer.passing_dropped = false;
	server->status = 'T';
	server->said_fatal = false;
	end();
}

TEST(notices)
{
	REQUIRE(begin());
	CHECK_INT(look_at_empty('N'), VERDICT_PASS);
	/* for pgweir's own statements */
	CHECK(ledger_sent(&server->ledger, 'Q', 0, OWED_TO_POOLER));
	CHECK_INT(look_at_empty('N'), VERDICT_SWALLOW);
	end();
}

TEST(notification_has_the_clients_process_id)
{
	static const uint8_t body[] = { BACKEND_PID >> 24, BACKEND_PID >> 16 & 0xff, BACKEND_PID >> 8, BACKEND_PID & 0xff, 'a', 0, 0 };

	REQUIRE(begin());
	CHECK_INT(server->backend_pid, BACKEND_PID);
	CHECK_INT(look_at_body('A', body, sizeof(body)), VERDICT_PASS);
	CHECK_INT(pg_u32_at(bytes_front(&message) + PG_HEADER), client->cancel_key.pid);
	CHECK(client->cancel_key.pid != BACKEND_PID);
	CHECK(memcmp(bytes_front(&message) + PG_HEADER + 4, body + 4, 3) == 0);
	CHECK_INT(look_at(PG_HEADER + 3), VERDICT_MORE);
	/* during pgweir's own query the notification still goes to the client */
	CHECK(ledger_sent(&server->ledger, 'Q', 0, OWED_TO_POOLER));
	CHECK_INT(look_at_body('A', body, sizeof(body)), VERDICT_PASS);
	end();
}

/* ---- answers to pgweir ---- */

TEST(answers_to_the_pooler)
{
	REQUIRE(begin());
	CHECK(ledger_sent(&server->ledger, 'P', 0, OWED_TO_POOLER));
	CHECK_INT(look_at_empty('1'), VERDICT_SWALLOW);
	/* an error in a message of pgweir: the server now skips the client's messages */
	CHECK(ledger_sent(&server->ledger, 'P', 0, OWED_TO_POOLER));
	CHECK_INT(look_at_error("ERROR"), VERDICT_PASS);
	end();
	/* only a task sends a Query */
	REQUIRE(begin());
	CHECK(ledger_sent(&server->ledger, 'Q', 0, OWED_TO_POOLER));
	CHECK_INT(look_at_tag("SET"), VERDICT_SWALLOW);
	CHECK_INT(look_at_ready('T'), VERDICT_INVALID);
	end();
}

TEST(answer_without_a_task)
{
	REQUIRE(begin());
	CHECK(ledger_sent_marked(&server->ledger, 'Q', 0, OWED_TO_POOLER, MARK_TASK));
	CHECK_INT(look_at_tag("SELECT 1"), VERDICT_INVALID);
	end();
}

TEST(all_answers_are_sent)
{
	static const uint8_t reply[] = { '1', 0, 0, 0, 4, 't', 0, 0, 0, 22, 0, 4, 'p', 'g', 'w', 'e', 'i', 'r', ':', ' ', 'a', 'l', 'l', ' ', 's', 'a', 'i', 'd' };

	REQUIRE(begin());
	server->task = &task_leave;
	bytes_append(fresh(), reply, sizeof(reply));
	CHECK_INT(look(), VERDICT_LAST);
	CHECK_INT(look_at(sizeof(reply) - 1), VERDICT_MORE);
	server->task = NULL;
	end();
}

/* ---- ParameterStatus: the client takes over the values that its server reports, and a server that cannot store them is closed ---- */

static void report(const char *name, const char *value)
{
	pg_build_parameter_status(fresh(), name, value);
	look();
}

static const char *value_of(const struct params *set, int index)
{
	const char *value = params_get(set, index);

	return value ? value : "";
}

TEST(reported_parameter_is_stored_for_the_client)
{
	REQUIRE(begin());
	report("DateStyle", "German, DMY");
	CHECK_TEXT(value_of(server->params, PARAM_DATESTYLE), "German, DMY");
	CHECK_TEXT(value_of(client->params, PARAM_DATESTYLE), "German, DMY");
	end();
}

TEST(untracked_parameter_is_ignored)
{
	const struct params *of_server, *of_client;

	REQUIRE(begin());
	of_server = server->params;
	of_client = client->params;
	report("in_hot_standby", "on");
	CHECK(server->params == of_server && client->params == of_client);
	end();
}

TEST(parameter_of_a_server_without_a_client)
{
	REQUIRE(begin());
	CHECK_TEXT(whole_ask(near, "COMMIT"), "C(COMMIT) Z(I)");
	REQUIRE(!server->pooled.link);
	report("DateStyle", "German, DMY");
	CHECK_TEXT(value_of(server->params, PARAM_DATESTYLE), "German, DMY");
	CHECK(strcmp(value_of(client->params, PARAM_DATESTYLE), "German, DMY") != 0);
	end();
}

/* Whichever allocation fails: both sides have the value, or the server is marked to close. */
TEST(out_of_memory_closes_the_server_at_release)
{
	int failed = 1, more;

	for (more = 0; failed > 0 && more < 50; more++) {
		REQUIRE(begin());
		pg_build_parameter_status(fresh(), "DateStyle", "German, DMY");
		whole_memory_ends(more);
		look();
		failed = whole_memory_is_back();
		CHECK((server->pooled.close_reason == REASON_NO_MEMORY) == (failed > 0));
		end();
	}
	CHECK(more > 1 && failed == 0);
}

UNIT_MAIN
