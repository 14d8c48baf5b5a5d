/*
 * The sockets that clients come to: every address of listen_addr, the Unix socket, or what systemd hands over.
 */
#include "session/world.h"

#include "base/log.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static void accepted(void *context, int fd, const struct address *peer, struct listener *from)
{
	struct world *w = context;

	world_wake(w);
	client_open(w, fd, peer, listener_is_unix(from), listener_port(from));
}

static bool keep(struct world *w, struct listener *l, struct conf_problems *problems, const char *what, const char *why)
{
	struct listener **more;

	if (!l) {
		conf_problem_add(problems, false, NULL, 0, "cannot listen on %s: %s", what, why);
		return false;
	}
	more = mem_resize(w->listeners, ((size_t)w->listener_count + 1) * sizeof(struct listener *));
	if (!more) {
		listener_close(&l, true);
		conf_problem_add(problems, false, NULL, 0, "no memory");
		return false;
	}
	w->listeners = more;
	w->listeners[w->listener_count++] = l;
	log_info("listening on %s", listener_text(l));
	return true;
}

static struct listen_config config_for(const struct settings *set, const char *host)
{
	return (struct listen_config){
		.host = host, .port = (uint16_t)set->listen_port, .backlog = (int)set->listen_backlog,
		.reuseport = set->so_reuseport, .defer_accept = set->tcp_defer_accept,
		.unix_mode = (int)set->unix_socket_mode, .unix_group = set->unix_socket_group,
		.options = {
			.keepalive = set->tcp_keepalive, .keepidle = (int)set->tcp_keepidle, .keepintvl = (int)set->tcp_keepintvl,
			.keepcnt = (int)set->tcp_keepcnt, .user_timeout = (int)set->tcp_user_timeout,
			.buffer = (int)set->tcp_socket_buffer,
		},
	};
}

static bool listen_on(struct world *w, const char *host, struct conf_problems *problems)
{
	struct listen_config config = config_for(&w->conf->settings, host);
	char why[256] = "";
	struct listener *l = listener_open(w->base, &config, accepted, w, why, sizeof(why));

	return keep(w, l, problems, host, why);
}

/* "*" is every address of both families; a kernel without IPv6 is no reason not to start. */
static bool listen_everywhere(struct world *w, struct conf_problems *problems)
{
	struct conf_problems of_v6 = { .count = 0 };
	bool ok = listen_on(w, "0.0.0.0", problems);

	if (!listen_on(w, "::", &of_v6))
		log_warning("not listening on IPv6: %s", of_v6.items[0].text);
	conf_problems_free(&of_v6);
	return ok;
}

static bool listen_on_all(struct world *w, const char *list, struct conf_problems *problems)
{
	bool ok = true;
	char host[256];

	while (list && *list) {
		size_t size;

		list += strspn(list, ", \t");
		size = strcspn(list, ", \t");
		if (size == 0)
			break;
		snprintf(host, sizeof(host), "%.*s", (int)size, list);
		list += size;
		if (strcmp(host, "*") == 0)
			ok &= listen_everywhere(w, problems);
		else
			ok &= listen_on(w, text_equal_fold(host, "localhost") ? "127.0.0.1" : host, problems);
	}
	return ok;
}

bool world_listen(struct world *w, const int *fds, int fd_count, struct conf_problems *problems)
{
	const struct settings *set = &w->conf->settings;
	bool ok = true;

	for (int i = 0; i < fd_count; i++) {
		char why[256] = "", what[32];
		struct listener *l = listener_adopt(w->base, fds[i], accepted, w, why, sizeof(why));

		snprintf(what, sizeof(what), "descriptor %d", fds[i]);
		ok &= keep(w, l, problems, what, why);
	}
	if (fd_count > 0)
		return ok;
	ok &= listen_on_all(w, set->listen_addr, problems);
	if (set->unix_socket_dir && *set->unix_socket_dir)
		ok &= listen_on(w, set->unix_socket_dir, problems);
	if (w->listener_count == 0 && ok) {
		conf_problem_add(problems, false, NULL, 0, "nowhere to listen: neither listen_addr nor unix_socket_dir is set");
		ok = false;
	}
	return ok;
}

void world_stop_listening(struct world *w, bool unix_too)
{
	int kept = 0;

	for (int i = 0; i < w->listener_count; i++) {
		if (listener_is_unix(w->listeners[i]) && !unix_too)
			w->listeners[kept++] = w->listeners[i];
		else
			listener_close(&w->listeners[i], true);
	}
	w->listener_count = kept;
	if (kept == 0) {
		mem_free(w->listeners);
		w->listeners = NULL;
	}
}
