/* SHOW CLIENTS, SERVERS, SOCKETS and FDS: rows of a small world, and of a large one in pieces. */
#include "shows.h"

#include <sys/socket.h>

TEST(clients)
{
	struct client *c = begin("");
	struct client *waiting = fake_client_new("many", "anna");
	const char *got;

	pool_want(&waiting->pooled, fake.world.now);
	waiting->peer.request_at = fake.world.now_wall + 3 * USEC;
	waiting->peer.remote = (struct brief_address){ .family = AF_UNIX, .port = 6432, .u.peer = { 321, 1000 } };
	waiting->params = params_with(fake.world.params, params_none(fake.world.params), PARAM_APPLICATION_NAME, "till");
	fake.world.now += USEC + 7;
	got = fake_ask(c, "show clients");
	CHECK(strstr(got, " D(C|boss|pgbouncer|none|active|127.0.0.1|40000||0|2020-09-13 12:26:40 UTC|"
			  "2020-09-13 12:26:40 UTC|0|0|0|0x1||0|||0|1)") != NULL);
	CHECK(strstr(got, " D(C|anna|many|none|waiting|unix|6432||0|2020-09-13 12:26:40 UTC|"
			  "2020-09-13 12:26:43 UTC|1|7|0|0x2||321||till|0|2) C(SHOW)") != NULL);
	params_drop(fake.world.params, &waiting->params);
	fake_end();
}

/* Linked client and server show each other; a connection that has not logged in is not shown as a client. */
/* Returns the number of rows of an answer and, in `last`, the last cell of the last row. */
static int rows_of(const char *got, uint64_t *last)
{
	int count = 0;

	for (const char *at = got; (at = strstr(at, "D(")) != NULL; at++) {
		const char *end = strchr(at, ')');

		while (end > at && end[-1] != '|')
			end--;
		*last = strtoull(end, NULL, 10);
		count++;
	}
	return count;
}

/*
 * A turn writes 500 rows. A connection that ends before its row is written is left out, a new connection has no row, and every other connection has
 * exactly one row.
 */
TEST(many_clients_are_shown_in_pieces)
{
	struct client *c = begin(""), *passing[3];
	uint64_t last;
	const char *got;

	for (int i = 0; i < 1100; i++) {
		struct client *one = fake_client_new("many", "anna");

		if (i % 500 == 0)
			passing[i / 500] = one;
	}
	got = fake_ask(c, "show clients; show version");
	CHECK(strncmp(got, "T(", 2) == 0);
	CHECK_INT(rows_of(got, &last), 500);
	CHECK_INT(last, 500);
	CHECK_INT(c->console.state, CONSOLE_CONTINUING);
	for (int i = 0; i < 3; i++)
		client_end(passing[i], REASON_CLIENT_EOF, NULL);
	fake_client_new("many", "anna");
	fake_turn();
	got = fake_transcript(c);
	CHECK(strstr(got, "T(") == NULL && strstr(got, "C(") == NULL);
	CHECK_INT(rows_of(got, &last), 500);
	CHECK_INT(last, 1001);
	fake_turn();
	got = fake_transcript(c);
	CHECK_INT(rows_of(got, &last), 99 + 1);
	CHECK(strstr(got, " C(SHOW) T(") != NULL);
	CHECK(strstr(got, " C(SHOW) Z(I)") != NULL);
	CHECK_INT(c->console.state, CONSOLE_READY);
	fake_end();
}

TEST(show_of_many_sockets_ends_with_its_client)
{
	struct client *c = begin("");
	uint64_t last;

	for (int i = 0; i < 600; i++)
		fake_client_new("many", "anna");
	fake_server_new("many", "anna");
	CHECK_INT(rows_of(fake_ask(c, "show sockets"), &last), 500);
	fake_turn();
	CHECK_INT(rows_of(fake_transcript(c), &last), 102);
	/* the console client is included in the count but has no row */
	CHECK_INT(rows_of(fake_ask(c, "show fds"), &last), 499);
	client_end(c, REASON_CLIENT_EOF, NULL);
	fake_turn();
	fake_turn();
	fake_end();
}

TEST(linked_connections_show_each_other)
{
	struct client *c = begin("");
	struct client *linked = fake_client_new("many", "anna"), *newcomer;
	struct server *s = fake_server_new("many", "anna");
	const char *got;

	CHECK(pool_want(&linked->pooled, fake.world.now) != NULL);
	s->pooled.close_reason = REASON_CLOSE_NEEDED;
	newcomer = fake_client_new("many", "bert");
	pool_client_become(fake.world.pools, &newcomer->pooled, CLIENT_DEAD, fake.world.now);
	pool_client_init(fake.world.pools, &newcomer->pooled, fake.world.now);
	got = fake_ask(c, "show clients");
	CHECK_TEXT(named_cell(got, "clients", 1, "state"), "active");
	CHECK_TEXT(named_cell(got, "clients", 1, "link"), "0x3");
	CHECK_TEXT(cell(got, 2, 0), "(none)");
	got = fake_ask(c, "show servers");
	CHECK_TEXT(named_cell(got, "servers", 0, "type"), "S");
	CHECK_TEXT(named_cell(got, "servers", 0, "state"), "active");
	CHECK_TEXT(named_cell(got, "servers", 0, "ptr"), "0x3");
	CHECK_TEXT(named_cell(got, "servers", 0, "link"), "0x2");
	CHECK_TEXT(named_cell(got, "servers", 0, "close_needed"), "1");
	CHECK_TEXT(named_cell(got, "servers", 0, "remote_pid"), "4242");
	got = fake_ask(c, "show sockets");
	CHECK_TEXT(named_cell(got, "sockets", 2, "database"), "(nodb)");
	CHECK_TEXT(named_cell(got, "sockets", 2, "user"), "(nouser)");
	CHECK_TEXT(named_cell(got, "sockets", 2, "state"), "new");
	CHECK_TEXT(named_cell(got, "sockets", 3, "type"), "S");
	got = fake_ask(c, "show active_sockets");
	CHECK_TEXT(named_cell(got, "sockets", 0, "id"), "1");
	CHECK_TEXT(named_cell(got, "sockets", 1, "id"), "2");
	CHECK_TEXT(named_cell(got, "sockets", 2, "id"), "3");
	CHECK_TEXT(cell(got, 3, 0), "(none)");
	fake_end();
}

static void with_userlist(void)
{
	char path[] = "/tmp/pgweir-test-XXXXXX";
	struct conf_problems problems = { NULL, 0, 0 };
	int fd = mkstemp(path);

	CHECK(write(fd, "\"anna\" \"hush\"\n", 14) == 14);
	close(fd);
	fake.secrets.list = userlist_load(path, &problems);
	conf_problems_free(&problems);
	unlink(path);
}

TEST(only_the_unix_user_of_the_daemon_sees_secrets)
{
	struct client *c = begin("");
	struct client *anna = fake_client_new("many", "anna");
	static const uint8_t key[] = { 1, 2, 3, 4 };

	with_userlist();
	anna->cancel_key.pid = 1;
	memcpy(anna->cancel_key.secret, key, 4);
	anna->cancel_key.size = 4;
	CHECK(strstr(fake_ask(c, "show fds"), " D(-1|client|anna|many|127.0.0.1|40000|0|0|~|~|~|~|~|~|~) C(SHOW)") != NULL);
	c->peer.remote = (struct brief_address){ .family = AF_UNIX, .u.peer = { 1, geteuid() + 1 } };
	CHECK(strstr(fake_ask(c, "show fds"), "hush") == NULL);
	c->peer.remote.u.peer.uid = geteuid();
	CHECK(strstr(fake_ask(c, "show fds"), "|4311876356|0|~|~|~|~|hush|~|~) C(SHOW)") != NULL);
	for (size_t i = 0; show_at(i); i++)
		if (strcmp(show_at(i)->name, "FDS") != 0)
			CHECK(strstr(ask_show(c, show_at(i)->name), "hush") == NULL);
	userlist_free(&fake.secrets.list);
	fake_end();
}

static void on_accept(void *context, int fd, const struct address *peer, struct listen_socket *from)
{
	(void)context;
	(void)fd;
	(void)peer;
	(void)from;
}

TEST(listening_sockets)
{
	static const char *const hosts[] = { "127.0.0.1", "::1" };
	struct listen_config config = { .backlog = 1 };
	struct client *c = begin("");
	char why[256], want[128];

	for (int i = 0; i < 2; i++) {
		struct listen_socket *l;

		config.host = hosts[i];
		l = listen_socket_open(fake.base, &config, on_accept, NULL, why, sizeof(why));
		if (!l)
			continue;	/* a machine without IPv6 */
		fake.world.listen_sockets.all = &l;
		fake.world.listen_sockets.count = 1;
		snprintf(want, sizeof(want), " D(%d|pooler|~|~|%s|%u|0|0|~|~|~|~|~|~|~) C(SHOW)", l->fd, hosts[i],
			 (unsigned)l->port);
		CHECK(strstr(fake_ask(c, "show fds"), want) != NULL);
		fake.world.listen_sockets.count = 0;
		listen_socket_close(&l, true);
	}
	fake_end();
}

UNIT_MAIN
