/*
 * The end of connections.
 *
 * client_end() and server_end() only record the reason and put the connection on world->ending. This file does the rest at one
 * point of the turn: the log line, the error for the client, returning or closing its server, and removing all references to
 * the connection. No event handler is on the stack then, so no function has to check whether its connection still exists.
 *
 * An end may cause other ends: with the server of a look-up its logins end, and with a client its server if it owes answers.
 * They are put on the same list, which is empty when the reap is over.
 *
 * Invariant: on return, no connection of the world is ending, and nothing refers to a connection that has ended.
 */
#include "core/reap.h"

#include "auth/auth.h"
#include "auth/client_address.h"
#include "auth/lookup.h"
#include "backend/dial.h"
#include "state/notify_server.h"
#include "state/session_functions.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "backend/welcome.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "cancel/cancel.h"
#include "login/login.h"
#include "pg/build.h"
#include "prepared/prepared.h"
#include "relay/release.h"

#include <stdio.h>

/* Releases the members that clients and servers share. The caller frees the struct. */
static void release_peer(struct peer *peer)
{
	bytes_free(&peer->held);
	list_remove(&peer->again);
	list_remove(&peer->node);
	mem_free(peer->end_detail);
}

/* ---- servers ---- */

static void log_server(const struct server *s, enum close_reason why, const char *detail)
{
	const struct close_reason_row *row = close_reason_row(why);
	const struct settings *set = &s->peer.world->conf->settings;
	long long age = (s->peer.world->now_wall - s->peer.connected_at) / USEC;
	char who[256], text[REASON_LOG_TEXT];

	server_text(s, who, sizeof(who));
	close_reason_log_text(why == REASON_SERVER_SECRET ? REASON_AUTHREQ_FAILED : why, detail, text, sizeof(text));
	if (set->log_disconnections)
		log_info("%s closing because: %s (age=%llds)", who, text, age);
	if (row->fault == FAULT_SERVER && set->log_pooler_errors && s->peer.ended_in != SERVER_LOGIN)
		log_warning("%s server trouble: %s", who, text);
}

/* Sends Terminate to a server between two messages. In the middle of a message the connection is just closed. */
static void send_terminate(struct server *s)
{
	struct bytes out = BYTES_EMPTY;

	if (s->peer.stream.phase != STREAM_OPEN || s->dial || s->pooled.is_cancel || stream_unsent(&s->peer.stream) > 0 ||
	    !ledger_is_empty(&s->ledger))
		return;
	pg_build_terminate(&out);
	if (!out.failed)
		stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
}

/* Whether the server failed by its own fault before it served a client: opening another one at once would probably fail too. */
static bool failed_unused(const struct server *s, enum close_reason why)
{
	return !s->was_ended && !s->pooled.lent && s->pooled.opened > 0 && s->peer.world->now - s->pooled.opened < USEC &&
	       close_reason_row(why)->fault == FAULT_SERVER;
}

static void free_server(struct server *s)
{
	struct world *w = s->peer.world;

	server_delist(s);
	stream_close(&s->peer.stream);
	dial_free(s);
	ledger_clear(&s->ledger);
	prepared_server_free(s);
	params_drop(w->params, &s->params);
	params_drop(w->params, &s->first_params);
	params_drop(w->params, &s->pooled.startup);
	welcome_drop(&s->welcome);
	mem_free(s->cancel_key);
	mem_free(s->address);
	mem_free(s->host);
	mem_free(s->session.role);
	mem_free(s->session.search_path);
	mem_free(s->task_words);
	mem_free(s->session.drawn);
	session_question_forget(s);
	session_functions_forget(s);
	release_peer(&s->peer);
	pool_mark(s->pooled.pool);
	mem_free(s);
}

/* Unlinks the client, which ends too. It gets no error if the server has sent a fatal error already, or in the middle of a message. */
static void unlink_client(struct server *s)
{
	struct client *c = client_of(s->pooled.link);

	ASSERT(peer_is_ending(&c->peer));
	c->error_sent |= s->said_fatal || (s->peer.passing > 0 && !s->peer.passing_dropped);
	pool_unlink(&s->pooled, SERVER_DEAD, true, s->peer.world->now);
}

static void tell_server_end(struct server *s)
{
	enum close_reason why = s->peer.end_reason;
	enum login_failure failure;
	char text[1024];

	close_reason_text(why, s->peer.end_detail, text, sizeof(text));
	close_reason_count(why);
	log_server(s, why, s->peer.end_detail);
	if (s->lookup)
		lookup_server_gone(s, why, text);
	send_terminate(s);
	if (s->pooled.is_cancel || (s->peer.ended_in != SERVER_LOGIN && !failed_unused(s, why)))
		return;
	if (server_info_failed(s, why, text, &failure) && s->pooled.dedicated)
		login_server_failed(s, failure, text);
}

static void reap_server(struct server *s)
{
	if (s->pooled.link)
		unlink_client(s);
	if (s->peer.fate == PEER_ENDS)
		tell_server_end(s);
	if (s->peer.ended_in == SERVER_LISTENING)
		notify_server_end(s, s->peer.end_reason);
	cancel_forget_server(s);
	free_server(s);
}

/* ---- clients ---- */

/* Logs an unknown user, for every reason of the end. Not logged earlier, so that the client cannot measure the time of logging. */
static void log_unknown_user(const struct client *c, const char *who)
{
	char user[PRINTABLE_NAME];

	if (c->login && (c->login->sought == USER_NOT_FOUND || c->login->sought == USER_NOT_LISTED))
		log_info("%s no such user: %s", who, printable_name(c->login->user, user, sizeof(user)));
}

/* Whether the client has named its user and database, but its login failed. */
static bool is_failed_login(const struct client *c)
{
	bool was_logging_in = c->peer.ended_in == CLIENT_STARTUP || c->peer.ended_in == CLIENT_AUTH || c->peer.ended_in == CLIENT_LOOKUP;

	return was_logging_in && c->login && c->login->user && c->login->database;
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

/* Whether the client left before its first byte, as the health checks of load balancers do: several times a second, and without meaning. */
static bool is_health_check(const struct client *c, enum close_reason why)
{
	const struct login *l = c->login;

	return why == REASON_CLIENT_EOF && l && l->step == LOGIN_PACKET && !l->ssl_asked && !l->gss_asked && !l->direct &&
	       bytes_size(&c->peer.held) == 0;
}

static void log_client(const struct client *c, enum close_reason why, const char *detail)
{
	const struct settings *set = &c->peer.world->conf->settings;
	long long age = (c->peer.world->now_wall - c->peer.connected_at) / USEC;
	bool by_itself = close_reason_row(why)->told == TOLD_NOTHING;
	char who[256], text[REASON_LOG_TEXT];

	if (!set->log_disconnections && (by_itself || !(set->log_pooler_errors || set->log_connections)))
		return;
	client_text(c, who, sizeof(who));
	close_reason_log_text(why, detail, text, sizeof(text));
	log_unknown_user(c, who);
	if (!by_itself && is_failed_login(c))
		log_failed_login(c, who);
	if (set->log_disconnections)
		log_write(is_health_check(c, why) ? LEVEL_DEBUG : LEVEL_LOG, "%s closing because: %s (age=%llds)", who, text, age);
	if (!by_itself && set->log_pooler_errors)
		log_warning("%s pooler error: %s", who, text);
}

/* Returns the SQLSTATE for the client: the one of the server if its error is passed on. */
static const char *sqlstate_of(const struct client *c, enum close_reason why)
{
	bool in_session = c->peer.ended_in == CLIENT_IDLE || c->peer.ended_in == CLIENT_WAITING || c->peer.ended_in == CLIENT_ACTIVE;
	const struct server_info *info = c->pooled.pool ? c->pooled.pool->server_cache : NULL;

	if (why == REASON_SERVER_SAID && info && info->failure.sqlstate[0])
		return info->failure.sqlstate;
	return in_session ? "08P01" : close_reason_row(why)->sqlstate;
}

static void say_why(struct client *c, enum close_reason why, const char *text)
{
	const struct close_reason_row *row = close_reason_row(why);
	const struct pool *pool = c->pooled.pool;
	struct bytes out = BYTES_EMPTY;
	char scrap[4096], detail[1024] = "";

	if (c->login && !c->login->out.failed) {
		/* messages that were to be sent together with the next message */
		out = c->login->out;
		c->login->out = (struct bytes)BYTES_EMPTY;
	}
	if (row->told == TOLD_LOGIN_ERROR && pool && pool->login_failed && pool_login_error(pool))
		snprintf(detail, sizeof(detail), "The last login at the server failed: %s", pool_login_error(pool));
	pg_build_error(&out, "FATAL", sqlstate_of(c, why), text, *detail ? detail : NULL, row->hint);
	if (!out.failed && stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out))) {
		/* with unread input the kernel would send a reset, which may arrive before the error */
		for (int i = 0; i < 64 && stream_read(&c->peer.stream, scrap, sizeof(scrap)) > 0; i++)
			;
	}
	bytes_free(&out);
}

static void free_client(struct client *c)
{
	struct world *w = c->peer.world;

	if (c->pooled.state != CLIENT_DEAD)
		pool_client_become(w->pools, &c->pooled, CLIENT_DEAD, w->now);
	stream_close(&c->peer.stream);
	if (c->login)
		bytes_wipe(&c->peer.held);	/* it may contain a password */
	login_free(c);
	client_address_leave(c);
	prepared_client_free(c);
	if (c->params)
		params_drop(w->params, &c->params);
	session_state_free(c);
	if (c->pooled.startup)
		params_drop(w->params, &c->pooled.startup);
	release_peer(&c->peer);
	mem_free(c);
}

/* Whether an error can be sent: not if the client has left, has got an error already, or is in the middle of a message. */
static bool may_be_told(const struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	if (close_reason_row(c->peer.end_reason)->told == TOLD_NOTHING || c->error_sent || c->peer.stream.phase != STREAM_OPEN)
		return false;
	if (c->peer.ended_in == CLIENT_WAITING_CANCEL || c->peer.ended_in == CLIENT_ACTIVE_CANCEL)
		return false;
	return !s || !((s->peer.passing > 0 && !s->peer.passing_dropped) || s->said_fatal);
}

static void forget_client(struct client *c)
{
	struct world *w = c->peer.world;

	if (c->is_console && w->console)
		w->console->closed(w->console_context, c);
	cancel_forget_client(c);
}

/* Ends the client. Its server is returned to the pool, or ends too. */
static void reap_ended_client(struct client *c)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;
	enum close_reason why = c->peer.end_reason;
	bool is_told = may_be_told(c);
	char text[1024];

	close_reason_count(why);
	log_client(c, why, c->peer.end_detail);
	forget_client(c);
	if (s)
		release_ended_client(s);
	if (is_told)
		say_why(c, why, close_reason_text(why, c->peer.end_detail, text, sizeof(text)));
	free_client(c);
}

static void reap_client(struct client *c)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	/* a server with its own reason to end comes first */
	if (s && peer_is_ending(&s->peer))
		reap_server(s);
	if (c->peer.fate == PEER_ENDS) {
		reap_ended_client(c);
		return;
	}
	forget_client(c);
	free_client(c);
}

/* ---- all ---- */

void world_reap_ending(struct world *w)
{
	struct list *node;

	while ((node = list_first(&w->ending)) != NULL) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);

		if (peer->is_client)
			reap_client(LIST_OBJECT(peer, struct client, peer));
		else
			reap_server(LIST_OBJECT(peer, struct server, peer));
	}
}
