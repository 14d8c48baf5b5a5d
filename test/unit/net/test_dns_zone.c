/* Zones: when the serial of a zone changes, its names are queried again. */
#include "name_server.h"

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
	open_all(&config);
	changes = 0;
	dns_on_change(dns, on_changed, NULL);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	records[1] = (struct record){ .name = "example.test", .serial = 4294967295, .ttl = 60 };
	records[2] = (struct record){ .name = "db2.example.test", .v4 = { "10.0.0.5" }, .ttl = 60 };
	look_up("db.example.test");
	look_up("db2.example.test");
	CHECK_INT(dns_zones(dns), 1);
	for (int seen = asked_soa; asked_soa < seen + 3;)
		event_base_loop(base, EVLOOP_ONCE);
	dns_each_zone(dns, see_zone, NULL);
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
	CHECK_INT(dns_zones(dns), 0);
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

UNIT_MAIN
