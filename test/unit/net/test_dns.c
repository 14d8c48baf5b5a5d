/*
 * The resolver with the name server of name_server.h. Each test runs the loop until its condition holds; the resolver's timeout ends the wait for a
 * silent name server.
 */
#include "name_server.h"

TEST(both_families)
{
	struct heard heard;

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1", "10.0.0.2" }, .v6 = { "2001:db8::1" },
				      .ttl = 60 };
	heard = look_up("db.example.test");
	CHECK_TEXT(heard.text, "10.0.0.1 10.0.0.2 2001:db8::1");
	CHECK_INT(asked_a, 1);
	CHECK_INT(asked_aaaa, 1);
	CHECK_INT(dns_count(dns).queries, 0);
	close_all();
}

TEST(requests_rotate_the_addresses)
{
	struct heard heard;
	struct address seen[4];

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1", "10.0.0.2", "10.0.0.3" }, .ttl = 60 };
	for (int i = 0; i < 4; i++) {
		heard = look_up("db.example.test");
		CHECK_INT(heard.count, 3);
		seen[i] = heard.begin;
	}
	for (int i = 0; i < 3; i++)
		CHECK(!address_is_same_host(&seen[i], &seen[i + 1]));
	CHECK(address_is_same_host(&seen[0], &seen[3]));
	close_all();
}

static struct address many[5];

TEST(unreachable_addresses_come_last)
{
	struct dns_answer answer = { .count = 5, .reachable = 3, .first = 2, .addresses = many };
	static const int order[] = { 2, 0, 1, 3, 4 };

	for (int i = 0; i < 5; i++)
		CHECK(dns_answer_at(&answer, i) == &many[order[i]]);
}

static char in_order[64];

static void on_ordered(void *context, const struct dns_answer *answer)
{
	in_order[0] = '\0';
	for (int i = 0; i < answer->count; i++)
		snprintf(in_order + strlen(in_order), sizeof(in_order) - strlen(in_order), "%s ",
			 inet_ntoa(answer->addresses[i].u.v4.sin_addr));
	((struct heard *)context)->calls++;
}

TEST(order_of_the_answer_is_kept)
{
	struct heard heard = { .calls = 0 };

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.9", "127.0.0.1", "10.0.0.1" }, .ttl = 60 };
	CHECK(dns_lookup(dns, "db.example.test", on_ordered, &heard));
	wait_for(&heard);
	CHECK_TEXT(in_order, "10.0.0.9 127.0.0.1 10.0.0.1 ");
	close_all();
}

TEST(cached_answer_is_delivered_after_the_call)
{
	struct heard heard;

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	look_up("db.example.test");
	heard = look_up("db.example.test");
	CHECK_TEXT(heard.text, "10.0.0.1");
	CHECK_INT(asked_a, 1);
	CHECK_INT(dns_count(dns).hosts, 1);
	close_all();
}

TEST(ttl_zero_is_not_cached)
{
	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" } };
	look_up("db.example.test");
	look_up("db.example.test");
	CHECK_INT(asked_a, 2);
	close_all();
}

struct host_seen {
	int visits;
	int64_t ttl;
	char name[64], text[128];
};

static void see_host(void *context, const char *name, int64_t ttl, const struct dns_answer *answer)
{
	struct host_seen *seen = context;

	seen->visits++;
	seen->ttl = ttl;
	snprintf(seen->name, sizeof(seen->name), "%s", name);
	show(answer, seen->text, sizeof(seen->text));
}

TEST(ttl_is_bounded_and_cannot_wrap)
{
	static const uint32_t ttls[] = { 100, 0x7fffffff, 0x80000000, 0xffffffff, 5 };

	for (size_t i = 0; i < sizeof(ttls) / sizeof(ttls[0]); i++) {
		struct host_seen seen = { 0 };

		open_all(&defaults);
		records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = ttls[i] };
		look_up("db.example.test");
		dns_each(dns, clock_monotonic(), see_host, NULL, &seen);
		CHECK_INT(seen.visits, 1);
		CHECK_TEXT(seen.name, "db.example.test");
		CHECK_TEXT(seen.text, "10.0.0.1");
		CHECK(seen.ttl >= 0 && seen.ttl <= (ttls[i] == 5 ? 5 : 15));
		/* Half an hour later. */
		dns_each(dns, clock_monotonic() + 1800 * USEC, see_host, NULL, &seen);
		CHECK_INT(seen.ttl, 0);
		close_all();
	}
}

TEST(requests_for_one_name_share_a_query)
{
	struct heard heard[5] = { { .calls = 0 } };

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	for (int i = 0; i < 5; i++)
		heard[i].request = dns_lookup(dns, "db.example.test", on_done, &heard[i]);
	CHECK_INT(dns_count(dns).queries, 1);
	dns_cancel(&heard[2].request);
	CHECK(!heard[2].request);
	dns_cancel(&heard[2].request);
	for (int i = 0; i < 5; i++)
		if (i != 2)
			wait_for(&heard[i]);
	for (int i = 0; i < 5; i++)
		CHECK_INT(heard[i].calls, i != 2);
	CHECK_INT(asked_a, 1);
	CHECK_INT(asked_aaaa, 1);
	close_all();
}

TEST(one_family_may_fail)
{
	static const int bad[] = { SERVFAIL, NXDOMAIN, NOERROR, SILENT };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		open_all(&defaults);
		records[0] = (struct record){ .name = "four.test", .v4 = { "10.0.0.1" }, .rcode6 = bad[i], .ttl = 60 };
		records[1] = (struct record){ .name = "six.test", .v6 = { "2001:db8::1" }, .rcode4 = bad[i], .ttl = 60 };
		CHECK_TEXT(look_up("four.test").text, "10.0.0.1");
		CHECK_TEXT(look_up("six.test").text, "2001:db8::1");
		/* A silent family is given up before its second query. */
		if (bad[i] == SILENT)
			CHECK(asked_a == 2 && asked_aaaa == 2);
		close_all();
	}
}

TEST(failures_are_cached_for_a_limited_time)
{
	struct dns_config config;

	open_all(&defaults);
	records[0] = (struct record){ .name = "broken.test", .rcode4 = SERVFAIL, .rcode6 = SERVFAIL };
	CHECK_INT(look_up("nobody.test").count, 0);
	CHECK_INT(look_up("broken.test").count, 0);
	asked_a = 0;
	CHECK(look_up("nobody.test").error[0]);
	CHECK(look_up("broken.test").error[0]);
	CHECK_INT(asked_a, 0);
	/* A lower limit makes older cached failures expire at once. Then the name resolves again. */
	config = defaults;
	config.nxdomain_ttl = 0;
	dns_configure(dns, &config);
	records[0] = (struct record){ .name = "broken.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	records[1] = (struct record){ .name = "nobody.test", .v4 = { "10.0.0.2" }, .ttl = 60 };
	CHECK_TEXT(look_up("broken.test").text, "10.0.0.1");
	CHECK_TEXT(look_up("nobody.test").text, "10.0.0.2");
	close_all();
}

TEST(silent_server_times_out_and_recovers)
{
	struct dns_config config = defaults;

	config.timeout = USEC / 20;
	config.nxdomain_ttl = 0;
	open_all(&config);
	records[0] = (struct record){ .name = "db.example.test", .rcode4 = SILENT, .rcode6 = SILENT };
	CHECK_TEXT(look_up("db.example.test").error, "timeout");
	CHECK_INT(dns_count(dns).queries, 0);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	dns_configure(dns, &defaults);
	CHECK_TEXT(look_up("db.example.test").text, "10.0.0.1");
	close_all();
}

TEST(names_that_need_no_query)
{
	open_all(&defaults);
	CHECK_TEXT(look_up("192.0.2.7").text, "192.0.2.7");
	CHECK_TEXT(look_up("2001:db8::7").text, "2001:db8::7");
	/* In every /etc/hosts. */
	CHECK(strstr(look_up("localhost").text, "127.0.0.1"));
	CHECK_INT(asked_a + asked_aaaa, 0);
	close_all();
}

TEST(impossible_names_fail)
{
	char name[400];

	open_all(&defaults);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK_INT(look_up(name).count, 0);
	CHECK_INT(look_up("").count, 0);
	CHECK_INT(look_up("a..b").count, 0);
	close_all();
}

static struct heard second, third;

static void look_up_and_cancel(struct heard *heard)
{
	(void)heard;
	second.request = dns_lookup(dns, "db.example.test", on_done, &second);
	CHECK_INT(second.calls, 0);
	dns_cancel(&third.request);
}

TEST(callback_may_look_up_and_cancel)
{
	struct heard heard = { .then = look_up_and_cancel };

	open_all(&defaults);
	memset(&second, 0, sizeof(second));
	memset(&third, 0, sizeof(third));
	/* The entry expires at once, so the lookup in the callback sends a query. */
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" } };
	heard.request = dns_lookup(dns, "db.example.test", on_done, &heard);
	third.request = dns_lookup(dns, "db.example.test", on_done, &third);
	wait_for(&second);
	CHECK_INT(heard.calls, 1);
	CHECK_INT(second.calls, 1);
	CHECK_INT(third.calls, 0);
	CHECK_INT(asked_a, 2);
	close_all();
}

TEST(close_ends_requests_without_calling)
{
	struct heard waiting = { .calls = 0 }, ready = { .calls = 0 };

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	look_up("db.example.test");
	ready.request = dns_lookup(dns, "db.example.test", on_done, &ready);
	waiting.request = dns_lookup(dns, "other.example.test", on_done, &waiting);
	close_all();
	CHECK_INT(ready.calls, 0);
	CHECK_INT(waiting.calls, 0);
}

TEST(removed_addresses_are_reported)
{
	struct dns_config config = defaults;

	config.nxdomain_ttl = 0;
	config.changed = on_changed;
	open_all(&config);
	changes = 0;
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1", "10.0.0.2" } };
	look_up("db.example.test");
	/* Another order and one more address: no address was removed. */
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.2", "10.0.0.3", "10.0.0.1" } };
	look_up("db.example.test");
	CHECK_INT(changes, 0);
	/* A failure does not change the known addresses, */
	records[0].rcode4 = records[0].rcode6 = SERVFAIL;
	look_up("db.example.test");
	CHECK_INT(changes, 0);
	/* and does not remove them. */
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.3", "10.0.0.2" } };
	look_up("db.example.test");
	CHECK_INT(changes, 1);
	CHECK_TEXT(changed_name, "db.example.test");
	CHECK_TEXT(changed_text, "10.0.0.2 10.0.0.3");
	close_all();
}

TEST(configure_repeats_pending_queries)
{
	struct dns_config config = defaults;
	struct heard heard = { .calls = 0 };

	config.servers = "127.0.0.1:9";
	open_all(&config);
	records[0] = (struct record){ .name = "db.example.test", .rcode4 = SILENT, .rcode6 = SILENT };
	config.servers = server_text;
	dns_configure(dns, &config);
	heard.request = dns_lookup(dns, "db.example.test", on_done, &heard);
	while (asked_a == 0)
		event_base_loop(base, EVLOOP_ONCE);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	dns_configure(dns, &config);
	CHECK_INT(dns_count(dns).queries, 1);
	wait_for(&heard);
	CHECK_TEXT(heard.text, "10.0.0.1");
	CHECK_INT(asked_a, 2);
	CHECK_INT(heard.calls, 1);
	CHECK_INT(dns_count(dns).queries, 0);
	close_all();
}

TEST(invalid_configuration_has_an_error_message)
{
	struct dns_config config = defaults;
	char why[128] = "";
	struct event_base *other = event_base_new();
	struct dns *none;

	config.servers = "not an address";
	none = dns_open(other, &config, why, sizeof(why));
	CHECK(!none);
	CHECK(why[0]);
	event_base_free(other);
}

TEST(new_servers_after_configure)
{
	struct dns_config config = defaults;

	config.max_ttl = 0;
	config.servers = "127.0.0.1:1";
	config.nxdomain_ttl = 0;
	open_all(&config);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	CHECK_INT(look_up("db.example.test").count, 0);
	config.servers = server_text;
	dns_configure(dns, &config);
	CHECK_TEXT(look_up("db.example.test").text, "10.0.0.1");
	/* max_ttl is 0: nothing is cached. */
	look_up("db.example.test");
	CHECK_INT(asked_a, 2);
	close_all();
}

/* ---- zones: when the serial of a zone changes, its names are queried again ---- */

static int64_t zone_serial;
static int zone_hosts;

static void see_zone(void *context, const char *zone, int64_t serial, int hosts)
{
	(void)context;
	CHECK_TEXT(zone, "example.test");
	zone_serial = serial;
	zone_hosts = hosts;
}

TEST(changed_serial_refreshes_the_zone)
{
	struct dns_config config = defaults;

	config.zone_check_period = USEC / 50;
	config.changed = on_changed;
	open_all(&config);
	changes = 0;
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	records[1] = (struct record){ .name = "example.test", .serial = 4294967295, .ttl = 60 };
	records[2] = (struct record){ .name = "db2.example.test", .v4 = { "10.0.0.5" }, .ttl = 60 };
	look_up("db.example.test");
	look_up("db2.example.test");
	CHECK_INT(dns_count(dns).zones, 1);
	for (int seen = asked_soa; asked_soa < seen + 3;)
		event_base_loop(base, EVLOOP_ONCE);
	dns_each(dns, clock_monotonic(), NULL, see_zone, NULL);
	CHECK_INT(zone_serial, 4294967295);
	CHECK_INT(zone_hosts, 2);
	CHECK_INT(asked_a, 2);
	/* The cached answer would still be valid; the new serial invalidates it. */
	records[0].v4[0] = "10.0.0.2";
	records[1].serial = 1;
	while (changes == 0)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK_TEXT(changed_text, "10.0.0.2");
	CHECK_TEXT(look_up("db.example.test").text, "10.0.0.2");
	CHECK_INT(asked_a, 4);
	dns_configure(dns, &defaults);
	CHECK_INT(dns_count(dns).zones, 0);
	close_all();
}

TEST(zone_has_one_pending_query)
{
	struct dns_config config = defaults;

	config.zone_check_period = 1000;
	open_all(&config);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	records[1] = (struct record){ .name = "example.test", .rcode_soa = SILENT };
	look_up("db.example.test");
	while (asked_soa == 0)
		event_base_loop(base, EVLOOP_ONCE);
	for (int i = 0; i < 50; i++)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK_INT(asked_soa, 1);
	close_all();
}

TEST(library)
{
}

UNIT_MAIN
