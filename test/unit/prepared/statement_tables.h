#ifndef STATEMENT_TABLES_H
#define STATEMENT_TABLES_H

/*
 * A client and a server that have only their tables of prepared statements, for the tests of statements.c: requests and answers are entered as
 * send.c and answer.c do, and the resulting state is returned as a text.
 */
#include "prepared/statements.h"
#include "core/lifecycle.h"
#include "unit.h"

#define STATEMENTS 6

static struct world world;
static struct client client;
static struct server server;
static struct prepared_client *mine;
static struct prepared_server *has;
static struct statement *st[STATEMENTS + 1];	/* from 1: "SELECT 1" has number 1 */
static uint32_t batch;

static inline void begin(void)
{
	const struct params *none;
	char body[] = "SELECT 0\0\0";

	memset(&world, 0, sizeof(world));
	memset(&client, 0, sizeof(client));
	memset(&server, 0, sizeof(server));
	world.params = params_table_new(NULL);
	world.statements = statements_new(world.params);
	client.peer.world = server.peer.world = &world;
	none = params_none(world.params);
	for (int i = 1; i <= STATEMENTS; i++) {
		body[7] = (char)('0' + i);
		st[i] = statement_take(world.statements, 1, none, (const uint8_t *)body, sizeof(body), false);
	}
	params_drop(world.params, &none);
	mine = prepared_client_of(&client);
	has = prepared_server_of(&server);
	batch = 1;
}

/* Checks that all statements are freed, with or without operations in progress. */
static inline void end(void)
{
	prepared_client_free(&client);
	prepared_server_free(&server);
	CHECK(!client.prepared && !server.prepared);
	for (int i = 1; i <= STATEMENTS; i++) {
		CHECK_INT(st[i]->refs, 1);
		statement_drop(world.statements, &st[i]);
	}
	CHECK_INT(world.statements->count, 0);
	mem_free(world.statements);
	CHECK_INT(HASH_COUNT(world.params->sets), 1);
	params_table_free(&world.params);
}

/* ---- requests ---- */

static inline struct prepared_name *find(const char *text)
{
	return name_find(mine, text, strlen(text) + 1);
}

static inline void send_name(enum op_kind kind, const char *text, int number)
{
	struct prepared_name *n = find(text);

	if (!n)
		n = name_new(mine, text, strlen(text) + 1);
	name_change_sent(&world, mine, n, number ? st[number] : NULL, batch);
	CHECK(op_push(has, kind, n, number ? st[number] : NULL));
}

static inline void send_parse(const char *text, int number)
{
	CHECK(entry_change_sent(has, st[number], true, batch));
	send_name(OP_PARSE, text, number);
}

static inline void send_known(const char *text, int number)
{
	send_name(OP_KNOWN, text, number);
}

static inline void send_close(const char *text)
{
	send_name(OP_CLOSE, text, 0);
}

static inline void send_replay(int number)
{
	CHECK(entry_change_sent(has, st[number], true, batch));
	CHECK(op_push(has, OP_REPARSE, NULL, st[number]));
}

static inline void send_evict(int number)
{
	CHECK(entry_change_sent(has, st[number], false, batch));
	CHECK(op_push(has, OP_EVICT, NULL, st[number]));
}

static inline void send_use(const char *text, int number)
{
	CHECK(op_push(has, OP_USE, find(text), st[number]));
}

/* NULL: a Query ends the statement. */
static inline void send_unnamed(const char *text)
{
	CHECK(unnamed_change_sent(mine, has, text ? OP_UNNAMED : OP_UNNAMED_QUERY, text != NULL, batch));
	CHECK_INT(bytes_size(&mine->text), 0);
	if (text)
		bytes_append_text(&mine->text, text);
}

/* ---- answers ---- */

/* The oldest operation in progress. */
static inline void answer(bool done)
{
	struct prepared_op op = op_take(has);

	op_change_ended(&world, has, mine, &op, done);
	op_release(&world, &op);
}

/* Answers "d" for each operation that succeeds, "u" for each that is skipped. */
static inline void answers(const char *fates)
{
	for (; *fates; fates++)
		answer(*fates == 'd');
}

static inline void all_gone(void)
{
	prepared_deallocated(&server, &client, true);
}

/* ---- state ---- */

/* Returns the numbers of the statements that the name refers to, as sent and as confirmed; "" if the name does not exist. */
static inline const char *name_is(const char *text)
{
	static char seen[64];
	const struct prepared_name *n = find(text);

	if (!n)
		return "";
	CHECK(n->in_table);
	snprintf(seen, sizeof(seen), "%d/%d", n->sent ? (int)n->sent->number : 0, n->confirmed ? (int)n->confirmed->number : 0);
	return seen;
}

static inline const char *entry_is(int number)
{
	static char seen[64];
	const struct prepared_entry *e = entry_find(has, st[number]);

	if (!e)
		return "";
	CHECK(e->statement == st[number]);
	snprintf(seen, sizeof(seen), "%d/%d", e->sent, e->confirmed);
	return seen;
}

/* Returns the numbers of the entries, the least recently used first. */
static inline const char *used(void)
{
	static char seen[64];
	size_t size = 0;

	LIST_EACH(node, &has->lru)
		size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%d",
					 (int)LIST_OBJECT(node, struct prepared_entry, lru_link)->statement->number);
	seen[size] = 0;
	CHECK_INT(has->count, size);
	CHECK_INT(prepared_server_count(&server), size);
	return seen;
}

/* Returns the text of the unnamed statement, "" if there is none. */
static inline const char *text_is(void)
{
	static char seen[64];

	if (!mine->has_text)
		return "";
	snprintf(seen, sizeof(seen), "%.*s", (int)bytes_size(&mine->text), (const char *)bytes_front(&mine->text));
	return seen;
}

#endif
