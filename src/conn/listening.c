/*
 * The sockets that clients connect to: the addresses of listen_addr, the Unix socket, or sockets passed by systemd; in an online restart
 * the sockets of the old process, so that no client in the kernel's queue is lost.
 */
#include "conn/listening.h"

#include "base/log.h"
#include "base/text.h"
#include "conn/world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* By then the connections in progress are established, and the clients' first messages have arrived. A client that begins meanwhile sends
   its SYN again after a second, when the socket is closed and another process gets it. */
#define LEAVE_TIME (USEC * 4 / 5)

static void accepted(void *context, int fd, const struct address *peer, struct listen_socket *from)
{
	struct world *w = context;

	world_wake(w);
	w->ops->accepted(w, fd, peer, listen_socket_is_unix(from), from->port);
}

static bool keep(struct listening *on, struct listen_socket *l, struct conf_problems *problems, const char *what, const char *why)
{
	struct listen_socket **more;

	if (!l) {
		/* mostly the reason begins with where */
		if (text_starts(why, "cannot listen on "))
			conf_problem_add(problems, false, NULL, 0, "%s", why);
		else
			conf_problem_add(problems, false, NULL, 0, "cannot listen on %s: %s", what, why);
		return false;
	}
	more = mem_resize(on->all, ((size_t)on->count + 1) * sizeof(struct listen_socket *));
	if (!more) {
		listen_socket_close(&l, true);
		conf_problem_add(problems, false, NULL, 0, "no memory");
		return false;
	}
	on->all = more;
	on->all[on->count++] = l;
	log_info("listening on %s", l->text);
	return true;
}

static struct socket_options options_of(const struct settings *set)
{
	return (struct socket_options){
		.keepalive = set->tcp_keepalive, .keepidle = (int)set->tcp_keepidle, .keepintvl = (int)set->tcp_keepintvl,
		.keepcnt = (int)set->tcp_keepcnt, .user_timeout = (int)set->tcp_user_timeout,
		.buffer = (int)set->tcp_socket_buffer,
	};
}

static struct listen_config config_for(const struct settings *set, const char *host)
{
	return (struct listen_config){
		.host = host, .port = (uint16_t)set->listen_port, .backlog = (int)set->listen_backlog,
		.reuseport = set->so_reuseport, .defer_accept = set->tcp_defer_accept,
		.unix_mode = (int)set->unix_socket_mode, .unix_group = set->unix_socket_group,
		.options = options_of(set),
	};
}

void world_set_listen_options(struct world *w)
{
	const struct settings *set = &w->conf->settings;
	struct socket_options options = options_of(set);

	for (int i = 0; i < w->listening.count; i++)
		listen_socket_set_options(w->listening.all[i], &options, set->tcp_defer_accept);
}

/* ---- offered by another process ---- */

struct listener_offer {
	struct listen_socket *listener;	/* NULL: was closed */
	char *host;			/* by which the configuration names it; NULL: not (yet) wanted, or from systemd */
	bool owns_file, wanted;
};

bool world_offer_listener(struct world *w, int fd, bool owns_file, struct conf_problems *problems)
{
	struct listener_offer *more = mem_resize(w->listening.offers, ((size_t)w->listening.offer_count + 1) * sizeof(*more));
	char why[256] = "no memory";
	struct listen_socket *l = NULL;

	if (more) {
		w->listening.offers = more;
		l = listen_socket_adopt(w->base, fd, accepted, w, why, sizeof(why));
	}
	if (!l) {
		conf_problem_add(problems, false, NULL, 0, "cannot take over a listening socket: %s", why);
		return false;
	}
	w->listening.offers[w->listening.offer_count++] = (struct listener_offer){ .listener = l, .owns_file = owns_file };
	return true;
}

static bool is_unix(const char *host)
{
	return host[0] == '/' || host[0] == '@';
}

/* The text of a listener on this host. False: there is none. */
static bool text_for(const struct settings *set, const char *host, char *text, size_t size)
{
	uint16_t port = (uint16_t)set->listen_port;
	struct brief_address brief;
	struct address a;

	if (is_unix(host)) {
		snprintf(text, size, "unix:%s/.s.PGSQL.%u", host, (unsigned)port);
		return true;
	}
	if (!address_from_ip(&a, host, port))
		return false;
	brief_address_of(&brief, &a, 0);
	brief_address_and_port(&brief, text, size);
	return true;
}

static struct listener_offer *find_offer(struct world *w, const char *host)
{
	char text[128];

	for (int i = 0; i < w->listening.offer_count && text_for(&w->conf->settings, host, text, sizeof(text)); i++)
		if (!w->listening.offers[i].wanted && strcmp(w->listening.offers[i].listener->text, text) == 0)
			return &w->listening.offers[i];
	return NULL;
}

static bool keep_offer(struct listening *on, struct listener_offer *offer, const char *host, struct conf_problems *problems)
{
	struct listen_socket *l = offer->listener;

	offer->wanted = true;
	offer->host = host ? mem_must_copy_string(host) : NULL;
	if (keep(on, l, problems, l->text, NULL))
		return true;
	offer->listener = NULL;
	return false;
}

static void free_offers(struct listening *on)
{
	for (int i = 0; i < on->offer_count; i++)
		mem_free(on->offers[i].host);
	mem_free(on->offers);
	on->offers = NULL;
	on->offer_count = 0;
}

void world_close_unwanted_listeners(struct world *w)
{
	for (int i = 0; i < w->listening.offer_count; i++) {
		struct listener_offer *offer = &w->listening.offers[i];
		struct listen_config config;

		if (offer->host)
			config = config_for(&w->conf->settings, offer->host);
		listen_socket_succeed(offer->listener, offer->host ? &config : NULL, offer->owns_file);
		if (offer->wanted)
			continue;
		log_info("not listening on %s any more", offer->listener->text);
		listen_socket_close(&offer->listener, true);
	}
	free_offers(&w->listening);
}

void listening_set_accepting(struct listening *on, bool accepting)
{
	for (int i = 0; i < on->count; i++)
		listen_socket_set_accepting(on->all[i], accepting);
}

void listening_let_go(struct listening *on, bool remove_files)
{
	for (int i = 0; i < on->offer_count; i++)
		if (!on->offers[i].wanted)
			listen_socket_close(&on->offers[i].listener, false);
	free_offers(on);
	for (int i = 0; i < on->count; i++)
		listen_socket_close(&on->all[i], remove_files);
	mem_free(on->all);
	on->all = NULL;
	on->count = 0;
}

/* ---- opening ---- */

static bool has_listener(const struct world *w, const char *host)
{
	char text[128];

	for (int i = 0; i < w->listening.count && text_for(&w->conf->settings, host, text, sizeof(text)); i++)
		if (strcmp(w->listening.all[i]->text, text) == 0)
			return true;
	return false;
}

/* The address is in the list twice, has two names, or is covered by a socket for all addresses of its family. */
static bool is_listening_on(const struct world *w, const char *host)
{
	return has_listener(w, host) || (!is_unix(host) && has_listener(w, strchr(host, ':') ? "::" : "0.0.0.0"));
}

/* An address that this machine does not have (now), or a family that its kernel lacks, is said in `absent`, and no failure. */
static bool listen_on(struct world *w, const char *host, struct conf_problems *problems, struct conf_problems *absent)
{
	struct listen_config config = config_for(&w->conf->settings, host);
	struct listener_offer *offer;
	struct listen_socket *l;
	char why[256] = "";

	if (is_listening_on(w, host))
		return true;
	offer = find_offer(w, host);
	if (offer)
		return keep_offer(&w->listening, offer, host, problems);
	l = listen_socket_open(w->base, &config, accepted, w, why, sizeof(why));
	if (l || (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT))
		return keep(&w->listening, l, problems, host, why);
	keep(&w->listening, NULL, absent, host, why);
	return true;
}

/* The addresses of a name. */
struct named {
	struct world *w;
	struct conf_problems *problems, *absent;
	bool ok;
};

static void listen_on_one(void *context, const char *ip)
{
	struct named *n = context;

	n->ok &= listen_on(n->w, ip, n->problems, n->absent);
}

static bool listen_on_name(struct world *w, const char *name, struct conf_problems *problems, struct conf_problems *absent)
{
	struct named n = { .w = w, .problems = problems, .absent = absent, .ok = true };
	const char *why = address_each_of_name(name, listen_on_one, &n);

	if (why)
		conf_problem_add(problems, false, NULL, 0, "cannot listen on %s: %s", name, why);
	return n.ok && !why;
}

/* "*" is every address of both families; a kernel without IPv6 is no reason not to start. */
static bool listen_everywhere(struct world *w, struct conf_problems *problems, struct conf_problems *absent)
{
	bool ok = listen_on(w, "0.0.0.0", problems, absent);

	listen_on(w, "::", absent, absent);
	return ok;
}

/* An address may be another machine's at the moment, and localhost has one of IPv6 in many a hosts file while the kernel has none: the
   others are served. */
static bool settle_absent(const struct listening *on, struct conf_problems *problems, struct conf_problems *absent)
{
	bool ok = absent->count == 0 || on->count > 0;

	for (size_t i = 0; i < absent->count; i++) {
		if (ok)
			log_warning("%s", absent->items[i].text);
		else
			conf_problem_add(problems, false, NULL, 0, "%s", absent->items[i].text);
	}
	conf_problems_free(absent);
	return ok;
}

static bool is_everywhere(const char *host)
{
	return strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static bool listen_on_host(struct world *w, const char *host, struct conf_problems *problems, struct conf_problems *absent)
{
	struct address any;

	if (strcmp(host, "*") == 0)
		return listen_everywhere(w, problems, absent);
	return is_unix(host) || address_from_ip(&any, host, 0) ? listen_on(w, host, problems, absent) :
								 listen_on_name(w, host, problems, absent);
}

static bool listen_on_all(struct world *w, const char *list, struct conf_problems *problems)
{
	struct conf_problems absent = { .count = 0 };
	bool ok = true;
	char host[256];

	/* first the addresses that cover others */
	for (int everywhere = 1; list && everywhere >= 0; everywhere--)
		for (const char *at = list; address_next_host(&at, host, sizeof(host));)
			if (is_everywhere(host) == everywhere)
				ok &= listen_on_host(w, host, problems, &absent);
	return settle_absent(&w->listening, problems, &absent) && ok;
}

bool world_listen(struct world *w, const int *fds, int fd_count, struct conf_problems *problems)
{
	const struct settings *set = &w->conf->settings;
	bool ok = true;

	for (int i = 0; i < fd_count; i++) {
		char why[256] = "", what[32];
		struct listen_socket *l = listen_socket_adopt(w->base, fds[i], accepted, w, why, sizeof(why));

		snprintf(what, sizeof(what), "descriptor %d", fds[i]);
		ok &= keep(&w->listening, l, problems, what, why);
	}
	for (int i = 0; w->listening.inherited && i < w->listening.offer_count; i++)
		ok &= keep_offer(&w->listening, &w->listening.offers[i], NULL, problems);
	w->listening.inherited |= fd_count > 0;
	if (w->listening.inherited) {
		world_set_listen_options(w);
		return ok;
	}
	ok &= listen_on_all(w, set->listen_addr, problems);
	if (set->unix_socket_dir && *set->unix_socket_dir)
		ok &= listen_on(w, set->unix_socket_dir, problems, problems);
	if (w->listening.count == 0 && ok) {
		conf_problem_add(problems, false, NULL, 0, "nowhere to listen: neither listen_addr nor unix_socket_dir is set");
		ok = false;
	}
	return ok;
}

void world_leave(struct world *w)
{
	bool gently = false;

	for (int i = 0; i < w->listening.count; i++)
		gently |= !listen_socket_is_unix(w->listening.all[i]) && listen_socket_leave(w->listening.all[i]);
	if (gently)
		w->listening.leave_until = w->now + LEAVE_TIME;
	else
		world_stop_listening(w, false);
}

void world_stop_listening(struct world *w, bool unix_too)
{
	int kept = 0;

	w->listening.leave_until = 0;
	for (int i = 0; w->drain == DRAIN_WAIT_CLIENTS && i < w->listening.count; i++)
		if (!listen_socket_is_unix(w->listening.all[i]))
			listen_socket_drain(w->listening.all[i]);
	for (int i = 0; i < w->listening.count; i++) {
		if (listen_socket_is_unix(w->listening.all[i]) && !unix_too)
			w->listening.all[kept++] = w->listening.all[i];
		else
			listen_socket_close(&w->listening.all[i], true);
	}
	w->listening.count = kept;
	if (kept == 0) {
		mem_free(w->listening.all);
		w->listening.all = NULL;
	}
}
