#ifndef NAME_SERVER_H
#define NAME_SERVER_H

/*
 * A small name server in the event loop of the resolver: for each name and record type, it answers, refuses, fails or stays silent, and counts the
 * queries. Also records the results of the resolver.
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

static int changes;
static char changed_name[64], changed_text[128];

static void on_changed(void *context, const char *name, const struct dns_answer *now)
{
	(void)context;
	changes++;
	snprintf(changed_name, sizeof(changed_name), "%s", name);
	show(now, changed_text, sizeof(changed_text));
}

#endif
