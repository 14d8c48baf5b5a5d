/* Every SHOW: the columns against the published interface, rows against a small world, and who
   may see what. */
#include "admin/show.h"

#include "fake_world.h"

#include "show_columns.h"

#include <sys/socket.h>

static const char plain[] =
	"[databases]\n"
	"shop = host=10.0.0.5 port=5433 dbname=store pool_size=7 user=owner\n"
	"many = host=10.0.0.5,10.0.0.6\n"
	"[users]\n"
	"anna = pool_mode=transaction pool_size=3 max_user_connections=9\n"
	"[pgbouncer]\n"
	"listen_port = 6432\n";

static struct client *begin(const char *extra)
{
	char ini[1024];

	snprintf(ini, sizeof(ini), "%s%s", plain, extra);
	fake_start(ini);
	return fake_caller("boss", true);
}

static const char *ask_show(struct client *c, const char *item)
{
	char text[100];

	snprintf(text, sizeof(text), "SHOW %s", item);
	return fake_ask(c, text);
}

/* ---- columns ---- */

static const struct show_row *row_of(const char *command)
{
	CHECK(strncmp(command, "SHOW ", 5) == 0);
	return show_find(command + 5);
}

TEST(columns_are_the_published_ones)
{
	for (size_t i = 0; i < sizeof(show_columns) / sizeof(show_columns[0]); i++) {
		const struct show_row *row = row_of(show_columns[i].command);
		char have[2048] = "";

		if (!row) {
			UNIT_FAIL("no %s", show_columns[i].command);
			continue;
		}
		for (size_t k = 0; k < row->standard_columns; k++)
			snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s", k ? " " : "", row->columns[k]);
		CHECK_TEXT(have, show_columns[i].columns);
		CHECK(row->all_columns <= RESULT_COLUMNS);
		CHECK(row->columns[row->all_columns] == NULL);
	}
}

/* Beside those there are HELP, and what is ours alone. */
TEST(nothing_else_is_shown)
{
	size_t known = sizeof(show_columns) / sizeof(show_columns[0]), count = 0;

	for (; show_at(count); count++)
		;
	CHECK_INT(count, known + 5);
	CHECK(show_find("help") && show_find("reasons") && show_find("reasons_all") && show_find("verifiers") && show_find("addresses"));
	CHECK(!show_find("") && !show_find("pool"));
}

/* The wire's opinion: names, types and tag in what is really sent, each cell readable in its format. */
TEST(columns_on_the_wire)
{
	static const struct { const char *name; int oid; } oids[] = {
		{ "text", 25 }, { "int4", 23 }, { "int8", 20 }, { "numeric", 1700 }, { "17", 17 },
	};
	struct client *c = begin("");

	fake_server_new("shop", "owner");
	for (size_t i = 0; i < sizeof(show_columns) / sizeof(show_columns[0]); i++) {
		char want[4096] = "T(", columns[2048], *save = NULL;
		const char *got;

		strcpy(columns, show_columns[i].columns);
		for (char *one = strtok_r(columns, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
			char *type = strchr(one, ':');
			int oid = 0;

			*type++ = '\0';
			for (size_t k = 0; k < sizeof(oids) / sizeof(oids[0]); k++)
				if (!strcmp(oids[k].name, type))
					oid = oids[k].oid;
			CHECK(oid != 0);
			snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%s:%d/0", want[2] ? "," : "", one, oid);
		}
		strcat(want, ")");
		got = fake_ask(c, show_columns[i].command);
		if (strncmp(got, want, strlen(want)) != 0)
			UNIT_FAIL("%s gives %.300s, want %s", show_columns[i].command, got, want);
		snprintf(want, sizeof(want), " C(%s) Z(I)", show_columns[i].tag);
		CHECK(strlen(got) > strlen(want) && strcmp(got + strlen(got) - strlen(want), want) == 0);
	}
	fake_end();
}

/* With show_extra_columns the standard ones stay where they were. */
TEST(own_columns_come_behind)
{
	struct client *c = begin("show_extra_columns = 1\n");
	int grown = 0;

	fake_server_new("shop", "owner");
	for (size_t i = 0; show_at(i); i++) {
		const struct show_row *row = show_at(i);
		const char *got = ask_show(c, row->name), *end = strchr(got, ')');
		size_t columns = row->standard_columns ? 1 : 0;

		CHECK(end && (got[0] == 'T') == (row->standard_columns > 0));
		if (!end || !row->standard_columns)
			continue;
		for (const char *p = got; p < end; p++)
			columns += *p == ',';
		CHECK_INT(columns, row->all_columns);
		grown += row->all_columns > row->standard_columns;
	}
	CHECK_INT(grown, 6);
	fake_end();
}

/* ---- rows ---- */

/* The nth row's nth cell of the last SHOW, or "(none)". Rows and cells count from 0. */
static const char *cell(const char *transcript, int row, int column)
{
	static char out[512];
	const char *at = transcript, *end;

	for (int i = 0; i <= row && at; i++) {
		at = strstr(at, " D(");
		at = at ? at + 3 : NULL;
	}
	for (int i = 0; i < column && at; i++) {
		at = strchr(at, '|');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return "(none)";
	end = at + strcspn(at, "|");
	if (!*end || (strchr(at, ')') && strstr(at, ") ") < end))
		end = strstr(at, ") ");
	snprintf(out, sizeof(out), "%.*s", (int)(end - at), at);
	return out;
}

/* Which place a column has. */
static int place(const char *item, const char *name)
{
	const struct show_row *row = show_find(item);

	for (size_t i = 0; i < row->all_columns; i++)
		if (!strncmp(row->columns[i], name, strlen(name)) && row->columns[i][strlen(name)] == ':')
			return (int)i;
	UNIT_FAIL("%s has no column %s", item, name);
	return 0;
}

static const char *named_cell(const char *transcript, const char *item, int row, const char *column)
{
	return cell(transcript, row, place(item, column));
}

TEST(databases)
{
	struct client *c = begin("max_db_connections = 50\nserver_lifetime = 1200\nreserve_pool_size = 2\n");
	const char *got;

	fake_server_new("shop", "owner");
	database_find(fake.world.pools, "many")->paused = true;
	database_find(fake.world.pools, "many")->disabled = true;
	got = fake_ask(c, "show databases");
	CHECK(strstr(got, " D(many|10.0.0.5,10.0.0.6|5432|many|~|20|0|2|1200|~|round-robin|50|0|0|0|1|1)") != NULL);
	CHECK(strstr(got, " D(pgbouncer|~|6432|pgbouncer|pgbouncer|2|0|0|1200|statement|~|0|0|0|1|0|0)") != NULL);
	CHECK(strstr(got, " D(shop|10.0.0.5|5433|store|owner|7|0|2|1200|~|~|50|1|0|0|0|0) C(SHOW) Z(I)") != NULL);
	fake_end();
}

TEST(pools)
{
	struct client *c = begin("");
	struct client *idle = fake_client_new("shop", "anna"), *waiting = fake_client_new("shop", "bert");
	struct server *s = fake_server_new("shop", "owner");
	const char *got;

	(void)idle;
	CHECK(pool_want(&waiting->policy, fake.world.now) == &s->policy);
	waiting = fake_client_new("shop", "carl");
	CHECK(pool_want(&waiting->policy, fake.world.now) == NULL);
	fake.world.now += 2 * USEC + 5;
	got = fake_ask(c, "show pools");
	CHECK(strstr(got, " D(pgbouncer|pgbouncer|1|0|0|0|0|0|0|0|0|0|0|0|0|statement|~)") != NULL);
	CHECK(strstr(got, " D(shop|owner|2|1|0|0|1|0|0|0|0|0|0|2|5|session|~) C(SHOW)") != NULL);
	fake_end();
}

TEST(why_a_queue_waits)
{
	struct client *c = begin("show_extra_columns = 1\n");
	struct pool *pool;
	const char *got;

	pool = fake_client_new("shop", "anna")->policy.pool;
	pool->held_by = LIMIT_DATABASE;
	got = fake_ask(c, "show pools");
	CHECK_TEXT(named_cell(got, "pools", 1, "held_by"), "~");	/* nobody waits any more */
	CHECK_TEXT(named_cell(got, "pools", 1, "login_error"), "~");
	CHECK_TEXT(named_cell(got, "pools", 1, "pool_size"), "7");
	CHECK(!pool_want(&fake_client_new("shop", "anna")->policy, fake.world.now));
	pool_login_failed(pool, FAILURE_LASTING, fake.world.now);
	pool->held_by = LIMIT_DATABASE;
	got = fake_ask(c, "show pools");
	CHECK_TEXT(named_cell(got, "pools", 1, "held_by"), "max_db_connections");
	CHECK_TEXT(named_cell(got, "pools", 1, "login_error"), "role does not exist");
	fake_end();
}

TEST(clients)
{
	struct client *c = begin("");
	struct client *waiting = fake_client_new("many", "anna");
	const char *got;

	pool_want(&waiting->policy, fake.world.now);
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

/* The two ends of a link name each other; somebody who has not logged in is no client yet. */
/* How many rows an answer has, and the last cell of the last one. */
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
 * A turn gives 500 rows. What ends meanwhile is left out when its row has not been given yet, what comes meanwhile has none, and each
 * other connection has one.
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
	CHECK_INT(c->console_state, CONSOLE_CONTINUING);
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
	CHECK_INT(c->console_state, CONSOLE_READY);
	fake_end();
}

TEST(many_sockets_end_with_their_client)
{
	struct client *c = begin("");
	uint64_t last;

	for (int i = 0; i < 600; i++)
		fake_client_new("many", "anna");
	fake_server_new("many", "anna");
	CHECK_INT(rows_of(fake_ask(c, "show sockets"), &last), 500);
	fake_turn();
	CHECK_INT(rows_of(fake_transcript(c), &last), 102);
	/* the console client is counted, and has no row there */
	CHECK_INT(rows_of(fake_ask(c, "show fds"), &last), 499);
	client_end(c, REASON_CLIENT_EOF, NULL);
	fake_turn();
	fake_turn();
	fake_end();
}

TEST(links)
{
	struct client *c = begin("");
	struct client *linked = fake_client_new("many", "anna"), *newcomer;
	struct server *s = fake_server_new("many", "anna");
	const char *got;

	CHECK(pool_want(&linked->policy, fake.world.now) != NULL);
	s->policy.close_reason = REASON_CLOSE_NEEDED;
	newcomer = fake_client_new("many", "bert");
	pool_client_become(fake.world.pools, &newcomer->policy, CLIENT_DEAD, fake.world.now);
	pool_client_init(fake.world.pools, &newcomer->policy, fake.world.now);
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

/* ---- other formats ---- */

static void no_bytes(struct result *r) { (void)r; }
static void write_text(struct result *r, const char *text, size_t size) { bytes_append_format(&r->rows, "'%.*s' ", (int)size, text); }
static void write_number(struct result *r, int64_t value) { bytes_append_format(&r->rows, "%" PRId64 " ", value); }
static void write_count(struct result *r, uint64_t value) { bytes_append_format(&r->rows, "%" PRIu64 " ", value); }

/* A SHOW knows no format, and needs no client that asks. */
TEST(any_format_will_do)
{
	static const struct result_format format = {
		.begin_row = no_bytes, .null = no_bytes, .text = write_text, .number = write_number, .count = write_count,
		.end_row = no_bytes,
	};
	struct bytes notices = BYTES_EMPTY;
	struct control control = { .version = "PgBouncer 1.25.2 (pgweir 0.0.0)" };
	const struct show_row *row;
	bool has_version = false;

	begin("");
	fake_client_new("shop", "anna");
	fake_server_new("shop", "anna");
	for (size_t i = 0; (row = show_at(i)) != NULL; i++) {
		struct result r;
		struct show show = { .world = &fake.world, .control = &control, .extra = true, .to = &r, .notices = &notices };

		result_init(&r, &format, row->columns, row->all_columns);
		row->fill(&show);
		CHECK_INT(r.cell, 0);
		bytes_append_u8(&r.rows, 0);
		has_version |= !strcmp((const char *)bytes_front(&r.rows), "'PgBouncer 1.25.2 (pgweir 0.0.0)' ");
		if (!strcmp(row->name, "SERVERS"))
			CHECK(strstr((const char *)bytes_front(&r.rows), " 'idle' '10.0.0.5' 5432 ") != NULL);
		result_free(&r);
	}
	CHECK(has_version);
	bytes_free(&notices);
	fake_end();
}

TEST(users)
{
	struct client *c = begin("max_user_connections = 4\nmax_user_client_connections = 5\n");
	const char *got;

	fake_client_new("many", "zoe");
	got = fake_ask(c, "show users");
	CHECK(strstr(got, " D(anna|3||transaction|9|0|5|0) D(boss|||~|4|0|5|1)") != NULL);
	CHECK(strstr(got, " D(zoe|||~|4|0|5|1) C(SHOW)") != NULL);
	/* known from the configuration and from a connection: once all the same */
	fake_client_new("many", "anna");
	got = fake_ask(c, "show users");
	CHECK(strstr(got, " D(anna|3||transaction|9|0|5|1) D(boss|") != NULL);
	CHECK_TEXT(cell(got, 0, 0), "anna");
	CHECK_TEXT(cell(got, 4, 0), "(none)");
	fake_end();
}

/* Exact numbers, over exactly one period. */
TEST(stats)
{
	struct client *c = begin("");
	struct stats_history *h = &database_find(fake.world.pools, "shop")->stats;
	const char *got;

	h->total = (struct stats){ 10, 20, 40, 1000, 2000, 500, 800, 300, 4, 5, 6, 2 };
	stats_period_end(h, 1010 * USEC);
	h->total.query_count = 41;
	got = fake_ask(c, "show stats");
	CHECK(strstr(got, " D(many|0|") != NULL && strstr(got, " D(pgbouncer|0|1|1|") != NULL);
	CHECK(strstr(got, " D(shop|10|20|41|1000|2000|500|800|300|4|5|6|2|1|2|4|100|200|25|20|30|0|0|0|0) C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show stats_totals"), " D(shop|10|20|41|1000|2000|500|800|300|4|5|6|2)") != NULL);
	CHECK(strstr(fake_ask(c, "show stats_averages"), " D(shop|1|2|4|100|200|25|20|30|0|0|0|0)") != NULL);
	fake_end();
}

TEST(totals_are_sums)
{
	struct client *c = begin("");
	struct stats_history *shop = &database_find(fake.world.pools, "shop")->stats;
	struct stats_history *many = &database_find(fake.world.pools, "many")->stats;
	const char *got;

	shop->total = (struct stats){ .xact_count = 30, .xact_time = 600, .sent = 1000 };
	many->total = (struct stats){ .xact_count = 10, .xact_time = 1000, .sent = 500 };
	stats_period_end(shop, 1010 * USEC);
	stats_period_end(many, 1010 * USEC);
	got = fake_ask(c, "show totals");
	CHECK(strstr(got, " D(total_xact_count|41) ") != NULL);	/* and this SHOW */
	CHECK(strstr(got, " D(total_server_bytes|1500) ") != NULL);
	CHECK(strstr(got, " D(avg_xact_count|4) ") != NULL);
	CHECK(strstr(got, " D(avg_server_bytes|150) ") != NULL);
	CHECK(strstr(got, " D(avg_xact_time|40) ") != NULL);	/* 1600 over 40, not 20 + 100 */
	fake_end();
}

/* A database younger than the period, and one that has seen no end of a period, stretch nobody's time. */
TEST(totals_of_unequal_age)
{
	struct client *c = begin("");
	struct stats_history *shop = &database_find(fake.world.pools, "shop")->stats;
	struct stats_history *many = &database_find(fake.world.pools, "many")->stats;

	shop->total.query_count = 30;
	stats_period_end(shop, 1010 * USEC);
	many->total.query_count = 10;
	CHECK(strstr(fake_ask(c, "show totals"), " D(avg_query_count|3) ") != NULL);
	many->newer_at = 1008 * USEC;
	stats_period_end(many, 1010 * USEC);
	CHECK(strstr(fake_ask(c, "show totals"), " D(avg_query_count|4) ") != NULL);
	fake_end();
}

TEST(fixed_rows)
{
	struct client *c = begin("");

	for (size_t i = 0; i < sizeof(show_rows) / sizeof(show_rows[0]); i++) {
		char names[1024], *save = NULL;
		const char *got = ask_show(c, show_rows[i].item);
		int row = 0;

		strcpy(names, show_rows[i].names);
		for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save), row++)
			CHECK_TEXT(cell(got, row, 0), name);
		CHECK_TEXT(cell(got, row, 0), "(none)");
	}
	fake_end();
}

TEST(lists)
{
	struct client *c = begin("[peers]\n7 = host=10.0.0.9 port=6433\n");
	const char *got;

	fake_client_new("shop", "anna");
	fake_server_new("shop", "owner");
	got = fake_ask(c, "show lists");
	CHECK(strstr(got, " D(databases|3) D(users|") != NULL);
	CHECK(strstr(got, " D(peers|1) D(pools|2) D(peer_pools|1) D(free_clients|0) D(used_clients|2) "
			  "D(login_clients|0) D(free_servers|0) D(used_servers|1) ") != NULL);
	CHECK(strstr(fake_ask(c, "show peers"), " D(7|10.0.0.9|6433|20) C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show peer_pools"), " D(7|2|1|2|1) C(SHOW)") != NULL);
	fake_end();
}

TEST(state)
{
	struct client *c = begin("");

	CHECK(strstr(fake_ask(c, "show state"), " D(active|yes) D(paused|no) D(suspended|no) ") != NULL);
	fake_ask(c, "pause");
	CHECK(strstr(fake_ask(c, "show state"), " D(active|no) D(paused|yes) D(suspended|no) ") != NULL);
	fake_ask(c, "resume");
	fake_ask(c, "suspend");
	CHECK(strstr(fake_ask(c, "show state"), " D(active|no) D(paused|no) D(suspended|yes) ") != NULL);
	fake_end();
}

TEST(config)
{
	struct client *c = begin("max_client_conn = 321\n");
	const char *got = fake_ask(c, "show config");

	CHECK(strstr(got, " D(max_client_conn|321|100|yes)") != NULL);
	CHECK(strstr(got, " D(listen_port|6432|6432|no)") != NULL);
	CHECK(strstr(got, " D(admin_users||~|yes)") != NULL);
	CHECK(strstr(got, " D(server_reset_query|DISCARD ALL|DISCARD ALL|yes)") != NULL);
	fake_end();
}

TEST(the_rest)
{
	struct client *c = begin("");
	const char *got = fake_ask(c, "show help");

	CHECK(strncmp(got, "N(00000 Console usage{\n\tSHOW HELP|CONFIG|", 41) == 0);
	CHECK(strstr(got, "\n\tPAUSE [<db>]\n\tRESUME [<db>]\n") != NULL);
	CHECK(strstr(got, "}) C(SHOW) Z(I)") != NULL);
	CHECK(strstr(fake_ask(c, "show version"), " D(PgBouncer 1.25.2 (pgweir 0.0.0)) C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show dns_hosts"), ") C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show mem"), " D(db_cache|") != NULL);
	CHECK(strstr(fake_ask(c, "show verifiers"), ") C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show addresses"), ") C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show reasons"), "SSL_REQUIRED") == NULL);
	CHECK(strstr(fake_ask(c, "show reasons all"), " D(SSL_REQUIRED|policy|28000|SSL required|0)") != NULL);
	close_reason_count(REASON_SSL_REQUIRED);
	CHECK(strstr(fake_ask(c, "show reasons"), " D(SSL_REQUIRED|policy|28000|SSL required|1)") != NULL);
	CHECK(strstr(fake_ask(c, "show reasons_all"), " D(SSL_REQUIRED|policy|28000|SSL required|1)") != NULL);
	fake.world.drain = DRAIN_WAIT_CLIENTS;
	CHECK(strstr(fake_ask(c, "show state"), " D(suspended|no) D(shutdown|wait_for_clients) D(shutdown_waits_for|3) C(SHOW)") != NULL);
	fake.world.drain = DRAIN_OFF;
	CHECK(strstr(fake_ask(c, "show state"), " D(suspended|no) C(SHOW)") != NULL);
	CHECK_TEXT(fake_ask(c, "show client_encoding"), "T(client_encoding:25/0) D(UTF8) C(SHOW) Z(I)");
	fake_end();
}

/* Sizes times counts are the sums, as memory watchers compute them. */
TEST(mem_adds_up)
{
	struct client *c = begin("");
	const char *got = fake_ask(c, "show mem");

	for (int row = 0; strcmp(cell(got, row, 0), "(none)") != 0; row++) {
		long size = atol(cell(got, row, 1)), used = atol(cell(got, row, 2)), unused = atol(cell(got, row, 3));

		CHECK_INT(atol(cell(got, row, 4)), size * (used + unused));
	}
	CHECK_INT(atol(cell(got, 5, 1)), sizeof(struct client));
	fake_end();
}

/* ---- FDS ---- */

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

TEST(secrets_are_for_the_daemons_own_user)
{
	struct client *c = begin("");
	struct client *anna = fake_client_new("many", "anna");
	static const uint8_t key[] = { 1, 2, 3, 4 };

	with_userlist();
	anna->cancel_pid = 1;
	memcpy(anna->cancel_key, key, 4);
	anna->cancel_key_size = 4;
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

static void on_accept(void *context, int fd, const struct address *peer, struct listener *from)
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
		struct listener *l;

		config.host = hosts[i];
		l = listener_open(fake.base, &config, on_accept, NULL, why, sizeof(why));
		if (!l)
			continue;	/* a machine without IPv6 */
		fake.world.listening.all = &l;
		fake.world.listening.count = 1;
		snprintf(want, sizeof(want), " D(%d|pooler|~|~|%s|%u|0|0|~|~|~|~|~|~|~) C(SHOW)", listener_fd(l), hosts[i],
			 (unsigned)listener_port(l));
		CHECK(strstr(fake_ask(c, "show fds"), want) != NULL);
		fake.world.listening.count = 0;
		listener_close(&l, true);
	}
	fake_end();
}

TEST(stats_users_see_all_but_fds)
{
	struct client *c;

	begin("");
	c = fake_caller("looker", false);
	for (size_t i = 0; show_at(i); i++) {
		const char *got = ask_show(c, show_at(i)->name);

		if (!strcmp(show_at(i)->name, "FDS"))
			CHECK_TEXT(got, "E(08P01 admin access needed) Z(I)");
		else
			CHECK(strstr(got, " C(SHOW) Z(I)") != NULL);
	}
	fake_end();
}

UNIT_MAIN
