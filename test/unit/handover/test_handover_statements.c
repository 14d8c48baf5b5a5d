/* Prepared statements in a hand-over: each statement is sent once, and connections refer to its number. */
#include "handover/handover_parts.h"
#include "pg/statement.h"
#include "prepared/prepared.h"
#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE 20000

static const uint8_t parse[] = "select 1\0\0";	/* the text, and no types */

static struct scene {
	struct world world;
	struct records *from, *to;
	struct sender sender;
	struct handover handover;
	struct statement *statement;
} scene;

static void begin(void)
{
	struct scene *s = &scene;
	int ends[2];

	memset(s, 0, sizeof(*s));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
		_exit(1);
	s->from = records_new(ends[0]);
	s->to = records_new(ends[1]);
	s->world.params = params_table_new(NULL);
	s->world.statements = statements_new(s->world.params);
	s->statement = statement_take(s->world.statements, statements_new_place(s->world.statements), params_none(s->world.params), parse,
				      sizeof(parse));
	s->sender = (struct sender){ .world = &s->world, .to = s->from, .patience = PATIENCE };
	s->handover.world = &s->world;
}

static void end(void)
{
	struct scene *s = &scene;

	known_statements_free(s->world.statements, &s->sender.sent);
	known_statements_free(s->world.statements, &s->handover.statements);
	statement_drop(s->world.statements, &s->statement);
	CHECK_INT(s->world.statements->count, 0);
	statements_free(&s->world.statements);
	params_table_free(&s->world.params);
	records_free(&s->from);
	records_free(&s->to);
}

/* Sends the record of a client with `count` names of the statement. */
static void send_client(int count)
{
	struct prepared_client prepared = { .names = NULL };
	struct client client = { .prepared = &prepared };
	struct prepared_name *names[4] = { NULL }, *n;

	for (int i = 0; i < count; i++) {
		n = names[i] = mem_must(sizeof(*n) + 2);
		n->sent = scene.statement;
		n->text[0] = (char)('a' + i);
		HASH_ADD(hh, prepared.names, text, 1, n);
	}
	CHECK(statements_of_client_send(&scene.sender, &client));
	HASH_CLEAR(hh, prepared.names);
	for (int i = 0; i < count; i++)
		mem_free(names[i]);
}

TEST(each_statement_is_sent_once)
{
	struct record record;

	begin();
	send_client(3);
	send_client(1);
	REQUIRE(records_next(scene.to, &record) == RECORDS_OK);
	CHECK_INT(record.type, HANDOVER_STATEMENT);
	CHECK(records_next(scene.to, &record) == RECORDS_AGAIN);
	end();
}

TEST(received_statement_is_found_by_number)
{
	struct bytes number = BYTES_EMPTY;
	const struct statement *known;
	struct record record;
	struct unpack in;

	begin();
	send_client(1);
	REQUIRE(records_next(scene.to, &record) == RECORDS_OK);
	in = unpack_of(record.body, record.size);
	known_statement_unpack(&in, &scene.handover);
	CHECK(!in.bad);
	pack_u64(&number, scene.statement->number);
	pack_u64(&number, 0);
	pack_u64(&number, scene.statement->number + 1);
	in = unpack_of(bytes_front(&number), bytes_size(&number));
	known = known_statement(&in, &scene.handover);
	REQUIRE(known);
	CHECK_INT(known->number, scene.statement->number);
	CHECK(!known_statement(&in, &scene.handover) && !in.bad);
	/* no statement with this number was sent */
	CHECK(!known_statement(&in, &scene.handover) && in.bad);
	bytes_free(&number);
	end();
}

TEST(duplicate_number_is_refused)
{
	struct record record;
	struct unpack in;

	begin();
	send_client(1);
	REQUIRE(records_next(scene.to, &record) == RECORDS_OK);
	for (int i = 0; i < 2; i++) {
		in = unpack_of(record.body, record.size);
		known_statement_unpack(&in, &scene.handover);
		CHECK_INT(in.bad, i);
	}
	end();
}

UNIT_MAIN
