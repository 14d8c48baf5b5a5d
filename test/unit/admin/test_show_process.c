/* SHOW LISTS, STATE, CONFIG, MEM and other commands about the whole process. */
#include "shows.h"

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

TEST(other_process_commands)
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
	fake.world.pools->ended[REASON_SSL_REQUIRED]++;
	CHECK(strstr(fake_ask(c, "show reasons"), " D(SSL_REQUIRED|policy|28000|SSL required|1)") != NULL);
	CHECK(strstr(fake_ask(c, "show reasons_all"), " D(SSL_REQUIRED|policy|28000|SSL required|1)") != NULL);
	fake.world.drain.step = DRAIN_WAIT_CLIENTS;
	CHECK(strstr(fake_ask(c, "show state"), " D(suspended|no) D(shutdown|wait_for_clients) D(shutdown_waits_for|3) C(SHOW)") != NULL);
	fake.world.drain.step = DRAIN_OFF;
	CHECK(strstr(fake_ask(c, "show state"), " D(suspended|no) C(SHOW)") != NULL);
	CHECK_TEXT(fake_ask(c, "drain user joe over 7 seconds"), "C(DRAIN) Z(I)");
	CHECK_INT(fake.drained, 1);
	CHECK(strstr(fake_ask(c, "show drains"), " D(user|joe|0|0|") != NULL);
	CHECK(strstr(fake_ask(c, "show state"), " D(drain|user \"joe\", 0 clients left, since ") != NULL);
	CHECK_TEXT(fake_ask(c, "drain stop"), "C(DRAIN) Z(I)");
	CHECK_TEXT(fake_ask(c, "show client_encoding"), "T(client_encoding:25/0) D(UTF8) C(SHOW) Z(I)");
	fake_end();
}

/* Size times count equals the sum, as tools that watch memory compute it. */
TEST(mem_totals_are_size_times_count)
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

UNIT_MAIN
