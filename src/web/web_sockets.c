/*
 * The sockets of the HTTP endpoint, and the TLS context of its connections.
 *
 * 1. web_sockets_prepare() opens what the next configuration names (web->next), beside the open
 *    sockets. A socket with an equal text is kept. If one cannot be opened, nothing changes.
 * 2. web_sockets_exchange() puts the configuration in force and closes the sockets that it does not
 *    name, or closes the new ones.
 */
#include "web/connection.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/tls_setup.h"
#include "net/tls.h"
#include "web/web_sockets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 64
#define HOST_MOST 256

struct web_socket {
	struct listen_socket *socket;
	bool is_old;			/* of web->next: it is in web->sockets, too */
};

/* A call of web_sockets_prepare. */
struct preparation {
	struct web *web;
	const struct settings *settings;
	struct conf_problems *problems;
	listen_accept *accepted;
	bool may_fail, has_failed;
};

static bool add_next(struct web *web, struct listen_socket *l, bool is_old)
{
	struct web_socket *more = mem_resize(web->next, (web->next_count + 1) * sizeof(*more));

	if (!more)
		return false;
	web->next = more;
	web->next[web->next_count++] = (struct web_socket){ l, is_old };
	return true;
}

/* Sets SO_REUSEPORT of the open sockets with this port. Returns their number. */
static size_t share_port(const struct web *web, uint16_t port, int on)
{
	size_t count = 0;

	for (size_t i = 0; i < web->socket_count; i++) {
		const struct listen_socket *l = web->sockets[i].socket;

		if (!listen_socket_is_unix(l) && l->port == port)
			count += setsockopt(l->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0;
	}
	return count;
}

/* Opens a socket whose address covers the address of an open socket, or is covered by it, as * and
   127.0.0.1: the kernel permits this while both sockets have SO_REUSEPORT. NULL: no open socket has
   this port, or as listen_socket_open(). */
static struct listen_socket *open_beside(const struct preparation *p,
					 const struct listen_config *config, char *why,
					 size_t why_size)
{
	struct web *web = p->web;
	struct listen_config shared = *config;
	struct listen_socket *l = NULL;
	int off = 0;

	shared.reuseport = true;
	if (share_port(web, config->port, 1) > 0)
		l = listen_socket_open(web->world->base, &shared, p->accepted, web, why, why_size);
	if (l)
		setsockopt(l->fd, SOL_SOCKET, SO_REUSEPORT, &off, sizeof(off));
	share_port(web, config->port, 0);
	return l;
}

/* Keeps the open socket with this text, or opens a socket. */
static void web_want(struct preparation *p, const struct listen_config *config, const char *text)
{
	struct web *web = p->web;
	struct listen_socket *l = NULL;
	char why[256] = "no memory";
	bool is_old = false;

	for (size_t i = 0; i < web->next_count; i++)
		if (strcmp(web->next[i].socket->text, text) == 0)
			return;
	for (size_t i = 0; i < web->socket_count && !is_old; i++) {
		l = web->sockets[i].socket;
		is_old = strcmp(l->text, text) == 0;
	}
	if (!is_old)
		l = listen_socket_open(web->world->base, config, p->accepted, web, why,
				       sizeof(why));
	if (!l && errno == EADDRINUSE && !config->is_whole_name)
		l = open_beside(p, config, why, sizeof(why));
	if (l && add_next(web, l, is_old))
		return;
	if (l && !is_old)
		listen_socket_close(&l, true);
	if (p->may_fail)
		return;
	p->has_failed = true;
	conf_problem_add(p->problems, false, NULL, 0, "HTTP: %s", why);
}

static void want_address(void *context, const char *ip)
{
	struct preparation *p = context;
	const struct settings *s = p->settings;
	struct listen_config config = {
		.host = ip,
		.port = (uint16_t)s->http_listen_port,
		.backlog = BACKLOG,
		.options = { .keepalive = s->tcp_keepalive,
			     .keepidle = (int)s->tcp_keepidle,
			     .keepintvl = (int)s->tcp_keepintvl,
			     .keepcnt = (int)s->tcp_keepcnt },
	};
	struct brief_address brief;
	struct address a;
	char text[128] = "";

	if (address_from_ip(&a, ip, config.port)) {
		brief_address_of(&brief, &a, 0);
		brief_address_and_port(&brief, text, sizeof(text));
	}
	web_want(p, &config, text);
}

static void want_all(struct preparation *p)
{
	const struct settings *s = p->settings;
	const char *at = s->http_listen_port > 0 ? s->http_listen_addr : NULL, *why;
	struct listen_config config = {
		.host = s->http_unix_socket,
		.is_whole_name = true,
		.backlog = BACKLOG,
		.unix_mode = (int)s->unix_socket_mode,
		.unix_group = s->unix_socket_group,
	};
	char host[HOST_MOST], text[HOST_MOST];
	struct address any;

	while (at && address_next_host(&at, host, sizeof(host))) {
		if (strcmp(host, "*") == 0) {
			want_address(p, "0.0.0.0");
			p->may_fail = true;
			want_address(p, "::");
			p->may_fail = false;
		} else if (address_from_ip(&any, host, 0)) {
			want_address(p, host);
		} else if ((why = address_each_of_name(host, want_address, p)) != NULL) {
			p->has_failed = true;
			conf_problem_add(p->problems, false, NULL, 0,
					 "HTTP: cannot listen on %s: %s", host, why);
		}
	}
	if (s->http_unix_socket && *s->http_unix_socket) {
		snprintf(text, sizeof(text), "unix:%s", s->http_unix_socket);
		web_want(p, &config, text);
	}
}

/* The TLS context of a configuration: after a SET of another setting, the present one. */
static void want_tls(struct preparation *p, const struct conf *conf)
{
	struct tls_config config = tls_config_of_clients(&conf->settings);
	struct web *web = p->web;
	bool is_about = !conf->set || text_starts(conf->set, "client_tls") ||
			text_starts(conf->set, "http_");
	char why[512];

	config.is_http = true;
	config.verify_peer = false;
	if (!conf->settings.http_tls)
		return;
	if (web->tls && !is_about)
		web->next_tls = tls_context_hold(web->tls);
	else
		web->next_tls = tls_context_new(&config, web->tls, why, sizeof(why));
	if (web->next_tls)
		return;
	p->has_failed = true;
	conf_problem_add_tls(p->problems, false, NULL, 0, "%s (TLS with HTTP clients)", why);
}

bool web_sockets_prepare(struct web *web, const struct conf *conf, listen_accept *accepted,
			 struct conf_problems *problems)
{
	struct preparation p = { .web = web,
				 .settings = &conf->settings,
				 .problems = problems,
				 .accepted = accepted };

	want_all(&p);
	want_tls(&p, conf);
	if (p.has_failed)
		web_sockets_exchange(web, false);
	return !p.has_failed;
}

void web_sockets_exchange(struct web *web, bool is_used)
{
	struct web_socket *closed = is_used ? web->sockets : web->next;
	size_t count = is_used ? web->socket_count : web->next_count;
	bool is_kept;

	for (size_t i = 0; i < count; i++) {
		is_kept = !is_used && closed[i].is_old;
		for (size_t n = 0; is_used && n < web->next_count; n++)
			is_kept |= web->next[n].socket == closed[i].socket;
		if (is_kept)
			continue;
		if (is_used)
			log_info("HTTP: not listening on %s any more", closed[i].socket->text);
		listen_socket_close(&closed[i].socket, true);
	}
	mem_free(closed);
	for (size_t i = 0; is_used && i < web->next_count; i++)
		if (!web->next[i].is_old)
			log_info("HTTP: listening on %s", web->next[i].socket->text);
	if (is_used ? web->tls != NULL : web->next_tls != NULL)
		tls_context_drop(is_used ? &web->tls : &web->next_tls);
	if (is_used) {
		web->sockets = web->next;
		web->socket_count = web->next_count;
		web->tls = web->next_tls;
	}
	web->next_tls = NULL;
	web->next = NULL;
	web->next_count = 0;
}

void web_sockets_set_accepting(struct web *web, bool on)
{
	for (size_t i = 0; i < web->socket_count; i++)
		listen_socket_set_accepting(web->sockets[i].socket, on);
}

void web_sockets_close(struct web *web)
{
	for (size_t i = 0; i < web->socket_count; i++)
		listen_socket_close(&web->sockets[i].socket, true);
	mem_free(web->sockets);
	web->socket_count = 0;
	if (web->tls)
		tls_context_drop(&web->tls);
}
