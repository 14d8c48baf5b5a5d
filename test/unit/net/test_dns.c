/*
 * The resolver against a small name server that runs in the same event loop: it answers, refuses, fails or stays
 * silent, per name and record type, and counts what it is asked. Each test runs the loop until what it waits for
 * has happened; the name server's silence ends by the lookup's own clock.
 */
#include "net/dns.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

enum { NOERROR = 0, SERVFAIL = 2, NXDOMAIN = 3, SILENT = 100 };
enum { TYPE_A = 1, TYPE_SOA = 6, TYPE_AAAA = 28 };

struct record {
	const char *name;
	int rcode4, rcode6, rcode_soa;
	const char *v4[3], *v6[3];
	uint32_t ttl;
	uint32_t serial;	/* not 0: answers SOA */
};

static struct event_base *base;
static struct event *server_event;
static int server_fd;
static char server_text[64];
static struct record records[8];
static int asked_a, asked_aaaa, asked_soa;
static struct dns *dns;

static struct record *record_of(const char *name)
{
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		if (records[i].name && strcmp(records[i].name, name) == 0)
			return &records[i];
	return NULL;
}

static size_t put_answer(uint8_t *to, unsigned type, uint32_t ttl, const void *data, size_t size)
{
	uint8_t head[12] = { 0xc0, 12, 0, (uint8_t)type, 0, 1, (uint8_t)(ttl >> 24), (uint8_t)(ttl >> 16),
			     (uint8_t)(ttl >> 8), (uint8_t)ttl, 0, (uint8_t)size };

	memcpy(to, head, sizeof(head));
	memcpy(to + sizeof(head), data, size);
	return sizeof(head) + size;
}

/* Appends the record's answers of this type; returns their number. */
static int put_answers(const struct record *r, unsigned type, uint8_t *packet, size_t *size)
{
	const char *const *texts = type == TYPE_A ? r->v4 : r->v6;
	int count = 0;

	if (type == TYPE_SOA && r->serial > 0) {
		uint8_t soa[22] = { 0, 0, (uint8_t)(r->serial >> 24), (uint8_t)(r->serial >> 16),
				    (uint8_t)(r->serial >> 8), (uint8_t)r->serial };

		*size += put_answer(packet + *size, type, r->ttl, soa, sizeof(soa));
		return 1;
	}
	for (; type != TYPE_SOA && count < 3 && texts[count]; count++) {
		uint8_t ip[16];

		inet_pton(type == TYPE_A ? AF_INET : AF_INET6, texts[count], ip);
		*size += put_answer(packet + *size, type, r->ttl, ip, type == TYPE_A ? 4 : 16);
	}
	return count;
}

static void on_question(evutil_socket_t fd, short what, void *arg)
{
	struct sockaddr_in from;
	socklen_t from_size = sizeof(from);
	uint8_t packet[1024];
	char name[256] = "";
	ssize_t got = recvfrom(fd, packet, 512, 0, (struct sockaddr *)&from, &from_size);
	size_t at = 12, size;
	const struct record *r;
	unsigned type;
	int rcode;

	(void)what, (void)arg;
	if (got < 17)
		return;
	for (; packet[at]; at += packet[at] + 1u)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "%s%.*s", *name ? "." : "", packet[at],
			 (char *)&packet[at + 1]);
	type = packet[at + 2];
	size = at + 5;
	type == TYPE_A ? asked_a++ : type == TYPE_AAAA ? asked_aaaa++ : asked_soa++;
	r = record_of(name);
	rcode = !r ? NXDOMAIN : type == TYPE_A ? r->rcode4 : type == TYPE_AAAA ? r->rcode6 : r->rcode_soa;
	if (rcode == SILENT)
		return;
	packet[2] = 0x85;
	packet[3] = (uint8_t)(0x80 | rcode);
	packet[7] = r && rcode == NOERROR ? (uint8_t)put_answers(r, type, packet, &size) : 0;
	packet[6] = packet[8] = packet[9] = packet[10] = packet[11] = 0;
	sendto(fd, packet, size, 0, (struct sockaddr *)&from, from_size);
}

static const struct dns_config defaults = { .resolv_conf = "/dev/null", .servers = server_text, .max_ttl = 15 * USEC,
					    .nxdomain_ttl = 15 * USEC };

static void open_all(const struct dns_config *config)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	char why[128] = "";

	base = event_base_new();
	server_fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(bind(server_fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK(getsockname(server_fd, (struct sockaddr *)&at, &size) == 0);
	snprintf(server_text, sizeof(server_text), "127.0.0.1:%u", ntohs(at.sin_port));
	server_event = event_new(base, server_fd, EV_READ | EV_PERSIST, on_question, NULL);
	event_add(server_event, NULL);
	memset(records, 0, sizeof(records));
	asked_a = asked_aaaa = asked_soa = 0;
	dns = dns_open(base, config, why, sizeof(why));
	CHECK_TEXT(why, "");
}

static void close_all(void)
{
	dns_close(&dns);
	CHECK(!dns);
	event_free(server_event);
	close(server_fd);
	event_base_free(base);
}

struct heard {
	int calls, count;
	char text[256];		/* addresses, sorted, blank between */
	char error[64];
	struct address begin;
	struct dns_request *request;
	void (*then)(struct heard *heard);
};

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void show(const struct dns_answer *answer, char *to, size_t size)
{
	char texts[8][64];

	*to = '\0';
	for (int i = 0; i < answer->count && i < 8; i++) {
		const struct address *a = &answer->addresses[i];

		CHECK_INT(a->u.v4.sin_port, 0);
		CHECK_INT(a->size, a->u.any.sa_family == AF_INET ? sizeof(a->u.v4) : sizeof(a->u.v6));
		inet_ntop(a->u.any.sa_family,
			  a->u.any.sa_family == AF_INET ? (const void *)&a->u.v4.sin_addr : &a->u.v6.sin6_addr, texts[i],
			  sizeof(texts[i]));
	}
	qsort(texts, (size_t)answer->count, sizeof(texts[0]), by_text);
	for (int i = 0; i < answer->count; i++)
		snprintf(to + strlen(to), size - strlen(to), "%s%s", i ? " " : "", texts[i]);
}

static void on_done(void *context, const struct dns_answer *answer)
{
	struct heard *heard = context;

	heard->calls++;
	heard->request = NULL;
	heard->count = answer->count;
	if (answer->count > 0)
		heard->begin = *dns_answer_at(answer, 0);
	CHECK((answer->count == 0) == (answer->error != NULL));
	show(answer, heard->text, sizeof(heard->text));
	snprintf(heard->error, sizeof(heard->error), "%s", answer->error ? answer->error : "");
	if (heard->then)
		heard->then(heard);
}

static void wait_for(struct heard *heard)
{
	while (heard->calls == 0 && event_base_loop(base, EVLOOP_ONCE) == 0)
		;
}

static struct heard look_up(const char *name)
{
	struct heard heard = { .calls = 0 };

	heard.request = dns_lookup(dns, name, on_done, &heard);
	CHECK(heard.request);
	CHECK_INT(heard.calls, 0);
	wait_for(&heard);
	CHECK_INT(heard.calls, 1);
	return heard;
}

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
	CHECK_INT(dns_queries(dns), 0);
	close_all();
}

TEST(each_who_asks_begins_with_the_next_address)
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

TEST(unreachable_addresses_come_last_wherever_one_begins)
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

TEST(cache_answers_but_not_inside_the_call)
{
	struct heard heard;

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	look_up("db.example.test");
	heard = look_up("db.example.test");
	CHECK_TEXT(heard.text, "10.0.0.1");
	CHECK_INT(asked_a, 1);
	CHECK_INT(dns_hosts(dns), 1);
	close_all();
}

TEST(ttl_zero_is_asked_again)
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
		dns_each_host(dns, clock_monotonic(), see_host, &seen);
		CHECK_INT(seen.visits, 1);
		CHECK_TEXT(seen.name, "db.example.test");
		CHECK_TEXT(seen.text, "10.0.0.1");
		CHECK(seen.ttl >= 0 && seen.ttl <= (ttls[i] == 5 ? 5 : 15));
		/* Half an hour later. */
		dns_each_host(dns, clock_monotonic() + 1800 * USEC, see_host, &seen);
		CHECK_INT(seen.ttl, 0);
		close_all();
	}
}

TEST(one_question_for_many_requests)
{
	struct heard heard[5] = { { .calls = 0 } };

	open_all(&defaults);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	for (int i = 0; i < 5; i++)
		heard[i].request = dns_lookup(dns, "db.example.test", on_done, &heard[i]);
	CHECK_INT(dns_queries(dns), 1);
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
		/* A silent family is given up before it is asked a second time. */
		if (bad[i] == SILENT)
			CHECK(asked_a == 2 && asked_aaaa == 2);
		close_all();
	}
}

TEST(failures_are_remembered_and_forgotten)
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
	/* The limit is lowered: what is remembered longer is out of date at once. And then it recovers. */
	config = defaults;
	config.nxdomain_ttl = 0;
	dns_configure(dns, &config);
	records[0] = (struct record){ .name = "broken.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	records[1] = (struct record){ .name = "nobody.test", .v4 = { "10.0.0.2" }, .ttl = 60 };
	CHECK_TEXT(look_up("broken.test").text, "10.0.0.1");
	CHECK_TEXT(look_up("nobody.test").text, "10.0.0.2");
	close_all();
}

TEST(silence_ends_and_recovers)
{
	struct dns_config config = defaults;

	config.timeout = USEC / 20;
	config.nxdomain_ttl = 0;
	open_all(&config);
	records[0] = (struct record){ .name = "db.example.test", .rcode4 = SILENT, .rcode6 = SILENT };
	CHECK_TEXT(look_up("db.example.test").error, "timeout");
	CHECK_INT(dns_queries(dns), 0);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1" }, .ttl = 60 };
	dns_configure(dns, &defaults);
	CHECK_TEXT(look_up("db.example.test").text, "10.0.0.1");
	close_all();
}

TEST(without_a_question)
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
	/* Out of date at once, so that the lookup in the callback asks again. */
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

static int changes;
static char changed_name[64], changed_text[128];

static void on_changed(void *context, const char *name, const struct dns_answer *now)
{
	(void)context;
	changes++;
	snprintf(changed_name, sizeof(changed_name), "%s", name);
	show(now, changed_text, sizeof(changed_text));
}

TEST(change_is_told_when_addresses_go)
{
	struct dns_config config = defaults;

	config.nxdomain_ttl = 0;
	open_all(&config);
	changes = 0;
	dns_on_change(dns, on_changed, NULL);
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.1", "10.0.0.2" } };
	look_up("db.example.test");
	/* Another order, and one more: nothing is gone. */
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.2", "10.0.0.3", "10.0.0.1" } };
	look_up("db.example.test");
	CHECK_INT(changes, 0);
	/* A failure says nothing about the addresses, */
	records[0].rcode4 = records[0].rcode6 = SERVFAIL;
	look_up("db.example.test");
	CHECK_INT(changes, 0);
	/* and does not make forget them. */
	records[0] = (struct record){ .name = "db.example.test", .v4 = { "10.0.0.3", "10.0.0.2" } };
	look_up("db.example.test");
	CHECK_INT(changes, 1);
	CHECK_TEXT(changed_name, "db.example.test");
	CHECK_TEXT(changed_text, "10.0.0.2 10.0.0.3");
	close_all();
}

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
	/* The cached answer would last for long; the serial says that it is old. */
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

TEST(configure_asks_again_what_is_under_way)
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
	CHECK_INT(dns_queries(dns), 1);
	wait_for(&heard);
	CHECK_TEXT(heard.text, "10.0.0.1");
	CHECK_INT(asked_a, 2);
	CHECK_INT(heard.calls, 1);
	CHECK_INT(dns_queries(dns), 0);
	close_all();
}

TEST(zones_are_not_asked_faster_than_they_answer)
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

TEST(bad_configuration_says_why)
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
	/* max_ttl is 0: nothing is kept. */
	look_up("db.example.test");
	CHECK_INT(asked_a, 2);
	close_all();
}

TEST(library)
{
}

UNIT_MAIN
