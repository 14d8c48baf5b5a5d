/*
 * The parts that are replaced as a whole, because below them is more than a few system calls: of the net room listening sockets and the
 * resolver (with c-ares). Everything else of the net room is the real one, over wire.c and loop.c.
 *
 * Invariant: a request for a name is answered once, from an event of its own, unless it was cancelled.
 */
#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "machine.h"
#include "net/dns.h"
#include "net/listen.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- listening ---- */

static struct listen_socket *only;		/* there is one address to listen on */

bool sim_has_listener(void)
{
	return only != NULL;
}

struct listen_socket *listen_socket_open(struct event_base *base, const struct listen_config *config, listen_accept *accept, void *context,
			       char *why, size_t why_size)
{
	(void)base, (void)why, (void)why_size;
	SIM_CHECK(!only, "a second listening socket");
	only = mem_must(sizeof(*only));
	*only = (struct listen_socket){ .accepted = accept, .context = context, .accepting = true, .port = config->port, .fd = -1, .text = "127.0.0.1:6432" };
	only->address.u.any.sa_family = AF_INET;
	return only;
}

struct listen_socket *listen_socket_adopt(struct event_base *base, int fd, listen_accept *accept, void *context, char *why, size_t why_size)
{
	(void)base, (void)fd, (void)accept, (void)context;
	snprintf(why, why_size, "not in a simulation");
	return NULL;
}

void listen_socket_succeed(struct listen_socket *l, const struct listen_config *config, bool owns_file)
{
	(void)l, (void)config, (void)owns_file;
}

void listen_socket_set_accepting(struct listen_socket *l, bool on) { l->accepting = on; }
void listen_socket_set_options(struct listen_socket *l, const struct socket_options *options, bool defer_accept) { (void)l, (void)options, (void)defer_accept; }
bool listen_socket_leave(struct listen_socket *l) { (void)l; return chance_one_in(2); }

/* There are no files of sockets, because there is no online restart. */
bool socket_file_check_group(const char *group, char *why, size_t why_size) { (void)group, (void)why, (void)why_size; return true; }

void listen_socket_drain(struct listen_socket *l)
{
	struct sockaddr_in from;
	struct address peer = { .size = sizeof(from) };
	int fd;

	while ((fd = wire_accept(l->port, &from)) >= 0) {
		peer.u.v4 = from;
		l->accepted(l->context, fd, &peer, l);
	}
}

void listen_socket_close(struct listen_socket **l, bool unlink_file)
{
	(void)unlink_file;
	SIM_CHECK(*l == only, "a listener that is none is closed");
	mem_free(*l);
	*l = only = NULL;
	wire_refuse_waiting();
}

bool listeners_accept(void)
{
	struct sockaddr_in from;
	struct address peer = { .size = sizeof(from) };
	int fd;

	if (!only || !only->accepting || (fd = wire_accept(only->port, &from)) < 0)
		return false;
	peer.u.v4 = from;
	loop_progress();
	only->accepted(only->context, fd, &peer, only);
	return true;
}

/* ---- names ---- */

struct dns {
	struct list requests;
	int count;
};

struct dns_request {
	struct list node;
	struct dns *dns;
	struct actor actor;
	struct event *event;
	dns_done *done;
	void *context;
	int host;
};

static struct dns the_dns;

struct dns *dns_open(struct event_base *base, const struct dns_config *config, char *why, size_t why_size)
{
	(void)base, (void)config, (void)why, (void)why_size;
	list_init(&the_dns.requests);
	the_dns.count = 0;
	return &the_dns;
}

static void request_free(struct dns_request *r)
{
	r->dns->count--;
	list_remove(&r->node);
	actor_rest(&r->actor);
	event_free(r->event);
	mem_free(r);
}

void dns_close(struct dns **dns)
{
	LIST_EACH_SAFE(node, &(*dns)->requests)
		request_free(LIST_OBJECT(node, struct dns_request, node));
	*dns = NULL;
}

/* In the loop, as the real one does it. */
static void answered(evutil_socket_t fd, short what, void *arg)
{
	struct dns_request *r = arg;
	struct address address = { .size = sizeof(struct sockaddr_in) };
	struct dns_answer answer = { .count = 1, .reachable = 1, .addresses = &address };
	dns_done *done = r->done;
	void *context = r->context;

	(void)fd, (void)what;
	address_from_ip(&address, "10.0.0.1", 0);
	address.u.v4.sin_addr.s_addr = htonl(0x0a000001u + (uint32_t)r->host);
	if (!sim_is_calm && plan.faulty_servers && chance_one_in(8)) {
		answer.count = 0;
		answer.error = "simulated failure";
	}
	request_free(r);
	done(context, &answer);
}

static void act(struct actor *actor)
{
	event_active(SIM_OBJECT(actor, struct dns_request, actor)->event, EV_TIMEOUT, 0);
}

struct dns_request *dns_lookup(struct dns *dns, const char *name, dns_done *done, void *context)
{
	struct dns_request *r = mem_must(sizeof(*r));

	SIM_CHECK(strncmp(name, "host", 4) == 0, "a question for the name %s", name);
	r->dns = dns;
	r->done = done;
	r->context = context;
	r->host = atoi(name + 4);
	r->event = event_new(sim_event_base(), -1, 0, answered, r);
	list_append(&dns->requests, &r->node);
	dns->count++;
	actor_init(&r->actor, act, 0);
	/* now and then it takes longer than any client waits */
	actor_at(&r->actor, loop_now() + (!sim_is_calm && chance_one_in(50) ? 60 * USEC : chance_spread(0, plan.slowness)));
	return r;
}

struct address *dns_answer_copy(const struct dns_answer *answer, uint16_t port)
{
	struct address *address = mem_must(sizeof(*address));

	*address = *dns_answer_at(answer, 0);
	address->u.v4.sin_port = htons(port);
	return address;
}

void dns_cancel(struct dns_request **request)
{
	if (*request)
		request_free(*request);
	*request = NULL;
}

void dns_configure(struct dns *dns, const struct dns_config *config) { (void)dns, (void)config; }
void dns_watch(struct dns *dns, const char *name) { (void)dns, (void)name; }
void dns_each(struct dns *dns, usec_t now, dns_host_visit *host, dns_zone_visit *zone, void *context) { (void)dns, (void)now, (void)host, (void)zone, (void)context; }
struct dns_counts dns_count(const struct dns *dns) { return (struct dns_counts){ .queries = dns->count }; }

bool rooms_are_empty(void)
{
	return !only && the_dns.count == 0;
}
