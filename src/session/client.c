/*
 * A client connection: from the accepted descriptor to the last word. What happens in between lies in login.c,
 * relay_client.c and cancel.c; here is what they all need: the beginning, the end, and the text that log lines begin with.
 *
 * Invariant: a client is in exactly one state, on exactly the list of that state, and dies once (client_end). The struct itself
 * stays until the turn ends, so that whoever is on the stack may still look at its state.
 */
#include "session/client.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/build.h"
#include "session/auth.h"
#include "session/cancel.h"
#include "session/link.h"
#include "session/login.h"
#include "session/origin.h"
#include "session/prepared.h"
#include "session/relay.h"

#include <string.h>
#include <unistd.h>

static void on_readable(struct stream *stream)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	/* mostly it has a request */
	if (c->policy.state == CLIENT_IDLE && !c->is_console)
		relay_from_client(c, true);
	else
		client_readable(c, true);
}

void client_readable(struct client *c, bool from_socket)
{
	switch ((enum client_state)c->policy.state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTH:
	case CLIENT_LOOKUP:
	case CLIENT_WAITING_LOGIN:
		login_read(c, from_socket);
		return;
	case CLIENT_IDLE:
	case CLIENT_WAITING:
	case CLIENT_ACTIVE:
		if (c->is_console)
			console_read(c, from_socket);
		else
			relay_from_client(c, from_socket);
		return;
	case CLIENT_WAITING_CANCEL:
	case CLIENT_ACTIVE_CANCEL:
		cancel_read(c);
		return;
	case CLIENT_DEAD:
	case CLIENT_STATES:
		return;
	}
}

static void on_drained(struct stream *stream)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	relay_client_drained(c);
}

static void on_secured(struct stream *stream, const char *error)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	login_secured(c, error);
}

const struct stream_ops client_stream_ops = {
	.on_readable = on_readable,
	.on_drained = on_drained,
	.on_secured = on_secured,
};

/* The limit that a crowd of logins runs against. */
static enum goodbye too_many(const struct world *w)
{
	return w->conf->settings.max_login_clients > 0 ? GOODBYE_MAX_LOGIN_CLIENTS : GOODBYE_MAX_CLIENT_CONN;
}

bool client_open(struct world *w, int fd, const struct address *remote, bool is_unix, uint16_t port)
{
	struct client *c = mem_try(sizeof(*c));

	if (c)
		c->peer.world = w;
	if (!c || !login_begin(c) || !stream_open(&c->peer.stream, w->base, fd, &client_stream_ops)) {
		if (c)
			login_free(c);
		mem_free(c);
		close(fd);
		log_warning("out of memory: a new connection was closed");
		return false;
	}
	c->peer.is_client = true;
	c->peer.id = ++w->last_id;
	c->peer.connected_at = c->peer.request_at = w->now_wall;
	c->last_active = c->login_since = w->now;
	list_init(&c->peer.again);
	list_init(&c->peer.node);
	list_append(&w->clients, &c->peer.node);
	brief_address_of(&c->peer.remote, remote, port);
	/* who cannot be told is nobody, and not root */
	if (is_unix && !address_unix_peer(fd, &c->peer.remote.u.peer.pid, &c->peer.remote.u.peer.uid))
		c->peer.remote.u.peer.uid = UINT32_MAX;
	pool_client_init(w->pools, &c->policy, w->now);
	if (!origin_enter(c)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return false;
	}
	/* tcp_defer_accept: what the client has to say is mostly here already */
	client_readable(c, true);
	if (origin_has_login(c) && origin_is_crowded(w) && !origin_make_room(c, too_many(w)))
		client_end(c, too_many(w), NULL);
	return true;
}

const char *client_text(const struct client *c, char *buf, size_t size)
{
	char where[80], shown[2][PRINTABLE_NAME];
	const char *database = c->policy.pool ? c->policy.pool->database->name : c->login ? c->login->database : NULL;
	const char *user = c->policy.login_user ? c->policy.login_user->name : c->login ? c->login->user : NULL;

	snprintf(buf, size, "C-0x%llx: %s/%s@%s", (unsigned long long)c->peer.id,
		 database ? printable_name(database, shown[0], sizeof(shown[0])) : "(nodb)",
		 user ? printable_name(user, shown[1], sizeof(shown[1])) : "(nouser)",
		 brief_address_and_port(&c->peer.remote, where, sizeof(where)));
	return buf;
}

bool client_send(struct client *c, const struct bytes *bytes)
{
	if (c->policy.state == CLIENT_DEAD)
		return false;
	if (bytes->failed) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return false;
	}
	if (!stream_write_bytes(&c->peer.stream, bytes->data + bytes->start, bytes_size(bytes))) {
		client_end(c, GOODBYE_CLIENT_EOF, NULL);
		return false;
	}
	return true;
}

/* The client left by itself: there is nobody to tell. */
static bool left_by_itself(enum goodbye why)
{
	switch (why) {
	case GOODBYE_CLIENT_CLOSE: case GOODBYE_CLIENT_EOF: case GOODBYE_CLIENT_NOT_READY: case GOODBYE_CLIENT_IN_QUERY:
	case GOODBYE_CANCEL_DONE: case GOODBYE_CANCEL_UNKNOWN: case GOODBYE_CANCEL_IDLE: case GOODBYE_CANCEL_LOST:
	case GOODBYE_CANCEL_CROWD: case GOODBYE_CANCEL_FAILED: case GOODBYE_CANCEL_WAIT_TIMEOUT: case GOODBYE_TLS_HANDSHAKE:
		return true;
	default:
		return false;
	}
}

/* It has said who it is, and is not let in. */
static bool is_failed_login(const struct client *c)
{
	bool is_stranger = c->policy.state == CLIENT_STARTUP || c->policy.state == CLIENT_AUTH || c->policy.state == CLIENT_LOOKUP;

	return is_stranger && c->login && c->login->user && c->login->database;
}

static void log_failed_login(const struct client *c, const char *who)
{
	char database[PRINTABLE_NAME], user[PRINTABLE_NAME], rule[512];

	if (c->peer.world->conf->settings.log_connections)
		log_info("%s login failed: db=%s user=%s", who, printable_name(c->login->database, database, sizeof(database)),
			 printable_name(c->login->user, user, sizeof(user)));
	if (auth_rule_text(c, rule, sizeof(rule)))
		log_info("%s %s", who, rule);
}

static void log_end(const struct client *c, enum goodbye why, const char *detail)
{
	const struct goodbye_row *row = goodbye_row(why);
	const struct settings *set = &c->peer.world->conf->settings;
	long long age = (c->peer.world->now_wall - c->peer.connected_at) / USEC;
	bool by_itself = left_by_itself(why);
	char who[256], text[GOODBYE_LOG_TEXT];

	if (row->level >= LEVEL_DEBUG && !log_is_on(row->level))
		return;
	if (!set->log_disconnections && (by_itself || !(set->log_pooler_errors || set->log_connections)))
		return;
	client_text(c, who, sizeof(who));
	goodbye_log_text(why, detail, text, sizeof(text));
	if (!by_itself && is_failed_login(c))
		log_failed_login(c, who);
	if (set->log_disconnections)
		log_write(row->level >= LEVEL_DEBUG ? row->level : LEVEL_LOG, "%s closing because: %s (age=%llds)", who, text, age);
	if (!by_itself && set->log_pooler_errors)
		log_warning("%s pooler error: %s", who, text);
}

static void say_why(struct client *c, enum goodbye why, const char *text)
{
	struct bytes out = BYTES_EMPTY;
	bool in_session = c->policy.state == CLIENT_IDLE || c->policy.state == CLIENT_WAITING || c->policy.state == CLIENT_ACTIVE;
	char scrap[4096];

	if (c->login) {
		/* what was to go out with the next thing said */
		out = c->login->out;
		c->login->out = (struct bytes)BYTES_EMPTY;
	}
	pg_build_error(&out, "FATAL", in_session ? "08P01" : goodbye_row(why)->sqlstate, text, NULL, NULL);
	if (!out.failed && stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out))) {
		/* input left unread would make the kernel send a reset that may overtake the error */
		for (int i = 0; i < 64 && stream_read(&c->peer.stream, scrap, sizeof(scrap)) > 0; i++)
			;
	}
	bytes_free(&out);
}

/* It has no server any more, and nobody who waits for it. */
static void bury(struct client *c)
{
	struct world *w = c->peer.world;

	pool_client_become(w->pools, &c->policy, CLIENT_DEAD, w->now);
	stream_close(&c->peer.stream);
	if (c->login)
		bytes_wipe(&c->peer.held);	/* a password may be among them */
	else
		bytes_free(&c->peer.held);
	login_free(c);
	origin_leave(c);
	prepared_client_free(c);
	if (c->params)
		params_drop(w->params, &c->params);
	if (c->policy.startup)
		params_drop(w->params, &c->policy.startup);
	list_remove(&c->peer.again);
	list_remove(&c->peer.node);
	list_append(&w->dead_clients, &c->peer.node);
}

void client_end(struct client *c, enum goodbye why, const char *detail)
{
	struct world *w = c->peer.world;
	struct server *s = c->policy.link ? server_of(c->policy.link) : NULL;
	bool may_say;
	char text[1024];

	if (c->policy.state == CLIENT_DEAD)
		return;
	if (why == GOODBYE_CLIENT_EOF && stream_abuse(&c->peer.stream)) {
		why = GOODBYE_CLIENT_TLS;
		detail = stream_abuse(&c->peer.stream);
	}
	may_say = !left_by_itself(why) && !c->told && c->peer.stream.phase == STREAM_OPEN;
	if (c->policy.state == CLIENT_WAITING_CANCEL || c->policy.state == CLIENT_ACTIVE_CANCEL)
		may_say = false;
	if (s) {
		/* not into the middle of a message, and not after the server has said it */
		if ((s->peer.passing > 0 && !s->peer.passing_dropped) || s->said_fatal)
			may_say = false;
		if (why == GOODBYE_CLIENT_CLOSE && !server_may_part(s))
			why = GOODBYE_CLIENT_NOT_READY;
	}
	goodbye_count(why);
	log_end(c, why, detail);
	if (c->is_console && w->console)
		w->console->closed(w->console_context, c);
	cancel_forget_client(c);
	if (s)
		link_break(s, true);
	if (may_say)
		say_why(c, why, goodbye_text(why, detail, text, sizeof(text)));
	bury(c);
}

void client_let_go(struct client *c)
{
	struct world *w = c->peer.world;

	ASSERT(!c->policy.link);
	if (c->is_console && w->console)
		w->console->closed(w->console_context, c);
	cancel_forget_client(c);
	bury(c);
}

void client_end_bad_header(struct client *c, const uint8_t *at, size_t n)
{
	char hex[2 * 8 + 1];

	text_hex(hex, at, n < 8 ? n : 8);
	client_end(c, GOODBYE_BAD_HEADER, hex);
}
