/*
 * Names: the cache, the queries, the processing of answers, zones, name servers with ports (net/dns*.c). The target replaces c-ares (names.h), which
 * is not tested.
 *
 * Input: 'r' and a resolv.conf, or 'd' and steps of a byte and a few more: request, cancel, answer, wait, configure. Properties: each request is
 * answered once, or never after a cancel; an answer has addresses of the two families only, each can be found by its index, reachable ones first;
 * nothing is left at the end.
 */
#include "base/mem.h"
#include "fuzz.h"
#include "names.h"
#include "net/dns.h"
#include "net/dns_query.h"
#include "sandbox.h"

#include <ares.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#define ASKERS 24
#define STEPS_MOST 200

struct asker {
	struct dns_request *request;
	bool has_asked, has_heard, has_cancelled;
};

struct scene {
	struct event_base *base;
	struct dns *dns;
	struct asker askers[ASKERS];
	int count;
};

static const char *const hosts[] = { "a.example", "b.example", "c.other.example", "nodot", "192.0.2.7", "::1", "" };

static void on_answer(void *context, const struct dns_answer *answer)
{
	struct asker *asker = context;

	FUZZ_CHECK(asker->has_asked && !asker->has_heard && !asker->has_cancelled);
	asker->has_heard = true;
	FUZZ_CHECK(answer->count >= 0 && answer->reachable >= 0 && answer->reachable <= answer->count);
	FUZZ_CHECK(answer->count > 0 || answer->error);
	for (int i = 0; i < answer->count; i++) {
		const struct address *a = dns_answer_at(answer, i);

		FUZZ_CHECK(a >= answer->addresses && a < answer->addresses + answer->count);
		FUZZ_CHECK(a->u.any.sa_family == AF_INET || a->u.any.sa_family == AF_INET6);
		FUZZ_CHECK(i >= answer->reachable || a < answer->addresses + answer->reachable);
		for (int k = 0; k < i && answer->count < 20; k++)
			FUZZ_CHECK(dns_answer_at(answer, k) != a);
	}
}

static void on_change(void *context, const char *name, const struct dns_answer *now)
{
	/* the empty name is asked for here, too */
	FUZZ_CHECK(context && name && now->count > 0);
}

static void turn(struct scene *s)
{
	for (int i = 0; i < 3; i++)
		event_base_loop(s->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static void ask(struct scene *s, const char *name)
{
	struct asker *asker = &s->askers[s->count];

	if (s->count == ASKERS)
		return;
	s->count++;
	asker->request = dns_lookup(s->dns, name, on_answer, asker);
	FUZZ_CHECK(asker->request && !asker->has_heard);
	asker->has_asked = true;
}

static void cancel(struct asker *asker)
{
	if (!asker->has_asked || asker->has_heard || asker->has_cancelled)
		return;
	asker->has_cancelled = true;
	dns_cancel(&asker->request);
	FUZZ_CHECK(!asker->request);
}

static void answer(struct fuzz_input *in, int which)
{
	static const int statuses[] = {
		ARES_SUCCESS, ARES_SUCCESS, ARES_SUCCESS, ARES_ENOTFOUND, ARES_ETIMEOUT, ARES_ENODATA, ARES_ENOMEM,
	};
	int status = statuses[fuzz_u8(in) % 7], ttl = (int16_t)fuzz_u16(in) * 7;
	size_t size = fuzz_u8(in), left = fuzz_left(in);
	uint8_t *bytes;

	if (names.count == 0)
		return;
	size = size < left ? size : left;
	bytes = fuzz_copy(in->at, size);
	in->at += size;
	which %= names.count;
	if (names.questions[which].family == 0)
		names_answer_zone(which, status, bytes, size);
	else
		names_answer(which, status, bytes, size, ttl);
	free(bytes);
}

static void count_host(void *context, const char *name, int64_t ttl, const struct dns_answer *known)
{
	(void)ttl;
	FUZZ_CHECK(known->count >= 0);
	*(int *)context += name != NULL;
}

static void step(struct scene *s, struct fuzz_input *in, struct dns_config *config)
{
	uint8_t what = fuzz_u8(in);
	int seen = 0;

	switch (what & 7) {
	case 0: case 1:
		ask(s, hosts[(what >> 3) % 7]);
		break;
	case 2:
		cancel(&s->askers[(what >> 3) % ASKERS]);
		break;
	case 3: case 4:
		answer(in, what >> 3);
		break;
	case 5:
		sandbox_sleep((usec_t)(what >> 3) * USEC);
		break;
	case 6:
		/* the zones' timer */
		config->max_ttl = (usec_t)(what >> 3) * USEC;
		config->zone_check_period = what & 8 ? 1 : 0;
		dns_configure(s->dns, config);
		break;
	case 7:
		dns_each(s->dns, sandbox_now(), count_host, NULL, &seen);
		FUZZ_CHECK(seen <= dns_count(s->dns).hosts && dns_count(s->dns).zones <= dns_count(s->dns).hosts && dns_count(s->dns).queries >= 0);
		break;
	}
	turn(s);
}

static void play(struct fuzz_input in)
{
	struct dns_config config = {
		.resolv_conf = "resolv.conf", .max_ttl = 15 * USEC, .nxdomain_ttl = 3 * USEC, .zone_check_period = 1,
	};
	struct scene s = { .count = 0 };
	char why[256];

	config.changed = on_change;
	config.context = &s;
	s.base = event_base_new();
	s.dns = dns_open(s.base, &config, why, sizeof(why));
	FUZZ_CHECK(s.dns);
	for (int i = 0; i < STEPS_MOST && fuzz_left(&in) > 0; i++)
		step(&s, &in, &config);
	/* every request is answered in the end */
	for (int i = 0; i < 2 * NAMES_MOST && names.count > 0; i++) {
		if (names.questions[0].family == 0)
			names_answer_zone(0, ARES_ETIMEOUT, NULL, 0);
		else
			names_answer(0, ARES_ETIMEOUT, NULL, 0, 0);
		turn(&s);
	}
	for (int i = 0; i < s.count; i++)
		FUZZ_CHECK(s.askers[i].has_heard || s.askers[i].has_cancelled);
	ask(&s, "left.example");
	names_end();
	turn(&s);
	dns_close(&s.dns);
	event_base_free(s.base);
}

static void read_servers(const uint8_t *data, size_t size)
{
	char *servers;

	sandbox_file("resolv.conf", data, size);
	servers = dns_servers_read("resolv.conf");
	for (const char *c = servers; c && *c; c++)
		FUZZ_CHECK(strchr("0123456789abcdefABCDEF.:,[]", *c));
	mem_free(servers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);
	uint8_t kind = fuzz_u8(&in);

	sandbox_begin();
	names_begin();
	sandbox_file("resolv.conf", "nameserver 127.0.0.1\n", 21);
	if (kind == 'r')
		read_servers(in.at, fuzz_left(&in));
	else if (kind == 'd')
		play(in);
	names_end();
	sandbox_end();
	return 0;
}
