/* The extended protocol, message by message: answers, errors until Sync, formats, limits, and
   every cut of every body. */
#include "admin/result_wire.h"

#include "admin/caller.h"
#include "fake_world.h"
#include "unit.h"

static struct bytes body;

static void put(const char *text) { bytes_append_string(&body, text); }
static void put16(uint16_t value) { bytes_append_u16(&body, value); }

/* Sends the body that was built. */
static void send_body(struct client *c, uint8_t type)
{
	fake_message(c, type, body.data ? (const char *)bytes_front(&body) : "", bytes_size(&body));
	bytes_free(&body);
}

static void parse(struct client *c, const char *name, const char *text)
{
	put(name);
	put(text);
	put16(0);
	send_body(c, 'P');
}

static void bind_formats(struct client *c, const char *portal, const char *name, int formats, uint16_t first)
{
	put(portal);
	put(name);
	put16(0);
	put16(0);
	put16((uint16_t)formats);
	for (int i = 0; i < formats; i++)
		put16(i == 0 ? first : 0);
	send_body(c, 'B');
}

static void bind_text(struct client *c, const char *portal, const char *name)
{
	bind_formats(c, portal, name, 0, 0);
}

static void execute(struct client *c, const char *portal, uint32_t most)
{
	put(portal);
	bytes_append_u32(&body, most);
	send_body(c, 'E');
}

static void target(struct client *c, uint8_t type, char kind, const char *name)
{
	bytes_append_u8(&body, (uint8_t)kind);
	put(name);
	send_body(c, type);
}

static const char *synced(struct client *c)
{
	send_body(c, 'S');
	return fake_transcript(c);
}

static struct client *begin(void)
{
	fake_start("[databases]\nshop = host=10.0.0.5\n[pgbouncer]\n");
	return fake_caller("boss", true);
}

TEST(one_query)
{
	struct client *c = begin();

	parse(c, "", "show version;");
	bind_text(c, "", "");
	target(c, 'D', 'P', "");
	execute(c, "", 0);
	CHECK_TEXT(fake_transcript(c), "");		/* nothing is sent before Sync or Flush */
	CHECK_TEXT(synced(c), "1 2 T(version:25/0) D(PgBouncer 1.25.2 (pgweir 0.0.0)) C(SHOW) Z(I)");
	fake_end();
}

TEST(flush)
{
	struct client *c = begin();

	parse(c, "a", "reload");
	target(c, 'D', 'S', "a");
	send_body(c, 'H');
	CHECK_TEXT(fake_transcript(c), "1 t(0) n");
	bind_text(c, "p", "a");
	target(c, 'D', 'P', "p");
	send_body(c, 'H');
	CHECK_TEXT(fake_transcript(c), "2 n");
	execute(c, "p", 0);
	CHECK_TEXT(synced(c), "N(01000 x.ini:3: listen_port needs a restart) C(RELOAD) Z(I)");
	fake_end();
}

TEST(describe_statement)
{
	struct client *c = begin();

	parse(c, "s", "SHOW DNS_ZONES");
	target(c, 'D', 'S', "s");
	CHECK_TEXT(synced(c), "1 t(0) T(zonename:25/0,serial:20/0,count:23/0) Z(I)");
	fake_end();
}

TEST(binary_results)
{
	struct client *c = begin();
	const char *got;

	parse(c, "", "show lists");
	bind_formats(c, "", "", 1, WIRE_BINARY);
	target(c, 'D', 'P', "");
	execute(c, "", 1);
	got = synced(c);
	CHECK_TEXT(got, "1 2 T(list:25/1,items:23/1) D(databases|\\x00\\x00\\x00\\x02) s Z(I)");
	parse(c, "", "show totals");
	bind_formats(c, "", "", 2, WIRE_TEXT);
	execute(c, "", 1);
	CHECK_TEXT(synced(c), "1 2 D(total_server_assignment_count|0) s Z(I)");
	fake_end();
}

/* Every SHOW is available in binary: numeric cells have the width of their type. */
TEST(every_show_in_binary)
{
	static const char *const items[] = {
		"stats", "stats_totals", "stats_averages", "totals", "servers", "clients", "pools", "peer_pools", "lists", "users",
		"databases", "peers", "fds", "sockets", "active_sockets", "config", "mem", "dns_hosts", "dns_zones", "version", "state",
		"reasons", "client_encoding",
	};
	struct client *c = begin();
	char text[64];

	fake_server_new("shop", "anna");
	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		const char *got;

		snprintf(text, sizeof(text), "show %s", items[i]);
		parse(c, "", text);
		bind_formats(c, "", "", 1, WIRE_BINARY);
		target(c, 'D', 'P', "");
		execute(c, "", 0);
		got = synced(c);
		CHECK(strncmp(got, "1 2 T(", 6) == 0 && strstr(got, "/0") == NULL);
		CHECK(strstr(got, " C(SHOW) Z(I)") != NULL);
	}
	fake_end();
}

TEST(errors_until_sync)
{
	struct client *c = begin();

	parse(c, "", "nonsense");
	CHECK_TEXT(fake_transcript(c), "E(08P01 invalid command 'nonsense', use SHOW HELP;)");
	bind_text(c, "", "");
	execute(c, "", 0);
	fake_query(c, "disable shop");
	fake_message(c, 'F', "", 0);
	fake_message(c, 'H', "", 0);
	CHECK_TEXT(synced(c), "Z(I)");
	CHECK(!database_find(fake.world.pools, "shop")->disabled);
	CHECK_TEXT(synced(c), "Z(I)");
	/* a bound command that fails when executed skips the following messages */
	parse(c, "r", "resume");
	parse(c, "d", "disable shop");
	bind_text(c, "r", "r");
	bind_text(c, "d", "d");
	execute(c, "r", 0);
	execute(c, "d", 0);
	CHECK_TEXT(synced(c), "1 1 2 2 E(08P01 pooler is not paused/suspended) Z(I)");
	CHECK(!database_find(fake.world.pools, "shop")->disabled);
	fake_end();
}

TEST(statement_names)
{
	struct client *c = begin();

	bind_text(c, "", "nosuch");
	CHECK_TEXT(synced(c), "E(26000 prepared statement \"nosuch\" does not exist) Z(I)");
	target(c, 'D', 'S', "nosuch");
	CHECK_TEXT(synced(c), "E(26000 prepared statement \"nosuch\" does not exist) Z(I)");
	target(c, 'C', 'S', "nosuch");
	CHECK_TEXT(synced(c), "3 Z(I)");
	parse(c, "a", "show version");
	parse(c, "a", "show state");
	CHECK_TEXT(synced(c), "1 E(42P05 prepared statement \"a\" already exists) Z(I)");
	target(c, 'C', 'S', "a");
	parse(c, "a", "show state");
	target(c, 'D', 'S', "a");
	CHECK_TEXT(synced(c), "3 1 t(0) T(key:25/0,value:25/0) Z(I)");
	/* the unnamed statement is replaced; a failed Parse removes it */
	parse(c, "", "show version");
	parse(c, "", "show state");
	target(c, 'D', 'S', "");
	CHECK_TEXT(synced(c), "1 1 t(0) T(key:25/0,value:25/0) Z(I)");
	parse(c, "", "nonsense");
	synced(c);
	bind_text(c, "", "");
	CHECK_TEXT(synced(c), "E(26000 prepared statement \"\" does not exist) Z(I)");
	parse(c, "", "pause; resume");
	CHECK_TEXT(synced(c), "E(42601 cannot insert multiple commands into a prepared statement) Z(I)");
	target(c, 'D', 'x', "");
	CHECK_TEXT(synced(c), "E(08P01 invalid DESCRIBE or CLOSE message subtype x) Z(I)");
	fake_end();
}

TEST(portal_names)
{
	struct client *c = begin();

	execute(c, "nosuch", 0);
	CHECK_TEXT(synced(c), "E(34000 portal \"nosuch\" does not exist) Z(I)");
	target(c, 'D', 'P', "nosuch");
	CHECK_TEXT(synced(c), "E(34000 portal \"nosuch\" does not exist) Z(I)");
	target(c, 'C', 'P', "nosuch");
	CHECK_TEXT(synced(c), "3 Z(I)");
	parse(c, "s", "show version");
	bind_text(c, "p", "s");
	bind_text(c, "p", "s");
	CHECK_TEXT(synced(c), "1 2 E(42P03 portal \"p\" already exists) Z(I)");
	/* a portal ends with the transaction, a statement does not; a portal outlives its statement */
	bind_text(c, "p", "s");
	synced(c);
	target(c, 'D', 'P', "p");
	CHECK_TEXT(synced(c), "E(34000 portal \"p\" does not exist) Z(I)");
	bind_text(c, "p", "s");
	target(c, 'C', 'S', "s");
	execute(c, "p", 0);
	target(c, 'C', 'P', "p");
	execute(c, "p", 0);
	CHECK_TEXT(synced(c), "2 3 D(PgBouncer 1.25.2 (pgweir 0.0.0)) C(SHOW) 3 E(34000 portal \"p\" does not exist) Z(I)");
	/* a Query ends portals too */
	parse(c, "", "show version");
	bind_text(c, "", "");
	fake_query(c, "");
	execute(c, "", 0);
	CHECK_TEXT(synced(c), "1 2 I Z(I) E(34000 portal \"\" does not exist) Z(I)");
	fake_end();
}

TEST(execute_with_row_limit)
{
	struct client *c = begin();

	parse(c, "", "show state");
	bind_text(c, "", "");
	execute(c, "", 2);
	execute(c, "", 2);
	execute(c, "", 2);
	CHECK_TEXT(synced(c), "1 2 D(active|yes) D(paused|no) s D(suspended|no) C(SHOW) C(SHOW) Z(I)");
	parse(c, "", "enable shop");
	bind_text(c, "", "");
	execute(c, "", 1);
	execute(c, "", 1);
	CHECK_TEXT(synced(c), "1 2 C(ENABLE) E(55000 portal \"\" cannot be run) Z(I)");
	fake_end();
}

TEST(empty_statements)
{
	struct client *c = begin();

	parse(c, "", "-- ping");
	target(c, 'D', 'S', "");
	bind_text(c, "", "");
	target(c, 'D', 'P', "");
	execute(c, "", 0);
	execute(c, "", 0);
	CHECK_TEXT(synced(c), "1 t(0) n 2 n I I Z(I)");
	fake_end();
}

TEST(help)
{
	struct client *c = begin();
	const char *got;

	parse(c, "", "show help");
	bind_formats(c, "", "", 3, WIRE_TEXT);
	target(c, 'D', 'P', "");
	execute(c, "", 0);
	got = synced(c);
	CHECK(strncmp(got, "1 2 n N(00000 Console usage{", 28) == 0);
	CHECK(strstr(got, "}) C(SHOW) Z(I)") != NULL);
	fake_end();
}

TEST(bind_refusals)
{
	struct client *c = begin();

	parse(c, "s", "show state");
	bind_formats(c, "", "s", 3, WIRE_TEXT);
	CHECK_TEXT(synced(c), "1 E(08P01 bind message has 3 result formats but query has 2 columns) Z(I)");
	bind_formats(c, "", "s", 1, 2);
	CHECK_TEXT(synced(c), "E(22023 unsupported format code: 2) Z(I)");
	bind_formats(c, "", "s", 1000, WIRE_TEXT);
	CHECK_TEXT(synced(c), "E(08P01 bind message has 1000 result formats but query has 2 columns) Z(I)");
	/* two parameters, of which the second is null */
	put("");
	put("s");
	put16(1);
	put16(0);
	put16(2);
	bytes_append_u32(&body, 1);
	bytes_append_u8(&body, 'x');
	bytes_append_u32(&body, UINT32_MAX);
	put16(0);
	send_body(c, 'B');
	CHECK_TEXT(synced(c), "E(08P01 bind message supplies 2 parameters, but the console takes none) Z(I)");
	fake_end();
}

TEST(access)
{
	struct client *c;

	begin();
	c = fake_caller("looker", false);
	parse(c, "", "pause");
	bind_text(c, "", "");
	execute(c, "", 0);
	CHECK_TEXT(synced(c), "1 2 E(08P01 admin access needed) Z(I)");
	parse(c, "", "show fds");
	bind_text(c, "", "");
	execute(c, "", 0);
	CHECK_TEXT(synced(c), "1 2 E(08P01 admin access needed) Z(I)");
	CHECK(!fake.world.pools->paused);
	fake_end();
}

TEST(waiting_command)
{
	struct client *c = begin(), *other = fake_caller("boss", true);
	struct server *s = fake_server_new("shop", "anna");
	struct client *user = fake_client_new("shop", "anna");

	pool_want(&user->pooled, fake.world.now);
	parse(c, "", "pause shop");
	bind_text(c, "", "");
	execute(c, "", 0);
	CHECK_TEXT(fake_transcript(c), "1 2");
	CHECK(c->console.state != CONSOLE_READY);
	pool_unlink(&s->pooled, SERVER_IDLE, false, fake.world.now);
	fake_server_dies(&s->pooled);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE)");
	CHECK(c->console.state == CONSOLE_READY);
	CHECK_TEXT(synced(c), "Z(I)");
	fake_ask(other, "resume shop");
	s = fake_server_new("shop", "anna");
	pool_want(&user->pooled, fake.world.now);
	parse(c, "", "pause shop");
	bind_text(c, "", "");
	execute(c, "", 0);
	fake_ask(other, "resume shop");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "1 2 E(08P01 PAUSE was ended by RESUME)");
	execute(c, "", 0);
	CHECK_TEXT(synced(c), "Z(I)");
	parse(c, "", "pause shop");
	bind_text(c, "", "");
	execute(c, "", 0);
	CHECK(fake.world.console.ops->cancel(fake.world.console.context, c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "1 2 E(57014 canceling statement due to user request{What it had paused goes on.})");
	execute(c, "", 0);
	CHECK_TEXT(synced(c), "Z(I)");
	fake_end();
}

/* The number and size of objects that a client can keep in the console are limited. */
TEST(limits_of_statements_and_portals)
{
	struct client *c = begin();
	char name[32], *longest = malloc(60001);
	int kept = 0;

	for (; kept < 5000; kept++) {
		snprintf(name, sizeof(name), "s%d", kept);
		parse(c, name, "show version");
		if (strcmp(synced(c), "1 Z(I)") != 0)
			break;
	}
	CHECK_INT(kept, 1000);
	parse(c, "more", "show version");
	CHECK_TEXT(synced(c), "E(54000 too many prepared statements and portals) Z(I)");
	bind_text(c, "", "s0");
	CHECK_TEXT(synced(c), "E(54000 too many prepared statements and portals) Z(I)");
	target(c, 'C', 'S', "s0");
	parse(c, "more", "show version");
	CHECK_TEXT(synced(c), "3 1 Z(I)");
	c = fake_caller("boss", true);
	memset(longest, 'x', 60000);
	memcpy(longest, "set x = ", 8);
	longest[60000] = '\0';
	for (kept = 0; kept < 100; kept++) {
		snprintf(name, sizeof(name), "s%d", kept);
		parse(c, name, longest);
		if (strcmp(synced(c), "1 Z(I)") != 0)
			break;
	}
	CHECK_INT(kept, 17);
	free(longest);
	fake_end();
}

/* Rows held by portals count as well. */
TEST(limits_of_rows)
{
	struct client *c = begin();
	char name[32];
	int open = 0;

	for (int i = 0; i < 55; i++)
		fake_client_new("shop", "anna");
	parse(c, "s", "show sockets");
	for (; open < 900; open++) {
		snprintf(name, sizeof(name), "p%d", open);
		bind_text(c, name, "s");
		execute(c, name, 1);
		send_body(c, 'H');
		if (strstr(fake_transcript(c), "E(54000 "))
			break;
	}
	CHECK(open > 20 && open < 200);
	CHECK_TEXT(synced(c), "Z(I)");
	bind_text(c, "", "s");
	execute(c, "", 1);
	CHECK(strstr(synced(c), " s Z(I)") != NULL);	/* Sync has freed the rows */
	fake_end();
}

static int count_of(const char *text, const char *what)
{
	int count = 0;

	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		count++;
	return count;
}

/* Rows fetched for the next piece of a SHOW count too, when an Execute with a row limit takes only a few. */
TEST(limits_of_rows_in_pieces)
{
	struct client *c = begin();
	char name[32];
	int open = 0;

	for (int i = 0; i < 1100; i++)
		fake_client_new("shop", "anna");
	parse(c, "s", "show clients");
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		bind_text(c, name, "s");
		execute(c, name, 500);
		send_body(c, 'H');
		CHECK_INT(count_of(fake_transcript(c), " D("), 500);
	}
	for (; open < 100; open++) {
		snprintf(name, sizeof(name), "p%d", open);
		execute(c, name, 1);
		CHECK_INT(c->console.state, CONSOLE_CONTINUING);
		fake_turn();
		if (strstr(fake_transcript(c), "E(54000 "))
			break;
	}
	CHECK(open > 2 && open < 100);
	CHECK_INT(c->console.state, CONSOLE_READY);
	CHECK_TEXT(synced(c), "Z(I)");
	fake_end();
}

/* A result larger than one turn: an Execute without a row limit continues, and an Execute with a row limit ends with the last requested row. */
TEST(result_larger_than_one_turn)
{
	struct client *c = begin();
	const char *got;

	for (int i = 0; i < 1100; i++)
		fake_client_new("shop", "anna");
	parse(c, "s", "show clients");
	bind_text(c, "all", "s");
	execute(c, "all", 0);
	CHECK_INT(count_of(fake_transcript(c), " D("), 500);
	CHECK_INT(c->console.state, CONSOLE_CONTINUING);
	fake_turn();
	CHECK_INT(count_of(fake_transcript(c), "D("), 500);
	fake_turn();
	got = fake_transcript(c);
	CHECK_INT(count_of(got, "D("), 101);
	CHECK(strstr(got, " C(SHOW)") != NULL);
	CHECK_INT(c->console.state, CONSOLE_READY);
	bind_text(c, "some", "s");
	execute(c, "some", 600);
	CHECK_INT(count_of(fake_transcript(c), " D("), 500);
	fake_turn();
	got = fake_transcript(c);
	CHECK_INT(count_of(got, "D("), 100);
	CHECK(strstr(got, " s") != NULL);
	CHECK_INT(c->console.state, CONSOLE_READY);
	execute(c, "some", 400);
	send_body(c, 'H');
	got = fake_transcript(c);
	CHECK_INT(count_of(got, "D("), 400);
	CHECK(strstr(got, " s") != NULL);
	execute(c, "some", 400);
	fake_turn();
	got = fake_transcript(c);
	CHECK_INT(count_of(got, "D("), 101);
	CHECK(strstr(got, " C(SHOW)") != NULL);
	/* the client ends in the middle of the result */
	execute(c, "all", 0);
	bind_text(c, "more", "s");
	execute(c, "more", 0);
	client_end(c, REASON_CLIENT_EOF, NULL);
	fake_turn();
	fake_end();
}

TEST(slow_reader_pauses_the_console)
{
	struct client *c = begin();

	bytes_reserve(&c->peer.stream.out, 2 * 1024 * 1024);
	c->peer.stream.out.end = 2 * 1024 * 1024;
	parse(c, "", "show version");
	CHECK_TEXT(fake_transcript(c), "1");
	CHECK(c->console.state != CONSOLE_READY);
	fake_turn();
	CHECK(c->console.state != CONSOLE_READY);
	bytes_free(&c->peer.stream.out);
	fake_turn();
	CHECK(c->console.state == CONSOLE_READY);
	CHECK_TEXT(synced(c), "Z(I)");
	fake_end();
}

/* A message truncated at any byte, or with an extra byte, ends the connection; no read goes past the body. */
TEST(truncated_messages_end_the_connection)
{
	static const struct { uint8_t type; const char *body; size_t size; } messages[] = {
		{ 'P', "s\0show state\0\0\1\0\0\0\x19", 19 },
		{ 'B', "p\0s\0\0\1\0\0\0\1\0\0\0\2xy\0\2\0\0\0\0", 22 },
		{ 'D', "Ss", 3 },
		{ 'C', "Ss", 3 },
		{ 'E', "p\0\0\0\0", 6 },
	};

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		for (size_t size = 0; size <= messages[i].size + 1; size++) {
			struct client *c = begin();
			char copy[64] = "";
			bool is_whole = size == messages[i].size;

			memcpy(copy, messages[i].body, messages[i].size);
			fake_message(c, messages[i].type, copy, size);
			CHECK_INT(fake_of(c)->why, is_whole ? REASON_NONE : REASON_BAD_PACKET);
			fake_end();
		}
	}
}

UNIT_MAIN
