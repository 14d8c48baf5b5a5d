/*
 * Prepared statements of connections in a handover: a client's names, a server's statements, and pending messages are the same in the other process.
 */
#include "prepared/statements.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\n")
#define PATIENCE 20000

static struct records *from, *to;

static bool send_statement(struct record_statements *statements, struct bytes *packed)
{
	(void)statements;
	return records_send(from, HANDOVER_STATEMENT, packed, -1, PATIENCE);
}

static void sender_begin(void)
{
	sender = (struct sender){ .statements = { .world = whole.world, .send = send_statement } };
}

static void parse(const char *name_and_text, size_t size)
{
	whole_say(near, 'P', name_and_text, size);
}

#define PARSE(name, text) parse(name "\0" text "\0\0", sizeof(name "\0" text "\0\0"))

/* A client in a transaction that has prepared "a" and "b". */
static bool begin(void)
{
	int fds[2];

	worlds_open(INI);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	from = records_new(fds[0]);
	to = records_new(fds[1]);
	sender_begin();
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server)
		return false;
	PARSE("a", "one");
	PARSE("b", "two");
	whole_say(near, 'S', "", 0);
	CHECK_TEXT(whole_client_got(near), "1 1 Z(T)");
	take_pool();
	return client->prepared && server->prepared;
}

static void end(void)
{
	record_statements_free(&sender.statements);
	records_free(&from);
	records_free(&to);
	worlds_close();
}

/* Statement records precede the records that refer to them. */
static void take_statements(void)
{
	struct record r;
	struct unpack in;

	/* what earlier calls of pack_server() and pack_client() have sent */
	while (records_next(to, &r, 0) == RECORDS_OK)
		;
	record_statements_free(&sender.statements);
	sender_begin();
	pack_server();
	pack_client();
	while (records_next(to, &r, 0) == RECORDS_OK) {
		in = unpack_of(r.body, r.size);
		record_statement_unpack(&in, &taking->statements);
		CHECK(unpack_is_done(&in));
	}
}

static const struct prepared_server *has(void)
{
	return last_server()->prepared;
}

static const struct prepared_client *mine(void)
{
	return last_client()->prepared;
}

/* Takes both records, the server first. */
static bool take_both(void)
{
	take_statements();
	pack_server();
	if (!take_server())
		return false;
	pack_client();
	return take_client() && has() && mine();
}

static uint64_t number_of(const struct prepared_client *of, const char *name)
{
	const struct prepared_name *n = name_find(of, name, strlen(name) + 1);

	return n && n->sent ? n->sent->number : 0;
}

TEST(prepared_statements_are_handed_over)
{
	REQUIRE(begin());
	REQUIRE(take_both());
	CHECK_INT(prepared_client_count(last_client()), 2);
	CHECK_INT(prepared_server_count(last_server()), 2);
	CHECK(number_of(mine(), "a") != 0 && number_of(mine(), "a") == number_of(client->prepared, "a"));
	CHECK(number_of(mine(), "b") != 0 && number_of(mine(), "b") == number_of(client->prepared, "b"));
	CHECK(!name_find(mine(), "c", 2));
	CHECK_INT(mine()->bytes, client->prepared->bytes);
	CHECK_INT(has()->bytes, server->prepared->bytes);
	/* the server's names for statements include the tag of the connection */
	CHECK(memcmp(statement_names_tag(&has()->names), statement_names_tag(&server->prepared->names), STATEMENT_TAG) == 0);
	CHECK_INT(has()->op_count, 0);
	for (const struct prepared_entry *e = has()->entries; e; e = e->hh.next)
		CHECK(e->sent && e->confirmed && e->in_flight == 0);
	end();
}

/* The statement that was used last is closed last. */
TEST(order_of_use_is_kept)
{
	uint64_t a;

	REQUIRE(begin());
	whole_say(near, 'B', "\0a\0\0\0\0\0\0\0", 9);
	whole_say(near, 'S', "", 0);
	CHECK_TEXT(whole_client_got(near), "2 Z(T)");
	REQUIRE(take_both());
	a = number_of(mine(), "a");
	CHECK(LIST_OBJECT(has()->lru.prev, struct prepared_entry, lru_link)->statement->number == a);
	CHECK(LIST_OBJECT(has()->lru.next, struct prepared_entry, lru_link)->statement->number == number_of(mine(), "b"));
	end();
}

TEST(operations_in_progress_are_handed_over)
{
	const struct prepared_name *n;
	const struct prepared_op *op;

	REQUIRE(begin());
	whole.holds_answers = true;
	PARSE("c", "three");
	CHECK_INT(server->prepared->op_count, 2);	/* Parse and Describe */
	REQUIRE(take_both());
	CHECK_INT(has()->op_count, 2);
	op = op_at(has(), 0);
	n = name_find(mine(), "c", 2);
	REQUIRE(n && op->name == n && op->statement == n->sent);
	CHECK_INT(op->kind, OP_PARSE);
	CHECK(!n->confirmed && n->in_flight == 1);
	CHECK_INT(n->batch, name_find(client->prepared, "c", 2)->batch);
	end();
}

/* The name refers to no statement, so it is in no table. */
TEST(name_referenced_only_by_the_journal)
{
	struct prepared_name *n;

	REQUIRE(begin());
	n = name_new(NULL, "zz", sizeof("zz"));
	CHECK(op_push(server->prepared, OP_USE, n, NULL));
	name_drop(whole.world, &n);
	REQUIRE(take_both());
	REQUIRE(has()->op_count == 1);
	n = op_at(has(), 0)->name;
	REQUIRE(n);
	CHECK_TEXT(n->text, "zz");
	/* the name lives as long as the journal refers to it */
	CHECK(!n->in_table && n->refs == 1);
	CHECK(!name_find(mine(), "zz", 3));
	end();
}

TEST(the_unnamed_statement)
{
	REQUIRE(begin());
	PARSE("", "unnamed");
	whole_say(near, 'S', "", 0);
	REQUIRE(client->prepared->has_text);
	REQUIRE(take_both());
	CHECK(mine()->has_text && mine()->has_confirmed_text == client->prepared->has_confirmed_text);
	CHECK_INT(bytes_size(&mine()->text), bytes_size(&client->prepared->text));
	CHECK(memcmp(bytes_front(&mine()->text), bytes_front(&client->prepared->text), bytes_size(&mine()->text)) == 0);
	CHECK_INT(last_server()->unnamed_of, client->peer.id);
	CHECK_INT(has()->unnamed_number, server->prepared->unnamed_number);
	CHECK_INT(has()->unnamed_confirmed, server->prepared->unnamed_confirmed);
	CHECK_INT(mine()->number, client->prepared->number);
	end();
}

TEST(no_prepared_statements)
{
	worlds_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	take_pool();
	pack_server();
	CHECK(take_server());
	pack_client();
	CHECK(take_client());
	CHECK(!last_client()->prepared && !last_server()->prepared);
	worlds_close();
}

TEST(each_statement_is_sent_once)
{
	struct record r;
	struct unpack in;
	int sent = 0;

	REQUIRE(begin());
	pack_server();
	pack_client();
	for (; records_next(to, &r, 0) == RECORDS_OK; sent++) {
		CHECK_INT(r.type, HANDOVER_STATEMENT);
		/* a number is received once, too */
		for (int i = 0; i < 2; i++) {
			in = unpack_of(r.body, r.size);
			record_statement_unpack(&in, &taking->statements);
			CHECK_INT(in.bad, i);
		}
	}
	CHECK_INT(sent, 2);
	end();
}

TEST(missing_statement_record)
{
	REQUIRE(begin());
	pack_server();
	CHECK(!take_server());
	taken_undo();
	take_pool();
	pack_client();
	CHECK(!take_client());
	end();
}

/* ---- invalid records ---- */

static bool take_prepared(size_t n)
{
	uint8_t *copy = fuzz_copy(bytes_front(&record), n);
	struct unpack in = unpack_of(copy, n);

	prepared_server_unpack(&in, &taking->statements, last_server());
	free(copy);
	return unpack_is_done(&in);
}

/* The record of a server without operations in progress contains no statements. */
static bool begin_plain(void)
{
	struct prepared_server *had;

	if (!begin())
		return false;
	take_statements();
	had = server->prepared;
	server->prepared = NULL;
	pack_server();
	server->prepared = had;
	return take_server() && !has();
}

TEST(duplicate_entry)
{
	REQUIRE(begin_plain());
	bytes_consume(&record, bytes_size(&record));
	prepared_server_pack(&sender.statements, &record, server);
	CHECK(take_prepared(bytes_size(&record)));
	CHECK_INT(prepared_server_count(last_server()), 2);
	CHECK(!take_prepared(bytes_size(&record)));
	end();
}

static void put_entry(uint32_t in_flight, bool sent, bool confirmed, uint8_t validity)
{
	bytes_consume(&record, bytes_size(&record));
	prepared_server_pack(&sender.statements, &record, server);
	/* the first entry, after two fields and its number */
	record.data[record.start + 13 + 3] = (uint8_t)in_flight;
	record.data[record.start + 21] = sent;
	record.data[record.start + 22] = confirmed;
	record.data[record.start + 23] = validity;
}

/* With nothing in flight, `sent` equals `confirmed`, and an entry with neither does not exist. */
TEST(invalid_entry)
{
	static const struct { bool sent, confirmed; uint32_t in_flight; uint8_t validity; bool can; } entries[] = {
		{ true, true, 0, PARSE_VALID, true }, { true, false, 1, PARSE_VALID, true }, { true, false, 0, PARSE_VALID, false },
		{ false, true, 0, PARSE_VALID, false }, { false, false, 0, PARSE_VALID, false }, { true, true, 0, PARSE_INVALID + 1, false },
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		REQUIRE(begin_plain());
		put_entry(entries[i].in_flight, entries[i].sent, entries[i].confirmed, entries[i].validity);
		if (take_prepared(bytes_size(&record)) != entries[i].can)
			UNIT_FAIL("entry %zu", i);
		end();
	}
}

/* The record is truncated at any byte; everything read so far is freed. */
TEST(truncated_client_record)
{
	struct bytes whole_server = BYTES_EMPTY, whole_client = BYTES_EMPTY;

	REQUIRE(begin());
	whole.holds_answers = true;
	PARSE("c", "three");
	pack_server();
	bytes_append(&whole_server, bytes_front(&record), bytes_size(&record));
	bytes_consume(&record, bytes_size(&record));
	prepared_client_pack(&sender.statements, &record, client);
	CHECK(!record.failed);
	bytes_append(&whole_client, bytes_front(&record), bytes_size(&record));
	for (size_t n = 0; n < bytes_size(&whole_client); n += 3) {
		struct unpack in;
		uint8_t *copy;

		take_statements();
		bytes_consume(&record, bytes_size(&record));
		bytes_append(&record, bytes_front(&whole_server), bytes_size(&whole_server));
		REQUIRE(take_server());
		client_adopt(fresh.world, descriptor());
		copy = fuzz_copy(bytes_front(&whole_client), n);
		in = unpack_of(copy, n);
		prepared_client_unpack(&in, &taking->statements, last_client(), taking->server);
		if (unpack_is_done(&in))
			UNIT_FAIL("%zu bytes are taken", n);
		free(copy);
		taken_undo();
		take_pool();
	}
	bytes_free(&whole_server);
	bytes_free(&whole_client);
	end();
}

UNIT_MAIN
