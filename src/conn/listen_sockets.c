/*
 * The listening sockets: the addresses of listen_addr and the Unix socket, or sockets from systemd.
 * In an online restart pgweir uses the sockets of the old process, so that no connection in the
 * queue of the kernel is lost.
 */
#include "conn/listen_sockets.h"

#include "base/log.h"
#include "base/text.h"
#include "conf/networks.h"
#include "conn/world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Within this time connections in progress are established, and the first messages of their clients
   arrive. A new client sends its SYN again after a second, when this socket is closed and another
   process gets the SYN. */
#define LEAVE_TIME (USEC * 4 / 5)
#define HOST_MOST 256			/* bytes of a host name with its NUL */

static void accepted(void *context, int fd, const struct address *peer, struct listen_socket *from)
{
	struct world *w = context;

	world_wake(w);
	w->ops->accepted(w, fd, peer, listen_socket_is_unix(from), from->port);
}

static bool listen_sockets_keep(struct listen_sockets *on, struct listen_socket *l,
				struct conf_problems *problems, const char *what, const char *why)
{
	struct listen_socket **more;

	if (!l) {
		/* most reasons contain the address */
		if (text_starts(why, "cannot listen on "))
			conf_problem_add(problems, false, NULL, 0, "%s", why);
		else
			conf_problem_add(problems, false, NULL, 0, "cannot listen on %s: %s", what,
					 why);
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

static struct listen_config config_for(const struct settings *set, const char *host)
{
	return (struct listen_config){
		.host = host, .port = (uint16_t)set->listen_port,
		.backlog = (int)set->listen_backlog,
		.reuseport = set->so_reuseport, .defer_accept = set->tcp_defer_accept,
		.unix_mode = (int)set->unix_socket_mode, .unix_group = set->unix_socket_group,
		.options = {
			.keepalive = set->tcp_keepalive, .keepidle = (int)set->tcp_keepidle,
			.keepintvl = (int)set->tcp_keepintvl,
			.keepcnt = (int)set->tcp_keepcnt,
			.user_timeout = (int)set->tcp_user_timeout,
			.buffer = (int)set->tcp_socket_buffer,
		},
	};
}

void world_set_listen_options(struct world *w)
{
	struct listen_config config = config_for(&w->conf->settings, NULL);

	for (int i = 0; i < w->listen_sockets.count; i++)
		listen_socket_set_options(w->listen_sockets.all[i], &config.options,
					  config.defer_accept);
}

bool world_expects_header(const struct world *w, const struct brief_address *sender)
{
	const char *networks = w->conf->settings.proxy_protocol_networks;
	size_t size = sender->family == AF_INET ? 4 : sender->family == AF_INET6 ? 16 : 0;

	return networks && networks_have(networks, sender->u.ip, size);
}

/* ---- sockets of the process that this one replaces ---- */

struct listen_offer {
	struct listen_socket *socket;	/* NULL: closed */
	/* the name in the configuration; "": none, or from systemd */
	char host[HOST_MOST];
	/* the other process has created the file of the Unix socket */
	bool owns_file;
	bool wanted;			/* this process continues to listen on it */
};

bool world_offer_listen_socket(struct world *w, int fd, bool owns_file,
			       struct conf_problems *problems)
{
	struct listen_offer *more =
		mem_resize(w->listen_sockets.offers,
			   ((size_t)w->listen_sockets.offer_count + 1) * sizeof(*more));
	char why[256] = "no memory";
	struct listen_socket *l = NULL;

	if (more) {
		w->listen_sockets.offers = more;
		l = listen_socket_adopt(w->base, fd, accepted, w, why, sizeof(why));
	}
	if (!l) {
		conf_problem_add(problems, false, NULL, 0,
				 "cannot take over a listening socket: %s", why);
		return false;
	}
	w->listen_sockets.offers[w->listen_sockets.offer_count++] = (struct listen_offer){
		.socket = l, .owns_file = owns_file
	};
	return true;
}

/* `host`: "" for a socket from systemd. */
static bool keep_offer(struct listen_sockets *on, struct listen_offer *offer, const char *host,
		       struct conf_problems *problems)
{
	struct listen_socket *l = offer->socket;

	offer->wanted = true;
	text_copy(offer->host, sizeof(offer->host), host);
	if (listen_sockets_keep(on, l, problems, l->text, NULL))
		return true;
	offer->socket = NULL;
	return false;
}

void world_close_unwanted_sockets(struct world *w)
{
	for (int i = 0; i < w->listen_sockets.offer_count; i++) {
		struct listen_offer *offer = &w->listen_sockets.offers[i];
		struct listen_config config = config_for(&w->conf->settings, offer->host);

		listen_socket_succeed(offer->socket, *offer->host ? &config : NULL,
				      offer->owns_file);
		if (offer->wanted)
			continue;
		log_info("not listening on %s any more", offer->socket->text);
		listen_socket_close(&offer->socket, true);
	}
	mem_free(w->listen_sockets.offers);
	w->listen_sockets.offers = NULL;
	w->listen_sockets.offer_count = 0;
}

void listen_sockets_let_go(struct listen_sockets *on, bool remove_files)
{
	/* the old process may continue to use sockets that it offered in vain, and their files */
	for (int i = 0; i < on->offer_count; i++)
		if (!on->offers[i].wanted)
			listen_socket_close(&on->offers[i].socket, false);
	mem_free(on->offers);
	on->offers = NULL;
	on->offer_count = 0;
	for (int i = 0; i < on->count; i++)
		listen_socket_close(&on->all[i], remove_files);
	mem_free(on->all);
	on->all = NULL;
	on->count = 0;
}

/* ---- opening ---- */

/* A call of world_listen. */
struct opening {
	struct world *w;
	struct conf_problems *problems;
	/* addresses of other machines, or of a family that the kernel lacks */
	struct conf_problems absent;
	bool may_fail;			/* any failure counts as an absent address */
	bool ok;
};

static bool is_unix(const char *host)
{
	return host[0] == '/' || host[0] == '@';
}

/* Writes the text of a listening socket on this host, or "" if the host is not an address. */
static void text_for(const struct settings *set, const char *host, char *text, size_t size)
{
	uint16_t port = (uint16_t)set->listen_port;
	struct brief_address brief;
	struct address a;

	*text = '\0';
	if (is_unix(host)) {
		snprintf(text, size, "unix:%s/.s.PGSQL.%u", host, (unsigned)port);
	} else if (address_from_ip(&a, host, port)) {
		brief_address_of(&brief, &a, 0);
		brief_address_and_port(&brief, text, size);
	}
}

/* Listens on an IP address or a Unix socket. The same address may be in the list twice, have two
   names (localhost and 127.0.0.1), or be covered by a socket for all addresses of its family: it is
   opened once. */
static void listen_on(void *context, const char *host)
{
	struct opening *o = context;
	struct world *w = o->w;
	struct listen_sockets *on = &w->listen_sockets;
	struct listen_config config = config_for(&w->conf->settings, host);
	char text[128], everywhere[128], why[256] = "";
	struct listen_socket *l;
	bool is_absent;

	text_for(&w->conf->settings, host, text, sizeof(text));
	text_for(&w->conf->settings,
		 is_unix(host)	     ? host
		 : strchr(host, ':') ? "::"
				     : "0.0.0.0",
		 everywhere, sizeof(everywhere));
	for (int i = 0; i < on->count; i++)
		if (strcmp(on->all[i]->text, text) == 0 ||
		    strcmp(on->all[i]->text, everywhere) == 0)
			return;
	for (int i = 0; i < on->offer_count; i++) {
		if (on->offers[i].wanted || strcmp(on->offers[i].socket->text, text) != 0)
			continue;
		o->ok &= keep_offer(on, &on->offers[i], host, o->problems);
		return;
	}
	l = listen_socket_open(w->base, &config, accepted, w, why, sizeof(why));
	is_absent = !l && (o->may_fail ||
			   (!is_unix(host) && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)));
	if (!listen_sockets_keep(on, l, is_absent ? &o->absent : o->problems, host, why))
		o->ok &= is_absent;
}

/* Opens the sockets of listen_addr. An address may belong to another machine at the moment, and
   many hosts files have an IPv6 address for localhost although the kernel lacks IPv6: absent
   addresses are a failure only if there is no other address. */
static void listen_on_list(struct opening *o, const char *list)
{
	const struct listen_sockets *on = &o->w->listen_sockets;
	struct address any;
	char host[HOST_MOST];

	/* first the addresses that cover others */
	for (int first = 1; list && first >= 0; first--)
		for (const char *at = list; address_next_host(&at, host, sizeof(host));) {
			bool is_all = strcmp(host, "*") == 0;
			const char *why;

			if ((is_all || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) !=
			    first)
				continue;
			if (is_all) {
				listen_on(o, "0.0.0.0");
				o->may_fail = true;
				listen_on(o, "::");
				o->may_fail = false;
				continue;
			}
			if (is_unix(host) || address_from_ip(&any, host, 0)) {
				listen_on(o, host);
				continue;
			}
			why = address_each_of_name(host, listen_on, o);
			if (why) {
				conf_problem_add(o->problems, false, NULL, 0,
						 "cannot listen on %s: %s", host, why);
				o->ok = false;
			}
		}
	for (size_t i = 0; i < o->absent.count; i++) {
		if (on->count > 0) {
			log_warning("%s", o->absent.items[i].text);
			continue;
		}
		conf_problem_add(o->problems, false, NULL, 0, "%s", o->absent.items[i].text);
		o->ok = false;
	}
	conf_problems_free(&o->absent);
}

bool world_listen(struct world *w, const int *fds, int fd_count, struct conf_problems *problems)
{
	const struct settings *set = &w->conf->settings;
	struct listen_sockets *on = &w->listen_sockets;
	struct opening o = { .w = w, .problems = problems, .ok = true };

	for (int i = 0; i < fd_count; i++) {
		char why[256] = "", what[32];
		struct listen_socket *l = listen_socket_adopt(w->base, fds[i], accepted, w, why,
							      sizeof(why));

		snprintf(what, sizeof(what), "descriptor %d", fds[i]);
		o.ok &= listen_sockets_keep(on, l, problems, what, why);
	}
	for (int i = 0; on->inherited && i < on->offer_count; i++)
		o.ok &= keep_offer(on, &on->offers[i], "", problems);
	on->inherited |= fd_count > 0;
	if (on->inherited) {
		world_set_listen_options(w);
		return o.ok;
	}
	listen_on_list(&o, set->listen_addr);
	if (set->unix_socket_dir && *set->unix_socket_dir)
		listen_on(&o, set->unix_socket_dir);
	if (on->count == 0 && o.ok) {
		conf_problem_add(
			problems, false, NULL, 0,
			"nowhere to listen: neither listen_addr nor unix_socket_dir is set");
		o.ok = false;
	}
	return o.ok;
}

void world_stop_listen_sockets(struct world *w, enum listen_stop how)
{
	bool waits = false;
	int kept = 0;

	for (int i = 0; how == STOP_TCP_GENTLY && i < w->listen_sockets.count; i++)
		waits |= !listen_socket_is_unix(w->listen_sockets.all[i]) &&
			 listen_socket_leave(w->listen_sockets.all[i]);
	if (waits) {
		w->listen_sockets.leave_until = w->now + LEAVE_TIME;
		return;
	}
	w->listen_sockets.leave_until = 0;
	for (int i = 0; w->drain.step == DRAIN_WAIT_CLIENTS && i < w->listen_sockets.count; i++)
		if (!listen_socket_is_unix(w->listen_sockets.all[i]))
			listen_socket_drain(w->listen_sockets.all[i]);
	for (int i = 0; i < w->listen_sockets.count; i++) {
		if (listen_socket_is_unix(w->listen_sockets.all[i]) && how != STOP_ALL)
			w->listen_sockets.all[kept++] = w->listen_sockets.all[i];
		else
			listen_socket_close(&w->listen_sockets.all[i], true);
	}
	w->listen_sockets.count = kept;
	if (kept == 0) {
		mem_free(w->listen_sockets.all);
		w->listen_sockets.all = NULL;
	}
}

void world_set_accepting(struct world *w, bool on)
{
	for (int i = 0; i < w->listen_sockets.count; i++)
		listen_socket_set_accepting(w->listen_sockets.all[i], on);
}
